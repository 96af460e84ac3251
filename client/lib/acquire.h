/*
 * acquire.h - asking for leases until the answer is final; shared by hf_acquire, hf_operation_begin and the command-line client.
 */
#ifndef HOLDFAST_CLIENT_ACQUIRE_H
#define HOLDFAST_CLIENT_ACQUIRE_H

#include "client/lib/wait.h"
#include "holdfast/v1/lease.pb-c.h"

/*
 * On HF_OK `call->response` is an AcquireResponse, and it is final: `granted`, `ended`, or `held` when the wait is over or was
 * given up. Otherwise as hfi_call. Release the call in any case.
 *
 * `wait` (NULL = try once) has been begun, its `arg` is the request, its set_left hfi_acquire_set_left. The server does the
 * waiting: one call, repeated with the same request_id for the time that remains when its answer is lost. A server that ends the
 * wait early (it drains, say) is asked again after a pause. Several resources, and a server that cannot wait yet, are asked again
 * and again, with pauses made here. Blocks.
 *
 * `own_id` (NULL = it is the user's) is where the request_id stands, if we made it up. Then `ended` is not final at first: it means
 * that a grant was made whose answer we never got, and that is over (a server gives a grant back that it cannot hand over, because
 * the connection broke, say). Under a new id it is a new acquire, which is what was asked for.
 */
hf_result hfi_acquire(struct hf_client *client, Holdfast__V1__AcquireRequest *request, char *own_id, struct hfi_wait *wait,
                      struct hfi_call *call) __attribute__((warn_unused_result));
void hfi_acquire_set_left(struct hfi_wait *wait, int64_t left_ms);

enum { HFI_WAIT_OVER_MS = 20 }; /* when so little is left of a wait, asking again isn't worth it */
/* Waits before asking again: not longer than the lease in the way has left, nor than the caller wants. False: given up. */
bool hfi_acquire_pause(struct hf_client *client, struct hfi_wait *wait, int64_t remaining_ms);

/*
 * The answer to `call` granted what the lease stands for, whose names and tokens it has: `left_ms` of the `ttl_ms` that were asked
 * for, after `waited_ms`. On HF_OK it is the client's from now on, renewed and watched. HF_LOST: it may be over already. May block
 * for a renewal, when the answer belongs to a repeat and may be older than it seems.
 */
hf_result hfi_grant(struct hf_lease *lease, int64_t ttl_ms, const struct hfi_call *call, int64_t waited_ms, int64_t left_ms,
                    hf_error *error) __attribute__((warn_unused_result));

#endif
