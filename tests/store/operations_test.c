/*
 * operations_test.c - attempts under one key: who is started, who is told what, whose result counts (P4, P8, P10).
 */
#include <inttypes.h>
#include <string.h>

#include "store/op_calls.h"
#include "store/sessions.h"
#include "store/store.h"

enum { TTL = 1000, PENDING = 1, RUNNING, SUCCEEDED, FAILED, UNKNOWN, REVIEW, CANCELLED, LOST = 3 };
enum { TRANSIENT = 1, BUSINESS = 3, CONFIG = 5 };

static void the_first_row_decides(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN");
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ts_state("55P03")); /* as the server sees it: it splits and tries again */
    t_sql(db.b, "SET lock_timeout = 0");
    ts_send_and_block(db.b, db.asker, op_begin_sql("k", "t", "p", TTL, "b"));
    t_sql(db.a, "COMMIT");
    assert_int_equal(ts_finish(db.b, 1), ST_OP_IN_PROGRESS);
    /* If the first gives up, the second is started. */
    t_sql(db.a, "BEGIN");
    assert_int_equal(op_begin(db.a, "l", "p", TTL, "a"), ST_OP_STARTED);
    ts_send_and_block(db.b, db.asker, op_begin_sql("l", "t", "p", TTL, "b"));
    t_sql(db.a, "ROLLBACK");
    assert_int_equal(ts_finish(db.b, 1), ST_OP_STARTED);
    assert_int_equal(op_begin(db.a, "l", "p", TTL, "a"), ST_OP_IN_PROGRESS);
}

static void repeats_get_what_the_first_got(void **state)
{
    (void)state;
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "a"), ST_OP_STARTED_AGAIN);
    assert_int_equal(op_number(db.a, "k", "token"), 1);
    assert_int_equal(op_number(db.a, "k", "attempts"), 1);
    assert_int_equal(op_complete(db.a, "k", 1, "done"), ST_OP_DONE);
    assert_int_equal(op_complete(db.a, "k", 1, "done"), ST_OP_DONE_AGAIN);
    assert_int_equal(op_fail(db.a, "k", 1, TRANSIENT, "no", 0), ST_OP_ILLEGAL);
    assert_int_equal(op_sending(db.a, "k", 1), ST_OP_ILLEGAL);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "a"), ST_OP_REPLAYED);
    assert_string_equal(t_sql(db.a, "SELECT convert_from(result, 'UTF8') FROM holdfast.begin_batch('{default}', '{k}', '{t}', "
                                    "ARRAY[sha256('p')], '{h}', '{1000}', '{z}', '{0}')"),
                        "done");
    /* A failure's repeat is answered from its attempt, although another one runs by now. */
    op_policy(db.a, 5, 0, 1, 1, 0);
    assert_int_equal(op_begin(db.a, "l", "p", TTL, "a"), ST_OP_STARTED);
    assert_int_equal(op_fail(db.a, "l", 2, TRANSIENT, "no", 0), ST_OP_DONE);
    set_clock(T0 + 10);
    assert_int_equal(op_begin(db.a, "l", "p", TTL, "b"), ST_OP_STARTED);
    assert_int_equal(op_fail(db.b, "l", 2, TRANSIENT, "no", 0), ST_OP_DONE_AGAIN);
    assert_int_equal(op_number(db.a, "l", "state"), RUNNING);
}

/* A key in each state. */
static void make(const char *key, int wanted)
{
    assert_int_equal(op_begin(db.a, key, "p", TTL, "a"), ST_OP_STARTED);
    const int64_t token = op_number(db.a, key, "token");
    if (wanted == PENDING)
        assert_int_equal(op_fail(db.a, key, token, TRANSIENT, "later", 60000), ST_OP_DONE);
    if (wanted == SUCCEEDED)
        assert_int_equal(op_complete(db.a, key, token, "secret"), ST_OP_DONE);
    if (wanted == FAILED)
        assert_int_equal(op_fail(db.a, key, token, BUSINESS, "secret", 0), ST_OP_DONE);
    if (wanted == UNKNOWN)
        assert_int_equal(op_unknown(db.a, key, token, "secret"), ST_OP_DONE);
    if (wanted == REVIEW || wanted == CANCELLED)
        assert_int_equal(op_fail(db.a, key, token, CONFIG, "secret", 0), ST_OP_DONE);
    if (wanted == CANCELLED)
        assert_int_equal(op_decide(db.a, key, op_number(db.a, key, "revision"), 2, 0, "me"), ST_OP_DONE);
    assert_int_equal(op_number(db.a, key, "state"), wanted);
}

