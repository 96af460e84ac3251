/*
 * nng.c - see nng.h: the socket, nng's threads, and the two queues between them and the loop. Envelopes are envelope.c's.
 *
 * A receive slot is an aio that is in one of three places: armed (nng has it), in the mailbox with a message, or parked on
 * the loop's side while the bounds are reached. A send slot is idle or has a reply on its way. The threads of nng touch a
 * slot only between its arming and its callback, `idle`, `sending` and `starving` only under `lock`, and nothing else.
 */
#include "net/nng.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/envelope.h"
#include "net/mailbox.h"
#include "proto/c/wire.h"

enum {
    SEND_SLOTS = 64,
    LINGER_MS = 50, /* between the hand-over of a reply to nng and the belief that it has left */
    REARM_MS = 100, /* after a receive failed for want of memory */
    CLOSE_MS = 1000 /* nng_close is waited for */
};

struct recv_slot {
    struct net_letter letter; /* first: the mailbox's letters are slots, or `wake` */
    struct net_nng *nng;
    nng_aio *aio;
    nng_msg *msg;
    int64_t received_ms;
    struct recv_slot *next_parked;
};

struct send_slot {
    struct net_nng *nng;
    nng_aio *aio;
    struct send_slot *next_idle;
};

struct reply {
    struct list_node node;
    nng_msg *msg;
};

/* What nng's threads may touch until nng_close has returned. */
struct pipes {
    nng_socket sock;
    atomic_int open;
    atomic_long refused;
    int max;
};

struct net_nng {
    struct io *io;
    struct net_nng_config cfg;
    nng_socket sock;
    bool open;
    char url[192];
    struct pipes *pipes;

    struct net_mailbox box;
    struct recv_slot *recvs;
    struct recv_slot *parked;
    struct io_timer rearm;

    pthread_mutex_t lock;
    struct send_slot sends[SEND_SLOTS];
    struct send_slot *idle;
    int sending;
    bool starving;          /* replies wait for a slot */
    bool waking;            /* `wake` is in the mailbox */
    struct net_letter wake; /* posted when starving ends */
    struct list waiting;    /* of struct reply; the loop's */
    int64_t last_send_ms;

    struct net_envelopes envelopes;
};

/* ---- receiving ---- */

/* A thread of nng: the message goes to the loop. After nng_close nothing is posted any more. */
static void on_received(void *arg)
{
    struct recv_slot *slot = arg;
    int rc = nng_aio_result(slot->aio);
    if (rc == NNG_ECLOSED || rc == NNG_ECANCELED)
        return;
    slot->msg = rc ? NULL : nng_aio_get_msg(slot->aio);
    slot->received_ms = hb_monotonic_ms();
    net_mailbox_post(&slot->nng->box, &slot->letter);
}

static bool room(const struct net_nng *nng)
{
    return nng->envelopes.in_flight < nng->cfg.max_envelopes && nng->envelopes.bytes < nng->cfg.max_bytes;
}

static void park(struct recv_slot *slot)
{
    slot->next_parked = slot->nng->parked;
    slot->nng->parked = slot;
}

static void unpark(struct net_nng *nng)
{
    while (nng->parked && room(nng)) {
        struct recv_slot *slot = nng->parked;
        nng->parked = slot->next_parked;
        nng_recv_aio(nng->sock, slot->aio);
    }
}

static void on_rearm(struct io_timer *timer)
{
    unpark(list_entry(timer, struct net_nng, rearm));
}

static void take_message(struct recv_slot *slot)
{
    struct net_nng *nng = slot->nng;
    nng_msg *msg = slot->msg;
    slot->msg = NULL;
    if (msg) {
        net_envelopes_take(&nng->envelopes, nng_msg_header(msg), nng_msg_header_len(msg), nng_msg_body(msg), nng_msg_len(msg),
                           slot->received_ms);
        nng_msg_free(msg);
    }
    park(slot);
    if (msg)
        unpark(nng);
    else
        nng->io->timer_set(nng->io, &nng->rearm, nng->io->now_ms(nng->io) + REARM_MS);
}

/* ---- sending ---- */

