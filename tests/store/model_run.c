/*
 * model_run.c - see model_run.h. The world, the session that is in the way, and the comparison of the tables.
 */
#include "store/model_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/model_items.h"

#define START_MS INT64_C(1700000000000)

/* guard() as the other session's first call: outcome compared; true if its transaction goes on and holds the fence row. */
static void other_guards(struct m_world *w)
{
    int k = (int)mi_random(w, M_KEYS);
    struct m_key *key = &w->keys[k];
    int64_t token = mi_choose_token(w, key);
    struct m_answer want = {.outcome = m_guard(key, token, w->now)};
    /* Its idle timeout is in real time; ours is not. */
    char *state = t_sqlstate(w->other,
                             "SET test.ms = '%" PRId64 "'; BEGIN; SELECT holdfast.guard('%s', '%s', %" PRId64 "); "
                             "SET LOCAL idle_in_transaction_session_timeout = 0",
                             w->now, key->ns->name, key->name, token);
    int got = !strcmp(state, "00000") ? 1 : !strcmp(state, "HF001") ? ST_STALE : !strcmp(state, "HF002") ? ST_NOT_HELD : -1;
    mi_same_outcome(w, "guard", M_GUARD, key, &want, got);
    if (got == 1)
        key->fence_locked = true;
    else
        t_sql(w->other, "ROLLBACK; BEGIN");
}

static void lock_some(struct m_world *w)
{
    static const char *const strengths[] = {"SHARE", "NO KEY UPDATE", "UPDATE"};
    w->locks = true;
    other_guards(w);
    for (int tables = 0; tables < 2; tables++) {
        struct ts_text sql = {0};
        bool any = false;
        ts_put(&sql, "SELECT 1 FROM holdfast.%s WHERE (namespace, %s) IN (", tables ? "lease" : "resource",
               tables ? "resource" : "name");
        for (int i = 0; i < M_KEYS; i++) {
            struct m_key *key = &w->keys[i];
            if (!mi_chance(w, 15) || !(tables ? key->lease_row : key->fence_row))
                continue;
            *(tables ? &key->lease_locked : &key->fence_locked) = true;
            ts_put(&sql, "%s('%s','%s')", any ? "," : "", key->ns->name, key->name);
            any = true;
        }
        ts_put(&sql, ") FOR %s", strengths[mi_random(w, 3)]);
        if (any)
            PQclear(ts_query(w->other, sql.text));
        ts_clear(&sql);
    }
}

static void unlock_all(struct m_world *w)
{
    if (!w->locks)
        return;
    t_sql(w->other, "ROLLBACK");
    w->locks = false;
    for (int i = 0; i < M_KEYS; i++)
        w->keys[i].fence_locked = w->keys[i].lease_locked = false;
}

/* Somebody deletes a lease row by hand. */
static void lose_lease_row(struct m_world *w)
{
    int k = (int)mi_random(w, M_KEYS);
    struct m_key *key = &w->keys[k];
    if (w->locks || !key->lease_row)
        return;
    t_sql(w->conn, "DELETE FROM holdfast.lease WHERE namespace = '%s' AND resource = '%s'", key->ns->name, key->name);
    key->lease_row = false;
    key->token = 0;
    key->deadline = M_NEVER;
    w->witness[k].held_until = M_NEVER;
}

/* ------------------------------------------------------------------------------------------------ the world */

void m_world_open(struct m_world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    const struct m_ns ns[4] = {
        {.name = "default", .open = true}, {.name = "gone"}, {.name = "other", .open = true}, {.name = "retired"}};
    memcpy(w->ns, ns, sizeof(ns));
    w->all = (struct m_all){w->ns, 4, w->keys, M_KEYS, &w->audit};
    for (int n = 0; n < 4; n++)
        w->ns[n].policy = m_default_policy;
    w->ns[2].policy.audit_writes = true;
    for (int n = 0, k = 0; n < 4; n++) {
        for (int i = 0; i < (ns[n].open ? M_OPEN_KEYS : M_CLOSED_KEYS); i++, k++) {
            w->keys[k].ns = &w->ns[n];
            snprintf(w->keys[k].name, M_NAME, i < 30 ? "r%02d" : "\xc3\xa9%02d \"{,}\\", i);
            w->keys[k].deadline = w->keys[k].granted_at = M_NEVER;
            w->witness[k].held_until = M_NEVER;
        }
    }
    w->random = seed ? seed : 1;
    w->now = START_MS;
    char *dsn = ts_schema();
    w->conn = ts_session(dsn);
    w->other = ts_session(dsn);
    t_sql(w->conn, "INSERT INTO holdfast.namespace (name, audit_writes) VALUES ('other', true);"
                   "INSERT INTO holdfast.namespace (name, retired_at) VALUES ('retired', now());"
                   "SET synchronous_commit = off");
    ts_replace_clock(w->conn);
}

