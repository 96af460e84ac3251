/*
 * web.c - see web.h: the server. Its pages run on the loop's thread; counts are the test's too.
 */
#include "unit/net/web.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "harness/harness.h"
#include "net/loop.h"
#include "proto/c/arena.h"

struct web {
    struct loop *loop;
    struct io *io;
    struct net_http *http;
    pthread_t thread;
    struct list held; /* pages at /hold */
    atomic_long counts[WEB_COUNTS];
    long open; /* the loop's */
};

struct page {
    struct web *web;
    struct net_exchange *x;
    struct list_node node;
    size_t n_body, unconsumed; /* came; not consumed */
    size_t left;               /* to be written */
    bool ended;                /* the body has */
};

static void count(struct web *web, enum web_count which, long n)
{
    atomic_fetch_add(&web->counts[which], n);
}

long web_counted(struct web *web, enum web_count which)
{
    return atomic_load(&web->counts[which]);
}

void web_await(struct web *web, enum web_count which, long n)
{
    for (int i = 0; i < T_PATIENCE_MS / 5 && web_counted(web, which) < n; i++)
        t_sleep_ms(5);
    assert_int_equal(web_counted(web, which), n);
}

/* ---- pages ---- */

static bool at(const struct net_exchange *x, const char *path)
{
    return !strcmp(x->path, path);
}

static size_t wanted(const struct net_exchange *x)
{
    return x->query ? strtoul(x->query, NULL, 10) : 0;
}

static void answer(struct net_exchange *x, const char *text)
{
    const struct net_header headers[] = {{"content-type", "text/plain"}}, trailers[] = {{"x-trailer", "bye"}};
    net_exchange_respond(x, 200, headers, 1, false);
    net_exchange_write(x, text, strlen(text));
    net_exchange_end(x, trailers, 1);
}

static void write_bytes(struct page *page)
{
    static const char zeros[16 << 10];
    bool room = true;
    while (page->left && room) {
        size_t n = page->left < sizeof(zeros) ? page->left : sizeof(zeros);
        room = net_exchange_write(page->x, zeros, n);
        page->left -= n;
        count(page->web, WEB_WRITTEN, (long)n);
    }
    if (!room)
        count(page->web, WEB_TOLD_FULL, 1);
    if (!page->left)
        net_exchange_end(page->x, NULL, 0);
}

static void begin_bytes(struct page *page)
{
    char length[24];
    const struct net_header headers[] = {{"content-length", length}};
    page->left = wanted(page->x);
    snprintf(length, sizeof(length), "%zu", page->left);
    net_exchange_respond(page->x, 200, headers, at(page->x, "/length"), false);
    write_bytes(page);
}

/* However little of it is read. */
static void burst(struct page *page)
{
    static const char zeros[16 << 10];
    net_exchange_respond(page->x, 200, NULL, 0, false);
    for (size_t left = wanted(page->x), n; left; left -= n) {
        n = left < sizeof(zeros) ? left : sizeof(zeros);
        net_exchange_write(page->x, zeros, n);
        count(page->web, WEB_WRITTEN, (long)n);
    }
    net_exchange_end(page->x, NULL, 0);
}

static void consume(struct page *page)
{
    net_exchange_consume(page->x, page->unconsumed);
    page->unconsumed = 0;
}

static void finish(struct page *page)
{
    char text[24];
    page->ended = true;
    if (at(page->x, "/ok")) {
        answer(page->x, "ok");
    } else if (at(page->x, "/eat")) {
        snprintf(text, sizeof(text), "%zu", page->n_body);
        answer(page->x, text);
    } else if (at(page->x, "/bytes") || at(page->x, "/length")) {
        begin_bytes(page);
    } else if (at(page->x, "/burst")) {
        burst(page);
    } else if (at(page->x, "/echo") && !page->unconsumed) {
        net_exchange_end(page->x, NULL, 0);
    }
}

static void on_body(struct net_exchange *x, const void *data, size_t len, bool end)
{
    struct page *page = x->handler;
    count(page->web, WEB_BODY_BYTES, (long)len);
    page->n_body += len;
    page->unconsumed += len;
    if (at(x, "/echo") && len && !net_exchange_write(x, data, len))
        count(page->web, WEB_TOLD_FULL, 1);
    else if (!list_linked(&page->node))
        consume(page);
    if (end)
        finish(page);
}

