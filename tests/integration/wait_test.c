/*
 * wait_test.c - callers that wait, on one server and on two: order, ends, cancelling, merging, turns, drain.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "integration/waiters.h"

static struct t_server *one, *two; /* on one database */
static struct t_rpc *rpc, *rpc2;
static PGconn *conn;
static char *dsn;

static int setup(void **state)
{
    (void)state;
    dsn = t_database();
    one = t_server_start("--dsn", dsn, NULL);
    two = t_server_start("--dsn", dsn, NULL);
    rpc = t_rpc_open(one->url);
    rpc2 = t_rpc_open(two->url);
    conn = t_connect(dsn);
    t_keep();
    return 0;
}

static int teardown(void **state)
{
    t_rpc_close(rpc);
    t_rpc_close(rpc2);
    PQfinish(conn);
    assert_int_equal(t_server_stop(one), 0);
    assert_int_equal(t_server_stop(two), 0);
    return t_teardown(state);
}

/* ---- order and ends ---- */

static void waiters_are_granted_in_the_order_of_arrival(void **state)
{
    (void)state;
    enum { N = 20 };
    struct w_conn *w = w_open(one->url);
    int64_t token = c_grant(rpc, "o", 0);
    uint32_t calls[N];
    for (int i = 0; i < N; i++) {
        calls[i] = w_acquire(w, "o", t_printf("o-%d", i), 30000, 0);
        w_wait_count(rpc, "o", i + 1, T_PATIENCE_MS);
    }
    for (int i = 0; i < N; i++) {
        int64_t start = t_now_ms();
        assert_true(c_release_one(rpc, "o", token));
        assert_int_equal(w_next(w, T_PATIENCE_MS), calls[i]);
        int64_t next = w_granted(w, calls[i], 0);
        assert_true(next > token);
        token = next;
        if (i == 0)
            print_message("[     INFO ] first hand-over after %lld ms\n", (long long)(t_now_ms() - start));
        assert_int_equal(w_count(rpc, "o"), N - 1 - i); /* who tries once doesn't overtake */
    }
    assert_true(c_release_one(rpc, "o", token));
    w_close(w);
}

static void a_wait_ends_with_held(void **state)
{
    (void)state;
    struct w_conn *w = w_open(one->url);
    int64_t token = c_grant(rpc, "e", 0), start = t_now_ms();
    Holdfast__V1__Held *held = w_held(w, w_acquire(w, "e", NULL, 300, 0), T_PATIENCE_MS);
    int64_t took = t_now_ms() - start;
    assert_true(took >= 299 && took < 300 + T_AT_ONCE_MS);
    assert_string_equal(held->holder, "h");
    assert_int_equal(held->token, token);
    assert_true(held->remaining_ms > 50000);
    assert_int_equal(held->waiters, 0);
    /* The timeout ends it too, a little earlier, and never as DEADLINE_EXCEEDED. */
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *names[] = {C_STR("e")};
    request.namespace_ = C_STR("default");
    request.holder = C_STR("w");
    request.n_resources = 1;
    request.resources = names;
    request.ttl_ms = 60000;
    request.wait_ms = 3600000;
    start = t_now_ms();
    assert_int_equal(w_held(w, w_send(w, C_LEASE "Acquire", &request, 600), T_PATIENCE_MS)->token, token);
    took = t_now_ms() - start;
    assert_true(took >= 500 && took < 600 + T_AT_ONCE_MS);
    assert_int_equal(w_held(w, w_acquire(w, "e", NULL, 1, 0), T_PATIENCE_MS)->token, token); /* at least one try */
    w_wait_count(rpc, "e", 0, T_PATIENCE_MS);
    w_close(w);
}

static void an_expiry_is_found_by_the_head(void **state)
{
    (void)state;
    struct w_conn *w = w_open(one->url);
    int64_t start = t_now_ms(), token = c_grant(rpc, "x", 700);
    uint32_t first = w_acquire(w, "x", "x-1", 10000, 300), second = w_acquire(w, "x", "x-2", 10000, 0);
    assert_true(w_granted(w, first, T_PATIENCE_MS) > token);
    int64_t took = t_now_ms() - start;
    print_message("[     INFO ] a lease of 700 ms was taken over after %lld ms\n", (long long)took);
    assert_true(took >= 690 && took < 700 + T_AT_ONCE_MS);
    Holdfast__V1__Granted *granted = w_response(w, first, 0, NULL)->granted;
    assert_true(granted->waited_ms >= 300 && granted->waited_ms <= took + 1);
    assert_true(granted->ttl_ms <= 300);
    w_granted(w, second, T_PATIENCE_MS);
    w_close(w);
}

