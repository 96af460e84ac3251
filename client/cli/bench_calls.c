/*
 * bench_calls.c - single calls of the bench, and what each answer has to say: a grant's token is higher than all before, a write's
 * version is the next one, a lease that is held is renewed, current and released. See bench.h.
 */
#include "client/cli/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/v1/resource.pb-c.h"

/* Two clocks are compared (ours and the database's), both in whole milliseconds, and they may drift a little. */
enum { SLACK_MS = 20, HEAD = 40 };

struct bench_key *bench_key(const struct bench_slot *slot)
{
    return &slot->run->keys[slot->first_key + slot->at];
}

static bool start(struct bench_slot *slot, const char *method, const ProtobufCMessageDescriptor *response,
                  const ProtobufCMessage *request, int64_t wait_ms)
{
    slot->call->method = method;
    slot->call->response_type = response;
    slot->call->wait_ms = wait_ms;
    slot->call->reply_max = 0;
    if (hfi_async_start(slot->call, request))
        return true;
    return bench_wrong(slot->run, "no memory");
}

/* One resource with its token, as requests name it. */
static Holdfast__V1__LeaseItem **one_item(struct bench_slot *slot, struct bench_key *key)
{
    struct bench_run *run = slot->run;

    run->items[0].resource = key->name;
    run->items[0].token = key->token;
    return run->pointers;
}

/* The answer, or NULL: the run has failed. */
static const void *answer(struct bench_slot *slot, const char *what, const struct bench_key *key)
{
    if (slot->call->result == HF_OK)
        return slot->call->response;
    bench_call_failed(slot->run, slot->call, what, key->name);
    return NULL;
}

/* ---- acquire, release ---- */

bool bench_send_acquire(struct bench_slot *slot, struct bench_key *key, int64_t wait_ms)
{
    const struct bench_run *run = slot->run;
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char request_id[64], holder[64], *resources[1] = {key->name};

    snprintf(holder, sizeof(holder), "bench:%s:%u:%zu", run->options->id, run->process, (size_t)(slot - run->slots));
    snprintf(request_id, sizeof(request_id), "%s-%u-%zu-%" PRIu64, run->options->id, run->process, (size_t)(slot - run->slots),
             slot->serial++);
    request.namespace_ = (char *)(uintptr_t)run->cli->name_space;
    request.n_resources = 1;
    request.resources = resources;
    request.holder = holder;
    request.ttl_ms = run->options->ttl_ms;
    request.wait_ms = wait_ms;
    request.request_id = request_id;
    slot->sent_ms = hfi_boot_ms();
    return start(slot, HFI_ACQUIRE, &holdfast__v1__acquire_response__descriptor, &request.base, wait_ms);
}

bool bench_took_grant(struct bench_slot *slot, struct bench_key *key, bool *held)
{
    const Holdfast__V1__AcquireResponse *response = answer(slot, "acquire", key);
    int64_t token;

    if (held)
        *held = response && response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD;
    if (!response || (held && *held))
        return response != NULL;
    if (response->outcome_case != HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED || response->granted->n_grants != 1)
        return bench_wrong(slot->run, "%s, which nobody held, was not granted", key->name);
    token = response->granted->grants[0]->token;
    if (key->held)
        return bench_wrong(slot->run, "%s was granted to two at once: tokens %" PRId64 " and %" PRId64, key->name, key->token,
                           token);
    if (token <= key->token)
        return bench_wrong(slot->run, "%s: token %" PRId64 " after token %" PRId64, key->name, token, key->token);
    if (key->grants++ == 0)
        key->first_token = token;
    key->token = token;
    key->held = true;
    key->write_seq = 0;
    key->renewed_ms = slot->sent_ms;
    return true;
}

bool bench_send_release(struct bench_slot *slot, struct bench_key *key)
{
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;

    request.namespace_ = (char *)(uintptr_t)slot->run->cli->name_space;
    request.n_items = 1;
    request.items = one_item(slot, key);
    key->held = false; /* the next grant may be heard of before this release is answered */
    key->released_ns = bench_now_ns();
    return start(slot, HFI_RELEASE, &holdfast__v1__release_response__descriptor, &request.base, 0);
}

bool bench_took_release(struct bench_slot *slot, struct bench_key *key)
{
    const Holdfast__V1__ReleaseResponse *response = answer(slot, "release", key);

    if (!response)
        return false;
    if (response->n_items != 1 || response->items[0]->error || !response->items[0]->was_held)
        return bench_wrong(slot->run, "%s: the lease was not held when it was released", key->name);
    return true;
}

/* ---- renew, check ---- */

bool bench_send_renew(struct bench_slot *slot, struct bench_key *keys, size_t n)
{
    struct bench_run *run = slot->run;
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;

    for (size_t i = 0; i < n; i++) {
        run->items[i].resource = keys[i].name;
        run->items[i].token = keys[i].token;
    }
    request.namespace_ = (char *)(uintptr_t)run->cli->name_space;
    request.n_items = n;
    request.items = run->pointers;
    request.ttl_ms = run->options->ttl_ms;
    slot->sent_ms = hfi_boot_ms();
    return start(slot, HFI_RENEW, &holdfast__v1__renew_response__descriptor, &request.base, 0);
}

