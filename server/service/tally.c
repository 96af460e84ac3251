/*
 * tally.c - see tally.h.
 */
#include "service/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/moves.h"
#include "service/operation.h"

enum { ATTEMPTS = 16, SQLSTATES = 50, NAME_BYTES = 260, NS_BYTES = 257, KEPT = 64, TOLD = 20 };

/* Calls that are refused because of their token. */
enum stale { STALE_WRITE, STALE_RENEW, STALE_SENDING, STALE_COMPLETE, STALE_FAIL, STALE_UNKNOWN, STALE_EXECUTE, N_STALE };
static const char *const stale_names[N_STALE] = {"Write", "Renew", "MarkSending", "Complete", "Fail", "MarkUnknown", "Execute"};

struct contended {
    uint64_t hash;
    int64_t weight; /* how often since it came, and of those that had its place before it */
    int64_t busy, held;
    char ns[NS_BYTES], name[NAME_BYTES];
};

struct svc_tally {
    int64_t started, replays, conflicts, in_progress, stale[N_STALE];
    int64_t attempts[ATTEMPTS], finished, all_attempts, succeeded, succeeded_after_retry, exhausted;
    struct {
        char state[6];
        int64_t count;
    } sqlstates[SQLSTATES];
    size_t n_sqlstates, n_contended;
    struct contended contended[KEPT];
};

struct svc_tally *svc_tally_new(void)
{
    return calloc(1, sizeof(struct svc_tally));
}

void svc_tally_free(struct svc_tally *tally)
{
    free(tally);
}

/* ---- contention ---- */

static struct contended *slot(struct svc_tally *tally, const char *ns, const char *prefix, const char *name)
{
    uint64_t hash = hb_hash_str(hb_hash_str(hb_hash_str(HB_HASH_SEED, ns), prefix), name);
    size_t n = tally->n_contended, least = 0;
    for (size_t i = 0; i < n; i++) {
        struct contended *at = &tally->contended[i];
        if (at->hash == hash && !strcmp(at->ns, ns) && !strncmp(at->name, prefix, strlen(prefix)) &&
            !strcmp(at->name + strlen(prefix), name))
            return at;
        if (at->weight < tally->contended[least].weight)
            least = i;
    }
    if (n < KEPT)
        least = tally->n_contended++;
    struct contended *at = &tally->contended[least];
    at->hash = hash;
    at->busy = at->held = 0;
    snprintf(at->ns, sizeof(at->ns), "%s", ns);
    snprintf(at->name, sizeof(at->name), "%s%s", prefix, name);
    return at;
}

static void contend(struct svc_tally *tally, const struct st_item *item)
{
    bool busy = item->outcome == ST_BUSY, held = item->outcome == ST_HELD || item->outcome == ST_OP_IN_PROGRESS;
    if ((!busy && !held) || !item->resource)
        return;
    const char *name = item->resource;
    if (item->kind == ST_ACQUIRE_ALL && held && item->out.acquire.which < item->in.acquire.n_resources)
        name = item->in.acquire.resources[item->out.acquire.which];
    bool operation = item->kind >= ST_OP_BEGIN && item->kind <= ST_OP_COMPENSATE;
    struct contended *at = slot(tally, item->ns, operation ? "op:" : "", name);
    at->weight++;
    at->busy += busy;
    at->held += held;
}

/* ---- operations ---- */

static void sqlstate(struct svc_tally *tally, const char *state)
{
    size_t n = tally->n_sqlstates;
    if (!state || strlen(state) != 5)
        return;
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(tally->sqlstates[i].state, state)) {
            tally->sqlstates[i].count++;
            return;
        }
    }
    if (n == SQLSTATES)
        return;
    memcpy(tally->sqlstates[n].state, state, 6);
    tally->sqlstates[n].count = 1;
    tally->n_sqlstates++;
}

/* An operation has come to its end, by what this server did. */
static void finished(struct svc_tally *tally, int64_t attempts)
{
    int64_t n = attempts > 0 ? attempts : 1;
    tally->attempts[n < ATTEMPTS ? n - 1 : ATTEMPTS - 1]++;
    tally->finished++;
    tally->all_attempts += n;
}

static void finish(struct svc_tally *tally, const struct st_item *item)
{
    const struct st_op_moved *moved = &item->out.op_moved;
    if (item->outcome != ST_OP_DONE)
        return;
    if (item->in.op_finish.call == ST_OP_FAIL)
        sqlstate(tally, item->in.op_finish.sqlstate);
    tally->exhausted += moved->exhausted;
    if (!co_ended(moved->state))
        return;
    finished(tally, moved->attempts);
    tally->succeeded += moved->state == CO_SUCCEEDED;
    tally->succeeded_after_retry += moved->succeeded_after_retry;
}

static void begun(struct svc_tally *tally, const struct st_item *item)
{
    enum st_outcome outcome = item->outcome;
    bool done = outcome == ST_OP_DONE && (item->kind == ST_OP_RECORD || item->kind == ST_OP_EXECUTE);
    tally->started += outcome == ST_OP_STARTED || done;
    tally->replays += outcome == ST_OP_REPLAYED || outcome == ST_OP_REPLAYED_FAILED || outcome == ST_OP_REPLAYED_CANCELLED;
    tally->conflicts += outcome == ST_OP_CONFLICT;
    tally->in_progress += outcome == ST_OP_IN_PROGRESS;
    if (outcome == ST_OP_RAISED)
        sqlstate(tally, item->out.op.sqlstate);
    if (done) {
        finished(tally, item->out.op.attempt);
        tally->succeeded++;
    }
}

