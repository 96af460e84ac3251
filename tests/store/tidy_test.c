/*
 * tidy_test.c - what only tidies up: the sweeper, old partitions beside traffic, and the ending of old backends.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "store/sessions.h"
#include "store/store.h"

static int64_t sweep(PGconn *conn)
{
    return t_sql_int(conn, "SELECT holdfast.sweep(1000)");
}

static int64_t audited(const char *kind)
{
    return t_sql_int(db.a, "SELECT count(*) FROM holdfast.audit WHERE kind = '%s'", kind);
}

static void wait_on(PGconn *conn, const char *resource, const char *server, int ms)
{
    t_sql(conn,
          "SELECT * FROM holdfast.acquire_batch('{default}', '{%s}', '{t}', '{h}', '{1000}', '{%s}', '{NULL}', '%s', '{t}', '{0}', "
          "'{%d}', '{0}', '{0}')",
          resource, server, server, ms);
}

/* ------------------------------------------------------------------------------------------------ sweeping */

static void sweeping_twice_tidies_once(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q"), ST_GRANTED);
    assert_int_equal(ts_acquire(db.a, "s", 5000, "q"), ST_GRANTED);
    wait_on(db.a, "r", "server1", 1500);
    t_sql(db.a, "INSERT INTO holdfast.refusal VALUES ('default', 'r', 1, now() - interval '401 days', 7), "
                "('default', 'r', 1, now() - interval '399 days', 7)");
    assert_int_equal(sweep(db.a), 1);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.refusal"), 1);
    set_clock(T0 + 1000);
    assert_int_equal(sweep(db.a), 1);
    assert_int_equal(sweep(db.a), 0);
    assert_int_equal(sweep(db.b), 0);
    assert_int_equal(audited("expire"), 1);
    assert_string_equal(t_sql(db.a, "SELECT resource || token || actor || detail FROM holdfast.audit WHERE kind = 'expire'"),
                        "r1holdertask");
    set_clock(T0 + 1500);
    assert_int_equal(sweep(db.a), 1);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.waiter"), 0);
    assert_string_equal(t_sql(db.a, "SELECT string_agg(name, '') FROM holdfast.resource WHERE waiting"), "");
    assert_int_equal(sweep(db.a), 0);
    assert_int_equal(ts_check(db.a, "s", 1), ST_CURRENT);
}

/* What was noted as expired is so for good, also if the clock steps back; and the next grant says what it followed. */
static void what_was_noted_stays_so(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q"), ST_GRANTED);
    set_clock(T0 + 1000);
    assert_int_equal(sweep(db.a), 1);
    set_clock(T0 + 500);
    assert_int_equal(ts_check(db.a, "r", 1), ST_NOT_HELD);
    assert_int_equal(ts_renew(db.a, "r", 1, 1000, false), ST_EXPIRED);
    assert_int_equal(ts_renew(db.a, "r", 1, 1000, true), ST_EXPIRED);
    assert_int_equal(ts_release(db.a, "r", 1), ST_NOT_FREED);
    assert_int_equal(ts_write(db.a, "r", 1, "x"), ST_NOT_HELD);
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q"), ST_ENDED);
    assert_int_equal(t_sql_int(db.a, "SELECT state FROM holdfast.get_batch('{default}', '{r}')"), ST_LEASE_EXPIRED);
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q2"), ST_GRANTED);
    assert_int_equal(t_sql_int(db.a, "SELECT prior FROM holdfast.audit WHERE kind = 'takeover'"), 1);
    set_clock(T0 + 2000);
    assert_int_equal(sweep(db.a), 1);
    assert_int_equal(ts_break(db.a, "r", 2), ST_BREAK_DONE);
    assert_int_equal(ts_check(db.a, "r", 2), ST_STALE);
}

static void one_sweeps_at_a_time(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q"), ST_GRANTED);
    set_clock(T0 + 1000);
    t_sql(db.a, "BEGIN");
    assert_int_equal(sweep(db.a), 1);
    assert_int_equal(sweep(db.b), 0);
    t_sql(db.a, "ROLLBACK");
    assert_int_equal(sweep(db.b), 1);
}

