/*
 * storm_play.c - plays a plan: see storm_fault.h. One thread, which also looks after the servers.
 */
#include "harness/harness.h"

#include <stdio.h>

#include "robustness/storm_fault.h"

enum { TICK_MS = 10, PATIENCE_MS = 40000 /* for a fault to take effect */ };

struct lane {
    const struct storm_step *steps;
    int n, next;
    bool active;
    int64_t at_ms; /* of the next fault */
    struct storm_fault fault;
};

static const struct storm_move *move_of(enum storm_kind kind)
{
    return storm_kinds[kind].lane == STORM_MACHINES ? &storm_machine_moves[kind] : &storm_net_moves[kind];
}

static void tell(int64_t start_ms, const struct storm_step *step, const char *what)
{
    printf("  %7.3f s %s: %s", (double)(t_now_ms() - start_ms) / 1000, storm_kinds[step->kind].name, what);
    if (storm_kinds[step->kind].targets)
        printf(" %d", step->target);
    printf("\n");
    fflush(stdout);
}

static void begin(struct storm_world *world, struct lane *lane, int64_t start_ms)
{
    const struct storm_step *step = &lane->steps[lane->next];
    if (storm_kinds[step->kind].alone && !world->apart) {
        lane->next++;
        lane->at_ms = t_now_ms();
        return;
    }
    tell(start_ms, step, "begins");
    lane->active = true;
    lane->fault = (struct storm_fault){.step = step, .seed = step->seed};
    move_of(step->kind)->begin(world, &lane->fault);
    if (!lane->fault.due_ms)
        lane->fault.due_ms = t_now_ms() + step->ms;
}

static void go_on(struct storm_world *world, struct lane *lane, int64_t start_ms, unsigned happened[STORM_KINDS])
{
    struct storm_fault *fault = &lane->fault;
    const struct storm_move *move = move_of(fault->step->kind);
    if (move->during)
        move->during(world, fault);
    const int64_t over_ms = t_now_ms() - fault->due_ms;
    if (over_ms < 0 || (!fault->happened && over_ms < PATIENCE_MS))
        return;
    move->end(world, fault);
    happened[fault->step->kind] += fault->happened;
    tell(start_ms, fault->step, fault->happened ? "is over" : "has not taken effect");
    lane->active = false;
    if (++lane->next < lane->n)
        lane->at_ms = t_now_ms() + lane->steps[lane->next].pause_ms;
}

void storm_play(struct storm_world *world, const struct storm_plan *plan, unsigned happened[STORM_KINDS])
{
    struct lane lanes[STORM_LANES];
    const int64_t start_ms = t_now_ms();
    bool playing = true;
    for (int i = 0; i < STORM_LANES; i++) {
        lanes[i] = (struct lane){.steps = plan->steps[i], .n = plan->n[i], .at_ms = start_ms + plan->steps[i][0].pause_ms};
    }
    while (playing) {
        playing = false;
        for (int i = 0; i < STORM_LANES; i++) {
            struct lane *lane = &lanes[i];
            if (lane->active)
                go_on(world, lane, start_ms, happened);
            else if (lane->next < lane->n && t_now_ms() >= lane->at_ms)
                begin(world, lane, start_ms);
            playing |= lane->active || lane->next < lane->n;
        }
        storm_world_tend(world);
        t_sleep_ms(TICK_MS);
    }
}
