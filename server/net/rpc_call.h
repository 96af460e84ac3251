/*
 * rpc_call.h - one call over HTTP, from its request's header until it is answered and its exchange is closed; for rpc*.c and
 * connect*.c.
 *
 *     header ─▶ body ─▶ given ─▶ answered        (a caller that sends a stream: given at once, and body after it)
 *        └───────┴── ended: the peer has been told of an error, and nothing more is said to it
 *
 * `x` is NULL once the exchange was closed, which may be in any state. A call is freed when it is closed, owes the services nothing
 * (it was never given, or was answered), and is in none of its own functions (`holds`).
 */
#ifndef HOLDFAST_NET_RPC_CALL_H
#define HOLDFAST_NET_RPC_CALL_H

#include "base/list.h"
#include "net/gzip.h"
#include "net/rpc.h"
#include "proto/c/buf.h"
#include "proto/c/grpc.h"

struct rpc_call;
struct rpc_decoding;

/* How a call is spoken of on the wire. */
struct rpc_protocol {
    const char *name; /* hp_peer.transport */
    bool framed;      /* messages have a prefix each; otherwise the body is the one message */
    /* A response of messages begins. */
    void (*begin)(struct rpc_call *rc);
    /* The one response of a unary call. */
    void (*reply)(struct rpc_call *rc, const ProtobufCMessage *response);
    /* The response ends, begun or not: NULL = well. */
    void (*end)(struct rpc_call *rc, const struct hp_status *status);
};
extern const struct rpc_protocol rpc_grpc, rpc_connect, rpc_connect_stream;

/* What a request's header says, as far as it matters here. All NULL if absent. */
struct rpc_head {
    const char *content_type, *timeout, *encoding, *accept, *version, *origin;
};

struct net_rpc {
    struct io *io;
    struct net_rpc_config cfg;
    struct net_rpc_stats stats;
    struct list calls;
    struct rpc_call *spare; /* calls to be used again, linked by next_spare, with their buffers and arenas */
    int n_spare;
    struct net_gzip *gzip;
    struct hp_buf out, zipped; /* the message that is about to go, with room for a prefix before it */
    struct hp_buf plain;       /* JSON that has come, decompressed */
};

struct rpc_call {
    struct hp_call call;
    struct net_rpc *rpc;    /* NULL: orphan */
    struct net_exchange *x; /* NULL: closed */
    struct list_node node;  /* in rpc->calls */
    struct rpc_call *next_spare;
    const struct rpc_protocol *protocol;
    const char *content_type;       /* of the response */
    const struct hp_method *method; /* NULL: unknown */
    struct hp_peer peer;
    bool json, in_gzip, out_gzip, cors;
    bool given, answered, begun, ended;
    bool full;        /* the peer reads less than we write */
    bool whole;       /* a unary request's message is there */
    bool last;        /* `pending` ends with the request's end */
    bool listens;     /* the service takes what its caller's stream brings */
    bool told_end;    /* the service knows of the end of its caller's stream */
    bool is_gone;     /* the service knows that its caller has gone, or will */
    bool gone_posted; /* at the end of the turn */
    int holds;
    size_t held;                   /* in rpc->stats.held, and told to HTTP */
    struct hp_grpc_reader reader;  /* its buffer has the body of a call that isn't framed */
    struct hp_buf message;         /* the request as protobuf, if it came compressed or as JSON */
    struct hp_buf pending;         /* what came while `full`, or before the service listened */
    struct rpc_decoding *decoding; /* NULL: it isn't */
    struct io_timer deadline;      /* of streams */
    struct io_task gone;
    struct hp_arena *spare_arena;
};

/* rpc_head.c */

/* From the headers; those that mean the same under other names in the three protocols are put together. */
void rpc_head_read(struct rpc_head *head, const struct net_exchange *x);
/* The protocol of this content-type (and whether its messages are JSON), or NULL. `reply_type`: what the response's will be. */
const struct rpc_protocol *rpc_protocol_of(const char *content_type, bool *json, const char **reply_type);
/* Takes encodings and timeout from the header. False: `status` tells why not. */
bool rpc_head_take(struct rpc_call *rc, const struct rpc_head *head, struct hp_status *status);
/* Whether a list such as "br;q=1.0, gzip;q=0.5" has gzip in it. NULL has nothing. */
bool rpc_accepts_gzip(const char *list);

