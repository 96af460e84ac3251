/*
 * grpc.h - what the files of the gRPC transport share: an envelope's calls as streams of one HTTP/2 connection an endpoint. For
 * these alone; transport.h has the rest.
 *
 * grpc_conn.c has the connection and its bytes, grpc_streams.c the calls on it (nghttp2's session), grpc_call.c the envelopes:
 * taken apart, and put together again once all their calls have ended.
 *
 * A call has been seen by the server at most if its whole request was handed to the kernel (`end_at`, counted in bytes of the
 * connection), and surely not if the server says so: RST_STREAM with REFUSED_STREAM, or a GOAWAY that names an earlier stream as
 * its last (RFC 9113, 6.8 and 8.7).
 *
 * All with the transport's lock held; nghttp2's session and OpenSSL's are used by callers' threads too.
 */
#ifndef HOLDFAST_CLIENT_GRPC_H
#define HOLDFAST_CLIENT_GRPC_H

#include <nghttp2/nghttp2.h>

#include "client/lib/grpc_tls.h"
#include "client/lib/transport.h"
#include "proto/c/envelope.h"
#include "proto/c/grpc.h"

enum {
    GRPC_MESSAGE_MAX = 32 << 20, /* of one answer */
    GRPC_LONG_MS = 31000,        /* a call with more patience than that waits at the server */
    GRPC_SILENCE_MS = 10000,     /* with calls under way; then it is asked whether it lives, and has */
    GRPC_PING_MS = 5000,         /* so long to say anything */
    GRPC_GOING_MS = 1000         /* for the calls that are under way when the server says that it takes no more */
};

enum grpc_end {
    GRPC_PENDING, /* it has not ended */
    GRPC_UNSEEN,  /* no server saw it */
    GRPC_LOST,    /* a server may have seen it */
    GRPC_ANSWERED
};

struct grpc_exchange;

struct grpc_call {
    struct grpc_exchange *exchange;
    const Holdfast__V1__Call *call;
    struct grpc_call *next, **prev; /* among those that are open; prev is NULL before and after */
    int32_t stream;
    uint64_t end_at; /* UINT64_MAX: not all of its request was made into frames */
    uint8_t prefix[HP_GRPC_PREFIX];
    size_t taken; /* of the prefix and the payload */
    enum grpc_end end;
    /* The answer, as far as it is there. */
    int http_status;
    bool is_grpc;          /* by its content-type */
    int code;              /* -1 = none yet */
    const char *wrong;     /* it can't be used, and why */
    char message[384];     /* of the status */
    struct hp_buf details; /* and its details */
    bool has_reply;        /* the message is in `reader` */
    struct hp_grpc_reader reader;
};

struct grpc_exchange {
    struct tr_exchange base; /* first */
    struct hp_arena *arena;  /* of the calls */
    size_t n, begun, ended;  /* the first `begun` have been given to a session */
    struct grpc_call calls[];
};

struct grpc_link {
    struct tr_conn *conn;
    nghttp2_session *session; /* NULL: TLS is not through yet */
    SSL *ssl;                 /* NULL: in the clear */
    struct hp_buf out;        /* from `out_sent` on still to be sent */
    size_t out_sent;
    uint64_t made, sent; /* bytes of HTTP/2 of this connection: made into frames; handed to the kernel */
    bool settled;        /* the server's SETTINGS are there */
    bool going;          /* the server takes no more; and the time for the rest runs */
    bool told_going;
    bool begun; /* anything was read */
    struct grpc_call *open;
    size_t n_open;
    int64_t heard_ms, pinged_ms; /* pinged: 0 = it isn't asked at present */
};

/* ---- grpc_call.c ---- */

struct tr_exchange *grpc_prepare(const void *data, size_t len);
void grpc_release(struct tr_exchange *exchange);
/* The call has ended, and with it its exchange if it was the last; both are there until tr_unlock. */
void grpc_call_end(struct grpc_call *call, enum grpc_end end);
/* Those that are no server's yet will not be. */
void grpc_end_unbegun(struct grpc_exchange *exchange);

/* ---- grpc_streams.c ---- */

/* The session is made, and its greeting (preface, SETTINGS, the connection's window) is in it. False: no memory. */
bool grpc_session_new(struct grpc_link *link) __attribute__((warn_unused_result));
/* Calls of the queue are given to the session, as many as the server takes. */
void grpc_pump(struct grpc_link *link);
/* Frames are in `out`, as far as that should grow. False: the session is of no more use. */
bool grpc_make(struct grpc_link *link) __attribute__((warn_unused_result));
/* The exchange's calls are cancelled, and it has ended. */
void grpc_cancel(struct grpc_exchange *exchange);
/* All that was under way has ended. */
void grpc_end_open(struct grpc_link *link);

#endif