#define BEGIN_TELLS                                                                                                                \
    "SELECT concat_ws('|', outcome, attempt, token, state, holder, remaining_ms, coalesce(length(result), -1), result_ref, "       \
    "error_class, "                                                                                                                \
    "message, execution_id) FROM holdfast.begin_batch('{default}', '{%s}', '{%s}', ARRAY[sha256('%s')], '{h}', '{1000}', '{z}', "  \
    "'{0}')"

static void a_conflict_comes_first_and_tells_nothing(void **state)
{
    (void)state;
    for (int s = PENDING; s <= CANCELLED; s++) {
        const char *key = t_printf("k%d", s);
        make(key, s);
        const char *before = t_sql(db.a, "SELECT o::text FROM holdfast.operation o WHERE key = '%s'", key);
        assert_int_equal(op_begin(db.b, key, "other", TTL, "a"), ST_OP_CONFLICT);
        assert_int_equal(op_begin_type(db.b, key, "u", "p", TTL, "a"), ST_OP_CONFLICT);
        assert_int_equal(op_record(db.b, key, "other", "x"), ST_OP_CONFLICT);
        assert_int_equal(op_execute(db.b, key, "other", "none", "{}"), ST_OP_CONFLICT);
        assert_string_equal(t_sql(db.b, BEGIN_TELLS, key, "t", "other"), "208|0|0|0||0|-1||0||");
        assert_string_equal(t_sql(db.a, "SELECT o::text FROM holdfast.operation o WHERE key = '%s'", key), before);
    }
    /* Also to an attempt that could be taken over. */
    op_policy(db.a, 0, 0, 0, 0, 2);
    set_clock(T0 + TTL);
    assert_int_equal(op_begin(db.b, "k2", "other", TTL, "c"), ST_OP_CONFLICT);
    assert_int_equal(op_record(db.b, "k2", "other", "x"), ST_OP_CONFLICT);
    assert_int_equal(op_begin(db.b, "k2", "p", TTL, "c"), ST_OP_STARTED);
    /* One key in two namespaces is two operations. */
    t_sql(db.a, "SELECT outcome FROM holdfast.create_namespace('n', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'me')");
    assert_int_equal(
        t_sql_int(db.a,
                  "SELECT outcome FROM holdfast.begin_batch('{n}', '{k3}', '{t}', ARRAY[sha256('q')], '{h}', '{1000}', '{z}', "
                  "'{0}')"),
        ST_OP_STARTED);
}

static void tells_each_state(void **state)
{
    static const int told[] = {[PENDING] = ST_OP_IN_PROGRESS,         [RUNNING] = ST_OP_IN_PROGRESS, [SUCCEEDED] = ST_OP_REPLAYED,
                               [FAILED] = ST_OP_REPLAYED_FAILED,      [UNKNOWN] = ST_OP_UNKNOWN,     [REVIEW] = ST_OP_REVIEW,
                               [CANCELLED] = ST_OP_REPLAYED_CANCELLED};
    (void)state;
    for (int s = PENDING; s <= CANCELLED; s++) {
        const char *key = t_printf("k%d", s);
        make(key, s);
        assert_int_equal(op_begin(db.b, key, "p", TTL, "b"), told[s]);
        assert_int_equal(op_record(db.b, key, "p", "x"), told[s]);
        assert_int_equal(op_execute(db.b, key, "p", "none", "{}"), told[s]);
    }
    assert_string_equal(t_sql(db.b, BEGIN_TELLS, "k1", "t", "p"), "205|1|1|1||60000|-1||1|later|");
    assert_string_equal(t_sql(db.b, BEGIN_TELLS, "k2", "t", "p"), "205|1|2|2|holder|1000|-1||0||");
}

