/*
 * rate_test.c - the bucket: full at first, never more than was promised in any span, and honest about when to come again.
 */
#include "harness/harness.h"

#include "base/random.h"
#include "core/rate.h"

static int64_t taken(struct co_rate *rate, int64_t per_second, int64_t burst, int64_t now, int64_t tries)
{
    int64_t n = 0;
    for (int64_t i = 0; i < tries; i++)
        n += co_rate_take(rate, per_second, burst, now) == 0;
    return n;
}

static void no_limit_is_none(void **state)
{
    struct co_rate rate = {0};
    (void)state;
    assert_int_equal(taken(&rate, 0, 0, 5, 1000), 1000);
    assert_int_equal(taken(&rate, 0, 7, 5, 1000), 1000);
}

static void it_starts_full_and_fills_again(void **state)
{
    struct co_rate rate = {0};
    (void)state;
    assert_int_equal(taken(&rate, 10, 5, 1000, 100), 5);
    assert_int_equal(co_rate_take(&rate, 10, 5, 1000), 100); /* the next one comes in a tenth of a second */
    assert_int_equal(co_rate_take(&rate, 10, 5, 1099), 1);
    assert_int_equal(co_rate_take(&rate, 10, 5, 1100), 0);
    assert_int_equal(taken(&rate, 10, 5, 1350, 100), 2);
    assert_int_equal(taken(&rate, 10, 5, 1400, 100), 1); /* half of it was there */
    assert_int_equal(taken(&rate, 10, 5, 1000000, 100), 5);
    assert_int_equal(taken(&rate, 10, 0, 2000000, 100), 10); /* burst 0: as many as come in a second */
}

static void numbers_may_change(void **state)
{
    struct co_rate rate = {0};
    (void)state;
    assert_int_equal(taken(&rate, 1, 1000, 0, 2000), 1000);
    assert_int_equal(co_rate_take(&rate, 1, 2, 0), 1000); /* not a thousand seconds */
    assert_int_equal(taken(&rate, 1000000, 1000000, 10000, 3), 3);
    assert_int_equal(co_rate_take(&rate, 1000000, 1000000, INT64_MAX), 0);
    assert_int_equal(co_rate_take(&rate, 1000000, 1000000, 0), 0); /* time that went back is taken as none */
}

/* Whatever comes whenever: never more than burst + rate × time, and who comes when he was told to is served. */
static void no_span_sees_more_than_promised(void **state)
{
    struct hb_random random;
    (void)state;
    hb_random_seed(&random, 7);
    for (int round = 0; round < 200; round++) {
        struct co_rate rate = {0};
        int64_t per_second = 1 + (int64_t)hb_random_below(&random, 2000), burst = 1 + (int64_t)hb_random_below(&random, 50);
        int64_t now = 0, n = 0;
        for (int i = 0; i < 500; i++) {
            now += (int64_t)hb_random_below(&random, 30);
            int64_t wait = co_rate_take(&rate, per_second, burst, now);
            n += wait == 0;
            assert_true(n * 1000 <= burst * 1000 + per_second * now);
            if (wait && hb_random_below(&random, 2)) {
                now += wait;
                assert_int_equal(co_rate_take(&rate, per_second, burst, now), 0);
                n++;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_limit_is_none),
        cmocka_unit_test(it_starts_full_and_fills_again),
        cmocka_unit_test(numbers_may_change),
        cmocka_unit_test(no_span_sees_more_than_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
