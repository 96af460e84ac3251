/*
 * user_operations_test.c - begin_operation, complete_operation and emit in users' own transactions: the experiments of the papers
 * with a debit, in the SQL of client/examples/debit.sql as it is written there.
 */
#include <inttypes.h>
#include <string.h>

#include "store/op_calls.h"
#include "store/sessions.h"
#include "store/store.h"

#define DEBIT "SELECT debit('%s', 'alice', %d)"
#define BEGIN "SELECT outcome FROM holdfast.begin_operation('default', '%s', 'move', sha256('%s'), 'me', 1000)"

/* Two users with the example's tables; whatever their wait for each other, it ends. */
static int with_accounts(void **state)
{
    own_clock(state);
    t_sql(db.a, "SET lock_timeout = '20s'");
    t_sql(db.b, "SET lock_timeout = '20s'");
    t_sql(db.a, "%s", t_read_file(T_SOURCE_DIR "/client/examples/debit.sql"));
    return 0;
}

/* "balance rows events": what stands. */
static char *stands(void)
{
    return t_sql(db.asker, "SELECT concat_ws(' ', (SELECT balance FROM account), (SELECT count(*) FROM ledger), "
                           "(SELECT count(*) FROM holdfast.outbox))");
}

/* The first value that the session's query gives, or its SQLSTATE; it was sent by ts_send_and_block. */
static char *answer(PGconn *conn)
{
    char *told = NULL;
    PGresult *result;
    while ((result = PQgetResult(conn)) != NULL) {
        if (!told)
            told = t_printf("%s", PQresultStatus(result) == PGRES_TUPLES_OK ? PQgetvalue(result, 0, 0)
                                                                            : PQresultErrorField(result, PG_DIAG_SQLSTATE));
        PQclear(result);
    }
    return told;
}

/* Two at once: the second waits on the row of the first, which pg_stat_activity and the locks show, and is told its result. */
static void of_two_debits_one_is_applied(void **state)
{
    (void)state;
    assert_string_equal(t_sql(db.a, "BEGIN; " DEBIT, "d1", 100), "APPLIED 900");
    ts_send_and_block(db.b, db.asker, t_printf(DEBIT, "d1", 100));
    assert_int_equal(t_sql_int(db.asker, "SELECT (pg_blocking_pids(%d))[1]", PQbackendPID(db.b)), PQbackendPID(db.a));
    assert_string_equal(t_sql(db.asker, "SELECT wait_event FROM pg_stat_activity WHERE pid = %d", PQbackendPID(db.b)),
                        "transactionid");
    assert_string_equal(stands(), "1000 0 0");
    t_sql(db.a, "COMMIT");
    assert_string_equal(answer(db.b), "REPLAY 900");
    assert_string_equal(stands(), "900 1 1");
    assert_string_equal(t_sql(db.a, "SELECT concat_ws(' ', aggregatetype, aggregateid, type, operation) FROM holdfast.outbox"),
                        "account alice debited d1");
    assert_string_equal(op_of(db.a, "d1", "state"), "3");
}

static void of_two_debits_the_second_is_applied_if_the_first_rolls_back(void **state)
{
    (void)state;
    assert_string_equal(t_sql(db.a, "BEGIN; " DEBIT, "d1", 100), "APPLIED 900");
    ts_send_and_block(db.b, db.asker, t_printf(DEBIT, "d1", 100));
    t_sql(db.a, "ROLLBACK");
    assert_string_equal(answer(db.b), "APPLIED 900");
    assert_string_equal(stands(), "900 1 1");
    assert_string_equal(t_sql(db.a, DEBIT, "d1", 100), "REPLAY 900");
    assert_string_equal(stands(), "900 1 1");
}