static void sweeping_goes_round_what_is_locked(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q"), ST_GRANTED);
    assert_int_equal(ts_acquire(db.a, "s", 1000, "q"), ST_GRANTED);
    wait_on(db.a, "r", "server1", 100);
    wait_on(db.a, "s", "server1", 100);
    set_clock(T0 + 1000);
    t_sql(db.b,
          "BEGIN; SELECT FROM holdfast.resource WHERE name = 'r' FOR SHARE; SELECT FROM holdfast.lease WHERE resource = 's' FOR "
          "NO KEY UPDATE");
    int64_t started = t_now_ms();
    assert_int_equal(sweep(db.a), 2); /* the lease of r, the waiter of s */
    assert_in_range(t_now_ms() - started, 0, 5000);
    t_sql(db.b, "COMMIT");
    assert_int_equal(sweep(db.a), 2);
    assert_int_equal(sweep(db.a), 0);
}

static void sweeping_is_bounded(void **state)
{
    (void)state;
    t_sql(db.a, "SELECT count(*) FROM holdfast.acquire_batch(array_fill('default'::text, '{50}'), ARRAY(SELECT 'k' || g FROM "
                "generate_series(1, 50) g), array_fill('t'::text, '{50}'), array_fill('h'::text, '{50}'), "
                "array_fill(100::bigint, '{50}'), array_fill('q'::text, '{50}'), array_fill(NULL::text, '{50}'))");
    set_clock(T0 + 100);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.sweep(20)"), 20);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.sweep(20)"), 20);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.sweep(20)"), 10);
    assert_int_equal(audited("expire"), 50);
}

/* ------------------------------------------------------------------------------------------------ partitions */

static void make_old_partition(const char *month, const char *next)
{
    t_sql(db.a,
          "CREATE TABLE holdfast.audit_%s (LIKE holdfast.audit INCLUDING DEFAULTS INCLUDING CONSTRAINTS); "
          "ALTER TABLE holdfast.audit ATTACH PARTITION holdfast.audit_%s FOR VALUES FROM (to_date('%s', 'YYYY_MM')) TO "
          "(to_date('%s', 'YYYY_MM')); "
          "INSERT INTO holdfast.audit (namespace, kind, token, at) VALUES ('default', 'floor', 1, to_date('%s', 'YYYY_MM'))",
          month, month, month, next, month);
}

/* Runs statement `n` (from 1) of the oldest partition; the SQLSTATE. */
static char *run_statement(PGconn *conn, int n)
{
    char *sql = t_sql(conn, "SELECT statements[%d] FROM holdfast.old_partitions() LIMIT 1", n);
    return t_sqlstate(conn, "%s", sql);
}

static char *old_partitions(void)
{
    return t_sql(db.a, "SELECT string_agg(name, ' ') FROM holdfast.old_partitions()");
}

struct traffic {
    PGconn *conn;
    bool stop;
    long calls;
    int64_t longest_ms;
    char error[128];
};

