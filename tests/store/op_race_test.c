/*
 * op_race_test.c - two sessions over one operation, and copies of calls that come late (P4, P8, P9): interleavings that a wrong
 * shape of these functions gets wrong.
 */
#include <inttypes.h>
#include <string.h>

#include "store/op_calls.h"
#include "store/sessions.h"
#include "store/store.h"

enum { TTL = 1000, PENDING = 1, RUNNING, SUCCEEDED, FAILED, UNKNOWN, TRANSIENT = 1 };

/* Who only has to be told what is there does not wait for whoever is changing it. */
static void reads_wait_for_nobody(void **state)
{
    (void)state;
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    t_sql(db.a, "BEGIN");
    assert_int_equal(op_complete(db.a, "k", 1, "done"), ST_OP_DONE);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_OP_IN_PROGRESS);
    assert_int_equal(op_begin(db.b, "k", "other", TTL, "b"), ST_OP_CONFLICT);
    assert_int_equal(op_record(db.b, "k", "p", "x"), ST_OP_IN_PROGRESS);
    assert_int_equal(op_complete(db.b, "k", 1, "done"), ST_BUSY);
    assert_int_equal(op_renew(db.b, "k", 1, TTL), ST_BUSY);
    t_sql(db.a, "ROLLBACK");
    assert_int_equal(op_complete(db.b, "k", 1, "done"), ST_OP_DONE);
    /* Nor does it cost a token to be told. */
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "c"), ST_OP_REPLAYED);
    assert_int_equal(op_begin(db.b, "l", "p", TTL, "c"), ST_OP_STARTED);
    assert_int_equal(op_number(db.a, "l", "token"), 2);
}

/* Of two that take over at once, nothing arranged, one is started each time, with a higher token. */
static void one_takeover_at_a_time(void **state)
{
    enum { ROUNDS = 150 };
    PGconn *const both[] = {db.a, db.b};
    int64_t last = 0;
    (void)state;
    op_policy(db.a, 1000, 86400000, 1, 1, 2);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "first"), ST_OP_STARTED);
    for (int round = 1; round <= ROUNDS; round++) {
        int started = 0;
        set_clock(T0 + (int64_t)round * TTL);
        for (int i = 0; i < 2; i++)
            assert_true(PQsendQuery(both[i], op_begin_sql("k", "t", "p", TTL, t_printf("%d-%d", round, i))));
        for (int i = 0; i < 2; i++) {
            int64_t got = ts_finish(both[i], 1);
            assert_true(got == ST_OP_STARTED || got == ST_OP_IN_PROGRESS || got == ST_BUSY);
            started += got == ST_OP_STARTED;
        }
        assert_int_equal(started, 1);
        assert_true(op_number(db.a, "k", "token") > last);
        last = op_number(db.a, "k", "token");
    }
    assert_int_equal(op_number(db.a, "k", "attempts"), ROUNDS + 1);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.attempt WHERE outcome = 3"), ROUNDS);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.audit_list('default', '', 'k', 0, 1000) WHERE kind = 'lost'"),
                     ROUNDS);
}

/* The owner's result and the takeover at the same moment: one of them counts, and the other is told so. */
static void a_result_or_a_takeover(void **state)
{
    enum { ROUNDS = 100 };
    int results = 0, takeovers = 0;
    (void)state;
    op_policy(db.a, 1000, 86400000, 1, 1, 2);
    for (int round = 0; round < ROUNDS; round++) {
        const char *key = t_printf("k%d", round);
        set_clock(T0);
        assert_int_equal(op_begin(db.a, key, "p", TTL, "a"), ST_OP_STARTED);
        int64_t token = op_number(db.a, key, "token");
        ts_set_clock(db.a, T0 + TTL - 1); /* the owner's clock says that it is still in time, the other's that it is not */
        ts_set_clock(db.b, T0 + TTL);
        PGconn *first = round % 2 ? db.a : db.b, *second = round % 2 ? db.b : db.a;
        const char *const complete = op_finish_sql(key, token, 1, "r", 0, NULL, 0), *const begin =
                                                                                        op_begin_sql(key, "t", "p", TTL, "b");
        assert_true(PQsendQuery(first, first == db.a ? complete : begin));
        assert_true(PQsendQuery(second, second == db.a ? complete : begin));
        int64_t ended = ts_finish(db.a, 1), begun = ts_finish(db.b, 1);
        if (ended == ST_OP_DONE) {
            assert_true(begun == ST_BUSY || begun == ST_OP_REPLAYED);
            results++;
        } else {
            assert_int_equal(begun, ST_OP_STARTED);
            assert_true(ended == ST_BUSY || ended == ST_OP_STALE);
            takeovers++;
        }
    }
    printf("%d results, %d takeovers\n", results, takeovers);
}

