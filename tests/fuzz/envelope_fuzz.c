/*
 * envelope_fuzz.c - envelopes in flight: two bytes say what becomes of the envelope, the rest are its bytes.
 *
 * Whatever the bytes, in whatever order calls are answered, whether their connection or the server ends before or memory is
 * short: each envelope ends in one reply or none, each call is given out and told of the end at most once, what is counted is
 * counted back, and the reply says of each call what it was answered.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "net/envelope.h"
#include "proto/c/envelope.h"
#include "proto/c/wire.h"

/* The first byte. */
enum {
    AT_ONCE = 1,        /* each call is answered as it is given out, if its bit in the second byte is set */
    BACKWARDS = 2,      /* the last call is answered first */
    GONE_BEFORE = 4,    /* the connection is gone when the envelope comes */
    GONE_AFTER = 8,     /* it goes before the calls are answered */
    ORPHAN = 16,        /* the server lets go of its envelopes before they are answered */
    TWICE = 32,         /* the envelope comes twice */
    SMALL_REPLIES = 64, /* what the answers to an envelope may be together is little */
    NO_MEMORY = 128     /* the allocation of the second byte's number fails */
};

enum { CALLS_MAX = 2 * HP_ENVELOPE_CALLS, SMALL = 6000, LARGE = 16 << 20, NOW = 1000 };

static struct {
    uint8_t how, bits;
    struct net_envelopes envelopes;
    struct net_source source;
    struct hp_call *calls[CALLS_MAX]; /* given out and not answered; NULL: answered */
    enum hp_code codes[CALLS_MAX];    /* of all that were given out */
    size_t n_calls, n_open;
    int sent, dropped, finished, orphans;
    int until_failure;
} now;

static int64_t now_ms(struct io *io)
{
    (void)io;
    return NOW;
}

static struct io io = {.now_ms = now_ms};

static void *short_of_memory(size_t size)
{
    return now.until_failure && --now.until_failure == 0 ? NULL : malloc(size);
}

static void answer(size_t i)
{
    struct hp_call *call = now.calls[i];
    struct hp_status status;
    Holdfast__V1__Call response = HOLDFAST__V1__CALL__INIT;
    now.calls[i] = NULL;
    if (now.bits >> (i % 8) & 1) {
        hp_status_set(&status, HP_R_BUSY, "call %zu", i);
        call->answer(call, &status, NULL);
        return;
    }
    response.method = (char *)(uintptr_t)call->method;
    response.payload.data = (uint8_t *)(uintptr_t)call->payload;
    response.payload.len = call->payload_len;
    call->answer(call, NULL, &response.base);
}

static void on_gone(struct hp_call *call)
{
    size_t i = (size_t)((struct hp_call **)call->service - now.calls);
    MUST(now.source.gone && now.calls[i] == call);
    call->gone = NULL;
    if (now.bits >> (i % 8) & 1)
        answer(i);
}

static void on_call(void *arg, struct hp_call *call)
{
    size_t i = now.n_calls++;
    MUST(arg == &now && i < CALLS_MAX && call->arena);
    MUST(call->payload_len <= HP_REQUEST_MAX && call->n_metadata <= 16);
    MUST(hp_utf8_valid(call->method, strlen(call->method)));
    MUST(call->received_ms == NOW && call->deadline_ms >= NOW && call->deadline_ms <= NOW + 3600000);
    for (size_t m = 0; m < 2 * call->n_metadata; m++)
        MUST(hp_utf8_valid(call->metadata[m], strlen(call->metadata[m])));
    call->gone = on_gone;
    call->service = &now.calls[i];
    now.calls[i] = call;
    now.codes[i] = now.bits >> (i % 8) & 1 ? HP_UNAVAILABLE : HP_OK;
    if ((now.how & AT_ONCE) && (now.bits >> (i % 8) & 1))
        answer(i);
}

/* With enough memory and room each call that was given out has its own answer; the others were refused for what they are. */
static void check_reply(const uint8_t *bytes, size_t len)
{
    struct hp_status status;
    struct hp_arena *arena = hp_arena_new((1 << 20) + 256 * len);
    MUST(arena);
    const Holdfast__V1__ReplyEnvelope *envelope = hp_replies_decode(arena, bytes, len, &status);
    MUST(envelope && envelope->n_replies >= 1);
    for (size_t i = 0; i < envelope->n_replies; i++) {
        hp_reply_status(envelope->replies[i], &status);
        MUST(status.code == HP_OK || status.message[0]);
    }
    if (!(now.how & (TWICE | SMALL_REPLIES)) && envelope->n_replies == now.n_calls)
        for (size_t i = 0; i < now.n_calls; i++)
            MUST(envelope->replies[i]->code == (int32_t)now.codes[i]);
    hp_arena_free(arena);
}

static bool on_send(struct net_envelopes *envelopes, void *from, size_t size, void (*write)(void *arg, void *body), void *arg)
{
    uint8_t *body = malloc(size + 1);
    MUST(body && from == &io && envelopes == &now.envelopes && !now.source.gone);
    write(arg, body);
    if (!(now.how & NO_MEMORY))
        check_reply(body, size);
    free(body);
    now.sent++;
    return true;
}

static void on_drop(struct net_envelopes *envelopes, void *from)
{
    MUST(envelopes == &now.envelopes && from == &io);
    now.dropped++;
}

static void on_finished(struct net_envelopes *envelopes)
{
    MUST(envelopes == &now.envelopes);
    now.finished++;
}

static void answer_all(void)
{
    for (size_t k = 0; k < now.n_calls; k++) {
        size_t i = now.how & BACKWARDS ? now.n_calls - 1 - k : k;
        if (now.calls[i])
            answer(i);
    }
}

static void run(const uint8_t *body, size_t len)
{
    int taken = now.how & TWICE ? 2 : 1;
    if (now.how & GONE_BEFORE)
        net_source_gone(&now.source);
    for (int i = 0; i < taken; i++)
        net_envelopes_take(&now.envelopes, &now.source, &io, body, len, NOW);
    MUST(now.envelopes.n_envelopes == taken);
    if ((now.how & GONE_AFTER) && !now.source.gone)
        net_source_gone(&now.source);
    if (now.how & ORPHAN) {
        now.orphans = (int)now.envelopes.in_flight;
        net_envelopes_orphan(&now.envelopes);
    }
    answer_all();
    MUST(now.sent + now.dropped + now.orphans == taken);
    MUST(now.finished + now.orphans <= taken);
    if (!now.orphans)
        MUST(now.envelopes.in_flight == 0 && now.envelopes.bytes == 0 && list_empty(&now.envelopes.list));
    MUST(list_empty(&now.source.envelopes) && list_empty(&now.source.told));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return -1;
    memset(&now, 0, sizeof(now));
    now.how = data[0];
    now.bits = data[1];
    net_envelopes_init(&now.envelopes, &io, now.how & SMALL_REPLIES ? SMALL : LARGE, 30000);
    net_source_init(&now.source, -1);
    now.envelopes.on_call = on_call;
    now.envelopes.on_call_arg = &now;
    now.envelopes.send = on_send;
    now.envelopes.drop = on_drop;
    now.envelopes.finished = on_finished;
    now.until_failure = now.how & NO_MEMORY ? 1 + now.bits : 0;
    hp_malloc_hook = short_of_memory;
    run(data + 2, size - 2);
    hp_malloc_hook = NULL;
    return 0;
}
