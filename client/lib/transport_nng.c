/*
 * transport_nng.c - envelopes over nng's REQ: one socket an endpoint, one context an exchange.
 *
 * REQ resends by itself, for ever and without telling (nng_req(7)); repeating is the library's business (rule P8), so the resend
 * time is infinite, and a connection that breaks ends its exchanges with NNG_ECONNRESET. nng finishes the send when a
 * connection has taken the message: a send that failed was surely seen by nobody.
 *
 * Lanes (a context with its aio) are kept for reuse; the lane of an exchange that failed is thrown away, since its context may
 * still hold the request. Order matters in that: when an aio times out, nng's thread for timeouts calls into the context, and goes
 * on using it and its socket after our callback was called by that, so that closing either then and there ends in a panic (nng 1.5:
 * src/core/aio.c, nni_aio_expire_loop). Only nng_aio_free waits for that thread. So a lane is first retired by its callback, and
 * freed later from elsewhere, in no callback, the aio before the context; and stopping frees all lanes before it closes the
 * sockets.
 *
 * nng's timers go by the wall clock (Debian's 1.5.2 is built without pthread_condattr_setclock). Exchanges don't rely on them
 * (mux.h); but a pause between two tries to connect that is under way when the clock is set back by an hour takes an hour longer.
 * So an endpoint that is asked for, and has had no connection for a while, is dialled anew.
 *
 * Threads: callbacks come on nng's own; `mutex` guards the lists of lanes and the counts, and is never held while calling out.
 */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/ports.h"

/* Reconnecting: a lease of a few seconds must outlive an outage of more than half its TTL, so what nng adds to it is short. */
enum { RECEIVE_MAX = 64 << 20, RECONNECT_MIN_MS = 50, RECONNECT_MAX_MS = 250, REDIAL_MS = 2000, CLOSE_MS = 1000 };

enum lane_state { LANE_IDLE, LANE_SENDING, LANE_RECEIVING };

struct nng_port;

struct lane {
    struct nng_port *owner;
    struct endpoint *endpoint;
    struct lane *next_all, **prev_all, *next; /* next: among the idle, or the retired */
    nng_aio *aio;
    nng_ctx ctx;
    bool has_ctx;
    enum lane_state state;
    int64_t reply_ms;
    struct hfi_exchange *exchange;
};

struct endpoint {
    struct nng_port *owner;
    char *url;
    nng_socket socket;
    bool open;
    nng_dialer dialer;
    bool dialling;     /* one thread is about to replace the dialer */
    unsigned pipes;    /* connections */
    int64_t lonely_ms; /* since when it has none, or since it was dialled anew; hfi_boot_ms */
    struct lane *all, *idle;
};

struct nng_port {
    struct hfi_transport port; /* first */
    pthread_mutex_t mutex;
    pthread_cond_t news; /* one of the counts became 0 */
    size_t exchanges;    /* open */
    size_t sending;      /* threads in port_send */
    struct lane *retired;
    bool stopped;
    struct endpoint endpoints[HFI_ENDPOINTS_MAX];
};

static nng_duration duration(int64_t ms)
{
    if (ms < 1)
        return 1;
    return ms > INT32_MAX ? INT32_MAX : (nng_duration)ms;
}

static void count_down(struct nng_port *t, size_t *count)
{
    pthread_mutex_lock(&t->mutex);
    if (--*count == 0)
        pthread_cond_broadcast(&t->news);
    pthread_mutex_unlock(&t->mutex);
}

static void put(struct nng_port *t, struct lane **list, struct lane *lane)
{
    pthread_mutex_lock(&t->mutex);
    lane->next = *list;
    *list = lane;
    pthread_mutex_unlock(&t->mutex);
}

/* The exchange is over. A lane that is well is idle again before its owner hears of it, so that it can be used from within done();
 * one that failed in nng's hands (`spent`) is retired when we are done with it. */
static void end_exchange(struct lane *lane, enum hfi_fate fate, nng_msg *msg, bool spent)
{
    struct nng_port *t = lane->owner;
    struct hfi_exchange *exchange = lane->exchange;

    lane->exchange = NULL;
    lane->state = LANE_IDLE;
    if (!spent)
        put(t, &lane->endpoint->idle, lane);
    exchange->done(exchange, fate, msg ? nng_msg_body(msg) : NULL, msg ? nng_msg_len(msg) : 0);
    nng_msg_free(msg);
    if (spent)
        put(t, &t->retired, lane);
    count_down(t, &t->exchanges); /* the last thing: stopping may free it all */
}

