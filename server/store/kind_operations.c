/*
 * kind_operations.c - see kind_io.h: begin, renew, sending, finish, record, execute: items of one operation each, that go in
 * batches. Builders follow the order of the statement's parameters, readers that of its columns.
 */
#include <string.h>

#include "store/kind_io.h"
#include "store/rows.h"

static const char *or_none(const char *text)
{
    return text ? text : "";
}

/* ------------------------------------------------------------------------------------------------ events, weights */

static const struct st_events *events_of(const struct st_item *item)
{
    static const struct st_events none = {NULL, 0};
    switch (item->kind) {
    case ST_OP_FINISH:
        return &item->in.op_finish.events;
    case ST_OP_RECORD:
        return &item->in.op_record.events;
    case ST_OP_EXECUTE:
        return &item->in.op_execute.events;
    default:
        return &none;
    }
}

/* One array with an element for each event of the batch, which `element` gives. */
static void build_each_event(struct st_params *params, const struct st_call *call, uint32_t oid, size_t n,
                             void (*element)(struct st_params *params, int32_t item, const struct st_event *event))
{
    st_params_array(params, oid, n);
    for (size_t i = 0; i < call->n; i++) {
        const struct st_events *events = events_of(call->items[i]);
        for (size_t k = 0; k < events->n; k++)
            element(params, (int32_t)i + 1, &events->list[k]);
    }
}

static void event_item(struct st_params *params, int32_t item, const struct st_event *event)
{
    (void)event;
    st_element_int4(params, item);
}

static void event_aggregate_type(struct st_params *params, int32_t item, const struct st_event *event)
{
    (void)item;
    st_element_text(params, event->aggregate_type);
}

static void event_aggregate_id(struct st_params *params, int32_t item, const struct st_event *event)
{
    (void)item;
    st_element_text(params, event->aggregate_id);
}

static void event_type(struct st_params *params, int32_t item, const struct st_event *event)
{
    (void)item;
    st_element_text(params, event->type);
}

static void event_payload(struct st_params *params, int32_t item, const struct st_event *event)
{
    (void)item;
    st_element_bytes(params, event->payload.data ? event->payload.data : (const unsigned char *)"", event->payload.len);
}

/* Five parameters: whose each event is, by number, and what it is. NULL if there are none, which costs SQL nothing. */
static void build_events(struct st_params *params, const struct st_call *call)
{
    size_t n = 0;
    for (size_t i = 0; i < call->n; i++)
        n += events_of(call->items[i])->n;
    if (n == 0) {
        for (int i = 0; i < 5; i++)
            st_params_null(params);
        return;
    }
    build_each_event(params, call, ST_OID_INT4, n, event_item);
    build_each_event(params, call, ST_OID_TEXT, n, event_aggregate_type);
    build_each_event(params, call, ST_OID_TEXT, n, event_aggregate_id);
    build_each_event(params, call, ST_OID_TEXT, n, event_type);
    build_each_event(params, call, ST_OID_BYTEA, n, event_payload);
}

size_t st_weigh_operation(const struct st_item *item)
{
    size_t bytes = item->kind == ST_OP_FINISH    ? item->in.op_finish.result.len
                   : item->kind == ST_OP_DECIDE  ? item->in.op_decide.result.len
                   : item->kind == ST_OP_RECORD  ? item->in.op_record.result.len
                   : item->kind == ST_OP_EXECUTE ? strlen(or_none(item->in.op_execute.args))
                                                 : 0;
    const struct st_events *events = events_of(item);
    for (size_t i = 0; i < events->n; i++)
        bytes += events->list[i].payload.len;
    return bytes;
}

/* ------------------------------------------------------------------------------------------------ attempts */

void st_build_op_begin(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.op_begin.type);
    ST_BUILD_ARRAY(ST_OID_BYTEA, st_element_bytes, item->in.op_begin.fingerprint.data, item->in.op_begin.fingerprint.len);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.op_begin.holder);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.op_begin.ttl_ms);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.op_begin.request_id);
    ST_BUILD_ARRAY(ST_OID_INT2, st_element_int2, (int16_t)item->in.op_begin.trigger);
    st_params_int4(params, call->max_value_bytes);
}

void st_read_op_begin(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    if (st_read_later(item, st_get_int8(res, row, 3)))
        return;
    item->out.op = (struct st_op_told){
        .attempt = st_get_int4(res, row, 2),
        .token = st_get_int8(res, row, 3),
        .ttl_ms = st_get_int8(res, row, 4),
        .execution_id = st_get_text(res, row, 5),
        .trigger = st_get_int2(res, row, 6),
        .state = st_get_int2(res, row, 7),
        .holder = st_get_text(res, row, 8),
        .remaining_ms = st_get_int8(res, row, 9),
        .result = st_get_bytes(res, row, 10),
        .result_ref = st_get_text(res, row, 11),
        .ended_unix_ms = st_get_int8(res, row, 12),
        .error_class = st_get_int2(res, row, 13),
        .message = st_get_text(res, row, 14),
        .sqlstate = st_get_text(res, row, 15),
    };
    call->value_bytes += item->out.op.result.len;
}

