/*
 * batching_test.c - the store on a real PostgreSQL and the real loop: batches, failures that must stay with their item, and
 * connections that break.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/loop.h"
#include "store/migrate.h"
#include "store/pq.h"
#include "store/store.h"

enum { LONG_MS = 20000 };

static struct loop *loop;
static struct io *io;
static struct st_store *store;
static PGconn *sql;
static const char *dsn;
static int pending, finished;

/* ------------------------------------------------------------------------------------------------ the loop, until */

static bool (*until_cond)(void);
static int64_t until_ms;
static bool until_met;
static struct io_timer until_timer;

static void until_tick(struct io_timer *timer)
{
    until_met = until_cond();
    if (until_met || t_now_ms() >= until_ms)
        loop_stop(loop);
    else
        io->timer_set(io, timer, io->now_ms(io) + 1);
}

/* Runs the loop until the condition holds; the test fails after `ms`. */
static void run_until(bool (*cond)(void), int ms)
{
    until_cond = cond;
    until_ms = t_now_ms() + ms;
    until_timer = (struct io_timer){.fire = until_tick};
    io->timer_set(io, &until_timer, io->now_ms(io));
    assert_int_equal(loop_run(loop), 0);
    assert_true(until_met);
}

static bool all_done(void)
{
    return pending == 0;
}

static bool nobody_serves(void)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return stats.connections_ready == 0;
}

static bool is_ready(void)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return stats.connections_ready == stats.connections_wanted;
}

/* ------------------------------------------------------------------------------------------------ items */

struct work {
    struct st_item item;
    char name[64], text[300];
    int done;
    int64_t done_ms;
    void (*look)(struct st_item *item); /* outputs that are valid in `done` only */
};

static bool in_submit;

static void on_done(struct st_item *item)
{
    struct work *work = item->owner;
    assert_false(in_submit);
    work->done++;
    work->done_ms = t_now_ms();
    pending--;
    finished++;
    if (work->look)
        work->look(item);
}

static struct st_item *prepare(struct work *work, enum st_kind kind, const char *name)
{
    *work = (struct work){.item = {.kind = kind, .ns = "default", .resource = work->name, .done = on_done, .owner = work}};
    snprintf(work->name, sizeof(work->name), "%s", name);
    work->item.deadline_ms = t_now_ms() + LONG_MS;
    return &work->item;
}

static void submit(struct work *work)
{
    pending++;
    in_submit = true;
    st_submit(store, &work->item);
    in_submit = false;
}

static void prepare_acquire(struct work *work, const char *name, const char *request_id)
{
    struct st_item *item = prepare(work, ST_ACQUIRE, name);
    item->in.acquire.task = work->name;
    item->in.acquire.holder = "me";
    item->in.acquire.request_id = request_id;
    item->in.acquire.ttl_ms = 60000;
}

static void submit_acquire(struct work *work, const char *name)
{
    prepare_acquire(work, name, "request");
    submit(work);
}

static struct work *awaited;

static bool awaited_is_done(void)
{
    return awaited->done > 0;
}

static void wait_for(struct work *work)
{
    awaited = work;
    run_until(awaited_is_done, LONG_MS);
}

/* One item, waited for. */
static enum st_outcome call(struct work *work)
{
    submit(work);
    run_until(all_done, LONG_MS + 5000);
    assert_int_equal(work->done, 1);
    return work->item.outcome;
}

static int64_t acquire(const char *name)
{
    static struct work work;
    prepare_acquire(&work, name, "request");
    assert_int_equal(call(&work), ST_GRANTED);
    return work.item.out.acquire.token;
}

static struct st_kind_stats stats_of(enum st_kind kind)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return stats.kinds[kind];
}

/* ------------------------------------------------------------------------------------------------ life */

static void install(const char *to)
{
    struct st_problem problem = {""};
    if (st_migrate(to, NULL, NULL, &problem) != ST_MIGRATE_OK)
        fail_msg("%s", problem.text);
}

static void open_store(const struct st_config *given, const char *to, bool wait)
{
    struct st_config cfg = *given;
    cfg.dsn = to;
    cfg.connections = cfg.connections ? cfg.connections : 1;
    store = st_open(&cfg, io, NULL, NULL);
    assert_non_null(store);
    if (wait)
        run_until(is_ready, 10000);
}

static void reopen(const struct st_config *given)
{
    st_close(store);
    open_store(given, dsn, true);
}

