/*
 * action_escape_test.c - what an action might do so that something of it runs later, outside it, and with the rights of the server:
 * refused, undone, or without effect. Each is tried by a role that has rights on its own schema only and, where it is refused, by
 * what would have got through.
 */
#include <inttypes.h>
#include <string.h>

#include "store/op_calls.h"
#include "store/sessions.h"
#include "store/store.h"

static char *role; /* of the actions; the cluster is shared, so each run has its own */

/* The action does what its arguments say, as `role`; the role may do as it likes in schema mine. */
static int with_action(void **state)
{
    fresh(state);
    role = t_printf("t_escape_%d", PQbackendPID(db.asker));
    t_sql(db.asker,
          "CREATE ROLE %s NOLOGIN; CREATE SCHEMA mine AUTHORIZATION %s; CREATE SCHEMA seen; CREATE TABLE seen.by (who name)", role,
          role);
    t_sql(db.asker, "SET ROLE %s", role);
    t_sql(
        db.asker,
        "CREATE FUNCTION mine.act(key text, args jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = mine "
        "AS $$ DECLARE step text; BEGIN FOR step IN SELECT jsonb_array_elements_text(args) LOOP EXECUTE step; END LOOP; RETURN "
        "'1'; "
        "END $$; "
        /* Code that tells by whom it is run: it can, if it is Holdfast's. */
        "CREATE FUNCTION mine.evil() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen.by VALUES (current_user); RETURN 1; "
        "EXCEPTION WHEN insufficient_privilege THEN RETURN 2; END $$; "
        "CREATE FUNCTION mine.evil_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mine.evil(); RETURN NULL; END "
        "$$; "
        "CREATE FUNCTION mine.evil_index(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mine.evil(); RETURN x; "
        "END $$; CREATE TABLE mine.t (x int)");
    t_sql(db.asker, "RESET ROLE");
    assert_string_equal(t_sql(db.a, "SELECT outcome FROM holdfast.register_action('default', 'act', 'mine.act', 5000, 'me')"),
                        "50");
    return 0;
}

static int dropped(void **state)
{
    t_sql(db.asker, "DROP OWNED BY %s CASCADE; DROP ROLE %s", role, role);
    return closed(state);
}

/* Executes an action of these statements, a JSON array, in a batch before one that does nothing; tells "outcome sqlstate". */
static char *acted(const char *key, const char *steps)
{
    struct ts_text json = {0};
    ts_literal(&json, steps);
    char *told =
        t_sql(db.a,
              "SELECT string_agg(outcome || ' ' || sqlstate, ', ' ORDER BY i) FROM holdfast.op_execute_batch('{default,default}', "
              "'{%s,%s-next}', '{t,t}', ARRAY[sha256('p'), sha256('p')], '{act,act}', ARRAY[%s, '[]'], '{NULL,NULL}', "
              "'{NULL,NULL}', '{NULL,NULL}', '{h,h}', NULL, NULL, NULL, NULL, NULL)",
              key, key, json.text);
    ts_clear(&json);
    return told;
}

static void assert_nothing_escaped(void)
{
    assert_string_equal(t_sql(db.asker, "SELECT string_agg(who, ' ') FROM seen.by"), "");
}

static void deferred_triggers_are_refused(void **state)
{
    (void)state;
    t_sql(db.asker,
          "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON mine.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "
          "mine.evil_trigger()");
    /* What would get through: the commit is the server's. */
    t_sql(db.a, "BEGIN; SELECT mine.act('k', '[\"INSERT INTO t VALUES (1)\"]'); COMMIT");
    assert_string_not_equal(t_sql(db.asker, "SELECT string_agg(who, ' ') FROM seen.by"), "");
    t_sql(db.asker, "TRUNCATE seen.by");

    assert_string_equal(acted("a", "[\"INSERT INTO t VALUES (1)\"]"), "218 0A000, 210 ");
    assert_string_equal(acted("b", "[\"SET CONSTRAINTS ALL DEFERRED\", \"INSERT INTO t VALUES (1)\"]"), "218 0A000, 210 ");
    assert_string_equal(acted("c",
                              "[\"CREATE TABLE u (x int)\", \"CREATE CONSTRAINT TRIGGER late AFTER INSERT ON u DEFERRABLE "
                              "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION evil_trigger()\", \"INSERT INTO u VALUES (1)\"]"),
                        "218 0A000, 210 ");
    /* Other tables may be written to, and this one again when it is not deferred any more. */
    assert_string_equal(acted("d", "[\"CREATE TABLE u (x int)\", \"INSERT INTO u VALUES (1)\"]"), "210 , 210 ");
    t_sql(
        db.asker,
        "DROP TRIGGER late ON mine.t; CREATE TRIGGER now AFTER INSERT ON mine.t FOR EACH ROW EXECUTE FUNCTION mine.evil_trigger()");
    assert_string_equal(acted("e", "[\"INSERT INTO t VALUES (1)\"]"), "210 , 210 ");
    assert_nothing_escaped();
}

