/*
 * envelope.h - the messages of the nng transport (holdfast/v1/rpc.proto).
 */
#ifndef HOLDFAST_PROTO_ENVELOPE_H
#define HOLDFAST_PROTO_ENVELOPE_H

#include "holdfast/v1/rpc.pb-c.h"
#include "proto/c/arena.h"
#include "proto/c/buf.h"
#include "proto/c/err.h"

/* The 1 to HP_ENVELOPE_CALLS calls of a request envelope, in `arena`, payloads copied. NULL: `status` tells why. The limits of
 * each call (payload, metadata, timeout) are left to who runs it, so that a bad call doesn't refuse those packed beside it. */
Holdfast__V1__CallEnvelope *hp_calls_decode(struct hp_arena *arena, const void *data, size_t len, struct hp_status *status)
    __attribute__((warn_unused_result));

/* The replies of a reply envelope, in `arena`. NULL: `status` is INTERNAL. */
Holdfast__V1__ReplyEnvelope *hp_replies_decode(struct hp_arena *arena, const void *data, size_t len, struct hp_status *status)
    __attribute__((warn_unused_result));

/* Fills in one reply: an OK with `payload` (borrowed), or a status (encoded into `arena`). False: no memory. */
bool hp_reply_fill(struct hp_arena *arena, Holdfast__V1__Reply *reply, const struct hp_status *status, const void *payload,
                   size_t len) __attribute__((warn_unused_result));

/* The status of a reply: OK, or what its code, message and details say. */
void hp_reply_status(const Holdfast__V1__Reply *reply, struct hp_status *status);

#endif