static int setup(void **state)
{
    (void)state;
    if (!getenv("HOLDFAST_TEST_LOG"))
        log_setup(LOG_AT_NONE, LOG_AS_LOGFMT, NULL, NULL);
    else
        log_setup(LOG_AT_DEBUG, LOG_AS_LOGFMT, NULL, NULL);
    pending = finished = 0;
    loop = loop_new();
    assert_non_null(loop);
    io = loop_io(loop);
    dsn = t_database();
    install(dsn);
    sql = t_connect(dsn);
    open_store(&(struct st_config){0}, dsn, true);
    return 0;
}

static int teardown(void **state)
{
    st_close(store);
    store = NULL;
    PQfinish(sql);
    loop_free(loop);
    return t_teardown(state);
}

/* A trigger on the lease table that runs `body` for the resource `name`; NEW is passed on. */
static void on_lease(const char *name, const char *body)
{
    t_sql(
        sql,
        "CREATE OR REPLACE FUNCTION public.trap() RETURNS trigger LANGUAGE plpgsql AS $t$ BEGIN IF NEW.resource = '%s' THEN %s END "
        "IF; RETURN NEW; END $t$; DROP TRIGGER IF EXISTS trap ON holdfast.lease; CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON "
        "holdfast.lease FOR EACH ROW EXECUTE FUNCTION public.trap()",
        name, body);
}

static const char *backend(void)
{
    return t_sql(sql,
                 "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfastd' AND datname = current_database() LIMIT 1");
}

static bool backend_active(void)
{
    return *t_sql(sql,
                  "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfastd' AND datname = current_database() AND state "
                  "= 'active' AND query LIKE '%%_batch(%%'");
}

/* ------------------------------------------------------------------------------------------------ batches */

static void many_items_few_batches(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct work works[N];
    reopen(&(struct st_config){.connections = 2});
    for (int i = 0; i < N; i++)
        submit_acquire(&works[i], t_printf("r%d", i));
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++) {
        assert_int_equal(works[i].done, 1);
        assert_int_equal(works[i].item.outcome, ST_GRANTED);
        assert_int_equal(works[i].item.out.acquire.token, 1);
        assert_int_equal(works[i].item.out.acquire.ttl_ms, 60000);
        assert_true(works[i].item.out.acquire.granted_at_ms > 0);
    }
    struct st_kind_stats stats = stats_of(ST_ACQUIRE);
    assert_int_equal(stats.items, N);
    assert_in_range(stats.batches, 2, 4);
    assert_true(st_idle(store));
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.lease WHERE deadline > clock_timestamp()"), N);
}

static void look_held(struct st_item *item)
{
    assert_string_equal(item->out.acquire.holder, "me");
    assert_string_equal(item->out.acquire.task, "one");
    assert_in_range(item->out.acquire.remaining_ms, 1, 60000);
}

static void two_items_with_one_key(void **state)
{
    (void)state;
    struct work a, b, c;
    prepare_acquire(&a, "one", "first");
    prepare_acquire(&b, "one", "second");
    prepare_acquire(&c, "one", "first");
    b.look = look_held;
    submit(&a);
    submit(&b);
    submit(&c);
    run_until(all_done, LONG_MS);
    assert_int_equal(a.item.outcome, ST_GRANTED);
    assert_int_equal(b.item.outcome, ST_HELD);
    assert_int_equal(b.item.out.acquire.token, a.item.out.acquire.token);
    assert_int_equal(c.item.outcome, ST_REPEATED);
    assert_int_equal(c.item.out.acquire.token, a.item.out.acquire.token);
    assert_int_equal(stats_of(ST_ACQUIRE).batches, 3);
}

static void look_value(struct st_item *item)
{
    assert_true(item->out.read.exists);
    assert_int_equal(item->out.read.value.len, 5);
    assert_memory_equal(item->out.read.value.data, "a\0b\xff\n", 5);
}

static void look_lease(struct st_item *item)
{
    assert_int_equal(item->out.leases.n, 1);
    const struct st_lease_row *row = &item->out.leases.rows[0];
    assert_string_equal(row->resource, "k");
    assert_string_equal(row->task, "k");
    assert_string_equal(row->holder, "me");
    assert_string_equal(row->request_id, "request");
    assert_int_equal(row->token, 1);
    assert_int_equal(row->state, ST_LEASE_LIVE);
    assert_int_equal(row->n_labels, 2);
    assert_string_equal(row->labels[0].name, "a");
    assert_string_equal(row->labels[0].value, "");
    assert_string_equal(row->labels[1].name, "b");
    assert_string_equal(row->labels[1].value, "x y");
    assert_false(item->out.leases.more);
}

