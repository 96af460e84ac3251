/*
 * sp.c - see sp.h: connections, what arrives on them and what leaves. Envelopes are envelope.c's.
 *
 * All bytes are read into one buffer that the connections share; only what belongs to a message that hasn't come in whole is
 * kept with its connection, in memory that grows as the bytes arrive. A connection is paused, that is, not read, when there is
 * no room for its next message: for a small one that is seen when it is there, for a big one (of more than BIG) when its length
 * is, and then the whole length is reserved, so that big messages don't block each other half-way. Paused ones go on in order
 * when there is room.
 *
 * A connection struct lives until it was closed and every request that came from it was handed back by envelope.c.
 */
#include "net/sp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "net/envelope.h"
#include "net/listen.h"
#include "net/out.h"
#include "proto/c/sp.h"
#include "proto/c/wire.h"

enum {
    SCRATCH = 64 << 10,
    BIG = SCRATCH,  /* messages longer than this reserve room */
    ROUNDS = 4,     /* reads of one connection in a turn */
    LINGER_MS = 50, /* between the hand-over of the last reply to the kernel and the belief that it has left */
    SWEEP_MS = 1000
};

static const size_t message_max = (size_t)HP_ENVELOPE_MAX + 4; /* the request's id comes on top */

struct net_sp {
    struct io *io;
    struct net_sp_config cfg;
    struct net_listener listener;
    struct net_envelopes envelopes;
    struct list greeting, open; /* connections: that have not greeted, by age; the others */
    struct list paused;         /* some of `open`, which are not read */
    struct list dirty;          /* some of `open`, with something to send since the last flush */
    struct list requests;       /* that envelope.c has */
    struct list dead;           /* connections, until the end of the turn */
    struct io_task flush, resume, bury;
    struct io_timer sweep;
    bool sweeps;
    long sending; /* replies */
    size_t sending_bytes, reserved_bytes;
    int64_t last_sent_ms;
    long refused;
    uint8_t scratch[SCRATCH];
};

struct conn {
    struct net_sp *sp;
    struct list_node node, paused_node, dirty_node;
    struct io_watch watch; /* fd -1: closed */
    struct net_source source;
    int refs; /* itself until it is closed, and its requests */
    bool greeted;
    int64_t heard_ms; /* when bytes last came */
    int64_t sent_ms;  /* when bytes last left, or there was something to send after there was nothing */
    uint8_t *in;      /* of a message that isn't whole */
    size_t in_len, in_size, reserved;
    struct net_out out;
};

/* An envelope's `from`. */
struct request {
    struct list_node node;
    struct conn *conn;
    uint8_t n_words;
    uint8_t words[];
};

/* The last reference is gone: it is freed at the end of the turn, so that whoever works on it now may look whether it is closed. */
static void unref(struct conn *conn)
{
    struct net_sp *sp = conn->sp;
    if (--conn->refs)
        return;
    list_push_back(&sp->dead, &conn->node);
    sp->io->post(sp->io, &sp->bury);
}

static void bury(struct net_sp *sp)
{
    struct list_node *node;
    while ((node = list_pop_front(&sp->dead)))
        free(list_entry(node, struct conn, node));
}

static void on_bury(struct io_task *task)
{
    bury(list_entry(task, struct net_sp, bury));
}

static bool is_closed(const struct conn *conn)
{
    return conn->watch.fd < 0;
}

static bool has_room(const struct net_sp *sp, size_t bytes)
{
    size_t used = sp->envelopes.bytes + sp->sending_bytes + sp->reserved_bytes;
    return sp->envelopes.in_flight + sp->sending < sp->cfg.max_envelopes && (!used || used + bytes <= sp->cfg.max_bytes);
}

/* There may be room for a paused connection. */
static void made_room(struct net_sp *sp)
{
    if (!list_empty(&sp->paused))
        sp->io->post(sp->io, &sp->resume);
}

static void unreserve(struct conn *conn)
{
    conn->sp->reserved_bytes -= conn->reserved;
    conn->reserved = 0;
}

static void forget_input(struct conn *conn)
{
    free(conn->in);
    conn->in = NULL;
    conn->in_len = conn->in_size = 0;
}

static void count_sent(struct net_sp *sp, long messages, size_t bytes)
{
    sp->sending -= messages;
    sp->sending_bytes -= bytes;
}

