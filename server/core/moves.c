/*
 * moves.c - see moves.h.
 */
#include "core/moves.h"

enum { P = 1 << CO_PENDING, R = 1 << CO_RUNNING, S = 1 << CO_SUCCEEDED, F = 1 << CO_FAILED, U = 1 << CO_UNKNOWN };
enum { V = 1 << CO_REVIEW, C = 1 << CO_CANCELLED };

/* By state, those that may follow it. */
static const int moves[CO_STATES] = {
    [CO_NEW] = P | R | S,
    [CO_PENDING] = P | R | S | C,
    [CO_RUNNING] = P | R | S | F | U | V,
    [CO_SUCCEEDED] = S,
    [CO_FAILED] = F,
    [CO_UNKNOWN] = P | S | F | U | C,
    [CO_REVIEW] = P | V | C,
    [CO_CANCELLED] = C,
};

static bool is_state(int state)
{
    return state > CO_NEW && state < CO_STATES;
}

bool co_move(int from, int to)
{
    return from >= CO_NEW && from < CO_STATES && is_state(to) && moves[from] & 1 << to;
}

bool co_ended(int state)
{
    return is_state(state) && !(moves[state] & ~(1 << state));
}

const char *co_state_name(int state)
{
    static const char *const names[CO_STATES] = {"NEW",    "PENDING", "RUNNING", "SUCCEEDED",
                                                 "FAILED", "UNKNOWN", "REVIEW",  "CANCELLED"};
    return state >= CO_NEW && state < CO_STATES ? names[state] : "STATE?";
}
