/* inspect.c - calls that need no lease: read, check, break, get and list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "holdfast/v1/resource.pb-c.h"

enum { PAGE_REPLY_BYTES = 6 << 20, VALUE_REPLY_BYTES = HF_VALUE_MAX + 4096 };

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

static hf_result ok(hf_error *error)
{
    return hfi_error_set(error, HF_OK, "", "%s", "");
}

hf_result hf_read(hf_client *client, const char *resource, hf_value *value, hf_error *error)
{
    Holdfast__V1__ReadRequest request = HOLDFAST__V1__READ_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_READ,
                            .request = &request.base,
                            .response_type = &holdfast__v1__read_response__descriptor,
                            .retry = HFI_RETRY_READ,
                            .reply_max = VALUE_REPLY_BYTES};
    const Holdfast__V1__ReadResponse *response;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    request.namespace_ = client->name_space;
    request.resource = mutable(resource);
    result = hfi_call(client, &call);
    response = (const Holdfast__V1__ReadResponse *)call.response;
    hfi_error_from_call(error, result, &call);
    if (result == HF_OK) {
        char *data = response->exists ? malloc(response->value.len + 1) : NULL;
        if (response->exists && !data) {
            result = hfi_error_no_memory(error);
            goto out;
        }
        memset(value, 0, sizeof(*value));
        value->exists = response->exists;
        if (data) {
            if (response->value.len)
                memcpy(data, response->value.data, response->value.len);
            data[response->value.len] = '\0';
            value->data = data;
            value->len = response->value.len;
        }
        value->version = response->version;
        value->fence = response->fence;
        value->token = response->token;
        value->updated_unix_ms = response->updated_unix_ms;
    }
out:
    hfi_call_release(&call);
    return result;
}

void hf_value_release(hf_value *value)
{
    if (!value)
        return;
    free(value->data);
    memset(value, 0, sizeof(*value));
}

static void read_verdict(const Holdfast__V1__CheckResult *from, hf_check_item *item)
{
    item->verdict = HF_VERDICT_NONE;
    item->remaining_ms = item->fence = 0;
    switch (from->outcome_case) {
    case HOLDFAST__V1__CHECK_RESULT__OUTCOME_CURRENT:
        item->verdict = HF_VERDICT_CURRENT;
        item->remaining_ms = from->current->remaining_ms;
        break;
    case HOLDFAST__V1__CHECK_RESULT__OUTCOME_STALE:
        item->verdict = HF_VERDICT_STALE;
        item->fence = from->stale->fence;
        break;
    case HOLDFAST__V1__CHECK_RESULT__OUTCOME_NOT_HELD:
        item->verdict = HF_VERDICT_NOT_HELD;
        item->fence = from->not_held->fence;
        break;
    default:
        break;
    }
}

hf_result hf_check(hf_client *client, hf_check_item *items, size_t n_items, hf_error *error)
{
    Holdfast__V1__CheckRequest request = HOLDFAST__V1__CHECK_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_CHECK,
                            .request = &request.base,
                            .response_type = &holdfast__v1__check_response__descriptor,
                            .retry = HFI_RETRY_READ,
                            .reply_max = 64 + n_items * 48};
    Holdfast__V1__LeaseItem *wire;
    Holdfast__V1__LeaseItem **pointers;
    const Holdfast__V1__CheckResponse *response;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    if (n_items < 1 || n_items > HF_ITEMS_MAX)
        return hfi_error_set(error, HF_INVALID, "LIMIT", "n_items is %zu; it must be 1 to %d", n_items, (int)HF_ITEMS_MAX);
    wire = calloc(n_items, sizeof(*wire));
    pointers = calloc(n_items, sizeof(Holdfast__V1__LeaseItem *));
    if (!wire || !pointers) {
        result = hfi_error_no_memory(error);
        goto out;
    }
    for (size_t i = 0; i < n_items; i++) {
        holdfast__v1__lease_item__init(&wire[i]);
        wire[i].resource = mutable(items[i].resource);
        wire[i].token = items[i].token;
        pointers[i] = &wire[i];
    }
    request.namespace_ = client->name_space;
    request.n_items = n_items;
    request.items = pointers;
    result = hfi_call(client, &call);
    response = (const Holdfast__V1__CheckResponse *)call.response;
    hfi_error_from_call(error, result, &call);
    if (result == HF_OK && response->n_items != n_items)
        result = hfi_error_set(error, HF_FAILED, "INTERNAL", "the server answered %zu items of %zu", response->n_items, n_items);
    for (size_t i = 0; result == HF_OK && i < n_items; i++)
        read_verdict(response->items[i], &items[i]);
out:
    hfi_call_release(&call);
    free(wire);
    free(pointers);
    return result;
}

static bool read_break(const Holdfast__V1__BreakResponse *response, hf_break_result *out)
{
    memset(out, 0, sizeof(*out));
    switch (response->outcome_case) {
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BROKEN:
        out->outcome = HF_BREAK_DONE;
        out->fence = response->broken->fence;
        return true;
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_CHANGED:
        out->outcome = HF_BREAK_CHANGED;
        out->fence = response->changed->token;
        out->live = response->changed->live;
        return true;
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BLOCKED:
        out->outcome = HF_BREAK_BLOCKED;
        out->pid = response->blocked->pid;
        return true;
    default:
        return false;
    }
}

hf_result hf_break(hf_client *client, const char *resource, int64_t token_seen, const char *actor, const char *reason,
                   hf_break_result *out, hf_error *error)
{
    Holdfast__V1__BreakRequest request = HOLDFAST__V1__BREAK_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_BREAK,
                            .request = &request.base,
                            .response_type = &holdfast__v1__break_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    hf_break_result ignored;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    request.namespace_ = client->name_space;
    request.resource = mutable(resource);
    request.token_seen = token_seen;
    request.actor = mutable(actor ? actor : client->holder);
    request.reason = mutable(reason);
    result = hfi_call(client, &call);
    hfi_error_from_call(error, result, &call);
    if (result == HF_OK && !read_break((const Holdfast__V1__BreakResponse *)call.response, out ? out : &ignored))
        result = hfi_error_set(error, HF_FAILED, "INTERNAL", "the server's answer has no known outcome");
    hfi_call_release(&call);
    return result;
}

/* ---- pages ---- */

