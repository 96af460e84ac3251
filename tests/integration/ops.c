/*
 * ops.c - see ops.h.
 */
#include "integration/ops.h"

#include <string.h>

#include "harness/harness.h"

ProtobufCBinaryData o_bytes(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)C_STR(text)};
}

Holdfast__V1__BeginRequest o_begin_request(const char *key, const char *type, int64_t ttl_ms)
{
    Holdfast__V1__BeginRequest request = HOLDFAST__V1__BEGIN_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.type = C_STR(type);
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = o_bytes(O_PRINT);
    request.holder = C_STR("h");
    request.ttl_ms = ttl_ms;
    return request;
}

Holdfast__V1__RecordRequest o_record_request(const char *key, const char *type, const char *result)
{
    Holdfast__V1__RecordRequest request = HOLDFAST__V1__RECORD_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.type = C_STR(type);
    request.parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = o_bytes(O_PRINT);
    request.result = o_bytes(result);
    return request;
}

Holdfast__V1__ExecuteRequest o_execute_request(const char *key, const char *type, const char *action, const char *args)
{
    Holdfast__V1__ExecuteRequest request = HOLDFAST__V1__EXECUTE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.type = C_STR(type);
    request.parameters_case = HOLDFAST__V1__EXECUTE_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = o_bytes(O_PRINT);
    request.action = C_STR(action);
    request.args = C_STR(args);
    request.holder = C_STR("h");
    return request;
}

Holdfast__V1__CompleteRequest o_complete_request(const char *key, int64_t token, const char *result)
{
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.token = token;
    request.result = o_bytes(result);
    return request;
}

Holdfast__V1__BeginResponse *o_begin_with(struct t_rpc *rpc, const Holdfast__V1__BeginRequest *request, c_status *status)
{
    return c_call(rpc, C_OPERATION "Begin", request, status);
}

Holdfast__V1__BeginResponse *o_begin(struct t_rpc *rpc, const char *key, const char *type, int64_t ttl_ms)
{
    Holdfast__V1__BeginRequest request = o_begin_request(key, type, ttl_ms);
    return o_begin_with(rpc, &request, NULL);
}

int64_t o_start(struct t_rpc *rpc, const char *key, const char *type, int64_t ttl_ms)
{
    Holdfast__V1__BeginResponse *response = o_begin(rpc, key, type, ttl_ms);
    if (response->outcome_case != HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED)
        fail_msg("%s was not started: outcome %d", key, response->outcome_case);
    return response->started->token;
}

Holdfast__V1__FinishResponse *o_complete(struct t_rpc *rpc, const char *key, int64_t token, const char *result, c_status *status)
{
    Holdfast__V1__CompleteRequest request = o_complete_request(key, token, result);
    return c_call(rpc, C_OPERATION "Complete", &request, status);
}

Holdfast__V1__FinishResponse *o_fail(struct t_rpc *rpc, const char *key, int64_t token, Holdfast__V1__ErrorClass__Kind error_class,
                                     const char *message, c_status *status)
{
    Holdfast__V1__FailRequest request = HOLDFAST__V1__FAIL_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.token = token;
    request.error_class = error_class;
    request.message = C_STR(message);
    return c_call(rpc, C_OPERATION "Fail", &request, status);
}

Holdfast__V1__FinishResponse *o_unknown(struct t_rpc *rpc, const char *key, int64_t token, const char *note, c_status *status)
{
    Holdfast__V1__MarkUnknownRequest request = HOLDFAST__V1__MARK_UNKNOWN_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.token = token;
    request.note = C_STR(note);
    return c_call(rpc, C_OPERATION "MarkUnknown", &request, status);
}

Holdfast__V1__MarkSendingResponse *o_sending(struct t_rpc *rpc, const char *key, int64_t token, c_status *status)
{
    Holdfast__V1__MarkSendingRequest request = HOLDFAST__V1__MARK_SENDING_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.token = token;
    return c_call(rpc, C_OPERATION "MarkSending", &request, status);
}

Holdfast__V1__RecordResponse *o_record(struct t_rpc *rpc, const char *key, const char *result, c_status *status)
{
    Holdfast__V1__RecordRequest request = o_record_request(key, "t", result);
    return c_call(rpc, C_OPERATION "Record", &request, status);
}

