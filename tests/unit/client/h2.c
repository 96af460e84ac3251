/*
 * h2.c - see h2.h.
 */
#include "unit/client/h2.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/harness.h"

enum { PATIENCE_S = 20, HEAD = 9, FRAME_MAX = 16384 };

bool h2_read(struct h2 *h2, void *data, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t got =
            h2->ssl ? SSL_read(h2->ssl, (char *)data + at, (int)(n - at)) : recv(h2->fd, (char *)data + at, n - at, 0);
        if (got < 0 && !h2->ssl && (errno == EAGAIN || errno == EINTR))
            fail_msg("the client says nothing");
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

void h2_write(struct h2 *h2, const void *data, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t sent = h2->ssl ? SSL_write(h2->ssl, (const char *)data + at, (int)(n - at))
                                     : send(h2->fd, (const char *)data + at, n - at, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
}

void h2_frame(struct h2 *h2, uint8_t type, uint8_t flags, int32_t stream, const void *data, size_t len)
{
    uint8_t head[HEAD] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags};
    const uint32_t id = htonl((uint32_t)stream);
    memcpy(head + 5, &id, sizeof(id));
    h2_write(h2, head, sizeof(head));
    h2_write(h2, data, len);
}

void h2_accept(struct h2 *h2, int fd, SSL_CTX *ctx, uint32_t max_streams)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    char preface[24];
    uint8_t setting[6] = {0, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS};
    const uint32_t value = htonl(max_streams);
    *h2 = (struct h2){.fd = fd};
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    assert_int_equal(nghttp2_hd_inflate_new(&h2->inflater), 0);
    assert_int_equal(nghttp2_hd_deflate_new(&h2->deflater, 0), 0);
    if (ctx) {
        h2->ssl = SSL_new(ctx);
        SSL_set_fd(h2->ssl, fd);
        assert_int_equal(SSL_accept(h2->ssl), 1);
    }
    assert_true(h2_read(h2, preface, sizeof(preface)));
    assert_memory_equal(preface, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", sizeof(preface));
    memcpy(setting + 2, &value, sizeof(value));
    h2_frame(h2, NGHTTP2_SETTINGS, 0, 0, setting, max_streams ? sizeof(setting) : 0);
}

void h2_close(struct h2 *h2)
{
    nghttp2_hd_inflate_del(h2->inflater);
    nghttp2_hd_deflate_del(h2->deflater);
    SSL_free(h2->ssl);
    close(h2->fd);
    for (size_t i = 0; i < sizeof(h2->parts) / sizeof(h2->parts[0]); i++)
        free(h2->parts[i].message);
    *h2 = (struct h2){.fd = -1};
}

bool h2_next(struct h2 *h2, struct h2_frame *frame)
{
    uint8_t head[HEAD];
    uint32_t id;
    do {
        if (!h2_read(h2, head, sizeof(head)))
            return false;
        frame->len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        frame->type = head[3];
        frame->flags = head[4];
        memcpy(&id, head + 5, sizeof(id));
        frame->stream = (int32_t)ntohl(id);
        assert_true(frame->len <= sizeof(frame->bytes));
        if (!h2_read(h2, frame->bytes, frame->len))
            return false;
        if (frame->type == NGHTTP2_SETTINGS && !(frame->flags & H2_ACK))
            h2_frame(h2, NGHTTP2_SETTINGS, H2_ACK, 0, "", 0);
    } while (frame->type == NGHTTP2_SETTINGS || frame->type == NGHTTP2_WINDOW_UPDATE);
    return true;
}

static void keep(struct h2_request *r, const nghttp2_nv *nv)
{
    const struct {
        const char *name;
        char *to;
        size_t size;
    } wanted[] = {{":method", r->method, sizeof(r->method)},
                  {":scheme", r->scheme, sizeof(r->scheme)},
                  {":path", r->path, sizeof(r->path)},
                  {":authority", r->authority, sizeof(r->authority)},
                  {"te", r->te, sizeof(r->te)},
                  {"content-type", r->type, sizeof(r->type)},
                  {"grpc-timeout", r->timeout, sizeof(r->timeout)},
                  {"authorization", r->authorization, sizeof(r->authorization)}};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (strlen(wanted[i].name) == nv->namelen && !memcmp(wanted[i].name, nv->name, nv->namelen))
            snprintf(wanted[i].to, wanted[i].size, "%.*s", (int)nv->valuelen, (const char *)nv->value);
}

static void inflate(struct h2 *h2, struct h2_request *request, const uint8_t *bytes, size_t len)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        const ssize_t n = nghttp2_hd_inflate_hd2(h2->inflater, &nv, &flags, bytes, len, 1);
        assert_true(n >= 0);
        bytes += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            keep(request, &nv);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && len == 0)
            break;
    }
    nghttp2_hd_inflate_end_headers(h2->inflater);
}

