/* read_test.c - proto3 JSON as it may be written, and as it may not: each refusal names the field, its value and what is wanted. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "google/protobuf/duration.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "net/json_read.h"
#include "proto/c/json.h"
#include "proto/c/wire.h"
#include "unit/proto/kinds.c" /* NOLINT(bugprone-suspicious-include): it belongs to the tests of another room */

static bool read_text(const ProtobufCMessageDescriptor *type, const char *text, size_t len, struct hp_buf *out,
                      struct hp_status *status)
{
    /* In memory of its own size, so that AddressSanitizer sees a step too far. */
    char *exact = malloc(len ? len : 1);
    memcpy(exact, text, len);
    bool read = net_json_read(type, exact, len, out, status);
    free(exact);
    return read;
}

/* What was read, written again. */
static void assert_reads(const ProtobufCMessageDescriptor *type, const char *text, const char *expected)
{
    struct hp_buf wire = HP_BUF_INIT, again = HP_BUF_INIT;
    struct hp_arena *arena = hp_arena_new(1 << 20);
    struct hp_status status;
    if (!read_text(type, text, strlen(text), &wire, &status))
        fail_msg("%s: %s", text, status.message);
    const ProtobufCMessage *message = hp_unpack(arena, type, wire.data, wire.len, &status);
    if (!message)
        fail_msg("%s: %s", text, status.message);
    hp_json_write(&again, message, 0);
    assert_string_equal((char *)again.data, expected);
    hp_buf_release(&wire);
    hp_buf_release(&again);
    hp_arena_free(arena);
}

static void assert_refuses(const ProtobufCMessageDescriptor *type, const char *text, enum hp_reason reason, const char *field,
                           const char *message)
{
    struct hp_buf wire = HP_BUF_INIT;
    struct hp_status status = {.code = HP_OK};
    if (read_text(type, text, strlen(text), &wire, &status))
        fail_msg("%s was read", text);
    assert_int_equal(status.code, HP_INVALID_ARGUMENT);
    assert_int_equal(status.reason, reason);
    assert_string_equal(status.field, field);
    t_contains(status.message, message);
    hp_buf_release(&wire);
}

