/* Packing: which calls travel together, and what holds whom up. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

#include "proto/c/wire.h"

static int done_count;

static void note_done(struct hfi_try *self)
{
    (void)self;
    done_count++;
}

static struct hfi_try make(const void *payload, size_t len)
{
    return (struct hfi_try){.method = HFI_WRITE, .payload = payload, .payload_len = len, .timeout_ms = 5000, .done = note_done};
}

static void submit(struct fake *fake, struct hfi_try *self)
{
    pthread_mutex_lock(&fake->client->mutex);
    hfi_mux_submit(&fake->client->mux, self);
    pthread_mutex_unlock(&fake->client->mutex);
}

static void cancel(struct fake *fake, struct hfi_try *self)
{
    pthread_mutex_lock(&fake->client->mutex);
    hfi_mux_cancel(&fake->client->mux, self);
    pthread_mutex_unlock(&fake->client->mutex);
}

static void flush(struct fake *fake)
{
    pthread_mutex_lock(&fake->client->mutex);
    hfi_mux_flush(&fake->client->mux);
    pthread_mutex_unlock(&fake->client->mutex);
}

static void while_one_flies_the_next_fills(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try tries[5];

    (void)state;
    done_count = 0;
    fake_push(fake, FAKE_ANSWER, 5, NULL);
    for (int i = 0; i < 5; i++) {
        tries[i] = make("", 0);
        submit(fake, &tries[i]);
    }
    assert_int_equal(fake->n_calls, 1); /* the first waits for nobody */
    fake_pass(fake, 5);
    assert_int_equal(fake->n_calls, 5);
    assert_int_equal(fake->envelopes, 2);
    assert_int_equal(done_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tries[i].fate, HFI_ANSWERED);
        assert_int_equal(tries[i].status.code, HP_OK);
        free(tries[i].reply);
    }
    fake_free(fake);
}

static void a_slow_envelope_stops_holding_others_up(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try slow = make("", 0), quick = make("", 0);

    (void)state;
    done_count = 0;
    fake_push(fake, FAKE_ANSWER, 4000, NULL);
    submit(fake, &slow);
    submit(fake, &quick);
    assert_int_equal(quick.state, HFI_TRY_QUEUED);
    assert_int_equal(hfi_mux_flush_at(&fake->client->mux), fake->now_ms + HFI_STALL_MS);
    fake_pass(fake, HFI_STALL_MS);
    flush(fake);
    assert_int_equal(quick.state, HFI_TRY_DONE);
    assert_int_equal(slow.state, HFI_TRY_FLYING);
    fake_pass(fake, 4000);
    assert_int_equal(slow.state, HFI_TRY_DONE);
    free(slow.reply);
    free(quick.reply);
    fake_free(fake);
}

static void what_may_wait_travels_alone(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try waits = make("", 0), other = make("", 0);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 1000, NULL);
    waits.alone = true;
    submit(fake, &waits);
    submit(fake, &other); /* not held up */
    assert_int_equal(other.state, HFI_TRY_DONE);
    assert_int_equal(fake->envelopes, 2);
    fake_pass(fake, 1000);
    free(waits.reply);
    free(other.reply);
    fake_free(fake);
}

static void an_envelope_has_at_most_1000_calls(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try *tries = calloc(1502, sizeof(*tries));

    (void)state;
    done_count = 0;
    fake_push(fake, FAKE_ANSWER, 1, NULL);
    for (int i = 0; i < 1502; i++) {
        tries[i] = make("", 0);
        submit(fake, &tries[i]);
    }
    fake_pass(fake, 1);
    assert_int_equal(done_count, 1502);
    assert_int_equal(fake->envelopes, 3);
    assert_int_equal(fake->calls[1].envelope, 2);
    assert_int_equal(fake->calls[1000].envelope, 2);
    assert_int_equal(fake->calls[1001].envelope, 3);
    for (int i = 0; i < 1502; i++)
        free(tries[i].reply);
    free(tries);
    fake_free(fake);
}

static void an_envelope_has_at_most_4_mib(void **state)
{
    struct fake *fake = fake_new(NULL);
    const size_t size = 1500000;
    uint8_t *big = calloc(1, size);
    struct hfi_try tries[7];

    (void)state;
    fake_push(fake, FAKE_ANSWER, 1, NULL);
    for (int i = 0; i < 7; i++) {
        tries[i] = make(big, size);
        submit(fake, &tries[i]);
    }
    fake_pass(fake, 1);
    assert_int_equal(fake->n_calls, 7);
    assert_int_equal(fake->envelopes, 4); /* 1, 2, 2, 2 */
    for (int i = 0; i < 7; i++)
        free(tries[i].reply);
    free(big);
    fake_free(fake);
}

