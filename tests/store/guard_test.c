/*
 * guard_test.c - guard() inside a user's transaction, against the server's functions in another session (P3).
 */
#include <string.h>

#include "store/calls.h"
#include "store/store.h"

#define GUARD "SELECT holdfast.guard('default', 'r', %d)"
#define T0    INT64_C(1700000000000)

/* Three sessions: the server's, a user's, and one that looks on. */
static struct {
    PGconn *server, *user, *asker;
} db;

static void open_sessions(bool own_clock)
{
    char *dsn = ts_schema();
    db.server = ts_session(dsn);
    db.user = t_connect(dsn);
    db.asker = t_connect(dsn);
    if (own_clock)
        ts_replace_clock(db.server);
}

static void set_clock(int64_t ms)
{
    ts_set_clock(db.server, ms);
    ts_set_clock(db.user, ms);
}

/* A fresh database with a lease on `r`, token 1, of 1000 ms of our own clock. */
static int leased(void **state)
{
    (void)state;
    open_sessions(true);
    set_clock(T0);
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q1"), ST_GRANTED);
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    open_sessions(false);
    return 0;
}

static int closed(void **state)
{
    PQfinish(db.server);
    PQfinish(db.user);
    PQfinish(db.asker);
    return t_teardown(state);
}

static void guards_before_a_takeover(void **state)
{
    (void)state;
    t_sql(db.user, "BEGIN; " GUARD, 1);
    /* Everything that would end the right waits outside; the lease itself goes on. */
    assert_int_equal(ts_renew(db.server, "r", 1, 2000, false), ST_RENEWED);
    assert_int_equal(ts_write(db.server, "r", 1, "x"), ST_BUSY);
    assert_int_equal(ts_release(db.server, "r", 1), ST_BUSY);
    assert_int_equal(ts_check(db.server, "r", 1), ST_CURRENT);
    set_clock(T0 + 2001);
    int64_t started = t_now_ms();
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q2"), ST_BUSY);
    assert_int_equal(ts_acquire(db.server, "another", 1000, "q2"), ST_GRANTED);
    assert_in_range(t_now_ms() - started, 0, T_AT_ONCE_MS);
    assert_int_equal(ts_break(db.server, "r", 1), ST_BREAK_BLOCKED);
    assert_int_equal(t_sql_int(db.server, "SELECT pid FROM holdfast.break_lease('default', 'r', 1, 'me', 'why')"),
                     PQbackendPID(db.user));
    t_sql(db.user, "CREATE TABLE mine (x int); INSERT INTO mine VALUES (1); COMMIT");
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q2"), ST_GRANTED);
    assert_string_equal(t_sqlstate(db.user, GUARD, 1), "HF001");
}

static void waits_out_a_takeover(void **state)
{
    (void)state;
    set_clock(T0 + 1001);
    t_sql(db.server, "BEGIN");
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q2"), ST_GRANTED);
    /* By its own clock the user's lease still lives: only the wait can tell it. */
    ts_set_clock(db.user, T0 + 500);
    ts_send_and_block(db.user, db.asker, t_printf(GUARD, 1));
    t_sql(db.server, "COMMIT");
    assert_int_equal(ts_finish(db.user, 0), ts_state("HF001"));
}

static void goes_on_after_a_takeover_rolled_back(void **state)
{
    (void)state;
    set_clock(T0 + 1001);
    t_sql(db.server, "BEGIN");
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q2"), ST_GRANTED);
    ts_set_clock(db.user, T0 + 500);
    ts_send_and_block(db.user, db.asker, t_printf(GUARD, 1));
    t_sql(db.server, "ROLLBACK");
    assert_int_equal(ts_finish(db.user, 0), 0);
}

static void refuses_after_a_takeover(void **state)
{
    (void)state;
    set_clock(T0 + 1001);
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q2"), ST_GRANTED);
    assert_string_equal(t_sqlstate(db.user, GUARD, 1), "HF001");
    assert_string_equal(t_sqlstate(db.user, GUARD, 2), "00000");
}

