/*
 * call.h - a call on its way through a service; for the .c files of this room.
 *
 * Life: svc_dispatch makes a svc_call in the call's arena and gives it to the method's handler, which either ends it at
 * once (svc_fail, svc_reply) or fills in items and submits them. `finish` is called once: when every item is done, or when
 * patience is at its end; it ends the call. A call that was ended with items still out keeps its arena until the last of
 * them is back.
 */
#ifndef HOLDFAST_SERVICE_CALL_H
#define HOLDFAST_SERVICE_CALL_H

#include "base/list.h"
#include "core/waitq.h"
#include "service/health.h"
#include "service/service.h"
#include "service/watch.h"

enum { SVC_ERRORS = 100, SVC_OUTCOMES = 230, SVC_ROWS_MAX = 64 };

struct svc_counts {
    int64_t calls, ok;
    int64_t errors[SVC_ERRORS]; /* by reason */
};

/* Waiting: wait.h. */
struct svc_waits {
    struct co_waitq queue;
    struct list lines;
    struct io_timer timer;
    int64_t timer_at;                                                         /* INT64_MAX = not set */
    int64_t hand_overs, tries, arrivals, wake_ups, turns, leaves, given_back; /* for Stats */
};

enum { SVC_OP_BUCKETS = 4096 };
struct svc_op_line;

/* Waiting for operations: operation_wait.h. */
struct svc_op_waits {
    struct svc_op_line *lines[SVC_OP_BUCKETS]; /* by hash of namespace and key */
    size_t n;                                  /* calls that wait */
    struct heap ends, polls;
    struct io_timer timer;
    int64_t timer_at; /* INT64_MAX = not set */
};

struct svc_auth;
struct svc_principal;

struct svc {
    struct st_store *store;
    struct io *io;
    struct svc_config cfg;
    int64_t started_ms;
    bool draining, closed; /* closed: the store takes nothing more */
    size_t in_flight;
    struct svc_waits waits;
    struct svc_op_waits op_waits;
    struct svc_health health;
    struct svc_watches watches;
    struct list streams;                    /* calls that go on: stream.h */
    struct svc_tally *tally;                /* tally.h */
    struct svc_auth *auth;                  /* auth.h; NULL: nobody needs a key */
    struct svc_counts counts[SVC_ROWS_MAX]; /* by row of the table; the row behind the last: unknown methods */
    int64_t outcomes[SVC_OUTCOMES];         /* by enum st_outcome */
};

struct svc_call {
    struct svc *svc;
    const struct svc_method *method;
    struct hp_call *call; /* NULL once answered */
    struct hp_arena *arena;
    const void *request; /* of method->rpc.request's type */
    int64_t received_ms, deadline_ms;
    struct io_timer patience;
    bool gone;                   /* nobody reads the answer */
    bool uncounted;              /* the server's own (metrics.c) */
    struct svc_wait *wait;       /* while it waits in a queue */
    struct svc_op_wait *op_wait; /* while it waits for an operation */
    void *state;                 /* the handler's own */

    struct svc_principal *principal; /* who calls; NULL: a server without keys, or a method for anyone. What he may see: scope.h */
    struct list *in_auth;            /* auth.c: it is in this list, by of_auth */
    struct list_node of_auth;
    /* Set by the handler of a stream: ends the call with this status, for its principal may not go on. */
    void (*expel)(struct svc_call *sc, const struct hp_status *status);

    struct st_item *items;
    bool *done; /* by item */
    size_t n_items, n_open;
    void (*finish)(struct svc_call *sc);
};

/* How long a call may take. */
enum svc_patience {
    SVC_WHOLE, /* the caller's timeout */
    SVC_BRIEF  /* at most a second: one locked row must not delay the others (design: Renew, Release, Check) */
};

/* Zeroed items in the arena, with namespace and kind filled in. NULL: the call has ended. */
struct st_item *svc_items(struct svc_call *sc, size_t n, enum st_kind kind, const char *ns);
/* The items are on their way; `finish` will be called later. */
void svc_submit(struct svc_call *sc, enum svc_patience patience, void (*finish)(struct svc_call *sc));

/* When a call has to be answered, and until when the store may send what it asks for: a margin before its caller gives up, and a
 * margin before that. A margin is 50 ms, less for callers with little time. */
void svc_times(const struct svc_call *sc, int64_t *answer_ms, int64_t *send_ms);

