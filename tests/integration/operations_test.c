/*
 * operations_test.c - every method of OperationService, and what AdminService does for it, against a real server: what it does when
 * all is well, and the outcomes and errors that its proto documents. What a caller may do wrong is in operations_bad_test.c,
 * waiting in operations_wait_test.c.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "integration/ops.h"
#include "integration/served.h"

#define BEGUN(wanted) HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_##wanted
#define STATE(wanted) HOLDFAST__V1__OPERATION__STATE__##wanted
#define CLASS(wanted) HOLDFAST__V1__ERROR_CLASS__KIND__##wanted

static int setup(void **state)
{
    serve_rpc(state);
    o_policy(rpc, "again", 3, 1, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__RETRY, -1, NULL);
    return 0;
}

static void assert_result(ProtobufCBinaryData result, const char *wanted)
{
    assert_int_equal(result.len, strlen(wanted));
    assert_memory_equal(result.data, wanted, result.len);
}

/* ---- the ordinary course ---- */

static void begun_completed_and_replayed(void **state)
{
    (void)state;
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "b1", "t", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(STARTED));
    assert_int_equal(begun->started->attempt, 1);
    assert_int_equal(begun->started->trigger, HOLDFAST__V1__TRIGGER__KIND__MANUAL);
    assert_int_equal(strlen(begun->started->execution_id), 36);
    assert_true(begun->started->token >= 1);
    assert_true(begun->started->ttl_ms > 0 && begun->started->ttl_ms <= 20000);
    int64_t token = begun->started->token;
    begun = o_begin(rpc, "b1", "t", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(IN_PROGRESS));
    assert_string_equal(begun->in_progress->holder, "h");
    assert_int_equal(begun->in_progress->attempt, 1);
    assert_true(begun->in_progress->remaining_ms > 0 && begun->in_progress->remaining_ms <= 20000);
    Holdfast__V1__FinishResponse *finished = o_complete(rpc, "b1", token, "paid", NULL);
    assert_int_equal(finished->state, STATE(SUCCEEDED));
    assert_false(finished->replayed);
    int64_t revision = finished->revision;
    finished = o_complete(rpc, "b1", token, "paid", NULL);
    assert_true(finished->replayed);
    assert_int_equal(finished->revision, revision);
    begun = o_begin(rpc, "b1", "t", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(REPLAYED));
    assert_result(begun->replayed->result, "paid");
    assert_false(begun->replayed->failed);
    assert_int_equal(begun->replayed->attempt, 1);
    Holdfast__V1__Operation *operation = o_get(rpc, "b1", NULL);
    assert_int_equal(operation->state, STATE(SUCCEEDED));
    assert_int_equal(operation->revision, revision);
    assert_result(operation->result, "paid");
    assert_result(operation->fingerprint, O_PRINT);
    assert_int_equal(begun->replayed->first_completed_unix_ms, operation->changed_unix_ms);
    assert_true(operation->changed_unix_ms >= operation->created_unix_ms && operation->created_unix_ms > 0);
    Holdfast__V1__ListAttemptsResponse *attempts = o_attempts(rpc, "b1");
    assert_int_equal(attempts->n_attempts, 1);
    assert_int_equal(attempts->attempts[0]->outcome, HOLDFAST__V1__ATTEMPT__OUTCOME__SUCCEEDED);
    assert_int_equal(attempts->attempts[0]->token, token);
    assert_true(attempts->attempts[0]->ended_unix_ms >= attempts->attempts[0]->started_unix_ms);
}

static void a_result_elsewhere_is_kept_as_a_reference(void **state)
{
    (void)state;
    Holdfast__V1__CompleteRequest request = o_complete_request("ref", o_start(rpc, "ref", "t", 20000), "");
    request.result_ref = C_STR("s3://results/17");
    c_call(rpc, C_OPERATION "Complete", &request, NULL);
    assert_string_equal(o_begin(rpc, "ref", "t", 20000)->replayed->result_ref, "s3://results/17");
    assert_string_equal(o_get(rpc, "ref", NULL)->result_ref, "s3://results/17");
}

static void a_repeated_begin_gets_the_same_attempt(void **state)
{
    (void)state;
    Holdfast__V1__BeginRequest request = o_begin_request("rep", "t", 20000);
    request.request_id = C_STR("rep-1");
    Holdfast__V1__BeginResponse *first = o_begin_with(rpc, &request, NULL), *again = o_begin_with(rpc, &request, NULL);
    assert_int_equal(first->outcome_case, BEGUN(STARTED));
    assert_int_equal(again->outcome_case, BEGUN(STARTED));
    assert_int_equal(again->started->token, first->started->token);
    assert_int_equal(again->started->attempt, 1);
    assert_string_equal(again->started->execution_id, first->started->execution_id);
    request.request_id = C_STR("rep-2");
    assert_int_equal(o_begin_with(rpc, &request, NULL)->outcome_case, BEGUN(IN_PROGRESS));
}

