/*
 * http1_test.c - the parser of HTTP/1.1 requests: what it makes of good and bad ones, however they are cut.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "proto/c/http1.h"

/* ---- what a parser has understood, as text ---- */

static void tell_head(const struct hp_http1 *p, struct hp_buf *out)
{
    hp_buf_printf(out, "%s %s", hp_http1_text(p, p->method), hp_http1_text(p, p->path));
    if (p->query)
        hp_buf_printf(out, " ?%s", hp_http1_text(p, p->query));
    hp_buf_printf(out, " @%s 1.%d%s%s%s%s", p->authority ? hp_http1_text(p, p->authority) : "-", p->minor,
                  p->has_body ? " body" : "", p->chunked ? " chunked" : "", p->expects_continue ? " continue" : "",
                  p->keep_alive ? "" : " close");
    for (size_t i = 0; i < p->n_fields; i++)
        hp_buf_printf(out, " %s=%s", hp_http1_text(p, p->fields[i].name), hp_http1_text(p, p->fields[i].value));
    hp_buf_addstr(out, " | ");
}

/* One more piece, from memory of its own size. Of each request: its header, its body, "end"; or "bad" and the status. */
static void feed(struct hp_http1 *p, const char *bytes, size_t len, struct hp_buf *out)
{
    uint8_t *copy = malloc(len + 1);
    const uint8_t *at = copy, *piece;
    size_t left = len, piece_len;
    memcpy(copy, bytes, len);
    for (;;) {
        switch (hp_http1_next(p, &at, &left, &piece, &piece_len)) {
        case HP_HTTP1_HEAD:
            tell_head(p, out);
            continue;
        case HP_HTTP1_BODY:
            hp_buf_add(out, piece, piece_len);
            continue;
        case HP_HTTP1_END:
            hp_buf_addstr(out, " end; ");
            hp_http1_next_request(p);
            continue;
        case HP_HTTP1_BAD:
            assert_true(strlen(p->why) > 5);
            hp_buf_printf(out, "bad %d", p->status);
            break;
        default:
            assert_int_equal(left, 0);
            break;
        }
        break;
    }
    free(copy);
}

enum { MAX_BYTES = 400, MAX_FIELDS = 6 };

/* Understood in pieces that end at these two places. */
static char *understand(const char *bytes, size_t len, size_t cut, size_t cut_again)
{
    struct hp_http1 p;
    struct hp_buf out = HP_BUF_INIT;
    size_t cuts[] = {0, cut, cut_again, len};
    hp_http1_init(&p, MAX_BYTES, MAX_FIELDS);
    hp_buf_addstr(&out, "");
    for (int i = 0; i < 3; i++)
        if (!strstr((const char *)out.data, "bad "))
            feed(&p, bytes + cuts[i], cuts[i + 1] - cuts[i], &out);
    if (hp_http1_amid_head(&p))
        hp_buf_addstr(&out, "amid");
    hp_http1_release(&p);
    return (char *)out.data;
}

static char *understand_bytewise(const char *bytes, size_t len)
{
    struct hp_http1 p;
    struct hp_buf out = HP_BUF_INIT;
    hp_http1_init(&p, MAX_BYTES, MAX_FIELDS);
    hp_buf_addstr(&out, "");
    for (size_t i = 0; i < len && !strstr((const char *)out.data, "bad "); i++)
        feed(&p, bytes + i, 1, &out);
    if (hp_http1_amid_head(&p))
        hp_buf_addstr(&out, "amid");
    hp_http1_release(&p);
    return (char *)out.data;
}

/* However it is cut: in two, byte by byte, and with one byte in the middle. */
static void expect_len(const char *bytes, size_t len, const char *wanted)
{
    char *got = understand_bytewise(bytes, len);
    assert_string_equal(got, wanted);
    free(got);
    for (size_t cut = 0; cut <= len; cut++)
        for (size_t more = 0; more < 2 && cut + more <= len; more++) {
            got = understand(bytes, len, cut, cut + more);
            if (strcmp(got, wanted) != 0)
                fail_msg("cut at %zu+%zu: \"%s\" instead of \"%s\", of: %s", cut, more, got, wanted, bytes);
            free(got);
        }
}

static void expect(const char *bytes, const char *wanted)
{
    expect_len(bytes, strlen(bytes), wanted);
}

#define HOST         "Host: h\r\n"
#define POST         "POST / HTTP/1.1\r\n" HOST
#define CHUNKED      POST "Transfer-Encoding: chunked\r\n\r\n"
#define CHUNKED_HEAD "POST / @h 1.1 body chunked host=h transfer-encoding=chunked | "

