/*
 * wait.h - asking again for a resource that is held: pauses with jitter, growing to half a second, until the wait is over.
 */
#ifndef HOLDFAST_CLI_WAIT_H
#define HOLDFAST_CLI_WAIT_H

#include <stdint.h>

enum { WAIT_FIRST_MS = 50, WAIT_MAX_MS = 500 };

struct wait {
    int64_t until_ms; /* CLOCK_BOOTTIME */
    int64_t cap_ms;   /* of the next pause */
};

/* The wait lasts `wait_ms` from now; 0 = try once. */
void wait_begin(struct wait *wait, int64_t wait_ms);
/* How long to pause before the next try: 1 to 500 ms, cut at the end of the wait. -1: the wait is over. */
int64_t wait_pause_ms(struct wait *wait);

#endif
