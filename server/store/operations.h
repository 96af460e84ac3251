/*
 * operations.h - what the items of operations, of their policies and of actions carry: part of store.h, where the rules for items
 * are. The numbers of states, triggers, error classes and outcomes are those of proto/holdfast/v1/operation.proto.
 *
 * An item's `resource` is the operation's key for all that concern one operation; otherwise NULL. Items of operations meet no
 * leases' items: what waits is queued by kind, and only within a kind each key goes once into a batch.
 *
 * All of them may be sent again after a connection that broke in flight: a begin is known by its request_id, the others by what
 * they left in the record.
 */
#ifndef HOLDFAST_STORE_OPERATIONS_H
#define HOLDFAST_STORE_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/bytes.h"

enum st_op_state {
    ST_OP_PENDING = 1,
    ST_OP_RUNNING = 2,
    ST_OP_SUCCEEDED = 3,
    ST_OP_FAILED = 4,
    ST_OP_IS_UNKNOWN = 5,
    ST_OP_IN_REVIEW = 6,
    ST_OP_CANCELLED = 7
};

/* What ends an attempt. */
enum st_op_call { ST_OP_COMPLETE = 1, ST_OP_FAIL = 2, ST_OP_MARK_UNKNOWN = 3 };

/* What a person decides. */
enum st_op_decision { ST_OP_RETRY = 1, ST_OP_CANCEL = 2, ST_OP_RECONCILE = 3 };

/* Written in the transaction of what it tells of. */
struct st_event {
    const char *aggregate_type, *aggregate_id, *type;
    struct st_bytes payload; /* data NULL is as good as empty */
};

struct st_events {
    const struct st_event *list;
    size_t n;
};

/* ------------------------------------------------------------------------------------------------ what is asked */

struct st_op_begin {
    const char *type;
    struct st_bytes fingerprint;
    const char *holder, *request_id; /* request_id is never empty */
    int64_t ttl_ms;
    int trigger;
};

struct st_op_finish {
    enum st_op_call call;
    int64_t token;
    struct st_bytes result; /* ST_OP_COMPLETE */
    const char *result_ref; /* "" and NULL: none */
    int error_class;        /* ST_OP_FAIL */
    const char *message;    /* ST_OP_FAIL; ST_OP_MARK_UNKNOWN: the note */
    const char *sqlstate;
    int64_t retry_after_ms;
    struct st_events events; /* ST_OP_COMPLETE */
};

struct st_op_record {
    const char *type;
    struct st_bytes fingerprint, result;
    const char *result_ref;
    struct st_events events;
};

struct st_op_execute {
    const char *type;
    struct st_bytes fingerprint;
    const char *action, *args; /* args: JSON; NULL or "" = {} */
    const char *resource;      /* NULL or "" = none */
    int64_t token;
    bool expects;
    int64_t expected_version;
    const char *holder;
    struct st_events events;
};

struct st_op_list {
    int state; /* 0 = any */
    const char *type, *prefix;
    int64_t older_than_ms;
    const char *after; /* keys behind this one; "" = from the start */
    int64_t max;
};

struct st_op_decide {
    enum st_op_decision decision;
    int64_t revision; /* as it was seen */
    int reconciled;   /* ReconcileRequest.Outcome */
    struct st_bytes result;
    const char *result_ref, *actor, *reason;
};

struct st_op_compensate {
    const char *type;
    struct st_bytes payload;
    const char *actor, *reason;
};

/* Of a type of operations. In requests ST_UNSET = not given, on_lost 0 = not given. */
struct st_op_policy {
    int64_t max_attempts, max_elapsed_ms, base_ms, cap_ms, retention_ms;
    int on_lost;
};

struct st_op_policies {
    const char *type; /* ST_SET_OP_POLICY; "" = of the types that have none of their own */
    struct st_op_policy policy;
    const char *actor;
    const char *after; /* ST_LIST_OP_POLICIES: types behind this one; NULL = from the start, for "" is a type */
    int64_t max;
};

