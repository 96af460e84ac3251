/*
 * endurance_test.c - very many leases, renewed in the background for a long time.
 *
 * One client holds them all by the library's own renewal, every TTL/3, while others acquire and release resources of their own
 * beside it. Wanted: no lease is lost, at the client, in the database or in the audit; and the tables of leases and fences, the
 * memory of the server and that of the client level off (endurance_series.h says what that means, the tolerances stand in
 * `columns`). Renewals have to stay HOT, which is why the tables can stay as they are. What others feel of it is printed: the p99
 * of their acquires.
 *
 * Environment: HOLDFAST_ENDURANCE_LEASES (default 5,000), HOLDFAST_ENDURANCE_TTL_MS (default 9000), HOLDFAST_ENDURANCE_SECONDS
 * (default 12). At full length by long/endurance: 100,000 leases of 30 s for ten minutes, or as long as asked.
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
#include "robustness/endurance_series.h"
#include "robustness/endurance_vitals.h"
#include "robustness/holders.h"
#include "robustness/need.h"
#include "robustness/oracle.h"

enum { SAMPLES = 48, ROWS = 24, OTHERS = 2, OTHERS_NAMES = 32, OTHERS_PAUSE_MS = 20, MAX_TIMES = 1 << 18, OTHERS_P99_MS = 2000 };
#define PREFIX "endurance"
static const double HOT_LEAST = 0.95, DEAD_MOST = 2.5;

static struct t_server *server;
static PGconn *conn;
static size_t n_leases;
static int64_t ttl_ms, seconds;

static int setup(void **state)
{
    (void)state;
    char *dsn = t_database();
    n_leases = (size_t)case_ms("HOLDFAST_ENDURANCE_LEASES", 5000);
    ttl_ms = case_ms("HOLDFAST_ENDURANCE_TTL_MS", 9000);
    seconds = case_ms("HOLDFAST_ENDURANCE_SECONDS", 12);
    server = t_server_start("--dsn", dsn, NULL);
    conn = t_connect(dsn);
    t_keep();
    return 0;
}

static int teardown(void **state)
{
    PQfinish(conn);
    assert_int_equal(t_server_stop(server), 0);
    return t_teardown(state);
}

/* ------------------------------------------------------------------------------------------------ what the client tells */

static struct {
    pthread_mutex_t mutex;
    int64_t renewed;         /* leases, since the start */
    int64_t lag_ms, left_ms; /* the worst since they were last read */
    unsigned n_late;         /* warnings */
    unsigned lost;
    char first_loss[256];
} told = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void on_log(hf_log_level level, const char *line, void *arg)
{
    long long leases, lag, left;
    (void)arg;
    pthread_mutex_lock(&told.mutex);
    if (sscanf(line, "renewed: leases=%lld lag_ms=%lld left_ms=%lld", &leases, &lag, &left) == 3) {
        told.renewed += leases;
        told.lag_ms = lag > told.lag_ms ? lag : told.lag_ms;
        told.left_ms = left < told.left_ms ? left : told.left_ms;
    }
    told.n_late += level == HF_LOG_WARN && !strncmp(line, "renewals are late", 17);
    pthread_mutex_unlock(&told.mutex);
}

static int64_t renewed(void)
{
    pthread_mutex_lock(&told.mutex);
    const int64_t n = told.renewed;
    pthread_mutex_unlock(&told.mutex);
    return n;
}

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&told.mutex);
    if (told.lost++ == 0)
        snprintf(told.first_loss, sizeof(told.first_loss), "%s: %s", hf_lease_resource(lease, 0), reason);
    pthread_mutex_unlock(&told.mutex);
}

/* ------------------------------------------------------------------------------------------------ others */

static struct {
    pthread_t threads[OTHERS];
    hf_client *client;
    atomic_bool stop;
    atomic_int number;
    pthread_mutex_t mutex;
    size_t n; /* acquires */
    char trouble[512];
    double ms[MAX_TIMES];
} others = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note(int64_t began_ns)
{
    pthread_mutex_lock(&others.mutex);
    others.ms[others.n++ % MAX_TIMES] = (double)(history_now_ns() - began_ns) / 1e6;
    pthread_mutex_unlock(&others.mutex);
}

/* A few resources, again and again, so that they add nothing to the tables but audit. */
static void *other_main(void *arg)
{
    const int number = atomic_fetch_add(&others.number, 1);
    (void)arg;
    for (size_t i = 0; !atomic_load(&others.stop); i++) {
        char name[64];
        hf_error error;
        hf_lease *lease = NULL;
        holders_name(name, number ? "others/a" : "others/b", i % OTHERS_NAMES);
        const hf_acquire_options options = {.resource = name};
        const int64_t began_ns = history_now_ns();
        NEED(others.trouble, error, hf_acquire(others.client, &options, &lease, NULL, &error) == HF_OK);
        note(began_ns);
        NEED(others.trouble, error, hf_release(lease, &error) == HF_OK);
        hf_lease_free(lease);
        t_sleep_ms(OTHERS_PAUSE_MS); /* their pace */
    }
out:
    return NULL;
}

