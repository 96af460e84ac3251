/*
 * bench_hist.h - a histogram of durations, a few dozen KiB whatever their number.
 *
 * Log-linear, as HdrHistogram: 128 buckets to each power of two, so that a value read from it is less than 1 % off (half a bucket
 * is 0.4 %); below 128 ns it is exact. Plain memory without pointers: it may lie in shared memory, and zeroed it is empty.
 */
#ifndef HOLDFAST_CLI_BENCH_HIST_H
#define HOLDFAST_CLI_BENCH_HIST_H

#include <stdint.h>

/* Up to 2^42 ns, more than an hour; what is longer counts as that. */
enum { BENCH_HIST_BITS = 7, BENCH_HIST_SUB = 1 << BENCH_HIST_BITS, BENCH_HIST_TOP = 42 };
enum { BENCH_HIST_BUCKETS = (BENCH_HIST_TOP - BENCH_HIST_BITS + 1) * BENCH_HIST_SUB };

struct bench_hist {
    uint64_t n;
    uint64_t buckets[BENCH_HIST_BUCKETS];
};

void bench_hist_add(struct bench_hist *hist, int64_t ns);
/* `into` holds what both held. */
void bench_hist_merge(struct bench_hist *into, const struct bench_hist *from);
/* The value that the fraction `q` (0 to 1) of all values doesn't exceed, by the rule of the nearest rank; 0 if there is none. */
int64_t bench_hist_at(const struct bench_hist *hist, double q);

#endif
