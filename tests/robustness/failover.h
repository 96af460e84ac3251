/*
 * failover.h - the stage of the fail-over tests: a primary and its standby, one server that knows both, and those who call.
 *
 * The server's DSN names the primary first. It is never told of a fail-over. Everything that anybody asks for is in the history,
 * and the trail has all writes. Nothing of this is thread-safe but what runs in threads of its own: traffic and patients.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_FAILOVER_H
#define HOLDFAST_TESTS_ROBUSTNESS_FAILOVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "harness/standby.h"
#include "robustness/history.h"
#include "robustness/storm_client.h"
#include "robustness/worker.h"

#define FAILOVER_STANDBY "second"

enum {
    FAILOVER_TTL_MS = 120000, /* of leases that shall outlive everything */
    FAILOVER_CLIENTS = 4,
    FAILOVER_PATIENTS = 3,
    FAILOVER_PATIENCE_MS = 60000,
    FAILOVER_JUMP = 1 << 20
};

/* One who waits for a resource, writes once when he got it, and gives it up. */
struct failover_patient {
    int number;
    struct failover *stage;
    const char *resource;
    pthread_t thread;
    int64_t token; /* that he got; 0 = none */
};

struct failover {
    struct t_pg *first, *second; /* the primary, and its standby, which is promoted */
    struct t_server *server;
    struct history *history;
    struct worker holder;         /* repeats what is harmless, for up to 30 s: holds what is to be held when the primary dies */
    struct worker taker;          /* the same, but another */
    int64_t killed_ms, killed_ns; /* of the fail-over, by t_now_ms() and history_now_ns() */
    atomic_bool stop;
    struct storm_client clients[FAILOVER_CLIENTS];
    struct failover_patient patients[FAILOVER_PATIENTS];
};

/* Both run, the second follows the first, and the server serves. */
void failover_start(struct failover *f);
/* The server has drained, if it still runs; what failover_start made is gone, but for PostgreSQL, which is the harness's. */
void failover_end(struct failover *f);

/* Callers come and go on the resources of storm_client.h, until failover_stop_traffic(), which fails the test if one of them was
 * not answered in time. `reads`: some of them read. */
void failover_start_traffic(struct failover *f, uint64_t seed, bool reads);
void failover_stop_traffic(struct failover *f);

/* Three wait for the resource, in this order. */
void failover_start_patients(struct failover *f, const char *resource);
/* Each was served, in their order, with tokens above `above`. */
void failover_join_patients(struct failover *f, int64_t above);

/* The primary was killed, and the standby is the primary. */
void failover_fail_over(struct failover *f);

/* A granted lease's token; the test fails if it was not granted. `id` is the request's. */
int64_t failover_acquire(const struct worker *worker, const char *resource, const char *id);
/* A write under it that was accepted; its version. */
int64_t failover_write(const struct worker *worker, const char *resource, int64_t token, int64_t seq);

#endif
