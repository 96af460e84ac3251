/*
 * resolve.c - see resolve.h. A job is shared by the loop and its thread and freed by the last of the two; the thread
 * writes to it before it writes to the eventfd, the loop reads it only after it has read from there.
 */
#include "store/resolve.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/files.h"
#include "base/list.h"

enum { HOSTS_MAX = 16, ADDRESSES_MAX = 32, TEXT_MAX = 4096 };

struct job {
    atomic_int refs;
    int event_fd;
    int n, first;
    char *host[HOSTS_MAX], *hostaddr[HOSTS_MAX], *port[HOSTS_MAX]; /* as in the DSN */
    /* Written by the thread. */
    int found;
    char hosts[TEXT_MAX], addresses[TEXT_MAX], ports[TEXT_MAX];
    char why[256];
};

struct st_resolve {
    struct job *job;
    struct io *io;
    struct io_watch watch;
    void (*done)(void *arg);
    void *arg;
};

static void job_drop(struct job *job)
{
    if (atomic_fetch_sub(&job->refs, 1) != 1)
        return;
    for (int i = 0; i < HOSTS_MAX; i++) {
        free(job->host[i]);
        free(job->hostaddr[i]);
        free(job->port[i]);
    }
    if (job->event_fd >= 0)
        close(job->event_fd);
    free(job);
}

static bool is_name(const char *host)
{
    unsigned char address[16];
    return host[0] && host[0] != '/' && host[0] != '@' && inet_pton(AF_INET, host, address) != 1 &&
           inet_pton(AF_INET6, host, address) != 1;
}

/* ------------------------------------------------------------------------------------------------ the thread */

static bool append(char *list, int index, const char *text)
{
    size_t len = strlen(list);
    int n = snprintf(list + len, TEXT_MAX - len, "%s%s", index ? "," : "", text);
    return n >= 0 && (size_t)n < TEXT_MAX - len;
}

static void add_address(struct job *job, int i, const char *address)
{
    if (job->found == ADDRESSES_MAX)
        return;
    if (append(job->hosts, job->found, job->host[i]) && append(job->addresses, job->found, address) &&
        append(job->ports, job->found, job->port[i]))
        job->found++;
    else
        job->found = ADDRESSES_MAX; /* a list is cut: take none of it further */
}

static void resolve_name(struct job *job, int i)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    hb_files_spare_begin(); /* see pq.c */
    int rc = getaddrinfo(job->host[i], NULL, &hints, &list);
    hb_files_spare_end();
    if (rc != 0) {
        snprintf(job->why, sizeof(job->why), "cannot resolve \"%.100s\": %s", job->host[i], gai_strerror(rc));
        return;
    }
    for (struct addrinfo *at = list; at; at = at->ai_next) {
        char text[INET6_ADDRSTRLEN + 32];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0)
            add_address(job, i, text);
    }
    freeaddrinfo(list);
}

/* From the host at the place `first` on. Blocks where names are to be resolved. */
static void find_all(struct job *job)
{
    for (int k = 0; k < job->n; k++) {
        const int i = (job->first + k) % job->n;
        if (job->hostaddr[i][0] || !is_name(job->host[i]))
            add_address(job, i,
                        job->hostaddr[i][0] || job->host[i][0] == '/' || job->host[i][0] == '@' ? job->hostaddr[i] : job->host[i]);
        else
            resolve_name(job, i);
    }
}

