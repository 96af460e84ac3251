/* Leases over time: acquiring, renewing in the background, losing (P7). */
#include "fake.h"

#include <string.h>

static int told;
static const char *told_reason;

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    told++;
    told_reason = reason;
}

static const hf_client_options telling = {.on_loss = on_loss};

static struct fake *fresh(void)
{
    told = 0;
    told_reason = NULL;
    return fake_new(&telling);
}

static const Holdfast__V1__RenewRequest *renewal(struct fake *fake, size_t i)
{
    assert_string_equal(fake->calls[i].method, HFI_RENEW);
    return (const Holdfast__V1__RenewRequest *)fake_request(fake, i, &holdfast__v1__renew_request__descriptor);
}

static void serve_items(struct fake *fake, const Holdfast__V1__Call *call, Holdfast__V1__Lost__Reason reason, const char *error)
{
    struct hp_status status;
    const Holdfast__V1__RenewRequest *request = (const Holdfast__V1__RenewRequest *)hp_unpack(
        fake->arena, &holdfast__v1__renew_request__descriptor, call->payload.data, call->payload.len, &status);
    Holdfast__V1__RenewResponse response = HOLDFAST__V1__RENEW_RESPONSE__INIT;
    Holdfast__V1__RenewResult item = HOLDFAST__V1__RENEW_RESULT__INIT;
    Holdfast__V1__Lost lost = HOLDFAST__V1__LOST__INIT;
    Holdfast__V1__ItemError failed = HOLDFAST__V1__ITEM_ERROR__INIT;

    assert_non_null(request);
    lost.reason = reason;
    failed.code = HP_UNAVAILABLE;
    failed.reason = (char *)(uintptr_t)(error ? error : "");
    item.outcome_case = error ? HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR : HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST;
    if (error)
        item.error = &failed;
    else
        item.lost = &lost;
    response.n_items = request->n_items;
    response.items = hp_alloc_array(fake->arena, request->n_items, sizeof(Holdfast__V1__RenewResult *));
    for (size_t i = 0; i < request->n_items; i++)
        response.items[i] = &item;
    fake_ok(fake, &response.base);
}

static void serve_taken_over(struct fake *fake, const Holdfast__V1__Call *call)
{
    serve_items(fake, call, HOLDFAST__V1__LOST__REASON__TAKEN_OVER, NULL);
}

static void serve_busy_item(struct fake *fake, const Holdfast__V1__Call *call)
{
    serve_items(fake, call, 0, "BUSY");
}

static void serve_unexpected(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_INTERNAL);
}

/* ---- acquiring ---- */

static void a_grant_gives_a_lease(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 40, NULL);
    lease = fake_acquire(fake, "r", 3000);
    assert_true(hf_lease_valid(lease));
    assert_null(hf_lease_loss(lease));
    assert_int_equal(hf_lease_token(lease), 7);
    assert_int_equal(hf_lease_token_of(lease, "r"), 7);
    assert_int_equal(hf_lease_token_of(lease, "s"), 0);
    assert_string_equal(hf_lease_resource(lease, 0), "r");
    assert_null(hf_lease_resource(lease, 1));
    assert_int_equal(hf_lease_deadline_ms(lease), 1000000 + 3000 - 150);
    assert_int_equal(hf_lease_remaining_ms(lease), 3000 - 150 - 40);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_repeated_grant_counts_from_the_first_sending(void **state)
{
    struct fake *fake = fresh();
    const Holdfast__V1__AcquireRequest *request;
    char first_id[64];
    hf_lease *lease;

    (void)state;
    fake_push(fake, FAKE_RESET, 500, NULL);
    lease = fake_acquire(fake, "r", 3000);
    assert_int_equal(fake_count(fake, HFI_ACQUIRE), 2);
    assert_true(fake->now_ms >= 1000500);
    assert_int_equal(hf_lease_deadline_ms(lease), 1000000 + 3000 - 150);
    request = (const Holdfast__V1__AcquireRequest *)fake_request(fake, 0, &holdfast__v1__acquire_request__descriptor);
    snprintf(first_id, sizeof(first_id), "%s", request->request_id);
    assert_int_equal(strlen(first_id), 32);
    request = (const Holdfast__V1__AcquireRequest *)fake_request(fake, 1, &holdfast__v1__acquire_request__descriptor);
    assert_string_equal(request->request_id, first_id);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_grant_answered_past_its_deadline_is_lost(void **state)
{
    struct fake *fake = fresh();
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 500};
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 480, NULL);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    assert_null(lease);
    fake_tell(fake);
    assert_int_equal(told, 0);
    fake_free(fake);
}

