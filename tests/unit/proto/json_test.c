/* proto3 JSON: every kind of field, against what google.protobuf.json_format writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "google/protobuf/duration.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"
#include "kinds.h"
#include "proto/c/arena.h"
#include "proto/c/json.h"

static void assert_json(const void *message, unsigned flags, const char *expected)
{
    struct hp_buf out = HP_BUF_INIT;

    hp_json_write(&out, message, flags);
    assert_false(out.failed);
    assert_string_equal((char *)out.data, expected);
    hp_buf_release(&out);
}

static void every_kind_of_field(void **state)
{
    struct kinds message;

    (void)state;
    kinds_fill(&message);
    assert_json(&message, 0,
                "{\"i32\":-1,\"s32\":-2147483648,\"sf32\":-3,\"u32\":4294967295,\"f32\":5,\"i64\":\"-9223372036854775808\","
                "\"s64\":\"-7\",\"sf64\":\"9223372036854775807\",\"u64\":\"18446744073709551615\",\"f64\":\"10\",\"real\":0.1,"
                "\"wideReal\":0.1,\"yes\":true,\"colour\":\"BLUE\",\"text\":\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x94\x92\","
                "\"data\":\"AAH+\",\"child\":{\"i32\":7},\"manyI32\":[1,-1,300],\"manyS64\":[\"-1\",\"-9223372036854775808\"],"
                "\"manyF32\":[0,4294967295],\"manyReal\":[0.1,-2.5],\"manyYes\":[true,false,true],"
                "\"manyColour\":[\"RED\",\"BLUE\",99],\"manyText\":[\"a\",\"\",\"\xC3\xA9\"],\"manyData\":[\"AP8=\",\"\"],"
                "\"manyChild\":[{\"i32\":7},{}],\"counts\":{\"a\":\"1\",\"b\\\"\":\"0\"},\"byFlag\":{\"true\":\"BLUE\"},"
                "\"byNumber\":{\"18446744073709551615\":{\"i32\":7}},\"oneText\":\"chosen\"}");
}

static void defaults_are_left_out_or_asked_for(void **state)
{
    struct kinds message;

    (void)state;
    kinds_init(&message);
    assert_json(&message, 0, "{}");
    assert_json(&message, HP_JSON_DEFAULTS,
                "{\"i32\":0,\"s32\":0,\"sf32\":0,\"u32\":0,\"f32\":0,\"i64\":\"0\",\"s64\":\"0\",\"sf64\":\"0\",\"u64\":\"0\","
                "\"f64\":\"0\",\"real\":0,\"wideReal\":0,\"yes\":false,\"colour\":\"NONE\",\"text\":\"\",\"data\":\"\","
                "\"manyI32\":[],\"manyS64\":[],\"manyF32\":[],\"manyReal\":[],\"manyYes\":[],\"manyColour\":[],\"manyText\":[],"
                "\"manyData\":[],\"manyChild\":[],\"counts\":{},\"byFlag\":{},\"byNumber\":{}}");
    message.text = NULL; /* as code may leave it */
    assert_json(&message, 0, "{}");
}

static void members_of_a_oneof_are_written_when_set(void **state)
{
    struct kinds message, child;

    (void)state;
    kinds_init(&message);
    kinds_init(&child);
    message.one_case = 30; /* set, and zero */
    assert_json(&message, 0, "{\"oneI32\":0}");
    message.one_case = 31;
    message.one_text = (char *)"";
    assert_json(&message, 0, "{\"oneText\":\"\"}");
    message.one_case = 32;
    message.one_child = &child;
    assert_json(&message, 0, "{\"oneChild\":{}}");
    message.one_child = NULL;
    assert_json(&message, 0, "{}");
    message.one_case = 33;
    message.one_data = (ProtobufCBinaryData){1, (uint8_t *)"\xFF"};
    assert_json(&message, 0, "{\"oneData\":\"/w==\"}");
}

static const char *real_text(double value, bool is_float)
{
    static char text[64];
    struct hp_buf out = HP_BUF_INIT;
    struct kinds message;

    kinds_init(&message);
    if (is_float)
        message.real = (float)value;
    else
        message.wide_real = value;
    hp_json_write(&out, &message.base, HP_JSON_DEFAULTS);
    assert_non_null(out.data);
    snprintf(text, sizeof text, "%s", strstr((char *)out.data, is_float ? "\"real\":" : "\"wideReal\":") + (is_float ? 7 : 11));
    *strchr(text, ',') = '\0';
    hp_buf_release(&out);
    return text;
}

