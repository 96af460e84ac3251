/*
 * model_rules.h - between the files of the reference model (model.h).
 */
#ifndef HOLDFAST_TESTS_STORE_MODEL_RULES_H
#define HOLDFAST_TESTS_STORE_MODEL_RULES_H

#include "store/model.h"
#include "store/store.h"

enum { ENDED_NOTED = 2, ENDED_RELEASED = 3, ENDED_BROKEN = 4, TURN_MS = 100 };

struct m_answer mr_answer(int outcome);
/* Is somebody else's lock in the way of one who needs both rows? */
bool mr_pair_busy(const struct m_key *key);

/* model_waiters.c. Who has a turn on record, running or run out; -1 = nobody. */
int mr_turn(const struct m_key *key);
/* The longest-waiting server but `but` (-1: any) that waits since before `before` (M_NEVER: whenever) has the turn: it is counted
 * in
 * `*event` and returned; -1 = nobody waits. */
int mr_give_turn(struct m_key *key, int64_t now, int but, int64_t before, long *event);
/* A free resource is to be granted to `server`: true. Otherwise `*out` says who has the turn. */
bool mr_turn_before(struct m_key *key, int server, const struct m_acquire *in, int64_t now, struct m_audit *audit, bool all,
                    struct m_answer *out);
void mr_wait_for(struct m_key *key, int server, int64_t since, int64_t until);
/* Whether its row was there. */
bool mr_wait_no_more(struct m_key *key, int server);

/* model_quota.c. */
bool mr_expired(const struct m_key *key, int64_t now);
/* Leases that ran out (of `ns`; NULL: of all) get their row in the audit: how many. */
int64_t mr_note_expired(const struct m_all *all, const struct m_ns *ns, int64_t now);
/* Whether one more lease on this key makes its namespace have one more. */
bool mr_uncounted(const struct m_key *key);
/* A namespace to which `wanted` leases are to be added looks for expired ones first, if it is full. */
void mr_make_room(const struct m_all *all, struct m_ns *ns, int64_t wanted, int64_t now);

#endif
