/*
 * connect.h - errors as the Connect protocol has them (https://connectrpc.com/docs/protocol#error-end-stream).
 */
#ifndef HOLDFAST_NET_CONNECT_H
#define HOLDFAST_NET_CONNECT_H

#include "proto/c/buf.h"
#include "proto/c/err.h"

/* "not_found"; gRPC's CANCELLED is "canceled". */
const char *net_connect_code(enum hp_code code);
int net_connect_http_status(enum hp_code code);
/* Appends {"code":…,"message":…,"details":[{"type":…,"value":…,"debug":…}]}. */
void net_connect_error(struct hp_buf *out, const struct hp_status *status);

#endif
