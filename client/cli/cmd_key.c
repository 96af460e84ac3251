/*
 * cmd_key.c - key create|set|revoke|list|denials: who may call; role map|unmap|list: which SQL roles may use a namespace.
 */
#include "client/cli/ops.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/items.h"
#include "holdfast/v1/admin.pb-c.h"

#define ADMIN     "/holdfast.v1.AdminService/"
#define BIT(flag) CLI_BIT(CLI_##flag)

enum { COLUMNS = 7, GRANT_TEXT = 400 };

static const cli_flags limits =
    BIT(ROLE) | BIT(ALL_NAMESPACES) | BIT(RESOURCES) | BIT(OPERATIONS) | BIT(EXPIRES) | BIT(RATE) | BIT(BURST);

/* ---- as tables ---- */

static const char *when_or(int64_t unix_ms, const char *otherwise)
{
    return unix_ms ? cli_when(unix_ms) : otherwise;
}

static const char *role_name(int role)
{
    static const char *const names[] = {"?", "reader", "worker", "operator", "admin"};
    return names[role > 0 && role < 5 ? role : 0];
}

/* "worker in payments on resources ledger/" */
static void describe(const Holdfast__V1__KeyGrant *grant, char out[GRANT_TEXT])
{
    int n = snprintf(out, GRANT_TEXT, "%s %s%s", role_name((int)grant->role), grant->all_namespaces ? "everywhere" : "in ",
                     grant->namespace_);
    if (*grant->resource_prefix && n < GRANT_TEXT)
        n += snprintf(out + n, (size_t)(GRANT_TEXT - n), ", resources %s", grant->resource_prefix);
    if (*grant->operation_prefix && n < GRANT_TEXT)
        snprintf(out + n, (size_t)(GRANT_TEXT - n), ", operations %s", grant->operation_prefix);
}

/* A line for each grant, the first one with all that is the key's own. */
static void row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__Key *key = item;
    char may[GRANT_TEXT];

    if (!key) {
        cli_row(table, "ID", "NAME", "MAY", "RATE", "EXPIRES", "LAST USED", "STATE");
        return;
    }
    const time_t now = time(NULL);
    for (size_t i = 0; i < key->n_grants; i++) {
        describe(key->grants[i], may);
        if (i > 0)
            cli_row(table, "", "", may, "", "", "", "");
        else
            cli_row(table, key->id, key->name, may, key->rate_per_s ? cli_int(key->rate_per_s) : "-",
                    when_or(key->expires_unix_ms, "never"), when_or(key->last_used_unix_ms, "never"),
                    key->revoked_unix_ms                                                  ? "revoked"
                    : key->expires_unix_ms && key->expires_unix_ms / 1000 <= (int64_t)now ? "expired"
                    : *key->certificate                                                   ? "certificate"
                                                                                          : "key");
    }
}

static int print_key(const struct cli *cli, const void *response, const Holdfast__V1__Key *key)
{
    struct cli_table table = {.columns = COLUMNS};

    if (cli->json)
        cli_print_json(response);
    row(&table, NULL);
    if (key)
        row(&table, key);
    cli_table_show(cli, &table);
    return CLI_OK;
}

/* ---- create and set ---- */

/* The one grant that the flags say. False: it was complained about. */
static bool grant_of_flags(struct cli *cli, Holdfast__V1__KeyGrant *grant)
{
    int role = 0;

    holdfast__v1__key_grant__init(grant);
    if (!cli_enum(cli, CLI_ROLE, &holdfast__v1__key_grant__role__descriptor, &role))
        return false;
    grant->role = (Holdfast__V1__KeyGrant__Role)role;
    grant->all_namespaces = cli_given(cli, CLI_ALL_NAMESPACES);
    if (grant->all_namespaces && cli_given(cli, CLI_NAMESPACE)) {
        cli_usage_error(cli, "either --namespace or --all-namespaces");
        return false;
    }
    if (!grant->all_namespaces)
        grant->namespace_ = (char *)cli->name_space;
    grant->resource_prefix = cli_or_empty(cli, CLI_RESOURCES);
    grant->operation_prefix = cli_or_empty(cli, CLI_OPERATIONS);
    return true;
}

