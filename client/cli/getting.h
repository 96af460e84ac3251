/*
 * getting.h - a lease being got by a thread of its own, so that a signal can end the wait at any time.
 */
#ifndef HOLDFAST_CLI_GETTING_H
#define HOLDFAST_CLI_GETTING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

struct getting {
    /* in */
    hf_client *client;
    hf_acquire_options options; /* wait_ms and request_id are set here */
    int64_t wait_ms;

    /* out: valid once `done_fd` is readable */
    int done_fd; /* an eventfd */
    hf_result result;
    hf_lease *lease;
    hf_held held;
    hf_error error;

    atomic_bool cancelled;
    pthread_t thread;
};

/* The thread tries until it has the lease, or the wait is over, or getting_cancel() was called. False: no thread or eventfd. */
bool getting_begin(struct getting *getting) __attribute__((warn_unused_result));
/* True if it is done within `ms`; then its thread has ended. False: it still asks; leave it alone. */
bool getting_end(struct getting *getting, int ms);
/* It stops asking as soon as the answer on its way has come. */
void getting_cancel(struct getting *getting);

#endif
