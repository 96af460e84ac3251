/*
 * http_raw.h - a client of the HTTP port that does as it is told, right or wrong: bytes and frames made by hand over TCP.
 *
 * Nothing here fails a test, so that threads may use it. HTTP/2's header fields are written as literals (RFC 7541, 6.2), and of
 * what comes back just so much is understood as tells how a connection ended.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_HTTP_RAW_H
#define HOLDFAST_TESTS_ROBUSTNESS_HTTP_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/c/buf.h"

/* RFC 9113, 6 and 7. */
enum raw_type {
    RAW_DATA,
    RAW_HEADERS,
    RAW_PRIORITY,
    RAW_RST_STREAM,
    RAW_SETTINGS,
    RAW_PUSH_PROMISE,
    RAW_PING,
    RAW_GOAWAY,
    RAW_WINDOW_UPDATE,
    RAW_CONTINUATION
};
enum { RAW_END_STREAM = 1, RAW_ACK = 1, RAW_END_HEADERS = 4 };
enum { RAW_PROTOCOL_ERROR = 1, RAW_FLOW_CONTROL_ERROR = 3, RAW_FRAME_SIZE_ERROR = 6, RAW_ENHANCE_YOUR_CALM = 11 };

#define RAW_ACQUIRE "/holdfast.v1.LeaseService/Acquire"
#define RAW_RELEASE "/holdfast.v1.LeaseService/Release"
#define RAW_WRITE   "/holdfast.v1.ResourceService/Write"
#define RAW_READ    "/holdfast.v1.ResourceService/Read"

/* ---- a connection ---- */

/* Connected to this port of 127.0.0.1; -1: it can't be. What is sent or read waits 20 s at most. */
int raw_connect(int port);
/* Few of its bytes fit into the kernel on this side, if it doesn't read. */
void raw_read_little(int fd);
/* All bytes are with the kernel. False: the connection is broken, or nobody takes them. */
bool raw_send(int fd, const void *data, size_t len);
bool raw_send_buf(int fd, const struct hp_buf *buf);
/* The same as long as the peer takes bytes at once: how many it did. */
size_t raw_send_some(int fd, const void *data, size_t len);
/* It ends by a reset. */
void raw_abort(int fd);

/* ---- frames ---- */

void raw_frame(struct hp_buf *to, enum raw_type type, int flags, uint32_t stream, const void *payload, size_t len);
/* A frame whose payload is a number of 32 bits: WINDOW_UPDATE, RST_STREAM. */
void raw_number_frame(struct hp_buf *to, enum raw_type type, uint32_t stream, uint32_t number);
/* The preface, and SETTINGS with this initial window. */
void raw_hello(struct hp_buf *to, uint32_t window);
void raw_settings_window(struct hp_buf *to, uint32_t window);
/* One field of a header block. */
void raw_field(struct hp_buf *block, const char *name, const char *value);
/* The fields of a POST of this type to a path. */
void raw_fields(struct hp_buf *block, const char *path, const char *type);
/* HEADERS of such a POST of JSON. */
void raw_headers(struct hp_buf *to, uint32_t stream, const char *path, int flags);
/* A whole call by Connect: HEADERS and DATA. */
void raw_call(struct hp_buf *to, uint32_t stream, const char *path, const char *json);

/* The same in HTTP/1.1. */
void raw_call1(struct hp_buf *to, const char *path, const char *json);

/* ---- what comes back ---- */

struct raw_said {
    bool closed;        /* the peer has ended the connection; */
    bool reset;         /* and it was by a reset */
    int status;         /* the last one; 0 = none */
    int responses;      /* HTTP/1.1: with a status beyond 100; HTTP/2: HEADERS with :status */
    int goaway;         /* the last GOAWAY's code; -1 = none */
    int rst;            /* RST_STREAMs, */
    int rst_code;       /* and the last one's code */
    int64_t bytes;      /* of all */
    char text[1 << 13]; /* the first bytes */
};

/* Reads until the peer ends it, `ms` have passed, or (if not 0) so many responses have come. */
void raw_hear(int fd, struct raw_said *said, bool http2, int responses, int ms);
/* The same, and the connection is closed. */
void raw_hear_out(int fd, struct raw_said *said, bool http2, int ms);

#endif
