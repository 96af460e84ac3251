/*
 * store_operations_test.c - items of operations: their batches, what becomes of a row that is at fault or locked, of answers that
 * are lost, and that what is executed delays nothing else.
 */
#include "store/store_env.h"

#include "store/pq.h"

static const unsigned char print[32] = "the fingerprint of all of them.";

#define PRINT    ((struct st_bytes){print, sizeof(print)})
#define BYTES(s) ((struct st_bytes){(const unsigned char *)(s), strlen(s)})

/* ------------------------------------------------------------------------------------------------ a libpq that loses answers */

static bool lose_next;
static const PGconn *losing_conn;

static int t_pq_send(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
                     int result_format)
{
    if (lose_next) {
        lose_next = false;
        losing_conn = conn;
    }
    return PQsendQueryPrepared(conn, name, n, values, lengths, formats, result_format);
}

/* What was sent was committed by the time an answer arrives; it isn't read. */
static int t_pq_consume(PGconn *conn)
{
    if (conn != losing_conn)
        return PQconsumeInput(conn);
    losing_conn = NULL;
    return 0;
}

static void lose_answers(void)
{
    static struct st_pq pq;
    pq = st_libpq;
    pq.consumeInput = t_pq_consume;
    pq.sendQueryPrepared = t_pq_send;
    lose_next = false;
    losing_conn = NULL;
    reopen(&(struct st_config){.pq = &pq});
}

/* ------------------------------------------------------------------------------------------------ items */

static struct st_item *prepare_begin(struct work *work, const char *key, const char *request_id)
{
    struct st_item *item = prepare(work, ST_OP_BEGIN, key);
    item->in.op_begin = (struct st_op_begin){
        .type = "t", .fingerprint = PRINT, .holder = "me", .request_id = request_id, .ttl_ms = 60000, .trigger = 1};
    return item;
}

static struct st_item *prepare_record(struct work *work, const char *key, const char *result)
{
    struct st_item *item = prepare(work, ST_OP_RECORD, key);
    snprintf(work->text, sizeof(work->text), "%s", result);
    item->in.op_record = (struct st_op_record){.type = "t", .fingerprint = PRINT, .result = BYTES(work->text)};
    return item;
}

static struct st_item *prepare_finish(struct work *work, const char *key, enum st_op_call how, int64_t token)
{
    struct st_item *item = prepare(work, ST_OP_FINISH, key);
    item->in.op_finish = (struct st_op_finish){.call = how, .token = token};
    return item;
}

static struct st_item *prepare_execute(struct work *work, const char *key, const char *action, const char *args)
{
    struct st_item *item = prepare(work, ST_OP_EXECUTE, key);
    snprintf(work->text, sizeof(work->text), "%s", args);
    item->in.op_execute =
        (struct st_op_execute){.type = "t", .fingerprint = PRINT, .action = action, .args = work->text, .holder = "me"};
    return item;
}

static int64_t begin(const char *key)
{
    struct work w;
    prepare_begin(&w, key, "begin");
    assert_int_equal(call(&w), ST_OP_STARTED);
    return w.item.out.op.token;
}

/* In the test's database, and registered by item: waits for as long as `ms` of its arguments says, and notes that it ran. */
static void register_action(void)
{
    struct work w;
    const char *role = t_sql(sql, "SELECT 'act_' || substr(md5(current_database()), 1, 12)");
    t_sql(sql,
          "CREATE ROLE %s NOLOGIN; CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO %s; "
          "CREATE TABLE app.ran (key text PRIMARY KEY, times int); ALTER TABLE app.ran OWNER TO %s; "
          "CREATE FUNCTION app.act(key text, args jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = app, "
          "pg_temp AS $f$ BEGIN PERFORM pg_sleep(coalesce((args->>'ms')::float8, 0) / 1000); "
          "IF args ? 'raise' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'P0007'; END IF; "
          "INSERT INTO ran VALUES (act.key, 1) ON CONFLICT ON CONSTRAINT ran_pkey DO UPDATE SET times = ran.times + 1; "
          "RETURN jsonb_build_object('did', act.key); END $f$; ALTER FUNCTION app.act OWNER TO %s",
          role, role, role, role);
    prepare(&w, ST_REGISTER_ACTION, "")->resource = NULL;
    w.item.in.actions = (struct st_actions){.name = "act", .function = "app.act", .timeout_ms = 10000, .actor = "test"};
    assert_int_equal(call(&w), ST_FOUND);
}

