/* Envelopes: calls in, replies out, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "kinds.h"
#include "proto/c/envelope.h"
#include "proto/c/status.h"
#include "proto/c/wire.h"

enum { BUDGET = 64 << 20 };

static void put_call(struct hp_buf *out, const char *method, const void *payload, size_t len, size_t n_metadata)
{
    struct hp_buf call = HP_BUF_INIT, entry = HP_BUF_INIT;

    put_text(&call, 1, method);
    put_number(&call, 2, 1000);
    put_text(&entry, 1, "name");
    put_text(&entry, 2, "value");
    for (size_t i = 0; i < n_metadata; i++)
        put_bytes(&call, 3, entry.data, entry.len);
    put_bytes(&call, 4, payload, len);
    put_bytes(out, 1, call.data, call.len);
    hp_buf_release(&call);
    hp_buf_release(&entry);
}

static bool decodes(const struct hp_buf *bytes, struct hp_status *status)
{
    struct hp_arena *arena = hp_arena_new(BUDGET);
    bool done;

    memset(status, 0, sizeof *status);
    done = hp_calls_decode(arena, bytes->data, bytes->len, status) != NULL;
    if (!done)
        assert_int_equal(status->code, HP_INVALID_ARGUMENT);
    hp_arena_free(arena);
    return done;
}

static void calls_are_copied(void **state)
{
    struct hp_arena *arena = hp_arena_new(BUDGET);
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;
    Holdfast__V1__CallEnvelope *envelope;

    (void)state;
    put_call(&bytes, "/holdfast.v1.LeaseService/Acquire", "\x0a\x01z", 3, 2);
    put_call(&bytes, "/holdfast.v1.LeaseService/Get", "", 0, 0);
    envelope = hp_calls_decode(arena, bytes.data, bytes.len, &status);
    assert_non_null(envelope);
    memset(bytes.data, 0xFF, bytes.len);
    hp_buf_release(&bytes);
    assert_int_equal(envelope->n_calls, 2);
    assert_string_equal(envelope->calls[0]->method, "/holdfast.v1.LeaseService/Acquire");
    assert_int_equal(envelope->calls[0]->timeout_ms, 1000);
    assert_int_equal(envelope->calls[0]->n_metadata, 2);
    assert_string_equal(envelope->calls[0]->metadata[1]->value, "value");
    assert_int_equal(envelope->calls[0]->payload.len, 3);
    assert_memory_equal(envelope->calls[0]->payload.data, "\x0a\x01z", 3);
    assert_int_equal(envelope->calls[1]->payload.len, 0);
    hp_arena_free(arena);
}

static void half_an_envelope_is_refused(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT, half = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    put_call(&bytes, "/holdfast.v1.LeaseService/Acquire", "payload", 7, 1);
    put_call(&bytes, "/holdfast.v1.LeaseService/Acquire", "payload", 7, 1);
    for (size_t len = 0; len < bytes.len; len++) {
        hp_buf_reset(&half);
        hp_buf_add(&half, bytes.data, len);
        assert_int_equal(decodes(&half, &status), len == bytes.len / 2); /* one call is whole there */
    }
    assert_string_equal(status.field, "calls[1]");
    assert_int_equal(status.reason, HP_R_MALFORMED);
    hp_buf_reset(&half);
    hp_buf_addstr(&half, "GET / HTTP/1.1\r\n\r\n");
    assert_false(decodes(&half, &status));
    hp_buf_release(&bytes);
    hp_buf_release(&half);
}

static void calls_are_counted(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    assert_false(decodes(&bytes, &status));
    assert_string_equal(status.message, "calls: \"0\" is outside its limit; wanted: 1 to 1000");
    assert_string_equal(status.field, "calls");
    for (int i = 0; i < HP_ENVELOPE_CALLS; i++) /* as many as allowed, each with all that is allowed */
        put_call(&bytes, "/holdfast.v1.LeaseService/Acquire", "payload", 7, 16);
    assert_true(decodes(&bytes, &status));
    put_call(&bytes, "", "", 0, 0);
    assert_false(decodes(&bytes, &status));
    assert_string_equal(status.message, "calls: \"1001\" is outside its limit; wanted: 1 to 1000");
    hp_buf_reset(&bytes);
    put_call(&bytes, "/a", "", 0, 0);
    put_call(&bytes, "/b", "", 0, 17); /* too much for a call, and its own affair */
    assert_true(decodes(&bytes, &status));
    hp_buf_release(&bytes);
}

