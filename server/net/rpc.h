/*
 * rpc.h - calls over HTTP: gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) and Connect
 * (https://connectrpc.com/docs/protocol), from a request to a struct hp_call and from its answer to a response. No sockets.
 *
 * What a request is, its content-type says: application/grpc is gRPC (over HTTP/2 only); application/json and application/proto
 * are Connect's unary calls, which any HTTP client can make; application/connect+json and +proto are Connect's streams. What
 * cannot be a call is answered by HTTP's statuses. JSON becomes protobuf here and back (net/json_read.h, proto/c/json.h), so
 * that whoever is called sees one form.
 *
 * A unary call is given out once its request is whole; a call whose caller sends a stream as soon as it begins. When its exchange
 * is closed before it was answered, the call is told that it has gone (proto/c/call.h), never from within one of its own functions.
 * All on the loop's thread, but for large requests that aren't plain protobuf: `offload` inflates and reads them, one after the
 * other, 64 of each rank waiting at most, in up to 32 MiB beyond what is counted.
 */
#ifndef HOLDFAST_NET_RPC_H
#define HOLDFAST_NET_RPC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/io.h"
#include "net/http.h"
#include "proto/c/call.h"

struct net_rpc;
struct offload;

/* Zero means the default. */
struct net_rpc_config {
    /* The method of this path; NULL: there is none (the call is given out all the same, without a payload, and is to be refused).
     */
    const struct hp_method *(*find)(void *arg, const char *path);
    void (*on_call)(void *arg, struct hp_call *call);
    /* Whether its caller is known, by the metadata; asked before a large request is read. NULL: nobody is. */
    bool (*knows)(void *arg, const struct hp_call *call);
    void *arg;               /* of all three */
    const char *cors_origin; /* pages of this origin may call Connect from a browser; "*" = of any; NULL = none */
    size_t request_max;      /* bytes of one message that comes, decompressed; of JSON twice as many; 0 = HP_REQUEST_MAX */
    size_t reply_max;        /* bytes of one message that goes; 0 = HP_ENVELOPE_MAX */
    int max_calls;           /* at one time; 0 = 65,536 */
    int default_wait_ms;     /* of unary calls that name no timeout; 0 = 30,000 */
    struct offload *offload; /* decodes requests of more than 16 KiB that are compressed or JSON; NULL: the loop does. Borrowed */
};

struct net_rpc_stats {
    long grpc, connect; /* calls, since it was made */
    long not_calls;     /* requests that were answered by an HTTP status */
    long refused;       /* calls that were not given out: malformed, too large, too many */
    long cancelled;     /* their callers went before they were answered */
    long in_flight;     /* calls now */
    size_t held;        /* bytes of their requests */
};

/* NULL: no memory. `cfg` is copied, its string not; `io` must outlive it. */
struct net_rpc *net_rpc_new(struct io *io, const struct net_rpc_config *cfg) __attribute__((warn_unused_result));
/* The exchange is answered, now or later, from net_http's on_request. */
void net_rpc_request(struct net_rpc *rpc, struct net_exchange *x);
void net_rpc_stats(const struct net_rpc *rpc, struct net_rpc_stats *out);
/* Its exchanges must be closed: net_http_free comes first. Calls that are not answered yet may still be, to no effect. NULL is
 * allowed. */
void net_rpc_free(struct net_rpc *rpc);

#endif
