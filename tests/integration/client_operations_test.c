/*
 * client_operations_test.c - operations by the library against a real server: the ordinary course, answers that are lost on the
 * way, waiting, and what people decide.
 */
#include "harness/harness.h"

#include <holdfast/operation.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "harness/served.h"
#include "integration/clients.h"
#include "robustness/proxy.h"

static hf_client *client;

static int setup(void **state)
{
    const hf_client_options options = {.holder = "worker"};
    hf_client_options own = options;

    serve(state);
    own.servers = server->url;
    client = cl_new(&own);
    return 0;
}

static int teardown(void **state)
{
    hf_client_free(client);
    return end_serving(state);
}

static hf_begin_options usual(const char *key)
{
    return (hf_begin_options){
        .key = key, .type = "t", .parameters_json = "{\"amount\": \"12.50\", \"to\": \"x\"}", .ttl_ms = 20000};
}

/* What became of it; with the attempt, if one was started. */
static hf_outcome *begin_as(hf_client *by, const hf_begin_options *options, hf_operation **operation)
{
    hf_outcome *outcome = NULL;
    hf_error error;

    if (hf_operation_begin(by, options, operation, &outcome, &error) != HF_OK)
        fail_msg("%s: %s %s", options->key, error.reason, error.message);
    assert_int_equal(*operation != NULL, outcome->kind == HF_OUTCOME_STARTED);
    return outcome;
}

static hf_operation *start_as(hf_client *by, const hf_begin_options *options)
{
    hf_operation *operation = NULL;

    hf_outcome_free(begin_as(by, options, &operation));
    assert_non_null(operation);
    return operation;
}

static hf_operation *start(hf_client *by, const char *key)
{
    const hf_begin_options options = usual(key);

    return start_as(by, &options);
}

/* An outcome of this kind, which the caller frees. */
static hf_outcome *told(const char *key, hf_outcome_kind kind)
{
    const hf_begin_options options = usual(key);
    hf_operation *operation;
    hf_outcome *outcome = begin_as(client, &options, &operation);

    assert_int_equal(outcome->kind, kind);
    return outcome;
}

static void complete(hf_operation *operation, const char *result)
{
    hf_error error;

    if (hf_operation_complete(operation, result, strlen(result), NULL, NULL, &error) != HF_OK)
        fail_msg("%s: %s %s", hf_operation_key(operation), error.reason, error.message);
    hf_operation_free(operation);
}

static void assert_ends_in(const char *key, const char *result)
{
    hf_outcome *outcome = told(key, HF_OUTCOME_REPLAYED);

    assert_string_equal(outcome->result, result);
    assert_false(outcome->failed);
    hf_outcome_free(outcome);
}

static hf_operation_page *get(const char *key, hf_operation_state state)
{
    hf_operation_page *page;
    hf_error error;

    if (hf_operation_get(client, key, &page, &error) != HF_OK)
        fail_msg("%s: %s", key, error.message);
    assert_int_equal(page->operations[0].state, state);
    return page;
}

static int64_t revision_of(const char *key, hf_operation_state state)
{
    hf_operation_page *page = get(key, state);
    const int64_t revision = page->operations[0].revision;

    hf_operation_page_free(page);
    return revision;
}

/* ---- the ordinary course ---- */

