/*
 * json_wire.c - see json_wire.h. No state.
 */
#include "net/json_wire.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the wire ---- */

enum json_wire json_wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return JSON_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return JSON_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return JSON_WIRE_BYTES;
    default:
        return JSON_WIRE_VARINT;
    }
}

static size_t put_varint(uint8_t out[10], uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

void json_wire_varint(struct hp_buf *out, uint64_t value)
{
    uint8_t bytes[10];
    hp_buf_add(out, bytes, put_varint(bytes, value));
}

void json_wire_tag(struct hp_buf *out, uint32_t field, enum json_wire type)
{
    json_wire_varint(out, (uint64_t)field << 3 | type);
}

static void put_fixed(struct hp_buf *out, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    hp_buf_add(out, bytes, size);
}

void json_wire_scalar(struct hp_buf *out, ProtobufCType type, uint64_t bits)
{
    if (json_wire_type(type) == JSON_WIRE_FIXED64)
        put_fixed(out, bits, 8);
    else if (json_wire_type(type) == JSON_WIRE_FIXED32)
        put_fixed(out, bits, 4);
    else if (type == PROTOBUF_C_TYPE_SINT32 || type == PROTOBUF_C_TYPE_SINT64)
        json_wire_varint(out, bits << 1 ^ (uint64_t)((int64_t)bits >> 63));
    else
        json_wire_varint(out, bits);
}

void json_wire_close(struct hp_buf *out, size_t start)
{
    uint8_t bytes[10];
    size_t len = out->len - start, n = put_varint(bytes, len);
    if (!hp_buf_reserve(out, n))
        return;
    memmove(out->data + start + n, out->data + start, len);
    memcpy(out->data + start, bytes, n);
    out->len += n;
    out->data[out->len] = '\0';
}

/* ---- integers ---- */

enum range { OF_INT32, OF_UINT32, OF_INT64, OF_UINT64 };

static enum range range_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return OF_UINT32;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return OF_INT64;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return OF_UINT64;
    default: /* enums too */
        return OF_INT32;
    }
}

const char *json_wire_range(ProtobufCType type)
{
    static const char *const texts[] = {
        "a whole number from -2147483648 to 2147483647",
        "a whole number from 0 to 4294967295",
        "a whole number of 64 bits, or such a number as a string",
        "a whole number of 64 bits, not negative, or such a number as a string",
    };
    return texts[range_of(type)];
}

bool json_wire_integer(ProtobufCType type, bool negative, uint64_t magnitude, uint64_t *bits)
{
    static const uint64_t above[] = {INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    static const uint64_t below[] = {UINT64_C(1) << 31, 0, UINT64_C(1) << 63, 0};
    if (magnitude > (negative ? below : above)[range_of(type)])
        return false;
    *bits = negative ? 0 - magnitude : magnitude;
    return true;
}

bool json_wire_integral(ProtobufCType type, double value, uint64_t *bits)
{
    double magnitude = fabs(value);
    if (!(magnitude < 0x1p64) || magnitude != floor(magnitude))
        return false;
    return json_wire_integer(type, value < 0, (uint64_t)magnitude, bits);
}

/* The length of the JSON number that text begins with; 0 = none. */
static size_t number_len(const char *text, bool *whole)
{
    const char *p = text + (text[0] == '-');
    size_t n = strspn(p, "0123456789");
    if (n == 0 || (n > 1 && p[0] == '0'))
        return 0;
    p += n;
    *whole = true;
    if (p[0] == '.') {
        n = strspn(p + 1, "0123456789");
        if (n == 0)
            return 0;
        p += n + 1;
        *whole = false;
    }
    if (p[0] == 'e' || p[0] == 'E') {
        const char *digits = p + 1 + (p[1] == '+' || p[1] == '-');
        n = strspn(digits, "0123456789");
        if (n == 0)
            return 0;
        p = digits + n;
        *whole = false;
    }
    return (size_t)(p - text);
}

bool json_wire_parse_integer(ProtobufCType type, const char *text, uint64_t *bits)
{
    bool whole, negative = text[0] == '-';
    uint64_t magnitude = 0;
    size_t len = number_len(text, &whole);
    if (len == 0 || text[len])
        return false;
    if (!whole)
        return json_wire_integral(type, strtod(text, NULL), bits);
    for (size_t i = negative; i < len; i++)
        if (__builtin_mul_overflow(magnitude, 10, &magnitude) ||
            __builtin_add_overflow(magnitude, (uint64_t)(text[i] - '0'), &magnitude))
            return false;
    return json_wire_integer(type, negative && magnitude, magnitude, bits);
}

/* ---- floats ---- */

static void as_bits(ProtobufCType type, double value, uint64_t *bits)
{
    float single = (float)value;
    uint32_t narrow;
    if (type == PROTOBUF_C_TYPE_FLOAT) {
        memcpy(&narrow, &single, sizeof(narrow));
        *bits = narrow;
    } else {
        memcpy(bits, &value, sizeof(*bits));
    }
}

bool json_wire_real(ProtobufCType type, double value, uint64_t *bits)
{
    if (!isfinite(value) || (type == PROTOBUF_C_TYPE_FLOAT && fabs(value) > (double)FLT_MAX))
        return false;
    as_bits(type, value, bits);
    return true;
}

bool json_wire_parse_real(ProtobufCType type, const char *text, uint64_t *bits)
{
    bool whole;
    size_t len;
    if (!strcmp(text, "NaN"))
        as_bits(type, (double)NAN, bits);
    else if (!strcmp(text, "Infinity"))
        as_bits(type, (double)INFINITY, bits);
    else if (!strcmp(text, "-Infinity"))
        as_bits(type, -(double)INFINITY, bits);
    else
        return (len = number_len(text, &whole)) > 0 && !text[len] && json_wire_real(type, strtod(text, NULL), bits);
    return true;
}

/* ---- durations ---- */

bool json_wire_parse_duration(const char *text, int64_t *seconds, int32_t *nanos)
{
    enum { NANO_DIGITS = 9, SECOND_DIGITS = 12 };
    const int64_t most = INT64_C(315576000000); /* 10,000 years */
    bool negative = text[0] == '-';
    const char *p = text + negative;
    size_t n = strspn(p, "0123456789"), digits = 0;
    int64_t s = 0;
    int32_t ns = 0;
    if (n == 0 || n > SECOND_DIGITS)
        return false;
    for (size_t i = 0; i < n; i++)
        s = s * 10 + (p[i] - '0');
    p += n;
    if (p[0] == '.') {
        digits = strspn(++p, "0123456789");
        if (digits == 0 || digits > NANO_DIGITS)
            return false;
        for (size_t i = 0; i < NANO_DIGITS; i++)
            ns = ns * 10 + (i < digits ? p[i] - '0' : 0);
        p += digits;
    }
    if (strcmp(p, "s") != 0 || s > most || (s == most && ns))
        return false;
    *seconds = negative ? -s : s;
    *nanos = negative ? -ns : ns;
    return true;
}
