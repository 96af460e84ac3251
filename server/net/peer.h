/*
 * peer.h - who is at the other end of a socket, as calls carry it (proto/c/call.h).
 */
#ifndef HOLDFAST_NET_PEER_H
#define HOLDFAST_NET_PEER_H

#include <arpa/inet.h>

#include "proto/c/call.h"

enum { NET_ADDRESS_BYTES = INET6_ADDRSTRLEN + 10 };

struct net_peer {
    struct hp_peer base; /* its `address` is the one below, so it must be copied by net_peer_copy */
    char address[NET_ADDRESS_BYTES];
};

/* `peer` says who is connected to `fd`, whatever kind of socket that is; `transport` is static. Neither encrypted nor certified. */
void net_peer_describe(struct net_peer *peer, int fd, const char *transport);

static inline void net_peer_copy(struct net_peer *to, const struct net_peer *from)
{
    *to = *from;
    to->base.address = to->address;
}

#endif
