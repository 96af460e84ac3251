/*
 * operations_cases_test.c - failures that others had with operations, each by its name, over the wire against a real server. What
 * the SQL functions decide is tried in full in tests/store; here owners are processes that are killed and stopped.
 */
#include "harness/harness.h"

#include <holdfast/operation.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "integration/clients.h"
#include "integration/ops.h"
#include "integration/served.h"

#define BEGUN(name)   HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_##name
#define STATE(name)   HOLDFAST__V1__OPERATION__STATE__##name
#define ENDED(name)   HOLDFAST__V1__ATTEMPT__OUTCOME__##name
#define ON_LOST(name) HOLDFAST__V1__OPERATION_POLICY__ON_LOST__##name
#define CLASS(name)   HOLDFAST__V1__ERROR_CLASS__KIND__##name
#define ANOTHER_PRINT "another fingerprint of 32 bytes."
#define OWNER_FLAG    "--owner"
#define COMPLETED     "completed\n"

/* ---- an owner: this program again ---- */

/* --owner URL KEY TYPE TTL_MS WORK_MS [sending]: begins, marks, works, completes, and stays until it is killed. */
static int owner_main(char **argv)
{
    const hf_client_options options = {.servers = argv[0], .holder = "owner"};
    const hf_begin_options begin = {
        .key = argv[1], .type = argv[2], .fingerprint = (const unsigned char *)O_PRINT, .ttl_ms = atoll(argv[3])};
    const struct timespec work = {atol(argv[4]) / 1000, atol(argv[4]) % 1000 * 1000000};
    hf_client *client;
    hf_operation *operation;
    hf_outcome *outcome;
    hf_error error;

    if (hf_client_new(&options, &client, &error) != HF_OK ||
        hf_operation_begin(client, &begin, &operation, &outcome, &error) != HF_OK || !operation ||
        (argv[5] && hf_operation_sending(operation, &error) != HF_OK))
        return 1;
    printf("started %" PRId64 "\n", hf_operation_token(operation));
    fflush(stdout);
    nanosleep(&work, NULL);
    printf("%s", hf_operation_complete(operation, "done", 4, NULL, NULL, &error) == HF_OK ? COMPLETED : "lost\n");
    fflush(stdout);
    for (;;)
        pause();
}

/* It has the attempt, under this token. */
static struct t_proc *own(const char *key, const char *type, int64_t ttl_ms, int64_t work_ms, const char *sending, int64_t *token)
{
    const char *argv[] = {t_self(), OWNER_FLAG, server->url, key, type, t_printf("%" PRId64, ttl_ms), t_printf("%" PRId64, work_ms),
                          sending,  NULL};
    struct t_proc *owner = t_spawn(argv, NULL);

    t_proc_expect_out(owner, "\n", T_PATIENCE_MS);
    assert_int_equal(sscanf(t_proc_out(owner), "started %" SCNd64, token), 1);
    return owner;
}

static void kill_owner(struct t_proc *owner)
{
    t_proc_kill(owner, SIGKILL);
    assert_int_equal(t_proc_wait(owner, T_PATIENCE_MS), 128 + SIGKILL);
}

/* ---- case 14 ---- */

static Holdfast__V1__BeginResponse *told;
static const char *asked_key, *asked_type;

static bool is_over(void *arg)
{
    (void)arg;
    told = o_begin(rpc, asked_key, asked_type, 20000);
    return told->outcome_case != BEGUN(IN_PROGRESS);
}

/* A duplicate's answer once the one in progress is over; until then it is told how long that can take. */
static Holdfast__V1__BeginResponse *duplicate(const char *key, const char *type, int64_t ttl_ms)
{
    Holdfast__V1__BeginResponse *first = o_begin(rpc, key, type, 20000);

    if (first->outcome_case == BEGUN(IN_PROGRESS)) {
        assert_int_equal(first->in_progress->attempt, 1);
        assert_in_range(first->in_progress->remaining_ms, 0, ttl_ms);
    }
    asked_key = key;
    asked_type = type;
    assert_true(t_wait_for(is_over, NULL, T_PATIENCE_MS));
    return told;
}

