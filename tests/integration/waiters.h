/*
 * waiters.h - many calls in flight on one connection, below nng (harness/rpc.h): for callers that wait.
 *
 * Replies come in any order; each is kept until it is asked for. What is handed out stays until w_close.
 */
#ifndef HOLDFAST_TESTS_WAITERS_H
#define HOLDFAST_TESTS_WAITERS_H

#include "integration/calls.h"

struct w_conn;

struct w_conn *w_open(const char *url);
/* The connection is closed, whatever is in flight. */
void w_close(struct w_conn *conn);

/* A call is on its way; its number. timeout_ms 0 = 30 s. */
uint32_t w_send(struct w_conn *conn, const char *method, const void *request, int64_t timeout_ms);
/* An Acquire of `resource` in `default` that waits. request_id NULL: the server makes one. ttl_ms 0 = 60 s. Timeout: wait + 10 s.
 */
uint32_t w_acquire(struct w_conn *conn, const char *resource, const char *request_id, int64_t wait_ms, int64_t ttl_ms);

/* The call was answered. Takes in what has come. */
bool w_answered(struct w_conn *conn, uint32_t call);
/* The next call that is answered within `ms` and wasn't told here before; 0 = none. */
uint32_t w_next(struct w_conn *conn, int ms);
/* The call's response, of this type, as w_response. */
void *w_message(struct w_conn *conn, uint32_t call, const ProtobufCMessageDescriptor *type, int ms, c_status *status);
/* The Acquire's response; the test fails if there is none within `ms`, or if it is an error and `status` is NULL. NULL: an error.
 */
Holdfast__V1__AcquireResponse *w_response(struct w_conn *conn, uint32_t call, int ms, c_status *status);
/* The token of the grant that it must have got. */
int64_t w_granted(struct w_conn *conn, uint32_t call, int ms);
/* The `held` that it must have got. */
Holdfast__V1__Held *w_held(struct w_conn *conn, uint32_t call, int ms);
/* CancelWait, by another connection: was_waiting. */
bool w_cancel(struct t_rpc *rpc, const char *request_id);

/* How many wait for the resource on that server, by a `held` of one who tries once; -1 if that was granted (then it is freed). */
int64_t w_count(struct t_rpc *rpc, const char *resource);
/* So many wait for it, within `ms`, or the test fails. */
void w_wait_count(struct t_rpc *rpc, const char *resource, int64_t n, int ms);
/* What Stats counts of batches of this kind: statements sent. */
int64_t w_batches(const Holdfast__V1__StatsResponse *stats, const char *kind);

#endif
