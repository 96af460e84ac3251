/*
 * web_client.c - see web.h: the clients.
 */
#include "unit/net/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/harness.h"

/* ---- bytes ---- */

int web_connect(const struct web *web)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)web_port(web)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = T_PATIENCE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool web_send(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            fail_msg("the server doesn't read");
        if (n < 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

void web_say(int fd, const char *text)
{
    assert_true(web_send(fd, text, strlen(text)));
}

/* How much came; 0: the end. */
static size_t hear(int fd, char *to, size_t size)
{
    ssize_t n = recv(fd, to, size, 0);
    if (n < 0 && errno == EAGAIN)
        fail_msg("the server says nothing");
    return n > 0 ? (size_t)n : 0;
}

char *web_hear(int fd, const char *until)
{
    static char *kept[16];
    static int next;
    size_t len = 0, size = 4096, n;
    char *text = malloc(size);
    *text = '\0';
    while (!(until && strstr(text, until)) && (n = hear(fd, text + len, size - len - 1))) {
        len += n;
        text[len] = '\0';
        if (size - len < 2048)
            text = realloc(text, size *= 2);
    }
    if (until && !strstr(text, until))
        fail_msg("the connection ended without \"%s\", after: %s", until, text);
    free(kept[next]);
    kept[next] = text;
    next = (next + 1) % 16;
    return text;
}

void web_hear_end(int fd)
{
    char bytes[4096];
    while (hear(fd, bytes, sizeof(bytes)))
        ;
}

char *web_ask(const struct web *web, const char *text)
{
    int fd = web_connect(web);
    assert_true(fd >= 0);
    web_say(fd, text);
    char *answer = web_hear(fd, NULL);
    close(fd);
    return answer;
}

/* ---- HTTP/2 ---- */

enum { STREAMS = 4096 };

struct web2 {
    int fd;
    nghttp2_session *session;
    struct web2_stream streams[STREAMS]; /* by half of their ids */
    long left[STREAMS];                  /* of their requests' bodies */
    bool ended;
    int goaways, last_stream, pongs;
    uint32_t goaway_code;
};

static struct web2_stream *stream_of(struct web2 *client, int32_t id)
{
    assert_true(id / 2 < STREAMS);
    return &client->streams[id / 2];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct web2_stream *stream = stream_of(arg, frame->hd.stream_id);
    (void)session, (void)flags;
    if (name_len == 7 && !memcmp(name, ":status", 7))
        stream->status = atoi((const char *)value);
    else if (frame->headers.cat == NGHTTP2_HCAT_HEADERS && *name != ':')
        snprintf(stream->trailer, sizeof(stream->trailer), "%.*s", (int)value_len, value);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct web2 *client = arg;
    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client->goaways++;
        client->last_stream = frame->goaway.last_stream_id;
        client->goaway_code = frame->goaway.error_code;
    }
    client->pongs += frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK;
    if (frame->hd.type == NGHTTP2_HEADERS && stream_of(client, frame->hd.stream_id)->status / 100 == 1)
        stream_of(client, frame->hd.stream_id)->n_informational++;
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        stream_of(client, frame->hd.stream_id)->ended = true;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg)
{
    struct web2_stream *stream = stream_of(arg, id);
    (void)session, (void)flags;
    if (stream->n_body < sizeof(stream->body) - 1)
        memcpy(stream->body + stream->n_body, data,
               len < sizeof(stream->body) - 1 - stream->n_body ? len : sizeof(stream->body) - 1 - stream->n_body);
    stream->n_body += len;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct web2_stream *stream = stream_of(arg, id);
    (void)session;
    stream->closed = true;
    stream->code = code;
    return 0;
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t len, uint32_t *flags, nghttp2_data_source *source,
                       void *arg)
{
    long *left = source->ptr;
    size_t n = *left < (long)len ? (size_t)*left : len;
    (void)session, (void)id, (void)arg;
    if (*left < 0)
        return NGHTTP2_ERR_DEFERRED;
    memset(to, 'b', n);
    *left -= (long)n;
    *flags |= *left ? 0 : NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

struct web2 *web2_connect(const struct web *web, const struct web2_options *options)
{
    struct web2_options none = {0};
    struct web2 *client = calloc(1, sizeof(*client));
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    options = options ? options : &none;
    client->fd = web_connect(web);
    assert_true(client->fd >= 0);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option_set_no_auto_window_update(option, options->shut);
    nghttp2_option_set_peer_max_concurrent_streams(option, STREAMS); /* the server's word isn't waited for */
    assert_int_equal(nghttp2_session_client_new2(&client->session, callbacks, client, option), 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options->window < 0 ? 0 : (uint32_t)options->window};
    assert_int_equal(nghttp2_submit_settings(client->session, 0, &window, options->window != 0), 0);
    web2_send(client);
    return client;
}

void web2_close(struct web2 *client)
{
    nghttp2_session_del(client->session);
    close(client->fd);
    free(client);
}

int web2_ask(struct web2 *client, const char *method, const char *path, long n_body, const char *name, const char *value)
{
    nghttp2_nv nv[] = {
        {(uint8_t *)":method", (uint8_t *)(uintptr_t)method, 7, strlen(method), 0},
        {(uint8_t *)":scheme", (uint8_t *)"http", 7, 4, 0},
        {(uint8_t *)":authority", (uint8_t *)"h", 10, 1, 0},
        {(uint8_t *)":path", (uint8_t *)(uintptr_t)path, 5, strlen(path), 0},
        {(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name ? strlen(name) : 0, value ? strlen(value) : 0, 0}};
    int32_t id = (int32_t)nghttp2_session_get_next_stream_id(client->session);
    nghttp2_data_provider provider = {.source.ptr = &client->left[id / 2], .read_callback = on_read};
    client->left[id / 2] = n_body;
    assert_int_equal(nghttp2_submit_request(client->session, NULL, nv, name ? 5 : 4, n_body ? &provider : NULL, NULL), id);
    stream_of(client, id)->code = 0;
    return id;
}

void web2_cancel(struct web2 *client, int stream)
{
    assert_int_equal(nghttp2_submit_rst_stream(client->session, 0, stream, NGHTTP2_CANCEL), 0);
}

void web2_ping(struct web2 *client)
{
    assert_int_equal(nghttp2_submit_ping(client->session, 0, NULL), 0);
}

void web2_send(struct web2 *client)
{
    const uint8_t *data;
    ssize_t n;
    while (!client->ended && (n = nghttp2_session_mem_send(client->session, &data)) > 0)
        client->ended = !web_send(client->fd, data, (size_t)n);
}

void web2_say(struct web2 *client, const void *data, size_t len)
{
    web2_send(client);
    if (!client->ended)
        client->ended = !web_send(client->fd, data, len);
}

static void hear_some(struct web2 *client, int ms)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    char bytes[16 << 10];
    if (poll(&poll_fd, 1, ms) <= 0)
        return;
    ssize_t n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        client->ended = true;
    else if (n > 0)
        nghttp2_session_mem_recv(client->session, (uint8_t *)bytes, (size_t)n);
}

void web2_pump(struct web2 *client, bool (*done)(struct web2 *client, int arg), int arg)
{
    int64_t until = t_now_ms() + T_PATIENCE_MS;
    while (!client->ended && !done(client, arg)) {
        web2_send(client);
        hear_some(client, 50);
        if (t_now_ms() > until)
            fail_msg("what was waited for on the connection didn't happen");
    }
}

static bool is_closed(struct web2 *client, int stream)
{
    return stream_of(client, stream)->closed;
}

void web2_await_closed(struct web2 *client, int stream)
{
    web2_pump(client, is_closed, stream);
}

static bool never(struct web2 *client, int arg)
{
    (void)client, (void)arg;
    return false;
}

void web2_await_end(struct web2 *client)
{
    web2_pump(client, never, 0);
}

const struct web2_stream *web2_stream(const struct web2 *client, int stream)
{
    return &client->streams[stream / 2];
}

bool web2_ended(const struct web2 *client)
{
    return client->ended;
}

int web2_goaways(const struct web2 *client)
{
    return client->goaways;
}

int web2_last_stream(const struct web2 *client)
{
    return client->last_stream;
}

uint32_t web2_goaway_code(const struct web2 *client)
{
    return client->goaway_code;
}

int web2_pongs(const struct web2 *client)
{
    return client->pongs;
}

void web2_frame(uint8_t out[9], size_t len, int type, int flags, int stream)
{
    const uint8_t head[9] = {(uint8_t)(len >> 16),    (uint8_t)(len >> 8),    (uint8_t)len,
                             (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
                             (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    memcpy(out, head, sizeof(head));
}
