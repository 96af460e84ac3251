/*
 * backoff.h - when a call is tried again: full jitter, growing, within a budget that all calls of a client share.
 *
 * The delay before retry n is uniform in [0, min(cap, base * 2^n)] (M. Brooker, "Exponential Backoff And Jitter"), above the
 * server's RetryInfo if it gave one. Each retry takes a token of the budget; tokens come back with time and with success. When
 * they are spent, retries wait the whole cap, so that a server that is down is not met by a storm when it comes back. Pure: time
 * and randomness come in as arguments. The caller holds the client's lock.
 */
#ifndef HOLDFAST_CLIENT_BACKOFF_H
#define HOLDFAST_CLIENT_BACKOFF_H

#include <stdint.h>

enum { HFI_BACKOFF_BASE_MS = 20, HFI_BACKOFF_CAP_MS = 1000, HFI_BUDGET_MAX = 100, HFI_BUDGET_PER_S = 10 };

struct hfi_budget {
    int64_t millitokens;
    int64_t filled_ms;
};

void hfi_budget_init(struct hfi_budget *budget, int64_t now_ms);
void hfi_budget_success(struct hfi_budget *budget); /* a tenth of a token comes back */

/* Uniform in [0, min(cap, base * 2^n)]. */
int64_t hfi_jitter(unsigned n, int64_t base_ms, int64_t cap_ms, uint64_t random);

/* How long to wait before retry `n` (0 is the first); takes a token. */
int64_t hfi_retry_delay(struct hfi_budget *budget, unsigned n, int64_t retry_ms, int64_t now_ms, uint64_t random);

#endif
