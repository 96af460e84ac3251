/*
 * holders.c - see holders.h.
 */
#include "robustness/holders.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 64 };

struct work {
    hf_client *client;
    const char *prefix;
    size_t first, n;
    const hf_acquire_options *options;
    hf_lease **leases;
    char *why;
    atomic_size_t next, got;
    pthread_mutex_t mutex;
};

void holders_name(char name[64], const char *prefix, size_t number)
{
    snprintf(name, 64, "%s/%zu", prefix, number);
}

static void *acquire_some(void *arg)
{
    struct work *work = arg;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->n;) {
        hf_acquire_options options = *work->options;
        char name[64];
        hf_error error;
        holders_name(name, work->prefix, work->first + i);
        options.resource = name;
        work->leases[i] = NULL;
        if (hf_acquire(work->client, &options, &work->leases[i], NULL, &error) == HF_OK) {
            atomic_fetch_add(&work->got, 1);
            continue;
        }
        pthread_mutex_lock(&work->mutex);
        snprintf(work->why, 512, "%s: %s %s", name, error.reason, error.message);
        pthread_mutex_unlock(&work->mutex);
    }
    return NULL;
}

size_t holders_acquire(hf_client *client, const char *prefix, size_t first, size_t n, const hf_acquire_options *options,
                       hf_lease **leases, char why[512])
{
    struct work work = {
        .client = client, .prefix = prefix, .first = first, .n = n, .options = options, .leases = leases, .why = why};
    pthread_t threads[THREADS];
    int started = 0;
    pthread_mutex_init(&work.mutex, NULL);
    while (started < THREADS && pthread_create(&threads[started], NULL, acquire_some, &work) == 0)
        started++;
    if (started == 0)
        acquire_some(&work);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    pthread_mutex_destroy(&work.mutex);
    return n - atomic_load(&work.got);
}
