/* operation.c - hf_operation: the handle, fingerprints, and what the calls of operations share. */
#include "client/lib/operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/canon.h"

char *hfi_mutable(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

hf_result hfi_error_field(hf_error *error, const char *field, const char *what)
{
    hfi_error_set(error, HF_INVALID, "MALFORMED", "%s: %s", field, what);
    if (error)
        snprintf(error->field, sizeof(error->field), "%s", field);
    return HF_INVALID;
}

/* ---- parameters, events ---- */

hf_result hf_fingerprint_json(const char *json, size_t len, unsigned char fingerprint[HF_FINGERPRINT_SIZE], hf_error *error)
{
    struct hp_canon_error why;

    if (hp_fingerprint(json, len, fingerprint, &why))
        return hfi_error_set(error, HF_OK, "", "%s", "");
    if (why.no_memory)
        return hfi_error_no_memory(error);
    return hfi_error_set(error, HF_INVALID, "MALFORMED", "at byte %zu of the JSON: %s", why.at, why.text);
}

hf_result hfi_parameters(const unsigned char *given, const char *json, size_t len, unsigned char fingerprint[HF_FINGERPRINT_SIZE],
                         hf_error *error)
{
    hf_result result;

    if (!given == !json)
        return hfi_error_field(error, "parameters", "give either fingerprint or parameters_json");
    if (given) {
        memcpy(fingerprint, given, HF_FINGERPRINT_SIZE);
        return HF_OK;
    }
    result = hf_fingerprint_json(json, len ? len : strlen(json), fingerprint, error);
    if (result == HF_INVALID && error)
        snprintf(error->field, sizeof(error->field), "parameters_json");
    return result;
}

hf_result hfi_events_init(struct hfi_events *events, const hf_event *from, size_t n, hf_error *error)
{
    memset(events, 0, sizeof(*events));
    if (n == 0)
        return HF_OK;
    if (n > HF_EVENTS_MAX || !from)
        return hfi_error_field(error, "events", "must be 100 at most");
    events->events = calloc(n, sizeof(*events->events));
    events->pointers = calloc(n, sizeof(Holdfast__V1__Event *));
    if (!events->events || !events->pointers) {
        hfi_events_release(events);
        return hfi_error_no_memory(error);
    }
    for (size_t i = 0; i < n; i++) {
        Holdfast__V1__Event *event = events->pointers[i] = &events->events[i];
        holdfast__v1__event__init(event);
        event->aggregate_type = hfi_mutable(from[i].aggregate_type);
        event->aggregate_id = hfi_mutable(from[i].aggregate_id);
        event->type = hfi_mutable(from[i].type);
        event->payload.data = (uint8_t *)(uintptr_t)from[i].payload;
        event->payload.len = from[i].payload_len;
    }
    events->n = n;
    return HF_OK;
}

void hfi_events_release(struct hfi_events *events)
{
    free(events->events);
    free(events->pointers);
    memset(events, 0, sizeof(*events));
}

/* ---- outcomes ---- */

bool hfi_take_bytes(struct hp_arena *arena, const ProtobufCBinaryData *from, const void **data, size_t *len)
{
    char *copy = hp_alloc(arena, from->len + 1);

    if (!copy)
        return false;
    if (from->len)
        memcpy(copy, from->data, from->len);
    copy[from->len] = '\0';
    *data = copy;
    *len = from->len;
    return true;
}

struct hfi_outcome *hfi_outcome_new(void)
{
    struct hfi_outcome *own = calloc(1, sizeof(*own));

    if (own) {
        own->outcome.result = own->outcome.result_ref = "";
        own->outcome.message = own->outcome.holder = "";
    }
    return own;
}

void hf_outcome_free(hf_outcome *outcome)
{
    struct hfi_outcome *own = (struct hfi_outcome *)outcome;

    if (!own)
        return;
    hfi_call_release(&own->call);
    free(own);
}

hf_result hfi_outcome_replayed(struct hfi_outcome *own, hf_outcome_kind kind, const Holdfast__V1__BeginResponse__Replayed *from,
                               hf_error *error)
{
    hf_outcome *to = &own->outcome;

    if (!hfi_take_bytes(own->call.arena, &from->result, &to->result, &to->result_len))
        return hfi_error_no_memory(error);
    to->kind = kind;
    to->attempt = from->attempt;
    to->result_ref = from->result_ref;
    to->first_completed_unix_ms = from->first_completed_unix_ms;
    to->failed = from->failed;
    to->cancelled = from->cancelled;
    to->error_class = (hf_error_class)from->error_class;
    to->message = from->message;
    return HF_OK;
}

hf_result hfi_outcome_in_progress(struct hfi_outcome *own, const Holdfast__V1__BeginResponse__InProgress *from, hf_error *error)
{
    (void)error;
    own->outcome.kind = HF_OUTCOME_IN_PROGRESS;
    own->outcome.holder = from->holder;
    own->outcome.remaining_ms = from->remaining_ms;
    own->outcome.attempt = from->attempt;
    return HF_OK;
}

hf_result hfi_outcome_give(struct hfi_outcome *own, hf_result result, hf_outcome **outcome)
{
    own->call.request = NULL; /* it was the caller's frame */
    own->call.wait = NULL;
    if (result == HF_OK)
        *outcome = &own->outcome;
    else
        hf_outcome_free(&own->outcome);
    return result;
}

/* ---- the handle ---- */

bool hf_operation_valid(hf_operation *operation)
{
    return hf_lease_valid(operation->lease);
}

const char *hf_operation_loss(hf_operation *operation)
{
    return hf_lease_loss(operation->lease);
}

const char *hf_operation_key(const hf_operation *operation)
{
    return operation->lease->items[0].resource;
}

int64_t hf_operation_token(const hf_operation *operation)
{
    return hf_lease_token(operation->lease);
}

int64_t hf_operation_attempt(const hf_operation *operation)
{
    return operation->attempt;
}

const char *hf_operation_execution_id(const hf_operation *operation)
{
    return operation->execution_id;
}

int64_t hf_operation_remaining_ms(hf_operation *operation)
{
    return hf_lease_remaining_ms(operation->lease);
}

hf_result hf_operation_renew_now(hf_operation *operation, hf_error *error)
{
    return hf_renew_now(operation->lease, error);
}

void hf_operation_free(hf_operation *operation)
{
    if (operation)
        hf_lease_free(operation->lease);
}
