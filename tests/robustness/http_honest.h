/*
 * http_honest.h - honest callers of the HTTP port, and what becomes of them and of the server while others misbehave.
 *
 * Each caller is a thread with one connection that acquires and releases a resource of its own by Connect's JSON over HTTP/1.1,
 * pauses, and does so again. Every call must be answered with 200; how long that took is kept. A gauge is a thread that looks at
 * the server's memory.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_HTTP_HONEST_H
#define HOLDFAST_TESTS_ROBUSTNESS_HTTP_HONEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HONEST_CALLERS = 4, HONEST_CALLS = 1 << 15 };

struct honest {
    int port;
    pthread_t threads[HONEST_CALLERS];
    atomic_bool stop;
    atomic_int next; /* its number: which resource is whose */
    pthread_mutex_t mutex;
    size_t n_calls;            /* since the last honest_take */
    double took[HONEST_CALLS]; /* of each, ms */
    char trouble[512];         /* the first call that wasn't answered as it must be; "" = none */
};

struct honest_figures {
    size_t calls;
    double p50, p99, max; /* ms; 0 without calls */
};

void honest_start(struct honest *honest, int port);
/* Of the calls since the last time. */
void honest_take(struct honest *honest, struct honest_figures *figures);
/* They end; honest->trouble may be looked at. */
void honest_stop(struct honest *honest);

struct gauge {
    pid_t pid;
    pthread_t thread;
    atomic_bool stop;
    atomic_llong peak_kib;
};

void gauge_start(struct gauge *gauge, pid_t pid);
/* The most that was resident since the last time. */
int64_t gauge_take(struct gauge *gauge);
void gauge_stop(struct gauge *gauge);
/* Open descriptors; -1: there is no such process. */
int gauge_files(pid_t pid);

#endif
