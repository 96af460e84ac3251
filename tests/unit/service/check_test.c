/*
 * check_test.c - the limits, one by one: each bad input gives its code, reason and field, and what lies on the limit passes.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "service/check.h"

static struct hp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hp_arena_new(1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hp_arena_free(arena);
    return 0;
}

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void assert_bad(bool ok, const struct hp_status *status, enum hp_reason reason, const char *field)
{
    assert_false(ok);
    assert_int_equal(status->code, HP_INVALID_ARGUMENT);
    assert_string_equal(hp_reason_name(status->reason), hp_reason_name(reason));
    assert_string_equal(status->field, field);
    assert_string_equal(hp_status_get_meta(status, "field"), field);
    assert_non_null(hp_status_get_meta(status, "limit"));
}

static void numbers(void **state)
{
    struct hp_status s;
    (void)state;
    assert_true(svc_check_range("x", 1, 1, 3, &s));
    assert_true(svc_check_range("x", 3, 1, 3, &s));
    assert_bad(svc_check_range("x", 0, 1, 3, &s), &s, HP_R_LIMIT, "x");
    assert_string_equal(hp_status_get_meta(&s, "value"), "0");
    assert_string_equal(hp_status_get_meta(&s, "limit"), "1 to 3");
    assert_bad(svc_check_range("x", 4, 1, 3, &s), &s, HP_R_LIMIT, "x");
    assert_bad(svc_check_range("x", INT64_MIN, 0, INT64_MAX, &s), &s, HP_R_LIMIT, "x");
    assert_string_equal(hp_status_get_meta(&s, "limit"), "at least 0");
    assert_true(svc_check_ttl(100, &s) && svc_check_ttl(86400000, &s));
    static const int64_t bad[] = {0, -1, 1, 99, 86400001, INT64_MAX};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_bad(svc_check_ttl(bad[i], &s), &s, HP_R_LIMIT, "ttl_ms");
    assert_true(svc_check_token("t", 1, &s) && svc_check_token("t", INT64_MAX, &s));
    assert_bad(svc_check_token("t", 0, &s), &s, HP_R_LIMIT, "t");
    int64_t max = 0;
    assert_true(svc_check_page_size(0, &max, &s));
    assert_int_equal(max, 100);
    assert_true(svc_check_page_size(1000, &max, &s));
    assert_int_equal(max, 1000);
    assert_bad(svc_check_page_size(1001, &max, &s), &s, HP_R_LIMIT, "page_size");
    assert_bad(svc_check_page_size(-1, &max, &s), &s, HP_R_LIMIT, "page_size");
}

static void texts(void **state)
{
    struct hp_status s;
    char long_text[1026];
    (void)state;
    memset(long_text, 'r', sizeof(long_text));
    long_text[1025] = '\0';
    assert_bad(svc_check_reason(long_text, &s), &s, HP_R_LIMIT, "reason");
    long_text[1024] = '\0';
    assert_true(svc_check_reason(long_text, &s));
    assert_true(svc_check_reason("it hangs\nsince noon", &s));
    assert_bad(svc_check_reason("", &s), &s, HP_R_LIMIT, "reason");
    assert_true(svc_check_optional("task", "", &s) && svc_check_optional("task", "t", &s));
    assert_bad(svc_check_optional("task", "a\tb", &s), &s, HP_R_MALFORMED, "task");
    long_text[257] = '\0';
    assert_bad(svc_check_optional("task", long_text, &s), &s, HP_R_LIMIT, "task");
    long_text[256] = '\0';
    assert_true(svc_check_optional("task", long_text, &s));
}

static void resources(void **state)
{
    struct hp_status s;
    char *names[17];
    (void)state;
    for (size_t i = 0; i < 17; i++)
        names[i] = t_printf("r%zu", i);
    assert_true(svc_check_resources(names, 1, &s) && svc_check_resources(names, 16, &s));
    assert_bad(svc_check_resources(names, 0, &s), &s, HP_R_LIMIT, "resources");
    assert_bad(svc_check_resources(names, 17, &s), &s, HP_R_LIMIT, "resources");
    assert_string_equal(hp_status_get_meta(&s, "value"), "17");
    names[9] = str("r4");
    assert_bad(svc_check_resources(names, 16, &s), &s, HP_R_MALFORMED, "resources[9]");
    assert_string_equal(hp_status_get_meta(&s, "value"), "r4");
    names[2] = str("");
    assert_bad(svc_check_resources(names, 16, &s), &s, HP_R_LIMIT, "resources[2]");
}

static void items(void **state)
{
    enum { N = 1001 };
    static struct svc_token items_[N];
    struct hp_status s;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        items_[i].name = t_printf("r%zu", i);
        items_[i].token = 1;
    }
    assert_true(svc_check_items(arena, "resource", items_, 1, &s) && svc_check_items(arena, "resource", items_, 1000, &s));
    assert_bad(svc_check_items(arena, "resource", items_, 0, &s), &s, HP_R_LIMIT, "items");
    assert_bad(svc_check_items(arena, "resource", items_, 1001, &s), &s, HP_R_LIMIT, "items");
    items_[999].name = "r0";
    assert_bad(svc_check_items(arena, "resource", items_, 1000, &s), &s, HP_R_MALFORMED, "items[999].resource");
    items_[57].token = -3;
    assert_bad(svc_check_items(arena, "resource", items_, 1000, &s), &s, HP_R_LIMIT, "items[57].token");
    items_[56].name = "\x01";
    assert_bad(svc_check_items(arena, "key", items_, 1000, &s), &s, HP_R_MALFORMED, "items[56].key");
}

static const char *labels_of(const char *const *pairs, size_t n, struct hp_status *s)
{
    static Holdfast__V1__AcquireRequest__LabelsEntry entries[8], *pointers[8];
    const char *json = "unset";
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__acquire_request__labels_entry__init(&entries[i]);
        entries[i].key = str(pairs[2 * i]);
        entries[i].value = str(pairs[2 * i + 1]);
        pointers[i] = &entries[i];
    }
    return svc_check_labels(arena, pointers, n, &json, s) ? (json ? json : "none") : NULL;
}

static void labels(void **state)
{
    struct hp_status s;
    char big[4097];
    (void)state;
    assert_string_equal(labels_of(NULL, 0, &s), "none");
    assert_string_equal(labels_of((const char *[]){"a", "1"}, 1, &s), "{\"a\":\"1\"}");
    assert_string_equal(labels_of((const char *[]){"q\"", "x\n\\\xc3\xa9"}, 1, &s), "{\"q\\\"\":\"x\\n\\\\\xc3\xa9\"}");
    /* of labels that come twice the last one counts, as in any protobuf map */
    assert_string_equal(labels_of((const char *[]){"a", "1", "b", "2", "a", "3"}, 3, &s), "{\"a\":\"3\",\"b\":\"2\"}");
    memset(big, 'v', sizeof(big));
    big[4096] = '\0';
    assert_null(labels_of((const char *[]){"k", big}, 1, &s));
    assert_bad(false, &s, HP_R_LIMIT, "labels");
    assert_string_equal(hp_status_get_meta(&s, "value"), "4097 bytes");
    big[4095] = '\0';
    assert_non_null(labels_of((const char *[]){"k", big}, 1, &s));
    assert_null(labels_of((const char *[]){"", "v"}, 1, &s));
    assert_bad(false, &s, HP_R_LIMIT, "labels");
    assert_null(labels_of((const char *[]){"a\x01", "v"}, 1, &s));
    assert_bad(false, &s, HP_R_MALFORMED, "labels");
}

