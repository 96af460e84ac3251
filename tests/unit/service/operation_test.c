/*
 * operation_test.c - OperationService and what AdminService does for it, with a fake store: checks before anything is done, items,
 * and what outcomes are told as. Waiting is in operation_wait_test.c.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "proto/c/sha256.h"

#define OPERATION "/holdfast.v1.OperationService/"
#define ADMIN     "/holdfast.v1.AdminService/"

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static ProtobufCBinaryData bytes(const char *data, size_t len)
{
    return (ProtobufCBinaryData){.len = len, .data = (uint8_t *)str(data)};
}

static const char print[] = "0123456789abcdef0123456789abcdef"; /* 32 bytes, and a NUL behind */

static char *repeat(char c, size_t n)
{
    char *text = t_printf("%*s", (int)n, "");
    return memset(text, c, n);
}

static Holdfast__V1__BeginRequest good_begin(void)
{
    Holdfast__V1__BeginRequest request = HOLDFAST__V1__BEGIN_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.key = str("k");
    request.type = str("t");
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = bytes(print, 32);
    request.holder = str("h");
    request.ttl_ms = 10000;
    return request;
}

static Holdfast__V1__ExecuteRequest good_execute(void)
{
    Holdfast__V1__ExecuteRequest request = HOLDFAST__V1__EXECUTE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.key = str("k");
    request.type = str("t");
    request.parameters_case = HOLDFAST__V1__EXECUTE_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = bytes(print, 32);
    request.action = str("a");
    request.holder = str("h");
    return request;
}

static Holdfast__V1__CompleteRequest good_complete(void)
{
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.key = str("k");
    request.token = 7;
    return request;
}

static void assert_bad(struct fake *f, const char *method, const void *request, enum hp_reason reason, const char *field)
{
    size_t before = f->n_submitted;
    struct fake_call *call = fake_call(f, method, request, 0);
    fake_assert_error(call, HP_INVALID_ARGUMENT, reason);
    assert_string_equal(call->status.field, field);
    assert_int_equal(f->n_submitted, before);
}

/* ---- checks ---- */

static void a_begin_is_checked_wholly(void **state)
{
    struct fake *f = *state;
    static const int64_t ttls[] = {0, -1, 99, 86400001, INT64_MAX, INT64_MIN};
    Holdfast__V1__BeginRequest request;
#define BAD(field_, value, reason, named)                                                                                          \
    request = good_begin();                                                                                                        \
    request.field_ = value;                                                                                                        \
    assert_bad(f, OPERATION "Begin", &request, reason, named)
    BAD(namespace_, str(""), HP_R_LIMIT, "namespace");
    BAD(key, str(""), HP_R_LIMIT, "key");
    BAD(key, repeat('k', 257), HP_R_LIMIT, "key");
    BAD(key, str("a\nb"), HP_R_MALFORMED, "key");
    BAD(type, str(""), HP_R_LIMIT, "type");
    BAD(holder, str(""), HP_R_LIMIT, "holder");
    for (size_t i = 0; i < sizeof(ttls) / sizeof(ttls[0]); i++) {
        BAD(ttl_ms, ttls[i], HP_R_LIMIT, "ttl_ms");
    }
    BAD(wait_ms, -1, HP_R_LIMIT, "wait_ms");
    BAD(wait_ms, 3600001, HP_R_LIMIT, "wait_ms");
    BAD(request_id, str("\x7f"), HP_R_MALFORMED, "request_id");
    BAD(trigger, HOLDFAST__V1__TRIGGER__KIND__TAKEOVER, HP_R_MALFORMED, "trigger");
    BAD(trigger, (Holdfast__V1__Trigger__Kind)5, HP_R_LIMIT, "trigger");
    BAD(fingerprint, bytes(print, 31), HP_R_LIMIT, "fingerprint");
    BAD(fingerprint, bytes(print, 33), HP_R_LIMIT, "fingerprint");
    BAD(fingerprint, bytes("", 0), HP_R_LIMIT, "fingerprint");
    BAD(parameters_case, HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS__NOT_SET, HP_R_LIMIT, "fingerprint");
#undef BAD
}

static void parameters_as_json_are_checked_and_made_canonical(void **state)
{
    struct fake *f = *state;
    static const struct {
        const char *json;
        enum hp_reason reason;
    } bad[] = {
        {"", HP_R_LIMIT},
        {"{", HP_R_MALFORMED},
        {"{\"a\":1,\"a\":2}", HP_R_MALFORMED},
        {"{\"a\":NaN}", HP_R_MALFORMED},
        {"1e400", HP_R_MALFORMED},
        {"\"\\ud800\"", HP_R_MALFORMED},
        {"[] x", HP_R_MALFORMED},
    };
    Holdfast__V1__BeginRequest request = good_begin();
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_CANONICAL_JSON;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        request.canonical_json = str(bad[i].json);
        assert_bad(f, OPERATION "Begin", &request, bad[i].reason, "canonical_json");
    }
    request.canonical_json = t_printf("%s%s", repeat('[', 100), repeat(']', 100));
    assert_bad(f, OPERATION "Begin", &request, HP_R_MALFORMED, "canonical_json");
    request.canonical_json = t_printf("\"%s\"", repeat('x', 1 << 20));
    assert_bad(f, OPERATION "Begin", &request, HP_R_LIMIT, "canonical_json");
    uint8_t sum[HP_SHA256_SIZE];
    request.canonical_json = str(" { \"b\" : 2.0, \"a\":\"x\" } ");
    hp_sha256("{\"a\":\"x\",\"b\":2}", 15, sum);
    fake_call(f, OPERATION "Begin", &request, 0);
    assert_int_equal(f->items[0]->in.op_begin.fingerprint.len, 32);
    assert_memory_equal(f->items[0]->in.op_begin.fingerprint.data, sum, 32);
}

