/*
 * json.h - proto3 JSON, written over protobuf-c's descriptors (https://protobuf.dev/programming-guides/json).
 *
 * lowerCamelCase names; 64-bit integers as strings; bytes as base64; enums by name; maps as objects (recognised as a
 * repeated message named as its field, with "Entry" behind, of key = 1 and value = 2); google.protobuf.Duration as "1.500s".
 * Floats are written with as many digits as it takes to read the same value back; a number that an enum has no name for stays a
 * number; of map entries with the same key the last one counts.
 * Members of a oneof are written when set; other scalar fields are left out at their default unless HP_JSON_DEFAULTS asks
 * for them.
 */
#ifndef HOLDFAST_PROTO_JSON_H
#define HOLDFAST_PROTO_JSON_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/c/buf.h"

enum { HP_JSON_DEFAULTS = 1 };

/* Appends `message` as one line of JSON. Failure shows in out->failed. */
void hp_json_write(struct hp_buf *out, const ProtobufCMessage *message, unsigned flags);
/* Appends `text` as a JSON string with its quotes (RFC 8259 section 7); bytes that aren't UTF-8 become U+FFFD. */
void hp_json_string(struct hp_buf *out, const char *text, size_t len);
/* Whether this repeated field is a map. */
bool hp_json_is_map(const ProtobufCFieldDescriptor *field);

#endif
