/*
 * op_show.c - op get, wait, list, attempts: what is stored.
 */
#include "client/cli/ops.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/items.h"

static const char *state_of(const Holdfast__V1__Operation *op)
{
    return op->sending ? "SENDING" : cli_enum_name(&holdfast__v1__operation__state__descriptor, (int)op->state);
}

static const char *class_of(Holdfast__V1__ErrorClass__Kind kind)
{
    return kind ? cli_enum_name(&holdfast__v1__error_class__kind__descriptor, (int)kind) : "-";
}

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

static void hex_of(const ProtobufCBinaryData *bytes, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < bytes->len && 2 * i + 2 < size; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes->data[i]);
}

static void print_operation(const Holdfast__V1__Operation *op)
{
    struct cli_table table = {.columns = 2};
    char fingerprint[65], size[48];

    hex_of(&op->fingerprint, fingerprint, sizeof(fingerprint));
    snprintf(size, sizeof(size), "%zu bytes", op->result.len);
    cli_row(&table, "KEY", op->key);
    cli_row(&table, "TYPE", op->type);
    cli_row(&table, "FINGERPRINT", fingerprint);
    cli_row(&table, "STATE", state_of(op));
    cli_row(&table, "REVISION", cli_int(op->revision));
    cli_row(&table, "ATTEMPTS", cli_int(op->attempts));
    cli_row(&table, "TOKEN", cli_int(op->token));
    cli_row(&table, "HOLDER", or_dash(op->holder));
    if (op->remaining_ms)
        cli_row(&table, op->state == HOLDFAST__V1__OPERATION__STATE__PENDING ? "DUE IN" : "LEFT", cli_ms(op->remaining_ms));
    cli_row(&table, "CREATED", cli_when(op->created_unix_ms));
    cli_row(&table, "CHANGED", cli_when(op->changed_unix_ms));
    if (op->error_class || *op->message) {
        cli_row(&table, "ERROR CLASS", class_of(op->error_class));
        cli_row(&table, "MESSAGE", or_dash(op->message));
        cli_row(&table, "SQLSTATE", or_dash(op->sqlstate));
    }
    if (op->state == HOLDFAST__V1__OPERATION__STATE__SUCCEEDED)
        cli_row(&table, "RESULT", *op->result_ref ? op->result_ref : size);
    if (*op->compensates)
        cli_row(&table, "UNDOES", op->compensates);
    if (*op->compensated_by)
        cli_row(&table, "UNDONE BY", op->compensated_by);
    cli_table_print(&table);
    if (op->result.len) {
        printf("\n");
        fwrite(op->result.data, 1, op->result.len, stdout);
        printf("\n");
    }
}

int cli_op_get(struct cli *cli)
{
    Holdfast__V1__GetOperationRequest request = HOLDFAST__V1__GET_OPERATION_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_OPERATION "Get",
                            .request = &request.base,
                            .response_type = &holdfast__v1__get_operation_response__descriptor,
                            .retry = HFI_RETRY_READ,
                            .reply_max = 2 * HF_VALUE_MAX + 16384};

    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__GetOperationResponse *response = (const Holdfast__V1__GetOperationResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        else if (response->operation)
            print_operation(response->operation);
        else
            result = cli_bad_answer(cli);
    }
    hfi_call_release(&call);
    return result;
}

