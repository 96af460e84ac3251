/*
 * operations_oracle.h - says whether what callers were told of operations, and what stands in the end, can be right: one effect for
 * each key (P5), told to all alike (P4, P8), under one owner after the other (P2), and nothing sent twice (P10).
 *
 * An effect is a row that was written in the transaction which ended its operation: an event, or an entry of an action's. A payment
 * is an effect elsewhere, made by the owner of an attempt that was marked as sending.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_OPERATIONS_ORACLE_H
#define HOLDFAST_TESTS_ROBUSTNESS_OPERATIONS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OO_TEXT = 32 };

enum oo_call { OO_BEGIN, OO_RECORD, OO_EXECUTE, OO_SENDING, OO_COMPLETE };

enum oo_told {
    OO_NOTHING,  /* it may have been done, or may be yet */
    OO_STARTED,  /* OO_BEGIN, under `token` */
    OO_DONE,     /* by this call; OO_SENDING: marked */
    OO_REPLAYED, /* it had succeeded before, with `result` */
    OO_FAILED,   /* it had ended without success */
    OO_OPEN,     /* it is in progress, or waits for somebody */
    OO_CONFLICT, /* other parameters */
    OO_REFUSED   /* for another reason */
};

struct oo_event {
    char key[OO_TEXT];
    int64_t from_ns, to_ns; /* one clock for all */
    enum oo_call call;
    enum oo_told told;
    int print; /* which parameters the caller has; OO_SENDING, OO_COMPLETE: not looked at */
    int64_t token;
    char result[OO_TEXT]; /* OO_DONE: what it gave; OO_REPLAYED: what it was told */
};

/* What stands in the end. States and outcomes as in the contract. */
struct oo_operation {
    char key[OO_TEXT];
    int print, state;
    int64_t token;
    int attempts;
    bool reconciled; /* by the trail: a person said that it succeeded */
    int lost;        /* by the trail: how many attempts were lost */
    char result[OO_TEXT];
};
struct oo_attempt {
    char key[OO_TEXT];
    int64_t token;
    int attempt, outcome;
    bool lost;
};
struct oo_effect {
    char key[OO_TEXT], result[OO_TEXT];
};
struct oo_payment {
    char key[OO_TEXT];
    int64_t token;
};

struct oo_history {
    struct oo_event *events; /* those of one key stand together */
    struct oo_operation *operations;
    struct oo_attempt *attempts; /* of one key in the order of their tokens */
    struct oo_effect *effects;
    struct oo_payment *payments;
    size_t n_events, n_operations, n_attempts, n_effects, n_payments;
};

/* How many things are wrong; `why` gets the first one, "" if there is none. */
int oo_judge(const struct oo_history *history, char *why, size_t size);

#endif
