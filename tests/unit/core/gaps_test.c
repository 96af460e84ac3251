/*
 * gaps_test.c - numbers that come out of order: what is missing, what is given up and when; and, at random, against a simulation of
 * writers that draw numbers, commit and roll back.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "core/gaps.h"

static void look(struct co_gaps *gaps, int64_t high, const char *writers, size_t n, const int64_t *seen)
{
    assert_true(co_gaps_look(gaps, high, writers, seen, n));
    assert_int_equal(gaps->high, high);
}

#define LOOK(high, writers, ...)                                                                                                   \
    look(&gaps, high, writers, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

static void what_is_missing_is_waited_for(void **state)
{
    (void)state;
    struct co_gaps gaps = {0};
    assert_true(co_gaps_begin(&gaps, 10, NULL));
    assert_int_equal(co_gaps_settled(&gaps), 10);
    LOOK(15, "3/7", 11, 13, 14);
    assert_int_equal(gaps.n, 2);
    assert_true(co_gaps_has(&gaps, 12) && co_gaps_has(&gaps, 15));
    assert_false(co_gaps_has(&gaps, 11) || co_gaps_has(&gaps, 14) || co_gaps_has(&gaps, 16));
    assert_int_equal(co_gaps_settled(&gaps), 11);
    LOOK(16, "3/7 4/9", 12, 16);
    assert_int_equal(gaps.n, 1);
    assert_int_equal(co_gaps_settled(&gaps), 14);
    LOOK(16, "4/9", );
    assert_int_equal(gaps.n, 0); /* 3/7 is gone, and 4/9 came later than 15 was missed */
    assert_int_equal(co_gaps_settled(&gaps), 16);
    co_gaps_release(&gaps);
}

static void a_writer_that_stays_keeps_what_it_may_own(void **state)
{
    (void)state;
    struct co_gaps gaps = {0};
    assert_true(co_gaps_begin(&gaps, 100, "1/1"));
    assert_true(co_gaps_add(&gaps, 20, 22));
    assert_true(co_gaps_add(&gaps, 40, 40));
    assert_false(co_gaps_add(&gaps, 40, 41));
    assert_false(co_gaps_add(&gaps, 50, 49));
    assert_false(co_gaps_add(&gaps, 101, 101));
    LOOK(101, "1/1 2/1", 21, 101);
    LOOK(105, "1/1 2/2", 105);
    assert_int_equal(gaps.n, 4); /* 20, 22, 40, 102 to 104 */
    LOOK(105, "2/2", );
    assert_int_equal(gaps.n, 1);
    assert_true(co_gaps_has(&gaps, 102));
    LOOK(105, "2/3", );
    assert_int_equal(gaps.n, 0);
    co_gaps_release(&gaps);
}

static void what_nobody_writes_is_given_up_at_once(void **state)
{
    (void)state;
    struct co_gaps gaps = {0};
    assert_true(co_gaps_begin(&gaps, 0, ""));
    LOOK(10, "", 3);
    assert_int_equal(gaps.n, 0);
    co_gaps_release(&gaps);
}

/* After a restart, a prepared transaction has another id. */
static void who_may_have_another_id_counts_as_old(void **state)
{
    (void)state;
    struct co_gaps gaps = {0};
    assert_true(co_gaps_begin(&gaps, 0, NULL));
    LOOK(3, "5/17", 2);
    co_gaps_unsure(&gaps);
    LOOK(3, "-1/700 2/1", );
    LOOK(3, "-1/700", );
    assert_int_equal(gaps.n, 2);
    LOOK(3, "-1/700", 1);
    assert_true(co_gaps_has(&gaps, 3));
    LOOK(3, "7/1", );
    assert_int_equal(gaps.n, 0);
    co_gaps_release(&gaps);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t high;
        int64_t seen[2];
        size_t n;
    } cases[] = {{9, {0, 0}, 0}, {12, {5, 0}, 1}, {12, {12, 11}, 2}, {12, {11, 11}, 2}, {12, {13, 0}, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct co_gaps gaps = {0};
        assert_true(co_gaps_begin(&gaps, 10, "1/1"));
        assert_false(co_gaps_look(&gaps, cases[i].high, "1/1", cases[i].seen, cases[i].n));
        co_gaps_release(&gaps);
    }
    struct co_gaps gaps = {0};
    assert_false(co_gaps_begin(&gaps, 10, "1/1 what/ever"));
    co_gaps_release(&gaps);
}

static void gaps_are_bounded(void **state)
{
    (void)state;
    enum { N = CO_GAPS_MAX + 1 };
    struct co_gaps gaps = {0};
    static int64_t seen[N];
    for (int i = 0; i < N; i++)
        seen[i] = 2 * (i + 1);
    assert_true(co_gaps_begin(&gaps, 0, "1/1"));
    assert_true(co_gaps_look(&gaps, 2 * CO_GAPS_MAX, "1/1", seen, CO_GAPS_MAX));
    assert_int_equal(gaps.n, CO_GAPS_MAX);
    assert_false(co_gaps_look(&gaps, (int64_t)2 * N, "1/1", &seen[CO_GAPS_MAX], 1));
    co_gaps_release(&gaps);
}

