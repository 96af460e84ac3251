/* address.c - see address.h. */
#include "client/lib/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ URLs */

static const char wanted[] = "wanted: tcp://HOST:PORT, ipc://PATH, grpc://HOST:PORT or grpcs://HOST:PORT";

static const char *read_path(struct tr_address *address, const char *path, size_t len)
{
    if (len == 0 || len >= sizeof(address->path.sun_path))
        return "a path of 1 to 107 bytes must follow ipc://";
    address->path.sun_family = AF_UNIX;
    memcpy(address->path.sun_path, path, len);
    return NULL;
}

/* HOST:PORT or [ADDRESS]:PORT. */
static const char *read_host(struct tr_address *address, const char *text, size_t len)
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

const char *tr_address_read(struct tr_address *address, const char *url, size_t len)
{
    static const struct {
        const char *scheme;
        enum tr_kind kind;
    } schemes[] = {{"tcp://", TR_TCP}, {"ipc://", TR_IPC}, {"grpc://", TR_GRPC}, {"grpcs://", TR_GRPCS}};

    memset(address, 0, sizeof(*address));
    address->url = strndup(url, len);
    if (!address->url)
        return "no memory";
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t n = strlen(schemes[i].scheme);
        if (len < n || strncmp(url, schemes[i].scheme, n) != 0)
            continue;
        address->kind = schemes[i].kind;
        address->authority = address->url + n;
        return address->kind == TR_IPC ? read_path(address, url + n, len - n) : read_host(address, url + n, len - n);
    }
    return wanted;
}

bool tr_is_grpc(const struct tr_address *address)
{
    return address->kind == TR_GRPC || address->kind == TR_GRPCS;
}

bool tr_is_private(const struct tr_address *address)
{
    struct in6_addr v6;

    return address->kind == TR_IPC || address->kind == TR_GRPCS || !strcmp(address->host, "localhost") ||
           !strncmp(address->host, "127.", 4) || (inet_pton(AF_INET6, address->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

void tr_address_release(struct tr_address *address)
{
    free(address->url);
    address->url = NULL;
}

/* ------------------------------------------------------------------------------------------------ names */

/* `*error` is getaddrinfo's. */
static struct addrinfo *find(const char *host, const char *port, int flags, int *error)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | flags, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    *error = getaddrinfo(host, port, &hints, &found);
    return *error ? NULL : found;
}

struct addrinfo *tr_address_number(const struct tr_address *address)
{
    int error;

    return find(address->host, address->port, AI_NUMERICHOST, &error);
}

/* Two own it: who asked, and the thread that answers. */
struct tr_lookup {
    pthread_mutex_t mutex;
    int fd, owners, error;
    struct addrinfo *found;
    char host[sizeof(((struct tr_address *)0)->host)], port[sizeof(((struct tr_address *)0)->port)];
};

static void leave(struct tr_lookup *lookup)
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
    struct tr_lookup *lookup = arg;
    int error;
    struct addrinfo *found = find(lookup->host, lookup->port, 0, &error);

    pthread_mutex_lock(&lookup->mutex);
    lookup->found = found;
    lookup->error = error;
    pthread_mutex_unlock(&lookup->mutex);
    (void)eventfd_write(lookup->fd, 1);
    leave(lookup);
    return NULL;
}

/* Takes no signals: those are the program's. */
static bool start_thread(struct tr_lookup *lookup)
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

struct tr_lookup *tr_lookup_start(const struct tr_address *address)
{
    struct tr_lookup *lookup = calloc(1, sizeof(*lookup));

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

int tr_lookup_fd(const struct tr_lookup *lookup)
{
    return lookup->fd;
}

struct addrinfo *tr_lookup_take(struct tr_lookup *lookup, const char **error)
{
    struct addrinfo *found;

    pthread_mutex_lock(&lookup->mutex);
    found = lookup->found;
    lookup->found = NULL;
    *error = gai_strerror(lookup->error);
    pthread_mutex_unlock(&lookup->mutex);
    return found;
}

void tr_lookup_free(struct tr_lookup *lookup)
{
    if (lookup)
        leave(lookup);
}
