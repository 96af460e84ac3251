/*
 * pq.h - the part of libpq that the store's connections use, as a port: a test stands in front of it and makes the n-th
 * call fail. The functions mean what libpq's of the same name mean (https://www.postgresql.org/docs/15/libpq.html).
 */
#ifndef HOLDFAST_STORE_PQ_H
#define HOLDFAST_STORE_PQ_H

#include <libpq-fe.h>

struct st_pq {
    PGconn *(*connectStartParams)(const char *const *keywords, const char *const *values, int expand_dbname);
    PostgresPollingStatusType (*connectPoll)(PGconn *conn);
    int (*setnonblocking)(PGconn *conn, int on);
    int (*enterPipelineMode)(PGconn *conn);
    int (*sendQueryParams)(PGconn *conn, const char *sql, int n, const Oid *types, const char *const *values, const int *lengths,
                           const int *formats, int result_format);
    int (*sendPrepare)(PGconn *conn, const char *name, const char *sql, int n, const Oid *types);
    int (*sendQueryPrepared)(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths,
                             const int *formats, int result_format);
    int (*pipelineSync)(PGconn *conn);
    int (*flush)(PGconn *conn);
    int (*consumeInput)(PGconn *conn);
    int (*isBusy)(PGconn *conn);
    PGresult *(*getResult)(PGconn *conn);
    PGnotify *(*notifies)(PGconn *conn);
};

/* libpq itself. */
extern const struct st_pq st_libpq;

#endif
