/* operation_read.c - looking at operations and their attempts: get, wait, list. */
#include <stdlib.h>
#include <string.h>

#include "client/lib/acquire.h"
#include "client/lib/operation.h"

/* A page of operations has neither results nor payloads; one of attempts may have results that came too late. */
enum { ONE_REPLY_MAX = 2 * HF_RESULT_MAX + 16384, PAGE_REPLY_MAX = 6 << 20, ATTEMPTS_REPLY_MAX = 11 << 20 };

struct page {
    hf_operation_page page; /* first */
    struct hfi_call call;   /* owns what the page points to */
};

static struct page *page_new(void)
{
    return calloc(1, sizeof(struct page));
}

void hf_operation_page_free(hf_operation_page *page)
{
    struct page *own = (struct page *)page;

    if (!own)
        return;
    hfi_call_release(&own->call);
    free(own);
}

static hf_result fetch(hf_client *client, struct page *page, const char *method, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *response, size_t reply_max, struct hfi_wait *wait)
{
    page->call = (struct hfi_call){.method = method,
                                   .request = request,
                                   .response_type = response,
                                   .retry = HFI_RETRY_READ,
                                   .reply_max = reply_max,
                                   .wait = wait};
    return hfi_call(client, &page->call);
}

/* The end of each of them: the page is the caller's, or gone. */
static hf_result give(struct page *page, hf_result result, bool filled, const char *next, hf_operation_page **out, hf_error *error)
{
    page->call.request = NULL; /* it was the caller's frame */
    page->call.wait = NULL;
    if (result == HF_OK && filled) {
        page->page.next_page_token = next && next[0] ? next : NULL;
        *out = &page->page;
        return hfi_error_set(error, HF_OK, "", "%s", "");
    }
    if (result == HF_OK)
        result = hfi_error_no_memory(error);
    else
        hfi_error_from_call(error, result, &page->call);
    hf_operation_page_free(&page->page);
    return result;
}

/* ---- operations ---- */

static bool fill_operation(struct hp_arena *arena, const Holdfast__V1__Operation *from, hf_operation_info *to)
{
    *to = (hf_operation_info){.key = from->key,
                              .type = from->type,
                              .state = (hf_operation_state)from->state,
                              .revision = from->revision,
                              .attempts = from->attempts,
                              .token = from->token,
                              .holder = from->holder,
                              .sending = from->sending,
                              .remaining_ms = from->remaining_ms,
                              .created_unix_ms = from->created_unix_ms,
                              .changed_unix_ms = from->changed_unix_ms,
                              .result_ref = from->result_ref,
                              .error_class = (hf_error_class)from->error_class,
                              .message = from->message,
                              .sqlstate = from->sqlstate,
                              .compensates = from->compensates,
                              .compensated_by = from->compensated_by,
                              .priority = from->priority};
    if (from->fingerprint.len == HF_FINGERPRINT_SIZE)
        memcpy(to->fingerprint, from->fingerprint.data, HF_FINGERPRINT_SIZE);
    return hfi_take_bytes(arena, &from->result, &to->result, &to->result_len) &&
           hfi_take_bytes(arena, &from->payload, &to->payload, &to->payload_len);
}

static bool fill_operations(struct page *page, Holdfast__V1__Operation *const *from, size_t n)
{
    hf_operation_info *infos = hp_alloc_array(page->call.arena, n ? n : 1, sizeof(*infos));

    if (!infos)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!fill_operation(page->call.arena, from[i], &infos[i]))
            return false;
    }
    page->page.operations = infos;
    page->page.n = n;
    return true;
}

hf_result hf_operation_get(hf_client *client, const char *key, hf_operation_page **out, hf_error *error)
{
    Holdfast__V1__GetOperationRequest request = HOLDFAST__V1__GET_OPERATION_REQUEST__INIT;
    struct page *page;
    bool filled = false;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    page = page_new();
    if (!page)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(key);
    result = fetch(client, page, HFI_OPERATION "Get", &request.base, &holdfast__v1__get_operation_response__descriptor,
                   ONE_REPLY_MAX, NULL);
    if (result == HF_OK) {
        const Holdfast__V1__GetOperationResponse *response = (const Holdfast__V1__GetOperationResponse *)page->call.response;
        filled = fill_operations(page, &response->operation, response->operation ? 1 : 0);
    }
    return give(page, result, filled, NULL, out, error);
}

static void set_left(struct hfi_wait *wait, int64_t left_ms)
{
    ((Holdfast__V1__WaitOperationRequest *)wait->arg)->wait_ms = left_ms;
}

/* Until it has ended, or the time is over. A server that drains ends the wait early; then it is asked again. */
static hf_result fetch_ended(hf_client *client, struct page *page, Holdfast__V1__WaitOperationRequest *request,
                             struct hfi_wait *wait)
{
    for (;;) {
        const hf_result result = fetch(client, page, HFI_OPERATION "Wait", &request->base,
                                       &holdfast__v1__wait_operation_response__descriptor, ONE_REPLY_MAX, wait);
        const Holdfast__V1__WaitOperationResponse *response = (const Holdfast__V1__WaitOperationResponse *)page->call.response;

        if (result != HF_OK || response->ended || hfi_wait_left(wait, hfi_now(client)) <= HFI_WAIT_OVER_MS ||
            !hfi_acquire_pause(client, wait, 0))
            return result;
        hfi_call_release(&page->call);
    }
}

