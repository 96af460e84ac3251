/*
 * sp_conn.c - the protocol of nng's REQ sockets (proto/c/sp.h) on a connection: see transport.h.
 *
 * It is read without the lock: only the transport's thread does, and a sender doesn't touch what was read.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/transport.h"
#include "proto/c/sp.h"

enum {
    RECEIVE_MAX = 64 << 20,
    ID = 4,    /* bytes */
    ROUNDS = 4 /* reads in a row */
};

struct sp_exchange {
    struct tr_exchange base; /* first. In the queue until all of it was sent */
    uint8_t *frame;          /* while it is there */
    size_t len, sent;
};

static struct sp_exchange *front(const struct tr_conn *conn)
{
    return (struct sp_exchange *)conn->first;
}

static struct tr_exchange *sp_prepare(const void *data, size_t len)
{
    (void)data; /* copied only if the socket doesn't take it */
    (void)len;
    struct sp_exchange *exchange = calloc(1, sizeof(*exchange));
    return exchange ? &exchange->base : NULL;
}

static void sp_release(struct tr_exchange *exchange)
{
    free(((struct sp_exchange *)exchange)->frame);
    free(exchange);
}

/* ------------------------------------------------------------------------------------------------ sending */

static void pop(struct tr_conn *conn)
{
    struct sp_exchange *exchange = front(conn);

    conn->first = exchange->base.behind;
    if (!conn->first)
        conn->last = &conn->first;
    exchange->base.queued = false;
    free(exchange->frame);
    exchange->frame = NULL;
    if (!exchange->base.owner)
        free(exchange);
}

/* How many bytes the socket took, 0 if none. If it is broken the thread will hear of it from the socket. */
static size_t put(struct tr_conn *conn, const struct msghdr *message)
{
    const ssize_t n = sendmsg(conn->fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n >= 0)
        return (size_t)n;
    if (errno != EAGAIN && errno != EINTR)
        tr_break(conn);
    return 0;
}

/* Sends of the queue what the socket takes. */
static void flush(struct tr_conn *conn)
{
    while (conn->first && conn->state == TR_OPEN && !conn->broken) {
        struct sp_exchange *exchange = front(conn);
        struct iovec part = {exchange->frame + exchange->sent, exchange->len - exchange->sent};
        const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        const size_t n = put(conn, &message);
        if (n && !exchange->sent && exchange->base.owner) {
            exchange->base.until_ms = hfi_boot_ms() + exchange->base.reply_ms;
            tr_wake_at(conn->owner, exchange->base.until_ms);
        }
        exchange->sent += n;
        if (exchange->sent < exchange->len)
            break;
        pop(conn);
    }
    if (conn->state == TR_OPEN && !conn->broken)
        tr_want(conn, EPOLLIN | EPOLLRDHUP | (conn->first ? (uint32_t)EPOLLOUT : 0));
}

