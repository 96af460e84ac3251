/*
 * holdfast.h - the C client of Holdfast: leases with fencing tokens, and guarded writes. Operations that take effect once have a
 * header of their own, holdfast/operation.h, and so have gates, holdfast/gate.h.
 *
 * A client talks to one or more servers of one database. A lease is a right on one resource (or up to 16, all or none),
 * held until its deadline; the client renews all its leases in the background until they are released, freed or lost.
 * What the library promises about a lease is rule P7 of Holdfast: once it may have been lost, nothing more is sent under
 * it, the loss callback is called once, and it never comes back.
 *
 *     hf_client *client;
 *     hf_lease *lease;
 *     hf_error error;
 *     if (hf_client_new(NULL, &client, &error) != HF_OK) ...
 *     hf_acquire_options options = {.resource = "reports/daily", .ttl_ms = 10000};
 *     if (hf_acquire(client, &options, &lease, NULL, &error) == HF_OK) {
 *         if (hf_write(lease, NULL, "42", 2, NULL, &error) != HF_OK) ...
 *         hf_release(lease, &error);
 *         hf_lease_free(lease);
 *     }
 *     hf_client_free(client);
 *
 * Threads: every function may be called from any thread at any time, except that nothing may use an object while it is
 * being freed. Calls that ask a server block until it answered or the client's timeout is over, and say so below.
 * Signals: the library's threads block all signals.
 * Fork: a client belongs to the process that made it. In a child every call answers HF_MISUSE (or false, 0, NULL), and the
 * free functions do nothing; the child makes its own client. exec() is no problem.
 * State and output: the library keeps no global state and prints nothing; see hf_client_options.log.
 * Structs: zero them (or use designated initialisers) before filling in; zero means the default. `reserved` stays zero.
 * Names (namespace, resource, task, holder) are 1 to 256 bytes of valid UTF-8 without control characters.
 */
#ifndef HOLDFAST_HOLDFAST_H
#define HOLDFAST_HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HF_API
#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif
#endif

#if defined(__GNUC__)
#define HF_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HF_MUST_CHECK
#endif

#define HF_DEFAULT_SERVER    "tcp://127.0.0.1:7420"
#define HF_DEFAULT_NAMESPACE "default"

enum {
    HF_DEFAULT_TTL_MS = 30000,
    HF_DEFAULT_TIMEOUT_MS = 30000,
    HF_DEFAULT_CONNECT_TIMEOUT_MS = 5000,
    HF_NAME_MAX = 256,          /* bytes of a name */
    HF_RESOURCES_MAX = 16,      /* of one acquire */
    HF_ITEMS_MAX = 1000,        /* of one hf_check, and of one page */
    HF_VALUE_MAX = 1024 * 1024, /* bytes of a value */
    HF_WAIT_MAX_MS = 3600000
};

typedef struct hf_client hf_client;
typedef struct hf_lease hf_lease;

/*
 * How a call ended, by what the caller should do.
 *
 *   definite      HF_HELD, HF_LOST, HF_CONFLICT, HF_NOT_FOUND, HF_DENIED, HF_INVALID, HF_UNSUPPORTED: it had no effect, and the
 *                 same call will not help.
 *   transient     HF_UNAVAILABLE: it had no effect; the library tried until its patience was over; later it may work.
 *   ambiguous     HF_UNKNOWN: it may have had its effect, or may have it later. Read before deciding.
 */
typedef enum hf_result {
    HF_OK = 0,
    HF_HELD = 1,        /* somebody else has the resource */
    HF_LOST = 2,        /* this lease is over: expired, taken over, released, broken, or past its local deadline. Stop. */
    HF_CONFLICT = 3,    /* the value has another version, or a later write of this lease was accepted: read again. Operations: other
                           parameters under this key, another state or revision, or the action refused */
    HF_NOT_FOUND = 4,   /* no such namespace or resource, operation or action */
    HF_DENIED = 5,      /* no key, a bad key, or one that may not do this */
    HF_INVALID = 6,     /* the call is wrong; `field` names where */
    HF_UNSUPPORTED = 7, /* the server doesn't know this, or not yet */
    HF_UNAVAILABLE = 8, /* no server could be reached, or none could serve the call */
    HF_UNKNOWN = 9,     /* the call was sent and its outcome is not known */
    HF_FAILED = 10,     /* the server or this library failed; `message` says how */
    HF_MISUSE = 11,     /* called in a forked child, or on a client that is being freed */
    HF_NO_MEMORY = 12
} hf_result;

