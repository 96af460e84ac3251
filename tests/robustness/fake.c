/*
 * fake.c - see fake.h. The server is one thread that polls; its mutex guards what it has heard.
 */
#include "robustness/fake.h"

#include "harness/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "holdfast/v1/rpc.pb-c.h"

enum { CONNECTIONS = 64, HEAD = 8, ID = 4, FRAME_MAX = 2 << 20 };

static const uint8_t greeting_req[HEAD] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}, greeting_rep[HEAD] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

struct connection {
    int fd;
    bool greeted;
    uint8_t *in;
    size_t len;
};

struct fake_server {
    pthread_t thread;
    pthread_mutex_t mutex;
    char heard[16384];
    char copy[16384];
    int listener, stop;
    struct connection connections[CONNECTIONS];
    char url[64];
};

/* ------------------------------------------------------------------------------------------------ frames */

static void send_all(int fd, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* cut: seen when reading */
        bytes += n;
        len -= (size_t)n;
    }
}

static void send_frame(int fd, uint32_t id, const void *body, size_t len)
{
    uint8_t *frame = malloc(HEAD + ID + len);
    if (!frame)
        abort();
    uint64_t size = len + ID;
    for (int i = 0; i < HEAD; i++)
        frame[i] = (uint8_t)(size >> (56 - 8 * i));
    uint32_t wire_id = htonl(id);
    memcpy(frame + HEAD, &wire_id, ID);
    memcpy(frame + HEAD + ID, body, len);
    send_all(fd, frame, HEAD + ID + len);
    free(frame);
}

static uint32_t id_of(const uint8_t *frame)
{
    uint32_t id;
    memcpy(&id, frame + HEAD, ID);
    return ntohl(id);
}

/* The length of the whole frame that begins here; 0 if it isn't all there. */
static size_t whole(const uint8_t *in, size_t len)
{
    uint64_t size = 0;
    if (len < HEAD)
        return 0;
    for (int i = 0; i < HEAD; i++)
        size = size << 8 | in[i];
    if (size < ID || size > FRAME_MAX)
        abort(); /* no framing that anybody sent */
    return len >= HEAD + size ? HEAD + (size_t)size : 0;
}

/* ------------------------------------------------------------------------------------------------ the server */

static void note(struct fake_server *server, const char *text, size_t len)
{
    pthread_mutex_lock(&server->mutex);
    size_t at = strlen(server->heard);
    if (len > 64)
        len = 64; /* of large ones the beginning */
    snprintf(server->heard + at, sizeof(server->heard) - at, "%s%.*s", at ? " " : "", (int)len, text);
    pthread_mutex_unlock(&server->mutex);
}

static void answer(struct fake_server *server, int fd, const uint8_t *frame, size_t len)
{
    Holdfast__V1__CallEnvelope *calls = holdfast__v1__call_envelope__unpack(NULL, len - HEAD - ID, frame + HEAD + ID);
    Holdfast__V1__ReplyEnvelope replies = HOLDFAST__V1__REPLY_ENVELOPE__INIT;
    Holdfast__V1__Reply all[16], *pointers[16];
    if (!calls || calls->n_calls > 16)
        abort();
    for (size_t i = 0; i < calls->n_calls; i++) {
        holdfast__v1__reply__init(&all[i]);
        all[i].payload = calls->calls[i]->payload;
        pointers[i] = &all[i];
    }
    replies.n_replies = calls->n_calls;
    replies.replies = pointers;
    note(server, (const char *)calls->calls[0]->payload.data, calls->calls[0]->payload.len);
    size_t size = holdfast__v1__reply_envelope__get_packed_size(&replies);
    uint8_t *packed = malloc(size);
    if (!packed)
        abort();
    holdfast__v1__reply_envelope__pack(&replies, packed);
    send_frame(fd, id_of(frame), packed, size);
    free(packed);
    holdfast__v1__call_envelope__free_unpacked(calls, NULL);
}

static void read_connection(struct fake_server *server, struct connection *connection)
{
    ssize_t n = recv(connection->fd, connection->in + connection->len, FRAME_MAX + HEAD - connection->len, 0);
    if (n <= 0) {
        if (connection->len > 0)
            note(server, "half", 4);
        close(connection->fd);
        free(connection->in);
        *connection = (struct connection){.fd = -1};
        return;
    }
    connection->len += (size_t)n;
    for (size_t size;;) {
        if (!connection->greeted) {
            if (connection->len < HEAD)
                return;
            if (memcmp(connection->in, greeting_req, HEAD) != 0)
                abort();
            connection->greeted = true;
            size = HEAD;
        } else {
            size = whole(connection->in, connection->len);
            if (size == 0)
                return;
            answer(server, connection->fd, connection->in, size);
        }
        connection->len -= size;
        memmove(connection->in, connection->in + size, connection->len);
    }
}

static void take_connection(struct fake_server *server)
{
    int fd = accept(server->listener, NULL, NULL), one = 1, i = 0;
    while (i < CONNECTIONS && server->connections[i].fd >= 0)
        i++;
    if (fd < 0 || i == CONNECTIONS)
        abort();
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    server->connections[i] = (struct connection){.fd = fd, .in = malloc(FRAME_MAX + HEAD)};
    if (!server->connections[i].in)
        abort();
    send_all(fd, greeting_rep, HEAD);
}