void st_build_op_renew(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.renew.token);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.renew.ttl_ms);
}

void st_build_op_sending(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.op_sending.token);
}

void st_read_op_sending(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.op_moved =
        (struct st_op_moved){.remaining_ms = st_get_int8(res, row, 2), .state = st_get_int2(res, row, 3), .message = "", .key = ""};
}

void st_build_op_finish(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.op_finish.token);
    ST_BUILD_ARRAY(ST_OID_INT2, st_element_int2, (int16_t)item->in.op_finish.call);
    ST_BUILD_ARRAY(ST_OID_BYTEA, st_element_bytes, item->in.op_finish.result.data, item->in.op_finish.result.len);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, or_none(item->in.op_finish.result_ref));
    ST_BUILD_ARRAY(ST_OID_INT2, st_element_int2, (int16_t)item->in.op_finish.error_class);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, or_none(item->in.op_finish.message));
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, or_none(item->in.op_finish.sqlstate));
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.op_finish.retry_after_ms);
    build_events(params, call);
}

void st_read_op_finish(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.op_moved = (struct st_op_moved){
        .state = st_get_int2(res, row, 2),
        .revision = st_get_int4(res, row, 3),
        .due_ms = st_get_int8(res, row, 4),
        .attempts = st_get_int4(res, row, 5),
        .exhausted = st_get_bool(res, row, 6),
        .succeeded_after_retry = st_get_bool(res, row, 7),
        .message = "",
        .key = "",
    };
}

/* ------------------------------------------------------------------------------------------------ at once */

void st_build_op_record(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.op_record.type);
    ST_BUILD_ARRAY(ST_OID_BYTEA, st_element_bytes, item->in.op_record.fingerprint.data, item->in.op_record.fingerprint.len);
    ST_BUILD_ARRAY(ST_OID_BYTEA, st_element_bytes, item->in.op_record.result.data, item->in.op_record.result.len);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, or_none(item->in.op_record.result_ref));
    build_events(params, call);
    st_params_int4(params, call->max_value_bytes);
}

void st_read_op_record(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    if (st_read_later(item, st_get_int8(res, row, 7)))
        return;
    item->out.op = (struct st_op_told){
        .state = st_get_int2(res, row, 2),
        .holder = st_get_text(res, row, 3),
        .remaining_ms = st_get_int8(res, row, 4),
        .result = st_get_bytes(res, row, 5),
        .result_ref = st_get_text(res, row, 6),
        .ended_unix_ms = st_get_int8(res, row, 7),
        .attempt = st_get_int4(res, row, 8),
        .error_class = st_get_int2(res, row, 9),
        .message = st_get_text(res, row, 10),
        .execution_id = "",
        .sqlstate = "",
    };
    call->value_bytes += item->out.op.result.len;
}

static bool has_resource(const struct st_item *item)
{
    return item->in.op_execute.resource && item->in.op_execute.resource[0];
}

void st_build_op_execute(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.op_execute.type);
    ST_BUILD_ARRAY(ST_OID_BYTEA, st_element_bytes, item->in.op_execute.fingerprint.data, item->in.op_execute.fingerprint.len);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.op_execute.action);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, *or_none(item->in.op_execute.args) ? item->in.op_execute.args : "{}");
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, has_resource(item) ? item->in.op_execute.resource : NULL);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.op_execute.token);
    st_params_array(params, ST_OID_INT8, call->n);
    for (size_t i = 0; i < call->n; i++) {
        if (has_resource(call->items[i]) && call->items[i]->in.op_execute.expects)
            st_element_int8(params, call->items[i]->in.op_execute.expected_version);
        else
            st_element_null(params);
    }
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, or_none(item->in.op_execute.holder));
    build_events(params, call);
    st_params_int4(params, call->max_value_bytes);
}

void st_read_op_execute(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    if (st_read_later(item, st_get_int8(res, row, 8)))
        return;
    item->out.op = (struct st_op_told){
        .result = st_get_bytes(res, row, 2),
        .result_ref = st_get_text(res, row, 3),
        .ended_unix_ms = st_get_int8(res, row, 4),
        .attempt = st_get_int4(res, row, 5),
        .sqlstate = st_get_text(res, row, 6),
        .message = st_get_text(res, row, 7),
        .fence = st_get_int8(res, row, 8),
        .version = st_get_int8(res, row, 9),
        .holder = st_get_text(res, row, 10),
        .remaining_ms = st_get_int8(res, row, 11),
        .error_class = st_get_int2(res, row, 12),
        .state = st_get_int2(res, row, 13),
        .execution_id = "",
    };
    call->value_bytes += item->out.op.result.len;
}
