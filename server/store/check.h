/*
 * check.h - whether a PostgreSQL can keep Holdfast's promises (design P1..P6), asked before anything is done with it.
 *
 * Blocks, for about 10 s at most; changes nothing in the database.
 */
#ifndef HOLDFAST_STORE_CHECK_H
#define HOLDFAST_STORE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "store/problem.h"

enum { ST_MIN_PG = 140000, ST_FINDINGS = 16 };

struct st_finding {
    bool refuses;           /* the server must not run on this; otherwise a warning */
    struct st_problem what; /* what is wrong, the value, and which promise it breaks */
};

struct st_findings {
    size_t n;
    struct st_finding list[ST_FINDINGS];
};

enum st_check_status {
    ST_CHECK_OK,         /* there may be warnings */
    ST_CHECK_REFUSED,    /* at least one finding refuses; the first such is also in `problem` */
    ST_CHECK_BAD_DSN,    /* libpq cannot read it */
    ST_CHECK_UNREACHABLE /* no connection, or no answer in time */
};

/*
 * `findings` lists all that is wrong with the database behind `dsn`, for a server that wants `connections` connections.
 * Looked at: version (14 or later), that several hosts are one database, standby and read-only, encoding (UTF8), what the role may
 * do, isolation level, fsync, full_page_writes, synchronous_commit, room for connections, and whether a pooler stands in between
 * that gives each transaction another backend (sessions' settings, locks and pids then mean nothing).
 */
enum st_check_status st_check(const char *dsn, int connections, struct st_findings *findings, struct st_problem *problem)
    __attribute__((warn_unused_result));

#endif
