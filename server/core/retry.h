/*
 * retry.h - what to do with a batch that failed: again, in halves, or give up; within a budget.
 *
 * No I/O and no clock; randomness is handed in.
 */
#ifndef HOLDFAST_CORE_RETRY_H
#define HOLDFAST_CORE_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/random.h"

/* Why PostgreSQL refused a batch; what it refused had no effect. */
enum co_failure {
    CO_CONFLICT,  /* 40001, 40P01: the whole batch may pass when repeated */
    CO_OVERTAKEN, /* 40001 of an optimistic renewal, or a lock it waited for: the careful form passes */
    CO_PARTITION, /* 23514 without a constraint: a partition is missing */
    CO_PLAN,      /* 26000 and the like: this session can't run the statement; a new session can */
    CO_LOCKED,    /* 55P03, 57014: someone's lock, or too slow */
    CO_GUILTY     /* anything else: some item is at fault */
};

enum co_next {
    CO_AGAIN,          /* the same batch, after a pause of co_pause_ms */
    CO_AGAIN_CAREFUL,  /* at once, in the careful form */
    CO_MAKE_PARTITION, /* make the missing partition, then the same batch */
    CO_NEW_SESSION,    /* the same batch on a new connection */
    CO_SPLIT,          /* in two halves */
    CO_GIVE_UP         /* its one item is the guilty one */
};

/* What a batch has behind it. Halves inherit it, so that one guilty item costs a bounded number of statements. */
struct co_history {
    unsigned conflicts;
    bool careful, partition, session;
};

/* Retries that may be spent: each success earns a part of one, so that a storm of failures doesn't become one of retries. */
struct co_budget {
    int64_t millis, max_millis, earn_millis;
};

enum { CO_MAX_CONFLICTS = 4 };

/* A full budget of `max` retries that earns `earn_permille` of a retry with each success. */
void co_budget_init(struct co_budget *budget, int max, int earn_permille);
void co_budget_earn(struct co_budget *budget, size_t successes);
/* Whether one more retry may be made; it is then spent. */
bool co_budget_spend(struct co_budget *budget);

/* The next step for a batch of `n` items that failed. `history` is brought up to date; the budget is spent for CO_AGAIN. */
enum co_next co_judge(enum co_failure failure, size_t n, struct co_history *history, struct co_budget *budget);

/* Pause before the next look at a row that was busy `tries` times before this one: it grows from 5–10 ms to 50–100 ms. */
int64_t co_slow_pause_ms(unsigned tries, struct hb_random *random);

/* Full jitter before the repetition number `conflicts` (from 1): at most 5 ms · 2^conflicts, at most 100 ms, at least 1 ms. */
int64_t co_pause_ms(unsigned conflicts, struct hb_random *random);

/* Moves the later half of `batch` to the empty list `second`; of an odd number the first keeps one more. */
void co_split(struct list *batch, struct list *second);

#endif
