/*
 * base64.c - see base64.h.
 */
#include "proto/c/base64.h"

#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The text of less than three bytes. Returns its end. */
static uint8_t *encode_rest(uint8_t *to, const uint8_t *in, size_t len, bool padded)
{
    uint32_t group = (uint32_t)in[0] << 16 | (len > 1 ? (uint32_t)in[1] << 8 : 0);
    *to++ = (uint8_t)digits[group >> 18];
    *to++ = (uint8_t)digits[group >> 12 & 63];
    if (len > 1)
        *to++ = (uint8_t)digits[group >> 6 & 63];
    for (size_t i = len; padded && i < 3; i++)
        *to++ = '=';
    return to;
}

static void encode(struct hp_buf *out, const uint8_t *in, size_t len, bool padded)
{
    if (!hp_buf_reserve(out, len / 3 * 4 + 4))
        return;
    uint8_t *to = out->data + out->len;
    for (; len >= 3; in += 3, len -= 3, to += 4) {
        uint32_t group = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        to[0] = (uint8_t)digits[group >> 18];
        to[1] = (uint8_t)digits[group >> 12 & 63];
        to[2] = (uint8_t)digits[group >> 6 & 63];
        to[3] = (uint8_t)digits[group & 63];
    }
    if (len)
        to = encode_rest(to, in, len, padded);
    out->len = (size_t)(to - out->data);
    *to = '\0';
}

void hp_base64_encode(struct hp_buf *out, const void *data, size_t len)
{
    encode(out, data, len, false);
}

void hp_base64_encode_padded(struct hp_buf *out, const void *data, size_t len)
{
    encode(out, data, len, true);
}

/* What each character stands for, and one more; 0 is none. */
static const uint8_t values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,  ['I'] = 9,  ['J'] = 10,
    ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20,
    ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30,
    ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50,
    ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60,
    ['8'] = 61, ['9'] = 62, ['+'] = 63, ['-'] = 63, ['/'] = 64, ['_'] = 64,
};

/* Up to four characters, as the bits of so many. False: some aren't of the alphabet. */
static bool decode_group(const uint8_t *text, size_t n, uint32_t *group)
{
    bool good = true;
    *group = 0;
    for (size_t i = 0; i < n; i++) {
        good &= values[text[i]] != 0;
        *group = *group << 6 | ((values[text[i]] - 1U) & 63);
    }
    return good;
}

bool hp_base64_decode(struct hp_buf *out, const char *text, size_t len)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t n = len;
    uint32_t group;
    while (n && len - n < 2 && text[n - 1] == '=')
        n--;
    if (n % 4 == 1 || (n < len && len % 4 != 0) || !hp_buf_reserve(out, n / 4 * 3 + 3))
        return false;
    uint8_t *to = out->data + out->len;
    bool good = true;
    for (; n >= 4 && good; n -= 4, at += 4) {
        good = decode_group(at, 4, &group);
        *to++ = (uint8_t)(group >> 16);
        *to++ = (uint8_t)(group >> 8);
        *to++ = (uint8_t)group;
    }
    if (good && n) {
        good = decode_group(at, n, &group);
        *to++ = (uint8_t)(n == 3 ? group >> 10 : group >> 4);
        if (n == 3)
            *to++ = (uint8_t)(group >> 2);
    }
    if (good)
        out->len = (size_t)(to - out->data);
    out->data[out->len] = '\0';
    return good;
}
