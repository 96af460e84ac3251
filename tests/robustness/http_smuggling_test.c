/*
 * http_smuggling_test.c - requests that two readers of HTTP/1.1 could take apart in two ways, sent to a real server, each with a
 * second request inside that one of the readers would see. What is smuggled is never executed: nothing is acquired by it; and where
 * the first request is malformed, nor by that. Each is sent whole, and again byte by byte.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/served.h"
#include "robustness/http_raw.h"

#define START    "POST " RAW_ACQUIRE " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
#define OUTER    "{\"namespace\":\"default\",\"resources\":[\"outer\"],\"holder\":\"h\",\"ttlMs\":\"60000\"}"    /* 74 bytes */
#define INNER    "{\"namespace\":\"default\",\"resources\":[\"smuggled\"],\"holder\":\"h\",\"ttlMs\":\"60000\"}" /* 77 */
#define SMUGGLED START "Content-Length: 77\r\n\r\n" INNER
#define CHUNKED  "4a\r\n" OUTER "\r\n0\r\n\r\n"
#define LENGTH   "Content-Length: 74\r\n"
#define CODING   "Transfer-Encoding: chunked\r\n"

static const struct smuggling {
    const char *what, *bytes;
    int status; /* of the one answer, after which the connection is closed */
} smugglings[] = {
    {"Content-Length and Transfer-Encoding", START LENGTH CODING "\r\n" CHUNKED SMUGGLED, 400},
    {"Transfer-Encoding and Content-Length", START CODING LENGTH "\r\n" CHUNKED SMUGGLED, 400},
    {"Content-Length 0 and Transfer-Encoding", START "Content-Length: 0\r\n" CODING "\r\n" CHUNKED SMUGGLED, 400},
    {"two lengths, the first shorter", START "Content-Length: 0\r\n" LENGTH "\r\n" SMUGGLED, 400},
    {"two lengths, the second shorter", START LENGTH "Content-Length: 0\r\n\r\n" SMUGGLED, 400},
    {"two equal lengths", START LENGTH LENGTH "\r\n" OUTER SMUGGLED, 400},
    {"a list of lengths", START "Content-Length: 74, 74\r\n\r\n" OUTER SMUGGLED, 400},
    {"a length with a sign", START "Content-Length: +74\r\n\r\n" OUTER SMUGGLED, 400},
    {"a negative length", START "Content-Length: -1\r\n\r\n" SMUGGLED, 400},
    {"a length in hexadecimal", START "Content-Length: 0x4a\r\n\r\n" OUTER SMUGGLED, 400},
    {"a length with space within", START "Content-Length: 7 4\r\n\r\n" OUTER SMUGGLED, 400},
    {"a length beyond all numbers", START "Content-Length: 18446744073709551690\r\n\r\n" OUTER SMUGGLED, 400},
    {"an empty length", START "Content-Length:\r\n\r\n" SMUGGLED, 400},
    {"space before the colon of a length", START "Content-Length : 74\r\n\r\n" OUTER SMUGGLED, 400},
    {"space before the colon of a coding", START LENGTH "Transfer-Encoding : chunked\r\n\r\n" OUTER SMUGGLED, 400},
    {"two codings", START CODING CODING "\r\n" CHUNKED SMUGGLED, 400},
    {"chunked twice", START "Transfer-Encoding: chunked, chunked\r\n\r\n" CHUNKED SMUGGLED, 501},
    {"identity and chunked", START "Transfer-Encoding: identity, chunked\r\n\r\n" CHUNKED SMUGGLED, 501},
    {"chunked and identity", START "Transfer-Encoding: chunked, identity\r\n\r\n" CHUNKED SMUGGLED, 501},
    {"xchunked", START "Transfer-Encoding: xchunked\r\n\r\n" CHUNKED SMUGGLED, 501},
    {"chunked in quotes", START "Transfer-Encoding: \"chunked\"\r\n\r\n" CHUNKED SMUGGLED, 501},
    {"chunked behind a vertical tab", START "Transfer-Encoding: \vchunked\r\n\r\n" CHUNKED SMUGGLED, 400},
    {"chunked after a line feed", START "X: y\nTransfer-Encoding: chunked\r\n\r\n" CHUNKED SMUGGLED, 400},
    {"chunked after a carriage return", START "X: y\rTransfer-Encoding: chunked\r\n\r\n" CHUNKED SMUGGLED, 400},
    {"chunked on a folded line", START "Transfer-Encoding:\r\n chunked\r\n\r\n" CHUNKED SMUGGLED, 501},
    {"a folded line", START LENGTH "X: y\r\n z\r\n\r\n" OUTER SMUGGLED, 400},
    {"a folded first line", "POST " RAW_ACQUIRE " HTTP/1.1\r\n Host: localhost\r\n" LENGTH "\r\n" OUTER SMUGGLED, 400},
    {"chunks in HTTP/1.0", "POST " RAW_ACQUIRE " HTTP/1.0\r\nHost: localhost\r\n" CODING "\r\n" CHUNKED SMUGGLED, 400},
    {"lines that end with LF", "POST " RAW_ACQUIRE " HTTP/1.1\nHost: localhost\nContent-Length: 74\n\n" OUTER SMUGGLED, 400},
    {"a header's end with LF", START LENGTH "\n" OUTER SMUGGLED, 400},
    {"a header without a colon", START LENGTH "GET / HTTP/1.1\r\n\r\n" OUTER SMUGGLED, 400},
    {"a header without a name", START LENGTH ": x\r\n\r\n" OUTER SMUGGLED, 400},
    {"a chunk longer than its size", START CODING "\r\n49\r\n" OUTER "\r\n0\r\n\r\n" SMUGGLED, 400},
    {"a chunk's size with a sign", START CODING "\r\n+4a\r\n" OUTER "\r\n0\r\n\r\n" SMUGGLED, 400},
    {"a chunk's size with 0x", START CODING "\r\n0x4a\r\n" OUTER "\r\n0\r\n\r\n" SMUGGLED, 400},
    {"a chunk's size with space", START CODING "\r\n4a \r\n" OUTER "\r\n0\r\n\r\n" SMUGGLED, 400},
    {"a chunk's size beyond all numbers", START CODING "\r\n1000000000000004a\r\n" OUTER "\r\n0\r\n\r\n" SMUGGLED, 400},
    {"a chunk's size that ends with LF", START CODING "\r\n4a\n" OUTER "\r\n0\r\n\r\n" SMUGGLED, 400},
    {"an extension with LF", START CODING "\r\n4a;x\n" OUTER "\r\n0\r\n\r\n" SMUGGLED, 400},
    {"a chunk that ends with LF", START CODING "\r\n4a\r\n" OUTER "\n0\r\n\r\n" SMUGGLED, 400},
    {"a chunk without an end", START CODING "\r\n4a\r\n" OUTER "0\r\n\r\n" SMUGGLED, 400},
    {"a bad trailer", START CODING "\r\n4a\r\n" OUTER "\r\n0\r\nx y: z\r\n\r\n" SMUGGLED, 400},
    {"trailers that end with LF", START CODING "\r\n4a\r\n" OUTER "\r\n0\r\n\n" SMUGGLED, 400},
    {"two hosts", START "Host: other\r\n" LENGTH "\r\n" OUTER SMUGGLED, 400},
    {"no host", "POST " RAW_ACQUIRE " HTTP/1.1\r\nContent-Type: application/json\r\n" LENGTH "\r\n" OUTER SMUGGLED, 400},
    {"HTTP/0.9", "GET /healthz\r\n" SMUGGLED, 400},
    {"a version that isn't", "GET /healthz HTTP/1.1.\r\n" SMUGGLED, 400},
    {"two spaces before the version", "GET /healthz  HTTP/1.1\r\nHost: localhost\r\n\r\n" SMUGGLED, 400},
    {"a tab before the target", "GET\t/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" SMUGGLED, 400},
    {"the connection goes to another version", "PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n" SMUGGLED, 505},
};

