/*
 * failover_sync_test.c - a primary whose commits wait for its standby, and which is on record as such, is killed amid traffic.
 *
 * First the standby is away: what needs a commit then is answered in time, as unknown, and once the standby is back a repeat tells
 * what came of it; likewise where somebody cancels the waiting for the standby, or ends the session that waits. Then the primary is
 * killed with all of its processes and the standby promoted, which is itself told to wait for a standby that nobody has started
 * yet: calls are answered in time, and the server goes on by itself when that is lifted. Wanted: nothing that was acknowledged is
 * lost, no token comes twice, no fence was raised, and leases live on for their holders; those who were waiting are served.
 */
#include "robustness/failover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "robustness/oracle.h"
#include "robustness/storm_proof.h"
#include "robustness/watch.h"

enum { HASTE_MS = 1500, TRAFFIC_MS = 1000 };

static struct failover stage;
static struct worker hasty; /* tries once, and not for long */

static void say(const char *name, int64_t n)
{
    print_message("[     INFO ] %-52s %" PRId64 "\n", name, n);
}

/* It came back as unknown, and not late. */
static void assert_unknown_in_time(const struct history_call *call, int64_t allowed_ms)
{
    const int64_t took = (call->end_ns - call->start_ns) / 1000000;
    worker_assert(call, HISTORY_UNKNOWN, "OUTCOME_LOST");
    if (took > allowed_ms + STORM_BOUND_MS)
        fail_msg("answered after %" PRId64 " ms, of %" PRId64, took, allowed_ms);
    print_message("[     INFO ] %s, with the standby away: unknown after %" PRId64 " ms\n", history_op_name(call->op), took);
}

/* Soon all commits of the server's that wait for a standby get this (pg_cancel_backend: don't wait; pg_terminate_backend: end),
 * until one that grants this resource has had it. Sent, not waited for. */
static void meddle(PGconn *conn, const char *function, const char *resource)
{
    const char *sql = t_printf("DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_stat_clear_snapshot(); "
                               "PERFORM %s(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "
                               "application_name = 'holdfastd'; "
                               "EXIT WHEN EXISTS (SELECT FROM holdfast.lease WHERE resource = '%s'); "
                               "PERFORM pg_sleep(0.01); END LOOP; END $$",
                               function, resource);
    assert_int_equal(PQsendQuery(conn, sql), 1);
}

static void finish(PGconn *conn)
{
    for (PGresult *result; (result = PQgetResult(conn)); PQclear(result))
        assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
}

static void while_the_standby_is_away(PGconn *conn, int64_t held)
{
    const pid_t sender = t_standby_hold(stage.first, FAILOVER_STANDBY);
    struct history_call call = worker_acquire(&hasty, "s/away", FAILOVER_TTL_MS, "away");
    assert_unknown_in_time(&call, HASTE_MS);
    call = worker_write(&hasty, "s/held", held, 2, "away", -1);
    assert_unknown_in_time(&call, HASTE_MS);
    call = worker_read(&stage.taker, "s/held"); /* what isn't replicated isn't shown either */
    assert_ok(&call);
    assert_int_equal(call.got_version, 1);
    meddle(conn, "pg_terminate_backend", "s/ended"); /* then it is committed here; sent again, it waits again */
    call = worker_acquire(&hasty, "s/ended", FAILOVER_TTL_MS, "ended");
    assert_unknown_in_time(&call, HASTE_MS);
    finish(conn);
    meddle(conn, "pg_cancel_backend", "s/cancelled");
    const struct worker patient = {
        .history = stage.history, .client = stage.taker.client, .number = hasty.number, .timeout_ms = 20000};
    call = worker_acquire(&patient, "s/cancelled", FAILOVER_TTL_MS, "cancelled");
    assert_unknown_in_time(&call, 10000);
    finish(conn);
    assert_non_null(strstr(t_proc_err(stage.server->proc), "store.not_replicated"));
    t_standby_let_go(sender);
}

/* The standby is back: repeats tell, and did nothing twice. */
static void repeats_tell(PGconn *conn, int64_t held)
{
    assert_int_equal(failover_acquire(&stage.holder, "s/away", "away"), 1);
    assert_int_equal(failover_acquire(&stage.holder, "s/ended", "ended"), 1);
    assert_int_equal(failover_acquire(&stage.holder, "s/cancelled", "cancelled"), 1);
    const struct history_call wrote = worker_write(&stage.holder, "s/held", held, 2, "away", -1);
    assert_ok(&wrote);
    assert_int_equal(wrote.got_version, 2);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE resource IN ('s/away', 's/ended', 's/cancelled')"),
                     3);
}