/* An oversized payload is its own call's error, not that of the calls beside it. */
static void an_oversized_payload_spoils_no_other(void **state)
{
    struct hp_arena *arena = hp_arena_new(BUDGET);
    uint8_t *payload = calloc(1, HP_REQUEST_MAX + 1);
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;
    Holdfast__V1__CallEnvelope *envelope;

    (void)state;
    put_call(&bytes, "/a", payload, HP_REQUEST_MAX + 1, 0);
    put_call(&bytes, "/b", "\x0a\x01z", 3, 0);
    envelope = hp_calls_decode(arena, bytes.data, bytes.len, &status);
    assert_non_null(envelope);
    assert_null(hp_unpack(arena, &holdfast__v1__get_lease_request__descriptor, envelope->calls[0]->payload.data,
                          envelope->calls[0]->payload.len, &status));
    assert_int_equal(status.code, HP_INVALID_ARGUMENT);
    assert_int_equal(status.reason, HP_R_LIMIT);
    assert_string_equal(hp_status_get_meta(&status, "value"), "4194305 bytes");
    assert_non_null(hp_unpack(arena, &holdfast__v1__get_lease_request__descriptor, envelope->calls[1]->payload.data,
                              envelope->calls[1]->payload.len, &status));
    hp_buf_reset(&bytes);
    for (int i = 0; i < 4; i++)
        put_call(&bytes, "/c", payload, HP_REQUEST_MAX, 0);
    assert_true(bytes.len > HP_ENVELOPE_MAX);
    assert_false(decodes(&bytes, &status));
    assert_int_equal(status.reason, HP_R_LIMIT);
    assert_string_equal(status.field, "CallEnvelope");
    hp_arena_free(arena);
    hp_buf_release(&bytes);
    free(payload);
}

static void strings_of_a_call_are_checked(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    put_call(&bytes, "/a", "", 0, 0);
    put_call(&bytes, "/\xFF", "", 0, 0);
    assert_false(decodes(&bytes, &status));
    assert_string_equal(status.field, "calls[1].method");
    hp_buf_release(&bytes);
}

static void replies_come_back(void **state)
{
    struct hp_arena *arena = hp_arena_new(BUDGET);
    Holdfast__V1__ReplyEnvelope envelope = HOLDFAST__V1__REPLY_ENVELOPE__INIT, *back;
    Holdfast__V1__Reply reply[3], *replies[] = {&reply[0], &reply[1], &reply[2]};
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status, got;

    (void)state;
    hp_status_set(&status, HP_R_STALE_TOKEN, "token 7 is stale");
    hp_status_meta(&status, "fence", "8");
    assert_true(hp_reply_fill(arena, &reply[0], NULL, "abc", 3));
    assert_true(hp_reply_fill(arena, &reply[1], &status, NULL, 0));
    memset(&got, 0, sizeof got);
    assert_true(hp_reply_fill(arena, &reply[2], &got, NULL, 0)); /* OK, with an empty message */
    envelope.n_replies = 3;
    envelope.replies = replies;
    assert_true(hp_pack(&bytes, &envelope.base));
    back = hp_replies_decode(arena, bytes.data, bytes.len, &got);
    assert_non_null(back);
    assert_int_equal(back->n_replies, 3);
    hp_reply_status(back->replies[0], &got);
    assert_int_equal(got.code, HP_OK);
    assert_memory_equal(back->replies[0]->payload.data, "abc", 3);
    hp_reply_status(back->replies[1], &got);
    assert_int_equal(got.code, HP_FAILED_PRECONDITION);
    assert_int_equal(got.reason, HP_R_STALE_TOKEN);
    assert_string_equal(got.message, "token 7 is stale");
    assert_string_equal(hp_status_get_meta(&got, "fence"), "8");
    hp_reply_status(back->replies[2], &got);
    assert_int_equal(got.code, HP_OK);

    bytes.len -= 3;
    assert_null(hp_replies_decode(arena, bytes.data, bytes.len, &got));
    assert_int_equal(got.code, HP_INTERNAL);
    hp_buf_release(&bytes);
    hp_arena_free(arena);
}