/* Those of somebody who could do anything anyway are his affair. */
static void a_superusers_deferred_triggers_are_checked(void **state)
{
    (void)state;
    t_sql(db.asker,
          "CREATE FUNCTION seen.even() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF (SELECT sum(x) %% 2 FROM mine.t) = 1 THEN "
          "RAISE EXCEPTION 'odd'; END IF; RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER even AFTER INSERT ON mine.t "
          "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION seen.even()");
    assert_string_equal(acted("a", "[\"INSERT INTO t VALUES (1)\"]"), "218 P0001, 210 ");
    assert_string_equal(acted("b", "[\"INSERT INTO t VALUES (1)\", \"INSERT INTO t VALUES (3)\"]"), "210 , 210 ");
    assert_int_equal(t_sql_int(db.asker, "SELECT count(*) FROM mine.t"), 2);
}

static void exclusion_by_expressions_is_refused(void **state)
{
    (void)state;
    assert_string_equal(
        acted("a", "[\"CREATE TABLE u (x int)\", \"ALTER TABLE u ADD EXCLUDE USING btree (evil_index(x) WITH =) DEFERRABLE "
                   "INITIALLY DEFERRED\", \"INSERT INTO u VALUES (1), (1)\"]"),
        "218 0A000, 210 ");
    /* By columns it is only a constraint. */
    assert_string_equal(acted("b", "[\"CREATE TABLE u (x int)\", \"ALTER TABLE u ADD EXCLUDE USING btree (x WITH =) DEFERRABLE "
                                   "INITIALLY DEFERRED\", \"INSERT INTO u VALUES (1), (1)\"]"),
                        "218 23P01, 210 ");
    assert_nothing_escaped();
}

static void cursors_that_outlive_it_are_refused(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN; SELECT mine.act('k', '[\"DECLARE c CURSOR WITH HOLD FOR SELECT mine.evil()\"]'); COMMIT; CLOSE c");
    assert_string_not_equal(t_sql(db.asker, "SELECT string_agg(who, ' ') FROM seen.by"), "");
    t_sql(db.asker, "TRUNCATE seen.by");
    assert_string_equal(acted("a", "[\"DECLARE c CURSOR WITH HOLD FOR SELECT mine.evil()\"]"), "218 0A000, 210 ");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM pg_cursors WHERE is_holdable"), 0);
    assert_nothing_escaped();
}

/* The server calls its statements by name: another one of that name must not be there, whatever became of the action. */
static void prepared_statements_are_gone(void **state)
{
    (void)state;
    PGresult *prepared = PQprepare(db.a, "op_execute", "SELECT 1", 0, NULL);
    assert_int_equal(PQresultStatus(prepared), PGRES_COMMAND_OK);
    PQclear(prepared);
    t_sql(db.a, "PREPARE before AS SELECT 1");
    assert_string_equal(acted("a", "[\"DEALLOCATE op_execute\", \"PREPARE op_execute AS SELECT mine.evil()\", \"SELECT 1/0\"]"),
                        "218 22012, 210 ");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(name, ' ') FROM pg_prepared_statements"), "before");
    assert_string_equal(acted("b", "[\"PREPARE op_execute AS SELECT mine.evil()\"]"), "210 , 210 ");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(name, ' ') FROM pg_prepared_statements"), "before");
    assert_nothing_escaped();
}

/* Operators that mean something else, in a path that the action leaves behind; and types in the temporary schema, which comes
 * first. */
static void names_mean_what_they_meant(void **state)
{
    (void)state;
    t_sql(db.asker,
          "CREATE FUNCTION mine.same(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT mine.evil() > 0 $$; "
          "CREATE FUNCTION mine.plus(timestamptz, interval) RETURNS timestamptz LANGUAGE sql AS $$ SELECT CASE mine.evil() WHEN 0 "
          "THEN $1 END $$; CREATE OPERATOR mine.= (LEFTARG = text, RIGHTARG = text, FUNCTION = mine.same); "
          "CREATE OPERATOR mine.+ (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = mine.plus)");
    assert_string_equal(acted("a", "[\"SELECT set_config('search_path', 'mine, pg_catalog', false)\"]"), "210 , 210 ");
    assert_string_equal(acted("b", "[\"SELECT set_config('search_path', 'mine, pg_catalog', true)\"]"), "210 , 210 ");
    assert_string_equal(acted("c", "[\"CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (mine.evil() > 0)\", "
                                   "\"CREATE TEMP TABLE bytea (x int)\"]"),
                        "210 , 210 ");
    assert_string_equal(t_sql(db.a, "SELECT 'x'::text; SELECT count(*) FROM pg_type WHERE typnamespace = pg_my_temp_schema()"),
                        "0");
    assert_string_equal(acted("d", "[]"), "210 , 210 ");
    assert_nothing_escaped();
}

