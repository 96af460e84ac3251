/*
 * call.h - one call, as any transport hands it to the services.
 *
 * A transport makes it, with an arena for everything that belongs to it; the services answer it exactly once, at once or
 * later, on the loop's thread. What `answer` is given is encoded before it returns, so a response may borrow.
 *
 * When its caller can no longer be answered, the transport calls `gone`: once at most, never before the call was given to
 * the services and never after the answer. The call is still to be answered, perhaps from within `gone`; what the answer says is
 * thrown away, so it should cost nothing.
 */
#ifndef HOLDFAST_PROTO_CALL_H
#define HOLDFAST_PROTO_CALL_H

#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/c/arena.h"
#include "proto/c/err.h"

struct hp_call {
    struct hp_arena *arena; /* freed by the transport after the answer; a service that answers while work of its own still
                               uses it takes it: sets NULL before the answer, and frees it itself */
    const char *method;     /* "/holdfast.v1.LeaseService/Acquire" */
    const void *payload;    /* the serialized request; not yet checked */
    size_t payload_len;
    int64_t received_ms; /* the loop's monotonic clock */
    int64_t deadline_ms; /* the caller's patience ends */
    size_t n_metadata;
    const char *const *metadata; /* name, value, name, value, … */

    /* Ends the call: `status` NULL or OK with `response`, or an error with NULL. The call must not be touched after. */
    void (*answer)(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response);
    void *transport; /* its own */

    void (*gone)(struct hp_call *call); /* set by the service; NULL: it doesn't care */
    void *service;                      /* the service's own */
};

#endif
