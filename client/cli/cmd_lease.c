/*
 * cmd_lease.c - renew, release, leases, lease, break.
 */
#include "client/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/items.h"
#include "holdfast/v1/lease.pb-c.h"

static const char *loss_name(int reason)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(&holdfast__v1__lost__reason__descriptor, reason);

    return value ? value->name : "UNSPECIFIED";
}

/* ---- renew, release ---- */

int cli_renew(struct cli *cli)
{
    struct item_call it;
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_RENEW,
                            .request = &request.base,
                            .response_type = &holdfast__v1__renew_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};

    if (cli_given(cli, CLI_LOOP))
        return cli_renew_loop(cli);
    if (!item_of_words(cli, &it))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.n_items = 1;
    request.items = it.items;
    request.ttl_ms = cli_number(cli, CLI_TTL, HF_DEFAULT_TTL_MS);
    int result = cli_call(cli, &call);
    if (result)
        goto out;
    const Holdfast__V1__RenewResponse *response = (const Holdfast__V1__RenewResponse *)call.response;
    const Holdfast__V1__RenewResult *item = response->n_items == 1 ? response->items[0] : NULL;
    if (cli->json)
        cli_print_json(response);
    if (item && item->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED) {
        struct cli_table table = {.columns = 3};
        cli_row(&table, "RESOURCE", "TOKEN", "TTL");
        cli_row(&table, it.item.resource, cli_int(it.item.token), cli_ms(item->renewed->ttl_ms));
        cli_table_show(cli, &table);
    } else if (item && item->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST) {
        result = cli_refused(cli, loss_name((int)item->lost->reason), "the lease of %s under token %" PRId64 " is lost",
                             it.item.resource, it.item.token);
    } else if (item && item->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR) {
        result = cli_item_error(cli, item->error);
    } else {
        result = cli_bad_answer(cli);
    }
out:
    hfi_call_release(&call);
    return result;
}

int cli_release(struct cli *cli)
{
    struct item_call it;
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_RELEASE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__release_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};

    if (!item_of_words(cli, &it))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.n_items = 1;
    request.items = it.items;
    int result = cli_call(cli, &call);
    if (result)
        goto out;
    const Holdfast__V1__ReleaseResponse *response = (const Holdfast__V1__ReleaseResponse *)call.response;
    if (cli->json)
        cli_print_json(response);
    if (response->n_items != 1) {
        result = cli_bad_answer(cli);
    } else if (response->items[0]->error) {
        result = cli_item_error(cli, response->items[0]->error);
    } else if (!response->items[0]->was_held) {
        result = cli_refused(cli, "NOT_HELD", "token %" PRId64 " holds no live lease of %s", it.item.token, it.item.resource);
    } else {
        struct cli_table table = {.columns = 3};
        cli_row(&table, "RESOURCE", "TOKEN", "STATE");
        cli_row(&table, it.item.resource, cli_int(it.item.token), "RELEASED");
        cli_table_show(cli, &table);
    }
out:
    hfi_call_release(&call);
    return result;
}

/* ---- leases, lease ---- */

static const char *state_name(int state)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(&holdfast__v1__lease__state__descriptor, state);

    return value ? value->name : "UNSPECIFIED";
}

static void lease_row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__Lease *lease = item;

    if (!lease)
        cli_row(table, "RESOURCE", "TOKEN", "LEFT", "TASK", "HOLDER");
    else
        cli_row(table, lease->resource, cli_int(lease->token), cli_ms(lease->remaining_ms), lease->task, lease->holder);
}

