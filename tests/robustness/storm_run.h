/*
 * storm_run.h - `holdfast run` in a storm: a thread of a worker that runs errands under it, one after the other; and the errand.
 *
 * An errand is this program again, as the command of `holdfast run`: it writes several times under the token that it finds in its
 * environment, and keeps a history and claims like a worker's, in files of its own, until it is done or is ended. That it lives is
 * a claim: run has to end it before its lease can be somebody else's. A claim is put RUN_SLACK_MS early, since on a busy
 * machine a process may be ended late.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_RUN_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_RUN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "robustness/storm_plan.h"

/* What an errand's main() is: argv from "--errand" on. */
#define STORM_ERRAND_FLAG "--errand"
int storm_errand_main(int argc, char **argv);

struct storm_runner {
    /* in */
    int worker; /* an errand's number in the history is its worker's, behind all workers: it may end at any moment */
    uint64_t seed;
    const char *servers, *dir;
    atomic_bool *stop;

    /* out */
    pthread_t thread;
    unsigned runs, done, refused; /* refused: 125, not got or lost */
};

/* Its thread runs errands until *stop. */
void storm_runner_start(struct storm_runner *runner);
void storm_runner_join(struct storm_runner *runner);

/* A `holdfast run` of this worker; 0 = there is none now. */
pid_t storm_run_of(pid_t worker);

#endif
