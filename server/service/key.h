/*
 * key.h - API keys as texts: `hfk_<id>_<secret>`, both parts in letters and digits. No I/O.
 *
 * The id (65 random bits) says which key it is, and is no secret. The secret (196 random bits) is told once, to whoever made the
 * key; what is kept of it is its SHA-256, which needs no salt, since nobody can try so many. Nothing here, and nobody who uses it,
 * writes a key or a secret into a log, an audit or an error.
 */
#ifndef HOLDFAST_SERVICE_KEY_H
#define HOLDFAST_SERVICE_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/c/sha256.h"

enum { SVC_KEY_ID = 11, SVC_KEY_SECRET = 33, SVC_KEY_LEN = 4 + SVC_KEY_ID + 1 + SVC_KEY_SECRET, SVC_KEY_SIZE = SVC_KEY_LEN + 1 };

struct svc_key {
    char id[SVC_KEY_ID + 1];
    unsigned char hash[HP_SHA256_SIZE]; /* of the secret */
};

/* Fills in bytes that nobody can guess; false: there are none. */
typedef bool (*svc_random)(void *arg, void *buffer, size_t size);

/* `text` is a new key, and `key` what is kept of it. False: there is no randomness, and nothing was made. */
bool svc_key_make(svc_random random, void *arg, char text[SVC_KEY_SIZE], struct svc_key *key) __attribute__((warn_unused_result));

/* A random id alone, for a principal that has no secret. */
bool svc_key_make_id(svc_random random, void *arg, char id[SVC_KEY_ID + 1]) __attribute__((warn_unused_result));

/* The value of an `authorization` header: "Bearer hfk_…" (the scheme in any case). False: it is something else. */
bool svc_key_parse(const char *authorization, struct svc_key *key) __attribute__((warn_unused_result));

/* True for what may be the id of a principal. */
bool svc_key_id_valid(const char *id);

/* Whether they are equal. How long it takes doesn't tell where they differ. */
bool svc_key_same(const unsigned char a[HP_SHA256_SIZE], const unsigned char b[HP_SHA256_SIZE]);

#endif
