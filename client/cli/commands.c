/*
 * commands.c - the table of commands, help by it, and the dispatch.
 */
#include "client/cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(flag) CLI_BIT(CLI_##flag)

#define POLICY                                                                                                                     \
    (BIT(LOCK_DELAY) | BIT(MIN_TTL) | BIT(MAX_TTL) | BIT(AUDIT_WRITES) | BIT(MAX_LEASES) | BIT(MAX_WAITERS) |                      \
     BIT(MAX_VALUE_BYTES) | BIT(AUDIT_KEEP_DAYS))

enum { ANY = 1 << 20 };

/* What help adds to a command's usage and flags. */
#define ACQUIRE_DETAILS                                                                                                            \
    "The token it prints is what check, write, renew and release ask for. The lease is not renewed: it ends after its TTL,\n"      \
    "unless renew (once) or renew --loop prolongs it; run does all of it by itself.\n"
#define RENEW_DETAILS                                                                                                              \
    "With --loop it renews every TTL/3 until the lease is lost (exit 1; the last line on stderr tells why) or SIGTERM or\n"        \
    "SIGINT comes (exit 0; the lease is not released). It prints nothing, or with --json a line for each renewal.\n"
#define RELEASE_DETAILS "Exit status: 0 it was held and is free now, also if that is a repeat; 1 the token holds no live lease.\n"
#define CHECK_DETAILS                                                                                                              \
    "Exit status: 0 CURRENT, the token is the newest and its lease lives; 1 STALE, a newer one was granted, or NOT_HELD, the\n"    \
    "lease has ended or never was.\n"
#define WRITE_DETAILS                                                                                                              \
    "VALUE is taken as it stands, - reads standard input; 1 MiB at most. Without --write-seq a write whose answer was lost is\n"   \
    "not sent again: whether it happened is not known then (exit 4), and read tells.\n"
#define READ_DETAILS "The value is printed as it is: no newline is put behind it.\n"
#define BREAK_DETAILS                                                                                                              \
    "The token, which `lease` tells, sees to it that no newer lease is ended by mistake. Who held it learns of it with the\n"      \
    "next renewal; writes under that token are refused at once.\n"
#define RUN_DETAILS                                                                                                                \
    "CMD finds HOLDFAST_SERVER, HOLDFAST_NAMESPACE, HOLDFAST_RESOURCE and HOLDFAST_TOKEN in its environment, so that\n"            \
    "`holdfast write \"$HOLDFAST_RESOURCE\" \"$HOLDFAST_TOKEN\" …` works there; HOLDFAST_KEY, HOLDFAST_TLS_CA,\n"                \
    "HOLDFAST_TLS_CERT and HOLDFAST_TLS_KEY too, if they were given, also by a flag.\n\n"                                          \
    "CMD and all its descendants are ended before the lease can be lost: SIGTERM at deadline - min(10 s, TTL/4), SIGKILL at\n"     \
    "the deadline; at once if it is lost for sure. What CMD leaves running is ended in the same way before the lease\n"            \
    "is given back. Signals are passed on to CMD. A stopped `run` (Ctrl-Z) renews nothing: its command is ended too.\n\n"          \
    "Exit status: CMD's, or 128 + signal; 125 if the lease was not got, was lost, or Holdfast failed (the last line\n"             \
    "on stderr tells); 126 if CMD could not be started, 127 if it was not found.\n"
#define OP_DETAILS                                                                                                                 \
    "Exit status: 0 done (begin: started); 1 refused, in progress, unknown, in review, stale, conflict; 5 begin: it was done\n"    \
    "before and its result is printed, so that `holdfast op begin K … && work` never works twice.\n"
#define POLICY_DETAILS                                                                                                             \
    "Without TYPE it holds for the types that have no policy of their own. What is not given is left as it is, or has its\n"       \
    "default (in brackets).\n"
#define ACTION_DETAILS                                                                                                             \
    "FUNCTION is f(key text, args jsonb) returns jsonb in SQL: SECURITY DEFINER, with a search_path of its own, owned by a role\n" \
    "that cannot log in. It runs with that role's rights, in the transaction that keeps the record.\n"
