/*
 * policy_test.c - namespaces, their policies and quotas in SQL, where random work alone cannot look: several sessions at once,
 * limits set on what is in use, counts that are wrong, values out of range; and the pages of the audit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/sessions.h"
#include "store/store.h"

/* The outcome of create_namespace or set_namespace; `policies` are the eight, in SQL. */
static int64_t policies(const char *function, const char *name, const char *eight)
{
    return t_sql_int(db.a, "SELECT outcome FROM holdfast.%s('%s', %s, 'me')", function, name, eight);
}

/* As servers of this schema ask. */
#define ACQUIRE                                                                                                                    \
    "SELECT * FROM holdfast.acquire_batch('{default}', '{%s}', '{t}', '{h}', '{%d}', '{%s}', '{NULL}', 'server', '{t}', '{0}', "   \
    "'{0}', '{0}', '{0}')"

static int64_t acquire(const char *resource, int ttl_ms, const char *request_id)
{
    return t_sql_int(db.a, "SELECT outcome FROM (" ACQUIRE ") a", resource, ttl_ms, request_id);
}

#define WRITE "SELECT * FROM holdfast.write_batch('{default}', '{%s}', '{1}', '{0}', '{%s}', '{NULL}', true)"

static int64_t write_value(const char *resource, const char *value)
{
    return t_sql_int(db.a, "SELECT outcome FROM (" WRITE ") w", resource, value);
}

/* ------------------------------------------------------------------------------------------------ namespaces */

static void values_out_of_range_are_refused(void **state)
{
    static const char *const bad[] = {
        "-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL",    "60001, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
        "NULL, 99, NULL, NULL, NULL, NULL, NULL, NULL",    "NULL, NULL, 86400001, NULL, NULL, NULL, NULL, NULL",
        "NULL, NULL, NULL, NULL, -1, NULL, NULL, NULL",    "NULL, NULL, NULL, NULL, NULL, -1, NULL, NULL",
        "NULL, NULL, NULL, NULL, NULL, NULL, -1, NULL",    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0",
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, 36501",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_string_equal(t_sqlstate(db.a, "SELECT holdfast.create_namespace('new', %s, 'me')", bad[i]), "23514");
        assert_string_equal(t_sqlstate(db.a, "SELECT holdfast.set_namespace('default', %s, 'me')", bad[i]), "23514");
    }
    assert_string_equal(
        t_sqlstate(db.a, "SELECT holdfast.set_namespace('default', 9999999999, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'me')"),
        "22003");
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.namespace"), 1);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.audit"), 0);
}

static void two_make_one_namespace(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN");
    assert_int_equal(policies("create_namespace", "n", "1, NULL, NULL, NULL, NULL, NULL, NULL, NULL"), ST_FOUND);
    t_sql(db.b, "SET lock_timeout = '10s'");
    assert_true(PQsendQuery(
        db.b, "SELECT outcome FROM holdfast.create_namespace('n', 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'you')"));
    t_sql(db.a, "COMMIT");
    assert_int_equal(ts_finish(db.b, 0), ST_FOUND); /* the same policies: as if it had been a repeat */
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.audit WHERE kind = 'policy'"), 1);
    t_sql(db.a, "UPDATE holdfast.namespace SET retired_at = now() WHERE name = 'n'");
    assert_int_equal(policies("create_namespace", "n", "1, NULL, NULL, NULL, NULL, NULL, NULL, NULL"), ST_CONFLICT);
    assert_int_equal(policies("set_namespace", "n", "1, NULL, NULL, NULL, NULL, NULL, NULL, NULL"), ST_NO_SUCH_NAMESPACE);
}

static void changes_are_audited_once(void **state)
{
    (void)state;
    assert_int_equal(policies("set_namespace", "default", "500, NULL, NULL, true, 7, NULL, NULL, NULL"), ST_FOUND);
    assert_int_equal(policies("set_namespace", "default", "500, NULL, NULL, true, 7, NULL, NULL, NULL"), ST_FOUND);
    assert_string_equal(t_sql(db.a, "SELECT string_agg(actor || ': ' || detail, '; ') FROM holdfast.audit WHERE kind = 'policy'"),
                        "me: audit_writes false -> true, lock_delay_ms 0 -> 500, max_leases 0 -> 7");
}

