/*
 * getting.c - the thread that asks for a lease. What it writes is read after the eventfd told that it is done.
 */
#include "client/cli/getting.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { CANCEL_AGAIN_MS = 20 };

static void *ask(void *arg)
{
    struct getting *getting = arg;

    getting->result = hf_acquire(getting->client, &getting->options, &getting->lease, &getting->held, &getting->error);
    eventfd_write(getting->done_fd, 1);
    return NULL;
}

bool getting_begin(struct getting *getting)
{
    getting->done_fd = eventfd(0, EFD_CLOEXEC);
    if (getting->done_fd < 0)
        return false;
    return pthread_create(&getting->thread, NULL, ask, getting) == 0;
}

bool getting_end(struct getting *getting, int ms)
{
    struct pollfd fd = {.fd = getting->done_fd, .events = POLLIN};

    if (poll(&fd, 1, ms) != 1)
        return false;
    pthread_join(getting->thread, NULL);
    return true;
}

bool getting_cancel(struct getting *getting, int ms)
{
    for (; ms > 0; ms -= CANCEL_AGAIN_MS) {
        hf_acquire_cancel(getting->client, NULL, NULL); /* finds nothing before the thread has begun to wait */
        if (getting_end(getting, CANCEL_AGAIN_MS))
            return true;
    }
    return false;
}
