/*
 * wait_line.c - what a line does: tries for its head, questions, and what their outcomes lead to. See wait.h.
 *
 * Invariants: a line has a trier exactly while `item` is with the store. The trier's arena stays as long, whether or not it has
 * been answered meanwhile. A line is open from the moment somebody joins, or a turn comes for nobody, until nobody waits in it
 * and nothing of it is with the store.
 */
#include "service/wait_line.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "service/acquire.h"
#include "service/tally.h"
#include "service/wait.h"

enum {
    POLL_MS = 1000,     /* how long a head waits for news at most */
    PATIENCE_MS = 1000, /* of one try, while the row is locked */
    TRY_MS = 10000,     /* of one try, altogether */
    RETRY_MS = 100,     /* after one that had no outcome */
    BUSY_RETRY_MS = 10, /* the store has been patient already */
    LEAVE_MS = 5000
};

static int64_t clamp(int64_t value, int64_t min, int64_t max)
{
    return value < min ? min : value > max ? max : value;
}

static int64_t now_ms(const struct svc *svc)
{
    return svc->io->now_ms(svc->io);
}

static void try_at(struct svc_line *line, int64_t at_ms)
{
    co_waitq_try_at(&line->svc->waits.queue, &line->base, at_ms);
}

/* ---- life ---- */

struct svc_line *svc_line_get(struct svc *svc, const char *ns, const char *resource)
{
    struct co_line *found = co_waitq_find(&svc->waits.queue, ns, resource);
    size_t ns_len = strlen(ns) + 1, resource_len = strlen(resource) + 1;
    if (found)
        return svc_line_of(found);
    struct svc_line *line = calloc(1, sizeof(*line) + ns_len + resource_len);
    if (!line)
        return NULL;
    line->svc = svc;
    line->base.ns = memcpy(line->names, ns, ns_len);
    line->base.resource = memcpy(line->names + ns_len, resource, resource_len);
    if (!co_waitq_open(&svc->waits.queue, &line->base)) {
        free(line);
        return NULL;
    }
    list_push_back(&svc->waits.lines, &line->node);
    return line;
}

static void retire(struct svc_line *line)
{
    co_waitq_close(&line->svc->waits.queue, &line->base);
    list_remove(&line->svc->waits.lines, &line->node);
    free(line);
}

static void on_left(struct st_item *item)
{
    struct svc_line *line = list_entry(item, struct svc_line, leave);
    struct svc *svc = line->svc;
    svc->in_flight--;
    line->leaving = false;
    if (line->row) /* somebody has come since, and may have been forgotten by this */
        line->due = true;
    svc_line_proceed(line);
    svc_waits_arm(svc);
}

/* The database forgets that this server waits; if it has the turn, the next one gets it. */
static void leave(struct svc_line *line)
{
    struct svc *svc = line->svc;
    line->row = false;
    if (svc->closed)
        return;
    line->leaving = true;
    line->leave = (struct st_item){.kind = ST_LEAVE,
                                   .ns = line->base.ns,
                                   .resource = line->base.resource,
                                   .deadline_ms = now_ms(svc) + LEAVE_MS,
                                   .done = on_left};
    svc->waits.leaves++;
    svc->in_flight++;
    st_submit(svc->store, &line->leave);
}

/* ---- tries ---- */

static void on_tried(struct st_item *item);

