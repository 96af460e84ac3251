/*
 * server_migrate_test.c - migrations: from nothing, from a part, by two at once, and what is refused.
 */
#include "harness/harness.h"

#include <pthread.h>
#include <string.h>

#include "store/migrate.h"

#define FIRST                                                                                                                      \
    "CREATE SCHEMA IF NOT EXISTS holdfast;"                                                                                        \
    "CREATE TABLE holdfast.migration (version int PRIMARY KEY, name text, compatible_from int, applied_at timestamptz)"
#define ANSWER(n) "CREATE OR REPLACE FUNCTION holdfast.answer() RETURNS int LANGUAGE sql AS 'SELECT " #n "';"

static const struct hf_migration known[] = {
    {1, 1, "init", FIRST},
    {2, 1, "more", "CREATE TABLE holdfast.more (i int); INSERT INTO holdfast.more VALUES (1)"},
    {3, 3, "break", "CREATE TABLE holdfast.third (i int)"},
};

static struct st_migrations set_of(size_t n, const char *functions, const char *hash)
{
    return (struct st_migrations){known, n, functions, hash};
}

static void migrate_ok(const char *dsn, const struct st_migrations *set, struct st_migrate_report *report)
{
    struct st_problem problem = {""};
    if (st_migrate(dsn, set, report, &problem) != ST_MIGRATE_OK)
        fail_msg("%s", problem.text);
}

static void refused(const char *dsn, const struct st_migrations *set, enum st_migrate_status want, const char *part,
                    const char *other_part)
{
    struct st_problem problem = {""};
    assert_int_equal(st_migrate(dsn, set, NULL, &problem), want);
    if (!strstr(problem.text, part) || !strstr(problem.text, other_part))
        fail_msg("neither \"%s\" nor \"%s\" may be missing: %s", part, other_part, problem.text);
}

static void test_step_by_step(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct st_migrate_report report;
    struct st_migrations one = set_of(1, ANSWER(1), "a"), two = set_of(2, ANSWER(2), "b"), changed = set_of(2, ANSWER(3), "c");

    migrate_ok(dsn, &one, &report);
    assert_int_equal(report.version_before, 0);
    assert_int_equal(report.version, 1);
    assert_true(report.functions_replaced);
    PGconn *conn = t_connect(dsn);
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.answer()"), 1);

    migrate_ok(dsn, &two, &report);
    assert_int_equal(report.version_before, 1);
    assert_int_equal(report.version, 2);
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.answer()"), 2);
    assert_string_equal(t_sql(conn,
                              "SELECT string_agg(version || name || compatible_from, ' ' ORDER BY version) FROM holdfast.migration "
                              "WHERE applied_at > now() - interval '1 minute'"),
                        "1init1 2more1");

    migrate_ok(dsn, &two, &report);
    assert_false(report.functions_replaced);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.more"), 1);

    migrate_ok(dsn, &changed, &report);
    assert_true(report.functions_replaced);
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.answer()"), 3);
    PQfinish(conn);
}

static void test_newer_schema(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct st_migrate_report report;
    struct st_migrations one = set_of(1, ANSWER(1), "a"), two = set_of(2, ANSWER(2), "b"), three = set_of(3, ANSWER(3), "c");

    migrate_ok(dsn, &two, NULL);
    /* Version 2 says that servers of version 1 go on working: they do, and leave its functions alone. */
    migrate_ok(dsn, &one, &report);
    assert_int_equal(report.version, 2);
    assert_false(report.functions_replaced);
    PGconn *conn = t_connect(dsn);
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.answer()"), 2);

    migrate_ok(dsn, &three, NULL);
    refused(dsn, &one, ST_MIGRATE_REFUSED, "version 3 (break)", "this server's is 1");
    refused(dsn, &two, ST_MIGRATE_REFUSED, "version 3 and above", "this server's is 2");
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.answer()"), 3);
    PQfinish(conn);
}