static void start_others(void)
{
    const hf_client_options options = {.servers = server->url};
    memset(others.ms, 0xff, sizeof(others.ms)); /* resident from the start, whatever will be noted */
    assert_int_equal(hf_client_new(&options, &others.client, NULL), HF_OK);
    for (int i = 0; i < OTHERS; i++)
        assert_int_equal(pthread_create(&others.threads[i], NULL, other_main, NULL), 0);
}

static void stop_others(void)
{
    atomic_store(&others.stop, true);
    for (int i = 0; i < OTHERS; i++)
        pthread_join(others.threads[i], NULL);
    hf_client_free(others.client);
    if (others.trouble[0])
        fail_msg("others: %s", others.trouble);
    const size_t n = others.n < MAX_TIMES ? others.n : MAX_TIMES;
    const double p50 = case_percentile(others.ms, n, 50), p99 = case_percentile(others.ms, n, 99);
    print_message("[     INFO ] others: %zu acquires beside it, p50 %.2f ms, p99 %.2f ms, worst %.2f ms\n", others.n, p50, p99,
                  case_percentile(others.ms, n, 100));
    assert_true(n > 0 && p99 < OTHERS_P99_MS);
}

/* ------------------------------------------------------------------------------------------------ samples */

/* The memory of a process that only renews goes up and down by what is under way; tables grow by pages, several at once. Of each
 * lease there are none to two dead rows, according to when its page was last pruned and the table last vacuumed. */
static struct series_column columns[] = {
    {"time", "s"},
    {"server", "KiB", .judged = true, .tolerance = 0.05, .slack = 4096}, /* a buffer that grows once is no leak */
    {"client", "KiB", .judged = true, .tolerance = 0.05, .slack = 1024},
    {"lease", "KiB", .judged = true, .tolerance = 0.02, .slack = 256},
    {"its keys", "KiB", .judged = true, .tolerance = 0.02, .slack = 256},
    {"dead rows", "", .judged = true, .tolerance = 0.1}, /* and DEAD_MOST a lease */
    {"resource", "KiB", .judged = true, .tolerance = 0.02, .slack = 256},
    {"HOT", "%"},
    {"renewals", "per s"},
    {"lag", "ms"},
    {"left", "ms"},
    {"server", "% CPU"},
    {"client", "% CPU"},
};
enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]), DEAD_ROWS = 5 };

struct counts {
    int64_t at_ms, renewed, updates, hot;
    double server_cpu_ms, client_cpu_ms;
};

/* What PostgreSQL says, all of it at one moment. */
static void ask_tables(int64_t *table, int64_t *keys, int64_t *dead, int64_t *resource, struct counts *counts)
{
    const char *text = t_sql(conn, "SELECT concat_ws(' ', pg_table_size(relid) / 1024, pg_indexes_size(relid) / 1024, n_dead_tup, "
                                   "pg_total_relation_size('holdfast.resource') / 1024, n_tup_upd, n_tup_hot_upd) "
                                   "FROM pg_stat_user_tables WHERE relid = 'holdfast.lease'::regclass");
    const int n = sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, table, keys, dead, resource,
                         &counts->updates, &counts->hot);
    assert_int_equal(n, 6);
}

/* A sample; `last` is moved on to it. */
static void sample(struct series *series, int64_t begin_ms, struct counts *last)
{
    struct vitals holdfastd, own;
    struct counts now = {.at_ms = t_now_ms()};
    int64_t table, keys, dead, resource;
    assert_true(vitals_read(server->proc->pid, &holdfastd));
    assert_true(vitals_read(getpid(), &own));
    now.server_cpu_ms = holdfastd.cpu_ms;
    now.client_cpu_ms = own.cpu_ms;
    ask_tables(&table, &keys, &dead, &resource, &now);
    pthread_mutex_lock(&told.mutex);
    now.renewed = told.renewed;
    const int64_t lag_ms = told.lag_ms, left_ms = told.left_ms;
    told.lag_ms = 0;
    told.left_ms = ttl_ms;
    pthread_mutex_unlock(&told.mutex);
    const double passed_ms = (double)(now.at_ms > last->at_ms ? now.at_ms - last->at_ms : 1);
    const double values[N_COLUMNS] = {
        (double)(now.at_ms - begin_ms) / 1e3,
        (double)holdfastd.rss_kib,
        (double)own.rss_kib,
        (double)table,
        (double)keys,
        (double)dead,
        (double)resource,
        now.updates > last->updates ? 100 * (double)(now.hot - last->hot) / (double)(now.updates - last->updates) : 100,
        (double)(now.renewed - last->renewed) / passed_ms * 1e3,
        (double)lag_ms,
        (double)left_ms,
        100 * (now.server_cpu_ms - last->server_cpu_ms) / passed_ms,
        100 * (now.client_cpu_ms - last->client_cpu_ms) / passed_ms,
    };
    *last = now;
    if (series)
        series_add(series, values);
}

