/*
 * case_05_backlog_test.c - expiry backlog.
 *
 * Four client processes hold very many leases and are killed at once. Once the TTL has passed, 64 threads acquire all of these
 * resources. Wanted: from TTL + 2 s after the kill (what was under way must arrive) each is granted at the first try, whatever
 * the sweeper does; meanwhile the calls of others, who acquire, write and release things of their own, stay within bounds: their
 * p99 is printed, and is below 2 s.
 *
 * Played three times: with the sweeper as it is; with none at all (somebody has its lock); and with one that never rests.
 * Environment: HOLDFAST_CASE_LEASES (default 4,000 each time), HOLDFAST_CASE_TTL_MS (default 3000), HOLDFAST_CASE_SWEEPER (one of
 * ordinary, none, restless; default: all three). At full length by long/case_05: 200,000 leases of 30 s.
 */
#include "harness/served.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "robustness/case.h"
#include "robustness/holders.h"
#include "robustness/need.h"
#include "robustness/oracle.h"

enum { HOLDERS = 4, TAKERS = 64, OTHERS = 2, LATE_MS = 5000, OTHERS_P99_MS = 3000, SOON = 30000, MAX_TIMES = 1 << 18 };

static size_t n_leases;
static int64_t ttl_ms;

/* ------------------------------------------------------------------------------------------------ holders */

static int be_holder(const char *url, const char *prefix, size_t first, size_t n, int64_t ttl)
{
    const hf_client_options options = {.servers = url};
    const hf_acquire_options acquire = {.ttl_ms = ttl};
    hf_lease **leases = calloc(n, sizeof(leases[0]));
    hf_client *client = NULL;
    char why[512] = "";
    if (!leases || hf_client_new(&options, &client, NULL) != HF_OK)
        return 1;
    const size_t failed = holders_acquire(client, prefix, first, n, &acquire, leases, why);
    size_t lost = 0;
    for (size_t i = 0; i < n; i++)
        lost += leases[i] && !hf_lease_valid(leases[i]);
    printf("HOLDING all but %zu %s, %zu lost\n", failed, why, lost);
    fflush(stdout);
    for (;;)
        pause(); /* for the end */
}

static struct t_proc *start_holder(const char *prefix, size_t first, size_t n)
{
    const char *const argv[] = {
        t_self(), server->url, prefix, t_printf("%zu", first), t_printf("%zu", n), t_printf("%" PRId64, ttl_ms), NULL};
    return t_spawn(argv, NULL);
}

/* ------------------------------------------------------------------------------------------------ others */

struct times {
    pthread_mutex_t mutex;
    double ms[MAX_TIMES];
    size_t n;
};

static void note(struct times *times, double ms)
{
    pthread_mutex_lock(&times->mutex);
    if (times->n < MAX_TIMES)
        times->ms[times->n++] = ms;
    pthread_mutex_unlock(&times->mutex);
}

static double now_ms(void)
{
    return (double)history_now_ns() / 1e6;
}

static struct times quiet = {.mutex = PTHREAD_MUTEX_INITIALIZER}, crowded = {.mutex = PTHREAD_MUTEX_INITIALIZER},
                    taken = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct others {
    pthread_t threads[OTHERS];
    hf_client *client;
    struct times *_Atomic times;
    atomic_bool stop;
    atomic_int number;
    char trouble[512];
};

static void *other_main(void *arg)
{
    struct others *others = arg;
    const int number = atomic_fetch_add(&others->number, 1);
    while (!atomic_load(&others->stop)) {
        char name[64];
        hf_error error;
        hf_lease *lease = NULL;
        holders_name(name, "case 5/others", (size_t)number);
        const hf_acquire_options options = {.resource = name};
        struct times *times = atomic_load(&others->times);
        double before = now_ms(), after;
        NEED(others->trouble, error, hf_acquire(others->client, &options, &lease, NULL, &error) == HF_OK);
        note(times, (after = now_ms()) - before);
        NEED(others->trouble, error, hf_write(lease, NULL, "x", 1, NULL, &error) == HF_OK);
        note(times, (before = now_ms()) - after);
        NEED(others->trouble, error, hf_release(lease, &error) == HF_OK);
        note(times, now_ms() - before);
        hf_lease_free(lease);
        t_sleep_ms(1);
    }
out:
    return NULL;
}

