/*
 * client_operations_test.c - each allocation of the client library fails once in turn, for a begin, a mark, an end, a record and a
 * look, against a real server. What a call says is so in the database, and HF_UNKNOWN is the only answer that says nothing; the
 * next call works.
 */
#include "harness/harness.h"

#include <string.h>

#include <holdfast/operation.h>

#include "failing/points.h"

enum { POINTS_MAX = 1000, WATCH_S = 60, TIMEOUT_MS = 20000 };

static struct t_server *server;
static PGconn *sql;

enum step { BEGIN, SENDING, COMPLETE, GET, STEPS, RECORD = STEPS, FAIL };
static const char *const step_names[] = {"begin", "sending", "complete", "get", "record", "fail"};

struct run {
    enum step step; /* that fails */
    int64_t wait_ms;
    char key[64];
    hf_client *client;
    hf_operation *operation;
};

struct tally {
    long points, done, refused, unknown;
};

static const char parameters[] = "{\"b\": 1, \"a\": [1.5, \"x\"]}";
static const hf_event event = {.aggregate_type = "a", .aggregate_id = "1", .type = "t", .payload = "p", .payload_len = 1};

/* ------------------------------------------------------------------------------------------------ the calls */

static hf_result call_begin(struct run *run, hf_error *error)
{
    const hf_begin_options options = {.key = run->key,
                                      .type = "t",
                                      .parameters_json = parameters,
                                      .wait_ms = run->wait_ms,
                                      .request_id = "mine",
                                      .no_renewal = true};
    hf_outcome *outcome = NULL;
    const hf_result result = hf_operation_begin(run->client, &options, &run->operation, &outcome, error);
    if (result == HF_OK)
        assert_int_equal(outcome->kind, HF_OUTCOME_STARTED);
    hf_outcome_free(outcome);
    return result;
}

static hf_result call_sending(struct run *run, hf_error *error)
{
    return hf_operation_sending(run->operation, error);
}

static hf_result call_complete(struct run *run, hf_error *error)
{
    const hf_complete_options options = {.events = &event, .n_events = 1};
    return hf_operation_complete(run->operation, "value", 5, &options, NULL, error);
}

static hf_result call_fail(struct run *run, hf_error *error)
{
    const hf_failure failure = {.error_class = HF_CLASS_BUSINESS, .message = "no"};
    return hf_operation_fail(run->operation, &failure, NULL, error);
}

static hf_result call_get(struct run *run, hf_error *error)
{
    hf_operation_page *page = NULL;
    const hf_result result = hf_operation_get(run->client, run->key, &page, error);
    if (result == HF_OK)
        assert_string_equal(page->operations[0].result, "value");
    hf_operation_page_free(page);
    return result;
}

static hf_result call_record(struct run *run, hf_error *error)
{
    const hf_record_options options = {.key = run->key,
                                       .type = "t",
                                       .parameters_json = parameters,
                                       .result = "value",
                                       .result_len = 5,
                                       .events = &event,
                                       .n_events = 1};
    hf_outcome *outcome = NULL;
    const hf_result result = hf_operation_record(run->client, &options, &outcome, error);
    hf_outcome_free(outcome);
    return result;
}

static hf_result (*const calls[])(struct run *run, hf_error *error) = {call_begin, call_sending, call_complete,
                                                                       call_get,   call_record,  call_fail};

/* How often what the call does was done. */
static int64_t times_done(const struct run *run)
{
    switch (run->step) {
    case BEGIN:
        return t_sql_int(sql, "SELECT count(*) FROM holdfast.attempt WHERE key = '%s'", run->key);
    case SENDING:
        return t_sql_int(sql, "SELECT count(*) FROM holdfast.attempt WHERE key = '%s' AND sending_at IS NOT NULL", run->key);
    case FAIL:
        return t_sql_int(sql, "SELECT count(*) FROM holdfast.attempt WHERE key = '%s' AND outcome = 2", run->key);
    case GET:
        return -1;
    default:
        return t_sql_int(sql, "SELECT count(*) FROM holdfast.operation WHERE key = '%s' AND state = 3 AND result = 'value'",
                         run->key);
    }
}

/* ------------------------------------------------------------------------------------------------ one point */

static void must(struct run *run, enum step step)
{
    hf_error error;
    if (calls[step](run, &error) != HF_OK)
        fail_msg("%s: %s: %s: %s", fp_where(), step_names[step], hf_result_name(error.result), error.message);
}

