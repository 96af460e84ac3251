/*
 * model.c - see model.h.
 */
#include "store/model_rules.h"

#include <stdio.h>
#include <string.h>

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct m_answer mr_answer(int outcome)
{
    return (struct m_answer){.outcome = outcome, .holder = "", .task = "", .next_server = -1};
}

bool m_live(const struct m_key *key, int64_t now)
{
    return key->lease_row && key->deadline > now;
}

bool mr_pair_busy(const struct m_key *key)
{
    return (key->fence_row && key->fence_locked) || (key->lease_row && key->lease_locked);
}

struct m_answer m_renew(struct m_key *key, int64_t token, int64_t ttl_ms, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    if (!key->lease_row)
        return mr_answer(ST_UNKNOWN_TOKEN);
    if (key->lease_locked)
        return mr_answer(ST_BUSY);
    if (token != key->token)
        return mr_answer(token > key->token ? ST_UNKNOWN_TOKEN : ST_TAKEN_OVER);
    if (m_live(key, now)) {
        struct m_answer out = mr_answer(ST_RENEWED);
        if (ttl_ms > key->ns->policy.max_ttl_ms) {
            ttl_ms = key->ns->policy.max_ttl_ms;
            audit->event[M_TTL_CUT]++;
        }
        key->deadline = max(key->deadline, now + ttl_ms);
        out.ttl_ms = key->deadline - now;
        return out;
    }
    return mr_answer(key->ended == ENDED_RELEASED ? ST_RELEASED : key->ended == ENDED_BROKEN ? ST_BROKEN : ST_EXPIRED);
}

struct m_answer m_release(struct m_key *key, int64_t token, bool unless_repeated, bool turns, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    if (!key->fence_row || !key->lease_row)
        return mr_answer(ST_NOT_FREED);
    if (mr_pair_busy(key))
        return mr_answer(ST_BUSY);
    if (key->token != token)
        return mr_answer(ST_NOT_FREED);
    if (m_live(key, now) && unless_repeated && key->repeats > 0) {
        audit->event[M_REPEATED_STAYS]++;
        return mr_answer(ST_NOT_FREED);
    }
    if (m_live(key, now)) {
        struct m_answer out = mr_answer(ST_FREED);
        key->deadline = M_NEVER;
        key->ended = ENDED_RELEASED;
        audit->releases++;
        if (key->ns->policy.max_leases > 0)
            key->ns->leases--;
        if (turns && key->waiting)
            out.next_server = mr_give_turn(key, now, -1, M_NEVER, &audit->event[M_TURN_GIVEN]);
        return out;
    }
    return mr_answer(key->ended == ENDED_RELEASED ? ST_FREED : ST_NOT_FREED);
}

/* By how much the values grow. */
static int64_t more_bytes(const struct m_key *key, const struct m_write *in)
{
    return (in->value ? (int64_t)strlen(in->value) : 0) - (key->value_row && key->has_value ? (int64_t)strlen(key->value) : 0);
}

static bool too_much(const struct m_key *key, const struct m_write *in)
{
    const struct m_ns *ns = key->ns;
    int64_t more = more_bytes(key, in);
    return ns->policy.max_value_bytes > 0 && more > 0 && ns->value_bytes + more > ns->policy.max_value_bytes;
}

static void do_write(struct m_key *key, const struct m_write *in, int64_t now, struct m_audit *audit)
{
    key->ns->value_bytes += key->ns->policy.max_value_bytes > 0 ? more_bytes(key, in) : 0;
    if (key->value_token != in->token || !key->value_row)
        key->write_seq = key->seq_version = 0;
    if (in->value || key->has_value)
        key->version++;
    if (in->write_seq > 0) {
        key->write_seq = in->write_seq;
        key->seq_version = key->version;
    }
    key->value_row = true;
    key->has_value = in->value != NULL;
    snprintf(key->value, sizeof(key->value), "%s", in->value ? in->value : "");
    key->value_token = in->token;
    key->updated_at = now;
    if (key->ns->policy.audit_writes && in->value)
        audit->writes++;
    else if (key->ns->policy.audit_writes)
        audit->deletes++;
}

