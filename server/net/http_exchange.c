/*
 * http_exchange.c - see http_conn.h: an exchange's life, and what handlers call.
 *
 * An exchange is open, then over, then told; between the last two its handler may still call what it likes, and nothing comes of
 * it. Its strings lie in one buffer, as offsets until the header is whole.
 */
#include <stdlib.h>
#include <string.h>

#include "net/http_conn.h"

enum {
    SPARE = 256,        /* exchanges kept to be used again */
    KEPT = 4 << 10,     /* of each of their buffers */
    FIELD_COST = 32,    /* RFC 9113, 6.5.2 */
    FIRST_FIELDS = 16,  /* of the array */
    A_BYTE = 2,         /* of an answer costs so many nanoseconds, until it is taken; */
    AN_ANSWER = 200000, /* it earns so many when it has been, */
    A_PIECE = 10000     /* and so many for each time that all there was of it is */
};

static struct http_x *x_of(struct net_exchange *x)
{
    return list_entry(x, struct http_x, x);
}

/* ---- life ---- */

static void x_free(struct http_x *x)
{
    hp_buf_release(&x->text);
    hp_buf_release(&x->out);
    hp_buf_release(&x->trailers);
    free(x->fields);
    free(x);
}

static void keep_buffer(struct hp_buf *buf)
{
    if (buf->cap > KEPT)
        hp_buf_release(buf);
    else
        hp_buf_reset(buf);
}

static void x_recycle(struct net_http *http, struct http_x *x)
{
    if (http->spare.count >= SPARE) {
        x_free(x);
        return;
    }
    keep_buffer(&x->text);
    keep_buffer(&x->out);
    keep_buffer(&x->trailers);
    *x = (struct http_x){.text = x->text, .out = x->out, .trailers = x->trailers, .fields = x->fields, .fields_cap = x->fields_cap};
    list_push_front(&http->spare, &x->node);
}

void http_free_spare(struct net_http *http)
{
    struct list_node *node;
    while ((node = list_pop_front(&http->spare)))
        x_free(list_entry(node, struct http_x, node));
}

struct http_x *http_x_new(struct http_conn *conn)
{
    struct net_http *http = conn->http;
    struct list_node *node = list_pop_front(&http->spare);
    struct http_x *x = node ? list_entry(node, struct http_x, node) : http_alloc(1, sizeof(*x));
    if (!x)
        return NULL;
    x->conn = conn;
    x->left = -1;
    x->heard_ms = x->sent_ms = http_now(http);
    x->x.peer = &conn->peer;
    conn->refs++;
    conn->n_receiving++;
    http->stats.streams++;
    list_push_back(&conn->open, &x->node);
    http_set_idle(conn);
    return x;
}

void http_x_over(struct http_x *x, bool complete)
{
    struct http_conn *conn = x->conn;
    if (x->over)
        return;
    size_t unsent = x->out.len - x->out_at;
    x->over = true;
    x->complete = complete;
    conn->n_receiving -= !x->request_ended;
    http_count_unsent(conn, -(ssize_t)unsent);
    conn->n_full -= x->full;
    conn->n_unbegun -= x->unbegun;
    if (complete && x->offered) {
        http_earn(conn, AN_ANSWER);
        conn->n_taken++;
    }
    http_count(conn, -(ssize_t)(unsent + x->unconsumed + x->held + x->head_cost));
    conn->unconsumed -= x->unconsumed;
    x->unconsumed = x->held = x->head_cost = 0;
    hp_buf_reset(&x->out);
    x->out_at = 0;
    conn->http->stats.streams--;
    list_remove(&conn->open, &x->node);
    list_push_back(&conn->http->over, &x->node);
    conn->http->io->post(conn->http->io, &conn->http->tell);
    http_set_idle(conn);
}

void http_on_tell(struct io_task *task)
{
    struct net_http *http = list_entry(task, struct net_http, tell);
    struct list_node *node;
    while ((node = list_pop_front(&http->over))) {
        struct http_x *x = list_entry(node, struct http_x, node);
        struct http_conn *conn = x->conn;
        if (x->offered && x->x.closed)
            x->x.closed(&x->x, x->complete);
        x_recycle(http, x);
        http_unref(conn);
    }
}

/* ---- the request ---- */