/* A setting of the session may hide behind one of the transaction until that is over. */
static void settings_are_as_before(void **state)
{
    static const char ask[] =
        "SELECT concat_ws(' ', current_setting('synchronous_commit'), current_setting('lock_timeout'), "
        "current_setting('search_path'), current_setting('statement_timeout'), current_setting('idle_session_timeout'))";
    (void)state;
    t_sql(db.a, "SET statement_timeout = '31s'");
    char *before = t_sql(db.a, ask);
    assert_string_equal(
        acted("a", "[\"SELECT set_config(n, v, false) FROM (VALUES ('synchronous_commit', 'off'), ('lock_timeout', '0'), "
                   "('search_path', 'mine'), ('statement_timeout', '1'), ('idle_session_timeout', '1')) AS x(n, v)\"]"),
        "210 , 210 ");
    assert_string_equal(t_sql(db.a, ask), before);
    assert_string_equal(acted("b",
                              "[\"SELECT set_config('synchronous_commit', 'off', false)\", \"SET LOCAL synchronous_commit = on\", "
                              "\"SELECT set_config('lock_timeout', '0', false)\", \"SET LOCAL lock_timeout = 20\"]"),
                        "210 , 210 ");
    assert_string_equal(t_sql(db.a, ask), before);
    assert_string_equal(acted("c", "[\"RESET ALL\"]"), "210 , 210 ");
    assert_string_equal(t_sql(db.a, ask), before);
}

static void locks_and_channels_of_the_session_are_gone(void **state)
{
    (void)state;
    assert_string_equal(acted("a", "[\"SELECT pg_advisory_lock(1)\", \"LISTEN x\"]"), "210 , 210 ");
    assert_string_equal(acted("b", "[\"SELECT pg_advisory_lock(1)\", \"SELECT 1/0\"]"), "218 22012, 210 ");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"), 0);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM pg_listening_channels()"), 0);
}

static void roles_that_lead_further_are_refused(void **state)
{
    (void)state;
    /* "%s" is put in by the server's format(). */
    static const struct {
        const char *give, *take, *why;
    } rights[] = {
        {"ALTER ROLE %s LOGIN", "ALTER ROLE %s NOLOGIN", "can log in"},
        {"ALTER ROLE %s SUPERUSER", "ALTER ROLE %s NOSUPERUSER", "is a superuser"},
        {"ALTER ROLE %s CREATEROLE", "ALTER ROLE %s NOCREATEROLE", "can make roles"},
        {"GRANT holdfast_user TO %s", "REVOKE holdfast_user FROM %s", "has rights in Holdfast's own schema"},
        {"GRANT pg_read_all_data TO %s", "REVOKE pg_read_all_data FROM %s", "has rights in Holdfast's own schema"},
        {"GRANT USAGE ON SCHEMA holdfast TO %s", "REVOKE USAGE ON SCHEMA holdfast FROM %s", "has rights in Holdfast's own schema"},
    };
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        t_sql(db.asker, "DO $$ BEGIN EXECUTE format('%s', '%s'); END $$", rights[i].give, role);
        t_contains(
            t_sql(db.a, "SELECT outcome || message FROM holdfast.register_action('default', 'other', 'mine.act', 5000, 'me')"),
            rights[i].why);
        /* Also at each call: rights come and go. */
        assert_int_equal(op_execute(db.a, t_printf("k%zu", i), "p", "act", "[]"), ST_OP_NO_ACTION);
        t_sql(db.asker, "DO $$ BEGIN EXECUTE format('%s', '%s'); END $$", rights[i].take, role);
        assert_int_equal(op_execute(db.a, t_printf("k%zu", i), "p", "act", "[]"), ST_OP_DONE);
    }
    t_sql(db.asker, "ALTER FUNCTION mine.act OWNER TO postgres; ALTER FUNCTION mine.act OWNER TO %s; ALTER ROLE %s RENAME TO %s_b",
          role, role, role);
    assert_int_equal(op_execute(db.a, "renamed", "p", "act", "[]"), ST_OP_NO_ACTION);
    t_sql(db.asker, "ALTER ROLE %s_b RENAME TO %s", role, role);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, with_action, dropped)

int main(void)
{
    (void)own_clock;
    const struct CMUnitTest tests[] = {
        TEST(deferred_triggers_are_refused),
        TEST(a_superusers_deferred_triggers_are_checked),
        TEST(exclusion_by_expressions_is_refused),
        TEST(cursors_that_outlive_it_are_refused),
        TEST(prepared_statements_are_gone),
        TEST(names_mean_what_they_meant),
        TEST(settings_are_as_before),
        TEST(locks_and_channels_of_the_session_are_gone),
        TEST(roles_that_lead_further_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