static void good(void **state)
{
    static const struct {
        const char *bytes, *wanted;
    } table[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / @h 1.1 host=h |  end; "},
        {"GET /a/b%20c?x=1?y&z HTTP/1.1\r\nHOST:h:80\r\n\r\n", "GET /a/b%20c ?x=1?y&z @h:80 1.1 host=h:80 |  end; "},
        {"GET /? HTTP/1.1\r\nHost: [::1]:1\r\n\r\n", "GET / ? @[::1]:1 1.1 host=[::1]:1 |  end; "},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / @ 1.1 host= |  end; "},
        {"GET / HTTP/1.0\r\n\r\n", "GET / @- 1.0 close |  end; "},
        {"\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "GET / @h 1.1 host=h |  end; "},
        {"GET http://other:1/p?q HTTP/1.1\r\n" HOST "\r\n", "GET /p ?q @other:1 1.1 host=h |  end; "},
        {"GET HTTPS://other HTTP/1.1\r\n" HOST "\r\n", "GET / @other 1.1 host=h |  end; "},
        {"GET http://other?q HTTP/1.1\r\n" HOST "\r\n", "GET / ?q @other 1.1 host=h |  end; "},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * @h 1.1 host=h |  end; "},
        {"GET / HTTP/1.1\r\n" HOST "X-Y:\t a \t b \t\r\nEmpty:\r\n\r\n", "GET / @h 1.1 host=h x-y=a \t b empty= |  end; "},
        {"GET / HTTP/1.1\r\n" HOST "N: \xc3\xa9\xff\r\n\r\n", "GET / @h 1.1 host=h n=\xc3\xa9\xff |  end; "},
        {"GET / HTTP/1.1\r\n" HOST "Connection: x , Close\r\n\r\n", "GET / @h 1.1 close host=h connection=x , Close |  end; "},
        {"GET / HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n",
         "GET / @h 1.1 host=h |  end; GET /2 @h 1.1 host=h |  end; "},
        {POST "Content-Length: 5\r\n\r\nhelloGET /", "POST / @h 1.1 body host=h content-length=5 | hello end; amid"},
        {POST "Content-Length: 0005\r\n\r\nhello", "POST / @h 1.1 body host=h content-length=0005 | hello end; "},
        {POST "Content-Length: 0\r\n\r\n", "POST / @h 1.1 host=h content-length=0 |  end; "},
        {POST "Content-Length: 9\r\n\r\nhello", "POST / @h 1.1 body host=h content-length=9 | hello"},
        {POST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
         "POST / @h 1.1 body continue host=h expect=100-Continue content-length=1 | x end; "},
        {CHUNKED "5\r\nhello\r\n0\r\n\r\n", CHUNKED_HEAD "hello end; "},
        {CHUNKED "1\r\na\r\n00B;x=\"y\"; z\r\nhello world\r\n000\r\n\r\n", CHUNKED_HEAD "ahello world end; "},
        {CHUNKED "0\r\nTrailer: x\r\nOther: \r\n\r\nGET / HTTP/1.1\r\n", CHUNKED_HEAD " end; amid"},
        {POST "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
         "POST / @h 1.1 body chunked host=h transfer-encoding=CHUNKED |  end; "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        expect(table[i].bytes, table[i].wanted);
}

/* Each is refused, whatever follows. */
static void bad_heads(void **state)
{
    static const struct {
        const char *bytes;
        int status;
    } table[] = {
        {"GET / HTTP/1.1\nHost: h\n\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\n\r\n", 400},
        {"GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", 400},
        {"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"\x16\x03\x01", 400},
        {"\n", 400},
        {" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400},
        {"GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /\r\n\r\n", 400},
        {"GET\r\n\r\n", 400},
        {"GET / http/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505},
        {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"G@T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /#f HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET /\x01 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET ftp://x/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET http:/// HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"GET http://u@x/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        {"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", 501},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400},
        {"GET http://h/ HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\tb\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: \x7f\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: \x1b[2J\r\n\r\n", 400},
        {POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
        {POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
        {POST "Content-Length: 5, 5\r\n\r\nhello", 400},
        {POST "Content-Length: +5\r\n\r\nhello", 400},
        {POST "Content-Length: -5\r\n\r\nhello", 400},
        {POST "Content-Length: 0x5\r\n\r\nhello", 400},
        {POST "Content-Length: 5 5\r\n\r\nhello", 400},
        {POST "Content-Length:\r\n\r\nhello", 400},
        {POST "Content-Length: 9999999999999999999\r\n\r\nhello", 400},
        {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {POST "Transfer-Encoding: identity\r\n\r\n", 501},
        {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {POST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
        {POST "Transfer-Encoding: chunked;q=1\r\n\r\n", 501},
        {POST "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n",
         400},
        {POST "Transfer-Encoding: \"chunked\"\r\n\r\n", 501},
        {POST "Transfer-Encoding:\r\n\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        {POST "Expect: 200-ok\r\n\r\n", 417},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        expect(table[i].bytes, t_printf("bad %d", table[i].status));
}

static void nul_bytes(void **state)
{
    static const char places[][40] = {"G?T / HTTP/1.1\r\nHost: h\r\n\r\n", "GET /? HTTP/1.1\r\nHost: h\r\n\r\n",
                                      "GET / HTTP/1.1?\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHo?t: h\r\n\r\n",
                                      "GET / HTTP/1.1\r\nHost: ?h\r\n\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char bytes[40];
        memcpy(bytes, places[i], sizeof(bytes));
        size_t len = strlen(bytes);
        *strchr(bytes, '?') = '\0';
        expect_len(bytes, len, "bad 400");
    }
}

static void bad_chunks(void **state)
{
    static const struct {
        const char *body, *wanted;
    } table[] = {
        {"\r\n", "bad 400"},
        {"g\r\n", "bad 400"},
        {"-1\r\n", "bad 400"},
        {"+1\r\n", "bad 400"},
        {"0x1\r\na\r\n", "bad 400"},
        {" 1\r\na\r\n", "bad 400"},
        {"1 \r\na\r\n", "bad 400"},
        {"1\t;x\r\na\r\n", "bad 400"},
        {"1\na\r\n", "bad 400"},
        {"1\r\r\na", "bad 400"},
        {"1;x\ny\r\na\r\n", "bad 400"},
        {"1;x\ry\r\na\r\n", "bad 400"},
        {"1;\x01\r\na\r\n", "bad 400"},
        {"1\r\nab\r\n", "abad 400"},
        {"1\r\na\n0\r\n\r\n", "abad 400"},
        {"1\r\na\r0\r\n\r\n", "abad 400"},
        {"1000000000000000\r\na", "bad 400"},
        {"0000000000000001\r\na", "bad 400"},
        {"ffffffffffffffffff\r\na", "bad 400"},
        {"0\r\nTrailer : x\r\n\r\n", "bad 400"},
        {"0\r\n x\r\n\r\n", "bad 400"},
        {"0\r\nx: y\n\r\n", "bad 400"},
        {"0\r\nx\r\n\r\n", "bad 400"},
        {"0\r\n\n", "bad 400"},
        {"0\r\na:\r\nb:\r\nc:\r\nd:\r\ne:\r\nf:\r\ng:\r\n\r\n", "bad 431"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        expect(t_printf("%s%s", CHUNKED, table[i].body), t_printf("%s%s", CHUNKED_HEAD, table[i].wanted));
}

static char *many(char c, size_t n)
{
    char *text = malloc(n + 1);
    memset(text, c, n);
    text[n] = '\0';
    char *kept = t_printf("%s", text);
    free(text);
    return kept;
}

static void limits(void **state)
{
    (void)state;
    expect(t_printf("GET /%s", many('a', MAX_BYTES)), "bad 414");
    expect(t_printf("GET / HTTP/1.1\r\n" HOST "X: %s", many('a', MAX_BYTES)), "bad 431");
    expect(t_printf("GET / HTTP/1.1\r\n" HOST "X: %s\r\n\r\n", many('a', MAX_BYTES - 64)), "bad 431"); /* with 32 a field */
    expect(t_printf("GET / HTTP/1.1\r\n" HOST "%s: a\r\n\r\n", many('a', MAX_BYTES)), "bad 431");
    expect("GET / HTTP/1.1\r\n" HOST "a:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n", "bad 431");
    expect("GET / HTTP/1.1\r\n" HOST "a:\r\na:\r\na:\r\na:\r\na:\r\n\r\n", "GET / @h 1.1 host=h a= a= a= a= a= |  end; ");
    expect(t_printf("%s1;%s\r\na\r\n", CHUNKED, many('a', MAX_BYTES + 1)), CHUNKED_HEAD "bad 400");
    expect(t_printf("%s1;%s\r\na\r\n0\r\n\r\n", CHUNKED, many('a', MAX_BYTES - 2)), CHUNKED_HEAD "a end; ");
    expect(t_printf("%s0\r\na: %s\r\n\r\n", CHUNKED, many('a', MAX_BYTES)), CHUNKED_HEAD "bad 431");
    expect(t_printf("%s1;%s\r\na\r\n0\r\na: %s\r\n\r\n", CHUNKED, many('a', 200), many('a', 200)), CHUNKED_HEAD "abad 431");
}

/* Memory and limits are each request's, however many a connection brings. */
static void many_requests(void **state)
{
    struct hp_http1 p;
    struct hp_buf out = HP_BUF_INIT;
    (void)state;
    hp_http1_init(&p, MAX_BYTES, MAX_FIELDS);
    for (int i = 0; i < 100; i++) {
        feed(&p, CHUNKED "1;ext\r\na\r\n0\r\nx: y\r\n\r\n", strlen(CHUNKED "1;ext\r\na\r\n0\r\nx: y\r\n\r\n"), &out);
        assert_string_equal((char *)out.data, CHUNKED_HEAD "a end; ");
        assert_false(hp_http1_amid_head(&p));
        hp_buf_reset(&out);
    }
    assert_true(p.text.cap < 1024);
    hp_buf_release(&out);
    hp_http1_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(good, t_teardown),      cmocka_unit_test_teardown(bad_heads, t_teardown),
        cmocka_unit_test_teardown(nul_bytes, t_teardown), cmocka_unit_test_teardown(bad_chunks, t_teardown),
        cmocka_unit_test_teardown(limits, t_teardown),    cmocka_unit_test_teardown(many_requests, t_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
