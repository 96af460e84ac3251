/*
 * guard_plan_test.c - the guardian's state machine under an injected clock.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/guard_plan.h"

/* A command that started at 0 under a lease of 4 s: grace 1 s, so SIGTERM is due at 3000 and SIGKILL at 4000. */
static struct guard running(void)
{
    struct guard guard = {0};

    guard_started(&guard, 4000, 4000);
    return guard;
}

static void term_then_kill(void **state)
{
    struct guard guard = running();
    (void)state;

    assert_int_equal(guard_due(&guard, 0), GUARD_WAIT);
    assert_int_equal(guard_next(&guard, 0), 3000);
    assert_int_equal(guard_due(&guard, 2999), GUARD_WAIT);
    assert_int_equal(guard_due(&guard, 3000), GUARD_TERM);
    assert_int_equal(guard_due(&guard, 3000), GUARD_WAIT);
    assert_int_equal(guard_next(&guard, 3000), 4000);
    assert_int_equal(guard_due(&guard, 3999), GUARD_WAIT);
    assert_int_equal(guard_due(&guard, 4000), GUARD_KILL);
    assert_int_equal(guard_due(&guard, 4001), GUARD_KILL);
    assert_int_equal(guard_next(&guard, 4001), 4001 + GUARD_KILL_PAUSE_MS);
    assert_int_equal(guard.why, GUARD_DEADLINE);
    guard_none_left(&guard);
    assert_int_equal(guard_due(&guard, 4002), GUARD_FINISH);
}

static void long_lease_grace(void **state)
{
    struct guard guard = {0};
    (void)state;

    guard_started(&guard, 3600000, 3600000);
    assert_int_equal(guard_next(&guard, 0), 3600000 - GUARD_GRACE_MAX_MS);
}

static void renewals_push(void **state)
{
    struct guard guard = running();
    (void)state;

    for (int64_t now = 1000; now < 100000; now += 1000) {
        guard_extended(&guard, now + 4000, 4000);
        assert_int_equal(guard_due(&guard, now), GUARD_WAIT);
        assert_int_equal(guard_next(&guard, now), now + 3000);
    }
}

static void earlier_deadline_not_believed(void **state)
{
    struct guard guard = running();
    (void)state;

    guard_extended(&guard, 100, 100);
    assert_int_equal(guard_next(&guard, 0), 3000);
}

static void late_renewal_revives_nothing(void **state)
{
    struct guard guard = running();
    (void)state;

    assert_int_equal(guard_due(&guard, 3100), GUARD_TERM);
    guard_extended(&guard, 9000, 4000);
    assert_int_equal(guard_next(&guard, 3200), 4000);
    assert_int_equal(guard_due(&guard, 4000), GUARD_KILL);
}

/* The machine slept through the deadline: no time is left for SIGTERM. */
static void woken_past_deadline(void **state)
{
    struct guard guard = running();
    (void)state;

    assert_int_equal(guard_due(&guard, 50000), GUARD_KILL);
    assert_int_equal(guard.why, GUARD_DEADLINE);
}

static void lost_kills_at_once(void **state)
{
    struct guard guard = running();
    (void)state;

    guard_lost(&guard);
    assert_int_equal(guard_due(&guard, 10), GUARD_KILL);
    assert_int_equal(guard.why, GUARD_LOST);
    guard_lost(&guard);
    guard_extended(&guard, 9000, 4000);
    guard_command_ended(&guard, 20);
    guard_run_gone(&guard, 20);
    assert_int_equal(guard_due(&guard, 20), GUARD_KILL);
    assert_int_equal(guard.why, GUARD_LOST);
}

static void run_gone_ends_with_grace(void **state)
{
    struct guard guard = running();
    (void)state;

    guard_run_gone(&guard, 500);
    assert_int_equal(guard_next(&guard, 500), 500);
    assert_int_equal(guard_due(&guard, 500), GUARD_TERM);
    assert_int_equal(guard_next(&guard, 500), 1500);
    assert_int_equal(guard_due(&guard, 1500), GUARD_KILL);
    assert_int_equal(guard.why, GUARD_RUN_GONE);
}

