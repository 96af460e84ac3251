/*
 * lease.c - LeaseService: Renew, Release, Get, List, Break. Acquire has acquire.c, CancelWait wait_cancel.c, Watch watch.c.
 */
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/wire.h"
#include "service/check.h"
#include "service/items.h"
#include "service/page_seal.h"
#include "service/scope.h"

enum { PAGE_BYTES = 3 << 20 }; /* a page of leases ends before it is larger */

static char *unconst(const char *text)
{
    return (char *)(uintptr_t)text; /* messages are packed, not changed */
}

/* ---- Renew ---- */

static void finish_renew(struct svc_call *sc)
{
    Holdfast__V1__RenewResponse response = HOLDFAST__V1__RENEW_RESPONSE__INIT;
    response.items = svc_renew_results(sc);
    if (!response.items)
        return;
    response.n_items = sc->n_items;
    svc_reply(sc, &response.base);
}

void svc_renew(struct svc_call *sc)
{
    const Holdfast__V1__RenewRequest *req = sc->request;
    struct hp_status status;
    if (!svc_check_ttl(req->ttl_ms, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *items = svc_token_items(sc, ST_RENEW, req->namespace_, req->items, req->n_items);
    if (!items)
        return;
    for (size_t i = 0; i < req->n_items; i++) {
        items[i].in.renew.token = req->items[i]->token;
        items[i].in.renew.ttl_ms = req->ttl_ms;
    }
    svc_submit(sc, SVC_BRIEF, finish_renew);
}

/* ---- Release ---- */

static void finish_release(struct svc_call *sc)
{
    Holdfast__V1__ReleaseResponse response = HOLDFAST__V1__RELEASE_RESPONSE__INIT;
    void **results = svc_results(sc, sizeof(Holdfast__V1__ReleaseResult));
    if (!results)
        return;
    for (size_t i = 0; i < sc->n_items; i++) {
        Holdfast__V1__ReleaseResult *result = results[i];
        enum st_outcome outcome = svc_outcome(sc, i);
        holdfast__v1__release_result__init(result);
        if (svc_item_error(sc, i, &result->error))
            continue;
        result->was_held = outcome == ST_FREED;
        if (outcome != ST_FREED && outcome != ST_NOT_FREED) {
            svc_fail_outcome(sc, &sc->items[i]);
            return;
        }
    }
    response.n_items = sc->n_items;
    response.items = (Holdfast__V1__ReleaseResult **)results;
    svc_reply(sc, &response.base);
}

void svc_release(struct svc_call *sc)
{
    const Holdfast__V1__ReleaseRequest *req = sc->request;
    struct st_item *items = svc_token_items(sc, ST_RELEASE, req->namespace_, req->items, req->n_items);
    if (!items)
        return;
    for (size_t i = 0; i < req->n_items; i++)
        items[i].in.release.token = req->items[i]->token;
    svc_submit(sc, SVC_BRIEF, finish_release);
}

/* ---- Get and List ---- */

/* The row as a message in the arena that borrows the row's strings. NULL: no memory. `bytes` grows by about its size. */
static Holdfast__V1__Lease *lease_message(struct hp_arena *arena, const struct st_lease_row *row, size_t *bytes)
{
    typedef Holdfast__V1__Lease__LabelsEntry entry;
    Holdfast__V1__Lease *lease = hp_alloc(arena, sizeof(*lease));
    entry *entries = row->n_labels ? hp_alloc_array(arena, row->n_labels, sizeof(entry)) : NULL;
    entry **pointers = row->n_labels ? hp_alloc_array(arena, row->n_labels, sizeof(entry *)) : NULL;
    if (!lease || (row->n_labels && (!entries || !pointers)))
        return NULL;
    holdfast__v1__lease__init(lease);
    lease->resource = unconst(row->resource);
    lease->task = unconst(row->task);
    lease->holder = unconst(row->holder);
    lease->request_id = unconst(row->request_id);
    lease->token = row->token;
    lease->fence = row->fence;
    lease->state = (Holdfast__V1__Lease__State)row->state;
    lease->remaining_ms = row->remaining_ms;
    lease->granted_unix_ms = row->granted_unix_ms;
    for (size_t i = 0; i < row->n_labels; i++) {
        holdfast__v1__lease__labels_entry__init(&entries[i]);
        entries[i].key = unconst(row->labels[i].name);
        entries[i].value = unconst(row->labels[i].value);
        pointers[i] = &entries[i];
    }
    lease->n_labels = row->n_labels;
    lease->labels = pointers;
    *bytes += protobuf_c_message_get_packed_size(&lease->base);
    return lease;
}

static void finish_get(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__GetLeaseResponse response = HOLDFAST__V1__GET_LEASE_RESPONSE__INIT;
    size_t bytes = 0;
    switch (svc_outcome(sc, 0)) {
    case ST_FOUND:
        response.lease = lease_message(sc->arena, item->out.leases.rows, &bytes);
        if (response.lease)
            svc_reply(sc, &response.base);
        else
            svc_no_memory(sc);
        break;
    case ST_NO_SUCH_RESOURCE:
        svc_fail_no_resource(sc);
        break;
    default:
        if (!svc_failed(sc))
            svc_fail_outcome(sc, item);
    }
}

void svc_get_lease(struct svc_call *sc)
{
    const Holdfast__V1__GetLeaseRequest *req = sc->request;
    if (svc_one_item(sc, ST_GET, req->namespace_, req->resource))
        svc_submit(sc, SVC_WHOLE, finish_get);
}

static void finish_list(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__ListLeasesResponse response = HOLDFAST__V1__LIST_LEASES_RESPONSE__INIT;
    const Holdfast__V1__ListLeasesRequest *req = sc->request;
    size_t n = item->out.leases.n, rows = svc_page_rows(req->page_size), bytes = 0, looked = 0;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.leases = hp_alloc_array(sc->arena, n, sizeof(*response.leases));
    /* A page ends early rather than outgrow the call's memory or the reply. */
    for (; response.leases && looked < n && response.n_leases < rows && bytes < PAGE_BYTES; looked++) {
        const struct st_lease_row *row = &item->out.leases.rows[looked];
        if (!svc_sees_resource(sc, item->ns, row->resource))
            continue;
        Holdfast__V1__Lease *lease = lease_message(sc->arena, row, &bytes);
        if (!lease)
            break;
        response.leases[response.n_leases++] = lease;
    }
    bool more = item->out.leases.more || looked < n;
    char *token = NULL;
    if (more && looked)
        token = svc_scoped_page_token(sc, SVC_PAGE_LEASES, item->out.leases.rows[looked - 1].resource);
    if (more && !token) {
        svc_no_memory(sc);
        return;
    }
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_leases(struct svc_call *sc)
{
    const Holdfast__V1__ListLeasesRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!hp_check_name("namespace", req->namespace_, &status) || !svc_check_optional("prefix", req->prefix, &status) ||
        !svc_check_optional("task", req->task, &status) || !svc_check_optional("holder", req->holder, &status) ||
        !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_scoped_page_after(sc, SVC_PAGE_LEASES, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_LEASES, req->namespace_);
    if (!item)
        return;
    item->in.list.prefix = svc_narrow_resources(sc, req->namespace_, req->prefix);
    if (!item->in.list.prefix) {
        svc_no_memory(sc);
        return;
    }
    item->in.list.task = req->task;
    item->in.list.holder = req->holder;
    item->in.list.after = after;
    item->in.list.max = svc_scoped_page_rows(sc, max);
    svc_submit(sc, SVC_WHOLE, finish_list);
}

/* ---- Break ---- */

static void finish_break(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__BreakResponse response = HOLDFAST__V1__BREAK_RESPONSE__INIT;
    Holdfast__V1__BreakResponse__Broken broken = HOLDFAST__V1__BREAK_RESPONSE__BROKEN__INIT;
    Holdfast__V1__BreakResponse__Changed changed = HOLDFAST__V1__BREAK_RESPONSE__CHANGED__INIT;
    Holdfast__V1__BreakResponse__Blocked blocked = HOLDFAST__V1__BREAK_RESPONSE__BLOCKED__INIT;
    switch (svc_outcome(sc, 0)) {
    case ST_BREAK_DONE:
        broken.fence = item->out.brk.fence;
        response.outcome_case = HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BROKEN;
        response.broken = &broken;
        break;
    case ST_BREAK_CHANGED:
        changed.token = item->out.brk.fence;
        changed.live = item->out.brk.live;
        response.outcome_case = HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_CHANGED;
        response.changed = &changed;
        break;
    case ST_BREAK_BLOCKED:
        blocked.pid = item->out.brk.pid;
        response.outcome_case = HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BLOCKED;
        response.blocked = &blocked;
        break;
    case ST_NO_SUCH_RESOURCE:
        svc_fail_no_resource(sc);
        return;
    default:
        if (!svc_failed(sc))
            svc_fail_outcome(sc, item);
        return;
    }
    svc_reply(sc, &response.base);
}

void svc_break(struct svc_call *sc)
{
    const Holdfast__V1__BreakRequest *req = sc->request;
    struct hp_status status;
    if (!hp_check_name("namespace", req->namespace_, &status) || !hp_check_name("resource", req->resource, &status) ||
        !svc_check_token("token_seen", req->token_seen, &status) || !hp_check_name("actor", req->actor, &status) ||
        !svc_check_reason(req->reason, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_BREAK, req->namespace_);
    if (!item)
        return;
    item->resource = req->resource;
    item->in.brk.token_seen = req->token_seen;
    item->in.brk.actor = req->actor;
    item->in.brk.reason = req->reason;
    svc_submit(sc, SVC_WHOLE, finish_break);
}
