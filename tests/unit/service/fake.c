/*
 * fake.c - see fake.h. It defines the functions of store/store.h that the services call, so that the real ones aren't
 * linked; one fixture at a time.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

static struct fake *the_fake;

/* ---- the store ---- */

void st_submit(struct st_store *store, struct st_item *item)
{
    struct fake *f = the_fake;
    assert_ptr_equal(store, f);
    assert_non_null(item->done);
    assert_false(f->closed);
    assert_true(f->n_items < FAKE_ITEMS);
    f->items[f->n_items++] = item;
    f->n_submitted++;
}

void st_withdraw(struct st_store *store, struct st_item *item)
{
    struct fake *f = the_fake;
    assert_ptr_equal(store, f);
    size_t i = 0;
    while (i < f->n_items && f->items[i] != item)
        i++;
    assert_true(i < f->n_items); /* it isn't done */
    f->n_withdrawn++;
}

void st_stats(const struct st_store *store, struct st_stats *out)
{
    assert_ptr_equal(store, the_fake);
    *out = the_fake->stats;
}

void st_on_turn(struct st_store *store, void (*turn)(void *arg, const char *ns, const char *resource), void *arg)
{
    assert_ptr_equal(store, the_fake);
    the_fake->turn = turn;
    the_fake->turn_arg = arg;
}

void fake_turn(struct fake *f, const char *ns, const char *resource)
{
    f->turn(f->turn_arg, ns, resource);
}

const char *st_kind_name(enum st_kind kind)
{
    return kind == ST_ACQUIRE ? "acquire" : "other";
}

void fake_done(struct fake *f, size_t i, enum st_outcome outcome)
{
    assert_true(i < f->n_items);
    struct st_item *item = f->items[i];
    memmove(&f->items[i], &f->items[i + 1], (--f->n_items - i) * sizeof(f->items[0]));
    item->outcome = outcome;
    item->done(item);
}

/* ---- the store's follower ---- */

void st_follow(struct st_store *store, struct st_follow *follow)
{
    struct fake *f = the_fake;
    assert_ptr_equal(store, f);
    assert_null(f->follow);
    f->follow = follow;
    f->n_follows++;
}

void st_unfollow(struct st_store *store)
{
    assert_ptr_equal(store, the_fake);
    assert_false(the_fake->closed);
    assert_true(list_empty(&the_fake->trails));
    the_fake->follow = NULL;
}

void st_follow_mark(const struct st_store *store, struct st_follow_mark *out)
{
    assert_ptr_equal(store, the_fake);
    *out = the_fake->mark;
}

char *st_follow_open(const struct st_store *store)
{
    assert_ptr_equal(store, the_fake);
    return strdup(the_fake->open ? the_fake->open : "{}");
}

void st_follow_stats(const struct st_store *store, struct st_follow_stats *out)
{
    assert_ptr_equal(store, the_fake);
    *out = (struct st_follow_stats){.following = the_fake->follow, .looks = 11, .rows = 12, .open = 13, .lag_ms = 14};
}

void st_trail_read(struct st_store *store, struct st_trail *trail)
{
    assert_ptr_equal(store, the_fake);
    assert_non_null(the_fake->follow);
    assert_in_range(trail->until - trail->after, 0, ST_TRAIL_STRETCH);
    list_push_back(&the_fake->trails, &trail->node);
}

void st_trail_cancel(struct st_store *store, struct st_trail *trail)
{
    assert_ptr_equal(store, the_fake);
    if (list_linked(&trail->node))
        list_remove(&the_fake->trails, &trail->node);
}

void fake_page(struct fake *f, enum st_outcome outcome, const struct st_lease_event *events, size_t n)
{
    struct list_node *node = list_pop_front(&f->trails);
    assert_non_null(node);
    struct st_trail *trail = list_entry(node, struct st_trail, node);
    trail->outcome = outcome;
    trail->covered = n < ST_TRAIL_ROWS ? trail->until : events[n - 1].id;
    trail->done(trail, events, n);
}

