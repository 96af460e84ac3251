/*
 * h2.c - see http_conn.h: HTTP/2, by nghttp2's sessions: bytes in by h2_input, frames out by h2_output, which is called at the end
 * of the loop's turn only, so that all frames of a turn leave together.
 *
 * A stream's user data is its exchange, until either is over. Callbacks of nghttp2 end nothing: they doom.
 */
#include <string.h>

#include "net/http_conn.h"

enum {
    FRAME_ROOM = (16 << 10) + 64,
    QUEUE_MAX = 1000,       /* frames that wait to be sent, beyond which nothing is read */
    RESETS_BURST = 10000,   /* streams that the peer may reset at once, */
    RESETS_A_SECOND = 2000, /* and then: beyond what it has earned, h2_guard.c ends it long before */
    CONTINUATIONS = 8,
    SETTINGS_MAX = 32,
    ACKS_MAX = 1000
};

bool h2_setup(struct net_http *http)
{
    if (nghttp2_session_callbacks_new(&http->callbacks) || nghttp2_option_new(&http->option) || !h2_reserve_new(http))
        return false;
    nghttp2_session_callbacks_set_on_begin_frame_callback(http->callbacks, h2_on_begin_frame);
    h2_request_callbacks(http->callbacks);
    h2_response_callbacks(http->callbacks);
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
    nghttp2_mem memory = h2_memory(conn);
    h2_purse_init(conn);
    if (nghttp2_session_server_new3(&conn->session, http->callbacks, conn, http->option, &memory))
        return false;
    http_dirty(conn);
    return !nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, sizeof(settings) / sizeof(settings[0])) &&
           !nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0, H2_WINDOW);
}

void h2_release(struct http_conn *conn)
{
    nghttp2_session_del(conn->session);
    conn->session = NULL;
    conn->head = NULL;
}

void h2_input(struct http_conn *conn, const uint8_t *data, size_t len)
{
    ssize_t n = conn->calmed ? 0 : nghttp2_session_mem_recv(conn->session, data, len);
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
        http_due(conn, conn->drain_ms + H2_DRAIN_MS);
    } else if (conn->drain_ms > 0) {
        nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(conn->session),
                              NGHTTP2_NO_ERROR, NULL, 0);
        conn->drain_ms = -1;
    }
    http_dirty(conn);
}

void h2_dismiss(struct http_conn *conn)
{
    if (nghttp2_session_terminate_session(conn->session, NGHTTP2_NO_ERROR))
        http_doom(conn);
    conn->drain_ms = -1;
    http_dirty(conn);
}
