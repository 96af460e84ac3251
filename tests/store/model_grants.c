/*
 * model_grants.c - acquires, releases and leaves; see model_items.h.
 */
#include "store/model_items.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/model_rules.h"

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
    if (PQnfields(result) > 7) {
        mi_same_server(w, what, key, PQgetvalue(result, row, 7), want->next_server);
        mi_same(w, what, key, "max_waiters", ts_int(result, row, 8), want->max_waiters);
    }
    if (want->outcome == ST_GRANTED)
        witness_grant(w, k, ts_int(result, row, 2), ts_int(result, row, 3));
}

/* What a server of schema 1 cannot read is told to it as BUSY. */
static void for_schema_1(struct m_answer *want)
{
    if (want->outcome == ST_QUOTA || want->outcome == ST_TTL_BOUNDS)
        *want = (struct m_answer){
            .outcome = ST_BUSY, .holder = "", .task = "", .ttl_ms = want->ttl_ms, .remaining_ms = want->remaining_ms};
}

/* The texts of a batch of acquires: they stay until the next one. */
static struct {
    char request[M_KEYS][M_NAME], holder[M_KEYS][M_NAME], task[M_KEYS][M_NAME], label[M_KEYS][M_NAME];
    struct m_acquire in[M_KEYS];
} made;

/* How its server stands to the queue: mostly somebody waits there, and sometimes the caller tries only once. */
static void choose_waiting(struct m_world *w, int server, struct m_acquire *in)
{
    in->server = server;
    in->may_grant = server < 0 || mi_chance(w, 85);
    in->wait_ms = w->line_up ? 2000 : mi_chance(w, 60) ? 1 + (int64_t)mi_random(w, 2500) : 0;
    in->waited_ms = (int64_t)mi_random(w, 400);
    in->next_wait_ms = mi_chance(w, 40) ? 1 + (int64_t)mi_random(w, 2500) : 0;
    in->next_waited_ms = (int64_t)mi_random(w, 300);
}

/* Mostly within the namespace's bounds. */
static int64_t choose_ttl(struct m_world *w, const struct m_ns *ns)
{
    int64_t ttl_ms = mi_chance(w, 2) ? 100000000 : 100 + (int64_t)mi_random(w, 4000);
    if (mi_chance(w, 92) && ttl_ms < ns->policy.min_ttl_ms)
        ttl_ms = ns->policy.min_ttl_ms;
    if (mi_chance(w, 92) && ttl_ms > ns->policy.max_ttl_ms)
        ttl_ms = ns->policy.max_ttl_ms;
    return ttl_ms;
}

static void make_up(struct m_world *w, const struct m_key *key, int i, int server)
{
    if (key->request_id[0] && mi_chance(w, 35))
        snprintf(made.request[i], M_NAME, "%s", key->request_id);
    else
        new_request(w, made.request[i]);
    snprintf(made.holder[i], M_NAME, "host:%" PRIu64 ":\"x\\,'y'", mi_random(w, 1000));
    snprintf(made.task[i], M_NAME, "task %" PRIu64, mi_random(w, 3));
    snprintf(made.label[i], M_NAME, "%s", mi_chance(w, 20) ? "\xc3\xa4{\\\"" : "");
    made.in[i] = (struct m_acquire){
        made.task[i], made.holder[i], made.request[i], made.label[i], choose_ttl(w, key->ns), -1, true, 0, 0, 0, 0};
    if (server >= 0)
        choose_waiting(w, server, &made.in[i]);
}

#define PUT_ARRAY(put, type, value)                                                                                                \
    do {                                                                                                                           \
        ts_put(&sql, ",");                                                                                                         \
        ts_array_open(&sql);                                                                                                       \
        for (int i = 0; i < b.n; i++)                                                                                              \
            put(&sql, value);                                                                                                      \
        ts_array_close(&sql, type);                                                                                                \
    } while (0)

void mo_acquire(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};
    struct m_key *keys[M_KEYS];
    static struct m_answer want[M_KEYS];
    int server = w->line_up ? w->line_up - 1 : mi_chance(w, 15) ? -1 : (int)mi_random(w, M_SERVERS);

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 50), true);
    for (int i = 0; i < b.n; i++) {
        keys[i] = &w->keys[b.key[i]];
        make_up(w, keys[i], i, server);
    }
    mi_start_call(w, &sql, "acquire_batch", &b);
    PUT_ARRAY(ts_array_string, "text", made.task[i]);
    PUT_ARRAY(ts_array_string, "text", made.holder[i]);
    PUT_ARRAY(ts_array_int, "bigint", made.in[i].ttl_ms);
    PUT_ARRAY(ts_array_string, "text", made.request[i]);
    PUT_ARRAY(ts_array_string, "text", made.label[i][0] ? "{\"l\": \"\xc3\xa4{\\\\\\\"\"}" : NULL);
    if (server >= 0) {
        ts_put(&sql, ",'%s'", mi_server(server));
        PUT_ARRAY(ts_array_string, "boolean", made.in[i].may_grant ? "t" : "f");
        PUT_ARRAY(ts_array_int, "bigint", made.in[i].waited_ms);
        PUT_ARRAY(ts_array_int, "bigint", made.in[i].wait_ms);
        PUT_ARRAY(ts_array_int, "bigint", made.in[i].next_waited_ms);
        PUT_ARRAY(ts_array_int, "bigint", made.in[i].next_wait_ms);
    }
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    m_acquire(&w->all, keys, made.in, (size_t)b.n, w->now, want);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        if (server < 0)
            for_schema_1(&want[i]);
        compare_acquired(w, "acquire", ST_ACQUIRE, b.key[i], result, row_of[i], &want[i]);
    }
    PQclear(result);
}

