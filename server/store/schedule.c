/*
 * schedule.c - what happens when time passes: deadlines, the slow lane's next tries, batches that wait or are overdue, backends
 * that have fallen silent.
 *
 * One timer for all of it, set for the earliest; it may fire too early, which costs less than moving it with each item.
 */
#include "base/log.h"
#include "store/engine.h"

static void on_timer(struct io_timer *timer);

void st_schedule_init(struct st_store *store)
{
    store->timer_at = store->memory_ms = INT64_MAX;
    store->timer.fire = on_timer;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t first_due(const struct list *paused, int64_t at)
{
    for (struct list_node *node = list_first(paused); node; node = list_next(paused, node))
        at = earlier(at, list_entry(node, struct st_batch, node)->due_ms);
    return at;
}

static int64_t first_lost(const struct list *sent, int64_t at)
{
    for (struct list_node *node = list_first(sent); node; node = list_next(sent, node))
        at = earlier(at, list_entry(node, struct st_batch, node)->lost_ms);
    return at;
}

void st_arm(struct st_store *store)
{
    int64_t at = earlier(heap_top_key(&store->deadlines, INT64_MAX), heap_top_key(&store->pauses, INT64_MAX));
    at = earlier(at, store->memory_ms);
    for (int i = 0; i < store->n_conns; i++) {
        const struct st_conn *conn = &store->conns[i];
        if (conn->n_queued && conn->expected > 0 && st_conn_serves(conn))
            at = earlier(at, (conn->looked_ms > conn->progress_ms ? conn->looked_ms : conn->progress_ms) + ST_SUSPECT_MS);
        at = earlier(at, st_large_next(conn));
        at = first_lost(&conn->resend, first_lost(&conn->inflight, first_due(&conn->paused, at)));
    }
    if (at < store->timer_at) {
        store->timer_at = at;
        store->io->timer_set(store->io, &store->timer, at);
    }
}

/* ------------------------------------------------------------------------------------------------ items */

/* When an item that waits has waited long enough. */
static int64_t end_of(const struct st_item *item)
{
    if (!st_is_slow(item->lane) || item->patience_ms == 0)
        return item->deadline_ms;
    return earlier(item->patience_ms, item->deadline_ms);
}

void st_item_wait(struct st_store *store, struct st_item *item)
{
    heap_set(&store->deadlines, &item->deadline, end_of(item));
}

void st_item_pause(struct st_store *store, struct st_item *item, enum st_lane lane)
{
    if (item->lane < lane || item->lane == ST_LARGE)
        item->lane = (unsigned char)lane;
    int64_t due = store->io->now_ms(store->io) + co_slow_pause_ms(item->busy, &store->random);
    if (item->busy < UINT8_MAX)
        item->busy++;
    if (due >= end_of(item)) {
        st_item_end(store, item, ST_BUSY); /* now rather than later: no other try would come before */
        return;
    }
    st_item_wait(store, item);
    heap_set(&store->pauses, &item->pause, due);
    st_wake(store); /* sets the timer */
}

static void expire_waiting(struct st_store *store, int64_t now)
{
    while (heap_top_key(&store->deadlines, INT64_MAX) <= now) {
        struct st_item *item = list_entry(heap_top(&store->deadlines), struct st_item, deadline);
        st_item_detach(store, item);
        if (st_is_slow(item->lane))
            st_item_end(store, item, ST_BUSY);
        else
            st_item_end(store, item, st_any_works(store) ? ST_TIMED_OUT : ST_DATABASE_DOWN);
    }
}

static void retry_paused(struct st_store *store, int64_t now)
{
    while (heap_top_key(&store->pauses, INT64_MAX) <= now) {
        struct st_item *item = list_entry(heap_top(&store->pauses), struct st_item, pause);
        heap_remove(&store->pauses, &item->pause);
        heap_remove(&store->deadlines, &item->deadline);
        st_item_requeue(store, item);
    }
}

/* ------------------------------------------------------------------------------------------------ batches */

static void expire_sent(struct st_store *store, struct list *sent, int64_t now)
{
    for (struct list_node *node = list_first(sent); node; node = list_next(sent, node))
        st_batch_expire(store, list_entry(node, struct st_batch, node), now);
}

static void send_due(struct st_conn *conn, int64_t now)
{
    struct list_node *node = list_first(&conn->paused), *next;
    for (; node; node = next) {
        next = list_next(&conn->paused, node);
        if (list_entry(node, struct st_batch, node)->due_ms > now)
            continue;
        list_remove(&conn->paused, node);
        list_push_back(&conn->again, node);
        st_wake(conn->store);
    }
}

static void on_timer(struct io_timer *timer)
{
    struct st_store *store = list_entry(timer, struct st_store, timer);
    int64_t now = store->io->now_ms(store->io);
    store->timer_at = INT64_MAX;
    expire_waiting(store, now);
    retry_paused(store, now);
    if (store->memory_ms <= now) {
        store->memory_ms = INT64_MAX;
        st_wake(store);
    }
    for (int i = 0; i < store->n_conns; i++) {
        struct st_conn *conn = &store->conns[i];
        if (st_large_next(conn) <= now)
            st_wake(store);
        expire_sent(store, &conn->inflight, now);
        expire_sent(store, &conn->resend, now);
        send_due(conn, now);
    }
    st_avoid_silent(store, now);
    st_arm(store);
}