static struct send_slot *idle_slot(struct net_nng *nng)
{
    pthread_mutex_lock(&nng->lock);
    struct send_slot *slot = nng->idle;
    if (slot) {
        nng->idle = slot->next_idle;
        nng->sending++;
    } else {
        nng->starving = true;
    }
    pthread_mutex_unlock(&nng->lock);
    return slot;
}

/* A thread of nng: the slot is free again. The loop is woken only if it has replies that wait for one. */
static void on_sent(void *arg)
{
    struct send_slot *slot = arg;
    struct net_nng *nng = slot->nng;
    if (nng_aio_result(slot->aio))
        nng_msg_free(nng_aio_get_msg(slot->aio));
    nng_aio_set_msg(slot->aio, NULL);
    pthread_mutex_lock(&nng->lock);
    slot->next_idle = nng->idle;
    nng->idle = slot;
    nng->sending--;
    bool wake = nng->starving && !nng->waking;
    if (wake) {
        nng->waking = true;
        nng->starving = false;
    }
    pthread_mutex_unlock(&nng->lock);
    if (wake)
        net_mailbox_post(&nng->box, &nng->wake);
}

static void send_waiting(struct net_nng *nng)
{
    struct send_slot *slot;
    while (!list_empty(&nng->waiting) && (slot = idle_slot(nng))) {
        struct reply *reply = list_entry(list_pop_front(&nng->waiting), struct reply, node);
        nng_aio_set_msg(slot->aio, reply->msg);
        free(reply);
        nng->last_send_ms = nng->io->now_ms(nng->io);
        nng_send_aio(nng->sock, slot->aio);
    }
}

/* The envelope's replies, as one message to where it came from. False: no memory, or closed; the caller repeats. */
static bool send_reply(struct net_envelopes *envelopes, const void *header, size_t header_len, size_t size,
                       void (*write)(void *arg, void *body), void *arg)
{
    struct net_nng *nng = list_entry(envelopes, struct net_nng, envelopes);
    struct reply *reply = calloc(1, sizeof(*reply));
    if (!reply || nng_msg_alloc(&reply->msg, size) || nng_msg_header_append(reply->msg, header, header_len)) {
        if (reply && reply->msg)
            nng_msg_free(reply->msg);
        free(reply);
        return false;
    }
    write(arg, nng_msg_body(reply->msg));
    list_push_back(&nng->waiting, &reply->node);
    send_waiting(nng);
    return true;
}

static void on_finished(struct net_envelopes *envelopes)
{
    unpark(list_entry(envelopes, struct net_nng, envelopes));
}

static void deliver(struct net_mailbox *box, struct net_letter *letter)
{
    struct net_nng *nng = list_entry(box, struct net_nng, box);
    if (letter == &nng->wake) {
        pthread_mutex_lock(&nng->lock);
        nng->waking = false;
        pthread_mutex_unlock(&nng->lock);
        send_waiting(nng);
    } else {
        take_message(list_entry(letter, struct recv_slot, letter));
    }
}

/* ---- opening and closing ---- */

/* A thread of nng. Every pipe that passes ADD_PRE gets its REM_POST, also one closed here. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct pipes *pipes = arg;
    if (event == NNG_PIPE_EV_REM_POST)
        atomic_fetch_sub(&pipes->open, 1);
    else if (atomic_fetch_add(&pipes->open, 1) >= pipes->max) {
        atomic_fetch_add(&pipes->refused, 1);
        nng_pipe_close(pipe);
    }
}

static void set_defaults(struct net_nng_config *cfg)
{
    cfg->max_envelopes = cfg->max_envelopes ? cfg->max_envelopes : 10000;
    cfg->max_bytes = cfg->max_bytes ? cfg->max_bytes : (size_t)256 << 20;
    cfg->max_queue = cfg->max_queue ? cfg->max_queue : 16;
    cfg->max_connections = cfg->max_connections ? cfg->max_connections : 4096;
    cfg->reply_max = cfg->reply_max ? cfg->reply_max : HP_ENVELOPE_MAX;
    cfg->default_wait_ms = cfg->default_wait_ms ? cfg->default_wait_ms : 30000;
}

static int alloc_slots(struct net_nng *nng)
{
    nng->recvs = calloc((size_t)nng->cfg.max_queue, sizeof(*nng->recvs));
    if (!nng->recvs)
        return NNG_ENOMEM;
    int rc = 0;
    for (int i = 0; !rc && i < nng->cfg.max_queue; i++) {
        nng->recvs[i].nng = nng;
        rc = nng_aio_alloc(&nng->recvs[i].aio, on_received, &nng->recvs[i]);
    }
    for (int i = 0; !rc && i < SEND_SLOTS; i++) {
        struct send_slot *slot = &nng->sends[i];
        *slot = (struct send_slot){.nng = nng, .next_idle = nng->idle};
        rc = nng_aio_alloc(&slot->aio, on_sent, slot);
        nng->idle = slot;
    }
    return rc;
}

/* Only these: nng's HTTP server and its TLS aren't fit to be exposed. */
static bool known_scheme(const char *url)
{
    return !strncmp(url, "tcp://", 6) || !strncmp(url, "ipc://", 6);
}