#define KEY_DETAILS                                                                                                                \
    "create prints the key, once: nobody can tell it again. It may do what its role says in the namespace of --namespace, or "     \
    "with\n"                                                                                                                       \
    "--all-namespaces everywhere, with resources and operations whose names begin as --resources and --operations say. A worker\n" \
    "may what a reader may, an operator what a worker may, an admin all. set replaces what it may do if it is given a --role.\n"   \
    "A server takes a new key, and refuses a revoked one, within two seconds. denials lists calls that were refused.\n"
#define ROLE_DETAILS                                                                                                               \
    "SQL roles, whose sessions may use the namespace through holdfast.guard() and its like, in transactions of their own.\n"
#define NAMESPACE_DETAILS                                                                                                          \
    "A policy that is not given is left as it is, or has its default (in brackets) when the namespace is made.\n"

#define OP_FLAGS                                                                                                                   \
    (BIT(TYPE) | BIT(FINGERPRINT) | BIT(CANONICAL) | BIT(TRIGGER) | BIT(RESULT_REF) | BIT(CLASS) | BIT(MESSAGE) | BIT(SQLSTATE) |  \
     BIT(RETRY_AFTER) | BIT(ACTION) | BIT(ARGS) | BIT(STATE) | BIT(OLDER_THAN) | BIT(REVISION) | BIT(OUTCOME) | BIT(REASON) |      \
     BIT(HOLDER) | BIT(TTL) | BIT(WAIT) | BIT(REQUEST_ID) | BIT(FILE) | BIT(RESOURCE) | BIT(TOKEN) | BIT(EXPECTED_VERSION) |       \
     BIT(PREFIX) | BIT(LIMIT))
#define KEY_FLAGS                                                                                                                  \
    (BIT(ROLE) | BIT(ALL_NAMESPACES) | BIT(RESOURCES) | BIT(OPERATIONS) | BIT(EXPIRES) | BIT(RATE) | BIT(BURST) |                  \
     BIT(CERTIFICATE) | BIT(REVOKED) | BIT(REASON) | BIT(LIMIT))
#define OP_POLICY (BIT(MAX_ATTEMPTS) | BIT(MAX_ELAPSED) | BIT(BASE_DELAY) | BIT(MAX_DELAY) | BIT(ON_LOST) | BIT(RETENTION))

static int help(struct cli *cli);