static Holdfast__V1__Event good_event(void)
{
    Holdfast__V1__Event event = HOLDFAST__V1__EVENT__INIT;
    event.aggregate_type = str("order");
    event.aggregate_id = str("17");
    event.type = str("paid");
    event.payload = bytes("{}", 2);
    return event;
}

static void events_and_results_have_limits(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__CompleteRequest request = good_complete();
    Holdfast__V1__Event event = good_event(), *events[101];
    for (size_t i = 0; i < 101; i++)
        events[i] = &event;
    request.events = events;
    request.n_events = 101;
    assert_bad(f, OPERATION "Complete", &request, HP_R_LIMIT, "events");
    request.n_events = 2;
    event.type = str("");
    assert_bad(f, OPERATION "Complete", &request, HP_R_LIMIT, "events[0].type");
    event = good_event();
    event.aggregate_id = str("\t");
    assert_bad(f, OPERATION "Complete", &request, HP_R_MALFORMED, "events[0].aggregate_id");
    event = good_event();
    event.aggregate_type = str("");
    assert_bad(f, OPERATION "Complete", &request, HP_R_LIMIT, "events[0].aggregate_type");
    event = good_event();
    event.payload = bytes(repeat('p', (1 << 19) + 1), (1 << 19) + 1); /* twice that is too much */
    assert_bad(f, OPERATION "Complete", &request, HP_R_LIMIT, "events");
    request = good_complete();
    request.result = bytes(repeat('r', (1 << 20) + 1), (1 << 20) + 1);
    assert_bad(f, OPERATION "Complete", &request, HP_R_LIMIT, "result");
    request.result = bytes("r", 1);
    request.result_ref = str("s3://x");
    assert_bad(f, OPERATION "Complete", &request, HP_R_MALFORMED, "result_ref");
    request.result = bytes("", 0);
    request.result_ref = repeat('x', 1025);
    assert_bad(f, OPERATION "Complete", &request, HP_R_LIMIT, "result_ref");
    request = good_complete();
    request.token = 0;
    assert_bad(f, OPERATION "Complete", &request, HP_R_LIMIT, "token");
}

