/*
 * heap_test.c - the heap against a plain array, under random operations.
 */
#include "harness/harness.h"

#include "base/heap.h"
#include "base/random.h"

enum { N = 200, STEPS = 20000 };

struct element {
    int64_t key;
    size_t index;
    bool in;
};

static struct element elements[N];

static int64_t smallest(void)
{
    int64_t key = INT64_MAX;
    for (int i = 0; i < N; i++) {
        if (elements[i].in && elements[i].key < key)
            key = elements[i].key;
    }
    return key;
}

static size_t count(void)
{
    size_t n = 0;
    for (int i = 0; i < N; i++)
        n += elements[i].in;
    return n;
}

static void random_operations(void **state)
{
    (void)state;
    struct heap heap;
    struct hb_random random;
    hb_random_seed(&random, t_seed());
    heap_init(&heap, offsetof(struct element, index));
    for (int step = 0; step < STEPS; step++) {
        struct element *e = &elements[hb_random_below(&random, N)];
        if (hb_random_below(&random, 3) > 0) {
            e->key = (int64_t)hb_random_below(&random, 1000) - 500;
            e->in = true;
            assert_true(heap_set(&heap, e, e->key));
        } else {
            heap_remove(&heap, e);
            e->in = false;
        }
        assert_int_equal(heap_top_key(&heap, INT64_MAX), smallest());
        assert_int_equal(heap.n, count());
        assert_int_equal(e->index != 0, e->in);
    }
    int64_t last = INT64_MIN;
    while (heap.n) {
        struct element *top = heap_top(&heap);
        assert_true(top->in && top->key >= last);
        last = top->key;
        heap_remove(&heap, top);
        assert_int_equal(top->index, 0);
    }
    assert_null(heap_top(&heap));
    heap_release(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
