/*
 * wait.c - callers that wait: how they come and go. See wait.h; what their lines do is in wait_line.c.
 *
 * A waiting call is answered exactly once, by whatever comes first: an outcome, its end, CancelWait, the drain, or its connection's
 * end. Each of these makes it leave first, so that nothing else finds it.
 */
#include "service/wait.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "service/acquire.h"
#include "service/tally.h"
#include "service/wait_line.h"

enum { QUOTA_RETRY_MS = 1000, GIVE_BACK_MS = 5000, FRESH_MS = 3000, TURN_MS = 100 };

static int64_t now_ms(const struct svc *svc)
{
    return svc->io->now_ms(svc->io);
}

/* ---- leaving ---- */

void svc_waiter_free(struct svc_waiter *waiter)
{
    free(waiter);
}

void svc_wait_leave(struct svc_wait *wait)
{
    struct svc_waiter *waiter = svc_waiter_of(wait->base.waiter);
    struct svc_line *line = svc_line_of(waiter->base.line);
    co_waitq_leave(&line->svc->waits.queue, &wait->base);
    wait->sc->wait = NULL;
    if (!waiter->base.line && line->tried != waiter) {
        svc_waiter_settle(waiter, true, false);
        svc_waiter_free(waiter);
    }
}

static void answer_held(struct svc_call *sc, const struct svc_line *line)
{
    int64_t remaining = line->until_ms - now_ms(line->svc);
    struct svc_held held = {.resource = line->base.resource,
                            .holder = line->holder,
                            .task = line->task,
                            .token = line->token,
                            .remaining_ms = remaining > 0 ? remaining : 0,
                            .waiters = line->base.waiters.count,
                            .guarded = line->known == SVC_GUARDED};
    svc_answer_held(sc, &held);
}

/* What was learnt last is told only while the database can be asked: otherwise it may be long untrue. */
static bool is_down(const struct svc_line *line)
{
    struct st_stats stats;
    if (line->down || now_ms(line->svc) - line->known_ms <= FRESH_MS)
        return line->down;
    st_stats(line->svc->store, &stats);
    return stats.connections_ready == 0;
}

void svc_wait_end(struct svc_wait *wait)
{
    struct svc_line *line = svc_line_of(wait->base.waiter->line);
    bool lost = svc_waiter_of(wait->base.waiter)->lost;
    struct svc_call *sc = wait->sc;
    struct hp_status status;
    bool down = is_down(line);
    svc_wait_leave(wait);
    if (!lost && !down && line->known != SVC_NOTHING) {
        answer_held(sc, line);
        return;
    }
    if (lost)
        hp_status_set(&status, HP_R_OUTCOME_LOST, "it waited, and of its last try it is not known whether it took effect");
    else if (down)
        hp_status_set(&status, HP_R_DATABASE_DOWN, NULL);
    else if (line->svc->draining)
        hp_status_set(&status, HP_R_DRAINING, NULL);
    else
        svc_timed_out(line->svc, &status);
    svc_fail(sc, &status);
}

void svc_waiter_end(struct svc_waiter *waiter)
{
    for (size_t n = waiter->base.callers.count; n > 0; n--)
        svc_wait_end(svc_first_wait(waiter));
}

void svc_waiter_fail(struct svc_waiter *waiter, const struct hp_status *status)
{
    for (size_t n = waiter->base.callers.count; n > 0; n--) {
        struct svc_wait *wait = svc_first_wait(waiter);
        struct svc_call *sc = wait->sc;
        svc_wait_leave(wait);
        svc_fail(sc, status);
    }
}

void svc_wait_expel(struct svc_call *sc, const struct hp_status *status)
{
    struct svc *svc = sc->svc;
    struct svc_line *line = svc_line_of(sc->wait->base.waiter->line);
    svc_wait_leave(sc->wait);
    svc_fail(sc, status);
    svc_line_proceed(line);
    svc_waits_arm(svc);
}

void svc_wait_gone(struct svc_call *sc)
{
    svc_wait_expel(sc, &svc_gone);
}

/* ---- coming ---- */

void svc_over_quota(const char *ns, int64_t limit, struct hp_status *status)
{
    hp_status_set(status, HP_R_QUOTA, "%lld wait in namespace \"%s\" on this server, which is its limit", (long long)limit, ns);
    status->retry_ms = QUOTA_RETRY_MS;
    hp_status_meta(status, "namespace", "%s", ns);
    hp_status_meta(status, "limit", "%lld", (long long)limit);
}

