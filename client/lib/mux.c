/* mux.c - see mux.h. Owns the queue and the envelopes in flight; the tries belong to their callers. */
#include "client/lib/mux.h"

#include <stdlib.h>
#include <string.h>

#include "proto/c/envelope.h"
#include "proto/c/wire.h"

enum { REPLY_DEFAULT = 4096, CALL_OVERHEAD = 160 };

struct hfi_envelope {
    struct hfi_exchange exchange;
    struct hfi_mux *mux;
    struct hfi_envelope *next, **prev;
    int64_t sent_ms;
    unsigned endpoint;
    bool alone; /* holds nobody up */
    size_t n;
    struct hfi_try *tries[]; /* NULL: cancelled */
};

void hfi_mux_init(struct hfi_mux *mux, pthread_mutex_t *mutex, struct hfi_clock *clock, struct hfi_transport *transport)
{
    memset(mux, 0, sizeof(*mux));
    mux->mutex = mutex;
    mux->clock = clock;
    mux->transport = transport;
    mux->last = &mux->first;
}

static void finish(struct hfi_try *self, enum hfi_fate fate)
{
    self->fate = fate;
    self->state = HFI_TRY_DONE;
    self->envelope = NULL;
    self->done(self);
}

static int64_t now_ms(const struct hfi_mux *mux)
{
    return mux->clock->now_ms(mux->clock);
}

void hfi_mux_failed(struct hfi_mux *mux, unsigned endpoint)
{
    hfi_endpoint_failed(&mux->endpoints, endpoint, now_ms(mux));
}

/* ---- envelopes ---- */

static void link_envelope(struct hfi_mux *mux, struct hfi_envelope *env)
{
    struct hfi_envelope **list = env->alone ? &mux->lone : &mux->flying;

    env->next = *list;
    env->prev = list;
    if (env->next)
        env->next->prev = &env->next;
    *list = env;
}

static void unlink_envelope(struct hfi_envelope *env)
{
    *env->prev = env->next;
    if (env->next)
        env->next->prev = env->prev;
}

static bool any_left(const struct hfi_envelope *env)
{
    for (size_t i = 0; i < env->n; i++) {
        if (env->tries[i])
            return true;
    }
    return false;
}

static bool says_go_elsewhere(const struct hp_status *status)
{
    return status->code == HP_UNAVAILABLE && (status->reason == HP_R_DRAINING || status->reason == HP_R_DATABASE_DOWN);
}

/* One reply of an envelope that was answered. The try may be gone afterwards. */
static void deliver(struct hfi_mux *mux, struct hfi_try *self, const Holdfast__V1__Reply *reply)
{
    hp_reply_status(reply, &self->status);
    if (says_go_elsewhere(&self->status))
        hfi_mux_failed(mux, self->endpoint);
    if (self->status.code == HP_OK) {
        self->reply = malloc(reply->payload.len ? reply->payload.len : 1);
        if (!self->reply) {
            finish(self, HFI_NO_ANSWER); /* it is not known to us, whatever it was */
            return;
        }
        if (reply->payload.len)
            memcpy(self->reply, reply->payload.data, reply->payload.len);
        self->reply_len = reply->payload.len;
    }
    finish(self, HFI_ANSWERED);
}

