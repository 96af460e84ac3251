/*
 * batching_test.c - the store on a real PostgreSQL and the real loop: what goes into a batch, and failures that stay with
 * their item.
 */
#include "store/store_env.h"

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

static struct work first, others[100], release;

/* The rest is withdrawn while the first one is with the database. */
static void withdraw_others(struct st_item *item)
{
    (void)item;
    for (int i = 1; i < 100; i += 2)
        if (!others[i].done)
            st_withdraw(store, &others[i].item);
    st_withdraw(store, &release.item);
}

/* What is withdrawn before it was sent costs nothing; what its caller may have wanted, whoever reads the answer, is done. */
static void who_goes_is_not_worked_for(void **state)
{
    (void)state;
    prepare_acquire(&first, "one", "first");
    first.look = withdraw_others;
    submit(&first);
    for (int i = 0; i < 100; i++) {
        prepare_acquire(&others[i], i % 2 ? "one" : "two", "others");
        others[i].item.deadline_ms += LONG_MS;
        if (i % 2)
            submit(&others[i]);
    }
    prepare(&release, ST_RELEASE, "one");
    release.item.in.release.token = 1;
    release.item.deadline_ms += LONG_MS;
    submit(&release);
    for (int i = 0; i < 100; i += 2) {
        submit(&others[i]);
        st_withdraw(store, &others[i].item); /* in the same turn */
        st_withdraw(store, &others[i].item); /* twice is once */
    }
    run_until(all_done, LONG_MS);
    assert_int_equal(first.item.outcome, ST_GRANTED);
    assert_int_equal(stats_of(ST_RELEASE).items, 1);
    for (int i = 0; i < 100; i += 2) {
        assert_int_equal(others[i].item.outcome, ST_TIMED_OUT);
        assert_int_equal(others[i].done, 1);
    }
    assert_true(stats_of(ST_ACQUIRE).items < 10);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.resource WHERE name = 'two'"), 0);
    assert_true(st_idle(store));
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
    t_sql(
        sql,
        "SELECT * FROM holdfast.acquire_all('default', '{b}', 't', 'h', 100, 'x', NULL, NULL, NULL)"); /* so that b's token is 2 */
    t_sleep_ms(101);
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
            t_sql(sql, "SELECT * FROM holdfast.release_batch('{default,default}', '{a,c}', '{1,1}', NULL)");
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
static int guilty_patience_ms; /* 0 = until its deadline */

/* NEIGHBOURS acquires, one of them on `name`, of which the outcome is returned; the others are granted. */
static enum st_outcome acquire_among_neighbours(const char *name)
{
    for (int i = 0; i < NEIGHBOURS; i++) {
        prepare_acquire(&neighbours[i], i == 40 ? name : t_printf("%s-neighbour-%d", name, i), "request");
        if (i == 40 && guilty_patience_ms)
            neighbours[i].item.patience_ms = t_now_ms() + guilty_patience_ms;
        submit(&neighbours[i]);
    }
    guilty_patience_ms = 0;
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

static void a_busy_item_passes_at_its_second_try(void **state)
{
    (void)state;
    struct work w;
    /* Busy once, whoever asks: the function is wrapped. */
    t_sql(sql,
          "CREATE SEQUENCE public.once; ALTER FUNCTION holdfast.release_batch(text[], text[], bigint[], boolean[]) RENAME TO "
          "real_release; CREATE FUNCTION holdfast.release_batch(text[], text[], bigint[], boolean[]) RETURNS TABLE (i int, outcome "
          "smallint, next_server text) LANGUAGE plpgsql AS $f$ BEGIN IF nextval('public.once') = 1 THEN RETURN QUERY SELECT 1, "
          "5::smallint, ''; ELSE RETURN QUERY SELECT * FROM holdfast.real_release($1, $2, $3, $4); END IF; END $f$");
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
    guilty_patience_ms = 300;
    assert_int_equal(acquire_among_neighbours("conflict2"), ST_BUSY);
    assert_in_range(neighbours[40].done_ms - neighbours[40].item.submitted_ms, 150, 300 + T_AT_ONCE_MS);
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
          "DROP FUNCTION holdfast.release_batch(text[], text[], bigint[], boolean[]); CREATE FUNCTION "
          "holdfast.release_batch(text[], text[], bigint[], boolean[]) RETURNS TABLE (i int, outcome smallint, next_server text) "
          "LANGUAGE sql AS $f$ SELECT 7, 20::smallint, '' $f$");
    reopen(&(struct st_config){0});
    prepare(&w, ST_RELEASE, "r")->in.release.token = 1;
    assert_int_equal(call(&w), ST_OUTCOME_LOST); /* it was committed, whatever it did */
    acquire("next");
}

/* ------------------------------------------------------------------------------------------------ bounds */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(many_items_few_batches),
        STORE_TEST(two_items_with_one_key),
        STORE_TEST(who_goes_is_not_worked_for),
        STORE_TEST(every_kind_once),
        STORE_TEST(several_resources_in_the_callers_order),
        STORE_TEST(a_guilty_item_fails_alone),
        STORE_TEST(a_busy_item_passes_at_its_second_try),
        STORE_TEST(a_serialization_failure_is_tried_again),
        STORE_TEST(a_renewal_overtaken_by_the_clock_is_careful),
        STORE_TEST(a_missing_partition_is_made),
        STORE_TEST(a_failing_commit_is_a_refusal),
        STORE_TEST(nonsense_from_sql_harms_nobody),
        STORE_TEST(a_full_queue_refuses),
        STORE_TEST(big_values_are_bounded_by_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
