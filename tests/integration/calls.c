/*
 * calls.c - see calls.h.
 */
#include "integration/calls.h"

#include <string.h>

#include "harness/harness.h"

static const struct {
    const char *method;
    const ProtobufCMessageDescriptor *response;
} responses[] = {
    {C_LEASE "Acquire", &holdfast__v1__acquire_response__descriptor},
    {C_LEASE "CancelWait", &holdfast__v1__cancel_wait_response__descriptor},
    {C_LEASE "Renew", &holdfast__v1__renew_response__descriptor},
    {C_LEASE "Release", &holdfast__v1__release_response__descriptor},
    {C_LEASE "Get", &holdfast__v1__get_lease_response__descriptor},
    {C_LEASE "List", &holdfast__v1__list_leases_response__descriptor},
    {C_LEASE "Break", &holdfast__v1__break_response__descriptor},
    {C_LEASE "Watch", &holdfast__v1__watch_leases_response__descriptor},
    {C_RESOURCE "Check", &holdfast__v1__check_response__descriptor},
    {C_RESOURCE "Write", &holdfast__v1__write_response__descriptor},
    {C_RESOURCE "Read", &holdfast__v1__read_response__descriptor},
    {C_RESOURCE "List", &holdfast__v1__list_resources_response__descriptor},
    {C_RESOURCE "Delete", &holdfast__v1__delete_response__descriptor},
    {C_OPERATION "Begin", &holdfast__v1__begin_response__descriptor},
    {C_OPERATION "Renew", &holdfast__v1__renew_operations_response__descriptor},
    {C_OPERATION "Record", &holdfast__v1__record_response__descriptor},
    {C_OPERATION "MarkSending", &holdfast__v1__mark_sending_response__descriptor},
    {C_OPERATION "Complete", &holdfast__v1__finish_response__descriptor},
    {C_OPERATION "Fail", &holdfast__v1__finish_response__descriptor},
    {C_OPERATION "MarkUnknown", &holdfast__v1__finish_response__descriptor},
    {C_OPERATION "Execute", &holdfast__v1__execute_response__descriptor},
    {C_OPERATION "Submit", &holdfast__v1__submit_response__descriptor},
    {C_OPERATION "Claim", &holdfast__v1__claim_response__descriptor},
    {C_OPERATION "Retry", &holdfast__v1__decide_response__descriptor},
    {C_OPERATION "Cancel", &holdfast__v1__decide_response__descriptor},
    {C_OPERATION "Reconcile", &holdfast__v1__decide_response__descriptor},
    {C_OPERATION "Compensate", &holdfast__v1__compensate_response__descriptor},
    {C_OPERATION "Get", &holdfast__v1__get_operation_response__descriptor},
    {C_OPERATION "Wait", &holdfast__v1__wait_operation_response__descriptor},
    {C_OPERATION "List", &holdfast__v1__list_operations_response__descriptor},
    {C_OPERATION "ListAttempts", &holdfast__v1__list_attempts_response__descriptor},
    {C_ADMIN "SetOperationPolicy", &holdfast__v1__set_operation_policy_response__descriptor},
    {C_ADMIN "ListOperationPolicies", &holdfast__v1__list_operation_policies_response__descriptor},
    {C_ADMIN "RegisterAction", &holdfast__v1__register_action_response__descriptor},
    {C_ADMIN "RemoveAction", &holdfast__v1__remove_action_response__descriptor},
    {C_ADMIN "ListActions", &holdfast__v1__list_actions_response__descriptor},
    {C_ADMIN "Stats", &holdfast__v1__stats_response__descriptor},
    {C_ADMIN "AdvanceFences", &holdfast__v1__advance_fences_response__descriptor},
    {C_ADMIN "CreateNamespace", &holdfast__v1__create_namespace_response__descriptor},
    {C_ADMIN "SetNamespace", &holdfast__v1__set_namespace_response__descriptor},
    {C_ADMIN "ListNamespaces", &holdfast__v1__list_namespaces_response__descriptor},
    {C_ADMIN "Audit", &holdfast__v1__audit_response__descriptor},
};

