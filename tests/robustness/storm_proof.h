/*
 * storm_proof.h - what the oracle doesn't judge of a storm: that no write was made twice, what stands in the end, that no caller
 * was left behind, and that no two holders believed in one lease; and what was done at all.
 *
 * The running cmocka test fails with the reason if something isn't so. For a history with all the changes of the namespace, and
 * writes that all carry a write_seq.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_PROOF_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_PROOF_H

#include <libpq-fe.h>

#include "robustness/history.h"
#include "robustness/storm_worker.h"

/* No call of a worker (or an errand) that lived came back later than STORM_BOUND_MS after its deadline, times in which the worker
 * was stopped apart; none of them was never answered. Prints the latest. */
void storm_prove_answered(struct history *history, const struct storm_workers *workers);

/* P7: nobody was told that its lease is valid after somebody had been told of a newer one, unless it was broken, or an upset may
 * have ended it. Returns how many leases were judged. */
size_t storm_prove_claims(struct history *history, const struct storm_workers *workers);

struct storm_counts {
    unsigned calls, acquired, taken_over,
        hand_overs; /* taken_over: of the granted, after an expiry; hand_overs: to another thread */
    unsigned written, deleted, replayed, read, released, broken, errands; /* errands: of the written, those under holdfast run */
    unsigned refused, unknown, repeats_sent;                              /* of all kinds; tries beyond the first */
    unsigned silent; /* the longest time, in ms, in which nobody was granted anything and nothing was written */
};
struct storm_counts storm_count(PGconn *conn, const char *name_space, struct history *history);

#endif
