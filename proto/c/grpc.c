/*
 * grpc.c - see grpc.h.
 *
 * A reader that has handed out a message is as it was left then (n_prefix is 5, message.len is what was announced) until the next
 * call, which begins anew. No other state; any thread, a reader one at a time.
 */
#include "proto/c/grpc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COMPRESSED = 1, TIMEOUT_DIGITS = 8, HOUR_S = 3600 };

#define TIMEOUT_MAX_MS (((int64_t)INT32_MAX + HOUR_S) * 1000)

/* ---- messages ---- */

void hp_grpc_prefix(uint8_t out[HP_GRPC_PREFIX], bool compressed, size_t len)
{
    out[0] = compressed ? COMPRESSED : 0;
    out[1] = (uint8_t)(len >> 24);
    out[2] = (uint8_t)(len >> 16);
    out[3] = (uint8_t)(len >> 8);
    out[4] = (uint8_t)len;
}

void hp_grpc_reader_init(struct hp_grpc_reader *reader, size_t max)
{
    *reader = (struct hp_grpc_reader){.max = max};
}

void hp_grpc_reader_release(struct hp_grpc_reader *reader)
{
    hp_buf_release(&reader->message);
    reader->n_prefix = 0;
}

static bool handed_out(const struct hp_grpc_reader *reader)
{
    return reader->n_prefix == HP_GRPC_PREFIX && reader->message.len == reader->announced;
}

bool hp_grpc_reader_amid(const struct hp_grpc_reader *reader)
{
    return reader->n_prefix > 0 && !handed_out(reader);
}

static enum hp_grpc_read read_prefix(struct hp_grpc_reader *reader, const uint8_t **data, size_t *len)
{
    const uint8_t *prefix = reader->prefix;
    size_t n = HP_GRPC_PREFIX - reader->n_prefix;

    if (n > *len)
        n = *len;
    memcpy(reader->prefix + reader->n_prefix, *data, n);
    reader->n_prefix += n;
    *data += n;
    *len -= n;
    if (prefix[0] > COMPRESSED)
        return HP_GRPC_BAD_FLAG;
    if (reader->n_prefix < HP_GRPC_PREFIX)
        return HP_GRPC_MORE;
    reader->compressed = prefix[0] == COMPRESSED;
    reader->announced = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
    return reader->announced > reader->max ? HP_GRPC_TOO_LARGE : HP_GRPC_MESSAGE;
}

enum hp_grpc_read hp_grpc_read(struct hp_grpc_reader *reader, const uint8_t **data, size_t *len)
{
    size_t n;

    if (handed_out(reader)) {
        reader->n_prefix = 0;
        hp_buf_reset(&reader->message);
    }
    if (*len == 0)
        return HP_GRPC_MORE;
    if (reader->n_prefix < HP_GRPC_PREFIX) {
        enum hp_grpc_read read = read_prefix(reader, data, len);

        if (read != HP_GRPC_MESSAGE)
            return read;
    }
    n = reader->announced - reader->message.len;
    if (n > *len)
        n = *len;
    hp_buf_add(&reader->message, *data, n);
    if (reader->message.failed)
        return HP_GRPC_NO_MEMORY;
    *data += n;
    *len -= n;
    return handed_out(reader) ? HP_GRPC_MESSAGE : HP_GRPC_MORE;
}

/* ---- timeouts ---- */

bool hp_grpc_timeout_parse(const char *text, int64_t *ms)
{
    int64_t value = 0, in_ms;
    int digits = 0;

    for (; *text >= '0' && *text <= '9'; text++, digits++) {
        if (digits == TIMEOUT_DIGITS)
            return false;
        value = value * 10 + (*text - '0');
    }
    if (digits == 0 || !text[0] || text[1])
        return false;
    switch (text[0]) {
    case 'H':
        in_ms = value * HOUR_S * 1000;
        break;
    case 'M':
        in_ms = value * 60 * 1000;
        break;
    case 'S':
        in_ms = value * 1000;
        break;
    case 'm':
        in_ms = value;
        break;
    case 'u':
        in_ms = (value + 999) / 1000;
        break;
    case 'n':
        in_ms = (value + 999999) / 1000000;
        break;
    default:
        return false;
    }
    *ms = in_ms < TIMEOUT_MAX_MS ? in_ms : TIMEOUT_MAX_MS;
    return true;
}

void hp_grpc_timeout_format(int64_t ms, char out[12])
{
    const int64_t max = 99999999;

    if (ms < 0)
        ms = 0;
    if (ms > max * 1000) /* three years: no finer than its unit needs, but never more than it can say */
        snprintf(out, 12, "%" PRId64 "S", max);
    else if (ms > max)
        snprintf(out, 12, "%" PRId64 "S", (ms + 999) / 1000);
    else
        snprintf(out, 12, "%" PRId64 "m", ms);
}

/* ---- percent encoding ---- */

void hp_percent_encode(struct hp_buf *out, const char *text, size_t len)
{
    static const char digits[] = "0123456789ABCDEF";

    if (!hp_buf_reserve(out, len))
        return;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool edge = i == 0 || i + 1 == len; /* a header's value loses the spaces around it */

        if (c > (edge ? 0x20 : 0x1F) && c < 0x7F && c != '%') {
            hp_buf_addch(out, (char)c);
        } else {
            char code[3] = {'%', digits[c >> 4], digits[c & 15]};

            hp_buf_add(out, code, sizeof code);
        }
    }
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

void hp_percent_decode(struct hp_buf *out, const char *text, size_t len)
{
    if (!hp_buf_reserve(out, len))
        return;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '%' && len - i > 2 && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
            hp_buf_addch(out, (char)(hex(text[i + 1]) << 4 | hex(text[i + 2])));
            i += 2;
        } else {
            hp_buf_addch(out, text[i]);
        }
    }
}

/* ---- HTTP ---- */

enum hp_code hp_grpc_code_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return HP_INTERNAL;
    case 401:
        return HP_UNAUTHENTICATED;
    case 403:
        return HP_PERMISSION_DENIED;
    case 404:
        return HP_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return HP_UNAVAILABLE;
    default:
        return HP_UNKNOWN;
    }
}
