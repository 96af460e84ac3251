/*
 * op_purge_test.c - operations that nobody has to keep are purged, beside everything else, and nothing that is still needed; and
 * what a key costs. HOLDFAST_PURGE_KEYS=150000 for the size that the papers speak of, 300000 for the bytes of a key.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/op_calls.h"
#include "store/sessions.h"
#include "store/store.h"

#define DAY INT64_C(86400000)

static int64_t n_keys(int64_t unless_told)
{
    const char *told = getenv("HOLDFAST_PURGE_KEYS");
    return told ? strtoll(told, NULL, 10) : unless_told;
}

/* Records of type t, at once. */
static void record_many(const char *prefix, int64_t n)
{
    for (int64_t done = 0; done < n; done += 1000) {
        int64_t now = n - done < 1000 ? n - done : 1000;
        t_sql(
            db.a,
            "SELECT count(*) FROM (SELECT array_agg('%s' || to_char(g, 'FM000000000') ORDER BY g) AS keys, count(*)::int AS n FROM "
            "generate_series(%" PRId64 "::bigint, %" PRId64
            ") g) x, holdfast.op_record_batch(array_fill('default'::text, ARRAY[x.n]), "
            "x.keys, array_fill('t'::text, ARRAY[x.n]), array_fill(sha256('p'), ARRAY[x.n]), array_fill('0123456789abcdef'::bytea, "
            "ARRAY[x.n]), array_fill(''::text, ARRAY[x.n]), NULL, NULL, NULL, NULL, NULL)",
            prefix, done, done + now - 1);
    }
}

static int64_t count(const char *where)
{
    return t_sql_int(db.a, "SELECT count(*) FROM holdfast.operation WHERE %s", where);
}

/* All that is due, by calls of `portion`; returns how many calls did something. */
static int purge_all(int portion, int64_t *purged)
{
    int calls = 0;
    *purged = 0;
    for (int idle = 0; idle < 100;) {
        int64_t n = t_sql_int(db.a, "SELECT holdfast.purge_operations(%d)", portion);
        assert_in_range(n, 0, portion);
        *purged += n;
        calls += n > 0;
        idle = n > 0 ? 0 : idle + 1;
    }
    return calls;
}

/* In small batches, beside inserts that don't wait for it; of those that come meanwhile none is touched. */
static void passes_beside_inserts(void **state)
{
    const int64_t n = n_keys(15000);
    const int portion = (int)(n / 30);
    int64_t left = n, longest_purge = 0, longest_insert = 0, calls = 0, inserts = 0;
    (void)state;
    record_many("old", n);
    set_clock(T0 + 31 * DAY);
    t_sql(db.b, "SET lock_timeout = '5s'");
    while (left > 0 && calls < 1000) {
        int64_t from = t_now_ms();
        assert_true(PQsendQuery(db.a, t_printf("SELECT 1, holdfast.purge_operations(%d)", portion)));
        do {
            int64_t began = t_now_ms();
            assert_int_equal(op_record(db.b, t_printf("new%" PRId64, inserts++), "p", "x"), ST_OP_DONE);
            longest_insert = t_now_ms() - began > longest_insert ? t_now_ms() - began : longest_insert;
            assert_true(PQconsumeInput(db.a));
        } while (PQisBusy(db.a));
        int64_t purged = ts_finish(db.a, 1);
        longest_purge = t_now_ms() - from > longest_purge ? t_now_ms() - from : longest_purge;
        assert_in_range(purged, 0, portion);
        left -= purged;
        calls++;
    }
    printf("%" PRId64 " purged by %" PRId64 " calls of %d, the longest took %" PRId64 " ms; beside them %" PRId64
           " inserts, the longest %" PRId64 " ms\n",
           n, calls, portion, longest_purge, inserts, longest_insert);
    assert_int_equal(left, 0);
    assert_int_equal(count("key LIKE 'old%%'"), 0);
    assert_int_equal(count("key LIKE 'new%%'"), inserts);
    assert_int_equal(t_sql_int(db.a, "SELECT purged FROM holdfast.purge"), n);
    /* Too early is again: the key is as good as new. That is what retention is for. */
    assert_int_equal(op_record(db.a, "old000000001", "p", "again"), ST_OP_DONE);
}

