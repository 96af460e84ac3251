/*
 * json_wire.h - protobuf's wire format, written at the end of a buffer; and text as numbers. For json_read.c.
 */
#ifndef HOLDFAST_NET_JSON_WIRE_H
#define HOLDFAST_NET_JSON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/c/buf.h"

enum json_wire { JSON_WIRE_VARINT = 0, JSON_WIRE_FIXED64 = 1, JSON_WIRE_BYTES = 2, JSON_WIRE_FIXED32 = 5 };

/* A scalar of any type but string and bytes, as its bits: integers sign-extended, floats by their IEEE form. */
enum json_wire json_wire_type(ProtobufCType type);
void json_wire_varint(struct hp_buf *out, uint64_t value);
void json_wire_tag(struct hp_buf *out, uint32_t field, enum json_wire type);
void json_wire_scalar(struct hp_buf *out, ProtobufCType type, uint64_t bits);
/* What was appended since out->len was `start` gets its length before it. */
void json_wire_close(struct hp_buf *out, size_t start);

/* What an integer of this type may be; for messages to people. */
const char *json_wire_range(ProtobufCType type);
/* Whether a number fits; `negative`: it is -magnitude. */
bool json_wire_integer(ProtobufCType type, bool negative, uint64_t magnitude, uint64_t *bits);
/* The same for a double, which must be integral. */
bool json_wire_integral(ProtobufCType type, double value, uint64_t *bits);
/* The same for a JSON number (RFC 8259, 6) as text. */
bool json_wire_parse_integer(ProtobufCType type, const char *text, uint64_t *bits);
/* A float or double; not beyond what is finite there. */
bool json_wire_real(ProtobufCType type, double value, uint64_t *bits);
/* The same for text: a JSON number, NaN, Infinity or -Infinity. */
bool json_wire_parse_real(ProtobufCType type, const char *text, uint64_t *bits);
/* "-1.500s" (google/protobuf/duration.proto). */
bool json_wire_parse_duration(const char *text, int64_t *seconds, int32_t *nanos);

#endif
