/*
 * oracle.c - see oracle.h.
 */
#include "robustness/oracle.h"

#include "harness/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wrong(char *why, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool wrong(char *why, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return false;
}

/* ------------------------------------------------------------------------------------------------ the trail */

/* What the rows of one resource have come to. */
struct resource_state {
    int64_t fence;     /* what the next token must be above */
    int64_t newest;    /* the newest token granted */
    bool ended;        /* it was released or broken */
    bool expired;      /* the sweeper noted that it ran out */
    bool broken_alone; /* by attach(), which raises no fence: an operator may break it once more */
    int64_t version;   /* of the last change; -1: none seen yet */
};

struct fault_place {
    const struct oracle_row *row;
    char *why;
    size_t size;
};

static bool wrong_row(const struct fault_place *place, const char *rule, int64_t number)
{
    const struct oracle_row *row = place->row;
    return wrong(place->why, place->size, "audit row %lld (%s of %s, token %lld, prior %lld): %s %lld", (long long)row->id,
                 row->kind, row->resource ? row->resource : "the namespace", (long long)row->token, (long long)row->prior, rule,
                 (long long)number);
}

static bool check_grant(struct resource_state *state, const struct oracle_row *row, bool takeover, const struct fault_place *place)
{
    if (row->token <= state->fence)
        return wrong_row(place, "a token was granted that is not above", state->fence);
    if (takeover && row->prior != state->newest)
        return wrong_row(place, "a takeover of another lease than the newest,", state->newest);
    if (takeover && state->ended)
        return wrong_row(place, "a takeover of a lease that had been released or broken:", state->newest);
    state->fence = state->newest = row->token;
    state->ended = state->broken_alone = state->expired = false;
    return true;
}

/* Noted once, before the takeover; nothing is accepted afterwards, but the lease may still be broken. */
static bool check_expire(struct resource_state *state, const struct oracle_row *row, const struct fault_place *place)
{
    if (row->token != state->newest)
        return wrong_row(place, "noted as expired a lease that is not the newest,", state->newest);
    if (state->ended)
        return wrong_row(place, "noted as expired a lease that had been released or broken:", state->newest);
    if (state->expired)
        return wrong_row(place, "noted as expired twice:", state->newest);
    state->expired = true;
    return true;
}

static bool check_end(struct resource_state *state, const struct oracle_row *row, bool is_break, const struct fault_place *place)
{
    if (row->token != state->newest)
        return wrong_row(place, "ended a lease that is not the newest,", state->newest);
    if (state->ended && !(is_break && state->broken_alone))
        return wrong_row(place, "ended a lease twice:", state->newest);
    if (state->expired && !is_break)
        return wrong_row(place, "released a lease that had run out:", state->newest);
    if (is_break && row->prior && row->prior <= state->fence)
        return wrong_row(place, "a break raised the fence to no more than", state->fence);
    state->ended = true;
    state->broken_alone = is_break && row->prior == 0;
    if (row->prior > state->fence)
        state->fence = row->prior;
    return true;
}

static bool check_change(struct resource_state *state, const struct oracle_row *row, bool is_delete,
                         const struct fault_place *place)
{
    if (row->token < state->newest)
        return wrong_row(place, "a stale change was accepted: the newest token is", state->newest);
    if (row->token > state->newest)
        return wrong_row(place, "a change under a token that was never granted: the newest is", state->newest);
    if (state->ended || state->expired)
        return wrong_row(place, "a change was accepted after the end of its lease,", state->newest);
    bool step = state->version < 0 || row->prior == state->version + 1 || (is_delete && row->prior == state->version);
    if (!step)
        return wrong_row(place, "the version did not go on from", state->version);
    state->version = row->prior;
    return true;
}

static bool check_row(struct resource_state *state, const struct oracle_row *row, const struct fault_place *place)
{
    if (!strcmp(row->kind, "grant") || !strcmp(row->kind, "takeover"))
        return check_grant(state, row, row->kind[0] == 't', place);
    if (!strcmp(row->kind, "release") || !strcmp(row->kind, "break"))
        return check_end(state, row, row->kind[0] == 'b', place);
    if (!strcmp(row->kind, "write") || !strcmp(row->kind, "delete"))
        return check_change(state, row, row->kind[0] == 'd', place);
    if (!strcmp(row->kind, "expire"))
        return check_expire(state, row, place);
    return wrong_row(place, "of a kind that nobody knows; newest token", state->newest);
}

