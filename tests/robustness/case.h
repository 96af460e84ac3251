/*
 * case.h - small things that the long cases share: sizes from the environment, chance from a seed, percentiles.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_CASE_H
#define HOLDFAST_TESTS_ROBUSTNESS_CASE_H

#include <stddef.h>
#include <stdint.h>

/* The next number of a sequence that its state alone decides (splitmix64). */
uint64_t case_random(uint64_t *state);
/* One of 0 … n - 1. */
int case_below(uint64_t *state, int n);
/* True `percent` times of a hundred. */
int case_chance(uint64_t *state, int percent);

/* The p-th percentile (99.9) of n times, which are sorted by this; 0 of none. */
double case_percentile(double *times, size_t n, double p);

#endif
