/* When a call is tried again. */
#include "harness/harness.h"

#include "client/lib/backoff.h"

static void jitter_is_full_and_capped(void **state)
{
    int64_t max = 0, min = INT64_MAX;

    (void)state;
    for (uint64_t r = 0; r < 5000; r++) {
        const int64_t delay = hfi_jitter(3, 20, 1000, r);
        max = delay > max ? delay : max;
        min = delay < min ? delay : min;
    }
    assert_int_equal(min, 0);
    assert_int_equal(max, 160);
    assert_int_equal(hfi_jitter(0, 20, 1000, 20), 20);
    assert_int_equal(hfi_jitter(1000000, 20, 1000, 1000), 1000);
    assert_int_equal(hfi_jitter(5, 0, 0, 99), 0);
}

static void the_servers_advice_is_a_floor(void **state)
{
    struct hfi_budget budget;

    (void)state;
    hfi_budget_init(&budget, 0);
    for (uint64_t r = 0; r < 100; r++) {
        const int64_t delay = hfi_retry_delay(&budget, 0, 250, 0, r);
        assert_in_range(delay, 250, 250 + 20);
    }
}

static void spent_budget_slows_retries_down(void **state)
{
    struct hfi_budget budget;

    (void)state;
    hfi_budget_init(&budget, 0);
    for (int i = 0; i < HFI_BUDGET_MAX; i++)
        assert_in_range(hfi_retry_delay(&budget, 0, 0, 0, 7), 0, 20);
    assert_in_range(hfi_retry_delay(&budget, 0, 0, 0, 7), HFI_BACKOFF_CAP_MS, HFI_BACKOFF_CAP_MS + 20);
    /* time gives tokens back, and so does success */
    assert_in_range(hfi_retry_delay(&budget, 0, 0, 1000 / HFI_BUDGET_PER_S, 7), 0, 20);
    assert_in_range(hfi_retry_delay(&budget, 0, 0, 1000 / HFI_BUDGET_PER_S, 7), HFI_BACKOFF_CAP_MS, HFI_BACKOFF_CAP_MS + 20);
    for (int i = 0; i < 10; i++)
        hfi_budget_success(&budget);
    assert_in_range(hfi_retry_delay(&budget, 0, 0, 1000 / HFI_BUDGET_PER_S, 7), 0, 20);
    /* never more than full */
    (void)hfi_retry_delay(&budget, 0, 0, INT64_MAX, 7);
    assert_true(budget.millitokens <= HFI_BUDGET_MAX * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jitter_is_full_and_capped),
        cmocka_unit_test(the_servers_advice_is_a_floor),
        cmocka_unit_test(spent_budget_slows_retries_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
