/*
 * metrics.c - see metrics.h. It makes a call of Stats of its own, and writes down what that answers: so the two cannot differ.
 */
#include "service/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "service/call.h"
#include "service/metrics_text.h"

enum { BUDGET = 4 << 20, BYTES_MAX = 4 << 20, PATIENCE_MS = 30000 };

typedef Holdfast__V1__StatsResponse stats_t;

/* ---- calls, batches, outcomes ---- */

/* "/holdfast.v1.LeaseService/Acquire" in two labels; both empty for methods that don't exist. */
struct method {
    char service[64];
    const char *name;
};

static struct svc_labels method_labels(const char *path, struct method *method)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash && slash > path ? (size_t)(slash - path) - 1 : 0;
    if (len >= sizeof(method->service))
        len = 0;
    memcpy(method->service, path + 1, len);
    method->service[len] = '\0';
    method->name = slash ? slash + 1 : "";
    return (struct svc_labels){.list = {{"service", method->service}, {"method", method->name}}};
}

static void methods(struct hp_buf *out, const stats_t *stats)
{
    struct method method;
    svc_metric_head(out, "holdfast_calls_total", SVC_COUNTER,
                    "Calls that came in, by method; without one: to methods that don't exist.");
    for (size_t i = 0; i < stats->n_methods; i++)
        svc_metric_int(out, "holdfast_calls_total", "", method_labels(stats->methods[i]->method, &method),
                       stats->methods[i]->calls);
    svc_metric_head(out, "holdfast_calls_ok_total", SVC_COUNTER, "Calls that were answered without an error.");
    for (size_t i = 0; i < stats->n_methods; i++)
        svc_metric_int(out, "holdfast_calls_ok_total", "", method_labels(stats->methods[i]->method, &method),
                       stats->methods[i]->ok);
    svc_metric_head(out, "holdfast_call_errors_total", SVC_COUNTER, "Calls that were answered with an error, by its reason.");
    for (size_t i = 0; i < stats->n_methods; i++) {
        const Holdfast__V1__MethodStats *row = stats->methods[i];
        struct svc_labels labels = method_labels(row->method, &method);
        for (size_t k = 0; k < row->n_errors; k++) {
            labels.list[2].name = "reason";
            labels.list[2].value = row->errors[k]->reason;
            svc_metric_int(out, "holdfast_call_errors_total", "", labels, row->errors[k]->count);
        }
    }
}

/* A histogram of counts by size, of which place i holds those up to bounds(i); the last place those above. */
static void histogram(struct hp_buf *out, const char *name, struct svc_labels labels, const int64_t *places, size_t n, size_t all,
                      int64_t (*bound)(size_t i), double sum)
{
    int free_label = labels.list[0].name ? 1 : 0;
    int64_t count = 0;
    char le[24];
    struct svc_labels with = labels;
    with.list[free_label].name = "le";
    with.list[free_label].value = le;
    for (size_t i = 0; i + 1 < all; i++) {
        count += i < n ? places[i] : 0;
        snprintf(le, sizeof(le), "%lld", (long long)bound(i));
        svc_metric_int(out, name, "_bucket", with, count);
    }
    count += n == all ? places[all - 1] : 0;
    snprintf(le, sizeof(le), "+Inf");
    svc_metric_int(out, name, "_bucket", with, count);
    svc_metric_double(out, name, "_sum", labels, sum);
    svc_metric_int(out, name, "_count", labels, count);
}

static int64_t doubling(size_t i)
{
    return ((int64_t)1 << (i + 1)) - 1;
}

static int64_t one_by_one(size_t i)
{
    return (int64_t)i + 1;
}

enum { BATCH_PLACES = 16, ATTEMPT_PLACES = 16 };

