/*
 * watch.h - a lease of the client library under observation: how often its loss was told, why and when, and when it stopped being
 * valid.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_WATCH_H
#define HOLDFAST_TESTS_ROBUSTNESS_WATCH_H

#include <holdfast/holdfast.h>
#include <pthread.h>

struct watch {
    hf_client *client;
    hf_lease *lease;
    pthread_mutex_t mutex;
    pthread_cond_t news;
    unsigned told; /* times */
    const char *reason;
    int64_t told_ms;          /* CLOCK_BOOTTIME, like all times here */
    hf_result renewed, wrote; /* what the callback got when it tried both at once */
};

/* A client of `servers` (its calls take at most timeout_ms; 0 = the default) and a lease of this resource, or the test fails. The
 * callback tries at once to renew and to write: it must be refused both. */
void watch_start(struct watch *watch, const char *servers, int64_t timeout_ms, const char *resource, int64_t ttl_ms);
/* Lease and client are freed. */
void watch_stop(struct watch *watch);
/* True as soon as the loss was told; false if not within `ms`. */
bool watch_wait_told(struct watch *watch, int ms);
unsigned watch_told(struct watch *watch);

#endif
