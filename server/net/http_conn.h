/*
 * http_conn.h - what the HTTP port's files share: the listener's state, a connection's and an exchange's. For these alone.
 *
 * http.c has the listener and what its handlers call; http_conn.c a connection's life and its times, http_share.c whose turn it is,
 * http_io.c the bytes that come and go; http_exchange.c what both versions do with an exchange; h1*.c and h2*.c the versions.
 *
 * Nothing is freed, and no handler told that an exchange is over, in the middle of something: a connection is doomed, an
 * exchange over, and tasks at the end of the turn close the one and tell of the other. A connection lives until it is
 * closed and each of its exchanges has been told.
 */
#ifndef HOLDFAST_NET_HTTP_CONN_H
#define HOLDFAST_NET_HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <nghttp2/nghttp2.h>

#include "base/io.h"
#include "base/list.h"
#include "net/http.h"
#include "net/listen.h"
#include "proto/c/buf.h"
#include "proto/c/http1.h"

enum {
    HTTP_SCRATCH = 64 << 10, /* read, or gathered to be sent, at a time */
    HTTP_WINDOW = 128 << 10, /* of a request's body that isn't consumed */
    H2_WINDOW = 1 << 20,     /* the same of all requests of a connection */
    HTTP_PREFACE = 24,
    HTTP_ADDRESS = 64,
    H2_DRAIN_MS = 1000 /* between the two GOAWAYs, if the peer doesn't tell sooner that it has seen the first */
};

/* http_share.c */
enum { HTTP_FAVOURED = 8, HTTP_SLOW_MS = 2000 };

struct http_share {
    struct list waiting;              /* connections that are served in their turn */
    struct io_timer timer;            /* of the next turn */
    bool full;                        /* nobody is accepted before it */
    int64_t purse_ns;                 /* of time for those without credit, */
    int64_t filled_ms;                /* as of then */
    int64_t honoured_ms;              /* when one with credit was served: */
    const struct http_conn *honoured; /* which, unless it is closed */
    int64_t began_ns;                 /* when what is done now for a connection began */
    /* Those without credit whose requests are read to their end although much is held; NULL = a free place. */
    struct http_conn *favoured[HTTP_FAVOURED];
};

struct net_http {
    struct io *io;
    struct net_http_config cfg;
    struct net_listener listener;
    char address[192];
    void (*on_request)(void *arg, struct net_exchange *x);
    void *arg;
    bool draining;
    struct list idle, busy; /* connections; idle: without a request in progress, by age */
    struct list dirty;      /* of them, with something to do at the end of the turn */
    struct list over;       /* exchanges of which the handler is to be told that they are over */
    struct list spare;      /* exchanges to be used again */
    struct list dead;       /* connections, until the end of the turn */
    struct io_task flush, tell, bury, police;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct h2_reserve *reserve;
    struct net_http_stats stats;
    size_t unsent;  /* bytes of responses that the kernel hasn't taken, */
    size_t unasked; /* and of those that HTTP/2 hasn't been asked for yet */
    int64_t last_sent_ms;
    struct http_share share;
    char date[40]; /* of HTTP/1.1's answers, as of date_s */
    int64_t date_s;
    uint8_t in[HTTP_SCRATCH], gather[HTTP_SCRATCH];
};

enum http_state {
    HTTP_HANDSHAKE, /* TLS is being set up */
    HTTP_SNIFF,     /* which version it speaks isn't known */
    HTTP_1,
    HTTP_2,
    HTTP_ENDING, /* nothing is served any more; what is to be sent leaves */
    HTTP_LINGER, /* all was said; what still comes is thrown away, so that a reset doesn't overtake it */
    HTTP_CLOSED
};

