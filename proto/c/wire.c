/*
 * wire.c - the check of serialized protobuf, driven by descriptors.
 *
 * It accepts a subset of what protobuf-c 1.4.1 unpacks, so that what passes cannot fail, run wild or be misread there. It
 * copies nothing, and allocates only to name what it refuses; it recurses once a level, HP_WIRE_DEPTH at most. Where a field stands
 * is worked out only when it is refused, by walking its parents again. No state; any thread.
 */
#include "proto/c/wire.h"

#include <stdio.h>
#include <string.h>

#include "proto/c/utf8.h"

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

enum { FIELDS_MAX = 256 }; /* of one message type */

/* calls; of each: itself, its four fields, 16 entries of metadata with key and value, and some unknown ones */
const struct hp_wire_limits hp_wire_envelope = {HP_ENVELOPE_MAX, HP_ENVELOPE_CALLS *(5 + 16 * 3 + 3)};
const struct hp_wire_limits hp_wire_request = {HP_REQUEST_MAX, HP_WIRE_ELEMENTS};
const struct hp_wire_limits hp_wire_reply = {HP_ENVELOPE_MAX, 1 << 19};

/* One field as it stands on the wire. */
struct record {
    uint32_t number;
    enum wire_type type;
    const uint8_t *data; /* behind the length, if there is one */
    size_t len;
};

/* One level of the descent, for the path. */
struct frame {
    const struct frame *up;
    const ProtobufCMessageDescriptor *type;
    const uint8_t *start, *end;
    const uint8_t *at;              /* where the field being looked at begins */
    uint32_t number;                /* that field's; 0 = not known */
    size_t packed;                  /* the element of a packed field */
    uint64_t seen[FIELDS_MAX / 64]; /* singular submessages that have come */
};

struct check {
    const struct hp_wire_limits *limits;
    size_t elements;
    struct hp_status *status;
};

/* The bytes of the varint at `data`, at most `max`; 0 if it doesn't end. */
static size_t varint_len(const uint8_t *data, size_t len, size_t max)
{
    for (size_t i = 0; i < len && i < max; i++)
        if (!(data[i] & 0x80))
            return i + 1;
    return 0;
}

/* Tags and lengths: at most five bytes, as protobuf-c takes them. */
static size_t read_varint32(const uint8_t *data, size_t len, uint32_t *value)
{
    size_t n = varint_len(data, len, 5);
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum |= (uint64_t)(data[i] & 0x7F) << (7 * i);
    if (sum > UINT32_MAX)
        return 0;
    *value = (uint32_t)sum;
    return n;
}

/* Reads the field at *at and moves behind it. NULL, or what is wanted and isn't there. */
static const char *read_record(const uint8_t **at, const uint8_t *end, struct record *record)
{
    static const char cut_off[] = "a whole field, not one that is cut off";
    const uint8_t *p = *at;
    uint32_t tag = 0, len = 0;
    size_t n = read_varint32(p, (size_t)(end - p), &tag);

    record->number = 0;
    if (n == 0)
        return "a whole field tag of at most 5 bytes";
    p += n;
    if (tag >> 3 == 0)
        return "a field number above 0";
    record->number = tag >> 3;
    record->type = (enum wire_type)(tag & 7);
    switch (tag & 7) {
    case VARINT:
        n = varint_len(p, (size_t)(end - p), 10);
        if (n == 0)
            return "a whole varint of at most 10 bytes";
        record->len = n;
        break;
    case FIXED64:
        record->len = 8;
        break;
    case FIXED32:
        record->len = 4;
        break;
    case BYTES:
        n = read_varint32(p, (size_t)(end - p), &len);
        if (n == 0)
            return "a whole length of at most 5 bytes";
        p += n;
        record->len = len;
        break;
    default:
        return "a wire type of 0, 1, 2 or 5 (groups are not supported)";
    }
    if (record->len > (size_t)(end - p))
        return cut_off;
    record->data = p;
    *at = p + record->len;
    return NULL;
}

