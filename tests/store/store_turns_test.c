/*
 * store_turns_test.c - two servers on one database: who waits is told when the turn is his, and nobody else is.
 */
#include "store/store_env.h"

static struct st_store *second;

struct turns {
    int n;
    char last[300];
};
static struct turns mine, others;

static void on_turn(void *arg, const char *ns, const char *resource)
{
    struct turns *turns = arg;
    turns->n++;
    snprintf(turns->last, sizeof(turns->last), "%s/%s", ns, resource);
}

static struct st_stats stats_both[2];

static bool both_listen(void)
{
    st_stats(store, &stats_both[0]);
    st_stats(second, &stats_both[1]);
    return stats_both[0].listening && stats_both[1].listening && stats_both[0].connections_ready && stats_both[1].connections_ready;
}

static int turns_setup(void **state)
{
    int rc = setup(state);
    second = st_open(&(struct st_config){.dsn = dsn, .connections = 1}, io, NULL, NULL);
    assert_non_null(second);
    memset(&mine, 0, sizeof(mine));
    memset(&others, 0, sizeof(others));
    st_on_turn(store, on_turn, &mine);
    st_on_turn(second, on_turn, &others);
    run_until(both_listen, LONG_MS);
    return rc;
}

static int turns_teardown(void **state)
{
    st_close(second);
    second = NULL;
    return teardown(state);
}

#define TURNS_TEST(name) cmocka_unit_test_setup_teardown(name, turns_setup, turns_teardown)

/* One item, on one of the two. */
static enum st_outcome call_on(struct st_store *on, struct work *work)
{
    struct st_store *first = store;
    store = on;
    enum st_outcome outcome = call(work);
    store = first;
    return outcome;
}

static enum st_outcome acquire_on(struct st_store *on, struct work *work, const char *name, int64_t wait_ms)
{
    prepare_acquire(work, name, t_printf("%s", st_server_id(on)));
    work->item.in.acquire.wait_ms = wait_ms;
    return call_on(on, work);
}

static enum st_outcome release_on(struct st_store *on, const char *name, int64_t token)
{
    static struct work work;
    prepare(&work, ST_RELEASE, name)->in.release.token = token;
    return call_on(on, &work);
}

static int want_mine, want_others;

static bool all_told(void)
{
    return mine.n >= want_mine && others.n >= want_others;
}

static void wait_for_turns(int of_mine, int of_others)
{
    want_mine = of_mine;
    want_others = of_others;
    run_until(all_told, LONG_MS);
    assert_int_equal(mine.n, of_mine);
    assert_int_equal(others.n, of_others);
}

static void ids_differ(void **state)
{
    (void)state;
    assert_int_equal(strlen(st_server_id(store)), 16);
    assert_int_equal(strspn(st_server_id(store), "0123456789abcdef"), 16);
    assert_string_not_equal(st_server_id(store), st_server_id(second));
}

static void a_release_on_one_wakes_the_other(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("r");
    assert_int_equal(acquire_on(second, &w, "r", 10000), ST_HELD);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.waiter WHERE server = '%s'", st_server_id(second)), 1);
    int64_t begin = t_now_ms();
    assert_int_equal(release_on(store, "r", token), ST_FREED);
    wait_for_turns(0, 1);
    assert_true(t_now_ms() - begin < T_AT_ONCE_MS);
    assert_string_equal(others.last, "default/r");
    /* Until it takes its turn, or that is over, nobody else gets it. */
    assert_int_equal(acquire_on(second, &w, "r", 10000), ST_GRANTED);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.waiter"), 0);
    assert_int_equal(acquire_on(store, &w, "r", 0), ST_HELD);
    assert_int_equal(release_on(second, "r", token + 1), ST_FREED);
    assert_int_equal(acquire_on(store, &w, "r", 0), ST_GRANTED);
    wait_for_turns(0, 1);
}

/* From now on, whatever it was. */
static void turn_lasts(const char *interval)
{
    assert_string_equal(
        t_sql(sql, "UPDATE holdfast.waiter SET turn_until = holdfast.clock() + interval '%s' RETURNING resource", interval), "r");
}

static void look_reserved(struct st_item *item)
{
    assert_string_equal(item->out.acquire.holder, "");
    assert_in_range(item->out.acquire.remaining_ms, 1, 60000);
}

static void a_turn_is_nobody_elses(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("r");
    assert_int_equal(acquire_on(second, &w, "r", 10000), ST_HELD);
    assert_int_equal(release_on(store, "r", token), ST_FREED);
    turn_lasts("60 s");
    prepare_acquire(&w, "r", "another");
    w.look = look_reserved;
    assert_int_equal(call(&w), ST_HELD);
    turn_lasts("-1 ms");
    assert_int_equal(acquire_on(store, &w, "r", 0), ST_GRANTED);
}

