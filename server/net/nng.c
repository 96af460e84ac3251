/*
 * nng.c - see nng.h: the socket, nng's threads, and the queue between them and the loop. Envelopes are envelope.c's,
 * connections pipes.c's.
 *
 * A slot is a context of nng's with its aio. It is idle; or receives; or has a message for the loop, in the mailbox; or belongs
 * to the envelope that came with it; or sends that envelope's reply; and is idle again. So there are as many as there are
 * envelopes in flight and replies on their way, and a few that receive: calls that wait cost a slot, of about a kilobyte. With
 * contexts, nng takes the next reply for a connection when the one before has left: the replies of thousands of calls that
 * end at once wait in their slots, and none is lost. (A raw socket drops what a connection's queue of 64 can't take.)
 *
 * The threads of nng touch a slot only between its arming and its callback; `idle`, `sending` and `starving` are under the lock
 * of `pipes`.
 */
#include "net/nng.h"

#include <errno.h>
#include <pthread.h>
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
#include "net/pipes.h"
#include "proto/c/wire.h"

enum {
    IDLE_MAX = 256, /* slots kept for reuse */
    LINGER_MS = 50, /* between the hand-over of the last reply to nng and the belief that it has left */
    REARM_MS = 100, /* after a slot could not be made, or a receive failed, for want of memory */
    STALL_POLL_MS = 1000,
    CLOSE_MS = 1000 /* nng_close is waited for */
};

struct slot {
    struct net_note note;  /* first: NET_RECEIVED */
    struct list_node node; /* of all slots; the loop's */
    struct slot *next_idle;
    struct net_nng *nng;
    nng_ctx ctx;
    nng_aio *aio;
    bool sends; /* what its aio is armed for */
    nng_msg *msg;
    struct net_pipe *pipe; /* that the message came from; a reference. NULL: it was closed by then */
    int64_t received_ms;
    size_t bytes; /* of the reply */
};

struct net_nng {
    struct io *io;
    struct net_nng_config cfg;
    nng_socket sock;
    bool open;
    char url[192];

    struct net_mailbox box;
    struct list slots; /* all */
    int receiving;     /* slots armed for it */
    struct io_timer rearm, stall;
    bool watching_stalls;
    struct net_source nowhere; /* of messages whose connection is closed already */

    struct net_pipes *pipes; /* its lock is for what follows */
    struct slot *idle;
    int n_idle;
    int sending;
    size_t sending_bytes;
    int64_t last_sent_ms;
    bool starving;        /* no slot was armed for want of room */
    bool waking;          /* `wake` is in the mailbox */
    struct net_note wake; /* posted when there is room again */

    struct net_envelopes envelopes;
};

/* ---- slots ---- */

static void push_idle(struct net_nng *nng, struct slot *slot)
{
    if (slot->pipe)
        net_pipes_release_locked(nng->pipes, slot->pipe);
    slot->pipe = NULL;
    slot->next_idle = nng->idle;
    nng->idle = slot;
    nng->n_idle++;
}

static struct slot *pop_idle(struct net_nng *nng)
{
    struct slot *slot = nng->idle;
    if (slot) {
        nng->idle = slot->next_idle;
        nng->n_idle--;
    }
    return slot;
}

static void on_aio(void *arg);

static struct slot *make_slot(struct net_nng *nng)
{
    struct slot *slot = calloc(1, sizeof(*slot));
    if (!slot)
        return NULL;
    slot->nng = nng;
    slot->note.kind = NET_RECEIVED;
    if (nng_aio_alloc(&slot->aio, on_aio, slot)) {
        free(slot);
        return NULL;
    }
    if (nng_ctx_open(&slot->ctx, nng->sock)) {
        nng_aio_free(slot->aio);
        free(slot);
        return NULL;
    }
    list_push_back(&nng->slots, &slot->node);
    return slot;
}

static void free_slot(struct net_nng *nng, struct slot *slot)
{
    nng_aio_free(slot->aio);
    if (slot->msg)
        nng_msg_free(slot->msg);
    list_remove(&nng->slots, &slot->node);
    free(slot);
}

/* The loop has no more use for it. */
static void recycle(struct net_nng *nng, struct slot *slot)
{
    pthread_mutex_lock(&nng->pipes->lock);
    push_idle(nng, slot);
    struct slot *surplus = nng->n_idle > IDLE_MAX ? pop_idle(nng) : NULL;
    pthread_mutex_unlock(&nng->pipes->lock);
    if (surplus) {
        nng_ctx_close(surplus->ctx);
        free_slot(nng, surplus);
    }
}

