/*
 * items.h - calls of one item (RESOURCE TOKEN on the command line), and lists of several pages.
 */
#ifndef HOLDFAST_CLI_ITEMS_H
#define HOLDFAST_CLI_ITEMS_H

#include "client/cli/cli.h"
#include "holdfast/v1/lease.pb-c.h"

struct item_call {
    Holdfast__V1__LeaseItem item;
    Holdfast__V1__LeaseItem *items[1]; /* points at `item` */
};

/* True if the words are RESOURCE TOKEN; `it` must not be moved then. Otherwise the error was printed: CLI_USAGE. */
bool item_of_words(struct cli *cli, struct item_call *it) __attribute__((warn_unused_result));

/* Prints the error of an item; returns the exit status. */
int cli_item_error(const struct cli *cli, const Holdfast__V1__ItemError *error);
/* Says that the server answered what this program doesn't know; returns the exit status. */
int cli_bad_answer(const struct cli *cli);
/* Prints the table for people; with --json nothing. Releases it. */
void cli_table_show(const struct cli *cli, struct cli_table *table);

/* All pages of a list. In: the first six. Out: the items, which live until pages_release. */
struct pages {
    const char *method;
    const ProtobufCMessageDescriptor *response_type;
    void *request;
    void *(*fill)(const struct cli *cli, void *request, const char *page_token);
    const char *(*items_of)(const void *response, void ***items, size_t *n); /* returns the next page's token */
    size_t limit;                                                            /* 0 = all */

    void **items;
    size_t n;
    struct hfi_call *calls;
    size_t n_calls;
};
/* CLI_OK, or the exit status: the error was printed. Release the pages in any case. */
int pages_fetch(struct cli *cli, struct pages *pages) __attribute__((warn_unused_result));
void pages_release(struct pages *pages);

#endif
