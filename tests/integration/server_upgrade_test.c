/*
 * server_upgrade_test.c - servers are upgraded one by one: those of schema 1 go on working while and after a new one migrates
 * their database; a newer schema is served if it says that it may be, and left alone.
 */
#include "harness/schema_1.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schema/schema.h"
#include "store/migrate.h"

/* ------------------------------------------------------------------------------------------------ a server of schema 1 */

enum { SESSIONS = 4, RESOURCES = 7 };

/* One session of it, in a thread: acquires, writes, renews, releases, again and again. */
struct old_server {
    int number;
    PGconn *conn;
    pthread_t thread;
    atomic_bool stop;
    atomic_long cycles;
    long longest_ms;
    char error[512];
};

/* The value in this column of the one row that the statement gives; NULL: `error` is set. Valid until the next call. */
static const char *execute(struct old_server *old, const char *name, int column, const char *const *params, int n)
{
    static _Thread_local char value[256];
    PGresult *res = PQexecPrepared(old->conn, name, n, params, NULL, NULL, 0);
    bool ok = PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1;
    if (ok)
        snprintf(value, sizeof(value), "%s", PQgetvalue(res, 0, column));
    else
        snprintf(old->error, sizeof(old->error), "%s: %d rows: %s", name, PQntuples(res), PQresultErrorMessage(res));
    PQclear(res);
    return ok ? value : NULL;
}

static bool gives(struct old_server *old, const char *name, int column, const char *wanted, const char *const *params, int n)
{
    const char *value = execute(old, name, column, params, n);
    if (value && strcmp(value, wanted) != 0)
        snprintf(old->error, sizeof(old->error), "%s: %s instead of %s", name, value, wanted);
    return value && strcmp(value, wanted) == 0;
}

#define PARAMS(...) (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Overtaken by the clock, on a busy machine, it is tried again in the careful form: as servers do. */
static bool renews(struct old_server *old, const char *resource, const char *token)
{
    if (gives(old, "renew", 1, "10", PARAMS("{default}", resource, token, "{60000}", "false")))
        return true;
    if (!strstr(old->error, "too long to be sure"))
        return false;
    old->error[0] = '\0';
    return gives(old, "renew", 1, "10", PARAMS("{default}", resource, token, "{60000}", "true"));
}

static bool cycle(struct old_server *old, long i)
{
    char resource[32], id[32], token[32], seq[32];
    snprintf(resource, sizeof(resource), "{r%d/%ld}", old->number, i % RESOURCES);
    snprintf(id, sizeof(id), "{id%d/%ld}", old->number, i);
    snprintf(seq, sizeof(seq), "{%ld}", i + 1);
    const char *got = execute(old, "acquire", 2, PARAMS("{default}", resource, "{t}", "{old}", "{60000}", id, "{NULL}"));
    if (!got)
        return false;
    snprintf(token, sizeof(token), "{%s}", got);
    return gives(old, "acquire", 1, "2", PARAMS("{default}", resource, "{t}", "{old}", "{60000}", id, "{NULL}")) &&
           gives(old, "write", 1, "30", PARAMS("{default}", resource, token, seq, "{\\\\x6f6c64}", "{NULL}")) &&
           renews(old, resource, token) && gives(old, "check", 1, "40", PARAMS("{default}", resource, token)) &&
           gives(old, "read", 2, "\\x6f6c64", PARAMS("{default}", resource)) &&
           gives(old, "get", 4, "old", PARAMS("{default}", resource)) &&
           gives(old, "release", 1, "20", PARAMS("{default}", resource, token));
}

static void *work(void *arg)
{
    struct old_server *old = arg;
    for (long i = 0; !atomic_load(&old->stop); i++) {
        int64_t begun = t_now_ms();
        if (!cycle(old, i))
            break;
        if (t_now_ms() - begun > old->longest_ms)
            old->longest_ms = (long)(t_now_ms() - begun);
        atomic_fetch_add(&old->cycles, 1);
    }
    return NULL;
}

static bool has_cycled(void *arg)
{
    const struct old_server *old = arg;
    return atomic_load(&old->cycles) >= 50 || old->error[0];
}

static void wait_for_cycles(struct old_server *old)
{
    atomic_store(&old->cycles, 0);
    if (!t_wait_for(has_cycled, old, 30000))
        fail_msg("a server of schema 1 does not get on");
    if (old->error[0])
        fail_msg("a server of schema 1: %s", old->error);
}

static void old_prepare(struct old_server *old, const char *dsn)
{
    *old = (struct old_server){.conn = t_connect(dsn)};
    t_sql(old->conn, "SELECT set_config('plan_cache_mode', 'force_generic_plan', false)");
    t_prepare_schema_1(old->conn);
}

static void old_start(struct old_server *old, const char *dsn, int number)
{
    old_prepare(old, dsn);
    old->number = number;
    assert_int_equal(pthread_create(&old->thread, NULL, work, old), 0);
    wait_for_cycles(old);
}

