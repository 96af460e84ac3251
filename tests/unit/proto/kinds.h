/*
 * kinds.h - a message type with every kind of field that proto3 knows, made by hand, and bytes as they stand on the wire.
 *
 *   enum Colour { NONE = 0; RED = 1; BLUE = 5; }
 *   message Kinds {
 *     int32 i32 = 1; sint32 s32 = 2; sfixed32 sf32 = 3; uint32 u32 = 4; fixed32 f32 = 5;
 *     int64 i64 = 6; sint64 s64 = 7; sfixed64 sf64 = 8; uint64 u64 = 9; fixed64 f64 = 10;
 *     float real = 11; double wide_real = 12; bool yes = 13; Colour colour = 14;
 *     string text = 15; bytes data = 16; Kinds child = 17;
 *     repeated int32 many_i32 = 18; repeated sint64 many_s64 = 19; repeated fixed32 many_f32 = 20; repeated double many_real = 21;
 *     repeated bool many_yes = 22; repeated Colour many_colour = 23;
 *     repeated string many_text = 24; repeated bytes many_data = 25; repeated Kinds many_child = 26;
 *     map<string, int64> counts = 27; map<bool, Colour> by_flag = 28; map<uint64, Kinds> by_number = 29;
 *     oneof one { int32 one_i32 = 30; string one_text = 31; Kinds one_child = 32; bytes one_data = 33; }
 *   }
 *
 * It is recursive, which ours must not be: that is for the tests of depth.
 */
#ifndef HOLDFAST_TESTS_UNIT_PROTO_KINDS_H
#define HOLDFAST_TESTS_UNIT_PROTO_KINDS_H

#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/c/buf.h"

enum { COLOUR_NONE = 0, COLOUR_RED = 1, COLOUR_BLUE = 5 };

struct kinds_count {
    ProtobufCMessage base;
    char *key;
    int64_t value;
};

struct kinds_flag {
    ProtobufCMessage base;
    protobuf_c_boolean key;
    int32_t value;
};

struct kinds {
    ProtobufCMessage base;
    int32_t i32, s32, sf32;
    uint32_t u32, f32;
    int64_t i64, s64, sf64;
    uint64_t u64, f64;
    float real;
    double wide_real;
    protobuf_c_boolean yes;
    int32_t colour;
    char *text;
    ProtobufCBinaryData data;
    struct kinds *child;
    size_t n_many_i32;
    int32_t *many_i32;
    size_t n_many_s64;
    int64_t *many_s64;
    size_t n_many_f32;
    uint32_t *many_f32;
    size_t n_many_real;
    double *many_real;
    size_t n_many_yes;
    protobuf_c_boolean *many_yes;
    size_t n_many_colour;
    int32_t *many_colour;
    size_t n_many_text;
    char **many_text;
    size_t n_many_data;
    ProtobufCBinaryData *many_data;
    size_t n_many_child;
    struct kinds **many_child;
    size_t n_counts;
    struct kinds_count **counts;
    size_t n_by_flag;
    struct kinds_flag **by_flag;
    size_t n_by_number;
    struct kinds_number **by_number;
    uint32_t one_case;
    union {
        int32_t one_i32;
        char *one_text;
        struct kinds *one_child;
        ProtobufCBinaryData one_data;
    };
};

struct kinds_number {
    ProtobufCMessage base;
    uint64_t key;
    struct kinds *value;
};

extern const ProtobufCMessageDescriptor kinds_type, kinds_count_type, kinds_flag_type, kinds_number_type;

/* All fields at their defaults. */
void kinds_init(struct kinds *message);
/* Every field of `message` is set to something; what it points to is static. */
void kinds_fill(struct kinds *message);

/* Bytes of the wire, appended. */
void put_varint(struct hp_buf *out, uint64_t value);
void put_tag(struct hp_buf *out, uint32_t number, unsigned wire_type);
void put_bytes(struct hp_buf *out, uint32_t number, const void *data, size_t len); /* tag, length, data */
void put_text(struct hp_buf *out, uint32_t number, const char *text);
void put_number(struct hp_buf *out, uint32_t number, uint64_t value); /* tag, varint */

#endif