static void *work(void *arg)
{
    struct job *job = arg;
    find_all(job);
    uint64_t one = 1;
    ssize_t n = write(job->event_fd, &one, sizeof(one));
    (void)n; /* an eventfd with room cannot refuse */
    job_drop(job);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ the loop's side */

/* Splits a comma-separated list into copies; its length, or -1 without memory or beyond HOSTS_MAX. "" is one empty entry. */
static int split(const char *list, char *out[HOSTS_MAX])
{
    for (int n = 0;; n++) {
        size_t len = strcspn(list, ",");
        if (n == HOSTS_MAX || !(out[n] = strndup(list, len)))
            return -1;
        if (!list[len])
            return n + 1;
        list += len + 1;
    }
}

/* A list with one entry serves for all hosts, one that isn't given is empty: libpq's rule for `port`. */
static bool spread(char *list[HOSTS_MAX], int have, int n)
{
    for (int i = have; i < n; i++) {
        if (!(list[i] = strdup(have == 1 ? list[0] : "")))
            return false;
    }
    return true;
}

static const char *option(const PQconninfoOption *options, const char *name, const char *variable)
{
    for (const PQconninfoOption *at = options; at->keyword; at++) {
        if (strcmp(at->keyword, name) == 0 && at->val)
            return at->val;
    }
    const char *value = variable ? getenv(variable) : NULL;
    return value ? value : "";
}

static bool fill(struct job *job, const PQconninfoOption *options)
{
    const char *hostaddr = option(options, "hostaddr", "PGHOSTADDR");
    job->n = split(option(options, "host", "PGHOST"), job->host);
    int addresses = split(hostaddr, job->hostaddr);
    int ports = split(option(options, "port", "PGPORT"), job->port);
    if (job->n < 0 || addresses < 0 || ports < 0)
        return false;
    if (addresses > 1 && job->n == 1 && !job->host[0][0] && spread(job->host, 1, addresses)) /* only addresses are given */
        job->n = addresses;
    if (addresses != job->n && hostaddr[0])
        return false; /* libpq will say what is wrong */
    return spread(job->hostaddr, addresses, job->n) && spread(job->port, ports, job->n);
}

static bool needed(const struct job *job)
{
    for (int i = 0; i < job->n; i++) {
        if (is_name(job->host[i]) && !job->hostaddr[i][0])
            return true;
    }
    return false;
}

static bool start_thread(struct job *job)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 512 * 1024);
    /* Signals are for the loop's thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&job->refs, 1);
    bool ok = pthread_create(&thread, &attr, work, job) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!ok)
        atomic_fetch_sub(&job->refs, 1);
    return ok;
}

static void on_event(struct io_watch *watch, unsigned events)
{
    (void)events;
    struct st_resolve *resolve = list_entry(watch, struct st_resolve, watch);
    resolve->io->unwatch(resolve->io, watch);
    resolve->done(resolve->arg);
}

static struct st_resolve *start(struct job *job, struct io *io, void (*done)(void *arg), void *arg)
{
    struct st_resolve *resolve = calloc(1, sizeof(*resolve));
    if (!resolve)
        return NULL;
    *resolve = (struct st_resolve){.job = job, .io = io, .done = done, .arg = arg};
    if (job->event_fd < 0) /* nothing to wait for */
        return resolve;
    resolve->watch = (struct io_watch){.fd = job->event_fd, .want = IO_READ, .ready = on_event};
    if (io->watch(io, &resolve->watch) != 0) {
        free(resolve);
        return NULL;
    }
    if (!start_thread(job)) {
        io->unwatch(io, &resolve->watch);
        free(resolve);
        return NULL;
    }
    return resolve;
}

/* The hosts of the DSN, to be dropped; NULL: they are libpq's business, or there is no memory. */
static struct job *job_of(const char *dsn, bool *failed)
{
    PQconninfoOption *options = PQconninfoParse(dsn, NULL);
    struct job *job = calloc(1, sizeof(*job));
    *failed = !job || !options;
    if (job) {
        atomic_init(&job->refs, 1);
        job->event_fd = -1;
    }
    if (job && (!options || option(options, "service", NULL)[0] || !fill(job, options))) {
        job_drop(job);
        job = NULL;
    }
    PQconninfoFree(options);
    return job;
}

enum st_resolve_status st_resolve_start(const char *dsn, int first, struct io *io, void (*done)(void *arg), void *arg,
                                        struct st_resolve **out)
{
    bool failed;
    struct job *job = job_of(dsn, &failed);
    if (!job)
        return failed ? ST_RESOLVE_FAILED : ST_RESOLVE_NONE;
    const bool names = needed(job);
    job->first = first % job->n;
    enum st_resolve_status status = ST_RESOLVE_NONE;
    if (!names && job->first == 0)
        goto out;
    status = ST_RESOLVE_FAILED;
    if (names) {
        hb_files_spare_begin();
        job->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        hb_files_spare_end();
        if (job->event_fd < 0)
            goto out;
    } else {
        find_all(job);
    }
    struct st_resolve *resolve = start(job, io, done, arg);
    if (resolve) {
        *out = resolve;
        job = NULL;
        status = names ? ST_RESOLVE_STARTED : ST_RESOLVE_READY;
    }
out:
    if (job)
        job_drop(job);
    return status;
}

int st_resolve_hosts(const char *dsn)
{
    bool failed;
    struct job *job = job_of(dsn, &failed);
    if (!job)
        return 1;
    const int n = job->n;
    job_drop(job);
    return n;
}

int st_resolve_behind(const char *dsn, const char *host, const char *port)
{
    bool failed;
    struct job *job = job_of(dsn, &failed);
    int behind = 0;
    for (int i = 0; job && host && port && i < job->n && !behind; i++) {
        const char *name = job->host[i][0] ? job->host[i] : job->hostaddr[i];
        if (strcmp(name, host) == 0 && (!job->port[i][0] || strcmp(job->port[i], port) == 0))
            behind = i + 1;
    }
    if (job) {
        behind %= job->n;
        job_drop(job);
    }
    return behind;
}

bool st_resolve_result(const struct st_resolve *resolve, struct st_addresses *out, const char **why)
{
    const struct job *job = resolve->job;
    if (job->found == 0) {
        *why = job->why;
        return false;
    }
    *out = (struct st_addresses){.host = job->hosts, .hostaddr = job->addresses, .port = job->ports};
    return true;
}

void st_resolve_free(struct st_resolve *resolve)
{
    if (!resolve)
        return;
    resolve->io->unwatch(resolve->io, &resolve->watch);
    job_drop(resolve->job);
    free(resolve);
}