const struct cli_command cli_commands[] = {
    {"acquire", "RESOURCE… [--task T] [--holder H] [--ttl D] [--wait D] [--request-id ID]",
     "take the lease of a resource, or of up to 16, all or none", BIT(TASK) | BIT(HOLDER) | BIT(TTL) | BIT(WAIT) | BIT(REQUEST_ID),
     1, ANY, cli_acquire, .details = ACQUIRE_DETAILS},
    {"renew", "[--loop] RESOURCE TOKEN [--ttl D]", "prolong a lease that still lives", BIT(TTL) | BIT(LOOP), 2, 2, cli_renew,
     .details = RENEW_DETAILS},
    {"release", "RESOURCE TOKEN", "give a lease back", 0, 2, 2, cli_release, .details = RELEASE_DETAILS},
    {"check", "RESOURCE TOKEN", "say whether a token is current", 0, 2, 2, cli_check, .details = CHECK_DETAILS},
    {"write", "RESOURCE TOKEN VALUE|-|--file F [--expected-version N] [--write-seq N]",
     "write the guarded value; only the newest token may", BIT(FILE) | BIT(EXPECTED_VERSION) | BIT(WRITE_SEQ), 2, 3, cli_write,
     .details = WRITE_DETAILS},
    {"read", "RESOURCE", "print the guarded value", 0, 1, 1, cli_read, .details = READ_DETAILS},
    {"delete", "RESOURCE TOKEN [--write-seq N] [--expected-version N]", "take the guarded value away",
     BIT(EXPECTED_VERSION) | BIT(WRITE_SEQ), 2, 2, cli_delete},
    {"resources", "[--prefix P]", "list resources", BIT(PREFIX), 0, 0, cli_resources},
    {"leases", "[--prefix P] [--holder H]", "list live leases", BIT(PREFIX) | BIT(HOLDER), 0, 0, cli_leases},
    {"lease", "RESOURCE", "show the lease of a resource, live or ended", 0, 1, 1, cli_lease},
    {"break", "RESOURCE --token N --reason TEXT", "end somebody's lease", BIT(TOKEN) | BIT(REASON), 1, 1, cli_break,
     .details = BREAK_DETAILS},
    {"run", "RESOURCE [--task T] [--ttl D] [--wait D] -- CMD…", "hold a lease while a command runs",
     BIT(TASK) | BIT(TTL) | BIT(WAIT), 1, ANY, cli_run, .details = RUN_DETAILS},
    {"namespace", "create NAME [policies] | set NAME [policies] | list", "make namespaces, and set their policies", POLICY, 1, 2,
     cli_namespace, "create set list", NAMESPACE_DETAILS},
    {"op", "WORD [KEY …]", "operations: one effect for each business key", OP_FLAGS, 1, 4, cli_op,
     "begin renew sending complete fail unknown record execute get wait list attempts retry cancel reconcile compensate",
     OP_DETAILS},
    {"policy", "set [TYPE] [policies] | list", "set how operations are retried and kept", OP_POLICY, 1, 2, cli_policy, "set list",
     POLICY_DETAILS},
    {"action", "register NAME SCHEMA.FUNCTION [--max-time D] | remove NAME | list", "say which SQL functions may be executed",
     BIT(MAX_TIME), 1, 3, cli_action, "register remove list", ACTION_DETAILS},
    {"key", "create NAME --role R [limits] | set ID [limits] | revoke ID [--reason TEXT] | list [--revoked] | denials",
     "make, change and revoke API keys, and name client certificates", KEY_FLAGS, 1, 2, cli_key, "create set revoke list denials",
     KEY_DETAILS},
    {"role", "map ROLE | unmap ROLE | list", "say which SQL roles may use the namespace", 0, 1, 2, cli_role, "map unmap list",
     ROLE_DETAILS},
    {"audit", "[--resource R|--operation KEY] [--limit N]", "list what happened, newest first",
     BIT(RESOURCE) | BIT(OPERATION) | BIT(LIMIT), 0, 0, cli_audit},
    {"stats", "", "show what the server has done", 0, 0, 0, cli_stats},
    {"bench",
     "KIND [--concurrency N] [--duration D|--operations N] [--keys N] [--value-size N] [--items N] [--processes N] [--ttl D] "
     "[--action A]",
     "measure the server, and verify that what was measured has happened",
     BIT(CONCURRENCY) | BIT(DURATION) | BIT(OPERATIONS) | BIT(KEYS) | BIT(VALUE_SIZE) | BIT(ITEMS) | BIT(PROCESSES) | BIT(TTL) |
         BIT(ACTION),
     1, 1, cli_bench, "acquire-release renew renew-many write check hand-over mix record begin-complete execute"},
    {"demo", "[takeover|operations]",
     "play the story of the paused holder, or experiments with operations, against the running server", 0, 0, 1, cli_demo,
     "takeover operations"},
    {"demo-worker", "", NULL, BIT(TTL) | BIT(TASK), 1, 1, cli_demo_worker},
    {"help", "[CMD]", "print help", 0, 0, 1, help},
    {NULL},
};

static const struct cli_command *find(const char *name)
{
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (!strcmp(command->name, name))
            return command;
    return NULL;
}

static void print_flags(cli_flags flags)
{
    for (int i = 0; i < CLI_FLAG_COUNT; i++) {
        char head[64];
        if (!(flags & CLI_BIT(i)))
            continue;
        snprintf(head, sizeof(head), "--%s %s", cli_flag_name(i), cli_flag_value(i) ? cli_flag_value(i) : "");
        /* "URL,…" is one column narrower than it has bytes, as far as printf knows two. */
        printf("  %-*s %s\n", strstr(head, "…") ? 26 : 24, head, cli_flag_help(i));
    }
}

