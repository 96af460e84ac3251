/*
 * retry_test.c - what follows a failed attempt: by its class, within a budget of attempts and of time, after a random delay; and
 * what a person decides about those that wait for one.
 */
#include <inttypes.h>
#include <string.h>

#include "store/op_calls.h"
#include "store/sessions.h"
#include "store/store.h"

enum { TTL = 1000, PENDING = 1, RUNNING, SUCCEEDED, FAILED, UNKNOWN, REVIEW, CANCELLED };
enum { TRANSIENT = 1, CONFLICT, BUSINESS, NOT_KNOWN, CONFIG, FENCED };
enum { RETRY = 1, CANCEL, RECONCILE };

/* The random numbers are this one. */
static void set_jitter(double value)
{
    t_sql(db.a, "CREATE OR REPLACE FUNCTION holdfast.jitter() RETURNS float8 LANGUAGE sql VOLATILE AS $$ SELECT %f::float8 $$",
          value);
}

static int64_t started(const char *key)
{
    static int calls;
    assert_int_equal(op_begin(db.a, key, "p", TTL, t_printf("%s-%d", key, calls++)), ST_OP_STARTED);
    return op_number(db.a, key, "token");
}

/* Milliseconds until it is due. */
static int64_t due_in(const char *key)
{
    return t_sql_int(db.a, "SELECT holdfast.ms(deadline - holdfast.clock()) FROM holdfast.operation WHERE key = '%s'", key);
}

static void the_class_says_what_follows(void **state)
{
    static const int follows[] = {[TRANSIENT] = PENDING, [CONFLICT] = PENDING, [BUSINESS] = FAILED,
                                  [NOT_KNOWN] = UNKNOWN, [CONFIG] = REVIEW,    [FENCED] = PENDING};
    (void)state;
    for (int class = TRANSIENT; class <= FENCED; class ++) {
        const char *key = t_printf("k%d", class);
        assert_int_equal(op_fail(db.a, key, started(key), class, "why", 0), ST_OP_DONE);
        assert_int_equal(op_number(db.a, key, "state"), follows[class]);
        assert_int_equal(op_number(db.a, key, "error_class"), class);
        assert_string_equal(op_of(db.a, key, "message"), "why");
        assert_string_equal(op_attempt(db.a, key, 1, "outcome"), "2");
    }
    assert_int_equal(due_in("k6"), 0); /* FENCED: another may at once */
    /* FENCED while sending: the effect may have been. */
    int64_t token = started("sent");
    assert_int_equal(op_sending(db.a, "sent", token), ST_OP_DONE);
    assert_int_equal(op_fail(db.a, "sent", token, FENCED, "lost the resource", 0), ST_OP_DONE);
    assert_int_equal(op_number(db.a, "sent", "state"), UNKNOWN);
}

static void delays_are_random_within_doubling_bounds(void **state)
{
    (void)state;
    op_policy(db.a, 20, 86400000, 100, 1500, 0);
    for (int high = 0; high <= 1; high++) {
        const char *key = high ? "high" : "low";
        int64_t now = T0 + high * 100000;
        set_jitter(high ? 0.999999 : 0);
        for (int attempt = 1; attempt <= 6; attempt++) {
            int64_t bound = 100 << (attempt - 1) < 1500 ? 100 << (attempt - 1) : 1500;
            set_clock(now);
            assert_int_equal(op_fail(db.a, key, started(key), TRANSIENT, "why", 0), ST_OP_DONE);
            assert_int_equal(due_in(key), high ? bound : 0);
            assert_int_equal(op_begin(db.b, key, "p", TTL, "early"), high ? ST_OP_IN_PROGRESS : ST_OP_STARTED);
            if (!high)
                assert_int_equal(op_fail(db.a, key, op_number(db.a, key, "token"), TRANSIENT, "why", 0), ST_OP_DONE);
            now += 1500;
        }
    }
    /* retry_after is a floor. */
    set_jitter(0);
    assert_int_equal(op_fail(db.a, "floor", started("floor"), TRANSIENT, "why", 700), ST_OP_DONE);
    assert_int_equal(due_in("floor"), 700);
    set_jitter(0.999999);
    assert_int_equal(op_fail(db.a, "above", started("above"), TRANSIENT, "why", 50), ST_OP_DONE);
    assert_int_equal(due_in("above"), 100);
}