static void held_tells_by_whom(void **state)
{
    struct fake *fake = fresh();
    const hf_acquire_options options = {.resource = "r"};
    hf_lease *lease = NULL;
    hf_held held;
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_held);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, &held, &error), HF_HELD);
    assert_string_equal(held.holder, "other");
    assert_int_equal(held.token, 3);
    assert_non_null(strstr(error.message, "other"));
    assert_int_equal(fake->n_calls, 1);
    fake_free(fake);
}

static void waiting_asks_again_until_granted_or_too_late(void **state)
{
    struct fake *fake = fresh();
    hf_acquire_options options = {.resource = "r", .wait_ms = 5000, .ttl_ms = 3000};
    hf_lease *lease = NULL;

    (void)state;
    for (int i = 0; i < 4; i++)
        fake_push(fake, FAKE_ANSWER, 1, serve_held);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 5);
    /* counted from the asking that was granted, not from the first that was refused */
    assert_int_equal(hf_lease_deadline_ms(lease), fake->calls[4].at_ms + 2850);
    hf_lease_free(lease);

    options.wait_ms = 2000;
    fake->serve = serve_held;
    const int64_t start = fake->now_ms;
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_HELD);
    assert_in_range(fake->now_ms - start, 2000, 2010);
    fake_free(fake);
}

static void an_ended_grant_is_asked_for_anew_only_under_our_own_id(void **state)
{
    struct fake *fake = fresh();
    hf_acquire_options options = {.resource = "r"};
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    char first_id[64];

    fake_push(fake, FAKE_ANSWER, 0, serve_ended);
    fake_push(fake, FAKE_ANSWER, 0, serve_ended);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(fake->n_calls, 3);
    snprintf(first_id, sizeof(first_id), "%s",
             ((const Holdfast__V1__AcquireRequest *)fake_request(fake, 0, &holdfast__v1__acquire_request__descriptor))->request_id);
    assert_string_not_equal(
        ((const Holdfast__V1__AcquireRequest *)fake_request(fake, 2, &holdfast__v1__acquire_request__descriptor))->request_id,
        first_id);
    hf_lease_free(lease);
    for (int i = 0; i < 6; i++) /* but not for ever */
        fake_push(fake, FAKE_ANSWER, 0, serve_ended);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "ENDED");
    options.request_id = "mine";
    fake_push(fake, FAKE_ANSWER, 0, serve_ended);
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "ENDED");
    fake_free(fake);
}

static void bad_options_are_refused_here(void **state)
{
    struct fake *fake = fresh();
    const char *const names[] = {"a", NULL};
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    assert_int_equal(hf_acquire(fake->client, &(hf_acquire_options){0}, &lease, NULL, &error), HF_INVALID);
    assert_string_equal(error.field, "resource");
    assert_int_equal(hf_acquire(fake->client, &(hf_acquire_options){.resources = names, .n_resources = 17}, &lease, NULL, &error),
                     HF_INVALID);
    assert_int_equal(hf_acquire(fake->client, &(hf_acquire_options){.resources = names, .n_resources = 2}, &lease, NULL, &error),
                     HF_INVALID);
    assert_int_equal(hf_acquire(fake->client, &(hf_acquire_options){.resource = "r", .wait_ms = -1}, &lease, NULL, &error),
                     HF_INVALID);
    assert_int_equal(hf_acquire(fake->client, NULL, &lease, NULL, NULL), HF_INVALID);
    assert_int_equal(fake->n_calls, 0);
    fake_free(fake);
}

/* ---- renewal ---- */

