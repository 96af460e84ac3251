/* gRPC in bytes: messages however they are cut, timeouts, percent encoding, base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/arena.h"
#include "proto/c/grpc.h"

/* ---- messages ---- */

static void add_message(struct hp_buf *out, bool compressed, const char *text)
{
    uint8_t prefix[HP_GRPC_PREFIX];

    hp_grpc_prefix(prefix, compressed, strlen(text));
    hp_buf_add(out, prefix, sizeof prefix);
    hp_buf_addstr(out, text);
}

static void a_prefix_has_flag_and_length(void **state)
{
    uint8_t prefix[HP_GRPC_PREFIX];

    (void)state;
    hp_grpc_prefix(prefix, false, 0);
    assert_memory_equal(prefix, "\0\0\0\0\0", 5);
    hp_grpc_prefix(prefix, true, 0x01020304);
    assert_memory_equal(prefix, "\1\1\2\3\4", 5);
}

/* The same messages come out, in whatever pieces they come. */
static void messages_are_put_together(void **state)
{
    static const char *const texts[] = {"", "one", "a longer one", "", "end"};
    struct hp_buf body = HP_BUF_INIT;

    (void)state;
    for (size_t i = 0; i < 5; i++)
        add_message(&body, i == 2, texts[i]);
    for (size_t piece = 1; piece <= body.len; piece++) {
        struct hp_grpc_reader reader;
        size_t found = 0;

        hp_grpc_reader_init(&reader, 100);
        assert_false(hp_grpc_reader_amid(&reader));
        for (size_t at = 0; at < body.len; at += piece) {
            /* In memory of its own size, so that AddressSanitizer sees a step too far. */
            size_t len = body.len - at < piece ? body.len - at : piece;
            uint8_t *copy = malloc(len);
            const uint8_t *data = copy;

            memcpy(copy, body.data + at, len);
            while (hp_grpc_read(&reader, &data, &len) == HP_GRPC_MESSAGE) {
                assert_true(found < 5);
                assert_int_equal(reader.message.len, strlen(texts[found]));
                if (reader.message.len)
                    assert_string_equal((char *)reader.message.data, texts[found]);
                assert_int_equal(reader.compressed, found == 2);
                assert_false(hp_grpc_reader_amid(&reader));
                found++;
            }
            assert_int_equal(len, 0);
            free(copy);
        }
        assert_int_equal(found, 5);
        assert_false(hp_grpc_reader_amid(&reader));
        hp_grpc_reader_release(&reader);
    }
    hp_buf_release(&body);
}

static void half_a_message_is_seen(void **state)
{
    struct hp_buf body = HP_BUF_INIT;

    (void)state;
    add_message(&body, false, "text");
    for (size_t cut = 1; cut < body.len; cut++) {
        struct hp_grpc_reader reader;
        const uint8_t *data = body.data;
        size_t len = cut;

        hp_grpc_reader_init(&reader, 100);
        assert_int_equal(hp_grpc_read(&reader, &data, &len), HP_GRPC_MORE);
        assert_true(hp_grpc_reader_amid(&reader));
        hp_grpc_reader_release(&reader);
    }
    hp_buf_release(&body);
}

static enum hp_grpc_read read_all(struct hp_grpc_reader *reader, const void *bytes, size_t len)
{
    const uint8_t *data = bytes;

    return hp_grpc_read(reader, &data, &len);
}

static void what_is_no_message_is_refused(void **state)
{
    struct hp_grpc_reader reader;

    (void)state;
    hp_grpc_reader_init(&reader, 4);
    assert_int_equal(read_all(&reader, "\0\0\0\0\4abcd", 9), HP_GRPC_MESSAGE);
    assert_int_equal(read_all(&reader, "\0\0\0\0\5", 5), HP_GRPC_TOO_LARGE);
    assert_int_equal(reader.announced, 5);
    hp_grpc_reader_release(&reader);

    hp_grpc_reader_init(&reader, 4);
    assert_int_equal(read_all(&reader, "\0\xFF\xFF\xFF\xFF", 5), HP_GRPC_TOO_LARGE);
    assert_int_equal(reader.announced, 0xFFFFFFFF);
    hp_grpc_reader_release(&reader);

    for (int flag = 2; flag < 256; flag++) {
        uint8_t byte = (uint8_t)flag;

        hp_grpc_reader_init(&reader, 4);
        assert_int_equal(read_all(&reader, &byte, 1), HP_GRPC_BAD_FLAG);
        hp_grpc_reader_release(&reader);
    }
}

static size_t most_asked;

