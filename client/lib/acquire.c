/* acquire.c - leases that begin: hf_acquire, hf_adopt; and hf_renew_now. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"

enum { POLL_MIN_MS = 50, POLL_MAX_MS = 500 };

struct acquiring {
    struct hf_client *client;
    const hf_acquire_options *options;
    Holdfast__V1__AcquireRequest request;
    struct hf_lease *lease; /* made beforehand, so that a grant cannot fail for want of memory */
    char id[HFI_ID_SIZE];
};

static hf_result bad(hf_error *error, const char *field, const char *what)
{
    hfi_error_set(error, HF_INVALID, "MALFORMED", "%s: %s", field, what);
    if (error)
        snprintf(error->field, sizeof(error->field), "%s", field);
    return HF_INVALID;
}

static hf_result check(const hf_acquire_options *o, hf_error *error)
{
    if (!o)
        return bad(error, "options", "missing");
    if (!o->resource == !o->resources)
        return bad(error, "resource", "give either resource or resources");
    if (o->resources && (o->n_resources < 1 || o->n_resources > HF_RESOURCES_MAX))
        return bad(error, "n_resources", "must be 1 to 16");
    for (size_t i = 0; o->resources && i < o->n_resources; i++) {
        if (!o->resources[i])
            return bad(error, "resources", "one is NULL");
    }
    for (size_t i = 0; i < o->n_labels; i++) {
        if (!o->labels[i].name || !o->labels[i].value)
            return bad(error, "labels", "a name or value is NULL");
    }
    if (o->wait_ms < 0 || o->wait_ms > HF_WAIT_MAX_MS)
        return bad(error, "wait_ms", "must be 0 to 3600000");
    return HF_OK;
}

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text; /* protobuf-c's messages are not const; packing only reads them */
}

static hf_result grant(struct acquiring *a, const Holdfast__V1__Granted *granted, const struct hfi_call *call, hf_error *error)
{
    struct hf_lease *lease = a->lease;
    struct hf_client *client = a->client;
    bool held;

    if (granted->n_grants != lease->n_items)
        return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server granted %zu resources of %zu", granted->n_grants,
                             lease->n_items);
    for (size_t i = 0; i < lease->n_items; i++) {
        if (strcmp(granted->grants[i]->resource, lease->items[i].resource) != 0 || granted->grants[i]->token < 1)
            return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server granted another resource than %s",
                                 lease->items[i].resource);
        lease->items[i].token = granted->grants[i]->token;
    }
    lease->on_loss = a->options->on_loss;
    lease->on_loss_arg = a->options->on_loss_arg;
    lease->no_renewal = a->options->no_renewal;
    lease->renew_at_ms = call->first_sent_ms + hfi_renew_interval_ms(a->request.ttl_ms);
    pthread_mutex_lock(&client->mutex);
    held =
        hfi_rule_grant(&lease->rule, a->request.ttl_ms, call->first_sent_ms, granted->waited_ms, granted->ttl_ms, hfi_now(client));
    if (held)
        hfi_lease_add(lease);
    pthread_mutex_unlock(&client->mutex);
    if (!held)
        return hfi_error_lost(error, HFI_LOSS_DEADLINE, lease->items[0].resource);
    return hfi_error_set(error, HF_OK, "", "%s", "");
}

static void tell_held(const Holdfast__V1__Held *from, hf_held *held, hf_error *error)
{
    if (held) {
        memset(held, 0, sizeof(*held));
        snprintf(held->resource, sizeof(held->resource), "%s", from->resource);
        snprintf(held->task, sizeof(held->task), "%s", from->task);
        snprintf(held->holder, sizeof(held->holder), "%s", from->holder);
        held->token = from->token;
        held->remaining_ms = from->remaining_ms;
        held->waiters = from->waiters;
        held->guarded = from->guarded;
    }
    if (from->guarded)
        hfi_error_set(error, HF_HELD, "HELD", "%s is guarded by a transaction", from->resource);
    else if (!from->holder[0])
        hfi_error_set(error, HF_HELD, "HELD", "%s is free, but cannot be had for another %lld ms", from->resource,
                      (long long)from->remaining_ms);
    else
        hfi_error_set(error, HF_HELD, "HELD", "%s is held by %s (token %lld) for another %lld ms", from->resource, from->holder,
                      (long long)from->token, (long long)from->remaining_ms);
}

