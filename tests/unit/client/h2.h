/*
 * h2.h - a server of HTTP/2 for the tests of the client, frame by frame: what it says, and when, is the test's. With or without
 * TLS. One thread; everything fails the test if it takes too long.
 */
#ifndef HOLDFAST_TESTS_UNIT_CLIENT_H2_H
#define HOLDFAST_TESTS_UNIT_CLIENT_H2_H

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { H2_END_STREAM = 1, H2_END_HEADERS = 4, H2_ACK = 1 };

/* A request, whole. */
struct h2_request {
    int32_t stream;
    char method[8], scheme[8], path[128], authority[64], te[16], type[32], timeout[16], authorization[64];
    uint8_t *message; /* without its five bytes; malloc'd, freed by the next h2_request of the same struct */
    size_t len;
};

struct h2 {
    int fd;
    SSL *ssl; /* NULL: in the clear */
    nghttp2_hd_inflater *inflater;
    nghttp2_hd_deflater *deflater;
    struct h2_request parts[16]; /* requests that aren't whole yet; stream 0 = none */
};

struct h2_frame {
    uint8_t type, flags;
    int32_t stream;
    size_t len;
    uint8_t bytes[65536];
};

/* The client's connection is there, TLS (if ctx isn't NULL) is through, and its preface was read; the SETTINGS are ours and allow
 * as many streams as that, if not 0. */
void h2_accept(struct h2 *h2, int fd, SSL_CTX *ctx, uint32_t max_streams);
void h2_close(struct h2 *h2);
/* The connection's bytes, as they are. False: it has ended. */
bool h2_read(struct h2 *h2, void *data, size_t n);
void h2_write(struct h2 *h2, const void *data, size_t n);

/* The next frame but SETTINGS and WINDOW_UPDATE. False: the connection has ended. */
bool h2_next(struct h2 *h2, struct h2_frame *frame);
/* The next request that is whole. The test fails if something else comes. */
void h2_request(struct h2 *h2, struct h2_request *request);

void h2_frame(struct h2 *h2, uint8_t type, uint8_t flags, int32_t stream, const void *data, size_t len);
/* Names and values, ended by NULL. */
void h2_headers(struct h2 *h2, int32_t stream, int flags, ...) __attribute__((sentinel));
/* A gRPC message, in as many DATA frames as it takes. */
void h2_message(struct h2 *h2, int32_t stream, const void *data, size_t len);
/* The whole answer: headers, a message, trailers with OK. */
void h2_answer(struct h2 *h2, int32_t stream, const void *data, size_t len);
void h2_reset(struct h2 *h2, int32_t stream, uint32_t code);
void h2_goaway(struct h2 *h2, int32_t last, uint32_t code);

#endif
