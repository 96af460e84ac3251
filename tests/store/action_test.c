/*
 * action_test.c - actions inside Holdfast's transaction: the record, what the action did and its events are there together, or
 * nothing of them; whatever an action does, its neighbours and those behind it are as without it (P5, P9).
 */
#include <inttypes.h>
#include <string.h>

#include "store/op_calls.h"
#include "store/sessions.h"
#include "store/store.h"

#define REGISTER "SELECT outcome || ' ' || message FROM holdfast.register_action('default', '%s', '%s', %d, 'me')"

/* An account with 1,000, of a role that has rights on nothing else, and what an action may do to it. */
static int with_account(void **state)
{
    fresh(state);
    t_sql(db.a, "DO $$ BEGIN CREATE ROLE action_owner NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    t_sql(db.a, "CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO action_owner; "
                "CREATE TABLE app.account (id int PRIMARY KEY, balance int CHECK (balance >= 0)); INSERT INTO app.account VALUES "
                "(1, 1000); "
                "CREATE TABLE app.entry (id int PRIMARY KEY, account int REFERENCES app.account DEFERRABLE INITIALLY DEFERRED); "
                "CREATE TABLE public.other (x int); "
                "GRANT ALL ON app.account, app.entry TO action_owner");
    t_sql(db.a, "CREATE FUNCTION app.act(key text, args jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = "
                "app, pg_temp "
                "AS $f$ BEGIN "
                "UPDATE account SET balance = balance - coalesce((args->>'amount')::int, 0); "
                "IF args ? 'sql' THEN EXECUTE args->>'sql'; END IF; "
                "IF args ? 'null' THEN RETURN NULL; END IF; "
                "RETURN jsonb_build_object('balance', (SELECT balance FROM account)); END $f$; "
                "ALTER FUNCTION app.act OWNER TO action_owner");
    assert_string_equal(t_sql(db.a, REGISTER, "act", "app.act", 2000), "50 ");
    t_sql(db.a, "SET statement_timeout = '2s'; SET lock_timeout = '50ms'");
    return 0;
}

static int64_t balance(void)
{
    return t_sql_int(db.asker, "SELECT balance FROM app.account");
}

/* Executes, and tells "outcome sqlstate". */
static char *executed(const char *key, const char *args)
{
    struct ts_text json = {0};
    ts_literal(&json, args);
    char *told = t_sql(
        db.a,
        "SELECT outcome || ' ' || sqlstate FROM holdfast.op_execute_batch('{default}', '{%s}', '{t}', ARRAY[sha256('p')], '{act}', "
        "ARRAY[%s], '{NULL}', '{0}', '{NULL}', '{h}', '{1}', '{order}', '{7}', '{debited}', ARRAY['x'::bytea])",
        key, json.text);
    ts_clear(&json);
    return told;
}

static void executes_once(void **state)
{
    (void)state;
    assert_string_equal(executed("k", "{\"amount\": 100}"), "210 ");
    assert_string_equal(executed("k", "{\"amount\": 100}"), "202 ");
    assert_int_equal(balance(), 900);
    assert_string_equal(op_of(db.a, "k", "convert_from(result, 'UTF8')"), "{\"balance\": 900}");
    assert_string_equal(
        t_sql(db.a, "SELECT string_agg(concat_ws(' ', aggregatetype, aggregateid, type, operation), ',') FROM holdfast.outbox"),
        "order 7 debited k");
    assert_int_equal(op_begin(db.a, "k", "p", 1000, "r"), ST_OP_REPLAYED);
    assert_int_equal(op_execute(db.a, "k", "other", "act", "{}"), ST_OP_CONFLICT);
    assert_int_equal(op_execute(db.a, "l", "p", "none", "{}"), ST_OP_NO_ACTION);
    assert_int_equal(balance(), 900);
}

/* Each ends with its SQLSTATE, and leaves nothing: no record, no effect, no event. */
static void what_raises_leaves_nothing(void **state)
{
    static const struct {
        const char *args, *told;
    } bad[] = {
        {"{\"amount\": 1, \"sql\": \"DO $$ BEGIN RAISE EXCEPTION 'no'; END $$\"}", "218 P0001"},
        {"{\"amount\": 1001}", "218 23514"},
        {"{\"amount\": 1, \"sql\": \"INSERT INTO app.entry VALUES (1, 99)\"}", "218 23503"}, /* deferred to the commit */
        {"{\"amount\": 1, \"sql\": \"DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$\"}", "218 40001"},
        {"{\"amount\": 1, \"sql\": \"SELECT pg_sleep(60)\"}", "218 57014"},
        {"{\"amount\": 1, \"sql\": \"RESET ROLE\"}", "218 42501"},
        {"{\"amount\": 1, \"sql\": \"SET ROLE postgres\"}", "218 42501"},
        {"{\"amount\": 1, \"sql\": \"SET SESSION AUTHORIZATION DEFAULT\"}", "218 42501"},
        {"{\"amount\": 1, \"sql\": \"COMMIT\"}", "218 0A000"},
        {"{\"amount\": 1, \"sql\": \"INSERT INTO public.other VALUES (1)\"}", "218 42501"},
        {"{\"amount\": 1, \"sql\": \"DELETE FROM holdfast.operation\"}", "218 42501"},
        {"{\"amount\": 1, \"sql\": \"SELECT FROM nowhere\"}", "218 42P01"},
        {"{\"amount\": 1, \"sql\": \"ASSERT\"}", "218 42601"},
        {"{\"amount\": 1, \"null\": 1}", "218 22004"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *told = executed(t_printf("k%zu", i), bad[i].args);
        if (strcmp(told, bad[i].told) != 0)
            fail_msg("%s: %s instead of %s", bad[i].args, told, bad[i].told);
    }
    assert_int_equal(balance(), 1000);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.operation"), 0);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.outbox"), 0);
    assert_string_equal(executed("k0", "{\"amount\": 100}"), "210 ");
    assert_int_equal(balance(), 900);
}

