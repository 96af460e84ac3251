/* grpc_call.c - see grpc.h: envelopes taken apart into calls, and put together again from their answers. */
#include <stdlib.h>
#include <string.h>

#include "client/lib/grpc.h"
#include "proto/c/utf8.h"

struct tr_exchange *grpc_prepare(const void *data, size_t len)
{
    struct hp_arena *arena = hp_arena_new(len * 4 + ((size_t)1 << 20));
    struct hp_status status;
    Holdfast__V1__CallEnvelope *envelope = arena ? hp_calls_decode(arena, data, len, &status) : NULL;
    struct grpc_exchange *exchange;

    if (!envelope) {
        hp_arena_free(arena);
        return NULL;
    }
    exchange = calloc(1, sizeof(*exchange) + envelope->n_calls * sizeof(struct grpc_call));
    if (!exchange) {
        hp_arena_free(arena);
        return NULL;
    }
    exchange->arena = arena;
    exchange->n = envelope->n_calls;
    for (size_t i = 0; i < exchange->n; i++) {
        struct grpc_call *call = &exchange->calls[i];
        call->exchange = exchange;
        call->call = envelope->calls[i];
        call->end_at = UINT64_MAX;
        call->code = -1;
        hp_grpc_prefix(call->prefix, false, call->call->payload.len);
        hp_grpc_reader_init(&call->reader, GRPC_MESSAGE_MAX);
    }
    return &exchange->base;
}

void grpc_release(struct tr_exchange *base)
{
    struct grpc_exchange *exchange = (struct grpc_exchange *)base;

    for (size_t i = 0; i < exchange->n; i++) {
        hp_buf_release(&exchange->calls[i].details);
        hp_grpc_reader_release(&exchange->calls[i].reader);
    }
    hp_arena_free(exchange->arena);
    free(exchange);
}

/* ------------------------------------------------------------------------------------------------ replies */

/* What isn't Holdfast's own word: somebody between has said it, who may have passed the call on. */
static bool of_stranger(const struct grpc_call *call)
{
    Holdfast__V1__Reply reply = HOLDFAST__V1__REPLY__INIT;
    struct hp_status status;

    if (call->code != HP_UNAVAILABLE && call->code != HP_RESOURCE_EXHAUSTED)
        return false;
    reply.code = call->code;
    reply.details.data = call->details.data;
    reply.details.len = call->details.len;
    hp_reply_status(&reply, &status);
    return status.reason == HP_R_UNSPECIFIED;
}

static bool fill_lost(struct hp_arena *arena, Holdfast__V1__Reply *reply, const char *what, const char *more)
{
    struct hp_status status;

    hp_status_set(&status, HP_R_OUTCOME_LOST, "%s%s%s", what, *more ? ": " : "", more);
    return hp_reply_fill(arena, reply, &status, NULL, 0);
}

/* An answer that isn't gRPC's. */
static bool fill_http(struct hp_arena *arena, Holdfast__V1__Reply *reply, int http_status)
{
    struct hp_status status;
    const enum hp_code code = hp_grpc_code_of_http(http_status);

    hp_status_set(&status, code == HP_UNAVAILABLE ? HP_R_OUTCOME_LOST : HP_R_INTERNAL,
                  "the answer isn't gRPC's, but HTTP's with status %d: is there something between?", http_status);
    if (code != HP_UNAVAILABLE) {
        status.code = code == HP_OK ? HP_UNKNOWN : code;
        status.reason = HP_R_UNSPECIFIED;
    }
    return hp_reply_fill(arena, reply, &status, NULL, 0);
}

