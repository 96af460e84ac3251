/*
 * dispatch.c - the dispatch table, and what every call passes on its way in. See service.h.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"
#include "proto/c/wire.h"
#include "service/call.h"
#include "service/operation_wait.h"
#include "service/tally.h"
#include "service/wait.h"

/* A test compares this with the service descriptors. */
#define LEASE             "/holdfast.v1.LeaseService/"
#define RESOURCE          "/holdfast.v1.ResourceService/"
#define OPERATION         "/holdfast.v1.OperationService/"
#define ADMIN             "/holdfast.v1.AdminService/"
#define MESSAGES(in, out) &holdfast__v1__##in##__descriptor, &holdfast__v1__##out##__descriptor

static const struct svc_method methods[] = {
    {LEASE "Acquire", SVC_WORKER, false, MESSAGES(acquire_request, acquire_response), svc_acquire},
    {LEASE "CancelWait", SVC_WORKER, false, MESSAGES(cancel_wait_request, cancel_wait_response), svc_cancel_wait},
    {LEASE "Renew", SVC_WORKER, false, MESSAGES(renew_request, renew_response), svc_renew},
    {LEASE "Release", SVC_WORKER, false, MESSAGES(release_request, release_response), svc_release},
    {LEASE "Get", SVC_READER, false, MESSAGES(get_lease_request, get_lease_response), svc_get_lease},
    {LEASE "List", SVC_READER, false, MESSAGES(list_leases_request, list_leases_response), svc_list_leases},
    {LEASE "Break", SVC_OPERATOR, false, MESSAGES(break_request, break_response), svc_break},
    {LEASE "Watch", SVC_READER, true, MESSAGES(watch_leases_request, watch_leases_response), NULL},
    {RESOURCE "Check", SVC_READER, false, MESSAGES(check_request, check_response), svc_check},
    {RESOURCE "Write", SVC_WORKER, false, MESSAGES(write_request, write_response), svc_write},
    {RESOURCE "Read", SVC_READER, false, MESSAGES(read_request, read_response), svc_read},
    {RESOURCE "List", SVC_READER, false, MESSAGES(list_resources_request, list_resources_response), svc_list_resources},
    {RESOURCE "Delete", SVC_WORKER, false, MESSAGES(delete_request, delete_response), svc_delete},
    {OPERATION "Begin", SVC_WORKER, false, MESSAGES(begin_request, begin_response), svc_op_begin},
    {OPERATION "Renew", SVC_WORKER, false, MESSAGES(renew_operations_request, renew_operations_response), svc_op_renew},
    {OPERATION "Record", SVC_WORKER, false, MESSAGES(record_request, record_response), svc_op_record},
    {OPERATION "MarkSending", SVC_WORKER, false, MESSAGES(mark_sending_request, mark_sending_response), svc_op_sending},
    {OPERATION "Complete", SVC_WORKER, false, MESSAGES(complete_request, finish_response), svc_op_complete},
    {OPERATION "Fail", SVC_WORKER, false, MESSAGES(fail_request, finish_response), svc_op_fail},
    {OPERATION "MarkUnknown", SVC_WORKER, false, MESSAGES(mark_unknown_request, finish_response), svc_op_unknown},
    {OPERATION "Execute", SVC_WORKER, false, MESSAGES(execute_request, execute_response), svc_op_execute},
    {OPERATION "Submit", SVC_WORKER, false, MESSAGES(submit_request, submit_response), NULL},
    {OPERATION "Claim", SVC_WORKER, false, MESSAGES(claim_request, claim_response), NULL},
    {OPERATION "Retry", SVC_OPERATOR, false, MESSAGES(retry_request, decide_response), svc_op_retry},
    {OPERATION "Cancel", SVC_OPERATOR, false, MESSAGES(cancel_request, decide_response), svc_op_cancel},
    {OPERATION "Reconcile", SVC_OPERATOR, false, MESSAGES(reconcile_request, decide_response), svc_op_reconcile},
    {OPERATION "Compensate", SVC_OPERATOR, false, MESSAGES(compensate_request, compensate_response), svc_op_compensate},
    {OPERATION "Get", SVC_READER, false, MESSAGES(get_operation_request, get_operation_response), svc_op_get},
    {OPERATION "Wait", SVC_READER, false, MESSAGES(wait_operation_request, wait_operation_response), svc_op_wait},
    {OPERATION "List", SVC_READER, false, MESSAGES(list_operations_request, list_operations_response), svc_op_list},
    {OPERATION "ListAttempts", SVC_READER, false, MESSAGES(list_attempts_request, list_attempts_response), svc_op_attempts},
    {ADMIN "Stats", SVC_READER, false, MESSAGES(stats_request, stats_response), svc_stats},
    {ADMIN "AdvanceFences", SVC_ADMIN, false, MESSAGES(advance_fences_request, advance_fences_response), svc_advance_fences},
    {ADMIN "CreateNamespace", SVC_ADMIN, false, MESSAGES(create_namespace_request, create_namespace_response),
     svc_create_namespace},
    {ADMIN "SetNamespace", SVC_ADMIN, false, MESSAGES(set_namespace_request, set_namespace_response), svc_set_namespace},
    {ADMIN "ListNamespaces", SVC_OPERATOR, false, MESSAGES(list_namespaces_request, list_namespaces_response), svc_list_namespaces},
    {ADMIN "Audit", SVC_OPERATOR, false, MESSAGES(audit_request, audit_response), svc_audit},
    {ADMIN "SetOperationPolicy", SVC_OPERATOR, false, MESSAGES(set_operation_policy_request, set_operation_policy_response),
     svc_set_op_policy},
    {ADMIN "ListOperationPolicies", SVC_OPERATOR, false,
     MESSAGES(list_operation_policies_request, list_operation_policies_response), svc_list_op_policies},
    {ADMIN "RegisterAction", SVC_ADMIN, false, MESSAGES(register_action_request, register_action_response), svc_register_action},
    {ADMIN "RemoveAction", SVC_ADMIN, false, MESSAGES(remove_action_request, remove_action_response), svc_remove_action},
    {ADMIN "ListActions", SVC_OPERATOR, false, MESSAGES(list_actions_request, list_actions_response), svc_list_actions},
};

