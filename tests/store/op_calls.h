/*
 * op_calls.h - the functions of operations for one item, as tests want them: in namespace `default`, of type `t`, with a
 * fingerprint made of a word. Each returns the outcome (enum st_outcome), or minus the SQLSTATE as ts_state has it when SQL fails.
 */
#ifndef HOLDFAST_TESTS_STORE_OP_CALLS_H
#define HOLDFAST_TESTS_STORE_OP_CALLS_H

#include "store/calls.h"

int64_t op_begin(PGconn *conn, const char *key, const char *parameters, int64_t ttl_ms, const char *request_id);
int64_t op_begin_type(PGconn *conn, const char *key, const char *type, const char *parameters, int64_t ttl_ms,
                      const char *request_id);
int64_t op_renew(PGconn *conn, const char *key, int64_t token, int64_t ttl_ms);
int64_t op_sending(PGconn *conn, const char *key, int64_t token);
int64_t op_complete(PGconn *conn, const char *key, int64_t token, const char *result);
/* class: 1 TRANSIENT, 2 CONFLICT, 3 BUSINESS, 4 UNKNOWN, 5 CONFIG, 6 FENCED */
int64_t op_fail(PGconn *conn, const char *key, int64_t token, int error_class, const char *message, int64_t retry_after_ms);
int64_t op_unknown(PGconn *conn, const char *key, int64_t token, const char *note);
int64_t op_record(PGconn *conn, const char *key, const char *parameters, const char *result);
/* call: 1 Retry, 2 Cancel, 3 Reconcile */
int64_t op_decide(PGconn *conn, const char *key, int64_t revision, int call, int reconciled, const char *actor);
int64_t op_compensate(PGconn *conn, const char *key, const char *payload);
int64_t op_execute(PGconn *conn, const char *key, const char *parameters, const char *action, const char *args);

/* A column of the operation's row, or of its newest attempt's, as text; NULL is "". */
char *op_of(PGconn *conn, const char *key, const char *column);
int64_t op_number(PGconn *conn, const char *key, const char *column);
char *op_attempt(PGconn *conn, const char *key, int attempt, const char *column);
/* Sets a policy of type `t`; 0 leaves one as it is. */
void op_policy(PGconn *conn, int64_t max_attempts, int64_t max_elapsed_ms, int64_t base_ms, int64_t cap_ms, int on_lost);

/* The queries themselves, for ts_send_and_block; column 1 is the outcome. */
char *op_begin_sql(const char *key, const char *type, const char *parameters, int64_t ttl_ms, const char *request_id);
char *op_finish_sql(const char *key, int64_t token, int call, const char *result, int error_class, const char *message,
                    int64_t retry_after_ms);

#endif
