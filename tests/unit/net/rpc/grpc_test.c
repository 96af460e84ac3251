/* grpc_test.c - gRPC calls over exchanges: what a request may be, what is answered, and what becomes of calls whose callers go. */
#include "unit/net/rpc/fake.h"

#include <stdlib.h>
#include <string.h>

#include "net/gzip.h"
#include "proto/c/grpc.h"
#include "proto/c/status.h"
#include "proto/c/wire.h"

#define GRPC "content-type: application/grpc\n"

static struct fake_exchange *call(const char *path, const char *headers, const void *body, size_t len)
{
    struct fake_exchange *f = fake_request(2, "POST", path, headers);
    fake_body(f, body, len, true);
    return f;
}

static struct fake_exchange *echo(const char *headers, const char *value)
{
    struct hp_buf body = HP_BUF_INIT;
    fake_add_message(&body, value);
    struct fake_exchange *f = call(ECHO, headers, body.data, body.len);
    hp_buf_release(&body);
    return f;
}

/* An error without a response: Trailers-Only, with details if the status has any. */
static void assert_error(struct fake_exchange *f, enum hp_code code, enum hp_reason reason)
{
    struct hp_buf packed = HP_BUF_INIT;
    struct hp_status status;
    assert_int_equal(f->status, 200);
    assert_true(f->ended);
    assert_int_equal(f->body.len, 0);
    assert_int_equal(f->trailers.len, 0);
    assert_string_equal(fake_header(f, "content-type"), "application/grpc");
    assert_int_equal(atoi(fake_header(f, "grpc-status")), code);
    assert_non_null(fake_header(f, "grpc-message"));
    const char *details = fake_header(f, "grpc-status-details-bin");
    assert_int_equal(details != NULL, reason != HP_R_UNSPECIFIED);
    if (!details)
        return;
    assert_true(hp_base64_decode(&packed, details, strlen(details)));
    assert_null(strchr(details, '='));
    assert_true(hp_status_decode(packed.data, packed.len, &status));
    assert_int_equal(status.code, code);
    assert_int_equal(status.reason, reason);
    hp_buf_release(&packed);
}

/* ---- what a request may be ---- */

static void a_unary_call_is_answered(void **state)
{
    (void)state;
    struct fake_exchange *f = echo(GRPC, "hello");
    assert_int_equal(f->status, 200);
    assert_string_equal((char *)f->headers.data, "content-type: application/grpc\n");
    assert_string_equal((char *)f->trailers.data, "grpc-status: 0\n");
    assert_string_equal(fake_values(f), "hello|");
    f = echo("content-type: application/grpc+proto\nte: trailers\n", "again");
    assert_string_equal(fake_header(f, "content-type"), "application/grpc+proto");
    assert_string_equal(fake_values(f), "again|");
    f = echo("content-type: Application/GRPC;charset=x\n", "");
    assert_string_equal(fake_values(f), "|");
}

static void a_body_may_come_in_any_pieces(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    (void)state;
    fake_add_message(&body, "in pieces");
    for (size_t piece = 1; piece <= body.len; piece++) {
        struct fake_exchange *f = fake_request(2, "POST", ECHO, GRPC);
        for (size_t at = 0; at < body.len; at += piece)
            fake_body(f, body.data + at, body.len - at < piece ? body.len - at : piece, false);
        assert_int_equal(f->status, 0);
        fake_body(f, NULL, 0, true);
        assert_string_equal(fake_values(f), "in pieces|");
        assert_int_equal(f->consumed, body.len);
        fake_close(f, true);
    }
    hp_buf_release(&body);
}

