/*
 * rate.h - how often somebody may: a token bucket. No clock: `now` is handed in, in milliseconds that never go back.
 *
 * A bucket holds up to `burst` tokens, gets `per_second` of them each second, and gives one for each thing done. So no span of t
 * seconds sees more than burst + per_second × t. It starts full. Zero it.
 */
#ifndef HOLDFAST_CORE_RATE_H
#define HOLDFAST_CORE_RATE_H

#include <stdint.h>

struct co_rate {
    int64_t missing; /* thousandths of a token: 0 = full */
    int64_t at_ms;   /* as of then */
};

/* 0: one was taken. Otherwise nothing was, and there is one in so many milliseconds (1 or more). per_second 0: there is no limit;
 * burst 0: as many as come in a second. What a bucket holds is kept when its numbers change. Neither is above 1,000,000. */
int64_t co_rate_take(struct co_rate *rate, int64_t per_second, int64_t burst, int64_t now_ms);

#endif