static void parameters_as_json_are_the_same_however_written(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__BeginRequest request = o_begin_request("json", "t", 20000);
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_CANONICAL_JSON;
    request.canonical_json = C_STR("{\"amount\": 1.50, \"to\": \"\\u0041\"}");
    assert_int_equal(o_begin_with(rpc, &request, NULL)->outcome_case, BEGUN(STARTED));
    request.canonical_json = C_STR("{\"to\":\"A\",\"amount\":1.5}");
    assert_int_equal(o_begin_with(rpc, &request, NULL)->outcome_case, BEGUN(IN_PROGRESS));
    request.canonical_json = C_STR("{\"to\":\"A\",\"amount\":1.5,\"note\":null}");
    assert_null(o_begin_with(rpc, &request, &status));
    c_assert_status(&status, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT, "other parameters");
}

static void records_are_kept_once(void **state)
{
    (void)state;
    Holdfast__V1__RecordResponse *response = o_record(rpc, "rec", "first", NULL);
    assert_false(response->replayed);
    assert_int_equal(response->attempt, 1);
    response = o_record(rpc, "rec", "second", NULL);
    assert_true(response->replayed);
    assert_result(response->result, "first");
    assert_true(response->first_completed_unix_ms > 0);
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "rec", "t", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(REPLAYED));
    assert_result(begun->replayed->result, "first");
}

static void events_are_written_with_their_operation(void **state)
{
    (void)state;
    Holdfast__V1__Event event = HOLDFAST__V1__EVENT__INIT, *events[] = {&event, &event};
    event.aggregate_type = C_STR("order");
    event.aggregate_id = C_STR("ev-17");
    event.type = C_STR("paid");
    event.payload = o_bytes("{\"n\":1}");
    Holdfast__V1__CompleteRequest complete = o_complete_request("ev1", o_start(rpc, "ev1", "t", 20000), "r");
    complete.n_events = 2;
    complete.events = events;
    for (int i = 0; i < 2; i++) /* a repeat writes none */
        c_call(rpc, C_OPERATION "Complete", &complete, NULL);
    Holdfast__V1__RecordRequest record = o_record_request("ev2", "t", "r");
    record.n_events = 1;
    record.events = events;
    for (int i = 0; i < 2; i++)
        c_call(rpc, C_OPERATION "Record", &record, NULL);
    assert_int_equal(t_sql_int(conn, "select count(*) from holdfast.outbox where aggregateid = 'ev-17' and operation = 'ev1'"), 2);
    assert_int_equal(t_sql_int(conn, "select count(*) from holdfast.outbox where aggregateid = 'ev-17' and operation = 'ev2'"), 1);
    assert_string_equal(t_sql(conn, "select distinct convert_from(payload, 'UTF8') from holdfast.outbox"), "{\"n\":1}");
}

/* ---- conflicts ---- */

static void assert_conflict(const char *method, const void *request)
{
    c_status status;
    char *before = t_sql(conn, "select operation::text from holdfast.operation where key = 'con'");
    assert_null(c_call(rpc, method, request, &status));
    c_assert_status(&status, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT, method);
    assert_null(strstr(status.message, "secret"));
    for (size_t i = 0; i < status.n_meta; i++)
        assert_null(strstr(status.meta[i].value, "secret"));
    assert_string_equal(t_sql(conn, "select operation::text from holdfast.operation where key = 'con'"), before);
}

/* Another type or fingerprint conflicts on every path and in every state, and what is stored isn't told. */
static void assert_conflicts(void)
{
    for (int i = 0; i < 2; i++) {
        Holdfast__V1__BeginRequest begin = o_begin_request("con", i ? "t" : "u", 20000);
        Holdfast__V1__RecordRequest record = o_record_request("con", i ? "t" : "u", "x");
        Holdfast__V1__ExecuteRequest execute = o_execute_request("con", i ? "t" : "u", "no such", "{}");
        if (i)
            begin.fingerprint = record.fingerprint = execute.fingerprint = o_bytes("another fingerprint of 32 bytes.");
        assert_conflict(C_OPERATION "Begin", &begin);
        assert_conflict(C_OPERATION "Record", &record);
        assert_conflict(C_OPERATION "Execute", &execute);
    }
}

static void conflicts_come_first(void **state)
{
    (void)state;
    int64_t token = o_start(rpc, "con", "t", 20000);
    assert_conflicts();
    o_unknown(rpc, "con", token, "secret", NULL);
    assert_conflicts();
    o_reconcile(rpc, "con", o_get(rpc, "con", NULL)->revision, HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__SUCCEEDED, "secret", NULL);
    assert_conflicts();
}

/* ---- failures and retries ---- */

static void a_failure_that_may_pass_is_tried_again(void **state)
{
    (void)state;
    int64_t token = o_start(rpc, "f1", "again", 20000);
    Holdfast__V1__FinishResponse *failed = o_fail(rpc, "f1", token, CLASS(TRANSIENT), "connection reset", NULL);
    assert_int_equal(failed->state, STATE(PENDING));
    assert_true(failed->due_ms >= 0 && failed->due_ms <= 1);
    Holdfast__V1__BeginRequest request = o_begin_request("f1", "again", 20000);
    request.wait_ms = 10000; /* it is due soon */
    Holdfast__V1__BeginResponse *begun = o_begin_with(rpc, &request, NULL);
    assert_int_equal(begun->outcome_case, BEGUN(STARTED));
    assert_int_equal(begun->started->attempt, 2);
    assert_int_equal(begun->started->trigger, HOLDFAST__V1__TRIGGER__KIND__RETRY);
    assert_true(begun->started->token > token);
    assert_int_equal(o_complete(rpc, "f1", begun->started->token, "done", NULL)->state, STATE(SUCCEEDED));
    Holdfast__V1__ListAttemptsResponse *attempts = o_attempts(rpc, "f1");
    assert_int_equal(attempts->n_attempts, 2);
    assert_int_equal(attempts->attempts[0]->outcome, HOLDFAST__V1__ATTEMPT__OUTCOME__FAILED);
    assert_int_equal(attempts->attempts[0]->error_class, CLASS(TRANSIENT));
    assert_string_equal(attempts->attempts[0]->message, "connection reset");
}