/* Case: a retry storm. 10,000 fail within a second, and come back spread evenly over the interval. */
static void a_storm_is_spread(void **state)
{
    int64_t tenths[10];
    (void)state;
    op_policy(db.a, 5, 0, 10000, 10000, 0);
    for (int b = 0; b < 20; b++) {
        t_sql(db.a,
              "SELECT count(*) FROM holdfast.begin_batch(array_fill('default'::text, ARRAY[500]), (SELECT array_agg('s' || g ORDER "
              "BY 's' || g) "
              "FROM generate_series(%d, %d) g), array_fill('t'::text, ARRAY[500]), array_fill(sha256('p'), ARRAY[500]), "
              "array_fill('h'::text, ARRAY[500]), array_fill(60000::bigint, ARRAY[500]), array_fill('r'::text, ARRAY[500]), "
              "array_fill(0::int2, ARRAY[500]))",
              10000 + b * 500, 10499 + b * 500);
        t_sql(
            db.a,
            "SELECT count(*) FROM (SELECT array_agg(o.key::text) k, array_agg(o.token) t FROM holdfast.operation o WHERE o.state = "
            "2) x, "
            "LATERAL holdfast.op_finish_batch(array_fill('default'::text, ARRAY[500]), x.k, x.t, array_fill(2::int2, ARRAY[500]), "
            "array_fill(NULL::bytea, ARRAY[500]), array_fill(''::text, ARRAY[500]), array_fill(1::int2, ARRAY[500]), "
            "array_fill('down'::text, ARRAY[500]), array_fill('08006'::text, ARRAY[500]), array_fill(0::bigint, ARRAY[500]), NULL, "
            "NULL, "
            "NULL, NULL, NULL)");
    }
    for (int i = 0; i < 10; i++) {
        tenths[i] =
            t_sql_int(db.a,
                      "SELECT count(*) FROM holdfast.operation o WHERE o.state = 1 AND holdfast.ms(o.deadline - holdfast.clock()) "
                      "BETWEEN %d AND %d",
                      i * 1000, i * 1000 + (i == 9 ? 1000 : 999));
        assert_in_range(tenths[i], 850, 1150); /* 1,000 each is meant; 30 is the standard deviation */
    }
}

static void a_spent_budget_goes_to_review(void **state)
{
    (void)state;
    op_policy(db.a, 4, 800, 10, 150, 2); /* the paper's example */
    set_jitter(0);
    for (int attempt = 1; attempt <= 4; attempt++)
        assert_int_equal(op_fail(db.a, "k", started("k"), TRANSIENT, t_printf("failure %d", attempt), 0), ST_OP_DONE);
    assert_int_equal(op_number(db.a, "k", "state"), REVIEW);
    assert_string_equal(op_of(db.a, "k", "message"), "failure 4");
    assert_int_equal(op_begin(db.a, "k", "p", TTL, "x"), ST_OP_REVIEW);
    /* By time: the next attempt would be too late. */
    int64_t token = started("slow");
    set_clock(T0 + 790);
    assert_int_equal(op_fail(db.a, "slow", token, TRANSIENT, "the real error", 11), ST_OP_DONE);
    assert_int_equal(op_number(db.a, "slow", "state"), REVIEW);
    assert_string_equal(op_of(db.a, "slow", "message"), "the real error");
    /* By attempts that were lost: the last real error is kept. */
    assert_int_equal(
        t_sql_int(db.a, "SELECT outcome FROM holdfast.op_set_policy('default', 't', 2, 80000000, NULL, NULL, NULL, NULL, 'me')"),
        50);
    assert_int_equal(op_fail(db.a, "lost", started("lost"), TRANSIENT, "the real error", 0), ST_OP_DONE);
    started("lost");
    set_clock(T0 + 790 + TTL);
    assert_int_equal(op_begin(db.a, "lost", "p", TTL, "x"), ST_OP_REVIEW);
    assert_string_equal(op_of(db.a, "lost", "message"), "the real error");
}

