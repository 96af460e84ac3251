/* Waiting at the server: what is asked, how long a grant counts, what happens when the server goes silent, and giving up. */
#include "fake.h"

#include <string.h>

static const Holdfast__V1__AcquireRequest *acquire(struct fake *fake, size_t i)
{
    assert_string_equal(fake->calls[i].method, HFI_ACQUIRE);
    return (const Holdfast__V1__AcquireRequest *)fake_request(fake, i, &holdfast__v1__acquire_request__descriptor);
}

static const hf_acquire_options patient = {.resource = "r", .ttl_ms = 3000, .wait_ms = 20000, .request_id = "mine"};

static int64_t waited_ms, left_ms = 3000; /* what the server says */

static void serve_grant_late(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__AcquireResponse response = HOLDFAST__V1__ACQUIRE_RESPONSE__INIT;
    Holdfast__V1__Granted granted = HOLDFAST__V1__GRANTED__INIT;
    Holdfast__V1__Grant grant = HOLDFAST__V1__GRANT__INIT, *pointer = &grant;

    (void)call;
    grant.resource = (char *)"r";
    grant.token = 7;
    granted.n_grants = 1;
    granted.grants = &pointer;
    granted.ttl_ms = left_ms;
    granted.waited_ms = waited_ms;
    response.outcome_case = HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED;
    response.granted = &granted;
    fake_ok(fake, &response.base);
}

static void serve_not_yet(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_NOT_YET);
}

static void serve_lost(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__RenewResponse response = HOLDFAST__V1__RENEW_RESPONSE__INIT;
    Holdfast__V1__RenewResult item = HOLDFAST__V1__RENEW_RESULT__INIT, *pointer = &item;
    Holdfast__V1__Lost lost = HOLDFAST__V1__LOST__INIT;

    (void)call;
    lost.reason = HOLDFAST__V1__LOST__REASON__TAKEN_OVER;
    item.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST;
    item.lost = &lost;
    response.n_items = 1;
    response.items = &pointer;
    fake_ok(fake, &response.base);
}

/* ---- asking ---- */

static void the_server_does_the_waiting(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;

    (void)state;
    waited_ms = 8990;
    fake_push(fake, FAKE_ANSWER, 9000, serve_grant_late);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 1);
    assert_int_equal(acquire(fake, 0)->wait_ms, 20000);
    assert_true(fake->calls[0].timeout_ms >= 20200); /* the server's answer at the end of the wait has time to come */
    assert_int_equal(hf_lease_deadline_ms(lease), 1000000 + 8990 + 2850);
    assert_int_equal(fake_step_now(fake), 1000000 + 8990 + 1000); /* when it is renewed */
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_wait_ends_with_held(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;
    hf_held held;
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 20001, serve_held);
    fake_push(fake, FAKE_SILENT, 0, NULL); /* the reminder */
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, &held, &error), HF_HELD);
    assert_string_equal(error.reason, "HELD");
    assert_string_equal(held.holder, "other");
    assert_int_equal(fake->n_calls, 2);
    assert_in_range(fake->calls[1].at_ms, 1010000, 1012500);
    assert_int_equal(acquire(fake, 1)->wait_ms, 20000 - (fake->calls[1].at_ms - 1000000));
    fake_free(fake);
}

static void a_wait_that_ends_early_goes_on_for_the_rest(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;

    (void)state;
    waited_ms = 900;
    fake_push(fake, FAKE_ANSWER, 8000, serve_held); /* that server drains */
    fake_push(fake, FAKE_ANSWER, 1000, serve_grant_late);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 2);
    assert_string_equal(acquire(fake, 1)->request_id, "mine");
    assert_int_equal(acquire(fake, 1)->wait_ms, 20000 - (fake->calls[1].at_ms - 1000000));
    assert_in_range(fake->calls[1].at_ms, 1008001, 1008500);
    /* the first asking had no effect: the grant counts from the second */
    assert_int_equal(hf_lease_deadline_ms(lease), fake->calls[1].at_ms + 900 + 2850);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_server_that_cannot_wait_is_asked_again(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 1, serve_not_yet);
    for (int i = 0; i < 4; i++)
        fake_push(fake, FAKE_ANSWER, 1, serve_held);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 6);
    for (size_t i = 1; i < 6; i++)
        assert_int_equal(acquire(fake, i)->wait_ms, 0);
    assert_int_equal(hf_lease_deadline_ms(lease), fake->calls[5].at_ms + 2850);
    hf_lease_free(lease);
    fake_free(fake);
}

