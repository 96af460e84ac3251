/*
 * upgrade_test.c - servers of schema 1 on a database of schema 2: their statements, word for word, in sessions that prepared them
 * before the upgrade and in new ones; and the upgrade itself, beside such a server's traffic.
 */
#include "harness/schema_1.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/schema.h"
#include "store/calls.h"
#include "store/migrate.h"
#include "store/store.h"

/* ------------------------------------------------------------------------------------------------ calls of schema 1 */

static PGconn *server_of_schema_1(const char *dsn)
{
    PGconn *conn = ts_session(dsn);
    t_prepare_schema_1(conn);
    return conn;
}

/* Runs a prepared statement with these values, ended by NULL; the text "NULL" is SQL's. */
static PGresult *run(PGconn *conn, const char *name, const char *const *values)
{
    const char *given[8];
    int n = 0;
    for (; values[n]; n++)
        given[n] = strcmp(values[n], "NULL") == 0 ? NULL : values[n];
    return PQexecPrepared(conn, name, n, given, NULL, NULL, 0);
}

#define RUN(conn, name, ...) run(conn, name, (const char *const[]){__VA_ARGS__, NULL})

/* The outcome, in this column of the only row; minus the SQLSTATE in base 36 if it fails. */
static int64_t taken(PGresult *result, int column)
{
    int64_t outcome;
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
        outcome = ts_int(result, 0, column);
    else
        outcome = -strtoll(PQresultErrorField(result, PG_DIAG_SQLSTATE), NULL, 36);
    PQclear(result);
    return outcome;
}

static int64_t acquire(PGconn *conn, const char *resource, const char *ttl_ms, const char *request_id)
{
    char name[64], ttl[64], request[64];
    snprintf(name, sizeof(name), "{%s}", resource);
    snprintf(ttl, sizeof(ttl), "{%s}", ttl_ms);
    snprintf(request, sizeof(request), "{%s}", request_id);
    return taken(RUN(conn, "acquire", "{default}", name, "{task}", "{holder}", ttl, request, "{NULL}"), 1);
}

/* Everything that a server of schema 1 does, on resources of its own. */
static void whole_life(PGconn *conn, const char *resource)
{
    const char *names = t_printf("{%s}", resource), *several = t_printf("{%s-a,%s-b}", resource, resource);
    assert_int_equal(acquire(conn, resource, "60000", "q1"), ST_GRANTED);
    assert_int_equal(acquire(conn, resource, "60000", "q1"), ST_REPEATED);
    assert_int_equal(acquire(conn, resource, "60000", "q2"), ST_HELD);
    int64_t renewed = taken(RUN(conn, "renew", "{default}", names, "{1}", "{70000}", "f"), 1);
    assert_true(renewed == ST_RENEWED || renewed == ts_state("40001")); /* overtaken by the clock: on a busy machine */
    assert_int_equal(taken(RUN(conn, "renew", "{default}", names, "{1}", "{80000}", "t"), 1), ST_RENEWED);
    assert_int_equal(taken(RUN(conn, "write", "{default}", names, "{1}", "{1}", "{\\\\x61}", "{NULL}"), 1), ST_WRITTEN);
    assert_int_equal(taken(RUN(conn, "write", "{default}", names, "{1}", "{1}", "{\\\\x61}", "{NULL}"), 1), ST_REPLAYED);
    assert_int_equal(taken(RUN(conn, "check", "{default}", names, "{1}"), 1), ST_CURRENT);
    PGresult *result = RUN(conn, "read", "{default}", names);
    assert_string_equal(PQgetvalue(result, 0, 2), "\\x61");
    PQclear(result);
    result = RUN(conn, "get", "{default}", names);
    assert_string_equal(PQgetvalue(result, 0, 4), "holder");
    assert_int_equal(ts_int(result, 0, 10), ST_LEASE_LIVE);
    PQclear(result);
    assert_int_equal(taken(RUN(conn, "list_leases", "default", resource, "", "", "", "10"), 0), ST_FOUND);
    assert_int_equal(taken(RUN(conn, "list_resources", "default", resource, "", "10"), 0), ST_FOUND);
    assert_int_equal(taken(RUN(conn, "release", "{default}", names, "{1}"), 1), ST_FREED);
    assert_int_equal(acquire(conn, resource, "60000", "q1"), ST_ENDED);
    assert_int_equal(acquire(conn, resource, "60000", "q3"), ST_GRANTED);
    assert_int_equal(taken(RUN(conn, "break", "default", resource, "2", "me", "why"), 0), ST_BREAK_DONE);
    result = RUN(conn, "acquire_all", "default", several, "task", "holder", "60000", "q4", "NULL");
    assert_int_equal(PQntuples(result), 2);
    assert_int_equal(ts_int(result, 0, 1), ST_GRANTED);
    PQclear(result);
    assert_int_equal(taken(RUN(conn, "stats", NULL), 0), ST_FOUND);
    assert_int_equal(taken(RUN(conn, "advance_fences", "nowhere", "0", "me", "why"), 0), ST_NO_SUCH_NAMESPACE);
}

