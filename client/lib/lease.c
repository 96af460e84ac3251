/* lease.c - hf_lease: the handle, its end, and what can be asked of it. */
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "holdfast/v1/lease.pb-c.h"

struct hf_lease *hfi_lease_new(struct hf_client *client, const struct hfi_kind *kind, size_t n_items, const char *const *resources,
                               const int64_t *tokens)
{
    struct hf_lease *lease = calloc(1, sizeof(*lease));

    if (!lease)
        return NULL;
    lease->client = client;
    lease->kind = kind;
    lease->refs = 1;
    if (hfi_cond_init(&lease->idle)) {
        free(lease);
        return NULL;
    }
    for (size_t i = 0; i < n_items; i++, lease->n_items++) {
        lease->items[i].resource = strdup(resources[i]);
        lease->items[i].token = tokens ? tokens[i] : 0;
        if (!lease->items[i].resource) {
            hfi_lease_delete(lease);
            return NULL;
        }
    }
    return lease;
}

void hfi_lease_items(const struct hf_lease *lease, Holdfast__V1__LeaseItem *items, Holdfast__V1__LeaseItem **pointers)
{
    for (size_t i = 0; i < lease->n_items; i++) {
        holdfast__v1__lease_item__init(&items[i]);
        items[i].resource = lease->items[i].resource;
        items[i].token = lease->items[i].token;
        pointers[i] = &items[i];
    }
}

void hfi_lease_delete(struct hf_lease *lease)
{
    if (!lease)
        return;
    for (size_t i = 0; i < lease->n_items; i++)
        free(lease->items[i].resource);
    pthread_cond_destroy(&lease->idle);
    free(lease->operation);
    free(lease);
}

void hfi_lease_add(struct hf_lease *lease)
{
    struct hf_client *client = lease->client;

    lease->next = client->leases;
    lease->prev = &client->leases;
    if (lease->next)
        lease->next->prev = &lease->next;
    client->leases = lease;
    hfi_renew_expect(client, lease->rule.deadline_ms);
    if (!lease->no_renewal)
        hfi_renew_expect(client, lease->renew_at_ms);
}

void hfi_lease_unref(struct hf_lease *lease)
{
    if (--lease->refs == 0)
        hfi_lease_delete(lease);
}

void hfi_lease_lose(struct hf_lease *lease, const char *reason)
{
    if (hfi_rule_lose(&lease->rule, reason))
        hfi_notify_queue(lease);
}

bool hfi_lease_held(struct hf_lease *lease)
{
    const bool was = !lease->rule.lost;
    const bool held = hfi_rule_held(&lease->rule, hfi_now(lease->client));

    if (was && !held)
        hfi_notify_queue(lease);
    return held;
}

hf_result hfi_lease_enter(struct hf_lease *lease, hf_error *error)
{
    struct hf_client *client = lease->client;
    hf_result result = HF_OK;

    pthread_mutex_lock(&client->mutex);
    while (lease->writing)
        client->ports.clock->wait(client->ports.clock, &lease->idle, &client->mutex, HFI_NEVER);
    if (hfi_lease_held(lease))
        lease->writing = true;
    else
        result = hfi_error_lost(error, lease->rule.lost, lease->items[0].resource);
    pthread_mutex_unlock(&client->mutex);
    return result;
}

void hfi_lease_leave(struct hf_lease *lease)
{
    pthread_mutex_lock(&lease->client->mutex);
    lease->writing = false;
    pthread_cond_broadcast(&lease->idle);
    pthread_mutex_unlock(&lease->client->mutex);
}

void hf_lease_free(hf_lease *lease)
{
    struct hf_client *client;

    if (!lease || !hfi_same_process(lease->client))
        return;
    client = lease->client;
    pthread_mutex_lock(&client->mutex);
    (void)hfi_rule_lose(&lease->rule, HFI_LOSS_RELEASED); /* a renewal in flight has nothing to say any more */
    hfi_notify_forget(lease);
    if (lease->prev) {
        *lease->prev = lease->next;
        if (lease->next)
            lease->next->prev = lease->prev;
    }
    lease->prev = NULL;
    hfi_lease_unref(lease);
    pthread_mutex_unlock(&client->mutex);
}

bool hf_lease_valid(hf_lease *lease)
{
    bool held;

    if (!hfi_same_process(lease->client))
        return false;
    pthread_mutex_lock(&lease->client->mutex);
    held = hfi_lease_held(lease);
    pthread_mutex_unlock(&lease->client->mutex);
    return held;
}

const char *hf_lease_loss(hf_lease *lease)
{
    const char *reason;

    if (!hfi_same_process(lease->client))
        return "FORKED";
    pthread_mutex_lock(&lease->client->mutex);
    (void)hfi_lease_held(lease);
    reason = lease->rule.lost;
    pthread_mutex_unlock(&lease->client->mutex);
    return reason;
}

