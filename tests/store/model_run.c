/*
 * model_run.c - see model_run.h. One function an operation: it makes up the items, asks SQL, asks the model, and compares.
 */
#include "store/model_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_MS INT64_C(1700000000000)

static uint64_t rnd(struct m_world *w, uint64_t n)
{
    w->random ^= w->random << 13; /* xorshift64 */
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % n;
}

static bool chance(struct m_world *w, unsigned percent)
{
    return rnd(w, 100) < percent;
}

static void __attribute__((format(printf, 2, 3))) mismatch(struct m_world *w, const char *format, ...)
{
    if (w->mismatch[0])
        return;
    va_list args;
    va_start(args, format);
    int n = snprintf(w->mismatch, sizeof(w->mismatch), "step %ld: ", w->steps);
    vsnprintf(w->mismatch + n, sizeof(w->mismatch) - (size_t)n, format, args);
    va_end(args);
}

/* ------------------------------------------------------------------------------------------------ one batch */

/* The items of one batch: different keys, by their places in w->keys. */
struct batch {
    int key[M_KEYS];
    int n;
    int64_t token[M_KEYS];
};

/* Nobody ever leases these: the last two of each open namespace. */
static bool never_leased(const struct m_key *key)
{
    return key->ns->open && strcmp(key->name + 2, "34 \"{,}\\") >= 0 && key->name[0] != 'r';
}

static void choose_keys(struct m_world *w, struct batch *b, unsigned percent, bool to_lease)
{
    bool backwards = chance(w, 10);
    b->n = 0;
    while (b->n == 0) {
        for (int i = 0; i < M_KEYS; i++) {
            int k = backwards ? M_KEYS - 1 - i : i;
            if (chance(w, percent) && !(to_lease && never_leased(&w->keys[k])))
                b->key[b->n++] = k;
        }
    }
}

static int64_t choose_token(struct m_world *w, const struct m_key *key)
{
    uint64_t dice = rnd(w, 100);
    int64_t token = key->token;
    if (dice >= 92)
        token = 1 + (int64_t)rnd(w, 5);
    else if (dice >= 82)
        token = key->token - 1 - (int64_t)rnd(w, 3);
    else if (dice >= 74)
        token = key->fence + 1 + (int64_t)rnd(w, 3);
    else if (dice >= 68)
        token = key->fence;
    return token < 1 ? 1 : token;
}

static void start_call(struct m_world *w, struct ts_text *sql, const char *function, const struct batch *b)
{
    ts_put(sql, "SELECT * FROM holdfast.%s(", function);
    ts_array_open(sql);
    for (int i = 0; i < b->n; i++)
        ts_array_string(sql, w->keys[b->key[i]].ns->name);
    ts_array_close(sql, "text");
    ts_put(sql, ",");
    ts_array_open(sql);
    for (int i = 0; i < b->n; i++)
        ts_array_string(sql, w->keys[b->key[i]].name);
    ts_array_close(sql, "text");
}

static void put_ints(struct ts_text *sql, const int64_t *values, int n, int64_t null)
{
    ts_put(sql, ",");
    ts_array_open(sql);
    for (int i = 0; i < n; i++) {
        if (values[i] == null)
            ts_array_string(sql, NULL);
        else
            ts_array_int(sql, values[i]);
    }
    ts_array_close(sql, "bigint");
}

/* Runs it; rows come back by item: row_of[i] is the result's row of item i, and each item has exactly one. */
static PGresult *finish_call(struct m_world *w, struct ts_text *sql, const struct batch *b, int *row_of)
{
    ts_put(sql, ")");
    PGresult *result = ts_query(w->conn, sql->text);
    ts_clear(sql);
    for (int i = 0; i < b->n; i++)
        row_of[i] = -1;
    for (int row = 0; row < PQntuples(result); row++) {
        int64_t i = ts_int(result, row, 0);
        if (i < 1 || i > b->n || row_of[i - 1] >= 0)
            mismatch(w, "row for item %" PRId64 " of %d", i, b->n);
        else
            row_of[i - 1] = row;
    }
    if (PQntuples(result) != b->n)
        mismatch(w, "%d rows for %d items", PQntuples(result), b->n);
    return result;
}

