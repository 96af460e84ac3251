/* operation_decide.c - what a person decides about operations. Each names the revision that was seen (or is told apart by its
 * parameters), so that a repeat does no harm. */
#include <stdio.h>
#include <string.h>

#include "client/lib/operation.h"

static hf_result decide(hf_client *client, const char *method, const ProtobufCMessage *request, hf_decided *decided,
                        hf_error *error)
{
    struct hfi_call call = {.method = method,
                            .request = request,
                            .response_type = &holdfast__v1__decide_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    const hf_result result = hfi_call(client, &call);

    hfi_error_from_call(error, result, &call);
    if (result == HF_OK && decided) {
        const Holdfast__V1__DecideResponse *response = (const Holdfast__V1__DecideResponse *)call.response;
        *decided = (hf_decided){
            .state = (hf_operation_state)response->state, .revision = response->revision, .replayed = response->replayed};
    }
    hfi_call_release(&call);
    return result;
}

static char *actor_of(const hf_client *client, const char *actor)
{
    return hfi_mutable(actor ? actor : client->holder);
}

hf_result hf_operation_retry(hf_client *client, const char *key, const hf_decision *decision, hf_decided *decided, hf_error *error)
{
    Holdfast__V1__RetryRequest request = HOLDFAST__V1__RETRY_REQUEST__INIT;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!decision)
        return hfi_error_field(error, "decision", "missing");
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(key);
    request.revision = decision->revision;
    request.actor = actor_of(client, decision->actor);
    request.reason = hfi_mutable(decision->reason);
    return decide(client, HFI_OPERATION "Retry", &request.base, decided, error);
}

hf_result hf_operation_cancel(hf_client *client, const char *key, const hf_decision *decision, hf_decided *decided, hf_error *error)
{
    Holdfast__V1__CancelRequest request = HOLDFAST__V1__CANCEL_REQUEST__INIT;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!decision)
        return hfi_error_field(error, "decision", "missing");
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(key);
    request.revision = decision->revision;
    request.actor = actor_of(client, decision->actor);
    request.reason = hfi_mutable(decision->reason);
    return decide(client, HFI_OPERATION "Cancel", &request.base, decided, error);
}

hf_result hf_operation_reconcile(hf_client *client, const char *key, const hf_reconcile_options *options,
                                 const hf_decision *decision, hf_decided *decided, hf_error *error)
{
    Holdfast__V1__ReconcileRequest request = HOLDFAST__V1__RECONCILE_REQUEST__INIT;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!options || !decision)
        return hfi_error_field(error, options ? "decision" : "options", "missing");
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(key);
    request.revision = decision->revision;
    request.outcome = (Holdfast__V1__ReconcileRequest__Outcome)options->outcome;
    request.result.data = (uint8_t *)(uintptr_t)options->result;
    request.result.len = options->result_len;
    request.result_ref = hfi_mutable(options->result_ref);
    request.actor = actor_of(client, decision->actor);
    request.reason = hfi_mutable(decision->reason);
    return decide(client, HFI_OPERATION "Reconcile", &request.base, decided, error);
}

static hf_result read_compensation(const Holdfast__V1__CompensateResponse *response, hf_compensation *compensation, hf_error *error)
{
    if (strlen(response->key) > HF_NAME_MAX || response->fingerprint.len != HF_FINGERPRINT_SIZE)
        return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server's answer has no key or no fingerprint");
    memset(compensation, 0, sizeof(*compensation));
    snprintf(compensation->key, sizeof(compensation->key), "%s", response->key);
    compensation->state = (hf_operation_state)response->state;
    compensation->revision = response->revision;
    compensation->replayed = response->replayed;
    memcpy(compensation->fingerprint, response->fingerprint.data, HF_FINGERPRINT_SIZE);
    return HF_OK;
}

hf_result hf_operation_compensate(hf_client *client, const char *key, const hf_compensate_options *options,
                                  hf_compensation *compensation, hf_error *error)
{
    Holdfast__V1__CompensateRequest request = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "Compensate",
                            .request = &request.base,
                            .response_type = &holdfast__v1__compensate_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!options)
        return hfi_error_field(error, "options", "missing");
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(key);
    request.type = hfi_mutable(options->type);
    request.payload.data = (uint8_t *)(uintptr_t)options->payload;
    request.payload.len = options->payload_len;
    request.actor = actor_of(client, options->actor);
    request.reason = hfi_mutable(options->reason);
    result = hfi_call(client, &call);
    hfi_error_from_call(error, result, &call);
    if (result == HF_OK)
        result = read_compensation((const Holdfast__V1__CompensateResponse *)call.response, compensation, error);
    hfi_call_release(&call);
    return result;
}