static void handle(struct lane *lane)
{
    const int rc = nng_aio_result(lane->aio);

    if (lane->state == LANE_SENDING) {
        if (rc) {
            nng_msg_free(nng_aio_get_msg(lane->aio));
            nng_aio_set_msg(lane->aio, NULL);
            end_exchange(lane, HFI_NOT_SENT, NULL, true);
            return;
        }
        lane->state = LANE_RECEIVING;
        nng_aio_set_timeout(lane->aio, duration(lane->reply_ms));
        nng_ctx_recv(lane->ctx, lane->aio);
        return;
    }
    if (rc) {
        end_exchange(lane, HFI_NO_ANSWER, NULL, true);
    } else {
        nng_msg *msg = nng_aio_get_msg(lane->aio);
        nng_aio_set_msg(lane->aio, NULL);
        end_exchange(lane, HFI_ANSWERED, msg, false);
    }
}

/* How many callbacks of lanes this thread is in. */
static _Thread_local int within;

static void lane_event(void *arg)
{
    within++;
    handle(arg);
    within--;
}

/* In the list of all. Lock held. */
static struct lane *lane_new(struct nng_port *t, struct endpoint *endpoint)
{
    struct lane *lane = calloc(1, sizeof(*lane));

    if (!lane)
        return NULL;
    lane->owner = t;
    lane->endpoint = endpoint;
    if (nng_aio_alloc(&lane->aio, lane_event, lane)) {
        free(lane);
        return NULL;
    }
    lane->next_all = endpoint->all;
    lane->prev_all = &endpoint->all;
    if (lane->next_all)
        lane->next_all->prev_all = &lane->next_all;
    endpoint->all = lane;
    return lane;
}

/* Waits for nng to be done with it. */
static void lane_free(struct lane *lane)
{
    nng_aio_free(lane->aio);
    if (lane->has_ctx)
        nng_ctx_close(lane->ctx);
    free(lane);
}

static void free_retired(struct nng_port *t)
{
    struct lane *list;

    pthread_mutex_lock(&t->mutex);
    list = t->retired;
    t->retired = NULL;
    for (struct lane *lane = list; lane; lane = lane->next) {
        *lane->prev_all = lane->next_all;
        if (lane->next_all)
            lane->next_all->prev_all = lane->prev_all;
    }
    pthread_mutex_unlock(&t->mutex);
    for (struct lane *next; list; list = next) {
        next = list->next;
        lane_free(list);
    }
}

/* An idle lane, or a new one. NULL: stopped, or no memory. Otherwise an exchange is counted as open. */
static struct lane *lane_take(struct nng_port *t, struct endpoint *endpoint)
{
    struct lane *lane = NULL;

    pthread_mutex_lock(&t->mutex);
    if (!t->stopped) {
        lane = endpoint->idle;
        if (lane)
            endpoint->idle = lane->next;
        else
            lane = lane_new(t, endpoint);
        if (lane)
            t->exchanges++;
    }
    t->sending++;
    pthread_mutex_unlock(&t->mutex);
    return lane;
}

/* ------------------------------------------------------------------------------------------------ dialling */

static int dial(struct endpoint *endpoint)
{
    int rc = nng_dialer_create(&endpoint->dialer, endpoint->socket, endpoint->url);
    if (rc)
        return rc;
    (void)nng_dialer_set_bool(endpoint->dialer, NNG_OPT_TCP_KEEPALIVE, true); /* ipc:// has none */
    return nng_dialer_start(endpoint->dialer, NNG_FLAG_NONBLOCK);
}

/* On threads of nng's: a connection was made, or is gone. (ADD_POST would not do: who is turned away by then has a REM_POST too.)
 */
static void pipe_event(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct endpoint *endpoint = arg;

    (void)pipe;
    pthread_mutex_lock(&endpoint->owner->mutex);
    endpoint->pipes += event == NNG_PIPE_EV_ADD_PRE ? 1 : -1U;
    endpoint->lonely_ms = hfi_boot_ms();
    pthread_mutex_unlock(&endpoint->owner->mutex);
}

