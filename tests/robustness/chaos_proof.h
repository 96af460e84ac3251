/*
 * chaos_proof.h - what the oracle doesn't judge: that no write was made twice, and what stands in the end.
 *
 * The running cmocka test fails with the reason if it isn't so. For a history with all the changes of the namespace, and writes
 * that all carry a write_seq.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_CHAOS_PROOF_H
#define HOLDFAST_TESTS_ROBUSTNESS_CHAOS_PROOF_H

#include <libpq-fe.h>

#include "robustness/history.h"

/* Under each token no more writes are in the trail than write_seqs were sent. */
void chaos_prove_each_once(PGconn *conn, const char *name_space, struct history *history);
/* The resource's value is that of its last row in the trail: as it was told to who wrote it, or as sent by one who doesn't know. */
void chaos_prove_last(PGconn *conn, const char *name_space, const char *resource, struct history *history);

struct chaos_counts {
    unsigned calls, acquired, taken_over,
        hand_overs; /* taken_over: of the granted, after an expiry; hand_overs: to another worker */
    unsigned written, replayed, read, released;
    unsigned refused, unknown, repeats_sent; /* of all kinds; tries beyond the first */
};
struct chaos_counts chaos_count(PGconn *conn, const char *name_space, struct history *history);

#endif
