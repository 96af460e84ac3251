/*
 * operation_wait_test.c - calls of Begin and Wait that wait, with a fake store and a clock that stands still: who is asked for what
 * and when, who is told what, and that nobody is told twice, never, or what isn't his.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"

#define OPERATION "/holdfast.v1.OperationService/"

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static const char print[] = "0123456789abcdef0123456789abcdef";

static struct fake_call *begin_as(struct fake *f, const char *key, const char *type, const char *id, int64_t wait_ms)
{
    Holdfast__V1__BeginRequest request = HOLDFAST__V1__BEGIN_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.key = str(key);
    request.type = str(type);
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = (ProtobufCBinaryData){.len = 32, .data = (uint8_t *)str(print)};
    request.holder = str(id);
    request.request_id = str(id);
    request.ttl_ms = 10000;
    request.wait_ms = wait_ms;
    return fake_call(f, OPERATION "Begin", &request, 0);
}

/* A Begin that waits, as the operation runs under somebody else's lease, which lasts so long. */
static struct fake_call *waiting(struct fake *f, const char *id, int64_t wait_ms, int64_t remaining_ms)
{
    struct fake_call *call = begin_as(f, "k", "t", id, wait_ms);
    struct st_item *item = f->items[f->n_items - 1];
    assert_int_equal(item->kind, ST_OP_BEGIN);
    item->out.op = (struct st_op_told){.state = ST_OP_RUNNING, .holder = "x", .remaining_ms = remaining_ms, .attempt = 1};
    fake_done(f, f->n_items - 1, ST_OP_IN_PROGRESS);
    assert_int_equal(call->answers, 0);
    return call;
}

static struct fake_call *wait_for(struct fake *f, const char *key, int64_t wait_ms)
{
    Holdfast__V1__WaitOperationRequest request = HOLDFAST__V1__WAIT_OPERATION_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.key = str(key);
    request.wait_ms = wait_ms;
    return fake_call(f, OPERATION "Wait", &request, 0);
}

static struct st_op_row row_of(int state, int64_t remaining_ms)
{
    return (struct st_op_row){.key = "k",
                              .type = "t",
                              .holder = "x",
                              .fingerprint = {(const unsigned char *)print, 32},
                              .state = state,
                              .attempts = 1,
                              .remaining_ms = remaining_ms,
                              .result = {(const unsigned char *)"res", state == ST_OP_SUCCEEDED ? 3 : 0},
                              .changed_unix_ms = 77};
}

/* The only item that is out, a question, is answered. */
static void answer(struct fake *f, int state, int64_t remaining_ms)
{
    struct st_op_row row = row_of(state, remaining_ms);
    assert_int_equal(f->n_items, 1);
    assert_int_equal(f->items[0]->kind, ST_OP_GET);
    f->items[0]->out.ops = (struct st_op_rows){.rows = &row, .n = 1};
    fake_done(f, 0, ST_FOUND);
}

/* Something that changes the operation was answered by this server. */
static void complete(struct fake *f)
{
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.key = str("k");
    request.token = 1;
    fake_call(f, OPERATION "Complete", &request, 0);
    f->items[f->n_items - 1]->out.op_moved = (struct st_op_moved){.state = ST_OP_SUCCEEDED, .revision = 2, .attempts = 1};
    fake_done(f, f->n_items - 1, ST_OP_DONE);
}

static Holdfast__V1__BeginResponse *told(const struct fake_call *call)
{
    return fake_assert_ok(call);
}

static void assert_replayed(const struct fake_call *call)
{
    assert_int_equal(told(call)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED);
    assert_memory_equal(told(call)->replayed->result.data, "res", 3);
    assert_int_equal(told(call)->replayed->first_completed_unix_ms, 77);
}

/* ---- Begin ---- */

static void those_who_dont_wait_are_answered_at_once(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = begin_as(f, "k", "t", "a", 0);
    f->items[0]->out.op = (struct st_op_told){.state = ST_OP_RUNNING, .holder = "x", .remaining_ms = 500};
    fake_done(f, 0, ST_OP_IN_PROGRESS);
    assert_int_equal(told(call)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS);
    assert_int_equal(f->n_items, 0);
}

