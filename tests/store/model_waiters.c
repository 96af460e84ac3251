/*
 * model_waiters.c - turns between servers; see model_rules.h.
 */
#include "store/model_rules.h"

int mr_turn(const struct m_key *key)
{
    for (int s = 0; s < M_SERVERS; s++) {
        if (key->waiters[s].row && key->waiters[s].turn_until != M_NEVER)
            return s;
    }
    return -1;
}

int mr_give_turn(struct m_key *key, int64_t now, int but, int64_t before, long *event)
{
    int next = -1;
    for (int s = 0; s < M_SERVERS; s++) {
        const struct m_waiter *w = &key->waiters[s];
        if (!w->row || w->until <= now || s == but || (before != M_NEVER && w->since >= before))
            continue;
        if (next < 0 || w->since < key->waiters[next].since)
            next = s;
    }
    if (next >= 0) {
        key->waiters[next].turn_until = now + TURN_MS;
        (*event)++;
    }
    return next;
}

bool mr_turn_before(struct m_key *key, int server, const struct m_acquire *in, int64_t now, struct m_audit *audit, bool all,
                    struct m_answer *out)
{
    int turn = mr_turn(key), next = -1;
    int64_t since = in->wait_ms > 0 && !all && server >= 0 ? now - in->waited_ms : M_NEVER;
    if (turn < 0)
        return true;
    if (key->waiters[turn].turn_until > now) {
        audit->event[turn == server ? M_TURN_TAKEN : all ? M_ALL_TURN_RUNS : M_TURN_RUNS]++;
        if (turn == server)
            return true;
    } else {
        key->waiters[turn].row = false;
        if (server >= 0) {
            const struct m_waiter *own = &key->waiters[server];
            if (since == M_NEVER && own->row && own->until > now)
                since = own->since;
            next = mr_give_turn(key, now, server, since, &audit->event[all ? M_ALL_TURN_PASSED_ON : M_TURN_PASSED_ON]);
        }
        if (next < 0) {
            audit->event[M_TURN_RAN_OUT]++;
            return true;
        }
        turn = next;
    }
    *out = mr_answer(ST_HELD);
    out->token = key->fence;
    out->remaining_ms = key->waiters[turn].turn_until - now;
    out->next_server = next;
    out->max_waiters = key->ns->policy.max_waiters;
    return false;
}

void mr_wait_for(struct m_key *key, int server, int64_t since, int64_t until)
{
    struct m_waiter *w = &key->waiters[server];
    if (!w->row)
        w->turn_until = M_NEVER;
    w->row = key->waiting = true;
    w->since = since;
    w->until = until;
}

bool mr_wait_no_more(struct m_key *key, int server)
{
    bool was_there = server >= 0 && key->waiters[server].row, any = false;
    if (server >= 0)
        key->waiters[server].row = false;
    for (int s = 0; s < M_SERVERS; s++)
        any = any || key->waiters[s].row;
    key->waiting = key->waiting && any;
    return was_there;
}

struct m_answer m_leave(struct m_key *key, int server, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    if (!key->fence_row)
        return mr_answer(ST_NOT_FREED);
    if (key->fence_locked)
        return mr_answer(ST_BUSY);
    bool had_turn = mr_turn(key) == server;
    struct m_answer out = mr_answer(mr_wait_no_more(key, server) ? ST_FREED : ST_NOT_FREED);
    if (had_turn && !m_live(key, now))
        out.next_server = mr_give_turn(key, now, -1, M_NEVER, &audit->event[M_TURN_GIVEN]);
    return out;
}
