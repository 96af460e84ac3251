/*
 * calls.c - see calls.h.
 */
#include "store/calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int64_t ts_state(const char *sqlstate)
{
    return -strtoll(sqlstate, NULL, 36);
}

static int64_t outcome(PGresult *result, int column)
{
    int64_t value;
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        value = strtoll(PQgetvalue(result, 0, column), NULL, 10);
    } else {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (!state)
            fail_msg("neither one row nor an error: %s", PQresultErrorMessage(result));
        value = ts_state(state);
    }
    PQclear(result);
    return value;
}

int64_t ts_acquire(PGconn *conn, const char *resource, int64_t ttl_ms, const char *request_id)
{
    return outcome(
        PQexec(conn, t_printf("SELECT * FROM holdfast.acquire_batch('{default}', '{%s}', '{task}', '{holder}', '{%" PRId64
                              "}', '{%s}', '{NULL}')",
                              resource, ttl_ms, request_id)),
        1);
}

int64_t ts_renew(PGconn *conn, const char *resource, int64_t token, int64_t ttl_ms, bool careful)
{
    int64_t renewed = outcome(
        PQexec(conn, t_printf("SELECT * FROM holdfast.renew_batch('{default}', '{%s}', '{%" PRId64 "}', '{%" PRId64 "}', %s)",
                              resource, token, ttl_ms, careful ? "true" : "false")),
        1);
    return !careful && renewed == ts_state("40001") ? ts_renew(conn, resource, token, ttl_ms, true) : renewed;
}

int64_t ts_release(PGconn *conn, const char *resource, int64_t token)
{
    return outcome(
        PQexec(conn, t_printf("SELECT * FROM holdfast.release_batch('{default}', '{%s}', '{%" PRId64 "}')", resource, token)), 1);
}

int64_t ts_write(PGconn *conn, const char *resource, int64_t token, const char *value)
{
    return outcome(
        PQexec(conn, t_printf("SELECT * FROM holdfast.write_batch('{default}', '{%s}', '{%" PRId64 "}', '{0}', '{%s}', '{NULL}')",
                              resource, token, value)),
        1);
}

int64_t ts_check(PGconn *conn, const char *resource, int64_t token)
{
    return outcome(
        PQexec(conn, t_printf("SELECT * FROM holdfast.check_batch('{default}', '{%s}', '{%" PRId64 "}')", resource, token)), 1);
}

int64_t ts_break(PGconn *conn, const char *resource, int64_t token)
{
    return outcome(
        PQexec(conn, t_printf("SELECT * FROM holdfast.break_lease('default', '%s', %" PRId64 ", 'me', 'why')", resource, token)),
        0);
}

void ts_send_and_block(PGconn *conn, PGconn *asker, const char *sql)
{
    struct ts_waiting waiting = {asker, PQbackendPID(conn)};
    if (!PQsendQuery(conn, sql))
        fail_msg("%s", PQerrorMessage(conn));
    if (!t_wait_for(ts_waits, &waiting, 10000))
        fail_msg("it does not wait for a lock: %s", sql);
}

int64_t ts_finish(PGconn *conn, int column)
{
    PGresult *first = NULL, *result;
    while ((result = PQgetResult(conn)) != NULL) {
        if (first)
            PQclear(result);
        else
            first = result;
    }
    return outcome(first, column);
}