static void look_resources(struct st_item *item)
{
    assert_int_equal(item->out.resources.n, 1);
    assert_true(item->out.resources.more);
    assert_string_equal(item->out.resources.rows[0].resource, "k");
    assert_int_equal(item->out.resources.rows[0].version, 1);
    assert_int_equal(item->out.resources.rows[0].value_bytes, 5);
    assert_true(item->out.resources.rows[0].exists && item->out.resources.rows[0].leased);
}

static void look_empty_value(struct st_item *item)
{
    assert_true(item->out.read.exists);
    assert_non_null(item->out.read.value.data);
    assert_int_equal(item->out.read.value.len, 0);
}

static void every_kind_once(void **state)
{
    (void)state;
    struct work w;
    prepare_acquire(&w, "k", "request");
    w.item.in.acquire.labels_json = "{\"a\": \"\", \"b\": \"x y\"}";
    assert_int_equal(call(&w), ST_GRANTED);
    acquire("l");
    prepare(&w, ST_RENEW, "k")->in.renew.token = 1;
    w.item.in.renew.ttl_ms = 90000;
    assert_int_equal(call(&w), ST_RENEWED);
    assert_in_range(w.item.out.renew.ttl_ms, 89000, 90000);
    prepare(&w, ST_WRITE, "k")->in.write.token = 1;
    w.item.in.write.value = (struct st_bytes){(const unsigned char *)"a\0b\xff\n", 5};
    w.item.in.write.expects = true;
    assert_int_equal(call(&w), ST_WRITTEN);
    assert_int_equal(w.item.out.write.version, 1);
    prepare(&w, ST_WRITE, "k")->in.write.token = 1;
    w.item.in.write.value = (struct st_bytes){(const unsigned char *)"", 0};
    w.item.in.write.expects = true;
    assert_int_equal(call(&w), ST_VERSION_MISMATCH);
    prepare(&w, ST_READ, "k");
    w.look = look_value;
    assert_int_equal(call(&w), ST_FOUND);
    prepare(&w, ST_READ, "nothing");
    assert_int_equal(call(&w), ST_NO_SUCH_RESOURCE);
    prepare(&w, ST_GET, "k");
    w.look = look_lease;
    assert_int_equal(call(&w), ST_FOUND);
    prepare(&w, ST_LIST_LEASES, "");
    w.item.resource = NULL;
    w.item.in.list.prefix = "k";
    w.item.in.list.max = 10;
    w.look = look_lease;
    assert_int_equal(call(&w), ST_FOUND);
    prepare(&w, ST_LIST_RESOURCES, "");
    w.item.resource = NULL;
    w.item.in.list.max = 1;
    w.look = look_resources;
    assert_int_equal(call(&w), ST_FOUND);
    prepare(&w, ST_LIST_LEASES, "");
    w.item.ns = "nowhere";
    w.item.in.list.max = 10;
    assert_int_equal(call(&w), ST_NO_SUCH_NAMESPACE);
    prepare(&w, ST_CHECK, "k")->in.check.token = 1;
    assert_int_equal(call(&w), ST_CURRENT);
    assert_in_range(w.item.out.check.remaining_ms, 1, 90000);
    prepare(&w, ST_STATS, "")->ns = "";
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(w.item.out.stats.leases_live, 2);
    assert_true(w.item.out.stats.schema_version >= 1);
    prepare(&w, ST_BREAK, "k")->in.brk.token_seen = 1;
    w.item.in.brk.actor = "operator";
    w.item.in.brk.reason = "test";
    assert_int_equal(call(&w), ST_BREAK_DONE);
    assert_int_equal(w.item.out.brk.fence, 2);
    prepare(&w, ST_RELEASE, "l")->in.release.token = 1;
    assert_int_equal(call(&w), ST_FREED);
    prepare(&w, ST_ADVANCE_FENCES, "")->in.advance.at_least = 1000;
    w.item.in.advance.actor = "operator";
    w.item.in.advance.reason = "test";
    assert_int_equal(call(&w), ST_FOUND);
    assert_true(w.item.out.advance.floor >= 1000);
    prepare_acquire(&w, "k", "again");
    assert_int_equal(call(&w), ST_GRANTED);
    assert_true(w.item.out.acquire.token > 1000);
    int64_t token = w.item.out.acquire.token;
    prepare(&w, ST_WRITE, "k")->in.write.token = token;
    w.item.in.write.value = (struct st_bytes){(const unsigned char *)"", 0};
    assert_int_equal(call(&w), ST_WRITTEN);
    prepare(&w, ST_READ, "k");
    w.look = look_empty_value;
    assert_int_equal(call(&w), ST_FOUND);
}