static void what_is_still_needed_stays(void **state)
{
    int64_t purged;
    (void)state;
    op_policy(db.a, 1, 0, 1, 1, 0);
    const char *const open[] = {"running", "unknown", "review", "pending"};
    for (int i = 0; i < 4; i++)
        assert_int_equal(op_begin(db.a, open[i], "p", i ? 1000 : 40 * DAY, "q"), ST_OP_STARTED);
    assert_int_equal(op_unknown(db.a, "unknown", 2, "?"), ST_OP_DONE);
    assert_int_equal(op_fail(db.a, "review", 3, 1, "no", 0), ST_OP_DONE);
    op_policy(db.a, 5, 0, 1, 1, 0);
    assert_int_equal(op_fail(db.a, "pending", 4, 1, "no", 0), ST_OP_DONE);
    record_many("undone", 2);
    record_many("told", 1);
    assert_int_equal(op_compensate(db.a, "undone000000000", "x"), ST_OP_DONE);
    assert_int_equal(op_compensate(db.a, "undone000000001", "x"), ST_OP_DONE);
    t_sql(db.a, "SELECT holdfast.put_events('{default}', '{told000000000}', '{1}', '{a}', '{1}', '{t}', '{x}', '{true}')");
    t_sql(db.a, "UPDATE holdfast.operation SET state = 7 WHERE key = 'undo:undone000000001'");
    set_clock(T0 + 29 * DAY);
    record_many("young", 1);
    purge_all(100, &purged);
    assert_int_equal(purged, 0);
    /* Undone for good: first the one that was undone goes, then what undid it. */
    set_clock(T0 + 31 * DAY);
    purge_all(100, &purged);
    assert_int_equal(purged, 2);
    assert_string_equal(t_sql(db.a, "SELECT string_agg(key, ' ' ORDER BY key) FROM holdfast.operation"),
                        "pending review running told000000000 undo:undone000000000 undone000000000 unknown young000000000");
    t_sql(db.a, "DELETE FROM holdfast.outbox");
    t_sql(db.b, "BEGIN; SELECT FROM holdfast.operation WHERE key = 'told000000000' FOR UPDATE");
    purge_all(100, &purged);
    assert_int_equal(purged, 0); /* somebody has it */
    t_sql(db.b, "ROLLBACK");
    purge_all(100, &purged);
    assert_int_equal(purged, 1);
    /* Those that ended by attempts leave none behind. */
    assert_int_equal(op_decide(db.a, "review", 2, 2, 0, "ann"), ST_OP_DONE);
    set_clock(T0 + 62 * DAY);
    purge_all(100, &purged);
    assert_int_equal(purged, 2);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.attempt WHERE key = 'review'"), 0);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.attempt WHERE key = 'pending'"), 1);
}

static void one_purges_at_a_time(void **state)
{
    (void)state;
    record_many("old", 10);
    set_clock(T0 + 31 * DAY);
    t_sql(db.b, "BEGIN");
    assert_int_equal(t_sql_int(db.b, "SELECT holdfast.purge_operations(4)"), 4);
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.purge_operations(4)"), 0);
    t_sql(db.b, "ROLLBACK");
    assert_int_equal(t_sql_int(db.a, "SELECT holdfast.sweep(100)"), 10); /* the server's sweep purges too */
    assert_int_equal(count("true"), 0);
}

static char *many(const char *element, int n, const char *type)
{
    return t_printf("array_fill(%s::%s, ARRAY[%d])", element, type, n);
}

