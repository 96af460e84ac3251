/*
 * grpc.h - gRPC over HTTP/2 in bytes (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md): message framing, timeouts,
 * percent-encoded messages. For both sides; no sockets.
 */
#ifndef HOLDFAST_PROTO_GRPC_H
#define HOLDFAST_PROTO_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/c/base64.h"
#include "proto/c/buf.h"
#include "proto/c/err.h"

enum { HP_GRPC_PREFIX = 5 };

/* The five bytes before a message. */
void hp_grpc_prefix(uint8_t out[HP_GRPC_PREFIX], bool compressed, size_t len);

/* Puts messages together from pieces of a body. The announced length is not believed: memory grows as bytes come. */
struct hp_grpc_reader {
    size_t max; /* of one message */
    uint8_t prefix[HP_GRPC_PREFIX];
    size_t n_prefix, announced;
    bool compressed;
    struct hp_buf message;
};
enum hp_grpc_read { HP_GRPC_MORE, HP_GRPC_MESSAGE, HP_GRPC_TOO_LARGE, HP_GRPC_BAD_FLAG, HP_GRPC_NO_MEMORY };
void hp_grpc_reader_init(struct hp_grpc_reader *reader, size_t max);
void hp_grpc_reader_release(struct hp_grpc_reader *reader);
/* Takes from `*data`, and moves it on, up to the end of one message: MESSAGE, and reader->message has it until the next call. MORE:
 * all was taken. TOO_LARGE: `announced` says how large; the reader is of no more use, as after the others. */
enum hp_grpc_read hp_grpc_read(struct hp_grpc_reader *reader, const uint8_t **data, size_t *len);
/* Some bytes of a message are there, but not all. */
bool hp_grpc_reader_amid(const struct hp_grpc_reader *reader);

/* "1500m" → 1500. At most eight digits and a unit of H M S m u n; rounded up to a millisecond; at most an hour more than INT32_MAX
 * seconds. False: it isn't one. */
bool hp_grpc_timeout_parse(const char *text, int64_t *ms) __attribute__((warn_unused_result));
void hp_grpc_timeout_format(int64_t ms, char out[12]);

/* grpc-message: what isn't printable ASCII, and "%", as %XX. Decoding leaves what is no such code as it is, and never fails but
 * for memory (out->failed). */
void hp_percent_encode(struct hp_buf *out, const char *text, size_t len);
void hp_percent_decode(struct hp_buf *out, const char *text, size_t len);

/* The gRPC code of an HTTP status, for answers that aren't gRPC's (doc/http-grpc-status-mapping.md). */
enum hp_code hp_grpc_code_of_http(int http_status);

#endif
