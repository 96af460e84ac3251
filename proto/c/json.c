/*
 * json.c - the proto3 JSON writer (https://protobuf.dev/programming-guides/json).
 *
 * It recurses once a level of messages: what it is given was unpacked after hp_wire_check, or built by us from messages that
 * are not recursive. No state; any thread.
 */
#include "proto/c/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/base64.h"
#include "proto/c/utf8.h"

static void write_message(struct hp_buf *out, const ProtobufCMessage *message, unsigned flags);

void hp_json_string(struct hp_buf *out, const char *text, size_t len)
{
    size_t plain = 0; /* bytes that need no escape, not yet written */

    hp_buf_addch(out, '"');
    while (plain < len) {
        size_t n = hp_utf8_next(text + plain, len - plain, NULL);
        unsigned char c = (unsigned char)text[plain];
        const char *found;

        if (n > 1 || (n == 1 && c >= 0x20 && c != '"' && c != '\\')) {
            plain += n;
            continue;
        }
        hp_buf_add(out, text, plain);
        found = c ? strchr("\"\"\\\\\bb\ff\nn\rr\tt", c) : NULL;
        if (n == 0)
            hp_buf_addstr(out, "\xEF\xBF\xBD"); /* U+FFFD */
        else if (found && (c < 0x20 || c == '"' || c == '\\'))
            hp_buf_printf(out, "\\%c", c == '"' || c == '\\' ? c : found[1]);
        else
            hp_buf_printf(out, "\\u%04x", c);
        text += plain + 1;
        len -= plain + 1;
        plain = 0;
    }
    hp_buf_add(out, text, plain);
    hp_buf_addch(out, '"');
}

static void write_bytes(struct hp_buf *out, const ProtobufCBinaryData *bytes)
{
    hp_buf_addch(out, '"');
    hp_base64_encode_padded(out, bytes->data, bytes->len);
    hp_buf_addch(out, '"');
}

/* The shortest decimal number that reads back as the same value. */
static void write_real(struct hp_buf *out, double value, bool is_float)
{
    int digits = is_float ? 6 : 15;
    char text[40], clean[40];
    size_t n = 0;

    if (isnan(value)) {
        hp_buf_addstr(out, "\"NaN\"");
        return;
    }
    if (isinf(value)) {
        hp_buf_addstr(out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    if (value == 0 && signbit(value)) { /* readers take -0 for a whole number, which has no sign there */
        hp_buf_addstr(out, "-0.0");
        return;
    }
    do
        snprintf(text, sizeof text, "%.*g", digits, value);
    while ((is_float ? strtof(text, NULL) != (float)value : strtod(text, NULL) != value) && ++digits <= 17);
    /* Whatever the locale writes for the decimal point is one here. */
    for (const char *p = text; *p; p++) {
        if (strchr("0123456789+-eE", *p))
            clean[n++] = *p;
        else if (n == 0 || clean[n - 1] != '.')
            clean[n++] = '.';
    }
    hp_buf_add(out, clean, n);
}

static void write_enum(struct hp_buf *out, const ProtobufCEnumDescriptor *type, int32_t number)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, number);

    if (value)
        hp_buf_printf(out, "\"%s\"", value->name);
    else
        hp_buf_printf(out, "%" PRId32, number);
}

/* google.protobuf.Duration: seconds with 0, 3, 6 or 9 digits behind the point. */
static void write_duration(struct hp_buf *out, const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *s = protobuf_c_message_descriptor_get_field(message->descriptor, 1);
    const ProtobufCFieldDescriptor *ns = protobuf_c_message_descriptor_get_field(message->descriptor, 2);
    int64_t seconds;
    int32_t nanos;
    uint64_t whole;
    uint32_t part;

    memcpy(&seconds, (const char *)message + s->offset, sizeof seconds);
    memcpy(&nanos, (const char *)message + ns->offset, sizeof nanos);
    whole = seconds < 0 ? 0 - (uint64_t)seconds : (uint64_t)seconds;
    part = nanos < 0 ? 0 - (uint32_t)nanos : (uint32_t)nanos;
    hp_buf_printf(out, "\"%s%" PRIu64, seconds < 0 || nanos < 0 ? "-" : "", whole);
    if (part % 1000000 == 0 && part)
        hp_buf_printf(out, ".%03" PRIu32, part / 1000000);
    else if (part % 1000 == 0 && part)
        hp_buf_printf(out, ".%06" PRIu32, part / 1000);
    else if (part)
        hp_buf_printf(out, ".%09" PRIu32, part);
    hp_buf_addstr(out, "s\"");
}

