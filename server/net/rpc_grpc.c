/*
 * rpc_grpc.c - responses as gRPC has them: headers, messages, trailers; or an error alone, as headers ("Trailers-Only").
 */
#include <stdio.h>
#include <string.h>

#include "net/rpc_call.h"
#include "proto/c/status.h"

enum { HEADERS_MAX = 6, DETAILS_MAX = 4096 /* in base64: clients bound a response's headers, some at 8 KiB */ };

/* Texts of a status, for as long as headers need them. */
struct texts {
    char code[8];
    struct hp_buf message, details;
};

static size_t status_headers(const struct hp_status *status, struct net_header *headers, struct texts *texts)
{
    struct hp_buf packed = HP_BUF_INIT;
    size_t n = 0;
    snprintf(texts->code, sizeof(texts->code), "%d", (int)status->code);
    headers[n++] = (struct net_header){"grpc-status", texts->code};
    hp_percent_encode(&texts->message, status->message, strlen(status->message));
    if (texts->message.len && !texts->message.failed)
        headers[n++] = (struct net_header){"grpc-message", (const char *)texts->message.data};
    if (status->reason == HP_R_UNSPECIFIED && !status->retry_ms && !status->field[0])
        return n;
    if (hp_status_encode(status, &packed))
        hp_base64_encode(&texts->details, packed.data, packed.len);
    hp_buf_release(&packed);
    if (texts->details.len && texts->details.len <= DETAILS_MAX && !texts->details.failed)
        headers[n++] = (struct net_header){"grpc-status-details-bin", (const char *)texts->details.data};
    return n;
}

static void begin(struct rpc_call *rc)
{
    const struct net_header headers[] = {{"content-type", rc->content_type}, {"grpc-encoding", "gzip"}};
    rc->begun = true;
    net_exchange_respond(rc->x, 200, headers, rc->out_gzip ? 2 : 1, false);
}

static void end_with_error(struct rpc_call *rc, const struct hp_status *status)
{
    struct net_header headers[HEADERS_MAX];
    struct texts texts = {.message = HP_BUF_INIT, .details = HP_BUF_INIT};
    size_t n = 0;
    if (!rc->begun) {
        headers[n++] = (struct net_header){"content-type", rc->content_type};
        if (status->code == HP_UNIMPLEMENTED && status->field[0]) /* its encoding isn't known here */
            headers[n++] = (struct net_header){"grpc-accept-encoding", "identity,gzip"};
    }
    n += status_headers(status, headers + n, &texts);
    if (rc->begun)
        net_exchange_end(rc->x, headers, n);
    else
        net_exchange_respond(rc->x, 200, headers, n, true);
    hp_buf_release(&texts.message);
    hp_buf_release(&texts.details);
}

static void end(struct rpc_call *rc, const struct hp_status *status)
{
    static const struct net_header fine[] = {{"grpc-status", "0"}};
    if (status) {
        end_with_error(rc, status);
        return;
    }
    if (!rc->begun)
        begin(rc);
    if (rc->x)
        net_exchange_end(rc->x, fine, 1);
}

static void reply(struct rpc_call *rc, const ProtobufCMessage *response)
{
    struct hp_status status;
    struct hp_buf *encoded = rpc_encode(rc, response, &status);
    if (!encoded) {
        end_with_error(rc, &status);
        return;
    }
    rc->out_gzip = rpc_compressed(rc, encoded); /* it is the only message: name the encoding only where it is used */
    hp_grpc_prefix(encoded->data, rc->out_gzip, encoded->len - HP_GRPC_PREFIX);
    begin(rc);
    if (rc->x)
        net_exchange_write(rc->x, encoded->data, encoded->len);
    if (rc->x)
        end(rc, NULL);
}

const struct rpc_protocol rpc_grpc = {.name = "grpc", .framed = true, .begin = begin, .reply = reply, .end = end};