static int port;

static int64_t acquired(const char *resource)
{
    return t_sql_int(conn, "SELECT count(*) FROM holdfast.resource WHERE name = '%s'", resource);
}

/* The bytes come at once or one by one, and all of the answers are heard. */
static void tell(const char *bytes, size_t at_a_time, struct raw_said *said)
{
    int fd = raw_connect(port);
    size_t len = strlen(bytes);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_true(fd >= 0);
    for (size_t at = 0; at < len; at += at_a_time) { /* it may be answered before it is whole */
        if (poll(&ready, 1, 0) || !raw_send(fd, bytes + at, len - at < at_a_time ? len - at : at_a_time))
            break;
    }
    raw_hear_out(fd, said, false, T_PATIENCE_MS);
}

/* Whether it is answered as it must be, and nothing of it executed. */
static bool is_refused(const struct smuggling *s, size_t at_a_time)
{
    static struct raw_said said;
    tell(s->bytes, at_a_time, &said);
    long long outer = acquired("outer"), smuggled = acquired("smuggled");
    if (said.status == s->status && said.responses == 1 && said.closed && !outer && !smuggled)
        return true;
    print_error("%s: %d answers, the last is %d%s; acquired: outer %lld, smuggled %lld; %s\n", s->what, said.responses, said.status,
                said.closed ? ", closed" : "", outer, smuggled, said.text);
    return false;
}

