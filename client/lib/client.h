/*
 * client.h - the inside of hf_client and hf_lease.
 *
 * One mutex guards everything in both, except what is said to be constant. It is never held while user code, the transport or a
 * system call that may block runs. Threads: the callers', the transport's, one that renews (renew.c) and one that tells losses
 * (notify.c).
 */
#ifndef HOLDFAST_CLIENT_CLIENT_H
#define HOLDFAST_CLIENT_CLIENT_H

#include <pthread.h>
#include <sys/types.h>

#include "client/lib/backoff.h"
#include "client/lib/call.h"
#include "client/lib/mux.h"
#include "client/lib/ports.h"
#include "client/lib/rule.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"

/* What is held. The rule, its renewal and its loss are the same for all. */
struct hfi_kind {
    const char *word, *named; /* for messages */
    const char *renew;        /* the method that renews it, and what that answers */
    const ProtobufCMessageDescriptor *renewed;
};
extern const struct hfi_kind hfi_leases, hfi_operations; /* renew_request.c */

struct hfi_held_item {
    char *resource; /* constant; an operation's key */
    int64_t token;  /* constant */
};

struct hf_lease {
    struct hf_client *client;
    const struct hfi_kind *kind;    /* constant */
    struct hf_operation *operation; /* the handle that it is the lease of, which goes with it; NULL = none */
    struct hf_lease *next, **prev;  /* among the client's; prev is NULL before and after that */
    unsigned refs;                  /* the handle, each renewal in flight, a callback that runs */
    struct hfi_rule rule;
    size_t n_items; /* constant, like items[] */
    struct hfi_held_item items[HF_RESOURCES_MAX];

    int64_t write_seq;   /* the last one used */
    bool writing;        /* or, of an operation, marking it or ending it */
    pthread_cond_t idle; /* writing became false */

    bool no_renewal;
    bool renewing;     /* a renewal is in flight that is not overdue */
    unsigned failures; /* renewals in a row */
    int64_t renew_at_ms;

    hf_loss_fn on_loss;
    void *on_loss_arg;
    bool loss_queued; /* in client->losses */
    struct hf_lease *next_loss;
};

struct hfi_renewal; /* renew.c */
struct hfi_wait;    /* wait.h */

struct hf_client {
    pid_t pid; /* constant, like the next lines */
    char *servers, *name_space, *holder;
    char *authorization; /* "Bearer hfk_…"; NULL = none. Never logged */
    int64_t timeout_ms, connect_timeout_ms;
    void (*log)(hf_log_level level, const char *line, void *arg);
    void *log_arg;
    hf_loss_fn on_loss;
    void *on_loss_arg;
    struct hfi_ports ports;

    pthread_mutex_t mutex;
    struct hfi_mux mux;
    struct hfi_budget budget;
    bool closing;

    struct hfi_wait *waits;    /* acquires that wait, each in its caller's thread */
    pthread_cond_t waits_gone; /* waits became NULL */
    bool ending;               /* no new ones: all are given up at once */
    uint8_t *ping;             /* constant: the small call of mux.h */

    struct hf_lease *leases;

    struct hfi_renewal *renewals; /* in flight, or answered and not yet looked at */
    int64_t wake_at_ms;           /* the renewal thread sleeps until then */
    int64_t look_at_ms;           /* no lease wants its attention before */
    int wake_fd;                  /* eventfd; -1 without threads */
    int timer_fd;
    pthread_t renew_thread;
    bool has_renew_thread;

    struct hf_lease *losses, **losses_end;
    struct hf_lease *telling; /* whose callback runs now, in the thread `teller` */
    pthread_t teller;
    pthread_cond_t loss_news; /* a loss was queued, or closing */
    pthread_cond_t told;      /* telling became NULL */
    pthread_t notify_thread;
    bool has_notify_thread;
};

/* client.c */
hf_result hfi_client_new(const hf_client_options *options, const struct hfi_ports *ports, hf_client **client, hf_error *error)
    __attribute__((warn_unused_result));
