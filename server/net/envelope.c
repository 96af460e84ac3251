/*
 * envelope.c - see envelope.h.
 *
 * Memory: the envelope's arena holds what was decoded, the calls and the encoded replies; each call has an arena of its
 * own for its request, which goes when the call is answered (unless the service took it: call.h). `bytes` counts what an
 * envelope can make the process hold, so that the transport stops reading before it is too much.
 */
#include "net/envelope.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/envelope.h"
#include "proto/c/wire.h"

enum {
    CALL_BUDGET = 1 << 20,    /* of a call's arena, beyond four times its payload: 1,000 items and their bookkeeping */
    CALL_COST = 2048,         /* what a small call holds, for `bytes` */
    REPLY_ROOM = 64,          /* of a reply, around its payload */
    STATUS_ROOM = 2048,       /* of an encoded status */
    METADATA_MAX = 16,        /* of one call */
    TIMEOUT_MAX_MS = 3600000, /* longer ones are cut */
};

struct slot {
    struct hp_call call;
    struct envelope *env;
    Holdfast__V1__Reply reply;
};

struct envelope {
    struct list_node node;
    struct list_node beside;     /* of its source */
    struct net_envelopes *owner; /* NULL: orphan */
    struct net_source *source;   /* NULL: orphan */
    struct list *among;          /* where `beside` is linked */
    struct hp_arena *arena;
    void *from;
    struct net_peer peer; /* calls may outlive their connection */
    size_t n, open;       /* calls; calls not answered, and one more while they are being given out */
    size_t reply_bytes;   /* of the payloads answered */
    size_t charge;        /* in owner->bytes */
    struct slot *slots;
};

static void charge(struct envelope *env, size_t bytes)
{
    env->charge += bytes;
    if (env->owner)
        env->owner->bytes += bytes;
}

static void envelope_free(struct envelope *env)
{
    struct net_envelopes *owner = env->owner;
    if (owner) {
        list_remove(&owner->list, &env->node);
        owner->in_flight--;
        owner->bytes -= env->charge;
    }
    hp_arena_free(env->arena);
    free(env);
    if (owner && owner->finished)
        owner->finished(owner);
}

/* ---- replies ---- */

static void write_replies(void *arg, void *body)
{
    protobuf_c_message_pack(arg, body);
}

/* The source may be gone for good once `from` has been handed back: the envelope must have left it by then. */
static void leave_source(struct envelope *env)
{
    list_remove(env->among, &env->beside);
    env->source = NULL;
}

static void send_replies(struct envelope *env, Holdfast__V1__Reply **replies, size_t n)
{
    Holdfast__V1__ReplyEnvelope message = HOLDFAST__V1__REPLY_ENVELOPE__INIT;
    message.n_replies = n;
    message.replies = replies;
    size_t size = protobuf_c_message_get_packed_size(&message.base);
    leave_source(env);
    if (!env->owner->send(env->owner, env->from, size, write_replies, &message))
        env->owner->n_dropped++;
}

static void send_nothing(struct envelope *env)
{
    if (!env->source->gone)
        env->owner->n_dropped++;
    leave_source(env);
    env->owner->drop(env->owner, env->from);
}

static void close_one(struct envelope *env)
{
    if (--env->open)
        return;
    if (env->owner && env->source->gone) {
        send_nothing(env);
    } else if (env->owner) {
        Holdfast__V1__Reply **replies = hp_alloc_array(env->arena, env->n, sizeof(Holdfast__V1__Reply *));
        for (size_t i = 0; replies && i < env->n; i++)
            replies[i] = &env->slots[i].reply;
        if (replies)
            send_replies(env, replies, env->n);
        else
            send_nothing(env);
    }
    envelope_free(env);
}

/* One INVALID_ARGUMENT instead of replies. */
static void refuse(struct envelope *env, const struct hp_status *status)
{
    Holdfast__V1__Reply reply = HOLDFAST__V1__REPLY__INIT, *replies = &reply;
    env->owner->n_undecodable++;
    if (!env->source->gone && hp_reply_fill(env->arena, &reply, status, NULL, 0))
        send_replies(env, &replies, 1);
    else
        send_nothing(env);
    envelope_free(env);
}

/* The response as packed, in the envelope's arena. False: `status` says why not; the call was carried out all the same, so that is
 * told as an outcome that is not known. */
