/*
 * chaos_client.h - one of those who work while servers die: a thread with a client of the library, that waits for leases, writes
 * several times under each, and gives them up or lets them run out; or that reads. Everything it asks for and is told goes into
 * the history.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_CHAOS_CLIENT_H
#define HOLDFAST_TESTS_ROBUSTNESS_CHAOS_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "robustness/history.h"
#include "robustness/worker.h"

enum {
    CHAOS_RESOURCES = 6,
    CHAOS_TTL_MS = 2000,
    CHAOS_WAIT_MS = 3000,
    CHAOS_TIMEOUT_MS = 4000,
    CHAOS_BOUND_MS = 3000 /* how far past its deadline a call may come back on a busy machine */
};

struct chaos_client {
    /* in */
    int number;
    uint64_t seed;
    bool reads;
    const char *servers;
    struct history *history;
    atomic_bool *stop;

    /* out */
    pthread_t thread;
    struct worker worker;
    unsigned waits, waited_in_vain, repeats; /* acquires that may wait; those of them not granted in time; acquires sent again */
    unsigned abandoned, stale;               /* leases left to run out; writes tried under a token given up before */
    int64_t overrun_ms;                      /* the longest time a call took past its deadline; negative: none did */
    const char *overrun;                     /* which kind of call */
};

/* The name of the number-th resource. */
const char *chaos_resource(int number);
/* Its thread works until *stop. */
void chaos_client_start(struct chaos_client *c);
/* Its thread has ended and its client is freed. */
void chaos_client_join(struct chaos_client *c);

#endif
