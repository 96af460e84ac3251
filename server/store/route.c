/*
 * route.c - which connection an item waits for.
 *
 * What only reads has ways of its own, and so has what executes users' SQL, which may take any time. Other items go to the
 * connection their key hashes to, so that calls on one resource meet in one batch rather than on one row lock; correctness doesn't
 * depend on it, and while that connection is down, or has not answered for long, another one takes them.
 */
#include "base/hash.h"
#include "store/engine.h"

static struct st_item *item_of(const struct co_item *queued)
{
    return list_entry(queued, struct st_item, queued);
}

enum st_way st_way_of(enum st_kind kind)
{
    if (st_kinds[kind].own_way)
        return ST_WAY_EXECUTE;
    if (st_kinds[kind].writes)
        return ST_WAY_WORK;
    return st_kinds[kind].shape == ST_PER_ITEM || st_kinds[kind].prompt ? ST_WAY_READS : ST_WAY_LISTS;
}

/* The connection that is the way of reads, or that of lists; NULL for other ways. */
static struct st_conn *conn_of(const struct st_store *store, enum st_way way)
{
    for (int i = store->n_work; i < store->n_conns && (way == ST_WAY_READS || way == ST_WAY_LISTS); i++) {
        if (store->conns[i].way == way)
            return &store->conns[i];
    }
    return NULL;
}

/* What is executed goes to the connection that answers and has less to do; never to any that carries other work. */
static struct st_conn *route_execute(struct st_store *store, int64_t now)
{
    struct st_conn *best = NULL;
    int best_rank = -1;
    for (int i = store->n_work; i < store->n_conns; i++) {
        struct st_conn *conn = &store->conns[i];
        int rank = st_conn_serves(conn) + st_conn_prompt(conn, now) + (st_conn_serves(conn) && conn->expected == 0);
        if (conn->way != ST_WAY_EXECUTE || rank < best_rank || (rank == best_rank && conn->n_queued >= best->n_queued))
            continue;
        best = conn;
        best_rank = rank;
    }
    return best;
}

static struct st_conn *route(struct st_store *store, const struct st_item *item)
{
    unsigned n = (unsigned)store->n_work, home = (unsigned)(hb_hash_mix(item->queued.hash) >> 8) % n;
    int64_t now = store->io->now_ms(store->io);
    enum st_way way = st_way_of(item->kind);
    if (way == ST_WAY_EXECUTE)
        return route_execute(store, now);
    struct st_conn *own = conn_of(store, way), *silent = NULL;
    /* A list that takes long is no reason to let the next one hold up the work. */
    if (own && (st_conn_prompt(own, now) || (way == ST_WAY_LISTS && st_conn_serves(own))))
        return own;
    for (unsigned i = 0; i < n; i++) {
        struct st_conn *conn = &store->conns[(home + i) % n];
        if (st_conn_prompt(conn, now))
            return conn;
        if (!silent && st_conn_serves(conn))
            silent = conn;
    }
    return silent ? silent : &store->conns[home];
}

/* The connections for it are opened when something is executed for the first time. */
static void want_execute(struct st_store *store)
{
    if (store->executes)
        return;
    store->executes = true;
    for (int i = store->n_work; i < store->n_conns; i++) {
        if (store->conns[i].way == ST_WAY_EXECUTE)
            st_conn_want(&store->conns[i]);
    }
}

bool st_item_enqueue(struct st_store *store, struct st_item *item, bool front)
{
    struct st_conn *conn = route(store, item);
    struct co_queue *queue = &conn->queues[item->lane][item->kind];
    item->connection = conn->index;
    if (!(front ? co_queue_push_front(queue, &item->queued) : co_queue_push(queue, &item->queued)))
        return false;
    st_conn_count(conn, item->lane, 1);
    if (conn->way == ST_WAY_EXECUTE)
        want_execute(store);
    return true;
}

void st_item_requeue(struct st_store *store, struct st_item *item)
{
    st_item_return(store, item, true);
}

void st_item_return(struct st_store *store, struct st_item *item, bool front)
{
    st_item_wait(store, item);
    if (!st_item_enqueue(store, item, front)) {
        heap_remove(&store->deadlines, &item->deadline);
        st_item_no_memory(store, item);
        return;
    }
    st_wake(store);
}

/* What is queued on this connection goes to others. */
static void move_queued(struct st_store *store, struct st_conn *conn, enum st_lane lane, int kind)
{
    /* As many as are there now: they may come back to this one, if all that serve are being replaced. */
    for (size_t n = conn->queues[lane][kind].n_items; n > 0; n--) {
        struct st_item *item = item_of(co_queue_pop(&conn->queues[lane][kind]));
        st_conn_count(conn, lane, -1);
        if (!st_item_enqueue(store, item, false)) {
            heap_remove(&store->deadlines, &item->deadline);
            st_item_no_memory(store, item);
        }
    }
}

static void move_all(struct st_store *store, struct st_conn *conn)
{
    for (int lane = 0; lane < ST_LANES && conn->n_queued; lane++) {
        for (int kind = 0; kind < ST_KINDS; kind++)
            move_queued(store, conn, (enum st_lane)lane, kind);
    }
}

void st_rebalance(struct st_store *store)
{
    for (int i = 0; i < store->n_conns; i++) {
        if (!st_conn_serves(&store->conns[i]))
            move_all(store, &store->conns[i]);
    }
    st_wake(store);
}

/* A connection that takes items of this kind answers. */
static bool any_prompt(const struct st_store *store, enum st_kind kind, int64_t now)
{
    enum st_way way = st_way_of(kind);
    for (int i = 0; i < store->n_conns; i++) {
        const struct st_conn *conn = &store->conns[i];
        bool takes = conn->way == way || (conn->way == ST_WAY_WORK && way != ST_WAY_EXECUTE);
        if (takes && st_conn_prompt(conn, now))
            return true;
    }
    return false;
}

static void avoid(struct st_store *store, struct st_conn *conn, int64_t now)
{
    conn->looked_ms = now;
    for (int queue = 0; queue < ST_LANES * ST_KINDS; queue++) {
        enum st_lane lane = (enum st_lane)(queue / ST_KINDS);
        enum st_kind kind = (enum st_kind)(queue % ST_KINDS);
        if (conn->queues[lane][kind].n_items > 0 && any_prompt(store, kind, now))
            move_queued(store, conn, lane, (int)kind);
    }
    st_wake(store);
}

void st_avoid_silent(struct st_store *store, int64_t now)
{
    for (int i = 0; i < store->n_conns; i++) {
        struct st_conn *conn = &store->conns[i];
        if (conn->n_queued > 0 && st_conn_serves(conn) && !st_conn_prompt(conn, now))
            avoid(store, conn, now);
    }
}
