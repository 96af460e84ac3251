/*
 * guard_plan.h - what the guardian of `holdfast run` has to do at which time. Pure: `now` comes in, an action goes out.
 *
 *            started            command ended by itself
 *     IDLE ──────────▶ RUNNING ─────────────────────────▶ TIDYING
 *                       │    │                             │   │
 *     deadline − grace, │    │ deadline, or lost           │   │ none left
 *     or run is gone    ▼    ▼                             │   ▼
 *                    ENDING ─▶ KILLING ◀───────────────────┘  GONE  (also from ENDING and KILLING, when none is left)
 *
 * ENDING: everything got SIGTERM. TIDYING: what the command left behind got SIGTERM. KILLING: everything gets SIGKILL, again
 * and again. Once it has left RUNNING no new deadline brings it back: a command that was told to end is ended.
 *
 * Invariants: in every phase but IDLE and GONE, guard_due() answers KILL as soon as now ≥ deadline; grace = min(10 s, TTL/4).
 */
#ifndef HOLDFAST_CLI_GUARD_PLAN_H
#define HOLDFAST_CLI_GUARD_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum guard_phase { GUARD_IDLE, GUARD_RUNNING, GUARD_TIDYING, GUARD_ENDING, GUARD_KILLING, GUARD_GONE };

/* Why the command was ended. */
enum guard_why {
    GUARD_BY_ITSELF, /* it was not: it ended before the lease did */
    GUARD_DEADLINE,  /* no renewal came in time */
    GUARD_LOST,      /* `run` was told that the lease is lost */
    GUARD_RUN_GONE   /* `run` died: nobody renews any more */
};

enum guard_action {
    GUARD_WAIT,  /* until guard_next() */
    GUARD_TERM,  /* send SIGTERM to everything; said once */
    GUARD_KILL,  /* send SIGKILL to everything; said until none is left */
    GUARD_FINISH /* none is left: report, and end */
};

enum { GUARD_GRACE_MAX_MS = 10000, GUARD_KILL_PAUSE_MS = 5 };

struct guard {
    enum guard_phase phase;
    enum guard_why why;
    bool term_due;
    int64_t deadline_ms; /* the lease's local deadline, on the clock of `now` */
    int64_t grace_ms;
    int64_t kill_at_ms; /* in ENDING and TIDYING; never after the deadline */
};

/* From IDLE. The command runs under a lease of `ttl_ms` that ends at `deadline_ms`. */
void guard_started(struct guard *guard, int64_t deadline_ms, int64_t ttl_ms);
/* The lease was renewed. An earlier deadline than the present one is not believed; outside RUNNING and TIDYING it changes
 * nothing. */
void guard_extended(struct guard *guard, int64_t deadline_ms, int64_t ttl_ms);
/* The lease is lost, surely: everything is to be killed at once, since another may hold the resource already. */
void guard_lost(struct guard *guard);
/* `run` is gone: everything is to be ended, with the grace that the lease still gives. From IDLE: there is nothing to do. */
void guard_run_gone(struct guard *guard, int64_t now_ms);
/* The command itself has ended; descendants of it may be left. */
void guard_command_ended(struct guard *guard, int64_t now_ms);
/* No descendant is left. */
void guard_none_left(struct guard *guard);

/* What to do now. Moves on when a time has come. */
enum guard_action guard_due(struct guard *guard, int64_t now_ms);
/* When to ask again, if nothing happens before: INT64_MAX = never. */
int64_t guard_next(const struct guard *guard, int64_t now_ms);

#endif
