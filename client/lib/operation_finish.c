/*
 * operation_finish.c - marking an attempt as sending, and ending it.
 *
 * One such call is in flight an attempt. While it is, a renewal that finds the attempt ended is not a loss (renew.c): the call's
 * own answer tells. Where the answers don't tell, the attempt itself does, which keeps how it ended: it is looked up by its key.
 */
#include <stdio.h>
#include <string.h>

#include "client/lib/operation.h"

enum { FIND_OUT_MS = 5000, ATTEMPTS_OF_A_PAGE = 8, ATTEMPTS_REPLY_MAX = 11 << 20, OPERATION_REPLY_MAX = 2 * HF_RESULT_MAX + 16384 };

/* What asking by the key came to. */
enum finding {
    UNCLEAR, /* no answer; or the attempt runs, and the call may still arrive */
    SO,      /* it ended as the call wanted */
    NOT_SO   /* it ended otherwise, or has been lost */
};

struct ending {
    hf_operation *operation;
    struct hfi_call call;
    unsigned wanted; /* a bit for each outcome of the attempt that is the call's doing */
    hf_finished finished;
};

static bool may_send(struct hfi_call *call)
{
    return hfi_lease_held(call->arg);
}

static unsigned bit(int outcome)
{
    return 1U << outcome;
}

/* What the server's answer says of the lease. Lock held. */
static void judge_lease(struct hf_lease *lease, hf_result result, const struct hfi_call *call)
{
    if (result == HF_LOST && !call->refused)
        hfi_lease_lose(lease, call->status.reason == HP_R_STALE_TOKEN ? HFI_LOSS_TAKEN_OVER : HFI_LOSS_EXPIRED);
    else if (result == HF_CONFLICT)
        hfi_lease_lose(lease, HFI_LOSS_RELEASED);
    else if (result == HF_NOT_FOUND && call->status.reason == HP_R_NO_SUCH_OPERATION)
        hfi_lease_lose(lease, HFI_LOSS_UNKNOWN_TOKEN);
}

/* ---- sending ---- */

hf_result hf_operation_sending(hf_operation *operation, hf_error *error)
{
    struct hf_lease *lease = operation->lease;
    struct hf_client *client = lease->client;
    Holdfast__V1__MarkSendingRequest request = HOLDFAST__V1__MARK_SENDING_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "MarkSending",
                            .request = &request.base,
                            .response_type = &holdfast__v1__mark_sending_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS,
                            .may_send = may_send,
                            .arg = lease};
    const char *lost;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    result = hfi_lease_enter(lease, error);
    if (result != HF_OK)
        return result;
    request.namespace_ = client->name_space;
    request.key = lease->items[0].resource;
    request.token = lease->items[0].token;
    result = hfi_call(client, &call);
    pthread_mutex_lock(&client->mutex);
    judge_lease(lease, result, &call);
    (void)hfi_lease_held(lease);
    lost = lease->rule.lost;
    pthread_mutex_unlock(&client->mutex);
    hfi_lease_leave(lease);
    hfi_error_from_call(error, result, &call);
    /* Whether it was marked or not: an effect must not be caused any more. */
    if (lost && (result == HF_OK || result == HF_UNKNOWN || call.refused))
        result = hfi_error_lost(error, lost, lease->items[0].resource);
    hfi_call_release(&call);
    return result;
}

/* ---- finding out ---- */

static int64_t patience(const struct hf_client *client)
{
    return client->timeout_ms < FIND_OUT_MS ? client->timeout_ms : FIND_OUT_MS;
}

/* How the operation is now. */
static bool look_at_operation(struct ending *e)
{
    struct hf_client *client = e->operation->lease->client;
    Holdfast__V1__GetOperationRequest request = HOLDFAST__V1__GET_OPERATION_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "Get",
                            .request = &request.base,
                            .response_type = &holdfast__v1__get_operation_response__descriptor,
                            .timeout_ms = patience(client),
                            .retry = HFI_RETRY_READ,
                            .reply_max = OPERATION_REPLY_MAX};
    bool found = false;

    request.namespace_ = client->name_space;
    request.key = e->operation->lease->items[0].resource;
    if (hfi_call(client, &call) == HF_OK) {
        const Holdfast__V1__Operation *now = ((const Holdfast__V1__GetOperationResponse *)call.response)->operation;
        found = now != NULL;
        if (found) {
            e->finished.state = (hf_operation_state)now->state;
            e->finished.revision = now->revision;
            e->finished.due_ms = e->finished.state == HF_OPERATION_PENDING ? now->remaining_ms : 0;
            e->finished.replayed = true;
        }
    }
    hfi_call_release(&call);
    return found;
}

