/*
 * batch.c - one batch: taken, sent, answered, or lost on the way.
 *
 * Owns a batch's items from the moment they were taken until they end or are queued again. A batch is one transaction: what
 * PostgreSQL refused had no effect (refused.c); what it was sent and didn't answer is unknown.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/engine.h"
#include "store/rows.h"

enum { MEMORY_PAUSE_MS = 20 };

struct st_batch *st_batch_new(int kind)
{
    struct st_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return NULL;
    batch->kind = kind;
    batch->lost_ms = INT64_MAX;
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
        st_item_of(node)->batch = batch;
}

/* What is tried again on the slow lane starts where the fast lane left off, and spends nobody's budget. */
static void begin_history(struct st_batch *batch)
{
    if (st_is_slow(batch->lane)) {
        batch->history.careful = st_kinds[batch->kind].optimistic;
        batch->history.conflicts = CO_MAX_CONFLICTS;
    }
    for (struct list_node *node = list_first(&batch->items); node; node = list_next(&batch->items, node))
        batch->history.session = batch->history.session || (st_item_of(node)->flags & ST_TRIED_SESSION);
}

struct st_batch *st_batch_take(struct st_conn *conn, enum st_lane lane, int kind)
{
    struct co_queue *queue = &conn->queues[lane][kind];
    if (queue->n_items == 0)
        return NULL;
    struct st_batch *batch = st_batch_new(kind);
    if (!batch) {
        conn->store->memory_ms = conn->store->io->now_ms(conn->store->io) + MEMORY_PAUSE_MS;
        return NULL; /* they wait for better times, or their deadline */
    }
    struct co_limits limits = conn->store->limits;
    if (st_kinds[kind].shape != ST_PER_ITEM || lane == ST_ALONE)
        limits.max_items = 1;
    else if (st_kinds[kind].max_items && st_kinds[kind].max_items < limits.max_items)
        limits.max_items = st_kinds[kind].max_items;
    if (lane == ST_LARGE)
        limits.max_bytes = ST_LARGE_PIECE;
    batch->lane = lane;
    batch->hasty = lane == ST_ALONE;
    st_conn_count(conn, lane, -(ptrdiff_t)co_queue_take(queue, &limits, &batch->items));
    take_ownership(batch);
    begin_history(batch);
    return batch;
}

struct st_item *st_batch_pop(struct st_store *store, struct st_batch *batch)
{
    struct list_node *node = list_pop_front(&batch->items);
    if (!node)
        return NULL;
    struct st_item *item = st_item_of(node);
    item->batch = NULL;
    heap_remove(&store->deadlines, &item->deadline);
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
        call->items[call->n++] = st_item_of(node);
    qsort(call->items, call->n, sizeof(*call->items), by_key);
    return true;
}

/* When an item that is sent has waited for its answer long enough. */
static int64_t lost_at(const struct st_item *item)
{
    return item->deadline_ms < INT64_MAX - ST_GRACE_MS ? item->deadline_ms + ST_GRACE_MS : INT64_MAX;
}

static void note_sent(struct st_store *store, struct st_batch *batch)
{
    struct st_kind_stats *stats = &store->stats[batch->kind];
    size_t n = batch->call.n;
    batch->lost_ms = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        int64_t lost = lost_at(batch->call.items[i]);
        heap_remove(&store->deadlines, &batch->call.items[i]->deadline);
        if (lost < batch->lost_ms)
            batch->lost_ms = lost;
    }
    int size = 0;
    while (n >>= 1)
        size++;
    stats->batches++;
    stats->slow += st_is_slow(batch->lane);
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
    batch->call.server = conn->store->id;
    batch->call.max_value_bytes = st_large_limit(conn, batch);
    batch->call.value_bytes = 0;
    batch->call.store = conn->store;
    batch->call.next = st_turn_note;
    st_params_reset(&conn->params);
    def->build(&conn->params, &batch->call);
    if (conn->params.failed)
        return false;
    st_params_view(&conn->params, values, lengths, formats);
    /* It would wait for a lock, and with it all that is sent after it. */
    if (batch->hasty && !st_conn_send_setting(conn, "lock_timeout", "1", true))
        return false;
    return conn->store->pq->sendQueryPrepared(conn->pg, def->name, conn->params.n, values, lengths, formats, 1) == 1;
}