static void other_parameters_conflict(void **state)
{
    (void)state;
    assert_string_equal(t_sql(db.a, DEBIT, "d1", 100), "APPLIED 900");
    assert_string_equal(t_sql(db.a, DEBIT, "d1", 101), "CONFLICT");
    /* Also with one that is under way; and nothing of it is told. */
    t_sql(db.a, "BEGIN; " DEBIT, "d2", 100);
    ts_send_and_block(db.b, db.asker, t_printf(DEBIT, "d2", 101));
    t_sql(db.a, "COMMIT");
    assert_string_equal(answer(db.b), "CONFLICT");
    assert_string_equal(t_sql(db.a,
                              "SELECT concat_ws(' ', outcome, attempt, token, result, message, holder_now, remaining_ms) FROM "
                              "holdfast.begin_operation('default', 'd1', 'debit', sha256('other'))"),
                        "conflict 0 0   0");
    assert_string_equal(stands(), "800 2 2");
}

static void a_raise_after_the_writes_undoes_all(void **state)
{
    (void)state;
    assert_string_equal(t_sql(db.a, DEBIT, "d1", 100), "APPLIED 900");
    assert_string_equal(
        t_sqlstate(db.a, "DO $$ BEGIN PERFORM debit('d2', 'alice', 100); RAISE EXCEPTION 'after the writes'; END $$"), "P0001");
    assert_string_equal(stands(), "900 1 1");
    assert_string_equal(op_of(db.a, "d2", "count(*)"), "0");
    assert_string_equal(t_sql(db.a, DEBIT, "d2", 100), "APPLIED 800");
    assert_string_equal(t_sqlstate(db.a, DEBIT, "d3", 5000), "P0001");
    /* A savepoint is as good as a transaction. */
    assert_string_equal(
        t_sql(db.a, "BEGIN; SAVEPOINT s; " DEBIT "; ROLLBACK TO s; " DEBIT "; COMMIT; " DEBIT, "d3", 100, "d3", 200, "d3", 200),
        "REPLAY 600");
    assert_string_equal(stands(), "600 3 3");
}

/* The connection is gone between the commit and its answer: whoever asks by the key gets it. */
static void a_lost_answer_is_asked_for_by_the_key(void **state)
{
    (void)state;
    PGconn *lost = t_connect(db.dsn);
    ts_set_clock(lost, T0);
    assert_int_equal(PQsendQuery(lost, t_printf(DEBIT, "d1", 100)), 1);
    ts_finish(lost, 0); /* thrown away */
    PQfinish(lost);
    assert_string_equal(t_sql(db.a, DEBIT, "d1", 100), "REPLAY 900");
    assert_string_equal(stands(), "900 1 1");
}

/* An attempt that was committed before the work is taken over when its lease is over: what the old owner writes does not count. */
static void a_lease_that_ran_out_is_taken_over(void **state)
{
    (void)state;
    t_sql(db.a, "CREATE TABLE value (x int, token bigint); INSERT INTO value VALUES (0, 0); "
                "SELECT holdfast.op_set_policy('default', 'move', NULL, NULL, NULL, NULL, 2::smallint, NULL, 'me')");
    assert_string_equal(t_sql(db.a, BEGIN, "m", "p"), "started");
    int64_t first = op_number(db.a, "m", "token");
    assert_string_equal(t_sql(db.b, BEGIN, "m", "p"), "in_progress");
    set_clock(T0 + 1001);
    assert_string_equal(t_sql(db.b, BEGIN, "m", "p"), "started");
    int64_t second = op_number(db.a, "m", "token");
    assert_true(second > first);
    assert_string_equal(op_attempt(db.a, "m", 1, "outcome"), "3");
    for (int k = 0; k < 2; k++) {
        const char *told = t_sqlstate(k ? db.b : db.a,
                                      "BEGIN; UPDATE value SET x = %d, token = %" PRId64
                                      "; SELECT holdfast.complete_operation('default', 'm', %" PRId64 ", '%d')",
                                      k ? 20 : 10, k ? second : first, k ? second : first, k ? 20 : 10);
        assert_string_equal(told, k ? "00000" : "HF001");
        t_sql(k ? db.b : db.a, "%s", k ? "COMMIT" : "ROLLBACK");
    }
    assert_int_equal(t_sql_int(db.a, "SELECT x FROM value"), 20);
    assert_string_equal(
        t_sql(db.a, "SELECT convert_from(result, 'UTF8') FROM holdfast.begin_operation('default', 'm', 'move', sha256('p'))"),
        "20");
    /* Once more is the same; a token that never was is none. */
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.complete_operation('default', 'm', %" PRId64 ", '20')", second), "00000");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.complete_operation('default', 'm', 999, '20')"), "HF002");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.complete_operation('default', 'none', 1, '20')"), "HF002");
}

