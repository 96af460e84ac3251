/*
 * op_model_run.c - see op_model_run.h.
 */
#include "store/op_model_run.h"

#include <inttypes.h>
#include <string.h>

#include "store/store.h"

const struct om_policy om_policies[2] = {
    {.type = "plain", .max_attempts = 10, .max_elapsed_ms = 86400000, .base_ms = 1000, .cap_ms = 300000},
    {.type = "rerun", .max_attempts = 3, .max_elapsed_ms = 15000, .base_ms = 100, .cap_ms = 3000, .may_rerun = true},
};

struct om_world omw;
struct om_batch omb;

uint64_t om_random(uint64_t n)
{
    omw.random = omw.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (omw.random >> 33) % n;
}

bool om_chance(uint64_t percent)
{
    return om_random(100) < percent;
}

static void choose(int most)
{
    omb.n = 0;
    for (int k = 0; k < OM_KEYS && omb.n < most; k++) {
        if (om_random((uint64_t)(OM_KEYS - k)) < (uint64_t)(most - omb.n))
            omb.op[omb.n++] = k;
    }
}

static void column(const char *type, const char *(*text)(int), int64_t (*number)(int))
{
    ts_put(&omb.sql, omb.sql.text[omb.sql.len - 1] == '(' ? "" : ",");
    ts_array_open(&omb.sql);
    for (int i = 0; i < omb.n; i++) {
        if (text)
            ts_array_string(&omb.sql, text(i));
        else
            ts_array_int(&omb.sql, number(i));
    }
    ts_array_close(&omb.sql, type);
}

#define TEXT(name, value)                                                                                                          \
    static const char *name(int i)                                                                                                 \
    {                                                                                                                              \
        return value;                                                                                                              \
    }
#define NUMBER(name, value)                                                                                                        \
    static int64_t name(int i)                                                                                                     \
    {                                                                                                                              \
        return value;                                                                                                              \
    }
TEXT(t_ns, omw.op[omb.op[i]].ns)
TEXT(t_key, omw.op[omb.op[i]].key)
TEXT(t_type, omb.begin[i].policy->type)
TEXT(t_print, omb.begin[i].fingerprint ? "\\x02" : "\\x01")
TEXT(t_holder, omb.begin[i].holder)
TEXT(t_request, omb.begin[i].request_id)
TEXT(t_result, omb.finish[i].result)
TEXT(t_message, omb.finish[i].message)
TEXT(t_none, i >= 0 ? "" : NULL)
NUMBER(n_ttl, omb.ttl[i])
NUMBER(n_trigger, omb.begin[i].trigger)
NUMBER(n_token, omb.token[i])
NUMBER(n_call, omb.finish[i].call)
NUMBER(n_class, omb.finish[i].error_class)
NUMBER(n_retry, omb.finish[i].retry_after_ms)

static void open_select(const char *columns, const char *function)
{
    ts_clear(&omb.sql);
    ts_put(&omb.sql, "SELECT %s FROM holdfast.%s(", columns, function);
    column("text", t_ns, NULL);
    column("text", t_key, NULL);
}

static void open_call(const char *function)
{
    open_select("*", function);
}

/* Sends it; the rows come in the order of `i`, and one for all as what it stands for. */
static void call(void)
{
    ts_put(&omb.sql, ") r LEFT JOIN LATERAL generate_series(1, -r.i) g ON true ORDER BY coalesce(g, r.i)");
    omb.result = ts_query(omw.conn, omb.sql.text);
    assert_int_equal(PQntuples(omb.result), omb.n);
}

static void same(int i, const char *what, int64_t want, int column_of)
{
    int64_t got = ts_int(omb.result, i, column_of);
    if (got != want)
        fail_msg("step %ld, %s, %s: want %" PRId64 ", got %" PRId64 " of %s", omw.steps, omw.op[omb.op[i]].key, what, want, got,
                 omb.sql.text);
}

