/*
 * dispatch.c - the dispatch table, and what every call passes on its way in. See service.h.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"
#include "proto/c/wire.h"
#include "service/auth.h"
#include "service/operation_wait.h"
#include "service/stream.h"
#include "service/tally.h"
#include "service/wait.h"

/* A test compares this with the service descriptors. */
#define LEASE           "/holdfast.v1.LeaseService/"
#define RESOURCE        "/holdfast.v1.ResourceService/"
#define OPERATION       "/holdfast.v1.OperationService/"
#define ADMIN           "/holdfast.v1.AdminService/"
#define HEALTH          "/grpc.health.v1.Health/"
#define UNARY(in, out)  .request = &holdfast__v1__##in##__descriptor, .response = &holdfast__v1__##out##__descriptor
#define STREAM(in, out) UNARY(in, out), .server_streams = true
#define PROBE                                                                                                                      \
    .request = &grpc__health__v1__health_check_request__descriptor, .response = &grpc__health__v1__health_check_response__descriptor
#define REFLECTION(v)                                                                                                              \
    "/grpc.reflection." #v ".ServerReflection/ServerReflectionInfo",                                                               \
        .request = &grpc__reflection__##v##__server_reflection_request__descriptor,                                                \
        .response = &grpc__reflection__##v##__server_reflection_response__descriptor, .server_streams = true,                      \
        .client_streams = true

static const struct svc_method methods[] = {
    {{LEASE "Acquire", UNARY(acquire_request, acquire_response)}, SVC_WORKER, svc_acquire},
    {{LEASE "CancelWait", UNARY(cancel_wait_request, cancel_wait_response)}, SVC_WORKER, svc_cancel_wait},
    {{LEASE "Renew", UNARY(renew_request, renew_response)}, SVC_WORKER, svc_renew},
    {{LEASE "Release", UNARY(release_request, release_response)}, SVC_WORKER, svc_release},
    {{LEASE "Get", UNARY(get_lease_request, get_lease_response)}, SVC_READER, svc_get_lease},
    {{LEASE "List", UNARY(list_leases_request, list_leases_response)}, SVC_READER, svc_list_leases},
    {{LEASE "Break", UNARY(break_request, break_response)}, SVC_OPERATOR, svc_break},
    {{LEASE "Watch", STREAM(watch_leases_request, watch_leases_response)}, SVC_READER, svc_watch},
    {{RESOURCE "Check", UNARY(check_request, check_response)}, SVC_READER, svc_check},
    {{RESOURCE "Write", UNARY(write_request, write_response)}, SVC_WORKER, svc_write},
    {{RESOURCE "Read", UNARY(read_request, read_response)}, SVC_READER, svc_read},
    {{RESOURCE "List", UNARY(list_resources_request, list_resources_response)}, SVC_READER, svc_list_resources},
    {{RESOURCE "Delete", UNARY(delete_request, delete_response)}, SVC_WORKER, svc_delete},
    {{OPERATION "Begin", UNARY(begin_request, begin_response)}, SVC_WORKER, svc_op_begin},
    {{OPERATION "Renew", UNARY(renew_operations_request, renew_operations_response)}, SVC_WORKER, svc_op_renew},
    {{OPERATION "Record", UNARY(record_request, record_response)}, SVC_WORKER, svc_op_record},
    {{OPERATION "MarkSending", UNARY(mark_sending_request, mark_sending_response)}, SVC_WORKER, svc_op_sending},
    {{OPERATION "Complete", UNARY(complete_request, finish_response)}, SVC_WORKER, svc_op_complete},
    {{OPERATION "Fail", UNARY(fail_request, finish_response)}, SVC_WORKER, svc_op_fail},
    {{OPERATION "MarkUnknown", UNARY(mark_unknown_request, finish_response)}, SVC_WORKER, svc_op_unknown},
    {{OPERATION "Execute", UNARY(execute_request, execute_response)}, SVC_WORKER, svc_op_execute},
    {{OPERATION "Submit", UNARY(submit_request, submit_response)}, SVC_WORKER, NULL},
    {{OPERATION "Claim", UNARY(claim_request, claim_response)}, SVC_WORKER, NULL},
    {{OPERATION "Retry", UNARY(retry_request, decide_response)}, SVC_OPERATOR, svc_op_retry},
    {{OPERATION "Cancel", UNARY(cancel_request, decide_response)}, SVC_OPERATOR, svc_op_cancel},
    {{OPERATION "Reconcile", UNARY(reconcile_request, decide_response)}, SVC_OPERATOR, svc_op_reconcile},
    {{OPERATION "Compensate", UNARY(compensate_request, compensate_response)}, SVC_OPERATOR, svc_op_compensate},
    {{OPERATION "Get", UNARY(get_operation_request, get_operation_response)}, SVC_READER, svc_op_get},
    {{OPERATION "Wait", UNARY(wait_operation_request, wait_operation_response)}, SVC_READER, svc_op_wait},
    {{OPERATION "List", UNARY(list_operations_request, list_operations_response)}, SVC_READER, svc_op_list},
    {{OPERATION "ListAttempts", UNARY(list_attempts_request, list_attempts_response)}, SVC_READER, svc_op_attempts},
    {{ADMIN "Stats", UNARY(stats_request, stats_response)}, SVC_READER, svc_stats},
    {{ADMIN "AdvanceFences", UNARY(advance_fences_request, advance_fences_response)}, SVC_ADMIN, svc_advance_fences},
    {{ADMIN "CreateNamespace", UNARY(create_namespace_request, create_namespace_response)}, SVC_ADMIN, svc_create_namespace},
    {{ADMIN "SetNamespace", UNARY(set_namespace_request, set_namespace_response)}, SVC_ADMIN, svc_set_namespace},
    {{ADMIN "ListNamespaces", UNARY(list_namespaces_request, list_namespaces_response)}, SVC_OPERATOR, svc_list_namespaces},
    {{ADMIN "Audit", UNARY(audit_request, audit_response)}, SVC_OPERATOR, svc_audit},
    {{ADMIN "SetOperationPolicy", UNARY(set_operation_policy_request, set_operation_policy_response)},
     SVC_OPERATOR,
     svc_set_op_policy},
    {{ADMIN "ListOperationPolicies", UNARY(list_operation_policies_request, list_operation_policies_response)},
     SVC_OPERATOR,
     svc_list_op_policies},
    {{ADMIN "RegisterAction", UNARY(register_action_request, register_action_response)}, SVC_ADMIN, svc_register_action},
    {{ADMIN "RemoveAction", UNARY(remove_action_request, remove_action_response)}, SVC_ADMIN, svc_remove_action},
    {{ADMIN "ListActions", UNARY(list_actions_request, list_actions_response)}, SVC_OPERATOR, svc_list_actions},
    {{ADMIN "CreateKey", UNARY(create_key_request, create_key_response)}, SVC_ADMIN, svc_create_key},
    {{ADMIN "ListKeys", UNARY(list_keys_request, list_keys_response)}, SVC_ADMIN, svc_list_keys},
    {{ADMIN "RevokeKey", UNARY(revoke_key_request, revoke_key_response)}, SVC_ADMIN, svc_revoke_key},
    {{ADMIN "SetKey", UNARY(set_key_request, set_key_response)}, SVC_ADMIN, svc_set_key},
    {{ADMIN "ListDenials", UNARY(list_denials_request, list_denials_response)}, SVC_ADMIN, svc_list_denials},
    {{ADMIN "MapSqlRole", UNARY(map_sql_role_request, map_sql_role_response)}, SVC_ADMIN, svc_map_sql_role},
    {{ADMIN "UnmapSqlRole", UNARY(unmap_sql_role_request, unmap_sql_role_response)}, SVC_ADMIN, svc_unmap_sql_role},
    {{ADMIN "ListSqlRoles", UNARY(list_sql_roles_request, list_sql_roles_response)}, SVC_ADMIN, svc_list_sql_roles},
    {{HEALTH "Check", PROBE}, SVC_ANYONE, svc_health_check},
    {{HEALTH "Watch", PROBE, .server_streams = true}, SVC_ANYONE, svc_health_watch},
    {{REFLECTION(v1)}, SVC_READER, svc_reflection},
    {{REFLECTION(v1alpha)}, SVC_READER, svc_reflection},
};

