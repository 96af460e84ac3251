/*
 * op_model_test.c - the functions of operations against the reference, under random batches, an injected clock, rows that another
 * session has locked, and random numbers that are known. Every answer is compared, and at times everything that is stored.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/op_model_run.h"
#include "store/store.h"

#define T0 INT64_C(1700000000000)

enum { STEPS = 20000, MOST_STEPS = 80000, AT_LEAST = 20 };

/* Everything that is stored. */
static void compare_tables(void)
{
    omb.n = 0;
    ts_clear(&omb.sql);
    ts_put(&omb.sql,
           "SELECT o.key, o.state, o.sending, o.attempts, o.budget_attempts, o.revision, coalesce(o.error_class, 0), o.token, "
           "holdfast.unix_ms(o.created_at), holdfast.unix_ms(o.changed_at), coalesce(holdfast.unix_ms(o.deadline), 0), "
           "holdfast.unix_ms(coalesce(o.budget_since, o.created_at)), coalesce(o.holder, ''), coalesce(o.request_id, ''), "
           "coalesce(convert_from(o.result, 'UTF8'), ''), coalesce(o.message, ''), coalesce((SELECT string_agg(concat_ws(',', "
           "a.token, a.attempt, a.trigger, a.outcome, coalesce(a.error_class, 0), holdfast.unix_ms(a.started_at), "
           "coalesce(holdfast.unix_ms(a.ended_at), 0), coalesce(holdfast.unix_ms(a.sending_at), 0), coalesce(a.state_after, 0), "
           "coalesce(a.revision_after, 0), a.late_count, coalesce(a.late_call, '')), ';' ORDER BY a.token) FROM holdfast.attempt a "
           "WHERE (a.namespace, a.key) = (o.namespace, o.key)), '') FROM holdfast.operation o ORDER BY o.namespace, o.key");
    PGresult *rows = omb.result = ts_query(omw.conn, omb.sql.text);
    int row = 0;
    for (int k = 0; k < OM_KEYS; k++) {
        static const char *const calls[] = {"", "Complete", "Fail", "MarkUnknown"};
        const struct om_op *op = &omw.op[k];
        struct ts_text attempts = {0};
        if (!op->row)
            continue;
        omb.op[row % OM_MOST] = k;
        for (int i = 0; i < op->n_attempts; i++) {
            const struct om_attempt *a = &op->attempt[i];
            ts_put(&attempts, "%s%" PRId64 ",%d,%d,%d,%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,%" PRId64 ",%d,%s", i ? ";" : "",
                   a->token, i + 1, a->trigger, a->outcome, a->error_class, a->started, a->ended, a->sending_at, a->state_after,
                   a->revision_after, a->late_count, calls[a->late_call]);
        }
        const char *want = t_printf("%s|%d|%c|%" PRId64 "|%" PRId64 "|%" PRId64 "|%d|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64
                                    "|%" PRId64 "|%s|%s|%s|%s|%s",
                                    op->key, op->state, op->sending ? 't' : 'f', op->attempts, op->budget_attempts, op->revision,
                                    op->error_class, op->token, op->created, op->changed, op->deadline, op->since, op->holder,
                                    op->request_id, op->result, op->message, attempts.text ? attempts.text : "");
        struct ts_text got = {0};
        for (int c = 0; c < PQnfields(rows) && row < PQntuples(rows); c++)
            ts_put(&got, "%s%s", c ? "|" : "", PQgetvalue(rows, row, c));
        if (strcmp(want, got.text ? got.text : "") != 0)
            fail_msg("step %ld: want %s\ngot %s", omw.steps, want, got.text);
        ts_clear(&attempts);
        ts_clear(&got);
        row++;
    }
    assert_int_equal(PQntuples(rows), row);
    PQclear(rows);
    omb.result = NULL;
}

/* Some rows are gone, and their keys new again; or another session locks some; or time passes. */
static void between(void)
{
    omw.now += om_chance(60) ? (int64_t)om_random(300) : om_chance(90) ? (int64_t)om_random(3000) : (int64_t)om_random(20000);
    omw.jitter = (double)om_random(1000) / 1000;
    ts_set_clock(omw.conn, omw.now);
    t_sql(omw.conn, "SET test.jitter = '%.3f'", omw.jitter);
    if (omw.locks) {
        t_sql(omw.other, "COMMIT");
        for (int k = 0; k < OM_KEYS; k++)
            omw.op[k].locked = false;
    }
    omw.locks = false;
    for (int k = 0; k < OM_OPEN_KEYS; k++) {
        struct om_op *op = &omw.op[k];
        if (op->row &&
            (op->n_attempts > OM_ATTEMPTS - 8 || (om_chance(op->state > OM_UNKNOWN || op->state == OM_SUCCEEDED ? 4 : 1)))) {
            t_sql(omw.conn, "DELETE FROM holdfast.operation WHERE (namespace, key) = ('%s', '%s')", op->ns, op->key);
            t_sql(omw.conn, "DELETE FROM holdfast.attempt WHERE (namespace, key) = ('%s', '%s')", op->ns, op->key);
            *op = (struct om_op){.ns = op->ns, .key = op->key, .open = op->open};
        }
    }
    if (!om_chance(15))
        return;
    t_sql(omw.other, "BEGIN");
    omw.locks = true;
    for (int k = 0; k < OM_OPEN_KEYS; k++) {
        if (omw.op[k].row && om_chance(25)) {
            t_sql(omw.other, "SELECT 1 FROM holdfast.operation WHERE (namespace, key) = ('%s', '%s') FOR UPDATE", omw.op[k].ns,
                  omw.op[k].key);
            omw.op[k].locked = true;
        }
    }
}

