/*
 * admin.c - AdminService: Stats, AdvanceFences. What concerns namespaces is in namespaces.c.
 */
#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "proto/c/wire.h"
#include "service/auth.h"
#include "service/check.h"
#include "service/scope.h"
#include "service/tally.h"

static char *unconst(const char *text)
{
    return (char *)(uintptr_t)text; /* messages are packed, not changed */
}

/* ---- Stats ---- */

/* What became of items, in words. */
static const struct {
    enum st_outcome outcome;
    const char *name;
} outcome_names[] = {
    {ST_GRANTED, "granted"},
    {ST_REPEATED, "grant_repeated"},
    {ST_HELD, "held"},
    {ST_ENDED, "ended"},
    {ST_BUSY, "busy"},
    {ST_RENEWED, "renewed"},
    {ST_EXPIRED, "lost_expired"},
    {ST_TAKEN_OVER, "lost_taken_over"},
    {ST_RELEASED, "lost_released"},
    {ST_BROKEN, "lost_broken"},
    {ST_UNKNOWN_TOKEN, "lost_unknown_token"},
    {ST_FREED, "released"},
    {ST_NOT_FREED, "release_not_held"},
    {ST_WRITTEN, "written"},
    {ST_REPLAYED, "write_replayed"},
    {ST_STALE, "stale_token"},
    {ST_NOT_HELD, "not_held"},
    {ST_VERSION_MISMATCH, "version_mismatch"},
    {ST_SUPERSEDED, "superseded"},
    {ST_CURRENT, "current"},
    {ST_FOUND, "found"},
    {ST_NO_SUCH_RESOURCE, "no_such_resource"},
    {ST_BREAK_DONE, "broken"},
    {ST_BREAK_CHANGED, "break_changed"},
    {ST_BREAK_BLOCKED, "break_blocked"},
    {ST_QUOTA, "quota"},
    {ST_TTL_BOUNDS, "ttl_bounds"},
    {ST_OP_STARTED, "op_started"},
    {ST_OP_STARTED_AGAIN, "op_started_again"},
    {ST_OP_REPLAYED, "op_replayed"},
    {ST_OP_REPLAYED_FAILED, "op_replayed_failed"},
    {ST_OP_REPLAYED_CANCELLED, "op_replayed_cancelled"},
    {ST_OP_IN_PROGRESS, "op_in_progress"},
    {ST_OP_UNKNOWN, "op_unknown"},
    {ST_OP_REVIEW, "op_review"},
    {ST_OP_CONFLICT, "op_conflict"},
    {ST_OP_DONE, "op_done"},
    {ST_OP_DONE_AGAIN, "op_done_again"},
    {ST_OP_STALE, "op_stale_token"},
    {ST_OP_NOT_HELD, "op_not_held"},
    {ST_OP_ILLEGAL, "op_illegal_state"},
    {ST_OP_REVISION, "op_revision_mismatch"},
    {ST_OP_NONE, "no_such_operation"},
    {ST_OP_NO_ACTION, "no_such_action"},
    {ST_OP_RAISED, "action_raised"},
    {ST_OP_STALE_RESOURCE, "action_stale_token"},
    {ST_OP_RESOURCE_NOT_HELD, "action_not_held"},
    {ST_OP_VERSION, "action_version_mismatch"},
    {ST_NO_SUCH_NAMESPACE, "no_such_namespace"},
    {ST_OUTCOME_LOST, "outcome_lost"},
    {ST_DATABASE_DOWN, "database_down"},
    {ST_QUEUE_FULL, "queue_full"},
    {ST_TIMED_OUT, "timed_out"},
    {ST_FAILED, "failed"},
};

enum { N_OUTCOMES = sizeof(outcome_names) / sizeof(outcome_names[0]) };

static bool add_outcomes(struct svc_call *sc, Holdfast__V1__StatsResponse *out)
{
    Holdfast__V1__ItemCount *counts = hp_alloc_array(sc->arena, N_OUTCOMES, sizeof(*counts));
    out->outcomes = hp_alloc_array(sc->arena, N_OUTCOMES, sizeof(*out->outcomes));
    if (!counts || !out->outcomes)
        return false;
    for (size_t i = 0; i < N_OUTCOMES; i++) {
        holdfast__v1__item_count__init(&counts[i]);
        counts[i].name = unconst(outcome_names[i].name);
        counts[i].count = sc->svc->outcomes[outcome_names[i].outcome];
        out->outcomes[i] = &counts[i];
    }
    out->n_outcomes = N_OUTCOMES;
    return true;
}

