/*
 * waiters.c - see waiters.h.
 */
#include "integration/waiters.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/harness.h"
#include "proto/c/envelope.h"
#include "proto/c/wire.h"

struct reply {
    uint8_t *bytes;
    size_t len;
    bool told; /* by w_next */
};

struct w_conn {
    int fd;
    uint32_t n; /* calls made, counted from 1 */
    size_t cap;
    struct reply *replies; /* by call */
    uint32_t *order;       /* of their coming */
    size_t came, told;
    struct hp_arena *arena;
};

struct w_conn *w_open(const char *url)
{
    struct w_conn *conn = calloc(1, sizeof(*conn));
    assert_non_null(conn);
    conn->fd = t_raw_open(url);
    conn->arena = hp_arena_new((size_t)1 << 30);
    assert_non_null(conn->arena);
    return conn;
}

void w_close(struct w_conn *conn)
{
    close(conn->fd);
    for (uint32_t i = 1; i <= conn->n; i++)
        free(conn->replies[i].bytes);
    free(conn->replies);
    free(conn->order);
    hp_arena_free(conn->arena);
    free(conn);
}

uint32_t w_send(struct w_conn *conn, const char *method, const void *request, int64_t timeout_ms)
{
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls = &call;
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    if (conn->n + 1 >= conn->cap) {
        size_t cap = conn->cap ? conn->cap * 2 : 64;
        conn->replies = realloc(conn->replies, cap * sizeof(*conn->replies));
        conn->order = realloc(conn->order, cap * sizeof(*conn->order));
        assert_true(conn->replies && conn->order);
        memset(conn->replies + conn->cap, 0, (cap - conn->cap) * sizeof(*conn->replies));
        conn->cap = cap;
    }
    call.method = C_STR(method);
    call.timeout_ms = timeout_ms;
    call.payload.len = protobuf_c_message_get_packed_size(request);
    call.payload.data = malloc(call.payload.len + 1);
    protobuf_c_message_pack(request, call.payload.data);
    envelope.n_calls = 1;
    envelope.calls = &calls;
    size_t len = holdfast__v1__call_envelope__get_packed_size(&envelope);
    uint8_t *bytes = malloc(len + 1);
    holdfast__v1__call_envelope__pack(&envelope, bytes);
    t_raw_request(conn->fd, ++conn->n, bytes, len);
    free(bytes);
    free(call.payload.data);
    return conn->n;
}

uint32_t w_acquire(struct w_conn *conn, const char *resource, const char *request_id, int64_t wait_ms, int64_t ttl_ms)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *resources[] = {C_STR(resource)};
    request.namespace_ = C_STR("default");
    request.holder = request_id ? C_STR(request_id) : C_STR("w");
    request.n_resources = 1;
    request.resources = resources;
    request.ttl_ms = ttl_ms ? ttl_ms : 60000;
    request.wait_ms = wait_ms;
    if (request_id)
        request.request_id = C_STR(request_id);
    return w_send(conn, C_LEASE "Acquire", &request, wait_ms + 10000);
}

/* One reply more is here. */
static bool take_in(struct w_conn *conn, int ms)
{
    uint32_t id;
    size_t len;
    struct pollfd poll_fd = {.fd = conn->fd, .events = POLLIN};
    if (poll(&poll_fd, 1, ms) <= 0)
        return false;
    uint8_t *bytes = t_raw_reply(conn->fd, 10000, &id, &len);
    if (!bytes)
        fail_msg("the connection has ended");
    assert_true(id >= 1 && id <= conn->n && !conn->replies[id].bytes);
    conn->replies[id] = (struct reply){.bytes = bytes, .len = len};
    conn->order[conn->came++] = id;
    return true;
}

bool w_answered(struct w_conn *conn, uint32_t call)
{
    while (take_in(conn, 0))
        ;
    return conn->replies[call].bytes != NULL;
}