static void a_third_of_the_ttl_renews(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    fake_live(fake, 999);
    assert_int_equal(fake_count(fake, HFI_RENEW), 0);
    fake_push(fake, FAKE_ANSWER, 30, NULL);
    fake_live(fake, 100);
    assert_int_equal(fake_count(fake, HFI_RENEW), 1);
    assert_int_equal(fake->calls[1].at_ms, 1001000);
    assert_int_equal(renewal(fake, 1)->ttl_ms, 3000);
    assert_int_equal(hf_lease_deadline_ms(lease), 1001000 + 3000 - 150); /* from its sending, not from its answer */
    fake_live(fake, 60000);
    assert_int_equal(fake_count(fake, HFI_RENEW), 61);
    assert_true(hf_lease_valid(lease));
    hf_lease_free(lease);
    fake_live(fake, 60000);
    assert_int_equal(fake_count(fake, HFI_RENEW), 61);
    fake_free(fake);
}

static void many_leases_go_in_calls_of_1000(void **state)
{
    enum { N = 2500 };
    static hf_lease *leases[N];
    struct fake *fake = fresh();
    char name[32];

    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        leases[i] = fake_acquire(fake, name, 30000);
        if (i % 25 == 0)
            fake_pass(fake, 1); /* they don't all begin at once */
    }
    fake_live(fake, 10000);
    assert_int_equal(fake_count(fake, HFI_RENEW), 3);
    assert_int_equal(renewal(fake, N)->n_items, 1000);
    assert_int_equal(renewal(fake, N + 1)->n_items, 1000);
    assert_int_equal(renewal(fake, N + 2)->n_items, 500);
    assert_int_equal(fake->calls[N].at_ms, fake->calls[N + 2].at_ms);
    fake->clock_reads = 0;
    assert_int_equal(fake_step_now(fake), fake->calls[N].at_ms + 10000);
    assert_true(fake->clock_reads < 10); /* no lease is looked at before its time */
    for (int i = 0; i < N; i++) {
        assert_int_equal(hf_lease_deadline_ms(leases[i]), fake->calls[N].at_ms + 28500);
        hf_lease_free(leases[i]);
    }
    fake_free(fake);
}

/* Never shortened, so what remains of the old TTL goes down to the new one, renewal by renewal. */
static int64_t cut_until_ms;
static void serve_cut(struct fake *fake, const Holdfast__V1__Call *call)
{
    enum { CUT_TO_MS = 6000 };
    if (cut_until_ms < fake->now_ms + CUT_TO_MS)
        cut_until_ms = fake->now_ms + CUT_TO_MS;
    serve_left(fake, call, cut_until_ms - fake->now_ms);
}

static void what_a_lowered_limit_leaves_is_renewed_in_time(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 30000);

    (void)state;
    cut_until_ms = fake->now_ms + 30000;
    fake->serve = serve_cut;
    fake_live(fake, 120000);
    assert_true(hf_lease_valid(lease));
    assert_in_range(fake_count(fake, HFI_RENEW), 50, 70); /* every 2 s in the end, and so often only then */
    hf_lease_free(lease);
    fake_free(fake);
}

static void different_ttls_are_different_calls(void **state)
{
    struct fake *fake = fresh();
    hf_lease *a = fake_acquire(fake, "a", 3000), *b = fake_acquire(fake, "b", 3100), *c = fake_acquire(fake, "c", 3000);

    (void)state;
    fake_live(fake, 1000);
    assert_int_equal(fake_count(fake, HFI_RENEW), 2); /* together all the same: the second was due soon */
    assert_int_equal(renewal(fake, 3)->n_items, 2);
    assert_int_equal(renewal(fake, 3)->ttl_ms, 3000);
    assert_int_equal(renewal(fake, 4)->ttl_ms, 3100);
    hf_lease_free(a);
    hf_lease_free(b);
    hf_lease_free(c);
    fake_free(fake);
}

