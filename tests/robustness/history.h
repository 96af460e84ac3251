/*
 * history.h - what workers asked for and what they were told, for checkers and for people.
 *
 * A history is an array of calls in memory and, if it has a file, a line of text for each. A line is written when its call
 * begins, with the answer `unknown` and no end, and written again in its place when the call ended: a worker that is killed
 * leaves its open calls behind. For that, lines are padded with spaces to one width. Several processes may write histories of
 * their own, to be loaded together: times are nanoseconds of CLOCK_BOOTTIME, the clock of the client's deadlines. A line reads
 *
 *     worker=2 op=write resource=a/b token=3 seq=1 value=89dcb4... start=… end=… answer=ok version=1 fence=3 tries=1
 *
 * in which what is zero or empty is left out, and spaces, '%', '=' and control characters of names are written as %XX.
 *
 * Thread-safe. Aborts the program when memory or the disk is full.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_HISTORY_H
#define HOLDFAST_TESTS_ROBUSTNESS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum history_op {
    HISTORY_ACQUIRE,
    HISTORY_RENEW,
    HISTORY_RELEASE,
    HISTORY_WRITE,
    HISTORY_READ,
    HISTORY_BREAK,
    HISTORY_DELETE,
    HISTORY_UPSET, /* nobody's call: between its start and its end the database's clock was moved, or another database took its
                    * place, or somebody ended leases by hand: every lease (without `resource`: of all) may have ended then */
    HISTORY_OPS
};

enum history_answer {
    HISTORY_UNKNOWN, /* it may or may not have happened, or may still happen */
    HISTORY_OK,      /* it happened */
    HISTORY_REFUSED  /* it did not happen, and will not: `reason` */
};

enum { HISTORY_NAME = 64 };

struct history_call {
    int worker;
    enum history_op op;
    int64_t start_ns, end_ns; /* end 0: never heard of again */
    char resource[HISTORY_NAME];

    /* what was asked for; zero or empty where the operation has no such thing */
    char request_id[HISTORY_NAME];
    int64_t token; /* of break: the one seen */
    int64_t write_seq;
    bool has_expected;
    int64_t expected_version;
    uint64_t value; /* history_digest of it */
    int64_t ttl_ms;
    bool no_renewal; /* acquire: the lease is renewed by nobody but by calls of this history */

    /* what was answered */
    enum history_answer answer;
    char reason[HISTORY_NAME]; /* HELD, ENDED, STALE_TOKEN, TAKEN_OVER, …; of an unknown answer, why it is */
    int64_t got_token;   /* acquire: granted, of the holder in the way, or ended; read: of the last write; break refused: newest */
    int64_t got_version; /* write, delete, read */
    int64_t got_fence;   /* write, delete, read, break */
    int64_t got_ttl_ms;  /* acquire, renew */
    int64_t got_waited_ms; /* acquire */
    uint64_t got_value;    /* read: digest; 0 = there is none */
    bool replayed;
    unsigned tries; /* that were sent */
};

struct history;

/* An empty history, with its lines going to `path` (a new file), or to none (NULL). */
struct history *history_new(const char *path);
/* The calls of the file are added to the history (in memory alone). False: `why` names the line that cannot be read. */
bool history_load(struct history *history, const char *path, char *why, size_t why_size);
void history_free(struct history *history); /* NULL is allowed */

/* `call` (worker, op, resource and what is asked for) begins now; its number. Its answer is UNKNOWN until history_end. */
size_t history_begin(struct history *history, const struct history_call *call);
/* The call ended now, with the answer that is in `call`; its start stays. */
void history_end(struct history *history, size_t number, const struct history_call *call);

size_t history_count(struct history *history);
struct history_call history_get(struct history *history, size_t number);
/* All calls, by start; *n of them; free() it. */
struct history_call *history_sorted(struct history *history, size_t *n);

/* The line of a call, without padding or newline; false if it doesn't fit. And back; false if it is none. */
bool history_format(const struct history_call *call, char *line, size_t size);
bool history_parse(const char *line, struct history_call *call);

/* 64 bits that stand for a value; never 0. */
uint64_t history_digest(const void *value, size_t len);
const char *history_op_name(enum history_op op);
int64_t history_now_ns(void);

#endif