static void failures_say_of_what_kind_they_are(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__FailRequest good = HOLDFAST__V1__FAIL_REQUEST__INIT, request;
    good.namespace_ = str("ns");
    good.key = str("k");
    good.token = 7;
    good.error_class = HOLDFAST__V1__ERROR_CLASS__KIND__TRANSIENT;
    good.sqlstate = str("40P01");
#define BAD(field_, value, reason)                                                                                                 \
    request = good;                                                                                                                \
    request.field_ = value;                                                                                                        \
    assert_bad(f, OPERATION "Fail", &request, reason, #field_)
    BAD(error_class, HOLDFAST__V1__ERROR_CLASS__KIND__UNSPECIFIED, HP_R_LIMIT);
    BAD(error_class, (Holdfast__V1__ErrorClass__Kind)7, HP_R_LIMIT);
    BAD(sqlstate, str("4000"), HP_R_MALFORMED);
    BAD(sqlstate, str("40p01"), HP_R_MALFORMED);
    BAD(message, repeat('m', 4097), HP_R_LIMIT);
    BAD(retry_after_ms, -1, HP_R_LIMIT);
    BAD(retry_after_ms, 86400001, HP_R_LIMIT);
    BAD(token, -1, HP_R_LIMIT);
#undef BAD
    good.message = repeat('m', 4096);
    good.retry_after_ms = 86400000;
    fake_call(f, OPERATION "Fail", &good, 0);
    const struct st_op_finish *in = &f->items[0]->in.op_finish;
    assert_int_equal(f->items[0]->kind, ST_OP_FINISH);
    assert_int_equal(in->call, ST_OP_FAIL);
    assert_int_equal(in->token, 7);
    assert_int_equal(in->error_class, 1);
    assert_string_equal(in->sqlstate, "40P01");
    assert_int_equal(in->retry_after_ms, 86400000);
    Holdfast__V1__MarkUnknownRequest unknown = HOLDFAST__V1__MARK_UNKNOWN_REQUEST__INIT;
    unknown.namespace_ = str("ns");
    unknown.key = str("k");
    unknown.token = 7;
    unknown.note = repeat('n', 4097);
    assert_bad(f, OPERATION "MarkUnknown", &unknown, HP_R_LIMIT, "note");
}

static void executions_are_checked(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__ExecuteRequest request;
#define BAD(field_, value, reason, named)                                                                                          \
    request = good_execute();                                                                                                      \
    request.field_ = value;                                                                                                        \
    assert_bad(f, OPERATION "Execute", &request, reason, named)
    BAD(action, str(""), HP_R_LIMIT, "action");
    BAD(args, str("{\"a\""), HP_R_MALFORMED, "args");
    BAD(args, str("{\"a\":\"\\u0000\"}"), HP_R_MALFORMED, "args"); /* jsonb cannot keep it */
    BAD(token, 5, HP_R_MALFORMED, "token");                        /* of which resource? */
    BAD(resource, str("r"), HP_R_LIMIT, "token");
    BAD(expected_case, HOLDFAST__V1__EXECUTE_REQUEST__EXPECTED_EXPECTED_VERSION, HP_R_MALFORMED, "expected_version");
#undef BAD
    request = good_execute();
    request.args = str("{\"a\":\"\\\\u0000\"}"); /* a backslash and some characters */
    request.resource = str("r");
    request.token = 5;
    request.expected_case = HOLDFAST__V1__EXECUTE_REQUEST__EXPECTED_EXPECTED_VERSION;
    request.expected_version = 0;
    fake_call(f, OPERATION "Execute", &request, 0);
    const struct st_op_execute *in = &f->items[0]->in.op_execute;
    assert_string_equal(in->args, "{\"a\":\"\\\\u0000\"}");
    assert_string_equal(in->resource, "r");
    assert_true(in->expects);
    request = good_execute();
    fake_call(f, OPERATION "Execute", &request, 0);
    assert_string_equal(f->items[1]->in.op_execute.args, "{}");
    assert_null(f->items[1]->in.op_execute.resource);
    assert_false(f->items[1]->in.op_execute.expects);
}

static void decisions_are_checked(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__ReconcileRequest good = HOLDFAST__V1__RECONCILE_REQUEST__INIT, request;
    good.namespace_ = str("ns");
    good.key = str("k");
    good.revision = 3;
    good.outcome = HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__SUCCEEDED;
    good.actor = str("me");
    good.reason = str("seen at the bank");
#define BAD(field_, value, reason_, named)                                                                                         \
    request = good;                                                                                                                \
    request.field_ = value;                                                                                                        \
    assert_bad(f, OPERATION "Reconcile", &request, reason_, named)
    BAD(revision, 0, HP_R_LIMIT, "revision");
    BAD(outcome, HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__UNSPECIFIED, HP_R_LIMIT, "outcome");
    BAD(outcome, (Holdfast__V1__ReconcileRequest__Outcome)5, HP_R_LIMIT, "outcome");
    BAD(actor, str(""), HP_R_LIMIT, "actor");
    BAD(actor, repeat('a', 257), HP_R_LIMIT, "actor");
    BAD(reason, str(""), HP_R_LIMIT, "reason");
    BAD(reason, repeat('r', 1025), HP_R_LIMIT, "reason");
#undef BAD
    request = good;
    request.outcome = HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__FAILED;
    request.result = bytes("x", 1);
    assert_bad(f, OPERATION "Reconcile", &request, HP_R_MALFORMED, "result");
    request = good;
    request.revision = INT64_MAX;
    request.result_ref = str("at/the/bank");
    struct fake_call *call = fake_call(f, OPERATION "Reconcile", &request, 0);
    assert_int_equal(f->items[0]->in.op_decide.revision, INT32_MAX); /* SQL's are no larger */
    assert_int_equal(f->items[0]->in.op_decide.decision, ST_OP_RECONCILE);
    assert_int_equal(f->items[0]->in.op_decide.reconciled, 1);
    f->items[0]->out.op_moved.revision = 4;
    f->items[0]->out.op_moved.state = ST_OP_SUCCEEDED;
    fake_done(f, 0, ST_OP_REVISION);
    fake_assert_error(call, HP_ABORTED, HP_R_REVISION_MISMATCH);
    assert_string_equal(hp_status_get_meta(&call->status, "revision"), "4");
    assert_string_equal(hp_status_get_meta(&call->status, "state"), "SUCCEEDED");
}

static void policies_and_actions_are_checked(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__SetOperationPolicyRequest set = HOLDFAST__V1__SET_OPERATION_POLICY_REQUEST__INIT;
    Holdfast__V1__OperationPolicy policy = HOLDFAST__V1__OPERATION_POLICY__INIT;
    set.namespace_ = str("ns");
    set.actor = str("me");
    set.policy = &policy;
    policy.attempts_case = HOLDFAST__V1__OPERATION_POLICY__ATTEMPTS_MAX_ATTEMPTS;
    policy.max_attempts = 0;
    assert_bad(f, ADMIN "SetOperationPolicy", &set, HP_R_LIMIT, "policy.max_attempts");
    policy.max_attempts = 1001;
    assert_bad(f, ADMIN "SetOperationPolicy", &set, HP_R_LIMIT, "policy.max_attempts");
    policy.max_attempts = 5;
    policy.base_case = HOLDFAST__V1__OPERATION_POLICY__BASE_BASE_MS;
    policy.base_ms = 10;
    policy.cap_case = HOLDFAST__V1__OPERATION_POLICY__CAP_CAP_MS;
    policy.cap_ms = 9;
    assert_bad(f, ADMIN "SetOperationPolicy", &set, HP_R_MALFORMED, "policy.base_ms");
    policy.cap_ms = 10;
    policy.on_lost = (Holdfast__V1__OperationPolicy__OnLost)3;
    assert_bad(f, ADMIN "SetOperationPolicy", &set, HP_R_LIMIT, "policy.on_lost");
    policy.on_lost = HOLDFAST__V1__OPERATION_POLICY__ON_LOST__RETRY;
    struct fake_call *call = fake_call(f, ADMIN "SetOperationPolicy", &set, 0);
    assert_int_equal(f->items[0]->in.op_policies.policy.max_attempts, 5);
    assert_int_equal(f->items[0]->in.op_policies.policy.max_elapsed_ms, ST_UNSET);
    assert_int_equal(f->items[0]->in.op_policies.policy.on_lost, 2);
    struct st_op_policy_row row = {.type = "", .policy = {.retention_ms = 1000}};
    f->items[0]->out.op_policies = (struct st_op_policies_told){.rows = &row, .n = 1, .needed_ms = 172860000};
    fake_done(f, 0, ST_OP_RETENTION);
    fake_assert_error(call, HP_INVALID_ARGUMENT, HP_R_LIMIT);
    t_contains(call->status.message, "1000"); /* both numbers */
    t_contains(call->status.message, "172860000");
    Holdfast__V1__RegisterActionRequest action = HOLDFAST__V1__REGISTER_ACTION_REQUEST__INIT;
    action.namespace_ = str("ns");
    action.name = str("pay");
    action.function = str("shop.pay");
    action.actor = str("me");
    action.timeout_ms = 30001;
    assert_bad(f, ADMIN "RegisterAction", &action, HP_R_LIMIT, "timeout_ms");
    action.timeout_ms = 0;
    call = fake_call(f, ADMIN "RegisterAction", &action, 0);
    assert_int_equal(f->items[0]->in.actions.timeout_ms, 5000);
    f->items[0]->out.actions.message = "it is not SECURITY DEFINER";
    fake_done(f, 0, ST_OP_BAD_ACTION);
    fake_assert_error(call, HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    t_contains(call->status.message, "SECURITY DEFINER");
    assert_string_equal(call->status.field, "function");
}

static void policies_begin_with_the_type_of_no_name(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__ListOperationPoliciesRequest list = HOLDFAST__V1__LIST_OPERATION_POLICIES_REQUEST__INIT;
    struct st_op_policy_row row = {.type = ""};
    list.namespace_ = str("ns");
    list.page_size = 1;
    struct fake_call *call = fake_call(f, ADMIN "ListOperationPolicies", &list, 0);
    assert_null(f->items[0]->in.op_policies.after);
    f->items[0]->out.op_policies = (struct st_op_policies_told){.rows = &row, .n = 1, .more = true};
    fake_done(f, 0, ST_FOUND);
    Holdfast__V1__ListOperationPoliciesResponse *page = fake_assert_ok(call);
    assert_int_equal(page->n_policies, 1);
    list.page_token = page->next_page_token;
    assert_true(list.page_token[0]);
    fake_call(f, ADMIN "ListOperationPolicies", &list, 0);
    assert_string_equal(f->items[0]->in.op_policies.after, "");
}

static void audit_is_of_one_thing(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__AuditRequest audit = HOLDFAST__V1__AUDIT_REQUEST__INIT;
    audit.namespace_ = str("ns");
    audit.resource = str("r");
    audit.operation = str("k");
    assert_bad(f, ADMIN "Audit", &audit, HP_R_MALFORMED, "operation");
    audit.resource = str("");
    fake_call(f, ADMIN "Audit", &audit, 0);
    assert_string_equal(f->items[0]->in.audit.operation, "k");
}

/* ---- outcomes ---- */

static struct fake_call *begin(struct fake *f)
{
    Holdfast__V1__BeginRequest request = good_begin();
    return fake_call(f, OPERATION "Begin", &request, 0);
}

static void a_begin_in_all_its_outcomes(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = begin(f);
    assert_int_equal(f->items[0]->kind, ST_OP_BEGIN);
    assert_int_equal(f->items[0]->in.op_begin.trigger, HOLDFAST__V1__TRIGGER__KIND__MANUAL);
    assert_int_equal(strlen(f->items[0]->in.op_begin.request_id), 32); /* made here */
    f->items[0]->out.op = (struct st_op_told){.attempt = 2, .token = 9, .ttl_ms = 10000, .execution_id = "e", .trigger = 3};
    fake_advance(f, 100);
    fake_done(f, 0, ST_OP_STARTED);
    Holdfast__V1__BeginResponse *response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED);
    assert_int_equal(response->started->attempt, 2);
    assert_int_equal(response->started->token, 9);
    assert_int_equal(response->started->ttl_ms, 9900); /* what remains at least */
    assert_int_equal(response->started->waited_ms, 0);
    assert_int_equal(response->started->trigger, HOLDFAST__V1__TRIGGER__KIND__TAKEOVER);

    static const struct {
        enum st_outcome outcome;
        bool failed, cancelled;
    } ended[] = {{ST_OP_REPLAYED, false, false}, {ST_OP_REPLAYED_FAILED, true, false}, {ST_OP_REPLAYED_CANCELLED, true, true}};
    for (size_t i = 0; i < 3; i++) {
        call = begin(f);
        f->items[0]->out.op = (struct st_op_told){
            .attempt = 1, .result = {(const unsigned char *)"res", 3}, .ended_unix_ms = 77, .error_class = 3, .message = "no"};
        fake_done(f, 0, ended[i].outcome);
        response = fake_assert_ok(call);
        assert_int_equal(response->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED);
        assert_int_equal(response->replayed->failed, ended[i].failed);
        assert_int_equal(response->replayed->cancelled, ended[i].cancelled);
        assert_int_equal(response->replayed->first_completed_unix_ms, 77);
        assert_memory_equal(response->replayed->result.data, "res", 3);
        assert_string_equal(response->replayed->message, ended[i].failed ? "no" : "");
    }
    call = begin(f);
    f->items[0]->out.op =
        (struct st_op_told){.state = ST_OP_RUNNING, .holder = "other", .remaining_ms = 5, .attempt = 4, .result_ref = ""};
    fake_done(f, 0, ST_OP_IN_PROGRESS);
    response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS);
    assert_string_equal(response->in_progress->holder, "other");
    assert_int_equal(response->in_progress->attempt, 4);
    call = begin(f);
    f->items[0]->out.op = (struct st_op_told){.state = ST_OP_PENDING, .holder = "who failed last", .remaining_ms = 5};
    fake_done(f, 0, ST_OP_IN_PROGRESS);
    response = fake_assert_ok(call);
    assert_string_equal(response->in_progress->holder, ""); /* nobody has it */
    call = begin(f);
    f->items[0]->out.op = (struct st_op_told){.ended_unix_ms = 5, .message = "cut off"};
    fake_done(f, 0, ST_OP_UNKNOWN);
    response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_UNKNOWN);
    assert_string_equal(response->unknown->note, "cut off");
    assert_int_equal(response->unknown->since_unix_ms, 5);
    call = begin(f);
    f->items[0]->out.op = (struct st_op_told){.ended_unix_ms = 6, .message = "ten times", .error_class = 1};
    fake_done(f, 0, ST_OP_REVIEW);
    response = fake_assert_ok(call);
    assert_string_equal(response->review->reason, "ten times");
    assert_int_equal(response->review->error_class, 1);
    call = begin(f);
    fake_done(f, 0, ST_BUSY);
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_BUSY);
    assert_string_equal(hp_status_get_meta(&call->status, "key"), "k");
    call = begin(f);
    fake_done(f, 0, ST_GRANTED);
    fake_assert_error(call, HP_INTERNAL, HP_R_INTERNAL);
}