/* Roles are the cluster's, not the database's. */
static int drop_role(void **state)
{
    const char *role = t_sql(sql, "SELECT rolname FROM pg_roles WHERE rolname = 'act_' || substr(md5(current_database()), 1, 12)");
    if (*role)
        t_sql(sql, "DROP OWNED BY %s CASCADE; DROP ROLE %s", role, role);
    return teardown(state);
}

#define ACTION_TEST(name) cmocka_unit_test_setup_teardown(name, setup, drop_role)

/* ------------------------------------------------------------------------------------------------ one of each */

static int64_t told_n;
static char told_text[600];

static void look_told(struct st_item *item)
{
    const struct st_op_told *op = &item->out.op;
    snprintf(told_text, sizeof(told_text), "%.*s|%s|%s|%d|%s|%s", (int)op->result.len,
             op->result.len ? (const char *)op->result.data : "", op->result_ref, op->holder, op->state, op->sqlstate, op->message);
}

static void look_ops(struct st_item *item)
{
    told_n = (int64_t)item->out.ops.n;
    if (told_n == 0)
        return;
    const struct st_op_row *row = &item->out.ops.rows[0];
    snprintf(told_text, sizeof(told_text), "%s|%s|%d|%.*s|%s|%s|%zu", row->key, row->type, row->state, (int)row->result.len,
             row->result.len ? (const char *)row->result.data : "", row->result_ref, row->holder, row->fingerprint.len);
}

static void look_attempts(struct st_item *item)
{
    told_n = (int64_t)item->out.attempts.n;
    if (told_n)
        snprintf(told_text, sizeof(told_text), "%d|%d|%s|%s|%s", item->out.attempts.rows[0].outcome,
                 item->out.attempts.rows[0].error_class, item->out.attempts.rows[0].message, item->out.attempts.rows[0].sqlstate,
                 item->out.attempts.rows[0].holder);
}

static void look_states(struct st_item *item)
{
    told_n = 0;
    for (size_t i = 0; i < item->out.op_states.n; i++) {
        if (strcmp(item->out.op_states.rows[i].state, "pending") == 0)
            told_n = item->out.op_states.rows[i].count;
    }
}

static void look_audit(struct st_item *item)
{
    told_n = (int64_t)item->out.audit.n;
    if (told_n)
        snprintf(told_text, sizeof(told_text), "%s|%s|%s", item->out.audit.rows[0].kind, item->out.audit.rows[0].resource,
                 item->out.audit.rows[0].operation);
}

static void an_attempt_from_end_to_end(void **state)
{
    (void)state;
    struct work w;
    int64_t token = begin("k");
    assert_true(token > 0);
    prepare(&w, ST_OP_RENEW, "k")->in.renew.token = token;
    w.item.in.renew.ttl_ms = 90000;
    assert_int_equal(call(&w), ST_RENEWED);
    assert_in_range(w.item.out.renew.ttl_ms, 60001, 90000);
    prepare(&w, ST_OP_SENDING, "k")->in.op_sending.token = token;
    assert_int_equal(call(&w), ST_OP_DONE);
    assert_in_range(w.item.out.op_moved.remaining_ms, 60001, 90000);
    prepare_finish(&w, "k", ST_OP_FAIL, token);
    w.item.in.op_finish.error_class = 1;
    w.item.in.op_finish.message = "later";
    w.item.in.op_finish.sqlstate = "08006";
    w.item.in.op_finish.retry_after_ms = 3600000;
    assert_int_equal(call(&w), ST_OP_DONE);
    assert_int_equal(w.item.out.op_moved.state, ST_OP_PENDING);
    assert_true(w.item.out.op_moved.due_ms >= 3600000);
    prepare_begin(&w, "k", "another");
    w.look = look_told;
    assert_int_equal(call(&w), ST_OP_IN_PROGRESS);
    assert_string_equal(told_text, "|||1|08006|later");
    prepare(&w, ST_OP_ATTEMPTS, "k")->in.op_attempts.max = 10;
    w.look = look_attempts;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(told_n, 1);
    assert_string_equal(told_text, "2|1|later|08006|me");
    prepare(&w, ST_OP_STATS, "")->ns = "";
    w.look = look_states;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(told_n, 1);
}

