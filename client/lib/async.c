/*
 * async.c - see async.h. A call is in one list at a time: ready (started), in the mux, done (its try is), taken (to be given
 * back), or later (to be tried again). The list `done` is filled by the transport's threads, under the client's mutex; the others
 * are the owner's alone.
 */
#include "client/lib/async.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "proto/c/wire.h"

struct list {
    struct hfi_async_call *first, **last;
};

struct hfi_async {
    struct hf_client *client;
    pthread_cond_t news; /* `done` is no longer empty */
    struct list ready, done, taken, later;
    size_t n_open, n;
    struct hfi_async_call calls[];
};

static void list_init(struct list *list)
{
    list->first = NULL;
    list->last = &list->first;
}

static void append(struct list *list, struct hfi_async_call *call)
{
    call->next = NULL;
    *list->last = call;
    list->last = &call->next;
}

static struct hfi_async_call *pop(struct list *list)
{
    struct hfi_async_call *call = list->first;

    if (call) {
        list->first = call->next;
        if (!list->first)
            list->last = &list->first;
    }
    return call;
}

struct hfi_async *hfi_async_new(struct hf_client *client, size_t n)
{
    struct hfi_async *async = calloc(1, sizeof(*async) + n * sizeof(async->calls[0]));

    if (!async)
        return NULL;
    if (hfi_cond_init(&async->news)) {
        free(async);
        return NULL;
    }
    async->client = client;
    async->n = n;
    list_init(&async->ready);
    list_init(&async->done);
    list_init(&async->taken);
    list_init(&async->later);
    for (size_t i = 0; i < n; i++)
        async->calls[i].owner = async;
    return async;
}

static void clear(struct hfi_async_call *call)
{
    hp_arena_free(call->arena);
    call->arena = NULL;
    call->response = NULL;
    call->unreachable = false;
    call->status.code = HP_OK;
    call->status.reason = HP_R_UNSPECIFIED;
}

void hfi_async_free(struct hfi_async *async)
{
    if (!async)
        return;
    pthread_mutex_lock(&async->client->mutex);
    for (size_t i = 0; i < async->n; i++)
        hfi_mux_cancel(&async->client->mux, &async->calls[i].try);
    pthread_mutex_unlock(&async->client->mutex);
    for (size_t i = 0; i < async->n; i++) {
        clear(&async->calls[i]);
        free(async->calls[i].try.reply);
        free(async->calls[i].payload);
    }
    pthread_cond_destroy(&async->news);
    free(async);
}

struct hfi_async_call *hfi_async_call(struct hfi_async *async, size_t i)
{
    return &async->calls[i];
}

size_t hfi_async_open(const struct hfi_async *async)
{
    return async->n_open;
}

static void try_done(struct hfi_try *self)
{
    struct hfi_async_call *call = self->arg;
    struct hfi_async *async = call->owner;

    if (!async->done.first)
        pthread_cond_signal(&async->news);
    append(&async->done, call);
}

bool hfi_async_start(struct hfi_async_call *call, const ProtobufCMessage *request)
{
    struct hfi_async *async = call->owner;
    const size_t len = protobuf_c_message_get_packed_size(request);

    if (len > call->payload_cap) {
        free(call->payload);
        call->payload = malloc(len);
        call->payload_cap = call->payload ? len : 0;
        if (!call->payload)
            return false;
    }
    protobuf_c_message_pack(request, call->payload);
    clear(call);
    memset(&call->try, 0, sizeof(call->try));
    call->try.payload = call->payload;
    call->try.payload_len = len;
    call->retries = 0;
    call->deadline_ms = 0;
    call->open = true;
    async->n_open++;
    append(&async->ready, call);
    return true;
}

/* Hands a call to the mux. Lock held, released meanwhile if it travels alone. */
static void submit(struct hfi_async_call *call, int64_t now)
{
    struct hfi_async *async = call->owner;
    struct hfi_try *try = &call->try;

    if (!call->deadline_ms)
        call->deadline_ms = now + (call->timeout_ms > 0 ? call->timeout_ms : async->client->timeout_ms);
    try->method = call->method;
    try->timeout_ms = call->deadline_ms - now + call->wait_ms;
    try->reply_max = call->reply_max;
    try->alone = call->wait_ms > 0;
    try->done = try_done;
    try->arg = call;
    if (try->alone)
        hfi_mux_submit(&async->client->mux, try);
    else
        hfi_mux_queue(&async->client->mux, try);
}

