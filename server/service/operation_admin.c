/*
 * operation_admin.c - AdminService: SetOperationPolicy, ListOperationPolicies, RegisterAction, RemoveAction, ListActions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "proto/c/wire.h"
#include "service/check.h"
#include "service/operation.h"

enum { TRIES_MAX = 1000, DELAY_MAX_MS = 86400000, TIMEOUT_MAX_MS = 30000, TIMEOUT_MS = 5000 };
#define ELAPSED_MAX_MS   INT64_C(31536000000)
#define RETENTION_MAX_MS INT64_C(315360000000)

/* ---- policies ---- */

#define POLICY(member) HOLDFAST__V1__OPERATION_POLICY__##member

static void read_policy(const Holdfast__V1__OperationPolicy *from, struct st_op_policy *out)
{
    *out = (struct st_op_policy){ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, 0};
    if (!from)
        return;
    if (from->attempts_case == POLICY(ATTEMPTS_MAX_ATTEMPTS))
        out->max_attempts = from->max_attempts;
    if (from->elapsed_case == POLICY(ELAPSED_MAX_ELAPSED_MS))
        out->max_elapsed_ms = from->max_elapsed_ms;
    if (from->base_case == POLICY(BASE_BASE_MS))
        out->base_ms = from->base_ms;
    if (from->cap_case == POLICY(CAP_CAP_MS))
        out->cap_ms = from->cap_ms;
    if (from->retention_case == POLICY(RETENTION_RETENTION_MS))
        out->retention_ms = from->retention_ms;
    out->on_lost = (int)from->on_lost;
}

static void write_policy(const struct st_op_policy *from, Holdfast__V1__OperationPolicy *out)
{
    holdfast__v1__operation_policy__init(out);
    out->attempts_case = POLICY(ATTEMPTS_MAX_ATTEMPTS);
    out->max_attempts = from->max_attempts;
    out->elapsed_case = POLICY(ELAPSED_MAX_ELAPSED_MS);
    out->max_elapsed_ms = from->max_elapsed_ms;
    out->base_case = POLICY(BASE_BASE_MS);
    out->base_ms = from->base_ms;
    out->cap_case = POLICY(CAP_CAP_MS);
    out->cap_ms = from->cap_ms;
    out->on_lost = (Holdfast__V1__OperationPolicy__OnLost)from->on_lost;
    out->retention_case = POLICY(RETENTION_RETENTION_MS);
    out->retention_ms = from->retention_ms;
}

/* A bound that isn't given is always within its limits. */
static bool check_bound(const char *field, bool given, int64_t value, int64_t max, struct hp_status *status)
{
    return !given || svc_check_range(field, value, 1, max, status);
}

static void contradiction(int64_t base_ms, int64_t cap_ms, struct hp_status *status)
{
    char value[24], limit[80];
    int n = snprintf(value, sizeof(value), "%" PRId64, base_ms);
    snprintf(limit, sizeof(limit), "at most policy.cap_ms, %" PRId64, cap_ms);
    hp_status_bad_field(status, HP_R_MALFORMED, "policy.base_ms", value, (size_t)n, limit);
}

static bool check_policy(const Holdfast__V1__OperationPolicy *policy, struct hp_status *status)
{
    if (!policy)
        return true;
    if (!check_bound("policy.max_attempts", policy->attempts_case, policy->max_attempts, TRIES_MAX, status) ||
        !check_bound("policy.max_elapsed_ms", policy->elapsed_case, policy->max_elapsed_ms, ELAPSED_MAX_MS, status) ||
        !check_bound("policy.base_ms", policy->base_case, policy->base_ms, DELAY_MAX_MS, status) ||
        !check_bound("policy.cap_ms", policy->cap_case, policy->cap_ms, DELAY_MAX_MS, status) ||
        !check_bound("policy.retention_ms", policy->retention_case, policy->retention_ms, RETENTION_MAX_MS, status) ||
        !svc_check_range("policy.on_lost", (int64_t)policy->on_lost, HOLDFAST__V1__OPERATION_POLICY__ON_LOST__UNSPECIFIED,
                         HOLDFAST__V1__OPERATION_POLICY__ON_LOST__RETRY, status))
        return false;
    if (policy->base_case && policy->cap_case && policy->base_ms > policy->cap_ms) {
        contradiction(policy->base_ms, policy->cap_ms, status);
        return false;
    }
    return true;
}

