/*
 * client_lease_test.c - the library against a real server: leases, guarded values, repeats, what is refused.
 */
#include "harness/served.h"

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/call.h"
#include "holdfast/v1/admin.pb-c.h"
#include "integration/clients.h"

static hf_client *client;

static atomic_int told;
static const char *_Atomic told_reason;

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    atomic_store(&told_reason, reason);
    atomic_fetch_add(&told, 1);
}

static bool was_told(void *arg)
{
    (void)arg;
    return atomic_load(&told) > 0;
}

static int setup(void **state)
{
    serve(state);
    client = cl_new(&(hf_client_options){.servers = server->url, .on_loss = on_loss, .holder = "tester"});
    return 0;
}

static int teardown(void **state)
{
    hf_client_free(client);
    return end_serving(state);
}

static int each(void **state)
{
    (void)state;
    atomic_store(&told, 0);
    return 0;
}

#define expect(call, wanted) expect_result((call), (wanted), #call, __LINE__, &error)

static void expect_result(hf_result got, hf_result wanted, const char *what, int line, const hf_error *error)
{
    if (got != wanted)
        fail_msg("line %d: %s is %s (%s: %s) and not %s", line, what, hf_result_name(got), error->reason, error->message,
                 hf_result_name(wanted));
}

static void a_lease_lives_writes_and_ends(void **state)
{
    hf_lease *lease = cl_acquire(client, "basic", 2000), *second = NULL;
    const hf_acquire_options again = {.resource = "basic", .holder = "somebody else"};
    const int64_t token = hf_lease_token(lease);
    hf_write_result written;
    hf_value value;
    hf_held held;
    hf_error error;

    (void)state;
    assert_true(token >= 1);
    assert_true(hf_lease_remaining_ms(lease) > 1000);
    expect(hf_acquire(client, &again, &second, &held, &error), HF_HELD);
    assert_string_equal(held.holder, "tester");
    assert_string_equal(held.resource, "basic");
    assert_int_equal(held.token, token);
    assert_in_range(held.remaining_ms, 1, 2000);

    expect(hf_write(lease, NULL, "one", 3, &written, &error), HF_OK);
    assert_int_equal(written.version, 1);
    assert_int_equal(written.fence, token);
    assert_false(written.replayed);
    expect(hf_read(client, "basic", &value, &error), HF_OK);
    assert_true(value.exists);
    assert_string_equal(value.data, "one");
    assert_int_equal(value.len, 3);
    assert_int_equal(value.token, token);
    hf_value_release(&value);

    expect(hf_release(lease, &error), HF_OK);
    assert_false(hf_lease_valid(lease));
    expect(hf_write(lease, NULL, "two", 3, NULL, &error), HF_LOST);
    expect(hf_acquire(client, &again, &second, NULL, &error), HF_OK);
    assert_true(hf_lease_token(second) > token);
    expect(hf_release(second, &error), HF_OK);
    hf_lease_free(lease);
    hf_lease_free(second);
    assert_int_equal(atomic_load(&told), 0);
}