static void a_record_is_told_to_who_asks(void **state)
{
    (void)state;
    struct work w;
    prepare_record(&w, "r", "42")->in.op_record.result_ref = "s3://there";
    assert_int_equal(call(&w), ST_OP_DONE);
    prepare_record(&w, "r", "43");
    w.look = look_told;
    assert_int_equal(call(&w), ST_OP_REPLAYED);
    assert_string_equal(told_text, "42|s3://there||3||");
    prepare(&w, ST_OP_GET, "r");
    w.look = look_ops;
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(told_text, "r|t|3|42|s3://there||32");
    prepare(&w, ST_OP_GET, "none");
    assert_int_equal(call(&w), ST_OP_NONE);
    prepare(&w, ST_OP_GET, "r")->ns = "nowhere";
    assert_int_equal(call(&w), ST_NO_SUCH_NAMESPACE);
    prepare(&w, ST_OP_ATTEMPTS, "none")->in.op_attempts.max = 10;
    assert_int_equal(call(&w), ST_OP_NONE);
    prepare(&w, ST_OP_ATTEMPTS, "r")->in.op_attempts.max = 10;
    w.look = look_attempts;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(told_n, 0); /* it was only recorded */
    prepare(&w, ST_OP_LIST, "")->resource = NULL;
    w.item.in.op_list.max = 10;
    w.look = look_ops;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(told_n, 1);
    assert_string_equal(told_text, "r|t|3||||32"); /* a list tells no results */
}

static void decisions_and_what_they_leave(void **state)
{
    (void)state;
    struct work w;
    prepare_finish(&w, "u", ST_OP_MARK_UNKNOWN, begin("u"));
    w.item.in.op_finish.message = "no answer";
    assert_int_equal(call(&w), ST_OP_DONE);
    assert_int_equal(w.item.out.op_moved.state, ST_OP_IS_UNKNOWN);
    int64_t revision = w.item.out.op_moved.revision;
    for (int again = 0; again < 2; again++) {
        prepare(&w, ST_OP_DECIDE, "u");
        w.item.in.op_decide = (struct st_op_decide){.decision = ST_OP_RECONCILE,
                                                    .revision = revision,
                                                    .reconciled = 1,
                                                    .result = BYTES("paid"),
                                                    .actor = "ann",
                                                    .reason = "asked the bank"};
        assert_int_equal(call(&w), again ? ST_OP_DONE_AGAIN : ST_OP_DONE);
        assert_int_equal(w.item.out.op_moved.state, ST_OP_SUCCEEDED);
    }
    prepare(&w, ST_OP_DECIDE, "u");
    w.item.in.op_decide = (struct st_op_decide){.decision = ST_OP_CANCEL, .revision = 77, .actor = "ann", .reason = "x"};
    assert_int_equal(call(&w), ST_OP_REVISION);
    prepare(&w, ST_OP_COMPENSATE, "u");
    w.item.in.op_compensate = (struct st_op_compensate){.type = "undo", .payload = BYTES("{}"), .actor = "ann", .reason = "wrong"};
    assert_int_equal(call(&w), ST_OP_DONE);
    assert_int_equal(w.item.out.op_moved.state, ST_OP_PENDING);
    prepare(&w, ST_AUDIT, "")->resource = NULL;
    w.item.in.audit.operation = "u";
    w.item.in.audit.max = 10;
    w.look = look_audit;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(told_n, 2);
    assert_string_equal(told_text, "compensate||u");
}

