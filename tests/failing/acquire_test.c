/*
 * acquire_test.c - everything fails once in turn, for an Acquire. See drive.h.
 */
#include "failing/drive.h"

static void send(struct rooms_call *call, const char *resource)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    Holdfast__V1__AcquireRequest__LabelsEntry label = HOLDFAST__V1__ACQUIRE_REQUEST__LABELS_ENTRY__INIT, *labels = &label;
    char *resources[] = {DRIVE_STR(resource)};
    request.namespace_ = DRIVE_STR("default");
    request.holder = DRIVE_STR("me");
    request.n_resources = 1;
    request.resources = resources;
    request.ttl_ms = 60000;
    request.request_id = DRIVE_STR("mine");
    label.key = DRIVE_STR("host");
    label.value = DRIVE_STR("here");
    request.n_labels = 1;
    request.labels = &labels;
    rooms_send(call, DRIVE_LEASE "Acquire", &request);
}

static bool is_done(const char *resource)
{
    return t_sql_int(rooms_sql,
                     "SELECT count(*) FROM holdfast.resource r JOIN holdfast.lease l ON l.namespace = r.namespace AND l.resource = "
                     "r.name WHERE r.name = '%s' AND r.fence = 1 AND r.request_id = 'mine' AND l.token = 1 AND l.holder = 'me' AND "
                     "l.labels->>'host' = 'here' AND l.deadline > clock_timestamp()",
                     resource) == 1;
}

/* However often it was sent: it was granted once. */
static void check(const char *resource, const void *response)
{
    const Holdfast__V1__AcquireResponse *it = response;
    assert_int_equal(it->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED);
    assert_int_equal(it->granted->n_grants, 1);
    assert_string_equal(it->granted->grants[0]->resource, resource);
    assert_int_equal(it->granted->grants[0]->token, 1);
    assert_in_range(it->granted->ttl_ms, 1, 60000);
    assert_true(is_done(resource));
    assert_int_equal(t_sql_int(rooms_sql, "SELECT count(*) FROM holdfast.audit WHERE resource = '%s'", resource), 1);
}

static const struct drive acquire = {.name = "acquire",
                                     .response = &holdfast__v1__acquire_response__descriptor,
                                     .send = send,
                                     .check = check,
                                     .is_done = is_done,
                                     .starts_up = 1 << FP_LIBPQ | 1 << FP_LIBPQ_MEMORY};

DRIVE_MAIN(acquire)
