/*
 * worker.h - one who calls, by the client library's own hfi_call, and has every call recorded.
 *
 * Each function makes one call and returns its record, as it stands in the history. Nothing is remembered between calls: the
 * test hands in tokens, request_ids and write_seqs, so that it can repeat a call, or make a wrong one. A worker may be used by
 * one thread at a time; workers may share a client and a history.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_WORKER_H
#define HOLDFAST_TESTS_ROBUSTNESS_WORKER_H

#include <holdfast/holdfast.h>

#include "client/lib/call.h"
#include "robustness/history.h"

struct worker {
    struct history *history;
    hf_client *client; /* its namespace and holder are used */
    int number;
    int64_t timeout_ms;   /* of a call with all its tries; 0 = the client's */
    enum hfi_retry retry; /* HFI_RETRY_NEVER (zero): each call is sent once, and what becomes of it is the test's business */
};

/* A client of this server, or the test fails. The caller frees it. */
hf_client *worker_client(const char *url);

struct history_call worker_acquire(const struct worker *worker, const char *resource, int64_t ttl_ms, const char *request_id);
struct history_call worker_renew(const struct worker *worker, const char *resource, int64_t token, int64_t ttl_ms);
struct history_call worker_release(const struct worker *worker, const char *resource, int64_t token);
/* `expected` < 0: none. */
struct history_call worker_write(const struct worker *worker, const char *resource, int64_t token, int64_t write_seq,
                                 const char *value, int64_t expected);
struct history_call worker_delete(const struct worker *worker, const char *resource, int64_t token, int64_t write_seq,
                                  int64_t expected);
struct history_call worker_read(const struct worker *worker, const char *resource);
struct history_call worker_break(const struct worker *worker, const char *resource, int64_t token_seen);

/* The call was answered so, or the test fails and shows its line. `reason` NULL = any. */
void worker_assert(const struct history_call *call, enum history_answer answer, const char *reason);
#define assert_ok(call)              worker_assert(call, HISTORY_OK, NULL)
#define assert_refused(call, reason) worker_assert(call, HISTORY_REFUSED, reason)
#define assert_unknown(call)         worker_assert(call, HISTORY_UNKNOWN, NULL)

#endif
