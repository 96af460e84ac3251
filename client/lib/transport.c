/*
 * transport.c - envelopes to endpoints and back: exchanges, their times, the thread, and the port.
 *
 * Any number of requests is under way on a connection, each with an id of its own; an id isn't used again before 2^31 others were.
 * Repeating is the library's business (rule P8): a request goes out once, and if its connection is lost it ends at once.
 *
 * Times: an exchange whose patience ends sooner than the thread wakes has to wake it, which costs as much as the call. So the
 * thread wakes for the earliest that was there when it last looked, also if that was answered long ago, and looks through all of
 * them then.
 */
#include "client/lib/transport.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/grpc.h"

enum {
    EVENTS = 16,
    LOOK_MS = 10 /* between two looks */
};

/* ------------------------------------------------------------------------------------------------ exchanges */

static struct tr_exchange **bucket(struct tr_transport *t, uint32_t id)
{
    return &t->buckets[id % TR_BUCKETS];
}

/* NULL if there is none with this id. */
static struct tr_exchange *find(struct tr_transport *t, uint32_t id)
{
    struct tr_exchange *exchange = *bucket(t, id);

    while (exchange && exchange->id != id)
        exchange = exchange->next;
    return exchange;
}

static void add(struct tr_transport *t, struct tr_exchange *exchange)
{
    do
        t->last_id = (t->last_id + 1) | 0x80000000u;
    while (find(t, t->last_id));
    exchange->id = t->last_id;
    exchange->next = *bucket(t, exchange->id);
    *bucket(t, exchange->id) = exchange;
}

static void take_out(struct tr_transport *t, struct tr_exchange *exchange)
{
    struct tr_exchange **link = bucket(t, exchange->id);

    while (*link != exchange)
        link = &(*link)->next;
    *link = exchange->next;
}

void tr_end(struct tr_exchange *exchange, enum hfi_fate fate)
{
    struct tr_transport *t = exchange->conn->owner;

    take_out(t, exchange);
    exchange->fate = fate;
    exchange->next = t->ended;
    t->ended = exchange;
}

void tr_queue(struct tr_exchange *exchange)
{
    exchange->behind = NULL;
    exchange->queued = true;
    *exchange->conn->last = exchange;
    exchange->conn->last = &exchange->behind;
}

void tr_unqueue(struct tr_exchange *exchange)
{
    struct tr_exchange **link = &exchange->conn->first;

    while (*link != exchange)
        link = &(*link)->behind;
    *link = exchange->behind;
    if (!*link)
        exchange->conn->last = link;
    exchange->queued = false;
}

static void tell(struct tr_exchange *ended)
{
    for (struct tr_exchange *next; ended; ended = next) {
        next = ended->next;
        ended->owner->done(ended->owner, ended->fate, ended->reply, ended->reply_len);
        free(ended->reply);
        ended->conn->protocol->release(ended);
    }
}

static void unlock(struct tr_transport *t)
{
    struct tr_exchange *ended = t->ended;

    t->ended = NULL;
    pthread_mutex_unlock(&t->mutex);
    tell(ended);
}

void tr_lock(struct tr_conn *conn)
{
    pthread_mutex_lock(&conn->owner->mutex);
}

void tr_unlock(struct tr_conn *conn)
{
    unlock(conn->owner);
}

void tr_answered(struct tr_conn *conn, uint32_t id, const void *data, size_t len)
{
    struct tr_transport *t = conn->owner;
    struct tr_exchange *exchange;

    pthread_mutex_lock(&t->mutex);
    exchange = find(t, id);
    if (exchange && (exchange->conn != conn || exchange->queued))
        exchange = NULL; /* what wasn't asked isn't answered */
    if (exchange)
        take_out(t, exchange);
    unlock(t);
    if (!exchange)
        return;
    exchange->owner->done(exchange->owner, HFI_ANSWERED, data, len);
    conn->protocol->release(exchange);
}

/* ------------------------------------------------------------------------------------------------ times */

void tr_wake_at(struct tr_transport *t, int64_t at_ms)
{
    if (at_ms < t->wake_ms)
        t->wake_ms = at_ms;
}

