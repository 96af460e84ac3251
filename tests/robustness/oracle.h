/*
 * oracle.h - judges a run by what it left behind: the audit trail, and what the workers were told.
 *
 * The trail of a namespace (with the policy audit_writes on from the first write) is replayed in the order of its ids, which
 * within one resource is the order of what happened. It must show, for each resource:
 *
 *   - P1: every granted token is above every earlier one and above every fence that a break had raised.
 *   - P3: every write and delete carries the newest token granted, which was not released or broken before; so none carries a
 *     lower one than a write accepted before. Versions count up by one (a delete of nothing leaves them).
 *   - A lease is released or broken at most once, and not released once it is on record as expired, and only under a token that was
 * granted; a takeover names the lease it ends.
 *
 * The history of all who changed anything must agree with it (P3, P6, P8):
 *
 *   - What a worker was told was granted or written is in the trail. A token was given to one request only. Under one (token,
 *     write_seq) at most one change was made, and every repeat was told its version.
 *   - Every change in the trail was asked for by somebody who was told so, or doesn't know.
 *   - No change asked for after a newer token, a break or a release had been acknowledged was accepted (unless replayed).
 *   - A read shows the value that was written under its version, and no version older than one acknowledged before.
 *
 * Pure but for what takes a connection: rows and calls come in as arrays. Each check stops at the first fault and says what it is.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_ORACLE_H
#define HOLDFAST_TESTS_ROBUSTNESS_ORACLE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "robustness/history.h"

/* A row of holdfast.audit; see the comments on its columns in the schema. */
struct oracle_row {
    int64_t id;
    const char *resource; /* NULL: the whole namespace */
    const char *kind;
    int64_t token;
    int64_t prior; /* 0 = none */
};

struct oracle_trail {
    struct oracle_row *rows; /* in the order of their ids */
    size_t n;
};

/* The audit of the namespace, read now; the running cmocka test fails if it cannot be. */
struct oracle_trail oracle_load(PGconn *conn, const char *name_space);
void oracle_release(struct oracle_trail *trail);

/* The namespace's writes are audited from now on. */
void oracle_audit_writes(PGconn *conn, const char *name_space);

/* True if the trail keeps the rules. Otherwise `why` tells the row and the rule. */
bool oracle_check_trail(const struct oracle_row *rows, size_t n, char *why, size_t why_size);

/* True if the calls agree with the trail (which oracle_check_trail has passed). Otherwise `why`. */
bool oracle_check_history(const struct oracle_row *rows, size_t n, const struct history_call *calls, size_t n_calls, char *why,
                          size_t why_size);

/* Both, for a namespace and a history (NULL: the trail alone); the running cmocka test fails with the reason. Returns the number
 * of rows. */
size_t oracle_check(PGconn *conn, const char *name_space, struct history *history);

/* How many rows of this kind the resource has. */
size_t oracle_rows_of(const struct oracle_trail *trail, const char *resource, const char *kind);

#endif
