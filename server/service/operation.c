/*
 * operation.c - OperationService: Begin, Renew, Record. What ends an attempt is in operation_finish.c, who waits in
 * operation_wait.c.
 *
 * The attempt of a Begin whose caller has gone meanwhile is left alone: nobody was told its token, so nobody works under it, and
 * its lease ends by its time to live, as that of a worker that died. (A repeat with the same request_id gets it until then.)
 */
#include <string.h>

#include "core/moves.h"
#include "proto/c/wire.h"
#include "service/check.h"
#include "service/items.h"
#include "service/operation.h"
#include "service/operation_check.h"
#include "service/operation_wait.h"

/* A locked row is tried again for so long, also for a caller who doesn't want to wait. */
enum { PATIENCE_MS = 1000 };

/* ---- Begin ---- */

static bool check_trigger(Holdfast__V1__Trigger__Kind trigger, struct hp_status *status)
{
    if (!svc_check_range("trigger", (int64_t)trigger, HOLDFAST__V1__TRIGGER__KIND__UNSPECIFIED, HOLDFAST__V1__TRIGGER__KIND__MANUAL,
                         status))
        return false;
    if (trigger != HOLDFAST__V1__TRIGGER__KIND__TAKEOVER)
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, "trigger", "TAKEOVER", 8, "SCHEDULED, RETRY or MANUAL: a takeover is found");
    return false;
}

static bool check_begin(struct svc_call *sc, const Holdfast__V1__BeginRequest *req, struct svc_begin *begin,
                        struct hp_status *status)
{
    return svc_check_typed(req->namespace_, req->key, req->type, status) && hp_check_name("holder", req->holder, status) &&
           svc_check_ttl(req->ttl_ms, status) && svc_check_range("wait_ms", req->wait_ms, 0, SVC_WAIT_MAX_MS, status) &&
           svc_check_optional("request_id", req->request_id, status) && check_trigger(req->trigger, status) &&
           svc_check_parameters(sc->arena, SVC_PARAMETERS(req), &begin->fingerprint, status);
}

void svc_op_fill_begin(struct svc_call *sc, struct st_item *item)
{
    const Holdfast__V1__BeginRequest *req = sc->request;
    const struct svc_begin *begin = sc->state;
    bool given = req->trigger != HOLDFAST__V1__TRIGGER__KIND__UNSPECIFIED;
    item->resource = req->key;
    item->in.op_begin = (struct st_op_begin){.type = req->type,
                                             .fingerprint = begin->fingerprint,
                                             .holder = req->holder,
                                             .request_id = begin->request_id,
                                             .ttl_ms = req->ttl_ms,
                                             .trigger = given ? (int)req->trigger : HOLDFAST__V1__TRIGGER__KIND__MANUAL};
}

static void finish_begin(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    struct svc_op_view view;
    struct hp_status status;
    if (svc_item_failed(sc, 0, &status)) {
        svc_fail(sc, &status);
        return;
    }
    switch (item->outcome) {
    case ST_OP_STARTED:
    case ST_OP_STARTED_AGAIN:
        svc_op_answer_started(sc, item, sc->received_ms);
        break;
    case ST_OP_IN_PROGRESS:
        svc_op_view_of_item(item, &view);
        svc_op_wait_begin(sc, &view);
        break;
    case ST_OP_CONFLICT:
        svc_op_conflict(item->resource, &status);
        svc_fail(sc, &status);
        break;
    default:
        if (svc_op_view_of_item(item, &view))
            svc_op_answer_begin(sc, &view);
        else
            svc_fail_outcome(sc, item);
    }
}

void svc_op_begin(struct svc_call *sc)
{
    const Holdfast__V1__BeginRequest *req = sc->request;
    struct svc_begin *begin = hp_alloc(sc->arena, sizeof(*begin));
    struct hp_status status;
    if (!begin) {
        svc_no_memory(sc);
        return;
    }
    if (!check_begin(sc, req, begin, &status)) {
        svc_fail(sc, &status);
        return;
    }
    begin->request_id = svc_request_id(sc, req->request_id);
    if (!begin->request_id) {
        svc_no_memory(sc);
        return;
    }
    sc->state = begin;
    struct st_item *item = svc_op_item(sc, ST_OP_BEGIN, req->namespace_, req->key);
    if (!item)
        return;
    svc_op_fill_begin(sc, item);
    item->patience_ms = sc->svc->io->now_ms(sc->svc->io) + (req->wait_ms > PATIENCE_MS ? req->wait_ms : PATIENCE_MS);
    svc_submit(sc, SVC_WHOLE, finish_begin);
}

/* ---- Renew ---- */

static void finish_renew(struct svc_call *sc)
{
    Holdfast__V1__RenewOperationsResponse response = HOLDFAST__V1__RENEW_OPERATIONS_RESPONSE__INIT;
    response.items = svc_renew_results(sc);
    if (!response.items)
        return;
    response.n_items = sc->n_items;
    svc_reply(sc, &response.base);
}

void svc_op_renew(struct svc_call *sc)
{
    const Holdfast__V1__RenewOperationsRequest *req = sc->request;
    struct hp_status status;
    if (!svc_check_ttl(req->ttl_ms, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *items = svc_operation_items(sc, ST_OP_RENEW, req->namespace_, req->items, req->n_items);
    if (!items)
        return;
    for (size_t i = 0; i < req->n_items; i++) {
        items[i].in.renew.token = req->items[i]->token;
        items[i].in.renew.ttl_ms = req->ttl_ms;
    }
    svc_submit(sc, SVC_BRIEF, finish_renew);
}

/* ---- Record ---- */

/* A record is kept once, or told. One that ended otherwise, or hasn't ended, is somebody's to settle. */
static void finish_record(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__RecordResponse response = HOLDFAST__V1__RECORD_RESPONSE__INIT;
    struct svc_op_view view;
    struct hp_status status;
    if (svc_op_failed(sc))
        return;
    bool told = svc_op_view_of_item(item, &view);
    if (item->outcome != ST_OP_DONE && !told) {
        svc_fail_outcome(sc, item);
        return;
    }
    if (told && view.state != CO_SUCCEEDED) {
        svc_op_illegal(item->resource, view.state, &status);
        svc_fail(sc, &status);
        return;
    }
    response.replayed = told;
    response.first_completed_unix_ms = view.since_ms;
    response.attempt = view.attempt;
    if (told) {
        response.result = svc_binary(view.result);
        response.result_ref = svc_unconst(view.result_ref);
    }
    svc_reply(sc, &response.base);
}

void svc_op_record(struct svc_call *sc)
{
    const Holdfast__V1__RecordRequest *req = sc->request;
    struct st_op_record record = {.type = req->type, .result_ref = req->result_ref};
    struct hp_status status;
    if (!svc_check_typed(req->namespace_, req->key, req->type, &status) ||
        !svc_check_result(req->result, req->result_ref, &status) || !svc_check_events(req->events, req->n_events, &status) ||
        !svc_check_parameters(sc->arena, SVC_PARAMETERS(req), &record.fingerprint, &status)) {
        svc_fail(sc, &status);
        return;
    }
    record.result = svc_result_bytes(req->result, req->result_ref);
    struct st_item *item = svc_op_item(sc, ST_OP_RECORD, req->namespace_, req->key);
    if (!item)
        return;
    if (!svc_store_events(sc->arena, req->events, req->n_events, &record.events)) {
        svc_no_memory(sc);
        return;
    }
    item->in.op_record = record;
    svc_submit(sc, SVC_WHOLE, finish_record);
}