static void page_tokens_go_round(void **state)
{
    struct hp_status s;
    char name[257];
    const char *after;
    (void)state;
    for (size_t len = 1; len <= 256; len++) {
        memset(name, 'a' + (int)(len % 26), len);
        name[len] = '\0';
        char *token = svc_page_token(arena, SVC_PAGE_LEASES, name);
        assert_null(strpbrk(token, "+/= "));
        assert_true(svc_page_after(arena, SVC_PAGE_LEASES, token, &after, &s));
        assert_string_equal(after, name);
        assert_bad(svc_page_after(arena, SVC_PAGE_RESOURCES, token, &after, &s), &s, HP_R_MALFORMED, "page_token");
        /* One character more, less or other is another name, or nothing: never outside of memory. */
        for (size_t i = 0; i < strlen(token); i++) {
            char *changed = hp_strndup(arena, token, strlen(token));
            changed[i] ^= 1;
            if (svc_page_after(arena, SVC_PAGE_LEASES, changed, &after, &s))
                assert_string_not_equal(after, name);
            if (len > 8)
                break;
        }
    }
    assert_true(svc_page_after(arena, SVC_PAGE_LEASES, "", &after, &s));
    assert_string_equal(after, "");
}

static void page_tokens_of_others_are_refused(void **state)
{
    static const char *const bad[] = {"x",    "A",     "AA", "AUw", "AUwA", "AkxhYg", "AUxh=", "AUxh YWI", "AUxhYWJ\xc3\xa9",
                                      "AUz_", "AUwKCg"};
    struct hp_status s;
    const char *after;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_bad(svc_page_after(arena, SVC_PAGE_LEASES, bad[i], &after, &s), &s, HP_R_MALFORMED, "page_token");
    assert_bad(svc_page_after(arena, SVC_PAGE_LEASES, t_printf("%01000d", 0), &after, &s), &s, HP_R_MALFORMED, "page_token");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(numbers), T(texts), T(resources), T(items), T(labels), T(page_tokens_go_round), T(page_tokens_of_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
