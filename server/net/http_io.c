/*
 * http_io.c - see http_conn.h: bytes that come, through TLS or not, to the version that takes them; and bytes that go.
 *
 * What is to be sent is gathered for a whole turn of the loop and leaves in one system call; what the kernel doesn't take is kept
 * with the connection, and until it has left nothing more is asked of HTTP/2's session.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "net/http_conn.h"
#include "net/tls.h"

enum {
    A_TURN = 16 << 10,        /* bytes that one connection may bring in a turn, */
    LITTLE = 4 << 10,         /* or without credit; */
    READS = 16,               /* so often in a turn of one that is favoured: many may wait beside it, and their turns take time */
    SENDS = 4,                /* gathered buffers of one connection in a turn */
    KEPT = 4 << 10,           /* of a buffer's memory, once it is empty */
    PIPELINED = 16 << 10,     /* bytes behind a request in progress, beyond which no more are read */
    LINGER_BYTES = 256 << 10, /* that are thrown away */
    HELD_MIN = 128 << 10,     /* may be held for any connection */
    SESSION_FREE = 64 << 10   /* of an HTTP/2 session's memory, which counts for nothing */
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* ---- what is waited for ---- */

size_t http_unsent(const struct http_conn *conn)
{
    return conn->out.len - conn->out_at + (conn->tls ? net_tls_out(conn->tls)->len : 0);
}

/* What else is held for it beyond what each connection may have. */
static size_t excess(const struct http_conn *conn)
{
    return conn->in.cap + (conn->session_bytes > SESSION_FREE ? conn->session_bytes - SESSION_FREE : 0);
}

static void recount(struct http_conn *conn)
{
    size_t now = http_unsent(conn), more = excess(conn);
    http_count(conn, (ssize_t)(now + more) - (ssize_t)(conn->counted + conn->excess));
    conn->excess = more;
    if (!conn->counted && now)
        conn->sent_ms = http_now(conn->http);
    conn->http->unsent += now - conn->counted;
    conn->counted = now;
}

static bool is_paused(const struct http_conn *conn)
{
    const struct list_node *first = list_first(&conn->open);
    if (conn->state == HTTP_2)
        return h2_is_overfull(conn);
    return conn->state == HTTP_1 && first &&
           (conn->in.len - conn->in_at >= PIPELINED || http_x_is_full(list_entry(first, struct http_x, node)));
}

void http_set_want(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    if (conn->state == HTTP_CLOSED)
        return;
    unsigned want = (conn->ended ? 0 : is_paused(conn) ? IO_HANGUP : IO_READ) | (conn->counted || conn->more ? IO_WRITE : 0);
    if (conn->watch.watched && conn->watch.want == want)
        return;
    conn->watch.want = want;
    if (http->io->watch(http->io, &conn->watch))
        http_doom(conn);
}

/*
 * It has no credit, much has come and is held, and some of it for this one: the rest of what it brings waits in the kernel, unless
 * it is one of those who go on. Answers don't count: for them to leave, HTTP/2 has to be read.
 */
static bool is_held_back(const struct http_conn *conn)
{
    const struct net_http *http = conn->http;
    return !conn->favoured_ms && conn->credit_ns <= 0 && http_received(conn) > HELD_MIN &&
           http_received_all(http) > http->cfg.max_bytes / 8;
}

/* For what comes next. `again`: it wants another turn. */
static void look_out(struct http_conn *conn, bool again)
{
    if (conn->favoured_ms && (!conn->n_receiving || conn->credit_ns > 0 || http_received(conn) <= HELD_MIN))
        http_share_unfavour(conn);
    if (again || (is_held_back(conn) && !conn->ended))
        http_share_wait(conn, !again);
    else
        http_set_want(conn);
}

/* ---- bytes that go ---- */

