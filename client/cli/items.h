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

/* Takes the value from the word at `index`, from standard input (-) or from --file into memory of its own: free value->data.
 * Without `needed_by`, a command's name, it may be absent: then it is empty. CLI_OK, or the exit status: the error was printed. */
int cli_value(struct cli *cli, size_t index, const char *needed_by, ProtobufCBinaryData *value) __attribute__((warn_unused_result));

/* Prints the error of an item; returns the exit status. */
int cli_item_error(const struct cli *cli, const Holdfast__V1__ItemError *error);
/* Says that the server answered what this program doesn't know; returns the exit status. */
int cli_bad_answer(const struct cli *cli);
/* Prints the table for people; with --json nothing. Releases it. */
void cli_table_show(const struct cli *cli, struct cli_table *table);

enum { CLI_PAGE = 1000 }; /* the largest page a server gives */

/* A list: a method whose request has a page_token, and whose response has items in its first field, and a next_page_token. */
struct cli_list {
    const char *method;
    void *request; /* a message; its page_token is filled in */
    const ProtobufCMessageDescriptor *response_type;
    size_t limit; /* at most so many; 0 = all */
    size_t columns;
    void (*row)(struct cli_table *table, const void *item); /* NULL: the head */
};
/* Fetches all its pages and prints them as one. The exit status. */
int cli_list(struct cli *cli, const struct cli_list *list);

#endif
