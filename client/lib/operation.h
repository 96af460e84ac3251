/*
 * operation.h - the inside of hf_operation, and what the calls of operations share.
 *
 * An attempt is a lease of the kind hfi_operations, with the key in place of the resource: renewed, watched and lost as any other.
 * The handle belongs to its lease and goes with it; all that changes in it is the lease's.
 */
#ifndef HOLDFAST_CLIENT_OPERATION_H
#define HOLDFAST_CLIENT_OPERATION_H

#include <holdfast/operation.h>

#include "client/lib/client.h"
#include "holdfast/v1/operation.pb-c.h"

#define HFI_LOSS_ENDED "ENDED" /* by a call of its owner's; told nobody */

enum { HFI_OUTCOME_REPLY_MAX = HF_RESULT_MAX + 8192 };

struct hf_operation {
    struct hf_lease *lease; /* constant, like all here once it is handed out */
    int64_t attempt;
    hf_operation_loss_fn on_loss;
    void *on_loss_arg;
    char execution_id[HF_EXECUTION_ID_MAX + 1];
};

/* An outcome with the call whose answer it points into. */
struct hfi_outcome {
    hf_outcome outcome; /* first */
    struct hfi_call call;
};

/* operation.c */
char *hfi_mutable(const char *text); /* for messages, which are not const but only read; "" for NULL */
/* HF_INVALID with that field. */
hf_result hfi_error_field(hf_error *error, const char *field, const char *what);
/* The fingerprint that was given, or of the JSON that was given. */
hf_result hfi_parameters(const unsigned char *given, const char *json, size_t len, unsigned char fingerprint[HF_FINGERPRINT_SIZE],
                         hf_error *error) __attribute__((warn_unused_result));
/* Bytes of an answer, with a NUL behind, in the arena. False: no memory. */
bool hfi_take_bytes(struct hp_arena *arena, const ProtobufCBinaryData *from, const void **data, size_t *len);

struct hfi_events {
    size_t n;
    Holdfast__V1__Event *events, **pointers; /* for a request */
};
hf_result hfi_events_init(struct hfi_events *events, const hf_event *from, size_t n, hf_error *error)
    __attribute__((warn_unused_result));
void hfi_events_release(struct hfi_events *events);

/* NULL: no memory. Free with hf_outcome_free(&own->outcome). */
struct hfi_outcome *hfi_outcome_new(void);
/* What was answered; HF_OK, or HF_NO_MEMORY. */
hf_result hfi_outcome_replayed(struct hfi_outcome *own, hf_outcome_kind kind, const Holdfast__V1__BeginResponse__Replayed *from,
                               hf_error *error);
hf_result hfi_outcome_in_progress(struct hfi_outcome *own, const Holdfast__V1__BeginResponse__InProgress *from, hf_error *error);
/* The caller's, if the result is HF_OK; else gone. Returns the result. */
hf_result hfi_outcome_give(struct hfi_outcome *own, hf_result result, hf_outcome **outcome);

#endif
