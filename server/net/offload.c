/*
 * offload.c - see offload.h. The lists, and whether a job has begun, are under the mutex; an eventfd tells the loop that some are
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
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { WAITING_MAX = 64 /* of each rank */, NICE = 19, REST = 3, REST_MAX_MS = 500 };

static const int64_t NS = 1000000000; /* of a second */

struct offload {
    struct io *io;
    struct io_watch watch; /* of the eventfd */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct list waiting[OFFLOAD_RANKS], worked;
    bool over;
    int64_t rest_ns; /* until when it rests */
};

/* ---- the thread ---- */

/* The first rank of which some wait; OFFLOAD_RANKS: none do. */
static int first_rank(const struct offload *offload)
{
    int rank = 0;
    while (rank < OFFLOAD_RANKS && list_empty(&offload->waiting[rank]))
        rank++;
    return rank;
}

/* Something has come, or what has come may be begun. */
static void wait_for_more(struct offload *offload)
{
    struct timespec until = {.tv_sec = offload->rest_ns / NS, .tv_nsec = offload->rest_ns % NS};
    if (first_rank(offload) == OFFLOAD_RANKS)
        pthread_cond_wait(&offload->more, &offload->mutex);
    else
        pthread_cond_timedwait(&offload->more, &offload->mutex, &until);
}

/* NULL: none may be begun now. */
static struct list_node *pop(struct offload *offload)
{
    int rank = first_rank(offload);
    if (rank == OFFLOAD_RANKS || (rank != OFFLOAD_KNOWN && hb_monotonic_ns() < offload->rest_ns))
        return NULL;
    return list_pop_front(&offload->waiting[rank]);
}

/* The next one; NULL: it is over. */
static struct offload_job *next(struct offload *offload)
{
    struct offload_job *job = NULL;
    struct list_node *node = NULL;
    pthread_mutex_lock(&offload->mutex);
    while (!offload->over && !(node = pop(offload)))
        wait_for_more(offload);
    if (node) {
        job = list_entry(node, struct offload_job, node);
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

static int64_t rest_after(int64_t took_ns)
{
    int64_t most = NS / 1000 * REST_MAX_MS;
    return REST * took_ns < most ? REST * took_ns : most;
}

static void *run(void *arg)
{
    struct offload *offload = arg;
    struct offload_job *job;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread, on Linux */
    while ((job = next(offload))) {
        int64_t began_ns = hb_monotonic_ns(), now_ns;
        enum offload_rank rank = job->rank;
        job->work(job);
        now_ns = hb_monotonic_ns();
        if (rank != OFFLOAD_KNOWN)
            offload->rest_ns = now_ns + rest_after(now_ns - began_ns);
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
    for (int rank = 0; rank < OFFLOAD_RANKS; rank++)
        list_init(&offload->waiting[rank]);
    list_init(&offload->worked);
    pthread_mutex_init(&offload->mutex, NULL);
    pthread_condattr_t by_monotonic;
    pthread_condattr_init(&by_monotonic);
    pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&offload->more, &by_monotonic);
    pthread_condattr_destroy(&by_monotonic);
    offload->watch = (struct io_watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .want = IO_READ, .ready = on_worked};
    if (offload->watch.fd < 0 || io->watch(io, &offload->watch) || !start(offload)) {
        release(offload);
        return NULL;
    }
    return offload;
}

bool offload_run(struct offload *offload, struct offload_job *job, enum offload_rank rank)
{
    job->rank = rank;
    pthread_mutex_lock(&offload->mutex);
    bool room = offload->waiting[rank].count < WAITING_MAX;
    if (room) {
        job->begun = false;
        list_push_back(&offload->waiting[rank], &job->node);
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
        list_remove(&offload->waiting[job->rank], &job->node);
    pthread_mutex_unlock(&offload->mutex);
    return !begun;
}

void offload_free(struct offload *offload)
{
    if (!offload)
        return;
    pthread_mutex_lock(&offload->mutex);
    offload->over = true;
    assert(first_rank(offload) == OFFLOAD_RANKS);
    pthread_cond_signal(&offload->more);
    pthread_mutex_unlock(&offload->mutex);
    pthread_join(offload->thread, NULL);
    tell_done(offload);
    release(offload);
}
