/*
 * chaos_proof.c - see chaos_proof.h.
 */
#include "robustness/chaos_proof.h"

#include "harness/harness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/oracle.h"

/* By resource, token and write_seq; in it, whether a call is about the same as the one before is easily seen. */
static int by_seq(const void *a, const void *b)
{
    const struct history_call *left = a, *right = b;
    int order = strcmp(left->resource, right->resource);
    if (!order)
        order = (left->token > right->token) - (left->token < right->token);
    return order ? order : (left->write_seq > right->write_seq) - (left->write_seq < right->write_seq);
}

static int by_token(const void *a, const void *b)
{
    const struct history_call *left = a, *right = b;
    int order = strcmp(left->resource, right->resource);
    return order ? order : (left->got_token > right->got_token) - (left->got_token < right->got_token);
}

static struct history_call *calls_of(struct history *history, enum history_op op, size_t *n)
{
    size_t count;
    struct history_call *calls = history_sorted(history, &count);
    *n = 0;
    for (size_t i = 0; i < count; i++)
        if (calls[i].op == op)
            calls[(*n)++] = calls[i];
    return calls;
}

static size_t writes_in(const struct oracle_trail *trail, const char *resource, int64_t token)
{
    size_t n = 0;
    for (size_t i = 0; i < trail->n; i++)
        n += trail->rows[i].token == token && trail->rows[i].resource && !strcmp(trail->rows[i].kind, "write") &&
             !strcmp(trail->rows[i].resource, resource);
    return n;
}

void chaos_prove_each_once(PGconn *conn, const char *name_space, struct history *history)
{
    struct oracle_trail trail = oracle_load(conn, name_space);
    size_t n, seqs = 0;
    struct history_call *calls = calls_of(history, HISTORY_WRITE, &n);
    qsort(calls, n, sizeof(calls[0]), by_seq);
    for (size_t i = 0; i < n; i++) {
        const bool last =
            i + 1 == n || calls[i + 1].token != calls[i].token || strcmp(calls[i + 1].resource, calls[i].resource) != 0;
        seqs += i == 0 || by_seq(&calls[i - 1], &calls[i]) != 0;
        if (!last)
            continue;
        size_t made = writes_in(&trail, calls[i].resource, calls[i].token);
        if (made > seqs)
            fail_msg("%zu writes of %s under token %" PRId64 ", of %zu that were sent", made, calls[i].resource, calls[i].token,
                     seqs);
        seqs = 0;
    }
    free(calls);
    oracle_release(&trail);
}

void chaos_prove_last(PGconn *conn, const char *name_space, const char *resource, struct history *history)
{
    const char *const values[] = {name_space, resource};
    size_t n;
    struct history_call *calls = calls_of(history, HISTORY_WRITE, &n);
    struct oracle_trail trail = oracle_load(conn, name_space);
    const struct oracle_row *last = NULL;
    for (size_t i = 0; i < trail.n; i++)
        if (trail.rows[i].resource && !strcmp(trail.rows[i].resource, resource) && !strcmp(trail.rows[i].kind, "write"))
            last = &trail.rows[i];
    PGresult *res =
        PQexecParams(conn, "SELECT version, token, value FROM holdfast.resource_value WHERE namespace = $1 AND resource = $2", 2,
                     NULL, values, NULL, NULL, 0);
    if (!last || PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1)
        fail_msg("%s: %s", resource, last ? "has no value" : "was never written");
    if (strtoll(PQgetvalue(res, 0, 0), NULL, 10) != last->prior || strtoll(PQgetvalue(res, 0, 1), NULL, 10) != last->token)
        fail_msg("%s: version %s under token %s, but the last write was of version %" PRId64 " under token %" PRId64, resource,
                 PQgetvalue(res, 0, 0), PQgetvalue(res, 0, 1), last->prior, last->token);
    size_t len;
    unsigned char *value = PQunescapeBytea((const unsigned char *)PQgetvalue(res, 0, 2), &len);
    assert_non_null(value);
    const uint64_t digest = history_digest(value, len);
    bool told = false, right = false, sent = false;
    for (size_t i = 0; i < n; i++) {
        if (calls[i].token != last->token || strcmp(calls[i].resource, resource) != 0)
            continue;
        if (calls[i].answer == HISTORY_OK && calls[i].got_version == last->prior) {
            told = true;
            right |= calls[i].value == digest;
        }
        sent |= calls[i].answer == HISTORY_UNKNOWN && calls[i].value == digest;
    }
    if (told ? !right : !sent)
        fail_msg("%s: its value \"%.*s\" is not that of its last accepted write", resource, (int)len, (const char *)value);
    PQfreemem(value);
    PQclear(res);
    oracle_release(&trail);
    free(calls);
}

struct chaos_counts chaos_count(PGconn *conn, const char *name_space, struct history *history)
{
    struct chaos_counts counts = {0};
    size_t n;
    struct history_call *calls = history_sorted(history, &n);
    counts.calls = (unsigned)n;
    for (size_t i = 0; i < n; i++) {
        const struct history_call *call = &calls[i];
        const bool ok = call->answer == HISTORY_OK;
        counts.acquired += ok && call->op == HISTORY_ACQUIRE;
        counts.written += ok && call->op == HISTORY_WRITE;
        counts.replayed += ok && call->op == HISTORY_WRITE && call->replayed;
        counts.read += ok && call->op == HISTORY_READ;
        counts.released += ok && call->op == HISTORY_RELEASE;
        counts.refused += call->answer == HISTORY_REFUSED;
        counts.unknown += call->answer == HISTORY_UNKNOWN;
        counts.repeats_sent += call->tries > 1 ? call->tries - 1 : 0;
    }
    free(calls);
    calls = calls_of(history, HISTORY_ACQUIRE, &n);
    qsort(calls, n, sizeof(calls[0]), by_token);
    const struct history_call *before = NULL;
    for (size_t i = 0; i < n; i++) {
        if (calls[i].answer != HISTORY_OK)
            continue;
        if (before && !strcmp(before->resource, calls[i].resource))
            counts.hand_overs += before->worker != calls[i].worker;
        before = &calls[i];
    }
    free(calls);
    counts.taken_over =
        (unsigned)t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE namespace = '%s' AND kind = 'takeover'", name_space);
    return counts;
}
