/*
 * storm_test.c - every fault that we can make, under workers that acquire, wait, write, release, break and read.
 *
 * A storm plays a plan that its seed alone decides (storm_plan.h), in two acts (storm_world.h): PostgreSQL elsewhere, and the
 * private one. Wanted in the end: the audit trail, all that the workers were told, and what stands satisfy the oracle (P1, P2, P3,
 * P6, P8: oracle.h); nobody believed in a lease after another was told of a newer one (P7), but for what a step of the database's
 * clock excuses; no caller was left behind; every kind of fault took effect; work went on; and afterwards both servers serve.
 *
 * Two storms are played, of a fixed seed and of a new one; under a sanitizer the second alone. Environment: HOLDFAST_STORM_SEED
 * plays the storm of this seed alone (long/storm plays many); HOLDFAST_STORM_KEEP is a folder for histories, dumps and logs. Where
 * namespaces cannot be made, the faults that need them are left out, and that is said.
 */
#include "harness/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "robustness/oracle.h"
#include "robustness/storm_fault.h"
#include "robustness/storm_proof.h"
#include "robustness/storm_run.h"
#include "robustness/wall.h"

enum { FIXED_SEED = 4 };

static bool apart;

static void say(const char *name, unsigned n)
{
    print_message("[     INFO ] %-40s %u\n", name, n);
}

static void tell(const struct storm_counts *counts, size_t claims)
{
    say("calls", counts->calls);
    say("acquires granted", counts->acquired);
    say("  after an expiry", counts->taken_over);
    say("  from one thread to another", counts->hand_overs);
    say("leases judged for P7", (unsigned)claims);
    say("writes accepted", counts->written);
    say("  by a repeat", counts->replayed);
    say("  by an errand of holdfast run", counts->errands);
    say("deletes", counts->deleted);
    say("releases", counts->released);
    say("breaks", counts->broken);
    say("reads", counts->read);
    say("refused", counts->refused);
    say("unknown", counts->unknown);
    say("longest time without progress, ms", counts->silent);
}

/* Work went on: far less than even a slow machine does. */
static void must_have_worked(const struct storm_counts *counts, enum storm_act act)
{
    const unsigned floor = act == STORM_ELSEWHERE ? 40 : 15;
    if (counts->acquired < floor || counts->written < 2 * floor || counts->hand_overs < floor / 2 || counts->read < floor ||
        (act == STORM_ELSEWHERE && counts->errands == 0))
        fail_msg("too little work was done");
}

/* For who looks for the cause of a failure. */
static void keep(const struct storm_world *world, struct history *history)
{
    const char *dir = getenv("HOLDFAST_STORM_KEEP");
    size_t n;
    if (!dir || !*dir)
        return;
    FILE *file = fopen(t_printf("%s/history-%" PRIu64 "-%d", dir, world->seed, world->act), "we");
    struct history_call *calls = history_sorted(history, &n);
    assert_non_null(file);
    for (size_t i = 0; i < n; i++) {
        char line[1000] = "";
        history_format(&calls[i], line, sizeof(line));
        fprintf(file, "%s\n", line);
    }
    fclose(file);
    free(calls);
    const char *const dump[] = {
        "pg_dump",  "-d",        world->pg.dsn, "-n",
        "holdfast", "--inserts", "-f",          t_printf("%s/dump-%" PRIu64 "-%d", dir, world->seed, world->act),
        NULL};
    t_run(dump, NULL, 60000);
    for (int i = 0; i < world->workers.n; i++)
        t_write_file(t_printf("%s/worker-%" PRIu64 "-%d-%d", dir, world->seed, world->act, i), t_proc_err(world->workers.procs[i]));
    for (int i = 0; i < 2; i++)
        t_write_file(t_printf("%s/log-%" PRIu64 "-%d-%d", dir, world->seed, world->act, i), t_proc_err(world->servers[i].proc));
}

