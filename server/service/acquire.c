/*
 * acquire.c - LeaseService.Acquire: one resource or several, once. (Waiting is not there yet.)
 */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/wire.h"
#include "service/call.h"
#include "service/check.h"

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
    if (req->wait_ms > 0) {
        hp_status_set(status, HP_R_NOT_YET, "wait_ms: waiting is not implemented yet; ask again with wait_ms 0");
        return false;
    }
    return true;
}

/* 128 random bits in hexadecimal. NULL: no memory. */
static const char *new_request_id(struct svc_call *sc)
{
    unsigned char bytes[16];
    char *text = hp_alloc(sc->arena, 2 * sizeof(bytes) + 1);
    if (sc->svc->cfg.random)
        sc->svc->cfg.random(bytes, sizeof(bytes));
    else if (!hb_random_bytes(bytes, sizeof(bytes)))
        return NULL;
    for (size_t i = 0; text && i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

static void answer_granted(struct svc_call *sc, const struct st_item *item)
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

static void answer_held(struct svc_call *sc, const struct st_item *item, bool guarded)
{
    const Holdfast__V1__AcquireRequest *req = sc->request;
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Held held = HOLDFAST__V1__HELD__INIT;
    size_t which = item->kind == ST_ACQUIRE || item->out.acquire.which >= req->n_resources ? 0 : item->out.acquire.which;
    held.resource = req->resources[which];
    held.guarded = guarded;
    if (!guarded) {
        held.holder = unconst(item->out.acquire.holder ? item->out.acquire.holder : "");
        held.task = unconst(item->out.acquire.task ? item->out.acquire.task : "");
        held.token = item->out.acquire.token;
        held.remaining_ms = item->out.acquire.remaining_ms;
    }
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD;
    response.held = &held;
    svc_reply(sc, &response.base);
}

static void answer_ended(struct svc_call *sc, const struct st_item *item)
{
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Ended ended = HOLDFAST__V1__ENDED__INIT;
    ended.token = item->out.acquire.token;
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED;
    response.ended = &ended;
    svc_reply(sc, &response.base);
}

static void finish_acquire(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    switch (svc_outcome(sc, 0)) {
    case ST_GRANTED:
    case ST_REPEATED:
        answer_granted(sc, item);
        break;
    case ST_HELD:
        answer_held(sc, item, false);
        break;
    case ST_BUSY: /* not an error here: somebody has it */
        answer_held(sc, item, true);
        break;
    case ST_ENDED:
        answer_ended(sc, item);
        break;
    default:
        if (!svc_failed(sc))
            svc_fail_outcome(sc, item);
    }
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
    bool several = req->n_resources > 1;
    struct st_item *item = svc_items(sc, 1, several ? ST_ACQUIRE_ALL : ST_ACQUIRE, req->namespace_);
    if (!item)
        return;
    item->resource = req->resources[0];
    item->in.acquire.task = req->task[0] ? req->task : req->resources[0];
    item->in.acquire.holder = req->holder;
    item->in.acquire.request_id = req->request_id[0] ? req->request_id : new_request_id(sc);
    item->in.acquire.labels_json = labels_json;
    item->in.acquire.ttl_ms = req->ttl_ms;
    if (several) {
        item->in.acquire.resources = (const char *const *)req->resources;
        item->in.acquire.n_resources = req->n_resources;
        item->out.acquire.tokens = hp_alloc_array(sc->arena, req->n_resources, sizeof(int64_t));
    }
    if (!item->in.acquire.request_id || (several && !item->out.acquire.tokens)) {
        svc_no_memory(sc);
        return;
    }
    svc_submit(sc, SVC_WHOLE, finish_acquire);
}
