/* canon_number.h - numbers of JSON as ECMAScript writes them (Number::toString, ECMA-262 section 6.1.6.1.20). For canon.c. */
#ifndef HOLDFAST_PROTO_CANON_NUMBER_H
#define HOLDFAST_PROTO_CANON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

enum { HP_NUMBER_MAX = 32 }; /* "-0.0000012345678901234567" */

/* Writes the number that the `len` bytes at `text` spell, which fit the grammar of RFC 8259 section 6, to `to`; its length is
 * returned, or 0 if it is beyond the range of a double. */
size_t hp_canon_number(const char *text, size_t len, char to[HP_NUMBER_MAX]);

/* The same of a finite value. */
size_t hp_canon_double(double value, char to[HP_NUMBER_MAX]);

#endif
