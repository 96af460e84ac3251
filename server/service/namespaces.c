/*
 * namespaces.c - AdminService: CreateNamespace, SetNamespace, ListNamespaces, Audit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "proto/c/wire.h"
#include "service/call.h"
#include "service/check.h"
#include "service/page_seal.h"
#include "service/scope.h"

enum { LOCK_DELAY_MAX_MS = 60000, KEEP_DAYS_MAX = 36500 };

static char *unconst(const char *text)
{
    return (char *)(uintptr_t)text; /* messages are packed, not changed */
}

/* ---- policies ---- */

#define POLICY(member) HOLDFAST__V1__NAMESPACE_POLICY__##member

/* What a policy says, with ST_UNSET for what isn't given. */
static void read_policy(const Holdfast__V1__NamespacePolicy *from, struct st_policy *out)
{
    *out = (struct st_policy){ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET};
    if (!from)
        return;
    if (from->lock_delay_case == POLICY(LOCK_DELAY_LOCK_DELAY_MS))
        out->lock_delay_ms = from->lock_delay_ms;
    if (from->min_ttl_case == POLICY(MIN_TTL_MIN_TTL_MS))
        out->min_ttl_ms = from->min_ttl_ms;
    if (from->max_ttl_case == POLICY(MAX_TTL_MAX_TTL_MS))
        out->max_ttl_ms = from->max_ttl_ms;
    if (from->writes_case == POLICY(WRITES_AUDIT_WRITES))
        out->audit_writes = from->audit_writes;
    if (from->leases_case == POLICY(LEASES_MAX_LEASES))
        out->max_leases = from->max_leases;
    if (from->waiters_case == POLICY(WAITERS_MAX_WAITERS))
        out->max_waiters = from->max_waiters;
    if (from->bytes_case == POLICY(BYTES_MAX_VALUE_BYTES))
        out->max_value_bytes = from->max_value_bytes;
    if (from->keep_case == POLICY(KEEP_AUDIT_KEEP_DAYS))
        out->audit_keep_days = from->audit_keep_days;
}

static void write_policy(const struct st_policy *from, Holdfast__V1__NamespacePolicy *out)
{
    holdfast__v1__namespace_policy__init(out);
    out->lock_delay_case = POLICY(LOCK_DELAY_LOCK_DELAY_MS);
    out->lock_delay_ms = from->lock_delay_ms;
    out->min_ttl_case = POLICY(MIN_TTL_MIN_TTL_MS);
    out->min_ttl_ms = from->min_ttl_ms;
    out->max_ttl_case = POLICY(MAX_TTL_MAX_TTL_MS);
    out->max_ttl_ms = from->max_ttl_ms;
    out->writes_case = POLICY(WRITES_AUDIT_WRITES);
    out->audit_writes = from->audit_writes > 0;
    out->leases_case = POLICY(LEASES_MAX_LEASES);
    out->max_leases = from->max_leases;
    out->waiters_case = POLICY(WAITERS_MAX_WAITERS);
    out->max_waiters = from->max_waiters;
    out->bytes_case = POLICY(BYTES_MAX_VALUE_BYTES);
    out->max_value_bytes = from->max_value_bytes;
    out->keep_case = POLICY(KEEP_AUDIT_KEEP_DAYS);
    out->audit_keep_days = from->audit_keep_days;
}

/* A bound that isn't given is always within its limits. */
static bool check_bound(const char *field, bool given, int64_t value, int64_t min, int64_t max, struct hp_status *status)
{
    return !given || svc_check_range(field, value, min, max, status);
}

static void contradiction(int64_t min_ttl_ms, int64_t max_ttl_ms, struct hp_status *status)
{
    char value[24], limit[80];
    int n = snprintf(value, sizeof(value), "%" PRId64, min_ttl_ms);
    snprintf(limit, sizeof(limit), "at most policy.max_ttl_ms, %" PRId64, max_ttl_ms);
    hp_status_bad_field(status, HP_R_MALFORMED, "policy.min_ttl_ms", value, (size_t)n, limit);
}

