/*
 * lease_test.c - LeaseService with a fake store: what is asked of the store, and what its outcomes become.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"

#define LEASE "/holdfast.v1.LeaseService/"

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static struct fake_call *acquire(struct fake *f, char **resources, size_t n, const char *task, const char *request_id)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.holder = str("me");
    request.task = str(task);
    request.request_id = str(request_id);
    request.n_resources = n;
    request.resources = resources;
    request.ttl_ms = 10000;
    return fake_call(f, LEASE "Acquire", &request, 0);
}

static void acquire_fills_in_what_was_left_out(void **state)
{
    struct fake *f = *state;
    char *names[] = {str("r")};
    acquire(f, names, 1, "", "");
    const struct st_item *item = f->items[0];
    assert_int_equal(item->kind, ST_ACQUIRE);
    assert_string_equal(item->ns, "ns");
    assert_string_equal(item->resource, "r");
    assert_string_equal(item->in.acquire.task, "r");
    assert_string_equal(item->in.acquire.holder, "me");
    assert_string_equal(item->in.acquire.request_id, "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"); /* 128 bits of the port's */
    assert_null(item->in.acquire.labels_json);
    assert_int_equal(item->in.acquire.ttl_ms, 10000);
    assert_int_equal(item->in.acquire.n_resources, 0);
    acquire(f, names, 1, "work", "id-1");
    assert_string_equal(f->items[1]->in.acquire.task, "work");
    assert_string_equal(f->items[1]->in.acquire.request_id, "id-1");
}

static void a_grant_says_what_remains_and_how_long_it_waited(void **state)
{
    struct fake *f = *state;
    char *names[] = {str("r")};
    static const struct {
        int64_t queued, answered, remains; /* ms after the call; ttl by the database */
        int64_t ttl, waited;
    } table[] = {
        {0, 0, 10000, 10000, 0}, {7, 7, 10000, 10000, 7},  {7, 40, 10000, 9967, 7},
        {500, 900, 300, 0, 500}, {-3, 10, 10000, 9990, 0}, /* sent before it was received, by a clock read once a turn */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake_call *call = acquire(f, names, 1, "", "");
        struct st_item *item = f->items[0];
        item->out.acquire.granted_at_ms = f->now_ms + table[i].queued;
        item->out.acquire.ttl_ms = table[i].remains;
        item->out.acquire.token = 42;
        fake_advance(f, table[i].answered);
        fake_done(f, 0, i % 2 ? ST_GRANTED : ST_REPEATED);
        Holdfast__V1__AcquireResponse *response = fake_assert_ok(call);
        assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED);
        assert_int_equal(response->granted->ttl_ms, table[i].ttl);
        assert_int_equal(response->granted->waited_ms, table[i].waited);
        assert_int_equal(response->granted->grants[0]->token, 42);
        assert_string_equal(response->granted->grants[0]->resource, "r");
    }
}

static void several_resources_are_one_item(void **state)
{
    struct fake *f = *state;
    char *names[] = {str("z"), str("a"), str("m")};
    struct fake_call *call = acquire(f, names, 3, "", "id");
    struct st_item *item = f->items[0];
    assert_int_equal(f->n_items, 1);
    assert_int_equal(item->kind, ST_ACQUIRE_ALL);
    assert_int_equal(item->in.acquire.n_resources, 3);
    assert_string_equal(item->in.acquire.resources[2], "m");
    assert_string_equal(item->in.acquire.task, "z");
    for (int i = 0; i < 3; i++)
        item->out.acquire.tokens[i] = 100 + i;
    item->out.acquire.granted_at_ms = f->now_ms;
    item->out.acquire.ttl_ms = 10000;
    fake_done(f, 0, ST_GRANTED);
    Holdfast__V1__AcquireResponse *response = fake_assert_ok(call);
    assert_int_equal(response->granted->n_grants, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(response->granted->grants[i]->resource, names[i]);
        assert_int_equal(response->granted->grants[i]->token, 100 + i);
    }
    call = acquire(f, names, 3, "", "id");
    f->items[0]->out.acquire.which = 1;
    f->items[0]->out.acquire.holder = "other";
    f->items[0]->out.acquire.task = "its task";
    f->items[0]->out.acquire.token = 9;
    f->items[0]->out.acquire.remaining_ms = 77;
    fake_done(f, 0, ST_HELD);
    response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD);
    assert_string_equal(response->held->resource, "a");
    assert_string_equal(response->held->holder, "other");
    assert_string_equal(response->held->task, "its task");
    assert_int_equal(response->held->token, 9);
    assert_int_equal(response->held->remaining_ms, 77);
    assert_false(response->held->guarded);
}

static void busy_is_held_and_guarded(void **state)
{
    struct fake *f = *state;
    char *names[] = {str("r")};
    struct fake_call *call = acquire(f, names, 1, "", "");
    fake_done(f, 0, ST_BUSY);
    Holdfast__V1__AcquireResponse *response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD);
    assert_true(response->held->guarded);
    assert_string_equal(response->held->resource, "r");
    assert_string_equal(response->held->holder, "");
    call = acquire(f, names, 1, "", "");
    f->items[0]->out.acquire.token = 5;
    fake_done(f, 0, ST_ENDED);
    response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED);
    assert_int_equal(response->ended->token, 5);
    call = acquire(f, names, 1, "", "");
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_assert_error(call, HP_UNKNOWN, HP_R_OUTCOME_LOST);
    call = acquire(f, names, 1, "", "");
    fake_done(f, 0, ST_QUEUE_FULL);
    fake_assert_error(call, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
}