static bool is_packable(ProtobufCType type)
{
    return type != PROTOBUF_C_TYPE_STRING && type != PROTOBUF_C_TYPE_BYTES && type != PROTOBUF_C_TYPE_MESSAGE;
}

static enum wire_type wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return BYTES;
    default:
        return VARINT;
    }
}

/* How many elements a packed field has (as far as it is well-formed). */
static size_t packed_count(ProtobufCType type, const uint8_t *data, size_t len)
{
    size_t n = 0;

    if (wire_type_of(type) == FIXED32)
        return len / 4;
    if (wire_type_of(type) == FIXED64)
        return len / 8;
    for (size_t i = 0; i < len; i++)
        n += !(data[i] & 0x80);
    return n;
}

/* ---- where it is, once it is refused ---- */

/* The index of the element at frame->at among those of its repeated field. */
static size_t index_at(const struct frame *frame, const ProtobufCFieldDescriptor *field)
{
    const uint8_t *at = frame->start;
    struct record record;
    size_t n = frame->packed;

    while (at < frame->at && !read_record(&at, frame->end, &record)) {
        if (record.number != field->id)
            continue;
        n += record.type == BYTES && is_packable(field->type) ? packed_count(field->type, record.data, record.len) : 1;
    }
    return n;
}

static void add_step(struct hp_buf *path, const struct frame *frame)
{
    const ProtobufCFieldDescriptor *field;

    if (frame->number == 0)
        return;
    if (path->len)
        hp_buf_addch(path, '.');
    field = protobuf_c_message_descriptor_get_field(frame->type, frame->number);
    if (!field)
        hp_buf_printf(path, "%u", frame->number);
    else if (field->label == PROTOBUF_C_LABEL_REPEATED)
        hp_buf_printf(path, "%s[%zu]", field->name, index_at(frame, field));
    else
        hp_buf_addstr(path, field->name);
}

static bool refuse(const struct check *check, const struct frame *frame, enum hp_reason reason, const void *value, size_t len,
                   const char *wanted)
{
    const struct frame *steps[HP_WIRE_DEPTH];
    const char *root = frame->type->short_name;
    struct hp_buf path = HP_BUF_INIT;
    size_t n = 0;

    for (const struct frame *f = frame; f; f = f->up) {
        steps[n++] = f;
        root = f->type->short_name;
    }
    while (n > 0)
        add_step(&path, steps[--n]);
    if (path.len == 0) /* the message itself */
        hp_buf_addstr(&path, root);
    hp_status_bad_field(check->status, reason, path.data ? (const char *)path.data : root, value, len, wanted);
    hp_buf_release(&path);
    return false;
}

static bool malformed(const struct check *check, const struct frame *frame, const char *wanted)
{
    return refuse(check, frame, HP_R_MALFORMED, NULL, 0, wanted);
}

static bool count(struct check *check, const struct frame *frame, size_t n)
{
    char wanted[80];

    if (n <= check->limits->elements - check->elements) {
        check->elements += n;
        return true;
    }
    snprintf(wanted, sizeof wanted, "at most %zu fields and elements in one message", check->limits->elements);
    return refuse(check, frame, HP_R_LIMIT, NULL, 0, wanted);
}

/* ---- the descent ---- */

/* NOLINTBEGIN(misc-no-recursion): once a level, HP_WIRE_DEPTH at most */

static bool check_message(struct check *check, const struct frame *up, unsigned depth, const ProtobufCMessageDescriptor *type,
                          const uint8_t *data, size_t len);

static bool check_packed(struct check *check, struct frame *frame, const ProtobufCFieldDescriptor *field,
                         const struct record *record)
{
    enum wire_type wire = wire_type_of(field->type);
    size_t size = wire == FIXED64 ? 8 : 4;
    const uint8_t *p = record->data, *end = record->data + record->len;

    if (!count(check, frame, packed_count(field->type, record->data, record->len)))
        return false;
    if (wire != VARINT)
        return record->len % size == 0 || malformed(check, frame, "packed elements of the same size");
    for (frame->packed = 0; p < end; frame->packed++) {
        size_t n = varint_len(p, (size_t)(end - p), 10);

        if (n == 0)
            return malformed(check, frame, "a whole varint of at most 10 bytes");
        if (field->type == PROTOBUF_C_TYPE_BOOL && (n > 1 || p[0] > 1)) /* protobuf-c takes one byte an element */
            return malformed(check, frame, "a packed bool of one byte, 0 or 1");
        p += n;
    }
    frame->packed = 0;
    return true;
}