static void start_others(struct others *others, hf_client *client)
{
    *others = (struct others){.client = client, .times = &quiet};
    quiet.n = crowded.n = taken.n = 0;
    for (int i = 0; i < OTHERS; i++)
        assert_int_equal(pthread_create(&others->threads[i], NULL, other_main, others), 0);
}

static void stop_others(struct others *others)
{
    atomic_store(&others->stop, true);
    for (int i = 0; i < OTHERS; i++)
        pthread_join(others->threads[i], NULL);
    if (others->trouble[0])
        fail_msg("others: %s", others->trouble);
}

/* ------------------------------------------------------------------------------------------------ takers */

struct takers {
    hf_client *client;
    const char *prefix;
    int64_t due_ms; /* TTL after the kill */
    atomic_size_t next;
    atomic_uint early, late; /* tries that found it held, before and after the bound */
    atomic_long latest_ms;   /* after due_ms, of a grant */
    char trouble[512];
};

static void take_one(struct takers *takers, size_t number)
{
    char name[64];
    hf_error error;
    hf_held held;
    hf_lease *lease = NULL;
    holders_name(name, takers->prefix, number);
    const hf_acquire_options options = {.resource = name, .ttl_ms = 3600000, .no_renewal = true};
    for (;;) {
        const int64_t tried = t_now_ms();
        const double before = now_ms();
        const hf_result result = hf_acquire(takers->client, &options, &lease, &held, &error);
        if (result == HF_OK) {
            note(&taken, now_ms() - before);
            break;
        }
        NEED(takers->trouble, error, result == HF_HELD);
        NEED(takers->trouble, error, tried < takers->due_ms + LATE_MS);
        atomic_fetch_add(&takers->early, 1);
        t_sleep_ms(10);
    }
    const long at = (long)(t_now_ms() - takers->due_ms);
    for (long seen = atomic_load(&takers->latest_ms); at > seen;)
        if (atomic_compare_exchange_weak(&takers->latest_ms, &seen, at))
            break;
out:
    hf_lease_free(lease); /* and not released */
}

static void *taker_main(void *arg)
{
    struct takers *takers = arg;
    for (size_t i; !takers->trouble[0] && (i = atomic_fetch_add(&takers->next, 1)) < n_leases;)
        take_one(takers, i);
    return NULL;
}

static void take_all(struct takers *takers)
{
    pthread_t threads[TAKERS];
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, taker_main, takers), 0);
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    if (takers->trouble[0])
        fail_msg("%s", takers->trouble);
}

/* ------------------------------------------------------------------------------------------------ sweepers */

enum sweeper { ORDINARY, NONE, RESTLESS };
static const char *const sweeper_names[] = {"ordinary", "none", "restless"};

static struct {
    enum sweeper kind;
    PGconn *conn;
    pthread_t thread;
    atomic_bool stop;
} sweeper;

static void *sweep_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&sweeper.stop))
        PQclear(PQexec(sweeper.conn, "SELECT holdfast.sweep(1000)"));
    return NULL;
}

static void start_sweeper(enum sweeper kind)
{
    sweeper.kind = kind;
    atomic_store(&sweeper.stop, false);
    if (kind == ORDINARY)
        return;
    sweeper.conn = t_connect(server->dsn);
    if (kind == NONE)
        t_sql(sweeper.conn, "SELECT pg_advisory_lock(hashtext('holdfast.sweep'))");
    else
        assert_int_equal(pthread_create(&sweeper.thread, NULL, sweep_main, NULL), 0);
}

static void stop_sweeper(void)
{
    atomic_store(&sweeper.stop, true);
    if (sweeper.kind == RESTLESS)
        pthread_join(sweeper.thread, NULL);
    if (sweeper.kind != ORDINARY)
        PQfinish(sweeper.conn);
}

/* ------------------------------------------------------------------------------------------------ the test */

static int setup(void **state)
{
    serve(state);
    n_leases = (size_t)case_ms("HOLDFAST_CASE_LEASES", 4000);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 3000);
    return 0;
}

