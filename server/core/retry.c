/*
 * retry.c - see retry.h.
 */
#include "core/retry.h"

void co_budget_init(struct co_budget *budget, int max, int earn_permille)
{
    *budget = (struct co_budget){.max_millis = (int64_t)max * 1000, .millis = (int64_t)max * 1000, .earn_millis = earn_permille};
}

void co_budget_earn(struct co_budget *budget, size_t successes)
{
    int64_t room = budget->max_millis - budget->millis;
    if (budget->earn_millis > 0 && successes >= (size_t)(room / budget->earn_millis) + 1)
        budget->millis = budget->max_millis;
    else
        budget->millis += (int64_t)successes * budget->earn_millis;
}

bool co_budget_spend(struct co_budget *budget)
{
    if (budget->millis < 1000)
        return false;
    budget->millis -= 1000;
    return true;
}

enum co_next co_judge(enum co_failure failure, size_t n, struct co_history *history, struct co_budget *budget)
{
    switch (failure) {
    case CO_OVERTAKEN:
        if (!history->careful) {
            history->careful = true;
            return CO_AGAIN_CAREFUL;
        }
        /* The careful form doesn't raise this by itself: someone else did. */
        __attribute__((fallthrough));
    case CO_CONFLICT:
        if (history->conflicts < CO_MAX_CONFLICTS && co_budget_spend(budget)) {
            history->conflicts++;
            return CO_AGAIN;
        }
        break;
    case CO_PARTITION:
        if (!history->partition) {
            history->partition = true;
            return CO_MAKE_PARTITION;
        }
        break;
    case CO_PLAN:
        if (!history->session) {
            history->session = true;
            return CO_NEW_SESSION;
        }
        return CO_GIVE_UP; /* halves would fare no better */
    case CO_LOCKED:
    case CO_GUILTY:
        break;
    }
    return n > 1 ? CO_SPLIT : CO_GIVE_UP;
}

int64_t co_pause_ms(unsigned conflicts, struct hb_random *random)
{
    int64_t ms = hb_jitter_ms(random, 5, 100, conflicts);
    return ms > 0 ? ms : 1;
}

int64_t co_slow_pause_ms(unsigned tries, struct hb_random *random)
{
    int64_t most = tries < 4 ? INT64_C(10) << tries : 100;
    return most / 2 + (int64_t)hb_random_below(random, (uint64_t)(most / 2) + 1);
}

void co_split(struct list *batch, struct list *second)
{
    size_t move = batch->count / 2;
    while (move-- > 0) {
        struct list_node *last = batch->head.prev;
        list_remove(batch, last);
        list_push_front(second, last);
    }
}
