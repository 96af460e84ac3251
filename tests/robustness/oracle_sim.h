/*
 * oracle_sim.h - right histories by the thousand: a tiny Holdfast in memory, with workers who call it in a time of its own.
 *
 * It keeps the rules of the SQL functions, one call at a time, each at a moment between its start and its end. Answers are lost,
 * and what they were about happened before, later, or never; calls are repeated, and arrive twice, the copy late. So whatever comes
 * out is legal. The seed decides everything.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_ORACLE_SIM_H
#define HOLDFAST_TESTS_ROBUSTNESS_ORACLE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "robustness/history.h"

struct oracle_sim_options {
    size_t calls; /* at least so many */
    int workers, resources;
    bool upsets; /* all leases end by themselves now and then */
};

/* The calls, by start, with a read of what stands in the end for each resource; *n of them; free() it. */
struct history_call *oracle_sim(uint64_t seed, const struct oracle_sim_options *options, size_t *n);

#endif
