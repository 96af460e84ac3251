/*
 * acquire.c - LeaseService.Acquire: one resource or several, once; and what is answered. Those that wait go to wait.c.
 */
#include <stdio.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/wire.h"
#include "service/acquire.h"
#include "service/check.h"
#include "service/wait.h"

/* A locked row is tried again for so long, when the caller doesn't want to wait. */
enum { ONCE_PATIENCE_MS = 30 };

static char *unconst(const char *text)
{
    return (char *)(uintptr_t)text; /* messages are packed, not changed */
}

static bool check_acquire(struct svc_call *sc, const Holdfast__V1__AcquireRequest *req, const char **labels_json,
                          struct hp_status *status)
{
    if (!hp_check_name("namespace", req->namespace_, status) || !svc_check_optional("task", req->task, status) ||
        !svc_check_resources(req->resources, req->n_resources, status) || !hp_check_name("holder", req->holder, status) ||
        !svc_check_ttl(req->ttl_ms, status) || !svc_check_range("wait_ms", req->wait_ms, 0, SVC_WAIT_MAX_MS, status) ||
        !svc_check_optional("request_id", req->request_id, status) ||
        !svc_check_labels(sc->arena, req->labels, req->n_labels, labels_json, status))
        return false;
    if (req->wait_ms > 0 && req->n_resources > 1) {
        char text[24];
        int n = snprintf(text, sizeof(text), "%lld", (long long)req->wait_ms);
        hp_status_bad_field(status, HP_R_MALFORMED, "wait_ms", text, (size_t)n, "0 with several resources");
        return false;
    }
    return true;
}

void svc_answer_granted(struct svc_call *sc, const struct st_item *item)
{
    const Holdfast__V1__AcquireRequest *req = sc->request;
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Granted granted = HOLDFAST__V1__GRANTED__INIT;
    Holdfast__V1__Grant grants[SVC_RESOURCES_MAX], *pointers[SVC_RESOURCES_MAX];
    for (size_t i = 0; i < req->n_resources; i++) {
        holdfast__v1__grant__init(&grants[i]);
        grants[i].resource = req->resources[i];
        grants[i].token = item->kind == ST_ACQUIRE ? item->out.acquire.token : item->out.acquire.tokens[i];
        pointers[i] = &grants[i];
    }
    /* The lease was granted at or after granted_at_ms: what has passed since then is gone from its time to live, and what
     * passed before is all that the caller may add to it (P7). */
    int64_t waited = item->out.acquire.granted_at_ms - sc->received_ms;
    int64_t passed = svc_elapsed_ms(sc) - (waited > 0 ? waited : 0);
    int64_t ttl = item->out.acquire.ttl_ms - (passed > 0 ? passed : 0);
    granted.n_grants = req->n_resources;
    granted.grants = pointers;
    granted.ttl_ms = ttl > 0 ? ttl : 0;
    granted.waited_ms = waited > 0 ? waited : 0;
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED;
    response.granted = &granted;
    svc_reply(sc, &response.base);
}

void svc_answer_held(struct svc_call *sc, const struct svc_held *what)
{
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Held held = HOLDFAST__V1__HELD__INIT;
    held.resource = unconst(what->resource);
    held.waiters = (int64_t)what->waiters;
    held.guarded = what->guarded;
    if (!what->guarded) {
        held.holder = unconst(what->holder ? what->holder : "");
        held.task = unconst(what->task ? what->task : "");
        held.token = what->token;
        held.remaining_ms = what->remaining_ms;
    }
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD;
    response.held = &held;
    svc_reply(sc, &response.base);
}

void svc_answer_ended(struct svc_call *sc, int64_t token)
{
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Ended ended = HOLDFAST__V1__ENDED__INIT;
    ended.token = token;
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED;
    response.ended = &ended;
    svc_reply(sc, &response.base);
}

/* ---- once ---- */

static void answer_held(struct svc_call *sc, const struct st_item *item, bool guarded)
{
    const Holdfast__V1__AcquireRequest *req = sc->request;
    size_t which = item->kind == ST_ACQUIRE || item->out.acquire.which >= req->n_resources ? 0 : item->out.acquire.which;
    struct svc_held held = {.resource = req->resources[which],
                            .holder = item->out.acquire.holder,
                            .task = item->out.acquire.task,
                            .token = item->out.acquire.token,
                            .remaining_ms = item->out.acquire.remaining_ms,
                            .waiters = svc_waiters(sc->svc, req->namespace_, req->resources[which]),
                            .guarded = guarded};
    svc_answer_held(sc, &held);
}

