/*
 * race_test.c - two real sessions over one resource: the interleavings that a wrong shape of these functions gets wrong.
 */
#include <inttypes.h>
#include <string.h>

#include "store/sessions.h"
#include "store/store.h"

#define ACQUIRE "SELECT * FROM holdfast.acquire_batch('{default}', '{%s}', '{task}', '{holder}', '{%d}', '{%s}', '{NULL}')"
#define RENEW   "SELECT * FROM holdfast.renew_batch('{default}', '{r}', '{1}', '{5000}', false)"

static void one_absent_key_from_both_sides(void **state)
{
    (void)state;
    t_sql(db.a, "BEGIN");
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a"), ST_GRANTED);
    assert_int_equal(ts_acquire(db.b, "r", 1000, "b"), ts_state("55P03")); /* as the server sees it: it splits and tries again */
    t_sql(db.b, "SET lock_timeout = 0");
    ts_send_and_block(db.b, db.asker, t_printf(ACQUIRE, "r", 1000, "b"));
    t_sql(db.a, "COMMIT");
    assert_int_equal(ts_finish(db.b, 1), ST_HELD);
    /* If the first gives up, the second makes the rows itself. */
    t_sql(db.a, "BEGIN");
    assert_int_equal(ts_acquire(db.a, "s", 1000, "a"), ST_GRANTED);
    ts_send_and_block(db.b, db.asker, t_printf(ACQUIRE, "s", 1000, "b"));
    t_sql(db.a, "ROLLBACK");
    assert_int_equal(ts_finish(db.b, 1), ST_GRANTED);
    assert_int_equal(ts_acquire(db.a, "s", 1000, "a"), ST_HELD);
}

/* Both at once, nothing arranged: exactly one is granted each time. */
static void many_absent_keys_at_once(void **state)
{
    (void)state;
    PGconn *const both[] = {db.a, db.b};
    int granted = 0, refused = 0;
    for (int round = 0; round < 200; round++) {
        int64_t got[2];
        for (int i = 0; i < 2; i++)
            assert_true(PQsendQuery(both[i], t_printf(ACQUIRE, t_printf("k%d", round), 60000, t_printf("%d-%d", round, i))));
        for (int i = 0; i < 2; i++) {
            got[i] = ts_finish(both[i], 1);
            assert_true(got[i] == ST_GRANTED || got[i] == ST_HELD || got[i] == ST_BUSY || got[i] == ts_state("55P03"));
            granted += got[i] == ST_GRANTED;
            refused += got[i] != ST_GRANTED;
        }
        assert_false(got[0] == ST_GRANTED && got[1] == ST_GRANTED);
    }
    assert_int_equal(granted, t_sql_int(db.a, "SELECT count(*) FROM holdfast.audit"));
    assert_int_equal(granted + refused, 400);
    assert_true(granted > 100);
}

/* Facts: an uncommitted renewal and an acquire that locked only the fence row both succeeded. */
static void an_uncommitted_renewal_keeps_an_acquire_out(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a"), ST_GRANTED);
    set_clock(T0 + 999);
    for (int careful = 0; careful < 2; careful++) {
        t_sql(db.a, "BEGIN");
        assert_int_equal(ts_renew(db.a, "r", 1, 1000, careful), ST_RENEWED);
        ts_set_clock(db.b, T0 + 1001); /* what is committed has run out */
        assert_int_equal(ts_acquire(db.b, "r", 1000, "b"), ST_BUSY);
        t_sql(db.a, careful ? "COMMIT" : "ROLLBACK");
    }
    assert_int_equal(ts_acquire(db.b, "r", 1000, "b"), ST_HELD);
}

static void an_uncommitted_acquire_keeps_a_renewal_out(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a"), ST_GRANTED);
    ts_set_clock(db.b, T0 + 1000);
    t_sql(db.b, "BEGIN");
    assert_int_equal(ts_acquire(db.b, "r", 1000, "b"), ST_GRANTED);
    ts_set_clock(db.a, T0 + 800); /* by this clock the lease lives */
    assert_int_equal(ts_renew(db.a, "r", 1, 1000, true), ST_BUSY);
    assert_int_equal(ts_renew(db.a, "r", 1, 1000, false), ts_state("55P03"));
    t_sql(db.a, "SET lock_timeout = 0");
    ts_send_and_block(db.a, db.asker, RENEW);
    t_sql(db.b, "COMMIT");
    assert_int_equal(ts_finish(db.a, 1), ST_TAKEN_OVER);
    assert_int_equal(ts_check(db.b, "r", 2), ST_CURRENT);
}

