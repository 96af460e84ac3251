/*
 * call.c - one call with its retries. The caller's thread does all of it: it hands tries to the packing (mux.h), waits, judges
 * what came back, and pauses before the next one.
 */
#include "client/lib/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "client/lib/wait.h"
#include "proto/c/wire.h"

enum { TRY_MAX_MS = 5000, TRY_MIN_MS = 200 };

struct running {
    struct hf_client *client;
    struct hfi_call *call;
    pthread_cond_t own_cond, *cond;
    void *payload;
    size_t payload_len;
    int64_t timeout_ms, deadline_ms; /* the deadline is that of the wait too */
    int64_t unreachable_since_ms;    /* 0: the last try reached a server */
    unsigned retries;
    void *reply;
    size_t reply_len;
};

enum verdict { VERDICT_DONE, VERDICT_RETRY, VERDICT_RETRY_NOW };

static void try_done(struct hfi_try *self)
{
    struct running *run = self->arg;

    pthread_cond_broadcast(run->cond);
}

static bool try_may_send(struct hfi_try *self)
{
    struct running *run = self->arg;

    return run->call->may_send(run->call);
}

static bool given_up(const struct running *run)
{
    return run->call->wait && run->call->wait->given_up;
}

/* How long the server may wait before it answers. */
static int64_t wait_ms(const struct running *run, int64_t now)
{
    return run->call->wait && !run->call->wait->here ? hfi_wait_left(run->call->wait, now) : 0;
}

/* The patience for an answer, beside the wait. A try that may be repeated gives up early enough for a repeat, perhaps at another
 * server. (That a server is dead is usually found out long before: hfi_mux_watch.) */
static int64_t try_ms(const struct running *run, int64_t now)
{
    const int64_t left = run->deadline_ms - now - wait_ms(run, now);
    int64_t ms = run->timeout_ms / 3;

    if (run->call->retry < HFI_RETRY_HARMLESS)
        return left;
    if (ms > TRY_MAX_MS)
        ms = TRY_MAX_MS;
    if (ms < TRY_MIN_MS)
        ms = TRY_MIN_MS;
    return ms < left ? ms : left;
}

static void make_try(struct running *run, struct hfi_try *self, int64_t now)
{
    const int64_t wait = wait_ms(run, now);

    memset(self, 0, sizeof(*self));
    self->method = run->call->method;
    self->payload = run->payload;
    self->payload_len = run->payload_len;
    self->timeout_ms = wait + try_ms(run, now);
    self->reply_max = run->call->reply_max;
    self->alone = wait > 0;
    self->quiet_ms = wait > 0 ? HFI_QUIET_WAIT_MS : 0;
    self->repeatable = run->call->retry >= HFI_RETRY_HARMLESS;
    self->done = try_done;
    self->may_send = run->call->may_send ? try_may_send : NULL;
    self->arg = run;
}

/* Sees to what the try needs, and returns when to come again. The lock may have been away. */
static int64_t tend(struct running *run, struct hfi_try *self)
{
    struct hf_client *client = run->client;
    int64_t at, remind_at;

    if (self->state == HFI_TRY_QUEUED) {
        at = hfi_mux_flush_at(&client->mux);
        if (at > hfi_now(client))
            return at;
        hfi_mux_flush(&client->mux);
        return 0;
    }
    at = hfi_mux_watch(&client->mux, self);
    if (!self->alone || self->state == HFI_TRY_DONE)
        return at;
    remind_at = hfi_wait_remind(client, run->call->wait, run->call->request, self);
    return remind_at < at ? remind_at : at;
}

/* Sends once and waits. Lock held, released while waiting. */
static void send_once(struct running *run, struct hfi_try *self)
{
    struct hf_client *client = run->client;
    const int64_t start = hfi_now(client);
    int64_t until;

    make_try(run, self, start);
    until = start + self->timeout_ms;
    if (self->alone)
        hfi_wait_remind_begin(client, run->call->wait);
    hfi_mux_submit(&client->mux, self);
    while (self->state != HFI_TRY_DONE && hfi_now(client) < until && !given_up(run)) {
        const int64_t at = tend(run, self);
        if (self->state != HFI_TRY_DONE && !given_up(run))
            client->ports.clock->wait(client->ports.clock, run->cond, &client->mutex, at < until ? at : until);
    }
    if (self->alone)
        hfi_wait_remind_end(client, run->call->wait);
    if (self->state == HFI_TRY_FLYING && given_up(run))
        hfi_wait_withdraw(client, run->call->wait, self);
    else if (self->state == HFI_TRY_FLYING)
        hfi_mux_failed(&client->mux, self->endpoint);
    if (self->state != HFI_TRY_DONE)
        hfi_mux_cancel(&client->mux, self);
}

static const char *where(const struct running *run)
{
    return run->client->servers;
}

