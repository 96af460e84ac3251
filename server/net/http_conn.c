/*
 * http_conn.c - see http_conn.h: a connection's life, its times, and how much is held for it.
 *
 * Each connection has one timer, which is set for the earliest moment at which it may be late with something, and looks then what
 * it is. It is never moved for a request that comes and goes: only ahead, when something begins that may be late sooner.
 */
#include "net/http_conn.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/tls.h"
#include "proto/c/arena.h"

enum { LINGER_MS = 2000, SOCKET_BYTES = 256 << 10 };

int64_t http_now(const struct net_http *http)
{
    return http->io->now_ms(http->io);
}

void *http_alloc(size_t n, size_t size)
{
    if (!hp_malloc_hook)
        return calloc(n, size);
    void *ptr = hp_malloc_hook(n * size);
    if (ptr)
        memset(ptr, 0, n * size);
    return ptr;
}

/* ---- life ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool is_loopback(const union address *address)
{
    const struct in6_addr *v6 = &address->v6.sin6_addr;
    if (address->any.sa_family == AF_INET)
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return address->any.sa_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127));
}

static void describe_peer(struct http_conn *conn)
{
    union address address;
    socklen_t len = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "";
    memset(&address, 0, sizeof(address));
    getpeername(conn->watch.fd, &address.any, &len);
    if (address.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address.v6.sin6_addr, host, sizeof(host));
        snprintf(conn->address, sizeof(conn->address), "[%s]:%d", host, ntohs(address.v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &address.v4.sin_addr, host, sizeof(host));
        snprintf(conn->address, sizeof(conn->address), "%s:%d", host, ntohs(address.v4.sin_port));
    }
    conn->peer = (struct hp_peer){
        .local = is_loopback(&address), .encrypted = conn->tls != NULL, .address = conn->address, .transport = "http"};
}

static struct http_conn *conn_new(struct net_http *http, int fd)
{
    struct http_conn *conn = http_alloc(1, sizeof(*conn));
    if (!conn)
        return NULL;
    if (http->cfg.tls && !(conn->tls = net_tls_accept(http->cfg.tls))) {
        free(conn);
        return NULL;
    }
    /* So that the kernel, too, holds but a bounded amount for each, whatever it finds about the way to the peer. */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){SOCKET_BYTES}, sizeof(int));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SOCKET_BYTES}, sizeof(int));
    conn->http = http;
    conn->refs = 1;
    conn->watch = (struct io_watch){.fd = fd, .ready = http_on_ready};
    conn->state = conn->tls ? HTTP_HANDSHAKE : HTTP_SNIFF;
    list_init(&conn->open);
    describe_peer(conn);
    return conn;
}

static void on_timer(struct io_timer *timer);

bool http_is_slow(const struct http_conn *conn)
{
    const struct list_node *node = list_first(&conn->open);
    const struct http_x *first = node ? list_entry(node, struct http_x, node) : NULL;
    if (!first || (size_t)conn->n_receiving != conn->open.count)
        return false;
    return http_now(conn->http) - (first->offered ? first->x.received_ms : conn->amid_ms) >= HTTP_SLOW_MS;
}

/* The one to be closed so that another may come: the longest idle, or else a slow one, lest those whose bodies never end keep all
 * others out. */
static struct http_conn *dispensable(const struct net_http *http)
{
    if (!list_empty(&http->idle))
        return list_entry(list_first(&http->idle), struct http_conn, node);
    for (struct list_node *node = list_first(&http->busy); node; node = list_next(&http->busy, node))
        if (http_is_slow(list_entry(node, struct http_conn, node)))
            return list_entry(node, struct http_conn, node);
    return NULL;
}

static void accept_conn(struct net_http *http, int fd)
{
    struct http_conn *least = http->stats.connections >= http->cfg.max_connections ? dispensable(http) : NULL;
    if (least) {
        http_close(least);
        http->stats.refused++;
    }
    struct http_conn *conn = http->stats.connections < http->cfg.max_connections ? conn_new(http, fd) : NULL;
    if (!conn) {
        close(fd);
        http->stats.refused++;
        return;
    }
    http->stats.accepted++;
    http->stats.connections++;
    conn->idle = true;
    conn->idle_ms = http_now(http);
    conn->timer.fire = on_timer;
    list_push_back(&http->idle, &conn->node);
    http_amid(conn, conn->tls != NULL);
    http_set_want(conn);
    http_mind_time(conn);
}

void http_on_accept(struct net_listener *listener, int fd)
{
    struct net_http *http = list_entry(listener, struct net_http, listener);
    http_share_begin_accept(http);
    accept_conn(http, fd);
    http_share_end_accept(http);
}

void http_unref(struct http_conn *conn)
{
    if (--conn->refs)
        return;
    list_push_back(&conn->http->dead, &conn->node);
    conn->http->io->post(conn->http->io, &conn->http->bury);
}

