/*
 * case.c - see case.h.
 */
#include "robustness/case.h"

#include <stdlib.h>

uint64_t case_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int case_below(uint64_t *state, int n)
{
    return (int)(case_random(state) % (uint64_t)n);
}

int case_chance(uint64_t *state, int percent)
{
    return case_below(state, 100) < percent;
}

static int by_size(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double case_percentile(double *times, size_t n, double p)
{
    if (n == 0)
        return 0;
    qsort(times, n, sizeof(times[0]), by_size);
    size_t at = (size_t)(p / 100 * (double)n);
    return times[at < n ? at : n - 1];
}
