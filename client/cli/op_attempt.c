/*
 * op_attempt.c - op begin, renew, sending, complete, fail, unknown: an attempt from its start to its end.
 */
#include "client/cli/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/items.h"
#include "client/lib/wait.h"

/* ---- begin ---- */

/* The result as it is, so that a script can go on with it. */
static void print_result(const struct cli *cli, const ProtobufCBinaryData *result, const char *ref)
{
    if (cli->json)
        return;
    if (result->len)
        fwrite(result->data, 1, result->len, stdout);
    else if (*ref)
        printf("%s\n", ref);
}

int cli_op_replayed(const struct cli *cli, const char *key, const Holdfast__V1__BeginResponse__Replayed *it)
{
    print_result(cli, &it->result, it->result_ref);
    if (cli->json)
        return CLI_REPLAYED;
    fflush(stdout);
    if (it->failed)
        fprintf(stderr, "holdfast: REPLAYED: %s %s: %s\n", key, it->cancelled ? "was cancelled" : "has failed", it->message);
    else
        fprintf(stderr, "holdfast: REPLAYED: %s was done by attempt %" PRId64 " at %s\n", key, it->attempt,
                cli_when(it->first_completed_unix_ms));
    return CLI_REPLAYED;
}

int cli_op_in_progress(const struct cli *cli, const char *key, const Holdfast__V1__BeginResponse__InProgress *it)
{
    if (!*it->holder)
        return cli_refused(cli, "IN_PROGRESS", "%s waits for its next attempt, due in %s", key, cli_ms(it->remaining_ms));
    return cli_refused(cli, "IN_PROGRESS", "%s is being worked at by %s (attempt %" PRId64 ", %s left)", key, it->holder,
                       it->attempt, cli_ms(it->remaining_ms));
}

static int print_started(const struct cli *cli, const char *key, const Holdfast__V1__BeginResponse__Started *it)
{
    struct cli_table table = {.columns = 6};

    cli_row(&table, "KEY", "TOKEN", "TTL", "ATTEMPT", "TRIGGER", "EXECUTION");
    cli_row(&table, key, cli_int(it->token), cli_ms(it->ttl_ms), cli_int(it->attempt),
            cli_enum_name(&holdfast__v1__trigger__kind__descriptor, (int)it->trigger), it->execution_id);
    cli_table_show(cli, &table);
    return CLI_OK;
}

static int print_begun(const struct cli *cli, const Holdfast__V1__BeginResponse *response)
{
    const char *key = cli_word(cli, 1);

    if (cli->json)
        cli_print_json(response);
    switch (response->outcome_case) {
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED:
        return print_started(cli, key, response->started);
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED:
        return cli_op_replayed(cli, key, response->replayed);
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS:
        return cli_op_in_progress(cli, key, response->in_progress);
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_UNKNOWN:
        return cli_refused(cli, "OUTCOME_UNKNOWN", "what became of %s is unknown since %s: %s (see op reconcile)", key,
                           cli_when(response->unknown->since_unix_ms), response->unknown->note);
    case HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REVIEW:
        return cli_refused(cli, "IN_REVIEW", "%s waits for a person: %s (see op retry, op cancel)", key, response->review->reason);
    default:
        return cli_bad_answer(cli);
    }
}

static void set_left(struct hfi_wait *wait, int64_t left_ms)
{
    ((Holdfast__V1__BeginRequest *)wait->arg)->wait_ms = left_ms;
}

/* Asks, and waits if that is wanted. A signal ends the program, and its connection's end the wait at the server. */
static int ask(struct cli *cli, Holdfast__V1__BeginRequest *request, struct hfi_call *call)
{
    struct hfi_wait wait = {
        .request_id = request->request_id, .wait_ms = cli_number(cli, CLI_WAIT, 0), .set_left = set_left, .arg = request};

    if (wait.wait_ms <= 0)
        return cli_call(cli, call);
    if (hfi_wait_begin(cli->client, &wait))
        return cli_system_error(cli, "op begin --wait"), CLI_FAILED;
    call->wait = &wait;
    int result = cli_call(cli, call);
    hfi_wait_end(cli->client, &wait);
    return result;
}