/* ------------------------------------------------------------------------------------------------ the upgrade */

static void upgrade(const char *dsn)
{
    struct st_problem problem;
    if (st_migrate(dsn, NULL, NULL, &problem) != ST_MIGRATE_OK)
        fail_msg("%s", problem.text);
}

static void old_servers_go_on(void **state)
{
    (void)state;
    char *dsn = t_database_of_schema_1();
    PGconn *before = server_of_schema_1(dsn);
    int columns[T_STATEMENTS_OF_SCHEMA_1];
    for (int i = 0; i < T_STATEMENTS_OF_SCHEMA_1; i++) {
        PGresult *result = PQdescribePrepared(before, t_statements_of_schema_1[i].name);
        columns[i] = PQnfields(result);
        PQclear(result);
    }
    whole_life(before, "first"); /* so that every plan is made before the upgrade */
    upgrade(dsn);
    whole_life(before, "second");
    PGconn *after = server_of_schema_1(dsn);
    whole_life(after, "third");
    for (int i = 0; i < T_STATEMENTS_OF_SCHEMA_1; i++) {
        PGresult *result = PQdescribePrepared(after, t_statements_of_schema_1[i].name);
        assert_int_equal(PQnfields(result), columns[i]);
        PQclear(result);
    }
    /* What was leased under schema 1 is as it was. */
    assert_int_equal(taken(RUN(after, "check", "{default}", "{first-a}", "{1}"), 1), ST_CURRENT);
    PQfinish(before);
    PQfinish(after);
}

/* What is upgraded is what is made new: but for the order in which columns were added, it can't differ. */
static void upgraded_is_as_made_new(void **state)
{
    static const char describe[] =
        "SELECT string_agg(x, E'\\n' ORDER BY x) FROM ("
        "SELECT p.oid::regprocedure || ' ' || md5(pg_get_functiondef(p.oid)) AS x FROM pg_proc p "
        "WHERE p.pronamespace = 'holdfast'::regnamespace UNION ALL "
        "SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || a.attnotnull FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'holdfast'::regnamespace AND a.attnum > 0 AND c.relname "
        "!~ '^audit_2' UNION ALL "
        "SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'holdfast'::regnamespace UNION "
        "ALL "
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'holdfast' AND tablename !~ '^audit_2') d";
    (void)state;
    char *old = t_database_of_schema_1();
    upgrade(old);
    PGconn *upgraded = t_connect(old), *made = t_connect(ts_schema());
    assert_string_equal(t_sql(upgraded, describe), t_sql(made, describe));
    PQfinish(upgraded);
    PQfinish(made);
}