static void versions_guard_too(void **state)
{
    hf_lease *lease = cl_acquire(client, "versions", 10000);
    hf_write_options options = {.check_version = true, .expected_version = 0};
    hf_write_result result;
    hf_value value;
    hf_error error;

    (void)state;
    expect(hf_write(lease, &options, "a", 1, &result, &error), HF_OK);
    expect(hf_write(lease, &options, "b", 1, &result, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "VERSION_MISMATCH");
    assert_int_equal(error.version, 1);
    options.expected_version = 1;
    expect(hf_write(lease, &options, "", 0, &result, &error), HF_OK);
    expect(hf_read(client, "versions", &value, &error), HF_OK);
    assert_true(value.exists);
    assert_int_equal(value.len, 0);
    hf_value_release(&value);
    options.expected_version = 2;
    expect(hf_delete(lease, &options, &result, &error), HF_OK);
    assert_int_equal(result.version, 3);
    expect(hf_read(client, "versions", &value, &error), HF_OK);
    assert_false(value.exists);
    assert_null(value.data);
    assert_int_equal(value.version, 3);
    expect(hf_read(client, "never leased", &value, &error), HF_NOT_FOUND);
    assert_string_equal(error.reason, "NO_SUCH_RESOURCE");
    assert_true(hf_lease_valid(lease));
    expect(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
}

static void several_resources_are_all_or_none(void **state)
{
    const char *const names[] = {"multi/b", "multi/a", "multi/c"};
    const hf_acquire_options options = {.resources = names, .n_resources = 3, .ttl_ms = 5000, .task = "move"};
    hf_lease *one = cl_acquire(client, "multi/c", 5000), *lease = NULL;
    hf_held held;
    hf_error error;

    (void)state;
    expect(hf_acquire(client, &options, &lease, &held, &error), HF_HELD);
    assert_string_equal(held.resource, "multi/c");
    expect(hf_release(one, &error), HF_OK);
    hf_lease_free(one);
    expect(hf_acquire(client, &options, &lease, &held, &error), HF_OK);
    assert_int_equal(hf_lease_count(lease), 3);
    assert_string_equal(hf_lease_resource(lease, 0), "multi/b");
    assert_true(hf_lease_token_of(lease, "multi/c") > hf_lease_token_of(lease, "multi/a"));
    expect(hf_write(lease, &(hf_write_options){.resource = "multi/a"}, "x", 1, NULL, &error), HF_OK);
    expect(hf_write(lease, &(hf_write_options){.resource = "multi/c"}, "x", 1, NULL, &error), HF_OK);
    expect(hf_renew_now(lease, &error), HF_OK);
    expect(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
}

static void a_request_id_gets_its_grant_again_and_never_a_new_one(void **state)
{
    const hf_acquire_options options = {.resource = "repeat", .ttl_ms = 5000, .request_id = "the-same"};
    hf_lease *first = NULL, *second = NULL;
    hf_error error;

    (void)state;
    expect(hf_acquire(client, &options, &first, NULL, &error), HF_OK);
    expect(hf_acquire(client, &options, &second, NULL, &error), HF_OK);
    assert_int_equal(hf_lease_token(first), hf_lease_token(second));
    expect(hf_release(first, &error), HF_OK);
    hf_lease_free(first);
    hf_lease_free(second);
    expect(hf_acquire(client, &options, &first, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "ENDED");
}

static void a_broken_lease_is_told_within_a_renewal(void **state)
{
    hf_lease *lease = cl_acquire(client, "broken", 1500);
    hf_break_result result;
    hf_error error;

    (void)state;
    expect(hf_break(client, "broken", hf_lease_token(lease) + 5, NULL, "wrong one", &result, &error), HF_OK);
    assert_int_equal(result.outcome, HF_BREAK_CHANGED);
    assert_true(hf_lease_valid(lease));
    expect(hf_break(client, "broken", hf_lease_token(lease), "operator", "test", &result, &error), HF_OK);
    assert_int_equal(result.outcome, HF_BREAK_DONE);
    assert_true(result.fence > hf_lease_token(lease));
    assert_true(t_wait_for(was_told, NULL, T_PATIENCE_MS));
    assert_string_equal(atomic_load(&told_reason), "BROKEN");
    assert_false(hf_lease_valid(lease));
    expect(hf_write(lease, NULL, "x", 1, NULL, &error), HF_LOST);
    hf_lease_free(lease);
    assert_int_equal(atomic_load(&told), 1);
}

static void an_adopted_token_goes_on(void **state)
{
    hf_acquire_options options = {.resource = "adopted", .ttl_ms = 1000, .no_renewal = true};
    hf_adopt_options adopt = {.resource = "adopted", .ttl_ms = 1000, .last_write_seq = 1};
    hf_lease *first = NULL, *second = NULL;
    hf_write_result result;
    hf_error error;

    (void)state;
    expect(hf_acquire(client, &options, &first, NULL, &error), HF_OK);
    expect(hf_write(first, NULL, "a", 1, NULL, &error), HF_OK);
    adopt.token = hf_lease_token(first);
    hf_lease_free(first);
    expect(hf_adopt(client, &adopt, &second, &error), HF_OK);
    t_sleep_ms(2500); /* well past the TTL it was granted for */
    expect(hf_write(second, NULL, "b", 1, &result, &error), HF_OK);
    assert_int_equal(result.version, 2);
    assert_int_equal(atomic_load(&told), 0);
    expect(hf_release(second, &error), HF_OK);
    hf_lease_free(second);
    expect(hf_adopt(client, &adopt, &second, &error), HF_LOST);
    assert_string_equal(error.reason, "RELEASED");
}

static void without_renewal_it_expires(void **state)
{
    const hf_acquire_options options = {.resource = "short", .ttl_ms = 400, .no_renewal = true};
    const hf_acquire_options next = {.resource = "short", .ttl_ms = 2000, .wait_ms = 10000};
    hf_lease *lease = NULL, *other = NULL;
    hf_error error;
    int64_t deadline;

    (void)state;
    expect(hf_acquire(client, &options, &lease, NULL, &error), HF_OK);
    deadline = hf_lease_deadline_ms(lease);
    expect(hf_acquire(client, &next, &other, NULL, &error), HF_OK); /* waits */
    assert_true(hfi_boot_ms() >= deadline);
    assert_true(t_wait_for(was_told, NULL, T_PATIENCE_MS));
    assert_string_equal(atomic_load(&told_reason), "DEADLINE");
    assert_true(hf_lease_token(other) > hf_lease_token(lease));
    expect(hf_release(other, &error), HF_OK);
    hf_lease_free(lease);
    hf_lease_free(other);
}

static void a_service_can_ask_for_a_verdict(void **state)
{
    hf_lease *old = cl_acquire(client, "checked", 5000), *lease;
    hf_check_item items[3];
    hf_error error;

    (void)state;
    expect(hf_release(old, &error), HF_OK);
    lease = cl_acquire(client, "checked", 5000);
    items[0] = (hf_check_item){.resource = "checked", .token = hf_lease_token(lease)};
    items[1] = (hf_check_item){.resource = "unheard of", .token = 1};
    expect(hf_check(client, items, 2, &error), HF_OK);
    assert_int_equal(items[0].verdict, HF_VERDICT_CURRENT);
    assert_in_range(items[0].remaining_ms, 1, 5000);
    assert_int_equal(items[1].verdict, HF_VERDICT_NOT_HELD);
    items[0].token = hf_lease_token(old);
    expect(hf_check(client, items, 1, &error), HF_OK);
    assert_int_equal(items[0].verdict, HF_VERDICT_STALE);
    assert_int_equal(items[0].fence, hf_lease_token(lease));
    items[1] = items[0];
    expect(hf_check(client, items, 2, &error), HF_INVALID); /* one resource twice */
    assert_string_equal(error.field, "items[1].resource");
    expect(hf_check(client, items, 0, &error), HF_INVALID);
    expect(hf_release(lease, &error), HF_OK);
    hf_lease_free(old);
    hf_lease_free(lease);
}

static void leases_and_resources_are_listed(void **state)
{
    const hf_label labels[] = {{"team", "blue"}};
    const hf_acquire_options labelled = {.resource = "list/b", .ttl_ms = 5000, .labels = labels, .n_labels = 1, .task = "nightly"};
    hf_lease *a = cl_acquire(client, "list/a", 5000), *b = NULL, *c = cl_acquire(client, "list/c", 5000);
    hf_list_options options = {.prefix = "list/", .page_size = 2};
    hf_page *page = NULL, *next = NULL;
    hf_error error;

    (void)state;
    expect(hf_acquire(client, &labelled, &b, NULL, &error), HF_OK);
    expect(hf_list_leases(client, &options, &page, &error), HF_OK);
    assert_int_equal(page->n, 2);
    assert_string_equal(page->leases[0].resource, "list/a");
    assert_string_equal(page->leases[1].task, "nightly");
    assert_int_equal(page->leases[1].n_labels, 1);
    assert_string_equal(page->leases[1].labels[0].value, "blue");
    assert_non_null(page->next_page_token);
    options.page_token = page->next_page_token;
    expect(hf_list_leases(client, &options, &next, &error), HF_OK);
    assert_int_equal(next->n, 1);
    assert_string_equal(next->leases[0].resource, "list/c");
    assert_null(next->next_page_token);
    hf_page_free(page);
    hf_page_free(next);

    expect(hf_release(c, &error), HF_OK);
    expect(hf_get_lease(client, "list/c", &page, &error), HF_OK);
    assert_int_equal(page->leases[0].state, HF_LEASE_RELEASED);
    assert_int_equal(page->leases[0].token, hf_lease_token(c));
    hf_page_free(page);
    expect(hf_get_lease(client, "list/none", &page, &error), HF_NOT_FOUND);

    options = (hf_list_options){.prefix = "list/"};
    expect(hf_list_resources(client, &options, &page, &error), HF_OK);
    assert_int_equal(page->n, 3);
    assert_true(page->resources[0].leased);
    assert_false(page->resources[2].leased);
    hf_page_free(page);
    expect(hf_release(a, &error), HF_OK);
    expect(hf_release(b, &error), HF_OK);
    hf_lease_free(a);
    hf_lease_free(b);
    hf_lease_free(c);
}

static void wrong_calls_name_their_field(void **state)
{
    hf_lease *lease = NULL;
    hf_acquire_options options = {.resource = "x", .ttl_ms = 1};
    static char big[HF_VALUE_MAX + 1];
    hf_error error;

    (void)state;
    expect(hf_acquire(client, &options, &lease, NULL, &error), HF_INVALID);
    assert_string_equal(error.field, "ttl_ms");
    assert_string_equal(error.reason, "LIMIT");
    options = (hf_acquire_options){.resource = "new\nline"};
    expect(hf_acquire(client, &options, &lease, NULL, &error), HF_INVALID);
    assert_non_null(strstr(error.field, "resources"));
    options = (hf_acquire_options){.resource = "bad \xff utf8"};
    expect(hf_acquire(client, &options, &lease, NULL, &error), HF_INVALID);
    lease = cl_acquire(client, "big", 5000);
    expect(hf_write(lease, NULL, big, sizeof(big), NULL, &error), HF_INVALID);
    assert_string_equal(error.field, "value");
    expect(hf_write(lease, NULL, big, HF_VALUE_MAX, NULL, &error), HF_OK);
    assert_true(hf_lease_valid(lease));
    expect(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
}

/* ---- many ---- */

enum { THREADS = 8, PER_THREAD = 100, MANY = THREADS * PER_THREAD };

static hf_lease *many[MANY];
static hf_error refused[THREADS];

static void *acquire_many(void *arg)
{
    const int thread = (int)(intptr_t)arg, first = thread * PER_THREAD;

    for (int i = first; i < first + PER_THREAD; i++) {
        char name[32];
        const hf_acquire_options options = {.resource = name, .ttl_ms = 6000};
        snprintf(name, sizeof(name), "many/%d", i);
        if (hf_acquire(client, &options, &many[i], NULL, &refused[thread]) != HF_OK)
            break;
    }
    return NULL;
}

/* How many Renew calls the server has had. */
static int64_t renew_calls(void)
{
    Holdfast__V1__StatsRequest request = HOLDFAST__V1__STATS_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_STATS,
                            .request = &request.base,
                            .response_type = &holdfast__v1__stats_response__descriptor,
                            .retry = HFI_RETRY_READ};
    const Holdfast__V1__StatsResponse *stats;
    int64_t n = 0;

    if (hfi_call(client, &call) != HF_OK)
        fail_msg("%s", call.status.message);
    stats = (const Holdfast__V1__StatsResponse *)call.response;
    for (size_t i = 0; i < stats->n_methods; i++) {
        if (strcmp(stats->methods[i]->method, HFI_RENEW) == 0)
            n = stats->methods[i]->calls;
    }
    hfi_call_release(&call);
    return n;
}

static void many_leases_are_renewed_together(void **state)
{
    pthread_t threads[THREADS];
    int64_t before, calls;
    hf_error error;

    (void)state;
    before = renew_calls();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, acquire_many, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    t_sleep_ms(10000); /* more than their TTL: each lease was renewed 5 times, or is gone */
    calls = renew_calls() - before;
    for (int i = 0; i < MANY; i++) {
        if (!many[i])
            fail_msg("acquire many/%d: %s %s", i, refused[i / PER_THREAD].reason, refused[i / PER_THREAD].message);
        assert_true(hf_lease_valid(many[i]));
    }
    assert_int_equal(atomic_load(&told), 0);
    assert_in_range(calls, 4, 60); /* one by one it were 4,000 */
    print_message("%d leases: %lld renew calls\n", MANY, (long long)calls);
    for (int i = 0; i < MANY; i++) {
        expect(i % 100 ? HF_OK : hf_write(many[i], NULL, "x", 1, NULL, &error), HF_OK);
        hf_lease_free(many[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_lease_lives_writes_and_ends, each),
        cmocka_unit_test_setup(versions_guard_too, each),
        cmocka_unit_test_setup(several_resources_are_all_or_none, each),
        cmocka_unit_test_setup(a_request_id_gets_its_grant_again_and_never_a_new_one, each),
        cmocka_unit_test_setup(a_broken_lease_is_told_within_a_renewal, each),
        cmocka_unit_test_setup(an_adopted_token_goes_on, each),
        cmocka_unit_test_setup(without_renewal_it_expires, each),
        cmocka_unit_test_setup(a_service_can_ask_for_a_verdict, each),
        cmocka_unit_test_setup(leases_and_resources_are_listed, each),
        cmocka_unit_test_setup(wrong_calls_name_their_field, each),
        cmocka_unit_test_setup(many_leases_are_renewed_together, each),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
