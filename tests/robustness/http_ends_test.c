/*
 * http_ends_test.c - how callers of the HTTP port may leave, or stay without being of use, and what a real server makes of it:
 * nobody works for, waits for, or holds a lease for those who have gone, and those who are slow don't keep others out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/served.h"
#include "robustness/http_raw.h"

enum { SMALL = 24, GONE = 50 };

static int port;
static struct raw_said said;

/* What is answered to this, by a connection of its own. */
static struct raw_said *ask(int to, const char *path, const char *json)
{
    struct hp_buf out = HP_BUF_INIT;
    int fd = raw_connect(to);
    assert_true(fd >= 0);
    raw_call1(&out, path, json);
    raw_send_buf(fd, &out); /* it may be closed at once */
    hp_buf_release(&out);
    raw_hear(fd, &said, false, 1, T_PATIENCE_MS);
    close(fd);
    return &said;
}

static const char *acquire(const char *resource, const char *holder, const char *more)
{
    return t_printf("{\"namespace\":\"default\",\"resources\":[\"%s\"],\"holder\":\"%s\",\"ttlMs\":\"600000\"%s}", resource, holder,
                    more);
}

static int64_t token_in(const char *text)
{
    const char *token = strstr(text, "\"token\":\"");
    if (!token || !strstr(text, "\"granted\""))
        fail_msg("not granted: %s", text);
    return strtoll(token + strlen("\"token\":\""), NULL, 10);
}

static void release(const char *resource, int64_t token)
{
    t_contains(ask(port, RAW_RELEASE,
                   t_printf("{\"namespace\":\"default\",\"items\":[{\"resource\":\"%s\",\"token\":\"%lld\"}]}", resource,
                            (long long)token))
                   ->text,
               "\"wasHeld\":true");
}

/* ---- half-closed ---- */

/* What needs no database is answered before it is seen that the caller sends no more. */
static void test_half_closed_page(void **state)
{
    (void)state;
    static const char get[] = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    int fd = raw_connect(port);
    assert_true(fd >= 0);
    assert_true(raw_send(fd, get, strlen(get)));
    shutdown(fd, SHUT_WR);
    raw_hear_out(fd, &said, false, T_PATIENCE_MS);
    assert_int_equal(said.status, 200);
    t_contains(said.text, "ok\n");
    assert_true(said.closed && !said.reset);
}

static bool is_free(void *arg)
{
    const char *resource = arg;
    return !t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE resource = '%s' AND deadline > clock_timestamp()", resource);
}

/* Who sends no more is told what it acquired, or has acquired nothing: in neither case does a lease stay that nobody knows of. */
static void test_half_closed_call(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        char *resource = t_printf("half-%d", i);
        struct hp_buf out = HP_BUF_INIT;
        int fd = raw_connect(port);
        assert_true(fd >= 0);
        raw_call1(&out, RAW_ACQUIRE, acquire(resource, "half", ""));
        assert_true(raw_send_buf(fd, &out));
        hp_buf_release(&out);
        shutdown(fd, SHUT_WR);
        raw_hear_out(fd, &said, false, T_PATIENCE_MS);
        assert_true(said.closed);
        if (said.status)
            release(resource, token_in(said.text));
        assert_true(t_wait_for(is_free, resource, T_PATIENCE_MS));
    }
}

/* ---- waiters that go ---- */

static bool nobody_waits(void *arg)
{
    const char *held = ask(port, RAW_ACQUIRE, acquire(arg, "see", ""))->text;
    t_contains(held, "\"held\"");
    return !strstr(held, "\"waiters\"");
}

struct waiters {
    const char *resource;
    int n;
};

static bool so_many_wait(void *arg)
{
    const struct waiters *waiters = arg;
    const char *held = ask(port, RAW_ACQUIRE, acquire(waiters->resource, "see", ""))->text;
    return strstr(held, t_printf("\"waiters\":\"%d\"", waiters->n)) || strstr(held, t_printf("\"waiters\":%d,", waiters->n));
}

static void wait_on_streams(struct hp_buf *out, const char *resource)
{
    raw_hello(out, 65535);
    for (uint32_t i = 0; i < GONE; i++)
        raw_call(out, 2 * i + 1, RAW_ACQUIRE, acquire(resource, "gone", ",\"waitMs\":\"25000\""));
}

static void reset_streams(int fd)
{
    struct hp_buf out = HP_BUF_INIT;
    for (uint32_t i = 0; i < GONE; i++)
        raw_number_frame(&out, RAW_RST_STREAM, 2 * i + 1, 8);
    assert_true(raw_send_buf(fd, &out));
    hp_buf_release(&out);
}

static void shut(int fd)
{
    shutdown(fd, SHUT_WR);
}

/* Many wait on streams, and one alone behind them on a connection that goes nowhere; the many leave, and are out of the way at
 * once. */
