/*
 * out.h - what is still to be sent on a connection: messages one behind the other, gathered so that many small ones leave in one
 * system call.
 */
#ifndef HOLDFAST_NET_OUT_H
#define HOLDFAST_NET_OUT_H

#include <stddef.h>

struct net_chunk;

struct net_out {
    struct net_chunk *first, *last;
    size_t bytes;  /* not sent yet */
    long messages; /* not sent yet; one of which a part is left counts, as do those that share its chunk */
};

/* Room for one more message of n bytes behind all others, to be filled in before the next call. NULL: no memory. */
void *net_out_append(struct net_out *out, size_t n) __attribute__((warn_unused_result));

/* As much has been sent as the socket took: 0, or -errno if the connection has broken. Does not block. */
int net_out_send(struct net_out *out, int fd) __attribute__((warn_unused_result));

/* It is empty; what was not sent is lost. */
void net_out_release(struct net_out *out);

#endif