void http_on_bury(struct io_task *task)
{
    struct net_http *http = list_entry(task, struct net_http, bury);
    struct list_node *node;
    while ((node = list_pop_front(&http->dead))) {
        struct http_conn *conn = list_entry(node, struct http_conn, node);
        net_tls_conn_free(conn->tls);
        free(conn);
    }
}

void http_dirty(struct http_conn *conn)
{
    if (conn->state == HTTP_CLOSED || list_linked(&conn->dirty_node))
        return;
    list_push_back(&conn->http->dirty, &conn->dirty_node);
    conn->http->io->post(conn->http->io, &conn->http->flush);
}

void http_doom(struct http_conn *conn)
{
    conn->doomed = true;
    http_dirty(conn);
}

void http_give_way(struct http_conn *conn)
{
    conn->http->stats.refused += !conn->doomed;
    http_doom(conn);
}

void http_doom_protocol(struct http_conn *conn)
{
    if (!conn->doomed)
        conn->http->stats.protocol_errors++;
    http_doom(conn);
}

void http_end(struct http_conn *conn)
{
    struct list_node *node;
    while ((node = list_first(&conn->open)))
        http_x_over(list_entry(node, struct http_x, node), false);
    h2_release(conn);
    h1_release(conn);
    hp_buf_release(&conn->in);
    conn->in_at = 0;
    conn->state = HTTP_ENDING;
    conn->closing = true;
    http_amid(conn, false);
}

void http_close(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    if (conn->state == HTTP_CLOSED)
        return;
    http_end(conn);
    conn->state = HTTP_CLOSED;
    http->io->timer_cancel(http->io, &conn->timer);
    http->io->unwatch(http->io, &conn->watch);
    close(conn->watch.fd);
    conn->watch.fd = -1;
    list_remove(conn->idle ? &http->idle : &http->busy, &conn->node);
    if (list_linked(&conn->dirty_node))
        list_remove(&http->dirty, &conn->dirty_node);
    http_share_leave(conn);
    http->unsent -= conn->counted;
    http_count(conn, -(ssize_t)conn->bytes);
    hp_buf_release(&conn->out);
    http->stats.connections--;
    http_unref(conn);
}

void http_linger(struct http_conn *conn)
{
    if (conn->ended) {
        http_close(conn);
        return;
    }
    http_end(conn);
    shutdown(conn->watch.fd, SHUT_WR);
    conn->state = HTTP_LINGER;
    conn->amid_ms = http_now(conn->http);
    http_due(conn, conn->amid_ms + LINGER_MS);
}

void http_set_idle(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    bool idle = list_empty(&conn->open);
    if (conn->state == HTTP_CLOSED || conn->idle == idle)
        return;
    list_remove(idle ? &http->busy : &http->idle, &conn->node);
    list_push_back(idle ? &http->idle : &http->busy, &conn->node);
    conn->idle = idle;
    conn->idle_ms = http_now(http);
}

/* ---- what is held ---- */

void http_count_unsent(struct http_conn *conn, ssize_t bytes)
{
    conn->n_unsent += (size_t)bytes;
    conn->http->unasked += (size_t)bytes;
}

static size_t without(size_t bytes, size_t answers)
{
    return bytes > answers ? bytes - answers : 0;
}

size_t http_received(const struct http_conn *conn)
{
    return without(conn->bytes, conn->n_unsent + conn->counted);
}

size_t http_received_all(const struct net_http *http)
{
    return without(http->stats.bytes, http->unasked + http->unsent);
}

void http_count(struct http_conn *conn, ssize_t bytes)
{
    struct net_http *http = conn->http;
    conn->bytes += (size_t)bytes;
    http->stats.bytes += (size_t)bytes;
    if (http->stats.bytes > http->cfg.max_bytes)
        http->io->post(http->io, &http->police);
}

static struct http_conn *greediest(struct http_conn *most, const struct list *list)
{
    for (struct list_node *node = list_first(list); node; node = list_next(list, node)) {
        struct http_conn *conn = list_entry(node, struct http_conn, node);
        if (conn->bytes > (most ? most->bytes : 0))
            most = conn;
    }
    return most;
}

/* More is held than may be: those who cause it pay. */
void http_on_police(struct io_task *task)
{
    struct net_http *http = list_entry(task, struct net_http, police);
    while (http->stats.bytes > http->cfg.max_bytes) {
        struct http_conn *most = greediest(greediest(NULL, &http->busy), &http->idle);
        if (!most)
            return;
        http_close(most);
        http->stats.refused++;
    }
}

/* ---- time ---- */

void http_amid(struct http_conn *conn, bool amid)
{
    if (!amid)
        conn->amid_ms = 0;
    else if (!conn->amid_ms)
        conn->amid_ms = http_now(conn->http);
}

