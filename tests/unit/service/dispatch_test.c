/*
 * dispatch_test.c - the table against the services' descriptors, and what every call passes: draining, patience, answers
 * while items are out, outcomes that any item can have.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"

#define LEASE    "/holdfast.v1.LeaseService/"
#define RESOURCE "/holdfast.v1.ResourceService/"
#define ADMIN    "/holdfast.v1.AdminService/"

static const ProtobufCServiceDescriptor *const services[] = {
    &holdfast__v1__lease_service__descriptor,
    &holdfast__v1__resource_service__descriptor,
    &holdfast__v1__operation_service__descriptor,
    &holdfast__v1__admin_service__descriptor,
    &grpc__health__v1__health__descriptor,
    &grpc__reflection__v1__server_reflection__descriptor,
    &grpc__reflection__v1alpha__server_reflection__descriptor,
};

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* ---- the table ---- */

static void every_rpc_has_its_row(void **state)
{
    size_t n, at = 0;
    const struct svc_method *methods = svc_methods(&n);
    (void)state;
    for (size_t s = 0; s < sizeof(services) / sizeof(services[0]); s++) {
        for (unsigned m = 0; m < services[s]->n_methods; m++, at++) {
            const ProtobufCMethodDescriptor *rpc = &services[s]->methods[m];
            char *path = t_printf("/%s/%s", services[s]->name, rpc->name);
            assert_true(at < n);
            assert_string_equal(methods[at].rpc.path, path); /* in the order of the protos */
            assert_ptr_equal(svc_method_find(path), &methods[at]);
            assert_ptr_equal(methods[at].rpc.request, rpc->input);
            assert_ptr_equal(methods[at].rpc.response, rpc->output);
            /* protobuf-c doesn't know which are streams; there are two kinds of them. */
            bool both = !strcmp(rpc->name, "ServerReflectionInfo");
            assert_int_equal(methods[at].rpc.server_streams, both || !strcmp(rpc->name, "Watch"));
            assert_int_equal(methods[at].rpc.client_streams, both);
        }
    }
    assert_int_equal(at, n);
    assert_null(svc_method_find("/holdfast.v1.LeaseService/acquire"));
    assert_null(svc_method_find(""));
}

static void roles_are_no_lower_than_what_a_method_does(void **state)
{
    size_t n;
    const struct svc_method *methods = svc_methods(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        const char *name = strrchr(methods[i].rpc.path, '/') + 1;
        bool reads = !strcmp(name, "Get") || !strcmp(name, "List") || !strcmp(name, "Read") || !strcmp(name, "Check") ||
                     !strcmp(name, "Watch") || !strcmp(name, "Stats") || !strcmp(name, "Wait") || !strcmp(name, "ListAttempts");
        bool probes = !strncmp(methods[i].rpc.path, "/grpc.health.", 13),
             reflects = !strncmp(methods[i].rpc.path, "/grpc.reflection.", 17);
        assert_int_equal(methods[i].role == SVC_ANYONE, probes);
        assert_int_equal(methods[i].role == SVC_READER, !probes && (reads || reflects));
    }
    assert_int_equal(svc_method_find(LEASE "Break")->role, SVC_OPERATOR);
    assert_int_equal(svc_method_find(ADMIN "Audit")->role, SVC_OPERATOR);
    assert_int_equal(svc_method_find(ADMIN "ListNamespaces")->role, SVC_OPERATOR);
    assert_int_equal(svc_method_find(ADMIN "AdvanceFences")->role, SVC_ADMIN);
    assert_int_equal(svc_method_find(ADMIN "CreateNamespace")->role, SVC_ADMIN);
    assert_int_equal(svc_method_find(ADMIN "SetNamespace")->role, SVC_ADMIN);
}

static void only_what_is_said_to_be_missing_is_missing(void **state)
{
    struct fake *f = *state;
    size_t n;
    const struct svc_method *methods = svc_methods(&n);
    for (size_t i = 0; i < n; i++) {
        const char *name = strrchr(methods[i].rpc.path, '/') + 1;
        bool missing = !strcmp(name, "Submit") || !strcmp(name, "Claim");
        assert_int_equal(!methods[i].handle, missing);
        if (missing)
            fake_assert_error(fake_call_bytes(f, methods[i].rpc.path, "", 0, 0), HP_UNIMPLEMENTED, HP_R_NOT_YET);
    }
    fake_assert_error(fake_call_bytes(f, "/none", "", 0, 0), HP_UNIMPLEMENTED, HP_R_NO_SUCH_METHOD);
    fake_assert_error(fake_call_bytes(f, LEASE "Get", "\xff", 1, 0), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    assert_int_equal(f->n_submitted, 0);
}

/* ---- a call's life ---- */

static struct fake_call *get(struct fake *f, int64_t timeout_ms)
{
    Holdfast__V1__GetLeaseRequest request = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    request.namespace_ = str("default");
    request.resource = str("r");
    return fake_call(f, LEASE "Get", &request, timeout_ms);
}

static struct fake_call *renew(struct fake *f, size_t n, int64_t timeout_ms)
{
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
    Holdfast__V1__LeaseItem *items = calloc(n, sizeof(*items)), **pointers = calloc(n, sizeof(*pointers));
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__lease_item__init(&items[i]);
        items[i].resource = t_printf("r%zu", i);
        items[i].token = (int64_t)i + 1;
        pointers[i] = &items[i];
    }
    request.namespace_ = str("default");
    request.n_items = n;
    request.items = pointers;
    request.ttl_ms = 10000;
    struct fake_call *call = fake_call(f, LEASE "Renew", &request, timeout_ms);
    free(items);
    free(pointers);
    return call;
}