static void list_leases(struct m_world *w)
{
    mo_list(w, true);
}

static void list_resources(struct m_world *w)
{
    mo_list(w, false);
}

static void do_something(struct m_world *w)
{
    static const struct {
        unsigned share; /* of 100 */
        void (*work)(struct m_world *);
    } works[] = {
        {12, mo_acquire}, {12, mo_acquire_all}, {7, mo_renew}, {7, mo_release},     {3, mo_leave},      {13, mo_write},
        {4, mo_check},    {2, mo_read},         {2, mo_get},   {5, mo_break},       {4, list_leases},   {4, list_resources},
        {4, mo_advance},  {4, mo_policies},     {1, mo_sweep}, {1, lose_lease_row}, {15, mo_hand_over},
    };
    unsigned dice = (unsigned)mi_random(w, 100), i = 0;
    for (; dice >= works[i].share; i++)
        dice -= works[i].share;
    works[i].work(w);
}

void m_world_run(struct m_world *w, long steps)
{
    long turns = 0;
    while (w->steps < steps && !w->mismatch[0]) {
        w->now += mi_chance(w, 5)    ? (int64_t)mi_random(w, 3000)
                  : mi_chance(w, 2)  ? -(int64_t)mi_random(w, 20)
                  : mi_chance(w, 55) ? (int64_t)mi_random(w, 40)
                                     : (int64_t)mi_random(w, 250);
        if (mi_chance(w, 22))
            lock_some(w);
        do_something(w);
        unlock_all(w);
        if (++turns % 500 == 0)
            m_world_compare_tables(w);
    }
}

static void compare_audit(struct m_world *w)
{
    const struct {
        const char *what, *sql;
        int64_t want;
    } rows[] = {
        {"grants", "kind = 'grant'", w->audit.grants},       {"takeovers", "kind = 'takeover'", w->audit.takeovers},
        {"releases", "kind = 'release'", w->audit.releases}, {"breaks", "kind = 'break'", w->audit.breaks},
        {"writes", "kind = 'write'", w->audit.writes},       {"deletes", "kind = 'delete'", w->audit.deletes},
        {"floors", "kind = 'floor'", w->audit.floors},       {"expiries", "kind = 'expire'", w->audit.expiries},
        {"policies", "kind = 'policy'", w->audit.policies},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t got = t_sql_int(w->conn, "SELECT count(*) FROM holdfast.audit WHERE %s", rows[i].sql);
        if (got != rows[i].want)
            mi_mismatch(w, "audit: %" PRId64 " %s, the model says %" PRId64, got, rows[i].what, rows[i].want);
    }
    int64_t refusals = t_sql_int(w->conn, "SELECT coalesce(sum(refusals), 0) FROM holdfast.refusal");
    if (refusals != w->audit.refusals)
        mi_mismatch(w, "%" PRId64 " refusals counted, the model says %" PRId64, refusals, w->audit.refusals);
    /* The oracle: in the audit's order, granted tokens strictly rise, and no write is older than one accepted before. */
    int64_t wrong =
        t_sql_int(w->conn, "SELECT count(*) FROM (SELECT kind, token, max(token) OVER (PARTITION BY namespace, resource "
                           "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM holdfast.audit "
                           "WHERE kind IN ('grant', 'takeover', 'write', 'delete')) a "
                           "WHERE token < before OR (token = before AND kind IN ('grant', 'takeover'))");
    if (wrong != 0)
        mi_mismatch(w, "P1 or P3: %" PRId64 " rows of the audit go back to an older token", wrong);
}

#define MS(column) "CASE WHEN " column " > '-infinity' THEN extract(epoch FROM " column ") * 1000 END::bigint"

static int64_t ms(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) ? M_NEVER : ts_int(result, row, column);
}

