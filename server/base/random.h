/*
 * random.h - pseudo-random numbers that can be replayed from a seed (xoshiro256**, https://prng.di.unimi.it). Not for
 * secrets or identifiers that others must not guess; for those use hb_random_bytes.
 */
#ifndef HOLDFAST_BASE_RANDOM_H
#define HOLDFAST_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hb_random {
    uint64_t s[4];
};

/* The same seed gives the same numbers. */
void hb_random_seed(struct hb_random *random, uint64_t seed);
/* Seeded by the operating system. */
void hb_random_seed_os(struct hb_random *random);
uint64_t hb_random_u64(struct hb_random *random);
/* Uniform in [0, bound); 0 if bound is 0. */
uint64_t hb_random_below(struct hb_random *random, uint64_t bound);

/* Full jitter: uniform in [0, min(cap_ms, base_ms · 2^attempt)], attempts counted from 0. */
int64_t hb_jitter_ms(struct hb_random *random, int64_t base_ms, int64_t cap_ms, unsigned attempt);

/* `len` bytes from the operating system, fit for identifiers. False: it has none to give. */
bool hb_random_bytes(void *out, size_t len) __attribute__((warn_unused_result));

#endif
