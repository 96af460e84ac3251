/*
 * operations_wait_test.c - calls that wait for operations, against two servers on one database: duplicates while an operation runs
 * and after it, takeovers, Wait, many waiters for one key, callers that go, and the drain.
 */
#include "harness/harness.h"

#include <signal.h>
#include <string.h>

#include "integration/ops.h"
#include "integration/waiters.h"

#define BEGUN(wanted) HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_##wanted
#define STATE(wanted) HOLDFAST__V1__OPERATION__STATE__##wanted

static struct t_server *one, *two;
static struct t_rpc *rpc;

static int setup(void **state)
{
    (void)state;
    char *dsn = t_database();
    one = t_server_start("--dsn", dsn, NULL);
    two = t_server_start("--dsn", dsn, NULL);
    t_keep();
    rpc = t_rpc_open(one->url);
    o_policy(rpc, "again", 100, 1, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__RETRY, -1, NULL);
    return 0;
}

static int teardown(void **state)
{
    t_rpc_close(rpc);
    assert_int_equal(t_server_stop(one), 0);
    assert_int_equal(t_server_stop(two), 0);
    return t_teardown(state);
}

static uint32_t begin(struct w_conn *w, const char *key, const char *type, const char *id, int64_t wait_ms)
{
    Holdfast__V1__BeginRequest request = o_begin_request(key, type, 20000);
    request.wait_ms = wait_ms;
    request.request_id = C_STR(id);
    request.holder = C_STR(id);
    return w_send(w, C_OPERATION "Begin", &request, wait_ms + 10000);
}

static Holdfast__V1__BeginResponse *begun(struct w_conn *w, uint32_t call)
{
    return w_message(w, call, &holdfast__v1__begin_response__descriptor, T_PATIENCE_MS, NULL);
}

static uint32_t wait_for(struct w_conn *w, const char *key, int64_t wait_ms)
{
    Holdfast__V1__WaitOperationRequest request = HOLDFAST__V1__WAIT_OPERATION_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.wait_ms = wait_ms;
    return w_send(w, C_OPERATION "Wait", &request, wait_ms + 10000);
}

static Holdfast__V1__WaitOperationResponse *waited(struct w_conn *w, uint32_t call)
{
    return w_message(w, call, &holdfast__v1__wait_operation_response__descriptor, T_PATIENCE_MS, NULL);
}

static void assert_replayed(const Holdfast__V1__BeginResponse *response, const char *result)
{
    assert_int_equal(response->outcome_case, BEGUN(REPLAYED));
    assert_int_equal(response->replayed->result.len, strlen(result));
    assert_memory_equal(response->replayed->result.data, result, strlen(result));
}

/* An operation takes 300 ms. A duplicate at 100 ms is told that it is in progress, or waits and gets the result; one at 500 ms gets
 * the result that is kept. On either server. */
static void duplicates_during_and_after_an_operation(void **state)
{
    (void)state;
    struct t_server *servers[] = {one, two};
    for (size_t i = 0; i < 2; i++) {
        const char *key = t_printf("dup%zu", i);
        struct w_conn *w = w_open(servers[i]->url);
        int64_t start = t_now_ms(), token = o_start(rpc, key, "t", 20000);
        t_sleep_ms(100);
        uint32_t patient = begin(w, key, "t", "patient", 10000);
        Holdfast__V1__BeginResponse *at_once = begun(w, begin(w, key, "t", "at once", 0));
        assert_int_equal(at_once->outcome_case, BEGUN(IN_PROGRESS));
        assert_string_equal(at_once->in_progress->holder, "h");
        assert_false(w_answered(w, patient));
        while (t_now_ms() < start + 300)
            t_sleep_ms(5);
        int64_t done = t_now_ms();
        o_complete(rpc, key, token, "settled", NULL);
        assert_replayed(begun(w, patient), "settled");
        print_message("[     INFO ] server %zu: a duplicate that waited had the result %lld ms after it was kept\n", i + 1,
                      (long long)(t_now_ms() - done));
        while (t_now_ms() < start + 500)
            t_sleep_ms(5);
        assert_replayed(begun(w, begin(w, key, "t", "late", 0)), "settled");
        assert_int_equal(o_attempts(rpc, key)->n_attempts, 1);
        w_close(w);
    }
}

