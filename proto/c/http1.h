/*
 * http1.h - HTTP/1.1 requests (RFC 9112) in bytes: a strict, incremental parser. No sockets.
 *
 * However the bytes of a request are cut, the result is the same. What two readers could understand in two ways is refused, never
 * repaired: Content-Length beside Transfer-Encoding or given twice, folded lines, white space before a colon, a CR or LF by
 * itself, transfer codings other than "chunked", chunk sizes that aren't plain hexadecimal, a Host that is missing or doubled.
 *
 * Memory: `max_bytes` for the header, a second `max_bytes` for trailers, and 8 bytes a field. The body isn't kept.
 */
#ifndef HOLDFAST_PROTO_HTTP1_H
#define HOLDFAST_PROTO_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/c/buf.h"

/* Offsets of NUL-terminated strings in `text`. */
struct hp_http1_field {
    uint32_t name, value; /* the name in lower case, the value without white space around it */
};

enum hp_http1_event {
    HP_HTTP1_MORE, /* all bytes were taken, and more must come */
    HP_HTTP1_HEAD, /* the header is whole: what it says stands in the struct */
    HP_HTTP1_BODY, /* a piece of the body, within the bytes given */
    HP_HTTP1_END,  /* the request is whole; the next one begins after hp_http1_next_request */
    HP_HTTP1_BAD   /* `status` and `why` say what is wrong; the connection can't go on */
};

struct hp_http1 {
    size_t max_bytes;  /* of the header with its line ends, and 32 a field on top; of chunk extensions and trailers together */
    size_t max_fields; /* of the header, and of the trailers */

    /* From HEAD on. */
    struct hp_buf text;               /* all strings; whoever wants to keep it may swap it for an empty one */
    uint32_t method, path, authority; /* path: without the query, as sent; authority: Host's, or the target's; "" = none */
    uint32_t query;                   /* behind the "?"; 0 = none */
    int minor;                        /* HTTP/1.0 or 1.1 */
    struct hp_http1_field *fields;
    size_t n_fields;
    bool has_body; /* more than 0 bytes may follow */
    bool chunked;
    bool expects_continue; /* Expect: 100-continue */
    bool keep_alive;       /* whether the client would send another request on this connection */

    /* After BAD. */
    int status;      /* 400, 414, 417, 431, 500 (no memory), 501, 505 */
    const char *why; /* for people; constant */

    /* The parser's own. */
    int state;
    size_t line, fields_cap;  /* where the present line begins */
    uint64_t left;            /* of the body, or of the present chunk */
    int digits;               /* of a chunk's size */
    size_t extra, n_trailers; /* bytes of chunk extensions and trailers */
    struct hp_buf trailer;
    uint8_t seen;
};

/* Zero means the default: 16 KiB and 256 fields. */
void hp_http1_init(struct hp_http1 *parser, size_t max_bytes, size_t max_fields);
void hp_http1_release(struct hp_http1 *parser);
/* Ready for the next request of the connection; memory is kept. */
void hp_http1_next_request(struct hp_http1 *parser);

/* Takes from `*data` and moves it on, up to the next event. `piece` is set by BODY only. END may come without a byte. After BAD
 * there is only BAD. */
enum hp_http1_event hp_http1_next(struct hp_http1 *parser, const uint8_t **data, size_t *len, const uint8_t **piece,
                                  size_t *piece_len);
/* Some bytes of a request have been taken, and its header isn't whole. */
bool hp_http1_amid_head(const struct hp_http1 *parser);

const char *hp_http1_text(const struct hp_http1 *parser, uint32_t offset);

#endif
