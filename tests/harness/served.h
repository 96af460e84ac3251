/*
 * served.h - for programs whose tests share one server: the server, its database, and a session there. Each program includes it
 * once.
 */
#ifndef HOLDFAST_TESTS_SERVED_H
#define HOLDFAST_TESTS_SERVED_H

#include "harness/harness.h"

static struct t_server *server;
static PGconn *conn;

/* cmocka's group setup, or the beginning of one: what else is made for all tests is to be kept by t_keep(). */
static inline int serve(void **state)
{
    (void)state;
    server = t_server_start("--dsn", t_database(), NULL);
    conn = t_connect(server->dsn);
    t_keep();
    return 0;
}

/* The group teardown, or the end of one: the server must end well. */
static inline int end_serving(void **state)
{
    PQfinish(conn);
    assert_int_equal(t_server_stop(server), 0);
    return t_teardown(state);
}

#endif
