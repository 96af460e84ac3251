/*
 * large_test.c - the store on a real PostgreSQL and the real loop: large values come in pieces, behind the small ones, and whole.
 */
#include "store/store_env.h"

enum { MANY = 12, SMALL = 40, LARGE_SIZE = 200 << 10, MOST_SIZE = 1 << 20 };

static struct work larges[MANY], smalls[SMALL];
static unsigned char bytes[MOST_SIZE];
static int order[MANY + SMALL]; /* the items' values' sizes, in the order of their ends */
static int n_looked;

/* A value of its own: the same byte all through. */
static void write_value(const char *name, size_t size, int byte)
{
    struct work w;
    int64_t token = acquire(name);
    memset(bytes, byte, size);
    prepare(&w, ST_WRITE, name)->in.write.token = token;
    w.item.in.write.value = (struct st_bytes){bytes, size};
    assert_int_equal(call(&w), ST_WRITTEN);
}

static void write_larges(int n, size_t size)
{
    for (int i = 0; i < n; i++)
        write_value(t_printf("large%d", i), size, 'A' + i);
}

/* It is whole, and of one write. */
static void look_value(struct st_item *item)
{
    struct work *w = item->owner;
    if (item->outcome != ST_FOUND)
        return;
    const unsigned char *data = item->out.read.value.data;
    size_t len = item->out.read.value.len;
    assert_true(item->out.read.exists && len > 0);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(data[i], data[0]);
    assert_int_equal(item->out.read.version, 1);
    assert_int_equal(item->out.read.token, 1);
    if (strncmp(w->name, "large", 5) == 0)
        assert_int_equal(data[0], 'A' + atoi(w->name + 5));
    order[n_looked++] = (int)len;
}

static void submit_larges(int n, void (*look)(struct st_item *item))
{
    n_looked = 0;
    for (int i = 0; i < n; i++) {
        prepare(&larges[i], ST_READ, t_printf("large%d", i));
        larges[i].look = look;
        submit(&larges[i]);
    }
}

static void small_ones_come_first(void **state)
{
    (void)state;
    write_larges(MANY, LARGE_SIZE);
    for (int i = 0; i < SMALL; i++)
        write_value(t_printf("small%d", i), 10, 's');
    submit_larges(MANY, look_value);
    for (int i = 0; i < SMALL; i++) {
        prepare(&smalls[i], ST_READ, t_printf("small%d", i))->done = on_done;
        smalls[i].look = look_value;
        submit(&smalls[i]);
    }
    run_until(all_done, LONG_MS);
    assert_int_equal(n_looked, MANY + SMALL);
    for (int i = 0; i < MANY + SMALL; i++)
        assert_int_equal(order[i], i < SMALL ? 10 : LARGE_SIZE);
    assert_int_equal(stats_of(ST_READ).batches, 1 + MANY); /* two would be more than a piece */
    assert_int_equal(stats_of(ST_READ).slow, 0);
    assert_true(st_idle(store));
}

static void one_alone_comes_at_once(void **state)
{
    (void)state;
    write_larges(1, MOST_SIZE);
    submit_larges(1, look_value);
    run_until(all_done, LONG_MS);
    assert_int_equal(order[0], MOST_SIZE);
    assert_int_equal(stats_of(ST_READ).batches, 1);
}

static void several_make_a_piece(void **state)
{
    (void)state;
    enum { N = 9, SIZE = 60 << 10 };
    write_larges(N, SIZE);
    submit_larges(N, look_value);
    run_until(all_done, LONG_MS);
    assert_int_equal(n_looked, N);
    assert_int_equal(stats_of(ST_READ).batches, 1 + 3); /* of 4, 4 and 1: within 256 KiB */
}

static bool grown;

/* When the first has come, the others are written anew, and are larger than they were when they were weighed. */
static void grow_others(struct st_item *item)
{
    if (!grown)
        t_sql(sql,
              "UPDATE holdfast.resource_value SET value = convert_to(repeat('z', %d), 'UTF8'), version = version + 1 "
              "WHERE resource <> '%s'",
              MOST_SIZE, item->resource);
    int size = grown ? MOST_SIZE : LARGE_SIZE;
    assert_int_equal(item->outcome, ST_FOUND);
    assert_int_equal(item->out.read.value.len, size);
    assert_int_equal(item->out.read.version, grown ? 2 : 1);
    assert_int_equal(((const unsigned char *)item->out.read.value.data)[size - 1] == 'z', grown);
    grown = true;
}

