/*
 * loop.c - see loop.h. One epoll set, one timerfd armed for the earliest timer, one eventfd by which loop_stop wakes it.
 *
 * Invariants: a watch that is not `watched` gets no call, although epoll may have reported it already: unwatch strikes it
 * from the events collected. The timerfd is armed no later than the earliest timer; it may be armed for one that was
 * cancelled, which costs one wake-up and saves a system call for each call that ends before its deadline.
 */
#include "net/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"

enum { EVENTS = 128, POST_ROUNDS = 16 };

struct garbage {
    struct garbage *next;
    void *ptr;
    void (*release)(void *ptr);
};

struct loop {
    struct io io;
    int epoll_fd, timer_fd;
    struct io_watch timer_watch, stop_watch, signal_watch;
    atomic_bool stop;

    struct heap timers;
    int64_t armed_ms; /* of the timerfd; 0 = not */

    struct io_task *first_task, **last_task;
    struct garbage *garbage, *spare; /* spare: notes to use again */

    struct epoll_event events[EVENTS];
    int n_events, at_event; /* collected; the one being served */
    int64_t now_ms;

    void (*on_signal)(void *arg, int signo);
    void *signal_arg;
};

static struct loop *loop_of(struct io *io)
{
    return list_entry(io, struct loop, io);
}

static void read_clock(struct loop *loop)
{
    loop->now_ms = hb_monotonic_ms();
}

/* ---- files ---- */

static uint32_t to_epoll(unsigned want)
{
    return (want & IO_READ ? (uint32_t)EPOLLIN | EPOLLRDHUP : 0) | (want & IO_WRITE ? (uint32_t)EPOLLOUT : 0) |
           (want & IO_HANGUP ? (uint32_t)EPOLLRDHUP : 0);
}

/* A peer that has gone counts as readable, so that the owner reads the end or the error. */
static unsigned from_epoll(uint32_t events)
{
    unsigned out = 0;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP))
        out |= IO_READ;
    if (events & EPOLLOUT)
        out |= IO_WRITE;
    if (events & EPOLLRDHUP)
        out |= IO_HANGUP;
    if (events & (EPOLLERR | EPOLLHUP))
        out |= IO_ERROR;
    return out;
}

static int loop_watch(struct io *io, struct io_watch *watch)
{
    struct loop *loop = loop_of(io);
    struct epoll_event event = {.events = to_epoll(watch->want), .data.ptr = watch};
    if (epoll_ctl(loop->epoll_fd, watch->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, watch->fd, &event) < 0)
        return -errno;
    watch->watched = true;
    return 0;
}

static void loop_unwatch(struct io *io, struct io_watch *watch)
{
    struct loop *loop = loop_of(io);
    if (!watch->watched)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->watched = false;
    for (int i = loop->at_event + 1; i < loop->n_events; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
}

static void serve_files(struct loop *loop)
{
    for (loop->at_event = 0; loop->at_event < loop->n_events; loop->at_event++) {
        const struct epoll_event *event = &loop->events[loop->at_event];
        struct io_watch *watch = event->data.ptr;
        if (!watch)
            continue;
        /* What is no longer wanted since it was collected is not told. */
        unsigned events = from_epoll(event->events) & (watch->want | IO_ERROR);
        if (events)
            watch->ready(watch, events);
    }
    loop->n_events = loop->at_event = 0;
}

/* ---- time ---- */

static void loop_timer_set(struct io *io, struct io_timer *timer, int64_t at_ms)
{
    struct loop *loop = loop_of(io);
    heap_set(&loop->timers, &timer->node, at_ms);
    timer->at_ms = at_ms;
}

static void loop_timer_cancel(struct io *io, struct io_timer *timer)
{
    heap_remove(&loop_of(io)->timers, &timer->node);
}

static void fire_timers(struct loop *loop)
{
    struct heap_node *top;
    /* No more than there are now: one that sets itself for this very moment waits for the next turn. */
    for (size_t n = loop->timers.n; n && (top = heap_top(&loop->timers)) && top->key <= loop->now_ms; n--) {
        struct io_timer *timer = list_entry(top, struct io_timer, node);
        heap_remove(&loop->timers, top);
        timer->fire(timer);
    }
}

static void on_timerfd(struct io_watch *watch, unsigned events)
{
    struct loop *loop = list_entry(watch, struct loop, timer_watch);
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof(n)) == sizeof(n))
        loop->armed_ms = 0;
}

static void arm(struct loop *loop)
{
    const struct heap_node *top = heap_top(&loop->timers);
    if (!top || (loop->armed_ms && loop->armed_ms <= top->key))
        return;
    int64_t at = top->key > 1 ? top->key : 1; /* 0 would disarm */
    struct itimerspec spec = {.it_value = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000}};
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    loop->armed_ms = at;
}

static int64_t loop_now_ms(struct io *io)
{
    return loop_of(io)->now_ms;
}

static int64_t loop_clock_ns(struct io *io)
{
    (void)io;
    return hb_monotonic_ns();
}

/* ---- posts and deferred frees ---- */

static void loop_post(struct io *io, struct io_task *task)
{
    struct loop *loop = loop_of(io);
    if (task->posted)
        return;
    task->posted = true;
    task->next = NULL;
    *loop->last_task = task;
    loop->last_task = &task->next;
}

