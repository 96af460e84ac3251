/*
 * cmd_policy.c - policy set|list: how operations are retried and kept; action register|remove|list: what may be executed.
 */
#include "client/cli/ops.h"

#include <string.h>

#include "client/cli/items.h"
#include "holdfast/v1/admin.pb-c.h"

#define ADMIN     "/holdfast.v1.AdminService/"
#define BIT(flag) CLI_BIT(CLI_##flag)

static const cli_flags policies =
    BIT(MAX_ATTEMPTS) | BIT(MAX_ELAPSED) | BIT(BASE_DELAY) | BIT(MAX_DELAY) | BIT(ON_LOST) | BIT(RETENTION);

/* ---- policy ---- */

enum { COLUMNS = 7 };

static void policy_row(struct cli_table *table, const char *type, const Holdfast__V1__OperationPolicy *p)
{
    cli_row(table, *type ? type : "(others)", cli_int(p->max_attempts), cli_ms(p->max_elapsed_ms), cli_ms(p->base_ms),
            cli_ms(p->cap_ms), cli_enum_name(&holdfast__v1__operation_policy__on_lost__descriptor, (int)p->on_lost),
            cli_ms(p->retention_ms));
}

static void row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__OperationPolicyEntry *entry = item;

    if (!entry)
        cli_row(table, "TYPE", "MAX ATTEMPTS", "MAX ELAPSED", "BASE DELAY", "MAX DELAY", "ON LOST", "RETENTION");
    else if (entry->policy)
        policy_row(table, entry->type, entry->policy);
}

/* Only what was given. */
static bool fill_policy(const struct cli *cli, Holdfast__V1__OperationPolicy *policy)
{
    int on_lost = 0;

    holdfast__v1__operation_policy__init(policy);
    if (cli_given(cli, CLI_MAX_ATTEMPTS)) {
        policy->attempts_case = HOLDFAST__V1__OPERATION_POLICY__ATTEMPTS_MAX_ATTEMPTS;
        policy->max_attempts = cli_number(cli, CLI_MAX_ATTEMPTS, 0);
    }
    if (cli_given(cli, CLI_MAX_ELAPSED)) {
        policy->elapsed_case = HOLDFAST__V1__OPERATION_POLICY__ELAPSED_MAX_ELAPSED_MS;
        policy->max_elapsed_ms = cli_number(cli, CLI_MAX_ELAPSED, 0);
    }
    if (cli_given(cli, CLI_BASE_DELAY)) {
        policy->base_case = HOLDFAST__V1__OPERATION_POLICY__BASE_BASE_MS;
        policy->base_ms = cli_number(cli, CLI_BASE_DELAY, 0);
    }
    if (cli_given(cli, CLI_MAX_DELAY)) {
        policy->cap_case = HOLDFAST__V1__OPERATION_POLICY__CAP_CAP_MS;
        policy->cap_ms = cli_number(cli, CLI_MAX_DELAY, 0);
    }
    if (cli_given(cli, CLI_RETENTION)) {
        policy->retention_case = HOLDFAST__V1__OPERATION_POLICY__RETENTION_RETENTION_MS;
        policy->retention_ms = cli_number(cli, CLI_RETENTION, 0);
    }
    if (cli_given(cli, CLI_ON_LOST) && !cli_enum(cli, CLI_ON_LOST, &holdfast__v1__operation_policy__on_lost__descriptor, &on_lost))
        return false;
    policy->on_lost = (Holdfast__V1__OperationPolicy__OnLost)on_lost;
    return true;
}

/* Not repeated after a lost answer: a late repeat could undo what somebody else has set since. */
static int set(struct cli *cli)
{
    Holdfast__V1__SetOperationPolicyRequest request = HOLDFAST__V1__SET_OPERATION_POLICY_REQUEST__INIT;
    Holdfast__V1__OperationPolicy policy;
    struct hfi_call call = {.method = ADMIN "SetOperationPolicy",
                            .request = &request.base,
                            .response_type = &holdfast__v1__set_operation_policy_response__descriptor,
                            .retry = HFI_RETRY_UNAPPLIED};
    struct cli_table table = {.columns = COLUMNS};
    char actor[CLI_ACTOR_SIZE];

    if (!(cli->args.given & policies))
        return cli_usage_error(cli, "policy set needs a policy to set, such as --max-attempts 4");
    if (!fill_policy(cli, &policy))
        return CLI_USAGE;
    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.type = (char *)(cli->args.n_words > 2 ? cli_word(cli, 1) : "");
    request.policy = &policy;
    request.actor = actor;
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__SetOperationPolicyResponse *response = (const Holdfast__V1__SetOperationPolicyResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        if (response->policy) {
            row(&table, NULL);
            policy_row(&table, request.type, response->policy);
        }
        cli_table_show(cli, &table);
    }
    hfi_call_release(&call);
    return result;
}

