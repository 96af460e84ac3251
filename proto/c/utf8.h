/*
 * utf8.h - one character at a time, and text made safe to show.
 */
#ifndef HOLDFAST_PROTO_UTF8_H
#define HOLDFAST_PROTO_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at `text` (1 to 4), with its code point in `*point` unless that is NULL; 0 if there is none that
 * is valid within `len` bytes (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). */
size_t hp_utf8_next(const void *text, size_t len, uint32_t *point);

/* True for U+0000–U+001F and U+007F–U+009F. */
bool hp_utf8_control(uint32_t point);

/* `to` is `text` with each byte that is not UTF-8 replaced by U+FFFD, NUL-terminated; if it doesn't fit into `size` (at least 8)
 * it is cut between characters and ends with "…". */
void hp_utf8_copy(char *to, size_t size, const char *text, size_t len);

/* `to` is `text` fit for one line of a message: quotes and backslashes behind a backslash, control characters and bytes that
 * are not UTF-8 as \n, \r, \t or \xNN. If it doesn't fit into `size` (at least 48) it is cut, and says how long it was. */
void hp_utf8_escape(char *to, size_t size, const char *text, size_t len);

#endif
