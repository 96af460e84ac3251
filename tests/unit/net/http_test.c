/*
 * http_test.c - the HTTP port as clients of HTTP/1.1 meet it, good ones and bad ones; and what concerns both versions: connections,
 * memory, file descriptors, drain.
 */
#include "harness/harness.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/net/web.h"

#define GET(path)   "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define CLOSE(path) "GET " path " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
#define POST(path)  "POST " path " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
#define OK_CHUNKED  "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"

enum { MB = 1 << 20, SOON_MS = 200 };

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static void expect_begin(const char *text, const char *with)
{
    if (!begins(text, with))
        fail_msg("it should begin with \"%s\": %s", with, text);
}

static void expect_end(const char *text, const char *with)
{
    if (strlen(text) < strlen(with) || strcmp(text + strlen(text) - strlen(with), with) != 0)
        fail_msg("it should end with \"%s\": %s", with, text);
}

/* ---- answers ---- */

static void answers(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    char *text = web_ask(web, CLOSE("/ok"));
    expect_begin(text, "HTTP/1.1 200 OK\r\ndate: ");
    t_contains(text, "GMT\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    expect_end(text, "\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    text = web_ask(web, "HEAD /ok HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    expect_begin(text, "HTTP/1.1 200 OK\r\n");
    expect_end(text, "text/plain\r\nconnection: close\r\n\r\n");
    text = web_ask(web, "GET /ok HTTP/1.0\r\n\r\n");
    expect_end(text, "text/plain\r\nconnection: close\r\n\r\nok");
    text = web_ask(web, CLOSE("/length?5"));
    t_contains(text, "content-length: 5\r\nconnection: close\r\n\r\n");
    text = web_ask(web, CLOSE("/early"));
    expect_begin(text, "HTTP/1.1 413 Content Too Large\r\n");
    expect_end(text, "content-length: 0\r\nconnection: close\r\n\r\n");
    assert_string_equal(web_ask(web, CLOSE("/reset")), "");
    web_await(web, WEB_COMPLETE, 5);
    web_await(web, WEB_CUT_OFF, 1);
    web_stop(web);
}

/* Many requests on one connection, one after the other and all at once. */
static void kept_alive(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    int fd = web_connect(web);
    for (int i = 0; i < 10; i++) {
        web_say(fd, GET("/ok"));
        expect_end(web_hear(fd, "\r\n0\r\n\r\n"), OK_CHUNKED);
    }
    for (int i = 0; i < 200; i++)
        web_say(fd, GET("/ok") "POST /eat HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    web_say(fd, CLOSE("/early"));
    char *all = web_hear(fd, NULL);
    expect_end(all, "content-length: 0\r\nconnection: close\r\n\r\n");
    for (int i = 0; i < 200; i++) {
        char *ok = strstr(all, "\r\n2\r\nok\r\n0\r\n\r\n"), *eaten = ok ? strstr(ok, "\r\n1\r\n3\r\n0\r\n\r\n") : NULL;
        if (!eaten)
            fail_msg("answer %d is missing", i);
        all = eaten + 4;
    }
    close(fd);
    web_await(web, WEB_COMPLETE, 411);
    assert_int_equal(web_stats(web).accepted, 1);
    web_stop(web);
}

/* ---- bodies ---- */

struct sender {
    int fd;
    size_t n;
    bool chunked;
};

static void *send_body(void *arg)
{
    const struct sender *sender = arg;
    static char bytes[64 << 10];
    memset(bytes, 'b', sizeof(bytes));
    for (size_t i = 0; i < sender->n; i += sizeof(bytes)) {
        if (sender->chunked)
            web_send(sender->fd, "10000\r\n", 7);
        web_send(sender->fd, bytes, sizeof(bytes));
        if (sender->chunked)
            web_send(sender->fd, "\r\n", 2);
    }
    if (sender->chunked)
        web_send(sender->fd, "0\r\n\r\n", 5);
    return NULL;
}

static size_t count_of(const char *text, char c)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

static void echo(struct web *web, bool chunked)
{
    struct sender sender = {.fd = web_connect(web), .n = 8 * MB, .chunked = chunked};
    pthread_t thread;
    web_say(sender.fd,
            chunked ? POST("/echo") "Transfer-Encoding: chunked\r\n\r\n" : POST("/echo") "Content-Length: 8388608\r\n\r\n");
    assert_int_equal(pthread_create(&thread, NULL, send_body, &sender), 0);
    char *text = web_hear(sender.fd, NULL);
    pthread_join(thread, NULL);
    close(sender.fd);
    t_contains(text, "\r\n\r\n");
    char *body = strstr(text, "\r\n\r\n") + 4;
    expect_end(body, "\r\n0\r\n\r\n");
    size_t n = 0, chunk;
    for (char *at = body; (chunk = strtoul(at, &at, 16)); n += chunk) {
        at[chunk + 2] = '\0';
        assert_int_equal(count_of(at, 'b'), chunk);
        at += chunk + 4;
    }
    assert_int_equal(n, 8 * MB);
}

static void bodies(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    echo(web, false);
    echo(web, true);
    web_await(web, WEB_COMPLETE, 2);
    web_stop(web);
}

/* What isn't consumed isn't read; once it is, the rest comes. */
static void body_not_consumed(void **state)
{
    struct web *web = web_start(NULL);
    struct sender sender = {.fd = web_connect(web), .n = 32 * MB};
    pthread_t thread;
    (void)state;
    web_say(sender.fd, POST("/hold") "Content-Length: 33554432\r\n\r\n");
    assert_int_equal(pthread_create(&thread, NULL, send_body, &sender), 0);
    while (web_counted(web, WEB_BODY_BYTES) < 128 << 10)
        t_sleep_ms(5);
    t_sleep_ms(SOON_MS); /* in which more could come */
    assert_in_range(web_stats(web).bytes, 128 << 10, 192 << 10);
    assert_in_range(web_counted(web, WEB_BODY_BYTES), 128 << 10, 192 << 10);
    web_ask(web, CLOSE("/release"));
    expect_end(web_hear(sender.fd, NULL), "4\r\nheld\r\n0\r\n\r\n");
    shutdown(sender.fd, SHUT_RDWR); /* the rest wasn't wanted */
    pthread_join(thread, NULL);
    close(sender.fd);
    web_stop(web);
}

/* A response that isn't read waits; more of it isn't written. */
static void response_not_read(void **state)
{
    struct net_http_config cfg = {.max_unread = 100000};
    struct web *web = web_start(&cfg);
    (void)state;
    int fd = web_connect(web);
    web_say(fd, CLOSE("/length?104857600"));
    long written = -1;
    for (; !web_counted(web, WEB_TOLD_FULL) || written != web_counted(web, WEB_WRITTEN); t_sleep_ms(SOON_MS))
        written = web_counted(web, WEB_WRITTEN); /* until the kernel's buffers are full */
    assert_true(written < 50 * MB);
    assert_true(web_stats(web).bytes <= 100000 + (16 << 10) + 5000);
    char *text = web_hear(fd, "\r\n\r\n");
    size_t n = 0, got;
    char bytes[65536];
    while ((got = (size_t)recv(fd, bytes, sizeof(bytes), 0)) && got != (size_t)-1)
        n += got;
    assert_int_equal(got, 0);
    assert_true(n <= 104857600 && n >= 104857600 - strlen(text) - 70000);
    close(fd);
    web_await(web, WEB_COMPLETE, 1);
    web_stop(web);
}

static void expectations(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    int fd = web_connect(web);
    web_say(fd, POST("/eat") "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(web_hear(fd, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    web_say(fd, "abc");
    expect_end(web_hear(fd, NULL), "\r\n1\r\n3\r\n0\r\n\r\n");
    close(fd);
    expect_begin(web_ask(web, POST("/early") "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"), "HTTP/1.1 413 ");
    expect_begin(web_ask(web, POST("/eat") "Content-Length: 3\r\nExpect: more\r\n\r\n"), "HTTP/1.1 417 ");
    web_stop(web);
}

/* The answer comes although the client goes on sending for long. */
static void answered_early(void **state)
{
    struct web *web = web_start(NULL);
    struct sender sender = {.fd = web_connect(web), .n = 128 << 10};
    (void)state;
    web_say(sender.fd, "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n");
    send_body(&sender);
    char *text = web_hear(sender.fd, NULL);
    expect_begin(text, "HTTP/1.1 413 ");
    expect_end(text, "connection: close\r\n\r\n");
    assert_int_equal(web_counted(web, WEB_BODY_BYTES), 0);
    close(sender.fd);
    web_stop(web);
}

/* ---- what is refused ---- */

static void refused(void **state)
{
    static const struct {
        const char *request;
        int status;
    } table[] = {
        {"GET /ok\r\n\r\n" GET("/hidden"), 400},
        {"GET /ok HTTP/1.1\r\n\r\n" GET("/hidden"), 400},
        {"GET /ok HTTP/1.1\nHost: h\n\n" GET("/hidden"), 400},
        {"GET /ok HTTP/3.0\r\nHost: h\r\n\r\n" GET("/hidden"), 505},
        {"POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET("/hidden"), 400},
        {"POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 0\r\n\r\n" GET("/hidden"), 400},
        {"POST /ok HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n" GET("/hidden"), 501},
        {"POST /ok HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" GET("/hidden"), 400},
        {"GET /ok HTTP/1.1\r\nHost: h\r\nHost: g\r\n\r\n" GET("/hidden"), 400},
        {"GET /ok HTTP/1.1\r\nHost: h\r\nX: y\r\n z\r\n\r\n" GET("/hidden"), 400},
        {"PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n", 505},
        {"\x16\x03\x01\x02", 400},
    };
    struct web *web = web_start(NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char *text = web_ask(web, table[i].request);
        expect_begin(text, t_printf("HTTP/1.1 %d ", table[i].status));
        t_contains(text, "\r\nconnection: close\r\n");
        assert_null(strstr(text + 1, "HTTP/1.1 ")); /* one answer, and nothing behind it was taken for a request */
    }
    assert_int_equal(web_counted(web, WEB_REQUESTS), 0);
    assert_int_equal(web_stats(web).protocol_errors, sizeof(table) / sizeof(table[0]));
    web_stop(web);
}

static void bad_body(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    char *text = web_ask(web, "POST /eat HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n" GET("/hidden"));
    expect_begin(text, "HTTP/1.1 400 ");
    assert_null(strstr(text + 1, "HTTP/1.1 "));
    /* An answer that has begun can only be cut off. */
    text = web_ask(web, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n" GET("/hidden"));
    assert_null(strstr(text, "\r\n0\r\n\r\n"));
    web_await(web, WEB_CUT_OFF, 2);
    assert_int_equal(web_counted(web, WEB_REQUESTS), 2);
    web_stop(web);
}

static void large_headers(void **state)
{
    struct net_http_config cfg = {.max_headers = 2000};
    struct web *web = web_start(&cfg);
    char many[4096];
    (void)state;
    memset(many, 'a', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    expect_begin(web_ask(web, t_printf("GET /%s HTTP/1.1\r\n", many)), "HTTP/1.1 414 ");
    expect_begin(web_ask(web, t_printf("GET / HTTP/1.1\r\nHost: h\r\n%s", many)), "HTTP/1.1 431 ");
    many[1500] = '\0';
    expect_begin(web_ask(web, t_printf("GET /ok HTTP/1.1\r\nHost: h\r\nConnection: close\r\nx: %s\r\n\r\n", many)),
                 "HTTP/1.1 200 ");
    web_stop(web);
}

/* ---- time ---- */

static void late_headers(void **state)
{
    struct net_http_config cfg = {.header_ms = SOON_MS};
    struct web *web = web_start(&cfg);
    (void)state;
    expect_begin(web_ask(web, "GET / HTTP/1.1\r\nHost: h\r\nX: "), "HTTP/1.1 408 ");
    web_ask(web, "PRI * HT");  /* it isn't known yet what it is */
    int fd = web_connect(web); /* a byte now and then doesn't help */
    const char *slow = "GET / HTTP/1.1\r\n";
    char answer[16] = "";
    for (size_t i = 0; recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT) < 0; i++) {
        assert_true(i < 1000);
        send(fd, i < strlen(slow) ? slow + i : "x", 1, MSG_NOSIGNAL);
        t_sleep_ms(20);
    }
    expect_begin(answer, "HTTP/1.1 408 ");
    close(fd);
    assert_int_equal(web_stats(web).timeouts, 3);
    assert_int_equal(web_counted(web, WEB_REQUESTS), 0);
    web_stop(web);
}

static void late_bodies(void **state)
{
    struct net_http_config cfg = {.body_ms = SOON_MS};
    struct web *web = web_start(&cfg);
    (void)state;
    expect_begin(web_ask(web, POST("/eat") "Content-Length: 3\r\n\r\nab"), "HTTP/1.1 408 ");
    web_await(web, WEB_CUT_OFF, 1);
    int fd = web_connect(web);
    web_say(fd, CLOSE("/length?104857600"));
    web_await(web, WEB_CUT_OFF, 2); /* what isn't read is given up */
    close(fd);
    assert_int_equal(web_stats(web).timeouts, 2);
    web_stop(web);
}

static void late_in_all(void **state)
{
    struct net_http_config cfg = {.total_ms = SOON_MS};
    struct web *web = web_start(&cfg);
    (void)state;
    expect_begin(web_ask(web, GET("/hold")), "HTTP/1.1 408 ");
    web_await(web, WEB_CUT_OFF, 1);
    web_stop(web);
}

static void idle_ones(void **state)
{
    struct net_http_config cfg = {.idle_ms = SOON_MS};
    struct web *web = web_start(&cfg);
    (void)state;
    assert_string_equal(web_ask(web, ""), "");
    int fd = web_connect(web), holding = web_connect(web);
    web_say(holding, GET("/hold"));
    web_say(fd, GET("/ok"));
    web_hear(fd, "\r\n0\r\n\r\n");
    web_hear_end(fd);
    close(fd);
    assert_int_equal(web_counted(web, WEB_CUT_OFF), 0); /* one that waits for its answer isn't idle */
    web_ask(web, CLOSE("/release"));
    expect_end(web_hear(holding, NULL), "\r\nheld\r\n0\r\n\r\n");
    close(holding);
    assert_int_equal(web_stats(web).timeouts, 0);
    web_stop(web);
}

/* ---- ends ---- */

static void clients_that_go(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    int fd = web_connect(web);
    web_say(fd, GET("/hold"));
    web_await(web, WEB_REQUESTS, 1);
    close(fd);
    web_await(web, WEB_CUT_OFF, 1); /* without anybody writing to it */
    fd = web_connect(web);
    web_say(fd, GET("/hold"));
    web_await(web, WEB_REQUESTS, 2);
    shutdown(fd, SHUT_WR); /* and so is who could still read */
    web_await(web, WEB_CUT_OFF, 2);
    web_hear_end(fd);
    close(fd);
    fd = web_connect(web);
    web_say(fd, GET("/ok"));
    shutdown(fd, SHUT_WR); /* unless the answer is there */
    expect_end(web_hear(fd, NULL), OK_CHUNKED);
    close(fd);
    fd = web_connect(web);
    web_say(fd, GET("/hold"));
    for (int i = 0; i < 3000; i++) /* so much that it isn't read */
        web_say(fd, GET("/ok"));
    web_await(web, WEB_REQUESTS, 4);
    shutdown(fd, SHUT_WR);
    web_await(web, WEB_CUT_OFF, 3);
    close(fd);
    web_stop(web);
}

/* Half-closed connections don't stay. */
static void half_closed(void **state)
{
    struct web *web = web_start(NULL);
    int fds[20];
    (void)state;
    for (int i = 0; i < 20; i++) {
        fds[i] = web_connect(web);
        if (i % 2)
            web_say(fds[i], "GET /ok HTTP/1.1\r\n");
        shutdown(fds[i], SHUT_WR);
    }
    for (int i = 0; i < 20; i++) {
        web_hear_end(fds[i]);
        close(fds[i]);
    }
    web_stop(web);
}

static void too_many(void **state)
{
    struct net_http_config cfg = {.max_connections = 4};
    struct web *web = web_start(&cfg);
    int fds[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        fds[i] = web_connect(web);
        web_say(fds[i], i < 2 ? GET("/ok") : GET("/hold"));
        if (i < 2)
            web_hear(fds[i], "\r\n0\r\n\r\n");
    }
    web_await(web, WEB_REQUESTS, 4);
    int more[2] = {web_connect(web), -1}; /* in the place of the first idle one */
    web_say(more[0], GET("/hold"));
    web_hear_end(fds[0]);
    more[1] = web_connect(web);
    web_say(more[1], GET("/hold"));
    web_hear_end(fds[1]);
    web_await(web, WEB_REQUESTS, 6);
    assert_string_equal(web_ask(web, ""), ""); /* none is idle: it is closed at once */
    assert_int_equal(web_stats(web).refused, 3);
    assert_int_equal(web_stats(web).connections, 4);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    web_await(web, WEB_CUT_OFF, 2);
    expect_begin(web_ask(web, CLOSE("/release")), "HTTP/1.1 200 ");
    for (int i = 0; i < 2; i++) {
        expect_end(web_hear(more[i], "\r\n0\r\n\r\n"), "held\r\n0\r\n\r\n");
        close(more[i]);
    }
    web_stop(web);
}

/* File descriptors run out: who comes then is turned away or waits, and everything goes on when there are some. */
static void no_descriptors(void **state)
{
    struct web *web = web_start(NULL);
    struct rlimit limit, low;
    int held = web_connect(web), fds[8];
    (void)state;
    web_say(held, GET("/hold"));
    web_await(web, WEB_REQUESTS, 1);
    for (int i = 0; i < 8; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    low = limit;
    low.rlim_cur = (rlim_t)fds[7] + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)web_port(web)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 8; i++)
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    t_sleep_ms(SOON_MS); /* in which it fails to accept them, several times */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    expect_begin(web_ask(web, CLOSE("/release")), "HTTP/1.1 200 ");
    t_contains(web_hear(held, "\r\n0\r\n\r\n"), "held");
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    close(held);
    web_stop(web);
}

static void drained(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    int idle = web_connect(web), held = web_connect(web), fresh = web_connect(web);
    web_say(idle, GET("/ok"));
    web_hear(idle, "\r\n0\r\n\r\n");
    web_say(held, GET("/hold") GET("/ok"));
    int releasing = web_connect(web);
    web_say(releasing, "POST /release HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n");
    web_await(web, WEB_REQUESTS, 2);
    assert_false(web_is_idle(web));
    web_drain(web);
    web_hear_end(idle);
    web_hear_end(fresh);
    web_hear_end(releasing); /* its request had not come */
    assert_int_equal(web_connect(web), -1);
    assert_false(web_is_idle(web));
    close(idle);
    close(fresh);
    close(releasing);
    shutdown(held, SHUT_WR);
    web_await(web, WEB_CUT_OFF, 1);
    for (int i = 0; !web_is_idle(web); i++) {
        assert_true(i < T_PATIENCE_MS / 10);
        t_sleep_ms(10);
    }
    close(held);
    web_stop(web);
}

/* What is in progress is answered, and then the connection ends. */
static void drained_amid(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    int fd = web_connect(web);
    web_say(fd, GET("/length?104857600"));
    web_hear(fd, "\r\n\r\n");
    web_drain(web);
    size_t n = 0, got;
    char bytes[65536];
    while ((got = (size_t)recv(fd, bytes, sizeof(bytes), 0)) && got != (size_t)-1)
        n += got;
    assert_int_equal(got, 0);
    assert_true(n > 100 * MB - 70000);
    web_await(web, WEB_COMPLETE, 1);
    close(fd);
    web_stop(web);
}

/* ---- memory ---- */

/* Whoever makes the server hold most is closed; the others aren't harmed. */
static void too_much_held(void **state)
{
    struct net_http_config cfg = {.max_bytes = MB, .max_unread = 512 << 10};
    struct web *web = web_start(&cfg);
    (void)state;
    int held = web_connect(web), greedy = web_connect(web), other = web_connect(web);
    web_say(held, GET("/hold?1000"));
    web_say(greedy, GET("/keep?700000"));
    web_await(web, WEB_REQUESTS, 2);
    web_say(other, GET("/keep?400000"));
    web_hear_end(greedy);
    web_await(web, WEB_REQUESTS, 3);
    web_await(web, WEB_CUT_OFF, 1);
    assert_in_range(web_stats(web).bytes, 401000, 411000);
    web_ask(web, CLOSE("/release"));
    t_contains(web_hear(held, "\r\n0\r\n\r\n"), "held");
    t_contains(web_hear(other, "\r\n0\r\n\r\n"), "held");
    close(held);
    close(greedy);
    close(other);
    web_stop(web);
}

/* Each allocation fails once: a call is answered or its connection ends, and the next ones are answered. */
static void memory_fails(void **state)
{
    (void)state;
    bool failed = true;
    for (int n = 1; failed; n++) {
        struct web *web = web_start(NULL);
        web_fail_memory(web, n);
        char *text =
            web_ask(web, POST("/echo") "X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"
                                       "Content-Length: 3\r\n\r\nabc");
        failed = web_memory_failed(web);
        if (!failed)
            expect_end(text, "3\r\nabc\r\n0\r\n\r\n");
        web_fail_memory(web, 0);
        expect_end(web_ask(web, CLOSE("/ok")), "2\r\nok\r\n0\r\n\r\n");
        web_stop(web);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(answers, t_teardown),
                                       cmocka_unit_test_teardown(kept_alive, t_teardown),
                                       cmocka_unit_test_teardown(bodies, t_teardown),
                                       cmocka_unit_test_teardown(body_not_consumed, t_teardown),
                                       cmocka_unit_test_teardown(response_not_read, t_teardown),
                                       cmocka_unit_test_teardown(expectations, t_teardown),
                                       cmocka_unit_test_teardown(answered_early, t_teardown),
                                       cmocka_unit_test_teardown(refused, t_teardown),
                                       cmocka_unit_test_teardown(bad_body, t_teardown),
                                       cmocka_unit_test_teardown(large_headers, t_teardown),
                                       cmocka_unit_test_teardown(late_headers, t_teardown),
                                       cmocka_unit_test_teardown(late_bodies, t_teardown),
                                       cmocka_unit_test_teardown(late_in_all, t_teardown),
                                       cmocka_unit_test_teardown(idle_ones, t_teardown),
                                       cmocka_unit_test_teardown(clients_that_go, t_teardown),
                                       cmocka_unit_test_teardown(half_closed, t_teardown),
                                       cmocka_unit_test_teardown(too_many, t_teardown),
                                       cmocka_unit_test_teardown(no_descriptors, t_teardown),
                                       cmocka_unit_test_teardown(drained, t_teardown),
                                       cmocka_unit_test_teardown(drained_amid, t_teardown),
                                       cmocka_unit_test_teardown(too_much_held, t_teardown),
                                       cmocka_unit_test_teardown(memory_fails, t_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