static void check_no_loss(void)
{
    pthread_mutex_lock(&told.mutex);
    const unsigned lost = told.lost;
    pthread_mutex_unlock(&told.mutex);
    if (lost > 0)
        fail_msg("%u leases were lost, the first one %s", lost, told.first_loss);
}

/* ------------------------------------------------------------------------------------------------ the test */

static void check_all(hf_lease **leases)
{
    size_t lost = 0;
    check_no_loss();
    for (size_t i = 0; i < n_leases; i++)
        lost += !hf_lease_valid(leases[i]);
    assert_int_equal(lost, 0);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE resource LIKE '" PREFIX "/%%' AND token = 1 AND "
                                     "ended = 0 AND deadline > holdfast.clock()"),
                     n_leases);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE resource LIKE '" PREFIX "/%%'"), n_leases);
    oracle_check(conn, "default", NULL);
}

/* For `seconds`; returns what was counted in them. */
static struct counts watch(struct series *series)
{
    struct counts first = {0}, last;
    sample(NULL, 0, &first);
    last = first;
    for (int i = 1; i <= SAMPLES; i++) {
        for (const int64_t due = first.at_ms + seconds * 1000 * i / SAMPLES; t_now_ms() < due; t_sleep_ms(20))
            check_no_loss();
        sample(series, first.at_ms, &last);
    }
    return (struct counts){.at_ms = last.at_ms - first.at_ms,
                           .renewed = last.renewed - first.renewed,
                           .updates = last.updates - first.updates,
                           .hot = last.hot - first.hot};
}

static hf_lease **hold_all(hf_client *client)
{
    const hf_acquire_options acquire = {.ttl_ms = ttl_ms};
    hf_lease **leases = calloc(n_leases, sizeof(leases[0]));
    char why[512];
    assert_non_null(leases);
    const int64_t begin = t_now_ms();
    const size_t failed = holders_acquire(client, PREFIX, 0, n_leases, &acquire, leases, why);
    if (failed > 0)
        fail_msg("%zu could not be acquired: %s", failed, why);
    print_message("[     INFO ] %zu leases of %" PRId64 " ms acquired in %" PRId64 " ms\n", n_leases, ttl_ms, t_now_ms() - begin);
    for (const int64_t end = t_now_ms() + ttl_ms; renewed() < (int64_t)n_leases && t_now_ms() < end; t_sleep_ms(20))
        check_no_loss(); /* each renewed once before anything is measured */
    return leases;
}

static void judge(const struct series *series, const struct counts *all)
{
    char why[256];
    const double rounds = (double)all->renewed / (double)n_leases;
    print_message("[     INFO ] %" PRId64 " renewals in %.1f s: each lease every %.2f s; %.2f %% of %" PRId64
                  " updates were HOT; %u warnings of late renewals\n",
                  all->renewed, (double)all->at_ms / 1e3, (double)all->at_ms / 1e3 / rounds,
                  100 * (double)all->hot / (double)all->updates, all->updates, told.n_late);
    assert_true(all->updates > 0 && (double)all->hot >= HOT_LEAST * (double)all->updates);
    if (vitals_memory_counts() && !series_level(series, why, sizeof(why)))
        fail_msg("%s", why);
}

static void no_lease_is_lost_and_nothing_grows(void **state)
{
    static struct series series;
    const hf_client_options options = {.servers = server->url, .on_loss = on_loss, .log = on_log};
    hf_client *client = NULL;
    (void)state;
    told.left_ms = ttl_ms;
    columns[DEAD_ROWS].slack = DEAD_MOST * (double)n_leases;
    series_init(&series, columns, N_COLUMNS);
    assert_int_equal(hf_client_new(&options, &client, NULL), HF_OK);
    hf_lease **leases = hold_all(client);
    start_others();
    const struct counts all = watch(&series);
    stop_others();
    series_print(&series, ROWS);
    check_all(leases);
    judge(&series, &all);
    for (size_t i = 0; i < n_leases; i++)
        hf_lease_free(leases[i]);
    free(leases);
    hf_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_lease_is_lost_and_nothing_grows),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
