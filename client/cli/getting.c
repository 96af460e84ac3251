/*
 * getting.c - the thread that asks for a lease. What it writes is read after the eventfd told that it is done.
 */
#include "client/cli/getting.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/cli/wait.h"
#include "client/lib/call.h"

static void *ask(void *arg)
{
    struct getting *getting = arg;
    char id[HFI_ID_SIZE];
    struct wait wait;

    hfi_new_id(getting->client, id);
    getting->options.request_id = id;
    getting->options.wait_ms = 0;
    wait_begin(&wait, getting->wait_ms);
    for (;;) {
        getting->result = hf_acquire(getting->client, &getting->options, &getting->lease, &getting->held, &getting->error);
        if (getting->result != HF_HELD || atomic_load(&getting->cancelled))
            break;
        int64_t pause_ms = wait_pause_ms(&wait);
        if (pause_ms < 0)
            break;
        usleep((useconds_t)pause_ms * 1000);
        if (atomic_load(&getting->cancelled))
            break;
    }
    getting->options.request_id = NULL;
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

void getting_cancel(struct getting *getting)
{
    atomic_store(&getting->cancelled, true);
}