static void batches(struct hp_buf *out, const stats_t *stats)
{
    svc_metric_head(out, "holdfast_batch_items", SVC_HISTOGRAM,
                    "Items in a batch to the database, by their kind; kinds that had none are left out.");
    for (size_t i = 0; i < stats->n_batches; i++) {
        const Holdfast__V1__BatchStats *row = stats->batches[i];
        if (row->batches)
            histogram(out, "holdfast_batch_items", SVC_LABEL("kind", row->kind), row->sizes, row->n_sizes, BATCH_PLACES, doubling,
                      (double)row->items);
    }
    svc_metric_head(out, "holdfast_batch_splits_total", SVC_COUNTER, "Batches cut in half because one of their items failed.");
    for (size_t i = 0; i < stats->n_batches; i++)
        svc_metric_int(out, "holdfast_batch_splits_total", "", SVC_LABEL("kind", stats->batches[i]->kind),
                       stats->batches[i]->splits);
    svc_metric_head(out, "holdfast_batch_retries_total", SVC_COUNTER,
                    "Batches sent again after a serialization failure or a deadlock.");
    for (size_t i = 0; i < stats->n_batches; i++)
        svc_metric_int(out, "holdfast_batch_retries_total", "", SVC_LABEL("kind", stats->batches[i]->kind),
                       stats->batches[i]->retries);
    svc_metric_head(out, "holdfast_items_busy_total", SVC_COUNTER, "Items that found their row locked by another transaction.");
    for (size_t i = 0; i < stats->n_batches; i++)
        svc_metric_int(out, "holdfast_items_busy_total", "", SVC_LABEL("kind", stats->batches[i]->kind), stats->batches[i]->busy);
}

static void counts(struct hp_buf *out, const char *name, const char *help, const char *label, Holdfast__V1__ItemCount **list,
                   size_t n)
{
    svc_metric_head(out, name, SVC_COUNTER, help);
    for (size_t i = 0; i < n; i++)
        svc_metric_int(out, name, "", SVC_LABEL(label, list[i]->name), list[i]->count);
}

static void contention(struct hp_buf *out, const stats_t *stats)
{
    svc_metric_head(
        out, "holdfast_contended_busy", SVC_GAUGE,
        "How often the most contended resources and keys (op:KEY), twenty at most, were found locked, since they are among them.");
    for (size_t i = 0; i < stats->n_contention; i++) {
        const Holdfast__V1__Contention *row = stats->contention[i];
        struct svc_labels labels = {.list = {{"namespace", row->namespace_}, {"name", row->name}}};
        svc_metric_int(out, "holdfast_contended_busy", "", labels, row->busy);
    }
    svc_metric_head(out, "holdfast_contended_held", SVC_GAUGE, "The same: found held, or in progress.");
    for (size_t i = 0; i < stats->n_contention; i++) {
        const Holdfast__V1__Contention *row = stats->contention[i];
        struct svc_labels labels = {.list = {{"namespace", row->namespace_}, {"name", row->name}}};
        svc_metric_int(out, "holdfast_contended_held", "", labels, row->held);
    }
}

/* ---- the server, waiting, operations ---- */

static void server(struct hp_buf *out, const stats_t *stats)
{
    bool up = stats->schema_version >= 0;
    svc_metric_head(out, "holdfast_build_info", SVC_GAUGE, "1; the version is a label.");
    svc_metric_int(out, "holdfast_build_info", "", SVC_LABEL("version", stats->version), 1);
    svc_gauge_seconds(out, "holdfast_uptime_seconds", "Since the server began to serve.", stats->uptime_ms);
    svc_gauge(out, "holdfast_draining", "1: it refuses new calls, and ends when those in flight are done.", stats->draining);
    svc_gauge(out, "holdfast_calls_in_flight", "Calls not answered yet.", stats->calls_in_flight);
    svc_gauge(out, "holdfast_items_queued", "Items that wait for the database.", stats->items_queued);
    svc_gauge(out, "holdfast_database_connections", "Connections to PostgreSQL that carry the work, and serve.",
              stats->connections);
    svc_gauge(out, "holdfast_database_connections_wanted", "How many there should be.", stats->connections_wanted);
    svc_gauge(out, "holdfast_database_up", "1: the database has answered this scrape within a second.", up);
    if (!up)
        return;
    svc_gauge(out, "holdfast_schema_version", "Of the database.", stats->schema_version);
    svc_gauge(out, "holdfast_leases_live", "Live leases in the database, of all servers.", stats->leases_live);
    svc_gauge(out, "holdfast_resources", "Resources in the database, as its statistics have them.", stats->resources);
}

