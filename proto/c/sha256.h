/* sha256.h - SHA-256 (FIPS 180-4) of bytes in memory: fingerprints of operations; names and checksums of a gate's files. Pure. */
#ifndef HOLDFAST_PROTO_SHA256_H
#define HOLDFAST_PROTO_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { HP_SHA256_SIZE = 32 };

void hp_sha256(const void *data, size_t len, uint8_t digest[HP_SHA256_SIZE]);

#endif