/* Counts the item and compares its outcome. */
static bool same_outcome(struct m_world *w, const char *what, int kind, const struct m_key *key, const struct m_answer *want,
                         int64_t got)
{
    w->steps++;
    if (want->outcome >= 0 && want->outcome < 100)
        w->count[kind][want->outcome]++;
    if (got == want->outcome)
        return true;
    mismatch(w, "%s of %s/%s: SQL says %" PRId64 ", the model %d", what, key->ns->name, key->name, got, want->outcome);
    return false;
}

static void same(struct m_world *w, const char *what, const struct m_key *key, const char *field, int64_t got, int64_t want)
{
    if (got != want)
        mismatch(w, "%s of %s/%s: %s is %" PRId64 ", the model says %" PRId64, what, key->ns->name, key->name, field, got, want);
}

static void same_text(struct m_world *w, const char *what, const struct m_key *key, const char *field, const char *got,
                      const char *want)
{
    if (strcmp(got, want) != 0)
        mismatch(w, "%s of %s/%s: %s is \"%s\", the model says \"%s\"", what, key->ns->name, key->name, field, got, want);
}

static void witness_grant(struct m_world *w, int k, int64_t token, int64_t ttl_ms)
{
    struct m_witness *seen = &w->witness[k];
    if (token <= seen->highest)
        mismatch(w, "P1: %s got token %" PRId64 " after %" PRId64, w->keys[k].name, token, seen->highest);
    if (seen->held_until > w->now)
        mismatch(w, "P2: %s granted while token %" PRId64 " holds it", w->keys[k].name, seen->highest);
    *seen = (struct m_witness){token, w->now + ttl_ms};
}

/* ------------------------------------------------------------------------------------------------ operations */

static void new_request(struct m_world *w, char *to)
{
    snprintf(to, M_NAME, "q-%" PRId64, ++w->next_request);
}

static void compare_acquired(struct m_world *w, const char *what, int kind, int k, const PGresult *result, int row,
                             const struct m_answer *want)
{
    const struct m_key *key = &w->keys[k];
    if (!same_outcome(w, what, kind, key, want, ts_int(result, row, 1)))
        return;
    same(w, what, key, "token", ts_int(result, row, 2), want->token);
    same(w, what, key, "ttl_ms", ts_int(result, row, 3), want->ttl_ms);
    same_text(w, what, key, "holder", PQgetvalue(result, row, 4), want->holder);
    same_text(w, what, key, "task", PQgetvalue(result, row, 5), want->task);
    same(w, what, key, "remaining_ms", ts_int(result, row, 6), want->remaining_ms);
    if (want->outcome == ST_GRANTED)
        witness_grant(w, k, ts_int(result, row, 2), ts_int(result, row, 3));
}

static void op_acquire(struct m_world *w)
{
    static char request[M_KEYS][M_NAME], holder[M_KEYS][M_NAME], task[M_KEYS][M_NAME], label[M_KEYS][M_NAME];
    struct batch b = {0};
    int64_t ttl[M_KEYS] = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    choose_keys(w, &b, 1 + (unsigned)rnd(w, 50), true);
    for (int i = 0; i < b.n; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        if (key->request_id[0] && chance(w, 35))
            snprintf(request[i], M_NAME, "%s", key->request_id);
        else
            new_request(w, request[i]);
        snprintf(holder[i], M_NAME, "host:%" PRIu64 ":\"x\\,'y'", rnd(w, 1000));
        snprintf(task[i], M_NAME, "task %" PRIu64, rnd(w, 3));
        snprintf(label[i], M_NAME, "%s", chance(w, 20) ? "\xc3\xa4{\\\"" : "");
        ttl[i] = 100 + (int64_t)rnd(w, 4000);
    }
    start_call(w, &sql, "acquire_batch", &b);
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
    put_ints(&sql, ttl, b.n, -1);
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

    PGresult *result = finish_call(w, &sql, &b, row_of);
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
    if (w->n_last_all > 0 && chance(w, 40)) {
        memcpy(places, w->last_all, sizeof(w->last_all));
        snprintf(request, M_NAME, "%s", w->last_all_request);
        return w->n_last_all;
    }
    const struct m_ns *ns = &w->ns[chance(w, 60) ? 0 : rnd(w, 4)];
    while (n == 0) {
        for (int i = 0; i < M_KEYS && n < 5; i++) {
            if (w->keys[i].ns == ns && !never_leased(&w->keys[i]) && chance(w, ns->open ? 8 : 70))
                places[n++] = i;
        }
    }
    if (w->keys[places[0]].request_id[0] && chance(w, 10))
        snprintf(request, M_NAME, "%s", w->keys[places[0]].request_id);
    return n;
}

