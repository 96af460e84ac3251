/*
 * engine.h - the store's insides, shared by the .c files of this room that serve.
 *
 * An item, from st_submit to `done`, is in one of six places: queued (in a co_queue of one connection), paused (in `pauses`,
 * until its next try on the slow lane), in a batch that waits (`again` or `paused` of a connection), in a batch in flight, in a
 * batch whose connection broke in flight (`resend`), or an errand. Queued, paused, in a batch that waits, and as an errand it is
 * in `deadlines`, and ends there when its time comes. A batch that was sent looks after its own items: those whose deadline
 * passes are taken out of it and end as lost, and what is answered later is ignored for them.
 *
 * Who calls whom: store.c (submit), route.c and schedule.c (time) → serve.c (a connection's work) → batch.c → refused.c;
 * conn.c (a session's life) knows what a connection is for only by its role: session.c + serve.c, listen.c, errand.c, follow.c.
 */
#ifndef HOLDFAST_STORE_ENGINE_H
#define HOLDFAST_STORE_ENGINE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/io.h"
#include "base/list.h"
#include "base/random.h"
#include "core/gaps.h"
#include "core/queue.h"
#include "core/retry.h"
#include "store/follow.h"
#include "store/kinds.h"
#include "store/params.h"
#include "store/pq.h"
#include "store/resolve.h"
#include "store/store.h"

/*
 * Fast: as many as are there, once. Slow: found its row locked; polled in batches of its like, which never wait in the database.
 * Alone: failed for a lock that SKIP LOCKED doesn't pass over (another's uncommitted insert), so it would fail its whole batch.
 * Large: what it asks for was found too large to come with others' small values (large.c).
 */
enum st_lane { ST_FAST, ST_SLOW, ST_ALONE, ST_LARGE, ST_LANES };
static inline bool st_is_slow(enum st_lane lane)
{
    return lane == ST_SLOW || lane == ST_ALONE;
}

/* Bits of st_item.flags. */
enum {
    ST_TRIED_SESSION = 1, /* a new session was opened for its sake */
    ST_MAYBE_DONE = 2,    /* it was sent on a connection that broke: no other end than lost until it is answered */
    ST_UNWANTED = 4       /* its caller has gone */
};

/*
 * Reads go ways of their own, so that none stands behind a commit: one that waits for a standby takes as long as the standby is
 * away, and then all connections that write may be waiting. What looks at many rows has a way apart from what looks at a few.
 * What executes users' SQL has two connections of its own, opened when there is something to execute for the first time, so that a
 * slow action delays at most other actions.
 */
enum st_way { ST_WAY_WORK, ST_WAY_READS, ST_WAY_LISTS, ST_WAY_EXECUTE, ST_WAYS };

/* Of connections: one each for reads and lists, two to execute. */
enum { ST_OTHER_CONNECTIONS = 4 };

/* What isn't an item's batch but the store's own work on a connection. */
enum { ST_PARTITIONS_NOW = ST_KINDS };

struct st_batch {
    struct list_node node; /* in a connection's again, paused, inflight or resend */
    struct list items;     /* by st_item.queued.node */
    int kind;              /* enum st_kind, or ST_PARTITIONS_NOW */
    enum st_lane lane;
    bool hasty; /* waits for no lock: one of its items is known to meet one */
    struct co_history history;
    int64_t due_ms; /* when paused */

    /* Sent. */
    struct st_call call; /* items in key order; NULL in the place of one that has ended */
    int64_t lost_ms;     /* when the first of its items ends as lost; INT64_MAX = none will */
    PGresult *result;    /* the rows, or the first error */
    bool unreplicated;   /* a commit was not waited for: the outcome is unknown */
};

enum st_conn_state { ST_CONN_WAITING, ST_CONN_RESOLVING, ST_CONN_CONNECTING, ST_CONN_SETTING_UP, ST_CONN_SERVING, ST_CONN_CLOSED };

/* Which database, and on which branch of its history. */
struct st_identity {
    char system[24];  /* "" = not known */
    char timeline[9]; /* hexadecimal digits, always as many */
};

