/*
 * operation.h - hf_operation: a business action that takes effect once, under a key of the caller's.
 *
 * A key names one action for ever: "settlement/2026-11-30", "refund/8812". Whoever begins it with the same parameters gets the
 * same result, whether the first one succeeded a year ago or is still at it; with other parameters it is a conflict. So a request
 * that timed out, a schedule that fires twice, a retry and a person who presses the button again all end in one result.
 *
 *     hf_begin_options options = {.key = "settlement/2026-11-30", .type = "settlement",
 *                                 .parameters_json = "{\"day\":\"2026-11-30\"}"};
 *     if (hf_operation_begin(client, &options, &operation, &outcome, &error) != HF_OK) ...
 *     switch (outcome->kind) {
 *     case HF_OUTCOME_STARTED: // it is ours: do the work, and say how it ended
 *         if (hf_operation_sending(operation, &error) != HF_OK) ... // only before an effect outside of Holdfast
 *         ... the work ...
 *         if (hf_operation_complete(operation, "42", 2, NULL, NULL, &error) != HF_OK) ...
 *         break;
 *     case HF_OUTCOME_REPLAYED: ...    // it has ended: outcome->result
 *     case HF_OUTCOME_IN_PROGRESS: ... // somebody is at it
 *     case HF_OUTCOME_UNKNOWN:
 *     case HF_OUTCOME_REVIEW: ...      // a person has to settle it
 *     }
 *     hf_operation_free(operation);
 *     hf_outcome_free(outcome);
 *
 * A started attempt has a lease, under the rules of hf_lease: it is renewed in the background, and once it may have been lost
 * nothing more is sent under it, its loss callback is called once, and it never comes back. What becomes of an attempt that is
 * lost says the policy of its type; if it was marked as sending, it is UNKNOWN, and nobody repeats it until a person has said what
 * happened.
 *
 * A timeout is not a failure. Where a call's outcome is not known (HF_UNKNOWN), ask by the key: the same call again, or
 * hf_operation_get. The functions here do so themselves as long as their time lasts.
 *
 * Threads, fork, structs and errors are as in holdfast.h. Every function that asks a server blocks, up to the client's timeout.
 * Keys and types are names; a result has 1 MiB at most. HF_CONFLICT with the reason "PARAMETER_CONFLICT": the key was used with
 * another type or other parameters; what is stored is not told. "ILLEGAL_STATE": it is in a state that does not allow this.
 */
#ifndef HOLDFAST_OPERATION_H
#define HOLDFAST_OPERATION_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HF_FINGERPRINT_SIZE = 32,
    HF_RESULT_MAX = 1024 * 1024, /* bytes of a result */
    HF_EVENTS_MAX = 100,         /* of one call */
    HF_EXECUTION_ID_MAX = 64     /* bytes of an execution id */
};

typedef struct hf_operation hf_operation;

/* What became of an operation. */
typedef enum hf_operation_state {
    HF_OPERATION_PENDING = 1,   /* to be started (again) when it is due */
    HF_OPERATION_RUNNING = 2,   /* an attempt has it */
    HF_OPERATION_SUCCEEDED = 3, /* for good, with a result */
    HF_OPERATION_FAILED = 4,    /* for good: the answer is no */
    HF_OPERATION_UNKNOWN = 5,   /* it may have taken effect; hf_operation_reconcile */
    HF_OPERATION_REVIEW = 6,    /* its budget is spent, or an operator has to mend something; hf_operation_retry or _cancel */
    HF_OPERATION_CANCELLED = 7
} hf_operation_state;

/* Why an attempt is started. */
typedef enum hf_trigger {
    HF_TRIGGER_NONE = 0, /* taken for MANUAL */
    HF_TRIGGER_SCHEDULED = 1,
    HF_TRIGGER_RETRY = 2,    /* found by itself after an attempt that failed */
    HF_TRIGGER_TAKEOVER = 3, /* found by itself after an attempt that was lost; not to be given */
    HF_TRIGGER_MANUAL = 4
} hf_trigger;

