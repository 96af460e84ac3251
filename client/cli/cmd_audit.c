/*
 * cmd_audit.c - audit: what happened in a namespace, newest first.
 */
#include "client/cli/cli.h"

#include <stdio.h>
#include <time.h>

#include "client/cli/items.h"
#include "holdfast/v1/admin.pb-c.h"

enum { PAGE = 1000 };

static void *page(const struct cli *cli, void *request_, const char *page_token)
{
    const int64_t limit = cli_number(cli, CLI_LIMIT, 0);
    Holdfast__V1__AuditRequest *request = request_;

    holdfast__v1__audit_request__init(request);
    request->namespace_ = (char *)cli->name_space;
    request->resource = (char *)(cli_given(cli, CLI_RESOURCE) ? cli_text(cli, CLI_RESOURCE) : "");
    request->page_size = limit > 0 && limit < PAGE ? limit : PAGE;
    request->page_token = (char *)page_token;
    return request;
}

static const char *items(const void *response_, void ***out, size_t *n)
{
    const Holdfast__V1__AuditResponse *response = response_;

    *out = (void **)response->entries;
    *n = response->n_entries;
    return response->next_page_token;
}

static void row(struct cli_table *table, const Holdfast__V1__AuditEntry *entry)
{
    const time_t seconds = (time_t)(entry->at_unix_ms / 1000);
    char when[32] = "", at[48];
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(at, sizeof(at), "%s.%03dZ", when, (int)(entry->at_unix_ms % 1000));
    cli_row(table, at, entry->kind, *entry->resource ? entry->resource : "-", entry->token ? cli_int(entry->token) : "-",
            entry->prior ? cli_int(entry->prior) : "-", *entry->actor ? entry->actor : "-", entry->detail);
}

int cli_audit(struct cli *cli)
{
    Holdfast__V1__AuditRequest request;
    Holdfast__V1__AuditResponse all = HOLDFAST__V1__AUDIT_RESPONSE__INIT;
    struct pages pages = {.method = HFI_AUDIT,
                          .response_type = &holdfast__v1__audit_response__descriptor,
                          .request = &request,
                          .fill = page,
                          .items_of = items};
    struct cli_table table = {.columns = 7};

    if (cli_given(cli, CLI_LIMIT) && cli_number(cli, CLI_LIMIT, 0) < 1)
        return cli_usage_error(cli, "--limit %s: it must be at least 1", cli_text(cli, CLI_LIMIT));
    pages.limit = (size_t)cli_number(cli, CLI_LIMIT, 0);
    int result = pages_fetch(cli, &pages);
    if (!result && cli->json) {
        all.n_entries = pages.n;
        all.entries = (Holdfast__V1__AuditEntry **)pages.items;
        cli_print_json(&all);
    } else if (!result) {
        cli_row(&table, "TIME", "KIND", "RESOURCE", "TOKEN", "PRIOR", "ACTOR", "DETAIL");
        for (size_t i = 0; i < pages.n; i++)
            row(&table, pages.items[i]);
        cli_table_print(&table);
    }
    pages_release(&pages);
    return result;
}