static void envelope_done(struct hfi_exchange *exchange, enum hfi_fate fate, const void *data, size_t len)
{
    struct hfi_envelope *env = (struct hfi_envelope *)exchange; /* its first member */
    struct hfi_mux *mux = env->mux;
    Holdfast__V1__ReplyEnvelope *replies = NULL;
    struct hp_arena *arena = NULL;
    struct hp_status status;
    bool whole = false;

    if (fate == HFI_ANSWERED) {
        arena = hp_arena_new(len * 4 + ((size_t)1 << 20));
        replies = arena ? hp_replies_decode(arena, data, len, &status) : NULL;
        /* An envelope that the server could not decode has one reply, an error, which is every call's. */
        whole = replies && replies->n_replies == 1 && env->n > 1 && replies->replies[0]->code != HP_OK;
        if (!replies || (replies->n_replies != env->n && !whole))
            fate = HFI_NO_ANSWER;
    }
    pthread_mutex_lock(mux->mutex);
    unlink_envelope(env);
    if (fate == HFI_ANSWERED)
        hfi_endpoint_heard(&mux->endpoints, env->endpoint, now_ms(mux));
    /* If none is left it was given up before, and nobody knows whether it would have been answered. */
    if ((fate != HFI_ANSWERED || exchange->partly) && any_left(env))
        hfi_mux_failed(mux, env->endpoint);
    for (size_t i = 0; i < env->n; i++) {
        struct hfi_try *self = env->tries[i];
        if (!self)
            continue;
        if (fate != HFI_ANSWERED) {
            finish(self, fate);
            continue;
        }
        deliver(mux, self, replies->replies[whole ? 0 : i]);
    }
    hfi_mux_flush(mux);
    pthread_mutex_unlock(mux->mutex);
    hp_arena_free(arena);
    free(env);
}

/* The serialized envelope, malloc'd, or NULL. */
static uint8_t *encode(const struct hfi_envelope *env, size_t *len)
{
    Holdfast__V1__CallEnvelope message = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call *calls = calloc(env->n, sizeof(*calls));
    Holdfast__V1__Call **pointers = calloc(env->n, sizeof(Holdfast__V1__Call *));
    Holdfast__V1__Call__MetadataEntry key = HOLDFAST__V1__CALL__METADATA_ENTRY__INIT, *metadata[] = {&key};
    uint8_t *data = NULL;

    if (!calls || !pointers)
        goto out;
    key.key = (char *)(uintptr_t) "authorization";
    key.value = (char *)(uintptr_t)env->mux->authorization;
    for (size_t i = 0; i < env->n; i++) {
        const struct hfi_try *self = env->tries[i];
        holdfast__v1__call__init(&calls[i]);
        calls[i].method = (char *)(uintptr_t)self->method;
        calls[i].timeout_ms = self->timeout_ms;
        calls[i].payload.data = (uint8_t *)(uintptr_t)self->payload;
        calls[i].payload.len = self->payload_len;
        if (env->mux->authorization) {
            calls[i].n_metadata = 1;
            calls[i].metadata = metadata; /* the same for all */
        }
        pointers[i] = &calls[i];
    }
    message.n_calls = env->n;
    message.calls = pointers;
    *len = holdfast__v1__call_envelope__get_packed_size(&message);
    data = malloc(*len ? *len : 1);
    if (data)
        holdfast__v1__call_envelope__pack(&message, data);
out:
    free(calls);
    free(pointers);
    return data;
}

/* Sends the tries linked from `first`, `n` of them. The lock is released meanwhile. */
static void send_envelope(struct hfi_mux *mux, struct hfi_try *first, size_t n, bool alone)
{
    struct hfi_envelope *env = calloc(1, sizeof(*env) + n * sizeof(struct hfi_try *));
    const int64_t now = now_ms(mux);
    int64_t reply_ms = 0, send_ms;
    uint8_t *data = NULL;
    size_t len = 0;

    if (env) {
        env->n = n;
        env->mux = mux;
        for (size_t i = 0; i < n; i++, first = first->next)
            env->tries[i] = first;
        first = env->tries[0];
        data = encode(env, &len);
    }
    if (!data) {
        for (struct hfi_try *next; n > 0; n--, first = next) {
            next = first->next;
            finish(first, HFI_NOT_SENT);
        }
        free(env);
        return;
    }
    env->exchange.done = envelope_done;
    env->alone = alone;
    if (env->tries[0]->pinned)
        env->endpoint = env->tries[0]->endpoint;
    else
        env->endpoint = hfi_endpoint_choose(&mux->endpoints, mux->transport->n_endpoints, now);
    env->sent_ms = now;
    for (size_t i = 0; i < n; i++) {
        struct hfi_try *self = env->tries[i];
        self->state = HFI_TRY_FLYING;
        self->envelope = env;
        self->slot = i;
        self->sent_ms = now;
        self->endpoint = env->endpoint;
        if (self->timeout_ms > reply_ms)
            reply_ms = self->timeout_ms;
    }
    /* Before the caller's own patience is over, so that "nobody took it" is known as such. */
    send_ms = reply_ms - reply_ms / 4 < HFI_SEND_MS ? reply_ms - reply_ms / 4 : HFI_SEND_MS;
    link_envelope(mux, env);
    pthread_mutex_unlock(mux->mutex);
    mux->transport->send(mux->transport, env->endpoint, data, len, send_ms, reply_ms, &env->exchange);
    free(data);
    pthread_mutex_lock(mux->mutex);
}

