/*
 * sessions.h - for tests of interleavings: two sessions as the server has them, and one that looks on, on a fresh database. Each
 * program includes it once.
 */
#ifndef HOLDFAST_TESTS_STORE_SESSIONS_H
#define HOLDFAST_TESTS_STORE_SESSIONS_H

#include "store/calls.h"

#define T0 INT64_C(1700000000000)

static struct {
    char *dsn;
    PGconn *a, *b, *asker;
} db;

/* From own_clock on: what both sessions take for now. */
static inline void set_clock(int64_t ms)
{
    ts_set_clock(db.a, ms);
    ts_set_clock(db.b, ms);
}

/* cmocka's setup and teardown of a test; own_clock: the clock stands at T0. */
static inline int fresh(void **state)
{
    (void)state;
    db.dsn = ts_schema();
    db.a = ts_session(db.dsn);
    db.b = ts_session(db.dsn);
    db.asker = t_connect(db.dsn);
    return 0;
}

static inline int own_clock(void **state)
{
    fresh(state);
    ts_replace_clock(db.a);
    set_clock(T0);
    return 0;
}

static inline int closed(void **state)
{
    PQfinish(db.a);
    PQfinish(db.b);
    PQfinish(db.asker);
    return t_teardown(state);
}

#endif
