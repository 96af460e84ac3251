/*
 * faults_test.c - what a client sees, and what the database holds, when the parts below it are killed or blocked.
 *
 * Writers lease, write and release through the C library while the server is killed or PostgreSQL crashes. Then the audit
 * trail is the oracle: tokens rise (P1), every write that was acknowledged is there (P6), and is one step of the version although
 * it may have been sent twice (P8), and no write carries an older token than one before it (P3). The other half holds users'
 * transactions open with guard().
 */
#include "harness/harness.h"

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 6, ROUNDS = 3, PER_ROUND = 150, MAX_ACKED = 200000, LEASE_MS = 4000, PATIENCE_MS = 60000 };

/* ------------------------------------------------------------------------------------------------ writers under faults */

struct acked {
    int64_t version, token;
};

struct writer {
    pthread_t thread;
    hf_client *client;
    char resource[32];
    int64_t last_token;
    struct acked *acked;
    size_t n_acked;
    int lost, unknown;
    char wrong[256]; /* what must not have happened; "" = nothing */
};

static atomic_bool stop;
static atomic_long total_acked;

static void write_under(struct writer *writer, hf_lease *lease)
{
    int64_t before = 0; /* the version of the last write, while nothing is unclear */
    for (int i = 0; i < 20 && !stop && hf_lease_valid(lease) && writer->n_acked < MAX_ACKED; i++) {
        hf_write_result written;
        hf_error error;
        char text[64];
        int len = snprintf(text, sizeof(text), "%lld/%d", (long long)hf_lease_token(lease), i);
        hf_result result = hf_write(lease, NULL, text, (size_t)len, &written, &error);
        if (result == HF_OK) {
            if (before && written.version != before + 1)
                snprintf(writer->wrong, sizeof(writer->wrong), "one write, from version %lld to %lld", (long long)before,
                         (long long)written.version);
            before = written.version;
            writer->acked[writer->n_acked++] = (struct acked){written.version, hf_lease_token(lease)};
            total_acked++;
            continue;
        }
        before = 0;
        if (result == HF_LOST) {
            writer->lost++;
        } else if (result == HF_UNKNOWN) {
            writer->unknown++;
        } else if (result != HF_UNAVAILABLE) {
            snprintf(writer->wrong, sizeof(writer->wrong), "write: %s %s: %.150s", hf_result_name(result), error.reason,
                     error.message);
            return;
        }
    }
}

static void *writer_main(void *arg)
{
    struct writer *writer = arg;
    while (!stop && !writer->wrong[0]) {
        hf_acquire_options want = {.resource = writer->resource, .ttl_ms = LEASE_MS};
        hf_lease *lease = NULL;
        hf_error error;
        hf_result result = hf_acquire(writer->client, &want, &lease, NULL, &error);
        if (result == HF_OK) {
            if (hf_lease_token(lease) <= writer->last_token)
                snprintf(writer->wrong, sizeof(writer->wrong), "token %lld after %lld", (long long)hf_lease_token(lease),
                         (long long)writer->last_token);
            writer->last_token = hf_lease_token(lease);
            write_under(writer, lease);
            (void)!hf_release(lease, &error);
            hf_lease_free(lease);
        } else if (result == HF_HELD || result == HF_UNAVAILABLE || result == HF_UNKNOWN || result == HF_LOST) {
            t_sleep_ms(20); /* an earlier lease of ours, whose release was lost, has to run out */
        } else {
            snprintf(writer->wrong, sizeof(writer->wrong), "acquire: %s %s: %.150s", hf_result_name(result), error.reason,
                     error.message);
        }
    }
    return NULL;
}

struct more {
    long than;
    struct writer *writers;
};

static bool acked_more(void *arg)
{
    struct more *more = arg;
    for (int i = 0; i < WRITERS; i++)
        if (more->writers[i].wrong[0])
            return true;
    return total_acked > more->than;
}

static void await_writes(struct writer *writers, long n)
{
    struct more more = {total_acked + n, writers};
    bool enough = t_wait_for(acked_more, &more, PATIENCE_MS);
    if (!enough) {
        stop = true;
        fail_msg("not %ld writes within %d s: %ld in all", n, PATIENCE_MS / 1000, (long)total_acked);
    }
}

