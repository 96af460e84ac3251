/* Attempts of operations: begun, renewed and lost as leases are; ended once, and found out about where no answer came. */
#include "fake.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/operation.h"

#define METHOD(name) "/holdfast.v1.OperationService/" name

/* ---- a server with one operation ---- */

enum { TOKEN = 41 };

static struct {
    int state;   /* of the operation; 0 = nobody has begun it */
    int attempt; /* how attempt 2, with TOKEN, ended; 0 = it runs */
    bool taken_over;
    char result[64];
    int64_t waited_ms; /* told of the next start */
} world;

static int told;
static const char *told_reason;

static void on_loss(hf_operation *operation, const char *reason, void *arg)
{
    assert_string_equal(hf_operation_key(operation), "k");
    assert_ptr_equal(arg, &told);
    told++;
    told_reason = reason;
}

static const void *parse(struct fake *fake, const Holdfast__V1__Call *call, const ProtobufCMessageDescriptor *type)
{
    struct hp_status status;
    const ProtobufCMessage *message = hp_unpack(fake->arena, type, call->payload.data, call->payload.len, &status);

    assert_non_null(message);
    return message;
}

static void serve_begin(struct fake *fake, const Holdfast__V1__Call *call)
{
    const Holdfast__V1__BeginRequest *request = parse(fake, call, &holdfast__v1__begin_request__descriptor);
    Holdfast__V1__BeginResponse response = HOLDFAST__V1__BEGIN_RESPONSE__INIT;
    Holdfast__V1__BeginResponse__Started started = HOLDFAST__V1__BEGIN_RESPONSE__STARTED__INIT;
    Holdfast__V1__BeginResponse__Replayed replayed = HOLDFAST__V1__BEGIN_RESPONSE__REPLAYED__INIT;

    if (world.state == HF_OPERATION_SUCCEEDED) {
        replayed.result.data = (uint8_t *)world.result;
        replayed.result.len = strlen(world.result);
        replayed.attempt = 2;
        response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED;
        response.replayed = &replayed;
    } else {
        world.state = HF_OPERATION_RUNNING;
        started.attempt = 2;
        started.execution_id = (char *)"execution-2";
        started.token = TOKEN;
        started.ttl_ms = request->ttl_ms;
        started.waited_ms = world.waited_ms;
        started.trigger = HOLDFAST__V1__TRIGGER__KIND__RETRY;
        response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED;
        response.started = &started;
    }
    fake_ok(fake, &response.base);
}

static void serve_renew(struct fake *fake, const Holdfast__V1__Call *call)
{
    const Holdfast__V1__RenewOperationsRequest *request = parse(fake, call, &holdfast__v1__renew_operations_request__descriptor);
    Holdfast__V1__RenewOperationsResponse response = HOLDFAST__V1__RENEW_OPERATIONS_RESPONSE__INIT;
    Holdfast__V1__RenewResult item = HOLDFAST__V1__RENEW_RESULT__INIT;
    Holdfast__V1__Renewed renewed = HOLDFAST__V1__RENEWED__INIT;
    Holdfast__V1__Lost lost = HOLDFAST__V1__LOST__INIT;

    renewed.ttl_ms = request->ttl_ms;
    lost.reason = world.taken_over ? HOLDFAST__V1__LOST__REASON__TAKEN_OVER : HOLDFAST__V1__LOST__REASON__RELEASED;
    item.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED;
    item.renewed = &renewed;
    if (world.taken_over || world.attempt) {
        item.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST;
        item.lost = &lost;
    }
    response.n_items = request->n_items;
    response.items = hp_alloc_array(fake->arena, request->n_items, sizeof(Holdfast__V1__RenewResult *));
    for (size_t i = 0; i < request->n_items; i++)
        response.items[i] = &item;
    fake_ok(fake, &response.base);
}

static void end(struct fake *fake, int attempt, int state)
{
    Holdfast__V1__FinishResponse response = HOLDFAST__V1__FINISH_RESPONSE__INIT;

    if (world.taken_over || (world.attempt && world.attempt != attempt)) {
        fake_error(fake, world.taken_over ? HP_R_STALE_TOKEN : HP_R_ILLEGAL_STATE);
        return;
    }
    response.replayed = world.attempt != 0;
    world.attempt = attempt;
    world.state = state;
    response.state = (Holdfast__V1__Operation__State)state;
    response.revision = 3;
    response.due_ms = state == HF_OPERATION_PENDING ? 500 : 0;
    fake_ok(fake, &response.base);
}

static void serve_complete(struct fake *fake, const Holdfast__V1__Call *call)
{
    const Holdfast__V1__CompleteRequest *request = parse(fake, call, &holdfast__v1__complete_request__descriptor);

    assert_int_equal(request->token, TOKEN);
    assert_string_equal(request->key, "k");
    if (!world.taken_over && !world.attempt)
        snprintf(world.result, sizeof(world.result), "%.*s", (int)request->result.len, (const char *)request->result.data);
    end(fake, HF_ATTEMPT_SUCCEEDED, HF_OPERATION_SUCCEEDED);
}

static void serve_sending(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__MarkSendingResponse response = HOLDFAST__V1__MARK_SENDING_RESPONSE__INIT;

    (void)call;
    if (world.taken_over)
        fake_error(fake, HP_R_STALE_TOKEN);
    else
        fake_ok(fake, &response.base);
}

static void fill_row(Holdfast__V1__Operation *row)
{
    holdfast__v1__operation__init(row);
    row->key = (char *)"k";
    row->type = (char *)"t";
    row->state = (Holdfast__V1__Operation__State)world.state;
    row->revision = 3;
    row->token = TOKEN;
    row->remaining_ms = 700;
    row->result.data = (uint8_t *)world.result;
    row->result.len = strlen(world.result);
    row->sqlstate = (char *)"40001";
    row->compensates = (char *)"first";
}

static void serve_get(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__GetOperationResponse response = HOLDFAST__V1__GET_OPERATION_RESPONSE__INIT;
    Holdfast__V1__Operation row;

    (void)call;
    fill_row(&row);
    response.operation = &row;
    fake_ok(fake, &response.base);
}

static void serve_wait(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__WaitOperationResponse response = HOLDFAST__V1__WAIT_OPERATION_RESPONSE__INIT;
    Holdfast__V1__Operation row;

    (void)call;
    fill_row(&row);
    response.operation = &row;
    response.ended = world.state == HF_OPERATION_SUCCEEDED;
    fake_ok(fake, &response.base);
}

