/*
 * batch.c - one batch: taken, sent, answered, tried again.
 *
 * Owns a batch's items from the moment they were taken until they end or are queued again. What PostgreSQL refused had no
 * effect, for a batch is one transaction; what it was sent and didn't answer is unknown.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/engine.h"
#include "store/rows.h"

enum { PARTITIONS_PAUSE_MS = 1000 };

static struct st_item *item_of(struct list_node *node)
{
    return list_entry(list_entry(node, struct co_item, node), struct st_item, queued);
}

struct st_batch *st_batch_new(int kind)
{
    struct st_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return NULL;
    batch->kind = kind;
    list_init(&batch->items);
    return batch;
}

void st_batch_free(struct st_batch *batch)
{
    st_call_release(&batch->call);
    free(batch->call.items);
    PQclear(batch->result);
    free(batch);
}

static void take_ownership(struct st_batch *batch)
{
    for (struct list_node *node = list_first(&batch->items); node; node = list_next(&batch->items, node))
        item_of(node)->batch = batch;
}

struct st_batch *st_batch_take(struct st_conn *conn, int kind)
{
    struct co_queue *queue = &conn->queues[kind];
    if (queue->n_items == 0)
        return NULL;
    struct st_batch *batch = st_batch_new(kind);
    if (!batch)
        return NULL; /* they wait for better times, or their deadline */
    struct co_limits limits = conn->store->limits;
    if (st_kinds[kind].shape != ST_PER_ITEM)
        limits.max_items = 1;
    co_queue_take(queue, &limits, &batch->items);
    take_ownership(batch);
    for (struct list_node *node = list_first(&batch->items); node; node = list_next(&batch->items, node))
        batch->history.session = batch->history.session || (item_of(node)->tries & ST_TRIED_SESSION);
    return batch;
}

/* Takes the first item out, which is then nowhere; NULL when none is left. */
static struct st_item *pop_item(struct st_store *store, struct st_batch *batch)
{
    struct list_node *node = list_pop_front(&batch->items);
    if (!node)
        return NULL;
    struct st_item *item = item_of(node);
    item->batch = NULL;
    heap_remove(&store->deadlines, item);
    return item;
}

/* ------------------------------------------------------------------------------------------------ sending */

static int by_key(const void *a, const void *b)
{
    const struct st_item *x = *(struct st_item *const *)a, *y = *(struct st_item *const *)b;
    int diff = x->ns == y->ns ? 0 : strcmp(x->ns, y->ns);
    return diff ? diff : strcmp(x->resource ? x->resource : "", y->resource ? y->resource : "");
}

/* Rows are locked in key order, so that batches of several servers cannot deadlock. */
static bool sort_items(struct st_batch *batch)
{
    struct st_call *call = &batch->call;
    free(call->items);
    call->n = 0;
    call->items = malloc(batch->items.count * sizeof(*call->items));
    if (!call->items)
        return false;
    for (struct list_node *node = list_first(&batch->items); node; node = list_next(&batch->items, node))
        call->items[call->n++] = item_of(node);
    qsort(call->items, call->n, sizeof(*call->items), by_key);
    return true;
}

static void note_sent(struct st_store *store, struct st_batch *batch)
{
    struct st_kind_stats *stats = &store->stats[batch->kind];
    size_t n = batch->call.n;
    for (size_t i = 0; i < n; i++)
        heap_remove(&store->deadlines, batch->call.items[i]);
    int size = 0;
    while (n >>= 1)
        size++;
    stats->batches++;
    stats->items += (int64_t)batch->call.n;
    stats->sizes[size < 15 ? size : 15]++;
}

static bool send_items(struct st_conn *conn, struct st_batch *batch)
{
    const struct st_kind_def *def = &st_kinds[batch->kind];
    const char *values[ST_PARAMS_MAX];
    int lengths[ST_PARAMS_MAX], formats[ST_PARAMS_MAX];
    batch->call.careful = batch->history.careful;
    batch->call.sent_ms = conn->store->io->now_ms(conn->store->io);
    st_params_reset(&conn->params);
    def->build(&conn->params, &batch->call);
    if (conn->params.failed)
        return false;
    st_params_view(&conn->params, values, lengths, formats);
    return conn->store->pq->sendQueryPrepared(conn->pg, def->name, conn->params.n, values, lengths, formats, 1) == 1;
}

