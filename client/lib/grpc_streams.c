/*
 * grpc_streams.c - see grpc.h: calls as streams of nghttp2's session.
 *
 * Which call is begun when is decided here and not by nghttp2, which would keep those beyond the server's MAX_CONCURRENT_STREAMS in
 * a queue of its own: as long as a call isn't begun it may go elsewhere. Calls that wait at the server (GRPC_LONG_MS) leave some
 * streams free, so that however many wait, renewals get through.
 */
#include <string.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/grpc.h"
#include "proto/c/utf8.h"

enum {
    OPEN_MAX_OURS = 1000, /* streams of a connection, whatever the server allows */
    RESERVED_MAX = 32,    /* of them not for calls that wait */
    OUT_MAX = 256 << 10,  /* of frames that aren't sent yet */
    STREAM_WINDOW = 16 << 20,
    CONNECTION_WINDOW = 64 << 20,
    HEADERS = 12 /* of a request, beside its metadata */
};

/* ------------------------------------------------------------------------------------------------ answers */

static void take_details(struct grpc_call *call, const char *value, size_t len)
{
    hp_buf_reset(&call->details);
    if (!hp_base64_decode(&call->details, value, len))
        hp_buf_reset(&call->details); /* code and message are left */
}

static void take_message(struct grpc_call *call, const char *value, size_t len)
{
    struct hp_buf text = HP_BUF_INIT;

    hp_percent_decode(&text, value, len);
    if (text.data && !text.failed)
        hp_utf8_copy(call->message, sizeof(call->message), (const char *)text.data, text.len);
    hp_buf_release(&text);
}

static int number(const char *value, size_t len)
{
    int n = 0;

    if (len == 0 || len > 3)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return -1;
        n = n * 10 + (value[i] - '0');
    }
    return n;
}

static bool is(const char *wanted, const uint8_t *name, size_t len)
{
    return strlen(wanted) == len && !memcmp(wanted, name, len);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    static const char grpc[] = "application/grpc";
    const char *text = (const char *)value;

    (void)flags;
    (void)arg;
    if (!call)
        return 0;
    if (is(":status", name, name_len))
        call->http_status = number(text, value_len);
    else if (is("content-type", name, name_len))
        call->is_grpc = value_len >= sizeof(grpc) - 1 && !memcmp(text, grpc, sizeof(grpc) - 1);
    else if (is("grpc-status", name, name_len))
        call->code = number(text, value_len);
    else if (is("grpc-message", name, name_len))
        take_message(call, text, value_len);
    else if (is("grpc-status-details-bin", name, name_len))
        take_details(call, text, value_len);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t len, void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)arg;
    while (call && call->is_grpc && !call->wrong && len > 0) {
        if (call->has_reply) {
            call->wrong = "more than one message was answered";
            break;
        }
        switch (hp_grpc_read(&call->reader, &data, &len)) {
        case HP_GRPC_MORE:
            break;
        case HP_GRPC_MESSAGE:
            call->has_reply = true; /* and stays in the reader */
            if (call->reader.compressed)
                call->wrong = "the answer is compressed, unasked";
            break;
        case HP_GRPC_TOO_LARGE:
            call->wrong = "the answer is too large";
            break;
        case HP_GRPC_BAD_FLAG:
            call->wrong = "the answer cannot be read";
            break;
        case HP_GRPC_NO_MEMORY:
            call->wrong = "there is no memory for the answer";
            break;
        }
    }
    return 0;
}

/* How a call ended whose stream was closed with this code. */
static enum grpc_end judge(struct grpc_call *call, uint32_t error_code)
{
    if (error_code == NGHTTP2_REFUSED_STREAM && !call->http_status)
        return GRPC_UNSEEN; /* also what is behind the last stream of a GOAWAY */
    if (call->http_status && (call->http_status != 200 || !call->is_grpc))
        return GRPC_ANSWERED;
    if (call->code < 0)
        return GRPC_LOST;
    if (call->code == HP_OK && !call->wrong && !call->has_reply)
        call->wrong = "the answer is not whole";
    if (call->code != HP_OK)
        call->wrong = NULL; /* what came before the error doesn't matter */
    return GRPC_ANSWERED;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error_code, void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)arg;
    if (call)
        grpc_call_end(call, judge(call, error_code));
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_link *link = arg;

    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        link->settled = true;
    else if (frame->hd.type == NGHTTP2_GOAWAY)
        link->going = true;
    return 0;
}