/* An index on a large part of the audit would keep grants waiting: it goes without, and what comes has one. */
static void a_large_audit_is_left_as_it_is(void **state)
{
    static const char indexed[] = "SELECT count(*) FROM pg_index WHERE indrelid = 'holdfast.audit_%s'::regclass";
    (void)state;
    char *dsn = t_database_of_schema_1();
    PGconn *conn = t_connect(dsn);
    char *this = t_sql(conn, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')");
    char *next = t_sql(conn, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYY_MM')");
    char *later = t_sql(conn, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '4 months', 'YYYY_MM')");
    t_sql(conn, "INSERT INTO holdfast.audit (namespace, resource, kind, token, detail) SELECT 'default', 'r' || g, 'grant', g, "
                "repeat('x', 1000) FROM generate_series(1, 17000) g");
    upgrade(dsn);
    t_sql(conn, "SELECT holdfast.make_partitions(4)");
    assert_int_equal(t_sql_int(conn, indexed, this), 0);
    assert_int_equal(t_sql_int(conn, indexed, next), 2); /* one for resources, one for operations */
    assert_int_equal(t_sql_int(conn, indexed, later), 2);
    assert_int_equal(t_sql_int(conn, "SELECT id FROM holdfast.audit_list('default', 'r77', 0, 10)"), 77);
    PQfinish(conn);
}

/* ------------------------------------------------------------------------------------------------ beside traffic */

struct traffic {
    PGconn *conn;
    const char *prefix;
    bool stop;
    long calls, locked;
    char error[256];
};

static void note(struct traffic *t, PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    __atomic_fetch_add(&t->calls, 1, __ATOMIC_RELAXED);
    if (state && strcmp(state, "55P03") == 0)
        t->locked++; /* the server tries those again */
    else if (state && !t->error[0])
        snprintf(t->error, sizeof(t->error), "%s %s", state, PQresultErrorMessage(result));
    PQclear(result);
}

static void *work(void *arg)
{
    struct traffic *t = arg;
    for (long n = 0; !__atomic_load_n(&t->stop, __ATOMIC_RELAXED) && !t->error[0]; n++) {
        char name[64], several[64], request[64];
        snprintf(name, sizeof(name), "{%s%ld}", t->prefix, n % 50);
        snprintf(several, sizeof(several), "{%sx%ld,%sy}", t->prefix, n % 5, t->prefix);
        snprintf(request, sizeof(request), "{%s%ld}", t->prefix, n);
        note(t, RUN(t->conn, "acquire", "{default}", name, "{task}", "{holder}", "{1}", request, "{NULL}"));
        note(t, RUN(t->conn, "check", "{default}", name, "{1}"));
        note(t, RUN(t->conn, "acquire_all", "default", several, "task", "holder", "1", request, "NULL"));
        note(t, RUN(t->conn, "renew", "{default}", name, "{1}", "{1}", "t"));
        note(t, RUN(t->conn, "release", "{default}", name, "{1}"));
        note(t, RUN(t->conn, "write", "{default}", name, "{1}", "{1}", "{x}", "{NULL}"));
        note(t, RUN(t->conn, "break", "default", t->prefix, "1", "me", "why"));
    }
    return NULL;
}

/* Two servers of schema 1 at work while the schema is brought up to date, and its functions are then replaced again and again: no
 * call of theirs fails but by a lock. (With functions dropped and made anew some do: "cache lookup failed for function".) */
static void an_upgrade_fails_no_call(void **state)
{
    (void)state;
    char *dsn = t_database_of_schema_1();
    struct traffic traffic[2] = {{.prefix = "a"}, {.prefix = "b"}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        traffic[i].conn = server_of_schema_1(dsn);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &traffic[i]), 0);
    }
    PGconn *conn = t_connect(dsn);
    upgrade(dsn);
    int64_t give_up = t_now_ms() + 30000;
    for (int i = 0; i < 15 || (__atomic_load_n(&traffic[0].calls, __ATOMIC_RELAXED) < 300 && t_now_ms() < give_up); i++)
        t_sql(conn, "BEGIN; %s; COMMIT", hf_functions_sql);
    for (int i = 0; i < 2; i++) {
        __atomic_store_n(&traffic[i].stop, true, __ATOMIC_RELAXED);
        pthread_join(threads[i], NULL);
        PQfinish(traffic[i].conn);
        printf("%ld calls, %ld found something locked\n", traffic[i].calls, traffic[i].locked);
        assert_string_equal(traffic[i].error, "");
        assert_true(traffic[i].calls > 20);
        assert_true(traffic[i].locked * 4 < traffic[i].calls);
    }
    PQfinish(conn);
}

/* ------------------------------------------------------------------------------------------------ beside new servers */

static int64_t new_acquire(PGconn *conn, const char *resource, const char *request_id, const char *server, int wait_ms)
{
    return t_sql_int(
        conn,
        "SELECT outcome FROM holdfast.acquire_batch('{default}', '{%s}', '{t}', '{h}', '{60000}', '{%s}', '{NULL}', '%s', "
        "'{t}', '{0}', '{%d}', '{0}', '{0}')",
        resource, request_id, server, wait_ms);
}

