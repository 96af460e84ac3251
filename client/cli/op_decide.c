/*
 * op_decide.c - op retry, cancel, reconcile, compensate: a person's decisions, each about the revision that was seen.
 */
#include "client/cli/ops.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/items.h"

/* Repeating it is harmless: it names its revision. */
static int decide(struct cli *cli, const char *method, const ProtobufCMessage *request)
{
    struct hfi_call call = {.method = method,
                            .request = request,
                            .response_type = &holdfast__v1__decide_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    struct cli_table table = {.columns = 4};

    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__DecideResponse *response = (const Holdfast__V1__DecideResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        cli_row(&table, "KEY", "STATE", "REVISION", "REPLAYED");
        cli_row(&table, cli_word(cli, 1), cli_enum_name(&holdfast__v1__operation__state__descriptor, (int)response->state),
                cli_int(response->revision), response->replayed ? "yes" : "no");
        cli_table_show(cli, &table);
    }
    hfi_call_release(&call);
    return result;
}

static bool names_its_revision(struct cli *cli)
{
    if (cli_given(cli, CLI_REVISION) && cli_given(cli, CLI_REASON))
        return true;
    cli_usage_error(cli, "op %s needs --revision N (that op get showed) and --reason TEXT (for the audit)", cli_word(cli, 0));
    return false;
}

int cli_op_retry(struct cli *cli)
{
    Holdfast__V1__RetryRequest request = HOLDFAST__V1__RETRY_REQUEST__INIT;
    char actor[CLI_ACTOR_SIZE];

    if (!names_its_revision(cli))
        return CLI_USAGE;
    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.revision = cli_number(cli, CLI_REVISION, 0);
    request.actor = actor;
    request.reason = (char *)cli_text(cli, CLI_REASON);
    return decide(cli, HFI_OPERATION "Retry", &request.base);
}

int cli_op_cancel(struct cli *cli)
{
    Holdfast__V1__CancelRequest request = HOLDFAST__V1__CANCEL_REQUEST__INIT;
    char actor[CLI_ACTOR_SIZE];

    if (!names_its_revision(cli))
        return CLI_USAGE;
    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.revision = cli_number(cli, CLI_REVISION, 0);
    request.actor = actor;
    request.reason = (char *)cli_text(cli, CLI_REASON);
    return decide(cli, HFI_OPERATION "Cancel", &request.base);
}

int cli_op_reconcile(struct cli *cli)
{
    Holdfast__V1__ReconcileRequest request = HOLDFAST__V1__RECONCILE_REQUEST__INIT;
    char actor[CLI_ACTOR_SIZE];
    int outcome;

    if (!names_its_revision(cli))
        return CLI_USAGE;
    if (!cli_given(cli, CLI_OUTCOME))
        return cli_usage_error(cli, "op reconcile needs --outcome: succeeded, failed, not-done or cancelled");
    if (!cli_enum(cli, CLI_OUTCOME, &holdfast__v1__reconcile_request__outcome__descriptor, &outcome))
        return CLI_USAGE;
    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.revision = cli_number(cli, CLI_REVISION, 0);
    request.outcome = (Holdfast__V1__ReconcileRequest__Outcome)outcome;
    request.result_ref = cli_or_empty(cli, CLI_RESULT_REF);
    request.actor = actor;
    request.reason = (char *)cli_text(cli, CLI_REASON);
    int result = cli_value(cli, 2, NULL, &request.result);
    if (!result)
        result = decide(cli, HFI_OPERATION "Reconcile", &request.base);
    free(request.result.data);
    return result;
}

static int compensate(struct cli *cli, Holdfast__V1__CompensateRequest *request)
{
    struct hfi_call call = {.method = HFI_OPERATION "Compensate",
                            .request = &request->base,
                            .response_type = &holdfast__v1__compensate_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    struct cli_table table = {.columns = 4};

    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__CompensateResponse *response = (const Holdfast__V1__CompensateResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        cli_row(&table, "KEY", "STATE", "REVISION", "REPLAYED");
        cli_row(&table, response->key, cli_enum_name(&holdfast__v1__operation__state__descriptor, (int)response->state),
                cli_int(response->revision), response->replayed ? "yes" : "no");
        cli_table_show(cli, &table);
    }
    hfi_call_release(&call);
    return result;
}

int cli_op_compensate(struct cli *cli)
{
    Holdfast__V1__CompensateRequest request = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;
    char actor[CLI_ACTOR_SIZE];

    if (!cli_given(cli, CLI_TYPE) || !cli_given(cli, CLI_REASON))
        return cli_usage_error(cli, "op compensate needs --type T (of the operation that undoes this one) and --reason TEXT");
    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.type = (char *)cli_text(cli, CLI_TYPE);
    request.actor = actor;
    request.reason = (char *)cli_text(cli, CLI_REASON);
    int result = cli_value(cli, 2, NULL, &request.payload);
    if (!result)
        result = compensate(cli, &request);
    free(request.payload.data);
    return result;
}