/* The rest of a request waits for its turn. */
static bool queue(struct tr_conn *conn, struct sp_exchange *exchange, const struct iovec parts[2], size_t sent)
{
    exchange->len = parts[0].iov_len + parts[1].iov_len;
    exchange->frame = malloc(exchange->len);
    if (!exchange->frame) {
        if (sent) /* what follows would be taken for its rest */
            tr_break(conn);
        return false;
    }
    memcpy(exchange->frame, parts[0].iov_base, parts[0].iov_len);
    memcpy(exchange->frame + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    exchange->sent = sent;
    tr_queue(&exchange->base);
    if (conn->state == TR_OPEN && !conn->broken)
        tr_want(conn, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
    return true;
}

static bool sp_begin(struct tr_exchange *exchange, const void *data, size_t len)
{
    struct tr_conn *conn = exchange->conn;
    const uint32_t id = htobe32(exchange->id);
    const size_t head_size = hp_sp_head_size(conn->address.kind == TR_IPC);
    uint8_t head[HP_SP_HEAD_MAX + ID];
    struct iovec parts[2] = {{head, head_size + ID}, {(void *)(uintptr_t)data, len}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t n = 0;

    hp_sp_write_head(conn->address.kind == TR_IPC, head, ID + len);
    memcpy(head + head_size, &id, ID);
    if (conn->state == TR_OPEN && !conn->broken && !conn->first)
        n = put(conn, &message);
    if (n)
        exchange->until_ms = hfi_boot_ms() + exchange->reply_ms;
    return n == parts[0].iov_len + len || queue(conn, (struct sp_exchange *)exchange, parts, n);
}

/* ------------------------------------------------------------------------------------------------ losing */

static void drop_input(struct tr_conn *conn)
{
    free(conn->in);
    conn->in = NULL;
    conn->in_len = conn->in_size = 0;
}

/* Those that were sent whole will have no answer. */
static void end_sent(struct tr_conn *conn)
{
    struct tr_transport *t = conn->owner;

    for (size_t i = 0; i < TR_BUCKETS; i++) {
        for (struct tr_exchange *exchange = t->buckets[i], *next; exchange; exchange = next) {
            next = exchange->next;
            if (exchange->conn == conn && !exchange->queued)
                tr_end(exchange, HFI_NO_ANSWER);
        }
    }
}

/* What the lost connection had of its queue: nobody has seen it whole. */
static void drop_begun(struct tr_conn *conn)
{
    struct sp_exchange *exchange = front(conn);

    if (!exchange || !exchange->sent)
        return;
    if (exchange->base.owner) {
        tr_unqueue(&exchange->base);
        tr_end(&exchange->base, HFI_NOT_SENT);
    } else {
        pop(conn);
    }
}

static void sp_drop(struct tr_conn *conn, bool orderly)
{
    (void)orderly; /* there is no word for it */
    drop_input(conn);
    end_sent(conn);
    drop_begun(conn);
}

/* What is partly sent stays in its queue, since what follows it must begin a message. */
static void sp_expire(struct tr_exchange *base)
{
    struct sp_exchange *exchange = (struct sp_exchange *)base, *rest;

    if (!base->queued) {
        tr_end(base, HFI_NO_ANSWER);
        return;
    }
    if (!exchange->sent) {
        tr_unqueue(base);
        tr_end(base, HFI_NOT_SENT);
        return;
    }
    rest = malloc(sizeof(*rest));
    if (!rest)
        return; /* next time */
    *rest = *exchange;
    rest->base.owner = NULL;
    base->conn->first = &rest->base;
    if (!rest->base.behind)
        base->conn->last = &rest->base.behind;
    exchange->frame = NULL;
    tr_end(base, HFI_NO_ANSWER);
}

static void lost(struct tr_conn *conn)
{
    tr_lock(conn);
    tr_say(conn, conn->state == TR_OPEN ? "the connection was lost" : "it doesn't speak nng's protocol: try grpc:// or grpcs://");
    tr_lost(conn);
    tr_unlock(conn);
}

/* ------------------------------------------------------------------------------------------------ reading */

/* How many bytes the message is long that these begin with; 0: that isn't known yet; -1: it is none of ours. */
static int64_t message_size(const struct tr_conn *conn, const uint8_t *bytes, size_t len)
{
    const size_t head = hp_sp_head_size(conn->address.kind == TR_IPC);
    uint64_t body;

    if (conn->state == TR_GREETING)
        return HP_SP_GREETING;
    if (len < head)
        return 0;
    if (!hp_sp_read_head(conn->address.kind == TR_IPC, bytes, &body) || body < ID || body > RECEIVE_MAX)
        return -1;
    return (int64_t)(head + body);
}

static bool take_greeting(struct tr_conn *conn, const uint8_t *bytes)
{
    if (!hp_sp_is_greeting(bytes, HP_SP_REP))
        return false;
    pthread_mutex_lock(&conn->owner->mutex);
    tr_greeted(conn);
    flush(conn);
    pthread_mutex_unlock(&conn->owner->mutex);
    return true;
}

static bool take_message(struct tr_conn *conn, const uint8_t *bytes, size_t size)
{
    const size_t head = hp_sp_head_size(conn->address.kind == TR_IPC);
    uint32_t id;

    if (conn->state == TR_GREETING)
        return take_greeting(conn, bytes);
    memcpy(&id, bytes + head, ID);
    tr_answered(conn, be32toh(id), bytes + head + ID, size - head - ID);
    return true;
}

/* Takes all that is whole, and keeps the rest. False: the connection is no good. */
static bool take_all(struct tr_conn *conn, const uint8_t *bytes, size_t len)
{
    size_t at = 0;

    for (;;) {
        const int64_t size = message_size(conn, bytes + at, len - at);
        if (size < 0)
            return false;
        if (size == 0 || (size_t)size > len - at)
            break;
        if (!take_message(conn, bytes + at, (size_t)size))
            return false;
        at += (size_t)size;
    }
    if (at == len) {
        drop_input(conn);
        return true;
    }
    if (conn->in && bytes == conn->in) {
        memmove(conn->in, conn->in + at, len - at);
    } else {
        conn->in = malloc(TR_SCRATCH);
        if (!conn->in)
            return false;
        conn->in_size = TR_SCRATCH;
        memcpy(conn->in, bytes + at, len - at);
    }
    conn->in_len = len - at;
    return true;
}

/* Where the next bytes go: memory grows as they arrive. False: there is none. */
static bool room(struct tr_conn *conn, uint8_t **to, size_t *size)
{
    *to = conn->owner->scratch;
    *size = TR_SCRATCH;
    if (!conn->in)
        return true;
    if (conn->in_len == conn->in_size) {
        uint8_t *more = realloc(conn->in, conn->in_size * 2);
        if (!more)
            return false;
        conn->in = more;
        conn->in_size *= 2;
    }
    *to = conn->in + conn->in_len;
    *size = conn->in_size - conn->in_len;
    return true;
}

static void read_conn(struct tr_conn *conn)
{
    bool more = true;

    for (int round = 0; round < ROUNDS && more; round++) {
        size_t size;
        uint8_t *to;
        const ssize_t n = room(conn, &to, &size) ? recv(conn->fd, to, size, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        more = n > 0 && (size_t)n == size;
        if (n <= 0 || !take_all(conn, conn->in ? conn->in : to, conn->in_len + (size_t)n)) {
            lost(conn);
            return;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ events */

static bool sp_greet(struct tr_conn *conn)
{
    uint8_t greeting[HP_SP_GREETING];

    hp_sp_greet(greeting, HP_SP_REQ);
    /* The buffer of a new connection has room for it. */
    if (send(conn->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) == sizeof(greeting) && tr_want(conn, EPOLLIN | EPOLLRDHUP))
        return true;
    tr_say(conn, "%s", strerror(errno));
    return false;
}

static void sp_ready(struct tr_conn *conn, uint32_t events)
{
    if (events & EPOLLOUT) {
        tr_lock(conn);
        flush(conn);
        tr_unlock(conn);
    }
    if (events & ~(uint32_t)EPOLLOUT)
        read_conn(conn);
}

const struct tr_protocol sp_protocol = {.prepare = sp_prepare,
                                        .release = sp_release,
                                        .begin = sp_begin,
                                        .expire = sp_expire,
                                        .greet = sp_greet,
                                        .ready = sp_ready,
                                        .drop = sp_drop};
