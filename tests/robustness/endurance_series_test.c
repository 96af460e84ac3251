/*
 * endurance_series_test.c - the judges of the endurance runs: what levels off is told from what grows, and the kernel's counters
 * from their like.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "robustness/endurance_series.h"
#include "robustness/endurance_vitals.h"

enum { SAMPLES = 30 };

static const struct series_column columns[] = {
    {"number", "", .judged = false},
    {"size", "KiB", .judged = true, .tolerance = 0.05, .slack = 10},
};

/* Whether it levels off if its size is size(i). */
static bool levels(double (*size)(int i), int n, char *why, size_t why_size)
{
    struct series series;
    series_init(&series, columns, 2);
    for (int i = 0; i < n; i++)
        series_add(&series, (double[]){i, size(i)});
    return series_level(&series, why, why_size);
}

static double constant(int i)
{
    (void)i;
    return 1000;
}

static double settles(int i)
{
    return i < SAMPLES / 3 ? 500 + i * 50 : 1000;
}

static double sawtooth(int i)
{
    return 1000 + i % 5 * 200;
}

static double shrinks(int i)
{
    return 5000 - i * 100;
}

static double grows(int i)
{
    return 1000 + i * 10; /* by less than a third in all */
}

static double grows_from_nothing(int i)
{
    return i * 5;
}

static double steps_late(int i)
{
    return i < SAMPLES * 2 / 3 ? 1000 : 1100;
}

static void what_levels_off_is_told_from_what_grows(void **state)
{
    char why[256] = "";
    (void)state;
    assert_true(levels(constant, SAMPLES, why, sizeof(why)));
    assert_true(levels(settles, SAMPLES, why, sizeof(why)));
    assert_true(levels(sawtooth, SAMPLES, why, sizeof(why)));
    assert_true(levels(shrinks, SAMPLES, why, sizeof(why)));
    assert_string_equal(why, "");
    assert_false(levels(grows, SAMPLES, why, sizeof(why)));
    print_message("[     INFO ] %s\n", why);
    assert_non_null(strstr(why, "size still grows"));
    assert_false(levels(grows_from_nothing, SAMPLES, why, sizeof(why)));
    assert_false(levels(steps_late, SAMPLES, why, sizeof(why)));
    assert_false(levels(constant, SERIES_LEAST - 1, why, sizeof(why)));
    assert_string_equal(why, "5 samples are too few");
}

static void samples_beyond_the_room_are_left_out(void **state)
{
    struct series series;
    (void)state;
    series_init(&series, columns, 2);
    for (int i = 0; i < SERIES_SAMPLES + 10; i++)
        series_add(&series, (double[]){i, i});
    assert_int_equal(series.n, SERIES_SAMPLES);
    assert_true(series.values[SERIES_SAMPLES - 1][0] == SERIES_SAMPLES - 1);
}

/* Each pause is a wake-up, work is CPU time, touched memory is resident. */
static void a_process_is_seen_as_it_is(void **state)
{
    enum { PAUSES = 20, KIB = 8192 };
    struct vitals before, after;
    (void)state;
    assert_true(vitals_read(getpid(), &before));
    for (int i = 0; i < PAUSES; i++)
        t_sleep_ms(1);
    char *memory = malloc((size_t)KIB * 1024);
    assert_non_null(memory);
    for (int round = 0; round < 8; round++)
        memset(memory, round, (size_t)KIB * 1024);
    assert_true(vitals_read(getpid(), &after));
    assert_true(memory[KIB] == 7);
    free(memory);
    assert_true(after.threads >= 1);
    assert_true(after.wakes - before.wakes >= PAUSES);
    assert_true(after.cpu_ms > before.cpu_ms);
    assert_true(after.rss_kib - before.rss_kib >= KIB / 2);
    assert_false(vitals_read(0x7ffffff0, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_levels_off_is_told_from_what_grows),
        cmocka_unit_test(samples_beyond_the_room_are_left_out),
        cmocka_unit_test(a_process_is_seen_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