static int list(struct cli *cli)
{
    Holdfast__V1__ListOperationPoliciesRequest request = HOLDFAST__V1__LIST_OPERATION_POLICIES_REQUEST__INIT;
    const struct cli_list all = {.method = ADMIN "ListOperationPolicies",
                                 .request = &request,
                                 .response_type = &holdfast__v1__list_operation_policies_response__descriptor,
                                 .columns = COLUMNS,
                                 .row = row};

    request.namespace_ = (char *)cli->name_space;
    request.page_size = CLI_PAGE;
    return cli_list(cli, &all);
}

int cli_policy(struct cli *cli)
{
    static const struct cli_sub subs[] = {{"set", "[TYPE] [policies]", CLI_ANY, 0, 1, set}, {"list", "", 0, 0, 0, list}, {NULL}};

    return cli_run_sub(cli, "policy", subs);
}

/* ---- action ---- */

static void action_row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__Action *action = item;

    if (!action)
        cli_row(table, "ACTION", "FUNCTION", "ROLE", "MAX TIME");
    else
        cli_row(table, action->name, action->function, action->role, cli_ms(action->timeout_ms));
}

static int register_action(struct cli *cli)
{
    Holdfast__V1__RegisterActionRequest request = HOLDFAST__V1__REGISTER_ACTION_REQUEST__INIT;
    struct hfi_call call = {.method = ADMIN "RegisterAction",
                            .request = &request.base,
                            .response_type = &holdfast__v1__register_action_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    struct cli_table table = {.columns = 4};
    char actor[CLI_ACTOR_SIZE];

    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.name = (char *)cli_word(cli, 1);
    request.function = (char *)cli_word(cli, 2);
    request.timeout_ms = cli_number(cli, CLI_MAX_TIME, 0);
    request.actor = actor;
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__RegisterActionResponse *response = (const Holdfast__V1__RegisterActionResponse *)call.response;
        if (cli->json)
            cli_print_json(response);
        action_row(&table, NULL);
        if (response->action)
            action_row(&table, response->action);
        cli_table_show(cli, &table);
    }
    hfi_call_release(&call);
    return result;
}

static int remove_action(struct cli *cli)
{
    Holdfast__V1__RemoveActionRequest request = HOLDFAST__V1__REMOVE_ACTION_REQUEST__INIT;
    struct hfi_call call = {.method = ADMIN "RemoveAction",
                            .request = &request.base,
                            .response_type = &holdfast__v1__remove_action_response__descriptor,
                            .retry = HFI_RETRY_UNAPPLIED};
    char actor[CLI_ACTOR_SIZE];

    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.name = (char *)cli_word(cli, 1);
    request.actor = actor;
    int result = cli_call(cli, &call);
    if (!result && cli->json)
        cli_print_json(call.response);
    hfi_call_release(&call);
    return result;
}

static int list_actions(struct cli *cli)
{
    Holdfast__V1__ListActionsRequest request = HOLDFAST__V1__LIST_ACTIONS_REQUEST__INIT;
    const struct cli_list all = {.method = ADMIN "ListActions",
                                 .request = &request,
                                 .response_type = &holdfast__v1__list_actions_response__descriptor,
                                 .columns = 4,
                                 .row = action_row};

    request.namespace_ = (char *)cli->name_space;
    request.page_size = CLI_PAGE;
    return cli_list(cli, &all);
}

int cli_action(struct cli *cli)
{
    static const struct cli_sub subs[] = {{"register", "NAME SCHEMA.FUNCTION [--max-time D]", BIT(MAX_TIME), 2, 2, register_action},
                                          {"remove", "NAME", 0, 1, 1, remove_action},
                                          {"list", "", 0, 0, 0, list_actions},
                                          {NULL}};

    return cli_run_sub(cli, "action", subs);
}