/* How many the kernel took, or -1: it is broken. */
static ssize_t send_some(struct http_conn *conn, const uint8_t *data, size_t len)
{
    struct net_http *http = conn->http;
    ssize_t n;
    do
        n = send(conn->watch.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? 0 : -1;
    conn->sent_ms = http->last_sent_ms = http_now(http);
    return n;
}

static void drop_sent(struct hp_buf *buf, size_t *at)
{
    if (*at < buf->len)
        return;
    *at = 0;
    if (buf->cap > KEPT)
        hp_buf_release(buf);
    else
        hp_buf_reset(buf);
}

/* As much of what has been given to be sent has left as the kernel took. False: it is broken. */
static bool push_out(struct http_conn *conn)
{
    while (conn->out.len > conn->out_at) {
        ssize_t n = send_some(conn, conn->out.data + conn->out_at, conn->out.len - conn->out_at);
        if (n < 0)
            return false;
        conn->out_at += (size_t)n;
        if (!n)
            break;
    }
    drop_sent(&conn->out, &conn->out_at);
    return !conn->out.failed;
}

static bool push_tls(struct http_conn *conn)
{
    if (conn->out.len && net_tls_established(conn->tls)) {
        bool written = net_tls_write(conn->tls, conn->out.data, conn->out.len);
        conn->out_at = conn->out.len;
        drop_sent(&conn->out, &conn->out_at);
        if (!written)
            return false;
    }
    const struct hp_buf *out;
    while ((out = net_tls_out(conn->tls))->len) {
        ssize_t n = send_some(conn, out->data, out->len);
        if (n < 0)
            return false;
        if (!n)
            break;
        net_tls_sent(conn->tls, (size_t)n);
    }
    return !conn->out.failed;
}

static bool push(struct http_conn *conn)
{
    bool good = conn->tls ? push_tls(conn) : push_out(conn);
    recount(conn);
    if (!good)
        http_doom(conn);
    return good;
}

bool http_emit(struct http_conn *conn, const uint8_t *data, size_t len)
{
    if (!conn->tls && conn->out.len == conn->out_at) {
        ssize_t n = send_some(conn, data, len);
        if (n < 0) {
            http_doom(conn);
            return false;
        }
        data += n;
        len -= (size_t)n;
    }
    hp_buf_add(&conn->out, data, len);
    if (conn->out.failed)
        http_doom(conn);
    return !conn->doomed;
}

/* Frames or bytes leave until there are none, the kernel takes no more, or it is the others' turn. False: it is doomed. */
static bool send_all(struct http_conn *conn)
{
    conn->more = false;
    for (int i = 0; i < SENDS; i++) {
        if (!push(conn))
            return false;
        if (conn->counted || conn->state != HTTP_2 || !h2_output(conn))
            return !conn->doomed;
    }
    conn->more = true;
    return push(conn);
}

/* Everything was said. */
static void say_bye(struct http_conn *conn)
{
    if (conn->tls && !conn->bye) {
        conn->bye = true;
        net_tls_end(conn->tls);
        if (!push(conn) || conn->counted)
            return;
    }
    http_linger(conn);
}

static void flush(struct http_conn *conn)
{
    if (conn->doomed || !send_all(conn)) {
        http_close(conn);
        return;
    }
    http_tell_writable(conn);
    if (conn->state == HTTP_1)
        h1_go_on(conn);
    bool begun = http_begin(conn);
    if (conn->state == HTTP_2 && h2_is_done(conn))
        conn->closing = true;
    recount(conn);
    if (conn->closing && !conn->counted && conn->state != HTTP_LINGER && !conn->doomed)
        say_bye(conn);
    look_out(conn, !begun);
    http_mind_time(conn);
}

static void flush_in_turn(struct http_conn *conn)
{
    if (!http_share_begin(conn))
        return;
    flush(conn);
    http_share_end(conn);
}

void http_on_flush(struct io_task *task)
{
    struct net_http *http = list_entry(task, struct net_http, flush);
    for (size_t n = http->dirty.count; n; n--) /* what becomes dirty meanwhile has posted the task again */
        flush_in_turn(list_entry(list_pop_front(&http->dirty), struct http_conn, dirty_node));
}

/* ---- bytes that come ---- */

static void start(struct http_conn *conn, bool is_http2)
{
    http_amid(conn, false);
    conn->state = is_http2 ? HTTP_2 : HTTP_1;
    if (!(is_http2 ? h2_start(conn) : h1_start(conn)))
        http_doom(conn);
}

/* How many of the bytes were looked at; conn->state says whether that was enough. */
static size_t sniff(struct http_conn *conn, const uint8_t *data, size_t len)
{
    size_t n = len < HTTP_PREFACE - conn->n_preface ? len : HTTP_PREFACE - conn->n_preface;
    memcpy(conn->preface + conn->n_preface, data, n);
    conn->n_preface += n;
    bool is_http2 = !memcmp(conn->preface, preface, conn->n_preface);
    if (!is_http2 || conn->n_preface == HTTP_PREFACE)
        start(conn, is_http2);
    else
        http_amid(conn, true);
    return n;
}

static void give(struct http_conn *conn, const uint8_t *data, size_t len)
{
    if (conn->doomed || !len)
        return;
    if (conn->state == HTTP_1)
        h1_input(conn, data, len);
    else if (conn->state == HTTP_2)
        h2_input(conn, data, len);
    else if ((conn->discarded += len) > LINGER_BYTES)
        http_doom(conn);
}

static void take(struct http_conn *conn, const uint8_t *data, size_t len)
{
    if (conn->state == HTTP_SNIFF) {
        size_t n = sniff(conn, data, len);
        data += n;
        len -= n;
        if (conn->state == HTTP_SNIFF)
            return;
        give(conn, conn->preface, conn->n_preface);
    }
    give(conn, data, len);
}

/* The peer sends no more: whoever can't have read an answer before isn't there to read one. */
static void take_end(struct http_conn *conn)
{
    const struct list_node *first = list_first(&conn->open);
    conn->ended = true;
    if (conn->state == HTTP_1 && (!first || list_entry(first, struct http_x, node)->ended))
        conn->closing = true;
    else
        http_doom(conn);
    http_dirty(conn);
}

static void take_tls(struct http_conn *conn, const uint8_t *data, size_t len)
{
    uint8_t *plain = conn->http->gather; /* not in use while bytes come */
    ssize_t n = 0;
    bool good = net_tls_feed(conn->tls, data, len);
    if (conn->state == HTTP_HANDSHAKE && net_tls_established(conn->tls)) {
        const char *alpn = net_tls_alpn(conn->tls);
        conn->peer.certificate = net_tls_principal(conn->tls);
        http_amid(conn, false);
        conn->state = HTTP_SNIFF;
        if (alpn)
            start(conn, !strcmp(alpn, "h2"));
    }
    http_dirty(conn); /* for what TLS has to say */
    while (!conn->doomed && conn->state != HTTP_HANDSHAKE && (n = net_tls_read(conn->tls, plain, HTTP_SCRATCH)) > 0)
        take(conn, plain, (size_t)n);
    if (!good && conn->state == HTTP_LINGER) {
        http_doom(conn);
    } else if (!good && !conn->doomed) { /* an alert is to be sent, if it can be */
        conn->http->stats.protocol_errors++;
        http_end(conn);
    } else if (n < 0 && conn->state != HTTP_LINGER) {
        take_end(conn);
    }
}

/* No more than A_TURN: whoever sends without end has a share of each turn of the loop, as have those who ask for one thing. Whether
 * there was something. */
static bool read_conn(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    if (conn->doomed || conn->ended || is_paused(conn) || is_held_back(conn))
        return false;
    ssize_t n = recv(conn->watch.fd, http->in, conn->credit_ns > 0 || conn->favoured_ms ? A_TURN : LITTLE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0 || (n == 0 && conn->state != HTTP_1))
        http_doom(conn);
    else if (n == 0)
        take_end(conn);
    else if (conn->tls)
        take_tls(conn, http->in, (size_t)n);
    else
        take(conn, http->in, (size_t)n);
    return n > 0;
}

void http_on_ready(struct io_watch *watch, unsigned events)
{
    struct http_conn *conn = list_entry(watch, struct http_conn, watch);
    if (list_linked(&conn->wait_node)) { /* not before its turn, unless there is nobody any more */
        http_doom(conn);
        return;
    }
    if (!http_share_begin(conn))
        return;
    if (events & IO_ERROR)
        http_doom(conn);
    else if (events & IO_HANGUP && is_paused(conn))
        take_end(conn);
    else if (events & IO_READ)
        read_conn(conn);
    if (events & IO_WRITE || conn->state == HTTP_2)
        http_dirty(conn);
    look_out(conn, false);
    http_mind_time(conn);
    http_share_end(conn);
}

static bool has_more(const struct http_conn *conn)
{
    uint8_t byte;
    return recv(conn->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Nobody reads what HTTP/2 would answer. */
static bool has_gone(const struct http_conn *conn)
{
    struct pollfd look = {.fd = conn->watch.fd, .events = POLLRDHUP};
    return conn->state == HTTP_2 && poll(&look, 1, 0) > 0;
}

void http_take_turn(struct http_conn *conn)
{
    if (list_linked(&conn->dirty_node))
        list_remove(&conn->http->dirty, &conn->dirty_node);
    if (has_gone(conn)) {
        http_doom(conn);
    } else if (is_held_back(conn)) {
        if (has_more(conn))
            http_share_favour(conn);
        else if (http_is_slow(conn)) /* of those who hold so much, whoever gets nowhere gives way */
            http_give_way(conn);
    }
    for (int reads = conn->favoured_ms ? READS : 1; reads && read_conn(conn); reads--)
        ;
    flush(conn);
}
