/*
 * failover_async_test.c - a primary with an asynchronous standby is killed after grants that were never shipped.
 *
 * Callers come and go. Some leases are shipped to the standby; then shipping stops, and more is granted, written, released and
 * broken, on resources known there and on new ones. The primary is killed with all of its processes, the standby promoted; the
 * server, which is told nothing, goes on by itself. Wanted: the floors have jumped by 2^20, so that no token comes twice (P1);
 * every lease from before has ended for its holder, as BROKEN or, where its grant was not shipped, UNKNOWN_TOKEN, and its writes
 * are refused (P3); those who were waiting are served. What was acknowledged and not shipped is lost: it is counted.
 */
#include "robustness/failover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "robustness/failover_proof.h"
#include "robustness/watch.h"

enum { BURST = 40, NAMES = 5 };

/* What the holder holds when the primary dies, with the highest token ever in use there. */
struct held {
    const char *resource;
    int64_t token;
    const char *lost_as; /* what a renewal says afterwards */
};

static struct failover stage;

static int teardown(void **state)
{
    return t_teardown(state);
}

static void say(const char *name, int64_t n)
{
    print_message("[     INFO ] %-52s %" PRId64 "\n", name, n);
}

/* Known to the standby: `f/held` as it is, `f/handed` an earlier lease of it. */
static void grant_what_is_shipped(struct held *held)
{
    held[0] = (struct held){"f/held", failover_acquire(&stage.holder, "f/held", "held"), "BROKEN"};
    assert_int_equal(failover_write(&stage.holder, "f/held", held[0].token, 1), 1);
    held[1] = (struct held){"f/handed", failover_acquire(&stage.taker, "f/handed", "handed-1"), "UNKNOWN_TOKEN"};
    const struct history_call release = worker_release(&stage.taker, "f/handed", held[1].token);
    assert_ok(&release);
    held[3] = (struct held){"f/waited", failover_acquire(&stage.holder, "f/waited", "waited"), "BROKEN"};
}

/* Never shipped: a write, a hand-over, a resource of its own, many generations, a fence raised by a break. */
static void grant_what_is_not(struct held *held)
{
    assert_int_equal(failover_write(&stage.holder, "f/held", held[0].token, 2), 2);
    held[1].token = failover_acquire(&stage.holder, "f/handed", "handed-2");
    failover_write(&stage.holder, "f/handed", held[1].token, 1);
    held[2] = (struct held){"f/new", failover_acquire(&stage.holder, "f/new", "new"), "UNKNOWN_TOKEN"};
    for (int i = 0; i < BURST; i++) {
        const int64_t token = failover_acquire(&stage.taker, "f/many", t_printf("many-%d", i));
        const struct history_call release = worker_release(&stage.taker, "f/many", token);
        assert_ok(&release);
    }
    const int64_t broken = failover_acquire(&stage.taker, "f/broken", "broken-1");
    const struct history_call broke = worker_break(&stage.taker, "f/broken", broken);
    assert_ok(&broke);
    held[4] = (struct held){"f/broken", failover_acquire(&stage.holder, "f/broken", "broken-2"), "UNKNOWN_TOKEN"};
    assert_true(held[4].token > broke.got_fence);
}

/* Whoever held a lease has lost it, and knows; nothing is accepted from him any more. */
static void former_holders_are_refused(const struct held *held)
{
    for (int i = 0; i < NAMES; i++) {
        if (!strcmp(held[i].resource, "f/waited"))
            continue; /* somebody else has it by now */
        const struct history_call renewed = worker_renew(&stage.holder, held[i].resource, held[i].token, FAILOVER_TTL_MS);
        assert_refused(&renewed, held[i].lost_as);
        const struct history_call wrote = worker_write(&stage.holder, held[i].resource, held[i].token, 100, "stale", -1);
        assert_refused(&wrote, "NOT_HELD");
    }
}