static int bind_url(struct net_nng *nng, const char *url)
{
    nng_listener listener;
    int rc = nng_listener_create(&listener, nng->sock, url);
    if (rc)
        return rc;
    bool tcp = !strncmp(url, "tcp://", 6);
    if (tcp)
        nng_listener_set_bool(listener, NNG_OPT_TCP_KEEPALIVE, true);
    rc = nng_listener_start(listener, 0);
    if (rc)
        return rc;
    int port = 0;
    const char *colon = strrchr(url, ':');
    if (tcp && !nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port) && colon > url + 5)
        snprintf(nng->url, sizeof(nng->url), "%.*s:%d", (int)(colon - url), url, port);
    else
        snprintf(nng->url, sizeof(nng->url), "%s", url);
    return 0;
}

static int open_socket(struct net_nng *nng, const char *url)
{
    nng->pipes = calloc(1, sizeof(*nng->pipes));
    int rc = nng->pipes ? nng_rep0_open_raw(&nng->sock) : NNG_ENOMEM;
    if (rc)
        return rc;
    nng->open = true;
    nng->pipes->sock = nng->sock;
    nng->pipes->max = nng->cfg.max_connections;
    rc = nng_socket_set_size(nng->sock, NNG_OPT_RECVMAXSZ, (size_t)HP_ENVELOPE_MAX + 4); /* the request's id comes on top */
    if (!rc)
        rc = nng_socket_set_int(nng->sock, NNG_OPT_SENDBUF, SEND_SLOTS);
    if (!rc)
        rc = nng_pipe_notify(nng->sock, NNG_PIPE_EV_ADD_PRE, on_pipe, nng->pipes);
    if (!rc)
        rc = nng_pipe_notify(nng->sock, NNG_PIPE_EV_REM_POST, on_pipe, nng->pipes);
    return rc ? rc : bind_url(nng, url);
}

static const char *start(struct net_nng *nng, const char *url)
{
    if (!known_scheme(url))
        return "the URL must begin with tcp:// or ipc://";
    if (strlen(url) >= sizeof(nng->url) - 8)
        return "the URL is too long";
    int rc = net_mailbox_init(&nng->box, nng->io, deliver);
    if (rc)
        return strerror(-rc);
    rc = alloc_slots(nng);
    if (!rc)
        rc = open_socket(nng, url);
    return rc ? nng_strerror(rc) : NULL;
}

struct net_nng *net_nng_listen(struct io *io, const char *url, const struct net_nng_config *cfg,
                               void (*on_call)(void *arg, struct hp_call *call), void *arg, char *error, size_t error_len)
{
    struct net_nng *nng = calloc(1, sizeof(*nng));
    if (!nng) {
        snprintf(error, error_len, "cannot listen on %s: out of memory", url);
        return NULL;
    }
    nng->io = io;
    nng->cfg = cfg ? *cfg : (struct net_nng_config){0};
    set_defaults(&nng->cfg);
    nng->rearm.fire = on_rearm;
    list_init(&nng->waiting);
    pthread_mutex_init(&nng->lock, NULL);
    nng->box.watch.fd = -1;
    net_envelopes_init(&nng->envelopes, io, nng->cfg.reply_max, nng->cfg.default_wait_ms);
    nng->envelopes.on_call = on_call;
    nng->envelopes.on_call_arg = arg;
    nng->envelopes.send = send_reply;
    nng->envelopes.finished = on_finished;
    const char *why = start(nng, url);
    if (why) {
        snprintf(error, error_len, "cannot listen on %s: %s", url, why);
        net_nng_free(nng);
        return NULL;
    }
    for (int i = 0; i < nng->cfg.max_queue; i++)
        nng_recv_aio(nng->sock, nng->recvs[i].aio);
    return nng;
}

