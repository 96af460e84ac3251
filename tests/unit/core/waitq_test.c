/*
 * waitq_test.c - the queue of waiters: order, merging, ends, terms, limits, and a random run against a plain list.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "core/waitq.h"

struct caller {
    struct co_caller base; /* first */
    int serial;
};

static struct co_waitq queue;
static struct co_line line_a = {.ns = "ns", .resource = "a"}, line_b = {.ns = "ns", .resource = "b"},
                      line_c = {.ns = "other", .resource = "a"};

static struct co_waiter ws[5]; /* of the test that runs */
static struct caller cs[5];

static int setup(void **state)
{
    (void)state;
    co_waitq_init(&queue, 1000);
    assert_true(co_waitq_open(&queue, &line_a));
    assert_true(co_waitq_open(&queue, &line_b));
    assert_true(co_waitq_open(&queue, &line_c));
    return 0;
}

static void leave_all(struct co_line *line)
{
    struct co_waiter *head;
    while ((head = co_line_head(line)))
        co_waitq_leave(&queue, list_entry(list_first(&head->callers), struct co_caller, node));
    co_waitq_close(&queue, line);
}

static int teardown(void **state)
{
    (void)state;
    leave_all(&line_a);
    leave_all(&line_b);
    leave_all(&line_c);
    assert_int_equal(queue.n_callers, 0);
    assert_int_equal(queue.n_waiters, 0);
    assert_int_equal(queue.scopes.n, 0);
    assert_int_equal(queue.ends.n, 0);
    assert_int_equal(queue.tries.n, 0);
    co_waitq_release(&queue);
    return 0;
}

static void join(struct co_line *line, struct co_waiter *waiter, const char *id, struct caller *caller, int64_t now, int64_t end)
{
    *waiter = (struct co_waiter){.request_id = id};
    *caller = (struct caller){.serial = 0};
    assert_int_equal(co_waitq_join(&queue, line, waiter, &caller->base, now, end), CO_JOINED);
}

static void the_first_to_come_is_the_head(void **state)
{
    (void)state;
    join(&line_a, &ws[0], "1", &cs[0], 10, 100);
    join(&line_a, &ws[1], "2", &cs[1], 20, 90);
    join(&line_b, &ws[2], "3", &cs[2], 5, 50);
    assert_ptr_equal(co_line_head(&line_a), &ws[0]);
    assert_int_equal(line_a.waiters.count, 2);
    assert_ptr_equal(co_waitq_find(&queue, "ns", "a"), &line_a);
    assert_ptr_equal(co_waitq_find(&queue, "other", "a"), &line_c);
    assert_null(co_waitq_find(&queue, "other", "b"));
    assert_null(co_waitq_find(&queue, "nsa", ""));
    co_waitq_leave(&queue, &cs[0].base);
    assert_null(ws[0].line);
    assert_ptr_equal(co_line_head(&line_a), &ws[1]);
    assert_int_equal(co_line_in_namespace(&line_a), 2);
    assert_int_equal(co_line_in_namespace(&line_c), 0);
}

static void those_with_one_id_are_one_waiter(void **state)
{
    (void)state;
    join(&line_a, &ws[0], "id", &cs[0], 10, 100);
    join(&line_b, &ws[1], "id", &cs[1], 10, 100);
    join(&line_c, &ws[2], "id", &cs[2], 10, 100);
    assert_ptr_equal(co_waitq_same(&queue, &line_a, "id"), &ws[0]);
    assert_ptr_equal(co_waitq_same(&queue, &line_b, "id"), &ws[1]);
    assert_null(co_waitq_same(&queue, &line_a, "other"));
    assert_int_equal(co_waitq_merge(&queue, &ws[0], &cs[3].base, 200), CO_JOINED);
    assert_int_equal(line_a.waiters.count, 1);
    assert_int_equal(queue.n_callers, 4);
    assert_int_equal(ws[0].end_ms, 200);
    /* By id: those of the namespace, each once. */
    struct co_waiter *first = co_waitq_with_id(&queue, "ns", "id", NULL), *second = co_waitq_with_id(&queue, "ns", "id", first);
    assert_true((first == &ws[0] && second == &ws[1]) || (first == &ws[1] && second == &ws[0]));
    assert_null(co_waitq_with_id(&queue, "ns", "id", second));
    assert_ptr_equal(co_waitq_with_id(&queue, "other", "id", NULL), &ws[2]);
    co_waitq_leave(&queue, &cs[3].base);
    assert_ptr_equal(ws[0].line, &line_a); /* another caller is left */
    assert_int_equal(ws[0].end_ms, 100);
    co_waitq_leave(&queue, &cs[0].base);
    assert_null(ws[0].line);
    assert_null(co_waitq_same(&queue, &line_a, "id"));
}

