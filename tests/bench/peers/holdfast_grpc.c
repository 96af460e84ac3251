/*
 * holdfast_grpc.c - Holdfast through its HTTP port, by stock gRPC calls: eight connections, a call a stream, nothing packed. The
 * server that BENCH_HTTP (HOST:PORT) names runs on the PostgreSQL that postgres.c uses. cycle  Acquire, Release renew  Renew of one
 * lease write  Write of 64 bytes once   Record
 *
 *     Packages: libnghttp2-dev
 *     Links: grpc.c -lnghttp2
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "grpc.h"
#include "peer.h"

#define LEASE     "/holdfast.v1.LeaseService/"
#define RESOURCE  "/holdfast.v1.ResourceService/"
#define OPERATION "/holdfast.v1.OperationService/"

enum { CONNECTIONS = 8, TTL_MS = 600000 };

struct worker {
    struct peer_worker base;
    struct grpc_call call;
    char name[64];
    int64_t token[PEER_KEYS], version[PEER_KEYS];
};

static unsigned preparing;
static bool prepared;
static long run; /* of this program: its names are its own */

typedef void answered_fn(struct grpc_call *call, const uint8_t *data, size_t len);

static void call(struct worker *w, const char *path, const struct message *m, answered_fn *answered)
{
    w->call.answered = answered;
    w->call.arg = w;
    grpc_unary(&w->call, path, m->bytes, m->len);
}

static void name_key(struct worker *w, unsigned key)
{
    snprintf(w->name, sizeof(w->name), "grpc/%ld/%u/%u", run, w->base.id, key);
}

/* A message within a message: its bytes in *bytes. */
static size_t within(const uint8_t *data, size_t len, unsigned field, const uint8_t **bytes)
{
    *bytes = data;
    return get(data, len, field, bytes);
}

/* granted.grants[0].token; 0 if it wasn't granted. */
static int64_t token_of(const uint8_t *data, size_t len)
{
    const uint8_t *granted, *grant;
    len = within(data, len, 1, &granted);
    len = within(granted, len, 1, &grant);
    return (int64_t)get(grant, len, 2, NULL);
}

static void acquire(struct worker *w, answered_fn *answered)
{
    struct message m = {.len = 0};
    put_text(&m, 1, "default");
    put_text(&m, 3, w->name);
    put_text(&m, 4, "bench");
    put_int(&m, 5, TTL_MS);
    call(w, LEASE "Acquire", &m, answered);
}

/* Renew and Release: a list of one item. */
static void put_item(struct message *m, const struct worker *w, int64_t token)
{
    struct message item = {.len = 0};
    put_text(m, 1, "default");
    put_text(&item, 1, w->name);
    put_int(&item, 2, token);
    put_bytes(m, 2, item.bytes, item.len);
}

/* ---- operations ---- */

static void released(struct grpc_call *c, const uint8_t *data, size_t len)
{
    const uint8_t *item;
    len = within(data, len, 1, &item);
    peer_done(c->arg, get(item, len, 1, NULL) == 1);
}

static void cycle_granted(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;
    struct message m = {.len = 0};
    const int64_t token = token_of(data, len);
    if (token <= w->token[w->base.n % PEER_KEYS]) {
        peer_done(&w->base, false);
        return;
    }
    w->token[w->base.n % PEER_KEYS] = token;
    put_item(&m, w, token);
    call(w, LEASE "Release", &m, released);
}

static void renewed(struct grpc_call *c, const uint8_t *data, size_t len)
{
    const uint8_t *item, *renewed;
    len = within(data, len, 1, &item);
    len = within(item, len, 1, &renewed);
    peer_done(c->arg, get(renewed, len, 1, NULL) > 0);
}

static void written(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;
    const unsigned key = (unsigned)(w->base.n % PEER_KEYS);
    peer_done(&w->base, (int64_t)get(data, len, 1, NULL) == ++w->version[key]);
}

static void recorded(struct grpc_call *c, const uint8_t *data, size_t len)
{
    peer_done(c->arg, get(data, len, 1, NULL) == 0);
}

static void write_value(struct worker *w, unsigned key)
{
    struct message m = {.len = 0};
    put_text(&m, 1, "default");
    put_text(&m, 2, w->name);
    put_int(&m, 3, w->token[key]);
    put_int(&m, 4, w->version[key] + 1);
    put_bytes(&m, 5, peer_value, PEER_VALUE);
    call(w, RESOURCE "Write", &m, written);
}

