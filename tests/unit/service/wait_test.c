/*
 * wait_test.c - acquires that wait, with a fake store: what is asked of it when, and what each outcome leads to.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"

#define LEASE "/holdfast.v1.LeaseService/"

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static struct fake_call *wait_with(struct fake *f, const char *resource, const char *id, int64_t wait_ms, int64_t timeout_ms)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *resources[] = {str(resource)};
    request.namespace_ = str("ns");
    request.holder = strlen(id) > 100 ? str(id) : str("me");
    request.request_id = str(id);
    request.n_resources = 1;
    request.resources = resources;
    request.ttl_ms = 10000;
    request.wait_ms = wait_ms;
    return fake_call(f, LEASE "Acquire", &request, timeout_ms);
}

/* One that waits for a minute. */
static struct fake_call *wait_for(struct fake *f, const char *id)
{
    return wait_with(f, "r", id, 60000, 120000);
}

static struct fake_call *cancel(struct fake *f, const char *id)
{
    Holdfast__V1__CancelWaitRequest request = HOLDFAST__V1__CANCEL_WAIT_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.request_id = str(id);
    return fake_call(f, LEASE "CancelWait", &request, 0);
}

/* The one item that is out. */
static struct st_item *out(struct fake *f)
{
    assert_int_equal(f->n_items, 1);
    return f->items[0];
}

static void done_held(struct fake *f, const char *holder, int64_t remaining_ms)
{
    struct st_item *item = out(f);
    assert_int_equal(item->kind, ST_ACQUIRE);
    item->out.acquire.holder = holder;
    item->out.acquire.task = "task";
    item->out.acquire.token = 7;
    item->out.acquire.remaining_ms = remaining_ms;
    fake_done(f, 0, ST_HELD);
}

static void done_granted(struct fake *f, int64_t token)
{
    struct st_item *item = out(f);
    assert_int_equal(item->kind, ST_ACQUIRE);
    item->out.acquire.token = token;
    item->out.acquire.ttl_ms = 10000;
    item->out.acquire.granted_at_ms = f->now_ms;
    fake_done(f, 0, ST_GRANTED);
}

static int64_t assert_granted(const struct fake_call *call, int64_t token)
{
    Holdfast__V1__AcquireResponse *response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED);
    assert_int_equal(response->granted->grants[0]->token, token);
    return response->granted->waited_ms;
}

static Holdfast__V1__Held *assert_held(const struct fake_call *call)
{
    Holdfast__V1__AcquireResponse *response = fake_assert_ok(call);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD);
    return response->held;
}

static bool was_waiting(const struct fake_call *call)
{
    return ((Holdfast__V1__CancelWaitResponse *)fake_assert_ok(call))->was_waiting;
}

