/*
 * loop_test.c - the loop: time, posts, files whose watch goes away in between, signals, and other threads.
 */
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "net/loop.h"

struct fixture {
    struct loop *loop;
    struct io *io;
    char log[256]; /* what happened, in order */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->loop = loop_new();
    assert_non_null(f->loop);
    f->io = loop_io(f->loop);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    loop_free(f->loop);
    free(f);
    return 0;
}

static void note(struct fixture *f, const char *text)
{
    strncat(f->log, text, sizeof(f->log) - strlen(f->log) - 1);
}

/* ---- timers ---- */

struct timer {
    struct io_timer timer;
    struct fixture *f;
    const char *name;
    bool stops;
    struct timer *cancels;
    int64_t fired_ms;
    int again_ms; /* set again, once */
};

static void on_timer(struct io_timer *t)
{
    struct timer *timer = list_entry(t, struct timer, timer);
    note(timer->f, timer->name);
    timer->fired_ms = timer->f->io->now_ms(timer->f->io);
    if (timer->cancels)
        timer->f->io->timer_cancel(timer->f->io, &timer->cancels->timer);
    if (timer->again_ms) {
        timer->f->io->timer_set(timer->f->io, t, timer->fired_ms + timer->again_ms);
        timer->again_ms = 0;
    } else if (timer->stops) {
        loop_stop(timer->f->loop);
    }
}

static struct timer *add_timer(struct fixture *f, const char *name, int in_ms)
{
    static struct timer timers[16];
    static size_t n;
    struct timer *timer = &timers[n++ % 16];
    *timer = (struct timer){.f = f, .name = name};
    timer->timer.fire = on_timer;
    f->io->timer_set(f->io, &timer->timer, f->io->now_ms(f->io) + in_ms);
    return timer;
}

static void timers_fire_in_order_and_not_early(void **state)
{
    struct fixture *f = *state;
    int64_t start = f->io->now_ms(f->io);
    struct timer *c = add_timer(f, "c", 30);
    add_timer(f, "a", 5);
    struct timer *b = add_timer(f, "b", 15);
    c->stops = true;
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "abc");
    assert_true(b->fired_ms >= start + 15);
    assert_true(c->fired_ms >= start + 30);
}

static void timer_in_the_past_fires_in_the_next_turn(void **state)
{
    struct fixture *f = *state;
    add_timer(f, "a", -100000)->stops = true;
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "a");
}

static void timer_set_again_moves(void **state)
{
    struct fixture *f = *state;
    struct timer *a = add_timer(f, "a", 1);
    add_timer(f, "b", 10);
    f->io->timer_set(f->io, &a->timer, f->io->now_ms(f->io) + 20); /* later than b now */
    a->stops = true;
    a->again_ms = 5; /* and once more from within */
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "baa");
}

static void timer_cancelled_by_another_of_the_same_turn_does_not_fire(void **state)
{
    struct fixture *f = *state;
    struct timer *a = add_timer(f, "a", -2);
    a->cancels = add_timer(f, "b", -1);
    add_timer(f, "c", 5)->stops = true;
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "ac");
    f->io->timer_cancel(f->io, &a->timer); /* one that isn't set */
}

static void earlier_timer_set_later_is_not_missed(void **state)
{
    struct fixture *f = *state;
    int64_t start = f->io->now_ms(f->io);
    add_timer(f, "late", 60000);
    add_timer(f, "first", 1)->again_ms = 1;
    add_timer(f, "stop", 10)->stops = true;
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "firstfirststop");
    assert_true(f->io->now_ms(f->io) - start < 30000);
}

/* ---- posts and deferred frees ---- */

struct task {
    struct io_task task;
    struct fixture *f;
    const char *name;
    struct task *posts, *unposts;
    int left; /* posts itself as often */
    bool stops;
};

static void on_task(struct io_task *t)
{
    struct task *task = list_entry(t, struct task, task);
    note(task->f, task->name);
    if (task->posts)
        task->f->io->post(task->f->io, &task->posts->task);
    if (task->unposts)
        task->f->io->unpost(task->f->io, &task->unposts->task);
    if (task->left-- > 0)
        task->f->io->post(task->f->io, t);
    else if (task->stops)
        loop_stop(task->f->loop);
}

