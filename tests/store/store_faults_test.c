/*
 * store_faults_test.c - connections that break, a database that is away, and a libpq of which each call fails once.
 */
#include "store/store_env.h"

#include <signal.h>

#include "store/pq.h"

/* ------------------------------------------------------------------------------------------------ connections that break */

static void terminated_while_idle(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct work w;
        t_sql(sql, "SELECT pg_terminate_backend(%s)", backend());
        submit_acquire(&w, "r");
        run_until(all_done, LONG_MS);
        /* Whether it had gone before it was sent to is a race, of which the caller sees nothing. */
        assert_true(w.item.outcome == ST_REPEATED || (i == 0 && w.item.outcome == ST_GRANTED));
        run_until(is_ready, T_PATIENCE_MS);
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
    run_until(has_a_new_backend, T_PATIENCE_MS);
    acquire("r");
}

static void too_slow_is_told_from_too_far(void **state)
{
    (void)state;
    struct work slow, late;
    on_lease("slow", "PERFORM pg_sleep(1);");
    submit_acquire(&slow, "slow");
    run_until(backend_active, T_PATIENCE_MS);
    prepare_acquire(&late, "late", "request");
    late.item.deadline_ms = t_now_ms() + 200;
    submit(&late);
    run_until(all_done, LONG_MS);
    assert_int_equal(late.item.outcome, ST_TIMED_OUT);
    assert_in_range(late.done_ms, late.item.deadline_ms, late.item.deadline_ms + T_AT_ONCE_MS);
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
    run_until(nobody_serves, T_PATIENCE_MS);
    prepare_acquire(&brief, "brief", "request");
    brief.item.deadline_ms = t_now_ms() + 300;
    submit_acquire(&patient, "patient");
    prepare(&reading, ST_READ, "r");
    submit(&reading);
    submit(&brief);
    wait_for(&brief);
    assert_int_equal(brief.item.outcome, ST_DATABASE_DOWN);
    assert_in_range(brief.done_ms, brief.item.deadline_ms, brief.item.deadline_ms + T_AT_ONCE_MS);
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

/* Although the one connection that carries the work waits. */
static void what_only_reads_is_answered(void)
{
    static const enum st_kind kinds[] = {ST_READ, ST_CHECK, ST_GET, ST_LIST_LEASES, ST_STATS};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct work w;
        struct st_item *item = prepare(&w, kinds[i], "r0");
        if (kinds[i] == ST_LIST_LEASES) {
            item->resource = NULL;
            item->in.list.prefix = item->in.list.task = item->in.list.holder = item->in.list.after = "";
            item->in.list.max = 10;
        }
        submit(&w);
        wait_for(&w);
        assert_in_range(w.item.outcome, 1, ST_OUTCOME_LOST - 1);
        assert_int_equal(pending, 1);
    }
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
    what_only_reads_is_answered();
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
    run_until(all_done, T_PATIENCE_MS);
    assert_int_equal(w.item.outcome, ST_DATABASE_DOWN);
}

/* ------------------------------------------------------------------------------------------------ the end */

