/*
 * http1.c - see http1.h. Lines of the header are gathered in `text` and taken apart in place as each becomes whole; the body is
 * passed through.
 *
 * Invariants: a limit or a mistake is noticed at the same byte however the bytes are cut, since lines are judged only when they
 * are whole and lengths byte by byte. Offset 0 of `text` is a NUL, so that no string of a request has the offset 0.
 */
#include "proto/c/http1.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_BYTES = 16 << 10, MAX_FIELDS = 256, FIELD_COST = 32, METHOD_MAX = 32, SIZE_DIGITS = 15, EMPTY_LINES = 2 };

enum state {
    AT_START, /* no byte, or empty lines */
    AT_REQUEST_LINE,
    AT_FIELDS,
    AT_BODY, /* `left` bytes of it */
    AT_CHUNK_SIZE,
    AT_CHUNK_EXTENSION,
    AT_CHUNK_SIZE_LF,
    AT_CHUNK, /* `left` bytes of it */
    AT_CHUNK_CR,
    AT_CHUNK_LF,
    AT_TRAILERS,
    AT_END,
    AT_FAILURE
};

/* `seen` */
enum { SEEN_HOST = 1, SEEN_LENGTH = 2, SEEN_CODING = 4, SEEN_EXPECT = 8, SEEN_CLOSE = 16, SEEN_KEEP = 32 };

static bool fail(struct hp_http1 *p, int status, const char *why)
{
    p->state = AT_FAILURE;
    p->status = status;
    p->why = why;
    return false;
}

static bool no_memory(struct hp_http1 *p)
{
    return fail(p, 500, "out of memory");
}

/* ---- characters ---- */

/* RFC 9110, 5.6.2. */
static bool is_token_char(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_token_char((uint8_t)text[i]))
            return false;
    return len > 0;
}

/* What may stand in a field's value, and in a chunk's extension: no controls but the tab. */
static bool is_value_char(uint8_t c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static bool is_value(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_value_char((uint8_t)text[i]))
            return false;
    return true;
}

/* Visible ASCII. A "#" has no place in a request's target (RFC 9112, 3.2). */
static bool is_target(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f || *text == '#')
            return false;
    return true;
}

/* uri-host [":" port] (RFC 3986, 3.2.2), without user information. */
static bool is_authority(const char *text)
{
    for (; *text; text++)
        if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9') ||
              strchr("-._~!$&'()*+;=:[]%", *text)))
            return false;
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- the request line ---- */

/* A copy at the end of `text`, or 0. */
static uint32_t add_text(struct hp_http1 *p, const char *text, size_t len)
{
    size_t at = p->text.len;
    if (!hp_buf_reserve(&p->text, len + 1)) {
        no_memory(p);
        return 0;
    }
    memcpy(p->text.data + at, text, len);
    p->text.data[at + len] = '\0';
    p->text.len = at + len + 1;
    return (uint32_t)at;
}

/* "http://authority/path" (RFC 9112, 3.2.2): its authority stands for Host's. */
static bool take_absolute(struct hp_http1 *p, uint32_t target)
{
    const char *text = (const char *)p->text.data + target;
    size_t scheme = !strncasecmp(text, "http://", 7) ? 7 : !strncasecmp(text, "https://", 8) ? 8 : 0;
    if (!scheme)
        return fail(p, 400, "the request's target is no path");
    size_t len = strcspn(text + scheme, "/?");
    char authority[256];
    if (!len || len >= sizeof(authority))
        return fail(p, 400, "the target's authority is no host");
    memcpy(authority, text + scheme, len);
    authority[len] = '\0';
    if (!is_authority(authority))
        return fail(p, 400, "the target's authority is no host");
    uint32_t rest = target + (uint32_t)(scheme + len);
    if (!(p->authority = add_text(p, authority, len)))
        return false;
    p->path = p->text.data[rest] == '/' ? rest : add_text(p, "/", 1);
    if (p->text.data[rest] == '?')
        p->query = rest + 1;
    return p->path != 0;
}

static bool take_target(struct hp_http1 *p, uint32_t target)
{
    const char *text = (const char *)p->text.data + target, *method = (const char *)p->text.data + p->method;
    if (!is_target(text))
        return fail(p, 400, "the request's target has characters that must be encoded");
    if (!strcmp(method, "CONNECT"))
        return fail(p, 501, "this is no proxy");
    if (*text == '/' || (!strcmp(text, "*") && !strcmp(method, "OPTIONS")))
        p->path = target;
    else if (!take_absolute(p, target))
        return false;
    char *question = p->query ? NULL : strchr((char *)p->text.data + p->path, '?');
    if (question) {
        *question = '\0';
        p->query = (uint32_t)(question + 1 - (char *)p->text.data);
    }
    return true;
}