static void refuses_what_is_not_held(void **state)
{
    (void)state;
    assert_string_equal(t_sqlstate(db.user, GUARD, 2), "HF002");
    assert_string_equal(t_sqlstate(db.user, "SELECT holdfast.guard('default', 'never', 1)"), "HF002");
    assert_string_equal(t_sqlstate(db.user, "SELECT holdfast.guard('nowhere', 'r', 1)"), "HF002");
    assert_int_equal(ts_release(db.server, "r", 1), ST_FREED);
    assert_string_equal(t_sqlstate(db.user, GUARD, 1), "HF002");
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q2"), ST_GRANTED);
    set_clock(T0 + 1000);
    assert_string_equal(t_sqlstate(db.user, GUARD, 2), "HF002");
    assert_int_equal(ts_break(db.server, "r", 2), ST_BREAK_DONE);
    assert_string_equal(t_sqlstate(db.user, GUARD, 2), "HF001");
}

/* The statement that waited for the lock judges by the time when it got it. */
static void refuses_a_lease_that_ran_out_while_it_waited(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.server, "r", 400, "q1"), ST_GRANTED);
    t_sql(db.server, "BEGIN; SELECT FROM holdfast.resource WHERE name = 'r' FOR UPDATE");
    ts_send_and_block(db.user, db.asker, t_printf(GUARD, 1));
    t_sleep_ms(450); /* the lease's time to live */
    t_sql(db.server, "COMMIT");
    assert_int_equal(ts_finish(db.user, 0), ts_state("HF002"));
}

static void refuses_savepoints(void **state)
{
    (void)state;
    assert_string_equal(t_sqlstate(db.user, "BEGIN; SAVEPOINT s; " GUARD, 1), "0A000");
    t_sql(db.user, "ROLLBACK");
    assert_string_equal(
        t_sqlstate(db.user,
                   "DO $$ BEGIN PERFORM holdfast.guard('default', 'r', 1); EXCEPTION WHEN division_by_zero THEN NULL; END $$"),
        "0A000");
    /* The lock of the top level stays, so asking again below it is fine. */
    t_sql(db.user, "BEGIN; " GUARD, 1);
    t_sql(db.user, "SAVEPOINT s; " GUARD, 1);
    t_sql(db.user, "ROLLBACK TO s");
    set_clock(T0 + 1001);
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q2"), ST_BUSY);
    t_sql(db.user, "COMMIT");
}

/* With a second locker the row's xmax is a multixact. */
static void refuses_savepoints_beside_another_guard(void **state)
{
    (void)state;
    ts_set_clock(db.asker, T0);
    t_sql(db.asker, "BEGIN; " GUARD, 1);
    assert_string_equal(t_sqlstate(db.user, "BEGIN; SAVEPOINT s; " GUARD, 1), "0A000");
    t_sql(db.user, "ROLLBACK");
    t_sql(db.user, "BEGIN; " GUARD, 1);
    set_clock(T0 + 1001);
    int64_t pid = t_sql_int(db.server, "SELECT pid FROM holdfast.break_lease('default', 'r', 1, 'me', 'why')");
    assert_true(pid == PQbackendPID(db.user) || pid == PQbackendPID(db.asker));
    t_sql(db.asker, "COMMIT");
    assert_int_equal(t_sql_int(db.server, "SELECT pid FROM holdfast.break_lease('default', 'r', 1, 'me', 'why')"),
                     PQbackendPID(db.user));
    t_sql(db.user, "COMMIT");
    assert_int_equal(ts_break(db.server, "r", 1), ST_BREAK_DONE);
}

static void refuses_isolation_above_read_committed(void **state)
{
    (void)state;
    assert_string_equal(t_sqlstate(db.user, "BEGIN ISOLATION LEVEL REPEATABLE READ; " GUARD, 1), "0A000");
    t_sql(db.user, "ROLLBACK");
    assert_string_equal(t_sqlstate(db.user, "BEGIN ISOLATION LEVEL SERIALIZABLE; " GUARD, 1), "0A000");
    t_sql(db.user, "ROLLBACK");
    t_sql(db.server, "SET default_transaction_isolation = 'repeatable read'");
    assert_int_equal(ts_acquire(db.server, "r", 1000, "q"), ts_state("0A000"));
    assert_int_equal(ts_write(db.server, "r", 1, "x"), ts_state("0A000"));
    assert_int_equal(ts_renew(db.server, "r", 1, 1000, false), ts_state("0A000"));
    assert_int_equal(ts_release(db.server, "r", 1), ts_state("0A000"));
    assert_int_equal(ts_break(db.server, "r", 1), ts_state("0A000"));
}