static bool check_policy(const Holdfast__V1__NamespacePolicy *policy, struct hp_status *status)
{
    if (!policy)
        return true;
    bool min = policy->min_ttl_case == POLICY(MIN_TTL_MIN_TTL_MS), max = policy->max_ttl_case == POLICY(MAX_TTL_MAX_TTL_MS);
    if (!check_bound("policy.lock_delay_ms", policy->lock_delay_case, policy->lock_delay_ms, 0, LOCK_DELAY_MAX_MS, status) ||
        !check_bound("policy.min_ttl_ms", min, policy->min_ttl_ms, SVC_TTL_MIN_MS, SVC_TTL_MAX_MS, status) ||
        !check_bound("policy.max_ttl_ms", max, policy->max_ttl_ms, SVC_TTL_MIN_MS, SVC_TTL_MAX_MS, status) ||
        !check_bound("policy.max_leases", policy->leases_case, policy->max_leases, 0, INT64_MAX, status) ||
        !check_bound("policy.max_waiters", policy->waiters_case, policy->max_waiters, 0, INT64_MAX, status) ||
        !check_bound("policy.max_value_bytes", policy->bytes_case, policy->max_value_bytes, 0, INT64_MAX, status) ||
        !check_bound("policy.audit_keep_days", policy->keep_case, policy->audit_keep_days, 1, KEEP_DAYS_MAX, status))
        return false;
    if (min && max && policy->min_ttl_ms > policy->max_ttl_ms) {
        contradiction(policy->min_ttl_ms, policy->max_ttl_ms, status);
        return false;
    }
    return true;
}

struct namespace_message {
    Holdfast__V1__Namespace message;
    Holdfast__V1__NamespacePolicy policy;
};

static void fill_namespace(const struct st_namespace_row *row, struct namespace_message *out)
{
    holdfast__v1__namespace__init(&out->message);
    write_policy(&row->policy, &out->policy);
    out->message.name = unconst(row->name);
    out->message.policy = &out->policy;
    out->message.fence_floor = row->fence_floor;
    out->message.retired = row->retired;
}

/* ---- CreateNamespace and SetNamespace ---- */

/* The request's namespace as it is now. False: the call has ended. */
static bool changed(struct svc_call *sc, struct namespace_message *out)
{
    const struct st_item *item = &sc->items[0];
    struct hp_status status;
    if (svc_failed(sc))
        return false;
    const struct st_namespace_row *row = item->out.namespaces.n ? item->out.namespaces.rows : NULL;
    if (item->outcome == ST_FOUND && row) {
        fill_namespace(row, out);
        return true;
    }
    if (item->outcome == ST_CONFLICT) {
        hp_status_set(&status, HP_R_PARAMETER_CONFLICT, "namespace \"%s\" %s", item->ns,
                      row && row->retired ? "was retired; its name isn't used again" : "exists with other policies");
        hp_status_meta(&status, "namespace", "%s", item->ns);
        svc_fail(sc, &status);
    } else if (item->outcome == ST_CONTRADICTION && row) {
        contradiction(row->policy.min_ttl_ms, row->policy.max_ttl_ms, &status);
        svc_fail(sc, &status);
    } else {
        svc_fail_outcome(sc, item);
    }
    return false;
}

static void finish_create(struct svc_call *sc)
{
    Holdfast__V1__CreateNamespaceResponse response = HOLDFAST__V1__CREATE_NAMESPACE_RESPONSE__INIT;
    struct namespace_message ns;
    if (!changed(sc, &ns))
        return;
    response.namespace_ = &ns.message;
    svc_reply(sc, &response.base);
}

static void finish_set(struct svc_call *sc)
{
    Holdfast__V1__SetNamespaceResponse response = HOLDFAST__V1__SET_NAMESPACE_RESPONSE__INIT;
    struct namespace_message ns;
    if (!changed(sc, &ns))
        return;
    response.namespace_ = &ns.message;
    svc_reply(sc, &response.base);
}

