/*
 * http_fuzz.c - a connection of the HTTP port, without a network: two bytes say what becomes of it and of its requests, the rest
 * are the bytes that it brings. If the second one's highest bit is set, others are there, and it waits for its turns.
 *
 * Whatever the bytes, of either version, however they are cut, whether answers are read or not and memory is there or not: each
 * request is given out once and told of its end once, its strings are what they should be, its body's end comes once and last,
 * what is counted is counted back, and the connection ends when its times are over.
 */
#include "fuzz.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/http_conn.h"
#include "proto/c/arena.h"

/* The first byte; its highest bits: how bytes are cut. */
enum {
    AT_ONCE = 1,    /* a request is answered as it is given out */
    STREAM = 2,     /* by more than is read at once, as there is room */
    HOLD = 4,       /* its body isn't consumed before the end */
    DEAF = 8,       /* the client reads nothing before the end */
    DRAIN = 16,     /* the port drains in the middle */
    NO_MEMORY = 32, /* the allocation of the second byte's number fails; else that byte says which requests are reset */
    CUT_SHIFT = 6
};

enum { EXCHANGES = 512, STREAMED = 20000 };

struct request {
    struct net_exchange *x; /* NULL: over */
    size_t left, unconsumed;
    bool ended;
};

static struct {
    uint8_t how, bits;
    bool others;
    int64_t ms, ns;
    struct net_http *http;
    struct heap timers;
    struct io_task *first, **last;
    struct io_watch *watch;
    struct request requests[EXCHANGES];
    size_t n_requests, n_open;
    int until_failure;
} now;

/* ---- the loop ---- */

static int io_watch_(struct io *io, struct io_watch *watch)
{
    (void)io;
    watch->watched = true;
    if (watch->ready == http_on_ready)
        now.watch = watch;
    return 0;
}

static void io_unwatch(struct io *io, struct io_watch *watch)
{
    (void)io;
    watch->watched = false;
    if (now.watch == watch)
        now.watch = NULL;
}

static void io_timer_set(struct io *io, struct io_timer *timer, int64_t at_ms)
{
    (void)io;
    timer->at_ms = at_ms;
    heap_set(&now.timers, &timer->node, at_ms);
}

static void io_timer_cancel(struct io *io, struct io_timer *timer)
{
    (void)io;
    heap_remove(&now.timers, &timer->node);
}

static void io_post(struct io *io, struct io_task *task)
{
    (void)io;
    if (task->posted)
        return;
    task->posted = true;
    task->next = NULL;
    *now.last = task;
    now.last = &task->next;
}

static void io_unpost(struct io *io, struct io_task *task)
{
    struct io_task **at = &now.first;
    (void)io;
    while (*at && *at != task)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = task->next;
    if (!*at)
        now.last = at;
    task->posted = false;
}

static int64_t io_now_ms(struct io *io)
{
    (void)io;
    return now.ms;
}

/* Whatever is done costs something. */
static int64_t io_clock_ns(struct io *io)
{
    enum { COST = 30000 };
    (void)io;
    return now.ns += COST;
}

static struct io io = {io_watch_, io_unwatch, io_timer_set, io_timer_cancel, io_post, io_unpost, io_now_ms, io_clock_ns};

static void run_tasks(void)
{
    for (int i = 0; now.first; i++) {
        struct io_task *task = now.first;
        MUST(i < 100000);
        io_unpost(&io, task);
        task->run(task);
    }
}

static void pass_time(int64_t ms)
{
    struct heap_node *top;
    now.ms += ms;
    while ((top = heap_top(&now.timers)) && top->key <= now.ms) {
        heap_remove(&now.timers, top);
        struct io_timer *timer = list_entry(top, struct io_timer, node);
        timer->fire(timer);
        run_tasks();
    }
}

static void *short_of_memory(size_t size)
{
    return now.until_failure && --now.until_failure == 0 ? NULL : malloc(size);
}

/* ---- requests ---- */

static void go_on(struct request *request)
{
    static const char bytes[1000];
    bool room = true;
    while (request->left && room && request->x) {
        size_t n = request->left < sizeof(bytes) ? request->left : sizeof(bytes);
        room = net_exchange_write(request->x, bytes, n);
        request->left -= n;
    }
    const struct net_header trailers[] = {{"grpc-status", "0"}};
    if (!request->left)
        net_exchange_end(request->x, trailers, 1);
}

static void answer(struct request *request)
{
    const struct net_header headers[] = {{"content-type", "text/plain"}, {"content-length", "3"}};
    request->left = now.how & STREAM ? STREAMED : 3;
    net_exchange_respond(request->x, 200, headers, now.how & STREAM ? 1 : 2, false);
    go_on(request);
}

static void on_body(struct net_exchange *x, const void *data, size_t len, bool end)
{
    struct request *request = x->handler;
    MUST(request->x == x && !request->ended && (data || !len));
    request->ended = end;
    request->unconsumed += len;
    if (!(now.how & HOLD)) {
        net_exchange_consume(x, request->unconsumed);
        request->unconsumed = 0;
    }
    if (end && !(now.how & (AT_ONCE | HOLD)))
        answer(request);
}

