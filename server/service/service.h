/*
 * service.h - the services of holdfast.v1 behind one dispatch table, the same for every transport.
 *
 * A call is looked up, unpacked, checked wholly before anything is done, turned into items for the store, and answered
 * exactly once: when its items are done or when its caller's patience is about to end, whichever is first. Everything
 * runs on the loop's thread.
 */
#ifndef HOLDFAST_SERVICE_SERVICE_H
#define HOLDFAST_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/io.h"
#include "proto/c/call.h"
#include "store/store.h"

/* What a caller must at least be, on a server that requires keys (auth.h); the numbers of holdfast.v1.KeyGrant.Role. SVC_ANYONE
 * needs no key: what load balancers ask. */
enum svc_role { SVC_ANYONE, SVC_READER, SVC_WORKER, SVC_OPERATOR, SVC_ADMIN };

struct svc;
struct svc_call;

/* A row of the dispatch table. */
struct svc_method {
    struct hp_method rpc; /* what a transport has to know */
    enum svc_role role;
    /* Checks the request and submits its items, or answers at once. NULL: UNIMPLEMENTED / NOT_YET. */
    void (*handle)(struct svc_call *call);
};

/* The table, sorted by service and then as in the protos; for transports, reflection and tests. */
const struct svc_method *svc_methods(size_t *n);
/* The row of this path, or NULL. */
const struct svc_method *svc_method_find(const char *path);

struct svc_config {
    const char *version;                       /* for Stats; NULL = HOLDFAST_VERSION */
    void (*random)(void *buffer, size_t size); /* for request ids; NULL = the kernel's */
    size_t max_waiting;                        /* callers that wait at one time, in all namespaces; 0 = 20,000 */
    size_t max_watches;                        /* streams of LeaseService.Watch at one time; 0 = 4,000 */
    bool require_keys; /* each call needs a key or a certificate, and its role; otherwise everybody is admin */
};

/* NULL: no memory. `store` and `io` must outlive it; the strings of `cfg` (may be NULL) too. */
struct svc *svc_new(struct st_store *store, struct io *io, const struct svc_config *cfg) __attribute__((warn_unused_result));

/* The call will be answered exactly once, perhaps from within this function; it may be given from any transport. */
void svc_dispatch(struct svc *svc, struct hp_call *call);

/* Whether its caller is somebody, as far as is known now; `payload` is not looked at. It decides nothing but who is served first.
 */
bool svc_knows(const struct svc *svc, const struct hp_call *call);

/* From now on new calls answer UNAVAILABLE / DRAINING; those that wait end, those in flight go on. */
void svc_drain(struct svc *svc);

/* Whether it serves: it doesn't drain, and its database can be reached, or could some seconds ago. */
bool svc_serving(struct svc *svc);

/* Calls not answered yet, and answered ones whose items the store has not given back. */
size_t svc_in_flight(const struct svc *svc);

/* Whoever still waits is answered; the store, which has been closed, is not used any more. Requires that nothing else is in
 * flight: st_close comes first. NULL is allowed. */
void svc_free(struct svc *svc);

#endif