static void a_conflict_tells_nothing_of_what_is_stored(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = begin(f);
    /* Were the store to tell it by mistake, it would still go no further. */
    f->items[0]->out.op =
        (struct st_op_told){.result = {(const unsigned char *)"secret", 6}, .message = "secret", .holder = "secret", .attempt = 3};
    fake_done(f, 0, ST_OP_CONFLICT);
    fake_assert_error(call, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT);
    assert_null(strstr(call->status.message, "secret"));
    assert_int_equal(call->status.n_meta, 1);
    assert_string_equal(hp_status_get_meta(&call->status, "key"), "k");
}

static void what_ends_an_attempt_in_all_its_outcomes(void **state)
{
    struct fake *f = *state;
    static const struct {
        enum st_outcome outcome;
        enum hp_code code;
        enum hp_reason reason;
    } table[] = {
        {ST_OP_STALE, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN},      {ST_OP_NOT_HELD, HP_FAILED_PRECONDITION, HP_R_NOT_HELD},
        {ST_OP_ILLEGAL, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE},  {ST_OP_NONE, HP_NOT_FOUND, HP_R_NO_SUCH_OPERATION},
        {ST_NO_SUCH_NAMESPACE, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE}, {ST_OUTCOME_LOST, HP_UNKNOWN, HP_R_OUTCOME_LOST},
    };
    Holdfast__V1__CompleteRequest complete = good_complete();
    Holdfast__V1__MarkSendingRequest sending = HOLDFAST__V1__MARK_SENDING_REQUEST__INIT;
    sending.namespace_ = str("ns");
    sending.key = str("k");
    sending.token = 7;
    for (size_t i = 0; i < 2 * sizeof(table) / sizeof(table[0]); i++) {
        struct fake_call *call =
            i % 2 ? fake_call(f, OPERATION "Complete", &complete, 0) : fake_call(f, OPERATION "MarkSending", &sending, 0);
        f->items[0]->out.op_moved.state = ST_OP_CANCELLED;
        fake_done(f, 0, table[i / 2].outcome);
        fake_assert_error(call, table[i / 2].code, table[i / 2].reason);
        if (table[i / 2].outcome == ST_OP_ILLEGAL)
            assert_string_equal(hp_status_get_meta(&call->status, "state"), "CANCELLED");
    }
    struct fake_call *call = fake_call(f, OPERATION "Complete", &complete, 0);
    assert_non_null(f->items[0]->in.op_finish.result.data); /* an empty result is one */
    f->items[0]->out.op_moved = (struct st_op_moved){.state = ST_OP_SUCCEEDED, .revision = 3, .attempts = 1};
    fake_done(f, 0, ST_OP_DONE_AGAIN);
    Holdfast__V1__FinishResponse *response = fake_assert_ok(call);
    assert_true(response->replayed);
    assert_int_equal(response->state, HOLDFAST__V1__OPERATION__STATE__SUCCEEDED);
    assert_int_equal(response->revision, 3);
}

