/*
 * bad_input_test.c - what a caller may do wrong, against a real server: each gets INVALID_ARGUMENT naming the field, its
 * value and its limit (or what else its proto says), nothing is done, and the next call works.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "integration/calls.h"
#include "integration/served.h"
#include "proto/c/envelope.h"

static int64_t probe; /* the token of the lease by which it is seen that the server still works */

static int setup(void **state)
{
    serve_rpc(state);
    probe = c_grant(rpc, "probe", 3600000);
    return 0;
}

static int64_t rows(void)
{
    return t_sql_int(conn, "select count(*) from holdfast.resource");
}

/* The next call works, and nothing was made. */
static void assert_works(int64_t rows_before)
{
    assert_int_equal(c_lost(rpc, "probe", probe), 0);
    assert_int_equal(rows(), rows_before);
}

static void assert_bad(const char *method, const void *request, enum hp_reason reason, const char *field, const char *value)
{
    c_status status;
    int64_t before = rows();
    assert_null(c_call(rpc, method, request, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, reason, field);
    if (strcmp(status.field, field))
        fail_msg("%s: the field named is \"%s\", wanted \"%s\" (%s)", method, status.field, field, status.message);
    assert_string_equal(hp_status_get_meta(&status, "field"), field);
    assert_non_null(hp_status_get_meta(&status, "limit"));
    assert_non_null(strstr(status.message, field));
    if (value)
        assert_string_equal(hp_status_get_meta(&status, "value"), value);
    assert_works(before);
}

static Holdfast__V1__AcquireRequest good_acquire(char **names)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.holder = C_STR("h");
    request.n_resources = 1;
    request.resources = names;
    request.ttl_ms = 60000;
    return request;
}

static char *repeat(char c, size_t n)
{
    char *text = t_printf("%*s", (int)n, "");
    return memset(text, c, n);
}

/* ---- names ---- */

static void names_in_every_place(void **state)
{
    (void)state;
    const struct {
        const char *name;
        enum hp_reason reason;
    } bad[] = {
        {"", HP_R_LIMIT},          {repeat('x', 257), HP_R_LIMIT}, {"a\nb", HP_R_MALFORMED},
        {"a\x7f", HP_R_MALFORMED}, {"\xc2\x80", HP_R_MALFORMED}, /* U+0080 */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *name = C_STR(bad[i].name), *names[] = {C_STR("n"), C_STR("n2")};
        Holdfast__V1__AcquireRequest request = good_acquire(names);
        request.namespace_ = name;
        assert_bad(C_LEASE "Acquire", &request, bad[i].reason, "namespace", NULL);
        request = good_acquire(names);
        request.holder = name;
        assert_bad(C_LEASE "Acquire", &request, bad[i].reason, "holder", NULL);
        if (name[0]) { /* these may be left out */
            request = good_acquire(names);
            request.task = name;
            assert_bad(C_LEASE "Acquire", &request, bad[i].reason, "task", NULL);
            request = good_acquire(names);
            request.request_id = name;
            assert_bad(C_LEASE "Acquire", &request, bad[i].reason, "request_id", NULL);
        }
        names[1] = name;
        request = good_acquire(names);
        request.n_resources = 2;
        assert_bad(C_LEASE "Acquire", &request, bad[i].reason, "resources[1]", NULL);
        Holdfast__V1__GetLeaseRequest get = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
        get.namespace_ = C_STR("default");
        get.resource = name;
        assert_bad(C_LEASE "Get", &get, bad[i].reason, "resource", NULL);
    }
}

