/*
 * envelope.h - envelopes in flight: from the bytes of a request envelope to calls, and from their answers to the bytes of
 * the reply envelope. No sockets and no threads: nng.c brings bytes and takes bytes.
 *
 * An envelope owns its calls and their arenas, and is gone once its last call was answered. Its replies go out together,
 * in call order.
 */
#ifndef HOLDFAST_NET_ENVELOPE_H
#define HOLDFAST_NET_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io.h"
#include "base/list.h"
#include "proto/c/call.h"

struct net_envelopes {
    struct io *io;
    size_t reply_max;
    int default_wait_ms;
    void (*on_call)(void *arg, struct hp_call *call);
    void *on_call_arg;

    /* A reply of `size` bytes goes to where the request with this header came from; `write` fills in its bytes before
     * `send` returns. False: it was dropped. */
    bool (*send)(struct net_envelopes *envelopes, const void *header, size_t header_len, size_t size,
                 void (*write)(void *arg, void *body), void *arg);
    /* An envelope is gone, and what it counted for. */
    void (*finished)(struct net_envelopes *envelopes);

    struct list list;
    long in_flight;
    size_t bytes; /* an estimate of the memory held by envelopes in flight */
    long n_envelopes, n_calls, n_undecodable, n_dropped;
};

void net_envelopes_init(struct net_envelopes *envelopes, struct io *io, size_t reply_max, int default_wait_ms);

/* The envelope is in flight and each of its calls was given to on_call; or it was answered already, if it could not be
 * decoded. The bytes are not needed afterwards. `received_ms`: when it came, by io's clock. */
void net_envelopes_take(struct net_envelopes *envelopes, const void *header, size_t header_len, const void *body, size_t len,
                        int64_t received_ms);

/* Envelopes still in flight belong to nobody: their calls may still be answered, their replies are dropped. */
void net_envelopes_orphan(struct net_envelopes *envelopes);

#endif