/* One takes over, while another comes: it waits for the row, and then sees that it is taken. */
static void a_takeover_is_waited_for(void **state)
{
    (void)state;
    t_sql(db.a, "SELECT holdfast.op_set_policy('default', 'move', NULL, NULL, NULL, NULL, 2::smallint, NULL, 'me')");
    assert_string_equal(t_sql(db.a, BEGIN, "m", "p"), "started");
    set_clock(T0 + 1001);
    assert_string_equal(t_sql(db.a, "BEGIN; " BEGIN, "m", "p"), "started");
    ts_send_and_block(db.b, db.asker, t_printf(BEGIN, "m", "p"));
    t_sql(db.a, "COMMIT");
    assert_string_equal(answer(db.b), "in_progress");
    assert_int_equal(op_number(db.a, "m", "attempts"), 2);
}

static void what_was_debited_is_undone_once(void **state)
{
    static const char undo[] = "SELECT outcome FROM holdfast.op_compensate('default', 'd1', 'credit', '100', 'me', 'wrong order')";
    static const char credit[] =
        "DO $$ DECLARE op record; BEGIN SELECT * INTO op FROM holdfast.begin_operation('default', 'undo:d1', 'credit', (SELECT "
        "fingerprint "
        "FROM holdfast.op_compensate('default', 'd1', 'credit', '100', 'me', 'wrong order'))); IF op.outcome = 'started' THEN "
        "UPDATE account SET balance = balance + 100; "
        "PERFORM holdfast.complete_operation('default', 'undo:d1', op.token, NULL); END IF; END $$";
    (void)state;
    t_sql(db.a, DEBIT, "d1", 100);
    t_sql(db.a, DEBIT, "d2", 100);
    assert_int_equal(t_sql_int(db.a, "%s", undo), ST_OP_DONE);
    assert_int_equal(t_sql_int(db.b, "%s", undo), ST_OP_DONE_AGAIN);
    t_sql(db.a, "%s", credit);
    t_sql(db.b, "%s", credit);
    assert_string_equal(stands(), "900 2 2");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.operation WHERE compensates = 'd1' AND state = 3"), 1);
}

static void nobody_waits_longer_than_lock_timeout(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN; " DEBIT, "d1", 100);
    assert_string_equal(t_sqlstate(db.b, "SET lock_timeout = '20ms'; " DEBIT, "d1", 100), "55P03");
    t_sql(db.a, "COMMIT");
    assert_string_equal(t_sql(db.b, DEBIT, "d1", 100), "REPLAY 900");
}

static void the_commit_is_on_disk(void **state)
{
    (void)state;
    t_sql(db.a, "SET synchronous_commit = off");
    assert_string_equal(t_sql(db.a, "BEGIN; " BEGIN "; SHOW synchronous_commit", "m", "p"), "on");
    assert_string_equal(t_sql(db.a, "ROLLBACK; SHOW synchronous_commit"), "off");
    assert_string_equal(t_sql(db.a, "BEGIN; SELECT holdfast.emit('default', 'o', '1', 't', 'x'); SHOW synchronous_commit"), "on");
    t_sql(db.a, "ROLLBACK; SET synchronous_commit = remote_apply");
    assert_string_equal(t_sql(db.a, "BEGIN; " BEGIN "; SHOW synchronous_commit", "m", "p"), "remote_apply");
    t_sql(db.a, "ROLLBACK");
}

