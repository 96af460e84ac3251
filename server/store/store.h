/*
 * store.h - leases, fences and values in PostgreSQL, for the services.
 *
 * The store owns every connection to PostgreSQL. It takes *items*, one row of work each, batches those that are ready
 * together by kind and connection (natural batching: an idle connection takes what is queued at the end of the loop's
 * turn; while it is busy the queue fills), and calls each item's `done` exactly once. Everything runs on the loop's
 * thread; nothing here blocks, except where it says so.
 *
 * The truth is in the SQL functions of schema/functions, which judge by the database's clock; the numbers of
 * enum st_outcome (outcome.h) are theirs. What items of operations carry is in operations.h.
 */
#ifndef HOLDFAST_STORE_STORE_H
#define HOLDFAST_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io.h"
#include "core/queue.h"
#include "store/bytes.h"
#include "store/operations.h"
#include "store/outcome.h"
#include "store/principals.h"

struct st_batch;
struct st_pq;

enum st_kind {
    ST_ACQUIRE,     /* one resource */
    ST_ACQUIRE_ALL, /* several resources, all or none */
    ST_RENEW,
    ST_RELEASE,
    ST_WRITE, /* also deletes */
    ST_CHECK,
    ST_READ,
    ST_GET,
    ST_BREAK,
    ST_LIST_LEASES,
    ST_LIST_RESOURCES,
    ST_STATS,
    ST_ADVANCE_FENCES,
    ST_LEAVE, /* nobody waits on this server for the resource any more */
    ST_CREATE_NAMESPACE,
    ST_SET_NAMESPACE,
    ST_LIST_NAMESPACES,
    ST_AUDIT,
    ST_SWEEP,           /* tidies up what has run out, a bounded number of rows */
    ST_MAKE_PARTITIONS, /* of the audit, ahead of time */
    ST_DROP_PARTITIONS, /* those that nobody has to keep */
    ST_OP_BEGIN,        /* one operation, as the next six */
    ST_OP_RENEW,
    ST_OP_SENDING,
    ST_OP_FINISH,
    ST_OP_RECORD,
    ST_OP_GET,
    ST_OP_EXECUTE,
    ST_OP_LIST,
    ST_OP_ATTEMPTS, /* of one operation */
    ST_OP_DECIDE,
    ST_OP_COMPENSATE,
    ST_SET_OP_POLICY,
    ST_LIST_OP_POLICIES,
    ST_REGISTER_ACTION,
    ST_REMOVE_ACTION,
    ST_LIST_ACTIONS,
    ST_OP_STATS, /* of all namespaces */
    ST_CREATE_PRINCIPAL,
    ST_SET_PRINCIPAL,
    ST_REVOKE_PRINCIPAL,
    ST_LIST_PRINCIPALS,
    ST_AUTH_CHANGES, /* of principals, since it was last asked */
    ST_AUTH_NOTE,    /* who was used, what was refused */
    ST_LIST_DENIALS,
    ST_MAP_ROLE, /* SQL roles */
    ST_UNMAP_ROLE,
    ST_LIST_ROLES,
    ST_KINDS
};

/* The states of a lease as SQL tells them; the numbers of holdfast.v1.Lease.State. */
enum st_lease_state { ST_LEASE_LIVE = 1, ST_LEASE_EXPIRED = 2, ST_LEASE_RELEASED = 3, ST_LEASE_BROKEN = 4 };

struct st_label {
    const char *name;
    const char *value;
};

struct st_lease_row {
    const char *resource, *task, *holder, *request_id;
    int64_t token, fence, remaining_ms, granted_unix_ms;
    enum st_lease_state state;
    const struct st_label *labels;
    size_t n_labels;
};

struct st_resource_row {
    const char *resource;
    int64_t fence, version, value_bytes;
    bool exists, leased;
};

/* A policy that isn't given: left as it is, or at its default. */
#define ST_UNSET (-1)

/* Policies of a namespace. In requests ST_UNSET = not given; quotas: 0 = no limit. */
struct st_policy {
    int64_t lock_delay_ms, min_ttl_ms, max_ttl_ms, audit_writes /* 0 or 1 */;
    int64_t max_leases, max_waiters, max_value_bytes, audit_keep_days;
};

struct st_namespace_row {
    const char *name;
    struct st_policy policy;
    int64_t fence_floor;
    bool retired;
};

struct st_audit_row {
    int64_t id, at_unix_ms, token, prior;
    const char *kind, *resource, *actor, *detail;
    const char *operation; /* "" = it concerns none */
};

/*
 * One row of work. The caller zeroes it, fills in `kind`, the key, the inputs of its kind, `deadline_ms` and `done`, and
 * keeps it and everything it points to alive and unchanged until `done` was called. Outputs are valid from then on, but
 * strings, bytes and rows among them only until `done` returns. Names are valid and within their limits: the caller has
 * checked them.
 */
