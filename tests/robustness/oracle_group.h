/*
 * oracle_group.h - for the oracle's own files: what a history and a trail say of one resource, and how a fault in it is told.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_ORACLE_GROUP_H
#define HOLDFAST_TESTS_ROBUSTNESS_ORACLE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "robustness/history.h"
#include "robustness/oracle.h"

/* A write or delete that was asked for and not refused: all calls of one (token, write_seq), or one call without a write_seq. */
struct oracle_change {
    const struct history_call *call; /* the first that was told it happened, if one was: then that is `told` */
    bool told;
    int64_t from,
        to; /* it took effect in between, if it did: since its first call began, before its first answer (INT64_MAX: none) */
    const struct history_call *const *calls; /* all of them, by start */
    size_t n;
};

struct oracle_group {
    const struct oracle_row *const *rows; /* by id */
    size_t n_rows;
    const struct history_call *const *calls; /* by start, without upsets */
    size_t n_calls;
    const struct history_call *const *upsets; /* of the whole history, by start */
    size_t n_upsets;
    struct oracle_change *changes; /* the told ones by token, version and `from`; then the others by token */
    size_t n_told, n_changes;
    char *why;
    size_t why_size;
};

/* True if the rule holds for each resource's group; otherwise `why` has been told by it. */
bool oracle_each_group(const struct oracle_row *rows, size_t n, const struct history_call *calls, size_t n_calls, char *why,
                       size_t why_size, bool (*rule)(const struct oracle_group *group));

/* Tells which rule is broken, with the calls that show it (each may be NULL). Always false. */
bool oracle_wrong(const struct oracle_group *group, const struct history_call *call, const struct history_call *other,
                  const char *rule, ...) __attribute__((format(printf, 4, 5)));

/* False where one is NULL. */
bool oracle_is(const struct history_call *call, enum history_op op, enum history_answer answer);
bool oracle_is_change(const struct history_call *call);
/* Refused with one of these reasons, which are separated by spaces. */
bool oracle_refused(const struct history_call *call, enum history_op op, const char *reasons);
/* INT64_MAX if it was never heard of again. */
int64_t oracle_end(const struct history_call *call);
int oracle_compare(int64_t a, int64_t b);

/* The rules; see oracle.h. */
bool oracle_check_values(const struct oracle_group *group);    /* repeats, versions, values */
bool oracle_check_order(const struct oracle_group *group);     /* tokens, leases, and when things can have happened */
bool oracle_check_agreement(const struct oracle_group *group); /* with the trail */

#endif