/* Facts: `UPDATE … WHERE deadline > clock_timestamp()` that waited behind a mere lock renewed 1.5 s after the end. */
static void a_renewal_that_waited_past_the_end_renews_nothing(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 400, "a"), ST_GRANTED);
    t_sql(db.b, "BEGIN; SELECT FROM holdfast.lease FOR NO KEY UPDATE");
    t_sql(db.a, "SET lock_timeout = 0");
    ts_send_and_block(db.a, db.asker, RENEW);
    t_sleep_ms(450); /* the lease's time to live */
    t_sql(db.b, "COMMIT");
    assert_int_equal(ts_finish(db.a, 1), ts_state("40001"));
    assert_int_equal(ts_renew(db.a, "r", 1, 5000, true), ST_EXPIRED);
    assert_int_equal(ts_acquire(db.b, "r", 400, "b"), ST_GRANTED);
}

/* Facts: an `UPDATE … WHERE EXISTS (live lease)` that waited passed after a release. */
static void a_write_beside_an_uncommitted_release_or_takeover(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a"), ST_GRANTED);
    assert_int_equal(ts_write(db.a, "r", 1, "one"), ST_WRITTEN);
    t_sql(db.a, "BEGIN");
    assert_int_equal(ts_release(db.a, "r", 1), ST_FREED);
    assert_int_equal(ts_write(db.b, "r", 1, "two"), ST_BUSY);
    assert_int_equal(ts_renew(db.b, "r", 1, 1000, true), ST_BUSY);
    t_sql(db.a, "COMMIT");
    assert_int_equal(ts_write(db.b, "r", 1, "two"), ST_NOT_HELD);
    assert_int_equal(ts_renew(db.b, "r", 1, 1000, true), ST_RELEASED);

    t_sql(db.a, "BEGIN");
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a2"), ST_GRANTED);
    assert_int_equal(ts_write(db.b, "r", 1, "two"), ST_BUSY);
    t_sql(db.a, "COMMIT");
    assert_int_equal(ts_write(db.b, "r", 1, "two"), ST_STALE);
    assert_int_equal(t_sql_int(db.b, "SELECT sum(refusals) FROM holdfast.refusal WHERE resource = 'r' AND token = 1"), 1);
    assert_string_equal(t_sql(db.b, "SELECT convert_from(value, 'UTF8') FROM holdfast.resource_value"), "one");
}

/* Facts: token 1 after fence 7, when the floor was read before the fence row was locked. */
static void the_floor_is_read_after_the_fence_row_is_had(void **state)
{
    (void)state;
    t_sql(db.a, "INSERT INTO holdfast.resource (namespace, name, fence, grant_token) VALUES ('default', 'r', 7, 7)");
    t_sql(db.a, "INSERT INTO holdfast.lease (namespace, resource, token) VALUES ('default', 'r', 7)");
    /* As a purge does: the rows go, and the floor rises, in one transaction. */
    t_sql(db.a, "BEGIN; DELETE FROM holdfast.lease; DELETE FROM holdfast.resource; UPDATE holdfast.namespace SET fence_floor = 7");
    assert_int_equal(ts_acquire(db.b, "r", 1000, "b"), ST_BUSY);
    t_sql(db.a, "COMMIT");
    assert_int_equal(ts_acquire(db.b, "r", 1000, "b"), ST_GRANTED);
    assert_int_equal(ts_check(db.b, "r", 8), ST_CURRENT);
    /* The floor rises while an acquire waits to make the row. */
    t_sql(db.a, "BEGIN; INSERT INTO holdfast.resource (namespace, name) VALUES ('default', 's')");
    t_sql(db.b, "SET lock_timeout = 0");
    ts_send_and_block(db.b, db.asker, t_printf(ACQUIRE, "s", 1000, "b"));
    t_sql(db.a, "UPDATE holdfast.namespace SET fence_floor = 50; COMMIT");
    assert_int_equal(ts_finish(db.b, 1), ST_GRANTED);
    assert_int_equal(ts_check(db.b, "s", 51), ST_CURRENT);
}

static void a_lease_row_deleted_by_hand(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a"), ST_GRANTED);
    t_sql(db.b, "DELETE FROM holdfast.lease");
    assert_int_equal(ts_renew(db.a, "r", 1, 1000, false), ST_UNKNOWN_TOKEN);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.lease"), 0);
    assert_int_equal(ts_write(db.a, "r", 1, "x"), ST_NOT_HELD);
    assert_int_equal(ts_release(db.a, "r", 1), ST_NOT_FREED);
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a"), ST_ENDED);
    assert_int_equal(ts_acquire(db.b, "r", 1000, "b"), ST_GRANTED);
    assert_int_equal(ts_check(db.b, "r", 2), ST_CURRENT);
    assert_int_equal(ts_check(db.b, "r", 1), ST_STALE);
}

