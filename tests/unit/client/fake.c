/* fake.c - see fake.h. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

struct fake_event {
    struct fake_event *next;
    int64_t at_ms;
    enum hfi_fate fate;
    struct hfi_exchange *exchange;
    uint8_t *data;
    size_t len;
    void (*do_it)(struct fake *fake); /* instead of an exchange */
};

static struct fake *of_clock(struct hfi_clock *clock)
{
    return (struct fake *)clock; /* its first member */
}

static int64_t fake_now(struct hfi_clock *clock)
{
    of_clock(clock)->clock_reads++;
    return of_clock(clock)->now_ms;
}

static void insert(struct fake *fake, const struct fake_event *content)
{
    struct fake_event *event = calloc(1, sizeof(*event)), **link = &fake->events;

    *event = *content;
    while (*link && (*link)->at_ms <= event->at_ms)
        link = &(*link)->next;
    event->next = *link;
    *link = event;
}

static void add_event(struct fake *fake, int64_t at_ms, enum hfi_fate fate, struct hfi_exchange *exchange, uint8_t *data,
                      size_t len)
{
    insert(fake, &(struct fake_event){.at_ms = at_ms, .fate = fate, .exchange = exchange, .data = data, .len = len});
}

void fake_at(struct fake *fake, int64_t in_ms, void (*do_it)(struct fake *fake))
{
    insert(fake, &(struct fake_event){.at_ms = fake->now_ms + in_ms, .do_it = do_it});
}

/* Delivers what is due until then, and sets the clock to it. */
static void run_until(struct fake *fake, int64_t until_ms)
{
    while (fake->events && fake->events->at_ms <= until_ms) {
        struct fake_event *event = fake->events;
        fake->events = event->next;
        if (event->at_ms > fake->now_ms)
            fake->now_ms = event->at_ms;
        if (event->do_it)
            event->do_it(fake);
        else
            event->exchange->done(event->exchange, event->fate, event->data, event->len);
        free(event->data);
        free(event);
    }
    if (until_ms > fake->now_ms)
        fake->now_ms = until_ms;
}

static void fake_wait(struct hfi_clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ms)
{
    struct fake *fake = of_clock(clock);

    (void)cond;
    pthread_mutex_unlock(mutex);
    if (fake->events && fake->events->at_ms <= until_ms) {
        run_until(fake, fake->events->at_ms); /* one moment at a time: the waiter may have what it wants */
    } else {
        assert_true(until_ms != HFI_NEVER); /* nobody would ever wake it */
        run_until(fake, until_ms);
    }
    pthread_mutex_lock(mutex);
}

static uint64_t fake_random(struct hfi_random *random)
{
    struct fake *fake = (struct fake *)((char *)random - offsetof(struct fake, random));

    fake->random_next = fake->random_next * 6364136223846793005u + 1442695040888963407u;
    return fake->random_next >> 16;
}

static uint8_t *serve_envelope(struct fake *fake, fake_serve serve, const void *data, size_t len, size_t *reply_len)
{
    Holdfast__V1__ReplyEnvelope out = HOLDFAST__V1__REPLY_ENVELOPE__INIT;
    struct hp_status status;
    Holdfast__V1__CallEnvelope *in;
    uint8_t *reply;

    fake->arena = hp_arena_new(64 << 20);
    in = hp_calls_decode(fake->arena, data, len, &status);
    assert_non_null(in);
    fake->replies = hp_alloc_array(fake->arena, in->n_calls, sizeof(Holdfast__V1__Reply *));
    fake->n_replies = 0;
    for (size_t i = 0; i < in->n_calls; i++) {
        serve(fake, in->calls[i]);
        assert_int_equal(fake->n_replies, i + 1);
    }
    out.n_replies = fake->n_replies;
    out.replies = fake->replies;
    *reply_len = holdfast__v1__reply_envelope__get_packed_size(&out);
    reply = malloc(*reply_len + 1);
    holdfast__v1__reply_envelope__pack(&out, reply);
    hp_arena_free(fake->arena);
    fake->arena = NULL;
    return reply;
}

