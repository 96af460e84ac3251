/*
 * http_share.c - see http_conn.h: whose turn it is, so that nobody's flood keeps others from the loop.
 *
 * A connection has credit, in nanoseconds of the loop's time. What is done for it takes of that as long as it takes; answers that
 * it takes add more than they cost (http_exchange.c). One that calls and hears what it is told has as much as it can have. One that
 * is new, floods, resets what it asks for, or leaves its answers has none: such ones all together may take A_SHARE of the time,
 * from a purse, in turns of a little each; and whoever is accepted takes of it too. Unless nobody with credit was there for
 * QUIET_MS: then the time is theirs.
 *
 * A connection that waits for its turn isn't watched: what it sends waits in the kernel, and slows it down. While much is held,
 * those without credit wait with requests that are half there, and few at a time are read to their end.
 */
#include "net/http_conn.h"

enum {
    MS = 1000000,
    CREDIT_MAX = 20 * MS, /* and as much may be owed */
    A_SHARE = 5,          /* a fifth */
    PURSE_MAX = MS / 2,
    OWED_MAX = 5 * MS,
    A_REQUEST = 100000, /* costs the service and the database about as much; */
    FEW = 4, /* without credit it costs twice that, and more with each so many beyond those that it has taken the answers of */
    UNTAKEN = 4 << 20,       /* bytes of answers that it leaves, beyond which no request of a connection is begun; */
    UNTAKEN_YET = 256 << 10, /* the same without credit */
    QUIET_MS = 1000,
    TURN_MS = 1
};

static void on_turn(struct io_timer *timer);

void http_share_init(struct net_http *http)
{
    struct http_share *share = &http->share;
    list_init(&share->waiting);
    share->timer.fire = on_turn;
    share->purse_ns = PURSE_MAX;
    share->filled_ms = http_now(http);
    share->honoured_ms = http_now(http) - QUIET_MS;
}

/* Nobody else with credit is there. */
static bool is_quiet(const struct net_http *http, const struct http_conn *conn)
{
    return (conn && http->share.honoured == conn) || http_now(http) - http->share.honoured_ms >= QUIET_MS;
}

static void spend(struct net_http *http, int64_t ns)
{
    http->share.purse_ns = http->share.purse_ns - ns > -OWED_MAX ? http->share.purse_ns - ns : -OWED_MAX;
}

/* Whether this one, without credit, may take more; NULL: whoever comes next. */
static bool is_left(struct net_http *http, const struct http_conn *conn)
{
    struct http_share *share = &http->share;
    int64_t now = http_now(http), more = (now - share->filled_ms) * (MS / A_SHARE);
    share->filled_ms = now;
    share->purse_ns = share->purse_ns + more < PURSE_MAX ? share->purse_ns + more : PURSE_MAX;
    return share->purse_ns > 0 || is_quiet(http, conn);
}

/* ---- turns ---- */

static void await_turn(struct net_http *http)
{
    if (!http->share.timer.node.linked)
        http->io->timer_set(http->io, &http->share.timer, http_now(http) + TURN_MS);
}

void http_share_wait(struct http_conn *conn, bool hangup)
{
    struct net_http *http = conn->http;
    if (conn->state == HTTP_CLOSED || list_linked(&conn->wait_node))
        return;
    conn->watch.want = IO_HANGUP;
    if (!hangup)
        http->io->unwatch(http->io, &conn->watch);
    else if (http->io->watch(http->io, &conn->watch))
        http_doom(conn);
    list_push_back(&http->share.waiting, &conn->wait_node);
    http->stats.waits++;
    await_turn(http);
}

void http_share_leave(struct http_conn *conn)
{
    if (list_linked(&conn->wait_node))
        list_remove(&conn->http->share.waiting, &conn->wait_node);
    if (conn->http->share.honoured == conn)
        conn->http->share.honoured = NULL;
    http_share_unfavour(conn);
}

static bool is_free(const struct http_conn *favoured, int64_t now)
{
    return !favoured || (now - favoured->favoured_ms >= HTTP_SLOW_MS && http_is_slow(favoured));
}

/* Whoever has been favoured for long and gets nowhere gives way. */
void http_share_favour(struct http_conn *conn)
{
    struct http_share *share = &conn->http->share;
    int64_t now = http_now(conn->http);
    int i = 0;
    while (i < HTTP_FAVOURED && !is_free(share->favoured[i], now))
        i++;
    if (i == HTTP_FAVOURED)
        return;
    struct http_conn *before = share->favoured[i];
    if (before) {
        before->favoured_ms = 0;
        http_give_way(before);
    }
    share->favoured[i] = conn;
    conn->favoured_ms = now;
    http_due(conn, now + HTTP_SLOW_MS);
}

