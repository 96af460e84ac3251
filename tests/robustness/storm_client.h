/*
 * storm_client.h - one of those who work in a storm: a thread, mostly in a process of several, that waits for leases, writes
 * several times under each, and gives them up or lets them run out; or that reads, and now and then breaks a lease. Everything it
 * asks for and is told goes into the history, and until when the library said that a lease was valid into the claims.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_CLIENT_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_CLIENT_H

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "robustness/history.h"
#include "robustness/worker.h"

enum {
    STORM_RESOURCES = 6,
    STORM_TTL_MIN_MS = 1000,
    STORM_TTL_MAX_MS = 3000,
    STORM_WAIT_MS = 3000,
    STORM_TIMEOUT_MS = 4000,
    STORM_BOUND_MS = 5000,   /* how far past its deadline a call may come back on a busy machine */
    STORM_WORKER_THREADS = 4 /* of a process; worker numbers in the history are process * STORM_WORKER_THREADS + thread */
};

/* A lease was valid, said the library when asked after this moment. The last such moment of each lease is kept, also of one whose
 * process was killed. */
struct storm_claim {
    char resource[HISTORY_NAME];
    int64_t token;
    int64_t valid_ns; /* CLOCK_BOOTTIME */
};

struct storm_claims {
    int fd; /* a file of them */
    atomic_size_t n;
};

struct storm_client {
    /* in */
    int number;
    uint64_t seed;
    bool reads;
    hf_client *client; /* may be shared */
    struct history *history;
    struct storm_claims *claims; /* NULL: none are kept */
    atomic_bool *stop;

    /* within */
    pthread_t thread;
    struct worker worker;
    struct storm_claim claim; /* of the lease it has */
    size_t claim_at;
};

/* The name of the number-th resource. */
const char *storm_resource(int number);
/* Its thread works until *stop. */
void storm_client_start(struct storm_client *c);
/* Its thread has ended. */
void storm_client_join(struct storm_client *c);

#endif
