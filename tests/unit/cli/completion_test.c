/*
 * completion_test.c - bash completion offers what the table of commands knows, no more and no less.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/commands.h"

/* What is offered for the last of these words, in its order. */
static char *offered(const char *words)
{
    const char *script =
        t_printf("set -u; . %s/client/cli/holdfast.bash-completion; line=(holdfast %s); "
                 "_holdfast_complete $((${#line[@]} - 1)) \"${line[@]}\" || echo ELSEWHERE; echo \"${COMPREPLY[*]-}\"",
                 T_SOURCE_DIR, words);
    struct t_result result = t_run((const char *[]){"bash", "-c", script, NULL}, NULL, 10000);

    if (result.status != 0 || *result.err)
        fail_msg("%s: exit %d, %s", words, result.status, result.err);
    result.out[strcspn(result.out, "\n")] = '\0';
    return result.out;
}

static char *flags_of(cli_flags flags)
{
    char *text = t_printf("%s", "");

    for (int i = 0; i < CLI_FLAG_COUNT; i++) {
        if (flags & CLI_BIT(i))
            text = t_printf("%s%s--%s", text, *text ? " " : "", cli_flag_name((enum cli_flag)i));
    }
    return text;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The same words, whatever their order. */
static void same_words(const char *what, const char *left, const char *right)
{
    char *words[2][128], *texts[2] = {t_printf("%s", left), t_printf("%s", right)};
    size_t n[2] = {0, 0};

    for (int side = 0; side < 2; side++) {
        for (char *word = strtok(texts[side], " "); word; word = strtok(NULL, " "))
            words[side][n[side]++] = word;
        qsort(words[side], n[side], sizeof(char *), by_name);
    }
    if (n[0] != n[1])
        fail_msg("%s: \"%s\" is not \"%s\"", what, left, right);
    for (size_t i = 0; i < n[0]; i++) {
        if (strcmp(words[0][i], words[1][i]) != 0)
            fail_msg("%s: \"%s\" is not \"%s\"", what, left, right);
    }
}

static char *all_commands(void)
{
    char *text = t_printf("%s", "");

    for (const struct cli_command *command = cli_commands; command->name; command++) {
        if (command->summary)
            text = t_printf("%s%s%s", text, *text ? " " : "", command->name);
    }
    return text;
}

static void commands_are_offered(void **state)
{
    (void)state;

    assert_string_equal(offered("''"), all_commands());
    assert_string_equal(offered("help ''"), all_commands());
    assert_string_equal(offered("--json --server x ''"), all_commands());
    assert_string_equal(offered("--server=x ''"), all_commands());
    assert_string_equal(offered("rel"), "release");
    assert_string_equal(offered("demo-"), ""); /* hidden */
}

static void each_command_has_its_flags(void **state)
{
    (void)state;

    same_words("no command", offered("--"), flags_of(CLI_GLOBAL));
    for (const struct cli_command *command = cli_commands; command->name; command++) {
        if (command->summary)
            same_words(command->name, offered(t_printf("%s x --", command->name)), flags_of(CLI_GLOBAL | command->flags));
    }
}

static void each_command_has_its_choices(void **state)
{
    (void)state;

    for (const struct cli_command *command = cli_commands; command->name; command++) {
        if (command->summary && strcmp(command->name, "help") != 0)
            assert_string_equal(offered(t_printf("%s ''", command->name)), command->choices ? command->choices : "");
    }
    assert_string_equal(offered("namespace s"), "set");
    assert_string_equal(offered("namespace set ''"), ""); /* a name */
}

static void values_are_offered_where_they_are_known(void **state)
{
    (void)state;

    assert_string_equal(offered("namespace set x --audit-writes ''"), "on off");
    assert_string_equal(offered("acquire --ttl ''"), "");
    assert_string_equal(offered("acquire --ttl 5s --ta"), "--task");
    assert_string_equal(offered(t_printf("write r 1 --file %s/client/cli/holdfast.b", T_SOURCE_DIR)),
                        t_printf("%s/client/cli/holdfast.bash-completion", T_SOURCE_DIR));
}

static void the_command_of_run_is_somebody_elses(void **state)
{
    (void)state;

    assert_string_equal(offered("run r -- ls --"), "ELSEWHERE");
    assert_string_equal(offered("acquire -- --"), "");
}

static void it_registers_itself(void **state)
{
    (void)state;
    const char *script =
        t_printf(". %s/client/cli/holdfast.bash-completion; complete -p holdfast; COMP_WORDS=(holdfast sta); COMP_CWORD=1; "
                 "_holdfast; echo \"${COMPREPLY[*]}\"",
                 T_SOURCE_DIR);
    struct t_result result = t_run((const char *[]){"bash", "-c", script, NULL}, NULL, 10000);

    assert_int_equal(result.status, 0);
    assert_string_equal(result.out, "complete -o default -F _holdfast holdfast\nstats\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_offered),
        cmocka_unit_test(each_command_has_its_flags),
        cmocka_unit_test(each_command_has_its_choices),
        cmocka_unit_test(values_are_offered_where_they_are_known),
        cmocka_unit_test(the_command_of_run_is_somebody_elses),
        cmocka_unit_test(it_registers_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
