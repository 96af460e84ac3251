/* A status as google.rpc.Status with details, and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "google/protobuf/any.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "kinds.h"
#include "proto/c/status.h"
#include "proto/c/wire.h"

static void assert_same(const struct hp_status *a, const struct hp_status *b)
{
    assert_int_equal(a->code, b->code);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->retry_ms, b->retry_ms);
    assert_string_equal(a->field, b->field);
    assert_string_equal(a->message, b->message);
    assert_int_equal(a->n_meta, b->n_meta);
    for (size_t i = 0; i < a->n_meta; i++) {
        assert_string_equal(a->meta[i].name, b->meta[i].name);
        assert_string_equal(a->meta[i].value, b->meta[i].value);
    }
}

static void round_trip(const struct hp_status *status)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status back;

    memset(&back, 0xAA, sizeof back);
    assert_true(hp_status_encode(status, &bytes));
    assert_true(hp_status_decode(bytes.data, bytes.len, &back));
    assert_same(status, &back);
    hp_buf_release(&bytes);
}

static void what_is_sent_comes_back(void **state)
{
    struct hp_status status;

    (void)state;
    hp_status_set(&status, HP_R_STALE_TOKEN, NULL);
    hp_status_meta(&status, "fence", "%d", 8);
    hp_status_meta(&status, "resource", "gr\xC3\xBC\xC3\x9F");
    round_trip(&status);
    hp_status_set(&status, HP_R_REVISION_MISMATCH, NULL);
    hp_status_meta(&status, "key", "k");
    hp_status_meta(&status, "revision", "%d", 3);
    hp_status_meta(&status, "state", "REVIEW");
    round_trip(&status);
    hp_status_set(&status, HP_R_ACTION_RAISED, NULL);
    hp_status_meta(&status, "action", "pay");
    hp_status_meta(&status, "sqlstate", "23514");
    hp_status_meta(&status, "message", "too little");
    round_trip(&status);
    hp_status_bad_field(&status, HP_R_MALFORMED, "items[57].resource", "\0", 1, "names");
    round_trip(&status);
    hp_status_set(&status, HP_R_BUSY, "pid %d", 77);
    round_trip(&status);
    status.retry_ms = INT64_C(86400001);
    round_trip(&status);
    hp_status_set(&status, HP_R_OUTCOME_LOST, NULL);
    status.code = HP_DEADLINE_EXCEEDED;
    round_trip(&status);
    memset(&status, 0, sizeof status);
    round_trip(&status);
    status.code = HP_CANCELLED; /* no reason, no message */
    round_trip(&status);
}

/* The bytes themselves: what another implementation of gRPC would read. */
static void the_details_are_googles(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status, why;
    struct hp_arena *arena = hp_arena_new(1 << 20);
    Google__Rpc__Status *message;
    Google__Rpc__ErrorInfo *info;
    Google__Rpc__RetryInfo *retry;
    Google__Rpc__BadRequest *bad;

    (void)state;
    hp_status_bad_field(&status, HP_R_LIMIT, "ttl_ms", "1", 1, "100 to 86400000");
    status.retry_ms = 1250;
    assert_true(hp_status_encode(&status, &bytes));
    message = (Google__Rpc__Status *)hp_unpack(arena, &google__rpc__status__descriptor, bytes.data, bytes.len, &why);
    assert_non_null(message);
    assert_int_equal(message->code, 3);
    assert_int_equal(message->n_details, 3);
    assert_string_equal(message->details[0]->type_url, "type.googleapis.com/google.rpc.ErrorInfo");
    assert_string_equal(message->details[1]->type_url, "type.googleapis.com/google.rpc.RetryInfo");
    assert_string_equal(message->details[2]->type_url, "type.googleapis.com/google.rpc.BadRequest");
    info = google__rpc__error_info__unpack(NULL, message->details[0]->value.len, message->details[0]->value.data);
    retry = google__rpc__retry_info__unpack(NULL, message->details[1]->value.len, message->details[1]->value.data);
    bad = google__rpc__bad_request__unpack(NULL, message->details[2]->value.len, message->details[2]->value.data);
    assert_string_equal(info->reason, "LIMIT");
    assert_string_equal(info->domain, "holdfast");
    assert_int_equal(info->n_metadata, 3);
    assert_string_equal(info->metadata[1]->key, "value");
    assert_string_equal(info->metadata[1]->value, "1");
    assert_int_equal(retry->retry_delay->seconds, 1);
    assert_int_equal(retry->retry_delay->nanos, 250000000);
    assert_string_equal(bad->field_violations[0]->field, "ttl_ms");
    assert_string_equal(bad->field_violations[0]->description, status.message);
    google__rpc__error_info__free_unpacked(info, NULL);
    google__rpc__retry_info__free_unpacked(retry, NULL);
    google__rpc__bad_request__free_unpacked(bad, NULL);
    hp_arena_free(arena);
    hp_buf_release(&bytes);
}

