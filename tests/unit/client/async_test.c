/* Many calls from one thread: they travel together, come back one by one, and are repeated only if that is harmless. */
#include "fake.h"

#include <string.h>

#include "client/lib/async.h"

enum { N = 64 };

static bool start(struct hfi_async_call *call, int64_t token)
{
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items[1] = {&item};
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;

    item.resource = (char *)(uintptr_t) "r";
    item.token = token;
    request.namespace_ = (char *)(uintptr_t) "default";
    request.n_items = 1;
    request.items = items;
    request.ttl_ms = 30000;
    call->method = HFI_RENEW;
    call->response_type = &holdfast__v1__renew_response__descriptor;
    return hfi_async_start(call, &request.base);
}

/* The next one that is done, within a second of the fake's time. */
static struct hfi_async_call *next(struct fake *fake, struct hfi_async *async)
{
    return hfi_async_next(async, fake->now_ms + 1000);
}

static void travel_together(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_async *async = hfi_async_new(fake->client, N);

    (void)state;
    fake->serve = serve_renewed;
    for (int round = 1; round <= 3; round++) {
        for (size_t i = 0; i < N; i++)
            assert_true(start(hfi_async_call(async, i), 7));
        assert_int_equal(hfi_async_open(async), N);
        for (size_t i = 0; i < N; i++) {
            struct hfi_async_call *call = next(fake, async);
            assert_non_null(call);
            assert_int_equal(call->result, HF_OK);
            assert_int_equal(((const Holdfast__V1__RenewResponse *)call->response)->n_items, 1);
        }
        assert_int_equal(hfi_async_open(async), 0);
        assert_null(next(fake, async));
        assert_int_equal(fake->envelopes, round);
    }
    hfi_async_free(async);
    fake_free(fake);
}

/* While one envelope is out the next fills; one that has been out for long holds nobody up. */
static void slow_envelope(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_async *async = hfi_async_new(fake->client, 2);

    (void)state;
    fake->serve = serve_renewed;
    fake_push(fake, FAKE_ANSWER, 500, NULL);
    assert_true(start(hfi_async_call(async, 0), 1));
    assert_null(hfi_async_next(async, fake->now_ms + 1));
    assert_true(start(hfi_async_call(async, 1), 2));
    assert_ptr_equal(next(fake, async), hfi_async_call(async, 1));
    assert_ptr_equal(next(fake, async), hfi_async_call(async, 0));
    hfi_async_free(async);
    fake_free(fake);
}

static void unavailable_is_tried_again(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_async *async = hfi_async_new(fake->client, 1);
    struct hfi_async_call *call = hfi_async_call(async, 0);

    (void)state;
    fake->serve = serve_renewed;
    fake_push(fake, FAKE_ANSWER, 0, serve_unavailable);
    fake_push(fake, FAKE_UNREACHABLE, 0, NULL);
    assert_true(start(call, 1));
    assert_ptr_equal(hfi_async_next(async, fake->now_ms + 20000), call);
    assert_int_equal(call->result, HF_OK);
    assert_int_equal(fake->n_calls, 2);
    hfi_async_free(async);
    fake_free(fake);
}

static void patience_ends(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_async *async = hfi_async_new(fake->client, 1);
    struct hfi_async_call *call = hfi_async_call(async, 0);

    (void)state;
    fake->endpoints[0] = FAKE_GONE;
    call->timeout_ms = 3000;
    assert_true(start(call, 1));
    assert_ptr_equal(hfi_async_next(async, fake->now_ms + 10000), call);
    assert_int_equal(call->result, HF_UNAVAILABLE);
    assert_true(call->unreachable);
    assert_null(call->response);
    hfi_async_free(async);
    fake_free(fake);
}

static void unknown_is_not_repeated(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_async *async = hfi_async_new(fake->client, 1);
    struct hfi_async_call *call = hfi_async_call(async, 0);

    (void)state;
    fake->serve = serve_renewed;
    fake_push(fake, FAKE_RESET, 0, NULL);
    assert_true(start(call, 1));
    assert_ptr_equal(hfi_async_next(async, fake->now_ms + 60000), call);
    assert_int_equal(call->result, HF_UNKNOWN);
    assert_int_equal(call->status.reason, HP_R_OUTCOME_LOST);
    assert_int_equal(fake->envelopes, 1);
    /* And what the server says is given back as it is. */
    fake_push(fake, FAKE_ANSWER, 0, serve_stale);
    assert_true(start(call, 1));
    assert_ptr_equal(next(fake, async), call);
    assert_int_equal(call->result, HF_LOST);
    assert_int_equal(call->status.reason, HP_R_STALE_TOKEN);
    assert_true(start(call, 1));
    assert_ptr_equal(next(fake, async), call);
    assert_int_equal(call->result, HF_OK);
    assert_int_equal(call->status.code, HP_OK);
    hfi_async_free(async);
    fake_free(fake);
}

/* Freed with calls in every place: started, queued, in flight, answered. Nothing touches them afterwards, nothing leaks. */
static void freed_at_any_time(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_async *async = hfi_async_new(fake->client, 4);

    (void)state;
    fake->serve = serve_renewed;
    assert_true(start(hfi_async_call(async, 0), 1));
    assert_true(start(hfi_async_call(async, 1), 1));
    assert_non_null(next(fake, async)); /* the other one is answered, and not given back */
    fake_push(fake, FAKE_SILENT, 0, NULL);
    assert_true(start(hfi_async_call(async, 2), 1));
    assert_ptr_equal(next(fake, async), hfi_async_call(async, 1));
    assert_null(hfi_async_next(async, fake->now_ms + 1));
    assert_true(start(hfi_async_call(async, 3), 1));
    hfi_async_free(async);
    hfi_async_free(NULL);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(travel_together), cmocka_unit_test(slow_envelope),           cmocka_unit_test(unavailable_is_tried_again),
        cmocka_unit_test(patience_ends),   cmocka_unit_test(unknown_is_not_repeated), cmocka_unit_test(freed_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
