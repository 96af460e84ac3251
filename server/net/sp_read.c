/*
 * sp_read.c - see sp_conn.h: what arrives on a connection.
 *
 * All bytes are read into one buffer that the connections share; only what belongs to a message that hasn't come in whole is
 * kept with its connection, in memory that grows as the bytes arrive. A connection is paused, that is, not read, when there is
 * no room for its next message: for a small one that is seen when it is there, for a big one (of more than BIG) when its length
 * is, and then the whole length is reserved, so that big messages don't block each other half-way. Paused ones go on in order
 * when there is room.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/sp_conn.h"
#include "proto/c/sp.h"
#include "proto/c/wire.h"

enum {
    BIG = SP_SCRATCH, /* messages longer than this reserve room */
    ROUNDS = 4        /* reads of one connection in a turn */
};

static const size_t message_max = (size_t)HP_ENVELOPE_MAX + 4; /* the request's id comes on top */

enum step {
    STEP_DONE,  /* that many bytes were taken */
    STEP_MORE,  /* more must come first: so many in all, as far as is known */
    STEP_PAUSE, /* there is no room for it */
    STEP_BREAK  /* this is no client of ours */
};

static enum step take_greeting(struct sp_conn *conn, const uint8_t *bytes, size_t len, size_t *n)
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

static enum step take_message(struct sp_conn *conn, const uint8_t *body, size_t len)
{
    struct net_sp *sp = conn->sp;
    size_t n_words = hp_sp_words(body, len);
    struct sp_request *request = n_words ? malloc(sizeof(*request) + n_words) : NULL;
    if (!request)
        return STEP_BREAK;
    request->conn = conn;
    request->n_words = (uint8_t)n_words;
    memcpy(request->words, body, n_words);
    request->node = (struct list_node){0};
    list_push_back(&sp->requests, &request->node);
    conn->refs++;
    sp_unreserve(conn);
    net_envelopes_take(&sp->envelopes, &conn->source, request, body + n_words, len - n_words, conn->heard_ms);
    return STEP_DONE;
}

/* The greeting or the message that these bytes begin with. */
static enum step take(struct sp_conn *conn, const uint8_t *bytes, size_t len, size_t *n)
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
        if (!sp_has_room(sp, (size_t)body))
            return STEP_PAUSE;
        conn->reserved = (size_t)body;
        sp->reserved_bytes += conn->reserved;
    }
    if (len < *n)
        return STEP_MORE;
    if (!sp_has_room(sp, 0)) /* what is reserved counts already */
        return STEP_PAUSE;
    return take_message(conn, bytes + head, (size_t)body);
}

/* Room for `size` bytes to come in. */
static bool grow_input(struct sp_conn *conn, size_t size)
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
static bool keep(struct sp_conn *conn, const uint8_t *bytes, size_t at, size_t len)
{
    if (at == len) {
        sp_forget_input(conn);
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

static void pause_conn(struct sp_conn *conn)
{
    if (!list_linked(&conn->paused_node))
        list_push_back(&conn->sp->paused, &conn->paused_node);
    sp_set_want(conn);
}

/* Everything whole in these bytes is taken, the rest kept. False: it was closed, or there is nothing more to be read now. */
static bool take_all(struct sp_conn *conn, const uint8_t *bytes, size_t len)
{
    enum step step = STEP_MORE;
    size_t at = 0, n = 0;
    while (at < len && (step = take(conn, bytes + at, len - at, &n)) == STEP_DONE)
        at += n;
    if (step == STEP_BREAK || !keep(conn, bytes, at, len)) {
        sp_close(conn);
        return false;
    }
    if (step == STEP_PAUSE)
        pause_conn(conn);
    else if (conn->in_len)
        sp_sweep_later(conn->sp);
    return step != STEP_PAUSE;
}

/* Where the next bytes go, and how many there may be. NULL: no memory. */
static uint8_t *input_room(struct sp_conn *conn, size_t *room)
{
    uint64_t body;
    bool is_ipc = conn->sp->listener.is_ipc;
    size_t head = hp_sp_head_size(is_ipc), wanted = conn->in_len + SP_SCRATCH;
    *room = SP_SCRATCH;
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
static void read_conn(struct sp_conn *conn)
{
    bool more = true;
    for (int round = 0; round < ROUNDS && more; round++) {
        size_t room;
        uint8_t *to = input_room(conn, &room);
        ssize_t n = to ? recv(conn->watch.fd, to, room, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            sp_close(conn);
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

void sp_on_ready(struct io_watch *watch, unsigned events)
{
    struct sp_conn *conn = list_entry(watch, struct sp_conn, watch);
    if (list_linked(&conn->paused_node) && events & (IO_HANGUP | IO_ERROR))
        sp_close(conn);
    if (!sp_is_closed(conn) && events & IO_WRITE)
        sp_flush(conn);
    if (!sp_is_closed(conn) && events & (IO_READ | IO_ERROR))
        read_conn(conn);
}

void sp_on_resume(struct io_task *task)
{
    struct net_sp *sp = list_entry(task, struct net_sp, resume);
    for (size_t n = sp->paused.count; n && sp_has_room(sp, 0); n--) {
        struct sp_conn *conn = list_entry(list_pop_front(&sp->paused), struct sp_conn, paused_node);
        conn->heard_ms = sp->io->now_ms(sp->io);
        take_all(conn, conn->in, conn->in_len);
        sp_set_want(conn);
    }
}