static void compare_waiters(struct m_world *w)
{
    PGresult *result = ts_query(w->conn, "SELECT namespace, resource, server, " MS("since") ", " MS("until") ", " MS(
                                             "turn_until") " FROM holdfast.waiter ORDER BY 1, 2, 3");
    int row = 0;
    for (int k = 0; k < M_KEYS; k++) {
        const struct m_key *key = &w->keys[k];
        for (int s = 0; s < M_SERVERS; s++) {
            const struct m_waiter *waiter = &key->waiters[s];
            if (!waiter->row || row >= PQntuples(result))
                continue;
            mi_same_text(w, "waiter", key, "resource", PQgetvalue(result, row, 1), key->name);
            mi_same_text(w, "waiter", key, "server", PQgetvalue(result, row, 2), mi_server(s));
            mi_same(w, "waiter", key, "since", ms(result, row, 3), waiter->since);
            mi_same(w, "waiter", key, "until", ms(result, row, 4), waiter->until);
            mi_same(w, "waiter", key, "turn_until", ms(result, row, 5), waiter->turn_until);
            if (waiter->turn_until != M_NEVER && m_live(key, w->now))
                mi_mismatch(w, "%s has a turn while its lease lives", key->name);
            row++;
        }
    }
    if (row != PQntuples(result))
        mi_mismatch(w, "%d rows of waiters, the model has %d", PQntuples(result), row);
    PQclear(result);
}

static void compare_usage(struct m_world *w)
{
    for (int n = 0; n < 4; n++) {
        const struct m_ns *ns = &w->ns[n];
        const struct m_key about = {.ns = (struct m_ns *)(uintptr_t)ns};
        if (!ns->usage_row)
            continue;
        mi_same(w, "usage", &about, "leases",
                t_sql_int(w->conn, "SELECT leases FROM holdfast.usage WHERE namespace = '%s'", ns->name), ns->leases);
        mi_same(w, "usage", &about, "value_bytes",
                t_sql_int(w->conn, "SELECT value_bytes FROM holdfast.usage WHERE namespace = '%s'", ns->name), ns->value_bytes);
    }
}

void m_world_compare_tables(struct m_world *w)
{
    PGresult *result = ts_query(
        w->conn,
        "SELECT r.namespace, r.name, r.fence, r.grant_token, r.repeats, r.request_id, coalesce(l.token, 0), "
        "coalesce(l.ended, 0), " MS(
            "l.deadline") ", "
                          "coalesce(v.version, 0), coalesce(v.write_seq, 0), r.waiting FROM holdfast.resource r "
                          "LEFT JOIN holdfast.lease l ON (l.namespace, l.resource) = (r.namespace, r.name) "
                          "LEFT JOIN holdfast.resource_value v ON (v.namespace, v.resource) = (r.namespace, r.name) ORDER BY 1, 2");
    int row = 0;
    for (int k = 0; k < M_KEYS; k++) {
        const struct m_key *key = &w->keys[k];
        if (!key->fence_row)
            continue;
        if (row >= PQntuples(result))
            break;
        mi_same_text(w, "row", key, "namespace", PQgetvalue(result, row, 0), key->ns->name);
        mi_same_text(w, "row", key, "name", PQgetvalue(result, row, 1), key->name);
        mi_same(w, "row", key, "fence", ts_int(result, row, 2), key->fence);
        mi_same(w, "row", key, "grant_token", ts_int(result, row, 3), key->grant_token);
        mi_same(w, "row", key, "repeats", ts_int(result, row, 4), key->repeats);
        mi_same_text(w, "row", key, "request_id", PQgetvalue(result, row, 5), key->request_id);
        mi_same(w, "row", key, "token", ts_int(result, row, 6), key->token);
        mi_same(w, "row", key, "ended", ts_int(result, row, 7), key->lease_row ? key->ended : 0);
        mi_same(w, "row", key, "deadline", ms(result, row, 8), key->deadline);
        mi_same(w, "row", key, "version", ts_int(result, row, 9), key->version);
        mi_same(w, "row", key, "write_seq", ts_int(result, row, 10), key->write_seq);
        mi_same(w, "row", key, "waiting", PQgetvalue(result, row, 11)[0] == 't', key->waiting);
        row++;
    }
    if (row != PQntuples(result))
        mi_mismatch(w, "%d fence rows, the model has %d", PQntuples(result), row);
    PQclear(result);
    compare_waiters(w);
    compare_usage(w);
    compare_audit(w);
}

void m_world_close(struct m_world *w)
{
    PQfinish(w->conn);
    PQfinish(w->other);
}
