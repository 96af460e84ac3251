/*
 * crowd.h - a load generator for what `holdfast bench` is not made for: thousands of connections, millions of leases that are there
 * already, a steady pace for an hour. It speaks nng's protocol by itself (proto/c/sp.h), one thread, one epoll.
 *
 * The resources are growth/00000000, … of the namespace `default`. Each call under way (a slot) has resources of its own, of which
 * it takes one by chance each time, so that no two calls meet. Tokens are kept in a file (crowd_options.tokens), so that the next
 * run knows them. Errors end the program: a generator has nothing to save.
 *
 * crowd.c: options, connections, and the pace. crowd_calls.c: what is asked, and whether the answer is as it should be.
 * crowd_lines.c: what is printed.
 */
#ifndef HOLDFAST_TESTS_BENCH_CROWD_H
#define HOLDFAST_TESTS_BENCH_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/v1/rpc.pb-c.h"

enum crowd_kind {
    CROWD_RENEW,      /* one lease a call */
    CROWD_RENEW_MANY, /* `items` leases a call; an operation is one lease renewed */
    CROWD_WRITE,      /* `value_size` bytes */
    CROWD_CYCLE, /* a release and an acquire, in two calls that are one operation: the leases are held all the time but for that */
    CROWD_MIX,   /* renew, write, release, acquire in turn; an operation is one call */
    CROWD_TAKE,  /* every resource is acquired once, in order, and then it ends */
    CROWD_IDLE,  /* each connection makes one renewal, and then stays */
    CROWD_WAIT,  /* acquires that wait for the first resource, and stay */
    CROWD_KINDS
};

struct crowd_options {
    enum crowd_kind kind;
    size_t connections, envelopes, calls; /* envelopes under way on each connection, calls in each of them */
    size_t keys, items, value_size;
    double seconds, every, rate; /* every so many seconds a line; operations/s, 0 = as fast as it goes */
    int64_t ttl_ms;
};

struct crowd_slot {
    size_t id, of; /* this of so many: its resources are id, id + of, id + 2 of, … */
    size_t key;
    unsigned step;
};

extern struct crowd_options crowd;
extern int64_t *crowd_tokens; /* by resource; 0 = 1, the token of leases that were made by SQL */

/* The tokens of all resources are in that file, or none is kept (NULL). */
void crowd_keep_tokens(const char *path);

void crowd_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Fills in the next call of a slot; its payload is written to `out`, and has crowd_payload_max() bytes at most. False: there is
 * nothing more. */
bool crowd_ask(struct crowd_slot *slot, Holdfast__V1__Call *call, uint8_t *out);
size_t crowd_payload_max(void);
/* How many operations this answer has completed. Whatever is not as it should be ends the program. */
size_t crowd_take(struct crowd_slot *slot, const Holdfast__V1__Reply *reply);
/* The operation has given its lease back and not taken it again. */
bool crowd_unfinished(const struct crowd_slot *slot);

/* Their CPU time is told, as one column. Changes the text. */
void crowd_watch_cpu(char *pids);
void crowd_begin(int64_t now_ns);
/* An envelope was answered. */
void crowd_count(size_t operations, int64_t ns);
/* A line about the stretch of time since the last one. */
void crowd_line(int64_t now_ns);

#endif
