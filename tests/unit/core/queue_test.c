/*
 * queue_test.c - the batching rules: each key once, order, bounds, hot keys, and a random run against a plain list.
 */
#include "harness/harness.h"

#include <string.h>

#include "base/random.h"
#include "core/queue.h"

struct thing {
    struct co_item item;
    int key, serial;
    bool queued;
};

static struct thing *thing_of(struct list_node *node)
{
    return list_entry(list_entry(node, struct co_item, node), struct thing, item);
}

static bool same(const struct co_item *a, const struct co_item *b)
{
    return list_entry(a, struct thing, item)->key == list_entry(b, struct thing, item)->key;
}

/* Only 7 hashes, so that different keys collide. */
static void set(struct thing *thing, int key, size_t bytes)
{
    *thing = (struct thing){.key = key, .item = {.hash = (uint64_t)key % 7, .bytes = bytes}};
}

static size_t take(struct co_queue *queue, size_t items, size_t bytes, struct list *batch)
{
    struct co_limits limits = {.max_items = items, .max_bytes = bytes};
    list_init(batch);
    return co_queue_take(queue, &limits, batch);
}

static void drain(struct co_queue *queue)
{
    while (co_queue_pop(queue))
        ;
    co_queue_release(queue);
}

static void a_second_item_on_a_key_waits(void **state)
{
    (void)state;
    struct co_queue queue;
    struct thing things[5];
    struct list batch;
    const int keys[] = {1, 2, 1, 3, 1};
    co_queue_init(&queue, same);
    for (int i = 0; i < 5; i++) {
        set(&things[i], keys[i], 0);
        assert_true(co_queue_push(&queue, &things[i].item));
    }
    assert_int_equal(take(&queue, 10, 100, &batch), 3);
    assert_ptr_equal(thing_of(list_pop_front(&batch)), &things[0]);
    assert_ptr_equal(thing_of(list_pop_front(&batch)), &things[1]);
    assert_ptr_equal(thing_of(list_pop_front(&batch)), &things[3]);
    assert_int_equal(take(&queue, 10, 100, &batch), 1);
    assert_ptr_equal(thing_of(list_pop_front(&batch)), &things[2]);
    assert_int_equal(take(&queue, 10, 100, &batch), 1);
    assert_ptr_equal(thing_of(list_pop_front(&batch)), &things[4]);
    assert_int_equal(take(&queue, 10, 100, &batch), 0);
    drain(&queue);
}

static void a_hot_key_holds_up_nobody(void **state)
{
    (void)state;
    enum { HOT = 5000, COLD = 100 };
    static struct thing things[HOT + COLD];
    struct co_queue queue;
    struct list batch;
    co_queue_init(&queue, same);
    for (int i = 0; i < HOT + COLD; i++) {
        set(&things[i], i < HOT ? -1 : i, 0);
        things[i].item.hash = (uint64_t)things[i].key;
        assert_true(co_queue_push(&queue, &things[i].item));
    }
    /* All that stand behind 5,000 items on one key are in the first batch, with one of those. */
    assert_int_equal(take(&queue, 512, 100, &batch), COLD + 1);
    assert_ptr_equal(thing_of(list_first(&batch)), &things[0]);
    for (int i = 1; i < HOT; i++) {
        assert_int_equal(take(&queue, 512, 100, &batch), 1);
        assert_ptr_equal(thing_of(list_first(&batch)), &things[i]);
    }
    assert_int_equal(queue.n_items, 0);
    drain(&queue);
}

static void batches_are_bounded(void **state)
{
    (void)state;
    struct co_queue queue;
    struct thing things[6];
    struct list batch;
    const size_t bytes[] = {150, 40, 40, 40, SIZE_MAX, 1};
    co_queue_init(&queue, same);
    for (int i = 0; i < 6; i++) {
        set(&things[i], i, bytes[i]);
        assert_true(co_queue_push(&queue, &things[i].item));
    }
    assert_int_equal(take(&queue, 10, 100, &batch), 1); /* too large for any batch: alone */
    assert_int_equal(take(&queue, 10, 100, &batch), 2);
    assert_int_equal(take(&queue, 10, 100, &batch), 1); /* the next is too large to join */
    assert_int_equal(take(&queue, 10, 100, &batch), 1);
    assert_int_equal(take(&queue, 10, 100, &batch), 1);
    for (int i = 0; i < 6; i++) {
        set(&things[i], i, 0);
        assert_true(co_queue_push(&queue, &things[i].item));
    }
    assert_int_equal(take(&queue, 4, 100, &batch), 4);
    assert_int_equal(take(&queue, 4, 100, &batch), 2);
    drain(&queue);
}

static void front_and_removal(void **state)
{
    (void)state;
    struct co_queue queue;
    struct thing things[4];
    struct list batch;
    co_queue_init(&queue, same);
    for (int i = 0; i < 4; i++)
        set(&things[i], i % 2, 0); /* 0 1 0 1 */
    assert_true(co_queue_push(&queue, &things[0].item));
    assert_true(co_queue_push(&queue, &things[1].item));
    assert_true(co_queue_push_front(&queue, &things[3].item));
    assert_true(co_queue_push(&queue, &things[2].item));
    co_queue_remove(&queue, &things[0].item);
    assert_null(things[0].item.key);
    assert_int_equal(take(&queue, 10, 100, &batch), 2);
    assert_ptr_equal(thing_of(list_pop_front(&batch)), &things[3]);
    assert_ptr_equal(thing_of(list_pop_front(&batch)), &things[2]);
    assert_ptr_equal(co_queue_pop(&queue), &things[1].item);
    assert_null(co_queue_pop(&queue));
    drain(&queue);
}

/* Each batch holds each key once and nothing twice; per key the order of arrival is kept. */
static void random_run(void **state)
{
    (void)state;
    enum { N = 400, KEYS = 60, STEPS = 20000 };
    static struct thing things[N];
    struct co_queue queue;
    struct hb_random random;
    int serial = 0;
    size_t queued = 0;
    co_queue_init(&queue, same);
    hb_random_seed(&random, t_seed());
    for (int step = 0; step < STEPS; step++) {
        struct thing *thing = &things[hb_random_below(&random, N)];
        if (hb_random_below(&random, 40) == 0) {
            bool in_batch[KEYS] = {false};
            struct list batch;
            struct list_node *node;
            queued -= take(&queue, 1 + hb_random_below(&random, 50), 1000, &batch);
            while ((node = list_pop_front(&batch))) {
                struct thing *taken = thing_of(node);
                assert_true(taken->queued && !in_batch[taken->key]);
                in_batch[taken->key] = true;
                taken->queued = false;
                for (int i = 0; i < N; i++)
                    assert_false(things[i].queued && things[i].key == taken->key && things[i].serial < taken->serial);
            }
        } else if (!thing->queued) {
            set(thing, (int)hb_random_below(&random, KEYS), hb_random_below(&random, 100));
            thing->serial = serial++;
            thing->queued = true;
            queued++;
            assert_true(co_queue_push(&queue, &thing->item));
        } else if (hb_random_below(&random, 3) == 0) {
            co_queue_remove(&queue, &thing->item);
            thing->queued = false;
            queued--;
        }
        assert_int_equal(queue.n_items, queued);
    }
    drain(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_item_on_a_key_waits),
        cmocka_unit_test(a_hot_key_holds_up_nobody),
        cmocka_unit_test(batches_are_bounded),
        cmocka_unit_test(front_and_removal),
        cmocka_unit_test(random_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
