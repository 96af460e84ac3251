/*
 * rpc_encode.c - messages on their way out: packed or written as JSON, compressed where that pays and is quick, framed.
 */
#include <string.h>

#include "net/rpc_call.h"
#include "proto/c/json.h"
#include "proto/c/wire.h"

enum {
    WORTH_ZIPPING = 1024,
    TOO_LARGE_TO_ZIP = 64 << 10, /* on the thread that serves everybody: it would take milliseconds */
    KEEP_BYTES = 1 << 20
};

/* Empty but for the prefix's room. False: no memory. */
static bool begin_with_room(struct hp_buf *buf)
{
    static const uint8_t room[HP_GRPC_PREFIX];
    if (buf->cap > KEEP_BYTES)
        hp_buf_release(buf);
    hp_buf_reset(buf);
    hp_buf_add(buf, room, sizeof(room));
    return !buf->failed;
}

static bool pack(const struct rpc_call *rc, struct hp_buf *out, const ProtobufCMessage *message, bool *too_large)
{
    size_t max = rc->rpc->cfg.reply_max;
    if (!rc->json) {
        *too_large = protobuf_c_message_get_packed_size(message) > max;
        return !*too_large && hp_pack(out, message);
    }
    out->max = HP_GRPC_PREFIX + 2 * max;
    hp_json_write(out, message, 0);
    *too_large = out->failed && out->len > max;
    out->max = 0;
    return !out->failed;
}

struct hp_buf *rpc_encode(struct rpc_call *rc, const ProtobufCMessage *message, struct hp_status *status)
{
    struct net_rpc *rpc = rc->rpc;
    struct hp_buf *out = &rpc->out;
    bool too_large = false;
    if (!begin_with_room(out) || !pack(rc, out, message, &too_large)) {
        if (too_large)
            hp_status_set(status, HP_R_OUTCOME_LOST, "the answer is more than %zu bytes", rpc->cfg.reply_max);
        else
            hp_status_set(status, HP_R_OUTCOME_LOST, "no memory for the answer");
        return NULL;
    }
    size_t len = out->len - HP_GRPC_PREFIX;
    if (!rc->out_gzip || len < WORTH_ZIPPING || len > TOO_LARGE_TO_ZIP || !begin_with_room(&rpc->zipped))
        return out;
    if (net_gzip_close(rpc->gzip, out->data + HP_GRPC_PREFIX, len, &rpc->zipped))
        return &rpc->zipped;
    return out;
}

bool rpc_compressed(const struct rpc_call *rc, const struct hp_buf *encoded)
{
    return encoded == &rc->rpc->zipped;
}

void rpc_send_message(struct rpc_call *rc, const ProtobufCMessage *message)
{
    struct hp_status status;
    struct hp_buf *encoded = rpc_encode(rc, message, &status);
    if (!encoded) {
        rpc_fail(rc, &status);
        return;
    }
    hp_grpc_prefix(encoded->data, rpc_compressed(rc, encoded), encoded->len - HP_GRPC_PREFIX);
    if (!net_exchange_write(rc->x, encoded->data, encoded->len))
        rc->full = true;
}