static void open_world(void)
{
    char *dsn = ts_schema();
    omw.conn = ts_session(dsn);
    omw.other = t_connect(dsn);
    omw.random = t_seed();
    omw.now = T0;
    ts_replace_clock(omw.conn);
    t_sql(omw.conn, "CREATE OR REPLACE FUNCTION holdfast.jitter() RETURNS float8 LANGUAGE sql VOLATILE AS "
                    "$$ SELECT current_setting('test.jitter')::float8 $$");
    t_sql(omw.conn,
          "SET bytea_output = escape; INSERT INTO holdfast.namespace (name, retired_at) VALUES ('zone', now()), ('other', NULL)");
    for (int i = 0; i < 2; i++) {
        const char *ns[] = {"default", "other"};
        t_sql(omw.conn,
              "INSERT INTO holdfast.operation_policy (namespace, type, max_attempts, max_elapsed_ms, base_ms, cap_ms, on_lost) "
              "VALUES "
              "('%s', 'rerun', 3, 15000, 100, 3000, 2)",
              ns[i]);
    }
    /* In the order of namespace and key; the last ones are of no open namespace. */
    for (int k = 0; k < OM_KEYS; k++) {
        snprintf(omw.key[k], sizeof(omw.key[k]), "k%02d", k);
        omw.op[k] = (struct om_op){.ns = k < 32             ? "default"
                                         : k < OM_OPEN_KEYS ? "other"
                                                            : "zone",
                                   .key = omw.key[k],
                                   .open = k < OM_OPEN_KEYS};
    }
}

static const struct {
    int kind;
    const char *name;
    int outcomes[14]; /* ended by 0 */
} expected[] = {
    {OM_DO_BEGIN,
     "begin",
     {ST_OP_STARTED, ST_OP_STARTED_AGAIN, ST_OP_REPLAYED, ST_OP_REPLAYED_FAILED, ST_OP_REPLAYED_CANCELLED, ST_OP_IN_PROGRESS,
      ST_OP_UNKNOWN, ST_OP_REVIEW, ST_OP_CONFLICT, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {OM_DO_RENEW, "renew", {ST_RENEWED, ST_EXPIRED, ST_TAKEN_OVER, ST_RELEASED, ST_UNKNOWN_TOKEN, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {OM_DO_SENDING,
     "sending",
     {ST_OP_DONE, ST_OP_DONE_AGAIN, ST_OP_STALE, ST_OP_NOT_HELD, ST_OP_ILLEGAL, ST_OP_NONE, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {OM_DO_FINISH,
     "finish",
     {ST_OP_DONE, ST_OP_DONE_AGAIN, ST_OP_STALE, ST_OP_NOT_HELD, ST_OP_ILLEGAL, ST_OP_NONE, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {OM_DO_RECORD,
     "record",
     {ST_OP_DONE, ST_OP_REPLAYED, ST_OP_REPLAYED_FAILED, ST_OP_REPLAYED_CANCELLED, ST_OP_IN_PROGRESS, ST_OP_UNKNOWN, ST_OP_REVIEW,
      ST_OP_CONFLICT, ST_NO_SUCH_NAMESPACE}},
    {OM_DO_DECIDE,
     "decide",
     {ST_OP_DONE, ST_OP_DONE_AGAIN, ST_OP_ILLEGAL, ST_OP_REVISION, ST_OP_UNKNOWN, ST_OP_NONE, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {OM_DO_SWEEP, "sweep", {1}},
    {OM_DO_GET, "get", {ST_FOUND, ST_OP_NONE, ST_NO_SUCH_NAMESPACE}},
};

/* How many outcomes were seen too seldom. */
static int look_for_rare(bool print)
{
    int rare = 0;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        if (print)
            printf("%-8s", expected[i].name);
        for (int k = 0; expected[i].outcomes[k]; k++) {
            long n = omw.count[expected[i].kind][expected[i].outcomes[k]];
            if (print)
                printf(" %d:%ld%s", expected[i].outcomes[k], n, n < AT_LEAST ? "(!)" : "");
            rare += n < AT_LEAST;
        }
        if (print)
            printf("\n");
    }
    return rare;
}

static void functions_and_reference_agree(void **state)
{
    (void)state;
    open_world();
    long until = STEPS;
    for (long turn = 0; omw.steps < until; turn++) {
        between();
        om_call_something();
        if (turn % 10 == 0)
            compare_tables();
        if (omw.steps >= until && until < MOST_STEPS && look_for_rare(false) > 0)
            until += 5000;
    }
    compare_tables();
    printf("%ld items\n", omw.steps);
    int rare = look_for_rare(true);
    ts_clear(&omb.sql);
    PQfinish(omw.conn);
    PQfinish(omw.other);
    assert_int_equal(rare, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(functions_and_reference_agree, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
