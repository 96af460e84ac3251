/*
 * mux.h - packing: calls that are ready together travel in one envelope.
 *
 * While one envelope is in flight the next one fills; when its answer comes, all that is queued goes out, so that nothing is ever
 * delayed on purpose. An envelope that has been out for HFI_STALL_MS holds nobody up any more (one slow call must not delay its
 * neighbours), and calls that may wait at the server, and renewals, travel alone and at once. An envelope holds at most 1000 calls
 * and 4 MiB, and no more than whose answers are likely to fit into one of 16 MiB.
 *
 * Dead or slow: a call that waits at the server says nothing for an hour, and so does a server that was stopped. Whoever waits for
 * a try asks hfi_mux_watch when to look after its endpoint: after some silence a small call goes there; if nothing at all comes
 * back in time, the endpoint is bad, and the tries there that may be repeated end with NO_ANSWER, to be repeated elsewhere.
 *
 * Lock: all functions are called with the client's mutex held. The transport is called with it released. A try's `done` is called
 * with it held: it may only note and signal.
 */
#ifndef HOLDFAST_CLIENT_MUX_H
#define HOLDFAST_CLIENT_MUX_H

#include "client/lib/endpoints.h"
#include "client/lib/ports.h"
#include "proto/c/err.h"

enum { HFI_STALL_MS = 10, HFI_SEND_MS = 250, HFI_REPLY_MAX = 12 << 20 };
/* The silence after which an endpoint is asked whether it lives, from the sending of a try that should be answered by now and of
 * one that may wait; and how long it has to say anything. */
enum { HFI_QUIET_MS = 1000, HFI_QUIET_WAIT_MS = 4000, HFI_PING_MS = 1500 };

struct hfi_envelope;

enum hfi_try_state { HFI_TRY_IDLE, HFI_TRY_QUEUED, HFI_TRY_FLYING, HFI_TRY_DONE };

/* One sending of one call. Zero it and fill in the first part. IDLE -> QUEUED -> FLYING -> DONE; cancel leads back to IDLE. */
struct hfi_try {
    const char *method;
    const void *payload; /* the caller's, until the try is done or cancelled */
    size_t payload_len;
    int64_t timeout_ms; /* for the answer, from now */
    size_t reply_max;   /* 0 = 4 KiB */
    bool alone;
    bool pinned;      /* goes to `endpoint`, wherever the others go */
    bool repeatable;  /* is ended as NO_ANSWER if its endpoint turns out to be dead */
    int64_t quiet_ms; /* the silence that is nothing unusual; 0 = HFI_QUIET_MS */
    void (*done)(struct hfi_try *self);
    /* Asked at the moment of sending, with the lock held; false: it is done as `refused`. May be NULL. */
    bool (*may_send)(struct hfi_try *self);
    void *arg;

    enum hfi_fate fate;      /* if done */
    bool refused;            /* may_send said no; the fate is NOT_SENT */
    struct hp_status status; /* if ANSWERED */
    void *reply;             /* if ANSWERED with OK: malloc'd, the caller's to free */
    size_t reply_len;
    int64_t sent_ms;   /* taken before it was handed to the transport; 0 = it never was */
    unsigned endpoint; /* to which; in, if pinned */

    enum hfi_try_state state;
    struct hfi_try *next;
    struct hfi_envelope *envelope;
    size_t slot;
    int64_t queued_ms;
};

struct hfi_mux {
    pthread_mutex_t *mutex;
    struct hfi_clock *clock;
    struct hfi_transport *transport;
    struct hfi_try *first, **last; /* queued */
    struct hfi_envelope *flying;   /* those that hold others up while they are fresh */
    struct hfi_envelope *lone;     /* the others */
    struct hfi_endpoints endpoints;
    struct hfi_try *pings[HFI_ENDPOINTS_MAX]; /* in flight, or not looked at yet; NULL = none */
    /* The small call: cheap for the server, and any answer will do, also that of one which doesn't know it. NULL = none is made. */
    const char *ping_method;
    const void *ping_payload;
    size_t ping_len;
    const char *authorization; /* goes with each call as metadata of that name; NULL = none */
    bool closed;
};

void hfi_mux_init(struct hfi_mux *mux, pthread_mutex_t *mutex, struct hfi_clock *clock, struct hfi_transport *transport);
/* `done` will be called, once, perhaps before this returns. */
void hfi_mux_submit(struct hfi_mux *mux, struct hfi_try *self);
/* The same for one that doesn't travel alone, but nothing is sent before hfi_mux_flush: so that a thread which has several calls
 * ready lets them travel together. */
void hfi_mux_queue(struct hfi_mux *mux, struct hfi_try *self);
/* `done` will not be called; nothing refers to the try any more. If it was FLYING its fate is NO_ANSWER, if QUEUED NOT_SENT. */
void hfi_mux_cancel(struct hfi_mux *mux, struct hfi_try *self);
/* Sends what is queued, if nothing fresh is in flight. */
void hfi_mux_flush(struct hfi_mux *mux);
/* When hfi_mux_flush should be called for what is queued; HFI_NEVER if nothing is. */
int64_t hfi_mux_flush_at(struct hfi_mux *mux);
/* That endpoint did not serve well: it is bad for a while. */
void hfi_mux_failed(struct hfi_mux *mux, unsigned endpoint);
/* Looks after the endpoint of a try in flight, which may be done by it; returns when to look again (HFI_NEVER: it is done). */
int64_t hfi_mux_watch(struct hfi_mux *mux, struct hfi_try *self);
/* Nothing is left of it. After the transport was stopped. */
void hfi_mux_release(struct hfi_mux *mux);

#endif