static void begun_completed_and_replayed(void **state)
{
    hf_begin_options other = usual("one");
    hf_operation *operation = start(client, "one"), *none;
    hf_operation_page *page;
    hf_outcome *outcome;
    hf_error error;

    (void)state;
    assert_true(hf_operation_valid(operation));
    assert_int_equal(hf_operation_attempt(operation), 1);
    assert_int_equal(strlen(hf_operation_execution_id(operation)), 36);
    outcome = told("one", HF_OUTCOME_IN_PROGRESS);
    assert_string_equal(outcome->holder, "worker");
    assert_true(outcome->remaining_ms > 0 && outcome->remaining_ms <= 20000);
    hf_outcome_free(outcome);
    assert_int_equal(hf_operation_sending(operation, &error), HF_OK);
    complete(operation, "paid");
    assert_ends_in("one", "paid");
    other.parameters_json = "{\"to\":\"x\",\"amount\":\"12.50\"}"; /* the same */
    outcome = begin_as(client, &other, &none);
    assert_int_equal(outcome->kind, HF_OUTCOME_REPLAYED);
    hf_outcome_free(outcome);
    other.parameters_json = "{\"to\":\"x\",\"amount\":\"12.51\"}";
    assert_int_equal(hf_operation_begin(client, &other, &none, &outcome, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "PARAMETER_CONFLICT");
    assert_null(strstr(error.message, "paid"));

    page = get("one", HF_OPERATION_SUCCEEDED);
    assert_string_equal(page->operations[0].result, "paid");
    assert_int_equal(page->operations[0].attempts, 1);
    hf_operation_page_free(page);
    assert_int_equal(hf_operation_attempts(client, "one", 0, NULL, &page, &error), HF_OK);
    assert_int_equal(page->n, 1);
    assert_int_equal(page->attempts[0].outcome, HF_ATTEMPT_SUCCEEDED);
    assert_true(page->attempts[0].sending_unix_ms > 0);
    hf_operation_page_free(page);
    assert_int_equal(hf_operation_get(client, "nothing", &page, &error), HF_NOT_FOUND);
}

static void an_attempt_outlives_its_ttl_and_is_unknown_without_renewal(void **state)
{
    hf_begin_options options = usual("renewed");
    hf_operation *operation, *second;
    const hf_reconcile_options not_done = {.outcome = HF_RECONCILED_NOT_DONE};
    hf_decision decision = {.reason = "looked"};
    hf_decided decided;
    hf_outcome *outcome;
    hf_error error;
    int64_t token;

    (void)state;
    options.ttl_ms = 2500;
    operation = start_as(client, &options);
    t_sleep_ms(3500);
    assert_true(hf_operation_valid(operation));
    complete(operation, "long");
    assert_ends_in("renewed", "long");

    options.key = "unrenewed";
    options.no_renewal = true;
    operation = start_as(client, &options);
    token = hf_operation_token(operation);
    t_sleep_ms(2700);
    outcome = told("unrenewed", HF_OUTCOME_UNKNOWN);
    hf_outcome_free(outcome);
    assert_int_equal(hf_operation_complete(operation, "late", 4, NULL, NULL, &error), HF_LOST); /* our own library's word */
    assert_string_equal(error.reason, "DEADLINE");
    hf_operation_free(operation);
    decision.revision = revision_of("unrenewed", HF_OPERATION_UNKNOWN);
    assert_int_equal(hf_operation_retry(client, "unrenewed", &decision, NULL, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "OUTCOME_UNKNOWN");
    assert_int_equal(hf_operation_reconcile(client, "unrenewed", &not_done, &decision, &decided, &error), HF_OK);
    assert_int_equal(decided.state, HF_OPERATION_PENDING);
    second = start(client, "unrenewed");
    assert_int_equal(hf_operation_attempt(second), 2);
    assert_true(hf_operation_token(second) > token);
    complete(second, "second");
    assert_ends_in("unrenewed", "second");
}

static void failures_lead_where_their_class_says(void **state)
{
    const hf_failure transient = {.error_class = HF_CLASS_TRANSIENT, .message = "no route", .retry_after_ms = 60000};
    const hf_failure business = {.error_class = HF_CLASS_BUSINESS, .message = "no money"};
    const hf_failure config = {.error_class = HF_CLASS_CONFIG, .message = "no account"};
    hf_operation *operation = start(client, "fails");
    hf_decision decision = {.reason = "mended", .actor = "ann"};
    hf_finished finished;
    hf_decided decided;
    hf_outcome *outcome;
    hf_error error;

    (void)state;
    assert_int_equal(hf_operation_fail(operation, &transient, &finished, &error), HF_OK);
    assert_int_equal(finished.state, HF_OPERATION_PENDING);
    assert_in_range(finished.due_ms, 50000, 60000);
    assert_string_equal(hf_operation_loss(operation), "ENDED");
    hf_operation_free(operation);
    outcome = told("fails", HF_OUTCOME_IN_PROGRESS);
    assert_string_equal(outcome->holder, "");
    hf_outcome_free(outcome);
    decision.revision = finished.revision + 7;
    assert_int_equal(hf_operation_retry(client, "fails", &decision, &decided, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "REVISION_MISMATCH");
    decision.revision = finished.revision;
    assert_int_equal(hf_operation_retry(client, "fails", &decision, &decided, &error), HF_OK);
    operation = start(client, "fails");
    assert_int_equal(hf_operation_fail(operation, &config, &finished, &error), HF_OK);
    assert_int_equal(finished.state, HF_OPERATION_REVIEW);
    hf_operation_free(operation);
    outcome = told("fails", HF_OUTCOME_REVIEW);
    assert_int_equal(outcome->error_class, HF_CLASS_CONFIG);
    t_contains(outcome->message, "no account");
    hf_outcome_free(outcome);
    decision.revision = finished.revision;
    assert_int_equal(hf_operation_cancel(client, "fails", &decision, &decided, &error), HF_OK);
    assert_int_equal(decided.state, HF_OPERATION_CANCELLED);
    outcome = told("fails", HF_OUTCOME_REPLAYED);
    assert_true(outcome->failed && outcome->cancelled);
    hf_outcome_free(outcome);

    operation = start(client, "refused");
    assert_int_equal(hf_operation_fail(operation, &business, &finished, &error), HF_OK);
    assert_int_equal(finished.state, HF_OPERATION_FAILED);
    hf_operation_free(operation);
    outcome = told("refused", HF_OUTCOME_REPLAYED);
    assert_true(outcome->failed && !outcome->cancelled);
    assert_string_equal(outcome->message, "no money");
    hf_outcome_free(outcome);
}

static void records_lists_and_compensations(void **state)
{
    hf_record_options record = {.key = "rec/1", .type = "r", .parameters_json = "[1]", .result = "kept", .result_len = 4};
    const hf_compensate_options undo = {.type = "undo", .payload = "how", .payload_len = 3, .reason = "wrong"};
    const hf_operation_list_options prefix = {.prefix = "rec/", .page_size = 1};
    hf_begin_options begin_undo = {.type = "undo"};
    hf_compensation compensation;
    hf_operation_page *page;
    hf_operation *operation;
    hf_outcome *outcome;
    hf_error error;

    (void)state;
    assert_int_equal(hf_operation_record(client, &record, &outcome, &error), HF_OK);
    assert_int_equal(outcome->kind, HF_OUTCOME_DONE);
    hf_outcome_free(outcome);
    record.result = "another";
    record.result_len = 7;
    assert_int_equal(hf_operation_record(client, &record, &outcome, &error), HF_OK);
    assert_int_equal(outcome->kind, HF_OUTCOME_REPLAYED);
    assert_string_equal(outcome->result, "kept");
    hf_outcome_free(outcome);
    record.parameters_json = "[2]";
    assert_int_equal(hf_operation_record(client, &record, &outcome, &error), HF_CONFLICT);
    record.key = "rec/2";
    assert_int_equal(hf_operation_record(client, &record, &outcome, &error), HF_OK);
    hf_outcome_free(outcome);
    assert_int_equal(hf_operation_list(client, &prefix, &page, &error), HF_OK);
    assert_int_equal(page->n, 1);
    assert_string_equal(page->operations[0].key, "rec/1");
    assert_string_equal(page->operations[0].result, "");
    assert_non_null(page->next_page_token);
    hf_operation_page_free(page);

    assert_int_equal(hf_operation_compensate(client, "rec/1", &undo, &compensation, &error), HF_OK);
    assert_string_equal(compensation.key, "undo:rec/1");
    begin_undo.key = compensation.key;
    begin_undo.fingerprint = compensation.fingerprint;
    operation = start_as(client, &begin_undo);
    page = get("undo:rec/1", HF_OPERATION_RUNNING);
    assert_string_equal(page->operations[0].payload, "how");
    assert_string_equal(page->operations[0].compensates, "rec/1");
    hf_operation_page_free(page);
    complete(operation, "undone");
}

/* ---- answers that are lost ---- */

static struct px *proxy;

static hf_client *client_behind_a_proxy(void)
{
    proxy = px_start(server->url, t_seed());
    const hf_client_options options = {.servers = px_url(proxy), .holder = "behind"};

    return cl_new(&options);
}

static void end_proxy(hf_client *behind)
{
    hf_client_free(behind);
    px_stop(proxy);
}

static void an_answer_lost_is_asked_for_again(void **state)
{
    static const char *const methods[] = {"Begin", "MarkSending", "Complete"};
    hf_client *behind = client_behind_a_proxy();
    hf_operation *operation;
    hf_operation_page *page;
    hf_finished finished;
    hf_error error;
    int rules[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        rules[i] =
            px_add(proxy, &(struct px_rule){.direction = PX_REPLY, .method = methods[i], .count = 1, .action = PX_CUT_BEFORE});
    operation = start(behind, "cut");
    assert_int_equal(hf_operation_attempt(operation), 1);
    assert_int_equal(hf_operation_sending(operation, &error), HF_OK);
    assert_int_equal(hf_operation_complete(operation, "once", 4, NULL, &finished, &error), HF_OK);
    assert_true(finished.replayed);
    hf_operation_free(operation);
    assert_ends_in("cut", "once");
    assert_int_equal(hf_operation_attempts(client, "cut", 0, NULL, &page, &error), HF_OK);
    assert_int_equal(page->n, 1);
    hf_operation_page_free(page);
    for (int i = 0; i < 3; i++)
        assert_int_equal(px_count(proxy, rules[i]).done, 1);
    end_proxy(behind);
}

/* Its answer is lost, and the repeat is refused (by a server that sees no lease any more): the library asks by the key. */
static void a_refusal_after_a_lost_answer_is_found_out_about(void **state)
{
    const struct px_rule lose_answer = {.direction = PX_REPLY, .method = "Complete", .count = 1, .action = PX_CUT_BEFORE};
    const struct px_rule lose_request = {.direction = PX_REQUEST, .method = "Complete", .count = 1, .action = PX_CUT_BEFORE};
    struct px_rule refuse = {.direction = PX_REQUEST, .method = "Complete", .first = 2, .count = 1, .action = PX_STATUS};
    hf_client *behind = client_behind_a_proxy();
    hf_operation *operation;
    hf_error error;

    (void)state;
    hp_status_set(&refuse.status, HP_R_NOT_HELD, NULL);
    operation = start(behind, "found");
    px_add(proxy, &refuse);
    px_add(proxy, &lose_answer);
    assert_int_equal(hf_operation_complete(operation, "mine", 4, NULL, NULL, &error), HF_OK);
    hf_operation_free(operation);
    assert_ends_in("found", "mine");

    px_heal(proxy);
    operation = start(behind, "not found");
    px_add(proxy, &refuse);
    px_add(proxy, &lose_request);
    assert_int_equal(hf_operation_complete(operation, "mine", 4, NULL, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "NOT_HELD");
    assert_false(hf_operation_valid(operation));
    hf_operation_free(operation);
    end_proxy(behind);
}

/* ---- actions ---- */

static void make_action(void)
{
    t_sql(conn, "do $$ begin create role hf_test_client_actions nologin; exception when duplicate_object then null; end $$;"
                "create schema shop; grant usage, create on schema shop to hf_test_client_actions;"
                "create table shop.payment (amount int check (amount > 0));"
                "alter table shop.payment owner to hf_test_client_actions;"
                "create function shop.pay(key text, args jsonb) returns jsonb language plpgsql security definer "
                "set search_path = shop, pg_temp as $$ begin insert into payment values ((args->>'amount')::int); "
                "return jsonb_build_object('paid', args->'amount'); end $$;"
                "alter function shop.pay owner to hf_test_client_actions");
    assert_int_equal(t_cli(server, "action", "register", "pay", "shop.pay", NULL).status, 0);
}

static void an_action_runs_once_and_under_a_lease(void **state)
{
    const struct px_rule lose_answer = {.direction = PX_REPLY, .method = "Execute", .count = 1, .action = PX_CUT_BEFORE};
    hf_client *behind = client_behind_a_proxy();
    hf_lease *lease = cl_acquire(behind, "till", 20000);
    hf_execute_options options = {
        .key = "x1", .type = "pay", .parameters_json = "{}", .action = "pay", .args = "{\"amount\": 5}", .lease = lease};
    hf_outcome *outcome;
    hf_error error;

    (void)state;
    make_action();
    px_add(proxy, &lose_answer);
    for (int i = 0; i < 2; i++) {
        if (hf_operation_execute(behind, &options, &outcome, &error) != HF_OK)
            fail_msg("%s %s", error.reason, error.message);
        assert_int_equal(outcome->kind, HF_OUTCOME_REPLAYED);
        assert_string_equal(outcome->result, "{\"paid\": 5}");
        hf_outcome_free(outcome);
    }
    assert_int_equal(t_sql_int(conn, "select count(*) from shop.payment"), 1);
    options.key = "x2";
    options.args = "{\"amount\": -5}";
    assert_int_equal(hf_operation_execute(behind, &options, &outcome, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "ACTION_RAISED");
    options.args = "{\"amount\": 6}";
    assert_int_equal(
        t_cli(server, "break", "till", "--token", t_printf("%lld", (long long)hf_lease_token(lease)), "--reason", "test", NULL)
            .status,
        0);
    assert_int_equal(hf_operation_execute(behind, &options, &outcome, &error), HF_LOST);
    assert_false(hf_lease_valid(lease));
    assert_int_equal(t_sql_int(conn, "select count(*) from shop.payment"), 1);
    hf_lease_free(lease);
    end_proxy(behind);
}

/* ---- waiting ---- */

struct waiter {
    hf_client *client;
    const char *key;
    bool waits; /* for the end; else begins */
    pthread_t thread;
    atomic_bool back;
    hf_result result;
    hf_error error;
    hf_outcome_kind kind;
    char text[64]; /* the result */
    bool ended;
};

static void begin_and_wait(struct waiter *waiter)
{
    hf_begin_options options = usual(waiter->key);
    hf_operation *operation = NULL;
    hf_outcome *outcome = NULL;

    options.wait_ms = 60000;
    waiter->result = hf_operation_begin(waiter->client, &options, &operation, &outcome, &waiter->error);
    if (waiter->result == HF_OK) {
        waiter->kind = outcome->kind;
        snprintf(waiter->text, sizeof(waiter->text), "%s", (const char *)outcome->result);
    }
    if (operation && hf_operation_complete(operation, "after", 5, NULL, NULL, &waiter->error) != HF_OK)
        waiter->result = waiter->error.result;
    hf_operation_free(operation);
    hf_outcome_free(outcome);
}

static void *wait_main(void *arg)
{
    struct waiter *waiter = arg;

    if (waiter->waits) {
        hf_operation_page *page = NULL;
        waiter->result = hf_operation_wait(waiter->client, waiter->key, 60000, &page, &waiter->ended, &waiter->error);
        if (waiter->result == HF_OK)
            snprintf(waiter->text, sizeof(waiter->text), "%s", (const char *)page->operations[0].result);
        hf_operation_page_free(page);
    } else {
        begin_and_wait(waiter);
    }
    atomic_store(&waiter->back, true);
    return NULL;
}

static void wait_in_thread(struct waiter *waiter)
{
    assert_int_equal(pthread_create(&waiter->thread, NULL, wait_main, waiter), 0);
}

static void who_waits_is_told_the_result(void **state)
{
    struct waiter begins = {.client = client, .key = "awaited"}, waits = {.client = client, .key = "awaited", .waits = true};
    hf_operation *operation = start(client, "awaited");

    (void)state;
    wait_in_thread(&begins);
    wait_in_thread(&waits);
    t_sleep_ms(300);
    assert_false(atomic_load(&begins.back) || atomic_load(&waits.back));
    complete(operation, "done");
    pthread_join(begins.thread, NULL);
    pthread_join(waits.thread, NULL);
    assert_int_equal(begins.result, HF_OK);
    assert_int_equal(begins.kind, HF_OUTCOME_REPLAYED);
    assert_string_equal(begins.text, "done");
    assert_int_equal(waits.result, HF_OK);
    assert_true(waits.ended);
    assert_string_equal(waits.text, "done");
}

static void who_waits_takes_over(void **state)
{
    const hf_failure fenced = {.error_class = HF_CLASS_FENCED, .message = "another may"};
    struct waiter begins = {.client = client, .key = "passed on"};
    hf_operation *operation = start(client, "passed on");
    hf_error error;

    (void)state;
    wait_in_thread(&begins);
    t_sleep_ms(200);
    assert_int_equal(hf_operation_fail(operation, &fenced, NULL, &error), HF_OK);
    hf_operation_free(operation);
    pthread_join(begins.thread, NULL);
    assert_int_equal(begins.result, HF_OK);
    assert_int_equal(begins.kind, HF_OUTCOME_STARTED);
    assert_ends_in("passed on", "after");
}

static void waits_end_with_their_client(void **state)
{
    const hf_client_options options = {.servers = server->url};
    hf_client *other = cl_new(&options);
    struct waiter begins = {.client = other, .key = "left"}, waits = {.client = other, .key = "left", .waits = true};
    const hf_failure fenced = {.error_class = HF_CLASS_FENCED};
    hf_operation *operation = start(client, "left");
    hf_error error;
    int64_t begun_ms;

    (void)state;
    wait_in_thread(&begins);
    wait_in_thread(&waits);
    t_sleep_ms(300);
    begun_ms = t_now_ms();
    hf_client_free(other);
    assert_true(t_now_ms() - begun_ms < T_AT_ONCE_MS);
    pthread_join(begins.thread, NULL);
    pthread_join(waits.thread, NULL);
    assert_true(begins.result == HF_UNKNOWN || begins.result == HF_HELD);
    assert_int_equal(waits.result, HF_HELD);
    assert_string_equal(waits.error.reason, "CANCELLED");
    /* Nobody is started who isn't there: it stays for the next one. */
    t_sleep_ms(200);
    assert_int_equal(hf_operation_fail(operation, &fenced, NULL, &error), HF_OK);
    hf_operation_free(operation);
    t_sleep_ms(300);
    operation = start(client, "left");
    assert_int_equal(hf_operation_attempt(operation), 2);
    complete(operation, "next");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begun_completed_and_replayed),
        cmocka_unit_test(an_attempt_outlives_its_ttl_and_is_unknown_without_renewal),
        cmocka_unit_test(failures_lead_where_their_class_says),
        cmocka_unit_test(records_lists_and_compensations),
        cmocka_unit_test(an_answer_lost_is_asked_for_again),
        cmocka_unit_test(a_refusal_after_a_lost_answer_is_found_out_about),
        cmocka_unit_test(an_action_runs_once_and_under_a_lease),
        cmocka_unit_test(who_waits_is_told_the_result),
        cmocka_unit_test(who_waits_takes_over),
        cmocka_unit_test(waits_end_with_their_client),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