static void one_resource_twice_never_goes_in_one_call(void **state)
{
    struct fake *fake = fresh();
    hf_lease *older = fake_acquire(fake, "r", 3000), *newer = fake_acquire(fake, "r", 3000);

    (void)state;
    fake_live(fake, 1000);
    assert_int_equal(fake_count(fake, HFI_RENEW), 2);
    assert_int_equal(renewal(fake, 2)->n_items, 1);
    assert_int_equal(renewal(fake, 3)->n_items, 1);
    hf_lease_free(older);
    hf_lease_free(newer);
    fake_free(fake);
}

static void several_resources_stay_together(void **state)
{
    struct fake *fake = fresh();
    const char *const names[] = {"a", "b", "c"};
    const hf_acquire_options options = {.resources = names, .n_resources = 3, .ttl_ms = 3000};
    hf_lease *lease = NULL;

    (void)state;
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    assert_int_equal(hf_lease_count(lease), 3);
    assert_int_equal(hf_lease_token_of(lease, "c"), 9);
    fake_live(fake, 1000);
    assert_int_equal(renewal(fake, 1)->n_items, 3);
    fake->serve = serve_taken_over;
    fake_live(fake, 1000);
    assert_false(hf_lease_valid(lease));
    fake_tell(fake);
    assert_int_equal(told, 1);
    hf_lease_free(lease);
    fake_free(fake);
}

static void trouble_is_retried_and_the_lease_kept(void **state)
{
    static const fake_serve troubles[] = {serve_unavailable, serve_lost_reply, serve_busy_item, serve_unexpected};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct fake *fake = fresh();
        hf_lease *lease = fake_acquire(fake, "r", 3000);
        fake->serve = troubles[i];
        fake_live(fake, 1800); /* 60 % of the TTL */
        assert_true(hf_lease_valid(lease));
        assert_true(fake_count(fake, HFI_RENEW) > 3);
        assert_true(fake_count(fake, HFI_RENEW) < 40);
        fake->serve = serve_any;
        fake_live(fake, 10000);
        assert_true(hf_lease_valid(lease));
        fake_tell(fake);
        assert_int_equal(told, 0);
        hf_lease_free(lease);
        fake_free(fake);
    }
}

static void no_renewal_means_none(void **state)
{
    struct fake *fake = fresh();
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 3000, .no_renewal = true};
    hf_lease *lease = NULL;

    (void)state;
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    fake_live(fake, 2000);
    assert_int_equal(hf_renew_now(lease, NULL), HF_OK);
    assert_int_equal(hf_lease_deadline_ms(lease), 1002000 + 2850);
    fake_live(fake, 2849);
    assert_true(hf_lease_valid(lease));
    fake_live(fake, 1);
    assert_int_equal(fake_count(fake, HFI_RENEW), 1);
    fake_tell(fake);
    assert_string_equal(told_reason, "DEADLINE");
    hf_lease_free(lease);
    fake_free(fake);
}

/* ---- losing ---- */

static void unanswered_renewals_end_it_at_the_deadline(void **state)
{
    static const enum fake_how hows[] = {FAKE_LOSE, FAKE_UNREACHABLE, FAKE_RESET};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct fake *fake = fresh();
        hf_lease *lease = fake_acquire(fake, "r", 3000);
        int64_t deadline;
        fake_live(fake, 2500); /* two good ones, at 1,000 and 2,000 */
        deadline = hf_lease_deadline_ms(lease);
        assert_int_equal(deadline, 1002000 + 2850);
        for (int j = 0; j < 64; j++)
            fake_push(fake, hows[i], 20, NULL);
        fake_live(fake, deadline - 1 - fake->now_ms);
        assert_true(hf_lease_valid(lease));
        fake_tell(fake);
        assert_int_equal(told, 0);
        fake_live(fake, 1);
        fake_tell(fake); /* without anybody having asked */
        assert_int_equal(told, 1);
        assert_string_equal(told_reason, "DEADLINE");
        assert_false(hf_lease_valid(lease));
        assert_string_equal(hf_lease_loss(lease), "DEADLINE");
        assert_int_equal(hf_lease_remaining_ms(lease), 0);
        fake_live(fake, 10000);
        fake_tell(fake);
        assert_int_equal(told, 1);
        hf_lease_free(lease);
        fake_free(fake);
    }
}

