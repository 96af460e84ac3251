/*
 * hash.h - FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv): spreads keys over connections and buckets. Not a
 * defence against chosen keys: users of it stay correct, and bounded, when hashes collide.
 */
#ifndef HOLDFAST_BASE_HASH_H
#define HOLDFAST_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HB_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* Continues `hash` over `len` bytes; begin with HB_HASH_SEED. */
static inline uint64_t hb_hash(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Continues `hash` over a string and its NUL, so that ("a", "bc") and ("ab", "c") differ. */
static inline uint64_t hb_hash_str(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash * UINT64_C(0x100000001b3);
}

/* Mixes the high bits into the low ones, for use with a modulus or a mask. */
static inline uint64_t hb_hash_mix(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ (hash >> 32);
}

#endif