/* Whose token was refused; N_STALE = nobody's. */
static enum stale stale(const struct st_item *item)
{
    bool operation = item->outcome == ST_OP_STALE || item->outcome == ST_OP_NOT_HELD;
    switch (item->kind) {
    case ST_WRITE:
        return item->outcome == ST_STALE || item->outcome == ST_NOT_HELD ? STALE_WRITE : N_STALE;
    case ST_RENEW:
    case ST_OP_RENEW:
        return item->outcome >= ST_EXPIRED && item->outcome <= ST_UNKNOWN_TOKEN ? STALE_RENEW : N_STALE;
    case ST_OP_SENDING:
        return operation ? STALE_SENDING : N_STALE;
    case ST_OP_FINISH:
        return !operation                                  ? N_STALE
               : item->in.op_finish.call == ST_OP_COMPLETE ? STALE_COMPLETE
               : item->in.op_finish.call == ST_OP_FAIL     ? STALE_FAIL
                                                           : STALE_UNKNOWN;
    case ST_OP_EXECUTE:
        return item->outcome == ST_OP_STALE_RESOURCE || item->outcome == ST_OP_RESOURCE_NOT_HELD ? STALE_EXECUTE : N_STALE;
    default:
        return N_STALE;
    }
}

void svc_tally_item(struct svc *svc, const struct st_item *item)
{
    struct svc_tally *tally = svc->tally;
    enum stale refused = stale(item);
    if ((unsigned)item->outcome < SVC_OUTCOMES)
        svc->outcomes[item->outcome]++;
    if (refused < N_STALE)
        tally->stale[refused]++;
    if (item->kind == ST_OP_BEGIN || item->kind == ST_OP_RECORD || item->kind == ST_OP_EXECUTE)
        begun(tally, item);
    else if (item->kind == ST_OP_FINISH)
        finish(tally, item);
    contend(tally, item);
}

/* ---- telling ---- */

/* Room for `n` counts in the response. False: no memory. */
static bool counts(struct hp_arena *arena, size_t n, Holdfast__V1__ItemCount ***out)
{
    Holdfast__V1__ItemCount *list = hp_alloc_array(arena, n, sizeof(*list));
    *out = hp_alloc_array(arena, n, sizeof(**out));
    if (!list || !*out)
        return false;
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__item_count__init(&list[i]);
        (*out)[i] = &list[i];
    }
    return true;
}

bool svc_tally_operations(struct svc_call *sc, Holdfast__V1__OperationStats *out)
{
    struct svc_tally *tally = sc->svc->tally;
    out->started = tally->started;
    out->replays = tally->replays;
    out->conflicts = tally->conflicts;
    out->in_progress = tally->in_progress;
    out->succeeded = tally->succeeded;
    out->succeeded_after_retry = tally->succeeded_after_retry;
    out->exhausted = tally->exhausted;
    out->amplification = tally->finished ? (double)tally->all_attempts / (double)tally->finished : 0;
    out->attempts = tally->attempts;
    out->n_attempts = ATTEMPTS;
    while (out->n_attempts && !tally->attempts[out->n_attempts - 1])
        out->n_attempts--;
    if (!counts(sc->arena, N_STALE, &out->stale_tokens) || !counts(sc->arena, tally->n_sqlstates, &out->sqlstates))
        return false;
    for (size_t i = 0; i < N_STALE; i++) {
        out->stale_tokens[i]->name = svc_unconst(stale_names[i]);
        out->stale_tokens[i]->count = tally->stale[i];
    }
    for (size_t i = 0; i < tally->n_sqlstates; i++) {
        out->sqlstates[i]->name = tally->sqlstates[i].state;
        out->sqlstates[i]->count = tally->sqlstates[i].count;
    }
    out->n_stale_tokens = N_STALE;
    out->n_sqlstates = tally->n_sqlstates;
    return true;
}

static int most_first(const void *a, const void *b)
{
    const struct contended *x = *(struct contended *const *)a, *y = *(struct contended *const *)b;
    int64_t of_x = x->busy + x->held, of_y = y->busy + y->held;
    return of_x < of_y ? 1 : of_x > of_y ? -1 : 0;
}

bool svc_tally_contention(struct svc_call *sc, Holdfast__V1__StatsResponse *out)
{
    struct svc_tally *tally = sc->svc->tally;
    struct contended *order[KEPT];
    size_t n = tally->n_contended;
    for (size_t i = 0; i < n; i++)
        order[i] = &tally->contended[i];
    qsort(order, n, sizeof(order[0]), most_first);
    if (n > TOLD)
        n = TOLD;
    Holdfast__V1__Contention *list = hp_alloc_array(sc->arena, n, sizeof(*list));
    out->contention = hp_alloc_array(sc->arena, n, sizeof(*out->contention));
    if (!list || !out->contention)
        return false;
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__contention__init(&list[i]);
        list[i].namespace_ = order[i]->ns;
        list[i].name = order[i]->name;
        list[i].busy = order[i]->busy;
        list[i].held = order[i]->held;
        out->contention[i] = &list[i];
    }
    out->n_contention = n;
    return true;
}