/* It is closed, and its calls have been told. */
static void close_conn(struct conn *conn)
{
    struct net_sp *sp = conn->sp;
    if (is_closed(conn))
        return;
    sp->io->unwatch(sp->io, &conn->watch);
    close(conn->watch.fd);
    conn->watch.fd = -1;
    list_remove(conn->greeted ? &sp->open : &sp->greeting, &conn->node);
    if (list_linked(&conn->paused_node))
        list_remove(&sp->paused, &conn->paused_node);
    if (list_linked(&conn->dirty_node))
        list_remove(&sp->dirty, &conn->dirty_node);
    count_sent(sp, conn->out.messages, conn->out.bytes);
    net_out_release(&conn->out);
    unreserve(conn);
    forget_input(conn);
    net_source_gone(&conn->source);
    made_room(sp);
    unref(conn);
}

/* What is waited for, as it is now; a connection that can't be waited for is closed. */
static void set_want(struct conn *conn)
{
    struct net_sp *sp = conn->sp;
    if (is_closed(conn))
        return;
    unsigned want = (list_linked(&conn->paused_node) ? IO_HANGUP : IO_READ) | (conn->out.bytes ? IO_WRITE : 0);
    if (conn->watch.watched && conn->watch.want == want)
        return;
    conn->watch.want = want;
    if (sp->io->watch(sp->io, &conn->watch))
        close_conn(conn);
}

/* ---- time ---- */

static bool is_amid(const struct conn *conn)
{
    return conn->in_len && !list_linked(&conn->paused_node);
}

static bool is_stalled(const struct conn *conn, int64_t since_ms)
{
    return (conn->out.bytes && conn->sent_ms < since_ms) || (is_amid(conn) && conn->heard_ms < since_ms);
}

/* The connections of `list` that have been silent or deaf for too long are closed. */
static int close_late(struct list *list, bool (*is_late)(const struct conn *conn, int64_t since_ms), int64_t since_ms)
{
    int n = 0;
    for (struct list_node *node = list_first(list), *next; node; node = next) {
        struct conn *conn = list_entry(node, struct conn, node);
        next = list_next(list, node);
        /* Telling its calls may close no other connection: that happens in tasks of their own. */
        if (is_late(conn, since_ms)) {
            close_conn(conn);
            n++;
        }
    }
    return n;
}

static bool greets_late(const struct conn *conn, int64_t since_ms)
{
    return conn->heard_ms < since_ms;
}

static void sweep_later(struct net_sp *sp)
{
    if (sp->sweeps)
        return;
    sp->sweeps = true;
    sp->io->timer_set(sp->io, &sp->sweep, sp->io->now_ms(sp->io) + SWEEP_MS);
}

static void on_sweep(struct io_timer *timer)
{
    struct net_sp *sp = list_entry(timer, struct net_sp, sweep);
    int64_t now = sp->io->now_ms(sp->io);
    sp->sweeps = false;
    close_late(&sp->greeting, greets_late, now - sp->cfg.greeting_ms);
    int stalled = close_late(&sp->open, is_stalled, now - sp->cfg.stall_ms);
    if (stalled)
        log_warn("net.stalled", log_int("connections", stalled), log_str("reason", "their clients neither read nor go on"));
    bool again = !list_empty(&sp->greeting);
    for (struct list_node *node = list_first(&sp->open); node && !again; node = list_next(&sp->open, node)) {
        const struct conn *conn = list_entry(node, struct conn, node);
        again = conn->out.bytes || is_amid(conn);
    }
    if (again)
        sweep_later(sp);
}

/* ---- sending ---- */

static void flush_conn(struct conn *conn)
{
    struct net_sp *sp = conn->sp;
    long messages = conn->out.messages;
    size_t bytes = conn->out.bytes;
    int rc = net_out_send(&conn->out, conn->watch.fd);
    count_sent(sp, messages - conn->out.messages, bytes - conn->out.bytes);
    if (rc) {
        close_conn(conn);
        return;
    }
    if (conn->out.bytes < bytes) {
        conn->sent_ms = sp->last_sent_ms = sp->io->now_ms(sp->io);
        made_room(sp);
    }
    if (conn->out.bytes)
        sweep_later(sp);
    set_want(conn);
}

/* The replies of a turn leave together. */
static void on_flush(struct io_task *task)
{
    struct net_sp *sp = list_entry(task, struct net_sp, flush);
    struct list_node *node;
    while ((node = list_pop_front(&sp->dirty)))
        flush_conn(list_entry(node, struct conn, dirty_node));
}

