/* rule.c - see rule.h. */
#include "client/lib/rule.h"

#include <stddef.h>

int64_t hfi_margin_ms(int64_t ttl_ms)
{
    return ttl_ms / 20 > 20 ? ttl_ms / 20 : 20;
}

/* A server's numbers are not to be trusted with the arithmetic: more than was asked for is never believed. */
static int64_t clamp(int64_t value, int64_t max)
{
    if (value < 0)
        return 0;
    return value > max ? max : value;
}

bool hfi_rule_grant(struct hfi_rule *rule, int64_t ttl_ms, int64_t first_sent_ms, int64_t waited_ms, int64_t left_ms,
                    int64_t now_ms)
{
    rule->ttl_ms = ttl_ms;
    rule->lost = NULL;
    /* The grant cannot have waited longer at the server than the whole exchange took here. */
    rule->deadline_ms = first_sent_ms + clamp(waited_ms, now_ms - first_sent_ms) + clamp(left_ms, ttl_ms) - hfi_margin_ms(ttl_ms);
    return hfi_rule_held(rule, now_ms);
}

bool hfi_rule_renewed(struct hfi_rule *rule, int64_t sent_ms, int64_t left_ms, int64_t now_ms)
{
    int64_t deadline;

    if (!hfi_rule_held(rule, now_ms))
        return false;
    /* "Never shortens a lease": more than this renewal's TTL may remain from one with a longer TTL; the deadline known from that
     * one stands by itself, so that here too no more than the TTL is believed. */
    deadline = sent_ms + clamp(left_ms, rule->ttl_ms) - hfi_margin_ms(rule->ttl_ms);
    if (deadline > rule->deadline_ms)
        rule->deadline_ms = deadline;
    return true;
}

bool hfi_rule_held(struct hfi_rule *rule, int64_t now_ms)
{
    if (!rule->lost && now_ms >= rule->deadline_ms)
        rule->lost = HFI_LOSS_DEADLINE;
    return !rule->lost;
}

bool hfi_rule_lose(struct hfi_rule *rule, const char *reason)
{
    if (rule->lost)
        return false;
    rule->lost = reason;
    return true;
}
