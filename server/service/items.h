/*
 * items.h - what Renew, Release and Check have in common: many (resource, token), each with an outcome of its own.
 */
#ifndef HOLDFAST_SERVICE_ITEMS_H
#define HOLDFAST_SERVICE_ITEMS_H

#include "holdfast/v1/errors.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "service/call.h"

/* Items of this kind, one each in order, with key but without token. NULL: the call has ended, because of the namespace's
 * name, the items, or memory. */
struct st_item *svc_token_items(struct svc_call *sc, enum st_kind kind, const char *ns, Holdfast__V1__LeaseItem *const *items,
                                size_t n);

/* The call's results, for its response: `n` pointers to zeroed structs of `size` bytes, made in one piece. NULL: no memory
 * (the call has ended), or the call has ended because its namespace doesn't exist. */
void **svc_results(struct svc_call *sc, size_t size);

/* The item's error if it failed in a way that any item can, in the arena. False: it didn't fail. `*error` is never NULL
 * with true. */
bool svc_item_error(struct svc_call *sc, size_t i, Holdfast__V1__ItemError **error);

#endif