/* Ends what has waited for long enough, and finds out what comes next. Lock not held. */
static void look(struct tr_transport *t)
{
    const int64_t now = hfi_boot_ms();

    pthread_mutex_lock(&t->mutex);
    for (unsigned i = 0; i < t->port.n_endpoints; i++)
        tr_due(&t->conns[i], now);
    t->wake_ms = HFI_NEVER;
    for (size_t i = 0; i < TR_BUCKETS; i++) {
        for (struct tr_exchange *exchange = t->buckets[i], *next; exchange; exchange = next) {
            next = exchange->next;
            if (exchange->until_ms <= now)
                exchange->conn->protocol->expire(exchange);
            else
                tr_wake_at(t, exchange->until_ms);
        }
    }
    for (unsigned i = 0; i < t->port.n_endpoints; i++) {
        if (t->conns[i].protocol->flush)
            t->conns[i].protocol->flush(&t->conns[i]);
        tr_wake_at(t, t->conns[i].until_ms);
    }
    if (t->wake_ms < now + LOOK_MS)
        t->wake_ms = now + LOOK_MS;
    unlock(t);
}

/* ------------------------------------------------------------------------------------------------ the thread */

/* How long to wait, -1 for ever. False: no longer at all. */
static bool wait_time(struct tr_transport *t, int *ms)
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

static void end_all(struct tr_transport *t)
{
    for (unsigned i = 0; i < t->port.n_endpoints; i++)
        tr_close(&t->conns[i]);
}

static void ready(struct tr_conn *conn, uint32_t events)
{
    if (conn->state == TR_GREETING || conn->state == TR_OPEN) { /* changed by this thread only */
        conn->protocol->ready(conn, events);
        return;
    }
    tr_lock(conn);
    tr_ready(conn);
    tr_unlock(conn);
}

static void *io_main(void *arg)
{
    struct tr_transport *t = arg;
    struct epoll_event events[EVENTS];
    int ms;

    while (wait_time(t, &ms)) {
        const int n = epoll_wait(t->epoll_fd, events, EVENTS, ms);
        for (int i = 0; i < n; i++) {
            eventfd_t count;
            if (events[i].data.ptr)
                ready(events[i].data.ptr, events[i].events);
            else
                (void)eventfd_read(t->wake_fd, &count);
        }
    }
    return NULL;
}

/* It takes no signals: those are the program's. */
static bool start_thread(struct tr_transport *t)
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

/* False: it will not be sent. Otherwise it may be gone already. */
static bool begin(struct tr_transport *t, struct tr_exchange *exchange, const void *data, size_t len, int64_t send_ms)
{
    const int64_t now = hfi_boot_ms();

    pthread_mutex_lock(&t->mutex);
    const int64_t wakes_ms = t->wake_ms; /* as the thread knows it */
    bool begun = !t->stopped;
    if (begun) {
        add(t, exchange);
        exchange->until_ms = now + send_ms;
        begun = exchange->conn->protocol->begin(exchange, data, len);
        if (!begun)
            take_out(t, exchange);
    }
    if (begun)
        tr_wake_at(t, exchange->until_ms);
    if (t->wake_ms < wakes_ms)
        (void)eventfd_write(t->wake_fd, 1);
    unlock(t);
    return begun;
}

static void port_send(struct hfi_transport *transport, unsigned endpoint, const void *data, size_t len, int64_t send_ms,
                      int64_t reply_ms, struct hfi_exchange *owner)
{
    struct tr_transport *t = (struct tr_transport *)transport;
    struct tr_conn *conn = &t->conns[endpoint];
    struct tr_exchange *exchange = conn->protocol->prepare(data, len);

    if (exchange) {
        exchange->conn = conn;
        exchange->owner = owner;
        exchange->reply_ms = reply_ms;
        if (begin(t, exchange, data, len, send_ms))
            return;
        conn->protocol->release(exchange);
    }
    owner->done(owner, HFI_NOT_SENT, NULL, 0);
}

