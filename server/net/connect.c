/*
 * connect.c - responses as the Connect protocol has them (https://connectrpc.com/docs/protocol). A unary call is answered by an
 * HTTP response of its own: status, headers, body. A stream is a response of framed messages, always 200, whose last frame tells
 * how it ended.
 */
#include "net/connect.h"

#include <stdio.h>
#include <string.h>

#include "net/rpc_call.h"

enum { HEADERS_MAX = 4 + RPC_CORS_HEADERS, END_STREAM = 2 /* the flag of the last frame */ };

static const char json_type[] = "application/json";

/* ---- unary ---- */

static void respond(struct rpc_call *rc, int status, const char *type, bool zipped, const void *body, size_t len)
{
    struct net_header headers[HEADERS_MAX];
    char length[24];
    size_t n = 0;
    snprintf(length, sizeof(length), "%zu", len);
    headers[n++] = (struct net_header){"content-type", type};
    headers[n++] = (struct net_header){"content-length", length};
    if (zipped)
        headers[n++] = (struct net_header){"content-encoding", "gzip"};
    n += rpc_cors_headers(rc, headers + n);
    rc->begun = true;
    net_exchange_respond(rc->x, status, headers, n, false);
    if (rc->x && len)
        net_exchange_write(rc->x, body, len);
    if (rc->x)
        net_exchange_end(rc->x, NULL, 0);
}

static void unary_end(struct rpc_call *rc, const struct hp_status *status)
{
    struct hp_buf body = HP_BUF_INIT;
    if (status)
        net_connect_error(&body, status);
    else if (rc->json)
        hp_buf_addstr(&body, "{}");
    if (status && (!body.data || body.failed))
        respond(rc, net_connect_http_status(status->code), json_type, false, "{}", 2); /* no memory for more */
    else if (status)
        respond(rc, net_connect_http_status(status->code), json_type, false, body.data, body.len);
    else
        respond(rc, 200, rc->content_type, false, body.data, body.len);
    hp_buf_release(&body);
}

static void unary_reply(struct rpc_call *rc, const ProtobufCMessage *response)
{
    struct hp_status status;
    const struct hp_buf *encoded = rpc_encode(rc, response, &status);
    if (encoded)
        respond(rc, 200, rc->content_type, rpc_compressed(rc, encoded), encoded->data + HP_GRPC_PREFIX,
                encoded->len - HP_GRPC_PREFIX);
    else
        unary_end(rc, &status);
}

static void unary_begin(struct rpc_call *rc)
{
    (void)rc; /* a unary response begins when it is known whole */
}

const struct rpc_protocol rpc_connect = {
    .name = "connect", .framed = false, .begin = unary_begin, .reply = unary_reply, .end = unary_end};

/* ---- streams ---- */

static void stream_begin(struct rpc_call *rc)
{
    struct net_header headers[HEADERS_MAX];
    size_t n = 0;
    headers[n++] = (struct net_header){"content-type", rc->content_type};
    if (rc->out_gzip)
        headers[n++] = (struct net_header){"connect-content-encoding", "gzip"};
    n += rpc_cors_headers(rc, headers + n);
    rc->begun = true;
    net_exchange_respond(rc->x, 200, headers, n, false);
}

static void stream_end(struct rpc_call *rc, const struct hp_status *status)
{
    struct hp_buf frame = HP_BUF_INIT;
    uint8_t prefix[HP_GRPC_PREFIX] = {0};
    if (!rc->begun)
        stream_begin(rc);
    hp_buf_add(&frame, prefix, sizeof(prefix));
    hp_buf_addch(&frame, '{');
    if (status) {
        hp_buf_addstr(&frame, "\"error\":");
        net_connect_error(&frame, status);
    }
    hp_buf_addch(&frame, '}');
    if (frame.data && !frame.failed) {
        hp_grpc_prefix(frame.data, false, frame.len - HP_GRPC_PREFIX);
        frame.data[0] = END_STREAM;
        if (rc->x)
            net_exchange_write(rc->x, frame.data, frame.len);
    }
    if (rc->x)
        net_exchange_end(rc->x, NULL, 0);
    hp_buf_release(&frame);
}

static void stream_reply(struct rpc_call *rc, const ProtobufCMessage *response)
{
    struct hp_status status;
    struct hp_buf *encoded = rpc_encode(rc, response, &status);
    if (!rc->begun)
        stream_begin(rc);
    if (encoded && rc->x) {
        hp_grpc_prefix(encoded->data, rpc_compressed(rc, encoded), encoded->len - HP_GRPC_PREFIX);
        net_exchange_write(rc->x, encoded->data, encoded->len);
    }
    if (rc->x)
        stream_end(rc, encoded ? NULL : &status);
}

const struct rpc_protocol rpc_connect_stream = {
    .name = "connect", .framed = true, .begin = stream_begin, .reply = stream_reply, .end = stream_end};