static void namespaces_are_listed_by_their_bytes(void **state)
{
    (void)state;
    static const char none[] = "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL";
    assert_int_equal(policies("create_namespace", "\xc3\xa9", none), ST_FOUND);
    assert_int_equal(policies("create_namespace", "Z", none), ST_FOUND);
    assert_int_equal(policies("create_namespace", "a", none), ST_FOUND);
    t_sql(db.a, "UPDATE holdfast.namespace SET retired_at = now(), fence_floor = 9 WHERE name = 'a'");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(name || retired || fence_floor, ' ') FROM holdfast.list_namespaces('', 10)"),
                        "Zfalse0 atrue9 defaultfalse0 \xc3\xa9"
                        "false0");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(name, ' ') FROM holdfast.list_namespaces('Z', 1)"), "a default");
    assert_string_equal(t_sql(db.a, "SELECT string_agg(name, ' ') FROM holdfast.list_namespaces('\xc3\xa9', 1)"), "");
    /* What is made without policies has those of the table's defaults. */
    assert_int_equal(t_sql_int(db.a, "SELECT count(DISTINCT (lock_delay_ms, min_ttl_ms, max_ttl_ms, audit_writes, max_leases, "
                                     "max_waiters, max_value_bytes, audit_keep_days)) FROM holdfast.namespace"),
                     1);
}

/* ------------------------------------------------------------------------------------------------ lock delay */

static void a_lock_delay_follows_expiry_only(void **state)
{
    (void)state;
    policies("set_namespace", "default", "500, NULL, NULL, NULL, NULL, NULL, NULL, NULL");
    assert_int_equal(acquire("r", 1000, "q1"), ST_GRANTED);
    ts_set_clock(db.a, T0 + 1499);
    assert_string_equal(
        t_sql(db.a, "SELECT concat_ws('|', outcome, token, holder, remaining_ms) FROM (" ACQUIRE ") a", "r", 1000, "q2"), "3|1||1");
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.sweep(10)"), 0); /* or the delay would end */
    assert_int_equal(ts_renew(db.a, "r", 1, 1000, false), ST_EXPIRED);
    ts_set_clock(db.a, T0 + 1500);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.sweep(10)"), 1);
    assert_int_equal(acquire("r", 1000, "q2"), ST_GRANTED);
    assert_int_equal(ts_release(db.a, "r", 2), ST_FREED);
    assert_int_equal(acquire("r", 1000, "q3"), ST_GRANTED);
    assert_int_equal(ts_break(db.a, "r", 3), ST_BREAK_DONE);
    assert_int_equal(acquire("r", 1000, "q4"), ST_GRANTED);
}

/* ------------------------------------------------------------------------------------------------ quotas */

/* Two sessions on different resources of one full namespace: the sum is exact. */
static void two_sessions_share_a_quota(void **state)
{
    (void)state;
    PGconn *const both[] = {db.a, db.b};
    int granted = 0, refused = 0;
    policies("set_namespace", "default", "NULL, NULL, NULL, NULL, 30, NULL, 300, NULL");
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 2; i++)
            assert_true(PQsendQuery(both[i], t_printf(ACQUIRE, t_printf("k%d-%d", round, i), 60000, t_printf("%d-%d", round, i))));
        for (int i = 0; i < 2; i++) {
            int64_t got = ts_finish(both[i], 1);
            assert_true(got == ST_GRANTED || got == ST_QUOTA || got == ts_state("55P03"));
            granted += got == ST_GRANTED;
            refused += got == ST_QUOTA;
        }
    }
    assert_int_equal(granted, 30);
    assert_true(refused > 0);
    assert_int_equal(t_sql_int(db.a, "SELECT leases FROM holdfast.usage"), 30);
    int written = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2; i++)
            assert_true(PQsendQuery(both[i], t_printf(WRITE, t_printf("k%d-%d", round % 10, i), t_printf("%0*d", 2 * round, 0))));
        for (int i = 0; i < 2; i++) {
            int64_t got = ts_finish(both[i], 1);
            assert_true(got == ST_WRITTEN || got == ST_QUOTA || got == ST_NOT_HELD || got == ts_state("55P03"));
            written += got == ST_WRITTEN;
        }
        int64_t bytes = t_sql_int(db.a, "SELECT sum(octet_length(value)) FROM holdfast.resource_value");
        assert_true(bytes <= 300);
        assert_int_equal(t_sql_int(db.a, "SELECT value_bytes FROM holdfast.usage"), bytes);
    }
    assert_true(written > 10);
}

