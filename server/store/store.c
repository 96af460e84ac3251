/*
 * store.c - the store as its users see it: submitting, ending, statistics, closing.
 *
 * Owns the connections and what waits; route.c says where.
 */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "store/engine.h"

enum { BUDGET_MAX = 100, BUDGET_EARN_PERMILLE = 20 };

static struct st_item *item_of(const struct co_item *queued)
{
    return list_entry(queued, struct st_item, queued);
}

/* Items of one queue are of one kind, so a resource and an operation of the same name never meet here. */
static bool same_key(const struct co_item *a, const struct co_item *b)
{
    const struct st_item *x = item_of(a), *y = item_of(b);
    return strcmp(x->ns, y->ns) == 0 && strcmp(x->resource ? x->resource : "", y->resource ? y->resource : "") == 0;
}

bool st_any_works(const struct st_store *store)
{
    for (int i = 0; i < store->n_work; i++) {
        if (store->conns[i].state == ST_CONN_SERVING)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------ items */

/* A lease that isn't there to be released may have been released by the sending that was not answered, and be another's by now; an
 * action that isn't there may have been removed by it. */
static bool says_nothing_was_done(const struct st_item *item, enum st_outcome outcome)
{
    return outcome == ST_BUSY || (outcome > ST_OUTCOME_LOST && outcome <= ST_FAILED) ||
           (item->kind == ST_RELEASE && outcome == ST_NOT_FREED) || (item->kind == ST_REMOVE_ACTION && outcome == ST_OP_NO_ACTION);
}

void st_item_end(struct st_store *store, struct st_item *item, enum st_outcome outcome)
{
    /* This time nothing was done; nobody knows about the last. */
    if ((item->flags & ST_MAYBE_DONE) && says_nothing_was_done(item, outcome))
        outcome = ST_OUTCOME_LOST;
    item->outcome = outcome;
    store->outstanding--;
    item->done(item);
}

void st_item_no_memory(struct st_store *store, struct st_item *item)
{
    st_item_end(store, item, ST_QUEUE_FULL);
}

void st_item_detach(struct st_store *store, struct st_item *item)
{
    heap_remove(&store->deadlines, &item->deadline);
    heap_remove(&store->pauses, &item->pause);
    if (item->batch) {
        list_remove(&item->batch->items, &item->queued.node);
        item->batch = NULL;
    } else if (item->queued.key) {
        struct st_conn *conn = &store->conns[item->connection];
        co_queue_remove(&conn->queues[item->lane][item->kind], &item->queued);
        st_conn_count(conn, item->lane, -1);
    } else if (st_is_errand(item->kind)) {
        st_errand_remove(store, item);
    }
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
    st_listener_flush(store);
    st_arm(store);
}

static void refuse(struct st_store *store, struct st_item *item, enum st_outcome outcome, const char *sqlstate)
{
    item->outcome = outcome;
    memcpy(item->sqlstate, sqlstate, strlen(sqlstate) + 1);
    list_push_back(&store->refused, &item->queued.node);
}

/* The item waits for its turn. */
static void take_in(struct st_store *store, struct st_item *item)
{
    heap_set(&store->deadlines, &item->deadline, item->deadline_ms);
    if (st_is_errand(item->kind)) {
        st_errand_add(store, item);
    } else if (!st_item_enqueue(store, item, false)) {
        heap_remove(&store->deadlines, &item->deadline);
        refuse(store, item, ST_QUEUE_FULL, "");
    }
}

void st_submit(struct st_store *store, struct st_item *item)
{
    uint64_t hash = hb_hash_str(HB_HASH_SEED, item->ns);
    store->outstanding++;
    item->queued = (struct co_item){.hash = item->resource ? hb_hash_str(hash, item->resource) : hash};
    item->queued.bytes = st_kinds[item->kind].weigh ? st_kinds[item->kind].weigh(item) : 0;
    item->batch = NULL;
    item->deadline = item->pause = (struct heap_node){0};
    item->submitted_ms = store->io->now_ms(store->io);
    item->lane = ST_FAST;
    item->flags = item->busy = 0;
    size_t several = item->kind == ST_ACQUIRE_ALL ? item->in.acquire.n_resources : 1;
    if (store->closing)
        refuse(store, item, ST_DATABASE_DOWN, "");
    else if (several < 1 || several > ST_MAX_RESOURCES)
        refuse(store, item, ST_FAILED, "54023");
    else if (store->outstanding - store->refused.count > (size_t)store->max_queue)
        refuse(store, item, ST_QUEUE_FULL, "");
    else
        take_in(store, item);
    st_wake(store);
}

/* What does nothing for those who don't read the answer. (A grant that nobody was told of is given back.) */
static bool is_of_use_to_its_caller_only(const struct st_item *item)
{
    enum st_kind kind = item->kind;
    return item->lane == ST_LARGE /* a replay, or what reads */ || kind == ST_ACQUIRE || kind == ST_ACQUIRE_ALL ||
           (kind >= ST_CHECK && kind <= ST_GET) || kind == ST_LIST_LEASES || kind == ST_LIST_RESOURCES || kind == ST_OP_GET ||
           kind == ST_OP_LIST || kind == ST_OP_ATTEMPTS || kind == ST_AUDIT;
}

void st_withdraw(struct st_store *store, struct st_item *item)
{
    bool queued = item->deadline.linked && !item->batch; /* one that was refused has no deadline any more */
    item->flags |= ST_UNWANTED;
    if (!queued || item->flags & ST_MAYBE_DONE || !is_of_use_to_its_caller_only(item))
        return;
    st_item_detach(store, item);
    refuse(store, item, ST_TIMED_OUT, "");
    st_wake(store);
}

/* ------------------------------------------------------------------------------------------------ life */

static const enum st_way other_ways[ST_OTHER_CONNECTIONS] = {ST_WAY_READS, ST_WAY_LISTS, ST_WAY_EXECUTE, ST_WAY_EXECUTE};

static bool init(struct st_store *store, const struct st_config *cfg)
{
    store->n_work = cfg->connections > 0 ? cfg->connections : 2;
    if (store->n_work > 64)
        store->n_work = 64;
    store->n_conns = store->n_work + ST_OTHER_CONNECTIONS;
    store->max_queue = cfg->max_queue > 0 ? cfg->max_queue : 100000;
    store->lock_timeout_ms = cfg->lock_timeout_ms > 0 ? cfg->lock_timeout_ms : 20;
    store->stall_ms = cfg->stall_ms > 0 ? cfg->stall_ms : 20000;
    store->setup_ms = cfg->setup_ms > 0 ? cfg->setup_ms : 60000;
    store->limits.max_items = cfg->max_batch > 0 ? (size_t)cfg->max_batch : 512;
    store->limits.max_bytes = cfg->max_batch_bytes ? cfg->max_batch_bytes : (size_t)4 << 20;
    store->pq = cfg->pq ? cfg->pq : &st_libpq;
    store->flush.run = on_flush;
    list_init(&store->refused);
    st_schedule_init(store);
    st_turns_init(store);
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
        for (int queue = 0; queue < ST_LANES * ST_KINDS; queue++)
            co_queue_init(&store->conns[i].queues[queue / ST_KINDS][queue % ST_KINDS], same_key);
        store->conns[i].way = i < store->n_work ? ST_WAY_WORK : other_ways[i - store->n_work];
        st_conn_init(&store->conns[i], store, &st_server_roles[store->conns[i].way], (unsigned char)i);
    }
    st_conn_init(&store->listener.conn, store, &st_listener_role, 0);
    st_errands_init(store);
    st_following_init(store);
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
    out->listening = store->listener.conn.state == ST_CONN_SERVING;
    out->notify_batches = store->notify_batches;
    out->notes_sent = store->notes_sent;
    memcpy(out->kinds, store->stats, sizeof(out->kinds));
    out->queued = (int64_t)store->deadlines.n;
    out->connections_wanted = store->n_work;
    out->connections_ready = 0;
    for (int i = 0; i < store->n_work; i++)
        out->connections_ready += st_conn_serves(&store->conns[i]);
}

static void free_batches(struct list *batches)
{
    struct list_node *node;
    while ((node = list_pop_front(batches)))
        st_batch_free(list_entry(node, struct st_batch, node));
}

static void release_conn(struct st_conn *conn)
{
    free_batches(&conn->again);
    free_batches(&conn->paused);
    for (int queue = 0; queue < ST_LANES * ST_KINDS; queue++)
        co_queue_release(&conn->queues[queue / ST_KINDS][queue % ST_KINDS]);
    st_params_release(&conn->params);
}

void st_close(struct st_store *store)
{
    if (!store)
        return;
    store->closing = true;
    for (int i = 0; i < store->n_conns; i++)
        st_conn_close(&store->conns[i]);
    st_conn_close(&store->listener.conn);
    st_conn_close(&store->errands.conn);
    st_conn_close(&store->following.conn);
    struct heap_node *first;
    while ((first = heap_top(&store->deadlines))) {
        struct st_item *item = list_entry(first, struct st_item, deadline);
        st_item_detach(store, item);
        st_item_end(store, item, ST_DATABASE_DOWN);
    }
    while (!list_empty(&store->refused))
        tell_refused(store);
    store->io->timer_cancel(store->io, &store->timer);
    store->io->unpost(store->io, &store->flush);
    for (int i = 0; i < store->n_conns; i++)
        release_conn(&store->conns[i]);
    st_turns_release(store);
    st_params_release(&store->listener.conn.params);
    st_following_release(store);
    free(store->conns);
    free(store->dsn);
    free(store);
}
