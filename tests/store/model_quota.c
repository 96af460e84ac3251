/*
 * model_quota.c - expired leases, quotas, policies and the sweeper; see model_rules.h.
 */
#include "store/model_rules.h"

#include <string.h>

const struct m_policy m_default_policy = {.min_ttl_ms = 100, .max_ttl_ms = 86400000, .audit_keep_days = 400};

bool mr_uncounted(const struct m_key *key)
{
    return !(key->lease_row && key->token > 0 && key->ended == 0);
}

bool mr_expired(const struct m_key *key, int64_t now)
{
    return !mr_uncounted(key) && key->deadline <= now && key->deadline + key->ns->policy.lock_delay_ms <= now;
}

int64_t mr_note_expired(const struct m_all *all, const struct m_ns *ns, int64_t now)
{
    int64_t noted = 0;
    for (size_t i = 0; i < all->n_keys; i++) {
        struct m_key *key = &all->keys[i];
        if ((ns && key->ns != ns) || key->lease_locked || !mr_expired(key, now))
            continue;
        key->ended = ENDED_NOTED;
        key->deadline = M_NEVER;
        if (key->ns->usage_row)
            key->ns->leases--;
        all->audit->expiries++;
        noted++;
    }
    return noted;
}

void mr_make_room(const struct m_all *all, struct m_ns *ns, int64_t wanted, int64_t now)
{
    if (ns->policy.max_leases == 0 || !ns->open || ns->leases + wanted <= ns->policy.max_leases)
        return;
    if (ns->noted_at != M_NEVER && now >= ns->noted_at && now < ns->noted_at + 200)
        return;
    all->audit->event[M_NOTED_WHEN_FULL] += mr_note_expired(all, ns, now) > 0;
    ns->noted_at = now;
}

static void count_usage(const struct m_all *all, struct m_ns *ns)
{
    ns->usage_row = true;
    ns->leases = ns->value_bytes = 0;
    for (size_t i = 0; i < all->n_keys; i++) {
        const struct m_key *key = &all->keys[i];
        if (key->ns != ns)
            continue;
        ns->leases += !mr_uncounted(key);
        ns->value_bytes += key->value_row && key->has_value ? (int64_t)strlen(key->value) : 0;
    }
}

static struct m_policy with(const struct m_policy *old, const struct m_policies *given)
{
    struct m_policy policy = *old;
#define TAKE(name)                                                                                                                 \
    if (given->name >= 0)                                                                                                          \
    policy.name = given->name
    TAKE(lock_delay_ms);
    TAKE(min_ttl_ms);
    TAKE(max_ttl_ms);
    TAKE(audit_writes);
    TAKE(max_leases);
    TAKE(max_waiters);
    TAKE(max_value_bytes);
    TAKE(audit_keep_days);
#undef TAKE
    return policy;
}

static bool same(const struct m_policy *a, const struct m_policy *b)
{
    return a->lock_delay_ms == b->lock_delay_ms && a->min_ttl_ms == b->min_ttl_ms && a->max_ttl_ms == b->max_ttl_ms &&
           a->audit_writes == b->audit_writes && a->max_leases == b->max_leases && a->max_waiters == b->max_waiters &&
           a->max_value_bytes == b->max_value_bytes && a->audit_keep_days == b->audit_keep_days;
}

int m_set_namespace(const struct m_all *all, struct m_ns *ns, const struct m_policies *given, struct m_policy *would)
{
    if (!ns->open)
        return ST_NO_SUCH_NAMESPACE;
    struct m_policy old = ns->policy;
    *would = with(&old, given);
    if (would->min_ttl_ms > would->max_ttl_ms)
        return ST_CONTRADICTION;
    ns->policy = *would;
    if ((old.max_leases == 0 && would->max_leases > 0) || (old.max_value_bytes == 0 && would->max_value_bytes > 0)) {
        count_usage(all, ns);
        ns->noted_at = M_NEVER;
    }
    all->audit->policies += !same(&old, would);
    return ST_FOUND;
}

int m_create_namespace(const struct m_ns *ns, const struct m_policies *given, struct m_policy *would)
{
    *would = with(&m_default_policy, given);
    if (would->min_ttl_ms > would->max_ttl_ms)
        return ST_CONTRADICTION;
    if (!ns)
        return ST_FOUND;
    bool repeat = ns->open && same(&ns->policy, would);
    *would = ns->policy;
    return repeat ? ST_FOUND : ST_CONFLICT;
}

int64_t m_sweep(const struct m_all *all, int64_t now)
{
    int64_t done = mr_note_expired(all, NULL, now), rows = 0;
    for (size_t i = 0; i < all->n_keys; i++) {
        struct m_key *key = &all->keys[i];
        bool any = false;
        for (int s = 0; s < M_SERVERS && !key->fence_locked; s++) {
            struct m_waiter *w = &key->waiters[s];
            if (w->row && w->until <= now && (w->turn_until == M_NEVER || w->turn_until <= now)) {
                w->row = false;
                rows++;
                any = true;
            }
        }
        if (any)
            mr_wait_no_more(key, -1);
    }
    for (size_t k = 0; k < all->n_ns; k++) {
        if (all->ns[k].policy.max_leases > 0 || all->ns[k].policy.max_value_bytes > 0)
            count_usage(all, &all->ns[k]);
    }
    all->audit->event[M_SWEPT_LEASE] += done;
    all->audit->event[M_SWEPT_WAITER] += rows;
    return done + rows;
}