/* However many wait, one question is asked, and its answer is for all. */
static void one_question_for_a_thousand(void **state)
{
    struct fake *f = *state;
    enum { N = 1000 };
    static struct fake_call *calls[2 * N];
    for (int i = 0; i < N; i++) {
        calls[i] = waiting(f, t_printf("b%d", i), 10000, 30000);
        calls[N + i] = i ? wait_for(f, "k", 10000) : NULL;
    }
    /* The first Wait's question, and one for all those that came meanwhile. */
    answer(f, ST_OP_RUNNING, 30000);
    answer(f, ST_OP_RUNNING, 30000);
    assert_int_equal(f->n_items, 0);
    size_t before = f->n_submitted;
    complete(f);
    answer(f, ST_OP_SUCCEEDED, 0);
    assert_int_equal(f->n_submitted, before + 2); /* the Complete among them */
    for (int i = 0; i < N; i++) {
        assert_replayed(calls[i]);
        if (!i)
            continue;
        Holdfast__V1__WaitOperationResponse *response = fake_assert_ok(calls[N + i]);
        assert_true(response->ended);
        assert_memory_equal(response->operation->result.data, "res", 3);
    }
    assert_int_equal(f->n_items, 0);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void changes_elsewhere_are_found_by_polls_that_grow_rare(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = waiting(f, "a", 20000, 30000);
    int64_t last = f->now_ms, pauses[8];
    for (int i = 0; i < 8; i++) {
        while (!f->n_items)
            fake_advance(f, 1);
        pauses[i] = f->now_ms - last;
        last = f->now_ms;
        answer(f, ST_OP_RUNNING, 30000);
        assert_true(pauses[i] <= 250 && (!i || pauses[i] >= pauses[i - 1]));
    }
    assert_true(pauses[0] <= 50);
    assert_int_equal(pauses[7], 250);
    fake_advance(f, 250);
    answer(f, ST_OP_SUCCEEDED, 0);
    assert_replayed(call);
}

static void the_first_takes_over_when_the_lease_ends(void **state)
{
    struct fake *f = *state;
    struct fake_call *first = waiting(f, "a", 20000, 300), *second = waiting(f, "b", 20000, 300);
    int64_t came = f->now_ms;
    while (!f->n_items || f->items[0]->kind == ST_OP_GET) {
        if (f->n_items)
            answer(f, ST_OP_RUNNING, came + 300 - f->now_ms);
        else
            fake_advance(f, 1);
    }
    assert_true(f->now_ms - came <= 302); /* at the lease's end, and not a poll later */
    assert_int_equal(f->n_items, 1);      /* for one of both */
    assert_string_equal(f->items[0]->in.op_begin.request_id, "a");
    fake_advance(f, 40);
    f->items[0]->out.op = (struct st_op_told){.attempt = 2, .token = 5, .ttl_ms = 10000, .execution_id = "e", .trigger = 3};
    fake_done(f, 0, ST_OP_STARTED);
    assert_int_equal(told(first)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED);
    assert_int_equal(told(first)->started->token, 5);
    assert_int_equal(told(first)->started->ttl_ms, 10000 - 40);
    assert_true(told(first)->started->waited_ms >= 300 && told(first)->started->waited_ms <= 302);
    assert_int_equal(second->answers, 0);
    fake_advance(f, 20);
    answer(f, ST_OP_SUCCEEDED, 0);
    assert_replayed(second);
}

static void it_is_in_progress_when_the_time_is_over(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = waiting(f, "a", 200, 30000);
    fake_advance(f, 199);
    assert_int_equal(call->answers, 0);
    fake_advance(f, 1);
    assert_int_equal(told(call)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS);
    assert_string_equal(told(call)->in_progress->holder, "x");
    assert_true(told(call)->in_progress->remaining_ms > 29000);
    answer(f, ST_OP_RUNNING, 30000); /* a poll was on its way */
    assert_int_equal(svc_in_flight(f->svc), 0);
}

/* A shared answer is for those only who asked with the same parameters. */
static void a_key_that_was_made_anew_conflicts(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = waiting(f, "a", 10000, 30000);
    struct st_op_row row = row_of(ST_OP_SUCCEEDED, 0);
    row.type = "another";
    complete(f);
    f->items[0]->out.ops = (struct st_op_rows){.rows = &row, .n = 1};
    fake_done(f, 0, ST_FOUND);
    fake_assert_error(call, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT);
}

static void a_repeat_gets_the_attempt_of_the_first(void **state)
{
    struct fake *f = *state;
    struct fake_call *gone = waiting(f, "a", 20000, 10);
    fake_advance(f, 11);
    assert_int_equal(f->items[0]->kind, ST_OP_BEGIN);
    fake_gone(gone); /* while it is being tried for */
    assert_int_equal(gone->answers, 1);
    struct fake_call *again = begin_as(f, "k", "t", "a", 20000);
    f->items[1]->out.op = (struct st_op_told){.state = ST_OP_RUNNING, .holder = "x", .remaining_ms = 10};
    fake_done(f, 1, ST_OP_IN_PROGRESS); /* it was asked before the other took effect */
    f->items[0]->out.op = (struct st_op_told){.attempt = 2, .token = 5, .ttl_ms = 10000};
    fake_done(f, 0, ST_OP_STARTED);
    assert_int_equal(told(again)->started->token, 5);
    assert_int_equal(f->n_items, 0);
}

static void an_attempt_for_nobody_is_left_alone(void **state)
{
    struct fake *f = *state;
    struct fake_call *gone = waiting(f, "a", 20000, 10), *other = waiting(f, "b", 20000, 10);
    fake_advance(f, 11);
    fake_gone(gone);
    f->items[0]->out.op = (struct st_op_told){.attempt = 2, .token = 5, .ttl_ms = 10000};
    fake_done(f, 0, ST_OP_STARTED);
    assert_int_equal(other->answers, 0); /* it waits for that lease's end */
    fake_advance(f, 9000);
    answer(f, ST_OP_RUNNING, 1000);
    assert_int_equal(other->answers, 0);
}

static void one_that_is_tried_for_has_a_little_more_time(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = waiting(f, "a", 100, 90);
    for (int i = 0; i < 200 && !(f->n_items && f->items[0]->kind == ST_OP_BEGIN); i++) {
        if (f->n_items)
            answer(f, ST_OP_RUNNING, 1);
        fake_advance(f, 1);
    }
    fake_advance(f, 500); /* its time is over long since; the outcome is on its way */
    assert_int_equal(call->answers, 0);
    f->items[0]->out.op = (struct st_op_told){.attempt = 2, .token = 5, .ttl_ms = 10000};
    fake_done(f, 0, ST_OP_STARTED);
    assert_int_equal(told(call)->started->ttl_ms, 9500);
}

/* It got somewhat more time for the outcome, and no more than that. */
static void one_whose_try_was_in_vain_is_told_so(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = waiting(f, "a", 100, 10);
    fake_advance(f, 11);
    fake_advance(f, 500);
    assert_int_equal(call->answers, 0);
    f->items[0]->out.op = (struct st_op_told){.state = ST_OP_RUNNING, .holder = "y", .remaining_ms = 5000, .attempt = 2};
    fake_done(f, 0, ST_OP_IN_PROGRESS);
    assert_int_equal(told(call)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS);
    assert_string_equal(told(call)->in_progress->holder, "y");
}

/* What is gone is begun anew; were that lost, only the same begin again tells. */
static void what_is_gone_is_begun_anew(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = waiting(f, "a", 20000, 30000);
    complete(f);
    fake_done(f, 0, ST_OP_NONE);
    assert_int_equal(f->items[0]->kind, ST_OP_BEGIN);
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_advance(f, 100);
    assert_int_equal(f->items[0]->kind, ST_OP_BEGIN);
    f->items[0]->out.op = (struct st_op_told){.attempt = 1, .token = 5, .ttl_ms = 10000};
    fake_done(f, 0, ST_OP_STARTED_AGAIN);
    assert_int_equal(told(call)->started->token, 5);
}

static void lost_tries_are_tried_again_or_told(void **state)
{
    struct fake *f = *state;
    struct fake_call *first = waiting(f, "a", 300, 10), *second = waiting(f, "b", 20000, 10);
    fake_advance(f, 11);
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_advance(f, 100);
    assert_int_equal(f->items[0]->kind, ST_OP_BEGIN); /* under the same request_id, it is told of what it did */
    assert_string_equal(f->items[0]->in.op_begin.request_id, "a");
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_advance(f, 100);
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_advance(f, 90); /* its time is over */
    fake_assert_error(first, HP_UNKNOWN, HP_R_OUTCOME_LOST);
    fake_advance(f, 10);
    assert_string_equal(f->items[0]->in.op_begin.request_id, "b");
    f->items[0]->out.op = (struct st_op_told){.state = ST_OP_RUNNING, .holder = "a", .remaining_ms = 5000};
    fake_done(f, 0, ST_OP_IN_PROGRESS);
    assert_int_equal(second->answers, 0);
}

static void what_a_try_finds_is_told_to_all(void **state)
{
    struct fake *f = *state;
    static const struct {
        enum st_outcome outcome;
        int told;
    } table[] = {{ST_OP_UNKNOWN, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_UNKNOWN},
                 {ST_OP_REVIEW, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REVIEW},
                 {ST_OP_REPLAYED_FAILED, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED}};
    for (size_t i = 0; i < 3; i++) {
        struct fake_call *first = waiting(f, "a", 20000, 10), *second = waiting(f, "b", 20000, 10);
        fake_advance(f, 11);
        fake_done(f, 0, table[i].outcome);
        assert_int_equal(told(first)->outcome_case, table[i].told);
        assert_int_equal(told(second)->outcome_case, table[i].told);
        assert_int_equal(f->n_items, 0);
    }
    struct fake_call *first = waiting(f, "a", 20000, 10), *second = waiting(f, "b", 20000, 10);
    fake_advance(f, 11);
    strcpy(f->items[0]->sqlstate, "XX000");
    fake_done(f, 0, ST_FAILED); /* that is the first one's own */
    fake_assert_error(first, HP_INTERNAL, HP_R_INTERNAL);
    assert_int_equal(second->answers, 0);
    answer(f, ST_OP_PENDING, 0); /* due: the next one is tried for at once */
    assert_string_equal(f->items[0]->in.op_begin.request_id, "b");
    fake_done(f, 0, ST_NO_SUCH_NAMESPACE);
    fake_assert_error(second, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE);
}

/* ---- Wait ---- */

static void a_wait_that_is_over_tells_how_it_is(void **state)
{
    struct fake *f = *state;
    struct fake_call *at_once = wait_for(f, "k", 0), *later = wait_for(f, "k", 1000);
    answer(f, ST_OP_RUNNING, 30000);
    Holdfast__V1__WaitOperationResponse *response = fake_assert_ok(at_once);
    assert_false(response->ended);
    assert_int_equal(response->operation->state, HOLDFAST__V1__OPERATION__STATE__RUNNING);
    answer(f, ST_OP_RUNNING, 30000); /* that which the second one asked for */
    while (f->now_ms < 1000000 + 999) {
        fake_advance(f, 1);
        if (f->n_items)
            answer(f, ST_OP_RUNNING, 30000);
    }
    assert_int_equal(later->answers, 0);
    fake_advance(f, 1);
    answer(f, ST_OP_RUNNING, 29000);
    assert_false(((Holdfast__V1__WaitOperationResponse *)fake_assert_ok(later))->ended);
}

static void a_wait_ends_by_any_state_that_needs_somebody(void **state)
{
    struct fake *f = *state;
    static const int states[] = {ST_OP_SUCCEEDED, ST_OP_FAILED, ST_OP_IS_UNKNOWN, ST_OP_IN_REVIEW, ST_OP_CANCELLED};
    for (size_t i = 0; i < 5; i++) {
        struct fake_call *call = wait_for(f, "k", 1000);
        answer(f, ST_OP_PENDING, 100);
        assert_int_equal(call->answers, 0);
        while (!f->n_items)
            fake_advance(f, 1);
        answer(f, states[i], 0);
        Holdfast__V1__WaitOperationResponse *response = fake_assert_ok(call);
        assert_true(response->ended);
        assert_int_equal(response->operation->state, states[i]);
    }
}

/* An answer to a question that was asked before a caller came may be older than what the caller did. */
static void a_newcomer_is_not_told_what_was_before_it(void **state)
{
    struct fake *f = *state;
    struct fake_call *first = wait_for(f, "k", 1000), *second = wait_for(f, "k", 1000);
    fake_done(f, 0, ST_OP_NONE);
    fake_assert_error(first, HP_NOT_FOUND, HP_R_NO_SUCH_OPERATION);
    assert_int_equal(second->answers, 0);
    answer(f, ST_OP_SUCCEEDED, 0);
    fake_assert_ok(second);
}

static void without_a_database_a_wait_ends_all_the_same(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = wait_for(f, "k", 500);
    f->stats.connections_ready = 0;
    for (int i = 0; i < 29950 && !call->answers; i++) {
        if (f->n_items)
            fake_done(f, 0, ST_DATABASE_DOWN);
        fake_advance(f, 1);
    }
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
}

/* ---- life ---- */

static void who_is_gone_waits_no_more(void **state)
{
    struct fake *f = *state;
    struct fake_call *begin = waiting(f, "a", 20000, 30000), *wait = wait_for(f, "k", 1000);
    fake_gone(begin);
    fake_gone(wait);
    assert_int_equal(begin->answers, 1);
    assert_int_equal(wait->answers, 1);
    answer(f, ST_OP_RUNNING, 30000);
    assert_int_equal(svc_in_flight(f->svc), 0);
    fake_advance(f, 60000);
    assert_int_equal(f->n_items, 0); /* nothing is asked for nobody */
}

static void a_drain_ends_the_waiting(void **state)
{
    struct fake *f = *state;
    struct fake_call *begin = waiting(f, "a", 20000, 30000), *other = waiting(f, "b", 20000, 30000);
    struct fake_call *wait = wait_for(f, "l", 1000);
    svc_drain(f->svc);
    assert_int_equal(told(begin)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS);
    assert_int_equal(told(other)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS);
    fake_assert_error(wait, HP_UNAVAILABLE, HP_R_DRAINING);
    assert_int_equal(svc_in_flight(f->svc), 1); /* the question */
}

static void a_drain_lets_a_try_have_its_outcome(void **state)
{
    struct fake *f = *state;
    struct fake_call *first = waiting(f, "a", 20000, 10), *second = waiting(f, "b", 20000, 10);
    fake_advance(f, 11);
    svc_drain(f->svc);
    assert_int_equal(first->answers, 0);
    assert_int_equal(told(second)->outcome_case, HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS);
    f->items[0]->out.op = (struct st_op_told){.attempt = 2, .token = 5, .ttl_ms = 10000};
    fake_done(f, 0, ST_OP_STARTED);
    assert_int_equal(told(first)->started->token, 5);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void no_more_wait_than_may(void **state)
{
    struct fake *f = *state;
    enum { MAX = 11000 }; /* of the fixture */
    for (int i = 0; i < MAX; i++)
        wait_for(f, "k", 10000);
    fake_assert_error(wait_for(f, "k2", 10000), HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
    answer(f, ST_OP_SUCCEEDED, 0);
    answer(f, ST_OP_SUCCEEDED, 0);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

/* Each allocation of a call that waits fails once. */
static void without_memory_it_is_answered(void **state)
{
    struct fake *f = *state;
    for (int i = 1; i < 12; i++) {
        f->fail_alloc = i;
        struct fake_call *call = wait_for(f, "k", 1000);
        f->fail_alloc = 0;
        if (call->answers) {
            fake_assert_error(call, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
            continue;
        }
        struct st_op_row row = row_of(ST_OP_SUCCEEDED, 0);
        f->items[0]->out.ops = (struct st_op_rows){.rows = &row, .n = 1};
        fake_done(f, 0, ST_FOUND);
        assert_int_equal(call->answers, 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        TEST(those_who_dont_wait_are_answered_at_once),
        TEST(one_question_for_a_thousand),
        TEST(changes_elsewhere_are_found_by_polls_that_grow_rare),
        TEST(the_first_takes_over_when_the_lease_ends),
        TEST(it_is_in_progress_when_the_time_is_over),
        TEST(a_key_that_was_made_anew_conflicts),
        TEST(a_repeat_gets_the_attempt_of_the_first),
        TEST(an_attempt_for_nobody_is_left_alone),
        TEST(one_that_is_tried_for_has_a_little_more_time),
        TEST(one_whose_try_was_in_vain_is_told_so),
        TEST(what_is_gone_is_begun_anew),
        TEST(lost_tries_are_tried_again_or_told),
        TEST(what_a_try_finds_is_told_to_all),
        TEST(a_wait_that_is_over_tells_how_it_is),
        TEST(a_wait_ends_by_any_state_that_needs_somebody),
        TEST(a_newcomer_is_not_told_what_was_before_it),
        TEST(without_a_database_a_wait_ends_all_the_same),
        TEST(who_is_gone_waits_no_more),
        TEST(a_drain_ends_the_waiting),
        TEST(a_drain_lets_a_try_have_its_outcome),
        TEST(no_more_wait_than_may),
        TEST(without_memory_it_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