/* Our attempt on this page, if it is there. */
static const Holdfast__V1__Attempt *find(const struct ending *e, const Holdfast__V1__ListAttemptsResponse *page)
{
    for (size_t i = 0; i < page->n_attempts; i++) {
        if (page->attempts[i]->token == e->operation->lease->items[0].token)
            return page->attempts[i];
    }
    return NULL;
}

static enum finding judge_attempt(const struct ending *e, const Holdfast__V1__Attempt *attempt, bool over)
{
    if (attempt->outcome == HOLDFAST__V1__ATTEMPT__OUTCOME__UNSPECIFIED)
        return over ? NOT_SO : UNCLEAR; /* its lease is over: what may still arrive is refused */
    return e->wanted & bit((int)attempt->outcome) ? SO : NOT_SO;
}

/* Asks by the key how the attempt ended. `over`: the server has said that its lease is. */
static enum finding find_out(struct ending *e, bool over)
{
    struct hf_client *client = e->operation->lease->client;
    Holdfast__V1__ListAttemptsRequest request = HOLDFAST__V1__LIST_ATTEMPTS_REQUEST__INIT;
    enum finding finding = UNCLEAR;
    char token[512] = "";
    bool more = true;

    request.namespace_ = client->name_space;
    request.key = e->operation->lease->items[0].resource;
    request.page_size = ATTEMPTS_OF_A_PAGE;
    request.page_token = token;
    while (more) {
        const Holdfast__V1__ListAttemptsResponse *page;
        const Holdfast__V1__Attempt *attempt;
        struct hfi_call call = {.method = HFI_OPERATION "ListAttempts",
                                .request = &request.base,
                                .response_type = &holdfast__v1__list_attempts_response__descriptor,
                                .timeout_ms = patience(client),
                                .retry = HFI_RETRY_READ,
                                .reply_max = ATTEMPTS_REPLY_MAX};

        if (hfi_call(client, &call) != HF_OK) {
            hfi_call_release(&call);
            break;
        }
        page = (const Holdfast__V1__ListAttemptsResponse *)call.response;
        attempt = find(e, page);
        if (attempt)
            finding = judge_attempt(e, attempt, over);
        more = !attempt && page->next_page_token[0] && strlen(page->next_page_token) < sizeof(token);
        if (more)
            memcpy(token, page->next_page_token, strlen(page->next_page_token) + 1);
        hfi_call_release(&call);
    }
    return finding == SO && !look_at_operation(e) ? UNCLEAR : finding;
}

/* ---- ending ---- */

static hf_result tell_lost(const struct ending *e, hf_result result, const char *lost, hf_error *error)
{
    const char *key = e->operation->lease->items[0].resource;

    if (e->call.refused)
        return hfi_error_lost(error, lost ? lost : HFI_LOSS_DEADLINE, key);
    if (result == HF_LOST)
        return hfi_error_from_call(error, result, &e->call);
    return hfi_error_set(error, HF_LOST, lost ? lost : HFI_LOSS_EXPIRED, "attempt %lld of %s ended otherwise, without this call",
                         (long long)e->operation->attempt, key);
}

/* What a call that was not answered well came to, for the attempt and for the caller. */
static hf_result settle(struct ending *e, hf_result result, hf_error *error)
{
    struct hf_lease *lease = e->operation->lease;
    struct hf_client *client = lease->client;
    const bool ambiguous = result == HF_UNKNOWN || (result == HF_LOST && e->call.ambiguous);
    const bool over = result == HF_LOST && !e->call.refused;
    const enum finding finding = ambiguous ? find_out(e, over) : UNCLEAR;
    const char *lost;

    pthread_mutex_lock(&client->mutex);
    if (finding == SO)
        (void)hfi_rule_lose(&lease->rule, HFI_LOSS_ENDED);
    else if (finding == NOT_SO && !over)
        hfi_lease_lose(lease, HFI_LOSS_EXPIRED);
    else
        judge_lease(lease, result, &e->call);
    lost = lease->rule.lost;
    pthread_mutex_unlock(&client->mutex);

    if (finding == SO)
        return hfi_error_set(error, HF_OK, "", "%s", "");
    if (finding == NOT_SO || (result == HF_LOST && !ambiguous))
        return tell_lost(e, result, lost, error);
    hfi_error_from_call(error, result, &e->call);
    if (!ambiguous)
        return result;
    return hfi_error_set(error, HF_UNKNOWN, "OUTCOME_LOST",
                         "an answer was lost, and how attempt %lld of %s ended could not be found out: %s",
                         (long long)e->operation->attempt, lease->items[0].resource, e->call.status.message);
}

