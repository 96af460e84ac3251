/*
 * schema_test.c - what the migrations make: the golden dump, privileges, keys, partitions, HOT updates; and what the build embeds.
 *
 * After a deliberate change of the schema, write the golden dump anew:
 *     HOLDFAST_GOLDEN=write build/dev/tests/store/schema_test
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/schema.h"
#include "store/calls.h"
#include "store/store.h"

#define GOLDEN T_SOURCE_DIR "/schema/golden.sql"

/* Lines that change with pg_dump's version or from run to run. */
static bool says_nothing(const char *line)
{
    static const char *const starts[] = {"\\restrict", "\\unrestrict", "-- Dumped", "--\n", "SET ", "SELECT pg_catalog.set_config"};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (strncmp(line, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return *line == '\n';
}

static char *stripped(char *dump)
{
    char *to = dump;
    for (char *line = dump; *line;) {
        char *end = strchr(line, '\n');
        size_t len = end ? (size_t)(end - line) + 1 : strlen(line);
        if (!says_nothing(line)) {
            memmove(to, line, len);
            to += len;
        }
        line += len;
    }
    *to = '\0';
    return dump;
}

/* The first line in which they differ. */
static const char *difference(const char *want, const char *got)
{
    size_t same = 0, line = 1, start = 0;
    for (; want[same] && want[same] == got[same]; same++) {
        if (want[same] == '\n') {
            line++;
            start = same + 1;
        }
    }
    return t_printf("line %zu: golden \"%.*s\", now \"%.*s\"", line, (int)strcspn(want + start, "\n"), want + start,
                    (int)strcspn(got + start, "\n"), got + start);
}

static void the_dump_is_golden(void **state)
{
    (void)state;
    char *dsn = ts_schema();
    PGconn *conn = t_connect(dsn);
    int major = PQserverVersion(conn) / 10000;
    PQfinish(conn);
    if (major != 15)
        skip(); /* pg_dump words things differently from version to version */
    const char *const argv[] = {
        "pg_dump", "--schema-only", "--no-owner", "--schema=holdfast", "--exclude-table=holdfast.audit_[0-9]*", "-d", dsn, NULL};
    struct t_result dump = t_run(argv, NULL, 30000);
    assert_int_equal(dump.status, 0);
    stripped(dump.out);
    const char *mode = getenv("HOLDFAST_GOLDEN");
    if (mode && strcmp(mode, "write") == 0)
        t_write_file(GOLDEN, dump.out);
    char *golden = t_read_file(GOLDEN);
    if (strcmp(golden, dump.out) != 0)
        fail_msg("the schema is not schema/golden.sql: %s. If that is meant: HOLDFAST_GOLDEN=write", difference(golden, dump.out));
}

static void migrations_are_numbered_and_say_who_still_works(void **state)
{
    (void)state;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    assert_true(hf_n_migrations >= 1);
    assert_string_equal(hf_migrations[0].name, "init");
    for (size_t i = 0; i < hf_n_migrations; i++) {
        assert_int_equal(hf_migrations[i].version, i + 1);
        assert_in_range(hf_migrations[i].compatible_from, 1, hf_migrations[i].version);
        assert_non_null(strstr(hf_migrations[i].sql, t_printf("-- compatible_from: %d\n", hf_migrations[i].compatible_from)));
    }
    for (const char *p = hf_functions_sql; *p; p++)
        hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    assert_string_equal(hf_functions_hash, t_printf("%016" PRIx64, hash));
}

static int embed(const char *name, const char *text, char **err)
{
    char *dir = t_tmpdir();
    char *file = t_printf("%s/%s", dir, name);
    t_write_file(file, text);
    const char *const argv[] = {T_BUILD_DIR "/bin/hf_embed", t_printf("%s/out.c", dir), file, "--", NULL};
    struct t_result result = t_run(argv, NULL, 10000);
    *err = result.err;
    return result.status;
}

static void the_build_refuses_bad_migrations(void **state)
{
    (void)state;
    char *err;
    assert_int_equal(embed("0001_init.sql", "-- compatible_from: 1\nSELECT '\"\\?'", &err), 0);
    assert_int_equal(embed("0002_next.sql", "-- compatible_from: 1\n", &err), 1);
    assert_non_null(strstr(err, "without gaps"));
    assert_int_equal(embed("1_init.sql", "-- compatible_from: 1\n", &err), 1);
    assert_int_equal(embed("0001_init.sql", "-- a comment\n", &err), 1);
    assert_non_null(strstr(err, "compatible_from"));
    assert_int_equal(embed("0001_init.sql", "-- compatible_from: 2\n", &err), 1);
    assert_int_equal(embed("0001_init.sql", "-- compatible_from: 0\n", &err), 1);
}

static void functions_can_be_made_again(void **state)
{
    (void)state;
    PGconn *conn = ts_session(ts_schema());
    assert_int_equal(ts_acquire(conn, "r", 60000, "q"), ST_GRANTED);
    t_sql(conn, "%s", hf_functions_sql);
    assert_int_equal(ts_acquire(conn, "r", 60000, "q"), ST_REPEATED);
    assert_int_equal(t_sql_int(conn, "SELECT schema_version FROM holdfast.stats()"), (int64_t)hf_n_migrations);
    assert_int_equal(t_sql_int(conn, "SELECT leases_live FROM holdfast.stats()"), 1);
    PQfinish(conn);
}

static void nothing_is_for_everybody(void **state)
{
    (void)state;
    PGconn *conn = t_connect(ts_schema());
    assert_string_equal(
        t_sql(conn, "SELECT string_agg(oid::regprocedure::text, ' ') FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace "
                    "AND has_function_privilege('public', oid, 'EXECUTE')"),
        "");
    assert_string_equal(
        t_sql(conn, "SELECT string_agg(oid::regclass::text, ' ') FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace "
                    "AND relkind IN ('r', 'p') AND has_table_privilege('public', oid, 'SELECT,INSERT,UPDATE,DELETE')"),
        "");
    assert_string_equal(t_sql(conn, "SELECT has_schema_privilege('public', 'holdfast', 'USAGE')"), "f");
    /* Functions with their owner's rights look names up where no caller can put others. */
    assert_string_equal(
        t_sql(conn, "SELECT string_agg(oid::regprocedure::text, ' ') FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace "
                    "AND prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"),
        "");
    assert_string_equal(t_sql(conn,
                              "SELECT string_agg(p.proname, ' ') FROM pg_proc p WHERE pronamespace = 'holdfast'::regnamespace "
                              "AND has_function_privilege('holdfast_user', oid, 'EXECUTE')"),
                        "begin_operation complete_operation emit guard");
    PQfinish(conn);
}

static void keys_begin_with_the_namespace(void **state)
{
    (void)state;
    PGconn *conn = t_connect(ts_schema());
    assert_string_equal(
        t_sql(conn, "SELECT string_agg(c.relname || '.' || a.attname, ' ') FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
                    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
                    "WHERE c.relnamespace = 'holdfast'::regnamespace AND i.indisprimary AND a.attname <> 'namespace' "
                    "AND c.relname NOT IN ('namespace', 'migration', 'identity', 'principal', 'principal_grant', 'denial')"),
        "");
    /* Names sort by their bytes, whatever the machine. */
    assert_string_equal(t_sql(conn, "SELECT string_agg(c.relname || '.' || a.attname, ' ') FROM pg_class c "
                                    "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'holdfast'::regnamespace "
                                    "AND c.relkind IN ('r', 'p') AND a.attname IN ('namespace', 'resource', 'request_id') "
                                    "AND a.attcollation <> 'pg_catalog.\"C\"'::regcollation"),
                        "");
    PQfinish(conn);
}

static void updates_in_place_are_hot(void **state)
{
    (void)state;
    /* A cluster of its own: a transaction that is open in any other database keeps PostgreSQL from pruning in this one. */
    const char *dsn = t_pg_dsn(t_pg_start(NULL));
    ts_schema_into(dsn);
    PGconn *conn = ts_session(dsn);
    t_sql(conn, "SELECT count(*) FROM holdfast.acquire_batch(array_fill('default'::text, '{200}'), ARRAY(SELECT 'k' || g FROM "
                "generate_series(1, 200) g), array_fill('task'::text, '{200}'), array_fill('holder'::text, '{200}'), "
                "array_fill(60000::bigint, '{200}'), array_fill('q'::text, '{200}'), array_fill(NULL::text, '{200}'))");
    for (int turn = 0; turn < 20; turn++) {
        int64_t updated[2], hot[2];
        t_sql(conn, "BEGIN");
        for (int after = 0; after < 2; after++) {
            if (after)
                t_sql(conn,
                      "SELECT count(*) FROM holdfast.renew_batch(array_fill('default'::text, '{200}'), ARRAY(SELECT 'k' || g FROM "
                      "generate_series(1, 200) g), array_fill(1::bigint, '{200}'), array_fill(90000::bigint, '{200}'), false)");
            updated[after] = t_sql_int(conn, "SELECT pg_stat_get_xact_tuples_updated('holdfast.lease'::regclass)");
            hot[after] = t_sql_int(conn, "SELECT pg_stat_get_xact_tuples_hot_updated('holdfast.lease'::regclass)");
        }
        t_sql(conn, "COMMIT");
        assert_int_equal(updated[1] - updated[0], 200);
        /* The first grant makes rows longer than they were made: some move to a page with more room, once. */
        if (turn >= 3)
            assert_true(hot[1] - hot[0] >= 198);
    }
    PQfinish(conn);
}

static void a_missing_partition_is_told_and_made(void **state)
{
    (void)state;
    char *dsn = ts_schema();
    PGconn *conn = ts_session(dsn), *other = t_connect(dsn);
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.make_partitions(1)"), 0); /* the functions' script has made them */
    char *month = t_sql(conn, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')");
    t_sql(conn, "DROP TABLE holdfast.audit_%s", month);
    assert_int_equal(ts_acquire(conn, "r", 60000, "q"), ts_state("23514"));
    assert_int_equal(t_sql_int(conn, "SELECT holdfast.make_partitions(3)"), 3);
    assert_int_equal(ts_acquire(conn, "r", 60000, "q"), ST_GRANTED);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.audit_%s", month), 1);
    /* Made beside a transaction that has written to the audit: neither waits. */
    t_sql(conn, "BEGIN");
    assert_int_equal(ts_acquire(conn, "s", 60000, "q"), ST_GRANTED);
    t_sql(other, "SET lock_timeout = '5s'");
    assert_int_equal(t_sql_int(other, "BEGIN; SELECT holdfast.make_partitions(5)"), 2);
    assert_int_equal(ts_release(conn, "s", 1), ST_FREED);
    t_sql(other, "COMMIT");
    t_sql(conn, "COMMIT");
    PQfinish(conn);
    PQfinish(other);
}

static void the_same_database_is_left_alone(void **state)
{
    (void)state;
    PGconn *conn = ts_session(ts_schema());
    assert_string_equal(t_sql(conn, "SELECT holdfast.attach()"), "f");
    assert_int_equal(ts_acquire(conn, "r", 60000, "q"), ST_GRANTED);
    assert_string_equal(t_sql(conn, "SELECT holdfast.attach()"), "f");
    assert_int_equal(ts_check(conn, "r", 1), ST_CURRENT);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.identity"), 1);
    PQfinish(conn);
}

static void another_cluster_or_timeline_ends_leases_and_raises_floors(void **state)
{
    static const char *const changes[] = {"system_identifier = system_identifier + 1", "timeline = 'FFFFFFFF'",
                                          "system_identifier = 1, commits_replicated = true"};
    (void)state;
    PGconn *conn = ts_session(ts_schema());
    int64_t token = 1;
    t_sql(conn, "SELECT holdfast.attach(); INSERT INTO holdfast.namespace (name, fence_floor) VALUES ('high', 5000000); "
                "UPDATE holdfast.namespace SET max_leases = 1");
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        assert_int_equal(ts_acquire(conn, "r", 60000, t_printf("q%zu", i)), ST_GRANTED);
        assert_int_equal(t_sql_int(conn, "SELECT token FROM holdfast.lease"), token);
        int64_t high = t_sql_int(conn, "SELECT fence_floor FROM holdfast.namespace WHERE name = 'high'");
        t_sql(conn, "UPDATE holdfast.identity SET %s", changes[i]);
        assert_string_equal(t_sql(conn, "SELECT holdfast.attach()"), "t");
        assert_string_equal(t_sql(conn, "SELECT holdfast.attach()"), "f");
        assert_int_equal(ts_renew(conn, "r", token, 60000, false), ST_BROKEN);
        assert_int_equal(ts_write(conn, "r", token, "x"), ST_NOT_HELD);
        assert_int_equal(ts_acquire(conn, "r", 60000, t_printf("q%zu", i)), ST_ENDED);
        assert_int_equal(ts_break(conn, "r", token), ST_BREAK_DONE); /* and that raises the fence too */
        assert_int_equal(t_sql_int(conn, "SELECT fence FROM holdfast.resource"), token + (1 << 20) + 1);
        assert_int_equal(t_sql_int(conn, "SELECT fence_floor FROM holdfast.namespace WHERE name = 'high'"), high + (1 << 20));
        assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE kind = 'break' AND token = %" PRId64, token),
                         2);
        token += (1 << 20) + 2;
    }
    /* Where commits wait for the standby that is promoted, a new timeline has lost nothing. */
    assert_int_equal(ts_acquire(conn, "r", 60000, "last"), ST_GRANTED);
    t_sql(conn, "UPDATE holdfast.identity SET timeline = 'FFFFFFFE', commits_replicated = true");
    assert_string_equal(t_sql(conn, "SELECT holdfast.attach()"), "f");
    assert_int_equal(ts_check(conn, "r", token), ST_CURRENT);
    assert_string_not_equal(t_sql(conn, "SELECT timeline FROM holdfast.identity"), "FFFFFFFE");
    PQfinish(conn);
}

/* Of two who see the change at once, one acts and the other finds it done. */
static void two_attach_at_once(void **state)
{
    (void)state;
    char *dsn = ts_schema();
    PGconn *a = ts_session(dsn), *b = ts_session(dsn), *asker = t_connect(dsn);
    t_sql(a, "SELECT holdfast.attach()");
    t_sql(a, "UPDATE holdfast.identity SET timeline = 'FFFFFFFF'");
    assert_string_equal(t_sql(a, "BEGIN; SELECT holdfast.attach()"), "t");
    ts_send_and_block(b, asker, "SELECT CASE WHEN holdfast.attach() THEN 1 ELSE 0 END");
    t_sql(a, "COMMIT");
    assert_int_equal(ts_finish(b, 0), 0);
    assert_int_equal(t_sql_int(a, "SELECT fence_floor FROM holdfast.namespace WHERE name = 'default'"), 1 << 20);
    PQfinish(a);
    PQfinish(b);
    PQfinish(asker);
}

#define TEST(function) cmocka_unit_test_teardown(function, t_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_dump_is_golden),
        TEST(migrations_are_numbered_and_say_who_still_works),
        TEST(the_build_refuses_bad_migrations),
        TEST(functions_can_be_made_again),
        TEST(nothing_is_for_everybody),
        TEST(keys_begin_with_the_namespace),
        TEST(updates_in_place_are_hot),
        TEST(a_missing_partition_is_told_and_made),
        TEST(the_same_database_is_left_alone),
        TEST(another_cluster_or_timeline_ends_leases_and_raises_floors),
        TEST(two_attach_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