static void on_writable(struct net_exchange *x)
{
    struct request *request = x->handler;
    MUST(request->x == x);
    go_on(request);
}

static void on_closed(struct net_exchange *x, bool complete)
{
    struct request *request = x->handler;
    MUST(request->x == x && (!complete || !request->left));
    request->x = NULL;
    now.n_open--;
}

static void check_text(const char *text)
{
    MUST(text && !text[strcspn(text, "\r\n")]);
}

static void on_request(void *arg, struct net_exchange *x)
{
    struct request *request = &now.requests[now.n_requests % EXCHANGES];
    MUST(arg == &now && !request->x && now.n_open < EXCHANGES);
    check_text(x->method);
    check_text(x->path);
    check_text(x->authority);
    MUST((x->version == 1 || x->version == 2) && *x->method && *x->path && !strchr(x->path, '?') && x->received_ms == now.ms);
    for (size_t i = 0; i < x->n_headers; i++) {
        check_text(x->headers[i].name);
        check_text(x->headers[i].value);
        MUST(!x->headers[i].name[strcspn(x->headers[i].name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ: \t")]);
    }
    *request = (struct request){.x = x};
    x->handler = request;
    x->body = on_body;
    x->writable = on_writable;
    x->closed = on_closed;
    if (now.how & AT_ONCE)
        answer(request);
    if (!(now.how & NO_MEMORY) && now.bits >> (now.n_requests % 8) & 1)
        net_exchange_reset(x, now.bits);
    now.n_requests++;
    now.n_open++;
}

/* ---- the client ---- */

/* Somebody with credit was served. */
static void serve_others(void)
{
    if (!now.others)
        return;
    now.http->share.honoured_ms = now.ms;
    now.http->share.honoured = (const void *)&now; /* not looked at */
}

static void await_turn(void)
{
    enum { MOST_MS = 10000 };
    for (int i = 0; !list_empty(&now.http->share.waiting); i++) {
        MUST(i < MOST_MS);
        pass_time(1);
        serve_others();
    }
}

static void turn(unsigned events)
{
    serve_others();
    if (now.watch && (events & (now.watch->want | IO_ERROR)))
        now.watch->ready(now.watch, events & (now.watch->want | IO_ERROR));
    run_tasks();
    await_turn();
}

static void hear(int fd)
{
    char bytes[4096];
    while (now.watch && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        turn(IO_WRITE);
}

static void say(int fd, const uint8_t *data, size_t len)
{
    uint32_t cuts = now.how >> CUT_SHIFT;
    for (size_t at = 0, n; at < len && now.watch; at += n) {
        cuts = cuts * 1664525 + (cuts ? 1013904223 : 0);
        n = cuts ? 1 + (cuts >> 24) % 40 : len;
        n = n < len - at ? n : len - at;
        if (send(fd, data + at, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n)
            return;
        turn(IO_READ);
        if (!(now.how & DEAF))
            hear(fd);
    }
}

static void answer_all(void)
{
    for (size_t i = 0; i < EXCHANGES; i++) {
        struct request *request = &now.requests[i];
        if (request->x && !request->left) {
            net_exchange_consume(request->x, request->unconsumed);
            answer(request);
            run_tasks();
            await_turn();
        }
    }
}

static void play(struct net_http *http, const uint8_t *data, size_t len)
{
    int fds[2];
    struct net_http_stats stats;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    http_on_accept(&http->listener, fds[0]);
    say(fds[1], data, now.how & DRAIN ? len / 2 : len);
    if (now.how & DRAIN) {
        net_http_drain(http);
        run_tasks();
        await_turn();
        say(fds[1], data + len / 2, len - len / 2);
    }
    answer_all();
    hear(fds[1]);
    net_http_stats(http, &stats);
    MUST(stats.requests == (long)now.n_requests && stats.streams >= (long)now.n_open && stats.connections == (now.watch != NULL));
    for (int i = 0; i < 10; i++)
        pass_time(http->cfg.idle_ms);
    net_http_stats(http, &stats);
    MUST(!now.watch && !now.n_open && !stats.connections && !stats.streams && !stats.bytes && !http->unsent);
    close(fds[1]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct net_http_config cfg = {
        .max_streams = 20, .max_headers = 1024, .max_unread = 5000, .max_bytes = 200000, .total_ms = 300000, .body_ms = 40000};
    char error[128];
    if (size < 2)
        return -1;
    memset(&now, 0, sizeof(now));
    now.last = &now.first;
    now.ms = 1000;
    now.how = data[0];
    now.bits = data[1];
    struct net_http *http = net_http_listen(&io, "127.0.0.1:0", &cfg, on_request, &now, error, sizeof(error));
    MUST(http);
    now.http = http;
    now.others = now.bits >> 7;
    now.until_failure = now.how & NO_MEMORY ? 1 + now.bits : 0;
    hp_malloc_hook = short_of_memory;
    play(http, data + 2, size - 2);
    hp_malloc_hook = NULL;
    net_http_free(http);
    return 0;
}