void http_share_unfavour(struct http_conn *conn)
{
    struct http_share *share = &conn->http->share;
    for (int i = 0; i < HTTP_FAVOURED && conn->favoured_ms; i++)
        if (share->favoured[i] == conn)
            share->favoured[i] = NULL;
    conn->favoured_ms = 0;
}

static void on_turn(struct io_timer *timer)
{
    struct net_http *http = list_entry(timer, struct net_http, share.timer);
    struct list *waiting = &http->share.waiting;
    for (size_t n = waiting->count; n && !list_empty(waiting); n--) {
        struct http_conn *conn = list_entry(list_first(waiting), struct http_conn, wait_node);
        if (!is_left(http, conn))
            break;
        list_remove(waiting, &conn->wait_node);
        http->share.began_ns = http->io->clock_ns(http->io);
        http_take_turn(conn);
        http_share_end(conn);
    }
    if (http->share.full) {
        http->share.full = false;
        net_listener_go_on(&http->listener);
    }
    if (!list_empty(waiting))
        await_turn(http);
}

/* ---- what is done ---- */

bool http_share_begin(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    if (list_linked(&conn->wait_node))
        return false;
    if (conn->credit_ns > 0) {
        http->share.honoured_ms = http_now(http);
        http->share.honoured = conn;
    } else if (!list_empty(&http->share.waiting) || !is_left(http, conn)) {
        http_share_wait(conn, false);
        return false;
    }
    http->share.began_ns = http->io->clock_ns(http->io);
    return true;
}

void http_share_end(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    http_charge(conn, http->io->clock_ns(http->io) - http->share.began_ns);
}

void http_share_begin_accept(struct net_http *http)
{
    http->share.began_ns = http->io->clock_ns(http->io);
}

void http_share_end_accept(struct net_http *http)
{
    spend(http, http->io->clock_ns(http->io) - http->share.began_ns);
    if (is_left(http, NULL))
        return;
    http->share.full = true;
    http->stats.waits++;
    net_listener_pause(&http->listener);
    await_turn(http);
}

void http_charge(struct http_conn *conn, int64_t ns)
{
    if (conn->credit_ns <= 0)
        spend(conn->http, ns);
    http_owe(conn, ns);
}

void http_owe(struct http_conn *conn, int64_t ns)
{
    conn->credit_ns = conn->credit_ns - ns > -CREDIT_MAX ? conn->credit_ns - ns : -CREDIT_MAX;
}

void http_earn(struct http_conn *conn, int64_t ns)
{
    conn->credit_ns = conn->credit_ns + ns < CREDIT_MAX ? conn->credit_ns + ns : CREDIT_MAX;
}

/* ---- requests ---- */

/* Requests in progress of which its answers so far don't tell what they bring. */
static size_t unknown(const struct http_conn *conn)
{
    size_t n = conn->open.count - (size_t)conn->n_unbegun;
    return n > conn->n_taken ? n - conn->n_taken : 0;
}

/* Whether a request that is whole may be begun now; it is charged. */
static bool may_begin(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    if (conn->credit_ns <= 0 && !is_left(http, conn))
        return false;
    if (conn->credit_ns <= 0)
        spend(http, (int64_t)A_REQUEST * (int64_t)(FEW + unknown(conn)) / FEW);
    http_charge(conn, A_REQUEST);
    return true;
}

/* Bytes of answers that are whole, and that it doesn't take. */
static size_t untaken(const struct http_conn *conn)
{
    size_t sum = 0;
    for (struct list_node *node = list_first(&conn->open); node; node = list_next(&conn->open, node)) {
        const struct http_x *x = list_entry(node, struct http_x, node);
        sum += x->ended ? x->out.len - x->out_at : 0;
    }
    return sum;
}

static bool takes_answers(const struct http_conn *conn)
{
    size_t most = conn->credit_ns > 0 ? UNTAKEN : UNTAKEN_YET;
    return conn->n_unsent <= most || untaken(conn) <= most;
}

static struct http_x *first_unbegun(const struct http_conn *conn)
{
    struct list_node *node = list_first(&conn->open);
    while (!list_entry(node, struct http_x, node)->unbegun)
        node = list_next(&conn->open, node);
    return list_entry(node, struct http_x, node);
}

bool http_begin(struct http_conn *conn)
{
    while (conn->n_unbegun && !conn->doomed && takes_answers(conn)) {
        if (!may_begin(conn))
            return false;
        struct http_x *x = first_unbegun(conn);
        x->unbegun = false;
        conn->n_unbegun--;
        if (!x->ended)
            x->x.body(&x->x, NULL, 0, true);
    }
    return true;
}
