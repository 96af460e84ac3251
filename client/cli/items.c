/*
 * items.c - calls of one item, and lists of several pages.
 */
#include "client/cli/items.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- lists ---- */

struct pages {
    void **items; /* of all pages, inside `calls` */
    size_t n;
    struct hfi_call *calls;
    size_t n_calls;
};

static void *grown(void *array, size_t n, size_t size)
{
    void *bigger = realloc(array, n * size);

    if (!bigger)
        abort();
    return bigger;
}

/* Where a message has the page token of this name. */
static char **token_at(const ProtobufCMessage *message, const char *name)
{
    return (char **)((uintptr_t)message + protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name)->offset);
}

static void add_items(struct pages *pages, const struct cli_list *list, const ProtobufCMessage *response)
{
    const ProtobufCFieldDescriptor *field = &list->response_type->fields[0];
    size_t n;
    void **items;

    memcpy(&n, (const char *)response + field->quantifier_offset, sizeof(n));
    memcpy(&items, (const char *)response + field->offset, sizeof(items));
    if (n == 0)
        return;
    pages->items = grown(pages->items, pages->n + n, sizeof(*pages->items));
    memcpy(pages->items + pages->n, items, n * sizeof(*items));
    pages->n += n;
}

static int fetch(struct cli *cli, const struct cli_list *list, struct pages *pages)
{
    char **token = token_at(list->request, "page_token");

    do {
        pages->calls = grown(pages->calls, pages->n_calls + 1, sizeof(*pages->calls));
        struct hfi_call *call = &pages->calls[pages->n_calls++];
        *call = (struct hfi_call){.method = list->method,
                                  .request = list->request,
                                  .response_type = list->response_type,
                                  .retry = HFI_RETRY_HARMLESS,
                                  .reply_max = 4 << 20};
        int failed = cli_call(cli, call);
        if (failed)
            return failed;
        add_items(pages, list, call->response);
        *token = *token_at(call->response, "next_page_token");
    } while (**token && (!list->limit || pages->n < list->limit));
    if (list->limit && pages->n > list->limit)
        pages->n = list->limit;
    return CLI_OK;
}

/* One response with all the items. */
static void print_json(const struct cli_list *list, const struct pages *pages)
{
    const ProtobufCFieldDescriptor *field = &list->response_type->fields[0];
    void *all = grown(NULL, 1, list->response_type->sizeof_message);

    list->response_type->message_init(all);
    memcpy((char *)all + field->quantifier_offset, &pages->n, sizeof(pages->n));
    memcpy((char *)all + field->offset, &pages->items, sizeof(pages->items));
    cli_print_json(all);
    free(all);
}

int cli_list(struct cli *cli, const struct cli_list *list)
{
    struct pages pages = {0};
    struct cli_table table = {.columns = list->columns};

    int result = fetch(cli, list, &pages);
    if (!result && cli->json) {
        print_json(list, &pages);
    } else if (!result) {
        list->row(&table, NULL);
        for (size_t i = 0; i < pages.n; i++)
            list->row(&table, pages.items[i]);
        cli_table_print(&table);
    }
    for (size_t i = 0; i < pages.n_calls; i++)
        hfi_call_release(&pages.calls[i]);
    free(pages.calls);
    free(pages.items);
    return result;
}