hf_result hf_operation_wait(hf_client *client, const char *key, int64_t wait_ms, hf_operation_page **out, bool *ended,
                            hf_error *error)
{
    Holdfast__V1__WaitOperationRequest request = HOLDFAST__V1__WAIT_OPERATION_REQUEST__INIT;
    struct hfi_wait wait = {.request_id = "", .wait_ms = wait_ms, .set_left = set_left, .arg = &request, .plain = true};
    struct page *page;
    bool filled = false, is_ended = false;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (wait_ms < 0 || wait_ms > HF_WAIT_MAX_MS)
        return hfi_error_field(error, "wait_ms", "must be 0 to 3600000");
    page = page_new();
    if (!page)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(key);
    if (hfi_wait_begin(client, &wait)) {
        hf_operation_page_free(&page->page);
        return hfi_error_no_memory(error);
    }
    result = fetch_ended(client, page, &request, &wait);
    if (result == HF_OK) {
        const Holdfast__V1__WaitOperationResponse *response = (const Holdfast__V1__WaitOperationResponse *)page->call.response;
        is_ended = response->ended;
        filled = fill_operations(page, &response->operation, response->operation ? 1 : 0);
    }
    result = give(page, result, filled, NULL, out, error);
    if (result == HF_HELD)
        hfi_error_set(error, HF_HELD, "CANCELLED", "the wait for %s was cancelled: the client is being freed", key);
    if (result == HF_OK && ended)
        *ended = is_ended;
    hfi_wait_end(client, &wait);
    return result;
}

hf_result hf_operation_list(hf_client *client, const hf_operation_list_options *options, hf_operation_page **out, hf_error *error)
{
    static const hf_operation_list_options all;
    const hf_operation_list_options *o = options ? options : &all;
    Holdfast__V1__ListOperationsRequest request = HOLDFAST__V1__LIST_OPERATIONS_REQUEST__INIT;
    const char *next = NULL;
    struct page *page;
    bool filled = false;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    page = page_new();
    if (!page)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.state = (Holdfast__V1__Operation__State)o->state;
    request.type = hfi_mutable(o->type);
    request.prefix = hfi_mutable(o->prefix);
    request.older_than_ms = o->older_than_ms;
    request.page_size = o->page_size;
    request.page_token = hfi_mutable(o->page_token);
    result = fetch(client, page, HFI_OPERATION "List", &request.base, &holdfast__v1__list_operations_response__descriptor,
                   PAGE_REPLY_MAX, NULL);
    if (result == HF_OK) {
        const Holdfast__V1__ListOperationsResponse *response = (const Holdfast__V1__ListOperationsResponse *)page->call.response;
        filled = fill_operations(page, response->operations, response->n_operations);
        next = response->next_page_token;
    }
    return give(page, result, filled, next, out, error);
}

/* ---- attempts ---- */

static bool fill_attempts(struct page *page, const Holdfast__V1__ListAttemptsResponse *response)
{
    const size_t n = response->n_attempts;
    hf_attempt_info *infos = hp_alloc_array(page->call.arena, n ? n : 1, sizeof(*infos));

    if (!infos)
        return false;
    for (size_t i = 0; i < n; i++) {
        const Holdfast__V1__Attempt *from = response->attempts[i];
        infos[i] = (hf_attempt_info){.attempt = from->attempt,
                                     .execution_id = from->execution_id,
                                     .token = from->token,
                                     .trigger = (hf_trigger)from->trigger,
                                     .holder = from->holder,
                                     .started_unix_ms = from->started_unix_ms,
                                     .ended_unix_ms = from->ended_unix_ms,
                                     .sending_unix_ms = from->sending_unix_ms,
                                     .outcome = (hf_attempt_outcome)from->outcome,
                                     .error_class = (hf_error_class)from->error_class,
                                     .message = from->message,
                                     .sqlstate = from->sqlstate,
                                     .late_unix_ms = from->late_unix_ms,
                                     .late_count = from->late_count,
                                     .late_call = from->late_call,
                                     .late_message = from->late_message};
        if (!hfi_take_bytes(page->call.arena, &from->late_result, &infos[i].late_result, &infos[i].late_result_len))
            return false;
    }
    page->page.attempts = infos;
    page->page.n = n;
    return true;
}

hf_result hf_operation_attempts(hf_client *client, const char *key, int64_t page_size, const char *page_token,
                                hf_operation_page **out, hf_error *error)
{
    Holdfast__V1__ListAttemptsRequest request = HOLDFAST__V1__LIST_ATTEMPTS_REQUEST__INIT;
    const char *next = NULL;
    struct page *page;
    bool filled = false;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    page = page_new();
    if (!page)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.key = hfi_mutable(key);
    request.page_size = page_size;
    request.page_token = hfi_mutable(page_token);
    result = fetch(client, page, HFI_OPERATION "ListAttempts", &request.base, &holdfast__v1__list_attempts_response__descriptor,
                   ATTEMPTS_REPLY_MAX, NULL);
    if (result == HF_OK) {
        const Holdfast__V1__ListAttemptsResponse *response = (const Holdfast__V1__ListAttemptsResponse *)page->call.response;
        filled = fill_attempts(page, response);
        next = response->next_page_token;
    }
    return give(page, result, filled, next, out, error);
}