struct st_item {
    enum st_kind kind;
    const char *ns;       /* also for ST_STATS: "" */
    const char *resource; /* ST_ACQUIRE_ALL: the first one; lists: NULL; ST_OP_…: the operation's key */
    int64_t deadline_ms;  /* io's clock; it isn't sent after that, and ends at most ST_GRACE_MS after it, whatever happens */
    int64_t patience_ms;  /* io's clock; until then it is tried again while its row is busy (slow lane); 0 = deadline_ms */
    void (*done)(struct st_item *item);
    void *owner; /* the caller's */

    union {
        struct {
            const char *const *resources;           /* ST_ACQUIRE_ALL: n_resources different names, `resource` among them */
            size_t n_resources;                     /* ST_ACQUIRE: 0 */
            const char *task, *holder, *request_id; /* request_id is never empty */
            const char *labels_json;                /* a JSON object of strings, or NULL */
            int64_t ttl_ms;
            /* ST_ACQUIRE, as of the moment it is submitted: */
            const bool *queued_each;    /* ST_ACQUIRE_ALL: the same by resource; NULL = of none */
            bool queued;                /* others wait before it on this server: a free resource is held for it */
            int64_t waited_ms, wait_ms; /* how long this server's queue on it has waited, and still wants to; 0 = there is none */
            int64_t next_waited_ms, next_wait_ms; /* the same of the queue that is left if this is granted */
        } acquire;
        struct {
            int64_t token, ttl_ms;
        } renew; /* also ST_OP_RENEW */
        struct {
            int64_t token;
            bool unless_repeated; /* only if no repeat of the grant was answered: a grant nobody was told of */
        } release;
        struct {
            int64_t token;
        } check;
        struct {
            int64_t token, write_seq; /* write_seq 0 = none */
            struct st_bytes value;    /* data NULL = delete */
            bool expects;
            int64_t expected_version;
        } write;
        struct {
            int64_t token_seen;
            const char *actor, *reason;
        } brk;
        struct {
            const char *prefix, *task, *holder, *after; /* "" = any, from the start */
            int64_t max;
        } list;
        struct {
            int64_t at_least;
            const char *actor, *reason;
        } advance;
        struct {
            struct st_policy policy; /* of ns, for ST_CREATE_NAMESPACE and ST_SET_NAMESPACE */
            const char *actor;
            const char *after; /* ST_LIST_NAMESPACES: those behind this name; "" = from the start */
            int64_t max;
        } namespaces;
        struct {
            const char *resource;  /* exactly; "" = all */
            const char *operation; /* the same of a key; "" or NULL = all */
            int64_t after_id;      /* goes on behind this entry; 0 = from the newest */
            int64_t max;
        } audit;
        struct {
            int64_t max; /* rows looked at */
        } sweep;
        struct {
            int64_t months_ahead; /* ST_MAKE_PARTITIONS */
        } partitions;
        struct st_op_begin op_begin;
        struct {
            int64_t token;
        } op_sending;
        struct st_op_finish op_finish;
        struct st_op_record op_record;
        struct st_op_execute op_execute;
        struct st_op_list op_list;
        struct {
            int64_t after, max; /* attempts behind this number; 0 = from the first */
        } op_attempts;
        struct st_op_decide op_decide;
        struct st_op_compensate op_compensate;
        struct st_op_policies op_policies;
        struct st_actions actions;
        struct st_principals principals;
        struct st_auth_ask auth_ask;
        struct st_auth_note auth_note;
        struct {
            int64_t after_id, max; /* as of the audit */
        } denials;
        struct st_sql_roles sql_roles;
    } in;

    enum st_outcome outcome;
    char sqlstate[6]; /* with ST_FAILED */
    union {
        struct {
            int64_t *tokens;                /* ST_ACQUIRE_ALL: room for n_resources, given by the caller, filled in the order of
                                               in.acquire.resources if granted */
            int64_t token;                  /* granted: ST_ACQUIRE's; held: the holder's, or the fence; ended: that lease's */
            int64_t ttl_ms;                 /* granted: what remains */
            int64_t granted_at_ms;          /* io's clock when the batch was sent: for waited_ms */
            size_t which;                   /* not granted: index of the resource that stood in the way */
            const char *holder, *task;      /* held */
            int64_t max_waiters;            /* held: the namespace's policy; 0 = no limit */
            int64_t remaining_ms;           /* held; with an empty holder: how long it is not to be had although it is free */
            int64_t limit;                  /* ST_QUOTA: of live leases */
            int64_t min_ttl_ms, max_ttl_ms; /* ST_TTL_BOUNDS */
        } acquire;
        struct {
            int64_t ttl_ms;
            int64_t min_ttl_ms,
                max_ttl_ms; /* ST_TTL_BOUNDS: at present a renewal is cut to the bounds, and never refused for them */
        } renew;            /* also ST_OP_RENEW */
        struct {
            int64_t version, fence, write_seq; /* write_seq: the last accepted, with ST_SUPERSEDED */
            int64_t limit;                     /* ST_QUOTA: of bytes of values */
        } write;
        struct {
            int64_t fence, remaining_ms;
        } check;
        struct {
            struct st_bytes value;
            bool exists;
            int64_t version, fence, token, updated_unix_ms;
        } read;
        struct {
            int64_t fence; /* done: the new fence; changed: the newest token */
            bool live;     /* changed: whether it is held */
            int32_t pid;   /* blocked */
        } brk;
        struct {
            const struct st_lease_row *rows; /* ST_GET: one */
            size_t n;
            bool more;
        } leases;
        struct {
            const struct st_resource_row *rows;
            size_t n;
            bool more;
        } resources;
        struct {
            int64_t leases_live, resources, schema_version;
        } stats;
        struct {
            int64_t floor;
        } advance;
        struct {
            const struct st_namespace_row *rows; /* ST_CREATE_NAMESPACE, ST_SET_NAMESPACE: one */
            size_t n;
            bool more;
        } namespaces;
        struct {
            const struct st_audit_row *rows;
            size_t n;
            bool more;
        } audit;
        struct {
            int64_t rows; /* tidied up, made, dropped */
        } done;
        struct st_op_told op;
        struct st_op_moved op_moved;
        struct st_op_rows ops;
        struct st_attempts_told attempts;
        struct st_op_policies_told op_policies;
        struct st_actions_told actions;
        struct st_op_states_told op_states;
        struct st_principals_told principals;
        struct st_auth_told auth;
        struct st_denials_told denials;
        struct st_sql_roles_told sql_roles;
    } out;

