/*
 * wait_test.c - the pauses of a wait: random, bounded, and over in time.
 */
#include "harness/harness.h"

#include "client/cli/wait.h"
#include "client/lib/call.h"

static void tries_once(void **state)
{
    struct wait wait;
    (void)state;

    wait_begin(&wait, 0);
    assert_int_equal(wait_pause_ms(&wait), -1);
}

static void pauses_grow_to_their_bound(void **state)
{
    struct wait wait;
    int64_t longest = 0, shortest = INT64_MAX;
    (void)state;

    wait_begin(&wait, 3600000);
    assert_in_range(wait_pause_ms(&wait), 1, WAIT_FIRST_MS);
    for (int i = 0; i < 1000; i++) {
        int64_t pause = wait_pause_ms(&wait);
        assert_in_range(pause, 1, WAIT_MAX_MS);
        longest = pause > longest ? pause : longest;
        shortest = i > 10 && pause < shortest ? pause : shortest;
    }
    assert_true(longest > WAIT_MAX_MS * 9 / 10);
    assert_true(shortest < WAIT_MAX_MS * 6 / 10); /* jitter: waiters don't come in step */
}

static void ends_in_time(void **state)
{
    struct wait wait;
    (void)state;

    wait_begin(&wait, 20);
    int64_t pause = wait_pause_ms(&wait);
    assert_in_range(pause, 1, 20);
    wait.until_ms = hfi_boot_ms() - 1;
    assert_int_equal(wait_pause_ms(&wait), -1);
    wait_begin(&wait, INT64_MAX);
    assert_in_range(wait_pause_ms(&wait), 1, WAIT_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tries_once),
        cmocka_unit_test(pauses_grow_to_their_bound),
        cmocka_unit_test(ends_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