/* It respects turns and the lock delay, and gives no turn, since it would tell nobody. */
static void old_and_new_servers_share_a_resource(void **state)
{
    (void)state;
    char *dsn = t_database_of_schema_1();
    PGconn *old = server_of_schema_1(dsn);
    assert_int_equal(acquire(old, "r", "60000", "o1"), ST_GRANTED);
    upgrade(dsn);
    PGconn *new = ts_session(dsn);
    assert_int_equal(new_acquire(new, "r", "n1", "server1", 60000), ST_HELD);
    assert_int_equal(taken(RUN(old, "release", "{default}", "{r}", "{1}"), 1), ST_FREED);
    assert_int_equal(t_sql_int(new, "SELECT count(*) FROM holdfast.waiter WHERE turn_until IS NOT NULL"), 0);
    assert_int_equal(new_acquire(new, "r", "n1", "server1", 60000), ST_GRANTED);
    assert_int_equal(new_acquire(new, "r", "n2", "server2", 60000), ST_HELD);
    assert_string_equal(t_sql(new, "SELECT next_server FROM holdfast.release_batch('{default}', '{r}', '{2}', '{f}')"), "server2");
    t_sql(new, "UPDATE holdfast.waiter SET turn_until = now() + interval '1 hour'"); /* so that it isn't over by now */
    PGresult *result = RUN(old, "acquire", "{default}", "{r}", "{task}", "{holder}", "{60000}", "{o2}", "{NULL}");
    assert_int_equal(ts_int(result, 0, 1), ST_HELD);
    assert_string_equal(PQgetvalue(result, 0, 4), "");
    PQclear(result);
    t_sql(new, "UPDATE holdfast.waiter SET turn_until = now() - interval '1 hour'");
    assert_int_equal(acquire(old, "r", "60000", "o2"), ST_GRANTED);
    assert_int_equal(new_acquire(new, "r", "n3", "server2", 60000), ST_HELD);
    assert_int_equal(taken(RUN(old, "break", "default", "r", "3", "me", "why"), 0), ST_BREAK_DONE);
    assert_int_equal(t_sql_int(new, "SELECT count(*) FROM holdfast.waiter WHERE turn_until IS NOT NULL"), 0);
    PQfinish(old);
    PQfinish(new);
}

/* What it doesn't know is told to it as BUSY, which it tries again later, and never reads as nonsense. */
static void policies_are_busy_to_old_servers(void **state)
{
    (void)state;
    char *dsn = t_database_of_schema_1();
    PGconn *old = server_of_schema_1(dsn);
    upgrade(dsn);
    PGconn *conn = t_connect(dsn);
    t_sql(conn, "SELECT holdfast.set_namespace('default', NULL, 1000, 70000, NULL, 2, NULL, 3, NULL, 'me')");
    assert_int_equal(acquire(old, "r", "999", "q1"), ST_BUSY);
    assert_int_equal(acquire(old, "r", "70001", "q1"), ST_BUSY);
    assert_int_equal(acquire(old, "r", "70000", "q1"), ST_GRANTED);
    assert_int_equal(acquire(old, "s", "70000", "q2"), ST_GRANTED);
    assert_int_equal(acquire(old, "t", "70000", "q3"), ST_BUSY);
    assert_int_equal(taken(RUN(old, "acquire_all", "default", "{t,u}", "task", "holder", "70000", "q4", "NULL"), 1), ST_BUSY);
    assert_int_equal(taken(RUN(old, "write", "{default}", "{r}", "{1}", "{1}", "{abcd}", "{NULL}"), 1), ST_BUSY);
    assert_int_equal(taken(RUN(old, "write", "{default}", "{r}", "{1}", "{1}", "{abc}", "{NULL}"), 1), ST_WRITTEN);
    PGresult *result = RUN(old, "renew", "{default}", "{r}", "{1}", "{80000}", "f");
    assert_int_equal(ts_int(result, 0, 1), ST_RENEWED);
    assert_true(ts_int(result, 0, 2) <= 70000);
    PQclear(result);
    PQfinish(old);
    PQfinish(conn);
}

#define TEST(function) cmocka_unit_test_teardown(function, t_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(old_servers_go_on),
        TEST(upgraded_is_as_made_new),
        TEST(a_large_audit_is_left_as_it_is),
        TEST(an_upgrade_fails_no_call),
        TEST(old_and_new_servers_share_a_resource),
        TEST(policies_are_busy_to_old_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
