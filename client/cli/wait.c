/*
 * wait.c - pauses between tries. Many may wait for one resource, so each pause is random.
 */
#include "client/cli/wait.h"

#include <sys/random.h>

#include "client/lib/call.h"

void wait_begin(struct wait *wait, int64_t wait_ms)
{
    int64_t now = hfi_boot_ms();

    wait->until_ms = wait_ms > INT64_MAX - now ? INT64_MAX : now + wait_ms;
    wait->cap_ms = WAIT_FIRST_MS;
}

int64_t wait_pause_ms(struct wait *wait)
{
    int64_t left = wait->until_ms - hfi_boot_ms();
    uint32_t random = 0;

    if (left <= 0)
        return -1;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        random = (uint32_t)left;
    int64_t pause = wait->cap_ms / 2 + (int64_t)random % (wait->cap_ms / 2) + 1;
    wait->cap_ms = wait->cap_ms * 2 > WAIT_MAX_MS ? WAIT_MAX_MS : wait->cap_ms * 2;
    return pause < left ? pause : left;
}