static void op_acquire_all(struct m_world *w)
{
    int places[8], which;
    char request[M_NAME];
    struct m_key *keys[8];
    struct m_answer want[8];
    struct ts_text sql = {0};
    size_t n = choose_all(w, places, request);
    struct m_acquire in = {"several", "host:all", request, "", 100 + (int64_t)rnd(w, 4000)};

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
        mismatch(w, "acquire_all of %zu: %d rows, the model says %s", n, PQntuples(result), which < 0 ? "all" : "one");
    for (int row = 0; row < PQntuples(result) && !w->mismatch[0]; row++) {
        size_t i = (size_t)ts_int(result, row, 0) - 1;
        if (i >= n || (which >= 0 && i != (size_t)which))
            mismatch(w, "acquire_all: item %zu, the model says %d", i + 1, which + 1);
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

static void op_renew(struct m_world *w)
{
    struct batch b = {0};
    int64_t ttl[M_KEYS] = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    choose_keys(w, &b, 1 + (unsigned)rnd(w, 50), false);
    for (int i = 0; i < b.n; i++) {
        b.token[i] = choose_token(w, &w->keys[b.key[i]]);
        ttl[i] = 100 + (int64_t)rnd(w, 3000);
    }
    start_call(w, &sql, "renew_batch", &b);
    put_ints(&sql, b.token, b.n, -1);
    put_ints(&sql, ttl, b.n, -1);
    ts_put(&sql, ",%s", w->locks || chance(w, 30) ? "true" : "false"); /* the optimistic form would wait for the locks */
    PGresult *result = finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_renew(key, b.token[i], ttl[i], w->now);
        if (same_outcome(w, "renew", ST_RENEW, key, &want, ts_int(result, row_of[i], 1)))
            same(w, "renew", key, "ttl_ms", ts_int(result, row_of[i], 2), want.ttl_ms);
        struct m_witness *seen = &w->witness[b.key[i]];
        if (want.outcome == ST_RENEWED) {
            if (b.token[i] != seen->highest || seen->held_until <= w->now)
                mismatch(w, "P2: renewed %s under a lease that was not live", key->name);
            seen->held_until = w->now + ts_int(result, row_of[i], 2);
        }
    }
    PQclear(result);
}

static void op_release(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    choose_keys(w, &b, 1 + (unsigned)rnd(w, 30), false);
    for (int i = 0; i < b.n; i++)
        b.token[i] = choose_token(w, &w->keys[b.key[i]]);
    start_call(w, &sql, "release_batch", &b);
    put_ints(&sql, b.token, b.n, -1);
    PGresult *result = finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_release(key, b.token[i], w->now, &w->audit);
        same_outcome(w, "release", ST_RELEASE, key, &want, ts_int(result, row_of[i], 1));
        if (want.outcome == ST_FREED && b.token[i] == w->witness[b.key[i]].highest)
            w->witness[b.key[i]].held_until = M_NEVER;
    }
    PQclear(result);
}