static void assert_left(struct fake *f)
{
    assert_int_equal(out(f)->kind, ST_LEAVE);
    assert_string_equal(out(f)->ns, "ns");
    assert_string_equal(out(f)->resource, "r");
    fake_done(f, 0, ST_FREED);
    assert_int_equal(f->n_items, 0);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void assert_given_back(struct fake *f, int64_t token)
{
    struct st_item *item = out(f);
    assert_int_equal(item->kind, ST_RELEASE);
    assert_string_equal(item->resource, "r");
    assert_int_equal(item->in.release.token, token);
    assert_true(item->in.release.unless_repeated);
}

static Holdfast__V1__WaitStats *stats(struct fake *f)
{
    struct fake_call *call = fake_call_bytes(f, "/holdfast.v1.AdminService/Stats", "", 0, 0);
    fake_done(f, f->n_items - 1, ST_FOUND);
    fake_done(f, f->n_items - 1, ST_FOUND);
    return ((Holdfast__V1__StatsResponse *)fake_assert_ok(call))->waits;
}

/* Holder `x` has it; `id` waits, and is the head. */
static struct fake_call *queued(struct fake *f, const char *id)
{
    struct fake_call *call = wait_for(f, id);
    done_held(f, "x", 30000);
    return call;
}

/* Two wait; the second was asked for. */
static void two_queued(struct fake *f, struct fake_call **a, struct fake_call **b)
{
    *a = queued(f, "a");
    *b = wait_for(f, "b");
    done_held(f, "x", 30000);
    assert_int_equal(f->n_items, 0);
}

/* ---- tries ---- */

static void what_is_free_is_granted_at_once(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = wait_for(f, "a");
    struct st_item *item = out(f);
    assert_string_equal(item->in.acquire.request_id, "a");
    assert_string_equal(item->in.acquire.task, "r");
    assert_false(item->in.acquire.queued);
    assert_int_equal(item->in.acquire.waited_ms, 0);
    assert_int_equal(item->in.acquire.wait_ms, 60000);
    assert_int_equal(item->in.acquire.next_wait_ms, 0);
    done_granted(f, 5);
    assert_int_equal(assert_granted(call, 5), 0);
    assert_int_equal(f->n_items, 0); /* nobody was on record as waiting */
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void a_head_is_tried_for_when_the_lease_ends_and_once_a_second(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = wait_for(f, "a");
    done_held(f, "x", 2300);
    static const struct {
        int64_t after, remains;
    } tries[] = {{1000, 1300}, {1000, 300}, {300, 5000}, {1000, 1}};
    for (size_t i = 0; i < 4; i++) {
        fake_advance(f, tries[i].after - 1);
        assert_int_equal(f->n_items, 0);
        fake_advance(f, 1);
        assert_int_equal(out(f)->in.acquire.waited_ms, f->now_ms - 1000000);
        assert_int_equal(out(f)->in.acquire.wait_ms, 60000 - (f->now_ms - 1000000));
        done_held(f, "x", tries[i].remains);
    }
    fake_advance(f, 1);
    done_granted(f, 5);
    assert_int_equal(assert_granted(call, 5), 3301);
    Holdfast__V1__WaitStats *waits = stats(f);
    assert_int_equal(waits->tries, 5);
    assert_int_equal(waits->arrivals, 1);
    assert_int_equal(waits->hand_overs, 1);
    assert_int_equal(waits->waiters + waits->callers + waits->resources, 0);
    assert_true(waits->tries_per_hand_over > 4.9 && waits->tries_per_hand_over < 5.1);
}

static void what_is_free_but_not_to_be_had_is_waited_out_exactly(void **state)
{
    struct fake *f = *state;
    wait_for(f, "a");
    done_held(f, "", 5000); /* a lock delay */
    fake_advance(f, 4999);
    assert_int_equal(f->n_items, 0);
    fake_advance(f, 1);
    done_held(f, "", 100); /* another server's turn */
    fake_advance(f, 99);
    assert_int_equal(f->n_items, 0);
    fake_advance(f, 1);
    done_granted(f, 5);
}

static void one_at_a_time_and_nobody_overtakes(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_for(f, "a"), *b = wait_for(f, "b"), *c = wait_for(f, "c");
    assert_string_equal(out(f)->in.acquire.request_id, "a");
    struct fake_call *once = wait_with(f, "r", "once", 0, 0);
    assert_int_equal(f->n_items, 2);
    assert_true(f->items[1]->in.acquire.queued); /* may not be granted what those who wait want */
    assert_int_equal(f->items[1]->in.acquire.wait_ms, 0);
    f->items[1]->out.acquire.holder = "";
    fake_done(f, 1, ST_HELD);
    assert_int_equal(assert_held(once)->waiters, 3);
    done_held(f, "x", 30000);
    assert_string_equal(out(f)->in.acquire.request_id, "b"); /* is it a repeat? */
    assert_true(out(f)->in.acquire.queued);
    assert_int_equal(out(f)->in.acquire.next_wait_ms, 0);
    fake_turn(f, "ns", "r"); /* the head comes first, before the question of c */
    assert_string_equal(out(f)->in.acquire.request_id, "b");
    done_held(f, "x", 30000);
    assert_string_equal(out(f)->in.acquire.request_id, "a");
    assert_false(out(f)->in.acquire.queued);
    assert_int_equal(out(f)->in.acquire.next_wait_ms, 60000);
    done_granted(f, 5);
    assert_granted(a, 5);
    assert_string_equal(out(f)->in.acquire.request_id, "c");
    done_held(f, "me", 10000);
    assert_int_equal(f->n_items, 0);
    assert_int_equal(b->answers + c->answers, 0);
}

static void a_repeat_needn_t_wait(void **state)
{
    struct fake *f = *state;
    queued(f, "a");
    struct fake_call *again = wait_for(f, "b"), *ended = wait_for(f, "c");
    out(f)->out.acquire.token = 7;
    out(f)->out.acquire.ttl_ms = 500;
    out(f)->out.acquire.granted_at_ms = f->now_ms;
    fake_done(f, 0, ST_REPEATED);
    assert_granted(again, 7);
    out(f)->out.acquire.token = 6;
    fake_done(f, 0, ST_ENDED);
    Holdfast__V1__AcquireResponse *response = fake_assert_ok(ended);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED);
    assert_int_equal(response->ended->token, 6);
    assert_string_equal(out(f)->in.acquire.request_id, "a"); /* that lease has ended, so it may be free */
    done_held(f, "y", 30000);
}

static void a_hand_over_costs_one_acquire_however_many_wait(void **state)
{
    struct fake *f = *state;
    enum { N = 200 };
    struct fake_call *calls[N];
    for (int i = 0; i < N; i++) {
        calls[i] = wait_for(f, ""); /* no repeats of anything, so there is no question */
        if (i == 0)
            done_held(f, "x", 30000);
    }
    assert_int_equal(f->n_submitted, 1);
    for (int i = 0; i < N; i++) {
        fake_turn(f, "ns", "r");
        fake_turn(f, "ns", "r"); /* told twice */
        assert_int_equal(out(f)->in.acquire.next_wait_ms > 0, i < N - 1);
        done_granted(f, i + 1);
        assert_granted(calls[i], i + 1);
        assert_int_equal(f->n_submitted, i + 2);
        assert_int_equal(f->n_items, 0);
    }
    assert_int_equal(stats(f)->hand_overs, N);
    assert_int_equal(stats(f)->tries, N);
}

static void news_during_a_try_leads_to_another(void **state)
{
    struct fake *f = *state;
    queued(f, "a");
    fake_advance(f, 1000);
    fake_turn(f, "ns", "r"); /* after the try was sent */
    done_held(f, "x", 29000);
    done_granted(f, 5); /* without any time passing */
    assert_int_equal(f->n_items, 0);
}

static void a_release_here_is_noticed(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    Holdfast__V1__LeaseItem lease = HOLDFAST__V1__LEASE_ITEM__INIT, *leases = &lease;
    struct fake_call *a = wait_for(f, "a"), *b = wait_for(f, "");
    lease.resource = str("r");
    lease.token = 5;
    request.namespace_ = str("ns");
    request.n_items = 1;
    request.items = &leases;
    done_granted(f, 5); /* when this was sent, b wasn't there: the database doesn't know that somebody waits */
    assert_granted(a, 5);
    assert_string_equal(out(f)->in.acquire.request_id, "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"); /* so it is told */
    fake_call(f, LEASE "Release", &request, 0);
    assert_int_equal(f->n_items, 2);
    fake_done(f, 1, ST_FREED); /* the try may have come before it */
    done_held(f, "me", 10000);
    done_granted(f, 6);
    assert_granted(b, 6);
    /* With us on record, it is left to the turn. */
    queued(f, "c");
    fake_call(f, LEASE "Release", &request, 0);
    fake_done(f, 0, ST_FREED);
    assert_int_equal(f->n_items, 0);
    fake_turn(f, "ns", "r");
    done_granted(f, 7);
}

static void a_turn_for_nobody_is_passed_on(void **state)
{
    struct fake *f = *state;
    fake_turn(f, "ns", "r");
    fake_turn(f, "ns", "r");
    assert_left(f);
}

static void who_comes_while_the_line_is_left_is_not_forgotten(void **state)
{
    struct fake *f = *state;
    fake_gone(queued(f, "a"));
    assert_int_equal(out(f)->kind, ST_LEAVE);
    wait_for(f, "b");
    assert_int_equal(f->n_items, 2);
    f->items[1]->out.acquire.holder = "x";
    f->items[1]->out.acquire.remaining_ms = 30000;
    fake_done(f, 1, ST_HELD);
    fake_done(f, 0, ST_FREED); /* it may have taken away what b's try put on record */
    done_held(f, "x", 30000);
    assert_int_equal(f->n_items, 0);
}

/* ---- ends ---- */

static void a_wait_ends_with_what_is_known(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "a", 500, 30000), *b = wait_with(f, "r", "b", 3600000, 600);
    done_held(f, "x", 30000);
    done_held(f, "x", 30000);
    fake_advance(f, 499);
    assert_int_equal(a->answers + b->answers, 0);
    fake_advance(f, 1);
    Holdfast__V1__Held *held = assert_held(a);
    assert_string_equal(held->resource, "r");
    assert_string_equal(held->holder, "x");
    assert_string_equal(held->task, "task");
    assert_int_equal(held->token, 7);
    assert_int_equal(held->remaining_ms, 29500);
    assert_int_equal(held->waiters, 1); /* the other */
    fake_advance(f, 50);                /* 50 ms before the timeout */
    assert_int_equal(assert_held(b)->waiters, 0);
    assert_left(f);
}

