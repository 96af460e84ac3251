/*
 * operations_bad_test.c - what a caller may do wrong with operations, against a real server: each gets a clear error that names the
 * field, nothing is done, and the next call works.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "integration/ops.h"
#include "integration/served.h"

static int64_t probe; /* the token of the operation by which it is seen that the server still works */

static int setup(void **state)
{
    serve_rpc(state);
    probe = o_start(rpc, "probe", "t", 3600000);
    return 0;
}

static char *repeat(char c, size_t n)
{
    char *text = t_printf("%*s", (int)n, "");
    return memset(text, c, n);
}

/* All that operations have in the database. */
static char *everything(void)
{
    return t_sql(conn, "select md5(concat((select string_agg(o::text, '|' order by o.key) from holdfast.operation o), "
                       "(select string_agg(a::text, '|' order by a.token) from holdfast.attempt a), "
                       "(select string_agg(p::text, '|' order by p.type) from holdfast.operation_policy p), "
                       "(select string_agg(c::text, '|' order by c.name) from holdfast.action c), "
                       "(select count(*) from holdfast.outbox), (select count(*) from holdfast.audit where kind <> 'lost')))");
}

static void assert_refused(const char *method, const void *request, enum hp_code code, enum hp_reason reason, const char *what)
{
    c_status status;
    char *before = everything();
    assert_null(c_call(rpc, method, request, &status));
    c_assert_status(&status, code, reason, what);
    if (code == HP_INVALID_ARGUMENT) {
        if (strcmp(status.field, what))
            fail_msg("%s: the field named is \"%s\", wanted \"%s\" (%s)", method, status.field, what, status.message);
        assert_non_null(hp_status_get_meta(&status, "limit"));
        assert_non_null(strstr(status.message, what));
    }
    assert_string_equal(everything(), before);
    assert_int_equal(o_state(rpc, "probe"), HOLDFAST__V1__OPERATION__STATE__RUNNING);
}

static void assert_bad(const char *method, const void *request, enum hp_reason reason, const char *field)
{
    assert_refused(method, request, HP_INVALID_ARGUMENT, reason, field);
}

/* ---- names and sizes ---- */

static void keys_types_and_holders(void **state)
{
    (void)state;
    const struct {
        const char *name;
        enum hp_reason reason;
    } bad[] = {{"", HP_R_LIMIT}, {repeat('x', 257), HP_R_LIMIT}, {"a\nb", HP_R_MALFORMED}, {"\xc2\x80", HP_R_MALFORMED}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *name = C_STR(bad[i].name);
        Holdfast__V1__BeginRequest begin = o_begin_request(name, "t", 20000);
        assert_bad(C_OPERATION "Begin", &begin, bad[i].reason, "key");
        begin = o_begin_request("k", name, 20000);
        assert_bad(C_OPERATION "Begin", &begin, bad[i].reason, "type");
        begin = o_begin_request("k", "t", 20000);
        begin.holder = name;
        assert_bad(C_OPERATION "Begin", &begin, bad[i].reason, "holder");
        begin.holder = C_STR("h");
        begin.namespace_ = name;
        assert_bad(C_OPERATION "Begin", &begin, bad[i].reason, "namespace");
        Holdfast__V1__RecordRequest record = o_record_request(name, "t", "");
        assert_bad(C_OPERATION "Record", &record, bad[i].reason, "key");
        Holdfast__V1__ExecuteRequest execute = o_execute_request("k", "t", name, "{}");
        assert_bad(C_OPERATION "Execute", &execute, bad[i].reason, "action");
        Holdfast__V1__CompleteRequest complete = o_complete_request(name, 1, "");
        assert_bad(C_OPERATION "Complete", &complete, bad[i].reason, "key");
        Holdfast__V1__GetOperationRequest get = HOLDFAST__V1__GET_OPERATION_REQUEST__INIT;
        get.namespace_ = C_STR("default");
        get.key = name;
        assert_bad(C_OPERATION "Get", &get, bad[i].reason, "key");
        Holdfast__V1__CompensateRequest compensate = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;
        compensate.namespace_ = C_STR("default");
        compensate.key = C_STR("probe");
        compensate.type = name;
        compensate.actor = compensate.reason = C_STR("x");
        assert_bad(C_OPERATION "Compensate", &compensate, bad[i].reason, "type");
    }
}

