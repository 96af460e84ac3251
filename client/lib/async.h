/*
 * async.h - many calls in flight from one thread.
 *
 * hfi_call needs a thread for each call in flight, and each answer wakes one. Here one thread starts calls and takes them back as
 * they are done; what it has started since it last asked goes out together, and the answers of an envelope wake it once. For
 * programs of our own that drive a server hard (the bench); no leases are kept.
 *
 * A call is tried again, within its time, only if no try can have had an effect: it is never repeated once its outcome is not
 * known. All functions are called by the one thread that made the `struct hfi_async`.
 */
#ifndef HOLDFAST_CLIENT_ASYNC_H
#define HOLDFAST_CLIENT_ASYNC_H

#include "client/lib/call.h"
#include "client/lib/mux.h"

struct hfi_async;

struct hfi_async_call {
    /* in */
    const char *method;
    const ProtobufCMessageDescriptor *response_type;
    int64_t timeout_ms; /* all tries together; 0 = the client's */
    int64_t wait_ms;    /* how long the server may wait besides; > 0: it travels alone */
    size_t reply_max;   /* as hfi_call's */
    void *arg;          /* the caller's */

    /* out, until it is started again */
    hf_result result;
    struct hp_status status;
    const ProtobufCMessage *response; /* NULL unless HF_OK */
    bool unreachable;                 /* HF_UNAVAILABLE because no server could be reached */

    /* inside */
    struct hfi_async *owner;
    struct hfi_async_call *next; /* in one of the lists */
    struct hfi_try try;
    bool open;
    unsigned retries;
    int64_t deadline_ms, again_ms;
    uint8_t *payload;
    size_t payload_cap;
    struct hp_arena *arena;
};

/* Room for `n` calls. NULL: no memory. The client must outlive it. */
struct hfi_async *hfi_async_new(struct hf_client *client, size_t n);
/* Calls in flight are given up: whether they have an effect is not known. NULL is allowed. */
void hfi_async_free(struct hfi_async *async);

/* Call number i, to be filled in. */
struct hfi_async_call *hfi_async_call(struct hfi_async *async, size_t i);
/* It is under way, once hfi_async_next is called. `request` is taken in now. False: no memory. Not for one that is. */
bool hfi_async_start(struct hfi_async_call *call, const ProtobufCMessage *request) __attribute__((warn_unused_result));
/* Sends what was started. A call that is done, or NULL if none is by `until_ms` (hfi_boot_ms). */
struct hfi_async_call *hfi_async_next(struct hfi_async *async, int64_t until_ms);
/* Calls that were started and not given back. */
size_t hfi_async_open(const struct hfi_async *async);

#endif
