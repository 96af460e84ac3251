/*
 * model_admin.c - policies of namespaces, and the sweeper; see model_items.h.
 */
#include "store/model_items.h"

#include <inttypes.h>
#include <stdlib.h>

/* ",bigint", NULL for what is not given. */
static void put_policies(struct ts_text *sql, const struct m_policies *p)
{
    const int64_t values[] = {p->lock_delay_ms, p->min_ttl_ms,  p->max_ttl_ms,      p->audit_writes,
                              p->max_leases,    p->max_waiters, p->max_value_bytes, p->audit_keep_days};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (values[i] < 0)
            ts_put(sql, ",NULL");
        else if (i == 3)
            ts_put(sql, ",%s", values[i] ? "true" : "false");
        else
            ts_put(sql, ",%" PRId64, values[i]);
    }
}

static void compare_policy(struct m_world *w, const char *what, const struct m_key *about, const PGresult *result,
                           const struct m_policy *want)
{
    const int64_t values[] = {want->lock_delay_ms, want->min_ttl_ms,  want->max_ttl_ms,      want->audit_writes,
                              want->max_leases,    want->max_waiters, want->max_value_bytes, want->audit_keep_days};
    mi_same_text(w, what, about, "name", PQgetvalue(result, 0, 1), about->ns->name);
    for (int i = 0; i < 8; i++)
        mi_same(w, what, about, PQfname(result, 2 + i), i == 3 ? PQgetvalue(result, 0, 5)[0] == 't' : ts_int(result, 0, 2 + i),
                values[i]);
}

static int64_t one_of(struct m_world *w, int64_t a, int64_t b, int64_t c)
{
    const int64_t values[] = {a, b, c};
    return values[mi_random(w, 3)];
}

/* Some of them, small enough to matter. Only `other` has quotas, so that the work in `default` is never throttled by them. */
static struct m_policies choose_policies(struct m_world *w, const struct m_ns *ns)
{
    struct m_policies p = {-1, -1, -1, -1, -1, -1, -1, -1};
    bool quotas = ns == &w->ns[2];
    if (mi_chance(w, 50))
        p.lock_delay_ms = one_of(w, 0, 0, 400);
    if (mi_chance(w, 40))
        p.min_ttl_ms = one_of(w, 100, 100, 900);
    if (mi_chance(w, 40))
        p.max_ttl_ms = one_of(w, 86400000, 3000, 800);
    if (mi_chance(w, 20))
        p.audit_writes = mi_chance(w, 50);
    if (quotas && mi_chance(w, 60))
        p.max_leases = one_of(w, 0, 3, 6);
    if (mi_chance(w, 20))
        p.max_waiters = (int64_t)mi_random(w, 100);
    if (quotas && mi_chance(w, 60))
        p.max_value_bytes = one_of(w, 0, 20, 60);
    if (mi_chance(w, 30)) {
        p.min_ttl_ms = 5000;
        p.max_ttl_ms = 4999;
    }
    if (mi_chance(w, 20))
        p.audit_keep_days = 1 + (int64_t)mi_random(w, 500);
    return p;
}

static void set_or_create(struct m_world *w, bool create)
{
    struct m_ns *ns = &w->ns[mi_random(w, 4)];
    struct m_policies given = choose_policies(w, ns);
    struct m_policy would = {0};
    struct ts_text sql = {0};
    struct m_answer want;

    if (create && ns == &w->ns[1]) { /* it isn't there, and mustn't be */
        given.min_ttl_ms = 5000;
        given.max_ttl_ms = 4999;
    } else if (create && ns->open && mi_chance(w, 50)) { /* as it is already */
        const struct m_policy *is = &ns->policy;
        given = (struct m_policies){is->lock_delay_ms, is->min_ttl_ms,  is->max_ttl_ms,      is->audit_writes,
                                    is->max_leases,    is->max_waiters, is->max_value_bytes, is->audit_keep_days};
    } else if (!create && mi_chance(w, 50)) {
        ns = &w->ns[mi_random(w, 2) * 2];
        given = choose_policies(w, ns);
    }
    const struct m_key about = {.ns = ns};
    ts_put(&sql, "SELECT * FROM holdfast.%s('%s'", create ? "create_namespace" : "set_namespace", ns->name);
    put_policies(&sql, &given);
    ts_put(&sql, ",'me')");
    PGresult *result = mi_query(w, sql.text);
    ts_clear(&sql);
    want.outcome =
        create ? m_create_namespace(ns == &w->ns[1] ? NULL : ns, &given, &would) : m_set_namespace(&w->all, ns, &given, &would);
    if (mi_same_outcome(w, create ? "create" : "set", create ? ST_CREATE_NAMESPACE : ST_SET_NAMESPACE, &about, &want,
                        ts_int(result, 0, 0)) &&
        want.outcome != ST_NO_SUCH_NAMESPACE)
        compare_policy(w, create ? "create" : "set", &about, result, &would);
    PQclear(result);
}

void mo_policies(struct m_world *w)
{
    for (int i = 0; i < 4 && !w->mismatch[0]; i++)
        set_or_create(w, i % 2);
}

void mo_sweep(struct m_world *w)
{
    const struct m_key about = {.ns = &w->ns[0]};
    PGresult *result = mi_query(w, "SELECT holdfast.sweep(10000)");
    mi_same(w, "sweep", &about, "rows", ts_int(result, 0, 0), m_sweep(&w->all, w->now));
    PQclear(result);
}