/* The audit trail and the values agree with what was acknowledged. */
static void check_history(const char *dsn, struct writer *writers)
{
    PGconn *conn = t_connect(dsn);
    assert_int_equal(t_sql_int(conn,
                               "SELECT count(*) FROM (SELECT token, lag(token) OVER (PARTITION BY namespace, resource ORDER BY "
                               "id) AS before FROM holdfast.audit WHERE kind IN ('grant', 'takeover')) g "
                               "WHERE token <= before"),
                     0);
    assert_int_equal(t_sql_int(conn,
                               "SELECT count(*) FROM (SELECT token, lag(token) OVER (PARTITION BY namespace, resource ORDER BY "
                               "id) AS before FROM holdfast.audit WHERE kind = 'write') w WHERE token < before"),
                     0);
    t_sql(conn, "CREATE TEMP TABLE acked (resource text, version bigint, token bigint)");
    for (int i = 0; i < WRITERS; i++) {
        const struct writer *writer = &writers[i];
        PQclear(PQexec(conn, "COPY acked FROM STDIN"));
        for (size_t k = 0; k < writer->n_acked; k++) {
            char line[96];
            int len = snprintf(line, sizeof(line), "%s\t%lld\t%lld\n", writer->resource, (long long)writer->acked[k].version,
                               (long long)writer->acked[k].token);
            assert_int_equal(PQputCopyData(conn, line, len), 1);
        }
        assert_int_equal(PQputCopyEnd(conn, NULL), 1);
        for (PGresult *result; (result = PQgetResult(conn));)
            PQclear(result);
    }
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM acked"), total_acked);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM acked a WHERE NOT EXISTS (SELECT FROM holdfast.audit w WHERE w.kind = "
                                     "'write' AND w.resource = a.resource AND w.prior = a.version AND w.token = a.token)"),
                     0);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) - count(DISTINCT (resource, version)) FROM acked"), 0);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.resource_value v WHERE v.version <> (SELECT count(*) FROM "
                                     "holdfast.audit w WHERE w.kind = 'write' AND w.resource = v.resource) OR v.version <> "
                                     "(SELECT max(w.prior) FROM holdfast.audit w WHERE w.kind = 'write' AND w.resource = "
                                     "v.resource)"),
                     0);
    PQfinish(conn);
}

struct below {
    struct t_pg *pg;
    struct t_server *server;
};

static void kill_server(struct below *below)
{
    t_server_kill(below->server, SIGKILL);
    t_server_restart(below->server);
}

static void crash_postgres(struct below *below)
{
    t_pg_restart(below->pg);
}

static void run_faults(void (*fault)(struct below *below))
{
    static struct writer writers[WRITERS];
    struct below below = {.pg = t_pg_start(NULL)};
    below.server = t_server_start("--dsn", t_pg_dsn(below.pg), NULL);
    PGconn *conn = t_connect(t_pg_dsn(below.pg));
    t_sql(conn, "UPDATE holdfast.namespace SET audit_writes = true");
    PQfinish(conn);

    hf_client *client = NULL;
    hf_error error;
    hf_client_options options = {.servers = below.server->url, .timeout_ms = 20000};
    assert_int_equal(hf_client_new(&options, &client, &error), HF_OK);
    stop = false;
    total_acked = 0;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.client = client, .acked = calloc(MAX_ACKED, sizeof(struct acked))};
        assert_non_null(writers[i].acked);
        snprintf(writers[i].resource, sizeof(writers[i].resource), "load/%d", i);
        assert_int_equal(pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        await_writes(writers, PER_ROUND);
        fault(&below);
    }
    await_writes(writers, PER_ROUND);
    stop = true;
    int lost = 0, unknown = 0;
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        lost += writers[i].lost;
        unknown += writers[i].unknown;
    }
    hf_client_free(client);
    print_message("%ld writes acknowledged; %d leases lost, %d outcomes unknown\n", (long)total_acked, lost, unknown);
    for (int i = 0; i < WRITERS; i++)
        assert_string_equal(writers[i].wrong, "");
    check_history(t_pg_dsn(below.pg), writers);
    for (int i = 0; i < WRITERS; i++)
        free(writers[i].acked);
    assert_int_equal(t_server_stop(below.server), 0);
}

static void test_server_killed(void **state)
{
    (void)state;
    run_faults(kill_server);
}

static void test_postgres_crashes(void **state)
{
    (void)state;
    run_faults(crash_postgres);
}

/* ------------------------------------------------------------------------------------------------ guard() */

struct guarded {
    struct t_server *server;
    char *dsn;
    hf_client *first, *second; /* the holder and the one who wants to take over */
};

static void guarded_begin(struct guarded *g)
{
    hf_error error;
    g->dsn = t_database();
    g->server = t_server_start("--dsn", g->dsn, NULL);
    hf_client_options options = {.servers = g->server->url, .holder = "first"};
    assert_int_equal(hf_client_new(&options, &g->first, &error), HF_OK);
    options.holder = "second";
    assert_int_equal(hf_client_new(&options, &g->second, &error), HF_OK);
}