static void leave_by(void (*leave)(int fd), const char *resource)
{
    struct hp_buf out = HP_BUF_INIT;
    struct waiters all = {resource, GONE}, behind = {resource, GONE + 1};
    int64_t token = token_in(ask(port, RAW_ACQUIRE, acquire(resource, "holder", ""))->text);
    int gone = raw_connect(port), stays = raw_connect(port);
    assert_true(gone >= 0 && stays >= 0);
    wait_on_streams(&out, resource);
    assert_true(raw_send_buf(gone, &out));
    assert_true(t_wait_for(so_many_wait, &all, T_PATIENCE_MS));
    hp_buf_reset(&out);
    raw_call1(&out, RAW_ACQUIRE, acquire(resource, "stays", ",\"waitMs\":\"25000\""));
    assert_true(raw_send_buf(stays, &out));
    hp_buf_release(&out);
    assert_true(t_wait_for(so_many_wait, &behind, T_PATIENCE_MS));
    leave(gone);
    all.n = 1;
    assert_true(t_wait_for(so_many_wait, &all, T_PATIENCE_MS));
    release(resource, token);
    raw_hear(stays, &said, false, 1, T_PATIENCE_MS);
    release(resource, token_in(said.text));
    close(stays);
    if (leave != raw_abort)
        close(gone);
    assert_true(is_free((void *)(uintptr_t)resource));
}

static void test_waiters_leave(void **state)
{
    (void)state;
    leave_by(raw_abort, "aborted");
    leave_by(shut, "shut");
    leave_by(reset_streams, "reset");
}

/* The same over HTTP/1.1, by a caller that waits alone. */
static void test_waiter_shuts(void **state)
{
    (void)state;
    struct hp_buf out = HP_BUF_INIT;
    struct waiters one = {"alone", 1};
    int64_t token = token_in(ask(port, RAW_ACQUIRE, acquire("alone", "holder", ""))->text);
    int fd = raw_connect(port);
    assert_true(fd >= 0);
    raw_call1(&out, RAW_ACQUIRE, acquire("alone", "gone", ",\"waitMs\":\"25000\""));
    assert_true(raw_send_buf(fd, &out));
    hp_buf_release(&out);
    assert_true(t_wait_for(so_many_wait, &one, T_PATIENCE_MS));
    shutdown(fd, SHUT_WR);
    assert_true(t_wait_for(nobody_waits, (void *)(uintptr_t) "alone", T_PATIENCE_MS));
    release("alone", token);
    close(fd);
    assert_true(is_free((void *)(uintptr_t) "alone"));
}

/* ---- those who take all the room ---- */

struct slow {
    int port, n, fds[2 * SMALL];
};

/* A byte more of each body that is still wanted; and somebody else comes. */
static bool another_is_served(void *arg)
{
    const struct slow *slow = arg;
    for (int i = 0; i < slow->n; i++)
        raw_send_some(slow->fds[i], " ", 1);
    return ask(slow->port, RAW_RELEASE, "{\"namespace\":\"default\",\"items\":[{\"resource\":\"none\",\"token\":\"1\"}]}")
               ->status == 200;
}

static void keeps_out(struct t_server *small, const char *begin)
{
    struct slow slow = {.port = atoi(strrchr(small->http, ':') + 1)};
    for (; slow.n < 2 * SMALL; slow.n++) {
        slow.fds[slow.n] = raw_connect(slow.port);
        assert_true(slow.fds[slow.n] >= 0);
        raw_send_some(slow.fds[slow.n], begin, strlen(begin));
    }
    if (!t_wait_for(another_is_served, &slow, T_PATIENCE_MS))
        fail_msg("%s: nobody else is served: %d, %s", begin, said.status, said.text);
    while (slow.n)
        close(slow.fds[--slow.n]);
}

/* As many connections as there may be say nothing, or never end what they say: whoever comes is served in their place. */
static void test_room(void **state)
{
    (void)state;
    struct t_server *small =
        t_server_start("--dsn", server->dsn, "--http", "127.0.0.1:0", "--max-clients", t_printf("%d", SMALL), NULL);
    keeps_out(small, "");
    keeps_out(small, "GET /healthz HTTP/1.1\r\nx: ");
    keeps_out(small, "PRI * HTTP/2.0");
    keeps_out(small, "POST " RAW_ACQUIRE
                     " HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{");
    assert_int_equal(t_server_stop(small), 0);
}

static int start(void **state)
{
    (void)state;
    server = t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", NULL);
    conn = t_connect(server->dsn);
    t_keep();
    port = atoi(strrchr(server->http, ':') + 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_closed_page),
        cmocka_unit_test(test_half_closed_call),
        cmocka_unit_test(test_waiters_leave),
        cmocka_unit_test(test_waiter_shuts),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, start, end_serving);
}
