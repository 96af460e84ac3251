/*
 * cmd_namespace.c - namespace create|set|list: namespaces and their policies.
 */
#include "client/cli/cli.h"

#include <string.h>

#include "client/cli/items.h"
#include "holdfast/v1/admin.pb-c.h"

static const cli_flags policies = CLI_BIT(CLI_LOCK_DELAY) | CLI_BIT(CLI_MIN_TTL) | CLI_BIT(CLI_MAX_TTL) |
                                  CLI_BIT(CLI_AUDIT_WRITES) | CLI_BIT(CLI_MAX_LEASES) | CLI_BIT(CLI_MAX_WAITERS) |
                                  CLI_BIT(CLI_MAX_VALUE_BYTES) | CLI_BIT(CLI_AUDIT_KEEP_DAYS);

/* Only what was given. */
static void fill_policy(const struct cli *cli, Holdfast__V1__NamespacePolicy *policy)
{
    holdfast__v1__namespace_policy__init(policy);
    if (cli_given(cli, CLI_LOCK_DELAY)) {
        policy->lock_delay_case = HOLDFAST__V1__NAMESPACE_POLICY__LOCK_DELAY_LOCK_DELAY_MS;
        policy->lock_delay_ms = cli_number(cli, CLI_LOCK_DELAY, 0);
    }
    if (cli_given(cli, CLI_MIN_TTL)) {
        policy->min_ttl_case = HOLDFAST__V1__NAMESPACE_POLICY__MIN_TTL_MIN_TTL_MS;
        policy->min_ttl_ms = cli_number(cli, CLI_MIN_TTL, 0);
    }
    if (cli_given(cli, CLI_MAX_TTL)) {
        policy->max_ttl_case = HOLDFAST__V1__NAMESPACE_POLICY__MAX_TTL_MAX_TTL_MS;
        policy->max_ttl_ms = cli_number(cli, CLI_MAX_TTL, 0);
    }
    if (cli_given(cli, CLI_AUDIT_WRITES)) {
        policy->writes_case = HOLDFAST__V1__NAMESPACE_POLICY__WRITES_AUDIT_WRITES;
        policy->audit_writes = cli_number(cli, CLI_AUDIT_WRITES, 0) != 0;
    }
    if (cli_given(cli, CLI_MAX_LEASES)) {
        policy->leases_case = HOLDFAST__V1__NAMESPACE_POLICY__LEASES_MAX_LEASES;
        policy->max_leases = cli_number(cli, CLI_MAX_LEASES, 0);
    }
    if (cli_given(cli, CLI_MAX_WAITERS)) {
        policy->waiters_case = HOLDFAST__V1__NAMESPACE_POLICY__WAITERS_MAX_WAITERS;
        policy->max_waiters = cli_number(cli, CLI_MAX_WAITERS, 0);
    }
    if (cli_given(cli, CLI_MAX_VALUE_BYTES)) {
        policy->bytes_case = HOLDFAST__V1__NAMESPACE_POLICY__BYTES_MAX_VALUE_BYTES;
        policy->max_value_bytes = cli_number(cli, CLI_MAX_VALUE_BYTES, 0);
    }
    if (cli_given(cli, CLI_AUDIT_KEEP_DAYS)) {
        policy->keep_case = HOLDFAST__V1__NAMESPACE_POLICY__KEEP_AUDIT_KEEP_DAYS;
        policy->audit_keep_days = cli_number(cli, CLI_AUDIT_KEEP_DAYS, 0);
    }
}

static const char *limit(int64_t number)
{
    return number ? cli_int(number) : "-";
}

enum { COLUMNS = 11 };