static void a_definite_lost_ends_it_at_once(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 10, serve_taken_over);
    fake_live(fake, 1011);
    assert_false(hf_lease_valid(lease));
    assert_string_equal(hf_lease_loss(lease), "TAKEN_OVER");
    fake_tell(fake);
    assert_int_equal(told, 1);
    fake_live(fake, 10000);
    assert_int_equal(fake_count(fake, HFI_RENEW), 1); /* never retried */
    fake_tell(fake);
    assert_int_equal(told, 1);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_late_good_answer_revives_nothing(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    /* answered just at the deadline of 2,850, when its own sum would reach to 3,850 */
    fake_push(fake, FAKE_ANSWER, 1849, NULL);
    for (int j = 0; j < 63; j++)
        fake_push(fake, FAKE_LOSE, 0, NULL);
    fake_live(fake, 1500);
    fake_pass(fake, 1350); /* the thread is kept from running; the answer comes in time, but is seen too late */
    fake_live(fake, 1);
    assert_false(hf_lease_valid(lease));
    fake_live(fake, 1000);
    assert_string_equal(hf_lease_loss(lease), "DEADLINE");
    hf_lease_free(lease);
    fake_free(fake);
}

static void an_overtaken_renewal_still_counts_if_it_comes_in_time(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 1700, NULL); /* sent at 1,000, answered at 2,700 */
    for (int j = 0; j < 63; j++)
        fake_push(fake, FAKE_LOSE, 0, NULL);
    fake_live(fake, 2710);
    assert_true(fake_count(fake, HFI_RENEW) > 1); /* others were sent meanwhile */
    assert_int_equal(hf_lease_deadline_ms(lease), 1001000 + 2850);
    assert_true(hf_lease_valid(lease));
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_suspend_is_noticed_before_anything_is_sent(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);
    hf_error error;

    (void)state;
    fake_live(fake, 500);
    fake_pass(fake, 3600000); /* CLOCK_BOOTTIME went on meanwhile */
    assert_int_equal(hf_write(lease, NULL, "late", 4, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    assert_int_equal(fake_step_now(fake), HFI_NEVER);
    assert_int_equal(fake->n_calls, 1); /* neither the write nor a renewal */
    fake_tell(fake);
    assert_int_equal(told, 1);
    hf_lease_free(lease);
    fake_free(fake);
}

static void releasing_is_no_loss(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);
    hf_error error;

    (void)state;
    assert_int_equal(hf_release(lease, &error), HF_OK);
    assert_false(hf_lease_valid(lease));
    assert_string_equal(hf_lease_loss(lease), "RELEASED");
    assert_int_equal(hf_write(lease, NULL, "x", 1, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "RELEASED");
    assert_int_equal(hf_release(lease, &error), HF_LOST);
    fake_live(fake, 10000);
    fake_tell(fake);
    assert_int_equal(told, 0);
    assert_int_equal(fake->n_calls, 2);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_release_meets_a_renewal_in_flight(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 500, serve_taken_over);
    fake_live(fake, 1001);
    assert_int_equal(hf_release(lease, NULL), HF_OK);
    hf_lease_free(lease); /* the renewal still refers to it */
    fake_live(fake, 1000);
    fake_tell(fake);
    assert_int_equal(told, 0);
    fake_free(fake);
}

static void serve_ended_before(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__ReleaseResponse response = HOLDFAST__V1__RELEASE_RESPONSE__INIT;
    Holdfast__V1__ReleaseResult item = HOLDFAST__V1__RELEASE_RESULT__INIT, *pointers[] = {&item};

    (void)call;
    response.n_items = 1;
    response.items = pointers;
    fake_ok(fake, &response.base);
}

static void serve_database_down(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__ReleaseResponse response = HOLDFAST__V1__RELEASE_RESPONSE__INIT;
    Holdfast__V1__ReleaseResult item = HOLDFAST__V1__RELEASE_RESULT__INIT, *pointers[] = {&item};
    Holdfast__V1__ItemError down = HOLDFAST__V1__ITEM_ERROR__INIT;

    (void)call;
    down.code = HP_UNAVAILABLE;
    down.reason = (char *)"DATABASE_DOWN";
    item.error = &down;
    response.n_items = 1;
    response.items = pointers;
    fake_ok(fake, &response.base);
}

/* The first try freed it, and somebody else was faster than the second: no reason to cry that it had been lost. */
static void a_release_whose_answer_was_lost_may_have_worked(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_RESET, 10, NULL);
    fake_push(fake, FAKE_ANSWER, 0, serve_ended_before);
    assert_int_equal(hf_release(lease, &error), HF_UNKNOWN);
    assert_string_equal(error.reason, "OUTCOME_LOST");
    hf_lease_free(lease);
    lease = fake_acquire(fake, "s", 3000);
    fake_push(fake, FAKE_RESET, 10, NULL);
    fake_push(fake, FAKE_ANSWER, 0, serve_database_down);
    assert_int_equal(hf_release(lease, &error), HF_UNKNOWN);
    assert_string_equal(error.reason, "OUTCOME_LOST");
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_release_that_was_answered_at_once_is_believed(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_ended_before);
    assert_int_equal(hf_release(lease, &error), HF_LOST);
    assert_string_equal(error.reason, "EXPIRED");
    hf_lease_free(lease);
    lease = fake_acquire(fake, "s", 3000);
    fake_push(fake, FAKE_ANSWER, 0, serve_database_down);
    assert_int_equal(hf_release(lease, &error), HF_UNAVAILABLE);
    assert_string_equal(error.reason, "DATABASE_DOWN");
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_release_of_a_lost_lease_sends_nothing(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    fake_pass(fake, 2850);
    assert_int_equal(hf_release(lease, NULL), HF_LOST);
    assert_int_equal(fake->n_calls, 1);
    fake_tell(fake);
    assert_int_equal(told, 1);
    hf_lease_free(lease);
    fake_free(fake);
}

static void a_freed_lease_is_not_told(void **state)
{
    struct fake *fake = fresh();
    hf_lease *a = fake_acquire(fake, "a", 3000), *b = fake_acquire(fake, "b", 3000), *c = fake_acquire(fake, "c", 3000);

    (void)state;
    fake_pass(fake, 2850);
    fake_step_now(fake); /* all three queued */
    hf_lease_free(b);
    fake_tell(fake);
    assert_int_equal(told, 2);
    hf_lease_free(a);
    hf_lease_free(c);
    fake_free(fake);
}

static void free_in_callback(hf_lease *lease, const char *reason, void *arg)
{
    (void)reason;
    told++;
    *(hf_lease **)arg = NULL;
    hf_lease_free(lease);
}

static void a_callback_may_free_its_lease(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = NULL;
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 3000, .on_loss = free_in_callback, .on_loss_arg = &lease};

    (void)state;
    assert_int_equal(hf_acquire(fake->client, &options, &lease, NULL, NULL), HF_OK);
    fake_live(fake, 500);
    fake_pass(fake, 5000);
    fake_step_now(fake);
    fake_tell(fake);
    assert_int_equal(told, 1); /* its own, not the client's */
    assert_null(lease);
    fake_free(fake);
}

