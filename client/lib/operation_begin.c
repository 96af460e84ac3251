/* operation_begin.c - hf_operation_begin: asking for an attempt until the answer is final. How long a started one is believed in is
 * rule.h's, as for a grant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/acquire.h"
#include "client/lib/operation.h"

struct beginning {
    struct hf_client *client;
    const hf_begin_options *options;
    Holdfast__V1__BeginRequest request;
    unsigned char fingerprint[HF_FINGERPRINT_SIZE];
    char id[HFI_ID_SIZE];
    struct hfi_wait wait;
    struct hf_lease *lease; /* these two made beforehand, so that a start cannot fail for want of memory */
    struct hfi_outcome *own;
};

static hf_result check(struct beginning *b, hf_error *error)
{
    const hf_begin_options *o = b->options;

    if (!o || !o->key)
        return hfi_error_field(error, "key", "missing");
    if (!o->type)
        return hfi_error_field(error, "type", "missing");
    if (o->wait_ms < 0 || o->wait_ms > HF_WAIT_MAX_MS)
        return hfi_error_field(error, "wait_ms", "must be 0 to 3600000");
    return hfi_parameters(o->fingerprint, o->parameters_json, o->parameters_len, b->fingerprint, error);
}

static void fill_request(struct beginning *b)
{
    const hf_begin_options *o = b->options;
    Holdfast__V1__BeginRequest *request = &b->request;

    holdfast__v1__begin_request__init(request);
    request->namespace_ = b->client->name_space;
    request->key = hfi_mutable(o->key);
    request->type = hfi_mutable(o->type);
    request->parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request->fingerprint.data = b->fingerprint;
    request->fingerprint.len = sizeof(b->fingerprint);
    request->holder = hfi_mutable(o->holder ? o->holder : b->client->holder);
    request->ttl_ms = o->ttl_ms ? o->ttl_ms : HF_DEFAULT_TTL_MS;
    request->trigger = (Holdfast__V1__Trigger__Kind)o->trigger;
    hfi_new_id(b->client, b->id);
    request->request_id = o->request_id ? hfi_mutable(o->request_id) : b->id;
}

static void set_left(struct hfi_wait *wait, int64_t left_ms)
{
    ((Holdfast__V1__BeginRequest *)wait->arg)->wait_ms = left_ms;
}

static hf_result tell_cancelled(const struct beginning *b, hf_error *error)
{
    return hfi_error_set(error, HF_HELD, "CANCELLED", "the wait for %s was cancelled: the client is being freed", b->options->key);
}

/* With the answer, or why there is none, in own->call. */
static hf_result call(struct beginning *b, struct hfi_wait *wait)
{
    struct hfi_call *const c = &b->own->call;

    for (;;) {
        const Holdfast__V1__BeginResponse *response;
        hf_result result;

        *c = (struct hfi_call){.method = HFI_OPERATION "Begin",
                               .request = &b->request.base,
                               .response_type = &holdfast__v1__begin_response__descriptor,
                               .retry = HFI_RETRY_HARMLESS,
                               .wait = wait,
                               .reply_max = HFI_OUTCOME_REPLY_MAX};
        result = hfi_call(b->client, c);
        response = (const Holdfast__V1__BeginResponse *)c->response;
        /* A server that drains ends the wait early; then it is asked again, which goes to another one. */
        if (result != HF_OK || !wait || response->outcome_case != HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS ||
            hfi_wait_left(wait, hfi_now(b->client)) <= HFI_WAIT_OVER_MS ||
            !hfi_acquire_pause(b->client, wait, response->in_progress->remaining_ms))
            return result;
        hfi_call_release(c);
    }
}

/* Runs in the thread that tells losses. */
static void tell_loss(hf_lease *lease, const char *reason, void *arg)
{
    hf_operation *operation = arg;

    (void)lease;
    if (operation->on_loss)
        operation->on_loss(operation, reason, operation->on_loss_arg);
}

static hf_result start(struct beginning *b, const Holdfast__V1__BeginResponse__Started *started, hf_error *error)
{
    struct hf_lease *lease = b->lease;
    struct hf_operation *operation = lease->operation;

    if (started->token < 1 || strlen(started->execution_id) > HF_EXECUTION_ID_MAX)
        return hfi_error_set(error, HF_FAILED, "INTERNAL",
                             "the server started an attempt of %s without a token, or named it too long", b->options->key);
    lease->items[0].token = started->token;
    lease->on_loss = tell_loss;
    lease->on_loss_arg = operation;
    lease->no_renewal = b->options->no_renewal;
    operation->lease = lease;
    operation->attempt = started->attempt;
    operation->on_loss = b->options->on_loss;
    operation->on_loss_arg = b->options->on_loss_arg;
    snprintf(operation->execution_id, sizeof(operation->execution_id), "%s", started->execution_id);
    b->own->outcome.kind = HF_OUTCOME_STARTED;
    b->own->outcome.attempt = started->attempt;
    b->own->outcome.trigger = (hf_trigger)started->trigger;
    return hfi_grant(lease, b->request.ttl_ms, &b->own->call, started->waited_ms, started->ttl_ms, error);
}

