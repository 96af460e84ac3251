/*
 * follow_test.c - following the audit trail on a real PostgreSQL: nothing is missed and nothing told twice, whatever the order of
 * the commits, over rolled-back ids, restarts of the database and the border of a month; what cannot be vouched for is told as
 * lost; and one query serves all, and none nobody.
 */
#include "store/store_env.h"

#include "base/random.h"
#include "store/follow.h"
#include "store/sql.h"

enum { EVENTS_MAX = 20000, ID_BYTES = 32 };

struct seen {
    int64_t id, token, prior;
    enum st_lease_event_kind kind;
    char resource[64], actor[64], detail[64];
    int64_t at_ms;
};

static struct follower {
    struct st_follow base;
    int begun, lost;
    size_t n, wanted;
    struct seen events[EVENTS_MAX];
} one, two;

static struct follower *at; /* whom the conditions are about */

static struct follower *follower_of(struct st_follow *follow)
{
    return list_entry(follow, struct follower, base);
}

static void on_begun(struct st_follow *follow)
{
    follower_of(follow)->begun++;
}

static void on_lost(struct st_follow *follow, const char *why)
{
    assert_true(strlen(why) > 0);
    follower_of(follow)->lost++;
}

static void on_told(struct st_follow *follow, const struct st_lease_event *events, size_t n)
{
    struct follower *f = follower_of(follow);
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || events[i].id > events[i - 1].id);
        assert_true(f->n < EVENTS_MAX);
        struct seen *seen = &f->events[f->n++];
        *seen = (struct seen){
            .id = events[i].id, .token = events[i].token, .prior = events[i].prior, .kind = events[i].kind, .at_ms = t_now_ms()};
        assert_string_equal(events[i].ns, "default");
        snprintf(seen->resource, sizeof(seen->resource), "%s", events[i].resource);
        snprintf(seen->actor, sizeof(seen->actor), "%s", events[i].actor);
        snprintf(seen->detail, sizeof(seen->detail), "%s", events[i].detail);
    }
}

static bool has_begun(void)
{
    return at->begun > at->lost;
}

static bool is_lost(void)
{
    return at->lost > 0;
}

static bool has_enough(void)
{
    return at->n >= at->wanted;
}

static struct st_follow_stats follow_stats(void)
{
    struct st_follow_stats stats;
    st_follow_stats(store, &stats);
    return stats;
}

static bool nothing_is_open(void)
{
    return follow_stats().open == 0;
}

static bool something_is_open(void)
{
    return follow_stats().open > 0;
}

static void begin(struct follower *f, struct st_store *with)
{
    memset(f, 0, sizeof(*f));
    f->base = (struct st_follow){.begun = on_begun, .told = on_told, .lost = on_lost};
    at = f;
    st_follow(with, &f->base);
    run_until(has_begun, LONG_MS);
}

/* All events up to now have been told: `n` of them. */
static void await(struct follower *f, size_t n)
{
    at = f;
    f->wanted = n;
    run_until(has_enough, LONG_MS);
    assert_int_equal(f->n, n);
}

static int64_t looks_wanted;

static bool has_looked(void)
{
    return follow_stats().looks >= looks_wanted;
}

/* What was committed before is told, if ever. */
static void look_twice(void)
{
    looks_wanted = follow_stats().looks + 3;
    run_until(has_looked, LONG_MS);
}

static void acquire_by(PGconn *conn, const char *name)
{
    assert_string_equal(t_sql(conn,
                              "SELECT outcome FROM holdfast.acquire_batch('{default}', '{%s}', '{task}', '{%s-holder}', '{60000}', "
                              "ARRAY['%s' || clock_timestamp()], '{NULL}', 's', NULL, NULL, NULL, NULL, NULL)",
                              name, name, name),
                        "1");
}

static void assert_event(const struct seen *seen, enum st_lease_event_kind kind, const char *resource)
{
    assert_int_equal(seen->kind, kind);
    assert_string_equal(seen->resource, resource);
}