static void record(struct fake *fake, unsigned endpoint, const void *data, size_t len)
{
    struct hp_arena *arena = hp_arena_new(64 << 20);
    struct hp_status status;
    Holdfast__V1__CallEnvelope *in = hp_calls_decode(arena, data, len, &status);

    assert_non_null(in);
    fake->envelopes++;
    for (size_t i = 0; i < in->n_calls; i++) {
        struct fake_call *call = &fake->calls[fake->n_calls++];
        assert_true(fake->n_calls < sizeof(fake->calls) / sizeof(fake->calls[0]));
        snprintf(call->method, sizeof(call->method), "%s", in->calls[i]->method);
        call->len = in->calls[i]->payload.len;
        call->payload = malloc(call->len + 1);
        if (call->len)
            memcpy(call->payload, in->calls[i]->payload.data, call->len);
        call->at_ms = fake->now_ms;
        call->timeout_ms = in->calls[i]->timeout_ms;
        call->envelope = fake->envelopes;
        call->endpoint = endpoint;
    }
    hp_arena_free(arena);
}

/* Keeps an acquire that wants to wait. */
static bool park(struct fake *fake, const void *data, size_t len, struct hfi_exchange *exchange)
{
    const size_t n = fake->n_parked, last = fake->n_calls - 1;

    if (strcmp(fake->calls[last].method, HFI_ACQUIRE) != 0 ||
        ((const Holdfast__V1__AcquireRequest *)fake_request(fake, last, &holdfast__v1__acquire_request__descriptor))->wait_ms == 0)
        return false;
    assert_true(n < 16);
    fake->parked[n] = exchange;
    fake->parked_data[n] = malloc(len);
    memcpy(fake->parked_data[n], data, len);
    fake->parked_len[n] = len;
    fake->n_parked++;
    return true;
}

size_t fake_parked(struct fake *fake)
{
    size_t n;

    pthread_mutex_lock(&fake->mutex);
    n = fake->n_parked;
    pthread_mutex_unlock(&fake->mutex);
    return n;
}

static bool is_ping(const void *data, size_t len)
{
    struct hp_arena *arena = hp_arena_new(64 << 20);
    struct hp_status status;
    Holdfast__V1__CallEnvelope *in = hp_calls_decode(arena, data, len, &status);
    const Holdfast__V1__CancelWaitRequest *request = NULL;
    bool ping;

    assert_non_null(in);
    if (in->n_calls == 1 && strcmp(in->calls[0]->method, HFI_CANCEL_WAIT) == 0)
        request = (const Holdfast__V1__CancelWaitRequest *)hp_unpack(
            arena, &holdfast__v1__cancel_wait_request__descriptor, in->calls[0]->payload.data, in->calls[0]->payload.len, &status);
    ping = request && strcmp(request->request_id, "-") == 0;
    hp_arena_free(arena);
    return ping;
}

static void serve_ping(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__CancelWaitResponse response = HOLDFAST__V1__CANCEL_WAIT_RESPONSE__INIT;

    (void)call;
    fake_ok(fake, &response.base);
}

static void fake_send(struct hfi_transport *transport, unsigned endpoint, const void *data, size_t len, int64_t send_ms,
                      int64_t reply_ms, struct hfi_exchange *exchange)
{
    struct fake *fake = (struct fake *)((char *)transport - offsetof(struct fake, transport));
    struct fake_step step = {.how = FAKE_ANSWER};
    uint8_t *reply = NULL;
    size_t reply_len = 0;
    bool grant;

    if (fake->threads) {
        pthread_mutex_lock(&fake->mutex);
        record(fake, endpoint, data, len);
        if (park(fake, data, len, exchange)) {
            pthread_mutex_unlock(&fake->mutex);
            return;
        }
        reply = serve_envelope(fake, fake->serve, data, len, &reply_len);
        grant = fake->grant_parked;
        fake->grant_parked = false;
        pthread_mutex_unlock(&fake->mutex);
        if (grant)
            fake_unpark(fake, serve_grant);
        exchange->done(exchange, HFI_ANSWERED, reply, reply_len);
        free(reply);
        return;
    }
    if (is_ping(data, len)) {
        fake->pings++;
        step.serve = serve_ping;
    }
    if (fake->endpoints[endpoint] == FAKE_GONE)
        step.how = FAKE_UNREACHABLE;
    else if (fake->endpoints[endpoint] == FAKE_STOPPED)
        step.how = FAKE_SILENT;
    else if (!step.serve && fake->step < fake->n_steps)
        step = fake->steps[fake->step++];
    if (step.how == FAKE_UNREACHABLE) {
        add_event(fake, fake->now_ms + send_ms, HFI_NOT_SENT, exchange, NULL, 0);
        return;
    }
    if (step.serve != serve_ping)
        record(fake, endpoint, data, len);
    if (step.how == FAKE_SILENT) {
        add_event(fake, fake->now_ms + reply_ms, HFI_NO_ANSWER, exchange, NULL, 0);
        return;
    }
    if (step.how == FAKE_RESET) {
        add_event(fake, fake->now_ms + step.after_ms, HFI_NO_ANSWER, exchange, NULL, 0);
        return;
    }
    if (step.how == FAKE_GARBAGE) {
        reply = (uint8_t *)strdup("\xff\xff\xff");
        add_event(fake, fake->now_ms + step.after_ms, HFI_ANSWERED, exchange, reply, 3);
        return;
    }
    reply = serve_envelope(fake, step.serve ? step.serve : fake->serve, data, len, &reply_len);
    if (step.how == FAKE_LOSE || step.after_ms >= reply_ms) {
        free(reply);
        add_event(fake, fake->now_ms + reply_ms, HFI_NO_ANSWER, exchange, NULL, 0);
    } else if (step.after_ms > 0) {
        add_event(fake, fake->now_ms + step.after_ms, HFI_ANSWERED, exchange, reply, reply_len);
    } else {
        exchange->done(exchange, HFI_ANSWERED, reply, reply_len);
        free(reply);
    }
}