/* Case: two operators retry one row at once; retry while it runs. */
static void two_operators_change_it_once(void **state)
{
    (void)state;
    assert_int_equal(op_fail(db.a, "k", started("k"), CONFIG, "no such account", 0), ST_OP_DONE);
    assert_int_equal(op_decide(db.a, "k", 1, RETRY, 0, "anna"), ST_OP_REVISION);
    t_sql(db.a, "BEGIN");
    assert_int_equal(op_decide(db.a, "k", 2, RETRY, 0, "anna"), ST_OP_DONE);
    assert_int_equal(op_decide(db.b, "k", 2, RETRY, 0, "bert"), ST_BUSY);
    t_sql(db.a, "COMMIT");
    assert_int_equal(op_decide(db.b, "k", 2, RETRY, 0, "bert"), ST_OP_REVISION);
    assert_int_equal(op_decide(db.b, "k", 2, RETRY, 0, "anna"), ST_OP_DONE_AGAIN);
    assert_int_equal(op_number(db.a, "k", "state"), PENDING);
    assert_string_equal(t_sql(db.a, "SELECT string_agg(concat_ws(' ', kind, prior, token, actor, detail), ',') FROM holdfast.audit "
                                    "WHERE operation = 'k'"),
                        "retry 2 3 anna because");
    started("k");
    assert_string_equal(op_attempt(db.a, "k", 2, "trigger"), "4");
    assert_int_equal(op_decide(db.a, "k", 4, RETRY, 0, "anna"), ST_OP_ILLEGAL);
    assert_int_equal(op_decide(db.a, "k", 4, CANCEL, 0, "anna"), ST_OP_ILLEGAL);
    assert_int_equal(op_decide(db.a, "k", 4, RECONCILE, 1, "anna"), ST_OP_ILLEGAL);
    assert_int_equal(op_decide(db.a, "none", 1, RETRY, 0, "anna"), ST_OP_NONE);
}