static void on_writable(struct net_exchange *x)
{
    struct page *page = x->handler;
    if (at(x, "/echo")) {
        consume(page);
        if (page->ended)
            net_exchange_end(x, NULL, 0);
    } else {
        write_bytes(page);
    }
}

static void on_closed(struct net_exchange *x, bool complete)
{
    struct page *page = x->handler;
    struct web *web = page->web;
    if (list_linked(&page->node))
        list_remove(&web->held, &page->node);
    free(page);
    web->open--;
    count(web, complete ? WEB_COMPLETE : WEB_CUT_OFF, 1);
}

static void release(struct web *web)
{
    struct list_node *node;
    while ((node = list_pop_front(&web->held))) {
        struct page *page = list_entry(node, struct page, node);
        consume(page);
        answer(page->x, "held");
    }
}

static void on_request(void *arg, struct net_exchange *x)
{
    struct web *web = arg;
    struct page *page = calloc(1, sizeof(*page));
    *page = (struct page){.web = web, .x = x};
    x->handler = page;
    x->body = on_body;
    x->writable = on_writable;
    x->closed = on_closed;
    web->open++;
    count(web, WEB_REQUESTS, 1);
    if (at(x, "/early")) {
        net_exchange_respond(x, 413, NULL, 0, true);
    } else if (at(x, "/echo")) {
        net_exchange_respond(x, 200, NULL, 0, false);
    } else if (at(x, "/hold") || at(x, "/keep")) {
        list_push_back(&web->held, &page->node);
        net_exchange_hold(x, wanted(x));
    } else if (at(x, "/release")) {
        release(web);
        answer(x, "released");
    } else if (at(x, "/reset")) {
        net_exchange_reset(x, 0x8);
    }
}

/* ---- its life ---- */

static _Thread_local bool is_loop;

static void *run(void *arg)
{
    is_loop = true;
    loop_run(((struct web *)arg)->loop);
    return NULL;
}

static void start_thread(struct web *web)
{
    assert_int_equal(pthread_create(&web->thread, NULL, run, web), 0);
}

static void stop_thread(struct web *web)
{
    loop_stop(web->loop);
    pthread_join(web->thread, NULL);
}

struct web *web_start(const struct net_http_config *cfg)
{
    char error[256];
    struct web *web = calloc(1, sizeof(*web));
    list_init(&web->held);
    web->loop = loop_new();
    web->io = loop_io(web->loop);
    web->http = net_http_listen(web->io, "127.0.0.1:0", cfg, on_request, web, error, sizeof(error));
    if (!web->http)
        fail_msg("%s", error);
    start_thread(web);
    return web;
}

void web_stop(struct web *web)
{
    struct net_http_stats stats;
    stop_thread(web);
    hp_malloc_hook = NULL;
    net_http_stats(web->http, &stats);
    if (!stats.connections) {
        assert_int_equal(stats.bytes, 0);
        assert_int_equal(stats.streams, 0);
    }
    net_http_free(web->http);
    assert_int_equal(web->open, 0);
    assert_int_equal(web_counted(web, WEB_REQUESTS), web_counted(web, WEB_COMPLETE) + web_counted(web, WEB_CUT_OFF));
    loop_free(web->loop);
    free(web);
}

void web_drain(struct web *web)
{
    stop_thread(web);
    net_http_drain(web->http);
    start_thread(web);
}

int web_port(const struct web *web)
{
    return atoi(strrchr(net_http_address(web->http), ':') + 1);
}

struct net_http_stats web_stats(struct web *web)
{
    struct net_http_stats stats;
    stop_thread(web);
    net_http_stats(web->http, &stats);
    start_thread(web);
    return stats;
}

bool web_is_idle(struct web *web)
{
    stop_thread(web);
    bool idle = net_http_idle(web->http);
    start_thread(web);
    return idle;
}

/* ---- memory that fails ---- */

static int until_failure; /* the loop's thread, or while it stands still */
static bool has_failed;

static void *failing_malloc(size_t size)
{
    if (is_loop && until_failure && --until_failure == 0) {
        has_failed = true;
        return NULL;
    }
    return malloc(size);
}

void web_fail_memory(struct web *web, int n)
{
    stop_thread(web);
    hp_malloc_hook = failing_malloc;
    until_failure = n;
    has_failed = false;
    start_thread(web);
}

bool web_memory_failed(struct web *web)
{
    stop_thread(web);
    bool failed = has_failed;
    start_thread(web);
    return failed;
}