/* False in a forked child: nothing of the client may be touched. */
bool hfi_same_process(const struct hf_client *client);
int64_t hfi_now(struct hf_client *client);
void hfi_log(struct hf_client *client, hf_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* status.c */
hf_result hfi_error_misuse(hf_error *error);
hf_result hfi_error_no_memory(hf_error *error);
/* The lease is over for this reason; returns HF_LOST. */
hf_result hfi_error_lost(hf_error *error, const char *reason, const char *resource);
/* What a call came to: fills in `error` from it. */
hf_result hfi_error_from_call(hf_error *error, hf_result result, const struct hfi_call *call);

/* lease.c: all with the lock held, but for the first three */
struct hf_lease *hfi_lease_new(struct hf_client *client, const struct hfi_kind *kind, size_t n_items, const char *const *resources,
                               const int64_t *tokens);
void hfi_lease_delete(struct hf_lease *lease); /* one that was never added */
/* Its n_items resources and tokens as a request has them; the lease keeps the names. */
void hfi_lease_items(const struct hf_lease *lease, Holdfast__V1__LeaseItem *items, Holdfast__V1__LeaseItem **pointers);
/* The client's from now on: renewed if it is due, watched for its deadline. */
void hfi_lease_add(struct hf_lease *lease);
void hfi_lease_unref(struct hf_lease *lease);
/* Held now; sees to it that a deadline passed is told. */
bool hfi_lease_held(struct hf_lease *lease);
void hfi_lease_lose(struct hf_lease *lease, const char *reason);
/* Waits for what is in flight under the lease; on HF_OK the caller's call is what is in flight, and hfi_lease_leave ends that.
 * HF_LOST: nothing may be sent under it. Both take the lock. */
hf_result hfi_lease_enter(struct hf_lease *lease, hf_error *error) __attribute__((warn_unused_result));
void hfi_lease_leave(struct hf_lease *lease);

/* adopt.c */
/* Renews by a call of its own, with the lock free. On HF_OK the rule has been moved on; `fresh`: nothing is known of the lease's
 * deadline, and the answer begins its rule anew. HF_UNAVAILABLE: the rule is as before. The lease need not be the client's yet. */
hf_result hfi_renew_by_call(struct hf_lease *lease, int64_t timeout_ms, bool fresh, hf_error *error);

/* renew.c */
/* One turn of the renewal: takes in answers, finds leases past their deadline, sends what is due. Returns when to come again.
 * Lock held; released while sending. */
int64_t hfi_renew_step(struct hf_client *client);
void *hfi_renew_main(void *client);
/* The thread looks at once, or (without hurry) if `at_ms` is before its next turn. Lock held. */
void hfi_renew_wake(struct hf_client *client, int64_t at_ms);
/* A lease is to be looked at then. Lock held. */
void hfi_renew_expect(struct hf_client *client, int64_t at_ms);
void hfi_renew_drop_all(struct hf_client *client); /* after the transport was stopped */
int64_t hfi_renew_interval_ms(int64_t ttl_ms);
/* What the answer to a renewal says of this lease: items[0..n_items). False if it has to be tried again. Lock held. */
bool hfi_renew_absorb(struct hf_lease *lease, Holdfast__V1__RenewResult *const *items, int64_t sent_ms);

/* renew_request.c */
struct hfi_renew_request {
    union {
        ProtobufCMessage base;
        Holdfast__V1__RenewRequest leases;
        Holdfast__V1__RenewOperationsRequest operations;
    } as;
    void *items, *pointers;
};
/* A request for these leases, all of one kind and TTL, which keep their names: `as.base` is the message. False: no memory. */
bool hfi_renew_request_init(struct hfi_renew_request *request, struct hf_lease *const *leases, size_t n)
    __attribute__((warn_unused_result));
void hfi_renew_request_release(struct hfi_renew_request *request);
/* The results in an answer, in its memory. */
Holdfast__V1__RenewResult *const *hfi_renew_results(const struct hfi_kind *kind, const ProtobufCMessage *response, size_t *n);

/* notify.c */
/* Tells one loss; false if there was none. Lock held; released during the callback. */
bool hfi_notify_step(struct hf_client *client);
void *hfi_notify_main(void *client);
void hfi_notify_queue(struct hf_lease *lease);  /* lock held */
void hfi_notify_forget(struct hf_lease *lease); /* lock held; waits for a callback of this lease in another thread */

#endif