static void *watched_malloc(size_t size)
{
    most_asked = size > most_asked ? size : most_asked;
    return malloc(size);
}

static void *no_malloc(size_t size)
{
    (void)size;
    return NULL;
}

static void the_announced_length_is_not_believed(void **state)
{
    struct hp_grpc_reader reader;

    (void)state;
    most_asked = 0;
    hp_malloc_hook = watched_malloc;
    hp_grpc_reader_init(&reader, 4 << 20);
    assert_int_equal(read_all(&reader, "\0\0\x40\0\0abc", 8), HP_GRPC_MORE);
    hp_grpc_reader_release(&reader);
    assert_true(most_asked > 0 && most_asked < 1024);

    hp_malloc_hook = no_malloc;
    hp_grpc_reader_init(&reader, 100);
    assert_int_equal(read_all(&reader, "\0\0\0\0\3abc", 8), HP_GRPC_NO_MEMORY);
    hp_grpc_reader_release(&reader);
    hp_malloc_hook = NULL;
}

/* ---- timeouts ---- */

static void timeouts_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"0n", 0},
        {"1n", 1},
        {"1000000n", 1},
        {"1000001n", 2},
        {"99999999n", 100},
        {"1u", 1},
        {"1001u", 2},
        {"99999999u", 100000},
        {"1500m", 1500},
        {"00000007m", 7},
        {"99999999m", 99999999},
        {"30S", 30000},
        {"2M", 120000},
        {"1H", 3600000},
        {"596523H", INT64_C(2147482800000)},
        {"99999999M", INT64_C(2147487247000)},
        {"99999999H", INT64_C(2147487247000)},
    };
    static const char *const bad[] = {"",     "m",  "1",  "1000000000m", "000000001S", "-1m", "+1m",  " 1m", "1m ",      "1ms",
                                      "1.5S", "1s", "1h", "1h",          "1N",         "1",   "0x1m", "1 m", "1\xC2\xB5"};
    int64_t ms = 77;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(hp_grpc_timeout_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    ms = 77;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(hp_grpc_timeout_parse(bad[i], &ms));
    assert_int_equal(ms, 77);
}

static void timeouts_are_written(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } table[] = {
        {-1, "0m"},
        {0, "0m"},
        {1, "1m"},
        {99999999, "99999999m"},
        {100000000, "100000S"},
        {100000001, "100001S"},
        {INT64_MAX, "99999999S"},
    };
    char text[12];

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int64_t back;

        hp_grpc_timeout_format(table[i].ms, text);
        assert_string_equal(text, table[i].text);
        assert_true(hp_grpc_timeout_parse(text, &back));
    }
}

/* ---- percent encoding ---- */

static void check_percent(const char *text, size_t len, const char *encoded)
{
    struct hp_buf there = HP_BUF_INIT, back = HP_BUF_INIT;

    hp_percent_encode(&there, text, len);
    assert_string_equal((char *)there.data, encoded);
    hp_percent_decode(&back, (char *)there.data, there.len);
    assert_int_equal(back.len, len);
    if (len)
        assert_memory_equal(back.data, text, len);
    hp_buf_release(&there);
    hp_buf_release(&back);
}

static void messages_are_percent_encoded(void **state)
{
    char all[256];
    struct hp_buf there = HP_BUF_INIT, back = HP_BUF_INIT;

    (void)state;
    check_percent("", 0, "");
    check_percent("plain, with ~ and !", 19, "plain, with ~ and !");
    check_percent("100%", 4, "100%25");
    check_percent("\t\n\x7F\0x", 5, "%09%0A%7F%00x");
    check_percent("caf\xC3\xA9", 5, "caf%C3%A9");
    check_percent(" edges ", 7, "%20edges%20");
    check_percent(" ", 1, "%20");
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    hp_percent_encode(&there, all, sizeof all);
    for (size_t i = 0; i < there.len; i++)
        assert_true(there.data[i] >= 0x20 && there.data[i] < 0x7F);
    hp_percent_decode(&back, (char *)there.data, there.len);
    assert_int_equal(back.len, 256);
    assert_memory_equal(back.data, all, 256);
    hp_buf_release(&there);
    hp_buf_release(&back);
}

static void what_is_no_code_stays(void **state)
{
    static const struct {
        const char *text, *decoded;
    } table[] = {{"%", "%"},     {"%4", "%4"},           {"%4x", "%4x"}, {"%zz%41", "%zzA"},
                 {"%%41", "%A"}, {"%c3%a9", "\xC3\xA9"}, {"a%2", "a%2"}};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct hp_buf out = HP_BUF_INIT;

        hp_percent_decode(&out, table[i].text, strlen(table[i].text));
        assert_string_equal((char *)out.data, table[i].decoded);
        hp_buf_release(&out);
    }
}

