/*
 * offload.c - see offload.h. Both lists, and whether a job has begun, are under the mutex; an eventfd tells the loop that some are
 * done.
 */
#include "net/offload.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WAITING_MAX = 256, NICE = 19 };

struct offload {
    struct io *io;
    struct io_watch watch; /* of the eventfd */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct list waiting, worked;
    bool over;
};

/* ---- the thread ---- */

/* The next one; NULL: it is over. */
static struct offload_job *next(struct offload *offload)
{
    struct offload_job *job = NULL;
    pthread_mutex_lock(&offload->mutex);
    while (!offload->over && list_empty(&offload->waiting))
        pthread_cond_wait(&offload->more, &offload->mutex);
    if (!offload->over) {
        job = list_entry(list_pop_front(&offload->waiting), struct offload_job, node);
        job->begun = true;
    }
    pthread_mutex_unlock(&offload->mutex);
    return job;
}

static void hand_back(struct offload *offload, struct offload_job *job)
{
    uint64_t one = 1;
    pthread_mutex_lock(&offload->mutex);
    list_push_back(&offload->worked, &job->node);
    pthread_mutex_unlock(&offload->mutex);
    while (write(offload->watch.fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void *run(void *arg)
{
    struct offload *offload = arg;
    struct offload_job *job;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread, on Linux */
    while ((job = next(offload))) {
        job->work(job);
        hand_back(offload, job);
    }
    return NULL;
}

/* Signals are the loop's. */
static bool start(struct offload *offload)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&offload->thread, NULL, run, offload);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

/* ---- the loop ---- */

static void tell_done(struct offload *offload)
{
    struct list_node *node;
    do {
        pthread_mutex_lock(&offload->mutex);
        node = list_pop_front(&offload->worked);
        pthread_mutex_unlock(&offload->mutex);
        if (node) {
            struct offload_job *job = list_entry(node, struct offload_job, node);
            job->done(job);
        }
    } while (node);
}

static void on_worked(struct io_watch *watch, unsigned events)
{
    uint64_t n;
    (void)events;
    while (read(watch->fd, &n, sizeof(n)) < 0 && errno == EINTR)
        ;
    tell_done(list_entry(watch, struct offload, watch));
}

static void release(struct offload *offload)
{
    if (offload->watch.watched)
        offload->io->unwatch(offload->io, &offload->watch);
    if (offload->watch.fd >= 0)
        close(offload->watch.fd);
    pthread_cond_destroy(&offload->more);
    pthread_mutex_destroy(&offload->mutex);
    free(offload);
}

struct offload *offload_new(struct io *io)
{
    struct offload *offload = calloc(1, sizeof(*offload));
    if (!offload)
        return NULL;
    offload->io = io;
    list_init(&offload->waiting);
    list_init(&offload->worked);
    pthread_mutex_init(&offload->mutex, NULL);
    pthread_cond_init(&offload->more, NULL);
    offload->watch = (struct io_watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .want = IO_READ, .ready = on_worked};
    if (offload->watch.fd < 0 || io->watch(io, &offload->watch) || !start(offload)) {
        release(offload);
        return NULL;
    }
    return offload;
}

bool offload_run(struct offload *offload, struct offload_job *job)
{
    pthread_mutex_lock(&offload->mutex);
    bool room = offload->waiting.count < WAITING_MAX;
    if (room) {
        job->begun = false;
        list_push_back(&offload->waiting, &job->node);
        pthread_cond_signal(&offload->more);
    }
    pthread_mutex_unlock(&offload->mutex);
    return room;
}

bool offload_cancel(struct offload *offload, struct offload_job *job)
{
    pthread_mutex_lock(&offload->mutex);
    bool begun = job->begun;
    if (!begun)
        list_remove(&offload->waiting, &job->node);
    pthread_mutex_unlock(&offload->mutex);
    return !begun;
}

void offload_free(struct offload *offload)
{
    if (!offload)
        return;
    pthread_mutex_lock(&offload->mutex);
    offload->over = true;
    assert(list_empty(&offload->waiting));
    pthread_cond_signal(&offload->more);
    pthread_mutex_unlock(&offload->mutex);
    pthread_join(offload->thread, NULL);
    tell_done(offload);
    release(offload);
}
