/*
 * oracle_fences.c - see oracle_fences.h.
 */
#include "robustness/oracle_fences.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MS = 1000000, VALUES = 2 };

int64_t oracle_margin_ns(int64_t ttl_ms)
{
    return (ttl_ms / 20 > 20 ? ttl_ms / 20 : 20) * MS;
}

static bool is_acquire(const struct history_call *call)
{
    return call->op == HISTORY_ACQUIRE && call->answer != HISTORY_REFUSED;
}

/* ------------------------------------------------------------------------------------------------ values */

/* The values of the fence that the call speaks of: the token that was asked about, and the fence that was told. */
static void values_of(const struct history_call *call, int64_t values[VALUES])
{
    const bool ok = call->answer == HISTORY_OK;
    values[0] = call->op == HISTORY_ACQUIRE || call->op == HISTORY_READ ? 0 : call->token;
    values[1] = 0;
    if (call->op == HISTORY_ACQUIRE)
        values[1] = ok || oracle_refused(call, HISTORY_ACQUIRE, "HELD ENDED") ? call->got_token : 0;
    else if (oracle_refused(call, HISTORY_BREAK, "CHANGED"))
        values[1] = call->got_token;
    else if (ok)
        values[1] = call->got_fence;
}

static int by_value(const void *a, const void *b)
{
    return oracle_compare(((const struct oracle_fence *)a)->value, ((const struct oracle_fence *)b)->value);
}

static void find_values(struct oracle_fences *fences, const struct oracle_group *group)
{
    size_t n = 0;
    for (size_t i = 0; i < group->n_calls; i++) {
        int64_t values[VALUES];
        values_of(group->calls[i], values);
        for (int k = 0; k < VALUES; k++)
            if (values[k] > 0)
                fences->list[n++] = (struct oracle_fence){.value = values[k],
                                                          .from = INT64_MIN,
                                                          .to = INT64_MAX,
                                                          .lives_until = INT64_MIN,
                                                          .let_go_from = INT64_MAX,
                                                          .over = INT64_MAX};
    }
    qsort(fences->list, n, sizeof(fences->list[0]), by_value);
    for (size_t i = 0; i < n; i++)
        if (fences->n == 0 || fences->list[fences->n - 1].value != fences->list[i].value)
            fences->list[fences->n++] = fences->list[i];
}

static struct oracle_fence *fence_of(struct oracle_fences *fences, int64_t value)
{
    const struct oracle_fence key = {.value = value};
    return value > 0 ? bsearch(&key, fences->list, fences->n, sizeof(key), by_value) : NULL;
}

/* ------------------------------------------------------------------------------------------------ what calls show */

static void known_by(struct oracle_fence *fence, const struct history_call *call)
{
    if (oracle_end(call) < fence->to) {
        fence->to = oracle_end(call);
        fence->known = call;
    }
}

static void over_by(struct oracle_fence *fence, const struct history_call *call)
{
    if (oracle_end(call) < fence->over) {
        fence->over = oracle_end(call);
        fence->over_by = call;
    }
}

static void lives_by(struct oracle_fence *fence, const struct history_call *call)
{
    const int64_t until = call->start_ns + (call->got_waited_ms + call->got_ttl_ms) * MS - oracle_margin_ns(call->got_ttl_ms);
    if (call->got_ttl_ms > 0 && until > fence->lives_until) {
        fence->lives_until = until;
        fence->lives_by = call;
    }
}

static void use(struct oracle_fences *fences, struct oracle_fence *fence, const struct history_call *call, bool lives)
{
    const bool ok = call->answer == HISTORY_OK || call->op == HISTORY_BREAK; /* which was refused, and told the fence */
    fences->uses[fences->n_uses++] = (struct oracle_use){
        .value = fence->value, .from = call->start_ns, .to = oracle_end(call), .call = call, .lives = lives, .maybe = !ok};
    if (ok)
        known_by(fence, call);
}

static void note_acquire(struct oracle_fences *fences, const struct history_call *call)
{
    struct oracle_fence *fence = fence_of(fences, call->got_token);
    if (!fence || call->answer == HISTORY_UNKNOWN)
        return;
    if (call->answer == HISTORY_REFUSED) { /* as old as it may be, it was there */
        if (oracle_refused(call, HISTORY_ACQUIRE, "HELD ENDED"))
            known_by(fence, call);
        if (oracle_refused(call, HISTORY_ACQUIRE, "ENDED"))
            over_by(fence, call);
        return;
    }
    lives_by(fence, call);
    use(fences, fence, call, true);
    if (!fence->granted || oracle_end(call) < oracle_end(fence->granted))
        fence->granted = call;
}