static void loop_unpost(struct io *io, struct io_task *task)
{
    struct loop *loop = loop_of(io);
    if (!task->posted)
        return;
    struct io_task **at = &loop->first_task;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    if (!*at)
        loop->last_task = at;
    task->posted = false;
    task->next = NULL;
}

/* Runs what was posted, and what that posts, for a bounded number of rounds; a round is what was there when it began. */
static void run_posted(struct loop *loop)
{
    struct io_task round_end = {0};
    for (int round = 0; round < POST_ROUNDS && loop->first_task; round++) {
        loop_post(&loop->io, &round_end);
        struct io_task *task;
        while ((task = loop->first_task) != &round_end) {
            loop_unpost(&loop->io, task);
            task->run(task);
        }
        loop_unpost(&loop->io, &round_end);
    }
}

void loop_defer_free(struct loop *loop, void *ptr, void (*release)(void *ptr))
{
    struct garbage *note = loop->spare;
    if (note)
        loop->spare = note->next;
    else if (!(note = malloc(sizeof(*note))))
        return;
    *note = (struct garbage){.next = loop->garbage, .ptr = ptr, .release = release};
    loop->garbage = note;
}

static void free_deferred(struct loop *loop)
{
    struct garbage *note;
    while ((note = loop->garbage)) {
        loop->garbage = note->next;
        note->release(note->ptr);
        note->next = loop->spare;
        loop->spare = note;
    }
}

/* ---- signals and stopping ---- */

static void on_signalfd(struct io_watch *watch, unsigned events)
{
    struct loop *loop = list_entry(watch, struct loop, signal_watch);
    struct signalfd_siginfo info;
    (void)events;
    while (read(watch->fd, &info, sizeof(info)) == sizeof(info))
        loop->on_signal(loop->signal_arg, (int)info.ssi_signo);
}

int loop_signals(struct loop *loop, const int *signals, size_t n, void (*fn)(void *arg, int signo), void *arg)
{
    sigset_t set;
    if (loop->signal_watch.watched)
        return -EBUSY;
    sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, signals[i]);
    int rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (rc)
        return -rc;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    loop->on_signal = fn;
    loop->signal_arg = arg;
    loop->signal_watch = (struct io_watch){.fd = fd, .want = IO_READ, .ready = on_signalfd};
    rc = loop_watch(&loop->io, &loop->signal_watch);
    if (rc) {
        close(fd);
        loop->signal_watch.fd = -1;
    }
    return rc;
}

void loop_stop(struct loop *loop)
{
    int saved = errno;
    uint64_t one = 1;
    atomic_store(&loop->stop, true);
    while (write(loop->stop_watch.fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    errno = saved;
}

static void on_stop(struct io_watch *watch, unsigned events)
{
    uint64_t n;
    (void)events;
    while (read(watch->fd, &n, sizeof(n)) < 0 && errno == EINTR)
        ;
}

/* ---- the loop ---- */

static int open_watch(struct loop *loop, struct io_watch *watch, int fd, void (*ready)(struct io_watch *, unsigned))
{
    *watch = (struct io_watch){.fd = fd, .want = IO_READ, .ready = ready};
    return fd < 0 ? -errno : loop_watch(&loop->io, watch);
}

struct loop *loop_new(void)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->io = (struct io){.watch = loop_watch,
                           .unwatch = loop_unwatch,
                           .timer_set = loop_timer_set,
                           .timer_cancel = loop_timer_cancel,
                           .post = loop_post,
                           .unpost = loop_unpost,
                           .now_ms = loop_now_ms,
                           .clock_ns = loop_clock_ns};
    loop->last_task = &loop->first_task;
    loop->timer_watch.fd = loop->stop_watch.fd = loop->signal_watch.fd = -1;
    read_clock(loop);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->epoll_fd < 0 || open_watch(loop, &loop->timer_watch, loop->timer_fd, on_timerfd) ||
        open_watch(loop, &loop->stop_watch, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), on_stop)) {
        loop_free(loop);
        return NULL;
    }
    return loop;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    free_deferred(loop);
    while (loop->spare) {
        struct garbage *note = loop->spare;
        loop->spare = note->next;
        free(note);
    }
    close_fd(loop->signal_watch.fd);
    close_fd(loop->stop_watch.fd);
    close_fd(loop->timer_fd);
    close_fd(loop->epoll_fd);
    free(loop);
}

struct io *loop_io(struct loop *loop)
{
    return &loop->io;
}

static int turn(struct loop *loop)
{
    arm(loop);
    int n = epoll_wait(loop->epoll_fd, loop->events, EVENTS, loop->first_task ? 0 : -1);
    if (n < 0 && errno != EINTR)
        return -errno;
    loop->n_events = n < 0 ? 0 : n;
    read_clock(loop);
    serve_files(loop);
    fire_timers(loop);
    run_posted(loop);
    free_deferred(loop);
    return 0;
}

int loop_run(struct loop *loop)
{
    int rc = 0;
    read_clock(loop);
    while (!rc && !atomic_exchange(&loop->stop, false))
        rc = turn(loop);
    return rc;
}
