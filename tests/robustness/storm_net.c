/*
 * storm_net.c - faults between the machines: messages and connections of workers, the workers themselves, wall clocks, and the ways
 * between servers and PostgreSQL. See storm_fault.h.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdio.h>

#include "robustness/case.h"
#include "robustness/storm_fault.h"
#include "robustness/storm_run.h"
#include "robustness/wall.h"

enum { LATE_MIN_MS = 20, LATE_MAX_MS = 800, WALL_MIN_S = 1200, WALL_MAX_S = 7200 };

/* ------------------------------------------------------------------------------------------------ messages */

/* The rule holds at both proxies: callers may all be at one of them. */
static void add_rules(struct storm_world *w, struct storm_fault *f, const struct px_rule *rule)
{
    for (int i = 0; i < 2; i++)
        f->rules[i] = px_add(w->px[i], rule);
}

static void look_at_rules(struct storm_world *w, struct storm_fault *f)
{
    for (int i = 0; i < 2 && !f->happened; i++)
        f->happened = px_count(w->px[i], f->rules[i]).done > 0;
}

static void remove_rules(struct storm_world *w, struct storm_fault *f)
{
    for (int i = 0; i < 2; i++)
        px_remove(w->px[i], f->rules[i]);
}

static int some_ms(struct storm_fault *f)
{
    return LATE_MIN_MS + case_below(&f->seed, LATE_MAX_MS - LATE_MIN_MS);
}

static void drop(struct storm_world *w, struct storm_fault *f)
{
    add_rules(w, f, &(struct px_rule){.action = PX_DROP, .chance = 0.1});
}

static void delay(struct storm_world *w, struct storm_fault *f)
{
    add_rules(w, f, &(struct px_rule){.action = PX_DELAY, .chance = 0.3, .ms = some_ms(f)});
}

/* At once, later, or when all is over. */
static void double_up(struct storm_world *w, struct storm_fault *f)
{
    struct px_rule rule = {.action = case_chance(&f->seed, 30) ? PX_DOUBLE_LATE : PX_DOUBLE, .chance = 0.3};
    if (rule.action == PX_DOUBLE && case_chance(&f->seed, 60))
        rule.ms = some_ms(f);
    add_rules(w, f, &rule);
}

static void reorder(struct storm_world *w, struct storm_fault *f)
{
    add_rules(w, f, &(struct px_rule){.action = PX_REORDER, .chance = 0.2});
}

static void cut(struct storm_world *w, struct storm_fault *f)
{
    static const enum px_action actions[] = {PX_CUT_BEFORE, PX_CUT_IN, PX_CUT_AFTER};
    add_rules(w, f, &(struct px_rule){.action = actions[case_below(&f->seed, 3)], .chance = 0.05});
}

static unsigned lost_in_dark(struct storm_world *w)
{
    return px_totals(w->px[0]).swallowed + px_totals(w->px[1]).swallowed;
}

/* If nobody was at that server, the other becomes dark too. */
static void darken(struct storm_world *w, struct storm_fault *f)
{
    f->n = f->step->target;
    f->swallowed = lost_in_dark(w);
    px_dark(w->px[f->n], true);
}

static void look_into_dark(struct storm_world *w, struct storm_fault *f)
{
    f->happened = f->happened || lost_in_dark(w) > f->swallowed;
    if (!f->happened && t_now_ms() > f->due_ms)
        px_dark(w->px[1 - f->n], true);
}

static void light(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    for (int i = 0; i < 2; i++)
        px_dark(w->px[i], false);
}

static void refuse(struct storm_world *w, struct storm_fault *f)
{
    px_refuse(w->px[f->step->target], true);
    f->happened = true;
}

static void admit(struct storm_world *w, struct storm_fault *f)
{
    px_refuse(w->px[f->step->target], false);
}

/* ------------------------------------------------------------------------------------------------ workers and clocks */

static void kill_worker(struct storm_world *w, struct storm_fault *f)
{
    storm_worker_kill(&w->workers, storm_worker_pick(&w->workers, &f->seed));
    f->happened = true;
}

static void replace_worker(struct storm_world *w, struct storm_fault *f)
{
    storm_worker_start(&w->workers, w->orders[case_below(&f->seed, 2)]);
}

static void stop_worker(struct storm_world *w, struct storm_fault *f)
{
    f->n = storm_worker_pick(&w->workers, &f->seed);
    storm_worker_stop(&w->workers, f->n);
    f->happened = true;
}

