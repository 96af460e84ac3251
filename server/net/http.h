/*
 * http.h - the HTTP port: one listener for HTTP/2 and HTTP/1.1, with or without TLS, and the exchanges that come in.
 *
 * An exchange is one request and its response, whichever version carries it; what answers it (gRPC, Connect, pages) knows no
 * version. All on the loop's thread. Names of the files that do it are in http_conn.h.
 *
 * Memory. A request's body is only received as fast as it is consumed: at most 128 KiB of one and 1 MiB of all requests of a
 * connection are there. A response that isn't read makes net_exchange_write say so beyond max_unread. These, what handlers say
 * they hold, request headers, and what HTTP/2's session of a connection needs beyond 64 KiB count for max_bytes; when more is held
 * in all, the connections for which most is held are closed. Of what isn't counted an idle connection takes 2 KiB over HTTP/1.1 and
 * 14 KiB over HTTP/2 (measured; a stream is another 1 KiB), and any connection 100 KiB at the very most, with TLS 200 KiB. So the
 * port as a whole takes max_bytes + max_connections * 100 KiB (200 KiB) in the worst case.
 *
 * Who is served when (http_share.c). Connections that call and take their answers have the loop's time; those that are new, or cost
 * more than they call for, share a fifth of it as long as others are there, and wait for their turns. They are read no further
 * while an eighth of max_bytes is held and 128 KiB of it for them, and closed if their requests don't become whole in 2 s
 * meanwhile. Nothing more is begun for a connection that leaves answers of 4 MiB, or of 256 KiB if it is such a one. The kernel's
 * buffers of a connection are as large as SO_RCVBUF and SO_SNDBUF of 256 KiB allow, and do not grow.
 *
 * A client that sends no more (it has shut its half of the connection) isn't there any more, unless its answer is complete already:
 * its exchanges are closed, so that nobody works or waits for it. A pipelined request (HTTP/1.1) begins when the answer before
 * has left.
 */
#ifndef HOLDFAST_NET_HTTP_H
#define HOLDFAST_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io.h"
#include "proto/c/call.h"

struct net_tls;

struct net_header {
    const char *name, *value; /* NUL-terminated, without NUL within; names in lower case */
};

/* Zero means the default. */
struct net_http_config {
    int max_connections; /* beyond: the longest idle goes, else one whose requests don't end, else the new one; 0 = 4,096 */
    int max_streams;     /* of one connection, at one time; 0 = 128 */
    int max_headers;     /* bytes of one request's header, names and values and 32 a field (RFC 9113, 6.5.2); 0 = 16 KiB */
    size_t max_bytes;    /* of bodies and responses that are held, over all connections; 0 = 256 MiB */
    size_t max_unread;   /* of one response, beyond which net_exchange_write says that it is full; 0 = 256 KiB */
    int header_ms;       /* from the first byte of a request to the end of its header; and for a TLS handshake; 0 = 10,000 */
    int body_ms;         /* without a byte of a body that is wanted, or of a response that is taken; 0 = 30,000 */
    int idle_ms;         /* without a request in progress; 0 = 300,000 */
    int total_ms;        /* one request and response over HTTP/1.1, unless it was answered as a stream; 0 = 3,660,000 */
    struct net_tls *tls; /* NULL = without. Borrowed; must outlive the listener */
};

struct net_http_stats {
    int connections;                                             /* open now */
    long accepted, refused, requests, protocol_errors, timeouts; /* since it was opened */
    long streams;                                                /* exchanges in progress */
    size_t bytes;                                                /* held now */
    long waits; /* turns that connections without credit (http_share.c) have waited for */
};

struct net_exchange {
    /* The request. All of it is valid until `closed` was called. */
    int version;               /* 1 or 2 */
    const char *method, *path; /* path: without the query, as sent (not decoded) */
    const char *query;         /* behind the "?"; NULL = none */
    const char *authority;     /* or Host; never NULL */
    const struct net_header *headers;
    size_t n_headers;
    const struct hp_peer *peer; /* transport is for the handler to override in a copy */
    int64_t received_ms;        /* of io's clock, when its header was complete */

