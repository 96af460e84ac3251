/*
 * stream.h - calls that go on until somebody ends them: their caller, the server that drains, or auth. For the handlers of streams.
 */
#ifndef HOLDFAST_SERVICE_STREAM_H
#define HOLDFAST_SERVICE_STREAM_H

#include "base/list.h"
#include "service/call.h"

struct svc_stream {
    struct list_node node; /* in svc->streams */
    struct svc_call *sc;
    /* It is about to end, and may still send: the handler's own things are to be let go. May be NULL. */
    void (*leave)(struct svc_stream *stream);
};

/* The call goes on. `stream` is zeroed but for `leave`, and lives in the call's arena. False: its transport has no streams, and the
 * call has ended. */
bool svc_stream_begin(struct svc_call *sc, struct svc_stream *stream) __attribute__((warn_unused_result));
/* The call ends: NULL = well. */
void svc_stream_end(struct svc_stream *stream, const struct hp_status *status);
/* All of them end, with DRAINING. */
void svc_streams_end(struct svc *svc);

#endif