static void write_number(struct hp_buf *out, const ProtobufCFieldDescriptor *field, const void *at)
{
    int32_t i32 = 0;
    int64_t i64 = 0;
    float f = 0;
    double d = 0;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        memcpy(&i32, at, sizeof i32);
        hp_buf_printf(out, "%" PRId32, i32);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        memcpy(&i32, at, sizeof i32);
        hp_buf_printf(out, "%" PRIu32, (uint32_t)i32);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        memcpy(&i64, at, sizeof i64);
        hp_buf_printf(out, "\"%" PRId64 "\"", i64);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        memcpy(&i64, at, sizeof i64);
        hp_buf_printf(out, "\"%" PRIu64 "\"", (uint64_t)i64);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        memcpy(&f, at, sizeof f);
        write_real(out, (double)f, true);
        break;
    default:
        memcpy(&d, at, sizeof d);
        write_real(out, d, false);
    }
}

/* NOLINTBEGIN(misc-no-recursion): once a level of a message, and our messages are not recursive */

/* One value (an element, if the field is repeated) that stands at `at`. */
static void write_value(struct hp_buf *out, const ProtobufCFieldDescriptor *field, const void *at, unsigned flags)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)at;

        hp_json_string(out, text ? text : "", text ? strlen(text) : 0);
        break;
    }
    case PROTOBUF_C_TYPE_BYTES:
        write_bytes(out, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        write_message(out, *(ProtobufCMessage *const *)at, flags);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        hp_buf_addstr(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(out, field->descriptor, *(const int32_t *)at);
        break;
    default:
        write_number(out, field, at);
    }
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return 4;
    }
}