static bool send_make_partitions(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    /* Making one waits for locks that the fast lane's limit would not allow. */
    return pq->sendQueryParams(conn->pg, "SELECT set_config('lock_timeout', '2000', true)", 0, NULL, NULL, NULL, NULL, 0) == 1 &&
           pq->sendQueryParams(conn->pg, "SELECT holdfast.make_partitions(1)", 0, NULL, NULL, NULL, NULL, 0) == 1;
}

bool st_batch_send(struct st_conn *conn, struct st_batch *batch)
{
    if (batch->kind == ST_PARTITIONS_NOW) {
        if (!send_make_partitions(conn))
            return false;
    } else if (!sort_items(batch) || !send_items(conn, batch)) {
        return false; /* without a Sync nothing of it is committed */
    }
    if (batch->kind != ST_PARTITIONS_NOW)
        note_sent(conn->store, batch);
    list_push_back(&conn->inflight, &batch->node);
    return true;
}

/* ------------------------------------------------------------------------------------------------ the good end */

static void deliver(struct st_conn *conn, struct st_batch *batch)
{
    struct st_store *store = conn->store;
    struct st_kind_stats *stats = &store->stats[batch->kind];
    for (size_t i = 0; i < batch->call.n; i++) {
        struct st_item *item = batch->call.items[i];
        list_remove(&batch->items, &item->queued.node);
        item->batch = NULL;
        if (item->outcome == ST_BUSY) {
            stats->busy++;
            if (!(item->tries & ST_TRIED_BUSY)) {
                item->tries |= ST_TRIED_BUSY;
                st_item_pause(store, item);
                continue;
            }
        }
        st_item_end(store, item, item->outcome);
    }
}

static void end_all(struct st_conn *conn, struct st_batch *batch, enum st_outcome outcome, const char *sqlstate)
{
    struct st_item *item;
    while ((item = pop_item(conn->store, batch))) {
        if (outcome == ST_FAILED)
            memcpy(item->sqlstate, sqlstate, 6);
        st_item_end(conn->store, item, outcome);
    }
}

/* Committed, but what came back cannot be read: the effect of a write is unknown. */
static void nonsense(struct st_conn *conn, struct st_batch *batch)
{
    const struct st_kind_def *def = &st_kinds[batch->kind];
    log_error("store.bad_result", log_str("kind", def->name), log_int("items", (int64_t)batch->call.n),
              log_int("rows", batch->result ? PQntuples(batch->result) : -1),
              log_int("columns", batch->result ? PQnfields(batch->result) : -1));
    end_all(conn, batch, def->writes ? ST_OUTCOME_LOST : ST_FAILED, "XX000");
}

/* ------------------------------------------------------------------------------------------------ the bad end */

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

/* The batch waits to be sent again; items that cannot wait for lack of memory have ended. */
static void wait_again(struct st_conn *conn, struct st_batch *batch, struct list *where)
{
    struct list_node *node = list_first(&batch->items), *next;
    for (; node; node = next) {
        next = list_next(&batch->items, node);
        struct st_item *item = item_of(node);
        list_remove(&batch->items, node);
        item->batch = NULL;
        if (!st_item_wait(conn->store, item))
            continue;
        item->batch = batch;
        if (next)
            list_insert_before(&batch->items, next, node);
        else
            list_push_back(&batch->items, node);
    }
    list_push_back(where, &batch->node);
    st_wake(conn->store);
}

static void forget_answer(struct st_batch *batch)
{
    PQclear(batch->result);
    batch->result = NULL;
    batch->unreplicated = false;
    st_call_release(&batch->call);
}

