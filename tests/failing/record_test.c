/*
 * record_test.c - everything fails once in turn, for a Record, with an event. See drive.h.
 */
#include "failing/operation.h"

static void send(struct rooms_call *call, const char *key)
{
    Holdfast__V1__RecordRequest request = HOLDFAST__V1__RECORD_REQUEST__INIT;
    Holdfast__V1__Event *events[] = {operation_event(key)};
    static uint8_t result[] = "42";
    request.namespace_ = DRIVE_STR("default");
    request.key = DRIVE_STR(key);
    request.type = DRIVE_STR("payout");
    request.parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = operation_print();
    request.result = (ProtobufCBinaryData){.len = sizeof(result) - 1, .data = result};
    request.n_events = 1;
    request.events = events;
    rooms_send(call, DRIVE_OPERATION "Record", &request);
}

static void check(const char *key, const void *response)
{
    const Holdfast__V1__RecordResponse *it = response;
    if (it->replayed) {
        assert_int_equal(it->result.len, 2);
        assert_memory_equal(it->result.data, "42", 2);
    }
    assert_true(operation_succeeded(key));
    operation_has_one_event(key);
}

static const struct drive record = {.name = "record",
                                    .response = &holdfast__v1__record_response__descriptor,
                                    .send = send,
                                    .check = check,
                                    .is_done = operation_succeeded};

DRIVE_MAIN(record)
