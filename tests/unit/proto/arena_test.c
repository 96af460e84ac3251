/* Arenas: zeroed, aligned, within the budget, and honest when there is no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/arena.h"
#include "proto/c/wire.h"

static size_t allocations, fail_at; /* the fail_at-th allocation fails; 0 = none */

static void *counting_malloc(size_t size)
{
    return ++allocations == fail_at ? NULL : malloc(size);
}

static int without_hook(void **state)
{
    (void)state;
    hp_malloc_hook = NULL;
    return 0;
}

static void memory_is_zeroed_and_aligned(void **state)
{
    struct hp_arena *arena = hp_arena_new(1 << 20);

    (void)state;
    assert_non_null(arena);
    for (size_t size = 0; size < 700; size++) {
        unsigned char *p = hp_alloc(arena, size);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xAA, size); /* a later one that overlapped would show it */
    }
    assert_non_null(hp_alloc(arena, 500000));
    hp_arena_free(arena);
    hp_arena_free(NULL);
}

static void the_budget_holds(void **state)
{
    struct hp_arena *arena = hp_arena_new(1000);
    size_t n = 0;

    (void)state;
    assert_null(hp_alloc(arena, 1001));
    assert_int_equal(hp_arena_failure(arena), HP_ARENA_BUDGET);
    assert_int_equal(hp_arena_used(arena), 0);
    while (hp_alloc(arena, 16))
        n++;
    assert_int_equal(n, 1000 / 16);
    assert_int_equal(hp_arena_used(arena), n * 16);
    hp_arena_free(arena);
    arena = hp_arena_new(0);
    assert_null(hp_alloc(arena, 0));
    hp_arena_free(arena);
}

static void sizes_do_not_wrap(void **state)
{
    struct hp_arena *arena = hp_arena_new(SIZE_MAX);

    (void)state;
    assert_null(hp_alloc(arena, SIZE_MAX));
    assert_null(hp_alloc(arena, SIZE_MAX - 4));
    assert_null(hp_alloc_array(arena, SIZE_MAX / 2, 3));
    assert_int_equal(hp_arena_failure(arena), HP_ARENA_BUDGET);
    assert_null(hp_strndup(arena, "", SIZE_MAX));
    assert_non_null(hp_alloc_array(arena, 10, 10));
    assert_string_equal(hp_strndup(arena, "abcdef", 3), "abc");
    assert_string_equal(hp_strndup(arena, NULL, 0), "");
    hp_arena_free(arena);
}

static void a_reset_arena_is_as_new(void **state)
{
    struct hp_arena *arena = hp_arena_new(1000);

    (void)state;
    for (int i = 0; i < 3; i++) {
        unsigned char *p = hp_alloc(arena, 900), *q;

        assert_non_null(p);
        memset(p, 0xAA, 900);
        assert_null(hp_alloc(arena, 900));
        hp_arena_reset(arena, 2000000);
        assert_int_equal(hp_arena_used(arena), 0);
        assert_int_equal(hp_arena_failure(arena), HP_ARENA_FINE);
        p = hp_alloc(arena, 900);
        q = hp_alloc(arena, 1000000); /* a block of its own, which the next reset frees */
        assert_true(p && q);
        for (size_t at = 0; at < 900; at++)
            assert_int_equal(p[at], 0);
        hp_arena_reset(arena, 1000);
        assert_null(hp_alloc(arena, 1001));
    }
    hp_arena_free(arena);
}

/* Blocks are not much more than what was asked for. */
static size_t taken;
static void *summing_malloc(size_t size)
{
    taken += size;
    return malloc(size);
}

static void little_is_wasted(void **state)
{
    static const size_t sizes[] = {1, 24, 100, 3000, 20000, 40, 600};
    struct hp_arena *arena;

    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* there each allocation is a block */
#endif
    taken = 0;
    hp_malloc_hook = summing_malloc;
    arena = hp_arena_new(64 << 20);
    for (size_t i = 0; i < 10000; i++)
        assert_non_null(hp_alloc(arena, sizes[i * 7919 % 7]));
    assert_true(taken < hp_arena_used(arena) / 3 * 4 + (70 << 10));
    hp_arena_free(arena);
}

static ProtobufCMessage *unpack_one(struct hp_status *status)
{
    /* namespace "a", resources "b" and "c", holder "d" */
    static const char bytes[] = "\x0a\x01"
                                "a\x1a\x01"
                                "b\x1a\x01"
                                "c\x22\x01"
                                "d";
    struct hp_arena *arena = hp_arena_new(1 << 16);
    ProtobufCMessage *message = NULL;

    if (arena)
        message = hp_unpack(arena, &holdfast__v1__acquire_request__descriptor, bytes, sizeof bytes - 1, status);
    hp_arena_free(arena);
    return message; /* only whether it is NULL */
}

static void each_allocation_may_fail(void **state)
{
    struct hp_status status = {0};
    size_t n;

    (void)state;
    hp_malloc_hook = counting_malloc;
    allocations = fail_at = 0;
    assert_non_null(unpack_one(&status));
    n = allocations;
    for (fail_at = 1; fail_at <= n; fail_at++) {
        allocations = 0;
        memset(&status, 0, sizeof status);
        assert_null(unpack_one(&status));
        if (fail_at > 1) {
            assert_int_equal(status.code, HP_RESOURCE_EXHAUSTED);
            assert_string_equal(status.message, "out of memory");
        }
    }
}

static void a_spent_budget_is_a_limit(void **state)
{
    static const char bytes[] = "\x0a\x01"
                                "a";
    struct hp_arena *arena = hp_arena_new(32);
    struct hp_status status;

    (void)state;
    assert_null(hp_unpack(arena, &holdfast__v1__acquire_request__descriptor, bytes, sizeof bytes - 1, &status));
    assert_int_equal(status.code, HP_INVALID_ARGUMENT);
    assert_int_equal(status.reason, HP_R_LIMIT);
    hp_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(the_budget_holds),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(a_reset_arena_is_as_new),
        cmocka_unit_test_teardown(little_is_wasted, without_hook),
        cmocka_unit_test_teardown(each_allocation_may_fail, without_hook),
        cmocka_unit_test(a_spent_budget_is_a_limit),
    };

    return cmocka_run_group_tests_name("proto/arena", tests, NULL, NULL);
}