static void choose_write(struct m_world *w, const struct m_key *key, struct m_write *in, char *value)
{
    snprintf(value, M_VALUE, "v%" PRIu64, rnd(w, 1000000));
    in->token = choose_token(w, key);
    in->value = chance(w, 70) ? value : NULL;
    int64_t last = key->value_token == in->token ? key->write_seq : 0;
    uint64_t dice = rnd(w, 100);
    in->write_seq = dice < 45 ? last + 1 : dice < 68 ? last : dice < 92 && last > 0 ? 1 + (int64_t)rnd(w, (uint64_t)last) : 0;
    if (in->write_seq == last && last > 0 && chance(w, 55)) /* a true repeat: of the same kind */
        in->value = key->has_value ? value : NULL;
    dice = rnd(w, 100);
    in->expected = dice < 60 ? -1 : dice < 85 ? (key->has_value ? key->version : 0) : (int64_t)rnd(w, (uint64_t)key->version + 2);
}

static void op_write(struct m_world *w)
{
    static char value[M_KEYS][M_VALUE];
    struct m_write in[M_KEYS];
    int64_t seq[M_KEYS] = {0}, expected[M_KEYS] = {0};
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    choose_keys(w, &b, 1 + (unsigned)rnd(w, 50), false);
    for (int i = 0; i < b.n; i++) {
        choose_write(w, &w->keys[b.key[i]], &in[i], value[i]);
        b.token[i] = in[i].token;
        seq[i] = in[i].write_seq;
        expected[i] = in[i].expected;
    }
    start_call(w, &sql, "write_batch", &b);
    put_ints(&sql, b.token, b.n, -1);
    put_ints(&sql, seq, b.n, -1);
    ts_put(&sql, ",");
    ts_array_open(&sql);
    for (int i = 0; i < b.n; i++)
        ts_array_string(&sql, in[i].value);
    ts_array_close(&sql, "bytea");
    put_ints(&sql, expected, b.n, -1);
    PGresult *result = finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        struct m_key *key = &w->keys[b.key[i]];
        const struct m_witness *seen = &w->witness[b.key[i]];
        struct m_answer want = m_write(key, &in[i], w->now, &w->audit);
        if (!same_outcome(w, "write", ST_WRITE, key, &want, ts_int(result, row_of[i], 1)))
            break;
        if (want.outcome >= ST_WRITTEN && want.outcome <= ST_SUPERSEDED) {
            same(w, "write", key, "version", ts_int(result, row_of[i], 2), want.version);
            same(w, "write", key, "fence", ts_int(result, row_of[i], 3), want.fence);
            same(w, "write", key, "write_seq", ts_int(result, row_of[i], 4), want.write_seq);
        }
        if (want.outcome == ST_WRITTEN && (in[i].token != seen->highest || seen->held_until <= w->now))
            mismatch(w, "P3: %s written under token %" PRId64 " of %" PRId64, key->name, in[i].token, seen->highest);
    }
    PQclear(result);
}

static void op_check(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    choose_keys(w, &b, 1 + (unsigned)rnd(w, 50), false);
    for (int i = 0; i < b.n; i++)
        b.token[i] = choose_token(w, &w->keys[b.key[i]]);
    start_call(w, &sql, "check_batch", &b);
    put_ints(&sql, b.token, b.n, -1);
    PGresult *result = finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_check(key, b.token[i], w->now);
        if (!same_outcome(w, "check", ST_CHECK, key, &want, ts_int(result, row_of[i], 1)))
            break;
        if (want.outcome != ST_NO_SUCH_NAMESPACE)
            same(w, "check", key, "fence", ts_int(result, row_of[i], 2), want.fence);
        same(w, "check", key, "remaining_ms", ts_int(result, row_of[i], 3), want.remaining_ms);
    }
    PQclear(result);
}