/* Of ASCII only: toupper() obeys the locale, and Turkish has another i. */
static char upper_case(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* ---- maps ---- */

/* protoc names the entry's type after the field: labels → LabelsEntry, due_dates → DueDatesEntry. */
bool hp_json_is_map(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    const char *name;
    bool upper = true;

    if (field->type != PROTOBUF_C_TYPE_MESSAGE || type->n_fields != 2)
        return false;
    if (type->fields[0].id != 1 || strcmp(type->fields[0].name, "key") != 0 || type->fields[1].id != 2 ||
        strcmp(type->fields[1].name, "value") != 0)
        return false;
    name = type->short_name;
    for (const char *p = field->name; *p; p++) {
        if (*p == '_') {
            upper = true;
            continue;
        }
        if (*name++ != (upper ? upper_case(*p) : *p))
            return false;
        upper = false;
    }
    return strcmp(name, "Entry") == 0;
}

static bool same_key(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    const ProtobufCFieldDescriptor *key = &a->descriptor->fields[0];
    const void *at_a = (const char *)a + key->offset, *at_b = (const char *)b + key->offset;

    if (key->type == PROTOBUF_C_TYPE_STRING)
        return strcmp(*(char *const *)at_a, *(char *const *)at_b) == 0;
    return memcmp(at_a, at_b, size_of(key->type)) == 0;
}

static void write_key(struct hp_buf *out, const ProtobufCMessage *entry)
{
    const ProtobufCFieldDescriptor *key = &entry->descriptor->fields[0];
    const void *at = (const char *)entry + key->offset;
    /* Strings and 64-bit numbers bring their own quotes. */
    bool bare = key->type != PROTOBUF_C_TYPE_STRING && size_of(key->type) != 8;

    if (bare)
        hp_buf_addch(out, '"');
    write_value(out, key, at, 0);
    if (bare)
        hp_buf_addch(out, '"');
}

static void write_map(struct hp_buf *out, ProtobufCMessage *const *entries, size_t n, unsigned flags)
{
    bool first = true;

    hp_buf_addch(out, '{');
    for (size_t i = 0; i < n && !out->failed; i++) {
        const ProtobufCFieldDescriptor *value = &entries[i]->descriptor->fields[1];
        const void *at = (const char *)entries[i] + value->offset;
        size_t later = i + 1;

        while (later < n && !same_key(entries[i], entries[later]))
            later++;
        if (later < n) /* of equal keys the last one counts, and JSON must not have two */
            continue;
        if (!first)
            hp_buf_addch(out, ',');
        first = false;
        write_key(out, entries[i]);
        hp_buf_addch(out, ':');
        if (value->type == PROTOBUF_C_TYPE_MESSAGE && !*(ProtobufCMessage *const *)at)
            hp_buf_addstr(out, "{}"); /* an entry without a value has its default */
        else
            write_value(out, value, at, flags);
    }
    hp_buf_addch(out, '}');
}

/* ---- fields ---- */

/* The name in lowerCamelCase, as protoc makes json_name. */
static void write_name(struct hp_buf *out, const char *name)
{
    bool upper = false;

    hp_buf_addch(out, '"');
    for (; *name; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        hp_buf_addch(out, upper ? upper_case(*name) : *name);
        upper = false;
    }
    hp_buf_addstr(out, "\":");
}

static bool is_default(const ProtobufCFieldDescriptor *field, const void *at)
{
    static const char zero[8];
    const char *text;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        text = *(char *const *)at;
        return !text || !text[0];
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len == 0;
    default: /* by its bits: -0.0 is not the default */
        return memcmp(at, zero, size_of(field->type)) == 0;
    }
}

static bool is_wanted(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, unsigned flags)
{
    const char *base = (const char *)message;
    const void *at = base + field->offset;

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(base + field->quantifier_offset) > 0 || (flags & HP_JSON_DEFAULTS);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        if (*(const uint32_t *)(base + field->quantifier_offset) != field->id)
            return false;
        return field->type != PROTOBUF_C_TYPE_MESSAGE || *(ProtobufCMessage *const *)at;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)at != NULL;
    return !is_default(field, at) || (flags & HP_JSON_DEFAULTS);
}

static void write_repeated(struct hp_buf *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                           unsigned flags)
{
    size_t n = *(const size_t *)((const char *)message + field->quantifier_offset);
    const char *elements = *(char *const *)((const char *)message + field->offset);
    size_t size = size_of(field->type);

    if (hp_json_is_map(field)) {
        write_map(out, (ProtobufCMessage *const *)elements, n, flags);
        return;
    }
    hp_buf_addch(out, '[');
    for (size_t i = 0; i < n && !out->failed; i++) {
        if (i)
            hp_buf_addch(out, ',');
        write_value(out, field, elements + i * size, flags);
    }
    hp_buf_addch(out, ']');
}

static void write_message(struct hp_buf *out, const ProtobufCMessage *message, unsigned flags)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    bool first = true;

    if (strcmp(type->name, "google.protobuf.Duration") == 0) {
        write_duration(out, message);
        return;
    }
    hp_buf_addch(out, '{');
    for (unsigned i = 0; i < type->n_fields && !out->failed; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];

        if (!is_wanted(message, field, flags))
            continue;
        if (!first)
            hp_buf_addch(out, ',');
        first = false;
        write_name(out, field->name);
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            write_repeated(out, message, field, flags);
        else
            write_value(out, field, (const char *)message + field->offset, flags);
    }
    hp_buf_addch(out, '}');
}

/* NOLINTEND(misc-no-recursion) */

void hp_json_write(struct hp_buf *out, const ProtobufCMessage *message, unsigned flags)
{
    write_message(out, message, flags);
}