static void a_lock_delay_is_waited_out(void **state)
{
    (void)state;
    struct w_conn *w = w_open(one->url);
    t_sql(conn, "update holdfast.namespace set lock_delay_ms = 2500 where name = 'default'");
    int64_t start = t_now_ms();
    c_grant(rpc, "d", 300);
    uint32_t call = w_acquire(w, "d", NULL, 10000, 0);
    t_sleep_ms(400);
    Holdfast__V1__Held *held = c_acquire(rpc, "d", 0, NULL)->held; /* free, but not to be had */
    assert_non_null(held);
    assert_string_equal(held->holder, "");
    w_granted(w, call, T_PATIENCE_MS);
    int64_t took = t_now_ms() - start;
    t_sql(conn, "update holdfast.namespace set lock_delay_ms = 0 where name = 'default'");
    print_message("[     INFO ] 300 ms of lease and 2500 ms of lock delay took %lld ms\n", (long long)took);
    assert_true(took >= 2790 && took < 2800 + T_AT_ONCE_MS);
    w_close(w);
}

/* ---- repeats, merging, cancelling ---- */

static void callers_with_one_request_id_are_one_waiter(void **state)
{
    (void)state;
    struct w_conn *w = w_open(one->url);
    int64_t token = c_grant(rpc, "m", 0);
    uint32_t a = w_acquire(w, "m", "m-1", 20000, 0), b = w_acquire(w, "m", "m-1", 20000, 0);
    uint32_t brief = w_acquire(w, "m", "m-1", 200, 0), other = w_acquire(w, "m", "m-2", 20000, 0);
    assert_int_equal(w_held(w, brief, T_PATIENCE_MS)->token, token);
    w_wait_count(rpc, "m", 2, T_PATIENCE_MS);
    c_release_one(rpc, "m", token);
    int64_t got = w_granted(w, a, T_PATIENCE_MS);
    assert_int_equal(w_granted(w, b, T_PATIENCE_MS), got);
    assert_false(w_answered(w, other));
    /* A repeat of what was granted gets it again, at once and past the queue; after its end it is `ended`. */
    assert_int_equal(w_granted(w, w_acquire(w, "m", "m-1", 20000, 0), T_PATIENCE_MS), got);
    c_release_one(rpc, "m", got);
    int64_t last = w_granted(w, other, T_PATIENCE_MS);
    assert_true(last > got);
    c_release_one(rpc, "m", last);
    Holdfast__V1__AcquireResponse *ended = w_response(w, w_acquire(w, "m", "m-2", 20000, 0), T_PATIENCE_MS, NULL);
    assert_int_equal(ended->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED);
    w_close(w);
}

static void a_wait_can_be_cancelled(void **state)
{
    (void)state;
    struct w_conn *w = w_open(one->url);
    int64_t token = c_grant(rpc, "c", 0);
    assert_false(w_cancel(rpc, "nobody"));
    uint32_t a = w_acquire(w, "c", "c-1", 20000, 0), b = w_acquire(w, "c", "c-2", 20000, 0);
    w_wait_count(rpc, "c", 2, T_PATIENCE_MS);
    assert_true(w_cancel(rpc, "c-1"));
    assert_int_equal(w_held(w, a, T_PATIENCE_MS)->token, token);
    assert_false(w_cancel(rpc, "c-1"));
    c_release_one(rpc, "c", token);
    token = w_granted(w, b, T_PATIENCE_MS);
    assert_false(w_cancel(rpc, "c-2")); /* a grant is not touched */
    assert_int_equal(c_lost(rpc, "c", token), 0);
    w_close(w);
}

/* ---- two servers ---- */

static void hand_overs_between_servers(void **state)
{
    (void)state;
    enum { N = 30 };
    struct w_conn *w[2] = {w_open(one->url), w_open(two->url)};
    struct t_rpc *rpcs[2] = {rpc, rpc2};
    int64_t token = c_grant(rpc, "t", 0), worst = 0, sum = 0;
    for (int i = 0; i < N; i++) {
        int to = (i + 1) % 2; /* held through one server, wanted through the other */
        uint32_t call = w_acquire(w[to], "t", t_printf("t-%d", i), 20000, 0);
        w_wait_count(rpcs[to], "t", 1, T_PATIENCE_MS);
        int64_t start = t_now_ms();
        assert_true(c_release_one(rpcs[1 - to], "t", token));
        token = w_granted(w[to], call, T_PATIENCE_MS);
        int64_t took = t_now_ms() - start;
        sum += took;
        worst = took > worst ? took : worst;
    }
    print_message("[     INFO ] %d hand-overs between servers: %lld ms on average, %lld ms at worst\n", N, (long long)(sum / N),
                  (long long)worst);
    assert_true(sum / N <= 1000 && worst < T_AT_ONCE_MS);
    c_release_one(rpc, "t", token);
    w_close(w[0]);
    w_close(w[1]);
}

