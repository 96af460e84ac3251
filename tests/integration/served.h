/*
 * served.h - harness/served.h with a raw client of the server beside it. Each program includes it once.
 */
#ifndef HOLDFAST_TESTS_INTEGRATION_SERVED_H
#define HOLDFAST_TESTS_INTEGRATION_SERVED_H

#include "harness/rpc.h"
#include "harness/served.h"

static struct t_rpc *rpc;

static inline int serve_rpc(void **state)
{
    serve(state);
    rpc = t_rpc_open(server->url);
    return 0;
}

static inline int end_serving_rpc(void **state)
{
    t_rpc_close(rpc);
    return end_serving(state);
}

#endif
