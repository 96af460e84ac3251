/*
 * model_ops.c - the operations that change something; see model_items.h.
 */
#include "store/model_items.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void witness_grant(struct m_world *w, int k, int64_t token, int64_t ttl_ms)
{
    struct m_witness *seen = &w->witness[k];
    if (token <= seen->highest)
        mi_mismatch(w, "P1: %s got token %" PRId64 " after %" PRId64, w->keys[k].name, token, seen->highest);
    if (seen->held_until > w->now)
        mi_mismatch(w, "P2: %s granted while token %" PRId64 " holds it", w->keys[k].name, seen->highest);
    *seen = (struct m_witness){token, w->now + ttl_ms};
}

static void new_request(struct m_world *w, char *to)
{
    snprintf(to, M_NAME, "q-%" PRId64, ++w->next_request);
}

static void compare_acquired(struct m_world *w, const char *what, int kind, int k, const PGresult *result, int row,
                             const struct m_answer *want)
{
    const struct m_key *key = &w->keys[k];
    if (!mi_same_outcome(w, what, kind, key, want, ts_int(result, row, 1)))
        return;
    mi_same(w, what, key, "token", ts_int(result, row, 2), want->token);
    mi_same(w, what, key, "ttl_ms", ts_int(result, row, 3), want->ttl_ms);
    mi_same_text(w, what, key, "holder", PQgetvalue(result, row, 4), want->holder);
    mi_same_text(w, what, key, "task", PQgetvalue(result, row, 5), want->task);
    mi_same(w, what, key, "remaining_ms", ts_int(result, row, 6), want->remaining_ms);
    if (want->outcome == ST_GRANTED)
        witness_grant(w, k, ts_int(result, row, 2), ts_int(result, row, 3));
}

void mo_acquire(struct m_world *w)
{
    static char request[M_KEYS][M_NAME], holder[M_KEYS][M_NAME], task[M_KEYS][M_NAME], label[M_KEYS][M_NAME];
    struct batch b = {0};
    int64_t ttl[M_KEYS] = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 50), true);
    for (int i = 0; i < b.n; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        if (key->request_id[0] && mi_chance(w, 35))
            snprintf(request[i], M_NAME, "%s", key->request_id);
        else
            new_request(w, request[i]);
        snprintf(holder[i], M_NAME, "host:%" PRIu64 ":\"x\\,'y'", mi_random(w, 1000));
        snprintf(task[i], M_NAME, "task %" PRIu64, mi_random(w, 3));
        snprintf(label[i], M_NAME, "%s", mi_chance(w, 20) ? "\xc3\xa4{\\\"" : "");
        ttl[i] = 100 + (int64_t)mi_random(w, 4000);
    }
    mi_start_call(w, &sql, "acquire_batch", &b);
    ts_put(&sql, ",");
    ts_array_open(&sql);
    for (int i = 0; i < b.n; i++)
        ts_array_string(&sql, task[i]);
    ts_array_close(&sql, "text");
    ts_put(&sql, ",");
    ts_array_open(&sql);
    for (int i = 0; i < b.n; i++)
        ts_array_string(&sql, holder[i]);
    ts_array_close(&sql, "text");
    mi_put_ints(&sql, ttl, b.n, -1);
    ts_put(&sql, ",");
    ts_array_open(&sql);
    for (int i = 0; i < b.n; i++)
        ts_array_string(&sql, request[i]);
    ts_array_close(&sql, "text");
    ts_put(&sql, ",");
    ts_array_open(&sql);
    for (int i = 0; i < b.n; i++)
        ts_array_string(&sql, label[i][0] ? "{\"l\": \"\xc3\xa4{\\\\\\\"\"}" : NULL);
    ts_array_close(&sql, "text");

    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_acquire in = {task[i], holder[i], request[i], label[i], ttl[i]};
        struct m_answer want = m_acquire(&w->keys[b.key[i]], &in, w->now, &w->audit);
        compare_acquired(w, "acquire", ST_ACQUIRE, b.key[i], result, row_of[i], &want);
    }
    PQclear(result);
}

/* The keys of one namespace, and a request_id: new, or one that is known to some or all of them. */
static size_t choose_all(struct m_world *w, int *places, char *request)
{
    size_t n = 0;
    new_request(w, request);
    if (w->n_last_all > 0 && mi_chance(w, 40)) {
        memcpy(places, w->last_all, sizeof(w->last_all));
        snprintf(request, M_NAME, "%s", w->last_all_request);
        return w->n_last_all;
    }
    const struct m_ns *ns = &w->ns[mi_chance(w, 60) ? 0 : mi_random(w, 4)];
    while (n == 0) {
        for (int i = 0; i < M_KEYS && n < 5; i++) {
            if (w->keys[i].ns == ns && !mi_never_leased(&w->keys[i]) && mi_chance(w, ns->open ? 8 : 70))
                places[n++] = i;
        }
    }
    if (w->keys[places[0]].request_id[0] && mi_chance(w, 10))
        snprintf(request, M_NAME, "%s", w->keys[places[0]].request_id);
    return n;
}