/* What kind of error ended an attempt, and so what follows. */
typedef enum hf_error_class {
    HF_CLASS_NONE = 0,
    HF_CLASS_TRANSIENT = 1, /* again, after a while, within the budget */
    HF_CLASS_CONFLICT = 2,  /* a serialization failure or a deadlock: again, as TRANSIENT */
    HF_CLASS_BUSINESS = 3,  /* the answer is no: FAILED for good, and replayed like a result */
    HF_CLASS_UNKNOWN = 4,   /* it may have taken effect: UNKNOWN */
    HF_CLASS_CONFIG = 5,    /* an operator has to mend something first: REVIEW */
    HF_CLASS_FENCED = 6     /* this worker lost a right that it needs: another one may try at once */
} hf_error_class;

/* An event that becomes visible with the result, or not at all. */
typedef struct hf_event {
    const char *aggregate_type, *aggregate_id, *type;
    const void *payload;
    size_t payload_len;
} hf_event;

/* On HF_OK `fingerprint` is SHA-256 of the canonical form (RFC 8785) of the `len` bytes of JSON: white space, the order of members,
 * and how numbers and strings are written make no difference. All else does: a member that is absent, null or empty are three
 * things; the order of an array counts; numbers are doubles, as in JavaScript (1 and 1.0 are the same, and so are 9007199254740993
 * and 9007199254740992: put large ids and amounts into strings); characters are not normalized. Doesn't block.
 * HF_INVALID: not JSON, not UTF-8, a name twice in one object, a number beyond a double, nested more than 64 deep; the message says
 * what and where. */
HF_API hf_result hf_fingerprint_json(const char *json, size_t len, unsigned char fingerprint[HF_FINGERPRINT_SIZE],
                                     hf_error *error) HF_MUST_CHECK;

/* ---- what is known of a key ---- */

typedef enum hf_outcome_kind {
    HF_OUTCOME_STARTED = 1,     /* Begin: this caller has the attempt */
    HF_OUTCOME_DONE = 2,        /* Record, Execute: it took effect now, by this call */
    HF_OUTCOME_REPLAYED = 3,    /* it had ended: what is stored; nothing was done */
    HF_OUTCOME_IN_PROGRESS = 4, /* somebody is at it, or it waits until it is due */
    HF_OUTCOME_UNKNOWN = 5,     /* it may have taken effect, and is not run again until a person has said what happened */
    HF_OUTCOME_REVIEW = 6       /* parked for a person */
} hf_outcome_kind;

/* Strings are never NULL. What doesn't belong to the kind is zero or empty. */
typedef struct hf_outcome {
    hf_outcome_kind kind;
    int64_t attempt;    /* STARTED: this one; DONE, REPLAYED: the one that ended it; IN_PROGRESS: the one that runs */
    hf_trigger trigger; /* STARTED: as it was found */

    const void *result; /* DONE by Execute, REPLAYED; with a NUL behind it that isn't counted */
    size_t result_len;
    const char *result_ref;
    int64_t first_completed_unix_ms;
    bool failed;    /* REPLAYED: it is FAILED or CANCELLED; error_class and message tell why */
    bool cancelled; /* REPLAYED: it is CANCELLED */

    hf_error_class error_class; /* REPLAYED if failed, REVIEW */
    const char *message;        /* REPLAYED if failed, UNKNOWN, REVIEW */
    int64_t since_unix_ms;      /* UNKNOWN, REVIEW */

    const char *holder;   /* IN_PROGRESS; empty: it is PENDING */
    int64_t remaining_ms; /* IN_PROGRESS: of that attempt's lease; or until it is due */
} hf_outcome;

/* NULL is allowed. */
HF_API void hf_outcome_free(hf_outcome *outcome);

/* ---- attempts ---- */

/* Called once when an attempt is lost, never for one that was ended. As hf_loss_fn, also in what it may call: hf_operation_free
 * included. */
typedef void (*hf_operation_loss_fn)(hf_operation *operation, const char *reason, void *arg);