/* ---- receiving ---- */

/* A thread of nng: the message goes to the loop. After nng_close nothing is posted any more. */
static void on_received(struct slot *slot)
{
    int rc = nng_aio_result(slot->aio);
    if (rc == NNG_ECLOSED || rc == NNG_ECANCELED)
        return;
    slot->msg = rc ? NULL : nng_aio_get_msg(slot->aio);
    nng_aio_set_msg(slot->aio, NULL);
    slot->received_ms = hb_monotonic_ms();
    slot->pipe = slot->msg ? net_pipes_get(slot->nng->pipes, (uint32_t)nng_pipe_id(nng_msg_get_pipe(slot->msg))) : NULL;
    net_mailbox_post(&slot->nng->box, &slot->note.letter);
}

/* A slot to receive with. NULL: there is no room (the loop is woken when there is), or no memory (`retry`). */
static struct slot *slot_to_receive(struct net_nng *nng, bool *retry)
{
    pthread_mutex_lock(&nng->pipes->lock);
    nng->starving = nng->envelopes.in_flight + nng->sending >= nng->cfg.max_envelopes ||
                    nng->envelopes.bytes + nng->sending_bytes >= nng->cfg.max_bytes;
    bool starving = nng->starving;
    struct slot *slot = starving ? NULL : pop_idle(nng);
    pthread_mutex_unlock(&nng->pipes->lock);
    if (slot || starving)
        return slot;
    slot = make_slot(nng);
    *retry = !slot;
    return slot;
}

/* As many slots receive as should. */
static void receive(struct net_nng *nng)
{
    bool retry = false;
    while (nng->receiving < nng->cfg.max_queue) {
        struct slot *slot = slot_to_receive(nng, &retry);
        if (!slot)
            break;
        nng->receiving++;
        slot->sends = false;
        nng_ctx_recv(slot->ctx, slot->aio);
    }
    if (retry)
        nng->io->timer_set(nng->io, &nng->rearm, nng->io->now_ms(nng->io) + REARM_MS);
}

static void on_rearm(struct io_timer *timer)
{
    receive(list_entry(timer, struct net_nng, rearm));
}

static void take_message(struct net_nng *nng, struct slot *slot)
{
    nng_msg *msg = slot->msg;
    slot->msg = NULL;
    nng->receiving--;
    if (!msg) {
        recycle(nng, slot);
        nng->io->timer_set(nng->io, &nng->rearm, nng->io->now_ms(nng->io) + REARM_MS);
        return;
    }
    net_envelopes_take(&nng->envelopes, slot->pipe ? &slot->pipe->source : &nng->nowhere, slot, nng_msg_body(msg), nng_msg_len(msg),
                       slot->received_ms);
    nng_msg_free(msg);
    receive(nng);
}

/* ---- sending ---- */

/* A thread of nng: the reply has been passed on. The loop is woken only if that makes the room it waits for. */
static void on_sent(struct slot *slot)
{
    struct net_nng *nng = slot->nng;
    if (nng_aio_result(slot->aio)) {
        nng_msg_free(nng_aio_get_msg(slot->aio));
        nng_aio_set_msg(slot->aio, NULL);
    }
    pthread_mutex_lock(&nng->pipes->lock);
    nng->sending--;
    nng->sending_bytes -= slot->bytes;
    nng->last_sent_ms = hb_monotonic_ms();
    if (slot->pipe) {
        slot->pipe->unsent--;
        slot->pipe->progress_ms = nng->last_sent_ms;
    }
    push_idle(nng, slot);
    bool wake = nng->starving && !nng->waking;
    if (wake) {
        nng->waking = true;
        nng->starving = false;
        net_mailbox_post(&nng->box, &nng->wake.letter);
    }
    pthread_mutex_unlock(&nng->pipes->lock);
}

static void on_aio(void *arg)
{
    struct slot *slot = arg;
    if (slot->sends)
        on_sent(slot);
    else
        on_received(slot);
}

