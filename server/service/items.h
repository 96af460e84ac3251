/*
 * items.h - what calls about one resource have in common (Get, Read); and those about many (resource, token) or (key, token),
 * each with an outcome of its own: both Renews, Release and Check.
 */
#ifndef HOLDFAST_SERVICE_ITEMS_H
#define HOLDFAST_SERVICE_ITEMS_H

#include "holdfast/v1/errors.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "service/call.h"

/* The call's only item, of this kind and key. NULL: the call has ended, because of a name, or memory. */
struct st_item *svc_one_item(struct svc_call *sc, enum st_kind kind, const char *ns, const char *resource);
/* The call is over: its only item tells that the resource was never leased. */
void svc_fail_no_resource(struct svc_call *sc);

/* Items of this kind, one each in order, with key but without token. NULL: the call has ended, because of the namespace's
 * name, the items, or memory. */
struct st_item *svc_token_items(struct svc_call *sc, enum st_kind kind, const char *ns, Holdfast__V1__LeaseItem *const *items,
                                size_t n);
/* The same of operations. */
struct st_item *svc_operation_items(struct svc_call *sc, enum st_kind kind, const char *ns,
                                    Holdfast__V1__OperationItem *const *items, size_t n);

/* The call's results, for its response: `n` pointers to zeroed structs of `size` bytes, made in one piece. NULL: no memory
 * (the call has ended), or the call has ended because its namespace doesn't exist. */
void **svc_results(struct svc_call *sc, size_t size);

/* What became of items that were to be renewed, of either kind: one result each. NULL: the call has ended. */
Holdfast__V1__RenewResult **svc_renew_results(struct svc_call *sc);

/* The item's error if it failed in a way that any item can, in the arena. False: it didn't fail. `*error` is never NULL
 * with true. */
bool svc_item_error(struct svc_call *sc, size_t i, Holdfast__V1__ItemError **error);

#endif