static void what_is_no_call_is_refused_by_http(void **state)
{
    static const struct {
        int version;
        const char *method, *path, *headers;
        int status;
    } table[] = {
        {2, "POST", ECHO, "", 415},
        {2, "POST", ECHO, "content-type: application/grpc-web\n", 415},
        {2, "POST", ECHO, "content-type: application/grpc+json\n", 415},
        {2, "POST", ECHO, "content-type: text/plain\n", 415},
        {2, "POST", ECHO, "content-type: ;\n", 415},
        {2, "POST", "/", "content-type: application/x-www-form-urlencoded\n", 415},
        {2, "GET", ECHO, GRPC, 405},
        {2, "OPTIONS", ECHO, GRPC, 405},
        {2, "HEAD", ECHO, GRPC, 405},
        {2, "GET", "/favicon.ico", "", 404},
        {1, "POST", ECHO, GRPC, 505},
        {1, "POST", BIDI, "content-type: application/connect+json\n", 505},
    };
    struct net_rpc_stats stats;
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake_exchange *f = fake_request(table[i].version, table[i].method, table[i].path, table[i].headers);
        assert_int_equal(f->status, table[i].status);
        assert_true(f->ended);
        assert_int_equal(f->body.len == 0, !strcmp(table[i].method, "HEAD"));
        assert_int_equal(fake_header(f, "allow") != NULL, table[i].status == 405);
        f->ended = false; /* its body may be on its way still */
        fake_body(f, "more", 4, true);
        assert_int_equal(f->consumed, 4);
    }
    net_rpc_stats(fake.rpc, &stats);
    assert_int_equal(stats.not_calls, sizeof(table) / sizeof(table[0]));
    assert_int_equal(stats.grpc + stats.connect, 0);
}

static void an_unknown_method_is_given_out_at_once(void **state)
{
    struct hp_status status;
    (void)state;
    fake.hold = true;
    struct fake_exchange *f = fake_request(2, "POST", "/test.Service/None", GRPC);
    assert_int_equal(fake.n_calls, 1);
    assert_string_equal(fake.calls[0]->method, "/test.Service/None");
    assert_int_equal(fake.calls[0]->payload_len, 0);
    fake_body(f, "whatever that is", 16, false);
    hp_status_set(&status, HP_R_NO_SUCH_METHOD, "no method");
    fake.calls[0]->answer(fake.calls[0], &status, NULL);
    fake.calls[0] = NULL;
    assert_error(f, HP_UNIMPLEMENTED, HP_R_NO_SUCH_METHOD);
}