static void results_and_payloads_that_are_too_big(void **state)
{
    (void)state;
    char *big = repeat('r', (1 << 20) + 1);
    Holdfast__V1__CompleteRequest complete = o_complete_request("probe", probe, big);
    assert_bad(C_OPERATION "Complete", &complete, HP_R_LIMIT, "result");
    complete = o_complete_request("probe", probe, "both");
    complete.result_ref = C_STR("ref");
    assert_bad(C_OPERATION "Complete", &complete, HP_R_MALFORMED, "result_ref");
    Holdfast__V1__RecordRequest record = o_record_request("big", "t", big);
    assert_bad(C_OPERATION "Record", &record, HP_R_LIMIT, "result");
    Holdfast__V1__CompensateRequest compensate = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;
    compensate.namespace_ = C_STR("default");
    compensate.key = C_STR("probe");
    compensate.type = C_STR("undo");
    compensate.payload = o_bytes(big);
    compensate.actor = compensate.reason = C_STR("x");
    assert_bad(C_OPERATION "Compensate", &compensate, HP_R_LIMIT, "payload");
    Holdfast__V1__Event event = HOLDFAST__V1__EVENT__INIT, *events = &event;
    event.aggregate_type = event.aggregate_id = event.type = C_STR("e");
    event.payload = o_bytes(big);
    complete = o_complete_request("probe", probe, "");
    complete.n_events = 1;
    complete.events = &events;
    assert_bad(C_OPERATION "Complete", &complete, HP_R_LIMIT, "events");
    Holdfast__V1__MarkUnknownRequest unknown = HOLDFAST__V1__MARK_UNKNOWN_REQUEST__INIT;
    unknown.namespace_ = C_STR("default");
    unknown.key = C_STR("probe");
    unknown.token = probe;
    unknown.note = repeat('n', 4097);
    assert_bad(C_OPERATION "MarkUnknown", &unknown, HP_R_LIMIT, "note");
}

/* ---- parameters ---- */

static void fingerprints_of_the_wrong_length(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 31, 33, 64};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        Holdfast__V1__BeginRequest begin = o_begin_request("fp", "t", 20000);
        Holdfast__V1__RecordRequest record = o_record_request("fp", "t", "");
        Holdfast__V1__ExecuteRequest execute = o_execute_request("fp", "t", "a", "{}");
        begin.fingerprint = record.fingerprint = execute.fingerprint = o_bytes(repeat('f', lengths[i]));
        assert_bad(C_OPERATION "Begin", &begin, HP_R_LIMIT, "fingerprint");
        assert_bad(C_OPERATION "Record", &record, HP_R_LIMIT, "fingerprint");
        assert_bad(C_OPERATION "Execute", &execute, HP_R_LIMIT, "fingerprint");
    }
}

static void canonical_json_that_is_none(void **state)
{
    (void)state;
    const struct {
        const char *json;
        enum hp_reason reason;
    } bad[] = {
        {"", HP_R_LIMIT},
        {"not json", HP_R_MALFORMED},
        {"{'a':1}", HP_R_MALFORMED},
        {"{\"a\":1,}", HP_R_MALFORMED},
        {"{\"a\":1,\"a\":2}", HP_R_MALFORMED},
        {"{\"a\":1,\"\\u0061\":2}", HP_R_MALFORMED},
        {"{\"a\":NaN}", HP_R_MALFORMED},
        {"[Infinity]", HP_R_MALFORMED},
        {"[1e309]", HP_R_MALFORMED},
        {"[\"\\ud800\"]", HP_R_MALFORMED},
        {"[\"\\udc00\\ud800\"]", HP_R_MALFORMED},
        {"{} {}", HP_R_MALFORMED},
        {t_printf("%s%s", repeat('[', 1000), repeat(']', 1000)), HP_R_MALFORMED},
        {t_printf("\"%s\"", repeat('x', 1 << 20)), HP_R_LIMIT},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        Holdfast__V1__BeginRequest begin = o_begin_request("cj", "t", 20000);
        begin.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_CANONICAL_JSON;
        begin.canonical_json = C_STR(bad[i].json);
        assert_bad(C_OPERATION "Begin", &begin, bad[i].reason, "canonical_json");
        Holdfast__V1__RecordRequest record = o_record_request("cj", "t", "");
        record.parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_CANONICAL_JSON;
        record.canonical_json = C_STR(bad[i].json);
        assert_bad(C_OPERATION "Record", &record, bad[i].reason, "canonical_json");
    }
}