static void draining_refuses_the_new_and_lets_the_old_go_on(void **state)
{
    struct fake *f = *state;
    struct fake_call *old = get(f, 0);
    svc_drain(f->svc);
    struct fake_call *new = get(f, 0);
    fake_assert_error(new, HP_UNAVAILABLE, HP_R_DRAINING);
    assert_true(new->status.retry_ms > 0);
    fake_assert_error(fake_call_bytes(f, "/none", "", 0, 0), HP_UNIMPLEMENTED, HP_R_NO_SUCH_METHOD);
    assert_int_equal(svc_in_flight(f->svc), 1);
    fake_done(f, 0, ST_NO_SUCH_RESOURCE);
    fake_assert_error(old, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE);
    assert_int_equal(svc_in_flight(f->svc), 0);
    struct fake_call *stats = fake_call_bytes(f, ADMIN "Stats", "", 0, 0); /* so that a drain can be watched */
    fake_done(f, 0, ST_FOUND);
    fake_done(f, 0, ST_FOUND);
    assert_true(((Holdfast__V1__StatsResponse *)fake_assert_ok(stats))->draining);
}

static void outcomes_that_any_item_can_have(void **state)
{
    struct fake *f = *state;
    static const struct {
        enum st_outcome outcome;
        enum hp_code code;
        enum hp_reason reason;
    } table[] = {
        {ST_NO_SUCH_NAMESPACE, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE},
        {ST_OUTCOME_LOST, HP_UNKNOWN, HP_R_OUTCOME_LOST},
        {ST_DATABASE_DOWN, HP_UNAVAILABLE, HP_R_DATABASE_DOWN},
        {ST_QUEUE_FULL, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL},
        {ST_TIMED_OUT, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL},
        {ST_BUSY, HP_UNAVAILABLE, HP_R_BUSY},
        {ST_FAILED, HP_INTERNAL, HP_R_INTERNAL},
        {ST_GRANTED, HP_INTERNAL, HP_R_INTERNAL}, /* Get cannot have that */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake_call *call = get(f, 0);
        strcpy(f->items[0]->sqlstate, "XX000");
        fake_done(f, 0, table[i].outcome);
        fake_assert_error(call, table[i].code, table[i].reason);
        if (table[i].code == HP_RESOURCE_EXHAUSTED || table[i].code == HP_UNAVAILABLE)
            assert_true(call->status.retry_ms > 0);
        if (table[i].outcome == ST_FAILED)
            assert_string_equal(hp_status_get_meta(&call->status, "sqlstate"), "XX000");
    }
    /* An item that ran out of time for want of a connection. */
    f->stats.connections_ready = 0;
    struct fake_call *call = get(f, 0);
    fake_done(f, 0, ST_TIMED_OUT);
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
}

static void a_call_is_answered_before_its_callers_patience_ends(void **state)
{
    struct fake *f = *state;
    static const struct {
        int64_t timeout, send, answer;
    } table[] = {{0, 29900, 29950}, {1000, 900, 950}, {200, 113, 150}, {100, 57, 75}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake_call *call = get(f, table[i].timeout);
        assert_int_equal(f->items[0]->deadline_ms, f->now_ms + table[i].send);
        fake_advance(f, table[i].answer - 1);
        assert_int_equal(call->answers, 0);
        fake_advance(f, 1);
        fake_assert_error(call, HP_DEADLINE_EXCEEDED, HP_R_OUTCOME_LOST);
        assert_true(call->taken); /* the item is still out, and it lives in the arena */
        assert_int_equal(svc_in_flight(f->svc), 1);
        fake_done(f, 0, ST_FOUND); /* too late: nothing more is said */
        assert_int_equal(svc_in_flight(f->svc), 0);
    }
}