static void posts_run_once_in_order(void **state)
{
    struct fixture *f = *state;
    struct task c = {.task.run = on_task, .f = f, .name = "c", .stops = true};
    struct task d = {.task.run = on_task, .f = f, .name = "d"};
    struct task a = {.task.run = on_task, .f = f, .name = "a", .posts = &c, .unposts = &d};
    struct task b = {.task.run = on_task, .f = f, .name = "b"};
    f->io->post(f->io, &a.task);
    f->io->post(f->io, &b.task);
    f->io->post(f->io, &a.task); /* again: nothing */
    f->io->post(f->io, &d.task); /* a takes it away */
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "abc");
    assert_false(d.task.posted);
    f->io->unpost(f->io, &d.task); /* one that isn't posted */
}

static void posts_do_not_starve_timers(void **state)
{
    struct fixture *f = *state;
    struct task forever = {.task.run = on_task, .f = f, .name = "", .left = 1 << 30};
    f->io->post(f->io, &forever.task);
    add_timer(f, "t", 5)->stops = true;
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "t");
    f->io->unpost(f->io, &forever.task);
}

static struct fixture *freed_in;

static void on_free(void *ptr)
{
    note(freed_in, ptr);
}

static void deferred_frees_come_after_posts(void **state)
{
    struct fixture *f = *state;
    struct task b = {.task.run = on_task, .f = f, .name = "b", .stops = true};
    struct task a = {.task.run = on_task, .f = f, .name = "a", .posts = &b};
    char x[] = "x", y[] = "y";
    freed_in = f;
    loop_defer_free(f->loop, x, on_free);
    f->io->post(f->io, &a.task);
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "abx");
    loop_defer_free(f->loop, y, on_free); /* freed with the loop */
    loop_free(f->loop);
    f->loop = NULL;
    assert_string_equal(f->log, "abxy");
}

/* ---- files ---- */

struct end {
    struct io_watch watch;
    struct fixture *f;
    const char *name;
    struct end *unwatches;
    unsigned events;
    int calls;
};

static void on_file(struct io_watch *w, unsigned events)
{
    struct end *end = list_entry(w, struct end, watch);
    note(end->f, end->name);
    end->events |= events;
    end->calls++;
    if (end->unwatches) {
        end->f->io->unwatch(end->f->io, &end->unwatches->watch);
        close(end->unwatches->watch.fd);
        free(end->unwatches);
        end->unwatches = NULL;
    }
    end->f->io->unwatch(end->f->io, w);
    loop_stop(end->f->loop);
}

static struct end *add_end(struct fixture *f, int fd, unsigned want, const char *name)
{
    struct end *end = calloc(1, sizeof(*end));
    *end = (struct end){.f = f, .name = name, .watch = {.fd = fd, .want = want, .ready = on_file}};
    assert_int_equal(f->io->watch(f->io, &end->watch), 0);
    return end;
}

static void unwatched_in_the_same_turn_is_not_called(void **state)
{
    struct fixture *f = *state;
    int one[2], two[2];
    assert_int_equal(pipe(one), 0);
    assert_int_equal(pipe(two), 0);
    struct end *a = add_end(f, one[0], IO_READ, "a"), *b = add_end(f, two[0], IO_READ, "a");
    a->unwatches = b;
    b->unwatches = a; /* whichever is served first frees the other: both are ready, only one may be called */
    assert_int_equal(write(one[1], "x", 1), 1);
    assert_int_equal(write(two[1], "x", 1), 1);
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "a");
    /* Which one survived is told by which pipe's end is still open. */
    struct end *left = fcntl(one[0], F_GETFD) >= 0 ? a : b;
    close(left->watch.fd);
    free(left);
    close(one[1]);
    close(two[1]);
}

static void wants_are_changed_and_errors_told(void **state)
{
    struct fixture *f = *state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct end *out = add_end(f, fds[1], 0, "w");
    add_timer(f, "t", 5)->stops = true;
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "t"); /* writable, but nobody asked */
    out->watch.want = IO_WRITE;
    assert_int_equal(f->io->watch(f->io, &out->watch), 0);
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "tw");
    assert_int_equal(out->events, IO_WRITE);
    out->events = 0;
    out->watch.want = 0;
    assert_int_equal(f->io->watch(f->io, &out->watch), 0);
    close(fds[0]); /* no reader any more */
    assert_int_equal(loop_run(f->loop), 0);
    assert_int_equal(out->events, IO_ERROR);
    close(fds[1]);
    free(out);
}