void fake_unpark(struct fake *fake, fake_serve serve)
{
    for (;;) {
        struct hfi_exchange *exchange;
        uint8_t *reply;
        size_t n, len;
        pthread_mutex_lock(&fake->mutex);
        if (fake->n_parked == 0) {
            pthread_mutex_unlock(&fake->mutex);
            return;
        }
        n = --fake->n_parked;
        exchange = fake->parked[n];
        reply = serve_envelope(fake, serve, fake->parked_data[n], fake->parked_len[n], &len);
        free(fake->parked_data[n]);
        pthread_mutex_unlock(&fake->mutex);
        exchange->done(exchange, HFI_ANSWERED, reply, len);
        free(reply);
    }
}

void fake_hurry(struct fake *fake)
{
    struct fake_event *event = fake->events;

    assert_non_null(event);
    while (event->next)
        event = event->next;
    event->at_ms = fake->now_ms; /* the last one moves to the front: nothing is earlier than now */
    for (struct fake_event **link = &fake->events; *link; link = &(*link)->next) {
        if (*link == event) {
            *link = NULL;
            break;
        }
    }
    event->next = fake->events;
    fake->events = event;
}

static const char *fake_url(struct hfi_transport *transport, unsigned endpoint)
{
    (void)transport;
    return endpoint ? "fake://2" : "fake://1";
}

static void fake_stop(struct hfi_transport *transport)
{
    struct fake *fake = (struct fake *)((char *)transport - offsetof(struct fake, transport));

    if (fake->n_parked > 0)
        fake_unpark(fake, serve_held);
    while (fake->events) {
        struct fake_event *event = fake->events;
        fake->events = event->next;
        if (event->exchange)
            event->exchange->done(event->exchange, HFI_NO_ANSWER, NULL, 0);
        free(event->data);
        free(event);
    }
}

static void fake_transport_free(struct hfi_transport *transport)
{
    (void)transport;
}

static struct fake *make(const hf_client_options *options, bool threads)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    struct hfi_ports ports;

    assert_non_null(fake);
    fake->clock = (struct hfi_clock){.now_ms = fake_now, .wait = fake_wait};
    fake->random.next = fake_random;
    fake->transport = (struct hfi_transport){
        .n_endpoints = 1, .send = fake_send, .url = fake_url, .stop = fake_stop, .free = fake_transport_free};
    fake->now_ms = 1000000;
    fake->serve = serve_any;
    ports = (struct hfi_ports){.clock = &fake->clock, .random = &fake->random, .transport = &fake->transport, .no_threads = true};
    pthread_mutex_init(&fake->mutex, NULL);
    if (threads) {
        fake->threads = true;
        ports.clock = &hfi_system_clock;
        ports.random = &hfi_system_random;
        ports.no_threads = false;
    }
    assert_int_equal(hfi_client_new(options, &ports, &fake->client, NULL), HF_OK);
    return fake;
}

struct fake *fake_new(const hf_client_options *options)
{
    return make(options, false);
}

struct fake *fake_new_threads(const hf_client_options *options)
{
    return make(options, true);
}