/* Its caller is gone. A repeat may be known to somebody; a new grant is not, and goes back. */
static void finish_gone(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    if (svc_outcome(sc, 0) == ST_GRANTED && item->kind == ST_ACQUIRE)
        svc_give_back(sc->svc, item->ns, item->resource, item->out.acquire.token);
    for (size_t i = 0; svc_outcome(sc, 0) == ST_GRANTED && i < item->in.acquire.n_resources; i++)
        svc_give_back(sc->svc, item->ns, item->in.acquire.resources[i], item->out.acquire.tokens[i]);
    svc_fail_gone(sc);
}

static void finish_acquire(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    if (sc->gone) {
        finish_gone(sc);
        return;
    }
    switch (svc_outcome(sc, 0)) {
    case ST_GRANTED:
    case ST_REPEATED:
        svc_answer_granted(sc, item);
        break;
    case ST_HELD:
        answer_held(sc, item, false);
        break;
    case ST_BUSY: /* not an error here: somebody has it */
        answer_held(sc, item, true);
        break;
    case ST_ENDED:
        svc_answer_ended(sc, item->out.acquire.token);
        break;
    default:
        if (!svc_failed(sc))
            svc_fail_outcome(sc, item);
    }
}

/* Those who wait on this server come first. False: no memory. */
static bool behind_those_who_wait(struct svc_call *sc, struct st_item *item)
{
    const Holdfast__V1__AcquireRequest *req = sc->request;
    bool any = false, *each;
    for (size_t i = 0; i < req->n_resources; i++)
        any = any || svc_waiters(sc->svc, req->namespace_, req->resources[i]);
    item->in.acquire.queued = any && req->n_resources == 1;
    if (!any || req->n_resources == 1)
        return true;
    each = hp_alloc_array(sc->arena, req->n_resources, sizeof(*each));
    for (size_t i = 0; each && i < req->n_resources; i++)
        each[i] = svc_waiters(sc->svc, req->namespace_, req->resources[i]) > 0;
    item->in.acquire.queued_each = each;
    return each != NULL;
}

static void try_once(struct svc_call *sc, const char *request_id, const char *labels_json)
{
    const Holdfast__V1__AcquireRequest *req = sc->request;
    bool several = req->n_resources > 1;
    struct st_item *item = svc_items(sc, 1, several ? ST_ACQUIRE_ALL : ST_ACQUIRE, req->namespace_);
    if (!item)
        return;
    item->resource = req->resources[0];
    item->patience_ms = sc->svc->io->now_ms(sc->svc->io) + ONCE_PATIENCE_MS;
    item->in.acquire.task = req->task[0] ? req->task : req->resources[0];
    item->in.acquire.holder = req->holder;
    item->in.acquire.request_id = request_id;
    item->in.acquire.labels_json = labels_json;
    item->in.acquire.ttl_ms = req->ttl_ms;
    if (several) {
        item->in.acquire.resources = (const char *const *)req->resources;
        item->in.acquire.n_resources = req->n_resources;
        item->out.acquire.tokens = hp_alloc_array(sc->arena, req->n_resources, sizeof(int64_t));
    }
    if (!behind_those_who_wait(sc, item) || (several && !item->out.acquire.tokens)) {
        svc_no_memory(sc);
        return;
    }
    svc_submit(sc, SVC_WHOLE, finish_acquire);
}

void svc_acquire(struct svc_call *sc)
{
    const Holdfast__V1__AcquireRequest *req = sc->request;
    struct hp_status status;
    const char *labels_json;
    if (!check_acquire(sc, req, &labels_json, &status)) {
        svc_fail(sc, &status);
        return;
    }
    const char *request_id = svc_request_id(sc, req->request_id);
    if (!request_id)
        svc_no_memory(sc);
    else if (req->wait_ms > 0)
        svc_wait(sc, request_id, req->request_id[0] != '\0', labels_json);
    else
        try_once(sc, request_id, labels_json);
}