struct m_answer m_write(struct m_key *key, const struct m_write *in, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    if (key->fence_row && key->fence_locked)
        return mr_answer(ST_BUSY);

    struct m_answer out = mr_answer(ST_WRITTEN);
    bool same_token = key->value_row && key->value_token == in->token;
    out.fence = key->fence_row ? key->fence : 0;
    out.version = key->value_row ? key->version : 0;
    out.write_seq = same_token ? key->write_seq : 0;
    if (!key->fence_row)
        out.outcome = ST_NOT_HELD;
    else if (in->write_seq > 0 && same_token && in->write_seq <= key->write_seq)
        out.outcome = in->write_seq == key->write_seq && key->seq_version == key->version && key->has_value == (in->value != NULL)
                          ? ST_REPLAYED
                          : ST_SUPERSEDED;
    else if (in->token < key->fence)
        out.outcome = ST_STALE;
    else if (in->token > key->fence || key->token != in->token || !m_live(key, now))
        out.outcome = ST_NOT_HELD;
    else if (in->expected >= 0 && in->expected != (key->has_value ? key->version : 0)) {
        out.outcome = ST_VERSION_MISMATCH;
        out.version = key->has_value ? key->version : 0;
    } else if (too_much(key, in)) {
        out.outcome = ST_QUOTA;
        out.version = key->ns->policy.max_value_bytes;
    } else {
        do_write(key, in, now, audit);
        out.version = key->version;
        out.write_seq = key->write_seq;
    }
    if (out.outcome == ST_STALE)
        audit->refusals++;
    return out;
}

struct m_answer m_check(const struct m_key *key, int64_t token, int64_t now)
{
    if (!key->ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    struct m_answer out = mr_answer(ST_NOT_HELD);
    out.fence = key->fence_row ? key->fence : 0;
    if (key->fence_row && token < key->fence)
        out.outcome = ST_STALE;
    else if (key->fence_row && token == key->fence && key->token == token && m_live(key, now)) {
        out.outcome = ST_CURRENT;
        out.remaining_ms = key->deadline - now;
    }
    return out;
}

struct m_answer m_break(struct m_key *key, int64_t token_seen, bool turns, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    if (mr_pair_busy(key))
        return mr_answer(ST_BREAK_BLOCKED);
    if (!key->fence_row || key->fence == 0)
        return mr_answer(ST_NO_SUCH_RESOURCE);
    struct m_answer out = mr_answer(ST_BREAK_DONE);
    if (!key->lease_row || key->token != token_seen || key->ended == ENDED_RELEASED) {
        out.outcome = ST_BREAK_CHANGED;
        out.live = m_live(key, now);
    } else if (key->ended == 0 || key->ended == ENDED_NOTED || key->fence <= key->token) {
        if (key->ended == 0 && key->ns->policy.max_leases > 0)
            key->ns->leases--;
        key->fence = max(key->fence, key->ns->floor) + 1;
        key->deadline = M_NEVER;
        key->ended = ENDED_BROKEN;
        audit->breaks++;
        if (turns && key->waiting && mr_turn(key) < 0)
            out.next_server = mr_give_turn(key, now, -1, M_NEVER, &audit->event[M_TURN_GIVEN]);
    }
    out.fence = key->fence;
    return out;
}

struct m_answer m_advance(struct m_ns *ns, const struct m_key *keys, size_t n_keys, int64_t at_least, struct m_audit *audit)
{
    if (!ns->open)
        return mr_answer(ST_NO_SUCH_NAMESPACE);
    struct m_answer out = mr_answer(ST_FOUND);
    ns->floor = max(ns->floor, at_least);
    for (size_t i = 0; i < n_keys; i++) {
        if (keys[i].ns == ns && keys[i].fence_row)
            ns->floor = max(ns->floor, keys[i].fence);
    }
    audit->floors++;
    out.fence = ns->floor;
    return out;
}

int m_guard(const struct m_key *key, int64_t token, int64_t now)
{
    if (key->ns->open && key->fence_row && token < key->fence)
        return ST_STALE;
    if (key->ns->open && key->fence_row && token == key->fence && key->token == token && m_live(key, now))
        return 1;
    return ST_NOT_HELD;
}

int m_get_outcome(const struct m_key *key)
{
    if (!key->ns->open)
        return ST_NO_SUCH_NAMESPACE;
    return key->fence_row && key->lease_row && key->token > 0 ? ST_FOUND : ST_NO_SUCH_RESOURCE;
}

int m_read_outcome(const struct m_key *key)
{
    if (!key->ns->open)
        return ST_NO_SUCH_NAMESPACE;
    return key->fence_row && key->fence > 0 ? ST_FOUND : ST_NO_SUCH_RESOURCE;
}
