/*
 * endurance_idle_test.c - who has nothing to do sleeps.
 *
 * Three servers, each on a database of its own: one without any client, one with a client that holds nothing, and one with a client
 * that holds very many leases far from their renewal. For a while nobody asks anything. Counted by the kernel and by PostgreSQL,
 * per second: how often the threads of each server, its backends in PostgreSQL and each client woke, how much they computed, and
 * how many transactions there were. What is left is the server's sweep every ten seconds.
 *
 * The bounds are far above that, and no load of the machine raises what is counted; something that polls, even a few times a
 * second, breaks them. That the counting sees such a thing is shown by one: a process that looks up every 10 ms.
 *
 * Environment: HOLDFAST_ENDURANCE_IDLE_SECONDS (default 18), HOLDFAST_ENDURANCE_IDLE_LEASES (default 1,000).
 */
#include "harness/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "robustness/endurance_vitals.h"
#include "robustness/holders.h"
#include "robustness/need.h"

enum { HOUR_MS = 3600000, SOON = 30000, PLACES = 3, BACKENDS = 64, RESTLESS_MS = 10, TOLD_LATE_MS = 11000 };
static const double WAKES_MOST = 5, CPU_MOST = 0.2, COMMITS_MOST = 5; /* per second, % of a core, per second */

/* A server and what is around it. */
struct place {
    const char *what;
    int64_t n_leases; /* -1: without a client */
    char *dsn;
    struct t_server *server;
    struct t_proc *client;
    char *database;
};

static struct place places[PLACES] = {
    {.what = "no client", .n_leases = -1},
    {.what = "an idle client", .n_leases = 0},
    {.what = "a client with leases", .n_leases = 1000},
};
static PGconn *conn; /* to another database, where its own transactions don't count */
static struct t_proc *restless;

/* ------------------------------------------------------------------------------------------------ other processes */

static int be_client(const char *url, size_t n)
{
    const hf_client_options options = {.servers = url};
    const hf_acquire_options acquire = {.ttl_ms = HOUR_MS};
    hf_lease **leases = calloc(n + 1, sizeof(leases[0]));
    hf_client *client = NULL;
    hf_page *page = NULL;
    char why[512] = "";
    if (!leases || hf_client_new(&options, &client, NULL) != HF_OK || hf_list_leases(client, NULL, &page, NULL) != HF_OK)
        return 1;
    hf_page_free(page);
    const size_t failed = holders_acquire(client, "idle", 0, n, &acquire, leases, why);
    printf("HOLDING all but %zu %s\n", failed, why);
    fflush(stdout);
    for (;;)
        pause(); /* for the end */
}

static void be_restless(void)
{
    printf("HOLDING nothing\n");
    fflush(stdout);
    for (;;)
        t_sleep_ms(RESTLESS_MS);
}

static struct t_proc *start_self(const char *what, const char *url, const char *n)
{
    char self[512];
    const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(len > 0);
    self[len] = '\0';
    const char *const argv[] = {self, what, url, n, NULL};
    struct t_proc *proc = t_spawn(argv, NULL);
    t_proc_expect_out(proc, "\n", SOON);
    return proc;
}

static char *name_of(const char *dsn)
{
    PGconn *there = t_connect(dsn);
    char *name = t_printf("%s", t_sql(there, "SELECT current_database()"));
    PQfinish(there);
    return name;
}

static int setup(void **state)
{
    (void)state;
    places[PLACES - 1].n_leases = case_ms("HOLDFAST_ENDURANCE_IDLE_LEASES", 1000);
    /* A PostgreSQL of its own: where others drop their databases, every backend of the cluster is woken for it. */
    const char *cluster = t_pg_dsn(t_pg_start(NULL));
    conn = t_connect(cluster);
    for (int i = 0; i < PLACES; i++) {
        struct place *place = &places[i];
        t_sql(conn, "CREATE DATABASE idle_%d", i);
        place->dsn = t_printf("%s dbname=idle_%d", cluster, i);
        place->server = t_server_start("--dsn", place->dsn, NULL);
        place->database = name_of(place->dsn);
        if (place->n_leases < 0)
            continue;
        place->client = start_self("client", place->server->url, t_printf("%" PRId64, place->n_leases));
        if (!strstr(t_proc_out(place->client), "HOLDING all but 0 \n"))
            fail_msg("%s: %s", place->what, t_proc_out(place->client));
    }
    restless = start_self("restless", "", "");
    t_keep();
    return 0;
}

static int teardown(void **state)
{
    PQfinish(conn);
    for (int i = 0; i < PLACES; i++)
        assert_int_equal(t_server_stop(places[i].server), 0);
    return t_teardown(state);
}

