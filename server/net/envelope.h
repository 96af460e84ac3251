/*
 * envelope.h - envelopes in flight: from the bytes of a request envelope to calls, and from their answers to the bytes of
 * the reply envelope. No sockets and no threads: nng.c brings bytes and takes bytes.
 *
 * An envelope owns its calls and their arenas, and is gone once its last call was answered. Its replies go out together,
 * in call order. Envelopes of one connection are linked to its `net_source`, so that what it costs to tell them that it has
 * gone depends on them alone.
 */
#ifndef HOLDFAST_NET_ENVELOPE_H
#define HOLDFAST_NET_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io.h"
#include "base/list.h"
#include "net/peer.h"

/* A connection that envelopes come from. It must outlive them, or they must be orphans by then; when `from` is handed back to
 * send or drop, the envelope has left it. */
struct net_source {
    struct list envelopes;
    struct list told; /* envelopes whose calls know that it has gone */
    bool gone;        /* nobody reads its replies any more */
    struct net_peer peer;
};

struct net_envelopes {
    struct io *io;
    size_t reply_max;
    int default_wait_ms;
    void (*on_call)(void *arg, struct hp_call *call);
    void *on_call_arg;

    /* Each envelope that was taken ends in one of these, unless it is an orphan by then: a reply of `size` bytes goes to where
     * the request `from` came from, `write` fills in its bytes before `send` returns (false: it was dropped); or there is none. */
    bool (*send)(struct net_envelopes *envelopes, void *from, size_t size, void (*write)(void *arg, void *body), void *arg);
    void (*drop)(struct net_envelopes *envelopes, void *from);
    /* An envelope is gone, and what it counted for. */
    void (*finished)(struct net_envelopes *envelopes);

    struct list list;
    long in_flight;
    size_t bytes; /* an estimate of the memory held by envelopes in flight */
    long n_envelopes, n_calls, n_undecodable, n_dropped;
};

void net_envelopes_init(struct net_envelopes *envelopes, struct io *io, size_t reply_max, int default_wait_ms);

/* `fd`: its socket, by which its calls know who is there; -1: nobody knows. */
void net_source_init(struct net_source *source, int fd);

/* The envelope is in flight and each of its calls was given to on_call; or it was answered already, if it could not be
 * decoded. The bytes are not needed afterwards. `from` is handed back to `send` or `drop`; `received_ms`: when it came, by
 * io's clock. If the source is gone already, its calls are told so. */
void net_envelopes_take(struct net_envelopes *envelopes, struct net_source *source, void *from, const void *body, size_t len,
                        int64_t received_ms);

/* The source is gone: each of its calls that was not answered has been told (proto/c/call.h), and no reply of theirs is made or
 * sent. */
void net_source_gone(struct net_source *source);

/* Envelopes still in flight belong to nobody: their calls may still be answered, their replies are dropped. */
void net_envelopes_orphan(struct net_envelopes *envelopes);

#endif
