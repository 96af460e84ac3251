/*
 * h2.c - see http_conn.h: HTTP/2, by nghttp2's sessions: bytes in by h2_input, frames out by h2_output, which is called at the end
 * of the loop's turn only, so that all frames of a turn leave together.
 *
 * A stream's user data is its exchange, until either is over. Callbacks of nghttp2 end nothing: they doom.
 */
#include <stdio.h>
#include <string.h>

#include "net/http_conn.h"

enum {
    CONNECTION_WINDOW = 1 << 20, /* of all bodies that aren't consumed */
    FRAME_ROOM = (16 << 10) + 64,
    HEADERS_MAX = 64,      /* of a response */
    TOO_LARGE_TIMES = 4,   /* a header that is larger than it may be by so much ends the connection */
    QUEUE_MAX = 1000,      /* frames that wait to be sent, beyond which nothing is read */
    RESETS_BURST = 1000,   /* streams that the peer may reset at once, */
    RESETS_A_SECOND = 100, /* and then */
    CONTINUATIONS = 8,
    SETTINGS_MAX = 32,
    ACKS_MAX = 1000
};

/* ---- requests ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http_conn *conn = arg;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct http_x *x = http_x_new(conn);
    if (!x)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    x->x.version = 2;
    x->stream = frame->hd.stream_id;
    conn->head = x;
    http_amid(conn, true);
    return nghttp2_session_set_stream_user_data(session, x->stream, x);
}

static bool is(const uint8_t *name, size_t len, const char *what)
{
    return len == strlen(what) && !memcmp(name, what, len);
}

static bool take_pseudo(struct http_x *x, const uint8_t *name, size_t len, const uint8_t *value, size_t value_len)
{
    const char **to = is(name, len, ":method") ? &x->x.method : is(name, len, ":authority") ? &x->x.authority : NULL;
    if (is(name, len, ":path")) {
        const uint8_t *question = memchr(value, '?', value_len);
        size_t path_len = question ? (size_t)(question - value) : value_len;
        if (question && !(x->x.query = http_x_text(x, question + 1, value_len - path_len - 1)))
            return false;
        value_len = path_len;
        to = &x->x.path;
    }
    return !to || (*to = http_x_text(x, value, value_len));
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    const struct http_conn *conn = arg;
    struct http_x *x = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    size_t max = (size_t)conn->http->cfg.max_headers;
    (void)flags;
    if (!x)
        return 0;
    x->head_bytes += name_len + value_len + 32;
    if (x->head_bytes > TOO_LARGE_TIMES * max) {
        nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    x->too_large |= x->head_bytes > max;
    if (x->too_large || x->offered) /* trailers are counted and forgotten */
        return 0;
    bool taken =
        *name == ':' ? take_pseudo(x, name, name_len, value, value_len) : http_x_field(x, name, name_len, value, value_len);
    return taken ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                             const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct http_conn *conn = arg;
    (void)session, (void)frame, (void)name, (void)name_len, (void)value, (void)value_len, (void)flags;
    conn->http->stats.protocol_errors++;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the stream is reset */
}

static void respond_plainly(struct http_x *x, int status)
{
    x->responded = x->ended = true;
    h2_respond(x, status, NULL, 0, true);
}

static void take_head(struct http_conn *conn, struct http_x *x, bool end)
{
    conn->head = NULL;
    http_amid(conn, false);
    if (end) {
        x->request_ended = true;
        conn->n_receiving--;
    }
    http_x_settle(x);
    if (x->too_large)
        respond_plainly(x, 431);
    else if (!x->x.path || !strcmp(x->x.method, "CONNECT"))
        respond_plainly(x, 501);
    else
        http_x_offer(x);
    const char *expect = x->responded || x->over || end ? NULL : net_exchange_header(&x->x, "expect");
    if (expect && !strcmp(expect, "100-continue")) {
        nghttp2_nv nv = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, NGHTTP2_NV_FLAG_NONE};
        nghttp2_submit_headers(conn->session, NGHTTP2_FLAG_NONE, x->stream, NULL, &nv, 1, NULL);
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http_conn *conn = arg;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct http_x *x = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (x && x == conn->head)
        take_head(conn, x, end);
    if (x && end)
        http_x_request_end(x);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t len, void *arg)
{
    struct http_x *x = nghttp2_session_get_stream_user_data(session, stream);
    (void)flags, (void)arg;
    if (x)
        http_x_body(x, data, len);
    else
        nghttp2_session_consume(session, stream, len);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
    struct http_conn *conn = arg;
    struct http_x *x = nghttp2_session_get_stream_user_data(session, stream);
    (void)code;
    if (!x)
        return 0;
    if (conn->head == x) {
        conn->head = NULL;
        http_amid(conn, false);
    }
    nghttp2_session_set_stream_user_data(session, stream, NULL);
    if (x->unconsumed)
        nghttp2_session_consume_connection(session, x->unconsumed);
    http_x_over(x, x->end_sent);
    return 0;
}

/* ---- responses ---- */

static void submit_trailers(nghttp2_session *session, const struct http_x *x)
{
    nghttp2_nv nv[HEADERS_MAX];
    const char *at = (const char *)x->trailers.data;
    size_t n = x->n_trailers < HEADERS_MAX ? x->n_trailers : HEADERS_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t name_len = strlen(at), value_len = strlen(at + name_len + 1);
        nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)at, (uint8_t *)(uintptr_t)at + name_len + 1, name_len, value_len, 0};
        at += name_len + value_len + 2;
    }
    nghttp2_submit_trailer(session, x->stream, nv, n);
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *to, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *arg)
{
    struct http_x *x = source->ptr;
    size_t left = x->out.len - x->out_at, n = left < len ? left : len;
    (void)stream, (void)arg;
    if (!n && !x->ended) {
        x->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n)
        memcpy(to, x->out.data + x->out_at, n);
    if (n)
        http_x_sent(x, n);
    if (x->ended && n == left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (x->n_trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            submit_trailers(session, x);
        }
    }
    return (ssize_t)n;
}

