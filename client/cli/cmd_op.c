/*
 * cmd_op.c - op: its words and what they share (ops.h). The words themselves: op_attempt.c, op_once.c, op_show.c, op_decide.c.
 */
#include "client/cli/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BIT(flag) CLI_BIT(CLI_##flag)

int cli_run_sub(struct cli *cli, const char *command, const struct cli_sub *subs)
{
    char name[48];
    struct hp_status status;
    const size_t n = cli->args.n_words - 2;

    for (; subs->name; subs++) {
        if (strcmp(subs->name, cli_word(cli, 0)) != 0)
            continue;
        snprintf(name, sizeof(name), "%s %s", command, subs->name);
        if (!cli_args_allow(&cli->args, subs->flags, name, &status))
            return cli_error(cli, &status);
        if (n < subs->min_words || n > subs->max_words)
            return cli_usage_error(cli, "usage: holdfast %s%s%s", name, *subs->usage ? " " : "", subs->usage);
        return subs->handler(cli);
    }
    return cli_usage_error(cli, "unknown word %s behind %s; see holdfast help %s", cli_word(cli, 0), command, command);
}

char *cli_or_empty(const struct cli *cli, enum cli_flag flag)
{
    return (char *)(cli_given(cli, flag) ? cli_text(cli, flag) : "");
}

/* "not-done" for NOT_DONE. */
static bool means(const char *text, const char *name)
{
    for (; *text && *name; text++, name++) {
        const char c = (char)(*name == '_' ? '-' : *name >= 'A' && *name <= 'Z' ? *name + 'a' - 'A' : *name);
        if (*text != c)
            return false;
    }
    return *text == *name;
}

bool cli_enum(const struct cli *cli, enum cli_flag flag, const ProtobufCEnumDescriptor *type, int *value)
{
    const char *text = cli_text(cli, flag);
    char all[256] = "";

    for (unsigned i = 0; i < type->n_values; i++) {
        if (type->values[i].value == 0)
            continue;
        if (means(text, type->values[i].name)) {
            *value = type->values[i].value;
            return true;
        }
        size_t at = strlen(all);
        snprintf(all + at, sizeof(all) - at, "%s%s", at ? ", " : "", type->values[i].name);
    }
    for (char *p = all; *p; p++)
        *p = (char)(*p == '_' ? '-' : *p >= 'A' && *p <= 'Z' ? *p + 'a' - 'A' : *p);
    cli_usage_error(cli, "--%s %s: one of %s", cli_flag_name(flag), text, all);
    return false;
}

const char *cli_enum_name(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

    return found ? found->name : "?";
}

const char *cli_when(int64_t unix_ms)
{
    static char ring[8][32];
    static unsigned next;
    char *text = ring[next++ % 8];
    const time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm;

    if (!unix_ms || !gmtime_r(&seconds, &tm) || !strftime(text, sizeof(ring[0]), "%Y-%m-%dT%H:%M:%SZ", &tm))
        return "-";
    return text;
}

static const struct cli_sub subs[] = {
    {"begin",
     "KEY --type T (--fingerprint HEX64|--canonical JSON) [--holder H] [--ttl D] [--wait D] [--request-id ID] [--trigger T]",
     BIT(TYPE) | BIT(FINGERPRINT) | BIT(CANONICAL) | BIT(HOLDER) | BIT(TTL) | BIT(WAIT) | BIT(REQUEST_ID) | BIT(TRIGGER), 1, 1,
     cli_op_begin},
    {"renew", "KEY TOKEN [--ttl D]", BIT(TTL), 2, 2, cli_op_renew},
    {"sending", "KEY TOKEN", 0, 2, 2, cli_op_sending},
    {"complete", "KEY TOKEN [RESULT|-|--file F|--result-ref REF]", BIT(FILE) | BIT(RESULT_REF), 2, 3, cli_op_complete},
    {"fail", "KEY TOKEN --class C [--message TEXT] [--sqlstate S] [--retry-after D]",
     BIT(CLASS) | BIT(MESSAGE) | BIT(SQLSTATE) | BIT(RETRY_AFTER), 2, 2, cli_op_fail},
    {"unknown", "KEY TOKEN [--message TEXT]", BIT(MESSAGE), 2, 2, cli_op_unknown},
    {"record", "KEY --type T (--fingerprint HEX64|--canonical JSON) [RESULT|-|--file F|--result-ref REF]",
     BIT(TYPE) | BIT(FINGERPRINT) | BIT(CANONICAL) | BIT(FILE) | BIT(RESULT_REF), 1, 2, cli_op_record},
    {"execute",
     "KEY --type T --action A [--args JSON] [--fingerprint HEX64|--canonical JSON] [--resource R --token N] [--expected-version N]",
     BIT(TYPE) | BIT(FINGERPRINT) | BIT(CANONICAL) | BIT(ACTION) | BIT(ARGS) | BIT(RESOURCE) | BIT(TOKEN) | BIT(EXPECTED_VERSION) |
         BIT(HOLDER),
     1, 1, cli_op_execute},
    {"get", "KEY", 0, 1, 1, cli_op_get},
    {"wait", "KEY [--wait D]", BIT(WAIT), 1, 1, cli_op_wait},
    {"list", "[--state S] [--type T] [--prefix P] [--older-than D] [--limit N]",
     BIT(STATE) | BIT(TYPE) | BIT(PREFIX) | BIT(OLDER_THAN) | BIT(LIMIT), 0, 0, cli_op_list},
    {"attempts", "KEY", 0, 1, 1, cli_op_attempts},
    {"retry", "KEY --revision N --reason TEXT", BIT(REVISION) | BIT(REASON), 1, 1, cli_op_retry},
    {"cancel", "KEY --revision N --reason TEXT", BIT(REVISION) | BIT(REASON), 1, 1, cli_op_cancel},
    {"reconcile", "KEY --revision N --outcome O --reason TEXT [RESULT|-|--file F|--result-ref REF]",
     BIT(REVISION) | BIT(REASON) | BIT(OUTCOME) | BIT(FILE) | BIT(RESULT_REF), 1, 2, cli_op_reconcile},
    {"compensate", "KEY --type T --reason TEXT [PAYLOAD|-|--file F]", BIT(TYPE) | BIT(REASON) | BIT(FILE), 1, 2, cli_op_compensate},
    {NULL},
};

void cli_op_help(void)
{
    printf("\nwords:\n");
    for (const struct cli_sub *sub = subs; sub->name; sub++)
        printf("  op %s %s\n", sub->name, sub->usage);
}

int cli_op(struct cli *cli)
{
    return cli_run_sub(cli, "op", subs);
}