static void *cycles(void *arg)
{
    struct traffic *t = arg;
    for (long n = 0; !__atomic_load_n(&t->stop, __ATOMIC_RELAXED) && !t->error[0]; n++) {
        int64_t started = t_now_ms();
        char sql[256];
        snprintf(sql, sizeof(sql),
                 "SELECT * FROM holdfast.acquire_batch('{default}', '{busy}', '{t}', '{h}', '{1}', '{q%ld}', '{NULL}')", n);
        PGresult *result = PQexec(t->conn, sql);
        if (PQresultStatus(result) != PGRES_TUPLES_OK)
            snprintf(t->error, sizeof(t->error), "%s", PQresultErrorMessage(result));
        PQclear(result);
        if (t_now_ms() - started > t->longest_ms)
            t->longest_ms = t_now_ms() - started;
        __atomic_fetch_add(&t->calls, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static bool many_calls(void *arg)
{
    return __atomic_load_n(&((struct traffic *)arg)->calls, __ATOMIC_RELAXED) >= 50;
}

/* Made and dropped beside a server at work and a transaction that has written to the audit. */
static void partitions_go_beside_traffic(void **state)
{
    (void)state;
    struct traffic traffic = {.conn = ts_session(db.dsn)};
    pthread_t thread;
    make_old_partition("2020_01", "2020_02");
    make_old_partition("2020_02", "2020_03");
    assert_int_equal(pthread_create(&thread, NULL, cycles, &traffic), 0);
    assert_true(t_wait_for(many_calls, &traffic, 20000));
    t_sql(db.a, "SET lock_timeout = '20s'");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(run_statement(db.a, 1), "00000");
        assert_string_equal(run_statement(db.a, 1), "00000"); /* what is left to do is now the first */
    }
    assert_string_equal(old_partitions(), "");
    t_sql(db.a, "SELECT holdfast.make_partitions(6)");
    __atomic_store_n(&traffic.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    printf("%ld calls, the longest %" PRId64 " ms\n", traffic.calls, traffic.longest_ms);
    assert_string_equal(traffic.error, "");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM pg_class WHERE relname ~ '^audit_2020'"), 0);
    PQfinish(traffic.conn);
}

static void the_longest_keeping_counts(void **state)
{
    (void)state;
    make_old_partition("2020_01", "2020_02");
    assert_string_equal(old_partitions(), "audit_2020_01");
    t_sql(db.a, "SELECT holdfast.create_namespace('archive', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 36500, 'me')");
    assert_string_equal(old_partitions(), "");
    t_sql(db.a, "SELECT holdfast.set_namespace('archive', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, 'me')");
    assert_string_equal(old_partitions(), "audit_2020_01");
    /* The month that has just gone is kept as long as its last day. */
    t_sql(db.a, "UPDATE holdfast.namespace SET audit_keep_days = 40");
    char *last = t_sql(db.a, "SELECT to_char(now() AT TIME ZONE 'UTC' - interval '1 month', 'YYYY_MM')");
    make_old_partition(last, t_sql(db.a, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')"));
    assert_string_equal(old_partitions(), "audit_2020_01");
}

/* A server was killed, or gave up, half way. */
static void a_removal_is_finished_by_another(void **state)
{
    (void)state;
    make_old_partition("2020_01", "2020_02");
    t_sql(db.b, "BEGIN; SELECT count(*) FROM holdfast.audit");
    t_sql(db.a, "SET lock_timeout = '100ms'"); /* it waits for the other's transaction */
    assert_string_equal(run_statement(db.a, 1), "55P03");
    t_sql(db.b, "COMMIT");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"), 1);
    assert_non_null(strstr(t_sql(db.a, "SELECT statements[1] FROM holdfast.old_partitions()"), "FINALIZE"));
    assert_string_equal(run_statement(db.a, 1), "00000");
    assert_string_equal(old_partitions(), "audit_2020_01"); /* detached, but there */
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q"), ST_GRANTED);
    assert_string_equal(run_statement(db.a, 1), "00000");
    assert_string_equal(old_partitions(), "");
}

/* ------------------------------------------------------------------------------------------------ backends */

static char *backend_start(PGconn *conn)
{
    return t_sql(conn, "SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()");
}

static bool end_backend(PGconn *conn, int pid, const char *start)
{
    return t_sql(conn, "SELECT holdfast.end_backend(%d, '%s')", pid, start)[0] == 't';
}

static void an_old_backend_is_ended(void **state)
{
    (void)state;
    int pid = PQbackendPID(db.b);
    char *start = backend_start(db.b);
    assert_true(end_backend(db.a, pid, "2020-01-01 00:00:00+00")); /* another one of that pid: long gone */
    assert_int_equal(t_sql_int(db.b, "SELECT 1"), 1);
    t_sql(db.b, "BEGIN");
    assert_int_equal(ts_acquire(db.b, "r", 1000, "q"), ST_GRANTED);
    assert_true(end_backend(db.a, pid, start));
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q2"), ST_GRANTED); /* its lock and its work are gone with it */
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.audit"), 1);
    assert_true(end_backend(db.a, pid, start));
    assert_string_not_equal(t_sqlstate(db.b, "SELECT 1"), "00000");
}

/* In the middle of a statement, waiting for a lock. */
static void a_waiting_backend_is_ended(void **state)
{
    (void)state;
    PGconn *asker = t_connect(db.dsn);
    char *start = backend_start(db.b);
    t_sql(db.a, "BEGIN");
    assert_int_equal(ts_acquire(db.a, "r", 1000, "q"), ST_GRANTED);
    t_sql(db.b, "SET lock_timeout = 0");
    ts_send_and_block(db.b, asker,
                      "SELECT * FROM holdfast.acquire_batch('{default}', '{r}', '{t}', '{h}', '{1000}', '{b}', '{NULL}')");
    assert_true(end_backend(asker, PQbackendPID(db.b), start));
    t_sql(db.a, "COMMIT");
    assert_int_equal(ts_finish(db.b, 1), ts_state("57P01"));
    PQfinish(asker);
}

/* A stopped process cannot end: that is told, after 5 s. On a cluster of its own, for others would wait for it too. */
static void a_stopped_backend_is_not(void **state)
{
    (void)state;
    struct t_pg *pg = t_pg_start(NULL);
    ts_schema_into(t_pg_dsn(pg));
    PGconn *conn = t_connect(t_pg_dsn(pg)), *other = t_connect(t_pg_dsn(pg));
    int pid = PQbackendPID(other);
    char *start = backend_start(other);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    int64_t started = t_now_ms();
    bool ended = end_backend(conn, pid, start);
    int64_t took = t_now_ms() - started;
    kill(pid, SIGCONT);
    assert_false(ended);
    assert_in_range(took, 4900, 15000);
    assert_true(end_backend(conn, pid, start)); /* now that it goes on, it ends */
    PQfinish(conn);
    PQfinish(other);
    t_pg_free(pg);
}

/* A server's role that is neither the other's nor a superuser. */
static void a_strangers_backend_is_left(void **state)
{
    (void)state;
    char *role = t_printf("t_tidy_%d", PQbackendPID(db.b));
    int pid = PQbackendPID(db.b);
    char *start = backend_start(db.b);
    t_sql(db.a,
          "CREATE ROLE %s; GRANT USAGE ON SCHEMA holdfast TO %s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast TO %s; "
          "SET ROLE %s",
          role, role, role, role);
    assert_false(end_backend(db.a, pid, start));
    assert_string_equal(t_sql(db.a, "RESET ROLE; GRANT pg_read_all_stats TO %s; SET ROLE %s; SELECT current_user", role, role),
                        role);
    assert_false(end_backend(db.a, pid, start));
    t_sql(db.a, "RESET ROLE; DROP OWNED BY %s; DROP ROLE %s", role, role);
    assert_int_equal(t_sql_int(db.b, "SELECT 1"), 1);
}

#define TEST(function, setup) cmocka_unit_test_setup_teardown(function, setup, closed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sweeping_twice_tidies_once, own_clock), TEST(what_was_noted_stays_so, own_clock),
        TEST(one_sweeps_at_a_time, own_clock),       TEST(sweeping_goes_round_what_is_locked, own_clock),
        TEST(sweeping_is_bounded, own_clock),        TEST(partitions_go_beside_traffic, fresh),
        TEST(the_longest_keeping_counts, fresh),     TEST(a_removal_is_finished_by_another, fresh),
        TEST(an_old_backend_is_ended, fresh),        TEST(a_waiting_backend_is_ended, fresh),
        TEST(a_strangers_backend_is_left, fresh),    cmocka_unit_test_teardown(a_stopped_backend_is_not, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