static void run_gone_late_not_past_deadline(void **state)
{
    struct guard guard = {0};
    (void)state;

    guard_started(&guard, 4000, 4000);
    guard.grace_ms = 500;
    guard_run_gone(&guard, 3499);
    guard.deadline_ms = 3600;
    assert_int_equal(guard_due(&guard, 3499), GUARD_TERM);
    assert_int_equal(guard_next(&guard, 3499), 3600);
}

static void run_gone_before_start(void **state)
{
    struct guard guard = {0};
    (void)state;

    assert_int_equal(guard_next(&guard, 5), INT64_MAX);
    guard_run_gone(&guard, 5);
    assert_int_equal(guard_due(&guard, 5), GUARD_FINISH);
}

static void ended_by_itself(void **state)
{
    struct guard guard = running();
    (void)state;

    guard_command_ended(&guard, 100);
    guard_none_left(&guard);
    assert_int_equal(guard_due(&guard, 100), GUARD_FINISH);
    assert_int_equal(guard.why, GUARD_BY_ITSELF);
}

static void leftovers_are_ended(void **state)
{
    struct guard guard = running();
    (void)state;

    guard_command_ended(&guard, 100);
    assert_int_equal(guard_due(&guard, 100), GUARD_TERM);
    assert_int_equal(guard_next(&guard, 100), 1100);
    assert_int_equal(guard_due(&guard, 1100), GUARD_KILL);
    guard_none_left(&guard);
    assert_int_equal(guard_due(&guard, 1105), GUARD_FINISH);
    assert_int_equal(guard.why, GUARD_BY_ITSELF);
}

static void leftovers_lose_the_lease(void **state)
{
    struct guard guard = running();
    (void)state;

    guard_command_ended(&guard, 100);
    guard_lost(&guard);
    assert_int_equal(guard_due(&guard, 100), GUARD_KILL);
    assert_int_equal(guard.why, GUARD_LOST);

    guard = running();
    guard_command_ended(&guard, 2990);
    assert_int_equal(guard_due(&guard, 2990), GUARD_TERM);
    assert_int_equal(guard_due(&guard, 4000), GUARD_KILL);
    assert_int_equal(guard.why, GUARD_DEADLINE);
}

/* Any order of events: never a WAIT at or past the deadline, never back to life, always an end. */
static void random_orders(void **state)
{
    uint64_t seed = t_seed();
    (void)state;

    srandom((unsigned)seed);
    for (int round = 0; round < 20000; round++) {
        struct guard guard = {0};
        int64_t now = 0, ttl = 100 + random() % 60000;
        bool killing = false;
        guard_started(&guard, ttl, ttl);
        for (int step = 0; step < 40; step++) {
            now += random() % (ttl / 3);
            if (guard.phase == GUARD_RUNNING && now < guard.deadline_ms && random() % 4)
                guard_extended(&guard, now + ttl, ttl);
            switch (random() % 12) {
            case 0:
                guard_lost(&guard);
                break;
            case 1:
                guard_run_gone(&guard, now);
                break;
            case 2:
                guard_command_ended(&guard, now);
                break;
            }
            enum guard_action action = guard_due(&guard, now);
            assert_false(killing && action != GUARD_KILL);
            if (action == GUARD_WAIT || action == GUARD_TERM) {
                assert_true(now < guard.deadline_ms);
                assert_true(guard_next(&guard, now) <= guard.deadline_ms);
            }
            killing = action == GUARD_KILL;
        }
        if (guard.phase == GUARD_RUNNING)
            assert_int_equal(guard_due(&guard, guard.deadline_ms), GUARD_KILL);
        guard_none_left(&guard);
        assert_int_equal(guard_due(&guard, now), GUARD_FINISH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(term_then_kill),
        cmocka_unit_test(long_lease_grace),
        cmocka_unit_test(renewals_push),
        cmocka_unit_test(earlier_deadline_not_believed),
        cmocka_unit_test(late_renewal_revives_nothing),
        cmocka_unit_test(woken_past_deadline),
        cmocka_unit_test(lost_kills_at_once),
        cmocka_unit_test(run_gone_ends_with_grace),
        cmocka_unit_test(run_gone_late_not_past_deadline),
        cmocka_unit_test(run_gone_before_start),
        cmocka_unit_test(ended_by_itself),
        cmocka_unit_test(leftovers_are_ended),
        cmocka_unit_test(leftovers_lose_the_lease),
        cmocka_unit_test(random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
