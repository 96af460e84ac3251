/*
 * operation.h - what is told of an operation, for the operation*.c files: one view of it, however it was learnt, and the answers
 * and errors made of that.
 */
#ifndef HOLDFAST_SERVICE_OPERATION_H
#define HOLDFAST_SERVICE_OPERATION_H

#include "holdfast/v1/operation.pb-c.h"
#include "service/call.h"

/* What a Begin carries besides its request; its call's `state`. */
struct svc_begin {
    struct st_bytes fingerprint;
    const char *request_id;
};

/* An operation as it is. It borrows. */
struct svc_op_view {
    int state; /* of core/moves.h */
    int64_t attempt;
    const char *holder;   /* RUNNING */
    int64_t remaining_ms; /* RUNNING, PENDING */
    struct st_bytes result;
    const char *result_ref;
    int64_t since_ms; /* Unix time at which it came into this state */
    int error_class;
    const char *message;
};

/* By the outcome of a begin, a record or an execution. False: it was none of ST_OP_REPLAYED … ST_OP_REVIEW. */
bool svc_op_view_of_item(const struct st_item *item, struct svc_op_view *view);
void svc_op_view_of_row(const struct st_op_row *row, struct svc_op_view *view);

/* Replayed, in progress, unknown or in review: the answer of a Begin; ends the call. */
void svc_op_answer_begin(struct svc_call *sc, const struct svc_op_view *view);
/* The attempt that `item` started, whose statement ran at asked_ms or later; ends the call. */
void svc_op_answer_started(struct svc_call *sc, const struct st_item *item, int64_t asked_ms);
/* `sent` for a Begin's item that is submitted now. */
void svc_op_fill_begin(struct svc_call *sc, struct st_item *item);

void svc_op_fill_replayed(const struct svc_op_view *view, Holdfast__V1__BeginResponse__Replayed *out);
void svc_op_fill_in_progress(const struct svc_op_view *view, Holdfast__V1__BeginResponse__InProgress *out);

/* PARAMETER_CONFLICT: nothing of what is stored is told (P4). */
void svc_op_conflict(const char *key, struct hp_status *status);
void svc_op_none(const char *key, struct hp_status *status);
/* ILLEGAL_STATE with metadata `state`; OUTCOME_UNKNOWN and IN_REVIEW if it is in one of these. */
void svc_op_illegal(const char *key, int state, struct hp_status *status);
/* The errors that outcomes of an item of one operation stand for. False: it stands for none. */
bool svc_op_refused(const struct st_item *item, struct hp_status *status);
/* Ends the call if its only item failed, or was refused. */
bool svc_op_failed(struct svc_call *sc);

/* The call's only item, of this kind; the key was checked. NULL: the call has ended. */
struct st_item *svc_op_item(struct svc_call *sc, enum st_kind kind, const char *ns, const char *key);

/* The row as a message in the arena that borrows the row's strings and bytes. NULL: no memory. */
Holdfast__V1__Operation *svc_op_message(struct hp_arena *arena, const struct st_op_row *row);

/* Packed only. */
static inline char *svc_unconst(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

static inline ProtobufCBinaryData svc_binary(struct st_bytes bytes)
{
    return (ProtobufCBinaryData){.len = bytes.data ? bytes.len : 0, .data = (uint8_t *)(uintptr_t)bytes.data};
}

#endif
