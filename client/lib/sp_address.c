/* sp_address.c - see sp_address.h. */
#include "client/lib/sp_address.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ URLs */

static const char wanted[] = "wanted: tcp://HOST:PORT or ipc://PATH";

static const char *read_path(struct sp_address *address, const char *path, size_t len)
{
    if (len == 0 || len >= sizeof(address->path.sun_path))
        return "a path of 1 to 107 bytes must follow ipc://";
    address->is_ipc = true;
    address->path.sun_family = AF_UNIX;
    memcpy(address->path.sun_path, path, len);
    return NULL;
}

/* HOST:PORT or [ADDRESS]:PORT. */
static const char *read_host(struct sp_address *address, const char *text, size_t len)
{
    const char *colon = memrchr(text, ':', len);
    size_t host_len = colon ? (size_t)(colon - text) : 0, port_len = colon ? len - host_len - 1 : 0;
    char *end;
    long port;

    if (port_len == 0 || port_len >= sizeof(address->port) || strspn(colon + 1, "0123456789") < port_len)
        return wanted;
    memcpy(address->port, colon + 1, port_len);
    port = strtol(address->port, &end, 10);
    if (port < 1 || port > 65535)
        return "the port must be 1 to 65535";
    if (host_len > 2 && text[0] == '[' && text[host_len - 1] == ']') {
        text++;
        host_len -= 2;
    } else if (memchr(text, ':', host_len) || memchr(text, '[', host_len)) {
        return wanted;
    }
    if (host_len == 0 || host_len >= sizeof(address->host) || memchr(text, '/', host_len))
        return wanted;
    memcpy(address->host, text, host_len);
    return NULL;
}

const char *sp_address_read(struct sp_address *address, const char *url, size_t len)
{
    enum { SCHEME = 6 };

    memset(address, 0, sizeof(*address));
    address->url = strndup(url, len);
    if (!address->url)
        return "no memory";
    if (len > SCHEME && !strncmp(url, "tcp://", SCHEME))
        return read_host(address, url + SCHEME, len - SCHEME);
    if (len >= SCHEME && !strncmp(url, "ipc://", SCHEME))
        return read_path(address, url + SCHEME, len - SCHEME);
    return wanted;
}

void sp_address_release(struct sp_address *address)
{
    free(address->url);
    address->url = NULL;
}

/* ------------------------------------------------------------------------------------------------ names */

static struct addrinfo *find(const char *host, const char *port, int flags)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | flags, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    return getaddrinfo(host, port, &hints, &found) ? NULL : found;
}

struct addrinfo *sp_address_number(const struct sp_address *address)
{
    return find(address->host, address->port, AI_NUMERICHOST);
}

/* Two own it: who asked, and the thread that answers. */
struct sp_lookup {
    pthread_mutex_t mutex;
    int fd, owners;
    struct addrinfo *found;
    char host[sizeof(((struct sp_address *)0)->host)], port[sizeof(((struct sp_address *)0)->port)];
};

static void leave(struct sp_lookup *lookup)
{
    int left;

    pthread_mutex_lock(&lookup->mutex);
    left = --lookup->owners;
    pthread_mutex_unlock(&lookup->mutex);
    if (left)
        return;
    if (lookup->found)
        freeaddrinfo(lookup->found);
    if (lookup->fd >= 0)
        close(lookup->fd);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

static void *ask(void *arg)
{
    struct sp_lookup *lookup = arg;
    struct addrinfo *found = find(lookup->host, lookup->port, 0);

    pthread_mutex_lock(&lookup->mutex);
    lookup->found = found;
    pthread_mutex_unlock(&lookup->mutex);
    (void)eventfd_write(lookup->fd, 1);
    leave(lookup);
    return NULL;
}

/* Takes no signals: those are the program's. */
static bool start_thread(struct sp_lookup *lookup)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int rc;

    if (pthread_attr_init(&attr))
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, ask, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0;
}

struct sp_lookup *sp_lookup_start(const struct sp_address *address)
{
    struct sp_lookup *lookup = calloc(1, sizeof(*lookup));

    if (!lookup)
        return NULL;
    pthread_mutex_init(&lookup->mutex, NULL);
    lookup->owners = 2;
    memcpy(lookup->host, address->host, sizeof(lookup->host));
    memcpy(lookup->port, address->port, sizeof(lookup->port));
    lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->fd >= 0 && start_thread(lookup))
        return lookup;
    lookup->owners = 1;
    leave(lookup);
    return NULL;
}

int sp_lookup_fd(const struct sp_lookup *lookup)
{
    return lookup->fd;
}

struct addrinfo *sp_lookup_take(struct sp_lookup *lookup)
{
    struct addrinfo *found;

    pthread_mutex_lock(&lookup->mutex);
    found = lookup->found;
    lookup->found = NULL;
    pthread_mutex_unlock(&lookup->mutex);
    return found;
}

void sp_lookup_free(struct sp_lookup *lookup)
{
    if (lookup)
        leave(lookup);
}