static void policies_and_actions(void **state)
{
    (void)state;
    struct work w;
    prepare(&w, ST_SET_OP_POLICY, "")->resource = NULL;
    w.item.in.op_policies =
        (struct st_op_policies){.type = "t", .policy = {ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, 1000, 0}, .actor = "ann"};
    assert_int_equal(call(&w), ST_OP_RETENTION);
    assert_true(w.item.out.op_policies.needed_ms > 86400000);
    w.item.in.op_policies.policy = (struct st_op_policy){3, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, 2};
    w.done = 0;
    assert_int_equal(call(&w), ST_FOUND);
    w.item.in.op_policies.policy = (struct st_op_policy){ST_UNSET, ST_UNSET, 1000, 10, ST_UNSET, 0};
    w.done = 0;
    assert_int_equal(call(&w), ST_CONTRADICTION);
    assert_int_equal(t_sql_int(sql, "SELECT max_attempts FROM holdfast.operation_policy WHERE type = 't' AND on_lost = 2"), 3);
    prepare(&w, ST_LIST_OP_POLICIES, "")->resource = NULL;
    w.item.in.op_policies.max = 5;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(w.item.out.op_policies.n, 1);
    register_action();
    prepare(&w, ST_LIST_ACTIONS, "")->resource = NULL;
    w.item.in.actions.max = 5;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(w.item.out.actions.n, 1);
    prepare(&w, ST_REGISTER_ACTION, "")->resource = NULL;
    w.item.in.actions = (struct st_actions){.name = "bad", .function = "pg_catalog.now", .timeout_ms = 100, .actor = "test"};
    assert_int_equal(call(&w), ST_OP_BAD_ACTION);
    for (int again = 0; again < 2; again++) {
        prepare(&w, ST_REMOVE_ACTION, "")->resource = NULL;
        w.item.in.actions = (struct st_actions){.name = "act", .actor = "test"};
        assert_int_equal(call(&w), again ? ST_OP_NO_ACTION : ST_FOUND);
    }
}

/* ------------------------------------------------------------------------------------------------ batches */

enum { N = 64 };
static struct work works[N];

/* An operation and a resource of one name have nothing to do with each other, not even a turn. */
static void what_comes_together_goes_together(void **state)
{
    (void)state;
    struct work lease;
    static struct st_event events[2] = {{"order", "7", "paid", {(const unsigned char *)"a", 1}}, {"order", "8", "paid", {NULL, 0}}};
    for (int i = 0; i < N; i++) {
        prepare_record(&works[i], t_printf("k%02d", i % 32 + i / 32), i < 32 ? "first" : "second");
        if (i % 2)
            works[i].item.in.op_record.events = (struct st_events){events, 2};
        submit(&works[i]);
    }
    submit_acquire(&lease, "k05");
    run_until(all_done, LONG_MS);
    assert_int_equal(lease.item.outcome, ST_GRANTED);
    assert_int_equal(stats_of(ST_OP_RECORD).batches, 2); /* each key once in each */
    assert_int_equal(stats_of(ST_OP_RECORD).items, N);
    int64_t kept = 0;
    for (int i = 0; i < N; i++)
        kept += works[i].item.outcome == ST_OP_DONE;
    assert_int_equal(kept, 33);
    assert_int_equal(works[63].item.outcome, ST_OP_DONE);     /* k32: nobody else's */
    assert_int_equal(works[32].item.outcome, ST_OP_REPLAYED); /* k01 */
    /* The events of those that were kept, and of no others, each with its own operation. */
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.outbox"), 2 * 17);
    assert_int_equal(
        t_sql_int(sql, "SELECT count(DISTINCT operation) FROM holdfast.outbox WHERE aggregateid = '8' AND payload = ''"), 17);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.outbox WHERE operation = 'k02'"), 0);
}

