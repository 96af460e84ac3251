/*
 * wall.c - a wall clock that is wrong, for any program: preloaded (LD_PRELOAD), it adds to what the program is told of the time of
 * day as many seconds as the file named by T_WALL_FILE holds at that moment (an int64_t in the machine's order). Waits for a
 * condition variable until a time of day go by the same clock, so that a step of it shortens or lengthens them as a true one would
 * (nng 1.5 of Debian waits so for all its timers). All other clocks, timers and waits are left alone.
 *
 * Not linked to anything: robustness/wall.c builds it. (libfaketime cannot be used: even told to leave CLOCK_MONOTONIC alone,
 * version 0.9.10 moves the absolute times of timerfd_settime, and with them every timer of an event loop.)
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none, *offset = &none;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("T_WALL_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory != MAP_FAILED)
        offset = memory;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    const int rc = (int)syscall(SYS_clock_gettime, clock, ts);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        ts->tv_sec += *offset;
    return rc;
}

enum { LOOK_NS = 50000000, MONOTONIC_FLAG = 2 /* glibc's, in __wrefs */ };

static int before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Wakes now and then, which every waiter must bear, to see whether the clock was stepped. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (cond->__data.__wrefs & MONOTONIC_FLAG)
        return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, until);
    struct timespec look, now, end = *until;
    end.tv_sec -= *offset;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &look);
    look.tv_nsec += LOOK_NS;
    if (look.tv_nsec >= 1000000000) {
        look.tv_sec++;
        look.tv_nsec -= 1000000000;
    }
    const int rc = pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, before(&end, &look) ? &end : &look);
    clock_gettime(CLOCK_REALTIME, &now);
    return rc == ETIMEDOUT && before(&now, until) ? 0 : rc;
}

int gettimeofday(struct timeval *tv, void *zone)
{
    struct timespec ts;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to)
{
    struct timespec ts;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    if (to)
        *to = ts.tv_sec;
    return ts.tv_sec;
}