/* ---- base64 ---- */

static void base64_of_rfc_4648(void **state)
{
    static const char *const table[][3] = {
        {"", "", ""},
        {"f", "Zg", "Zg=="},
        {"fo", "Zm8", "Zm8="},
        {"foo", "Zm9v", ""},
        {"foob", "Zm9vYg", "Zm9vYg=="},
        {"fooba", "Zm9vYmE", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct hp_buf out = HP_BUF_INIT;

        hp_base64_encode(&out, table[i][0], strlen(table[i][0]));
        assert_string_equal((char *)out.data, table[i][1]);
        hp_buf_reset(&out);
        assert_true(hp_base64_decode(&out, table[i][1], strlen(table[i][1])));
        assert_string_equal((char *)out.data, table[i][0]);
        hp_buf_reset(&out);
        if (table[i][2][0]) {
            assert_true(hp_base64_decode(&out, table[i][2], strlen(table[i][2])));
            assert_string_equal((char *)out.data, table[i][0]);
        }
        hp_buf_release(&out);
    }
}

static void base64_of_any_bytes(void **state)
{
    uint8_t bytes[256];

    (void)state;
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t len = 0; len <= 256; len++) {
        struct hp_buf there = HP_BUF_INIT, back = HP_BUF_INIT;

        hp_base64_encode(&there, bytes, len);
        assert_int_equal(there.len, (len * 4 + 2) / 3);
        assert_true(hp_base64_decode(&back, (char *)there.data, there.len));
        assert_int_equal(back.len, len);
        assert_memory_equal(back.data, bytes, len);
        hp_buf_reset(&back);
        for (size_t i = 0; i < there.len; i++)
            there.data[i] = there.data[i] == '+' ? '-' : there.data[i] == '/' ? '_' : there.data[i];
        assert_true(hp_base64_decode(&back, (char *)there.data, there.len));
        assert_memory_equal(back.data, bytes, len);
        hp_buf_release(&there);
        hp_buf_release(&back);
    }
}

static void what_is_no_base64_is_refused(void **state)
{
    static const char *const bad[] = {"Z",      "Zm9vY",  "=",    "==",   "===",  "Zg=",  "Zg===", "Zm9v=",
                                      "Zm9v==", "Zg==Zg", "Z g=", "Zg\n", "Zm9*", "Z=g=", "Zm8==", "\xC3\xA9Zg"};
    struct hp_buf out = HP_BUF_INIT;

    (void)state;
    hp_buf_addstr(&out, "before");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(hp_base64_decode(&out, bad[i], strlen(bad[i])));
    assert_string_equal((char *)out.data, "before");
    assert_false(out.failed);
    hp_buf_release(&out);
    hp_malloc_hook = no_malloc;
    assert_false(hp_base64_decode(&out, "Zg", 2));
    hp_malloc_hook = NULL;
    hp_buf_release(&out);
}

static void http_statuses_have_codes(void **state)
{
    (void)state;
    assert_int_equal(hp_grpc_code_of_http(400), HP_INTERNAL);
    assert_int_equal(hp_grpc_code_of_http(401), HP_UNAUTHENTICATED);
    assert_int_equal(hp_grpc_code_of_http(403), HP_PERMISSION_DENIED);
    assert_int_equal(hp_grpc_code_of_http(404), HP_UNIMPLEMENTED);
    assert_int_equal(hp_grpc_code_of_http(429), HP_UNAVAILABLE);
    assert_int_equal(hp_grpc_code_of_http(503), HP_UNAVAILABLE);
    assert_int_equal(hp_grpc_code_of_http(200), HP_UNKNOWN);
    assert_int_equal(hp_grpc_code_of_http(500), HP_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_has_flag_and_length),
        cmocka_unit_test(messages_are_put_together),
        cmocka_unit_test(half_a_message_is_seen),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(the_announced_length_is_not_believed),
        cmocka_unit_test(timeouts_are_read),
        cmocka_unit_test(timeouts_are_written),
        cmocka_unit_test(messages_are_percent_encoded),
        cmocka_unit_test(what_is_no_code_stays),
        cmocka_unit_test(base64_of_rfc_4648),
        cmocka_unit_test(base64_of_any_bytes),
        cmocka_unit_test(what_is_no_base64_is_refused),
        cmocka_unit_test(http_statuses_have_codes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
