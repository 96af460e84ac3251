/*
 * json_read.c - see json_read.h: jansson's values, walked by a message's descriptor, written as protobuf's wire format.
 *
 * Before jansson sees the text, its values and levels are counted, since each costs it about a hundred bytes. It recurses once a
 * level of messages, HP_WIRE_DEPTH at most. No state.
 */
#include "net/json_read.h"

#include <stdio.h>
#include <string.h>

#include "net/json_path.h"
#include "net/json_wire.h"
#include "proto/c/grpc.h"
#include "proto/c/json.h"
#include "proto/c/wire.h"

enum { FIELDS_MAX = 256 };

/* ---- scalars ---- */

static bool integer_bits(ProtobufCType type, const json_t *value, uint64_t *bits)
{
    if (json_is_integer(value)) {
        json_int_t number = json_integer_value(value);
        return json_wire_integer(type, number < 0, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, bits);
    }
    if (json_is_real(value))
        return json_wire_integral(type, json_real_value(value), bits);
    return json_is_string(value) && json_wire_parse_integer(type, json_string_value(value), bits);
}

static bool read_enum(const struct json_reading *r, const struct json_step *at, const ProtobufCFieldDescriptor *field,
                      const json_t *value, uint64_t *bits)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char wanted[96];
    for (unsigned i = 0; json_is_string(value) && i < type->n_values; i++) {
        if (!strcmp(type->values[i].name, json_string_value(value))) {
            *bits = (uint64_t)(int64_t)type->values[i].value;
            return true;
        }
    }
    if (integer_bits(field->type, value, bits))
        return true;
    snprintf(wanted, sizeof(wanted), "a name or number of %s", type->name);
    return json_malformed(r, at, value, wanted);
}

/* Everything but strings, bytes and messages. */
static bool read_bits(const struct json_reading *r, const struct json_step *at, const ProtobufCFieldDescriptor *field,
                      const json_t *value, uint64_t *bits)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        *bits = json_is_true(value);
        return json_is_boolean(value) || json_malformed(r, at, value, "true or false");
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(r, at, field, value, bits);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        if (json_is_number(value) ? json_wire_real(field->type, json_number_value(value), bits)
                                  : json_is_string(value) && json_wire_parse_real(field->type, json_string_value(value), bits))
            return true;
        return json_malformed(r, at, value, "a number within range, \"NaN\", \"Infinity\" or \"-Infinity\"");
    default:
        return integer_bits(field->type, value, bits) || json_malformed(r, at, value, json_wire_range(field->type));
    }
}

/* NOLINTBEGIN(misc-no-recursion): once a level of messages, HP_WIRE_DEPTH at most */

static bool read_message(const struct json_reading *r, const struct json_step *at, unsigned depth,
                         const ProtobufCMessageDescriptor *type, const json_t *value);

/* Strings, bytes and messages, with their length before them. */
static bool read_bytes(const struct json_reading *r, const struct json_step *at, unsigned depth,
                       const ProtobufCFieldDescriptor *field, const json_t *value)
{
    size_t start = r->out->len;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (!read_message(r, at, depth + 1, field->descriptor, value))
            return false;
    } else if (!json_is_string(value)) {
        return json_malformed(r, at, value, field->type == PROTOBUF_C_TYPE_STRING ? "a string" : "a string of base64");
    } else if (field->type == PROTOBUF_C_TYPE_STRING) {
        hp_buf_add(r->out, json_string_value(value), json_string_length(value));
    } else if (!hp_base64_decode(r->out, json_string_value(value), json_string_length(value)) && !r->out->failed) {
        return json_malformed(r, at, value, "a string of base64");
    }
    json_wire_close(r->out, start);
    return true;
}

/* ---- fields ---- */

/* A field that has one value; `always`: also if that is its default. */
static bool read_single(const struct json_reading *r, const struct json_step *at, unsigned depth,
                        const ProtobufCFieldDescriptor *field, const json_t *value, bool always)
{
    size_t start = r->out->len;
    uint64_t bits = 0;
    if (json_wire_type(field->type) != JSON_WIRE_BYTES) {
        if (!read_bits(r, at, field, value, &bits))
            return false;
        if (bits || always) {
            json_wire_tag(r->out, field->id, json_wire_type(field->type));
            json_wire_scalar(r->out, field->type, bits);
        }
        return true;
    }
    json_wire_tag(r->out, field->id, JSON_WIRE_BYTES);
    size_t tagged = r->out->len;
    if (!read_bytes(r, at, depth, field, value))
        return false;
    if (!always && field->type != PROTOBUF_C_TYPE_MESSAGE && r->out->len == tagged + 1)
        r->out->len = start; /* empty */
    return true;
}

