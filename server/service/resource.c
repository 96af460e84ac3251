/*
 * resource.c - ResourceService: Check, Write, Read, List, Delete.
 */
#include <string.h>

#include "holdfast/v1/resource.pb-c.h"
#include "proto/c/wire.h"
#include "service/check.h"
#include "service/items.h"
#include "service/page_seal.h"
#include "service/scope.h"

/* ---- Check ---- */

struct check_result {
    Holdfast__V1__CheckResult result; /* first: svc_results gives pointers to it */
    union {
        Holdfast__V1__CheckResult__Current current;
        Holdfast__V1__CheckResult__Stale stale;
        Holdfast__V1__CheckResult__NotHeld not_held;
    };
};

/* False: the store told what it cannot. */
static bool fill_checked(struct svc_call *sc, size_t i, struct check_result *out)
{
    const struct st_item *item = &sc->items[i];
    holdfast__v1__check_result__init(&out->result);
    if (svc_item_error(sc, i, &out->result.error)) {
        out->result.outcome_case = HOLDFAST__V1__CHECK_RESULT__OUTCOME_ERROR;
        return true;
    }
    switch (item->outcome) {
    case ST_CURRENT:
        holdfast__v1__check_result__current__init(&out->current);
        out->current.remaining_ms = item->out.check.remaining_ms;
        out->result.outcome_case = HOLDFAST__V1__CHECK_RESULT__OUTCOME_CURRENT;
        out->result.current = &out->current;
        return true;
    case ST_STALE:
        holdfast__v1__check_result__stale__init(&out->stale);
        out->stale.fence = item->out.check.fence;
        out->result.outcome_case = HOLDFAST__V1__CHECK_RESULT__OUTCOME_STALE;
        out->result.stale = &out->stale;
        return true;
    case ST_NOT_HELD:
        holdfast__v1__check_result__not_held__init(&out->not_held);
        out->not_held.fence = item->out.check.fence;
        out->result.outcome_case = HOLDFAST__V1__CHECK_RESULT__OUTCOME_NOT_HELD;
        out->result.not_held = &out->not_held;
        return true;
    default:
        return false;
    }
}

static void finish_check(struct svc_call *sc)
{
    Holdfast__V1__CheckResponse response = HOLDFAST__V1__CHECK_RESPONSE__INIT;
    void **results = svc_results(sc, sizeof(struct check_result));
    if (!results)
        return;
    for (size_t i = 0; i < sc->n_items; i++) {
        if (!fill_checked(sc, i, results[i])) {
            svc_fail_outcome(sc, &sc->items[i]);
            return;
        }
    }
    response.n_items = sc->n_items;
    response.items = (Holdfast__V1__CheckResult **)results;
    svc_reply(sc, &response.base);
}

void svc_check(struct svc_call *sc)
{
    const Holdfast__V1__CheckRequest *req = sc->request;
    struct st_item *items = svc_token_items(sc, ST_CHECK, req->namespace_, req->items, req->n_items);
    if (!items)
        return;
    for (size_t i = 0; i < req->n_items; i++)
        items[i].in.check.token = req->items[i]->token;
    svc_submit(sc, SVC_BRIEF, finish_check);
}

/* ---- Write and Delete ---- */