/* What went wrong. Filled in by every function that is given one, on HF_OK too (then all is zero or empty). */
typedef struct hf_error {
    hf_result result;
    int code;           /* gRPC's status code; 0 if it did not come from a call */
    const char *reason; /* static, never NULL: a name of ErrorReason such as "STALE_TOKEN"; of a lost lease its loss reason */
    int64_t retry_ms;   /* the server's advice when to try again; 0 = none */
    int64_t fence;      /* the resource's newest token, where the server told it; else 0 */
    int64_t version;    /* the value's version on VERSION_MISMATCH; else 0 */
    char field[96];     /* the wrong field's path, or "" */
    char message[384];  /* one line for people */
    uint64_t reserved[4];
} hf_error;

/* "HELD" for HF_HELD. Never NULL. */
HF_API const char *hf_result_name(hf_result result);
/* The library's version, such as "0.1.0". */
HF_API const char *hf_version(void);

/* ---- clients ---- */

typedef enum hf_log_level { HF_LOG_DEBUG, HF_LOG_INFO, HF_LOG_WARN, HF_LOG_ERROR } hf_log_level;

/* Called once for each lease that is lost, never for one released by hf_release. It runs on a thread of its own, one
 * callback at a time; a slow one delays other callbacks but no renewal. `reason` is static, as by hf_lease_loss. It may call any
 * function, hf_lease_free included, but not hf_client_free. */
typedef void (*hf_loss_fn)(hf_lease *lease, const char *reason, void *arg);

typedef struct hf_client_options {
    /* URLs of servers of one database, separated by commas; NULL = HF_DEFAULT_SERVER. All goes to one of them until it fails;
     * then the next one takes its place, and what was under way is repeated there. A lease survives that: see hf_lease_valid.
     *   tcp://HOST:PORT, ipc://PATH   the protocol of nng: the fastest, unencrypted
     *   grpc://HOST:PORT              gRPC over HTTP/2, unencrypted
     *   grpcs://HOST:PORT             gRPC over TLS: the server's certificate must be valid, for HOST (a name or an address), and
     *                                 by an authority that is trusted: see tls_ca_file */
    const char *servers;
    const char *name_space; /* NULL = "default" */
    const char *key;        /* the API key ("hfk_…"), sent with each call over whatever transport; never logged. NULL = none */
    const char *holder;     /* who we are, for people; NULL = host:pid:random */
    int64_t timeout_ms;     /* how long a call may take with all its retries; 0 = 30 s; at most a day */
    int64_t connect_timeout_ms; /* give up a call that could not even be sent; 0 = 5 s, or 3/4 of timeout_ms if that is less */
    hf_loss_fn on_loss;         /* for leases without one of their own; NULL = none */
    void *on_loss_arg;
    /* One line without a newline for each event worth telling; called from any thread, must not block. NULL = none. How renewals
     * go is told by "renewed: leases=N lag_ms=N left_ms=N" (DEBUG) and "renewals are late, …" (WARN, the same fields): lag_ms is
     * how long after it was due a renewal was answered, left_ms how long before the nearest deadline. */
    void (*log)(hf_log_level level, const char *line, void *arg);
    void *log_arg;
    /* For grpcs:// only, each a file in PEM that is read once, by hf_client_new. */
    const char *tls_ca_file;   /* who may certify servers; NULL = whom the system trusts */
    const char *tls_cert_file; /* our own certificate, with its chain, where servers ask for one; NULL = none */
    const char *tls_key_file;  /* and its key, not encrypted */
    uint64_t reserved[5];
} hf_client_options;

/* On HF_OK `*client` is a client with its threads started, connecting in the background; no server need be there yet.
 * `options` may be NULL and is copied. `error` may be NULL here and everywhere. HF_INVALID: a wrong URL, name
 * or key, or a file for TLS that cannot be used (`message` names it). HF_NO_MEMORY, HF_FAILED: no thread or socket could be made.
 */
HF_API hf_result hf_client_new(const hf_client_options *options, hf_client **client, hf_error *error) HF_MUST_CHECK;

/* The client is gone, its threads ended, its connections closed; calls still running in other threads must have returned
 * before, except that an hf_acquire with wait_ms is cancelled (hf_acquire_cancel) and waited for; what it was granted meanwhile is
 * given back. The same goes for hf_operation_begin and hf_operation_wait. Blocks for that, and while a loss callback runs. Leases
 * that were not freed are freed (not released: the server ends them by their TTL). NULL is allowed. */