/* " (refused)", or " (URL: refused)" if there are several endpoints: of the one that was tried last. */
static void why_not(struct running *run, char *text, size_t size)
{
    struct hfi_transport *transport = run->client->ports.transport;
    const unsigned endpoint = run->client->mux.endpoints.present;
    char why[256] = "";

    if (transport->why)
        transport->why(transport, endpoint, why, sizeof(why));
    if (why[0] && transport->n_endpoints > 1)
        snprintf(text, size, " (%s: %s)", transport->url(transport, endpoint), why);
    else if (why[0])
        snprintf(text, size, " (%s)", why);
}

static void set_unreachable(struct running *run)
{
    struct hp_status *status = &run->call->status;

    char why[300] = "";

    why_not(run, why, sizeof(why));
    hp_status_set(status, HP_R_DATABASE_DOWN, "no server could be reached at %s%s", where(run), why);
    status->reason = HP_R_UNSPECIFIED;
    run->call->unreachable = true;
}

/* The end of a call whose last try had no effect that is known of: what it is depends on the tries before. */
static hf_result give_up(struct running *run)
{
    struct hfi_call *call = run->call;

    if (call->ambiguous) {
        char last[128] = "";
        if (call->status.code != HP_OK)
            snprintf(last, sizeof(last), " (%.120s)", call->status.message);
        hp_status_set(&call->status, HP_R_OUTCOME_LOST, "sent to %s, but no answer in %lld ms: the outcome is not known%s",
                      where(run), (long long)run->timeout_ms, last);
        return HF_UNKNOWN;
    }
    if (run->unreachable_since_ms || call->status.code == HP_OK)
        set_unreachable(run);
    return HF_UNAVAILABLE;
}

static enum verdict judge_answer(struct running *run, struct hfi_try *self, hf_result *result)
{
    struct hfi_call *call = run->call;

    run->unreachable_since_ms = 0;
    call->status = self->status;
    *result = hfi_result(&self->status);
    switch (*result) {
    case HF_OK:
        hfi_budget_success(&run->client->budget);
        run->reply = self->reply;
        run->reply_len = self->reply_len;
        return VERDICT_DONE;
    case HF_UNAVAILABLE:
        if (call->retry != HFI_RETRY_NEVER)
            return VERDICT_RETRY;
        *result = call->ambiguous ? give_up(run) : HF_UNAVAILABLE;
        return VERDICT_DONE;
    case HF_UNKNOWN:
        if (call->retry != HFI_RETRY_READ)
            call->ambiguous = true;
        return call->retry >= HFI_RETRY_HARMLESS ? VERDICT_RETRY : VERDICT_DONE;
    default:
        return VERDICT_DONE;
    }
}

static enum verdict judge_refused(struct running *run, hf_result *result)
{
    struct hfi_call *call = run->call;

    call->refused = true;
    if (call->ambiguous) {
        *result = give_up(run);
    } else {
        hp_status_set(&call->status, HP_R_NOT_HELD, "refused here: the lease is over");
        *result = HF_LOST;
    }
    return VERDICT_DONE;
}

static enum verdict judge(struct running *run, struct hfi_try *self, int64_t started_ms, hf_result *result)
{
    struct hfi_call *call = run->call;
    const int64_t now = hfi_now(run->client);

    if (self->fate != HFI_NOT_SENT) {
        call->tries += run->call->wait && run->call->wait->reminded ? 2 : 1;
        call->sent_ms = self->sent_ms;
        if (!call->ambiguous)
            call->first_sent_ms = self->sent_ms;
    }
    if (self->fate == HFI_ANSWERED)
        return judge_answer(run, self, result);
    if (self->refused)
        return judge_refused(run, result);
    if (self->fate == HFI_NOT_SENT) {
        if (!run->unreachable_since_ms)
            run->unreachable_since_ms = started_ms;
        if (!call->ambiguous && now - run->unreachable_since_ms >= run->client->connect_timeout_ms) {
            *result = give_up(run);
            return VERDICT_DONE;
        }
        /* Having waited for a connection is pause enough. */
        return now - started_ms >= HFI_SEND_MS / 2 ? VERDICT_RETRY_NOW : VERDICT_RETRY;
    }
    run->unreachable_since_ms = 0;
    if (call->retry != HFI_RETRY_READ)
        call->ambiguous = true;
    if (call->retry >= HFI_RETRY_HARMLESS)
        return VERDICT_RETRY;
    *result = give_up(run);
    return VERDICT_DONE;
}

static bool pack(struct running *run)
{
    const ProtobufCMessage *request = run->call->request;

    free(run->payload);
    run->payload = NULL;
    run->payload_len = protobuf_c_message_get_packed_size(request);
    if (run->payload_len > HP_REQUEST_MAX)
        return true; /* refused by the caller of pack() */
    run->payload = malloc(run->payload_len ? run->payload_len : 1);
    if (!run->payload)
        return false;
    protobuf_c_message_pack(request, run->payload);
    return true;
}

