/*
 * http_attacks1.c - see http_attack.h: what may be done to HTTP/1.1, to TCP, and to TLS before it is set up.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "robustness/http_attack.h"

enum { PATIENCE_MS = 20000, IDLE = 500, SLOW = 100, CHURN = 100, HOLDERS = 80 };

#define POST_ACQUIRE "POST " RAW_ACQUIRE " HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"

static const char acquire[] =
    "{\"namespace\":\"default\",\"resources\":[\"" ATTACK_HELD "\"],\"holder\":\"attacker\",\"ttlMs\":\"60000\"}";
static const char read_large[] = "{\"namespace\":\"default\",\"resource\":\"" ATTACK_LARGE "\"}";

/* A connection on which this is said, and heard what is answered and whether it is closed. Releases the buffer. */
static enum round say(struct siege *siege, struct hp_buf *what, int responses, struct raw_said *said)
{
    int fd = raw_connect(siege->port);
    if (fd >= 0) {
        raw_send_buf(fd, what);
        raw_hear(fd, said, false, responses, PATIENCE_MS);
        close(fd);
    }
    hp_buf_release(what);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

static void add_many(struct hp_buf *to, char c, size_t n)
{
    if (!hp_buf_reserve(to, n))
        return;
    memset(to->data + to->len, c, n);
    to->len += n;
}

/* ---- headers ---- */

static enum round huge_target(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    hp_buf_addstr(&out, "GET /");
    add_many(&out, 'a', 100000);
    return say(siege, &out, 0, said);
}

static enum round huge_header(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    hp_buf_addstr(&out, POST_ACQUIRE "x-field: ");
    add_many(&out, 'v', 100000);
    return say(siege, &out, 0, said);
}

static enum round many_headers(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    hp_buf_addstr(&out, POST_ACQUIRE);
    for (int i = 0; i < 10000; i++)
        hp_buf_addstr(&out, "a: b\r\n");
    return say(siege, &out, 0, said);
}

static enum round garbage(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    for (unsigned i = 1; i < 60000; i++)
        hp_buf_addch(&out, (char)(i * i >> 3));
    return say(siege, &out, 0, said);
}

/* ---- bodies ---- */

static enum round chunk_extensions(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    hp_buf_addstr(&out, POST_ACQUIRE "transfer-encoding: chunked\r\n\r\n");
    for (int i = 0; i < 2000; i++)
        hp_buf_addstr(&out, "1;extension=of-no-use-to-anybody-at-all\r\n{\r\n");
    return say(siege, &out, 0, said);
}

/* A body in chunks of a byte each, that is no request in the end. */
static enum round tiny_chunks(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    hp_buf_addstr(&out, POST_ACQUIRE "transfer-encoding: chunked\r\n\r\n");
    for (int i = 0; i < 300000; i++)
        hp_buf_add(&out, "1\r\n{\r\n", 6);
    hp_buf_addstr(&out, "0\r\n\r\n");
    return say(siege, &out, 1, said);
}

static void add_bomb(struct hp_buf *to, size_t size)
{
    z_stream z = {0};
    static const uint8_t spaces[1 << 14] = {0};
    uint8_t out[1 << 14];
    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    for (int rc = Z_OK; rc == Z_OK; hp_buf_add(to, out, sizeof(out) - z.avail_out)) {
        z.next_in = (uint8_t *)(uintptr_t)spaces;
        z.avail_in = z.total_in < size ? sizeof(spaces) : 0;
        z.next_out = out;
        z.avail_out = sizeof(out);
        rc = deflate(&z, z.avail_in ? Z_NO_FLUSH : Z_FINISH);
    }
    deflateEnd(&z);
}

/* 64 MiB of nothing. */
static enum round gzip_bomb(struct siege *siege, struct raw_said *said)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static struct hp_buf bomb;
    struct hp_buf out = HP_BUF_INIT;
    pthread_mutex_lock(&once);
    if (!bomb.len)
        add_bomb(&bomb, 64 << 20);
    pthread_mutex_unlock(&once);
    hp_buf_printf(&out, POST_ACQUIRE "content-encoding: gzip\r\ncontent-length: %zu\r\n\r\n", bomb.len);
    hp_buf_add(&out, bomb.data, bomb.len);
    return say(siege, &out, 1, said);
}

static enum round deep_json(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    hp_buf_printf(&out, POST_ACQUIRE "content-length: %d\r\n\r\n{\"labels\":", 4000010);
    add_many(&out, '[', 4000000);
    return say(siege, &out, 1, said);
}

/* Bodies that stay half, all together more than the server may hold. */
static enum round held_bodies(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    int fds[HOLDERS], n = 0;
    (void)said;
    hp_buf_addstr(&out, POST_ACQUIRE "content-length: 4000000\r\n\r\n");
    add_many(&out, ' ', 2200000);
    for (; n < HOLDERS && !siege_over(siege) && (fds[n] = raw_connect(siege->port)) >= 0; n++)
        raw_send_buf(fds[n], &out); /* it may be closed for what the others hold */
    bool played = n == HOLDERS || siege_over(siege);
    while (n > 0)
        close(fds[--n]);
    hp_buf_release(&out);
    return played ? ROUND_PLAYED : ROUND_FAILED;
}

/* ---- answers ---- */

