/*
 * items.c - calls of one item, and lists of several pages.
 */
#include "client/cli/items.h"

#include <stdlib.h>

bool item_of_words(struct cli *cli, struct item_call *it)
{
    int64_t token;

    if (!cli_token(cli, 1, &token))
        return false;
    holdfast__v1__lease_item__init(&it->item);
    it->item.resource = (char *)cli_word(cli, 0);
    it->item.token = token;
    it->items[0] = &it->item;
    return true;
}

int cli_item_error(const struct cli *cli, const Holdfast__V1__ItemError *error)
{
    struct hp_status status;

    hp_status_set(&status, hp_reason_by_name(error->reason), "%s", error->message);
    status.code = (enum hp_code)error->code;
    return cli_error(cli, &status);
}

int cli_bad_answer(const struct cli *cli)
{
    struct hp_status status;

    hp_status_set(&status, HP_R_INTERNAL, "the server's answer is not one this program knows");
    return cli_error(cli, &status);
}

void cli_table_show(const struct cli *cli, struct cli_table *table)
{
    if (cli->json)
        cli_table_release(table);
    else
        cli_table_print(table);
}

static void *grown(void *array, size_t n, size_t size)
{
    void *bigger = realloc(array, n * size);

    if (!bigger)
        abort();
    return bigger;
}

int pages_fetch(struct cli *cli, struct pages *pages)
{
    const char *page_token = "";

    do {
        void **items;
        size_t n;
        pages->calls = grown(pages->calls, pages->n_calls + 1, sizeof(*pages->calls));
        struct hfi_call *call = &pages->calls[pages->n_calls++];
        *call = (struct hfi_call){.method = pages->method,
                                  .request = pages->fill(cli, pages->request, page_token),
                                  .response_type = pages->response_type,
                                  .retry = HFI_RETRY_HARMLESS,
                                  .reply_max = 4 << 20};
        int failed = cli_call(cli, call);
        if (failed)
            return failed;
        page_token = pages->items_of(call->response, &items, &n);
        if (n) {
            pages->items = grown(pages->items, pages->n + n, sizeof(*pages->items));
            for (size_t i = 0; i < n; i++)
                pages->items[pages->n++] = items[i];
        }
    } while (*page_token && (!pages->limit || pages->n < pages->limit));
    if (pages->limit && pages->n > pages->limit)
        pages->n = pages->limit;
    return CLI_OK;
}

void pages_release(struct pages *pages)
{
    for (size_t i = 0; i < pages->n_calls; i++)
        hfi_call_release(&pages->calls[i]);
    free(pages->calls);
    free(pages->items);
    pages->items = NULL;
    pages->calls = NULL;
    pages->n = pages->n_calls = 0;
}