/* Waits before asking again: not longer than the lease in the way has left, nor than the caller wants. */
static void pause_before_asking(struct hf_client *client, int64_t remaining_ms, int64_t until_ms)
{
    struct hfi_clock *clock = client->ports.clock;
    const int64_t now = hfi_now(client);
    int64_t ms =
        POLL_MIN_MS + hfi_jitter(0, POLL_MAX_MS - POLL_MIN_MS, POLL_MAX_MS, client->ports.random->next(client->ports.random));
    pthread_cond_t cond;

    if (remaining_ms > 0 && remaining_ms + 1 < ms)
        ms = remaining_ms + 1;
    if (now + ms < until_ms)
        until_ms = now + ms;
    if (hfi_cond_init(&cond))
        return;
    pthread_mutex_lock(&client->mutex);
    while (hfi_now(client) < until_ms && !client->closing)
        clock->wait(clock, &cond, &client->mutex, until_ms);
    pthread_mutex_unlock(&client->mutex);
    pthread_cond_destroy(&cond);
}

/* Asks until it is granted, ends otherwise, or the caller's patience is over. */
static hf_result ask(struct acquiring *a, hf_held *held, hf_error *error)
{
    const int64_t until = hfi_now(a->client) + a->options->wait_ms;
    bool renamed = false;

    for (;;) {
        struct hfi_call call = {.method = HFI_ACQUIRE,
                                .request = &a->request.base,
                                .response_type = &holdfast__v1__acquire_response__descriptor,
                                .retry = HFI_RETRY_HARMLESS};
        hf_result result = hfi_call(a->client, &call);
        const Holdfast__V1__AcquireResponse *response = (const Holdfast__V1__AcquireResponse *)call.response;
        int64_t remaining = 0;

        if (result != HF_OK) {
            hfi_error_from_call(error, result, &call);
        } else if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED) {
            result = grant(a, response->granted, &call, error);
        } else if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD) {
            result = HF_HELD;
            remaining = response->held->remaining_ms;
            tell_held(response->held, held, error);
        } else if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED) {
            result = hfi_error_set(error, HF_LOST, "ENDED", "the lease granted for this request (token %lld) is over",
                                   (long long)response->ended->token);
        } else {
            result = hfi_error_set(error, HF_FAILED, "INTERNAL", "the server's answer has no known outcome");
        }
        hfi_call_release(&call);
        /* Our own grant whose answer was lost until it ended: under a new id it is a new acquire, which is what was asked for. */
        if (result == HF_LOST && error && strcmp(error->reason, "ENDED") == 0 && !a->options->request_id && !renamed) {
            renamed = true;
            hfi_new_id(a->client, a->id);
            continue;
        }
        if (result != HF_HELD || hfi_now(a->client) >= until)
            return result;
        pause_before_asking(a->client, remaining, until);
    }
}

static bool add_labels(struct acquiring *a, Holdfast__V1__AcquireRequest__LabelsEntry **entries)
{
    const size_t n = a->options->n_labels;
    Holdfast__V1__AcquireRequest__LabelsEntry **pointers;

    *entries = NULL;
    if (n == 0)
        return true;
    pointers = calloc(n, sizeof(Holdfast__V1__AcquireRequest__LabelsEntry *));
    *entries = calloc(n, sizeof(**entries));
    a->request.labels = pointers;
    if (!pointers || !*entries)
        return false;
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__acquire_request__labels_entry__init(&(*entries)[i]);
        (*entries)[i].key = mutable(a->options->labels[i].name);
        (*entries)[i].value = mutable(a->options->labels[i].value);
        pointers[i] = &(*entries)[i];
    }
    a->request.n_labels = n;
    return true;
}

hf_result hf_acquire(hf_client *client, const hf_acquire_options *options, hf_lease **lease, hf_held *held, hf_error *error)
{
    struct acquiring a = {.client = client, .options = options};
    Holdfast__V1__AcquireRequest__LabelsEntry *entries = NULL;
    hf_error own;
    hf_result result;
    const char *const *resources;
    size_t n;

    if (!error)
        error = &own;
    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    result = check(options, error);
    if (result != HF_OK)
        return result;
    resources = options->resources ? options->resources : &options->resource;
    n = options->resources ? options->n_resources : 1;
    holdfast__v1__acquire_request__init(&a.request);
    a.request.namespace_ = client->name_space;
    a.request.task = mutable(options->task ? options->task : "");
    a.request.holder = mutable(options->holder ? options->holder : client->holder);
    a.request.ttl_ms = options->ttl_ms ? options->ttl_ms : HF_DEFAULT_TTL_MS;
    a.request.n_resources = n;
    a.request.resources = (char **)(uintptr_t)resources;
    hfi_new_id(client, a.id);
    a.request.request_id = options->request_id ? mutable(options->request_id) : a.id;
    a.lease = hfi_lease_new(client, n, resources, NULL);
    if (!add_labels(&a, &entries) || !a.lease)
        result = hfi_error_no_memory(error);
    else
        result = ask(&a, held, error);
    if (result == HF_OK)
        *lease = a.lease;
    else
        hfi_lease_delete(a.lease);
    free(entries);
    free(a.request.labels);
    return result;
}

