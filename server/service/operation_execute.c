/*
 * operation_execute.c - OperationService.Execute: an action inside Holdfast's transaction.
 */
#include <stdio.h>

#include "core/moves.h"
#include "proto/c/wire.h"
#include "service/check.h"
#include "service/operation.h"
#include "service/operation_check.h"

/* The resource stood in the way, or the action. */
static bool execution_refused(const struct st_item *item, struct hp_status *status)
{
    const struct st_op_told *told = &item->out.op;
    const struct st_op_execute *asked = &item->in.op_execute;
    switch (item->outcome) {
    case ST_OP_NO_ACTION:
        hp_status_set(status, HP_R_NO_SUCH_ACTION, "no action \"%s\" is registered%s%s", asked->action,
                      svc_unconst(told->message)[0] ? ", or not any more: " : "", svc_unconst(told->message));
        hp_status_meta(status, "action", "%s", asked->action);
        return true;
    case ST_OP_RAISED:
        hp_status_set(status, HP_R_ACTION_RAISED, "action \"%s\" raised: %s", asked->action, svc_unconst(told->message));
        hp_status_meta(status, "sqlstate", "%s", svc_unconst(told->sqlstate));
        hp_status_meta(status, "message", "%s", svc_unconst(told->message));
        return true;
    case ST_OP_STALE_RESOURCE:
        hp_status_set(status, HP_R_STALE_TOKEN, "token %lld of \"%s\" is stale: %lld was granted since", (long long)asked->token,
                      asked->resource, (long long)told->fence);
        break;
    case ST_OP_RESOURCE_NOT_HELD:
        hp_status_set(status, HP_R_NOT_HELD, "the lease of \"%s\" under token %lld has ended or never was", asked->resource,
                      (long long)asked->token);
        break;
    case ST_OP_VERSION:
        hp_status_set(status, HP_R_VERSION_MISMATCH, "\"%s\" has version %lld, not %lld", asked->resource, (long long)told->version,
                      (long long)asked->expected_version);
        hp_status_meta(status, "version", "%lld", (long long)told->version);
        break;
    default:
        return false;
    }
    if (item->outcome != ST_OP_VERSION)
        hp_status_meta(status, "fence", "%lld", (long long)told->fence);
    hp_status_meta(status, "resource", "%s", asked->resource);
    return true;
}

static void finish_execute(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__ExecuteResponse response = HOLDFAST__V1__EXECUTE_RESPONSE__INIT;
    Holdfast__V1__BeginResponse__Replayed done;
    Holdfast__V1__BeginResponse__InProgress in_progress;
    struct svc_op_view view;
    struct hp_status status;
    if (svc_op_failed(sc))
        return;
    bool told = svc_op_view_of_item(item, &view);
    if (item->outcome == ST_OP_DONE) {
        view.state = CO_SUCCEEDED;
    } else if (!told) {
        if (execution_refused(item, &status))
            svc_fail(sc, &status);
        else
            svc_fail_outcome(sc, item);
        return;
    }
    if (co_ended(view.state)) {
        svc_op_fill_replayed(&view, &done);
        response.outcome_case = HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_DONE;
        response.done = &done;
        response.replayed = told;
    } else {
        svc_op_fill_in_progress(&view, &in_progress);
        response.outcome_case = HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_IN_PROGRESS;
        response.in_progress = &in_progress;
    }
    svc_reply(sc, &response.base);
}

/* A resource with its token, or neither. */
static bool check_resource(const Holdfast__V1__ExecuteRequest *req, bool expects, struct hp_status *status)
{
    char text[24];
    if (req->resource[0])
        return hp_check_name("resource", req->resource, status) && svc_check_token("token", req->token, status) &&
               (!expects || svc_check_range("expected_version", req->expected_version, 0, INT64_MAX, status));
    if (!req->token && !expects)
        return true;
    int n = snprintf(text, sizeof(text), "%lld", (long long)(req->token ? req->token : req->expected_version));
    hp_status_bad_field(status, HP_R_MALFORMED, req->token ? "token" : "expected_version", text, (size_t)n, "only with a resource");
    return false;
}

static bool check_execute(struct svc_call *sc, const Holdfast__V1__ExecuteRequest *req, struct st_op_execute *out,
                          struct hp_status *status)
{
    out->expects = req->expected_case == HOLDFAST__V1__EXECUTE_REQUEST__EXPECTED_EXPECTED_VERSION;
    return svc_check_typed(req->namespace_, req->key, req->type, status) && hp_check_name("action", req->action, status) &&
           svc_check_optional("holder", req->holder, status) && check_resource(req, out->expects, status) &&
           svc_check_events(req->events, req->n_events, status) && (!req->args[0] || svc_check_json("args", req->args, status)) &&
           svc_check_parameters(sc->arena, SVC_PARAMETERS(req), &out->fingerprint, status);
}

void svc_op_execute(struct svc_call *sc)
{
    const Holdfast__V1__ExecuteRequest *req = sc->request;
    struct st_op_execute what = {.type = req->type,
                                 .action = req->action,
                                 .args = req->args[0] ? req->args : "{}",
                                 .resource = req->resource[0] ? req->resource : NULL,
                                 .token = req->token,
                                 .holder = req->holder};
    struct hp_status status;
    if (!check_execute(sc, req, &what, &status)) {
        svc_fail(sc, &status);
        return;
    }
    what.expected_version = what.expects ? req->expected_version : 0;
    struct st_item *item = svc_op_item(sc, ST_OP_EXECUTE, req->namespace_, req->key);
    if (!item)
        return;
    if (!svc_store_events(sc->arena, req->events, req->n_events, &what.events)) {
        svc_no_memory(sc);
        return;
    }
    item->in.op_execute = what;
    svc_submit(sc, SVC_WHOLE, finish_execute);
}
