/*
 * moves.h - the states of an operation, and which may follow which. One table; SQL has the same (holdfast.operation_move in
 * schema/functions) and refuses the rest whoever writes, and server/README.md shows it: a test compares the three.
 *
 *     (new) ─▶ PENDING ─▶ RUNNING ─▶ SUCCEEDED │ FAILED │ UNKNOWN │ REVIEW │ PENDING (a retry)
 *                 UNKNOWN ─▶ whatever Reconcile says       REVIEW ─▶ PENDING │ CANCELLED
 *
 * No I/O, no clock.
 */
#ifndef HOLDFAST_CORE_MOVES_H
#define HOLDFAST_CORE_MOVES_H

#include <stdbool.h>

/* The numbers of holdfast.v1.Operation.State, and of the column operation.state. */
enum co_state {
    CO_NEW = 0, /* there is no row yet */
    CO_PENDING = 1,
    CO_RUNNING = 2,
    CO_SUCCEEDED = 3,
    CO_FAILED = 4,
    CO_UNKNOWN = 5,
    CO_REVIEW = 6,
    CO_CANCELLED = 7,
    CO_STATES
};

/* True if an operation in state `from` may come into state `to`. Staying in a state is a move for those that a row may be changed
 * in. Unknown states have no moves. */
bool co_move(int from, int to);
/* True if it has come to its end: no move leads to another state. */
bool co_ended(int state);
/* "RUNNING"; "NEW" for CO_NEW, "STATE?" for what is none. */
const char *co_state_name(int state);

#endif
