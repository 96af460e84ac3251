/*
 * canon_number.c - see canon_number.h.
 *
 * A decimal of at most 15 digits within the range of normal doubles is the shortest that its double has: two of them never share
 * a double (DBL_DIG). So such a number, and nearly all are, is only spelled anew. Others go through strtod, which rounds exactly.
 * The locale's decimal point never comes up: strtod gets whole digits with an exponent, and of printf only digits are taken.
 *
 * No state; any thread.
 */
#include "proto/c/canon_number.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits beyond the 767th can't be what a double's rounding hangs on, except by not being 0: one more tells that. */
enum { DIGITS_MAX = 800, SAFE_DIGITS = 15, SAFE_EXPONENT = 290, SHORTEST_MAX = 17 };

/* 0.DIGITS times ten to the power of `point`; no digits at all is zero. */
struct decimal {
    bool negative;
    int64_t point;
    size_t n;
    char digits[DIGITS_MAX + 1];
};

static void read_exponent(struct decimal *number, const char *p, const char *end)
{
    const int64_t most = INT64_C(1) << 60; /* no input is so long that it could make up for this */
    const bool negative = *p == '-';
    int64_t value = 0;

    for (p += *p == '-' || *p == '+'; p < end; p++)
        value = value < most / 16 ? value * 10 + (*p - '0') : most;
    number->point += negative ? -value : value;
}

static void read_decimal(struct decimal *number, const char *text, size_t len)
{
    const char *end = text + len, *p = text;
    bool fraction = false;

    number->negative = *p == '-';
    number->point = 0;
    number->n = 0;
    for (p += number->negative; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (*p == '0' && number->n == 0) { /* before the first digit that counts */
            number->point -= fraction;
            continue;
        }
        number->point += !fraction;
        if (number->n < DIGITS_MAX)
            number->digits[number->n++] = *p;
        else if (*p != '0')
            number->digits[DIGITS_MAX - 1] = '1';
    }
    while (number->n > 0 && number->digits[number->n - 1] == '0')
        number->n--;
    if (p < end)
        read_exponent(number, p + 1, end);
}

static double value_of(const struct decimal *number)
{
    char text[DIGITS_MAX + 32];

    if (number->point > 400) /* nor would the exponent fit into strtod's */
        return HUGE_VAL;
    if (number->point < -400)
        return 0;
    snprintf(text, sizeof text, "%.*se%d", (int)number->n, number->digits, (int)number->point - (int)number->n);
    return strtod(text, NULL);
}

/* `value`, above 0, rounded to `n` digits, without the zeros at their end. */
static void round_to(struct decimal *number, double value, int n)
{
    char text[64];
    const char *p = text;

    snprintf(text, sizeof text, "%.*e", n - 1, value);
    number->n = 0;
    for (; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9')
            number->digits[number->n++] = *p;
    }
    number->point = strtol(p + 1, NULL, 10) + 1;
    while (number->n > 1 && number->digits[number->n - 1] == '0')
        number->n--;
}

/* The next decimal of `n` digits above it. */
static void step_up(struct decimal *number, size_t n)
{
    while (number->n < n)
        number->digits[number->n++] = '0';
    while (number->n > 0 && number->digits[number->n - 1] == '9')
        number->n--;
    if (number->n > 0) {
        number->digits[number->n - 1]++;
        return;
    }
    number->digits[number->n++] = '1';
    number->point++;
}

/*
 * The fewest digits that read as `value` again, and of several such the nearest. Rounding finds them, but for one case: above a
 * power of two doubles lie twice as far apart as below it, so that the nearest decimal may be too far away on the near side (2^-44
 * with 16 digits) while the next one above it is still within reach.
 */
static void shortest(struct decimal *number, double value)
{
    /* Normal doubles of at most 15 digits are found by rounding to 15. */
    for (int n = value < 1e-290 ? 1 : SAFE_DIGITS; n < SHORTEST_MAX; n++) {
        round_to(number, value, n);
        if (value_of(number) == value)
            return;
        step_up(number, (size_t)n);
        if (value_of(number) == value)
            return;
    }
    round_to(number, value, SHORTEST_MAX);
}

static size_t put(char *to, size_t at, const char *digits, size_t n)
{
    memcpy(to + at, digits, n);
    return at + n;
}

static size_t put_zeros(char *to, size_t at, int64_t n)
{
    for (; n > 0; n--)
        to[at++] = '0';
    return at;
}

static size_t spell(const struct decimal *number, char to[HP_NUMBER_MAX])
{
    const int64_t k = (int64_t)number->n, n = number->point;
    size_t at = 0;

    if (k == 0) {
        to[0] = '0';
        return 1;
    }
    if (number->negative)
        to[at++] = '-';
    if (k <= n && n <= 21)
        return put_zeros(to, put(to, at, number->digits, number->n), n - k);
    if (0 < n && n <= 21) {
        at = put(to, at, number->digits, (size_t)n);
        to[at++] = '.';
        return put(to, at, number->digits + n, (size_t)(k - n));
    }
    if (-6 < n && n <= 0) {
        at = put(to, at, "0.", 2);
        return put(to, put_zeros(to, at, -n), number->digits, number->n);
    }
    to[at++] = number->digits[0];
    if (k > 1) {
        to[at++] = '.';
        at = put(to, at, number->digits + 1, (size_t)(k - 1));
    }
    return at + (size_t)snprintf(to + at, HP_NUMBER_MAX - at, "e%+d", (int)(n - 1));
}

size_t hp_canon_double(double value, char to[HP_NUMBER_MAX])
{
    struct decimal number = {.negative = value < 0};

    if (value != 0)
        shortest(&number, fabs(value));
    return spell(&number, to);
}

size_t hp_canon_number(const char *text, size_t len, char to[HP_NUMBER_MAX])
{
    struct decimal number;
    double value;

    read_decimal(&number, text, len);
    if (number.n == 0 || (number.n <= SAFE_DIGITS && number.point > -SAFE_EXPONENT && number.point < SAFE_EXPONENT))
        return spell(&number, to);
    value = value_of(&number);
    if (isinf(value))
        return 0;
    return hp_canon_double(number.negative ? -value : value, to);
}
