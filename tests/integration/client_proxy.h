/*
 * client_proxy.h - a TCP proxy between a client and a server that can misbehave, in a thread of the test's.
 */
#ifndef HOLDFAST_TESTS_INTEGRATION_CLIENT_PROXY_H
#define HOLDFAST_TESTS_INTEGRATION_CLIENT_PROXY_H

#include <stddef.h>

struct proxy;

enum proxy_mode {
    PROXY_PASS,
    PROXY_DROP_ANSWERS, /* what the server says is thrown away; the server still gets everything */
    PROXY_DROP_ALL      /* both directions, without a reset */
};

/* Listens on a free port of 127.0.0.1 and forwards to `server_url` (tcp://HOST:PORT). */
struct proxy *proxy_start(const char *server_url);
void proxy_stop(struct proxy *proxy);
const char *proxy_url(const struct proxy *proxy);
void proxy_mode(struct proxy *proxy, enum proxy_mode mode);
/* All connections are cut, as by a crash; new ones are taken. */
void proxy_cut(struct proxy *proxy);
/* Bytes that the server has sent and that were thrown away since the last change of mode. */
size_t proxy_dropped(struct proxy *proxy);

#endif
