/*
 * transport_sp.c - envelopes over the protocol of nng's REQ sockets (proto/c/sp.h), one connection an endpoint.
 *
 * Any number of requests is under way on a connection, each with an id of its own; an id isn't used again before 2^31 others were.
 * Repeating is the library's business (rule P8): a request goes out once, and if its connection is lost it ends at once.
 *
 * Times: an exchange whose patience ends sooner than the thread wakes has to wake it, which costs as much as the call. So the
 * thread wakes for the earliest that was there when it last looked, also if that was answered long ago, and looks through all of
 * them then.
 */
#include "client/lib/transport_sp.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/lib/call.h" /* hfi_boot_ms */

enum {
    EVENTS = 16,
    LOOK_MS = 10 /* between two looks */
};

/* ------------------------------------------------------------------------------------------------ exchanges */

static struct sp_exchange **bucket(struct sp_transport *t, uint32_t id)
{
    return &t->buckets[id % SP_BUCKETS];
}

/* NULL if there is none with this id. */
static struct sp_exchange *find(struct sp_transport *t, uint32_t id)
{
    struct sp_exchange *exchange = *bucket(t, id);

    while (exchange && exchange->id != id)
        exchange = exchange->next;
    return exchange;
}

static void add(struct sp_transport *t, struct sp_exchange *exchange)
{
    do
        t->last_id = (t->last_id + 1) | 0x80000000u;
    while (find(t, t->last_id));
    exchange->id = t->last_id;
    exchange->next = *bucket(t, exchange->id);
    *bucket(t, exchange->id) = exchange;
}

static void take_out(struct sp_transport *t, struct sp_exchange *exchange)
{
    struct sp_exchange **link = bucket(t, exchange->id);

    while (*link != exchange)
        link = &(*link)->next;
    *link = exchange->next;
}

void sp_end(struct sp_exchange *exchange, enum hfi_fate fate, struct sp_exchange **ended)
{
    take_out(exchange->conn->owner, exchange);
    exchange->fate = fate;
    exchange->next = *ended;
    *ended = exchange;
}

void sp_end_sent(struct sp_conn *conn, struct sp_exchange **ended)
{
    struct sp_transport *t = conn->owner;

    for (size_t i = 0; i < SP_BUCKETS; i++) {
        for (struct sp_exchange *exchange = t->buckets[i], *next; exchange; exchange = next) {
            next = exchange->next;
            if (exchange->conn == conn && !exchange->frame)
                sp_end(exchange, HFI_NO_ANSWER, ended);
        }
    }
}

void sp_tell(struct sp_exchange *ended)
{
    for (struct sp_exchange *next; ended; ended = next) {
        next = ended->next;
        ended->owner->done(ended->owner, ended->fate, NULL, 0);
        free(ended->frame);
        free(ended);
    }
}

void sp_answered(struct sp_conn *conn, uint32_t id, const void *data, size_t len)
{
    struct sp_transport *t = conn->owner;
    struct sp_exchange *exchange;

    pthread_mutex_lock(&t->mutex);
    exchange = find(t, id);
    if (exchange && (exchange->conn != conn || exchange->frame))
        exchange = NULL; /* what wasn't asked isn't answered */
    if (exchange)
        take_out(t, exchange);
    pthread_mutex_unlock(&t->mutex);
    if (!exchange)
        return;
    exchange->owner->done(exchange->owner, HFI_ANSWERED, data, len);
    free(exchange);
}

/* ------------------------------------------------------------------------------------------------ times */

void sp_wake_at(struct sp_transport *t, int64_t at_ms)
{
    if (at_ms < t->wake_ms)
        t->wake_ms = at_ms;
}