static bool fill_answer(struct hp_arena *arena, Holdfast__V1__Reply *reply, const struct grpc_call *call)
{
    if (call->http_status != 200 || !call->is_grpc)
        return fill_http(arena, reply, call->http_status);
    if (call->wrong)
        return fill_lost(arena, reply, call->wrong, "");
    if (of_stranger(call))
        return fill_lost(arena, reply, "somebody between us and the server says UNAVAILABLE", call->message);
    holdfast__v1__reply__init(reply);
    reply->code = call->code;
    if (call->code == HP_OK) {
        reply->payload.data = call->reader.message.data;
        reply->payload.len = call->reader.message.len;
        return true;
    }
    reply->message = (char *)(uintptr_t)call->message;
    reply->details.data = call->details.data;
    reply->details.len = call->details.len;
    return true;
}

static bool fill(struct hp_arena *arena, Holdfast__V1__Reply *reply, const struct grpc_call *call)
{
    struct hp_status status;

    if (call->end == GRPC_ANSWERED)
        return fill_answer(arena, reply, call);
    if (call->end == GRPC_LOST)
        return fill_lost(arena, reply, "the connection was lost before the answer came", "");
    hp_status_set(&status, HP_R_DATABASE_DOWN, "it was not sent: the connection was lost");
    status.reason = HP_R_UNSPECIFIED;
    return hp_reply_fill(arena, reply, &status, NULL, 0);
}

/* The reply envelope is the exchange's reply. False: no memory. */
static bool make_reply(struct grpc_exchange *exchange)
{
    Holdfast__V1__ReplyEnvelope message = HOLDFAST__V1__REPLY_ENVELOPE__INIT;
    struct hp_arena *arena = hp_arena_new(exchange->n * 4096 + ((size_t)1 << 16));
    Holdfast__V1__Reply *replies = arena ? hp_alloc_array(arena, exchange->n, sizeof(*replies)) : NULL;
    Holdfast__V1__Reply **pointers = arena ? hp_alloc_array(arena, exchange->n, sizeof(Holdfast__V1__Reply *)) : NULL;
    bool whole = replies && pointers;

    for (size_t i = 0; whole && i < exchange->n; i++) {
        pointers[i] = &replies[i];
        whole = fill(arena, &replies[i], &exchange->calls[i]);
    }
    if (whole) {
        message.n_replies = exchange->n;
        message.replies = pointers;
        exchange->base.reply_len = holdfast__v1__reply_envelope__get_packed_size(&message);
        exchange->base.reply = malloc(exchange->base.reply_len ? exchange->base.reply_len : 1);
        whole = exchange->base.reply;
        if (whole)
            holdfast__v1__reply_envelope__pack(&message, exchange->base.reply);
    }
    hp_arena_free(arena);
    return whole;
}

/* What became of it as a whole. */
static void finish(struct grpc_exchange *exchange)
{
    size_t count[GRPC_ANSWERED + 1] = {0};
    enum hfi_fate fate = HFI_ANSWERED;

    for (size_t i = 0; i < exchange->n; i++)
        count[exchange->calls[i].end]++;
    if (count[GRPC_UNSEEN] == exchange->n)
        fate = HFI_NOT_SENT;
    else if (count[GRPC_LOST] == exchange->n || !make_reply(exchange))
        fate = HFI_NO_ANSWER;
    exchange->base.owner->partly = fate == HFI_ANSWERED && count[GRPC_ANSWERED] < exchange->n;
    if (exchange->base.queued)
        tr_unqueue(&exchange->base);
    tr_end(&exchange->base, fate);
}

void grpc_call_end(struct grpc_call *call, enum grpc_end end)
{
    struct grpc_link *link = call->exchange->base.conn->link;

    if (call->prev) {
        *call->prev = call->next;
        if (call->next)
            call->next->prev = call->prev;
        call->prev = NULL;
        link->n_open--;
    }
    call->end = end;
    if (++call->exchange->ended == call->exchange->n)
        finish(call->exchange);
}

void grpc_end_unbegun(struct grpc_exchange *exchange)
{
    while (exchange->begun < exchange->n)
        grpc_call_end(&exchange->calls[exchange->begun++], GRPC_UNSEEN);
}