struct st_conn;

/* What a connection is for. */
struct st_role {
    const char *application_name;
    int stall_ms; /* an answer may take at least so long, however the store is set */
    /* The setup is sent, with its Syncs (st_conn_sync). False: the connection is broken. */
    bool (*send_setup)(struct st_conn *conn);
    /* One answer of the setup that isn't a Sync, which conn->setup_syncs counts. False: the setup failed. */
    bool (*setup_result)(struct st_conn *conn, const PGresult *res);
    /* All was answered, and it serves. */
    void (*begin)(struct st_conn *conn);
    /* One answer, which is taken over. False: the session was given up. */
    bool (*result)(struct st_conn *conn, PGresult *res);
    /* What had arrived was read. */
    void (*served)(struct st_conn *conn);
    /* The session is over, if there was one: what was in flight is settled or kept for the next. */
    void (*lost)(struct st_conn *conn);
    /* The timer fired while it served and nothing was awaited; NULL = that means nothing. */
    void (*idle)(struct st_conn *conn);
    /* Whether a session is to be had; NULL = always. */
    bool (*wanted)(const struct st_conn *conn);
};

struct st_conn {
    struct st_store *store;
    const struct st_role *role;
    unsigned char index; /* among its store's `conns` */
    enum st_way way;     /* of those */
    enum st_conn_state state;
    PGconn *pg;
    struct io_watch watch;
    struct io_timer timer; /* of the present state: next attempt, time limit, stall check */
    struct st_resolve *resolve;
    unsigned attempts;           /* that failed, one after the other */
    int64_t since_ms;            /* when it began to serve */
    int64_t progress_ms;         /* when something was last sent or received */
    int expected;                /* Syncs sent and not answered */
    int setup_syncs;             /* answered */
    struct st_identity identity; /* of the present session */
    struct st_params params;

    /* Of the connections that serve items (session.c, serve.c). */
    int64_t partitions_ms; /* when it last made partitions; 0 = never */
    int64_t looked_ms;     /* when what is queued was last found waiting behind a silent backend */
    int64_t large_ms;      /* before that nothing is taken from the large lane */
    size_t large_owed;     /* bytes brought that weigh less than a millisecond, so far */
    bool recycle;          /* to be replaced as soon as nothing is in flight */
    struct co_queue queues[ST_LANES][ST_KINDS];
    size_t n_in_lane[ST_LANES];
    size_t n_queued;      /* in all of them (st_conn_count) */
    struct list again;    /* batches for the next flush */
    struct list paused;   /* batches that wait for their due_ms */
    struct list inflight; /* in the order sent */
    struct list resend;   /* batches that were in flight when a session broke, in the order sent */
    int backend_pid;      /* of the present session */
    char backend_start[64];
    /* The backend that may still be at what is in `resend`: the next session ends it first. pid 0 = none. */
    struct {
        int pid;
        char start[64];
        bool ended;
    } ghost;
};

/* The connection that listens (listen.c). */
struct st_listener {
    struct st_conn conn;
    struct list notes; /* of other servers' turns, to be sent */
};

/* The connection for work that takes its time (errand.c). */
struct st_errands {
    struct st_conn conn;
    struct list items; /* by st_item.queued.node; the first one is worked at while the connection serves */
    struct list steps; /* of the first one, while it is worked at */
    bool running;      /* the first one is worked at */
    int64_t done;      /* of it, in number */
    char sqlstate[6];  /* the step failed; "" = it didn't */
};

