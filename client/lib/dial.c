/* dial.c - see transport.h: from a URL to a connection that has greeted, address by address, again and again. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/transport.h"

/* Reconnecting: a lease of a few seconds must outlive an outage of more than half its TTL, so what is added to it is short. */
enum {
    PAUSE_MIN_MS = 50,
    PAUSE_MAX_MS = 250,
    CONNECT_MS = 4000, /* for each address, until it has greeted */
    /* A host that is cut off is noticed after 25 s; calls that are under way notice before (mux.h). */
    KEEP_IDLE_S = 10,
    KEEP_INTERVAL_S = 5,
    KEEP_COUNT = 3
};

bool tr_want(struct tr_conn *conn, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};
    const int op = conn->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (conn->events == events)
        return true;
    if (epoll_ctl(conn->owner->epoll_fd, op, conn->fd, &event))
        return false;
    conn->events = events;
    return true;
}

void tr_say(struct tr_conn *conn, const char *format, ...)
{
    va_list args;

    if (conn->why_at > conn->state)
        return; /* another address came further */
    conn->why_at = conn->state;
    va_start(args, format);
    vsnprintf(conn->why, sizeof(conn->why), format, args);
    va_end(args);
}

void tr_break(struct tr_conn *conn)
{
    conn->broken = true;
    shutdown(conn->fd, SHUT_RDWR);
}

static void forget_fd(struct tr_conn *conn)
{
    if (conn->fd < 0)
        return;
    if (conn->events)
        epoll_ctl(conn->owner->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    if (!conn->lookup)
        close(conn->fd);
    tr_lookup_free(conn->lookup);
    conn->lookup = NULL;
    conn->fd = -1;
    conn->events = 0;
    conn->broken = false;
}

static void forget_addresses(struct tr_conn *conn)
{
    if (conn->found)
        freeaddrinfo(conn->found);
    conn->found = conn->at = NULL;
}

static void move(struct tr_conn *conn, enum tr_state state, int64_t until_ms)
{
    conn->state = state;
    conn->until_ms = until_ms;
    tr_wake_at(conn->owner, until_ms);
}

static void forget(struct tr_conn *conn)
{
    forget_fd(conn);
    forget_addresses(conn);
}

static void pause_conn(struct tr_conn *conn)
{
    int64_t ms = PAUSE_MIN_MS;

    for (unsigned i = 0; i < conn->failures && ms < PAUSE_MAX_MS; i++)
        ms *= 2;
    if (ms > PAUSE_MAX_MS)
        ms = PAUSE_MAX_MS;
    conn->failures++;
    forget(conn);
    move(conn, TR_PAUSING, hfi_boot_ms() + ms);
    conn->why_at = TR_PAUSING; /* what the next attempt says takes its place */
}

/* False: it cannot be reached so. */
static bool connect_to(struct tr_conn *conn, const struct sockaddr *address, socklen_t len)
{
    static const struct {
        int level, option, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT}};

    conn->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (conn->fd < 0) {
        tr_say(conn, "no socket: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; address->sa_family != AF_UNIX && i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(conn->fd, options[i].level, options[i].option, &options[i].value, sizeof(options[i].value));
    if ((connect(conn->fd, address, len) && errno != EINPROGRESS) || !tr_want(conn, EPOLLOUT)) {
        tr_say(conn, "%s", strerror(errno));
        forget_fd(conn);
        return false;
    }
    move(conn, TR_CONNECTING, hfi_boot_ms() + CONNECT_MS);
    return true;
}

/* The first address from conn->at on that can be tried; after the last comes a pause. */
static void connect_next(struct tr_conn *conn)
{
    for (; conn->at; conn->at = conn->at->ai_next) {
        if (connect_to(conn, conn->at->ai_addr, conn->at->ai_addrlen))
            return;
    }
    pause_conn(conn);
}

static void attempt_failed(struct tr_conn *conn)
{
    forget_fd(conn);
    if (conn->at)
        conn->at = conn->at->ai_next;
    connect_next(conn);
}

static void dial(struct tr_conn *conn)
{
    if (conn->address.kind == TR_IPC) {
        if (!connect_to(conn, (const struct sockaddr *)&conn->address.path, sizeof(conn->address.path)))
            pause_conn(conn);
        return;
    }
    conn->found = conn->at = tr_address_number(&conn->address);
    if (conn->at) {
        connect_next(conn);
        return;
    }
    conn->lookup = tr_lookup_start(&conn->address);
    conn->fd = conn->lookup ? tr_lookup_fd(conn->lookup) : -1;
    if (conn->lookup && tr_want(conn, EPOLLIN))
        move(conn, TR_RESOLVING, HFI_NEVER);
    else
        pause_conn(conn);
}

static void resolved(struct tr_conn *conn)
{
    const char *error = NULL;

    conn->found = conn->at = tr_lookup_take(conn->lookup, &error);
    if (!conn->found)
        tr_say(conn, "the host %s: %s", conn->address.host, error);
    forget_fd(conn);
    connect_next(conn);
}

static void connected(struct tr_conn *conn)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len))
        error = errno;
    if (error) {
        tr_say(conn, "%s", strerror(error));
        attempt_failed(conn);
        return;
    }
    conn->state = TR_GREETING;
    if (!conn->protocol->greet(conn))
        tr_lost(conn);
}

void tr_ready(struct tr_conn *conn)
{
    if (conn->state == TR_RESOLVING)
        resolved(conn);
    else if (conn->state == TR_CONNECTING)
        connected(conn);
}

void tr_due(struct tr_conn *conn, int64_t now_ms)
{
    if (conn->until_ms > now_ms)
        return;
    if (conn->state == TR_PAUSING) {
        dial(conn);
    } else if (conn->state == TR_OPEN) {
        conn->protocol->due(conn, now_ms);
    } else {
        tr_say(conn, conn->state == TR_GREETING ? "it is connected, but doesn't answer" : "no connection in %d s",
               CONNECT_MS / 1000);
        tr_lost(conn);
    }
}

void tr_greeted(struct tr_conn *conn)
{
    conn->failures = 0;
    forget_addresses(conn);
    move(conn, TR_OPEN, HFI_NEVER);
    conn->why[0] = '\0';
    conn->why_at = TR_PAUSING;
}

void tr_lost(struct tr_conn *conn)
{
    conn->protocol->drop(conn, false);
    if (conn->state == TR_OPEN)
        pause_conn(conn);
    else
        attempt_failed(conn);
}

void tr_close(struct tr_conn *conn)
{
    tr_lock(conn);
    conn->protocol->drop(conn, true);
    while (conn->first) {
        struct tr_exchange *exchange = conn->first;
        tr_unqueue(exchange);
        tr_end(exchange, HFI_NOT_SENT);
    }
    forget(conn);
    conn->state = TR_PAUSING;
    tr_unlock(conn);
}
