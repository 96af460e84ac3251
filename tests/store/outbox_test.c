/*
 * outbox_test.c - events: in the order of the commits within one aggregate (P6), and no deadlock between those who write many.
 */
#include <inttypes.h>
#include <string.h>

#include "store/sessions.h"

#define EMIT "SELECT holdfast.emit('default', 'order', '%s', 'paid', 'x')"

static void are_in_the_order_of_the_commits_within_an_aggregate(void **state)
{
    (void)state;
    t_sql(db.b, "SET lock_timeout = 0");
    int64_t first = t_sql_int(db.a, "BEGIN; " EMIT, "7");
    ts_send_and_block(db.b, db.asker, t_printf(EMIT, "7"));
    /* Others don't wait: neither another aggregate, nor the same name in another namespace or of another type. */
    t_sql(db.asker, "SET lock_timeout = '5s'; INSERT INTO holdfast.namespace (name) VALUES ('other')");
    assert_true(t_sql_int(db.asker, EMIT, "8") > first);
    t_sql(db.asker, "SELECT holdfast.emit('other', 'order', '7', 'paid', 'x'), holdfast.emit('default', 'cart', '7', 'paid', 'x')");
    int64_t later = t_sql_int(db.a, EMIT, "7");
    t_sql(db.a, "COMMIT");
    assert_true(ts_finish(db.b, 0) > later);
}

static void of_a_transaction_that_rolled_back_are_gone(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN; " EMIT "; ROLLBACK", "7");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.outbox"), 0);
    t_sql(db.a, EMIT, "7");
    assert_string_equal(t_sql(db.a,
                              "SELECT concat_ws(' ', aggregatetype, aggregateid, type, payload, namespace, operation IS NULL) "
                              "FROM holdfast.outbox"),
                        "order 7 paid \\x78 default t");
}

static void nobody_waits_longer_than_lock_timeout(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN; " EMIT, "7");
    int64_t began = t_now_ms();
    assert_string_equal(t_sqlstate(db.b, EMIT, "7"), "55P03"); /* the session has 20 ms */
    assert_in_range(t_now_ms() - began, 0, T_AT_ONCE_MS);
    t_sql(db.a, "COMMIT");
    assert_string_equal(t_sqlstate(db.b, EMIT, "7"), "00000");
}

/* Of the items that are allowed, in the order in which they were given. */
static void are_those_of_the_items_that_are_taken(void **state)
{
    (void)state;
    t_sql(db.a, "SELECT holdfast.put_events('{default,default,default}', '{k1,k2,k3}', '{1,2,3,3}', '{o,o,o,o}', '{7,7,7,6}', "
                "'{t1,t2,t3,t4}', '{a,b,c,d}', '{t,f,t}')");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(operation || type || convert_from(payload, 'UTF8'), ' ' ORDER BY id) "
                                    "FROM holdfast.outbox"),
                        "k1t1a k3t3c k3t4d");
}

/* Many at once, in opposite orders, over and over: the locks are taken in one order, so nobody is ever a deadlock's victim. */
static void never_deadlock(void **state)
{
    (void)state;
    enum { ROUNDS = 200 };
    static const char many[] =
        "SELECT holdfast.put_events('{default}', '{k}', array_fill(1, '{20}'), array_fill('o'::text, '{20}'), "
        "ARRAY(SELECT g::text FROM generate_series(1, 20) g ORDER BY g %s), array_fill('t'::text, '{20}'), "
        "array_fill('x'::bytea, '{20}'), '{t}')";
    PGconn *const sessions[2] = {db.a, db.b};
    for (int k = 0; k < 2; k++)
        t_sql(sessions[k], "SET lock_timeout = 0; SET deadlock_timeout = '10ms'");
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 2; k++)
            assert_int_equal(PQsendQuery(sessions[k], t_printf(many, k ? "DESC" : "ASC")), 1);
        for (int k = 0; k < 2; k++) {
            PGresult *result;
            while ((result = PQgetResult(sessions[k])) != NULL) {
                if (PQresultStatus(result) != PGRES_TUPLES_OK)
                    fail_msg("%s", PQresultErrorMessage(result));
                PQclear(result);
            }
        }
    }
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.outbox"), ROUNDS * 2 * 20);
}

static void refuse_what_is_not_complete(void **state)
{
    (void)state;
    assert_string_equal(t_sqlstate(db.a, "SELECT holdfast.emit('default', 'order', '7', 'paid', NULL)"), "22023");
    assert_string_equal(t_sqlstate(db.a, "SELECT holdfast.emit('default', '', '7', 'paid', 'x')"), "22023");
    assert_string_equal(t_sqlstate(db.a, "SELECT holdfast.emit('default', 'order', NULL, 'paid', 'x')"), "22023");
    assert_string_equal(t_sqlstate(db.a, "SELECT holdfast.emit('nowhere', 'order', '7', 'paid', 'x')"), "HF002");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.outbox"), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fresh, closed)

int main(void)
{
    (void)own_clock;
    const struct CMUnitTest tests[] = {
        TEST(are_in_the_order_of_the_commits_within_an_aggregate),
        TEST(of_a_transaction_that_rolled_back_are_gone),
        TEST(nobody_waits_longer_than_lock_timeout),
        TEST(are_those_of_the_items_that_are_taken),
        TEST(never_deadlock),
        TEST(refuse_what_is_not_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