static void hold_all(struct t_proc **holders, const char *prefix)
{
    const int64_t begin = t_now_ms();
    for (size_t i = 0; i < HOLDERS; i++)
        holders[i] = start_holder(prefix, n_leases * i / HOLDERS, n_leases * (i + 1) / HOLDERS - n_leases * i / HOLDERS);
    for (int i = 0; i < HOLDERS; i++) {
        t_proc_expect_out(holders[i], "lost\n", SOON + (int)(n_leases * 2));
        if (!strstr(t_proc_out(holders[i]), "HOLDING all but 0 , 0 lost"))
            fail_msg("holder %d: %s", i, t_proc_out(holders[i]));
    }
    print_message("[     INFO ] sweeper %s: %zu leases of %" PRId64 " ms held after %" PRId64 " ms\n", sweeper_names[sweeper.kind],
                  n_leases, ttl_ms, t_now_ms() - begin);
}

static void tell_times(const char *who, struct times *times)
{
    const double p50 = case_percentile(times->ms, times->n, 50), p99 = case_percentile(times->ms, times->n, 99),
                 worst = case_percentile(times->ms, times->n, 100);
    print_message("[     INFO ]   %-32s %7zu calls, p50 %7.2f ms, p99 %7.2f ms, worst %7.2f ms\n", who, times->n, p50, p99, worst);
}

static void play(enum sweeper kind)
{
    struct t_proc *holders[HOLDERS];
    struct others others;
    const hf_client_options options = {.servers = server->url};
    hf_client *client = NULL, *other = NULL;
    const char *prefix = t_printf("case 5/%s", sweeper_names[kind]);
    assert_int_equal(hf_client_new(&options, &client, NULL), HF_OK);
    assert_int_equal(hf_client_new(&options, &other, NULL), HF_OK);
    start_sweeper(kind);
    hold_all(holders, prefix);
    start_others(&others, other);
    for (int64_t end = t_now_ms() + ttl_ms / 3; t_now_ms() < end;)
        t_sleep_ms(10); /* others beside the renewals */
    for (int i = 0; i < HOLDERS; i++)
        t_proc_kill(holders[i], SIGKILL);
    for (int i = 0; i < HOLDERS; i++)
        assert_int_equal(t_proc_wait(holders[i], SOON), 128 + SIGKILL);
    struct takers takers = {.client = client, .prefix = prefix, .due_ms = t_now_ms() + ttl_ms};
    while (t_now_ms() < takers.due_ms)
        t_sleep_ms(5); /* the time to live passes */
    atomic_store(&others.times, &crowded);
    const int64_t begin = t_now_ms();
    take_all(&takers);
    const int64_t took = t_now_ms() - begin;
    stop_others(&others);
    stop_sweeper();
    print_message("[     INFO ]   all taken in %" PRId64 " ms, the last one %ld ms after its TTL; %u tries came too early\n", took,
                  atomic_load(&takers.latest_ms), atomic_load(&takers.early));
    tell_times("takers", &taken);
    tell_times("others beside renewals", &quiet);
    tell_times("others beside the takers", &crowded);
    assert_true(case_percentile(crowded.ms, crowded.n, 99) < OTHERS_P99_MS);
    assert_int_equal(t_sql_int(conn,
                               "SELECT count(*) FROM holdfast.audit WHERE kind = 'takeover' AND token = 2 AND prior = 1 AND "
                               "resource LIKE '%s/%%'",
                               prefix),
                     n_leases);
    hf_client_free(client);
    hf_client_free(other);
}

static void each_can_be_had_when_its_time_is_up(void **state)
{
    (void)state;
    const char *only = getenv("HOLDFAST_CASE_SWEEPER");
    for (int kind = ORDINARY; kind <= RESTLESS; kind++)
        if (!only || !*only || !strcmp(only, sweeper_names[kind]))
            play((enum sweeper)kind);
    oracle_check(conn, "default", NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_can_be_had_when_its_time_is_up),
    };
    if (argc == 6)
        return be_holder(argv[1], argv[2], (size_t)strtoull(argv[3], NULL, 10), (size_t)strtoull(argv[4], NULL, 10),
                         strtoll(argv[5], NULL, 10));
    return cmocka_run_group_tests(tests, setup, end_serving);
}