static bool pack_response(struct envelope *env, Holdfast__V1__Reply *reply, const ProtobufCMessage *response,
                          struct hp_status *status)
{
    size_t size = protobuf_c_message_get_packed_size(response);
    size_t others = env->n * (REPLY_ROOM + STATUS_ROOM);
    size_t max = env->owner->reply_max;
    if (size > max || env->reply_bytes + others > max - size) {
        hp_status_set(status, HP_R_OUTCOME_LOST, "the answers to one envelope are more than %zu bytes; send fewer calls together",
                      max);
        return false;
    }
    uint8_t *bytes = hp_alloc(env->arena, size);
    if (!bytes) {
        hp_status_set(status, HP_R_OUTCOME_LOST, "no memory for the answer");
        return false;
    }
    protobuf_c_message_pack(response, bytes);
    env->reply_bytes += size;
    charge(env, size);
    return hp_reply_fill(env->arena, reply, NULL, bytes, size);
}

static void fill_reply(struct envelope *env, struct slot *slot, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct hp_status failed;
    if (status && status->code == HP_OK)
        status = NULL;
    if (!status && !pack_response(env, &slot->reply, response, &failed))
        status = &failed;
    if (status && !hp_reply_fill(env->arena, &slot->reply, status, NULL, 0))
        slot->reply.code = status->code; /* no memory for more; NOLINT(clang-analyzer-core.*): an OK cannot fail */
}

/* Whether nobody will read the reply. */
static bool unread(const struct envelope *env)
{
    return !env->owner || env->source->gone;
}

static void answer(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct slot *slot = call->transport;
    struct envelope *env = slot->env;
    assert(call->answer); /* once */
    call->answer = NULL;
    if (!unread(env))
        fill_reply(env, slot, status, response);
    hp_arena_free(call->arena);
    call->arena = NULL;
    close_one(env);
}

/* ---- calls ---- */

static bool check_call(const Holdfast__V1__Call *call, struct hp_status *status)
{
    char text[24];
    if (call->timeout_ms < 0) {
        int n = snprintf(text, sizeof(text), "%lld", (long long)call->timeout_ms);
        hp_status_bad_field(status, HP_R_LIMIT, "timeout_ms", text, (size_t)n, "0 to 3600000");
        return false;
    }
    if (call->payload.len > HP_REQUEST_MAX) {
        int n = snprintf(text, sizeof(text), "%zu bytes", call->payload.len);
        hp_status_bad_field(status, HP_R_LIMIT, "payload", text, (size_t)n, "4194304 bytes");
        return false;
    }
    if (call->n_metadata > METADATA_MAX) {
        int n = snprintf(text, sizeof(text), "%zu entries", call->n_metadata);
        hp_status_bad_field(status, HP_R_LIMIT, "metadata", text, (size_t)n, "16 entries");
        return false;
    }
    return true;
}

static bool copy_metadata(struct envelope *env, struct hp_call *call, const Holdfast__V1__Call *from)
{
    const char **pairs = hp_alloc_array(env->arena, from->n_metadata * 2, sizeof(*pairs));
    if (!pairs)
        return false;
    for (size_t i = 0; i < from->n_metadata; i++) {
        pairs[2 * i] = from->metadata[i]->key;
        pairs[2 * i + 1] = from->metadata[i]->value;
    }
    call->metadata = pairs;
    call->n_metadata = from->n_metadata;
    return true;
}

static void give_out(struct envelope *env, struct slot *slot, const Holdfast__V1__Call *from, int64_t received_ms)
{
    struct net_envelopes *owner = env->owner;
    struct hp_status status;
    int64_t timeout = from->timeout_ms ? from->timeout_ms : owner->default_wait_ms;
    struct hp_call *call = &slot->call;
    *call = (struct hp_call){.method = from->method,
                             .payload = from->payload.data,
                             .payload_len = from->payload.len,
                             .received_ms = received_ms,
                             .deadline_ms = received_ms + (timeout < TIMEOUT_MAX_MS ? timeout : TIMEOUT_MAX_MS),
                             .peer = &env->peer.base,
                             .answer = answer,
                             .transport = slot};
    owner->n_calls++;
    if (!check_call(from, &status)) {
        answer(call, &status, NULL);
        return;
    }
    charge(env, CALL_COST + from->payload.len * 2); /* the request as unpacked, and as the store sends it on */
    call->arena = hp_arena_new(CALL_BUDGET + from->payload.len * 4);
    if (!call->arena || !copy_metadata(env, call, from)) {
        hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the call");
        answer(call, &status, NULL);
        return;
    }
    owner->on_call(owner->on_call_arg, call);
}

