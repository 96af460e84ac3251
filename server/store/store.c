/*
 * store.c - the store as its users see it: submitting, routing, deadlines, statistics, closing.
 *
 * Owns the connections and what waits. Items go to the connection their key hashes to, so that calls on one resource meet
 * in one batch rather than on one row lock; correctness doesn't depend on it, and while that connection is down another
 * one takes them.
 */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "store/engine.h"

enum { BUSY_PAUSE_MIN_MS = 5, BUSY_PAUSE_SPREAD_MS = 16, BUDGET_MAX = 100, BUDGET_EARN_PERMILLE = 20 };

static struct st_item *item_of(const struct co_item *queued)
{
    return list_entry(queued, struct st_item, queued);
}

static bool same_key(const struct co_item *a, const struct co_item *b)
{
    const struct st_item *x = item_of(a), *y = item_of(b);
    return strcmp(x->ns, y->ns) == 0 && strcmp(x->resource ? x->resource : "", y->resource ? y->resource : "") == 0;
}

/* ------------------------------------------------------------------------------------------------ time */

static void arm(struct st_store *store)
{
    int64_t at = heap_top_key(&store->deadlines, INT64_MAX), pause = heap_top_key(&store->pauses, INT64_MAX);
    if (pause < at)
        at = pause;
    for (int i = 0; i < store->n_conns; i++) {
        const struct list *paused = &store->conns[i].paused;
        for (struct list_node *node = list_first(paused); node; node = list_next(paused, node)) {
            int64_t due = list_entry(node, struct st_batch, node)->due_ms;
            if (due < at)
                at = due;
        }
    }
    /* A timer that fires too early costs less than one moved with each item that came and went. */
    if (at < store->timer_at) {
        store->timer_at = at;
        store->io->timer_set(store->io, &store->timer, at);
    }
}

static bool any_serves(const struct st_store *store)
{
    for (int i = 0; i < store->n_conns; i++) {
        if (store->conns[i].state == ST_CONN_SERVING)
            return true;
    }
    return false;
}

/* Takes a waiting item from wherever it waits. */
static void detach(struct st_store *store, struct st_item *item)
{
    heap_remove(&store->deadlines, item);
    heap_remove(&store->pauses, item);
    if (item->batch) {
        list_remove(&item->batch->items, &item->queued.node);
        item->batch = NULL;
    } else if (item->queued.key) {
        co_queue_remove(&store->conns[item->connection].queues[item->kind], &item->queued);
    }
}

static void expire(struct st_store *store, int64_t now)
{
    while (heap_top_key(&store->deadlines, INT64_MAX) <= now) {
        struct st_item *item = heap_top(&store->deadlines);
        detach(store, item);
        if (item->tries & ST_TRIED_BUSY)
            st_item_end(store, item, ST_BUSY);
        else
            st_item_end(store, item, any_serves(store) ? ST_TIMED_OUT : ST_DATABASE_DOWN);
    }
}

static void on_timer(struct io_timer *timer)
{
    struct st_store *store = list_entry(timer, struct st_store, timer);
    int64_t now = store->io->now_ms(store->io);
    store->timer_at = INT64_MAX;
    expire(store, now);
    while (heap_top_key(&store->pauses, INT64_MAX) <= now) {
        struct st_item *item = heap_top(&store->pauses);
        heap_remove(&store->pauses, item);
        heap_remove(&store->deadlines, item);
        st_item_requeue(store, item);
    }
    for (int i = 0; i < store->n_conns; i++) {
        struct st_conn *conn = &store->conns[i];
        struct list_node *node = list_first(&conn->paused), *next;
        for (; node; node = next) {
            next = list_next(&conn->paused, node);
            if (list_entry(node, struct st_batch, node)->due_ms > now)
                continue;
            list_remove(&conn->paused, node);
            list_push_back(&conn->again, node);
            st_wake(store);
        }
    }
    arm(store);
}

/* ------------------------------------------------------------------------------------------------ items */

void st_item_end(struct st_store *store, struct st_item *item, enum st_outcome outcome)
{
    item->outcome = outcome;
    store->outstanding--;
    item->done(item);
}

bool st_item_wait(struct st_store *store, struct st_item *item)
{
    if (heap_set(&store->deadlines, item, item->deadline_ms))
        return true;
    memcpy(item->sqlstate, "53200", 6);
    st_item_end(store, item, ST_FAILED);
    return false;
}

