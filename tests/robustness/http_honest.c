/*
 * http_honest.c - see http_honest.h.
 */
#include "robustness/http_honest.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "robustness/endurance_vitals.h"
#include "robustness/http_raw.h"

enum { PATIENCE_MS = 20000, PAUSE_MS = 4, LOOK_MS = 5 };

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* ---- callers ---- */

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static void tell_trouble(struct honest *honest, const char *what, const struct raw_said *said)
{
    pthread_mutex_lock(&honest->mutex);
    if (!honest->trouble[0])
        snprintf(honest->trouble, sizeof(honest->trouble), "%s: status %d%s, %.300s", what, said->status,
                 said->closed ? ", closed" : "", said->text);
    pthread_mutex_unlock(&honest->mutex);
}

/* One call. False: it was not answered as it must be. */
static bool call(struct honest *honest, int fd, const char *path, const char *json, struct raw_said *said)
{
    struct hp_buf request = HP_BUF_INIT;
    double before = now();
    raw_call1(&request, path, json);
    memset(said, 0, sizeof(*said));
    bool sent = raw_send_buf(fd, &request);
    hp_buf_release(&request);
    if (sent)
        raw_hear(fd, said, false, 1, PATIENCE_MS);
    if (said->status != 200) {
        if (!atomic_load(&honest->stop))
            tell_trouble(honest, path, said);
        return false;
    }
    pthread_mutex_lock(&honest->mutex);
    if (honest->n_calls < HONEST_CALLS)
        honest->took[honest->n_calls++] = now() - before;
    pthread_mutex_unlock(&honest->mutex);
    return true;
}

/* A resource is acquired and released. */
static bool work(struct honest *honest, int fd, int number)
{
    struct raw_said said;
    char json[256];
    snprintf(json, sizeof(json), "{\"namespace\":\"default\",\"resources\":[\"honest-%d\"],\"holder\":\"h%d\",\"ttlMs\":\"60000\"}",
             number, number);
    if (!call(honest, fd, RAW_ACQUIRE, json, &said))
        return false;
    const char *token = strstr(said.text, "\"token\":\"");
    if (!token || !strstr(said.text, "\"granted\"")) {
        tell_trouble(honest, "not granted", &said);
        return false;
    }
    snprintf(json, sizeof(json), "{\"namespace\":\"default\",\"items\":[{\"resource\":\"honest-%d\",\"token\":\"%lld\"}]}", number,
             strtoll(token + strlen("\"token\":\""), NULL, 10));
    return call(honest, fd, RAW_RELEASE, json, &said);
}

static void *caller(void *arg)
{
    struct honest *honest = arg;
    int number = atomic_fetch_add(&honest->next, 1), fd = raw_connect(honest->port);
    if (fd < 0) {
        tell_trouble(honest, "cannot connect", &(struct raw_said){0});
        return NULL;
    }
    while (!atomic_load(&honest->stop) && work(honest, fd, number))
        pause_ms(PAUSE_MS);
    close(fd);
    return NULL;
}

void honest_start(struct honest *honest, int port)
{
    memset(honest, 0, sizeof(*honest));
    honest->port = port;
    pthread_mutex_init(&honest->mutex, NULL);
    for (int i = 0; i < HONEST_CALLERS; i++)
        if (pthread_create(&honest->threads[i], NULL, caller, honest))
            abort();
}

void honest_stop(struct honest *honest)
{
    if (atomic_exchange(&honest->stop, true))
        return;
    for (int i = 0; i < HONEST_CALLERS; i++)
        pthread_join(honest->threads[i], NULL);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void honest_take(struct honest *honest, struct honest_figures *figures)
{
    pthread_mutex_lock(&honest->mutex);
    size_t n = honest->n_calls;
    *figures = (struct honest_figures){.calls = n};
    if (n) {
        qsort(honest->took, n, sizeof(honest->took[0]), compare);
        figures->p50 = honest->took[n / 2];
        figures->p99 = honest->took[n - 1 - n / 100];
        figures->max = honest->took[n - 1];
    }
    honest->n_calls = 0;
    pthread_mutex_unlock(&honest->mutex);
}

/* ---- the gauge ---- */

static void *look(void *arg)
{
    struct gauge *gauge = arg;
    struct vitals vitals;
    while (!atomic_load(&gauge->stop)) {
        if (vitals_read(gauge->pid, &vitals) && vitals.rss_kib > atomic_load(&gauge->peak_kib))
            atomic_store(&gauge->peak_kib, vitals.rss_kib);
        pause_ms(LOOK_MS);
    }
    return NULL;
}

void gauge_start(struct gauge *gauge, pid_t pid)
{
    memset(gauge, 0, sizeof(*gauge));
    gauge->pid = pid;
    if (pthread_create(&gauge->thread, NULL, look, gauge))
        abort();
}

int64_t gauge_take(struct gauge *gauge)
{
    struct vitals vitals;
    int64_t peak = atomic_exchange(&gauge->peak_kib, 0);
    if (vitals_read(gauge->pid, &vitals) && vitals.rss_kib > peak)
        peak = vitals.rss_kib;
    return peak;
}

void gauge_stop(struct gauge *gauge)
{
    atomic_store(&gauge->stop, true);
    pthread_join(gauge->thread, NULL);
}

int gauge_files(pid_t pid)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (!folder)
        return -1;
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}
