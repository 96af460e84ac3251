/*
 * bytes.c - see bytes.h. One thread polls; a connection has a client's end and a server's, and a queue of bytes each way. A
 * connection whose client was reset stays until the server has what is kept for it, and to the end: its answers go nowhere.
 */
#include "robustness/bytes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNS = 64, PIECE = 65536 };

struct queue {
    char *data;
    size_t len;
    bool held;
    int64_t from_ms; /* nothing goes on before */
};

struct conn {
    int ends[2];            /* where bytes come from that go that way: the client's, the server's; -1 = closed */
    struct queue queues[2]; /* by their way */
    int64_t cut_ms;         /* 0 = not */
    bool greeted;           /* bytes have gone both ways */
};

struct bytes {
    pthread_mutex_t mutex;
    pthread_t thread;
    bool stopped;
    int listener, wake;
    uint16_t server_port;
    char address[32];
    struct conn conns[CONNS];
    bool armed;
    enum bytes_way way;
    enum bytes_fault fault;
    int ms;
    unsigned struck;
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bytes: %s: %s\n", what, strerror(errno));
    abort();
}

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void close_end(struct conn *conn, int end, bool reset)
{
    const struct linger linger = {.l_onoff = 1};
    if (conn->ends[end] < 0)
        return;
    if (reset)
        setsockopt(conn->ends[end], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(conn->ends[end]);
    conn->ends[end] = -1;
}

static void close_conn(struct conn *conn, bool reset)
{
    for (int i = 0; i < 2; i++) {
        close_end(conn, i, reset);
        free(conn->queues[i].data);
    }
    *conn = (struct conn){.ends = {-1, -1}};
}

static int connect_to(uint16_t port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0, "socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void take_connection(struct bytes *bytes)
{
    struct conn *conn = bytes->conns;
    const int fd = accept4(bytes->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    while (conn->ends[0] >= 0 || conn->ends[1] >= 0)
        must(++conn < bytes->conns + CONNS, "too many connections");
    *conn = (struct conn){.ends = {fd, connect_to(bytes->server_port)}};
    for (int i = 0; i < 2; i++) {
        if (conn->ends[i] < 0)
            continue;
        setsockopt(conn->ends[i], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        fcntl(conn->ends[i], F_SETFL, O_NONBLOCK);
    }
    if (conn->ends[1] < 0)
        close_conn(conn, true);
}

/* ---- bytes ---- */

static void keep(struct queue *queue, const char *data, size_t n)
{
    queue->data = realloc(queue->data, queue->len + n);
    must(queue->data, "no memory");
    memcpy(queue->data + queue->len, data, n);
    queue->len += n;
}

/* What can go on does. */
static void pass_on(struct conn *conn, int way, int64_t now)
{
    struct queue *queue = &conn->queues[way];
    const int to = conn->ends[!way];
    if (queue->held || queue->from_ms > now || !queue->len)
        return;
    const ssize_t n = to < 0 ? (ssize_t)queue->len : send(to, queue->data, queue->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) {
        if (n < 0 && errno != EAGAIN)
            conn->cut_ms = now;
        return;
    }
    memmove(queue->data, queue->data + n, queue->len - (size_t)n);
    queue->len -= (size_t)n;
}

static void befall(struct bytes *bytes, struct conn *conn, const char *data, size_t n)
{
    struct queue *queue = &conn->queues[bytes->way];
    bytes->armed = false;
    bytes->struck++;
    switch (bytes->fault) {
    case BYTES_HALF:
        keep(queue, data, n / 2);
        pass_on(conn, bytes->way, INT64_MAX);
        conn->cut_ms = now_ms() + bytes->ms;
        break;
    case BYTES_CUT:
        conn->cut_ms = now_ms() + bytes->ms;
        break;
    case BYTES_LATE:
        keep(queue, data, n);
        queue->held = true;
        close_end(conn, 0, true);
        break;
    case BYTES_DELAY:
        keep(queue, data, n);
        queue->from_ms = now_ms() + bytes->ms;
        break;
    }
}

/* Bytes have come from one end, or it has closed. */
static void take_bytes(struct bytes *bytes, struct conn *conn, int way)
{
    static _Thread_local char data[PIECE];
    const ssize_t n = recv(conn->ends[way], data, sizeof(data), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        if (way == BYTES_UP && conn->queues[BYTES_UP].held)
            close_end(conn, way, false); /* what is kept still goes to the server */
        else
            close_conn(conn, n < 0);
        return;
    }
    if (conn->cut_ms)
        return; /* gone with the rest */
    if (bytes->armed && (int)bytes->way == way && conn->greeted) {
        befall(bytes, conn, data, (size_t)n);
        return;
    }
    conn->greeted |= way == BYTES_DOWN;
    keep(&conn->queues[way], data, (size_t)n);
}

/* ---- the thread ---- */

static int next_ms(const struct conn *conn, int64_t now, int ms)
{
    for (int i = 0; i < 2; i++)
        if (conn->queues[i].len && !conn->queues[i].held && conn->queues[i].from_ms > now && conn->queues[i].from_ms - now < ms)
            ms = (int)(conn->queues[i].from_ms - now);
    if (conn->cut_ms && conn->cut_ms - now < ms)
        ms = conn->cut_ms > now ? (int)(conn->cut_ms - now) : 0;
    return ms;
}

static void serve(struct bytes *bytes, struct pollfd *polled)
{
    int ms = 1000;
    size_t n = 2;
    const int64_t before = now_ms();
    polled[0] = (struct pollfd){.fd = bytes->listener, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = bytes->wake, .events = POLLIN};
    for (struct conn *conn = bytes->conns; conn < bytes->conns + CONNS; conn++) {
        for (int way = 0; way < 2; way++) {
            const struct queue *back = &conn->queues[!way]; /* what goes to this end */
            const bool wants = back->len && !back->held && back->from_ms <= before;
            polled[n++] = (struct pollfd){.fd = conn->ends[way], .events = (short)(POLLIN | (wants ? POLLOUT : 0))};
        }
        ms = next_ms(conn, before, ms);
    }
    pthread_mutex_unlock(&bytes->mutex);
    poll(polled, n, ms);
    pthread_mutex_lock(&bytes->mutex);
    eventfd_t count;
    if (polled[1].revents)
        (void)eventfd_read(bytes->wake, &count);
    for (size_t i = 0; i < (size_t)CONNS * 2; i++) {
        struct conn *conn = &bytes->conns[i / 2];
        if (polled[2 + i].revents && conn->ends[i % 2] >= 0 && conn->ends[i % 2] == polled[2 + i].fd)
            take_bytes(bytes, conn, (int)(i % 2));
    }
    for (struct conn *conn = bytes->conns; conn < bytes->conns + CONNS; conn++) {
        for (int way = 0; way < 2; way++)
            pass_on(conn, way, now_ms());
        if (conn->cut_ms && conn->cut_ms <= now_ms())
            close_conn(conn, true);
    }
    if (polled[0].revents)
        take_connection(bytes);
}

static void *run(void *arg)
{
    static _Thread_local struct pollfd polled[2 + CONNS * 2];
    struct bytes *bytes = arg;
    pthread_mutex_lock(&bytes->mutex);
    while (!bytes->stopped)
        serve(bytes, polled);
    pthread_mutex_unlock(&bytes->mutex);
    return NULL;
}

struct bytes *bytes_start(const char *server)
{
    struct bytes *bytes = calloc(1, sizeof(*bytes));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    must(bytes, "no memory");
    pthread_mutex_init(&bytes->mutex, NULL);
    for (int i = 0; i < CONNS; i++)
        bytes->conns[i] = (struct conn){.ends = {-1, -1}};
    bytes->server_port = (uint16_t)strtoul(strrchr(server, ':') + 1, NULL, 10);
    bytes->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    must(bytes->listener >= 0 && !bind(bytes->listener, (const struct sockaddr *)&address, len) && !listen(bytes->listener, 16) &&
             !getsockname(bytes->listener, (struct sockaddr *)&address, &len),
         "listen");
    bytes->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(bytes->wake >= 0, "eventfd");
    snprintf(bytes->address, sizeof(bytes->address), "127.0.0.1:%d", ntohs(address.sin_port));
    must(!pthread_create(&bytes->thread, NULL, run, bytes), "thread");
    return bytes;
}

void bytes_stop(struct bytes *bytes)
{
    if (!bytes)
        return;
    pthread_mutex_lock(&bytes->mutex);
    bytes->stopped = true;
    (void)eventfd_write(bytes->wake, 1);
    pthread_mutex_unlock(&bytes->mutex);
    pthread_join(bytes->thread, NULL);
    for (int i = 0; i < CONNS; i++)
        close_conn(&bytes->conns[i], false);
    close(bytes->listener);
    close(bytes->wake);
    pthread_mutex_destroy(&bytes->mutex);
    free(bytes);
}

const char *bytes_address(const struct bytes *bytes)
{
    return bytes->address;
}

void bytes_strike(struct bytes *bytes, enum bytes_way way, enum bytes_fault fault, int ms)
{
    pthread_mutex_lock(&bytes->mutex);
    bytes->armed = true;
    bytes->way = way;
    bytes->fault = fault;
    bytes->ms = ms;
    pthread_mutex_unlock(&bytes->mutex);
}

unsigned bytes_struck(struct bytes *bytes)
{
    pthread_mutex_lock(&bytes->mutex);
    const unsigned n = bytes->struck;
    pthread_mutex_unlock(&bytes->mutex);
    return n;
}

void bytes_hold(struct bytes *bytes)
{
    pthread_mutex_lock(&bytes->mutex);
    for (int i = 0; i < CONNS; i++)
        bytes->conns[i].queues[BYTES_UP].held = bytes->conns[i].ends[0] >= 0;
    pthread_mutex_unlock(&bytes->mutex);
}

size_t bytes_held(struct bytes *bytes)
{
    size_t n = 0;
    pthread_mutex_lock(&bytes->mutex);
    for (int i = 0; i < CONNS; i++)
        for (int way = 0; way < 2; way++)
            n += bytes->conns[i].queues[way].held ? bytes->conns[i].queues[way].len : 0;
    pthread_mutex_unlock(&bytes->mutex);
    return n;
}

void bytes_release(struct bytes *bytes)
{
    pthread_mutex_lock(&bytes->mutex);
    for (int i = 0; i < CONNS; i++)
        for (int way = 0; way < 2; way++)
            bytes->conns[i].queues[way].held = false;
    (void)eventfd_write(bytes->wake, 1);
    pthread_mutex_unlock(&bytes->mutex);
}