static int by_resource(const void *a, const void *b)
{
    const struct oracle_row *left = *(const struct oracle_row *const *)a, *right = *(const struct oracle_row *const *)b;
    int order = strcmp(left->resource, right->resource);
    return order ? order : (left->id > right->id) - (left->id < right->id);
}

/* The rows that belong to a resource, by resource and id; free() it. */
static const struct oracle_row **sorted(const struct oracle_row *rows, size_t n, size_t *n_sorted)
{
    const struct oracle_row **list = malloc((n + 1) * sizeof(const struct oracle_row *));
    if (!list)
        abort();
    *n_sorted = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].resource)
            list[(*n_sorted)++] = &rows[i];
    qsort(list, *n_sorted, sizeof(list[0]), by_resource);
    return list;
}

/* What belongs to the whole namespace, and that ids rise. */
static bool check_whole(const struct oracle_row *rows, size_t n, char *why, size_t size)
{
    int64_t floor = 0;
    for (size_t i = 0; i < n; i++) {
        const struct fault_place place = {&rows[i], why, size};
        if (i > 0 && rows[i].id <= rows[i - 1].id)
            return wrong_row(&place, "rows are not in the order of their ids: before it stands", rows[i - 1].id);
        if (rows[i].resource || !strcmp(rows[i].kind, "policy"))
            continue;
        if (strcmp(rows[i].kind, "floor") != 0)
            return wrong_row(&place, "of a kind that no namespace has; its floor is", floor);
        if (rows[i].token < floor)
            return wrong_row(&place, "the floor went down from", floor);
        floor = rows[i].token;
    }
    return true;
}

bool oracle_check_trail(const struct oracle_row *rows, size_t n, char *why, size_t why_size)
{
    struct resource_state state = {.version = -1};
    size_t count;
    bool good = check_whole(rows, n, why, why_size);
    const struct oracle_row **list = sorted(rows, n, &count);
    for (size_t i = 0; good && i < count; i++) {
        const struct fault_place place = {list[i], why, why_size};
        if (i > 0 && strcmp(list[i]->resource, list[i - 1]->resource) != 0)
            state = (struct resource_state){.version = -1};
        good = check_row(&state, list[i], &place);
    }
    free(list);
    return good;
}

/* ------------------------------------------------------------------------------------------------ from the database */

static char *copy_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        abort();
    return copy;
}

