/*
 * ops.h - OperationService as functions, for tests that talk to a server by rpc.h. Namespace `default`, holder `h`, type `t`, and
 * the fingerprint that `O_PRINT` is, unless said otherwise. See calls.h for `status`.
 */
#ifndef HOLDFAST_TESTS_OPS_H
#define HOLDFAST_TESTS_OPS_H

#include "integration/calls.h"

#define O_PRINT "0123456789abcdef0123456789abcdef" /* 32 bytes */

/* Requests with all that is needed, to be changed. */
Holdfast__V1__BeginRequest o_begin_request(const char *key, const char *type, int64_t ttl_ms);
Holdfast__V1__RecordRequest o_record_request(const char *key, const char *type, const char *result);
Holdfast__V1__ExecuteRequest o_execute_request(const char *key, const char *type, const char *action, const char *args);
Holdfast__V1__CompleteRequest o_complete_request(const char *key, int64_t token, const char *result);
ProtobufCBinaryData o_bytes(const char *text);

Holdfast__V1__BeginResponse *o_begin_with(struct t_rpc *rpc, const Holdfast__V1__BeginRequest *request, c_status *status);
Holdfast__V1__BeginResponse *o_begin(struct t_rpc *rpc, const char *key, const char *type, int64_t ttl_ms);
/* The attempt that it must have started; its token. */
int64_t o_start(struct t_rpc *rpc, const char *key, const char *type, int64_t ttl_ms);
Holdfast__V1__FinishResponse *o_complete(struct t_rpc *rpc, const char *key, int64_t token, const char *result, c_status *status);
Holdfast__V1__FinishResponse *o_fail(struct t_rpc *rpc, const char *key, int64_t token, Holdfast__V1__ErrorClass__Kind error_class,
                                     const char *message, c_status *status);
Holdfast__V1__FinishResponse *o_unknown(struct t_rpc *rpc, const char *key, int64_t token, const char *note, c_status *status);
Holdfast__V1__MarkSendingResponse *o_sending(struct t_rpc *rpc, const char *key, int64_t token, c_status *status);
Holdfast__V1__RecordResponse *o_record(struct t_rpc *rpc, const char *key, const char *result, c_status *status);

Holdfast__V1__DecideResponse *o_retry(struct t_rpc *rpc, const char *key, int64_t revision, c_status *status);
Holdfast__V1__DecideResponse *o_cancel(struct t_rpc *rpc, const char *key, int64_t revision, c_status *status);
Holdfast__V1__DecideResponse *o_reconcile(struct t_rpc *rpc, const char *key, int64_t revision,
                                          Holdfast__V1__ReconcileRequest__Outcome outcome, const char *result, c_status *status);

Holdfast__V1__Operation *o_get(struct t_rpc *rpc, const char *key, c_status *status);
Holdfast__V1__ListAttemptsResponse *o_attempts(struct t_rpc *rpc, const char *key);
/* The state that it is in. */
Holdfast__V1__Operation__State o_state(struct t_rpc *rpc, const char *key);
/* It comes into this state, within patience. */
void o_await(struct t_rpc *rpc, const char *key, Holdfast__V1__Operation__State state);

/* The policy of a type. on_lost UNSPECIFIED, the others < 0 = not given. */
Holdfast__V1__SetOperationPolicyResponse *o_policy(struct t_rpc *rpc, const char *type, int64_t max_attempts, int64_t base_ms,
                                                   Holdfast__V1__OperationPolicy__OnLost on_lost, int64_t retention_ms,
                                                   c_status *status);

#endif