static void a_timeout_is_the_deadline(void **state)
{
    static const struct {
        const char *header;
        int64_t ms;
    } table[] = {
        {GRPC, 30000},
        {GRPC "grpc-timeout: 1500m\n", 1500},
        {GRPC "grpc-timeout: 2S\n", 2000},
        {GRPC "grpc-timeout: 1n\n", 1},
        {GRPC "grpc-timeout: 99999999H\n", 3600000},
    };
    (void)state;
    fake.hold = true;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        echo(table[i].header, "x");
        assert_int_equal(fake.calls[i]->received_ms, fake.now);
        assert_int_equal(fake.calls[i]->deadline_ms, fake.now + table[i].ms);
    }
    assert_error(echo(GRPC "grpc-timeout: 1s\n", "x"), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    assert_error(echo(GRPC "grpc-timeout: -1S\n", "x"), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    assert_error(echo(GRPC "grpc-timeout: 0m\n", "x"), HP_DEADLINE_EXCEEDED, HP_R_UNSPECIFIED);
}

static void headers_are_metadata(void **state)
{
    const char *key = NULL;
    (void)state;
    fake.hold = true;
    echo(GRPC "authorization: Bearer hfk_1\nx-bin: AAE\n", "x");
    const struct hp_call *c = fake.calls[0];
    assert_int_equal(c->n_metadata, 3);
    for (size_t i = 0; i < c->n_metadata; i++)
        if (!strcmp(c->metadata[2 * i], "authorization"))
            key = c->metadata[2 * i + 1];
    assert_string_equal(key, "Bearer hfk_1");
    assert_string_equal(c->metadata[4], "x-bin");
    assert_string_equal(c->metadata[5], "AAE");
    assert_string_equal(c->peer->transport, "grpc");
    assert_string_equal(c->peer->address, "192.0.2.7:40312");
    assert_false(c->peer->local);
}

static void a_request_is_exactly_one_message(void **state)
{
    struct hp_buf two = HP_BUF_INIT;
    (void)state;
    fake_add_message(&two, "one");
    size_t one = two.len;
    fake_add_message(&two, "two");
    assert_error(call(ECHO, GRPC, NULL, 0), HP_UNIMPLEMENTED, HP_R_MALFORMED);
    assert_error(call(ECHO, GRPC, two.data, two.len), HP_UNIMPLEMENTED, HP_R_MALFORMED);
    assert_error(call(ECHO, GRPC, two.data, one - 1), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    assert_error(call(ECHO, GRPC, two.data, 3), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    assert_error(call(ECHO, GRPC, "\2\0\0\0\0", 5), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    hp_buf_release(&two);
}

static void a_message_is_no_larger_than_its_limit(void **state)
{
    static const uint8_t above[] = {0, 0, 0x40, 0, 1};
    size_t len = HP_REQUEST_MAX + HP_GRPC_PREFIX;
    uint8_t *body = calloc(1, len);
    (void)state;
    struct fake_exchange *f = call(ECHO, GRPC, above, sizeof(above)); /* before any of it has come */
    assert_error(f, HP_INVALID_ARGUMENT, HP_R_LIMIT);
    assert_string_equal(fake_header(f, "grpc-message"), "payload: \"4194305 bytes\" is outside its limit; wanted: 4194304 bytes");

    fake.hold = true;
    hp_grpc_prefix(body, false, HP_REQUEST_MAX);
    f = fake_request(2, "POST", ECHO, GRPC);
    fake_body(f, body, len / 2, false);
    assert_true(f->held > HP_REQUEST_MAX / 3 && f->held <= len);
    fake_body(f, body + len / 2, len - len / 2, true);
    assert_int_equal(fake.n_calls, 1);
    assert_int_equal(fake.calls[0]->payload_len, HP_REQUEST_MAX);
    assert_int_equal(f->consumed, len);
    free(body);
}

/* What one leaves is nothing to the next, also not of its budget. */
static void calls_follow_each_other(void **state)
{
    char value[200];
    (void)state;
    for (int i = 0; i < 20000; i++) {
        snprintf(value, sizeof(value), "%0*d", i % 190, i);
        struct fake_exchange *f = echo(GRPC, value);
        assert_true(f->body.len > strlen(value));
        assert_memory_equal(f->body.data + f->body.len - strlen(value), value, strlen(value));
        fake_forget(f);
    }
}

/* ---- compression ---- */

static void add_zipped(struct hp_buf *out, const void *message, size_t len)
{
    struct net_gzip *gzip = net_gzip_new();
    struct hp_buf zipped = HP_BUF_INIT;
    uint8_t prefix[HP_GRPC_PREFIX];
    assert_true(net_gzip_close(gzip, message, len, &zipped));
    hp_grpc_prefix(prefix, true, zipped.len);
    hp_buf_add(out, prefix, sizeof(prefix));
    hp_buf_add(out, zipped.data, zipped.len);
    hp_buf_release(&zipped);
    net_gzip_free(gzip);
}

static char *long_value(size_t len)
{
    char *value = malloc(len + 1);
    memset(value, 'v', len);
    value[len] = '\0';
    return value;
}

static void gzip_is_understood(void **state)
{
    struct hp_buf plain = HP_BUF_INIT, body = HP_BUF_INIT;
    char *value = long_value(300);
    (void)state;
    fake_add_message(&plain, value);
    add_zipped(&body, plain.data + HP_GRPC_PREFIX, plain.len - HP_GRPC_PREFIX);
    struct fake_exchange *f = call(ECHO, GRPC "grpc-encoding: gzip\n", body.data, body.len);
    assert_memory_equal(fake_values(f), value, 300);
    /* A message may be plain all the same, but a flag without an encoding means nothing. */
    f = call(ECHO, GRPC "grpc-encoding: gzip\n", plain.data, plain.len);
    assert_memory_equal(fake_values(f), value, 300);
    assert_error(call(ECHO, GRPC, body.data, body.len), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    body.data[HP_GRPC_PREFIX + 14] ^= 0xFF;
    assert_error(call(ECHO, GRPC "grpc-encoding: gzip\n", body.data, body.len), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    f = call(ECHO, GRPC "grpc-encoding: br\n", body.data, body.len);
    assert_error(f, HP_UNIMPLEMENTED, HP_R_MALFORMED);
    assert_string_equal(fake_header(f, "grpc-accept-encoding"), "identity,gzip");
    hp_buf_release(&plain);
    hp_buf_release(&body);
    free(value);
}

static void a_bomb_is_no_larger_than_the_limit(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    uint8_t *zeros = calloc(1, 2 * HP_REQUEST_MAX);
    (void)state;
    add_zipped(&body, zeros, 2 * HP_REQUEST_MAX);
    assert_true(body.len < HP_REQUEST_MAX / 100);
    struct fake_exchange *f = call(ECHO, GRPC "grpc-encoding: gzip\n", body.data, body.len);
    assert_error(f, HP_INVALID_ARGUMENT, HP_R_LIMIT);
    hp_buf_release(&body);
    free(zeros);
}

static void an_answer_is_compressed_where_that_is_wanted_and_pays(void **state)
{
    char *value = long_value(1100);
    (void)state;
    struct fake_exchange *f = echo(GRPC "grpc-accept-encoding: identity, deflate, gzip\n", value);
    assert_string_equal(fake_header(f, "grpc-encoding"), "gzip");
    assert_true(f->body.len < 100);
    assert_int_equal(f->body.data[0], 1);
    f = echo(GRPC, value);
    assert_null(fake_header(f, "grpc-encoding"));
    assert_int_equal(f->body.data[0], 0);
    f = echo(GRPC "grpc-accept-encoding: identity,gzip;q=0\n", value);
    assert_null(fake_header(f, "grpc-encoding"));
    f = echo(GRPC "grpc-accept-encoding: gzip\n", "short");
    assert_null(fake_header(f, "grpc-encoding"));
    assert_string_equal(fake_values(f), "short|");
    free(value);
}

/* ---- errors ---- */

static void errors_are_trailers_alone(void **state)
{
    struct hp_status status;
    (void)state;
    hp_status_set(&status, HP_R_STALE_TOKEN, "100%% stale: caf\xC3\xA9\n");
    hp_status_meta(&status, "fence", "%d", 7);
    status.retry_ms = 1500;
    snprintf(status.field, sizeof(status.field), "items[3].token");
    fake.fail = &status;
    struct fake_exchange *f = echo(GRPC, "x");
    assert_error(f, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN);
    assert_string_equal(fake_header(f, "grpc-message"), "100%25 stale: caf%C3%A9%0A");
    memset(&status, 0, sizeof(status));
    status.code = HP_DEADLINE_EXCEEDED;
    snprintf(status.message, sizeof(status.message), "late");
    assert_error(echo(GRPC, "x"), HP_DEADLINE_EXCEEDED, HP_R_UNSPECIFIED);
}

/* The longest there is stays well below what clients take as a header. */
static void headers_of_errors_are_bounded(void **state)
{
    struct hp_status status;
    char text[400], limit[100];
    (void)state;
    memset(text, 1, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memset(limit, 'l', sizeof(limit) - 1);
    limit[sizeof(limit) - 1] = '\0';
    hp_status_bad_field(&status, HP_R_LIMIT, text, text, 399, limit);
    hp_status_set(&status, HP_R_LIMIT, "%s", text);
    for (int i = 0; i < HP_STATUS_META; i++)
        hp_status_meta(&status, (const char *const[]){"a", "b", "c", "d"}[i], "%s", limit);
    memset(status.field, 'f', sizeof(status.field) - 1);
    fake.fail = &status;
    struct fake_exchange *f = echo(GRPC, "x");
    assert_error(f, HP_INVALID_ARGUMENT, HP_R_LIMIT);
    assert_true(f->headers.len < 6000);
}

static void an_answer_beyond_its_limit_is_an_unknown_outcome(void **state)
{
    char *value = long_value(2000);
    (void)state;
    fake.cfg.reply_max = 1000;
    fake_open();
    assert_error(echo(GRPC, value), HP_UNKNOWN, HP_R_OUTCOME_LOST);
    assert_string_equal(fake_values(echo(GRPC, "short")), "short|");
    free(value);
}

static void calls_are_bounded(void **state)
{
    struct net_rpc_stats stats;
    (void)state;
    fake.cfg.max_calls = 3;
    fake_open();
    fake.hold = true;
    for (int i = 0; i < 3; i++)
        echo(GRPC, "x");
    assert_error(echo(GRPC, "x"), HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
    assert_int_equal(fake.n_calls, 3);
    net_rpc_stats(fake.rpc, &stats);
    assert_int_equal(stats.grpc, 4);
    assert_int_equal(stats.refused, 1);
}

/* ---- callers that go ---- */

static void a_call_learns_that_its_caller_has_gone(void **state)
{
    struct net_rpc_stats stats;
    (void)state;
    fake.hold = true;
    struct fake_exchange *f = echo(GRPC, "x");
    fake_close(f, false);
    assert_int_equal(fake.n_gone, 1);
    assert_int_equal(fake.calls[0]->n_metadata, 0);
    assert_string_equal(fake.calls[0]->method, ECHO);
    assert_string_equal(fake.calls[0]->peer->transport, "grpc");
    assert_false(fake.calls[0]->peer->local);
    fake_answer(fake.calls[0], "to nobody");
    fake.answer_when_gone = true;
    fake_close(echo(GRPC, "x"), false);
    assert_int_equal(fake.n_gone, 2);
    fake.n_calls = 0;
    f = fake_request(2, "POST", ECHO, GRPC); /* before it was given out */
    fake_body(f, "\0\0\0", 3, false);
    fake_close(f, false);
    fake_turn();
    assert_int_equal(fake.n_gone, 2);
    assert_int_equal(fake.n_calls, 0);
    net_rpc_stats(fake.rpc, &stats);
    assert_int_equal(stats.cancelled, 3);
    assert_int_equal(stats.in_flight, 0);
}

static void an_answered_call_does_not_care(void **state)
{
    (void)state;
    fake.hold = true;
    struct fake_exchange *f = echo(GRPC, "x");
    fake_answer(fake.calls[0], "y");
    fake.n_calls = 0;
    fake_close(f, false);
    fake_turn();
    assert_int_equal(fake.n_gone, 0);
}

/* `gone` doesn't come while the service is in the middle of sending. */
static void a_connection_that_breaks_under_a_message(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    (void)state;
    fake_add_message(&body, "x");
    struct fake_exchange *f = call(STREAM, GRPC, body.data, body.len);
    f->close_in_write = true;
    assert_true(fake_send(fake.calls[0], "one"));
    assert_int_equal(fake.n_gone, 0);
    assert_false(fake_send(fake.calls[0], "two"));
    fake_turn();
    assert_int_equal(fake.n_gone, 1);
    fake.hold = true;
    f = echo(GRPC, "x");
    f->close_in_write = true;
    fake_answer(fake.calls[1], "breaks");
    fake.n_calls = 1;
    fake_turn();
    assert_int_equal(fake.n_gone, 1);
    hp_buf_release(&body);
}

static void calls_may_outlive_the_port(void **state)
{
    (void)state;
    fake.hold = true;
    struct fake_exchange *f = echo(GRPC, "x");
    fake_close(f, false);
    net_rpc_free(fake.rpc);
    fake.rpc = NULL;
    fake_answer(fake.calls[0], "to nobody");
    fake.n_calls = 0;
}

/* ---- streams ---- */

static struct fake_exchange *stream(const char *headers)
{
    struct hp_buf body = HP_BUF_INIT;
    fake_add_message(&body, "x");
    struct fake_exchange *f = call(STREAM, headers, body.data, body.len);
    hp_buf_release(&body);
    return f;
}

static void a_stream_is_sent_as_it_comes(void **state)
{
    (void)state;
    struct fake_exchange *f = stream(GRPC);
    assert_int_equal(f->status, 200); /* whoever waits for it sees that it has begun */
    assert_int_equal(fake.calls[0]->deadline_ms, INT64_MAX);
    assert_true(fake_send(fake.calls[0], "one"));
    assert_true(fake_send(fake.calls[0], "two"));
    assert_string_equal(fake_values(f), "one|two|");
    fake.calls[0]->answer(fake.calls[0], NULL, NULL);
    assert_string_equal((char *)f->trailers.data, "grpc-status: 0\n");
    fake.n_calls = 0;
}

static void a_stream_waits_for_its_reader(void **state)
{
    (void)state;
    struct fake_exchange *f = stream(GRPC);
    f->room = 10;
    assert_true(fake_send(fake.calls[0], "more than ten bytes"));
    assert_false(fake_send(fake.calls[0], "not taken"));
    assert_int_equal(fake.n_writable, 0);
    fake_read(f);
    assert_int_equal(fake.n_writable, 1);
    assert_true(fake_send(fake.calls[0], "now"));
    assert_string_equal(fake_values(f), "more than ten bytes|now|");
}

static void a_stream_may_end_with_an_error(void **state)
{
    struct hp_status status;
    (void)state;
    struct fake_exchange *f = stream(GRPC);
    fake_send(fake.calls[0], "one");
    hp_status_set(&status, HP_R_DRAINING, NULL);
    fake.calls[0]->answer(fake.calls[0], &status, NULL);
    fake.n_calls = 0;
    assert_string_equal(fake_trailer(f, "grpc-status"), "14");
    assert_non_null(fake_trailer(f, "grpc-status-details-bin"));
    fake.fail = &status;
    assert_error(stream(GRPC), HP_UNAVAILABLE, HP_R_DRAINING);
}

static void a_stream_has_a_deadline_if_it_names_one(void **state)
{
    (void)state;
    struct fake_exchange *f = stream(GRPC "grpc-timeout: 1S\n");
    fake_advance(999);
    assert_false(f->ended);
    fake_advance(1);
    assert_true(f->ended);
    assert_string_equal(fake_trailer(f, "grpc-status"), "4");
    assert_int_equal(fake.n_gone, 1);
    assert_false(fake_send(fake.calls[0], "late"));
    fake_close(f, true);
    assert_int_equal(fake.n_gone, 1);
}

static void both_sides_may_stream(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    (void)state;
    struct fake_exchange *f = fake_request(2, "POST", BIDI, GRPC);
    assert_int_equal(fake.n_calls, 1); /* as soon as it begins */
    fake_add_message(&body, "one");
    fake_add_message(&body, "two");
    for (size_t i = 0; i < body.len; i++)
        fake_body(f, body.data + i, 1, false);
    assert_string_equal((char *)fake.messages.data, "one|two|");
    assert_string_equal(fake_values(f), "one|two|");
    assert_int_equal(f->consumed, body.len);
    fake_body(f, body.data, body.len, true);
    assert_string_equal(fake_values(f), "one|two|one|two|");
    assert_int_equal(fake.n_ends, 1);
    fake.calls[0]->answer(fake.calls[0], NULL, NULL);
    fake.n_calls = 0;
    assert_string_equal((char *)f->trailers.data, "grpc-status: 0\n");
    hp_buf_release(&body);
}

static void who_does_not_read_is_not_read(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    (void)state;
    for (int i = 0; i < 4; i++)
        fake_add_message(&body, "message");
    struct fake_exchange *f = fake_request(2, "POST", BIDI, GRPC);
    f->room = 1;
    fake_body(f, body.data, body.len - 3, false);
    fake_body(f, body.data + body.len - 3, 3, true);
    assert_string_equal(fake_values(f), "message|");
    assert_int_equal(f->consumed, body.len / 4);
    fake_read(f);
    assert_string_equal(fake_values(f), "message|message|");
    assert_int_equal(f->consumed, body.len / 2);
    assert_int_equal(fake.n_ends, 0);
    f->room = 1000;
    fake_read(f);
    assert_string_equal((char *)fake.messages.data, "message|message|message|message|");
    assert_int_equal(f->consumed, body.len);
    assert_int_equal(fake.n_ends, 1);
    hp_buf_release(&body);
}

/* As when it is not known yet whether the caller may call. */
static void a_service_listens_when_it_likes(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    (void)state;
    fake.deaf = true;
    fake_add_message(&body, "one");
    fake_add_message(&body, "two");
    struct fake_exchange *f = fake_request(2, "POST", BIDI, GRPC);
    fake_body(f, body.data, body.len - 1, false);
    fake_body(f, body.data + body.len - 1, 1, true);
    assert_null(fake.messages.data);
    assert_int_equal(f->consumed, 0);
    fake_listen(fake.calls[0]);
    assert_string_equal((char *)fake.messages.data, "one|two|");
    assert_int_equal(f->consumed, body.len);
    assert_int_equal(fake.n_ends, 1);
    fake_request(2, "POST", BIDI, GRPC);
    fake_listen(fake.calls[1]); /* nothing has come */
    assert_int_equal(fake.n_ends, 1);
    hp_buf_release(&body);
}

static void what_is_no_message_ends_a_stream(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    (void)state;
    fake_add_message(&body, "one");
    struct fake_exchange *f = fake_request(2, "POST", BIDI, GRPC);
    fake_body(f, body.data, body.len, false);
    fake_body(f, "\7", 1, false);
    assert_string_equal(fake_trailer(f, "grpc-status"), "3");
    fake_turn();
    assert_int_equal(fake.n_gone, 1);
    f = fake_request(2, "POST", BIDI, GRPC);
    fake_body(f, body.data, body.len - 1, true);
    assert_string_equal(fake_trailer(f, "grpc-status"), "3");
    fake_turn();
    assert_int_equal(fake.n_gone, 2);
    assert_int_equal(fake.n_ends, 0);
    hp_buf_release(&body);
}

/* ---- memory ---- */

static size_t until_failure;

static void *failing_malloc(size_t size)
{
    return until_failure && --until_failure == 0 ? NULL : malloc(size);
}

/* Whichever allocation fails: the call is answered, with an error or well, and nothing is left. */
static void each_allocation_may_fail(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    struct hp_status status;
    int fine = 0;
    (void)state;
    fake_add_message(&body, "value");
    fake_teardown(NULL); /* one world a try */
    for (size_t n = 1; n < 40; n++) {
        fake_setup(NULL);
        hp_status_set(&status, HP_R_STALE_TOKEN, NULL);
        fake.fail = n % 2 ? &status : NULL;
        struct fake_exchange *f = fake_request(2, "POST", ECHO, GRPC);
        assert_true(hp_buf_reserve(&f->headers, 8000) && hp_buf_reserve(&f->trailers, 8000) && hp_buf_reserve(&f->body, 8000));
        hp_malloc_hook = failing_malloc;
        until_failure = n / 2 + 1;
        fake_body(f, body.data, body.len, true);
        fine += until_failure > 0;
        until_failure = 0;
        assert_int_equal(f->status, 200);
        assert_true(f->ended);
        assert_non_null(fake_header(f, "grpc-status") ? fake_header(f, "grpc-status") : fake_trailer(f, "grpc-status"));
        fake_teardown(NULL);
        hp_malloc_hook = NULL;
    }
    assert_true(fine > 2 && fine < 38);
    hp_buf_release(&body);
    fake_setup(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_unary_call_is_answered),
        TEST(a_body_may_come_in_any_pieces),
        TEST(what_is_no_call_is_refused_by_http),
        TEST(an_unknown_method_is_given_out_at_once),
        TEST(a_timeout_is_the_deadline),
        TEST(headers_are_metadata),
        TEST(a_request_is_exactly_one_message),
        TEST(a_message_is_no_larger_than_its_limit),
        TEST(calls_follow_each_other),
        TEST(gzip_is_understood),
        TEST(a_bomb_is_no_larger_than_the_limit),
        TEST(an_answer_is_compressed_where_that_is_wanted_and_pays),
        TEST(errors_are_trailers_alone),
        TEST(headers_of_errors_are_bounded),
        TEST(an_answer_beyond_its_limit_is_an_unknown_outcome),
        TEST(calls_are_bounded),
        TEST(a_call_learns_that_its_caller_has_gone),
        TEST(an_answered_call_does_not_care),
        TEST(a_connection_that_breaks_under_a_message),
        TEST(calls_may_outlive_the_port),
        TEST(a_stream_is_sent_as_it_comes),
        TEST(a_stream_waits_for_its_reader),
        TEST(a_stream_may_end_with_an_error),
        TEST(a_stream_has_a_deadline_if_it_names_one),
        TEST(both_sides_may_stream),
        TEST(who_does_not_read_is_not_read),
        TEST(a_service_listens_when_it_likes),
        TEST(what_is_no_message_ends_a_stream),
        TEST(each_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("net/rpc/grpc", tests, NULL, NULL);
}
