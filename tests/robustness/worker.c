/*
 * worker.c - see worker.h.
 */
#include "robustness/worker.h"

#include "harness/harness.h"

#include <string.h>

#include "holdfast/v1/resource.pb-c.h"

static char *text(const char *constant)
{
    return (char *)(uintptr_t)constant; /* messages are packed, not changed */
}

hf_client *worker_client(const char *url)
{
    const hf_client_options options = {.servers = url};
    hf_client *client = NULL;
    hf_error error;
    if (hf_client_new(&options, &client, &error) != HF_OK)
        fail_msg("%s", error.message);
    return client;
}

static void set(char *to, const char *from)
{
    snprintf(to, HISTORY_NAME, "%s", from);
}

static struct history_call record(const struct worker *worker, enum history_op op, const char *resource)
{
    struct history_call record = {.worker = worker->number, .op = op};
    if (strlen(resource) >= HISTORY_NAME)
        fail_msg("the history has no room for \"%s\"", resource);
    set(record.resource, resource);
    return record;
}

/* Reads an OK answer into the record. */
typedef void (*reader)(struct history_call *record, const ProtobufCMessage *response);

static void judge(struct history_call *record, hf_result result, const struct hfi_call *call, reader read)
{
    record->tries = call->tries;
    switch (result) {
    case HF_OK:
        record->answer = HISTORY_OK;
        read(record, call->response);
        if (record->answer == HISTORY_REFUSED && call->ambiguous)
            record->answer = HISTORY_UNKNOWN; /* an earlier try may still be under way */
        break;
    case HF_UNKNOWN:
    case HF_FAILED:
    case HF_NO_MEMORY:
        set(record->reason, call->status.code == HP_OK ? hf_result_name(result) : hp_reason_name((int)call->status.reason));
        break;
    default:
        record->answer = call->ambiguous ? HISTORY_UNKNOWN : HISTORY_REFUSED;
        set(record->reason, call->unreachable ? "UNREACHABLE" : hp_reason_name((int)call->status.reason));
        if (call->status.reason == HP_R_UNSPECIFIED && !call->unreachable)
            set(record->reason, hp_code_name((int)call->status.code));
    }
}

static struct history_call run(const struct worker *worker, struct history_call *record, const char *method, const void *request,
                               const ProtobufCMessageDescriptor *response_type, reader read)
{
    struct hfi_call call = {.method = method,
                            .request = request,
                            .response_type = response_type,
                            .timeout_ms = worker->timeout_ms,
                            .retry = worker->retry};
    size_t number = history_begin(worker->history, record);
    hf_result result = hfi_call(worker->client, &call);
    judge(record, result, &call, read);
    hfi_call_release(&call);
    history_end(worker->history, number, record);
    return history_get(worker->history, number);
}

static void refuse(struct history_call *record, const char *reason)
{
    record->answer = HISTORY_REFUSED;
    set(record->reason, reason);
}

/* An item that has an error of its own. */
static void item_error(struct history_call *record, const Holdfast__V1__ItemError *error)
{
    bool lost = error->code == HP_UNKNOWN || error->code == HP_DEADLINE_EXCEEDED;
    record->answer = lost ? HISTORY_UNKNOWN : HISTORY_REFUSED;
    set(record->reason, error->reason);
}

/* What a server must not say: whether it happened isn't known. */
static void no_answer(struct history_call *record)
{
    record->answer = HISTORY_UNKNOWN;
    set(record->reason, "NO_OUTCOME");
}

/* ------------------------------------------------------------------------------------------------ leases */

static void read_acquire(struct history_call *record, const ProtobufCMessage *message)
{
    const Holdfast__V1__AcquireResponse *response = (const Holdfast__V1__AcquireResponse *)message;
    switch (response->outcome_case) {
    case HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED:
        if (response->granted->n_grants != 1) {
            no_answer(record);
            break;
        }
        record->got_token = response->granted->grants[0]->token;
        record->got_ttl_ms = response->granted->ttl_ms;
        record->got_waited_ms = response->granted->waited_ms;
        break;
    case HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD:
        refuse(record, response->held->guarded ? "GUARDED" : "HELD");
        record->got_token = response->held->token;
        break;
    case HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED:
        refuse(record, "ENDED");
        record->got_token = response->ended->token;
        break;
    default:
        no_answer(record);
    }
}

