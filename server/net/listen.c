/*
 * listen.c - see listen.h.
 */
#include "net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/files.h"
#include "base/list.h"

enum {
    BACKLOG = 1024,
    AT_ONCE = 64, /* accepted in one turn */
    AGAIN_MS = 100,
    /* A host that is cut off is noticed after 25 s, and its waiting callers give up their places. */
    KEEP_IDLE_S = 10,
    KEEP_INTERVAL_S = 5,
    KEEP_COUNT = 3
};

/* ---- accepting ---- */

/* The next connection is closed. False: there is none, or not even a descriptor that was kept back (errno). */
static bool turn_away(struct net_listener *listener)
{
    hb_files_spare_begin();
    int fd = accept4(listener->watch.fd, NULL, NULL, SOCK_CLOEXEC), error = errno;
    hb_files_spare_end();
    errno = error;
    if (fd < 0)
        return false;
    close(fd);
    listener->turned_away++;
    return true;
}

static void set_tcp_options(int fd)
{
    static const struct {
        int level, option, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].option, &options[i].value, sizeof(options[i].value));
}

static void rest(struct net_listener *listener)
{
    listener->io->unwatch(listener->io, &listener->watch);
    listener->io->timer_set(listener->io, &listener->again, listener->io->now_ms(listener->io) + AGAIN_MS);
}

void net_listener_go_on(struct net_listener *listener)
{
    if (listener->watch.fd >= 0 && !listener->watch.watched && listener->io->watch(listener->io, &listener->watch))
        rest(listener);
}

void net_listener_pause(struct net_listener *listener)
{
    listener->io->unwatch(listener->io, &listener->watch);
}

static void on_again(struct io_timer *timer)
{
    net_listener_go_on(list_entry(timer, struct net_listener, again));
}

/* Whether there may be more. False with `errno` EAGAIN: no. Any other: not now. */
static bool accept_one(struct net_listener *listener)
{
    int fd = accept4(listener->watch.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return turn_away(listener);
    if (fd < 0) /* else what is wrong with the one connection: accept(2) */
        return errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM;
    if (!listener->is_ipc)
        set_tcp_options(fd);
    listener->on_accept(listener, fd);
    return true;
}

static void on_connections(struct io_watch *watch, unsigned events)
{
    struct net_listener *listener = list_entry(watch, struct net_listener, watch);
    (void)events;
    for (int i = 0; i < AT_ONCE && watch->watched; i++) {
        if (accept_one(listener))
            continue;
        if (errno != EAGAIN)
            rest(listener);
        return;
    }
}

/* ---- opening ---- */

static int bind_to(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0)
        return -1;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, address, len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Whether the socket was left behind by a process that is gone. */
static bool is_left_behind(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static const char *open_ipc(struct net_listener *listener, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof(address.sun_path))
        return "a path of 1 to 107 bytes must follow ipc://";
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    listener->watch.fd = bind_to((struct sockaddr *)&address, sizeof(address));
    if (listener->watch.fd < 0 && errno == EADDRINUSE && is_left_behind(&address) && unlink(path) == 0)
        listener->watch.fd = bind_to((struct sockaddr *)&address, sizeof(address));
    return listener->watch.fd < 0 ? strerror(errno) : NULL;
}

/* HOST:PORT, [ADDRESS]:PORT, *:PORT or :PORT. False: it is none of these. */
static bool split(const char *text, char host[256], char port[8])
{
    const char *colon = strrchr(text, ':');
    char *end;
    if (!colon || colon - text >= 256 || strlen(colon + 1) >= 8)
        return false;
    long number = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || number < 0 || number > 65535)
        return false;
    size_t len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    snprintf(host, 256, "%.*s", (int)len, text);
    snprintf(port, 8, "%ld", number);
    return true;
}

static int bound_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof(address);
    if (getsockname(fd, &address.any, &len) < 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

static const char *open_tcp(struct net_listener *listener, const char *where, char *error, size_t error_len)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
    char host[256], port[8];
    if (!split(where, host, port))
        return "tcp:// must be followed by HOST:PORT";
    int rc = getaddrinfo(*host && strcmp(host, "*") != 0 ? host : NULL, port, &hints, &found);
    if (rc) {
        snprintf(error, error_len, "the address of the host is not to be found: %s", gai_strerror(rc));
        return error;
    }
    for (const struct addrinfo *at = found; at && listener->watch.fd < 0; at = at->ai_next)
        listener->watch.fd = bind_to(at->ai_addr, at->ai_addrlen);
    int failed = errno;
    freeaddrinfo(found);
    if (listener->watch.fd < 0)
        return strerror(failed);
    snprintf(listener->url, sizeof(listener->url), "tcp://%.*s:%d", (int)(strrchr(where, ':') - where), where,
             bound_port(listener->watch.fd));
    return NULL;
}

const char *net_listener_open(struct net_listener *listener, struct io *io, const char *url,
                              void (*on_accept)(struct net_listener *listener, int fd), char *error, size_t error_len)
{
    *listener = (struct net_listener){.io = io, .on_accept = on_accept, .is_ipc = !strncmp(url, "ipc://", 6)};
    listener->watch = (struct io_watch){.fd = -1, .want = IO_READ, .ready = on_connections};
    listener->again.fire = on_again;
    if (!listener->is_ipc && strncmp(url, "tcp://", 6) != 0)
        return "the URL must begin with tcp:// or ipc://";
    if (strlen(url) >= sizeof(listener->url) - 8)
        return "the URL is too long";
    snprintf(listener->url, sizeof(listener->url), "%s", url);
    const char *why = listener->is_ipc ? open_ipc(listener, url + 6) : open_tcp(listener, url + 6, error, error_len);
    if (why)
        return why;
    int rc = io->watch(io, &listener->watch);
    return rc ? strerror(-rc) : NULL;
}

void net_listener_close(struct net_listener *listener)
{
    if (listener->watch.fd < 0)
        return;
    listener->io->timer_cancel(listener->io, &listener->again);
    listener->io->unwatch(listener->io, &listener->watch);
    close(listener->watch.fd);
    listener->watch.fd = -1;
    if (listener->is_ipc)
        unlink(listener->url + 6);
}