/* One batch, three items, the one in the middle bad: the others are as without it. */
static void neighbours_are_unharmed(void **state)
{
    static const char *const middle[] = {
        "{\"amount\": 10, \"sql\": \"INSERT INTO app.entry VALUES (1, 99)\"}",
        "{\"amount\": 10, \"sql\": \"SELECT set_config('synchronous_commit', 'off', false), set_config('lock_timeout', '0', "
        "false), "
        "set_config('search_path', 'app, public', false)\"}",
        "{\"amount\": 10, \"sql\": \"SET CONSTRAINTS ALL DEFERRED\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(middle) / sizeof(middle[0]); i++) {
        struct ts_text json = {0};
        ts_literal(&json, middle[i]);
        const char *told =
            t_sql(db.a,
                  "SELECT string_agg(outcome::text, ' ' ORDER BY i) FROM holdfast.op_execute_batch('{default,default,default}', "
                  "'{a%zu,b%zu,c%zu}', "
                  "'{t,t,t}', ARRAY[sha256('p'), sha256('p'), sha256('p')], '{act,act,act}', ARRAY['{\"amount\": 1}', %s, "
                  /* the circle of a deferred constraint is closed within the action: allowed, behind whatever else */
                  "'{\"amount\": 1, \"sql\": \"INSERT INTO app.entry VALUES (%zu, 9); DELETE FROM app.entry\"}'], "
                  "'{NULL,NULL,NULL}', '{0,0,0}', "
                  "'{NULL,NULL,NULL}', '{h,h,h}', NULL, NULL, NULL, NULL, NULL)",
                  i, i, i, json.text, i + 10);
        ts_clear(&json);
        assert_string_equal(told, i == 0 ? "210 218 210" : "210 210 210");
        assert_string_equal(t_sql(db.a,
                                  "SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('lock_timeout'), "
                                  "current_setting('search_path'))"),
                            "on 50ms \"$user\", public");
    }
    assert_int_equal(balance(), 1000 - 2 - 12 - 12);
}

/* An action that takes its time keeps those behind it in its batch waiting no longer than that: they are sent again. */
static void a_slow_one_gives_the_batch_back(void **state)
{
    (void)state;
    assert_string_equal(t_sql(db.a, "SELECT string_agg(outcome::text, ' ' ORDER BY i) FROM "
                                    "holdfast.op_execute_batch('{default,default}', '{a,b}', '{t,t}', "
                                    "ARRAY[sha256('p'), sha256('p')], '{act,act}', ARRAY['{\"sql\": \"SELECT pg_sleep(0.3)\"}', "
                                    "'{\"amount\": 1}'], '{NULL,NULL}', "
                                    "'{0,0}', '{NULL,NULL}', '{h,h}', NULL, NULL, NULL, NULL, NULL)"),
                        "210 224");
    assert_int_equal(balance(), 1000);
    /* Longer than its own time, though it has come to its end: undone. */
    assert_string_equal(t_sql(db.a, REGISTER, "brief", "app.act", 100), "50 ");
    assert_int_equal(op_execute(db.a, "c", "p", "brief", "{\"amount\": 1, \"sql\": \"SELECT pg_sleep(0.2)\"}"), ST_OP_RAISED);
    assert_int_equal(balance(), 1000);
}

static void a_locked_row_is_busy(void **state)
{
    (void)state;
    t_sql(db.b, "BEGIN; UPDATE app.account SET balance = balance");
    assert_string_equal(executed("k", "{\"amount\": 1}"), "5 ");
    t_sql(db.b, "ROLLBACK");
    assert_string_equal(executed("k", "{\"amount\": 1}"), "210 ");
}