static void on_stall_poll(struct io_timer *timer)
{
    struct net_nng *nng = list_entry(timer, struct net_nng, stall);
    int64_t now = nng->io->now_ms(nng->io);
    pthread_mutex_lock(&nng->pipes->lock);
    nng->watching_stalls = nng->sending > 0;
    pthread_mutex_unlock(&nng->pipes->lock);
    if (!nng->watching_stalls)
        return;
    int closed = net_pipes_close_stalled(nng->pipes, now - nng->cfg.stall_ms);
    if (closed)
        log_warn("net.stalled", log_int("connections", closed), log_str("reason", "their clients don't read replies"));
    nng->io->timer_set(nng->io, timer, now + STALL_POLL_MS);
}

/* The envelope's replies, as one message to where it came from. False: no memory; the caller repeats. */
static bool send_reply(struct net_envelopes *envelopes, void *from, size_t size, void (*write)(void *arg, void *body), void *arg)
{
    struct net_nng *nng = list_entry(envelopes, struct net_nng, envelopes);
    struct slot *slot = from;
    nng_msg *msg;
    if (nng_msg_alloc(&msg, size)) {
        recycle(nng, slot);
        return false;
    }
    write(arg, nng_msg_body(msg));
    nng_aio_set_msg(slot->aio, msg);
    slot->sends = true;
    slot->bytes = size;
    pthread_mutex_lock(&nng->pipes->lock);
    nng->sending++;
    nng->sending_bytes += size;
    if (slot->pipe && slot->pipe->unsent++ == 0)
        slot->pipe->progress_ms = hb_monotonic_ms();
    pthread_mutex_unlock(&nng->pipes->lock);
    if (!nng->watching_stalls) {
        nng->watching_stalls = true;
        nng->io->timer_set(nng->io, &nng->stall, nng->io->now_ms(nng->io) + STALL_POLL_MS);
    }
    nng_ctx_send(slot->ctx, slot->aio);
    return true;
}

static void drop_reply(struct net_envelopes *envelopes, void *from)
{
    recycle(list_entry(envelopes, struct net_nng, envelopes), from);
}

static void on_finished(struct net_envelopes *envelopes)
{
    struct net_nng *nng = list_entry(envelopes, struct net_nng, envelopes);
    if (nng->receiving < nng->cfg.max_queue)
        receive(nng);
}

static void on_gone(struct net_nng *nng, struct net_pipe *pipe)
{
    net_source_gone(&pipe->source);
    net_pipes_release(nng->pipes, pipe);
}

static void deliver(struct net_mailbox *box, struct net_letter *letter)
{
    struct net_nng *nng = list_entry(box, struct net_nng, box);
    struct net_note *note = list_entry(letter, struct net_note, letter);
    switch (note->kind) {
    case NET_RECEIVED:
        take_message(nng, list_entry(note, struct slot, note));
        break;
    case NET_WAKE:
        pthread_mutex_lock(&nng->pipes->lock);
        nng->waking = false;
        pthread_mutex_unlock(&nng->pipes->lock);
        receive(nng);
        break;
    case NET_REMOVED:
        on_gone(nng, list_entry(note, struct net_pipe, removed));
        break;
    }
}

/* ---- opening and closing ---- */

static void set_defaults(struct net_nng_config *cfg)
{
    cfg->max_envelopes = cfg->max_envelopes ? cfg->max_envelopes : 32768;
    cfg->max_bytes = cfg->max_bytes ? cfg->max_bytes : (size_t)256 << 20;
    cfg->max_queue = cfg->max_queue ? cfg->max_queue : 16;
    cfg->max_connections = cfg->max_connections ? cfg->max_connections : 4096;
    cfg->reply_max = cfg->reply_max ? cfg->reply_max : HP_ENVELOPE_MAX;
    cfg->default_wait_ms = cfg->default_wait_ms ? cfg->default_wait_ms : 30000;
    cfg->stall_ms = cfg->stall_ms ? cfg->stall_ms : 30000;
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
    nng->pipes = net_pipes_new(nng->cfg.max_connections);
    int rc = nng->pipes ? nng_rep0_open(&nng->sock) : NNG_ENOMEM;
    if (rc)
        return rc;
    nng->open = true;
    rc = nng_socket_set_size(nng->sock, NNG_OPT_RECVMAXSZ, (size_t)HP_ENVELOPE_MAX + 4); /* the request's id comes on top */
    if (!rc)
        rc = net_pipes_watch(nng->pipes, nng->sock, &nng->box);
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
    nng->stall.fire = on_stall_poll;
    nng->wake.kind = NET_WAKE;
    list_init(&nng->slots);
    net_source_init(&nng->nowhere);
    nng->nowhere.gone = true;
    nng->box.watch.fd = -1;
    net_envelopes_init(&nng->envelopes, io, nng->cfg.reply_max, nng->cfg.default_wait_ms);
    nng->envelopes.on_call = on_call;
    nng->envelopes.on_call_arg = arg;
    nng->envelopes.send = send_reply;
    nng->envelopes.drop = drop_reply;
    nng->envelopes.finished = on_finished;
    const char *why = start(nng, url);
    if (why) {
        snprintf(error, error_len, "cannot listen on %s: %s", url, why);
        net_nng_free(nng);
        return NULL;
    }
    receive(nng);
    return nng;
}

