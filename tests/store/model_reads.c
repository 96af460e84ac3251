/*
 * model_reads.c - the operations that only read; see model_items.h.
 */
#include "store/model_items.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mo_check(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 50), false);
    for (int i = 0; i < b.n; i++)
        b.token[i] = mi_choose_token(w, &w->keys[b.key[i]]);
    mi_start_call(w, &sql, "check_batch", &b);
    mi_put_ints(&sql, b.token, b.n, -1);
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = m_check(key, b.token[i], w->now);
        if (!mi_same_outcome(w, "check", ST_CHECK, key, &want, ts_int(result, row_of[i], 1)))
            break;
        if (want.outcome != ST_NO_SUCH_NAMESPACE)
            mi_same(w, "check", key, "fence", ts_int(result, row_of[i], 2), want.fence);
        mi_same(w, "check", key, "remaining_ms", ts_int(result, row_of[i], 3), want.remaining_ms);
    }
    PQclear(result);
}

void mo_read(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 40), false);
    mi_start_call(w, &sql, "read_batch", &b);
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = {.outcome = m_read_outcome(key)};
        int row = row_of[i];
        if (!mi_same_outcome(w, "read", ST_READ, key, &want, ts_int(result, row, 1)) || want.outcome != ST_FOUND)
            continue;
        static const char digits[] = "0123456789abcdef";
        char hex[2 * M_VALUE + 3] = "";
        size_t len = strlen(key->value);
        if (key->has_value)
            strcpy(hex, "\\x");
        for (size_t k = 0; k < len; k++)
            memcpy(hex + 2 + 2 * k, (char[]){digits[(unsigned char)key->value[k] >> 4], digits[key->value[k] & 15], '\0'}, 3);
        mi_same_text(w, "read", key, "value", PQgetvalue(result, row, 2), hex);
        mi_same(w, "read", key, "exists", PQgetvalue(result, row, 3)[0] == 't', key->has_value);
        mi_same(w, "read", key, "version", ts_int(result, row, 4), key->version);
        mi_same(w, "read", key, "fence", ts_int(result, row, 5), key->fence);
        mi_same(w, "read", key, "token", ts_int(result, row, 6), key->value_token);
        mi_same(w, "read", key, "updated_unix_ms", ts_int(result, row, 7), key->updated_at);
    }
    PQclear(result);
}

/* The columns of a lease from `column` on: resource task holder request_id token fence remaining_ms granted_unix_ms state labels */
static void compare_lease(struct m_world *w, const char *what, const struct m_key *key, const PGresult *result, int row, int column)
{
    bool live = m_live(key, w->now);
    mi_same_text(w, what, key, "resource", PQgetvalue(result, row, column), key->name);
    mi_same_text(w, what, key, "task", PQgetvalue(result, row, column + 1), key->task);
    mi_same_text(w, what, key, "holder", PQgetvalue(result, row, column + 2), key->holder);
    mi_same_text(w, what, key, "request_id", PQgetvalue(result, row, column + 3),
                 key->grant_token == key->token ? key->request_id : "");
    mi_same(w, what, key, "token", ts_int(result, row, column + 4), key->token);
    mi_same(w, what, key, "fence", ts_int(result, row, column + 5), key->fence);
    mi_same(w, what, key, "remaining_ms", ts_int(result, row, column + 6), live ? key->deadline - w->now : 0);
    mi_same(w, what, key, "granted_unix_ms", ts_int(result, row, column + 7), key->granted_at);
    mi_same(w, what, key, "state", ts_int(result, row, column + 8), live ? 1 : key->ended ? key->ended : 2);
    mi_same_text(w, what, key, "labels", PQgetvalue(result, row, column + 9), key->label[0] ? "{l,\"\xc3\xa4{\\\\\\\"\"}" : "");
}

void mo_get(struct m_world *w)
{
    struct batch b = {0};
    int row_of[M_KEYS] = {0};
    struct ts_text sql = {0};

    mi_choose_keys(w, &b, 1 + (unsigned)mi_random(w, 40), false);
    mi_start_call(w, &sql, "get_batch", &b);
    PGresult *result = mi_finish_call(w, &sql, &b, row_of);
    for (int i = 0; i < b.n && !w->mismatch[0]; i++) {
        const struct m_key *key = &w->keys[b.key[i]];
        struct m_answer want = {.outcome = m_get_outcome(key)};
        if (mi_same_outcome(w, "get", ST_GET, key, &want, ts_int(result, row_of[i], 1)) && want.outcome == ST_FOUND)
            compare_lease(w, "get", key, result, row_of[i], 2);
    }
    PQclear(result);
}

void mo_list(struct m_world *w, bool leases)
{
    static const char *const prefixes[] = {"", "r", "r0", "r1", "\xc3\xa9", "none"};
    const struct m_ns *ns = &w->ns[mi_random(w, 4)];
    const char *prefix = prefixes[mi_random(w, 6)], *after = mi_chance(w, 50) ? "" : w->keys[mi_random(w, M_KEYS)].name;
    const char *task = mi_chance(w, 60) ? "" : "task 1", *holder = mi_chance(w, 80) ? "" : "host:all";
    int max = 1 + (int)mi_random(w, 10), row = 0;
    char sql[256];

    snprintf(sql, sizeof(sql), "SELECT * FROM holdfast.%s('%s','%s',%s'%s',%d)", leases ? "list_leases" : "list_resources",
             ns->name, prefix, leases ? t_printf("'%s','%s',", task, holder) : "", after, max);
    PGresult *result = mi_query(w, sql);
    if (!ns->open) {
        struct m_answer want = {.outcome = ST_NO_SUCH_NAMESPACE};
        const struct m_key about = {.ns = (struct m_ns *)(uintptr_t)ns};
        mi_same_outcome(w, "list", leases ? ST_LIST_LEASES : ST_LIST_RESOURCES, &about, &want,
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
        if (!mi_same_outcome(w, "list", leases ? ST_LIST_LEASES : ST_LIST_RESOURCES, key, &want,
                             row < PQntuples(result) ? ts_int(result, row, 0) : -1))
            break;
        if (leases) {
            compare_lease(w, "list", key, result, row, 1);
        } else {
            mi_same_text(w, "list", key, "resource", PQgetvalue(result, row, 1), key->name);
            mi_same(w, "list", key, "fence", ts_int(result, row, 2), key->fence);
            mi_same(w, "list", key, "version", ts_int(result, row, 3), key->version);
            mi_same(w, "list", key, "value_bytes", ts_int(result, row, 4), (int64_t)strlen(key->value));
            mi_same(w, "list", key, "exists", PQgetvalue(result, row, 5)[0] == 't', key->has_value);
            mi_same(w, "list", key, "leased", PQgetvalue(result, row, 6)[0] == 't', m_live(key, w->now));
        }
        row++;
    }
    if (ns->open && !w->mismatch[0] && row != PQntuples(result))
        mi_mismatch(w, "list: %d rows, the model says %d", PQntuples(result), row);
    PQclear(result);
}
