/*
 * case_07_dead_waiter_test.c - a waiter whose client died while the holder still holds: it is gone from the queue within a
 * second, `held.waiters` shows it, and the next live waiter is served. The client dies as processes do (SIGKILL), as hosts do that
 * come back (a reset), and while it is being tried for.
 */
#include "harness/harness.h"

#include <signal.h>
#include <string.h>

#include "integration/served.h"
#include "integration/waiters.h"

static void assert_drops_to(const char *resource, int64_t n, int64_t since)
{
    w_wait_count(rpc, resource, n, T_AT_ONCE_MS);
    print_message("[     INFO ] gone from the queue after %lld ms\n", (long long)(t_now_ms() - since));
}

static void a_killed_process_leaves_the_queue(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "p", 0);
    struct t_proc *dies = t_cli_spawn(server, "acquire", "p", "--wait", "60s", "--ttl", "60s", NULL);
    w_wait_count(rpc, "p", 1, 10000);
    struct w_conn *w = w_open(server->url);
    uint32_t lives = w_acquire(w, "p", "lives", 30000, 0);
    w_wait_count(rpc, "p", 2, T_PATIENCE_MS);
    int64_t start = t_now_ms();
    t_proc_kill(dies, SIGKILL);
    assert_drops_to("p", 1, start);
    assert_true(c_release_one(rpc, "p", token));
    int64_t next = w_granted(w, lives, T_PATIENCE_MS);
    assert_true(next > token);
    assert_int_equal(c_get(rpc, "p", NULL)->token, next);
    assert_string_equal(c_get(rpc, "p", NULL)->holder, "lives");
    assert_int_equal(t_sql_int(conn, "select count(*) from holdfast.audit where resource = 'p' and kind in ('grant', 'takeover')"),
                     2);
    w_close(w);
}

static void many_connections_end_at_once(void **state)
{
    (void)state;
    enum { N = 20, EACH = 50 };
    struct w_conn *dead[N], *w = w_open(server->url);
    int64_t token = c_grant(rpc, "m", 0);
    for (int i = 0; i < N; i++) {
        dead[i] = w_open(server->url);
        for (int j = 0; j < EACH; j++)
            w_acquire(dead[i], "m", NULL, 60000, 0);
    }
    w_wait_count(rpc, "m", N * EACH, 10000);
    uint32_t lives = w_acquire(w, "m", "lives", 30000, 0);
    w_wait_count(rpc, "m", N * EACH + 1, T_PATIENCE_MS);
    int64_t start = t_now_ms();
    for (int i = 0; i < N; i++)
        w_close(dead[i]);
    assert_drops_to("m", 1, start);
    assert_true(c_release_one(rpc, "m", token));
    w_granted(w, lives, T_PATIENCE_MS);
    w_close(w);
}

static bool is_free(void *arg)
{
    Holdfast__V1__Lease *lease = c_get(rpc, arg, NULL);
    return lease->state != HOLDFAST__V1__LEASE__STATE__LIVE;
}

/* The row is locked when the try arrives, so that the client dies in the middle of it; what it is granted is given back. */
static void one_that_dies_while_it_is_tried_for_holds_nothing(void **state)
{
    (void)state;
    struct w_conn *dies = w_open(server->url), *w = w_open(server->url);
    int64_t token = c_grant(rpc, "t", 0);
    w_acquire(dies, "t", "dies", 30000, 2000); /* what it was told of before it died ends by itself */
    w_wait_count(rpc, "t", 1, T_PATIENCE_MS);
    uint32_t lives = w_acquire(w, "t", "lives", 30000, 0);
    w_wait_count(rpc, "t", 2, T_PATIENCE_MS);
    assert_true(c_release_one(rpc, "t", token)); /* it may be granted before or after its connection has ended */
    w_close(dies);
    int64_t got = w_granted(w, lives, T_PATIENCE_MS);
    print_message("[     INFO ] %lld grants in between\n", (long long)(got - token - 1));
    assert_true(c_release_one(rpc, "t", got));
    assert_true(t_wait_for(is_free, C_STR("t"), T_PATIENCE_MS));
    w_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_process_leaves_the_queue),
        cmocka_unit_test(many_connections_end_at_once),
        cmocka_unit_test(one_that_dies_while_it_is_tried_for_holds_nothing),
    };
    return cmocka_run_group_tests(tests, serve_rpc, end_serving_rpc);
}
