/*
 * grpc.h - just enough of gRPC for a load generator: calls, and streams of messages, over HTTP/2 by libnghttp2.
 *
 * Several calls share a connection. What is started while a connection's data is being read goes out together. One thread; errors
 * end the program (peer.h). A peer that uses it has `Links: grpc.c -lnghttp2`.
 */
#ifndef HOLDFAST_TESTS_BENCH_GRPC_H
#define HOLDFAST_TESTS_BENCH_GRPC_H

#include <stddef.h>
#include <stdint.h>

enum { GRPC_MESSAGE_MAX = 1024 }; /* that is sent */

struct grpc_conn;

/* One call at a time, zeroed at first. */
struct grpc_call {
    struct grpc_conn *conn;
    void (*answered)(struct grpc_call *call, const uint8_t *message, size_t len);
    void *arg;

    /* inside */
    int stream; /* of HTTP/2 */
    int status; /* gRPC's */
    int stays;  /* a stream that stays open */
    uint8_t out[GRPC_MESSAGE_MAX + 5], *in;
    size_t out_len, in_len, in_cap;
};

/* To a port of 127.0.0.1. */
struct grpc_conn *grpc_connect(int port);
/* answered() is called with the response. */
void grpc_unary(struct grpc_call *call, const char *path, const void *message, size_t len);
/* The same on a stream that stays open: it is opened by the first message, and each response is told. */
void grpc_message(struct grpc_call *call, const char *path, const void *message, size_t len);

#endif
