/*
 * getting.h - a lease being got by a thread of its own, so that a signal can end the wait at any time.
 */
#ifndef HOLDFAST_CLI_GETTING_H
#define HOLDFAST_CLI_GETTING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

struct getting {
    /* in */
    hf_client *client;
    hf_acquire_options options;

    /* out: valid once `done_fd` is readable */
    int done_fd; /* an eventfd */
    hf_result result;
    hf_lease *lease;
    hf_held held;
    hf_error error;

    pthread_t thread;
};

/* The thread has the lease, or knows why not, when `done_fd` becomes readable. False: no thread or eventfd. */
bool getting_begin(struct getting *getting) __attribute__((warn_unused_result));
/* True if it is done within `ms`; then its thread has ended. False: it still asks; leave it alone. */
bool getting_end(struct getting *getting, int ms);
/* The wait is cancelled, at the server too, and that ended within `ms`: as getting_end. */
bool getting_cancel(struct getting *getting, int ms);

#endif
