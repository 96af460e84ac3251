/*
 * call.c - see call.h: from the items of a call to its one answer.
 */
#include "service/call.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/random.h"
#include "service/auth.h"
#include "service/operation_wait.h"
#include "service/tally.h"
#include "service/wait.h"

enum { MARGIN_MS = 50, BRIEF_MS = 1000, QUOTA_RETRY_MS = 1000 };

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t now_ms(const struct svc *svc)
{
    return svc->io->now_ms(svc->io);
}

int64_t svc_elapsed_ms(const struct svc_call *sc)
{
    int64_t elapsed = now_ms(sc->svc) - sc->received_ms;
    return elapsed > 0 ? elapsed : 0;
}

const char *svc_request_id(struct svc_call *sc, const char *given)
{
    unsigned char bytes[16];
    if (given[0])
        return given;
    char *text = hp_alloc(sc->arena, 2 * sizeof(bytes) + 1);
    if (sc->svc->cfg.random)
        sc->svc->cfg.random(bytes, sizeof(bytes));
    else if (!hb_random_bytes(bytes, sizeof(bytes)))
        return NULL;
    for (size_t i = 0; text && i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

/* ---- ending ---- */

static void count(struct svc_call *sc, const struct hp_status *status)
{
    size_t n;
    struct svc_counts *counts = &sc->svc->counts[sc->method - svc_methods(&n)];
    if (sc->uncounted)
        return;
    if (!status || status->code == HP_OK)
        counts->ok++;
    else
        counts->errors[(unsigned)status->reason < SVC_ERRORS ? status->reason : 0]++;
}

const struct hp_status svc_gone = {.code = HP_CANCELLED};

static void end(struct svc_call *sc, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct svc *svc = sc->svc;
    struct hp_call *call = sc->call;
    svc->io->timer_cancel(svc->io, &sc->patience);
    svc_auth_leave(sc);
    count(sc, status);
    sc->call = NULL;
    if (sc->n_open)
        call->arena = NULL; /* items are out, and they live in it: taken until the last one is back */
    else
        svc->in_flight--;
    call->answer(call, status, response);
}

void svc_reply(struct svc_call *sc, const ProtobufCMessage *response)
{
    end(sc, NULL, response);
}

void svc_fail(struct svc_call *sc, const struct hp_status *status)
{
    end(sc, status, NULL);
}

void svc_fail_reason(struct svc_call *sc, enum hp_reason reason)
{
    struct hp_status status;
    hp_status_set(&status, reason, NULL);
    svc_fail(sc, &status);
}

void svc_no_memory(struct svc_call *sc)
{
    struct hp_status status;
    hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the call");
    svc_fail(sc, &status);
}

void svc_fail_gone(struct svc_call *sc)
{
    svc_fail(sc, &svc_gone);
}

void svc_fail_outcome(struct svc_call *sc, const struct st_item *item)
{
    struct hp_status status;
    hp_status_set(&status, HP_R_INTERNAL, "unexpected outcome %d of %s", (int)item->outcome, sc->method->rpc.path);
    svc_fail(sc, &status);
}

/* ---- items ---- */

/* The call's items are done, or its time is over. What an acquire was granted matters also when its caller is gone. */
static void conclude(struct svc_call *sc)
{
    bool acquires = sc->items[0].kind == ST_ACQUIRE || sc->items[0].kind == ST_ACQUIRE_ALL;
    if (!sc->gone || (acquires && !sc->n_open))
        sc->finish(sc);
    else if (!acquires)
        svc_fail_gone(sc);
}

/* It may have freed the resource, so that those who wait for it want to know. */
static bool frees(const struct st_item *item)
{
    return (item->kind == ST_RELEASE && item->outcome == ST_FREED) || (item->kind == ST_BREAK && item->outcome == ST_BREAK_DONE);
}

/* It changed the state of an operation, for which somebody may wait. */
static bool changes(const struct st_item *item)
{
    return (item->outcome == ST_OP_DONE || item->outcome == ST_OP_DONE_AGAIN) && item->kind != ST_OP_SENDING;
}

static void on_done(struct st_item *item)
{
    struct svc_call *sc = item->owner;
    sc->done[item - sc->items] = true;
    svc_tally_item(sc->svc, item);
    if (frees(item))
        svc_wait_freed(sc->svc, item->ns, item->resource);
    if (changes(item))
        svc_op_wake(sc->svc, item->ns, item->resource);
    if (--sc->n_open)
        return;
    if (sc->call) {
        conclude(sc);
    } else {
        sc->svc->in_flight--;
        hp_arena_free(sc->arena); /* and with it the call and the items */
    }
}

static void on_patience(struct io_timer *timer)
{
    conclude(list_entry(timer, struct svc_call, patience));
}

struct st_item *svc_items(struct svc_call *sc, size_t n, enum st_kind kind, const char *ns)
{
    sc->items = hp_alloc_array(sc->arena, n, sizeof(*sc->items));
    sc->done = hp_alloc_array(sc->arena, n, sizeof(*sc->done));
    if (!sc->items || !sc->done) {
        svc_no_memory(sc);
        return NULL;
    }
    sc->n_items = n;
    for (size_t i = 0; i < n; i++)
        sc->items[i] = (struct st_item){.kind = kind, .ns = ns, .done = on_done, .owner = sc};
    return sc->items;
}

void svc_times(const struct svc_call *sc, int64_t *answer_ms, int64_t *send_ms)
{
    int64_t time = sc->deadline_ms - sc->received_ms;
    int64_t answer = time - min64(MARGIN_MS, time / 4);
    *answer_ms = sc->received_ms + answer;
    *send_ms = sc->received_ms + answer - min64(MARGIN_MS, answer / 4);
}

void svc_submit(struct svc_call *sc, enum svc_patience patience, void (*finish)(struct svc_call *sc))
{
    struct svc *svc = sc->svc;
    int64_t answer, send;
    svc_times(sc, &answer, &send);
    if (patience == SVC_BRIEF && answer > sc->received_ms + BRIEF_MS) {
        answer = sc->received_ms + BRIEF_MS;
        send = min64(send, answer - MARGIN_MS);
    }
    sc->finish = finish;
    sc->n_open = sc->n_items;
    sc->patience.fire = on_patience;
    svc->io->timer_set(svc->io, &sc->patience, answer);
    for (size_t i = 0; i < sc->n_items; i++) {
        sc->items[i].deadline_ms = send;
        st_submit(svc->store, &sc->items[i]);
    }
}

enum st_outcome svc_outcome(const struct svc_call *sc, size_t i)
{
    return sc->done[i] ? sc->items[i].outcome : 0;
}

void svc_timed_out(const struct svc *svc, struct hp_status *status)
{
    struct st_stats stats;
    st_stats(svc->store, &stats);
    if (stats.connections_ready == 0)
        hp_status_set(status, HP_R_DATABASE_DOWN, NULL);
    else
        hp_status_set(status, HP_R_QUEUE_FULL, "it waited for its turn until its deadline; nothing was done");
}

bool svc_item_failed(const struct svc_call *sc, size_t i, struct hp_status *status)
{
    const struct st_item *item = &sc->items[i];
    if (!sc->done[i]) {
        hp_status_set(status, HP_R_OUTCOME_LOST,
                      "the database has not answered in time; it is not known whether the call took effect");
        status->code = HP_DEADLINE_EXCEEDED;
        return true;
    }
    return svc_item_status(sc->svc, item, status);
}

static void quota(const struct st_item *item, struct hp_status *status)
{
    bool write = item->kind == ST_WRITE;
    long long limit = (long long)(write ? item->out.write.limit : item->out.acquire.limit);
    hp_status_set(status, HP_R_QUOTA, "namespace \"%s\" has reached its limit of %lld %s", item->ns, limit,
                  write ? "bytes of values" : "live leases");
    status->retry_ms = QUOTA_RETRY_MS;
    hp_status_meta(status, "namespace", "%s", item->ns);
    hp_status_meta(status, "limit", "%lld", limit);
}

static void ttl_bounds(const struct st_item *item, struct hp_status *status)
{
    char value[24], limit[96];
    int n = snprintf(value, sizeof(value), "%lld", (long long)item->in.acquire.ttl_ms);
    snprintf(limit, sizeof(limit), "%lld to %lld in this namespace", (long long)item->out.acquire.min_ttl_ms,
             (long long)item->out.acquire.max_ttl_ms);
    hp_status_bad_field(status, HP_R_LIMIT, "ttl_ms", value, (size_t)n, limit);
    hp_status_meta(status, "namespace", "%s", item->ns);
}

bool svc_item_status(const struct svc *svc, const struct st_item *item, struct hp_status *status)
{
    switch (item->outcome) {
    case ST_NO_SUCH_NAMESPACE:
        hp_status_set(status, HP_R_NO_SUCH_NAMESPACE, "no namespace \"%s\"", item->ns);
        hp_status_meta(status, "namespace", "%s", item->ns);
        return true;
    case ST_OUTCOME_LOST:
        hp_status_set(status, HP_R_OUTCOME_LOST,
                      "the connection to the database broke; it is not known whether the call took effect");
        return true;
    case ST_DATABASE_DOWN:
        hp_status_set(status, HP_R_DATABASE_DOWN, NULL);
        return true;
    case ST_QUEUE_FULL:
        hp_status_set(status, HP_R_QUEUE_FULL, "too many calls are waiting, or there is no memory for more");
        return true;
    case ST_TIMED_OUT:
        svc_timed_out(svc, status);
        return true;
    case ST_BUSY:
        hp_status_set(status, HP_R_BUSY, NULL);
        if (item->resource)
            hp_status_meta(status, item->kind >= ST_OP_BEGIN && item->kind <= ST_OP_COMPENSATE ? "key" : "resource", "%s",
                           item->resource);
        return true;
    case ST_QUOTA:
        quota(item, status);
        return true;
    case ST_TTL_BOUNDS:
        ttl_bounds(item, status);
        return true;
    case ST_FAILED:
        hp_status_set(status, HP_R_INTERNAL, "PostgreSQL refused it (SQLSTATE %.5s); the server's log tells more", item->sqlstate);
        hp_status_meta(status, "sqlstate", "%.5s", item->sqlstate);
        return true;
    default:
        return false;
    }
}

bool svc_failed(struct svc_call *sc)
{
    struct hp_status status;
    if (!svc_item_failed(sc, 0, &status))
        return false;
    svc_fail(sc, &status);
    return true;
}
