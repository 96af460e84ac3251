/*
 * fields.h - protobuf by hand, as far as a load generator needs it: small messages that are written field by field, and single
 * fields of answers. No memory of its own; what can't be is a fault of the program, which ends (peer.h).
 */
#ifndef HOLDFAST_TESTS_BENCH_FIELDS_H
#define HOLDFAST_TESTS_BENCH_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "grpc.h"
#include "peer.h"

struct message {
    uint8_t bytes[GRPC_MESSAGE_MAX];
    size_t len;
};

static inline void put_varint(struct message *m, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        m->bytes[m->len++] = (uint8_t)(value | 128);
    m->bytes[m->len++] = (uint8_t)value;
}

static inline void put_int(struct message *m, unsigned field, int64_t value)
{
    put_varint(m, field << 3);
    put_varint(m, (uint64_t)value);
}

static inline void put_bytes(struct message *m, unsigned field, const void *data, size_t len)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, len);
    memcpy(m->bytes + m->len, data, len);
    m->len += len;
}

static inline void put_text(struct message *m, unsigned field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

static inline uint64_t get_varint(const uint8_t **at, const uint8_t *end)
{
    uint64_t value = 0;

    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128))
            break;
    }
    return value;
}

/* Field `field`: a number, or the length of bytes, which begin at *bytes (unless that is NULL). 0 if it isn't there; then *bytes is
 * untouched. */
static inline uint64_t get(const uint8_t *data, size_t len, unsigned field, const uint8_t **bytes)
{
    const uint8_t *at = data, *end = data + len;

    while (at < end) {
        const uint64_t tag = get_varint(&at, end), value = get_varint(&at, end);
        if ((tag & 7) != 0 && (tag & 7) != 2)
            peer_die("an answer with wire type %d", (int)(tag & 7));
        if (tag >> 3 == field) {
            if (bytes)
                *bytes = at;
            return value;
        }
        if ((tag & 7) == 2)
            at += value;
    }
    return 0;
}

#endif
