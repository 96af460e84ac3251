/*
 * bench_operations.c - the kinds of bench about operations: every operation gets a key that never was before, and the last ones of
 * each lane are asked for again at the end: a repeat is told what was kept, other parameters are a conflict. See bench.h.
 *
 * What bench_key is to a resource it is here to a lane of keys, NAME/1, NAME/2 …; `writes` counts those begun.
 */
#include "client/cli/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/ops.h"

enum { KEY = 96, FINGERPRINT = 32 };

static void fill_key(const struct bench_key *key, char text[KEY])
{
    snprintf(text, KEY, "%s/%" PRId64, key->name, key->writes);
}

/* What a caller would have made of the parameters. */
static void fill_fingerprint(const struct bench_key *key, uint8_t bytes[FINGERPRINT])
{
    memset(bytes, 0x5a, FINGERPRINT);
    memcpy(bytes, &key->writes, sizeof(key->writes));
}

static bool start(struct bench_slot *slot, const char *method, const ProtobufCMessageDescriptor *response,
                  const ProtobufCMessage *request)
{
    slot->call->method = method;
    slot->call->response_type = response;
    slot->call->wait_ms = 0;
    slot->call->reply_max = (size_t)slot->run->options->value_size + 4096;
    return hfi_async_start(slot->call, request) || bench_wrong(slot->run, "no memory");
}

static const void *answer(struct bench_slot *slot, const char *what, const struct bench_key *key)
{
    if (slot->call->result == HF_OK)
        return slot->call->response;
    bench_call_failed(slot->run, slot->call, what, key->name);
    return NULL;
}

static enum bench_next one_done(struct bench_slot *slot, bool good)
{
    slot->step = 0;
    slot->at = (slot->at + 1) % slot->n_keys;
    return good ? BENCH_DONE : BENCH_FAILED;
}

/* ---- record ---- */

static bool send_record(struct bench_slot *slot, struct bench_key *key, bool other)
{
    struct bench_run *run = slot->run;
    Holdfast__V1__RecordRequest request = HOLDFAST__V1__RECORD_REQUEST__INIT;
    uint8_t fingerprint[FINGERPRINT];
    char name[KEY];

    fill_key(key, name);
    fill_fingerprint(key, fingerprint);
    bench_fill_value(run, key);
    if (other)
        fingerprint[FINGERPRINT - 1] ^= 1;
    request.namespace_ = (char *)(uintptr_t)run->cli->name_space;
    request.key = name;
    request.type = (char *)(uintptr_t) "bench";
    request.parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint.data = fingerprint;
    request.fingerprint.len = sizeof(fingerprint);
    request.result.data = run->value;
    request.result.len = (size_t)run->options->value_size;
    return start(slot, HFI_OPERATION "Record", &holdfast__v1__record_response__descriptor, &request.base);
}

bool bench_record_send(struct bench_slot *slot)
{
    bench_key(slot)->writes++;
    return send_record(slot, bench_key(slot), false);
}

enum bench_next bench_record_answered(struct bench_slot *slot)
{
    const Holdfast__V1__RecordResponse *response = answer(slot, "record", bench_key(slot));

    if (response && response->replayed)
        bench_wrong(slot->run, "%s/%" PRId64 ", a new key, was told to be an old one", bench_key(slot)->name,
                    bench_key(slot)->writes);
    return one_done(slot, response && !response->replayed);
}

/* ---- begin-complete ---- */

static bool send_begin(struct bench_slot *slot, struct bench_key *key)
{
    const struct bench_run *run = slot->run;
    Holdfast__V1__BeginRequest request = HOLDFAST__V1__BEGIN_REQUEST__INIT;
    uint8_t fingerprint[FINGERPRINT];
    char name[KEY], request_id[KEY + 8];

    key->writes++;
    fill_key(key, name);
    fill_fingerprint(key, fingerprint);
    snprintf(request_id, sizeof(request_id), "r/%s", name);
    request.namespace_ = (char *)(uintptr_t)run->cli->name_space;
    request.key = name;
    request.type = (char *)(uintptr_t) "bench";
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint.data = fingerprint;
    request.fingerprint.len = sizeof(fingerprint);
    request.holder = (char *)(uintptr_t)run->options->id;
    request.ttl_ms = run->options->ttl_ms;
    request.request_id = request_id;
    request.trigger = HOLDFAST__V1__TRIGGER__KIND__SCHEDULED;
    return start(slot, HFI_OPERATION "Begin", &holdfast__v1__begin_response__descriptor, &request.base);
}

