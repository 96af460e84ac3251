/*
 * cmd_stats.c - stats. For people, what never happened is left out.
 */
#include "client/cli/cli.h"

#include <stdio.h>

#include "holdfast/v1/admin.pb-c.h"

/* A number that the database tells, which may be out of reach. */
static const char *told(int64_t number)
{
    return number < 0 ? "-" : cli_int(number);
}

static void print_server(const Holdfast__V1__StatsResponse *stats)
{
    struct cli_table table = {.columns = 2};

    cli_row(&table, "VERSION", stats->version);
    cli_row(&table, "SCHEMA", told(stats->schema_version));
    cli_row(&table, "UPTIME", cli_ms(stats->uptime_ms));
    cli_row(&table, "STATE", stats->draining ? "draining" : "serving");
    cli_row(&table, "LEASES", told(stats->leases_live));
    cli_row(&table, "RESOURCES, ABOUT", told(stats->resources));
    cli_row(&table, "CALLS IN FLIGHT", cli_int(stats->calls_in_flight));
    cli_row(&table, "ITEMS QUEUED", cli_int(stats->items_queued));
    cli_row(&table, "CONNECTIONS", cli_int(stats->connections));
    cli_row(&table, "  WANTED", cli_int(stats->connections_wanted));
    cli_table_print(&table);
}

static void print_methods(const Holdfast__V1__StatsResponse *stats)
{
    struct cli_table table = {.columns = 4};

    cli_row(&table, "METHOD", "CALLS", "OK", "ERRORS");
    for (size_t i = 0; i < stats->n_methods; i++) {
        const Holdfast__V1__MethodStats *method = stats->methods[i];
        char errors[256] = "";
        size_t used = 0;
        if (!method->calls)
            continue;
        for (size_t j = 0; j < method->n_errors && used < sizeof(errors) - 1; j++)
            used += (size_t)snprintf(errors + used, sizeof(errors) - used, "%s%s %s", j ? ", " : "", method->errors[j]->reason,
                                     cli_int(method->errors[j]->count));
        cli_row(&table, method->method, cli_int(method->calls), cli_int(method->ok), errors);
    }
    putchar('\n');
    cli_table_print(&table);
}

static void print_batches(const Holdfast__V1__StatsResponse *stats)
{
    struct cli_table table = {.columns = 6};

    cli_row(&table, "BATCHES OF", "BATCHES", "ITEMS", "SPLITS", "RETRIES", "BUSY");
    for (size_t i = 0; i < stats->n_batches; i++) {
        const Holdfast__V1__BatchStats *batch = stats->batches[i];
        if (!batch->batches)
            continue;
        cli_row(&table, batch->kind, cli_int(batch->batches), cli_int(batch->items), cli_int(batch->splits),
                cli_int(batch->retries), cli_int(batch->busy));
    }
    putchar('\n');
    cli_table_print(&table);
}

static void print_waits(const Holdfast__V1__StatsResponse *stats)
{
    const Holdfast__V1__WaitStats *waits = stats->waits;
    struct cli_table table = {.columns = 2};

    if (!waits || !(waits->waiters || waits->hand_overs || waits->arrivals))
        return;
    cli_row(&table, "WAITERS", cli_int(waits->waiters));
    cli_row(&table, "  RESOURCES", cli_int(waits->resources));
    cli_row(&table, "HAND-OVERS", cli_int(waits->hand_overs));
    cli_row(&table, "  TRIES", cli_int(waits->tries));
    cli_row(&table, "  WAKE-UPS", cli_int(waits->wake_ups));
    cli_row(&table, "  GIVEN BACK", cli_int(waits->given_back));
    putchar('\n');
    cli_table_print(&table);
}

static void print_outcomes(const Holdfast__V1__StatsResponse *stats)
{
    struct cli_table table = {.columns = 2};

    cli_row(&table, "OUTCOME", "COUNT");
    for (size_t i = 0; i < stats->n_outcomes; i++)
        if (stats->outcomes[i]->count)
            cli_row(&table, stats->outcomes[i]->name, cli_int(stats->outcomes[i]->count));
    putchar('\n');
    cli_table_print(&table);
}

static void print_states(const Holdfast__V1__OperationStats *ops)
{
    struct cli_table table = {.columns = 3};
    int64_t all = 0;

    cli_row(&table, "OPERATIONS", "NOW", "OLDEST");
    for (size_t i = 0; i < ops->n_states; i++) {
        const Holdfast__V1__StateStats *state = ops->states[i];
        all += state->count;
        if (state->count)
            cli_row(&table, state->state, cli_int(state->count), cli_ms(state->oldest_ms));
    }
    if (!all) {
        cli_table_release(&table);
        return;
    }
    putchar('\n');
    cli_table_print(&table);
}

