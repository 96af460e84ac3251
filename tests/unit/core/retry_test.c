/*
 * retry_test.c - what follows a failure: within budget, without loops, and down to the guilty item.
 */
#include "harness/harness.h"

#include "core/retry.h"

enum { MANY = 512 };

struct item {
    struct list_node node;
    bool guilty, passed, failed;
};

struct run {
    enum co_failure failure;
    struct co_budget budget;
    int statements;
};

static bool has_guilty(const struct list *batch)
{
    for (struct list_node *node = list_first(batch); node; node = list_next(batch, node)) {
        if (list_entry(node, struct item, node)->guilty)
            return true;
    }
    return false;
}

static void mark(struct list *batch, bool passed)
{
    struct list_node *node;
    while ((node = list_pop_front(batch))) {
        struct item *item = list_entry(node, struct item, node);
        assert_false(item->passed || item->failed);
        item->passed = passed;
        item->failed = !passed;
    }
}

/* Plays the part of the store and of a database that refuses each batch with a guilty item in it. */
static void play(struct run *run, struct list *batch, struct co_history history)
{
    for (;;) {
        run->statements++;
        assert_true(run->statements < 20000);
        if (!has_guilty(batch)) {
            mark(batch, true);
            return;
        }
        enum co_next next = co_judge(run->failure, batch->count, &history, &run->budget);
        if (next == CO_GIVE_UP) {
            mark(batch, false);
            return;
        }
        if (next == CO_SPLIT) {
            struct list second;
            list_init(&second);
            co_split(batch, &second);
            play(run, batch, history);
            play(run, &second, history);
            return;
        }
    }
}

static int play_with(enum co_failure failure, const int *guilty, int n_guilty, int n)
{
    static struct item items[MANY];
    struct run run = {.failure = failure};
    struct list batch;
    list_init(&batch);
    co_budget_init(&run.budget, 100, 20);
    for (int i = 0; i < n; i++) {
        items[i] = (struct item){0};
        list_push_back(&batch, &items[i].node);
    }
    for (int i = 0; i < n_guilty; i++)
        items[guilty[i]].guilty = true;
    play(&run, &batch, (struct co_history){0});
    for (int i = 0; i < n; i++) {
        assert_int_equal(items[i].failed, items[i].guilty);
        assert_int_equal(items[i].passed, !items[i].guilty);
    }
    return run.statements;
}

static void only_the_guilty_fail(void **state)
{
    (void)state;
    const int first[] = {0}, last[] = {MANY - 1}, some[] = {3, 100, 101, 400};
    assert_in_range(play_with(CO_GUILTY, first, 1, MANY), 1, 19); /* 1 + 2 · log2(512) */
    assert_in_range(play_with(CO_GUILTY, last, 1, MANY), 1, 19);
    assert_in_range(play_with(CO_LOCKED, some, 4, MANY), 1, 80);
    assert_in_range(play_with(CO_GUILTY, some, 1, 7), 1, 7);
    assert_int_equal(play_with(CO_GUILTY, first, 1, 1), 1);
}

/* Whatever PostgreSQL keeps answering, it ends, soon, and innocent ones pass. */
static void nothing_loops(void **state)
{
    (void)state;
    const int one[] = {77}, first[] = {0};
    assert_in_range(play_with(CO_CONFLICT, one, 1, MANY), 1, 19 + CO_MAX_CONFLICTS);
    assert_in_range(play_with(CO_OVERTAKEN, one, 1, MANY), 1, 20 + CO_MAX_CONFLICTS);
    assert_in_range(play_with(CO_PARTITION, one, 1, MANY), 1, 20);
    assert_int_equal(play_with(CO_PLAN, first, 1, 1), 2);
}

static void first_steps(void **state)
{
    (void)state;
    struct co_budget budget;
    struct co_history h = {0};
    co_budget_init(&budget, 10, 20);
    assert_int_equal(co_judge(CO_OVERTAKEN, 5, &h, &budget), CO_AGAIN_CAREFUL);
    assert_true(h.careful);
    assert_int_equal(budget.millis, 10000); /* the careful form is part of the plan, not a retry */
    assert_int_equal(co_judge(CO_OVERTAKEN, 5, &h, &budget), CO_AGAIN);
    assert_int_equal(budget.millis, 9000);
    assert_int_equal(co_judge(CO_PARTITION, 5, &h, &budget), CO_MAKE_PARTITION);
    assert_int_equal(co_judge(CO_PARTITION, 5, &h, &budget), CO_SPLIT);
    assert_int_equal(co_judge(CO_PARTITION, 1, &h, &budget), CO_GIVE_UP);
    assert_int_equal(co_judge(CO_PLAN, 5, &h, &budget), CO_NEW_SESSION);
    assert_int_equal(co_judge(CO_PLAN, 5, &h, &budget), CO_GIVE_UP);
}

static void the_budget_bounds_retries(void **state)
{
    (void)state;
    struct co_budget budget;
    int retries = 0;
    co_budget_init(&budget, 10, 20);
    for (int i = 0; i < 1000; i++) {
        struct co_history h = {0};
        while (co_judge(CO_CONFLICT, 1, &h, &budget) == CO_AGAIN)
            retries++;
    }
    assert_int_equal(retries, 10);
    co_budget_earn(&budget, 49);
    assert_false(co_budget_spend(&budget));
    co_budget_earn(&budget, 1);
    assert_true(co_budget_spend(&budget));
    assert_false(co_budget_spend(&budget));
    co_budget_earn(&budget, SIZE_MAX);
    assert_int_equal(budget.millis, 10000);
}

static void pauses_grow_and_are_bounded(void **state)
{
    (void)state;
    struct hb_random random;
    hb_random_seed(&random, 3);
    for (unsigned conflicts = 1; conflicts < 40; conflicts++) {
        for (int i = 0; i < 200; i++)
            assert_in_range(co_pause_ms(conflicts, &random), 1, conflicts < 5 ? 5 << conflicts : 100);
    }
}

static void looks_at_busy_rows_grow_apart(void **state)
{
    (void)state;
    struct hb_random random;
    hb_random_seed(&random, 5);
    for (unsigned tries = 0; tries < 300; tries++) {
        int64_t most = tries < 4 ? 10 << tries : 100, least_seen = INT64_MAX, most_seen = 0;
        for (int i = 0; i < 200; i++) {
            int64_t ms = co_slow_pause_ms(tries, &random);
            assert_in_range(ms, most / 2, most);
            least_seen = ms < least_seen ? ms : least_seen;
            most_seen = ms > most_seen ? ms : most_seen;
        }
        assert_true(least_seen < most_seen); /* they don't come in step */
    }
}

static void halves(void **state)
{
    (void)state;
    struct item items[5] = {0};
    struct list batch, second;
    list_init(&batch);
    list_init(&second);
    for (int i = 0; i < 5; i++)
        list_push_back(&batch, &items[i].node);
    co_split(&batch, &second);
    assert_int_equal(batch.count, 3);
    assert_int_equal(second.count, 2);
    assert_ptr_equal(list_first(&batch), &items[0].node);
    assert_ptr_equal(list_first(&second), &items[3].node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_guilty_fail),
        cmocka_unit_test(nothing_loops),
        cmocka_unit_test(first_steps),
        cmocka_unit_test(the_budget_bounds_retries),
        cmocka_unit_test(pauses_grow_and_are_bounded),
        cmocka_unit_test(looks_at_busy_rows_grow_apart),
        cmocka_unit_test(halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