/* What the trail has of leases, behind `after`, is exactly what was told; of one resource in its order. */
static void assert_whole(const struct follower *f, int64_t after)
{
    char *want =
        t_sql(sql, "SELECT count(*) FROM holdfast.audit WHERE id > %lld AND holdfast.trail_kind(kind) > 0", (long long)after);
    assert_int_equal(f->n, strtoll(want, NULL, 10));
    PGresult *res =
        ts_query(sql, t_printf("SELECT id, resource, token, holdfast.trail_kind(kind) FROM holdfast.audit WHERE id > %lld "
                               "AND holdfast.trail_kind(kind) > 0",
                               (long long)after));
    for (int row = 0; row < PQntuples(res); row++) {
        size_t i = 0;
        while (i < f->n && f->events[i].id != ts_int(res, row, 0))
            i++;
        assert_true(i < f->n);
        assert_string_equal(f->events[i].resource, PQgetvalue(res, row, 1));
        assert_int_equal(f->events[i].token, ts_int(res, row, 2));
        assert_int_equal(f->events[i].kind, ts_int(res, row, 3));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(f->events[j].resource, f->events[i].resource) == 0 && f->events[j].id >= f->events[i].id)
                fail_msg("%s: id %lld was told after %lld", f->events[i].resource, (long long)f->events[i].id,
                         (long long)f->events[j].id);
        }
    }
    PQclear(res);
}

/* ------------------------------------------------------------------------------------------------ what is told */

static void leases_are_told_as_they_go(void **state)
{
    (void)state;
    acquire("before");
    begin(&one, store);
    int64_t token = acquire("r");
    await(&one, 1);
    assert_event(&one.events[0], ST_EVENT_GRANT, "r");
    assert_int_equal(one.events[0].token, token);
    assert_string_equal(one.events[0].actor, "me");
    assert_string_equal(one.events[0].detail, "r");
    t_sql(sql, "SELECT holdfast.release_batch('{default}', '{r}', '{%lld}', NULL)", (long long)token);
    await(&one, 2);
    assert_event(&one.events[1], ST_EVENT_RELEASE, "r");
    acquire_by(sql, "r");
    t_sql(sql, "UPDATE holdfast.lease SET deadline = now() - interval '1 s' WHERE resource = 'r'");
    acquire_by(sql, "r");
    t_sql(sql, "UPDATE holdfast.lease SET deadline = now() - interval '1 s' WHERE resource = 'r'");
    t_sql(sql, "SELECT holdfast.sweep(100)");
    t_sql(sql, "SELECT holdfast.break_lease('default', 'before', (SELECT token FROM holdfast.lease WHERE resource = 'before'), "
               "'an operator', 'why', true)");
    await(&one, 6);
    assert_event(&one.events[2], ST_EVENT_GRANT, "r");
    assert_event(&one.events[3], ST_EVENT_TAKEOVER, "r");
    assert_int_equal(one.events[3].prior, one.events[2].token);
    assert_event(&one.events[4], ST_EVENT_EXPIRE, "r");
    assert_int_equal(one.events[4].token, one.events[3].token);
    assert_event(&one.events[5], ST_EVENT_BREAK, "before");
    assert_string_equal(one.events[5].actor, "an operator");
    assert_string_equal(one.events[5].detail, "why");
}

/* A transaction holds id N, while N+1, N+2 … are committed, and others roll theirs back. */
static void nothing_is_missed_out_of_order(void **state)
{
    (void)state;
    PGconn *slow = t_connect(dsn), *undone = t_connect(dsn);
    begin(&one, store);
    t_sql(slow, "BEGIN");
    acquire_by(slow, "slow");
    t_sql(undone, "BEGIN");
    acquire_by(undone, "undone");
    acquire("quick");
    await(&one, 1);
    assert_event(&one.events[0], ST_EVENT_GRANT, "quick");
    run_until(something_is_open, LONG_MS);
    t_sql(undone, "ROLLBACK");
    acquire("quick too");
    await(&one, 2);
    t_sql(slow, "SAVEPOINT s");
    acquire_by(slow, "slow too");
    look_twice();
    assert_int_equal(one.n, 2);
    t_sql(slow, "COMMIT");
    await(&one, 4);
    assert_event(&one.events[2], ST_EVENT_GRANT, "slow");
    assert_event(&one.events[3], ST_EVENT_GRANT, "slow too");
    assert_true(one.events[2].id < one.events[0].id);
    run_until(nothing_is_open, LONG_MS);
    assert_int_equal(one.n, 4);
    PQfinish(slow);
    PQfinish(undone);
}