const char *net_nng_url(const struct net_nng *nng)
{
    return nng->url;
}

bool net_nng_idle(const struct net_nng *nng)
{
    struct net_nng *unlocked = (struct net_nng *)nng; /* only the lock is written */
    pthread_mutex_lock(&unlocked->lock);
    int sending = nng->sending;
    pthread_mutex_unlock(&unlocked->lock);
    return !sending && list_empty(&nng->waiting) && nng->envelopes.in_flight == 0 &&
           nng->io->now_ms(nng->io) - nng->last_send_ms >= LINGER_MS;
}

void net_nng_stats(const struct net_nng *nng, struct net_nng_stats *out)
{
    const struct net_envelopes *e = &nng->envelopes;
    *out = (struct net_nng_stats){.envelopes = e->n_envelopes,
                                  .calls = e->n_calls,
                                  .undecodable = e->n_undecodable,
                                  .dropped_replies = e->n_dropped,
                                  .in_flight = e->in_flight,
                                  .bytes = e->bytes,
                                  .connections = atomic_load(&nng->pipes->open),
                                  .refused = atomic_load(&nng->pipes->refused)};
}

static void stop_aio(nng_aio *aio)
{
    if (aio)
        nng_aio_stop(aio);
}

/* From here on no thread of nng touches a slot or posts. */
static void stop_slots(struct net_nng *nng)
{
    for (int i = 0; nng->recvs && i < nng->cfg.max_queue; i++)
        stop_aio(nng->recvs[i].aio);
    for (int i = 0; i < SEND_SLOTS; i++)
        stop_aio(nng->sends[i].aio);
}

static void free_slots(struct net_nng *nng)
{
    for (int i = 0; nng->recvs && i < nng->cfg.max_queue; i++) {
        nng_aio_free(nng->recvs[i].aio);
        if (nng->recvs[i].msg)
            nng_msg_free(nng->recvs[i].msg);
    }
    for (int i = 0; i < SEND_SLOTS; i++)
        nng_aio_free(nng->sends[i].aio);
    free(nng->recvs);
}

static void *close_socket(void *arg)
{
    struct pipes *pipes = arg;
    nng_close(pipes->sock);
    free(pipes);
    return NULL;
}

/*
 * nng_close of 1.5 may never return, if a connection is lost just as one of its own aios is between its begin and its
 * schedule (a known fault, mended in nng 1.8). So a thread of its own calls it, and is left behind if it takes too long: it
 * touches nothing but `pipes`.
 */
static void close_in_time(struct pipes *pipes)
{
    pthread_t thread;
    struct timespec until;
    if (pthread_create(&thread, NULL, close_socket, pipes)) {
        close_socket(pipes);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_MS / 1000;
    if (pthread_timedjoin_np(thread, NULL, &until)) {
        log_warn("net.close_hangs");
        pthread_detach(thread);
    }
}

void net_nng_free(struct net_nng *nng)
{
    if (!nng)
        return;
    nng->io->timer_cancel(nng->io, &nng->rearm);
    stop_slots(nng);
    if (nng->open)
        close_in_time(nng->pipes);
    else
        free(nng->pipes);
    if (nng->box.watch.fd >= 0)
        net_mailbox_release(&nng->box, NULL); /* the letters are parts of the slots, and of `nng` */
    free_slots(nng);
    struct list_node *node;
    while ((node = list_pop_front(&nng->waiting))) {
        struct reply *reply = list_entry(node, struct reply, node);
        nng_msg_free(reply->msg);
        free(reply);
    }
    net_envelopes_orphan(&nng->envelopes);
    pthread_mutex_destroy(&nng->lock);
    free(nng);
}