typedef struct hf_begin_options {
    const char *key, *type;
    const unsigned char *fingerprint; /* 32 bytes that stand for the parameters; or */
    const char *parameters_json;      /* the parameters: the fingerprint is made by hf_fingerprint_json */
    size_t parameters_len;            /* 0 = up to the NUL */
    const char *holder;               /* NULL = the client's */
    int64_t ttl_ms;                   /* 100 ms to 24 h; 0 = 30 s */
    int64_t wait_ms;                  /* 0 = don't wait for another attempt; ≤ 1 h */
    const char *request_id;           /* makes a repeat by another process recognisable; NULL = a random one */
    hf_trigger trigger;
    hf_operation_loss_fn on_loss; /* NULL = none */
    void *on_loss_arg;
    bool no_renewal; /* the background does not renew it; the deadline stands, hf_operation_renew_now works */
    uint64_t reserved[6];
} hf_begin_options;

/* On HF_OK `*outcome` tells how the operation is, and is the caller's to free; if it is STARTED, and only then, `*operation` is the
 * caller's attempt (else NULL), which no other caller has until at least its deadline, renewed every TTL/3. With wait_ms an attempt
 * in progress is waited for: until it has a result or may be taken over by this caller. Such a wait can't be cancelled: wait in
 * short pieces where that matters. Blocks up to the client's timeout (plus wait_ms). HF_CONFLICT: other parameters. HF_HELD with
 * the reason "CANCELLED": the client is being freed. HF_LOST with "DEADLINE": the answer came after the attempt's deadline; whether
 * it is started again says the policy. HF_UNKNOWN: an attempt may have been started; beginning again with the same request_id gets
 * the same one. */
HF_API hf_result hf_operation_begin(hf_client *client, const hf_begin_options *options, hf_operation **operation,
                                    hf_outcome **outcome, hf_error *error) HF_MUST_CHECK;

/* True if the attempt is surely this caller's at this moment. As hf_lease_valid. False too once it has been ended. */
HF_API bool hf_operation_valid(hf_operation *operation);
/* Why it is over, or NULL: as hf_lease_loss; "ENDED" after it was completed, failed or marked as unknown. */
HF_API const char *hf_operation_loss(hf_operation *operation);
HF_API const char *hf_operation_key(const hf_operation *operation);
/* The token of the attempt: higher than that of every earlier attempt of any operation in this namespace. */
HF_API int64_t hf_operation_token(const hf_operation *operation);
HF_API int64_t hf_operation_attempt(const hf_operation *operation); /* counts from 1 */
/* Names this execution among all: for logs, and for the idempotency keys of others. Valid as long as the operation. */
HF_API const char *hf_operation_execution_id(const hf_operation *operation);
/* Milliseconds until the local deadline; 0 if it is over. */
HF_API int64_t hf_operation_remaining_ms(hf_operation *operation);
/* As hf_renew_now. */
HF_API hf_result hf_operation_renew_now(hf_operation *operation, hf_error *error) HF_MUST_CHECK;

/* On HF_OK it is on record that this attempt may cause an effect elsewhere from now on: if it is lost without an outcome, it is
 * UNKNOWN. Cause the effect only after HF_OK. Harmless to repeat. HF_LOST: cause none. HF_UNKNOWN: it may be on record; call again.
 */
HF_API hf_result hf_operation_sending(hf_operation *operation, hf_error *error) HF_MUST_CHECK;

typedef struct hf_complete_options {
    const char *result_ref; /* where a result stands that is too big to be kept; at most 1,024 bytes; NULL = none */
    const hf_event *events;
    size_t n_events;
    uint64_t reserved[4];
} hf_complete_options;

/* How the operation is after an attempt of it has ended. */
typedef struct hf_finished {
    hf_operation_state state;
    int64_t revision;
    int64_t due_ms; /* PENDING: until it may be started again */
    bool replayed;  /* an earlier try of this same call had ended it */
    uint64_t reserved[2];
} hf_finished;