static void waits(struct hp_buf *out, const Holdfast__V1__WaitStats *waits)
{
    svc_gauge(out, "holdfast_waiters", "Who waits for a resource on this server; callers with one request_id are one.",
              waits->waiters);
    svc_gauge(out, "holdfast_waiting_callers", "Callers that wait.", waits->callers);
    svc_gauge(out, "holdfast_waited_for_resources", "Resources for which somebody waits.", waits->resources);
    svc_counter(out, "holdfast_hand_overs_total", "Grants to waiters that had been told to wait.", waits->hand_overs);
    svc_counter(out, "holdfast_wait_tries_total", "SQL acquires made for the first of a queue.", waits->tries);
    svc_counter(out, "holdfast_wait_arrivals_total", "SQL acquires made for those who had just come.", waits->arrivals);
    svc_counter(out, "holdfast_wait_wake_ups_total", "Timers that fired, turns and releases that were told.", waits->wake_ups);
    svc_counter(out, "holdfast_wait_turns_total", "Those of them that were turns.", waits->turns);
    svc_counter(out, "holdfast_wait_leaves_total", "Queues that became empty without a grant.", waits->leaves);
    svc_counter(out, "holdfast_given_back_total", "Grants whose caller had gone, released again.", waits->given_back);
}

static void states(struct hp_buf *out, const Holdfast__V1__OperationStats *ops)
{
    if (!ops->n_states)
        return; /* the database has not told */
    svc_metric_head(out, "holdfast_operations", SVC_GAUGE, "Operations in the database by state; an operation may be in several.");
    for (size_t i = 0; i < ops->n_states; i++)
        svc_metric_int(out, "holdfast_operations", "", SVC_LABEL("state", ops->states[i]->state), ops->states[i]->count);
    svc_metric_head(out, "holdfast_operations_oldest_seconds", SVC_GAUGE, "How long the oldest of them has been so.");
    for (size_t i = 0; i < ops->n_states; i++)
        svc_metric_double(out, "holdfast_operations_oldest_seconds", "", SVC_LABEL("state", ops->states[i]->state),
                          (double)ops->states[i]->oldest_ms / 1000);
}

static void operations(struct hp_buf *out, const Holdfast__V1__OperationStats *ops)
{
    int64_t finished = 0;
    for (size_t i = 0; i < ops->n_attempts; i++)
        finished += ops->attempts[i];
    states(out, ops);
    svc_counter(out, "holdfast_operations_started_total", "Attempts that were begun, operations that were recorded or executed.",
                ops->started);
    svc_counter(out, "holdfast_operation_replays_total", "Callers that were told a stored result.", ops->replays);
    svc_counter(out, "holdfast_operation_conflicts_total", "Callers that came with other parameters.", ops->conflicts);
    svc_counter(out, "holdfast_operation_in_progress_total", "Callers that were told that somebody is at it.", ops->in_progress);
    svc_counter(out, "holdfast_operations_succeeded_total", "Operations that ended well.", ops->succeeded);
    svc_counter(out, "holdfast_operations_succeeded_after_retry_total", "Those of them that took more than one attempt.",
                ops->succeeded_after_retry);
    svc_counter(out, "holdfast_operations_exhausted_total", "Operations that went to review because a budget was spent.",
                ops->exhausted);
    counts(out, "holdfast_stale_tokens_total", "Refusals of stale or ended tokens, by call.", "call", ops->stale_tokens,
           ops->n_stale_tokens);
    counts(out, "holdfast_operation_sqlstates_total",
           "SQLSTATEs of actions that raised, and of failures that were told; at most 50.", "sqlstate", ops->sqlstates,
           ops->n_sqlstates);
    svc_metric_head(out, "holdfast_operation_attempts", SVC_HISTOGRAM, "Attempts that finished operations took.");
    histogram(out, "holdfast_operation_attempts", svc_no_labels, ops->attempts, ops->n_attempts, ATTEMPT_PLACES, one_by_one,
              ops->amplification * (double)finished);
}

/* ---- who may call, who watches, what others told ---- */

static void auth(struct hp_buf *out, const Holdfast__V1__AuthStats *auth)
{
    svc_gauge(out, "holdfast_keys_required", "1: callers need a key or a certificate.", auth->keys_required);
    svc_gauge(out, "holdfast_keys", "Keys and certificates that are known and not revoked.", auth->keys);
    svc_counter(out, "holdfast_key_refreshes_total", "How often they were read from the database.", auth->refreshes);
    if (auth->age_ms >= 0)
        svc_gauge_seconds(out, "holdfast_keys_age_seconds", "How old that is.", auth->age_ms);
    svc_metric_head(out, "holdfast_denials_total", SVC_COUNTER, "Calls that were refused because of who called, by reason.");
    for (size_t i = 0; i < auth->n_denials; i++)
        svc_metric_int(out, "holdfast_denials_total", "", SVC_LABEL("reason", auth->denials[i]->reason), auth->denials[i]->count);
}