static void test_refused(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof(smugglings) / sizeof(smugglings[0]); i++)
        wrong += !is_refused(&smugglings[i], SIZE_MAX / 2) || !is_refused(&smugglings[i], 1);
    assert_int_equal(wrong, 0);
}

static void clear(void)
{
    t_sql(conn, "DELETE FROM holdfast.lease; DELETE FROM holdfast.resource");
}

/* So many answers come to it, and what is the second request is executed, or isn't. */
static void answered(const char *bytes, int answers, int smuggled)
{
    static struct raw_said said;
    int fd = raw_connect(port);
    assert_true(fd >= 0);
    assert_true(raw_send(fd, bytes, strlen(bytes)));
    raw_hear(fd, &said, false, answers, T_PATIENCE_MS);
    assert_int_equal(said.responses, answers);
    assert_int_equal(said.status, 200);
    raw_hear(fd, &said, false, 1, 100); /* there is no more to come */
    close(fd);
    assert_int_equal(said.responses, 0);
    assert_int_equal(acquired("outer"), 1);
    assert_int_equal(acquired("smuggled"), smuggled);
    clear();
}

/* What is well-formed is understood in its one way, and what is a second request is one: so that the rest shows something. */
static void test_well_formed(void **state)
{
    (void)state;
    answered(START LENGTH "\r\n" OUTER SMUGGLED, 2, 1);
    answered(START CODING "\r\n" CHUNKED SMUGGLED, 2, 1);
    answered(START "transfer-encoding:\tChunked \r\n\r\n4a;a=\"b\";c\r\n" OUTER "\r\n000\r\nx: y\r\n\r\n" SMUGGLED, 2, 1);
    answered("\r\n" START LENGTH "\r\n" OUTER "\r\n" SMUGGLED, 2, 1);
    answered(START LENGTH "Connection: close\r\n\r\n" OUTER SMUGGLED, 1, 0);
    answered(START LENGTH "X: Content-Length: 0\r\nX-Transfer-Encoding: chunked\r\n\r\n" OUTER, 1, 0);
}

/* A request within the body of another is its body. */
static void test_within(void **state)
{
    (void)state;
    static struct raw_said said;
    char *bytes = t_printf(START "Content-Length: %zu\r\n\r\n%s", strlen(SMUGGLED), SMUGGLED);
    int fd = raw_connect(port);
    assert_true(fd >= 0);
    assert_true(raw_send(fd, bytes, strlen(bytes)));
    raw_hear(fd, &said, false, 1, T_PATIENCE_MS);
    assert_int_equal(said.status, 400);
    assert_true(raw_send(fd, START LENGTH "\r\n" OUTER, strlen(START LENGTH "\r\n" OUTER)));
    raw_hear(fd, &said, false, 1, T_PATIENCE_MS);
    assert_int_equal(said.status, 200);
    close(fd);
    assert_int_equal(acquired("outer"), 1);
    assert_int_equal(acquired("smuggled"), 0);
    clear();
}

static int start(void **state)
{
    (void)state;
    server = t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", NULL);
    conn = t_connect(server->dsn);
    port = atoi(strrchr(server->http, ':') + 1);
    t_keep();
    assert_int_equal(strlen(OUTER), 74);
    assert_int_equal(strlen(INNER), 77);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_within),
    };
    return cmocka_run_group_tests(tests, start, end_serving);
}