/*
 * Three ways to end an attempt. `finished` may be NULL, and so may `options`, and `result` if its length is 0.
 *
 * On HF_OK the attempt has ended so, for good, and the operation is as `*finished` tells; hf_operation_valid is false from now on,
 * and there will be no loss callback. Tries that are not answered are repeated; if then a repeat is refused, or the time is over,
 * the server is asked what became of the attempt, and the answer is HF_OK if it ended so.
 * HF_LOST: refused here or by the server: somebody else's attempt may be at it, and this result counts for nothing (the server
 * keeps it as evidence on the attempt). HF_CONFLICT: it had ended otherwise. HF_UNKNOWN: whether it ended so is not known;
 * ask with hf_operation_get, or call again with the same arguments. HF_UNAVAILABLE: it has not ended; call again.
 *
 * complete: SUCCEEDED, with this result, and these events.
 * fail: what follows depends on the class and on the type's policy.
 * unknown: it may have taken effect, and this worker can't find out. UNKNOWN.
 */
HF_API hf_result hf_operation_complete(hf_operation *operation, const void *result, size_t len, const hf_complete_options *options,
                                       hf_finished *finished, hf_error *error) HF_MUST_CHECK;

typedef struct hf_failure {
    hf_error_class error_class;
    const char *message;    /* at most 4,096 bytes; NULL = none */
    const char *sqlstate;   /* five characters; NULL = none */
    int64_t retry_after_ms; /* not sooner than that; 0 = as the policy says */
    uint64_t reserved[4];
} hf_failure;

HF_API hf_result hf_operation_fail(hf_operation *operation, const hf_failure *failure, hf_finished *finished,
                                   hf_error *error) HF_MUST_CHECK;
HF_API hf_result hf_operation_unknown(hf_operation *operation, const char *note, hf_finished *finished,
                                      hf_error *error) HF_MUST_CHECK;

/* The attempt is forgotten: it isn't renewed any more, and its loss callback is not running and will not run (waits for one that
 * runs, unless called by it). One that was not ended is lost at the server when its TTL is over: end it before. NULL is allowed. */
HF_API void hf_operation_free(hf_operation *operation);

/* ---- operations of a single call ---- */

typedef struct hf_record_options {
    const char *key, *type;
    const unsigned char *fingerprint; /* these three as in hf_begin_options */
    const char *parameters_json;
    size_t parameters_len;
    const void *result;
    size_t result_len;
    const char *result_ref; /* NULL = none */
    const hf_event *events;
    size_t n_events;
    uint64_t reserved[4];
} hf_record_options;

/* On HF_OK the result is kept under the key (DONE), or one was kept before, perhaps by an earlier try of this very call (REPLAYED:
 * outcome->result). For what was done together with the caller's own record of it, or costs nothing to do again. HF_CONFLICT: other
 * parameters; or the operation has not ended, or ended without success. HF_UNKNOWN: call again. */
HF_API hf_result hf_operation_record(hf_client *client, const hf_record_options *options, hf_outcome **outcome,
                                     hf_error *error) HF_MUST_CHECK;

typedef struct hf_execute_options {
    const char *key, *type;
    const unsigned char *fingerprint; /* these three as in hf_begin_options */
    const char *parameters_json;
    size_t parameters_len;
    const char *action;   /* as registered by an operator */
    const char *args;     /* JSON; NULL = {} */
    hf_lease *lease;      /* NULL, or: only if this lease is live, checked in the transaction. Once it is lost nothing is sent */
    const char *resource; /* of the lease; NULL = its first. Without a lease: the resource whose token is `token`, or NULL */
    int64_t token;
    bool check_version; /* only if the version of the resource's value is expected_version (0 = it doesn't exist) */
    int64_t expected_version;
    const hf_event *events;
    size_t n_events;
    const char *holder; /* NULL = the client's */
    uint64_t reserved[4];
} hf_execute_options;