static void terms_tell_of_the_whole_line_and_of_the_rest(void **state)
{
    (void)state;
    struct co_terms t;
    co_line_terms(&line_a, 50, &t);
    assert_true(t.waited_ms == 0 && t.wait_ms == 0 && t.next_waited_ms == 0 && t.next_wait_ms == 0);
    join(&line_a, &ws[0], "1", &cs[0], 10, 1000);
    co_line_terms(&line_a, 50, &t);
    assert_true(t.waited_ms == 40 && t.wait_ms == 950 && t.next_waited_ms == 0 && t.next_wait_ms == 0);
    join(&line_a, &ws[1], "2", &cs[1], 20, 300);
    join(&line_a, &ws[2], "3", &cs[2], 30, 700);
    co_line_terms(&line_a, 50, &t);
    assert_true(t.waited_ms == 40 && t.wait_ms == 950 && t.next_waited_ms == 30 && t.next_wait_ms == 650);
    co_waitq_set_end(&queue, &cs[1].base, 2000);
    co_line_terms(&line_a, 50, &t);
    assert_true(t.wait_ms == 1950 && t.next_wait_ms == 1950);
    co_line_terms(&line_a, 5000, &t); /* who is still there still wants it */
    assert_true(t.wait_ms == 1 && t.next_wait_ms == 1);
}

static void what_is_due_first_comes_first(void **state)
{
    (void)state;
    assert_int_equal(co_waitq_next_ms(&queue), INT64_MAX);
    join(&line_a, &ws[0], "1", &cs[0], 0, 100);
    join(&line_b, &ws[1], "2", &cs[1], 0, 50);
    assert_int_equal(co_waitq_next_ms(&queue), 50);
    assert_null(co_waitq_ended(&queue, 49));
    assert_ptr_equal(co_waitq_ended(&queue, 50), &cs[1]);
    assert_ptr_equal(co_waitq_ended(&queue, 200), &cs[1]); /* until it leaves, or gets another end */
    co_waitq_set_end(&queue, &cs[1].base, 150);
    assert_ptr_equal(co_waitq_ended(&queue, 200), &cs[0]);
    co_waitq_try_at(&queue, &line_b, 30);
    co_waitq_try_at(&queue, &line_a, 20);
    assert_int_equal(co_waitq_next_ms(&queue), 20);
    assert_ptr_equal(co_waitq_due(&queue, 40), &line_a);
    assert_ptr_equal(co_waitq_due(&queue, 40), &line_b);
    assert_null(co_waitq_due(&queue, 40));
    assert_int_equal(co_waitq_next_ms(&queue), 100);
}

static void questions_are_asked_once_in_order(void **state)
{
    (void)state;
    const char *ids[] = {"1", "2", "3"};
    for (int i = 0; i < 3; i++) {
        join(&line_a, &ws[i], ids[i], &cs[i], i, 100);
        co_line_ask_later(&ws[i]);
    }
    co_waitq_leave(&queue, &cs[1].base);
    assert_ptr_equal(co_line_ask_next(&line_a), &ws[0]);
    assert_ptr_equal(co_line_ask_next(&line_a), &ws[2]);
    assert_null(co_line_ask_next(&line_a));
}

