/* operation_once.c - operations of a single call: hf_operation_record and hf_operation_execute. */
#include <string.h>

#include "client/lib/operation.h"

/* It was done, or had been: for want of memory nobody will know what is stored. */
static hf_result take_outcome(struct hfi_outcome *own, bool replayed, const Holdfast__V1__BeginResponse__Replayed *from,
                              hf_error *error)
{
    const hf_outcome_kind kind = replayed ? HF_OUTCOME_REPLAYED : HF_OUTCOME_DONE;

    if (hfi_outcome_replayed(own, kind, from, error) == HF_OK)
        return HF_OK;
    return hfi_error_set(error, HF_UNKNOWN, "OUTCOME_LOST", "out of memory for the answer: the outcome is not known");
}

/* ---- Record ---- */

static hf_result read_record(struct hfi_outcome *own, hf_error *error)
{
    const Holdfast__V1__RecordResponse *response = (const Holdfast__V1__RecordResponse *)own->call.response;
    Holdfast__V1__BeginResponse__Replayed told = HOLDFAST__V1__BEGIN_RESPONSE__REPLAYED__INIT;

    told.result = response->result;
    told.result_ref = response->result_ref;
    told.first_completed_unix_ms = response->first_completed_unix_ms;
    told.attempt = response->attempt;
    told.message = hfi_mutable("");
    return take_outcome(own, response->replayed, &told, error);
}

static hf_result send_record(hf_client *client, const hf_record_options *o, unsigned char fingerprint[HF_FINGERPRINT_SIZE],
                             const struct hfi_events *events, hf_outcome **outcome, hf_error *error)
{
    Holdfast__V1__RecordRequest request = HOLDFAST__V1__RECORD_REQUEST__INIT;
    struct hfi_outcome *own = hfi_outcome_new();
    hf_result result;

    if (!own)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(o->key);
    request.type = hfi_mutable(o->type);
    request.parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint.data = fingerprint;
    request.fingerprint.len = HF_FINGERPRINT_SIZE;
    request.result.data = (uint8_t *)(uintptr_t)o->result;
    request.result.len = o->result_len;
    request.result_ref = hfi_mutable(o->result_ref);
    request.n_events = events->n;
    request.events = events->pointers;
    own->call = (struct hfi_call){.method = HFI_OPERATION "Record",
                                  .request = &request.base,
                                  .response_type = &holdfast__v1__record_response__descriptor,
                                  .retry = HFI_RETRY_HARMLESS,
                                  /* What is stored is as large as what is sent, if it isn't the same: so many travel together. */
                                  .reply_max = o->result_len + 8192};
    result = hfi_call(client, &own->call);
    hfi_error_from_call(error, result, &own->call);
    if (result == HF_OK)
        result = read_record(own, error);
    return hfi_outcome_give(own, result, outcome);
}

hf_result hf_operation_record(hf_client *client, const hf_record_options *options, hf_outcome **outcome, hf_error *error)
{
    unsigned char fingerprint[HF_FINGERPRINT_SIZE];
    struct hfi_events events;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!options || !options->key)
        return hfi_error_field(error, "key", "missing");
    result = hfi_parameters(options->fingerprint, options->parameters_json, options->parameters_len, fingerprint, error);
    if (result == HF_OK)
        result = hfi_events_init(&events, options->events, options->n_events, error);
    if (result != HF_OK)
        return result;
    result = send_record(client, options, fingerprint, &events, outcome, error);
    hfi_events_release(&events);
    return result;
}

/* ---- Execute ---- */

static bool lease_held(struct hfi_call *call)
{
    return hfi_lease_held(call->arg);
}

/* The resource and its token, of the lease if there is one. */
static hf_result name_resource(Holdfast__V1__ExecuteRequest *request, const hf_execute_options *o, hf_error *error)
{
    request->resource = hfi_mutable(o->resource);
    request->token = o->token;
    if (!o->lease)
        return HF_OK;
    if (!o->resource)
        request->resource = o->lease->items[0].resource;
    request->token = hf_lease_token_of(o->lease, request->resource);
    return request->token ? HF_OK : hfi_error_field(error, "resource", "is not one of the lease");
}

