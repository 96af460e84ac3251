/*
 * operation_wait.c - calls that wait for operations: how they come and go. See operation_wait.h; what their lines do is in
 * operation_line.c.
 *
 * A waiting call is answered exactly once, by whatever comes first: an outcome, its end, the drain, or its connection's end. Each
 * of these makes it leave first, so that nothing else finds it.
 */
#include "service/operation_wait.h"

#include <string.h>

#include "core/moves.h"
#include "service/check.h"
#include "service/operation_check.h"

enum { FRESH_MS = 3000 };

static int64_t now_ms(const struct svc *svc)
{
    return svc->io->now_ms(svc->io);
}

/* ---- leaving ---- */

void svc_op_wait_leave(struct svc_op_wait *wait)
{
    struct svc_op_waits *waits = &wait->line->svc->op_waits;
    list_remove(&wait->line->waits, &wait->node);
    heap_remove(&waits->ends, &wait->end);
    waits->n--;
    wait->sc->op_wait = NULL;
}

/* What was learnt last is told only while the database can be asked: otherwise it may be long untrue. */
static bool is_down(const struct svc_op_line *line)
{
    struct st_stats stats;
    if (now_ms(line->svc) - line->known_ms <= FRESH_MS)
        return false;
    st_stats(line->svc->store, &stats);
    return stats.connections_ready == 0;
}

static void no_answer(const struct svc_op_wait *wait, struct hp_status *status)
{
    if (wait->lost)
        hp_status_set(status, HP_R_OUTCOME_LOST, "it waited, and of its last try it is not known whether it took effect");
    else if (wait->line->svc->draining)
        hp_status_set(status, HP_R_DRAINING, NULL);
    else
        svc_timed_out(wait->line->svc, status);
}

void svc_op_wait_end(struct svc_op_wait *wait)
{
    struct svc_op_line *line = wait->line;
    struct svc_call *sc = wait->sc;
    struct hp_status status;
    int64_t remaining = line->until_ms - now_ms(line->svc);
    struct svc_op_view view = {
        .state = line->state, .attempt = line->attempt, .holder = line->holder, .remaining_ms = remaining > 0 ? remaining : 0};
    bool told = wait->begins && !wait->lost && !is_down(line);
    no_answer(wait, &status);
    svc_op_wait_leave(wait);
    if (told)
        svc_op_answer_begin(sc, &view);
    else
        svc_fail(sc, &status);
}

void svc_op_line_end(struct svc_op_line *line)
{
    struct list_node *node = list_first(&line->waits), *next;
    for (; node; node = next) {
        struct svc_op_wait *wait = list_entry(node, struct svc_op_wait, node);
        next = list_next(&line->waits, node);
        if (!line->asked || wait->sc != line->trier)
            svc_op_wait_end(wait);
    }
}

void svc_op_wait_expel(struct svc_call *sc, const struct hp_status *status)
{
    struct svc *svc = sc->svc;
    struct svc_op_line *line = sc->op_wait->line;
    svc_op_wait_leave(sc->op_wait);
    svc_fail(sc, status);
    svc_op_line_proceed(line);
    svc_op_waits_arm(svc);
}

void svc_op_wait_gone(struct svc_call *sc)
{
    svc_op_wait_expel(sc, &svc_gone);
}

/* ---- coming ---- */

static bool may_wait(const struct svc *svc, struct hp_status *status)
{
    if (svc->op_waits.n + svc->waits.queue.n_callers < svc->cfg.max_waiting)
        return true;
    hp_status_set(status, HP_R_QUEUE_FULL, "%zu callers wait on this server, which is its limit", svc->cfg.max_waiting);
    return false;
}

/* In line, with its ends still to be set. NULL: the call has ended. */
static struct svc_op_wait *join(struct svc_call *sc, const char *ns, const char *key)
{
    struct svc *svc = sc->svc;
    struct hp_status status;
    if (!may_wait(svc, &status)) {
        svc_fail(sc, &status);
        return NULL;
    }
    struct svc_op_wait *wait = hp_alloc(sc->arena, sizeof(*wait));
    struct svc_op_line *line = wait ? svc_op_line_get(svc, ns, key) : NULL;
    if (!line) {
        svc_no_memory(sc);
        return NULL;
    }
    svc->io->timer_cancel(svc->io, &sc->patience); /* from now on its end is kept here */
    wait->line = line;
    wait->sc = sc;
    wait->since = line->n_asked + 1;
    list_push_back(&line->waits, &wait->node);
    svc->op_waits.n++;
    sc->op_wait = wait;
    return wait;
}