static void judge(struct storm_world *world)
{
    char why[512];
    struct history *history = history_new(NULL);
    PGconn *conn = storm_pg_connect(&world->pg);
    t_sql(conn, "SET statement_timeout = 0");
    storm_workers_history(&world->workers, history);
    if (!history_load(history, world->upsets_path, why, sizeof(why)))
        fail_msg("%s", why);
    keep(world, history);
    const struct storm_counts counts = storm_count(conn, "default", history);
    const size_t claims = storm_prove_claims(history, &world->workers);
    tell(&counts, claims);
    say("audit rows judged", (unsigned)oracle_check(conn, "default", history));
    storm_prove_answered(history, &world->workers);
    must_have_worked(&counts, world->act);
    PQfinish(conn);
    history_free(history);
}

/* Every kind of this act that can be done here has taken effect. */
static void must_have_happened(const struct storm_world *world, const unsigned happened[STORM_KINDS])
{
    for (int kind = 0; kind < STORM_KINDS; kind++) {
        const struct storm_about *about = &storm_kinds[kind];
        if (!about->in_act[world->act])
            continue;
        if (about->alone && !world->apart)
            print_message("[     INFO ] %-40s left out: no namespaces\n", about->name);
        else if (happened[kind] == 0)
            fail_msg("no %s took effect", about->name);
        else
            say(about->name, happened[kind]);
    }
}

static void play_act(uint64_t seed, enum storm_act act)
{
    static struct storm_world world;
    static struct storm_plan plan;
    unsigned happened[STORM_KINDS] = {0};
    storm_plan_make(&plan, seed, act);
    storm_plan_print(&plan, stdout);
    storm_world_start(&world, act, seed, apart);
    const int64_t start_ms = t_now_ms();
    storm_play(&world, &plan, happened);
    say("ms of storm", (unsigned)(t_now_ms() - start_ms));
    storm_world_calm(&world);
    const struct storm_seen seen = storm_workers_end(&world.workers);
    judge(&world);
    storm_world_end(&world);
    must_have_happened(&world, happened);
    say("holdfast run, of workers that lived", seen.runs);
    say("  that did their errand", seen.done);
    say("  that got no lease or lost it", seen.refused);
    say("servers that could not start at first", world.servers[0].failed_starts + world.servers[1].failed_starts);
    if (act == STORM_ELSEWHERE) {
        say("times a worker saw its wall clock off", seen.off);
        say("lines of servers' logs with a time off", world.servers[0].off + world.servers[1].off);
        assert_true(seen.off > 0 && world.servers[0].off + world.servers[1].off > 0);
    }
}

static void play(uint64_t seed)
{
    printf("storm: HOLDFAST_STORM_SEED=%" PRIu64 " tests/run robustness/storm plays it again\n", seed);
    fflush(stdout);
    for (int act = 0; act < STORM_ACTS; act++) {
        play_act(seed, (enum storm_act)act);
        t_teardown(NULL);
    }
}

static void the_promises_hold_in_a_storm_that_is_known(void **state)
{
    (void)state;
    play(FIXED_SEED);
}

static void the_promises_hold_in_a_storm_of_today(void **state)
{
    const char *given = getenv("HOLDFAST_STORM_SEED");
    struct timespec now;
    (void)state;
    clock_gettime(CLOCK_REALTIME, &now);
    play(given && *given ? strtoull(given, NULL, 10) : (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

static int setup(void **state)
{
    char why[256];
    (void)state;
    apart = storm_host_enter(why, sizeof(why));
    if (!apart)
        print_message("[     INFO ] left out: full disks, hosts cut off: %s\n", why);
    wall_build(t_tmpdir());
    t_keep();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_promises_hold_in_a_storm_of_today, t_teardown),
        cmocka_unit_test_teardown(the_promises_hold_in_a_storm_that_is_known, t_teardown),
    };
    const char *given = getenv("HOLDFAST_STORM_SEED");
    const bool one = (given && *given) || T_SANITIZE_FLAGS[0];
    if (argc > 1 && !strcmp(argv[1], STORM_WORKER_FLAG))
        return storm_worker_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], STORM_ERRAND_FLAG))
        return storm_errand_main(argc - 1, argv + 1);
    if (one)
        return _cmocka_run_group_tests("storm", tests, 1, setup, NULL);
    return cmocka_run_group_tests(tests, setup, NULL);
}
