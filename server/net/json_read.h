/*
 * json_read.h - proto3 JSON (https://protobuf.dev/programming-guides/json) to serialized protobuf, over protobuf-c's descriptors.
 *
 * Both forms of names; 64-bit integers as strings or numbers, also 1e3 and 1.0; bytes as base64 of either alphabet; enums by name
 * or number; null as absent; google.protobuf.Duration as "1.500s". What isn't known or comes twice is refused, and so is what
 * hp_wire_check (proto/c/wire.h) would refuse.
 */
#ifndef HOLDFAST_NET_JSON_READ_H
#define HOLDFAST_NET_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/c/buf.h"
#include "proto/c/err.h"

/* Appends the message. False: `status` is INVALID_ARGUMENT and names the field by its path, its value, and what is wanted there
 * (QUEUE_FULL: no memory), and nothing of use was appended. However much the text says, it takes at most a few hundred bytes of
 * memory for each of its HP_WIRE_ELEMENTS values. */
bool net_json_read(const ProtobufCMessageDescriptor *type, const char *text, size_t len, struct hp_buf *out,
                   struct hp_status *status) __attribute__((warn_unused_result));

#endif