struct page {
    hf_page page;         /* first */
    struct hfi_call call; /* owns what the page points to */
};

static struct page *page_new(const char *method, const ProtobufCMessageDescriptor *type)
{
    struct page *page = calloc(1, sizeof(*page));

    if (page) {
        page->call.method = method;
        page->call.response_type = type;
        page->call.retry = HFI_RETRY_READ;
        page->call.reply_max = PAGE_REPLY_BYTES;
    }
    return page;
}

static hf_result page_fetch(hf_client *client, struct page *page, const ProtobufCMessage *request)
{
    hf_result result;

    page->call.request = request;
    result = hfi_call(client, &page->call);
    page->call.request = NULL;
    return result;
}

void hf_page_free(hf_page *page)
{
    struct page *own = (struct page *)page;

    if (!own)
        return;
    hfi_call_release(&own->call);
    free(own);
}

static bool fill_lease(struct page *page, const Holdfast__V1__Lease *from, hf_lease_info *to)
{
    hf_label *labels = hp_alloc_array(page->call.arena, from->n_labels, sizeof(*labels));

    if (from->n_labels && !labels)
        return false;
    for (size_t i = 0; i < from->n_labels; i++) {
        labels[i].name = from->labels[i]->key;
        labels[i].value = from->labels[i]->value;
    }
    to->resource = from->resource;
    to->task = from->task;
    to->holder = from->holder;
    to->request_id = from->request_id;
    to->token = from->token;
    to->fence = from->fence;
    to->state = (hf_lease_state)from->state;
    to->remaining_ms = from->remaining_ms;
    to->granted_unix_ms = from->granted_unix_ms;
    to->labels = labels;
    to->n_labels = from->n_labels;
    return true;
}

static bool fill_leases(struct page *page, Holdfast__V1__Lease *const *leases, size_t n)
{
    hf_lease_info *infos = hp_alloc_array(page->call.arena, n ? n : 1, sizeof(*infos));

    if (!infos)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!fill_lease(page, leases[i], &infos[i]))
            return false;
    }
    page->page.leases = infos;
    page->page.n = n;
    return true;
}