/* ------------------------------------------------------------------------------------------------ requests */

static ssize_t read_payload(nghttp2_session *session, int32_t stream, uint8_t *to, size_t size, uint32_t *flags,
                            nghttp2_data_source *source, void *arg)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);
    size_t n = 0;

    (void)source;
    (void)arg;
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it was cancelled */
    if (call->taken < HP_GRPC_PREFIX) {
        n = HP_GRPC_PREFIX - call->taken < size ? HP_GRPC_PREFIX - call->taken : size;
        memcpy(to, call->prefix + call->taken, n);
        call->taken += n;
    }
    if (call->taken >= HP_GRPC_PREFIX) {
        const size_t at = call->taken - HP_GRPC_PREFIX, left = call->call->payload.len - at;
        const size_t part = left < size - n ? left : size - n;
        if (part)
            memcpy(to + n, call->call->payload.data + at, part);
        call->taken += part;
        n += part;
        if (part == left)
            *flags = NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

/* A frame has been made, and all of it is in `out`. */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    const struct grpc_link *link = arg;
    struct grpc_call *call;

    if (frame->hd.type != NGHTTP2_DATA || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call)
        call->end_at = link->made;
    return 0;
}

/* A stream could not even be opened: the server's GOAWAY came before. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error, void *arg)
{
    const struct grpc_link *link = arg;
    struct grpc_call *call = link->open;

    (void)error;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    while (call && call->stream != frame->hd.stream_id)
        call = call->next;
    if (!call)
        return 0;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, NULL);
    grpc_call_end(call, GRPC_UNSEEN);
    return 0;
}

struct headers {
    nghttp2_nv all[HEADERS + 16];
    size_t n;
};

static void put(struct headers *headers, const char *name, const char *value)
{
    if (headers->n < sizeof(headers->all) / sizeof(headers->all[0]))
        headers->all[headers->n++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                                                  .value = (uint8_t *)(uintptr_t)value,
                                                  .namelen = strlen(name),
                                                  .valuelen = strlen(value)};
}

static bool submit(struct grpc_link *link, struct grpc_call *call)
{
    const nghttp2_data_provider body = {.read_callback = read_payload};
    const struct tr_address *address = &link->conn->address;
    struct headers headers = {.n = 0};
    char timeout[12];

    put(&headers, ":method", "POST");
    put(&headers, ":scheme", link->ssl ? "https" : "http");
    put(&headers, ":path", call->call->method);
    put(&headers, ":authority", address->authority);
    put(&headers, "te", "trailers");
    put(&headers, "content-type", "application/grpc");
    put(&headers, "user-agent", "libholdfast/" HOLDFAST_VERSION);
    if (call->call->timeout_ms > 0) {
        hp_grpc_timeout_format(call->call->timeout_ms, timeout);
        put(&headers, "grpc-timeout", timeout);
    }
    for (size_t i = 0; i < call->call->n_metadata; i++)
        put(&headers, call->call->metadata[i]->key, call->call->metadata[i]->value);
    call->stream = nghttp2_submit_request(link->session, NULL, headers.all, headers.n, &body, call);
    return call->stream > 0;
}

static void begin(struct grpc_link *link, struct grpc_call *call)
{
    if (!submit(link, call)) {
        grpc_call_end(call, GRPC_UNSEEN);
        return;
    }
    call->next = link->open;
    call->prev = &link->open;
    if (call->next)
        call->next->prev = &call->next;
    link->open = call;
    link->n_open++;
}

/* ------------------------------------------------------------------------------------------------ which, and when */

