/*
 * storm_worker.h - processes of storm_client's threads: how the test starts and treats them, and what they do.
 *
 * A worker has a client of the library and several threads that share it; some run errands too (storm_run.h). It leaves two files,
 * DIR/history.N and DIR/claims.N, which are right at any moment at which it may be killed. On SIGTERM it lets its calls end, tells
 * on stdout how often it saw its wall clock wrong and how its runs ended, and ends with 0.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_WORKER_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "robustness/history.h"
#include "robustness/storm_client.h"

/* What a worker's main() is: argv from "--worker" on. */
#define STORM_WORKER_FLAG "--worker"
int storm_worker_main(int argc, char **argv);

enum { STORM_WORKERS = 64, STORM_STOPS = 128 };

/* A worker didn't run in this time (CLOCK_BOOTTIME). */
struct storm_stop {
    int worker;
    int64_t from_ns, to_ns; /* to = 0: it does not run yet */
};

/* All workers of an act, those that were killed too. */
struct storm_workers {
    const char *dir, *wall_file;
    const char *env[4];
    uint64_t seed;
    struct t_proc *procs[STORM_WORKERS];
    bool killed[STORM_WORKERS];
    int n;
    struct storm_stop stops[STORM_STOPS];
    int n_stops;
};

/* There will be workers with files in a folder of their own, and with the wall clock of wall_file. */
void storm_workers_init(struct storm_workers *workers, uint64_t seed);
/* One more works, at these servers; its number. */
int storm_worker_start(struct storm_workers *workers, const char *servers);
/* One of those that run, as chance wants it. */
int storm_worker_pick(struct storm_workers *workers, uint64_t *seed);
void storm_worker_kill(struct storm_workers *workers, int number);
void storm_worker_stop(struct storm_workers *workers, int number);
void storm_worker_continue(struct storm_workers *workers, int number);
/* What the workers that were not killed saw: wrong wall clocks; and how their runs of `holdfast run` ended. */
struct storm_seen {
    unsigned off, runs, done, refused;
};
/* All that were not killed have ended as they should, or the test fails; and all errands. */
struct storm_seen storm_workers_end(struct storm_workers *workers);

/* What they left. */
void storm_workers_history(const struct storm_workers *workers, struct history *history);
struct storm_claim *storm_workers_claims(const struct storm_workers *workers, size_t *n); /* free() it */

#endif