/* What the connection that follows the trail asks for (follow.c). */
enum st_follow_step { ST_FOLLOW_START, ST_FOLLOW_LOOK, ST_FOLLOW_TRAIL, ST_FOLLOW_TIDY };
struct st_following {
    struct st_conn conn;
    struct st_follow *follow; /* NULL: nobody follows */
    bool begun;               /* `gaps` and `epoch` are known */
    struct co_gaps gaps;      /* of the ids */
    uint64_t epoch;           /* of the database whose ids they are */
    int64_t next_ms;          /* when it is time for the next look */
    int64_t caught_up_ms;     /* when a look last saw all there was */
    int64_t untidy;           /* ids since follow_tidy() */
    struct list trails;       /* pages that are wanted */
    struct st_trail *reading; /* the first of them, while it is asked for */
    enum st_follow_step step; /* in flight, or the last one */
    bool ignored;             /* what is in flight matters no more */
    PGresult *res;            /* of it: rows, or an error */
    int64_t looks, rows, failures;
};

struct st_store {
    struct io *io;
    const struct st_pq *pq;
    char *dsn;
    int first_host;              /* of the DSN's list, to be tried first */
    struct st_identity identity; /* that was served last: never an older timeline again */
    int max_queue, lock_timeout_ms, stall_ms, setup_ms;
    struct co_limits limits;
    void (*ready)(void *arg);
    void *ready_arg;
    struct hb_random random;
    struct co_budget budget;
    char id[17];
    struct heap deadlines; /* waiting items by their end */
    struct heap pauses;    /* paused items by their next try */
    struct list refused;   /* items whose outcome is set and told at the end of the turn */
    size_t outstanding;    /* items not done, the refused ones too */
    struct io_task flush;
    struct io_timer timer; /* deadlines, pauses, batches in flight */
    int64_t timer_at;      /* INT64_MAX = not set */
    int64_t memory_ms;     /* there was no memory for a batch: taking what waits is tried again then; INT64_MAX = there was */
    bool closing;
    bool executes; /* something was to be executed */
    struct st_kind_stats stats[ST_KINDS];
    /* First those that carry the work, n_work of them, then those of the other ways. */
    int n_work, n_conns;
    struct st_conn *conns;
    struct st_listener listener;
    struct st_errands errands;
    struct st_following following;

    void (*turn)(void *arg, const char *ns, const char *resource);
    void *turn_arg;
    struct list turns; /* notes of our own turns, to be told */
    struct io_task tell_turns;
    int64_t notify_batches, notes_sent;
};

/* ------------------------------------------------------------------------------------------------ store.c */

/* The end of an item, which must be in no queue, batch or heap. One that may be done already ends as lost if this outcome says
 * that nothing was done. */
void st_item_end(struct st_store *store, struct st_item *item, enum st_outcome outcome);
/* The same for lack of memory. */
void st_item_no_memory(struct st_store *store, struct st_item *item);
/* At the end of this turn idle connections take what waits. */
void st_wake(struct st_store *store);
/* Of the connections that carry the work, any. */
bool st_any_works(const struct st_store *store);
/* Takes a waiting item from wherever it waits. */
void st_item_detach(struct st_store *store, struct st_item *item);

/* ------------------------------------------------------------------------------------------------ route.c */

enum st_way st_way_of(enum st_kind kind);
/* Queues an item that already waits, at the front or the back. False: no memory, and it is nowhere. */
bool st_item_enqueue(struct st_store *store, struct st_item *item, bool front);
/* The item, which is nowhere, waits at the front of a queue again; without memory it ends. */
void st_item_requeue(struct st_store *store, struct st_item *item);
/* The same, at the front or the back. */
void st_item_return(struct st_store *store, struct st_item *item, bool front);
/* A connection begins to serve, or doesn't any more: what is queued moves to one that does. */
void st_rebalance(struct st_store *store);
/* What is queued on a connection whose backend has been silent for long moves to one that answers, if there is any. */
void st_avoid_silent(struct st_store *store, int64_t now);

/* ------------------------------------------------------------------------------------------------ schedule.c */

void st_schedule_init(struct st_store *store);
/* The timer fires no later than the next thing is due. */
void st_arm(struct st_store *store);
/* The item counts as waiting. */
void st_item_wait(struct st_store *store, struct st_item *item);
/* The item, which is nowhere, found its row busy: it waits for its next try on this lane, or ends as busy if none fits into its
 * patience. */
void st_item_pause(struct st_store *store, struct st_item *item, enum st_lane lane);