static void one_of_many_takes_over(void **state)
{
    (void)state;
    op_policy(db.a, 5, 0, 0, 0, 2);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    set_clock(T0 + TTL - 1);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_OP_IN_PROGRESS);
    set_clock(T0 + TTL);
    t_sql(db.a, "BEGIN");
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "c"), ST_OP_STARTED);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_BUSY);
    t_sql(db.a, "COMMIT");
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_OP_IN_PROGRESS);
    assert_int_equal(op_number(db.a, "k", "token"), 2);
    assert_int_equal(op_number(db.a, "k", "attempts"), 2);
    assert_string_equal(op_attempt(db.a, "k", 1, "outcome"), "3");
    assert_string_equal(op_attempt(db.a, "k", 2, "trigger"), "3");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(kind || ' ' || token, ',') FROM holdfast.audit WHERE operation = 'k'"),
                        "lost 1");
    /* The first owner's result comes late: refused, and kept as evidence. The second one's counts. */
    assert_int_equal(op_complete(db.b, "k", 1, "10"), ST_OP_STALE);
    assert_int_equal(op_fail(db.b, "k", 1, TRANSIENT, "too late", 0), ST_OP_STALE);
    assert_string_equal(op_attempt(db.a, "k", 1, "late_call || late_count || late_message"), "Fail2too late");
    assert_int_equal(op_renew(db.b, "k", 1, TTL), ST_TAKEN_OVER);
    assert_int_equal(op_complete(db.b, "k", 2, "20"), ST_OP_DONE);
    assert_string_equal(op_of(db.a, "k", "convert_from(result, 'UTF8')"), "20");
    assert_int_equal(op_complete(db.b, "k", 1, "10"), ST_OP_STALE);
}

static void a_takeover_waits_for_no_late_result(void **state)
{
    (void)state;
    op_policy(db.a, 5, 0, 0, 0, 2);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    /* Completed in time, not committed yet: the takeover finds it busy, and then done. */
    set_clock(T0 + TTL - 1);
    t_sql(db.a, "BEGIN");
    assert_int_equal(op_complete(db.a, "k", 1, "in time"), ST_OP_DONE);
    set_clock(T0 + TTL);
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_BUSY);
    t_sql(db.a, "COMMIT");
    assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_OP_REPLAYED);
}

static void what_was_lost_is_unknown(void **state)
{
    (void)state;
    assert_int_equal(op_begin(db.a, "silent", "p", TTL, "a"), ST_OP_STARTED); /* never marked: the policy's default */
    op_policy(db.a, 0, 0, 0, 0, 2);
    assert_int_equal(op_begin(db.a, "sent", "p", TTL, "a"), ST_OP_STARTED); /* marked: whatever the policy */
    assert_int_equal(op_sending(db.a, "sent", 2), ST_OP_DONE);
    assert_int_equal(op_sending(db.a, "sent", 2), ST_OP_DONE_AGAIN);
    t_sql(db.a, "SELECT outcome FROM holdfast.op_set_policy('default', 't', NULL, NULL, NULL, NULL, 1::int2, NULL, 'me')");
    set_clock(T0 + TTL);
    /* A result that comes now is refused although nobody has taken over; Get says what it is before anybody has noticed. */
    assert_int_equal(op_complete(db.a, "silent", 1, "late"), ST_OP_NOT_HELD);
    assert_string_equal(op_attempt(db.a, "silent", 1, "convert_from(late_result, 'UTF8')"), "late");
    assert_int_equal(op_sending(db.a, "silent", 1), ST_OP_NOT_HELD);
    assert_int_equal(op_renew(db.a, "silent", 1, TTL), ST_EXPIRED);
    assert_int_equal(op_number(db.a, "silent", "state"), RUNNING);
    assert_int_equal(t_sql_int(db.a, "SELECT state FROM holdfast.op_get_batch('{default}', '{silent}')"), UNKNOWN);
    assert_int_equal(op_begin(db.b, "silent", "p", TTL, "b"), ST_OP_UNKNOWN);
    t_sql(db.a, "SELECT outcome FROM holdfast.op_set_policy('default', 't', NULL, NULL, NULL, NULL, 2::int2, NULL, 'me')");
    assert_int_equal(op_begin(db.b, "sent", "p", TTL, "b"), ST_OP_UNKNOWN);
    assert_int_equal(op_begin(db.b, "silent", "p", TTL, "b"), ST_OP_UNKNOWN); /* and stays so */
    assert_string_equal(op_attempt(db.a, "silent", 1, "outcome"), "3");
    assert_string_equal(op_attempt(db.a, "sent", 1, "outcome"), "4");
    assert_int_equal(op_complete(db.a, "sent", 2, "late"), ST_OP_NOT_HELD);
    assert_int_equal(op_number(db.a, "sent", "state"), UNKNOWN);
}

