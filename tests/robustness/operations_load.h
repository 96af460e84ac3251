/*
 * operations_load.h - workers that begin, end, record and execute operations of a few keys at a time, an operator who decides what
 * is left to a person, and a bank that pays what they send. Each is a thread with a client of its own; all they are told is a
 * history for operations_oracle.h.
 *
 * The bank is the effect elsewhere: it pays only for the owner of a valid attempt that was marked as sending, and, as a bank does,
 * says for sure what it has paid: whoever asks about an attempt keeps it from paying for it later.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_OPERATIONS_LOAD_H
#define HOLDFAST_TESTS_ROBUSTNESS_OPERATIONS_LOAD_H

#include <libpq-fe.h>
#include <stdint.h>

#include "robustness/operations_oracle.h"

enum { OL_WORKERS = 6 };

struct ol_load; /* the harness is not used by its threads */

/* operations_db.c: the table, the action and the policy that they need, once the server has made its schema. */
void ol_prepare(PGconn *conn, const char *server_url);
/* The part of a history that stands in the database, allocated. */
void oo_read(struct oo_history *history, PGconn *conn);
/* They work, against these two URLs (they may be one), until ol_stop. `late`: of a hundred attempts so many are completed past the
 * library, when their lease has ended. */
struct ol_load *ol_start(const char *const urls[2], uint64_t seed, int late);
void ol_stop(struct ol_load *load);
/* All that there is to judge, with what stands in the database. As long as the load; ol_free frees both. */
const struct oo_history *ol_history(struct ol_load *load, PGconn *conn);
void ol_free(struct ol_load *load);

#endif
