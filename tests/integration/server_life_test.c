/*
 * server_life_test.c - holdfastd from READY to its end: settings, sockets, drain, and a PostgreSQL that restarts under it.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every call takes this long in the database. */
static void slow_down(const char *dsn, const char *seconds)
{
    PGconn *conn = t_connect(dsn);
    t_sql(conn,
          "CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$BEGIN PERFORM "
          "pg_sleep(%s); "
          "RETURN clock_timestamp(); END$$",
          seconds);
    PQfinish(conn);
}

static bool call_is_running(void *arg)
{
    return t_sql_int(arg,
                     "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "
                     "state = 'active' AND wait_event = 'PgSleep'") > 0;
}

static void works(const struct t_server *server, const char *resource)
{
    struct t_result result = t_cli(server, "acquire", resource, "--ttl", "1s", NULL);
    if (result.status != 0)
        fail_msg("acquire: %d: %s%s\nserver: %s", result.status, result.out, result.err, t_proc_err(server->proc));
}

static void test_ready(void **state)
{
    (void)state;
    char *path = t_printf("%s/socket", t_tmpdir()), *ipc = t_printf("ipc://%s", path);
    struct t_server *server = t_server_start("--dsn", t_database(), "--listen", "tcp://127.0.0.1:0", "--listen", ipc, NULL);
    char *out = t_proc_out(server->proc), *comma = strchr(out, ',');

    assert_int_equal(strncmp(out, "READY nng=tcp://127.0.0.1:", 26), 0);
    assert_int_not_equal(atoi(out + 26), 0); /* port 0 was replaced by the one that was picked */
    assert_string_equal(comma, t_printf(",%s\n", ipc));

    const char *const over_ipc[] = {T_HOLDFAST, "--server", ipc, "acquire", "a", NULL};
    const char *const over_tcp[] = {T_HOLDFAST, "--server", t_printf("%.*s", (int)(comma - out - 10), out + 10),
                                    "acquire",  "a",        NULL};
    assert_int_equal(t_run(over_ipc, NULL, T_PATIENCE_MS).status, 0);
    assert_int_equal(t_run(over_tcp, NULL, T_PATIENCE_MS).status, 1); /* the same store behind both: it is held */
    assert_int_equal(t_server_stop(server), 0);
}

static void test_environment(void **state)
{
    (void)state;
    static const char *const none[] = {"--listen", "tcp://127.0.0.1:0", NULL};
    const char *env[] = {t_printf("HOLDFASTD_DSN=%s", t_database()), "HOLDFASTD_LOG_FORMAT=json", "HOLDFASTD_LOG_LEVEL=debug",
                         "HOLDFASTD_CONNECTIONS=2", NULL};
    struct t_spawn_opts opts = {.env = env};
    struct t_server *server = t_server_startv(none, &opts);

    works(server, "r");
    assert_non_null(strstr(t_proc_err(server->proc), "\"event\":\"app.ready\""));
    PGconn *conn = t_connect(strchr(env[0], '=') + 1);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
                                     "pg_backend_pid() AND application_name = 'holdfastd'"),
                     2);
    PQfinish(conn);
    assert_int_equal(t_server_stop(server), 0);

    env[3] = "HOLDFASTD_CONNECTIONS=many";
    const char *const argv[] = {T_HOLDFASTD, NULL};
    struct t_result result = t_run(argv, &opts, T_PATIENCE_MS);
    assert_int_equal(result.status, 2);
    assert_non_null(strstr(result.err, "HOLDFASTD_CONNECTIONS: \"many\" is not a whole number from 1 to 64"));
}

static void test_wrong_settings(void **state)
{
    (void)state;
    const char *const remote[] = {T_HOLDFASTD, "--dsn", "host=127.0.0.1 port=1", "--listen", "tcp://0.0.0.0:0", NULL};
    const char *const unknown[] = {T_HOLDFASTD, "--htpp", "127.0.0.1:0", NULL};
    const char *const help[] = {T_HOLDFASTD, "--help", NULL}, *const version[] = {T_HOLDFASTD, "--version", NULL};
    struct t_result result = t_run(remote, NULL, T_PATIENCE_MS);

    assert_int_equal(result.status, 2);
    assert_non_null(strstr(result.err, "tcp://0.0.0.0:0"));
    result = t_run(unknown, NULL, T_PATIENCE_MS);
    assert_int_equal(result.status, 2);
    assert_non_null(strstr(result.err, "--htpp: unknown flag"));
    result = t_run(help, NULL, T_PATIENCE_MS);
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "HOLDFASTD_DATA_DIR"));
    assert_int_equal(t_run(version, NULL, T_PATIENCE_MS).status, 0);

    struct t_server *server = t_server_start("--dsn", t_database(), "--listen", "tcp://0.0.0.0:0", "--insecure", NULL);
    assert_non_null(strstr(t_proc_err(server->proc), "app.insecure"));
    assert_int_equal(t_server_stop(server), 0);
}