/* Counts by reason, those that are 0 left out. False: no memory. */
static bool add_reasons(struct svc_call *sc, const int64_t counts[SVC_ERRORS], Holdfast__V1__ReasonCount ***list, size_t *n_list)
{
    size_t n = 0;
    for (int i = 0; i < SVC_ERRORS; i++)
        n += counts[i] > 0;
    if (!n)
        return true;
    Holdfast__V1__ReasonCount *reasons = hp_alloc_array(sc->arena, n, sizeof(*reasons));
    *list = hp_alloc_array(sc->arena, n, sizeof(**list));
    if (!reasons || !*list)
        return false;
    for (int i = 0; i < SVC_ERRORS; i++) {
        if (!counts[i])
            continue;
        Holdfast__V1__ReasonCount *reason = &reasons[*n_list];
        holdfast__v1__reason_count__init(reason);
        reason->reason = unconst(hp_reason_name(i));
        reason->count = counts[i];
        (*list)[(*n_list)++] = reason;
    }
    return true;
}

/* A row for each method, and one named "" for calls to methods that don't exist. */
static bool add_methods(struct svc_call *sc, Holdfast__V1__StatsResponse *out)
{
    size_t n;
    const struct svc_method *methods = svc_methods(&n);
    Holdfast__V1__MethodStats *rows = hp_alloc_array(sc->arena, n + 1, sizeof(*rows));
    out->methods = hp_alloc_array(sc->arena, n + 1, sizeof(*out->methods));
    if (!rows || !out->methods)
        return false;
    for (size_t i = 0; i <= n; i++) {
        const struct svc_counts *counts = &sc->svc->counts[i];
        holdfast__v1__method_stats__init(&rows[i]);
        rows[i].method = unconst(i < n ? methods[i].rpc.path : "");
        rows[i].calls = counts->calls;
        rows[i].ok = counts->ok;
        if (!add_reasons(sc, counts->errors, &rows[i].errors, &rows[i].n_errors))
            return false;
        out->methods[i] = &rows[i];
    }
    out->n_methods = n + 1;
    return true;
}

static bool add_batches(struct svc_call *sc, struct st_stats *stats, Holdfast__V1__StatsResponse *out)
{
    Holdfast__V1__BatchStats *rows = hp_alloc_array(sc->arena, ST_KINDS, sizeof(*rows));
    out->batches = hp_alloc_array(sc->arena, ST_KINDS, sizeof(*out->batches));
    if (!rows || !out->batches)
        return false;
    for (int i = 0; i < ST_KINDS; i++) {
        struct st_kind_stats *kind = &stats->kinds[i];
        size_t n = sizeof(kind->sizes) / sizeof(kind->sizes[0]);
        while (n && !kind->sizes[n - 1])
            n--;
        holdfast__v1__batch_stats__init(&rows[i]);
        rows[i].kind = unconst(st_kind_name((enum st_kind)i));
        rows[i].batches = kind->batches;
        rows[i].items = kind->items;
        rows[i].n_sizes = n;
        rows[i].sizes = kind->sizes;
        rows[i].splits = kind->splits;
        rows[i].retries = kind->retries;
        rows[i].busy = kind->busy;
        out->batches[i] = &rows[i];
    }
    out->n_batches = ST_KINDS;
    return true;
}

static void add_waits(const struct svc_waits *waits, Holdfast__V1__WaitStats *out)
{
    holdfast__v1__wait_stats__init(out);
    out->waiters = (int64_t)waits->queue.n_waiters;
    out->callers = (int64_t)waits->queue.n_callers;
    out->resources = (int64_t)waits->queue.lines.n;
    out->hand_overs = waits->hand_overs;
    out->tries = waits->tries;
    out->arrivals = waits->arrivals;
    out->wake_ups = waits->wake_ups;
    out->turns = waits->turns;
    out->leaves = waits->leaves;
    out->given_back = waits->given_back;
    out->tries_per_hand_over = waits->hand_overs ? (double)waits->tries / (double)waits->hand_overs : 0;
}

/* ---- operations ---- */

/* Rows of an item are gone when it is done, and the call's other item may be out still: they are kept in the arena. */
struct op_states {
    void (*done)(struct st_item *item);
    Holdfast__V1__StateStats *list, **pointers;
    size_t n;
};

static void on_op_states(struct st_item *item)
{
    struct svc_call *sc = item->owner;
    struct op_states *states = sc->state;
    size_t n = item->outcome == ST_FOUND ? item->out.op_states.n : 0;
    states->list = hp_alloc_array(sc->arena, n, sizeof(*states->list));
    states->pointers = hp_alloc_array(sc->arena, n, sizeof(*states->pointers));
    for (size_t i = 0; i < n && states->list && states->pointers; i++) {
        const struct st_op_state_row *row = &item->out.op_states.rows[i];
        Holdfast__V1__StateStats *out = states->pointers[i] = &states->list[i];
        holdfast__v1__state_stats__init(out);
        out->state = hp_strndup(sc->arena, row->state, strlen(row->state));
        if (!out->state)
            break;
        out->count = row->count;
        out->oldest_ms = row->oldest_ms;
        states->n = i + 1;
    }
    states->done(item);
}

