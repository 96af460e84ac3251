/*
 * standby_test.c - the harness's standbys follow, can be kept from following, make commits wait, and take over.
 */
#include "harness/standby.h"

#include <string.h>

/* Processes die here, not machines. */
static const char *const settings[] = {"fsync=off", NULL};

static int64_t count(struct t_pg *pg)
{
    PGconn *conn = t_connect(t_pg_dsn(pg));
    const int64_t n = t_sql_int(conn, "SELECT count(*) FROM t");
    PQfinish(conn);
    return n;
}

static bool has_two(void *standby)
{
    return count(standby) == 2;
}

static void a_standby_follows_until_it_is_held_and_takes_over(void **state)
{
    (void)state;
    struct t_pg *primary = t_pg_start(settings), *standby = t_standby_start(primary, "one", settings);
    PGconn *conn = t_connect(t_standby_dsn(standby, primary));
    t_sql(conn, "CREATE TABLE t AS SELECT 1 AS i");
    t_standby_catch_up(primary, "one");
    assert_int_equal(count(standby), 1);
    t_standby_hold(primary, "one");
    t_sql(conn, "INSERT INTO t VALUES (2)");
    t_pg_kill(primary);
    assert_int_equal(t_pg_pid(primary), 0);
    assert_string_not_equal(t_sqlstate(conn, "SELECT 1"), "00000");
    PQfinish(conn);
    t_standby_promote(standby);
    assert_int_equal(count(standby), 1);
    conn = t_connect(t_standby_dsn(primary, standby));
    t_sql(conn, "INSERT INTO t SELECT i + 10 FROM generate_series(1, 5) i");
    PQfinish(conn);
    assert_int_equal(count(standby), 6);
    assert_string_equal(t_pg_timeline(standby), "00000002");
    t_pg_restart(primary);
    assert_int_equal(count(primary), 2);
    assert_string_equal(t_pg_timeline(primary), "00000001");
}

static void commits_wait_for_a_synchronous_standby(void **state)
{
    (void)state;
    struct t_pg *primary = t_pg_start(settings), *standby = t_standby_start(primary, "two", settings);
    PGconn *conn = t_connect(t_pg_dsn(primary));
    t_pg_synchronous(primary, "two");
    t_sql(conn, "CREATE TABLE t AS SELECT 1 AS i");
    t_standby_catch_up(primary, "two");
    pid_t sender = t_standby_hold(primary, "two");
    assert_int_equal(PQsendQuery(conn, "INSERT INTO t VALUES (2)"), 1);
    t_sleep_ms(300);
    assert_int_equal(PQconsumeInput(conn), 1);
    assert_int_equal(PQisBusy(conn), 1);
    t_standby_let_go(sender);
    for (PGresult *result; (result = PQgetResult(conn)); PQclear(result))
        assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    t_pg_kill(primary);
    assert_true(t_wait_for(has_two, standby, 10000)); /* it is on its disk, and soon replayed */
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_standby_follows_until_it_is_held_and_takes_over, t_teardown),
        cmocka_unit_test_teardown(commits_wait_for_a_synchronous_standby, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