static void one_that_grew_meanwhile_comes_too(void **state)
{
    (void)state;
    grown = false;
    write_larges(3, LARGE_SIZE);
    submit_larges(3, grow_others);
    run_until(all_done, LONG_MS);
    assert_int_equal(stats_of(ST_READ).batches, 1 + 3 + 2); /* the two that grew were asked for twice */
}

static void withdraw_others(struct st_item *item)
{
    for (int i = 0; i < MANY && item->outcome == ST_FOUND; i++) {
        if (!larges[i].done)
            st_withdraw(store, &larges[i].item);
    }
}

static void who_goes_is_not_worked_for(void **state)
{
    (void)state;
    int found = 0;
    write_larges(MANY, LARGE_SIZE);
    submit_larges(MANY, withdraw_others);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < MANY; i++)
        found += larges[i].item.outcome == ST_FOUND;
    assert_int_equal(found, 1);
    assert_int_equal(stats_of(ST_READ).items, MANY + 1);
    assert_true(st_idle(store));
}

static void end_backends(struct st_item *item)
{
    look_value(item);
    if (n_looked == 1)
        t_sql(sql,
              "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN ('holdfastd', 'holdfastd reads') "
              "AND datname = current_database()");
}

static void they_wait_for_another_session(void **state)
{
    (void)state;
    write_larges(MANY, LARGE_SIZE);
    submit_larges(MANY, end_backends);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(larges[i].item.outcome, ST_FOUND);
    assert_int_equal(n_looked, MANY);
}

static void look_operation(struct st_item *item)
{
    const struct st_op_row *row = &item->out.ops.rows[0];
    assert_int_equal(item->outcome, ST_FOUND);
    assert_int_equal(item->out.ops.n, 1);
    assert_string_equal(row->key, item->resource);
    assert_int_equal(row->token, 0);
    assert_int_equal(row->result.len, LARGE_SIZE);
    assert_int_equal(((const char *)row->result.data)[LARGE_SIZE - 1], item->resource[0]);
    n_looked++;
}

enum { OPERATIONS = 6 };
static const unsigned char print[32];

/* "a" to "f", with a result of their own each. */
static void record_operations(void)
{
    for (int i = 0; i < OPERATIONS; i++) {
        memset(bytes, 'a' + i, LARGE_SIZE);
        prepare(&larges[i], ST_OP_RECORD, t_printf("%c", 'a' + i))->in.op_record =
            (struct st_op_record){.type = "t", .fingerprint = {print, sizeof(print)}, .result = {bytes, LARGE_SIZE}};
        assert_int_equal(call(&larges[i]), ST_OP_DONE);
    }
    n_looked = 0;
}

static void results_of_operations_too(void **state)
{
    (void)state;
    record_operations();
    for (int i = 0; i < OPERATIONS; i++) {
        prepare(&larges[i], ST_OP_GET, t_printf("%c", 'a' + i));
        larges[i].look = look_operation;
        submit(&larges[i]);
    }
    run_until(all_done, LONG_MS);
    assert_int_equal(n_looked, OPERATIONS);
    assert_int_equal(stats_of(ST_OP_GET).batches, 1 + OPERATIONS);
}

static void look_replay(struct st_item *item)
{
    const struct st_op_told *told = &item->out.op;
    assert_int_equal(item->outcome, ST_OP_REPLAYED);
    assert_int_equal(told->result.len, LARGE_SIZE);
    assert_int_equal(((const char *)told->result.data)[LARGE_SIZE - 1], item->resource[0]);
    assert_int_equal(told->token, 0);
    assert_int_equal(told->fence, 0);
    assert_true(told->ended_unix_ms > 1500000000000);
    n_looked++;
}

