/*
 * sp.h - the transport for clients with nng: one listener that turns envelopes into calls and answers into envelopes.
 *
 * It is the REP side of nng's protocol on our own loop (proto/c/sp.h has the framing), without nng: calls that wait use up
 * nothing but memory, which is bounded, and no thread but the loop's is there. Beyond the bounds below connections aren't
 * read, and TCP pushes back. A reply is never dropped while its connection stands, however many end at once and however slowly
 * they are read; a client that reads none of them for stall_ms is disconnected, and so is one that stops amid a request. When a
 * connection ends, each of its calls is told (`gone` in proto/c/call.h).
 *
 * Order at the end of a program: st_close (every item ends, so every call is answered), svc_free, net_sp_free, loop_free.
 */
#ifndef HOLDFAST_NET_SP_H
#define HOLDFAST_NET_SP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/io.h"
#include "proto/c/call.h"

/* Zero means the default. */
struct net_sp_config {
    int max_envelopes;   /* in flight, received and not yet answered, or their replies not yet sent; 0 = 32,768 */
    size_t max_bytes;    /* of envelopes arriving or in flight, and replies not yet sent; 0 = 256 MiB */
    int max_connections; /* more are closed at once; those that have not greeted make room first. 0 = 4,096 */
    size_t reply_max;    /* bytes of one reply envelope; 0 = HP_ENVELOPE_MAX. Answers beyond it become OUTCOME_LOST */
    int default_wait_ms; /* for calls with timeout_ms 0; 0 = 30,000 */
    int stall_ms;        /* a connection that takes no reply, or brings no more of a request, for so long is closed; 0 = 30,000 */
    int greeting_ms;     /* a connection that has not greeted for so long is closed; 0 = 10,000 */
};

struct net_sp_stats {
    long envelopes, calls, undecodable, dropped_replies; /* since it was opened */
    long in_flight;                                      /* envelopes */
    long sending;                                        /* replies that have not left */
    size_t bytes;
    int connections; /* open now */
    long refused;    /* connections closed since it was opened because there were too many, or no file descriptors */
};

struct net_sp;

/*
 * It listens on `url` (tcp://HOST:PORT, port 0 picks one; ipc://PATH), and every call that arrives is given to `on_call`, which
 * answers it once, at once or later. NULL: `error` (of `error_len` bytes) names what is wrong. `io` must outlive it. Resolves the
 * host's name, and may block for that.
 */
struct net_sp *net_sp_listen(struct io *io, const char *url, const struct net_sp_config *cfg,
                             void (*on_call)(void *arg, struct hp_call *call), void *arg, char *error, size_t error_len)
    __attribute__((warn_unused_result));

/* The URL it listens on, with the port that was picked. */
const char *net_sp_url(const struct net_sp *sp);

/* Nothing is in flight, every reply has been handed to the network, and long enough ago that it has left. */
bool net_sp_idle(const struct net_sp *sp);

void net_sp_stats(const struct net_sp *sp, struct net_sp_stats *out);

/* The listener and its connections are closed. Calls that were not answered stay valid until they are, and their replies are
 * dropped. Does not block. NULL is allowed. */
void net_sp_free(struct net_sp *sp);

#endif