struct history_call worker_acquire(const struct worker *worker, const char *resource, int64_t ttl_ms, const char *request_id)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    struct history_call call = record(worker, HISTORY_ACQUIRE, resource);
    char *resources[] = {text(resource)};
    set(call.request_id, request_id);
    call.ttl_ms = ttl_ms;
    call.no_renewal = true;
    request.namespace_ = text(hf_client_namespace(worker->client));
    request.holder = text(hf_client_holder(worker->client));
    request.n_resources = 1;
    request.resources = resources;
    request.ttl_ms = ttl_ms;
    request.request_id = call.request_id;
    return run(worker, &call, HFI_ACQUIRE, &request, &holdfast__v1__acquire_response__descriptor, read_acquire);
}

static const char *loss_name(Holdfast__V1__Lost__Reason reason)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(&holdfast__v1__lost__reason__descriptor, (int)reason);
    return value ? value->name : "LOST";
}

static void read_renew(struct history_call *record, const ProtobufCMessage *message)
{
    const Holdfast__V1__RenewResponse *response = (const Holdfast__V1__RenewResponse *)message;
    const Holdfast__V1__RenewResult *item = response->n_items == 1 ? response->items[0] : NULL;
    if (!item || item->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME__NOT_SET)
        no_answer(record);
    else if (item->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR)
        item_error(record, item->error);
    else if (item->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED)
        record->got_ttl_ms = item->renewed->ttl_ms;
    else
        refuse(record, loss_name(item->lost->reason));
}

static Holdfast__V1__LeaseItem item_of(const struct history_call *call)
{
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT;
    item.resource = text(call->resource);
    item.token = call->token;
    return item;
}

struct history_call worker_renew(const struct worker *worker, const char *resource, int64_t token, int64_t ttl_ms)
{
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
    struct history_call call = record(worker, HISTORY_RENEW, resource);
    call.token = token;
    call.ttl_ms = ttl_ms;
    Holdfast__V1__LeaseItem item = item_of(&call), *items[] = {&item};
    request.namespace_ = text(hf_client_namespace(worker->client));
    request.n_items = 1;
    request.items = items;
    request.ttl_ms = ttl_ms;
    return run(worker, &call, HFI_RENEW, &request, &holdfast__v1__renew_response__descriptor, read_renew);
}

static void read_release(struct history_call *record, const ProtobufCMessage *message)
{
    const Holdfast__V1__ReleaseResponse *response = (const Holdfast__V1__ReleaseResponse *)message;
    if (response->n_items != 1)
        no_answer(record);
    else if (response->items[0]->error)
        item_error(record, response->items[0]->error);
    else if (!response->items[0]->was_held)
        refuse(record, "NOT_HELD");
}

struct history_call worker_release(const struct worker *worker, const char *resource, int64_t token)
{
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    struct history_call call = record(worker, HISTORY_RELEASE, resource);
    call.token = token;
    Holdfast__V1__LeaseItem item = item_of(&call), *items[] = {&item};
    request.namespace_ = text(hf_client_namespace(worker->client));
    request.n_items = 1;
    request.items = items;
    return run(worker, &call, HFI_RELEASE, &request, &holdfast__v1__release_response__descriptor, read_release);
}

static void read_break(struct history_call *record, const ProtobufCMessage *message)
{
    const Holdfast__V1__BreakResponse *response = (const Holdfast__V1__BreakResponse *)message;
    switch (response->outcome_case) {
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BROKEN:
        record->got_fence = response->broken->fence;
        break;
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_CHANGED:
        refuse(record, "CHANGED");
        record->got_token = response->changed->token;
        break;
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BLOCKED:
        refuse(record, "BLOCKED");
        break;
    default:
        no_answer(record);
    }
}