static void the_longest_waiting_server_is_next(void **state)
{
    (void)state;
    struct w_conn *w1 = w_open(one->url), *w2 = w_open(two->url);
    int64_t token = c_grant(rpc, "l", 0);
    uint32_t first = w_acquire(w2, "l", "l-1", 20000, 0);
    w_wait_count(rpc2, "l", 1, T_PATIENCE_MS);
    t_sleep_ms(50); /* so that the difference is larger than that of clocks read at different moments */
    uint32_t second = w_acquire(w1, "l", "l-2", 20000, 0);
    w_wait_count(rpc, "l", 1, T_PATIENCE_MS);
    c_release_one(rpc, "l", token);
    token = w_granted(w2, first, T_PATIENCE_MS);
    assert_false(w_answered(w1, second));
    c_release_one(rpc2, "l", token);
    token = w_granted(w1, second, T_PATIENCE_MS);
    c_release_one(rpc, "l", token);
    w_close(w1);
    w_close(w2);
}

static bool two_waiter_rows(void *arg)
{
    return t_sql_int(conn, "select count(*) from holdfast.waiter where resource = '%s'", (const char *)arg) == 2;
}

/* A server that has the turn and is not there any more costs its turn, or the poll of the others. */
static void a_turn_that_is_not_taken(void **state)
{
    (void)state;
    struct t_server *dead = t_server_start("--dsn", dsn, NULL);
    struct t_rpc *rpc3 = t_rpc_open(dead->url);
    struct w_conn *w3 = w_open(dead->url), *w = w_open(one->url);
    int64_t token = c_grant(rpc, "n", 0);
    w_acquire(w3, "n", "n-1", 20000, 0);
    w_wait_count(rpc3, "n", 1, T_PATIENCE_MS);
    uint32_t call = w_acquire(w, "n", "n-2", 20000, 0);
    w_wait_count(rpc, "n", 1, T_PATIENCE_MS);
    assert_true(t_wait_for(two_waiter_rows, C_STR("n"), T_PATIENCE_MS));
    t_server_kill(dead, SIGKILL);
    int64_t start = t_now_ms();
    c_release_one(rpc, "n", token);
    token = w_granted(w, call, T_PATIENCE_MS);
    int64_t took = t_now_ms() - start;
    print_message("[     INFO ] past a turn that was not taken after %lld ms\n", (long long)took);
    assert_true(took >= 90 && took < T_AT_ONCE_MS);
    c_release_one(rpc, "n", token);
    assert_int_equal(t_sql_int(conn, "select count(*) from holdfast.waiter where resource = 'n'"), 0);
    t_rpc_close(rpc3);
    w_close(w3);
    w_close(w);
}

static bool no_waiter_rows(void *arg)
{
    return t_sql_int(conn, "select count(*) from holdfast.waiter where resource = '%s'", (const char *)arg) == 0;
}

static void an_empty_queue_is_forgotten_by_the_database(void **state)
{
    (void)state;
    struct w_conn *w = w_open(one->url);
    c_grant(rpc, "q", 0);
    uint32_t call = w_acquire(w, "q", "q-1", 20000, 0);
    w_wait_count(rpc, "q", 1, T_PATIENCE_MS);
    assert_true(w_cancel(rpc, "q-1"));
    w_held(w, call, T_PATIENCE_MS);
    assert_true(t_wait_for(no_waiter_rows, C_STR("q"), T_PATIENCE_MS));
    w_close(w);
}

/* ---- drain ---- */

static void a_drain_ends_every_wait(void **state)
{
    (void)state;
    enum { N = 5000 };
    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    struct t_rpc *its = t_rpc_open(server->url);
    struct w_conn *w = w_open(server->url);
    int64_t token = c_grant(rpc, "s", 0);
    for (int i = 0; i < N; i++)
        w_acquire(w, "s", NULL, 60000, 0);
    w_wait_count(its, "s", N, T_PATIENCE_MS);
    t_server_kill(server, SIGTERM);
    int64_t start = t_now_ms();
    for (uint32_t i = 1; i <= N; i++)
        assert_int_equal(w_held(w, i, T_PATIENCE_MS)->token, token);
    print_message("[     INFO ] %d waits of one connection ended by a drain within %lld ms\n", N, (long long)(t_now_ms() - start));
    assert_int_equal(t_proc_wait(server->proc, T_PATIENCE_MS), 0);
    assert_true(t_wait_for(no_waiter_rows, C_STR("s"), T_PATIENCE_MS));
    t_rpc_close(its);
    w_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiters_are_granted_in_the_order_of_arrival),
        cmocka_unit_test(a_wait_ends_with_held),
        cmocka_unit_test(an_expiry_is_found_by_the_head),
        cmocka_unit_test(a_lock_delay_is_waited_out),
        cmocka_unit_test(callers_with_one_request_id_are_one_waiter),
        cmocka_unit_test(a_wait_can_be_cancelled),
        cmocka_unit_test(hand_overs_between_servers),
        cmocka_unit_test(the_longest_waiting_server_is_next),
        cmocka_unit_test(a_turn_that_is_not_taken),
        cmocka_unit_test(an_empty_queue_is_forgotten_by_the_database),
        cmocka_unit_test(a_drain_ends_every_wait),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
