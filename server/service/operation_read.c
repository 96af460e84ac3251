/*
 * operation_read.c - OperationService: Get, List, ListAttempts.
 */
#include <string.h>

#include "proto/c/wire.h"
#include "service/check.h"
#include "service/operation.h"
#include "service/operation_check.h"
#include "service/page_seal.h"
#include "service/scope.h"

enum { PAGE_BYTES = 3 << 20 }; /* a page ends before it is larger */

/* Longer than anything is kept, and short enough for PostgreSQL's intervals. */
#define OLDER_THAN_MAX_MS INT64_C(3155760000000)

/* ---- Get ---- */

Holdfast__V1__Operation *svc_op_message(struct hp_arena *arena, const struct st_op_row *row)
{
    Holdfast__V1__Operation *out = hp_alloc(arena, sizeof(*out));
    if (!out)
        return NULL;
    holdfast__v1__operation__init(out);
    out->key = svc_unconst(row->key);
    out->type = svc_unconst(row->type);
    out->fingerprint = svc_binary(row->fingerprint);
    out->state = (Holdfast__V1__Operation__State)row->state;
    out->revision = row->revision;
    out->attempts = row->attempts;
    out->token = row->token;
    out->holder = svc_unconst(row->holder);
    out->sending = row->sending;
    out->remaining_ms = row->remaining_ms;
    out->created_unix_ms = row->created_unix_ms;
    out->changed_unix_ms = row->changed_unix_ms;
    out->result = svc_binary(row->result);
    out->result_ref = svc_unconst(row->result_ref);
    out->error_class = (Holdfast__V1__ErrorClass__Kind)row->error_class;
    out->message = svc_unconst(row->message);
    out->sqlstate = svc_unconst(row->sqlstate);
    out->compensates = svc_unconst(row->compensates);
    out->compensated_by = svc_unconst(row->compensated_by);
    out->payload = svc_binary(row->payload);
    out->priority = row->priority;
    return out;
}

static void finish_get(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__GetOperationResponse response = HOLDFAST__V1__GET_OPERATION_RESPONSE__INIT;
    if (svc_op_failed(sc))
        return;
    if (item->outcome != ST_FOUND || !item->out.ops.n) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.operation = svc_op_message(sc->arena, item->out.ops.rows);
    if (response.operation)
        svc_reply(sc, &response.base);
    else
        svc_no_memory(sc);
}

void svc_op_get(struct svc_call *sc)
{
    const Holdfast__V1__GetOperationRequest *req = sc->request;
    struct hp_status status;
    if (!svc_check_operation(req->namespace_, req->key, &status))
        svc_fail(sc, &status);
    else if (svc_op_item(sc, ST_OP_GET, req->namespace_, req->key))
        svc_submit(sc, SVC_WHOLE, finish_get);
}

/* ---- List ---- */