struct history_call worker_break(const struct worker *worker, const char *resource, int64_t token_seen)
{
    Holdfast__V1__BreakRequest request = HOLDFAST__V1__BREAK_REQUEST__INIT;
    struct history_call call = record(worker, HISTORY_BREAK, resource);
    call.token = token_seen;
    request.namespace_ = text(hf_client_namespace(worker->client));
    request.resource = call.resource;
    request.token_seen = token_seen;
    request.actor = text("worker");
    request.reason = text("test");
    return run(worker, &call, HFI_BREAK, &request, &holdfast__v1__break_response__descriptor, read_break);
}

/* ------------------------------------------------------------------------------------------------ values */

static void read_write(struct history_call *record, const ProtobufCMessage *message)
{
    const Holdfast__V1__WriteResponse *response = (const Holdfast__V1__WriteResponse *)message;
    record->got_version = response->version;
    record->got_fence = response->fence;
    record->replayed = response->replayed;
}

struct history_call worker_write(const struct worker *worker, const char *resource, int64_t token, int64_t write_seq,
                                 const char *value, int64_t expected)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    struct history_call call = record(worker, HISTORY_WRITE, resource);
    call.token = token;
    call.write_seq = write_seq;
    call.value = history_digest(value, strlen(value));
    request.namespace_ = text(hf_client_namespace(worker->client));
    request.resource = call.resource;
    request.token = token;
    request.write_seq = write_seq;
    request.value.data = (uint8_t *)(uintptr_t)value;
    request.value.len = strlen(value);
    if (expected >= 0) {
        call.has_expected = true;
        call.expected_version = expected;
        request.expected_case = HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = expected;
    }
    return run(worker, &call, HFI_WRITE, &request, &holdfast__v1__write_response__descriptor, read_write);
}

static void read_delete(struct history_call *record, const ProtobufCMessage *message)
{
    const Holdfast__V1__DeleteResponse *response = (const Holdfast__V1__DeleteResponse *)message;
    record->got_version = response->version;
    record->got_fence = response->fence;
    record->replayed = response->replayed;
}

struct history_call worker_delete(const struct worker *worker, const char *resource, int64_t token, int64_t write_seq,
                                  int64_t expected)
{
    Holdfast__V1__DeleteRequest request = HOLDFAST__V1__DELETE_REQUEST__INIT;
    struct history_call call = record(worker, HISTORY_DELETE, resource);
    call.token = token;
    call.write_seq = write_seq;
    request.namespace_ = text(hf_client_namespace(worker->client));
    request.resource = call.resource;
    request.token = token;
    request.write_seq = write_seq;
    if (expected >= 0) {
        call.has_expected = true;
        call.expected_version = expected;
        request.expected_case = HOLDFAST__V1__DELETE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = expected;
    }
    return run(worker, &call, HFI_DELETE, &request, &holdfast__v1__delete_response__descriptor, read_delete);
}

static void read_read(struct history_call *record, const ProtobufCMessage *message)
{
    const Holdfast__V1__ReadResponse *response = (const Holdfast__V1__ReadResponse *)message;
    record->got_version = response->version;
    record->got_fence = response->fence;
    record->got_token = response->token;
    record->got_value = response->exists ? history_digest(response->value.data, response->value.len) : 0;
}

struct history_call worker_read(const struct worker *worker, const char *resource)
{
    Holdfast__V1__ReadRequest request = HOLDFAST__V1__READ_REQUEST__INIT;
    struct history_call call = record(worker, HISTORY_READ, resource);
    request.namespace_ = text(hf_client_namespace(worker->client));
    request.resource = call.resource;
    return run(worker, &call, HFI_READ, &request, &holdfast__v1__read_response__descriptor, read_read);
}

void worker_assert(const struct history_call *call, enum history_answer answer, const char *reason)
{
    static const char *const names[] = {"unknown", "ok", "refused"};
    char line[1000];
    if (call->answer == answer && (!reason || !strcmp(call->reason, reason)))
        return;
    history_format(call, line, sizeof(line));
    fail_msg("after %lld ms not the answer wanted (%s %s): %s", (long long)(call->end_ns - call->start_ns) / 1000000, names[answer],
             reason ? reason : "", line);
}
