/*
 * resource_test.c - ResourceService and AdminService with a fake store.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"

#define RESOURCE "/holdfast.v1.ResourceService/"
#define ADMIN    "/holdfast.v1.AdminService/"

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static Holdfast__V1__WriteRequest good_write(void)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.resource = str("r");
    request.token = 7;
    request.write_seq = 3;
    return request;
}

static void an_empty_value_is_no_deletion(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__WriteRequest write = good_write();
    Holdfast__V1__DeleteRequest delete = HOLDFAST__V1__DELETE_REQUEST__INIT;
    fake_call(f, RESOURCE "Write", &write, 0);
    assert_int_equal(f->items[0]->kind, ST_WRITE);
    assert_non_null(f->items[0]->in.write.value.data);
    assert_int_equal(f->items[0]->in.write.value.len, 0);
    assert_int_equal(f->items[0]->in.write.token, 7);
    assert_int_equal(f->items[0]->in.write.write_seq, 3);
    assert_false(f->items[0]->in.write.expects);
    delete.namespace_ = str("ns");
    delete.resource = str("r");
    delete.token = 7;
    delete.expected_case = HOLDFAST__V1__DELETE_REQUEST__EXPECTED_EXPECTED_VERSION;
    delete.expected_version = 0; /* set to nothing isn't unset */
    fake_call(f, RESOURCE "Delete", &delete, 0);
    assert_null(f->items[1]->in.write.value.data);
    assert_true(f->items[1]->in.write.expects);
    assert_int_equal(f->items[1]->in.write.expected_version, 0);
    write.value.data = (uint8_t *)str("abc");
    write.value.len = 3;
    fake_call(f, RESOURCE "Write", &write, 0);
    assert_memory_equal(f->items[2]->in.write.value.data, "abc", 3);
}

static void refused_writes_say_why(void **state)
{
    struct fake *f = *state;
    static const struct {
        enum st_outcome outcome;
        enum hp_code code;
        enum hp_reason reason;
        const char *meta, *value;
    } table[] = {
        {ST_STALE, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "fence", "9"},
        {ST_NOT_HELD, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "fence", "9"},
        {ST_VERSION_MISMATCH, HP_ABORTED, HP_R_VERSION_MISMATCH, "version", "5"},
        {ST_SUPERSEDED, HP_ABORTED, HP_R_SUPERSEDED, "write_seq", "4"},
        {ST_BUSY, HP_UNAVAILABLE, HP_R_BUSY, "resource", "r"},
        {ST_OUTCOME_LOST, HP_UNKNOWN, HP_R_OUTCOME_LOST, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        Holdfast__V1__WriteRequest write = good_write();
        struct fake_call *call = fake_call(f, RESOURCE "Write", &write, 0);
        f->items[0]->out.write.fence = 9;
        f->items[0]->out.write.version = 5;
        f->items[0]->out.write.write_seq = 4;
        fake_done(f, 0, table[i].outcome);
        fake_assert_error(call, table[i].code, table[i].reason);
        if (table[i].meta)
            assert_string_equal(hp_status_get_meta(&call->status, table[i].meta), table[i].value);
    }
    static const enum st_outcome done[] = {ST_WRITTEN, ST_REPLAYED};
    for (int i = 0; i < 2; i++) {
        Holdfast__V1__WriteRequest write = good_write();
        struct fake_call *call = fake_call(f, RESOURCE "Write", &write, 0);
        f->items[0]->out.write.fence = 7;
        f->items[0]->out.write.version = 5;
        fake_done(f, 0, done[i]);
        Holdfast__V1__WriteResponse *response = fake_assert_ok(call);
        assert_int_equal(response->version, 5);
        assert_int_equal(response->fence, 7);
        assert_int_equal(response->replayed, i);
    }
}

static void events_come_later(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__WriteRequest write = good_write();
    Holdfast__V1__Event event = HOLDFAST__V1__EVENT__INIT, *events = &event;
    write.n_events = 1;
    write.events = &events;
    fake_assert_error(fake_call(f, RESOURCE "Write", &write, 0), HP_UNIMPLEMENTED, HP_R_NOT_YET);
    assert_int_equal(f->n_submitted, 0);
}

static void a_value_of_a_mebibyte_and_one_more(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__WriteRequest write = good_write();
    write.value.len = 1 << 20;
    write.value.data = calloc(1, (1 << 20) + 1);
    fake_call(f, RESOURCE "Write", &write, 0);
    assert_int_equal(f->n_items, 1);
    write.value.len++;
    struct fake_call *call = fake_call(f, RESOURCE "Write", &write, 0);
    fake_assert_error(call, HP_INVALID_ARGUMENT, HP_R_LIMIT);
    assert_string_equal(call->status.field, "value");
    free(write.value.data);
}

static void check_in_all_its_outcomes(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__CheckRequest request = HOLDFAST__V1__CHECK_REQUEST__INIT;
    Holdfast__V1__LeaseItem items[4], *pointers[4];
    static const enum st_outcome outcomes[] = {ST_CURRENT, ST_STALE, ST_NOT_HELD, ST_BUSY};
    for (int i = 0; i < 4; i++) {
        holdfast__v1__lease_item__init(&items[i]);
        items[i].resource = t_printf("r%d", i);
        items[i].token = 1;
        pointers[i] = &items[i];
    }
    request.namespace_ = str("ns");
    request.n_items = 4;
    request.items = pointers;
    struct fake_call *call = fake_call(f, RESOURCE "Check", &request, 0);
    for (int i = 0; i < 4; i++) {
        f->items[0]->out.check.fence = 9;
        f->items[0]->out.check.remaining_ms = 77;
        fake_done(f, 0, outcomes[i]);
    }
    Holdfast__V1__CheckResponse *response = fake_assert_ok(call);
    assert_int_equal(response->n_items, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(response->items[i]->outcome_case, i + 1);
    assert_int_equal(response->items[0]->current->remaining_ms, 77);
    assert_int_equal(response->items[1]->stale->fence, 9);
    assert_int_equal(response->items[2]->not_held->fence, 9);
    assert_string_equal(response->items[3]->error->reason, "BUSY");
}

static void stats_without_a_database(void **state)
{
    struct fake *f = *state;
    f->stats.queued = 12;
    f->stats.kinds[ST_ACQUIRE] = (struct st_kind_stats){.batches = 2, .items = 5, .sizes = {1, 0, 1}};
    fake_advance(f, 5000);
    struct fake_call *call = fake_call_bytes(f, ADMIN "Stats", "", 0, 0);
    fake_advance(f, 1000); /* it isn't waited for longer */
    Holdfast__V1__StatsResponse *response = fake_assert_ok(call);
    assert_string_equal(response->version, "1.2.3");
    assert_int_equal(response->uptime_ms, 6000);
    assert_int_equal(response->leases_live, -1);
    assert_int_equal(response->resources, -1);
    assert_int_equal(response->schema_version, -1);
    assert_int_equal(response->connections, 4);
    assert_int_equal(response->items_queued, 12);
    assert_int_equal(response->n_batches, ST_KINDS);
    assert_string_equal(response->batches[0]->kind, "acquire");
    assert_int_equal(response->batches[0]->items, 5);
    assert_int_equal(response->batches[0]->n_sizes, 3); /* no zeros behind */
    assert_int_equal(response->batches[0]->sizes[2], 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(an_empty_value_is_no_deletion),      T(refused_writes_say_why),    T(events_come_later),
        T(a_value_of_a_mebibyte_and_one_more), T(check_in_all_its_outcomes), T(stats_without_a_database),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
