/*
 * refused.c - what becomes of a batch that PostgreSQL refused: again, in halves, or given up. It had no effect.
 *
 * What to do is decided by core/retry; here it is told what happened, and done.
 */
#include <string.h>

#include "base/log.h"
#include "store/engine.h"

enum { PARTITIONS_PAUSE_MS = 1000 };

static void copy_sqlstate(const PGresult *result, char out[6])
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    memcpy(out, state && strlen(state) == 5 ? state : "XX000", 6);
}

static enum co_failure classify(const struct st_batch *batch, const char *sqlstate)
{
    if (strcmp(sqlstate, "40001") == 0)
        return st_kinds[batch->kind].optimistic ? CO_OVERTAKEN : CO_CONFLICT;
    if (strcmp(sqlstate, "40P01") == 0)
        return CO_CONFLICT;
    /* An optimistic renewal waits for row locks, the careful form passes over them. */
    if (strcmp(sqlstate, "55P03") == 0 && st_kinds[batch->kind].optimistic && !batch->history.careful)
        return CO_OVERTAKEN;
    if (strcmp(sqlstate, "55P03") == 0 || strcmp(sqlstate, "57014") == 0)
        return CO_LOCKED;
    /* "no partition of relation found" is a check violation that names no constraint. */
    if (strcmp(sqlstate, "23514") == 0 && !PQresultErrorField(batch->result, PG_DIAG_CONSTRAINT_NAME))
        return CO_PARTITION;
    /* A statement that isn't prepared, a plan that went stale, a server that became a standby. */
    if (strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "0A000") == 0 || strcmp(sqlstate, "25006") == 0)
        return CO_PLAN;
    return CO_GUILTY;
}

static void split(struct st_conn *conn, struct st_batch *batch)
{
    struct st_batch *second = st_batch_new(batch->kind);
    if (!second) {
        st_batch_end(conn, batch, ST_QUEUE_FULL, "");
        st_batch_free(batch);
        return;
    }
    conn->store->stats[batch->kind].splits++;
    second->lane = batch->lane;
    second->hasty = batch->hasty;
    second->history = batch->history;
    co_split(&batch->items, &second->items);
    st_batch_wait(conn, batch, &conn->again);
    st_batch_wait(conn, second, &conn->again);
}

static void make_partitions(struct st_conn *conn)
{
    int64_t now = conn->store->io->now_ms(conn->store->io);
    /* By connection, not by store: only what is sent after it on this connection is sure to find the partition. */
    if (conn->partitions_ms && now - conn->partitions_ms < PARTITIONS_PAUSE_MS)
        return;
    struct st_batch *work = st_batch_new(ST_PARTITIONS_NOW);
    if (!work)
        return;
    conn->partitions_ms = now;
    log_warn("store.partition_missing", log_str("action", "making it"));
    list_push_back(&conn->again, &work->node);
}

static void new_session(struct st_conn *conn, struct st_batch *batch)
{
    struct st_item *item;
    conn->recycle = true;
    while ((item = st_batch_pop(conn->store, batch))) {
        item->flags |= ST_TRIED_SESSION;
        st_item_requeue(conn->store, item);
    }
    st_batch_free(batch);
}

/* Its one item met a lock or a conflict that did not pass. */
static void give_up_busy(struct st_conn *conn, struct st_batch *batch, const char *sqlstate)
{
    struct st_store *store = conn->store;
    struct st_item *item;
    while ((item = st_batch_pop(store, batch))) {
        store->stats[batch->kind].busy++;
        if (strcmp(sqlstate, "57014") == 0)
            st_item_end(store, item, ST_BUSY); /* too slow by itself: to try again would hold up its neighbours as long */
        else
            st_item_pause(store, item, strcmp(sqlstate, "55P03") == 0 ? ST_ALONE : ST_SLOW);
    }
}

static void give_up(struct st_conn *conn, struct st_batch *batch, enum co_failure failure, const char *sqlstate)
{
    if (failure == CO_LOCKED || failure == CO_CONFLICT || failure == CO_OVERTAKEN) {
        give_up_busy(conn, batch, sqlstate);
    } else {
        const struct st_item *item = st_item_of(list_first(&batch->items));
        log_error("store.item_failed", log_str("kind", st_kinds[batch->kind].name), log_str("namespace", item->ns),
                  log_str("resource", item->resource), log_int("items", (int64_t)batch->items.count), log_str("sqlstate", sqlstate),
                  log_str("error", PQresultErrorField(batch->result, PG_DIAG_MESSAGE_PRIMARY)));
        st_batch_end(conn, batch, ST_FAILED, sqlstate);
    }
    st_batch_free(batch);
}

static void again(struct st_conn *conn, struct st_batch *batch, struct list *where)
{
    conn->store->stats[batch->kind].retries++;
    st_batch_wait(conn, batch, where);
}

void st_batch_refused(struct st_conn *conn, struct st_batch *batch)
{
    struct st_store *store = conn->store;
    char sqlstate[6];
    if (list_empty(&batch->items)) { /* their deadlines came first */
        st_batch_free(batch);
        return;
    }
    copy_sqlstate(batch->result, sqlstate);
    enum co_failure failure = classify(batch, sqlstate);
    log_debug("store.batch_refused", log_str("kind", st_kinds[batch->kind].name), log_int("items", (int64_t)batch->items.count),
              log_str("sqlstate", sqlstate));
    batch->hasty = batch->hasty || failure == CO_LOCKED;
    enum co_next next = co_judge(failure, batch->items.count, &batch->history, &store->budget);
    /* Some have ended since it was sent, and the guilty one may be among them: what is left isn't known to be at fault. */
    if (batch->items.count < batch->call.n && failure != CO_PLAN && (next == CO_SPLIT || next == CO_GIVE_UP)) {
        again(conn, batch, &conn->again);
        return;
    }
    switch (next) {
    case CO_AGAIN:
        batch->due_ms = store->io->now_ms(store->io) + co_pause_ms(batch->history.conflicts, &store->random);
        again(conn, batch, &conn->paused);
        break;
    case CO_MAKE_PARTITION:
        make_partitions(conn);
        __attribute__((fallthrough));
    case CO_AGAIN_CAREFUL:
        again(conn, batch, &conn->again);
        break;
    case CO_NEW_SESSION:
        store->stats[batch->kind].retries++;
        log_warn("store.session_unfit", log_int("connection", conn->index), log_str("sqlstate", sqlstate));
        new_session(conn, batch);
        break;
    case CO_SPLIT:
        split(conn, batch);
        break;
    case CO_GIVE_UP:
        give_up(conn, batch, failure, sqlstate);
        break;
    }
}