static bool send_make_partitions(struct st_conn *conn)
{
    /* Making one waits for locks that the fast lane's limit would not allow. */
    return st_conn_send_setting(conn, "lock_timeout", "2000", true) && st_conn_send_sql(conn, "SELECT holdfast.make_partitions(1)");
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
        if (!item)
            continue;
        list_remove(&batch->items, &item->queued.node);
        item->batch = NULL;
        if (item->outcome == ST_BUSY) {
            stats->busy++;
            st_item_pause(store, item, ST_SLOW);
        } else if (item->outcome == ST_OP_AGAIN_LATER) {
            st_item_requeue(store, item);
        } else if (item->outcome == ST_VALUE_LATER) {
            st_large_later(store, item);
        } else {
            st_item_end(store, item, item->outcome);
        }
    }
    st_large_note(conn, batch);
}

void st_batch_end(struct st_conn *conn, struct st_batch *batch, enum st_outcome outcome, const char *sqlstate)
{
    struct st_item *item;
    while ((item = st_batch_pop(conn->store, batch))) {
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
    st_batch_end(conn, batch, def->writes ? ST_OUTCOME_LOST : ST_FAILED, "XX000");
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
        st_batch_refused(conn, batch);
        return;
    }
    if (batch->unreplicated && def->writes) {
        log_error("store.not_replicated", log_str("kind", def->name), log_int("items", (int64_t)batch->call.n));
        st_batch_end(conn, batch, ST_OUTCOME_LOST, "");
    } else if (rows && st_result_read(def, batch->result, &batch->call)) {
        co_budget_earn(&conn->store->budget, batch->call.n);
        deliver(conn, batch);
    } else {
        nonsense(conn, batch);
    }
    st_batch_free(batch);
}

/* ------------------------------------------------------------------------------------------------ no end */

void st_batch_wait(struct st_conn *conn, struct st_batch *batch, struct list *where)
{
    PQclear(batch->result);
    batch->result = NULL;
    batch->unreplicated = false;
    st_call_release(&batch->call);
    batch->lost_ms = INT64_MAX;
    for (struct list_node *node = list_first(&batch->items); node; node = list_next(&batch->items, node))
        st_item_wait(conn->store, st_item_of(node));
    list_push_back(where, &batch->node);
    st_wake(conn->store);
}

void st_batch_expire(struct st_store *store, struct st_batch *batch, int64_t now)
{
    if (batch->lost_ms > now)
        return;
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < batch->call.n; i++) {
        struct st_item *item = batch->call.items[i];
        if (!item)
            continue;
        if (lost_at(item) > now) {
            next = lost_at(item) < next ? lost_at(item) : next;
            continue;
        }
        batch->call.items[i] = NULL;
        list_remove(&batch->items, &item->queued.node);
        item->batch = NULL;
        st_item_end(store, item, ST_OUTCOME_LOST);
    }
    batch->lost_ms = next;
}

/* Sent twice it could take effect twice, or undo what came after it: nothing in the database tells the repetition. */
static bool must_not_repeat(const struct st_item *item)
{
    return item->kind == ST_WRITE && item->in.write.write_seq == 0;
}

/* Those of its items that may be sent again stay. */
static void keep_repeatable(struct st_conn *conn, struct st_batch *batch)
{
    for (size_t i = 0; i < batch->call.n; i++) {
        struct st_item *item = batch->call.items[i];
        if (!item)
            continue;
        item->flags |= ST_MAYBE_DONE;
        if (!conn->store->closing && !must_not_repeat(item))
            continue;
        batch->call.items[i] = NULL;
        list_remove(&batch->items, &item->queued.node);
        item->batch = NULL;
        st_item_end(conn->store, item, ST_OUTCOME_LOST);
    }
}

void st_batch_lost(struct st_conn *conn, struct st_batch *batch)
{
    if (batch->kind == ST_PARTITIONS_NOW || !st_kinds[batch->kind].writes) {
        st_batch_dissolve(conn, batch);
        return;
    }
    keep_repeatable(conn, batch);
    if (list_empty(&batch->items))
        st_batch_free(batch);
    else
        list_push_back(&conn->resend, &batch->node);
}

void st_batch_dissolve(struct st_conn *conn, struct st_batch *batch)
{
    struct st_item *item;
    while ((item = st_batch_pop(conn->store, batch)))
        st_item_requeue(conn->store, item);
    st_batch_free(batch);
}
