/*
 * logged.h - what was logged, as text. Each program includes it once.
 */
#ifndef HOLDFAST_TESTS_APP_LOGGED_H
#define HOLDFAST_TESTS_APP_LOGGED_H

#include <string.h>

#include "base/log.h"

static char logged[8192];

static inline void keep_line(void *arg, enum log_level level, const char *line, size_t len)
{
    (void)arg;
    (void)level;
    if (strlen(logged) + len < sizeof(logged))
        strncat(logged, line, len);
}

/* From now on, lines of this level and above are kept; none is yet. */
static inline void keep_log(enum log_level level)
{
    logged[0] = '\0';
    log_setup(level, LOG_AS_LOGFMT, keep_line, NULL);
}

#endif