static void row(struct cli_table *table, const void *item)
{
    static const Holdfast__V1__NamespacePolicy none = HOLDFAST__V1__NAMESPACE_POLICY__INIT;
    const Holdfast__V1__Namespace *namespace_ = item;

    if (!namespace_) {
        cli_row(table, "NAMESPACE", "LOCK DELAY", "MIN TTL", "MAX TTL", "AUDIT WRITES", "MAX LEASES", "MAX WAITERS", "MAX BYTES",
                "KEEP DAYS", "FLOOR", "STATE");
        return;
    }
    const Holdfast__V1__NamespacePolicy *p = namespace_->policy ? namespace_->policy : &none;
    cli_row(table, namespace_->name, cli_ms(p->lock_delay_ms), cli_ms(p->min_ttl_ms), cli_ms(p->max_ttl_ms),
            p->audit_writes ? "on" : "off", limit(p->max_leases), limit(p->max_waiters), limit(p->max_value_bytes),
            cli_int(p->audit_keep_days), cli_int(namespace_->fence_floor), namespace_->retired ? "retired" : "serving");
}

static int print_one(const struct cli *cli, const ProtobufCMessage *response, const Holdfast__V1__Namespace *namespace_)
{
    struct cli_table table = {.columns = COLUMNS};

    if (cli->json) {
        cli_print_json(response);
        return CLI_OK;
    }
    if (!namespace_)
        return cli_bad_answer(cli);
    row(&table, NULL);
    row(&table, namespace_);
    cli_table_print(&table);
    return CLI_OK;
}

static int create(struct cli *cli)
{
    Holdfast__V1__CreateNamespaceRequest request = HOLDFAST__V1__CREATE_NAMESPACE_REQUEST__INIT;
    Holdfast__V1__NamespacePolicy policy;
    struct hfi_call call = {.method = HFI_CREATE_NAMESPACE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__create_namespace_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    char actor[CLI_ACTOR_SIZE];

    cli_actor(actor);
    fill_policy(cli, &policy);
    request.name = (char *)cli_word(cli, 1);
    request.policy = &policy;
    request.actor = actor;
    int result = cli_call(cli, &call);
    if (!result)
        result = print_one(cli, call.response, ((const Holdfast__V1__CreateNamespaceResponse *)call.response)->namespace_);
    hfi_call_release(&call);
    return result;
}

/* Not repeated after a lost answer: a late repeat could undo what somebody else has set since. */
static int set(struct cli *cli)
{
    Holdfast__V1__SetNamespaceRequest request = HOLDFAST__V1__SET_NAMESPACE_REQUEST__INIT;
    Holdfast__V1__NamespacePolicy policy;
    struct hfi_call call = {.method = HFI_SET_NAMESPACE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__set_namespace_response__descriptor,
                            .retry = HFI_RETRY_UNAPPLIED};
    char actor[CLI_ACTOR_SIZE];

    if (!(cli->args.given & policies))
        return cli_usage_error(cli, "namespace set needs a policy to set, such as --lock-delay 5s");
    cli_actor(actor);
    fill_policy(cli, &policy);
    request.name = (char *)cli_word(cli, 1);
    request.policy = &policy;
    request.actor = actor;
    int result = cli_call(cli, &call);
    if (!result)
        result = print_one(cli, call.response, ((const Holdfast__V1__SetNamespaceResponse *)call.response)->namespace_);
    hfi_call_release(&call);
    return result;
}

static int list(struct cli *cli)
{
    Holdfast__V1__ListNamespacesRequest request = HOLDFAST__V1__LIST_NAMESPACES_REQUEST__INIT;
    const struct cli_list namespaces = {.method = HFI_LIST_NAMESPACES,
                                        .request = &request,
                                        .response_type = &holdfast__v1__list_namespaces_response__descriptor,
                                        .columns = COLUMNS,
                                        .row = row};

    request.page_size = CLI_PAGE;
    return cli_list(cli, &namespaces);
}

int cli_namespace(struct cli *cli)
{
    static const struct {
        const char *name;
        size_t words;
        cli_flags flags;
        int (*handler)(struct cli *cli);
    } commands[] = {{"create", 2, CLI_ANY, create}, {"set", 2, CLI_ANY, set}, {"list", 1, 0, list}};
    struct hp_status status;

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, cli_word(cli, 0)) != 0)
            continue;
        if (cli->args.n_words - 1 != commands[i].words)
            break;
        if (!cli_args_allow(&cli->args, commands[i].flags, "namespace list", &status))
            return cli_error(cli, &status);
        return commands[i].handler(cli);
    }
    return cli_usage_error(cli, "usage: holdfast namespace create NAME [policies] | set NAME [policies] | list");
}
