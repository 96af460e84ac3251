/* Guarded writes: numbered, one at a time, refused here once the lease is over, unknown where nobody can know. */
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

static struct fake *fresh(hf_lease **lease)
{
    static const hf_client_options options = {.on_loss = on_loss};
    struct fake *fake = fake_new(&options);

    told = 0;
    told_reason = NULL;
    *lease = fake_acquire(fake, "r", 30000);
    return fake;
}

static void done(struct fake *fake, hf_lease *lease)
{
    hf_lease_free(lease);
    fake_free(fake);
}

static int64_t seq_of(struct fake *fake, size_t i)
{
    assert_string_equal(fake->calls[i].method, HFI_WRITE);
    return ((const Holdfast__V1__WriteRequest *)fake_request(fake, i, &holdfast__v1__write_request__descriptor))->write_seq;
}

static void writes_are_numbered_and_repeats_are_not(void **state)
{
    hf_lease *lease;
    struct fake *fake = fresh(&lease);
    hf_write_result result;
    hf_error error;

    (void)state;
    assert_int_equal(hf_write(lease, NULL, "a", 1, &result, &error), HF_OK);
    assert_int_equal(error.result, HF_OK);
    assert_int_equal(result.version, 1);
    fake_push(fake, FAKE_RESET, 5, NULL);
    fake_push(fake, FAKE_ANSWER, 5, serve_unavailable);
    assert_int_equal(hf_write(lease, NULL, "b", 1, NULL, NULL), HF_OK);
    assert_int_equal(hf_write(lease, NULL, "c", 1, NULL, NULL), HF_OK);
    assert_int_equal(seq_of(fake, 1), 1);
    assert_int_equal(seq_of(fake, 2), 2);
    assert_int_equal(seq_of(fake, 3), 2);
    assert_int_equal(seq_of(fake, 4), 2);
    assert_int_equal(seq_of(fake, 5), 3);
    done(fake, lease);
}

static void the_request_says_what_was_asked(void **state)
{
    hf_lease *lease;
    struct fake *fake = fresh(&lease);
    const Holdfast__V1__WriteRequest *request;
    const hf_write_options options = {.check_version = true, .expected_version = 0};

    (void)state;
    assert_int_equal(hf_write(lease, &options, "ab\0c", 4, NULL, NULL), HF_OK);
    request = (const Holdfast__V1__WriteRequest *)fake_request(fake, 1, &holdfast__v1__write_request__descriptor);
    assert_int_equal(request->token, 7);
    assert_string_equal(request->namespace_, "default");
    assert_int_equal(request->expected_case, HOLDFAST__V1__WRITE_REQUEST__EXPECTED_EXPECTED_VERSION);
    assert_int_equal(request->value.len, 4);
    assert_memory_equal(request->value.data, "ab\0c", 4);
    assert_int_equal(hf_write(lease, &(hf_write_options){.resource = "s"}, "x", 1, NULL, NULL), HF_INVALID);
    assert_int_equal(fake->n_calls, 2);
    done(fake, lease);
}

static void a_stale_token_is_a_definite_loss(void **state)
{
    static const fake_serve refusals[] = {serve_stale, serve_not_held};
    static const char *const reasons[] = {"TAKEN_OVER", "EXPIRED"}, *const said[] = {"STALE_TOKEN", "NOT_HELD"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_lease *lease;
        struct fake *fake = fresh(&lease);
        hf_error error;
        fake_push(fake, FAKE_ANSWER, 0, refusals[i]);
        assert_int_equal(hf_write(lease, NULL, "a", 1, NULL, &error), HF_LOST);
        assert_string_equal(error.reason, said[i]);
        assert_false(hf_lease_valid(lease));
        assert_string_equal(hf_lease_loss(lease), reasons[i]);
        assert_int_equal(hf_write(lease, NULL, "b", 1, NULL, &error), HF_LOST);
        assert_int_equal(fake->n_calls, 2); /* the second was not sent */
        fake_tell(fake);
        assert_int_equal(told, 1);
        done(fake, lease);
    }
}

