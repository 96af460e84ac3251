/*
 * h1.c - see http_conn.h: HTTP/1.1. One request of a connection is in progress at a time; what comes behind it waits in `in`, up to
 * a bound, and then in the kernel.
 *
 * The parser is strict (proto/c/http1.h), and whatever it refuses ends the connection: behind it nobody knows where the next
 * request begins. So does an answer to a request whose body isn't whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "net/http_conn.h"

bool h1_start(struct http_conn *conn)
{
    conn->parser = http_alloc(1, sizeof(*conn->parser));
    if (!conn->parser)
        return false;
    hp_http1_init(conn->parser, (size_t)conn->http->cfg.max_headers, 0);
    return true;
}

void h1_release(struct http_conn *conn)
{
    if (!conn->parser)
        return;
    hp_http1_release(conn->parser);
    free(conn->parser);
    conn->parser = NULL;
}

/* The exchange in progress, or NULL. */
static struct http_x *current(const struct http_conn *conn)
{
    struct list_node *node = list_first(&conn->open);
    return node ? list_entry(node, struct http_x, node) : NULL;
}

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {413, "Content Too Large"},
                   {414, "URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "";
}

/* RFC 9110, 6.6.1. */
static const char *date(struct net_http *http)
{
    int64_t now = hb_unix_ms() / 1000;
    struct tm tm;
    time_t at = (time_t)now;
    if (now != http->date_s && gmtime_r(&at, &tm))
        strftime(http->date, sizeof(http->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    http->date_s = now;
    return http->date;
}

/* ---- answers ---- */

/* The connection ends, with a word about why unless an answer has begun. */
static void refuse(struct http_conn *conn, int status, const char *why)
{
    struct http_x *x = current(conn);
    if (x && x->responded) {
        http_doom(conn);
        return;
    }
    if (x)
        http_x_over(x, false);
    hp_buf_printf(&conn->out,
                  "HTTP/1.1 %d %s\r\ndate: %s\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: %zu\r\n\r\n%s\n",
                  status, reason(status), date(conn->http), strlen(why) + 1, why);
    conn->closing = true;
    http_dirty(conn);
}

/* Whatever handlers write, a header is one line. */
static bool is_line(const struct net_header *header)
{
    return !header->value[strcspn(header->value, "\r\n")] && !header->name[strcspn(header->name, "\r\n:")];
}

static void add_headers(struct http_x *x, const struct net_header *headers, size_t n)
{
    struct hp_buf *out = &x->conn->out;
    for (size_t i = 0; i < n; i++) {
        if (!is_line(&headers[i]))
            continue;
        if (!strcmp(headers[i].name, "content-length"))
            x->left = strtoll(headers[i].value, NULL, 10);
        hp_buf_addstr(out, headers[i].name);
        hp_buf_addstr(out, ": ");
        hp_buf_addstr(out, headers[i].value);
        hp_buf_addstr(out, "\r\n");
    }
}

/* How the body's end is told (RFC 9112, 6). */
static void choose_framing(struct http_x *x, bool end)
{
    struct hp_buf *out = &x->conn->out;
    if (x->no_body || x->left >= 0)
        return;
    if (end) {
        hp_buf_addstr(out, "content-length: 0\r\n");
    } else if (x->conn->parser->minor == 0) {
        x->last = true; /* by the connection's end */
        x->streamed = true;
    } else {
        hp_buf_addstr(out, "transfer-encoding: chunked\r\n");
        x->chunked = x->streamed = true;
    }
}

void h1_respond(struct http_x *x, int status, const struct net_header *headers, size_t n, bool end)
{
    struct http_conn *conn = x->conn;
    hp_buf_printf(&conn->out, "HTTP/1.1 %d %s\r\ndate: %s\r\n", status, reason(status), date(conn->http));
    add_headers(x, headers, n);
    choose_framing(x, end);
    x->last |= !conn->parser->keep_alive || conn->http->draining || !x->request_ended;
    hp_buf_addstr(&conn->out, x->last ? "connection: close\r\n\r\n" : "\r\n");
    if (end)
        h1_end(x);
}

void h1_write(struct http_x *x, const void *data, size_t len)
{
    struct hp_buf *out = &x->conn->out;
    if (x->left >= 0) {
        len = (int64_t)len < x->left ? len : (size_t)x->left;
        x->left -= (int64_t)len;
    }
    if (x->chunked)
        hp_buf_printf(out, "%zx\r\n", len);
    hp_buf_add(out, data, len);
    if (x->chunked)
        hp_buf_addstr(out, "\r\n");
    if (out->failed)
        http_doom(x->conn);
}

void h1_end(struct http_x *x)
{
    if (x->chunked)
        hp_buf_addstr(&x->conn->out, "0\r\n\r\n");
    if (x->left > 0 && !x->no_body)
        x->last = true; /* shorter than was said: the connection's end tells that it isn't whole */
    if (x->conn->out.failed)
        http_doom(x->conn);
}

/* The answer has left: the next request may come. */
static void finish(struct http_conn *conn, struct http_x *x)
{
    if (x->last || !x->request_ended || conn->http->draining)
        conn->closing = true;
    else
        hp_http1_next_request(conn->parser);
    http_x_over(x, x->left <= 0 || x->no_body);
}

/* ---- requests ---- */

static bool take_fields(struct http_x *x, struct hp_http1 *p)
{
    struct hp_buf swap = x->text;
    x->text = p->text;
    p->text = swap;
    hp_buf_reset(&p->text);
    if (!http_x_room(x, p->n_fields))
        return false;
    for (size_t i = 0; i < p->n_fields; i++)
        x->fields[i] = (struct net_header){(const char *)(uintptr_t)p->fields[i].name, (const char *)(uintptr_t)p->fields[i].value};
    x->n_fields = p->n_fields;
    x->x.method = (const char *)(uintptr_t)p->method;
    x->x.path = (const char *)(uintptr_t)p->path;
    x->x.query = (const char *)(uintptr_t)p->query;
    x->x.authority = (const char *)(uintptr_t)p->authority;
    return true;
}

static void take_head(struct http_conn *conn)
{
    struct hp_http1 *p = conn->parser;
    struct http_x *x = http_x_new(conn);
    if (!x || !take_fields(x, p)) {
        http_doom(conn);
        return;
    }
    x->x.version = 1;
    http_x_settle(x);
    if (!p->has_body) {
        x->request_ended = true;
        conn->n_receiving--;
    }
    http_x_offer(x);
    if (p->expects_continue && !x->responded && !x->over)
        hp_buf_addstr(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
    http_dirty(conn);
}

static void take_piece(struct http_conn *conn, const uint8_t *piece, size_t len)
{
    struct http_x *x = current(conn);
    if (x)
        http_x_body(x, piece, len);
}

/* Takes what can be taken now; returns how much that was. */
static size_t take(struct http_conn *conn, const uint8_t *data, size_t len)
{
    const uint8_t *at = data, *piece;
    size_t left = len, piece_len;
    while (!conn->doomed && !conn->closing && conn->state == HTTP_1) {
        struct http_x *x = current(conn);
        if (x && x->ended && !x->request_ended)
            return len; /* the rest of a request that was answered early */
        switch (hp_http1_next(conn->parser, &at, &left, &piece, &piece_len)) {
        case HP_HTTP1_HEAD:
            take_head(conn);
            continue;
        case HP_HTTP1_BODY:
            take_piece(conn, piece, piece_len);
            continue;
        case HP_HTTP1_END:
            if (x)
                http_x_request_end(x);
            break;
        case HP_HTTP1_BAD:
            conn->http->stats.protocol_errors++;
            refuse(conn, conn->parser->status, conn->parser->why);
            break;
        default:
            break;
        }
        break;
    }
    http_amid(conn, conn->state == HTTP_1 && !conn->closing && hp_http1_amid_head(conn->parser));
    return len - left;
}

void h1_input(struct http_conn *conn, const uint8_t *data, size_t len)
{
    size_t taken = conn->in.len > conn->in_at ? 0 : take(conn, data, len);
    if (conn->closing || conn->doomed)
        return;
    hp_buf_add(&conn->in, data + taken, len - taken);
    if (conn->in.failed)
        http_doom(conn);
}

void h1_go_on(struct http_conn *conn)
{
    struct http_x *x = current(conn);
    if (x && x->ended && !http_unsent(conn))
        finish(conn, x);
    if (current(conn) || conn->in.len == conn->in_at || conn->closing || conn->doomed)
        return;
    conn->in_at += take(conn, conn->in.data + conn->in_at, conn->in.len - conn->in_at);
    if (conn->in_at == conn->in.len) {
        hp_buf_release(&conn->in);
        conn->in_at = 0;
    }
}

void h1_late(struct http_conn *conn)
{
    refuse(conn, 408, "the request took too long");
}

void h1_drain(struct http_conn *conn)
{
    if (!current(conn)) {
        conn->closing = true;
        http_dirty(conn);
    }
}