static void guarded_end(struct guarded *g)
{
    hf_client_free(g->first);
    hf_client_free(g->second);
    assert_int_equal(t_server_stop(g->server), 0);
}

static hf_lease *take(hf_client *client, const char *resource, int64_t ttl_ms, bool renewed)
{
    hf_acquire_options want = {.resource = resource, .ttl_ms = ttl_ms, .no_renewal = !renewed};
    hf_lease *lease = NULL;
    hf_error error;
    hf_result result = hf_acquire(client, &want, &lease, NULL, &error);
    if (result != HF_OK)
        fail_msg("acquire %s: %s: %s", resource, hf_result_name(result), error.message);
    return lease;
}

/* The same for a TTL so short that the answer may come after its end: then another one is taken. */
static hf_lease *take_short(hf_client *client, const char *resource, int64_t ttl_ms)
{
    hf_acquire_options want = {.resource = resource, .ttl_ms = ttl_ms, .no_renewal = true};
    hf_lease *lease = NULL;
    hf_error error;
    hf_result result;
    int64_t end = t_now_ms() + 15000;
    do
        result = hf_acquire(client, &want, &lease, NULL, &error);
    while ((result == HF_LOST || result == HF_HELD) && t_now_ms() < end);
    if (result != HF_OK)
        fail_msg("acquire %s: %s: %s", resource, hf_result_name(result), error.message);
    return lease;
}

/* Tries until the resource is got; how often it was told "guarded" goes to *guarded. */
static hf_lease *take_over(hf_client *client, const char *resource, int ms, int *guarded)
{
    int64_t end = t_now_ms() + ms;
    for (;;) {
        hf_acquire_options want = {.resource = resource, .ttl_ms = 10000};
        hf_lease *lease = NULL;
        hf_held held = {.guarded = false};
        hf_error error;
        hf_result result = hf_acquire(client, &want, &lease, &held, &error);
        if (result == HF_OK)
            return lease;
        if (result != HF_HELD)
            fail_msg("acquire %s: %s: %s", resource, hf_result_name(result), error.message);
        if (guarded && held.guarded)
            ++*guarded;
        if (t_now_ms() > end)
            fail_msg("no takeover of %s within %d ms", resource, ms);
        t_sleep_ms(10);
    }
}