static int begin(struct cli *cli, Holdfast__V1__BeginRequest *request)
{
    struct hfi_call call = {.method = HFI_OPERATION "Begin",
                            .request = &request->base,
                            .response_type = &holdfast__v1__begin_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS,
                            .reply_max = HF_VALUE_MAX + 8192};
    char id[HFI_ID_SIZE];

    hfi_new_id(cli->client, id);
    request->namespace_ = (char *)cli->name_space;
    request->key = (char *)cli_word(cli, 1);
    request->type = (char *)cli_text(cli, CLI_TYPE);
    request->holder = (char *)(cli_given(cli, CLI_HOLDER) ? cli_text(cli, CLI_HOLDER) : hf_client_holder(cli->client));
    request->ttl_ms = cli_number(cli, CLI_TTL, HF_DEFAULT_TTL_MS);
    request->request_id = cli_given(cli, CLI_REQUEST_ID) ? (char *)cli_text(cli, CLI_REQUEST_ID) : id;
    int result = ask(cli, request, &call);
    if (!result)
        result = print_begun(cli, (const Holdfast__V1__BeginResponse *)call.response);
    hfi_call_release(&call);
    return result;
}

int cli_op_begin(struct cli *cli)
{
    Holdfast__V1__BeginRequest request = HOLDFAST__V1__BEGIN_REQUEST__INIT;
    struct cli_parameters parameters;
    int trigger = HOLDFAST__V1__TRIGGER__KIND__MANUAL;

    if (!cli_parameters(cli, NULL, &parameters))
        return CLI_USAGE;
    if (cli_given(cli, CLI_TRIGGER) && !cli_enum(cli, CLI_TRIGGER, &holdfast__v1__trigger__kind__descriptor, &trigger))
        return CLI_USAGE;
    if (cli_number(cli, CLI_WAIT, 0) > HF_WAIT_MAX_MS)
        return cli_usage_error(cli, "--wait %s: at most 1h", cli_text(cli, CLI_WAIT));
    request.trigger = (Holdfast__V1__Trigger__Kind)trigger;
    request.parameters_case = parameters.fingerprint.data ? HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT
                                                          : HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_CANONICAL_JSON;
    if (parameters.fingerprint.data)
        request.fingerprint = parameters.fingerprint;
    else
        request.canonical_json = parameters.canonical_json;
    int result = cli_client(cli);
    return result ? result : begin(cli, &request);
}

/* ---- renew, sending ---- */

static int print_renewed(const struct cli *cli, const Holdfast__V1__RenewResult *item, int64_t token)
{
    struct cli_table table = {.columns = 3};

    switch (item->outcome_case) {
    case HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED:
        cli_row(&table, "KEY", "TOKEN", "TTL");
        cli_row(&table, cli_word(cli, 1), cli_int(token), cli_ms(item->renewed->ttl_ms));
        cli_table_show(cli, &table);
        return CLI_OK;
    case HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST:
        return cli_refused(cli, cli_enum_name(&holdfast__v1__lost__reason__descriptor, (int)item->lost->reason),
                           "token %" PRId64 " of %s is not held any more", token, cli_word(cli, 1));
    case HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR:
        return cli_item_error(cli, item->error);
    default:
        return cli_bad_answer(cli);
    }
}

