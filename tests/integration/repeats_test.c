/*
 * repeats_test.c - every call may arrive twice, late, or after its answer was lost (P8), against a real server.
 */
#include "harness/harness.h"

#include <string.h>

#include "integration/calls.h"
#include "integration/served.h"

#define assert_case(message, name, wanted) assert_int_equal((message)->outcome_case, HOLDFAST__V1__##name##__OUTCOME_##wanted)

static void acquire_again_while_the_lease_lives_is_the_same_grant(void **state)
{
    (void)state;
    Holdfast__V1__AcquireResponse *first = c_acquire(rpc, "a", 60000, "a-1");
    t_sleep_ms(50); /* of its time to live */
    Holdfast__V1__AcquireResponse *again = c_acquire(rpc, "a", 60000, "a-1");
    assert_case(first, ACQUIRE_RESPONSE, GRANTED);
    assert_case(again, ACQUIRE_RESPONSE, GRANTED);
    assert_int_equal(again->granted->grants[0]->token, first->granted->grants[0]->token);
    assert_in_range(again->granted->ttl_ms, 1, 60000 - 50); /* what remains, nothing new */
    assert_case(c_acquire(rpc, "a", 60000, "a-2"), ACQUIRE_RESPONSE, HELD);
    assert_case(c_acquire(rpc, "a", 60000, NULL), ACQUIRE_RESPONSE, HELD);
}

static void acquire_again_after_the_end_is_ended(void **state)
{
    (void)state;
    int64_t token = c_acquire(rpc, "b", 60000, "b-1")->granted->grants[0]->token;
    assert_true(c_release_one(rpc, "b", token));
    for (int i = 0; i < 2; i++) {
        Holdfast__V1__AcquireResponse *again = c_acquire(rpc, "b", 60000, "b-1");
        assert_case(again, ACQUIRE_RESPONSE, ENDED);
        assert_int_equal(again->ended->token, token);
    }
    assert_int_equal(c_get(rpc, "b", NULL)->fence, token); /* never a new one */
    int64_t expired = c_acquire(rpc, "b", 100, "b-2")->granted->grants[0]->token;
    while (c_get(rpc, "b", NULL)->state == HOLDFAST__V1__LEASE__STATE__LIVE)
        t_sleep_ms(10);
    Holdfast__V1__AcquireResponse *again = c_acquire(rpc, "b", 60000, "b-2");
    assert_case(again, ACQUIRE_RESPONSE, ENDED);
    assert_int_equal(again->ended->token, expired);
}

static void acquire_again_of_several(void **state)
{
    (void)state;
    char *names[] = {C_STR("m/2"), C_STR("m/1")};
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.holder = C_STR("h");
    request.n_resources = 2;
    request.resources = names;
    request.ttl_ms = 60000;
    request.request_id = C_STR("m");
    Holdfast__V1__AcquireResponse *first = c_acquire_with(rpc, &request, NULL), *again = c_acquire_with(rpc, &request, NULL);
    assert_case(again, ACQUIRE_RESPONSE, GRANTED);
    assert_int_equal(again->granted->n_grants, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(again->granted->grants[i]->resource, names[i]);
        assert_int_equal(again->granted->grants[i]->token, first->granted->grants[i]->token);
    }
    assert_true(c_release_one(rpc, "m/1", first->granted->grants[1]->token));
    again = c_acquire_with(rpc, &request, NULL); /* only if all still live */
    assert_case(again, ACQUIRE_RESPONSE, ENDED);
    assert_int_equal(c_lost(rpc, "m/2", first->granted->grants[0]->token), 0);
}