static void several_resources_are_asked_for_again(void **state)
{
    struct fake *fake = fake_new(NULL);
    const char *const names[] = {"r", "s"};
    const hf_acquire_options options = {.resources = names, .n_resources = 2, .wait_ms = 5000};
    hf_lease *lease = NULL;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 1, serve_held);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 2);
    assert_int_equal(acquire(fake, 0)->wait_ms, 0);
    hf_lease_free(lease);
    fake_free(fake);
}

static void others_are_not_held_up(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL, *other = fake_acquire(fake, "other", 3000);

    (void)state;
    waited_ms = 9000;
    fake_push(fake, FAKE_ANSWER, 9000, serve_grant_late);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->calls[0].envelope, 1);
    assert_int_equal(fake->calls[1].envelope, 2);
    hf_lease_free(lease);
    hf_lease_free(other);
    fake_free(fake);
}

/* ---- repeats, and how long their grants count ---- */

static void a_lost_answer_repeats_for_the_time_that_remains(void **state)
{
    struct fake *fake = fake_new(NULL);
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 30000, .wait_ms = 20000};
    hf_lease *lease = NULL;
    char id[64];

    (void)state;
    waited_ms = 3000;
    fake_push(fake, FAKE_RESET, 2000, NULL);
    fake_push(fake, FAKE_ANSWER, 3000, serve_grant);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 2);
    snprintf(id, sizeof(id), "%s", acquire(fake, 0)->request_id);
    assert_int_equal(strlen(id), 32);
    assert_string_equal(acquire(fake, 1)->request_id, id);
    assert_int_equal(acquire(fake, 1)->wait_ms, 20000 - (fake->calls[1].at_ms - 1000000));
    /* The server said that it waited 0 ms. Whatever that was counted from, the first sending is not later. */
    assert_int_equal(hf_lease_deadline_ms(lease), 1000000 + 30000 - 1500);
    hf_lease_free(lease);
    fake_free(fake);
}

/* Whatever a repeat's `waited_ms` counts from, its own receipt or the first one's, no more is believed than is true. */
static void a_repeat_never_overstates(void **state)
{
    (void)state;
    for (int merged = 0; merged < 2; merged++) {
        struct fake *fake = fake_new(NULL);
        const hf_acquire_options options = {.resource = "r", .ttl_ms = 60000, .wait_ms = 20000};
        hf_lease *lease = NULL;
        int64_t granted_at;
        left_ms = 60000;
        fake_push(fake, FAKE_RESET, 5000, NULL);
        waited_ms = merged ? 7000 : 1900; /* granted 7,000 ms after the first sending, received 100 ms after it was sent again */
        fake_push(fake, FAKE_ANSWER, 2500, serve_grant_late);
        assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
        granted_at = merged ? 1007000 : fake->calls[1].at_ms + 100 + 1900;
        left_ms = 3000;
        assert_int_equal(fake->n_calls, 2);
        assert_true(hf_lease_deadline_ms(lease) <= granted_at + 60000 - 3000);
        hf_lease_free(lease);
        fake_free(fake);
    }
}

static void a_grant_of_which_little_is_left_is_confirmed(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;

    (void)state;
    waited_ms = 500;
    fake_push(fake, FAKE_RESET, 10000, NULL); /* counted from here the grant would be past */
    fake_push(fake, FAKE_ANSWER, 500, serve_grant_late);
    fake_push(fake, FAKE_ANSWER, 30, NULL);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 3);
    assert_string_equal(fake->calls[2].method, HFI_RENEW);
    assert_int_equal(hf_lease_deadline_ms(lease), fake->calls[2].at_ms + 2850);
    assert_true(hf_lease_valid(lease));
    assert_int_equal(fake_step_now(fake), fake->calls[2].at_ms + 1000);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_grant_that_cannot_be_confirmed_is_as_long_as_it_was(void **state)
{
    static const fake_serve serves[] = {serve_lost, serve_unavailable};
    static const char *const reasons[] = {"TAKEN_OVER", "DEADLINE"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fake *fake = fake_new(NULL);
        hf_lease *lease = NULL;
        hf_error error;
        waited_ms = 500;
        fake_push(fake, FAKE_RESET, 10000, NULL);
        fake_push(fake, FAKE_ANSWER, 500, serve_grant_late);
        fake->serve = serves[i];
        assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, &error), HF_LOST);
        assert_string_equal(error.reason, reasons[i]);
        assert_null(lease);
        fake_free(fake);
    }
}

