/*
 * engine.h - the store's insides, shared by store.c, conn.c and batch.c.
 *
 * An item, from st_submit to `done`, is in one of four places: queued (in a co_queue of one connection), paused (in
 * `pauses`, before its second try), in a batch that waits (`again` or `paused` of a connection), or in a batch in flight.
 * In the first three it is *waiting*: it is in `deadlines`, and ends there when its deadline comes. In flight it isn't:
 * what was sent is waited for.
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
#include "core/queue.h"
#include "core/retry.h"
#include "store/kinds.h"
#include "store/params.h"
#include "store/pq.h"
#include "store/resolve.h"
#include "store/store.h"

/* Bits of st_item.tries. */
enum { ST_TRIED_BUSY = 1, ST_TRIED_SESSION = 2 };

/* What isn't an item's batch but the store's own work on a connection. */
enum { ST_PARTITIONS_NOW = ST_KINDS };

struct st_batch {
    struct list_node node; /* in a connection's again, paused or inflight */
    struct list items;     /* by st_item.queued.node */
    int kind;              /* enum st_kind, or ST_PARTITIONS_NOW */
    struct co_history history;
    int64_t due_ms; /* when paused */

    /* In flight. */
    struct st_call call; /* items in key order */
    PGresult *result;    /* the rows, or the first error */
    bool unreplicated;   /* a commit was not waited for: the outcome is unknown */
};

enum st_conn_state { ST_CONN_WAITING, ST_CONN_RESOLVING, ST_CONN_CONNECTING, ST_CONN_SETTING_UP, ST_CONN_SERVING, ST_CONN_CLOSED };

struct st_conn {
    struct st_store *store;
    unsigned char index;
    enum st_conn_state state;
    PGconn *pg;
    struct io_watch watch;
    struct io_timer timer; /* of the present state: next attempt, time limit, stall check */
    struct st_resolve *resolve;
    unsigned attempts;     /* that failed, one after the other */
    int64_t since_ms;      /* when it began to serve */
    int64_t progress_ms;   /* when something was last sent or received */
    int64_t partitions_ms; /* when it last made partitions; 0 = never */
    int setup_syncs;       /* answered */
    bool recycle;          /* to be replaced as soon as nothing is in flight */
    struct co_queue queues[ST_KINDS];
    struct list again;    /* batches for the next flush */
    struct list paused;   /* batches that wait for their due_ms */
    struct list inflight; /* in the order sent */
    struct st_params params;
};

struct st_store {
    struct io *io;
    const struct st_pq *pq;
    char *dsn;
    int max_queue, lock_timeout_ms, stall_ms;
    struct co_limits limits;
    void (*ready)(void *arg);
    void *ready_arg;
    struct hb_random random;
    struct co_budget budget;
    char id[17];
    void (*turn)(void *arg, const char *ns, const char *resource);
    void *turn_arg;
    struct heap deadlines; /* waiting items by deadline */
    struct heap pauses;    /* paused items by their second try */
    struct list refused;   /* items whose outcome is set and told at the end of the turn */
    size_t outstanding;    /* items not done */
    struct io_task flush;
    struct io_timer timer; /* deadlines and pauses */
    int64_t timer_at;      /* INT64_MAX = not set */
    bool closing;
    struct st_kind_stats stats[ST_KINDS];
    int n_conns;
    struct st_conn *conns;
};

/* ------------------------------------------------------------------------------------------------ store.c */

/* The end of an item, which must be in no queue, batch or heap. */
void st_item_end(struct st_store *store, struct st_item *item, enum st_outcome outcome);
/* The item, which is nowhere, waits at the front of a queue again; without memory it ends. */
void st_item_requeue(struct st_store *store, struct st_item *item);
/* The item, which is nowhere, waits a few milliseconds for its second try. */
void st_item_pause(struct st_store *store, struct st_item *item);
/* The item counts as waiting: for those in a batch that waits. False: it has ended for lack of memory. */
bool st_item_wait(struct st_store *store, struct st_item *item) __attribute__((warn_unused_result));
/* At the end of this turn idle connections take what waits. */
void st_wake(struct st_store *store);
/* A connection begins to serve, or doesn't any more: what is queued moves to one that does. */
void st_rebalance(struct st_store *store);

/* ------------------------------------------------------------------------------------------------ batch.c */

/* Empty, or NULL. */
struct st_batch *st_batch_new(int kind);
/* Frees it; it must be empty and linked nowhere. */
void st_batch_free(struct st_batch *batch);
/* The next batch of this kind from the connection's queue, or NULL. */
struct st_batch *st_batch_take(struct st_conn *conn, int kind);
/* It is in flight: sent with its Sync. False: the connection is no good; the batch was not sent and is where it was. */
bool st_batch_send(struct st_conn *conn, struct st_batch *batch) __attribute__((warn_unused_result));
/* Its Sync was answered, and it is linked nowhere: its items end, or are tried again. Frees it. */
void st_batch_finish(struct st_conn *conn, struct st_batch *batch);
/* The connection broke with it in flight: writes end as lost, reads are queued again. Frees it. */
void st_batch_lost(struct st_conn *conn, struct st_batch *batch);
/* It waits and will not be sent on this connection: its items are queued again. Frees it. */
void st_batch_dissolve(struct st_conn *conn, struct st_batch *batch);

/* ------------------------------------------------------------------------------------------------ conn.c */

/* The connection begins to connect. */
void st_conn_init(struct st_conn *conn, struct st_store *store, unsigned char index);
/* Takes work now or soon. */
static inline bool st_conn_serves(const struct st_conn *conn)
{
    return conn->state == ST_CONN_SERVING && !conn->recycle;
}
/* Closed for good; what was in flight ended. Queues and waiting batches are left. */
void st_conn_close(struct st_conn *conn);
/* The session, or the attempt at one, is given up because of `why`; what was in flight ended or is queued again; another
 * attempt follows after a pause. */
void st_conn_retry(struct st_conn *conn, const char *why);
/* One answer of the setup. False: it failed and the session was given up. */
bool st_conn_setup_result(struct st_conn *conn, const PGresult *res);
/* What is left to send goes out as soon as the socket takes it. False: the connection is broken. */
bool st_conn_flush_output(struct st_conn *conn);
void st_conn_set_timer(struct st_conn *conn, int64_t in_ms);
int64_t st_conn_now(const struct st_conn *conn);

/* ------------------------------------------------------------------------------------------------ serve.c */

/* If it serves and nothing is in flight, it takes what waits. */
void st_conn_flush(struct st_conn *conn);
/* Its socket can be read or written: takes in answers, of the setup too. */
void st_conn_serve(struct st_conn *conn);
/* Gives the session up if an answer is overdue. */
void st_conn_check_stall(struct st_conn *conn);

#endif
