/*
 * oracle_values.c - whether one resource's changes and reads agree with each other: repeats, versions and values, but for when
 * they happened (oracle_order.c). See oracle.h.
 */
#include "robustness/oracle_group.h"

#include <inttypes.h>
#include <stdlib.h>

/* Each (token, write_seq) took effect once, and every repeat of it was told the same (P8). */
static bool check_repeats(const struct oracle_group *group, const struct oracle_change *change)
{
    const struct history_call *made = NULL;
    for (size_t i = 0; i < change->n; i++) {
        const struct history_call *call = change->calls[i];
        if (call->answer != HISTORY_OK)
            continue;
        if (call->got_version != change->call->got_version || call->op != change->call->op)
            return oracle_wrong(group, call, change->call, "a repeat was told another version than %" PRId64,
                                change->call->got_version);
        if (made && !call->replayed)
            return oracle_wrong(group, call, made, "accepted twice: write_seq %" PRId64, call->write_seq);
        if (!call->replayed)
            made = call;
    }
    return true;
}

/* Versions go up, and tokens with them: so there is one order of all that changed the value (P3). A delete of nothing leaves the
 * version as it was. */
static bool check_versions(const struct oracle_group *group)
{
    for (size_t i = 1; i < group->n_told; i++) {
        const struct history_call *before = group->changes[i - 1].call, *call = group->changes[i].call;
        if (call->got_version < before->got_version)
            return oracle_wrong(group, before, call, "a change was accepted under token %" PRId64 " after one under %" PRId64,
                                before->token, call->token);
        if (call->got_version == before->got_version && (call->op == HISTORY_WRITE || before->op == HISTORY_WRITE))
            return oracle_wrong(group, call, before, "two changes were told one version: %" PRId64, call->got_version);
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ reads */

/* The first change that was told this version or a higher one; n_told if there is none. */
static size_t first_of_version(const struct oracle_group *group, int64_t version)
{
    size_t low = 0, high = group->n_told;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->changes[middle].call->got_version < version)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t first_untold(const struct oracle_group *group, int64_t token)
{
    size_t low = group->n_told, high = group->n_changes;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->changes[middle].call->token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether one of the calls that asked for the change can have left what the read shows. */
static bool explains(const struct oracle_change *change, const struct history_call *read)
{
    for (size_t i = 0; i < change->n; i++) {
        const struct history_call *call = change->calls[i];
        if (call->op == HISTORY_DELETE ? !read->got_value : call->value == read->got_value)
            return call->start_ns <= oracle_end(read);
    }
    return false;
}

static bool check_read(const struct oracle_group *group, const struct history_call *read)
{
    const size_t at = first_of_version(group, read->got_version);
    if (at < group->n_told && group->changes[at].call->got_version == read->got_version) {
        const struct history_call *change = group->changes[at].call;
        bool good = change->op == HISTORY_DELETE ? !read->got_value : explains(&group->changes[at], read);
        good = good && (change->op == HISTORY_DELETE || change->token == read->got_token);
        return good ||
               oracle_wrong(group, read, change, "a read shows another value than was left by version %" PRId64, read->got_version);
    }
    if (read->got_version == 0 && !read->got_value)
        return true;
    for (size_t i = first_untold(group, read->got_token); i < group->n_changes; i++) {
        if (group->changes[i].call->token != read->got_token)
            break;
        if (explains(&group->changes[i], read))
            return true;
    }
    return oracle_wrong(group, read, NULL, "a read shows what nobody wrote who was told so or doesn't know: version %" PRId64,
                        read->got_version);
}

/* ------------------------------------------------------------------------------------------------ versions of which nobody was
 * told */

/* So many versions lie between two that are known, the one left under the token `low`, the other under `high`: each was made by
 * a change of which its caller doesn't know, once. *next: the first of those that is still to be had; taking the lowest token that
 * fits leaves the most for what comes. */
static bool fill(const struct oracle_group *group, size_t *next, int64_t missing, int64_t low, int64_t high)
{
    while (*next < group->n_changes && group->changes[*next].call->token < low)
        (*next)++;
    for (; missing > 0; missing--, (*next)++)
        if (*next == group->n_changes || group->changes[*next].call->token > high)
            return false;
    return true;
}

static bool check_untold(const struct oracle_group *group, const struct history_call *last_read)
{
    size_t next = group->n_told;
    int64_t version = 0, token = 0;
    for (size_t i = 0; i < group->n_told; i++) {
        const struct history_call *call = group->changes[i].call;
        if (!fill(group, &next, call->got_version - version - 1, token, call->token))
            return oracle_wrong(group, call, NULL,
                                "a version was made by nobody who doesn't know: one between %" PRId64 " and %" PRId64, version,
                                call->got_version);
        version = call->got_version;
        token = call->token;
    }
    if (last_read && !fill(group, &next, last_read->got_version - version, token, last_read->got_token))
        return oracle_wrong(group, last_read, NULL, "a version was made by nobody who doesn't know: one above %" PRId64, version);
    return true;
}

bool oracle_check_values(const struct oracle_group *group)
{
    const struct history_call *last_read = NULL;
    for (size_t i = 0; i < group->n_told; i++)
        if (!check_repeats(group, &group->changes[i]))
            return false;
    if (!check_versions(group))
        return false;
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *read = group->calls[i];
        if (!oracle_is(read, HISTORY_READ, HISTORY_OK))
            continue;
        if (!check_read(group, read))
            return false;
        if (!last_read || read->got_version > last_read->got_version)
            last_read = read;
    }
    return check_untold(group, last_read);
}