static void print_all(void)
{
    printf("holdfast - leases with fencing tokens, and writes guarded by them\n\n"
           "usage: holdfast [flags] COMMAND …\n\ncommands:\n");
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (command->summary)
            printf("  %-10s %s\n", command->name, command->summary);
    printf("\nflags of all commands, before or behind the command word:\n");
    print_flags(CLI_GLOBAL);
    printf("\nDurations read 250ms, 30s, 1m, 1h. `--` ends the flags. `holdfast help COMMAND` tells more.\n"
           "Exit status: 0 done; 1 refused, held, lost, stale, conflict, not found; 2 wrong usage; 3 server out of reach;\n"
           "4 server failure or outcome not known.\n");
}

static void print_one(const struct cli_command *command)
{
    printf("usage: holdfast %s%s%s\n\n%s\n", command->name, *command->usage ? " " : "", command->usage, command->summary);
    if (command->handler == cli_op)
        cli_op_help();
    if (command->flags)
        printf("\nflags:\n");
    print_flags(command->flags);
    if (command->details)
        printf("\n%s", command->details);
    if (command->handler == cli_bench)
        cli_bench_help();
}

static int help(struct cli *cli)
{
    const char *name = cli_word(cli, 0);
    const struct cli_command *command = name ? find(name) : NULL;

    if (!name)
        print_all();
    else if (!command || !command->summary)
        return cli_usage_error(cli, "unknown command %s; see holdfast help", name);
    else
        print_one(command);
    return CLI_OK;
}

/* What the environment says; an empty value says nothing. */
static const char *from_environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static const char *setting(const struct cli *cli, enum cli_flag flag, const char *variable, const char *otherwise)
{
    const char *value = cli_given(cli, flag) ? cli_text(cli, flag) : from_environment(variable);

    return value ? value : otherwise;
}

static int run_command(struct cli *cli)
{
    const struct cli_command *command = cli->args.n_words ? find(cli->args.words[0]) : NULL;
    struct hp_status status;

    if (cli->args.n_words && !command)
        return cli_usage_error(cli, "unknown command %s; see holdfast help", cli->args.words[0]);
    if (cli_given(cli, CLI_HELP)) {
        if (command && command->summary)
            print_one(command);
        else
            print_all();
        return CLI_OK;
    }
    if (!command)
        return cli_usage_error(cli, "no command given; see holdfast help");
    if (!cli_args_allow(&cli->args, command->flags, command->name, &status))
        return cli_error(cli, &status);
    size_t n = cli->args.n_words - 1;
    if (n < command->min_words || n > command->max_words)
        return cli_usage_error(cli, "usage: holdfast %s%s%s", command->name, *command->usage ? " " : "", command->usage);
    return command->handler(cli);
}

int cli_main(int argc, char **argv)
{
    struct cli cli = {.program = argv[0]};
    struct hp_status status;
    int result;

    bool parsed = cli_args_parse(&cli.args, argc, argv, &status);
    cli.json = cli_given(&cli, CLI_JSON);
    cli.servers = setting(&cli, CLI_SERVER, "HOLDFAST_SERVER", HF_DEFAULT_SERVER);
    cli.key = setting(&cli, CLI_KEY, "HOLDFAST_KEY", NULL);
    cli.tls_ca = setting(&cli, CLI_TLS_CA, "HOLDFAST_TLS_CA", NULL);
    cli.tls_cert = setting(&cli, CLI_TLS_CERT, "HOLDFAST_TLS_CERT", NULL);
    cli.tls_key = setting(&cli, CLI_TLS_KEY, "HOLDFAST_TLS_KEY", NULL);
    cli.name_space = setting(&cli, CLI_NAMESPACE, "HOLDFAST_NAMESPACE", HF_DEFAULT_NAMESPACE);
    if (!parsed) {
        result = cli_error(&cli, &status);
    } else if (cli_given(&cli, CLI_VERSION)) {
        printf("holdfast %s\n", hf_version());
        result = CLI_OK;
    } else {
        result = run_command(&cli);
    }
    hf_client_free(cli.client);
    errno = 0;
    if ((fflush(stdout) || ferror(stdout)) && result == CLI_OK) {
        fprintf(stderr, "holdfast: cannot write to standard output: %s\n", strerror(errno));
        result = CLI_FAILED;
    }
    return result;
}
