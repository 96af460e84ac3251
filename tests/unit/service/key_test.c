/*
 * key_test.c - keys as texts: made, told, read again; and what is none.
 */
#include "unit/service/fake.h"

#include <string.h>

#include "base/random.h"
#include "service/check.h"
#include "service/key.h"

static bool os_random(void *arg, void *buffer, size_t size)
{
    (void)arg;
    return hb_random_bytes(buffer, size);
}

static bool no_random(void *arg, void *buffer, size_t size)
{
    (void)arg;
    (void)buffer;
    (void)size;
    return false;
}

static bool ones(void *arg, void *buffer, size_t size)
{
    (void)arg;
    memset(buffer, 0xff, size); /* which fall on no digit fairly */
    return true;
}

static void a_key_is_made_and_read_again(void **state)
{
    char text[SVC_KEY_SIZE], header[80];
    struct svc_key made, read;
    (void)state;
    assert_true(svc_key_make(os_random, NULL, text, &made));
    assert_int_equal(strlen(text), SVC_KEY_LEN);
    assert_memory_equal(text, "hfk_", 4);
    assert_true(svc_key_id_valid(made.id));
    snprintf(header, sizeof(header), "Bearer %s", text);
    assert_true(svc_key_parse(header, &read));
    assert_string_equal(read.id, made.id);
    assert_true(svc_key_same(read.hash, made.hash));
    snprintf(header, sizeof(header), "bEARER   %s", text);
    assert_true(svc_key_parse(header, &read));
    /* Neither the text of the secret nor anything of it is in what is kept. */
    assert_null(memmem(&made, sizeof(made), text + 4 + SVC_KEY_ID + 1, 6));
}

/* 11 and 33 of 62 digits, all of which come about as often: 65 and 196 bits. */
static void keys_have_the_randomness_they_say(void **state)
{
    char text[SVC_KEY_SIZE], before[SVC_KEY_SIZE] = "";
    struct svc_key key;
    int counts[128] = {0}, used = 0;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_true(svc_key_make(os_random, NULL, text, &key));
        assert_string_not_equal(text, before);
        memcpy(before, text, sizeof(before));
        for (const char *c = text + 4; *c; c++)
            counts[(unsigned char)*c]++;
    }
    for (int c = 0; c < 128; c++) {
        if (c == '_' || !counts[c])
            continue;
        used++;
        assert_in_range(counts[c], 500, 1000); /* 44,000 / 62 = 710, ± 10 standard deviations */
    }
    assert_int_equal(used, 62);
}

static void without_randomness_there_is_no_key(void **state)
{
    char text[SVC_KEY_SIZE] = "x";
    struct svc_key key;
    (void)state;
    assert_false(svc_key_make(no_random, NULL, text, &key));
    assert_string_equal(text, "");
    assert_false(svc_key_make(ones, NULL, text, &key));
    assert_string_equal(text, "");
}

static void what_is_no_key_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "Bearer",
        "Bearer ",
        "Bearer hfk_",
        "hfk_0123456789a_0123456789012345678901234567890ab",
        "Basic hfk_0123456789a_0123456789012345678901234567890ab",
        "Bearer hfk_0123456789a_0123456789012345678901234567890a",    /* too short */
        "Bearer hfk_0123456789a_0123456789012345678901234567890abcd", /* too long */
        "Bearer hfk_0123456789a_012345678901234567890123456789abc ",
        "Bearer hfk_0123456789a-012345678901234567890123456789abc",
        "Bearer hfk-0123456789a_012345678901234567890123456789abc",
        "Bearer hfk_012345678_a_012345678901234567890123456789abc",
        "Bearer hfk_0123456789a_012345678901234567890123456789ab\xc3",
        "Bearer\thfk_0123456789a_012345678901234567890123456789abc",
    };
    struct svc_key key;
    (void)state;
    assert_true(svc_key_parse("Bearer hfk_0123456789a_012345678901234567890123456789abc", &key));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (svc_key_parse(wrong[i], &key))
            fail_msg("\"%s\" was taken for a key", wrong[i]);
    assert_false(svc_key_id_valid(""));
    assert_false(svc_key_id_valid("0123456789"));
    assert_false(svc_key_id_valid("0123456789_"));
    assert_false(svc_key_id_valid("0123456789ab"));
}

/* Each single difference is seen. (That it takes as long wherever it is, is how svc_key_same is written: it has no branch.) */
static void any_difference_counts(void **state)
{
    unsigned char a[HP_SHA256_SIZE] = {0}, b[HP_SHA256_SIZE] = {0};
    (void)state;
    assert_true(svc_key_same(a, b));
    for (size_t bit = 0; bit < sizeof(a) * 8; bit++) {
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(svc_key_same(a, b));
        b[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void names_of_keys_have_limits(void **state)
{
    struct hp_status status;
    char name[70];
    (void)state;
    memset(name, 'x', sizeof(name));
    name[64] = '\0';
    assert_true(svc_check_key_name("name", name, &status));
    name[64] = 'x';
    name[65] = '\0';
    assert_false(svc_check_key_name("name", name, &status));
    assert_false(svc_check_key_name("name", "", &status));
    assert_false(svc_check_key_name("name", "billing (root)", &status));
    assert_string_equal(status.field, "name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_made_and_read_again),
        cmocka_unit_test(keys_have_the_randomness_they_say),
        cmocka_unit_test(without_randomness_there_is_no_key),
        cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test(any_difference_counts),
        cmocka_unit_test(names_of_keys_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
