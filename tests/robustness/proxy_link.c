/*
 * proxy_link.c - the proxy's thread: connections, the framing of SP over TCP, what is kept and when it goes on.
 *
 * A connection of a client and the one to the server made for it are a link. When the server goes, so does the client's side,
 * and what was kept for it. When the client goes, the server's side follows, unless requests are kept: those reach the server as
 * they would from a slow network, and the side stays until they are answered. Links are only unlinked by reap(), at the end of a
 * turn, so that anybody may cut one amid a loop.
 */
#include "robustness/proxy_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "proto/c/envelope.h"
#include "proto/c/wire.h"

enum { GREETING = 8, MESSAGE_MAX = 64 << 20, READ_SIZE = 64 << 10, CONNECT_US = 100000 };

/* ------------------------------------------------------------------------------------------------ sides */

static struct px_side *side_of(struct px_link *link, bool server)
{
    return server ? &link->server : &link->client;
}

static void free_messages(struct px_message **list)
{
    while (*list) {
        struct px_message *message = *list;
        *list = message->next;
        free(message);
    }
}

static void close_side(struct px_side *side, bool reset)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (side->fd < 0)
        return;
    if (reset)
        setsockopt(side->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(side->fd);
    side->fd = -1;
    free_messages(&side->out);
    side->out_end = &side->out;
    side->out_done = 0;
    side->in_len = 0;
}

static void queue(struct px_side *side, struct px_message *message)
{
    if (side->fd < 0 || side->ending) {
        free(message);
        return;
    }
    message->next = NULL;
    *side->out_end = message;
    side->out_end = &message->next;
}