/* The refusals of a guarded write; false: it was none of them. */
static bool write_refused(const struct st_item *item, struct hp_status *status)
{
    long long fence = item->out.write.fence;
    switch (item->outcome) {
    case ST_STALE:
        hp_status_set(status, HP_R_STALE_TOKEN, "token %lld of \"%s\" is stale: %lld was granted since",
                      (long long)item->in.write.token, item->resource, fence);
        hp_status_meta(status, "fence", "%lld", fence);
        return true;
    case ST_NOT_HELD:
        hp_status_set(status, HP_R_NOT_HELD, "the lease of \"%s\" under token %lld has ended or never was", item->resource,
                      (long long)item->in.write.token);
        hp_status_meta(status, "fence", "%lld", fence);
        return true;
    case ST_VERSION_MISMATCH:
        hp_status_set(status, HP_R_VERSION_MISMATCH, "\"%s\" has version %lld, not %lld", item->resource,
                      (long long)item->out.write.version, (long long)item->in.write.expected_version);
        hp_status_meta(status, "version", "%lld", (long long)item->out.write.version);
        return true;
    case ST_SUPERSEDED:
        hp_status_set(status, HP_R_SUPERSEDED, "write %lld of \"%s\" comes after write %lld of the same token",
                      (long long)item->in.write.write_seq, item->resource, (long long)item->out.write.write_seq);
        hp_status_meta(status, "write_seq", "%lld", (long long)item->out.write.write_seq);
        return true;
    default:
        return false;
    }
}

/* True if it was done (now or before); otherwise the call has ended. */
static bool written(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    struct hp_status status;
    if (svc_failed(sc))
        return false;
    if (item->outcome == ST_WRITTEN || item->outcome == ST_REPLAYED)
        return true;
    if (write_refused(item, &status)) {
        hp_status_meta(&status, "resource", "%s", item->resource);
        svc_fail(sc, &status);
    } else {
        svc_fail_outcome(sc, item);
    }
    return false;
}

static void finish_write(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__WriteResponse response = HOLDFAST__V1__WRITE_RESPONSE__INIT;
    if (!written(sc))
        return;
    response.version = item->out.write.version;
    response.fence = item->out.write.fence;
    response.replayed = item->outcome == ST_REPLAYED;
    svc_reply(sc, &response.base);
}

static void finish_delete(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__DeleteResponse response = HOLDFAST__V1__DELETE_RESPONSE__INIT;
    if (!written(sc))
        return;
    response.version = item->out.write.version;
    response.fence = item->out.write.fence;
    response.replayed = item->outcome == ST_REPLAYED;
    svc_reply(sc, &response.base);
}

/* What Write and Delete have in common, checked and put into an item. NULL: the call has ended. */
static struct st_item *write_item(struct svc_call *sc, const char *ns, const char *resource, int64_t token, int64_t write_seq,
                                  bool expects, int64_t expected_version)
{
    struct hp_status status;
    if (!hp_check_name("namespace", ns, &status) || !hp_check_name("resource", resource, &status) ||
        !svc_check_token("token", token, &status) || !svc_check_range("write_seq", write_seq, 0, INT64_MAX, &status) ||
        (expects && !svc_check_range("expected_version", expected_version, 0, INT64_MAX, &status))) {
        svc_fail(sc, &status);
        return NULL;
    }
    struct st_item *item = svc_items(sc, 1, ST_WRITE, ns);
    if (!item)
        return NULL;
    item->resource = resource;
    item->in.write.token = token;
    item->in.write.write_seq = write_seq;
    item->in.write.expects = expects;
    item->in.write.expected_version = expects ? expected_version : 0;
    return item;
}

static bool check_value(const Holdfast__V1__WriteRequest *req, struct hp_status *status)
{
    if (!svc_check_range("value", (int64_t)req->value.len, 0, SVC_VALUE_MAX, status))
        return false;
    if (req->n_events) {
        hp_status_set(status, HP_R_NOT_YET, "events: the outbox is not implemented yet");
        return false;
    }
    return true;
}

void svc_write(struct svc_call *sc)
{
    const Holdfast__V1__WriteRequest *req = sc->request;
    struct hp_status status;
    if (!check_value(req, &status)) {
        svc_fail(sc, &status);
        return;
    }
    bool expects = req->expected_case == HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION;
    struct st_item *item =
        write_item(sc, req->namespace_, req->resource, req->token, req->write_seq, expects, req->expected_version);
    if (!item)
        return;
    /* An empty value is a value: NULL would delete. */
    item->in.write.value.data = req->value.len ? req->value.data : (const unsigned char *)"";
    item->in.write.value.len = req->value.len;
    svc_submit(sc, SVC_WHOLE, finish_write);
}