/* Calls that name a token tell of its lease: that it lives, may have ended, or is over. */
static void note_token(struct oracle_fences *fences, const struct history_call *call)
{
    struct oracle_fence *fence = fence_of(fences, call->token);
    const bool ends = call->op == HISTORY_RELEASE || call->op == HISTORY_BREAK, ok = call->answer == HISTORY_OK;
    if (!fence)
        return;
    if (ends && call->answer != HISTORY_REFUSED && call->start_ns < fence->let_go_from)
        fence->let_go_from = call->start_ns;
    if (call->op == HISTORY_RENEW)
        use(fences, fence, call, ok);
    if (oracle_is(call, HISTORY_RENEW, HISTORY_OK))
        lives_by(fence, call);
    if (oracle_is(call, HISTORY_RELEASE, HISTORY_OK))
        use(fences, fence, call, false);
    if (ends && ok)
        over_by(fence, call);
    if (oracle_refused(call, HISTORY_RENEW, "EXPIRED TAKEN_OVER RELEASED BROKEN") ||
        oracle_refused(call, HISTORY_WRITE, "STALE_TOKEN") || oracle_refused(call, HISTORY_DELETE, "STALE_TOKEN"))
        over_by(fence, call);
    /* Not held: it is over, or wasn't granted yet. */
    const bool was_granted = fence->granted && oracle_end(fence->granted) < call->start_ns;
    if (was_granted && (oracle_refused(call, HISTORY_RELEASE, "NOT_HELD") || oracle_refused(call, HISTORY_WRITE, "NOT_HELD") ||
                        oracle_refused(call, HISTORY_DELETE, "NOT_HELD")))
        over_by(fence, call);
}

/* Calls that were told the fence. */
static void note_fence(struct oracle_fences *fences, const struct history_call *call)
{
    const bool changed = oracle_refused(call, HISTORY_BREAK, "CHANGED"), ok = call->answer == HISTORY_OK;
    struct oracle_fence *fence = fence_of(fences, changed ? call->got_token : ok ? call->got_fence : 0);
    if (!fence)
        return;
    if (call->op != HISTORY_BREAK || changed)
        use(fences, fence, call, false);
    else
        known_by(fence, call);
}

static void note_changes(struct oracle_fences *fences, const struct oracle_group *group)
{
    for (size_t i = 0; i < group->n_told; i++) {
        const struct oracle_change *change = &group->changes[i];
        struct oracle_fence *fence = fence_of(fences, change->call->token);
        if (!fence)
            continue;
        use(fences, fence, change->call, true);
        struct oracle_use *use = &fences->uses[fences->n_uses - 1];
        use->version = change->call->got_version;
        use->from = change->from;
        use->to = change->to;
    }
}

/* ------------------------------------------------------------------------------------------------ requests */

static int by_request(const void *a, const void *b)
{
    const struct history_call *left = *(const struct history_call *const *)a, *right = *(const struct history_call *const *)b;
    int order = strcmp(left->request_id, right->request_id);
    return order ? order : oracle_compare(left->start_ns, right->start_ns);
}

/* The fence row remembers the request of its last grant. So a repeat can only be granted anew if another was granted in between. */
static bool another_between(const struct oracle_group *group, const struct history_call *one, const struct history_call *two)
{
    const int64_t low = one->got_token < two->got_token ? one->got_token : two->got_token,
                  high = one->got_token + two->got_token - low;
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *call = group->calls[i];
        if (is_acquire(call) && (!call->request_id[0] || strcmp(call->request_id, one->request_id) != 0) &&
            (call->answer == HISTORY_UNKNOWN || (call->got_token > low && call->got_token < high)))
            return high - low > 1;
    }
    return false;
}