/* Appends Any{type, value} as a detail of google.rpc.Status. */
static void put_detail(struct hp_buf *out, const char *type, const struct hp_buf *value)
{
    struct hp_buf any = HP_BUF_INIT;

    put_text(&any, 1, type);
    put_bytes(&any, 2, value->data, value->len);
    put_bytes(out, 3, any.data, any.len);
    hp_buf_release(&any);
}

static void put_info(struct hp_buf *out, const char *reason, const char *domain)
{
    struct hp_buf entry = HP_BUF_INIT, info = HP_BUF_INIT;

    put_text(&info, 1, reason);
    put_text(&info, 2, domain);
    put_text(&entry, 1, "fence");
    put_text(&entry, 2, "9");
    put_bytes(&info, 3, entry.data, entry.len);
    hp_buf_reset(&entry);
    put_text(&entry, 1, "a name that nobody interned");
    put_text(&entry, 2, "x");
    put_bytes(&info, 3, entry.data, entry.len);
    put_detail(out, "type.googleapis.com/google.rpc.ErrorInfo", &info);
    hp_buf_release(&entry);
    hp_buf_release(&info);
}

static void foreign_details_are_passed_over(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT, junk = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    hp_buf_addstr(&junk, "\xFF\xFF\xFF");
    put_number(&bytes, 1, 9);
    put_text(&bytes, 2, "from elsewhere");
    put_detail(&bytes, "type.googleapis.com/google.rpc.DebugInfo", &junk);
    put_detail(&bytes, "", &junk);
    put_detail(&bytes, "type.googleapis.com/google.rpc.ErrorInfo", &junk); /* broken */
    put_info(&bytes, "STALE_TOKEN", "googleapis.com");
    assert_true(hp_status_decode(bytes.data, bytes.len, &status));
    assert_int_equal(status.code, HP_FAILED_PRECONDITION);
    assert_string_equal(status.message, "from elsewhere");
    assert_int_equal(status.reason, HP_R_UNSPECIFIED);
    assert_int_equal(status.n_meta, 0);
    put_info(&bytes, "STALE_TOKEN", "holdfast");
    assert_true(hp_status_decode(bytes.data, bytes.len, &status));
    assert_int_equal(status.reason, HP_R_STALE_TOKEN);
    assert_int_equal(status.n_meta, 1);
    assert_string_equal(hp_status_get_meta(&status, "fence"), "9");
    put_info(&bytes, "A_LATER_REASON", "holdfast");
    assert_true(hp_status_decode(bytes.data, bytes.len, &status));
    assert_int_equal(status.reason, HP_R_UNSPECIFIED);
    hp_buf_release(&bytes);
    hp_buf_release(&junk);
}

static int64_t decoded_delay(int64_t seconds, int64_t nanos)
{
    struct hp_buf bytes = HP_BUF_INIT, delay = HP_BUF_INIT, info = HP_BUF_INIT;
    struct hp_status status;

    put_number(&delay, 1, (uint64_t)seconds);
    put_number(&delay, 2, (uint64_t)nanos);
    put_bytes(&info, 1, delay.data, delay.len);
    put_number(&bytes, 1, 14);
    put_detail(&bytes, "google.rpc.RetryInfo", &info);
    assert_true(hp_status_decode(bytes.data, bytes.len, &status));
    hp_buf_release(&bytes);
    hp_buf_release(&delay);
    hp_buf_release(&info);
    return status.retry_ms;
}

static void delays_are_read_safely(void **state)
{
    (void)state;
    assert_int_equal(decoded_delay(1, 250000000), 1250);
    assert_int_equal(decoded_delay(0, 1), 1); /* never cut to none */
    assert_int_equal(decoded_delay(0, 0), 0);
    assert_int_equal(decoded_delay(-1, 0), 0);
    assert_int_equal(decoded_delay(0, -1), 0);
    assert_int_equal(decoded_delay(INT64_MAX, 0), 0);
    assert_int_equal(decoded_delay(INT64_MIN, 0), 0);
    assert_int_equal(decoded_delay(1, 2000000000), 0);
}