/* Whoever comes with a key that was used: by whichever call, results come in pieces. */
static void replays_too(enum st_kind kind, void (*ask)(struct st_item *item))
{
    record_operations();
    long before = (long)stats_of(kind).batches;
    for (int i = 0; i < OPERATIONS; i++) {
        ask(prepare(&larges[i], kind, t_printf("%c", 'a' + i)));
        larges[i].look = look_replay;
        submit(&larges[i]);
    }
    run_until(all_done, LONG_MS);
    assert_int_equal(n_looked, OPERATIONS);
    assert_int_equal((long)stats_of(kind).batches - before, 1 + OPERATIONS);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.attempt"), 0);
}

static void begin(struct st_item *item)
{
    item->in.op_begin =
        (struct st_op_begin){.type = "t", .fingerprint = {print, sizeof(print)}, .holder = "h", .request_id = "r", .ttl_ms = 10000};
}

static void replays_of_begin_too(void **state)
{
    (void)state;
    replays_too(ST_OP_BEGIN, begin);
}

static void record(struct st_item *item)
{
    item->in.op_record =
        (struct st_op_record){.type = "t", .fingerprint = {print, sizeof(print)}, .result = {(const unsigned char *)"other", 5}};
}

static void replays_of_record_too(void **state)
{
    (void)state;
    replays_too(ST_OP_RECORD, record);
}

static void execute(struct st_item *item)
{
    item->in.op_execute =
        (struct st_op_execute){.type = "t", .fingerprint = {print, sizeof(print)}, .action = "none", .holder = "h"};
}

static void replays_of_execute_too(void **state)
{
    (void)state;
    replays_too(ST_OP_EXECUTE, execute);
}

static long sent_before;

static bool was_sent(void)
{
    return (long)stats_of(ST_OP_BEGIN).batches > sent_before;
}

static void withdraw_operations(struct st_item *item)
{
    for (int i = 0; i < OPERATIONS; i++) {
        if (!larges[i].done && &larges[i].item != item)
            st_withdraw(store, &larges[i].item);
    }
}

static void withdraw_the_others(struct st_item *item)
{
    if (item->outcome == ST_OP_REPLAYED)
        withdraw_operations(item);
}

static void begin_operations(void (*look)(struct st_item *item))
{
    record_operations();
    sent_before = (long)stats_of(ST_OP_BEGIN).batches;
    for (int i = 0; i < OPERATIONS; i++) {
        begin(prepare(&larges[i], ST_OP_BEGIN, t_printf("%c", 'a' + i)));
        larges[i].look = look;
        submit(&larges[i]);
    }
}

/* Nobody's replay is brought, whether he went before the first answer or behind it. */
static void replays_are_for_those_who_are_there(void **state)
{
    int found = 0;
    (void)state;
    begin_operations(withdraw_the_others);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < OPERATIONS; i++)
        found += larges[i].item.outcome == ST_OP_REPLAYED;
    assert_int_equal(found, 1);
    assert_int_equal((long)stats_of(ST_OP_BEGIN).batches - sent_before, 2);
    assert_true(st_idle(store));
}

static void who_goes_meanwhile_has_no_replay(void **state)
{
    (void)state;
    begin_operations(NULL);
    run_until(was_sent, LONG_MS);
    withdraw_operations(NULL);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < OPERATIONS; i++)
        assert_int_equal(larges[i].item.outcome, ST_TIMED_OUT);
    assert_int_equal((long)stats_of(ST_OP_BEGIN).batches - sent_before, 1);
    assert_true(st_idle(store));
}

/* Other parameters are a conflict, which shows nothing of the result (P4): nothing large comes. */
static void a_conflict_brings_nothing(void **state)
{
    (void)state;
    struct work w;
    record_operations();
    begin(prepare(&w, ST_OP_BEGIN, "a"));
    w.item.in.op_begin.type = "another";
    assert_int_equal(call(&w), ST_OP_CONFLICT);
    assert_int_equal(stats_of(ST_OP_BEGIN).batches, 1);
}

static int n_attempts;
static bool more_attempts;