static struct st_conn *route(struct st_store *store, const struct st_item *item)
{
    unsigned n = (unsigned)store->n_conns, home = (unsigned)(hb_hash_mix(item->queued.hash) >> 8) % n;
    for (unsigned i = 0; i < n; i++) {
        struct st_conn *conn = &store->conns[(home + i) % n];
        if (st_conn_serves(conn))
            return conn;
    }
    return &store->conns[home];
}

/* Queues an item that already waits, at the front or the back. */
static bool enqueue(struct st_store *store, struct st_item *item, bool front)
{
    struct st_conn *conn = route(store, item);
    struct co_queue *queue = &conn->queues[item->kind];
    item->connection = conn->index;
    return front ? co_queue_push_front(queue, &item->queued) : co_queue_push(queue, &item->queued);
}

void st_item_requeue(struct st_store *store, struct st_item *item)
{
    if (!st_item_wait(store, item))
        return;
    if (!enqueue(store, item, true)) {
        heap_remove(&store->deadlines, item);
        memcpy(item->sqlstate, "53200", 6);
        st_item_end(store, item, ST_FAILED);
        return;
    }
    st_wake(store);
}

void st_item_pause(struct st_store *store, struct st_item *item)
{
    int64_t due = store->io->now_ms(store->io) + BUSY_PAUSE_MIN_MS + (int64_t)hb_random_below(&store->random, BUSY_PAUSE_SPREAD_MS);
    if (!st_item_wait(store, item))
        return;
    if (!heap_set(&store->pauses, item, due)) {
        heap_remove(&store->deadlines, item);
        st_item_end(store, item, ST_BUSY);
        return;
    }
    st_wake(store); /* sets the timer */
}

void st_rebalance(struct st_store *store)
{
    if (!any_serves(store))
        return;
    for (int i = 0; i < store->n_conns; i++) {
        struct st_conn *conn = &store->conns[i];
        if (st_conn_serves(conn))
            continue;
        for (int kind = 0; kind < ST_KINDS; kind++) {
            /* As many as are there now: they may come back to this one, if all that serve are being replaced. */
            for (size_t n = conn->queues[kind].n_items; n > 0; n--) {
                struct st_item *item = item_of(co_queue_pop(&conn->queues[kind]));
                if (!enqueue(store, item, false)) {
                    heap_remove(&store->deadlines, item);
                    memcpy(item->sqlstate, "53200", 6);
                    st_item_end(store, item, ST_FAILED);
                }
            }
        }
    }
    st_wake(store);
}

/* ------------------------------------------------------------------------------------------------ turns */

void st_wake(struct st_store *store)
{
    if (!store->closing)
        store->io->post(store->io, &store->flush);
}

static void tell_refused(struct st_store *store)
{
    /* As many as are there now: `done` may submit more, which have their turn later. */
    for (size_t n = store->refused.count; n > 0; n--) {
        struct co_item *queued = list_entry(list_pop_front(&store->refused), struct co_item, node);
        st_item_end(store, item_of(queued), item_of(queued)->outcome);
    }
    if (!list_empty(&store->refused))
        st_wake(store);
}

static void on_flush(struct io_task *task)
{
    struct st_store *store = list_entry(task, struct st_store, flush);
    tell_refused(store);
    for (int i = 0; i < store->n_conns; i++)
        st_conn_flush(&store->conns[i]);
    arm(store);
}

static void refuse(struct st_store *store, struct st_item *item, enum st_outcome outcome, const char *sqlstate)
{
    item->outcome = outcome;
    memcpy(item->sqlstate, sqlstate, strlen(sqlstate) + 1);
    list_push_back(&store->refused, &item->queued.node);
}

void st_submit(struct st_store *store, struct st_item *item)
{
    uint64_t hash = hb_hash_str(HB_HASH_SEED, item->ns);
    store->outstanding++;
    item->queued = (struct co_item){.hash = item->resource ? hb_hash_str(hash, item->resource) : hash};
    item->queued.bytes = item->kind == ST_WRITE ? item->in.write.value.len : 0;
    item->batch = NULL;
    item->deadline_index = item->pause_index = 0;
    item->tries = 0;
    size_t several = item->kind == ST_ACQUIRE_ALL ? item->in.acquire.n_resources : 1;
    if (store->closing)
        refuse(store, item, ST_DATABASE_DOWN, "");
    else if (!st_kinds[item->kind].sql)
        refuse(store, item, ST_FAILED, "0A000");
    else if (several < 1 || several > ST_MAX_RESOURCES)
        refuse(store, item, ST_FAILED, "54023");
    else if (store->deadlines.n >= (size_t)store->max_queue)
        refuse(store, item, ST_QUEUE_FULL, "");
    else if (!heap_set(&store->deadlines, item, item->deadline_ms))
        refuse(store, item, ST_FAILED, "53200");
    else if (!enqueue(store, item, false)) {
        heap_remove(&store->deadlines, item);
        refuse(store, item, ST_FAILED, "53200");
    }
    st_wake(store);
}