/* The statement of `function` that locks now waits, with its snapshot taken and nothing locked, for whoever has this. */
#define GATE "7"
static void wait_before_the_lock(const char *function)
{
    t_sql(db.a,
          "DO $do$ DECLARE text text; BEGIN "
          "SELECT pg_get_functiondef(p.oid) INTO STRICT text FROM pg_proc p WHERE p.proname = '%s' AND p.prosrc LIKE '%%SKIP "
          "LOCKED%%'; "
          "IF position('FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)' IN text) = 0 THEN "
          "RAISE 'another text'; END IF; "
          "EXECUTE replace(text, 'FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)', "
          "'FROM (SELECT u.ns, u.resource, u.i, pg_advisory_xact_lock_shared(" GATE ") FROM "
          "unnest(p_ns, p_resource) WITH ORDINALITY AS u(ns, resource, i)) AS x'); END $do$",
          function);
}

/* Rows that others changed, and committed, after the statement that locks had begun: what is locked, read and written is the newest
 * version, wherever it is by now. */
static void what_is_locked_is_the_newest_version(void **state)
{
    (void)state;
    assert_int_equal(ts_acquire(db.a, "r", 1000, "a"), ST_GRANTED);
    assert_int_equal(ts_acquire(db.a, "w", 1000, "a"), ST_GRANTED);
    wait_before_the_lock("lock_rows");
    wait_before_the_lock("write_batch");
    t_sql(db.b, "SET lock_timeout = 0"); /* the gate is opened when it is opened */
    t_sql(db.a, "SELECT pg_advisory_lock(" GATE ")");
    ts_send_and_block(db.b, db.asker, t_printf(ACQUIRE, "r", 1000, "b"));
    for (int i = 0; i < 3; i++) {
        t_sql(db.a, "UPDATE holdfast.lease SET deadline = '-infinity', ended = 3 WHERE resource = 'r'");
        t_sql(db.a, "UPDATE holdfast.resource SET fence = fence + 10, grant_token = fence + 10 WHERE name = 'r'");
    }
    t_sql(db.a, "SELECT pg_advisory_unlock(" GATE ")");
    assert_int_equal(ts_finish(db.b, 1), ST_GRANTED); /* what the snapshot has is held */
    assert_int_equal(ts_check(db.b, "r", 32), ST_CURRENT);
    t_sql(db.a, "SELECT pg_advisory_lock(" GATE ")");
    ts_send_and_block(db.b, db.asker, "SELECT * FROM holdfast.release_batch('{default}', '{r}', '{32}', NULL)");
    t_sql(db.a, "UPDATE holdfast.lease SET deadline = deadline + interval '1 s' WHERE resource = 'r'");
    t_sql(db.a, "SELECT pg_advisory_unlock(" GATE ")");
    assert_int_equal(ts_finish(db.b, 1), ST_FREED);
    t_sql(db.a, "SELECT pg_advisory_lock(" GATE ")");
    ts_send_and_block(db.b, db.asker,
                      "SELECT * FROM holdfast.write_batch('{default}', '{w}', '{1}', '{1}', '{x}', '{NULL}', true)");
    t_sql(db.a, "UPDATE holdfast.resource SET fence = 2 WHERE name = 'w'");
    t_sql(db.a, "SELECT pg_advisory_unlock(" GATE ")");
    assert_int_equal(ts_finish(db.b, 1), ST_STALE);
    assert_int_equal(t_sql_int(db.a, "SELECT count(*) FROM holdfast.resource_value"), 0);
}

static void opposite_batches_never_deadlock(void **state)
{
    (void)state;
    PGconn *const both[] = {db.a, db.b};
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 2; i++)
            assert_true(PQsendQuery(
                both[i],
                t_printf(
                    "SELECT count(*) FROM holdfast.acquire_batch(array_fill('default'::text, '{40}'), ARRAY(SELECT 'd' || g FROM "
                    "generate_series(1, 40) g ORDER BY g %s), array_fill(''::text, '{40}'), array_fill(''::text, '{40}'), "
                    "array_fill(1::bigint, '{40}'), array_fill('%d-%d'::text, '{40}'), array_fill(NULL::text, '{40}'))",
                    i ? "DESC" : "ASC", round, i)));
        for (int i = 0; i < 2; i++) {
            int64_t got = ts_finish(both[i], 0);
            assert_true(got == 40 || (round == 0 && got == ts_state("55P03")));
        }
    }
}

#define TEST(function, setup) cmocka_unit_test_setup_teardown(function, setup, closed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_absent_key_from_both_sides, fresh),
        TEST(many_absent_keys_at_once, fresh),
        TEST(an_uncommitted_renewal_keeps_an_acquire_out, own_clock),
        TEST(an_uncommitted_acquire_keeps_a_renewal_out, own_clock),
        TEST(a_renewal_that_waited_past_the_end_renews_nothing, fresh),
        TEST(a_write_beside_an_uncommitted_release_or_takeover, own_clock),
        TEST(the_floor_is_read_after_the_fence_row_is_had, own_clock),
        TEST(a_lease_row_deleted_by_hand, own_clock),
        TEST(what_is_locked_is_the_newest_version, own_clock),
        TEST(opposite_batches_never_deadlock, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