static void limits_idle_time_to_what_remains(void **state)
{
    (void)state;
    set_clock(T0 + 250);
    assert_string_equal(t_sql(db.user, "BEGIN; " GUARD "; SHOW idle_in_transaction_session_timeout", 1), "750ms");
    t_sql(db.user, "ROLLBACK");
    assert_string_equal(t_sql(db.user, "SHOW idle_in_transaction_session_timeout"), "0");
    t_sql(db.server, "UPDATE holdfast.namespace SET guard_idle_cap_ms = 300");
    assert_string_equal(t_sql(db.user, "BEGIN; " GUARD "; SHOW idle_in_transaction_session_timeout", 1), "300ms");
    t_sql(db.user, "ROLLBACK");
    t_sql(db.user, "SET idle_in_transaction_session_timeout = 200");
    assert_string_equal(t_sql(db.user, "BEGIN; " GUARD "; SHOW idle_in_transaction_session_timeout", 1), "200ms");
    t_sql(db.user, "ROLLBACK");
}

static bool is_gone(void *arg)
{
    return t_sql_int(db.asker, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d", *(int *)arg) == 0;
}

static void frees_the_resource_of_a_holder_that_stopped(void **state)
{
    (void)state;
    int pid = PQbackendPID(db.user);
    assert_int_equal(ts_acquire(db.server, "r", 300, "q1"), ST_GRANTED);
    t_sql(db.user, "BEGIN; " GUARD, 1);
    assert_int_equal(ts_acquire(db.server, "r", 300, "q2"), ST_BUSY);
    assert_true(t_wait_for(is_gone, &pid, 10000));
    assert_int_equal(ts_acquire(db.server, "r", 300, "q2"), ST_GRANTED);
    assert_string_not_equal(t_sqlstate(db.user, "COMMIT"), "00000");
}

static void asks_who_is_calling(void **state)
{
    (void)state;
    char *role = t_printf("t_guard_%d", PQbackendPID(db.user));
    t_sql(db.asker, "CREATE ROLE %s LOGIN; INSERT INTO holdfast.namespace (name) VALUES ('other')", role);
    t_sql(db.user, "SET SESSION AUTHORIZATION %s", role);
    assert_string_equal(t_sqlstate(db.user, GUARD, 1), "42501");
    t_sql(db.asker, "GRANT holdfast_user TO %s", role); /* may call it, but is mapped to nothing */
    assert_string_equal(t_sqlstate(db.user, GUARD, 1), "42501");
    t_sql(db.asker, "SELECT holdfast.allow_role('%s', 'default')", role);
    assert_string_equal(t_sqlstate(db.user, GUARD, 1), "00000");
    assert_string_equal(t_sqlstate(db.user, "SELECT holdfast.guard('other', 'r', 1)"), "42501");
    /* And nothing else of the schema. */
    assert_string_equal(t_sqlstate(db.user, "SELECT * FROM holdfast.lease"), "42501");
    assert_string_equal(t_sqlstate(db.user, "SELECT holdfast.allow_role('%s', 'other')", role), "42501");
    assert_int_equal(ts_release(db.user, "r", 1), ts_state("42501"));
    assert_string_equal(t_sqlstate(db.asker, "SELECT holdfast.allow_role('%s', 'nowhere')", role), "42704");
    assert_string_equal(t_sqlstate(db.asker, "SELECT holdfast.allow_role('no_such_role_here', 'default')"), "42704");
    t_sql(db.user, "RESET SESSION AUTHORIZATION");
    t_sql(db.asker, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

#define TEST(function, setup) cmocka_unit_test_setup_teardown(function, setup, closed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(guards_before_a_takeover, leased),
        TEST(waits_out_a_takeover, leased),
        TEST(goes_on_after_a_takeover_rolled_back, leased),
        TEST(refuses_after_a_takeover, leased),
        TEST(refuses_what_is_not_held, leased),
        TEST(refuses_a_lease_that_ran_out_while_it_waited, fresh),
        TEST(refuses_savepoints, leased),
        TEST(refuses_savepoints_beside_another_guard, leased),
        TEST(refuses_isolation_above_read_committed, leased),
        TEST(limits_idle_time_to_what_remains, leased),
        TEST(frees_the_resource_of_a_holder_that_stopped, fresh),
        TEST(asks_who_is_calling, leased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
