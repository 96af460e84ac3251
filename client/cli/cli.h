/*
 * cli.h - what the commands share: the invocation, one call to the server, output, exit codes.
 *
 * A command gets a `struct cli` and returns the exit status. One thread; the client inside is made on first use, so that a
 * command may fork before.
 */
#ifndef HOLDFAST_CLI_CLI_H
#define HOLDFAST_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/args.h"
#include "client/lib/call.h"

/* Exit statuses, the same for all commands but `run`. */
enum cli_exit {
    CLI_OK = 0,
    CLI_REFUSED = 1,     /* refused, held, lost, stale, conflict, not found */
    CLI_USAGE = 2,       /* wrong usage, or INVALID_ARGUMENT */
    CLI_UNREACHABLE = 3, /* no server within reach */
    CLI_FAILED = 4,      /* the server failed, or the outcome is not known */
    CLI_REPLAYED = 5     /* op begin: it was done before */
};

struct cli {
    const char *program; /* argv[0] */
    struct cli_args args;
    bool json;
    const char *servers, *name_space; /* by flag, environment or default, like those that follow, which may be NULL */
    const char *key, *tls_ca, *tls_cert, *tls_key;
    hf_client *client; /* NULL until cli_client() */
};

/* ---- the invocation ---- */

/* The word at `index` behind the command word. */
const char *cli_word(const struct cli *cli, size_t index);
bool cli_given(const struct cli *cli, enum cli_flag flag);
/* The flag's value as typed, or NULL. */
const char *cli_text(const struct cli *cli, enum cli_flag flag);
/* The flag's number, or `otherwise`. */
int64_t cli_number(const struct cli *cli, enum cli_flag flag, int64_t otherwise);
/* True if the word is a token; otherwise it was complained about: return CLI_USAGE. */
bool cli_token(struct cli *cli, size_t index, int64_t *token) __attribute__((warn_unused_result));

/* ---- the server ---- */

/* How a client is to be made by what was given. */
hf_client_options cli_client_options(const struct cli *cli);
/* What this process starts reaches the same servers, as the same caller: it finds HOLDFAST_SERVER, HOLDFAST_NAMESPACE and, of those
 * that are set, HOLDFAST_KEY, HOLDFAST_TLS_CA, HOLDFAST_TLS_CERT and HOLDFAST_TLS_KEY in its environment. */
void cli_hand_on(const struct cli *cli);
/* CLI_OK: cli->client is a client. Otherwise the exit status; the error was printed. */
int cli_client(struct cli *cli) __attribute__((warn_unused_result));
/* CLI_OK: call->response is the server's answer. Otherwise the exit status; the error was printed. The call is to be released in
 * any case. Makes the client if need be. */
int cli_call(struct cli *cli, struct hfi_call *call) __attribute__((warn_unused_result));
/* The same for a call that has been made. */
int cli_ended(struct cli *cli, hf_result result, const struct hfi_call *call) __attribute__((warn_unused_result));

enum { CLI_ACTOR_SIZE = 200 };
/* user@host: who does it, for the audit. */
void cli_actor(char actor[CLI_ACTOR_SIZE]);

/* ---- output ---- */

/* Prints the response as one line of JSON. */
void cli_print_json(const void *message);
/* Prints an error by the form asked for, and returns the exit status of its code. */
int cli_error(const struct cli *cli, const struct hp_status *status);
/* The same for an error of the library's. */
int cli_hf_error(const struct cli *cli, const hf_error *error);
/* The same for INVALID_ARGUMENT / MALFORMED. */
int cli_usage_error(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The system refused us something: errno. CLI_FAILED. */
int cli_system_error(const struct cli *cli, const char *what);
/* A response that means no: `holdfast: WHAT: message` on stderr for people, nothing with --json, which printed the response.
 * Returns CLI_REFUSED. */
int cli_refused(const struct cli *cli, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The exit status of an error, by its code. */
int cli_exit_of(const struct hp_status *status, bool unreachable);

/* A table for people. Cells are copied; the first row is the head. */
struct cli_table {
    size_t columns, n, cap;
    char **cells;
};
void cli_row(struct cli_table *table, ...);    /* `columns` strings */
void cli_table_print(struct cli_table *table); /* and releases it */
void cli_table_release(struct cli_table *table);
/* A number or a duration as text, in a ring of static buffers: for cells. */
const char *cli_int(int64_t number);
const char *cli_ms(int64_t ms);

/* ---- the commands ---- */

int cli_acquire(struct cli *cli);
int cli_renew(struct cli *cli);
int cli_renew_loop(struct cli *cli);
int cli_release(struct cli *cli);
int cli_leases(struct cli *cli);
int cli_lease(struct cli *cli);
int cli_break(struct cli *cli);
int cli_check(struct cli *cli);
int cli_write(struct cli *cli);
int cli_read(struct cli *cli);
int cli_delete(struct cli *cli);
int cli_resources(struct cli *cli);
int cli_namespace(struct cli *cli);
int cli_audit(struct cli *cli);
int cli_stats(struct cli *cli);
int cli_op(struct cli *cli);
void cli_op_help(void); /* the words of op, for help */
int cli_policy(struct cli *cli);
int cli_action(struct cli *cli);
int cli_key(struct cli *cli);
int cli_role(struct cli *cli);
int cli_run(struct cli *cli);
int cli_bench(struct cli *cli);
void cli_bench_help(void); /* the kinds, for help */
int cli_demo(struct cli *cli);
int cli_demo_operations(struct cli *cli);
int cli_demo_worker(struct cli *cli); /* hidden: one worker of the demo */

#endif
