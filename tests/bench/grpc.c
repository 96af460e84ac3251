/* grpc.c - see grpc.h. */
#include "grpc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"

enum { HEAD = 5, WINDOW = 16 << 20, STREAM_WINDOW = 1 << 20 };

struct grpc_conn {
    int fd;
    nghttp2_session *session;
    int reading; /* what is started goes out when that is over */
};

/* ---- connections ---- */

static void write_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EAGAIN)
            peer_die("write: %s", strerror(errno));
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

static void flush(struct grpc_conn *conn)
{
    static uint8_t gathered[1 << 18];
    const uint8_t *data;
    size_t len = 0;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(conn->session, &data)) > 0) {
        if (len + (size_t)n > sizeof(gathered)) {
            write_all(conn->fd, gathered, len);
            len = 0;
        }
        memcpy(gathered + len, data, (size_t)n); /* a frame has 16 KiB at most */
        len += (size_t)n;
    }
    write_all(conn->fd, gathered, len);
}

static void readable(void *arg)
{
    static uint8_t data[1 << 17];
    struct grpc_conn *conn = arg;
    const ssize_t n = read(conn->fd, data, sizeof(data));

    if (n == 0 || (n < 0 && errno != EAGAIN))
        peer_die("the connection is lost");
    conn->reading = 1;
    if (n > 0 && nghttp2_session_mem_recv(conn->session, data, (size_t)n) < 0)
        peer_die("that is no HTTP/2");
    conn->reading = 0;
    flush(conn);
}

/* ---- what comes ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)user;
    (void)value_len;
    if (call && name_len == strlen("grpc-status") && !memcmp(name, "grpc-status", name_len))
        call->status = atoi((const char *)value);
    return 0;
}

/* The messages of a stream that stays open, one by one. */
static void take_messages(struct grpc_call *call)
{
    while (call->in_len >= HEAD) {
        uint32_t len;
        memcpy(&len, call->in + 1, sizeof(len));
        len = ntohl(len);
        if (call->in_len < HEAD + len)
            return;
        call->answered(call, call->in + HEAD, len);
        call->in_len -= HEAD + len;
        memmove(call->in, call->in + HEAD + len, call->in_len);
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t len, void *user)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)flags;
    (void)user;
    if (!call)
        return 0;
    if (call->in_len + len > call->in_cap) {
        call->in_cap = 2 * (call->in_len + len);
        call->in = realloc(call->in, call->in_cap);
        if (!call->in)
            peer_die("no memory");
    }
    memcpy(call->in + call->in_len, data, len);
    call->in_len += len;
    if (call->stays)
        take_messages(call);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)user;
    if (!call)
        return 0;
    if (code || call->status || call->stays || call->in_len < HEAD)
        peer_die("a call failed: HTTP/2 %u, gRPC %d", code, call->status);
    call->answered(call, call->in + HEAD, call->in_len - HEAD);
    return 0;
}

struct grpc_conn *grpc_connect(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW}};
    nghttp2_session_callbacks *callbacks;
    struct grpc_conn *conn = calloc(1, sizeof(*conn));
    const int one = 1;

    if (!conn || nghttp2_session_callbacks_new(&callbacks))
        peer_die("no memory");
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof(address)))
        peer_die("connect: %s", strerror(errno));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(conn->fd, F_SETFL, O_NONBLOCK);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&conn->session, callbacks, conn);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(conn->session, 0, settings, 1);
    nghttp2_session_set_local_window_size(conn->session, 0, 0, WINDOW);
    peer_watch(conn->fd, readable, conn);
    flush(conn);
    return conn;
}

/* ---- what goes ---- */

static ssize_t give_data(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t max, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct grpc_call *call = source->ptr;
    const size_t len = call->out_len;

    (void)session;
    (void)stream;
    (void)user;
    if (!call->stays)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    else if (len == 0)
        return NGHTTP2_ERR_DEFERRED;
    if (len > max)
        peer_die("a request larger than a frame");
    memcpy(buf, call->out, len);
    call->out_len = 0;
    return (ssize_t)len;
}

static void frame_message(struct grpc_call *call, const void *message, size_t len)
{
    const uint32_t length = htonl((uint32_t)len);

    if (len > GRPC_MESSAGE_MAX)
        peer_die("a request too large");
    call->out[0] = 0;
    memcpy(call->out + 1, &length, sizeof(length));
    if (len)
        memcpy(call->out + HEAD, message, len);
    call->out_len = HEAD + len;
}

#define FIELD(name, value)                                                                                                         \
    {                                                                                                                              \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, strlen(value), NGHTTP2_NV_FLAG_NO_COPY_NAME \
    }

static void open_stream(struct grpc_call *call, const char *path)
{
    const nghttp2_nv fields[] = {FIELD(":method", "POST"),
                                 FIELD(":scheme", "http"),
                                 FIELD(":path", path),
                                 FIELD(":authority", "127.0.0.1"),
                                 FIELD("content-type", "application/grpc"),
                                 FIELD("te", "trailers")};
    const nghttp2_data_provider provider = {.source.ptr = call, .read_callback = give_data};

    call->in_len = 0;
    call->status = -1;
    call->stream = nghttp2_submit_request(call->conn->session, NULL, fields, sizeof(fields) / sizeof(fields[0]), &provider, call);
    if (call->stream < 0)
        peer_die("submit: %s", nghttp2_strerror(call->stream));
}

void grpc_unary(struct grpc_call *call, const char *path, const void *message, size_t len)
{
    frame_message(call, message, len);
    open_stream(call, path);
    if (!call->conn->reading)
        flush(call->conn);
}

void grpc_message(struct grpc_call *call, const char *path, const void *message, size_t len)
{
    frame_message(call, message, len);
    if (call->stays)
        nghttp2_session_resume_data(call->conn->session, call->stream);
    else
        open_stream(call, path);
    call->stays = 1;
    if (!call->conn->reading)
        flush(call->conn);
}
