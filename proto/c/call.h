/*
 * call.h - one call, as any transport hands it to the services.
 *
 * A transport makes it, with an arena for everything that belongs to it; the services answer it exactly once, at once or
 * later, on the loop's thread. What `answer` and `send` are given is encoded before they return, so a message may borrow.
 *
 * When its caller can no longer be answered, the transport calls `gone`: once at most, never before the call was given to
 * the services and never after the answer. The call is still to be answered, perhaps from within `gone`; what the answer says is
 * thrown away, so it should cost nothing.
 *
 * Streams. A method with server_streams is answered by any number of `send`s and then one `answer` without a response. To a method
 * with client_streams the call is given as soon as it begins, with no payload, and each request message comes through `message`
 * once the service listens (the next one only while what was sent is being read), then `message` with NULL: the caller sends no
 * more.
 */
#ifndef HOLDFAST_PROTO_CALL_H
#define HOLDFAST_PROTO_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/c/arena.h"
#include "proto/c/err.h"

/* A method, as far as a transport has to know it. */
struct hp_method {
    const char *path; /* "/holdfast.v1.LeaseService/Acquire" */
    const ProtobufCMessageDescriptor *request, *response;
    bool server_streams, client_streams;
};

/* Who is at the other end of a connection. Owned by it; its calls borrow it. */
struct hp_peer {
    bool local;              /* ipc:// or a loopback address */
    bool encrypted;          /* TLS */
    const char *certificate; /* the name in the client certificate that was verified (net/tls.h); NULL = none */
    const char *address;     /* for people and logs: "192.0.2.7:40312", "ipc"; never NULL */
    const char *transport;   /* "nng", "grpc", "connect"; never NULL */
};

struct hp_call {
    struct hp_arena *arena; /* freed by the transport after the answer; a service that answers while work of its own still
                               uses it takes it: sets NULL before the answer, and frees it itself */
    const char *method;     /* "/holdfast.v1.LeaseService/Acquire" */
    const void *payload;    /* the serialized request; not yet checked */
    size_t payload_len;
    int64_t received_ms; /* the loop's monotonic clock */
    int64_t deadline_ms; /* the caller's patience ends; INT64_MAX = never (a stream) */
    size_t n_metadata;
    const char *const *metadata; /* name, value, name, value, …; names in lower case. "authorization": "Bearer hfk_…" */
    const struct hp_peer *peer;  /* NULL: not known (a test); such a caller is local */

    /* Ends the call: `status` NULL or OK with `response` (NULL for a stream), or an error with NULL. The call must not be touched
     * after. */
    void (*answer)(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response);
    /* One message of the stream is on its way. False: the transport holds as much as it may of what this caller doesn't read;
     * nothing was taken, and `writable` is called once there is room. NULL: this transport has no streams. */
    bool (*send)(struct hp_call *call, const ProtobufCMessage *message);
    /* What the caller of a stream sends comes through `message` from now on. By a service that set `message` later than in on_call:
     * until then the transport keeps what comes. NULL: this transport has no streams. */
    void (*listen)(struct hp_call *call);
    void *transport; /* its own */

    void (*gone)(struct hp_call *call);                                  /* set by the service; NULL: it doesn't care */
    void (*writable)(struct hp_call *call);                              /* set by the service; NULL: it doesn't care */
    void (*message)(struct hp_call *call, const void *data, size_t len); /* set by the service, if client_streams */
    void *service;                                                       /* the service's own */
};

#endif