static void listen_to_pipes(struct endpoint *endpoint, nng_pipe_cb event)
{
    (void)nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_ADD_PRE, event, endpoint);
    (void)nng_pipe_notify(endpoint->socket, NNG_PIPE_EV_REM_POST, event, endpoint);
}

/* By one who sends, so that nothing is closed meanwhile. */
static void redial_if_lonely(struct endpoint *endpoint)
{
    struct nng_port *t = endpoint->owner;
    const int64_t now = hfi_boot_ms();

    pthread_mutex_lock(&t->mutex);
    const bool lonely = !t->stopped && !endpoint->dialling && !endpoint->pipes && now - endpoint->lonely_ms >= REDIAL_MS;
    endpoint->dialling |= lonely;
    pthread_mutex_unlock(&t->mutex);
    if (!lonely)
        return;
    (void)nng_dialer_close(endpoint->dialer);
    (void)dial(endpoint); /* without memory: again, a while later */
    pthread_mutex_lock(&t->mutex);
    endpoint->dialling = false;
    endpoint->lonely_ms = now;
    pthread_mutex_unlock(&t->mutex);
}

/* ------------------------------------------------------------------------------------------------ sending */

static void send_in(struct lane *lane, const void *data, size_t len, int64_t send_ms)
{
    nng_msg *msg = NULL;

    if (!lane->has_ctx)
        lane->has_ctx = nng_ctx_open(&lane->ctx, lane->endpoint->socket) == 0;
    if (!lane->has_ctx || nng_msg_alloc(&msg, 0) || nng_msg_append(msg, data, len)) {
        nng_msg_free(msg);
        end_exchange(lane, HFI_NOT_SENT, NULL, false);
        return;
    }
    lane->state = LANE_SENDING;
    nng_aio_set_msg(lane->aio, msg);
    nng_aio_set_timeout(lane->aio, duration(send_ms));
    nng_ctx_send(lane->ctx, lane->aio);
}

static void port_send(struct hfi_transport *transport, unsigned endpoint, const void *data, size_t len, int64_t send_ms,
                      int64_t reply_ms, struct hfi_exchange *exchange)
{
    struct nng_port *t = (struct nng_port *)transport;
    struct lane *lane = lane_take(t, &t->endpoints[endpoint]);

    redial_if_lonely(&t->endpoints[endpoint]);
    if (lane) {
        lane->exchange = exchange;
        lane->reply_ms = reply_ms;
        send_in(lane, data, len, send_ms);
    } else {
        exchange->done(exchange, HFI_NOT_SENT, NULL, 0);
    }
    /* Not in a callback: it may be that of the very lane, used again by what it called and retired meanwhile, and would wait for
     * its own end. */
    if (!within)
        free_retired(t);
    count_down(t, &t->sending);
}

static const char *port_url(struct hfi_transport *transport, unsigned endpoint)
{
    return ((struct nng_port *)transport)->endpoints[endpoint].url;
}

/* Ends what is under way in this lane. No more is begun in it: its aio refuses, without calling back. */
static void lane_stop(struct lane *lane)
{
    nng_aio_stop(lane->aio);
    if (!lane->exchange)
        return;
    if (lane->state == LANE_SENDING) {
        nng_msg_free(nng_aio_get_msg(lane->aio));
        nng_aio_set_msg(lane->aio, NULL);
    }
    end_exchange(lane, lane->state == LANE_SENDING ? HFI_NOT_SENT : HFI_NO_ANSWER, NULL, true);
}

static void *close_socket(void *arg)
{
    nng_socket *socket = arg;

    nng_close(*socket);
    free(socket);
    return NULL;
}

/*
 * nng_close of 1.5 may never return, if a connection is lost at an unlucky moment (a known fault, mended in nng 1.8). So a
 * thread of its own calls it, and is left behind if it takes too long: it touches nothing of ours.
 */
static void close_in_time(nng_socket socket)
{
    nng_socket *copy = malloc(sizeof(*copy));
    struct timespec until;
    sigset_t all, before;
    pthread_t thread;

    if (!copy)
        return; /* better left open than closed for ever */
    *copy = socket;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, close_socket, copy);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        free(copy);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CLOSE_MS / 1000;
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until))
        pthread_detach(thread);
}