static void our_own_turn_takes_no_notification(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("r");
    assert_int_equal(acquire_on(store, &w, "r", 10000), ST_HELD);
    assert_int_equal(release_on(store, "r", token), ST_FREED);
    wait_for_turns(1, 0);
    assert_string_equal(mine.last, "default/r");
    struct st_stats stats;
    st_stats(store, &stats);
    assert_int_equal(stats.notify_batches, 0);
    /* Break frees too. */
    assert_int_equal(acquire_on(store, &w, "r", 10000), ST_GRANTED);
    prepare_acquire(&w, "r", "behind");
    w.item.in.acquire.wait_ms = 10000;
    assert_int_equal(call(&w), ST_HELD);
    prepare(&w, ST_BREAK, "r")->in.brk.token_seen = token + 1;
    w.item.in.brk.actor = w.item.in.brk.reason = "test";
    assert_int_equal(call(&w), ST_BREAK_DONE);
    wait_for_turns(2, 0);
}

static void who_leaves_passes_the_turn_on(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("r");
    assert_int_equal(acquire_on(second, &w, "r", 10000), ST_HELD);
    t_sleep_ms(5);
    assert_int_equal(acquire_on(store, &w, "r", 10000), ST_HELD);
    assert_int_equal(release_on(store, "r", token), ST_FREED);
    wait_for_turns(0, 1); /* waited longer */
    prepare(&w, ST_LEAVE, "r");
    assert_int_equal(call_on(second, &w), ST_FREED);
    wait_for_turns(1, 1);
    prepare(&w, ST_LEAVE, "r");
    assert_int_equal(call_on(second, &w), ST_NOT_FREED);
    assert_int_equal(acquire_on(store, &w, "r", 0), ST_GRANTED);
}

static void who_has_waited_longest_comes_first(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("r");
    assert_int_equal(acquire_on(store, &w, "r", 10000), ST_HELD);
    prepare_acquire(&w, "r", "old");
    w.item.in.acquire.wait_ms = 10000;
    w.item.in.acquire.waited_ms = 60000;
    assert_int_equal(call_on(second, &w), ST_HELD);
    assert_int_equal(release_on(store, "r", token), ST_FREED);
    wait_for_turns(0, 1);
    /* It takes it, and one is left in its queue. */
    prepare_acquire(&w, "r", "old");
    w.item.in.acquire.next_wait_ms = 10000;
    assert_int_equal(call_on(second, &w), ST_GRANTED);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.waiter"), 2);
    assert_int_equal(release_on(second, "r", token + 1), ST_FREED);
    wait_for_turns(1, 1);
}

static void whoever_is_queued_is_not_granted(void **state)
{
    (void)state;
    struct work w;
    prepare_acquire(&w, "r", "first");
    w.item.in.acquire.queued = true;
    assert_int_equal(call(&w), ST_HELD);
    const char *const names[] = {"s", "r"};
    bool queued[] = {true, false};
    int64_t tokens[2];
    prepare_acquire(&w, "s", "both");
    w.item.kind = ST_ACQUIRE_ALL;
    w.item.in.acquire.resources = names;
    w.item.in.acquire.n_resources = 2;
    w.item.in.acquire.queued_each = queued;
    w.item.out.acquire.tokens = tokens;
    assert_int_equal(call(&w), ST_HELD);
    assert_int_equal(w.item.out.acquire.which, 0);
    w.item.in.acquire.queued_each = NULL;
    w.done = 0;
    assert_int_equal(call(&w), ST_GRANTED);
}

static void a_grant_nobody_was_told_of_is_freed(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("told"), untold = acquire("untold");
    prepare_acquire(&w, "told", "request");
    assert_int_equal(call(&w), ST_REPEATED);
    prepare(&w, ST_RELEASE, "told")->in.release.token = token;
    w.item.in.release.unless_repeated = true;
    assert_int_equal(call(&w), ST_NOT_FREED);
    prepare(&w, ST_RELEASE, "untold")->in.release.token = untold;
    w.item.in.release.unless_repeated = true;
    assert_int_equal(call(&w), ST_FREED);
}

/* ------------------------------------------------------------------------------------------------ many at once */

enum { MANY = 500 };