static void op_read(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    choose_keys(w, &b, 1 + (unsigned)rnd(w, 40), false);
    start_call(w, &sql, "read_batch", &b);
    PGresult *result = finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = {.outcome = m_read_outcome(key)};
        int row = row_of[i];
        if (!same_outcome(w, "read", ST_READ, key, &want, ts_int(result, row, 1)) || want.outcome != ST_FOUND)
            continue;
        static const char digits[] = "0123456789abcdef";
        char hex[2 * M_VALUE + 3] = "";
        size_t len = strlen(key->value);
        if (key->has_value)
            strcpy(hex, "\\x");
        for (size_t k = 0; k < len; k++)
            memcpy(hex + 2 + 2 * k, (char[]){digits[(unsigned char)key->value[k] >> 4], digits[key->value[k] & 15], '\0'}, 3);
        same_text(w, "read", key, "value", PQgetvalue(result, row, 2), hex);
        same(w, "read", key, "exists", PQgetvalue(result, row, 3)[0] == 't', key->has_value);
        same(w, "read", key, "version", ts_int(result, row, 4), key->version);
        same(w, "read", key, "fence", ts_int(result, row, 5), key->fence);
        same(w, "read", key, "token", ts_int(result, row, 6), key->value_token);
        same(w, "read", key, "updated_unix_ms", ts_int(result, row, 7), key->updated_at);
    }
    PQclear(result);
}

/* The columns of a lease from `column` on: resource task holder request_id token fence remaining_ms granted_unix_ms state labels */
static void compare_lease(struct m_world *w, const char *what, const struct m_key *key, const PGresult *result, int row, int column)
{
    bool live = m_live(key, w->now);
    same_text(w, what, key, "resource", PQgetvalue(result, row, column), key->name);
    same_text(w, what, key, "task", PQgetvalue(result, row, column + 1), key->task);
    same_text(w, what, key, "holder", PQgetvalue(result, row, column + 2), key->holder);
    same_text(w, what, key, "request_id", PQgetvalue(result, row, column + 3),
              key->grant_token == key->token ? key->request_id : "");
    same(w, what, key, "token", ts_int(result, row, column + 4), key->token);
    same(w, what, key, "fence", ts_int(result, row, column + 5), key->fence);
    same(w, what, key, "remaining_ms", ts_int(result, row, column + 6), live ? key->deadline - w->now : 0);
    same(w, what, key, "granted_unix_ms", ts_int(result, row, column + 7), key->granted_at);
    same(w, what, key, "state", ts_int(result, row, column + 8), live ? 1 : key->ended ? key->ended : 2);
    same_text(w, what, key, "labels", PQgetvalue(result, row, column + 9), key->label[0] ? "{l,\"\xc3\xa4{\\\\\\\"\"}" : "");
}

static void op_get(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    choose_keys(w, &b, 1 + (unsigned)rnd(w, 40), false);
    start_call(w, &sql, "get_batch", &b);
    PGresult *result = finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = {.outcome = m_get_outcome(key)};
        if (same_outcome(w, "get", ST_GET, key, &want, ts_int(result, row_of[i], 1)) && want.outcome == ST_FOUND)
            compare_lease(w, "get", key, result, row_of[i], 2);
    }
    PQclear(result);
}

static void op_break(struct m_world *w)
{
    for (int turn = 0; turn < 4 && !w->mismatch[0]; turn++) {
        int k = (int)rnd(w, M_KEYS);
        if (!w->locks && chance(w, 8))
            k = M_OPEN_KEYS; /* of a namespace that isn't open */
        else if (!w->locks && chance(w, 15))
            k = never_leased(&w->keys[M_OPEN_KEYS - 1]) ? M_OPEN_KEYS - 1 : k;
        for (int i = 0; i < M_KEYS && w->locks && chance(w, 95) && !w->keys[k].fence_locked && !w->keys[k].lease_locked; i++)
            k = (k + 1) % M_KEYS;
        struct m_key *key = &w->keys[k];
        int64_t token = choose_token(w, key);
        struct ts_text sql = {0};
        ts_put(&sql, "SELECT * FROM holdfast.break_lease('%s','%s',%" PRId64 ",'me','because')", key->ns->name, key->name, token);
        PGresult *result = ts_query(w->conn, sql.text);
        ts_clear(&sql);
        struct m_answer want = m_break(key, token, w->now, &w->audit);
        if (same_outcome(w, "break", ST_BREAK, key, &want, ts_int(result, 0, 0))) {
            if (want.outcome == ST_BREAK_DONE || want.outcome == ST_BREAK_CHANGED) {
                same(w, "break", key, "fence", ts_int(result, 0, 1), want.fence);
                same(w, "break", key, "live", PQgetvalue(result, 0, 2)[0] == 't', want.live);
            }
            same(w, "break", key, "pid", ts_int(result, 0, 3), want.outcome == ST_BREAK_BLOCKED ? PQbackendPID(w->other) : 0);
            if (want.outcome == ST_BREAK_DONE && token == w->witness[k].highest)
                w->witness[k].held_until = M_NEVER;
        }
        PQclear(result);
    }
}