static void serve_list(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__ListOperationsResponse response = HOLDFAST__V1__LIST_OPERATIONS_RESPONSE__INIT;
    Holdfast__V1__Operation rows[2], *pointers[] = {&rows[0], &rows[1]};

    (void)call;
    fill_row(&rows[0]);
    fill_row(&rows[1]);
    rows[1].key = (char *)"l";
    response.n_operations = 2;
    response.operations = pointers;
    response.next_page_token = (char *)"l";
    fake_ok(fake, &response.base);
}

/* Two pages: of the first attempt, and of ours. */
static void serve_attempts(struct fake *fake, const Holdfast__V1__Call *call)
{
    const Holdfast__V1__ListAttemptsRequest *request = parse(fake, call, &holdfast__v1__list_attempts_request__descriptor);
    Holdfast__V1__ListAttemptsResponse response = HOLDFAST__V1__LIST_ATTEMPTS_RESPONSE__INIT;
    Holdfast__V1__Attempt row = HOLDFAST__V1__ATTEMPT__INIT, *pointer = &row;
    const bool second = request->page_token[0] != '\0';

    row.attempt = second ? 2 : 1;
    row.token = second ? TOKEN : TOKEN - 1;
    row.execution_id = (char *)(second ? "execution-2" : "execution-1");
    row.outcome = (Holdfast__V1__Attempt__Outcome)(second ? world.attempt : HF_ATTEMPT_LOST);
    row.late_call = (char *)"Complete";
    row.late_count = 1;
    row.late_result.data = (uint8_t *)"late";
    row.late_result.len = 4;
    response.n_attempts = 1;
    response.attempts = &pointer;
    response.next_page_token = (char *)(second ? "" : "1");
    fake_ok(fake, &response.base);
}

static void serve_decide(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__DecideResponse response = HOLDFAST__V1__DECIDE_RESPONSE__INIT;

    (void)call;
    response.state = HOLDFAST__V1__OPERATION__STATE__PENDING;
    response.revision = 9;
    response.replayed = 1;
    fake_ok(fake, &response.base);
}

static void serve(struct fake *fake, const Holdfast__V1__Call *call)
{
    static const struct {
        const char *method;
        fake_serve serve;
    } methods[] = {
        {METHOD("Begin"), serve_begin},           {METHOD("Renew"), serve_renew},      {METHOD("Complete"), serve_complete},
        {METHOD("MarkSending"), serve_sending},   {METHOD("Get"), serve_get},          {METHOD("Wait"), serve_wait},
        {METHOD("ListAttempts"), serve_attempts}, {METHOD("List"), serve_list},        {METHOD("Retry"), serve_decide},
        {METHOD("Cancel"), serve_decide},         {METHOD("Reconcile"), serve_decide},
    };

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(call->method, methods[i].method) == 0) {
            methods[i].serve(fake, call);
            return;
        }
    }
    if (strcmp(call->method, METHOD("Fail")) == 0)
        end(fake, HF_ATTEMPT_FAILED, HF_OPERATION_PENDING);
    else if (strcmp(call->method, METHOD("MarkUnknown")) == 0)
        end(fake, HF_ATTEMPT_UNKNOWN, HF_OPERATION_UNKNOWN);
    else
        serve_any(fake, call);
}

static struct fake *fresh(void)
{
    static const hf_client_options options = {.holder = "me"};
    struct fake *fake = fake_new(&options);

    memset(&world, 0, sizeof(world));
    told = 0;
    told_reason = NULL;
    fake->serve = serve;
    return fake;
}

static const unsigned char fingerprint[HF_FINGERPRINT_SIZE] = {1, 2, 3};

static hf_begin_options usual(void)
{
    return (hf_begin_options){
        .key = "k", .type = "t", .fingerprint = fingerprint, .ttl_ms = 3000, .on_loss = on_loss, .on_loss_arg = &told};
}

static hf_operation *begin_as(struct fake *fake, const hf_begin_options *options)
{
    hf_operation *operation = NULL;
    hf_outcome *outcome = NULL;
    hf_error error;

    if (hf_operation_begin(fake->client, options, &operation, &outcome, &error) != HF_OK)
        fail_msg("begin: %s %s", error.reason, error.message);
    assert_int_equal(outcome->kind, HF_OUTCOME_STARTED);
    hf_outcome_free(outcome);
    assert_non_null(operation);
    return operation;
}

static hf_operation *begin(struct fake *fake)
{
    const hf_begin_options options = usual();

    return begin_as(fake, &options);
}

/* For so long that an answer can be waited for in vain. */
static hf_operation *begin_long(struct fake *fake)
{
    hf_begin_options options = usual();

    options.ttl_ms = 60000;
    return begin_as(fake, &options);
}

static void done(struct fake *fake, hf_operation *operation)
{
    hf_operation_free(operation);
    fake_free(fake);
}

static void assert_told(struct fake *fake, int times, const char *reason)
{
    fake_tell(fake);
    assert_int_equal(told, times);
    if (times)
        assert_string_equal(told_reason, reason);
}

/* ---- beginning ---- */

static void a_started_attempt(void **state)
{
    struct fake *fake = fresh();
    const hf_begin_options options = {
        .key = "k", .type = "t", .parameters_json = " { } ", .ttl_ms = 3000, .trigger = HF_TRIGGER_SCHEDULED};
    const Holdfast__V1__BeginRequest *request;
    hf_operation *operation = NULL;
    hf_outcome *outcome = NULL;
    unsigned char want[HF_FINGERPRINT_SIZE];

    (void)state;
    fake_push(fake, FAKE_ANSWER, 40, NULL);
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, NULL), HF_OK);
    assert_int_equal(outcome->kind, HF_OUTCOME_STARTED);
    assert_int_equal(outcome->attempt, 2);
    assert_int_equal(outcome->trigger, HF_TRIGGER_RETRY);
    assert_string_equal(outcome->message, "");
    hf_outcome_free(outcome);
    assert_true(hf_operation_valid(operation));
    assert_null(hf_operation_loss(operation));
    assert_int_equal(hf_operation_token(operation), TOKEN);
    assert_int_equal(hf_operation_attempt(operation), 2);
    assert_string_equal(hf_operation_key(operation), "k");
    assert_string_equal(hf_operation_execution_id(operation), "execution-2");
    assert_int_equal(hf_operation_remaining_ms(operation), 3000 - 150 - 40);
    request = (const Holdfast__V1__BeginRequest *)fake_request(fake, 0, &holdfast__v1__begin_request__descriptor);
    assert_string_equal(request->namespace_, "default");
    assert_string_equal(request->type, "t");
    assert_string_equal(request->holder, "me");
    assert_int_equal(request->ttl_ms, 3000);
    assert_int_equal(request->wait_ms, 0);
    assert_int_equal(strlen(request->request_id), 32);
    assert_int_equal(request->trigger, HOLDFAST__V1__TRIGGER__KIND__SCHEDULED);
    assert_int_equal(hf_fingerprint_json("{}", 2, want, NULL), HF_OK);
    assert_int_equal(request->parameters_case, HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT);
    assert_int_equal(request->fingerprint.len, sizeof(want));
    assert_memory_equal(request->fingerprint.data, want, sizeof(want));
    done(fake, operation);
}