void fake_free(struct fake *fake)
{
    hf_client_free(fake->client);
    for (size_t i = 0; i < fake->n_calls; i++)
        free(fake->calls[i].payload);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
}

void fake_push(struct fake *fake, enum fake_how how, int64_t after_ms, fake_serve serve)
{
    if (fake->step == fake->n_steps)
        fake->step = fake->n_steps = 0;
    assert_true(fake->n_steps < 64);
    fake->steps[fake->n_steps++] = (struct fake_step){.how = how, .after_ms = after_ms, .serve = serve};
}

static Holdfast__V1__Reply *next_reply(struct fake *fake)
{
    Holdfast__V1__Reply *reply = hp_alloc(fake->arena, sizeof(*reply));

    holdfast__v1__reply__init(reply);
    fake->replies[fake->n_replies++] = reply;
    return reply;
}

void fake_ok(struct fake *fake, const ProtobufCMessage *message)
{
    Holdfast__V1__Reply *reply = next_reply(fake);
    const size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *data = hp_alloc(fake->arena, len + 1);

    protobuf_c_message_pack(message, data);
    assert_true(hp_reply_fill(fake->arena, reply, NULL, data, len));
}

void fake_error(struct fake *fake, enum hp_reason reason)
{
    struct hp_status status;

    hp_status_set(&status, reason, NULL);
    assert_true(hp_reply_fill(fake->arena, next_reply(fake), &status, NULL, 0));
}

void fake_pass(struct fake *fake, int64_t ms)
{
    run_until(fake, fake->now_ms + ms);
}

int64_t fake_step_now(struct fake *fake)
{
    int64_t next;

    pthread_mutex_lock(&fake->client->mutex);
    next = hfi_renew_step(fake->client);
    pthread_mutex_unlock(&fake->client->mutex);
    return next;
}

void fake_live(struct fake *fake, int64_t ms)
{
    const int64_t end = fake->now_ms + ms;

    for (;;) {
        int64_t next = fake_step_now(fake);
        if (fake->events && fake->events->at_ms < next)
            next = fake->events->at_ms;
        if (next > end)
            break;
        run_until(fake, next);
    }
    run_until(fake, end);
    fake_step_now(fake);
}

void fake_tell(struct fake *fake)
{
    pthread_mutex_lock(&fake->client->mutex);
    while (hfi_notify_step(fake->client))
        ;
    pthread_mutex_unlock(&fake->client->mutex);
}

const ProtobufCMessage *fake_request(struct fake *fake, size_t i, const ProtobufCMessageDescriptor *type)
{
    static struct hp_arena *arena;
    struct hp_status status;
    const ProtobufCMessage *message;

    assert_true(i < fake->n_calls);
    hp_arena_free(arena);
    arena = hp_arena_new(64 << 20);
    message = hp_unpack(arena, type, fake->calls[i].payload, fake->calls[i].len, &status);
    assert_non_null(message);
    return message;
}

size_t fake_count(const struct fake *fake, const char *method)
{
    size_t n = 0;

    for (size_t i = 0; i < fake->n_calls; i++)
        n += strcmp(fake->calls[i].method, method) == 0;
    return n;
}

static const ProtobufCMessage *parse(struct fake *fake, const Holdfast__V1__Call *call, const ProtobufCMessageDescriptor *type)
{
    struct hp_status status;
    const ProtobufCMessage *message = hp_unpack(fake->arena, type, call->payload.data, call->payload.len, &status);

    assert_non_null(message);
    return message;
}

void serve_grant(struct fake *fake, const Holdfast__V1__Call *call)
{
    const Holdfast__V1__AcquireRequest *request =
        (const Holdfast__V1__AcquireRequest *)parse(fake, call, &holdfast__v1__acquire_request__descriptor);
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Granted granted = HOLDFAST__V1__GRANTED__INIT;
    Holdfast__V1__Grant grants[HF_RESOURCES_MAX], *pointers[HF_RESOURCES_MAX];

    for (size_t i = 0; i < request->n_resources; i++) {
        holdfast__v1__grant__init(&grants[i]);
        grants[i].resource = request->resources[i];
        grants[i].token = 7 + (int64_t)i;
        pointers[i] = &grants[i];
    }
    granted.n_grants = request->n_resources;
    granted.grants = pointers;
    granted.ttl_ms = request->ttl_ms;
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED;
    response.granted = &granted;
    fake_ok(fake, &response.base);
}