static void *serve(void *arg)
{
    struct fake_server *server = arg;
    for (;;) {
        struct pollfd fds[2 + CONNECTIONS];
        fds[0] = (struct pollfd){.fd = server->stop, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        for (int i = 0; i < CONNECTIONS; i++)
            fds[2 + i] = (struct pollfd){.fd = server->connections[i].fd, .events = POLLIN};
        poll(fds, 2 + CONNECTIONS, -1);
        if (fds[0].revents)
            return NULL;
        for (int i = 0; i < CONNECTIONS; i++)
            if (fds[2 + i].revents)
                read_connection(server, &server->connections[i]);
        if (fds[1].revents)
            take_connection(server);
    }
}

struct fake_server *fake_server_start(void)
{
    struct fake_server *server = calloc(1, sizeof(*server));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    if (!server)
        abort();
    for (int i = 0; i < CONNECTIONS; i++)
        server->connections[i].fd = -1;
    pthread_mutex_init(&server->mutex, NULL);
    server->stop = eventfd(0, EFD_CLOEXEC);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->stop < 0 || bind(server->listener, (struct sockaddr *)&address, len) || listen(server->listener, 16) ||
        getsockname(server->listener, (struct sockaddr *)&address, &len))
        abort();
    snprintf(server->url, sizeof(server->url), "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    if (pthread_create(&server->thread, NULL, serve, server))
        abort();
    return server;
}

void fake_server_stop(struct fake_server *server)
{
    const uint64_t one = 1;
    (void)!write(server->stop, &one, sizeof(one));
    pthread_join(server->thread, NULL);
    for (int i = 0; i < CONNECTIONS; i++) {
        if (server->connections[i].fd >= 0)
            close(server->connections[i].fd);
        free(server->connections[i].in);
    }
    close(server->listener);
    close(server->stop);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

const char *fake_server_url(const struct fake_server *server)
{
    return server->url;
}

struct expectation {
    struct fake_server *server;
    const char *expected;
};

static bool is_heard(void *arg)
{
    struct expectation *e = arg;
    pthread_mutex_lock(&e->server->mutex);
    memcpy(e->server->copy, e->server->heard, sizeof(e->server->copy));
    pthread_mutex_unlock(&e->server->mutex);
    return !strcmp(e->server->copy, e->expected);
}

bool fake_server_heard(struct fake_server *server, const char *expected, int ms, const char **heard)
{
    struct expectation e = {server, expected};
    bool good = t_wait_for(is_heard, &e, ms);
    *heard = server->copy;
    return good;
}

/* ------------------------------------------------------------------------------------------------ the client */

int fake_connect(const char *url)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    address.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
        fail_msg("%s: %s", url, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    send_all(fd, greeting_req, HEAD);
    return fd;
}

void fake_ask(int fd, uint32_t id, const char *methods, const char *payload)
{
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call calls[16], *pointers[16];
    while (*methods) {
        size_t len = strcspn(methods, ",");
        Holdfast__V1__Call *call = &calls[envelope.n_calls];
        holdfast__v1__call__init(call);
        call->method = t_printf("/test.Service/%.*s", (int)len, methods);
        call->payload.data = (uint8_t *)(uintptr_t)payload;
        call->payload.len = strlen(payload);
        pointers[envelope.n_calls++] = call;
        methods += len + (methods[len] == ',');
    }
    envelope.calls = pointers;
    size_t size = holdfast__v1__call_envelope__get_packed_size(&envelope);
    uint8_t *packed = malloc(size);
    assert_non_null(packed);
    holdfast__v1__call_envelope__pack(&envelope, packed);
    send_frame(fd, id, packed, size);
    free(packed);
}

/* Reads exactly `len` bytes; otherwise the word for what happened. */
static const char *read_exactly(int fd, uint8_t *to, size_t len, int64_t until_ms)
{
    for (size_t at = 0; at < len;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left = until_ms - t_now_ms();
        if (poll(&ready, 1, left > 0 ? (int)left : 0) <= 0)
            return at ? "half" : "nothing";
        ssize_t n = recv(fd, to + at, len - at, 0);
        if (n <= 0)
            return at ? "half" : n < 0 ? "reset" : "end";
        at += (size_t)n;
    }
    return NULL;
}

const char *fake_hear(int fd, int ms)
{
    static char text[256];
    static uint8_t frame[HEAD + FRAME_MAX];
    int64_t until = t_now_ms() + ms;
    const char *trouble = read_exactly(fd, frame, HEAD, until);
    if (!trouble && !memcmp(frame, greeting_rep, HEAD))
        return fake_hear(fd, ms);
    if (trouble)
        return trouble;
    size_t size = 0;
    for (int i = 0; i < HEAD; i++)
        size = size << 8 | frame[i];
    if (size < ID || size > FRAME_MAX)
        fail_msg("a frame of %zu bytes came", size);
    if (read_exactly(fd, frame + HEAD, size, until))
        return "half";
    Holdfast__V1__ReplyEnvelope *replies = holdfast__v1__reply_envelope__unpack(NULL, size - ID, frame + HEAD + ID);
    if (!replies || !replies->n_replies)
        fail_msg("what came is no reply");
    const Holdfast__V1__Reply *reply = replies->replies[0];
    if (reply->code)
        snprintf(text, sizeof(text), "%u CODE %d", id_of(frame), reply->code);
    else
        snprintf(text, sizeof(text), "%u %.*s", id_of(frame), (int)(reply->payload.len < 64 ? reply->payload.len : 64),
                 reply->payload.data ? (const char *)reply->payload.data : "");
    holdfast__v1__reply_envelope__free_unpacked(replies, NULL);
    return text;
}