/* Every gap is in a stretch, the stretches are in order and few, and the last has no end. */
static void check_stretches(const struct co_gaps *gaps)
{
    int64_t from[CO_STRETCHES_MAX], to[CO_STRETCHES_MAX];
    size_t n = co_gaps_stretches(gaps, from, to);
    assert_in_range(n, 1, CO_STRETCHES_MAX);
    assert_true(from[n - 1] <= gaps->high + 1);
    assert_int_equal(to[n - 1], INT64_MAX);
    for (size_t i = 1; i < n; i++)
        assert_true(from[i] > to[i - 1]);
    for (size_t g = 0; g < gaps->n; g++) {
        bool in = false;
        for (size_t i = 0; i < n; i++)
            in = in || (gaps->list[g].from >= from[i] && gaps->list[g].to <= to[i]);
        assert_true(in);
    }
}

static void stretches_join_what_is_near(void **state)
{
    (void)state;
    struct co_gaps gaps = {0};
    int64_t from[CO_STRETCHES_MAX], to[CO_STRETCHES_MAX];
    assert_true(co_gaps_begin(&gaps, 1000000, "1/1"));
    assert_int_equal(co_gaps_stretches(&gaps, from, to), 1);
    assert_int_equal(from[0], 1000001);
    assert_true(co_gaps_add(&gaps, 10, 20));
    assert_true(co_gaps_add(&gaps, 30, 30));
    assert_true(co_gaps_add(&gaps, 999999, 999999));
    assert_int_equal(co_gaps_stretches(&gaps, from, to), 2);
    assert_int_equal(from[0], 10);
    assert_int_equal(to[0], 30);
    assert_int_equal(from[1], 999999);
    check_stretches(&gaps);
    assert_true(co_gaps_begin(&gaps, 100000000, "1/1"));
    for (int i = 0; i < 4000; i++)
        assert_true(co_gaps_add(&gaps, 1 + (int64_t)i * 20000, 7 + (int64_t)i * 20000));
    check_stretches(&gaps);
    co_gaps_release(&gaps);
}

/* ---- at random ---- */

enum { WRITERS = 6, NUMBERS = 4000 };

struct sim {
    int64_t next;                            /* to be drawn */
    int owner[NUMBERS];                      /* by number: its writer, or -1 */
    enum { OPEN, DONE, GONE } fate[NUMBERS]; /* of its transaction */
    bool told[NUMBERS];
    int transaction[WRITERS]; /* 0 = none */
    int n_transactions;
};

static void sim_step(struct sim *sim, struct hb_random *random)
{
    int w = (int)hb_random_below(random, WRITERS);
    switch (hb_random_below(random, 8)) {
    case 0: /* ends */
    case 1:
        for (int64_t i = 0; i < sim->next && sim->transaction[w]; i++) {
            if (sim->owner[i] == w && sim->fate[i] == OPEN)
                sim->fate[i] = hb_random_below(random, 5) ? DONE : GONE;
        }
        sim->transaction[w] = 0;
        break;
    default:
        if (!sim->transaction[w])
            sim->transaction[w] = ++sim->n_transactions;
        for (uint64_t n = 1 + hb_random_below(random, 3); n > 0 && sim->next < NUMBERS; n--)
            sim->owner[sim->next++] = w;
    }
}

/* As a follower does: first how far, then the writers, then what can be seen; the writers go on in between. */
static void sim_look(struct sim *sim, struct hb_random *random, struct co_gaps *gaps)
{
    char writers[256];
    size_t len = 0, n = 0;
    int64_t high = sim->next - 1, seen[NUMBERS];
    sim_step(sim, random);
    for (int w = 0; w < WRITERS; w++) {
        if (sim->transaction[w])
            len += (size_t)snprintf(writers + len, sizeof(writers) - len, "%s%d/%d", len ? " " : "", w, sim->transaction[w]);
    }
    writers[len] = '\0';
    sim_step(sim, random);
    for (int64_t i = 0; i <= high; i++) {
        if (sim->fate[i] == DONE && (i > gaps->high || co_gaps_has(gaps, i))) {
            assert_false(sim->told[i]);
            sim->told[i] = true;
            seen[n++] = i;
        }
    }
    assert_true(co_gaps_look(gaps, high, writers, seen, n));
    check_stretches(gaps);
    for (int64_t i = 0; i <= co_gaps_settled(gaps); i++)
        assert_true(sim->told[i] || sim->fate[i] == GONE);
}

static void at_random_all_is_told_once(void **state)
{
    (void)state;
    struct hb_random random;
    struct sim *sim = calloc(1, sizeof(*sim));
    struct co_gaps gaps = {0};
    hb_random_seed(&random, t_seed());
    assert_true(co_gaps_begin(&gaps, -1, NULL));
    while (sim->next < NUMBERS) {
        for (uint64_t n = hb_random_below(&random, 12); n > 0; n--)
            sim_step(sim, &random);
        sim_look(sim, &random, &gaps);
    }
    for (int i = 0; i < 2000 && gaps.n; i++) /* all end, one after the other */
        sim_look(sim, &random, &gaps);
    for (int64_t i = 0; i < NUMBERS; i++)
        assert_int_equal(sim->told[i], sim->fate[i] == DONE);
    co_gaps_release(&gaps);
    free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_waited_for),
        cmocka_unit_test(a_writer_that_stays_keeps_what_it_may_own),
        cmocka_unit_test(what_nobody_writes_is_given_up_at_once),
        cmocka_unit_test(who_may_have_another_id_counts_as_old),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(gaps_are_bounded),
        cmocka_unit_test(stretches_join_what_is_near),
        cmocka_unit_test(at_random_all_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