/* Its patience is over. What is partly sent stays in its queue, since what follows it must begin a message. */
static void expire(struct sp_exchange *exchange, struct sp_exchange **ended)
{
    struct sp_exchange *rest;

    if (!exchange->frame || !exchange->sent) {
        struct sp_exchange **link = &exchange->conn->first;
        while (exchange->frame && *link != exchange)
            link = &(*link)->behind;
        if (exchange->frame) {
            *link = exchange->behind;
            if (!*link)
                exchange->conn->last = link;
        }
        sp_end(exchange, exchange->frame ? HFI_NOT_SENT : HFI_NO_ANSWER, ended);
        return;
    }
    rest = malloc(sizeof(*rest));
    if (!rest)
        return; /* next time */
    *rest = *exchange;
    rest->owner = NULL;
    exchange->conn->first = rest;
    if (!rest->behind)
        exchange->conn->last = &rest->behind;
    exchange->frame = NULL;
    sp_end(exchange, HFI_NO_ANSWER, ended);
}

/* Ends what has waited for long enough, and finds out what comes next. Lock not held. */
static void look(struct sp_transport *t)
{
    const int64_t now = hfi_boot_ms();
    struct sp_exchange *ended = NULL;

    for (unsigned i = 0; i < t->port.n_endpoints; i++)
        sp_conn_due(&t->conns[i], now);
    pthread_mutex_lock(&t->mutex);
    t->wake_ms = HFI_NEVER;
    for (size_t i = 0; i < SP_BUCKETS; i++) {
        for (struct sp_exchange *exchange = t->buckets[i], *next; exchange; exchange = next) {
            next = exchange->next;
            if (exchange->until_ms <= now)
                expire(exchange, &ended);
            else
                sp_wake_at(t, exchange->until_ms);
        }
    }
    for (unsigned i = 0; i < t->port.n_endpoints; i++)
        sp_wake_at(t, t->conns[i].until_ms);
    if (t->wake_ms < now + LOOK_MS)
        t->wake_ms = now + LOOK_MS;
    pthread_mutex_unlock(&t->mutex);
    sp_tell(ended);
}

/* ------------------------------------------------------------------------------------------------ the thread */

/* How long to wait, -1 for ever. False: no longer at all. */
static bool wait_time(struct sp_transport *t, int *ms)
{
    bool go_on;

    for (;;) {
        int64_t left;
        pthread_mutex_lock(&t->mutex);
        go_on = !t->stopped;
        left = t->wake_ms == HFI_NEVER ? -1 : t->wake_ms - hfi_boot_ms();
        *ms = left > INT32_MAX ? INT32_MAX : (int)left;
        if (t->wake_ms != HFI_NEVER && left <= 0)
            *ms = 0;
        pthread_mutex_unlock(&t->mutex);
        if (!go_on || *ms)
            return go_on;
        look(t);
    }
}

static void end_all(struct sp_transport *t)
{
    for (unsigned i = 0; i < t->port.n_endpoints; i++)
        sp_conn_close(&t->conns[i]);
}

static void *io_main(void *arg)
{
    struct sp_transport *t = arg;
    struct epoll_event events[EVENTS];
    int ms;

    while (wait_time(t, &ms)) {
        const int n = epoll_wait(t->epoll_fd, events, EVENTS, ms);
        for (int i = 0; i < n; i++) {
            eventfd_t count;
            if (events[i].data.ptr)
                sp_conn_ready(events[i].data.ptr, events[i].events);
            else
                (void)eventfd_read(t->wake_fd, &count);
        }
    }
    return NULL;
}

/* It takes no signals: those are the program's. */
static bool start_thread(struct sp_transport *t)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    sigset_t all, before;

    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->epoll_fd < 0 || t->wake_fd < 0 || epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->wake_fd, &event))
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->has_thread = pthread_create(&t->thread, NULL, io_main, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t->has_thread;
}

/* ------------------------------------------------------------------------------------------------ the port */

/* False: it will not be sent. */
static bool begin(struct sp_transport *t, struct sp_exchange *exchange, const void *data, size_t len, int64_t send_ms)
{
    const int64_t now = hfi_boot_ms();
    bool wake = false;

    pthread_mutex_lock(&t->mutex);
    bool begun = !t->stopped;
    if (begun) {
        add(t, exchange);
        exchange->until_ms = now + send_ms;
        begun = sp_conn_send(exchange->conn, exchange, data, len);
        if (!begun)
            take_out(t, exchange);
    }
    if (begun && exchange->until_ms < t->wake_ms) {
        t->wake_ms = exchange->until_ms;
        wake = true;
    }
    if (wake)
        (void)eventfd_write(t->wake_fd, 1);
    pthread_mutex_unlock(&t->mutex);
    return begun;
}