/* A begin that comes a second time after its attempt has ended starts no other one, which nobody would know of. */
static void a_late_copy_starts_nothing(void **state)
{
    (void)state;
    op_policy(db.a, 10, 0, 1, 1, 2);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    assert_int_equal(op_fail(db.a, "k", 1, TRANSIENT, "no", 0), ST_OP_DONE);
    set_clock(T0 + 10);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "a"), ST_OP_IN_PROGRESS);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_OP_STARTED);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_IN_PROGRESS);
    /* Once its attempt was lost, its caller may come again: that is how a lost answer is found out about. */
    set_clock(T0 + 10 + TTL);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.op_sweep(10)"), 1);
    assert_int_equal(op_number(db.a, "k", "state"), PENDING);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_OP_STARTED);
    assert_string_equal(op_attempt(db.a, "k", 3, "trigger"), "3");
    /* Callers without an id are no copies of each other. */
    assert_int_equal(op_begin(db.a, "l", "p", TTL, ""), ST_OP_STARTED);
    assert_int_equal(op_begin(db.b, "l", "p", TTL, ""), ST_OP_IN_PROGRESS);
}

#define TELLS "SELECT concat_ws('|', outcome, state, revision, due_ms) FROM (%s) f"

/* Whatever has happened since. */
static void repeats_of_an_end_are_answered_as_it_was(void **state)
{
    (void)state;
    op_policy(db.a, 10, 0, 1, 1, 2);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    const char *fail = op_finish_sql("k", 1, 2, NULL, TRANSIENT, "no", 500);
    assert_string_equal(t_sql(db.a, TELLS, fail), "210|1|2|500");
    set_clock(T0 + 100);
    assert_string_equal(t_sql(db.b, TELLS, fail), "211|1|2|400");
    set_clock(T0 + 500);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "b"), ST_OP_STARTED);
    assert_string_equal(t_sql(db.b, TELLS, fail), "211|1|2|0");
    const char *complete = op_finish_sql("k", 2, 1, "r", 0, NULL, 0);
    assert_string_equal(t_sql(db.a, TELLS, complete), "210|3|4|0");
    assert_string_equal(t_sql(db.b, TELLS, complete), "211|3|4|0");
    assert_string_equal(t_sql(db.b, TELLS, fail), "211|1|2|0");
    /* With another result it is no repeat. */
    assert_int_equal(op_complete(db.b, "k", 2, "s"), ST_OP_ILLEGAL);
    assert_string_equal(op_of(db.a, "k", "convert_from(result, 'UTF8')"), "r");
    /* A class that nobody knows is tried again within the budget, not for ever. */
    op_policy(db.a, 1, 0, 1, 1, 2);
    assert_int_equal(op_begin(db.a, "l", "p", TTL, "a"), ST_OP_STARTED);
    assert_string_equal(t_sql(db.a, TELLS, op_finish_sql("l", 3, 2, NULL, 9, "?", 0)), "210|6|2|0");
}

static void a_settled_loss_is_told_as_what_it_was(void **state)
{
    (void)state;
    t_sql(db.a, "SELECT holdfast.attach()");
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    t_sql(db.a, "UPDATE holdfast.identity SET timeline = '000000FF'");
    assert_string_equal(t_sql(db.b, "SELECT holdfast.attach()"), "t");
    assert_int_equal(op_begin(db.a, "l", "p", TTL, "a"), ST_OP_STARTED);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.op_sweep(10)"), 1);
    assert_int_equal(op_renew(db.a, "k", 1, TTL), ST_BROKEN);
    set_clock(T0 + TTL);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.op_sweep(10)"), 1);
    assert_int_equal(op_renew(db.a, "l", op_number(db.a, "l", "token"), TTL), ST_EXPIRED);
}

