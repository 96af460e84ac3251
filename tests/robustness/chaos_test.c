/*
 * chaos_test.c - two servers SIGKILLed and restarted in turn under waiting and writing clients.
 *
 * Two holdfastd serve one database. Clients of both wait for a few resources, write under them, release or abandon them, and
 * read. Meanwhile a schedule that the seed decides kills one server after the other, now and then both, and starts them again.
 * Wanted in the end: the audit trail and all that the clients were told satisfy the oracle (P1, P3, P8: oracle.h); no write_seq
 * took effect twice; each resource's value is its last accepted write; and no call came back later than its deadline + 3 s.
 *
 * Environment: HOLDFAST_CHAOS_SECONDS (default 20; long/chaos runs two minutes), HOLDFAST_CHAOS_CLIENTS (default 12, of which
 * every sixth reads), HOLDFAST_TEST_SEED.
 */
#include "harness/harness.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/case.h"
#include "robustness/chaos_client.h"
#include "robustness/chaos_proof.h"
#include "robustness/need.h"
#include "robustness/oracle.h"

enum { MAX_CLIENTS = 200 };

static struct t_server *servers[2];
static PGconn *conn;

static int setup(void **state)
{
    (void)state;
    char *dsn = t_database();
    for (int i = 0; i < 2; i++)
        servers[i] = t_server_start("--dsn", dsn, NULL);
    conn = t_connect(dsn);
    oracle_audit_writes(conn, "default");
    t_keep();
    return 0;
}

static int teardown(void **state)
{
    PQfinish(conn);
    for (int i = 0; i < 2; i++)
        assert_int_equal(t_server_stop(servers[i]), 0);
    return t_teardown(state);
}

static void kill_one(int number)
{
    if (t_proc_wait(servers[number]->proc, 0) >= 0)
        fail_msg("server %d ended by itself: %s", number, t_proc_err(servers[number]->proc));
    t_server_kill(servers[number], SIGKILL);
}

/* Kills and restarts until `end`; how many kills. */
static unsigned play_schedule(uint64_t *seed, int64_t end_ms)
{
    unsigned kills = 0;
    for (int victim = 0; t_now_ms() < end_ms; victim ^= 1) {
        const bool both = case_chance(seed, 15);
        t_sleep_ms(200 + case_below(seed, 1200));
        kill_one(victim);
        if (both) {
            t_sleep_ms(case_below(seed, 100));
            kill_one(victim ^ 1);
        }
        kills += both ? 2 : 1;
        t_sleep_ms(case_below(seed, 600));
        t_server_restart(servers[victim]);
        if (both)
            t_server_restart(servers[victim ^ 1]);
    }
    return kills;
}

static void say(const char *name, unsigned n)
{
    print_message("[     INFO ] %-28s %u\n", name, n);
}

static void tell(const struct chaos_counts *counts, const struct chaos_client *clients, int n, unsigned kills)
{
    unsigned waits = 0, vain = 0, repeats = 0, abandoned = 0, stale = 0;
    for (int i = 0; i < n; i++) {
        waits += clients[i].waits;
        vain += clients[i].waited_in_vain;
        repeats += clients[i].repeats;
        abandoned += clients[i].abandoned;
        stale += clients[i].stale;
    }
    say("kills", kills);
    say("calls", counts->calls);
    say("acquires granted", counts->acquired);
    say("  after an expiry", counts->taken_over);
    say("  from one client to another", counts->hand_overs);
    say("waits", waits);
    say("  not granted in time", vain);
    say("acquires repeated by the test", repeats);
    say("writes accepted", counts->written);
    say("  by a repeat", counts->replayed);
    say("writes tried with an old token", stale);
    say("releases", counts->released);
    say("leases abandoned", abandoned);
    say("reads", counts->read);
    say("refused", counts->refused);
    say("unknown", counts->unknown);
}

/* No caller waited past its deadline. */
static void check_deadlines(const struct chaos_client *clients, int n)
{
    const struct chaos_client *worst = &clients[0];
    for (int i = 0; i < n; i++) {
        if (clients[i].overrun && (!worst->overrun || clients[i].overrun_ms > worst->overrun_ms))
            worst = &clients[i];
    }
    assert_non_null(worst->overrun);
    print_message("[     INFO ] the latest answer, of %s, came %" PRId64 " ms %s its deadline\n", worst->overrun,
                  worst->overrun_ms < 0 ? -worst->overrun_ms : worst->overrun_ms, worst->overrun_ms < 0 ? "before" : "after");
    assert_true(worst->overrun_ms <= CHAOS_BOUND_MS);
}

static void servers_die_in_turn_and_nothing_is_lost_or_done_twice(void **state)
{
    static struct chaos_client clients[MAX_CLIENTS];
    const int n = (int)case_ms("HOLDFAST_CHAOS_CLIENTS", 12);
    const int64_t seconds = case_ms("HOLDFAST_CHAOS_SECONDS", 20);
    const char *orders[2] = {t_printf("%s,%s", servers[0]->url, servers[1]->url),
                             t_printf("%s,%s", servers[1]->url, servers[0]->url)};
    struct history *history = history_new(getenv("HOLDFAST_CHAOS_HISTORY"));
    uint64_t seed = t_seed();
    static atomic_bool stop; /* outlives a test that fails */
    (void)state;
    assert_true(n > 0 && n <= MAX_CLIENTS);
    for (int i = 0; i < n; i++) {
        clients[i] = (struct chaos_client){.number = i,
                                           .seed = seed + 1 + (uint64_t)i,
                                           .reads = i % 6 == 5,
                                           .servers = orders[i % 2],
                                           .history = history,
                                           .stop = &stop};
        chaos_client_start(&clients[i]);
    }
    const unsigned kills = play_schedule(&seed, t_now_ms() + seconds * 1000);
    atomic_store(&stop, true);
    for (int i = 0; i < n; i++)
        chaos_client_join(&clients[i]);

    const struct chaos_counts counts = chaos_count(conn, "default", history);
    tell(&counts, clients, n, kills);
    const size_t rows = oracle_check(conn, "default", history);
    chaos_prove_each_once(conn, "default", history);
    for (int i = 0; i < CHAOS_RESOURCES; i++)
        chaos_prove_last(conn, "default", chaos_resource(i), history);
    check_deadlines(clients, n);
    print_message("[     INFO ] %zu audit rows judged\n", rows);
    assert_true(kills >= 2 && counts.acquired >= (unsigned)seconds && counts.hand_overs > 0 && counts.read > 0);
    history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_die_in_turn_and_nothing_is_lost_or_done_twice),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