void svc_op_wait_begin(struct svc_call *sc, const struct svc_op_view *view)
{
    const Holdfast__V1__BeginRequest *req = sc->request;
    struct svc *svc = sc->svc;
    int64_t hard, send, end = sc->received_ms + req->wait_ms;
    svc_times(sc, &hard, &send);
    if (end > hard)
        end = hard;
    if (end <= now_ms(svc) || svc->draining) {
        svc_op_answer_begin(sc, view);
        return;
    }
    struct svc_op_wait *wait = join(sc, req->namespace_, req->key);
    if (!wait)
        return;
    wait->begins = true;
    wait->hard_ms = hard;
    heap_set(&svc->op_waits.ends, &wait->end, end);
    svc_op_line_know(wait->line, view);
    if (!wait->line->poll.linked)
        svc_op_line_later(wait->line);
    svc_op_waits_arm(svc);
}

void svc_op_wait(struct svc_call *sc)
{
    const Holdfast__V1__WaitOperationRequest *req = sc->request;
    struct svc *svc = sc->svc;
    struct hp_status status;
    int64_t send, end = sc->received_ms + req->wait_ms;
    if (!svc_check_operation(req->namespace_, req->key, &status) ||
        !svc_check_range("wait_ms", req->wait_ms, 0, SVC_WAIT_MAX_MS, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct svc_op_wait *wait = join(sc, req->namespace_, req->key);
    if (!wait)
        return;
    svc_times(sc, &wait->hard_ms, &send);
    if (end > send) /* some time is left for the last question */
        end = send;
    wait->over = end <= now_ms(svc);
    heap_set(&svc->op_waits.ends, &wait->end, wait->over ? wait->hard_ms : end);
    wait->line->due = true;
    svc_op_line_proceed(wait->line);
    svc_op_waits_arm(svc);
}

/* ---- time ---- */

/* Its time is over. A Wait has a little more, for the last question; so has a Begin that is being tried for, as an attempt that
 * nobody knows of would be in the way of the others. */
static void on_end(struct svc_op_wait *wait)
{
    struct svc_op_line *line = wait->line;
    bool tried = line->asked && line->trier == wait->sc;
    if ((wait->begins && !tried) || wait->over || wait->hard_ms <= now_ms(line->svc)) {
        svc_op_wait_end(wait);
    } else {
        wait->over = true;
        heap_set(&line->svc->op_waits.ends, &wait->end, wait->hard_ms);
        line->due = line->due || !wait->begins;
    }
    svc_op_line_proceed(line);
}

static void on_poll(struct svc_op_line *line)
{
    heap_remove(&line->svc->op_waits.polls, &line->poll);
    line->due = true;
    if (line->state != CO_NEW && now_ms(line->svc) >= line->until_ms)
        line->start = true;
    svc_op_line_proceed(line);
}

static void on_timer(struct io_timer *timer)
{
    struct svc_op_waits *waits = list_entry(timer, struct svc_op_waits, timer);
    struct svc *svc = list_entry(waits, struct svc, op_waits);
    int64_t now = now_ms(svc);
    waits->timer_at = INT64_MAX;
    while (heap_top_key(&waits->ends, INT64_MAX) <= now)
        on_end(list_entry(heap_top(&waits->ends), struct svc_op_wait, end));
    while (heap_top_key(&waits->polls, INT64_MAX) <= now)
        on_poll(list_entry(heap_top(&waits->polls), struct svc_op_line, poll));
    svc_op_waits_arm(svc);
}

void svc_op_waits_arm(struct svc *svc)
{
    struct svc_op_waits *waits = &svc->op_waits;
    int64_t end = heap_top_key(&waits->ends, INT64_MAX), poll = heap_top_key(&waits->polls, INT64_MAX);
    int64_t at = end < poll ? end : poll;
    if (at == INT64_MAX && waits->timer_at != INT64_MAX) {
        svc->io->timer_cancel(svc->io, &waits->timer);
        waits->timer_at = INT64_MAX;
    } else if (at < waits->timer_at) { /* one that fires too early costs less than one moved with every change */
        waits->timer_at = at;
        svc->io->timer_set(svc->io, &waits->timer, at);
    }
}

/* ---- life ---- */

void svc_op_waits_init(struct svc *svc)
{
    svc->op_waits.timer.fire = on_timer;
    svc->op_waits.timer_at = INT64_MAX;
}

void svc_op_waits_end(struct svc *svc)
{
    for (size_t i = 0; i < SVC_OP_BUCKETS; i++) {
        struct svc_op_line *line = svc->op_waits.lines[i], *next;
        for (; line; line = next) {
            next = line->next;
            svc_op_line_end(line);
            svc_op_line_proceed(line);
        }
    }
    svc_op_waits_arm(svc);
}

void svc_op_waits_release(struct svc *svc)
{
    svc->io->timer_cancel(svc->io, &svc->op_waits.timer);
}