/* False, and the try is done, if it must not be sent now. */
static bool asks_leave(struct hfi_try *self)
{
    if (!self->may_send || self->may_send(self))
        return true;
    self->refused = true;
    finish(self, HFI_NOT_SENT);
    return false;
}

/* Takes from the queue what fits into one envelope; the list's end is NULL. */
static size_t take(struct hfi_mux *mux, struct hfi_try **list)
{
    const size_t overhead = CALL_OVERHEAD + (mux->authorization ? strlen(mux->authorization) : 0);
    size_t n = 0, bytes = 0, replies = 0;
    struct hfi_try **end = list;

    while (mux->first && n < HP_ENVELOPE_CALLS) {
        struct hfi_try *self = mux->first;
        const size_t size = self->payload_len + overhead;
        const size_t reply = self->reply_max ? self->reply_max : REPLY_DEFAULT;
        if (n > 0 && (bytes + size > HP_REQUEST_MAX || replies + reply > HFI_REPLY_MAX))
            break;
        mux->first = self->next;
        if (!mux->first)
            mux->last = &mux->first;
        self->next = NULL;
        if (!asks_leave(self))
            continue;
        bytes += size;
        replies += reply;
        *end = self;
        end = &self->next;
        n++;
    }
    return n;
}

/* When the freshest envelope stops holding others up; 0 if none does. */
static int64_t held_until(const struct hfi_mux *mux)
{
    int64_t until = 0;

    for (const struct hfi_envelope *env = mux->flying; env; env = env->next) {
        if (!env->alone && env->sent_ms + HFI_STALL_MS > until)
            until = env->sent_ms + HFI_STALL_MS;
    }
    return until;
}

void hfi_mux_flush(struct hfi_mux *mux)
{
    while (mux->first && held_until(mux) <= now_ms(mux)) {
        struct hfi_try *list = NULL;
        const size_t n = take(mux, &list);
        if (n > 0)
            send_envelope(mux, list, n, false);
    }
}

int64_t hfi_mux_flush_at(struct hfi_mux *mux)
{
    return mux->first ? held_until(mux) : HFI_NEVER;
}

/* ---- dead or slow ---- */

static void ping_done(struct hfi_try *self)
{
    (void)self; /* whoever watches looks at it */
}

/* Any answer will do, also that of a server which doesn't know the method. */
static struct hfi_try *ping_new(const struct hfi_mux *mux, unsigned endpoint)
{
    struct hfi_try *ping = calloc(1, sizeof(*ping));

    if (ping)
        *ping = (struct hfi_try){.method = mux->ping_method,
                                 .payload = mux->ping_payload,
                                 .payload_len = mux->ping_len,
                                 .timeout_ms = HFI_PING_MS,
                                 .alone = true,
                                 .pinned = true,
                                 .endpoint = endpoint,
                                 .done = ping_done};
    return ping;
}

static void ping_free(struct hfi_try **ping)
{
    if (*ping)
        free((*ping)->reply);
    free(*ping);
    *ping = NULL;
}

/* Ends what may be repeated elsewhere. */
static void abandon(struct hfi_envelope *env, unsigned endpoint)
{
    for (; env; env = env->next) {
        for (size_t i = 0; env->endpoint == endpoint && i < env->n; i++) {
            struct hfi_try *self = env->tries[i];
            if (!self || !self->repeatable)
                continue;
            env->tries[i] = NULL;
            finish(self, HFI_NO_ANSWER);
        }
    }
}