const char *net_nng_url(const struct net_nng *nng)
{
    return nng->url;
}

bool net_nng_idle(const struct net_nng *nng)
{
    pthread_mutex_lock(&nng->pipes->lock);
    int sending = nng->sending;
    int64_t last = nng->last_sent_ms;
    pthread_mutex_unlock(&nng->pipes->lock);
    return !sending && nng->envelopes.in_flight == 0 && nng->io->now_ms(nng->io) - last >= LINGER_MS;
}

void net_nng_stats(const struct net_nng *nng, struct net_nng_stats *out)
{
    const struct net_envelopes *e = &nng->envelopes;
    pthread_mutex_lock(&nng->pipes->lock);
    *out = (struct net_nng_stats){.envelopes = e->n_envelopes,
                                  .calls = e->n_calls,
                                  .undecodable = e->n_undecodable,
                                  .dropped_replies = e->n_dropped,
                                  .in_flight = e->in_flight,
                                  .sending = nng->sending,
                                  .bytes = e->bytes + nng->sending_bytes,
                                  .connections = nng->pipes->open,
                                  .refused = nng->pipes->refused};
    pthread_mutex_unlock(&nng->pipes->lock);
}

/* From here on no thread of nng touches a slot or posts. */
static void stop_slots(struct net_nng *nng)
{
    for (struct list_node *node = list_first(&nng->slots); node; node = list_next(&nng->slots, node))
        nng_aio_stop(list_entry(node, struct slot, node)->aio);
    if (nng->pipes)
        net_pipes_forget_box(nng->pipes);
}

static void free_slots(struct net_nng *nng)
{
    struct list_node *node;
    while ((node = list_first(&nng->slots))) {
        struct slot *slot = list_entry(node, struct slot, node);
        if (slot->pipe)
            net_pipes_release(nng->pipes, slot->pipe);
        free_slot(nng, slot);
    }
}

static void *close_socket(void *arg)
{
    struct net_pipes *pipes = arg;
    nng_close(pipes->sock);
    net_pipes_put(pipes);
    return NULL;
}

/*
 * nng_close of 1.5 may never return, if a connection is lost just as one of its own aios is between its begin and its
 * schedule (a known fault, mended in nng 1.8). So a thread of its own calls it, and is left behind if it takes too long: it
 * touches nothing but `pipes`.
 */
static void close_in_time(struct net_pipes *pipes)
{
    pthread_t thread;
    struct timespec until;
    pipes->owners++; /* nng's threads don't look at it */
    if (pthread_create(&thread, NULL, close_socket, pipes)) {
        close_socket(pipes);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CLOSE_MS / 1000;
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until)) {
        log_warn("net.close_hangs");
        pthread_detach(thread);
    }
}

/* A letter that was not read: that of a pipe holds a reference to it. */
static void drop_letter(struct net_letter *letter)
{
    struct net_note *note = list_entry(letter, struct net_note, letter);
    if (note->kind == NET_REMOVED) {
        struct net_pipe *pipe = list_entry(note, struct net_pipe, removed);
        if (--pipe->refs == 0)
            free(pipe);
    }
}

void net_nng_free(struct net_nng *nng)
{
    if (!nng)
        return;
    nng->io->timer_cancel(nng->io, &nng->rearm);
    nng->io->timer_cancel(nng->io, &nng->stall);
    stop_slots(nng);
    net_envelopes_orphan(&nng->envelopes);
    if (nng->box.watch.fd >= 0)
        net_mailbox_release(&nng->box, drop_letter); /* the other letters are parts of the slots, and of `nng` */
    free_slots(nng);
    if (nng->open)
        close_in_time(nng->pipes);
    net_pipes_put(nng->pipes);
    free(nng);
}
