/* gzip_test.c - messages come back as they were, bombs stop at the bound, and what is no gzip is refused. */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "net/gzip.h"

static int setup(void **state)
{
    *state = net_gzip_new();
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    net_gzip_free(*state);
    return 0;
}

static void messages_come_back(void **state)
{
    struct hp_buf zipped = HP_BUF_INIT, back = HP_BUF_INIT;
    for (size_t len = 100; len < 300000; len = len * 3 + 1) {
        uint8_t *data = malloc(len);
        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)(i / 3 % 50 + (i % 7 == 0));
        hp_buf_reset(&zipped);
        hp_buf_reset(&back);
        hp_buf_addstr(&zipped, "abc");
        assert_true(net_gzip_close(*state, data, len, &zipped));
        assert_true(zipped.len - 3 < len);
        assert_memory_equal(zipped.data, "abc\x1f\x8b", 5);
        assert_int_equal(net_gzip_open(*state, zipped.data + 3, zipped.len - 3, len, &back), NET_GUNZIP_OK);
        assert_int_equal(back.len, len);
        assert_memory_equal(back.data, data, len);
        hp_buf_reset(&back); /* a byte less is one too few */
        assert_int_equal(net_gzip_open(*state, zipped.data + 3, zipped.len - 3, len - 1, &back), NET_GUNZIP_TOO_LARGE);
        free(data);
    }
    hp_buf_release(&zipped);
    hp_buf_release(&back);
}

static void what_would_not_be_smaller_stays(void **state)
{
    struct hp_buf out = HP_BUF_INIT;
    uint8_t noise[2000];
    uint32_t x = 12345;
    for (size_t i = 0; i < sizeof(noise); i++) {
        x = x * 1664525 + 1013904223;
        noise[i] = (uint8_t)(x >> 24);
    }
    hp_buf_addstr(&out, "before");
    assert_false(net_gzip_close(*state, noise, sizeof(noise), &out));
    assert_false(net_gzip_close(*state, "", 0, &out));
    assert_false(net_gzip_close(*state, "short", 5, &out));
    assert_string_equal((char *)out.data, "before");
    assert_int_equal(out.len, 6);
    hp_buf_release(&out);
}

/* 64 MiB of zeros in 64 KiB: no more memory than the bound is taken. */
static void a_bomb_stops_at_the_bound(void **state)
{
    const size_t size = 64 << 20, bound = 1 << 20;
    struct hp_buf bomb = HP_BUF_INIT, out = HP_BUF_INIT;
    uint8_t *zeros = calloc(1, size);
    assert_true(net_gzip_close(*state, zeros, size, &bomb));
    free(zeros);
    assert_true(bomb.len < size / 200);
    assert_int_equal(net_gzip_open(*state, bomb.data, bomb.len, bound, &out), NET_GUNZIP_TOO_LARGE);
    assert_true(out.cap <= 2 * bound);
    hp_buf_release(&bomb);
    hp_buf_release(&out);
}

static void what_is_no_gzip_is_refused(void **state)
{
    struct hp_buf zipped = HP_BUF_INIT, out = HP_BUF_INIT;
    char text[200];
    memset(text, 'x', sizeof(text));
    assert_true(net_gzip_close(*state, text, sizeof(text), &zipped));
    for (size_t cut = 0; cut < zipped.len; cut++) {
        /* In memory of its own size, so that AddressSanitizer sees a step too far. */
        uint8_t *copy = malloc(cut + 1);
        memcpy(copy, zipped.data, cut);
        assert_int_equal(net_gzip_open(*state, copy, cut, 1000, &out), NET_GUNZIP_MALFORMED);
        free(copy);
    }
    assert_int_equal(out.len, 0);
    hp_buf_addstr(&zipped, "more");
    assert_int_equal(net_gzip_open(*state, zipped.data, zipped.len, 1000, &out), NET_GUNZIP_MALFORMED);
    assert_int_equal(net_gzip_open(*state, "plain text that is none", 23, 1000, &out), NET_GUNZIP_MALFORMED);
    zipped.data[zipped.len - 8] ^= 1; /* the checksum */
    assert_int_equal(net_gzip_open(*state, zipped.data, zipped.len - 4, 1000, &out), NET_GUNZIP_MALFORMED);
    zipped.data[zipped.len - 8] ^= 1;
    assert_int_equal(net_gzip_open(*state, zipped.data, zipped.len - 4, 1000, &out), NET_GUNZIP_OK);
    assert_int_equal(out.len, 200);
    hp_buf_release(&zipped);
    hp_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_would_not_be_smaller_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bomb_stops_at_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_gzip_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests_name("net/gzip", tests, NULL, NULL);
}