/* Asked in pieces, so that no try of a long wait outlasts the timeout of a call. */
int cli_op_wait(struct cli *cli)
{
    enum { PIECE_MS = 10000, DEFAULT_MS = 30000 };
    Holdfast__V1__WaitOperationRequest request = HOLDFAST__V1__WAIT_OPERATION_REQUEST__INIT;
    const int64_t end_ms = hfi_boot_ms() + cli_number(cli, CLI_WAIT, DEFAULT_MS);

    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    for (;;) {
        struct hfi_call call = {.method = HFI_OPERATION "Wait",
                                .request = &request.base,
                                .response_type = &holdfast__v1__wait_operation_response__descriptor,
                                .timeout_ms = PIECE_MS + 5000,
                                .retry = HFI_RETRY_READ,
                                .reply_max = 2 * HF_VALUE_MAX + 16384};
        const int64_t left_ms = end_ms - hfi_boot_ms();
        request.wait_ms = left_ms < 0 ? 0 : left_ms < PIECE_MS ? left_ms : PIECE_MS;
        int result = cli_call(cli, &call);
        const Holdfast__V1__WaitOperationResponse *response = (const Holdfast__V1__WaitOperationResponse *)call.response;
        const bool over = result || response->ended || request.wait_ms == left_ms || left_ms <= 0;
        if (over && !result) {
            if (cli->json)
                cli_print_json(response);
            else if (response->operation)
                print_operation(response->operation);
            if (!response->ended)
                result = cli_refused(cli, "IN_PROGRESS", "%s has not ended within that time", request.key);
        }
        hfi_call_release(&call);
        if (over)
            return result;
    }
}

static void operation_row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__Operation *op = item;

    if (!op)
        cli_row(table, "KEY", "TYPE", "STATE", "REVISION", "ATTEMPTS", "CHANGED", "HOLDER", "MESSAGE");
    else
        cli_row(table, op->key, op->type, state_of(op), cli_int(op->revision), cli_int(op->attempts), cli_when(op->changed_unix_ms),
                or_dash(op->holder), or_dash(op->message));
}

int cli_op_list(struct cli *cli)
{
    Holdfast__V1__ListOperationsRequest request = HOLDFAST__V1__LIST_OPERATIONS_REQUEST__INIT;
    const int64_t limit = cli_number(cli, CLI_LIMIT, 0);
    const struct cli_list list = {.method = HFI_OPERATION "List",
                                  .request = &request,
                                  .response_type = &holdfast__v1__list_operations_response__descriptor,
                                  .limit = (size_t)limit,
                                  .columns = 8,
                                  .row = operation_row};
    int state = 0;

    if (cli_given(cli, CLI_LIMIT) && limit < 1)
        return cli_usage_error(cli, "--limit %s: it must be at least 1", cli_text(cli, CLI_LIMIT));
    if (cli_given(cli, CLI_STATE) && !cli_enum(cli, CLI_STATE, &holdfast__v1__operation__state__descriptor, &state))
        return CLI_USAGE;
    request.namespace_ = (char *)cli->name_space;
    request.state = (Holdfast__V1__Operation__State)state;
    request.type = cli_or_empty(cli, CLI_TYPE);
    request.prefix = cli_or_empty(cli, CLI_PREFIX);
    request.older_than_ms = cli_number(cli, CLI_OLDER_THAN, 0);
    request.page_size = limit > 0 && limit < CLI_PAGE ? limit : CLI_PAGE;
    return cli_list(cli, &list);
}

static void attempt_row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__Attempt *attempt = item;

    if (!attempt) {
        cli_row(table, "ATTEMPT", "TOKEN", "TRIGGER", "HOLDER", "STARTED", "ENDED", "OUTCOME", "CLASS", "SQLSTATE", "MESSAGE",
                "LATE");
        return;
    }
    cli_row(table, cli_int(attempt->attempt), cli_int(attempt->token),
            cli_enum_name(&holdfast__v1__trigger__kind__descriptor, (int)attempt->trigger), attempt->holder,
            cli_when(attempt->started_unix_ms), cli_when(attempt->ended_unix_ms),
            attempt->outcome ? cli_enum_name(&holdfast__v1__attempt__outcome__descriptor, (int)attempt->outcome) : "running",
            class_of(attempt->error_class), or_dash(attempt->sqlstate), or_dash(attempt->message), or_dash(attempt->late_call));
}

int cli_op_attempts(struct cli *cli)
{
    Holdfast__V1__ListAttemptsRequest request = HOLDFAST__V1__LIST_ATTEMPTS_REQUEST__INIT;
    const struct cli_list list = {.method = HFI_OPERATION "ListAttempts",
                                  .request = &request,
                                  .response_type = &holdfast__v1__list_attempts_response__descriptor,
                                  .columns = 11,
                                  .row = attempt_row};

    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.page_size = CLI_PAGE;
    return cli_list(cli, &list);
}