/* The keys of one namespace, and a request_id: new, or one that is known to some or all of them. */
static size_t choose_all(struct m_world *w, int *places, char *request)
{
    size_t n = 0;
    new_request(w, request);
    for (int i = 0; i < w->n_focus && (i == 0 || mi_chance(w, 40)); i++)
        places[n++] = w->focus[i];
    if (n > 0)
        return n;
    if (w->n_last_all > 0 && mi_chance(w, 40)) {
        memcpy(places, w->last_all, sizeof(w->last_all));
        snprintf(request, M_NAME, "%s", w->last_all_request);
        return w->n_last_all;
    }
    const struct m_ns *ns = &w->ns[mi_chance(w, 35) ? 0 : mi_chance(w, 70) ? 2 : 1 + 2 * mi_random(w, 2)];
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
    struct m_acquire in[8];
    struct m_answer want[8];
    struct ts_text sql = {0};
    struct batch b = {0};
    size_t n = choose_all(w, places, request);
    int server = mi_chance(w, w->n_focus > 0 ? 10 : 25) ? -1 : (int)mi_random(w, M_SERVERS);
    int64_t ttl_ms = mi_chance(w, 8) ? 100000000 : choose_ttl(w, w->keys[places[0]].ns);

    ts_put(&sql, "SELECT * FROM holdfast.acquire_all('%s',", w->keys[places[0]].ns->name);
    ts_array_open(&sql);
    for (size_t i = 0; i < n; i++) {
        keys[i] = &w->keys[places[i]];
        in[i] = (struct m_acquire){"several", "host:all", request, "", ttl_ms, server, server < 0 || mi_chance(w, 96), 0, 0, 0, 0};
        ts_array_string(&sql, keys[i]->name);
    }
    b.n = (int)n;
    ts_array_close(&sql, "text");
    ts_put(&sql, ",'%s','%s',%" PRId64 ",'%s',NULL", in[0].task, in[0].holder, ttl_ms, request);
    if (server >= 0) {
        ts_put(&sql, ",'%s'", mi_server(server));
        PUT_ARRAY(ts_array_string, "boolean", in[i].may_grant ? "t" : "f");
    }
    ts_put(&sql, ")");
    PGresult *result = mi_query(w, sql.text);
    ts_clear(&sql);

    m_acquire_all(&w->all, keys, in, n, w->now, want, &which);
    if (which >= 0 && server < 0)
        for_schema_1(&want[0]);
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

void mo_release(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    bool unless[M_KEYS] = {false};
    struct ts_text sql = {0};
    bool turns = mi_chance(w, 80); /* otherwise a server of schema 1 asks */

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 30), false);
    for (int i = 0; i < b.n; i++) {
        b.token[i] = mi_choose_token(w, &w->keys[b.key[i]]);
        unless[i] = turns && mi_chance(w, 60);
    }
    mi_start_call(w, &sql, "release_batch", &b);
    mi_put_ints(&sql, b.token, b.n, -1);
    if (turns)
        PUT_ARRAY(ts_array_string, "boolean", unless[i] ? "t" : "f");
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_release(key, b.token[i], unless[i], turns, w->now, &w->audit);
        mi_same_outcome(w, "release", ST_RELEASE, key, &want, ts_int(result, row_of[i], 1));
        if (turns)
            mi_same_server(w, "release", key, PQgetvalue(result, row_of[i], 2), want.next_server);
        if (want.outcome == ST_FREED && b.token[i] == w->witness[b.key[i]].highest)
            w->witness[b.key[i]].held_until = M_NEVER;
    }
    PQclear(result);
}

void mo_leave(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};
    int server = (int)mi_random(w, M_SERVERS);

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 30), false);
    mi_start_call(w, &sql, "leave_batch", &b);
    ts_put(&sql, ",'%s'", mi_server(server));
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_leave(key, server, w->now, &w->audit);
        mi_same_outcome(w, "leave", ST_LEAVE, key, &want, ts_int(result, row_of[i], 1));
        mi_same_server(w, "leave", key, PQgetvalue(result, row_of[i], 2), want.next_server);
    }
    PQclear(result);
}

void mo_hand_over(struct m_world *w)
{
    int first = (int)mi_random(w, 2) * (M_OPEN_KEYS + M_CLOSED_KEYS) + (int)mi_random(w, M_OPEN_KEYS - 8),
        steps = 5 + (int)mi_random(w, 4);
    w->n_focus = 1 + (int)mi_random(w, 4);
    for (int i = 0; i < w->n_focus; i++)
        w->focus[i] = first + i;
    for (w->line_up = M_SERVERS; w->line_up > 0; w->line_up--)
        mo_acquire(w);
    switch (mi_random(w, 8)) {
    case 0:
        mo_break(w);
        break;
    case 1:
        mo_leave(w);
        break;
    default:
        mo_release(w);
        mo_release(w);
    }
    for (int i = 0; i < steps && !w->mismatch[0]; i++) {
        bool late = mi_chance(w, i == 0 ? 60 : 40); /* a turn runs 100 ms */
        int turn = mr_turn(&w->keys[w->focus[0]]);
        w->now += (late ? 95 : 0) + (int64_t)mi_random(w, 40);
        if (mi_chance(w, 8)) {
            mo_leave(w);
        } else if (mi_chance(w, late ? 85 : 60)) {
            mo_acquire_all(w);
        } else {
            w->line_up = mi_chance(w, 60) ? turn + 1 : 0;
            mo_acquire(w);
            w->line_up = 0;
        }
    }
    w->n_focus = 0;
}
