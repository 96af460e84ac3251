/* sp_conn.c - see transport_sp.h: a connection's life, and its bytes. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/transport_sp.h"
#include "proto/c/sp.h"

enum {
    RECEIVE_MAX = 64 << 20,
    ID = 4,    /* bytes */
    ROUNDS = 4 /* reads in a row */
};

void sp_conn_init(struct sp_conn *conn, struct sp_transport *owner)
{
    conn->owner = owner;
    conn->fd = -1;
    conn->last = &conn->first;
    conn->until_ms = 0; /* at once */
}

/* ------------------------------------------------------------------------------------------------ sending */

static void pop(struct sp_conn *conn)
{
    struct sp_exchange *exchange = conn->first;

    conn->first = exchange->behind;
    if (!conn->first)
        conn->last = &conn->first;
    free(exchange->frame);
    exchange->frame = NULL;
    if (!exchange->owner)
        free(exchange);
}

/* How many bytes the socket took, 0 if none. If it is broken the thread will hear of it from the socket. */
static size_t put(struct sp_conn *conn, const struct msghdr *message)
{
    const ssize_t n = sendmsg(conn->fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n >= 0)
        return (size_t)n;
    if (errno != EAGAIN && errno != EINTR) {
        conn->broken = true;
        shutdown(conn->fd, SHUT_RDWR);
    }
    return 0;
}

/* Sends of the queue what the socket takes. */
static void flush(struct sp_conn *conn)
{
    while (conn->first && conn->state == SP_OPEN && !conn->broken) {
        struct sp_exchange *exchange = conn->first;
        struct iovec part = {exchange->frame + exchange->sent, exchange->len - exchange->sent};
        const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        const size_t n = put(conn, &message);
        if (n && !exchange->sent && exchange->owner) {
            exchange->until_ms = hfi_boot_ms() + exchange->reply_ms;
            sp_wake_at(conn->owner, exchange->until_ms);
        }
        exchange->sent += n;
        if (exchange->sent < exchange->len)
            break;
        pop(conn);
    }
    if (conn->state == SP_OPEN && !conn->broken)
        sp_want(conn, EPOLLIN | EPOLLRDHUP | (conn->first ? (uint32_t)EPOLLOUT : 0));
}

