/*
 * conf_file_test.c - the text of a configuration file: what is read, and what is refused in which line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/conf_file.h"

static struct conf_file file;
static struct conf_error error;

/* Parsed from a block of exactly its size, so that a sanitizer sees a read beyond it. */
static bool parse_bytes(const char *bytes, size_t len)
{
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, len);
    bool ok = conf_parse(exact, len, &file, &error);
    free(exact);
    return ok;
}

static bool parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

/* The only setting that the text holds. */
static void holds(const char *text, const char *name, const char *value, unsigned line)
{
    if (!parse(text))
        fail_msg("line %u: %s: %s", error.line, error.text, text);
    assert_int_equal(file.n, 1);
    assert_string_equal(file.entries[0].name, name);
    assert_string_equal(file.entries[0].value, value);
    assert_int_equal(file.entries[0].line, line);
    conf_release(&file);
}

static void refused_bytes(const char *bytes, size_t len, unsigned line, const char *part)
{
    if (parse_bytes(bytes, len))
        fail_msg("accepted: %.*s", (int)len, bytes);
    if (error.line != line || !strstr(error.text, part))
        fail_msg("line %u instead of %u, or \"%s\" is missing: %s", error.line, line, part, error.text);
    assert_null(file.entries);
    assert_null(file.text);
    assert_int_equal(file.n, 0);
    conf_release(&file);
}

static void refused(const char *text, unsigned line, const char *part)
{
    refused_bytes(text, strlen(text), line, part);
}

static void test_nothing(void **state)
{
    (void)state;
    static const char *const empty[] = {"", "\n", "\r\n", "# only a comment", "  # x = y\n\n\t\n", "\xef\xbb\xbf", "#\xc3\xa4\n"};
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        assert_true(parse(empty[i]));
        assert_int_equal(file.n, 0);
        conf_release(&file);
    }
    assert_true(conf_parse(NULL, 0, &file, &error));
    conf_release(&file);
    conf_release(&file);
}

static void test_values(void **state)
{
    (void)state;
    holds("connections = 8", "connections", "8", 1);
    holds("connections=8\n", "connections", "8", 1);
    holds("\xef\xbb\xbf"
          "a=b\r\n",
          "a", "b", 1);
    holds("# first\n\n \t data-dir\t=  /srv/hold fast \t\r\n", "data-dir", "/srv/hold fast", 3);
    holds("a = b # a comment", "a", "b", 1);
    holds("a = b\t# a comment", "a", "b", 1);
    holds("a = b#c", "a", "b#c", 1);
    holds("a = x=1 y='2 3' \"z\"", "a", "x=1 y='2 3' \"z\"", 1);
    holds("a = \" b # c \"", "a", " b # c ", 1);
    holds("a = \"b\"   # c \"d\"", "a", "b", 1);
    holds("a = \xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x98", "a", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x98", 1);
    holds("Data_Dir = x", "Data_Dir", "x", 1); /* whether there is such a setting is for others to say */
}

static void test_several(void **state)
{
    (void)state;
    assert_true(parse("b = 1\n# between\na = 2\nc-d = 3"));
    assert_int_equal(file.n, 3);
    assert_string_equal(file.entries[1].name, "a");
    assert_string_equal(file.entries[2].value, "3");
    assert_int_equal(file.entries[2].line, 4);
    conf_release(&file);
}

static void test_syntax(void **state)
{
    (void)state;
    refused("a = 1\nconnections", 2, "connections: no '='");
    refused("connections 8", 1, "connections: no '='");
    refused("[section]", 1, "does not begin with a name");
    refused("= 8", 1, "does not begin with a name");
    refused("--connections = 8\nx", 2, "x: no '='");
    refused("\"a\" = 8", 1, "does not begin with a name");
    refused("a =", 1, "a: the value is empty");
    refused("a = # b", 1, "a: the value is empty");
    refused("a = \"\"", 1, "a: the value is empty");
    refused("a = \"b", 1, "no second one");
    refused("a = \"b\" c", 1, "second double quote");
    refused("a = \"b\"# c", 1, "second double quote");
    refused("a = 1\n\n b = 2\na = 1\n", 4, "a: stands already in line 1");
    /* What may be a secret is not repeated. */
    refused("dsn host=x password=geheim", 1, "dsn: no '='");
    assert_null(strstr(error.text, "geheim"));
}

static void test_characters(void **state)
{
    (void)state;
    refused_bytes("a = b\0c", 7, 1, "byte 6 of the line is the control character 0x00");
    refused_bytes("\0", 1, 1, "control character");
    refused("# comment \x01", 1, "0x01");
    refused("a = b\rc", 1, "0x0d");
    refused("a = \x7f", 1, "0x7f");
    static const char *const bad[] = {"\x80",         "\xc0\x80",     "\xc3",         "\xe2\x82",         "\xed\xa0\x80",
                                      "\xe0\x80\x80", "\xf5\x80\x80", "\xff",         "\xf4\x90\x80\x80", "\xf0\x80\x80\x80",
                                      "\xc3(",        "\xe2\x28\xa1", "\xf0\x9f\x90("};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[32];
        snprintf(text, sizeof(text), "x = 1\na = %s", bad[i]);
        refused(text, 2, "byte 5 of the line");
    }
}

static void test_limits(void **state)
{
    (void)state;
    char *text = malloc(CONF_FILE_MAX + 2);
    memset(text, 'x', CONF_FILE_MAX + 2);
    memcpy(text, "a=", 2);
    refused_bytes(text, CONF_LINE_MAX + 1, 1, "4097 bytes, at most 4096");
    assert_true(parse_bytes(text, CONF_LINE_MAX));
    assert_int_equal(strlen(file.entries[0].value), CONF_LINE_MAX - 2);
    conf_release(&file);

    memset(text, '\n', CONF_FILE_MAX + 1);
    assert_true(parse_bytes(text, CONF_FILE_MAX));
    conf_release(&file);
    refused_bytes(text, CONF_FILE_MAX + 1, 0, "more than 65536 bytes");

    memset(text, 'n', CONF_NAME_MAX + 1);
    strcpy(text + CONF_NAME_MAX, "=1");
    assert_true(parse(text));
    conf_release(&file);
    strcpy(text + CONF_NAME_MAX, "n=1");
    refused(text, 1, "65 bytes, at most 64");

    size_t len = 0;
    for (int i = 0; i <= CONF_ENTRIES_MAX; i++)
        len += (size_t)sprintf(text + len, "n%d=1\n", i);
    refused(text, CONF_ENTRIES_MAX + 1, "at most 256 settings");
    free(text);
}

/* Every prefix and every single changed byte of a file is either read or refused, and never harms. */
static void test_damage(void **state)
{
    (void)state;
    static const char text[] = "# c\r\na = \"b\" # d\nlisten = tcp://127.0.0.1:1, ipc:///x\n\xc3\xa4 = 1\n";
    char copy[sizeof(text)];
    for (size_t len = 0; len < sizeof(text); len++) {
        (void)!parse_bytes(text, len);
        conf_release(&file);
    }
    for (size_t at = 0; at < sizeof(text) - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(copy, text, sizeof(text));
            copy[at] = (char)byte;
            if (!parse_bytes(copy, sizeof(text) - 1))
                assert_true(error.line <= 4 + 1 && error.text[0]);
            conf_release(&file);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_values),     cmocka_unit_test(test_several),
        cmocka_unit_test(test_syntax),  cmocka_unit_test(test_characters), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
