/*
 * oracle_fences.h - what one resource's calls tell of its fence and its leases, put into the order of tokens: for oracle_order.c.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_ORACLE_FENCES_H
#define HOLDFAST_TESTS_ROBUSTNESS_ORACLE_FENCES_H

#include "robustness/oracle_group.h"

/* A value that the fence had or may have had: a token, or what a break raised it to. Times are INT64_MIN or INT64_MAX where nothing
 * is known, calls NULL. */
struct oracle_fence {
    int64_t value;

    /* the fence came to it between */
    int64_t from, to;
    const struct history_call *asked; /* the first that can have brought it there */
    const struct history_call *known; /* the first that shows it was there */

    /* if somebody was told that this token was granted to him */
    const struct history_call *granted; /* the first call that was told so */
    int64_t ttl_ms, longest_ttl_ms;     /* of all calls that can have been it */
    bool no_renewal;                    /* all renewals of the lease are in the history */
    int64_t lives_until;                /* by the answers: it can't run out before (but see oracle_margin_ns) */
    const struct history_call *lives_by;
    int64_t let_go_from; /* the first release or break of it, that may have happened, began */
    int64_t over;        /* by then it was over: somebody was told so */
    const struct history_call *over_by;
};

/* What shows that the fence had this value at some moment between. */
struct oracle_use {
    int64_t value;
    int64_t version; /* of a change; otherwise 0 */
    int64_t from, to;
    const struct history_call *call;
    bool lives; /* and that its lease lived */
    bool maybe; /* a renewal that wasn't acknowledged: shows nothing, but it may have happened */
};

struct oracle_fences {
    struct oracle_fence *list; /* by value */
    size_t n;
    struct oracle_use *uses; /* by value, and then in the order of oracle_sort_uses */
    size_t n_uses;
};

/* False if something was wrong (see oracle_wrong). Always oracle_fences_release it. */
bool oracle_fences_find(struct oracle_fences *fences, const struct oracle_group *group);
void oracle_fences_release(struct oracle_fences *fences);

/* Within one value: by version (those without come first), or by `from`. */
void oracle_sort_uses(struct oracle_fences *fences, bool by_version);

/* How far the local deadline of P7 lies before the end of a lease of this TTL; so much the history is forgiven about ends. */
int64_t oracle_margin_ns(int64_t ttl_ms);

#endif