static void items_that_stay_out_do_not_delay_the_others(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = renew(f, 5, 0);
    assert_int_equal(f->n_items, 5);
    assert_int_equal(f->items[0]->deadline_ms, f->now_ms + 950);
    for (size_t i = 0; i < 4; i++)
        f->items[i]->out.renew.ttl_ms = 10000;
    fake_done(f, 0, ST_RENEWED);
    fake_done(f, 0, ST_TAKEN_OVER);
    fake_done(f, 0, ST_BUSY);
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_advance(f, 999);
    assert_int_equal(call->answers, 0);
    fake_advance(f, 1); /* a second */
    Holdfast__V1__RenewResponse *response = fake_assert_ok(call);
    assert_int_equal(response->n_items, 5);
    assert_int_equal(response->items[0]->renewed->ttl_ms, 9000); /* what remains at the answer, at least */
    assert_int_equal(response->items[1]->lost->reason, HOLDFAST__V1__LOST__REASON__TAKEN_OVER);
    assert_int_equal(response->items[2]->error->code, HP_UNAVAILABLE);
    assert_string_equal(response->items[2]->error->reason, "BUSY");
    assert_int_equal(response->items[3]->error->code, HP_UNKNOWN);
    assert_string_equal(response->items[3]->error->reason, "OUTCOME_LOST");
    assert_int_equal(response->items[4]->error->code, HP_DEADLINE_EXCEEDED);
    assert_string_equal(response->items[4]->error->reason, "OUTCOME_LOST");
    fake_done(f, 0, ST_RENEWED);
}

static void a_short_timeout_is_shorter_than_a_second(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = renew(f, 1, 500);
    fake_advance(f, 449);
    assert_int_equal(call->answers, 0);
    fake_advance(f, 1);
    fake_assert_ok(call);
}

static void items_that_all_fail_each_carry_their_error(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = renew(f, 3, 0);
    for (size_t i = 0; i < 3; i++)
        fake_done(f, 0, ST_DATABASE_DOWN);
    Holdfast__V1__RenewResponse *response = fake_assert_ok(call);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(response->items[i]->error->reason, "DATABASE_DOWN");
    call = renew(f, 3, 0); /* the namespace is the call's */
    for (size_t i = 0; i < 3; i++)
        fake_done(f, 0, ST_NO_SUCH_NAMESPACE);
    fake_assert_error(call, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE);
}

static void a_thousand_items_fit_into_a_call(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = renew(f, 1000, 0);
    assert_int_equal(f->n_items, 1000);
    while (f->n_items) { /* in any order */
        f->items[f->n_items / 2]->out.renew.ttl_ms = f->items[f->n_items / 2]->in.renew.token;
        fake_done(f, f->n_items / 2, ST_RENEWED);
    }
    Holdfast__V1__RenewResponse *response = fake_assert_ok(call);
    assert_int_equal(response->n_items, 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(response->items[i]->renewed->ttl_ms, i + 1);
}

static void calls_beyond_memory_are_refused(void **state)
{
    struct fake *f = *state;
    size_t n = 19000; /* labels of nothing: two bytes each on the wire, far more unpacked */
    uint8_t *bytes = malloc(2 * n);
    for (size_t i = 0; i < n; i++) {
        bytes[2 * i] = 0x42; /* labels, length 0 */
        bytes[2 * i + 1] = 0;
    }
    struct fake_call *call = fake_call_bytes(f, LEASE "Acquire", bytes, 2 * n, 0);
    free(bytes);
    assert_int_equal(call->answers, 1);
    assert_true(call->status.code == HP_INVALID_ARGUMENT || call->status.code == HP_RESOURCE_EXHAUSTED);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

/* Each allocation fails once, in turn: whatever was begun is answered, once. */
static void a_call_without_memory_is_answered_all_the_same(void **state)
{
    struct fake *f = *state;
    size_t failed = 0;
    for (int i = 0; i < 50; i++) {
        f->fail_alloc = i;
        struct fake_call *call = renew(f, 100, 0);
        while (f->n_items)
            fake_done(f, 0, f->n_items % 2 ? ST_BUSY : ST_EXPIRED);
        assert_int_equal(call->answers, 1);
        assert_int_equal(svc_in_flight(f->svc), 0);
        if (!call->response) {
            fake_assert_error(call, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
            failed++;
        }
    }
    assert_true(failed > 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rpc_has_its_row),
        cmocka_unit_test(roles_are_no_lower_than_what_a_method_does),
        T(only_what_is_said_to_be_missing_is_missing),
        T(draining_refuses_the_new_and_lets_the_old_go_on),
        T(outcomes_that_any_item_can_have),
        T(a_call_is_answered_before_its_callers_patience_ends),
        T(items_that_stay_out_do_not_delay_the_others),
        T(a_short_timeout_is_shorter_than_a_second),
        T(items_that_all_fail_each_carry_their_error),
        T(a_thousand_items_fit_into_a_call),
        T(calls_beyond_memory_are_refused),
        T(a_call_without_memory_is_answered_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