static Holdfast__V1__BeginResponse answer;

static void serve_answer(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_ok(fake, &answer.base);
}

static hf_outcome *begin_answered(struct fake *fake, int outcome_case, void *message)
{
    const hf_begin_options options = usual();
    hf_operation *operation = (hf_operation *)fake; /* something */
    hf_outcome *outcome = NULL;

    holdfast__v1__begin_response__init(&answer);
    answer.outcome_case = (Holdfast__V1__BeginResponse__OutcomeCase)outcome_case;
    answer.replayed = message;
    fake_push(fake, FAKE_ANSWER, 0, serve_answer);
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, NULL), HF_OK);
    assert_null(operation);
    return outcome;
}

static void what_is_not_started_is_told(void **state)
{
    struct fake *fake = fresh();
    Holdfast__V1__BeginResponse__Replayed replayed = HOLDFAST__V1__BEGIN_RESPONSE__REPLAYED__INIT;
    Holdfast__V1__BeginResponse__InProgress in_progress = HOLDFAST__V1__BEGIN_RESPONSE__IN_PROGRESS__INIT;
    Holdfast__V1__BeginResponse__Unknown unknown = HOLDFAST__V1__BEGIN_RESPONSE__UNKNOWN__INIT;
    Holdfast__V1__BeginResponse__Review review = HOLDFAST__V1__BEGIN_RESPONSE__REVIEW__INIT;
    hf_outcome *outcome;

    (void)state;
    replayed.result = (ProtobufCBinaryData){.data = (uint8_t *)"4\0002", .len = 3};
    replayed.result_ref = (char *)"s3://x";
    replayed.first_completed_unix_ms = 77;
    replayed.attempt = 4;
    outcome = begin_answered(fake, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED, &replayed);
    assert_int_equal(outcome->kind, HF_OUTCOME_REPLAYED);
    assert_int_equal(outcome->result_len, 3);
    assert_memory_equal(outcome->result, "4\0002", 4);
    assert_string_equal(outcome->result_ref, "s3://x");
    assert_int_equal(outcome->first_completed_unix_ms, 77);
    assert_int_equal(outcome->attempt, 4);
    assert_false(outcome->failed);
    hf_outcome_free(outcome);

    holdfast__v1__begin_response__replayed__init(&replayed);
    replayed.failed = replayed.cancelled = 1;
    replayed.error_class = HOLDFAST__V1__ERROR_CLASS__KIND__BUSINESS;
    replayed.message = (char *)"no";
    outcome = begin_answered(fake, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED, &replayed);
    assert_true(outcome->failed && outcome->cancelled);
    assert_int_equal(outcome->error_class, HF_CLASS_BUSINESS);
    assert_string_equal(outcome->message, "no");
    assert_string_equal(outcome->result, "");
    hf_outcome_free(outcome);

    in_progress.holder = (char *)"other";
    in_progress.remaining_ms = 50;
    in_progress.attempt = 3;
    outcome = begin_answered(fake, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS, &in_progress);
    assert_int_equal(outcome->kind, HF_OUTCOME_IN_PROGRESS);
    assert_string_equal(outcome->holder, "other");
    assert_int_equal(outcome->remaining_ms, 50);
    hf_outcome_free(outcome);

    unknown.note = (char *)"sent";
    unknown.since_unix_ms = 5;
    outcome = begin_answered(fake, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_UNKNOWN, &unknown);
    assert_int_equal(outcome->kind, HF_OUTCOME_UNKNOWN);
    assert_string_equal(outcome->message, "sent");
    assert_int_equal(outcome->since_unix_ms, 5);
    hf_outcome_free(outcome);

    review.reason = (char *)"budget";
    review.error_class = HOLDFAST__V1__ERROR_CLASS__KIND__CONFIG;
    outcome = begin_answered(fake, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REVIEW, &review);
    assert_int_equal(outcome->kind, HF_OUTCOME_REVIEW);
    assert_string_equal(outcome->message, "budget");
    assert_int_equal(outcome->error_class, HF_CLASS_CONFIG);
    hf_outcome_free(outcome);
    fake_free(fake);
}

static void serve_conflict(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_PARAMETER_CONFLICT);
}

static void a_begin_that_is_refused(void **state)
{
    struct fake *fake = fresh();
    hf_begin_options options = usual();
    hf_operation *operation = NULL;
    hf_outcome *outcome = NULL;
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_conflict);
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "PARAMETER_CONFLICT");
    options.parameters_json = "{}";
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, &error), HF_INVALID);
    options.fingerprint = NULL;
    options.parameters_json = "{\"a\":1,\"a\":2}";
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, &error), HF_INVALID);
    assert_string_equal(error.field, "parameters_json");
    assert_non_null(strstr(error.message, "byte 7"));
    options.parameters_len = 2;
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, &error), HF_INVALID);
    options.parameters_json = NULL;
    options.fingerprint = fingerprint;
    options.key = NULL;
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, &error), HF_INVALID);
    assert_string_equal(error.field, "key");
    assert_int_equal(fake->n_calls, 1);
    assert_null(operation);
    assert_null(outcome);
    fake_free(fake);
}

static void a_repeated_begin_counts_from_the_first_sending(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation;
    char first_id[64];

    (void)state;
    fake_push(fake, FAKE_RESET, 500, NULL);
    operation = begin(fake);
    assert_int_equal(fake_count(fake, METHOD("Begin")), 2);
    snprintf(first_id, sizeof(first_id), "%s",
             ((const Holdfast__V1__BeginRequest *)fake_request(fake, 0, &holdfast__v1__begin_request__descriptor))->request_id);
    assert_string_equal(
        ((const Holdfast__V1__BeginRequest *)fake_request(fake, 1, &holdfast__v1__begin_request__descriptor))->request_id,
        first_id);
    assert_int_equal(hf_operation_remaining_ms(operation), 1000000 + 3000 - 150 - fake->now_ms);
    done(fake, operation);
}

