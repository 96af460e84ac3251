/*
 * h2_request.c - see http_conn.h: what arrives on an HTTP/2 session. nghttp2 has checked it (RFC 9113, 8.1 to 8.3): what it refuses
 * is a reset stream, or the connection's end.
 */
#include <string.h>

#include "net/http_conn.h"

enum { TOO_LARGE_TIMES = 4 /* a header that is larger than it may be by so much ends the connection */ };

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
    x->expects |= is(name, name_len, "expect") && is(value, value_len, "100-continue");
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
    if (x->expects && !x->responded && !x->over && !end) {
        nghttp2_nv nv = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, NGHTTP2_NV_FLAG_NONE};
        nghttp2_submit_headers(conn->session, NGHTTP2_FLAG_NONE, x->stream, NULL, &nv, 1, NULL);
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http_conn *conn = arg;
    if (frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK && conn->drain_ms > 0)
        h2_drain(conn); /* it has seen the first GOAWAY */
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

void h2_request_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