void h2_respond(struct http_x *x, int status, const struct net_header *headers, size_t n, bool end)
{
    nghttp2_nv nv[HEADERS_MAX + 1];
    nghttp2_data_provider provider = {.source.ptr = x, .read_callback = on_read};
    char text[12];
    int len = snprintf(text, sizeof(text), "%d", status);
    nv[0] = (nghttp2_nv){(uint8_t *)":status", (uint8_t *)text, 7, (size_t)len, NGHTTP2_NV_FLAG_NONE};
    n = n < HEADERS_MAX ? n : HEADERS_MAX;
    for (size_t i = 0; i < n; i++)
        nv[i + 1] = (nghttp2_nv){(uint8_t *)(uintptr_t)headers[i].name, (uint8_t *)(uintptr_t)headers[i].value,
                                 strlen(headers[i].name), strlen(headers[i].value), NGHTTP2_NV_FLAG_NONE};
    x->ended |= x->no_body;
    if (nghttp2_submit_response(x->conn->session, x->stream, nv, n + 1, x->ended ? NULL : &provider))
        http_doom(x->conn);
    (void)end;
}

void h2_resume(struct http_x *x)
{
    if (!x->deferred)
        return;
    x->deferred = false;
    nghttp2_session_resume_data(x->conn->session, x->stream);
}

void h2_consume(struct http_x *x, size_t len)
{
    nghttp2_session_consume(x->conn->session, x->stream, len);
}

void h2_reset(struct http_x *x, uint32_t code)
{
    if (nghttp2_submit_rst_stream(x->conn->session, NGHTTP2_FLAG_NONE, x->stream, code))
        http_doom(x->conn);
    http_dirty(x->conn);
}

/* What has been framed ends the response: a request that isn't whole need not become so (RFC 9113, 8.1). */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http_conn *conn = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        conn->http->stats.protocol_errors++;
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    struct http_x *x = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!x)
        return 0;
    x->end_sent = true;
    if (!x->request_ended)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, x->stream, NGHTTP2_NO_ERROR);
    return 0;
}

/* ---- sessions ---- */

bool h2_setup(struct net_http *http)
{
    if (nghttp2_session_callbacks_new(&http->callbacks) || nghttp2_option_new(&http->option))
        return false;
    nghttp2_session_callbacks_set_on_begin_headers_callback(http->callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(http->callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(http->callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(http->callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(http->callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(http->callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(http->callbacks, on_frame_send);
    nghttp2_option_set_no_auto_window_update(http->option, 1);
    nghttp2_option_set_max_outbound_ack(http->option, ACKS_MAX);
    nghttp2_option_set_max_settings(http->option, SETTINGS_MAX);
    nghttp2_option_set_max_continuations(http->option, CONTINUATIONS);
    nghttp2_option_set_stream_reset_rate_limit(http->option, RESETS_BURST, RESETS_A_SECOND);
    return true;
}

bool h2_start(struct http_conn *conn)
{
    const struct net_http *http = conn->http;
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)http->cfg.max_streams},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP_WINDOW},
                                         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)http->cfg.max_headers},
                                         {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
    if (nghttp2_session_server_new2(&conn->session, http->callbacks, conn, http->option))
        return false;
    http_dirty(conn);
    return !nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, sizeof(settings) / sizeof(settings[0])) &&
           !nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

void h2_release(struct http_conn *conn)
{
    nghttp2_session_del(conn->session);
    conn->session = NULL;
    conn->head = NULL;
}

void h2_input(struct http_conn *conn, const uint8_t *data, size_t len)
{
    ssize_t n = nghttp2_session_mem_recv(conn->session, data, len);
    if (n < 0)
        http_doom_protocol(conn);
    http_dirty(conn);
}

bool h2_output(struct http_conn *conn)
{
    uint8_t *gather = conn->http->gather;
    size_t gathered = 0;
    while (gathered <= HTTP_SCRATCH - FRAME_ROOM) {
        const uint8_t *frame;
        ssize_t len = nghttp2_session_mem_send(conn->session, &frame);
        if (len < 0 || (size_t)len > HTTP_SCRATCH - gathered) {
            http_doom(conn);
            return false;
        }
        if (!len)
            break;
        memcpy(gather + gathered, frame, (size_t)len);
        gathered += (size_t)len;
    }
    return gathered && http_emit(conn, gather, gathered);
}

bool h2_is_done(const struct http_conn *conn)
{
    return !nghttp2_session_want_read(conn->session) && !nghttp2_session_want_write(conn->session);
}

bool h2_is_overfull(const struct http_conn *conn)
{
    return conn->counted && nghttp2_session_get_outbound_queue_size(conn->session) > QUEUE_MAX;
}

void h2_drain(struct http_conn *conn)
{
    if (!conn->drain_ms) {
        nghttp2_submit_shutdown_notice(conn->session);
        nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL);
        conn->drain_ms = http_now(conn->http);
        http_due(conn, conn->drain_ms);
    } else if (conn->drain_ms > 0) {
        nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(conn->session),
                              NGHTTP2_NO_ERROR, NULL, 0);
        conn->drain_ms = -1;
    }
    http_dirty(conn);
}