static void a_limit_counts_what_is_there(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(acquire(t_printf("r%d", i), 1000, "q"), ST_GRANTED);
    assert_int_equal(write_value("r0", "abcd"), ST_WRITTEN);
    policies("set_namespace", "default", "NULL, NULL, NULL, NULL, 2, NULL, 4, NULL");
    assert_string_equal(t_sql(db.a, "SELECT concat_ws('|', outcome, ttl_ms) FROM (" ACQUIRE ") a", "s", 1000, "q"), "70|2");
    assert_int_equal(acquire("r0", 1000, "q"), ST_REPEATED);
    assert_int_equal(ts_renew(db.a, "r0", 1, 1000, false), ST_RENEWED); /* whoever has one keeps it */
    assert_int_equal(ts_release(db.a, "r0", 1), ST_FREED);
    assert_int_equal(acquire("s", 1000, "q"), ST_QUOTA);
    assert_int_equal(ts_break(db.a, "r1", 1), ST_BREAK_DONE);
    assert_int_equal(acquire("s", 1000, "q"), ST_GRANTED);
    assert_int_equal(write_value("r2", "a"), ST_QUOTA);
    assert_string_equal(t_sql(db.a, "SELECT concat_ws('|', outcome, version) FROM (" WRITE ") w", "s", "a"), "70|4");
    policies("set_namespace", "default", "NULL, NULL, NULL, NULL, 0, NULL, 0, NULL");
    assert_int_equal(acquire("t", 1000, "q"), ST_GRANTED);
    assert_int_equal(write_value("r2", "abcdefgh"), ST_WRITTEN);
    /* What was granted without a limit is counted when there is one again. */
    policies("set_namespace", "default", "NULL, NULL, NULL, NULL, 4, NULL, 14, NULL");
    assert_int_equal(acquire("u", 1000, "q"), ST_GRANTED);
    assert_int_equal(acquire("v", 1000, "q"), ST_QUOTA);
    assert_int_equal(write_value("s", "abc"), ST_QUOTA);
    assert_int_equal(write_value("s", "ab"), ST_WRITTEN);
}

static void what_ran_out_makes_room(void **state)
{
    (void)state;
    policies("set_namespace", "default", "NULL, NULL, NULL, NULL, 2, NULL, NULL, NULL");
    assert_int_equal(acquire("r", 1000, "q"), ST_GRANTED);
    assert_int_equal(acquire("s", 2000, "q"), ST_GRANTED);
    assert_int_equal(acquire("t", 1000, "q"), ST_QUOTA);
    ts_set_clock(db.a, T0 + 1000);
    assert_int_equal(acquire("t", 1000, "q"), ST_GRANTED); /* r was noted as expired for it */
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.audit WHERE kind = 'expire' AND resource = 'r'"), 1);
    ts_set_clock(db.a, T0 + 1150);
    assert_int_equal(acquire("u", 1000, "q"), ST_QUOTA); /* it looked less than 200 ms ago */
    ts_set_clock(db.a, T0 + 2000);
    assert_int_equal(acquire("u", 1000, "q"), ST_GRANTED);
    /* A takeover needs no room. */
    ts_set_clock(db.a, T0 + 2050);
    assert_int_equal(acquire("t", 1000, "q2"), ST_GRANTED);
    assert_int_equal(t_sql_int(db.a, "SELECT leases FROM holdfast.usage"), 2);
}

