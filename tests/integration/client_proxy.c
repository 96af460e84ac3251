/* client_proxy.c - see client_proxy.h. One thread polls all sockets; the mutex guards the mode and what the test asks for. */
#include "client_proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 32 };

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex;
    enum proxy_mode mode;
    bool cut, stop;
    size_t dropped;
    int listener, wake[2];
    struct sockaddr_in server;
    char url[64];
    int pairs[PAIRS][2]; /* client's, server's; -1 = free */
};

static void close_pair(struct proxy *proxy, int i)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    for (int side = 0; side < 2; side++) {
        if (proxy->pairs[i][side] >= 0) {
            setsockopt(proxy->pairs[i][side], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
            close(proxy->pairs[i][side]);
        }
        proxy->pairs[i][side] = -1;
    }
}

static void take_connection(struct proxy *proxy)
{
    const int client = accept(proxy->listener, NULL, NULL), one = 1;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int i = 0;

    while (i < PAIRS && proxy->pairs[i][0] >= 0)
        i++;
    if (client < 0 || server < 0 || i == PAIRS || connect(server, (struct sockaddr *)&proxy->server, sizeof(proxy->server))) {
        close(client);
        close(server);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    proxy->pairs[i][0] = client;
    proxy->pairs[i][1] = server;
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static void forward(struct proxy *proxy, int i, int side, enum proxy_mode mode)
{
    char data[65536];
    const ssize_t n = recv(proxy->pairs[i][side], data, sizeof(data), 0);

    if (n <= 0) {
        close_pair(proxy, i);
        return;
    }
    if (mode == PROXY_DROP_ALL || (mode == PROXY_DROP_ANSWERS && side == 1)) {
        pthread_mutex_lock(&proxy->mutex);
        proxy->dropped += side == 1 ? (size_t)n : 0;
        pthread_mutex_unlock(&proxy->mutex);
    } else if (!write_all(proxy->pairs[i][!side], data, (size_t)n)) {
        close_pair(proxy, i);
    }
}

static bool take_orders(struct proxy *proxy, enum proxy_mode *mode)
{
    bool go_on, cut;

    pthread_mutex_lock(&proxy->mutex);
    *mode = proxy->mode;
    go_on = !proxy->stop;
    cut = proxy->cut;
    proxy->cut = false;
    pthread_mutex_unlock(&proxy->mutex);
    for (int i = 0; cut && i < PAIRS; i++)
        close_pair(proxy, i);
    return go_on;
}

static void *proxy_main(void *arg)
{
    struct proxy *proxy = arg;
    enum proxy_mode mode;

    while (take_orders(proxy, &mode)) {
        struct pollfd fds[2 + 2 * PAIRS];
        char c[16];
        fds[0] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (int i = 0; i < 2 * PAIRS; i++)
            fds[2 + i] = (struct pollfd){.fd = proxy->pairs[i / 2][i % 2], .events = POLLIN};
        poll(fds, 2 + 2 * PAIRS, -1);
        if (fds[0].revents) {
            (void)!read(proxy->wake[0], c, sizeof(c));
            continue; /* orders first: what was ready is still ready */
        }
        for (int i = 0; i < 2 * PAIRS; i++) {
            if (fds[2 + i].revents && proxy->pairs[i / 2][i % 2] == fds[2 + i].fd && fds[2 + i].fd >= 0)
                forward(proxy, i / 2, i % 2, mode);
        }
        if (fds[1].revents)
            take_connection(proxy);
    }
    return NULL;
}

struct proxy *proxy_start(const char *server_url)
{
    struct proxy *proxy = calloc(1, sizeof(*proxy));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    if (!proxy)
        abort();
    for (int i = 0; i < PAIRS; i++)
        proxy->pairs[i][0] = proxy->pairs[i][1] = -1;
    pthread_mutex_init(&proxy->mutex, NULL);
    proxy->server = address;
    proxy->server.sin_port = htons((uint16_t)atoi(strrchr(server_url, ':') + 1));
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (pipe(proxy->wake) || bind(proxy->listener, (struct sockaddr *)&address, len) || listen(proxy->listener, 16) ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &len))
        abort();
    snprintf(proxy->url, sizeof(proxy->url), "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    if (pthread_create(&proxy->thread, NULL, proxy_main, proxy))
        abort();
    return proxy;
}

static void wake(struct proxy *proxy)
{
    (void)!write(proxy->wake[1], "", 1);
}

void proxy_stop(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->stop = true;
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy);
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < PAIRS; i++)
        close_pair(proxy, i);
    close(proxy->listener);
    close(proxy->wake[0]);
    close(proxy->wake[1]);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

const char *proxy_url(const struct proxy *proxy)
{
    return proxy->url;
}

void proxy_mode(struct proxy *proxy, enum proxy_mode mode)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->mode = mode;
    proxy->dropped = 0;
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy);
}

void proxy_cut(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = true;
    pthread_mutex_unlock(&proxy->mutex);
    wake(proxy);
}

size_t proxy_dropped(struct proxy *proxy)
{
    size_t n;

    pthread_mutex_lock(&proxy->mutex);
    n = proxy->dropped;
    pthread_mutex_unlock(&proxy->mutex);
    return n;
}