static size_t most(const struct grpc_link *link, const struct grpc_call *call)
{
    const uint32_t theirs = nghttp2_session_get_remote_settings(link->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    const size_t all = theirs < OPEN_MAX_OURS ? theirs : OPEN_MAX_OURS;
    size_t reserved = all / 4;

    if (call->call->timeout_ms <= GRPC_LONG_MS)
        return all;
    if (reserved > RESERVED_MAX)
        reserved = RESERVED_MAX;
    return all - reserved;
}

/* As many of the exchange's calls are begun as may be; then it is gone from the queue, or stays with the rest. */
static void begin_some(struct grpc_link *link, struct grpc_exchange *exchange, int64_t now)
{
    while (exchange->begun < exchange->n && link->n_open < most(link, &exchange->calls[exchange->begun])) {
        if (exchange->begun == 0) {
            exchange->base.until_ms = now + exchange->base.reply_ms;
            tr_wake_at(link->conn->owner, exchange->base.until_ms);
        }
        begin(link, &exchange->calls[exchange->begun++]);
    }
    if (exchange->begun == exchange->n && exchange->base.queued)
        tr_unqueue(&exchange->base);
}

void grpc_pump(struct grpc_link *link)
{
    struct tr_conn *conn = link->conn;
    const int64_t now = hfi_boot_ms();

    if (conn->state != TR_OPEN || conn->broken || link->going || link->out.len > link->out_sent)
        return;
    for (struct tr_exchange *exchange = conn->first, *next; exchange; exchange = next) {
        next = exchange->behind;
        begin_some(link, (struct grpc_exchange *)exchange, now);
    }
    if (link->n_open && conn->until_ms == HFI_NEVER) {
        link->heard_ms = now;
        conn->until_ms = now + conn->owner->silence_ms;
        tr_wake_at(conn->owner, conn->until_ms);
    }
}

bool grpc_make(struct grpc_link *link)
{
    while (link->out.len - link->out_sent < OUT_MAX) {
        const uint8_t *bytes;
        const ssize_t n = nghttp2_session_mem_send(link->session, &bytes);
        if (n <= 0)
            return n == 0;
        hp_buf_add(&link->out, bytes, (size_t)n);
        if (link->out.failed)
            return false;
        link->made += (size_t)n;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ ending */

void grpc_cancel(struct grpc_exchange *exchange)
{
    const struct grpc_link *link = exchange->base.conn->link;

    for (size_t i = 0; i < exchange->begun; i++) {
        struct grpc_call *call = &exchange->calls[i];
        if (call->end != GRPC_PENDING)
            continue;
        nghttp2_session_set_stream_user_data(link->session, call->stream, NULL);
        nghttp2_submit_rst_stream(link->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
        grpc_call_end(call, call->end_at == UINT64_MAX ? GRPC_UNSEEN : GRPC_LOST);
    }
    grpc_end_unbegun(exchange);
}

void grpc_end_open(struct grpc_link *link)
{
    while (link->open) {
        struct grpc_call *call = link->open;
        if (link->session)
            nghttp2_session_set_stream_user_data(link->session, call->stream, NULL);
        grpc_call_end(call, call->end_at > link->sent ? GRPC_UNSEEN : GRPC_LOST);
        grpc_end_unbegun(call->exchange); /* it was begun here, and doesn't go on elsewhere */
    }
}

/* ------------------------------------------------------------------------------------------------ the session */

static bool greet(struct grpc_link *link)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                                      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW}};

    return !nghttp2_submit_settings(link->session, NGHTTP2_FLAG_NONE, settings, sizeof(settings) / sizeof(settings[0])) &&
           !nghttp2_session_set_local_window_size(link->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

bool grpc_session_new(struct grpc_link *link)
{
    nghttp2_session_callbacks *callbacks;
    bool made;

    if (nghttp2_session_callbacks_new(&callbacks))
        return false;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    made = !nghttp2_session_client_new(&link->session, callbacks, link);
    nghttp2_session_callbacks_del(callbacks);
    return made && greet(link);
}
