/*
 * storm_fault.h - how each kind of fault is done to a world, and undone.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_FAULT_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_FAULT_H

#include "robustness/storm_world.h"

enum { STORM_PIDS = 64 };

/* A fault under way. */
struct storm_fault {
    const struct storm_step *step;
    uint64_t seed;  /* for what is left to chance */
    int64_t due_ms; /* its end; may be put off by what it does */
    bool happened;  /* it was seen to take effect: it doesn't end before, unless that takes too long */

    int phase; /* each kind's own business, like what follows */
    int64_t next_ms;
    int rules[2];
    unsigned swallowed;
    pid_t pids[STORM_PIDS];
    int n;
    PGconn *conn;
};

struct storm_move {
    void (*begin)(struct storm_world *world, struct storm_fault *fault);
    void (*during)(struct storm_world *world, struct storm_fault *fault); /* again and again; may be NULL */
    void (*end)(struct storm_world *world, struct storm_fault *fault);
};

/* By kind; those of the lane STORM_MACHINES, and those of the others. */
extern const struct storm_move storm_machine_moves[STORM_KINDS];
extern const struct storm_move storm_net_moves[STORM_KINDS];

/* The plan is played, from its first fault to the end of its last one; how often each kind took effect is added to `happened`. */
void storm_play(struct storm_world *world, const struct storm_plan *plan, unsigned happened[STORM_KINDS]);

#endif