/* What protobuf-c would not even pack, or would cut: the bytes are made by hand. */
static void assert_bad_bytes(const char *payload, size_t len, const char *what)
{
    c_status status;
    int64_t before = rows();
    assert_null(t_rpc_call_bytes(rpc, C_LEASE "Get", payload, len, 0, &holdfast__v1__get_lease_response__descriptor, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_MALFORMED, what);
    assert_works(before);
}

static void strings_that_are_no_utf8_or_hold_a_nul(void **state)
{
    (void)state;
#define BYTES(text)                                                                                                                \
    "\x0a\x07"                                                                                                                     \
    "default"                                                                                                                      \
    "\x12" text,                                                                                                                   \
        sizeof("\x0a\x07"                                                                                                          \
               "default"                                                                                                           \
               "\x12" text) -                                                                                                      \
            1
    assert_bad_bytes(BYTES("\x05"
                           "probe"
                           "\x00"),
                     "a field of number 0");
    assert_bad_bytes(BYTES("\x07"
                           "probe\x00x"),
                     "NUL");
    assert_bad_bytes(BYTES("\x02"
                           "\xc3\x28"),
                     "broken UTF-8");
    assert_bad_bytes(BYTES("\x02"
                           "\xc0\x80"),
                     "overlong NUL");
    assert_bad_bytes(BYTES("\x03"
                           "\xed\xa0\x80"),
                     "a surrogate");
    assert_bad_bytes(BYTES("\x01"
                           "\xff"),
                     "no UTF-8 at all");
    assert_bad_bytes(BYTES("\x30"
                           "short"),
                     "cut off");
    assert_bad_bytes("\xff", 1, "rubbish");
}

/* ---- numbers ---- */

static void times_to_live(void **state)
{
    (void)state;
    static const int64_t bad[] = {0, -1, 1, 99, 86400001, INT64_MAX, INT64_MIN};
    static const int64_t good[] = {100, 86400000};
    char *names[] = {C_STR("t")};
    Holdfast__V1__AcquireRequest request = good_acquire(names);
    Holdfast__V1__RenewRequest renew = HOLDFAST__V1__RENEW_REQUEST__INIT;
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items = &item;
    item.resource = C_STR("probe");
    item.token = probe;
    renew.namespace_ = C_STR("default");
    renew.n_items = 1;
    renew.items = &items;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        request.ttl_ms = renew.ttl_ms = bad[i];
        assert_bad(C_LEASE "Acquire", &request, HP_R_LIMIT, "ttl_ms", t_printf("%lld", (long long)bad[i]));
        assert_bad(C_LEASE "Renew", &renew, HP_R_LIMIT, "ttl_ms", t_printf("%lld", (long long)bad[i]));
    }
    for (size_t i = 0; i < 2; i++) {
        names[0] = t_printf("t%zu", i);
        c_grant(rpc, names[0], good[i]);
    }
}

static void waits(void **state)
{
    (void)state;
    char *names[] = {C_STR("w"), C_STR("w2")};
    Holdfast__V1__AcquireRequest request = good_acquire(names);
    request.wait_ms = -1;
    assert_bad(C_LEASE "Acquire", &request, HP_R_LIMIT, "wait_ms", "-1");
    request.wait_ms = 3600001;
    assert_bad(C_LEASE "Acquire", &request, HP_R_LIMIT, "wait_ms", "3600001");
    request.wait_ms = 1;
    request.n_resources = 2;
    assert_bad(C_LEASE "Acquire", &request, HP_R_MALFORMED, "wait_ms", "1");
}