static void change(struct svc_call *sc, enum st_kind kind, const char *name, const Holdfast__V1__NamespacePolicy *policy,
                   const char *actor, void (*finish)(struct svc_call *sc))
{
    struct hp_status status;
    if (!hp_check_name("name", name, &status) || !check_policy(policy, &status) || !hp_check_name("actor", actor, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, kind, name);
    if (!item)
        return;
    read_policy(policy, &item->in.namespaces.policy);
    item->in.namespaces.actor = actor;
    svc_submit(sc, SVC_WHOLE, finish);
}

void svc_create_namespace(struct svc_call *sc)
{
    const Holdfast__V1__CreateNamespaceRequest *req = sc->request;
    change(sc, ST_CREATE_NAMESPACE, req->name, req->policy, req->actor, finish_create);
}

void svc_set_namespace(struct svc_call *sc)
{
    const Holdfast__V1__SetNamespaceRequest *req = sc->request;
    change(sc, ST_SET_NAMESPACE, req->name, req->policy, req->actor, finish_set);
}

/* ---- ListNamespaces ---- */

static void finish_list(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__ListNamespacesResponse response = HOLDFAST__V1__LIST_NAMESPACES_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    const Holdfast__V1__ListNamespacesRequest *req = sc->request;
    size_t n = item->out.namespaces.n, rows = svc_page_rows(req->page_size), looked = 0;
    struct namespace_message *messages = hp_alloc_array(sc->arena, n, sizeof(*messages));
    response.namespaces = hp_alloc_array(sc->arena, n, sizeof(*response.namespaces));
    for (; messages && response.namespaces && looked < n && response.n_namespaces < rows; looked++) {
        if (!svc_sees_some_of(sc, item->out.namespaces.rows[looked].name))
            continue;
        fill_namespace(&item->out.namespaces.rows[looked], &messages[looked]);
        response.namespaces[response.n_namespaces++] = &messages[looked].message;
    }
    bool more = item->out.namespaces.more || looked < n;
    char *token = NULL;
    if (more && looked)
        token = svc_scoped_page_token(sc, SVC_PAGE_NAMESPACES, item->out.namespaces.rows[looked - 1].name);
    if (!messages || !response.namespaces || (more && !token)) {
        svc_no_memory(sc);
        return;
    }
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_namespaces(struct svc_call *sc)
{
    const Holdfast__V1__ListNamespacesRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!svc_check_page_size(req->page_size, &max, &status) ||
        !svc_scoped_page_after(sc, SVC_PAGE_NAMESPACES, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_NAMESPACES, "");
    if (!item)
        return;
    item->in.namespaces.after = after;
    item->in.namespaces.max = svc_scoped_page_rows(sc, max);
    svc_submit(sc, SVC_WHOLE, finish_list);
}

/* ---- Audit ---- */

static void fill_entry(const struct st_audit_row *row, Holdfast__V1__AuditEntry *out)
{
    holdfast__v1__audit_entry__init(out);
    out->id = row->id;
    out->at_unix_ms = row->at_unix_ms;
    out->kind = unconst(row->kind);
    out->resource = unconst(row->resource);
    out->token = row->token;
    out->prior = row->prior;
    out->actor = unconst(row->actor);
    out->detail = unconst(row->detail);
    out->operation = unconst(row->operation);
}

/* What concerns the namespace itself is for those who may see all of it. */
static bool sees_entry(const struct svc_call *sc, const char *ns, const struct st_audit_row *row)
{
    if (row->resource[0])
        return svc_sees_resource(sc, ns, row->resource);
    return row->operation[0] ? svc_sees_operation(sc, ns, row->operation) : svc_sees_all_of(sc, ns);
}

static void finish_audit(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__AuditResponse response = HOLDFAST__V1__AUDIT_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    const Holdfast__V1__AuditRequest *req = sc->request;
    size_t n = item->out.audit.n, rows = svc_page_rows(req->page_size), looked = 0;
    Holdfast__V1__AuditEntry *entries = hp_alloc_array(sc->arena, n, sizeof(*entries));
    response.entries = hp_alloc_array(sc->arena, n, sizeof(*response.entries));
    for (; entries && response.entries && looked < n && response.n_entries < rows; looked++) {
        if (!sees_entry(sc, item->ns, &item->out.audit.rows[looked]))
            continue;
        fill_entry(&item->out.audit.rows[looked], &entries[looked]);
        response.entries[response.n_entries++] = &entries[looked];
    }
    bool more = item->out.audit.more || looked < n;
    char *token = NULL;
    if (more && looked)
        token = svc_scoped_page_token_number(sc, SVC_PAGE_AUDIT, item->out.audit.rows[looked - 1].id);
    if (!entries || !response.entries || (more && !token)) {
        svc_no_memory(sc);
        return;
    }
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

static bool check_subject(const Holdfast__V1__AuditRequest *req, struct hp_status *status)
{
    if (!svc_check_optional("resource", req->resource, status) || !svc_check_optional("operation", req->operation, status))
        return false;
    if (!req->resource[0] || !req->operation[0])
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, "operation", req->operation, strlen(req->operation), "not together with resource");
    return false;
}

void svc_audit(struct svc_call *sc)
{
    const Holdfast__V1__AuditRequest *req = sc->request;
    struct hp_status status;
    int64_t max, after_id;
    if (!hp_check_name("namespace", req->namespace_, &status) || !check_subject(req, &status) ||
        !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_scoped_page_after_number(sc, SVC_PAGE_AUDIT, req->page_token, &after_id, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_AUDIT, req->namespace_);
    if (!item)
        return;
    item->in.audit.resource = req->resource;
    item->in.audit.operation = req->operation;
    item->in.audit.after_id = after_id;
    item->in.audit.max = svc_scoped_page_rows(sc, max);
    svc_submit(sc, SVC_WHOLE, finish_audit);
}
