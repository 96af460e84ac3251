/*
 * failover_frozen_test.c - a primary that freezes rather than dies, is failed over, and thaws.
 *
 * Nothing is refused and no connection ends: the server finds out by waiting, for answers first and then for new connections. Calls
 * are answered in time meanwhile. When the old primary thaws, what had been sent to it is carried out there, where it has no part
 * in anything, and the server stays away from it. Takes half a minute, so it is played by long/failover only.
 *
 * Environment: HOLDFAST_FAILOVER_FROZEN=1 plays it.
 */
#include "robustness/failover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/failover_proof.h"

enum { OUTAGE_MS = 60000, TRAFFIC_MS = 1000 };

static struct failover stage;

/* Granted on the new primary. */
static bool is_served(void *arg)
{
    int64_t *tries = arg;
    const struct worker worker = {
        .history = stage.history, .client = stage.taker.client, .number = 103, .timeout_ms = 1000, .retry = HFI_RETRY_HARMLESS};
    const struct history_call call = worker_acquire(&worker, "z/probe", FAILOVER_TTL_MS, t_printf("probe-%" PRId64, ++*tries));
    const int64_t late = (call.end_ns - call.start_ns) / 1000000 - worker.timeout_ms;
    if (late > STORM_BOUND_MS)
        fail_msg("answered %" PRId64 " ms after its deadline", late);
    return call.answer == HISTORY_OK;
}

static void a_frozen_primary_is_left_for_good(void **state)
{
    int64_t tries = 0;
    (void)state;
    if (!getenv("HOLDFAST_FAILOVER_FROZEN"))
        skip();
    const uint64_t seed = t_seed();
    failover_start(&stage);
    const int64_t held = failover_acquire(&stage.holder, "z/held", "held");
    const int64_t safe_ns = history_now_ns();
    t_standby_catch_up(stage.first, FAILOVER_STANDBY);
    failover_start_traffic(&stage, seed, true);
    t_sleep_ms(TRAFFIC_MS);

    const int64_t frozen_ms = t_now_ms(), frozen_ns = history_now_ns();
    t_pg_freeze(stage.first);
    t_standby_promote(stage.second);
    assert_true(t_wait_for(is_served, &tries, OUTAGE_MS));
    const int64_t served_ns = history_now_ns();
    print_message("[     INFO ] ms from the freeze until calls were served by the new primary: %" PRId64 ", %" PRId64 " calls\n",
                  t_now_ms() - frozen_ms, tries);
    t_pg_thaw(stage.first);
    t_sleep_ms(TRAFFIC_MS);
    const struct history_call renewed = worker_renew(&stage.holder, "z/held", held, FAILOVER_TTL_MS);
    assert_refused(&renewed, "BROKEN");
    failover_stop_traffic(&stage);

    PGconn *before = t_connect(t_pg_dsn(stage.first)), *after = t_connect(t_pg_dsn(stage.second));
    const struct failover_times times = {safe_ns, frozen_ns, served_ns};
    const struct failover_loss loss = failover_prove(before, after, stage.history, &times);
    print_message("[     INFO ] audit rows of the old primary alone %zu; acknowledged and lost: %zu acquires, %zu writes, %zu "
                  "releases; granted since %zu, above the highest before by %" PRId64 " and more\n",
                  loss.rows, loss.acquires, loss.writes, loss.releases, loss.granted_again, loss.lowest_jump);
    PQfinish(before);
    PQfinish(after);
    failover_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_frozen_primary_is_left_for_good, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