static int create(struct cli *cli)
{
    Holdfast__V1__CreateKeyRequest request = HOLDFAST__V1__CREATE_KEY_REQUEST__INIT;
    Holdfast__V1__KeyGrant grant, *grants[] = {&grant};
    struct hfi_call call = {.method = ADMIN "CreateKey",
                            .request = &request.base,
                            .response_type = &holdfast__v1__create_key_response__descriptor,
                            .retry = HFI_RETRY_UNAPPLIED};
    char actor[CLI_ACTOR_SIZE];

    if (!cli_given(cli, CLI_ROLE))
        return cli_usage_error(cli, "key create needs --role: reader, worker, operator or admin");
    if (!grant_of_flags(cli, &grant))
        return CLI_USAGE;
    cli_actor(actor);
    request.name = (char *)cli_word(cli, 1);
    request.certificate = cli_or_empty(cli, CLI_CERTIFICATE);
    request.n_grants = 1;
    request.grants = grants;
    request.expires_in_ms = cli_number(cli, CLI_EXPIRES, 0);
    request.rate_per_s = cli_number(cli, CLI_RATE, 0);
    request.rate_burst = cli_number(cli, CLI_BURST, 0);
    request.actor = actor;
    int result = cli_call(cli, &call);
    if (!result) {
        const Holdfast__V1__CreateKeyResponse *response = (const Holdfast__V1__CreateKeyResponse *)call.response;
        if (cli->json || !*response->key)
            result = print_key(cli, response, response->info);
        else
            printf("%s\n", response->key); /* alone, so that it can be put where it belongs */
    }
    hfi_call_release(&call);
    return result;
}

#define SET(member) HOLDFAST__V1__SET_KEY_REQUEST__##member

/* Not repeated after a lost answer: a late repeat could undo what somebody else has set since. */
static int set(struct cli *cli)
{
    Holdfast__V1__SetKeyRequest request = HOLDFAST__V1__SET_KEY_REQUEST__INIT;
    Holdfast__V1__KeyGrant grant, *grants[] = {&grant};
    struct hfi_call call = {.method = ADMIN "SetKey",
                            .request = &request.base,
                            .response_type = &holdfast__v1__set_key_response__descriptor,
                            .retry = HFI_RETRY_UNAPPLIED};
    char actor[CLI_ACTOR_SIZE];

    if (!(cli->args.given & (BIT(ROLE) | BIT(EXPIRES) | BIT(RATE) | BIT(BURST))))
        return cli_usage_error(cli,
                               "key set needs something to set, such as --expires 24h; what it may do is given with its --role");
    if (cli_given(cli, CLI_ROLE)) {
        if (!grant_of_flags(cli, &grant))
            return CLI_USAGE;
        request.n_grants = 1;
        request.grants = grants;
    } else if (cli->args.given & (BIT(RESOURCES) | BIT(OPERATIONS) | BIT(ALL_NAMESPACES))) {
        return cli_usage_error(cli, "what a key may do is set as a whole: --role is needed too");
    }
    if (cli_given(cli, CLI_EXPIRES)) {
        request.expiry_case = SET(EXPIRY_EXPIRES_IN_MS);
        request.expires_in_ms = cli_number(cli, CLI_EXPIRES, 0);
    }
    if (cli_given(cli, CLI_RATE)) {
        request.rate_case = SET(RATE_RATE_PER_S);
        request.rate_per_s = cli_number(cli, CLI_RATE, 0);
    }
    if (cli_given(cli, CLI_BURST)) {
        request.burst_case = SET(BURST_RATE_BURST);
        request.rate_burst = cli_number(cli, CLI_BURST, 0);
    }
    cli_actor(actor);
    request.id = (char *)cli_word(cli, 1);
    request.actor = actor;
    int result = cli_call(cli, &call);
    if (!result)
        result = print_key(cli, call.response, ((const Holdfast__V1__SetKeyResponse *)call.response)->info);
    hfi_call_release(&call);
    return result;
}

/* ---- revoke, list, denials ---- */

static int revoke(struct cli *cli)
{
    Holdfast__V1__RevokeKeyRequest request = HOLDFAST__V1__REVOKE_KEY_REQUEST__INIT;
    struct hfi_call call = {.method = ADMIN "RevokeKey",
                            .request = &request.base,
                            .response_type = &holdfast__v1__revoke_key_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    char actor[CLI_ACTOR_SIZE];

    cli_actor(actor);
    request.id = (char *)cli_word(cli, 1);
    request.actor = actor;
    request.reason = cli_or_empty(cli, CLI_REASON);
    int result = cli_call(cli, &call);
    if (!result && cli->json)
        cli_print_json(call.response);
    hfi_call_release(&call);
    return result;
}

static int list(struct cli *cli)
{
    Holdfast__V1__ListKeysRequest request = HOLDFAST__V1__LIST_KEYS_REQUEST__INIT;
    const struct cli_list all = {.method = ADMIN "ListKeys",
                                 .request = &request,
                                 .response_type = &holdfast__v1__list_keys_response__descriptor,
                                 .columns = COLUMNS,
                                 .row = row};

    request.page_size = CLI_PAGE;
    request.revoked = cli_given(cli, CLI_REVOKED);
    return cli_list(cli, &all);
}

static void denial_row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__Denial *denial = item;

    if (!denial)
        cli_row(table, "MINUTE", "KEY", "NAME", "METHOD", "REASON", "COUNT");
    else
        cli_row(table, cli_when(denial->minute_unix_ms), *denial->id ? denial->id : "-", *denial->name ? denial->name : "-",
                *denial->method ? denial->method : "(others)", denial->reason, cli_int(denial->count));
}