struct http_conn {
    struct net_http *http;
    struct list_node node, dirty_node, wait_node;
    struct io_watch watch; /* fd -1: closed */
    struct io_timer timer;
    struct net_tls_conn *tls;
    enum http_state state;
    int refs; /* itself until it is closed, and its exchanges */
    bool idle, doomed;
    bool closing;        /* to be closed once all that is to be sent has left */
    bool ended;          /* the peer sends no more */
    bool bye;            /* TLS has been told to end */
    bool more;           /* there is more to be sent than one turn may */
    struct hp_buf out;   /* to be sent, and not by the kernel yet */
    size_t out_at;       /* sent of it */
    size_t counted;      /* bytes of it, and of TLS, in `bytes` */
    size_t excess;       /* bytes of memory beyond what each connection may have, in `bytes` */
    size_t bytes;        /* held for it */
    int64_t amid_ms;     /* when what it is in the middle of began: a handshake, a header, lingering; 0 = nothing */
    int64_t idle_ms;     /* when it became idle */
    int64_t sent_ms;     /* when bytes last left, or there were some after there were none */
    struct list open;    /* exchanges in progress */
    int n_full;          /* of them, whose handler waits for room */
    int n_receiving;     /* of them, whose request isn't whole */
    size_t unconsumed;   /* bytes of their requests */
    int n_unbegun;       /* of them, whose request is whole, and whose handler wasn't told yet */
    size_t n_unsent;     /* bytes of their responses that aren't in `out` */
    int64_t credit_ns;   /* http_share.c */
    size_t n_taken;      /* responses, all of each, so far */
    int64_t favoured_ms; /* since when it is among http_share.favoured; 0 = it isn't */
    uint8_t preface[HTTP_PREFACE];
    size_t n_preface;
    struct hp_peer peer;
    char address[HTTP_ADDRESS];
    /* HTTP/1.1 */
    struct hp_http1 *parser;
    struct hp_buf in; /* came behind the request in progress */
    size_t in_at;     /* taken of it */
    size_t discarded; /* while it lingers */
    /* HTTP/2 */
    nghttp2_session *session;
    struct http_x *head;  /* the request whose header is coming in */
    int64_t drain_ms;     /* when the first GOAWAY was sent; 0 = none; -1 = the second was */
    size_t session_bytes; /* of its memory */
    int purse;            /* h2_guard.c */
    int64_t purse_ms;
    bool calmed; /* it was told to go for what it cost */
};

struct http_x {
    struct net_exchange x;
    struct http_conn *conn;
    struct list_node node;     /* conn->open or http->over */
    struct net_header *fields; /* while the header comes in: offsets in `text` */
    size_t n_fields, fields_cap;
    struct hp_buf text; /* of the request's header */
    size_t head_cost;   /* of memory for the header and itself, in `bytes` */
    size_t head_bytes;  /* of the header, as max_headers counts; trailers too */
    struct hp_buf out;  /* HTTP/2: the response's body that wasn't framed yet */
    size_t out_at;
    struct hp_buf trailers; /* name, NUL, value, NUL, … */
    size_t n_trailers;
    size_t unconsumed, held;
    int64_t heard_ms, sent_ms; /* when the last of the body came; when the last of the response left */
    int64_t left;              /* HTTP/1.1: of the announced length; -1 = none was */
    int32_t stream;
    bool request_ended, end_told, responded, ended, over, complete;
    bool end_sent;  /* HTTP/2: the frame that ends the response has been made */
    bool resetting; /* HTTP/2: its end is on its way */
    bool deferred;  /* HTTP/2: nghttp2 waits for more of it */
    bool no_body;   /* HEAD, 204, 304 */
    bool chunked;   /* HTTP/1.1 */
    bool last;      /* HTTP/1.1: the connection is closed after it */
    bool streamed;  /* HTTP/1.1: answered piece by piece: without a bound in time for all of it */
    bool full;      /* net_exchange_write has said no */
    bool too_large; /* its header */
    bool expects;   /* HTTP/2: Expect: 100-continue */
    bool offered;   /* the handler has it */
    bool unbegun;   /* its request is whole, but the handler isn't told before it is its turn */
};

/* ---- http_conn.c ---- */

