/* Canonical JSON: the examples of RFC 8785, what else JSON may spell differently, and all that is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/arena.h"
#include "proto/c/canon.h"
#include "proto/c/canon_number.h"

/* From a block of its own size, so that a sanitizer sees what reads behind it. */
static bool canonical(const char *json, size_t len, struct hp_buf *out, struct hp_canon_error *error)
{
    char *copy = malloc(len ? len : 1);
    bool done;

    assert_non_null(copy);
    memcpy(copy, json, len);
    done = hp_canonical_json(copy, len, out, error);
    free(copy);
    return done;
}

static void assert_canonical(const char *json, const char *want)
{
    struct hp_buf out = HP_BUF_INIT, again = HP_BUF_INIT;
    struct hp_canon_error error = {0};

    if (!canonical(json, strlen(json), &out, &error))
        fail_msg("%s: %s at %zu", json, error.text, error.at);
    assert_string_equal((char *)out.data, want);
    assert_int_equal(out.len, strlen(want));
    assert_true(canonical(want, strlen(want), &again, NULL)); /* and stays so */
    assert_string_equal((char *)again.data, want);
    hp_buf_release(&out);
    hp_buf_release(&again);
}

static void assert_refused_bytes(const char *json, size_t len, const char *text, size_t at)
{
    struct hp_buf out = HP_BUF_INIT;
    struct hp_canon_error error = {0};

    hp_buf_addstr(&out, "before");
    if (canonical(json, len, &out, &error))
        fail_msg("%s is canonical as %s", json, (char *)out.data);
    assert_string_equal((char *)out.data, "before");
    assert_int_equal(out.len, 6);
    assert_false(out.failed || error.no_memory);
    if (strcmp(error.text, text) != 0 || error.at != at)
        fail_msg("%s: %s at %zu", json, error.text, error.at);
    hp_buf_release(&out);
}

static void assert_refused(const char *json, const char *text, size_t at)
{
    assert_refused_bytes(json, strlen(json), text, at);
}

/* ---- the RFC's own examples ---- */

