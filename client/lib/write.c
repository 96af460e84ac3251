/* write.c - guarded writes: one in flight a lease, numbered, and refused here once the lease may be lost. */
#include <stdio.h>
#include <string.h>

#include "client/lib/client.h"
#include "holdfast/v1/resource.pb-c.h"

/* Ours is the write in flight from now on, or the lease is lost. */
static hf_result begin(struct hf_lease *lease, int64_t *seq, hf_error *error)
{
    const hf_result result = hfi_lease_enter(lease, error);

    if (result == HF_OK)
        *seq = ++lease->write_seq; /* only the write in flight counts it on */
    return result;
}

static bool may_send(struct hfi_call *call)
{
    return hfi_lease_held(call->arg);
}

/* What the call came to, for the lease and for the caller. */
static hf_result finish(struct hf_lease *lease, hf_result result, const struct hfi_call *call, const char *resource,
                        hf_error *error)
{
    struct hf_client *client = lease->client;
    const char *lost;

    pthread_mutex_lock(&client->mutex);
    lease->writing = false;
    pthread_cond_broadcast(&lease->idle);
    if (result == HF_LOST && !call->refused)
        hfi_lease_lose(lease, call->status.reason == HP_R_STALE_TOKEN ? HFI_LOSS_TAKEN_OVER : HFI_LOSS_EXPIRED);
    lost = lease->rule.lost;
    pthread_mutex_unlock(&client->mutex);

    hfi_error_from_call(error, result, call);
    if (result == HF_LOST && call->ambiguous) {
        /* The first try may have been accepted before the token became stale; the server keeps only the newest write. */
        hfi_error_set(error, HF_UNKNOWN, "OUTCOME_LOST",
                      "the answer of a first try was lost and a repeat was refused (%s): it is not known whether %s was written",
                      hp_reason_name((int)call->status.reason), resource);
        return HF_UNKNOWN;
    }
    if (result == HF_LOST && call->refused)
        return hfi_error_lost(error, lost ? lost : HFI_LOSS_DEADLINE, resource);
    return result;
}

static void give_result(hf_write_result *result, int64_t version, int64_t fence, bool replayed)
{
    if (!result)
        return;
    memset(result, 0, sizeof(*result));
    result->version = version;
    result->fence = fence;
    result->replayed = replayed;
}

/* The resource to write, and its token; NULL if it isn't the lease's. */
static const struct hfi_held_item *find(const struct hf_lease *lease, const hf_write_options *options)
{
    const char *name = options && options->resource ? options->resource : lease->items[0].resource;

    for (size_t i = 0; i < lease->n_items; i++) {
        if (strcmp(lease->items[i].resource, name) == 0)
            return &lease->items[i];
    }
    return NULL;
}

static hf_result not_ours(const hf_write_options *options, hf_error *error)
{
    hfi_error_set(error, HF_INVALID, "MALFORMED", "%s is not a resource of this lease", options->resource);
    if (error)
        snprintf(error->field, sizeof(error->field), "resource");
    return HF_INVALID;
}

hf_result hf_write(hf_lease *lease, const hf_write_options *options, const void *value, size_t len, hf_write_result *out,
                   hf_error *error)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_WRITE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__write_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS,
                            .may_send = may_send,
                            .arg = lease};
    const struct hfi_held_item *item;
    hf_result result;

    if (!hfi_same_process(lease->client))
        return hfi_error_misuse(error);
    item = find(lease, options);
    if (!item)
        return not_ours(options, error);
    result = begin(lease, &request.write_seq, error);
    if (result != HF_OK)
        return result;
    request.namespace_ = lease->client->name_space;
    request.resource = item->resource;
    request.token = item->token;
    request.value.data = (uint8_t *)(uintptr_t)value;
    request.value.len = len;
    if (options && options->check_version) {
        request.expected_case = HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = options->expected_version;
    }
    result = hfi_call(lease->client, &call);
    if (result == HF_OK) {
        const Holdfast__V1__WriteResponse *response = (const Holdfast__V1__WriteResponse *)call.response;
        give_result(out, response->version, response->fence, response->replayed);
    }
    result = finish(lease, result, &call, item->resource, error);
    hfi_call_release(&call);
    return result;
}

hf_result hf_delete(hf_lease *lease, const hf_write_options *options, hf_write_result *out, hf_error *error)
{
    Holdfast__V1__DeleteRequest request = HOLDFAST__V1__DELETE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_DELETE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__delete_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS,
                            .may_send = may_send,
                            .arg = lease};
    const struct hfi_held_item *item;
    hf_result result;

    if (!hfi_same_process(lease->client))
        return hfi_error_misuse(error);
    item = find(lease, options);
    if (!item)
        return not_ours(options, error);
    result = begin(lease, &request.write_seq, error);
    if (result != HF_OK)
        return result;
    request.namespace_ = lease->client->name_space;
    request.resource = item->resource;
    request.token = item->token;
    if (options && options->check_version) {
        request.expected_case = HOLDFAST__V1__DELETE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = options->expected_version;
    }
    result = hfi_call(lease->client, &call);
    if (result == HF_OK) {
        const Holdfast__V1__DeleteResponse *response = (const Holdfast__V1__DeleteResponse *)call.response;
        give_result(out, response->version, response->fence, response->replayed);
    }
    result = finish(lease, result, &call, item->resource, error);
    hfi_call_release(&call);
    return result;
}
