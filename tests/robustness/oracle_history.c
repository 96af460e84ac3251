/*
 * oracle_history.c - whether what workers were told agrees with the audit trail: see oracle.h.
 *
 * Calls and rows are sorted by resource and judged one resource at a time.
 */
#include "robustness/oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One resource's rows and calls. */
struct group {
    const struct oracle_row *const *rows;
    size_t n_rows;
    const struct history_call *const *calls;
    size_t n_calls;
    char *why;
    size_t why_size;
};

static bool wrong(const struct group *group, const struct history_call *call, const char *rule, int64_t number)
{
    char line[1024] = "";
    (void)history_format(call, line, sizeof(line));
    snprintf(group->why, group->why_size, "%s %" PRId64 ": %s", rule, number, line);
    return false;
}

static bool is_change(const struct history_call *call)
{
    return call->op == HISTORY_WRITE || call->op == HISTORY_DELETE;
}

static bool is_ok(const struct history_call *call, enum history_op op)
{
    return call->op == op && call->answer == HISTORY_OK;
}

static bool is_grant_row(const struct oracle_row *row)
{
    return !strcmp(row->kind, "grant") || !strcmp(row->kind, "takeover");
}

static bool is_change_row(const struct oracle_row *row)
{
    return !strcmp(row->kind, "write") || !strcmp(row->kind, "delete");
}

/* The row of a change: by kind, token and version. */
static bool is_row_of(const struct oracle_row *row, const struct history_call *call)
{
    return !strcmp(row->kind, history_op_name(call->op)) && row->token == call->token && row->prior == call->got_version;
}

/* ------------------------------------------------------------------------------------------------ the rules */

static bool check_acquired(const struct group *group)
{
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *call = group->calls[i];
        bool found = false;
        if (!is_ok(call, HISTORY_ACQUIRE))
            continue;
        for (size_t j = 0; j < group->n_rows && !found; j++)
            found = is_grant_row(group->rows[j]) && group->rows[j]->token == call->got_token;
        if (!found)
            return wrong(group, call, "a grant that was acknowledged is not in the trail: token", call->got_token);
        for (size_t j = 0; j < i; j++) {
            const struct history_call *other = group->calls[j];
            if (is_ok(other, HISTORY_ACQUIRE) && other->got_token == call->got_token &&
                (!call->request_id[0] || strcmp(other->request_id, call->request_id) != 0))
                return wrong(group, call, "one token was given to two requests:", call->got_token);
        }
    }
    return true;
}

static bool check_changed(const struct group *group)
{
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *call = group->calls[i];
        bool found = false;
        if (!is_change(call) || call->answer != HISTORY_OK)
            continue;
        for (size_t j = 0; j < group->n_rows && !found; j++)
            found = is_row_of(group->rows[j], call);
        if (!found)
            return wrong(group, call, "a change that was acknowledged is not in the trail: version", call->got_version);
        for (size_t j = 0; j < i; j++) {
            const struct history_call *other = group->calls[j];
            if (!is_change(other) || other->answer != HISTORY_OK || other->token != call->token)
                continue;
            bool same = call->write_seq > 0 && other->write_seq == call->write_seq;
            if (same && (other->got_version != call->got_version || other->op != call->op))
                return wrong(group, call, "a repeat was told another version than", other->got_version);
            if (same && !other->replayed && !call->replayed)
                return wrong(group, call, "accepted twice: write_seq", call->write_seq);
            if (!same && call->op == HISTORY_WRITE && other->op == HISTORY_WRITE && other->got_version == call->got_version)
                return wrong(group, call, "two writes were told one version:", call->got_version);
        }
    }
    return true;
}

/* Whether the call may have made a change of this row's kind and token of which nobody was told. */
static bool may_have_made(const struct group *group, size_t number, const struct oracle_row *row)
{
    const struct history_call *call = group->calls[number];
    if (call->answer != HISTORY_UNKNOWN || call->token != row->token || strcmp(history_op_name(call->op), row->kind) != 0)
        return false;
    for (size_t j = 0; call->write_seq > 0 && j < group->n_calls; j++) {
        const struct history_call *other = group->calls[j];
        bool repeat = other->op == call->op && other->token == call->token && other->write_seq == call->write_seq;
        if (repeat && (other->answer == HISTORY_OK || j < number))
            return false; /* told, or counted already */
    }
    return true;
}

