/*
 * http_attacks2.c - see http_attack.h: what may be done to HTTP/2.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "robustness/http_attack.h"

enum {
    FLOOD = 3000, /* frames: few enough that a server which hears no more of them can still be understood */
    PATIENCE_MS = 20000,
    WINDOW = 65535,
    STREAMS = 120
};

static const char acquire[] =
    "{\"namespace\":\"default\",\"resources\":[\"" ATTACK_HELD "\"],\"holder\":\"attacker\",\"ttlMs\":\"60000\"}";
static const char wait_long[] = "{\"namespace\":\"default\",\"resources\":[\"" ATTACK_HELD
                                "\"],\"holder\":\"attacker\",\"ttlMs\":\"60000\",\"waitMs\":\"25000\"}";
static const char read_large[] = "{\"namespace\":\"default\",\"resource\":\"" ATTACK_LARGE "\"}";

/* A connection on which this is said, and what becomes of it is heard. Releases the buffer. */
static enum round say(struct siege *siege, struct hp_buf *what, struct raw_said *said)
{
    int fd = raw_connect(siege->port);
    if (fd >= 0) {
        raw_send_buf(fd, what); /* it may be closed before it has all */
        raw_hear_out(fd, said, true, PATIENCE_MS);
    }
    hp_buf_release(what);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

/* The same, but nothing is read, and it stays open. */
static enum round say_deaf(struct siege *siege, struct hp_buf *what)
{
    int fd = raw_connect(siege->port);
    if (fd >= 0) {
        raw_read_little(fd);
        raw_send_some(fd, what->data, what->len);
        siege_hold(siege);
        close(fd);
    }
    hp_buf_release(what);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

/* ---- floods ---- */

static enum round rapid_reset(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    raw_hello(&out, WINDOW);
    for (uint32_t i = 0; i < FLOOD; i++) {
        raw_headers(&out, 2 * i + 1, RAW_ACQUIRE, 0);
        raw_number_frame(&out, RAW_RST_STREAM, 2 * i + 1, 8);
    }
    return say(siege, &out, said);
}

/* Each call is whole, so that the server has begun to work on it. */
static enum round rapid_calls(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    raw_hello(&out, WINDOW);
    for (uint32_t i = 0; i < FLOOD; i++) {
        raw_call(&out, 2 * i + 1, RAW_ACQUIRE, acquire);
        raw_number_frame(&out, RAW_RST_STREAM, 2 * i + 1, 8);
    }
    return say(siege, &out, said);
}

/* The server is made to do the resetting (CVE-2025-8671): a stream's window is opened beyond what there is. */
static enum round made_you_reset(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    raw_hello(&out, WINDOW);
    for (uint32_t i = 0; i < FLOOD; i++) {
        raw_call(&out, 2 * i + 1, RAW_ACQUIRE, wait_long);
        raw_number_frame(&out, RAW_WINDOW_UPDATE, 2 * i + 1, 0x7fffffff);
    }
    return say(siege, &out, said);
}

static enum round flood_of(struct siege *siege, struct raw_said *said, enum raw_type type, int flags, uint32_t stream,
                           const void *payload, size_t len)
{
    struct hp_buf out = HP_BUF_INIT;
    raw_hello(&out, WINDOW);
    if (stream)
        raw_headers(&out, stream, RAW_ACQUIRE, 0);
    for (int i = 0; i < FLOOD; i++)
        raw_frame(&out, type, flags, stream, payload, len);
    return say(siege, &out, said);
}

static enum round pings(struct siege *siege, struct raw_said *said)
{
    return flood_of(siege, said, RAW_PING, 0, 0, "8 bytes.", 8);
}

static enum round settings(struct siege *siege, struct raw_said *said)
{
    return flood_of(siege, said, RAW_SETTINGS, 0, 0, NULL, 0);
}

static enum round window_updates(struct siege *siege, struct raw_said *said)
{
    return flood_of(siege, said, RAW_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4);
}

static enum round stream_window_updates(struct siege *siege, struct raw_said *said)
{
    return flood_of(siege, said, RAW_WINDOW_UPDATE, 0, 1, "\0\0\0\1", 4);
}

static enum round priorities(struct siege *siege, struct raw_said *said)
{
    return flood_of(siege, said, RAW_PRIORITY, 0, 1, "\0\0\0\0\1", 5);
}

static enum round empty_data(struct siege *siege, struct raw_said *said)
{
    return flood_of(siege, said, RAW_DATA, 0, 1, NULL, 0);
}

/* They mean nothing, and must be passed over (RFC 9113, 5.5): as many as there is time for. */
static enum round unknown_frames(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    int fd = raw_connect(siege->port);
    (void)said;
    raw_hello(&out, WINDOW);
    bool going = fd >= 0 && raw_send_buf(fd, &out);
    hp_buf_reset(&out);
    for (int i = 0; i < FLOOD; i++)
        raw_frame(&out, (enum raw_type)0x42, 0, 0, "?", 1);
    while (going && !siege_over(siege))
        going = raw_send_buf(fd, &out);
    if (fd >= 0)
        close(fd);
    hp_buf_release(&out);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

static enum round continuations(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT, block = HP_BUF_INIT;
    raw_hello(&out, WINDOW);
    raw_fields(&block, RAW_ACQUIRE, "application/json");
    raw_frame(&out, RAW_HEADERS, 0, 1, block.data, block.len);
    hp_buf_reset(&block);
    raw_field(&block, "a", "b");
    for (int i = 0; i < FLOOD; i++)
        raw_frame(&out, RAW_CONTINUATION, 0, 1, block.data, block.len);
    hp_buf_release(&block);
    return say(siege, &out, said);
}

/* ---- headers ---- */

static enum round with_fields(struct siege *siege, struct raw_said *said, int n, size_t size)
{
    struct hp_buf out = HP_BUF_INIT, block = HP_BUF_INIT;
    char value[16000];
    memset(value, 'v', sizeof(value));
    value[size] = '\0';
    raw_hello(&out, WINDOW);
    raw_fields(&block, RAW_ACQUIRE, "application/json");
    for (int i = 0; i < n; i++)
        raw_field(&block, "x-field", value);
    for (size_t at = 0; at < block.len; at += 16000) {
        size_t len = block.len - at < 16000 ? block.len - at : 16000;
        raw_frame(&out, at ? RAW_CONTINUATION : RAW_HEADERS, at + len == block.len ? RAW_END_HEADERS | RAW_END_STREAM * !at : 0, 1,
                  block.data + at, len);
    }
    hp_buf_release(&block);
    int fd = raw_connect(siege->port);
    if (fd >= 0) {
        raw_send_buf(fd, &out);
        raw_hear(fd, said, true, 1, PATIENCE_MS);
        close(fd);
    }
    hp_buf_release(&out);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

static enum round large_header(struct siege *siege, struct raw_said *said)
{
    return with_fields(siege, said, 2, 10000);
}

static enum round huge_header(struct siege *siege, struct raw_said *said)
{
    return with_fields(siege, said, 6, 15000);
}

static enum round many_headers(struct siege *siege, struct raw_said *said)
{
    return with_fields(siege, said, 2500, 1);
}

/* One field is remembered (RFC 7541, 6.2.1) and then named by a byte each, 12,000 times: 48 MB of header in 16 kB. */
static enum round hpack_bomb(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT, block = HP_BUF_INIT;
    char value[4000], bytes[12000];
    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    memset(bytes, 0xbe, sizeof(bytes)); /* the newest of the dynamic table: 62 */
    raw_hello(&out, WINDOW);
    raw_fields(&block, RAW_ACQUIRE, "application/json");
    size_t at = block.len;
    raw_field(&block, "x-bomb", value);
    block.data[at] = 0x40;
    hp_buf_add(&block, bytes, sizeof(bytes));
    raw_frame(&out, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1, block.data, block.len);
    hp_buf_release(&block);
    return say(siege, &out, said);
}

/* ---- windows ---- */

static enum round window_overflow(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    raw_hello(&out, WINDOW);
    raw_number_frame(&out, RAW_WINDOW_UPDATE, 0, 0x7fffffff);
    return say(siege, &out, said);
}

static void ask_for_large(struct hp_buf *out, uint32_t window)
{
    raw_hello(out, window);
    for (uint32_t i = 0; i < STREAMS; i++)
        raw_call(out, 2 * i + 1, RAW_READ, read_large);
}

/* Large answers are asked for, and no window is open for any. */
static enum round zero_windows(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    (void)said;
    ask_for_large(&out, 0);
    return say_deaf(siege, &out);
}

/* The same of as many values, which the database gives all together. */
static enum round many_large(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    char json[128];
    (void)said;
    raw_hello(&out, 0);
    for (uint32_t i = 0; i < ATTACK_LARGE_MANY; i++) {
        snprintf(json, sizeof(json), "{\"namespace\":\"default\",\"resource\":\"" ATTACK_LARGE "-%u\"}", i);
        raw_call(&out, 2 * i + 1, RAW_READ, json);
    }
    return say_deaf(siege, &out);
}

/* Each SETTINGS opens all windows by one byte more: 15 bytes bring about 120 frames. */
static enum round tiny_windows(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    int fd = raw_connect(siege->port);
    ask_for_large(&out, 1);
    if (fd >= 0 && raw_send_buf(fd, &out))
        raw_hear(fd, said, true, STREAMS, 1000); /* all have answers to give */
    for (uint32_t window = 2; fd >= 0 && !said->closed && !siege_over(siege); window++) {
        hp_buf_reset(&out);
        raw_settings_window(&out, window);
        if (!raw_send_buf(fd, &out))
            break;
        raw_hear(fd, said, true, 0, 1);
    }
    if (fd >= 0)
        close(fd);
    hp_buf_release(&out);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

/* The windows are open, but nobody reads. */
static enum round never_read(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    (void)said;
    raw_hello(&out, 1 << 30);
    raw_number_frame(&out, RAW_WINDOW_UPDATE, 0, 1 << 30);
    for (uint32_t i = 0; i < FLOOD; i++)
        raw_call(&out, 2 * i + 1, i % 100 ? RAW_ACQUIRE : RAW_READ, i % 100 ? acquire : read_large);
    return say_deaf(siege, &out);
}

/* ---- the rest ---- */

static enum round garbage(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    raw_hello(&out, WINDOW);
    for (int i = 0; i < 1000; i++)
        hp_buf_printf(&out, "%d bottles of beer on the wall, ", i);
    return say(siege, &out, said);
}

/* Calls that wait for long, and a reset of the whole connection. */
static enum round waiters_gone(struct siege *siege, struct raw_said *said)
{
    struct hp_buf out = HP_BUF_INIT;
    int fd = raw_connect(siege->port);
    raw_hello(&out, WINDOW);
    for (uint32_t i = 0; i < STREAMS; i++)
        raw_call(&out, 2 * i + 1, RAW_ACQUIRE, wait_long);
    if (fd >= 0 && raw_send_buf(fd, &out))
        raw_hear(fd, said, true, 0, 20);
    if (fd >= 0)
        raw_abort(fd);
    hp_buf_release(&out);
    return fd >= 0 ? ROUND_PLAYED : ROUND_FAILED;
}

enum { IDLE = 500 };

static enum round idle2(struct siege *siege, struct raw_said *said)
{
    int fds[IDLE], n = 0;
    struct hp_buf out = HP_BUF_INIT;
    (void)said;
    raw_hello(&out, WINDOW);
    for (; n < IDLE && (fds[n] = raw_connect(siege->port)) >= 0; n++)
        raw_send_buf(fds[n], &out);
    siege_hold(siege);
    for (int i = 0; i < n; i++)
        close(fds[i]);
    hp_buf_release(&out);
    return n == IDLE ? ROUND_PLAYED : ROUND_FAILED;
}

const struct attack attacks_http2[] = {
    {"rapid reset", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, rapid_reset},
    {"rapid reset of whole calls", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, rapid_calls},
    {"made to reset", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, made_you_reset},
    {"PING flood", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, pings},
    {"SETTINGS flood", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, settings},
    {"WINDOW_UPDATE flood", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, window_updates},
    {"WINDOW_UPDATE flood, stream", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, stream_window_updates},
    {"PRIORITY flood", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, priorities},
    {"empty DATA flood", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, empty_data},
    {"unknown frames", ATTACK_LEFT, 0, unknown_frames},
    {"CONTINUATION flood", ATTACK_CLOSED, 0, continuations},
    {"large header", ATTACK_STATUS, 431, large_header},
    {"huge header", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, huge_header},
    {"many headers", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, many_headers},
    {"HPACK bomb", ATTACK_GOAWAY, RAW_ENHANCE_YOUR_CALM, hpack_bomb},
    {"window overflow", ATTACK_GOAWAY, RAW_FLOW_CONTROL_ERROR, window_overflow},
    {"zero windows", ATTACK_LEFT, 0, zero_windows},
    {"zero windows, many values", ATTACK_LEFT, 0, many_large},
    {"tiny windows", ATTACK_LEFT, 0, tiny_windows},
    {"never read", ATTACK_LEFT, 0, never_read},
    {"garbage in HTTP/2", ATTACK_CLOSED, 0, garbage},
    {"waiters gone", ATTACK_LEFT, 0, waiters_gone},
    {"1,000 idle, HTTP/2", ATTACK_LEFT, 0, idle2},
    {0},
};