static void a_waiter_takes_over_when_the_owners_lease_ends(void **state)
{
    (void)state;
    struct w_conn *w = w_open(two->url);
    int64_t start = t_now_ms(), token = o_start(rpc, "take", "again", 2000);
    uint32_t first = begin(w, "take", "again", "first", 20000), second = begin(w, "take", "again", "second", 20000);
    Holdfast__V1__BeginResponse *got = begun(w, first);
    int64_t took = t_now_ms() - start;
    print_message("[     INFO ] an attempt under a lease of 2,000 ms was taken over after %lld ms\n", (long long)took);
    assert_int_equal(got->outcome_case, BEGUN(STARTED));
    assert_int_equal(got->started->trigger, HOLDFAST__V1__TRIGGER__KIND__TAKEOVER);
    assert_int_equal(got->started->attempt, 2);
    assert_true(got->started->token > token);
    assert_true(took >= 1990);
    assert_true(got->started->waited_ms > 0 && got->started->waited_ms <= took + 1);
    assert_false(w_answered(w, second));
    c_status status;
    assert_null(o_complete(rpc, "take", token, "too late", &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "the former owner");
    o_complete(rpc, "take", got->started->token, "by the second", NULL);
    assert_replayed(begun(w, second), "by the second");
    w_close(w);
}

static void what_was_being_sent_is_not_taken_over(void **state)
{
    (void)state;
    struct w_conn *w = w_open(two->url);
    int64_t token = o_start(rpc, "sent", "again", 3000);
    o_sending(rpc, "sent", token, NULL);
    uint32_t patient = begin(w, "sent", "again", "p", 20000), watching = wait_for(w, "sent", 20000);
    assert_int_equal(begun(w, patient)->outcome_case, BEGUN(UNKNOWN));
    Holdfast__V1__WaitOperationResponse *response = waited(w, watching);
    assert_true(response->ended);
    assert_int_equal(response->operation->state, STATE(UNKNOWN));
    w_close(w);
}

static void a_failure_hands_over_when_it_is_due(void **state)
{
    (void)state;
    struct w_conn *w = w_open(two->url);
    int64_t token = o_start(rpc, "due", "again", 20000);
    uint32_t patient = begin(w, "due", "again", "p", 20000);
    o_fail(rpc, "due", token, HOLDFAST__V1__ERROR_CLASS__KIND__TRANSIENT, "x", NULL);
    Holdfast__V1__BeginResponse *got = begun(w, patient);
    assert_int_equal(got->outcome_case, BEGUN(STARTED));
    assert_int_equal(got->started->trigger, HOLDFAST__V1__TRIGGER__KIND__RETRY);
    w_close(w);
}

static void the_end_of_waiting(void **state)
{
    (void)state;
    struct w_conn *w = w_open(one->url);
    int64_t token = o_start(rpc, "end", "t", 20000), start = t_now_ms();
    uint32_t b = begin(w, "end", "t", "b", 300), v = wait_for(w, "end", 300);
    assert_int_equal(begun(w, b)->outcome_case, BEGUN(IN_PROGRESS));
    Holdfast__V1__WaitOperationResponse *response = waited(w, v);
    assert_true(t_now_ms() - start >= 299);
    assert_false(response->ended);
    assert_int_equal(response->operation->state, STATE(RUNNING));
    assert_int_equal(response->operation->token, token);
    o_complete(rpc, "end", token, "r", NULL);
    response = waited(w, wait_for(w, "end", 0));
    assert_true(response->ended);
    assert_memory_equal(response->operation->result.data, "r", 1);
    w_close(w);
}

static int64_t questions(void)
{
    Holdfast__V1__StatsResponse *stats = c_stats(rpc);
    int64_t items = 0;
    for (size_t i = 0; i < stats->n_batches; i++)
        if (!strcmp(stats->batches[i]->kind, "op_get") || !strcmp(stats->batches[i]->kind, "op_begin"))
            items += stats->batches[i]->items;
    return items;
}

/* All that wait are told by one question, and cost nothing before it but the polls of one. */
static void a_crowd_costs_no_more_than_one(void **state)
{
    (void)state;
    enum { N = 500 };
    uint32_t calls[2 * N];
    struct w_conn *w = w_open(one->url);
    int64_t token = o_start(rpc, "crowd", "t", 60000);
    for (int i = 0; i < N; i++)
        calls[i] = begin(w, "crowd", "t", t_printf("c%d", i), 60000);
    for (int i = 0; i < N; i++)
        calls[N + i] = wait_for(w, "crowd", 60000);
    begun(w, begin(w, "crowd", "t", "last", 0)); /* all of them have come */
    int64_t before = questions(), start = t_now_ms();
    o_complete(rpc, "crowd", token, "for all", NULL);
    for (int i = 0; i < N; i++) {
        assert_replayed(begun(w, calls[i]), "for all");
        assert_true(waited(w, calls[N + i])->ended);
    }
    int64_t asked = questions() - before;
    print_message("[     INFO ] %d callers that waited for one key were told after %lld ms, by %lld questions\n", 2 * N,
                  (long long)(t_now_ms() - start), (long long)asked);
    assert_true(asked < N / 5); /* polls go on meanwhile, on a busy machine for longer */
    assert_int_equal(o_attempts(rpc, "crowd")->n_attempts, 1);
    w_close(w);
}

static bool nobody_waits(void *arg)
{
    (void)arg;
    return c_stats(rpc)->calls_in_flight == 1; /* Stats itself */
}

static void who_goes_waits_no_more(void **state)
{
    (void)state;
    struct w_conn *gone = w_open(one->url), *w = w_open(one->url);
    int64_t token = o_start(rpc, "gone", "again", 4000);
    begin(gone, "gone", "again", "gone", 20000);
    wait_for(gone, "gone", 20000);
    begun(gone, begin(gone, "gone", "again", "they have come", 0));
    w_close(gone);
    assert_true(t_wait_for(nobody_waits, NULL, T_PATIENCE_MS));
    Holdfast__V1__BeginResponse *got = begun(w, begin(w, "gone", "again", "stays", 20000));
    assert_int_equal(got->outcome_case, BEGUN(STARTED)); /* it wasn't given to the one that has gone */
    assert_int_equal(got->started->attempt, 2);
    assert_true(got->started->token > token);
    w_close(w);
}

static void a_drain_answers_all(void **state)
{
    (void)state;
    struct t_server *third = t_server_start("--dsn", two->dsn, NULL);
    struct w_conn *w = w_open(third->url);
    c_status status;
    o_start(rpc, "drain", "t", 20000);
    uint32_t b = begin(w, "drain", "t", "b", 60000), v = wait_for(w, "drain", 60000);
    begun(w, begin(w, "drain", "t", "last", 0));
    int64_t start = t_now_ms();
    t_server_kill(third, SIGTERM);
    assert_int_equal(begun(w, b)->outcome_case, BEGUN(IN_PROGRESS));
    assert_null(w_message(w, v, &holdfast__v1__wait_operation_response__descriptor, T_PATIENCE_MS, &status));
    c_assert_status(&status, HP_UNAVAILABLE, HP_R_DRAINING, "Wait");
    assert_int_equal(t_proc_wait(third->proc, T_PATIENCE_MS), 0);
    assert_true(t_now_ms() - start < T_PATIENCE_MS);
    w_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicates_during_and_after_an_operation),
        cmocka_unit_test(a_waiter_takes_over_when_the_owners_lease_ends),
        cmocka_unit_test(what_was_being_sent_is_not_taken_over),
        cmocka_unit_test(a_failure_hands_over_when_it_is_due),
        cmocka_unit_test(the_end_of_waiting),
        cmocka_unit_test(a_crowd_costs_no_more_than_one),
        cmocka_unit_test(who_goes_waits_no_more),
        cmocka_unit_test(a_drain_answers_all),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
