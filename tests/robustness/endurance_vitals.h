/*
 * endurance_vitals.h - what the kernel knows of a running process: its memory, how often it woke, what it has computed.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_ENDURANCE_VITALS_H
#define HOLDFAST_TESTS_ROBUSTNESS_ENDURANCE_VITALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vitals {
    int64_t rss_kib;
    /* Voluntary context switches of the threads that live now: a thread gives up its core of its own will each time it has nothing
     * more to do, so that the difference of two readings is how often it was woken. Falls when a thread ends. */
    int64_t wakes;
    double cpu_ms; /* of all threads, also of those that have ended; precise, not counted in ticks */
    int threads;
};

/* The process as it is now; false if there is none. */
bool vitals_read(pid_t pid, struct vitals *vitals);

/* Under a sanitizer freed memory is kept for a while, so that it tells nothing whether memory grows. */
bool vitals_memory_counts(void);

#endif