/* It drew its id before anybody watched. */
static void what_is_open_at_the_beginning_is_told(void **state)
{
    (void)state;
    PGconn *slow = t_connect(dsn);
    acquire("before");
    t_sql(slow, "BEGIN");
    acquire_by(slow, "slow");
    acquire("before too");
    begin(&one, store);
    look_twice();
    assert_int_equal(one.n, 0);
    t_sql(slow, "COMMIT");
    await(&one, 1);
    assert_event(&one.events[0], ST_EVENT_GRANT, "slow");
    PQfinish(slow);
}

/* Between two looks. */
static bool follower_is_idle(void)
{
    return !strcmp(t_sql(sql, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfastd follows' AND "
                              "datname = current_database() AND state = 'idle' AND backend_xmin IS NULL AND xact_start IS NULL"),
                   "1");
}

/* A transaction that writes elsewhere is no reason to keep gaps in mind, nor does a follower hold back what vacuum may remove. */
static void a_long_transaction_elsewhere_keeps_no_gaps(void **state)
{
    (void)state;
    PGconn *user = t_connect(dsn), *undone = t_connect(dsn);
    t_sql(sql, "CREATE TABLE public.own (n int)");
    begin(&one, store);
    t_sql(user, "BEGIN; INSERT INTO public.own VALUES (1)");
    for (int i = 0; i < 20; i++) {
        t_sql(undone, "BEGIN");
        acquire_by(undone, "undone");
        acquire(t_printf("quick-%d", i));
        t_sql(undone, "ROLLBACK");
    }
    await(&one, 20);
    run_until(nothing_is_open, LONG_MS);
    look_twice();
    run_until(follower_is_idle, LONG_MS);
    PQfinish(user);
    PQfinish(undone);
}

static void other_months_are_told_too(void **state)
{
    (void)state;
    t_sql(sql, "SELECT holdfast.make_partitions(1)");
    begin(&one, store);
    t_sql(sql,
          "INSERT INTO holdfast.audit (namespace, resource, kind, token, at) VALUES "
          "('default', 'next', 'grant', 1, date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '1 month'), "
          "('default', 'this', 'grant', 1, date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '1 month' - "
          "interval '1 microsecond'), ('default', 'now', 'grant', 1, now())");
    await(&one, 3);
    assert_event(&one.events[0], ST_EVENT_GRANT, "next");
    assert_event(&one.events[1], ST_EVENT_GRANT, "this");
}

/* More than one look takes, and more than one page. */
static void much_at_once_is_told(void **state)
{
    (void)state;
    begin(&one, store);
    t_sql(sql,
          "INSERT INTO holdfast.audit (namespace, resource, kind, token) SELECT 'default', 'r', CASE WHEN i %% 10 = 0 THEN 'grant' "
          "ELSE 'write' END, i FROM generate_series(1, 60000) i");
    await(&one, 6000);
    assert_whole(&one, 0);
    assert_int_equal(follow_stats().rows, 60000);
}