/* `n` bytes of a message to be filled in, which will leave at the end of the turn. NULL: no memory. */
static uint8_t *append(struct conn *conn, size_t n)
{
    struct net_sp *sp = conn->sp;
    bool is_first = !conn->out.bytes;
    uint8_t *room = net_out_append(&conn->out, n);
    if (!room)
        return NULL;
    sp->sending++;
    sp->sending_bytes += n;
    if (is_first)
        conn->sent_ms = sp->io->now_ms(sp->io);
    if (!list_linked(&conn->dirty_node)) {
        list_push_back(&sp->dirty, &conn->dirty_node);
        sp->io->post(sp->io, &sp->flush);
    }
    return room;
}

static void free_request(struct net_sp *sp, struct request *request)
{
    list_remove(&sp->requests, &request->node);
    unref(request->conn);
    free(request);
}

/* The envelope's replies, as one message to where it came from. False: no memory; the caller repeats. */
static bool send_reply(struct net_envelopes *envelopes, void *from, size_t size, void (*write)(void *arg, void *body), void *arg)
{
    struct net_sp *sp = list_entry(envelopes, struct net_sp, envelopes);
    struct request *request = from;
    size_t head = hp_sp_head_size(sp->listener.is_ipc), before = head + request->n_words;
    uint8_t *room = append(request->conn, before + size); /* it isn't closed: the source would be gone */
    if (room) {
        hp_sp_write_head(sp->listener.is_ipc, room, request->n_words + size);
        memcpy(room + head, request->words, request->n_words);
        write(arg, room + before);
    }
    free_request(sp, request);
    return room != NULL;
}

static void drop_reply(struct net_envelopes *envelopes, void *from)
{
    free_request(list_entry(envelopes, struct net_sp, envelopes), from);
}

static void on_finished(struct net_envelopes *envelopes)
{
    made_room(list_entry(envelopes, struct net_sp, envelopes));
}

/* ---- receiving ---- */

enum step {
    STEP_DONE,  /* that many bytes were taken */
    STEP_MORE,  /* more must come first: so many in all, as far as is known */
    STEP_PAUSE, /* there is no room for it */
    STEP_BREAK  /* this is no client of ours */
};

static enum step take_greeting(struct conn *conn, const uint8_t *bytes, size_t len, size_t *n)
{
    struct net_sp *sp = conn->sp;
    *n = HP_SP_GREETING;
    if (len < HP_SP_GREETING)
        return STEP_MORE;
    if (!hp_sp_is_greeting(bytes, HP_SP_REQ))
        return STEP_BREAK;
    conn->greeted = true;
    list_remove(&sp->greeting, &conn->node);
    list_push_back(&sp->open, &conn->node);
    return STEP_DONE;
}

static enum step take_message(struct conn *conn, const uint8_t *body, size_t len)
{
    struct net_sp *sp = conn->sp;
    size_t n_words = hp_sp_words(body, len);
    struct request *request = n_words ? malloc(sizeof(*request) + n_words) : NULL;
    if (!request)
        return STEP_BREAK;
    request->conn = conn;
    request->n_words = (uint8_t)n_words;
    memcpy(request->words, body, n_words);
    request->node = (struct list_node){0};
    list_push_back(&sp->requests, &request->node);
    conn->refs++;
    unreserve(conn);
    net_envelopes_take(&sp->envelopes, &conn->source, request, body + n_words, len - n_words, conn->heard_ms);
    return STEP_DONE;
}

/* The greeting or the message that these bytes begin with. */
static enum step take(struct conn *conn, const uint8_t *bytes, size_t len, size_t *n)
{
    struct net_sp *sp = conn->sp;
    bool is_ipc = sp->listener.is_ipc;
    uint64_t body;
    if (!conn->greeted)
        return take_greeting(conn, bytes, len, n);
    size_t head = hp_sp_head_size(is_ipc);
    *n = head;
    if (len < head)
        return STEP_MORE;
    if (!hp_sp_read_head(is_ipc, bytes, &body) || body > message_max)
        return STEP_BREAK;
    *n = head + (size_t)body;
    if (body > BIG && !conn->reserved) {
        if (!has_room(sp, (size_t)body))
            return STEP_PAUSE;
        conn->reserved = (size_t)body;
        sp->reserved_bytes += conn->reserved;
    }
    if (len < *n)
        return STEP_MORE;
    if (!has_room(sp, 0)) /* what is reserved counts already */
        return STEP_PAUSE;
    return take_message(conn, bytes + head, (size_t)body);
}

/* Room for `size` bytes to come in. */
static bool grow_input(struct conn *conn, size_t size)
{
    if (size <= conn->in_size)
        return true;
    uint8_t *in = realloc(conn->in, size);
    if (!in)
        return false;
    conn->in = in;
    conn->in_size = size;
    return true;
}

