/*
 * http2_test.c - the HTTP port as clients of HTTP/2 meet it: nghttp2's, and rude ones that send frames of their own.
 */
#include "harness/harness.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/net/web.h"

enum { MB = 1 << 20, SOON_MS = 200 };

static int get(struct web2 *client, const char *path)
{
    return web2_ask(client, "GET", path, 0, NULL, NULL);
}

static const struct web2_stream *finish(struct web2 *client, int stream)
{
    web2_await_closed(client, stream);
    return web2_stream(client, stream);
}

static void expect_ok(struct web2 *client, int id)
{
    const struct web2_stream *stream = finish(client, id);
    assert_int_equal(stream->status, 200);
    assert_true(stream->ended);
    assert_int_equal(stream->code, NGHTTP2_NO_ERROR);
}

static void release(struct web *web)
{
    web_ask(web, "GET /release HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
}

/* ---- answers ---- */

static void answers(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    int ok = get(client, "/ok?x"), head = web2_ask(client, "HEAD", "/ok", 0, NULL, NULL),
        echo = web2_ask(client, "POST", "/echo", 5, NULL, NULL);
    int bytes = get(client, "/bytes?5000000"), reset = get(client, "/reset"),
        eat = web2_ask(client, "POST", "/eat", 3000000, NULL, NULL);
    expect_ok(client, ok);
    assert_string_equal(web2_stream(client, ok)->body, "ok");
    assert_string_equal(web2_stream(client, ok)->trailer, "bye");
    expect_ok(client, head);
    assert_int_equal(web2_stream(client, head)->n_body, 0);
    expect_ok(client, echo);
    assert_string_equal(web2_stream(client, echo)->body, "bbbbb");
    expect_ok(client, bytes);
    assert_int_equal(web2_stream(client, bytes)->n_body, 5000000);
    assert_int_equal(finish(client, reset)->code, 8);
    expect_ok(client, eat);
    assert_string_equal(web2_stream(client, eat)->body, "3000000");
    web_await(web, WEB_COMPLETE, 5);
    web_await(web, WEB_CUT_OFF, 1);
    web2_close(client);
    web_stop(web);
}

static void many(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    for (int round = 0; round < 30; round++) {
        int id = 0;
        for (int i = 0; i < 100; i++)
            id = web2_ask(client, i % 2 ? "POST" : "GET", i % 2 ? "/echo" : "/ok", i % 2, NULL, NULL);
        for (int i = 0; i < 100; i++)
            expect_ok(client, id - 2 * i);
    }
    web_await(web, WEB_COMPLETE, 3000);
    web2_close(client);
    web_stop(web);
}

/* An answer before the request is whole ends it: the rest isn't wanted, and that is no error. */
static void answered_early(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    int early = web2_ask(client, "POST", "/early", -1, NULL, NULL);
    const struct web2_stream *stream = finish(client, early);
    assert_int_equal(stream->status, 413);
    assert_true(stream->ended);
    assert_int_equal(stream->code, NGHTTP2_NO_ERROR);
    web_await(web, WEB_COMPLETE, 1);
    expect_ok(client, get(client, "/ok"));
    early = web2_ask(client, "POST", "/early", 3000000, NULL, NULL); /* and what is on its way uses up no window for good */
    assert_int_equal(finish(client, early)->status, 413);
    expect_ok(client, web2_ask(client, "POST", "/eat", 3000000, NULL, NULL));
    web2_close(client);
    web_stop(web);
}

static void expectations(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    int eat = web2_ask(client, "POST", "/eat", 5, "expect", "100-continue");
    expect_ok(client, eat);
    assert_int_equal(web2_stream(client, eat)->n_informational, 1);
    int early = web2_ask(client, "POST", "/early", 5, "expect", "100-continue");
    assert_int_equal(finish(client, early)->status, 413);
    assert_int_equal(web2_stream(client, early)->n_informational, 0);
    web2_close(client);
    web_stop(web);
}

static char *long_text(size_t n)
{
    static char text[100001];
    memset(text, 'a', n);
    text[n] = '\0';
    return text;
}

static void large_headers(void **state)
{
    struct net_http_config cfg = {.max_headers = 2000};
    struct web *web = web_start(&cfg);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    expect_ok(client, web2_ask(client, "GET", "/ok", 0, "x", long_text(1500)));
    assert_int_equal(finish(client, web2_ask(client, "GET", "/ok", 0, "x", long_text(2000)))->status, 431);
    expect_ok(client, get(client, "/ok"));
    web2_ask(client, "GET", "/ok", 0, "x", long_text(9000)); /* that is no mistake any more */
    web2_await_end(client);
    assert_int_equal(web2_goaway_code(client), NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(web_counted(web, WEB_REQUESTS), 2);
    web2_close(client);
    web_stop(web);
}

/* ---- flow control ---- */

/* What isn't consumed isn't sent: so much of one request, and so much of all. */
static void bodies_not_consumed(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    int first = 0;
    (void)state;
    first = web2_ask(client, "POST", "/hold", 4 * MB, NULL, NULL);
    while (web_counted(web, WEB_BODY_BYTES) < 128 << 10)
        expect_ok(client, get(client, "/ok"));
    for (int i = 0; i < 10; i++)
        expect_ok(client, get(client, "/ok"));
    assert_int_equal(web_counted(web, WEB_BODY_BYTES), 128 << 10);
    for (int i = 0; i < 19; i++)
        web2_ask(client, "POST", "/hold", 4 * MB, NULL, NULL);
    while (web_counted(web, WEB_BODY_BYTES) < MB)
        expect_ok(client, get(client, "/ok"));
    for (int i = 0; i < 10; i++)
        expect_ok(client, get(client, "/ok"));
    assert_int_equal(web_counted(web, WEB_BODY_BYTES), MB);
    assert_in_range(web_stats(web).bytes, MB, MB + (64 << 10));
    release(web);
    for (int i = 0; i < 20; i++) /* answered, and the rest isn't wanted */
        assert_string_equal(finish(client, first + 2 * i)->trailer, "bye");
    expect_ok(client, web2_ask(client, "POST", "/eat", 4 * MB, NULL, NULL));
    web2_close(client);
    web_stop(web);
}

static bool has_begun(struct web2 *client, int stream)
{
    return web2_stream(client, stream)->status;
}

/* What the peer's windows don't let pass waits, and no more of it is written. */
static void responses_not_read(void **state)
{
    struct net_http_config cfg = {.max_unread = 100000};
    struct web2_options options = {.shut = true, .window = 10000};
    struct web *web = web_start(&cfg);
    struct web2 *client = web2_connect(web, &options);
    int ids[8];
    (void)state;
    for (int i = 0; i < 8; i++)
        ids[i] = get(client, "/bytes?10000000");
    for (int i = 0; i < 8; i++)
        web2_pump(client, has_begun, ids[i]);
    web_await(web, WEB_TOLD_FULL, 8);
    for (int i = 0; i < 10; i++) {
        int head = web2_ask(client, "HEAD", "/ok", 0, NULL, NULL);
        expect_ok(client, head);
    }
    assert_in_range(web_counted(web, WEB_WRITTEN), 8 * 100000, 8 * (100000 + 10000 + 2 * 16384));
    assert_true(web_stats(web).bytes <= 8 * (100000 + 16384 + 5000));
    for (int i = 0; i < 8; i++)
        web2_cancel(client, ids[i]);
    web2_send(client);
    web_await(web, WEB_CUT_OFF, 8);
    assert_int_equal(web_stats(web).bytes, 0);
    web2_close(client);
    web_stop(web);
}

/* ---- time ---- */

/* HEADERS of a GET for /ok as stream 3, without the flag that ends them; HPACK by static indexes and a literal path. */
static const uint8_t open_headers[] = {0, 0, 10, 1, 1, 0, 0, 0, 3, 0x82, 0x86, 0x04, 3, '/', 'o', 'k', 0x01, 1, 'h'};

static void late_headers(void **state)
{
    struct net_http_config cfg = {.header_ms = SOON_MS};
    struct web *web = web_start(&cfg);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    expect_ok(client, get(client, "/ok")); /* so that settings are settled, and nothing comes in between */
    web2_say(client, open_headers, sizeof(open_headers));
    web2_await_end(client);
    web2_close(client);
    client = web2_connect(web, NULL);
    expect_ok(client, get(client, "/ok"));
    web2_say(client, open_headers, sizeof(open_headers) - 4); /* not even the frame is whole */
    web2_await_end(client);
    assert_int_equal(web_counted(web, WEB_REQUESTS), 2);
    assert_int_equal(web_stats(web).protocol_errors, 0);
    assert_int_equal(web_stats(web).timeouts, 2);
    web2_close(client);
    web_stop(web);
}

static void late_bodies(void **state)
{
    struct net_http_config cfg = {.body_ms = SOON_MS};
    struct web *web = web_start(&cfg);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    int held = get(client, "/hold"), eat = web2_ask(client, "POST", "/eat", -1, NULL, NULL);
    assert_int_equal(finish(client, eat)->code, NGHTTP2_CANCEL);
    web_await(web, WEB_CUT_OFF, 1);
    expect_ok(client, get(client, "/ok")); /* the connection goes on, and so do the others of it */
    release(web);
    expect_ok(client, held);
    assert_int_equal(web_stats(web).timeouts, 1);
    web2_close(client);
    web_stop(web);
}

/* Windows that stay shut: the responses are given up, not the connection. */
static void zero_windows(void **state)
{
    struct net_http_config cfg = {.body_ms = SOON_MS};
    struct web2_options options = {.window = -1};
    struct web *web = web_start(&cfg);
    struct web2 *client = web2_connect(web, &options);
    int ids[5];
    (void)state;
    for (int i = 0; i < 5; i++)
        ids[i] = get(client, i % 2 ? "/ok" : "/bytes?1000000");
    for (int i = 0; i < 5; i++) {
        const struct web2_stream *stream = finish(client, ids[i]);
        assert_int_equal(stream->status, 200);
        assert_int_equal(stream->n_body, 0);
        assert_int_equal(stream->code, NGHTTP2_CANCEL);
    }
    web_await(web, WEB_CUT_OFF, 5);
    assert_int_equal(web_stats(web).timeouts, 5);
    assert_int_equal(web_stats(web).bytes, 0);
    expect_ok(client, web2_ask(client, "HEAD", "/ok", 0, NULL, NULL));
    web2_close(client);
    web_stop(web);
}

static void idle_ones(void **state)
{
    struct net_http_config cfg = {.idle_ms = SOON_MS};
    struct web *web = web_start(&cfg);
    struct web2 *client = web2_connect(web, NULL), *holding = web2_connect(web, NULL);
    (void)state;
    int held = get(holding, "/hold");
    web2_send(holding);
    expect_ok(client, get(client, "/ok"));
    web2_await_end(client);
    assert_int_equal(web2_goaways(client), 1);
    assert_int_equal(web2_goaway_code(client), NGHTTP2_NO_ERROR);
    release(web);
    expect_ok(holding, held);
    web2_await_end(holding);
    assert_int_equal(web_stats(web).timeouts, 0);
    web2_close(client);
    web2_close(holding);
    web_stop(web);
}

/* ---- ends ---- */

static void cancelled(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    int held = get(client, "/hold"), kept = get(client, "/keep?1000");
    web2_send(client);
    web_await(web, WEB_REQUESTS, 2);
    web2_cancel(client, held);
    web2_send(client);
    web_await(web, WEB_CUT_OFF, 1);
    assert_in_range(web_stats(web).bytes, 1000, 6000);
    release(web);
    expect_ok(client, kept);
    get(client, "/hold");
    web2_send(client);
    web_await(web, WEB_REQUESTS, 4);
    web2_close(client); /* so is what was in progress when its connection ends */
    web_await(web, WEB_CUT_OFF, 2);
    web_stop(web);
}

static bool went_away(struct web2 *client, int n)
{
    return web2_goaways(client) >= n;
}

/* First: no more requests soon; then, when that has come to the client: the last one that is served. */
static void drained(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL), *idle = web2_connect(web, NULL);
    (void)state;
    int held = get(client, "/hold");
    web2_send(client);
    expect_ok(idle, get(idle, "/ok"));
    web_await(web, WEB_REQUESTS, 2);
    web_drain(web);
    int late = get(client, "/hold"); /* it had not heard of it */
    web2_send(client);
    web2_pump(client, went_away, 1);
    assert_int_equal(web2_last_stream(client), 0x7fffffff);
    web2_pump(client, went_away, 2);
    assert_int_equal(web2_last_stream(client), late);
    web2_await_end(idle);
    assert_int_equal(web_connect(web), -1);
    assert_false(web_is_idle(web));
    web2_cancel(client, held);
    web2_send(client);
    web_await(web, WEB_CUT_OFF, 1);
    assert_false(web2_ended(client));
    web2_cancel(client, late);
    web2_await_end(client);
    for (int i = 0; !web_is_idle(web); i++) {
        assert_true(i < T_PATIENCE_MS / 10);
        t_sleep_ms(10);
    }
    web2_close(client);
    web2_close(idle);
    web_stop(web);
}

/* A client that doesn't answer the PING is told the last stream all the same. */
static void drained_deaf(void **state)
{
    struct web *web = web_start(NULL);
    int fd = web_connect(web);
    char bytes[4096];
    size_t n = 0;
    (void)state;
    assert_true(web_send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33));
    assert_true(recv(fd, bytes, sizeof(bytes), 0) > 0);
    web_drain(web);
    for (ssize_t got; (got = recv(fd, bytes + n, sizeof(bytes) - n, 0)) > 0;)
        n += (size_t)got;
    assert_true(n >= 2 * 17 + 17);
    assert_memory_equal(bytes + n - 17, "\0\0\10\7\0\0\0\0\0\0\0\0\0\0\0\0\0", 17);
    close(fd);
    web_stop(web);
}