static void the_code_of_a_reply_decides(void **state)
{
    Holdfast__V1__Reply reply = HOLDFAST__V1__REPLY__INIT;
    struct hp_status status, got;
    struct hp_buf details = HP_BUF_INIT;

    (void)state;
    reply.code = 14; /* without details, as a proxy might answer */
    hp_reply_status(&reply, &got);
    assert_int_equal(got.code, HP_UNAVAILABLE);
    assert_int_equal(got.reason, HP_R_UNSPECIFIED);
    assert_string_equal(got.message, "UNAVAILABLE");
    reply.code = 99;
    hp_reply_status(&reply, &got);
    assert_int_equal(got.code, HP_UNKNOWN);
    reply.code = -1;
    hp_reply_status(&reply, &got);
    assert_int_equal(got.code, HP_UNKNOWN);

    memset(&status, 0, sizeof status); /* details that say OK */
    assert_true(hp_status_encode(&status, &details));
    reply.code = 13;
    reply.message = (char *)"broken";
    reply.details.data = details.data;
    reply.details.len = details.len;
    hp_reply_status(&reply, &got);
    assert_int_equal(got.code, HP_INTERNAL);
    assert_string_equal(got.message, "broken");
    reply.details.data = (uint8_t *)"\xFF";
    reply.details.len = 1;
    hp_reply_status(&reply, &got);
    assert_int_equal(got.code, HP_INTERNAL);
    assert_int_equal(got.reason, HP_R_UNSPECIFIED);
    hp_buf_release(&details);
}

static void without_memory_a_reply_is_empty(void **state)
{
    struct hp_arena *arena = hp_arena_new(64);
    Holdfast__V1__Reply reply;
    struct hp_status status;

    (void)state;
    hp_status_set(&status, HP_R_BUSY, NULL);
    assert_false(hp_reply_fill(arena, &reply, &status, NULL, 0));
    assert_int_equal(reply.details.len, 0);
    assert_string_equal(reply.message, "");
    hp_arena_free(arena);
}

/* A page of 1,000 leases with 50 labels each is more than a request may hold, and a client takes it. */
static void a_large_page_is_taken_by_clients(void **state)
{
    struct hp_arena *arena = hp_arena_new(BUDGET);
    struct hp_buf bytes = HP_BUF_INIT, lease = HP_BUF_INIT, label = HP_BUF_INIT;
    struct hp_status status;
    Holdfast__V1__ListLeasesResponse *page;

    (void)state;
    put_text(&label, 1, "name");
    put_text(&label, 2, "value");
    put_text(&lease, 1, "resource");
    for (int i = 0; i < 50; i++)
        put_bytes(&lease, 9, label.data, label.len);
    for (int i = 0; i < 1000; i++)
        put_bytes(&bytes, 1, lease.data, lease.len);
    assert_null(hp_unpack(arena, &holdfast__v1__list_leases_response__descriptor, bytes.data, bytes.len, &status));
    assert_int_equal(status.reason, HP_R_LIMIT);
    page = (Holdfast__V1__ListLeasesResponse *)hp_unpack_within(
        &hp_wire_reply, arena, &holdfast__v1__list_leases_response__descriptor, bytes.data, bytes.len, &status);
    assert_non_null(page);
    assert_int_equal(page->n_leases, 1000);
    assert_int_equal(page->leases[999]->n_labels, 50);
    hp_arena_free(arena);
    hp_buf_release(&bytes);
    hp_buf_release(&lease);
    hp_buf_release(&label);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_copied),
        cmocka_unit_test(half_an_envelope_is_refused),
        cmocka_unit_test(calls_are_counted),
        cmocka_unit_test(an_oversized_payload_spoils_no_other),
        cmocka_unit_test(strings_of_a_call_are_checked),
        cmocka_unit_test(replies_come_back),
        cmocka_unit_test(the_code_of_a_reply_decides),
        cmocka_unit_test(without_memory_a_reply_is_empty),
        cmocka_unit_test(a_large_page_is_taken_by_clients),
    };

    return cmocka_run_group_tests_name("proto/envelope", tests, NULL, NULL);
}