static bool take_version(struct hp_http1 *p, const char *version)
{
    if (!strcmp(version, "HTTP/1.1") || !strcmp(version, "HTTP/1.0")) {
        p->minor = version[7] - '0';
        return true;
    }
    if (!strncmp(version, "HTTP/", 5) && version[5] >= '0' && version[5] <= '9' && version[6] == '.' && version[7] >= '0' &&
        version[7] <= '9' && !version[8])
        return fail(p, 505, "the version must be HTTP/1.1");
    return fail(p, 400, "the request line doesn't end with HTTP/1.1");
}

static bool take_request_line(struct hp_http1 *p, char *line, size_t len)
{
    char *target = memchr(line, ' ', len), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version || strlen(line) != len)
        return fail(p, 400, "the request line is not METHOD TARGET HTTP/1.1");
    *target++ = *version++ = '\0';
    if (!is_token(line, strlen(line)) || strlen(line) > METHOD_MAX)
        return fail(p, 400, "the method is no token");
    p->method = (uint32_t)p->line;
    if (!take_version(p, version))
        return false;
    p->state = AT_FIELDS;
    return take_target(p, (uint32_t)(target - (char *)p->text.data));
}

/* ---- fields ---- */

static bool take_length(struct hp_http1 *p, const char *value)
{
    size_t n = strspn(value, "0123456789");
    if (p->seen & SEEN_LENGTH)
        return fail(p, 400, "Content-Length is given twice");
    p->seen |= SEEN_LENGTH;
    if (!n || value[n] || n > 18)
        return fail(p, 400, "Content-Length is no number");
    p->left = strtoull(value, NULL, 10);
    return true;
}

