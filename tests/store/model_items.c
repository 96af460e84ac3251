/*
 * model_items.c - see model_items.h.
 */
#include "store/model_items.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t mi_random(struct m_world *w, uint64_t n)
{
    w->random ^= w->random << 13; /* xorshift64 */
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % n;
}

bool mi_chance(struct m_world *w, unsigned percent)
{
    return mi_random(w, 100) < percent;
}

void mi_mismatch(struct m_world *w, const char *format, ...)
{
    if (w->mismatch[0])
        return;
    va_list args;
    va_start(args, format);
    int n = snprintf(w->mismatch, sizeof(w->mismatch), "step %ld: ", w->steps);
    vsnprintf(w->mismatch + n, sizeof(w->mismatch) - (size_t)n, format, args);
    va_end(args);
}

/* Nobody ever leases these: the last two of each open namespace. */
bool mi_never_leased(const struct m_key *key)
{
    return key->ns->open && strcmp(key->name + 2, "34 \"{,}\\") >= 0 && key->name[0] != 'r';
}

void mi_choose_keys(struct m_world *w, struct batch *b, unsigned percent, bool to_lease)
{
    bool backwards = mi_chance(w, 10);
    b->n = w->n_focus;
    for (int i = 0; i < w->n_focus; i++)
        b->key[i] = w->focus[i];
    while (b->n == 0) {
        for (int i = 0; i < M_KEYS; i++) {
            int k = backwards ? M_KEYS - 1 - i : i;
            if (mi_chance(w, percent) && !(to_lease && mi_never_leased(&w->keys[k])))
                b->key[b->n++] = k;
        }
    }
}

int64_t mi_choose_token(struct m_world *w, const struct m_key *key)
{
    uint64_t dice = mi_random(w, 100);
    int64_t token = key->token;
    if (dice >= 92)
        token = 1 + (int64_t)mi_random(w, 5);
    else if (dice >= 82)
        token = key->token - 1 - (int64_t)mi_random(w, 3);
    else if (dice >= 74)
        token = key->fence + 1 + (int64_t)mi_random(w, 3);
    else if (dice >= 68)
        token = key->fence;
    return token < 1 ? 1 : token;
}

PGresult *mi_query(struct m_world *w, const char *sql)
{
    struct ts_text both = {0};
    ts_put(&both, "SET test.ms = '%" PRId64 "'; %s", w->now, sql);
    PGresult *result = ts_query(w->conn, both.text);
    ts_clear(&both);
    return result;
}

void mi_start_call(struct m_world *w, struct ts_text *sql, const char *function, const struct batch *b)
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

void mi_put_ints(struct ts_text *sql, const int64_t *values, int n, int64_t null)
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
PGresult *mi_finish_call(struct m_world *w, struct ts_text *sql, const struct batch *b, int *row_of)
{
    ts_put(sql, ")");
    PGresult *result = mi_query(w, sql->text);
    ts_clear(sql);
    for (int i = 0; i < b->n; i++)
        row_of[i] = -1;
    for (int row = 0; row < PQntuples(result); row++) {
        int64_t i = ts_int(result, row, 0);
        if (i < 1 || i > b->n || row_of[i - 1] >= 0)
            mi_mismatch(w, "row for item %" PRId64 " of %d", i, b->n);
        else
            row_of[i - 1] = row;
    }
    if (PQntuples(result) != b->n)
        mi_mismatch(w, "%d rows for %d items", PQntuples(result), b->n);
    return result;
}

/* Counts the item and compares its outcome. */
bool mi_same_outcome(struct m_world *w, const char *what, int kind, const struct m_key *key, const struct m_answer *want,
                     int64_t got)
{
    w->steps++;
    if (want->outcome >= 0 && want->outcome < 100)
        w->count[kind][want->outcome]++;
    if (got == want->outcome)
        return true;
    mi_mismatch(w, "%s of %s/%s: SQL says %" PRId64 ", the model %d", what, key->ns->name, key->name, got, want->outcome);
    return false;
}

void mi_same(struct m_world *w, const char *what, const struct m_key *key, const char *field, int64_t got, int64_t want)
{
    if (got != want)
        mi_mismatch(w, "%s of %s/%s: %s is %" PRId64 ", the model says %" PRId64, what, key->ns->name, key->name, field, got, want);
}

void mi_same_text(struct m_world *w, const char *what, const struct m_key *key, const char *field, const char *got,
                  const char *want)
{
    if (strcmp(got, want) != 0)
        mi_mismatch(w, "%s of %s/%s: %s is \"%s\", the model says \"%s\"", what, key->ns->name, key->name, field, got, want);
}

const char *mi_server(int server)
{
    static const char *const names[M_SERVERS] = {"00000000000000a0", "00000000000000b1", "00000000000000c2"};
    return server < 0 ? "" : names[server];
}

void mi_same_server(struct m_world *w, const char *what, const struct m_key *key, const char *got, int want)
{
    mi_same_text(w, what, key, "next_server", got, mi_server(want));
}