/* Writes what is queued, as far as the system takes it. False: the connection has broken. */
static bool flush(struct px_side *side)
{
    while (side->fd >= 0 && side->out) {
        struct px_message *message = side->out;
        ssize_t n = send(side->fd, message->bytes + side->out_done, message->len - side->out_done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        side->out_done += (size_t)n;
        if (side->out_done < message->len)
            continue;
        side->out_done = 0;
        side->out = message->next;
        if (!side->out)
            side->out_end = &side->out;
        free(message);
    }
    if (side->fd >= 0 && side->ending && !side->shut) {
        shutdown(side->fd, SHUT_WR); /* closed when the other end has closed, so that nothing under way is lost to a reset */
        side->shut = true;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ links */

static bool keeps_requests(const struct px_link *link)
{
    for (const struct px_message *message = link->kept; message; message = message->next)
        if (message->to_server)
            return true;
    return false;
}

/* The client's side is closed; now the server's. */
static void client_gone(struct px_link *link)
{
    link->orphan = link->server.fd >= 0 && keeps_requests(link);
    if (!link->orphan)
        link->server.ending = true;
}

static void server_gone(struct px_link *link)
{
    close_side(&link->server, false);
    free_messages(&link->kept);
    link->unanswered = 0;
    link->client.ending = true;
}

static void side_gone(struct px_link *link, bool server)
{
    if (server) {
        server_gone(link);
    } else {
        close_side(&link->client, false);
        client_gone(link);
    }
}

void px_cut_link(struct px_link *link)
{
    close_side(&link->client, true);
    client_gone(link);
    if (!link->orphan && link->served)
        close_side(&link->server, true);
}

void px_cut_behind(struct px_link *link, bool to_server)
{
    if (to_server) {
        close_side(&link->client, true);
        client_gone(link);
    } else {
        close_side(&link->server, true);
        server_gone(link);
    }
}

void px_keep(struct px_link *link, struct px_message *message, int rule, int64_t due_ms, bool after_next)
{
    struct px_message **end = &link->kept;
    while (*end)
        end = &(*end)->next;
    message->next = NULL;
    message->rule = rule;
    message->due_ms = due_ms;
    message->after_next = after_next;
    *end = message;
}

void px_forward(struct px_link *link, struct px_message *message)
{
    bool to_server = message->to_server;
    if (to_server && link->server.fd >= 0 && !link->server.ending)
        link->unanswered++;
    queue(side_of(link, to_server), message);
    for (struct px_message **at = &link->kept, *kept; (kept = *at);) {
        if (!kept->after_next || kept->to_server != to_server) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        kept->after_next = false;
        if (to_server)
            link->unanswered++;
        queue(side_of(link, to_server), kept);
    }
}

void px_forward_due(struct px_link *link, int64_t now_ms)
{
    struct px_message *ready = NULL, **end = &ready;
    for (struct px_message **at = &link->kept, *kept; (kept = *at);) {
        if (kept->due_ms > now_ms) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        kept->next = NULL;
        *end = kept;
        end = &kept->next;
    }
    while (ready) {
        struct px_message *message = ready;
        ready = message->next;
        px_forward(link, message);
    }
}

/* ------------------------------------------------------------------------------------------------ framing */

static uint64_t big_endian(const uint8_t *bytes, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* The methods in a request's envelope, separated by spaces; "" if it cannot be decoded. */
static void decode_methods(struct px_asked *asked, const uint8_t *data, size_t len)
{
    struct hp_status status;
    struct hp_arena *arena = hp_arena_new(len * 4 + ((size_t)1 << 22));
    Holdfast__V1__CallEnvelope *envelope = arena ? hp_calls_decode(arena, data, len, &status) : NULL;
    size_t size = 1, at = 0;
    for (size_t i = 0; envelope && i < envelope->n_calls; i++)
        size += strlen(envelope->calls[i]->method) + 1;
    free(asked->methods);
    asked->methods = px_alloc(size);
    asked->calls = envelope ? (unsigned)envelope->n_calls : 1;
    for (size_t i = 0; envelope && i < envelope->n_calls; i++)
        at += (size_t)snprintf(asked->methods + at, size - at, "%s%s", i ? " " : "", envelope->calls[i]->method);
    hp_arena_free(arena);
}

static const struct px_asked *note_request(struct px_link *link, const struct px_message *message)
{
    const uint8_t *body = message->bytes + PX_FRAME_HEAD;
    size_t len = message->len - PX_FRAME_HEAD;
    struct px_asked *asked = &link->asked[link->n_asked++ % PX_ASKED];
    asked->id = len >= PX_ID ? (uint32_t)big_endian(body, PX_ID) : 0;
    decode_methods(asked, len >= PX_ID ? body + PX_ID : body, len >= PX_ID ? len - PX_ID : 0);
    return asked;
}

static const struct px_asked *find_request(const struct px_link *link, const struct px_message *reply)
{
    if (reply->len < PX_FRAME_HEAD + PX_ID)
        return NULL;
    uint32_t id = (uint32_t)big_endian(reply->bytes + PX_FRAME_HEAD, PX_ID);
    for (unsigned back = 1; back <= PX_ASKED && back <= link->n_asked; back++) {
        const struct px_asked *asked = &link->asked[(link->n_asked - back) % PX_ASKED];
        if (asked->id == id)
            return asked;
    }
    return NULL;
}

static void take_message(struct px *px, struct px_link *link, bool from_server, const uint8_t *bytes, size_t len)
{
    const struct px_asked *asked;
    struct px_message *message = px_alloc(sizeof(*message) + len);
    message->to_server = !from_server;
    message->len = len;
    memcpy(message->bytes, bytes, len);
    if (from_server && link->unanswered > 0)
        link->unanswered--;
    link->served |= from_server;
    if (px->dark) {
        px->totals.swallowed++;
        free(message);
        return;
    }
    asked = from_server ? find_request(link, message) : note_request(link, message);
    if (from_server)
        px->totals.replies++;
    else
        px->totals.requests++;
    if (side_of(link, !from_server)->fd < 0)
        free(message); /* nobody is there to whom anything could be done */
    else
        px_judge(px, link, message, asked);
}

static void take_greeting(struct px *px, struct px_link *link, bool from_server, const uint8_t *bytes)
{
    struct px_message *greeting = px_alloc(sizeof(*greeting) + GREETING);
    greeting->len = GREETING;
    memcpy(greeting->bytes, bytes, GREETING);
    side_of(link, from_server)->greeted = true;
    if (px->dark) {
        link->spoiled = true;
        free(greeting);
    } else {
        queue(side_of(link, !from_server), greeting);
    }
}

/* Takes whole messages from what was read. */
static void parse(struct px *px, struct px_link *link, bool server)
{
    struct px_side *side = side_of(link, server);
    size_t at = 0;
    while (side->fd >= 0 && !side->ending && side->in_len - at >= PX_FRAME_HEAD) {
        uint64_t len = side->greeted ? big_endian(side->in + at, PX_FRAME_HEAD) : 0;
        if (len > MESSAGE_MAX) {
            px_cut_link(link);
            return;
        }
        if (!side->greeted)
            take_greeting(px, link, server, side->in + at);
        else if (side->in_len - at < PX_FRAME_HEAD + len)
            break;
        else
            take_message(px, link, server, side->in + at, PX_FRAME_HEAD + (size_t)len);
        at += PX_FRAME_HEAD + (size_t)len;
    }
    if (side->fd < 0)
        return; /* cut by a rule; in_len is 0 */
    if (side->ending)
        at = side->in_len;
    memmove(side->in, side->in + at, side->in_len - at);
    side->in_len -= at;
}

/* The connection of this side has ended. */
static void broken(struct px *px, struct px_link *link, bool server)
{
    struct px_side *side = side_of(link, server);
    if (px->dark) {
        link->spoiled = true; /* nobody is told now */
        close_side(side, false);
    } else if (side->ending) {
        close_side(side, false);
    } else {
        side_gone(link, server);
    }
}

static void read_side(struct px *px, struct px_link *link, bool server)
{
    struct px_side *side = side_of(link, server);
    if (side->in_size - side->in_len < READ_SIZE) {
        side->in_size = side->in_len * 2 + READ_SIZE;
        side->in = realloc(side->in, side->in_size);
        if (!side->in)
            abort();
    }
    ssize_t n = recv(side->fd, side->in + side->in_len, side->in_size - side->in_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        side->in_len += (size_t)n;
        parse(px, link, server);
    } else {
        broken(px, link, server);
    }
}

/* ------------------------------------------------------------------------------------------------ the thread */

void px_wake(struct px *px)
{
    const uint64_t one = 1;
    (void)!write(px->wake, &one, sizeof(one));
}

static void side_init(struct px_side *side, int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    side->fd = fd;
    side->out_end = &side->out;
}

/* A connection to the server; -1: there is none at once. A host that says nothing isn't waited for, and the lock is free meanwhile.
 */
static int connect_to_server(struct px *px)
{
    const struct timeval soon = {0, CONNECT_US};
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0)
        abort();
    setsockopt(server, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)); /* of connect alone: sending never waits */
    pthread_mutex_unlock(&px->mutex);
    const bool connected = connect(server, (struct sockaddr *)&px->server, sizeof(px->server)) == 0;
    pthread_mutex_lock(&px->mutex);
    if (connected)
        return server;
    close(server);
    return -1;
}

static void take_connections(struct px *px)
{
    int client;
    while (!px->stop && (client = accept4(px->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct px_link *link = px_alloc(sizeof(*link));
        side_init(&link->client, client);
        side_init(&link->server, px->refuse ? -1 : connect_to_server(px));
        link->number = ++px->totals.connections;
        link->next = px->links;
        px->links = link;
        const bool refused = px->refuse || link->server.fd < 0;
        if (refused) {
            close_side(&link->server, false);
            px_cut_link(link);
        }
        if (px->trace)
            fprintf(px->trace, "+%lld ms connection %u %s\n", (long long)(px_now_ms() - px->start_ms), link->number,
                    refused ? "refused" : "taken");
    }
}

static void reap(struct px *px)
{
    for (struct px_link **at = &px->links, *link; (link = *at);) {
        if (link->spoiled && !px->dark)
            px_cut_link(link);
        if (link->orphan && !keeps_requests(link) && link->unanswered == 0)
            close_side(&link->server, false);
        if (link->client.fd >= 0 || link->server.fd >= 0 || px->dark) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free_messages(&link->kept);
        for (int i = 0; i < PX_ASKED; i++)
            free(link->asked[i].methods);
        free(link->client.in);
        free(link->server.in);
        free(link);
    }
}

static void flush_all(struct px *px)
{
    for (struct px_link *link = px->links; link; link = link->next) {
        if (!px->dark)
            px_forward_due(link, px_now_ms());
        for (int server = 0; server < 2; server++) {
            if (!flush(side_of(link, server)))
                broken(px, link, server);
        }
    }
}

/* What poll is to wait for; the array belongs to the caller. Two places a link, behind the eventfd and the listener. */
static struct pollfd *watch(struct px *px, size_t *n, int *timeout_ms)
{
    size_t links = 0;
    int64_t due = PX_NEVER, now = px_now_ms();
    for (struct px_link *link = px->links; link; link = link->next)
        links++;
    struct pollfd *fds = px_alloc((2 + 2 * links) * sizeof(*fds));
    fds[0] = (struct pollfd){.fd = px->wake, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = px->dark ? -1 : px->listener, .events = POLLIN};
    *n = 2;
    for (struct px_link *link = px->links; link; link = link->next) {
        for (int server = 0; server < 2; server++) {
            struct px_side *side = side_of(link, server);
            fds[(*n)++] = (struct pollfd){.fd = side->fd, .events = (short)(POLLIN | (side->out ? POLLOUT : 0))};
        }
        for (struct px_message *message = link->kept; message; message = message->next)
            due = message->due_ms < due ? message->due_ms : due;
    }
    *timeout_ms = due == PX_NEVER || px->dark ? -1 : due <= now ? 0 : (int)(due - now);
    return fds;
}

/* Reads where poll found something. Links are neither made nor freed since watch(). */
static void read_all(struct px *px, const struct pollfd *fds)
{
    size_t at = 2;
    for (struct px_link *link = px->links; link; link = link->next, at += 2)
        for (int server = 0; server < 2; server++)
            if ((fds[at + (size_t)server].revents & ~POLLOUT) && side_of(link, server)->fd == fds[at + (size_t)server].fd)
                read_side(px, link, server);
}

/* Waits until something happens, and deals with it. */
static void turn(struct px *px, int most_ms)
{
    size_t n;
    int timeout_ms;
    uint64_t ignored;
    struct pollfd *fds = watch(px, &n, &timeout_ms);
    if (most_ms >= 0 && (timeout_ms < 0 || timeout_ms > most_ms))
        timeout_ms = most_ms;
    pthread_mutex_unlock(&px->mutex);
    poll(fds, n, timeout_ms);
    pthread_mutex_lock(&px->mutex);
    (void)!read(px->wake, &ignored, sizeof(ignored));
    read_all(px, fds);
    if (fds[1].revents && !px->dark)
        take_connections(px);
    free(fds);
    flush_all(px);
    reap(px);
    pthread_cond_broadcast(&px->news);
}

void *px_main(void *arg)
{
    enum { FAREWELL_MS = 1000 };
    struct px *px = arg;
    pthread_mutex_lock(&px->mutex);
    while (!px->stop)
        turn(px, -1);
    px->dark = false;
    px->refuse = true;
    for (struct px_link *link = px->links; link; link = link->next) {
        free_messages(&link->kept);
        px_cut_link(link);
    }
    for (int64_t until = px_now_ms() + FAREWELL_MS; px->links && px_now_ms() < until;) {
        reap(px);
        if (px->links)
            turn(px, 10);
    }
    for (struct px_link *link = px->links; link; link = link->next) {
        close_side(&link->client, false);
        close_side(&link->server, false);
    }
    reap(px);
    pthread_mutex_unlock(&px->mutex);
    return NULL;
}
