/*
 * case_06_zombie_renewer_test.c - the zombie renewer: rounds of acquire and release with a renewal in flight.
 *
 * Pairs of threads play rounds side by side, each pair on a resource of its own: one acquires and releases; the other sends a
 * renewal at the moment of the release, so that either may be first. Pairs share clients, whose calls travel packed together; in
 * half of the pairs the renewal goes by another server than the release. A third of the pairs use leases of the library (whose
 * background renews too, since their TTL is short) instead of bare calls. Wanted: the renewal is answered renewed or lost; once
 * the release is acknowledged, renewals are lost (RELEASED) and make no row; the resource is free at once, and the next token is
 * one more; a renewal under the token before finds itself TAKEN_OVER.
 *
 * Environment: HOLDFAST_CASE_ROUNDS (default: 10,000, or what can be played in 12 s).
 */
#include "harness/harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "robustness/case.h"
#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/worker.h"

enum { PAIRS = 36, ROUNDS = 10000, LIMIT_MS = 12000, TTL_MS = 60000, SHORT_TTL_MS = 150, FEWEST = 10 /* rounds of each pair */ };

static struct t_server *servers[2];
static PGconn *conn;
static hf_client *clients[2];
static atomic_long rounds_left;
static atomic_long renewed_first, released_first;
static int64_t end_ms;

struct pair {
    int number;
    bool library;
    char resource[HISTORY_NAME];
    struct worker holds, renews;
    pthread_t holder, renewer;
    pthread_barrier_t begin, end; /* of the time in which both are in flight */
    uint64_t seed;

    int64_t token, before; /* of this round and the last one */
    hf_lease *lease;
    bool done;
    struct history_call renewal; /* the one in flight, by bare calls */
    hf_result renewal_result;    /* by the library */
    hf_error renewal_error;
    long rounds;
    char trouble[512];
};

static int setup(void **state)
{
    (void)state;
    char *dsn = t_database();
    for (int i = 0; i < 2; i++) {
        servers[i] = t_server_start("--dsn", dsn, NULL);
        clients[i] = worker_client(servers[i]->url);
    }
    conn = t_connect(dsn);
    t_keep();
    return 0;
}

static int teardown(void **state)
{
    PQfinish(conn);
    for (int i = 0; i < 2; i++) {
        hf_client_free(clients[i]);
        assert_int_equal(t_server_stop(servers[i]), 0);
    }
    return t_teardown(state);
}

/* ------------------------------------------------------------------------------------------------ a pair */

static const hf_error no_error;

static void *renewer_main(void *arg)
{
    struct pair *p = arg;
    for (;;) {
        pthread_barrier_wait(&p->begin);
        if (p->done)
            return NULL;
        if (p->library)
            p->renewal_result = hf_renew_now(p->lease, &p->renewal_error);
        else
            p->renewal = worker_renew(&p->renews, p->resource, p->token, TTL_MS);
        pthread_barrier_wait(&p->end);
    }
}

/* Sometimes the renewal gets a little ahead. */
static void dawdle(struct pair *p)
{
    if (case_chance(&p->seed, 50))
        usleep((useconds_t)case_below(&p->seed, 400));
}

static bool was_lost(const struct history_call *call, const char *reason)
{
    return call->answer == HISTORY_REFUSED && !strcmp(call->reason, reason);
}

/* Free at once, but a renewal that is only being committed, on a busy machine, still has the row ("guarded"): then again. */
static struct history_call acquire_bare(struct pair *p)
{
    struct history_call call;
    char id[HISTORY_NAME];
    int64_t end = t_now_ms() + T_PATIENCE_MS;
    snprintf(id, sizeof(id), "round %ld of %d", p->rounds, p->number);
    do
        call = worker_acquire(&p->holds, p->resource, TTL_MS, id);
    while (was_lost(&call, "GUARDED") && t_now_ms() < end);
    return call;
}

static hf_result acquire_of_library(struct pair *p, const hf_acquire_options *options, hf_lease **lease, hf_error *error)
{
    hf_held held = {.guarded = false};
    hf_result result;
    int64_t end = t_now_ms() + T_PATIENCE_MS;
    do
        result = hf_acquire(p->holds.client, options, lease, &held, error);
    while (result == HF_HELD && held.guarded && t_now_ms() < end);
    return result;
}

static void play_bare(struct pair *p)
{
    hf_error error = no_error;
    struct history_call call = acquire_bare(p);
    snprintf(error.message, sizeof(error.message), "%s", call.reason);
    NEED(p->trouble, error, call.answer == HISTORY_OK); /* free at once */
    NEED(p->trouble, error, p->before == 0 || call.got_token == p->before + 1);
    p->token = call.got_token;
    if (p->before && case_chance(&p->seed, 25)) {
        call = worker_renew(&p->renews, p->resource, p->before, TTL_MS);
        snprintf(error.message, sizeof(error.message), "%s", call.reason);
        NEED(p->trouble, error, was_lost(&call, "TAKEN_OVER"));
    }
    pthread_barrier_wait(&p->begin);
    dawdle(p);
    call = worker_release(&p->holds, p->resource, p->token);
    pthread_barrier_wait(&p->end);
    NEED(p->trouble, error, call.answer == HISTORY_OK);
    snprintf(error.message, sizeof(error.message), "%s", p->renewal.reason);
    NEED(p->trouble, error, p->renewal.answer == HISTORY_OK || was_lost(&p->renewal, "RELEASED"));
    atomic_fetch_add(p->renewal.answer == HISTORY_OK ? &renewed_first : &released_first, 1);
    call = worker_renew(&p->renews, p->resource, p->token, TTL_MS);
    snprintf(error.message, sizeof(error.message), "%s", call.reason);
    NEED(p->trouble, error, was_lost(&call, "RELEASED"));
    p->before = p->token;
out:;
}