static void a_refused_try_takes_nothing_off_the_grant(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 2000, serve_unavailable);
    fake_push(fake, FAKE_ANSWER, 0, serve_grant);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 2);
    assert_int_equal(hf_lease_deadline_ms(lease), fake->calls[1].at_ms + 2850);
    hf_lease_free(lease);
    fake_free(fake);
}

/* The connection broke at the grant, and the server gave it back before the repeat came. */
static void a_grant_given_back_is_waited_for_anew(void **state)
{
    struct fake *fake = fake_new(NULL);
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 3000, .wait_ms = 20000};
    hf_lease *lease = NULL;

    (void)state;
    waited_ms = 1000;
    fake_push(fake, FAKE_RESET, 4000, NULL);
    fake_push(fake, FAKE_ANSWER, 10, serve_ended);
    fake_push(fake, FAKE_ANSWER, 1000, serve_grant_late);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 3);
    assert_int_equal(acquire(fake, 2)->wait_ms, 20000 - (fake->calls[2].at_ms - 1000000));
    assert_int_equal(hf_lease_deadline_ms(lease),
                     fake->calls[2].at_ms + 1000 + 2850); /* nothing of the earlier ones is taken off */
    hf_lease_free(lease);
    fake_free(fake);
}

/* ---- servers that say nothing ---- */

static void a_waiting_server_is_asked_whether_it_lives(void **state)
{
    struct fake *fake = fake_new(NULL);
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 3000, .wait_ms = 600000};
    hf_lease *lease = NULL;
    char id[64];

    (void)state;
    waited_ms = 400000;
    fake_push(fake, FAKE_ANSWER, 400000, serve_grant_late);
    for (int i = 0; i < 20; i++)
        fake_push(fake, FAKE_SILENT, 0, NULL); /* reminders: all of them are the one waiter */
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 6); /* after 10, 30, 70, 150 and 310 s, and up to a quarter more */
    snprintf(id, sizeof(id), "%s", acquire(fake, 0)->request_id);
    assert_string_equal(acquire(fake, 5)->request_id, id);
    assert_int_equal(acquire(fake, 5)->wait_ms, 600000 - (fake->calls[5].at_ms - 1000000));
    assert_in_range(fake->pings, 90, 100);
    /* the answer is the first try's, and counts from its sending in full */
    assert_int_equal(hf_lease_deadline_ms(lease), 1400000 + 2850);
    hf_lease_free(lease);
    fake_free(fake);
}

/* A message that is lost although the connection lives: of the request, or of its answer. */
static void what_was_lost_on_the_way_is_sent_again(void **state)
{
    static const enum fake_how ways[] = {FAKE_SILENT, FAKE_LOSE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fake *fake = fake_new(NULL);
        const hf_acquire_options options = {.resource = "r", .ttl_ms = 30000, .wait_ms = 600000};
        hf_lease *lease = NULL;
        fake_push(fake, ways[i], 0, serve_grant);
        assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
        assert_in_range(fake->now_ms, 1010000, 1012500);
        assert_int_equal(fake->calls[1].at_ms, fake->now_ms);
        assert_int_equal(acquire(fake, 1)->wait_ms, 1600000 - fake->now_ms);
        assert_int_equal(fake->client->mux.endpoints.all[0].failures, 0); /* it is not the server's fault */
        assert_int_equal(hf_lease_deadline_ms(lease), 1000000 + 28500);
        hf_lease_free(lease);
        fake_free(fake);
    }
}

/* What a reminder is answered doesn't end a wait that is well. */
static void a_refused_reminder_changes_nothing(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;

    (void)state;
    waited_ms = 15000;
    fake_push(fake, FAKE_ANSWER, 15000, serve_grant_late);
    fake_push(fake, FAKE_ANSWER, 1, serve_unavailable);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 2);
    assert_int_equal(hf_lease_deadline_ms(lease), 1015000 + 2850);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_wait_at_a_stopped_server_goes_on_at_the_next(void **state)
{
    struct fake *fake = fake_new(NULL);
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 30000, .wait_ms = 600000, .request_id = "mine"};
    hf_lease *lease = NULL;

    (void)state;
    fake->transport.n_endpoints = 2;
    fake->endpoints[0] = FAKE_STOPPED;
    fake_push(fake, FAKE_ANSWER, 9000, serve_grant);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake_count(fake, HFI_ACQUIRE), 2);
    assert_int_equal(fake->calls[1].endpoint, 1);
    assert_in_range(fake->calls[1].at_ms - 1000000, 5500, 5600);
    assert_string_equal(acquire(fake, 1)->request_id, "mine");
    assert_int_equal(acquire(fake, 1)->wait_ms, 600000 - (fake->calls[1].at_ms - 1000000));
    assert_true(hf_lease_valid(lease)); /* confirmed */
    hf_lease_free(lease);
    fake_free(fake);
}

