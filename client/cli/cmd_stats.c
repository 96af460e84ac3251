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
            print_outcomes(stats);
        }
    }
    hfi_call_release(&call);
    return result;
}
