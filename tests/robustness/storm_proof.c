/*
 * storm_proof.c - see storm_proof.h.
 */
#include "robustness/storm_proof.h"

#include "harness/harness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_change(const struct history_call *call)
{
    return call->op == HISTORY_WRITE || call->op == HISTORY_DELETE;
}

static bool is_grant(const struct history_call *call)
{
    return call->op == HISTORY_ACQUIRE && call->answer == HISTORY_OK;
}

static bool keep_all(const struct history_call *call)
{
    (void)call;
    return true;
}

/* The calls of which keep() is true, by start; free() them. */
static struct history_call *calls_of(struct history *history, bool (*keep)(const struct history_call *call), size_t *n)
{
    size_t count;
    struct history_call *calls = history_sorted(history, &count);
    *n = 0;
    for (size_t i = 0; i < count; i++)
        if (keep(&calls[i]))
            calls[(*n)++] = calls[i];
    return calls;
}

/* ------------------------------------------------------------------------------------------------ answers */

/* For how long, of this time, the worker was stopped. */
static int64_t stopped_ns(const struct storm_workers *workers, int worker, int64_t from_ns, int64_t to_ns)
{
    int64_t sum = 0;
    for (int i = 0; i < workers->n_stops; i++) {
        const struct storm_stop *stop = &workers->stops[i];
        const int64_t begin = stop->from_ns > from_ns ? stop->from_ns : from_ns, end = stop->to_ns < to_ns ? stop->to_ns : to_ns;
        if (stop->worker == worker && end > begin)
            sum += end - begin;
    }
    return sum;
}

void storm_prove_answered(struct history *history, const struct storm_workers *workers)
{
    size_t n;
    int64_t latest = INT64_MIN;
    const char *what = "";
    struct history_call *calls = calls_of(history, keep_all, &n);
    for (size_t i = 0; i < n; i++) {
        const struct history_call *call = &calls[i];
        const int worker = call->worker / STORM_WORKER_THREADS;
        char line[1000] = "";
        history_format(call, line, sizeof(line));
        if (call->op == HISTORY_UPSET)
            continue;
        if (!call->end_ns && worker < STORM_WORKERS && !workers->killed[worker])
            fail_msg("never answered: %s", line);
        if (!call->end_ns)
            continue;
        const int64_t allowed_ms = STORM_TIMEOUT_MS + (call->op == HISTORY_ACQUIRE ? STORM_WAIT_MS : 0);
        const int64_t took_ns = call->end_ns - call->start_ns - stopped_ns(workers, worker, call->start_ns, call->end_ns);
        const int64_t over_ms = took_ns / 1000000 - allowed_ms;
        if (over_ms > latest) {
            latest = over_ms;
            what = history_op_name(call->op);
        }
        if (over_ms > STORM_BOUND_MS)
            fail_msg("%" PRId64 " ms after its deadline: %s", over_ms, line);
    }
    free(calls);
    print_message("[     INFO ] the latest answer, of %s, came %" PRId64 " ms %s its deadline\n", what,
                  latest < 0 ? -latest : latest, latest < 0 ? "before" : "after");
}

/* ------------------------------------------------------------------------------------------------ claims */

/* The lease may have ended without its holder's knowledge: it was broken, or it was an upset that did it. */
static bool excused(const struct history_call *calls, size_t n, const struct storm_claim *claim)
{
    const int64_t longest_ns = (int64_t)(STORM_TTL_MAX_MS + STORM_BOUND_MS) * 1000000;
    for (size_t i = 0; i < n; i++) {
        const struct history_call *call = &calls[i];
        if (call->op == HISTORY_BREAK && call->answer != HISTORY_REFUSED && call->token == claim->token &&
            !strcmp(call->resource, claim->resource))
            return true;
        if (call->op == HISTORY_UPSET && claim->valid_ns >= call->start_ns && claim->valid_ns < call->end_ns + longest_ns)
            return true;
    }
    return false;
}

