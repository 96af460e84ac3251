/*
 * heap_test.c - the heap against a plain array, under random operations.
 */
#include "harness/harness.h"

#include "base/heap.h"
#include "base/list.h"
#include "base/random.h"

enum { N = 200, STEPS = 20000 };

struct element {
    int64_t key;
    struct heap_node node;
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

/* Of all but the top. */
static int64_t next_smallest(const struct heap *heap)
{
    int64_t key = INT64_MAX;
    for (int i = 0; i < N; i++) {
        if (elements[i].in && &elements[i].node != heap_top(heap) && elements[i].key < key)
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
    struct heap heap = {0};
    struct hb_random random;
    hb_random_seed(&random, t_seed());
    for (int step = 0; step < STEPS; step++) {
        struct element *e = &elements[hb_random_below(&random, N)];
        if (hb_random_below(&random, 3) > 0) {
            e->key = (int64_t)hb_random_below(&random, 1000) - 500;
            e->in = true;
            heap_set(&heap, &e->node, e->key);
        } else {
            heap_remove(&heap, &e->node);
            e->in = false;
        }
        assert_int_equal(heap_top_key(&heap, INT64_MAX), smallest());
        assert_int_equal(heap.n, count());
        assert_int_equal(e->node.linked, e->in);
        assert_int_equal(heap_next_key(&heap, INT64_MAX), next_smallest(&heap));
    }
    int64_t last = INT64_MIN;
    while (heap.n) {
        struct element *top = list_entry(heap_top(&heap), struct element, node);
        assert_true(top->in && top->key >= last);
        last = top->key;
        heap_remove(&heap, &top->node);
        assert_false(top->node.linked);
    }
    assert_null(heap_top(&heap));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