/* ------------------------------------------------------------------------------------------------ counting */

/* One process, or several that are counted as one. */
struct watched {
    const char *who, *where;
    size_t n;
    pid_t pids[BACKENDS];
    struct vitals before[BACKENDS];
    double wakes, cpu_ms; /* since; of those that are still there */
};

/* Each place has a server, its backends and perhaps a client; and there is the restless one. */
enum { WATCHED_MOST = PLACES * 3 + 1 };
static struct watched watched[WATCHED_MOST];
static size_t n_watched;
static int64_t commits[PLACES];

static struct watched *watch(const char *who, const char *where)
{
    struct watched *w = &watched[n_watched++];
    *w = (struct watched){.who = who, .where = where};
    return w;
}

static void watch_pid(struct watched *w, pid_t pid)
{
    assert_true(w->n < BACKENDS && vitals_read(pid, &w->before[w->n]));
    w->pids[w->n++] = pid;
}

static int64_t commits_of(const struct place *place)
{
    return t_sql_int(conn, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '%s'", place->database);
}

static void begin_to_count(void)
{
    for (int i = 0; i < PLACES; i++) {
        const struct place *place = &places[i];
        watch_pid(watch("holdfastd", place->what), place->server->proc->pid);
        if (place->client)
            watch_pid(watch("the client", place->what), place->client->pid);
        struct watched *backends = watch("its backends", place->what);
        char *end, *at = t_sql(conn,
                               "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE datname = '%s' AND "
                               "application_name LIKE 'holdfastd%%'",
                               place->database);
        for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end)
            watch_pid(backends, (pid_t)pid);
        assert_true(backends->n > 0);
    }
    watch_pid(watch("restless", "every 10 ms"), restless->pid);
}

static void end_counting(struct watched *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct vitals after;
        if (!vitals_read(w->pids[i], &after))
            continue; /* a backend whose connection was closed */
        w->wakes += (double)(after.wakes - w->before[i].wakes);
        w->cpu_ms += after.cpu_ms - w->before[i].cpu_ms;
    }
}

/* ------------------------------------------------------------------------------------------------ the test */

static void pass_until(int64_t at_ms)
{
    while (t_now_ms() < at_ms)
        t_sleep_ms(100);
}

static void tell(const struct watched *w, double seconds)
{
    print_message("[     INFO ] %-22s %-13s %3zu process%s %8.2f wake-ups/s %8.4f %% of a core\n", w->where, w->who, w->n,
                  w->n == 1 ? "  " : "es", w->wakes / seconds, w->cpu_ms / 10 / seconds);
}

/* A session of PostgreSQL that is idle may tell what it did before only after ten seconds: so these are counted later. */
static void judge_commits(double seconds)
{
    for (int i = 0; i < PLACES; i++) {
        const double rate = (double)(commits_of(&places[i]) - commits[i]) / seconds;
        print_message("[     INFO ] %-22s its database %15s %8.2f transactions/s in the last %.1f s\n", places[i].what, "", rate,
                      seconds);
        assert_true(rate <= COMMITS_MOST);
    }
}

static void nobody_wakes_to_speak_of(void **state)
{
    const int64_t total_ms = 1000 * case_ms("HOLDFAST_ENDURANCE_IDLE_SECONDS", 18), begin = t_now_ms();
    (void)state;
    assert_true(total_ms > TOLD_LATE_MS);
    begin_to_count();
    pass_until(begin + TOLD_LATE_MS);
    for (int i = 0; i < PLACES; i++)
        commits[i] = commits_of(&places[i]);
    pass_until(begin + total_ms);
    for (size_t i = 0; i < n_watched; i++)
        end_counting(&watched[i]);
    const double seconds = (double)(t_now_ms() - begin) / 1e3;
    print_message("[     INFO ] nothing is asked for %.1f s\n", seconds);
    for (size_t i = 0; i < n_watched; i++)
        tell(&watched[i], seconds);
    judge_commits(seconds - TOLD_LATE_MS / 1e3);
    for (size_t i = 0; i + 1 < n_watched; i++) {
        assert_true(watched[i].wakes / seconds <= WAKES_MOST);
        assert_true(watched[i].cpu_ms / 10 / seconds <= CPU_MOST);
    }
    assert_true(watched[n_watched - 1].wakes / seconds > WAKES_MOST);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_wakes_to_speak_of),
    };
    if (argc == 4 && !strcmp(argv[1], "client"))
        return be_client(argv[2], (size_t)strtoull(argv[3], NULL, 10));
    if (argc == 4 && !strcmp(argv[1], "restless"))
        be_restless();
    return cmocka_run_group_tests(tests, setup, teardown);
}
