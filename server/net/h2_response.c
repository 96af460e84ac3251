/*
 * h2_response.c - see http_conn.h: what leaves on an HTTP/2 session. The body waits in the exchange until nghttp2 asks for it, as
 * the peer's windows allow; the trailers are submitted when the last of it has been taken, and by nothing else.
 */
#include <string.h>

#include "net/http_conn.h"

enum { HEADERS_MAX = 64 /* of a response */ };

static int submit_trailers(nghttp2_session *session, const struct http_x *x)
{
    nghttp2_nv nv[HEADERS_MAX];
    const char *at = (const char *)x->trailers.data;
    size_t n = x->n_trailers < HEADERS_MAX ? x->n_trailers : HEADERS_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t name_len = strlen(at), value_len = strlen(at + name_len + 1);
        nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)at, (uint8_t *)(uintptr_t)at + name_len + 1, name_len, value_len, 0};
        at += name_len + value_len + 2;
    }
    return nghttp2_submit_trailer(session, x->stream, nv, n);
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
            if (submit_trailers(session, x))
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    }
    return (ssize_t)n;
}

void h2_respond(struct http_x *x, int status, const struct net_header *headers, size_t n, bool end)
{
    nghttp2_nv nv[HEADERS_MAX + 1];
    nghttp2_data_provider provider = {.source.ptr = x, .read_callback = on_read};
    uint8_t text[3] = {(uint8_t)('0' + status / 100 % 10), (uint8_t)('0' + status / 10 % 10), (uint8_t)('0' + status % 10)};
    nv[0] = (nghttp2_nv){(uint8_t *)":status", text, 7, sizeof(text), NGHTTP2_NV_FLAG_NONE};
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
    if (x->resetting)
        return;
    x->resetting = true;
    if (nghttp2_submit_rst_stream(x->conn->session, NGHTTP2_FLAG_NONE, x->stream, code))
        http_doom(x->conn);
    http_dirty(x->conn);
}

/* A frame that the peer has brought about by a mistake, and not we by a deadline or a handler. */
static bool is_rebuke(const nghttp2_frame *frame)
{
    uint32_t code = frame->rst_stream.error_code;
    return frame->hd.type == NGHTTP2_RST_STREAM && code != NGHTTP2_NO_ERROR && code != NGHTTP2_CANCEL &&
           code != NGHTTP2_INTERNAL_ERROR;
}

/* What has been framed ends the response: a request that isn't whole need not become so (RFC 9113, 8.1). The peer is told (by
 * http_conn.c) after a while in which what comes is thrown away: told at once, when it is about to send the little that is left,
 * some take it for an error and throw the response away (curl 7.88). */
static void take_end(nghttp2_session *session, int32_t stream)
{
    struct http_x *x = nghttp2_session_get_stream_user_data(session, stream);
    if (!x)
        return;
    x->end_sent = true;
    x->sent_ms = http_now(x->conn->http);
    if (!x->request_ended)
        http_due(x->conn, x->sent_ms);
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http_conn *conn = arg;
    if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) {
        h2_earn(conn);
        if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
            take_end(session, frame->hd.stream_id);
    } else if (is_rebuke(frame)) {
        h2_spend(conn);
    } else if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
        conn->http->stats.protocol_errors++;
    }
    return 0;
}

void h2_response_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}