static void same_text(int i, const char *what, const char *want, int column_of)
{
    const char *got = PQgetvalue(omb.result, i, column_of);
    if (strcmp(got, want) != 0)
        fail_msg("step %ld, %s, %s: want \"%s\", got \"%s\" of %s", omw.steps, omw.op[omb.op[i]].key, what, want, got,
                 omb.sql.text);
}

static void outcome(int i, int kind, const struct om_answer *want)
{
    omw.steps++;
    omw.count[kind][want->outcome]++;
    same(i, "outcome", want->outcome, 1);
}

static int64_t some_token(const struct om_op *op)
{
    if (om_chance(85) || op->n_attempts < 2)
        return op->token > 0 && !om_chance(3) ? op->token : omw.highest + (int64_t)om_random(3) + 1;
    return om_chance(10) ? 1 : op->attempt[om_random((uint64_t)op->n_attempts - 1)].token;
}

static void choose_begin(int i)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", ""};
    static const char *const holders[] = {"h1", "h2"};
    const struct om_op *op = &omw.op[omb.op[i]];
    const struct om_policy *policy = op->row ? op->policy : &om_policies[om_random(2)];
    omb.begin[i] = (struct om_begin){.policy = om_chance(2) ? &om_policies[om_random(2)] : policy,
                                     .fingerprint = op->row ? op->fingerprint ^ om_chance(2) : om_chance(50),
                                     .trigger = (int)om_random(5),
                                     .holder = holders[om_random(2)],
                                     .request_id = ids[om_random(7)],
                                     .ttl_ms = 100 + (int64_t)om_random(om_chance(20) ? 1000 : 20000)};
    omb.ttl[i] = omb.begin[i].ttl_ms;
}

static void do_begin(void)
{
    open_call("begin_batch");
    for (int i = 0; i < omb.n; i++)
        choose_begin(i);
    column("text", t_type, NULL);
    column("bytea", t_print, NULL);
    column("text", t_holder, NULL);
    column("bigint", NULL, n_ttl);
    column("text", t_request, NULL);
    column("smallint", NULL, n_trigger);
    call();
    int64_t highest = omw.highest;
    for (int i = 0; i < omb.n; i++) {
        struct om_op *op = &omw.op[omb.op[i]];
        int64_t token = ts_int(omb.result, i, 3);
        struct om_answer want = om_begin(op, &omb.begin[i], token, omw.now);
        outcome(i, OM_DO_BEGIN, &want);
        if (want.outcome == ST_OP_STARTED && token <= highest)
            fail_msg("step %ld, %s: token %" PRId64 " after %" PRId64, omw.steps, op->key, token, highest);
        omw.highest = token > omw.highest ? token : omw.highest;
        same(i, "attempt", want.attempt, 2);
        same(i, "token", want.token, 3);
        same(i, "ttl_ms", want.ttl_ms, 4);
        same(i, "trigger", want.trigger, 6);
        same(i, "state", want.state, 7);
        same_text(i, "holder", want.holder, 8);
        same(i, "remaining_ms", want.remaining_ms, 9);
        same_text(i, "result", want.result, 10);
        same(i, "ended", want.changed, 12);
        same(i, "error_class", want.error_class, 13);
        same_text(i, "message", want.message, 14);
    }
}

static void do_renew(void)
{
    open_call("op_renew_batch");
    for (int i = 0; i < omb.n; i++) {
        omb.token[i] = some_token(&omw.op[omb.op[i]]);
        omb.ttl[i] = 100 + (int64_t)om_random(20000);
    }
    column("bigint", NULL, n_token);
    column("bigint", NULL, n_ttl);
    call();
    for (int i = 0; i < omb.n; i++) {
        struct om_answer want = om_renew(&omw.op[omb.op[i]], omb.token[i], omb.ttl[i], omw.now);
        outcome(i, OM_DO_RENEW, &want);
        same(i, "ttl_ms", want.ttl_ms, 2);
    }
}