static void what_is_no_status_is_internal(void **state)
{
    struct hp_status status;
    struct hp_buf bytes = HP_BUF_INIT;

    (void)state;
    assert_false(hp_status_decode("\xFF\xFF", 2, &status));
    assert_int_equal(status.code, HP_INTERNAL);
    assert_int_equal(status.reason, HP_R_INTERNAL);
    put_number(&bytes, 1, 77); /* a code that is none */
    assert_true(hp_status_decode(bytes.data, bytes.len, &status));
    assert_int_equal(status.code, HP_UNKNOWN);
    hp_buf_reset(&bytes);
    put_number(&bytes, 1, 5); /* a message longer than a status holds */
    for (int i = 0; i < 10; i++)
        put_text(&bytes, 2, "x");
    put_tag(&bytes, 2, 2);
    put_varint(&bytes, 900);
    for (int i = 0; i < 300; i++)
        hp_buf_addstr(&bytes, "\xE2\x82\xAC");
    assert_true(hp_status_decode(bytes.data, bytes.len, &status));
    assert_int_equal(status.code, HP_NOT_FOUND);
    assert_true(hp_utf8_valid(status.message, strlen(status.message)));
    assert_true(strlen(status.message) > sizeof status.message - 8);
    hp_buf_release(&bytes);
}

static void every_beginning_is_survived(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    hp_status_bad_field(&status, HP_R_LIMIT, "ttl_ms", "1", 1, "100 to 86400000");
    assert_true(hp_status_encode(&status, &bytes));
    for (size_t len = 0; len < bytes.len; len++) {
        uint8_t *copy = malloc(len ? len : 1);

        memcpy(copy, bytes.data, len);
        if (!hp_status_decode(copy, len, &status))
            assert_int_equal(status.code, HP_INTERNAL);
        free(copy);
    }
    hp_buf_release(&bytes);
}

static size_t allocations, fail_at;

static void *failing_malloc(size_t size)
{
    return ++allocations == fail_at ? NULL : malloc(size);
}

static void each_allocation_may_fail(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status, back;
    bool encoded = false;

    (void)state;
    hp_status_bad_field(&status, HP_R_LIMIT, "ttl_ms", "1", 1, "100 to 86400000");
    hp_malloc_hook = failing_malloc;
    for (fail_at = 1; !encoded; fail_at++) {
        allocations = 0;
        encoded = hp_status_encode(&status, &bytes);
        assert_int_equal(encoded, allocations < fail_at);
        if (!encoded)
            hp_buf_release(&bytes);
    }
    assert_true(fail_at > 4);
    allocations = 0;
    fail_at = 1;
    assert_false(hp_status_decode(bytes.data, bytes.len, &back));
    assert_int_equal(back.code, HP_INTERNAL);
    hp_malloc_hook = NULL;
    hp_buf_release(&bytes);
}

static void as_json(void **state)
{
    struct hp_buf out = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    memset(&status, 0, sizeof status);
    hp_status_json(&status, &out);
    assert_string_equal((char *)out.data, "{\"code\":0,\"message\":\"\"}");
    hp_buf_reset(&out);
    hp_status_bad_field(&status, HP_R_LIMIT, "ttl_ms", "\"", 1, "100 to 86400000");
    status.retry_ms = 100;
    hp_status_json(&status, &out);
    assert_string_equal((char *)out.data,
                        "{\"code\":3,\"message\":\"ttl_ms: \\\"\\\\\\\"\\\" is outside its limit; wanted: 100 to 86400000\","
                        "\"details\":["
                        "{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"LIMIT\",\"domain\":\"holdfast\","
                        "\"metadata\":{\"field\":\"ttl_ms\",\"value\":\"\\\\\\\"\",\"limit\":\"100 to 86400000\"}},"
                        "{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"0.100s\"},"
                        "{\"@type\":\"type.googleapis.com/google.rpc.BadRequest\",\"fieldViolations\":[{\"field\":\"ttl_ms\","
                        "\"description\":\"ttl_ms: \\\"\\\\\\\"\\\" is outside its limit; wanted: 100 to 86400000\"}]}]}");
    hp_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_comes_back),         cmocka_unit_test(the_details_are_googles),
        cmocka_unit_test(foreign_details_are_passed_over), cmocka_unit_test(delays_are_read_safely),
        cmocka_unit_test(what_is_no_status_is_internal),   cmocka_unit_test(every_beginning_is_survived),
        cmocka_unit_test(each_allocation_may_fail),        cmocka_unit_test(as_json),
    };

    return cmocka_run_group_tests_name("proto/status", tests, NULL, NULL);
}