HF_API void hf_client_free(hf_client *client);

/* The name this client acquires under. Valid as long as the client. */
HF_API const char *hf_client_holder(const hf_client *client);
HF_API const char *hf_client_namespace(const hf_client *client);

/* ---- leases ---- */

typedef struct hf_label {
    const char *name, *value;
} hf_label;

typedef struct hf_acquire_options {
    const char *resource;         /* for one resource; or */
    const char *const *resources; /* for several, each once, all or none */
    size_t n_resources;           /* 1 to 16 if `resources` is set */
    const char *task;             /* what the lease is for; NULL = the (first) resource's name */
    const char *holder;           /* NULL = the client's */
    int64_t ttl_ms;               /* 100 ms to 24 h; 0 = 30 s */
    int64_t wait_ms;              /* 0 = try once; else wait in the server's queue, for so long at most; ≤ 1 h */
    const char
        *request_id; /* makes a repeat by another process recognisable, and hf_acquire_cancel possible; NULL = a random one */
    const hf_label *labels;
    size_t n_labels;    /* at most 4 KiB together */
    hf_loss_fn on_loss; /* NULL = the client's */
    void *on_loss_arg;
    bool no_renewal; /* the background does not renew it; the deadline stands, hf_renew_now works */
    uint64_t reserved[6];
} hf_acquire_options;

/* Who stands in the way. `holder` is empty if the resource is free but cannot be had yet, or if it is guarded. */
typedef struct hf_held {
    char resource[HF_NAME_MAX + 1];
    char task[HF_NAME_MAX + 1];
    char holder[HF_NAME_MAX + 1];
    int64_t token;        /* the holder's; the newest one if there is no holder */
    int64_t remaining_ms; /* until that lease ends if nobody renews it */
    int64_t waiters;      /* that wait on the server asked */
    bool guarded;         /* locked by another transaction; nothing else is known then */
    uint64_t reserved[4];
} hf_held;

/* On HF_OK the caller holds the resources, each with a token higher than any granted for it before, until at least
 * hf_lease_deadline_ms, and `*lease` is renewed in the background every TTL/3. The caller frees it with hf_lease_free.
 * Blocks up to the client's timeout (plus wait_ms). HF_HELD: `*held` (may be NULL) tells by whom, unless the reason is "CANCELLED".
 * Waiters are served in the order in which they came to one server; when that server dies, the wait goes on at another one. Several
 * resources are not waited for in the queue but asked for again and again. HF_LOST with reason
 * "ENDED": request_id was granted before and that lease is over; with "DEADLINE": the answer came after the lease's deadline.
 * HF_UNKNOWN: a lease may have been granted; asking again with the same request_id gets the same one. Else as above. */
HF_API hf_result hf_acquire(hf_client *client, const hf_acquire_options *options, hf_lease **lease, hf_held *held,
                            hf_error *error) HF_MUST_CHECK;

/* Cancels a wait: the hf_acquire of this client that waits (wait_ms > 0) under this request_id (NULL: every one that waits), in
 * whatever thread, comes back soon. It then returns HF_HELD with the reason "CANCELLED" if nothing was granted; HF_OK if it was
 * granted first, and the lease is the caller's as ever; HF_UNKNOWN if no server could tell within a second. Doesn't block.
 * HF_NOT_FOUND: none waits so, not yet or not any more. Not for signal handlers. */
HF_API hf_result hf_acquire_cancel(hf_client *client, const char *request_id, hf_error *error);

typedef struct hf_adopt_options {
    const char *resource;
    int64_t token;
    int64_t ttl_ms;         /* 0 = 30 s */
    int64_t last_write_seq; /* the highest write_seq already used under this token, if any */
    hf_loss_fn on_loss;
    void *on_loss_arg;
    bool no_renewal;
    uint64_t reserved[6];
} hf_adopt_options;

/* On HF_OK `*lease` is the live lease of that token, granted to somebody who handed it over (such as `holdfast run`), renewed
 * just now and from now on. Two processes should not write under one token. Blocks. HF_LOST: it is over. */
HF_API hf_result hf_adopt(hf_client *client, const hf_adopt_options *options, hf_lease **lease, hf_error *error) HF_MUST_CHECK;

/* True if the lease is surely held at this moment. Once false it stays false. Never blocks on the network, and is cheap. Check it
 * before each effect that the lease protects; only hf_write and the like are refused by the server as well. */