static void what_makes_no_sense_is_refused(void **state)
{
#define CALL(arguments) "SELECT holdfast.begin_operation(" arguments ")"
    static const char *const bad[][2] = {
        {CALL("'default', 'k', 't', 'short'"), "22023"},
        {CALL("'default', 'k', 't', NULL"), "22023"},
        {CALL("'default', '', 't', sha256('p')"), "22023"},
        {CALL("'default', repeat('x', 257), 't', sha256('p')"), "22023"},
        {CALL("'default', 'k' || chr(10), 't', sha256('p')"), "22023"},
        {CALL("'default', NULL, 't', sha256('p')"), "22023"},
        {CALL("'default', 'k', '', sha256('p')"), "22023"},
        {CALL("'default', 'k', 't', sha256('p'), 'me', 0"), "22023"},
        {CALL("'default', 'k', 't', sha256('p'), 'me', -1"), "22023"},
        {CALL("'default', 'k', 't', sha256('p'), 'me', 86400001"), "22023"},
        {CALL("'default', 'k', 't', sha256('p'), 'me', NULL"), "22023"},
        {CALL("'nowhere', 'k', 't', sha256('p')"), "HF002"},
        {"BEGIN ISOLATION LEVEL REPEATABLE READ; " CALL("'default', 'k', 't', sha256('p')"), "0A000"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *told = t_sqlstate(db.a, "%s", bad[i][0]);
        if (strcmp(told, bad[i][1]) != 0)
            fail_msg("%s: %s", bad[i][0], told);
    }
    t_sql(db.a, "ROLLBACK");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.operation"), 0);
}

static void asks_who_is_calling(void **state)
{
    (void)state;
    char *role = t_printf("t_user_%d", PQbackendPID(db.b));
    t_sql(db.asker, "CREATE ROLE %s LOGIN; INSERT INTO holdfast.namespace (name) VALUES ('other')", role);
    t_sql(db.b, "SET SESSION AUTHORIZATION %s", role);
    assert_string_equal(t_sqlstate(db.b, BEGIN, "m", "p"), "42501");
    t_sql(db.asker, "SELECT holdfast.allow_role('%s', 'default')", role);
    assert_string_equal(t_sql(db.b, BEGIN, "m", "p"), "started");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.emit('default', 'o', '1', 't', 'x')"), "00000");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.complete_operation('default', 'm', (SELECT 1), 'x')"), "00000");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.begin_operation('other', 'm', 'move', sha256('p'))"), "42501");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.emit('other', 'o', '1', 't', 'x')"), "42501");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.complete_operation('other', 'm', 1, 'x')"), "42501");
    /* And nothing else. */
    assert_string_equal(t_sqlstate(db.b, "SELECT * FROM holdfast.operation"), "42501");
    assert_string_equal(t_sqlstate(db.b, "SELECT holdfast.put_events(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"), "42501");
    t_sql(db.b, "RESET SESSION AUTHORIZATION");
    t_sql(db.asker, "DROP OWNED BY %s; DROP ROLE %s", role, role);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, with_accounts, closed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(of_two_debits_one_is_applied),
        TEST(of_two_debits_the_second_is_applied_if_the_first_rolls_back),
        TEST(other_parameters_conflict),
        TEST(a_raise_after_the_writes_undoes_all),
        TEST(a_lost_answer_is_asked_for_by_the_key),
        TEST(a_lease_that_ran_out_is_taken_over),
        TEST(a_takeover_is_waited_for),
        TEST(what_was_debited_is_undone_once),
        TEST(nobody_waits_longer_than_lock_timeout),
        TEST(the_commit_is_on_disk),
        TEST(what_makes_no_sense_is_refused),
        TEST(asks_who_is_calling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
