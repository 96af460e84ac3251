/*
 * store_slow_test.c - the slow lane: busy rows are polled until their caller's patience ends, and delay nobody.
 */
#include "store/store_env.h"

enum { NEIGHBOURS = 64 };
static struct work busy, neighbours[NEIGHBOURS];
static PGconn *other;

static void begin(const char *text)
{
    other = t_connect(dsn);
    t_sql(other, "BEGIN; %s", text);
}

static void end(void)
{
    t_sql(other, "ROLLBACK");
    PQfinish(other);
    other = NULL;
}

static bool neighbours_are_done(void)
{
    for (int i = 0; i < NEIGHBOURS; i++) {
        if (!neighbours[i].done)
            return false;
    }
    return true;
}

static void acquire_neighbours(const char *prefix)
{
    for (int i = 0; i < NEIGHBOURS; i++)
        submit_acquire(&neighbours[i], t_printf("%s-%d", prefix, i));
    run_until(neighbours_are_done, LONG_MS);
    for (int i = 0; i < NEIGHBOURS; i++)
        assert_int_equal(neighbours[i].item.outcome, ST_GRANTED);
}

static bool polled_often(void)
{
    return stats_of(ST_ACQUIRE).busy >= 10;
}

/* The row is locked the whole time; what is new passes in one batch each time, as if it weren't there. */
static void a_locked_row_delays_nobody(void **state)
{
    (void)state;
    acquire("locked");
    begin("SELECT FROM holdfast.resource WHERE name = 'locked' FOR SHARE");
    submit_acquire(&busy, "locked");
    acquire_neighbours("a"); /* one batch with it */
    struct st_kind_stats first = stats_of(ST_ACQUIRE);
    assert_int_equal(first.batches - first.slow, 2); /* one to make the lease */
    for (int round = 0; round < 20; round++)
        acquire_neighbours(t_printf("b%d", round));
    struct st_kind_stats then = stats_of(ST_ACQUIRE);
    assert_int_equal(then.batches - then.slow, 22);
    assert_in_range(then.items - then.busy - (1 + 21 * NEIGHBOURS), 0, 1); /* one may be on its way just now */
    assert_int_equal(then.splits, 0);
    assert_int_equal(busy.done, 0);
    run_until(polled_often, LONG_MS);
    end();
    run_until(all_done, LONG_MS);
    assert_int_equal(busy.item.outcome, ST_REPEATED);
    then = stats_of(ST_ACQUIRE);
    assert_int_equal(then.batches - then.slow, 22);
    assert_int_equal(then.busy, then.slow); /* the first one found it locked, the last one didn't */
}

static void patience_ends_before_the_deadline(void **state)
{
    (void)state;
    struct work release;
    int64_t token = acquire("locked");
    begin("SELECT FROM holdfast.resource WHERE name = 'locked' FOR SHARE");
    prepare(&release, ST_RELEASE, "locked")->in.release.token = token;
    release.item.patience_ms = t_now_ms() + 500;
    assert_int_equal(call(&release), ST_BUSY);
    assert_true(release.done_ms <= release.item.patience_ms + T_AT_ONCE_MS);
    assert_true(release.done_ms >= release.item.patience_ms - 150); /* no other try would have come before */
    /* At most one try in 5 ms, and about one in 100 if the machine lets it. */
    assert_in_range(stats_of(ST_RELEASE).busy, 2, 100);
    /* No patience at all: one try. */
    prepare(&release, ST_RELEASE, "locked")->in.release.token = token;
    release.item.patience_ms = t_now_ms();
    assert_int_equal(call(&release), ST_BUSY);
    /* By default the deadline is the end. */
    prepare(&release, ST_RELEASE, "locked")->in.release.token = token;
    release.item.deadline_ms = t_now_ms() + 300;
    assert_int_equal(call(&release), ST_BUSY);
    assert_true(release.done_ms <= release.item.deadline_ms + T_AT_ONCE_MS);
    end();
    prepare(&release, ST_RELEASE, "locked")->in.release.token = token;
    assert_int_equal(call(&release), ST_FREED);
}

/* The inserter holds up whoever wants to insert the same: SKIP LOCKED doesn't help, lock_timeout does, once. */
static void another_ones_insert_is_met_alone(void **state)
{
    (void)state;
    begin("INSERT INTO holdfast.resource (namespace, name) VALUES ('default', 'inserted')");
    submit_acquire(&busy, "inserted");
    acquire_neighbours("a");
    struct st_kind_stats first = stats_of(ST_ACQUIRE);
    assert_in_range(first.splits, 1, 7);
    for (int round = 0; round < 20; round++)
        acquire_neighbours(t_printf("b%d", round));
    struct st_kind_stats then = stats_of(ST_ACQUIRE);
    assert_int_equal(then.splits, first.splits);
    assert_int_equal(then.batches - then.slow, first.batches - first.slow + 20);
    assert_int_equal(busy.done, 0);
    end();
    run_until(all_done, LONG_MS);
    assert_int_equal(busy.item.outcome, ST_GRANTED);
    assert_int_equal(stats_of(ST_ACQUIRE).splits, first.splits);
}