static void case_14_stuck_in_progress(void **state)
{
    enum { TTL_MS = 2000 };
    int64_t token;
    (void)state;

    o_policy(rpc, "again", -1, -1, ON_LOST(RETRY), -1, NULL);
    struct t_proc *owner = own("stuck", "again", TTL_MS, 60000, NULL, &token);
    Holdfast__V1__BeginResponse *begun = o_begin(rpc, "stuck", "again", 20000);
    assert_int_equal(begun->outcome_case, BEGUN(IN_PROGRESS));
    assert_string_equal(begun->in_progress->holder, "owner");
    kill_owner(owner);
    begun = duplicate("stuck", "again", TTL_MS);
    assert_int_equal(begun->outcome_case, BEGUN(STARTED));
    assert_true(begun->started->token > token);
    assert_int_equal(begun->started->attempt, 2);
    assert_int_equal(begun->started->trigger, HOLDFAST__V1__TRIGGER__KIND__TAKEOVER);
    Holdfast__V1__ListAttemptsResponse *list = o_attempts(rpc, "stuck");
    assert_int_equal(list->n_attempts, 2);
    assert_int_equal(list->attempts[0]->outcome, ENDED(LOST));
    assert_true(list->attempts[1]->started_unix_ms - list->attempts[0]->started_unix_ms >= TTL_MS - 1);
}

/* Marked as sending, or of a type that says so: unknown, and nobody runs it. */
static void case_14_stuck_and_unknown(void **state)
{
    static const char *const types[] = {"again", "once"};
    int64_t token;
    (void)state;

    o_policy(rpc, "once", -1, -1, ON_LOST(UNKNOWN), -1, NULL);
    for (int i = 0; i < 2; i++) {
        const char *key = t_printf("stuck-%s", types[i]);
        kill_owner(own(key, types[i], 1000, 60000, i ? NULL : "sending", &token));
        assert_int_equal(duplicate(key, types[i], 1000)->outcome_case, BEGUN(UNKNOWN));
        assert_int_equal(o_begin(rpc, key, types[i], 20000)->outcome_case, BEGUN(UNKNOWN));
        Holdfast__V1__ListAttemptsResponse *list = o_attempts(rpc, key);
        assert_int_equal(list->n_attempts, 1);
        assert_int_equal(list->attempts[0]->outcome, i ? ENDED(LOST) : ENDED(UNKNOWN));
    }
}

/* ---- case 15 ---- */

static void case_15_no_deadline(void **state)
{
    static const int64_t bad[] = {0, -1, 99, 86400001, INT64_MAX, INT64_MIN}; /* absent is 0 */
    c_status status;
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        Holdfast__V1__BeginRequest request = o_begin_request("endless", "t", bad[i]);
        assert_null(o_begin_with(rpc, &request, &status));
        c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, t_printf("%" PRId64, bad[i]));
    }
    assert_int_equal(t_cli(server, "op", "begin", "endless", "--type", "t", "--canonical", "{}", "--ttl", "0s", NULL).status, 2);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.operation WHERE key = 'endless'"), 0);
    assert_string_equal(t_sqlstate(conn, "INSERT INTO holdfast.operation (namespace, key, type, state, created_at, changed_at, "
                                         "fingerprint) VALUES ('default', 'endless', 't', 2, now(), now(), '')"),
                        "23514");
}

/* ---- case 16 ---- */

/* All there is in the database about the key. */
static char *rows_of(const char *key)
{
    return t_sql(conn,
                 "SELECT concat((SELECT o::text FROM holdfast.operation o WHERE key = '%s'), (SELECT string_agg(a::text, ' ' ORDER "
                 "BY token) "
                 "FROM holdfast.attempt a WHERE key = '%s'), (SELECT count(*) FROM holdfast.outbox WHERE operation = '%s'))",
                 key, key, key);
}

static void assert_conflict(const char *method, const void *request)
{
    c_status status;

    assert_null(c_call(rpc, method, request, &status));
    c_assert_status(&status, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT, method);
}