const char *http_x_text(struct http_x *x, const void *text, size_t len)
{
    struct hp_buf *to = &x->text;
    if (!hp_buf_reserve(to, len + 2))
        return NULL;
    if (!to->len)
        to->data[to->len++] = '\0'; /* so that no offset is 0 */
    size_t at = to->len;
    memcpy(to->data + at, text, len);
    to->data[at + len] = '\0';
    to->len = at + len + 1;
    return (const char *)(uintptr_t)at;
}

bool http_x_room(struct http_x *x, size_t n)
{
    if (n <= x->fields_cap)
        return true;
    size_t cap = 2 * x->fields_cap > FIRST_FIELDS ? 2 * x->fields_cap : FIRST_FIELDS;
    cap = n > cap ? n : cap;
    struct net_header *fields = http_alloc(cap, sizeof(*fields));
    if (!fields)
        return false;
    if (x->n_fields)
        memcpy(fields, x->fields, x->n_fields * sizeof(*fields));
    free(x->fields);
    x->fields = fields;
    x->fields_cap = cap;
    return true;
}

bool http_x_field(struct http_x *x, const void *name, size_t name_len, const void *value, size_t value_len)
{
    if (!http_x_room(x, x->n_fields + 1))
        return false;
    struct net_header field = {http_x_text(x, name, name_len), http_x_text(x, value, value_len)};
    x->fields[x->n_fields++] = field;
    return field.name && field.value;
}

static void settle(const char **at, const uint8_t *base)
{
    if (*at)
        *at = (const char *)base + (uintptr_t)*at;
}

void http_x_settle(struct http_x *x)
{
    const uint8_t *base = x->text.data;
    settle(&x->x.method, base);
    settle(&x->x.path, base);
    settle(&x->x.query, base);
    settle(&x->x.authority, base);
    for (size_t i = 0; i < x->n_fields; i++) {
        settle(&x->fields[i].name, base);
        settle(&x->fields[i].value, base);
    }
    x->x.headers = x->fields;
    x->x.n_headers = x->n_fields;
    x->head_cost = sizeof(*x) + x->text.cap + x->fields_cap * sizeof(*x->fields);
    http_count(x->conn, (ssize_t)x->head_cost);
    if (!x->x.authority) {
        const char *host = net_exchange_header(&x->x, "host");
        x->x.authority = host ? host : "";
    }
}

void http_x_offer(struct http_x *x)
{
    struct net_http *http = x->conn->http;
    x->offered = true;
    x->x.received_ms = x->heard_ms = http_now(http);
    http->stats.requests++;
    http->on_request(http->arg, &x->x);
}

void http_x_body(struct http_x *x, const void *data, size_t len)
{
    x->heard_ms = http_now(x->conn->http);
    x->unconsumed += len;
    x->conn->unconsumed += len;
    http_count(x->conn, (ssize_t)len);
    if (x->x.body && !x->ended)
        x->x.body(&x->x, data, len, false);
    else
        net_exchange_consume(&x->x, len);
}

void http_x_request_end(struct http_x *x)
{
    x->conn->n_receiving -= !x->request_ended;
    x->request_ended = true;
    if (x->end_told)
        return;
    x->end_told = true;
    if (!x->offered || !x->x.body || x->ended || x->over)
        return;
    x->unbegun = true;
    if (!x->conn->n_unbegun++)
        http_begin(x->conn);
}

bool http_x_is_full(const struct http_x *x)
{
    return x->unconsumed >= HTTP_WINDOW || x->conn->unconsumed >= H2_WINDOW;
}

/* ---- the response ---- */

static size_t unread(const struct http_x *x)
{
    return x->x.version == 2 ? x->out.len - x->out_at : http_unsent(x->conn);
}

void http_x_sent(struct http_x *x, size_t bytes)
{
    x->out_at += bytes;
    http_count_unsent(x->conn, -(ssize_t)bytes);
    http_earn(x->conn, (int64_t)bytes * A_BYTE);
    x->sent_ms = http_now(x->conn->http);
    http_count(x->conn, -(ssize_t)bytes);
    if (x->out_at < x->out.len)
        return;
    http_earn(x->conn, A_PIECE);
    x->out_at = 0;
    hp_buf_reset(&x->out);
}

static void set_full(struct http_x *x, bool full)
{
    x->conn->n_full += full - x->full;
    x->full = full;
}

void http_tell_writable(struct http_conn *conn)
{
    size_t max = conn->http->cfg.max_unread;
    if (!conn->n_full)
        return;
    for (struct list_node *node = list_first(&conn->open), *next; node; node = next) {
        struct http_x *x = list_entry(node, struct http_x, node);
        next = list_next(&conn->open, node);
        if (!x->full || unread(x) > max / 2)
            continue;
        set_full(x, false);
        if (x->x.writable)
            x->x.writable(&x->x); /* ends no exchange in the middle of this */
    }
}

