/*
 * clock.h - the machine's clocks, in milliseconds but for one. Only the loop and programs' edges read them; everything else is
 * given `now` as an argument, or asks the io port.
 */
#ifndef HOLDFAST_BASE_CLOCK_H
#define HOLDFAST_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC: stands still while the machine is suspended. For timers and timeouts. */
int64_t hb_monotonic_ms(void);
/* The same in nanoseconds: to measure how long something takes. */
int64_t hb_monotonic_ns(void);
/* CLOCK_BOOTTIME: counts through suspend. For local lease deadlines. */
int64_t hb_boottime_ms(void);
/* CLOCK_REALTIME since 1970, UTC: to be shown (logs, HTTP's Date), never for a decision. */
int64_t hb_unix_ms(void);

#endif
