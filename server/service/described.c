/*
 * described.c - see described.h: a walk over google/protobuf/descriptor.proto's wire format.
 *
 * protobuf-c has no use for descriptor.proto (proto2, recursive messages), and a dozen field numbers are all that is needed. The
 * bytes are our own, made by protoc. No state.
 */
#include "service/described.h"

#include <string.h>

#include "proto/c/descriptors.h"

/* Field numbers of descriptor.proto. */
enum {
    SET_FILE = 1,
    NAME = 1, /* of everything that has one */
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2
};

enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };

struct bytes {
    const uint8_t *data;
    size_t len;
};

static uint64_t varint(struct bytes *at)
{
    uint64_t value = 0;
    for (int shift = 0; at->len && shift < 64; shift += 7) {
        uint8_t byte = *at->data++;
        at->len--;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static void skip(struct bytes *at, size_t n)
{
    n = n < at->len ? n : at->len;
    at->data += n;
    at->len -= n;
}

/* The next field of this number, which has a length. False: there is none. */
static bool next(struct bytes *at, uint32_t number, struct bytes *value)
{
    while (at->len) {
        uint64_t tag = varint(at);
        if ((tag & 7) == VARINT) {
            varint(at);
        } else if ((tag & 7) == BYTES) {
            uint64_t len = varint(at);
            *value = (struct bytes){at->data, len < at->len ? (size_t)len : at->len};
            skip(at, value->len);
            if (tag >> 3 == number)
                return true;
        } else {
            skip(at, (tag & 7) == FIXED64 ? 8 : 4);
        }
    }
    return false;
}

static bool field(struct bytes of, uint32_t number, struct bytes *value)
{
    return next(&of, number, value);
}

static bool is(struct bytes text, const char *name)
{
    return strlen(name) == text.len && !memcmp(text.data, name, text.len);
}

/* What is behind "text." in the name; NULL if it doesn't begin so. */
static const char *behind(struct bytes text, const char *name)
{
    if (strncmp(name, (const char *)text.data, text.len) != 0 || name[text.len] != '.')
        return NULL;
    return name + text.len + 1;
}

/* Whether one of the members has this name. */
static bool has(struct bytes of, uint32_t number, const char *name)
{
    struct bytes member, text;
    while (next(&of, number, &member))
        if (field(member, NAME, &text) && is(text, name))
            return true;
    return false;
}

/* An enum's values are named beside it, not within it. */
static bool has_enum(struct bytes of, uint32_t number, const char *name)
{
    struct bytes member;
    if (has(of, number, name))
        return true;
    while (next(&of, number, &member))
        if (has(member, ENUM_VALUE, name))
            return true;
    return false;
}

/* NOLINTBEGIN(misc-no-recursion): once a level of our own declarations */
static bool has_message(struct bytes of, uint32_t number, const char *name)
{
    struct bytes message, text;
    while (next(&of, number, &message)) {
        if (!field(message, NAME, &text))
            continue;
        if (is(text, name))
            return true;
        const char *rest = behind(text, name);
        if (rest && (has(message, MESSAGE_FIELD, rest) || has(message, MESSAGE_ONEOF, rest) ||
                     has_enum(message, MESSAGE_ENUM, rest) || has_message(message, MESSAGE_NESTED, rest)))
            return true;
    }
    return false;
}
/* NOLINTEND(misc-no-recursion) */

static bool has_service(struct bytes of, const char *name)
{
    struct bytes service, text;
    while (next(&of, FILE_SERVICE, &service)) {
        if (!field(service, NAME, &text))
            continue;
        const char *rest = behind(text, name);
        if (is(text, name) || (rest && has(service, SERVICE_METHOD, rest)))
            return true;
    }
    return false;
}

size_t svc_files(struct svc_file files[SVC_FILES_MAX])
{
    struct bytes at = {hp_descriptors, hp_descriptors_len}, file;
    size_t n = 0;
    while (n < SVC_FILES_MAX && next(&at, SET_FILE, &file))
        files[n++] = (struct svc_file){file.data, file.len};
    return n;
}

bool svc_file_is(const struct svc_file *file, const char *name)
{
    struct bytes text;
    return field((struct bytes){file->data, file->len}, NAME, &text) && is(text, name);
}

bool svc_file_declares(const struct svc_file *file, const char *symbol)
{
    struct bytes of = {file->data, file->len}, package;
    const char *name = symbol[0] == '.' ? symbol + 1 : symbol;
    if (field(of, FILE_PACKAGE, &package))
        name = behind(package, name);
    return name && (has_service(of, name) || has_message(of, FILE_MESSAGE, name) || has_enum(of, FILE_ENUM, name));
}

void svc_files_imported(const struct svc_file *files, size_t n, bool *wanted)
{
    for (size_t i = n; i-- > 0;) { /* what a file imports is before it */
        struct bytes at = {files[i].data, files[i].len}, name;
        if (!wanted[i])
            continue;
        while (next(&at, FILE_DEPENDENCY, &name)) {
            for (size_t k = 0; k < i; k++) {
                struct bytes text;
                if (field((struct bytes){files[k].data, files[k].len}, NAME, &text) && text.len == name.len &&
                    !memcmp(text.data, name.data, name.len))
                    wanted[k] = true;
            }
        }
    }
}
