/*
 * ports.c - the system's clock and randomness.
 *
 * A condition variable cannot wait on CLOCK_BOOTTIME, so a wait is counted in CLOCK_MONOTONIC and may end late by the time the
 * machine was suspended. That is good enough for a caller's patience; the renewal thread, whose deadlines must be seen at once
 * after a suspend, waits on a timerfd instead (renew.c).
 */
#include "client/lib/ports.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "client/lib/call.h"

int64_t hfi_boot_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t system_now(struct hfi_clock *clock)
{
    (void)clock;
    return hfi_boot_ms();
}

static void system_wait(struct hfi_clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ms)
{
    struct timespec ts;
    int64_t left;

    if (until_ms == HFI_NEVER) {
        pthread_cond_wait(cond, mutex);
        return;
    }
    left = until_ms - system_now(clock);
    if (left <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += left / 1000;
    ts.tv_nsec += (left % 1000) * 1000000;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_sec++;
        ts.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(cond, mutex, &ts);
}

static uint64_t system_random(struct hfi_random *random)
{
    uint64_t value;
    ssize_t n;

    (void)random;
    do
        n = getrandom(&value, sizeof(value), 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(value)) {
        struct timespec ts;
        /* No getrandom (a kernel before 3.17): ids and jitter still need to differ between processes, not to be secret. */
        clock_gettime(CLOCK_MONOTONIC, &ts);
        value = ((uint64_t)ts.tv_sec << 32 ^ (uint64_t)ts.tv_nsec ^ (uint64_t)(uintptr_t)&value) * 0x9e3779b97f4a7c15u;
    }
    return value;
}

struct hfi_clock hfi_system_clock = {.now_ms = system_now, .wait = system_wait};
struct hfi_random hfi_system_random = {.next = system_random};

int hfi_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (!rc)
        rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}