static void do_sending(void)
{
    open_call("op_sending_batch");
    for (int i = 0; i < omb.n; i++)
        omb.token[i] = some_token(&omw.op[omb.op[i]]);
    column("bigint", NULL, n_token);
    call();
    for (int i = 0; i < omb.n; i++) {
        struct om_answer want = om_sending(&omw.op[omb.op[i]], omb.token[i], omw.now);
        outcome(i, OM_DO_SENDING, &want);
        same(i, "remaining_ms", want.remaining_ms, 2);
        same(i, "state", want.state, 3);
    }
}

static void choose_finish(int i)
{
    static const char *const words[] = {"one", "two", ""};
    omb.token[i] = some_token(&omw.op[omb.op[i]]);
    if (om_chance(25) && omw.ended[omb.op[i]].call) { /* that was sent before */
        omb.finish[i] = omw.ended[omb.op[i]];
        omb.token[i] = omb.finish[i].token;
        return;
    }
    omb.finish[i] = (struct om_finish){.token = omb.token[i],
                                       .call = om_chance(35)   ? OM_COMPLETE
                                               : om_chance(80) ? OM_FAIL
                                                               : OM_MARK_UNKNOWN,
                                       .error_class = (int)(om_chance(70) ? 1 + om_random(2) : 1 + om_random(6)),
                                       .result = words[om_random(3)],
                                       .message = words[om_random(3)],
                                       .retry_after_ms = om_chance(20) ? (int64_t)om_random(8000) : 0};
}

static void do_finish(void)
{
    open_call("op_finish_batch");
    for (int i = 0; i < omb.n; i++)
        choose_finish(i);
    column("bigint", NULL, n_token);
    column("smallint", NULL, n_call);
    column("bytea", t_result, NULL);
    column("text", t_none, NULL);
    column("smallint", NULL, n_class);
    column("text", t_message, NULL);
    column("text", t_none, NULL);
    column("bigint", NULL, n_retry);
    ts_put(&omb.sql, ",NULL,NULL,NULL,NULL,NULL");
    call();
    for (int i = 0; i < omb.n; i++) {
        struct om_answer want = om_finish(&omw.op[omb.op[i]], &omb.finish[i], omw.jitter, omw.now);
        omw.ended[omb.op[i]] = omb.finish[i];
        outcome(i, OM_DO_FINISH, &want);
        same(i, "state", want.state, 2);
        same(i, "revision", want.revision, 3);
        same(i, "due_ms", want.due_ms, 4);
        same(i, "attempts", want.attempt, 5);
        same_text(i, "exhausted", want.exhausted ? "t" : "f", 6);
        same_text(i, "after_retry", want.after_retry ? "t" : "f", 7);
    }
}

static void do_record(void)
{
    open_select(
        "coalesce(g, r.i), r.outcome, r.state, r.holder, r.remaining_ms, r.result, r.result_ref, r.ended_unix_ms, r.attempt, "
        "r.error_class, r.message",
        "op_record_batch");
    for (int i = 0; i < omb.n; i++) {
        choose_begin(i);
        choose_finish(i);
        omb.begin[i].request_id = "";
    }
    column("text", t_type, NULL);
    column("bytea", t_print, NULL);
    column("bytea", t_result, NULL);
    column("text", t_none, NULL);
    ts_put(&omb.sql, ",NULL,NULL,NULL,NULL,NULL");
    call();
    for (int i = 0; i < omb.n; i++) {
        struct om_answer want = om_record(&omw.op[omb.op[i]], &omb.begin[i], omb.finish[i].result, omw.now);
        outcome(i, OM_DO_RECORD, &want);
        same(i, "state", want.state, 2);
        same_text(i, "holder", want.holder, 3);
        same(i, "remaining_ms", want.remaining_ms, 4);
        same_text(i, "result", want.result, 5);
        same(i, "ended", want.changed, 7);
        same(i, "attempt", want.attempt, 8);
        same(i, "error_class", want.error_class, 9);
        same_text(i, "message", want.message, 10);
    }
}