static void large_answers_are_not_asked_for_together(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try tries[40];
    unsigned most = 0, in_this = 0;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 1, NULL);
    for (int i = 0; i < 40; i++) {
        tries[i] = make("", 0);
        tries[i].reply_max = HF_VALUE_MAX;
        submit(fake, &tries[i]);
    }
    fake_pass(fake, 1);
    assert_int_equal(fake->n_calls, 40);
    for (size_t i = 0; i < fake->n_calls; i++) {
        in_this = i && fake->calls[i].envelope == fake->calls[i - 1].envelope ? in_this + 1 : 1;
        most = in_this > most ? in_this : most;
        free(tries[i].reply);
    }
    assert_int_equal(most, 12);
    fake_free(fake);
}

static void a_cancelled_try_hears_nothing(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try first = make("", 0), second = make("", 0), third = make("", 0);

    (void)state;
    done_count = 0;
    fake_push(fake, FAKE_ANSWER, 5, NULL);
    submit(fake, &first);
    submit(fake, &second);
    submit(fake, &third);
    cancel(fake, &first);
    cancel(fake, &third);
    assert_int_equal(first.fate, HFI_NO_ANSWER);
    assert_int_equal(third.fate, HFI_NOT_SENT);
    fake_pass(fake, 5);
    assert_int_equal(done_count, 1);
    assert_int_equal(second.state, HFI_TRY_DONE);
    assert_int_equal(fake->n_calls, 2);
    free(second.reply);
    /* the queue's end is right again */
    third = make("", 0);
    submit(fake, &third);
    assert_int_equal(third.state, HFI_TRY_DONE);
    free(third.reply);
    fake_free(fake);
}

static void an_answer_that_does_not_fit_is_no_answer(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try self = make("", 0);

    (void)state;
    fake_push(fake, FAKE_GARBAGE, 1, NULL);
    submit(fake, &self);
    fake_pass(fake, 1);
    assert_int_equal(self.fate, HFI_NO_ANSWER);
    fake_free(fake);
}

static bool never(struct hfi_try *self)
{
    (void)self;
    return false;
}

static void leave_is_asked_at_the_moment_of_sending(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try first = make("", 0), refused = make("", 0);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 5, NULL);
    submit(fake, &first);
    refused.may_send = never;
    submit(fake, &refused);
    assert_int_equal(refused.state, HFI_TRY_QUEUED);
    fake_pass(fake, 5);
    assert_int_equal(refused.state, HFI_TRY_DONE);
    assert_true(refused.refused);
    assert_int_equal(refused.fate, HFI_NOT_SENT);
    assert_int_equal(fake->n_calls, 1);
    free(first.reply);
    fake_free(fake);
}

static void a_bad_endpoint_is_left(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_try self;

    (void)state;
    fake->transport.n_endpoints = 2;
    fake_push(fake, FAKE_RESET, 1, NULL);
    fake_push(fake, FAKE_ANSWER, 0, serve_unavailable);
    for (int i = 0; i < 3; i++) {
        self = make("", 0);
        submit(fake, &self);
        fake_pass(fake, 1);
        free(self.reply);
    }
    assert_int_equal(fake->calls[0].endpoint, 0);
    assert_int_equal(fake->calls[1].endpoint, 1); /* that one has no database */
    assert_int_equal(fake->calls[2].endpoint, 0);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_one_flies_the_next_fills),
        cmocka_unit_test(a_slow_envelope_stops_holding_others_up),
        cmocka_unit_test(what_may_wait_travels_alone),
        cmocka_unit_test(an_envelope_has_at_most_1000_calls),
        cmocka_unit_test(an_envelope_has_at_most_4_mib),
        cmocka_unit_test(large_answers_are_not_asked_for_together),
        cmocka_unit_test(a_cancelled_try_hears_nothing),
        cmocka_unit_test(an_answer_that_does_not_fit_is_no_answer),
        cmocka_unit_test(leave_is_asked_at_the_moment_of_sending),
        cmocka_unit_test(a_bad_endpoint_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