static void renew_again(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "r", 1000);
    for (int i = 0; i < 3; i++)
        assert_case(c_renew_one(rpc, "r", token, 60000), RENEW_RESULT, RENEWED);
    c_release_one(rpc, "r", token);
    for (int i = 0; i < 2; i++) /* a late one never revives it */
        assert_int_equal(c_lost(rpc, "r", token), HOLDFAST__V1__LOST__REASON__RELEASED);
    int64_t next = c_grant(rpc, "r", 60000);
    assert_int_equal(c_lost(rpc, "r", token), HOLDFAST__V1__LOST__REASON__TAKEN_OVER);
    assert_int_equal(c_lost(rpc, "r", next), 0);
}

static void release_again_is_true_again(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "f", 0);
    for (int i = 0; i < 3; i++)
        assert_true(c_release_one(rpc, "f", token));
    int64_t next = c_grant(rpc, "f", 0);
    c_release_one(rpc, "f", token); /* late: the next holder's lease is untouched */
    assert_int_equal(c_lost(rpc, "f", next), 0);
}

static void write_again_is_replayed(void **state)
{
    (void)state;
    c_status status;
    int64_t token = c_grant(rpc, "w", 0);
    Holdfast__V1__WriteResponse *first = c_write(rpc, "w", token, 1, "one", 0, NULL);
    assert_false(first->replayed);
    for (int i = 0; i < 2; i++) { /* whatever it expects: decided before */
        Holdfast__V1__WriteResponse *again = c_write(rpc, "w", token, 1, "one", 0, NULL);
        assert_true(again->replayed);
        assert_int_equal(again->version, first->version);
    }
    assert_int_equal(c_write(rpc, "w", token, 2, "two", -1, NULL)->version, 2);
    assert_null(c_write(rpc, "w", token, 1, "one", -1, &status)); /* an older one, late */
    c_assert_status(&status, HP_ABORTED, HP_R_SUPERSEDED, "older");
    assert_string_equal(hp_status_get_meta(&status, "write_seq"), "2");
    assert_string_equal(c_value(rpc, "w"), "two");
    c_release_one(rpc, "w", token);
    assert_true(c_write(rpc, "w", token, 2, "two", -1, NULL)->replayed); /* also after the end of the lease */
    int64_t next = c_grant(rpc, "w", 0);
    assert_true(c_write(rpc, "w", token, 2, "two", -1, NULL)->replayed); /* and after a takeover, until the next write */
    c_write(rpc, "w", next, 1, "three", -1, NULL);
    assert_null(c_write(rpc, "w", token, 2, "two", -1, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "after the next write");
    assert_string_equal(c_value(rpc, "w"), "three");
    assert_int_equal(c_read(rpc, "w", NULL)->version, 3);
}

static void write_without_a_number_is_a_new_write(void **state)
{
    (void)state;
    c_status status;
    int64_t token = c_grant(rpc, "x", 0);
    assert_int_equal(c_write(rpc, "x", token, 0, "x", 0, NULL)->version, 1);
    assert_int_equal(c_write(rpc, "x", token, 0, "x", -1, NULL)->version, 2);
    assert_null(c_write(rpc, "x", token, 0, "x", 0, &status)); /* only expected_version protects */
    c_assert_status(&status, HP_ABORTED, HP_R_VERSION_MISMATCH, "expected");
}

static void delete_again_is_replayed(void **state)
{
    (void)state;
    c_status status;
    int64_t token = c_grant(rpc, "d", 0);
    c_write(rpc, "d", token, 1, "x", -1, NULL);
    Holdfast__V1__DeleteResponse *first = c_delete(rpc, "d", token, 2, 1, NULL), *again = c_delete(rpc, "d", token, 2, 1, NULL);
    assert_false(first->replayed);
    assert_int_equal(first->version, 2);
    assert_true(again->replayed);
    assert_int_equal(again->version, 2);
    assert_null(c_write(rpc, "d", token, 2, "x", -1, &status)); /* the same number, but another deed */
    c_assert_status(&status, HP_ABORTED, HP_R_SUPERSEDED, "write after delete");
    assert_string_equal(c_value(rpc, "d"), "(none)");
    c_write(rpc, "d", token, 3, "y", -1, NULL);
    assert_null(c_delete(rpc, "d", token, 2, -1, &status)); /* late: the later write is not undone */
    c_assert_status(&status, HP_ABORTED, HP_R_SUPERSEDED, "late delete");
    assert_string_equal(c_value(rpc, "d"), "y");
}

static void delete_of_nothing_again(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "n", 0);
    Holdfast__V1__DeleteResponse *first = c_delete(rpc, "n", token, 1, -1, NULL), *again = c_delete(rpc, "n", token, 1, -1, NULL);
    assert_int_equal(first->version, 0);
    assert_int_equal(again->version, 0);
    assert_true(again->replayed);
}

