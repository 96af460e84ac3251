/*
 * oracle_order.c - whether one resource's calls can have taken effect in an order that keeps P1, P2 and P3: a mutex with fences.
 *
 * To find such an order is a search in general, exponential in what overlaps. Here the answers leave none: tokens order the
 * grants, versions order the changes, and a change belongs after the grant of its token and before the next. What remains to be
 * asked is *when*: each call must have taken effect at one moment between its start and its end, in that order, and a grant not
 * before the former lease can have ended. The walk goes through the order and gives to each the earliest moment it can have had.
 * A later one would only push back what follows, so if the earliest is too late for the answer, every other is: what the walk
 * refuses has no legal order, and where it passes, the moments it gave are one. It costs two sorts and one pass.
 *
 * Calls with unknown answers may or may not have happened: they never push anything back, and they may be what ended a lease,
 * or have granted tokens that nobody was told of. A lease ends by its TTL at the earliest counted from its grant's earliest moment,
 * or as the answers said that remained, less the margin of P7, by which holders stop earlier; or since a release or break began
 * that wasn't refused; or by an upset (HISTORY_UPSET).
 */
#include "robustness/oracle_fences.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000000 };

/* Nothing that comes next can have happened before this moment, because of this call; what is wrong if something did. */
struct bound {
    int64_t at;
    const struct history_call *by;
    const char *rule;
};

struct walk {
    const struct oracle_group *group;
    const struct history_call **reads; /* by version */
    size_t n_reads, next_read;
    struct bound asked;   /* for higher values of the fence, by the starts of calls alone: for the simplest reason */
    struct bound tokens;  /* for higher values of the fence */
    struct bound free;    /* for the next grant */
    struct bound changed; /* for higher versions, and reads of this one */
    struct bound seen;    /* for higher versions */
    int64_t version;      /* of the last change, or read */
};

static void not_before(struct bound *bound, int64_t at, const struct history_call *by, const char *rule)
{
    if (at > bound->at)
        *bound = (struct bound){at, by, rule};
}

static bool too_late(const struct walk *walk, const struct bound *bound, const struct history_call *call, int64_t to)
{
    return oracle_wrong(walk->group, call, bound->by, "%s (%.3f ms)", bound->rule, (double)(bound->at - to) / MS);
}

/* ------------------------------------------------------------------------------------------------ ends of leases */

static bool concerns(const struct history_call *upset, const struct walk *walk)
{
    return !upset->resource[0] || (walk->group->n_calls && !strcmp(upset->resource, walk->group->calls[0]->resource));
}

/* The first upset that ended at this moment or later; NULL if none did. */
static const struct history_call *upset_since(const struct walk *walk, int64_t at)
{
    for (size_t i = 0; i < walk->group->n_upsets; i++)
        if (concerns(walk->group->upsets[i], walk) && oracle_end(walk->group->upsets[i]) >= at)
            return walk->group->upsets[i];
    return NULL;
}

/* From when on the lease that was granted at this moment, at the earliest, may be over. */
static struct bound end_of(const struct walk *walk, const struct oracle_fence *fence, int64_t granted_at)
{
    const char *rule = "granted while the lease before it cannot have ended";
    struct bound end = {granted_at, fence->granted, rule};
    const struct history_call *upset = upset_since(walk, granted_at);
    not_before(&end, granted_at + fence->ttl_ms * MS - oracle_margin_ns(fence->ttl_ms), fence->granted, rule);
    not_before(&end, fence->lives_until, fence->lives_by, rule);
    if (fence->let_go_from < end.at)
        end.at = fence->let_go_from;
    if (upset && upset->start_ns < end.at)
        end.at = upset->start_ns;
    return end;
}

/* Where all renewals are known: was the lease used when it must have run out? The uses by their start: each needs a lease that
 * lived then, which those that began later did not prolong. A renewal may arrive once more, late, acknowledged or not: so
 * each may have added its TTL. */