bool bench_took_renewal(struct bench_slot *slot, struct bench_key *keys, size_t n)
{
    const Holdfast__V1__RenewResponse *response = answer(slot, "renew", keys);

    if (!response)
        return false;
    if (response->n_items != n)
        return bench_wrong(slot->run, "a renewal of %zu leases was answered for %zu", n, response->n_items);
    for (size_t i = 0; i < n; i++) {
        if (response->items[i]->outcome_case != HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED)
            return bench_wrong(slot->run, "%s: the lease with token %" PRId64 " was not renewed", keys[i].name, keys[i].token);
        keys[i].renewed_ms = slot->sent_ms;
    }
    return true;
}

bool bench_send_check(struct bench_slot *slot, struct bench_key *key)
{
    Holdfast__V1__CheckRequest request = HOLDFAST__V1__CHECK_REQUEST__INIT;

    request.namespace_ = (char *)(uintptr_t)slot->run->cli->name_space;
    request.n_items = 1;
    request.items = one_item(slot, key);
    return start(slot, HFI_CHECK, &holdfast__v1__check_response__descriptor, &request.base, 0);
}

/* The lease lives, and as long as its newest grant or renewal has to make it live. */
bool bench_took_check(struct bench_slot *slot, struct bench_key *key)
{
    const Holdfast__V1__CheckResponse *response = answer(slot, "check", key);
    int64_t remaining_ms, least_ms;

    if (!response)
        return false;
    if (response->n_items != 1 || response->items[0]->outcome_case != HOLDFAST__V1__CHECK_RESULT__OUTCOME_CURRENT)
        return bench_wrong(slot->run, "%s: token %" PRId64 " is not current", key->name, key->token);
    remaining_ms = response->items[0]->current->remaining_ms;
    least_ms = slot->run->options->ttl_ms - (hfi_boot_ms() - key->renewed_ms) - SLACK_MS;
    if (remaining_ms < least_ms)
        return bench_wrong(slot->run, "%s: %" PRId64 " ms remain of its lease, though it was renewed for at least %" PRId64,
                           key->name, remaining_ms, least_ms);
    return true;
}

/* ---- write, read ---- */

/* Its first bytes name the resource and the write; no two writes of a run are alike, if the value is long enough. */
void bench_fill_value(struct bench_run *run, const struct bench_key *key)
{
    const size_t size = (size_t)run->options->value_size;
    char head[HEAD + 1];

    snprintf(head, sizeof(head), "%020" PRId64 "%020zu", key->writes, (size_t)(key - run->keys));
    memcpy(run->value, head, size < HEAD ? size : HEAD);
}

bool bench_send_write(struct bench_slot *slot, struct bench_key *key)
{
    struct bench_run *run = slot->run;
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;

    key->writes++;
    bench_fill_value(run, key);
    request.namespace_ = (char *)(uintptr_t)run->cli->name_space;
    request.resource = key->name;
    request.token = key->token;
    request.write_seq = ++key->write_seq;
    request.value.data = run->value;
    request.value.len = (size_t)run->options->value_size;
    return start(slot, HFI_WRITE, &holdfast__v1__write_response__descriptor, &request.base, 0);
}

bool bench_took_write(struct bench_slot *slot, struct bench_key *key)
{
    const Holdfast__V1__WriteResponse *response = answer(slot, "write", key);

    if (!response)
        return false;
    if (response->replayed || response->version != key->version + 1)
        return bench_wrong(slot->run, "%s: %s version %" PRId64 " after version %" PRId64, key->name,
                           response->replayed ? "replayed" : "written", response->version, key->version);
    key->version = response->version;
    return true;
}

bool bench_send_read(struct bench_slot *slot, struct bench_key *key)
{
    Holdfast__V1__ReadRequest request = HOLDFAST__V1__READ_REQUEST__INIT;

    request.namespace_ = (char *)(uintptr_t)slot->run->cli->name_space;
    request.resource = key->name;
    if (!start(slot, HFI_READ, &holdfast__v1__read_response__descriptor, &request.base, 0))
        return false;
    slot->call->reply_max = (size_t)slot->run->options->value_size + 4096;
    return true;
}

/* The database holds what the answers said: as many grants as its fence has risen by, as many writes as versions. */
bool bench_took_read(struct bench_slot *slot, struct bench_key *key)
{
    const Holdfast__V1__ReadResponse *response = answer(slot, "read", key);
    struct bench_run *run = slot->run;
    const size_t size = (size_t)run->options->value_size;

    if (!response)
        return false;
    if (response->fence != key->token || response->fence - key->first_token != key->grants - 1)
        return bench_wrong(run, "%s: the fence went from %" PRId64 " to %" PRId64 ", but %" PRId64 " grants were counted",
                           key->name, key->first_token, response->fence, key->grants);
    if (response->version != key->writes || response->exists != (key->writes > 0))
        return bench_wrong(run, "%s: version %" PRId64 " after %" PRId64 " accepted writes", key->name, response->version,
                           key->writes);
    if (!response->exists)
        return true;
    bench_fill_value(run, key);
    if (response->value.len != size || (size && memcmp(response->value.data, run->value, size) != 0))
        return bench_wrong(run, "%s: the value is not that of its last write", key->name);
    return true;
}