static void records_and_executions_in_all_their_outcomes(void **state)
{
    struct fake *f = *state;
    static const struct {
        enum st_outcome outcome;
        enum hp_code code;
        enum hp_reason reason;
        const char *meta, *value;
    } table[] = {
        {ST_OP_CONFLICT, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT, "key", "k"},
        {ST_OP_UNKNOWN, HP_FAILED_PRECONDITION, HP_R_OUTCOME_UNKNOWN, "state", "UNKNOWN"},
        {ST_OP_REVIEW, HP_FAILED_PRECONDITION, HP_R_IN_REVIEW, "state", "REVIEW"},
        {ST_OP_NO_ACTION, HP_NOT_FOUND, HP_R_NO_SUCH_ACTION, "action", "a"},
        {ST_OP_RAISED, HP_ABORTED, HP_R_ACTION_RAISED, "sqlstate", "23514"},
        {ST_OP_STALE_RESOURCE, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "fence", "9"},
        {ST_OP_RESOURCE_NOT_HELD, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "fence", "9"},
        {ST_OP_VERSION, HP_ABORTED, HP_R_VERSION_MISMATCH, "version", "2"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        Holdfast__V1__ExecuteRequest request = good_execute();
        request.resource = str("r");
        request.token = 5;
        struct fake_call *call = fake_call(f, OPERATION "Execute", &request, 0);
        f->items[0]->out.op = (struct st_op_told){.sqlstate = "23514", .message = "too little", .fence = 9, .version = 2};
        fake_done(f, 0, table[i].outcome);
        fake_assert_error(call, table[i].code, table[i].reason);
        assert_string_equal(hp_status_get_meta(&call->status, table[i].meta), table[i].value);
    }
    Holdfast__V1__ExecuteRequest request = good_execute();
    for (int again = 0; again < 2; again++) {
        struct fake_call *call = fake_call(f, OPERATION "Execute", &request, 0);
        f->items[0]->out.op = (struct st_op_told){.result = {(const unsigned char *)"{}", 2}, .ended_unix_ms = 4, .attempt = 1};
        fake_done(f, 0, again ? ST_OP_REPLAYED : ST_OP_DONE);
        Holdfast__V1__ExecuteResponse *response = fake_assert_ok(call);
        assert_int_equal(response->replayed, again);
        assert_memory_equal(response->done->result.data, "{}", 2);
        assert_false(response->done->failed);
    }
    Holdfast__V1__RecordRequest record = HOLDFAST__V1__RECORD_REQUEST__INIT;
    record.namespace_ = str("ns");
    record.key = str("k");
    record.type = str("t");
    record.parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT;
    record.fingerprint = bytes(print, 32);
    record.result = bytes("mine", 4);
    for (int again = 0; again < 2; again++) {
        struct fake_call *call = fake_call(f, OPERATION "Record", &record, 0);
        f->items[0]->out.op = (struct st_op_told){.result = {(const unsigned char *)"first", 5}, .attempt = 1};
        fake_done(f, 0, again ? ST_OP_REPLAYED : ST_OP_DONE);
        Holdfast__V1__RecordResponse *response = fake_assert_ok(call);
        assert_int_equal(response->replayed, again);
        assert_int_equal(response->result.len, again ? 5 : 0);
    }
    struct fake_call *call = fake_call(f, OPERATION "Record", &record, 0);
    fake_done(f, 0, ST_OP_REPLAYED_FAILED); /* it cannot be recorded over a failure */
    fake_assert_error(call, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE);
    assert_string_equal(hp_status_get_meta(&call->status, "state"), "FAILED");
}

static void renewals_are_those_of_leases(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__RenewOperationsRequest request = HOLDFAST__V1__RENEW_OPERATIONS_REQUEST__INIT;
    Holdfast__V1__OperationItem items[3], *pointers[] = {&items[0], &items[1], &items[2]};
    for (size_t i = 0; i < 3; i++) {
        holdfast__v1__operation_item__init(&items[i]);
        items[i].key = t_printf("k%zu", i);
        items[i].token = (int64_t)i + 1;
    }
    request.namespace_ = str("ns");
    request.items = pointers;
    request.n_items = 3;
    request.ttl_ms = 0;
    assert_bad(f, OPERATION "Renew", &request, HP_R_LIMIT, "ttl_ms");
    request.ttl_ms = 10000;
    items[2].key = str("k0");
    assert_bad(f, OPERATION "Renew", &request, HP_R_MALFORMED, "items[2].key");
    items[2].key = str("k2");
    struct fake_call *call = fake_call(f, OPERATION "Renew", &request, 0);
    assert_int_equal(f->n_items, 3);
    assert_int_equal(f->items[1]->kind, ST_OP_RENEW);
    assert_string_equal(f->items[1]->resource, "k1");
    assert_int_equal(f->items[1]->in.renew.token, 2);
    f->items[0]->out.renew.ttl_ms = 10000;
    fake_done(f, 0, ST_RENEWED);
    fake_done(f, 0, ST_RELEASED);
    fake_done(f, 0, ST_BUSY);
    Holdfast__V1__RenewOperationsResponse *response = fake_assert_ok(call);
    assert_int_equal(response->items[0]->renewed->ttl_ms, 10000);
    assert_int_equal(response->items[1]->lost->reason, HOLDFAST__V1__LOST__REASON__RELEASED);
    assert_string_equal(response->items[2]->error->reason, "BUSY");
}

static void lists_go_on_where_they_stopped(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__ListOperationsRequest list = HOLDFAST__V1__LIST_OPERATIONS_REQUEST__INIT;
    struct st_op_row rows[] = {{.key = "a", .type = "t", .state = ST_OP_RUNNING}, {.key = "b", .type = "t", .state = ST_OP_FAILED}};
    list.namespace_ = str("ns");
    list.state = (Holdfast__V1__Operation__State)8;
    assert_bad(f, OPERATION "List", &list, HP_R_LIMIT, "state");
    list.state = HOLDFAST__V1__OPERATION__STATE__UNSPECIFIED;
    list.older_than_ms = -1;
    assert_bad(f, OPERATION "List", &list, HP_R_LIMIT, "older_than_ms");
    list.older_than_ms = 0;
    struct fake_call *call = fake_call(f, OPERATION "List", &list, 0);
    f->items[0]->out.ops = (struct st_op_rows){.rows = rows, .n = 2, .more = true};
    fake_done(f, 0, ST_FOUND);
    Holdfast__V1__ListOperationsResponse *page = fake_assert_ok(call);
    assert_int_equal(page->n_operations, 2);
    assert_string_equal(page->operations[1]->key, "b");
    assert_int_equal(page->operations[1]->state, HOLDFAST__V1__OPERATION__STATE__FAILED);
    list.page_token = page->next_page_token;
    fake_call(f, OPERATION "List", &list, 0);
    assert_string_equal(f->items[0]->in.op_list.after, "b");
    fake_done(f, 0, ST_NO_SUCH_NAMESPACE);
    Holdfast__V1__ListAttemptsRequest attempts = HOLDFAST__V1__LIST_ATTEMPTS_REQUEST__INIT;
    struct st_attempt_row attempt = {.attempt = 3, .outcome = 3, .late_call = "Complete", .late_count = 2};
    attempts.namespace_ = str("ns");
    attempts.key = str("k");
    attempts.page_token = list.page_token; /* of another list */
    assert_bad(f, OPERATION "ListAttempts", &attempts, HP_R_MALFORMED, "page_token");
    attempts.page_token = str("");
    call = fake_call(f, OPERATION "ListAttempts", &attempts, 0);
    f->items[0]->out.attempts = (struct st_attempts_told){.rows = &attempt, .n = 1, .more = true};
    fake_done(f, 0, ST_FOUND);
    Holdfast__V1__ListAttemptsResponse *told = fake_assert_ok(call);
    assert_int_equal(told->attempts[0]->outcome, HOLDFAST__V1__ATTEMPT__OUTCOME__LOST);
    assert_string_equal(told->attempts[0]->late_call, "Complete");
    attempts.page_token = told->next_page_token;
    fake_call(f, OPERATION "ListAttempts", &attempts, 0);
    assert_int_equal(f->items[0]->in.op_attempts.after, 3);
}

/* ---- Stats ---- */

static void finish(struct fake *f, int64_t attempts, int state, bool after_retry)
{
    Holdfast__V1__CompleteRequest request = good_complete();
    fake_call(f, OPERATION "Complete", &request, 0);
    f->items[0]->out.op_moved =
        (struct st_op_moved){.state = state, .attempts = attempts, .succeeded_after_retry = after_retry, .revision = 1};
    fake_done(f, 0, ST_OP_DONE);
}

static void stats_count_what_was_answered(void **state)
{
    struct fake *f = *state;
    static const enum st_outcome outcomes[] = {ST_OP_STARTED, ST_OP_REPLAYED, ST_OP_CONFLICT, ST_OP_IN_PROGRESS, ST_OP_IN_PROGRESS};
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        begin(f);
        fake_done(f, 0, outcomes[i]);
    }
    finish(f, 1, ST_OP_SUCCEEDED, false);
    finish(f, 3, ST_OP_SUCCEEDED, true);
    finish(f, 100, ST_OP_FAILED, false);
    Holdfast__V1__CompleteRequest late = good_complete();
    fake_call(f, OPERATION "Complete", &late, 0);
    fake_done(f, 0, ST_OP_STALE);
    char name[] = "unknown";
    struct st_op_state_row row = {.state = name, .count = 2, .oldest_ms = 5000};
    struct fake_call *call = fake_call_bytes(f, ADMIN "Stats", "", 0, 0);
    assert_int_equal(f->items[1]->kind, ST_OP_STATS);
    f->items[1]->out.op_states = (struct st_op_states_told){.rows = &row, .n = 1};
    fake_done(f, 1, ST_FOUND);
    memset(name, 'x', strlen(name));
    memset(&row, 0, sizeof(row)); /* rows are gone when their item is done */
    fake_done(f, 0, ST_FOUND);
    Holdfast__V1__StatsResponse *response = fake_assert_ok(call);
    Holdfast__V1__OperationStats *stats = response->operations;
    assert_int_equal(stats->n_states, 1);
    assert_string_equal(stats->states[0]->state, "unknown");
    assert_int_equal(stats->states[0]->oldest_ms, 5000);
    assert_int_equal(stats->started, 1);
    assert_int_equal(stats->replays, 1);
    assert_int_equal(stats->conflicts, 1);
    assert_int_equal(stats->in_progress, 2);
    assert_int_equal(stats->succeeded, 2);
    assert_int_equal(stats->succeeded_after_retry, 1);
    assert_int_equal(stats->n_attempts, 16);
    assert_int_equal(stats->attempts[0], 1);
    assert_int_equal(stats->attempts[2], 1);
    assert_int_equal(stats->attempts[15], 1);
    assert_true(stats->amplification > 34.6 && stats->amplification < 34.7);
    for (size_t i = 0; i < stats->n_stale_tokens; i++)
        assert_int_equal(stats->stale_tokens[i]->count, !strcmp(stats->stale_tokens[i]->name, "Complete"));
    assert_int_equal(response->n_contention, 1);
    assert_string_equal(response->contention[0]->name, "op:k");
    assert_int_equal(response->contention[0]->held, 2);
}

