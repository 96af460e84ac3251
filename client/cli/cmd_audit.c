/*
 * cmd_audit.c - audit: what happened in a namespace, newest first.
 */
#include "client/cli/cli.h"

#include <stdio.h>
#include <time.h>

#include "client/cli/items.h"
#include "holdfast/v1/admin.pb-c.h"

static void row(struct cli_table *table, const void *item)
{
    const Holdfast__V1__AuditEntry *entry = item;

    if (!entry) {
        cli_row(table, "TIME", "KIND", "ABOUT", "TOKEN", "PRIOR", "ACTOR", "DETAIL");
        return;
    }
    const time_t seconds = (time_t)(entry->at_unix_ms / 1000);
    char when[32] = "", at[48];
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(at, sizeof(at), "%s.%03dZ", when, (int)(entry->at_unix_ms % 1000));
    cli_row(table, at, entry->kind,
            *entry->resource    ? entry->resource
            : *entry->operation ? entry->operation
                                : "-",
            entry->token ? cli_int(entry->token) : "-", entry->prior ? cli_int(entry->prior) : "-",
            *entry->actor ? entry->actor : "-", entry->detail);
}

int cli_audit(struct cli *cli)
{
    Holdfast__V1__AuditRequest request = HOLDFAST__V1__AUDIT_REQUEST__INIT;
    const int64_t limit = cli_number(cli, CLI_LIMIT, 0);
    const struct cli_list list = {.method = HFI_AUDIT,
                                  .request = &request,
                                  .response_type = &holdfast__v1__audit_response__descriptor,
                                  .limit = (size_t)limit,
                                  .columns = 7,
                                  .row = row};

    if (cli_given(cli, CLI_LIMIT) && limit < 1)
        return cli_usage_error(cli, "--limit %s: it must be at least 1", cli_text(cli, CLI_LIMIT));
    request.namespace_ = (char *)cli->name_space;
    request.operation = (char *)(cli_given(cli, CLI_OPERATION) ? cli_text(cli, CLI_OPERATION) : "");
    request.resource = (char *)(cli_given(cli, CLI_RESOURCE) ? cli_text(cli, CLI_RESOURCE) : "");
    request.page_size = limit > 0 && limit < CLI_PAGE ? limit : CLI_PAGE;
    return cli_list(cli, &list);
}