/* Changes of this kind and token that nobody was told of need somebody who doesn't know. */
static bool check_asked_for(const struct group *group, const struct oracle_row *row)
{
    size_t unclaimed = 0, unknown = 0;
    for (size_t i = 0; i < group->n_rows; i++) {
        bool claimed = false;
        if (strcmp(group->rows[i]->kind, row->kind) != 0 || group->rows[i]->token != row->token)
            continue;
        for (size_t j = 0; j < group->n_calls && !claimed; j++)
            claimed = group->calls[j]->answer == HISTORY_OK && is_row_of(group->rows[i], group->calls[j]);
        unclaimed += !claimed;
    }
    for (size_t j = 0; unclaimed > 0 && j < group->n_calls; j++)
        unknown += may_have_made(group, j, row);
    if (unclaimed <= unknown)
        return true;
    snprintf(group->why, group->why_size,
             "audit row %lld: %s of %s under token %lld to version %lld, but of such changes %zu were told to nobody and only %zu "
             "are unknown to who asked",
             (long long)row->id, row->kind, row->resource, (long long)row->token, (long long)row->prior, unclaimed, unknown);
    return false;
}

/* Once this call was answered, changes under tokens below the result are refused. */
static int64_t bound_of(const struct history_call *call)
{
    if (is_ok(call, HISTORY_ACQUIRE))
        return call->got_token;
    if (is_ok(call, HISTORY_BREAK))
        return call->got_fence;
    if (is_ok(call, HISTORY_RELEASE))
        return call->token + 1;
    return 0;
}

static bool check_no_stale(const struct group *group)
{
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *call = group->calls[i];
        if (!is_change(call) || call->answer != HISTORY_OK || call->replayed)
            continue;
        for (size_t j = 0; j < group->n_calls; j++) {
            const struct history_call *before = group->calls[j];
            if (before->end_ns && before->end_ns < call->start_ns && call->token < bound_of(before))
                return wrong(group, call, "accepted after the end of its lease had been acknowledged; then tokens began at",
                             bound_of(before));
        }
    }
    return true;
}

static bool check_reads(const struct group *group)
{
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *read = group->calls[i];
        if (!is_ok(read, HISTORY_READ))
            continue;
        for (size_t j = 0; j < group->n_calls; j++) {
            const struct history_call *change = group->calls[j];
            if (!is_change(change) || change->answer != HISTORY_OK)
                continue;
            if (change->end_ns < read->start_ns && read->got_version < change->got_version)
                return wrong(group, read, "a read shows an older version than was acknowledged before:", change->got_version);
            bool shown = change->got_version == read->got_version && change->token == read->got_token;
            if (shown && change->op == HISTORY_WRITE && read->got_value && read->got_value != change->value)
                return wrong(group, read, "a read shows another value than was written under version", change->got_version);
        }
    }
    return true;
}

static bool check_group(const struct group *group)
{
    if (!check_acquired(group) || !check_changed(group) || !check_no_stale(group) || !check_reads(group))
        return false;
    for (size_t i = 0; i < group->n_rows; i++)
        if (is_change_row(group->rows[i]) && !check_asked_for(group, group->rows[i]))
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------ groups */

static int rows_by_resource(const void *a, const void *b)
{
    const struct oracle_row *left = *(const struct oracle_row *const *)a, *right = *(const struct oracle_row *const *)b;
    int order = strcmp(left->resource, right->resource);
    return order ? order : (left->id > right->id) - (left->id < right->id);
}

static int calls_by_resource(const void *a, const void *b)
{
    const struct history_call *left = *(const struct history_call *const *)a, *right = *(const struct history_call *const *)b;
    int order = strcmp(left->resource, right->resource);
    return order ? order : (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

bool oracle_check_history(const struct oracle_row *rows, size_t n, const struct history_call *calls, size_t n_calls, char *why,
                          size_t why_size)
{
    const struct oracle_row **row_list = malloc((n + 1) * sizeof(const struct oracle_row *));
    const struct history_call **call_list = malloc((n_calls + 1) * sizeof(const struct history_call *));
    size_t n_rows = 0, row = 0, call = 0;
    bool good = true;
    if (!row_list || !call_list)
        abort();
    for (size_t i = 0; i < n; i++)
        if (rows[i].resource)
            row_list[n_rows++] = &rows[i];
    for (size_t i = 0; i < n_calls; i++)
        call_list[i] = &calls[i];
    qsort(row_list, n_rows, sizeof(row_list[0]), rows_by_resource);
    qsort(call_list, n_calls, sizeof(call_list[0]), calls_by_resource);
    while (good && (row < n_rows || call < n_calls)) {
        struct group group = {.rows = row_list + row, .calls = call_list + call, .why = why, .why_size = why_size};
        bool by_row = row < n_rows && (call == n_calls || strcmp(row_list[row]->resource, call_list[call]->resource) <= 0);
        const char *name = by_row ? row_list[row]->resource : call_list[call]->resource;
        for (; row < n_rows && !strcmp(row_list[row]->resource, name); row++)
            group.n_rows++;
        for (; call < n_calls && !strcmp(call_list[call]->resource, name); call++)
            group.n_calls++;
        good = check_group(&group);
    }
    free(row_list);
    free(call_list);
    return good;
}