static void continue_worker(struct storm_world *w, struct storm_fault *f)
{
    storm_worker_continue(&w->workers, f->n);
}

/* `holdfast run` itself: its guardian goes on. */
static pid_t some_run(struct storm_world *w, struct storm_fault *f)
{
    return storm_run_of(w->workers.procs[storm_worker_pick(&w->workers, &f->seed)]->pid);
}

static void kill_run(struct storm_world *w, struct storm_fault *f)
{
    const pid_t pid = f->happened ? 0 : some_run(w, f);
    if (pid > 0)
        f->happened = kill(pid, SIGKILL) == 0;
}

static void stop_run(struct storm_world *w, struct storm_fault *f)
{
    if (f->happened || (f->pids[0] = some_run(w, f)) <= 0)
        return;
    f->happened = kill(f->pids[0], SIGSTOP) == 0;
    f->due_ms = t_now_ms() + f->step->ms;
}

static void continue_run(struct storm_world *w, struct storm_fault *f)
{
    (void)w;
    if (f->pids[0] > 0)
        kill(f->pids[0], SIGCONT);
}

static int64_t some_offset(struct storm_fault *f)
{
    const int64_t seconds = WALL_MIN_S + case_below(&f->seed, WALL_MAX_S - WALL_MIN_S);
    return case_chance(&f->seed, 50) ? seconds : -seconds;
}

/* Off from now on, and later by something else. */
static void jump_server(struct storm_world *w, struct storm_fault *f)
{
    wall_set(w->servers[f->step->target].wall_file, some_offset(f));
    f->happened = true;
}

static void jump_workers(struct storm_world *w, struct storm_fault *f)
{
    wall_set(w->workers.wall_file, some_offset(f));
    f->happened = true;
}

/* ------------------------------------------------------------------------------------------------ to PostgreSQL */

static void reset_relayed(struct storm_world *w, struct storm_fault *f)
{
    f->happened = f->happened || storm_relay_reset(w->relay) > 0;
}

static void darken_relayed(struct storm_world *w, struct storm_fault *f)
{
    storm_relay_dark(w->relay, true);
    f->happened = true;
}

static void light_relayed(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    storm_relay_dark(w->relay, false);
}

static void pull_data(struct storm_world *w, struct storm_fault *f)
{
    storm_host_wire(w->host, STORM_WIRE_DATA, false);
    f->happened = true;
}

static void plug_data(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    storm_host_wire(w->host, STORM_WIRE_DATA, true);
}

static void pull_both(struct storm_world *w, struct storm_fault *f)
{
    storm_host_wire(w->host, STORM_WIRE_CALLERS, false);
    pull_data(w, f);
}

static void plug_both(struct storm_world *w, struct storm_fault *f)
{
    storm_host_wire(w->host, STORM_WIRE_CALLERS, true);
    plug_data(w, f);
}

static void nothing(struct storm_world *w, struct storm_fault *f)
{
    (void)w;
    (void)f;
}

const struct storm_move storm_net_moves[STORM_KINDS] = {
    [STORM_DROP] = {drop, look_at_rules, remove_rules},
    [STORM_DELAY] = {delay, look_at_rules, remove_rules},
    [STORM_DOUBLE] = {double_up, look_at_rules, remove_rules},
    [STORM_REORDER] = {reorder, look_at_rules, remove_rules},
    [STORM_CUT] = {cut, look_at_rules, remove_rules},
    [STORM_DARK] = {darken, look_into_dark, light},
    [STORM_RESET] = {refuse, NULL, admit},
    [STORM_WORKER_KILLED] = {kill_worker, NULL, replace_worker},
    [STORM_WORKER_STOPPED] = {stop_worker, NULL, continue_worker},
    [STORM_RUN_KILLED] = {kill_run, kill_run, nothing},
    [STORM_RUN_STOPPED] = {stop_run, stop_run, continue_run},
    [STORM_SERVER_WALL] = {jump_server, NULL, jump_server},
    [STORM_WORKERS_WALL] = {jump_workers, NULL, jump_workers},
    [STORM_DB_RESET] = {reset_relayed, reset_relayed, nothing},
    [STORM_DB_DARK] = {darken_relayed, NULL, light_relayed},
    [STORM_LINK_DOWN] = {pull_data, NULL, plug_data},
    [STORM_HOST_DOWN] = {pull_both, NULL, plug_both},
};