/* Each try asks for what is left of the wait. */
static bool pack_wait(struct running *run)
{
    struct hfi_wait *wait = run->call->wait;

    if (!wait)
        return true;
    wait->set_left(wait, wait_ms(run, hfi_now(run->client)));
    return pack(run);
}

static hf_result end_given_up(struct running *run)
{
    if (run->call->ambiguous && !run->call->wait->withdrawn)
        return give_up(run);
    hp_status_set(&run->call->status, HP_R_UNSPECIFIED, "the wait was given up");
    return HF_HELD;
}

/* The tries. Lock held. */
static hf_result run_tries(struct running *run)
{
    struct hf_client *client = run->client;
    struct hfi_call *call = run->call;

    for (;;) {
        struct hfi_try self;
        hf_result result = HF_FAILED;
        const int64_t started = hfi_now(client);
        enum verdict verdict;
        int64_t at, now;

        if (client->closing)
            return HF_MISUSE;
        if (given_up(run))
            return end_given_up(run);
        if (!pack_wait(run))
            return call->ambiguous ? give_up(run) : HF_NO_MEMORY;
        send_once(run, &self);
        verdict = judge(run, &self, started, &result);
        if (verdict == VERDICT_DONE)
            return result;
        now = at = hfi_now(client);
        if (verdict == VERDICT_RETRY)
            at += hfi_retry_delay(&client->budget, run->retries++, call->status.retry_ms, now,
                                  client->ports.random->next(client->ports.random));
        if (at >= run->deadline_ms && !given_up(run))
            return give_up(run);
        while (hfi_now(client) < at && !given_up(run))
            client->ports.clock->wait(client->ports.clock, run->cond, &client->mutex, at);
    }
}

/* There is no memory for an answer that came, so that nobody will know what it said. */
static hf_result lose_reply(struct hfi_call *call)
{
    if (call->retry == HFI_RETRY_READ)
        return HF_NO_MEMORY;
    hp_status_set(&call->status, HP_R_OUTCOME_LOST, "out of memory for the answer: the outcome is not known");
    return HF_UNKNOWN;
}

/* The answer as a message. */
static hf_result take_reply(struct running *run)
{
    struct hfi_call *call = run->call;

    /* protobuf-c's structs are larger than the wire: a list of 1000 small ones needs some 20 times the bytes. */
    call->arena = hp_arena_new(run->reply_len * 32 + ((size_t)1 << 20));
    if (!call->arena)
        return lose_reply(call);
    call->response = hp_unpack_within(&hp_wire_reply, call->arena, call->response_type, run->reply, run->reply_len, &call->status);
    if (call->response)
        return HF_OK;
    if (hp_arena_failure(call->arena) == HP_ARENA_MEMORY)
        return lose_reply(call);
    call->status.code = HP_INTERNAL;
    call->status.reason = HP_R_INTERNAL;
    return HF_FAILED;
}

hf_result hfi_call(struct hf_client *client, struct hfi_call *call)
{
    struct running run = {.client = client, .call = call};
    hf_result result;

    memset(&call->status, 0, sizeof(call->status));
    call->response = NULL;
    call->arena = NULL;
    call->first_sent_ms = call->sent_ms = 0;
    call->tries = 0;
    call->ambiguous = call->unreachable = call->refused = false;
    if (!hfi_same_process(client))
        return HF_MISUSE;
    if (!pack(&run))
        return HF_NO_MEMORY;
    if (run.payload_len > HP_REQUEST_MAX) {
        hp_status_set(&call->status, HP_R_LIMIT, "the request has %zu bytes; at most %d are allowed", run.payload_len,
                      (int)HP_REQUEST_MAX);
        return HF_INVALID;
    }
    if (hfi_cond_init(&run.own_cond)) {
        free(run.payload);
        return HF_NO_MEMORY;
    }
    run.cond = call->wait ? &call->wait->cond : &run.own_cond;
    pthread_mutex_lock(&client->mutex);
    run.timeout_ms = call->timeout_ms > 0 && call->timeout_ms < INT32_MAX ? call->timeout_ms : client->timeout_ms;
    run.deadline_ms = hfi_now(client) + wait_ms(&run, hfi_now(client)) + run.timeout_ms;
    result = run_tries(&run);
    pthread_mutex_unlock(&client->mutex);
    if (result == HF_OK)
        result = take_reply(&run);
    pthread_cond_destroy(&run.own_cond);
    free(run.payload);
    free(run.reply);
    return result;
}

void hfi_call_release(struct hfi_call *call)
{
    hp_arena_free(call->arena);
    call->arena = NULL;
    call->response = NULL;
}

void hfi_new_id(struct hf_client *client, char id[HFI_ID_SIZE])
{
    struct hfi_random *random = client->ports.random;

    snprintf(id, HFI_ID_SIZE, "%016llx%016llx", (unsigned long long)random->next(random), (unsigned long long)random->next(random));
}