/* Little is left by the clock of the first try, and a renewal tells how much there is. */
static void a_late_repeat_is_confirmed_by_a_renewal(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation;

    (void)state;
    fake_push(fake, FAKE_RESET, 2000, NULL);
    operation = begin(fake);
    assert_int_equal(fake_count(fake, METHOD("Renew")), 1);
    assert_int_equal(hf_operation_remaining_ms(operation), 3000 - 150);
    done(fake, operation);
}

static void a_start_answered_past_its_deadline_is_lost(void **state)
{
    struct fake *fake = fresh();
    hf_begin_options options = usual();
    hf_operation *operation = NULL;
    hf_outcome *outcome = NULL;
    hf_error error;

    (void)state;
    options.ttl_ms = 500;
    fake_push(fake, FAKE_ANSWER, 480, NULL);
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    assert_null(operation);
    assert_told(fake, 0, NULL);
    fake_free(fake);
}

static void serve_busy_with_it(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__BeginResponse response = HOLDFAST__V1__BEGIN_RESPONSE__INIT;
    Holdfast__V1__BeginResponse__InProgress in_progress = HOLDFAST__V1__BEGIN_RESPONSE__IN_PROGRESS__INIT;

    (void)call;
    in_progress.holder = (char *)"other";
    in_progress.remaining_ms = 60000;
    response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS;
    response.in_progress = &in_progress;
    fake_ok(fake, &response.base);
}

static int64_t wait_of(struct fake *fake, size_t i)
{
    return ((const Holdfast__V1__BeginRequest *)fake_request(fake, i, &holdfast__v1__begin_request__descriptor))->wait_ms;
}

static void a_wait_that_a_server_ends_goes_on(void **state)
{
    struct fake *fake = fresh();
    hf_begin_options options = usual();
    hf_operation *operation;

    (void)state;
    options.wait_ms = 20000;
    fake_push(fake, FAKE_ANSWER, 3000, serve_busy_with_it); /* it drains */
    fake_push(fake, FAKE_ANSWER, 5000, NULL);
    world.waited_ms = 4990;
    operation = begin_as(fake, &options);
    assert_int_equal(wait_of(fake, 0), 20000);
    assert_true(wait_of(fake, 1) < 17000 && wait_of(fake, 1) > 16000);
    assert_int_equal(hf_operation_remaining_ms(operation), 3000 - 150 - 10);
    done(fake, operation);
}

static void a_wait_that_is_over(void **state)
{
    struct fake *fake = fresh();
    hf_begin_options options = usual();
    hf_operation *operation = NULL;
    hf_outcome *outcome;

    (void)state;
    options.wait_ms = 2000;
    fake->serve = serve_busy_with_it;
    assert_int_equal(hf_operation_begin(fake->client, &options, &operation, &outcome, NULL), HF_OK);
    assert_int_equal(outcome->kind, HF_OUTCOME_IN_PROGRESS);
    assert_null(operation);
    assert_true(fake->now_ms >= 1000000 + 1900 && fake->now_ms < 1000000 + 2100);
    hf_outcome_free(outcome);
    fake_free(fake);
}

/* ---- renewal and loss ---- */

static void attempts_are_renewed_together_and_apart_from_leases(void **state)
{
    struct fake *fake = fresh();
    static const char *const keys[] = {"a", "b", "c"};
    hf_operation *operations[3];
    hf_lease *leases[2];
    const Holdfast__V1__RenewOperationsRequest *request;

    (void)state;
    for (int i = 0; i < 3; i++) {
        hf_begin_options options = usual();
        options.key = keys[i];
        operations[i] = begin_as(fake, &options);
        if (i < 2) /* a resource of the same name is another thing */
            leases[i] = fake_acquire(fake, keys[i], 3000);
    }
    fake_live(fake, 20000);
    for (int i = 0; i < 3; i++)
        assert_true(hf_operation_valid(operations[i]));
    assert_true(hf_lease_valid(leases[0]) && hf_lease_valid(leases[1]));
    assert_in_range(fake_count(fake, METHOD("Renew")), 18, 22);
    assert_in_range(fake_count(fake, HFI_RENEW), 18, 22);
    for (size_t i = 0; i < fake->n_calls; i++) {
        if (strcmp(fake->calls[i].method, METHOD("Renew")) != 0)
            continue;
        request = (const Holdfast__V1__RenewOperationsRequest *)fake_request(fake, i,
                                                                             &holdfast__v1__renew_operations_request__descriptor);
        assert_int_equal(request->n_items, 3);
        assert_int_equal(request->items[0]->token, TOKEN);
        assert_int_equal(request->ttl_ms, 3000);
    }
    for (int i = 0; i < 3; i++)
        hf_operation_free(operations[i]);
    fake_live(fake, 5000);
    assert_in_range(fake_count(fake, METHOD("Renew")), 18, 22); /* and no more */
    hf_lease_free(leases[0]);
    hf_lease_free(leases[1]);
    fake_free(fake);
}

static void assert_nothing_more_is_sent(struct fake *fake, hf_operation *operation, const char *reason)
{
    const hf_failure failure = {.error_class = HF_CLASS_TRANSIENT};
    const size_t calls = fake->n_calls;
    hf_error error;

    assert_false(hf_operation_valid(operation));
    assert_string_equal(hf_operation_loss(operation), reason);
    assert_int_equal(hf_operation_remaining_ms(operation), 0);
    assert_int_equal(hf_operation_sending(operation, &error), HF_LOST);
    assert_string_equal(error.reason, reason);
    assert_int_equal(hf_operation_complete(operation, "x", 1, NULL, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, reason);
    assert_int_equal(hf_operation_fail(operation, &failure, NULL, &error), HF_LOST);
    assert_int_equal(hf_operation_unknown(operation, "", NULL, &error), HF_LOST);
    assert_int_equal(hf_operation_renew_now(operation, &error), HF_LOST);
    fake_live(fake, 5000);
    assert_int_equal(fake->n_calls, calls);
}

static void an_attempt_taken_over_is_lost_once(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin(fake);

    (void)state;
    fake_live(fake, 500);
    world.taken_over = true;
    fake_live(fake, 1000);
    assert_told(fake, 1, "TAKEN_OVER");
    world.taken_over = false; /* whatever the server says now */
    assert_nothing_more_is_sent(fake, operation, "TAKEN_OVER");
    assert_told(fake, 1, "TAKEN_OVER");
    done(fake, operation);
}

static void past_its_deadline_an_attempt_is_lost(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin(fake);

    (void)state;
    fake->endpoints[0] = FAKE_GONE;
    fake_live(fake, 2849);
    assert_true(hf_operation_valid(operation));
    fake_live(fake, 1);
    assert_told(fake, 1, "DEADLINE");
    fake->endpoints[0] = FAKE_ALIVE;
    assert_nothing_more_is_sent(fake, operation, "DEADLINE");
    done(fake, operation);
}

static void free_it(hf_operation *operation, const char *reason, void *arg)
{
    (void)reason;
    (void)arg;
    told++;
    hf_operation_free(operation);
}

static void an_attempt_may_be_freed_by_its_loss_callback_or_with_the_client(void **state)
{
    struct fake *fake = fresh();
    hf_begin_options options = usual();

    (void)state;
    options.on_loss = free_it;
    (void)begin_as(fake, &options);
    (void)begin(fake); /* goes with the client */
    fake->endpoints[0] = FAKE_GONE;
    fake_live(fake, 2850);
    fake_tell(fake);
    assert_true(told >= 1);
    fake_free(fake);
}

static void without_renewal_it_is_renewed_by_hand(void **state)
{
    struct fake *fake = fresh();
    hf_begin_options options = usual();
    hf_operation *operation;

    (void)state;
    options.no_renewal = true;
    operation = begin_as(fake, &options);
    fake_live(fake, 2000);
    assert_int_equal(fake_count(fake, METHOD("Renew")), 0);
    assert_int_equal(hf_operation_renew_now(operation, NULL), HF_OK);
    assert_int_equal(hf_operation_remaining_ms(operation), 3000 - 150);
    fake_live(fake, 2850);
    assert_told(fake, 1, "DEADLINE");
    done(fake, operation);
}

/* ---- sending ---- */

static void serve_illegal(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_ILLEGAL_STATE);
}

