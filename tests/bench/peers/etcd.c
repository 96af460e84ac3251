/*
 * etcd.c - etcd 3, one member, settings as they come (every proposal is synced to its log before it is answered; renewals are not
 * written at all). gRPC spoken directly; 16 workers share a connection, which suits it better than one each. A fresh server for
 * each row: its store keeps every revision and slows down as it grows.
 *   cycle  LeaseGrant; Txn {create_revision = 0 → Put with the lease}; LeaseRevoke. The token is the revision.
 *   renew  LeaseKeepAlive, on a stream a worker
 *   write  Txn {the lock's create_revision = token → Put}
 *   once   Txn {create_revision = 0 → Put}
 *
 *     Packages: etcd-server libnghttp2-dev
 *     Links: grpc.c -lnghttp2
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fields.h"
#include "grpc.h"
#include "peer.h"

#define KV    "/etcdserverpb.KV/"
#define LEASE "/etcdserverpb.Lease/"

enum { SHARING = 16, TTL_S = 120 };

struct worker {
    struct peer_worker base;
    struct grpc_call call;
    char key[48];
    int64_t lease[PEER_KEYS], token[PEER_KEYS];
};

static struct grpc_call admin;
static bool admin_answered;
static uint64_t first_revision;
static unsigned preparing;
static bool prepared;

static int64_t revision_of(const uint8_t *data, size_t len)
{
    const uint8_t *header = data;
    const size_t header_len = get(data, len, 1, &header);

    return (int64_t)get(header, header_len, 3, NULL);
}

static bool succeeded(const uint8_t *data, size_t len)
{
    return get(data, len, 2, NULL) == 1;
}

/* ---- requests ---- */

typedef void answered_fn(struct grpc_call *call, const uint8_t *data, size_t len);

static void call(struct grpc_call *c, const char *path, const struct message *m, answered_fn *answered)
{
    c->answered = answered;
    grpc_unary(c, path, m->bytes, m->len);
}

static void grant(struct worker *w, answered_fn *answered)
{
    struct message m = {.len = 0};

    put_int(&m, 1, TTL_S);
    call(&w->call, LEASE "LeaseGrant", &m, answered);
}

static void give_back(struct worker *w, int64_t lease, answered_fn *answered)
{
    struct message m = {.len = 0};

    put_int(&m, 1, lease);
    call(&w->call, LEASE "LeaseRevoke", &m, answered);
}

/* If the key `condition` was created in `revision` (0: isn't there), then `key` is put, under a lease if there is one. */
static void put_if(struct grpc_call *c, const char *condition, int64_t revision, const char *key, int64_t lease,
                   answered_fn *answered)
{
    struct message m = {.len = 0}, compare = {.len = 0}, put = {.len = 0}, op = {.len = 0};

    put_int(&compare, 2, 1); /* what is compared is the creation, and it must be equal */
    put_text(&compare, 3, condition);
    put_int(&compare, 5, revision);
    put_text(&put, 1, key);
    put_text(&put, 2, peer_value);
    if (lease)
        put_int(&put, 3, lease);
    put_bytes(&op, 2, put.bytes, put.len);
    put_bytes(&m, 1, compare.bytes, compare.len);
    put_bytes(&m, 2, op.bytes, op.len);
    call(c, KV "Txn", &m, answered);
}

/* ---- operations ---- */

static void finished(struct grpc_call *c, const uint8_t *data, size_t len)
{
    (void)data;
    (void)len;
    peer_done(c->arg, true);
}

static void txn_done(struct grpc_call *c, const uint8_t *data, size_t len)
{
    peer_done(c->arg, succeeded(data, len));
}

static void cycle_locked(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;

    if (succeeded(data, len))
        give_back(w, w->lease[0], finished);
    else
        peer_done(&w->base, false);
}

static void cycle_granted(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;

    w->lease[0] = (int64_t)get(data, len, 2, NULL);
    put_if(c, w->key, 0, w->key, w->lease[0], cycle_locked);
}

static void renewed(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;

    peer_done(&w->base, (int64_t)get(data, len, 2, NULL) == w->lease[w->base.n % PEER_KEYS] && get(data, len, 3, NULL) == TTL_S);
}

static void renew(struct worker *w, int64_t lease)
{
    struct message m = {.len = 0};

    put_int(&m, 1, lease);
    w->call.answered = renewed;
    grpc_message(&w->call, LEASE "LeaseKeepAlive", m.bytes, m.len);
}

static void begin(struct peer_worker *worker)
{
    struct worker *w = (struct worker *)worker;
    const unsigned key = (unsigned)(worker->n % PEER_KEYS);
    char data[48];

    snprintf(w->key, sizeof(w->key), "lock/%u/%u", worker->id, key);
    switch (worker->bench->work) {
    case PEER_CYCLE:
        grant(w, cycle_granted);
        break;
    case PEER_RENEW:
        renew(w, w->lease[key]);
        break;
    case PEER_WRITE:
        snprintf(data, sizeof(data), "data/%u/%u", worker->id, key);
        put_if(&w->call, w->key, w->token[key], data, 0, txn_done);
        break;
    case PEER_ONCE:
        snprintf(w->key, sizeof(w->key), "once/%u/%llu", worker->id, (unsigned long long)worker->n);
        put_if(&w->call, w->key, 0, w->key, 0, txn_done);
        break;
    }
}