static void closing_ends_everything(void **state)
{
    (void)state;
    struct work slow, queued;
    on_lease("slow", "PERFORM pg_sleep(3);");
    submit_acquire(&slow, "slow");
    run_until(backend_active, T_PATIENCE_MS);
    submit_acquire(&queued, "queued");
    st_close(store);
    store = NULL;
    assert_int_equal(pending, 0);
    assert_int_equal(slow.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(queued.item.outcome, ST_DATABASE_DOWN);
}

/* ------------------------------------------------------------------------------------------------ a libpq that fails */

static int calls, fail_at, bad_names;
static const char *failing_role; /* by application_name: calls on connections of other roles go well, and don't count */

static bool fails_for(const char *role)
{
    return strcmp(role, failing_role) == 0 && ++calls == fail_at;
}

static bool fails(PGconn *conn)
{
    PQconninfoOption *options = PQconninfo(conn);
    assert_non_null(options);
    const PQconninfoOption *option = options;
    while (strcmp(option->keyword, "application_name") != 0)
        option++;
    bool failed = fails_for(option->val);
    PQconninfoFree(options);
    return failed;
}

static PGconn *f_connect(const char *const *keywords, const char *const *values, int expand)
{
    int i = 0;
    while (strcmp(keywords[i], "application_name") != 0)
        i++;
    return fails_for(values[i]) ? NULL : PQconnectStartParams(keywords, values, expand);
}

static PostgresPollingStatusType f_poll(PGconn *conn)
{
    return fails(conn) ? PGRES_POLLING_FAILED : PQconnectPoll(conn);
}

static int f_nonblocking(PGconn *conn, int on)
{
    return fails(conn) ? -1 : PQsetnonblocking(conn, on);
}

static int f_pipeline(PGconn *conn)
{
    return fails(conn) ? 0 : PQenterPipelineMode(conn);
}

static int f_query(PGconn *conn, const char *text, int n, const Oid *types, const char *const *values, const int *lengths,
                   const int *formats, int format)
{
    return fails(conn) ? 0 : PQsendQueryParams(conn, text, n, types, values, lengths, formats, format);
}

static int f_prepare(PGconn *conn, const char *name, const char *text, int n, const Oid *types)
{
    return fails(conn) ? 0 : PQsendPrepare(conn, name, text, n, types);
}

static int f_prepared(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
                      int format)
{
    if (bad_names > 0) {
        bad_names--;
        name = "gone";
    }
    return fails(conn) ? 0 : PQsendQueryPrepared(conn, name, n, values, lengths, formats, format);
}

static int f_sync(PGconn *conn)
{
    return fails(conn) ? 0 : PQpipelineSync(conn);
}

static int f_flush(PGconn *conn)
{
    return fails(conn) ? -1 : PQflush(conn);
}

static int f_consume(PGconn *conn)
{
    return fails(conn) ? 0 : PQconsumeInput(conn);
}

static PGresult *f_result(PGconn *conn)
{
    return fails(conn) ? NULL : PQgetResult(conn);
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
                                     .getResult = f_result,
                                     .notifies = PQnotifies};

/* The fail_at-th call on the connections of the role fails: every item ends once, as the truth allows. */
static enum st_outcome one_call_fails(void)
{
    struct work a, b, reading, sweep;
    calls = bad_names = 0;
    st_close(store);
    open_store(&(struct st_config){.pq = &failing}, dsn, false);
    submit_acquire(&a, t_printf("a/%s/%d", failing_role, fail_at));
    submit_acquire(&b, t_printf("b/%s/%d", failing_role, fail_at));
    prepare(&reading, ST_READ, "nothing");
    submit(&reading);
    prepare(&sweep, ST_SWEEP, "")->in.sweep.max = 1;
    submit(&sweep);
    run_until(all_done, LONG_MS);
    assert_int_equal(sweep.item.outcome, ST_FOUND);
    assert_true(a.done == 1 && b.done == 1 && reading.done == 1);
    assert_true(a.item.outcome == ST_GRANTED || a.item.outcome == ST_REPEATED);
    assert_int_equal(b.item.outcome, a.item.outcome);
    assert_int_equal(reading.item.outcome, ST_NO_SUCH_RESOURCE);
    return a.item.outcome;
}

/* Each call of libpq on these connections fails once, in turn, and the store goes on working. How often an answer was lost. */
static int each_call_fails(const char *role)
{
    int repeated = 0;
    failing_role = role;
    for (fail_at = 1;; fail_at++) {
        struct work w;
        assert_true(fail_at < 1000);
        repeated += one_call_fails() == ST_REPEATED;
        if (calls < fail_at)
            return repeated;
        submit_acquire(&w, t_printf("c/%s/%d", failing_role, fail_at));
        run_until(all_done, LONG_MS);
        assert_true(w.item.outcome == ST_GRANTED || w.item.outcome == ST_REPEATED);
    }
}

static void each_call_of_libpq_fails_once(void **state)
{
    (void)state;
    static const char *const others[] = {"holdfastd reads", "holdfastd lists", "holdfastd listener", "holdfastd errands"};
    int repeated = 0;
    for (int round = 0; round < 5 && !repeated; round++) { /* how many calls it takes to hear an answer is not always the same */
        repeated = each_call_fails("holdfastd");
        t_sql(sql, "UPDATE holdfast.lease SET deadline = '-infinity'");
        t_sql(sql, "UPDATE holdfast.resource SET request_id = ''");
        assert_true(fail_at > 30);
    }
    assert_true(repeated > 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        each_call_fails(others[i]);
    fail_at = 0;
}

static void a_lost_plan_costs_a_session_not_the_call(void **state)
{
    (void)state;
    struct work w;
    fail_at = 0;
    failing_role = "holdfastd";
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(terminated_while_idle),
        STORE_TEST(an_idle_store_notices_its_loss),
        STORE_TEST(too_slow_is_told_from_too_far),
        STORE_TEST(while_the_database_is_away),
        STORE_TEST(a_commit_that_was_not_replicated_is_unknown),
        STORE_TEST(names_are_resolved_off_the_loop),
        STORE_TEST(closing_ends_everything),
        STORE_TEST(each_call_of_libpq_fails_once),
        STORE_TEST(a_lost_plan_costs_a_session_not_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