static void waits_have_their_limits(void **state)
{
    struct fake *f = *state;
    char *names[] = {str("r"), str("s")};
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.holder = str("me");
    request.n_resources = 1;
    request.resources = names;
    request.ttl_ms = 10000;
    request.wait_ms = 3600001;
    struct fake_call *call = fake_call(f, LEASE "Acquire", &request, 0);
    fake_assert_error(call, HP_INVALID_ARGUMENT, HP_R_LIMIT);
    assert_string_equal(call->status.field, "wait_ms");
    request.wait_ms = -1;
    fake_assert_error(fake_call(f, LEASE "Acquire", &request, 0), HP_INVALID_ARGUMENT, HP_R_LIMIT);
    request.n_resources = 2;
    request.wait_ms = 1;
    fake_assert_error(fake_call(f, LEASE "Acquire", &request, 0), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    assert_int_equal(f->n_submitted, 0);
}

static void a_page_that_is_too_large_ends_early(void **state)
{
    enum { ROWS = 1000, LABELS = 4 };
    struct fake *f = *state;
    static struct st_lease_row rows[ROWS];
    static struct st_label label[LABELS];
    char *value = calloc(1, 1025);
    memset(value, 'v', 1024);
    for (int i = 0; i < LABELS; i++)
        label[i] = (struct st_label){t_printf("k%d", i), value};
    for (int i = 0; i < ROWS; i++)
        rows[i] = (struct st_lease_row){.resource = t_printf("r%04d", i),
                                        .task = "t",
                                        .holder = "h",
                                        .request_id = "q",
                                        .token = i + 1,
                                        .fence = i + 1,
                                        .state = ST_LEASE_LIVE,
                                        .labels = label,
                                        .n_labels = LABELS};
    Holdfast__V1__ListLeasesRequest request = HOLDFAST__V1__LIST_LEASES_REQUEST__INIT;
    size_t total = 0, pages = 0;
    request.namespace_ = str("ns");
    request.page_size = 1000;
    while (total < ROWS) {
        struct fake_call *call = fake_call(f, LEASE "List", &request, 0);
        struct st_item *item = f->items[0];
        assert_int_equal(item->in.list.max, 1000);
        assert_string_equal(item->in.list.after, total ? rows[total - 1].resource : "");
        item->out.leases.rows = &rows[total];
        item->out.leases.n = ROWS - total;
        item->out.leases.more = false;
        fake_done(f, 0, ST_FOUND);
        Holdfast__V1__ListLeasesResponse *response = fake_assert_ok(call);
        assert_true(response->n_leases > 0);
        assert_true(protobuf_c_message_get_packed_size(&response->base) < (4 << 20));
        for (size_t i = 0; i < response->n_leases; i++, total++) {
            assert_string_equal(response->leases[i]->resource, rows[total].resource);
            assert_int_equal(response->leases[i]->n_labels, LABELS);
        }
        assert_int_equal(response->next_page_token[0] == '\0', total == ROWS);
        request.page_token = t_printf("%s", response->next_page_token);
        pages++;
    }
    assert_true(pages > 1);
    free(value);
}

static void a_break_in_all_its_outcomes(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__BreakRequest request = HOLDFAST__V1__BREAK_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.resource = str("r");
    request.token_seen = 7;
    request.actor = str("op");
    request.reason = str("why");
    static const enum st_outcome outcomes[] = {ST_BREAK_DONE, ST_BREAK_CHANGED, ST_BREAK_BLOCKED};
    for (int i = 0; i < 3; i++) {
        struct fake_call *call = fake_call(f, LEASE "Break", &request, 0);
        struct st_item *item = f->items[0];
        assert_int_equal(item->in.brk.token_seen, 7);
        assert_string_equal(item->in.brk.actor, "op");
        assert_string_equal(item->in.brk.reason, "why");
        item->out.brk.fence = 9;
        item->out.brk.live = true;
        item->out.brk.pid = 1234;
        fake_done(f, 0, outcomes[i]);
        Holdfast__V1__BreakResponse *response = fake_assert_ok(call);
        assert_int_equal(response->outcome_case, i + 1);
        if (i == 0)
            assert_int_equal(response->broken->fence, 9);
        else if (i == 1)
            assert_true(response->changed->token == 9 && response->changed->live);
        else
            assert_int_equal(response->blocked->pid, 1234);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(acquire_fills_in_what_was_left_out),
        T(a_grant_says_what_remains_and_how_long_it_waited),
        T(several_resources_are_one_item),
        T(busy_is_held_and_guarded),
        T(waits_have_their_limits),
        T(a_page_that_is_too_large_ends_early),
        T(a_break_in_all_its_outcomes),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