static void reals_read_back_as_the_same_value(void **state)
{
    static const double values[] = {
        0.1, 1.0 / 3, 1e300, -1e-300, DBL_MAX, DBL_MIN, 4.9e-324, 1e21, 123456789.0, 2.5, 0.30000000000000004, 9007199254740993.0,
        100, M_PI};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_true(strtod(real_text(values[i], false), NULL) == values[i]);
        if (fabs(values[i]) < (double)FLT_MAX)
            assert_true(strtof(real_text(values[i], true), NULL) == (float)values[i]);
    }
    assert_string_equal(real_text(0.1, true), "0.1");
    assert_string_equal(real_text(0.1, false), "0.1");
    assert_string_equal(real_text(0.30000000000000004, false), "0.30000000000000004");
    assert_string_equal(real_text(1e300, false), "1e+300");
    assert_string_equal(real_text(16777216, true), "16777216");
    assert_string_equal(real_text((double)FLT_MAX, true), "3.4028235e+38");
    assert_string_equal(real_text((double)NAN, true), "\"NaN\"");
    assert_string_equal(real_text((double)NAN, false), "\"NaN\"");
    assert_string_equal(real_text((double)INFINITY, false), "\"Infinity\"");
    assert_string_equal(real_text(-(double)INFINITY, true), "\"-Infinity\"");
    assert_string_equal(real_text(-0.0, false), "-0.0");
}

