/*
 * peer.c - see peer.h.
 */
#include "net/peer.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static bool is_local(const union address *address)
{
    const struct in6_addr *v6 = &address->v6.sin6_addr;
    if (address->any.sa_family == AF_UNIX)
        return true;
    if (address->any.sa_family == AF_INET)
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return address->any.sa_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127));
}

void net_peer_describe(struct net_peer *peer, int fd, const char *transport)
{
    union address address;
    socklen_t len = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "";
    memset(&address, 0, sizeof(address));
    address.any.sa_family = AF_UNSPEC;
    snprintf(peer->address, sizeof(peer->address), "gone"); /* it may be, already */
    if (getpeername(fd, &address.any, &len) == 0) {
        if (address.any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &address.v6.sin6_addr, host, sizeof(host)))
            snprintf(peer->address, sizeof(peer->address), "[%s]:%d", host, ntohs(address.v6.sin6_port));
        else if (address.any.sa_family == AF_INET && inet_ntop(AF_INET, &address.v4.sin_addr, host, sizeof(host)))
            snprintf(peer->address, sizeof(peer->address), "%s:%d", host, ntohs(address.v4.sin_port));
        else
            snprintf(peer->address, sizeof(peer->address), "ipc");
    }
    peer->base = (struct hp_peer){.local = is_local(&address), .address = peer->address, .transport = transport};
}
