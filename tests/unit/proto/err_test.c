/* Codes and reasons: the C side and errors.proto say the same; a status takes whatever it is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "holdfast/v1/errors.pb-c.h"
#include "proto/c/err.h"
#include "proto/c/wire.h"

static const struct {
    const char *name;
    int number;
} reasons[] = {
#define X(name, number, code, text) {#name, number},
    HP_REASONS(X)
#undef X
};
enum { N_REASONS = sizeof reasons / sizeof reasons[0] };

static void reasons_are_those_of_the_proto(void **state)
{
    const ProtobufCEnumDescriptor *type = &holdfast__v1__error_reason__reason__descriptor;

    (void)state;
    assert_int_equal(N_REASONS, type->n_values);
    for (size_t i = 0; i < N_REASONS; i++) {
        const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(type, reasons[i].name);

        assert_non_null(value);
        assert_int_equal(value->value, reasons[i].number);
        assert_string_equal(hp_reason_name(reasons[i].number), reasons[i].name);
        assert_int_equal(hp_reason_by_name(reasons[i].name), reasons[i].number);
    }
    for (size_t i = 0; i < type->n_values; i++)
        assert_string_equal(hp_reason_name(type->values[i].value), type->values[i].name);
}

static void unknown_numbers_and_names(void **state)
{
    (void)state;
    assert_string_equal(hp_reason_name(9999), "UNSPECIFIED");
    assert_string_equal(hp_reason_name(-1), "UNSPECIFIED");
    assert_int_equal(hp_reason_by_name("NO_SUCH_THING"), HP_R_UNSPECIFIED);
    assert_int_equal(hp_reason_by_name(NULL), HP_R_UNSPECIFIED);
    assert_string_equal(hp_code_name(5), "NOT_FOUND");
    assert_string_equal(hp_code_name(16), "UNAUTHENTICATED");
    assert_string_equal(hp_code_name(17), "UNKNOWN");
    assert_string_equal(hp_code_name(-1), "UNKNOWN");
    assert_int_equal(hp_reason_code(HP_R_STALE_TOKEN), HP_FAILED_PRECONDITION);
    assert_int_equal(hp_reason_code(HP_R_OUTCOME_LOST), HP_UNKNOWN);
    assert_string_equal(hp_reason_text(HP_R_BUSY), "locked by another transaction");
}

static void set_fills_in_everything(void **state)
{
    struct hp_status status;

    (void)state;
    memset(&status, 0xAA, sizeof status);
    hp_status_set(&status, HP_R_NO_SUCH_NAMESPACE, "no namespace \"%s\"", "prod");
    assert_int_equal(status.code, HP_NOT_FOUND);
    assert_int_equal(status.reason, HP_R_NO_SUCH_NAMESPACE);
    assert_string_equal(status.message, "no namespace \"prod\"");
    assert_int_equal(status.retry_ms, 0);
    assert_int_equal(status.n_meta, 0);
    assert_string_equal(status.field, "");
    hp_status_set(&status, HP_R_BUSY, NULL);
    assert_string_equal(status.message, "locked by another transaction");
    assert_int_equal(status.retry_ms, 100);
    hp_status_set(&status, HP_R_QUEUE_FULL, NULL);
    assert_int_equal(status.retry_ms, 100);
    hp_status_set(&status, HP_R_OUTCOME_LOST, NULL);
    assert_int_equal(status.retry_ms, 0);
    hp_status_set(&status, HP_R_INTERNAL, "again: %s", status.message); /* its own text as an argument */
    assert_string_equal(status.message, "again: it is not known whether the call took effect");
}

static void long_and_broken_text_becomes_valid(void **state)
{
    struct hp_status status;
    char text[2000];

    (void)state;
    hp_status_set(&status, HP_R_INTERNAL, "a\xFF%s", "\xC3");
    assert_string_equal(status.message, "a\xEF\xBF\xBD\xEF\xBF\xBD");
    /* Cut at every position within a character of several bytes. */
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof text; i += 4)
            memcpy(text + i, "\xF0\x9F\x94\x92", 5);
        hp_status_set(&status, HP_R_INTERNAL, "%s", text);
        assert_true(hp_utf8_valid(status.message, strlen(status.message)));
        assert_true(strlen(status.message) > sizeof status.message - 8);
        assert_string_equal(status.message + strlen(status.message) - 3, "\xE2\x80\xA6");
    }
}