/* Autovacuum may have been quicker; but nothing is left then. */
static void what_is_new_is_summarised_once(void **state)
{
    (void)state;
    t_sql(sql, "INSERT INTO holdfast.audit (namespace, resource, kind, token) SELECT 'default', 'r', 'write', i FROM "
               "generate_series(1, 30000) i");
    assert_true(t_sql_int(sql, "SELECT holdfast.follow_tidy()") >= 0);
    assert_int_equal(t_sql_int(sql, "SELECT holdfast.follow_tidy()"), 0);
    t_sql(sql, "BEGIN; LOCK TABLE holdfast.audit IN SHARE UPDATE EXCLUSIVE MODE");
    PGconn *other = t_connect(dsn);
    t_sql(other, "SELECT holdfast.follow_tidy()"); /* waits for nobody for long */
    t_sql(sql, "ROLLBACK");
    PQfinish(other);
}

/* ------------------------------------------------------------------------------------------------ losses */

static int begun_wanted;

static bool has_begun_so_often(void)
{
    return at->begun >= begun_wanted;
}

static void a_restored_database_is_told_as_lost(void **state)
{
    (void)state;
    struct st_follow_mark before, after;
    acquire("a");
    acquire("b");
    begin(&one, store);
    t_sql(sql, "DELETE FROM holdfast.audit; SELECT setval('holdfast.audit_id', 1)");
    begun_wanted = 2;
    run_until(has_begun_so_often, LONG_MS);
    assert_int_equal(one.lost, 1);
    st_follow_mark(store, &before);
    acquire("c");
    await(&one, 1);
    t_sql(sql, "UPDATE holdfast.identity SET timeline = '0000BEEF'"); /* another server has attached to a promoted standby */
    begun_wanted = 3;
    run_until(has_begun_so_often, LONG_MS);
    assert_int_equal(one.lost, 2);
    st_follow_mark(store, &after);
    assert_true(before.epoch != after.epoch);
}

/* Each second id is a gap, while somebody who might own them all goes on and on. */
static void more_gaps_than_can_be_kept_are_told_as_lost(void **state)
{
    (void)state;
    PGconn *slow = t_connect(dsn);
    begin(&one, store);
    t_sql(slow, "BEGIN");
    acquire_by(slow, "slow");
    t_sql(sql, "INSERT INTO holdfast.audit (namespace, resource, kind, token) SELECT 'default', 'x', 'write', "
               "nextval('holdfast.audit_id') FROM generate_series(1, 6000)");
    run_until(is_lost, LONG_MS);
    assert_int_equal(one.n, 0);
    t_sql(slow, "COMMIT");
    run_until(has_begun, LONG_MS); /* as soon as that is possible */
    acquire("after");
    await(&one, 1);
    PQfinish(slow);
}

/* ------------------------------------------------------------------------------------------------ who follows, and when */

static void nobody_is_served_without_a_query(void **state)
{
    (void)state;
    acquire("r");
    assert_int_equal(follow_stats().looks, 0);
    assert_string_equal(t_sql(sql, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfastd follows' AND "
                                   "datname = current_database()"),
                        "0");
    begin(&one, store);
    look_twice();
    st_unfollow(store);
    assert_false(follow_stats().following);
    int64_t looks = follow_stats().looks;
    acquire("r2");
    t_sleep_ms(3 * ST_FOLLOW_MS);
    acquire("r3");
    assert_int_equal(follow_stats().looks, looks);
    assert_int_equal(one.n, 0);
    begin(&two, store);
    acquire("r4");
    await(&two, 1);
    assert_int_equal(one.n, 0);
}

static void two_servers_tell_the_same(void **state)
{
    (void)state;
    struct st_config cfg = {.dsn = dsn, .connections = 1};
    struct st_store *other = st_open(&cfg, io, NULL, NULL);
    begin(&one, store);
    begin(&two, other);
    for (int i = 0; i < 50; i++)
        acquire(t_printf("r-%d", i));
    await(&one, 50);
    await(&two, 50);
    for (int i = 0; i < 50; i++)
        assert_int_equal(one.events[i].id, two.events[i].id);
    st_unfollow(other);
    st_close(other);
}

/* ------------------------------------------------------------------------------------------------ pages */

static struct st_trail trail;
static size_t n_page;
static int64_t page_first, page_last;
static bool paged;