static void a_closed_peer_is_readable(void **state)
{
    struct fixture *f = *state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct end *in = add_end(f, fds[0], IO_READ, "r");
    close(fds[1]);
    assert_int_equal(loop_run(f->loop), 0);
    assert_true(in->events & IO_READ);
    close(fds[0]);
    free(in);
}

static void watching_nonsense_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct io_watch watch = {.fd = 12345, .want = IO_READ, .ready = on_file};
    assert_int_equal(f->io->watch(f->io, &watch), -EBADF);
    assert_false(watch.watched);
    f->io->unwatch(f->io, &watch);
}

/* ---- signals, other threads, idleness ---- */

static void on_signal(void *arg, int signo)
{
    struct fixture *f = arg;
    note(f, signo == SIGUSR1 ? "1" : "2");
    if (signo == SIGUSR2)
        loop_stop(f->loop);
}

static void signals_come_to_the_loop(void **state)
{
    struct fixture *f = *state;
    int signals[] = {SIGUSR1, SIGUSR2};
    assert_int_equal(loop_signals(f->loop, signals, 2, on_signal, f), 0);
    assert_int_equal(loop_signals(f->loop, signals, 2, on_signal, f), -EBUSY);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "12");
}

static void *stop_from_elsewhere(void *arg)
{
    t_sleep_ms(20);
    loop_stop(arg);
    return NULL;
}

static void an_idle_loop_sleeps_until_it_is_stopped(void **state)
{
    struct fixture *f = *state;
    struct rusage before, after;
    pthread_t thread;
    add_timer(f, "never", 3600000);
    assert_int_equal(pthread_create(&thread, NULL, stop_from_elsewhere, f->loop), 0);
    getrusage(RUSAGE_THREAD, &before);
    assert_int_equal(loop_run(f->loop), 0);
    getrusage(RUSAGE_THREAD, &after);
    pthread_join(thread, NULL);
    assert_string_equal(f->log, "");
    /* It slept: a loop that spins for 20 ms uses them. */
    assert_true(after.ru_nvcsw - before.ru_nvcsw < 10);
}

static void a_stop_before_the_run_counts(void **state)
{
    struct fixture *f = *state;
    loop_stop(f->loop);
    assert_int_equal(loop_run(f->loop), 0);
    assert_string_equal(f->log, "");
}

struct half {
    struct io_watch watch;
    struct fixture *f;
    unsigned events;
};

static void on_half(struct io_watch *watch, unsigned events)
{
    struct half *half = list_entry(watch, struct half, watch);
    half->events = events;
    loop_stop(half->f->loop);
}

static void a_hangup_is_told_to_who_does_not_read(void **state)
{
    struct fixture *f = *state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct half half = {.watch = {.fd = fds[0], .want = IO_HANGUP, .ready = on_half}, .f = f};
    assert_int_equal(f->io->watch(f->io, &half.watch), 0);
    assert_int_equal(write(fds[1], "x", 1), 1); /* isn't told */
    assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
    assert_int_equal(loop_run(f->loop), 0);
    assert_int_equal(half.events, IO_HANGUP);
    f->io->unwatch(f->io, &half.watch);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(timers_fire_in_order_and_not_early),
        T(timer_in_the_past_fires_in_the_next_turn),
        T(timer_set_again_moves),
        T(timer_cancelled_by_another_of_the_same_turn_does_not_fire),
        T(earlier_timer_set_later_is_not_missed),
        T(posts_run_once_in_order),
        T(posts_do_not_starve_timers),
        T(deferred_frees_come_after_posts),
        T(unwatched_in_the_same_turn_is_not_called),
        T(wants_are_changed_and_errors_told),
        T(a_closed_peer_is_readable),
        T(watching_nonsense_is_an_error),
        T(signals_come_to_the_loop),
        T(an_idle_loop_sleeps_until_it_is_stopped),
        T(a_stop_before_the_run_counts),
        T(a_hangup_is_told_to_who_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