static void play_library(struct pair *p)
{
    const hf_acquire_options options = {.resource = p->resource, .ttl_ms = case_chance(&p->seed, 80) ? TTL_MS : SHORT_TTL_MS};
    hf_error error = no_error;
    hf_lease *lease = NULL;
    const hf_result granted = acquire_of_library(p, &options, &lease, &error);
    if (granted == HF_LOST && options.ttl_ms == SHORT_TTL_MS &&
        !strcmp(error.reason, "DEADLINE")) { /* too late on a busy machine */
        usleep(2 * SHORT_TTL_MS * 1000);
        p->before = 0;
        return;
    }
    NEED(p->trouble, error, granted == HF_OK);
    NEED(p->trouble, error, p->before == 0 || hf_lease_token(lease) == p->before + 1);
    p->before = hf_lease_token(lease);
    p->lease = lease;
    if (options.ttl_ms == SHORT_TTL_MS)
        usleep((useconds_t)(SHORT_TTL_MS / 3 - 5) * 1000); /* the background is about to renew it */
    pthread_barrier_wait(&p->begin);
    dawdle(p);
    const hf_result released = hf_release(lease, &error);
    pthread_barrier_wait(&p->end);
    /* A short lease may be over by itself on a busy machine. */
    NEED(p->trouble, error, released == HF_OK || (options.ttl_ms == SHORT_TTL_MS && released == HF_LOST));
    NEED(p->trouble, p->renewal_error,
         p->renewal_result == HF_OK || p->renewal_result == HF_LOST ||
             (options.ttl_ms == SHORT_TTL_MS && p->renewal_result == HF_UNAVAILABLE));
    atomic_fetch_add(p->renewal_result == HF_OK ? &renewed_first : &released_first, 1);
    NEED(p->trouble, error, !hf_lease_valid(lease) && hf_renew_now(lease, &error) == HF_LOST);
    if (released != HF_OK) /* let it run out */
        usleep(2 * SHORT_TTL_MS * 1000);
    else
        NEED(p->trouble, error, !strcmp(hf_lease_loss(lease), "RELEASED"));
out:
    hf_lease_free(lease);
}

static void *holder_main(void *arg)
{
    struct pair *p = arg;
    for (; !p->trouble[0] && atomic_fetch_sub(&rounds_left, 1) > 0 && (t_now_ms() < end_ms || p->rounds < FEWEST); p->rounds++) {
        if (p->library)
            play_library(p);
        else
            play_bare(p);
    }
    p->done = true;
    pthread_barrier_wait(&p->begin);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ the test */

static void start(struct pair *p, int number, struct history *history, uint64_t seed)
{
    *p = (struct pair){.number = number, .library = number % 3 == 2, .seed = seed + 1 + (uint64_t)number};
    p->holds = (struct worker){.history = history, .client = clients[0], .number = 2 * number};
    p->renews = (struct worker){.history = history, .client = clients[number % 2], .number = 2 * number + 1};
    snprintf(p->resource, sizeof(p->resource), "case 6/%d", number);
    pthread_barrier_init(&p->begin, NULL, 2);
    pthread_barrier_init(&p->end, NULL, 2);
    assert_int_equal(pthread_create(&p->renewer, NULL, renewer_main, p), 0);
    assert_int_equal(pthread_create(&p->holder, NULL, holder_main, p), 0);
}

static void finish(struct pair *p)
{
    pthread_join(p->holder, NULL);
    pthread_join(p->renewer, NULL);
    pthread_barrier_destroy(&p->begin);
    pthread_barrier_destroy(&p->end);
}

static void a_renewal_in_flight_never_outlives_the_release(void **state)
{
    (void)state;
    static struct pair pairs[PAIRS];
    const bool all = getenv("HOLDFAST_CASE_ROUNDS") != NULL;
    const int64_t begin_ms = t_now_ms();
    struct history *history = history_new(NULL);
    uint64_t seed = t_seed();
    long rounds = 0;
    atomic_store(&rounds_left, (long)case_ms("HOLDFAST_CASE_ROUNDS", ROUNDS));
    end_ms = all ? INT64_MAX : begin_ms + LIMIT_MS;
    for (int i = 0; i < PAIRS; i++)
        start(&pairs[i], i, history, seed);
    for (int i = 0; i < PAIRS; i++) {
        finish(&pairs[i]);
        rounds += pairs[i].rounds;
    }
    print_message("[     INFO ] %ld rounds in %" PRId64 " ms; in flight together, the renewal was good in %ld and lost in %ld\n",
                  rounds, t_now_ms() - begin_ms, atomic_load(&renewed_first), atomic_load(&released_first));
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i].trouble[0])
            fail_msg("pair %d, round %ld: %s", i, pairs[i].rounds, pairs[i].trouble);
    assert_true(atomic_load(&renewed_first) > 0 && atomic_load(&released_first) > 0);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE deadline > holdfast.clock()"), 0);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE resource LIKE 'case 6/%%'"), PAIRS);
    oracle_check(conn, "default", history);
    history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renewal_in_flight_never_outlives_the_release),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
