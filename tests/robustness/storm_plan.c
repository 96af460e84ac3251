/*
 * storm_plan.c - see storm_plan.h. Pure.
 */
#include "robustness/storm_plan.h"

#include <stdlib.h>

#include "robustness/case.h"

enum { PAUSE_MIN_MS = 200, PAUSE_MAX_MS = 900 };

/* How often each kind of a lane occurs in an act. The lanes should take about the same time. */
static const int decks[STORM_ACTS][STORM_LANES] = {
    [STORM_ELSEWHERE] = {1, 2, 2},
    [STORM_PRIVATE] = {1, 1, 0},
};

#define ELSEWHERE                                                                                                                  \
    {                                                                                                                              \
        true, false                                                                                                                \
    }
#define PRIVATE                                                                                                                    \
    {                                                                                                                              \
        false, true                                                                                                                \
    }
#define BOTH                                                                                                                       \
    {                                                                                                                              \
        true, true                                                                                                                 \
    }

const struct storm_about storm_kinds[STORM_KINDS] = {
    /* what                                               lane            act        alone  targets  ms */
    [STORM_SERVER_KILLED] = {"server SIGKILLed", STORM_MACHINES, BOTH, false, 2, 50, 600},
    [STORM_SERVERS_KILLED] = {"both servers SIGKILLed", STORM_MACHINES, ELSEWHERE, false, 0, 50, 600},
    [STORM_SERVER_STOPPED] = {"server SIGSTOPped", STORM_MACHINES, ELSEWHERE, false, 2, 300, 3000},
    [STORM_SERVER_DRAINED] = {"server SIGTERMed", STORM_MACHINES, BOTH, false, 2, 50, 600},
    [STORM_KEEPER_KILLED] = {"server SIGKILLed, its PostgreSQL adopted", STORM_MACHINES, PRIVATE, false, 0, 50, 1200},
    [STORM_BACKEND_KILLED] = {"backend SIGKILLed", STORM_MACHINES, BOTH, false, 0, 200, 600},
    [STORM_BACKENDS_STOPPED] = {"backends SIGSTOPped", STORM_MACHINES, ELSEWHERE, false, 0, 300, 4000},
    [STORM_BACKENDS_TERMINATED] = {"pg_terminate_backend", STORM_MACHINES, BOTH, false, 0, 50, 300},
    [STORM_POSTMASTER_KILLED] = {"postmaster SIGKILLed", STORM_MACHINES, BOTH, false, 0, 100, 800},
    [STORM_POSTGRES_STOPPED] = {"PostgreSQL SIGSTOPped", STORM_MACHINES, ELSEWHERE, false, 0, 300, 3000},
    [STORM_POSTGRES_RESTARTED] = {"PostgreSQL restarted", STORM_MACHINES, ELSEWHERE, false, 0, 50, 800},
    [STORM_POSTGRES_CRASHED] = {"PostgreSQL stopped at once, started", STORM_MACHINES, ELSEWHERE, false, 0, 50, 800},
    [STORM_DISK_FULL] = {"disk full", STORM_MACHINES, ELSEWHERE, true, 0, 500, 1500},
    [STORM_WAL_FULL] = {"disk full for the WAL", STORM_MACHINES, ELSEWHERE, true, 0, 500, 1500},
    [STORM_CLOCK_STEPPED] = {"database's clock stepped", STORM_MACHINES, ELSEWHERE, false, 0, 500, 2500},
    [STORM_DROP] = {"messages dropped", STORM_CALLERS, BOTH, false, 0, 400, 1200},
    [STORM_DELAY] = {"messages delayed", STORM_CALLERS, BOTH, false, 0, 400, 1200},
    [STORM_DOUBLE] = {"messages doubled", STORM_CALLERS, BOTH, false, 0, 400, 1200},
    [STORM_REORDER] = {"messages reordered", STORM_CALLERS, BOTH, false, 0, 400, 1200},
    [STORM_CUT] = {"connections cut at messages", STORM_CALLERS, BOTH, false, 0, 400, 1200},
    [STORM_DARK] = {"server dark for its callers", STORM_CALLERS, BOTH, false, 2, 400, 3000},
    [STORM_RESET] = {"callers' connections reset", STORM_CALLERS, BOTH, false, 2, 50, 800},
    [STORM_WORKER_KILLED] = {"worker SIGKILLed", STORM_CALLERS, BOTH, false, 0, 50, 300},
    [STORM_WORKER_STOPPED] = {"worker SIGSTOPped", STORM_CALLERS, BOTH, false, 0, 300, 3500},
    [STORM_RUN_KILLED] = {"holdfast run SIGKILLed", STORM_CALLERS, ELSEWHERE, false, 0, 50, 300},
    [STORM_RUN_STOPPED] = {"holdfast run SIGSTOPped", STORM_CALLERS, ELSEWHERE, false, 0, 300, 4500},
    [STORM_SERVER_WALL] = {"server's wall clock off", STORM_CALLERS, ELSEWHERE, false, 2, 100, 800},
    [STORM_WORKERS_WALL] = {"workers' wall clock off", STORM_CALLERS, ELSEWHERE, false, 0, 100, 800},
    [STORM_DB_RESET] = {"server's PostgreSQL connections reset", STORM_WIRES, ELSEWHERE, false, 0, 50, 300},
    [STORM_DB_DARK] = {"server's PostgreSQL connections dark", STORM_WIRES, ELSEWHERE, false, 0, 300, 4000},
    [STORM_LINK_DOWN] = {"server cut off from PostgreSQL", STORM_WIRES, ELSEWHERE, true, 0, 300, 9500},
    [STORM_HOST_DOWN] = {"server's host cut off", STORM_WIRES, ELSEWHERE, true, 0, 300, 5000},
};

