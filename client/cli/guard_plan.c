/*
 * guard_plan.c - the guardian's state machine. No clock, no I/O, no memory of its own.
 */
#include "client/cli/guard_plan.h"

#include <stdlib.h>

#define TO(phase) (1u << GUARD_##phase)

/* The legal moves, by the phase they leave. */
static const unsigned moves[] = {
    [GUARD_IDLE] = TO(RUNNING) | TO(GONE),
    [GUARD_RUNNING] = TO(TIDYING) | TO(ENDING) | TO(KILLING),
    [GUARD_TIDYING] = TO(KILLING) | TO(GONE),
    [GUARD_ENDING] = TO(KILLING) | TO(GONE),
    [GUARD_KILLING] = TO(GONE),
    [GUARD_GONE] = 0,
};

static void move(struct guard *guard, enum guard_phase to)
{
    if (!(moves[guard->phase] & (1u << to)))
        abort();
    guard->phase = to;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t grace_of(int64_t ttl_ms)
{
    return earlier(ttl_ms / 4, GUARD_GRACE_MAX_MS);
}

void guard_started(struct guard *guard, int64_t deadline_ms, int64_t ttl_ms)
{
    move(guard, GUARD_RUNNING);
    guard->why = GUARD_BY_ITSELF;
    guard->deadline_ms = deadline_ms;
    guard->grace_ms = grace_of(ttl_ms);
}

void guard_extended(struct guard *guard, int64_t deadline_ms, int64_t ttl_ms)
{
    if ((guard->phase != GUARD_RUNNING && guard->phase != GUARD_TIDYING) || deadline_ms <= guard->deadline_ms)
        return;
    guard->deadline_ms = deadline_ms;
    if (guard->phase == GUARD_RUNNING)
        guard->grace_ms = grace_of(ttl_ms);
}

void guard_lost(struct guard *guard)
{
    if (guard->phase == GUARD_IDLE || guard->phase == GUARD_KILLING || guard->phase == GUARD_GONE)
        return;
    if (guard->phase != GUARD_ENDING)
        guard->why = GUARD_LOST;
    move(guard, GUARD_KILLING);
}

void guard_run_gone(struct guard *guard, int64_t now_ms)
{
    if (guard->phase == GUARD_IDLE) {
        move(guard, GUARD_GONE);
    } else if (guard->phase == GUARD_RUNNING) {
        move(guard, GUARD_ENDING);
        guard->why = GUARD_RUN_GONE;
        guard->term_due = true;
        guard->kill_at_ms = earlier(now_ms + guard->grace_ms, guard->deadline_ms);
    }
}

void guard_command_ended(struct guard *guard, int64_t now_ms)
{
    if (guard->phase != GUARD_RUNNING)
        return;
    move(guard, GUARD_TIDYING);
    guard->term_due = true;
    guard->kill_at_ms = now_ms + guard->grace_ms;
}

void guard_none_left(struct guard *guard)
{
    if (guard->phase == GUARD_TIDYING || guard->phase == GUARD_ENDING || guard->phase == GUARD_KILLING)
        move(guard, GUARD_GONE);
}

/* Moves on by the clock. */
static void advance(struct guard *guard, int64_t now_ms)
{
    if (guard->phase == GUARD_RUNNING && now_ms >= guard->deadline_ms - guard->grace_ms) {
        guard->why = GUARD_DEADLINE;
        guard->term_due = true;
        guard->kill_at_ms = guard->deadline_ms;
        move(guard, GUARD_ENDING);
    }
    if (guard->phase == GUARD_TIDYING && now_ms >= guard->deadline_ms) {
        guard->why = GUARD_DEADLINE;
        move(guard, GUARD_KILLING);
    }
    if ((guard->phase == GUARD_TIDYING || guard->phase == GUARD_ENDING) && now_ms >= guard->kill_at_ms)
        move(guard, GUARD_KILLING);
}

enum guard_action guard_due(struct guard *guard, int64_t now_ms)
{
    advance(guard, now_ms);
    if (guard->phase == GUARD_GONE)
        return GUARD_FINISH;
    if (guard->phase == GUARD_KILLING)
        return GUARD_KILL;
    if (!guard->term_due)
        return GUARD_WAIT;
    guard->term_due = false;
    return GUARD_TERM;
}

int64_t guard_next(const struct guard *guard, int64_t now_ms)
{
    switch (guard->phase) {
    case GUARD_IDLE:
        return INT64_MAX;
    case GUARD_RUNNING:
        return guard->deadline_ms - guard->grace_ms;
    case GUARD_TIDYING:
    case GUARD_ENDING:
        return guard->term_due ? now_ms : earlier(guard->kill_at_ms, guard->deadline_ms);
    case GUARD_KILLING:
        return now_ms + GUARD_KILL_PAUSE_MS;
    case GUARD_GONE:
        return now_ms;
    }
    abort();
}