Holdfast__V1__DecideResponse *o_retry(struct t_rpc *rpc, const char *key, int64_t revision, c_status *status)
{
    Holdfast__V1__RetryRequest request = HOLDFAST__V1__RETRY_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.revision = revision;
    request.actor = C_STR("operator");
    request.reason = C_STR("mended");
    return c_call(rpc, C_OPERATION "Retry", &request, status);
}

Holdfast__V1__DecideResponse *o_cancel(struct t_rpc *rpc, const char *key, int64_t revision, c_status *status)
{
    Holdfast__V1__CancelRequest request = HOLDFAST__V1__CANCEL_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.revision = revision;
    request.actor = C_STR("operator");
    request.reason = C_STR("not wanted");
    return c_call(rpc, C_OPERATION "Cancel", &request, status);
}

Holdfast__V1__DecideResponse *o_reconcile(struct t_rpc *rpc, const char *key, int64_t revision,
                                          Holdfast__V1__ReconcileRequest__Outcome outcome, const char *result, c_status *status)
{
    Holdfast__V1__ReconcileRequest request = HOLDFAST__V1__RECONCILE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.revision = revision;
    request.outcome = outcome;
    request.result = o_bytes(result);
    request.actor = C_STR("operator");
    request.reason = C_STR("asked the bank");
    return c_call(rpc, C_OPERATION "Reconcile", &request, status);
}

Holdfast__V1__Operation *o_get(struct t_rpc *rpc, const char *key, c_status *status)
{
    Holdfast__V1__GetOperationRequest request = HOLDFAST__V1__GET_OPERATION_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    Holdfast__V1__GetOperationResponse *response = c_call(rpc, C_OPERATION "Get", &request, status);
    return response ? response->operation : NULL;
}

Holdfast__V1__ListAttemptsResponse *o_attempts(struct t_rpc *rpc, const char *key)
{
    Holdfast__V1__ListAttemptsRequest request = HOLDFAST__V1__LIST_ATTEMPTS_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    return c_call(rpc, C_OPERATION "ListAttempts", &request, NULL);
}

Holdfast__V1__Operation__State o_state(struct t_rpc *rpc, const char *key)
{
    return o_get(rpc, key, NULL)->state;
}

struct awaited {
    struct t_rpc *rpc;
    const char *key;
    Holdfast__V1__Operation__State state;
};

static bool is_in_state(void *arg)
{
    struct awaited *awaited = arg;
    return o_state(awaited->rpc, awaited->key) == awaited->state;
}

void o_await(struct t_rpc *rpc, const char *key, Holdfast__V1__Operation__State state)
{
    struct awaited awaited = {rpc, key, state};
    if (!t_wait_for(is_in_state, &awaited, T_PATIENCE_MS))
        fail_msg("%s is in state %d, wanted %d", key, o_state(rpc, key), state);
}

Holdfast__V1__SetOperationPolicyResponse *o_policy(struct t_rpc *rpc, const char *type, int64_t max_attempts, int64_t base_ms,
                                                   Holdfast__V1__OperationPolicy__OnLost on_lost, int64_t retention_ms,
                                                   c_status *status)
{
    Holdfast__V1__SetOperationPolicyRequest request = HOLDFAST__V1__SET_OPERATION_POLICY_REQUEST__INIT;
    Holdfast__V1__OperationPolicy policy = HOLDFAST__V1__OPERATION_POLICY__INIT;
    request.namespace_ = C_STR("default");
    request.type = C_STR(type);
    request.policy = &policy;
    request.actor = C_STR("operator");
    if (max_attempts >= 0) {
        policy.attempts_case = HOLDFAST__V1__OPERATION_POLICY__ATTEMPTS_MAX_ATTEMPTS;
        policy.max_attempts = max_attempts;
    }
    if (base_ms >= 0) {
        policy.base_case = HOLDFAST__V1__OPERATION_POLICY__BASE_BASE_MS;
        policy.base_ms = base_ms;
        policy.cap_case = HOLDFAST__V1__OPERATION_POLICY__CAP_CAP_MS;
        policy.cap_ms = base_ms;
    }
    policy.on_lost = on_lost;
    if (retention_ms >= 0) {
        policy.retention_case = HOLDFAST__V1__OPERATION_POLICY__RETENTION_RETENTION_MS;
        policy.retention_ms = retention_ms;
    }
    return c_call(rpc, C_ADMIN "SetOperationPolicy", &request, status);
}