static void on_page(struct st_trail *t, const struct st_lease_event *events, size_t n)
{
    assert_ptr_equal(t, &trail);
    n_page = n;
    page_first = n ? events[0].id : 0;
    page_last = n ? events[n - 1].id : 0;
    paged = true;
}

static bool is_paged(void)
{
    return paged;
}

static void read_page(const char *ns, const char *prefix, int64_t after, int64_t until, const char *except)
{
    trail = (struct st_trail){.ns = ns, .prefix = prefix, .after = after, .until = until, .except = except, .done = on_page};
    paged = false;
    st_trail_read(store, &trail);
    assert_false(paged);
    run_until(is_paged, LONG_MS);
}

static void what_was_can_be_read(void **state)
{
    (void)state;
    t_sql(sql, "INSERT INTO holdfast.audit (namespace, resource, kind, token) SELECT 'default', CASE WHEN i %% 2 = 0 THEN 'a' ELSE "
               "'b' END, "
               "'grant', i FROM generate_series(1, 2000) i");
    begin(&one, store);
    read_page("default", "", 0, 2000, "{}");
    assert_int_equal(trail.outcome, ST_FOUND);
    assert_int_equal(n_page, ST_TRAIL_ROWS);
    assert_int_equal(trail.covered, 500);
    read_page("default", "a", 1990, 2000, "{[1994,1996]}");
    assert_int_equal(n_page, 3);
    assert_int_equal(page_first, 1992);
    assert_int_equal(page_last, 2000);
    assert_int_equal(trail.covered, 2000);
    read_page("default", "nothing like it", 0, 2000, "{}");
    assert_int_equal(n_page, 0);
    assert_int_equal(trail.covered, 2000);
    read_page("default", "", 2000, 2000, "{}");
    assert_int_equal(n_page, 0);
    read_page("nowhere", "", 2000, 2000, "{}");
    assert_int_equal(trail.outcome, ST_NO_SUCH_NAMESPACE);
    trail = (struct st_trail){.ns = "default", .prefix = "", .after = 0, .until = 10, .except = "{}", .done = on_page};
    paged = false;
    st_trail_read(store, &trail);
    st_trail_cancel(store, &trail);
    st_trail_cancel(store, &trail);
    look_twice();
    assert_false(paged);
}

/* ------------------------------------------------------------------------------------------------ at random */

enum { SESSIONS = 5, NAMES = 12, STEPS = 400 };

/* Sessions begin, acquire, release, commit and roll back in any order; what is locked is busy, so nobody waits. */
static void random_step(struct hb_random *random, PGconn *conn, bool *open)
{
    char *name = t_printf("r-%d", (int)hb_random_below(random, NAMES));
    switch (hb_random_below(random, 6)) {
    case 0:
        t_sql(conn, *open ? "COMMIT" : "BEGIN");
        *open = !*open;
        break;
    case 1:
        t_sql(conn, *open ? "ROLLBACK" : "SELECT nextval('holdfast.audit_id')");
        *open = false;
        break;
    case 2:
        t_sql(conn,
              "SELECT holdfast.release_batch('{default}', '{%s}', ARRAY[coalesce((SELECT token FROM holdfast.lease WHERE "
              "resource = '%s'), 1)], NULL)",
              name, name);
        break;
    case 3:
        t_sql(conn, "SELECT holdfast.sweep(100)");
        break;
    default:
        t_sql(conn,
              "SET lock_timeout = '20ms'; SELECT outcome FROM holdfast.acquire_batch('{default}', '{%s}', '{task}', '{h}', '{%d}', "
              "ARRAY[clock_timestamp()::text], '{NULL}', 's', NULL, NULL, NULL, NULL, NULL)",
              name, 100 + (int)hb_random_below(random, 400));
    }
}

static bool stepped;

static bool has_stepped(void)
{
    bool was = stepped;
    stepped = true;
    return was;
}