static bool add_operations(struct svc_call *sc, Holdfast__V1__OperationStats *operations, Holdfast__V1__StatsResponse *out)
{
    struct op_states *states = sc->state;
    holdfast__v1__operation_stats__init(operations);
    operations->n_states = states->n;
    operations->states = states->pointers;
    out->operations = operations;
    return svc_tally_operations(sc, operations) && svc_tally_contention(sc, out);
}

/* ---- who may call ---- */

static bool add_auth(struct svc_call *sc, Holdfast__V1__AuthStats *out, Holdfast__V1__StatsResponse *all)
{
    const struct svc_auth *auth = sc->svc->auth;
    holdfast__v1__auth_stats__init(out);
    all->auth = out;
    out->age_ms = -1;
    if (!auth)
        return true;
    out->keys_required = true;
    out->keys = (int64_t)auth->all.n;
    out->refreshes = auth->refreshes;
    out->age_ms = svc_auth_age_ms(auth);
    return add_reasons(sc, auth->denials, &out->denials, &out->n_denials);
}

/* ---- who watches ---- */

static void add_watches(const struct svc *svc, Holdfast__V1__WatchStats *out)
{
    struct st_follow_stats follower;
    st_follow_stats(svc->store, &follower);
    holdfast__v1__watch_stats__init(out);
    out->streams = (int64_t)svc->watches.list.count;
    out->told = svc->watches.told;
    out->too_slow = svc->watches.too_slow;
    out->missed = svc->watches.missed;
    out->looks = follower.looks;
    out->rows = follower.rows;
    out->lag_ms = follower.lag_ms;
    out->open = follower.open;
}

/* What is no secret of others. */
static void reply_reduced(struct svc_call *sc, const Holdfast__V1__StatsResponse *all)
{
    Holdfast__V1__StatsResponse out = HOLDFAST__V1__STATS_RESPONSE__INIT;
    out.version = all->version;
    out.schema_version = all->schema_version;
    out.uptime_ms = all->uptime_ms;
    out.draining = all->draining;
    svc_reply(sc, &out.base);
}

/* The server answers for itself also when the database doesn't. */
static void finish_stats(struct svc_call *sc)
{
    struct svc *svc = sc->svc;
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__StatsResponse out = HOLDFAST__V1__STATS_RESPONSE__INIT;
    Holdfast__V1__WaitStats waits;
    Holdfast__V1__OperationStats operations;
    Holdfast__V1__AuthStats auth;
    Holdfast__V1__WatchStats watches;
    struct st_stats stats;
    struct hp_status status;
    st_stats(svc->store, &stats);
    add_waits(&svc->waits, &waits);
    out.waits = &waits;
    add_watches(svc, &watches);
    out.watches = &watches;
    bool told = !svc_item_failed(sc, 0, &status);
    out.version = unconst(svc->cfg.version);
    out.schema_version = told ? item->out.stats.schema_version : -1;
    out.leases_live = told ? item->out.stats.leases_live : -1;
    out.resources = told ? item->out.stats.resources : -1;
    out.uptime_ms = svc->io->now_ms(svc->io) - svc->started_ms;
    out.calls_in_flight = (int64_t)svc->in_flight;
    out.items_queued = stats.queued;
    out.connections = stats.connections_ready;
    out.connections_wanted = stats.connections_wanted;
    out.draining = svc->draining;
    if (!svc_sees_everything(sc))
        reply_reduced(sc, &out);
    else if (add_methods(sc, &out) && add_batches(sc, &stats, &out) && add_outcomes(sc, &out) &&
             add_operations(sc, &operations, &out) && add_auth(sc, &auth, &out))
        svc_reply(sc, &out.base);
    else
        svc_no_memory(sc);
}

void svc_stats(struct svc_call *sc)
{
    struct op_states *states = sc->state = hp_alloc(sc->arena, sizeof(*states));
    struct st_item *items = states ? svc_items(sc, 2, ST_STATS, "") : NULL;
    if (!states)
        svc_no_memory(sc);
    if (!items)
        return;
    items[1].kind = ST_OP_STATS;
    states->done = items[1].done;
    items[1].done = on_op_states;
    svc_submit(sc, SVC_BRIEF, finish_stats);
}

/* ---- AdvanceFences ---- */

static void finish_advance(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__AdvanceFencesResponse response = HOLDFAST__V1__ADVANCE_FENCES_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.floor = item->out.advance.floor;
    svc_reply(sc, &response.base);
}

void svc_advance_fences(struct svc_call *sc)
{
    const Holdfast__V1__AdvanceFencesRequest *req = sc->request;
    struct hp_status status;
    if (!hp_check_name("namespace", req->namespace_, &status) ||
        !svc_check_range("at_least", req->at_least, 0, INT64_C(1) << 62, &status) || !hp_check_name("actor", req->actor, &status) ||
        !svc_check_reason(req->reason, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_ADVANCE_FENCES, req->namespace_);
    if (!item)
        return;
    item->in.advance.at_least = req->at_least;
    item->in.advance.actor = req->actor;
    item->in.advance.reason = req->reason;
    svc_submit(sc, SVC_WHOLE, finish_advance);
}