static bool send_complete(struct bench_slot *slot, struct bench_key *key)
{
    struct bench_run *run = slot->run;
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    char name[KEY];

    fill_key(key, name);
    bench_fill_value(run, key);
    request.namespace_ = (char *)(uintptr_t)run->cli->name_space;
    request.key = name;
    request.token = key->token;
    request.result.data = run->value;
    request.result.len = (size_t)run->options->value_size;
    return start(slot, HFI_OPERATION "Complete", &holdfast__v1__finish_response__descriptor, &request.base);
}

bool bench_begin_complete_send(struct bench_slot *slot)
{
    return slot->step == 0 ? send_begin(slot, bench_key(slot)) : send_complete(slot, bench_key(slot));
}

enum bench_next bench_begin_complete_answered(struct bench_slot *slot)
{
    struct bench_key *key = bench_key(slot);

    if (slot->step == 0) {
        const Holdfast__V1__BeginResponse *begun = answer(slot, "begin", key);
        if (!begun)
            return BENCH_FAILED;
        if (begun->outcome_case != HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED || begun->started->attempt != 1)
            return bench_wrong(slot->run, "%s/%" PRId64 ", a new key, was not started", key->name, key->writes), BENCH_FAILED;
        key->token = begun->started->token;
        slot->step = 1;
        return BENCH_MORE;
    }
    const Holdfast__V1__FinishResponse *done = answer(slot, "complete", key);
    if (done && (done->replayed || done->state != HOLDFAST__V1__OPERATION__STATE__SUCCEEDED))
        return bench_wrong(slot->run, "%s/%" PRId64 " was completed and has not succeeded", key->name, key->writes), BENCH_FAILED;
    return one_done(slot, done != NULL);
}

/* ---- execute ---- */

bool bench_execute_send(struct bench_slot *slot)
{
    const struct bench_run *run = slot->run;
    struct bench_key *key = bench_key(slot);
    Holdfast__V1__ExecuteRequest request = HOLDFAST__V1__EXECUTE_REQUEST__INIT;
    uint8_t fingerprint[FINGERPRINT];
    char name[KEY];

    key->writes++;
    fill_key(key, name);
    fill_fingerprint(key, fingerprint);
    request.namespace_ = (char *)(uintptr_t)run->cli->name_space;
    request.key = name;
    request.type = (char *)(uintptr_t) "bench";
    request.parameters_case = HOLDFAST__V1__EXECUTE_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint.data = fingerprint;
    request.fingerprint.len = sizeof(fingerprint);
    request.action = (char *)(uintptr_t)cli_text(run->cli, CLI_ACTION);
    request.holder = (char *)(uintptr_t)run->options->id;
    return start(slot, HFI_OPERATION "Execute", &holdfast__v1__execute_response__descriptor, &request.base);
}

enum bench_next bench_execute_answered(struct bench_slot *slot)
{
    const Holdfast__V1__ExecuteResponse *response = answer(slot, "execute", bench_key(slot));

    if (response && (response->replayed || response->outcome_case != HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_DONE))
        return bench_wrong(slot->run, "%s/%" PRId64 ", a new key, was not executed", bench_key(slot)->name,
                           bench_key(slot)->writes),
               BENCH_FAILED;
    return one_done(slot, response != NULL);
}

/* ---- at the end ---- */

static bool was_kept(struct bench_slot *slot, struct bench_key *key)
{
    const Holdfast__V1__RecordResponse *response = answer(slot, "a repeated record", key);
    struct bench_run *run = slot->run;
    const size_t size = (size_t)run->options->value_size;

    if (!response)
        return false;
    if (!response->replayed)
        return bench_wrong(run, "%s/%" PRId64 " was not kept: its repeat was taken for a new one", key->name, key->writes);
    bench_fill_value(run, key);
    if (run->options->kind->keeps_value &&
        (response->result.len != size || (size && memcmp(response->result.data, run->value, size) != 0)))
        return bench_wrong(run, "%s/%" PRId64 ": the result that was kept is not the one that was given", key->name, key->writes);
    return true;
}

static bool repeat(struct bench_slot *slot, struct bench_key *key)
{
    return send_record(slot, key, false);
}

static bool repeat_otherwise(struct bench_slot *slot, struct bench_key *key)
{
    return send_record(slot, key, true);
}

static bool was_refused(struct bench_slot *slot, struct bench_key *key)
{
    if (slot->call->result == HF_OK)
        return bench_wrong(slot->run, "%s/%" PRId64 " was answered to other parameters", key->name, key->writes);
    if (slot->call->status.reason != HP_R_PARAMETER_CONFLICT)
        return bench_call_failed(slot->run, slot->call, "a record with other parameters", key->name);
    return true;
}

bool bench_verify_operations(struct bench_run *run)
{
    const struct bench_stage kept = {repeat, was_kept, .only_used = true},
                             refused = {repeat_otherwise, was_refused, .only_used = true};

    return bench_each(run, &kept) && bench_each(run, &refused);
}