static bool fill_resources(struct page *page, const Holdfast__V1__ListResourcesResponse *response)
{
    hf_resource_info *infos = hp_alloc_array(page->call.arena, response->n_resources ? response->n_resources : 1, sizeof(*infos));

    if (!infos)
        return false;
    for (size_t i = 0; i < response->n_resources; i++) {
        const Holdfast__V1__Resource *from = response->resources[i];
        infos[i] = (hf_resource_info){.resource = from->resource,
                                      .fence = from->fence,
                                      .version = from->version,
                                      .value_bytes = from->value_bytes,
                                      .exists = from->exists,
                                      .leased = from->leased};
    }
    page->page.resources = infos;
    page->page.n = response->n_resources;
    return true;
}

/* The end of each of them: the page is the caller's, or gone. */
static hf_result give_page(struct page *page, hf_result result, bool filled, const char *next, hf_page **out, hf_error *error)
{
    if (result == HF_OK && filled) {
        page->page.next_page_token = next && next[0] ? next : NULL;
        *out = &page->page;
        return ok(error);
    }
    if (result == HF_OK)
        result = hfi_error_no_memory(error);
    else
        hfi_error_from_call(error, result, &page->call);
    hf_page_free(&page->page);
    return result;
}

hf_result hf_get_lease(hf_client *client, const char *resource, hf_page **out, hf_error *error)
{
    Holdfast__V1__GetLeaseRequest request = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    struct page *page;
    bool filled = false;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    page = page_new(HFI_GET_LEASE, &holdfast__v1__get_lease_response__descriptor);
    if (!page)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.resource = mutable(resource);
    result = page_fetch(client, page, &request.base);
    if (result == HF_OK) {
        const Holdfast__V1__GetLeaseResponse *response = (const Holdfast__V1__GetLeaseResponse *)page->call.response;
        filled = fill_leases(page, &response->lease, response->lease ? 1 : 0);
    }
    return give_page(page, result, filled, NULL, out, error);
}

hf_result hf_list_leases(hf_client *client, const hf_list_options *options, hf_page **out, hf_error *error)
{
    static const hf_list_options all;
    const hf_list_options *o = options ? options : &all;
    Holdfast__V1__ListLeasesRequest request = HOLDFAST__V1__LIST_LEASES_REQUEST__INIT;
    const char *next = NULL;
    struct page *page;
    bool filled = false;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    page = page_new(HFI_LIST_LEASES, &holdfast__v1__list_leases_response__descriptor);
    if (!page)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.prefix = mutable(o->prefix);
    request.task = mutable(o->task);
    request.holder = mutable(o->holder);
    request.page_size = o->page_size;
    request.page_token = mutable(o->page_token);
    result = page_fetch(client, page, &request.base);
    if (result == HF_OK) {
        const Holdfast__V1__ListLeasesResponse *response = (const Holdfast__V1__ListLeasesResponse *)page->call.response;
        filled = fill_leases(page, response->leases, response->n_leases);
        next = response->next_page_token;
    }
    return give_page(page, result, filled, next, out, error);
}

hf_result hf_list_resources(hf_client *client, const hf_list_options *options, hf_page **out, hf_error *error)
{
    static const hf_list_options all;
    const hf_list_options *o = options ? options : &all;
    Holdfast__V1__ListResourcesRequest request = HOLDFAST__V1__LIST_RESOURCES_REQUEST__INIT;
    const char *next = NULL;
    struct page *page;
    bool filled = false;
    hf_result result;

    if (!hfi_same_process(client))
        return hfi_error_misuse(error);
    page = page_new(HFI_LIST_RESOURCES, &holdfast__v1__list_resources_response__descriptor);
    if (!page)
        return hfi_error_no_memory(error);
    request.namespace_ = client->name_space;
    request.prefix = mutable(o->prefix);
    request.page_size = o->page_size;
    request.page_token = mutable(o->page_token);
    result = page_fetch(client, page, &request.base);
    if (result == HF_OK) {
        const Holdfast__V1__ListResourcesResponse *response = (const Holdfast__V1__ListResourcesResponse *)page->call.response;
        filled = fill_resources(page, response);
        next = response->next_page_token;
    }
    return give_page(page, result, filled, next, out, error);
}