static void fill_execute(Holdfast__V1__ExecuteRequest *request, hf_client *client, const hf_execute_options *o,
                         unsigned char fingerprint[HF_FINGERPRINT_SIZE], const struct hfi_events *events)
{
    request->namespace_ = client->name_space;
    request->key = hfi_mutable(o->key);
    request->type = hfi_mutable(o->type);
    request->parameters_case = HOLDFAST__V1__EXECUTE_REQUEST__PARAMETERS_FINGERPRINT;
    request->fingerprint.data = fingerprint;
    request->fingerprint.len = HF_FINGERPRINT_SIZE;
    request->action = hfi_mutable(o->action);
    request->args = hfi_mutable(o->args);
    if (o->check_version) {
        request->expected_case = HOLDFAST__V1__EXECUTE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request->expected_version = o->expected_version;
    }
    request->n_events = events->n;
    request->events = events->pointers;
    request->holder = hfi_mutable(o->holder ? o->holder : client->holder);
}

static hf_result read_execute(struct hfi_outcome *own, hf_error *error)
{
    const Holdfast__V1__ExecuteResponse *response = (const Holdfast__V1__ExecuteResponse *)own->call.response;

    switch (response->outcome_case) {
    case HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_DONE:
        return take_outcome(own, response->replayed, response->done, error);
    case HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_IN_PROGRESS:
        return hfi_outcome_in_progress(own, response->in_progress, error);
    default:
        return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server's answer has no known outcome");
    }
}

/* What the answer says of the lease, and what it is worth if an earlier try was not answered: that one may still arrive, and be
 * accepted where the repeat was refused. */
static hf_result judge_execute(const struct hfi_call *call, hf_result result, hf_lease *lease, hf_error *error)
{
    const char *lost = NULL;

    if (lease) {
        pthread_mutex_lock(&lease->client->mutex);
        if (result == HF_LOST && !call->refused)
            hfi_lease_lose(lease, call->status.reason == HP_R_STALE_TOKEN ? HFI_LOSS_TAKEN_OVER : HFI_LOSS_EXPIRED);
        lost = lease->rule.lost;
        pthread_mutex_unlock(&lease->client->mutex);
    }
    if (call->ambiguous && result == HF_CONFLICT && call->status.reason != HP_R_PARAMETER_CONFLICT)
        return hfi_error_set(error, HF_UNKNOWN, "OUTCOME_LOST", "the answer of a first try was lost, and a repeat was refused: %s",
                             call->status.message);
    if (lost && result == HF_LOST && call->refused)
        return hfi_error_lost(error, lost, lease->items[0].resource);
    return hfi_error_from_call(error, result, call);
}

static hf_result send_execute(hf_client *client, const hf_execute_options *o, unsigned char fingerprint[HF_FINGERPRINT_SIZE],
                              const struct hfi_events *events, hf_outcome **outcome, hf_error *error)
{
    Holdfast__V1__ExecuteRequest request = HOLDFAST__V1__EXECUTE_REQUEST__INIT;
    struct hfi_outcome *own = hfi_outcome_new();
    hf_result result;

    if (!own)
        return hfi_error_no_memory(error);
    fill_execute(&request, client, o, fingerprint, events);
    result = name_resource(&request, o, error);
    if (result == HF_OK) {
        own->call = (struct hfi_call){.method = HFI_OPERATION "Execute",
                                      .request = &request.base,
                                      .response_type = &holdfast__v1__execute_response__descriptor,
                                      .retry = HFI_RETRY_HARMLESS,
                                      .reply_max = HFI_OUTCOME_REPLY_MAX,
                                      .may_send = o->lease ? lease_held : NULL,
                                      .arg = o->lease};
        result = judge_execute(&own->call, hfi_call(client, &own->call), o->lease, error);
        if (result == HF_OK)
            result = read_execute(own, error);
    }
    return hfi_outcome_give(own, result, outcome);
}

hf_result hf_operation_execute(hf_client *client, const hf_execute_options *options, hf_outcome **outcome, hf_error *error)
{
    unsigned char fingerprint[HF_FINGERPRINT_SIZE];
    struct hfi_events events;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!options || !options->key)
        return hfi_error_field(error, "key", "missing");
    if (options->lease && options->lease->client != client)
        return hfi_error_field(error, "lease", "is another client's");
    result = hfi_parameters(options->fingerprint, options->parameters_json, options->parameters_len, fingerprint, error);
    if (result == HF_OK)
        result = hfi_events_init(&events, options->events, options->n_events, error);
    if (result != HF_OK)
        return result;
    result = send_execute(client, options, fingerprint, &events, outcome, error);
    hfi_events_release(&events);
    return result;
}