void svc_delete(struct svc_call *sc)
{
    const Holdfast__V1__DeleteRequest *req = sc->request;
    bool expects = req->expected_case == HOLDFAST__V1__DELETE_REQUEST__EXPECTED_EXPECTED_VERSION;
    if (write_item(sc, req->namespace_, req->resource, req->token, req->write_seq, expects, req->expected_version))
        svc_submit(sc, SVC_WHOLE, finish_delete);
}

/* ---- Read and List ---- */

static void finish_read(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__ReadResponse response = HOLDFAST__V1__READ_RESPONSE__INIT;
    switch (svc_outcome(sc, 0)) {
    case ST_FOUND:
        response.exists = item->out.read.exists;
        response.value.data = (uint8_t *)(uintptr_t)item->out.read.value.data;
        response.value.len = item->out.read.value.data ? item->out.read.value.len : 0;
        response.version = item->out.read.version;
        response.fence = item->out.read.fence;
        response.token = item->out.read.token;
        response.updated_unix_ms = item->out.read.updated_unix_ms;
        svc_reply(sc, &response.base);
        break;
    case ST_NO_SUCH_RESOURCE:
        svc_fail_no_resource(sc);
        break;
    default:
        if (!svc_failed(sc))
            svc_fail_outcome(sc, item);
    }
}

void svc_read(struct svc_call *sc)
{
    const Holdfast__V1__ReadRequest *req = sc->request;
    if (svc_one_item(sc, ST_READ, req->namespace_, req->resource))
        svc_submit(sc, SVC_WHOLE, finish_read);
}

static void fill_resource(const struct st_resource_row *row, Holdfast__V1__Resource *out)
{
    holdfast__v1__resource__init(out);
    out->resource = (char *)(uintptr_t)row->resource;
    out->fence = row->fence;
    out->exists = row->exists;
    out->version = row->version;
    out->value_bytes = row->value_bytes;
    out->leased = row->leased;
}

static void finish_list(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__ListResourcesResponse response = HOLDFAST__V1__LIST_RESOURCES_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    const Holdfast__V1__ListResourcesRequest *req = sc->request;
    size_t n = item->out.resources.n, rows = svc_page_rows(req->page_size), looked = 0;
    Holdfast__V1__Resource *messages = hp_alloc_array(sc->arena, n, sizeof(*messages));
    response.resources = hp_alloc_array(sc->arena, n, sizeof(*response.resources));
    for (; messages && response.resources && looked < n && response.n_resources < rows; looked++) {
        const struct st_resource_row *row = &item->out.resources.rows[looked];
        if (!svc_sees_resource(sc, item->ns, row->resource))
            continue;
        fill_resource(row, &messages[looked]);
        response.resources[response.n_resources++] = &messages[looked];
    }
    bool more = item->out.resources.more || looked < n;
    char *token = NULL;
    if (more && looked)
        token = svc_scoped_page_token(sc, SVC_PAGE_RESOURCES, item->out.resources.rows[looked - 1].resource);
    if (!messages || !response.resources || (more && !token)) {
        svc_no_memory(sc);
        return;
    }
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_resources(struct svc_call *sc)
{
    const Holdfast__V1__ListResourcesRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!hp_check_name("namespace", req->namespace_, &status) || !svc_check_optional("prefix", req->prefix, &status) ||
        !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_scoped_page_after(sc, SVC_PAGE_RESOURCES, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_RESOURCES, req->namespace_);
    if (!item)
        return;
    item->in.list.prefix = svc_narrow_resources(sc, req->namespace_, req->prefix);
    if (!item->in.list.prefix) {
        svc_no_memory(sc);
        return;
    }
    item->in.list.task = item->in.list.holder = "";
    item->in.list.after = after;
    item->in.list.max = svc_scoped_page_rows(sc, max);
    svc_submit(sc, SVC_WHOLE, finish_list);
}
