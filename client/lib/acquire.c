/* acquire.c - hf_acquire and hf_acquire_cancel; see acquire.h for the asking, rule.h for how long a grant is believed in. */
#include "client/lib/acquire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_MIN_MS = 50, POLL_MAX_MS = 500 }; /* pauses between askings */
/* How often a grant of ours may have ended unheard before we say so. */
enum { ENDED_MAX = 5 };

struct acquiring {
    struct hf_client *client;
    const hf_acquire_options *options;
    Holdfast__V1__AcquireRequest request;
    struct hfi_wait wait;
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

static hf_result take_tokens(struct hf_lease *lease, const Holdfast__V1__Granted *granted, hf_error *error)
{
    if (granted->n_grants != lease->n_items)
        return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server granted %zu resources of %zu", granted->n_grants,
                             lease->n_items);
    for (size_t i = 0; i < lease->n_items; i++) {
        if (strcmp(granted->grants[i]->resource, lease->items[i].resource) != 0 || granted->grants[i]->token < 1)
            return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server granted another resource than %s",
                                 lease->items[i].resource);
        lease->items[i].token = granted->grants[i]->token;
    }
    return HF_OK;
}

/* A repeat was granted of which, counted from the first try, little or nothing is left to us, though more may be at the server: a
 * renewal tells. Nobody has believed in the lease yet, so that nothing is revived by it. */
static void confirm(struct hf_lease *lease)
{
    const int64_t ttl = lease->rule.ttl_ms, timeout = lease->client->timeout_ms;
    const hf_result result = hfi_renew_by_call(lease, ttl < timeout ? ttl : timeout, true, NULL);

    (void)result; /* not confirmed: what was believed before stands */
}

hf_result hfi_grant(struct hf_lease *lease, int64_t ttl, const struct hfi_call *call, int64_t waited_ms, int64_t left_ms,
                    hf_error *error)
{
    struct hf_client *client = lease->client;
    bool held;

    (void)hfi_rule_grant(&lease->rule, ttl, call->first_sent_ms, waited_ms, left_ms, hfi_now(client));
    if (call->tries > 1 && lease->rule.deadline_ms - hfi_now(client) < ttl / 2)
        confirm(lease);
    pthread_mutex_lock(&client->mutex);
    /* A third of the TTL after the grant, as far as we may count on that. */
    lease->renew_at_ms = lease->rule.deadline_ms + hfi_margin_ms(ttl) - ttl + hfi_renew_interval_ms(ttl);
    held = hfi_rule_held(&lease->rule, hfi_now(client));
    if (held)
        hfi_lease_add(lease);
    pthread_mutex_unlock(&client->mutex);
    if (!held)
        return hfi_error_lost(error, lease->rule.lost, lease->items[0].resource);
    return hfi_error_set(error, HF_OK, "", "%s", "");
}

static hf_result grant(struct acquiring *a, const Holdfast__V1__Granted *granted, const struct hfi_call *call, hf_error *error)
{
    struct hf_lease *lease = a->lease;
    const hf_result result = take_tokens(lease, granted, error);

    if (result != HF_OK)
        return result;
    lease->on_loss = a->options->on_loss;
    lease->on_loss_arg = a->options->on_loss_arg;
    lease->no_renewal = a->options->no_renewal;
    return hfi_grant(lease, a->request.ttl_ms, call, granted->waited_ms, granted->ttl_ms, error);
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

void hfi_acquire_set_left(struct hfi_wait *wait, int64_t left_ms)
{
    ((Holdfast__V1__AcquireRequest *)wait->arg)->wait_ms = left_ms;
}

bool hfi_acquire_pause(struct hf_client *client, struct hfi_wait *wait, int64_t remaining_ms)
{
    const int64_t now = hfi_now(client);
    int64_t ms =
        POLL_MIN_MS + hfi_jitter(0, POLL_MAX_MS - POLL_MIN_MS, POLL_MAX_MS, client->ports.random->next(client->ports.random));

    if (remaining_ms > 0 && remaining_ms + 1 < ms)
        ms = remaining_ms + 1;
    return hfi_wait_pause(client, wait, now + ms < wait->end_ms ? now + ms : wait->end_ms);
}

static void rename_request(struct hf_client *client, char *own_id)
{
    pthread_mutex_lock(&client->mutex); /* the wait is found by it */
    hfi_new_id(client, own_id);
    pthread_mutex_unlock(&client->mutex);
}

hf_result hfi_acquire(struct hf_client *client, Holdfast__V1__AcquireRequest *request, char *own_id, struct hfi_wait *wait,
                      struct hfi_call *call)
{
    int ended = 0;

    if (wait)
        wait->here = request->n_resources > 1;
    for (;;) {
        const Holdfast__V1__AcquireResponse *response;
        hf_result result;

        *call = (struct hfi_call){.method = HFI_ACQUIRE,
                                  .request = &request->base,
                                  .response_type = &holdfast__v1__acquire_response__descriptor,
                                  .retry = HFI_RETRY_HARMLESS,
                                  .wait = wait};
        result = hfi_call(client, call);
        if (result == HF_UNSUPPORTED && call->status.reason == HP_R_NOT_YET && wait && !wait->here) {
            wait->here = true;
            hfi_call_release(call);
            continue;
        }
        if (result != HF_OK)
            return result;
        response = (const Holdfast__V1__AcquireResponse *)call->response;
        if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED && own_id && ended++ < ENDED_MAX) {
            rename_request(client, own_id);
            hfi_call_release(call);
            continue;
        }
        if (!wait || response->outcome_case != HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD ||
            hfi_wait_left(wait, hfi_now(client)) <= (wait->here ? 0 : HFI_WAIT_OVER_MS) ||
            !hfi_acquire_pause(client, wait, response->held->remaining_ms))
            return HF_OK;
        hfi_call_release(call);
    }
}

