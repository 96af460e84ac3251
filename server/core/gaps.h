/*
 * gaps.h - which numbers of a sequence have been seen, when they come out of order and some never come: for who follows a table
 * whose ids are drawn before the commit (schema/functions/45_follow.sql). No I/O.
 *
 * Below `high` every number was seen, or is in one of the gaps, or will never come. A gap is given up when every writer is gone
 * that was there when the gap was first seen, provided that the numbers were looked at after the writers. Writers are told by their
 * virtual transaction ids, "3/17 5/204"; one that has the id of another who is gone keeps gaps longer, and never gives one up
 * too early. A restart of the database gives those that outlive it (prepared transactions) other ids: co_gaps_unsure.
 */
#ifndef HOLDFAST_CORE_GAPS_H
#define HOLDFAST_CORE_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct co_gap {
    int64_t from, to; /* both included */
    uint64_t since;   /* the look at which it was first seen */
};

struct co_writer {
    int32_t backend;
    uint32_t transaction;
    uint64_t since; /* the look at which it was first there */
};

struct co_gaps {
    int64_t high;
    struct co_gap *list; /* in the order of the numbers */
    size_t n, cap;
    struct co_writer *writers;
    size_t n_writers, cap_writers;
    uint64_t look; /* counts them */
    bool unsure;
};

enum { CO_GAPS_MAX = 4096, CO_WRITERS_MAX = 4096, CO_STRETCHES_MAX = 16 };

/* Nothing is known. */
void co_gaps_release(struct co_gaps *gaps);
/* It begins at `high`, with these writers (NULL or "" = none). False: no memory, or too many writers. */
bool co_gaps_begin(struct co_gaps *gaps, int64_t high, const char *writers) __attribute__((warn_unused_result));
/* A gap that was there when it began, behind those that were added before. False: no memory, or too many. */
bool co_gaps_add(struct co_gaps *gaps, int64_t from, int64_t to) __attribute__((warn_unused_result));
/*
 * A look: up to `high`, while these writers were there, those of the gaps and behind the old high that could be seen were `seen`, n
 * of them in rising order. Gaps that nobody can fill any more are gone. False: no memory, more than CO_GAPS_MAX gaps, or `seen` is
 * in disorder or has a number that is no gap; it is of no more use then.
 */
bool co_gaps_look(struct co_gaps *gaps, int64_t high, const char *writers, const int64_t *seen, size_t n)
    __attribute__((warn_unused_result));
/* Whoever is a writer at the next look may have been one for long, under another id. */
void co_gaps_unsure(struct co_gaps *gaps);
/* Up to here nothing is missing. */
int64_t co_gaps_settled(const struct co_gaps *gaps);
/* The number is one that may still come. */
bool co_gaps_has(const struct co_gaps *gaps, int64_t number);

/* Stretches of numbers in which all gaps lie, at most CO_STRETCHES_MAX, the last of which begins at most behind `high` and has no
 * end (INT64_MAX): gaps that are near each other share one. Their number. */
size_t co_gaps_stretches(const struct co_gaps *gaps, int64_t *from, int64_t *to);

#endif