const char *storm_act_name(enum storm_act act)
{
    return act == STORM_ELSEWHERE ? "PostgreSQL elsewhere" : "private PostgreSQL";
}

static int between(uint64_t *seed, int min, int max)
{
    return min + case_below(seed, max - min + 1);
}

static struct storm_step make_step(uint64_t *seed, enum storm_kind kind)
{
    const struct storm_about *about = &storm_kinds[kind];
    struct storm_step step = {.kind = kind, .pause_ms = between(seed, PAUSE_MIN_MS, PAUSE_MAX_MS)};
    step.target = about->targets ? case_below(seed, about->targets) : 0;
    /* Short ones are the more frequent, so that a storm isn't mostly waiting. */
    step.ms = between(seed, about->min_ms, between(seed, about->min_ms, about->max_ms));
    step.seed = case_random(seed);
    return step;
}

void storm_plan_make(struct storm_plan *plan, uint64_t seed, enum storm_act act)
{
    *plan = (struct storm_plan){.act = act};
    seed += (uint64_t)act << 56;
    for (int lane = 0; lane < STORM_LANES; lane++) {
        for (int deck = 0; deck < decks[act][lane]; deck++) {
            enum storm_kind kinds[STORM_KINDS];
            int n = 0;
            for (int kind = 0; kind < STORM_KINDS; kind++)
                if ((int)storm_kinds[kind].lane == lane && storm_kinds[kind].in_act[act])
                    kinds[n++] = (enum storm_kind)kind;
            for (; n > 0 && plan->n[lane] < STORM_STEPS; n--) {
                const int at = case_below(&seed, n);
                plan->steps[lane][plan->n[lane]++] = make_step(&seed, kinds[at]);
                kinds[at] = kinds[n - 1];
            }
        }
    }
}

void storm_plan_print(const struct storm_plan *plan, FILE *file)
{
    static const char *const lanes[STORM_LANES] = {"machines", "callers", "wires"};
    fprintf(file, "schedule, %s (in each lane one after the other, +ms: after the one before):\n", storm_act_name(plan->act));
    for (int lane = 0; lane < STORM_LANES; lane++) {
        for (int i = 0; i < plan->n[lane]; i++) {
            const struct storm_step *step = &plan->steps[lane][i];
            fprintf(file, "  %-8s +%4d ms %s", lanes[lane], step->pause_ms, storm_kinds[step->kind].name);
            if (storm_kinds[step->kind].targets)
                fprintf(file, " %d", step->target);
            fprintf(file, ", %d ms\n", step->ms);
        }
    }
    fflush(file);
}