static hf_result tell_cancelled(const struct acquiring *a, hf_error *error)
{
    return hfi_error_set(error, HF_HELD, "CANCELLED", "the wait for %s was cancelled", a->request.resources[0]);
}

/* Asks, and says what came of it. */
static hf_result ask(struct acquiring *a, struct hfi_wait *wait, hf_held *held, hf_error *error)
{
    struct hfi_call call;
    hf_result result = hfi_acquire(a->client, &a->request, a->options->request_id ? NULL : a->id, wait, &call);
    const Holdfast__V1__AcquireResponse *response = (const Holdfast__V1__AcquireResponse *)call.response;

    if (result == HF_HELD) {
        result = tell_cancelled(a, error);
    } else if (result != HF_OK) {
        hfi_error_from_call(error, result, &call);
    } else if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED) {
        result = grant(a, response->granted, &call, error);
    } else if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD) {
        result = HF_HELD;
        tell_held(response->held, held, error);
        if (wait && hfi_wait_is_given_up(a->client, wait))
            tell_cancelled(a, error);
    } else if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED) {
        result = hfi_error_set(error, HF_LOST, "ENDED", "the lease granted for this request (token %lld) is over",
                               (long long)response->ended->token);
    } else {
        result = hfi_error_set(error, HF_FAILED, "INTERNAL", "the server's answer has no known outcome");
    }
    hfi_call_release(&call);
    return result;
}

/* A grant that nobody will have: the client is being freed. */
static hf_result give_back(struct acquiring *a, hf_error *error)
{
    (void)hf_release(a->lease, NULL);
    hf_lease_free(a->lease);
    a->lease = NULL;
    return tell_cancelled(a, error);
}

static hf_result wait_and_ask(struct acquiring *a, hf_held *held, hf_error *error)
{
    struct hf_client *client = a->client;
    hf_result result;
    bool ending;

    a->wait = (struct hfi_wait){
        .request_id = a->request.request_id, .wait_ms = a->options->wait_ms, .set_left = hfi_acquire_set_left, .arg = &a->request};
    if (hfi_wait_begin(client, &a->wait))
        return hfi_error_no_memory(error);
    result = ask(a, &a->wait, held, error);
    pthread_mutex_lock(&client->mutex);
    ending = client->ending;
    pthread_mutex_unlock(&client->mutex);
    if (result == HF_OK && ending)
        result = give_back(a, error);
    hfi_wait_end(client, &a->wait);
    return result;
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
    a.lease = hfi_lease_new(client, &hfi_leases, n, resources, NULL);
    if (!add_labels(&a, &entries) || !a.lease)
        result = hfi_error_no_memory(error);
    else if (options->wait_ms > 0)
        result = wait_and_ask(&a, held, error);
    else
        result = ask(&a, NULL, held, error);
    if (result == HF_OK)
        *lease = a.lease;
    else
        hfi_lease_delete(a.lease);
    free(entries);
    free(a.request.labels);
    return result;
}

hf_result hf_acquire_cancel(hf_client *client, const char *request_id, hf_error *error)
{
    size_t n;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    pthread_mutex_lock(&client->mutex);
    n = hfi_wait_give_up(client, request_id, false);
    pthread_mutex_unlock(&client->mutex);
    if (n == 0)
        return hfi_error_set(error, HF_NOT_FOUND, "NOT_WAITING", "no hf_acquire of this client waits%s%s", request_id ? " as " : "",
                             request_id ? request_id : "");
    return hfi_error_set(error, HF_OK, "", "%s", "");
}