int cli_op_renew(struct cli *cli)
{
    Holdfast__V1__OperationItem item = HOLDFAST__V1__OPERATION_ITEM__INIT, *items[] = {&item};
    Holdfast__V1__RenewOperationsRequest request = HOLDFAST__V1__RENEW_OPERATIONS_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "Renew",
                            .request = &request.base,
                            .response_type = &holdfast__v1__renew_operations_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};

    if (!cli_token(cli, 2, &item.token))
        return CLI_USAGE;
    item.key = (char *)cli_word(cli, 1);
    request.namespace_ = (char *)cli->name_space;
    request.n_items = 1;
    request.items = items;
    request.ttl_ms = cli_number(cli, CLI_TTL, HF_DEFAULT_TTL_MS);
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__RenewOperationsResponse *response = (const Holdfast__V1__RenewOperationsResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        result = response->n_items == 1 ? print_renewed(cli, response->items[0], item.token) : cli_bad_answer(cli);
    }
    hfi_call_release(&call);
    return result;
}

int cli_op_sending(struct cli *cli)
{
    Holdfast__V1__MarkSendingRequest request = HOLDFAST__V1__MARK_SENDING_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "MarkSending",
                            .request = &request.base,
                            .response_type = &holdfast__v1__mark_sending_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    struct cli_table table = {.columns = 3};

    if (!cli_token(cli, 2, &request.token))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__MarkSendingResponse *response = (const Holdfast__V1__MarkSendingResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        cli_row(&table, "KEY", "STATE", "LEFT");
        cli_row(&table, request.key, "SENDING", cli_ms(response->remaining_ms));
        cli_table_show(cli, &table);
    }
    hfi_call_release(&call);
    return result;
}

/* ---- complete, fail, unknown ---- */

static int finish(struct cli *cli, struct hfi_call *call)
{
    struct cli_table table = {.columns = 5};

    call->response_type = &holdfast__v1__finish_response__descriptor;
    call->retry = HFI_RETRY_HARMLESS;
    int result = cli_call(cli, call);
    if (!result) {
        const Holdfast__V1__FinishResponse *response = (const Holdfast__V1__FinishResponse *)call->response;
        if (cli->json)
            cli_print_json(response);
        cli_row(&table, "KEY", "STATE", "REVISION", "DUE", "REPLAYED");
        cli_row(&table, cli_word(cli, 1), cli_enum_name(&holdfast__v1__operation__state__descriptor, (int)response->state),
                cli_int(response->revision),
                response->state == HOLDFAST__V1__OPERATION__STATE__PENDING ? cli_ms(response->due_ms) : "-",
                response->replayed ? "yes" : "no");
        cli_table_show(cli, &table);
    }
    hfi_call_release(call);
    return result;
}

int cli_op_complete(struct cli *cli)
{
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "Complete", .request = &request.base};

    if (!cli_token(cli, 2, &request.token))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.result_ref = cli_or_empty(cli, CLI_RESULT_REF);
    int result = cli_value(cli, 3, NULL, &request.result);
    if (!result)
        result = finish(cli, &call);
    free(request.result.data);
    return result;
}

int cli_op_fail(struct cli *cli)
{
    Holdfast__V1__FailRequest request = HOLDFAST__V1__FAIL_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "Fail", .request = &request.base};
    int class;

    if (!cli_token(cli, 2, &request.token))
        return CLI_USAGE;
    if (!cli_given(cli, CLI_CLASS))
        return cli_usage_error(cli, "op fail needs --class: transient, conflict, business, unknown, config or fenced");
    if (!cli_enum(cli, CLI_CLASS, &holdfast__v1__error_class__kind__descriptor, &class))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.error_class = (Holdfast__V1__ErrorClass__Kind) class;
    request.message = cli_or_empty(cli, CLI_MESSAGE);
    request.sqlstate = cli_or_empty(cli, CLI_SQLSTATE);
    request.retry_after_ms = cli_number(cli, CLI_RETRY_AFTER, 0);
    return finish(cli, &call);
}

int cli_op_unknown(struct cli *cli)
{
    Holdfast__V1__MarkUnknownRequest request = HOLDFAST__V1__MARK_UNKNOWN_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "MarkUnknown", .request = &request.base};

    if (!cli_token(cli, 2, &request.token))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.note = cli_or_empty(cli, CLI_MESSAGE);
    return finish(cli, &call);
}