static bool take_coding(struct hp_http1 *p, const char *value)
{
    if (p->seen & SEEN_CODING)
        return fail(p, 400, "Transfer-Encoding is given twice");
    p->seen |= SEEN_CODING;
    if (p->minor == 0)
        return fail(p, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (strcasecmp(value, "chunked") != 0)
        return fail(p, 501, "the only transfer coding known here is chunked");
    p->chunked = true;
    return true;
}

static bool take_host(struct hp_http1 *p, const char *value)
{
    if (p->seen & SEEN_HOST)
        return fail(p, 400, "Host is given twice");
    p->seen |= SEEN_HOST;
    if (!is_authority(value))
        return fail(p, 400, "Host is no host");
    if (!p->authority) /* else the target's goes before (RFC 9112, 3.2.2) */
        p->authority = (uint32_t)(value - (const char *)p->text.data);
    return true;
}

static bool take_expect(struct hp_http1 *p, const char *value)
{
    if (strcasecmp(value, "100-continue") != 0)
        return fail(p, 417, "the only expectation known here is 100-continue");
    p->seen |= SEEN_EXPECT;
    return true;
}

static bool take_connection(struct hp_http1 *p, const char *value)
{
    while (*value) {
        size_t n = strcspn(value, ", \t");
        if (n == 5 && !strncasecmp(value, "close", n))
            p->seen |= SEEN_CLOSE;
        if (n == 10 && !strncasecmp(value, "keep-alive", n))
            p->seen |= SEEN_KEEP;
        value += n + strspn(value + n, ", \t");
    }
    return true;
}

/* What the parser itself must know. */
static bool take_meaning(struct hp_http1 *p, const char *name, const char *value)
{
    static const struct {
        const char *name;
        bool (*take)(struct hp_http1 *p, const char *value);
    } known[] = {{"content-length", take_length},
                 {"transfer-encoding", take_coding},
                 {"host", take_host},
                 {"expect", take_expect},
                 {"connection", take_connection}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(name, known[i].name))
            return known[i].take(p, value);
    return true;
}

/* Cuts a line into its name and its value, each NUL-terminated. */
static bool split_field(struct hp_http1 *p, char *line, size_t len, char **value)
{
    char *colon = memchr(line, ':', len), *end = line + len;
    if (*line == ' ' || *line == '\t')
        return fail(p, 400, "a header line is folded");
    if (!colon || !is_token(line, (size_t)(colon - line)))
        return fail(p, 400, "a header's name is no token");
    *colon = '\0';
    for (char *at = line; at < colon; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at | 0x20);
    *value = colon + 1;
    while (*value < end && (**value == ' ' || **value == '\t'))
        ++*value;
    while (end > *value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (!is_value(*value, (size_t)(end - *value)))
        return fail(p, 400, "a header's value has control characters");
    *end = '\0';
    return true;
}

static bool add_field(struct hp_http1 *p, const char *name, const char *value)
{
    if (p->n_fields == p->max_fields)
        return fail(p, 431, "there are too many headers");
    if (p->n_fields == p->fields_cap) {
        size_t cap = p->fields_cap ? p->fields_cap * 2 : 16;
        struct hp_http1_field *fields = realloc(p->fields, cap * sizeof(*fields));
        if (!fields)
            return no_memory(p);
        p->fields = fields;
        p->fields_cap = cap;
    }
    p->fields[p->n_fields++] =
        (struct hp_http1_field){(uint32_t)(name - (char *)p->text.data), (uint32_t)(value - (char *)p->text.data)};
    return true;
}

/* The empty line: what the fields say together. */
static bool finish_head(struct hp_http1 *p)
{
    if (p->chunked && p->seen & SEEN_LENGTH)
        return fail(p, 400, "Content-Length and Transfer-Encoding exclude each other");
    if (p->minor == 1 && !(p->seen & SEEN_HOST))
        return fail(p, 400, "Host is missing");
    p->has_body = p->chunked || p->left;
    p->expects_continue = p->seen & SEEN_EXPECT && p->minor == 1 && p->has_body;
    p->keep_alive = p->minor == 1 && !(p->seen & SEEN_CLOSE);
    p->state = p->chunked ? AT_CHUNK_SIZE : p->left ? AT_BODY : AT_END;
    return true;
}

static bool take_field_line(struct hp_http1 *p, char *line, size_t len)
{
    char *value;
    if (!len)
        return finish_head(p);
    if (!split_field(p, line, len, &value) || !add_field(p, line, value) || !take_meaning(p, line, value))
        return false;
    if (p->text.len + FIELD_COST * p->n_fields > p->max_bytes)
        return fail(p, 431, "the header is too large");
    return true;
}

/* ---- lines ---- */

/* Moves bytes to `to`, up to the end of a line. True: it is whole, from *line on and NUL-terminated in place of its CR. */
static bool gather(struct hp_http1 *p, struct hp_buf *to, const uint8_t **data, size_t *len)
{
    const uint8_t *lf = memchr(*data, '\n', *len);
    size_t n = lf ? (size_t)(lf - *data) + 1 : *len, max = p->max_bytes;
    if (to->len + n > max)
        return fail(p, p->state == AT_REQUEST_LINE ? 414 : 431, "the header is too large");
    hp_buf_add(to, *data, n);
    if (to->failed)
        return no_memory(p);
    *data += n;
    *len -= n;
    return lf != NULL;
}

/* The line that ends at the end of `buf`, without its CRLF; NULL: it has another end. */
static char *whole_line(struct hp_http1 *p, struct hp_buf *buf, size_t begin, size_t *len)
{
    if (buf->len - begin < 2 || buf->data[buf->len - 2] != '\r') {
        fail(p, 400, "a line doesn't end with CR LF");
        return NULL;
    }
    buf->data[buf->len - 2] = '\0';
    *len = buf->len - 2 - begin;
    return (char *)buf->data + begin;
}

/* True: go on. */
static bool take_head(struct hp_http1 *p, const uint8_t **data, size_t *len)
{
    size_t n;
    if (!p->text.len) {
        hp_buf_addch(&p->text, '\0');
        p->line = p->text.len;
        if (p->text.failed)
            return no_memory(p);
    }
    if (p->state == AT_START) {
        if (!is_token_char(**data) && **data != '\r') /* such as the first byte of TLS: don't wait for a line's end */
            return fail(p, 400, "this is no HTTP request");
        p->state = AT_REQUEST_LINE;
    }
    if (!gather(p, &p->text, data, len))
        return false;
    char *line = whole_line(p, &p->text, p->line, &n);
    if (!line)
        return false;
    if (p->state == AT_REQUEST_LINE && !n && p->line < 2 * EMPTY_LINES) {
        p->line = p->text.len; /* an empty line before a request is to be ignored (RFC 9112, 2.2) */
        p->state = AT_START;
        return true;
    }
    bool good = p->state == AT_REQUEST_LINE ? take_request_line(p, line, n) : take_field_line(p, line, n);
    p->line = p->text.len;
    return good;
}

/* Trailers are checked and forgotten. */
static bool take_trailers(struct hp_http1 *p, const uint8_t **data, size_t *len)
{
    size_t n;
    char *value;
    size_t before = p->trailer.len;
    bool whole = gather(p, &p->trailer, data, len);
    p->extra += p->trailer.len - before;
    if (p->state == AT_FAILURE || p->extra > p->max_bytes)
        return fail(p, 431, "the trailers are too large");
    if (!whole)
        return false;
    char *line = whole_line(p, &p->trailer, 0, &n);
    if (!line)
        return false;
    if (!n)
        p->state = AT_END;
    else if (!split_field(p, line, n, &value))
        return false;
    else if (++p->n_trailers > p->max_fields)
        return fail(p, 431, "there are too many trailers");
    hp_buf_reset(&p->trailer);
    return true;
}

/* ---- chunks ---- */

static bool take_chunk_size(struct hp_http1 *p, uint8_t c)
{
    int digit = hex_digit(c);
    if (digit >= 0) {
        if (++p->digits > SIZE_DIGITS)
            return fail(p, 400, "a chunk's size is too long");
        p->left = p->left << 4 | (unsigned)digit;
        return true;
    }
    if (!p->digits || (c != '\r' && c != ';'))
        return fail(p, 400, "a chunk's size is no hexadecimal number");
    p->state = c == ';' ? AT_CHUNK_EXTENSION : AT_CHUNK_SIZE_LF;
    return true;
}

static bool take_chunk_extension(struct hp_http1 *p, uint8_t c)
{
    if (c == '\r') {
        p->state = AT_CHUNK_SIZE_LF;
        return true;
    }
    if (!is_value_char(c))
        return fail(p, 400, "a chunk's extension has control characters");
    if (++p->extra > p->max_bytes)
        return fail(p, 400, "the chunks' extensions are too long");
    return true;
}

/* One byte between the data of two chunks. */
static bool take_chunk_byte(struct hp_http1 *p, uint8_t c)
{
    switch (p->state) {
    case AT_CHUNK_SIZE:
        return take_chunk_size(p, c);
    case AT_CHUNK_EXTENSION:
        return take_chunk_extension(p, c);
    case AT_CHUNK_SIZE_LF:
        p->state = p->left ? AT_CHUNK : AT_TRAILERS;
        return c == '\n' || fail(p, 400, "a chunk's size doesn't end with CR LF");
    case AT_CHUNK_CR:
        p->state = AT_CHUNK_LF;
        return c == '\r' || fail(p, 400, "a chunk is longer than its size");
    default:
        p->state = AT_CHUNK_SIZE;
        p->digits = 0;
        return c == '\n' || fail(p, 400, "a chunk is longer than its size");
    }
}

/* ---- all of it ---- */

static enum hp_http1_event take_body(struct hp_http1 *p, const uint8_t **data, size_t *len, const uint8_t **piece,
                                     size_t *piece_len)
{
    size_t n = *len < p->left ? *len : (size_t)p->left;
    if (!n)
        return HP_HTTP1_MORE;
    *piece = *data;
    *piece_len = n;
    *data += n;
    *len -= n;
    p->left -= n;
    if (!p->left)
        p->state = p->state == AT_CHUNK ? AT_CHUNK_CR : AT_END;
    return HP_HTTP1_BODY;
}

enum hp_http1_event hp_http1_next(struct hp_http1 *p, const uint8_t **data, size_t *len, const uint8_t **piece, size_t *piece_len)
{
    for (;;) {
        if (p->state == AT_FAILURE)
            return HP_HTTP1_BAD;
        if (p->state == AT_END)
            return HP_HTTP1_END;
        if (p->state == AT_BODY || p->state == AT_CHUNK)
            return take_body(p, data, len, piece, piece_len);
        if (!*len)
            return HP_HTTP1_MORE;
        if (p->state <= AT_FIELDS) {
            if (take_head(p, data, len) && p->state > AT_FIELDS)
                return HP_HTTP1_HEAD;
        } else if (p->state == AT_TRAILERS) {
            take_trailers(p, data, len);
        } else {
            take_chunk_byte(p, **data);
            ++*data;
            --*len;
        }
    }
}

void hp_http1_init(struct hp_http1 *p, size_t max_bytes, size_t max_fields)
{
    *p = (struct hp_http1){.max_bytes = max_bytes ? max_bytes : MAX_BYTES, .max_fields = max_fields ? max_fields : MAX_FIELDS};
}

void hp_http1_release(struct hp_http1 *p)
{
    hp_buf_release(&p->text);
    hp_buf_release(&p->trailer);
    free(p->fields);
    p->fields = NULL;
    p->n_fields = p->fields_cap = 0;
}

void hp_http1_next_request(struct hp_http1 *p)
{
    struct hp_http1 next = {.max_bytes = p->max_bytes,
                            .max_fields = p->max_fields,
                            .text = p->text,
                            .fields = p->fields,
                            .fields_cap = p->fields_cap,
                            .trailer = p->trailer};
    hp_buf_reset(&next.text);
    hp_buf_reset(&next.trailer);
    *p = next;
}

bool hp_http1_amid_head(const struct hp_http1 *p)
{
    return (p->state == AT_START && p->text.len) || p->state == AT_REQUEST_LINE || p->state == AT_FIELDS;
}

const char *hp_http1_text(const struct hp_http1 *p, uint32_t offset)
{
    return (const char *)p->text.data + offset;
}