static bool read_array(const struct json_reading *r, const struct json_step *at, unsigned depth,
                       const ProtobufCFieldDescriptor *field, const json_t *value)
{
    bool packed = json_wire_type(field->type) != JSON_WIRE_BYTES;
    struct json_step element = {.up = at};
    size_t start = 0;
    if (!json_is_array(value))
        return json_malformed(r, at, value, "an array");
    if (json_array_size(value) == 0)
        return true;
    if (packed) {
        json_wire_tag(r->out, field->id, JSON_WIRE_BYTES);
        start = r->out->len;
    }
    for (; element.index < json_array_size(value); element.index++) {
        const json_t *one = json_array_get(value, element.index);
        uint64_t bits = 0;
        if (!packed)
            json_wire_tag(r->out, field->id, JSON_WIRE_BYTES);
        if (packed ? !read_bits(r, &element, field, one, &bits) : !read_bytes(r, &element, depth, field, one))
            return false;
        if (packed)
            json_wire_scalar(r->out, field->type, bits);
    }
    if (packed)
        json_wire_close(r->out, start);
    return true;
}

/* A map's key, which JSON has as text. */
static bool read_key(const struct json_reading *r, const struct json_step *at, const ProtobufCFieldDescriptor *field,
                     const char *key)
{
    uint64_t bits = 0;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        json_wire_tag(r->out, field->id, JSON_WIRE_BYTES);
        json_wire_varint(r->out, strlen(key));
        hp_buf_addstr(r->out, key);
        return true;
    }
    if (field->type == PROTOBUF_C_TYPE_BOOL) {
        bits = !strcmp(key, "true");
        if (!bits && strcmp(key, "false") != 0)
            return json_malformed(r, at, NULL, "a key that is true or false");
    } else if (!json_wire_parse_integer(field->type, key, &bits)) {
        return json_malformed(r, at, NULL, "a key that is a whole number within range");
    }
    json_wire_tag(r->out, field->id, json_wire_type(field->type));
    json_wire_scalar(r->out, field->type, bits);
    return true;
}

static bool read_map(const struct json_reading *r, const struct json_step *at, unsigned depth,
                     const ProtobufCFieldDescriptor *field, const json_t *value)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    const char *key;
    json_t *one;
    if (!json_is_object(value))
        return json_malformed(r, at, value, "an object");
    if (depth + 1 > HP_WIRE_DEPTH)
        return json_refuse(r, at, HP_R_LIMIT, NULL, "at most 8 levels of messages");
    json_object_foreach((json_t *)(uintptr_t)value, key, one)
    {
        struct json_step step = {.up = at, .name = key, .key = true};
        json_wire_tag(r->out, field->id, JSON_WIRE_BYTES);
        size_t start = r->out->len;
        if (!read_key(r, &step, &entry->fields[0], key) || !read_single(r, &step, depth + 1, &entry->fields[1], one, true))
            return false;
        json_wire_close(r->out, start);
    }
    return true;
}

/* ---- messages ---- */

