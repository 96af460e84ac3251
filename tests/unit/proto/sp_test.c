/*
 * sp_test.c - the framing of nng's sockets, byte by byte.
 */
#include "harness/harness.h"

#include <string.h>

#include "proto/c/sp.h"

static void greetings(void **state)
{
    (void)state;
    uint8_t bytes[HP_SP_GREETING];
    hp_sp_greet(bytes, HP_SP_REP);
    assert_memory_equal(bytes, "\0SP\0\0\x31\0\0", 8);
    assert_true(hp_sp_is_greeting(bytes, HP_SP_REP));
    assert_false(hp_sp_is_greeting(bytes, HP_SP_REQ));
    for (int i = 0; i < HP_SP_GREETING; i++) {
        bytes[i] ^= 1;
        assert_false(hp_sp_is_greeting(bytes, HP_SP_REP));
        bytes[i] ^= 1;
    }
}

static void heads(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0, 1, 255, 256, 16777220, 1ull << 40, UINT64_MAX};
    uint8_t head[HP_SP_HEAD_MAX];
    uint64_t len;
    hp_sp_write_head(false, head, 0x01020304);
    assert_memory_equal(head, "\0\0\0\0\1\2\3\4", 8);
    hp_sp_write_head(true, head, 0x01020304);
    assert_memory_equal(head, "\1\0\0\0\0\1\2\3\4", 9);
    assert_int_equal(hp_sp_head_size(false), 8);
    assert_int_equal(hp_sp_head_size(true), 9);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (int is_ipc = 0; is_ipc < 2; is_ipc++) {
            hp_sp_write_head(is_ipc, head, lengths[i]);
            assert_true(hp_sp_read_head(is_ipc, head, &len));
            assert_true(len == lengths[i]);
        }
    hp_sp_write_head(true, head, 5);
    head[0] = 0; /* a kind of message that isn't for us */
    assert_false(hp_sp_read_head(true, head, &len));
}

static void words(void **state)
{
    (void)state;
    uint8_t body[HP_SP_WORDS_MAX + 4] = {0};
    assert_int_equal(hp_sp_words(body, 0), 0);
    assert_int_equal(hp_sp_words(body, sizeof(body)), 0); /* no id */
    body[0] = 0x80;
    assert_int_equal(hp_sp_words(body, 3), 0);
    assert_int_equal(hp_sp_words(body, 4), 4);
    body[0] = 0;
    body[8] = 0xff;
    assert_int_equal(hp_sp_words(body, 11), 0);
    assert_int_equal(hp_sp_words(body, 12), 12);
    body[8] = 0;
    body[HP_SP_WORDS_MAX - 4] = 0x80;
    assert_int_equal(hp_sp_words(body, sizeof(body)), HP_SP_WORDS_MAX);
    body[HP_SP_WORDS_MAX - 4] = 0;
    body[HP_SP_WORDS_MAX] = 0x80; /* one device too many */
    assert_int_equal(hp_sp_words(body, sizeof(body)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings),
        cmocka_unit_test(heads),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
