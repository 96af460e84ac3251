/*
 * failover_proof.c - see failover_proof.h.
 *
 * Rows are compared as a whole: ids are drawn from a sequence that went back with the fail-over, so both trails may have the same
 * id for different things. Trails are small here, and everything is looked up by walking through them.
 */
#include "robustness/failover_proof.h"

#include "harness/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ rows */

static bool same_resource(const struct oracle_row *row, const char *resource)
{
    return row->resource && !strcmp(row->resource, resource);
}

static bool same_row(const struct oracle_row *a, const struct oracle_row *b)
{
    return a->id == b->id && a->token == b->token && a->prior == b->prior && !strcmp(a->kind, b->kind) &&
           (a->resource ? same_resource(b, a->resource) : !b->resource);
}

/* The ids rise in both. */
static bool has_row(const struct oracle_trail *trail, const struct oracle_row *row)
{
    size_t low = 0, high = trail->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (trail->rows[middle].id < row->id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < trail->n && same_row(&trail->rows[low], row);
}

static bool is_grant(const struct oracle_row *row)
{
    return !strcmp(row->kind, "grant") || !strcmp(row->kind, "takeover");
}

/* The row is what this call, which was acknowledged, has made, or what it was told of again. */
static bool is_of(const struct oracle_row *row, const struct history_call *call)
{
    if (!same_resource(row, call->resource))
        return false;
    if (call->op == HISTORY_ACQUIRE)
        return is_grant(row) && row->token == call->got_token;
    if (strcmp(row->kind, history_op_name(call->op)) != 0 || row->token != call->token)
        return false;
    return call->op == HISTORY_RELEASE || row->prior == (call->op == HISTORY_BREAK ? call->got_fence : call->got_version);
}

static bool knows(const struct oracle_trail *trail, const struct history_call *call)
{
    for (size_t i = 0; i < trail->n; i++)
        if (is_of(&trail->rows[i], call))
            return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------ what was lost */

static bool leaves_a_row(const struct history_call *call)
{
    return call->op != HISTORY_READ && call->op != HISTORY_RENEW;
}

static void count(struct failover_loss *loss, const struct history_call *call)
{
    loss->acquires += call->op == HISTORY_ACQUIRE;
    loss->writes += call->op == HISTORY_WRITE || call->op == HISTORY_DELETE;
    loss->releases += call->op == HISTORY_RELEASE || call->op == HISTORY_BREAK;
}

/* Calls that only the old primary knew of, and reads of what may be lost, are unknown from now on. */
static bool set_apart(const struct oracle_trail *before, const struct oracle_trail *after, struct history_call *calls, size_t n,
                      const struct failover_times *times, struct failover_loss *loss, char *why, size_t why_size)
{
    for (size_t i = 0; i < n; i++) {
        struct history_call *call = &calls[i];
        char line[1024] = "";
        const bool read = call->op == HISTORY_READ && call->start_ns < times->served_ns && call->end_ns >= times->safe_ns;
        if (call->answer != HISTORY_OK || (!read && (!leaves_a_row(call) || knows(after, call) || !knows(before, call))))
            continue;
        history_format(call, line, sizeof(line));
        if (call->end_ns < times->safe_ns) {
            snprintf(why, why_size, "lost although it had been shipped: %s", line);
            return false;
        }
        loss->reads += read;
        count(loss, call);
        call->answer = HISTORY_UNKNOWN;
    }
    return true;
}

/* Behind the n calls: a break of unknown outcome for each lease that was granted by the old primary. How many. */
static size_t add_breaks(struct history_call *calls, size_t n, int64_t killed_ns)
{
    size_t added = 0;
    for (size_t i = 0; i < n; i++) {
        if (calls[i].op != HISTORY_ACQUIRE || calls[i].got_token == 0 || calls[i].answer == HISTORY_REFUSED ||
            calls[i].start_ns >= killed_ns)
            continue;
        struct history_call *broken = &calls[n + added++];
        *broken = (struct history_call){
            .worker = -2, .op = HISTORY_BREAK, .token = calls[i].got_token, .start_ns = killed_ns, .reason = "FAIL_OVER"};
        memcpy(broken->resource, calls[i].resource, sizeof(broken->resource));
    }
    return added;
}

/* ------------------------------------------------------------------------------------------------ P1 across both */

/* The highest token that was ever in use before: granted, or a fence that a break had raised. */
static int64_t highest(const struct oracle_trail *before, const char *resource)
{
    int64_t high = 0;
    for (size_t i = 0; i < before->n; i++) {
        const struct oracle_row *row = &before->rows[i];
        if (!same_resource(row, resource))
            continue;
        high = row->token > high ? row->token : high;
        high = !strcmp(row->kind, "break") && row->prior > high ? row->prior : high;
    }
    return high;
}

static bool check_tokens(const struct oracle_trail *before, const struct oracle_trail *after, struct failover_loss *loss, char *why,
                         size_t why_size)
{
    loss->lowest_jump = INT64_MAX;
    for (size_t i = 0; i < after->n; i++) {
        const struct oracle_row *row = &after->rows[i];
        if (!row->resource || !is_grant(row) || has_row(before, row))
            continue;
        const int64_t jump = row->token - highest(before, row->resource);
        if (jump <= 0) {
            snprintf(why, why_size, "%s: token %" PRId64 " was granted after the fail-over, and %" PRId64 " before it",
                     row->resource, row->token, row->token - jump);
            return false;
        }
        loss->lowest_jump = jump < loss->lowest_jump ? jump : loss->lowest_jump;
        loss->granted_again++;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ all of it */

bool failover_judge(const struct oracle_trail *before, const struct oracle_trail *after, struct history_call *calls, size_t n,
                    const struct failover_times *times, struct failover_loss *loss, char *why, size_t why_size)
{
    *loss = (struct failover_loss){0};
    for (size_t i = 0; i < before->n; i++)
        loss->rows += !has_row(after, &before->rows[i]);
    if (!oracle_check_trail(before->rows, before->n, why, why_size) || !oracle_check_trail(after->rows, after->n, why, why_size) ||
        !check_tokens(before, after, loss, why, why_size) || !set_apart(before, after, calls, n, times, loss, why, why_size))
        return false;
    n += add_breaks(calls, n, times->killed_ns);
    return oracle_check_calls(calls, n, why, why_size) && oracle_check_history(after->rows, after->n, calls, n, why, why_size);
}

struct failover_loss failover_prove(PGconn *old_primary, PGconn *new_primary, struct history *history,
                                    const struct failover_times *times)
{
    struct oracle_trail before = oracle_load(old_primary, "default"), after = oracle_load(new_primary, "default");
    struct failover_loss loss;
    size_t n;
    struct history_call *calls = history_sorted(history, &n);
    char why[2048];
    calls = realloc(calls, (2 * n + 1) * sizeof(calls[0]));
    if (!calls)
        abort();
    const bool good = failover_judge(&before, &after, calls, n, times, &loss, why, sizeof(why));
    oracle_release(&before);
    oracle_release(&after);
    free(calls);
    if (!good)
        fail_msg("%s", why);
    return loss;
}
