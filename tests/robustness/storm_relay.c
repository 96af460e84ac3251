/*
 * storm_relay.c - see storm_relay.h. The mutex guards everything; the thread lets go of it only while it polls.
 */
#include "robustness/storm_relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PAIRS = 128, ROOM = 65536 };

/* Bytes on their way from one end. */
struct flow {
    size_t len, done;
    char bytes[ROOM];
};

struct pair {
    int fds[2]; /* of the caller and of the unix socket */
    struct flow *flows[2];
};

struct storm_relay {
    pthread_t thread;
    pthread_mutex_t mutex;
    int listener, wake, port;
    struct sockaddr_un to;
    struct pair pairs[PAIRS];
    int n;
    bool dark, stop;
};

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void end_pair(struct storm_relay *relay, int number, bool reset)
{
    struct pair *pair = &relay->pairs[number];
    const struct linger now = {1, 0};
    for (int i = 0; i < 2; i++) {
        if (reset)
            setsockopt(pair->fds[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(pair->fds[i]);
        free(pair->flows[i]);
    }
    *pair = relay->pairs[--relay->n];
}

static void take(struct storm_relay *relay)
{
    const int caller = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* To a unix socket it is quick, or refused. */
    if (caller < 0 || to < 0 || relay->n == PAIRS || connect(to, (struct sockaddr *)&relay->to, sizeof(relay->to)) != 0) {
        if (caller >= 0)
            close(caller);
        if (to >= 0)
            close(to);
        return;
    }
    struct pair *pair = &relay->pairs[relay->n++];
    *pair = (struct pair){.fds = {caller, to}};
    for (int i = 0; i < 2; i++)
        pair->flows[i] = must(calloc(1, sizeof(struct flow)));
}

/* Moves what can be moved from one end to the other. False: an end has gone. */
static bool move(struct pair *pair, int from, bool may_read)
{
    struct flow *flow = pair->flows[from];
    ssize_t n;
    if (may_read && flow->len == 0) {
        n = recv(pair->fds[from], flow->bytes, ROOM, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        flow->len = n > 0 ? (size_t)n : 0;
    }
    if (flow->len == 0)
        return true;
    n = send(pair->fds[1 - from], flow->bytes + flow->done, flow->len - flow->done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    flow->done += (size_t)n;
    if (flow->done == flow->len)
        flow->done = flow->len = 0;
    return true;
}

/* What to poll for; the number of entries. While dark only for being woken. */
static nfds_t fill(const struct storm_relay *relay, struct pollfd *polled)
{
    nfds_t n = 0;
    polled[n++] = (struct pollfd){.fd = relay->wake, .events = POLLIN};
    if (relay->dark)
        return n;
    polled[n++] = (struct pollfd){.fd = relay->listener, .events = POLLIN};
    for (int i = 0; i < relay->n; i++) {
        for (int end = 0; end < 2; end++) {
            const bool to_read = relay->pairs[i].flows[end]->len == 0, to_write = relay->pairs[i].flows[1 - end]->len > 0;
            polled[n++] = (struct pollfd){.fd = relay->pairs[i].fds[end],
                                          .events = (short)((to_read ? POLLIN : 0) | (to_write ? POLLOUT : 0))};
        }
    }
    return n;
}

static void *relay_main(void *arg)
{
    struct storm_relay *relay = arg;
    struct pollfd polled[2 + 2 * PAIRS];
    uint64_t count;
    pthread_mutex_lock(&relay->mutex);
    while (!relay->stop) {
        const nfds_t n = fill(relay, polled);
        pthread_mutex_unlock(&relay->mutex);
        (void)poll(polled, n, -1);
        pthread_mutex_lock(&relay->mutex);
        if ((polled[0].revents & POLLIN) && read(relay->wake, &count, sizeof(count)) < 0)
            abort();
        if (relay->dark || relay->stop)
            continue;
        /* From the last: an ended one is replaced by one that was looked at. Pairs may have gone while we polled: then these
         * are reads that find nothing. */
        for (int i = relay->n - 1; i >= 0; i--)
            if (!move(&relay->pairs[i], 0, true) || !move(&relay->pairs[i], 1, true))
                end_pair(relay, i, false);
        if (n > 1 && polled[1].revents)
            take(relay);
    }
    while (relay->n > 0)
        end_pair(relay, 0, false);
    pthread_mutex_unlock(&relay->mutex);
    return NULL;
}

static void wake(struct storm_relay *relay)
{
    const uint64_t one = 1;
    if (write(relay->wake, &one, sizeof(one)) != sizeof(one))
        abort();
}

struct storm_relay *storm_relay_start(const char *path)
{
    struct storm_relay *relay = must(calloc(1, sizeof(*relay)));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    relay->to.sun_family = AF_UNIX;
    snprintf(relay->to.sun_path, sizeof(relay->to.sun_path), "%s", path);
    pthread_mutex_init(&relay->mutex, NULL);
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    relay->wake = eventfd(0, EFD_CLOEXEC);
    if (relay->listener < 0 || relay->wake < 0 || bind(relay->listener, (struct sockaddr *)&address, len) ||
        listen(relay->listener, 64) || getsockname(relay->listener, (struct sockaddr *)&address, &len))
        abort();
    relay->port = ntohs(address.sin_port);
    if (pthread_create(&relay->thread, NULL, relay_main, relay))
        abort();
    return relay;
}

void storm_relay_stop(struct storm_relay *relay)
{
    if (!relay)
        return;
    pthread_mutex_lock(&relay->mutex);
    relay->stop = true;
    wake(relay);
    pthread_mutex_unlock(&relay->mutex);
    pthread_join(relay->thread, NULL);
    close(relay->listener);
    close(relay->wake);
    pthread_mutex_destroy(&relay->mutex);
    free(relay);
}

int storm_relay_port(const struct storm_relay *relay)
{
    return relay->port;
}

unsigned storm_relay_reset(struct storm_relay *relay)
{
    pthread_mutex_lock(&relay->mutex);
    const unsigned n = (unsigned)relay->n;
    while (relay->n > 0)
        end_pair(relay, 0, true);
    wake(relay);
    pthread_mutex_unlock(&relay->mutex);
    return n;
}

void storm_relay_dark(struct storm_relay *relay, bool dark)
{
    pthread_mutex_lock(&relay->mutex);
    relay->dark = dark;
    wake(relay);
    pthread_mutex_unlock(&relay->mutex);
}
