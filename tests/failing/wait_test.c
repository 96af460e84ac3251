/*
 * wait_test.c - everything fails once in turn, for an Acquire that waits, from its arrival until it is granted: another server's
 * holder releases as soon as the database knows that we wait, and that server tells us. See drive.h.
 */
#include "failing/drive.h"

static void prepare(const char *resource)
{
    assert_int_equal(drive_lease(resource, "other"), 1);
}

static void send(struct rooms_call *call, const char *resource)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *resources[] = {DRIVE_STR(resource)};
    request.namespace_ = DRIVE_STR("default");
    request.holder = DRIVE_STR("me");
    request.n_resources = 1;
    request.resources = resources;
    request.ttl_ms = 60000;
    request.wait_ms = 25000;
    request.request_id = DRIVE_STR("mine");
    rooms_send(call, DRIVE_LEASE "Acquire", &request);
}

struct waiting {
    struct rooms_call *call;
    const char *resource;
};

static bool waits_or_is_over(void *arg)
{
    const struct waiting *waiting = arg;
    return rooms_is_over(waiting->call) ||
           t_sql_int(rooms_sql, "SELECT count(*) FROM holdfast.waiter WHERE resource = '%s'", waiting->resource) > 0;
}

static void release_elsewhere(struct rooms_call *call, const char *resource)
{
    struct waiting waiting = {call, resource};
    rooms_run_until(waits_or_is_over, &waiting, 30000);
    t_sql(rooms_sql,
          "SELECT holdfast.notify_batch(ARRAY[next_server], ARRAY['default' || chr(31) || '%s']) FROM "
          "holdfast.release_batch(ARRAY['default'], ARRAY['%s'], ARRAY[1::bigint], ARRAY[false])",
          resource, resource);
}

static bool is_done(const char *resource)
{
    return t_sql_int(rooms_sql,
                     "SELECT count(*) FROM holdfast.resource r JOIN holdfast.lease l ON l.namespace = r.namespace AND l.resource = "
                     "r.name WHERE r.name = '%s' AND r.fence = 2 AND r.request_id = 'mine' AND l.token = 2 AND l.holder = 'me' AND "
                     "l.deadline > clock_timestamp()",
                     resource) == 1;
}

/* However often it was sent: it was granted once, behind the other. */
static void check(const char *resource, const void *response)
{
    const Holdfast__V1__AcquireResponse *it = response;
    assert_int_equal(it->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED);
    assert_int_equal(it->granted->grants[0]->token, 2);
    assert_true(is_done(resource));
    assert_int_equal(t_sql_int(rooms_sql, "SELECT count(*) FROM holdfast.audit WHERE resource = '%s' AND kind = 'grant'", resource),
                     2);
}

static const struct drive wait = {.name = "wait",
                                  .response = &holdfast__v1__acquire_response__descriptor,
                                  .prepare = prepare,
                                  .send = send,
                                  .meanwhile = release_elsewhere,
                                  .check = check,
                                  .is_done = is_done,
                                  .starts_up = 1 << FP_LIBPQ};

DRIVE_MAIN(wait)
