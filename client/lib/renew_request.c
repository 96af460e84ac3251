/* renew_request.c - a renewal as a message: of leases, or of the leases of operations' attempts. The rest of renewing knows no
 * difference. */
#include <stdlib.h>

#include "client/lib/client.h"

const struct hfi_kind hfi_leases = {
    .word = "lease", .named = "resource", .renew = HFI_RENEW, .renewed = &holdfast__v1__renew_response__descriptor};
const struct hfi_kind hfi_operations = {.word = "operation",
                                        .named = "key",
                                        .renew = HFI_OPERATION "Renew",
                                        .renewed = &holdfast__v1__renew_operations_response__descriptor};

static void fill_leases(struct hfi_renew_request *request, struct hf_lease *const *leases, size_t n)
{
    Holdfast__V1__RenewRequest *message = &request->as.leases;
    Holdfast__V1__LeaseItem *items = request->items;
    size_t at = 0;

    holdfast__v1__renew_request__init(message);
    message->items = request->pointers;
    for (size_t i = 0; i < n; at += leases[i++]->n_items)
        hfi_lease_items(leases[i], items + at, message->items + at);
    message->n_items = at;
    message->namespace_ = leases[0]->client->name_space;
    message->ttl_ms = leases[0]->rule.ttl_ms;
}

/* Each has one item, its key. */
static void fill_operations(struct hfi_renew_request *request, struct hf_lease *const *leases, size_t n)
{
    Holdfast__V1__RenewOperationsRequest *message = &request->as.operations;
    Holdfast__V1__OperationItem *items = request->items;

    holdfast__v1__renew_operations_request__init(message);
    message->items = request->pointers;
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__operation_item__init(&items[i]);
        items[i].key = leases[i]->items[0].resource;
        items[i].token = leases[i]->items[0].token;
        message->items[i] = &items[i];
    }
    message->n_items = n;
    message->namespace_ = leases[0]->client->name_space;
    message->ttl_ms = leases[0]->rule.ttl_ms;
}

bool hfi_renew_request_init(struct hfi_renew_request *request, struct hf_lease *const *leases, size_t n)
{
    const bool operations = leases[0]->kind == &hfi_operations;
    size_t n_items = 0;

    for (size_t i = 0; i < n; i++)
        n_items += leases[i]->n_items;
    n_items += n_items == 0; /* there is always one, but who knows */
    request->pointers = calloc(n_items, sizeof(void *));
    request->items = calloc(n_items, operations ? sizeof(Holdfast__V1__OperationItem) : sizeof(Holdfast__V1__LeaseItem));
    if (!request->pointers || !request->items) {
        hfi_renew_request_release(request);
        return false;
    }
    if (operations)
        fill_operations(request, leases, n);
    else
        fill_leases(request, leases, n);
    return true;
}

void hfi_renew_request_release(struct hfi_renew_request *request)
{
    free(request->pointers);
    free(request->items);
    request->pointers = request->items = NULL;
}

Holdfast__V1__RenewResult *const *hfi_renew_results(const struct hfi_kind *kind, const ProtobufCMessage *response, size_t *n)
{
    if (kind == &hfi_operations) {
        const Holdfast__V1__RenewOperationsResponse *message = (const Holdfast__V1__RenewOperationsResponse *)response;
        *n = message->n_items;
        return message->items;
    }
    const Holdfast__V1__RenewResponse *message = (const Holdfast__V1__RenewResponse *)response;
    *n = message->n_items;
    return message->items;
}
