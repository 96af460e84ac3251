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

enum { M_NAME = 48, M_VALUE = 24 };

struct m_ns {
    const char *name;
    bool open; /* exists and isn't retired */
    bool audit_writes;
    int64_t floor;
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
    int ended; /* 0, 3 released, 4 broken */
    char task[M_NAME], holder[M_NAME];
    char label[M_NAME]; /* the value of the one label, "" = none */

    bool value_row, has_value;
    int64_t version, value_token, write_seq, seq_version, updated_at;
    char value[M_VALUE];
};

/* What is audited, counted. */
struct m_audit {
    int64_t grants, takeovers, releases, breaks, writes, deletes, floors, refusals;
};

/* Whatever an outcome carries; what it doesn't carry is 0 or "". */
struct m_answer {
    int outcome;
    int64_t token, ttl_ms, remaining_ms;
    int64_t version, fence, write_seq;
    bool live;
    const char *holder, *task;
};

struct m_acquire {
    const char *task, *holder, *request_id, *label;
    int64_t ttl_ms;
};

struct m_write {
    int64_t token, write_seq;
    const char *value; /* NULL = delete */
    int64_t expected;  /* -1 = any */
};

struct m_answer m_acquire(struct m_key *key, const struct m_acquire *in, int64_t now, struct m_audit *audit);
/* One answer a key, or one answer, and `*which` is the key it is about (otherwise -1). */
void m_acquire_all(struct m_key *const *keys, size_t n, const struct m_acquire *in, int64_t now, struct m_audit *audit,
                   struct m_answer *answers, int *which);
struct m_answer m_renew(struct m_key *key, int64_t token, int64_t ttl_ms, int64_t now);
struct m_answer m_release(struct m_key *key, int64_t token, int64_t now, struct m_audit *audit);
struct m_answer m_write(struct m_key *key, const struct m_write *in, int64_t now, struct m_audit *audit);
struct m_answer m_check(const struct m_key *key, int64_t token, int64_t now);
struct m_answer m_break(struct m_key *key, int64_t token_seen, int64_t now, struct m_audit *audit);
struct m_answer m_advance(struct m_ns *ns, const struct m_key *keys, size_t n_keys, int64_t at_least, struct m_audit *audit);
/* guard(): 1 = it returns, otherwise ST_STALE or ST_NOT_HELD. */
int m_guard(const struct m_key *key, int64_t token, int64_t now);

bool m_live(const struct m_key *key, int64_t now);
/* 51 or 50 by what get (lease) and read (resource) go by; 90. */
int m_get_outcome(const struct m_key *key);
int m_read_outcome(const struct m_key *key);

#endif