static void a_known_limit_is_kept(void **state)
{
    (void)state;
    const char *ids[] = {"1", "2", "3", "4", "5"};
    for (int i = 0; i < 4; i++) /* nothing is known yet */
        join(i % 2 ? &line_b : &line_a, &ws[i], ids[i], &cs[i], i, 100);
    assert_ptr_equal(co_line_surplus(&line_a, 2), &ws[3]); /* the last to come is the first to go */
    co_waitq_leave(&queue, &cs[3].base);
    assert_ptr_equal(co_line_surplus(&line_a, 2), &ws[2]);
    co_waitq_leave(&queue, &cs[2].base);
    assert_null(co_line_surplus(&line_a, 2));
    ws[4] = (struct co_waiter){.request_id = "5"};
    cs[4] = (struct caller){.serial = 0};
    assert_int_equal(co_waitq_join(&queue, &line_a, &ws[4], &cs[4].base, 9, 100), CO_OVER_QUOTA);
    assert_int_equal(co_waitq_merge(&queue, &ws[0], &cs[4].base, 100), CO_JOINED); /* no waiter more */
    join(&line_c, &ws[2], "3", &cs[2], 9, 100);                                    /* another namespace */
    assert_null(co_line_surplus(&line_a, 1)); /* those who are in stay, when the limit is lowered */
    assert_null(co_line_surplus(&line_a, 0));
    join(&line_a, &ws[3], "4", &cs[3], 9, 100);
}

static void there_is_a_bound_for_all(void **state)
{
    (void)state;
    queue.max_callers = 2;
    join(&line_a, &ws[0], "1", &cs[0], 0, 100);
    join(&line_c, &ws[1], "2", &cs[1], 0, 100);
    ws[2] = (struct co_waiter){.request_id = "3"};
    cs[2] = (struct caller){.serial = 0};
    assert_int_equal(co_waitq_join(&queue, &line_b, &ws[2], &cs[2].base, 0, 100), CO_FULL);
    assert_int_equal(co_waitq_merge(&queue, &ws[0], &cs[2].base, 100), CO_FULL);
    assert_int_equal(queue.n_callers, 2);
}

/* ---- against a plain list ---- */

enum { LINES = 6, IDS = 12, CALLERS = 300, STEPS = 60000 };

struct model_caller {
    struct caller caller; /* first */
    bool waits;
    int line, id;
    int64_t joined; /* a number: when its waiter came; those who merged have the same */
    int64_t since, end;
};

struct model {
    struct co_waitq queue;
    struct co_line lines[LINES];
    struct co_waiter *waiters[LINES][IDS];
    struct model_caller callers[CALLERS];
    char names[IDS][16];
    int64_t now, serial;
    struct hb_random random;
};

static int below(struct model *m, int bound)
{
    return (int)hb_random_below(&m->random, (uint64_t)bound);
}

static void model_join(struct model *m)
{
    struct model_caller *c = &m->callers[below(m, CALLERS)];
    if (c->waits)
        return;
    c->line = below(m, LINES);
    c->id = below(m, IDS);
    c->end = m->now + below(m, 500);
    struct co_waiter **waiter = &m->waiters[c->line][c->id];
    struct co_line *line = &m->lines[c->line];
    assert_ptr_equal(co_waitq_same(&m->queue, line, m->names[c->id]), *waiter);
    if (*waiter) {
        assert_int_equal(co_waitq_merge(&m->queue, *waiter, &c->caller.base, c->end), CO_JOINED);
        for (int i = 0; i < CALLERS; i++) {
            const struct model_caller *other = &m->callers[i];
            if (other->waits && other->line == c->line && other->id == c->id) {
                c->joined = other->joined;
                c->since = other->since;
            }
        }
    } else {
        *waiter = calloc(1, sizeof(**waiter));
        (*waiter)->request_id = m->names[c->id];
        assert_int_equal(co_waitq_join(&m->queue, line, *waiter, &c->caller.base, m->now, c->end), CO_JOINED);
        c->joined = ++m->serial;
        c->since = m->now;
    }
    c->waits = true;
}

static void model_leave(struct model *m, struct model_caller *c)
{
    struct co_waiter *waiter = c->caller.base.waiter;
    co_waitq_leave(&m->queue, &c->caller.base);
    c->waits = false;
    if (waiter->line)
        return;
    assert_ptr_equal(m->waiters[c->line][c->id], waiter);
    free(waiter);
    m->waiters[c->line][c->id] = NULL;
}

static void model_expire(struct model *m)
{
    struct co_caller *ended;
    m->now += below(m, 40);
    while ((ended = co_waitq_ended(&m->queue, m->now))) {
        struct model_caller *c = list_entry(ended, struct model_caller, caller.base);
        assert_true(c->waits && c->end <= m->now);
        for (int i = 0; i < CALLERS; i++)
            assert_false(m->callers[i].waits && m->callers[i].end < c->end); /* the earliest first */
        model_leave(m, c);
    }
    for (int i = 0; i < CALLERS; i++)
        assert_false(m->callers[i].waits && m->callers[i].end <= m->now);
}