/* Kept for a shorter time than it may be retried: a late repeat would be run again. Both numbers are told. */
static void short_retention(const struct st_op_policies_told *told, struct hp_status *status)
{
    char value[24], limit[96];
    int n = snprintf(value, sizeof(value), "%" PRId64, told->n ? told->rows->policy.retention_ms : 0);
    snprintf(limit, sizeof(limit), "at least %" PRId64 ": the retries, a lease and a margin", told->needed_ms);
    hp_status_bad_field(status, HP_R_LIMIT, "policy.retention_ms", value, (size_t)n, limit);
}

static void finish_set(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    const struct st_op_policies_told *told = &item->out.op_policies;
    Holdfast__V1__SetOperationPolicyResponse response = HOLDFAST__V1__SET_OPERATION_POLICY_RESPONSE__INIT;
    Holdfast__V1__OperationPolicy policy;
    struct hp_status status;
    if (svc_failed(sc))
        return;
    if (item->outcome == ST_FOUND && told->n) {
        write_policy(&told->rows->policy, &policy);
        response.policy = &policy;
        svc_reply(sc, &response.base);
        return;
    }
    if (item->outcome == ST_OP_RETENTION) {
        short_retention(told, &status);
    } else if (item->outcome == ST_CONTRADICTION && told->n) {
        contradiction(told->rows->policy.base_ms, told->rows->policy.cap_ms, &status);
    } else {
        svc_fail_outcome(sc, item);
        return;
    }
    svc_fail(sc, &status);
}

