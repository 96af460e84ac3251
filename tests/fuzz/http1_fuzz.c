/*
 * http1_fuzz.c - HTTP/1.1 requests: one byte says how the rest is cut.
 *
 * However the bytes are cut, the same requests are understood, and the same one is refused, for the same reason; no more memory
 * is used than was allowed; and what a request says of itself holds: names are tokens, strings have no line ends, its body is as
 * long as it said.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "proto/c/http1.h"

enum { MAX_BYTES = 512, MAX_FIELDS = 16 };

/* What was understood, as bytes to be compared. */
struct told {
    struct hp_buf text;
    uint64_t body; /* of the present request */
};

static void tell(struct told *told, const char *text)
{
    hp_buf_add(&told->text, text, strlen(text) + 1);
    for (; *text; text++)
        MUST(*text != '\r' && *text != '\n');
}

static void tell_head(struct told *told, const struct hp_http1 *p)
{
    uint8_t flags[] = {(uint8_t)p->minor, p->has_body, p->chunked, p->expects_continue, p->keep_alive};
    MUST(p->method && p->path && p->n_fields <= MAX_FIELDS && p->text.len <= 2 * MAX_BYTES && p->text.cap <= 4 * MAX_BYTES);
    MUST(p->authority || p->minor == 0);
    tell(told, hp_http1_text(p, p->method));
    tell(told, hp_http1_text(p, p->path));
    tell(told, p->query ? hp_http1_text(p, p->query) : "");
    tell(told, p->authority ? hp_http1_text(p, p->authority) : "");
    for (size_t i = 0; i < p->n_fields; i++) {
        const char *name = hp_http1_text(p, p->fields[i].name);
        MUST(*name && !name[strcspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ: \t")]);
        tell(told, name);
        tell(told, hp_http1_text(p, p->fields[i].value));
    }
    hp_buf_add(&told->text, flags, sizeof(flags));
    told->body = 0;
}

/* False: it was refused. */
static bool feed(struct hp_http1 *p, const uint8_t *data, size_t len, struct told *told)
{
    const uint8_t *at = data, *piece = NULL;
    size_t left = len, n = 0;
    for (;;) {
        enum hp_http1_event event = hp_http1_next(p, &at, &left, &piece, &n);
        MUST(at + left == data + len);
        if (event == HP_HTTP1_HEAD) {
            tell_head(told, p);
        } else if (event == HP_HTTP1_BODY) {
            MUST(n && piece >= data && piece + n <= data + len && p->has_body);
            hp_buf_add(&told->text, piece, n);
            told->body += n;
        } else if (event == HP_HTTP1_END) {
            MUST(p->has_body || !told->body);
            hp_buf_addstr(&told->text, "end");
            hp_http1_next_request(p);
        } else if (event == HP_HTTP1_BAD) {
            tell(told, p->why);
            MUST(p->status >= 400 && hp_http1_next(p, &at, &left, &piece, &n) == HP_HTTP1_BAD);
            return false;
        } else {
            MUST(!left);
            return true;
        }
    }
}

/* In pieces of the sizes that `cuts` draws; 0: whole. */
static struct told understand(const uint8_t *data, size_t len, uint32_t cuts)
{
    struct hp_http1 p;
    struct told told = {.text = HP_BUF_INIT};
    hp_http1_init(&p, MAX_BYTES, MAX_FIELDS);
    hp_buf_addstr(&told.text, "");
    for (size_t at = 0, n; at < len; at += n) {
        cuts = cuts * 1664525 + (cuts ? 1013904223 : 0);
        n = cuts ? 1 + (cuts >> 24) % 7 : len;
        n = n < len - at ? n : len - at;
        if (!feed(&p, data + at, n, &told))
            break;
    }
    uint8_t amid = hp_http1_amid_head(&p);
    hp_buf_add(&told.text, &amid, 1);
    hp_http1_release(&p);
    return told;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return -1;
    struct told whole = understand(data + 1, size - 1, 0), cut = understand(data + 1, size - 1, 1U + data[0]);
    MUST(!whole.text.failed && !cut.text.failed);
    MUST(whole.text.len == cut.text.len && !memcmp(whole.text.data, cut.text.data, whole.text.len));
    hp_buf_release(&whole.text);
    hp_buf_release(&cut.text);
    return 0;
}
