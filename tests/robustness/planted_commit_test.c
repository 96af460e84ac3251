/*
 * planted_commit_test.c - an acknowledged commit that was not on disk when PostgreSQL crashed: the oracle must see it (planted.h).
 */
#include "harness/harness.h"

#include <signal.h>

#include "robustness/planted.h"

static void open_own_cluster(struct planted_world *w)
{
    const char *const settings[] = {"wal_writer_delay=10s", "autovacuum=off", NULL};
    struct t_pg *pg = t_pg_start(settings);
    w->own = pg;
    w->dsn = t_printf("%s", t_pg_dsn(pg));
}

static void close_cluster(struct planted_world *w)
{
    t_pg_free(w->own);
}

/* A is granted and writes; PostgreSQL crashes; B asks for the resource. Meanwhile the log is written by nobody but those who wait
 * for their commit: the process that does it beside them is stopped, and dies before anything else. */
static void play_crash(struct planted_world *w)
{
    const pid_t writer = (pid_t)t_sql_int(w->conn, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
    assert_true(writer > 0 && kill(writer, SIGSTOP) == 0);
    const int64_t t1 = planted_acquire(&w->a, PLANTED_LONG);
    const struct history_call written = worker_write(&w->a, PLANTED_RESOURCE, t1, 1, "a1", -1);
    assert_ok(&written);
    assert_true(kill(writer, SIGQUIT) == 0 && kill(writer, SIGCONT) == 0);
    t_pg_stop(w->own, T_PG_IMMEDIATE);
    PQfinish(w->conn);
    t_pg_restart(w->own);
    w->conn = t_connect(w->dsn);
    const struct history_call read = worker_read(&w->c, PLANTED_RESOURCE);
    assert_int_not_equal(read.answer, HISTORY_UNKNOWN);
    worker_acquire(&w->b, PLANTED_RESOURCE, PLANTED_LONG, "b");
}

static void a_lost_commit(void **state)
{
    (void)state;
    const char *right = "t := holdfast.clock();",
               *wrong = "PERFORM set_config('synchronous_commit', 'off', true); t := holdfast.clock();";
    planted_play(&(struct planted_fault){
        .name = "a lost commit: synchronous_commit off and an immediate stop",
        .texts = {{"acquire_batch", right, wrong}, {"write_batch", right, wrong}},
        .play = play_crash,
        .calls = "one token was given to two requests",
        .agrees = "that was acknowledged is not in the trail",
        .open = open_own_cluster,
        .close = close_cluster,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