static void fill_item(struct svc_line *line, const struct svc_wait *wait, const char *request_id)
{
    const Holdfast__V1__AcquireRequest *req = wait->sc->request;
    struct co_terms terms;
    int64_t now = now_ms(line->svc), end = wait->base.waiter->end_ms;
    co_line_terms(&line->base, now, &terms);
    struct st_item *item = &line->item;
    *item = (struct st_item){.kind = ST_ACQUIRE, .ns = line->base.ns, .resource = line->base.resource, .done = on_tried};
    /* What can be told at all is to be told, also to those who don't wait for long. */
    bool first = line->known == SVC_NOTHING;
    item->deadline_ms = clamp(first && wait->send_ms > end ? wait->send_ms : end, now + 1, now + TRY_MS);
    item->patience_ms = clamp(first ? end : item->deadline_ms, now + 1, now + PATIENCE_MS);
    item->in.acquire.task = req->task[0] ? req->task : req->resources[0];
    item->in.acquire.holder = req->holder;
    item->in.acquire.request_id = request_id;
    item->in.acquire.labels_json = wait->labels_json;
    item->in.acquire.ttl_ms = req->ttl_ms;
    item->in.acquire.queued = line->asking;
    item->in.acquire.waited_ms = clamp(terms.waited_ms, 0, INT64_MAX);
    item->in.acquire.wait_ms = terms.wait_ms;
    item->in.acquire.next_waited_ms = line->asking ? 0 : clamp(terms.next_waited_ms, 0, INT64_MAX);
    item->in.acquire.next_wait_ms = line->asking ? 0 : terms.next_wait_ms;
}

static void try_for(struct svc_line *line, struct svc_waiter *waiter)
{
    struct svc *svc = line->svc;
    struct svc_wait *wait = svc_first_wait(waiter);
    line->asking = &waiter->base != co_line_head(&line->base);
    if (!line->asking) {
        line->due = false;
        try_at(line, INT64_MAX);
    }
    if (line->asking || waiter->fresh)
        svc->waits.arrivals++;
    else
        svc->waits.tries++;
    waiter->fresh = false;
    fill_item(line, wait, waiter->request_id);
    line->trier = wait->sc;
    line->trier->n_open = 1;
    line->tried = waiter;
    st_submit(svc->store, &line->item);
}

static void end_all(struct svc_line *line)
{
    struct co_waiter *head;
    while ((head = co_line_head(&line->base)))
        svc_waiter_end(svc_waiter_of(head));
}

void svc_line_proceed(struct svc_line *line)
{
    struct co_waiter *head, *unasked;
    if (line->trier)
        return;
    if (line->svc->draining)
        end_all(line);
    head = co_line_head(&line->base);
    if (!head) {
        line->due = false;
        try_at(line, INT64_MAX);
        if (line->row && !line->leaving)
            leave(line);
        if (!line->leaving)
            retire(line);
    } else if (line->due) {
        if (list_linked(&head->ask)) /* the try tells as much */
            list_remove(&line->base.unasked, &head->ask);
        try_for(line, svc_waiter_of(head));
    } else if (!line->stuck && (unasked = co_line_ask_next(&line->base))) {
        try_for(line, svc_waiter_of(unasked));
    }
}

void svc_line_kick(struct svc_line *line)
{
    if (!co_line_head(&line->base))
        return;
    line->due = true;
    svc_line_proceed(line);
}

/* ---- outcomes ---- */

static void copy_name(char to[SVC_NAME_BYTES], const char *from)
{
    size_t len = strnlen(from ? from : "", SVC_NAME_BYTES - 1);
    if (len)
        memcpy(to, from, len);
    to[len] = '\0';
}

static void know(struct svc_line *line, const char *holder, const char *task, int64_t token, int64_t remaining_ms)
{
    line->known = SVC_HELD;
    line->stuck = line->down = false;
    copy_name(line->holder, holder);
    copy_name(line->task, task);
    line->token = token;
    line->known_ms = now_ms(line->svc);
    line->until_ms = line->known_ms + remaining_ms;
}

/* Who is to hear of an outcome: the waiter, or, if its callers have left, others that have come with the same request_id since
 * (a caller whose connection broke comes again). NULL: nobody. */
static struct svc_waiter *heir(struct svc_line *line, struct svc_waiter *waiter)
{
    if (waiter->base.line)
        return waiter;
    struct co_waiter *same = co_waitq_same(&line->svc->waits.queue, &line->base, waiter->request_id);
    return same ? svc_waiter_of(same) : NULL;
}

