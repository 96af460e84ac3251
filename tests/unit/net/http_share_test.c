/*
 * http_share_test.c - who is served by the HTTP port when, and who waits for a turn (server/net/http_share.c).
 */
#include "harness/harness.h"

#include <nghttp2/nghttp2.h>
#include <string.h>
#include <unistd.h>

#include "unit/net/web.h"

enum { MB = 1 << 20, STREAMS = 120, TRIES = 50 };

static int get(struct web2 *client, const char *path)
{
    return web2_ask(client, "GET", path, 0, NULL, NULL);
}

static void expect_ok(struct web2 *client, int stream)
{
    web2_await_closed(client, stream);
    assert_int_equal(web2_stream(client, stream)->status, 200);
    assert_int_equal(web2_stream(client, stream)->code, NGHTTP2_NO_ERROR);
}

/* As many at once as a connection may ask for. */
static void ask_much(struct web *web)
{
    struct web2 *client = web2_connect(web, NULL);
    int last = 0;
    for (int i = 0; i < STREAMS; i++)
        last = get(client, "/ok");
    for (int i = 0; i < STREAMS; i++)
        expect_ok(client, last - 2 * i);
    web2_close(client);
}

static bool is_answered(struct web2 *client, int n)
{
    return web2_pongs(client) >= n;
}

/* All that it has sent before has been taken. */
static void ping(struct web2 *client, int n)
{
    web2_ping(client);
    web2_pump(client, is_answered, n);
}

static void nobody_waits_alone(void **state)
{
    struct web *web = web_start(NULL);
    (void)state;
    ask_much(web);
    assert_int_equal(web_stats(web).waits, 0);
    web_stop(web);
}

/* Strangers are served in turns while somebody is there who calls and hears; whoever that is waits for nothing. */
static void strangers_wait(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    (void)state;
    for (int i = 0; i < TRIES && !web_stats(web).waits; i++) { /* more than once if they came more than a second after him */
        for (int k = 0; k < 10; k++)
            expect_ok(client, get(client, "/ok"));
        ask_much(web);
    }
    assert_true(web_stats(web).waits > 0);
    expect_ok(client, get(client, "/ok"));
    web2_close(client);
    web_stop(web);
}

