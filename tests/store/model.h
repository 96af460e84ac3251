/*
 * model.h - the reference: what the functions of schema/functions are meant to do, in plain C, one item at a time, in memory.
 *
 * It knows nothing of SQL. Time is an argument (milliseconds). Outcomes are those of enum st_outcome.
 */
#ifndef HOLDFAST_TESTS_STORE_MODEL_H
#define HOLDFAST_TESTS_STORE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define M_NEVER INT64_MIN /* a deadline of -infinity */

enum { M_NAME = 48, M_VALUE = 24, M_SERVERS = 3 };

struct m_policy {
    int64_t lock_delay_ms, min_ttl_ms, max_ttl_ms;
    bool audit_writes;
    int64_t max_leases, max_waiters, max_value_bytes, audit_keep_days; /* 0 = no limit */
};

struct m_ns {
    const char *name;
    bool open; /* exists and isn't retired */
    int64_t floor;
    struct m_policy policy;
    bool usage_row;
    int64_t leases, value_bytes, noted_at;
};

/* A server that waits for a resource. */
struct m_waiter {
    bool row;
    int64_t since, until, turn_until; /* M_NEVER = it has no turn */
};

/* One resource: its fence row, lease row and value row. */
struct m_key {
    struct m_ns *ns;
    char name[M_NAME];
    bool fence_locked, lease_locked; /* by another session at this moment */

    bool fence_row;
    int64_t fence, grant_token;
    int repeats;
    char request_id[M_NAME];

    bool lease_row;
    int64_t token, deadline, granted_at;
    int ended; /* 0, 2 noted as expired, 3 released, 4 broken */
    char task[M_NAME], holder[M_NAME];
    char label[M_NAME]; /* the value of the one label, "" = none */

    bool value_row, has_value;
    int64_t version, value_token, write_seq, seq_version, updated_at;
    char value[M_VALUE];

    bool waiting;
    struct m_waiter waiters[M_SERVERS];
};

#define M_EVENT_NAMES(X)                                                                                                           \
    X(TURN_GIVEN)     /* by a release, a break or a leave */                                                                       \
    X(TURN_TAKEN)     /* a server is granted in its turn */                                                                        \
    X(TURN_RUNS)      /* an acquire finds that another server has the turn */                                                      \
    X(TURN_RAN_OUT)   /* an acquire finds a turn that nobody took, and is granted */                                               \
    X(TURN_PASSED_ON) /* an acquire finds a turn that nobody took, and another server gets the next */                             \
    X(ALL_TURN_RUNS)  /* the same for several resources */                                                                         \
    X(ALL_TURN_PASSED_ON)                                                                                                          \
    X(MAY_NOT)         /* free, but there is a queue before the caller */                                                          \
    X(LOCK_DELAY)      /* free, but only just expired */                                                                           \
    X(WAITS)           /* a server is on record as waiting */                                                                      \
    X(WAITS_ON)        /* granted, and others of the same server wait on */                                                        \
    X(TTL_CUT)         /* a renewal gets less than it asked for */                                                                 \
    X(REPEATED_STAYS)  /* not released, because a repeat was answered */                                                           \
    X(NOTED_WHEN_FULL) /* expired leases noted to make room */                                                                     \
    X(SWEPT_LEASE) X(SWEPT_WAITER)
#define M_EVENT_ENUM(name) M_##name,
enum { M_EVENT_NAMES(M_EVENT_ENUM) M_EVENTS };

/* What is audited, counted. */
struct m_audit {
    int64_t grants, takeovers, expiries, releases, breaks, writes, deletes, floors, policies, refusals;
    long event[M_EVENTS]; /* what an outcome alone doesn't tell */
};

/* Whatever an outcome carries; what it doesn't carry is 0 or "". */
struct m_answer {
    int outcome;
    int64_t token, ttl_ms, remaining_ms;
    int64_t version, fence, write_seq;
    bool live;
    const char *holder, *task;
    int next_server; /* -1 = none */
    int64_t max_waiters;
};

struct m_acquire {
    const char *task, *holder, *request_id, *label;
    int64_t ttl_ms;
    int server; /* -1: one of schema 1 asks */
    bool may_grant;
    int64_t waited_ms, wait_ms, next_waited_ms, next_wait_ms;
};

struct m_write {
    int64_t token, write_seq;
    const char *value; /* NULL = delete */
    int64_t expected;  /* -1 = any */
};

/* All that there is. Quotas need it. */
struct m_all {
    struct m_ns *ns;
    size_t n_ns;
    struct m_key *keys;
    size_t n_keys;
    struct m_audit *audit;
};

/* Of the items of a batch, one after the other; only a full namespace looks at more than one. */
void m_acquire(const struct m_all *all, struct m_key *const *keys, const struct m_acquire *in, size_t n, int64_t now,
               struct m_answer *answers);
/* One answer a key, or one answer, and `*which` is the key it is about (otherwise -1). `in` is of all keys, but for may_grant. */
void m_acquire_all(const struct m_all *all, struct m_key *const *keys, const struct m_acquire *in, size_t n, int64_t now,
                   struct m_answer *answers, int *which);
struct m_answer m_renew(struct m_key *key, int64_t token, int64_t ttl_ms, int64_t now, struct m_audit *audit);
/* turns: whether who asks knows of turns. */
struct m_answer m_release(struct m_key *key, int64_t token, bool unless_repeated, bool turns, int64_t now, struct m_audit *audit);
struct m_answer m_leave(struct m_key *key, int server, int64_t now, struct m_audit *audit);
struct m_answer m_write(struct m_key *key, const struct m_write *in, int64_t now, struct m_audit *audit);
struct m_answer m_check(const struct m_key *key, int64_t token, int64_t now);
struct m_answer m_break(struct m_key *key, int64_t token_seen, bool turns, int64_t now, struct m_audit *audit);
struct m_answer m_advance(struct m_ns *ns, const struct m_key *keys, size_t n_keys, int64_t at_least, struct m_audit *audit);
/* Policies as set_namespace and create_namespace take them: -1 (audit_writes: also -1) = not given. */
struct m_policies {
    int64_t lock_delay_ms, min_ttl_ms, max_ttl_ms, audit_writes, max_leases, max_waiters, max_value_bytes, audit_keep_days;
};
extern const struct m_policy m_default_policy;
/* ST_FOUND, ST_CONTRADICTION or ST_NO_SUCH_NAMESPACE; `*would` is what the policies are, or would be. */
int m_set_namespace(const struct m_all *all, struct m_ns *ns, const struct m_policies *given, struct m_policy *would);
/* Of a namespace that exists, open or retired, or (`ns` NULL) does not; nothing is made here. */
int m_create_namespace(const struct m_ns *ns, const struct m_policies *given, struct m_policy *would);
/* How many rows are tidied. */
int64_t m_sweep(const struct m_all *all, int64_t now);

/* guard(): 1 = it returns, otherwise ST_STALE or ST_NOT_HELD. */
int m_guard(const struct m_key *key, int64_t token, int64_t now);

bool m_live(const struct m_key *key, int64_t now);
/* 51 or 50 by what get (lease) and read (resource) go by; 90. */
int m_get_outcome(const struct m_key *key);
int m_read_outcome(const struct m_key *key);

#endif