void http_on_accept(struct net_listener *listener, int fd);
/* It is closed at the end of the turn, whatever is left to be sent. */
void http_doom(struct http_conn *conn);
/* The same because of what the peer did. */
void http_doom_protocol(struct http_conn *conn);
/* At the end of the turn it is looked after: what is to be sent is. */
void http_dirty(struct http_conn *conn);
/* It is closed, and its exchanges are over. */
void http_close(struct http_conn *conn);
/* Nothing is served on it any more: its exchanges are over. What is to be sent leaves. */
void http_end(struct http_conn *conn);
/* All that was to be sent has left: no more will be, and what comes is thrown away for a while. */
void http_linger(struct http_conn *conn);
/* One reference less; without any it is freed at the end of the turn, so that whoever works on it may look whether it is closed. */
void http_unref(struct http_conn *conn);
void http_on_bury(struct io_task *task);
/* It is closed, to make room for others. */
void http_give_way(struct http_conn *conn);
/* It has nothing but requests that aren't whole, and they take longer than any should. */
bool http_is_slow(const struct http_conn *conn);
/* It has become idle, or ceased to be. */
void http_set_idle(struct http_conn *conn);
/* What it is late with is looked for no later than at `at_ms`; what else it may be late with from now on. */
void http_due(struct http_conn *conn, int64_t at_ms);
void http_mind_time(struct http_conn *conn);
/* It is in the middle of something that must end in time; or not any more. */
void http_amid(struct http_conn *conn, bool amid);
/* So many bytes more (or less) are held for it. */
void http_count(struct http_conn *conn, ssize_t bytes);
/* So many more bytes of its responses, or fewer, aren't in `out`. */
void http_count_unsent(struct http_conn *conn, ssize_t bytes);
/* Bytes of its requests that are held, and of all connections'. */
size_t http_received(const struct http_conn *conn);
size_t http_received_all(const struct net_http *http);
void http_on_police(struct io_task *task);
int64_t http_now(const struct net_http *http);
/* Zeroed, or NULL; by the port of proto/c/arena.h, so that a test can make it fail. */
void *http_alloc(size_t n, size_t size);

/* ---- http_share.c ---- */

void http_share_init(struct net_http *http);
/* Something is to be done for it now. False: not before its turn, which comes by http_take_turn. */
bool http_share_begin(struct http_conn *conn);
/* It was done, and cost what it did. */
void http_share_end(struct http_conn *conn);
/* It waits for its turn, and doesn't hear of anything else before; of the peer's hanging up only if it wants to. */
void http_share_wait(struct http_conn *conn, bool hangup);
/* Its request is read to its end although much is held, unless enough others are. */
void http_share_favour(struct http_conn *conn);
void http_share_unfavour(struct http_conn *conn);
/* It is closed: there is no turn any more. */
void http_share_leave(struct http_conn *conn);
/* A connection has been accepted since http_share_begin_accept. */
void http_share_begin_accept(struct net_http *http);
void http_share_end_accept(struct net_http *http);
/* It takes so much of its credit, or of the purse. */
void http_charge(struct http_conn *conn, int64_t ns);
void http_earn(struct http_conn *conn, int64_t ns);
/* It has so much less credit, though the loop had its time meanwhile. */
void http_owe(struct http_conn *conn, int64_t ns);
/* Handlers are told of those of its requests that are whole, as far as they may be begun. False: there are more, for its next turn.
 */
bool http_begin(struct http_conn *conn);

/* ---- http_io.c ---- */

/* What it waited for is done: bytes that have come are taken, what is to be sent is. */
void http_take_turn(struct http_conn *conn);

/* For a connection's watch. */
void http_on_ready(struct io_watch *watch, unsigned events);
void http_on_flush(struct io_task *task);
/* Bytes that have been given to be sent, and that the kernel hasn't taken. */
size_t http_unsent(const struct http_conn *conn);
/* What is waited for, as it is now; a connection that can't be waited for is doomed. */
void http_set_want(struct http_conn *conn);
/* These bytes leave, behind all others. False: it is doomed. Only while it is flushed. */
bool http_emit(struct http_conn *conn, const uint8_t *data, size_t len);