/* The call has returned: it says what is so. */
static void judge(const struct run *run, hf_result result, const hf_error *error, struct tally *tally)
{
    const int64_t done = times_done(run);
    const bool refused = result == HF_NO_MEMORY || result == HF_UNAVAILABLE;
    if (result != HF_OK && result != HF_UNKNOWN && !refused)
        fail_msg("%s: %s %s: %s", fp_where(), hf_result_name(result), error->reason, error->message);
    if (done >= 0 && ((result == HF_OK && done != 1) || (refused && done != 0) || done > 1))
        fail_msg("%s: %s: %s, but it was done %d times", fp_where(), hf_result_name(result), error->message, (int)done);
    if (error->result != result)
        fail_msg("%s: returns %s, and the error says %s", fp_where(), hf_result_name(result), hf_result_name(error->result));
    tally->done += result == HF_OK;
    tally->refused += refused;
    tally->unknown += result == HF_UNKNOWN;
}

static void prepare(struct run *run)
{
    if (run->step == RECORD)
        return;
    for (int step = BEGIN; step < (int)run->step && step < COMPLETE; step++)
        must(run, (enum step)step);
    if (run->step == GET)
        must(run, COMPLETE);
}

/* The same call again, and those behind it. */
static void go_on(struct run *run, bool failed)
{
    if (failed)
        must(run, run->step);
    for (int step = run->step + 1; step < STEPS; step++)
        must(run, (enum step)step);
}

static void one(struct run *run, const struct fp_plan *plan, struct tally *tally)
{
    const hf_client_options options = {.servers = server->url, .holder = "me", .timeout_ms = TIMEOUT_MS};
    size_t live = fp_live();
    hf_error error;
    fp_watch(WATCH_S);
    fp_enter_all();
    if (hf_client_new(&options, &run->client, &error) != HF_OK)
        fail_msg("%s", error.message);
    prepare(run);
    fp_arm(plan);
    hf_result result = calls[run->step](run, &error);
    tally->points += fp_disarm() != 0;
    fp_leave_all();
    judge(run, result, &error, tally);
    fp_enter_all();
    go_on(run, result != HF_OK);
    hf_operation_free(run->operation);
    hf_client_free(run->client);
    fp_leave_all();
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.attempt WHERE key = '%s'", run->key), run->step != RECORD);
    if (run->step <= COMPLETE || run->step == RECORD)
        assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.outbox WHERE operation = '%s'", run->key), 1);
    if (fp_live() != live) {
        fp_print_live();
        fail_msg("leaks: %s", fp_where());
    }
}

static void run_step(enum step step, int64_t wait_ms)
{
    struct tally tally = {0};
    struct fp_plan plan = {.kind = FP_MEMORY, .what = step_names[step]};
    int64_t began = t_now_ms();
    long before;
    fp_forget();
    do {
        struct run run = {.step = step, .wait_ms = wait_ms};
        before = tally.points;
        plan.from = before + 1;
        snprintf(run.key, sizeof(run.key), "%s-%d-%ld", step_names[step], (int)wait_ms, plan.from);
        one(&run, &plan, &tally);
        assert_true(tally.points < POINTS_MAX);
    } while (tally.points > before);
    fp_watch(0);
    printf("%s%s: %ld points of memory, %lld ms: %ld done, %ld refused, %ld unknown\n", step_names[step],
           wait_ms ? ", may wait" : "", tally.points, (long long)(t_now_ms() - began), tally.done, tally.refused, tally.unknown);
    fflush(stdout);
    assert_true(tally.points > 0);
}

static void a_begin(void **state)
{
    (void)state;
    run_step(BEGIN, 0);
}

static void a_begin_that_may_wait(void **state)
{
    (void)state;
    run_step(BEGIN, 5000);
}

static void a_mark(void **state)
{
    (void)state;
    run_step(SENDING, 0);
}

static void an_end(void **state)
{
    (void)state;
    run_step(COMPLETE, 0);
}

static void a_failure(void **state)
{
    (void)state;
    run_step(FAIL, 0);
}

static void a_record(void **state)
{
    (void)state;
    run_step(RECORD, 0);
}

static void a_look(void **state)
{
    (void)state;
    run_step(GET, 0);
}

static int setup(void **state)
{
    (void)state;
    char *dsn = t_database();
    server = t_server_start("--dsn", dsn, NULL);
    sql = t_connect(dsn);
    return 0;
}

static int teardown(void **state)
{
    PQfinish(sql);
    return t_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_begin),   cmocka_unit_test(a_begin_that_may_wait),
        cmocka_unit_test(a_mark),    cmocka_unit_test(an_end),
        cmocka_unit_test(a_failure), cmocka_unit_test(a_record),
        cmocka_unit_test(a_look),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