static void bad_field_names_field_value_and_limit(void **state)
{
    struct hp_status status;

    (void)state;
    hp_status_bad_field(&status, HP_R_LIMIT, "ttl_ms", "1", 1, "100 to 86400000");
    assert_int_equal(status.code, HP_INVALID_ARGUMENT);
    assert_int_equal(status.reason, HP_R_LIMIT);
    assert_string_equal(status.field, "ttl_ms");
    assert_string_equal(status.message, "ttl_ms: \"1\" is outside its limit; wanted: 100 to 86400000");
    assert_string_equal(hp_status_get_meta(&status, "field"), "ttl_ms");
    assert_string_equal(hp_status_get_meta(&status, "value"), "1");
    assert_string_equal(hp_status_get_meta(&status, "limit"), "100 to 86400000");
    assert_null(hp_status_get_meta(&status, "fence"));

    hp_status_bad_field(&status, HP_R_MALFORMED, "items[57].resource", "a\0\n\"\\\x80\xC2\x85\xC3\xA9", 10, "names");
    assert_string_equal(hp_status_get_meta(&status, "value"), "a\\x00\\n\\\"\\\\\\x80\\xc2\\x85\xC3\xA9");
    hp_status_bad_field(&status, HP_R_MALFORMED, "labels", NULL, 0, "a map");
    assert_null(hp_status_get_meta(&status, "value"));
    assert_string_equal(status.message, "labels is not well-formed; wanted: a map");
}

static void bad_field_cuts_what_is_long(void **state)
{
    struct hp_status status;
    char value[1000], field[300], limit[600];

    (void)state;
    memset(value, '\1', sizeof value);
    memset(field, 'f', sizeof field);
    memset(limit, 'l', sizeof limit);
    field[sizeof field - 1] = limit[sizeof limit - 1] = '\0';
    hp_status_bad_field(&status, HP_R_LIMIT, field, value, sizeof value, limit);
    assert_true(strlen(status.field) < sizeof status.field);
    assert_non_null(strstr(hp_status_get_meta(&status, "value"), "\xE2\x80\xA6 (1000 bytes)"));
    assert_true(strncmp(hp_status_get_meta(&status, "value"), "\\x01\\x01", 8) == 0);
    assert_true(hp_utf8_valid(status.message, strlen(status.message)));
    assert_true(hp_utf8_valid(status.field, strlen(status.field)));
}

static void metadata_is_bounded(void **state)
{
    struct hp_status status;

    (void)state;
    hp_status_set(&status, HP_R_STALE_TOKEN, NULL);
    hp_status_meta(&status, "fence", "%d", 7);
    hp_status_meta(&status, "fence", "%d", 8);
    assert_int_equal(status.n_meta, 1);
    assert_string_equal(hp_status_get_meta(&status, "fence"), "8");
    hp_status_meta(&status, "version", "1");
    hp_status_meta(&status, "holder", "%0200d", 1);
    hp_status_meta(&status, "method", "m");
    hp_status_meta(&status, "resource", "does not fit");
    assert_int_equal(status.n_meta, HP_STATUS_META);
    assert_null(hp_status_get_meta(&status, "resource"));
    assert_true(strlen(hp_status_get_meta(&status, "holder")) < sizeof status.meta[0].value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_are_those_of_the_proto),
        cmocka_unit_test(unknown_numbers_and_names),
        cmocka_unit_test(set_fills_in_everything),
        cmocka_unit_test(long_and_broken_text_becomes_valid),
        cmocka_unit_test(bad_field_names_field_value_and_limit),
        cmocka_unit_test(bad_field_cuts_what_is_long),
        cmocka_unit_test(metadata_is_bounded),
    };

    return cmocka_run_group_tests_name("proto/err", tests, NULL, NULL);
}