static void the_numbers_of_appendix_b(void **state)
{
    static const struct {
        uint64_t bits;
        const char *text;
    } known[] = {
        {0x0000000000000000, "0"},
        {0x8000000000000000, "0"},
        {0x0000000000000001, "5e-324"},
        {0x8000000000000001, "-5e-324"},
        {0x7fefffffffffffff, "1.7976931348623157e+308"},
        {0xffefffffffffffff, "-1.7976931348623157e+308"},
        {0x4340000000000000, "9007199254740992"},
        {0xc340000000000000, "-9007199254740992"},
        {0x4430000000000000, "295147905179352830000"},
        {0x44b52d02c7e14af5, "9.999999999999997e+22"},
        {0x44b52d02c7e14af6, "1e+23"},
        {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
        {0x444b1ae4d6e2ef4e, "999999999999999700000"},
        {0x444b1ae4d6e2ef4f, "999999999999999900000"},
        {0x444b1ae4d6e2ef50, "1e+21"},
        {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
        {0x3eb0c6f7a0b5ed8d, "0.000001"},
        {0x41b3de4355555553, "333333333.3333332"},
        {0x41b3de4355555554, "333333333.33333325"},
        {0x41b3de4355555555, "333333333.3333333"},
        {0x41b3de4355555556, "333333333.3333334"},
        {0x41b3de4355555557, "333333333.33333343"},
        {0xbecbf647612f3696, "-0.0000033333333333333333"},
        {0x43143ff3c1cb0959, "1424953923781206.2"},
        {0x3d30000000000000, "5.684341886080802e-14"}, /* 2^-44: the nearest of 16 digits reads as another */
        {0x0010000000000000, "2.2250738585072014e-308"},
        {0x000fffffffffffff, "2.225073858507201e-308"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double value;
        char text[HP_NUMBER_MAX], exact[64];

        memcpy(&value, &known[i].bits, sizeof value);
        text[hp_canon_double(value, text)] = '\0';
        assert_string_equal(text, known[i].text);
        snprintf(exact, sizeof exact, "%.20e", value);
        assert_canonical(exact, known[i].text);
    }
}

static void the_example_of_section_3_2(void **state)
{
    static const uint8_t bytes[] = {
        0x7b, 0x22, 0x6c, 0x69, 0x74, 0x65, 0x72, 0x61, 0x6c, 0x73, 0x22, 0x3a, 0x5b, 0x6e, 0x75, 0x6c, 0x6c, 0x2c, 0x74, 0x72,
        0x75, 0x65, 0x2c, 0x66, 0x61, 0x6c, 0x73, 0x65, 0x5d, 0x2c, 0x22, 0x6e, 0x75, 0x6d, 0x62, 0x65, 0x72, 0x73, 0x22, 0x3a,
        0x5b, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0x2e, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0x2c, 0x31,
        0x65, 0x2b, 0x33, 0x30, 0x2c, 0x34, 0x2e, 0x35, 0x2c, 0x30, 0x2e, 0x30, 0x30, 0x32, 0x2c, 0x31, 0x65, 0x2d, 0x32, 0x37,
        0x5d, 0x2c, 0x22, 0x73, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x22, 0x3a, 0x22, 0xe2, 0x82, 0xac, 0x24, 0x5c, 0x75, 0x30, 0x30,
        0x30, 0x66, 0x5c, 0x6e, 0x41, 0x27, 0x42, 0x5c, 0x22, 0x5c, 0x5c, 0x5c, 0x5c, 0x5c, 0x22, 0x2f, 0x22, 0x7d};
    char want[sizeof bytes + 1] = {0};

    (void)state;
    memcpy(want, bytes, sizeof bytes);
    assert_canonical("{\n"
                     "  \"numbers\": [333333333.33333329, 1E30, 4.50,\n"
                     "              2e-3, 0.000000000000000000000000001],\n"
                     "  \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\n"
                     "  \"literals\": [null, true, false]\n"
                     "}\n",
                     want);
}

static void the_order_of_section_3_2_3(void **state)
{
    (void)state;
    assert_canonical("{\"\\u20ac\": \"Euro Sign\", \"\\r\": \"Carriage Return\", \"\\ufb33\": \"Hebrew Letter Dalet With Dagesh\","
                     " \"1\": \"One\", \"\\ud83d\\ude00\": \"Emoji: Grinning Face\", \"\\u0080\": \"Control\","
                     " \"\\u00f6\": \"Latin Small Letter O With Diaeresis\"}",
                     "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xC2\x80\":\"Control\","
                     "\"\xC3\xB6\":\"Latin Small Letter O With Diaeresis\",\"\xE2\x82\xAC\":\"Euro Sign\","
                     "\"\xF0\x9F\x98\x80\":\"Emoji: Grinning Face\",\"\xEF\xAC\xB3\":\"Hebrew Letter Dalet With Dagesh\"}");
}

/* ---- what else is spelled anew ---- */

static void numbers(void **state)
{
    static const char *const spelled[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.000e+5", "0"},
        {"1.0", "1"},
        {"-1e0", "-1"},
        {"100e-2", "1"},
        {"0.00001e5", "1"},
        {"1e20", "100000000000000000000"},
        {"1e21", "1e+21"},
        {"123456789012345e7", "1.23456789012345e+21"},
        {"123456789012345e6", "123456789012345000000"},
        {"0.000001", "0.000001"},
        {"0.0000001", "1e-7"},
        {"1234.5e-10", "1.2345e-7"},
        {"9007199254740993", "9007199254740992"}, /* as JavaScript: such belong into a string */
        {"12345678901234567890", "12345678901234567000"},
        {"0.1", "0.1"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"0.1000000000000000055511151231257827021181583404541015625", "0.1"},
        {"1e-400", "0"},
        {"-1e-400", "0"},
        {"1e-999999999999999999999999", "0"},
        {"0e999999999999999999999999", "0"},
        {"2.4703282292062327208e-324", "0"},   /* just below half of the smallest */
        {"2.4703282292062328e-324", "5e-324"}, /* just above */
        {"1.7976931348623158e308", "1.7976931348623157e+308"},
        {"2.2250738585072011e-308", "2.225073858507201e-308"},
        {"179769313486231570000000000000000000000e270", "1.7976931348623157e+308"},
        {"4.35", "4.35"},
        {"1E+2", "100"},
        {"999999999999999999999", "1e+21"},
        {"99999999999999990000", "99999999999999980000"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof spelled / sizeof spelled[0]; i++)
        assert_canonical(spelled[i][0], spelled[i][1]);
    assert_refused("1e400", "a number beyond the range of a double", 0);
    assert_refused("[-1e309]", "a number beyond the range of a double", 1);
    assert_refused("1.7976931348623159e308", "a number beyond the range of a double", 0);
    assert_refused("1e999999999999999999999999", "a number beyond the range of a double", 0);
}

/* More digits than anybody keeps still count: what lies half way between two doubles is decided by the last. */
static void numbers_of_thousands_of_digits(void **state)
{
    enum { ZEROS = 5000 };
    static const char half[] = "9007199254740993"; /* between ...992 and ...994: even, so down */
    static char text[ZEROS + 64];
    size_t at = sizeof half - 1;

    (void)state;
    memcpy(text, half, at);
    text[at++] = '.';
    memset(text + at, '0', ZEROS);
    at += ZEROS;
    assert_canonical(text, "9007199254740992");
    text[at] = '1';
    assert_canonical(text, "9007199254740994");
    memset(text, '0', ZEROS); /* 0.000…1e5000 */
    text[1] = '.';
    snprintf(text + ZEROS, 32, "125e%d", ZEROS);
    assert_canonical(text, "12.5");
}

/* Each double is spelled so that it reads as itself, and no other spelling is shorter; the corners of each power of two too. */
static void every_double_reads_as_itself(void **state)
{
    uint64_t bits = 88172645463325252;

    (void)state;
    for (int i = 0; i < 60000; i++) {
        double value;
        char text[HP_NUMBER_MAX], canonical_text[HP_NUMBER_MAX], shorter[64];

        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        uint64_t chosen = bits;
        if (i % 2) /* a power of two, and its neighbours */
            chosen = ((uint64_t)(i / 6 % 2047) << 52) + (uint64_t)(i / 2 % 3) - 1;
        memcpy(&value, &chosen, sizeof value);
        if (value != value || value - value != 0)
            continue;
        text[hp_canon_double(value, text)] = '\0';
        assert_true(strtod(text, NULL) == value);
        canonical_text[hp_canon_number(text, strlen(text), canonical_text)] = '\0';
        assert_string_equal(text, canonical_text);
        if (value == 0)
            continue;
        int digits = 0;
        for (const char *p = text + (text[0] == '-'); *p && *p != 'e'; p++)
            digits += *p >= '0' && *p <= '9' && (digits > 0 || *p != '0');
        for (const char *p = strchr(text, 'e') ? "" : text + strlen(text); p > text && p[-1] == '0'; p--)
            digits--;
        if (digits > 1) {
            snprintf(shorter, sizeof shorter, "%.*e", digits - 2, value);
            assert_true(strtod(shorter, NULL) != value);
        }
    }
}

static void strings(void **state)
{
    (void)state;
    assert_canonical("\"\\b\\t\\n\\f\\r\\u0008\\u0009\\u000A\\u000C\\u000D\"", "\"\\b\\t\\n\\f\\r\\b\\t\\n\\f\\r\"");
    assert_canonical("\"\\u0000\\u000b\\u001F\\u007f\"", "\"\\u0000\\u000b\\u001f\x7F\"");
    assert_canonical("\"\\/\\u002f\\u0041\\\\\\\"\"", "\"//A\\\\\\\"\"");
    assert_canonical("\"\\ud83d\\uDE00\\uDBFF\\uDFFF\\ud800\\udc00\"", "\"\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\xF0\x90\x80\x80\"");
    assert_canonical("\"\\u0080\\u07ff\\u0800\\uffff\"", "\"\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\"");
    assert_canonical("\"\xC3\xA9\"", "\"\xC3\xA9\"");
    assert_canonical("\"e\\u0301\"", "\"e\xCC\x81\""); /* no normalization */
    assert_canonical("\"<>&'\xE2\x80\xA8\"", "\"<>&'\xE2\x80\xA8\"");
}

static void structure(void **state)
{
    (void)state;
    assert_canonical(" \t\r\n{ } ", "{}");
    assert_canonical("[ ]", "[]");
    assert_canonical("[ [ ] , { } , [ 1 , [ null ] ] ]", "[[],{},[1,[null]]]");
    assert_canonical("{\"b\":{\"d\":1,\"c\":[{\"f\":2,\"e\":3}]},\"a\":{}}",
                     "{\"a\":{},\"b\":{\"c\":[{\"e\":3,\"f\":2}],\"d\":1}}");
    assert_canonical("{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2}");
    assert_canonical("{\"c\":1,\"\":2,\"b\":3}", "{\"\":2,\"b\":3,\"c\":1}");
    assert_canonical("[3,1,2]", "[3,1,2]");
    assert_canonical("[{\"b\":1,\"a\":2},{\"b\":1,\"a\":2}]", "[{\"a\":2,\"b\":1},{\"a\":2,\"b\":1}]");
}

/* By what names mean, not by how they are written; a prefix first; above U+FFFF by surrogates. */
static void order_of_names(void **state)
{
    (void)state;
    assert_canonical("{\"\\\"\":1,\"!\":2,\"#\":3}", "{\"!\":2,\"\\\"\":1,\"#\":3}");
    assert_canonical("{\"]\":1,\"\\\\\":2,\"[\":3}", "{\"[\":3,\"\\\\\":2,\"]\":1}");
    assert_canonical("{\" \":1,\"\\u001f\":2,\"\\n\":3,\"\\u0001\":4}", "{\"\\u0001\":4,\"\\n\":3,\"\\u001f\":2,\" \":1}");
    assert_canonical("{\"ab\":1,\"a\":2,\"\":3,\"abc\":4}", "{\"\":3,\"a\":2,\"ab\":1,\"abc\":4}");
    assert_canonical("{\"\\ue000\":1,\"\\ud7ff\":2,\"\\ud800\\udc00\":3,\"\\udbff\\udfff\":4,\"\\uffff\":5}",
                     "{\"\xED\x9F\xBF\":2,\"\xF0\x90\x80\x80\":3,\"\xF4\x8F\xBF\xBF\":4,\"\xEE\x80\x80\":1,\"\xEF\xBF\xBF\":5}");
    assert_canonical("{\"x\\ue000\":1,\"x\\ud800\\udc00\":3}", "{\"x\xF0\x90\x80\x80\":3,\"x\xEE\x80\x80\":1}");
    assert_canonical("{\"10\":1,\"9\":2}", "{\"10\":1,\"9\":2}");
}

static void names_given_twice(void **state)
{
    static const char text[] = "a name that the object has already";

    (void)state;
    assert_refused("{\"a\":1,\"a\":1}", text, 7);
    assert_refused("{\"a\":1,\"b\":2,\"\\u0061\":3}", text, 13);
    assert_refused("[{\"c\":1,\"b\":0,\"c\":2}]", text, 14);
    assert_refused("{\"\":1,\"\":1}", text, 6);
    assert_canonical("{\"a\":{\"a\":1},\"b\":{\"a\":1}}", "{\"a\":{\"a\":1},\"b\":{\"a\":1}}");
}

static void what_is_not_json(void **state)
{
    static const struct {
        const char *json, *text;
        size_t at;
    } refused[] = {
        {"", "the end, where a value should be", 0},
        {"  ", "the end, where a value should be", 2},
        {"\xEF\xBB\xBF{}", "not a value of JSON", 0},
        {"nul", "not a value of JSON", 0},
        {"NaN", "not a value of JSON", 0},
        {"Infinity", "not a value of JSON", 0},
        {"-Infinity", "a number without digits", 1},
        {"True", "not a value of JSON", 0},
        {"nullx", "something behind the value", 4},
        {"1 2", "something behind the value", 2},
        {"{} ,", "something behind the value", 3},
        {"01", "something behind the value", 1},
        {"+1", "not a value of JSON", 0},
        {".5", "not a value of JSON", 0},
        {"1.", "no digit behind a decimal point", 2},
        {"1.e1", "no digit behind a decimal point", 2},
        {"1e", "an exponent without digits", 2},
        {"1e+", "an exponent without digits", 3},
        {"-", "a number without digits", 1},
        {"0x10", "something behind the value", 1},
        {"[1,]", "not a value of JSON", 3},
        {"[1 2]", "neither a comma nor the array's end", 3},
        {"[1}", "neither a comma nor the array's end", 2},
        {"[", "the end, where a value should be", 1},
        {"[1", "neither a comma nor the array's end", 2},
        {"{\"a\":1,}", "no name in quotes, where a member should be", 7},
        {"{a:1}", "no name in quotes, where a member should be", 1},
        {"{'a':1}", "no name in quotes, where a member should be", 1},
        {"{\"a\" 1}", "no colon behind a name", 5},
        {"{\"a\":}", "not a value of JSON", 5},
        {"{\"a\":1]", "neither a comma nor the object's end", 6},
        {"{\"a\":1", "neither a comma nor the object's end", 6},
        {"}", "not a value of JSON", 0},
        {"\"a", "a string without an end", 2},
        {"\"a\\", "a string without an end", 2},
        {"\"\t\"", "a control character within a string", 1},
        {"\"\\x41\"", "an escape that JSON doesn't have", 1},
        {"\"\\U0041\"", "an escape that JSON doesn't have", 1},
        {"\"\\u00g1\"", "\\u without four hexadecimal digits", 1},
        {"\"\\u004\"", "\\u without four hexadecimal digits", 1},
        {"\"\\u004", "\\u without four hexadecimal digits", 1},
        {"\"\\ud83d\"", "half a surrogate pair", 1},
        {"\"\\ud83dx\\ude00\"", "half a surrogate pair", 1},
        {"\"\\ud83d\\u0041\"", "half a surrogate pair", 1},
        {"\"\\ude00\\ud83d\"", "half a surrogate pair", 1},
        {"\"\xED\xA0\xBD\xED\xB8\x80\"", "bytes that are not UTF-8", 1},
        {"\"a\xFF\"", "bytes that are not UTF-8", 2},
        {"\"\xC0\xAF\"", "bytes that are not UTF-8", 1},
        {"\"\xF4\x90\x80\x80\"", "bytes that are not UTF-8", 1},
        {"\"\xE2\x82\"", "bytes that are not UTF-8", 1},
        {"// c\n1", "not a value of JSON", 0},
        {"[1\x0C,2]", "neither a comma nor the array's end", 2},
        {"\xC2\xA0"
         "1",
         "not a value of JSON", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_refused(refused[i].json, refused[i].text, refused[i].at);
    assert_refused_bytes("1\0", 2, "something behind the value", 1);
    assert_refused_bytes("\"\0\"", 3, "a control character within a string", 1);
}

static void depth(void **state)
{
    enum { FAR = 100000 };
    static char text[2 * FAR + 1];

    (void)state;
    for (size_t i = 0; i < HP_CANON_DEPTH; i++) {
        text[i] = '[';
        text[2 * HP_CANON_DEPTH - 1 - i] = ']';
    }
    assert_canonical(text, text);
    memset(text, '[', FAR);
    memset(text + FAR, ']', FAR);
    assert_refused(text, "nested too deeply", HP_CANON_DEPTH);
    for (size_t i = 0; i + 5 <= FAR; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    assert_refused(text, "nested too deeply", (size_t)HP_CANON_DEPTH * 5);
}

/* ---- around it ---- */

static void it_appends_within_the_bound(void **state)
{
    struct hp_buf out = {.max = 20};
    struct hp_canon_error error = {0};

    (void)state;
    hp_buf_addstr(&out, "k=");
    assert_true(canonical("{\"b\":1,\"a\":2}", 13, &out, &error));
    assert_string_equal((char *)out.data, "k={\"a\":2,\"b\":1}");
    assert_false(canonical("[12345, 1]", 10, &out, &error));
    assert_true(error.no_memory);
    assert_string_equal((char *)out.data, "k={\"a\":2,\"b\":1}");
    assert_false(out.failed);
    hp_buf_addstr(&out, "too long for it");
    assert_true(out.failed);
    assert_false(canonical("1", 1, &out, &error));
    assert_true(out.failed && error.no_memory);
    hp_buf_release(&out);
}

static size_t allocations, fail_at;

static void *failing_malloc(size_t size)
{
    return ++allocations == fail_at ? NULL : malloc(size);
}

static void without_memory_it_says_so(void **state)
{
    char json[4096] = "{", *p = json + 1;

    (void)state;
    for (int i = 99; i > 0; i--)
        p += sprintf(p, "\"n%d\":[%d,{\"b\":1,\"a\":\"\\u00e9\"}]%s", i, i, i > 1 ? "," : "}");
    hp_malloc_hook = failing_malloc;
    for (fail_at = 1;; fail_at++) {
        struct hp_buf out = HP_BUF_INIT;
        struct hp_canon_error error = {0};
        const bool done = (allocations = 0, hp_canonical_json(json, strlen(json), &out, &error));

        assert_int_equal(done, allocations < fail_at);
        assert_int_equal(error.no_memory, !done);
        assert_int_equal(out.len > 0, done);
        hp_buf_release(&out);
        if (done)
            break;
    }
    assert_true(fail_at > 10);
    hp_malloc_hook = NULL;
}

/* A megabyte of what takes most work does not take long: what is asked of the server, its one thread does. */
static void a_megabyte(void **state)
{
    enum { SIZE = 1 << 20 };
    static const char *const repeated[] = {"1,",           "1e-320,",    "0.30000000000000004,",
                                           "\"\\u00e9\",", "[[[],[]]],", "{\"b\":{},\"a\":[]},"};
    struct hp_buf json = HP_BUF_INIT, out = HP_BUF_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; i++) {
        hp_buf_reset(&json);
        hp_buf_reset(&out);
        hp_buf_addch(&json, '[');
        while (json.len < SIZE)
            hp_buf_addstr(&json, repeated[i]);
        json.data[json.len - 1] = ']';
        assert_true(hp_canonical_json((char *)json.data, json.len, &out, NULL));
    }
    hp_buf_reset(&json);
    hp_buf_reset(&out);
    for (int i = 100000; i > 0; i--)
        hp_buf_printf(&json, "%c\"%d\":0", i == 100000 ? '{' : ',', i);
    hp_buf_addch(&json, '}');
    assert_true(hp_canonical_json((char *)json.data, json.len, &out, NULL));
    assert_int_equal(out.len, json.len);
    assert_memory_equal(out.data, "{\"1\":0,\"10\":0,\"100\":0,", 22);
    hp_buf_release(&json);
    hp_buf_release(&out);
}

static void the_locale_does_not_matter(void **state)
{
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"};

    (void)state;
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) { /* those that are there */
        setlocale(LC_ALL, locales[i]);
        assert_canonical("[0.30000000000000004,1e-320,1234567.5]", "[0.30000000000000004,1e-320,1234567.5]");
    }
    setlocale(LC_ALL, "C");
}

static void assert_fingerprint(const char *json, const char *hex)
{
    uint8_t fingerprint[HP_SHA256_SIZE];
    char text[2 * HP_SHA256_SIZE + 1];

    assert_true(hp_fingerprint(json, strlen(json), fingerprint, NULL));
    for (size_t i = 0; i < sizeof fingerprint; i++)
        snprintf(text + 2 * i, 3, "%02x", fingerprint[i]);
    assert_string_equal(text, hex);
}

/* Known by `printf '{"amount":"12.50","to":"x"}' | sha256sum`, and so on. */
static void fingerprints(void **state)
{
    uint8_t fingerprint[HP_SHA256_SIZE] = {7};
    struct hp_canon_error error;

    (void)state;
    assert_fingerprint("{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    assert_fingerprint(" {\"to\": \"x\", \"amount\": \"12.50\"}",
                       "b1b06232ed3d5bfcd62fba8b242ffe3ad5cc63f3f723912f109fa31ec7a93309");
    assert_fingerprint("{\"amount\":\"12.50\",\"\\u0074o\":\"x\"}",
                       "b1b06232ed3d5bfcd62fba8b242ffe3ad5cc63f3f723912f109fa31ec7a93309");
    assert_fingerprint("{\"amount\":\"12.50\",\"to\":null}", "849783c4763a44c2c82538e87f45ca822cffff2f93dbb814010f001a1f945863");
    assert_false(hp_fingerprint("{", 1, fingerprint, &error));
    assert_int_equal(fingerprint[0], 7);
    assert_int_equal(error.at, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_of_appendix_b),
        cmocka_unit_test(the_example_of_section_3_2),
        cmocka_unit_test(the_order_of_section_3_2_3),
        cmocka_unit_test(numbers),
        cmocka_unit_test(numbers_of_thousands_of_digits),
        cmocka_unit_test(every_double_reads_as_itself),
        cmocka_unit_test(strings),
        cmocka_unit_test(structure),
        cmocka_unit_test(order_of_names),
        cmocka_unit_test(names_given_twice),
        cmocka_unit_test(what_is_not_json),
        cmocka_unit_test(depth),
        cmocka_unit_test(it_appends_within_the_bound),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(a_megabyte),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(fingerprints),
    };

    return cmocka_run_group_tests_name("proto/canon", tests, NULL, NULL);
}
