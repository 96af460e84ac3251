/*
 * stream.c - see stream.h. A stream is in svc->streams from its begin to its end, and `sc->state` is it.
 */
#include "service/stream.h"

void svc_stream_end(struct svc_stream *stream, const struct hp_status *status)
{
    struct svc_call *sc = stream->sc;
    list_remove(&sc->svc->streams, &stream->node);
    if (stream->leave)
        stream->leave(stream);
    if (status)
        svc_fail(sc, status);
    else
        svc_reply(sc, NULL);
}

static void on_gone(struct hp_call *call)
{
    struct svc_call *sc = call->service;
    sc->gone = true;
    svc_stream_end(sc->state, &svc_gone);
}

static void on_expel(struct svc_call *sc, const struct hp_status *status)
{
    svc_stream_end(sc->state, status);
}

bool svc_stream_begin(struct svc_call *sc, struct svc_stream *stream)
{
    struct hp_status status;
    if (!sc->call->send) {
        hp_status_set(&status, HP_R_NO_SUCH_METHOD, "%s is a stream, which this transport has not: use gRPC or Connect",
                      sc->method->rpc.path);
        hp_status_meta(&status, "method", "%s", sc->method->rpc.path);
        svc_fail(sc, &status);
        return false;
    }
    stream->sc = sc;
    sc->state = stream;
    sc->expel = on_expel;
    sc->call->gone = on_gone;
    list_push_back(&sc->svc->streams, &stream->node);
    return true;
}

void svc_streams_end(struct svc *svc)
{
    struct list_node *node;
    struct hp_status status;
    hp_status_set(&status, HP_R_DRAINING, NULL);
    while ((node = list_first(&svc->streams)))
        svc_stream_end(list_entry(node, struct svc_stream, node), &status);
}
