/*
 * args.c - takes the command line apart by the table CLI_FLAGS. No state.
 */
#include "client/cli/args.h"

#include <string.h>

#include "client/cli/values.h"

enum kind { TEXT, DURATION, NUMBER, ON_OFF, SWITCH };

static const struct {
    const char *name;
    enum kind kind;
    const char *value, *help;
} flags[] = {
#define X(id, name, kind, value, help) {name, kind, value, help},
    CLI_FLAGS(X)
#undef X
};

const char *cli_flag_name(enum cli_flag flag)
{
    return flags[flag].name;
}

const char *cli_flag_value(enum cli_flag flag)
{
    return flags[flag].value;
}

const char *cli_flag_help(enum cli_flag flag)
{
    return flags[flag].help;
}

static int find(const char *name, size_t len)
{
    for (int i = 0; i < CLI_FLAG_COUNT; i++)
        if (strlen(flags[i].name) == len && !memcmp(flags[i].name, name, len))
            return i;
    return -1;
}

static bool take_value(struct cli_args *args, int flag, const char *value, struct hp_status *status)
{
    const char *wrong = NULL;

    if (flags[flag].kind == DURATION)
        wrong = cli_parse_duration(value, &args->number[flag]);
    else if (flags[flag].kind == NUMBER)
        wrong = cli_parse_number(value, &args->number[flag]);
    else if (flags[flag].kind == ON_OFF)
        wrong = cli_parse_on_off(value, &args->number[flag]);
    if (wrong) {
        hp_status_set(status, HP_R_MALFORMED, "--%s %s: %s", flags[flag].name, value, wrong);
        return false;
    }
    args->text[flag] = value;
    args->given |= CLI_BIT(flag);
    return true;
}

/* Takes the flag at argv[*at] and its value, if that stands behind it. */
static bool take_flag(struct cli_args *args, int argc, char **argv, int *at, struct hp_status *status)
{
    const char *name = argv[*at][1] == '-' ? argv[*at] + 2 : argv[*at];
    const char *equals = strchr(name, '=');
    int flag = find(name, equals ? (size_t)(equals - name) : strlen(name));

    if (!strcmp(argv[*at], "-h"))
        flag = CLI_HELP;
    if (flag < 0) {
        hp_status_set(status, HP_R_MALFORMED, "unknown flag %s (words that begin with - go behind --)", argv[*at]);
        return false;
    }
    if (flags[flag].kind == SWITCH) {
        if (equals)
            hp_status_set(status, HP_R_MALFORMED, "--%s takes no value", flags[flag].name);
        args->given |= CLI_BIT(flag);
        return !equals;
    }
    if (equals)
        return take_value(args, flag, equals + 1, status);
    if (*at + 1 >= argc) {
        hp_status_set(status, HP_R_MALFORMED, "--%s needs a value: %s", flags[flag].name, flags[flag].value);
        return false;
    }
    return take_value(args, flag, argv[++*at], status);
}

/* Whether --json stands on the line, for the form of the error when the line is wrong. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--json"))
            return true;
    return false;
}

bool cli_args_parse(struct cli_args *args, int argc, char **argv, struct hp_status *status)
{
    int words = 1;

    memset(args, 0, sizeof(*args));
    if (wants_json(argc, argv))
        args->given |= CLI_BIT(CLI_JSON);
    for (int i = 1; i < argc; i++) {
        if (!args->dashes && !strcmp(argv[i], "--")) {
            args->dashes = true;
        } else if (!args->dashes && argv[i][0] == '-' && argv[i][1]) {
            if (!take_flag(args, argc, argv, &i, status))
                return false;
        } else {
            args->n_behind += args->dashes;
            argv[words++] = argv[i];
        }
    }
    args->words = argv + 1;
    args->n_words = (size_t)words - 1;
    argv[words] = NULL;
    return true;
}

bool cli_args_allow(const struct cli_args *args, cli_flags allowed, const char *command, struct hp_status *status)
{
    cli_flags extra = args->given & ~(allowed | CLI_GLOBAL);

    for (int i = 0; i < CLI_FLAG_COUNT; i++)
        if (extra & CLI_BIT(i)) {
            hp_status_set(status, HP_R_MALFORMED, "%s takes no --%s", command, flags[i].name);
            return false;
        }
    return true;
}
