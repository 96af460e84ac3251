/*
 * model_ops.c - renewals, writes, breaks and floors; see model_items.h.
 */
#include "store/model_items.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mo_renew(struct m_world *w)
{
    struct batch b = {0};
    int64_t ttl[M_KEYS] = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 50), false);
    for (int i = 0; i < b.n; i++) {
        b.token[i] = mi_choose_token(w, &w->keys[b.key[i]]);
        ttl[i] = mi_chance(w, 8) ? 100000000 : 100 + (int64_t)mi_random(w, 3000);
    }
    mi_start_call(w, &sql, "renew_batch", &b);
    mi_put_ints(&sql, b.token, b.n, -1);
    mi_put_ints(&sql, ttl, b.n, -1);
    ts_put(&sql, ",%s", w->locks || mi_chance(w, 30) ? "true" : "false"); /* the optimistic form would wait for the locks */
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_renew(key, b.token[i], ttl[i], w->now, &w->audit);
        if (mi_same_outcome(w, "renew", ST_RENEW, key, &want, ts_int(result, row_of[i], 1)))
            mi_same(w, "renew", key, "ttl_ms", ts_int(result, row_of[i], 2), want.ttl_ms);
        struct m_witness *seen = &w->witness[b.key[i]];
        if (want.outcome == ST_RENEWED) {
            if (b.token[i] != seen->highest || seen->held_until <= w->now)
                mi_mismatch(w, "P2: renewed %s under a lease that was not live", key->name);
            seen->held_until = w->now + ts_int(result, row_of[i], 2);
        }
    }
    PQclear(result);
}

static void choose_write(struct m_world *w, const struct m_key *key, struct m_write *in, char *value)
{
    snprintf(value, M_VALUE, "v%" PRIu64, mi_random(w, 1000000));
    in->token = mi_choose_token(w, key);
    in->value = mi_chance(w, 70) ? value : NULL;
    int64_t last = key->value_token == in->token ? key->write_seq : 0;
    uint64_t dice = mi_random(w, 100);
    in->write_seq = dice < 45 ? last + 1 : dice < 68 ? last : dice < 92 && last > 0 ? 1 + (int64_t)mi_random(w, (uint64_t)last) : 0;
    if (in->write_seq == last && last > 0 && mi_chance(w, 55)) /* a true repeat: of the same kind */
        in->value = key->has_value ? value : NULL;
    dice = mi_random(w, 100);
    in->expected = dice < 60   ? -1
                   : dice < 85 ? (key->has_value ? key->version : 0)
                               : (int64_t)mi_random(w, (uint64_t)key->version + 2);
}

void mo_write(struct m_world *w)
{
    static char value[M_KEYS][M_VALUE];
    struct m_write in[M_KEYS];
    int64_t seq[M_KEYS] = {0}, expected[M_KEYS] = {0};
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 50), false);
    for (int i = 0; i < b.n; i++) {
        choose_write(w, &w->keys[b.key[i]], &in[i], value[i]);
        b.token[i] = in[i].token;
        seq[i] = in[i].write_seq;
        expected[i] = in[i].expected;
    }
    mi_start_call(w, &sql, "write_batch", &b);
    mi_put_ints(&sql, b.token, b.n, -1);
    mi_put_ints(&sql, seq, b.n, -1);
    ts_put(&sql, ",");
    ts_array_open(&sql);
    for (int i = 0; i < b.n; i++)
        ts_array_string(&sql, in[i].value);
    ts_array_close(&sql, "bytea");
    mi_put_ints(&sql, expected, b.n, -1);
    bool knows_quota = mi_chance(w, 70); /* otherwise as a server of schema 1 calls it */
    ts_put(&sql, "%s", knows_quota ? ",true" : "");
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        const struct m_witness *seen = &w->witness[b.key[i]];
        struct m_answer want = m_write(key, &in[i], w->now, &w->audit);
        if (want.outcome == ST_QUOTA && !knows_quota)
            want.outcome = ST_BUSY;
        if (!mi_same_outcome(w, "write", ST_WRITE, key, &want, ts_int(result, row_of[i], 1)))
            break;
        if ((want.outcome >= ST_WRITTEN && want.outcome <= ST_SUPERSEDED) || want.outcome == ST_QUOTA) {
            mi_same(w, "write", key, "version", ts_int(result, row_of[i], 2), want.version);
            mi_same(w, "write", key, "fence", ts_int(result, row_of[i], 3), want.fence);
            mi_same(w, "write", key, "write_seq", ts_int(result, row_of[i], 4), want.write_seq);
        }
        if (want.outcome == ST_WRITTEN && (in[i].token != seen->highest || seen->held_until <= w->now))
            mi_mismatch(w, "P3: %s written under token %" PRId64 " of %" PRId64, key->name, in[i].token, seen->highest);
    }
    PQclear(result);
}