void svc_set_op_policy(struct svc_call *sc)
{
    const Holdfast__V1__SetOperationPolicyRequest *req = sc->request;
    struct hp_status status;
    if (!hp_check_name("namespace", req->namespace_, &status) || !svc_check_optional("type", req->type, &status) ||
        !check_policy(req->policy, &status) || !hp_check_name("actor", req->actor, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_SET_OP_POLICY, req->namespace_);
    if (!item)
        return;
    item->in.op_policies.type = req->type;
    read_policy(req->policy, &item->in.op_policies.policy);
    item->in.op_policies.actor = req->actor;
    svc_submit(sc, SVC_WHOLE, finish_set);
}

struct policy_message {
    Holdfast__V1__OperationPolicyEntry entry;
    Holdfast__V1__OperationPolicy policy;
};

static void finish_policies(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    const struct st_op_policies_told *told = &item->out.op_policies;
    Holdfast__V1__ListOperationPoliciesResponse response = HOLDFAST__V1__LIST_OPERATION_POLICIES_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    struct policy_message *messages = hp_alloc_array(sc->arena, told->n, sizeof(*messages));
    response.policies = hp_alloc_array(sc->arena, told->n, sizeof(*response.policies));
    char *token = NULL;
    if (told->more && told->n)
        token = svc_page_token(sc->arena, SVC_PAGE_POLICIES, told->rows[told->n - 1].type);
    if (!messages || !response.policies || (told->more && !token)) {
        svc_no_memory(sc);
        return;
    }
    for (size_t i = 0; i < told->n; i++) {
        holdfast__v1__operation_policy_entry__init(&messages[i].entry);
        write_policy(&told->rows[i].policy, &messages[i].policy);
        messages[i].entry.type = svc_unconst(told->rows[i].type);
        messages[i].entry.policy = &messages[i].policy;
        response.policies[i] = &messages[i].entry;
    }
    response.n_policies = told->n;
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_op_policies(struct svc_call *sc)
{
    const Holdfast__V1__ListOperationPoliciesRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!hp_check_name("namespace", req->namespace_, &status) || !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_page_after(sc->arena, SVC_PAGE_POLICIES, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_OP_POLICIES, req->namespace_);
    if (!item)
        return;
    item->in.op_policies.after = req->page_token[0] ? after : NULL; /* "" is a type */
    item->in.op_policies.max = max;
    svc_submit(sc, SVC_WHOLE, finish_policies);
}

/* ---- actions ---- */

static void fill_action(const struct st_action_row *row, Holdfast__V1__Action *out)
{
    holdfast__v1__action__init(out);
    out->name = svc_unconst(row->name);
    out->function = svc_unconst(row->function);
    out->role = svc_unconst(row->role);
    out->timeout_ms = row->timeout_ms;
}

static void finish_register(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    const struct st_actions_told *told = &item->out.actions;
    Holdfast__V1__RegisterActionResponse response = HOLDFAST__V1__REGISTER_ACTION_RESPONSE__INIT;
    Holdfast__V1__Action action;
    struct hp_status status;
    if (svc_failed(sc))
        return;
    if (item->outcome == ST_FOUND && told->n) {
        fill_action(told->rows, &action);
        response.action = &action;
        svc_reply(sc, &response.base);
        return;
    }
    if (item->outcome == ST_CONFLICT) {
        hp_status_set(&status, HP_R_PARAMETER_CONFLICT, "action \"%s\" is registered with another function", item->in.actions.name);
        hp_status_meta(&status, "action", "%s", item->in.actions.name);
    } else if (item->outcome == ST_OP_BAD_ACTION) {
        const char *function = item->in.actions.function;
        hp_status_bad_field(&status, HP_R_MALFORMED, "function", function, strlen(function), svc_unconst(told->message));
    } else {
        svc_fail_outcome(sc, item);
        return;
    }
    svc_fail(sc, &status);
}

void svc_register_action(struct svc_call *sc)
{
    const Holdfast__V1__RegisterActionRequest *req = sc->request;
    struct hp_status status;
    if (!hp_check_name("namespace", req->namespace_, &status) || !hp_check_name("name", req->name, &status) ||
        !hp_check_name("function", req->function, &status) ||
        !svc_check_range("timeout_ms", req->timeout_ms, 0, TIMEOUT_MAX_MS, &status) ||
        !hp_check_name("actor", req->actor, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_REGISTER_ACTION, req->namespace_);
    if (!item)
        return;
    item->in.actions = (struct st_actions){.name = req->name,
                                           .function = req->function,
                                           .timeout_ms = req->timeout_ms ? req->timeout_ms : TIMEOUT_MS,
                                           .actor = req->actor};
    svc_submit(sc, SVC_WHOLE, finish_register);
}

static void finish_remove(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__RemoveActionResponse response = HOLDFAST__V1__REMOVE_ACTION_RESPONSE__INIT;
    struct hp_status status;
    if (svc_failed(sc))
        return;
    if (item->outcome == ST_FOUND) {
        svc_reply(sc, &response.base);
    } else if (item->outcome == ST_OP_NO_ACTION) {
        hp_status_set(&status, HP_R_NO_SUCH_ACTION, "no action \"%s\" is registered", item->in.actions.name);
        hp_status_meta(&status, "action", "%s", item->in.actions.name);
        svc_fail(sc, &status);
    } else {
        svc_fail_outcome(sc, item);
    }
}

void svc_remove_action(struct svc_call *sc)
{
    const Holdfast__V1__RemoveActionRequest *req = sc->request;
    struct hp_status status;
    if (!hp_check_name("namespace", req->namespace_, &status) || !hp_check_name("name", req->name, &status) ||
        !hp_check_name("actor", req->actor, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_REMOVE_ACTION, req->namespace_);
    if (!item)
        return;
    item->in.actions = (struct st_actions){.name = req->name, .actor = req->actor};
    svc_submit(sc, SVC_WHOLE, finish_remove);
}

static void finish_actions(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    const struct st_actions_told *told = &item->out.actions;
    Holdfast__V1__ListActionsResponse response = HOLDFAST__V1__LIST_ACTIONS_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    Holdfast__V1__Action *messages = hp_alloc_array(sc->arena, told->n, sizeof(*messages));
    response.actions = hp_alloc_array(sc->arena, told->n, sizeof(*response.actions));
    char *token = NULL;
    if (told->more && told->n)
        token = svc_page_token(sc->arena, SVC_PAGE_ACTIONS, told->rows[told->n - 1].name);
    if (!messages || !response.actions || (told->more && !token)) {
        svc_no_memory(sc);
        return;
    }
    for (size_t i = 0; i < told->n; i++) {
        fill_action(&told->rows[i], &messages[i]);
        response.actions[i] = &messages[i];
    }
    response.n_actions = told->n;
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_actions(struct svc_call *sc)
{
    const Holdfast__V1__ListActionsRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!hp_check_name("namespace", req->namespace_, &status) || !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_page_after(sc->arena, SVC_PAGE_ACTIONS, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_ACTIONS, req->namespace_);
    if (!item)
        return;
    item->in.actions.after = after;
    item->in.actions.max = max;
    svc_submit(sc, SVC_WHOLE, finish_actions);
}