/* rpc_http.c: what is no call. */

/* The exchange is answered by this status and a line of text; `allow`: for 405, NULL otherwise. */
void rpc_http_refuse(struct net_exchange *x, int status, const char *text, const char *allow);
/* The answer to a browser that asks whether it may send a call. */
void rpc_http_preflight(struct net_rpc *rpc, struct net_exchange *x);
/* Whether pages of this origin may call. */
bool rpc_cors_allows(const struct net_rpc *rpc, const char *origin);
/* Appends the headers that let a browser's page read the response; at most RPC_CORS_HEADERS. */
enum { RPC_CORS_HEADERS = 3 };
size_t rpc_cors_headers(const struct rpc_call *rc, struct net_header *headers);

/* rpc_decode.c: messages as protobuf. */

/* Of a unary call, whose message in the reader is whole: it is given or fails, now or when the message has been decoded. */
void rpc_decode(struct rpc_call *rc, bool compressed);
/* Of a stream: the message, wherever it then is. False: the call has failed. A message that is compressed or JSON has 64 KiB at
 * most. */
bool rpc_decode_here(struct rpc_call *rc, bool compressed, const void **payload, size_t *len);
/* Bytes of a request that is being decoded. */
size_t rpc_decode_held(const struct rpc_call *rc);
/* The call is gone: nobody waits for it. */
void rpc_decode_forget(struct rpc_call *rc);
/* A message of `size` bytes, or more, is more than `max`. */
void rpc_too_large(struct hp_status *status, size_t size, bool at_least, size_t max);

/* rpc_body.c: from a body to messages. */

/* Bytes of one message as it comes, decompressed. */
size_t rpc_limit_of(const struct rpc_call *rc);

void rpc_body(struct net_exchange *x, const void *data, size_t len, bool end);
/* What came meanwhile is taken, if it may be. */
void rpc_body_pending(struct rpc_call *rc);

/* rpc.c */

/* The call is with the services. `payload` is needed until it is answered. */
void rpc_give(struct rpc_call *rc, const void *payload, size_t len);
/* The peer is told of an error, whatever state the call is in; a call that was given learns that it has gone. */
void rpc_fail(struct rpc_call *rc, const struct hp_status *status);
/* rpc_memory.c */

/* A zeroed call of this port. NULL: no memory. */
struct rpc_call *rpc_call_new(struct net_rpc *rpc);
/* It is gone, or kept for another one. */
void rpc_call_free(struct rpc_call *rc);
/* Those that are kept are gone. */
void rpc_spare_free(struct net_rpc *rpc);
/* The call must not be freed between these two. */
void rpc_hold(struct rpc_call *rc);
void rpc_let_go(struct rpc_call *rc);
/* Counts what the call holds of its request now, here and for HTTP, which may close the exchange for it. */
void rpc_count_held(struct rpc_call *rc);
/* For a call with a payload of this length. NULL: no memory. */
struct hp_arena *rpc_arena_for(struct rpc_call *rc, size_t len);
/* The call's arena, unless its service took it, is gone or kept. */
void rpc_arena_back(struct rpc_call *rc);

/* rpc_encode.c */

/* The message in rpc->out or rpc->zipped, behind HP_GRPC_PREFIX bytes that are for the prefix. NULL: `status` says why not; the
 * call was carried out all the same, so that is an outcome that is not known. */
struct hp_buf *rpc_encode(struct rpc_call *rc, const ProtobufCMessage *message, struct hp_status *status);
/* Whether that one is compressed. */
bool rpc_compressed(const struct rpc_call *rc, const struct hp_buf *encoded);
/* One message of a framed response has gone. */
void rpc_send_message(struct rpc_call *rc, const ProtobufCMessage *message);

#endif
