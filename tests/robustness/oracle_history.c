/*
 * oracle_history.c - whether what workers were told agrees with the audit trail: see oracle.h. One resource at a time.
 */
#include "robustness/oracle_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_grant_row(const struct oracle_row *row)
{
    return !strcmp(row->kind, "grant") || !strcmp(row->kind, "takeover");
}

static bool is_change_row(const struct oracle_row *row)
{
    return !strcmp(row->kind, "write") || !strcmp(row->kind, "delete");
}

/* By kind, token and what the row says beside: of a change, the version. (A takeover is a grant here.) */
static int rows_by_token(const void *a, const void *b)
{
    const struct oracle_row *left = *(const struct oracle_row *const *)a, *right = *(const struct oracle_row *const *)b;
    int order = strcmp(is_grant_row(left) ? "grant" : left->kind, is_grant_row(right) ? "grant" : right->kind);
    order = order ? order : oracle_compare(left->token, right->token);
    return order || is_grant_row(left) ? order : oracle_compare(left->prior, right->prior);
}

struct sorted_rows {
    const struct oracle_row **list;
    size_t n;
};

static bool has_row(const struct sorted_rows *rows, const char *kind, int64_t token, int64_t prior)
{
    const struct oracle_row row = {.kind = kind, .token = token, .prior = prior};
    const struct oracle_row *key = &row;
    return rows->n && bsearch(&key, rows->list, rows->n, sizeof(rows->list[0]), rows_by_token);
}

/* What was acknowledged is in the trail. */
static bool check_acknowledged(const struct oracle_group *group, const struct sorted_rows *rows)
{
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *call = group->calls[i];
        if (oracle_is(call, HISTORY_ACQUIRE, HISTORY_OK) && !has_row(rows, "grant", call->got_token, 0))
            return oracle_wrong(group, call, NULL, "a grant that was acknowledged is not in the trail");
        if (oracle_is_change(call) && call->answer == HISTORY_OK &&
            !has_row(rows, history_op_name(call->op), call->token, call->got_version))
            return oracle_wrong(group, call, NULL, "a change that was acknowledged is not in the trail");
    }
    return true;
}

/* How many changes of this kind and token were told to nobody, by their calls. */
static size_t untold_of(const struct oracle_group *group, const struct oracle_row *row)
{
    size_t n = 0, low = group->n_told, high = group->n_changes;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->changes[middle].call->token < row->token)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < group->n_changes && group->changes[low].call->token == row->token; low++)
        n += !strcmp(history_op_name(group->changes[low].call->op), row->kind);
    return n;
}

/* Whether somebody was told of this very change. */
static bool was_told(const struct oracle_group *group, const struct oracle_row *row)
{
    size_t low = 0, high = group->n_told;
    while (low < high) {
        const struct history_call *call = group->changes[(low + high) / 2].call;
        if (call->token < row->token || (call->token == row->token && call->got_version < row->prior))
            low = (low + high) / 2 + 1;
        else
            high = (low + high) / 2;
    }
    for (; low < group->n_told; low++) {
        const struct history_call *call = group->changes[low].call;
        if (call->token != row->token || call->got_version != row->prior)
            return false;
        if (!strcmp(history_op_name(call->op), row->kind))
            return true;
    }
    return false;
}

/* Every change was asked for: of those of one kind and token, no more were told to nobody than callers don't know of. */
static bool check_asked_for(const struct oracle_group *group, const struct sorted_rows *rows)
{
    for (size_t i = 0, same; i < rows->n; i += same) {
        const struct oracle_row *row = rows->list[i], *unclaimed = NULL;
        size_t n = 0;
        for (same = 0; i + same < rows->n; same++) {
            const struct oracle_row *other = rows->list[i + same];
            if (strcmp(other->kind, row->kind) != 0 || other->token != row->token)
                break;
            if (is_change_row(other) && !was_told(group, other)) {
                unclaimed = other;
                n++;
            }
        }
        if (n > 0 && n > untold_of(group, row)) {
            snprintf(group->why, group->why_size,
                     "audit row %lld: %s of %s under token %lld to version %lld, but of such changes %zu were told to nobody and "
                     "only %zu are unknown to who asked",
                     (long long)unclaimed->id, row->kind, row->resource, (long long)row->token, (long long)unclaimed->prior, n,
                     untold_of(group, row));
            return false;
        }
    }
    return true;
}

bool oracle_check_agreement(const struct oracle_group *group)
{
    struct sorted_rows rows = {malloc((group->n_rows + 1) * sizeof(const struct oracle_row *)), group->n_rows};
    if (!rows.list)
        abort();
    if (rows.n)
        memcpy(rows.list, group->rows, rows.n * sizeof(rows.list[0]));
    qsort(rows.list, rows.n, sizeof(rows.list[0]), rows_by_token);
    bool good = check_acknowledged(group, &rows) && check_asked_for(group, &rows);
    free(rows.list);
    return good;
}

/* ------------------------------------------------------------------------------------------------ the entries */

static bool check_alone(const struct oracle_group *group)
{
    return oracle_check_values(group) && oracle_check_order(group);
}

bool oracle_check_calls(const struct history_call *calls, size_t n_calls, char *why, size_t why_size)
{
    return oracle_each_group(NULL, 0, calls, n_calls, why, why_size, check_alone);
}

bool oracle_check_history(const struct oracle_row *rows, size_t n, const struct history_call *calls, size_t n_calls, char *why,
                          size_t why_size)
{
    return oracle_each_group(rows, n, calls, n_calls, why, why_size, oracle_check_agreement);
}
