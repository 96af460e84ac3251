/*
 * status.h - a status as google.rpc.Status with details, and back.
 */
#ifndef HOLDFAST_PROTO_STATUS_H
#define HOLDFAST_PROTO_STATUS_H

#include "proto/c/arena.h"
#include "proto/c/buf.h"
#include "proto/c/err.h"

/* Appends the serialized google.rpc.Status: code, message, ErrorInfo{reason, "holdfast", metadata}, RetryInfo if
 * retry_ms > 0, BadRequest if a field is named. False: no memory. */
bool hp_status_encode(const struct hp_status *status, struct hp_buf *out) __attribute__((warn_unused_result));

/* Reads what hp_status_encode or another gRPC server wrote; details that aren't known are passed over. False: not a
 * Status; then `status` is INTERNAL. Metadata names are interned from a fixed set (field, value, limit, fence, version,
 * write_seq, sqlstate, resource, namespace, holder, method); others are left out. */
bool hp_status_decode(const void *data, size_t len, struct hp_status *status) __attribute__((warn_unused_result));

/* Appends google.rpc.Status as proto3 JSON, with the details as {"@type": "type.googleapis.com/…", …}. */
void hp_status_json(const struct hp_status *status, struct hp_buf *out);

#endif