static void the_sweeper_puts_wrong_counts_right(void **state)
{
    (void)state;
    policies("set_namespace", "default", "NULL, NULL, NULL, NULL, 2, NULL, 10, NULL");
    assert_int_equal(acquire("r", 1000, "q"), ST_GRANTED);
    assert_int_equal(write_value("r", "abc"), ST_WRITTEN);
    t_sql(db.a, "UPDATE holdfast.usage SET leases = 99, value_bytes = -5");
    assert_int_equal(acquire("s", 1000, "q"), ST_QUOTA);
    t_sql(db.a, "SELECT holdfast.sweep(10)");
    assert_string_equal(t_sql(db.a, "SELECT leases || '|' || value_bytes FROM holdfast.usage"), "1|3");
    assert_int_equal(acquire("s", 1000, "q"), ST_GRANTED);
    t_sql(db.a, "DELETE FROM holdfast.usage");
    assert_int_equal(acquire("t", 1000, "q"), ST_QUOTA);
}

/* ------------------------------------------------------------------------------------------------ the audit */

static char *ids(const char *ns, const char *resource, int64_t before, int max)
{
    return t_sql(db.a, "SELECT string_agg(id::text, ' ') FROM holdfast.audit_list('%s', '%s', %" PRId64 ", %d)", ns, resource,
                 before, max);
}

static char *wanted(const char *ns, const char *resource, int64_t before, int max)
{
    return t_sql(db.a,
                 "SELECT string_agg(id::text, ' ') FROM (SELECT id FROM holdfast.audit WHERE namespace = '%s' AND ('%s' = '' OR "
                 "resource = '%s') AND (%" PRId64 " = 0 OR id < %" PRId64 ") ORDER BY id DESC LIMIT %d) a",
                 ns, resource, resource, before, before, max + 1);
}

/* Over several partitions, and longer than what is looked at in one piece. */
static void the_audit_is_paged_from_its_end(void **state)
{
    (void)state;
    t_sql(db.a, "SELECT holdfast.make_partitions(2); INSERT INTO holdfast.namespace (name) VALUES ('rare')");
    for (int round = 0; round < 2; round++) {
        t_sql(db.a,
              "INSERT INTO holdfast.audit (namespace, resource, kind, token, at) SELECT CASE WHEN g %% 3000 = 0 THEN 'rare' ELSE "
              "'default' END, CASE WHEN g %% 5 > 0 THEN 'r' || g %% 1000 END, 'grant', g, now() + g %% 3 * interval '20 days' FROM "
              "generate_series(1, 15000) g");
        for (int64_t before = 0; before < 30000; before += 7000) {
            assert_string_equal(ids("default", "", before, 20), wanted("default", "", before, 20));
            assert_string_equal(ids("rare", "", before, 20), wanted("rare", "", before, 20));
            assert_string_equal(ids("default", "r501", before, 20), wanted("default", "r501", before, 20));
            assert_string_equal(ids("default", "none", before, 20), "");
        }
        /* And once all of it is summarized, as autovacuum does. */
        t_sql(db.a, "SELECT brin_summarize_new_values(indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
                    "WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'i' AND c.relname ~ '^audit_2'");
    }
    assert_int_equal(t_sql_int(db.a, "SELECT outcome FROM holdfast.audit_list('nowhere', '', 0, 10)"), ST_NO_SUCH_NAMESPACE);
    assert_string_equal(ids("default", "", 1, 10), "");
}

#define TEST(function, setup) cmocka_unit_test_setup_teardown(function, setup, closed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_out_of_range_are_refused, fresh),
        TEST(two_make_one_namespace, fresh),
        TEST(changes_are_audited_once, fresh),
        TEST(namespaces_are_listed_by_their_bytes, fresh),
        TEST(a_lock_delay_follows_expiry_only, own_clock),
        TEST(two_sessions_share_a_quota, fresh),
        TEST(a_limit_counts_what_is_there, own_clock),
        TEST(what_ran_out_makes_room, own_clock),
        TEST(the_sweeper_puts_wrong_counts_right, own_clock),
        TEST(the_audit_is_paged_from_its_end, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