/* A row that says to stand for others than were asked for is not believed: what became of them is unknown. */
static void one_row_for_all_is_for_all(void **state)
{
    (void)state;
    struct work w;
    t_sql(sql, "DO $d$ BEGIN EXECUTE (SELECT replace(pg_get_functiondef(oid), 'SELECT -n,', 'SELECT -n - 1,') FROM pg_proc "
               "WHERE proname = 'op_record_batch'); END $d$");
    prepare_record(&w, "r", "42");
    assert_int_equal(call(&w), ST_OUTCOME_LOST);
    prepare_record(&w, "r", "42");
    assert_int_equal(call(&w), ST_OP_REPLAYED);
}

/* PostgreSQL refuses the batch for one row: the others don't suffer, and it is told apart. */
static void one_bad_row_is_found(void **state)
{
    (void)state;
    t_sql(sql, "ALTER TABLE holdfast.operation ADD CONSTRAINT no_bad CHECK (key <> 'k13')");
    for (int i = 0; i < N; i++) {
        prepare_begin(&works[i], t_printf("k%02d", i), "request");
        submit(&works[i]);
    }
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(works[i].item.outcome, i == 13 ? ST_FAILED : ST_OP_STARTED);
    assert_string_equal(works[13].item.sqlstate, "23514");
    assert_in_range(stats_of(ST_OP_BEGIN).splits, 1, 6);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.attempt"), N - 1);
}

static bool all_but_the_first_are_done(void)
{
    return pending == 1 && !works[0].done;
}

static bool found_busy_often(void)
{
    return stats_of(ST_OP_FINISH).busy >= 3;
}

static void a_locked_row_delays_nobody(void **state)
{
    (void)state;
    int64_t tokens[N];
    for (int i = 0; i < N; i++)
        submit((prepare_begin(&works[i], t_printf("k%02d", i), "request"), &works[i]));
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        tokens[i] = works[i].item.out.op.token;
    PGconn *other = t_connect(dsn);
    t_sql(other, "BEGIN; SELECT FROM holdfast.operation WHERE key = 'k00' FOR UPDATE");
    for (int i = 0; i < N; i++)
        submit((prepare_finish(&works[i], t_printf("k%02d", i), ST_OP_COMPLETE, tokens[i]), &works[i]));
    run_until(all_but_the_first_are_done, LONG_MS);
    run_until(found_busy_often, LONG_MS);
    assert_int_equal(works[0].done, 0);
    assert_int_equal(stats_of(ST_OP_FINISH).splits, 0);
    t_sql(other, "ROLLBACK");
    PQfinish(other);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(works[i].item.outcome, ST_OP_DONE);
}

/* ------------------------------------------------------------------------------------------------ answers that are lost */

static void each_kind_repeats_its_answer(void **state)
{
    (void)state;
    struct work w;
    static struct st_event event = {"order", "7", "paid", {0}};
    register_action();
    lose_answers();
    lose_next = true;
    prepare_begin(&w, "k", "request");
    assert_int_equal(call(&w), ST_OP_STARTED_AGAIN);
    assert_int_equal(w.item.out.op.attempt, 1);
    int64_t token = w.item.out.op.token;
    lose_next = true;
    prepare(&w, ST_OP_SENDING, "k")->in.op_sending.token = token;
    assert_int_equal(call(&w), ST_OP_DONE_AGAIN);
    lose_next = true;
    prepare_finish(&w, "k", ST_OP_COMPLETE, token)->in.op_finish.events = (struct st_events){&event, 1};
    assert_int_equal(call(&w), ST_OP_DONE_AGAIN);
    lose_next = true;
    prepare_record(&w, "r", "42")->in.op_record.events = (struct st_events){&event, 1};
    assert_int_equal(call(&w), ST_OP_REPLAYED);
    lose_next = true;
    prepare_execute(&w, "e", "act", "{}");
    assert_int_equal(call(&w), ST_OP_REPLAYED);
    lose_next = true;
    prepare(&w, ST_REMOVE_ACTION, "")->resource = NULL;
    w.item.in.actions = (struct st_actions){.name = "act", .actor = "test"};
    assert_int_equal(call(&w), ST_OUTCOME_LOST); /* it isn't there: by this, or by another before? */
    assert_true(!lose_next && !losing_conn);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.outbox"), 2);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.attempt"), 1);
    assert_int_equal(t_sql_int(sql, "SELECT times FROM app.ran"), 1);
}

