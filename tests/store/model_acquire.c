/*
 * model_acquire.c - what acquires are meant to do; see model.h.
 */
#include <stdio.h>
#include <string.h>

#include "store/model_rules.h"

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void copy(char *to, const char *from)
{
    snprintf(to, M_NAME, "%s", from ? from : "");
}

/* Rows that are missing are made, free. */
static void make_rows(struct m_key *key)
{
    if (!key->fence_row) {
        key->fence_row = true;
        key->fence = key->grant_token = 0;
        key->repeats = 0;
        copy(key->request_id, "");
    }
    if (!key->lease_row) {
        key->lease_row = true;
        key->token = 0;
        key->deadline = key->granted_at = M_NEVER;
        key->ended = 0;
        copy(key->task, "");
        copy(key->holder, "");
        copy(key->label, "");
    }
}

static bool got_by(const struct m_key *key, const char *request_id)
{
    return key->fence_row && key->grant_token > 0 && strcmp(key->request_id, request_id) == 0;
}

static bool grant_lives(const struct m_key *key, int64_t now)
{
    return m_live(key, now) && key->token == key->grant_token;
}

static struct m_answer grant(struct m_key *key, const struct m_acquire *in, int64_t now, struct m_audit *audit)
{
    struct m_answer out = mr_answer(ST_GRANTED);
    if (key->token > 0 && (key->ended == 0 || key->ended == ENDED_NOTED))
        audit->takeovers++;
    else
        audit->grants++;
    if (key->ns->policy.max_leases > 0 && mr_uncounted(key))
        key->ns->leases++;
    key->fence = max(max(key->fence, key->ns->floor), key->token) + 1;
    key->grant_token = key->token = key->fence;
    key->repeats = 0;
    copy(key->request_id, in->request_id);
    key->deadline = now + in->ttl_ms;
    key->granted_at = now;
    key->ended = 0;
    copy(key->task, in->task);
    copy(key->holder, in->holder);
    copy(key->label, in->label);
    out.token = key->token;
    out.ttl_ms = in->ttl_ms;
    return out;
}

static struct m_answer repeated(struct m_key *key, int64_t now)
{
    struct m_answer out = mr_answer(ST_REPEATED);
    key->repeats++;
    out.token = key->token;
    out.ttl_ms = key->deadline - now;
    return out;
}

static struct m_answer ended(const struct m_key *key)
{
    struct m_answer out = mr_answer(ST_ENDED);
    out.token = key->grant_token;
    return out;
}

/* What keeps a new acquire off, turns and quotas apart: true, and the answer. */
static bool refused(const struct m_key *key, const struct m_acquire *in, int64_t now, struct m_answer *out)
{
    const struct m_policy *policy = &key->ns->policy;
    bool delayed = policy->lock_delay_ms > 0 && key->lease_row && key->ended == 0 && key->token > 0 &&
                   key->deadline + policy->lock_delay_ms > now;
    if (in->ttl_ms < policy->min_ttl_ms || in->ttl_ms > policy->max_ttl_ms) {
        *out = mr_answer(ST_TTL_BOUNDS);
        out->ttl_ms = policy->min_ttl_ms;
        out->remaining_ms = policy->max_ttl_ms;
        return true;
    }
    if (!m_live(key, now) && !delayed && in->may_grant)
        return false;
    *out = mr_answer(ST_HELD);
    out->max_waiters = policy->max_waiters;
    out->token = key->fence_row ? key->fence : 0;
    if (m_live(key, now)) {
        out->token = key->token;
        out->holder = key->holder;
        out->task = key->task;
        out->remaining_ms = key->deadline - now;
    } else if (delayed) {
        out->remaining_ms = key->deadline + policy->lock_delay_ms - now;
    }
    return true;
}

static void count_refusal(const struct m_key *key, const struct m_answer *out, int64_t now, struct m_audit *audit)
{
    if (out->outcome == ST_HELD && !m_live(key, now))
        audit->event[out->remaining_ms > 0 ? M_LOCK_DELAY : M_MAY_NOT]++;
}