static int64_t number_at(PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static PGresult *ask(PGconn *conn, const char *name_space, const char *sql)
{
    const char *const values[] = {name_space};
    PGresult *result = PQexecParams(conn, sql, 1, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("what happened cannot be read: %s", PQerrorMessage(conn));
    return result;
}

struct oracle_trail oracle_load(PGconn *conn, const char *name_space)
{
    struct oracle_trail trail = {0};
    PGresult *result = ask(conn, name_space,
                           "SELECT id, resource, kind, token, coalesce(prior, 0) FROM holdfast.audit WHERE namespace = $1 ORDER BY "
                           "id");
    trail.n = (size_t)PQntuples(result);
    trail.rows = calloc(trail.n + 1, sizeof(trail.rows[0]));
    if (!trail.rows)
        abort();
    for (int i = 0; i < (int)trail.n; i++) {
        struct oracle_row *row = &trail.rows[i];
        row->id = number_at(result, i, 0);
        row->resource = PQgetisnull(result, i, 1) ? NULL : copy_text(PQgetvalue(result, i, 1));
        row->kind = copy_text(PQgetvalue(result, i, 2));
        row->token = number_at(result, i, 3);
        row->prior = number_at(result, i, 4);
    }
    PQclear(result);
    return trail;
}

void oracle_release(struct oracle_trail *trail)
{
    for (size_t i = 0; i < trail->n; i++) {
        free((char *)(uintptr_t)trail->rows[i].resource);
        free((char *)(uintptr_t)trail->rows[i].kind);
    }
    free(trail->rows);
    *trail = (struct oracle_trail){0};
}

void oracle_audit_writes(PGconn *conn, const char *name_space)
{
    if (t_sql_int(conn, "UPDATE holdfast.namespace SET audit_writes = true WHERE name = '%s' RETURNING 1", name_space) != 1)
        fail_msg("there is no namespace %s", name_space);
}

/* What stands, as somebody reads it now; *n of them, behind the calls of the history. To be freed. */
static struct history_call *calls_and_state(PGconn *conn, const char *name_space, struct history *history, size_t *n_calls,
                                            size_t *n)
{
    PGresult *result = ask(conn, name_space,
                           "SELECT r.name, r.fence, coalesce(v.version, 0), coalesce(v.token, 0), v.value FROM holdfast.resource r "
                           "LEFT JOIN holdfast.resource_value v ON v.namespace = r.namespace AND v.resource = r.name "
                           "WHERE r.namespace = $1 AND octet_length(r.name) < 64 ORDER BY r.name");
    struct history_call *calls = history ? history_sorted(history, n_calls) : NULL;
    const int64_t now = history_now_ns();
    *n = (size_t)PQntuples(result);
    calls = realloc(calls, (*n_calls + *n + 1) * sizeof(calls[0]));
    if (!calls)
        abort();
    for (int i = 0; i < (int)*n; i++) {
        struct history_call *read = &calls[*n_calls + (size_t)i];
        *read = (struct history_call){
            .worker = -1, .op = HISTORY_READ, .answer = HISTORY_OK, .start_ns = now, .end_ns = now, .reason = "WHAT_STANDS"};
        snprintf(read->resource, sizeof(read->resource), "%s", PQgetvalue(result, i, 0));
        read->got_fence = number_at(result, i, 1);
        read->got_version = number_at(result, i, 2);
        read->got_token = number_at(result, i, 3);
        if (!PQgetisnull(result, i, 4)) {
            size_t len;
            unsigned char *value = PQunescapeBytea((const unsigned char *)PQgetvalue(result, i, 4), &len);
            read->got_value = value ? history_digest(value, len) : 0;
            PQfreemem(value);
        }
    }
    PQclear(result);
    return calls;
}

/* What stands is what the last change in the trail left; both are sorted by resource. (Without audit_writes there is none.) */
static bool check_state(const struct oracle_trail *trail, const struct history_call *state, size_t n, char *why, size_t size)
{
    size_t count, at = 0;
    const struct oracle_row **list = sorted(trail->rows, trail->n, &count);
    bool good = true;
    for (size_t i = 0; good && i < n; i++) {
        const struct oracle_row *last = NULL;
        while (at < count && strcmp(list[at]->resource, state[i].resource) < 0)
            at++;
        for (; at < count && !strcmp(list[at]->resource, state[i].resource); at++)
            if (!strcmp(list[at]->kind, "write") || !strcmp(list[at]->kind, "delete"))
                last = list[at];
        if (last && (last->prior != state[i].got_version || last->token != state[i].got_token ||
                     (last->kind[0] == 'd') != (state[i].got_value == 0)))
            good = wrong(why, size,
                         "%s stands at version %lld under token %lld, but its last change was audit row %lld: %s under token %lld "
                         "to version %lld",
                         state[i].resource, (long long)state[i].got_version, (long long)state[i].got_token, (long long)last->id,
                         last->kind, (long long)last->token, (long long)last->prior);
    }
    free(list);
    return good;
}

bool oracle_judge(PGconn *conn, const char *name_space, struct history *history, struct oracle_verdict *verdict)
{
    size_t n_calls = 0, n_state = 0;
    *verdict = (struct oracle_verdict){0};
    t_sql(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
    struct oracle_trail trail = oracle_load(conn, name_space);
    struct history_call *calls = calls_and_state(conn, name_space, history, &n_calls, &n_state);
    t_sql(conn, "COMMIT");
    verdict->rows = trail.n;
    bool good = oracle_check_trail(trail.rows, trail.n, verdict->trail, sizeof(verdict->trail)) &&
                check_state(&trail, calls + n_calls, n_state, verdict->trail, sizeof(verdict->trail));
    if (history) {
        good &= oracle_check_calls(calls, n_calls + n_state, verdict->calls, sizeof(verdict->calls));
        good &= oracle_check_history(trail.rows, trail.n, calls, n_calls, verdict->agrees, sizeof(verdict->agrees));
    }
    free(calls);
    oracle_release(&trail);
    return good;
}

size_t oracle_check(PGconn *conn, const char *name_space, struct history *history)
{
    struct oracle_verdict verdict;
    if (!oracle_judge(conn, name_space, history, &verdict))
        fail_msg("the trail: %s\nthe calls: %s\nboth: %s", verdict.trail, verdict.calls, verdict.agrees);
    return verdict.rows;
}

size_t oracle_rows_of(const struct oracle_trail *trail, const char *resource, const char *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < trail->n; i++)
        n += trail->rows[i].resource && !strcmp(trail->rows[i].resource, resource) && !strcmp(trail->rows[i].kind, kind);
    return n;
}
