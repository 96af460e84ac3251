/*
 * storm_plan.h - which faults a storm is made of, and in what order: decided by the seed alone.
 *
 * A storm has two acts, each a place of its own (storm_world.h): in the first the servers use a PostgreSQL that is elsewhere, in
 * the second one of them keeps the private one. In each act three lanes of faults run beside each other, so that faults of
 * different lanes overlap; within a lane one is over before the next begins. Each kind that an act knows occurs in it.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_PLAN_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum storm_act { STORM_ELSEWHERE, STORM_PRIVATE, STORM_ACTS };

enum storm_lane {
    STORM_MACHINES, /* processes of servers and of PostgreSQL, its disk and its clock */
    STORM_CALLERS,  /* between workers and servers; the workers; wall clocks */
    STORM_WIRES,    /* between servers and PostgreSQL */
    STORM_LANES
};

enum storm_kind {
    STORM_SERVER_KILLED,
    STORM_SERVERS_KILLED,
    STORM_SERVER_STOPPED,
    STORM_SERVER_DRAINED,
    STORM_KEEPER_KILLED,
    STORM_BACKEND_KILLED,
    STORM_BACKENDS_STOPPED,
    STORM_BACKENDS_TERMINATED,
    STORM_POSTMASTER_KILLED,
    STORM_POSTGRES_STOPPED,
    STORM_POSTGRES_RESTARTED,
    STORM_POSTGRES_CRASHED,
    STORM_DISK_FULL,
    STORM_WAL_FULL,
    STORM_CLOCK_STEPPED,
    STORM_DROP,
    STORM_DELAY,
    STORM_DOUBLE,
    STORM_REORDER,
    STORM_CUT,
    STORM_DARK,
    STORM_RESET,
    STORM_WORKER_KILLED,
    STORM_WORKER_STOPPED,
    STORM_RUN_KILLED,
    STORM_RUN_STOPPED,
    STORM_SERVER_WALL,
    STORM_WORKERS_WALL,
    STORM_DB_RESET,
    STORM_DB_DARK,
    STORM_LINK_DOWN,
    STORM_HOST_DOWN,
    STORM_KINDS
};

/* A kind of fault: a row of the table in storm_plan.c. */
struct storm_about {
    const char *name; /* "server killed" */
    enum storm_lane lane;
    bool in_act[STORM_ACTS];
    bool alone;         /* needs namespaces, which not everybody may make */
    int targets;        /* how many things it can be done to; 0 = there is nothing to choose */
    int min_ms, max_ms; /* how long it lasts */
};
extern const struct storm_about storm_kinds[STORM_KINDS];

/* One fault. */
struct storm_step {
    enum storm_kind kind;
    int pause_ms; /* since the end of the one before in its lane */
    int target;
    int ms;
    uint64_t seed; /* for what else is left to chance */
};

enum { STORM_STEPS = 64 };

struct storm_plan {
    enum storm_act act;
    struct storm_step steps[STORM_LANES][STORM_STEPS];
    int n[STORM_LANES];
};

/* The plan of this act of the storm of this seed. */
void storm_plan_make(struct storm_plan *plan, uint64_t seed, enum storm_act act);
/* As a list for people. */
void storm_plan_print(const struct storm_plan *plan, FILE *file);
const char *storm_act_name(enum storm_act act);

#endif