/* Its callers get the grant, or, if all have left, it goes back. */
static void granted(struct svc_line *line, struct svc_waiter *waiter, const struct st_item *item)
{
    struct svc *svc = line->svc;
    struct svc_waiter *to = heir(line, waiter);
    size_t n = to ? to->base.callers.count : 0;
    bool again = item->outcome == ST_REPEATED;
    know(line, item->in.acquire.holder, item->in.acquire.task, item->out.acquire.token, item->out.acquire.ttl_ms);
    if (!again) {
        line->row = item->in.acquire.next_wait_ms > 0;
        line->due = false;
    }
    try_at(line, now_ms(svc) + clamp(item->out.acquire.ttl_ms, 1, POLL_MS));
    if (n && waiter->waited && !again)
        svc->waits.hand_overs++;
    if (!n && !again)
        svc_give_back(svc, item->ns, item->resource, item->out.acquire.token);
    svc_waiter_settle(waiter, !n, false);
    for (size_t i = 0; i < n; i++) {
        struct svc_wait *wait = svc_first_wait(to);
        struct svc_call *sc = wait->sc;
        svc_wait_leave(wait);
        svc_answer_granted(sc, item);
    }
    /* They came while this was on its way, and the database doesn't know of them. */
    if (!again && !line->row && co_line_head(&line->base) && list_empty(&line->base.unasked))
        line->due = true;
}

static void ended(struct svc_line *line, struct svc_waiter *waiter, int64_t token)
{
    size_t n = waiter->base.line ? waiter->base.callers.count : 0;
    line->due = true; /* it may well be free */
    svc_waiter_settle(waiter, false, false);
    for (size_t i = 0; i < n; i++) {
        struct svc_wait *wait = svc_first_wait(waiter);
        struct svc_call *sc = wait->sc;
        svc_wait_leave(wait);
        svc_answer_ended(sc, token);
    }
}

/* Waiters that came before the namespace's limit was known, and are too many. */
static void refuse_surplus(struct svc_line *line, int64_t limit)
{
    struct co_waiter *surplus;
    while ((surplus = co_line_surplus(&line->base, limit))) {
        struct svc_line *its = svc_line_of(surplus->line);
        struct hp_status status;
        svc_over_quota(line->base.ns, limit, &status);
        svc_waiter_fail(svc_waiter_of(surplus), &status);
        if (its != line)
            svc_line_proceed(its);
    }
}

static void held(struct svc_line *line, const struct st_item *item)
{
    int64_t now = now_ms(line->svc), remaining = item->out.acquire.remaining_ms;
    bool free = !item->out.acquire.holder || !item->out.acquire.holder[0];
    know(line, item->out.acquire.holder, item->out.acquire.task, item->out.acquire.token, remaining);
    if (item->in.acquire.wait_ms > 0)
        line->row = true;
    if (line->asking) {
        /* Held for those before it, and for nothing else. */
        if (free && remaining <= 0 && now >= line->not_before_ms)
            line->due = true;
    } else if (free) {
        line->not_before_ms = now + clamp(remaining, 1, INT64_MAX / 2);
        try_at(line, line->not_before_ms);
    } else {
        try_at(line, now + clamp(remaining, 1, POLL_MS));
    }
    refuse_surplus(line, item->out.acquire.max_waiters);
}

static void no_outcome(struct svc_line *line, struct svc_waiter *waiter, const struct st_item *item)
{
    line->stuck = true;
    line->down = item->outcome != ST_BUSY;
    if (item->outcome == ST_BUSY)
        line->known = SVC_GUARDED;
    if (item->outcome == ST_OUTCOME_LOST) {
        line->row = true;
        waiter->lost = !line->asking;
    }
    try_at(line, now_ms(line->svc) + (item->outcome == ST_BUSY ? BUSY_RETRY_MS : RETRY_MS));
    if (line->asking && waiter->base.line)
        co_line_ask_later(&waiter->base);
}