static void leases_left_over_go_with_the_client(void **state)
{
    struct fake *fake = fresh();

    (void)state;
    (void)fake_acquire(fake, "a", 3000);
    (void)fake_acquire(fake, "b", 3000);
    fake_push(fake, FAKE_LOSE, 0, NULL);
    fake_live(fake, 1000); /* with a renewal in flight */
    fake_pass(fake, 4000);
    fake_step_now(fake); /* and losses not yet told */
    fake_free(fake);
    assert_int_equal(told, 0);
}

static void an_adopted_lease_is_renewed_first(void **state)
{
    struct fake *fake = fresh();
    const hf_adopt_options options = {.resource = "r", .token = 42, .ttl_ms = 3000, .last_write_seq = 9};
    hf_lease *lease = NULL;
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 30, NULL);
    assert_int_equal(hf_adopt(fake->client, &options, &lease, &error), HF_OK);
    assert_int_equal(hf_lease_token(lease), 42);
    assert_int_equal(hf_lease_deadline_ms(lease), 1000000 + 2850);
    assert_int_equal(hf_write(lease, NULL, "x", 1, NULL, NULL), HF_OK);
    assert_int_equal(
        ((const Holdfast__V1__WriteRequest *)fake_request(fake, 1, &holdfast__v1__write_request__descriptor))->write_seq, 10);
    fake_live(fake, 30000);
    assert_true(hf_lease_valid(lease));
    hf_lease_free(lease);

    fake_push(fake, FAKE_ANSWER, 0, serve_taken_over);
    lease = NULL;
    assert_int_equal(hf_adopt(fake->client, &options, &lease, &error), HF_LOST);
    assert_string_equal(error.reason, "TAKEN_OVER");
    assert_null(lease);
    fake_free(fake);
}