/* By raw messages, the library and the command line, whichever way one may come with a key. */
static void assert_conflicts(hf_client *client, const char *key)
{
    const char *before = rows_of(key);
    Holdfast__V1__BeginRequest begin = o_begin_request(key, "again", 20000);
    Holdfast__V1__RecordRequest record = o_record_request(key, "again", "another");
    Holdfast__V1__ExecuteRequest execute = o_execute_request(key, "again", "none", "{}");
    const hf_begin_options options = {.key = key, .type = "again", .fingerprint = (const unsigned char *)ANOTHER_PRINT};
    hf_operation *operation = NULL;
    hf_outcome *outcome = NULL;
    hf_error error;

    begin.fingerprint = record.fingerprint = execute.fingerprint = o_bytes(ANOTHER_PRINT);
    assert_conflict(C_OPERATION "Begin", &begin);
    begin.wait_ms = 20000; /* nobody waits for what he may not have */
    assert_conflict(C_OPERATION "Begin", &begin);
    assert_conflict(C_OPERATION "Record", &record);
    assert_conflict(C_OPERATION "Execute", &execute);
    assert_int_equal(hf_operation_begin(client, &options, &operation, &outcome, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "PARAMETER_CONFLICT");
    assert_null(operation);
    const struct t_result cli = t_cli(server, "op", "begin", key, "--type", "again", "--canonical", "{}", NULL);
    assert_int_equal(cli.status, 1);
    t_contains(cli.err, "PARAMETER_CONFLICT");
    assert_string_equal(rows_of(key), before);
}

/* Many callers with either of two fingerprints at once: all of one are conflicts, whichever came first. */
static void race(const char *key)
{
    enum { N = 32 };
    Holdfast__V1__Call calls[N], *pointers[N];
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    int started = 0, conflicts[2] = {0};
    size_t len;

    for (int i = 0; i < N; i++) {
        Holdfast__V1__BeginRequest begin = o_begin_request(key, "again", 20000);
        begin.fingerprint = o_bytes(i % 2 ? O_PRINT : ANOTHER_PRINT);
        holdfast__v1__call__init(&calls[i]);
        calls[i].method = C_STR(C_OPERATION "Begin");
        calls[i].payload.data = (uint8_t *)(uintptr_t)t_rpc_pack(rpc, &begin, &len);
        calls[i].payload.len = len;
        pointers[i] = &calls[i];
    }
    envelope.n_calls = N;
    envelope.calls = pointers;
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_envelope(rpc, &envelope);
    assert_int_equal(replies->n_replies, N);
    for (int i = 0; i < N; i++) {
        const Holdfast__V1__Reply *reply = replies->replies[i];
        conflicts[i % 2] += reply->code == HP_ALREADY_EXISTS;
        if (reply->code == HP_OK) {
            Holdfast__V1__BeginResponse *begun =
                holdfast__v1__begin_response__unpack(NULL, reply->payload.len, reply->payload.data);
            started += begun->outcome_case == BEGUN(STARTED);
            holdfast__v1__begin_response__free_unpacked(begun, NULL);
        }
    }
    assert_int_equal(started, 1);
    assert_true((conflicts[0] == N / 2 && conflicts[1] == 0) || (conflicts[0] == 0 && conflicts[1] == N / 2));
}

static void case_16_the_check_skipped_on_the_fast_path(void **state)
{
    const hf_client_options options = {.servers = server->url};
    hf_client *client = cl_new(&options);
    int64_t token;
    (void)state;

    o_policy(rpc, "again", -1, -1, ON_LOST(RETRY), -1, NULL);
    race("raced");
    token = o_start(rpc, "shared", "again", 20000);
    assert_conflicts(client, "shared");
    o_complete(rpc, "shared", token, "stored", NULL);
    assert_conflicts(client, "shared");
    o_start(rpc, "taken", "again", 200);
    assert_conflicts(client, "taken");
    assert_int_equal(duplicate("taken", "again", 200)->outcome_case, BEGUN(STARTED));
    assert_conflicts(client, "taken");
    hf_client_free(client);
}

/* ---- case 17 ---- */

static void case_17_leaks(void **state)
{
    Holdfast__V1__RecordRequest record = o_record_request("leak", "t", "the secret result");
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls = &call;
    static const char *const secrets[] = {"secret", O_PRINT};
    size_t len;
    (void)state;

    assert_int_equal(t_cli(server, "namespace", "create", "tenant", NULL).status, 0);
    assert_false(((Holdfast__V1__RecordResponse *)c_call(rpc, C_OPERATION "Record", &record, NULL))->replayed);
    record.namespace_ = C_STR("tenant"); /* another fingerprint too: it is another operation */
    record.fingerprint = o_bytes(ANOTHER_PRINT);
    record.result = o_bytes("the tenant's");
    assert_false(((Holdfast__V1__RecordResponse *)c_call(rpc, C_OPERATION "Record", &record, NULL))->replayed);
    assert_true(((Holdfast__V1__RecordResponse *)c_call(rpc, C_OPERATION "Record", &record, NULL))->replayed);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.operation WHERE key = 'leak'"), 2);

    record.namespace_ = C_STR("default");
    call.method = C_STR(C_OPERATION "Record");
    call.payload.data = (uint8_t *)(uintptr_t)t_rpc_pack(rpc, &record, &call.payload.len);
    envelope.n_calls = 1;
    envelope.calls = &calls;
    const uint8_t *packed = t_rpc_pack(rpc, &envelope, &len);
    const uint8_t *reply = t_rpc_bytes(rpc, packed, len, T_PATIENCE_MS, &len);
    assert_non_null(reply);
    assert_non_null(memmem(reply, len, "PARAMETER_CONFLICT", 18));
    for (size_t i = 0; i < 2; i++)
        assert_null(memmem(reply, len, secrets[i], strlen(secrets[i])));
}

/* ---- case 19 ---- */

/* A job of five leases, in which its process is stopped for a good part of one; killed, once it is done. */
static void case_19_a_live_long_job_is_rescued(void **state)
{
    enum { TTL_MS = 4000, STALL_MS = 1200 };
    int64_t token;
    (void)state;

    o_policy(rpc, "again", -1, -1, ON_LOST(RETRY), -1, NULL);
    struct t_proc *owner = own("long", "again", TTL_MS, 5 * TTL_MS, NULL, &token);
    for (const int64_t end = t_now_ms() + 2 * TTL_MS; t_now_ms() < end; t_sleep_ms(200))
        assert_int_equal(o_begin(rpc, "long", "again", 20000)->outcome_case, BEGUN(IN_PROGRESS));
    t_proc_kill(owner, SIGSTOP);
    for (const int64_t end = t_now_ms() + STALL_MS; t_now_ms() < end; t_sleep_ms(100))
        assert_int_equal(o_begin(rpc, "long", "again", 20000)->outcome_case, BEGUN(IN_PROGRESS));
    t_proc_kill(owner, SIGCONT);
    Holdfast__V1__BeginResponse *begun = duplicate("long", "again", TTL_MS);
    assert_int_equal(begun->outcome_case, BEGUN(REPLAYED));
    t_proc_expect_out(owner, COMPLETED, T_PATIENCE_MS);
    kill_owner(owner);
    assert_int_equal(o_begin(rpc, "long", "again", 20000)->outcome_case, BEGUN(REPLAYED));
    assert_int_equal(begun->replayed->attempt, 1);
    assert_int_equal(o_attempts(rpc, "long")->n_attempts, 1);
}

/* ---- case 20 ---- */

/* The owner is started again under its name while its old attempt's lease lasts: it waits, and the old token is worth nothing. */
static void case_20_identity_reuse(void **state)
{
    Holdfast__V1__BeginRequest again = o_begin_request("reborn", "again", 20000);
    c_status status;
    int64_t token;
    (void)state;

    o_policy(rpc, "again", -1, -1, ON_LOST(RETRY), -1, NULL);
    kill_owner(own("reborn", "again", 1000, 60000, NULL, &token));
    again.holder = C_STR("owner");
    again.wait_ms = 20000;
    Holdfast__V1__BeginResponse *begun = o_begin_with(rpc, &again, NULL);
    assert_int_equal(begun->outcome_case, BEGUN(STARTED));
    assert_true(begun->started->token > token);
    assert_null(o_sending(rpc, "reborn", token, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "MarkSending");
    assert_null(o_complete(rpc, "reborn", token, "of the old one", &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "Complete");
    o_complete(rpc, "reborn", begun->started->token, "of the new one", NULL);
    Holdfast__V1__ListAttemptsResponse *list = o_attempts(rpc, "reborn");
    assert_int_equal(list->attempts[0]->late_count, 1);
    assert_memory_equal(list->attempts[0]->late_result.data, "of the old one", list->attempts[0]->late_result.len);
}

/* ---- case 21 ---- */

static void case_21_retry_storm(void **state)
{
    enum { N = 200, MINUTE_MS = 60000 };
    Holdfast__V1__FailRequest fail = HOLDFAST__V1__FAIL_REQUEST__INIT;
    int quarters[4] = {0};
    (void)state;

    o_policy(rpc, "storm", -1, MINUTE_MS, ON_LOST(RETRY), -1, NULL);
    for (int i = 0; i < N; i++) {
        const char *key = t_printf("storm-%d", i);
        Holdfast__V1__FinishResponse *failed = o_fail(rpc, key, o_start(rpc, key, "storm", 20000), CLASS(TRANSIENT), "busy", NULL);
        assert_int_equal(failed->state, STATE(PENDING));
        assert_in_range(failed->due_ms, 0, MINUTE_MS);
        quarters[failed->due_ms * 4 / (MINUTE_MS + 1)]++;
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(quarters[i], N / 10, N * 2 / 5); /* of 50: six times what chance does */
    fail.namespace_ = C_STR("default");
    fail.key = C_STR("storm-floor");
    fail.token = o_start(rpc, fail.key, "storm", 20000);
    fail.error_class = CLASS(TRANSIENT);
    fail.retry_after_ms = 2 * MINUTE_MS;
    assert_true(((Holdfast__V1__FinishResponse *)c_call(rpc, C_OPERATION "Fail", &fail, NULL))->due_ms >= 2 * MINUTE_MS);
}

/* ---- case 27 ---- */

static Holdfast__V1__CompensateResponse *compensate(const char *key, c_status *status)
{
    Holdfast__V1__CompensateRequest request = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;

    request.namespace_ = C_STR("default");
    request.key = C_STR(key);
    request.type = C_STR("undo");
    request.actor = C_STR("operator");
    request.reason = C_STR("the customer's wish");
    return c_call(rpc, C_OPERATION "Compensate", &request, status);
}

static void case_27_compensate(void **state)
{
    c_status status;
    (void)state;

    o_unknown(rpc, "sent", o_start(rpc, "sent", "t", 20000), "no answer", NULL);
    assert_null(compensate("sent", &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_OUTCOME_UNKNOWN, "of an UNKNOWN one");
    o_fail(rpc, "later", o_start(rpc, "later", "t", 20000), CLASS(TRANSIENT), "busy", NULL);
    assert_null(compensate("later", &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE, "of a PENDING one");
    o_record(rpc, "paid", "paid", NULL);
    Holdfast__V1__CompensateResponse *first = compensate("paid", NULL), *second = compensate("paid", NULL);
    assert_false(first->replayed);
    assert_true(second->replayed);
    assert_string_equal(first->key, second->key);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.operation WHERE compensates IS NOT NULL"), 1);
}

/* ---- case 28 ---- */

struct operator
{
    struct t_rpc *rpc;
    const char *name;
    int64_t revision;
    c_status status;
    bool done;
    pthread_t thread;
};

static void *decide(void *arg)
{
    struct operator* operator= arg;
    Holdfast__V1__RetryRequest request = HOLDFAST__V1__RETRY_REQUEST__INIT;

    request.namespace_ = C_STR("default");
    request.key = C_STR("parked");
    request.revision = operator->revision;
    request.actor = C_STR(operator->name);
    request.reason = C_STR("mended by me");
    operator->done = c_call(operator->rpc, C_OPERATION "Retry", &request, &operator->status) != NULL;
    return NULL;
}

static void case_28_two_operators(void **state)
{
    struct operator operators[2];
    c_status status;
    (void)state;

    o_fail(rpc, "parked", o_start(rpc, "parked", "t", 20000), CLASS(CONFIG), "no account", NULL);
    const int64_t revision = o_get(rpc, "parked", NULL)->revision;
    for (int i = 0; i < 2; i++) {
        operators[i] = (struct operator){.rpc = t_rpc_open(server->url), .name = i ? "anna" : "bert", .revision = revision};
        assert_int_equal(pthread_create(&operators[i].thread, NULL, decide, &operators[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(operators[i].thread, NULL), 0);
    assert_int_equal(operators[0].done + operators[1].done, 1);
    const struct operator* first = & operators[operators[1].done], *late = &operators[operators[0].done];
    c_assert_status(&late->status, HP_ABORTED, HP_R_REVISION_MISMATCH, "the second decision");
    assert_string_equal(t_sql(conn,
                              "SELECT string_agg(concat(kind, ' ', actor, ' ', detail), ',') FROM holdfast.audit WHERE operation = "
                              "'parked' AND kind = 'retry'"),
                        t_printf("retry %s mended by me", first->name));
    for (int i = 0; i < 2; i++)
        t_rpc_close(operators[i].rpc);
    o_start(rpc, "parked", "t", 20000);
    assert_null(o_retry(rpc, "parked", o_get(rpc, "parked", NULL)->revision, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_ILLEGAL_STATE, "while it runs");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_14_stuck_in_progress),
        cmocka_unit_test(case_14_stuck_and_unknown),
        cmocka_unit_test(case_15_no_deadline),
        cmocka_unit_test(case_16_the_check_skipped_on_the_fast_path),
        cmocka_unit_test(case_17_leaks),
        cmocka_unit_test(case_19_a_live_long_job_is_rescued),
        cmocka_unit_test(case_20_identity_reuse),
        cmocka_unit_test(case_21_retry_storm),
        cmocka_unit_test(case_27_compensate),
        cmocka_unit_test(case_28_two_operators),
    };
    if (argc > 6 && !strcmp(argv[1], OWNER_FLAG))
        return owner_main(argv + 2);
    return cmocka_run_group_tests(tests, serve_rpc, end_serving_rpc);
}