/* There is no row that can be owned without a deadline. */
static void times_to_live(void **state)
{
    (void)state;
    static const int64_t bad[] = {0, -1, 99, 86400001, INT64_MAX, INT64_MIN};
    Holdfast__V1__RenewOperationsRequest renew = HOLDFAST__V1__RENEW_OPERATIONS_REQUEST__INIT;
    Holdfast__V1__OperationItem item = HOLDFAST__V1__OPERATION_ITEM__INIT, *items = &item;
    renew.namespace_ = C_STR("default");
    renew.n_items = 1;
    renew.items = &items;
    item.key = C_STR("probe");
    item.token = probe;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        Holdfast__V1__BeginRequest begin = o_begin_request("ttl", "t", bad[i]);
        assert_bad(C_OPERATION "Begin", &begin, HP_R_LIMIT, "ttl_ms");
        renew.ttl_ms = bad[i];
        assert_bad(C_OPERATION "Renew", &renew, HP_R_LIMIT, "ttl_ms");
    }
    renew.ttl_ms = 20000;
    item.token = 0;
    assert_bad(C_OPERATION "Renew", &renew, HP_R_LIMIT, "items[0].token");
    renew.n_items = 0;
    assert_bad(C_OPERATION "Renew", &renew, HP_R_LIMIT, "items");
}