static void look_attempts(struct st_item *item)
{
    const struct st_attempts_told *told = &item->out.attempts;
    assert_int_equal(item->outcome, ST_FOUND);
    for (size_t i = 0; i < told->n; i++) {
        assert_int_equal(told->rows[i].attempt, item->in.op_attempts.after + (int)i + 1);
        assert_int_equal(told->rows[i].late_result.len, LARGE_SIZE);
    }
    n_attempts = (int)told->n;
    more_attempts = told->more;
}

static void list_attempts(int after, int max)
{
    struct work w;
    prepare(&w, ST_OP_ATTEMPTS, "k");
    w.item.in.op_attempts.after = after;
    w.item.in.op_attempts.max = max;
    w.look = look_attempts;
    assert_int_equal(call(&w), ST_FOUND);
}

static void late_results_fill_a_page(void **state)
{
    (void)state;
    t_sql(sql,
          "INSERT INTO holdfast.attempt (namespace, key, token, attempt, trigger, execution_id, started_at, holder, late_result) "
          "SELECT 'default', 'k', i, i, 4, gen_random_uuid(), now(), 'h', convert_to(repeat('l', %d), 'UTF8') "
          "FROM generate_series(1, 14) i",
          LARGE_SIZE);
    list_attempts(0, 100);
    assert_int_equal(n_attempts, 6); /* the sixth goes beyond a MiB */
    assert_true(more_attempts);
    list_attempts(6, 6);
    assert_int_equal(n_attempts, 6);
    assert_true(more_attempts);
    list_attempts(6, 2);
    assert_int_equal(n_attempts, 2);
    assert_true(more_attempts);
    list_attempts(12, 100);
    assert_int_equal(n_attempts, 2);
    assert_false(more_attempts);
    t_sql(sql, "UPDATE holdfast.attempt SET late_result = convert_to(repeat('l', %d), 'UTF8')", MOST_SIZE);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.op_attempts('default', 'k', 0, 100)"), 2);
    assert_int_equal(t_sql_int(sql, "SELECT sum(octet_length(late_result)) FROM holdfast.op_attempts('default', 'k', 0, 100)"),
                     MOST_SIZE);
}

enum { FLOW = 256, FLOW_SIZE = 4 << 10, FLOW_MOST = 60000 };
static struct work flows[FLOW];
static int flowed;

/* Each of them is read again and again, until the large ones have come. */
static void flow_on(struct st_item *item)
{
    struct work *w = item->owner;
    assert_int_equal(item->outcome, ST_FOUND);
    if ((larges[0].done && larges[1].done) || ++flowed >= FLOW_MOST)
        return;
    prepare(w, ST_READ, t_printf("small%d", (int)(w - flows)))->done = on_done;
    w->look = flow_on;
    submit(w);
}

static void a_flow_of_others_does_not_keep_it_waiting(void **state)
{
    (void)state;
    flowed = 0;
    write_larges(2, MOST_SIZE);
    for (int i = 0; i < FLOW; i++)
        write_value(t_printf("small%d", i), FLOW_SIZE, 's');
    for (int i = 0; i < FLOW; i++) {
        prepare(&flows[i], ST_READ, t_printf("small%d", i));
        flows[i].look = flow_on;
        submit(&flows[i]);
    }
    submit_larges(2, look_value);
    run_until(all_done, LONG_MS);
    if (flowed >= FLOW_MOST)
        fail_msg("%d others came first", flowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(small_ones_come_first),
        STORE_TEST(one_alone_comes_at_once),
        STORE_TEST(several_make_a_piece),
        STORE_TEST(one_that_grew_meanwhile_comes_too),
        STORE_TEST(who_goes_is_not_worked_for),
        STORE_TEST(they_wait_for_another_session),
        STORE_TEST(results_of_operations_too),
        STORE_TEST(replays_of_begin_too),
        STORE_TEST(replays_of_record_too),
        STORE_TEST(replays_of_execute_too),
        STORE_TEST(replays_are_for_those_who_are_there),
        STORE_TEST(who_goes_meanwhile_has_no_replay),
        STORE_TEST(a_conflict_brings_nothing),
        STORE_TEST(late_results_fill_a_page),
        STORE_TEST(a_flow_of_others_does_not_keep_it_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