/* Everything is granted again, with tokens above all before; and then the former holders are refused because of these. */
static void grants_are_above_all(const struct held *held)
{
    for (int i = 0; i < NAMES; i++) {
        const int64_t token = failover_acquire(&stage.taker, held[i].resource, t_printf("again-%d", i));
        print_message("[     INFO ] %-10s highest token before %4" PRId64 ", next one %" PRId64 "\n", held[i].resource,
                      held[i].token, token);
        assert_true(token > held[i].token && token > FAILOVER_JUMP);
        failover_write(&stage.taker, held[i].resource, token, 1);
        const struct history_call wrote = worker_write(&stage.holder, held[i].resource, held[i].token, 101, "stale", -1);
        assert_refused(&wrote, "STALE_TOKEN");
    }
    const int64_t token = failover_acquire(&stage.taker, "f/many", "many-again");
    print_message("[     INFO ] %-10s highest token before %4d, next one %" PRId64 "\n", "f/many", BURST, token);
    assert_true(token > BURST);
}

static void the_database_tells_of_the_jump(PGconn *conn)
{
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE kind = 'floor'"), 1);
    const int64_t floor = t_sql_int(conn, "SELECT token FROM holdfast.audit WHERE kind = 'floor'");
    /* Above all fences there were on the standby: tokens granted, or what a break had raised one to. */
    const int64_t highest =
        t_sql_int(conn, "SELECT max(CASE kind WHEN 'break' THEN coalesce(prior, token) ELSE token END) FROM holdfast.audit WHERE "
                        "kind IN ('grant', 'takeover', 'break') AND id < (SELECT id FROM holdfast.audit WHERE kind = 'floor')");
    say("highest fence that was shipped", highest);
    say("floor after the fail-over", floor);
    assert_int_equal(floor, highest + FAILOVER_JUMP);
    say("leases ended as BROKEN",
        t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE kind = 'break' AND actor = 'holdfast'"));
    assert_string_equal(t_sql(conn, "SELECT timeline FROM holdfast.identity"), "00000002");
    assert_non_null(strstr(t_proc_err(stage.server->proc), "store.identity_changed"));
}

static void grants_that_were_never_shipped_do_not_come_again(void **state)
{
    static struct watch watch; /* outlives a test that fails */
    struct held held[NAMES] = {0};
    (void)state;
    const uint64_t seed = t_seed();
    failover_start(&stage);
    failover_start_traffic(&stage, seed, true);
    watch_start(&watch, stage.server->url, 30000, "f/watched", 6000);
    grant_what_is_shipped(held);
    failover_start_patients(&stage, "f/waited");
    const int64_t safe_ns = history_now_ns();
    t_standby_catch_up(stage.first, FAILOVER_STANDBY);
    t_standby_hold(stage.first, FAILOVER_STANDBY);
    grant_what_is_not(held);

    failover_fail_over(&stage);
    former_holders_are_refused(held);
    const int64_t served_ns = history_now_ns();
    say("ms from the kill until former holders were refused", t_now_ms() - stage.killed_ms);
    failover_join_patients(&stage, held[3].token + FAILOVER_JUMP);
    say("ms from the kill until all who waited were served", t_now_ms() - stage.killed_ms);
    grants_are_above_all(held);
    assert_true(watch_wait_told(&watch, 30000));
    assert_string_equal(watch.reason, "BROKEN");
    assert_int_equal(watch_told(&watch), 1);
    assert_int_equal(watch.renewed, HF_LOST);
    assert_int_equal(watch.wrote, HF_LOST);
    failover_stop_traffic(&stage);
    watch_stop(&watch);

    t_pg_restart(stage.first); /* for its trail */
    PGconn *before = t_connect(t_pg_dsn(stage.first)), *after = t_connect(t_pg_dsn(stage.second));
    the_database_tells_of_the_jump(after);
    const struct failover_times times = {safe_ns, stage.killed_ns, served_ns};
    const struct failover_loss loss = failover_prove(before, after, stage.history, &times);
    say("calls judged", (int64_t)history_count(stage.history));
    say("audit rows that were not shipped", (int64_t)loss.rows);
    say("  acknowledged and lost: acquires", (int64_t)loss.acquires);
    say("  acknowledged and lost: writes", (int64_t)loss.writes);
    say("  acknowledged and lost: releases and breaks", (int64_t)loss.releases);
    say("grants after the fail-over", (int64_t)loss.granted_again);
    say("  the least of them above the highest before by", loss.lowest_jump);
    assert_true(loss.acquires >= BURST + 4 && loss.writes >= 2 && loss.granted_again >= NAMES);
    PQfinish(before);
    PQfinish(after);
    failover_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(grants_that_were_never_shipped_do_not_come_again, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
