/*
 * rule.h - P7: how long a client may believe in a lease.
 *
 * Pure: times come in as arguments (CLOCK_BOOTTIME in milliseconds). A rule is in one of two states, and moves once:
 *
 *     held --(deadline passed | definite LOST | released)--> over
 *
 * While held its deadline only moves forward, by renewals. Over is final: no answer, however good, brings it back.
 */
#ifndef HOLDFAST_CLIENT_RULE_H
#define HOLDFAST_CLIENT_RULE_H

#include <stdbool.h>
#include <stdint.h>

struct hfi_rule {
    int64_t ttl_ms;
    int64_t deadline_ms;
    const char *lost; /* why it is over, static; NULL = held */
};

#define HFI_LOSS_EXPIRED       "EXPIRED"
#define HFI_LOSS_TAKEN_OVER    "TAKEN_OVER"
#define HFI_LOSS_RELEASED      "RELEASED"
#define HFI_LOSS_BROKEN        "BROKEN"
#define HFI_LOSS_UNKNOWN_TOKEN "UNKNOWN_TOKEN"
#define HFI_LOSS_DEADLINE      "DEADLINE"

/* max(TTL/20, 20 ms): what the client stops short of the server's deadline. */
int64_t hfi_margin_ms(int64_t ttl_ms);

/* The rule of a grant: held until first_sent + waited + left - margin, where `first_sent_ms` was taken before the request's
 * first sending. False if that is past already: then it is over (DEADLINE). */
bool hfi_rule_grant(struct hfi_rule *rule, int64_t ttl_ms, int64_t first_sent_ms, int64_t waited_ms, int64_t left_ms,
                    int64_t now_ms);

/* A renewal sent at `sent_ms` was answered with `left_ms`. False if the rule is over, or was by now. */
bool hfi_rule_renewed(struct hfi_rule *rule, int64_t sent_ms, int64_t left_ms, int64_t now_ms);

/* Still held at `now_ms`; past the deadline the rule is over from now on. */
bool hfi_rule_held(struct hfi_rule *rule, int64_t now_ms);

/* Over, for this reason. True if it was held until now. */
bool hfi_rule_lose(struct hfi_rule *rule, const char *reason);

#endif
