/*
 * wrap_libpq.c - the functions of libpq that the store calls and that may fail, each as its chapter of PostgreSQL's manual says
 * (https://www.postgresql.org/docs/15/libpq.html). Accessors of what is there already (PQgetvalue, PQresultStatus, …) don't fail.
 *
 * PQgetResult has no failure of its own: when memory is out or the connection broken, it returns a result that says so.
 */
#include <libpq-fe.h>

#include "failing/points.h"

#define CALLER __builtin_return_address(0)
/* `type name(parameters)` as the linker's --wrap wants it: our own, which rooms are given, and libpq's. */
#define WRAPPED(type, name, ...)                                                                                                   \
    type real_##name(__VA_ARGS__) __asm__("__real_" #name);                                                                        \
    type wrap_##name(__VA_ARGS__) __asm__("__wrap_" #name);                                                                        \
    type wrap_##name(__VA_ARGS__)
#define FAILS(name) fp_point(FP_LIBPQ, #name, 0, CALLER)

WRAPPED(PGconn *, PQconnectStartParams, const char *const *keywords, const char *const *values, int expand)
{
    return FAILS(PQconnectStartParams) ? NULL : fp_keep(real_PQconnectStartParams(keywords, values, expand), CALLER);
}

WRAPPED(PGconn *, PQconnectdbParams, const char *const *keywords, const char *const *values, int expand)
{
    return FAILS(PQconnectdbParams) ? NULL : fp_keep(real_PQconnectdbParams(keywords, values, expand), CALLER);
}

WRAPPED(void, PQfinish, PGconn *conn)
{
    fp_drop(conn);
    real_PQfinish(conn);
}

WRAPPED(PostgresPollingStatusType, PQconnectPoll, PGconn *conn)
{
    return FAILS(PQconnectPoll) ? PGRES_POLLING_FAILED : real_PQconnectPoll(conn);
}

WRAPPED(ConnStatusType, PQstatus, const PGconn *conn)
{
    return FAILS(PQstatus) ? CONNECTION_BAD : real_PQstatus(conn);
}

WRAPPED(int, PQsocket, const PGconn *conn)
{
    return FAILS(PQsocket) ? -1 : real_PQsocket(conn);
}

WRAPPED(int, PQsetnonblocking, PGconn *conn, int on)
{
    return FAILS(PQsetnonblocking) ? -1 : real_PQsetnonblocking(conn, on);
}

WRAPPED(int, PQenterPipelineMode, PGconn *conn)
{
    return FAILS(PQenterPipelineMode) ? 0 : real_PQenterPipelineMode(conn);
}

WRAPPED(int, PQsendQuery, PGconn *conn, const char *sql)
{
    return FAILS(PQsendQuery) ? 0 : real_PQsendQuery(conn, sql);
}

WRAPPED(int, PQsendQueryParams, PGconn *conn, const char *sql, int n, const Oid *types, const char *const *values,
        const int *lengths, const int *formats, int format)
{
    return FAILS(PQsendQueryParams) ? 0 : real_PQsendQueryParams(conn, sql, n, types, values, lengths, formats, format);
}

WRAPPED(int, PQsendPrepare, PGconn *conn, const char *name, const char *sql, int n, const Oid *types)
{
    return FAILS(PQsendPrepare) ? 0 : real_PQsendPrepare(conn, name, sql, n, types);
}

WRAPPED(int, PQsendQueryPrepared, PGconn *conn, const char *name, int n, const char *const *values, const int *lengths,
        const int *formats, int format)
{
    fp_sent_prepared();
    return FAILS(PQsendQueryPrepared) ? 0 : real_PQsendQueryPrepared(conn, name, n, values, lengths, formats, format);
}

WRAPPED(int, PQpipelineSync, PGconn *conn)
{
    return FAILS(PQpipelineSync) ? 0 : real_PQpipelineSync(conn);
}

WRAPPED(int, PQflush, PGconn *conn)
{
    return FAILS(PQflush) ? -1 : real_PQflush(conn);
}

WRAPPED(int, PQconsumeInput, PGconn *conn)
{
    return FAILS(PQconsumeInput) ? 0 : real_PQconsumeInput(conn);
}

WRAPPED(PGresult *, PQgetResult, PGconn *conn)
{
    PGresult *result = real_PQgetResult(conn);
    if (!fp_loses_answer() && !FAILS(PQgetResult))
        return fp_keep(result, CALLER);
    PQclear(result);
    return fp_keep(PQmakeEmptyPGresult(conn, PGRES_FATAL_ERROR), CALLER);
}

WRAPPED(void, PQclear, PGresult *result)
{
    fp_drop(result);
    real_PQclear(result);
}

/* Without memory a notification is as good as none. */
WRAPPED(PGnotify *, PQnotifies, PGconn *conn)
{
    PGnotify *note = real_PQnotifies(conn);
    if (note && FAILS(PQnotifies)) {
        PQfreemem(note);
        return NULL;
    }
    return fp_keep(note, CALLER);
}

WRAPPED(void, PQfreemem, void *what)
{
    fp_drop(what);
    real_PQfreemem(what);
}

WRAPPED(PQconninfoOption *, PQconninfoParse, const char *dsn, char **why)
{
    if (FAILS(PQconninfoParse)) {
        if (why)
            *why = NULL;
        return NULL;
    }
    return fp_keep(real_PQconninfoParse(dsn, why), CALLER);
}

WRAPPED(void, PQconninfoFree, PQconninfoOption *options)
{
    fp_drop(options);
    real_PQconninfoFree(options);
}
