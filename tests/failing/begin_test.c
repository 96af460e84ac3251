/*
 * begin_test.c - everything fails once in turn, for a Begin of an operation. See drive.h.
 */
#include "failing/operation.h"

static void send(struct rooms_call *call, const char *key)
{
    Holdfast__V1__BeginRequest request = HOLDFAST__V1__BEGIN_REQUEST__INIT;
    request.namespace_ = DRIVE_STR("default");
    request.key = DRIVE_STR(key);
    request.type = DRIVE_STR("payout");
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = operation_print();
    request.holder = DRIVE_STR("me");
    request.request_id = DRIVE_STR("mine");
    request.ttl_ms = 60000;
    rooms_send(call, DRIVE_OPERATION "Begin", &request);
}

static bool is_done(const char *key)
{
    return t_sql_int(
               rooms_sql,
               "SELECT count(*) FROM holdfast.operation o JOIN holdfast.attempt a USING (namespace, key, token) WHERE o.key = "
               "'%s' AND o.state = 2 AND o.holder = 'me' AND o.deadline > clock_timestamp()",
               key) == 1;
}

/* However often it was sent: one attempt was started, and it is this caller's. */
static void check(const char *key, const void *response)
{
    const Holdfast__V1__BeginResponse *it = response;
    assert_int_equal(it->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED);
    assert_int_equal(it->started->attempt, 1);
    assert_in_range(it->started->ttl_ms, 1, 60000);
    assert_true(is_done(key));
    assert_int_equal(it->started->token, t_sql_int(rooms_sql, "SELECT token FROM holdfast.operation WHERE key = '%s'", key));
    assert_int_equal(t_sql_int(rooms_sql, "SELECT count(*) FROM holdfast.attempt WHERE key = '%s'", key), 1);
}

static const struct drive begin = {
    .name = "begin", .response = &holdfast__v1__begin_response__descriptor, .send = send, .check = check, .is_done = is_done};

DRIVE_MAIN(begin)
