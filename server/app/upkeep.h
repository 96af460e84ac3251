/*
 * upkeep.h - what has to be done again and again: sweeping, the audit's partitions, and a look at the server itself.
 *
 *     sweep     every 10 s, a bounded number of rows at a time, sooner while there is more than one portion to do
 *     make      at start and every hour: partitions for the months ahead
 *     drop      a few minutes after the start and every day: partitions that nobody has to keep any more
 *
 * All of it may be done by several servers at once or by none for a while; the SQL functions see to that. One timer, so an
 * idle server wakes for it every 10 s and for nothing else.
 */
#ifndef HOLDFAST_APP_UPKEEP_H
#define HOLDFAST_APP_UPKEEP_H

#include <stdbool.h>

#include "base/io.h"
#include "base/random.h"
#include "store/store.h"

enum {
    APP_SWEEP_MS = 10 * 1000,
    APP_SWEEP_AGAIN_MS = 100, /* after a full portion */
    APP_SWEEP_ROWS = 1000,
    APP_MAKE_MS = 3600 * 1000,
    APP_DROP_MS = 24 * 3600 * 1000,
    APP_DROP_FIRST_MS = 5 * 60 * 1000,
    APP_UPKEEP_RETRY_MS = 60 * 1000, /* after a failure */
    APP_MONTHS_AHEAD = 2
};

enum app_job_kind { APP_SWEEP, APP_MAKE, APP_DROP, APP_JOBS };

struct app_upkeep;

struct app_job {
    struct app_upkeep *upkeep;
    struct st_item item;
    int64_t due_ms;
    bool running;
    enum st_outcome last; /* 0 = none yet */
};

struct app_upkeep {
    struct io *io;
    void (*submit)(void *arg, struct st_item *item); /* st_submit */
    void (*look)(void *arg);                         /* called with each sweep; may be NULL */
    void *arg;

    struct io_timer timer;
    struct hb_random random;
    struct app_job jobs[APP_JOBS];
    bool stopped;
};

/* From now on it is done. The struct must outlive the store, which may hold its items until it is closed. */
void app_upkeep_start(struct app_upkeep *upkeep, struct io *io, void (*submit)(void *arg, struct st_item *item),
                      void (*look)(void *arg), void *arg);

/* Nothing new is begun. Safe on a zeroed one. */
void app_upkeep_stop(struct app_upkeep *upkeep);

/* The store holds an item of it. */
bool app_upkeep_busy(const struct app_upkeep *upkeep);

#endif