static void sending_is_marked_or_no_effect_may_be_caused(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin_long(fake);
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_LOSE, 0, NULL);
    fake_push(fake, FAKE_ANSWER, 0, serve_unavailable);
    assert_int_equal(hf_operation_sending(operation, &error), HF_OK);
    assert_int_equal(fake_count(fake, METHOD("MarkSending")), 3);
    world.taken_over = true;
    assert_int_equal(hf_operation_sending(operation, &error), HF_LOST);
    assert_string_equal(error.reason, "STALE_TOKEN");
    assert_told(fake, 1, "TAKEN_OVER");
    done(fake, operation);

    fake = fresh(); /* marked, but the answer comes when the lease may be over */
    operation = begin(fake);
    fake_pass(fake, 2800);
    fake_push(fake, FAKE_ANSWER, 60, NULL);
    assert_int_equal(hf_operation_sending(operation, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    done(fake, operation);

    fake = fresh(); /* perhaps marked, and no time to ask again */
    operation = begin(fake);
    fake_pass(fake, 2800);
    fake_push(fake, FAKE_RESET, 40, NULL);
    fake->serve = serve_unavailable;
    assert_int_equal(hf_operation_sending(operation, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    done(fake, operation);

    fake = fresh();
    operation = begin(fake);
    fake_push(fake, FAKE_ANSWER, 0, serve_illegal);
    assert_int_equal(hf_operation_sending(operation, &error), HF_CONFLICT);
    assert_false(hf_operation_valid(operation));
    done(fake, operation);
}

/* ---- ending ---- */

static void a_completed_attempt_is_over_and_no_loss(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin(fake);
    const hf_event event = {.aggregate_type = "account", .aggregate_id = "7", .type = "paid", .payload = "x", .payload_len = 1};
    const hf_complete_options options = {.result_ref = "ref", .events = &event, .n_events = 1};
    const Holdfast__V1__CompleteRequest *request;
    hf_finished finished;
    hf_error error;

    (void)state;
    assert_int_equal(hf_operation_complete(operation, "42", 2, &options, &finished, &error), HF_OK);
    assert_int_equal(error.result, HF_OK);
    assert_int_equal(finished.state, HF_OPERATION_SUCCEEDED);
    assert_int_equal(finished.revision, 3);
    assert_false(finished.replayed);
    request = (const Holdfast__V1__CompleteRequest *)fake_request(fake, 1, &holdfast__v1__complete_request__descriptor);
    assert_string_equal(request->result_ref, "ref");
    assert_int_equal(request->result.len, 2);
    assert_int_equal(request->n_events, 1);
    assert_string_equal(request->events[0]->aggregate_id, "7");
    assert_string_equal(request->events[0]->type, "paid");
    assert_int_equal(request->events[0]->payload.len, 1);
    assert_nothing_more_is_sent(fake, operation, "ENDED");
    assert_told(fake, 0, NULL);
    done(fake, operation);
}

static void renew_now(struct fake *fake)
{
    fake_step_now(fake);
    assert_int_equal(fake_count(fake, METHOD("Renew")), 1);
}

/* The server has completed it, and says so to a renewal before our answer is there. */
static void a_renewal_that_finds_it_ended_by_us_is_no_loss(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin(fake);

    (void)state;
    fake_pass(fake, 1000);
    fake_push(fake, FAKE_ANSWER, 200, NULL);
    fake_at(fake, 100, renew_now);
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, NULL), HF_OK);
    assert_int_equal(fake_count(fake, METHOD("Renew")), 1);
    fake_live(fake, 3000);
    assert_told(fake, 0, NULL);
    done(fake, operation);

    fake = fresh(); /* but somebody else's end is */
    operation = begin(fake);
    fake_pass(fake, 1000);
    world.attempt = HF_ATTEMPT_FAILED;
    fake_live(fake, 10);
    assert_told(fake, 1, "RELEASED");
    done(fake, operation);
}

static void an_unanswered_end_is_repeated_as_it_was(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin_long(fake);
    hf_finished finished;

    (void)state;
    fake_push(fake, FAKE_LOSE, 0, NULL);
    fake_push(fake, FAKE_ANSWER, 0, serve_lost_reply);
    fake_push(fake, FAKE_ANSWER, 0, serve_unavailable);
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, &finished, NULL), HF_OK);
    assert_true(finished.replayed);
    assert_int_equal(fake_count(fake, METHOD("Complete")), 4);
    assert_int_equal(fake->calls[1].len, fake->calls[4].len);
    assert_memory_equal(fake->calls[1].payload, fake->calls[4].payload, fake->calls[1].len);
    assert_told(fake, 0, NULL);
    done(fake, operation);
}

static void a_refusal_of_the_first_try_is_definite(void **state)
{
    static const fake_serve refusals[] = {serve_stale, serve_not_held, serve_illegal};
    static const char *const reasons[] = {"TAKEN_OVER", "EXPIRED", "RELEASED"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct fake *fake = fresh();
        hf_operation *operation = begin(fake);
        hf_error error;
        fake_push(fake, FAKE_ANSWER, 0, serve_unavailable); /* that had no effect */
        fake_push(fake, FAKE_ANSWER, 0, refusals[i]);
        assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), i < 2 ? HF_LOST : HF_CONFLICT);
        assert_int_equal(fake_count(fake, METHOD("ListAttempts")), 0);
        assert_told(fake, 1, reasons[i]);
        assert_string_equal(hf_operation_loss(operation), reasons[i]);
        done(fake, operation);
    }
}

