/*
 * base64.h - RFC 4648: bytes as text, in JSON and in gRPC's binary metadata. Values of a MiB go through it on the thread that
 * serves everybody, so it works on whole groups.
 */
#ifndef HOLDFAST_PROTO_BASE64_H
#define HOLDFAST_PROTO_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/c/buf.h"

/* Section 4, without padding, and with it. Without memory: out->failed. */
void hp_base64_encode(struct hp_buf *out, const void *data, size_t len);
void hp_base64_encode_padded(struct hp_buf *out, const void *data, size_t len);
/* Takes it with and without padding, and the alphabet of section 5 too. False: it isn't base64 (nothing was appended), or no
 * memory. */
bool hp_base64_decode(struct hp_buf *out, const char *text, size_t len) __attribute__((warn_unused_result));

#endif
