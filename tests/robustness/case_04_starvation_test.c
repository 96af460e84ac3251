/*
 * case_04_starvation_test.c - renewal starvation.
 *
 * One client holds very many leases; then 200 ms are added to each message's way to the server; then a callback of the user's (one
 * lease was broken by an operator) blocks for one and a half TTLs. Wanted: no other lease is lost, at the client or in the
 * database, under the same tokens; how far renewals lag is seen in the client's log; and while the callback blocks the memory of
 * the client (with the proxy, which is in its process) and of the server levels off.
 *
 * Environment: HOLDFAST_CASE_LEASES (default 2,000), HOLDFAST_CASE_TTL_MS (default 5000), HOLDFAST_CASE_BLOCK_MS (default 1.5 TTL).
 * At full length by long/case_04: 50,000 leases, 20 s, 30 s; by long/endurance the callback blocks for minutes.
 */
#include "harness/served.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "robustness/endurance_series.h"
#include "robustness/endurance_vitals.h"
#include "robustness/holders.h"
#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"

enum { LATENCY_MS = 200, SOON = 30000, SAMPLES = 48, ROWS = 12 };

static size_t n_leases;
static int64_t ttl_ms, block_ms;

/* What the client's log and callbacks tell. */
static struct {
    pthread_mutex_t mutex;
    size_t renewed;   /* leases */
    int64_t lag_ms;   /* the worst, since it was last set to 0 */
    int64_t left_ms;  /* the least */
    unsigned n_late;  /* warnings */
    atomic_uint lost; /* callbacks begun */
    atomic_bool returned;
} told = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int setup(void **state)
{
    serve(state);
    n_leases = (size_t)case_ms("HOLDFAST_CASE_LEASES", 2000);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 5000);
    block_ms = case_ms("HOLDFAST_CASE_BLOCK_MS", ttl_ms * 3 / 2);
    return 0;
}

static void on_log(hf_log_level level, const char *line, void *arg)
{
    size_t leases;
    long long lag, left;
    (void)arg;
    pthread_mutex_lock(&told.mutex);
    if (sscanf(line, "renewed: leases=%zu lag_ms=%lld left_ms=%lld", &leases, &lag, &left) == 3) {
        told.renewed += leases;
        told.lag_ms = lag > told.lag_ms ? lag : told.lag_ms;
        told.left_ms = left < told.left_ms ? left : told.left_ms;
    }
    told.n_late += level == HF_LOG_WARN && !strncmp(line, "renewals are late", 17);
    pthread_mutex_unlock(&told.mutex);
}

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)reason;
    (void)arg;
    if (atomic_fetch_add(&told.lost, 1) == 0) {
        t_sleep_ms((int)block_ms);
        atomic_store(&told.returned, true);
    }
}

static void fresh_page(void)
{
    pthread_mutex_lock(&told.mutex);
    told.renewed = 0;
    told.lag_ms = 0;
    told.left_ms = ttl_ms;
    pthread_mutex_unlock(&told.mutex);
}

/* What was told since; returns the lag. */
static int64_t read_page(const char *when)
{
    pthread_mutex_lock(&told.mutex);
    const int64_t lag_ms = told.lag_ms;
    print_message("[     INFO ] %-24s %7zu renewals, at most %5" PRId64 " ms after they were due, at least %6" PRId64
                  " ms before a deadline; %u warnings so far\n",
                  when, told.renewed, lag_ms, told.left_ms, told.n_late);
    pthread_mutex_unlock(&told.mutex);
    return lag_ms;
}

static size_t renewed(void)
{
    pthread_mutex_lock(&told.mutex);
    const size_t n = told.renewed;
    pthread_mutex_unlock(&told.mutex);
    return n;
}

/* Each was renewed `times` times on the average since fresh_page. */
static void await_renewals(size_t times)
{
    const int64_t end = t_now_ms() + (int64_t)times * ttl_ms + SOON;
    while (renewed() < times * n_leases) {
        if (t_now_ms() > end)
            fail_msg("%zu of %zu renewals", renewed(), times * n_leases);
        t_sleep_ms(20);
    }
}

static void check_all(hf_lease **leases, size_t broken)
{
    size_t lost = 0;
    for (size_t i = 0; i < n_leases; i++)
        lost += i != broken && !hf_lease_valid(leases[i]);
    if (lost > 0 || atomic_load(&told.lost) > (broken < n_leases ? 1 : 0))
        fail_msg("%zu leases are lost, %u losses were told", lost, atomic_load(&told.lost));
}