static void retry_after_is_a_floor(void **state)
{
    (void)state;
    Holdfast__V1__FailRequest fail = HOLDFAST__V1__FAIL_REQUEST__INIT;
    fail.namespace_ = C_STR("default");
    fail.key = C_STR("f2");
    fail.token = o_start(rpc, "f2", "again", 20000);
    fail.error_class = CLASS(CONFLICT);
    fail.sqlstate = C_STR("40001");
    fail.retry_after_ms = 60000;
    Holdfast__V1__FinishResponse *failed = c_call(rpc, C_OPERATION "Fail", &fail, NULL);
    assert_int_equal(failed->state, STATE(PENDING));
    assert_true(failed->due_ms > 50000 && failed->due_ms <= 60001);
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "f2", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(IN_PROGRESS));
    assert_string_equal(begun->in_progress->holder, ""); /* nobody has it */
    assert_true(begun->in_progress->remaining_ms > 40000 && begun->in_progress->remaining_ms <= 60000);
    Holdfast__V1__Operation *operation = o_get(rpc, "f2", NULL);
    assert_string_equal(operation->sqlstate, "40001");
    Holdfast__V1__DecideResponse *retried = o_retry(rpc, "f2", operation->revision, NULL); /* a person doesn't want to wait */
    assert_int_equal(retried->state, STATE(PENDING));
    assert_int_equal(o_begin(rpc, "f2", "again", 20000)->outcome_case, BEGUN(STARTED));
}

static void a_business_failure_is_final_and_replayed(void **state)
{
    (void)state;
    int64_t token = o_start(rpc, "f3", "again", 20000);
    assert_int_equal(o_fail(rpc, "f3", token, CLASS(BUSINESS), "no money", NULL)->state, STATE(FAILED));
    assert_true(o_fail(rpc, "f3", token, CLASS(BUSINESS), "no money", NULL)->replayed);
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "f3", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(REPLAYED));
    assert_true(begun->replayed->failed);
    assert_false(begun->replayed->cancelled);
    assert_string_equal(begun->replayed->message, "no money");
    c_status status;
    assert_null(o_complete(rpc, "f3", token, "after all", &status)); /* it ended otherwise */
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE, "Complete");
    Holdfast__V1__RecordRequest record = o_record_request("f3", "again", "x");
    assert_null(c_call(rpc, C_OPERATION "Record", &record, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE, "Record");
    assert_string_equal(hp_status_get_meta(&status, "state"), "FAILED");
}

/* Three attempts fail: REVIEW, with the last real error. */
static int64_t exhaust(const char *key)
{
    for (int i = 0; i < 3; i++) {
        Holdfast__V1__BeginRequest request = o_begin_request(key, "again", 20000);
        request.wait_ms = 10000;
        Holdfast__V1__BeginResponse *begun = o_begin_with(rpc, &request, NULL);
        assert_int_equal(begun->outcome_case, BEGUN(STARTED));
        o_fail(rpc, key, begun->started->token, CLASS(TRANSIENT), "out of paper", NULL);
    }
    Holdfast__V1__Operation *operation = o_get(rpc, key, NULL);
    assert_int_equal(operation->state, STATE(REVIEW));
    assert_int_equal(operation->attempts, 3);
    t_contains(operation->message, "out of paper");
    return operation->revision;
}

static void a_spent_budget_is_for_a_person(void **state)
{
    (void)state;
    c_status status;
    int64_t revision = exhaust("f4");
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "f4", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(REVIEW));
    assert_int_equal(begun->review->error_class, CLASS(TRANSIENT));
    assert_null(o_retry(rpc, "f4", revision - 1, &status));
    c_assert_status(&status, HP_ABORTED, HP_R_REVISION_MISMATCH, "Retry");
    assert_string_equal(hp_status_get_meta(&status, "state"), "REVIEW");
    assert_int_equal(atoll(hp_status_get_meta(&status, "revision")), revision);
    Holdfast__V1__DecideResponse *retried = o_retry(rpc, "f4", revision, NULL);
    assert_int_equal(retried->state, STATE(PENDING));
    assert_false(retried->replayed);
    assert_true(o_retry(rpc, "f4", revision, NULL)->replayed);
    begun = o_begin(rpc, "f4", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(STARTED));
    assert_int_equal(begun->started->attempt, 4); /* with a new budget */
    assert_int_equal(o_fail(rpc, "f4", begun->started->token, CLASS(TRANSIENT), "still", NULL)->state, STATE(PENDING));
    Holdfast__V1__DecideResponse *cancelled = o_cancel(rpc, "f4", o_get(rpc, "f4", NULL)->revision, NULL);
    assert_int_equal(cancelled->state, STATE(CANCELLED));
    begun = o_begin(rpc, "f4", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(REPLAYED));
    assert_true(begun->replayed->failed && begun->replayed->cancelled);
    assert_null(o_retry(rpc, "f4", cancelled->revision, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE, "Retry of a cancelled one");
}