/* ------------------------------------------------------------------------------------------------ batch.c */

static inline struct st_item *st_item_of(struct list_node *node)
{
    return list_entry(list_entry(node, struct co_item, node), struct st_item, queued);
}

/* Empty, or NULL. */
struct st_batch *st_batch_new(int kind);
/* Frees it; it must be empty and linked nowhere. */
void st_batch_free(struct st_batch *batch);
/* The next batch of this kind from the connection's queue, or NULL. */
struct st_batch *st_batch_take(struct st_conn *conn, enum st_lane lane, int kind);
/* Takes the first item out, which is then nowhere; NULL when none is left. */
struct st_item *st_batch_pop(struct st_store *store, struct st_batch *batch);
/* It is in flight: sent, but for its Sync. False: the connection is no good; the batch was not sent and is where it was. */
bool st_batch_send(struct st_conn *conn, struct st_batch *batch) __attribute__((warn_unused_result));
/* Its Sync was answered, and it is linked nowhere: its items end, or are tried again. Frees it. */
void st_batch_finish(struct st_conn *conn, struct st_batch *batch);
/* The connection broke with it in flight, and it is linked nowhere: what only reads is queued again, what must not be sent twice
 * ends as lost, and the rest waits in `resend` for the next session. */
void st_batch_lost(struct st_conn *conn, struct st_batch *batch);
/* It waits and will not be sent on this connection: its items are queued again. Frees it. */
void st_batch_dissolve(struct st_conn *conn, struct st_batch *batch);
/* It waits, and is linked nowhere, to be sent (again): behind what is in `where`. Items that cannot wait for lack of memory have
 * ended. */
void st_batch_wait(struct st_conn *conn, struct st_batch *batch, struct list *where);
/* All its items end. */
void st_batch_end(struct st_conn *conn, struct st_batch *batch, enum st_outcome outcome, const char *sqlstate);
/* It was sent: those of its items whose time is over end as lost. */
void st_batch_expire(struct st_store *store, struct st_batch *batch, int64_t now);

/* ------------------------------------------------------------------------------------------------ large.c */

/* What a batch that is taken from the large lane may weigh. */
enum { ST_LARGE_PIECE = 256 << 10 };
/* How large each value may be that the batch brings, which is about to be sent. */
int32_t st_large_limit(const struct st_conn *conn, const struct st_batch *batch);
/* The item, which is nowhere, was answered without its value: it waits in the large lane. */
void st_large_later(struct st_store *store, struct st_item *item);
/* The batch has brought what it did: the next large ones wait until others had their turn. */
void st_large_note(struct st_conn *conn, const struct st_batch *batch);
/* Whether that time has come. */
bool st_large_due(const struct st_conn *conn);
/* When it comes, if something waits for it; INT64_MAX = nothing does. */
int64_t st_large_next(const struct st_conn *conn);

/* ------------------------------------------------------------------------------------------------ refused.c */

/* PostgreSQL refused the batch, so it had no effect: its items are tried again in some way, or end. Takes it over. */
void st_batch_refused(struct st_conn *conn, struct st_batch *batch);

/* ------------------------------------------------------------------------------------------------ conn.c */

/* So many more items, or fewer, are in the queues of a lane. */
static inline void st_conn_count(struct st_conn *conn, enum st_lane lane, ptrdiff_t n)
{
    conn->n_in_lane[lane] += (size_t)n;
    conn->n_queued += (size_t)n;
}

