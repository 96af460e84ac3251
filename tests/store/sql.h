/*
 * sql.h - what the tests of the SQL functions share: a database with the schema, sessions set up as the server's, a clock that
 * the test sets, and arrays as text.
 */
#ifndef HOLDFAST_TESTS_STORE_SQL_H
#define HOLDFAST_TESTS_STORE_SQL_H

#include "harness/harness.h"

/* The DSN of a fresh database with all migrations and functions. */
char *ts_schema(void);
/* The empty database behind `dsn` has them. */
void ts_schema_into(const char *dsn);

/* A session with the settings that the server gives its own (facts of the functions: schema/functions/00_common.sql). */
PGconn *ts_session(const char *dsn);

/* From now on holdfast.clock() is what each session says by ts_set_clock: milliseconds since 1970. */
void ts_replace_clock(PGconn *conn);
void ts_set_clock(PGconn *conn, int64_t ms);

/* A growing text, for SQL. Zeroed = empty. */
struct ts_text {
    char *text;
    size_t len, cap;
};
void ts_put(struct ts_text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "'{…}'" is built by put_open, any number of elements, put_close. A NULL string is SQL's NULL. */
void ts_array_open(struct ts_text *to);
void ts_array_string(struct ts_text *to, const char *element);
void ts_array_int(struct ts_text *to, int64_t element);
void ts_array_close(struct ts_text *to, const char *type);
void ts_literal(struct ts_text *to, const char *string);
void ts_clear(struct ts_text *to);

/* The rows of a query; the test fails on an error. Free with PQclear. */
PGresult *ts_query(PGconn *conn, const char *sql);
int64_t ts_int(const PGresult *result, int row, int column);

/* True once the session's backend waits for a lock. For t_wait_for: arg is a struct ts_waiting. */
struct ts_waiting {
    PGconn *other; /* asks */
    int pid;       /* about this backend */
};
bool ts_waits(void *arg);

#endif