/* A row of the caller's own transaction is a replay as anybody's: events are written once. */
static void a_record_is_kept_once_in_one_transaction(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN; SAVEPOINT s");
    assert_int_equal(op_record(db.a, "k", "p", "x"), ST_OP_DONE);
    assert_int_equal(op_record(db.a, "k", "p", "x"), ST_OP_REPLAYED);
    assert_string_equal(t_sql(db.a,
                              "SELECT string_agg(outcome::text, ' ' ORDER BY i) FROM holdfast.op_record_batch("
                              "'{default,default}', '{k,l}', '{t,t}', ARRAY[sha256('p'), sha256('p')], '{x,x}', '{\"\",\"\"}', "
                              "'{1,2}', '{a,a}', '{1,1}', '{t,t}', '{x,x}')"),
                        "202 210");
    t_sql(db.a, "COMMIT");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(operation, ' ') FROM holdfast.outbox"), "l");
}

/* Of two that record a key at once one waits for the other, and is told of its record; its neighbours are made, with their events.
 */
static void a_record_that_another_was_first_with(void **state)
{
    static const char batch[] =
        "SELECT * FROM (SELECT 0, string_agg(outcome::text, '' ORDER BY i)::bigint FROM holdfast.op_record_batch("
        "'{default,default,default}', '{j,k,l}', '{t,t,t}', ARRAY[sha256('p'), sha256('p'), sha256('p')], "
        "'{x,x,x}', '{\"\",\"\",\"\"}', '{1,2,3}', '{a,a,a}', '{1,1,1}', '{t,t,t}', '{x,x,x}')) told";
    (void)state;
    for (int commits = 0; commits < 2; commits++) {
        t_sql(db.a, "BEGIN");
        assert_int_equal(op_record(db.a, "k", "p", "first"), ST_OP_DONE);
        ts_send_and_block(db.b, db.asker, batch);
        t_sql(db.a, commits ? "COMMIT" : "ROLLBACK");
        assert_int_equal(ts_finish(db.b, 1), commits ? 210202210 : 210);
        assert_string_equal(t_sql(db.a, "SELECT string_agg(operation, ' ' ORDER BY id) FROM holdfast.outbox"),
                            commits ? "j l" : "j k l");
        assert_string_equal(t_sql(db.a, "SELECT convert_from(result, 'UTF8') FROM holdfast.operation WHERE key = 'k'"),
                            commits ? "first" : "x");
        t_sql(db.a, "DELETE FROM holdfast.operation; DELETE FROM holdfast.outbox");
    }
}

/* The same of two that begin. */
static void a_begin_that_another_was_first_with(void **state)
{
    static const char batch[] = "SELECT 0, string_agg(outcome::text, '' ORDER BY i)::bigint FROM holdfast.begin_batch("
                                "'{default,default,default}', '{j,k,l}', '{t,t,t}', ARRAY[sha256('p'), sha256('p'), sha256('p')], "
                                "'{h,h,h}', '{1000,1000,1000}', '{x,y,z}', '{1,1,1}')";
    (void)state;
    for (int commits = 0; commits < 2; commits++) {
        t_sql(db.a, "BEGIN");
        assert_int_equal(op_begin(db.a, "k", "p", TTL, "first"), ST_OP_STARTED);
        ts_send_and_block(db.b, db.asker, batch);
        t_sql(db.a, commits ? "COMMIT" : "ROLLBACK");
        assert_int_equal(ts_finish(db.b, 1), commits ? 200205200 : 200200200);
        assert_string_equal(t_sql(db.a,
                                  "SELECT string_agg(o.key || ' ' || o.request_id, ', ' ORDER BY o.key) FROM holdfast.operation o "
                                  "JOIN holdfast.attempt a USING (namespace, key, token)"),
                            commits ? "j x, k first, l z" : "j x, k y, l z");
        t_sql(db.a, "DELETE FROM holdfast.operation; DELETE FROM holdfast.attempt");
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, own_clock, closed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_wait_for_nobody),
        TEST(one_takeover_at_a_time),
        TEST(a_result_or_a_takeover),
        TEST(a_late_copy_starts_nothing),
        TEST(repeats_of_an_end_are_answered_as_it_was),
        TEST(a_settled_loss_is_told_as_what_it_was),
        TEST(a_record_is_kept_once_in_one_transaction),
        TEST(a_record_that_another_was_first_with),
        TEST(a_begin_that_another_was_first_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