enum { MAX_WAITING = 20000 };
enum { N_METHODS = sizeof(methods) / sizeof(methods[0]) };
static_assert((int)N_METHODS < (int)SVC_ROWS_MAX, "room for each row's counts, and for unknown methods");

const struct svc_method *svc_methods(size_t *n)
{
    *n = N_METHODS;
    return methods;
}

const struct svc_method *svc_method_find(const char *path)
{
    for (size_t i = 0; i < N_METHODS; i++)
        if (!strcmp(methods[i].path, path))
            return &methods[i];
    return NULL;
}

struct svc *svc_new(struct st_store *store, struct io *io, const struct svc_config *cfg)
{
    struct svc *svc = calloc(1, sizeof(*svc));
    if (!svc)
        return NULL;
    svc->store = store;
    svc->io = io;
    if (cfg)
        svc->cfg = *cfg;
    if (!svc->cfg.version)
        svc->cfg.version = HOLDFAST_VERSION;
    if (!svc->cfg.max_waiting)
        svc->cfg.max_waiting = MAX_WAITING;
    svc->started_ms = io->now_ms(io);
    svc->tally = svc_tally_new();
    if (!svc->tally) {
        free(svc);
        return NULL;
    }
    svc_waits_init(svc);
    svc_op_waits_init(svc);
    return svc;
}

void svc_free(struct svc *svc)
{
    if (!svc)
        return;
    svc->draining = svc->closed = true;
    svc_waits_end(svc);
    svc_op_waits_end(svc);
    svc_waits_release(svc);
    svc_op_waits_release(svc);
    assert(!svc->in_flight);
    svc_tally_free(svc->tally);
    free(svc);
}

void svc_drain(struct svc *svc)
{
    svc->draining = true;
    svc_waits_end(svc);
    svc_op_waits_end(svc);
}

size_t svc_in_flight(const struct svc *svc)
{
    return svc->in_flight;
}

static void refuse(struct svc_counts *counts, struct hp_call *call, const struct hp_status *status)
{
    counts->errors[status->reason]++;
    call->answer(call, status, NULL);
}

/* Why a call to this method isn't even looked at. Stats answers to the end, so that a drain can be watched. */
static bool open_now(const struct svc *svc, const struct svc_method *method, struct hp_status *status)
{
    if (!method->handle)
        hp_status_set(status, HP_R_NOT_YET, "%s is not implemented yet", method->path);
    else if (svc->draining && method->handle != svc_stats)
        hp_status_set(status, HP_R_DRAINING, NULL);
    else
        return true;
    hp_status_meta(status, "method", "%s", method->path);
    return false;
}

static void on_gone(struct hp_call *call)
{
    struct svc_call *sc = call->service;
    sc->gone = true;
    if (sc->wait)
        svc_wait_gone(sc);
    else if (sc->op_wait)
        svc_op_wait_gone(sc);
}

void svc_dispatch(struct svc *svc, struct hp_call *call)
{
    const struct svc_method *method = svc_method_find(call->method);
    struct svc_counts *counts = &svc->counts[method ? method - methods : N_METHODS];
    struct hp_status status;
    counts->calls++;
    if (!method) {
        hp_status_set(&status, HP_R_NO_SUCH_METHOD, "no method \"%s\"", call->method);
        hp_status_meta(&status, "method", "%s", call->method);
        refuse(counts, call, &status);
        return;
    }
    if (!open_now(svc, method, &status)) {
        refuse(counts, call, &status);
        return;
    }
    const void *request = hp_unpack(call->arena, method->request, call->payload, call->payload_len, &status);
    struct svc_call *sc = request ? hp_alloc(call->arena, sizeof(*sc)) : NULL;
    if (!sc) {
        if (request)
            hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the call");
        refuse(counts, call, &status);
        return;
    }
    sc->svc = svc;
    sc->method = method;
    sc->call = call;
    sc->arena = call->arena;
    sc->request = request;
    sc->received_ms = call->received_ms;
    sc->deadline_ms = call->deadline_ms;
    call->service = sc;
    call->gone = on_gone;
    svc->in_flight++;
    method->handle(sc);
}
