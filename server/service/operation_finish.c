/*
 * operation_finish.c - OperationService: MarkSending, Complete, Fail, MarkUnknown: what the owner of an attempt tells of it.
 */
#include "proto/c/wire.h"
#include "service/check.h"
#include "service/operation.h"
#include "service/operation_check.h"

/* ---- MarkSending ---- */

static void finish_sending(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__MarkSendingResponse response = HOLDFAST__V1__MARK_SENDING_RESPONSE__INIT;
    if (svc_op_failed(sc))
        return;
    if (item->outcome != ST_OP_DONE && item->outcome != ST_OP_DONE_AGAIN) {
        svc_fail_outcome(sc, item);
        return;
    }
    /* As of a statement that ran after the call came in: so much has passed at most. */
    int64_t remaining = item->out.op_moved.remaining_ms - svc_elapsed_ms(sc);
    response.remaining_ms = remaining > 0 ? remaining : 0;
    svc_reply(sc, &response.base);
}

void svc_op_sending(struct svc_call *sc)
{
    const Holdfast__V1__MarkSendingRequest *req = sc->request;
    struct hp_status status;
    if (!svc_check_operation(req->namespace_, req->key, &status) || !svc_check_token("token", req->token, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_op_item(sc, ST_OP_SENDING, req->namespace_, req->key);
    if (!item)
        return;
    item->in.op_sending.token = req->token;
    svc_submit(sc, SVC_WHOLE, finish_sending);
}

/* ---- Complete, Fail, MarkUnknown ---- */

static void finish(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__FinishResponse response = HOLDFAST__V1__FINISH_RESPONSE__INIT;
    if (svc_op_failed(sc))
        return;
    if (item->outcome != ST_OP_DONE && item->outcome != ST_OP_DONE_AGAIN) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.state = (Holdfast__V1__Operation__State)item->out.op_moved.state;
    response.revision = item->out.op_moved.revision;
    response.due_ms = item->out.op_moved.due_ms;
    response.replayed = item->outcome == ST_OP_DONE_AGAIN;
    svc_reply(sc, &response.base);
}

static void submit(struct svc_call *sc, const char *ns, const char *key, const struct st_op_finish *what)
{
    struct st_item *item = svc_op_item(sc, ST_OP_FINISH, ns, key);
    if (!item)
        return;
    item->in.op_finish = *what;
    svc_submit(sc, SVC_WHOLE, finish);
}

void svc_op_complete(struct svc_call *sc)
{
    const Holdfast__V1__CompleteRequest *req = sc->request;
    struct st_op_finish what = {.call = ST_OP_COMPLETE, .token = req->token, .result_ref = req->result_ref};
    struct hp_status status;
    if (!svc_check_operation(req->namespace_, req->key, &status) || !svc_check_token("token", req->token, &status) ||
        !svc_check_result(req->result, req->result_ref, &status) || !svc_check_events(req->events, req->n_events, &status)) {
        svc_fail(sc, &status);
        return;
    }
    what.result = svc_result_bytes(req->result, req->result_ref);
    if (svc_store_events(sc->arena, req->events, req->n_events, &what.events))
        submit(sc, req->namespace_, req->key, &what);
    else
        svc_no_memory(sc);
}

void svc_op_fail(struct svc_call *sc)
{
    const Holdfast__V1__FailRequest *req = sc->request;
    struct st_op_finish what = {.call = ST_OP_FAIL,
                                .token = req->token,
                                .error_class = (int)req->error_class,
                                .message = req->message,
                                .sqlstate = req->sqlstate,
                                .retry_after_ms = req->retry_after_ms};
    struct hp_status status;
    if (!svc_check_operation(req->namespace_, req->key, &status) || !svc_check_token("token", req->token, &status) ||
        !svc_check_error_class(req->error_class, &status) ||
        !svc_check_text("message", req->message, 0, SVC_MESSAGE_MAX, &status) || !svc_check_sqlstate(req->sqlstate, &status) ||
        !svc_check_range("retry_after_ms", req->retry_after_ms, 0, SVC_RETRY_AFTER_MAX_MS, &status)) {
        svc_fail(sc, &status);
        return;
    }
    submit(sc, req->namespace_, req->key, &what);
}

void svc_op_unknown(struct svc_call *sc)
{
    const Holdfast__V1__MarkUnknownRequest *req = sc->request;
    struct st_op_finish what = {.call = ST_OP_MARK_UNKNOWN, .token = req->token, .message = req->note};
    struct hp_status status;
    if (!svc_check_operation(req->namespace_, req->key, &status) || !svc_check_token("token", req->token, &status) ||
        !svc_check_text("note", req->note, 0, SVC_MESSAGE_MAX, &status)) {
        svc_fail(sc, &status);
        return;
    }
    submit(sc, req->namespace_, req->key, &what);
}
