/*
 * cmd_resource.c - check, write, read, delete, resources.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/items.h"
#include "holdfast/v1/resource.pb-c.h"

/* ---- check ---- */

static int print_verdict(const struct cli *cli, const Holdfast__V1__CheckResult *item, const struct item_call *it)
{
    struct cli_table table = {.columns = 5};
    bool stale = false;
    int64_t fence = it->item.token;
    const char *left = "", *verdict = "CURRENT";

    switch (item->outcome_case) {
    case HOLDFAST__V1__CHECK_RESULT__OUTCOME_CURRENT:
        left = cli_ms(item->current->remaining_ms);
        break;
    case HOLDFAST__V1__CHECK_RESULT__OUTCOME_STALE:
        stale = true;
        verdict = "STALE";
        fence = item->stale->fence;
        break;
    case HOLDFAST__V1__CHECK_RESULT__OUTCOME_NOT_HELD:
        verdict = "NOT_HELD";
        fence = item->not_held->fence;
        break;
    case HOLDFAST__V1__CHECK_RESULT__OUTCOME_ERROR:
        return cli_item_error(cli, item->error);
    default:
        return cli_bad_answer(cli);
    }
    cli_row(&table, "RESOURCE", "TOKEN", "VERDICT", "FENCE", "LEFT");
    cli_row(&table, it->item.resource, cli_int(it->item.token), verdict, cli_int(fence), left);
    cli_table_show(cli, &table);
    if (*left)
        return CLI_OK;
    if (fence == 0)
        return cli_refused(cli, "NOT_HELD", "token %" PRId64 " of %s has no live lease; none was ever granted", it->item.token,
                           it->item.resource);
    return cli_refused(cli, stale ? "STALE_TOKEN" : "NOT_HELD", "token %" PRId64 " of %s %s; the newest one is %" PRId64,
                       it->item.token, it->item.resource, stale ? "is old" : "has no live lease", fence);
}

int cli_check(struct cli *cli)
{
    struct item_call it;
    Holdfast__V1__CheckRequest request = HOLDFAST__V1__CHECK_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_CHECK,
                            .request = &request.base,
                            .response_type = &holdfast__v1__check_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};

    if (!item_of_words(cli, &it))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.n_items = 1;
    request.items = it.items;
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__CheckResponse *response = (const Holdfast__V1__CheckResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        result = response->n_items == 1 ? print_verdict(cli, response->items[0], &it) : cli_bad_answer(cli);
    }
    hfi_call_release(&call);
    return result;
}

/* ---- write, delete ---- */

static void show_version(const struct cli *cli, int64_t version, int64_t fence, bool replayed)
{
    struct cli_table table = {.columns = 4};

    cli_row(&table, "RESOURCE", "VERSION", "FENCE", "REPLAYED");
    cli_row(&table, cli_word(cli, 0), cli_int(version), cli_int(fence), replayed ? "yes" : "no");
    cli_table_show(cli, &table);
}

/* A write without write_seq cannot be told from its repeat, unless the version tells. */
static enum hfi_retry retry_of(const struct cli *cli)
{
    return cli_number(cli, CLI_WRITE_SEQ, 0) ? HFI_RETRY_HARMLESS : HFI_RETRY_UNAPPLIED;
}

int cli_write(struct cli *cli)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_WRITE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__write_response__descriptor,
                            .retry = retry_of(cli)};
    int result = CLI_USAGE;

    request.namespace_ = (char *)cli->name_space;
    request.resource = (char *)cli_word(cli, 0);
    request.write_seq = cli_number(cli, CLI_WRITE_SEQ, 0);
    if (cli_given(cli, CLI_EXPECTED_VERSION)) {
        request.expected_case = HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = cli_number(cli, CLI_EXPECTED_VERSION, 0);
    }
    if (!cli_token(cli, 1, &request.token))
        goto out;
    result = cli_value(cli, 2, "write", &request.value);
    if (!result)
        result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__WriteResponse *response = (const Holdfast__V1__WriteResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        show_version(cli, response->version, response->fence, response->replayed);
    }
out:
    free(request.value.data);
    hfi_call_release(&call);
    return result;
}

int cli_delete(struct cli *cli)
{
    Holdfast__V1__DeleteRequest request = HOLDFAST__V1__DELETE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_DELETE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__delete_response__descriptor,
                            .retry = retry_of(cli)};

    request.namespace_ = (char *)cli->name_space;
    request.resource = (char *)cli_word(cli, 0);
    request.write_seq = cli_number(cli, CLI_WRITE_SEQ, 0);
    if (cli_given(cli, CLI_EXPECTED_VERSION)) {
        request.expected_case = HOLDFAST__V1__DELETE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request.expected_version = cli_number(cli, CLI_EXPECTED_VERSION, 0);
    }
    if (!cli_token(cli, 1, &request.token))
        return CLI_USAGE;
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__DeleteResponse *response = (const Holdfast__V1__DeleteResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        show_version(cli, response->version, response->fence, response->replayed);
    }
    hfi_call_release(&call);
    return result;
}

/* ---- read, resources ---- */

int cli_read(struct cli *cli)
{
    Holdfast__V1__ReadRequest request = HOLDFAST__V1__READ_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_READ,
                            .request = &request.base,
                            .response_type = &holdfast__v1__read_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS,
                            .reply_max = HF_VALUE_MAX + 4096};

    request.namespace_ = (char *)cli->name_space;
    request.resource = (char *)cli_word(cli, 0);
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__ReadResponse *response = (const Holdfast__V1__ReadResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        else if (response->value.len)
            fwrite(response->value.data, 1, response->value.len, stdout);
        if (!response->exists)
            result = cli_refused(cli, "NO_VALUE", "%s has no value (version %" PRId64 ")", request.resource, response->version);
    }
    hfi_call_release(&call);
    return result;
}

static void resource_row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__Resource *resource = item;

    if (!resource)
        cli_row(table, "RESOURCE", "FENCE", "LEASED", "VERSION", "BYTES");
    else
        cli_row(table, resource->resource, cli_int(resource->fence), resource->leased ? "yes" : "no", cli_int(resource->version),
                resource->exists ? cli_int(resource->value_bytes) : "-");
}

int cli_resources(struct cli *cli)
{
    Holdfast__V1__ListResourcesRequest request = HOLDFAST__V1__LIST_RESOURCES_REQUEST__INIT;
    const struct cli_list list = {.method = HFI_LIST_RESOURCES,
                                  .request = &request,
                                  .response_type = &holdfast__v1__list_resources_response__descriptor,
                                  .columns = 5,
                                  .row = resource_row};

    request.namespace_ = (char *)cli->name_space;
    request.prefix = (char *)(cli_given(cli, CLI_PREFIX) ? cli_text(cli, CLI_PREFIX) : "");
    request.page_size = CLI_PAGE;
    return cli_list(cli, &list);
}