/* ------------------------------------------------------------------------------------------------ life */

static bool init(struct st_store *store, const struct st_config *cfg)
{
    store->n_conns = cfg->connections > 0 ? cfg->connections : 4;
    if (store->n_conns > 64)
        store->n_conns = 64;
    store->max_queue = cfg->max_queue > 0 ? cfg->max_queue : 100000;
    store->lock_timeout_ms = cfg->lock_timeout_ms > 0 ? cfg->lock_timeout_ms : 20;
    store->stall_ms = cfg->stall_ms > 0 ? cfg->stall_ms : 20000;
    store->limits.max_items = cfg->max_batch > 0 ? (size_t)cfg->max_batch : 512;
    store->limits.max_bytes = cfg->max_batch_bytes ? cfg->max_batch_bytes : (size_t)4 << 20;
    store->pq = cfg->pq ? cfg->pq : &st_libpq;
    store->timer_at = INT64_MAX;
    store->timer.fire = on_timer;
    store->flush.run = on_flush;
    list_init(&store->refused);
    heap_init(&store->deadlines, offsetof(struct st_item, deadline_index));
    heap_init(&store->pauses, offsetof(struct st_item, pause_index));
    hb_random_seed_os(&store->random);
    co_budget_init(&store->budget, BUDGET_MAX, BUDGET_EARN_PERMILLE);
    uint64_t id;
    if (!hb_random_bytes(&id, sizeof(id)))
        id = hb_random_u64(&store->random);
    snprintf(store->id, sizeof(store->id), "%016" PRIx64, id);
    store->dsn = strdup(cfg->dsn);
    store->conns = calloc((size_t)store->n_conns, sizeof(*store->conns));
    return store->dsn && store->conns;
}

struct st_store *st_open(const struct st_config *cfg, struct io *io, void (*ready)(void *arg), void *arg)
{
    struct st_store *store = calloc(1, sizeof(*store));
    if (!store)
        return NULL;
    store->io = io;
    store->ready = ready;
    store->ready_arg = arg;
    if (!init(store, cfg)) {
        free(store->dsn);
        free(store->conns);
        free(store);
        return NULL;
    }
    for (int i = 0; i < store->n_conns; i++) {
        for (int kind = 0; kind < ST_KINDS; kind++)
            co_queue_init(&store->conns[i].queues[kind], same_key);
        st_conn_init(&store->conns[i], store, (unsigned char)i);
    }
    return store;
}

const char *st_server_id(const struct st_store *store)
{
    return store->id;
}

void st_on_turn(struct st_store *store, void (*turn)(void *arg, const char *ns, const char *resource), void *arg)
{
    store->turn = turn;
    store->turn_arg = arg;
}

bool st_idle(const struct st_store *store)
{
    return store->outstanding == 0;
}

void st_stats(const struct st_store *store, struct st_stats *out)
{
    out->listening = false;
    memcpy(out->kinds, store->stats, sizeof(out->kinds));
    out->queued = (int64_t)store->deadlines.n;
    out->connections_wanted = store->n_conns;
    out->connections_ready = 0;
    for (int i = 0; i < store->n_conns; i++)
        out->connections_ready += st_conn_serves(&store->conns[i]);
}

static void free_batches(struct list *batches)
{
    struct list_node *node;
    while ((node = list_pop_front(batches)))
        st_batch_free(list_entry(node, struct st_batch, node));
}

void st_close(struct st_store *store)
{
    if (!store)
        return;
    store->closing = true;
    for (int i = 0; i < store->n_conns; i++)
        st_conn_close(&store->conns[i]);
    struct st_item *item;
    while ((item = heap_top(&store->deadlines))) {
        detach(store, item);
        st_item_end(store, item, ST_DATABASE_DOWN);
    }
    while (!list_empty(&store->refused))
        tell_refused(store);
    store->io->timer_cancel(store->io, &store->timer);
    store->io->unpost(store->io, &store->flush);
    for (int i = 0; i < store->n_conns; i++) {
        struct st_conn *conn = &store->conns[i];
        free_batches(&conn->again);
        free_batches(&conn->paused);
        for (int kind = 0; kind < ST_KINDS; kind++)
            co_queue_release(&conn->queues[kind]);
        st_params_release(&conn->params);
    }
    heap_release(&store->deadlines);
    heap_release(&store->pauses);
    free(store->conns);
    free(store->dsn);
    free(store);
}
