/*
 * harness_test.c - the harness keeps what its header promises.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool gone(void *arg)
{
    return !t_alive(*(pid_t *)arg);
}

static bool path_gone(void *arg)
{
    return access(arg, F_OK) != 0;
}

static void test_database(void **state)
{
    (void)state;
    const char *one = t_database(), *two = t_database();
    PGconn *a = t_connect(one), *b = t_connect(two);
    assert_string_not_equal(t_sql(a, "SELECT current_database()"), t_sql(b, "SELECT current_database()"));
    assert_string_equal(t_sql(a, "SHOW server_encoding"), "UTF8");
    t_sql(a, "CREATE TABLE t(i int PRIMARY KEY); INSERT INTO t VALUES (%d)", 42);
    assert_int_equal(t_sql_int(a, "SELECT i FROM t"), 42);
    assert_string_equal(t_sqlstate(a, "INSERT INTO t VALUES (42)"), "23505");
    assert_string_equal(t_sqlstate(b, "SELECT * FROM t"), "42P01");
    assert_string_equal(t_sqlstate(b, "SELECT 1"), "00000");
    PQfinish(a);
    PQfinish(b);
}

static void test_cluster(void **state)
{
    (void)state;
    const char *settings[] = {"max_connections=17", NULL};
    struct t_pg *pg = t_pg_start(settings);
    PGconn *conn = t_connect(t_pg_dsn(pg));
    assert_string_equal(t_sql(conn, "SHOW max_connections"), "17");
    assert_string_equal(t_sql(conn, "SHOW fsync"), "on");
    t_sql(conn, "CREATE TABLE t AS SELECT 7 AS i");
    t_pg_stop(pg, T_PG_IMMEDIATE);
    assert_int_equal(t_pg_pid(pg), 0);
    assert_string_not_equal(t_sqlstate(conn, "SELECT 1"), "00000");
    PQfinish(conn);
    t_pg_restart(pg);
    conn = t_connect(t_pg_dsn(pg));
    assert_int_equal(t_sql_int(conn, "SELECT i FROM t"), 7);
    PQfinish(conn);
    t_pg_stop(pg, T_PG_FAST);
    t_pg_free(pg);
}

static void test_processes(void **state)
{
    (void)state;
    const char *env[] = {"COLOUR=blue", "HOME", NULL};
    struct t_spawn_opts opts = {.env = env, .cwd = "/tmp", .input = "line\n"};
    const char *argv[] = {"sh", "-c", "cat; echo $COLOUR $PWD ${HOME-none}; echo bad >&2; exit 3", NULL};
    struct t_result result = t_run(argv, &opts, T_PATIENCE_MS);
    assert_int_equal(result.status, 3);
    assert_string_equal(result.out, "line\nblue /tmp none\n");
    assert_string_equal(result.err, "bad\n");

    const char *sleeper[] = {"sleep", "100", NULL};
    struct t_proc *proc = t_spawn(sleeper, NULL);
    assert_int_equal(t_proc_wait(proc, 20), -1);
    t_proc_kill(proc, SIGTERM);
    assert_int_equal(t_proc_wait(proc, T_PATIENCE_MS), 128 + SIGTERM);
}

/* A grandchild that has left its group, session and parent is ended too. */
static void test_teardown(void **state)
{
    const char *argv[] = {"sh", "-c", "setsid sh -c 'echo $$; exec sleep 100' & sleep 100", NULL};
    struct t_proc *proc = t_spawn(argv, NULL);
    t_proc_expect_out(proc, "\n", T_PATIENCE_MS);
    pid_t grandchild = atoi(t_proc_out(proc));
    char dir[64];
    snprintf(dir, sizeof(dir), "%s", t_tmpdir());
    t_proc_kill(proc, SIGKILL);
    t_proc_wait(proc, T_PATIENCE_MS);
    assert_true(t_alive(grandchild));
    t_teardown(state);
    assert_true(t_wait_for(gone, &grandchild, T_PATIENCE_MS));
    assert_int_not_equal(access(dir, F_OK), 0);
}

/* A backend that was stopped is ended with its cluster. */
static void test_stopped_backend(void **state)
{
    struct t_pg *pg = t_pg_start(NULL);
    PGconn *conn = t_connect(t_pg_dsn(pg));
    pid_t backend = PQbackendPID(conn);
    assert_int_equal(kill(backend, SIGSTOP), 0);
    t_teardown(state);
    assert_true(t_wait_for(gone, &backend, T_PATIENCE_MS));
    PQfinish(conn);
}

/* The keeper tidies up after a program that was killed. */
static void test_keeper(void **state)
{
    (void)state;
    const char *const self[] = {t_self(), "--victim", NULL};
    const char *env[] = {"HOLDFAST_TEST_PG", NULL};
    struct t_spawn_opts opts = {.env = env};
    struct t_proc *proc = t_spawn(self, &opts);
    t_proc_expect_out(proc, "made\n", 60000);
    int sleeper = 0, postmaster = 0;
    char dir[64] = "";
    assert_int_equal(sscanf(t_proc_out(proc), "%d %d %60s", &sleeper, &postmaster, dir), 3);
    assert_int_equal(access(dir, F_OK), 0);
    t_proc_kill(proc, SIGKILL);
    assert_true(t_wait_for(gone, &sleeper, 10000));
    assert_true(t_wait_for(gone, &postmaster, 10000));
    assert_true(t_wait_for(path_gone, dir, 10000));
}

static int victim(void)
{
    const char *sleeper[] = {"sleep", "100", NULL};
    struct t_proc *proc = t_spawn(sleeper, NULL);
    struct t_pg *pg = t_pg_start(NULL);
    printf("%d %d %s\nmade\n", (int)proc->pid, (int)t_pg_pid(pg), t_tmpdir());
    fflush(stdout);
    pause();
    return 0;
}

static void test_rest(void **state)
{
    (void)state;
    int port = t_free_port();
    assert_in_range(port, 1, 65535);
    char *file = t_printf("%s/%s", t_tmpdir(), "x");
    assert_string_equal(t_read_file(file), "");
    t_write_file(file, "text");
    assert_string_equal(t_read_file(file), "text");
    int64_t start = t_now_ms();
    pid_t self = getpid();
    assert_false(t_wait_for(gone, &self, 30));
    assert_in_range(t_now_ms() - start, 30, 5000);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--victim"))
        return victim();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_database, t_teardown),  cmocka_unit_test_teardown(test_cluster, t_teardown),
        cmocka_unit_test_teardown(test_processes, t_teardown), cmocka_unit_test_teardown(test_teardown, t_teardown),
        cmocka_unit_test_teardown(test_keeper, t_teardown),    cmocka_unit_test_teardown(test_stopped_backend, t_teardown),
        cmocka_unit_test_teardown(test_rest, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