static void assert_line(struct model *m, int l)
{
    const struct model_caller *head = NULL, *second = NULL;
    int64_t end = 0, next_end = 0, earliest = INT64_MAX;
    size_t callers = 0, waiters = 0;
    for (int i = 0; i < CALLERS; i++) {
        const struct model_caller *c = &m->callers[i];
        callers += c->waits;
        earliest = c->waits && c->end < earliest ? c->end : earliest;
        if (!c->waits || c->line != l)
            continue;
        end = c->end > end ? c->end : end;
        if (!head || c->joined < head->joined)
            head = c;
    }
    for (int i = 0; head && i < CALLERS; i++) {
        const struct model_caller *c = &m->callers[i];
        if (!c->waits || c->line != l || c->joined == head->joined)
            continue;
        next_end = c->end > next_end ? c->end : next_end;
        if (!second || c->joined < second->joined)
            second = c;
    }
    for (int i = 0; i < IDS; i++)
        waiters += m->waiters[l][i] != NULL;
    struct co_terms t;
    co_line_terms(&m->lines[l], m->now, &t);
    assert_int_equal(m->queue.n_callers, callers);
    assert_int_equal(co_waitq_next_ms(&m->queue), earliest);
    assert_int_equal(m->lines[l].waiters.count, waiters);
    assert_ptr_equal(co_line_head(&m->lines[l]), head ? m->waiters[l][head->id] : NULL);
    assert_int_equal(t.waited_ms, head ? m->now - head->since : 0);
    assert_int_equal(t.wait_ms, !head ? 0 : end > m->now ? end - m->now : 1);
    assert_int_equal(t.next_waited_ms, second ? m->now - second->since : 0);
    assert_int_equal(t.next_wait_ms, !second ? 0 : next_end > m->now ? next_end - m->now : 1);
}

static void it_does_what_a_plain_list_does(void **state)
{
    (void)state;
    static struct model m;
    static const char *const namespaces[] = {"n", "n", "n", "o", "o", "p"}, *const resources[] = {"a", "b", "c", "a", "b", "a"};
    hb_random_seed(&m.random, t_seed());
    co_waitq_init(&m.queue, CALLERS);
    for (int i = 0; i < IDS; i++)
        snprintf(m.names[i], sizeof(m.names[i]), "id%d", i);
    for (int i = 0; i < LINES; i++) {
        m.lines[i] = (struct co_line){.ns = namespaces[i], .resource = resources[i]};
        assert_true(co_waitq_open(&m.queue, &m.lines[i]));
    }
    for (int step = 0; step < STEPS; step++) {
        int what = below(&m, 10);
        struct model_caller *any = &m.callers[below(&m, CALLERS)];
        if (what < 6) {
            model_join(&m);
        } else if (what < 8 && any->waits) {
            model_leave(&m, any);
        } else if (what == 8 && any->waits) {
            any->end = m.now + 1 + below(&m, 500);
            co_waitq_set_end(&m.queue, &any->caller.base, any->end);
        } else if (what == 9) {
            model_expire(&m);
        }
        if (step % 8 == 0)
            assert_line(&m, below(&m, LINES));
    }
    for (int i = 0; i < CALLERS; i++)
        if (m.callers[i].waits)
            model_leave(&m, &m.callers[i]);
    for (int i = 0; i < LINES; i++)
        co_waitq_close(&m.queue, &m.lines[i]);
    assert_int_equal(m.queue.n_waiters + m.queue.lines.n + m.queue.waiters.n + m.queue.scopes.n, 0);
    co_waitq_release(&m.queue);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_first_to_come_is_the_head),
        T(those_with_one_id_are_one_waiter),
        T(terms_tell_of_the_whole_line_and_of_the_rest),
        T(what_is_due_first_comes_first),
        T(questions_are_asked_once_in_order),
        T(a_known_limit_is_kept),
        T(there_is_a_bound_for_all),
        cmocka_unit_test(it_does_what_a_plain_list_does),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