static void strings_are_escaped(void **state)
{
    struct hp_buf out = HP_BUF_INIT;
    char all[0x21], expected[400] = "\"";

    (void)state;
    for (int c = 0; c <= 0x20; c++) {
        static const char *const shorts[0x21] = {
            ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t", [' '] = " "};

        all[c] = (char)c;
        if (shorts[c])
            strcat(expected, shorts[c]);
        else
            sprintf(expected + strlen(expected), "\\u%04x", (unsigned)c);
    }
    strcat(expected, "\"");
    hp_json_string(&out, all, sizeof all);
    assert_string_equal((char *)out.data, expected);
    hp_buf_reset(&out);
    hp_json_string(&out, "a\"b\\c/bfnrt\x7F\xC3\xA9", 14);
    assert_string_equal((char *)out.data, "\"a\\\"b\\\\c/bfnrt\x7F\xC3\xA9\"");
    hp_buf_reset(&out);
    hp_json_string(&out, "\xFFx\xED\xA0\x80\xC3", 6);
    assert_string_equal((char *)out.data, "\"\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    hp_buf_reset(&out);
    hp_json_string(&out, "", 0);
    assert_string_equal((char *)out.data, "\"\"");
    hp_buf_release(&out);
}

static void assert_duration(int64_t seconds, int32_t nanos, const char *expected)
{
    Google__Protobuf__Duration duration = GOOGLE__PROTOBUF__DURATION__INIT;

    duration.seconds = seconds;
    duration.nanos = nanos;
    assert_json(&duration, 0, expected);
}

static void durations(void **state)
{
    (void)state;
    assert_duration(0, 0, "\"0s\"");
    assert_duration(1, 500000000, "\"1.500s\"");
    assert_duration(0, 1000, "\"0.000001s\"");
    assert_duration(3, 1, "\"3.000000001s\"");
    assert_duration(-1, -500000000, "\"-1.500s\"");
    assert_duration(0, -1000000, "\"-0.001s\"");
    assert_duration(315576000000, 0, "\"315576000000s\"");
    assert_duration(INT64_MIN, INT32_MIN, "\"-9223372036854775808.2147483648s\""); /* no Duration, but no crash */
}

static void of_equal_keys_the_last_counts(void **state)
{
    struct kinds message;
    struct kinds_count entry[3], *entries[] = {&entry[0], &entry[1], &entry[2]};
    struct kinds_number number, *numbers[] = {&number};
    static const char *const keys[] = {"a", "b", "a"};

    (void)state;
    kinds_init(&message);
    for (int i = 0; i < 3; i++) {
        kinds_count_type.message_init(&entry[i].base);
        entry[i].key = (char *)keys[i];
        entry[i].value = i;
    }
    kinds_number_type.message_init(&number.base);
    message.n_counts = 3;
    message.counts = entries;
    message.n_by_number = 1;
    message.by_number = numbers; /* an entry without key and value has their defaults */
    assert_json(&message, 0, "{\"counts\":{\"b\":\"1\",\"a\":\"2\"},\"byNumber\":{\"0\":{}}}");
}

static void messages_of_ours(void **state)
{
    Holdfast__V1__AcquireRequest acquire = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    Holdfast__V1__AcquireRequest__LabelsEntry label = HOLDFAST__V1__ACQUIRE_REQUEST__LABELS_ENTRY__INIT, *labels[] = {&label};
    Holdfast__V1__RenewResult result = HOLDFAST__V1__RENEW_RESULT__INIT;
    Holdfast__V1__Lost lost = HOLDFAST__V1__LOST__INIT;
    Holdfast__V1__WriteRequest write = HOLDFAST__V1__WRITE_REQUEST__INIT;
    Google__Rpc__RetryInfo retry = GOOGLE__RPC__RETRY_INFO__INIT;
    Google__Protobuf__Duration delay = GOOGLE__PROTOBUF__DURATION__INIT;
    char *resources[] = {(char *)"r"};

    (void)state;
    acquire.namespace_ = (char *)"default";
    acquire.resources = resources;
    acquire.n_resources = 1;
    acquire.ttl_ms = 30000;
    acquire.request_id = (char *)"id";
    label.key = (char *)"env";
    label.value = (char *)"prod";
    acquire.labels = labels;
    acquire.n_labels = 1;
    assert_json(&acquire, 0,
                "{\"namespace\":\"default\",\"resources\":[\"r\"],\"ttlMs\":\"30000\",\"requestId\":\"id\","
                "\"labels\":{\"env\":\"prod\"}}");
    lost.reason = HOLDFAST__V1__LOST__REASON__TAKEN_OVER;
    result.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST;
    result.lost = &lost;
    assert_json(&result, 0, "{\"lost\":{\"reason\":\"TAKEN_OVER\"}}");
    write.expected_case = HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION;
    assert_json(&write, 0, "{\"expectedVersion\":\"0\"}");
    retry.retry_delay = &delay;
    delay.nanos = 100000000;
    assert_json(&retry, 0, "{\"retryDelay\":\"0.100s\"}");
}

static void base64_of_each_remainder(void **state)
{
    static const char *const expected[] = {"{}",
                                           "{\"value\":\"Zg==\"}",
                                           "{\"value\":\"Zm8=\"}",
                                           "{\"value\":\"Zm9v\"}",
                                           "{\"value\":\"Zm9vYg==\"}",
                                           "{\"value\":\"Zm9vYmE=\"}",
                                           "{\"value\":\"Zm9vYmFy\"}"};
    Holdfast__V1__ReadResponse read = HOLDFAST__V1__READ_RESPONSE__INIT;

    (void)state;
    read.value.data = (uint8_t *)"foobar"; /* RFC 4648 section 10 */
    for (read.value.len = 0; read.value.len <= 6; read.value.len++)
        assert_json(&read, 0, expected[read.value.len]);
}

static size_t allocations, fail_at;

static void *failing_malloc(size_t size)
{
    return ++allocations == fail_at ? NULL : malloc(size);
}

static void failure_shows_at_the_end(void **state)
{
    struct kinds message;
    struct hp_buf out = {.max = 100};

    (void)state;
    kinds_fill(&message);
    hp_json_write(&out, &message.base, 0);
    assert_true(out.failed);
    assert_true(out.len <= 100);
    hp_buf_release(&out);
    out.max = 0;
    hp_malloc_hook = failing_malloc;
    for (fail_at = 1; fail_at <= 3; fail_at++) {
        allocations = 0;
        hp_json_write(&out, &message.base, 0);
        assert_true(out.failed);
        hp_buf_release(&out);
    }
    hp_malloc_hook = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_field),
        cmocka_unit_test(defaults_are_left_out_or_asked_for),
        cmocka_unit_test(members_of_a_oneof_are_written_when_set),
        cmocka_unit_test(reals_read_back_as_the_same_value),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(durations),
        cmocka_unit_test(of_equal_keys_the_last_counts),
        cmocka_unit_test(messages_of_ours),
        cmocka_unit_test(base64_of_each_remainder),
        cmocka_unit_test(failure_shows_at_the_end),
    };

    return cmocka_run_group_tests_name("proto/json", tests, NULL, NULL);
}