static void many_turns_few_notifications(void **state)
{
    (void)state;
    static struct work works[MANY];
    static int64_t tokens[MANY];
    for (int i = 0; i < MANY; i++)
        submit_acquire(&works[i], t_printf("r%d", i));
    run_until(all_done, LONG_MS);
    for (int i = 0; i < MANY; i++)
        tokens[i] = works[i].item.out.acquire.token;
    struct st_store *first = store;
    store = second;
    for (int i = 0; i < MANY; i++) {
        prepare_acquire(&works[i], t_printf("r%d", i), "second");
        works[i].item.in.acquire.wait_ms = 10000;
        submit(&works[i]);
    }
    run_until(all_done, LONG_MS);
    store = first;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(works[i].item.outcome, ST_HELD);
        prepare(&works[i], ST_RELEASE, t_printf("r%d", i))->in.release.token = tokens[i];
        submit(&works[i]);
    }
    run_until(all_done, LONG_MS);
    wait_for_turns(0, MANY);
    struct st_stats stats;
    st_stats(store, &stats);
    assert_int_equal(stats.notes_sent, MANY);
    assert_in_range(stats.notify_batches, 1, 4);
}

static bool listens_again(void)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return stats.listening && *t_sql(sql, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfastd listener' AND "
                                          "datname = current_database() OFFSET 1");
}

static bool does_not_listen(void)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return !stats.listening;
}

/* The turn is lost with it, and costs one poll; the release isn't delayed. */
static void without_a_listener_turns_are_found_by_polling(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("r");
    assert_int_equal(acquire_on(second, &w, "r", 10000), ST_HELD);
    t_sql(sql, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfastd listener' AND datname = "
               "current_database()");
    run_until(does_not_listen, LONG_MS);
    assert_int_equal(release_on(store, "r", token), ST_FREED);
    assert_int_equal(acquire_on(second, &w, "r", 10000), ST_GRANTED);
    run_until(listens_again, LONG_MS);
    assert_int_equal(acquire_on(store, &w, "r", 10000), ST_HELD);
    assert_int_equal(release_on(second, "r", token + 1), ST_FREED);
    want_mine = 1;
    want_others = 0;
    run_until(all_told, LONG_MS);
    assert_int_equal(mine.n, 1);
    assert_true(others.n <= 1); /* of the first release, if both were listening again before its turn was told */
}

static bool queue_is_empty(void)
{
    return t_sql_int(sql, "SELECT (pg_notification_queue_usage() * 1e9)::bigint") == 0;
}

/* A listener that didn't read would hold up the queue of the whole database. */
static void the_listener_reads_whatever_comes(void **state)
{
    (void)state;
    t_sql(sql, "SELECT pg_notify('holdfast_%s', 'default' || chr(31) || repeat('r', 250) || i) FROM generate_series(1, 20000) i",
          st_server_id(store));
    t_sql(sql, "SELECT pg_notify('holdfast_%s', v) FROM (VALUES (''), ('nonsense'), (repeat('x', 7000))) x(v)",
          st_server_id(store));
    wait_for_turns(20000, 0);
    run_until(queue_is_empty, LONG_MS);
}

static struct work from_turn;

static void acquire_in_turn(void *arg, const char *ns, const char *resource)
{
    on_turn(arg, ns, resource);
    submit_acquire(&from_turn, resource);
}

static void what_a_turn_calls_for_can_be_done_in_it(void **state)
{
    (void)state;
    struct work w;
    st_on_turn(store, acquire_in_turn, &mine);
    int64_t token = acquire("r");
    assert_int_equal(acquire_on(store, &w, "r", 10000), ST_HELD);
    prepare(&w, ST_RELEASE, "r")->in.release.token = token;
    submit(&w);
    wait_for_turns(1, 0);
    run_until(all_done, LONG_MS);
    assert_int_equal(from_turn.item.outcome, ST_ENDED); /* the request of the first grant */
    /* Nobody is called once nobody wants to be, and nothing is kept for him. */
    st_on_turn(store, NULL, NULL);
    assert_int_equal(acquire_on(store, &w, "r", 10000), ST_GRANTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TURNS_TEST(ids_differ),
        TURNS_TEST(a_release_on_one_wakes_the_other),
        TURNS_TEST(a_turn_is_nobody_elses),
        TURNS_TEST(our_own_turn_takes_no_notification),
        TURNS_TEST(who_leaves_passes_the_turn_on),
        TURNS_TEST(who_has_waited_longest_comes_first),
        TURNS_TEST(whoever_is_queued_is_not_granted),
        TURNS_TEST(a_grant_nobody_was_told_of_is_freed),
        TURNS_TEST(many_turns_few_notifications),
        TURNS_TEST(without_a_listener_turns_are_found_by_polling),
        TURNS_TEST(the_listener_reads_whatever_comes),
        TURNS_TEST(what_a_turn_calls_for_can_be_done_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