static int denials(struct cli *cli)
{
    Holdfast__V1__ListDenialsRequest request = HOLDFAST__V1__LIST_DENIALS_REQUEST__INIT;
    const int64_t limit = cli_number(cli, CLI_LIMIT, 0);
    const struct cli_list all = {.method = ADMIN "ListDenials",
                                 .request = &request,
                                 .response_type = &holdfast__v1__list_denials_response__descriptor,
                                 .limit = (size_t)limit,
                                 .columns = 6,
                                 .row = denial_row};

    if (cli_given(cli, CLI_LIMIT) && limit < 1)
        return cli_usage_error(cli, "--limit %s: it must be at least 1", cli_text(cli, CLI_LIMIT));
    request.page_size = limit > 0 && limit < CLI_PAGE ? limit : CLI_PAGE;
    return cli_list(cli, &all);
}

int cli_key(struct cli *cli)
{
    static const struct cli_sub subs[] = {{"create", "NAME --role R [limits]", limits | BIT(CERTIFICATE), 1, 1, create},
                                          {"set", "ID [limits]", limits, 1, 1, set},
                                          {"revoke", "ID [--reason TEXT]", BIT(REASON), 1, 1, revoke},
                                          {"list", "[--revoked]", BIT(REVOKED), 0, 0, list},
                                          {"denials", "[--limit N]", BIT(LIMIT), 0, 0, denials},
                                          {NULL}};

    return cli_run_sub(cli, "key", subs);
}

/* ---- SQL roles ---- */

/* The request is a MapSqlRoleRequest or an UnmapSqlRoleRequest, which have the same fields. */
static int change_role(struct cli *cli, const char *method, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *response_type)
{
    struct hfi_call call = {.method = method, .request = request, .response_type = response_type, .retry = HFI_RETRY_HARMLESS};
    int result = cli_call(cli, &call);

    if (!result && cli->json)
        cli_print_json(call.response);
    hfi_call_release(&call);
    return result;
}

static int map(struct cli *cli)
{
    Holdfast__V1__MapSqlRoleRequest request = HOLDFAST__V1__MAP_SQL_ROLE_REQUEST__INIT;
    char actor[CLI_ACTOR_SIZE];

    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.role = (char *)cli_word(cli, 1);
    request.actor = actor;
    return change_role(cli, ADMIN "MapSqlRole", &request.base, &holdfast__v1__map_sql_role_response__descriptor);
}

static int unmap(struct cli *cli)
{
    Holdfast__V1__UnmapSqlRoleRequest request = HOLDFAST__V1__UNMAP_SQL_ROLE_REQUEST__INIT;
    char actor[CLI_ACTOR_SIZE];

    cli_actor(actor);
    request.namespace_ = (char *)cli->name_space;
    request.role = (char *)cli_word(cli, 1);
    request.actor = actor;
    return change_role(cli, ADMIN "UnmapSqlRole", &request.base, &holdfast__v1__unmap_sql_role_response__descriptor);
}

/* Its items are texts. */
static void role_row(struct cli_table *table, const void *item)
{
    cli_row(table, item ? (const char *)item : "ROLE");
}

static int list_roles(struct cli *cli)
{
    Holdfast__V1__ListSqlRolesRequest request = HOLDFAST__V1__LIST_SQL_ROLES_REQUEST__INIT;
    const struct cli_list all = {.method = ADMIN "ListSqlRoles",
                                 .request = &request,
                                 .response_type = &holdfast__v1__list_sql_roles_response__descriptor,
                                 .columns = 1,
                                 .row = role_row};

    request.namespace_ = (char *)cli->name_space;
    request.page_size = CLI_PAGE;
    return cli_list(cli, &all);
}

int cli_role(struct cli *cli)
{
    static const struct cli_sub subs[] = {
        {"map", "ROLE", 0, 1, 1, map}, {"unmap", "ROLE", 0, 1, 1, unmap}, {"list", "", 0, 0, 0, list_roles}, {NULL}};

    return cli_run_sub(cli, "role", subs);
}