/* ------------------------------------------------------------------------------------------------ memory */

/* Up and down with what is under way: of very many leases, thousands of names and tokens. */
static const struct series_column columns[] = {
    {"time", "s"},
    {"server", "KiB", .judged = true, .tolerance = 0.05, .slack = 2048},
    {"client", "KiB", .judged = true, .tolerance = 0.05, .slack = 2048},
    {"renewals", ""},
};

static void sample(struct series *series, int64_t begin_ms)
{
    struct vitals holdfastd, own;
    assert_true(vitals_read(server->proc->pid, &holdfastd));
    assert_true(vitals_read(getpid(), &own));
    series_add(series, (double[]){(double)(t_now_ms() - begin_ms) / 1e3, (double)holdfastd.rss_kib, (double)own.rss_kib,
                                  (double)renewed()});
}

/* Until the callback has come back, which began in time. */
static void watch_the_blocked(hf_lease **leases, size_t victim)
{
    static struct series series;
    const int64_t begin = t_now_ms(), end = begin + ttl_ms + block_ms + SOON;
    char why[256];
    series_init(&series, columns, sizeof(columns) / sizeof(columns[0]));
    for (int i = 1; !atomic_load(&told.returned); i++) {
        const int64_t due = begin + i * block_ms / SAMPLES;
        for (; t_now_ms() < due && !atomic_load(&told.returned); t_sleep_ms(20))
            ;
        assert_true(t_now_ms() < end);
        check_all(leases, victim);
        sample(&series, begin);
    }
    series_print(&series, ROWS);
    if (vitals_memory_counts() && !series_level(&series, why, sizeof(why)))
        fail_msg("%s", why);
}

/* ------------------------------------------------------------------------------------------------ the test */

static void no_lease_is_lost(void **state)
{
    (void)state;
    struct px *px = px_start(server->url, 1);
    const hf_client_options options = {.servers = px_url(px), .on_loss = on_loss, .log = on_log},
                            other_options = {.servers = server->url};
    const hf_acquire_options acquire = {.ttl_ms = ttl_ms};
    hf_client *client = NULL, *other = NULL;
    hf_lease **leases = calloc(n_leases, sizeof(leases[0]));
    hf_break_result broken;
    hf_error error;
    char why[512];
    assert_non_null(leases);
    assert_int_equal(hf_client_new(&options, &client, NULL), HF_OK);
    assert_int_equal(hf_client_new(&other_options, &other, NULL), HF_OK);

    fresh_page();
    const int64_t begin = t_now_ms();
    const size_t failed = holders_acquire(client, "case 4", 0, n_leases, &acquire, leases, why);
    if (failed > 0)
        fail_msg("%zu could not be acquired: %s", failed, why);
    print_message("[     INFO ] %zu leases of %" PRId64 " ms acquired in %" PRId64 " ms\n", n_leases, ttl_ms, t_now_ms() - begin);
    await_renewals(1);
    read_page("undisturbed");

    fresh_page();
    const int slow = px_add(px, &(struct px_rule){.direction = PX_REQUEST, .action = PX_DELAY, .ms = LATENCY_MS});
    await_renewals(2);
    assert_true(read_page("200 ms away") >= LATENCY_MS); /* it is visible */
    check_all(leases, n_leases);

    fresh_page();
    const size_t victim = n_leases / 2;
    assert_int_equal(
        hf_break(other, hf_lease_resource(leases[victim], 0), hf_lease_token(leases[victim]), "operator", "test", &broken, &error),
        HF_OK);
    assert_int_equal(broken.outcome, HF_BREAK_DONE);
    watch_the_blocked(leases, victim);
    assert_true(read_page("and a callback blocks") >= LATENCY_MS);
    check_all(leases, victim);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE token = 1 AND deadline > holdfast.clock()"),
                     (int64_t)n_leases - 1);
    assert_int_equal(oracle_check(conn, "default", NULL), n_leases + 1); /* grants, and the break */

    px_remove(px, slow);
    for (size_t i = 0; i < n_leases; i++)
        hf_lease_free(leases[i]);
    free(leases);
    hf_client_free(client);
    hf_client_free(other);
    px_stop(px);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_lease_is_lost),
    };
    return cmocka_run_group_tests(tests, setup, end_serving);
}
