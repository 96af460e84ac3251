/*
 * commands.h - the table of commands, and the way from the command line to a handler.
 */
#ifndef HOLDFAST_CLI_COMMANDS_H
#define HOLDFAST_CLI_COMMANDS_H

#include "client/cli/cli.h"

struct cli_command {
    const char *name;
    const char *usage;           /* what stands behind the name */
    const char *summary;         /* NULL: not shown in help */
    cli_flags flags;             /* beside the global ones */
    size_t min_words, max_words; /* behind the command word */
    int (*handler)(struct cli *cli);
    const char *choices; /* what the first word may be, separated by spaces; NULL: anything */
    const char *details; /* for help, behind the flags, with newlines; NULL: none */
};

/* Runs the command; returns the exit status of the program. */
int cli_main(int argc, char **argv);

/* The commands, ended by a NULL name; for tests. */
extern const struct cli_command cli_commands[];

#endif
