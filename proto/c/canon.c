/*
 * canon.c - see canon.h.
 *
 * One pass, without recursion: values are written to `out` as they are read, and when an object ends, its members, which stand
 * there one after the other, are put into order. Names are compared in their written form, so they are kept nowhere else.
 *
 * Invariants: out->len - the start is what was read of finished values; `members` holds those of the objects that are open, the
 * outermost first; each level knows which of them are its own.
 */
#include "proto/c/canon.h"

#include <stdlib.h>
#include <string.h>

#include "proto/c/canon_number.h"
#include "proto/c/utf8.h"

struct member {
    size_t start, len; /* "name":value in out */
    size_t at;         /* the name in the input */
};

struct level {
    bool object;
    size_t first; /* object: its first member */
};

struct canon {
    const char *json;
    size_t len, at;
    struct hp_buf *out;
    struct hp_buf members; /* struct member, one behind the other */
    struct hp_buf sorted;  /* an object's members in order, before they are copied back */
    struct level levels[HP_CANON_DEPTH];
    int depth;
    struct hp_canon_error error;
};

enum step { FAILED, VALUE /* one must follow */, DONE };

static bool fail(struct canon *canon, const char *text)
{
    canon->error.text = text;
    canon->error.at = canon->at;
    return false;
}

static enum step stop(struct canon *canon, const char *text)
{
    fail(canon, text);
    return FAILED;
}

static bool no_memory(struct canon *canon)
{
    canon->error.no_memory = true;
    return fail(canon, "no memory for its canonical form");
}

/* The byte at `at`, or -1 at the end. */
static int peek(const struct canon *canon)
{
    return canon->at < canon->len ? (unsigned char)canon->json[canon->at] : -1;
}

static int skip_space(struct canon *canon)
{
    int c = peek(canon);

    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        canon->at++;
        c = peek(canon);
    }
    return c;
}

/* ---- strings ---- */

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code unit of \uXXXX at `at`, which is passed; -1 if that isn't there. */
static int32_t read_unit(struct canon *canon)
{
    int32_t unit = 0;

    if (canon->len - canon->at < 6 || canon->json[canon->at] != '\\' || canon->json[canon->at + 1] != 'u')
        return -1;
    for (size_t i = 2; i < 6; i++) {
        const int digit = hex_digit((unsigned char)canon->json[canon->at + i]);

        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    canon->at += 6;
    return unit;
}

static void put_point(struct hp_buf *out, uint32_t point)
{
    uint8_t utf8[4];
    size_t n = 0;

    if (point < 0x80) {
        utf8[n++] = (uint8_t)point;
    } else if (point < 0x800) {
        utf8[n++] = (uint8_t)(0xC0 | point >> 6);
    } else if (point < 0x10000) {
        utf8[n++] = (uint8_t)(0xE0 | point >> 12);
        utf8[n++] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
    } else {
        utf8[n++] = (uint8_t)(0xF0 | point >> 18);
        utf8[n++] = (uint8_t)(0x80 | (point >> 12 & 0x3F));
        utf8[n++] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
    }
    if (point >= 0x80)
        utf8[n++] = (uint8_t)(0x80 | (point & 0x3F));
    hp_buf_add(out, utf8, n);
}

/* A character in its one spelling (RFC 8785 section 3.2.2.2). */
static void put_character(struct hp_buf *out, uint32_t point)
{
    static const char hex[] = "0123456789abcdef", letters[] = "btn\0fr"; /* of U+0008 to U+000D */

    if (point == '"' || point == '\\') {
        hp_buf_addch(out, '\\');
        hp_buf_addch(out, (char)point);
    } else if (point >= 0x20) {
        put_point(out, point);
    } else if (point >= 8 && point <= 13 && letters[point - 8]) {
        hp_buf_addch(out, '\\');
        hp_buf_addch(out, letters[point - 8]);
    } else {
        hp_buf_addstr(out, "\\u00");
        hp_buf_addch(out, hex[point >> 4]);
        hp_buf_addch(out, hex[point & 15]);
    }
}

static bool read_escape(struct canon *canon)
{
    static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    const size_t at = canon->at;
    int32_t unit, low;

    if (canon->len - at < 2)
        return fail(canon, "a string without an end");
    if (canon->json[at + 1] != 'u') {
        for (size_t i = 0; i + 1 < sizeof letters; i += 2) {
            if (letters[i] == canon->json[at + 1]) {
                put_character(canon->out, (unsigned char)letters[i + 1]);
                canon->at += 2;
                return true;
            }
        }
        return fail(canon, "an escape that JSON doesn't have");
    }
    unit = read_unit(canon);
    if (unit < 0)
        return fail(canon, "\\u without four hexadecimal digits");
    if (unit < 0xD800 || unit > 0xDFFF) {
        put_character(canon->out, (uint32_t)unit);
        return true;
    }
    low = unit < 0xDC00 ? read_unit(canon) : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
        canon->at = at;
        return fail(canon, "half a surrogate pair");
    }
    put_point(canon->out, 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00));
    return true;
}