static hf_result read_outcome(struct beginning *b, const Holdfast__V1__BeginResponse *response, hf_error *error)
{
    hf_outcome *outcome = &b->own->outcome;

    switch (response->outcome_case) {
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED:
        return start(b, response->started, error);
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED:
        return hfi_outcome_replayed(b->own, HF_OUTCOME_REPLAYED, response->replayed, error);
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS:
        return hfi_outcome_in_progress(b->own, response->in_progress, error);
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_UNKNOWN:
        outcome->kind = HF_OUTCOME_UNKNOWN;
        outcome->message = response->unknown->note;
        outcome->since_unix_ms = response->unknown->since_unix_ms;
        return HF_OK;
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REVIEW:
        outcome->kind = HF_OUTCOME_REVIEW;
        outcome->message = response->review->reason;
        outcome->error_class = (hf_error_class)response->review->error_class;
        outcome->since_unix_ms = response->review->since_unix_ms;
        return HF_OK;
    default:
        return hfi_error_set(error, HF_FAILED, "INTERNAL", "the server's answer has no known outcome");
    }
}

/* Asks, and says what came of it. */
static hf_result ask(struct beginning *b, struct hfi_wait *wait, hf_error *error)
{
    const hf_result result = call(b, wait);

    if (result == HF_HELD)
        return tell_cancelled(b, error);
    hfi_error_from_call(error, result, &b->own->call);
    if (result != HF_OK)
        return result;
    return read_outcome(b, (const Holdfast__V1__BeginResponse *)b->own->call.response, error);
}

/* An attempt that nobody will have, for the client is being freed: the next one may have it at once. */
static void give_back(struct hf_lease *lease)
{
    const hf_failure failure = {.error_class = HF_CLASS_FENCED, .message = "given back: nobody waited for it any more"};

    const hf_result result = hf_operation_fail(lease->operation, &failure, NULL, NULL);

    (void)result; /* otherwise it ends by its TTL */
}

static hf_result wait_and_ask(struct beginning *b, hf_error *error)
{
    struct hf_client *client = b->client;
    hf_result result;
    bool ending;

    b->wait = (struct hfi_wait){.request_id = b->request.request_id,
                                .wait_ms = b->options->wait_ms,
                                .set_left = set_left,
                                .arg = &b->request,
                                .plain = true};
    if (hfi_wait_begin(client, &b->wait))
        return hfi_error_no_memory(error);
    result = ask(b, &b->wait, error);
    pthread_mutex_lock(&client->mutex);
    ending = client->ending;
    pthread_mutex_unlock(&client->mutex);
    if (result == HF_OK && b->own->outcome.kind == HF_OUTCOME_STARTED && ending) {
        give_back(b->lease);
        hf_lease_free(b->lease);
        b->lease = NULL;
        result = tell_cancelled(b, error);
    } else if (result == HF_OK && b->own->outcome.kind == HF_OUTCOME_IN_PROGRESS && ending) {
        result = tell_cancelled(b, error);
    } else if (result == HF_UNKNOWN && ending) {
        hfi_error_set(error, HF_UNKNOWN, "OUTCOME_LOST",
                      "the client was freed while an attempt of %s was waited for: it may be started", b->options->key);
    }
    hfi_wait_end(client, &b->wait);
    return result;
}

static bool make_room(struct beginning *b)
{
    b->lease = hfi_lease_new(b->client, &hfi_operations, 1, &b->options->key, NULL);
    b->own = hfi_outcome_new();
    if (b->lease)
        b->lease->operation = calloc(1, sizeof(*b->lease->operation));
    return b->lease && b->own && b->lease->operation;
}

hf_result hf_operation_begin(hf_client *client, const hf_begin_options *options, hf_operation **operation, hf_outcome **outcome,
                             hf_error *error)
{
    struct beginning b = {.client = client, .options = options};
    hf_error own;
    hf_result result;

    if (!error)
        error = &own;
    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    result = check(&b, error);
    if (result != HF_OK)
        return result;
    fill_request(&b);
    if (!make_room(&b))
        result = hfi_error_no_memory(error);
    else
        result = options->wait_ms > 0 ? wait_and_ask(&b, error) : ask(&b, NULL, error);
    if (result == HF_OK && b.own->outcome.kind == HF_OUTCOME_STARTED) {
        *operation = b.lease->operation;
    } else {
        hfi_lease_delete(b.lease);
        if (result == HF_OK)
            *operation = NULL;
    }
    return b.own ? hfi_outcome_give(b.own, result, outcome) : result;
}