/* ---- time ---- */

static struct fake *fake_of(struct io *io)
{
    return list_entry(io, struct fake, io);
}

static int64_t now_ms(struct io *io)
{
    return fake_of(io)->now_ms;
}

static void timer_cancel(struct io *io, struct io_timer *timer)
{
    for (size_t i = 0; i < FAKE_TIMERS; i++)
        if (fake_of(io)->timers[i] == timer)
            fake_of(io)->timers[i] = NULL;
}

static void timer_set(struct io *io, struct io_timer *timer, int64_t at_ms)
{
    timer_cancel(io, timer);
    timer->at_ms = at_ms;
    for (size_t i = 0; i < FAKE_TIMERS; i++) {
        if (!fake_of(io)->timers[i]) {
            fake_of(io)->timers[i] = timer;
            return;
        }
    }
    fail_msg("too many timers");
}

void fake_advance(struct fake *f, int64_t ms)
{
    f->now_ms += ms;
    for (size_t i = 0; i < FAKE_TIMERS; i++) {
        struct io_timer *timer = f->timers[i];
        if (timer && timer->at_ms <= f->now_ms) {
            f->timers[i] = NULL;
            timer->fire(timer);
        }
    }
}

/* ---- memory ---- */

static int until_failure; /* 0 = never */

static void *failing_malloc(size_t size)
{
    return until_failure && --until_failure == 0 ? NULL : malloc(size);
}

/* ---- the transport ---- */

