/*
 * complete_test.c - everything fails once in turn, for a Complete of an attempt, with an event. See drive.h.
 */
#include "failing/operation.h"

static int64_t token; /* of the attempt that was prepared last */

static void prepare(const char *key)
{
    token =
        t_sql_int(rooms_sql,
                  "SELECT token FROM holdfast.begin_batch('{default}', '{%s}', '{payout}', ARRAY[sha256('')], '{me}', '{600000}', "
                  "'{first}', '{1}')",
                  key);
}

static void send(struct rooms_call *call, const char *key)
{
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    Holdfast__V1__Event *events[] = {operation_event(key)};
    static uint8_t result[] = "42";
    request.namespace_ = DRIVE_STR("default");
    request.key = DRIVE_STR(key);
    request.token = token;
    request.result = (ProtobufCBinaryData){.len = sizeof(result) - 1, .data = result};
    request.n_events = 1;
    request.events = events;
    rooms_send(call, DRIVE_OPERATION "Complete", &request);
}

static void check(const char *key, const void *response)
{
    const Holdfast__V1__FinishResponse *it = response;
    assert_int_equal(it->state, HOLDFAST__V1__OPERATION__STATE__SUCCEEDED);
    assert_int_equal(it->revision, 2);
    assert_true(operation_succeeded(key));
    operation_has_one_event(key);
}

static const struct drive complete = {.name = "complete",
                                      .response = &holdfast__v1__finish_response__descriptor,
                                      .prepare = prepare,
                                      .send = send,
                                      .check = check,
                                      .is_done = operation_succeeded};

DRIVE_MAIN(complete)
