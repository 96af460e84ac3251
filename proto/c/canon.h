/*
 * canon.h - canonical JSON (RFC 8785), and the fingerprint of an operation's parameters made of it.
 *
 * Canonical is what was sent, and only that: white space goes, the members of each object stand in the order of their names'
 * UTF-16 code units, strings and numbers have one spelling each. Nothing is added, left out or taken for equal beyond that:
 *   - an absent member, one that is null and one that is empty are three different things;
 *   - the order of an array counts;
 *   - a number is the IEEE 754 double nearest to it, as for JavaScript: 1, 1.0 and 1e0 are the same, -0 is 0, and so are
 *     9007199254740993 and 9007199254740992. What must be told apart beyond 2^53 (amounts, ids) belongs into a string;
 *   - a string is the sequence of its characters: "é" and "e\u0301" are different (no Unicode normalization).
 *
 * Pure functions; any thread; nothing of the locale. A call allocates a few times what it is given, and takes time in proportion
 * to it.
 */
#ifndef HOLDFAST_PROTO_CANON_H
#define HOLDFAST_PROTO_CANON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/c/buf.h"
#include "proto/c/sha256.h"

enum { HP_CANON_DEPTH = 64 }; /* arrays and objects within each other, at most */

struct hp_canon_error {
    const char *text; /* static, such as "a name that the object has already" */
    size_t at;        /* the byte of the input where that was seen */
    bool no_memory;   /* nothing is wrong with the input: out's bound or the memory did not suffice */
};

/*
 * Appends to `out` the canonical form of the `len` bytes at `json`, one JSON text (RFC 8259). False, with `out` as it was and the
 * reason in `*error` unless that is NULL: it is not JSON (anything but white space behind it too, and a byte order mark); it is
 * not UTF-8; an escape stands for half a surrogate pair; an object has a name twice; a number is beyond a double's range (one too
 * close to 0 is 0); it nests deeper than HP_CANON_DEPTH; or there was no room.
 */
bool hp_canonical_json(const char *json, size_t len, struct hp_buf *out, struct hp_canon_error *error)
    __attribute__((warn_unused_result));

/* SHA-256 of the canonical form of `json`. False as hp_canonical_json; then `fingerprint` is untouched. */
bool hp_fingerprint(const char *json, size_t len, uint8_t fingerprint[HP_SHA256_SIZE], struct hp_canon_error *error)
    __attribute__((warn_unused_result));

#endif