void mo_break(struct m_world *w)
{
    for (int turn = 0; turn < 4 && !w->mismatch[0]; turn++) {
        int k = w->n_focus > 0 ? w->focus[mi_random(w, (uint64_t)w->n_focus)] : (int)mi_random(w, M_KEYS);
        if (w->n_focus > 0)
            ;
        else if (!w->locks && mi_chance(w, 8))
            k = M_OPEN_KEYS; /* of a namespace that isn't open */
        else if (!w->locks && mi_chance(w, 15))
            k = mi_never_leased(&w->keys[M_OPEN_KEYS - 1]) ? M_OPEN_KEYS - 1 : k;
        for (int i = 0; i < M_KEYS && w->locks && mi_chance(w, 95) && !w->keys[k].fence_locked && !w->keys[k].lease_locked; i++)
            k = (k + 1) % M_KEYS;
        struct m_key *key = &w->keys[k];
        int64_t token = mi_choose_token(w, key);
        struct ts_text sql = {0};
        bool turns = mi_chance(w, 75);
        ts_put(&sql, "SELECT * FROM holdfast.break_lease('%s','%s',%" PRId64 ",'me','because'%s)", key->ns->name, key->name, token,
               turns ? ",true" : "");
        PGresult *result = mi_query(w, sql.text);
        ts_clear(&sql);
        struct m_answer want = m_break(key, token, turns, w->now, &w->audit);
        if (mi_same_outcome(w, "break", ST_BREAK, key, &want, ts_int(result, 0, 0))) {
            if (want.outcome == ST_BREAK_DONE || want.outcome == ST_BREAK_CHANGED) {
                mi_same(w, "break", key, "fence", ts_int(result, 0, 1), want.fence);
                mi_same(w, "break", key, "live", PQgetvalue(result, 0, 2)[0] == 't', want.live);
            }
            mi_same(w, "break", key, "pid", ts_int(result, 0, 3), want.outcome == ST_BREAK_BLOCKED ? PQbackendPID(w->other) : 0);
            if (turns)
                mi_same_server(w, "break", key, PQgetvalue(result, 0, 4), want.next_server);
            if (want.outcome == ST_BREAK_DONE && token == w->witness[k].highest)
                w->witness[k].held_until = M_NEVER;
        }
        PQclear(result);
    }
}

void mo_advance(struct m_world *w)
{
    struct m_ns *ns = &w->ns[mi_random(w, 4)];
    int64_t at_least = mi_chance(w, 50) ? 0 : ns->floor + (int64_t)mi_random(w, 20);
    char sql[160];
    snprintf(sql, sizeof(sql), "SELECT * FROM holdfast.advance_fences('%s', %" PRId64 ", 'me', 'because')", ns->name, at_least);
    PGresult *result = mi_query(w, sql);
    struct m_answer want = m_advance(ns, w->keys, M_KEYS, at_least, &w->audit);
    const struct m_key about = {.ns = ns};
    if (mi_same_outcome(w, "advance", ST_ADVANCE_FENCES, &about, &want, ts_int(result, 0, 0)))
        mi_same(w, "advance", &about, "floor", ts_int(result, 0, 1), want.fence);
    PQclear(result);
}