/* As its receiver unpacks it. */
static ProtobufCMessage *received(const struct hp_call *c, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(len + 1);
    protobuf_c_message_pack(message, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(svc_method_find(c->method)->rpc.response, NULL, len, bytes);
    assert_non_null(copy);
    free(bytes);
    return copy;
}

static bool send_one(struct hp_call *c, const ProtobufCMessage *message)
{
    struct fake_call *call = (struct fake_call *)c;
    assert_int_equal(call->answers, 0);
    assert_false(call->gone);
    if (call->full || call->n_sent == FAKE_SENT)
        return false;
    call->sent[call->n_sent++] = received(c, message);
    return true;
}

static void listen_now(struct hp_call *c)
{
    ((struct fake_call *)c)->listens = true;
}

void fake_message(struct fake_call *call, const void *message)
{
    size_t len = message ? protobuf_c_message_get_packed_size(message) : 0;
    uint8_t *bytes = malloc(len + 1);
    assert_true(call->listens);
    if (message)
        protobuf_c_message_pack(message, bytes);
    call->call.message(&call->call, message ? bytes : NULL, len);
    free(bytes);
}

static void answer(struct hp_call *c, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct fake_call *call = (struct fake_call *)c;
    call->answers++;
    assert_int_equal(call->answers, 1);
    if (call->gone) {
        call->status.code = HP_CANCELLED;
    } else if (status && status->code != HP_OK) {
        call->status = *status;
        assert_null(response);
    } else if (response) {
        call->response = received(c, response);
    } else {
        assert_true(svc_method_find(c->method)->rpc.server_streams);
    }
    call->taken = !c->arena;
    hp_arena_free(c->arena);
    c->arena = NULL;
    memset(call->payload, 0xaa, c->payload_len); /* it may not be used any more */
}

struct fake_call *fake_call_bytes(struct fake *f, const char *method, const void *payload, size_t len, int64_t timeout_ms)
{
    struct fake_call *call = calloc(1, sizeof(*call));
    until_failure = 0; /* the call before may have needed fewer */
    call->payload = malloc(len + 1);
    memcpy(call->payload, payload, len);
    call->call = (struct hp_call){.arena = hp_arena_new((1 << 20) + len * 4),
                                  .method = method,
                                  .payload = call->payload,
                                  .payload_len = len,
                                  .received_ms = f->now_ms,
                                  .deadline_ms = f->now_ms + (timeout_ms ? timeout_ms : 30000),
                                  .peer = f->peer,
                                  .answer = answer,
                                  .send = f->no_streams ? NULL : send_one,
                                  .listen = f->no_streams ? NULL : listen_now};
    if (f->authorization) {
        call->metadata[0] = "authorization";
        call->metadata[1] = f->authorization;
        call->call.metadata = call->metadata;
        call->call.n_metadata = 1;
    }
    assert_true(f->n_calls < FAKE_CALLS);
    f->calls[f->n_calls++] = call;
    until_failure = f->fail_alloc;
    svc_dispatch(f->svc, &call->call);
    return call;
}

struct fake_call *fake_call(struct fake *f, const char *method, const void *request, int64_t timeout_ms)
{
    size_t len = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = malloc(len + 1);
    protobuf_c_message_pack(request, bytes);
    struct fake_call *call = fake_call_bytes(f, method, bytes, len, timeout_ms);
    free(bytes);
    return call;
}

void fake_gone(struct fake_call *call)
{
    assert_int_equal(call->answers, 0);
    call->gone = true;
    if (call->call.gone)
        call->call.gone(&call->call);
}

void fake_assert_error(const struct fake_call *call, enum hp_code code, enum hp_reason reason)
{
    assert_int_equal(call->answers, 1);
    if (call->status.code != code || call->status.reason != reason)
        fail_msg("%s/%s (%s), wanted %s/%s", hp_code_name(call->status.code), hp_reason_name(call->status.reason),
                 call->status.message, hp_code_name(code), hp_reason_name(reason));
}

void *fake_assert_ok(const struct fake_call *call)
{
    assert_int_equal(call->answers, 1);
    if (!call->response)
        fail_msg("%s/%s (%s), wanted OK", hp_code_name(call->status.code), hp_reason_name(call->status.reason),
                 call->status.message);
    return call->response;
}

/* ---- the fixture ---- */

static unsigned drawn; /* of the fixture */

/* Different each time; the first time all bytes are 0x5a. */
static void test_random(void *buffer, size_t size)
{
    memset(buffer, 0x5a, size);
    for (size_t i = 0; i < sizeof(drawn) && i < size; i++)
        ((unsigned char *)buffer)[i] ^= (unsigned char)(drawn >> (8 * i));
    drawn++;
}

static int setup(void **state, bool require_keys)
{
    const struct svc_config cfg = {.version = "1.2.3", .random = test_random, .max_waiting = 11000, .require_keys = require_keys};
    struct fake *f = calloc(1, sizeof(*f));
    f->io = (struct io){.timer_set = timer_set, .timer_cancel = timer_cancel, .now_ms = now_ms};
    f->now_ms = 1000000;
    list_init(&f->trails);
    drawn = 0;
    f->stats.connections_ready = f->stats.connections_wanted = 4;
    the_fake = f;
    hp_malloc_hook = failing_malloc;
    f->svc = svc_new((struct st_store *)f, &f->io, &cfg);
    assert_non_null(f->svc);
    *state = f;
    return 0;
}

int fake_setup(void **state)
{
    return setup(state, false);
}

int fake_setup_keys(void **state)
{
    return setup(state, true);
}

int fake_teardown(void **state)
{
    struct fake *f = *state;
    until_failure = 0;
    while (f->n_items)
        fake_done(f, 0, ST_DATABASE_DOWN);
    f->closed = true;
    svc_free(f->svc); /* asserts that nothing is in flight, once those that wait are answered */
    for (size_t i = 0; i < FAKE_TIMERS; i++)
        assert_null(f->timers[i]);
    for (size_t i = 0; i < f->n_calls; i++) {
        assert_int_equal(f->calls[i]->answers, 1); /* each exactly once */
        if (f->calls[i]->response)
            protobuf_c_message_free_unpacked(f->calls[i]->response, NULL);
        for (size_t k = 0; k < f->calls[i]->n_sent; k++)
            protobuf_c_message_free_unpacked(f->calls[i]->sent[k], NULL);
        free(f->calls[i]->payload);
        free(f->calls[i]);
    }
    free(f);
    return 0;
}