void http_due(struct http_conn *conn, int64_t at_ms)
{
    if (conn->state != HTTP_CLOSED && (!conn->timer.node.linked || conn->timer.at_ms > at_ms))
        conn->http->io->timer_set(conn->http->io, &conn->timer, at_ms);
}

void http_mind_time(struct http_conn *conn)
{
    const struct net_http_config *cfg = &conn->http->cfg;
    int64_t now = http_now(conn->http);
    if (conn->state == HTTP_CLOSED || conn->state == HTTP_LINGER)
        return;
    if (conn->amid_ms)
        http_due(conn, conn->amid_ms + cfg->header_ms);
    if (conn->n_receiving || conn->n_unsent || conn->counted)
        http_due(conn, now + cfg->body_ms);
    if (conn->idle)
        http_due(conn, conn->idle_ms + cfg->idle_ms);
    else if (conn->state == HTTP_1)
        http_due(conn, now + cfg->total_ms);
}

/* Whether that moment has come; otherwise it is among those to come. */
static bool is_late(int64_t at_ms, int64_t now_ms, int64_t *next_ms)
{
    if (at_ms <= now_ms)
        return true;
    if (at_ms < *next_ms)
        *next_ms = at_ms;
    return false;
}

/* HTTP/2: all of the response has been sent, and not all of the request has come. */
static bool is_answered_early(const struct http_x *x)
{
    return x->end_sent && !x->request_ended;
}

static bool is_exchange_late(const struct http_x *x, int64_t now, int64_t *next)
{
    const struct net_http_config *cfg = &x->conn->http->cfg;
    bool late = false;
    if (x->offered && !x->request_ended && !x->responded && !http_x_is_full(x))
        late |= is_late(x->heard_ms + cfg->body_ms, now, next);
    if (x->out.len > x->out_at)
        late |= is_late(x->sent_ms + cfg->body_ms, now, next);
    if (is_answered_early(x))
        late |= is_late(x->sent_ms + LINGER_MS, now, next);
    if (x->x.version == 1 && !x->streamed)
        late |= is_late(x->x.received_ms + cfg->total_ms, now, next);
    return late;
}

static void reset_late(struct http_conn *conn, int64_t now, int64_t *next)
{
    for (struct list_node *node = list_first(&conn->open), *after; node && !conn->doomed && !conn->closing; node = after) {
        struct http_x *x = list_entry(node, struct http_x, node);
        after = list_next(&conn->open, node);
        if (!is_exchange_late(x, now, next))
            continue;
        bool early = is_answered_early(x);
        conn->http->stats.timeouts += !x->resetting && !early;
        if (x->x.version == 1)
            h1_late(conn);
        else
            h2_reset(x, early ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
    }
}

static bool is_connection_late(const struct http_conn *conn, int64_t now, int64_t *next)
{
    const struct net_http_config *cfg = &conn->http->cfg;
    bool late = false;
    if (conn->state == HTTP_LINGER)
        return is_late(conn->amid_ms + LINGER_MS, now, next);
    if (conn->amid_ms)
        late |= is_late(conn->amid_ms + cfg->header_ms, now, next);
    if (conn->counted)
        late |= is_late(conn->sent_ms + cfg->body_ms, now, next);
    if (conn->idle)
        late |= is_late(conn->idle_ms + cfg->idle_ms, now, next);
    return late;
}

/* It has been idle, or lingered, for long enough; or it is late with what it must do. */
static void end_late(struct http_conn *conn)
{
    bool at_rest = conn->state == HTTP_LINGER || (conn->idle && !conn->amid_ms && !conn->counted);
    conn->http->stats.timeouts += !at_rest;
    if (at_rest && conn->state == HTTP_2 && conn->drain_ms >= 0)
        h2_dismiss(conn);
    else if (!at_rest && conn->state == HTTP_1 && conn->amid_ms)
        h1_late(conn);
    else
        http_doom(conn);
}

/* Of one that holds much and was favoured: its request has stopped in the middle. */
static bool has_stopped(const struct http_conn *conn, int64_t now, int64_t *next)
{
    const struct list_node *node = list_first(&conn->open);
    if (http_is_slow(conn))
        return is_late(list_entry(node, struct http_x, node)->heard_ms + HTTP_SLOW_MS, now, next);
    return is_late(now + HTTP_SLOW_MS, now, next);
}

static void on_timer(struct io_timer *timer)
{
    struct http_conn *conn = list_entry(timer, struct http_conn, timer);
    int64_t now = http_now(conn->http), next = INT64_MAX;
    if (is_connection_late(conn, now, &next)) {
        end_late(conn);
        return;
    }
    if (conn->favoured_ms && has_stopped(conn, now, &next)) {
        http_give_way(conn);
        return;
    }
    if (conn->drain_ms > 0 && is_late(conn->drain_ms + H2_DRAIN_MS, now, &next))
        h2_drain(conn);
    reset_late(conn, now, &next);
    if (next != INT64_MAX)
        http_due(conn, next);
}