static void what_may_be_written(void **state)
{
    static const struct {
        const char *text, *again;
    } table[] = {
        {"{}", "{}"},
        {" {\n} \t", "{}"},
        /* numbers */
        {"{\"i32\":-2147483648,\"u32\":4294967295}", "{\"i32\":-2147483648,\"u32\":4294967295}"},
        {"{\"i32\":\"7\",\"s32\":1e3,\"sf32\":1.0,\"u32\":\"1e2\"}", "{\"i32\":7,\"s32\":1000,\"sf32\":1,\"u32\":100}"},
        {"{\"i64\":9223372036854775807,\"s64\":\"-9223372036854775808\",\"u64\":\"18446744073709551615\"}",
         "{\"i64\":\"9223372036854775807\",\"s64\":\"-9223372036854775808\",\"u64\":\"18446744073709551615\"}"},
        {"{\"i64\":1e18,\"s64\":-1.5e1,\"f64\":\"0\"}", "{\"i64\":\"1000000000000000000\",\"s64\":\"-15\"}"},
        {"{\"i32\":-0,\"i64\":\"-0\"}", "{}"},
        {"{\"real\":1.5,\"wideReal\":\"-2.5e-3\"}", "{\"real\":1.5,\"wideReal\":-0.0025}"},
        {"{\"real\":\"NaN\",\"wideReal\":\"-Infinity\"}", "{\"real\":\"NaN\",\"wideReal\":\"-Infinity\"}"},
        {"{\"real\":3,\"wideReal\":9007199254740993}", "{\"real\":3,\"wideReal\":9007199254740992}"},
        {"{\"wideReal\":-0.0}", "{\"wideReal\":-0.0}"},
        /* names */
        {"{\"wide_real\":1,\"many_i32\":[1]}", "{\"wideReal\":1,\"manyI32\":[1]}"},
        /* others */
        {"{\"yes\":true}", "{\"yes\":true}"},
        {"{\"yes\":false,\"i32\":0,\"text\":\"\",\"data\":\"\",\"colour\":\"NONE\",\"wideReal\":0.0}", "{}"},
        {"{\"colour\":\"BLUE\"}", "{\"colour\":\"BLUE\"}"},
        {"{\"colour\":5}", "{\"colour\":\"BLUE\"}"},
        {"{\"colour\":99}", "{\"colour\":99}"},
        {"{\"colour\":-1}", "{\"colour\":-1}"},
        {"{\"text\":\"gr\\u00fc\\u00DF \\ud83d\\udd12 \\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
         "{\"text\":\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x94\x92 \\\"\\\\/\\b\\f\\n\\r\\t\"}"},
        {"{\"data\":\"AP8=\"}", "{\"data\":\"AP8=\"}"},
        {"{\"data\":\"-_8\"}", "{\"data\":\"+/8=\"}"},
        /* null is absent */
        {"{\"i32\":null,\"child\":null,\"manyI32\":null,\"counts\":null,\"oneText\":null,\"oneI32\":1}", "{\"oneI32\":1}"},
        /* messages, lists, maps */
        {"{\"child\":{},\"manyChild\":[{},{\"i32\":1}]}", "{\"child\":{},\"manyChild\":[{},{\"i32\":1}]}"},
        {"{\"manyI32\":[],\"manyText\":[],\"counts\":{}}", "{}"},
        {"{\"manyI32\":[0,-1,\"2\"],\"manyS64\":[\"-3\",3],\"manyF32\":[1],\"manyReal\":[\"NaN\",0]}",
         "{\"manyI32\":[0,-1,2],\"manyS64\":[\"-3\",\"3\"],\"manyF32\":[1],\"manyReal\":[\"NaN\",0]}"},
        {"{\"manyYes\":[true,false],\"manyColour\":[\"RED\",5],\"manyText\":[\"\",\"a\"],\"manyData\":[\"\",\"AA\"]}",
         "{\"manyYes\":[true,false],\"manyColour\":[\"RED\",\"BLUE\"],\"manyText\":[\"\",\"a\"],\"manyData\":[\"\",\"AA==\"]}"},
        {"{\"counts\":{\"\":\"0\",\"a\":1},\"byFlag\":{\"true\":\"RED\",\"false\":0},\"byNumber\":{\"18446744073709551615\":{}}}",
         "{\"counts\":{\"\":\"0\",\"a\":\"1\"},\"byFlag\":{\"true\":\"RED\",\"false\":\"NONE\"},\"byNumber\":{"
         "\"18446744073709551615\":{"
         "}}}"},
        /* members of a oneof, also at their default */
        {"{\"oneI32\":0}", "{\"oneI32\":0}"},
        {"{\"oneText\":\"\"}", "{\"oneText\":\"\"}"},
        {"{\"oneData\":\"\"}", "{\"oneData\":\"\"}"},
        {"{\"oneChild\":{}}", "{\"oneChild\":{}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_reads(&kinds_type, table[i].text, table[i].again);
}

static void what_may_not(void **state)
{
    static const struct {
        const char *text, *field, *message;
    } table[] = {
        /* no JSON */
        {"", "Kinds", "JSON, but line 1 column 0"},
        {"{", "Kinds", "JSON, but line 1"},
        {"{\n\"i32\": 01}", "Kinds", "JSON, but line 2"},
        {"{} {}", "Kinds", "JSON, but"},
        {"{\"i32\":1,}", "Kinds", "JSON, but"},
        {"{'i32':1}", "Kinds", "JSON, but"},
        {"{\"text\":\"\xFF\"}", "Kinds", "JSON, but"},
        {"{\"text\":\"\\u0000\"}", "Kinds", "JSON, but"},
        {"{\"text\":\"\\ud800\"}", "Kinds", "JSON, but"},
        {"{\"i32\":1,\"i32\":1}", "Kinds", "duplicate object key"},
        {"{\"counts\":{\"a\":1,\"a\":2}}", "Kinds", "duplicate object key"},
        {"{\"wideReal\":1e999}", "Kinds", "JSON, but"},
        {"{\"wideReal\":NaN}", "Kinds", "JSON, but"},
        {"[]", "Kinds", "wanted: an object"},
        {"\"\"", "Kinds", "JSON, but"},
        /* fields */
        {"{\"none\":1}", "none", "wanted: a field of"},
        {"{\"none\":null}", "none", "wanted: a field of"},
        {"{\"I32\":1}", "I32", "wanted: a field of"},
        {"{\"child\":{\"manyChild\":[{},{\"none\":1}]}}", "child.many_child[1].none", "wanted: a field of"},
        {"{\"wide_real\":1,\"wideReal\":1}", "wide_real", "not under both of its names"},
        {"{\"wide_real\":null,\"wideReal\":1}", "wide_real", "not under both of its names"},
        {"{\"oneI32\":1,\"oneText\":\"a\"}", "one_text", "exclude each other"},
        /* numbers */
        {"{\"i32\":2147483648}", "i32", "\"2147483648\" is not well-formed; wanted: a whole number from -2147483648 to 2147483647"},
        {"{\"u32\":-1}", "u32", "\"-1\""},
        {"{\"u32\":4294967296}", "u32", "\"4294967296\""},
        {"{\"u64\":\"-1\"}", "u64", "\"-1\""},
        {"{\"u64\":\"18446744073709551616\"}", "u64", "\"18446744073709551616\""},
        {"{\"i64\":\"9223372036854775808\"}", "i64", "a whole number of 64 bits"},
        {"{\"i64\":9223372036854775808}", "Kinds", "too big integer"},
        {"{\"i64\":1e19}", "i64", "a whole number of 64 bits"},
        {"{\"i32\":1.5}", "i32", "\"1.5\""},
        {"{\"i32\":\"1.5\"}", "i32", "\"1.5\""},
        {"{\"i32\":\"\"}", "i32", "a whole number"},
        {"{\"i32\":\" 1\"}", "i32", "a whole number"},
        {"{\"i32\":\"1 \"}", "i32", "a whole number"},
        {"{\"i32\":\"01\"}", "i32", "a whole number"},
        {"{\"i32\":\"+1\"}", "i32", "a whole number"},
        {"{\"i32\":\"0x1\"}", "i32", "a whole number"},
        {"{\"i32\":true}", "i32", "\"true\""},
        {"{\"i32\":{}}", "i32", "a whole number"},
        {"{\"i32\":[1]}", "i32", "a whole number"},
        {"{\"real\":3.5e38}", "real", "a number within range"},
        {"{\"real\":\"nan\"}", "real", "a number within range"},
        {"{\"wideReal\":\"1e999\"}", "wide_real", "a number within range"},
        {"{\"wideReal\":\"inf\"}", "wide_real", "a number within range"},
        {"{\"wideReal\":true}", "wide_real", "a number within range"},
        /* others */
        {"{\"yes\":1}", "yes", "true or false"},
        {"{\"yes\":\"true\"}", "yes", "true or false"},
        {"{\"colour\":\"GREEN\"}", "colour", "\"GREEN\" is not well-formed; wanted: a name or number of"},
        {"{\"colour\":\"blue\"}", "colour", "a name or number of"},
        {"{\"colour\":1.5}", "colour", "a name or number of"},
        {"{\"colour\":2147483648}", "colour", "a name or number of"},
        {"{\"colour\":true}", "colour", "a name or number of"},
        {"{\"text\":1}", "text", "\"1\" is not well-formed; wanted: a string"},
        {"{\"text\":[]}", "text", "a string"},
        {"{\"data\":\"*\"}", "data", "base64"},
        {"{\"data\":\"A\"}", "data", "base64"},
        {"{\"data\":1}", "data", "base64"},
        {"{\"child\":1}", "child", "an object"},
        {"{\"child\":[]}", "child", "an object"},
        {"{\"child\":\"\"}", "child", "an object"},
        /* lists and maps */
        {"{\"manyI32\":1}", "many_i32", "an array"},
        {"{\"manyI32\":{}}", "many_i32", "an array"},
        {"{\"manyI32\":[1,2,\"x\"]}", "many_i32[2]", "\"x\""},
        {"{\"manyI32\":[null]}", "many_i32[0]", "\"null\""},
        {"{\"manyText\":[\"a\",null]}", "many_text[1]", "\"null\""},
        {"{\"manyChild\":[{},{\"i32\":\"x\"}]}", "many_child[1].i32", "\"x\""},
        {"{\"manyChild\":[null]}", "many_child[0]", "an object"},
        {"{\"counts\":[]}", "counts", "an object"},
        {"{\"counts\":{\"a\":\"x\"}}", "counts[\"a\"]", "\"x\""},
        {"{\"counts\":{\"a\":null}}", "counts[\"a\"]", "\"null\""},
        {"{\"byFlag\":{\"yes\":1}}", "by_flag[\"yes\"]", "a key that is true or false"},
        {"{\"byNumber\":{\"-1\":{}}}", "by_number[\"-1\"]", "a key that is a whole number"},
        {"{\"byNumber\":{\"1\":{\"i32\":\"x\"}}}", "by_number[\"1\"].i32", "\"x\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_refuses(&kinds_type, table[i].text, HP_R_MALFORMED, table[i].field, table[i].message);
}

static void durations(void **state)
{
    static const struct {
        const char *text, *again;
    } good[] = {
        {"0s", "0s"},
        {"1.5s", "1.500s"},
        {"-1.5s", "-1.500s"},
        {"-0.000000001s", "-0.000000001s"},
        {"315576000000s", "315576000000s"},
        {"-315576000000s", "-315576000000s"},
        {"3.000001s", "3.000001s"},
    };
    static const char *const bad[] = {
        "",     "s",    "1", "1 s", "1.s", ".5s", "+1s", "1e3s", "1.5", "--1s", "1.0000000001s", "315576000001s", "1000000000000s",
        "1.5S", "1.5sx"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_reads(&google__rpc__retry_info__descriptor, t_printf("{\"retryDelay\":\"%s\"}", good[i].text),
                     t_printf("{\"retryDelay\":\"%s\"}", good[i].again));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refuses(&google__rpc__retry_info__descriptor, t_printf("{\"retryDelay\":\"%s\"}", bad[i]), HP_R_MALFORMED,
                       "retry_delay", "a duration such as");
    assert_refuses(&google__rpc__retry_info__descriptor, "{\"retryDelay\":{}}", HP_R_MALFORMED, "retry_delay", "a duration");
}

/* `n` times open, inside, close. */
static char *nested(size_t n, const char *open, const char *inside, const char *close)
{
    struct hp_buf text = HP_BUF_INIT;
    for (size_t i = 0; i < n; i++)
        hp_buf_addstr(&text, open);
    hp_buf_addstr(&text, inside);
    for (size_t i = 0; i < n; i++)
        hp_buf_addstr(&text, close);
    return (char *)text.data;
}

static void what_is_too_much(void **state)
{
    char *text = nested(HP_WIRE_DEPTH - 1, "{\"child\":", "{}", "}");
    (void)state;
    assert_reads(&kinds_type, text, text);
    free(text);
    text = nested(HP_WIRE_DEPTH, "{\"child\":", "{}", "}");
    assert_refuses(&kinds_type, text, HP_R_LIMIT, "child.child.child.child.child.child.child.child", "8 levels");
    free(text);
    text = nested(HP_WIRE_DEPTH - 1, "{\"manyChild\":[", "{}", "]}");
    assert_reads(&kinds_type, text, text);
    free(text);
    text = nested(HP_WIRE_DEPTH - 1, "{\"byNumber\":{\"1\":", "{}", "}}"); /* an entry of a map is a message too */
    assert_refuses(&kinds_type, text, HP_R_LIMIT, "by_number[\"1\"].by_number[\"1\"].by_number[\"1\"].by_number[\"1\"]",
                   "8 levels");
    free(text);
    text = nested(100000, "[", "", "]");
    assert_refuses(&kinds_type, text, HP_R_LIMIT, "Kinds", "8 levels");
    free(text);
    text = nested(100000, "{\"a\":", "1", "}");
    assert_refuses(&kinds_type, text, HP_R_LIMIT, "Kinds", "8 levels");
    free(text);
}

/* The text is small beside what jansson would make of it. */
static void elements_are_counted_before_they_are_read(void **state)
{
    struct hp_buf text = HP_BUF_INIT, wire = HP_BUF_INIT;
    struct hp_status status;
    (void)state;
    hp_buf_addstr(&text, "{\"manyI32\":[0");
    for (int i = 1; i < HP_WIRE_ELEMENTS - 1; i++)
        hp_buf_addstr(&text, ",0");
    hp_buf_addstr(&text, "]}");
    assert_true(read_text(&kinds_type, (char *)text.data, text.len, &wire, &status));
    hp_buf_reset(&text);
    hp_buf_addstr(&text, "{\"manyI32\":[0");
    for (int i = 0; i < 2 * HP_WIRE_ELEMENTS; i++)
        hp_buf_addstr(&text, ",0");
    hp_buf_addstr(&text, "]}");
    assert_refuses(&kinds_type, (char *)text.data, HP_R_LIMIT, "Kinds", "20000 fields and elements");
    hp_buf_reset(&text); /* but not within strings */
    hp_buf_addstr(&text, "{\"text\":\"\\\"");
    for (int i = 0; i < 3 * HP_WIRE_ELEMENTS; i++)
        hp_buf_addstr(&text, ",[{\\\\");
    hp_buf_addstr(&text, "\"}");
    hp_buf_reset(&wire);
    assert_true(read_text(&kinds_type, (char *)text.data, text.len, &wire, &status));
    hp_buf_release(&text);
    hp_buf_release(&wire);
}

static void what_it_becomes_is_bounded(void **state)
{
    struct hp_buf wire = {.max = 10};
    struct hp_status status;
    (void)state;
    assert_true(read_text(&kinds_type, "{\"text\":\"1234567\"}", 18, &wire, &status));
    hp_buf_release(&wire);
    wire.max = 8;
    assert_false(read_text(&kinds_type, "{\"text\":\"1234567\"}", 18, &wire, &status));
    assert_int_equal(status.reason, HP_R_LIMIT);
    hp_buf_release(&wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_be_written),
        cmocka_unit_test(what_may_not),
        cmocka_unit_test(durations),
        cmocka_unit_test(what_is_too_much),
        cmocka_unit_test(elements_are_counted_before_they_are_read),
        cmocka_unit_test(what_it_becomes_is_bounded),
    };
    return cmocka_run_group_tests_name("net/json/read", tests, NULL, NULL);
}
