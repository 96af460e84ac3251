/* adopt.c - leases whose deadline is found out by renewing them: hf_adopt, hf_renew_now. */
#include <stdio.h>
#include <string.h>

#include "client/lib/client.h"

/* What an answered renewal says of the lease. Lock held. */
static hf_result absorb(struct hf_lease *lease, const ProtobufCMessage *response, int64_t sent_ms, bool fresh, hf_error *error)
{
    const struct hfi_rule before = lease->rule;
    size_t n;
    Holdfast__V1__RenewResult *const *results = hfi_renew_results(lease->kind, response, &n);

    if (fresh) { /* nothing was known of its deadline until this answer */
        lease->rule.deadline_ms = HFI_NEVER;
        lease->rule.lost = NULL;
    }
    if (n != lease->n_items || !hfi_renew_absorb(lease, results, sent_ms)) {
        lease->rule = before;
        return hfi_error_set(error, HF_UNAVAILABLE, "BUSY", "the lease of %s could not be renewed now", lease->items[0].resource);
    }
    if (fresh && lease->rule.lost)
        lease->rule.deadline_ms = before.deadline_ms;
    else if (fresh)
        (void)hfi_rule_grant(&lease->rule, lease->rule.ttl_ms, sent_ms, 0, results[0]->renewed->ttl_ms, hfi_now(lease->client));
    if (lease->rule.lost)
        return hfi_error_lost(error, lease->rule.lost, lease->items[0].resource);
    return hfi_error_set(error, HF_OK, "", "%s", "");
}

hf_result hfi_renew_by_call(struct hf_lease *lease, int64_t timeout_ms, bool fresh, hf_error *error)
{
    struct hf_client *client = lease->client;
    struct hfi_renew_request request;
    struct hfi_call call = {.method = lease->kind->renew,
                            .request = &request.as.base,
                            .response_type = lease->kind->renewed,
                            .timeout_ms = timeout_ms,
                            .retry = HFI_RETRY_HARMLESS};
    hf_result result;

    if (!hfi_renew_request_init(&request, &lease, 1))
        return hfi_error_no_memory(error);
    result = hfi_call(client, &call);
    if (result != HF_OK) {
        /* Whether a renewal got through makes no difference to what the caller may believe. */
        hfi_error_from_call(error, result == HF_UNKNOWN ? HF_UNAVAILABLE : result, &call);
        result = result == HF_UNKNOWN ? HF_UNAVAILABLE : result;
        goto out;
    }
    pthread_mutex_lock(&client->mutex);
    result = absorb(lease, call.response, call.sent_ms, fresh, error);
    pthread_mutex_unlock(&client->mutex);
out:
    hfi_call_release(&call);
    hfi_renew_request_release(&request);
    return result;
}

hf_result hf_renew_now(hf_lease *lease, hf_error *error)
{
    struct hf_client *client = lease->client;
    const char *lost;
    int64_t left;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    pthread_mutex_lock(&client->mutex);
    (void)hfi_lease_held(lease);
    lost = lease->rule.lost;
    left = lease->rule.deadline_ms - hfi_now(client);
    pthread_mutex_unlock(&client->mutex);
    if (lost)
        return hfi_error_lost(error, lost, lease->items[0].resource);
    return hfi_renew_by_call(lease, left < client->timeout_ms ? (left > 0 ? left : 1) : client->timeout_ms, false, error);
}

hf_result hf_adopt(hf_client *client, const hf_adopt_options *options, hf_lease **out, hf_error *error)
{
    struct hf_lease *lease;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!options || !options->resource) {
        hfi_error_set(error, HF_INVALID, "MALFORMED", "resource: missing");
        if (error)
            snprintf(error->field, sizeof(error->field), "resource");
        return HF_INVALID;
    }
    lease = hfi_lease_new(client, &hfi_leases, 1, &options->resource, &options->token);
    if (!lease)
        return hfi_error_no_memory(error);
    lease->rule.ttl_ms = options->ttl_ms ? options->ttl_ms : HF_DEFAULT_TTL_MS;
    lease->write_seq = options->last_write_seq;
    lease->on_loss = options->on_loss;
    lease->on_loss_arg = options->on_loss_arg;
    lease->no_renewal = options->no_renewal;
    result = hfi_renew_by_call(lease, 0, true, error);
    if (result != HF_OK) {
        hfi_lease_delete(lease);
        return result;
    }
    pthread_mutex_lock(&client->mutex);
    hfi_lease_add(lease);
    pthread_mutex_unlock(&client->mutex);
    *out = lease;
    return HF_OK;
}