static enum fake_endpoint away;

static void go_away(struct fake *fake)
{
    fake->endpoints[0] = away;
}

static void come_back(struct fake *fake)
{
    fake->endpoints[0] = FAKE_ALIVE;
}

static void a_wait_at_the_only_server_goes_on_when_it_is_back(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fake *fake = fake_new(NULL);
        const hf_acquire_options options = {.resource = "r", .ttl_ms = 3000, .wait_ms = 600000};
        hf_lease *lease = NULL;
        away = i ? FAKE_STOPPED : FAKE_GONE;
        waited_ms = 100;
        fake_push(fake, FAKE_RESET, 1000, NULL);
        fake_push(fake, FAKE_ANSWER, 100, serve_grant_late);
        fake_at(fake, 500, go_away);
        fake_at(fake, 120000, come_back);
        assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
        assert_in_range(fake->now_ms - 1000000, 120000, 135000);
        assert_true(fake->n_calls < 60);
        assert_true(hf_lease_valid(lease));
        hf_lease_free(lease);
        fake_free(fake);
    }
}

static void nobody_there_is_told_after_the_connect_timeout(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    fake->endpoints[0] = FAKE_GONE;
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, &error), HF_UNAVAILABLE);
    assert_string_equal(error.reason, "UNREACHABLE");
    assert_in_range(fake->now_ms - 1000000, 5000, 6000);
    fake_free(fake);
}

static void a_server_that_never_comes_back_leaves_it_unknown(void **state)
{
    const hf_client_options client = {.timeout_ms = 10000};
    struct fake *fake = fake_new(&client);
    hf_lease *lease = NULL;

    (void)state;
    away = FAKE_GONE;
    fake_push(fake, FAKE_RESET, 1000, NULL);
    fake_at(fake, 500, go_away);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_UNKNOWN);
    assert_in_range(fake->now_ms - 1000000, 28000, 30000); /* the wait and the timeout */
    fake_free(fake);
}

/* ---- giving up ---- */

static size_t cancels;
static bool was_waiting[8];
static bool answer_comes; /* the acquire is answered when its wait is cancelled */

static void serve_cancel(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__CancelWaitResponse response = HOLDFAST__V1__CANCEL_WAIT_RESPONSE__INIT;

    if (strcmp(call->method, HFI_CANCEL_WAIT) != 0) {
        serve_any(fake, call);
        return;
    }
    response.was_waiting = was_waiting[cancels++];
    if (response.was_waiting && answer_comes)
        fake_hurry(fake);
    fake_ok(fake, &response.base);
}

static void cancel_it(struct fake *fake)
{
    assert_int_equal(hf_acquire_cancel(fake->client, "another", NULL), HF_NOT_FOUND);
    assert_int_equal(hf_acquire_cancel(fake->client, "mine", NULL), HF_OK);
}

static struct fake *fresh(int64_t cancel_after_ms)
{
    struct fake *fake = fake_new(NULL);

    cancels = 0;
    memset(was_waiting, 0, sizeof(was_waiting));
    answer_comes = true;
    fake->serve = serve_cancel;
    fake_at(fake, cancel_after_ms, cancel_it);
    return fake;
}

static void a_cancelled_wait_is_taken_away_from_the_server(void **state)
{
    struct fake *fake = fresh(7000);
    const Holdfast__V1__CancelWaitRequest *request;
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    fake->transport.n_endpoints = 2;
    was_waiting[0] = true;
    fake_push(fake, FAKE_ANSWER, 20001, serve_held);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, &error), HF_HELD);
    assert_string_equal(error.reason, "CANCELLED");
    assert_int_equal(fake->now_ms, 1007000);
    assert_int_equal(fake->n_calls, 2);
    assert_string_equal(fake->calls[1].method, HFI_CANCEL_WAIT);
    assert_int_equal(fake->calls[1].endpoint, fake->calls[0].endpoint);
    request = (const Holdfast__V1__CancelWaitRequest *)fake_request(fake, 1, &holdfast__v1__cancel_wait_request__descriptor);
    assert_string_equal(request->request_id, "mine");
    assert_string_equal(request->namespace_, "default");
    assert_int_equal(hf_acquire_cancel(fake->client, "mine", &error), HF_NOT_FOUND);
    assert_string_equal(error.reason, "NOT_WAITING");
    fake_free(fake);
}

