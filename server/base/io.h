/*
 * io.h - the port through which rooms wait for files and time.
 *
 * The event loop (net/loop) implements it; tests may bring their own. A room that is handed a `struct io` never blocks,
 * never calls epoll or the clock itself, and runs on the loop's one thread only. Watches and timers are embedded in their
 * owners' structs and are owned by them; the port only links them.
 */
#ifndef HOLDFAST_BASE_IO_H
#define HOLDFAST_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"

enum {
    IO_READ = 1,
    IO_WRITE = 2,
    IO_ERROR = 4,
    IO_HANGUP = 8 /* the other end sends no more; for who doesn't want to read and has to know all the same */
};

/* One file descriptor that is waited for. Zero it, then set fd, want and ready. */
struct io_watch {
    int fd;
    unsigned want; /* IO_READ | IO_WRITE | IO_HANGUP; errors are always told */
    void (*ready)(struct io_watch *watch, unsigned events);
    bool watched; /* the port's */
};

/* One moment that is waited for. Zero it, then set fire. */
struct io_timer {
    void (*fire)(struct io_timer *timer);
    int64_t at_ms;         /* the port's */
    struct heap_node node; /* the port's; linked: it is set */
};

/* Work for the end of the present turn of the loop, after all files that were ready have been served. */
struct io_task {
    void (*run)(struct io_task *task);
    struct io_task *next; /* the port's */
    bool posted;          /* the port's */
};

struct io {
    /* From now on `ready` is called when what is wanted can be done; also changes `want` of a watched one. 0, or -errno. */
    int (*watch)(struct io *io, struct io_watch *watch);
    /* From now on `ready` is not called, not even for events already collected. Must precede close(fd). */
    void (*unwatch)(struct io *io, struct io_watch *watch);
    /* `fire` is called once, at or after at_ms of now_ms()'s clock; replaces an earlier setting. */
    void (*timer_set)(struct io *io, struct io_timer *timer, int64_t at_ms);
    void (*timer_cancel)(struct io *io, struct io_timer *timer);
    /* `run` is called once at the end of this turn; posting a posted task does nothing. */
    void (*post)(struct io *io, struct io_task *task);
    void (*unpost)(struct io *io, struct io_task *task);
    /* Monotonic milliseconds, as of the start of this turn. */
    int64_t (*now_ms)(struct io *io);
    /* Monotonic nanoseconds at this very moment: to measure what something costs. */
    int64_t (*clock_ns)(struct io *io);
};

#endif