static void finish_list(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__ListOperationsResponse response = HOLDFAST__V1__LIST_OPERATIONS_RESPONSE__INIT;
    const Holdfast__V1__ListOperationsRequest *req = sc->request;
    size_t n = item->out.ops.n, rows = svc_page_rows(req->page_size), bytes = 0, looked = 0;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.operations = hp_alloc_array(sc->arena, n, sizeof(*response.operations));
    /* A page ends early rather than outgrow the call's memory or the reply. */
    for (; response.operations && looked < n && response.n_operations < rows && bytes < PAGE_BYTES; looked++) {
        const struct st_op_row *row = &item->out.ops.rows[looked];
        if (!svc_sees_operation(sc, item->ns, row->key))
            continue;
        Holdfast__V1__Operation *message = svc_op_message(sc->arena, row);
        if (!message)
            break;
        bytes += protobuf_c_message_get_packed_size(&message->base);
        response.operations[response.n_operations++] = message;
    }
    bool more = item->out.ops.more || looked < n;
    char *token = NULL;
    if (more && looked)
        token = svc_scoped_page_token(sc, SVC_PAGE_OPERATIONS, item->out.ops.rows[looked - 1].key);
    if (more && !token) {
        svc_no_memory(sc);
        return;
    }
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_op_list(struct svc_call *sc)
{
    const Holdfast__V1__ListOperationsRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!hp_check_name("namespace", req->namespace_, &status) ||
        !svc_check_range("state", (int64_t)req->state, HOLDFAST__V1__OPERATION__STATE__UNSPECIFIED,
                         HOLDFAST__V1__OPERATION__STATE__CANCELLED, &status) ||
        !svc_check_optional("type", req->type, &status) || !svc_check_optional("prefix", req->prefix, &status) ||
        !svc_check_range("older_than_ms", req->older_than_ms, 0, OLDER_THAN_MAX_MS, &status) ||
        !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_scoped_page_after(sc, SVC_PAGE_OPERATIONS, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    const char *prefix = svc_narrow_operations(sc, req->namespace_, req->prefix);
    if (!prefix) {
        svc_no_memory(sc);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_OP_LIST, req->namespace_);
    if (!item)
        return;
    item->in.op_list = (struct st_op_list){.state = (int)req->state,
                                           .type = req->type,
                                           .prefix = prefix,
                                           .older_than_ms = req->older_than_ms,
                                           .after = after,
                                           .max = svc_scoped_page_rows(sc, max)};
    svc_submit(sc, SVC_WHOLE, finish_list);
}

/* ---- ListAttempts ---- */

static Holdfast__V1__Attempt *attempt_message(struct hp_arena *arena, const struct st_attempt_row *row)
{
    Holdfast__V1__Attempt *out = hp_alloc(arena, sizeof(*out));
    if (!out)
        return NULL;
    holdfast__v1__attempt__init(out);
    out->attempt = row->attempt;
    out->execution_id = svc_unconst(row->execution_id);
    out->token = row->token;
    out->trigger = (Holdfast__V1__Trigger__Kind)row->trigger;
    out->holder = svc_unconst(row->holder);
    out->started_unix_ms = row->started_unix_ms;
    out->ended_unix_ms = row->ended_unix_ms;
    out->sending_unix_ms = row->sending_unix_ms;
    out->outcome = (Holdfast__V1__Attempt__Outcome)row->outcome;
    out->error_class = (Holdfast__V1__ErrorClass__Kind)row->error_class;
    out->message = svc_unconst(row->message);
    out->sqlstate = svc_unconst(row->sqlstate);
    out->late_unix_ms = row->late_unix_ms;
    out->late_call = svc_unconst(row->late_call);
    out->late_result = svc_binary(row->late_result);
    out->late_message = svc_unconst(row->late_message);
    out->late_count = row->late_count;
    return out;
}

static void finish_attempts(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__ListAttemptsResponse response = HOLDFAST__V1__LIST_ATTEMPTS_RESPONSE__INIT;
    size_t n = item->out.attempts.n, bytes = 0;
    if (svc_op_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.attempts = hp_alloc_array(sc->arena, n, sizeof(*response.attempts));
    while (response.attempts && response.n_attempts < n && bytes < PAGE_BYTES) { /* late results may be large */
        Holdfast__V1__Attempt *message = attempt_message(sc->arena, &item->out.attempts.rows[response.n_attempts]);
        if (!message)
            break;
        bytes += protobuf_c_message_get_packed_size(&message->base);
        response.attempts[response.n_attempts++] = message;
    }
    bool more = item->out.attempts.more || response.n_attempts < n;
    char *token = NULL;
    if (more && response.n_attempts)
        token = svc_page_token_number(sc->arena, SVC_PAGE_ATTEMPTS, response.attempts[response.n_attempts - 1]->attempt);
    if (more && !token) {
        svc_no_memory(sc);
        return;
    }
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_op_attempts(struct svc_call *sc)
{
    const Holdfast__V1__ListAttemptsRequest *req = sc->request;
    struct hp_status status;
    int64_t max, after;
    if (!svc_check_operation(req->namespace_, req->key, &status) || !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_page_after_number(sc->arena, SVC_PAGE_ATTEMPTS, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_op_item(sc, ST_OP_ATTEMPTS, req->namespace_, req->key);
    if (!item)
        return;
    item->in.op_attempts.after = after < INT32_MAX ? after : INT32_MAX;
    item->in.op_attempts.max = max;
    svc_submit(sc, SVC_WHOLE, finish_attempts);
}