uint32_t w_next(struct w_conn *conn, int ms)
{
    if (conn->told == conn->came && !take_in(conn, ms))
        return 0;
    return conn->order[conn->told++];
}

void *w_message(struct w_conn *conn, uint32_t call, const ProtobufCMessageDescriptor *type, int ms, c_status *status)
{
    int64_t until = t_now_ms() + ms;
    c_status got;
    while (!conn->replies[call].bytes) {
        int64_t left = until - t_now_ms();
        if (left < 0 || !take_in(conn, (int)left))
            fail_msg("call %u has no answer after %d ms", call, ms);
    }
    struct reply *reply = &conn->replies[call];
    Holdfast__V1__ReplyEnvelope *replies = hp_replies_decode(conn->arena, reply->bytes, reply->len, &got);
    assert_true(replies && replies->n_replies == 1);
    hp_reply_status(replies->replies[0], &got);
    if (status)
        *status = got;
    else if (got.code != HP_OK)
        fail_msg("call %u: %s/%s: %s", call, hp_code_name(got.code), hp_reason_name(got.reason), got.message);
    if (got.code != HP_OK)
        return NULL;
    void *message = hp_unpack_within(&hp_wire_reply, conn->arena, type, replies->replies[0]->payload.data,
                                     replies->replies[0]->payload.len, &got);
    assert_non_null(message);
    return message;
}

Holdfast__V1__AcquireResponse *w_response(struct w_conn *conn, uint32_t call, int ms, c_status *status)
{
    return w_message(conn, call, &holdfast__v1__acquire_response__descriptor, ms, status);
}

int64_t w_granted(struct w_conn *conn, uint32_t call, int ms)
{
    Holdfast__V1__AcquireResponse *response = w_response(conn, call, ms, NULL);
    if (response->outcome_case != HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED)
        fail_msg("call %u: outcome %d, wanted granted", call, response->outcome_case);
    return response->granted->grants[0]->token;
}

Holdfast__V1__Held *w_held(struct w_conn *conn, uint32_t call, int ms)
{
    Holdfast__V1__AcquireResponse *response = w_response(conn, call, ms, NULL);
    if (response->outcome_case != HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD)
        fail_msg("call %u: outcome %d, wanted held", call, response->outcome_case);
    return response->held;
}

bool w_cancel(struct t_rpc *rpc, const char *request_id)
{
    Holdfast__V1__CancelWaitRequest request = HOLDFAST__V1__CANCEL_WAIT_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.request_id = C_STR(request_id);
    Holdfast__V1__CancelWaitResponse *response = c_call(rpc, C_LEASE "CancelWait", &request, NULL);
    return response->was_waiting;
}

int64_t w_count(struct t_rpc *rpc, const char *resource)
{
    Holdfast__V1__AcquireResponse *response = c_acquire(rpc, resource, 60000, NULL);
    if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD)
        return response->held->waiters;
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED);
    c_release_one(rpc, resource, response->granted->grants[0]->token);
    return -1;
}

struct counted {
    struct t_rpc *rpc;
    const char *resource;
    int64_t wanted, last;
};

static bool is_count(void *arg)
{
    struct counted *c = arg;
    c->last = w_count(c->rpc, c->resource);
    return c->last == c->wanted;
}

void w_wait_count(struct t_rpc *rpc, const char *resource, int64_t n, int ms)
{
    struct counted c = {rpc, resource, n, 0};
    if (!t_wait_for(is_count, &c, ms))
        fail_msg("%lld wait for %s after %d ms, wanted %lld", (long long)c.last, resource, ms, (long long)n);
}

int64_t w_batches(const Holdfast__V1__StatsResponse *stats, const char *kind)
{
    for (size_t i = 0; i < stats->n_batches; i++)
        if (!strcmp(stats->batches[i]->kind, kind))
            return stats->batches[i]->batches;
    fail_msg("Stats knows no kind %s", kind);
    return 0;
}