    /* The store's own. */
    struct co_item queued;
    struct st_batch *batch;
    struct heap_node deadline, pause;
    int64_t submitted_ms;
    unsigned char connection, flags, lane, busy;
};

/* How long beyond its deadline an item that was sent waits for its answer. */
enum { ST_GRACE_MS = 50 };

/* What a store opens besides the connections that carry the work: one for reads, one for lists, one to listen, one for errands, two
 * when something is executed, and one while somebody follows the audit trail (follow.h). */
enum { ST_MORE_CONNECTIONS = 7 };

struct st_config {
    const char *dsn;        /* libpq conninfo; several hosts allowed */
    int connections;        /* that carry the work, 1..64; 0 = 2. ST_MORE_CONNECTIONS come on top */
    int max_batch;          /* items; 0 = 512 */
    size_t max_batch_bytes; /* of values in one batch; 0 = 4 MiB */
    int max_queue;          /* items not done, all connections; 0 = 100,000 */
    int lock_timeout_ms;    /* of the fast lane; 0 = 20 */
    int stall_ms;           /* a connection that answers nothing for so long counts as broken; 0 = 20,000 */
    int setup_ms;           /* a session has to be set up within so long; 0 = 60,000: attach() may have to end every lease */
    const struct st_pq *pq; /* for tests: libpq's stand-in, which must outlive the store; NULL = libpq */
};

/* What the store has done since it was opened, by kind; for Stats. */
struct st_kind_stats {
    int64_t batches, items, splits, retries, busy;
    int64_t slow;      /* batches of the slow lane among them */
    int64_t sizes[16]; /* batches of 1, 2–3, 4–7, … items */
};

struct st_stats {
    struct st_kind_stats kinds[ST_KINDS];
    int64_t queued;
    int connections_ready, connections_wanted; /* of those that carry the work */
    int64_t notify_batches, notes_sent;        /* statements, and the turns of other servers that they told of */
    bool listening;                            /* turns are told at once, and not only found by polling */
};

struct st_store;

/*
 * The store exists and begins to connect; items may be submitted at once and wait for a connection until their deadline.
 * `ready` (may be NULL) is called once, when the first connection serves. `cfg` and its strings are copied. NULL: no memory.
 */
struct st_store *st_open(const struct st_config *cfg, struct io *io, void (*ready)(void *arg), void *arg);

/* 16 hexadecimal digits that tell this server from others on the database, new with each store. */
const char *st_server_id(const struct st_store *store);

/*
 * From now on `turn` is called, from the loop and never from within another call of the store, when this server may have
 * the turn on a resource: another server's release, or one of its own, gave it. A hint, which may come twice, late or never:
 * who waits polls too. The strings are valid during the call. NULL: nobody is called.
 */
void st_on_turn(struct st_store *store, void (*turn)(void *arg, const char *ns, const char *resource), void *arg);

/* The item is queued; `done` is called later, never from within this call. */
void st_submit(struct st_store *store, struct st_item *item);

/* Nobody cares for this item of an acquire or a read any more: if it was never sent, it soon ends as ST_TIMED_OUT, without having
 * cost the database anything. Otherwise, and if it is of another kind, it goes its way: an answer that nobody reads may have been
 * wanted all the same. Only before `done` was called, which is never from within this call. */
void st_withdraw(struct st_store *store, struct st_item *item);

/* Nothing is queued or in flight. */
bool st_idle(const struct st_store *store);

void st_stats(const struct st_store *store, struct st_stats *out);

/* Name of a kind, for logs and Stats: "acquire". */
const char *st_kind_name(enum st_kind kind);

/* Connections are closed; items still queued end as ST_DATABASE_DOWN, items in flight as ST_OUTCOME_LOST. NULL is allowed. */
void st_close(struct st_store *store);

#endif