void mo_acquire_all(struct m_world *w)
{
    int places[8], which;
    char request[M_NAME];
    struct m_key *keys[8];
    struct m_answer want[8];
    struct ts_text sql = {0};
    size_t n = choose_all(w, places, request);
    struct m_acquire in = {"several", "host:all", request, "", 100 + (int64_t)mi_random(w, 4000)};

    ts_put(&sql, "SELECT * FROM holdfast.acquire_all('%s',", w->keys[places[0]].ns->name);
    ts_array_open(&sql);
    for (size_t i = 0; i < n; i++) {
        keys[i] = &w->keys[places[i]];
        ts_array_string(&sql, keys[i]->name);
    }
    ts_array_close(&sql, "text");
    ts_put(&sql, ",'%s','%s',%" PRId64 ",'%s',NULL)", in.task, in.holder, in.ttl_ms, request);
    PGresult *result = ts_query(w->conn, sql.text);
    ts_clear(&sql);

    m_acquire_all(keys, n, &in, w->now, &w->audit, want, &which);
    if (PQntuples(result) != (which < 0 ? (int)n : 1))
        mi_mismatch(w, "acquire_all of %zu: %d rows, the model says %s", n, PQntuples(result), which < 0 ? "all" : "one");
    for (int row = 0; row < PQntuples(result) && !w->mismatch[0]; row++) {
        size_t i = (size_t)ts_int(result, row, 0) - 1;
        if (i >= n || (which >= 0 && i != (size_t)which))
            mi_mismatch(w, "acquire_all: item %zu, the model says %d", i + 1, which + 1);
        else
            compare_acquired(w, "acquire_all", ST_ACQUIRE_ALL, places[i], result, row, &want[which < 0 ? i : 0]);
    }
    if (which < 0) {
        memcpy(w->last_all, places, sizeof(places));
        w->n_last_all = n;
        snprintf(w->last_all_request, M_NAME, "%s", request);
    }
    PQclear(result);
}

void mo_renew(struct m_world *w)
{
    struct batch b = {0};
    int64_t ttl[M_KEYS] = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 50), false);
    for (int i = 0; i < b.n; i++) {
        b.token[i] = mi_choose_token(w, &w->keys[b.key[i]]);
        ttl[i] = 100 + (int64_t)mi_random(w, 3000);
    }
    mi_start_call(w, &sql, "renew_batch", &b);
    mi_put_ints(&sql, b.token, b.n, -1);
    mi_put_ints(&sql, ttl, b.n, -1);
    ts_put(&sql, ",%s", w->locks || mi_chance(w, 30) ? "true" : "false"); /* the optimistic form would wait for the locks */
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_renew(key, b.token[i], ttl[i], w->now);
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

void mo_release(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 30), false);
    for (int i = 0; i < b.n; i++)
        b.token[i] = mi_choose_token(w, &w->keys[b.key[i]]);
    mi_start_call(w, &sql, "release_batch", &b);
    mi_put_ints(&sql, b.token, b.n, -1);
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_release(key, b.token[i], w->now, &w->audit);
        mi_same_outcome(w, "release", ST_RELEASE, key, &want, ts_int(result, row_of[i], 1));
        if (want.outcome == ST_FREED && b.token[i] == w->witness[b.key[i]].highest)
            w->witness[b.key[i]].held_until = M_NEVER;
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
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        const struct m_witness *seen = &w->witness[b.key[i]];
        struct m_answer want = m_write(key, &in[i], w->now, &w->audit);
        if (!mi_same_outcome(w, "write", ST_WRITE, key, &want, ts_int(result, row_of[i], 1)))
            break;
        if (want.outcome >= ST_WRITTEN && want.outcome <= ST_SUPERSEDED) {
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
        int k = (int)mi_random(w, M_KEYS);
        if (!w->locks && mi_chance(w, 8))
            k = M_OPEN_KEYS; /* of a namespace that isn't open */
        else if (!w->locks && mi_chance(w, 15))
            k = mi_never_leased(&w->keys[M_OPEN_KEYS - 1]) ? M_OPEN_KEYS - 1 : k;
        for (int i = 0; i < M_KEYS && w->locks && mi_chance(w, 95) && !w->keys[k].fence_locked && !w->keys[k].lease_locked; i++)
            k = (k + 1) % M_KEYS;
        struct m_key *key = &w->keys[k];
        int64_t token = mi_choose_token(w, key);
        struct ts_text sql = {0};
        ts_put(&sql, "SELECT * FROM holdfast.break_lease('%s','%s',%" PRId64 ",'me','because')", key->ns->name, key->name, token);
        PGresult *result = ts_query(w->conn, sql.text);
        ts_clear(&sql);
        struct m_answer want = m_break(key, token, w->now, &w->audit);
        if (mi_same_outcome(w, "break", ST_BREAK, key, &want, ts_int(result, 0, 0))) {
            if (want.outcome == ST_BREAK_DONE || want.outcome == ST_BREAK_CHANGED) {
                mi_same(w, "break", key, "fence", ts_int(result, 0, 1), want.fence);
                mi_same(w, "break", key, "live", PQgetvalue(result, 0, 2)[0] == 't', want.live);
            }
            mi_same(w, "break", key, "pid", ts_int(result, 0, 3), want.outcome == ST_BREAK_BLOCKED ? PQbackendPID(w->other) : 0);
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
    PGresult *result = ts_query(w->conn, sql);
    struct m_answer want = m_advance(ns, w->keys, M_KEYS, at_least, &w->audit);
    const struct m_key about = {.ns = ns};
    if (mi_same_outcome(w, "advance", ST_ADVANCE_FENCES, &about, &want, ts_int(result, 0, 0)))
        mi_same(w, "advance", &about, "floor", ts_int(result, 0, 1), want.fence);
    PQclear(result);
}