void *c_call(struct t_rpc *rpc, const char *method, const void *request, c_status *status)
{
    for (size_t i = 0; i < sizeof(responses) / sizeof(responses[0]); i++)
        if (!strcmp(responses[i].method, method))
            return t_rpc_call(rpc, method, request, responses[i].response, status);
    return t_rpc_call(rpc, method, request, &holdfast__v1__stats_response__descriptor, status);
}

Holdfast__V1__AcquireResponse *c_acquire_with(struct t_rpc *rpc, const Holdfast__V1__AcquireRequest *request, c_status *status)
{
    return c_call(rpc, C_LEASE "Acquire", request, status);
}

Holdfast__V1__AcquireResponse *c_acquire(struct t_rpc *rpc, const char *resource, int64_t ttl_ms, const char *request_id)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *resources[] = {C_STR(resource)};
    request.namespace_ = C_STR("default");
    request.holder = C_STR("h");
    request.n_resources = 1;
    request.resources = resources;
    request.ttl_ms = ttl_ms ? ttl_ms : 60000;
    if (request_id)
        request.request_id = C_STR(request_id);
    return c_acquire_with(rpc, &request, NULL);
}

int64_t c_grant(struct t_rpc *rpc, const char *resource, int64_t ttl_ms)
{
    Holdfast__V1__AcquireResponse *response = c_acquire(rpc, resource, ttl_ms, NULL);
    if (response->outcome_case != HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED)
        fail_msg("%s was not granted: outcome %d", resource, response->outcome_case);
    assert_int_equal(response->granted->n_grants, 1);
    assert_string_equal(response->granted->grants[0]->resource, resource);
    return response->granted->grants[0]->token;
}

enum { MAX_ITEMS = 1100 };

/* Items of the message that is made next; one thread. */
static Holdfast__V1__LeaseItem **make_items(const char *const *resources, const int64_t *tokens, size_t n)
{
    static Holdfast__V1__LeaseItem items[MAX_ITEMS], *pointers[MAX_ITEMS];
    assert_true(n <= MAX_ITEMS);
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__lease_item__init(&items[i]);
        items[i].resource = C_STR(resources[i]);
        items[i].token = tokens[i];
        pointers[i] = &items[i];
    }
    return pointers;
}

Holdfast__V1__RenewResponse *c_renew(struct t_rpc *rpc, const char *const *resources, const int64_t *tokens, size_t n,
                                     int64_t ttl_ms, c_status *status)
{
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.n_items = n;
    request.items = make_items(resources, tokens, n);
    request.ttl_ms = ttl_ms;
    return c_call(rpc, C_LEASE "Renew", &request, status);
}

Holdfast__V1__ReleaseResponse *c_release(struct t_rpc *rpc, const char *const *resources, const int64_t *tokens, size_t n,
                                         c_status *status)
{
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.n_items = n;
    request.items = make_items(resources, tokens, n);
    return c_call(rpc, C_LEASE "Release", &request, status);
}

Holdfast__V1__CheckResponse *c_check(struct t_rpc *rpc, const char *const *resources, const int64_t *tokens, size_t n,
                                     c_status *status)
{
    Holdfast__V1__CheckRequest request = HOLDFAST__V1__CHECK_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.n_items = n;
    request.items = make_items(resources, tokens, n);
    return c_call(rpc, C_RESOURCE "Check", &request, status);
}

Holdfast__V1__RenewResult *c_renew_one(struct t_rpc *rpc, const char *resource, int64_t token, int64_t ttl_ms)
{
    Holdfast__V1__RenewResponse *response = c_renew(rpc, &resource, &token, 1, ttl_ms, NULL);
    assert_int_equal(response->n_items, 1);
    return response->items[0];
}