const char *net_exchange_header(const struct net_exchange *x, const char *name)
{
    for (size_t i = 0; i < x->n_headers; i++)
        if (!strcmp(x->headers[i].name, name))
            return x->headers[i].value;
    return NULL;
}

void net_exchange_respond(struct net_exchange *exchange, int status, const struct net_header *headers, size_t n, bool end)
{
    struct http_x *x = x_of(exchange);
    if (x->over || x->responded)
        return;
    x->responded = true;
    x->no_body = (exchange->method && !strcmp(exchange->method, "HEAD")) || status == 204 || status == 304;
    x->ended = end;
    if (exchange->version == 2)
        h2_respond(x, status, headers, n, end);
    else
        h1_respond(x, status, headers, n, end);
    http_dirty(x->conn);
}

/* Moves what wasn't framed yet to the front, once it is the smaller part. */
static void compact(struct http_x *x)
{
    if (x->out_at < x->out.len / 2 || !x->out_at)
        return;
    memmove(x->out.data, x->out.data + x->out_at, x->out.len - x->out_at);
    x->out.len -= x->out_at;
    x->out_at = 0;
}

static void write2(struct http_x *x, const void *data, size_t len)
{
    compact(x);
    if (x->out.len == x->out_at)
        x->sent_ms = http_now(x->conn->http);
    hp_buf_add(&x->out, data, len);
    if (x->out.failed) {
        h2_reset(x, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    http_count_unsent(x->conn, (ssize_t)len);
    http_charge(x->conn, (int64_t)len * A_BYTE);
    http_count(x->conn, (ssize_t)len);
    h2_resume(x);
}

bool net_exchange_write(struct net_exchange *exchange, const void *data, size_t len)
{
    struct http_x *x = x_of(exchange);
    if (x->over || !x->responded || x->ended || x->no_body || !len)
        return !x->full;
    if (exchange->version == 2)
        write2(x, data, len);
    else
        h1_write(x, data, len);
    http_dirty(x->conn);
    set_full(x, unread(x) > x->conn->http->cfg.max_unread);
    return !x->full;
}

void net_exchange_end(struct net_exchange *exchange, const struct net_header *trailers, size_t n)
{
    struct http_x *x = x_of(exchange);
    if (x->over || !x->responded || x->ended)
        return;
    for (size_t i = 0; i < n && exchange->version == 2; i++) {
        hp_buf_add(&x->trailers, trailers[i].name, strlen(trailers[i].name) + 1);
        hp_buf_add(&x->trailers, trailers[i].value, strlen(trailers[i].value) + 1);
    }
    x->n_trailers = exchange->version == 2 ? n : 0;
    x->ended = true;
    if (x->trailers.failed)
        h2_reset(x, NGHTTP2_INTERNAL_ERROR);
    else if (exchange->version == 2)
        h2_resume(x);
    else
        h1_end(x);
    http_dirty(x->conn);
}

void net_exchange_consume(struct net_exchange *exchange, size_t len)
{
    struct http_x *x = x_of(exchange);
    if (x->over)
        return;
    len = len < x->unconsumed ? len : x->unconsumed;
    x->unconsumed -= len;
    x->conn->unconsumed -= len;
    http_count(x->conn, -(ssize_t)len);
    if (exchange->version == 2)
        h2_consume(x, len);
    http_dirty(x->conn);
}

void net_exchange_hold(struct net_exchange *exchange, size_t bytes)
{
    struct http_x *x = x_of(exchange);
    if (x->over)
        return;
    http_count(x->conn, (ssize_t)bytes - (ssize_t)x->held);
    x->held = bytes;
}

void net_exchange_charge(struct net_exchange *exchange, int64_t ns)
{
    struct http_x *x = x_of(exchange);
    if (!x->over)
        http_owe(x->conn, ns);
}

bool net_exchange_is_known(const struct net_exchange *x)
{
    return ((const struct http_x *)(const void *)((const char *)x - offsetof(struct http_x, x)))->conn->credit_ns > 0;
}

void net_exchange_reset(struct net_exchange *exchange, uint32_t code)
{
    struct http_x *x = x_of(exchange);
    if (x->over)
        return;
    if (exchange->version == 2)
        h2_reset(x, code);
    else
        http_doom(x->conn);
    http_dirty(x->conn);
}
