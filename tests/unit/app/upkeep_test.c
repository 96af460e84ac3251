/*
 * upkeep_test.c - what is done again and again: when, how often, and after a failure, with a clock and a store of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "app/upkeep.h"
#include "unit/app/logged.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };

/* A clock, one timer, and a store that answers when it is told to. */
static struct {
    struct io io;
    int64_t now;
    struct io_timer *timer;
    int64_t at;

    struct st_item *given[8];
    size_t n_given;
    int submitted[ST_KINDS], looks;
    int64_t wakes;
} fake;

static struct app_upkeep upkeep;
static void timer_set(struct io *io, struct io_timer *timer, int64_t at_ms)
{
    (void)io;
    fake.timer = timer;
    fake.at = at_ms;
}

static void timer_cancel(struct io *io, struct io_timer *timer)
{
    (void)io;
    assert_ptr_equal(timer, &upkeep.timer);
    fake.timer = NULL;
}

static int64_t now_ms(struct io *io)
{
    (void)io;
    return fake.now;
}

static void submit(void *arg, struct st_item *item)
{
    assert_ptr_equal(arg, &fake);
    assert_string_equal(item->ns, "");
    assert_true(item->deadline_ms > fake.now);
    assert_true(fake.n_given < 8);
    fake.given[fake.n_given++] = item;
    fake.submitted[item->kind]++;
}

static void look(void *arg)
{
    assert_ptr_equal(arg, &fake);
    fake.looks++;
}

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.io = (struct io){.timer_set = timer_set, .timer_cancel = timer_cancel, .now_ms = now_ms};
    fake.now = 5000000;
    keep_log(LOG_AT_INFO);
    app_upkeep_start(&upkeep, &fake.io, submit, look, &fake);
    return 0;
}

/* Every item given ends, with an outcome and rows for those of one kind. */
static void answer(enum st_kind kind, enum st_outcome outcome, int64_t rows)
{
    while (fake.n_given) {
        struct st_item *item = fake.given[--fake.n_given];
        item->outcome = item->kind == kind ? outcome : ST_FOUND;
        item->out.done.rows = item->kind == kind ? rows : 0;
        item->done(item);
    }
}

/* Time passes; whatever is due is done at once, with this outcome for items of `kind`. */
static void pass(int64_t ms, enum st_kind kind, enum st_outcome outcome, int64_t rows)
{
    int64_t end = fake.now + ms;
    while (fake.timer && fake.at <= end) {
        struct io_timer *timer = fake.timer;
        fake.now = fake.at > fake.now ? fake.at : fake.now;
        fake.timer = NULL;
        fake.wakes++;
        timer->fire(timer);
        answer(kind, outcome, rows);
    }
    fake.now = end;
}

static void between(int64_t value, int64_t least, int64_t most)
{
    if (value < least || value > most)
        fail_msg("%lld is not from %lld to %lld", (long long)value, (long long)least, (long long)most);
}

static void test_a_day(void **state)
{
    (void)state;
    pass(0, ST_KINDS, ST_FOUND, 0);
    assert_int_equal(fake.submitted[ST_MAKE_PARTITIONS], 1); /* at start */
    pass(APP_DROP_FIRST_MS, ST_KINDS, ST_FOUND, 0);
    assert_int_equal(fake.submitted[ST_DROP_PARTITIONS], 1); /* soon, for servers that never live for a day */
    pass(24 * HOUR - APP_DROP_FIRST_MS, ST_KINDS, ST_FOUND, 0);
    between(fake.submitted[ST_SWEEP], 24 * 360 * 10 / 11, 24 * 360 * 10 / 9);
    between(fake.submitted[ST_MAKE_PARTITIONS], 24, 25);
    between(fake.submitted[ST_DROP_PARTITIONS], 1, 2);
    assert_int_equal(fake.looks, fake.submitted[ST_SWEEP]);
    /* No other wake-ups. */
    assert_true(fake.wakes <= fake.submitted[ST_SWEEP] + fake.submitted[ST_MAKE_PARTITIONS] + fake.submitted[ST_DROP_PARTITIONS]);
    assert_string_equal(logged, "");
}