static void a_repeat_refused_as_stale_is_unknown(void **state)
{
    static const fake_serve refusals[] = {serve_stale, serve_not_held};

    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_lease *lease;
        struct fake *fake = fresh(&lease);
        hf_error error;
        fake_push(fake, FAKE_LOSE, 0, serve_written); /* it was written, and nobody told us */
        fake_push(fake, FAKE_ANSWER, 0, refusals[i]);
        assert_int_equal(hf_write(lease, NULL, "a", 1, NULL, &error), HF_UNKNOWN);
        assert_string_equal(error.reason, "OUTCOME_LOST");
        assert_false(hf_lease_valid(lease)); /* that much is certain */
        fake_tell(fake);
        assert_int_equal(told, 1);
        done(fake, lease);
    }
}

static void after_unavailable_a_stale_token_is_definite(void **state)
{
    hf_lease *lease;
    struct fake *fake = fresh(&lease);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_unavailable);
    fake_push(fake, FAKE_ANSWER, 0, serve_stale);
    assert_int_equal(hf_write(lease, NULL, "a", 1, NULL, NULL), HF_LOST);
    done(fake, lease);
}

static void past_the_deadline_nothing_is_sent(void **state)
{
    hf_lease *lease;
    struct fake *fake = fresh(&lease);
    hf_error error;

    (void)state;
    fake_pass(fake, 28500);
    assert_int_equal(hf_write(lease, NULL, "a", 1, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    assert_int_equal(hf_delete(lease, NULL, NULL, &error), HF_LOST);
    assert_int_equal(fake->n_calls, 1);
    fake_tell(fake);
    assert_int_equal(told, 1);
    assert_string_equal(told_reason, "DEADLINE");
    done(fake, lease);
}

static void retries_end_at_the_deadline(void **state)
{
    hf_lease *lease;
    struct fake *fake = fresh(&lease);
    hf_error error;

    (void)state;
    fake_pass(fake, 27500);
    fake->serve = serve_unavailable;
    assert_int_equal(hf_write(lease, NULL, "a", 1, NULL, &error), HF_LOST); /* never applied */
    assert_string_equal(error.reason, "DEADLINE");
    assert_true(fake->calls[fake->n_calls - 1].at_ms < 1028500);
    done(fake, lease);

    fake = fresh(&lease);
    fake_pass(fake, 27500);
    fake->serve = serve_unavailable;
    fake_push(fake, FAKE_RESET, 0, NULL);
    assert_int_equal(hf_write(lease, NULL, "a", 1, NULL, &error), HF_UNKNOWN); /* perhaps applied */
    assert_true(fake->calls[fake->n_calls - 1].at_ms < 1028500);
    done(fake, lease);
}

static void serve_mismatch(struct fake *fake, const Holdfast__V1__Call *call)
{
    (void)call;
    fake_error(fake, HP_R_VERSION_MISMATCH);
}

static void a_version_mismatch_keeps_the_lease(void **state)
{
    hf_lease *lease;
    struct fake *fake = fresh(&lease);
    const hf_write_options options = {.check_version = true, .expected_version = 5};
    hf_error error;

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_mismatch);
    assert_int_equal(hf_write(lease, &options, "a", 1, NULL, &error), HF_CONFLICT);
    assert_string_equal(error.reason, "VERSION_MISMATCH");
    assert_int_equal(fake->n_calls, 2);
    assert_true(hf_lease_valid(lease));
    done(fake, lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_numbered_and_repeats_are_not),
        cmocka_unit_test(the_request_says_what_was_asked),
        cmocka_unit_test(a_stale_token_is_a_definite_loss),
        cmocka_unit_test(a_repeat_refused_as_stale_is_unknown),
        cmocka_unit_test(after_unavailable_a_stale_token_is_definite),
        cmocka_unit_test(past_the_deadline_nothing_is_sent),
        cmocka_unit_test(retries_end_at_the_deadline),
        cmocka_unit_test(a_version_mismatch_keeps_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