static struct svc_waiter *new_waiter(const char *request_id)
{
    size_t len = strlen(request_id) + 1;
    struct svc_waiter *waiter = calloc(1, sizeof(*waiter) + len);
    if (!waiter)
        return NULL;
    waiter->base.request_id = memcpy(waiter->request_id, request_id, len);
    list_init(&waiter->cancels);
    return waiter;
}

static enum co_join join(struct svc_line *line, struct svc_wait *wait, const char *request_id, bool given, int64_t end_ms)
{
    struct co_waitq *queue = &line->svc->waits.queue;
    struct co_waiter *same = co_waitq_same(queue, &line->base, request_id);
    if (same)
        return co_waitq_merge(queue, same, &wait->base, end_ms);
    struct svc_waiter *waiter = new_waiter(request_id);
    if (!waiter)
        return CO_NO_MEMORY;
    enum co_join joined = co_waitq_join(queue, &line->base, &waiter->base, &wait->base, now_ms(line->svc), end_ms);
    if (joined != CO_JOINED) {
        svc_waiter_free(waiter);
        return joined;
    }
    bool alone = co_line_head(&line->base) == &waiter->base && !line->trier;
    waiter->fresh = alone || given;
    waiter->waited = !alone;
    if (alone)
        line->due = true;
    else if (given)
        co_line_ask_later(&waiter->base);
    return joined;
}

static void refuse(struct svc_call *sc, enum co_join why, const struct svc_line *line)
{
    struct hp_status status;
    if (why == CO_OVER_QUOTA)
        svc_over_quota(line->base.ns, (int64_t)co_line_in_namespace(&line->base), &status);
    else if (why == CO_FULL)
        hp_status_set(&status, HP_R_QUEUE_FULL, "%zu calls wait on this server", sc->svc->waits.queue.n_callers);
    else
        hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the call");
    svc_fail(sc, &status);
}

void svc_wait(struct svc_call *sc, const char *request_id, bool given, const char *labels_json)
{
    const Holdfast__V1__AcquireRequest *req = sc->request;
    struct svc *svc = sc->svc;
    struct svc_wait *wait = hp_alloc(sc->arena, sizeof(*wait));
    struct svc_line *line = wait ? svc_line_get(svc, req->namespace_, req->resources[0]) : NULL;
    if (!line) {
        svc_no_memory(sc);
        return;
    }
    wait->sc = sc;
    wait->labels_json = labels_json;
    svc_times(sc, &wait->hard_ms, &wait->send_ms);
    int64_t end = sc->received_ms + req->wait_ms;
    enum co_join joined = join(line, wait, request_id, given, end < wait->hard_ms ? end : wait->hard_ms);
    if (joined == CO_JOINED)
        sc->wait = wait;
    else
        refuse(sc, joined, line);
    svc_line_proceed(line);
    svc_waits_arm(svc);
}

/* ---- time ---- */

/* The caller's time is over. If nothing is known that could be told, it has a little more. */
static void on_end(struct svc_wait *wait)
{
    struct svc *svc = wait->sc->svc;
    struct svc_line *line = svc_line_of(wait->base.waiter->line);
    if (line->known == SVC_NOTHING && wait->base.end_ms < wait->hard_ms) {
        co_waitq_set_end(&svc->waits.queue, &wait->base, wait->hard_ms);
        line->n_overtime++;
        return;
    }
    svc_wait_end(wait);
    svc_line_proceed(line);
}

static void on_timer(struct io_timer *timer)
{
    struct svc_waits *waits = list_entry(timer, struct svc_waits, timer);
    struct svc *svc = list_entry(waits, struct svc, waits);
    int64_t now = now_ms(svc);
    struct co_caller *caller;
    struct co_line *due;
    waits->timer_at = INT64_MAX;
    waits->wake_ups++;
    while ((caller = co_waitq_ended(&waits->queue, now)))
        on_end(list_entry(caller, struct svc_wait, base));
    while ((due = co_waitq_due(&waits->queue, now)))
        svc_line_kick(svc_line_of(due));
    svc_waits_arm(svc);
}

