/*
 * sync.h - blocking connections to PostgreSQL, for start-up, migrations and tests; never used on the loop.
 *
 * Whatever it does is bounded in time: connecting by a timeout, statements by a deadline.
 */
#ifndef HOLDFAST_STORE_SYNC_H
#define HOLDFAST_STORE_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "store/problem.h"

/* Monotonic milliseconds. */
int64_t st_sync_now(void);

/* `dsn` can be read by libpq. False: `problem` says why. */
bool st_sync_dsn_valid(const char *dsn, struct st_problem *problem) __attribute__((warn_unused_result));

/* `out` names host, port, database and user of `dsn`, and not its password: "host=db1 port=5432 dbname=holdfast". */
void st_sync_describe(const char *dsn, char *out, size_t size);

/* A connection, to be ended with PQfinish; notices are dropped. NULL: `problem` names the database and says why. Blocks for
 * timeout_ms at most, spread over the hosts of the DSN but at least 2 s for each (libpq's least); resolving a name takes what
 * the resolver takes. A connect_timeout in the DSN rules if it is shorter. */
PGconn *st_sync_connect(const char *dsn, int timeout_ms, struct st_problem *problem) __attribute__((warn_unused_result));

/* The last result of `sql`, to be ended with PQclear; `params` may be NULL if n_params is 0, and then several statements are
 * allowed. NULL: the statement failed or `deadline_ms` passed; `problem` says why and the connection is only good for
 * PQfinish in the latter case. */
PGresult *st_sync_query(PGconn *conn, int64_t deadline_ms, struct st_problem *problem, const char *sql, int n_params,
                        const char *const *params) __attribute__((warn_unused_result));

/* The same without parameters and without a result. */
bool st_sync_do(PGconn *conn, int64_t deadline_ms, struct st_problem *problem, const char *sql) __attribute__((warn_unused_result));

#endif