static void op_advance(struct m_world *w)
{
    struct m_ns *ns = &w->ns[rnd(w, 4)];
    int64_t at_least = chance(w, 50) ? 0 : ns->floor + (int64_t)rnd(w, 20);
    char sql[160];
    snprintf(sql, sizeof(sql), "SELECT * FROM holdfast.advance_fences('%s', %" PRId64 ", 'me', 'because')", ns->name, at_least);
    PGresult *result = ts_query(w->conn, sql);
    struct m_answer want = m_advance(ns, w->keys, M_KEYS, at_least, &w->audit);
    const struct m_key about = {.ns = ns};
    if (same_outcome(w, "advance", ST_ADVANCE_FENCES, &about, &want, ts_int(result, 0, 0)))
        same(w, "advance", &about, "floor", ts_int(result, 0, 1), want.fence);
    PQclear(result);
}

static void op_list(struct m_world *w, bool leases)
{
    static const char *const prefixes[] = {"", "r", "r0", "r1", "\xc3\xa9", "none"};
    const struct m_ns *ns = &w->ns[rnd(w, 4)];
    const char *prefix = prefixes[rnd(w, 6)], *after = chance(w, 50) ? "" : w->keys[rnd(w, M_KEYS)].name;
    const char *task = chance(w, 60) ? "" : "task 1", *holder = chance(w, 80) ? "" : "host:all";
    int max = 1 + (int)rnd(w, 10), row = 0;
    char sql[256];

    snprintf(sql, sizeof(sql), "SELECT * FROM holdfast.%s('%s','%s',%s'%s',%d)", leases ? "list_leases" : "list_resources",
             ns->name, prefix, leases ? t_printf("'%s','%s',", task, holder) : "", after, max);
    PGresult *result = ts_query(w->conn, sql);
    if (!ns->open) {
        struct m_answer want = {.outcome = ST_NO_SUCH_NAMESPACE};
        const struct m_key about = {.ns = (struct m_ns *)(uintptr_t)ns};
        same_outcome(w, "list", leases ? ST_LIST_LEASES : ST_LIST_RESOURCES, &about, &want,
                     PQntuples(result) == 1 ? ts_int(result, 0, 0) : -1);
    }
    for (int k = 0; ns->open && k < M_KEYS && row <= max && !w->mismatch[0]; k++) {
        const struct m_key *key = &w->keys[k];
        bool wanted = key->ns == ns && strncmp(key->name, prefix, strlen(prefix)) == 0 && strcmp(key->name, after) > 0;
        if (leases)
            wanted =
                wanted && m_live(key, w->now) && (!*task || !strcmp(task, key->task)) && (!*holder || !strcmp(holder, key->holder));
        else
            wanted = wanted && m_read_outcome(key) == ST_FOUND;
        if (!wanted)
            continue;
        struct m_answer want = {.outcome = ST_FOUND};
        if (!same_outcome(w, "list", leases ? ST_LIST_LEASES : ST_LIST_RESOURCES, key, &want,
                          row < PQntuples(result) ? ts_int(result, row, 0) : -1))
            break;
        if (leases) {
            compare_lease(w, "list", key, result, row, 1);
        } else {
            same_text(w, "list", key, "resource", PQgetvalue(result, row, 1), key->name);
            same(w, "list", key, "fence", ts_int(result, row, 2), key->fence);
            same(w, "list", key, "version", ts_int(result, row, 3), key->version);
            same(w, "list", key, "value_bytes", ts_int(result, row, 4), (int64_t)strlen(key->value));
            same(w, "list", key, "exists", PQgetvalue(result, row, 5)[0] == 't', key->has_value);
            same(w, "list", key, "leased", PQgetvalue(result, row, 6)[0] == 't', m_live(key, w->now));
        }
        row++;
    }
    if (ns->open && !w->mismatch[0] && row != PQntuples(result))
        mismatch(w, "list: %d rows, the model says %d", PQntuples(result), row);
    PQclear(result);
}