/* Completions, begins, sweeps and purges over the same rows, in opposite orders: nobody waits for anybody (case 24). */
static void nobody_deadlocks(void **state)
{
    enum { N = 40, ROUNDS = 100 };
    PGconn *const all[] = {db.a, db.b, db.asker};
    long busy = 0, done = 0;
    (void)state;
    t_sql(db.asker, "SET lock_timeout = '20ms'");
    t_sql(db.a, "INSERT INTO holdfast.operation_policy VALUES ('default', 't', 1000, 1, 1, 1, 2, 1)");
    for (int round = 0; round < ROUNDS; round++) {
        const char *up = t_printf("(SELECT array_agg('k' || g ORDER BY g) FROM generate_series(1, %d) g)", N);
        const char *down = t_printf("(SELECT array_agg('k' || g ORDER BY g DESC) FROM generate_series(1, %d) g)", N);
        const char *tokens =
            t_printf("(SELECT array_agg(coalesce(o.token, 1) ORDER BY g DESC) FROM generate_series(1, %d) g LEFT JOIN "
                     "holdfast.operation o ON o.namespace = 'default' AND o.key = 'k' || g)",
                     N);
        const char *const sql[] = {
            t_printf("SELECT 1, count(*) FROM holdfast.begin_batch(%s, %s, %s, %s, %s, %s, %s, %s) WHERE outcome <> 5",
                     many("'default'", N, "text"), up, many("'t'", N, "text"), many("sha256('p')", N, "bytea"),
                     many("'h'", N, "text"), many("1", N, "bigint"), many(t_printf("'r%d'", round), N, "text"),
                     many("0", N, "smallint")),
            t_printf(
                "SELECT 1, count(*) FROM holdfast.op_finish_batch(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, NULL, NULL, NULL, NULL, "
                "NULL) WHERE outcome <> 5",
                many("'default'", N, "text"), down, tokens, many("1", N, "smallint"), many("'x'", N, "bytea"),
                many("''", N, "text"), many("0", N, "smallint"), many("''", N, "text"), many("''", N, "text"),
                many("0", N, "bigint")),
            "SELECT 1, holdfast.sweep(1000)",
        };
        for (int i = 0; i < 3; i++)
            assert_true(PQsendQuery(all[(i + round) % 3], sql[i]));
        for (int i = 0; i < 3; i++) {
            int64_t got = ts_finish(all[(i + round) % 3], 1);
            if (got == ts_state("55P03"))
                busy++; /* the server splits, and tries again */
            else if (got < 0)
                fail_msg("round %d, call %d: %" PRId64, round, i, got);
            else
                done += got > 0;
        }
    }
    printf("%ld calls did something, %ld found a row that was only being made\n", done, busy);
    assert_true(done > ROUNDS);
}

static int64_t bytes_of(const char *table)
{
    return t_sql_int(db.a, "SELECT pg_total_relation_size('holdfast.%s')", table);
}

/* Printed, and bounded loosely: a record's row with its key of 15 bytes, 32 of fingerprint and 16 of result, and its index entry.
 */
static void what_a_key_costs(void **state)
{
    const int64_t n = n_keys(6000);
    (void)state;
    record_many("key", n);
    int64_t record = bytes_of("operation");
    printf("%" PRId64 " records: %.0f bytes each, of that %.0f in the index\n", n, (double)record / (double)n,
           (double)t_sql_int(db.a, "SELECT pg_relation_size('holdfast.operation_pkey')") / (double)n);
    assert_in_range(record / n, 150, 400);
    assert_int_equal(t_sql_int(db.a, "SELECT sum(pg_relation_size(indexrelid)) FROM pg_index WHERE indrelid = "
                                     "'holdfast.operation'::regclass AND indpred IS NOT NULL"),
                     8192 * 6); /* an empty one has its first page */
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, own_clock, closed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(passes_beside_inserts), TEST(what_is_still_needed_stays),
        TEST(one_purges_at_a_time),  cmocka_unit_test_setup_teardown(nobody_deadlocks, fresh, closed),
        TEST(what_a_key_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
