/*
 * loop.h - the event loop: epoll for files, a timerfd for time, an eventfd to be woken.
 *
 * It implements the port base/io.h. One thread runs it and owns all that hangs on it; only loop_stop may be called from
 * elsewhere. A turn is: wait; serve the files that are ready; fire the timers that are due; run what was posted (also
 * what is posted meanwhile, up to a bound, so that posts cannot starve files); free what was deferred. An idle loop
 * sleeps without a time limit.
 */
#ifndef HOLDFAST_NET_LOOP_H
#define HOLDFAST_NET_LOOP_H

#include <signal.h>
#include <stddef.h>

#include "base/io.h"

struct loop;

/* NULL: no memory or no file descriptors (errno). */
struct loop *loop_new(void) __attribute__((warn_unused_result));

/* The loop is gone; what was deferred has been freed; what was posted is not run. Watches and timers that are still set
 * are forgotten, their files not closed. NULL is allowed. Not from within loop_run. */
void loop_free(struct loop *loop);

/* The port. Valid as long as the loop; its functions are for the loop's thread (or for whoever sets things up before). */
struct io *loop_io(struct loop *loop);

/* Serves until loop_stop was called. 0, or -errno if epoll fails. May be called again. */
int loop_run(struct loop *loop);

/* loop_run returns at the end of the present turn, or at once if it isn't running yet. From any thread and from signal
 * handlers. */
void loop_stop(struct loop *loop);

/* `release(ptr)` is called at the end of this turn, when no event collected before can refer to it any more. Cannot fail:
 * without memory for the note the object is left to leak until loop_free. */
void loop_defer_free(struct loop *loop, void *ptr, void (*release)(void *ptr));

/*
 * From now on `fn` is called on the loop's thread for each of these signals, which are blocked in the calling thread and in
 * the threads it starts later: call it before any other thread exists, and give children their mask back. Once a loop.
 * 0, or -errno.
 */
int loop_signals(struct loop *loop, const int *signals, size_t n, void (*fn)(void *arg, int signo), void *arg)
    __attribute__((warn_unused_result));

#endif