static struct envelope *envelope_new(struct net_envelopes *owner, struct net_source *source, void *from, size_t len)
{
    struct envelope *env = calloc(1, sizeof(*env));
    if (!env)
        return NULL;
    /* What is decoded (payloads once more, at most 1,000 calls with 16 pieces of metadata), and all replies. */
    env->arena = hp_arena_new(len * 3 + ((size_t)4 << 20) + owner->reply_max + (size_t)HP_ENVELOPE_CALLS * STATUS_ROOM);
    if (!env->arena) {
        free(env);
        return NULL;
    }
    env->owner = owner;
    env->source = source;
    env->from = from;
    net_peer_copy(&env->peer, &source->peer);
    list_push_back(&owner->list, &env->node);
    env->among = &source->envelopes;
    list_push_back(env->among, &env->beside);
    owner->in_flight++;
    charge(env, len * 2); /* its bytes, and what they are decoded to */
    return env;
}

void net_envelopes_init(struct net_envelopes *envelopes, struct io *io, size_t reply_max, int default_wait_ms)
{
    *envelopes = (struct net_envelopes){.io = io, .reply_max = reply_max, .default_wait_ms = default_wait_ms};
    list_init(&envelopes->list);
}

void net_source_init(struct net_source *source, int fd)
{
    *source = (struct net_source){.gone = false};
    net_peer_describe(&source->peer, fd, "nng");
    list_init(&source->envelopes);
    list_init(&source->told);
}

/* Its calls that are not answered are told that they have gone. The envelope must be kept open meanwhile. */
static void tell_gone(struct envelope *env)
{
    for (size_t i = 0; i < env->n; i++) {
        struct hp_call *call = &env->slots[i].call;
        if (call->answer && call->gone)
            call->gone(call);
    }
}

void net_source_gone(struct net_source *source)
{
    struct list_node *node;
    source->gone = true;
    /* One by one: a call that learns of it may answer others. */
    while ((node = list_pop_front(&source->envelopes))) {
        struct envelope *env = list_entry(node, struct envelope, beside);
        env->among = &source->told;
        list_push_back(env->among, node);
        env->open++;
        tell_gone(env);
        close_one(env);
    }
}

void net_envelopes_take(struct net_envelopes *envelopes, struct net_source *source, void *from, const void *body, size_t len,
                        int64_t received_ms)
{
    struct hp_status status;
    envelopes->n_envelopes++;
    struct envelope *env = envelope_new(envelopes, source, from, len);
    if (!env) {
        envelopes->n_dropped++;
        envelopes->drop(envelopes, from);
        return;
    }
    Holdfast__V1__CallEnvelope *message = hp_calls_decode(env->arena, body, len, &status);
    if (!message) {
        refuse(env, &status);
        return;
    }
    env->slots = hp_alloc_array(env->arena, message->n_calls, sizeof(*env->slots));
    if (!message->n_calls || !env->slots) {
        if (message->n_calls)
            hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the calls");
        else
            hp_status_bad_field(&status, HP_R_LIMIT, "calls", "0", 1, "1 to 1000");
        refuse(env, &status);
        return;
    }
    env->n = message->n_calls;
    env->open = env->n + 1; /* so that it isn't finished while its calls are being given out */
    for (size_t i = 0; i < env->n; i++) {
        env->slots[i].env = env;
        holdfast__v1__reply__init(&env->slots[i].reply);
    }
    for (size_t i = 0; i < env->n; i++)
        give_out(env, &env->slots[i], message->calls[i], received_ms);
    if (source->gone)
        net_source_gone(source);
    close_one(env);
}

void net_envelopes_orphan(struct net_envelopes *envelopes)
{
    struct list_node *node;
    while ((node = list_pop_front(&envelopes->list))) {
        struct envelope *env = list_entry(node, struct envelope, node);
        list_remove(env->among, &env->beside);
        env->source = NULL;
        env->owner = NULL;
    }
}