/* The resource's guard: the newest token, a live lease, the version expected, in the action's transaction. */
static void only_the_holder_of_the_resource_executes(void **state)
{
    static const struct {
        int token;
        const char *expected;
        int outcome;
    } tries[] = {{2, "NULL", ST_OP_RESOURCE_NOT_HELD}, {1, "5", ST_OP_VERSION}, {1, "1", ST_OP_DONE}, {1, "NULL", ST_OP_DONE}};
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 60000, "q"), ST_GRANTED);
    assert_int_equal(ts_write(db.a, "r", 1, "x"), ST_WRITTEN);
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
        assert_int_equal(
            t_sql_int(db.a,
                      "SELECT outcome FROM holdfast.op_execute_batch('{default}', '{k%zu}', '{t}', ARRAY[sha256('p')], '{act}', "
                      "'{\"{\\\"amount\\\": 1}\"}', '{r}', '{%d}', '{%s}', '{h}', NULL, NULL, NULL, NULL, NULL)",
                      i, tries[i].token, tries[i].expected),
            tries[i].outcome);
    assert_int_equal(balance(), 998);
    assert_int_equal(ts_break(db.a, "r", 1), ST_BREAK_DONE);
    assert_int_equal(
        t_sql_int(db.a, "SELECT outcome FROM holdfast.op_execute_batch('{default}', '{late}', '{t}', ARRAY[sha256('p')], '{act}', "
                        "'{\"{\\\"amount\\\": 1}\"}', '{r}', '{1}', '{NULL}', '{h}', NULL, NULL, NULL, NULL, NULL)"),
        ST_OP_STALE_RESOURCE);
    assert_int_equal(balance(), 998);
}

static void bad_functions_are_not_registered(void **state)
{
#define MAKE(how)                                                                                                                  \
    "CREATE OR REPLACE FUNCTION app.bad(key text, args jsonb) RETURNS jsonb LANGUAGE sql " how " AS $$ SELECT '{}'::jsonb $$; "
#define OWNED "ALTER FUNCTION app.bad(text, jsonb) OWNER TO action_owner"
    static const struct {
        const char *made, *told;
    } bad[] = {
        {MAKE("SET search_path = app") OWNED, "223 it is not SECURITY DEFINER"},
        {MAKE("SECURITY DEFINER") "ALTER FUNCTION app.bad(text, jsonb) RESET search_path; " OWNED,
         "223 it has no search_path of its own"},
        {MAKE("SECURITY DEFINER SET search_path = app") "ALTER FUNCTION app.bad(text, jsonb) OWNER TO postgres",
         "223 its owner \"postgres\" is a superuser"},
        {"DROP FUNCTION app.bad; CREATE FUNCTION app.bad(key text, args jsonb) RETURNS text LANGUAGE sql SECURITY DEFINER SET "
         "search_path = app "
         "AS $$ SELECT '' $$; " OWNED,
         "223 it does not return jsonb"},
        {"DROP FUNCTION app.bad", "223 there is no such function f(key text, args jsonb)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        t_sql(db.a, "%s", bad[i].made);
        assert_string_equal(t_sql(db.a, REGISTER, "bad", "app.bad", 1000), bad[i].told);
    }
    assert_string_equal(t_sql(db.a, REGISTER, "bad", "holdfast.guard; DROP", 1000),
                        "223 there is no such function f(key text, args jsonb)");
    /* Again the same: as the first. Another: a conflict. What changed since it was registered is not called. */
    assert_string_equal(t_sql(db.a, REGISTER, "act", "app.act", 2000), "50 ");
    assert_string_equal(t_sql(db.a, REGISTER, "act", "app.act", 2001), "72 ");
    t_sql(db.a, "ALTER FUNCTION app.act SECURITY INVOKER");
    assert_int_equal(op_execute(db.a, "k", "p", "act", "{}"), ST_OP_NO_ACTION);
    t_sql(db.a, "ALTER FUNCTION app.act SECURITY DEFINER");
    assert_int_equal(op_execute(db.a, "k", "p", "act", "{}"), ST_OP_DONE);
    assert_int_equal(t_sql_int(db.a, "SELECT outcome FROM holdfast.remove_action('default', 'act', 'me')"), 50);
    assert_int_equal(op_execute(db.a, "l", "p", "act", "{}"), ST_OP_NO_ACTION);
    assert_int_equal(op_execute(db.a, "k", "p", "act", "{}"), ST_OP_REPLAYED);
}

static int closed_and_dropped(void **state)
{
    t_sql(db.a, "RESET statement_timeout; DROP SCHEMA app CASCADE");
    return closed(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(executes_once, with_account, closed_and_dropped),
        cmocka_unit_test_setup_teardown(what_raises_leaves_nothing, with_account, closed_and_dropped),
        cmocka_unit_test_setup_teardown(neighbours_are_unharmed, with_account, closed_and_dropped),
        cmocka_unit_test_setup_teardown(a_slow_one_gives_the_batch_back, with_account, closed_and_dropped),
        cmocka_unit_test_setup_teardown(a_locked_row_is_busy, with_account, closed_and_dropped),
        cmocka_unit_test_setup_teardown(only_the_holder_of_the_resource_executes, with_account, closed_and_dropped),
        cmocka_unit_test_setup_teardown(bad_functions_are_not_registered, with_account, closed_and_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