static void drop(hf_lease *lease)
{
    hf_error error;
    assert_int_equal(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
}

/* A guarded transaction is open before the lease ends and until long after: takeover waits, everything else goes on, then the
 * takeover succeeds and the transaction's write stands. */
static void test_guard_before_takeover(void **state)
{
    (void)state;
    struct guarded g;
    guarded_begin(&g);
    hf_error error;
    PGconn *user = t_connect(g.dsn), *watch = t_connect(g.dsn);
    t_sql(user, "CREATE TABLE report (body text)");
    hf_lease *lease = take(g.first, "guarded", 3000, false), *other = take(g.first, "other", 10000, true);
    int64_t token = hf_lease_token(lease);

    t_sql(user, "BEGIN; SELECT holdfast.guard('default', 'guarded', %lld); INSERT INTO report VALUES ('first')", (long long)token);
    /* Busy, so that it is not cut off as idle when the lease ends. */
    assert_int_equal(PQsendQuery(user, "SELECT pg_sleep(5.5)"), 1);
    int64_t asleep_until = t_now_ms() + 5500;

    hf_acquire_options want = {.resource = "guarded", .ttl_ms = 10000};
    hf_lease *none = NULL;
    hf_held held;
    assert_int_equal(hf_acquire(g.second, &want, &none, &held, &error), HF_HELD);
    assert_true(held.guarded);
    assert_int_equal(hf_renew_now(lease, &error), HF_OK); /* the lease row isn't locked */

    int guarded = 0, rounds = 0;
    while (t_now_ms() < asleep_until - 1500) {
        assert_int_equal(hf_acquire(g.second, &want, &none, &held, &error), HF_HELD);
        guarded += held.guarded;
        assert_int_equal(hf_renew_now(other, &error), HF_OK);
        assert_int_equal(hf_write(other, NULL, "x", 1, NULL, &error), HF_OK);
        hf_lease *third = take(g.second, "third", 10000, true);
        drop(third);
        rounds += t_now_ms() < asleep_until;
    }
    assert_false(hf_lease_valid(lease));
    assert_true(rounds > 0); /* nobody waited for the transaction */
    assert_true(guarded >= rounds);

    PQclear(PQgetResult(user));
    assert_null(PQgetResult(user));
    t_sql(user, "COMMIT");
    hf_lease *successor = take_over(g.second, "guarded", 10000, NULL);
    assert_true(hf_lease_token(successor) > token);
    assert_string_equal(t_sql(watch, "SELECT body FROM report"), "first");
    drop(successor);
    drop(other);
    hf_lease_free(lease);
    PQfinish(user);
    PQfinish(watch);
    guarded_end(&g);
}

/* Guarded transactions start while takeovers happen, many times: each either commits before the next token is granted, or is
 * refused. So no row carries an older token than a row before it, and none was committed after a newer grant. */
static void test_guard_during_takeover(void **state)
{
    (void)state;
    struct guarded g;
    guarded_begin(&g);
    PGconn *user = t_connect(g.dsn);
    t_sql(user, "CREATE TABLE report (id bigserial, token bigint)");
    int committed = 0, refused = 0, guarded = 0;
    for (int round = 0; round < 60; round++) {
        /* Every second lease is released, the others run out while guard() is called around their end. */
        bool released = round % 2 == 0;
        double pause = released ? (round % 12) * 0.0005 : 0.06 + (round % 12) * 0.005;
        hf_lease *lease = take_short(g.first, "raced", released ? 1000 : 100);
        int64_t token = hf_lease_token(lease);
        /* Sent without waiting: the lease's end, the takeover and guard() meet in the database in any order. */
        char sql[320];
        snprintf(sql, sizeof(sql),
                 "BEGIN; SELECT pg_sleep(%f); SELECT holdfast.guard('default', 'raced', %lld); SELECT pg_sleep(0.03); "
                 "INSERT INTO report(token) VALUES (%lld); COMMIT",
                 pause, (long long)token, (long long)token);
        assert_int_equal(PQsendQuery(user, sql), 1);
        if (released) { /* behind guard() it isn't freed, and runs out */
            hf_error error;
            hf_result freed = hf_release(lease, &error);
            assert_true(freed == HF_OK || freed == HF_UNAVAILABLE || freed == HF_UNKNOWN);
        }
        hf_lease_free(lease);
        hf_lease *successor = take_over(g.second, "raced", 15000, &guarded);
        assert_true(hf_lease_token(successor) > token);

        bool failed = false;
        for (PGresult *result; (result = PQgetResult(user));) {
            if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
                const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
                failed = true;
                assert_true(!strcmp(code, "HF001") || !strcmp(code, "HF002"));
            }
            PQclear(result);
        }
        t_sql(user, "ROLLBACK");
        failed ? refused++ : committed++;
        /* Whoever was refused left no row; the successor's row comes after all of them. */
        t_sql(user, "BEGIN; SELECT holdfast.guard('default', 'raced', %lld); INSERT INTO report(token) VALUES (%lld); COMMIT",
              (long long)hf_lease_token(successor), (long long)hf_lease_token(successor));
        drop(successor);
    }
    print_message("committed %d, refused %d, told guarded %d times\n", committed, refused, guarded);
    assert_int_equal(t_sql_int(user, "SELECT count(*) FROM report"), 60 + committed);
    assert_int_equal(t_sql_int(user, "SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY id) AS before FROM report) r "
                                     "WHERE token <= before"),
                     0);
    assert_true(committed > 0 && refused > 0); /* whether a takeover is told "guarded" or tries on is up to the server */
    PQfinish(user);
    guarded_end(&g);
}

/* After a takeover the old token is refused, the new one passes. */
static void test_guard_after_takeover(void **state)
{
    (void)state;
    struct guarded g;
    guarded_begin(&g);
    PGconn *user = t_connect(g.dsn);
    hf_lease *lease = take_short(g.first, "guarded", 300);
    int64_t token = hf_lease_token(lease);
    hf_lease *successor = take_over(g.second, "guarded", 10000, NULL);
    assert_string_equal(t_sqlstate(user, "SELECT holdfast.guard('default', 'guarded', %lld)", (long long)token), "HF001");
    assert_string_equal(t_sqlstate(user, "SELECT holdfast.guard('default', 'guarded', %lld)", (long long)hf_lease_token(successor)),
                        "00000");
    drop(successor);
    assert_string_equal(t_sqlstate(user, "SELECT holdfast.guard('default', 'guarded', %lld)", (long long)token + 1), "HF002");
    hf_lease_free(lease);
    PQfinish(user);
    guarded_end(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_guard_before_takeover, t_teardown),
        cmocka_unit_test_teardown(test_guard_during_takeover, t_teardown),
        cmocka_unit_test_teardown(test_guard_after_takeover, t_teardown),
        cmocka_unit_test_teardown(test_server_killed, t_teardown),
        cmocka_unit_test_teardown(test_postgres_crashes, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