/* The connection begins to connect, if it is wanted. */
void st_conn_init(struct st_conn *conn, struct st_store *store, const struct st_role *role, unsigned char index);
/* It is wanted now: connects if it rests. */
void st_conn_want(struct st_conn *conn);
/* Takes work now or soon. */
static inline bool st_conn_serves(const struct st_conn *conn)
{
    return conn->state == ST_CONN_SERVING && !conn->recycle;
}
/* Its answers come; one that has kept its clients waiting so long gets nothing more to do while there are others. */
enum { ST_SUSPECT_MS = 500 };
static inline bool st_conn_prompt(const struct st_conn *conn, int64_t now)
{
    return st_conn_serves(conn) && (conn->expected == 0 || now - conn->progress_ms < ST_SUSPECT_MS);
}
/* Closed for good; what was in flight ended. Queues and waiting batches are left. */
void st_conn_close(struct st_conn *conn);
/* The session, or the attempt at one, is given up because of `why`; another attempt follows after a pause. */
void st_conn_retry(struct st_conn *conn, const char *why);
/* The host that this connection is at is no good: the next attempts, of any connection, begin with the one behind it. */
void st_conn_leave_host(struct st_conn *conn);
/* The session is ended; the next one is made when it is wanted. */
void st_conn_rest(struct st_conn *conn);
/* A Sync is sent. False: the connection is broken. */
bool st_conn_sync(struct st_conn *conn);
/* What is left to send goes out as soon as the socket takes it. False: the connection is broken. */
bool st_conn_flush_output(struct st_conn *conn);
void st_conn_set_timer(struct st_conn *conn, int64_t in_ms);
int64_t st_conn_now(const struct st_conn *conn);
/* An answer is now awaited: the session is given up if none comes. */
void st_conn_await(struct st_conn *conn);
/* `name` is set to `value` in the session, or with `local` until the end of the transaction. */
bool st_conn_send_setting(struct st_conn *conn, const char *name, const char *value, bool local);
/* A statement without parameters. */
bool st_conn_send_sql(struct st_conn *conn, const char *sql);
/* The error ended the session rather than the statement. */
bool st_ends_session(const PGresult *res);
static inline bool st_result_ok(const PGresult *res)
{
    return PQresultStatus(res) == PGRES_TUPLES_OK || PQresultStatus(res) == PGRES_COMMAND_OK;
}

/* ------------------------------------------------------------------------------------------------ identity.c */

/* The first statement of each session, and its answer. False, with `why`: it is none, or this is a database of the past. */
extern const char st_identity_sql[];
bool st_identity_read(struct st_conn *conn, const PGresult *res, char *why, size_t why_size);
/* The session is about to serve. Of two databases only its own is served from now on: what is connected to another one leaves it.
 */
void st_identity_note(struct st_conn *conn);

/* ------------------------------------------------------------------------------------------------ roles */

extern const struct st_role st_server_roles[ST_WAYS]; /* session.c and serve.c: serves items */
extern const struct st_role st_listener_role;
extern const struct st_role st_errands_role;
extern const struct st_role st_following_role;

/* session.c: the settings that every session has. */
extern const char st_settings_sql[];
bool st_session_setup(struct st_conn *conn);
bool st_session_setup_result(struct st_conn *conn, const PGresult *res);
void st_session_begin(struct st_conn *conn);
void st_session_lost(struct st_conn *conn);

/* serve.c: if it serves and nothing is in flight, it takes what waits. */
void st_conn_flush(struct st_conn *conn);

/* listen.c: sends what notes there are, if it listens and nothing is in flight. */
void st_listener_flush(struct st_store *store);
/* turns.c: `server` may have the turn on the resource, and is told after this turn of the loop. */
void st_turn_note(struct st_store *store, const char *server, const char *ns, const char *resource);
/* A payload that arrived, or was to be sent to ourselves. */
void st_turn_tell(struct st_store *store, const char *payload);
void st_turns_init(struct st_store *store);
void st_turns_release(struct st_store *store);

struct st_note {
    struct list_node node;
    const char *server;
    char payload[]; /* namespace, 0x1f, resource */
};

/* errand.c: whether items of this kind are errands; the item, which waits, is one. */
bool st_is_errand(enum st_kind kind);
void st_errand_add(struct st_store *store, struct st_item *item);
/* It isn't any more. */
void st_errand_remove(struct st_store *store, struct st_item *item);
void st_errands_init(struct st_store *store);

/* follow.c: it may be followed; nothing is connected before. */
void st_following_init(struct st_store *store);
void st_following_release(struct st_store *store);

#endif