/* The outcome so far, ST_GRANTED = nothing is in the way but perhaps a quota. */
static struct m_answer first_look(struct m_key *key, const struct m_acquire *in, int64_t now, struct m_audit *audit)
{
    struct m_answer out;
    if (!key->ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    bool busy = mr_pair_busy(key);
    make_rows(key);
    if (busy)
        return mr_answer(ST_BUSY);
    if (got_by(key, in->request_id))
        return grant_lives(key, now) ? mr_answer(ST_REPEATED) : ended(key);
    if (refused(key, in, now, &out)) {
        count_refusal(key, &out, now, audit);
        return out;
    }
    if (key->waiting && !mr_turn_before(key, in->server, in, now, audit, false, &out))
        return out;
    return mr_answer(ST_GRANTED);
}

static void make_room(const struct m_all *all, struct m_key *const *keys, const struct m_answer *answers, size_t n, int64_t now)
{
    for (size_t k = 0; k < all->n_ns; k++) {
        int64_t wanted = 0;
        for (size_t i = 0; i < n; i++)
            wanted += keys[i]->ns == &all->ns[k] && answers[i].outcome == ST_GRANTED && mr_uncounted(keys[i]);
        for (size_t i = 0; i < n; i++) {
            if (keys[i]->ns == &all->ns[k]) {
                mr_make_room(all, &all->ns[k], wanted, now);
                break;
            }
        }
    }
}

static bool full(const struct m_key *key)
{
    const struct m_ns *ns = key->ns;
    return ns->policy.max_leases > 0 && mr_uncounted(key) && ns->leases >= ns->policy.max_leases;
}

static struct m_answer no_room(const struct m_key *key)
{
    struct m_answer out = mr_answer(ST_QUOTA);
    out.ttl_ms = key->ns->policy.max_leases;
    return out;
}

/* The record of who waits, after the answer. */
static void note_waiting(struct m_key *key, const struct m_acquire *in, const struct m_answer *answer, int64_t now,
                         struct m_audit *audit)
{
    if (answer->outcome == ST_GRANTED) {
        mr_wait_no_more(key, in->server);
        if (in->server >= 0 && in->next_wait_ms > 0) {
            mr_wait_for(key, in->server, now - in->next_waited_ms, now + in->next_wait_ms);
            audit->event[M_WAITS_ON]++;
        }
    } else if (answer->outcome == ST_HELD && in->server >= 0 && in->wait_ms > 0) {
        mr_wait_for(key, in->server, now - in->waited_ms, now + in->wait_ms);
        audit->event[M_WAITS]++;
    }
}

void m_acquire(const struct m_all *all, struct m_key *const *keys, const struct m_acquire *in, size_t n, int64_t now,
               struct m_answer *answers)
{
    for (size_t i = 0; i < n; i++)
        answers[i] = first_look(keys[i], &in[i], now, all->audit);
    make_room(all, keys, answers, n, now);
    for (size_t i = 0; i < n; i++) {
        if (answers[i].outcome == ST_GRANTED && full(keys[i]))
            answers[i] = no_room(keys[i]);
        else if (answers[i].outcome == ST_GRANTED)
            answers[i] = grant(keys[i], &in[i], now, all->audit);
        else if (answers[i].outcome == ST_REPEATED)
            answers[i] = repeated(keys[i], now);
        note_waiting(keys[i], &in[i], &answers[i], now, all->audit);
    }
}

/* ------------------------------------------------------------------------------------------------ of several resources */

/* The key that refuses an acquire of several, among those whose rows exist (or all, once they were made); -1 = none. */
static int in_the_way(struct m_key *const *keys, const struct m_acquire *in, size_t n, int64_t now, bool made, struct m_answer *why)
{
    int first_busy = -1, first_refused = -1, first_repeat = -1;
    bool repeat = false, others = false;
    struct m_answer refusal = mr_answer(0), out;
    for (size_t i = 0; i < n; i++) {
        const struct m_key *key = keys[i];
        bool whole = key->fence_row && key->lease_row;
        if (mr_pair_busy(key) && (whole || made)) {
            first_busy = first_busy < 0 ? (int)i : first_busy;
            continue;
        }
        if (!got_by(key, in->request_id)) {
            others = true;
            if (first_refused < 0 && refused(key, &in[i], now, &out)) {
                first_refused = (int)i;
                refusal = out;
            }
        } else if (!grant_lives(key, now)) {
            *why = ended(key);
            return (int)i;
        } else {
            repeat = true;
            first_repeat = first_repeat < 0 ? (int)i : first_repeat;
        }
    }
    if (first_busy >= 0) {
        *why = mr_answer(ST_BUSY);
        return first_busy;
    }
    if (repeat && others) {
        *why = ended(keys[first_repeat]);
        return first_repeat;
    }
    if (!repeat && first_refused >= 0) {
        *why = refusal;
        return first_refused;
    }
    return -1;
}

/* All are free: whose turn it is, and whether there is room. The key that refuses, or -1. */
static int turns_and_room(const struct m_all *all, struct m_key *const *keys, const struct m_acquire *in, size_t n, int64_t now,
                          struct m_answer *why)
{
    struct m_ns *ns = keys[0]->ns;
    int64_t wanted = 0;
    for (size_t i = 0; i < n; i++) {
        if (keys[i]->waiting && !mr_turn_before(keys[i], in->server, in, now, all->audit, true, why))
            return (int)i;
    }
    for (size_t i = 0; i < n; i++)
        wanted += mr_uncounted(keys[i]);
    mr_make_room(all, ns, wanted, now);
    int64_t room = ns->policy.max_leases - ns->leases;
    for (size_t i = 0; i < n && ns->policy.max_leases > 0; i++) {
        if (mr_uncounted(keys[i]) && room-- <= 0) {
            *why = no_room(keys[i]);
            return (int)i;
        }
    }
    for (size_t i = 0; i < n; i++)
        mr_wait_no_more(keys[i], in->server);
    return -1;
}

void m_acquire_all(const struct m_all *all, struct m_key *const *keys, const struct m_acquire *in, size_t n, int64_t now,
                   struct m_answer *answers, int *which)
{
    if (!keys[0]->ns->open) {
        answers[0] = mr_answer(ST_NO_SUCH_NAMESPACE);
        *which = 0;
        return;
    }
    *which = in_the_way(keys, in, n, now, false, &answers[0]);
    if (*which >= 0)
        return;
    for (size_t i = 0; i < n; i++)
        make_rows(keys[i]);
    *which = in_the_way(keys, in, n, now, true, &answers[0]);
    if (*which < 0 && !got_by(keys[0], in->request_id))
        *which = turns_and_room(all, keys, in, n, now, &answers[0]);
    for (size_t i = 0; i < n && *which < 0; i++)
        answers[i] = got_by(keys[i], in->request_id) ? repeated(keys[i], now) : grant(keys[i], in, now, all->audit);
}
