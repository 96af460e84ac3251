/*
 * values.c - durations and whole numbers as people type them. No state.
 */
#include "client/cli/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *unit;
    int64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *cli_parse_duration(const char *text, int64_t *ms)
{
    char *end;

    if (!is_digit(text[0]))
        return "not a duration: it needs " CLI_DURATION_FORM;
    errno = 0;
    int64_t number = strtoll(text, &end, 10);
    if (errno)
        return "too long a duration";
    if (!*end)
        return "a bare number is not a duration: it needs " CLI_DURATION_FORM;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        if (number > INT64_MAX / units[i].ms)
            return "too long a duration";
        *ms = number * units[i].ms;
        return NULL;
    }
    return "not a duration: it needs " CLI_DURATION_FORM;
}

const char *cli_parse_number(const char *text, int64_t *number)
{
    char *end;

    if (!is_digit(text[text[0] == '-']))
        return "not a whole number";
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (*end)
        return "not a whole number";
    if (errno)
        return "too large a number";
    *number = value;
    return NULL;
}

const char *cli_parse_on_off(const char *text, int64_t *number)
{
    const bool on = strcmp(text, "on") == 0;

    if (!on && strcmp(text, "off") != 0)
        return "it is either on or off";
    *number = on;
    return NULL;
}

void cli_format_duration(int64_t ms, char *out, size_t size)
{
    int64_t s = ms / 1000;

    if (ms < 1000)
        snprintf(out, size, "%" PRId64 "ms", ms);
    else if (s < 60)
        snprintf(out, size, "%" PRId64 ".%ds", s, (int)(ms % 1000 / 100));
    else if (s < 3600)
        snprintf(out, size, "%" PRId64 "m%02ds", s / 60, (int)(s % 60));
    else
        snprintf(out, size, "%" PRId64 "h%02dm", s / 3600, (int)(s % 3600 / 60));
}