/* ---- before ---- */

static void note_answer(struct grpc_call *c, const uint8_t *data, size_t len)
{
    (void)c;
    (void)data;
    (void)len;
    admin_answered = true;
}

/* Asks and waits; the answer stays in `admin`. */
static const uint8_t *ask(struct peer_bench *bench, const char *path, const struct message *m, size_t *len)
{
    admin_answered = false;
    call(&admin, path, m, note_answer);
    peer_serve(bench, &admin_answered);
    *len = admin.in_len - 5;
    return admin.in + 5;
}

/* How many keys begin so, and the store's revision. */
static int64_t count(struct peer_bench *bench, const char *prefix, int64_t *revision)
{
    struct message m = {.len = 0};
    char end[32];
    const uint8_t *data;
    size_t len;

    snprintf(end, sizeof(end), "%s", prefix);
    end[strlen(end) - 1]++;
    put_text(&m, 1, prefix);
    put_text(&m, 2, end);
    put_int(&m, 9, 1); /* count only */
    data = ask(bench, KV "Range", &m, &len);
    *revision = revision_of(data, len);
    return (int64_t)get(data, len, 4, NULL);
}

static bool listens(struct peer_bench *bench)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)bench->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool good = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    close(fd);
    return good;
}

static void start(struct peer_bench *bench)
{
    char dir[4096], client[64], peer[64], cluster[96];

    snprintf(dir, sizeof(dir), "%s/etcd", bench->dir);
    snprintf(client, sizeof(client), "http://127.0.0.1:%d", bench->port);
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%d", bench->port + 1);
    snprintf(cluster, sizeof(cluster), "default=%s", peer);
    peer_spawn(bench, (const char *const[]){"etcd", "--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls",
                                            client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                                            "--initial-cluster", cluster, NULL});
    peer_wait(bench, listens); /* it listens once it has a leader */
}

static void prepare_next(struct worker *w);

static void prepare_locked(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;

    w->token[w->base.step++] = revision_of(data, len);
    prepare_next(w);
}

static void prepare_granted(struct grpc_call *c, const uint8_t *data, size_t len)
{
    struct worker *w = c->arg;
    const unsigned key = w->base.step;

    w->lease[key] = (int64_t)get(data, len, 2, NULL);
    if (w->base.bench->work == PEER_WRITE) {
        snprintf(w->key, sizeof(w->key), "lock/%u/%u", w->base.id, key);
        put_if(c, w->key, 0, w->key, w->lease[key], prepare_locked);
    } else {
        w->base.step++;
        prepare_next(w);
    }
}

/* Each worker gets its leases, and for writes its locks. */
static void prepare_next(struct worker *w)
{
    const bool needed = w->base.bench->work == PEER_RENEW || w->base.bench->work == PEER_WRITE;

    if (needed && w->base.step < PEER_KEYS)
        grant(w, prepare_granted);
    else
        prepared = --preparing == 0;
}

static void prepare(struct peer_bench *bench)
{
    struct grpc_conn *conn = NULL;
    int64_t revision;

    preparing = bench->in_flight;
    for (unsigned i = 0; i < bench->in_flight; i++) {
        struct worker *w = peer_worker(bench, i);
        if (i % SHARING == 0)
            conn = grpc_connect(bench->port);
        w->call.conn = conn;
        w->call.arg = w;
        prepare_next(w);
    }
    peer_serve(bench, &prepared);
    admin.conn = conn;
    (void)count(bench, "none/", &revision);
    first_revision = (uint64_t)revision;
}

/* ---- afterwards ---- */

static const char *check(struct peer_bench *bench)
{
    static const unsigned revisions[] = {[PEER_CYCLE] = 2, [PEER_RENEW] = 0, [PEER_WRITE] = 1, [PEER_ONCE] = 1};
    static const char *const prefixes[] = {
        [PEER_CYCLE] = "lock/", [PEER_RENEW] = "lock/", [PEER_WRITE] = "data/", [PEER_ONCE] = "once/"};
    const struct worker *first = peer_worker(bench, 0);
    int64_t wanted = bench->work == PEER_ONCE ? (int64_t)bench->done : 0, revision;

    for (unsigned i = 0; i < bench->in_flight && bench->work == PEER_WRITE; i++) {
        const struct worker *w = peer_worker(bench, i);
        wanted += w->base.n < PEER_KEYS ? (int64_t)w->base.n : PEER_KEYS;
    }
    if (count(bench, prefixes[bench->work], &revision) != wanted)
        return "there are not as many keys";
    if ((uint64_t)revision - first_revision != bench->done * revisions[bench->work])
        return "there were not as many revisions";
    if (bench->work == PEER_WRITE || bench->work == PEER_ONCE) {
        const bool write = bench->work == PEER_WRITE;
        admin_answered = false;
        put_if(&admin, write ? "lock/0/1" : "once/0/1", write ? first->token[1] - 1 : 0, "none/x", 0, note_answer);
        peer_serve(bench, &admin_answered);
        if (succeeded(admin.in + 5, admin.in_len - 5))
            return write ? "a stale token was accepted" : "a second record was accepted";
    }
    return NULL;
}

static const struct peer etcd = {"etcd", sizeof(struct worker), start, prepare, begin, check};
PEER_MAIN(etcd)