/* As much more may be sent. */
static void give(struct h2 *h2, int32_t stream, size_t len)
{
    const uint32_t bytes = htonl((uint32_t)len);
    if (len)
        h2_frame(h2, NGHTTP2_WINDOW_UPDATE, 0, stream, &bytes, sizeof(bytes));
}

static struct h2_request *part_of(struct h2 *h2, int32_t stream)
{
    for (size_t i = 0; i < sizeof(h2->parts) / sizeof(h2->parts[0]); i++)
        if (h2->parts[i].stream == stream)
            return &h2->parts[i];
    fail_msg("stream %d isn't there, or there are too many", stream);
    return NULL;
}

static void take(struct h2 *h2, struct h2_request *request, const struct h2_frame *frame)
{
    request->message = realloc(request->message, request->len + frame->len + 1);
    memcpy(request->message + request->len, frame->bytes, frame->len);
    request->len += frame->len;
    give(h2, 0, frame->len);
    if (!(frame->flags & H2_END_STREAM))
        give(h2, frame->stream, frame->len);
}

static void unframe(struct h2_request *request)
{
    assert_true(request->len >= 5);
    request->len -= 5;
    assert_int_equal(request->message[0], 0);
    assert_int_equal(request->message[3] << 8 | request->message[4], request->len & 0xffff);
    memmove(request->message, request->message + 5, request->len);
    request->message[request->len] = '\0';
}

void h2_request(struct h2 *h2, struct h2_request *request)
{
    static struct h2_frame frame;
    struct h2_request *part;
    free(request->message);
    do {
        if (!h2_next(h2, &frame))
            fail_msg("the client is gone");
        if (frame.type != NGHTTP2_HEADERS && frame.type != NGHTTP2_DATA)
            fail_msg("a frame of type %d, stream %d, code %d", frame.type, frame.stream,
                     frame.len >= 4 ? frame.bytes[frame.len == 8 ? 7 : 3] : -1);
        part = part_of(h2, frame.type == NGHTTP2_HEADERS ? 0 : frame.stream);
        if (frame.type == NGHTTP2_DATA) {
            take(h2, part, &frame);
        } else {
            assert_true(frame.flags & H2_END_HEADERS);
            part->stream = frame.stream;
            inflate(h2, part, frame.bytes, frame.len);
        }
    } while (!(frame.flags & H2_END_STREAM));
    *request = *part;
    memset(part, 0, sizeof(*part));
    unframe(request);
}

void h2_headers(struct h2 *h2, int32_t stream, int flags, ...)
{
    nghttp2_nv nvs[16];
    uint8_t bytes[4096];
    size_t n = 0;
    va_list args;
    va_start(args, flags);
    for (char *name; (name = va_arg(args, char *)); n++) {
        char *value = va_arg(args, char *);
        nvs[n] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
    }
    va_end(args);
    const ssize_t len = nghttp2_hd_deflate_hd(h2->deflater, bytes, sizeof(bytes), nvs, n);
    assert_true(len >= 0);
    h2_frame(h2, NGHTTP2_HEADERS, (uint8_t)(flags | H2_END_HEADERS), stream, bytes, (size_t)len);
}

void h2_message(struct h2 *h2, int32_t stream, const void *data, size_t len)
{
    uint8_t prefix[5] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    h2_frame(h2, NGHTTP2_DATA, 0, stream, prefix, sizeof(prefix));
    for (size_t at = 0; at < len; at += FRAME_MAX)
        h2_frame(h2, NGHTTP2_DATA, 0, stream, (const char *)data + at, len - at < FRAME_MAX ? len - at : FRAME_MAX);
}

void h2_answer(struct h2 *h2, int32_t stream, const void *data, size_t len)
{
    h2_headers(h2, stream, 0, ":status", "200", "content-type", "application/grpc", NULL);
    h2_message(h2, stream, data, len);
    h2_headers(h2, stream, H2_END_STREAM, "grpc-status", "0", NULL);
}

void h2_reset(struct h2 *h2, int32_t stream, uint32_t code)
{
    const uint32_t bytes = htonl(code);
    h2_frame(h2, NGHTTP2_RST_STREAM, 0, stream, &bytes, sizeof(bytes));
}

void h2_goaway(struct h2 *h2, int32_t last, uint32_t code)
{
    const uint32_t bytes[2] = {htonl((uint32_t)last), htonl(code)};
    h2_frame(h2, NGHTTP2_GOAWAY, 0, 0, bytes, sizeof(bytes));
}