/* "1: 940, 2: 51, 3: 9": how many took how many attempts. */
static void fill_attempts(const Holdfast__V1__OperationStats *ops, char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < ops->n_attempts && used < size - 1; i++)
        if (ops->attempts[i])
            used += (size_t)snprintf(text + used, size - used, "%s%s%zu: %s", used ? ", " : "",
                                     i + 1 == ops->n_attempts ? "≥ " : "", i + 1, cli_int(ops->attempts[i]));
}

static void print_counts(struct cli_table *table, const char *what, Holdfast__V1__ItemCount *const *counts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[96];
        snprintf(name, sizeof(name), "%s %s", what, counts[i]->name);
        if (counts[i]->count)
            cli_row(table, name, cli_int(counts[i]->count));
    }
}

static void print_operations(const Holdfast__V1__StatsResponse *stats)
{
    const Holdfast__V1__OperationStats *ops = stats->operations;
    struct cli_table table = {.columns = 2};
    char attempts[256] = "", amplification[32];

    if (!ops)
        return;
    print_states(ops);
    fill_attempts(ops, attempts, sizeof(attempts));
    snprintf(amplification, sizeof(amplification), "%.2f", ops->amplification);
    cli_row(&table, "SINCE THE SERVER STARTED", "");
    cli_row(&table, "  STARTED", cli_int(ops->started));
    cli_row(&table, "  REPLAYS", cli_int(ops->replays));
    cli_row(&table, "  CONFLICTS", cli_int(ops->conflicts));
    cli_row(&table, "  TOLD IN PROGRESS", cli_int(ops->in_progress));
    cli_row(&table, "  SUCCEEDED", cli_int(ops->succeeded));
    cli_row(&table, "  AFTER A RETRY", cli_int(ops->succeeded_after_retry));
    cli_row(&table, "  BUDGET SPENT", cli_int(ops->exhausted));
    cli_row(&table, "  ATTEMPTS EACH", *attempts ? attempts : "-");
    cli_row(&table, "  AMPLIFICATION", amplification);
    print_counts(&table, "  STALE TOKENS,", ops->stale_tokens, ops->n_stale_tokens);
    print_counts(&table, "  SQLSTATE", ops->sqlstates, ops->n_sqlstates);
    if (ops->started || ops->replays || ops->conflicts || ops->succeeded || ops->n_stale_tokens) {
        putchar('\n');
        cli_table_print(&table);
    }
    cli_table_release(&table);
}

static void print_contention(const Holdfast__V1__StatsResponse *stats)
{
    struct cli_table table = {.columns = 4};

    if (!stats->n_contention)
        return;
    cli_row(&table, "CONTENDED", "NAMESPACE", "BUSY", "HELD");
    for (size_t i = 0; i < stats->n_contention; i++)
        cli_row(&table, stats->contention[i]->name, stats->contention[i]->namespace_, cli_int(stats->contention[i]->busy),
                cli_int(stats->contention[i]->held));
    putchar('\n');
    cli_table_print(&table);
}

static void print_auth(const Holdfast__V1__StatsResponse *stats)
{
    const Holdfast__V1__AuthStats *auth = stats->auth;
    struct cli_table table = {.columns = 2};

    if (!auth || !auth->keys_required)
        return;
    cli_row(&table, "KEYS", cli_int(auth->keys));
    for (size_t i = 0; i < auth->n_denials; i++) {
        char name[64];
        snprintf(name, sizeof(name), "  REFUSED, %s", auth->denials[i]->reason);
        cli_row(&table, name, cli_int(auth->denials[i]->count));
    }
    putchar('\n');
    cli_table_print(&table);
}

int cli_stats(struct cli *cli)
{
    Holdfast__V1__StatsRequest request = HOLDFAST__V1__STATS_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_STATS,
                            .request = &request.base,
                            .response_type = &holdfast__v1__stats_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    int result = cli_call(cli, &call);

    if (!result) {
        const Holdfast__V1__StatsResponse *stats = (const Holdfast__V1__StatsResponse *)call.response;
        if (cli->json) {
            cli_print_json(stats);
        } else {
            print_server(stats);
            print_methods(stats);
            print_batches(stats);
            print_waits(stats);
            print_operations(stats);
            print_contention(stats);
            print_outcomes(stats);
            print_auth(stats);
        }
    }
    hfi_call_release(&call);
    return result;
}