/* ---- http_exchange.c ---- */

/* A new exchange of the connection. NULL: no memory. */
struct http_x *http_x_new(struct http_conn *conn);
/* One more field; `len` bytes each. False: no memory; x->too_large says that it was left out. */
bool http_x_field(struct http_x *x, const void *name, size_t name_len, const void *value, size_t value_len);
/* Room for n fields in all. */
bool http_x_room(struct http_x *x, size_t n);
/* A NUL-terminated copy in `text`, as an offset cast to a pointer until http_x_settle. NULL: no memory. */
const char *http_x_text(struct http_x *x, const void *text, size_t len);
/* Its header is whole: offsets become pointers. */
void http_x_settle(struct http_x *x);
/* The handler gets it. */
void http_x_offer(struct http_x *x);
/* Bytes of the request's body have come; `end` follows by http_x_request_end. */
void http_x_body(struct http_x *x, const void *data, size_t len);
void http_x_request_end(struct http_x *x);
/* It is over; its handler is told at the end of the turn. */
void http_x_over(struct http_x *x, bool complete);
/* Less of its response is unread: whoever waits for room is told, not from here. */
void http_x_sent(struct http_x *x, size_t bytes);
void http_on_tell(struct io_task *task);
/* Those that wait for room, and have it, are told. */
void http_tell_writable(struct http_conn *conn);
void http_free_spare(struct net_http *http);
/* No more of the request's body may come before some of it is consumed. */
bool http_x_is_full(const struct http_x *x);

/* ---- h1.c: HTTP/1.1 ---- */

bool h1_start(struct http_conn *conn);
void h1_release(struct http_conn *conn);
void h1_input(struct http_conn *conn, const uint8_t *data, size_t len);
/* An answer that has left is over; goes on with what came behind its request. */
void h1_go_on(struct http_conn *conn);
void h1_respond(struct http_x *x, int status, const struct net_header *headers, size_t n, bool end);
void h1_write(struct http_x *x, const void *data, size_t len);
void h1_end(struct http_x *x);
/* What it is in the middle of took too long: it is told so, if it can be. */
void h1_late(struct http_conn *conn);
void h1_drain(struct http_conn *conn);

/* ---- h2.c: HTTP/2 ---- */

bool h2_setup(struct net_http *http);
bool h2_start(struct http_conn *conn);
void h2_release(struct http_conn *conn);
void h2_input(struct http_conn *conn, const uint8_t *data, size_t len);
/* Frames to be sent go to http_emit. False: there were none, or it is doomed. */
bool h2_output(struct http_conn *conn);
/* There is nothing more to be said, nor to be heard. */
bool h2_is_done(const struct http_conn *conn);
/* So much waits to be sent that nothing is to be read. */
bool h2_is_overfull(const struct http_conn *conn);
/* The peer is told that there will be no more requests: first without a last one, then, when that has come to it, with it. */
void h2_drain(struct http_conn *conn);
/* The same at once: nothing is in progress. */
void h2_dismiss(struct http_conn *conn);

/* ---- h2_request.c, h2_response.c ---- */

void h2_request_callbacks(nghttp2_session_callbacks *callbacks);
void h2_response_callbacks(nghttp2_session_callbacks *callbacks);
void h2_respond(struct http_x *x, int status, const struct net_header *headers, size_t n, bool end);
void h2_resume(struct http_x *x);
void h2_consume(struct http_x *x, size_t len);
void h2_reset(struct http_x *x, uint32_t code);

/* ---- h2_guard.c ---- */

bool h2_reserve_new(struct net_http *http);
nghttp2_mem h2_memory(struct http_conn *conn);
void h2_purse_init(struct http_conn *conn);
void h2_earn(struct http_conn *conn);
void h2_spend(struct http_conn *conn);
int h2_on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg);

#endif