static void renewals_keep_a_long_job(void **state)
{
    (void)state;
    op_policy(db.a, 0, 0, 0, 0, 2);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    for (int i = 1; i <= 20; i++) {
        set_clock(T0 + 250 * i);
        assert_int_equal(op_renew(db.a, "k", 1, TTL), ST_RENEWED);
        assert_int_equal(op_begin(db.b, "k", "p", TTL, "b"), ST_OP_IN_PROGRESS);
    }
    assert_int_equal(op_renew(db.a, "k", 1, 1), ST_RENEWED); /* never shortened */
    set_clock(T0 + 250 * 20 + TTL - 1);
    assert_int_equal(op_complete(db.a, "k", 1, "done"), ST_OP_DONE);
    assert_int_equal(op_number(db.a, "k", "attempts"), 1);
    assert_int_equal(op_renew(db.a, "k", 1, TTL), ST_RELEASED);
    assert_int_equal(op_renew(db.a, "k", 9, TTL), ST_UNKNOWN_TOKEN);
    assert_int_equal(op_renew(db.a, "none", 1, TTL), ST_UNKNOWN_TOKEN);
}

/* Operations begun and done, in batches as a server sends them; then what autovacuum does. */
static void finish_many(int from, int n)
{
    for (int at = from; at < from + n; at += 200) {
        t_sql(db.a,
              "SELECT count(*) FROM holdfast.begin_batch(array_fill('default'::text, ARRAY[200]), "
              "(SELECT array_agg('b' || g ORDER BY 'b' || g) FROM generate_series(%d, %d) g), array_fill('t'::text, ARRAY[200]), "
              "array_fill(sha256('p'), ARRAY[200]), array_fill('h'::text, ARRAY[200]), array_fill(1000::bigint, ARRAY[200]), "
              "array_fill('r'::text, ARRAY[200]), array_fill(0::int2, ARRAY[200]))",
              at, at + 199);
        t_sql(db.a,
              "SELECT count(*) FROM (SELECT array_agg(o.key::text) k, array_agg(o.token) t FROM holdfast.operation o "
              "WHERE o.state = 2 AND o.key <> 'k') x, LATERAL holdfast.op_finish_batch(array_fill('default'::text, ARRAY[200]), "
              "x.k, x.t, array_fill(1::int2, ARRAY[200]), array_fill('x'::bytea, ARRAY[200]), array_fill(''::text, ARRAY[200]), "
              "array_fill(0::int2, ARRAY[200]), array_fill(''::text, ARRAY[200]), array_fill(''::text, ARRAY[200]), "
              "array_fill(0::bigint, ARRAY[200]), NULL, NULL, NULL, NULL, NULL)");
    }
    t_sql(db.a, "VACUUM holdfast.operation");
}

/* Entries of one of the operations' indexes, as the last vacuum counted them. */
static int64_t entries_of(const char *index)
{
    return t_sql_int(db.a, "SELECT reltuples::bigint FROM pg_class WHERE oid = 'holdfast.operation_%s'::regclass", index);
}

/* A renewal writes no index, and what has ended is in none of the small ones, whose room is used again. */
static void renewals_are_hot_and_indexes_stay_small(void **state)
{
    static const char *const small[] = {"due", "running", "sending", "unknown", "review", "compensating"};
    (void)state;
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    t_sql(db.a, "BEGIN");
    for (int i = 1; i <= 5; i++)
        assert_int_equal(op_renew(db.a, "k", 1, TTL + i), ST_RENEWED);
    assert_int_equal(t_sql_int(db.a, "SELECT pg_stat_get_xact_tuples_hot_updated('holdfast.operation'::regclass)"), 5);
    t_sql(db.a, "COMMIT");
    for (int i = 1; i <= 4; i++)
        finish_many(100000 * i, 2000);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.operation WHERE state = 3"), 8000);
    assert_true(entries_of("pkey") >= 8000);
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
        if (entries_of(small[i]) > 1)
            fail_msg("operation_%s has %" PRId64 " entries with one operation open", small[i], entries_of(small[i]));
    assert_int_equal(entries_of("running"), 1);
}