static void old_stop(struct old_server *old)
{
    atomic_store(&old->stop, true);
    pthread_join(old->thread, NULL);
    if (old->error[0])
        fail_msg("a server of schema 1: %s", old->error);
    PQfinish(old->conn);
}

/* A database of schema 1 that somebody has worked on: `kept` is held under token 2 and has a value. */
static char *old_database(void)
{
    char *dsn = t_database_of_schema_1();
    struct old_server old;
    old_prepare(&old, dsn);
    for (int i = 1; i <= 2; i++) {
        const char *id = t_printf("{kept%d}", i);
        assert_true(gives(&old, "acquire", 2, i == 1 ? "1" : "2",
                          PARAMS("{default}", "{kept}", "{task}", "{owner}", "{3600000}", id, "{\"{\\\"a\\\": \\\"b\\\"}\"}")));
        if (i == 1)
            assert_true(gives(&old, "release", 1, "20", PARAMS("{default}", "{kept}", "{1}")));
    }
    assert_true(gives(&old, "write", 1, "30", PARAMS("{default}", "{kept}", "{2}", "{1}", "{\\\\x76616c7565}", "{0}")));
    PQfinish(old.conn);
    return dsn;
}

static void assert_tokens_rise(PGconn *conn)
{
    assert_int_equal(t_sql_int(conn,
                               "SELECT count(*) FROM (SELECT token, lag(token) OVER (PARTITION BY namespace, resource ORDER BY "
                               "id) AS before FROM holdfast.audit WHERE kind IN ('grant', 'takeover')) g "
                               "WHERE token <= before"),
                     0);
}

/* ------------------------------------------------------------------------------------------------ from 1 to now */

/* Migrated while servers of schema 1 work, which then go on beside a new one. */
static void test_under_traffic(void **state)
{
    (void)state;
    char *dsn = old_database();
    struct st_migrate_report report;
    struct st_problem problem;
    struct old_server old[SESSIONS];

    for (int i = 0; i < SESSIONS; i++)
        old_start(&old[i], dsn, i);
    if (st_migrate(dsn, NULL, &report, &problem) != ST_MIGRATE_OK)
        fail_msg("%s", problem.text);
    assert_int_equal(report.version_before, 1);
    assert_int_equal(report.version, (int)hf_n_migrations);
    assert_true(report.functions_replaced);
    for (int i = 0; i < SESSIONS; i++)
        wait_for_cycles(&old[i]);

    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    for (int i = 0; i < SESSIONS; i++)
        wait_for_cycles(&old[i]);
    assert_int_equal(t_cli(server, "acquire", "new", "--ttl", "60s", NULL).status, 0);
    assert_int_equal(t_cli(server, "check", "kept", "2", NULL).status, 0); /* what was held still is */
    assert_int_equal(t_cli(server, "acquire", "kept", NULL).status, 1);
    struct t_result read = t_cli(server, "read", "kept", NULL);
    assert_int_equal(read.status, 0);
    assert_non_null(strstr(read.out, "value"));
    assert_int_equal(t_cli(server, "write", "kept", "2", "next", NULL).status, 0);
    assert_int_equal(t_cli(server, "renew", "kept", "2", NULL).status, 0);
    assert_int_equal(t_cli(server, "release", "kept", "2", NULL).status, 0);
    assert_int_equal(t_cli(server, "acquire", "kept", NULL).status, 0);

    for (int i = 0; i < SESSIONS; i++) {
        old_stop(&old[i]);
        print_message("the longest cycle of 8 statements took %ld ms\n", old[i].longest_ms);
        assert_true(old[i].longest_ms < 10000);
    }
    PGconn *conn = t_connect(dsn);
    assert_tokens_rise(conn);
    assert_string_equal(t_sql(conn, "SELECT token FROM holdfast.lease WHERE resource = 'kept'"), "3");
    PQfinish(conn);
    assert_int_equal(t_server_stop(server), 0);
}

/* What the loop above doesn't call, still in its old form. */
static void test_other_statements(void **state)
{
    (void)state;
    char *dsn = old_database();
    struct st_problem problem;
    struct old_server old;

    old_prepare(&old, dsn);
    assert_int_equal(st_migrate(dsn, NULL, NULL, &problem), ST_MIGRATE_OK);
    for (int again = 0; again < 2; again++) {
        const char *id = again ? "all2" : "all1", *ns = "default";
        const char *task = execute(&old, "list_leases", 2, PARAMS(ns, "", "", "", "", "10"));
        if (!task || strcmp(task, "task") != 0)
            fail_msg("%s", old.error);
        if (!gives(&old, "list_resources", 3, "1", PARAMS(ns, "ke", "", "10")) || !gives(&old, "stats", 0, "50", NULL, 0) ||
            !gives(&old, "advance_fences", 0, "50", PARAMS(ns, "5", "me", "why")) ||
            !gives(&old, "break", 0, "61", PARAMS(ns, "kept", "1", "me", "why")) ||
            !gives(&old, "acquire_all", 1, "1", PARAMS(ns, again ? "{x}" : "{y}", "t", "h", "60000", id, NULL)))
            fail_msg("%s", old.error);
        assert_true(t_sql_int(old.conn, "UPDATE holdfast.lease SET deadline = '-infinity', ended = 3 WHERE resource IN ('x', 'y') "
                                        "RETURNING token") > 5);
        /* And once more as a server of schema 1 that starts only now. */
        PQfinish(old.conn);
        old_prepare(&old, dsn);
    }
    PQfinish(old.conn);
}

