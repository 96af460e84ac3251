/*
 * failover_proof.h - what a fail-over lost, and that nothing else is amiss.
 *
 * After an asynchronous fail-over there are two trails: that of the old primary up to its death, and that of the standby that took
 * over, which are the same up to what was shipped last. What is in the old one alone is lost, and nobody can have it back; that is
 * what asynchronous means. The proof is that nothing was lost otherwise, and that what came after is right all the same:
 *
 *   - Both trails keep the rules of oracle.h, each by itself.
 *   - Every call that was acknowledged is in one of them. Those that are in the old one alone are counted, and taken for calls of
 *     unknown outcome, and the fail-over for somebody who broke every lease; the calls then keep the rules by themselves, and
 *     agree with the new trail, as they must without any fail-over.
 *   - P1 across both: on each resource every token that the new primary granted is above every token in the old trail.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_FAILOVER_PROOF_H
#define HOLDFAST_TESTS_ROBUSTNESS_FAILOVER_PROOF_H

#include <libpq-fe.h>

#include "robustness/history.h"
#include "robustness/oracle.h"

struct failover_loss {
    size_t rows;                              /* of the old trail alone */
    size_t acquires, writes, releases, reads; /* acknowledged, and lost; reads: made before the new primary served, not judged */
    int64_t lowest_jump; /* from the highest token in either trail before, to the lowest after, of the resources granted again */
    size_t granted_again;
};

/* By history_now_ns(). */
struct failover_times {
    int64_t safe_ns;   /* what was acknowledged before was shipped, and must not be lost */
    int64_t killed_ns; /* every lease of before then may have ended at any time since: as if somebody had broken it */
    int64_t served_ns; /* the new primary serves; reads that began before are not judged */
};

/* Judges the default namespace; the running cmocka test fails with the reason. */
struct failover_loss failover_prove(PGconn *old_primary, PGconn *new_primary, struct history *history,
                                    const struct failover_times *times);

/* The same for trails and calls in memory. `calls` are changed, and there must be room for twice as many. False: `why`. */
bool failover_judge(const struct oracle_trail *before, const struct oracle_trail *after, struct history_call *calls, size_t n,
                    const struct failover_times *times, struct failover_loss *loss, char *why, size_t why_size);

#endif