static bool check_string(struct check *check, const struct frame *frame, const struct record *record)
{
    if (memchr(record->data, '\0', record->len) || !hp_utf8_valid(record->data, record->len))
        return refuse(check, frame, HP_R_MALFORMED, record->data, record->len, "valid UTF-8 without NUL");
    return true;
}

static bool check_submessage(struct check *check, struct frame *frame, unsigned depth, const ProtobufCFieldDescriptor *field,
                             const struct record *record)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        size_t index = (size_t)(field - frame->type->fields);
        uint64_t bit = UINT64_C(1) << (index % 64);

        if (frame->seen[index / 64] & bit)
            return malformed(check, frame, "this message once, not repeated");
        frame->seen[index / 64] |= bit;
    }
    if (depth >= HP_WIRE_DEPTH)
        return refuse(check, frame, HP_R_LIMIT, NULL, 0, "at most 8 levels of messages");
    return check_message(check, frame, depth + 1, field->descriptor, record->data, record->len);
}

static bool check_field(struct check *check, struct frame *frame, unsigned depth, const ProtobufCFieldDescriptor *field,
                        const struct record *record)
{
    if (record->type != wire_type_of(field->type)) {
        char wanted[64];

        if (record->type == BYTES && field->label == PROTOBUF_C_LABEL_REPEATED && is_packable(field->type))
            return check_packed(check, frame, field, record);
        snprintf(wanted, sizeof wanted, "wire type %d for this field, not %d", wire_type_of(field->type), record->type);
        return malformed(check, frame, wanted);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return check_string(check, frame, record);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return check_submessage(check, frame, depth, field, record);
    return true;
}

static bool check_message(struct check *check, const struct frame *up, unsigned depth, const ProtobufCMessageDescriptor *type,
                          const uint8_t *data, size_t len)
{
    struct frame frame = {.up = up, .type = type, .start = data, .end = data + len, .at = data};
    const uint8_t *at = data;

    if (type->n_fields > FIELDS_MAX)
        return malformed(check, &frame, "a type of at most 256 fields");
    while (at < frame.end) {
        const ProtobufCFieldDescriptor *field;
        struct record record;
        const char *wanted;

        frame.at = at;
        wanted = read_record(&at, frame.end, &record);
        frame.number = record.number;
        if (wanted)
            return malformed(check, &frame, wanted);
        if (!count(check, &frame, 1))
            return false;
        field = protobuf_c_message_descriptor_get_field(type, record.number);
        if (field && !check_field(check, &frame, depth, field, &record))
            return false;
    }
    return true;
}

/* NOLINTEND(misc-no-recursion) */

_Static_assert(HP_WIRE_DEPTH == 8, "the message in check_submessage names it");

bool hp_wire_check_within(const struct hp_wire_limits *limits, const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                          struct hp_status *status)
{
    struct check check = {.limits = limits, .status = status};

    if (len > limits->bytes) {
        char value[32], wanted[48];
        int n = snprintf(value, sizeof value, "%zu bytes", len);

        snprintf(wanted, sizeof wanted, "at most %zu bytes", limits->bytes);
        hp_status_bad_field(status, HP_R_LIMIT, type->short_name, value, (size_t)n, wanted);
        return false;
    }
    return check_message(&check, NULL, 1, type, len ? data : (const void *)"", len);
}

bool hp_wire_check(const ProtobufCMessageDescriptor *type, const void *data, size_t len, struct hp_status *status)
{
    return hp_wire_check_within(&hp_wire_request, type, data, len, status);
}