/* So do those who come and go, and nobody is lost. */
static void many_come(void **state)
{
    enum { MANY = 200 };
    struct web *web = web_start(NULL);
    struct web2 *client = web2_connect(web, NULL);
    int fds[MANY];
    (void)state;
    for (int i = 0; i < TRIES && !web_stats(web).waits; i++) {
        expect_ok(client, get(client, "/ok"));
        for (int k = 0; k < MANY; k++) {
            fds[k] = web_connect(web);
            web_say(fds[k], "GET /ok HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        }
        for (int k = 0; k < MANY; k++) {
            t_contains(web_hear(fds[k], NULL), "HTTP/1.1 200 OK");
            close(fds[k]);
        }
    }
    assert_true(web_stats(web).waits > 0);
    web2_close(client);
    web_stop(web);
}

/* Who is new and leaves answers of more than 256 KiB has nothing more begun, until some of them are gone. */
static void answers_left(void **state)
{
    struct web *web = web_start(NULL);
    struct web2 *deaf = web2_connect(web, &(struct web2_options){.shut = true, .window = -1}), *other = web2_connect(web, NULL);
    int first = 0;
    (void)state;
    for (int i = 0; i < 15; i++) {
        int stream = get(deaf, "/burst?1000000");
        first = first ? first : stream;
    }
    ping(deaf, 1);
    web_await(web, WEB_REQUESTS, 15);
    web_await(web, WEB_WRITTEN, 1000000);
    expect_ok(other, get(other, "/ok"));
    ping(deaf, 2);
    web_await(web, WEB_WRITTEN, 1000000);
    web2_cancel(deaf, first);
    ping(deaf, 3);
    web_await(web, WEB_WRITTEN, 2000000);
    web2_close(deaf);
    web2_close(other);
    web_stop(web);
}

/* While much is held for strangers, those of them who hold some of it aren't read; the others are. */
static void held_back(void **state)
{
    struct web *web = web_start(&(struct net_http_config){.max_bytes = 8 * MB});
    struct web2 *greedy = web2_connect(web, NULL), *gone = web2_connect(web, NULL), *other = web2_connect(web, NULL);
    (void)state;
    get(gone, "/keep?1000000");
    web2_send(gone);
    web_await(web, WEB_REQUESTS, 1);
    int kept = get(greedy, "/keep?2000000");
    web2_send(greedy);
    web_await(web, WEB_REQUESTS, 2);
    int next = get(greedy, "/ok");
    web2_send(greedy);
    web2_close(gone); /* which is seen all the same */
    web_await(web, WEB_CUT_OFF, 1);
    expect_ok(other, get(other, "/ok"));
    web_await(web, WEB_REQUESTS, 3);
    expect_ok(other, get(other, "/release"));
    expect_ok(greedy, kept);
    expect_ok(greedy, next);
    web2_close(greedy);
    web2_close(other);
    web_stop(web);
}

/* Whoever of them gets nowhere gives way. */
static void gives_way(void **state)
{
    struct web *web = web_start(&(struct net_http_config){.max_bytes = 8 * MB});
    struct web2 *greedy = web2_connect(web, NULL), *other = web2_connect(web, NULL);
    (void)state;
    web2_ask(greedy, "POST", "/keep?2000000", -1, NULL, NULL);
    ping(greedy, 1);
    web_await(web, WEB_REQUESTS, 1);
    web2_await_end(greedy);
    web_await(web, WEB_CUT_OFF, 1);
    assert_int_equal(web_stats(web).refused, 1);
    expect_ok(other, get(other, "/ok"));
    web2_close(greedy);
    web2_close(other);
    web_stop(web);
}

/* Those who have sent it all are read to their end, few at a time, though much is held for them and they have no credit. */
static void halves_are_read_to_their_end(void **state)
{
    enum { N = 12, BODY = 50000 };
    struct web *web = web_start(&(struct net_http_config){.max_bytes = 8 * MB});
    struct web2 *many[N], *other = web2_connect(web, NULL);
    int streams[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        many[i] = web2_connect(web, NULL);
        streams[i] = web2_ask(many[i], "POST", "/keep?500000", BODY, NULL, NULL);
        web2_send(many[i]);
    }
    web_await(web, WEB_BODY_BYTES, (long)N * BODY);
    expect_ok(other, get(other, "/release"));
    for (int i = 0; i < N; i++) {
        expect_ok(many[i], streams[i]);
        web2_close(many[i]);
    }
    assert_int_equal(web_stats(web).refused, 0);
    web2_close(other);
    web_stop(web);
}

/* What somebody is told may be more than is held for strangers' requests: he is heard all the same, or it would never leave. */
static void answers_do_not_hold_back(void **state)
{
    struct web *web = web_start(&(struct net_http_config){.max_bytes = 8 * MB});
    struct web2 *client = web2_connect(web, &(struct web2_options){.shut = true});
    (void)state;
    web2_ask(client, "GET", "/burst?3000000", 0, NULL, NULL);
    web2_send(client);
    web_await(web, WEB_WRITTEN, 3000000);
    for (int i = 1; i <= 20; i++)
        ping(client, i);
    web2_close(client);
    web_stop(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nobody_waits_alone, t_teardown),
        cmocka_unit_test_teardown(strangers_wait, t_teardown),
        cmocka_unit_test_teardown(many_come, t_teardown),
        cmocka_unit_test_teardown(answers_left, t_teardown),
        cmocka_unit_test_teardown(held_back, t_teardown),
        cmocka_unit_test_teardown(gives_way, t_teardown),
        cmocka_unit_test_teardown(halves_are_read_to_their_end, t_teardown),
        cmocka_unit_test_teardown(answers_do_not_hold_back, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
