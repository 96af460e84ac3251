/*
 * need.h - assertions for threads beside the test's own, in which cmocka must not be called; and the cases' common parameters.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_NEED_H
#define HOLDFAST_TESTS_ROBUSTNESS_NEED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Notes in `trouble` (an array of char, empty until then) what was not as wanted, with the text of a hf_error, and goes to `out`.
 */
#define NEED(trouble, error, condition)                                                                                            \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            snprintf((trouble), sizeof(trouble), "line %d: %s (%s %.200s)", __LINE__, #condition,                                  \
                     (error).reason ? (error).reason : "", (error).message);                                                       \
            goto out;                                                                                                              \
        }                                                                                                                          \
    } while (0)

/* A number of milliseconds from the environment, so that a case can be played at its full length; otherwise the default. */
static inline int64_t case_ms(const char *name, int64_t standard)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : standard;
}

#endif