static hf_result end_attempt(struct ending *e, hf_finished *finished, hf_error *error)
{
    struct hf_lease *lease = e->operation->lease;
    struct hf_client *client = lease->client;
    hf_result result;

    e->call.response_type = &holdfast__v1__finish_response__descriptor;
    e->call.retry = HFI_RETRY_HARMLESS;
    e->call.may_send = may_send;
    e->call.arg = lease;
    result = hfi_call(client, &e->call);
    if (result == HF_OK) {
        const Holdfast__V1__FinishResponse *response = (const Holdfast__V1__FinishResponse *)e->call.response;
        e->finished = (hf_finished){.state = (hf_operation_state)response->state,
                                    .revision = response->revision,
                                    .due_ms = response->due_ms,
                                    .replayed = response->replayed};
        pthread_mutex_lock(&client->mutex);
        (void)hfi_rule_lose(&lease->rule, HFI_LOSS_ENDED);
        pthread_mutex_unlock(&client->mutex);
        hfi_error_set(error, HF_OK, "", "%s", "");
    } else {
        result = settle(e, result, error);
    }
    hfi_lease_leave(lease); /* only now: see renew.c */
    if (result == HF_OK && finished)
        *finished = e->finished;
    hfi_call_release(&e->call);
    return result;
}

hf_result hf_operation_complete(hf_operation *operation, const void *data, size_t len, const hf_complete_options *options,
                                hf_finished *finished, hf_error *error)
{
    struct hf_lease *lease = operation->lease;
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    struct ending e = {.operation = operation,
                       .call = {.method = HFI_OPERATION "Complete", .request = &request.base},
                       .wanted = bit(HF_ATTEMPT_SUCCEEDED)};
    struct hfi_events events;
    hf_result result;

    if (!hfi_same_process(lease->client))
        return hfi_error_misuse(error);
    result = hfi_events_init(&events, options ? options->events : NULL, options ? options->n_events : 0, error);
    if (result == HF_OK)
        result = hfi_lease_enter(lease, error);
    if (result == HF_OK) {
        request.namespace_ = lease->client->name_space;
        request.key = lease->items[0].resource;
        request.token = lease->items[0].token;
        request.result.data = (uint8_t *)(uintptr_t)data;
        request.result.len = len;
        request.result_ref = hfi_mutable(options ? options->result_ref : NULL);
        request.n_events = events.n;
        request.events = events.pointers;
        result = end_attempt(&e, finished, error);
    }
    hfi_events_release(&events);
    return result;
}

hf_result hf_operation_fail(hf_operation *operation, const hf_failure *failure, hf_finished *finished, hf_error *error)
{
    struct hf_lease *lease = operation->lease;
    Holdfast__V1__FailRequest request = HOLDFAST__V1__FAIL_REQUEST__INIT;
    struct ending e = {.operation = operation,
                       .call = {.method = HFI_OPERATION "Fail", .request = &request.base},
                       .wanted = bit(HF_ATTEMPT_FAILED)};
    hf_result result;

    if (!hfi_same_process(lease->client))
        return hfi_error_misuse(error);
    if (!failure)
        return hfi_error_field(error, "failure", "missing");
    result = hfi_lease_enter(lease, error);
    if (result != HF_OK)
        return result;
    if (failure->error_class == HF_CLASS_UNKNOWN)
        e.wanted |= bit(HF_ATTEMPT_UNKNOWN);
    request.namespace_ = lease->client->name_space;
    request.key = lease->items[0].resource;
    request.token = lease->items[0].token;
    request.error_class = (Holdfast__V1__ErrorClass__Kind)failure->error_class;
    request.message = hfi_mutable(failure->message);
    request.sqlstate = hfi_mutable(failure->sqlstate);
    request.retry_after_ms = failure->retry_after_ms;
    return end_attempt(&e, finished, error);
}

hf_result hf_operation_unknown(hf_operation *operation, const char *note, hf_finished *finished, hf_error *error)
{
    struct hf_lease *lease = operation->lease;
    Holdfast__V1__MarkUnknownRequest request = HOLDFAST__V1__MARK_UNKNOWN_REQUEST__INIT;
    struct ending e = {.operation = operation,
                       .call = {.method = HFI_OPERATION "MarkUnknown", .request = &request.base},
                       .wanted = bit(HF_ATTEMPT_UNKNOWN)};
    hf_result result;

    if (!hfi_same_process(lease->client))
        return hfi_error_misuse(error);
    result = hfi_lease_enter(lease, error);
    if (result != HF_OK)
        return result;
    request.namespace_ = lease->client->name_space;
    request.key = lease->items[0].resource;
    request.token = lease->items[0].token;
    request.note = hfi_mutable(note);
    return end_attempt(&e, finished, error);
}