/* Renews by a call of its own. On HF_OK the rule has been moved on. The lease need not be the client's yet. */
static hf_result renew_by_call(struct hf_lease *lease, int64_t timeout_ms, bool fresh, hf_error *error)
{
    struct hf_client *client = lease->client;
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
    Holdfast__V1__LeaseItem items[HF_RESOURCES_MAX];
    Holdfast__V1__LeaseItem *pointers[HF_RESOURCES_MAX];
    struct hfi_call call = {.method = HFI_RENEW,
                            .request = &request.base,
                            .response_type = &holdfast__v1__renew_response__descriptor,
                            .timeout_ms = timeout_ms,
                            .retry = HFI_RETRY_HARMLESS};
    const Holdfast__V1__RenewResponse *response;
    hf_result result;

    for (size_t i = 0; i < lease->n_items; i++) {
        holdfast__v1__lease_item__init(&items[i]);
        items[i].resource = lease->items[i].resource;
        items[i].token = lease->items[i].token;
        pointers[i] = &items[i];
    }
    request.namespace_ = client->name_space;
    request.ttl_ms = lease->rule.ttl_ms;
    request.n_items = lease->n_items;
    request.items = pointers;
    result = hfi_call(client, &call);
    response = (const Holdfast__V1__RenewResponse *)call.response;
    if (result != HF_OK) {
        /* Whether a renewal got through makes no difference to what the caller may believe. */
        hfi_error_from_call(error, result == HF_UNKNOWN ? HF_UNAVAILABLE : result, &call);
        result = result == HF_UNKNOWN ? HF_UNAVAILABLE : result;
        goto out;
    }
    pthread_mutex_lock(&client->mutex);
    if (fresh) /* nothing was known of its deadline until this answer */
        lease->rule.deadline_ms = HFI_NEVER;
    if (response->n_items != lease->n_items || !hfi_renew_absorb(lease, response->items, call.sent_ms))
        result = hfi_error_set(error, HF_UNAVAILABLE, "BUSY", "the lease of %s could not be renewed now", lease->items[0].resource);
    else if (fresh && !lease->rule.lost)
        (void)hfi_rule_grant(&lease->rule, lease->rule.ttl_ms, call.sent_ms, 0, response->items[0]->renewed->ttl_ms,
                             hfi_now(client));
    if (result == HF_OK && lease->rule.lost)
        result = hfi_error_lost(error, lease->rule.lost, lease->items[0].resource);
    else if (result == HF_OK)
        hfi_error_set(error, HF_OK, "", "%s", "");
    pthread_mutex_unlock(&client->mutex);
out:
    hfi_call_release(&call);
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
    return renew_by_call(lease, left < client->timeout_ms ? (left > 0 ? left : 1) : client->timeout_ms, false, error);
}

hf_result hf_adopt(hf_client *client, const hf_adopt_options *options, hf_lease **out, hf_error *error)
{
    struct hf_lease *lease;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (!options || !options->resource)
        return bad(error, "resource", "missing");
    lease = hfi_lease_new(client, 1, &options->resource, &options->token);
    if (!lease)
        return hfi_error_no_memory(error);
    lease->rule.ttl_ms = options->ttl_ms ? options->ttl_ms : HF_DEFAULT_TTL_MS;
    lease->write_seq = options->last_write_seq;
    lease->on_loss = options->on_loss;
    lease->on_loss_arg = options->on_loss_arg;
    lease->no_renewal = options->no_renewal;
    result = renew_by_call(lease, 0, true, error);
    if (result != HF_OK) {
        hfi_lease_delete(lease);
        return result;
    }
    pthread_mutex_lock(&client->mutex);
    lease->renew_at_ms = hfi_now(client) + hfi_renew_interval_ms(lease->rule.ttl_ms);
    hfi_lease_add(lease);
    pthread_mutex_unlock(&client->mutex);
    *out = lease;
    return HF_OK;
}
