/*
 * grpc_conn.c - see grpc.h: gRPC as a protocol of the transport (transport.h): the connection, its bytes, its times.
 *
 * Greeting is what TLS needs, if there is TLS, and then the SETTINGS of the server, which each of them sends first: so nothing is
 * sent to what isn't HTTP/2, and it is known how many calls may be under way.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/grpc.h"

enum {
    ROUNDS = 4, /* reads in a row */
    RECORD = 16 << 10,
    KEPT = 256 << 10 /* of what was sent, before the rest is moved to the front */
};

static void release_link(struct tr_conn *conn, bool orderly)
{
    struct grpc_link *link = conn->link;

    if (!link)
        return;
    nghttp2_session_del(link->session);
    grpc_tls_end(link->ssl, orderly);
    hp_buf_release(&link->out);
    free(link);
    conn->link = NULL;
}

/* ------------------------------------------------------------------------------------------------ bytes */

/* How many were taken; 0 = none at present; -1 = it is broken. */
static ssize_t put(struct grpc_link *link, const uint8_t *data, size_t len)
{
    ssize_t n;

    if (link->ssl)
        return grpc_tls_write(link->ssl, data, len);
    n = send(link->conn->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* That many have left. */
static void taken(struct grpc_link *link, size_t n)
{
    struct hp_buf *out = &link->out;

    link->out_sent += n;
    link->sent += n;
    if (link->out_sent < out->len && link->out_sent < KEPT)
        return;
    if (link->out_sent < out->len)
        memmove(out->data, out->data + link->out_sent, out->len - link->out_sent);
    out->len -= link->out_sent;
    link->out_sent = 0;
    if (out->len == 0 && out->cap > KEPT)
        hp_buf_release(out);
}

/* Sends what the socket takes. False: the connection is no good. */
static bool flush(struct tr_conn *conn)
{
    struct grpc_link *link = conn->link;

    while (link->session) {
        if (!grpc_make(link))
            return false;
        if (link->out.len == link->out_sent)
            break;
        const ssize_t n = put(link, link->out.data + link->out_sent, link->out.len - link->out_sent);
        if (n < 0)
            return false;
        if (n == 0)
            break;
        taken(link, (size_t)n);
    }
    return tr_want(conn, EPOLLIN | EPOLLRDHUP | (link->out.len > link->out_sent ? (uint32_t)EPOLLOUT : 0));
}

/* 0: none at present; -1: no more, and tr_say has said so. */
static ssize_t get(struct grpc_link *link, uint8_t *data, size_t size)
{
    struct tr_conn *conn = link->conn;
    size_t have = 0;
    ssize_t n;

    if (!link->ssl) {
        n = recv(conn->fd, data, size, MSG_DONTWAIT);
        if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
            return n > 0 ? n : 0;
        tr_say(conn, "the server closed the connection%s%s%s", n < 0 ? ": " : "", n < 0 ? strerror(errno) : "",
               conn->state == TR_GREETING ? "; if it wants TLS, try grpcs://" : "");
        return -1;
    }
    do { /* a record each time */
        n = grpc_tls_read(link->ssl, conn, data + have, size - have);
        have += n > 0 ? (size_t)n : 0;
    } while (n > 0 && size - have >= RECORD);
    return have ? (ssize_t)have : n;
}

/* The first bytes of an HTTP/2 server are those of a SETTINGS frame (RFC 9113, 3.4). */
static bool speaks_http2(struct tr_conn *conn, const uint8_t *data, size_t len)
{
    if (len >= 5 && !memcmp(data, "HTTP/", 5))
        tr_say(conn, "the server speaks HTTP/1 only, not HTTP/2");
    else if (len >= 3 && !memcmp(data, "\0SP", 3))
        tr_say(conn, "the server speaks nng's protocol: try tcp://");
    else if (len >= 3 && data[0] == 0x15 && data[1] == 3)
        tr_say(conn, "the server speaks TLS: try grpcs://");
    else if (len >= 4 && data[3] != NGHTTP2_SETTINGS)
        tr_say(conn, "the server doesn't speak HTTP/2");
    else
        return true;
    return false;
}

/* False: the connection is no good. */
static bool receive(struct tr_conn *conn)
{
    struct grpc_link *link = conn->link;
    uint8_t *scratch = conn->owner->scratch;

    for (int round = 0; round < ROUNDS; round++) {
        const ssize_t n = get(link, scratch, TR_SCRATCH);
        if (n <= 0)
            return n == 0;
        if (!link->begun && !speaks_http2(conn, scratch, (size_t)n))
            return false;
        link->begun = true;
        link->heard_ms = hfi_boot_ms();
        link->pinged_ms = 0;
        const ssize_t read = nghttp2_session_mem_recv(link->session, scratch, (size_t)n);
        if (read < 0) {
            tr_say(conn, "HTTP/2 fails: %s", nghttp2_strerror((int)read));
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ the connection's life */

/* TLS goes on, and HTTP/2 begins once it is through. False: it is no good. */
static bool shake(struct tr_conn *conn)
{
    struct grpc_link *link = conn->link;

    if (link->session)
        return true;
    if (link->ssl) {
        switch (grpc_tls_shake(link->ssl, conn)) {
        case GRPC_IO_DONE:
            break;
        case GRPC_IO_AGAIN:
            return true;
        case GRPC_IO_LOST:
            return false;
        }
    }
    return grpc_session_new(link);
}

/* What follows from what was read. */
static void advance(struct tr_conn *conn)
{
    struct grpc_link *link = conn->link;

    if (conn->state == TR_GREETING && link->settled)
        tr_greeted(conn);
    if (conn->state == TR_OPEN && link->going) {
        const int64_t end = hfi_boot_ms() + conn->owner->going_ms;
        tr_say(conn, "the server takes no more calls");
        if (!link->told_going)
            conn->until_ms = end;
        link->told_going = true;
        tr_wake_at(conn->owner, conn->until_ms);
    }
    grpc_pump(link);
}

/* False: the session has come to its end, by either side. */
static bool goes_on(struct tr_conn *conn)
{
    const struct grpc_link *link = conn->link;

    if (!link->session || nghttp2_session_want_read(link->session) || nghttp2_session_want_write(link->session))
        return true;
    tr_say(conn, link->going ? "the server takes no more calls" : "the server doesn't speak HTTP/2 as it should");
    return false;
}

static bool grpc_greet(struct tr_conn *conn)
{
    struct grpc_link *link = calloc(1, sizeof(*link));

    conn->link = link;
    if (link) {
        link->conn = conn;
        link->ssl = conn->address.kind == TR_GRPCS ? grpc_tls_start(conn->owner->tls, conn) : NULL;
    }
    if (!link || (conn->address.kind == TR_GRPCS && !link->ssl)) {
        tr_say(conn, "no memory");
        return false;
    }
    return shake(conn) && flush(conn);
}

static void grpc_ready(struct tr_conn *conn, uint32_t events)
{
    bool good;

    (void)events; /* reading and writing cost little if there is nothing to do */
    tr_lock(conn);
    good = shake(conn) && (!conn->link->session || receive(conn));
    if (good)
        advance(conn);
    if (!good || !flush(conn) || !goes_on(conn))
        tr_lost(conn);
    tr_unlock(conn);
}

static void grpc_drop(struct tr_conn *conn, bool orderly)
{
    struct grpc_link *link = conn->link;

    if (!link)
        return;
    grpc_end_open(link);
    orderly = orderly && link->session && !conn->broken;
    if (orderly) {
        nghttp2_session_terminate_session(link->session, NGHTTP2_NO_ERROR);
        orderly = flush(conn) && link->out.len == link->out_sent;
    }
    release_link(conn, orderly);
}

/* With calls under way, silence is broken by a PING; without, nobody cares. */
static void grpc_due(struct tr_conn *conn, int64_t now_ms)
{
    struct grpc_link *link = conn->link;
    bool good = !link->going;

    conn->until_ms = HFI_NEVER;
    if (good && link->pinged_ms && link->pinged_ms + conn->owner->ping_ms <= now_ms) {
        tr_say(conn, "the server says nothing any more");
        good = false;
    } else if (good && link->n_open && link->heard_ms + conn->owner->silence_ms <= now_ms) {
        if (!link->pinged_ms) {
            nghttp2_submit_ping(link->session, NGHTTP2_FLAG_NONE, NULL);
            link->pinged_ms = now_ms;
            good = flush(conn);
        }
        conn->until_ms = link->pinged_ms + conn->owner->ping_ms;
    } else if (good && link->n_open) {
        conn->until_ms = link->heard_ms + conn->owner->silence_ms;
    }
    if (!good)
        tr_lost(conn);
}

/* ------------------------------------------------------------------------------------------------ exchanges */

static void grpc_flush(struct tr_conn *conn)
{
    if (conn->state == TR_OPEN && !conn->broken && !flush(conn))
        tr_break(conn);
}

static bool grpc_begin(struct tr_exchange *exchange, const void *data, size_t len)
{
    struct tr_conn *conn = exchange->conn;

    (void)data; /* taken apart before */
    (void)len;
    tr_queue(exchange);
    if (conn->state == TR_OPEN && !conn->broken) {
        grpc_pump(conn->link);
        grpc_flush(conn);
    }
    return true;
}

static void grpc_expire(struct tr_exchange *exchange)
{
    if (((struct grpc_exchange *)exchange)->begun) {
        grpc_cancel((struct grpc_exchange *)exchange);
        return;
    }
    tr_unqueue(exchange);
    tr_end(exchange, HFI_NOT_SENT);
}

const struct tr_protocol grpc_protocol = {.prepare = grpc_prepare,
                                          .release = grpc_release,
                                          .begin = grpc_begin,
                                          .expire = grpc_expire,
                                          .flush = grpc_flush,
                                          .greet = grpc_greet,
                                          .ready = grpc_ready,
                                          .due = grpc_due,
                                          .drop = grpc_drop};