/* The first try's answer is lost; the repeat is refused. What became of the attempt is asked by its key. */
static void a_refused_repeat_is_found_out_about(void **state)
{
    static const fake_serve refusals[] = {serve_stale, serve_not_held};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct fake *fake = fresh();
        hf_operation *operation = begin_long(fake);
        hf_finished finished = {.state = 0};
        hf_error error;

        if (i < 2) { /* it took effect */
            fake_push(fake, FAKE_LOSE, 0, NULL);
        } else {
            fake_push(fake, FAKE_SILENT, 0, NULL);
            world.attempt = i == 2 ? HF_ATTEMPT_LOST : 0; /* 0: nobody has seen yet that it is over */
            world.state = HF_OPERATION_UNKNOWN;
        }
        fake_push(fake, FAKE_ANSWER, 0, refusals[i % 2]);
        assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, &finished, &error), i < 2 ? HF_OK : HF_LOST);
        assert_int_equal(fake_count(fake, METHOD("ListAttempts")), 2);
        assert_int_equal(finished.state, i < 2 ? HF_OPERATION_SUCCEEDED : 0);
        assert_int_equal(finished.replayed, i < 2);
        assert_false(hf_operation_valid(operation));
        if (i < 2)
            assert_told(fake, 0, NULL);
        else
            assert_told(fake, 1, i == 2 ? "TAKEN_OVER" : "EXPIRED");
        done(fake, operation);
    }
}

static void what_cannot_be_found_out_is_unknown(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin_long(fake);
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_LOSE, 0, NULL);
    fake_push(fake, FAKE_ANSWER, 0, serve_stale);
    fake->serve = serve_unavailable;
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), HF_UNKNOWN);
    assert_string_equal(error.reason, "OUTCOME_LOST");
    assert_false(hf_operation_valid(operation)); /* that much is certain */
    assert_told(fake, 1, "TAKEN_OVER");
    done(fake, operation);
}

/* Nobody answers until the deadline is past: nothing more is sent, but it is asked. */
static void past_the_deadline_it_is_still_found_out(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin(fake);
    hf_error error;

    (void)state;
    fake_pass(fake, 2500);
    fake_push(fake, FAKE_RESET, 400, NULL);
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), HF_UNKNOWN); /* it runs, and may yet arrive */
    assert_int_equal(fake_count(fake, METHOD("Complete")), 1);
    assert_told(fake, 1, "DEADLINE");
    done(fake, operation);

    fake = fresh();
    operation = begin(fake);
    fake_pass(fake, 2500);
    fake_push(fake, FAKE_LOSE, 0, NULL); /* the reply never comes */
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), HF_OK);
    done(fake, operation);

    fake = fresh();
    operation = begin(fake);
    fake_pass(fake, 2500);
    fake_push(fake, FAKE_RESET, 400, NULL);
    world.attempt = HF_ATTEMPT_LOST;
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    done(fake, operation);
}

static void serve_no_complete(struct fake *fake, const Holdfast__V1__Call *call)
{
    if (strcmp(call->method, METHOD("Complete")) == 0)
        fake_error(fake, HP_R_OUTCOME_LOST);
    else
        serve(fake, call);
}

static void when_the_time_is_over_it_is_found_out(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin_long(fake);
    hf_error error;

    (void)state;
    fake->serve = serve_no_complete;
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), HF_UNKNOWN); /* it runs */
    assert_string_equal(error.reason, "OUTCOME_LOST");
    assert_true(fake->now_ms < 1000000 + 31000);
    assert_true(hf_operation_valid(operation)); /* still ours, so it may be tried again */
    fake->serve = serve;
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), HF_OK);
    assert_told(fake, 0, NULL);
    done(fake, operation);

    fake = fresh();
    operation = begin_long(fake);
    fake->serve = serve_no_complete;
    world.attempt = HF_ATTEMPT_LOST;
    assert_int_equal(hf_operation_complete(operation, "42", 2, NULL, NULL, &error), HF_LOST);
    assert_told(fake, 1, "EXPIRED");
    done(fake, operation);
}

static void failures_and_unknown(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin_long(fake);
    const hf_failure failure = {.error_class = HF_CLASS_CONFLICT, .message = "again", .sqlstate = "40001", .retry_after_ms = 250};
    const Holdfast__V1__FailRequest *fail;
    const Holdfast__V1__MarkUnknownRequest *unknown;
    hf_finished finished;

    (void)state;
    fake_push(fake, FAKE_LOSE, 0, NULL);
    assert_int_equal(hf_operation_fail(operation, &failure, &finished, NULL), HF_OK);
    assert_int_equal(finished.state, HF_OPERATION_PENDING);
    assert_int_equal(finished.due_ms, 500);
    fail = (const Holdfast__V1__FailRequest *)fake_request(fake, 1, &holdfast__v1__fail_request__descriptor);
    assert_int_equal(fail->error_class, HOLDFAST__V1__ERROR_CLASS__KIND__CONFLICT);
    assert_string_equal(fail->message, "again");
    assert_string_equal(fail->sqlstate, "40001");
    assert_int_equal(fail->retry_after_ms, 250);
    assert_int_equal(fail->token, TOKEN);
    assert_nothing_more_is_sent(fake, operation, "ENDED");
    done(fake, operation);

    fake = fresh();
    operation = begin_long(fake);
    fake_push(fake, FAKE_LOSE, 0, NULL);
    fake_push(fake, FAKE_ANSWER, 0, serve_not_held);
    assert_int_equal(hf_operation_unknown(operation, "no answer", &finished, NULL), HF_OK); /* found out */
    assert_int_equal(finished.state, HF_OPERATION_UNKNOWN);
    unknown = (const Holdfast__V1__MarkUnknownRequest *)fake_request(fake, 1, &holdfast__v1__mark_unknown_request__descriptor);
    assert_string_equal(unknown->note, "no answer");
    done(fake, operation);
}

/* ---- single calls ---- */

static bool replay;

static void serve_record(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__RecordResponse response = HOLDFAST__V1__RECORD_RESPONSE__INIT;

    (void)call;
    response.replayed = replay;
    response.attempt = 1;
    response.first_completed_unix_ms = 8;
    if (replay)
        response.result = (ProtobufCBinaryData){.data = (uint8_t *)"old", .len = 3};
    fake_ok(fake, &response.base);
}

