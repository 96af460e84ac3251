/*
 * http_raw.c - see http_raw.h.
 */
#include "robustness/http_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE_S = 20,
    FRAME_HEAD = 9,
    AT_ONCE = 16 << 10 /* so that the kernel, which is the server's too, isn't busy for long with one call of an attacker */
};

/* ---- a connection ---- */

int raw_connect(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        return -1;
    }
    return fd;
}

void raw_read_little(int fd)
{
    int size = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

bool raw_send(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len) {
        ssize_t n = send(fd, at, len < AT_ONCE ? len : AT_ONCE, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

bool raw_send_buf(int fd, const struct hp_buf *buf)
{
    return !buf->failed && raw_send(fd, buf->data, buf->len);
}

size_t raw_send_some(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    size_t sent = 0;
    while (sent < len) {
        ssize_t n = send(fd, at + sent, len - sent < AT_ONCE ? len - sent : AT_ONCE, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    return sent;
}

void raw_abort(int fd)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

/* ---- frames ---- */

void raw_frame(struct hp_buf *to, enum raw_type type, int flags, uint32_t stream, const void *payload, size_t len)
{
    uint8_t head[FRAME_HEAD] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, (uint8_t)type, (uint8_t)flags};
    uint32_t number = htonl(stream);
    memcpy(head + 5, &number, sizeof(number));
    hp_buf_add(to, head, sizeof(head));
    if (len)
        hp_buf_add(to, payload, len);
}

void raw_number_frame(struct hp_buf *to, enum raw_type type, uint32_t stream, uint32_t number)
{
    uint32_t payload = htonl(number);
    raw_frame(to, type, 0, stream, &payload, sizeof(payload));
}

void raw_settings_window(struct hp_buf *to, uint32_t window)
{
    uint8_t setting[6] = {0, 4}; /* SETTINGS_INITIAL_WINDOW_SIZE */
    uint32_t number = htonl(window);
    memcpy(setting + 2, &number, sizeof(number));
    raw_frame(to, RAW_SETTINGS, 0, 0, setting, sizeof(setting));
}

void raw_hello(struct hp_buf *to, uint32_t window)
{
    hp_buf_addstr(to, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    raw_settings_window(to, window);
}

/* An integer with a prefix of 7 bits (RFC 7541, 5.1), the bit above being 0: a string's length, not Huffman's. */
static void add_length(struct hp_buf *block, size_t len)
{
    hp_buf_addch(block, (char)(len < 127 ? len : 127));
    if (len < 127)
        return;
    for (len -= 127; len >= 128; len /= 128)
        hp_buf_addch(block, (char)(len % 128 + 128));
    hp_buf_addch(block, (char)len);
}

void raw_field(struct hp_buf *block, const char *name, const char *value)
{
    hp_buf_addch(block, 0); /* a literal that isn't to be remembered */
    add_length(block, strlen(name));
    hp_buf_addstr(block, name);
    add_length(block, strlen(value));
    hp_buf_addstr(block, value);
}

void raw_fields(struct hp_buf *block, const char *path, const char *type)
{
    raw_field(block, ":method", "POST");
    raw_field(block, ":scheme", "http");
    raw_field(block, ":path", path);
    raw_field(block, ":authority", "localhost");
    raw_field(block, "content-type", type);
    raw_field(block, "te", "trailers");
}

void raw_headers(struct hp_buf *to, uint32_t stream, const char *path, int flags)
{
    struct hp_buf block = HP_BUF_INIT;
    raw_fields(&block, path, "application/json");
    raw_frame(to, RAW_HEADERS, flags | RAW_END_HEADERS, stream, block.data, block.len);
    hp_buf_release(&block);
}

void raw_call(struct hp_buf *to, uint32_t stream, const char *path, const char *json)
{
    raw_headers(to, stream, path, 0);
    raw_frame(to, RAW_DATA, RAW_END_STREAM, stream, json, strlen(json));
}

void raw_call1(struct hp_buf *to, const char *path, const char *json)
{
    hp_buf_printf(to, "POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                  path, strlen(json), json);
}

/* ---- what comes back ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint32_t number_at(const uint8_t *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof(number));
    return ntohl(number);
}

/* The status with which a header block begins, as servers write it: by its index, or as a literal. 0: there is none. */
static int status_of(const uint8_t *block, size_t len)
{
    static const int by_index[] = {200, 204, 206, 304, 400, 404, 500}; /* RFC 7541, appendix A, from 8 on */
    if (len && block[0] >= 0x88 && block[0] <= 0x8e)
        return by_index[block[0] - 0x88];
    bool literal = len >= 5 && (block[0] == 0x48 || block[0] == 0x08 || block[0] == 0x18) && block[1] == 3;
    return literal ? (block[2] - '0') * 100 + (block[3] - '0') * 10 + (block[4] - '0') : 0;
}

static void take_frame(struct raw_said *said, const uint8_t *frame, size_t len)
{
    const uint8_t *payload = frame + FRAME_HEAD;
    if (frame[3] == RAW_HEADERS && status_of(payload, len)) {
        said->status = status_of(payload, len);
        said->responses++;
    } else if (frame[3] == RAW_RST_STREAM && len == 4) {
        said->rst++;
        said->rst_code = (int)number_at(payload);
    } else if (frame[3] == RAW_GOAWAY && len >= 8) {
        said->goaway = (int)number_at(payload + 4);
    }
}

/* Takes whole frames off the buffer. */
static void take_frames(struct raw_said *said, struct hp_buf *in)
{
    size_t at = 0;
    while (in->len - at >= FRAME_HEAD) {
        const uint8_t *frame = in->data + at;
        size_t len = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        if (in->len - at < FRAME_HEAD + len)
            break;
        take_frame(said, frame, len);
        at += FRAME_HEAD + len;
    }
    memmove(in->data, in->data + at, in->len - at);
    in->len -= at;
}

/* Counts status lines; they are looked for in whatever comes, which is good enough for answers of JSON. */
static void take_lines(struct raw_said *said, struct hp_buf *in)
{
    static const char line[] = "HTTP/1.1 ";
    enum { LINE = sizeof(line) - 1 };
    size_t at = 0;
    for (const uint8_t *found; (found = memmem(in->data + at, in->len - at, line, LINE)); at = (size_t)(found - in->data) + LINE) {
        if (in->len - (size_t)(found - in->data) < LINE + 3)
            break;
        int status = (int)strtol((const char *)found + LINE, NULL, 10);
        said->status = status;
        said->responses += status > 100;
    }
    size_t keep = in->len - at < LINE + 3 ? in->len - at : LINE + 2;
    memmove(in->data, in->data + in->len - keep, keep);
    in->len = keep;
}

static void take(struct raw_said *said, struct hp_buf *in, bool http2, const uint8_t *data, size_t len)
{
    size_t room = sizeof(said->text) - 1, had = (size_t)said->bytes < room ? (size_t)said->bytes : room;
    size_t n = len < room - had ? len : room - had;
    memcpy(said->text + had, data, n);
    said->text[had + n] = '\0';
    said->bytes += (int64_t)len;
    hp_buf_add(in, data, len);
    if (http2)
        take_frames(said, in);
    else
        take_lines(said, in);
}

void raw_hear(int fd, struct raw_said *said, bool http2, int responses, int ms)
{
    struct hp_buf in = HP_BUF_INIT;
    uint8_t data[1 << 14];
    int64_t until = now_ms() + ms;
    memset(said, 0, sizeof(*said));
    said->goaway = -1;
    while (!responses || said->responses < responses) {
        int64_t left = until - now_ms();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
            break;
        ssize_t n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0) {
            said->closed = true;
            said->reset = n < 0;
            break;
        }
        take(said, &in, http2, data, (size_t)n);
    }
    hp_buf_release(&in);
}

void raw_hear_out(int fd, struct raw_said *said, bool http2, int ms)
{
    raw_hear(fd, said, http2, 0, ms);
    close(fd);
}