/* What became of an item; 0 = it is still out, and nobody knows. */
enum st_outcome svc_outcome(const struct svc_call *sc, size_t i);
/* True if the item's outcome is one of those that fail whatever the kind (no such namespace, database down, …), or still
 * unknown; then `status` says so. */
bool svc_item_failed(const struct svc_call *sc, size_t i, struct hp_status *status);
/* The same for an item that is done. */
bool svc_item_status(const struct svc *svc, const struct st_item *item, struct hp_status *status);
/* It waited as long as it could and was never sent: for want of a connection, or of a turn. */
void svc_timed_out(const struct svc *svc, struct hp_status *status);
/* Ends the call if its only item failed in that way. */
bool svc_failed(struct svc_call *sc);

/* The call is over; it must not be touched any more. */
void svc_reply(struct svc_call *sc, const ProtobufCMessage *response);
void svc_fail(struct svc_call *sc, const struct hp_status *status);
void svc_fail_reason(struct svc_call *sc, enum hp_reason reason);
/* There is no memory for the call (budget or process): RESOURCE_EXHAUSTED. */
void svc_no_memory(struct svc_call *sc);
/* Its caller is gone: it is answered with what costs least, which is this status. */
extern const struct hp_status svc_gone;
void svc_fail_gone(struct svc_call *sc);
/* INTERNAL: the store told an outcome that this kind cannot have. */
void svc_fail_outcome(struct svc_call *sc, const struct st_item *item);

/* The request_id that was given, or, if it is empty, a new one: 128 random bits in hexadecimal. NULL: no memory. */
const char *svc_request_id(struct svc_call *sc, const char *given);

/* Milliseconds since the call came in. */
int64_t svc_elapsed_ms(const struct svc_call *sc);

/* The handlers, by service. */
void svc_acquire(struct svc_call *sc);
void svc_renew(struct svc_call *sc);
void svc_release(struct svc_call *sc);
void svc_get_lease(struct svc_call *sc);
void svc_list_leases(struct svc_call *sc);
void svc_break(struct svc_call *sc);
void svc_watch(struct svc_call *sc);
void svc_check(struct svc_call *sc);
void svc_write(struct svc_call *sc);
void svc_read(struct svc_call *sc);
void svc_list_resources(struct svc_call *sc);
void svc_delete(struct svc_call *sc);
void svc_stats(struct svc_call *sc);
void svc_advance_fences(struct svc_call *sc);
void svc_cancel_wait(struct svc_call *sc);
void svc_create_namespace(struct svc_call *sc);
void svc_set_namespace(struct svc_call *sc);
void svc_list_namespaces(struct svc_call *sc);
void svc_audit(struct svc_call *sc);
void svc_op_begin(struct svc_call *sc);
void svc_op_renew(struct svc_call *sc);
void svc_op_record(struct svc_call *sc);
void svc_op_sending(struct svc_call *sc);
void svc_op_complete(struct svc_call *sc);
void svc_op_fail(struct svc_call *sc);
void svc_op_unknown(struct svc_call *sc);
void svc_op_execute(struct svc_call *sc);
void svc_op_retry(struct svc_call *sc);
void svc_op_cancel(struct svc_call *sc);
void svc_op_reconcile(struct svc_call *sc);
void svc_op_compensate(struct svc_call *sc);
void svc_op_get(struct svc_call *sc);
void svc_op_wait(struct svc_call *sc);
void svc_op_list(struct svc_call *sc);
void svc_op_attempts(struct svc_call *sc);
void svc_set_op_policy(struct svc_call *sc);
void svc_list_op_policies(struct svc_call *sc);
void svc_register_action(struct svc_call *sc);
void svc_remove_action(struct svc_call *sc);
void svc_list_actions(struct svc_call *sc);
void svc_create_key(struct svc_call *sc);
void svc_list_keys(struct svc_call *sc);
void svc_revoke_key(struct svc_call *sc);
void svc_set_key(struct svc_call *sc);
void svc_list_denials(struct svc_call *sc);
void svc_map_sql_role(struct svc_call *sc);
void svc_unmap_sql_role(struct svc_call *sc);
void svc_list_sql_roles(struct svc_call *sc);
void svc_health_check(struct svc_call *sc);
void svc_health_watch(struct svc_call *sc);
void svc_reflection(struct svc_call *sc);

#endif
