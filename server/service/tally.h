/*
 * tally.h - what becomes of items, counted for Stats, since the server started. For the .c files of this room.
 *
 * Bounded, whatever callers send: SQLSTATEs that don't fit are not counted, and of resources and keys those found busy or held most
 * often are kept by the space-saving algorithm (Metwally, Agrawal, El Abbadi, 2005): a newcomer takes the place of the one with
 * the lowest count. What is told of one is what was counted since it was last taken in, and so never too high.
 */
#ifndef HOLDFAST_SERVICE_TALLY_H
#define HOLDFAST_SERVICE_TALLY_H

#include "holdfast/v1/admin.pb-c.h"
#include "service/call.h"

/* NULL: no memory. */
struct svc_tally *svc_tally_new(void);
/* NULL is allowed. */
void svc_tally_free(struct svc_tally *tally);

/* An item is done: its outcome is counted. */
void svc_tally_item(struct svc *svc, const struct st_item *item);

/* What this server has answered about operations, and contention. False: no memory. */
bool svc_tally_operations(struct svc_call *sc, Holdfast__V1__OperationStats *out);
bool svc_tally_contention(struct svc_call *sc, Holdfast__V1__StatsResponse *out);

#endif