    /* Set by the handler in on_request, all of them (`writable` may be NULL). None is called after `closed`. */
    /* A piece of the body; `end`: it was the last one (perhaps of 0 bytes). The next ones come as net_exchange_consume allows. Also
     * of a request without a body, right after on_request; but of none that has been answered to its end. */
    void (*body)(struct net_exchange *x, const void *data, size_t len, bool end);
    /* After net_exchange_write has said no: there is room again. */
    void (*writable)(struct net_exchange *x);
    /* The exchange is over, and gone after this: once. `complete`: the whole response was handed to the kernel or to the peer's
     * window's end; otherwise the peer has reset it, the connection is lost, or a limit or a deadline was hit. */
    void (*closed)(struct net_exchange *x, bool complete);
    void *handler; /* the handler's own */
};

struct net_http;

/* It listens on `address` (HOST:PORT, [V6]:PORT; port 0 picks one), and on_request is called for each request once its header is
 * complete and legal. NULL: `error` names what is wrong. Resolves the host's name, and may block for that. */
struct net_http *net_http_listen(struct io *io, const char *address, const struct net_http_config *cfg,
                                 void (*on_request)(void *arg, struct net_exchange *x), void *arg, char *error, size_t error_len)
    __attribute__((warn_unused_result));
/* HOST:PORT, with the port that was picked. */
const char *net_http_address(const struct net_http *http);
/* From now on each connection is told to bring no more requests (GOAWAY; Connection: close) and closed when those in progress are
 * answered; nothing is accepted any more. */
void net_http_drain(struct net_http *http);
/* No exchange is in progress, and what was answered has left. */
bool net_http_idle(const struct net_http *http);
void net_http_stats(const struct net_http *http, struct net_http_stats *out);
/* The listener and its connections are closed; `closed` is called for each exchange in progress. NULL is allowed. */
void net_http_free(struct net_http *http);

/* ---- for the handler, any time between on_request and closed ---- */

/* The value of the first header so named (lower case), or NULL. */
const char *net_exchange_header(const struct net_exchange *x, const char *name);
/* The response begins: status and headers (copied). Once. `end`: there is no body, and no trailers (so a gRPC error is
 * "trailers only" by its headers). Over HTTP/1.1 the body's framing is chosen here: "content-length" if it is among the headers,
 * chunked otherwise. */
void net_exchange_respond(struct net_exchange *x, int status, const struct net_header *headers, size_t n, bool end);
/* A piece of the response's body (copied, always taken). False: that is more than the peer reads at present; wait for `writable`.
 */
bool net_exchange_write(struct net_exchange *x, const void *data, size_t len);
/* The response ends, with trailers (HTTP/2; over HTTP/1.1 they are left out). If the request's body isn't whole yet, the peer is
 * told to stop sending it (after 2 s RST_STREAM(NO_ERROR); Connection: close). */
void net_exchange_end(struct net_exchange *x, const struct net_header *trailers, size_t n);
/* `len` bytes of the request's body have been dealt with, and as many more may come. */
void net_exchange_consume(struct net_exchange *x, size_t len);
/* The handler holds so many bytes for this exchange (a message that isn't whole; not more, but in all): they count for max_bytes,
 * until they are said to be fewer or the exchange is closed. When more than max_bytes are held, the connections for which most is
 * are closed. */
void net_exchange_hold(struct net_exchange *x, size_t bytes);
/* Work was done for this exchange beside the loop, which took so long: its connection has so much less credit. */
void net_exchange_charge(struct net_exchange *x, int64_t ns);
/* Whether its connection has credit: what is to be done for it goes before what is to be done for those that have none. */
bool net_exchange_is_known(const struct net_exchange *x);
/* The exchange is cut off: RST_STREAM with this code (RFC 9113, 7) or a closed connection. `closed` follows, perhaps before this
 * returns. */
void net_exchange_reset(struct net_exchange *x, uint32_t code);

#endif