static void policies_out_of_range(void **state)
{
    (void)state;
    Holdfast__V1__SetOperationPolicyRequest set = HOLDFAST__V1__SET_OPERATION_POLICY_REQUEST__INIT;
    Holdfast__V1__OperationPolicy policy;
    set.namespace_ = C_STR("default");
    set.type = C_STR("t");
    set.policy = &policy;
    set.actor = C_STR("me");
#define BAD(which, case_, value, field)                                                                                            \
    policy = (Holdfast__V1__OperationPolicy)HOLDFAST__V1__OPERATION_POLICY__INIT;                                                  \
    policy.which##_case = HOLDFAST__V1__OPERATION_POLICY__##case_;                                                                 \
    policy.field = value;                                                                                                          \
    assert_bad(C_ADMIN "SetOperationPolicy", &set, HP_R_LIMIT, "policy." #field)
    BAD(attempts, ATTEMPTS_MAX_ATTEMPTS, 0, max_attempts);
    BAD(attempts, ATTEMPTS_MAX_ATTEMPTS, 1001, max_attempts);
    BAD(elapsed, ELAPSED_MAX_ELAPSED_MS, 0, max_elapsed_ms);
    BAD(elapsed, ELAPSED_MAX_ELAPSED_MS, INT64_C(31536000001), max_elapsed_ms);
    BAD(base, BASE_BASE_MS, 0, base_ms);
    BAD(base, BASE_BASE_MS, 86400001, base_ms);
    BAD(cap, CAP_CAP_MS, -1, cap_ms);
    BAD(retention, RETENTION_RETENTION_MS, 0, retention_ms);
    BAD(retention, RETENTION_RETENTION_MS, INT64_MAX, retention_ms);
    BAD(retention, RETENTION_RETENTION_MS, 1000, retention_ms); /* shorter than the retries take */
#undef BAD
    policy = (Holdfast__V1__OperationPolicy)HOLDFAST__V1__OPERATION_POLICY__INIT;
    policy.cap_case = HOLDFAST__V1__OPERATION_POLICY__CAP_CAP_MS;
    policy.cap_ms = 1; /* below the base that holds */
    assert_bad(C_ADMIN "SetOperationPolicy", &set, HP_R_MALFORMED, "policy.base_ms");
    set.actor = C_STR("");
    assert_bad(C_ADMIN "SetOperationPolicy", &set, HP_R_LIMIT, "actor");
}

/* ---- what is not so ---- */

static void completing_what_was_never_begun(void **state)
{
    (void)state;
    Holdfast__V1__CompleteRequest complete = o_complete_request("never", 1, "x");
    assert_refused(C_OPERATION "Complete", &complete, HP_NOT_FOUND, HP_R_NO_SUCH_OPERATION, "Complete");
    complete = o_complete_request("probe", probe + 1000000, "x"); /* a token that was never given */
    assert_refused(C_OPERATION "Complete", &complete, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "Complete");
    complete = o_complete_request("probe", 0, "x");
    assert_bad(C_OPERATION "Complete", &complete, HP_R_LIMIT, "token");
    Holdfast__V1__MarkSendingRequest sending = HOLDFAST__V1__MARK_SENDING_REQUEST__INIT;
    sending.namespace_ = C_STR("default");
    sending.key = C_STR("never");
    sending.token = 1;
    assert_refused(C_OPERATION "MarkSending", &sending, HP_NOT_FOUND, HP_R_NO_SUCH_OPERATION, "MarkSending");
}

static void reconciling_what_is_not_unknown(void **state)
{
    (void)state;
    Holdfast__V1__ReconcileRequest request = HOLDFAST__V1__RECONCILE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR("probe");
    request.revision = o_get(rpc, "probe", NULL)->revision;
    request.outcome = HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__FAILED;
    request.actor = C_STR("me");
    request.reason = C_STR("why");
    assert_refused(C_OPERATION "Reconcile", &request, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE, "Reconcile");
    request.result = o_bytes("x");
    assert_bad(C_OPERATION "Reconcile", &request, HP_R_MALFORMED, "result");
    request.result = o_bytes("");
    request.outcome = HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__UNSPECIFIED;
    assert_bad(C_OPERATION "Reconcile", &request, HP_R_LIMIT, "outcome");
    request.outcome = HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__FAILED;
    request.reason = C_STR("");
    assert_bad(C_OPERATION "Reconcile", &request, HP_R_LIMIT, "reason");
    request.reason = repeat('r', 1025);
    assert_bad(C_OPERATION "Reconcile", &request, HP_R_LIMIT, "reason");
    request.reason = C_STR("why");
    request.actor = C_STR("");
    assert_bad(C_OPERATION "Reconcile", &request, HP_R_LIMIT, "actor");
    request.actor = C_STR("me");
    request.revision = 0;
    assert_bad(C_OPERATION "Reconcile", &request, HP_R_LIMIT, "revision");
    request.revision = INT64_MAX;
    assert_refused(C_OPERATION "Reconcile", &request, HP_ABORTED, HP_R_REVISION_MISMATCH, "Reconcile");
    request.key = C_STR("never");
    assert_refused(C_OPERATION "Reconcile", &request, HP_NOT_FOUND, HP_R_NO_SUCH_OPERATION, "Reconcile");
}

static void failing_without_saying_how(void **state)
{
    (void)state;
    Holdfast__V1__FailRequest fail = HOLDFAST__V1__FAIL_REQUEST__INIT;
    fail.namespace_ = C_STR("default");
    fail.key = C_STR("probe");
    fail.token = probe;
    assert_bad(C_OPERATION "Fail", &fail, HP_R_LIMIT, "error_class");
    fail.error_class = HOLDFAST__V1__ERROR_CLASS__KIND__TRANSIENT;
    fail.sqlstate = C_STR("4000");
    assert_bad(C_OPERATION "Fail", &fail, HP_R_MALFORMED, "sqlstate");
    fail.sqlstate = C_STR("");
    fail.retry_after_ms = 86400001;
    assert_bad(C_OPERATION "Fail", &fail, HP_R_LIMIT, "retry_after_ms");
    fail.retry_after_ms = 0;
    fail.message = repeat('m', 4097);
    assert_bad(C_OPERATION "Fail", &fail, HP_R_LIMIT, "message");
}

/* ---- actions ---- */

static void make_actions(void)
{
    t_sql(conn, "do $$ begin create role hf_test_bad_actions nologin; exception when duplicate_object then null; end $$;"
                "create schema shop; grant usage, create on schema shop to hf_test_bad_actions;"
                "create table public.secret (n int);"
                "create function shop.outside(key text, args jsonb) returns jsonb language plpgsql security definer "
                "set search_path = shop, pg_temp as $$ begin insert into public.secret values (1); return args; end $$;"
                "create function shop.too_long(key text, args jsonb) returns jsonb language plpgsql security definer "
                "set search_path = shop, pg_temp as $$ begin perform pg_sleep(0.6); return args; end $$;"
                "create function shop.text(key text, args jsonb) returns text language sql security definer "
                "set search_path = shop, pg_temp as $$ select 'no json' $$;"
                "create function shop.mine(key text, args jsonb) returns jsonb language sql security definer "
                "set search_path = shop, pg_temp as $$ select args $$;"
                "alter function shop.outside owner to hf_test_bad_actions;"
                "alter function shop.too_long owner to hf_test_bad_actions;"
                "alter function shop.text owner to hf_test_bad_actions");
}

static Holdfast__V1__RegisterActionRequest registration(const char *name, const char *function)
{
    Holdfast__V1__RegisterActionRequest request = HOLDFAST__V1__REGISTER_ACTION_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.name = C_STR(name);
    request.function = C_STR(function);
    request.actor = C_STR("me");
    request.timeout_ms = 300;
    return request;
}

static void actions_that_may_not_be_registered(void **state)
{
    (void)state;
    make_actions();
    static const char *const bad[] = {"shop.none", "shop.text", "shop.mine", "none.at_all", "pg_catalog.pg_sleep", "'; drop", "x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        Holdfast__V1__RegisterActionRequest request = registration("bad", bad[i]);
        assert_bad(C_ADMIN "RegisterAction", &request, HP_R_MALFORMED, "function");
    }
    Holdfast__V1__RegisterActionRequest request = registration("bad", "shop.outside");
    request.timeout_ms = 30001;
    assert_bad(C_ADMIN "RegisterAction", &request, HP_R_LIMIT, "timeout_ms");
    request.timeout_ms = -1;
    assert_bad(C_ADMIN "RegisterAction", &request, HP_R_LIMIT, "timeout_ms");
    request.timeout_ms = 0;
    request.function = C_STR("");
    assert_bad(C_ADMIN "RegisterAction", &request, HP_R_LIMIT, "function");
}

static void actions_that_misbehave(void **state)
{
    (void)state;
    static const char *const sqlstates[] = {"42501", "57014"};
    static const char *const names[] = {"outside", "too_long"};
    for (size_t i = 0; i < 2; i++) {
        Holdfast__V1__RegisterActionRequest request = registration(names[i], t_printf("shop.%s", names[i]));
        c_call(rpc, C_ADMIN "RegisterAction", &request, NULL);
        Holdfast__V1__ExecuteRequest execute = o_execute_request("mis", "t", names[i], "{}");
        c_status status;
        char *before = everything();
        assert_null(c_call(rpc, C_OPERATION "Execute", &execute, &status));
        c_assert_status(&status, HP_ABORTED, HP_R_ACTION_RAISED, names[i]);
        assert_string_equal(hp_status_get_meta(&status, "sqlstate"), sqlstates[i]);
        assert_string_equal(everything(), before);
    }
    assert_int_equal(t_sql_int(conn, "select count(*) from public.secret"), 0);
}

static void executions_that_make_no_sense(void **state)
{
    (void)state;
    Holdfast__V1__ExecuteRequest execute = o_execute_request("ex", "t", "none", "{}");
    assert_refused(C_OPERATION "Execute", &execute, HP_NOT_FOUND, HP_R_NO_SUCH_ACTION, "Execute");
    static const char *const args[] = {"{", "{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}", "nothing"};
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
        execute = o_execute_request("ex", "t", "outside", args[i]);
        assert_bad(C_OPERATION "Execute", &execute, HP_R_MALFORMED, "args");
    }
    execute = o_execute_request("ex", "t", "outside", "{}");
    execute.token = 5;
    assert_bad(C_OPERATION "Execute", &execute, HP_R_MALFORMED, "token");
    execute.token = 0;
    execute.resource = C_STR("r");
    assert_bad(C_OPERATION "Execute", &execute, HP_R_LIMIT, "token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_types_and_holders),
        cmocka_unit_test(results_and_payloads_that_are_too_big),
        cmocka_unit_test(fingerprints_of_the_wrong_length),
        cmocka_unit_test(canonical_json_that_is_none),
        cmocka_unit_test(times_to_live),
        cmocka_unit_test(policies_out_of_range),
        cmocka_unit_test(completing_what_was_never_begun),
        cmocka_unit_test(reconciling_what_is_not_unknown),
        cmocka_unit_test(failing_without_saying_how),
        cmocka_unit_test(actions_that_may_not_be_registered),
        cmocka_unit_test(actions_that_misbehave),
        cmocka_unit_test(executions_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, setup, end_serving_rpc);
}
