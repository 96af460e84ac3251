/*
 * cli.c - what the commands share: words and flags, the client, calls.
 */
#include "client/cli/cli.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/values.h"

const char *cli_word(const struct cli *cli, size_t index)
{
    return cli->args.words[1 + index];
}

bool cli_given(const struct cli *cli, enum cli_flag flag)
{
    return cli->args.given & CLI_BIT(flag);
}

const char *cli_text(const struct cli *cli, enum cli_flag flag)
{
    return cli->args.text[flag];
}

int64_t cli_number(const struct cli *cli, enum cli_flag flag, int64_t otherwise)
{
    return cli_given(cli, flag) ? cli->args.number[flag] : otherwise;
}

bool cli_token(struct cli *cli, size_t index, int64_t *token)
{
    const char *wrong = cli_parse_number(cli_word(cli, index), token);

    if (wrong)
        cli_usage_error(cli, "TOKEN %s: %s", cli_word(cli, index), wrong);
    return !wrong;
}

int cli_hf_error(const struct cli *cli, const hf_error *error)
{
    struct hp_status status;
    enum hp_reason reason = hp_reason_by_name(error->reason);

    if (reason == HP_R_UNSPECIFIED)
        reason = error->result == HF_INVALID ? HP_R_MALFORMED : HP_R_INTERNAL;
    hp_status_set(&status, reason, "%s", error->message);
    if (error->code)
        status.code = (enum hp_code)error->code;
    return strcmp(error->reason, "UNREACHABLE") == 0 ? cli_error(cli, &status), CLI_UNREACHABLE : cli_error(cli, &status);
}

hf_client_options cli_client_options(const struct cli *cli)
{
    return (hf_client_options){.servers = cli->servers,
                               .name_space = cli->name_space,
                               .key = cli->key,
                               .timeout_ms = cli_number(cli, CLI_TIMEOUT, 0),
                               .tls_ca_file = cli->tls_ca,
                               .tls_cert_file = cli->tls_cert,
                               .tls_key_file = cli->tls_key};
}

void cli_hand_on(const struct cli *cli)
{
    const struct {
        const char *name, *value;
    } settings[] = {{"HOLDFAST_SERVER", cli->servers}, {"HOLDFAST_NAMESPACE", cli->name_space}, {"HOLDFAST_KEY", cli->key},
                    {"HOLDFAST_TLS_CA", cli->tls_ca},  {"HOLDFAST_TLS_CERT", cli->tls_cert},    {"HOLDFAST_TLS_KEY", cli->tls_key}};

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (settings[i].value)
            setenv(settings[i].name, settings[i].value, 1);
}

int cli_client(struct cli *cli)
{
    const hf_client_options options = cli_client_options(cli);
    hf_error error;

    if (cli->client)
        return CLI_OK;
    if (cli_given(cli, CLI_TIMEOUT) && options.timeout_ms == 0)
        return cli_usage_error(cli, "--timeout %s: a call needs some time", cli_text(cli, CLI_TIMEOUT));
    if (hf_client_new(&options, &cli->client, &error) == HF_OK)
        return CLI_OK;
    return cli_hf_error(cli, &error);
}

int cli_call(struct cli *cli, struct hfi_call *call)
{
    int failed = cli_client(cli);

    if (failed)
        return failed;
    return cli_ended(cli, hfi_call(cli->client, call), call);
}

int cli_ended(struct cli *cli, hf_result result, const struct hfi_call *call)
{
    if (result == HF_OK)
        return CLI_OK;
    int status = cli_error(cli, &call->status);
    return call->unreachable ? CLI_UNREACHABLE : status;
}

void cli_actor(char actor[CLI_ACTOR_SIZE])
{
    char host[128] = "";
    const char *user = getenv("USER");

    if (!user || !*user) {
        const struct passwd *entry = getpwuid(geteuid());
        user = entry ? entry->pw_name : "unknown";
    }
    gethostname(host, sizeof(host) - 1);
    snprintf(actor, CLI_ACTOR_SIZE, "%.60s@%s", user, *host ? host : "localhost");
}