static void break_again(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "k", 0);
    Holdfast__V1__BreakResponse *first = c_break(rpc, "k", token, NULL), *again = c_break(rpc, "k", token, NULL);
    assert_case(first, BREAK_RESPONSE, BROKEN);
    assert_case(again, BREAK_RESPONSE, BROKEN); /* the same lease, ended once */
    assert_int_equal(again->broken->fence, first->broken->fence);
    assert_int_equal(c_lost(rpc, "k", token), HOLDFAST__V1__LOST__REASON__BROKEN);
    int64_t next = c_grant(rpc, "k", 0);
    assert_case(c_break(rpc, "k", token, NULL), BREAK_RESPONSE, CHANGED); /* late: the newer one stays */
    assert_int_equal(c_lost(rpc, "k", next), 0);
}

/* The same request many times at once, in one envelope: one grant. */
static void acquires_at_the_same_time_are_one(void **state)
{
    (void)state;
    enum { N = 64 };
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    Holdfast__V1__Call calls[N], *pointers[N];
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    char *names[] = {C_STR("same")};
    size_t len;
    request.namespace_ = C_STR("default");
    request.holder = C_STR("h");
    request.n_resources = 1;
    request.resources = names;
    request.ttl_ms = 60000;
    request.request_id = C_STR("same-1");
    const uint8_t *payload = t_rpc_pack(rpc, &request, &len);
    for (int i = 0; i < N; i++) {
        holdfast__v1__call__init(&calls[i]);
        calls[i].method = C_STR(C_LEASE "Acquire");
        calls[i].payload.data = (uint8_t *)(uintptr_t)payload;
        calls[i].payload.len = len;
        pointers[i] = &calls[i];
    }
    envelope.n_calls = N;
    envelope.calls = pointers;
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_envelope(rpc, &envelope);
    int64_t token = c_get(rpc, "same", NULL)->token;
    assert_int_equal(replies->n_replies, N);
    for (int i = 0; i < N; i++) {
        Holdfast__V1__AcquireResponse *response =
            holdfast__v1__acquire_response__unpack(NULL, replies->replies[i]->payload.len, replies->replies[i]->payload.data);
        assert_non_null(response);
        assert_case(response, ACQUIRE_RESPONSE, GRANTED);
        assert_int_equal(response->granted->grants[0]->token, token);
        holdfast__v1__acquire_response__free_unpacked(response, NULL);
    }
    assert_int_equal(t_sql_int(conn, "select fence from holdfast.resource where namespace = 'default' and name = 'same'"), token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acquire_again_while_the_lease_lives_is_the_same_grant),
        cmocka_unit_test(acquire_again_after_the_end_is_ended),
        cmocka_unit_test(acquire_again_of_several),
        cmocka_unit_test(renew_again),
        cmocka_unit_test(release_again_is_true_again),
        cmocka_unit_test(write_again_is_replayed),
        cmocka_unit_test(write_without_a_number_is_a_new_write),
        cmocka_unit_test(delete_again_is_replayed),
        cmocka_unit_test(delete_of_nothing_again),
        cmocka_unit_test(break_again),
        cmocka_unit_test(acquires_at_the_same_time_are_one),
    };
    return cmocka_run_group_tests(tests, serve_rpc, end_serving_rpc);
}