size_t storm_prove_claims(struct history *history, const struct storm_workers *workers)
{
    size_t n, n_claims, judged = 0;
    struct history_call *calls = calls_of(history, keep_all, &n);
    struct storm_claim *claims = storm_workers_claims(workers, &n_claims);
    for (size_t i = 0; i < n_claims; i++) {
        const struct storm_claim *claim = &claims[i];
        if (!claim->valid_ns || excused(calls, n, claim))
            continue;
        judged++;
        for (size_t j = 0; j < n; j++) {
            const struct history_call *call = &calls[j];
            char line[1000] = "";
            if (!is_grant(call) || call->got_token <= claim->token || call->end_ns >= claim->valid_ns ||
                strcmp(call->resource, claim->resource) != 0)
                continue;
            history_format(call, line, sizeof(line));
            fail_msg("%s was said to be held under token %" PRId64 " at %" PRId64 ", %" PRId64 " ms after this grant: %s",
                     claim->resource, claim->token, claim->valid_ns, (claim->valid_ns - call->end_ns) / 1000000, line);
        }
    }
    free(claims);
    free(calls);
    return judged;
}

/* ------------------------------------------------------------------------------------------------ counts */

static int by_token(const void *a, const void *b)
{
    const struct history_call *left = a, *right = b;
    int order = strcmp(left->resource, right->resource);
    return order ? order : (left->got_token > right->got_token) - (left->got_token < right->got_token);
}

static unsigned count_hand_overs(struct history *history)
{
    size_t n;
    unsigned count = 0;
    struct history_call *calls = calls_of(history, is_grant, &n);
    qsort(calls, n, sizeof(calls[0]), by_token);
    for (size_t i = 1; i < n; i++)
        count += calls[i - 1].worker != calls[i].worker && !strcmp(calls[i - 1].resource, calls[i].resource);
    free(calls);
    return count;
}

static int by_end(const void *a, const void *b)
{
    const int64_t left = ((const struct history_call *)a)->end_ns, right = ((const struct history_call *)b)->end_ns;
    return (left > right) - (left < right);
}

static bool is_progress(const struct history_call *call)
{
    return call->answer == HISTORY_OK && (call->op == HISTORY_ACQUIRE || call->op == HISTORY_WRITE);
}

static unsigned longest_silence(struct history *history)
{
    size_t n;
    int64_t longest = 0;
    struct history_call *calls = calls_of(history, is_progress, &n);
    qsort(calls, n, sizeof(calls[0]), by_end);
    for (size_t i = 1; i < n; i++)
        if (calls[i].end_ns - calls[i - 1].end_ns > longest)
            longest = calls[i].end_ns - calls[i - 1].end_ns;
    free(calls);
    return (unsigned)(longest / 1000000);
}

struct storm_counts storm_count(PGconn *conn, const char *name_space, struct history *history)
{
    struct storm_counts counts = {.hand_overs = count_hand_overs(history), .silent = longest_silence(history)};
    size_t n;
    struct history_call *calls = calls_of(history, keep_all, &n);
    for (size_t i = 0; i < n; i++) {
        const struct history_call *call = &calls[i];
        const bool ok = call->answer == HISTORY_OK;
        counts.calls += call->op != HISTORY_UPSET;
        counts.acquired += ok && call->op == HISTORY_ACQUIRE;
        counts.written += ok && call->op == HISTORY_WRITE;
        counts.errands += ok && call->op == HISTORY_WRITE && call->worker / STORM_WORKER_THREADS >= STORM_WORKERS;
        counts.deleted += ok && call->op == HISTORY_DELETE;
        counts.replayed += ok && is_change(call) && call->replayed;
        counts.read += ok && call->op == HISTORY_READ;
        counts.released += ok && call->op == HISTORY_RELEASE;
        counts.broken += ok && call->op == HISTORY_BREAK;
        counts.refused += call->answer == HISTORY_REFUSED;
        counts.unknown += call->answer == HISTORY_UNKNOWN;
        counts.repeats_sent += call->tries > 1 ? call->tries - 1 : 0;
    }
    free(calls);
    counts.taken_over =
        (unsigned)t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE namespace = '%s' AND kind = 'takeover'", name_space);
    return counts;
}