enum { MAX_WAITING = 20000 };
enum { N_METHODS = sizeof(methods) / sizeof(methods[0]) };
static_assert((int)N_METHODS < (int)SVC_ROWS_MAX, "room for each row's counts, and for unknown methods");

const struct svc_method *svc_methods(size_t *n)
{
    *n = N_METHODS;
    return methods;
}

/* Each call looks for its row, some twice: by a table of hashes, filled in at the first look. */
enum { SLOTS = 256 };
static_assert((int)N_METHODS * 2 < (int)SLOTS, "the table stays half empty");

static size_t slot_of(const char *path)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 16777619U;
    return (hash ^ hash >> 16) % SLOTS;
}

const struct svc_method *svc_method_find(const char *path)
{
    static const struct svc_method *slots[SLOTS];
    static bool filled;
    for (size_t i = 0; !filled && i < N_METHODS; i++) {
        size_t slot = slot_of(methods[i].rpc.path);
        while (slots[slot])
            slot = (slot + 1) % SLOTS;
        slots[slot] = &methods[i];
    }
    filled = true;
    for (size_t slot = slot_of(path); slots[slot]; slot = (slot + 1) % SLOTS)
        if (!strcmp(slots[slot]->rpc.path, path))
            return slots[slot];
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
    svc->auth = svc->tally && svc->cfg.require_keys ? svc_auth_new(svc) : NULL;
    if (!svc->tally || !svc->auth != !svc->cfg.require_keys) {
        svc_tally_free(svc->tally);
        free(svc);
        return NULL;
    }
    svc_waits_init(svc);
    svc_op_waits_init(svc);
    svc_health_init(svc);
    svc_watches_init(svc);
    list_init(&svc->streams);
    return svc;
}