static void tokens_versions_and_sequence_numbers(void **state)
{
    (void)state;
    Holdfast__V1__WriteRequest write = HOLDFAST__V1__WRITE_REQUEST__INIT;
    write.namespace_ = C_STR("default");
    write.resource = C_STR("probe");
    assert_bad(C_RESOURCE "Write", &write, HP_R_LIMIT, "token", "0");
    write.token = -1;
    assert_bad(C_RESOURCE "Write", &write, HP_R_LIMIT, "token", "-1");
    write.token = probe;
    write.write_seq = -1;
    assert_bad(C_RESOURCE "Write", &write, HP_R_LIMIT, "write_seq", "-1");
    write.write_seq = 0;
    write.expected_case = HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION;
    write.expected_version = -1;
    assert_bad(C_RESOURCE "Write", &write, HP_R_LIMIT, "expected_version", "-1");
    Holdfast__V1__DeleteRequest delete = HOLDFAST__V1__DELETE_REQUEST__INIT;
    delete.namespace_ = C_STR("default");
    delete.resource = C_STR("probe");
    assert_bad(C_RESOURCE "Delete", &delete, HP_R_LIMIT, "token", "0");
    Holdfast__V1__BreakRequest brk = HOLDFAST__V1__BREAK_REQUEST__INIT;
    brk.namespace_ = C_STR("default");
    brk.resource = C_STR("probe");
    brk.actor = C_STR("me");
    brk.reason = C_STR("why");
    assert_bad(C_LEASE "Break", &brk, HP_R_LIMIT, "token_seen", "0");
    brk.token_seen = 1;
    brk.actor = C_STR("");
    assert_bad(C_LEASE "Break", &brk, HP_R_LIMIT, "actor", NULL);
    brk.actor = C_STR("me");
    brk.reason = C_STR("");
    assert_bad(C_LEASE "Break", &brk, HP_R_LIMIT, "reason", NULL);
    brk.reason = repeat('r', 1025);
    assert_bad(C_LEASE "Break", &brk, HP_R_LIMIT, "reason", NULL);
    Holdfast__V1__AdvanceFencesRequest advance = HOLDFAST__V1__ADVANCE_FENCES_REQUEST__INIT;
    advance.namespace_ = C_STR("default");
    advance.actor = advance.reason = C_STR("me");
    advance.at_least = -1;
    assert_bad(C_ADMIN "AdvanceFences", &advance, HP_R_LIMIT, "at_least", "-1");
    advance.at_least = INT64_MAX;
    assert_bad(C_ADMIN "AdvanceFences", &advance, HP_R_LIMIT, "at_least", NULL);
}

static void tokens_that_never_were(void **state)
{
    (void)state;
    c_status status;
    static const int64_t never[] = {1, 1000000, INT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(c_lost(rpc, "nobody", never[i]), HOLDFAST__V1__LOST__REASON__UNKNOWN_TOKEN);
        assert_false(c_release_one(rpc, "nobody", never[i]));
        assert_int_equal(c_check_one(rpc, "nobody", never[i])->outcome_case, HOLDFAST__V1__CHECK_RESULT__OUTCOME_NOT_HELD);
        assert_null(c_write(rpc, "nobody", never[i], 1, "x", -1, &status));
        c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "Write");
    }
    assert_int_equal(c_lost(rpc, "probe", INT64_MAX), HOLDFAST__V1__LOST__REASON__UNKNOWN_TOKEN);
    assert_int_equal(c_lost(rpc, "probe", probe), 0);
}

/* ---- counts and sizes ---- */

static void too_many_or_the_same_twice(void **state)
{
    (void)state;
    char *names[17];
    for (int i = 0; i < 17; i++)
        names[i] = t_printf("m%d", i);
    Holdfast__V1__AcquireRequest request = good_acquire(names);
    request.n_resources = 17;
    assert_bad(C_LEASE "Acquire", &request, HP_R_LIMIT, "resources", "17");
    request.n_resources = 0;
    assert_bad(C_LEASE "Acquire", &request, HP_R_LIMIT, "resources", "0");
    request.n_resources = 16;
    names[15] = names[3];
    assert_bad(C_LEASE "Acquire", &request, HP_R_MALFORMED, "resources[15]", "m3");
}

static void assert_bad_items(const char *const *resources, const int64_t *tokens, size_t n, enum hp_reason reason,
                             const char *field)
{
    c_status status[3];
    int64_t before = rows();
    assert_null(c_renew(rpc, resources, tokens, n, 1000, &status[0]));
    assert_null(c_release(rpc, resources, tokens, n, &status[1]));
    assert_null(c_check(rpc, resources, tokens, n, &status[2]));
    for (int i = 0; i < 3; i++) {
        c_assert_status(&status[i], HP_INVALID_ARGUMENT, reason, field);
        assert_string_equal(status[i].field, field);
    }
    assert_works(before); /* nothing was done: also the probe, which is among the items, wasn't released */
}