static void a_record_is_kept_or_told(void **state)
{
    struct fake *fake = fresh();
    const hf_record_options options = {.key = "k", .type = "t", .fingerprint = fingerprint, .result = "new", .result_len = 3};
    const Holdfast__V1__RecordRequest *request;
    hf_outcome *outcome;
    hf_error error;

    (void)state;
    fake->serve = serve_record;
    replay = false;
    assert_int_equal(hf_operation_record(fake->client, &options, &outcome, &error), HF_OK);
    assert_int_equal(outcome->kind, HF_OUTCOME_DONE);
    hf_outcome_free(outcome);
    request = (const Holdfast__V1__RecordRequest *)fake_request(fake, 0, &holdfast__v1__record_request__descriptor);
    assert_memory_equal(request->result.data, "new", 3);
    assert_memory_equal(request->fingerprint.data, fingerprint, sizeof(fingerprint));
    replay = true;
    fake_push(fake, FAKE_RESET, 0, NULL);
    assert_int_equal(hf_operation_record(fake->client, &options, &outcome, &error), HF_OK);
    assert_int_equal(outcome->kind, HF_OUTCOME_REPLAYED);
    assert_string_equal(outcome->result, "old");
    assert_int_equal(outcome->first_completed_unix_ms, 8);
    assert_int_equal(outcome->attempt, 1);
    hf_outcome_free(outcome);
    fake_push(fake, FAKE_ANSWER, 0, serve_conflict);
    assert_int_equal(hf_operation_record(fake->client, &options, &outcome, &error), HF_CONFLICT);
    fake_free(fake);
}

static void serve_executed(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__ExecuteResponse response = HOLDFAST__V1__EXECUTE_RESPONSE__INIT;
    Holdfast__V1__BeginResponse__Replayed done_ = HOLDFAST__V1__BEGIN_RESPONSE__REPLAYED__INIT;

    (void)call;
    done_.result = (ProtobufCBinaryData){.data = (uint8_t *)"{}", .len = 2};
    response.outcome_case = HOLDFAST__V1__EXECUTE_RESPONSE__OUTCOME_DONE;
    response.done = &done_;
    fake_ok(fake, &response.base);
}

static void serve_raised(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_ACTION_RAISED);
}

static void an_action_runs_under_a_lease(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);
    hf_execute_options options = {
        .key = "k", .type = "t", .fingerprint = fingerprint, .action = "pay", .args = "{}", .lease = lease, .check_version = true};
    const Holdfast__V1__ExecuteRequest *request;
    hf_outcome *outcome;
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_executed);
    assert_int_equal(hf_operation_execute(fake->client, &options, &outcome, &error), HF_OK);
    assert_int_equal(outcome->kind, HF_OUTCOME_DONE);
    assert_string_equal(outcome->result, "{}");
    hf_outcome_free(outcome);
    request = (const Holdfast__V1__ExecuteRequest *)fake_request(fake, 1, &holdfast__v1__execute_request__descriptor);
    assert_string_equal(request->resource, "r");
    assert_int_equal(request->token, 7);
    assert_string_equal(request->action, "pay");
    assert_string_equal(request->holder, "me");
    assert_int_equal(request->expected_case, HOLDFAST__V1__EXECUTE_REQUEST__EXPECTED_EXPECTED_VERSION);

    fake_push(fake, FAKE_ANSWER, 0, serve_raised);
    assert_int_equal(hf_operation_execute(fake->client, &options, &outcome, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "ACTION_RAISED");
    fake_push(fake, FAKE_RESET, 0, NULL); /* that one may still arrive */
    fake_push(fake, FAKE_ANSWER, 0, serve_raised);
    assert_int_equal(hf_operation_execute(fake->client, &options, &outcome, &error), HF_UNKNOWN);

    options.resource = "s";
    assert_int_equal(hf_operation_execute(fake->client, &options, &outcome, &error), HF_INVALID);
    options.resource = NULL;
    fake_push(fake, FAKE_ANSWER, 0, serve_stale);
    assert_int_equal(hf_operation_execute(fake->client, &options, &outcome, &error), HF_LOST);
    assert_string_equal(hf_lease_loss(lease), "TAKEN_OVER");
    const size_t calls = fake->n_calls;
    assert_int_equal(hf_operation_execute(fake->client, &options, &outcome, &error), HF_LOST);
    assert_int_equal(fake->n_calls, calls);
    hf_lease_free(lease);
    fake_free(fake);
}

/* ---- looking, deciding ---- */

static void pages(void **state)
{
    struct fake *fake = fresh();
    hf_operation_page *page;
    bool ended = true;

    (void)state;
    world.state = HF_OPERATION_RUNNING;
    snprintf(world.result, sizeof(world.result), "42");
    assert_int_equal(hf_operation_get(fake->client, "k", &page, NULL), HF_OK);
    assert_int_equal(page->n, 1);
    assert_string_equal(page->operations[0].key, "k");
    assert_int_equal(page->operations[0].state, HF_OPERATION_RUNNING);
    assert_string_equal(page->operations[0].result, "42");
    assert_string_equal(page->operations[0].compensates, "first");
    assert_string_equal(page->operations[0].holder, "");
    assert_null(page->attempts);
    hf_operation_page_free(page);

    assert_int_equal(hf_operation_list(fake->client, NULL, &page, NULL), HF_OK);
    assert_int_equal(page->n, 2);
    assert_string_equal(page->operations[1].key, "l");
    assert_string_equal(page->next_page_token, "l");
    hf_operation_page_free(page);

    assert_int_equal(hf_operation_attempts(fake->client, "k", 1, "1", &page, NULL), HF_OK);
    assert_int_equal(page->n, 1);
    assert_null(page->operations);
    assert_int_equal(page->attempts[0].attempt, 2);
    assert_string_equal(page->attempts[0].execution_id, "execution-2");
    assert_string_equal(page->attempts[0].late_result, "late");
    assert_null(page->next_page_token);
    hf_operation_page_free(page);

    assert_int_equal(hf_operation_wait(fake->client, "k", 300, &page, &ended, NULL), HF_OK); /* asked again: it hasn't ended */
    assert_false(ended);
    assert_true(fake->now_ms >= 1000000 + 250);
    hf_operation_page_free(page);
    world.state = HF_OPERATION_SUCCEEDED;
    assert_int_equal(hf_operation_wait(fake->client, "k", 60000, &page, &ended, NULL), HF_OK);
    assert_true(ended);
    hf_operation_page_free(page);
    fake->serve = serve_conflict;
    assert_int_equal(hf_operation_get(fake->client, "k", &page, NULL), HF_CONFLICT);
    fake_free(fake);
}