/* A lease row locked by somebody: the optimistic form would wait for it, so from then on all take the careful one. */
static void a_locked_lease_is_renewed_carefully(void **state)
{
    (void)state;
    enum { N = 16 };
    struct work renewals[N];
    int64_t tokens[N];
    for (int i = 0; i < N; i++)
        tokens[i] = acquire(t_printf("r%d", i));
    begin("SELECT FROM holdfast.lease WHERE resource = 'r7' FOR UPDATE");
    for (int i = 0; i < N; i++) {
        struct st_item *item = prepare(&renewals[i], ST_RENEW, t_printf("r%d", i));
        item->in.renew.token = tokens[i];
        item->in.renew.ttl_ms = 90000;
        if (i == 7)
            item->patience_ms = t_now_ms() + 300;
        submit(&renewals[i]);
    }
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(renewals[i].item.outcome, i == 7 ? ST_BUSY : ST_RENEWED);
    struct st_kind_stats stats = stats_of(ST_RENEW);
    assert_int_equal(stats.splits, 0);
    assert_int_equal(stats.retries, 1); /* the careful form, at once for all */
    assert_true(stats.busy > 2);
    end();
    prepare(&renewals[7], ST_RENEW, "r7")->in.renew.token = tokens[7];
    renewals[7].item.in.renew.ttl_ms = 90000;
    assert_int_equal(call(&renewals[7]), ST_RENEWED);
}

static bool two_seconds_have_passed(void)
{
    return t_now_ms() >= until_ms - LONG_MS + 2000;
}

/* guard() in a user's transaction: writes and takeovers of that resource wait, and then pass. */
static void a_guard_of_two_seconds_is_waited_for(void **state)
{
    (void)state;
    struct work taken;
    prepare_acquire(&taken, "guarded", "short");
    taken.item.in.acquire.ttl_ms = 1000;
    assert_int_equal(call(&taken), ST_GRANTED);
    begin("SELECT FROM holdfast.resource WHERE name = 'guarded' FOR SHARE");
    prepare_acquire(&busy, "guarded", "takeover");
    submit(&busy);
    run_until(two_seconds_have_passed, LONG_MS);
    assert_int_equal(busy.done, 0);
    int64_t unlocked = t_now_ms();
    end();
    run_until(all_done, LONG_MS);
    assert_int_equal(busy.item.outcome, ST_GRANTED);
    assert_in_range(busy.done_ms - unlocked, 0, T_AT_ONCE_MS); /* a poll is at most 100 ms away */
}

/* Items that are polled count as waiting: they don't make room for more. */
static void the_slow_lane_is_bounded(void **state)
{
    (void)state;
    enum { N = 10 };
    static struct work works[N], more;
    for (int i = 0; i < N; i++)
        acquire(t_printf("r%d", i));
    reopen(&(struct st_config){.max_queue = N});
    begin("SELECT FROM holdfast.resource FOR SHARE");
    for (int i = 0; i < N; i++) {
        prepare_acquire(&works[i], t_printf("r%d", i), "request");
        works[i].item.patience_ms = t_now_ms() + LONG_MS;
        submit(&works[i]);
    }
    run_until(polled_often, LONG_MS);
    for (int i = 0; i < 20; i++) {
        prepare_acquire(&more, "more", "request");
        submit(&more);
        wait_for(&more);
        assert_int_equal(more.item.outcome, ST_QUEUE_FULL);
    }
    end();
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(works[i].item.outcome, ST_REPEATED);
    acquire("more");
}

static void break_names_who_is_in_the_way(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("locked");
    begin("SELECT FROM holdfast.resource WHERE name = 'locked' FOR SHARE");
    prepare(&w, ST_BREAK, "locked")->in.brk.token_seen = token;
    w.item.in.brk.actor = w.item.in.brk.reason = "test";
    assert_int_equal(call(&w), ST_BREAK_BLOCKED);
    assert_int_equal(w.item.out.brk.pid, PQbackendPID(other));
    end();
}

static int closing_teardown(void **state)
{
    PQfinish(other);
    other = NULL;
    return teardown(state);
}

#define SLOW_TEST(name) cmocka_unit_test_setup_teardown(name, setup, closing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SLOW_TEST(a_locked_row_delays_nobody),           SLOW_TEST(patience_ends_before_the_deadline),
        SLOW_TEST(another_ones_insert_is_met_alone),     SLOW_TEST(a_locked_lease_is_renewed_carefully),
        SLOW_TEST(a_guard_of_two_seconds_is_waited_for), SLOW_TEST(the_slow_lane_is_bounded),
        SLOW_TEST(break_names_who_is_in_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