static bool read_string(struct canon *canon)
{
    hp_buf_addch(canon->out, '"');
    canon->at++;
    for (;;) {
        const size_t start = canon->at;
        int c = peek(canon);

        while (c >= 0x20 && c != '"' && c != '\\') {
            const size_t n = c < 0x80 ? 1 : hp_utf8_next(canon->json + canon->at, canon->len - canon->at, NULL);

            if (n == 0)
                return fail(canon, "bytes that are not UTF-8");
            canon->at += n;
            c = peek(canon);
        }
        hp_buf_add(canon->out, canon->json + start, canon->at - start);
        if (c == '"')
            break;
        if (c < 0)
            return fail(canon, "a string without an end");
        if (c != '\\')
            return fail(canon, "a control character within a string");
        if (!read_escape(canon))
            return false;
    }
    hp_buf_addch(canon->out, '"');
    canon->at++;
    return true;
}

/* ---- numbers and words ---- */

static size_t skip_digits(struct canon *canon)
{
    const size_t start = canon->at;

    while (peek(canon) >= '0' && peek(canon) <= '9')
        canon->at++;
    return canon->at - start;
}

static bool read_number(struct canon *canon)
{
    const size_t start = canon->at;
    char text[HP_NUMBER_MAX];
    size_t n;

    canon->at += peek(canon) == '-';
    if (peek(canon) == '0')
        canon->at++;
    else if (skip_digits(canon) == 0)
        return fail(canon, "a number without digits");
    if (peek(canon) == '.') {
        canon->at++;
        if (skip_digits(canon) == 0)
            return fail(canon, "no digit behind a decimal point");
    }
    if (peek(canon) == 'e' || peek(canon) == 'E') {
        canon->at++;
        canon->at += peek(canon) == '+' || peek(canon) == '-';
        if (skip_digits(canon) == 0)
            return fail(canon, "an exponent without digits");
    }
    n = hp_canon_number(canon->json + start, canon->at - start, text);
    if (n == 0) {
        canon->at = start;
        return fail(canon, "a number beyond the range of a double");
    }
    hp_buf_add(canon->out, text, n);
    return true;
}

static bool read_word(struct canon *canon)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i]);

        if (canon->len - canon->at >= n && memcmp(canon->json + canon->at, words[i], n) == 0) {
            hp_buf_add(canon->out, words[i], n);
            canon->at += n;
            return true;
        }
    }
    return fail(canon, peek(canon) < 0 ? "the end, where a value should be" : "not a value of JSON");
}

/* ---- objects ---- */

/* What stands at `*p` in a written name: a byte, that of an escape, or -1 at its end. */
static int next_of_name(const uint8_t **p)
{
    static const char letters[] = "\"\"\\\\b\bf\fn\nr\rt\t";
    const uint8_t *at = *p;

    if (at[0] == '"')
        return -1;
    if (at[0] != '\\') {
        *p = at + 1;
        return at[0];
    }
    if (at[1] == 'u') { /* \u00XX */
        *p = at + 6;
        return hex_digit(at[4]) * 16 + hex_digit(at[5]);
    }
    *p = at + 2;
    return (unsigned char)strchr(letters, at[1])[1];
}

/*
 * By the UTF-16 code units of the names, `x` and `y` without their first quote. The order of UTF-8's bytes is the same, but for
 * characters above U+FFFF: their surrogates come before U+E000, while their first byte, from F0, comes after EE and EF.
 */
static int compare_names(const uint8_t *x, const uint8_t *y)
{
    int a, b;

    do {
        a = next_of_name(&x);
        b = next_of_name(&y);
    } while (a == b && a >= 0);
    if (a >= 0xEE && b >= 0xEE && (a >= 0xF0) != (b >= 0xF0))
        return a < b ? 1 : -1;
    return (a > b) - (a < b);
}

static int by_name(const void *x, const void *y, void *data)
{
    const struct member *a = x, *b = y;
    const int order = compare_names((uint8_t *)data + a->start + 1, (uint8_t *)data + b->start + 1);

    return order ? order : (a->at > b->at) - (a->at < b->at);
}

/* A member's name and colon, up to its value. */
static enum step read_name(struct canon *canon)
{
    struct member member = {.start = canon->out->len, .at = canon->at};

    if (skip_space(canon) != '"')
        return stop(canon, "no name in quotes, where a member should be");
    member.at = canon->at;
    if (!read_string(canon))
        return FAILED;
    hp_buf_add(&canon->members, &member, sizeof member);
    if (canon->members.failed || canon->out->failed) {
        no_memory(canon);
        return FAILED;
    }
    if (skip_space(canon) != ':')
        return stop(canon, "no colon behind a name");
    canon->at++;
    hp_buf_addch(canon->out, ':');
    return VALUE;
}

