/*
 * utf8.c - valid UTF-8 (RFC 3629), names, and text made safe to show.
 *
 * No state; any thread.
 */
#include "proto/c/utf8.h"

#include <stdio.h>
#include <string.h>

#include "proto/c/wire.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define ELLIPSIS    "\xE2\x80\xA6" /* U+2026 */

static bool is_tail(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

size_t hp_utf8_next(const void *text, size_t len, uint32_t *point)
{
    const uint8_t *p = text;
    uint32_t value;

    if (len == 0)
        return 0;
    if (p[0] < 0x80) {
        if (point)
            *point = p[0];
        return 1;
    }
    if (p[0] < 0xC2) /* a tail byte, or an overlong form of ASCII */
        return 0;
    if (p[0] < 0xE0) {
        if (len < 2 || !is_tail(p[1]))
            return 0;
        if (point)
            *point = (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
        return 2;
    }
    if (p[0] < 0xF0) {
        if (len < 3 || !is_tail(p[1]) || !is_tail(p[2]))
            return 0;
        value = (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
        if (value < 0x800 || (value >= 0xD800 && value <= 0xDFFF))
            return 0;
        if (point)
            *point = value;
        return 3;
    }
    if (p[0] > 0xF4 || len < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]))
        return 0;
    value = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    if (value < 0x10000 || value > 0x10FFFF)
        return 0;
    if (point)
        *point = value;
    return 4;
}

bool hp_utf8_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point <= 0x9F);
}

bool hp_utf8_valid(const void *text, size_t len)
{
    const uint8_t *p = text;

    while (len > 0) {
        uint64_t eight;
        size_t n;

        /* Most text is ASCII: eight bytes at a time. */
        if (len >= sizeof eight) {
            memcpy(&eight, p, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                p += sizeof eight;
                len -= sizeof eight;
                continue;
            }
        }
        n = hp_utf8_next(p, len, NULL);
        if (n == 0)
            return false;
        p += n;
        len -= n;
    }
    return true;
}

void hp_utf8_copy(char *to, size_t size, const char *text, size_t len)
{
    size_t used = 0, fits = 0; /* fits: where "…" can still be put behind */

    while (len > 0) {
        size_t n = hp_utf8_next(text, len, NULL);
        const char *piece = n ? text : REPLACEMENT;
        size_t piece_len = n ? n : strlen(REPLACEMENT);

        if (used + strlen(ELLIPSIS) + 1 <= size)
            fits = used;
        if (used + piece_len + 1 > size) {
            memcpy(to + fits, ELLIPSIS, sizeof ELLIPSIS);
            return;
        }
        memcpy(to + used, piece, piece_len);
        used += piece_len;
        text += n ? n : 1;
        len -= n ? n : 1;
    }
    to[used] = '\0';
}

/* The escaped form of what stands at `text` in `piece` (at least 5 bytes); how many bytes it stood for is returned. */
static size_t escape_one(char *piece, const char *text, size_t len)
{
    uint32_t point = 0;
    size_t n = hp_utf8_next(text, len, &point);

    if (n == 0 || (n == 1 && hp_utf8_control(point))) {
        const char *found = strchr("\nn\rr\tt", text[0]);

        if (text[0] && found)
            snprintf(piece, 5, "\\%c", found[1]);
        else
            snprintf(piece, 5, "\\x%02x", (unsigned)(uint8_t)text[0]);
        return 1;
    }
    if (hp_utf8_control(point)) { /* U+0080–U+009F: its two bytes, one after the other */
        snprintf(piece, 5, "\\x%02x", (unsigned)(uint8_t)text[0]);
        return 1;
    }
    if (point == '"' || point == '\\') {
        snprintf(piece, 5, "\\%c", (int)point);
        return 1;
    }
    memcpy(piece, text, n);
    piece[n] = '\0';
    return n;
}

void hp_utf8_escape(char *to, size_t size, const char *text, size_t len)
{
    char piece[8], end[40];
    size_t used = 0, fits = 0, at = 0;
    size_t end_len = (size_t)snprintf(end, sizeof end, ELLIPSIS " (%zu bytes)", len);

    while (at < len) {
        size_t n = escape_one(piece, text + at, len - at);
        size_t piece_len = strlen(piece);

        if (used + end_len + 1 <= size)
            fits = used;
        if (used + piece_len + 1 > size) {
            memcpy(to + fits, end, end_len + 1);
            return;
        }
        memcpy(to + used, piece, piece_len);
        used += piece_len;
        at += n;
    }
    to[used] = '\0';
}

bool hp_check_name(const char *field, const char *name, struct hp_status *status)
{
    enum { NAME_MAX_BYTES = 256 };
    static const char limit[] = "1 to 256 bytes of UTF-8 without control characters";
    size_t len = name ? strlen(name) : 0;
    size_t at = 0;

    if (len == 0 || len > NAME_MAX_BYTES) {
        hp_status_bad_field(status, HP_R_LIMIT, field, name ? name : "", len, limit);
        return false;
    }
    while (at < len) {
        uint32_t point = 0;
        size_t n;

        if (name[at] >= 0x20 && name[at] < 0x7F) { /* most of most names */
            at++;
            continue;
        }
        n = hp_utf8_next(name + at, len - at, &point);
        if (n == 0 || hp_utf8_control(point)) {
            hp_status_bad_field(status, HP_R_MALFORMED, field, name, len, limit);
            return false;
        }
        at += n;
    }
    return true;
}