static void port_stop(struct hfi_transport *transport)
{
    struct nng_port *t = (struct nng_port *)transport;

    pthread_mutex_lock(&t->mutex);
    t->stopped = true;
    while (t->sending > 0)
        pthread_cond_wait(&t->news, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
    /* From here on the list of all lanes stands still. */
    for (unsigned i = 0; i < t->port.n_endpoints; i++) {
        for (struct lane *lane = t->endpoints[i].all; lane; lane = lane->next_all)
            lane_stop(lane);
    }
    pthread_mutex_lock(&t->mutex);
    while (t->exchanges > 0)
        pthread_cond_wait(&t->news, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
    for (unsigned i = 0; i < t->port.n_endpoints; i++) {
        for (struct lane *lane = t->endpoints[i].all, *next; lane; lane = next) {
            next = lane->next_all;
            lane_free(lane);
        }
        t->endpoints[i].all = t->endpoints[i].idle = NULL;
        if (t->endpoints[i].open) {
            listen_to_pipes(&t->endpoints[i], NULL); /* closing may be left behind */
            close_in_time(t->endpoints[i].socket);
        }
        t->endpoints[i].open = false;
    }
    t->retired = NULL;
}

static void port_free(struct hfi_transport *transport)
{
    struct nng_port *t = (struct nng_port *)transport;

    for (unsigned i = 0; i < t->port.n_endpoints; i++)
        free(t->endpoints[i].url);
    pthread_cond_destroy(&t->news);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

static enum hfi_open_result open_endpoint(struct endpoint *endpoint, char *why, size_t why_size)
{
    int rc = nng_req0_open(&endpoint->socket);

    if (rc) {
        snprintf(why, why_size, "no socket: %s", nng_strerror(rc));
        return rc == NNG_ENOMEM ? HFI_OPEN_NO_MEMORY : HFI_OPEN_FAILED;
    }
    endpoint->open = true;
    (void)nng_socket_set_ms(endpoint->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
    (void)nng_socket_set_size(endpoint->socket, NNG_OPT_RECVMAXSZ, RECEIVE_MAX);
    (void)nng_socket_set_ms(endpoint->socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS);
    (void)nng_socket_set_ms(endpoint->socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
    listen_to_pipes(endpoint, pipe_event);
    endpoint->lonely_ms = hfi_boot_ms();
    rc = dial(endpoint);
    if (rc) {
        snprintf(why, why_size, "%s: %s; wanted: tcp://HOST:PORT or ipc://PATH", endpoint->url, nng_strerror(rc));
        return rc == NNG_ENOMEM ? HFI_OPEN_NO_MEMORY : HFI_OPEN_BAD_URL;
    }
    return HFI_OPEN_OK;
}

static enum hfi_open_result open_all(struct nng_port *t, const char *urls, char *why, size_t why_size)
{
    enum hfi_open_result result = HFI_OPEN_OK;

    for (const char *p = urls; result == HFI_OPEN_OK;) {
        const size_t len = strcspn(p, ",");
        if (t->port.n_endpoints == HFI_ENDPOINTS_MAX) {
            snprintf(why, why_size, "more than %d servers", HFI_ENDPOINTS_MAX);
            return HFI_OPEN_BAD_URL;
        }
        if (len == 0) {
            snprintf(why, why_size, "empty server URL in \"%s\"", urls);
            return HFI_OPEN_BAD_URL;
        }
        struct endpoint *endpoint = &t->endpoints[t->port.n_endpoints];
        endpoint->owner = t;
        endpoint->url = strndup(p, len);
        if (!endpoint->url)
            return HFI_OPEN_NO_MEMORY;
        t->port.n_endpoints++;
        result = open_endpoint(endpoint, why, why_size);
        if (!p[len])
            break;
        p += len + 1;
    }
    return result;
}

enum hfi_open_result hfi_transport_nng(const char *urls, struct hfi_transport **transport, char *why, size_t why_size)
{
    struct nng_port *t = calloc(1, sizeof(*t));
    enum hfi_open_result result;

    snprintf(why, why_size, "no memory");
    if (!t)
        return HFI_OPEN_NO_MEMORY;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->news, NULL);
    t->port.send = port_send;
    t->port.url = port_url;
    t->port.stop = port_stop;
    t->port.free = port_free;
    result = open_all(t, urls, why, why_size);
    if (result != HFI_OPEN_OK) {
        port_stop(&t->port);
        port_free(&t->port);
        return result;
    }
    *transport = &t->port;
    return HFI_OPEN_OK;
}