/* All calls of one request, from the first that began; one without an id stands alone. */
static bool note_request(struct oracle_fences *fences, const struct oracle_group *group, const struct history_call *const *calls,
                         size_t n)
{
    const struct history_call *told = NULL;
    int64_t shortest = calls[0]->ttl_ms, longest = calls[0]->ttl_ms;
    bool no_renewal = true;
    for (size_t i = 0; i < n; i++) {
        shortest = calls[i]->ttl_ms < shortest ? calls[i]->ttl_ms : shortest;
        longest = calls[i]->ttl_ms > longest ? calls[i]->ttl_ms : longest;
        no_renewal &= calls[i]->no_renewal;
    }
    for (size_t i = 0; i < n; i++) {
        struct oracle_fence *fence = fence_of(fences, calls[i]->answer == HISTORY_OK ? calls[i]->got_token : 0);
        if (!fence)
            continue;
        if (fence->asked && fence->asked != calls[0])
            return oracle_wrong(group, calls[i], fence->granted, "one token was given to two requests: %" PRId64, fence->value);
        if (told && told->got_token != fence->value && !another_between(group, told, calls[i]))
            return oracle_wrong(group, calls[i], told, "a repeat was given another token than %" PRId64, told->got_token);
        told = calls[i];
        fence->asked = calls[0];
        fence->from = calls[0]->start_ns;
        fence->ttl_ms = shortest;
        fence->longest_ttl_ms = longest;
        fence->no_renewal = no_renewal;
    }
    return true;
}

static bool note_requests(struct oracle_fences *fences, const struct oracle_group *group)
{
    const struct history_call **list = malloc((group->n_calls + 1) * sizeof(const struct history_call *));
    size_t n = 0;
    bool good = true;
    if (!list)
        abort();
    for (size_t i = 0; i < group->n_calls; i++)
        if (is_acquire(group->calls[i]))
            list[n++] = group->calls[i];
    qsort(list, n, sizeof(list[0]), by_request);
    for (size_t i = 0, same; good && i < n; i += same) {
        for (same = 1; list[i]->request_id[0] && i + same < n; same++)
            if (strcmp(list[i + same]->request_id, list[i]->request_id) != 0)
                break;
        good = note_request(fences, group, list + i, same);
    }
    free(list);
    return good;
}

/* What a break raised the fence to came not before it. */
static void note_breaks(struct oracle_fences *fences, const struct oracle_group *group)
{
    for (size_t i = 0; i < group->n_calls; i++) {
        const struct history_call *call = group->calls[i];
        struct oracle_fence *fence = oracle_is(call, HISTORY_BREAK, HISTORY_OK) ? fence_of(fences, call->got_fence) : NULL;
        const struct oracle_fence *broken = fence ? fence_of(fences, call->token) : NULL;
        if (broken && !fence->asked) {
            fence->asked = call;
            fence->from = broken->let_go_from;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ all of it */

bool oracle_fences_find(struct oracle_fences *fences, const struct oracle_group *group)
{
    *fences = (struct oracle_fences){.list = calloc(group->n_calls * VALUES + 1, sizeof(fences->list[0])),
                                     .uses = calloc(group->n_calls * VALUES + group->n_told + 1, sizeof(fences->uses[0]))};
    if (!fences->list || !fences->uses)
        abort();
    find_values(fences, group);
    for (size_t i = 0; i < group->n_calls; i++) {
        if (group->calls[i]->op == HISTORY_ACQUIRE) {
            note_acquire(fences, group->calls[i]);
            continue;
        }
        note_token(fences, group->calls[i]);
        note_fence(fences, group->calls[i]);
    }
    note_changes(fences, group);
    bool good = note_requests(fences, group);
    note_breaks(fences, group);
    return good;
}

void oracle_fences_release(struct oracle_fences *fences)
{
    free(fences->list);
    free(fences->uses);
}

static int uses_by_version(const void *a, const void *b)
{
    const struct oracle_use *left = a, *right = b;
    int order = oracle_compare(left->value, right->value);
    order = order ? order : oracle_compare(left->version, right->version);
    return order ? order : oracle_compare(left->from, right->from);
}

static int uses_by_start(const void *a, const void *b)
{
    const struct oracle_use *left = a, *right = b;
    int order = oracle_compare(left->value, right->value);
    return order ? order : oracle_compare(left->from, right->from);
}

void oracle_sort_uses(struct oracle_fences *fences, bool by_version)
{
    qsort(fences->uses, fences->n_uses, sizeof(fences->uses[0]), by_version ? uses_by_version : uses_by_start);
}