static void watches(struct hp_buf *out, const Holdfast__V1__WatchStats *watches)
{
    svc_gauge(out, "holdfast_watch_streams", "Streams of LeaseService.Watch.", watches->streams);
    svc_counter(out, "holdfast_watch_messages_total", "Messages on them.", watches->told);
    svc_counter(out, "holdfast_watch_too_slow_total", "Streams that were ended because their callers didn't read.",
                watches->too_slow);
    svc_counter(out, "holdfast_watch_missed_total", "Streams that were ended because changes may have been missed.",
                watches->missed);
    svc_counter(out, "holdfast_follower_looks_total", "Queries for what is new in the audit trail.", watches->looks);
    svc_counter(out, "holdfast_follower_rows_total", "Entries of the trail that they found.", watches->rows);
    svc_gauge_seconds(out, "holdfast_follower_lag_seconds", "Since one of them last saw all there was; 0 without streams.",
                      watches->lag_ms);
    svc_gauge(out, "holdfast_follower_open_stretches", "Stretches of the trail whose entries may still be committed.",
              watches->open);
}

static void others(struct hp_buf *out, const struct svc_metric *more, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[96];
        snprintf(name, sizeof(name), "holdfast_%s", more[i].name);
        if (i == 0 || strcmp(more[i].name, more[i - 1].name) != 0)
            svc_metric_head(out, name, more[i].counts ? SVC_COUNTER : SVC_GAUGE, more[i].help);
        svc_metric_double(out, name, "", more[i].label ? SVC_LABEL(more[i].label, more[i].what) : svc_no_labels, more[i].value);
    }
}

static void write_all(struct hp_buf *out, const stats_t *stats, const struct svc_metric *more, size_t n_more)
{
    server(out, stats);
    methods(out, stats);
    batches(out, stats);
    counts(out, "holdfast_outcomes_total", "What became of items.", "outcome", stats->outcomes, stats->n_outcomes);
    waits(out, stats->waits);
    operations(out, stats->operations);
    contention(out, stats);
    auth(out, stats->auth);
    watches(out, stats->watches);
    others(out, more, n_more);
    svc_metrics_process(out);
}

/* ---- the call ---- */

struct scrape {
    struct hp_call call; /* first */
    void (*done)(void *arg, const struct hp_buf *text);
    void *arg;
    size_t n_more;
    struct svc_metric more[SVC_METRICS_MORE];
};

static void on_answer(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct scrape *scrape = (struct scrape *)call;
    struct hp_buf out = {.max = BYTES_MAX};
    (void)status;
    if (response)
        write_all(&out, (const stats_t *)response, scrape->more, scrape->n_more);
    scrape->done(scrape->arg, response && !out.failed ? &out : NULL);
    hp_buf_release(&out);
    hp_arena_free(call->arena);
    free(scrape);
}

void svc_metrics(struct svc *svc, const struct svc_metric *more, size_t n_more, void (*done)(void *arg, const struct hp_buf *text),
                 void *arg)
{
    struct scrape *scrape = calloc(1, sizeof(*scrape));
    struct hp_arena *arena = scrape ? hp_arena_new(BUDGET) : NULL;
    struct svc_call *sc = arena ? hp_alloc(arena, sizeof(*sc)) : NULL;
    if (!sc) {
        hp_arena_free(arena);
        free(scrape);
        done(arg, NULL);
        return;
    }
    int64_t now = svc->io->now_ms(svc->io);
    scrape->call = (struct hp_call){.arena = arena, .received_ms = now, .deadline_ms = now + PATIENCE_MS, .answer = on_answer};
    scrape->done = done;
    scrape->arg = arg;
    scrape->n_more = n_more < SVC_METRICS_MORE ? n_more : SVC_METRICS_MORE;
    memcpy(scrape->more, more, scrape->n_more * sizeof(*more));
    *sc = (struct svc_call){.svc = svc,
                            .method = svc_method_find("/holdfast.v1.AdminService/Stats"),
                            .call = &scrape->call,
                            .arena = arena,
                            .received_ms = now,
                            .deadline_ms = now + PATIENCE_MS,
                            .uncounted = true};
    scrape->call.method = sc->method->rpc.path;
    svc->in_flight++;
    svc_stats(sc);
}
