/*
 * values.h - what people type, read strictly: durations and whole numbers.
 *
 * Nothing is guessed: a bare number is no duration, since nobody knows whether 30 meant seconds or milliseconds. No state.
 */
#ifndef HOLDFAST_CLI_VALUES_H
#define HOLDFAST_CLI_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a duration should look like, for error messages. */
#define CLI_DURATION_FORM "a number with a unit, such as 250ms, 30s, 1m or 1h"

/* NULL: `*ms` is the duration `text` (250ms, 30s, 1m, 1h; digits and one unit). Otherwise what is wrong with it, for people
 * (static); `*ms` is untouched. */
const char *cli_parse_duration(const char *text, int64_t *ms) __attribute__((warn_unused_result));

/* NULL: `*number` is `text`, a whole number with an optional minus. Otherwise what is wrong with it (static). */
const char *cli_parse_number(const char *text, int64_t *number) __attribute__((warn_unused_result));

/* NULL: `*number` is 1 for "on" and 0 for "off". Otherwise what is wrong with it (static). */
const char *cli_parse_on_off(const char *text, int64_t *number) __attribute__((warn_unused_result));

/* Writes `ms` for people: 250ms, 1.5s, 3m20s, 2h05m. */
void cli_format_duration(int64_t ms, char *out, size_t size);

#endif
