/* gate_sha256.h - SHA-256 (FIPS 180-4) of bytes in memory: names and checksums of a gate's files. Pure. */
#ifndef HOLDFAST_CLIENT_GATE_SHA256_H
#define HOLDFAST_CLIENT_GATE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { HFI_SHA256_SIZE = 32 };

void hfi_sha256(const void *data, size_t len, uint8_t digest[HFI_SHA256_SIZE]);

#endif