/* ------------------------------------------------------------------------------------------------ actions */

static const char *executors(void)
{
    return "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfastd executes' AND datname = current_database()";
}

static bool executes_now(void)
{
    return t_sql_int(sql, "%s AND state = 'active' AND query LIKE '%%op_execute_batch%%'", executors()) > 0;
}

static void an_action_runs_once(void **state)
{
    (void)state;
    struct work w;
    register_action();
    assert_int_equal(t_sql_int(sql, "%s", executors()), 0); /* nobody has executed anything yet */
    prepare_execute(&w, "k", "act", "{}");
    w.look = look_told;
    assert_int_equal(call(&w), ST_OP_DONE);
    assert_string_equal(told_text, "{\"did\": \"k\"}||me|3||");
    prepare_execute(&w, "k", "act", "{}");
    w.look = look_told;
    assert_int_equal(call(&w), ST_OP_REPLAYED);
    assert_string_equal(told_text, "{\"did\": \"k\"}||me|3||");
    prepare_execute(&w, "no", "act", "{\"raise\": 1}");
    w.look = look_told;
    assert_int_equal(call(&w), ST_OP_RAISED);
    assert_non_null(strstr(told_text, "|P0007|no"));
    prepare_execute(&w, "k2", "unknown", "");
    assert_int_equal(call(&w), ST_OP_NO_ACTION);
    prepare_execute(&w, "k3", "act", "")->in.op_execute.resource = "nobody's";
    w.item.in.op_execute.token = 1;
    assert_int_equal(call(&w), ST_OP_RESOURCE_NOT_HELD);
    assert_in_range(t_sql_int(sql, "%s", executors()), 1, 2);
    assert_int_equal(t_sql_int(sql, "SELECT sum(times) FROM app.ran"), 1);
}

/* Not as the server's own statements, for which some plans are ruled out; the next batch has the server's settings again. */
static void an_action_is_planned_like_anybodys_sql(void **state)
{
    (void)state;
    struct work w;
    register_action();
    const char *owner = t_sql(sql, "SELECT proowner::regrole FROM pg_proc WHERE oid = 'app.act'::regproc");
    t_sql(
        sql,
        "CREATE FUNCTION app.plans(key text, args jsonb) RETURNS jsonb LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, "
        "pg_temp AS $f$ SELECT to_jsonb(concat_ws(' ', current_setting('enable_hashjoin'), current_setting('enable_mergejoin'), "
        "current_setting('enable_seqscan'), current_setting('plan_cache_mode'))) $f$; ALTER FUNCTION app.plans OWNER TO %s",
        owner);
    prepare(&w, ST_REGISTER_ACTION, "")->resource = NULL;
    w.item.in.actions = (struct st_actions){.name = "plans", .function = "app.plans", .timeout_ms = 10000, .actor = "test"};
    assert_int_equal(call(&w), ST_FOUND);
    for (int i = 0; i < 2; i++) {
        prepare_execute(&w, t_printf("k%d", i), "plans", "");
        w.look = look_told;
        assert_int_equal(call(&w), ST_OP_DONE);
        assert_string_equal(told_text, "\"on on on auto\"||me|3||");
    }
    /* What the server plans is as ever: the setting at the next statement's start, told by what is kept of it. */
    t_sql(sql,
          "CREATE TABLE public.seen (hashjoin text); CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN "
          "INSERT INTO public.seen VALUES (current_setting('enable_hashjoin')); RETURN NEW; END $f$; CREATE TRIGGER see BEFORE "
          "INSERT OR UPDATE ON holdfast.operation FOR EACH ROW EXECUTE FUNCTION public.see()");
    prepare_execute(&w, "k2", "plans", "");
    assert_int_equal(call(&w), ST_OP_DONE);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM public.seen WHERE hashjoin = 'off'"), 2); /* made, and done */
}