/* Looks at a ping that is there. Returns when to look again; HFI_NEVER if it is gone, and `*dead` tells how it ended. */
static int64_t look_at_ping(struct hfi_mux *mux, unsigned endpoint, int64_t now, bool *dead)
{
    struct hfi_try **ping = &mux->pings[endpoint];
    const int64_t sent_ms = (*ping)->queued_ms, over_ms = sent_ms + HFI_PING_MS;
    const bool answered =
        mux->endpoints.all[endpoint].heard_ms > sent_ms || ((*ping)->state == HFI_TRY_DONE && (*ping)->fate == HFI_ANSWERED);

    if (!answered && now < over_ms)
        return over_ms;
    if ((*ping)->state == HFI_TRY_FLYING)
        hfi_mux_cancel(mux, *ping);
    ping_free(ping);
    *dead = !answered && now < over_ms + HFI_PING_MS; /* one that nobody has looked at for long says nothing about now */
    return HFI_NEVER;
}

int64_t hfi_mux_watch(struct hfi_mux *mux, struct hfi_try *self)
{
    struct hfi_try **ping = &mux->pings[self->endpoint];
    const int64_t heard_ms = mux->endpoints.all[self->endpoint].heard_ms;
    const int64_t now = now_ms(mux), quiet_ms = self->quiet_ms ? self->quiet_ms : HFI_QUIET_MS;
    int64_t quiet_at;
    bool dead = false;

    if (*ping) {
        const int64_t at = look_at_ping(mux, self->endpoint, now, &dead);
        if (at != HFI_NEVER)
            return at;
    }
    if (dead) {
        hfi_mux_failed(mux, self->endpoint);
        abandon(mux->flying, self->endpoint);
        abandon(mux->lone, self->endpoint);
        if (self->state == HFI_TRY_DONE)
            return HFI_NEVER;
        return now + quiet_ms; /* it is one that cannot be repeated */
    }
    quiet_at = (heard_ms > self->sent_ms ? heard_ms : self->sent_ms) + quiet_ms;
    if (now < quiet_at || !mux->ping_method)
        return now < quiet_at ? quiet_at : now + quiet_ms;
    *ping = ping_new(mux, self->endpoint);
    if (!*ping)
        return now + quiet_ms;
    hfi_mux_submit(mux, *ping);
    return self->state == HFI_TRY_DONE ? HFI_NEVER : now + HFI_PING_MS;
}

void hfi_mux_release(struct hfi_mux *mux)
{
    for (unsigned i = 0; i < HFI_ENDPOINTS_MAX; i++)
        ping_free(&mux->pings[i]);
}

/* False, and the try is done: nothing is taken any more. */
static bool prepare(struct hfi_mux *mux, struct hfi_try *self)
{
    self->next = NULL;
    self->sent_ms = 0;
    self->refused = false;
    self->reply = NULL;
    self->reply_len = 0;
    self->queued_ms = now_ms(mux);
    if (mux->closed)
        finish(self, HFI_NOT_SENT);
    else
        self->state = HFI_TRY_QUEUED;
    return !mux->closed;
}

void hfi_mux_queue(struct hfi_mux *mux, struct hfi_try *self)
{
    if (!prepare(mux, self))
        return;
    *mux->last = self;
    mux->last = &self->next;
}

void hfi_mux_submit(struct hfi_mux *mux, struct hfi_try *self)
{
    if (!self->alone) {
        hfi_mux_queue(mux, self);
        hfi_mux_flush(mux);
    } else if (prepare(mux, self) && asks_leave(self)) {
        send_envelope(mux, self, 1, true);
    }
}

void hfi_mux_cancel(struct hfi_mux *mux, struct hfi_try *self)
{
    if (self->state == HFI_TRY_QUEUED) {
        struct hfi_try **link = &mux->first;
        while (*link && *link != self)
            link = &(*link)->next;
        if (*link)
            *link = self->next;
        if (mux->last == &self->next)
            mux->last = link;
        self->fate = HFI_NOT_SENT;
        self->state = HFI_TRY_IDLE;
    } else if (self->state == HFI_TRY_FLYING) {
        self->envelope->tries[self->slot] = NULL;
        self->envelope = NULL;
        self->fate = HFI_NO_ANSWER;
        self->state = HFI_TRY_IDLE;
    }
}