HF_API bool hf_lease_valid(hf_lease *lease);
/* Why the lease is over, or NULL if it is valid: "EXPIRED", "TAKEN_OVER", "RELEASED", "BROKEN", "UNKNOWN_TOKEN" as the server
 * said, or "DEADLINE": no renewal got through in time, so that it may have been lost; "FORKED" in a child. Static. */
HF_API const char *hf_lease_loss(hf_lease *lease);
/* The fencing token: of the first resource, or of that one (0 if it isn't in the lease). Also of a lost lease. */
HF_API int64_t hf_lease_token(const hf_lease *lease);
HF_API int64_t hf_lease_token_of(const hf_lease *lease, const char *resource);
/* How many resources, and the name of one, NULL if there is no such index. Valid as long as the lease. */
HF_API size_t hf_lease_count(const hf_lease *lease);
HF_API const char *hf_lease_resource(const hf_lease *lease, size_t index);
/* Milliseconds until the local deadline; 0 if it is lost. */
HF_API int64_t hf_lease_remaining_ms(hf_lease *lease);
/* The local deadline on CLOCK_BOOTTIME in milliseconds; it moves on with each renewal. After a loss, the last one. */
HF_API int64_t hf_lease_deadline_ms(hf_lease *lease);

/* On HF_OK the lease was renewed just now. Blocks, at most to the lease's deadline. HF_LOST: it is over. HF_UNAVAILABLE: it is not
 * renewed and stands as before. */
HF_API hf_result hf_renew_now(hf_lease *lease, hf_error *error) HF_MUST_CHECK;

/* The lease is over (reason "RELEASED", no callback): nothing more is sent under it, whatever is returned. On HF_OK the server
 * has freed its resources. HF_LOST: it had been lost before. HF_UNAVAILABLE, HF_UNKNOWN: the server may hold it until its TTL
 * ends; or, unknown too, it had ended when an unanswered try was repeated, which may have been by that try. Blocks until a write in
 * flight has ended, then for the answer. */
HF_API hf_result hf_release(hf_lease *lease, hf_error *error);

/* The lease is forgotten: it isn't renewed any more, and its loss callback is not running and will not run (waits for one that
 * runs, unless called by it). It is not released; a live one ends at the server by its TTL. NULL is allowed. */
HF_API void hf_lease_free(hf_lease *lease);

/* ---- guarded values ---- */

typedef struct hf_write_options {
    const char *resource; /* NULL = the lease's first */
    bool check_version;   /* only if the value's version now is expected_version (0 = it doesn't exist) */
    int64_t expected_version;
    uint64_t reserved[4];
} hf_write_options;

typedef struct hf_write_result {
    int64_t version; /* of the value after this write */
    int64_t fence;
    bool replayed; /* an earlier try of this same write had been accepted */
    uint64_t reserved[2];
} hf_write_result;

/* On HF_OK the value is stored, and was so while this lease was the resource's newest and live. Retries repeat the same
 * write (write_seq is filled in), so it takes effect once. One write of a lease is in flight at a time; others wait their turn.
 * `options` and `result` may be NULL; `value` may be NULL if len is 0. Blocks.
 * HF_LOST: refused here or by the server; nothing was written; the lease is lost. HF_CONFLICT: nothing was written.
 * HF_UNKNOWN: no answer came, or a repeat was refused as stale after the first try's answer was lost. */
HF_API hf_result hf_write(hf_lease *lease, const hf_write_options *options, const void *value, size_t len, hf_write_result *result,
                          hf_error *error) HF_MUST_CHECK;
/* On HF_OK the value doesn't exist any more; otherwise as hf_write. Its version goes on counting. */
HF_API hf_result hf_delete(hf_lease *lease, const hf_write_options *options, hf_write_result *result,
                           hf_error *error) HF_MUST_CHECK;

typedef struct hf_value {
    bool exists;
    void *data; /* with a NUL behind it that isn't counted; NULL if it doesn't exist. Free with hf_value_release */
    size_t len;
    int64_t version; /* also of a deleted value; 0 = never written */
    int64_t fence;
    int64_t token; /* of the last write */
    int64_t updated_unix_ms;
    uint64_t reserved[4];
} hf_value;

/* On HF_OK `*value` is the resource's value. Needs no lease. HF_NOT_FOUND: it was never leased. Blocks. */
HF_API hf_result hf_read(hf_client *client, const char *resource, hf_value *value, hf_error *error) HF_MUST_CHECK;
HF_API void hf_value_release(hf_value *value);