struct st_actions {
    const char *name, *function; /* ST_REGISTER_ACTION; ST_REMOVE_ACTION: the name */
    int64_t timeout_ms;
    const char *actor;
    const char *after; /* ST_LIST_ACTIONS: names behind this one; "" = from the start */
    int64_t max;
};

/* ------------------------------------------------------------------------------------------------ what is answered */

/* Of ST_OP_BEGIN, ST_OP_RECORD, ST_OP_EXECUTE; what an outcome doesn't have is 0, "" or no bytes. */
struct st_op_told {
    int64_t attempt;
    int64_t token, ttl_ms;    /* begun */
    const char *execution_id; /* begun */
    int trigger;              /* begun: as it was found */
    int state;                /* ST_OP_IN_PROGRESS: RUNNING, or PENDING and not due */
    const char *holder;       /* in progress */
    int64_t remaining_ms;     /* in progress: of the lease, or until it is due */
    struct st_bytes result;   /* ended, or done now by ST_OP_EXECUTE */
    const char *result_ref;
    int64_t ended_unix_ms; /* ended; since when it is UNKNOWN, in REVIEW */
    int error_class;
    const char *message;
    const char *sqlstate;   /* also of an action that raised */
    int64_t fence, version; /* ST_OP_EXECUTE: of the resource, if it stood in the way */
};

/* Of ST_OP_SENDING, ST_OP_FINISH, ST_OP_DECIDE, ST_OP_COMPENSATE. */
struct st_op_moved {
    int state;
    int64_t revision;
    int64_t remaining_ms; /* ST_OP_SENDING: of the lease */
    int64_t due_ms;       /* ST_OP_FINISH: until it is due */
    int64_t attempts;
    bool exhausted, succeeded_after_retry; /* ST_OP_FINISH */
    const char *message;                   /* ST_OP_DECIDE */
    const char *key;                       /* ST_OP_COMPENSATE: of the compensation; also its fingerprint */
    struct st_bytes fingerprint;
};

struct st_op_row {
    const char *key, *type, *holder, *result_ref, *message, *sqlstate, *compensates, *compensated_by;
    struct st_bytes fingerprint, result, payload; /* lists: without result, result_ref and payload */
    int state, error_class;
    bool sending;
    int64_t revision, attempts, token, remaining_ms, created_unix_ms, changed_unix_ms, priority;
};

struct st_attempt_row {
    int64_t attempt, token, started_unix_ms, ended_unix_ms, sending_unix_ms, late_unix_ms, late_count;
    int trigger, outcome, error_class;
    const char *execution_id, *holder, *message, *sqlstate, *late_call, *late_message;
    struct st_bytes late_result;
};

struct st_op_policy_row {
    const char *type;
    struct st_op_policy policy;
};

struct st_action_row {
    const char *name, *function, *role;
    int64_t timeout_ms;
};

/* How many operations are in a state, and for how long the oldest. */
struct st_op_state_row {
    const char *state; /* running, sending, unknown, review, pending, due, compensating */
    int64_t count, oldest_ms;
};

struct st_op_rows {
    const struct st_op_row *rows; /* ST_OP_GET: one */
    size_t n;
    bool more;
};

struct st_attempts_told {
    const struct st_attempt_row *rows;
    size_t n;
    bool more;
};

struct st_op_policies_told {
    const struct st_op_policy_row *rows; /* ST_SET_OP_POLICY: one */
    size_t n;
    bool more;
    int64_t needed_ms; /* ST_OP_RETENTION: what retention_ms must be at least */
};

struct st_actions_told {
    const struct st_action_row *rows; /* ST_REGISTER_ACTION: one */
    size_t n;
    bool more;
    const char *message; /* ST_OP_BAD_ACTION: why */
};

struct st_op_states_told {
    const struct st_op_state_row *rows;
    size_t n;
};

#endif
