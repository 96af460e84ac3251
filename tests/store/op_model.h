/*
 * op_model.h - the reference for operations: what schema/functions/80, 81 and 86 are meant to do, in plain C, one item at a time,
 * in memory. It knows nothing of SQL. Time is an argument (milliseconds). Outcomes are those of enum st_outcome.
 */
#ifndef HOLDFAST_TESTS_STORE_OP_MODEL_H
#define HOLDFAST_TESTS_STORE_OP_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { OM_NEW, OM_PENDING, OM_RUNNING, OM_SUCCEEDED, OM_FAILED, OM_UNKNOWN, OM_REVIEW, OM_CANCELLED };
enum { OM_COMPLETE = 1, OM_FAIL, OM_MARK_UNKNOWN, OM_SENDING };
enum { OM_RETRY = 1, OM_CANCEL, OM_RECONCILE };
enum { OM_TEXT = 48, OM_ATTEMPTS = 64 };

struct om_policy {
    const char *type;
    int64_t max_attempts, max_elapsed_ms, base_ms, cap_ms;
    bool may_rerun; /* on_lost RETRY */
};

struct om_attempt {
    int64_t token, started, ended, sending_at; /* 0 = not */
    int trigger, outcome, error_class, state_after, late_count, late_call;
    int64_t revision_after;
};

struct om_op {
    const char *ns, *key;
    bool open;   /* its namespace exists and isn't retired */
    bool locked; /* by another session at this moment */

    bool row;
    const struct om_policy *policy; /* its type */
    int fingerprint, state, error_class;
    bool sending;
    int64_t attempts, budget_attempts, revision, token, created, changed, deadline, since;
    char holder[OM_TEXT], request_id[OM_TEXT], result[OM_TEXT], message[OM_TEXT];
    char decided[3 * OM_TEXT];
    struct om_attempt attempt[OM_ATTEMPTS];
    int n_attempts;
};

struct om_begin {
    const struct om_policy *policy;
    int fingerprint, trigger;
    const char *holder, *request_id;
    int64_t ttl_ms;
};

struct om_finish {
    int64_t token;
    int call, error_class;
    const char *result, *message;
    int64_t retry_after_ms;
};

/* What is told; what an outcome doesn't tell is 0 or "". */
struct om_answer {
    int outcome;
    int64_t attempt, token, ttl_ms, remaining_ms, changed, revision, due_ms;
    int trigger, state, error_class;
    bool exhausted, after_retry;
    char holder[OM_TEXT], result[OM_TEXT], message[OM_TEXT];
};

/* `token`: what the database drew, if it starts one (200). */
struct om_answer om_begin(struct om_op *op, const struct om_begin *in, int64_t token, int64_t now);
struct om_answer om_renew(struct om_op *op, int64_t token, int64_t ttl_ms, int64_t now);
struct om_answer om_sending(struct om_op *op, int64_t token, int64_t now);
/* `jitter`: what is random. */
struct om_answer om_finish(struct om_op *op, const struct om_finish *in, double jitter, int64_t now);
struct om_answer om_record(struct om_op *op, const struct om_begin *in, const char *result, int64_t now);
struct om_answer om_decide(struct om_op *op, int64_t revision, int call, int reconciled, const char *result, const char *actor,
                           int64_t now);
/* Whether its attempt was lost, and is settled now. */
bool om_sweep(struct om_op *op, int64_t now);
/* The state as it is told: an attempt whose lease ended may be UNKNOWN before anybody has noticed. */
int om_state_at(const struct om_op *op, int64_t now);

#endif
