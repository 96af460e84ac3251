/*
 * tsan.c - what ThreadSanitizer of gcc 12 doesn't know of; linked into the preset tsan only.
 *
 * It doesn't see threads joined by pthread_clockjoin_np, and ends the process ("dup thread with used id") when the next thread is
 * given the same id. It does see pthread_tryjoin_np.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        struct timespec now;
        int error = pthread_tryjoin_np(thread, value);
        if (error != EBUSY)
            return error;
        clock_gettime(clock, &now);
        if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
            return ETIMEDOUT;
        nanosleep(&pause, NULL);
    }
}