static void a_retry_has_a_new_budget(void **state)
{
    (void)state;
    op_policy(db.a, 2, 1000, 1, 1, 0);
    set_jitter(0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(op_fail(db.a, "k", started("k"), TRANSIENT, "why", 0), ST_OP_DONE);
    assert_int_equal(op_number(db.a, "k", "state"), REVIEW);
    set_clock(T0 + 5000);
    assert_int_equal(op_decide(db.a, "k", op_number(db.a, "k", "revision"), RETRY, 0, "anna"), ST_OP_DONE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(op_fail(db.a, "k", started("k"), TRANSIENT, "why", 0), ST_OP_DONE);
    assert_int_equal(op_number(db.a, "k", "state"), REVIEW);
    assert_int_equal(op_number(db.a, "k", "attempts"), 4);
}

static void only_reconcile_settles_what_is_unknown(void **state)
{
    static const int ends[] = {0, SUCCEEDED, FAILED, PENDING, CANCELLED};
    (void)state;
    for (int outcome = 1; outcome <= 4; outcome++) {
        const char *key = t_printf("k%d", outcome);
        assert_int_equal(op_unknown(db.a, key, started(key), "no answer"), ST_OP_DONE);
        assert_int_equal(op_decide(db.a, key, 2, RETRY, 0, "anna"), ST_OP_UNKNOWN);
        assert_int_equal(op_decide(db.a, key, 2, CANCEL, 0, "anna"), ST_OP_UNKNOWN);
        assert_int_equal(op_compensate(db.a, key, NULL), ST_OP_UNKNOWN);
        assert_int_equal(op_begin(db.a, key, "p", TTL, "x"), ST_OP_UNKNOWN);
        assert_int_equal(op_decide(db.a, key, 2, RECONCILE, outcome, "anna"), ST_OP_DONE);
        assert_int_equal(op_number(db.a, key, "state"), ends[outcome]);
        assert_int_equal(op_decide(db.a, key, 2, RECONCILE, outcome, "anna"), ST_OP_DONE_AGAIN);
        assert_int_equal(op_decide(db.a, key, 2, RECONCILE, outcome % 4 + 1, "anna"), ST_OP_REVISION);
    }
    assert_int_equal(op_begin(db.a, "k1", "p", TTL, "x"), ST_OP_REPLAYED);
    assert_string_equal(op_of(db.a, "k1", "convert_from(result, 'UTF8')"), "settled");
    assert_int_equal(op_begin(db.a, "k3", "p", TTL, "x"), ST_OP_STARTED);
}

/* Case: compensate an UNKNOWN, a PENDING, a SUCCEEDED, twice. */
static void undoes_once_what_has_succeeded(void **state)
{
    (void)state;
    assert_int_equal(op_fail(db.a, "later", started("later"), TRANSIENT, "why", 60000), ST_OP_DONE);
    assert_int_equal(op_compensate(db.a, "later", "100"), ST_OP_ILLEGAL);
    assert_int_equal(op_compensate(db.a, "none", "100"), ST_OP_NONE);
    assert_int_equal(op_complete(db.a, "k", started("k"), "paid"), ST_OP_DONE);
    t_sql(db.a, "BEGIN");
    assert_int_equal(op_compensate(db.a, "k", "100"), ST_OP_DONE);
    assert_int_equal(op_compensate(db.b, "k", "100"), ST_BUSY);
    t_sql(db.a, "COMMIT");
    assert_int_equal(op_compensate(db.b, "k", "100"), ST_OP_DONE_AGAIN);
    assert_int_equal(op_compensate(db.b, "k", "101"), ST_OP_CONFLICT);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.operation WHERE compensates = 'k'"), 1);
    assert_string_equal(op_of(db.a, "k", "compensated_by"), "undo:k");
    assert_int_equal(op_number(db.a, "undo:k", "state"), PENDING);
    /* It is begun with the fingerprint that was told, and has attempts of its own. */
    assert_int_equal(
        t_sql_int(db.a,
                  "SELECT outcome FROM holdfast.begin_batch('{default}', '{undo:k}', '{undo}', ARRAY[(SELECT fingerprint FROM "
                  "holdfast.op_compensate('default', 'k', 'undo', '100', 'me', 'because'))], '{h}', '{1000}', '{r}', '{0}')"),
        ST_OP_STARTED);
    assert_int_equal(op_number(db.a, "k", "state"), SUCCEEDED);
    /* A key too long to be prolonged. */
    const char *name = t_sql(db.a, "SELECT repeat('x', 256)");
    assert_int_equal(op_complete(db.a, name, started(name), "paid"), ST_OP_DONE);
    assert_int_equal(op_compensate(db.a, name, NULL), ST_OP_DONE);
    assert_int_equal(op_number(db.a, name, "length(compensated_by)"), 5 + 64);
}

static void retention_covers_the_retries(void **state)
{
    (void)state;
    /* Both numbers are told: what was asked for, and what is needed. */
    assert_string_equal(
        t_sql(db.a, "SELECT concat_ws(' ', outcome, retention_ms, needed_ms) FROM holdfast.op_set_policy('default', 't', NULL, "
                    "1000, NULL, 1000, NULL, 86461999, 'me')"),
        "222 86461999 86462000");
    assert_int_equal(
        t_sql_int(db.a, "SELECT outcome FROM holdfast.op_set_policy('default', 't', NULL, 1000, NULL, 1000, NULL, 86462000, 'me')"),
        50);
    assert_int_equal(
        t_sql_int(db.a, "SELECT outcome FROM holdfast.op_set_policy('default', 't', NULL, NULL, 2000, 1999, NULL, NULL, 'me')"),
        73);
    assert_int_equal(op_complete(db.a, "old", started("old"), "x"), ST_OP_DONE);
    assert_int_equal(op_complete(db.a, "undone", started("undone"), "x"), ST_OP_DONE);
    assert_int_equal(op_compensate(db.a, "undone", NULL), ST_OP_DONE);
    assert_int_equal(op_unknown(db.a, "unknown", started("unknown"), "x"), ST_OP_DONE);
    assert_int_equal(op_fail(db.a, "review", started("review"), CONFIG, "x", 0), ST_OP_DONE);
    set_clock(T0 + 86462000 - 1);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.purge_operations(100)"), 0);
    set_clock(T0 + 86462000);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.purge_operations(100)"), 1);
    assert_string_equal(t_sql(db.a, "SELECT string_agg(key, ' ' ORDER BY key) FROM holdfast.operation"),
                        "review undo:undone undone unknown");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.attempt WHERE key = 'old'"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_class_says_what_follows, own_clock, closed),
        cmocka_unit_test_setup_teardown(delays_are_random_within_doubling_bounds, own_clock, closed),
        cmocka_unit_test_setup_teardown(a_storm_is_spread, own_clock, closed),
        cmocka_unit_test_setup_teardown(a_spent_budget_goes_to_review, own_clock, closed),
        cmocka_unit_test_setup_teardown(two_operators_change_it_once, own_clock, closed),
        cmocka_unit_test_setup_teardown(a_retry_has_a_new_budget, own_clock, closed),
        cmocka_unit_test_setup_teardown(only_reconcile_settles_what_is_unknown, own_clock, closed),
        cmocka_unit_test_setup_teardown(undoes_once_what_has_succeeded, own_clock, closed),
        cmocka_unit_test_setup_teardown(retention_covers_the_retries, own_clock, closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