/* A slow one holds up neither other work, nor what is executed after it. */
static void a_slow_action_delays_nothing_else(void **state)
{
    (void)state;
    static struct work slow, quick;
    register_action();
    prepare_execute(&quick, "warm", "act", "{}");
    assert_int_equal(call(&quick), ST_OP_DONE);
    submit((prepare_execute(&slow, "slow", "act", "{\"ms\": 5000}"), &slow));
    run_until(executes_now, LONG_MS);
    for (int round = 0; round < 20; round++) {
        prepare_record(&quick, t_printf("r%d", round), "42");
        submit(&quick);
        wait_for(&quick);
        assert_int_equal(quick.item.outcome, ST_OP_DONE);
        submit((prepare_execute(&quick, t_printf("e%d", round), "act", "{}"), &quick));
        wait_for(&quick);
        assert_int_equal(quick.item.outcome, ST_OP_DONE);
        if (round == 0)
            assert_int_equal(slow.done, 0);
    }
    run_until(all_done, LONG_MS);
    assert_int_equal(slow.item.outcome, ST_OP_DONE);
    assert_true(slow.item.out.op.attempt == 1);
}

/* Of a batch whose first takes its time the rest is sent again, elsewhere or later. */
static void what_was_not_begun_is_sent_again(void **state)
{
    (void)state;
    register_action();
    prepare_execute(&works[0], "warm", "act", "{}");
    assert_int_equal(call(&works[0]), ST_OP_DONE);
    for (int i = 0; i < N; i++)
        submit((prepare_execute(&works[i], t_printf("k%02d", i), "act", i < 4 ? "{\"ms\": 300}" : "{}"), &works[i]));
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(works[i].item.outcome, ST_OP_DONE);
    assert_true(stats_of(ST_OP_EXECUTE).batches >= 4); /* 60 at most, and the slow ones apart */
    assert_true(stats_of(ST_OP_EXECUTE).items > N + 1);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM app.ran WHERE times = 1"), N + 1);
}

static void an_executor_that_is_killed(void **state)
{
    (void)state;
    struct work w;
    register_action();
    submit((prepare_execute(&w, "k", "act", "{\"ms\": 1500}"), &w));
    run_until(executes_now, LONG_MS);
    t_sql(sql, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfastd executes' AND datname = "
               "current_database() AND state = 'active'");
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_OP_DONE); /* undone with the backend, and done by the next */
    assert_int_equal(t_sql_int(sql, "SELECT times FROM app.ran"), 1);
}

/* What the action needs is locked: tried again while its caller has patience, with nothing kept meanwhile. */
static void an_action_that_meets_a_lock(void **state)
{
    (void)state;
    struct work w;
    register_action();
    PGconn *other = t_connect(dsn);
    t_sql(other, "BEGIN; LOCK TABLE app.ran");
    prepare_execute(&w, "k", "act", "{}")->patience_ms = t_now_ms() + 1000;
    assert_int_equal(call(&w), ST_BUSY);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.operation"), 0);
    t_sql(other, "ROLLBACK");
    PQfinish(other);
    prepare_execute(&w, "k", "act", "{}");
    assert_int_equal(call(&w), ST_OP_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(an_attempt_from_end_to_end),
        STORE_TEST(a_record_is_told_to_who_asks),
        STORE_TEST(decisions_and_what_they_leave),
        ACTION_TEST(policies_and_actions),
        STORE_TEST(what_comes_together_goes_together),
        STORE_TEST(one_row_for_all_is_for_all),
        STORE_TEST(one_bad_row_is_found),
        STORE_TEST(a_locked_row_delays_nobody),
        ACTION_TEST(each_kind_repeats_its_answer),
        ACTION_TEST(an_action_runs_once),
        ACTION_TEST(an_action_is_planned_like_anybodys_sql),
        ACTION_TEST(a_slow_action_delays_nothing_else),
        ACTION_TEST(what_was_not_begun_is_sent_again),
        ACTION_TEST(an_executor_that_is_killed),
        ACTION_TEST(an_action_that_meets_a_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
