/*
 * operation_decide.c - OperationService: Retry, Cancel, Reconcile, Compensate: what a person decides, under the revision that was
 * seen.
 */
#include <string.h>

#include "proto/c/wire.h"
#include "service/check.h"
#include "service/operation.h"
#include "service/operation_check.h"

/* ---- Retry, Cancel, Reconcile ---- */

static bool decided(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    if (svc_op_failed(sc))
        return false;
    if (item->outcome == ST_OP_DONE || item->outcome == ST_OP_DONE_AGAIN)
        return true;
    svc_fail_outcome(sc, item);
    return false;
}

static void finish_decide(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__DecideResponse response = HOLDFAST__V1__DECIDE_RESPONSE__INIT;
    if (!decided(sc))
        return;
    response.state = (Holdfast__V1__Operation__State)item->out.op_moved.state;
    response.revision = item->out.op_moved.revision;
    response.replayed = item->outcome == ST_OP_DONE_AGAIN;
    svc_reply(sc, &response.base);
}

static void decide(struct svc_call *sc, const char *ns, const char *key, const struct st_op_decide *what)
{
    struct hp_status status;
    if (!svc_check_decision(ns, key, what->revision, what->actor, what->reason, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_op_item(sc, ST_OP_DECIDE, ns, key);
    if (!item)
        return;
    item->in.op_decide = *what;
    if (what->revision > INT32_MAX) /* none is as high, so that it is told which one there is */
        item->in.op_decide.revision = INT32_MAX;
    svc_submit(sc, SVC_WHOLE, finish_decide);
}

void svc_op_retry(struct svc_call *sc)
{
    const Holdfast__V1__RetryRequest *req = sc->request;
    decide(sc, req->namespace_, req->key,
           &(struct st_op_decide){
               .decision = ST_OP_RETRY, .revision = req->revision, .actor = req->actor, .reason = req->reason, .result_ref = ""});
}

void svc_op_cancel(struct svc_call *sc)
{
    const Holdfast__V1__CancelRequest *req = sc->request;
    decide(sc, req->namespace_, req->key,
           &(struct st_op_decide){
               .decision = ST_OP_CANCEL, .revision = req->revision, .actor = req->actor, .reason = req->reason, .result_ref = ""});
}

static bool check_reconciled(const Holdfast__V1__ReconcileRequest *req, struct hp_status *status)
{
    if (!svc_check_range("outcome", (int64_t)req->outcome, HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__SUCCEEDED,
                         HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__CANCELLED, status) ||
        !svc_check_result(req->result, req->result_ref, status))
        return false;
    if (req->outcome == HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__SUCCEEDED || (!req->result.len && !req->result_ref[0]))
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, req->result.len ? "result" : "result_ref", NULL, 0, "only with outcome SUCCEEDED");
    return false;
}

void svc_op_reconcile(struct svc_call *sc)
{
    const Holdfast__V1__ReconcileRequest *req = sc->request;
    struct st_op_decide what = {.decision = ST_OP_RECONCILE,
                                .revision = req->revision,
                                .reconciled = (int)req->outcome,
                                .result_ref = req->result_ref,
                                .actor = req->actor,
                                .reason = req->reason};
    struct hp_status status;
    if (!check_reconciled(req, &status)) {
        svc_fail(sc, &status);
        return;
    }
    if (req->outcome == HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__SUCCEEDED)
        what.result = svc_result_bytes(req->result, req->result_ref);
    decide(sc, req->namespace_, req->key, &what);
}

/* ---- Compensate ---- */

static void finish_compensate(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__CompensateResponse response = HOLDFAST__V1__COMPENSATE_RESPONSE__INIT;
    if (!decided(sc))
        return;
    response.key = svc_unconst(item->out.op_moved.key);
    response.state = (Holdfast__V1__Operation__State)item->out.op_moved.state;
    response.revision = item->out.op_moved.revision;
    response.replayed = item->outcome == ST_OP_DONE_AGAIN;
    response.fingerprint = svc_binary(item->out.op_moved.fingerprint);
    svc_reply(sc, &response.base);
}

void svc_op_compensate(struct svc_call *sc)
{
    const Holdfast__V1__CompensateRequest *req = sc->request;
    struct hp_status status;
    if (!svc_check_typed(req->namespace_, req->key, req->type, &status) ||
        !svc_check_range("payload", (int64_t)req->payload.len, 0, SVC_RESULT_MAX, &status) ||
        !hp_check_name("actor", req->actor, &status) || !svc_check_reason(req->reason, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_op_item(sc, ST_OP_COMPENSATE, req->namespace_, req->key);
    if (!item)
        return;
    item->in.op_compensate = (struct st_op_compensate){
        .type = req->type, .payload = svc_result_bytes(req->payload, ""), .actor = req->actor, .reason = req->reason};
    svc_submit(sc, SVC_WHOLE, finish_compensate);
}
