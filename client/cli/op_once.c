/*
 * op_once.c - op record and execute: operations of a single call; and how parameters are given.
 */
#include "client/cli/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/items.h"

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool fingerprint_of(const char *text, uint8_t bytes[32])
{
    for (size_t i = 0; i < 32; i++, text += 2) {
        if (hex(text[0]) < 0 || hex(text[1]) < 0)
            return false;
        bytes[i] = (uint8_t)(hex(text[0]) << 4 | hex(text[1]));
    }
    return !*text;
}

bool cli_parameters(struct cli *cli, const char *otherwise, struct cli_parameters *parameters)
{
    const char *text = cli_text(cli, CLI_FINGERPRINT);
    const bool json = cli_given(cli, CLI_CANONICAL);

    *parameters = (struct cli_parameters){.canonical_json = (char *)(json ? cli_text(cli, CLI_CANONICAL) : otherwise)};
    if (!cli_given(cli, CLI_TYPE)) {
        cli_usage_error(cli, "op %s needs --type T", cli_word(cli, 0));
        return false;
    }
    if ((text && json) || (!text && !parameters->canonical_json)) {
        cli_usage_error(cli, "op %s needs one of --fingerprint HEX64 and --canonical JSON", cli_word(cli, 0));
        return false;
    }
    if (text && !fingerprint_of(text, parameters->bytes)) {
        cli_usage_error(cli, "--fingerprint %s: 64 hexadecimal digits", text);
        return false;
    }
    if (text)
        parameters->fingerprint = (ProtobufCBinaryData){.len = 32, .data = parameters->bytes};
    return true;
}

static int print_recorded(const struct cli *cli, const Holdfast__V1__RecordResponse *response)
{
    if (cli->json)
        cli_print_json(response);
    if (!response->replayed) {
        struct cli_table table = {.columns = 2};
        cli_row(&table, "KEY", "RECORDED");
        cli_row(&table, cli_word(cli, 1), cli_when(response->first_completed_unix_ms));
        cli_table_show(cli, &table);
        return CLI_OK;
    }
    if (cli->json)
        return CLI_OK;
    if (response->result.len)
        fwrite(response->result.data, 1, response->result.len, stdout);
    else if (*response->result_ref)
        printf("%s\n", response->result_ref);
    fflush(stdout);
    fprintf(stderr, "holdfast: REPLAYED: %s was kept at %s\n", cli_word(cli, 1), cli_when(response->first_completed_unix_ms));
    return CLI_OK;
}

static int record(struct cli *cli, Holdfast__V1__RecordRequest *request)
{
    struct hfi_call call = {.method = HFI_OPERATION "Record",
                            .request = &request->base,
                            .response_type = &holdfast__v1__record_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS,
                            .reply_max = HF_VALUE_MAX + 8192};

    int result = cli_call(cli, &call);
    if (!result)
        result = print_recorded(cli, (const Holdfast__V1__RecordResponse *)call.response);
    hfi_call_release(&call);
    return result;
}

int cli_op_record(struct cli *cli)
{
    Holdfast__V1__RecordRequest request = HOLDFAST__V1__RECORD_REQUEST__INIT;
    struct cli_parameters parameters;

    if (!cli_parameters(cli, NULL, &parameters))
        return CLI_USAGE;
    request.parameters_case = parameters.fingerprint.data ? HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT
                                                          : HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_CANONICAL_JSON;
    if (parameters.fingerprint.data)
        request.fingerprint = parameters.fingerprint;
    else
        request.canonical_json = parameters.canonical_json;
    request.namespace_ = (char *)cli->name_space;
    request.key = (char *)cli_word(cli, 1);
    request.type = (char *)cli_text(cli, CLI_TYPE);
    request.result_ref = cli_or_empty(cli, CLI_RESULT_REF);
    int result = cli_value(cli, 2, NULL, &request.result);
    if (!result)
        result = record(cli, &request);
    free(request.result.data);
    return result;
}

static int print_executed(const struct cli *cli, const Holdfast__V1__ExecuteResponse *response)
{
    if (cli->json)
        cli_print_json(response);
    switch (response->outcome_case) {
    case HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_DONE:
        if (response->replayed) {
            const int status = cli_op_replayed(cli, cli_word(cli, 1), response->done);
            return response->done->failed ? CLI_REFUSED : status == CLI_REPLAYED ? CLI_OK : status;
        }
        if (!cli->json)
            printf("%.*s\n", (int)response->done->result.len, (const char *)response->done->result.data);
        return CLI_OK;
    case HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_IN_PROGRESS:
        return cli_op_in_progress(cli, cli_word(cli, 1), response->in_progress);
    default:
        return cli_bad_answer(cli);
    }
}

static int execute(struct cli *cli, Holdfast__V1__ExecuteRequest *request)
{
    struct hfi_call call = {.method = HFI_OPERATION "Execute",
                            .request = &request->base,
                            .response_type = &holdfast__v1__execute_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS,
                            .reply_max = HF_VALUE_MAX + 8192};

    request->namespace_ = (char *)cli->name_space;
    request->key = (char *)cli_word(cli, 1);
    request->type = (char *)cli_text(cli, CLI_TYPE);
    request->action = (char *)cli_text(cli, CLI_ACTION);
    request->args = cli_or_empty(cli, CLI_ARGS);
    request->resource = cli_or_empty(cli, CLI_RESOURCE);
    request->token = cli_number(cli, CLI_TOKEN, 0);
    if (cli_given(cli, CLI_EXPECTED_VERSION)) {
        request->expected_case = HOLDFAST__V1__EXECUTE_REQUEST__EXPECTED_EXPECTED_VERSION;
        request->expected_version = cli_number(cli, CLI_EXPECTED_VERSION, 0);
    }
    int result = cli_client(cli);
    if (result)
        return result;
    request->holder = (char *)(cli_given(cli, CLI_HOLDER) ? cli_text(cli, CLI_HOLDER) : hf_client_holder(cli->client));
    result = cli_call(cli, &call);
    if (!result)
        result = print_executed(cli, (const Holdfast__V1__ExecuteResponse *)call.response);
    hfi_call_release(&call);
    return result;
}

int cli_op_execute(struct cli *cli)
{
    Holdfast__V1__ExecuteRequest request = HOLDFAST__V1__EXECUTE_REQUEST__INIT;
    struct cli_parameters parameters;

    if (!cli_given(cli, CLI_ACTION))
        return cli_usage_error(cli, "op execute needs --action A");
    /* What is executed is told by the arguments, unless the caller knows better. */
    if (!cli_parameters(cli,
                        cli_given(cli, CLI_FINGERPRINT) ? NULL
                        : cli_given(cli, CLI_ARGS)      ? cli_text(cli, CLI_ARGS)
                                                        : "{}",
                        &parameters))
        return CLI_USAGE;
    request.parameters_case = parameters.fingerprint.data ? HOLDFAST__V1__EXECUTE_REQUEST__PARAMETERS_FINGERPRINT
                                                          : HOLDFAST__V1__EXECUTE_REQUEST__PARAMETERS_CANONICAL_JSON;
    if (parameters.fingerprint.data)
        request.fingerprint = parameters.fingerprint;
    else
        request.canonical_json = parameters.canonical_json;
    return execute(cli, &request);
}
