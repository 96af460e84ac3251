/*
 * calls.h - the batch functions for one item, as tests of interleavings want them. All in namespace `default`; each returns the
 * outcome (enum st_outcome), or minus the SQLSTATE read as a number in base 36 (see ts_state) when SQL fails.
 */
#ifndef HOLDFAST_TESTS_STORE_CALLS_H
#define HOLDFAST_TESTS_STORE_CALLS_H

#include "store/sql.h"

int64_t ts_acquire(PGconn *conn, const char *resource, int64_t ttl_ms, const char *request_id);
/* Overtaken by the clock, on a busy machine, it is tried again in the careful form: as servers do. */
int64_t ts_renew(PGconn *conn, const char *resource, int64_t token, int64_t ttl_ms, bool careful);
int64_t ts_release(PGconn *conn, const char *resource, int64_t token);
int64_t ts_write(PGconn *conn, const char *resource, int64_t token, const char *value);
int64_t ts_check(PGconn *conn, const char *resource, int64_t token);
int64_t ts_break(PGconn *conn, const char *resource, int64_t token);

/* What such a call returns when it fails with this SQLSTATE. */
int64_t ts_state(const char *sqlstate);

/* Sends the query and returns when its backend waits for a lock; `asker` looks. Then ts_finish reads its outcome (column
 * `column` of the first row), or its SQLSTATE as above. */
void ts_send_and_block(PGconn *conn, PGconn *asker, const char *sql);
int64_t ts_finish(PGconn *conn, int column);

#endif