/* What is left of these bytes, at `at`, is kept with the connection. */
static bool keep(struct conn *conn, const uint8_t *bytes, size_t at, size_t len)
{
    if (at == len) {
        forget_input(conn);
        return true;
    }
    if (bytes == conn->in) {
        memmove(conn->in, conn->in + at, len - at);
    } else {
        if (!grow_input(conn, len - at))
            return false;
        memcpy(conn->in, bytes + at, len - at);
    }
    conn->in_len = len - at;
    return true;
}

static void pause_conn(struct conn *conn)
{
    if (!list_linked(&conn->paused_node))
        list_push_back(&conn->sp->paused, &conn->paused_node);
    set_want(conn);
}

/* Everything whole in these bytes is taken, the rest kept. False: it was closed, or there is nothing more to be read now. */
static bool take_all(struct conn *conn, const uint8_t *bytes, size_t len)
{
    enum step step = STEP_MORE;
    size_t at = 0, n = 0;
    while (at < len && (step = take(conn, bytes + at, len - at, &n)) == STEP_DONE)
        at += n;
    if (step == STEP_BREAK || !keep(conn, bytes, at, len)) {
        close_conn(conn);
        return false;
    }
    if (step == STEP_PAUSE)
        pause_conn(conn);
    else if (conn->in_len)
        sweep_later(conn->sp);
    return step != STEP_PAUSE;
}

/* Where the next bytes go, and how many there may be. NULL: no memory. */
static uint8_t *input_room(struct conn *conn, size_t *room)
{
    uint64_t body;
    bool is_ipc = conn->sp->listener.is_ipc;
    size_t head = hp_sp_head_size(is_ipc), wanted = conn->in_len + SCRATCH;
    *room = SCRATCH;
    if (!conn->in_len)
        return conn->sp->scratch;
    if (wanted < conn->in_size * 2)
        wanted = conn->in_size * 2; /* a message of 16 MiB is moved a few times only */
    if (conn->greeted && conn->in_len >= head && hp_sp_read_head(is_ipc, conn->in, &body) && head + body < wanted)
        wanted = head + (size_t)body;
    if (!grow_input(conn, wanted))
        return NULL;
    *room = conn->in_size - conn->in_len;
    return conn->in + conn->in_len;
}

/* Reads what has come. */
static void read_conn(struct conn *conn)
{
    bool more = true;
    for (int round = 0; round < ROUNDS && more; round++) {
        size_t room;
        uint8_t *to = input_room(conn, &room);
        ssize_t n = to ? recv(conn->watch.fd, to, room, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            close_conn(conn);
            return;
        }
        conn->heard_ms = conn->sp->io->now_ms(conn->sp->io);
        more = (size_t)n == room;
        if (to == conn->sp->scratch)
            more &= take_all(conn, to, (size_t)n);
        else
            more &= take_all(conn, conn->in, conn->in_len + (size_t)n);
    }
}

static void on_ready(struct io_watch *watch, unsigned events)
{
    struct conn *conn = list_entry(watch, struct conn, watch);
    if (list_linked(&conn->paused_node) && events & (IO_HANGUP | IO_ERROR))
        close_conn(conn);
    if (!is_closed(conn) && events & IO_WRITE)
        flush_conn(conn);
    if (!is_closed(conn) && events & (IO_READ | IO_ERROR))
        read_conn(conn);
}

/* Paused connections go on, each once. */
static void on_resume(struct io_task *task)
{
    struct net_sp *sp = list_entry(task, struct net_sp, resume);
    for (size_t n = sp->paused.count; n && has_room(sp, 0); n--) {
        struct conn *conn = list_entry(list_pop_front(&sp->paused), struct conn, paused_node);
        conn->heard_ms = sp->io->now_ms(sp->io);
        take_all(conn, conn->in, conn->in_len);
        set_want(conn);
    }
}

/* ---- connections ---- */

static void on_accept(struct net_listener *listener, int fd)
{
    struct net_sp *sp = list_entry(listener, struct net_sp, listener);
    size_t n = sp->greeting.count + sp->open.count;
    struct conn *conn = NULL;
    if (n >= (size_t)sp->cfg.max_connections && !list_empty(&sp->greeting)) {
        close_conn(list_entry(list_first(&sp->greeting), struct conn, node));
        sp->refused++;
        n--;
    }
    if (n < (size_t)sp->cfg.max_connections)
        conn = calloc(1, sizeof(*conn));
    if (!conn) {
        close(fd);
        sp->refused++;
        return;
    }
    conn->sp = sp;
    conn->refs = 1;
    conn->watch = (struct io_watch){.fd = fd, .ready = on_ready};
    conn->heard_ms = sp->io->now_ms(sp->io);
    net_source_init(&conn->source);
    list_push_back(&sp->greeting, &conn->node);
    uint8_t greeting[HP_SP_GREETING];
    hp_sp_greet(greeting, HP_SP_REP);
    /* The buffer of a new connection has room for it. */
    if (send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(greeting)) {
        close_conn(conn);
        return;
    }
    set_want(conn);
    sweep_later(sp);
}