static void do_decide(void)
{
    static const char *const actors[] = {"ann", "bob"};
    for (int turn = 0; turn < 12; turn++) {
        omb.n = 1;
        omb.op[0] = (int)om_random(OM_KEYS);
        for (int k = 0; k < OM_KEYS && om_chance(90) && om_state_at(&omw.op[omb.op[0]], omw.now) < OM_UNKNOWN; k++)
            omb.op[0] = (omb.op[0] + 1) % OM_KEYS;
        struct om_op *op = &omw.op[omb.op[0]];
        int call_of = (int)om_random(3) + 1, reconciled = call_of == OM_RECONCILE ? (int)om_random(4) + 1 : 0;
        int64_t revision = op->revision - (om_chance(75) ? 0 : (int64_t)om_random(2));
        const char *actor = actors[om_random(2)];
        struct om_decision *last = &omw.last[omb.op[0]];
        if (om_chance(30) && last->call) { /* an operator who asks again */
            call_of = last->call;
            reconciled = last->reconciled;
            revision = last->revision;
            actor = last->actor;
        }
        *last = (struct om_decision){call_of, reconciled, revision, actor};
        ts_clear(&omb.sql);
        ts_put(&omb.sql,
               "SELECT 1, * FROM holdfast.op_decide('%s','%s',%" PRId64 ",%d::smallint,%d::smallint,'three','','%s','because')",
               op->ns, op->key, revision, call_of, reconciled, actor);
        omb.result = ts_query(omw.conn, omb.sql.text);
        struct om_answer want = om_decide(op, revision, call_of, reconciled, "three", actor, omw.now);
        outcome(0, OM_DO_DECIDE, &want);
        same(0, "state", want.state, 2);
        same(0, "revision", want.revision, 3);
        PQclear(omb.result);
        omb.result = NULL;
    }
}

static void do_sweep(void)
{
    int64_t want = 0;
    for (int k = 0; k < OM_KEYS; k++)
        want += om_sweep(&omw.op[k], omw.now);
    omw.count[OM_DO_SWEEP][want > 0]++;
    assert_int_equal(t_sql_int(omw.conn, "SELECT holdfast.op_sweep(1000)"), want);
    omw.steps++;
}

static void do_get(void)
{
    open_call("op_get_batch");
    call();
    for (int i = 0; i < omb.n; i++) {
        const struct om_op *op = &omw.op[omb.op[i]];
        struct om_answer want = {.outcome = !op->open ? ST_NO_SUCH_NAMESPACE : op->row ? ST_FOUND : ST_OP_NONE};
        outcome(i, OM_DO_GET, &want);
        if (want.outcome != ST_FOUND)
            continue;
        int state = om_state_at(op, omw.now);
        same(i, "state", state, 5);
        same(i, "revision", op->revision, 6);
        same(i, "attempts", op->attempts, 7);
        same(i, "token", op->token, 8);
        same_text(i, "sending", op->sending && state == OM_RUNNING ? "t" : "f", 10);
        same(i, "remaining_ms", (state == OM_PENDING || state == OM_RUNNING) && op->deadline > omw.now ? op->deadline - omw.now : 0,
             11);
        same(i, "changed", state == op->state ? op->changed : op->deadline, 13);
        same_text(i, "result", op->result, 20);
    }
}

/* Everything that is stored. */
void om_call_something(void)
{
    static void (*const calls[])(void) = {do_begin,   do_begin,   do_begin,  do_finish, do_finish, do_finish, do_renew,
                                          do_sending, do_sending, do_record, do_decide, do_decide, do_decide, do_get};
    choose(1 + (int)om_random(OM_MOST));
    if (om_chance(8))
        do_sweep();
    else
        calls[om_random(sizeof(calls) / sizeof(calls[0]))]();
    PQclear(omb.result);
    omb.result = NULL;
}