void svc_free(struct svc *svc)
{
    if (!svc)
        return;
    svc->draining = svc->closed = true;
    svc_waits_end(svc);
    svc_op_waits_end(svc);
    svc_streams_end(svc);
    svc_waits_release(svc);
    svc_op_waits_release(svc);
    assert(!svc->in_flight);
    svc_auth_free(svc->auth);
    svc_tally_free(svc->tally);
    free(svc);
}

void svc_drain(struct svc *svc)
{
    svc->draining = true;
    svc_waits_end(svc);
    svc_op_waits_end(svc);
    svc_streams_end(svc);
    svc_auth_drain(svc->auth);
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

/* Whether calls to this method are taken. Stats and Health answer to the end, so that a drain can be watched. */
static bool open_now(const struct svc *svc, const struct svc_method *method, struct hp_status *status)
{
    if (!svc->draining || method->handle == svc_stats || method->role == SVC_ANYONE)
        return true;
    hp_status_set(status, HP_R_DRAINING, NULL);
    hp_status_meta(status, "method", "%s", method->rpc.path);
    return false;
}

/* Whether it may be called. False: it was answered, or is held. */
static bool admitted(struct svc *svc, struct hp_call *call, const struct svc_method *method, bool held, struct svc_principal **who)
{
    struct hp_status status;
    enum svc_admission admission = SVC_ADMITTED;
    *who = NULL;
    if (!open_now(svc, method, &status))
        admission = SVC_REFUSED;
    else if (svc->auth && method->role != SVC_ANYONE)
        admission = svc_auth_admit(svc->auth, call, method, held, who, &status);
    if (admission == SVC_REFUSED)
        refuse(&svc->counts[method - methods], call, &status);
    return admission == SVC_ADMITTED;
}

/* What of it wasn't sent to the database need not be: calls that are made and given up by the thousand would keep others waiting.
 */
static void withdraw(struct svc_call *sc)
{
    for (size_t i = 0; sc->n_open && i < sc->n_items; i++)
        if (!sc->done[i])
            st_withdraw(sc->svc->store, &sc->items[i]);
}

static void on_gone(struct hp_call *call)
{
    struct svc_call *sc = call->service;
    sc->gone = true;
    if (sc->wait)
        svc_wait_gone(sc);
    else if (sc->op_wait)
        svc_op_wait_gone(sc);
    else
        withdraw(sc);
}

/* The call with its request unpacked, in its arena. NULL: `status` says why not. */
static struct svc_call *unpacked(struct svc *svc, struct hp_call *call, const struct svc_method *method, struct hp_status *status)
{
    if (!method->handle) {
        hp_status_set(status, HP_R_NOT_YET, "%s is not implemented yet", method->rpc.path);
        hp_status_meta(status, "method", "%s", method->rpc.path);
        return NULL;
    }
    const void *request = hp_unpack(call->arena, method->rpc.request, call->payload, call->payload_len, status);
    struct svc_call *sc = request ? hp_alloc(call->arena, sizeof(*sc)) : NULL;
    if (!sc) {
        if (request)
            hp_status_set(status, HP_R_QUEUE_FULL, "no memory for the call");
        return NULL;
    }
    sc->svc = svc;
    sc->method = method;
    sc->call = call;
    sc->arena = call->arena;
    sc->request = request;
    sc->received_ms = call->received_ms;
    sc->deadline_ms = call->deadline_ms;
    return sc;
}

void svc_begin(struct svc *svc, struct hp_call *call, const struct svc_method *method, bool held)
{
    struct svc_principal *who;
    struct hp_status status;
    if (!admitted(svc, call, method, held, &who))
        return;
    struct svc_call *sc = unpacked(svc, call, method, &status);
    if (!sc)
        svc_principal_drop(who);
    if (!sc || (who && !svc_auth_enter(svc->auth, sc, who, &status))) {
        refuse(&svc->counts[method - methods], call, &status);
        return;
    }
    call->service = sc;
    call->gone = on_gone;
    svc->in_flight++;
    method->handle(sc);
}

void svc_dispatch(struct svc *svc, struct hp_call *call)
{
    const struct svc_method *method = svc_method_find(call->method);
    struct svc_counts *counts = &svc->counts[method ? method - methods : N_METHODS];
    struct hp_status status;
    counts->calls++;
    if (method) {
        svc_begin(svc, call, method, false);
        return;
    }
    hp_status_set(&status, HP_R_NO_SUCH_METHOD, "no method \"%s\"", call->method);
    hp_status_meta(&status, "method", "%s", call->method);
    refuse(counts, call, &status);
}

bool svc_knows(const struct svc *svc, const struct hp_call *call)
{
    return svc->auth && svc_auth_knows(svc->auth, call);
}