int64_t hf_lease_deadline_ms(hf_lease *lease)
{
    int64_t deadline;

    if (!hfi_same_process(lease->client))
        return 0;
    pthread_mutex_lock(&lease->client->mutex);
    deadline = lease->rule.deadline_ms;
    pthread_mutex_unlock(&lease->client->mutex);
    return deadline;
}

int64_t hf_lease_remaining_ms(hf_lease *lease)
{
    int64_t left = 0;

    if (!hfi_same_process(lease->client))
        return 0;
    pthread_mutex_lock(&lease->client->mutex);
    if (hfi_lease_held(lease)) {
        left = lease->rule.deadline_ms - hfi_now(lease->client);
        if (left < 0)
            left = 0;
    }
    pthread_mutex_unlock(&lease->client->mutex);
    return left;
}

int64_t hf_lease_token(const hf_lease *lease)
{
    return hfi_same_process(lease->client) ? lease->items[0].token : 0;
}

int64_t hf_lease_token_of(const hf_lease *lease, const char *resource)
{
    if (!hfi_same_process(lease->client))
        return 0;
    for (size_t i = 0; i < lease->n_items; i++) {
        if (strcmp(lease->items[i].resource, resource) == 0)
            return lease->items[i].token;
    }
    return 0;
}

size_t hf_lease_count(const hf_lease *lease)
{
    return hfi_same_process(lease->client) ? lease->n_items : 0;
}

const char *hf_lease_resource(const hf_lease *lease, size_t index)
{
    return index < hf_lease_count(lease) ? lease->items[index].resource : NULL;
}

/* The server's word on each item. `again`: an earlier try may have freed them, and then others may have had them since. */
static hf_result read_release(const Holdfast__V1__ReleaseResponse *response, const struct hf_lease *lease, bool again,
                              hf_error *error)
{
    if (response->n_items != lease->n_items)
        return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server answered %zu items of %zu", response->n_items,
                             lease->n_items);
    for (size_t i = 0; i < response->n_items; i++) {
        const Holdfast__V1__ReleaseResult *item = response->items[i];
        if (item->error) {
            struct hp_status status;
            hp_status_set(&status, hp_reason_by_name(item->error->reason), "%s", item->error->message);
            status.code = (enum hp_code)item->error->code;
            if (again && hfi_result(&status) == HF_UNAVAILABLE)
                return hfi_error_set(error, HF_UNKNOWN, "OUTCOME_LOST", "an earlier try was not answered, and now: %s",
                                     item->error->message);
            return hfi_error_from_status(error, hfi_result(&status), &status);
        }
        if (!item->was_held && again)
            return hfi_error_set(error, HF_UNKNOWN, "OUTCOME_LOST",
                                 "the lease of %s has ended: by an earlier try of this call that was not answered, or before it",
                                 lease->items[i].resource);
        if (!item->was_held)
            return hfi_error_set(error, HF_LOST, HFI_LOSS_EXPIRED, "the lease of %s had ended before it was released",
                                 lease->items[i].resource);
    }
    return hfi_error_set(error, HF_OK, "", "%s", "");
}

static hf_result send_release(struct hf_lease *lease, hf_error *error)
{
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    Holdfast__V1__LeaseItem items[HF_RESOURCES_MAX];
    Holdfast__V1__LeaseItem *pointers[HF_RESOURCES_MAX];
    struct hfi_call call = {.method = HFI_RELEASE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__release_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    hf_result result;

    hfi_lease_items(lease, items, pointers);
    request.namespace_ = lease->client->name_space;
    request.n_items = lease->n_items;
    request.items = pointers;
    result = hfi_call(lease->client, &call);
    if (result == HF_OK)
        result = read_release((const Holdfast__V1__ReleaseResponse *)call.response, lease, call.ambiguous, error);
    else
        hfi_error_from_call(error, result, &call);
    hfi_call_release(&call);
    return result;
}

hf_result hf_release(hf_lease *lease, hf_error *error)
{
    struct hf_client *client = lease->client;
    const char *lost;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    pthread_mutex_lock(&client->mutex);
    while (lease->writing)
        client->ports.clock->wait(client->ports.clock, &lease->idle, &client->mutex, HFI_NEVER);
    (void)hfi_lease_held(lease);
    lost = lease->rule.lost;
    (void)hfi_rule_lose(&lease->rule, HFI_LOSS_RELEASED);
    pthread_mutex_unlock(&client->mutex);
    if (lost)
        return hfi_error_lost(error, lost, lease->items[0].resource);
    return send_release(lease, error);
}
