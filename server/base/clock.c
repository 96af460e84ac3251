/*
 * clock.c - see clock.h.
 */
#include "base/clock.h"

#include <time.h>

static int64_t read_ms(clockid_t id)
{
    struct timespec ts = {0};
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t hb_monotonic_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

int64_t hb_monotonic_ns(void)
{
    struct timespec ts = {0};
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t hb_boottime_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}

int64_t hb_unix_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}
