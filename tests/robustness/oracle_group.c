/*
 * oracle_group.c - see oracle_group.h.
 */
#include "robustness/oracle_group.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool oracle_wrong(const struct oracle_group *group, const struct history_call *call, const struct history_call *other,
                  const char *rule, ...)
{
    char text[512], first[800] = "", second[800] = "";
    va_list args;
    va_start(args, rule);
    vsnprintf(text, sizeof(text), rule, args);
    va_end(args);
    if (call)
        (void)history_format(call, first, sizeof(first));
    if (other)
        (void)history_format(other, second, sizeof(second));
    snprintf(group->why, group->why_size, "%s%s%s%s%s", text, call ? ": " : "", first, other ? "; " : "", second);
    return false;
}

bool oracle_is(const struct history_call *call, enum history_op op, enum history_answer answer)
{
    return call && call->op == op && call->answer == answer;
}

bool oracle_is_change(const struct history_call *call)
{
    return call->op == HISTORY_WRITE || call->op == HISTORY_DELETE;
}

bool oracle_refused(const struct history_call *call, enum history_op op, const char *reasons)
{
    const size_t len = strlen(call->reason);
    if (!oracle_is(call, op, HISTORY_REFUSED) || len == 0)
        return false;
    for (const char *at = reasons; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == len && !strncmp(at, call->reason, len))
            return true;
    return false;
}

int64_t oracle_end(const struct history_call *call)
{
    return call->end_ns ? call->end_ns : INT64_MAX;
}

int oracle_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* ------------------------------------------------------------------------------------------------ changes */

static int by_seq(const void *a, const void *b)
{
    const struct history_call *left = *(const struct history_call *const *)a, *right = *(const struct history_call *const *)b;
    int order = oracle_compare(left->token, right->token);
    order = order ? order : oracle_compare(left->write_seq, right->write_seq);
    return order ? order : oracle_compare(left->start_ns, right->start_ns);
}

static int by_version(const void *a, const void *b)
{
    const struct oracle_change *left = a, *right = b;
    int order = (int)right->told - (int)left->told;
    order = order ? order : oracle_compare(left->call->token, right->call->token);
    if (!order && left->told)
        order = oracle_compare(left->call->got_version, right->call->got_version);
    return order ? order : oracle_compare(left->from, right->from);
}

static struct oracle_change change_of(const struct history_call *const *calls, size_t n)
{
    struct oracle_change change = {.call = calls[0], .from = calls[0]->start_ns, .to = INT64_MAX, .calls = calls, .n = n};
    for (size_t i = 0; i < n; i++) {
        if (calls[i]->answer != HISTORY_OK)
            continue;
        if (!change.told)
            change.call = calls[i];
        change.told = true;
        if (calls[i]->end_ns < change.to)
            change.to = calls[i]->end_ns;
    }
    return change;
}

/* Fills in the group's changes; `list` has room for all its calls, and both stay the caller's. */
static void find_changes(struct oracle_group *group, const struct history_call **list, struct oracle_change *changes)
{
    size_t n = 0;
    for (size_t i = 0; i < group->n_calls; i++)
        if (oracle_is_change(group->calls[i]) && group->calls[i]->answer != HISTORY_REFUSED)
            list[n++] = group->calls[i];
    qsort(list, n, sizeof(list[0]), by_seq);
    group->changes = changes;
    for (size_t i = 0, same; i < n; i += same) {
        for (same = 1; list[i]->write_seq > 0 && i + same < n; same++)
            if (list[i + same]->token != list[i]->token || list[i + same]->write_seq != list[i]->write_seq)
                break;
        changes[group->n_changes] = change_of(list + i, same);
        group->n_told += changes[group->n_changes++].told;
    }
    qsort(changes, group->n_changes, sizeof(changes[0]), by_version);
}

/* ------------------------------------------------------------------------------------------------ groups */

static int rows_by_resource(const void *a, const void *b)
{
    const struct oracle_row *left = *(const struct oracle_row *const *)a, *right = *(const struct oracle_row *const *)b;
    int order = strcmp(left->resource, right->resource);
    return order ? order : oracle_compare(left->id, right->id);
}

static int calls_by_resource(const void *a, const void *b)
{
    const struct history_call *left = *(const struct history_call *const *)a, *right = *(const struct history_call *const *)b;
    int order = strcmp(left->resource, right->resource);
    return order ? order : oracle_compare(left->start_ns, right->start_ns);
}

static void *take(size_t n, size_t size)
{
    void *memory = calloc(n + 1, size);
    if (!memory)
        abort();
    return memory;
}

bool oracle_each_group(const struct oracle_row *rows, size_t n, const struct history_call *calls, size_t n_calls, char *why,
                       size_t why_size, bool (*rule)(const struct oracle_group *group))
{
    const struct oracle_row **row_list = take(n, sizeof(const struct oracle_row *));
    const struct history_call **call_list = take(n_calls, sizeof(const struct history_call *));
    const struct history_call **upsets = take(n_calls, sizeof(const struct history_call *));
    const struct history_call **change_list = take(n_calls, sizeof(const struct history_call *));
    struct oracle_change *changes = take(n_calls, sizeof(changes[0]));
    size_t n_rows = 0, n_list = 0, n_upsets = 0, row = 0, call = 0;
    bool good = true;
    for (size_t i = 0; i < n; i++)
        if (rows[i].resource)
            row_list[n_rows++] = &rows[i];
    for (size_t i = 0; i < n_calls; i++)
        *(calls[i].op == HISTORY_UPSET ? &upsets[n_upsets++] : &call_list[n_list++]) = &calls[i];
    qsort(row_list, n_rows, sizeof(row_list[0]), rows_by_resource);
    qsort(call_list, n_list, sizeof(call_list[0]), calls_by_resource);
    while (good && (row < n_rows || call < n_list)) {
        struct oracle_group group = {.rows = row_list + row,
                                     .calls = call_list + call,
                                     .upsets = upsets,
                                     .n_upsets = n_upsets,
                                     .why = why,
                                     .why_size = why_size};
        bool by_row = row < n_rows && (call == n_list || strcmp(row_list[row]->resource, call_list[call]->resource) <= 0);
        const char *name = by_row ? row_list[row]->resource : call_list[call]->resource;
        for (; row < n_rows && !strcmp(row_list[row]->resource, name); row++)
            group.n_rows++;
        for (; call < n_list && !strcmp(call_list[call]->resource, name); call++)
            group.n_calls++;
        find_changes(&group, change_list, changes);
        good = rule(&group);
    }
    free(row_list);
    free(call_list);
    free(upsets);
    free(change_list);
    free(changes);
    return good;
}