static void refused(struct svc_line *line, struct svc_waiter *waiter, const struct st_item *item)
{
    struct hp_status status;
    if (!svc_item_status(line->svc, item, &status))
        hp_status_set(&status, HP_R_INTERNAL, "unexpected outcome %d of an acquire", (int)item->outcome);
    line->due = true;
    if (waiter->base.line)
        svc_waiter_fail(waiter, &status);
    if (item->outcome != ST_NO_SUCH_NAMESPACE)
        return;
    struct co_waiter *head;
    while ((head = co_line_head(&line->base))) /* it doesn't exist for the others either */
        svc_waiter_fail(svc_waiter_of(head), &status);
}

/* Something is known now: those whose time was over before get it. */
static void end_overtime(struct svc_line *line)
{
    int64_t now = now_ms(line->svc);
    if (!line->n_overtime || line->known == SVC_NOTHING)
        return;
    line->n_overtime = 0;
    struct list_node *node = list_first(&line->base.waiters), *next;
    for (; node; node = next) {
        struct svc_waiter *waiter = svc_waiter_of(list_entry(node, struct co_waiter, node));
        next = list_next(&line->base.waiters, node);
        size_t n = waiter->base.callers.count;
        struct list_node *at = list_first(&waiter->base.callers), *after;
        for (size_t i = 0; i < n; i++, at = after) {
            struct svc_wait *wait = list_entry(list_entry(at, struct co_caller, node), struct svc_wait, base);
            const Holdfast__V1__AcquireRequest *req = wait->sc->request;
            after = i + 1 < n ? list_next(&waiter->base.callers, at) : NULL;
            if (wait->sc->received_ms + req->wait_ms <= now)
                svc_wait_end(wait);
        }
    }
}

static void take_outcome(struct svc_line *line, struct svc_waiter *waiter, const struct st_item *item)
{
    if (item->outcome != ST_OUTCOME_LOST)
        waiter->lost = false;
    switch (item->outcome) {
    case ST_GRANTED:
    case ST_REPEATED:
        granted(line, waiter, item);
        return;
    case ST_ENDED:
        ended(line, waiter, item->out.acquire.token);
        return;
    case ST_HELD:
        waiter->waited = true;
        held(line, item);
        break;
    case ST_BUSY:
    case ST_OUTCOME_LOST:
    case ST_DATABASE_DOWN:
    case ST_QUEUE_FULL:
    case ST_TIMED_OUT:
        waiter->waited = true;
        no_outcome(line, waiter, item);
        break;
    default:
        refused(line, waiter, item);
        return;
    }
    /* It has not been granted, or nobody knows: those who wanted to cancel it get their way. */
    if (waiter->base.line && !list_empty(&waiter->cancels))
        svc_waiter_end(waiter);
}

static void on_tried(struct st_item *item)
{
    struct svc_line *line = list_entry(item, struct svc_line, item);
    struct svc *svc = line->svc;
    struct svc_waiter *waiter = line->tried; /* stays until the end of this, whoever of its callers leaves */
    struct svc_call *sc = line->trier;
    /* If it has been answered already, its arena, in which the request is, was left to us. */
    struct hp_arena *arena = sc->call ? NULL : sc->arena;
    svc_tally_item(svc, item);
    sc->n_open = 0;
    take_outcome(line, waiter, item);
    end_overtime(line);
    line->trier = NULL;
    line->tried = NULL;
    if (!waiter->base.line) {
        svc_waiter_settle(waiter, true, waiter->lost);
        svc_waiter_free(waiter);
    }
    if (arena) {
        svc->in_flight--;
        hp_arena_free(arena);
    }
    svc_line_proceed(line);
    svc_waits_arm(svc);
}
