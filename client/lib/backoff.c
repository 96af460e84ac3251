/* backoff.c - see backoff.h. */
#include "client/lib/backoff.h"

#include <stdbool.h>

void hfi_budget_init(struct hfi_budget *budget, int64_t now_ms)
{
    budget->millitokens = HFI_BUDGET_MAX * 1000;
    budget->filled_ms = now_ms;
}

static void give(struct hfi_budget *budget, int64_t millitokens)
{
    const int64_t room = HFI_BUDGET_MAX * 1000 - budget->millitokens;

    budget->millitokens += millitokens < room ? millitokens : room;
}

void hfi_budget_success(struct hfi_budget *budget)
{
    give(budget, 100);
}

static bool take(struct hfi_budget *budget, int64_t now_ms)
{
    int64_t passed = now_ms - budget->filled_ms;

    if (passed > 0) {
        if (passed > 60000)
            passed = 60000; /* more than fills it, and cannot overflow */
        give(budget, passed * HFI_BUDGET_PER_S);
        budget->filled_ms = now_ms;
    }
    if (budget->millitokens < 1000)
        return false;
    budget->millitokens -= 1000;
    return true;
}

int64_t hfi_jitter(unsigned n, int64_t base_ms, int64_t cap_ms, uint64_t random)
{
    int64_t limit = base_ms;

    while (n-- > 0 && limit < cap_ms)
        limit *= 2;
    if (limit > cap_ms)
        limit = cap_ms;
    return limit > 0 ? (int64_t)(random % (uint64_t)(limit + 1)) : 0;
}

int64_t hfi_retry_delay(struct hfi_budget *budget, unsigned n, int64_t retry_ms, int64_t now_ms, uint64_t random)
{
    int64_t delay = hfi_jitter(n, HFI_BACKOFF_BASE_MS, HFI_BACKOFF_CAP_MS, random);

    if (!take(budget, now_ms))
        delay += HFI_BACKOFF_CAP_MS;
    return retry_ms > 0 ? retry_ms + delay : delay;
}
