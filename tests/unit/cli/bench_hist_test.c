/*
 * bench_hist_test.c - the bench's histogram against a sorted list.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/bench_hist.h"

enum { N = 20000 };

static struct bench_hist hist;

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void empty(void **state)
{
    (void)state;

    memset(&hist, 0, sizeof(hist));
    assert_int_equal(bench_hist_at(&hist, 0), 0);
    assert_int_equal(bench_hist_at(&hist, 0.5), 0);
    assert_int_equal(bench_hist_at(&hist, 1), 0);
}

/* Whatever the size of a value, what is read is less than 1 % off, and small ones are exact. */
static void one_value(void **state)
{
    (void)state;

    for (int64_t ns = 0; ns < INT64_C(1) << BENCH_HIST_TOP; ns = ns < 300 ? ns + 1 : ns + ns / 77) {
        memset(&hist, 0, sizeof(hist));
        bench_hist_add(&hist, ns);
        const int64_t read = bench_hist_at(&hist, 0.5), off = read > ns ? read - ns : ns - read;
        if (off * 100 > ns || (ns < BENCH_HIST_SUB && off))
            fail_msg("%ld reads as %ld", (long)ns, (long)read);
    }
}

static void out_of_range(void **state)
{
    const int64_t top = INT64_C(1) << BENCH_HIST_TOP;
    (void)state;

    memset(&hist, 0, sizeof(hist));
    bench_hist_add(&hist, INT64_MAX);
    assert_in_range(bench_hist_at(&hist, 1), top - top / 100, top);
    memset(&hist, 0, sizeof(hist));
    bench_hist_add(&hist, -5);
    assert_int_equal(bench_hist_at(&hist, 1), 0);
    assert_int_equal(hist.n, 1);
}

/* Of every kind of size: the nearest rank in the sorted list. */
static void like_a_sorted_list(void **state)
{
    static const double parts[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    static int64_t values[N];
    struct bench_hist *other = calloc(1, sizeof(*other));
    (void)state;

    assert_non_null(other);
    srandom((unsigned)t_seed());
    memset(&hist, 0, sizeof(hist));
    for (size_t i = 0; i < N; i++) {
        values[i] = (int64_t)random() << (random() % 12) >> (random() % 25);
        bench_hist_add(i % 3 ? &hist : other, values[i]);
    }
    bench_hist_merge(&hist, other);
    assert_int_equal(hist.n, N);
    qsort(values, N, sizeof(values[0]), by_value);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const double rank = parts[i] * N;
        size_t at = (size_t)rank;
        if ((double)at == rank && at > 0)
            at--;
        const int64_t read = bench_hist_at(&hist, parts[i]), off = llabs(read - values[at]);
        if (off * 100 > values[at])
            fail_msg("at %g: %ld reads as %ld", parts[i], (long)values[at], (long)read);
    }
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty),
        cmocka_unit_test(one_value),
        cmocka_unit_test(out_of_range),
        cmocka_unit_test(like_a_sorted_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