/* Large answers are asked for, one behind the other, and none is read. */
static enum round pipelined(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    int fd = raw_connect(siege->port);
    (void)said;
    for (int i = 0; i < 1000; i++)
        raw_call1(&out, RAW_READ, read_large);
    if (fd >= 0) {
        raw_read_little(fd);
        raw_send_some(fd, out.data, out.len);
        siege_hold(siege);
        close(fd);
    }
    hp_buf_release(&out);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

/* ---- connections ---- */

/* They come and go: at once, in the middle of a request, before its answer. */
static enum round churn(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    int fd = 0;
    (void)said;
    raw_call1(&out, RAW_ACQUIRE, acquire);
    for (int i = 0; i < CHURN && (fd = raw_connect(siege->port)) >= 0; i++) {
        size_t share = (size_t)(i % 4);
        raw_send(fd, out.data, out.len * share / 3);
        if (i % 8 < 4)
            raw_abort(fd);
        else
            close(fd);
    }
    hp_buf_release(&out);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

static enum round idle(struct siege *siege, struct raw_said *said)
{
    int fds[IDLE], n = 0;
    (void)said;
    while (n < IDLE && (fds[n] = raw_connect(siege->port)) >= 0)
        n++;
    bool played = n == IDLE;
    siege_hold(siege);
    while (n > 0)
        close(fds[--n]);
    return played ? ROUND_PLAYED : ROUND_FAILED;
}

/* Whoever sends no more, after half of a request, is let go. */
static enum round half_request(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    int fd = raw_connect(siege->port);
    raw_call1(&out, RAW_ACQUIRE, acquire);
    if (fd >= 0) {
        raw_send(fd, out.data, out.len - 5);
        shutdown(fd, SHUT_WR);
        raw_hear_out(fd, said, false, PATIENCE_MS);
    }
    hp_buf_release(&out);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

/* ---- slowness ---- */

/* One byte more on each connection that is still open. How many are. */
static int drip(int *fds, int n, char byte, struct raw_said *said)
{
    int open = 0;
    for (int i = 0; i < n; i++) {
        struct pollfd ready = {.fd = fds[i], .events = POLLIN};
        if (fds[i] >= 0 && poll(&ready, 1, 0) > 0) {
            raw_hear_out(fds[i], said, false, PATIENCE_MS);
            fds[i] = -1;
        }
        if (fds[i] >= 0 && byte)
            raw_send(fds[i], &byte, 1);
        open += fds[i] >= 0;
    }
    return open;
}

/* On many connections comes `begin`, and then a byte from time to time, until the server has closed all. */
static enum round trickle(struct siege *siege, struct raw_said *said, const char *begin, size_t begin_len, const char *more)
{
    int fds[SLOW], n = 0;
    while (n < SLOW && (fds[n] = raw_connect(siege->port)) >= 0)
        raw_send(fds[n++], begin, begin_len);
    bool all = n == SLOW;
    for (size_t at = 0; drip(fds, n, more[at], said) && !siege_over(siege); at = more[at] && more[at + 1] ? at + 1 : 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    bool ended = true;
    for (int i = 0; i < n; i++) {
        ended = ended && fds[i] < 0;
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return !all ? ROUND_FAILED : ended ? ROUND_PLAYED : ROUND_CUT;
}

static enum round slow_header(struct siege *siege, struct raw_said *said)
{
    static const char begin[] = "GET /healthz HTTP/1.1\r\n";
    return trickle(siege, said, begin, strlen(begin), "x: y\r\n");
}

static enum round slow_preface(struct siege *siege, struct raw_said *said)
{
    return trickle(siege, said, "PRI * HTTP", 10, "");
}

static enum round slow_handshake(struct siege *siege, struct raw_said *said)
{
    static const char begin[] = {0x16, 3, 1, 2, 0, 1, 0, 1, (char)0xfc, 3, 3}; /* the beginning of a ClientHello of 512 bytes */
    return trickle(siege, said, begin, sizeof(begin), "random");
}

static enum round slow_body(struct siege *siege, struct raw_said *said)
{
    static const char begin[] = POST_ACQUIRE "content-length: 100000\r\n\r\n{";
    return trickle(siege, said, begin, strlen(begin), "     ");
}

const struct attack attacks_http1[] = {
    {"huge target", ATTACK_STATUS, 414, huge_target},
    {"huge header, HTTP/1.1", ATTACK_STATUS, 431, huge_header},
    {"many headers, HTTP/1.1", ATTACK_STATUS, 431, many_headers},
    {"garbage", ATTACK_STATUS, 400, garbage},
    {"chunk extensions", ATTACK_STATUS, 400, chunk_extensions},
    {"chunks of a byte", ATTACK_STATUS, 400, tiny_chunks},
    {"gzip bomb", ATTACK_STATUS, 400, gzip_bomb},
    {"deep JSON", ATTACK_STATUS, 400, deep_json},
    {"bodies that stay half", ATTACK_LEFT, 0, held_bodies},
    {"pipelined, never read", ATTACK_LEFT, 0, pipelined},
    {"churn", ATTACK_LEFT, 0, churn},
    {"half a request, half-closed", ATTACK_CLOSED, 0, half_request},
    {"1,000 idle", ATTACK_LEFT, 0, idle},
    {"slow header", ATTACK_STATUS, 408, slow_header},
    {"slow preface", ATTACK_CLOSED, 0, slow_preface},
    {"slow handshake", ATTACK_CLOSED, 0, slow_handshake},
    {"slow body", ATTACK_LEFT, 0, slow_body},
    {0},
};