static void several_resources_in_the_callers_order(void **state)
{
    (void)state;
    const char *const names[] = {"c", "a", "b"};
    int64_t tokens[3] = {0};
    struct work w;
    t_sql(sql, "SELECT * FROM holdfast.acquire_all('default', '{b}', 't', 'h', 1, 'x', NULL)"); /* so that b's token is 2 */
    t_sleep_ms(5);
    for (int round = 0; round < 2; round++) {
        prepare_acquire(&w, "c", round ? "other" : "request");
        w.item.kind = ST_ACQUIRE_ALL;
        w.item.in.acquire.resources = names;
        w.item.in.acquire.n_resources = 3;
        w.item.out.acquire.tokens = tokens;
        enum st_outcome outcome = call(&w);
        if (round == 0) {
            assert_int_equal(outcome, ST_GRANTED);
            assert_int_equal(tokens[0], 1);
            assert_int_equal(tokens[1], 1);
            assert_int_equal(tokens[2], 2);
            t_sql(sql, "SELECT * FROM holdfast.release_batch('{default,default}', '{a,c}', '{1,1}')");
        } else {
            assert_int_equal(outcome, ST_HELD);
            assert_int_equal(w.item.out.acquire.which, 2);
            assert_int_equal(w.item.out.acquire.token, 2);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ items that fail */

enum { NEIGHBOURS = 64 };
static struct work neighbours[NEIGHBOURS];

/* NEIGHBOURS acquires, one of them on `name`, of which the outcome is returned; the others are granted. */
static enum st_outcome acquire_among_neighbours(const char *name)
{
    for (int i = 0; i < NEIGHBOURS; i++)
        submit_acquire(&neighbours[i], i == 40 ? name : t_printf("%s-neighbour-%d", name, i));
    run_until(all_done, LONG_MS);
    for (int i = 0; i < NEIGHBOURS; i++) {
        assert_int_equal(neighbours[i].done, 1);
        if (i != 40)
            assert_int_equal(neighbours[i].item.outcome, ST_GRANTED);
    }
    return neighbours[40].item.outcome;
}

static void a_guilty_item_fails_alone(void **state)
{
    (void)state;
    on_lease("guilty", "RAISE EXCEPTION 'no' USING ERRCODE = 'ZZ123';");
    assert_int_equal(acquire_among_neighbours("guilty"), ST_FAILED);
    assert_string_equal(neighbours[40].item.sqlstate, "ZZ123");
    struct st_kind_stats stats = stats_of(ST_ACQUIRE);
    assert_int_equal(stats.splits, 6); /* log2(64) */
    assert_int_equal(stats.batches, 13);
}

static void a_locked_row_delays_nobody(void **state)
{
    (void)state;
    acquire("locked");
    PGconn *other = t_connect(dsn);
    t_sql(other, "BEGIN; SELECT FROM holdfast.resource WHERE name = 'locked' FOR SHARE");
    int64_t begin = t_now_ms();
    assert_int_equal(acquire_among_neighbours("locked"), ST_BUSY);
    assert_true(t_now_ms() - begin < 2000);
    assert_int_equal(stats_of(ST_ACQUIRE).busy, 2); /* tried once more */
    assert_int_equal(stats_of(ST_ACQUIRE).splits, 0);
    t_sql(other, "ROLLBACK");
    struct work w;
    submit_acquire(&w, "locked");
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_REPEATED);
    PQfinish(other);
}

static void another_ones_insert_delays_nobody_for_long(void **state)
{
    (void)state;
    PGconn *other = t_connect(dsn);
    t_sql(other, "BEGIN; INSERT INTO holdfast.resource (namespace, name) VALUES ('default', 'inserted')");
    int64_t begin = t_now_ms();
    assert_int_equal(acquire_among_neighbours("inserted"), ST_BUSY);
    assert_true(t_now_ms() - begin < 3000);
    assert_true(stats_of(ST_ACQUIRE).splits > 0);
    t_sql(other, "ROLLBACK");
    acquire("inserted");
    PQfinish(other);
}

static void a_busy_item_passes_at_its_second_try(void **state)
{
    (void)state;
    struct work w;
    /* Busy once, whoever asks: the function is wrapped. */
    t_sql(
        sql,
        "CREATE SEQUENCE public.once; ALTER FUNCTION holdfast.release_batch(text[], text[], bigint[]) RENAME TO real_release; "
        "CREATE "
        "FUNCTION holdfast.release_batch(text[], text[], bigint[]) RETURNS TABLE (i int, outcome smallint) LANGUAGE plpgsql AS $f$ "
        "BEGIN IF nextval('public.once') = 1 THEN RETURN QUERY SELECT 1, 5::smallint; ELSE RETURN QUERY SELECT * FROM "
        "holdfast.real_release($1, $2, $3); END IF; END $f$");
    reopen(&(struct st_config){0});
    int64_t token = acquire("r");
    prepare(&w, ST_RELEASE, "r")->in.release.token = token;
    assert_int_equal(call(&w), ST_FREED);
    assert_int_equal(stats_of(ST_RELEASE).busy, 1);
}

static void a_serialization_failure_is_tried_again(void **state)
{
    (void)state;
    t_sql(sql, "CREATE SEQUENCE public.once");
    on_lease("conflict", "IF nextval('public.once') <= 2 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;");
    assert_int_equal(acquire_among_neighbours("conflict"), ST_GRANTED);
    assert_int_equal(stats_of(ST_ACQUIRE).retries, 2);
    assert_int_equal(stats_of(ST_ACQUIRE).splits, 0);
    /* Never-ending ones end as busy, and only for the guilty. */
    on_lease("conflict2", "RAISE EXCEPTION 'again' USING ERRCODE = '40P01';");
    assert_int_equal(acquire_among_neighbours("conflict2"), ST_BUSY);
}

static void a_renewal_overtaken_by_the_clock_is_careful(void **state)
{
    (void)state;
    struct work w;
    int64_t token = acquire("slow");
    on_lease("slow", "PERFORM pg_sleep(0.15);"); /* the optimistic form gives itself 100 ms */
    prepare(&w, ST_RENEW, "slow")->in.renew.token = token;
    w.item.in.renew.ttl_ms = 120000;
    assert_int_equal(call(&w), ST_RENEWED);
    assert_true(w.item.out.renew.ttl_ms > 100000);
    assert_int_equal(stats_of(ST_RENEW).retries, 1);
    assert_int_equal(stats_of(ST_RENEW).splits, 0);
}

static void a_missing_partition_is_made(void **state)
{
    (void)state;
    acquire("before");
    t_sql(sql, "DO $$ DECLARE p regclass; BEGIN FOR p IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = "
               "'holdfast.audit'::regclass LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$");
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'holdfast.audit'::regclass"), 0);
    assert_int_equal(acquire_among_neighbours("after"), ST_GRANTED);
    assert_true(t_sql_int(sql, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'holdfast.audit'::regclass") >= 1);
    assert_int_equal(stats_of(ST_ACQUIRE).splits, 0);
    assert_int_equal(stats_of(ST_ACQUIRE).retries, 1);
}

static void a_failing_commit_is_a_refusal(void **state)
{
    (void)state;
    t_sql(sql,
          "CREATE FUNCTION public.late() RETURNS trigger LANGUAGE plpgsql AS $t$ BEGIN IF NEW.resource = 'late' THEN RAISE "
          "EXCEPTION 'late' USING ERRCODE = 'ZZ124'; END IF; RETURN NULL; END $t$; CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON "
          "holdfast.lease DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.late()");
    enum st_outcome outcome = acquire_among_neighbours("late");
    assert_int_equal(outcome, ST_FAILED);
    assert_string_equal(neighbours[40].item.sqlstate, "ZZ124");
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.lease WHERE resource = 'late' AND deadline > clock_timestamp()"),
                     0);
    acquire("next");
}

static void nonsense_from_sql_harms_nobody(void **state)
{
    (void)state;
    struct work w;
    static const char *const answers[] = {"SELECT 2, 50::smallint", "SELECT 1, 10::smallint", "SELECT NULL::int, NULL::smallint",
                                          "SELECT 1, 50::smallint UNION ALL SELECT 1, 50::smallint",
                                          "SELECT 1, 50::smallint WHERE false"};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        t_sql(sql,
              "DROP FUNCTION holdfast.read_batch(text[], text[]); CREATE FUNCTION holdfast.read_batch(text[], text[]) RETURNS "
              "TABLE (i "
              "int, outcome smallint, value bytea, \"exists\" boolean, version bigint, fence bigint, token bigint, updated_unix_ms "
              "bigint) LANGUAGE sql AS $f$ SELECT a, b, NULL::bytea, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, "
              "NULL::bigint FROM (%s) AS x(a, b) $f$",
              answers[i]);
        reopen(&(struct st_config){0});
        prepare(&w, ST_READ, "r");
        assert_int_equal(call(&w), ST_FAILED);
        assert_string_equal(w.item.sqlstate, "XX000");
    }
    t_sql(sql,
          "DROP FUNCTION holdfast.release_batch(text[], text[], bigint[]); CREATE FUNCTION holdfast.release_batch(text[], text[], "
          "bigint[]) RETURNS TABLE (i int, outcome smallint) LANGUAGE sql AS $f$ SELECT 7, 20::smallint $f$");
    reopen(&(struct st_config){0});
    prepare(&w, ST_RELEASE, "r")->in.release.token = 1;
    assert_int_equal(call(&w), ST_OUTCOME_LOST); /* it was committed, whatever it did */
    acquire("next");
}

/* ------------------------------------------------------------------------------------------------ connections that break */

static void terminated_in_flight(void **state)
{
    (void)state;
    struct work w, reading;
    on_lease("slow", "PERFORM pg_sleep(5);");
    submit_acquire(&w, "slow");
    prepare(&reading, ST_READ, "slow");
    submit(&reading);
    run_until(backend_active, 5000);
    t_sql(sql, "SELECT pg_terminate_backend(%s)", backend());
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(reading.item.outcome, ST_NO_SUCH_RESOURCE); /* harmless to repeat, so it was */
    acquire("next");
}

static void terminated_while_idle(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct work w;
        t_sql(sql, "SELECT pg_terminate_backend(%s)", backend());
        submit_acquire(&w, "r");
        run_until(all_done, LONG_MS);
        /* Whether it had gone before it was sent to is a race; it may not fail otherwise, nor wait for its deadline. */
        assert_true(w.item.outcome == ST_OUTCOME_LOST || w.item.outcome == (i ? ST_REPEATED : ST_GRANTED) ||
                    w.item.outcome == ST_GRANTED);
        run_until(is_ready, 10000);
    }
    acquire("next");
}

static const char *old_backend;

static bool has_a_new_backend(void)
{
    const char *pid = backend();
    return *pid && strcmp(pid, old_backend) != 0 && is_ready();
}

static void an_idle_store_notices_its_loss(void **state)
{
    (void)state;
    old_backend = t_printf("%s", backend());
    t_sql(sql, "SELECT pg_terminate_backend(%s)", old_backend);
    run_until(has_a_new_backend, 10000);
    acquire("r");
}

static void too_slow_is_told_from_too_far(void **state)
{
    (void)state;
    struct work slow, late;
    on_lease("slow", "PERFORM pg_sleep(1);");
    submit_acquire(&slow, "slow");
    run_until(backend_active, 5000);
    prepare_acquire(&late, "late", "request");
    late.item.deadline_ms = t_now_ms() + 200;
    submit(&late);
    run_until(all_done, LONG_MS);
    assert_int_equal(late.item.outcome, ST_TIMED_OUT);
    assert_in_range(late.done_ms, late.item.deadline_ms, late.item.deadline_ms + 500);
    assert_int_equal(slow.item.outcome, ST_GRANTED);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.resource WHERE name = 'late'"), 0);
}

static void while_the_database_is_away(void **state)
{
    (void)state;
    struct t_pg *pg = t_pg_start(NULL);
    struct work brief, patient, reading;
    install(t_pg_dsn(pg));
    st_close(store);
    open_store(&(struct st_config){.connections = 2}, t_pg_dsn(pg), true);
    acquire("r");
    t_pg_stop(pg, T_PG_IMMEDIATE);
    run_until(nobody_serves, 5000);
    prepare_acquire(&brief, "brief", "request");
    brief.item.deadline_ms = t_now_ms() + 300;
    submit_acquire(&patient, "patient");
    prepare(&reading, ST_READ, "r");
    submit(&reading);
    submit(&brief);
    wait_for(&brief);
    assert_int_equal(brief.item.outcome, ST_DATABASE_DOWN);
    assert_in_range(brief.done_ms, brief.item.deadline_ms, brief.item.deadline_ms + 500);
    assert_int_equal(pending, 2);
    t_pg_restart(pg);
    patient.item.deadline_ms += LONG_MS;
    run_until(all_done, LONG_MS);
    assert_int_equal(patient.item.outcome, ST_GRANTED);
    assert_int_equal(reading.item.outcome, ST_FOUND);
    st_close(store); /* before its cluster goes */
    store = NULL;
}

static bool waits_for_a_standby(void)
{
    return pending == 0 ||
           *t_sql(sql, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'holdfastd'");
}

static void a_commit_that_was_not_replicated_is_unknown(void **state)
{
    (void)state;
    struct t_pg *pg = t_pg_start(NULL);
    struct work w;
    install(t_pg_dsn(pg));
    st_close(store);
    open_store(&(struct st_config){0}, t_pg_dsn(pg), true);
    PQfinish(sql);
    sql = t_connect(t_pg_dsn(pg));
    t_sql(sql, "ALTER SYSTEM SET synchronous_standby_names = 'ghost'");
    t_sql(sql, "SELECT pg_reload_conf()");
    for (int i = 0;; i++) { /* until the session has read the new setting */
        assert_true(i < 1000);
        submit_acquire(&w, t_printf("r%d", i));
        run_until(waits_for_a_standby, LONG_MS);
        if (pending)
            break;
    }
    t_sql(sql, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_OUTCOME_LOST);
    st_close(store);
    store = NULL;
}

static void names_are_resolved_off_the_loop(void **state)
{
    (void)state;
    struct work w;
    st_close(store);
    /* The first host cannot be resolved, the second is a folder: libpq alone would fail at the first. */
    char *folder = t_sql(sql, "SELECT split_part(setting, ',', 1) FROM pg_settings WHERE name = 'unix_socket_directories'");
    char *to = t_printf("host=no-such-host.invalid,%s dbname=%s user=%s port=%s", folder, PQdb(sql), PQuser(sql), PQport(sql));
    open_store(&(struct st_config){0}, to, true);
    acquire("r");
    st_close(store);
    open_store(&(struct st_config){0}, "host=no-such-host.invalid dbname=holdfast", false);
    prepare_acquire(&w, "r", "request");
    w.item.deadline_ms = t_now_ms() + 300;
    submit(&w);
    run_until(all_done, 2000);
    assert_int_equal(w.item.outcome, ST_DATABASE_DOWN);
}

/* ------------------------------------------------------------------------------------------------ bounds and the end */

static void a_full_queue_refuses(void **state)
{
    (void)state;
    struct work works[20];
    int full = 0;
    reopen(&(struct st_config){.max_queue = 10});
    for (int i = 0; i < 20; i++)
        submit_acquire(&works[i], t_printf("r%d", i));
    run_until(all_done, LONG_MS);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(works[i].item.outcome, i < 10 ? ST_GRANTED : ST_QUEUE_FULL);
        full += works[i].item.outcome == ST_QUEUE_FULL;
    }
    assert_int_equal(full, 10);
    acquire("next");
}

static void closing_ends_everything(void **state)
{
    (void)state;
    struct work slow, queued;
    on_lease("slow", "PERFORM pg_sleep(3);");
    submit_acquire(&slow, "slow");
    run_until(backend_active, 5000);
    submit_acquire(&queued, "queued");
    st_close(store);
    store = NULL;
    assert_int_equal(pending, 0);
    assert_int_equal(slow.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(queued.item.outcome, ST_DATABASE_DOWN);
}

static void big_values_are_bounded_by_bytes(void **state)
{
    (void)state;
    enum { N = 12, SIZE = 1 << 20 };
    static struct work works[N];
    static unsigned char value[SIZE];
    for (int i = 0; i < N; i++) {
        int64_t token = acquire(t_printf("r%d", i));
        prepare(&works[i], ST_WRITE, t_printf("r%d", i))->in.write.token = token;
        works[i].item.in.write.value = (struct st_bytes){value, SIZE};
    }
    for (int i = 0; i < N; i++)
        submit(&works[i]);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(works[i].item.outcome, ST_WRITTEN);
    assert_int_equal(stats_of(ST_WRITE).batches, N / 4); /* of 4 MiB */
}

/* ------------------------------------------------------------------------------------------------ a libpq that fails */

static int calls, fail_at, bad_names;

static bool fails(void)
{
    return ++calls == fail_at;
}

static PGconn *f_connect(const char *const *keywords, const char *const *values, int expand)
{
    return fails() ? NULL : PQconnectStartParams(keywords, values, expand);
}

static PostgresPollingStatusType f_poll(PGconn *conn)
{
    return fails() ? PGRES_POLLING_FAILED : PQconnectPoll(conn);
}

static int f_nonblocking(PGconn *conn, int on)
{
    return fails() ? -1 : PQsetnonblocking(conn, on);
}

static int f_pipeline(PGconn *conn)
{
    return fails() ? 0 : PQenterPipelineMode(conn);
}

static int f_query(PGconn *conn, const char *text, int n, const Oid *types, const char *const *values, const int *lengths,
                   const int *formats, int format)
{
    return fails() ? 0 : PQsendQueryParams(conn, text, n, types, values, lengths, formats, format);
}

static int f_prepare(PGconn *conn, const char *name, const char *text, int n, const Oid *types)
{
    return fails() ? 0 : PQsendPrepare(conn, name, text, n, types);
}

static int f_prepared(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
                      int format)
{
    if (bad_names > 0) {
        bad_names--;
        name = "gone";
    }
    return fails() ? 0 : PQsendQueryPrepared(conn, name, n, values, lengths, formats, format);
}

static int f_sync(PGconn *conn)
{
    return fails() ? 0 : PQpipelineSync(conn);
}

static int f_flush(PGconn *conn)
{
    return fails() ? -1 : PQflush(conn);
}

static int f_consume(PGconn *conn)
{
    return fails() ? 0 : PQconsumeInput(conn);
}

static PGresult *f_result(PGconn *conn)
{
    return fails() ? NULL : PQgetResult(conn);
}

static const struct st_pq failing = {.connectStartParams = f_connect,
                                     .connectPoll = f_poll,
                                     .setnonblocking = f_nonblocking,
                                     .enterPipelineMode = f_pipeline,
                                     .sendQueryParams = f_query,
                                     .sendPrepare = f_prepare,
                                     .sendQueryPrepared = f_prepared,
                                     .pipelineSync = f_sync,
                                     .flush = f_flush,
                                     .consumeInput = f_consume,
                                     .isBusy = PQisBusy,
                                     .getResult = f_result};

/* Each call of libpq fails once, in turn: every item ends once, as the truth allows, and the store goes on working. */
static void each_call_of_libpq_fails_once(void **state)
{
    (void)state;
    int lost = 0;
    for (fail_at = 1;; fail_at++) {
        struct work a, b, reading;
        assert_true(fail_at < 1000);
        calls = bad_names = 0;
        st_close(store);
        open_store(&(struct st_config){.pq = &failing}, dsn, false);
        submit_acquire(&a, t_printf("a%d", fail_at));
        submit_acquire(&b, t_printf("b%d", fail_at));
        prepare(&reading, ST_READ, "nothing");
        submit(&reading);
        run_until(all_done, LONG_MS);
        assert_true(a.done == 1 && b.done == 1 && reading.done == 1);
        assert_true(a.item.outcome == ST_GRANTED || a.item.outcome == ST_OUTCOME_LOST);
        assert_int_equal(b.item.outcome, a.item.outcome);
        assert_int_equal(reading.item.outcome, ST_NO_SUCH_RESOURCE);
        lost += a.item.outcome == ST_OUTCOME_LOST;
        if (calls < fail_at)
            break;
        submit_acquire(&a, t_printf("c%d", fail_at));
        run_until(all_done, LONG_MS);
        assert_true(a.item.outcome == ST_GRANTED || a.item.outcome == ST_OUTCOME_LOST);
    }
    assert_true(fail_at > 30);
    assert_true(lost > 0);
    fail_at = 0;
}

static void a_lost_plan_costs_a_session_not_the_call(void **state)
{
    (void)state;
    struct work w;
    fail_at = 0;
    reopen(&(struct st_config){.pq = &failing});
    bad_names = 1;
    acquire("r");
    bad_names = 1000; /* and when it doesn't help, it ends */
    submit_acquire(&w, "s");
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_FAILED);
    assert_string_equal(w.item.sqlstate, "26000");
    assert_int_equal(bad_names, 998);
    bad_names = 0;
    acquire("t");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_items_few_batches),
        TEST(two_items_with_one_key),
        TEST(every_kind_once),
        TEST(several_resources_in_the_callers_order),
        TEST(a_guilty_item_fails_alone),
        TEST(a_locked_row_delays_nobody),
        TEST(another_ones_insert_delays_nobody_for_long),
        TEST(a_busy_item_passes_at_its_second_try),
        TEST(a_serialization_failure_is_tried_again),
        TEST(a_renewal_overtaken_by_the_clock_is_careful),
        TEST(a_missing_partition_is_made),
        TEST(a_failing_commit_is_a_refusal),
        TEST(nonsense_from_sql_harms_nobody),
        TEST(terminated_in_flight),
        TEST(terminated_while_idle),
        TEST(an_idle_store_notices_its_loss),
        TEST(too_slow_is_told_from_too_far),
        TEST(while_the_database_is_away),
        TEST(a_commit_that_was_not_replicated_is_unknown),
        TEST(names_are_resolved_off_the_loop),
        TEST(a_full_queue_refuses),
        TEST(closing_ends_everything),
        TEST(big_values_are_bounded_by_bytes),
        TEST(each_call_of_libpq_fails_once),
        TEST(a_lost_plan_costs_a_session_not_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