static void split(struct st_conn *conn, struct st_batch *batch)
{
    struct st_batch *second = st_batch_new(batch->kind);
    if (!second) {
        end_all(conn, batch, ST_FAILED, "53200");
        st_batch_free(batch);
        return;
    }
    conn->store->stats[batch->kind].splits++;
    second->history = batch->history;
    co_split(&batch->items, &second->items);
    forget_answer(batch);
    wait_again(conn, batch, &conn->again);
    wait_again(conn, second, &conn->again);
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
    while ((item = pop_item(conn->store, batch))) {
        item->tries |= ST_TRIED_SESSION;
        st_item_requeue(conn->store, item);
    }
    st_batch_free(batch);
}

static void give_up(struct st_conn *conn, struct st_batch *batch, enum co_failure failure, const char *sqlstate)
{
    if (failure == CO_LOCKED || failure == CO_CONFLICT || failure == CO_OVERTAKEN) {
        for (size_t i = 0; i < batch->call.n; i++)
            batch->call.items[i]->outcome = ST_BUSY;
        deliver(conn, batch);
    } else {
        const struct st_item *item = batch->call.items[0];
        log_error("store.item_failed", log_str("kind", st_kinds[batch->kind].name), log_str("namespace", item->ns),
                  log_str("resource", item->resource), log_int("items", (int64_t)batch->call.n), log_str("sqlstate", sqlstate),
                  log_str("error", PQresultErrorField(batch->result, PG_DIAG_MESSAGE_PRIMARY)));
        end_all(conn, batch, ST_FAILED, sqlstate);
    }
    st_batch_free(batch);
}

static void again(struct st_conn *conn, struct st_batch *batch, struct list *where)
{
    conn->store->stats[batch->kind].retries++;
    forget_answer(batch);
    wait_again(conn, batch, where);
}

/* PostgreSQL refused the batch, and so it had no effect. */
static void refused(struct st_conn *conn, struct st_batch *batch)
{
    struct st_store *store = conn->store;
    char sqlstate[6];
    copy_sqlstate(batch->result, sqlstate);
    enum co_failure failure = classify(batch, sqlstate);
    log_debug("store.batch_refused", log_str("kind", st_kinds[batch->kind].name), log_int("items", (int64_t)batch->call.n),
              log_str("sqlstate", sqlstate));
    switch (co_judge(failure, batch->call.n, &batch->history, &store->budget)) {
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

static void finish_partitions(struct st_batch *batch)
{
    if (!batch->result || PQresultStatus(batch->result) != PGRES_TUPLES_OK)
        log_error("store.make_partitions_failed",
                  log_str("error", batch->result ? PQresultErrorField(batch->result, PG_DIAG_MESSAGE_PRIMARY) : ""));
    st_batch_free(batch);
}

void st_batch_finish(struct st_conn *conn, struct st_batch *batch)
{
    bool rows = batch->result && PQresultStatus(batch->result) == PGRES_TUPLES_OK;
    if (batch->kind == ST_PARTITIONS_NOW) {
        finish_partitions(batch);
        return;
    }
    const struct st_kind_def *def = &st_kinds[batch->kind];
    if (batch->result && !rows && !batch->unreplicated) {
        refused(conn, batch);
        return;
    }
    if (batch->unreplicated && def->writes) {
        log_error("store.not_replicated", log_str("kind", def->name), log_int("items", (int64_t)batch->call.n));
        end_all(conn, batch, ST_OUTCOME_LOST, "");
    } else if (rows && st_result_read(def, batch->result, &batch->call)) {
        co_budget_earn(&conn->store->budget, batch->call.n);
        deliver(conn, batch);
    } else {
        nonsense(conn, batch);
    }
    st_batch_free(batch);
}

void st_batch_lost(struct st_conn *conn, struct st_batch *batch)
{
    if (batch->kind != ST_PARTITIONS_NOW && st_kinds[batch->kind].writes)
        end_all(conn, batch, ST_OUTCOME_LOST, "");
    st_batch_dissolve(conn, batch);
}

void st_batch_dissolve(struct st_conn *conn, struct st_batch *batch)
{
    struct st_item *item;
    while ((item = pop_item(conn->store, batch)))
        st_item_requeue(conn->store, item);
    st_batch_free(batch);
}