static void configuration_is_parked(void **state)
{
    (void)state;
    int64_t token = o_start(rpc, "f5", "again", 20000);
    assert_int_equal(o_fail(rpc, "f5", token, CLASS(CONFIG), "no such host", NULL)->state, STATE(REVIEW));
    assert_int_equal(o_cancel(rpc, "f5", o_get(rpc, "f5", NULL)->revision, NULL)->state, STATE(CANCELLED));
}

/* ---- leases ---- */

static Holdfast__V1__RenewResult *renew(const char *key, int64_t token, int64_t ttl_ms)
{
    Holdfast__V1__RenewOperationsRequest request = HOLDFAST__V1__RENEW_OPERATIONS_REQUEST__INIT;
    Holdfast__V1__OperationItem item = HOLDFAST__V1__OPERATION_ITEM__INIT, *items = &item;
    request.namespace_ = C_STR("default");
    request.n_items = 1;
    request.items = &items;
    request.ttl_ms = ttl_ms;
    item.key = C_STR(key);
    item.token = token;
    Holdfast__V1__RenewOperationsResponse *response = c_call(rpc, C_OPERATION "Renew", &request, NULL);
    assert_int_equal(response->n_items, 1);
    assert_int_not_equal(response->items[0]->outcome_case, HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR);
    return response->items[0];
}

static int lost(const char *key, int64_t token)
{
    Holdfast__V1__RenewResult *result = renew(key, token, 20000);
    return result->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST ? (int)result->lost->reason : 0;
}

/* The attempt's lease is over; it was long enough for whatever came before, on any machine. */
static void let_it_expire(const char *key)
{
    t_sql(conn,
          "update holdfast.operation set deadline = holdfast.clock() where namespace = 'default' and key = '%s' and state = 2",
          key);
}

static void attempts_are_renewed_as_leases(void **state)
{
    (void)state;
    int64_t token = o_start(rpc, "l1", "again", 20000);
    Holdfast__V1__RenewResult *renewed = renew("l1", token, 60000);
    assert_int_equal(renewed->outcome_case, HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED);
    assert_true(renewed->renewed->ttl_ms > 50000);
    assert_true(renew("l1", token, 100)->renewed->ttl_ms > 40000); /* never shortened */
    assert_int_equal(lost("l1", token + 1000000), HOLDFAST__V1__LOST__REASON__UNKNOWN_TOKEN);
    assert_int_equal(lost("nobody", 1), HOLDFAST__V1__LOST__REASON__UNKNOWN_TOKEN);
    o_complete(rpc, "l1", token, "", NULL);
    assert_int_equal(lost("l1", token), HOLDFAST__V1__LOST__REASON__RELEASED);
    token = o_start(rpc, "l2", "again", 20000);
    let_it_expire("l2");
    int64_t newer = o_start(rpc, "l2", "again", 20000);
    assert_int_equal(lost("l2", token), HOLDFAST__V1__LOST__REASON__TAKEN_OVER);
    assert_int_equal(lost("l2", newer), 0);
}

/* A former owner's late result changes nothing, and is kept. */
static void a_takeover_and_what_comes_late(void **state)
{
    (void)state;
    c_status status;
    int64_t token = o_start(rpc, "l3", "again", 20000);
    let_it_expire("l3");
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "l3", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(STARTED));
    assert_int_equal(begun->started->attempt, 2);
    assert_int_equal(begun->started->trigger, HOLDFAST__V1__TRIGGER__KIND__TAKEOVER);
    assert_true(begun->started->token > token);
    assert_null(o_complete(rpc, "l3", token, "too late", &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "Complete");
    assert_null(o_sending(rpc, "l3", token, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "MarkSending");
    assert_int_equal(o_state(rpc, "l3"), STATE(RUNNING));
    Holdfast__V1__ListAttemptsResponse *attempts = o_attempts(rpc, "l3");
    assert_int_equal(attempts->n_attempts, 2);
    assert_int_equal(attempts->attempts[0]->outcome, HOLDFAST__V1__ATTEMPT__OUTCOME__LOST);
    assert_string_equal(attempts->attempts[0]->late_call, "Complete");
    assert_result(attempts->attempts[0]->late_result, "too late");
    assert_true(attempts->attempts[0]->late_unix_ms > 0 && attempts->attempts[0]->late_count >= 1);
    assert_int_equal(attempts->attempts[1]->outcome, HOLDFAST__V1__ATTEMPT__OUTCOME__UNSPECIFIED);
    o_complete(rpc, "l3", begun->started->token, "in time", NULL);
    assert_result(o_begin(rpc, "l3", "again", 20000)->replayed->result, "in time");
}

static void an_ended_lease_completes_nothing(void **state)
{
    (void)state;
    c_status status;
    int64_t token = o_start(rpc, "l4", "again", 20000);
    let_it_expire("l4");
    assert_null(o_complete(rpc, "l4", token, "too late", &status)); /* though nobody has taken over */
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "Complete");
    assert_result(o_attempts(rpc, "l4")->attempts[0]->late_result, "too late");
    assert_int_equal(o_begin(rpc, "l4", "again", 20000)->outcome_case, BEGUN(STARTED));
}