static void a_short_wait_is_at_least_one_try(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "a", 1, 30000), *b = wait_with(f, "r", "b", 5, 30000), *c = wait_for(f, "c");
    fake_advance(f, 100);
    assert_int_equal(a->answers + b->answers, 0);
    done_held(f, "x", 30000);
    assert_int_equal(assert_held(a)->remaining_ms, 30000);
    assert_int_equal(assert_held(b)->token, 7);
    assert_int_equal(c->answers, 0);
    done_held(f, "x", 30000); /* c is the head now, and asked for itself */
}

static void nothing_ever_known_is_not_a_deadline(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "a", 100, 1000), *b = wait_with(f, "r", "b", 3600000, 1000);
    fake_advance(f, 949);
    assert_int_equal(a->answers + b->answers, 0);
    f->stats.connections_ready = 0;
    fake_advance(f, 1);
    fake_assert_error(a, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
    fake_assert_error(b, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
    fake_done(f, 0, ST_DATABASE_DOWN);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void a_grant_that_comes_too_late_is_given_back(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "a", 1500, 30000);
    done_held(f, "x", 1490);
    fake_advance(f, 1000);
    done_held(f, "x", 490);
    fake_advance(f, 490);
    assert_int_equal(f->n_items, 1);
    fake_advance(f, 10);
    assert_held(a);
    assert_true(a->taken); /* the try is made of its request */
    done_granted(f, 8);
    assert_given_back(f, 8);
    assert_int_equal(svc_in_flight(f->svc), 1);
    fake_done(f, 0, ST_FREED);
    assert_int_equal(f->n_items, 0);
    assert_int_equal(svc_in_flight(f->svc), 0);
    assert_int_equal(stats(f)->given_back, 1);
}

/* ---- callers that go ---- */

static void a_caller_that_is_gone_is_dropped_at_once(void **state)
{
    struct fake *f = *state;
    struct fake_call *a, *b;
    two_queued(f, &a, &b);
    fake_gone(a);
    assert_int_equal(a->answers, 1);
    assert_int_equal(stats(f)->waiters, 1);
    assert_int_equal(f->n_items, 0);
    fake_turn(f, "ns", "r");
    assert_string_equal(out(f)->in.acquire.request_id, "b");
    fake_gone(b); /* while it is tried for */
    assert_int_equal(b->answers, 1);
    done_granted(f, 9);
    assert_given_back(f, 9);
    fake_done(f, 0, ST_NOT_FREED); /* somebody repeated it */
    assert_int_equal(f->n_items, 0);
}

static void a_grant_for_one_who_went_goes_back_to_the_next(void **state)
{
    struct fake *f = *state;
    struct fake_call *a, *b;
    two_queued(f, &a, &b);
    fake_turn(f, "ns", "r");
    fake_gone(a);
    done_granted(f, 9);
    assert_given_back(f, 9);
    fake_done(f, 0, ST_FREED);
    fake_turn(f, "ns", "r"); /* as the store tells us, for we are on record */
    done_granted(f, 10);
    assert_granted(b, 10);
}

static void one_who_comes_again_gets_what_was_on_its_way(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = queued(f, "a");
    fake_turn(f, "ns", "r");
    fake_gone(a);
    struct fake_call *again = wait_for(f, "a");
    done_granted(f, 9);
    assert_granted(again, 9);
    assert_int_equal(f->n_items, 0);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void one_who_tried_once_and_went_gives_back_too(void **state)
{
    struct fake *f = *state;
    struct fake_call *once = wait_with(f, "r", "a", 0, 0);
    fake_gone(once);
    assert_int_equal(f->n_withdrawn, 1); /* but it had been sent */
    fake_advance(f, 30000);              /* nobody is impatient any more */
    assert_int_equal(once->answers, 0);
    done_granted(f, 4);
    assert_int_equal(once->answers, 1);
    assert_given_back(f, 4);
    fake_done(f, 0, ST_FREED);
    once = wait_with(f, "r", "a", 0, 0);
    fake_gone(once);
    fake_done(f, 0, ST_REPEATED); /* somebody was told of it before */
    assert_int_equal(once->answers, 1);
    assert_int_equal(f->n_items, 0);
    /* Of several, each. */
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *resources[] = {str("p"), str("q")};
    request.namespace_ = str("ns");
    request.holder = str("me");
    request.n_resources = 2;
    request.resources = resources;
    request.ttl_ms = 10000;
    once = fake_call(f, LEASE "Acquire", &request, 0);
    fake_gone(once);
    out(f)->out.acquire.tokens[0] = 1;
    out(f)->out.acquire.tokens[1] = 2;
    fake_done(f, 0, ST_GRANTED);
    assert_int_equal(f->n_items, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(f->items[i]->resource, resources[i]);
        assert_int_equal(f->items[i]->in.release.token, i + 1);
        assert_true(f->items[i]->in.release.unless_repeated);
    }
}

static void several_resources_stand_behind_those_who_wait(void **state)
{
    struct fake *f = *state;
    queued(f, "a");
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *resources[] = {str("free"), str("r")};
    request.namespace_ = str("ns");
    request.holder = str("me");
    request.n_resources = 2;
    request.resources = resources;
    request.ttl_ms = 10000;
    struct fake_call *call = fake_call(f, LEASE "Acquire", &request, 0);
    assert_false(out(f)->in.acquire.queued_each[0]);
    assert_true(out(f)->in.acquire.queued_each[1]);
    out(f)->out.acquire.which = 1;
    fake_done(f, 0, ST_HELD);
    assert_int_equal(assert_held(call)->waiters, 1);
    resources[1] = str("free, too");
    fake_call(f, LEASE "Acquire", &request, 0);
    assert_null(out(f)->in.acquire.queued_each);
}

/* ---- one waiter, several callers ---- */

static void callers_with_one_id_have_ends_of_their_own(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "id", 2000, 30000), *b = wait_with(f, "r", "id", 500, 30000);
    struct fake_call *c = wait_with(f, "r", "id", 8000, 30000);
    assert_int_equal(out(f)->in.acquire.wait_ms, 2000);
    done_held(f, "x", 30000);
    assert_int_equal(f->n_items, 0); /* no question: they are one */
    assert_int_equal(stats(f)->waiters, 1);
    assert_int_equal(stats(f)->callers, 3);
    fake_advance(f, 500);
    assert_held(b);
    fake_advance(f, 500);
    assert_int_equal(out(f)->in.acquire.wait_ms, 7000);
    fake_gone(a); /* by whose request it is tried */
    out(f)->out.acquire.ttl_ms = 10000;
    done_granted(f, 6);
    assert_int_equal(assert_granted(c, 6), 1000);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

/* ---- CancelWait ---- */

static void a_wait_is_cancelled(void **state)
{
    struct fake *f = *state;
    struct fake_call *a, *b;
    assert_false(was_waiting(cancel(f, "a")));
    two_queued(f, &a, &b);
    assert_true(was_waiting(cancel(f, "a")));
    assert_int_equal(assert_held(a)->token, 7);
    assert_false(was_waiting(cancel(f, "a")));
    assert_int_equal(b->answers, 0);
    assert_true(was_waiting(cancel(f, "b")));
    assert_held(b);
    assert_left(f);
    fake_assert_error(cancel(f, ""), HP_INVALID_ARGUMENT, HP_R_LIMIT);
}

static void cancelling_waits_for_a_try_that_is_on_its_way(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = queued(f, "a");
    fake_turn(f, "ns", "r");
    struct fake_call *one = cancel(f, "a"), *two = cancel(f, "a");
    assert_int_equal(one->answers + two->answers + a->answers, 0);
    done_granted(f, 9);
    assert_granted(a, 9); /* never touched */
    assert_false(was_waiting(one));
    assert_false(was_waiting(two));
    a = queued(f, "a");
    fake_turn(f, "ns", "r");
    one = cancel(f, "a");
    done_held(f, "x", 30000);
    assert_held(a);
    assert_true(was_waiting(one));
    assert_left(f);
    a = queued(f, "a");
    fake_turn(f, "ns", "r");
    one = cancel(f, "a");
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_assert_error(a, HP_UNKNOWN, HP_R_OUTCOME_LOST);
    fake_assert_error(one, HP_UNKNOWN, HP_R_OUTCOME_LOST);
    assert_left(f);
    a = queued(f, "a");
    fake_turn(f, "ns", "r");
    one = cancel(f, "a");
    fake_gone(a);
    done_granted(f, 10); /* for nobody */
    assert_true(was_waiting(one));
    assert_given_back(f, 10);
}

static void cancelling_has_an_end_too(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = queued(f, "a");
    fake_turn(f, "ns", "r");
    struct fake_call *one = cancel(f, "a");
    fake_advance(f, 29950);
    fake_assert_error(one, HP_UNKNOWN, HP_R_OUTCOME_LOST);
    done_granted(f, 9);
    assert_granted(a, 9);
}

static void one_id_may_wait_for_several_resources(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = queued(f, "id"), *b = wait_with(f, "other", "id", 60000, 120000);
    struct fake_call *one = cancel(f, "id"); /* a waits, b is being tried for */
    assert_held(a);
    assert_int_equal(one->answers, 0);
    assert_int_equal(f->n_items, 2); /* and a's line is left */
    f->items[0]->out.acquire.holder = "y";
    fake_done(f, 0, ST_HELD);
    assert_string_equal(assert_held(b)->holder, "y");
    assert_true(was_waiting(one));
}

/* ---- when there is no outcome ---- */

static void a_locked_row_is_waited_for_until_the_end(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "a", 2500, 30000);
    assert_int_equal(out(f)->patience_ms, f->now_ms + 1000);
    fake_advance(f, 1000);
    fake_done(f, 0, ST_BUSY);
    assert_int_equal(f->n_items, 0);
    fake_advance(f, 10);
    fake_advance(f, 990);
    fake_done(f, 0, ST_BUSY);
    fake_advance(f, 10);
    assert_int_equal(out(f)->patience_ms, 1002500);
    fake_advance(f, 490);
    assert_true(assert_held(a)->guarded);
    assert_string_equal(assert_held(a)->holder, "");
    fake_done(f, 0, ST_BUSY);
    assert_int_equal(f->n_items, 0);
    struct fake_call *brief = wait_with(f, "r", "b", 20, 30000);
    assert_int_equal(out(f)->patience_ms, f->now_ms + 20);
    fake_advance(f, 20);
    fake_done(f, 0, ST_BUSY);
    assert_true(assert_held(brief)->guarded);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void those_who_try_once_have_little_patience(void **state)
{
    struct fake *f = *state;
    struct fake_call *once = wait_with(f, "r", "a", 0, 0);
    assert_in_range(out(f)->patience_ms, f->now_ms + 1, f->now_ms + 100);
    fake_done(f, 0, ST_BUSY);
    assert_true(assert_held(once)->guarded);
}

static void without_a_database_it_is_tried_again_and_then_unavailable(void **state)
{
    struct fake *f = *state;
    struct fake_call *a, *b;
    two_queued(f, &a, &b);
    struct fake_call *c = wait_with(f, "r", "c", 1000, 30000);
    fake_done(f, 0, ST_DATABASE_DOWN); /* the question of c; there are no more until a try has an outcome */
    assert_int_equal(f->n_items, 0);
    fake_advance(f, 100);
    assert_string_equal(out(f)->in.acquire.request_id, "a");
    fake_done(f, 0, ST_TIMED_OUT);
    fake_advance(f, 100);
    fake_done(f, 0, ST_QUEUE_FULL);
    fake_advance(f, 100);
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_advance(f, 100); /* the same request_id again: then it is known */
    assert_string_equal(out(f)->in.acquire.request_id, "a");
    fake_advance(f, 600);
    assert_int_equal(c->answers, 1);
    fake_assert_error(c, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
    out(f)->out.acquire.token = 8;
    out(f)->out.acquire.ttl_ms = 5000;
    fake_done(f, 0, ST_REPEATED); /* it had been granted */
    assert_granted(a, 8);
    assert_int_equal(b->answers, 0);
}

static void an_end_after_a_lost_try_is_unknown(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "a", 1050, 30000);
    done_held(f, "x", 30000);
    fake_advance(f, 1000);
    fake_done(f, 0, ST_OUTCOME_LOST);
    fake_advance(f, 50);
    fake_assert_error(a, HP_UNKNOWN, HP_R_OUTCOME_LOST);
    assert_left(f);
}

static void what_was_known_long_ago_is_not_told_without_a_database(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_with(f, "r", "a", 5000, 30000);
    done_held(f, "x", 30000);
    fake_advance(f, 1000); /* a try that hangs */
    f->stats.connections_ready = 0;
    fake_advance(f, 4000);
    fake_assert_error(a, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
}

static void what_is_refused_for_good_ends_the_wait(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_for(f, "a"), *b = wait_for(f, "b"), *c = wait_for(f, "c");
    out(f)->out.acquire.min_ttl_ms = 20000;
    out(f)->out.acquire.max_ttl_ms = 30000;
    fake_done(f, 0, ST_TTL_BOUNDS);
    fake_assert_error(a, HP_INVALID_ARGUMENT, HP_R_LIMIT);
    assert_string_equal(a->status.field, "ttl_ms");
    assert_non_null(strstr(hp_status_get_meta(&a->status, "limit"), "20000 to 30000"));
    assert_string_equal(out(f)->in.acquire.request_id, "b"); /* tried for at once */
    assert_false(out(f)->in.acquire.queued);
    out(f)->out.acquire.limit = 3;
    fake_done(f, 0, ST_QUOTA);
    fake_assert_error(b, HP_RESOURCE_EXHAUSTED, HP_R_QUOTA);
    assert_true(b->status.retry_ms > 0);
    assert_string_equal(hp_status_get_meta(&b->status, "limit"), "3");
    struct fake_call *d = wait_for(f, "d");
    fake_done(f, 0, ST_NO_SUCH_NAMESPACE); /* for all */
    fake_assert_error(c, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE);
    fake_assert_error(d, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE);
    assert_int_equal(f->n_items, 0);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

/* ---- bounds ---- */

static void a_namespace_has_as_many_waiters_as_it_may(void **state)
{
    struct fake *f = *state;
    enum { LIMIT = 10000 };
    struct fake_call *first = wait_for(f, "a"), *last = NULL;
    out(f)->out.acquire.max_waiters = LIMIT;
    done_held(f, "x", 3600000);
    for (int i = 1; i < LIMIT; i++)
        last = wait_for(f, "");
    assert_int_equal(last->answers, 0);
    struct fake_call *beyond = wait_for(f, "one too many");
    fake_assert_error(beyond, HP_RESOURCE_EXHAUSTED, HP_R_QUOTA);
    assert_true(beyond->status.retry_ms > 0);
    assert_string_equal(hp_status_get_meta(&beyond->status, "limit"), "10000");
    assert_string_equal(hp_status_get_meta(&beyond->status, "namespace"), "ns");
    struct fake_call *merged = wait_for(f, "a"); /* no waiter more */
    assert_int_equal(first->answers + merged->answers, 0);
    assert_int_equal(stats(f)->waiters, LIMIT);
    fake_gone(last);
    assert_int_equal(wait_for(f, "")->answers, 0);
    fake_turn(f, "ns", "r"); /* the policy is changed: the next try tells */
    out(f)->out.acquire.max_waiters = LIMIT + 1;
    done_held(f, "x", 3600000);
    assert_int_equal(wait_for(f, "")->answers, 0);
    fake_assert_error(wait_for(f, ""), HP_RESOURCE_EXHAUSTED, HP_R_QUOTA);
}

static void those_beyond_a_limit_not_known_yet_are_refused_when_it_is(void **state)
{
    struct fake *f = *state;
    struct fake_call *calls[5];
    for (int i = 0; i < 5; i++)
        calls[i] = wait_for(f, "");
    struct fake_call *other = wait_with(f, "other", "o", 60000, 120000);
    assert_int_equal(f->n_items, 2);
    f->items[0]->out.acquire.max_waiters = 2;
    f->items[0]->out.acquire.holder = "x";
    f->items[0]->out.acquire.remaining_ms = 30000;
    fake_done(f, 0, ST_HELD);
    for (int i = 0; i < 5; i++)
        assert_int_equal(calls[i]->answers, i >= 2);
    fake_assert_error(other, HP_RESOURCE_EXHAUSTED, HP_R_QUOTA); /* the last to come */
    fake_assert_error(calls[4], HP_RESOURCE_EXHAUSTED, HP_R_QUOTA);
    assert_string_equal(out(f)->resource, "other");
    done_granted(f, 3);
    assert_int_equal(out(f)->kind, ST_RELEASE); /* that was too late */
}

static void the_server_has_a_bound_of_its_own(void **state)
{
    struct fake *f = *state;
    for (int i = 0; i < 11000; i++)
        wait_for(f, "");
    struct fake_call *beyond = wait_for(f, "");
    fake_assert_error(beyond, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
    assert_true(beyond->status.retry_ms > 0);
    assert_int_equal(f->n_items, 1);
}

/* ---- drain ---- */

static void a_drain_ends_the_waits(void **state)
{
    struct fake *f = *state;
    struct fake_call *a, *b;
    two_queued(f, &a, &b);
    struct fake_call *tried = wait_with(f, "other", "t", 60000, 120000), *behind = wait_with(f, "other", "u", 60000, 120000);
    svc_drain(f->svc);
    assert_held(a);
    assert_held(b);
    fake_assert_error(behind, HP_UNAVAILABLE, HP_R_DRAINING); /* nothing is known that could be told */
    assert_int_equal(tried->answers, 0);
    assert_int_equal(f->n_items, 2);
    fake_done(f, 0, ST_GRANTED); /* what is on its way is finished */
    assert_granted(tried, 0);
    assert_left(f);
}

static void a_try_at_the_time_of_a_drain_is_the_last(void **state)
{
    struct fake *f = *state;
    struct fake_call *a = wait_for(f, "a");
    svc_drain(f->svc);
    done_held(f, "x", 30000);
    assert_held(a);
    assert_left(f);
}

/* Each allocation of the contract's fails once, in turn. */
static void without_memory_a_wait_is_answered_all_the_same(void **state)
{
    struct fake *f = *state;
    char *name = calloc(1, 251); /* long, so that there is something to allocate */
    size_t failed = 0;
    memset(name, 'n', 250);
    for (int i = 1; i < 8; i++) {
        f->fail_alloc = i;
        struct fake_call *call = wait_with(f, name, name, 60000, 120000);
        failed += call->answers > 0;
        f->fail_alloc = 0;
        if (f->n_items)
            done_granted(f, i);
        assert_int_equal(call->answers, 1);
        assert_int_equal(svc_in_flight(f->svc), 0);
    }
    assert_true(failed > 0);
    free(name);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        T(what_is_free_is_granted_at_once),
        T(a_head_is_tried_for_when_the_lease_ends_and_once_a_second),
        T(what_is_free_but_not_to_be_had_is_waited_out_exactly),
        T(one_at_a_time_and_nobody_overtakes),
        T(a_repeat_needn_t_wait),
        T(a_hand_over_costs_one_acquire_however_many_wait),
        T(news_during_a_try_leads_to_another),
        T(a_release_here_is_noticed),
        T(a_turn_for_nobody_is_passed_on),
        T(who_comes_while_the_line_is_left_is_not_forgotten),
        T(a_wait_ends_with_what_is_known),
        T(a_short_wait_is_at_least_one_try),
        T(nothing_ever_known_is_not_a_deadline),
        T(a_grant_that_comes_too_late_is_given_back),
        T(a_caller_that_is_gone_is_dropped_at_once),
        T(a_grant_for_one_who_went_goes_back_to_the_next),
        T(one_who_comes_again_gets_what_was_on_its_way),
        T(one_who_tried_once_and_went_gives_back_too),
        T(several_resources_stand_behind_those_who_wait),
        T(callers_with_one_id_have_ends_of_their_own),
        T(a_wait_is_cancelled),
        T(cancelling_waits_for_a_try_that_is_on_its_way),
        T(cancelling_has_an_end_too),
        T(one_id_may_wait_for_several_resources),
        T(a_locked_row_is_waited_for_until_the_end),
        T(those_who_try_once_have_little_patience),
        T(without_a_database_it_is_tried_again_and_then_unavailable),
        T(an_end_after_a_lost_try_is_unknown),
        T(what_was_known_long_ago_is_not_told_without_a_database),
        T(what_is_refused_for_good_ends_the_wait),
        T(a_namespace_has_as_many_waiters_as_it_may),
        T(those_beyond_a_limit_not_known_yet_are_refused_when_it_is),
        T(the_server_has_a_bound_of_its_own),
        T(a_drain_ends_the_waits),
        T(a_try_at_the_time_of_a_drain_is_the_last),
        T(without_memory_a_wait_is_answered_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
