/*
 * args_test.c - the command line taken apart; durations and numbers.
 */
#include "harness/harness.h"

#include <string.h>

#include "client/cli/args.h"
#include "client/cli/values.h"

#define PARSE(...)                                                                                                                 \
    char *argv[] = {(char[]){"holdfast"}, __VA_ARGS__, NULL};                                                                      \
    struct cli_args args;                                                                                                          \
    struct hp_status status = {0};                                                                                                 \
    bool ok = cli_args_parse(&args, (int)(sizeof(argv) / sizeof(argv[0])) - 1, argv, &status)

static char S_acquire[] = "acquire", S_r[] = "r", S_ttl[] = "--ttl", S_5s[] = "5s", S_ttl5[] = "--ttl=5s", S_json[] = "--json",
            S_dashes[] = "--", S_dash[] = "-", S_minus[] = "-5", S_json1[] = "--json=1", S_nope[] = "--nope", S_30[] = "30",
            S_token[] = "--token", S_h[] = "-h", S_task[] = "--task", S_empty[] = "", S_7m[] = "7m",
            S_audit_writes[] = "--audit-writes", S_keep[] = "--audit-keep-days=3";

static void durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"250ms", 250},    {"30s", 30000}, {"1m", 60000}, {"1h", 3600000}, {"0s", 0}, {"9223372036854775807ms", INT64_MAX},
                {"007s", 7 * 1000}};
    static const char *const bad[] = {"30", "", "s", "-1s", "+1s", "1.5s", "1 s", " 1s", "1d", "1S", "1mss", "0x10s", "1e3s"};
    int64_t ms = -7;
    (void)state;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_null(cli_parse_duration(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    ms = -7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_non_null(cli_parse_duration(bad[i], &ms));
    assert_non_null(strstr(cli_parse_duration("30", &ms), "bare number"));
    assert_non_null(strstr(cli_parse_duration("9223372036854775808ms", &ms), "too long"));
    assert_non_null(strstr(cli_parse_duration("9223372036854775807s", &ms), "too long"));
    assert_int_equal(ms, -7);
}

static void numbers(void **state)
{
    int64_t number = 5;
    (void)state;

    assert_null(cli_parse_number("0", &number));
    assert_int_equal(number, 0);
    assert_null(cli_parse_number("-12", &number));
    assert_int_equal(number, -12);
    assert_null(cli_parse_number("9223372036854775807", &number));
    assert_int_equal(number, INT64_MAX);
    static const char *const bad[] = {"", "-", "x", "1x", "1.0", " 1", "+1", "0x1", "9223372036854775808"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_non_null(cli_parse_number(bad[i], &number));
    assert_int_equal(number, INT64_MAX);
}

static void on_and_off(void **state)
{
    static const char *const bad[] = {"", "ON", "1", "true", "yes", "onoff", "of"};
    int64_t number = 5;
    (void)state;

    assert_null(cli_parse_on_off("on", &number));
    assert_int_equal(number, 1);
    assert_null(cli_parse_on_off("off", &number));
    assert_int_equal(number, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_non_null(cli_parse_on_off(bad[i], &number));
}

static void formats(void **state)
{
    char out[32];
    (void)state;

    cli_format_duration(250, out, sizeof(out));
    assert_string_equal(out, "250ms");
    cli_format_duration(1550, out, sizeof(out));
    assert_string_equal(out, "1.5s");
    cli_format_duration(200000, out, sizeof(out));
    assert_string_equal(out, "3m20s");
    cli_format_duration(7500000, out, sizeof(out));
    assert_string_equal(out, "2h05m");
}

static void flags_anywhere(void **state)
{
    (void)state;
    PARSE(S_json, S_acquire, S_r, S_ttl, S_5s, S_task, S_empty);

    assert_true(ok);
    assert_int_equal(args.n_words, 2);
    assert_string_equal(args.words[0], "acquire");
    assert_string_equal(args.words[1], "r");
    assert_null(args.words[2]);
    assert_int_equal(args.number[CLI_TTL], 5000);
    assert_string_equal(args.text[CLI_TASK], "");
    assert_int_equal(args.given, CLI_BIT(CLI_JSON) | CLI_BIT(CLI_TTL) | CLI_BIT(CLI_TASK));
    assert_false(args.dashes);
}

static void last_counts(void **state)
{
    (void)state;
    PARSE(S_acquire, S_ttl, S_7m, S_ttl5);

    assert_true(ok);
    assert_int_equal(args.number[CLI_TTL], 5000);
}

static void dashes_end_flags(void **state)
{
    (void)state;
    PARSE(S_acquire, S_dash, S_dashes, S_json, S_dashes, S_minus);

    assert_true(ok);
    assert_true(args.dashes);
    assert_int_equal(args.given, 0);
    assert_int_equal(args.n_words, 5);
    assert_int_equal(args.n_behind, 3);
    assert_string_equal(args.words[1], "-");
    assert_string_equal(args.words[3], "--");
    assert_string_equal(args.words[4], "-5");
}

static void short_help(void **state)
{
    (void)state;
    PARSE(S_acquire, S_h);

    assert_true(ok);
    assert_int_equal(args.given, CLI_BIT(CLI_HELP));
}

#define REFUSED(name, part, ...)                                                                                                   \
    static void name(void **state)                                                                                                 \
    {                                                                                                                              \
        (void)state;                                                                                                               \
        PARSE(__VA_ARGS__);                                                                                                        \
        assert_false(ok);                                                                                                          \
        assert_int_equal(status.code, HP_INVALID_ARGUMENT);                                                                        \
        assert_non_null(strstr(status.message, part));                                                                             \
    }

REFUSED(refuses_unknown, "--nope", S_acquire, S_nope)
REFUSED(refuses_minus, "-5", S_acquire, S_minus)
REFUSED(refuses_bare_number, "bare number", S_acquire, S_ttl, S_30)
REFUSED(refuses_missing_value, "--ttl needs", S_acquire, S_ttl)
REFUSED(refuses_bad_number, "--token 5s", S_acquire, S_token, S_5s)
REFUSED(refuses_neither_on_nor_off, "--audit-writes 5s: it is either", S_acquire, S_audit_writes, S_5s)
REFUSED(refuses_switch_value, "--json takes no", S_acquire, S_json1)

static void json_known_when_refused(void **state)
{
    (void)state;
    PARSE(S_acquire, S_nope, S_json);

    assert_false(ok);
    assert_true(args.given & CLI_BIT(CLI_JSON));
}

static void allows_by_command(void **state)
{
    (void)state;
    PARSE(S_acquire, S_ttl, S_5s, S_json);

    assert_true(ok);
    assert_true(cli_args_allow(&args, CLI_BIT(CLI_TTL), "acquire", &status));
    assert_false(cli_args_allow(&args, CLI_BIT(CLI_TASK), "lease", &status));
    assert_string_equal(status.message, "lease takes no --ttl");
}

static void the_last_flag_is_a_flag_too(void **state)
{
    (void)state;
    PARSE(S_acquire, S_keep);

    assert_true(ok);
    assert_int_equal(args.number[CLI_AUDIT_KEEP_DAYS], 3);
    assert_false(cli_args_allow(&args, 0, "acquire", &status));
    assert_string_equal(status.message, "acquire takes no --audit-keep-days");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),
        cmocka_unit_test(numbers),
        cmocka_unit_test(on_and_off),
        cmocka_unit_test(formats),
        cmocka_unit_test(flags_anywhere),
        cmocka_unit_test(last_counts),
        cmocka_unit_test(dashes_end_flags),
        cmocka_unit_test(short_help),
        cmocka_unit_test(refuses_unknown),
        cmocka_unit_test(refuses_minus),
        cmocka_unit_test(refuses_bare_number),
        cmocka_unit_test(refuses_missing_value),
        cmocka_unit_test(refuses_bad_number),
        cmocka_unit_test(refuses_neither_on_nor_off),
        cmocka_unit_test(refuses_switch_value),
        cmocka_unit_test(json_known_when_refused),
        cmocka_unit_test(allows_by_command),
        cmocka_unit_test(the_last_flag_is_a_flag_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
