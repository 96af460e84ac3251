/*
 * demo_operations.h - the inside of `holdfast demo operations`: experiments with many calls at once, and what they share.
 *
 * demo_operations.c runs the experiments and prints what was expected and what was measured; demo_experiments.c has them. One
 * thread: calls in flight are client/lib/async.h's.
 */
#ifndef HOLDFAST_CLI_DEMO_OPERATIONS_H
#define HOLDFAST_CLI_DEMO_OPERATIONS_H

#include "client/cli/ops.h"
#include "client/lib/async.h"

enum { DEMO_SLOTS = 400, DEMO_NAME = 96 };

struct demo_ops {
    struct cli *cli;
    struct hfi_async *async;
    char id[24];            /* of this run: keys are demo/ID/…, types demo/ID/… */
    struct hp_status error; /* of the first call that failed though it should not have */
    bool unreachable;
    char expected[160], measured[320];
};

struct demo_experiment {
    const char *title;
    /* True: it went on to its end, with `expected` and `measured` filled in and `*good` saying whether they agree. False: a call
     * failed, and `error` tells why. */
    bool (*run)(struct demo_ops *demo, bool *good);
};

extern const struct demo_experiment demo_experiments[]; /* ended by a NULL title */

/* One request of many; the types of all of them are the same. */
union demo_request {
    ProtobufCMessage base;
    Holdfast__V1__BeginRequest begin;
    Holdfast__V1__CompleteRequest complete;
    Holdfast__V1__FailRequest fail;
    Holdfast__V1__RecordRequest record;
    Holdfast__V1__GetOperationRequest get;
    Holdfast__V1__MarkSendingRequest sending;
    Holdfast__V1__RetryRequest retry;
    Holdfast__V1__ReconcileRequest reconcile;
    Holdfast__V1__CompensateRequest compensate;
};

/* demo_operations.c: a request about this key, its texts in `names`, which has to live as long. */
struct demo_names {
    char key[DEMO_NAME], type[DEMO_NAME], request_id[DEMO_NAME];
    uint8_t fingerprint[32];
};
void demo_begin(const struct demo_ops *demo, Holdfast__V1__BeginRequest *request, struct demo_names *names, const char *experiment,
                size_t key, uint8_t parameters, const char *holder);
/* Starts the call; its answer comes from demo_next. False: no memory. */
bool demo_start(struct demo_ops *demo, struct hfi_async_call *call, const char *method, const ProtobufCMessageDescriptor *response,
                const ProtobufCMessage *request, int64_t wait_ms) __attribute__((warn_unused_result));
/* One call from its start to its answer; NULL: it failed, and its reason is `*refused` if that is given, else demo->error's. */
const void *demo_call(struct demo_ops *demo, const char *method, const ProtobufCMessageDescriptor *response,
                      const ProtobufCMessage *request, enum hp_reason *refused);
/* The call failed: false, the error being noted. */
bool demo_failed(struct demo_ops *demo, const struct hfi_async_call *call);
/* The policies of the experiment's type. */
bool demo_policy(struct demo_ops *demo, const char *experiment, bool retry_lost);
void demo_sleep(int64_t ms);

#endif
