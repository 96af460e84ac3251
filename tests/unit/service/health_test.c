/* health_test.c - Check and Watch: of the server and of each service, while the database is away, and while it drains. */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "grpc/health/v1/health.pb-c.h"

#define HEALTH "/grpc.health.v1.Health/"

typedef Grpc__Health__V1__HealthCheckResponse response_t;
#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

static struct fake_call *ask(struct fake *f, const char *method, const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    request.service = (char *)(uintptr_t)service;
    return fake_call(f, method, &request, 0);
}

static int check(struct fake *f, const char *service)
{
    return (int)((response_t *)fake_assert_ok(ask(f, HEALTH "Check", service)))->status;
}

static int told(const struct fake_call *call, size_t i)
{
    assert_true(i < call->n_sent);
    return (int)((response_t *)call->sent[i])->status;
}

static void the_server_and_each_service_serve(void **state)
{
    struct fake *f = *state;
    assert_int_equal(check(f, ""), STATUS(SERVING));
    assert_int_equal(check(f, "holdfast.v1.LeaseService"), STATUS(SERVING));
    assert_int_equal(check(f, "grpc.reflection.v1alpha.ServerReflection"), STATUS(SERVING));
    fake_assert_error(ask(f, HEALTH "Check", "holdfast.v1.Lease"), HP_NOT_FOUND, HP_R_UNSPECIFIED);
    fake_assert_error(ask(f, HEALTH "Check", "holdfast.v1.LeaseService/Acquire"), HP_NOT_FOUND, HP_R_UNSPECIFIED);
    assert_int_equal(f->n_submitted, 0);
}

static void a_database_may_be_away_for_a_moment(void **state)
{
    struct fake *f = *state;
    assert_int_equal(check(f, ""), STATUS(SERVING));
    fake_advance(f, 1000);
    f->stats.connections_ready = 0;
    assert_int_equal(check(f, ""), STATUS(SERVING));
    fake_advance(f, 2999);
    assert_int_equal(check(f, ""), STATUS(SERVING));
    fake_advance(f, 100);
    assert_int_equal(check(f, ""), STATUS(NOT_SERVING));
    assert_int_equal(check(f, "holdfast.v1.AdminService"), STATUS(NOT_SERVING));
    fake_advance(f, 100);
    f->stats.connections_ready = 1;
    assert_int_equal(check(f, ""), STATUS(SERVING));
}

static void a_server_that_never_served_does_not(void **state)
{
    struct fake *f = *state;
    f->stats.connections_ready = 0;
    assert_int_equal(check(f, ""), STATUS(NOT_SERVING));
    fake_advance(f, 100);
    f->stats.connections_ready = 1;
    assert_int_equal(check(f, ""), STATUS(SERVING));
}

static void a_server_that_drains_does_not_serve(void **state)
{
    struct fake *f = *state;
    assert_int_equal(check(f, ""), STATUS(SERVING));
    svc_drain(f->svc);
    assert_int_equal(check(f, ""), STATUS(NOT_SERVING));
    struct fake_call *call = ask(f, HEALTH "Watch", "");
    assert_int_equal(told(call, 0), STATUS(NOT_SERVING));
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_DRAINING);
}

static void watchers_are_told_of_changes(void **state)
{
    struct fake *f = *state;
    struct fake_call *one = ask(f, HEALTH "Watch", ""), *none = ask(f, HEALTH "Watch", "none"), *slow = ask(f, HEALTH "Watch", "");
    assert_int_equal(told(one, 0), STATUS(SERVING));
    assert_int_equal(told(none, 0), STATUS(SERVICE_UNKNOWN));
    f->stats.connections_ready = 0;
    slow->full = true;
    for (int i = 0; i < 10; i++)
        fake_advance(f, 500);
    assert_int_equal(one->n_sent, 2);
    assert_int_equal(told(one, 1), STATUS(NOT_SERVING));
    assert_int_equal(none->n_sent, 1);
    assert_int_equal(slow->n_sent, 1);
    slow->full = false;
    slow->call.writable(&slow->call);
    assert_int_equal(told(slow, 1), STATUS(NOT_SERVING));
    f->stats.connections_ready = 1;
    fake_advance(f, 500);
    assert_int_equal(told(one, 2), STATUS(SERVING));
    assert_int_equal(svc_in_flight(f->svc), 3);
    fake_gone(none);
    assert_int_equal(svc_in_flight(f->svc), 2);
    svc_drain(f->svc);
    assert_int_equal(told(one, 3), STATUS(NOT_SERVING));
    fake_assert_error(one, HP_UNAVAILABLE, HP_R_DRAINING);
    fake_assert_error(slow, HP_UNAVAILABLE, HP_R_DRAINING);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void a_watcher_that_goes_leaves_nothing(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = ask(f, HEALTH "Watch", "");
    fake_gone(call);
    assert_int_equal(call->answers, 1);
    for (size_t i = 0; i < FAKE_TIMERS; i++)
        assert_null(f->timers[i]);
    f->no_streams = true;
    fake_assert_error(ask(f, HEALTH "Watch", ""), HP_UNIMPLEMENTED, HP_R_NO_SUCH_METHOD);
    for (f->fail_alloc = 1; f->fail_alloc < 6; f->fail_alloc++)
        ask(f, HEALTH "Watch", ""); /* answered, as the teardown sees */
}

#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_server_and_each_service_serve),   T(a_database_may_be_away_for_a_moment), T(a_server_that_never_served_does_not),
        T(a_server_that_drains_does_not_serve), T(watchers_are_told_of_changes),        T(a_watcher_that_goes_leaves_nothing),
    };
    return cmocka_run_group_tests_name("service/health", tests, NULL, NULL);
}