/* On HF_OK the action has run, once, and its result is kept, all in one transaction (DONE, or REPLAYED if that was before); or it
 * is IN_PROGRESS, by a Begin of somebody's. Nothing was done on HF_LOST (the token is stale or its lease over), HF_CONFLICT
 * ("ACTION_RAISED", "VERSION_MISMATCH", other parameters, "OUTCOME_UNKNOWN", "IN_REVIEW"), HF_NOT_FOUND ("NO_SUCH_ACTION").
 * HF_UNKNOWN: it may have run, or may yet run; call again with the same key: it runs once. */
HF_API hf_result hf_operation_execute(hf_client *client, const hf_execute_options *options, hf_outcome **outcome,
                                      hf_error *error) HF_MUST_CHECK;

/* ---- looking ---- */

typedef struct hf_operation_info {
    const char *key, *type;
    unsigned char fingerprint[HF_FINGERPRINT_SIZE];
    hf_operation_state state;
    int64_t revision; /* counts changes of state: for decisions */
    int64_t attempts;
    int64_t token;      /* of the newest attempt; 0 = there was none */
    const char *holder; /* RUNNING; else empty */
    bool sending;
    int64_t remaining_ms; /* RUNNING: of the lease; PENDING: until it is due */
    int64_t created_unix_ms, changed_unix_ms;
    const void *result; /* SUCCEEDED, and not in lists; with a NUL behind it that isn't counted */
    size_t result_len;
    const char *result_ref;
    hf_error_class error_class; /* of the last attempt that failed */
    const char *message, *sqlstate;
    const char *compensates, *compensated_by; /* keys; empty = none */
    const void *payload;                      /* of a compensation; not in lists */
    size_t payload_len;
    int64_t priority;
} hf_operation_info;

typedef enum hf_attempt_outcome {
    HF_ATTEMPT_RUNNING = 0,
    HF_ATTEMPT_SUCCEEDED = 1,
    HF_ATTEMPT_FAILED = 2,
    HF_ATTEMPT_LOST = 3,   /* its lease ended without an outcome */
    HF_ATTEMPT_UNKNOWN = 4 /* lost while sending, or marked so */
} hf_attempt_outcome;

typedef struct hf_attempt_info {
    int64_t attempt;
    const char *execution_id;
    int64_t token;
    hf_trigger trigger;
    const char *holder;
    int64_t started_unix_ms, ended_unix_ms, sending_unix_ms; /* 0 = it runs; it was never marked */
    hf_attempt_outcome outcome;
    hf_error_class error_class;
    const char *message, *sqlstate;
    /* What its owner sent when it was over: refused, and kept. late_count 0 = nothing. */
    int64_t late_unix_ms, late_count;
    const char *late_call, *late_message;
    const void *late_result;
    size_t late_result_len;
} hf_attempt_info;

/* A page of results with the memory they stand in. One of the arrays is set. Free with hf_operation_page_free. */
typedef struct hf_operation_page {
    size_t n;
    const hf_operation_info *operations;
    const hf_attempt_info *attempts;
    const char *next_page_token; /* NULL at the end */
} hf_operation_page;

/* On HF_OK the page has the one operation of that key. HF_NOT_FOUND: it was never begun, or is purged. */
HF_API hf_result hf_operation_get(hf_client *client, const char *key, hf_operation_page **page, hf_error *error) HF_MUST_CHECK;

/* As hf_operation_get, but waits for at most `wait_ms` (≤ 1 h) until it has ended or needs somebody (UNKNOWN, REVIEW); then
 * `*ended` (may be NULL) is true. HF_HELD with the reason "CANCELLED": the client is being freed. */
HF_API hf_result hf_operation_wait(hf_client *client, const char *key, int64_t wait_ms, hf_operation_page **page, bool *ended,
                                   hf_error *error) HF_MUST_CHECK;

typedef struct hf_operation_list_options {
    hf_operation_state state; /* 0 = any */
    const char *type;         /* exactly; NULL = any */
    const char *prefix;       /* of the key; NULL = all */
    int64_t older_than_ms;    /* in this state for at least so long */
    int64_t page_size;        /* 0 = 100; at most 1000 */
    const char *page_token;   /* the page before's; NULL = from the start */
    uint64_t reserved[4];
} hf_operation_list_options;