static bool check_run_out(struct walk *walk, const struct oracle_fence *fence, const struct oracle_use *uses, size_t n)
{
    if (!fence->granted || !fence->no_renewal || fence->ttl_ms <= 0 || upset_since(walk, fence->from))
        return true;
    int64_t until = oracle_end(fence->granted) + fence->longest_ttl_ms * MS, more = 0;
    for (size_t i = 0; i < n; i++) {
        const struct oracle_use *use = &uses[i];
        const int64_t late = use->from - until - more - oracle_margin_ns(fence->longest_ttl_ms);
        if (use->lives && late > 0)
            return oracle_wrong(walk->group, use->call, fence->granted, "accepted after its lease had run out (%.3f ms)",
                                (double)late / MS);
        if (use->call->op != HISTORY_RENEW)
            continue;
        more += use->call->ttl_ms * MS;
        if (use->lives && use->to + (use->call->got_ttl_ms + 1) * MS > until)
            until = use->to + (use->call->got_ttl_ms + 1) * MS;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ reads and changes */

/* What is read or written next has a higher version: it comes after all that was seen of the one before. */
static void next_version(struct walk *walk, int64_t version)
{
    if (version > walk->version && walk->seen.at > walk->changed.at)
        walk->changed = walk->seen;
    walk->version = version;
}

/* Reads of versions below this one. */
static bool walk_reads(struct walk *walk, int64_t version)
{
    for (; walk->next_read < walk->n_reads && walk->reads[walk->next_read]->got_version < version; walk->next_read++) {
        const struct history_call *read = walk->reads[walk->next_read];
        next_version(walk, read->got_version);
        if (walk->changed.at > oracle_end(read))
            return too_late(walk, &walk->changed, read, oracle_end(read));
        not_before(&walk->seen, walk->changed.at > read->start_ns ? walk->changed.at : read->start_ns, read,
                   "a read shows an older version than was acknowledged before");
    }
    return true;
}

/* The change, made at *moment or later. A delete may have been one of nothing, which leaves the version: reads of it may be older.
 */
static bool walk_change(struct walk *walk, const struct oracle_use *use, struct bound *moment)
{
    if (!walk_reads(walk, use->version))
        return false;
    next_version(walk, use->version);
    if (walk->changed.at > moment->at)
        *moment = walk->changed;
    if (moment->at > use->to)
        return too_late(walk, moment, use->call, use->to);
    not_before(use->call->op == HISTORY_WRITE ? &walk->changed : &walk->seen, moment->at, use->call,
               "a version shows before it was made, or versions fell");
    return true;
}

/* ------------------------------------------------------------------------------------------------ the walk */

/* What shows that the fence had this value, `since` then; *tokens: what it means for higher ones. */
static bool walk_use(struct walk *walk, const struct oracle_fence *fence, const struct oracle_use *use, const struct bound *since,
                     struct bound *tokens)
{
    const bool over_counts = fence->over < INT64_MAX && !upset_since(walk, fence->over);
    struct bound moment = *since;
    if (use->maybe)
        return true;
    not_before(&moment, use->from, use->call, "");
    if (use->version > 0 && !walk_change(walk, use, &moment))
        return false;
    if (use->lives && over_counts && moment.at > fence->over)
        return oracle_wrong(walk->group, use->call, fence->over_by,
                            "accepted after the end of its lease had been acknowledged (%.3f ms)",
                            (double)(moment.at - fence->over) / MS);
    const char *rule = use->lives ? "accepted under an old token after a newer one had been acknowledged"
                                  : "taken for the newest after a higher one had been acknowledged";
    not_before(&walk->asked, use->from, use->call, rule);
    not_before(tokens, moment.at, use->call, rule);
    return true;
}

static bool walk_fence(struct walk *walk, const struct oracle_fence *fence, const struct oracle_use *uses, size_t n)
{
    struct bound moment = walk->tokens;
    if (walk->asked.at > fence->to)
        return too_late(walk, &walk->asked, fence->known, fence->to);
    if (fence->granted && walk->free.at > moment.at)
        moment = walk->free;
    not_before(&moment, fence->from, fence->asked, "a token or fence was known before it was asked for");
    if (moment.at > fence->to)
        return too_late(walk, &moment, fence->known, fence->to);
    struct bound tokens = moment;
    not_before(&walk->asked, fence->from, fence->asked, "tokens fell: a lower one was asked for after this was known");
    for (size_t i = 0; i < n; i++)
        if (!walk_use(walk, fence, &uses[i], &moment, &tokens))
            return false;
    walk->tokens = tokens;
    if (fence->granted) {
        const struct bound end = end_of(walk, fence, moment.at);
        not_before(&walk->free, end.at, end.by, end.rule);
    }
    return true;
}

/* Calls fn for each value of the fence with its uses. */
static bool each_fence(struct walk *walk, const struct oracle_fences *fences,
                       bool (*fn)(struct walk *walk, const struct oracle_fence *fence, const struct oracle_use *uses, size_t n))
{
    for (size_t i = 0, first = 0, n; i < fences->n; i++, first += n) {
        for (n = 0; first + n < fences->n_uses && fences->uses[first + n].value == fences->list[i].value;)
            n++;
        if (!fn(walk, &fences->list[i], fences->uses + first, n))
            return false;
    }
    return true;
}

static int reads_by_version(const void *a, const void *b)
{
    const struct history_call *left = *(const struct history_call *const *)a, *right = *(const struct history_call *const *)b;
    return oracle_compare(left->got_version, right->got_version);
}

static bool walk_all(const struct oracle_group *group, struct oracle_fences *fences)
{
    const struct bound none = {INT64_MIN, NULL, ""};
    struct walk walk = {.group = group, .asked = none, .tokens = none, .free = none, .changed = none, .seen = none, .version = -1};
    walk.reads = malloc((group->n_calls + 1) * sizeof(const struct history_call *));
    if (!walk.reads)
        abort();
    for (size_t i = 0; i < group->n_calls; i++)
        if (oracle_is(group->calls[i], HISTORY_READ, HISTORY_OK))
            walk.reads[walk.n_reads++] = group->calls[i];
    qsort(walk.reads, walk.n_reads, sizeof(walk.reads[0]), reads_by_version);
    oracle_sort_uses(fences, true);
    bool good = each_fence(&walk, fences, walk_fence) && walk_reads(&walk, INT64_MAX);
    if (good) {
        oracle_sort_uses(fences, false);
        good = each_fence(&walk, fences, check_run_out);
    }
    free(walk.reads);
    return good;
}

bool oracle_check_order(const struct oracle_group *group)
{
    struct oracle_fences fences;
    bool good = oracle_fences_find(&fences, group) && walk_all(group, &fences);
    oracle_fences_release(&fences);
    return good;
}