/* Whatever is asked for, memory stays bounded, and the hot ones are among those that are told. */
static void contention_is_told_of_the_hot_ones(void **state)
{
    struct fake *f = *state;
    for (int i = 0; i < 3000; i++) {
        Holdfast__V1__BeginRequest request = good_begin();
        request.key = i % 3 ? t_printf("cold%d", i) : t_printf("hot%d", i % 2);
        fake_call(f, OPERATION "Begin", &request, 0);
        fake_done(f, 0, ST_OP_IN_PROGRESS);
    }
    struct fake_call *call = fake_call_bytes(f, ADMIN "Stats", "", 0, 0);
    fake_done(f, 0, ST_FOUND);
    fake_done(f, 0, ST_FOUND);
    Holdfast__V1__StatsResponse *response = fake_assert_ok(call);
    assert_int_equal(response->n_contention, 20);
    for (size_t i = 0; i < 2; i++) {
        t_contains(response->contention[i]->name, "op:hot");
        assert_true(response->contention[i]->held > 400 && response->contention[i]->held <= 500);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_begin_is_checked_wholly),
        TEST(parameters_as_json_are_checked_and_made_canonical),
        TEST(events_and_results_have_limits),
        TEST(failures_say_of_what_kind_they_are),
        TEST(executions_are_checked),
        TEST(decisions_are_checked),
        TEST(policies_and_actions_are_checked),
        TEST(policies_begin_with_the_type_of_no_name),
        TEST(audit_is_of_one_thing),
        TEST(a_begin_in_all_its_outcomes),
        TEST(a_conflict_tells_nothing_of_what_is_stored),
        TEST(what_ends_an_attempt_in_all_its_outcomes),
        TEST(records_and_executions_in_all_their_outcomes),
        TEST(renewals_are_those_of_leases),
        TEST(lists_go_on_where_they_stopped),
        TEST(stats_count_what_was_answered),
        TEST(contention_is_told_of_the_hot_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