static void items(void **state)
{
    (void)state;
    static const char *resources[1001];
    static int64_t tokens[1001];
    for (int i = 0; i < 1001; i++) {
        resources[i] = i ? t_printf("i%d", i) : "probe";
        tokens[i] = i ? 1 : probe;
    }
    assert_bad_items(resources, tokens, 1001, HP_R_LIMIT, "items");
    assert_bad_items(resources, tokens, 0, HP_R_LIMIT, "items");
    resources[999] = "probe";
    assert_bad_items(resources, tokens, 1000, HP_R_MALFORMED, "items[999].resource");
    resources[999] = "bad\1";
    assert_bad_items(resources, tokens, 1000, HP_R_MALFORMED, "items[999].resource");
    resources[57] = "";
    assert_bad_items(resources, tokens, 1000, HP_R_LIMIT, "items[57].resource");
    tokens[5] = 0;
    assert_bad_items(resources, tokens, 1000, HP_R_LIMIT, "items[5].token");
}

static void labels(void **state)
{
    (void)state;
    char *names[] = {C_STR("label")};
    Holdfast__V1__AcquireRequest request = good_acquire(names);
    Holdfast__V1__AcquireRequest__LabelsEntry entry = HOLDFAST__V1__ACQUIRE_REQUEST__LABELS_ENTRY__INIT, *entries = &entry;
    request.n_labels = 1;
    request.labels = &entries;
    entry.key = C_STR("k");
    entry.value = repeat('v', 4096);
    assert_bad(C_LEASE "Acquire", &request, HP_R_LIMIT, "labels", "4097 bytes");
    entry.key = C_STR("");
    entry.value = C_STR("v");
    assert_bad(C_LEASE "Acquire", &request, HP_R_LIMIT, "labels", NULL);
    entry.key = C_STR("k");
    entry.value = repeat('v', 4095);
    assert_int_equal(c_acquire_with(rpc, &request, NULL)->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED);
    assert_string_equal(c_get(rpc, "label", NULL)->labels[0]->value, entry.value);
}

static void pages(void **state)
{
    (void)state;
    static const char *const tokens[] = {"x",  "====", "AUxh*", "AVJh" /* of the other list */, "AUwA" /* NUL */,
                                         "AUw" /* no name */};
    Holdfast__V1__ListLeasesRequest list = HOLDFAST__V1__LIST_LEASES_REQUEST__INIT;
    list.namespace_ = C_STR("default");
    list.page_size = -1;
    assert_bad(C_LEASE "List", &list, HP_R_LIMIT, "page_size", "-1");
    list.page_size = 1001;
    assert_bad(C_LEASE "List", &list, HP_R_LIMIT, "page_size", "1001");
    list.page_size = 1;
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        list.page_token = C_STR(tokens[i]);
        assert_bad(C_LEASE "List", &list, HP_R_MALFORMED, "page_token", NULL);
    }
    list.page_token = C_STR("");
    list.prefix = C_STR("a\1");
    assert_bad(C_LEASE "List", &list, HP_R_MALFORMED, "prefix", NULL);
}

static void a_value_too_large(void **state)
{
    (void)state;
    Holdfast__V1__WriteRequest write = HOLDFAST__V1__WRITE_REQUEST__INIT;
    write.namespace_ = C_STR("default");
    write.resource = C_STR("probe");
    write.token = probe;
    write.value.len = (1 << 20) + 1;
    write.value.data = calloc(1, write.value.len);
    assert_bad(C_RESOURCE "Write", &write, HP_R_LIMIT, "value", "1048577");
    free(write.value.data);
    assert_string_equal(c_value(rpc, "probe"), "(none)");
}

/* ---- requests and envelopes ---- */