/* Nothing that is wrong with one item is felt by another (P9). */
static void neighbours_do_not_suffer(void **state)
{
    (void)state;
    make("done", SUCCEEDED);
    assert_string_equal(
        t_sql(db.a,
              "SELECT string_agg(outcome::text, ' ' ORDER BY i) FROM holdfast.begin_batch('{default,default,default,nowhere}', "
              "'{done,fresh,k,x}', '{t,t,t,t}', ARRAY[sha256('other'), sha256('p'), sha256('p'), sha256('p')], '{h,h,h,h}', "
              "'{1000,1000,1000,1000}', '{1,2,3,4}', '{0,0,0,0}')"),
        "208 200 200 90");
    t_sql(db.b, "BEGIN; SELECT FROM holdfast.operation WHERE key = 'fresh' FOR UPDATE");
    assert_string_equal(
        t_sql(db.a, "SELECT string_agg(outcome::text, ' ' ORDER BY i) FROM holdfast.op_finish_batch('{default,default,default}', "
                    "'{fresh,k,none}', '{2,3,1}', '{1,1,1}', '{NULL,NULL,NULL}', '{NULL,NULL,NULL}', '{0,0,0}', "
                    "'{NULL,NULL,NULL}', '{NULL,NULL,NULL}', '{0,0,0}', NULL, NULL, NULL, NULL, NULL)"),
        "5 210 216");
    t_sql(db.b, "ROLLBACK");
}

/* Completion and sweep over the same rows in opposite orders: nobody waits for the other, so nobody deadlocks. */
static void sweeps_and_completions_do_not_deadlock(void **state)
{
    (void)state;
    t_sql(db.a, "SELECT outcome FROM holdfast.begin_batch(array_fill('default'::text, ARRAY[50]), "
                "(SELECT array_agg('k' || g ORDER BY 'k' || g) FROM generate_series(1, 50) g), array_fill('t'::text, ARRAY[50]), "
                "array_fill(sha256('p'), ARRAY[50]), array_fill('h'::text, ARRAY[50]), array_fill(1000::bigint, ARRAY[50]), "
                "array_fill('r'::text, ARRAY[50]), array_fill(0::int2, ARRAY[50]))");
    t_sql(db.a, "BEGIN; SELECT FROM holdfast.op_lock('{default}', '{k9}', '{t}')");
    set_clock(T0 + TTL);
    t_sql(db.b, "BEGIN");
    assert_int_equal(t_sql_int(db.b, "SELECT holdfast.op_sweep(100)"), 49);
    assert_int_equal(op_begin(db.a, "k1", "p", TTL, "x"), ST_BUSY);
    assert_int_equal(t_sql_int(db.b, "SELECT holdfast.op_sweep(100)"), 0);
    t_sql(db.b, "COMMIT");
    t_sql(db.a, "COMMIT");
    assert_int_equal(t_sql_int(db.b, "SELECT holdfast.op_sweep(100)"), 1);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.operation WHERE state = 5"), 50);
}

static void a_changed_database_ends_attempts(void **state)
{
    (void)state;
    t_sql(db.a, "SELECT holdfast.attach()");
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "a"), ST_OP_STARTED);
    t_sql(db.a, "UPDATE holdfast.identity SET timeline = '000000FF'");
    assert_string_equal(t_sql(db.b, "SELECT holdfast.attach()"), "t");
    assert_int_equal(op_renew(db.a, "k", 1, TTL), ST_BROKEN);
    assert_int_equal(op_complete(db.a, "k", 1, "late"), ST_OP_NOT_HELD);
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "b"), ST_OP_UNKNOWN);
    assert_int_equal(op_begin(db.a, "l", "p", TTL, "b"), ST_OP_STARTED);
    assert_true(op_number(db.a, "l", "token") > 1048576);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_row_decides, own_clock, closed),
        cmocka_unit_test_setup_teardown(repeats_get_what_the_first_got, own_clock, closed),
        cmocka_unit_test_setup_teardown(a_conflict_comes_first_and_tells_nothing, own_clock, closed),
        cmocka_unit_test_setup_teardown(tells_each_state, own_clock, closed),
        cmocka_unit_test_setup_teardown(one_of_many_takes_over, own_clock, closed),
        cmocka_unit_test_setup_teardown(a_takeover_waits_for_no_late_result, own_clock, closed),
        cmocka_unit_test_setup_teardown(what_was_lost_is_unknown, own_clock, closed),
        cmocka_unit_test_setup_teardown(renewals_keep_a_long_job, own_clock, closed),
        cmocka_unit_test_setup_teardown(renewals_are_hot_and_indexes_stay_small, own_clock, closed),
        cmocka_unit_test_setup_teardown(neighbours_do_not_suffer, own_clock, closed),
        cmocka_unit_test_setup_teardown(sweeps_and_completions_do_not_deadlock, own_clock, closed),
        cmocka_unit_test_setup_teardown(a_changed_database_ends_attempts, own_clock, closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