static void serve_compensation(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__CompensateResponse response = HOLDFAST__V1__COMPENSATE_RESPONSE__INIT;

    (void)call;
    response.key = (char *)"undo:k";
    response.state = HOLDFAST__V1__OPERATION__STATE__PENDING;
    response.fingerprint = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)fingerprint, .len = sizeof(fingerprint)};
    fake_ok(fake, &response.base);
}

static void decisions(void **state)
{
    struct fake *fake = fresh();
    const hf_decision decision = {.revision = 8, .reason = "because"};
    const hf_reconcile_options reconcile = {.outcome = HF_RECONCILED_NOT_DONE};
    const hf_compensate_options compensate = {
        .type = "refund", .payload = "p", .payload_len = 1, .actor = "ann", .reason = "wrong"};
    const Holdfast__V1__RetryRequest *retry;
    hf_compensation compensation;
    hf_decided decided;

    (void)state;
    fake_push(fake, FAKE_RESET, 0, NULL);
    assert_int_equal(hf_operation_retry(fake->client, "k", &decision, &decided, NULL), HF_OK);
    assert_int_equal(decided.state, HF_OPERATION_PENDING);
    assert_int_equal(decided.revision, 9);
    assert_true(decided.replayed);
    retry = (const Holdfast__V1__RetryRequest *)fake_request(fake, 1, &holdfast__v1__retry_request__descriptor);
    assert_int_equal(retry->revision, 8);
    assert_string_equal(retry->actor, "me");
    assert_string_equal(retry->reason, "because");
    assert_int_equal(hf_operation_cancel(fake->client, "k", &decision, NULL, NULL), HF_OK);
    assert_int_equal(hf_operation_reconcile(fake->client, "k", &reconcile, &decision, &decided, NULL), HF_OK);
    assert_int_equal(
        ((const Holdfast__V1__ReconcileRequest *)fake_request(fake, 3, &holdfast__v1__reconcile_request__descriptor))->outcome,
        HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__NOT_DONE);
    assert_int_equal(hf_operation_retry(fake->client, "k", NULL, NULL, NULL), HF_INVALID);
    fake_push(fake, FAKE_ANSWER, 0, serve_compensation);
    assert_int_equal(hf_operation_compensate(fake->client, "k", &compensate, &compensation, NULL), HF_OK);
    assert_string_equal(compensation.key, "undo:k");
    assert_memory_equal(compensation.fingerprint, fingerprint, sizeof(fingerprint));
    fake_free(fake);
}

static void a_child_can_do_nothing_with_it(void **state)
{
    struct fake *fake = fresh();
    hf_operation *operation = begin(fake);
    int status;

    (void)state;
    const pid_t pid = fork();
    if (pid == 0) {
        const bool good = !hf_operation_valid(operation) &&
                          hf_operation_complete(operation, "", 0, NULL, NULL, NULL) == HF_MISUSE &&
                          hf_operation_sending(operation, NULL) == HF_MISUSE;
        hf_operation_free(operation);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    done(fake, operation);
}

/* ---- in threads ---- */

static void serve_afresh(struct fake *fake, const Holdfast__V1__Call *call)
{
    memset(&world, 0, sizeof(world)); /* under the fake's mutex */
    serve(fake, call);
}

static void *begin_and_end(void *arg)
{
    struct fake *fake = arg;
    hf_begin_options options = usual();

    options.ttl_ms = 100; /* renewed many times meanwhile */
    options.on_loss = NULL;
    for (int i = 0; i < 40; i++) {
        hf_operation *operation = NULL;
        hf_outcome *outcome = NULL;
        if (hf_operation_begin(fake->client, &options, &operation, &outcome, NULL) == HF_OK && operation) {
            (void)hf_operation_remaining_ms(operation);
            t_sleep_ms(i % 8 * 5);
            if (i % 3 == 0 && hf_operation_sending(operation, NULL) == HF_OK)
                (void)hf_operation_valid(operation);
            if (i % 4 != 0 && hf_operation_complete(operation, "x", 1, NULL, NULL, NULL) == HF_OK)
                (void)hf_operation_loss(operation);
        }
        hf_operation_free(operation);
        hf_outcome_free(outcome);
    }
    return NULL;
}

static void many_threads_begin_and_end(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    pthread_t threads[6];

    (void)state;
    fake->serve = serve_afresh;
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, begin_and_end, fake), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(fake_count(fake, METHOD("Begin")), 240, 240);
    assert_true(fake_count(fake, METHOD("Complete")) > 0);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_started_attempt),
        cmocka_unit_test(what_is_not_started_is_told),
        cmocka_unit_test(a_begin_that_is_refused),
        cmocka_unit_test(a_repeated_begin_counts_from_the_first_sending),
        cmocka_unit_test(a_late_repeat_is_confirmed_by_a_renewal),
        cmocka_unit_test(a_start_answered_past_its_deadline_is_lost),
        cmocka_unit_test(a_wait_that_a_server_ends_goes_on),
        cmocka_unit_test(a_wait_that_is_over),
        cmocka_unit_test(attempts_are_renewed_together_and_apart_from_leases),
        cmocka_unit_test(an_attempt_taken_over_is_lost_once),
        cmocka_unit_test(past_its_deadline_an_attempt_is_lost),
        cmocka_unit_test(an_attempt_may_be_freed_by_its_loss_callback_or_with_the_client),
        cmocka_unit_test(without_renewal_it_is_renewed_by_hand),
        cmocka_unit_test(sending_is_marked_or_no_effect_may_be_caused),
        cmocka_unit_test(a_completed_attempt_is_over_and_no_loss),
        cmocka_unit_test(a_renewal_that_finds_it_ended_by_us_is_no_loss),
        cmocka_unit_test(an_unanswered_end_is_repeated_as_it_was),
        cmocka_unit_test(a_refusal_of_the_first_try_is_definite),
        cmocka_unit_test(a_refused_repeat_is_found_out_about),
        cmocka_unit_test(what_cannot_be_found_out_is_unknown),
        cmocka_unit_test(past_the_deadline_it_is_still_found_out),
        cmocka_unit_test(when_the_time_is_over_it_is_found_out),
        cmocka_unit_test(failures_and_unknown),
        cmocka_unit_test(a_record_is_kept_or_told),
        cmocka_unit_test(an_action_runs_under_a_lease),
        cmocka_unit_test(pages),
        cmocka_unit_test(decisions),
        cmocka_unit_test(a_child_can_do_nothing_with_it),
        cmocka_unit_test(many_threads_begin_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
