/*
 * model.c - see model.h.
 */
#include "store/model.h"

#include <stdio.h>
#include <string.h>

#include "store/store.h"

enum { ENDED_RELEASED = 3, ENDED_BROKEN = 4 };

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void copy(char *to, const char *from)
{
    snprintf(to, M_NAME, "%s", from ? from : "");
}

static struct m_answer answer(int outcome)
{
    return (struct m_answer){.outcome = outcome, .holder = "", .task = ""};
}

bool m_live(const struct m_key *key, int64_t now)
{
    return key->lease_row && key->deadline > now;
}

/* Is somebody else's lock in the way of one who needs both rows? */
static bool pair_busy(const struct m_key *key)
{
    return (key->fence_row && key->fence_locked) || (key->lease_row && key->lease_locked);
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
    struct m_answer out = answer(ST_GRANTED);
    if (key->token > 0 && key->ended == 0)
        audit->takeovers++;
    else
        audit->grants++;
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

static struct m_answer held(const struct m_key *key, int64_t now)
{
    struct m_answer out = answer(ST_HELD);
    out.token = key->token;
    out.holder = key->holder;
    out.task = key->task;
    out.remaining_ms = key->deadline - now;
    return out;
}

static struct m_answer repeated(struct m_key *key, int64_t now)
{
    struct m_answer out = answer(ST_REPEATED);
    key->repeats++;
    out.token = key->token;
    out.ttl_ms = key->deadline - now;
    return out;
}

static struct m_answer ended(const struct m_key *key)
{
    struct m_answer out = answer(ST_ENDED);
    out.token = key->grant_token;
    return out;
}

struct m_answer m_acquire(struct m_key *key, const struct m_acquire *in, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    bool busy = pair_busy(key);
    make_rows(key);
    if (busy)
        return answer(ST_BUSY);
    if (got_by(key, in->request_id))
        return grant_lives(key, now) ? repeated(key, now) : ended(key);
    return m_live(key, now) ? held(key, now) : grant(key, in, now, audit);
}

/* The key that refuses an acquire of several, among those whose rows exist (or all, once they were made); -1 = none. */
static int in_the_way(struct m_key *const *keys, size_t n, const char *request_id, int64_t now, bool made, struct m_answer *why)
{
    int first_busy = -1, first_held = -1, first_repeat = -1;
    bool repeat = false, others = false;
    for (size_t i = 0; i < n; i++) {
        const struct m_key *key = keys[i];
        bool whole = key->fence_row && key->lease_row;
        if (pair_busy(key) && (whole || made)) {
            first_busy = first_busy < 0 ? (int)i : first_busy;
            continue;
        }
        if (!got_by(key, request_id)) {
            others = true;
            if (m_live(key, now) && first_held < 0)
                first_held = (int)i;
        } else if (!grant_lives(key, now)) {
            *why = ended(key);
            return (int)i;
        } else {
            repeat = true;
            first_repeat = first_repeat < 0 ? (int)i : first_repeat;
        }
    }
    if (first_busy >= 0) {
        *why = answer(ST_BUSY);
        return first_busy;
    }
    if (repeat && others) {
        *why = ended(keys[first_repeat]);
        return first_repeat;
    }
    if (!repeat && first_held >= 0) {
        *why = held(keys[first_held], now);
        return first_held;
    }
    return -1;
}

void m_acquire_all(struct m_key *const *keys, size_t n, const struct m_acquire *in, int64_t now, struct m_audit *audit,
                   struct m_answer *answers, int *which)
{
    if (!keys[0]->ns->open) {
        answers[0] = answer(ST_NO_SUCH_NAMESPACE);
        *which = 0;
        return;
    }
    *which = in_the_way(keys, n, in->request_id, now, false, &answers[0]);
    if (*which >= 0)
        return;
    for (size_t i = 0; i < n; i++)
        make_rows(keys[i]);
    *which = in_the_way(keys, n, in->request_id, now, true, &answers[0]);
    for (size_t i = 0; i < n && *which < 0; i++)
        answers[i] = got_by(keys[i], in->request_id) ? repeated(keys[i], now) : grant(keys[i], in, now, audit);
}

struct m_answer m_renew(struct m_key *key, int64_t token, int64_t ttl_ms, int64_t now)
{
    if (!key->ns->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (!key->lease_row)
        return answer(ST_UNKNOWN_TOKEN);
    if (key->lease_locked)
        return answer(ST_BUSY);
    if (token != key->token)
        return answer(token > key->token ? ST_UNKNOWN_TOKEN : ST_TAKEN_OVER);
    if (m_live(key, now)) {
        struct m_answer out = answer(ST_RENEWED);
        key->deadline = max(key->deadline, now + ttl_ms);
        out.ttl_ms = key->deadline - now;
        return out;
    }
    return answer(key->ended == ENDED_RELEASED ? ST_RELEASED : key->ended == ENDED_BROKEN ? ST_BROKEN : ST_EXPIRED);
}

struct m_answer m_release(struct m_key *key, int64_t token, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (!key->fence_row || !key->lease_row)
        return answer(ST_NOT_FREED);
    if (pair_busy(key))
        return answer(ST_BUSY);
    if (key->token != token)
        return answer(ST_NOT_FREED);
    if (m_live(key, now)) {
        key->deadline = M_NEVER;
        key->ended = ENDED_RELEASED;
        audit->releases++;
        return answer(ST_FREED);
    }
    return answer(key->ended == ENDED_RELEASED ? ST_FREED : ST_NOT_FREED);
}

static void do_write(struct m_key *key, const struct m_write *in, int64_t now, struct m_audit *audit)
{
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
    if (key->ns->audit_writes && in->value)
        audit->writes++;
    else if (key->ns->audit_writes)
        audit->deletes++;
}

struct m_answer m_write(struct m_key *key, const struct m_write *in, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (key->fence_row && key->fence_locked)
        return answer(ST_BUSY);

    struct m_answer out = answer(ST_WRITTEN);
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
        return answer(ST_NO_SUCH_NAMESPACE);
    struct m_answer out = answer(ST_NOT_HELD);
    out.fence = key->fence_row ? key->fence : 0;
    if (key->fence_row && token < key->fence)
        out.outcome = ST_STALE;
    else if (key->fence_row && token == key->fence && key->token == token && m_live(key, now)) {
        out.outcome = ST_CURRENT;
        out.remaining_ms = key->deadline - now;
    }
    return out;
}

struct m_answer m_break(struct m_key *key, int64_t token_seen, int64_t now, struct m_audit *audit)
{
    if (!key->ns->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (pair_busy(key))
        return answer(ST_BREAK_BLOCKED);
    if (!key->fence_row || key->fence == 0)
        return answer(ST_NO_SUCH_RESOURCE);
    struct m_answer out = answer(ST_BREAK_DONE);
    if (!key->lease_row || key->token != token_seen || key->ended == ENDED_RELEASED) {
        out.outcome = ST_BREAK_CHANGED;
        out.live = m_live(key, now);
    } else if (key->ended == 0 || key->fence <= key->token) {
        key->fence = max(key->fence, key->ns->floor) + 1;
        key->deadline = M_NEVER;
        key->ended = ENDED_BROKEN;
        audit->breaks++;
    }
    out.fence = key->fence;
    return out;
}

struct m_answer m_advance(struct m_ns *ns, const struct m_key *keys, size_t n_keys, int64_t at_least, struct m_audit *audit)
{
    if (!ns->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    struct m_answer out = answer(ST_FOUND);
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
