/*
 * wire.h - a check of serialized protobuf before it is unpacked, driven by the message's descriptor.
 *
 * protobuf-c's unpacker recurses without bound, multiplies memory, cuts strings at NUL and takes any bytes for a string
 * (protobuf's encoding rules: https://protobuf.dev/programming-guides/encoding). What passes this check unpacks within a
 * known amount of memory into strings that are valid UTF-8 without NUL.
 */
#ifndef HOLDFAST_PROTO_WIRE_H
#define HOLDFAST_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/c/arena.h"
#include "proto/c/buf.h"
#include "proto/c/err.h"

enum {
    HP_WIRE_DEPTH = 8,        /* levels of messages */
    HP_WIRE_ELEMENTS = 20000, /* fields and elements in one message, all levels together */
    HP_REQUEST_MAX = 4 << 20, /* bytes of one call's payload */
    HP_ENVELOPE_MAX = 16 << 20,
    HP_ENVELOPE_CALLS = 1000
};

/* What one message may be: bytes, and fields and elements of all levels together. */
struct hp_wire_limits {
    size_t bytes;
    size_t elements;
};
extern const struct hp_wire_limits hp_wire_request;  /* one call's payload: HP_REQUEST_MAX, HP_WIRE_ELEMENTS */
extern const struct hp_wire_limits hp_wire_envelope; /* HP_ENVELOPE_MAX; HP_ENVELOPE_CALLS with all their metadata */
extern const struct hp_wire_limits hp_wire_reply;    /* what a client takes from its server: a page of 1,000 labelled leases */

/* True if `data` is a message of this type that is safe to unpack. Otherwise `status` is INVALID_ARGUMENT and names the
 * field by its path: LIMIT if it is too large, too deep or has too many elements, else MALFORMED. Unknown fields are allowed
 * and counted. Stricter than protobuf in one point: a singular submessage may come only once (protobuf would merge, and
 * protobuf-c 1.4.1 reads out of bounds when it merges messages whose oneof is not set). */
bool hp_wire_check(const ProtobufCMessageDescriptor *type, const void *data, size_t len, struct hp_status *status)
    __attribute__((warn_unused_result));
/* The same within other limits. */
bool hp_wire_check_within(const struct hp_wire_limits *limits, const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                          struct hp_status *status) __attribute__((warn_unused_result));

/* Checks, then unpacks into the arena. NULL: `status` tells why (INVALID_ARGUMENT; or LIMIT if the arena's budget is
 * spent; or QUEUE_FULL if the process is out of memory). What has passed needs at most its own
 * length of the arena, and for each element 200 bytes and the size of the largest message struct in it. */
ProtobufCMessage *hp_unpack(struct hp_arena *arena, const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                            struct hp_status *status) __attribute__((warn_unused_result));
/* The same within other limits. */
ProtobufCMessage *hp_unpack_within(const struct hp_wire_limits *limits, struct hp_arena *arena,
                                   const ProtobufCMessageDescriptor *type, const void *data, size_t len, struct hp_status *status)
    __attribute__((warn_unused_result));

/* Appends the serialized message. False: no memory, or beyond out->max. */
bool hp_pack(struct hp_buf *out, const ProtobufCMessage *message) __attribute__((warn_unused_result));

/* True if text is valid UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). */
bool hp_utf8_valid(const void *text, size_t len);

/* True if `name` is 1 to 256 bytes of valid UTF-8 without control characters (U+0000–U+001F, U+007F–U+009F). Otherwise
 * `status` names `field`. */
bool hp_check_name(const char *field, const char *name, struct hp_status *status) __attribute__((warn_unused_result));

#endif