static void record(struct worker *w)
{
    struct message m = {.len = 0};
    snprintf(w->name, sizeof(w->name), "grpc/%ld/%u/%llu", run, w->base.id, (unsigned long long)w->base.n);
    put_text(&m, 1, "default");
    put_text(&m, 2, w->name);
    put_text(&m, 3, "bench");
    put_bytes(&m, 4, "0123456789abcdef0123456789abcdef", 32);
    put_bytes(&m, 6, peer_value, PEER_VALUE);
    call(w, OPERATION "Record", &m, recorded);
}

static void begin(struct peer_worker *worker)
{
    struct worker *w = (struct worker *)worker;
    const unsigned key = (unsigned)(worker->n % PEER_KEYS);
    struct message m = {.len = 0};
    name_key(w, key);
    switch (worker->bench->work) {
    case PEER_CYCLE:
        acquire(w, cycle_granted);
        break;
    case PEER_RENEW:
        put_item(&m, w, w->token[key]);
        put_int(&m, 3, TTL_MS);
        call(w, LEASE "Renew", &m, renewed);
        break;
    case PEER_WRITE:
        write_value(w, key);
        break;
    default:
        record(w);
    }
}

/* ---- before ---- */

static void prepare_next(struct worker *w);

static void prepare_granted(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;
    w->token[w->base.step++] = token_of(data, len);
    prepare_next(w);
}

/* Each worker gets its leases, if it needs any. */
static void prepare_next(struct worker *w)
{
    const bool needed = w->base.bench->work == PEER_RENEW || w->base.bench->work == PEER_WRITE;
    name_key(w, w->base.step);
    if (needed && w->base.step < PEER_KEYS)
        acquire(w, prepare_granted);
    else
        prepared = --preparing == 0;
}

static void start(struct peer_bench *bench)
{
    const char *http = getenv("BENCH_HTTP"), *colon = http ? strrchr(http, ':') : NULL;
    if (!colon)
        peer_die("BENCH_HTTP names no server");
    if (bench->work == PEER_BEGIN || bench->work == PEER_EXECUTE)
        peer_die("no such work over gRPC");
    bench->port = atoi(colon + 1);
    run = (long)getpid();
}

static void prepare(struct peer_bench *bench)
{
    struct grpc_conn *conns[CONNECTIONS];
    const unsigned n = bench->in_flight < CONNECTIONS ? bench->in_flight : CONNECTIONS;
    for (unsigned i = 0; i < n; i++)
        conns[i] = grpc_connect(bench->port);
    preparing = bench->in_flight;
    for (unsigned i = 0; i < bench->in_flight; i++) {
        struct worker *w = peer_worker(bench, i);
        w->call.conn = conns[i % n];
        prepare_next(w);
    }
    peer_serve(bench, &prepared);
}

/* ---- afterwards ---- */

static bool asked;
static int64_t told;

static void see_token(struct grpc_call *c, const uint8_t *data, size_t len)
{
    (void)c;
    told = token_of(data, len);
    asked = true;
}

static void see_version(struct grpc_call *c, const uint8_t *data, size_t len)
{
    (void)c;
    told = (int64_t)get(data, len, 3, NULL);
    asked = true;
}

static void see_replay(struct grpc_call *c, const uint8_t *data, size_t len)
{
    (void)c;
    told = (int64_t)get(data, len, 1, NULL);
    asked = true;
}

/* Answers were looked at one by one; here one worker's state is asked of the server once more. */
static const char *check(struct peer_bench *bench)
{
    struct worker *w = peer_worker(bench, 0);
    struct message m = {.len = 0};
    name_key(w, 1);
    if (bench->work == PEER_CYCLE || bench->work == PEER_RENEW) {
        acquire(w, see_token);
    } else if (bench->work == PEER_WRITE) {
        put_text(&m, 1, "default");
        put_text(&m, 2, w->name);
        call(w, RESOURCE "Read", &m, see_version);
    } else {
        w->base.n = 1;
        record(w);
        w->call.answered = see_replay;
    }
    peer_serve(bench, &asked);
    if (bench->work == PEER_CYCLE && told <= w->token[1])
        return "a token did not rise";
    if (bench->work == PEER_RENEW && told)
        return "a lease that was renewed is not held";
    if (bench->work == PEER_WRITE && told != w->version[1])
        return "there were not as many writes";
    return bench->work == PEER_ONCE && !told ? "a record was kept twice" : NULL;
}

static const struct peer holdfast = {"holdfast_grpc", sizeof(struct worker), start, prepare, begin, check};
PEER_MAIN(holdfast)