static bool got_ready(void *arg)
{
    return strstr(t_proc_out(arg), "READY") != NULL;
}

/* Somebody's long transaction stands in the way: the new server waits for it, and those at work are not held up. */
static void test_waits_politely(void **state)
{
    (void)state;
    char *dsn = old_database();
    PGconn *slow = t_connect(dsn), *conn = t_connect(dsn);
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--listen", "tcp://127.0.0.1:0", NULL};
    struct old_server old;

    t_sql(slow, "BEGIN; SELECT count(*) FROM holdfast.resource, holdfast.namespace, holdfast.lease");
    struct t_proc *proc = t_spawn(argv, NULL);
    t_proc_expect_err(proc, "schema.waits", 20000);
    old_start(&old, dsn, 0);
    for (int i = 0; i < 3; i++)
        wait_for_cycles(&old);
    assert_string_equal(t_proc_out(proc), "");
    assert_int_equal(t_sql_int(conn, "SELECT max(version) FROM holdfast.migration"), 1);

    /* It can be told to end meanwhile. */
    t_proc_kill(proc, SIGTERM);
    assert_int_equal(t_proc_wait(proc, 15000), 0);
    assert_int_equal(t_sql_int(conn, "SELECT max(version) FROM holdfast.migration"), 1);

    proc = t_spawn(argv, NULL);
    t_proc_expect_err(proc, "schema.waits", 20000);
    t_sql(slow, "COMMIT");
    if (!t_wait_for(got_ready, proc, 30000))
        fail_msg("%s", t_proc_err(proc));
    wait_for_cycles(&old);
    old_stop(&old);
    print_message("the longest cycle of 8 statements took %ld ms\n", old.longest_ms);
    assert_int_equal(t_sql_int(conn, "SELECT max(version) FROM holdfast.migration"), (int)hf_n_migrations);
    t_proc_kill(proc, SIGTERM);
    assert_int_equal(t_proc_wait(proc, 20000), 0);
    PQfinish(slow);
    PQfinish(conn);
}

/* ------------------------------------------------------------------------------------------------ from now on */

static void test_newer(void **state)
{
    (void)state;
    char *dsn = t_database();
    int ours = (int)hf_n_migrations;
    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    PGconn *conn = t_connect(dsn);

    assert_int_equal(t_cli(server, "acquire", "a", "--ttl", "60s", NULL).status, 0);
    /* A newer server comes: it migrates and replaces functions, while ours serves. */
    t_sql(conn,
          "BEGIN; ALTER TABLE holdfast.lease ADD COLUMN of_the_future text; "
          "INSERT INTO holdfast.migration VALUES (%d, 'future', %d, now()); "
          "CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT /* of the future */ "
          "clock_timestamp()'; COMMENT ON SCHEMA holdfast IS 'Holdfast, functions of-the-future'; COMMIT",
          ours + 1, ours);
    assert_int_equal(t_cli(server, "check", "a", "1", NULL).status, 0);
    assert_int_equal(t_cli(server, "acquire", "b", NULL).status, 0);
    assert_int_equal(t_server_stop(server), 0);

    /* Ours starts again on it, and leaves the functions alone. */
    t_server_restart(server);
    assert_non_null(
        strstr(t_proc_err(server->proc), t_printf("version=%d version_before=%d functions_replaced=false", ours + 1, ours + 1)));
    assert_int_equal(t_cli(server, "check", "a", "1", NULL).status, 0);
    assert_int_equal(t_cli(server, "acquire", "c", NULL).status, 0);
    assert_int_equal(t_server_stop(server), 0);
    assert_non_null(
        strstr(t_sql(conn, "SELECT prosrc FROM pg_proc WHERE oid = 'holdfast.clock()'::regprocedure"), "of the future"));
    assert_non_null(strstr(t_sql(conn, "SELECT obj_description('holdfast'::regnamespace, 'pg_namespace')"), "of-the-future"));

    /* The one after that breaks with ours. */
    t_sql(conn, "INSERT INTO holdfast.migration VALUES (%d, 'rupture', %d, now())", ours + 2, ours + 1);
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--listen", "tcp://127.0.0.1:0", NULL};
    struct t_result result = t_run(argv, NULL, 20000);
    assert_int_equal(result.status, 2);
    assert_string_equal(result.out, "");
    if (!strstr(result.err, "rupture") || !strstr(result.err, t_printf("servers of schema version %d and above", ours + 1)) ||
        !strstr(result.err, "use a newer holdfastd"))
        fail_msg("%s", result.err);
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_under_traffic, t_teardown),
        cmocka_unit_test_teardown(test_other_statements, t_teardown),
        cmocka_unit_test_teardown(test_waits_politely, t_teardown),
        cmocka_unit_test_teardown(test_newer, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
