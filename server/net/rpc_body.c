/*
 * rpc_body.c - from the pieces of a request's body to messages: put together, decoded (rpc_decode.c); then given.
 *
 * What comes is taken at once and counted (rpc_count_held), but for streams whose service doesn't listen yet or whose caller
 * doesn't read what it is sent: theirs waits in `pending`, unconsumed, so that its sender is held up by flow control.
 */
#include <stdio.h>
#include <string.h>

#include "net/rpc_call.h"
#include "proto/c/wire.h"

/* ---- one message ---- */

size_t rpc_limit_of(const struct rpc_call *rc)
{
    return rc->json ? 2 * rc->rpc->cfg.request_max : rc->rpc->cfg.request_max;
}

static void too_large(struct rpc_call *rc, size_t size, bool at_least)
{
    struct hp_status status;
    rpc_too_large(&status, size, at_least, rpc_limit_of(rc));
    rpc_fail(rc, &status);
}

static void malformed(struct rpc_call *rc, const char *wanted)
{
    struct hp_status status;
    hp_status_bad_field(&status, HP_R_MALFORMED, "payload", NULL, 0, wanted);
    rpc_fail(rc, &status);
}

static void no_memory(struct rpc_call *rc)
{
    struct hp_status status;
    hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the call");
    rpc_fail(rc, &status);
}

/* As many as one request: gRPC calls it UNIMPLEMENTED when there are more or fewer (doc/statuscodes.md). */
static void not_one(struct rpc_call *rc, const char *found)
{
    struct hp_status status;
    hp_status_bad_field(&status, HP_R_MALFORMED, "payload", found, strlen(found), "exactly one message");
    status.code = HP_UNIMPLEMENTED;
    rpc_fail(rc, &status);
}

/* ---- unary ---- */

static void unary_end(struct rpc_call *rc)
{
    bool framed = rc->protocol->framed;
    if (framed && hp_grpc_reader_amid(&rc->reader))
        malformed(rc, "a whole message, not one that is cut off");
    else if (framed && !rc->whole)
        not_one(rc, "none");
    else
        rpc_decode(rc, framed ? rc->reader.compressed : rc->in_gzip);
}

/* A flag may only be set if the encoding was named. */
static bool flag_is_right(struct rpc_call *rc)
{
    if (!rc->reader.compressed || rc->in_gzip)
        return true;
    malformed(rc, "a message that isn't compressed, as no encoding was named");
    return false;
}

/* What stopped the reader. */
static void bad_frame(struct rpc_call *rc, enum hp_grpc_read read)
{
    if (read == HP_GRPC_TOO_LARGE)
        too_large(rc, rc->reader.announced, false);
    else if (read == HP_GRPC_BAD_FLAG)
        malformed(rc, "a message whose first byte is 0 or 1");
    else
        no_memory(rc);
}

static void unary_framed(struct rpc_call *rc, const uint8_t *data, size_t len)
{
    while (len && !rc->ended) {
        if (rc->whole) {
            not_one(rc, "several");
            return;
        }
        enum hp_grpc_read read = hp_grpc_read(&rc->reader, &data, &len);
        if (read == HP_GRPC_MORE)
            return;
        if (read == HP_GRPC_MESSAGE)
            rc->whole = flag_is_right(rc);
        else
            bad_frame(rc, read);
    }
}

static void unary_plain(struct rpc_call *rc, const void *data, size_t len)
{
    struct hp_buf *body = &rc->reader.message;
    if (len > rpc_limit_of(rc) - body->len) {
        too_large(rc, rpc_limit_of(rc), true);
        return;
    }
    hp_buf_add(body, data, len);
    if (body->failed)
        no_memory(rc);
}

static void unary_body(struct rpc_call *rc, const void *data, size_t len, bool end)
{
    if (rc->protocol->framed)
        unary_framed(rc, data, len);
    else if (len)
        unary_plain(rc, data, len);
    rpc_count_held(rc);
    if (end && rc->x && !rc->ended)
        unary_end(rc);
}

/* ---- streams of requests ---- */

/* Nothing more is to be told to its service. */
static bool deaf(const struct rpc_call *rc)
{
    return rc->answered || rc->ended || !rc->x;
}

/* Something may be told to it now. */
static bool hears(const struct rpc_call *rc)
{
    return rc->listens && !rc->full;
}

/* Takes messages up to the end of the data, or until the peer doesn't read. */
static void stream_data(struct rpc_call *rc, const uint8_t **data, size_t *len)
{
    while (*len && !deaf(rc) && hears(rc)) {
        const void *payload;
        size_t size;
        enum hp_grpc_read read = hp_grpc_read(&rc->reader, data, len);
        if (read == HP_GRPC_MORE)
            break;
        if (read != HP_GRPC_MESSAGE)
            bad_frame(rc, read);
        else if (flag_is_right(rc) && rpc_decode_here(rc, rc->reader.compressed, &payload, &size) && rc->call.message)
            rc->call.message(&rc->call, payload ? payload : "", size);
    }
    rpc_count_held(rc);
}

static void stream_end(struct rpc_call *rc)
{
    if (deaf(rc) || rc->told_end)
        return;
    rc->told_end = true;
    if (hp_grpc_reader_amid(&rc->reader))
        malformed(rc, "a whole message, not one that is cut off");
    else if (rc->call.message)
        rc->call.message(&rc->call, NULL, 0);
}

static void stream_body(struct rpc_call *rc, const void *data, size_t len, bool end)
{
    const uint8_t *at = data;
    size_t left = len;
    if (!rc->pending.len)
        stream_data(rc, &at, &left);
    if (deaf(rc))
        left = 0;
    hp_buf_add(&rc->pending, at, left);
    rc->last = rc->last || end;
    if (rc->pending.failed)
        no_memory(rc);
    /* What this lets through may come before it returns. */
    if (rc->x && left < len)
        net_exchange_consume(rc->x, len - left);
    if (rc->last && !rc->pending.len && hears(rc))
        stream_end(rc);
}

void rpc_body_pending(struct rpc_call *rc)
{
    const uint8_t *at = rc->pending.data;
    size_t left = rc->pending.len, len = left;
    if (!rc->method || !rc->method->client_streams || !hears(rc))
        return;
    if (left && deaf(rc))
        left = 0;
    if (left)
        stream_data(rc, &at, &left);
    if (deaf(rc))
        left = 0;
    if (left)
        memmove(rc->pending.data, rc->pending.data + (len - left), left);
    rc->pending.len = left;
    if (rc->x && left < len)
        net_exchange_consume(rc->x, len - left);
    if (rc->last && !rc->pending.len && hears(rc))
        stream_end(rc);
}

/* ---- both ---- */

void rpc_body(struct net_exchange *x, const void *data, size_t len, bool end)
{
    struct rpc_call *rc = x->handler;
    rpc_hold(rc);
    if (rc->given && rc->method && rc->method->client_streams && !deaf(rc)) {
        stream_body(rc, data, len, end);
    } else {
        if (!rc->given && !rc->ended)
            unary_body(rc, data, len, end);
        /* Last: what it lets through may come before it returns. */
        if (rc->x && len)
            net_exchange_consume(rc->x, len);
    }
    rpc_let_go(rc);
}