static void test_port_in_use(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--listen", server->url, NULL};
    struct t_result result = t_run(argv, NULL, 20000);

    if (result.status != 1 || !strstr(result.err, server->url) || !strstr(result.err, "in use") || strstr(result.out, "READY"))
        fail_msg("%d: %s", result.status, result.err);
    works(server, "r");
    assert_int_equal(t_server_stop(server), 0);
}

/* The same with a private PostgreSQL: it is not left running. */
static void test_port_in_use_leaves_nothing(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    const char *const argv[] = {T_HOLDFASTD, "--data-dir", dir, "--listen", server->url, NULL};

    assert_int_equal(t_run(argv, NULL, 60000).status, 1);
    assert_int_equal(access(t_printf("%s/pgdata/PG_VERSION", dir), F_OK), 0);
    assert_int_equal(access(t_printf("%s/pgdata/postmaster.pid", dir), F_OK), -1);
}

static void test_drain(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    PGconn *conn = t_connect(dsn);

    slow_down(dsn, "1.5");
    struct t_proc *flying = t_cli_spawn(server, "acquire", "r", "--ttl", "30s", NULL);
    assert_true(t_wait_for(call_is_running, conn, T_PATIENCE_MS));
    t_proc_kill(server->proc, SIGTERM);
    t_proc_expect_err(server->proc, "app.draining", T_PATIENCE_MS);

    /* A new call is refused and leaves no trace, the one in flight is finished. */
    const char *const late[] = {T_HOLDFAST, "--server", server->url, "--timeout", "300ms", "acquire", "late", NULL};
    assert_int_not_equal(t_run(late, NULL, T_PATIENCE_MS).status, 0);
    assert_int_equal(t_proc_wait(flying, T_PATIENCE_MS), 0);
    assert_int_equal(t_proc_wait(server->proc, T_PATIENCE_MS), 0);
    assert_non_null(strstr(t_proc_err(server->proc), "calls_in_flight=1"));
    assert_string_equal(t_sql(conn, "SELECT string_agg(resource, ',') FROM holdfast.lease"), "r");
    PQfinish(conn);
}

static void test_second_signal(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    PGconn *conn = t_connect(dsn);

    slow_down(dsn, "15");
    t_cli_spawn(server, "acquire", "r", NULL);
    assert_true(t_wait_for(call_is_running, conn, T_PATIENCE_MS));
    t_proc_kill(server->proc, SIGINT);
    t_proc_expect_err(server->proc, "app.draining", T_PATIENCE_MS);
    assert_int_equal(t_proc_wait(server->proc, 200), -1); /* it waits for the call */
    t_proc_kill(server->proc, SIGTERM);
    assert_int_equal(t_proc_wait(server->proc, T_AT_ONCE_MS), 1);
    PQfinish(conn);
}

static bool database_answers(void *arg)
{
    PGconn *conn = PQconnectdb(arg);
    bool ok = PQstatus(conn) == CONNECTION_OK;
    PQfinish(conn);
    return ok;
}

static bool acquires(void *arg)
{
    return t_cli(arg, "acquire", "after", "--ttl", "1s", NULL).status == 0;
}

static void test_postgres_restarts(void **state)
{
    (void)state;
    struct t_pg *pg = t_pg_start(NULL);
    struct t_server *server = t_server_start("--dsn", t_pg_dsn(pg), NULL);

    for (int mode = T_PG_FAST; mode <= T_PG_IMMEDIATE; mode++) {
        works(server, t_printf("before%d", mode));
        t_pg_stop(pg, (enum t_pg_mode)mode);
        const char *const argv[] = {T_HOLDFAST, "--server", server->url, "--timeout", "300ms", "acquire", "r", NULL};
        assert_int_not_equal(t_run(argv, NULL, T_PATIENCE_MS).status, 0);
        t_pg_restart(pg);
        assert_true(t_wait_for(database_answers, (void *)t_pg_dsn(pg), T_PATIENCE_MS));
        if (!t_wait_for(acquires, server, 20000))
            fail_msg("it does not serve again: %s", t_proc_err(server->proc));
    }
    assert_int_equal(t_server_stop(server), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_ready, t_teardown),
        cmocka_unit_test_teardown(test_environment, t_teardown),
        cmocka_unit_test_teardown(test_wrong_settings, t_teardown),
        cmocka_unit_test_teardown(test_port_in_use, t_teardown),
        cmocka_unit_test_teardown(test_port_in_use_leaves_nothing, t_teardown),
        cmocka_unit_test_teardown(test_drain, t_teardown),
        cmocka_unit_test_teardown(test_second_signal, t_teardown),
        cmocka_unit_test_teardown(test_postgres_restarts, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