bool c_release_one(struct t_rpc *rpc, const char *resource, int64_t token)
{
    Holdfast__V1__ReleaseResponse *response = c_release(rpc, &resource, &token, 1, NULL);
    assert_int_equal(response->n_items, 1);
    assert_null(response->items[0]->error);
    return response->items[0]->was_held;
}

Holdfast__V1__CheckResult *c_check_one(struct t_rpc *rpc, const char *resource, int64_t token)
{
    Holdfast__V1__CheckResponse *response = c_check(rpc, &resource, &token, 1, NULL);
    assert_int_equal(response->n_items, 1);
    return response->items[0];
}

int c_lost(struct t_rpc *rpc, const char *resource, int64_t token)
{
    Holdfast__V1__RenewResult *result = c_renew_one(rpc, resource, token, 60000);
    assert_int_not_equal(result->outcome_case, HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR);
    return result->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST ? (int)result->lost->reason : 0;
}

Holdfast__V1__Lease *c_get(struct t_rpc *rpc, const char *resource, c_status *status)
{
    Holdfast__V1__GetLeaseRequest request = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.resource = C_STR(resource);
    Holdfast__V1__GetLeaseResponse *response = c_call(rpc, C_LEASE "Get", &request, status);
    return response ? response->lease : NULL;
}

Holdfast__V1__BreakResponse *c_break(struct t_rpc *rpc, const char *resource, int64_t token, c_status *status)
{
    Holdfast__V1__BreakRequest request = HOLDFAST__V1__BREAK_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.resource = C_STR(resource);
    request.token_seen = token;
    request.actor = C_STR("operator");
    request.reason = C_STR("it hangs");
    return c_call(rpc, C_LEASE "Break", &request, status);
}

Holdfast__V1__WriteResponse *c_write(struct t_rpc *rpc, const char *resource, int64_t token, int64_t seq, const char *value,
                                     int64_t expected, c_status *status)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.resource = C_STR(resource);
    request.token = token;
    request.write_seq = seq;
    request.value.data = (uint8_t *)C_STR(value);
    request.value.len = strlen(value);
    if (expected >= 0) {
        request.expected_case = HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = expected;
    }
    return c_call(rpc, C_RESOURCE "Write", &request, status);
}

Holdfast__V1__DeleteResponse *c_delete(struct t_rpc *rpc, const char *resource, int64_t token, int64_t seq, int64_t expected,
                                       c_status *status)
{
    Holdfast__V1__DeleteRequest request = HOLDFAST__V1__DELETE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.resource = C_STR(resource);
    request.token = token;
    request.write_seq = seq;
    if (expected >= 0) {
        request.expected_case = HOLDFAST__V1__DELETE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = expected;
    }
    return c_call(rpc, C_RESOURCE "Delete", &request, status);
}

Holdfast__V1__ReadResponse *c_read(struct t_rpc *rpc, const char *resource, c_status *status)
{
    Holdfast__V1__ReadRequest request = HOLDFAST__V1__READ_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.resource = C_STR(resource);
    return c_call(rpc, C_RESOURCE "Read", &request, status);
}

const char *c_value(struct t_rpc *rpc, const char *resource)
{
    Holdfast__V1__ReadResponse *response = c_read(rpc, resource, NULL);
    return response->exists ? t_printf("%.*s", (int)response->value.len, (const char *)response->value.data) : "(none)";
}

Holdfast__V1__StatsResponse *c_stats(struct t_rpc *rpc)
{
    Holdfast__V1__StatsRequest request = HOLDFAST__V1__STATS_REQUEST__INIT;
    return c_call(rpc, C_ADMIN "Stats", &request, NULL);
}

void c_assert_status(const c_status *status, enum hp_code code, enum hp_reason reason, const char *what)
{
    if (status->code != code || status->reason != reason)
        fail_msg("%s: %s/%s (%s), wanted %s/%s", what, hp_code_name(status->code), hp_reason_name(status->reason), status->message,
                 hp_code_name(code), hp_reason_name(reason));
}