/* ------------------------------------------------------------------------------------------------ the other session */

/* guard() as the other session's first call: outcome compared; true if its transaction goes on and holds the fence row. */
static void other_guards(struct m_world *w)
{
    int k = (int)rnd(w, M_KEYS);
    struct m_key *key = &w->keys[k];
    int64_t token = choose_token(w, key);
    struct m_answer want = {.outcome = m_guard(key, token, w->now)};
    /* Its idle timeout is in real time; ours is not. */
    char *state = t_sqlstate(
        w->other, "BEGIN; SELECT holdfast.guard('%s', '%s', %" PRId64 "); SET LOCAL idle_in_transaction_session_timeout = 0",
        key->ns->name, key->name, token);
    int got = !strcmp(state, "00000") ? 1 : !strcmp(state, "HF001") ? ST_STALE : !strcmp(state, "HF002") ? ST_NOT_HELD : -1;
    same_outcome(w, "guard", M_GUARD, key, &want, got);
    if (got == 1)
        key->fence_locked = true;
    else
        t_sql(w->other, "ROLLBACK; BEGIN");
}

static void lock_some(struct m_world *w)
{
    static const char *const strengths[] = {"SHARE", "NO KEY UPDATE", "UPDATE"};
    ts_set_clock(w->other, w->now);
    w->locks = true;
    other_guards(w);
    for (int tables = 0; tables < 2; tables++) {
        struct ts_text sql = {0};
        bool any = false;
        ts_put(&sql, "SELECT 1 FROM holdfast.%s WHERE (namespace, %s) IN (", tables ? "lease" : "resource",
               tables ? "resource" : "name");
        for (int i = 0; i < M_KEYS; i++) {
            struct m_key *key = &w->keys[i];
            if (!chance(w, 15) || !(tables ? key->lease_row : key->fence_row))
                continue;
            *(tables ? &key->lease_locked : &key->fence_locked) = true;
            ts_put(&sql, "%s('%s','%s')", any ? "," : "", key->ns->name, key->name);
            any = true;
        }
        ts_put(&sql, ") FOR %s", strengths[rnd(w, 3)]);
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
    int k = (int)rnd(w, M_KEYS);
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
        {"default", true, false, 0}, {"gone", false, false, 0}, {"other", true, true, 0}, {"retired", false, false, 0}};
    memcpy(w->ns, ns, sizeof(ns));
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

void m_world_run(struct m_world *w, long steps)
{
    long turns = 0;
    while (w->steps < steps && !w->mismatch[0]) {
        w->now += chance(w, 5) ? (int64_t)rnd(w, 3000) : chance(w, 2) ? -(int64_t)rnd(w, 20) : (int64_t)rnd(w, 250);
        ts_set_clock(w->conn, w->now);
        if (chance(w, 30))
            lock_some(w);
        uint64_t dice = rnd(w, 100);
        if (dice < 18)
            op_acquire(w);
        else if (dice < 34)
            op_acquire_all(w);
        else if (dice < 45)
            op_renew(w);
        else if (dice < 51)
            op_release(w);
        else if (dice < 66)
            op_write(w);
        else if (dice < 71)
            op_check(w);
        else if (dice < 75)
            op_read(w);
        else if (dice < 80)
            op_get(w);
        else if (dice < 86)
            op_break(w);
        else if (dice < 91)
            op_advance(w);
        else if (dice < 99)
            op_list(w, chance(w, 50));
        else
            lose_lease_row(w);
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
        {"floors", "kind = 'floor'", w->audit.floors},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t got = t_sql_int(w->conn, "SELECT count(*) FROM holdfast.audit WHERE %s", rows[i].sql);
        if (got != rows[i].want)
            mismatch(w, "audit: %" PRId64 " %s, the model says %" PRId64, got, rows[i].what, rows[i].want);
    }
    int64_t refusals = t_sql_int(w->conn, "SELECT coalesce(sum(refusals), 0) FROM holdfast.refusal");
    if (refusals != w->audit.refusals)
        mismatch(w, "%" PRId64 " refusals counted, the model says %" PRId64, refusals, w->audit.refusals);
    /* The oracle: in the audit's order, granted tokens strictly rise, and no write is older than one accepted before. */
    int64_t wrong =
        t_sql_int(w->conn, "SELECT count(*) FROM (SELECT kind, token, max(token) OVER (PARTITION BY namespace, resource "
                           "ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM holdfast.audit "
                           "WHERE kind IN ('grant', 'takeover', 'write', 'delete')) a "
                           "WHERE token < before OR (token = before AND kind IN ('grant', 'takeover'))");
    if (wrong != 0)
        mismatch(w, "P1 or P3: %" PRId64 " rows of the audit go back to an older token", wrong);
}

void m_world_compare_tables(struct m_world *w)
{
    PGresult *result = ts_query(
        w->conn, "SELECT r.namespace, r.name, r.fence, r.grant_token, r.repeats, r.request_id, coalesce(l.token, 0), "
                 "coalesce(l.ended, 0), CASE WHEN l.deadline > '-infinity' THEN extract(epoch FROM l.deadline) * 1000 END::bigint, "
                 "coalesce(v.version, 0), coalesce(v.write_seq, 0) FROM holdfast.resource r "
                 "LEFT JOIN holdfast.lease l ON (l.namespace, l.resource) = (r.namespace, r.name) "
                 "LEFT JOIN holdfast.resource_value v ON (v.namespace, v.resource) = (r.namespace, r.name) ORDER BY 1, 2");
    int row = 0;
    for (int k = 0; k < M_KEYS; k++) {
        const struct m_key *key = &w->keys[k];
        if (!key->fence_row)
            continue;
        if (row >= PQntuples(result))
            break;
        same_text(w, "row", key, "namespace", PQgetvalue(result, row, 0), key->ns->name);
        same_text(w, "row", key, "name", PQgetvalue(result, row, 1), key->name);
        same(w, "row", key, "fence", ts_int(result, row, 2), key->fence);
        same(w, "row", key, "grant_token", ts_int(result, row, 3), key->grant_token);
        same(w, "row", key, "repeats", ts_int(result, row, 4), key->repeats);
        same_text(w, "row", key, "request_id", PQgetvalue(result, row, 5), key->request_id);
        same(w, "row", key, "token", ts_int(result, row, 6), key->token);
        same(w, "row", key, "ended", ts_int(result, row, 7), key->lease_row ? key->ended : 0);
        same(w, "row", key, "deadline", PQgetisnull(result, row, 8) ? M_NEVER : ts_int(result, row, 8), key->deadline);
        same(w, "row", key, "version", ts_int(result, row, 9), key->version);
        same(w, "row", key, "write_seq", ts_int(result, row, 10), key->write_seq);
        row++;
    }
    if (row != PQntuples(result))
        mismatch(w, "%d fence rows, the model has %d", PQntuples(result), row);
    PQclear(result);
    compare_audit(w);
}

void m_world_close(struct m_world *w)
{
    PQfinish(w->conn);
    PQfinish(w->other);
}