static void port_send(struct hfi_transport *transport, unsigned endpoint, const void *data, size_t len, int64_t send_ms,
                      int64_t reply_ms, struct hfi_exchange *owner)
{
    struct sp_transport *t = (struct sp_transport *)transport;
    struct sp_exchange *exchange = malloc(sizeof(*exchange));

    if (exchange)
        *exchange = (struct sp_exchange){.conn = &t->conns[endpoint], .owner = owner, .reply_ms = reply_ms};
    if (exchange && begin(t, exchange, data, len, send_ms))
        return;
    free(exchange);
    owner->done(owner, HFI_NOT_SENT, NULL, 0);
}

static const char *port_url(struct hfi_transport *transport, unsigned endpoint)
{
    return ((struct sp_transport *)transport)->conns[endpoint].address.url;
}

static void port_stop(struct hfi_transport *transport)
{
    struct sp_transport *t = (struct sp_transport *)transport;

    pthread_mutex_lock(&t->mutex);
    t->stopped = true;
    pthread_mutex_unlock(&t->mutex);
    if (t->has_thread) {
        (void)eventfd_write(t->wake_fd, 1);
        pthread_join(t->thread, NULL);
    }
    t->has_thread = false;
    end_all(t);
}

static void port_free(struct hfi_transport *transport)
{
    struct sp_transport *t = (struct sp_transport *)transport;

    for (unsigned i = 0; i < t->port.n_endpoints; i++)
        sp_address_release(&t->conns[i].address);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

static enum hfi_open_result read_urls(struct sp_transport *t, const char *urls, char *why, size_t why_size)
{
    for (const char *p = urls;; p++) {
        const size_t len = strcspn(p, ",");
        struct sp_conn *conn = &t->conns[t->port.n_endpoints];
        const char *wrong;
        if (t->port.n_endpoints == HFI_ENDPOINTS_MAX) {
            snprintf(why, why_size, "more than %d servers", HFI_ENDPOINTS_MAX);
            return HFI_OPEN_BAD_URL;
        }
        if (len == 0) {
            snprintf(why, why_size, "empty server URL in \"%s\"", urls);
            return HFI_OPEN_BAD_URL;
        }
        wrong = sp_address_read(&conn->address, p, len);
        if (!conn->address.url)
            return HFI_OPEN_NO_MEMORY;
        sp_conn_init(conn, t);
        t->port.n_endpoints++;
        if (wrong) {
            snprintf(why, why_size, "%s: %s", conn->address.url, wrong);
            return HFI_OPEN_BAD_URL;
        }
        p += len;
        if (!*p)
            return HFI_OPEN_OK;
    }
}

enum hfi_open_result hfi_transport_sp(const char *urls, struct hfi_transport **transport, char *why, size_t why_size)
{
    struct sp_transport *t = calloc(1, sizeof(*t));
    enum hfi_open_result result;

    snprintf(why, why_size, "no memory");
    if (!t)
        return HFI_OPEN_NO_MEMORY;
    pthread_mutex_init(&t->mutex, NULL);
    t->epoll_fd = t->wake_fd = -1;
    t->port.send = port_send;
    t->port.url = port_url;
    t->port.stop = port_stop;
    t->port.free = port_free;
    result = read_urls(t, urls, why, why_size);
    if (result == HFI_OPEN_OK && !start_thread(t)) {
        snprintf(why, why_size, "the transport's thread could not be started: %m");
        result = HFI_OPEN_FAILED;
    }
    if (result != HFI_OPEN_OK) {
        port_stop(&t->port);
        port_free(&t->port);
        return result;
    }
    *transport = &t->port;
    return HFI_OPEN_OK;
}
