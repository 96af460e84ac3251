/*
 * oracle.h - judges a run by what it left behind: the audit trail, what the workers were told, and what stands in the end.
 *
 * The trail of a namespace (with the policy audit_writes on from the first write) is replayed in the order of its ids, which
 * within one resource is the order of what happened. It must show, for each resource:
 *
 *   - P1: every granted token is above every earlier one and above every fence that a break had raised.
 *   - P3: every write and delete carries the newest token granted, which was not released or broken before; so none carries a
 *     lower one than a write accepted before. Versions count up by one (a delete of nothing leaves them).
 *   - A lease is released or broken at most once, and not released once it is on record as expired, and only under a token that was
 *     granted; a takeover names the lease it ends.
 *   - What stands is what the last change left.
 *
 * The history of all who changed anything proves the same without the trail, from nothing but calls and answers:
 *
 *   - P1, P2, P3: all that was acknowledged can have taken effect in one order, each call between its start and its end, in which
 *     a resource is granted only when it is free (released, broken, or run out at the earliest moment it can have) and with a
 *     token above all before; a change is made, a lease renewed only under the newest token and before the lease was known to be
 *     over. Unknown answers may or may not have happened. How that is found without a search: oracle_order.c.
 *   - P3, P6: versions and tokens rise together; a read, and what stands in the end, shows the value that was written under its
 *     version, and no version older than one acknowledged before.
 *   - P8: under one (token, write_seq) at most one change was made, and every repeat was told its version; a version that nobody
 *     was told of was made by somebody who doesn't know. One token goes to one request, and a repeated request gets no other token,
 *     unless somebody else was granted one in between.
 *
 * And the two must agree: what a worker was told was granted or written is in the trail, and every change in the trail was asked
 * for by somebody who was told so or doesn't know.
 *
 * So the history must hold whatever may change a value or end a lease. What nobody asked for (the database's clock moves, a lease
 * is ended by hand) belongs into it as HISTORY_UPSET.
 *
 * Pure but for what takes a connection: rows and calls come in as arrays. Each check stops at the first fault and says what it is.
 * Everything is n log n: 100,000 calls of one resource take a fraction of a second.
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
/* True if the calls alone do. Otherwise `why` tells the rule and the calls. */
bool oracle_check_calls(const struct history_call *calls, size_t n_calls, char *why, size_t why_size);
/* True if they agree, having passed both. Otherwise `why`. */
bool oracle_check_history(const struct oracle_row *rows, size_t n, const struct history_call *calls, size_t n_calls, char *why,
                          size_t why_size);

/* What is wrong; "" = nothing. */
struct oracle_verdict {
    size_t rows;
    char trail[2048];  /* with the trail, and with what stands compared to it */
    char calls[2048];  /* with the calls alone, what stands being one more read */
    char agrees[2048]; /* between them */
};

/* All of it, for a namespace as it stands now and a history (NULL: the trail alone). True if nothing is wrong. The running cmocka
 * test fails if the database cannot be read. */
bool oracle_judge(PGconn *conn, const char *name_space, struct history *history, struct oracle_verdict *verdict);
/* The same; the running cmocka test fails with all that is wrong. Returns the number of rows. */
size_t oracle_check(PGconn *conn, const char *name_space, struct history *history);

/* How many rows of this kind the resource has. */
size_t oracle_rows_of(const struct oracle_trail *trail, const char *resource, const char *kind);

#endif