static void requests_of_5_and_of_20_mebibytes(void **state)
{
    (void)state;
    c_status status;
    int64_t before = rows();
    size_t len = 5 << 20;
    char *bytes = calloc(1, len);
    assert_null(t_rpc_call_bytes(rpc, C_RESOURCE "Write", bytes, len, 0, &holdfast__v1__write_response__descriptor, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "5 MiB");
    assert_string_equal(status.field, "payload");
    assert_works(before);
    for (int i = 0; i < 5; i++) {
        int fd = t_raw_open(server->url);
        t_raw_send(fd, 20 << 20, bytes, len);
        assert_true(t_raw_closed(fd, 10000)); /* its connection is dropped, nobody else's */
        close(fd);
    }
    assert_works(before);
    free(bytes);
}

static void half_an_envelope(void **state)
{
    (void)state;
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls = &call;
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    size_t len, reply_len;
    int64_t before = rows();
    call.method = C_STR(C_LEASE "Get");
    call.payload.data = (uint8_t *)C_STR("something");
    call.payload.len = 9;
    envelope.n_calls = 1;
    envelope.calls = &calls;
    const uint8_t *bytes = t_rpc_pack(rpc, &envelope, &len);
    for (size_t cut = 0; cut < len; cut++) {
        c_status status;
        const uint8_t *reply = t_rpc_bytes(rpc, bytes, cut, 10000, &reply_len);
        assert_non_null(reply);
        Holdfast__V1__ReplyEnvelope *replies = t_rpc_replies(rpc, reply, reply_len);
        assert_int_equal(replies->n_replies, 1);
        hp_reply_status(replies->replies[0], &status);
        assert_int_equal(status.code, HP_INVALID_ARGUMENT);
    }
    assert_works(before);
}

static void methods_that_do_not_exist(void **state)
{
    (void)state;
    static const char *const methods[] = {"",
                                          "/",
                                          "Acquire",
                                          "/holdfast.v1.LeaseService/acquire",
                                          "/holdfast.v2.LeaseService/Acquire",
                                          C_LEASE "Acquire/",
                                          "/holdfast.v1.OperationService/Start"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        c_status status;
        assert_null(c_call(rpc, methods[i], &(Holdfast__V1__StatsRequest)HOLDFAST__V1__STATS_REQUEST__INIT, &status));
        c_assert_status(&status, HP_UNIMPLEMENTED, HP_R_NO_SUCH_METHOD, methods[i]);
        assert_string_equal(hp_status_get_meta(&status, "method"), methods[i]);
    }
    assert_works(rows());
}

static void a_negative_timeout(void **state)
{
    (void)state;
    c_status status;
    assert_null(t_rpc_call_bytes(rpc, C_LEASE "Get", "", 0, -5, &holdfast__v1__get_lease_response__descriptor, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "timeout");
    assert_string_equal(status.field, "timeout_ms");
    assert_works(rows());
}

/* A bad call doesn't harm its neighbours in the envelope. */
static void good_and_bad_calls_together(void **state)
{
    (void)state;
    Holdfast__V1__GetLeaseRequest get = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    Holdfast__V1__Call calls[100], *pointers[100];
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    size_t len;
    get.namespace_ = C_STR("default");
    get.resource = C_STR("probe");
    const uint8_t *payload = t_rpc_pack(rpc, &get, &len);
    for (size_t i = 0; i < 100; i++) {
        holdfast__v1__call__init(&calls[i]);
        calls[i].method = C_STR(i % 3 == 1 ? "/none" : C_LEASE "Get");
        calls[i].payload.data = (uint8_t *)(uintptr_t)payload;
        calls[i].payload.len = i % 3 == 2 ? len / 2 : len;
        pointers[i] = &calls[i];
    }
    envelope.n_calls = 100;
    envelope.calls = pointers;
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_envelope(rpc, &envelope);
    assert_int_equal(replies->n_replies, 100);
    for (size_t i = 0; i < 100; i++) {
        static const int codes[] = {HP_OK, HP_UNIMPLEMENTED, HP_INVALID_ARGUMENT};
        assert_int_equal(replies->replies[i]->code, codes[i % 3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_every_place),
        cmocka_unit_test(strings_that_are_no_utf8_or_hold_a_nul),
        cmocka_unit_test(times_to_live),
        cmocka_unit_test(waits),
        cmocka_unit_test(tokens_versions_and_sequence_numbers),
        cmocka_unit_test(tokens_that_never_were),
        cmocka_unit_test(too_many_or_the_same_twice),
        cmocka_unit_test(items),
        cmocka_unit_test(labels),
        cmocka_unit_test(pages),
        cmocka_unit_test(a_value_too_large),
        cmocka_unit_test(requests_of_5_and_of_20_mebibytes),
        cmocka_unit_test(half_an_envelope),
        cmocka_unit_test(methods_that_do_not_exist),
        cmocka_unit_test(a_negative_timeout),
        cmocka_unit_test(good_and_bad_calls_together),
    };
    return cmocka_run_group_tests(tests, setup, end_serving_rpc);
}