/* On HF_OK `*page` has operations in the order of their keys (bytewise). `options` may be NULL. */
HF_API hf_result hf_operation_list(hf_client *client, const hf_operation_list_options *options, hf_operation_page **page,
                                   hf_error *error) HF_MUST_CHECK;
/* On HF_OK `*page` has the key's attempts in the order in which they were started. `page_size`, `page_token` as in lists. */
HF_API hf_result hf_operation_attempts(hf_client *client, const char *key, int64_t page_size, const char *page_token,
                                       hf_operation_page **page, hf_error *error) HF_MUST_CHECK;
HF_API void hf_operation_page_free(hf_operation_page *page);

/* ---- a person's decisions ---- */

/* What was seen, and who decides. */
typedef struct hf_decision {
    int64_t revision;   /* of the operation as it was seen */
    const char *actor;  /* NULL = the client's holder */
    const char *reason; /* 1 to 1,024 bytes; goes into the audit */
    uint64_t reserved[4];
} hf_decision;

typedef struct hf_decided {
    hf_operation_state state;
    int64_t revision;
    bool replayed; /* this decision had been taken before */
    uint64_t reserved[2];
} hf_decided;

/* On HF_OK the operation is as `*decided` (may be NULL) tells, by this decision or by an earlier try of it, and that is in the
 * audit. HF_CONFLICT: nothing was changed: "REVISION_MISMATCH" (it has changed since it was seen: look again), "ILLEGAL_STATE",
 * "OUTCOME_UNKNOWN" (first hf_operation_reconcile). HF_NOT_FOUND: there is no such operation.
 * retry: PENDING (due now) or REVIEW may run again, with a new budget. cancel: PENDING or REVIEW will not run any more. */
HF_API hf_result hf_operation_retry(hf_client *client, const char *key, const hf_decision *decision, hf_decided *decided,
                                    hf_error *error) HF_MUST_CHECK;
HF_API hf_result hf_operation_cancel(hf_client *client, const char *key, const hf_decision *decision, hf_decided *decided,
                                     hf_error *error) HF_MUST_CHECK;

typedef enum hf_reconciled {
    HF_RECONCILED_SUCCEEDED = 1, /* it took effect */
    HF_RECONCILED_FAILED = 2,    /* it took no effect and must not be tried again */
    HF_RECONCILED_NOT_DONE = 3,  /* it took no effect and may run again */
    HF_RECONCILED_CANCELLED = 4
} hf_reconciled;

typedef struct hf_reconcile_options {
    hf_reconciled outcome;
    const void *result; /* SUCCEEDED only */
    size_t result_len;
    const char *result_ref;
    uint64_t reserved[4];
} hf_reconcile_options;

/* Says what happened to an operation that is UNKNOWN. As above. */
HF_API hf_result hf_operation_reconcile(hf_client *client, const char *key, const hf_reconcile_options *options,
                                        const hf_decision *decision, hf_decided *decided, hf_error *error) HF_MUST_CHECK;

typedef struct hf_compensate_options {
    const char *type; /* of the operation that undoes it */
    const void *payload;
    size_t payload_len;
    const char *actor;  /* NULL = the client's holder */
    const char *reason; /* 1 to 1,024 bytes */
    uint64_t reserved[4];
} hf_compensate_options;

typedef struct hf_compensation {
    char key[HF_NAME_MAX + 1];
    hf_operation_state state;
    int64_t revision;
    bool replayed;                                  /* it had been asked for before */
    unsigned char fingerprint[HF_FINGERPRINT_SIZE]; /* to begin it with */
    uint64_t reserved[2];
} hf_compensation;

/* On HF_OK there is one operation that undoes the SUCCEEDED one of `key`, to be begun under the key and fingerprint in
 * `*compensation`. HF_CONFLICT: it did not succeed; or another type or payload was asked for before. */
HF_API hf_result hf_operation_compensate(hf_client *client, const char *key, const hf_compensate_options *options,
                                         hf_compensation *compensation, hf_error *error) HF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