static void a_grant_may_be_quicker_than_its_cancelling(void **state)
{
    struct fake *fake = fresh(7000);
    hf_lease *lease = NULL;

    (void)state;
    waited_ms = 7000;
    fake_push(fake, FAKE_ANSWER, 7010, serve_grant_late);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_OK);
    assert_true(hf_lease_valid(lease));
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_cancelling_that_comes_too_early_is_sent_again(void **state)
{
    struct fake *fake = fresh(0);
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    was_waiting[2] = true;
    fake_push(fake, FAKE_ANSWER, 20001, serve_held);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, &error), HF_HELD);
    assert_string_equal(error.reason, "CANCELLED");
    assert_int_equal(fake_count(fake, HFI_CANCEL_WAIT), 3);
    assert_int_equal(fake->now_ms, 1000200);
    fake_free(fake);
}

static void the_word_that_it_waited_is_enough(void **state)
{
    struct fake *fake = fresh(7000);
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    answer_comes = false;
    was_waiting[0] = true;
    fake_push(fake, FAKE_LOSE, 0, serve_held);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, &error), HF_HELD);
    assert_string_equal(error.reason, "CANCELLED");
    assert_int_equal(fake->now_ms, 1008000);
    fake_free(fake);
}

static void a_cancelling_that_nobody_hears_leaves_it_unknown(void **state)
{
    struct fake *fake = fresh(1000);
    hf_lease *lease = NULL;

    (void)state;
    fake->endpoints[0] = FAKE_STOPPED;
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, NULL), HF_UNKNOWN);
    assert_int_equal(fake->now_ms, 1002000);
    fake_free(fake);
}

static void a_pause_is_cancelled_at_once(void **state)
{
    struct fake *fake = fresh(20);
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 1, serve_not_yet);
    fake_push(fake, FAKE_ANSWER, 1, serve_held);
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, &error), HF_HELD);
    assert_string_equal(error.reason, "CANCELLED");
    assert_int_equal(fake->now_ms, 1000020);
    assert_int_equal(fake->n_calls, 2);
    fake_free(fake);
}

static void a_cancelled_wait_that_reached_nobody_had_no_effect(void **state)
{
    struct fake *fake = fresh(1000);
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    fake->endpoints[0] = FAKE_GONE;
    assert_int_equal(hf_acquire(fake->client, &patient, &lease, NULL, &error), HF_HELD);
    assert_string_equal(error.reason, "CANCELLED");
    assert_in_range(fake->now_ms, 1001000, 1001300);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_server_does_the_waiting),
        cmocka_unit_test(a_wait_ends_with_held),
        cmocka_unit_test(a_wait_that_ends_early_goes_on_for_the_rest),
        cmocka_unit_test(a_server_that_cannot_wait_is_asked_again),
        cmocka_unit_test(several_resources_are_asked_for_again),
        cmocka_unit_test(others_are_not_held_up),
        cmocka_unit_test(a_lost_answer_repeats_for_the_time_that_remains),
        cmocka_unit_test(a_repeat_never_overstates),
        cmocka_unit_test(a_grant_of_which_little_is_left_is_confirmed),
        cmocka_unit_test(a_grant_that_cannot_be_confirmed_is_as_long_as_it_was),
        cmocka_unit_test(a_refused_try_takes_nothing_off_the_grant),
        cmocka_unit_test(a_grant_given_back_is_waited_for_anew),
        cmocka_unit_test(a_waiting_server_is_asked_whether_it_lives),
        cmocka_unit_test(what_was_lost_on_the_way_is_sent_again),
        cmocka_unit_test(a_refused_reminder_changes_nothing),
        cmocka_unit_test(a_wait_at_a_stopped_server_goes_on_at_the_next),
        cmocka_unit_test(a_wait_at_the_only_server_goes_on_when_it_is_back),
        cmocka_unit_test(nobody_there_is_told_after_the_connect_timeout),
        cmocka_unit_test(a_server_that_never_comes_back_leaves_it_unknown),
        cmocka_unit_test(a_cancelled_wait_is_taken_away_from_the_server),
        cmocka_unit_test(a_grant_may_be_quicker_than_its_cancelling),
        cmocka_unit_test(a_cancelling_that_comes_too_early_is_sent_again),
        cmocka_unit_test(the_word_that_it_waited_is_enough),
        cmocka_unit_test(a_cancelling_that_nobody_hears_leaves_it_unknown),
        cmocka_unit_test(a_pause_is_cancelled_at_once),
        cmocka_unit_test(a_cancelled_wait_that_reached_nobody_had_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