static void set_defaults(struct net_sp_config *cfg)
{
    cfg->max_envelopes = cfg->max_envelopes ? cfg->max_envelopes : 32768;
    cfg->max_bytes = cfg->max_bytes ? cfg->max_bytes : (size_t)256 << 20;
    cfg->max_connections = cfg->max_connections ? cfg->max_connections : 4096;
    cfg->reply_max = cfg->reply_max ? cfg->reply_max : HP_ENVELOPE_MAX;
    cfg->default_wait_ms = cfg->default_wait_ms ? cfg->default_wait_ms : 30000;
    cfg->stall_ms = cfg->stall_ms ? cfg->stall_ms : 30000;
    cfg->greeting_ms = cfg->greeting_ms ? cfg->greeting_ms : 10000;
}

struct net_sp *net_sp_listen(struct io *io, const char *url, const struct net_sp_config *cfg,
                             void (*on_call)(void *arg, struct hp_call *call), void *arg, char *error, size_t error_len)
{
    char text[128];
    struct net_sp *sp = calloc(1, sizeof(*sp));
    if (!sp) {
        snprintf(error, error_len, "cannot listen on %s: out of memory", url);
        return NULL;
    }
    sp->io = io;
    sp->cfg = cfg ? *cfg : (struct net_sp_config){0};
    set_defaults(&sp->cfg);
    list_init(&sp->greeting);
    list_init(&sp->open);
    list_init(&sp->paused);
    list_init(&sp->dirty);
    list_init(&sp->requests);
    list_init(&sp->dead);
    sp->flush.run = on_flush;
    sp->resume.run = on_resume;
    sp->bury.run = on_bury;
    sp->sweep.fire = on_sweep;
    net_envelopes_init(&sp->envelopes, io, sp->cfg.reply_max, sp->cfg.default_wait_ms);
    sp->envelopes.on_call = on_call;
    sp->envelopes.on_call_arg = arg;
    sp->envelopes.send = send_reply;
    sp->envelopes.drop = drop_reply;
    sp->envelopes.finished = on_finished;
    const char *why = net_listener_open(&sp->listener, io, url, on_accept, text, sizeof(text));
    if (why) {
        snprintf(error, error_len, "cannot listen on %s: %s", url, why);
        net_sp_free(sp);
        return NULL;
    }
    return sp;
}

const char *net_sp_url(const struct net_sp *sp)
{
    return sp->listener.url;
}

bool net_sp_idle(const struct net_sp *sp)
{
    return !sp->sending && !sp->envelopes.in_flight && sp->io->now_ms(sp->io) - sp->last_sent_ms >= LINGER_MS;
}

void net_sp_stats(const struct net_sp *sp, struct net_sp_stats *out)
{
    const struct net_envelopes *e = &sp->envelopes;
    *out = (struct net_sp_stats){.envelopes = e->n_envelopes,
                                 .calls = e->n_calls,
                                 .undecodable = e->n_undecodable,
                                 .dropped_replies = e->n_dropped,
                                 .in_flight = e->in_flight,
                                 .sending = sp->sending,
                                 .bytes = e->bytes + sp->sending_bytes + sp->reserved_bytes,
                                 .connections = (int)(sp->greeting.count + sp->open.count),
                                 .refused = sp->refused + sp->listener.turned_away};
}

static void close_all(struct list *list)
{
    struct list_node *node;
    while ((node = list_first(list)))
        close_conn(list_entry(node, struct conn, node));
}

void net_sp_free(struct net_sp *sp)
{
    struct list_node *node;
    if (!sp)
        return;
    net_listener_close(&sp->listener);
    net_envelopes_orphan(&sp->envelopes); /* their calls are not told: the program ends */
    close_all(&sp->greeting);
    close_all(&sp->open);
    while ((node = list_first(&sp->requests)))
        free_request(sp, list_entry(node, struct request, node));
    sp->io->timer_cancel(sp->io, &sp->sweep);
    sp->io->unpost(sp->io, &sp->flush);
    sp->io->unpost(sp->io, &sp->resume);
    sp->io->unpost(sp->io, &sp->bury);
    bury(sp);
    free(sp);
}
