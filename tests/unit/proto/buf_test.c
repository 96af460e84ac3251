/* Buffers: they grow, stay below their bound, and remember a failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/arena.h"
#include "proto/c/buf.h"

static void appends_are_terminated(void **state)
{
    struct hp_buf buf = HP_BUF_INIT;

    (void)state;
    hp_buf_add(&buf, NULL, 0);
    assert_string_equal((char *)buf.data, "");
    hp_buf_addstr(&buf, "one");
    hp_buf_addch(&buf, ' ');
    hp_buf_printf(&buf, "%s %d", "two", 3);
    assert_string_equal((char *)buf.data, "one two 3");
    assert_int_equal(buf.len, 9);
    hp_buf_reset(&buf);
    assert_int_equal(buf.len, 0);
    assert_string_equal((char *)buf.data, "");
    assert_true(buf.cap > 0);
    hp_buf_release(&buf);
    assert_null(buf.data);
    hp_buf_release(&buf);
}

static void it_grows(void **state)
{
    struct hp_buf buf = HP_BUF_INIT;

    (void)state;
    for (int i = 0; i < 10000; i++)
        hp_buf_printf(&buf, "%04d", i);
    assert_false(buf.failed);
    assert_int_equal(buf.len, 40000);
    assert_memory_equal(buf.data + 4 * 1234, "1234", 4);
    assert_memory_equal(buf.data + 39996, "9999", 5);
    hp_buf_release(&buf);
}

static void beyond_the_bound_nothing_changes(void **state)
{
    struct hp_buf buf = {.max = 10};

    (void)state;
    hp_buf_addstr(&buf, "0123456789");
    assert_false(buf.failed);
    hp_buf_addch(&buf, 'x');
    assert_true(buf.failed);
    assert_string_equal((char *)buf.data, "0123456789");
    hp_buf_add(&buf, "", 0);
    hp_buf_printf(&buf, "y");
    assert_string_equal((char *)buf.data, "0123456789");
    hp_buf_reset(&buf);
    hp_buf_printf(&buf, "%s", "01234567890");
    assert_true(buf.failed);
    assert_int_equal(buf.len, 0);
    hp_buf_reset(&buf);
    assert_false(hp_buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    hp_buf_release(&buf);
    hp_buf_addch(&buf, 'a');
    assert_false(hp_buf_reserve(&buf, SIZE_MAX - 1));
    hp_buf_release(&buf);
}

static size_t allocations, fail_at;

static void *failing_malloc(size_t size)
{
    return ++allocations == fail_at ? NULL : malloc(size);
}

static void without_memory_it_fails_and_keeps_what_it_has(void **state)
{
    struct hp_buf buf = HP_BUF_INIT;

    (void)state;
    hp_malloc_hook = failing_malloc;
    allocations = 0;
    fail_at = 3;
    while (!buf.failed)
        hp_buf_addstr(&buf, "abcdefgh");
    assert_int_equal(allocations, 3);
    assert_true(buf.len >= 128 && buf.len < 512);
    assert_memory_equal(buf.data + buf.len - 8, "abcdefgh", 9);
    hp_buf_release(&buf);
    hp_malloc_hook = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_are_terminated),
        cmocka_unit_test(it_grows),
        cmocka_unit_test(beyond_the_bound_nothing_changes),
        cmocka_unit_test(without_memory_it_fails_and_keeps_what_it_has),
    };

    return cmocka_run_group_tests_name("proto/buf", tests, NULL, NULL);
}