/* ---- not knowing ---- */

static void what_may_have_been_sent_is_not_sent_again(void **state)
{
    (void)state;
    c_status status;
    int64_t token = o_start(rpc, "u1", "again", 20000); /* its policy would let it run again */
    Holdfast__V1__MarkSendingResponse *sending = o_sending(rpc, "u1", token, NULL);
    assert_true(sending->remaining_ms > 0 && sending->remaining_ms <= 20000);
    let_it_expire("u1");
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "u1", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(UNKNOWN));
    assert_true(begun->unknown->since_unix_ms > 0);
    Holdfast__V1__Operation *operation = o_get(rpc, "u1", NULL);
    assert_int_equal(operation->state, STATE(UNKNOWN));
    assert_null(o_retry(rpc, "u1", operation->revision, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_OUTCOME_UNKNOWN, "Retry");
    assert_null(o_cancel(rpc, "u1", operation->revision, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_OUTCOME_UNKNOWN, "Cancel");
    Holdfast__V1__ExecuteRequest execute = o_execute_request("u1", "again", "any", "{}");
    assert_null(c_call(rpc, C_OPERATION "Execute", &execute, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_OUTCOME_UNKNOWN, "Execute");
    Holdfast__V1__DecideResponse *decided =
        o_reconcile(rpc, "u1", operation->revision, HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__SUCCEEDED, "booked", NULL);
    assert_int_equal(decided->state, STATE(SUCCEEDED));
    begun = o_begin(rpc, "u1", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(REPLAYED));
    assert_result(begun->replayed->result, "booked");
}

static void each_thing_that_reconcile_may_say(void **state)
{
    (void)state;
    static const struct {
        Holdfast__V1__ReconcileRequest__Outcome outcome;
        Holdfast__V1__Operation__State state;
        Holdfast__V1__BeginResponse__OutcomeCase begun;
    } table[] = {
        {HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__FAILED, STATE(FAILED), BEGUN(REPLAYED)},
        {HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__NOT_DONE, STATE(PENDING), BEGUN(STARTED)},
        {HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__CANCELLED, STATE(CANCELLED), BEGUN(REPLAYED)},
    };
    for (size_t i = 0; i < 3; i++) {
        const char *key = t_printf("u2-%zu", i);
        int64_t token = o_start(rpc, key, "t", 20000);
        assert_int_equal(o_unknown(rpc, key, token, "cut off", NULL)->state, STATE(UNKNOWN));
        assert_true(o_unknown(rpc, key, token, "cut off", NULL)->replayed);
        assert_string_equal(o_begin(rpc, key, "t", 20000)->unknown->note, "cut off");
        int64_t revision = o_get(rpc, key, NULL)->revision;
        assert_int_equal(o_reconcile(rpc, key, revision, table[i].outcome, "", NULL)->state, table[i].state);
        assert_true(o_reconcile(rpc, key, revision, table[i].outcome, "", NULL)->replayed);
        assert_int_equal(o_begin(rpc, key, "t", 20000)->outcome_case, table[i].begun);
    }
}

static void without_a_policy_a_lost_attempt_is_unknown(void **state)
{
    (void)state;
    o_start(rpc, "u3", "t", 20000);
    let_it_expire("u3");
    assert_int_equal(o_state(rpc, "u3"), STATE(UNKNOWN)); /* as it is, also before anybody has written that down */
    assert_int_equal(o_begin(rpc, "u3", "t", 20000)->outcome_case, BEGUN(UNKNOWN));
}

/* ---- compensation ---- */

static void a_compensation_is_made_once(void **state)
{
    (void)state;
    c_status status;
    o_record(rpc, "c1", "done", NULL);
    Holdfast__V1__CompensateRequest request = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR("c1");
    request.type = C_STR("refund");
    request.payload = o_bytes("17 EUR");
    request.actor = C_STR("operator");
    request.reason = C_STR("sent back");
    Holdfast__V1__CompensateResponse *response = c_call(rpc, C_OPERATION "Compensate", &request, NULL);
    assert_string_equal(response->key, "undo:c1");
    assert_int_equal(response->state, STATE(PENDING));
    assert_false(response->replayed);
    assert_int_equal(response->fingerprint.len, 32);
    Holdfast__V1__CompensateResponse *again = c_call(rpc, C_OPERATION "Compensate", &request, NULL);
    assert_true(again->replayed);
    assert_string_equal(again->key, "undo:c1");
    assert_memory_equal(again->fingerprint.data, response->fingerprint.data, 32);
    request.payload = o_bytes("18 EUR");
    assert_null(c_call(rpc, C_OPERATION "Compensate", &request, &status));
    c_assert_status(&status, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT, "another compensation");
    assert_string_equal(o_get(rpc, "c1", NULL)->compensated_by, "undo:c1");
    Holdfast__V1__Operation *undo = o_get(rpc, "undo:c1", NULL);
    assert_string_equal(undo->compensates, "c1");
    assert_result(undo->payload, "17 EUR");
    Holdfast__V1__BeginRequest begin = o_begin_request("undo:c1", "refund", 20000);
    begin.fingerprint = response->fingerprint;
    assert_int_equal(o_begin_with(rpc, &begin, NULL)->outcome_case, BEGUN(STARTED));
    request.key = C_STR("undo:c1"); /* it runs */
    assert_null(c_call(rpc, C_OPERATION "Compensate", &request, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE, "of one that runs");
}

/* ---- actions ---- */

static void make_actions(void)
{
    t_sql(conn, "do $$ begin create role hf_test_actions nologin; exception when duplicate_object then null; end $$;"
                "create schema shop; grant usage, create on schema shop to hf_test_actions;"
                "create table shop.payment (key text, amount int check (amount > 0));"
                "alter table shop.payment owner to hf_test_actions;"
                "create function shop.pay(key text, args jsonb) returns jsonb language plpgsql security definer "
                "set search_path = shop, pg_temp as $$ begin insert into payment values (key, (args->>'amount')::int); "
                "return jsonb_build_object('paid', args->'amount'); end $$;"
                "alter function shop.pay owner to hf_test_actions;"
                "create function shop.plain(key text, args jsonb) returns jsonb language sql as $$ select args $$");
}

static Holdfast__V1__RegisterActionResponse *register_action(const char *name, const char *function, c_status *status)
{
    Holdfast__V1__RegisterActionRequest request = HOLDFAST__V1__REGISTER_ACTION_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.name = C_STR(name);
    request.function = C_STR(function);
    request.actor = C_STR("operator");
    return c_call(rpc, C_ADMIN "RegisterAction", &request, status);
}

static int64_t payments(void)
{
    return t_sql_int(conn, "select count(*) from shop.payment");
}

static void actions_run_within_the_transaction(void **state)
{
    (void)state;
    c_status status;
    make_actions();
    assert_null(register_action("plain", "shop.plain", &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_MALFORMED, "RegisterAction");
    assert_string_equal(status.field, "function");
    Holdfast__V1__RegisterActionResponse *registered = register_action("pay", "shop.pay", NULL);
    assert_string_equal(registered->action->role, "hf_test_actions");
    assert_int_equal(registered->action->timeout_ms, 5000);
    register_action("pay", "shop.pay", NULL); /* again */
    assert_null(register_action("pay", "shop.plain", &status));
    assert_true(status.reason == HP_R_PARAMETER_CONFLICT || status.reason == HP_R_MALFORMED);

    Holdfast__V1__ExecuteRequest request = o_execute_request("x1", "t", "pay", "{\"amount\": 5}");
    Holdfast__V1__ExecuteResponse *response = c_call(rpc, C_OPERATION "Execute", &request, NULL);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_DONE);
    assert_false(response->replayed);
    assert_result(response->done->result, "{\"paid\": 5}");
    response = c_call(rpc, C_OPERATION "Execute", &request, NULL);
    assert_true(response->replayed);
    assert_result(response->done->result, "{\"paid\": 5}");
    assert_int_equal(payments(), 1);

    request = o_execute_request("x2", "t", "pay", "{\"amount\": -5}");
    assert_null(c_call(rpc, C_OPERATION "Execute", &request, &status));
    c_assert_status(&status, HP_ABORTED, HP_R_ACTION_RAISED, "Execute");
    assert_string_equal(hp_status_get_meta(&status, "sqlstate"), "23514");
    assert_int_equal(payments(), 1);
    assert_null(o_get(rpc, "x2", &status)); /* nothing was done, not even that it was tried */
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_OPERATION, "Get");
    request = o_execute_request("x3", "t", "nothing", "{}");
    assert_null(c_call(rpc, C_OPERATION "Execute", &request, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_ACTION, "Execute");
}

static void executions_are_fenced(void **state)
{
    (void)state;
    c_status status;
    int64_t before = payments(), token = c_grant(rpc, "till", 0);
    Holdfast__V1__ExecuteRequest request = o_execute_request("x4", "t", "pay", "{\"amount\": 1}");
    request.resource = C_STR("till");
    request.token = token;
    request.expected_case = HOLDFAST__V1__EXECUTE_REQUEST__EXPECTED_EXPECTED_VERSION;
    request.expected_version = 7;
    assert_null(c_call(rpc, C_OPERATION "Execute", &request, &status));
    c_assert_status(&status, HP_ABORTED, HP_R_VERSION_MISMATCH, "Execute");
    assert_string_equal(hp_status_get_meta(&status, "version"), "0");
    request.expected_version = 0;
    assert_true(c_release_one(rpc, "till", token));
    assert_null(c_call(rpc, C_OPERATION "Execute", &request, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "Execute");
    int64_t newer = c_grant(rpc, "till", 0);
    assert_null(c_call(rpc, C_OPERATION "Execute", &request, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "Execute");
    assert_int_equal(atoll(hp_status_get_meta(&status, "fence")), newer);
    assert_int_equal(payments(), before);
    request.token = newer;
    Holdfast__V1__ExecuteResponse *response = c_call(rpc, C_OPERATION "Execute", &request, NULL);
    assert_false(response->replayed);
    assert_int_equal(payments(), before + 1);
}

static void actions_are_listed_and_removed(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__ListActionsRequest list = HOLDFAST__V1__LIST_ACTIONS_REQUEST__INIT;
    list.namespace_ = C_STR("default");
    list.page_size = 1;
    register_action("pay2", "shop.pay", NULL);
    Holdfast__V1__ListActionsResponse *page = c_call(rpc, C_ADMIN "ListActions", &list, NULL);
    assert_int_equal(page->n_actions, 1);
    assert_string_equal(page->actions[0]->name, "pay");
    list.page_token = page->next_page_token;
    page = c_call(rpc, C_ADMIN "ListActions", &list, NULL);
    assert_string_equal(page->actions[0]->name, "pay2");
    assert_string_equal(page->next_page_token, "");
    Holdfast__V1__RemoveActionRequest remove = HOLDFAST__V1__REMOVE_ACTION_REQUEST__INIT;
    remove.namespace_ = C_STR("default");
    remove.name = C_STR("pay2");
    remove.actor = C_STR("operator");
    c_call(rpc, C_ADMIN "RemoveAction", &remove, NULL);
    assert_null(c_call(rpc, C_ADMIN "RemoveAction", &remove, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_ACTION, "RemoveAction");
}

/* ---- lists, policies, audit, stats ---- */

static void lists_are_in_the_order_of_keys(void **state)
{
    (void)state;
    for (int i = 0; i < 25; i++)
        o_record(rpc, t_printf("list/%02d", i), "x", NULL);
    o_start(rpc, "list/99", "other", 20000);
    Holdfast__V1__ListOperationsRequest list = HOLDFAST__V1__LIST_OPERATIONS_REQUEST__INIT;
    list.namespace_ = C_STR("default");
    list.prefix = C_STR("list/");
    list.page_size = 10;
    size_t n = 0, pages = 0;
    Holdfast__V1__ListOperationsResponse *page;
    const char *last = "";
    do {
        page = c_call(rpc, C_OPERATION "List", &list, NULL);
        for (size_t i = 0; i < page->n_operations; i++, n++) {
            assert_true(strcmp(page->operations[i]->key, last) > 0);
            assert_int_equal(page->operations[i]->result.len, 0); /* lists are without results */
            last = page->operations[i]->key;
        }
        list.page_token = page->next_page_token;
        pages++;
    } while (list.page_token[0]);
    assert_int_equal(n, 26);
    assert_int_equal(pages, 3);
    list.state = STATE(RUNNING);
    page = c_call(rpc, C_OPERATION "List", &list, NULL);
    assert_int_equal(page->n_operations, 1);
    assert_string_equal(page->operations[0]->key, "list/99");
    list.state = STATE(UNSPECIFIED);
    list.type = C_STR("other");
    page = c_call(rpc, C_OPERATION "List", &list, NULL);
    assert_int_equal(page->n_operations, 1);
    list.older_than_ms = 3600000;
    page = c_call(rpc, C_OPERATION "List", &list, NULL);
    assert_int_equal(page->n_operations, 0);
}

static void policies_are_set_in_part_and_listed(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__OperationPolicy *policy =
        o_policy(rpc, "p1", 7, -1, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__UNSPECIFIED, -1, NULL)->policy;
    assert_int_equal(policy->max_attempts, 7);
    assert_int_equal(policy->base_ms, 1000); /* the default */
    assert_int_equal(policy->on_lost, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__UNKNOWN);
    policy = o_policy(rpc, "p1", -1, 50, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__RETRY, -1, NULL)->policy;
    assert_int_equal(policy->max_attempts, 7); /* left as it was */
    assert_int_equal(policy->base_ms, 50);
    assert_int_equal(policy->on_lost, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__RETRY);
    assert_null(o_policy(rpc, "p1", -1, -1, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__UNSPECIFIED, 3600000, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "a retention shorter than the retries");
    assert_string_equal(status.field, "policy.retention_ms");
    t_contains(status.message, "3600000");
    assert_true(atoll(hp_status_get_meta(&status, "limit") + strlen("at least ")) > 86400000);
    Holdfast__V1__ListOperationPoliciesRequest list = HOLDFAST__V1__LIST_OPERATION_POLICIES_REQUEST__INIT;
    o_policy(rpc, "", 20, -1, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__UNSPECIFIED, -1, NULL);
    list.namespace_ = C_STR("default");
    list.page_size = 1;
    static const char *const wanted[] = {"", "again", "p1"};
    for (size_t i = 0; i < 3; i++) {
        Holdfast__V1__ListOperationPoliciesResponse *page = c_call(rpc, C_ADMIN "ListOperationPolicies", &list, NULL);
        assert_int_equal(page->n_policies, 1);
        assert_string_equal(page->policies[0]->type, wanted[i]);
        list.page_token = page->next_page_token;
        assert_int_equal(list.page_token[0] != '\0', i < 2);
    }
}

static void decisions_are_audited(void **state)
{
    (void)state;
    int64_t revision = exhaust("audited");
    o_retry(rpc, "audited", revision, NULL);
    o_cancel(rpc, "audited", o_get(rpc, "audited", NULL)->revision, NULL);
    Holdfast__V1__AuditRequest request = HOLDFAST__V1__AUDIT_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.operation = C_STR("audited");
    Holdfast__V1__AuditResponse *audit = c_call(rpc, C_ADMIN "Audit", &request, NULL);
    assert_int_equal(audit->n_entries, 2);
    static const char *const kinds[] = {"cancel", "retry"}; /* newest first */
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(audit->entries[i]->kind, kinds[i]);
        assert_string_equal(audit->entries[i]->operation, "audited");
        assert_string_equal(audit->entries[i]->resource, "");
        assert_string_equal(audit->entries[i]->actor, "operator");
    }
    t_contains(audit->entries[0]->detail, "not wanted");
}

static void stats_tell_of_operations(void **state)
{
    (void)state;
    Holdfast__V1__OperationStats *before = c_stats(rpc)->operations;
    int64_t token = o_start(rpc, "s1", "t", 20000);
    o_begin(rpc, "s1", "t", 20000);
    o_complete(rpc, "s1", token, "", NULL);
    o_begin(rpc, "s1", "t", 20000);
    o_unknown(rpc, "s2", o_start(rpc, "s2", "t", 20000), "?", NULL);
    Holdfast__V1__StatsResponse *stats = c_stats(rpc);
    Holdfast__V1__OperationStats *after = stats->operations;
    assert_int_equal(after->started, before->started + 2);
    assert_int_equal(after->replays, before->replays + 1);
    assert_int_equal(after->in_progress, before->in_progress + 1);
    assert_int_equal(after->succeeded, before->succeeded + 1);
    assert_true(after->succeeded_after_retry >= 1 && after->exhausted >= 2 && after->amplification > 1);
    bool unknown = false, stale = false, raised = false, contended = false;
    for (size_t i = 0; i < after->n_states; i++)
        unknown = unknown || (!strcmp(after->states[i]->state, "unknown") && after->states[i]->count >= 1);
    for (size_t i = 0; i < after->n_stale_tokens; i++)
        stale = stale || (!strcmp(after->stale_tokens[i]->name, "Complete") && after->stale_tokens[i]->count >= 2);
    for (size_t i = 0; i < after->n_sqlstates; i++)
        raised = raised || (!strcmp(after->sqlstates[i]->name, "23514") && after->sqlstates[i]->count == 1);
    for (size_t i = 0; i < stats->n_contention; i++)
        contended = contended || !strcmp(stats->contention[i]->name, "op:s1");
    assert_true(unknown && stale && raised && contended);
}

static void what_is_not_there(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__BeginRequest begin = o_begin_request("k", "t", 20000);
    begin.namespace_ = C_STR("nowhere");
    assert_null(o_begin_with(rpc, &begin, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE, "Begin");
    Holdfast__V1__WaitOperationRequest wait = HOLDFAST__V1__WAIT_OPERATION_REQUEST__INIT;
    wait.namespace_ = C_STR("nowhere");
    wait.key = C_STR("k");
    assert_null(c_call(rpc, C_OPERATION "Wait", &wait, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE, "Wait");
    wait.namespace_ = C_STR("default");
    assert_null(c_call(rpc, C_OPERATION "Wait", &wait, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_OPERATION, "Wait");
    Holdfast__V1__SubmitRequest submit = HOLDFAST__V1__SUBMIT_REQUEST__INIT;
    assert_null(c_call(rpc, C_OPERATION "Submit", &submit, &status));
    c_assert_status(&status, HP_UNIMPLEMENTED, HP_R_NOT_YET, "Submit");
    Holdfast__V1__ClaimRequest claim = HOLDFAST__V1__CLAIM_REQUEST__INIT;
    assert_null(c_call(rpc, C_OPERATION "Claim", &claim, &status));
    c_assert_status(&status, HP_UNIMPLEMENTED, HP_R_NOT_YET, "Claim");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begun_completed_and_replayed),
        cmocka_unit_test(a_result_elsewhere_is_kept_as_a_reference),
        cmocka_unit_test(a_repeated_begin_gets_the_same_attempt),
        cmocka_unit_test(parameters_as_json_are_the_same_however_written),
        cmocka_unit_test(records_are_kept_once),
        cmocka_unit_test(events_are_written_with_their_operation),
        cmocka_unit_test(conflicts_come_first),
        cmocka_unit_test(a_failure_that_may_pass_is_tried_again),
        cmocka_unit_test(retry_after_is_a_floor),
        cmocka_unit_test(a_business_failure_is_final_and_replayed),
        cmocka_unit_test(a_spent_budget_is_for_a_person),
        cmocka_unit_test(configuration_is_parked),
        cmocka_unit_test(attempts_are_renewed_as_leases),
        cmocka_unit_test(a_takeover_and_what_comes_late),
        cmocka_unit_test(an_ended_lease_completes_nothing),
        cmocka_unit_test(what_may_have_been_sent_is_not_sent_again),
        cmocka_unit_test(each_thing_that_reconcile_may_say),
        cmocka_unit_test(without_a_policy_a_lost_attempt_is_unknown),
        cmocka_unit_test(a_compensation_is_made_once),
        cmocka_unit_test(actions_run_within_the_transaction),
        cmocka_unit_test(executions_are_fenced),
        cmocka_unit_test(actions_are_listed_and_removed),
        cmocka_unit_test(lists_are_in_the_order_of_keys),
        cmocka_unit_test(policies_are_set_in_part_and_listed),
        cmocka_unit_test(decisions_are_audited),
        cmocka_unit_test(stats_tell_of_operations),
        cmocka_unit_test(what_is_not_there),
    };
    return cmocka_run_group_tests(tests, setup, end_serving_rpc);
}