/* Puts the members where they stand into order. */
static bool sort_members(struct canon *canon, struct member *members, size_t n)
{
    struct hp_buf *out = canon->out;
    const size_t start = members[0].start;
    bool sorted = true;

    for (size_t i = 0; i < n; i++) {
        members[i].len = (i + 1 < n ? members[i + 1].start - 1 : out->len) - members[i].start;
        sorted = sorted && (i == 0 || by_name(members + i - 1, members + i, out->data) < 0);
    }
    if (!sorted)
        qsort_r(members, n, sizeof *members, by_name, out->data);
    for (size_t i = 1; i < n; i++) {
        if (compare_names(out->data + members[i - 1].start + 1, out->data + members[i].start + 1) == 0) {
            canon->at = members[i].at;
            return fail(canon, "a name that the object has already");
        }
    }
    if (sorted)
        return true;
    hp_buf_reset(&canon->sorted);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            hp_buf_addch(&canon->sorted, ',');
        hp_buf_add(&canon->sorted, out->data + members[i].start, members[i].len);
    }
    if (canon->sorted.failed)
        return no_memory(canon);
    memcpy(out->data + start, canon->sorted.data, canon->sorted.len);
    return true;
}

/* ---- structure ---- */

static bool close_level(struct canon *canon)
{
    const struct level *level = &canon->levels[--canon->depth];

    if (level->object) {
        const size_t n = canon->members.len / sizeof(struct member) - level->first;

        if (canon->out->failed)
            return no_memory(canon);
        if (n > 1 && !sort_members(canon, (struct member *)(void *)canon->members.data + level->first, n))
            return false;
        canon->members.len = level->first * sizeof(struct member);
    }
    hp_buf_addch(canon->out, level->object ? '}' : ']');
    canon->at++;
    return true;
}

static enum step open_level(struct canon *canon, bool object)
{
    struct level *level;

    if (canon->depth == HP_CANON_DEPTH)
        return stop(canon, "nested too deeply");
    level = &canon->levels[canon->depth++];
    level->object = object;
    level->first = canon->members.len / sizeof(struct member);
    hp_buf_addch(canon->out, object ? '{' : '[');
    canon->at++;
    if (skip_space(canon) == (object ? '}' : ']'))
        return close_level(canon) ? DONE : FAILED;
    return object ? read_name(canon) : VALUE;
}

static enum step read_value(struct canon *canon)
{
    const int c = skip_space(canon);

    if (c == '{' || c == '[')
        return open_level(canon, c == '{');
    if (c == '"')
        return read_string(canon) ? DONE : FAILED;
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(canon) ? DONE : FAILED;
    return read_word(canon) ? DONE : FAILED;
}

/* What follows a value: the next one of its array or object, or their ends, up to that of the text. */
static enum step after_value(struct canon *canon)
{
    while (canon->depth > 0) {
        const bool object = canon->levels[canon->depth - 1].object;
        const int c = skip_space(canon);

        if (c == ',') {
            canon->at++;
            hp_buf_addch(canon->out, ',');
            return object ? read_name(canon) : VALUE;
        }
        if (c != (object ? '}' : ']'))
            return stop(canon, object ? "neither a comma nor the object's end" : "neither a comma nor the array's end");
        if (!close_level(canon))
            return FAILED;
    }
    return DONE;
}

static bool read_text(struct canon *canon)
{
    enum step step;

    do {
        step = read_value(canon);
        if (step == DONE)
            step = after_value(canon);
    } while (step == VALUE);
    if (step == FAILED)
        return false;
    if (skip_space(canon) >= 0)
        return fail(canon, "something behind the value");
    return !canon->out->failed || no_memory(canon);
}

bool hp_canonical_json(const char *json, size_t len, struct hp_buf *out, struct hp_canon_error *error)
{
    struct canon canon = {.json = json, .len = len, .out = out};
    const size_t start = out->len;
    const bool usable = !out->failed, done = usable && read_text(&canon);

    hp_buf_release(&canon.members);
    hp_buf_release(&canon.sorted);
    if (done)
        return true;
    if (!usable)
        no_memory(&canon);
    else if (out->data) {
        out->len = start;
        out->data[start] = '\0';
        out->failed = false;
    }
    if (error)
        *error = canon.error;
    return false;
}

bool hp_fingerprint(const char *json, size_t len, uint8_t fingerprint[HP_SHA256_SIZE], struct hp_canon_error *error)
{
    struct hp_buf canonical = HP_BUF_INIT;
    const bool done = hp_canonical_json(json, len, &canonical, error);

    if (done)
        hp_sha256(canonical.data, canonical.len, fingerprint);
    hp_buf_release(&canonical);
    return done;
}
