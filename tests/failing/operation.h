/*
 * operation.h - what the programs for calls of operations share; each includes it once.
 */
#ifndef HOLDFAST_TESTS_FAILING_OPERATION_H
#define HOLDFAST_TESTS_FAILING_OPERATION_H

#include "failing/drive.h"

#include "holdfast/v1/operation.pb-c.h"

#define DRIVE_OPERATION "/holdfast.v1.OperationService/"

static inline ProtobufCBinaryData operation_print(void)
{
    static uint8_t print[32] = "the fingerprint of all of them.";
    return (ProtobufCBinaryData){.len = sizeof(print), .data = print};
}

/* One event, that tells of the operation. */
static inline Holdfast__V1__Event *operation_event(const char *key)
{
    static Holdfast__V1__Event event;
    static uint8_t payload[] = "paid";
    holdfast__v1__event__init(&event);
    event.aggregate_type = DRIVE_STR("order");
    event.aggregate_id = DRIVE_STR(key);
    event.type = DRIVE_STR("paid");
    event.payload = (ProtobufCBinaryData){.len = sizeof(payload) - 1, .data = payload};
    return &event;
}

/* Its result is kept, with its event. */
static inline bool operation_succeeded(const char *key)
{
    return t_sql_int(rooms_sql, "SELECT count(*) FROM holdfast.operation WHERE key = '%s' AND state = 3 AND result = '42'", key) ==
           1;
}

/* However often it was sent. */
static inline void operation_has_one_event(const char *key)
{
    assert_int_equal(t_sql_int(rooms_sql, "SELECT count(*) FROM holdfast.outbox WHERE operation = '%s' AND payload = 'paid'", key),
                     1);
}

#endif