void serve_held(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Held held = HOLDFAST__V1__HELD__INIT;

    (void)call;
    held.resource = (char *)"r";
    held.task = (char *)"r";
    held.holder = (char *)"other";
    held.token = 3;
    held.remaining_ms = 1000;
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD;
    response.held = &held;
    fake_ok(fake, &response.base);
}

void serve_left(struct fake *fake, const Holdfast__V1__Call *call, int64_t left_ms)
{
    const Holdfast__V1__RenewRequest *request =
        (const Holdfast__V1__RenewRequest *)parse(fake, call, &holdfast__v1__renew_request__descriptor);
    Holdfast__V1__RenewResponse response = HOLDFAST__V1__RENEW_RESPONSE__INIT;
    Holdfast__V1__Renewed renewed = HOLDFAST__V1__RENEWED__INIT;
    Holdfast__V1__RenewResult item = HOLDFAST__V1__RENEW_RESULT__INIT;

    renewed.ttl_ms = left_ms < 0 ? request->ttl_ms : left_ms;
    item.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED;
    item.renewed = &renewed;
    response.n_items = request->n_items;
    response.items = hp_alloc_array(fake->arena, request->n_items, sizeof(Holdfast__V1__RenewResult *));
    for (size_t i = 0; i < request->n_items; i++)
        response.items[i] = &item;
    fake_ok(fake, &response.base);
}

void serve_ended(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Ended ended = HOLDFAST__V1__ENDED__INIT;

    (void)call;
    ended.token = 5;
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED;
    response.ended = &ended;
    fake_ok(fake, &response.base);
}

void serve_renewed(struct fake *fake, const Holdfast__V1__Call *call)
{
    serve_left(fake, call, -1);
}

void serve_written(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__WriteResponse response = HOLDFAST__V1__WRITE_RESPONSE__INIT;

    (void)call;
    response.version = 1;
    response.fence = 7;
    fake_ok(fake, &response.base);
}

void serve_released(struct fake *fake, const Holdfast__V1__Call *call)
{
    const Holdfast__V1__ReleaseRequest *request =
        (const Holdfast__V1__ReleaseRequest *)parse(fake, call, &holdfast__v1__release_request__descriptor);
    Holdfast__V1__ReleaseResponse response = HOLDFAST__V1__RELEASE_RESPONSE__INIT;
    Holdfast__V1__ReleaseResult item = HOLDFAST__V1__RELEASE_RESULT__INIT, *pointers[HF_RESOURCES_MAX];

    item.was_held = 1;
    for (size_t i = 0; i < request->n_items; i++)
        pointers[i] = &item;
    response.n_items = request->n_items;
    response.items = pointers;
    fake_ok(fake, &response.base);
}

void serve_any(struct fake *fake, const Holdfast__V1__Call *call)
{
    if (strcmp(call->method, HFI_ACQUIRE) == 0)
        serve_grant(fake, call);
    else if (strcmp(call->method, HFI_RENEW) == 0)
        serve_renewed(fake, call);
    else if (strcmp(call->method, HFI_WRITE) == 0)
        serve_written(fake, call);
    else if (strcmp(call->method, HFI_RELEASE) == 0)
        serve_released(fake, call);
    else
        fake_error(fake, HP_R_NO_SUCH_METHOD);
}

void serve_unavailable(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_DATABASE_DOWN);
}

void serve_lost_reply(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_OUTCOME_LOST);
}

void serve_stale(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_STALE_TOKEN);
}

void serve_not_held(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_NOT_HELD);
}

struct hfi_call fake_write_call(enum hfi_retry retry)
{
    static Holdfast__V1__WriteRequest request;

    holdfast__v1__write_request__init(&request);
    request.namespace_ = (char *)"default";
    request.resource = (char *)"r";
    request.token = 7;
    return (struct hfi_call){
        .method = HFI_WRITE, .request = &request.base, .response_type = &holdfast__v1__write_response__descriptor, .retry = retry};
}

hf_lease *fake_acquire(struct fake *fake, const char *resource, int64_t ttl_ms)
{
    const hf_acquire_options options = {.resource = resource, .ttl_ms = ttl_ms};
    hf_lease *lease = NULL;
    hf_error error;

    if (hf_acquire(fake->client, &options, &lease, NULL, &error) != HF_OK)
        fail_msg("acquire: %s %s", error.reason, error.message);
    return lease;
}
