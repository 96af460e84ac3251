/*
 * watch.c - see watch.h.
 */
#include "robustness/watch.h"

#include "harness/harness.h"

#include <errno.h>

#include "client/lib/call.h"

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    struct watch *watch = arg;
    int64_t now = hfi_boot_ms();
    hf_result renewed = hf_renew_now(lease, NULL), wrote = hf_write(lease, NULL, "late", 4, NULL, NULL);
    pthread_mutex_lock(&watch->mutex);
    watch->told++;
    watch->reason = reason;
    watch->told_ms = now;
    watch->renewed = renewed;
    watch->wrote = wrote;
    pthread_cond_broadcast(&watch->news);
    pthread_mutex_unlock(&watch->mutex);
}

void watch_start(struct watch *watch, const char *servers, int64_t timeout_ms, const char *resource, int64_t ttl_ms)
{
    const hf_client_options options = {.servers = servers, .timeout_ms = timeout_ms};
    const hf_acquire_options acquire = {.resource = resource, .ttl_ms = ttl_ms, .on_loss = on_loss, .on_loss_arg = watch};
    pthread_condattr_t attr;
    hf_error error;
    *watch = (struct watch){0};
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->news, &attr);
    pthread_condattr_destroy(&attr);
    if (hf_client_new(&options, &watch->client, &error) != HF_OK ||
        hf_acquire(watch->client, &acquire, &watch->lease, NULL, &error) != HF_OK)
        fail_msg("%s: %s %s", resource, error.reason, error.message);
}

void watch_stop(struct watch *watch)
{
    hf_lease_free(watch->lease);
    hf_client_free(watch->client);
    pthread_cond_destroy(&watch->news);
    pthread_mutex_destroy(&watch->mutex);
}

bool watch_wait_told(struct watch *watch, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->told && pthread_cond_timedwait(&watch->news, &watch->mutex, &until) != ETIMEDOUT)
        ;
    bool told = watch->told > 0;
    pthread_mutex_unlock(&watch->mutex);
    return told;
}

unsigned watch_told(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    unsigned told = watch->told;
    pthread_mutex_unlock(&watch->mutex);
    return told;
}