/* ---- floods ---- */

enum { FLOOD = 20000 };

/* So many frames of a kind, and the connection has ended, and others don't feel it. */
static void flood(struct web *web, const void *frame, size_t len, uint32_t code)
{
    struct web2 *client = web2_connect(web, NULL), *other = web2_connect(web, NULL);
    uint8_t *many_frames = malloc(len * 100);
    for (size_t i = 0; i < 100; i++)
        memcpy(many_frames + i * len, frame, len);
    for (int i = 0; i < FLOOD / 100 && !web2_ended(client); i++) {
        web2_say(client, many_frames, 100 * len);
        if (i % 50 == 0)
            expect_ok(other, get(other, "/ok"));
    }
    web2_await_end(client);
    if (web2_goaways(client)) /* it may be lost to a reset, since more was sent than was read */
        assert_int_equal(web2_goaway_code(client), code);
    expect_ok(other, get(other, "/ok"));
    free(many_frames);
    web2_close(client);
    web2_close(other);
}

static void floods(void **state)
{
    static const uint8_t ping[17] = {0, 0, 8, 6}, settings[9] = {0, 0, 0, 4};
    static const uint8_t priority[14] = {0, 0, 5, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 7},
                         window[13] = {0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    struct web *web = web_start(NULL);
    (void)state;
    flood(web, ping, sizeof(ping), NGHTTP2_ENHANCE_YOUR_CALM);
    flood(web, settings, sizeof(settings), NGHTTP2_ENHANCE_YOUR_CALM);
    flood(web, priority, sizeof(priority), NGHTTP2_ENHANCE_YOUR_CALM);
    flood(web, window, sizeof(window), NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(web_stats(web).protocol_errors >= 4);
    web_stop(web);
}

/* Streams opened and cancelled at once (CVE-2023-44487): each is told to its handler, and there is an end to them. */
static void rapid_reset(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    web2_send(client);
    for (int i = 0; i < 4000 && !web2_ended(client); i++) {
        uint8_t frames[sizeof(open_headers) + 13];
        memcpy(frames, open_headers, sizeof(open_headers));
        frames[4] = 5;
        frames[7] = (uint8_t)((2 * i + 1) >> 8);
        frames[8] = (uint8_t)(2 * i + 1);
        web2_frame(frames + sizeof(open_headers), 4, NGHTTP2_RST_STREAM, 0, 2 * i + 1);
        memcpy(frames + sizeof(open_headers) + 9, "\0\0\0\10", 4);
        web2_say(client, frames, sizeof(frames));
    }
    web2_await_end(client);
    assert_in_range(web_counted(web, WEB_REQUESTS), 500, 3000);
    web2_close(client);
    web_stop(web);
}

/* Streams that the server must reset for what the client did on them (CVE-2025-8671). */
static void made_to_reset(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    for (int i = 0; i < 4000 && !web2_ended(client); i++) {
        uint8_t frames[sizeof(open_headers) + 13];
        memcpy(frames, open_headers, sizeof(open_headers));
        frames[4] = 5;
        frames[7] = (uint8_t)((2 * i + 1) >> 8);
        frames[8] = (uint8_t)(2 * i + 1);
        web2_frame(frames + sizeof(open_headers), 4, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1);
        memset(frames + sizeof(open_headers) + 9, 0, 4); /* by nothing: that is an error of the stream */
        web2_say(client, frames, sizeof(frames));
    }
    web2_await_end(client);
    assert_true(web_counted(web, WEB_REQUESTS) < 3000);
    web2_close(client);
    web_stop(web);
}

/* A header that never ends: as CONTINUATIONs of little, and as much as nothing compressed can make. */
static void endless_headers(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    uint8_t frame[9 + 16];
    (void)state;
    expect_ok(client, get(client, "/ok"));
    web2_say(client, open_headers, sizeof(open_headers));
    web2_frame(frame, 1, NGHTTP2_CONTINUATION, 0, 3);
    frame[9] = 0x90; /* accept-encoding: gzip, deflate */
    for (int i = 0; i < 1000 && !web2_ended(client); i++)
        web2_say(client, frame, 10);
    web2_await_end(client);
    web2_close(client);
    client = web2_connect(web, NULL);
    expect_ok(client, get(client, "/ok"));
    uint8_t *bomb = malloc(9 + 16384);
    web2_frame(bomb, 16384, NGHTTP2_HEADERS, 4, 3);
    memset(bomb + 9, 0x90, 16384);
    web2_say(client, bomb, 9 + 16384);
    free(bomb);
    web2_await_end(client);
    assert_int_equal(web2_goaway_code(client), NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(web_counted(web, WEB_REQUESTS), 2);
    web2_close(client);
    web_stop(web);
}

/* DATA of nothing, which costs no window. */
static void empty_data(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    uint8_t frame[9];
    (void)state;
    web2_ask(client, "POST", "/eat", -1, NULL, NULL);
    web2_send(client);
    web2_frame(frame, 0, NGHTTP2_DATA, 0, 1);
    for (int i = 0; i < FLOOD && !web2_ended(client); i++)
        web2_say(client, frame, sizeof(frame));
    web2_await_end(client);
    web_await(web, WEB_CUT_OFF, 1);
    web2_close(client);
    web_stop(web);
}

static bool has_pongs(struct web2 *client, int n)
{
    return web2_pongs(client) >= n;
}

/* A client that asks and measures as it works isn't taken for a flood. */
static void no_flood(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    for (int i = 0; i < 4000; i += 20) {
        int id = 0;
        for (int k = 0; k < 20; k++) {
            id = get(client, "/bytes?1");
            web2_ping(client);
        }
        expect_ok(client, id);
        web2_pump(client, has_pongs, i + 20);
    }
    assert_int_equal(web2_goaways(client), 0);
    web2_close(client);
    web_stop(web);
}

/* More streams at a time than there may be: those above are refused, harmlessly. */
static void too_many_streams(void **state)
{
    struct net_http_config cfg = {.max_streams = 10};
    struct web *web = web_start(&cfg);
    struct web2 *client = web2_connect(web, NULL);
    int ids[15], n_refused = 0;
    (void)state;
    for (int i = 0; i < 15; i++)
        ids[i] = get(client, "/hold");
    for (int i = 10; i < 15; i++)
        n_refused += finish(client, ids[i])->code == NGHTTP2_REFUSED_STREAM; /* all were sent before the limit was known */
    assert_int_equal(n_refused, 5);
    web_await(web, WEB_REQUESTS, 10);
    release(web);
    for (int i = 0; i < 10; i++)
        expect_ok(client, ids[i]);
    expect_ok(client, get(client, "/ok"));
    assert_int_equal(web_counted(web, WEB_REQUESTS), 12);
    web2_close(client);
    web_stop(web);
}

/* A client that sends and never reads: what must be said to it doesn't pile up. */
static void sends_and_never_reads(void **state)
{
    struct net_http_config cfg = {.body_ms = 1000};
    struct web *web = web_start(&cfg);
    int fd = web_connect(web), small = 4096;
    static const uint8_t ping[17] = {0, 0, 8, 6};
    (void)state;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_true(web_send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33));
    for (int i = 0; web_stats(web).connections; i++) {
        for (int k = 0; k < 1000 && send(fd, ping, sizeof(ping), MSG_DONTWAIT | MSG_NOSIGNAL) > 0; k++)
            ;
        assert_true(i < T_PATIENCE_MS / 5 && web_stats(web).bytes < 2 * MB);
        t_sleep_ms(5);
    }
    close(fd);
    web_stop(web);
}

/* ---- memory ---- */

static void memory_fails(void **state)
{
    bool failed = true;
    (void)state;
    for (int n = 1; failed; n++) {
        struct web *web = web_start(NULL);
        web_fail_memory(web, n);
        struct web2 *client = web2_connect(web, NULL);
        int ok = get(client, "/ok"), echo = web2_ask(client, "POST", "/echo", 30000, "x", long_text(500));
        web2_await_closed(client, ok);
        web2_await_closed(client, echo);
        failed = web_memory_failed(web);
        web_fail_memory(web, 0);
        if (!failed) {
            expect_ok(client, ok);
            expect_ok(client, echo);
        }
        web2_close(client);
        client = web2_connect(web, NULL);
        expect_ok(client, get(client, "/ok"));
        web2_close(client);
        web_stop(web);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(answers, t_teardown),
                                       cmocka_unit_test_teardown(many, t_teardown),
                                       cmocka_unit_test_teardown(answered_early, t_teardown),
                                       cmocka_unit_test_teardown(expectations, t_teardown),
                                       cmocka_unit_test_teardown(large_headers, t_teardown),
                                       cmocka_unit_test_teardown(bodies_not_consumed, t_teardown),
                                       cmocka_unit_test_teardown(responses_not_read, t_teardown),
                                       cmocka_unit_test_teardown(late_headers, t_teardown),
                                       cmocka_unit_test_teardown(late_bodies, t_teardown),
                                       cmocka_unit_test_teardown(zero_windows, t_teardown),
                                       cmocka_unit_test_teardown(idle_ones, t_teardown),
                                       cmocka_unit_test_teardown(cancelled, t_teardown),
                                       cmocka_unit_test_teardown(drained, t_teardown),
                                       cmocka_unit_test_teardown(drained_deaf, t_teardown),
                                       cmocka_unit_test_teardown(floods, t_teardown),
                                       cmocka_unit_test_teardown(rapid_reset, t_teardown),
                                       cmocka_unit_test_teardown(made_to_reset, t_teardown),
                                       cmocka_unit_test_teardown(endless_headers, t_teardown),
                                       cmocka_unit_test_teardown(empty_data, t_teardown),
                                       cmocka_unit_test_teardown(no_flood, t_teardown),
                                       cmocka_unit_test_teardown(too_many_streams, t_teardown),
                                       cmocka_unit_test_teardown(sends_and_never_reads, t_teardown),
                                       cmocka_unit_test_teardown(memory_fails, t_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
