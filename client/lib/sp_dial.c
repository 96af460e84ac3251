/* sp_dial.c - see transport_sp.h: from a URL to a connection that has greeted, address by address, again and again. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/transport_sp.h"
#include "proto/c/sp.h"

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

bool sp_want(struct sp_conn *conn, uint32_t events)
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

static void forget_fd(struct sp_conn *conn)
{
    if (conn->fd < 0)
        return;
    if (conn->events)
        epoll_ctl(conn->owner->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    if (!conn->lookup)
        close(conn->fd);
    sp_lookup_free(conn->lookup);
    conn->lookup = NULL;
    conn->fd = -1;
    conn->events = 0;
    conn->broken = false;
}

static void forget_addresses(struct sp_conn *conn)
{
    if (conn->found)
        freeaddrinfo(conn->found);
    conn->found = conn->at = NULL;
}

static void move(struct sp_conn *conn, enum sp_state state, int64_t until_ms)
{
    conn->state = state;
    conn->until_ms = until_ms;
    sp_wake_at(conn->owner, until_ms);
}

void sp_forget(struct sp_conn *conn)
{
    forget_fd(conn);
    forget_addresses(conn);
}

void sp_pause(struct sp_conn *conn)
{
    int64_t ms = PAUSE_MIN_MS;

    for (unsigned i = 0; i < conn->failures && ms < PAUSE_MAX_MS; i++)
        ms *= 2;
    if (ms > PAUSE_MAX_MS)
        ms = PAUSE_MAX_MS;
    conn->failures++;
    sp_forget(conn);
    move(conn, SP_PAUSING, hfi_boot_ms() + ms);
}

/* False: it cannot be reached so. */
static bool connect_to(struct sp_conn *conn, const struct sockaddr *address, socklen_t len)
{
    static const struct {
        int level, option, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT}};

    conn->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (conn->fd < 0)
        return false;
    for (size_t i = 0; address->sa_family != AF_UNIX && i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(conn->fd, options[i].level, options[i].option, &options[i].value, sizeof(options[i].value));
    if ((connect(conn->fd, address, len) && errno != EINPROGRESS) || !sp_want(conn, EPOLLOUT)) {
        forget_fd(conn);
        return false;
    }
    move(conn, SP_CONNECTING, hfi_boot_ms() + CONNECT_MS);
    return true;
}

/* The first address from conn->at on that can be tried; after the last comes a pause. */
static void connect_next(struct sp_conn *conn)
{
    for (; conn->at; conn->at = conn->at->ai_next) {
        if (connect_to(conn, conn->at->ai_addr, conn->at->ai_addrlen))
            return;
    }
    sp_pause(conn);
}

void sp_attempt_failed(struct sp_conn *conn)
{
    forget_fd(conn);
    if (conn->at)
        conn->at = conn->at->ai_next;
    connect_next(conn);
}

void sp_dial(struct sp_conn *conn)
{
    if (conn->address.is_ipc) {
        if (!connect_to(conn, (const struct sockaddr *)&conn->address.path, sizeof(conn->address.path)))
            sp_pause(conn);
        return;
    }
    conn->found = conn->at = sp_address_number(&conn->address);
    if (conn->at) {
        connect_next(conn);
        return;
    }
    conn->lookup = sp_lookup_start(&conn->address);
    conn->fd = conn->lookup ? sp_lookup_fd(conn->lookup) : -1;
    if (conn->lookup && sp_want(conn, EPOLLIN))
        move(conn, SP_RESOLVING, HFI_NEVER);
    else
        sp_pause(conn);
}

void sp_resolved(struct sp_conn *conn)
{
    conn->found = conn->at = sp_lookup_take(conn->lookup);
    forget_fd(conn);
    connect_next(conn);
}

void sp_connected(struct sp_conn *conn)
{
    uint8_t greeting[HP_SP_GREETING];
    int error = 0;
    socklen_t len = sizeof(error);

    hp_sp_greet(greeting, HP_SP_REQ);
    /* The buffer of a new connection has room for it. */
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error ||
        send(conn->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting) || !sp_want(conn, EPOLLIN | EPOLLRDHUP))
        sp_attempt_failed(conn);
    else
        conn->state = SP_GREETING;
}

void sp_greeted(struct sp_conn *conn)
{
    conn->failures = 0;
    forget_addresses(conn);
    move(conn, SP_OPEN, HFI_NEVER);
}