static void submit_ready(struct hfi_async *async, int64_t now)
{
    struct hfi_async_call *call;

    while ((call = pop(&async->ready)))
        submit(call, now);
    hfi_mux_flush(&async->client->mux);
}

/* Those whose pause is over are ready again. Returns when the next one is. */
static int64_t look_at_later(struct hfi_async *async, int64_t now)
{
    struct list waiting = async->later;
    struct hfi_async_call *call;
    int64_t next = HFI_NEVER;

    if (!waiting.first)
        return HFI_NEVER;
    list_init(&async->later);
    while ((call = waiting.first)) {
        waiting.first = call->next;
        if (call->again_ms <= now) {
            append(&async->ready, call);
            continue;
        }
        append(&async->later, call);
        if (call->again_ms < next)
            next = call->again_ms;
    }
    return next;
}

/* Sends what is to be sent, and waits until something is done: that is taken then. */
static void turn(struct hfi_async *async, int64_t until_ms)
{
    struct hf_client *client = async->client;
    const int64_t now = hfi_now(client);
    int64_t at = look_at_later(async, now), flush_at;

    pthread_mutex_lock(&client->mutex);
    submit_ready(async, now);
    flush_at = hfi_mux_flush_at(&client->mux);
    at = at < until_ms ? at : until_ms;
    at = at < flush_at ? at : flush_at;
    if (!async->done.first && now < at)
        client->ports.clock->wait(client->ports.clock, &async->news, &client->mutex, at);
    if (async->done.first) {
        *async->taken.last = async->done.first;
        async->taken.last = async->done.last;
        list_init(&async->done);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* What the answer means; the call is done. */
static void take_answer(struct hfi_async_call *call)
{
    struct hfi_try *try = &call->try;

    call->result = hfi_result(&call->status);
    if (call->result == HF_OK) {
        /* As hfi_call's: protobuf-c's structs are larger than the wire. */
        call->arena = hp_arena_new(try->reply_len * 32 + ((size_t)1 << 20));
        if (call->arena)
            call->response =
                hp_unpack_within(&hp_wire_reply, call->arena, call->response_type, try->reply, try->reply_len, &call->status);
        if (!call->response) {
            hp_status_set(&call->status, HP_R_INTERNAL, "the answer cannot be read");
            call->result = HF_FAILED;
        }
    }
    free(try->reply);
    try->reply = NULL;
}

/* False: it is tried again later. */
static bool is_over(struct hfi_async_call *call)
{
    struct hf_client *client = call->owner->client;
    struct hfi_try *try = &call->try;
    const int64_t now = hfi_now(client);

    if (try->fate == HFI_NO_ANSWER) {
        hp_status_set(&call->status, HP_R_OUTCOME_LOST, "sent to %s, but no answer: the outcome is not known", client->servers);
        call->result = HF_UNKNOWN;
        return true;
    }
    call->unreachable = try->fate == HFI_NOT_SENT;
    if (call->unreachable)
        hp_status_set(&call->status, HP_R_DATABASE_DOWN, "no server could be reached at %s", client->servers);
    else if (try->status.code != HP_OK) /* a large struct */
        call->status = try->status;
    else
        call->status.code = HP_OK, call->status.reason = HP_R_UNSPECIFIED;
    if (!call->unreachable && hfi_result(&call->status) != HF_UNAVAILABLE) {
        take_answer(call);
        return true;
    }
    pthread_mutex_lock(&client->mutex);
    call->again_ms = now + hfi_retry_delay(&client->budget, call->retries++, call->status.retry_ms, now,
                                           client->ports.random->next(client->ports.random));
    pthread_mutex_unlock(&client->mutex);
    if (call->again_ms < call->deadline_ms)
        return false;
    call->result = HF_UNAVAILABLE;
    return true;
}

struct hfi_async_call *hfi_async_next(struct hfi_async *async, int64_t until_ms)
{
    for (;;) {
        struct hfi_async_call *call;
        while ((call = pop(&async->taken))) {
            if (is_over(call)) {
                call->open = false;
                async->n_open--;
                return call;
            }
            append(&async->later, call);
        }
        if (hfi_now(async->client) >= until_ms && !async->ready.first)
            return NULL;
        turn(async, until_ms);
        if (!async->taken.first && hfi_now(async->client) >= until_ms)
            return NULL;
    }
}