static void test_strange_history(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct st_migrations two = set_of(2, ANSWER(2), "b");
    PGconn *conn = t_connect(dsn);

    t_sql(conn, "CREATE SCHEMA holdfast CREATE TABLE mine (i int)");
    refused(dsn, &two, ST_MIGRATE_REFUSED, "holdfast.migration", "another database");
    t_sql(conn, "DROP TABLE holdfast.mine");
    migrate_ok(dsn, &two, NULL); /* an empty schema is one that an administrator made for us */

    t_sql(conn, "UPDATE holdfast.migration SET name = 'other' WHERE version = 2");
    refused(dsn, &two, ST_MIGRATE_REFUSED, "named other", "as more");
    t_sql(conn, "DELETE FROM holdfast.migration WHERE version = 1");
    refused(dsn, &two, ST_MIGRATE_REFUSED, "not whole", "version 2 follows version 0");
    PQfinish(conn);
}

static void test_failure_leaves_nothing(void **state)
{
    (void)state;
    char *dsn = t_database();
    const struct hf_migration bad[] = {known[0], {2, 1, "bad", "CREATE TABLE holdfast.half (i int); SELECT 1/0"}};
    const struct hf_migration ends[] = {known[0], {2, 1, "ends", "CREATE TABLE holdfast.half (i int); ROLLBACK"}};
    struct st_migrations set = {bad, 2, ANSWER(1), "a"}, ending = {ends, 2, ANSWER(1), "a"}, two = set_of(2, ANSWER(2), "b");
    struct st_migrations functions = set_of(2, ANSWER(4) "SELECT nonsense", "d");
    struct st_migrate_report report;

    refused(dsn, &set, ST_MIGRATE_FAILED, "migration 2 (bad)", "division by zero");
    refused(dsn, &ending, ST_MIGRATE_FAILED, "migration 2 (ends)", "ends its transaction");
    PGconn *conn = t_connect(dsn);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.migration"), 1);
    assert_string_equal(t_sql(conn, "SELECT to_regclass('holdfast.half')"), "");
    migrate_ok(dsn, &two, NULL); /* goes on where it stopped */

    refused(dsn, &functions, ST_MIGRATE_FAILED, "replacing the SQL functions", "nonsense");
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.answer()"), 2);
    migrate_ok(dsn, &two, &report); /* and their hash is still on record */
    assert_false(report.functions_replaced);
    PQfinish(conn);
}

struct racer {
    pthread_t thread;
    const char *dsn;
    enum st_migrate_status status;
    struct st_problem problem;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct st_migrations three = set_of(3, "SELECT pg_sleep(0.05);" ANSWER(1), "a");
    racer->status = st_migrate(racer->dsn, &three, NULL, &racer->problem);
    return NULL;
}

static void test_together(void **state)
{
    (void)state;
    struct racer racers[6];
    char *dsn = t_database();

    for (size_t i = 0; i < 6; i++) {
        racers[i] = (struct racer){.dsn = dsn};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (size_t i = 0; i < 6; i++)
        pthread_join(racers[i].thread, NULL);
    for (size_t i = 0; i < 6; i++) {
        if (racers[i].status != ST_MIGRATE_OK)
            fail_msg("%s", racers[i].problem.text);
    }
}

static void test_embedded(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct st_migrate_report report;

    migrate_ok(dsn, NULL, &report);
    assert_int_equal(report.version, (int)hf_n_migrations);
    assert_true(report.functions_replaced);
    migrate_ok(dsn, NULL, &report);
    assert_false(report.functions_replaced);
    PGconn *conn = t_connect(dsn);
    assert_string_equal(t_sql(conn, "SELECT holdfast.clock() <= clock_timestamp()"), "t");
    t_sql(conn, "INSERT INTO holdfast.migration (version, name, compatible_from) VALUES (%zu, 'future', %zu)", hf_n_migrations + 1,
          hf_n_migrations + 1);
    refused(dsn, NULL, ST_MIGRATE_REFUSED, "future", "use a newer holdfastd");
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_step_by_step, t_teardown),
        cmocka_unit_test_teardown(test_newer_schema, t_teardown),
        cmocka_unit_test_teardown(test_strange_history, t_teardown),
        cmocka_unit_test_teardown(test_failure_leaves_nothing, t_teardown),
        cmocka_unit_test_teardown(test_together, t_teardown),
        cmocka_unit_test_teardown(test_embedded, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