static void random_commits_are_all_told(void **state)
{
    (void)state;
    struct hb_random random;
    PGconn *conns[SESSIONS];
    bool open[SESSIONS] = {false};
    hb_random_seed(&random, t_seed());
    for (int i = 0; i < NAMES; i++) /* the rows are there: making one may wait for another's */
        acquire(t_printf("r-%d", i));
    int64_t before = t_sql_int(sql, "SELECT max(id) FROM holdfast.audit");
    for (int i = 0; i < SESSIONS; i++)
        conns[i] = t_connect(dsn);
    begin(&one, store);
    for (int step = 0; step < STEPS; step++) {
        int i = (int)hb_random_below(&random, SESSIONS);
        random_step(&random, conns[i], &open[i]);
        if (step % 50 == 49)
            t_sql(sql, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfastd follows' AND "
                       "datname = current_database()");
        stepped = false;
        run_until(has_stepped, LONG_MS);
    }
    for (int i = 0; i < SESSIONS; i++)
        PQfinish(conns[i]);
    t_sql(sql, "INSERT INTO holdfast.audit (namespace, resource, kind, token) VALUES ('default', 'last', 'grant', 1)");
    at = &one;
    one.wanted = (size_t)t_sql_int(sql, "SELECT count(*) FROM holdfast.audit WHERE id > %lld AND holdfast.trail_kind(kind) > 0",
                                   (long long)before);
    run_until(has_enough, LONG_MS);
    run_until(nothing_is_open, LONG_MS);
    assert_whole(&one, before);
    assert_int_equal(one.lost, 0);
}

/* ------------------------------------------------------------------------------------------------ restarts */

static void a_restart_of_the_database_misses_nothing(void **state)
{
    (void)state;
    const char *settings[] = {"max_prepared_transactions=2", NULL};
    struct t_pg *pg = t_pg_start(settings);
    install(t_pg_dsn(pg));
    struct st_config cfg = {.dsn = t_pg_dsn(pg), .connections = 1};
    struct st_store *own = st_open(&cfg, io, NULL, NULL);
    begin(&one, own);
    PGconn *conn = t_connect(t_pg_dsn(pg));
    t_sql(conn, "BEGIN");
    acquire_by(conn, "prepared");
    t_sql(conn, "PREPARE TRANSACTION 'p'");
    t_sql(conn, "BEGIN");
    acquire_by(conn, "undone");
    PGconn *quick = t_connect(t_pg_dsn(pg));
    acquire_by(quick, "quick");
    await(&one, 1);
    PQfinish(quick);
    t_pg_restart(pg);
    PQfinish(conn);
    conn = t_connect(t_pg_dsn(pg));
    acquire_by(conn, "later");
    await(&one, 2);
    assert_event(&one.events[1], ST_EVENT_GRANT, "later");
    t_sql(conn, "COMMIT PREPARED 'p'");
    acquire_by(conn, "last");
    at = &one;
    one.wanted = 4;
    run_until(has_enough, LONG_MS);
    PQfinish(sql);
    sql = conn;
    assert_whole(&one, 0);
    assert_int_equal(one.lost, 0);
    st_unfollow(own);
    st_close(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(leases_are_told_as_they_go),
        STORE_TEST(nothing_is_missed_out_of_order),
        STORE_TEST(what_is_open_at_the_beginning_is_told),
        STORE_TEST(a_long_transaction_elsewhere_keeps_no_gaps),
        STORE_TEST(other_months_are_told_too),
        STORE_TEST(much_at_once_is_told),
        STORE_TEST(what_is_new_is_summarised_once),
        STORE_TEST(a_restored_database_is_told_as_lost),
        STORE_TEST(more_gaps_than_can_be_kept_are_told_as_lost),
        STORE_TEST(nobody_is_served_without_a_query),
        STORE_TEST(two_servers_tell_the_same),
        STORE_TEST(what_was_can_be_read),
        STORE_TEST(random_commits_are_all_told),
        STORE_TEST(a_restart_of_the_database_misses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