static char upper_case(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* Whether `text` is `name` in lowerCamelCase, as protoc makes json_name. */
static bool is_camel(const char *name, const char *text)
{
    bool upper = false;
    for (; *name; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        if (*text++ != (upper ? upper_case(*name) : *name))
            return false;
        upper = false;
    }
    return !*text;
}

static const ProtobufCFieldDescriptor *field_named(const ProtobufCMessageDescriptor *type, const char *name)
{
    for (unsigned i = 0; i < type->n_fields; i++)
        if (!strcmp(type->fields[i].name, name) || is_camel(type->fields[i].name, name))
            return &type->fields[i];
    return NULL;
}

/* What one object has said so far. */
struct said {
    uint64_t fields[FIELDS_MAX / 64];
    uint64_t oneofs[FIELDS_MAX / 64];
};

static bool say(uint64_t *bits, size_t index)
{
    uint64_t bit = UINT64_C(1) << index % 64, *word = &bits[index / 64];
    bool new = !(*word & bit);
    *word |= bit;
    return new;
}

/* protobuf-c's members of one oneof share the member that says which is set. */
static size_t oneof_of(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field)
{
    size_t i = 0;
    while (!(type->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || type->fields[i].quantifier_offset != field->quantifier_offset)
        i++;
    return i;
}

static bool read_field(const struct json_reading *r, const struct json_step *at, unsigned depth,
                       const ProtobufCMessageDescriptor *type, struct said *said, const char *name, const json_t *value)
{
    const ProtobufCFieldDescriptor *field = field_named(type, name);
    struct json_step step = {.up = at, .name = field ? field->name : name};
    char wanted[128];
    if (!field) {
        snprintf(wanted, sizeof(wanted), "a field of %s", type->name);
        return json_malformed(r, &step, NULL, wanted);
    }
    if (!say(said->fields, (size_t)(field - type->fields)))
        return json_malformed(r, &step, NULL, "the field once, not under both of its names");
    if (json_is_null(value))
        return true;
    bool oneof = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    if (oneof && !say(said->oneofs, oneof_of(type, field)))
        return json_malformed(r, &step, NULL, "one of the fields that exclude each other, not several");
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return read_single(r, &step, depth, field, value, oneof);
    if (hp_json_is_map(field))
        return read_map(r, &step, depth, field, value);
    return read_array(r, &step, depth, field, value);
}

static bool read_duration(const struct json_reading *r, const struct json_step *at, const json_t *value)
{
    int64_t seconds;
    int32_t nanos;
    if (!json_is_string(value) || !json_wire_parse_duration(json_string_value(value), &seconds, &nanos))
        return json_malformed(r, at, value, "a duration such as \"1.5s\"");
    if (seconds) {
        json_wire_tag(r->out, 1, JSON_WIRE_VARINT);
        json_wire_varint(r->out, (uint64_t)seconds);
    }
    if (nanos) {
        json_wire_tag(r->out, 2, JSON_WIRE_VARINT);
        json_wire_varint(r->out, (uint64_t)(int64_t)nanos);
    }
    return true;
}

static bool read_message(const struct json_reading *r, const struct json_step *at, unsigned depth,
                         const ProtobufCMessageDescriptor *type, const json_t *value)
{
    struct said said = {{0}, {0}};
    const char *name;
    json_t *one;
    if (depth > HP_WIRE_DEPTH)
        return json_refuse(r, at, HP_R_LIMIT, NULL, "at most 8 levels of messages");
    if (!strcmp(type->name, "google.protobuf.Duration"))
        return read_duration(r, at, value);
    if (!json_is_object(value) || type->n_fields > FIELDS_MAX)
        return json_malformed(r, at, value, "an object");
    json_object_foreach((json_t *)(uintptr_t)value, name, one)
    {
        if (!read_field(r, at, depth, type, &said, name, one))
            return false;
    }
    return true;
}

/* NOLINTEND(misc-no-recursion) */

_Static_assert(HP_WIRE_DEPTH == 8, "messages above name it");

/* ---- the text ---- */

/* Counts what jansson would have to hold. A text that isn't JSON may be counted wrongly, and is refused by jansson. */
static bool is_bounded(const char *text, size_t len)
{
    const size_t most = 2 * HP_WIRE_ELEMENTS;
    const unsigned deepest = 2 * HP_WIRE_DEPTH + 1; /* each level may be in an array */
    unsigned depth = 0;
    size_t values = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > deepest || ++values > most)
                return false;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == ',' && ++values > most) {
            return false;
        }
    }
    return true;
}

static bool no_json(const struct json_reading *r, const json_error_t *error)
{
    char wanted[sizeof(error->text) + 64];
    if (json_error_code(error) == json_error_out_of_memory) {
        hp_status_set(r->status, HP_R_QUEUE_FULL, "out of memory");
        return false;
    }
    snprintf(wanted, sizeof(wanted), "JSON, but line %d column %d: %s", error->line, error->column, error->text);
    return json_malformed(r, NULL, NULL, wanted);
}

bool net_json_read(const ProtobufCMessageDescriptor *type, const char *text, size_t len, struct hp_buf *out,
                   struct hp_status *status)
{
    struct json_reading r = {.out = out, .status = status, .root = type->short_name};
    json_error_t error;
    if (!is_bounded(text, len))
        return json_refuse(&r, NULL, HP_R_LIMIT, NULL,
                           "at most 20000 fields and elements in one message, and 8 levels of messages");
    json_t *value = json_loadb(len ? text : "", len, JSON_REJECT_DUPLICATES, &error);
    if (!value)
        return no_json(&r, &error);
    bool read = read_message(&r, NULL, 1, type, value);
    json_decref(value);
    if (!read || !out->failed)
        return read;
    if (out->max)
        return json_refuse(&r, NULL, HP_R_LIMIT, NULL, "a message that is not larger than its limit");
    hp_status_set(status, HP_R_QUEUE_FULL, "out of memory");
    return false;
}
