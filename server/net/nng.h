/*
 * nng.h - the nng transport: one REP socket that turns envelopes into calls and answers into envelopes.
 *
 * nng's own threads only hand messages over (net/mailbox.h); everything else happens on the loop's thread. The socket's
 * contexts are made as they are needed, so calls that wait use up nothing but memory, which is bounded: beyond the bounds
 * below the socket isn't read, and TCP pushes back. A reply is never dropped while its connection stands, however many end at
 * once and however slowly they are read; a client that reads none of them for stall_ms is disconnected. When a connection ends,
 * each of its calls is told (`gone` in proto/c/call.h).
 *
 * Order at the end of a program: st_close (every item ends, so every call is answered), svc_free, net_nng_free, loop_free.
 */
#ifndef HOLDFAST_NET_NNG_H
#define HOLDFAST_NET_NNG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/io.h"
#include "proto/c/call.h"

/* Zero means the default. */
struct net_nng_config {
    int max_envelopes;   /* in flight, received and not yet answered, or their replies not yet sent; 0 = 32,768 */
    size_t max_bytes;    /* of envelopes in flight and replies not yet sent; 0 = 256 MiB */
    int max_queue;       /* messages that nng has handed over and the loop hasn't looked at; 0 = 16 */
    int max_connections; /* more are closed at once; 0 = 4,096 */
    size_t reply_max;    /* bytes of one reply envelope; 0 = HP_ENVELOPE_MAX. Answers beyond it become QUEUE_FULL */
    int default_wait_ms; /* for calls with timeout_ms 0; 0 = 30,000 */
    int stall_ms;        /* a connection that takes none of its replies for so long is closed; 0 = 30,000 */
};

struct net_nng_stats {
    long envelopes, calls, undecodable, dropped_replies; /* since it was opened */
    long in_flight;                                      /* envelopes */
    long sending;                                        /* replies that have not left */
    size_t bytes;
    int connections; /* open now */
    long refused;    /* connections closed at once since it was opened: there were max_connections */
};

struct net_nng;

/*
 * The socket listens on `url` (tcp://HOST:PORT, port 0 picks one; ipc://PATH), and every call that arrives is given to
 * `on_call` on the loop's thread, which answers it once, at once or later. NULL: `error` (of `error_len` bytes) names what
 * is wrong. `io` must outlive it.
 */
struct net_nng *net_nng_listen(struct io *io, const char *url, const struct net_nng_config *cfg,
                               void (*on_call)(void *arg, struct hp_call *call), void *arg, char *error, size_t error_len)
    __attribute__((warn_unused_result));

/* The URL it listens on, with the port that was picked. */
const char *net_nng_url(const struct net_nng *nng);

/* Nothing is in flight, every reply has been handed to the network, and long enough ago that it has left. */
bool net_nng_idle(const struct net_nng *nng);

void net_nng_stats(const struct net_nng *nng, struct net_nng_stats *out);

/* The socket is closed, nng's threads no longer touch anything of it, and messages not looked at are dropped. Calls that
 * were not answered stay valid until they are, and their replies are dropped. Blocks while nng's callbacks run, and up to
 * a second while nng closes its connections. NULL is allowed. */
void net_nng_free(struct net_nng *nng);

#endif