/* ---- for services in front of a resource, and for operators ---- */

typedef enum hf_verdict {
    HF_VERDICT_NONE = 0,    /* not known: the item's row was busy */
    HF_VERDICT_CURRENT = 1, /* the newest token, and its lease lives */
    HF_VERDICT_STALE = 2,   /* a newer one was granted */
    HF_VERDICT_NOT_HELD = 3 /* its lease has ended, or it was never granted */
} hf_verdict;

typedef struct hf_check_item {
    const char *resource; /* in */
    int64_t token;        /* in */
    hf_verdict verdict;   /* out */
    int64_t remaining_ms; /* out: if CURRENT */
    int64_t fence;        /* out: if STALE or NOT_HELD */
    uint64_t reserved[2];
} hf_check_item;

/* On HF_OK each item has its verdict. A hint only: the lease may end right after. 1 to 1000 items, each resource once. Blocks. */
HF_API hf_result hf_check(hf_client *client, hf_check_item *items, size_t n_items, hf_error *error) HF_MUST_CHECK;

typedef enum hf_break_outcome {
    HF_BREAK_DONE = 1,    /* that lease is ended, and `fence` is above its token */
    HF_BREAK_CHANGED = 2, /* it had ended before (perhaps by an earlier try of this call); `fence` is the newest token */
    HF_BREAK_BLOCKED = 3  /* a transaction of PostgreSQL's backend `pid` holds the resource; nothing was changed */
} hf_break_outcome;

typedef struct hf_break_result {
    hf_break_outcome outcome;
    int64_t fence;
    bool live; /* CHANGED: somebody holds it */
    int pid;   /* BLOCKED: 0 if it could not be told */
    uint64_t reserved[2];
} hf_break_result;

/* On HF_OK `*result` (may be NULL) tells what became of the lease whose token was seen. `actor` (NULL = the client's holder) and
 * `reason` go into the audit. Blocks. */
HF_API hf_result hf_break(hf_client *client, const char *resource, int64_t token_seen, const char *actor, const char *reason,
                          hf_break_result *result, hf_error *error) HF_MUST_CHECK;

typedef enum hf_lease_state { HF_LEASE_LIVE = 1, HF_LEASE_EXPIRED = 2, HF_LEASE_RELEASED = 3, HF_LEASE_BROKEN = 4 } hf_lease_state;

typedef struct hf_lease_info {
    const char *resource, *task, *holder, *request_id;
    int64_t token;
    int64_t fence; /* above `token` after a break */
    hf_lease_state state;
    int64_t remaining_ms;
    int64_t granted_unix_ms; /* the database's clock */
    const hf_label *labels;
    size_t n_labels;
} hf_lease_info;

typedef struct hf_resource_info {
    const char *resource;
    int64_t fence, version, value_bytes;
    bool exists;
    bool leased;
} hf_resource_info;

/* A page of results with the memory they stand in. One of the arrays is set. Free with hf_page_free. */
typedef struct hf_page {
    size_t n;
    const hf_lease_info *leases;
    const hf_resource_info *resources;
    const char *next_page_token; /* NULL at the end */
} hf_page;

/* On HF_OK the page has the one lease of that resource, live or ended. HF_NOT_FOUND: it was never leased. Blocks. */
HF_API hf_result hf_get_lease(hf_client *client, const char *resource, hf_page **page, hf_error *error) HF_MUST_CHECK;

typedef struct hf_list_options {
    const char *prefix;     /* of the resource's name; NULL = all */
    const char *task;       /* leases only: exactly; NULL = any */
    const char *holder;     /* leases only: exactly; NULL = any */
    int64_t page_size;      /* 0 = 100; at most 1000 */
    const char *page_token; /* the page before's; NULL = from the start */
    uint64_t reserved[4];
} hf_list_options;

/* On HF_OK `*page` has live leases, or resources, in the order of their names (bytewise). `options` may be NULL. Block. */
HF_API hf_result hf_list_leases(hf_client *client, const hf_list_options *options, hf_page **page, hf_error *error) HF_MUST_CHECK;
HF_API hf_result hf_list_resources(hf_client *client, const hf_list_options *options, hf_page **page,
                                   hf_error *error) HF_MUST_CHECK;
HF_API void hf_page_free(hf_page *page);

#ifdef __cplusplus
}
#endif

#endif