static const char *port_url(struct hfi_transport *transport, unsigned endpoint)
{
    return ((struct tr_transport *)transport)->conns[endpoint].address.url;
}

static void port_why(struct hfi_transport *transport, unsigned endpoint, char *why, size_t size)
{
    struct tr_transport *t = (struct tr_transport *)transport;

    pthread_mutex_lock(&t->mutex);
    snprintf(why, size, "%s", t->conns[endpoint].why);
    pthread_mutex_unlock(&t->mutex);
}

static void port_stop(struct hfi_transport *transport)
{
    struct tr_transport *t = (struct tr_transport *)transport;

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
    struct tr_transport *t = (struct tr_transport *)transport;

    for (unsigned i = 0; i < t->port.n_endpoints; i++) {
        tr_address_release(&t->conns[i].address);
        grpc_tls_forget(&t->conns[i].session);
    }
    grpc_tls_free(t->tls);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

static void init_conn(struct tr_conn *conn, struct tr_transport *owner)
{
    conn->owner = owner;
    conn->protocol = tr_is_grpc(&conn->address) ? &grpc_protocol : &sp_protocol;
    conn->fd = -1;
    conn->last = &conn->first;
    conn->until_ms = 0; /* at once */
}

static enum hfi_open_result read_urls(struct tr_transport *t, const char *urls, char *why, size_t why_size)
{
    for (const char *p = urls;; p++) {
        const size_t len = strcspn(p, ",");
        struct tr_conn *conn = &t->conns[t->port.n_endpoints];
        const char *wrong;
        if (t->port.n_endpoints == HFI_ENDPOINTS_MAX) {
            snprintf(why, why_size, "more than %d servers", HFI_ENDPOINTS_MAX);
            return HFI_OPEN_BAD_URL;
        }
        if (len == 0) {
            snprintf(why, why_size, "empty server URL in \"%s\"", urls);
            return HFI_OPEN_BAD_URL;
        }
        wrong = tr_address_read(&conn->address, p, len);
        if (!conn->address.url)
            return HFI_OPEN_NO_MEMORY;
        init_conn(conn, t);
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

char *hfi_transport_exposed(const char *urls)
{
    for (const char *p = urls;; p++) {
        const size_t len = strcspn(p, ",");
        struct tr_address address;
        if (!tr_address_read(&address, p, len) && !tr_is_private(&address))
            return address.url;
        tr_address_release(&address);
        p += len;
        if (!*p)
            return NULL;
    }
}

/* What TLS needs, if any endpoint does. */
static enum hfi_open_result set_up_tls(struct tr_transport *t, const struct hfi_tls_files *files, char *why, size_t why_size)
{
    static const struct hfi_tls_files none;

    for (unsigned i = 0; i < t->port.n_endpoints; i++) {
        if (t->conns[i].address.kind == TR_GRPCS) {
            t->tls = grpc_tls_new(files ? files : &none, why, why_size);
            return t->tls ? HFI_OPEN_OK : *why ? HFI_OPEN_BAD_TLS : HFI_OPEN_NO_MEMORY;
        }
    }
    return HFI_OPEN_OK;
}

enum hfi_open_result hfi_transport_open(const char *urls, const struct hfi_tls_files *files, struct hfi_transport **transport,
                                        char *why, size_t why_size)
{
    struct tr_transport *t = calloc(1, sizeof(*t));
    enum hfi_open_result result;

    snprintf(why, why_size, "no memory");
    if (!t)
        return HFI_OPEN_NO_MEMORY;
    pthread_mutex_init(&t->mutex, NULL);
    t->epoll_fd = t->wake_fd = -1;
    t->silence_ms = GRPC_SILENCE_MS;
    t->ping_ms = GRPC_PING_MS;
    t->going_ms = GRPC_GOING_MS;
    t->port.send = port_send;
    t->port.url = port_url;
    t->port.why = port_why;
    t->port.stop = port_stop;
    t->port.free = port_free;
    result = read_urls(t, urls, why, why_size);
    if (result == HFI_OPEN_OK)
        result = set_up_tls(t, files, why, why_size);
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