void svc_waits_arm(struct svc *svc)
{
    struct svc_waits *waits = &svc->waits;
    int64_t at = co_waitq_next_ms(&waits->queue);
    if (at == INT64_MAX && waits->timer_at != INT64_MAX) {
        svc->io->timer_cancel(svc->io, &waits->timer);
        waits->timer_at = INT64_MAX;
    } else if (at < waits->timer_at) { /* one that fires too early costs less than one moved with every hand-over */
        waits->timer_at = at;
        svc->io->timer_set(svc->io, &waits->timer, at);
    }
}

/* ---- turns, releases, grants given back ---- */

static void on_turn(void *arg, const char *ns, const char *resource)
{
    struct svc *svc = arg;
    svc->waits.turns++;
    svc->waits.wake_ups++;
    struct co_line *found = co_waitq_find(&svc->waits.queue, ns, resource);
    struct svc_line *line = found ? svc_line_of(found) : svc_line_get(svc, ns, resource);
    if (!line)
        return;
    if (!found) { /* nobody waits here any more: the turn is passed on */
        line->row = true;
        svc_line_proceed(line);
    } else {
        svc_line_kick(line);
    }
    svc_waits_arm(svc);
}

void svc_wait_freed(struct svc *svc, const char *ns, const char *resource)
{
    struct co_line *found = co_waitq_find(&svc->waits.queue, ns, resource);
    if (!found)
        return;
    if (svc_line_of(found)->row) {
        /* With us on record as waiting, the release gave a turn. If to us, we'll be told; if to another server, we ask again when
         * it is over, since nobody tells if that one doesn't take it. */
        if (!svc_line_of(found)->trier)
            co_waitq_try_at(&svc->waits.queue, found, now_ms(svc) + TURN_MS + 1);
        svc_waits_arm(svc);
        return;
    }
    svc->waits.wake_ups++;
    svc_line_kick(svc_line_of(found));
    svc_waits_arm(svc);
}

struct give_back {
    struct st_item item;
    struct svc *svc;
    char names[];
};

static void on_given_back(struct st_item *item)
{
    struct give_back *give = list_entry(item, struct give_back, item);
    svc_tally_item(give->svc, item);
    if (item->outcome == ST_FREED)
        svc_wait_freed(give->svc, item->ns, item->resource);
    give->svc->in_flight--;
    free(give);
}

void svc_give_back(struct svc *svc, const char *ns, const char *resource, int64_t token)
{
    size_t ns_len = strlen(ns) + 1, resource_len = strlen(resource) + 1;
    struct give_back *give = calloc(1, sizeof(*give) + ns_len + resource_len);
    if (!give)
        return; /* it ends by itself */
    give->svc = svc;
    give->item = (struct st_item){.kind = ST_RELEASE, .deadline_ms = now_ms(svc) + GIVE_BACK_MS, .done = on_given_back};
    give->item.ns = memcpy(give->names, ns, ns_len);
    give->item.resource = memcpy(give->names + ns_len, resource, resource_len);
    give->item.in.release.token = token;
    give->item.in.release.unless_repeated = true;
    svc->waits.given_back++;
    svc->in_flight++;
    st_submit(svc->store, &give->item);
}

size_t svc_waiters(const struct svc *svc, const char *ns, const char *resource)
{
    const struct co_line *line = co_waitq_find(&svc->waits.queue, ns, resource);
    return line ? line->waiters.count : 0;
}

/* ---- life ---- */

void svc_waits_init(struct svc *svc)
{
    co_waitq_init(&svc->waits.queue, svc->cfg.max_waiting);
    list_init(&svc->waits.lines);
    svc->waits.timer.fire = on_timer;
    svc->waits.timer_at = INT64_MAX;
    st_on_turn(svc->store, on_turn, svc);
}

void svc_waits_end(struct svc *svc)
{
    struct list_node *node = list_first(&svc->waits.lines), *next;
    for (; node; node = next) {
        struct svc_line *line = list_entry(node, struct svc_line, node);
        struct list_node *at = list_first(&line->base.waiters), *after;
        next = list_next(&svc->waits.lines, node);
        for (; at; at = after) {
            struct svc_waiter *waiter = svc_waiter_of(list_entry(at, struct co_waiter, node));
            after = list_next(&line->base.waiters, at);
            if (waiter != line->tried)
                svc_waiter_end(waiter);
        }
        svc_line_proceed(line);
    }
    svc_waits_arm(svc);
}

void svc_waits_release(struct svc *svc)
{
    svc->io->timer_cancel(svc->io, &svc->waits.timer);
    co_waitq_release(&svc->waits.queue);
}
