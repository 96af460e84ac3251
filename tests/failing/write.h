/*
 * write.h - a Write for write_test.c and write_once_test.c; each includes it once.
 */
#ifndef HOLDFAST_TESTS_FAILING_WRITE_H
#define HOLDFAST_TESTS_FAILING_WRITE_H

#include "failing/drive.h"

/* write_seq 0: none, and no version is expected either. */
static inline void send_write(struct rooms_call *call, const char *resource, int64_t write_seq)
{
    static uint8_t value[] = "value";
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    request.namespace_ = DRIVE_STR("default");
    request.resource = DRIVE_STR(resource);
    request.token = 1;
    request.write_seq = write_seq;
    request.value.data = value;
    request.value.len = sizeof(value) - 1;
    if (write_seq)
        request.expected_case = HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION; /* 0: it must not exist */
    rooms_send(call, DRIVE_RESOURCE "Write", &request);
}

static inline bool is_written(const char *resource)
{
    return t_sql_int(rooms_sql,
                     "SELECT count(*) FROM holdfast.resource_value WHERE resource = '%s' AND token = 1 AND version = 1 AND value = "
                     "'value'",
                     resource) == 1;
}

/* However often it was sent: it was written once. */
static inline void check_write(const char *resource, const void *response)
{
    const Holdfast__V1__WriteResponse *it = response;
    assert_int_equal(it->version, 1);
    assert_int_equal(it->fence, 1);
    assert_true(is_written(resource));
}

#endif