static void renew_now_tells_what_it_knows(void **state)
{
    struct fake *fake = fresh();
    hf_lease *lease = fake_acquire(fake, "r", 3000);
    hf_error error;

    (void)state;
    fake_pass(fake, 100);
    assert_int_equal(hf_renew_now(lease, &error), HF_OK);
    assert_int_equal(hf_lease_deadline_ms(lease), 1000100 + 2850);
    fake_push(fake, FAKE_ANSWER, 0, serve_busy_item);
    assert_int_equal(hf_renew_now(lease, &error), HF_UNAVAILABLE);
    assert_true(hf_lease_valid(lease));
    fake_push(fake, FAKE_ANSWER, 0, serve_taken_over);
    assert_int_equal(hf_renew_now(lease, &error), HF_LOST);
    assert_string_equal(error.reason, "TAKEN_OVER");
    assert_int_equal(hf_renew_now(lease, &error), HF_LOST);
    fake_tell(fake);
    assert_int_equal(told, 1);
    hf_lease_free(lease);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_gives_a_lease),
        cmocka_unit_test(a_repeated_grant_counts_from_the_first_sending),
        cmocka_unit_test(a_grant_answered_past_its_deadline_is_lost),
        cmocka_unit_test(held_tells_by_whom),
        cmocka_unit_test(waiting_asks_again_until_granted_or_too_late),
        cmocka_unit_test(an_ended_grant_is_asked_for_anew_only_under_our_own_id),
        cmocka_unit_test(bad_options_are_refused_here),
        cmocka_unit_test(a_third_of_the_ttl_renews),
        cmocka_unit_test(many_leases_go_in_calls_of_1000),
        cmocka_unit_test(what_a_lowered_limit_leaves_is_renewed_in_time),
        cmocka_unit_test(different_ttls_are_different_calls),
        cmocka_unit_test(one_resource_twice_never_goes_in_one_call),
        cmocka_unit_test(several_resources_stay_together),
        cmocka_unit_test(trouble_is_retried_and_the_lease_kept),
        cmocka_unit_test(no_renewal_means_none),
        cmocka_unit_test(unanswered_renewals_end_it_at_the_deadline),
        cmocka_unit_test(a_definite_lost_ends_it_at_once),
        cmocka_unit_test(a_late_good_answer_revives_nothing),
        cmocka_unit_test(an_overtaken_renewal_still_counts_if_it_comes_in_time),
        cmocka_unit_test(a_suspend_is_noticed_before_anything_is_sent),
        cmocka_unit_test(releasing_is_no_loss),
        cmocka_unit_test(a_release_meets_a_renewal_in_flight),
        cmocka_unit_test(a_release_whose_answer_was_lost_may_have_worked),
        cmocka_unit_test(a_release_that_was_answered_at_once_is_believed),
        cmocka_unit_test(a_release_of_a_lost_lease_sends_nothing),
        cmocka_unit_test(a_freed_lease_is_not_told),
        cmocka_unit_test(a_callback_may_free_its_lease),
        cmocka_unit_test(leases_left_over_go_with_the_client),
        cmocka_unit_test(an_adopted_lease_is_renewed_first),
        cmocka_unit_test(renew_now_tells_what_it_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