/* As if all hosts had the same configuration. Calls are answered meanwhile, one way or another. */
static void nobody_follows_the_new_primary_yet(void)
{
    struct history_call call = worker_acquire(&hasty, "s/early", FAILOVER_TTL_MS, "early");
    const int64_t took = (call.end_ns - call.start_ns) / 1000000;
    assert_int_not_equal(call.answer, HISTORY_OK);
    assert_true(took <= HASTE_MS + STORM_BOUND_MS);
    print_message("[     INFO ] acquire, nobody following the new primary: %s after %" PRId64 " ms\n", call.reason, took);
    t_pg_synchronous(stage.second, "");
}

static void leases_live_on(PGconn *conn, int64_t held, int64_t waited, struct watch *watch)
{
    hf_error error;
    struct history_call call = worker_renew(&stage.holder, "s/held", held, FAILOVER_TTL_MS);
    assert_ok(&call);
    say("ms from the kill until a lease was renewed", t_now_ms() - stage.killed_ms);
    assert_int_equal(failover_write(&stage.holder, "s/held", held, 3), 3);
    call = worker_release(&stage.holder, "s/waited", waited);
    assert_ok(&call);
    failover_join_patients(&stage, waited);
    say("ms from the kill until all who waited were served", t_now_ms() - stage.killed_ms);
    assert_int_equal(hf_renew_now(watch->lease, &error), HF_OK);
    assert_int_equal(watch_told(watch), 0);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE kind = 'floor' OR actor = 'holdfast'"), 0);
    assert_int_equal(t_sql_int(conn, "SELECT max(fence_floor) FROM holdfast.namespace"), 0);
    assert_string_equal(t_sql(conn, "SELECT timeline FROM holdfast.identity"), "00000002");
}

static void nothing_acknowledged_is_lost(PGconn *conn)
{
    const struct storm_counts counts = storm_count(conn, "default", stage.history);
    say("calls", counts.calls);
    say("acquires acknowledged", counts.acquired);
    say("writes acknowledged", counts.written);
    say("  by a repeat", counts.replayed);
    say("unknown", counts.unknown);
    say("audit rows judged, of acknowledged calls lost: 0", (int64_t)oracle_check(conn, "default", stage.history));
}

static void what_was_acknowledged_survives(void **state)
{
    static struct watch watch; /* outlives a test that fails */
    (void)state;
    const uint64_t seed = t_seed();
    failover_start(&stage);
    hasty = (struct worker){.history = stage.history, .client = stage.taker.client, .number = 102, .timeout_ms = HASTE_MS};
    t_pg_synchronous(stage.first, FAILOVER_STANDBY);
    PGconn *before = t_connect(t_pg_dsn(stage.first)), *after = t_connect(t_pg_dsn(stage.second));
    t_sql(before, "UPDATE holdfast.identity SET commits_replicated = true");
    watch_start(&watch, stage.server->url, 30000, "s/watched", 60000);
    const int64_t held = failover_acquire(&stage.holder, "s/held", "held");
    const int64_t waited = failover_acquire(&stage.holder, "s/waited", "waited");
    assert_int_equal(failover_write(&stage.holder, "s/held", held, 1), 1);
    while_the_standby_is_away(before, held);
    repeats_tell(before, held);
    PQfinish(before);

    failover_start_patients(&stage, "s/waited");
    failover_start_traffic(&stage, seed, true);
    t_sleep_ms(TRAFFIC_MS);
    t_sql(after, "ALTER SYSTEM SET synchronous_standby_names = 'third'");
    t_sql(after, "SELECT pg_reload_conf()");
    failover_fail_over(&stage);
    nobody_follows_the_new_primary_yet();
    leases_live_on(after, held, waited, &watch);
    t_sleep_ms(TRAFFIC_MS);
    failover_stop_traffic(&stage);
    watch_stop(&watch);
    nothing_acknowledged_is_lost(after);
    PQfinish(after);
    failover_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_was_acknowledged_survives, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
