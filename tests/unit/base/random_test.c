/*
 * random_test.c - replay from a seed, bounds, and the shape of full jitter.
 */
#include "harness/harness.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"

static void same_seed_same_numbers(void **state)
{
    (void)state;
    struct hb_random a, b, c;
    hb_random_seed(&a, 42);
    hb_random_seed(&b, 42);
    hb_random_seed(&c, 43);
    int differ = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = hb_random_u64(&a);
        assert_int_equal(x, hb_random_u64(&b));
        differ += x != hb_random_u64(&c);
    }
    assert_true(differ > 90);
}

static void below_stays_below(void **state)
{
    (void)state;
    struct hb_random random;
    int counts[10] = {0};
    hb_random_seed(&random, 1);
    for (int i = 0; i < 10000; i++)
        counts[hb_random_below(&random, 10)]++;
    for (int i = 0; i < 10; i++)
        assert_in_range(counts[i], 800, 1200);
    assert_int_equal(hb_random_below(&random, 0), 0);
    assert_int_equal(hb_random_below(&random, 1), 0);
}

static void jitter_is_full_and_capped(void **state)
{
    (void)state;
    struct hb_random random;
    hb_random_seed(&random, 7);
    for (unsigned attempt = 0; attempt < 70; attempt++) {
        int64_t most = attempt < 5 ? 5 << attempt : 100, highest = 0, lowest = INT64_MAX;
        for (int i = 0; i < 2000; i++) {
            int64_t ms = hb_jitter_ms(&random, 5, 100, attempt);
            highest = ms > highest ? ms : highest;
            lowest = ms < lowest ? ms : lowest;
        }
        assert_int_equal(lowest, 0);
        assert_int_equal(highest, most);
    }
    assert_true(hb_jitter_ms(&random, INT64_MAX, INT64_MAX, 3) >= 0);
    assert_int_equal(hb_jitter_ms(&random, 0, 100, 3), 0);
}

static void hash_keeps_borders_apart(void **state)
{
    (void)state;
    /* The published value for "foobar". */
    assert_true(hb_hash(HB_HASH_SEED, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    uint64_t ab_c = hb_hash_str(hb_hash_str(HB_HASH_SEED, "ab"), "c"), a_bc = hb_hash_str(hb_hash_str(HB_HASH_SEED, "a"), "bc");
    assert_true(ab_c != a_bc);
}

static void clocks_do_not_go_back(void **state)
{
    (void)state;
    int64_t mono = hb_monotonic_ms(), boot = hb_boottime_ms();
    for (int i = 0; i < 1000; i++) {
        assert_true(hb_monotonic_ms() >= mono && hb_boottime_ms() >= boot);
        mono = hb_monotonic_ms();
        boot = hb_boottime_ms();
    }
    assert_true(boot >= mono);
    assert_true(hb_unix_ms() > INT64_C(1700000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_numbers),    cmocka_unit_test(below_stays_below),
        cmocka_unit_test(jitter_is_full_and_capped), cmocka_unit_test(hash_keeps_borders_apart),
        cmocka_unit_test(clocks_do_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
