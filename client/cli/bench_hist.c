/* bench_hist.c - see bench_hist.h. No state. */
#include "client/cli/bench_hist.h"

/* Values below BENCH_HIST_SUB have a bucket each; behind them come BENCH_HIST_SUB buckets for each power of two. */
static unsigned bucket_of(int64_t ns)
{
    unsigned top;

    if (ns < 0)
        ns = 0;
    if (ns >= INT64_C(1) << BENCH_HIST_TOP)
        ns = (INT64_C(1) << BENCH_HIST_TOP) - 1;
    if (ns < BENCH_HIST_SUB)
        return (unsigned)ns;
    top = 63 - (unsigned)__builtin_clzll((uint64_t)ns);
    return (top - BENCH_HIST_BITS + 1) * BENCH_HIST_SUB + (unsigned)(ns >> (top - BENCH_HIST_BITS)) - BENCH_HIST_SUB;
}

/* The middle of a bucket. */
static int64_t value_of(unsigned bucket)
{
    const unsigned octave = bucket / BENCH_HIST_SUB, sub = bucket % BENCH_HIST_SUB;
    int64_t width;

    if (octave == 0)
        return bucket;
    width = INT64_C(1) << (octave - 1);
    return (BENCH_HIST_SUB + (int64_t)sub) * width + width / 2;
}

void bench_hist_add(struct bench_hist *hist, int64_t ns)
{
    hist->buckets[bucket_of(ns)]++;
    hist->n++;
}

void bench_hist_merge(struct bench_hist *into, const struct bench_hist *from)
{
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->n += from->n;
}

int64_t bench_hist_at(const struct bench_hist *hist, double q)
{
    const double rank = q * (double)hist->n;
    uint64_t wanted = (uint64_t)rank, seen = 0;

    if (hist->n == 0)
        return 0;
    if ((double)wanted < rank || wanted == 0)
        wanted++;
    if (wanted > hist->n)
        wanted = hist->n;
    for (unsigned i = 0; i < BENCH_HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen >= wanted)
            return value_of(i);
    }
    return 0;
}
