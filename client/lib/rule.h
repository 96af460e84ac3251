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

/*
 * Why a grant is never believed in for too long. Let a try of an acquire be sent at S, received at R, decided by the granting (or,
 * for a repeat, the finding) statement at D, by the database's clock at which `left` remained. S <= R <= D, and the lease ends at
 * D + left. `waited` counts from R to D or less, so S + waited + left <= D + left, for whichever try the answer belongs to.
 *
 * With repeats the answer is that of the last try, and its own S would do if `waited` surely counted from its own R. But a server
 * may have merged the repeat with the first try's waiter, and another server counts from its own receipt only; so the first S is
 * used, which is right in both cases (S1 <= R1 <= R2): it can only understate. "First" is the first try that may have had an
 * effect: one that was surely refused, or never sent, is nobody's grant. What a long wait at a dead server thus takes off a grant
 * of the next one is found out again by a renewal, which has no such doubt (acquire.c, confirm).
 */
/* A grant: held until first_sent + waited + left - margin, where `first_sent_ms` was taken before the request's
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