int cli_leases(struct cli *cli)
{
    Holdfast__V1__ListLeasesRequest request = HOLDFAST__V1__LIST_LEASES_REQUEST__INIT;
    const struct cli_list list = {.method = HFI_LIST_LEASES,
                                  .request = &request,
                                  .response_type = &holdfast__v1__list_leases_response__descriptor,
                                  .columns = 5,
                                  .row = lease_row};

    request.namespace_ = (char *)cli->name_space;
    request.prefix = (char *)(cli_given(cli, CLI_PREFIX) ? cli_text(cli, CLI_PREFIX) : "");
    request.holder = (char *)(cli_given(cli, CLI_HOLDER) ? cli_text(cli, CLI_HOLDER) : "");
    request.page_size = CLI_PAGE;
    return cli_list(cli, &list);
}

static void print_lease(const Holdfast__V1__Lease *lease)
{
    struct cli_table table = {.columns = 2};
    char when[40] = "";
    time_t seconds = (time_t)(lease->granted_unix_ms / 1000);
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    cli_row(&table, "RESOURCE", lease->resource);
    cli_row(&table, "STATE", state_name((int)lease->state));
    cli_row(&table, "TOKEN", cli_int(lease->token));
    cli_row(&table, "FENCE", cli_int(lease->fence));
    cli_row(&table, "LEFT", cli_ms(lease->remaining_ms));
    cli_row(&table, "TASK", lease->task);
    cli_row(&table, "HOLDER", lease->holder);
    cli_row(&table, "GRANTED", when);
    cli_row(&table, "REQUEST", lease->request_id);
    for (size_t i = 0; i < lease->n_labels; i++) {
        char label[600];
        snprintf(label, sizeof(label), "%s=%s", lease->labels[i]->key, lease->labels[i]->value);
        cli_row(&table, "LABEL", label);
    }
    cli_table_print(&table);
}

int cli_lease(struct cli *cli)
{
    Holdfast__V1__GetLeaseRequest request = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_GET_LEASE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__get_lease_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};

    request.namespace_ = (char *)cli->name_space;
    request.resource = (char *)cli_word(cli, 0);
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__GetLeaseResponse *response = (const Holdfast__V1__GetLeaseResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        else if (response->lease)
            print_lease(response->lease);
        else
            result = cli_bad_answer(cli);
    }
    hfi_call_release(&call);
    return result;
}

/* ---- break ---- */

static int print_broken(const struct cli *cli, const Holdfast__V1__BreakResponse *response, const char *resource)
{
    struct cli_table table = {.columns = 3};

    if (cli->json)
        cli_print_json(response);
    switch (response->outcome_case) {
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BROKEN:
        cli_row(&table, "RESOURCE", "STATE", "FENCE");
        cli_row(&table, resource, "BROKEN", cli_int(response->broken->fence));
        cli_table_show(cli, &table);
        return CLI_OK;
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_CHANGED:
        return cli_refused(cli, "CHANGED", "that lease of %s had ended before; the newest token is %" PRId64 ", %s", resource,
                           response->changed->token, response->changed->live ? "and it is held" : "and nobody holds it");
    case HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BLOCKED:
        return cli_refused(cli, "BLOCKED", "a transaction of PostgreSQL's backend %d holds %s; nothing was changed",
                           (int)response->blocked->pid, resource);
    default:
        return cli_bad_answer(cli);
    }
}

int cli_break(struct cli *cli)
{
    Holdfast__V1__BreakRequest request = HOLDFAST__V1__BREAK_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_BREAK,
                            .request = &request.base,
                            .response_type = &holdfast__v1__break_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    char actor[CLI_ACTOR_SIZE];

    if (!cli_given(cli, CLI_TOKEN) || !cli_given(cli, CLI_REASON))
        return cli_usage_error(cli, "break needs --token N (of the lease that was seen) and --reason TEXT (for the audit)");
    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.resource = (char *)cli_word(cli, 0);
    request.token_seen = cli_number(cli, CLI_TOKEN, 0);
    request.actor = actor;
    request.reason = (char *)cli_text(cli, CLI_REASON);
    int result = cli_call(cli, &call);
    if (!result)
        result = print_broken(cli, (const Holdfast__V1__BreakResponse *)call.response, request.resource);
    hfi_call_release(&call);
    return result;
}