static void test_inputs(void **state)
{
    (void)state;
    while (fake.n_given < 3) {
        fake.now = fake.at;
        fake.timer->fire(fake.timer);
    }
    for (size_t i = 0; i < 3; i++) {
        const struct st_item *item = fake.given[i];
        if (item->kind == ST_SWEEP)
            assert_int_equal(item->in.sweep.max, APP_SWEEP_ROWS);
        else if (item->kind == ST_MAKE_PARTITIONS)
            assert_int_equal(item->in.partitions.months_ahead, APP_MONTHS_AHEAD);
        else
            assert_int_equal(item->kind, ST_DROP_PARTITIONS);
    }
    assert_true(app_upkeep_busy(&upkeep));
    answer(ST_KINDS, ST_FOUND, 0);
    assert_false(app_upkeep_busy(&upkeep));
}

/* A full portion is followed by the next one soon, so a backlog goes at 10,000 rows a second. */
static void test_backlog(void **state)
{
    (void)state;
    pass(APP_SWEEP_MS, ST_SWEEP, ST_FOUND, APP_SWEEP_ROWS - 1);
    int before = fake.submitted[ST_SWEEP];
    pass(30 * SECOND, ST_SWEEP, ST_FOUND, APP_SWEEP_ROWS);
    assert_true(fake.submitted[ST_SWEEP] - before > 150);
    before = fake.submitted[ST_SWEEP];
    pass(30 * SECOND, ST_SWEEP, ST_FOUND, 0);
    between(fake.submitted[ST_SWEEP] - before, 2, 5);
}

static void test_never_two_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 1000 && fake.timer; i++) {
        fake.now = fake.at > fake.now ? fake.at : fake.now;
        struct io_timer *timer = fake.timer;
        fake.timer = NULL;
        timer->fire(timer);
    }
    assert_null(fake.timer); /* all are running: nothing to wake for */
    assert_int_equal(fake.n_given, APP_JOBS);
    answer(ST_KINDS, ST_FOUND, 0);
    assert_non_null(fake.timer);
}

static void test_failure(void **state)
{
    (void)state;
    pass(0, ST_MAKE_PARTITIONS, ST_FAILED, 0);
    assert_int_equal(fake.submitted[ST_MAKE_PARTITIONS], 1);
    pass(10 * MINUTE, ST_MAKE_PARTITIONS, ST_FAILED, 0);
    between(fake.submitted[ST_MAKE_PARTITIONS], 9, 13); /* each minute, not each hour */
    const char *first = strstr(logged, "event=app.upkeep_failed job=make_partitions outcome=104");
    assert_non_null(first);
    assert_null(strstr(first + 8, "event=app.upkeep_failed")); /* told once */

    /* A database that is away is told of by the store. */
    logged[0] = '\0';
    pass(10 * MINUTE, ST_SWEEP, ST_DATABASE_DOWN, 0);
    assert_string_equal(logged, "");
    pass(HOUR + HOUR / 10, ST_MAKE_PARTITIONS, ST_FOUND, 3);
    assert_non_null(strstr(logged, "event=app.upkeep job=make_partitions rows=3"));
}

static void test_stop(void **state)
{
    (void)state;
    fake.now = fake.at;
    fake.timer->fire(fake.timer);
    app_upkeep_stop(&upkeep);
    assert_null(fake.timer);
    answer(ST_KINDS, ST_OUTCOME_LOST, 0);
    assert_null(fake.timer);
    struct app_upkeep zeroed = {0};
    app_upkeep_stop(&zeroed);
    assert_false(app_upkeep_busy(&zeroed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_day, setup),   cmocka_unit_test_setup(test_inputs, setup),
        cmocka_unit_test_setup(test_backlog, setup), cmocka_unit_test_setup(test_never_two_at_once, setup),
        cmocka_unit_test_setup(test_failure, setup), cmocka_unit_test_setup(test_stop, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