/* The rest of a request waits for its turn. */
static bool queue(struct sp_conn *conn, struct sp_exchange *exchange, const struct iovec parts[2], size_t sent)
{
    exchange->len = parts[0].iov_len + parts[1].iov_len;
    exchange->frame = malloc(exchange->len);
    if (!exchange->frame) {
        if (sent) { /* what follows would be taken for its rest */
            conn->broken = true;
            shutdown(conn->fd, SHUT_RDWR);
        }
        return false;
    }
    memcpy(exchange->frame, parts[0].iov_base, parts[0].iov_len);
    memcpy(exchange->frame + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    exchange->sent = sent;
    exchange->behind = NULL;
    *conn->last = exchange;
    conn->last = &exchange->behind;
    if (conn->state == SP_OPEN && !conn->broken)
        sp_want(conn, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
    return true;
}

bool sp_conn_send(struct sp_conn *conn, struct sp_exchange *exchange, const void *data, size_t len)
{
    const uint32_t id = htobe32(exchange->id);
    const size_t head_size = hp_sp_head_size(conn->address.is_ipc);
    uint8_t head[HP_SP_HEAD_MAX + ID];
    struct iovec parts[2] = {{head, head_size + ID}, {(void *)(uintptr_t)data, len}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t n = 0;

    hp_sp_write_head(conn->address.is_ipc, head, ID + len);
    memcpy(head + head_size, &id, ID);
    if (conn->state == SP_OPEN && !conn->broken && !conn->first)
        n = put(conn, &message);
    if (n)
        exchange->until_ms = hfi_boot_ms() + exchange->reply_ms;
    return n == parts[0].iov_len + len || queue(conn, exchange, parts, n);
}

/* ------------------------------------------------------------------------------------------------ losing */

static void drop_input(struct sp_conn *conn)
{
    free(conn->in);
    conn->in = NULL;
    conn->in_len = conn->in_size = 0;
}

/* What the lost connection had of its queue: nobody has seen it whole. */
static void drop_begun(struct sp_conn *conn, struct sp_exchange **ended)
{
    struct sp_exchange *exchange = conn->first;

    if (!exchange || !exchange->sent)
        return;
    if (exchange->owner)
        sp_end(exchange, HFI_NOT_SENT, ended);
    conn->first = exchange->behind;
    if (!conn->first)
        conn->last = &conn->first;
    if (exchange->owner)
        return;
    free(exchange->frame);
    free(exchange);
}

/* What waits in the queue, of which nothing was sent, waits for the next connection. */
static void lost(struct sp_conn *conn)
{
    struct sp_exchange *ended = NULL;

    pthread_mutex_lock(&conn->owner->mutex);
    drop_input(conn);
    if (conn->state == SP_OPEN) {
        sp_end_sent(conn, &ended);
        drop_begun(conn, &ended);
        sp_pause(conn);
    } else {
        sp_attempt_failed(conn);
    }
    pthread_mutex_unlock(&conn->owner->mutex);
    sp_tell(ended);
}

void sp_conn_close(struct sp_conn *conn)
{
    struct sp_exchange *ended = NULL;

    pthread_mutex_lock(&conn->owner->mutex);
    drop_input(conn);
    sp_end_sent(conn, &ended);
    drop_begun(conn, &ended);
    while (conn->first) {
        struct sp_exchange *exchange = conn->first;
        conn->first = exchange->behind;
        sp_end(exchange, HFI_NOT_SENT, &ended);
    }
    conn->last = &conn->first;
    sp_forget(conn);
    conn->state = SP_PAUSING;
    pthread_mutex_unlock(&conn->owner->mutex);
    sp_tell(ended);
}

/* ------------------------------------------------------------------------------------------------ reading */

/* How many bytes the message is long that these begin with; 0: that isn't known yet; -1: it is none of ours. */
static int64_t message_size(const struct sp_conn *conn, const uint8_t *bytes, size_t len)
{
    const size_t head = hp_sp_head_size(conn->address.is_ipc);
    uint64_t body;

    if (conn->state == SP_GREETING)
        return HP_SP_GREETING;
    if (len < head)
        return 0;
    if (!hp_sp_read_head(conn->address.is_ipc, bytes, &body) || body < ID || body > RECEIVE_MAX)
        return -1;
    return (int64_t)(head + body);
}

static bool take_greeting(struct sp_conn *conn, const uint8_t *bytes)
{
    if (!hp_sp_is_greeting(bytes, HP_SP_REP))
        return false;
    pthread_mutex_lock(&conn->owner->mutex);
    sp_greeted(conn);
    flush(conn);
    pthread_mutex_unlock(&conn->owner->mutex);
    return true;
}

static bool take_message(struct sp_conn *conn, const uint8_t *bytes, size_t size)
{
    const size_t head = hp_sp_head_size(conn->address.is_ipc);
    uint32_t id;

    if (conn->state == SP_GREETING)
        return take_greeting(conn, bytes);
    memcpy(&id, bytes + head, ID);
    sp_answered(conn, be32toh(id), bytes + head + ID, size - head - ID);
    return true;
}

/* Takes all that is whole, and keeps the rest. False: the connection is no good. */
static bool take_all(struct sp_conn *conn, const uint8_t *bytes, size_t len)
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
    if (bytes == conn->in) {
        memmove(conn->in, conn->in + at, len - at);
    } else {
        conn->in = malloc(SP_SCRATCH);
        if (!conn->in)
            return false;
        conn->in_size = SP_SCRATCH;
        memcpy(conn->in, bytes + at, len - at);
    }
    conn->in_len = len - at;
    return true;
}

/* Where the next bytes go: memory grows as they arrive. False: there is none. */
static bool room(struct sp_conn *conn, uint8_t **to, size_t *size)
{
    *to = conn->owner->scratch;
    *size = SP_SCRATCH;
    if (!conn->in_len)
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

static void read_conn(struct sp_conn *conn)
{
    bool more = true;

    for (int round = 0; round < ROUNDS && more; round++) {
        size_t size;
        uint8_t *to;
        const ssize_t n = room(conn, &to, &size) ? recv(conn->fd, to, size, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        more = n > 0 && (size_t)n == size;
        if (n <= 0 || !take_all(conn, conn->in_len ? conn->in : to, conn->in_len + (size_t)n)) {
            lost(conn);
            return;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ events */

void sp_conn_ready(struct sp_conn *conn, uint32_t events)
{
    switch (conn->state) {
    case SP_PAUSING:
        break;
    case SP_RESOLVING:
    case SP_CONNECTING:
        pthread_mutex_lock(&conn->owner->mutex);
        if (conn->state == SP_RESOLVING)
            sp_resolved(conn);
        else
            sp_connected(conn);
        pthread_mutex_unlock(&conn->owner->mutex);
        break;
    case SP_GREETING:
    case SP_OPEN:
        if (events & EPOLLOUT) {
            pthread_mutex_lock(&conn->owner->mutex);
            flush(conn);
            pthread_mutex_unlock(&conn->owner->mutex);
        }
        if (events & ~(uint32_t)EPOLLOUT)
            read_conn(conn);
        break;
    }
}

void sp_conn_due(struct sp_conn *conn, int64_t now_ms)
{
    pthread_mutex_lock(&conn->owner->mutex);
    if (conn->until_ms <= now_ms) {
        if (conn->state == SP_PAUSING) {
            sp_dial(conn);
        } else {
            drop_input(conn);
            sp_attempt_failed(conn);
        }
    }
    pthread_mutex_unlock(&conn->owner->mutex);
}
