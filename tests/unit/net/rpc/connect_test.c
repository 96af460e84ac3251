/* connect_test.c - Connect calls over exchanges: unary and streams, JSON and protobuf, errors, encodings, CORS. */
#include "unit/net/rpc/fake.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "net/connect.h"
#include "net/gzip.h"
#include "proto/c/grpc.h"
#include "proto/c/status.h"

#define JSON        "content-type: application/json\n"
#define PROTO       "content-type: application/proto\n"
#define STREAM_JSON "content-type: application/connect+json\n"

static struct fake_exchange *call(const char *path, const char *headers, const void *body, size_t len)
{
    struct fake_exchange *f = fake_request(1, "POST", path, headers);
    fake_body(f, body, len, true);
    return f;
}

static struct fake_exchange *echo(const char *headers, const char *json)
{
    return call(ECHO, headers, json, strlen(json));
}

static const char *text_of(struct fake_exchange *f)
{
    assert_true(f->ended);
    assert_int_equal(f->trailers.len, 0); /* HTTP/1.1 has none */
    return f->body.data ? (const char *)f->body.data : "";
}

static void assert_error(struct fake_exchange *f, int status, const char *code, const char *reason)
{
    json_t *error = json_loads(text_of(f), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(error);
    assert_int_equal(f->status, status);
    assert_string_equal(fake_header(f, "content-type"), "application/json");
    assert_int_equal(atoi(fake_header(f, "content-length")), f->body.len);
    assert_string_equal(json_string_value(json_object_get(error, "code")), code);
    assert_true(json_string_length(json_object_get(error, "message")) > 0);
    json_t *detail = json_array_get(json_object_get(error, "details"), 0);
    assert_int_equal(detail != NULL, reason != NULL);
    if (reason) {
        struct hp_buf packed = HP_BUF_INIT;
        json_t *value = json_object_get(detail, "value"), *debug = json_object_get(detail, "debug");
        assert_string_equal(json_string_value(json_object_get(detail, "type")), "google.rpc.ErrorInfo");
        assert_null(strchr(json_string_value(value), '='));
        assert_true(hp_base64_decode(&packed, json_string_value(value), json_string_length(value)));
        assert_non_null(memmem(packed.data, packed.len, reason, strlen(reason)));
        assert_string_equal(json_string_value(json_object_get(debug, "reason")), reason);
        assert_string_equal(json_string_value(json_object_get(debug, "domain")), "holdfast");
        hp_buf_release(&packed);
    }
    json_decref(error);
}

/* ---- unary ---- */

static void json_is_answered_by_json(void **state)
{
    (void)state;
    struct fake_exchange *f = echo(JSON, "{\"value\": \"aGVsbG8=\"}");
    assert_int_equal(f->status, 200);
    assert_string_equal(text_of(f), "{\"value\":\"aGVsbG8=\"}");
    assert_string_equal((char *)f->headers.data, "content-type: application/json\ncontent-length: 20\n");
    f = echo("content-type: application/json; charset=utf-8\nconnect-protocol-version: 1\n", " {} ");
    assert_string_equal(text_of(f), "{}");
    f = fake_request(1, "POST", ECHO, JSON);
    fake_body(f, "{\"val", 5, false);
    fake_body(f, "ue\":\"\"", 6, false);
    fake_body(f, "}", 1, true);
    assert_string_equal(text_of(f), "{}");
    assert_int_equal(f->consumed, 12);
}

static void protobuf_is_answered_by_protobuf(void **state)
{
    struct hp_buf framed = HP_BUF_INIT;
    (void)state;
    fake_add_message(&framed, "hello");
    struct fake_exchange *f = call(ECHO, PROTO, framed.data + HP_GRPC_PREFIX, framed.len - HP_GRPC_PREFIX);
    assert_int_equal(f->status, 200);
    assert_int_equal(f->body.len, framed.len - HP_GRPC_PREFIX);
    assert_memory_equal(f->body.data, framed.data + HP_GRPC_PREFIX, f->body.len);
    assert_string_equal(fake_header(f, "content-type"), "application/proto");
    f = call(ECHO, PROTO, NULL, 0);
    assert_int_equal(f->status, 200);
    assert_int_equal(f->body.len, 0);
    hp_buf_release(&framed);
}

static void json_that_is_wrong_is_told_by_its_field(void **state)
{
    (void)state;
    struct fake_exchange *f = echo(JSON, "{\"token\": \"x\"}");
    assert_error(f, 400, "invalid_argument", "MALFORMED");
    assert_non_null(strstr(text_of(f), "token: \\\"x\\\" is not well-formed; wanted: a whole number"));
    assert_error(echo(JSON, "{\"tokens\": 1}"), 400, "invalid_argument", "MALFORMED");
    assert_error(echo(JSON, ""), 400, "invalid_argument", "MALFORMED");
    assert_error(echo(JSON, "[]"), 400, "invalid_argument", "MALFORMED");
    assert_error(echo(JSON, "{"), 400, "invalid_argument", "MALFORMED");
    assert_int_equal(fake.n_calls, 0);
}

static void each_code_has_its_http_status(void **state)
{
    static const struct {
        enum hp_code code;
        const char *name;
        int http;
    } table[] = {
        {HP_CANCELLED, "canceled", 499},
        {HP_UNKNOWN, "unknown", 500},
        {HP_INVALID_ARGUMENT, "invalid_argument", 400},
        {HP_DEADLINE_EXCEEDED, "deadline_exceeded", 504},
        {HP_NOT_FOUND, "not_found", 404},
        {HP_ALREADY_EXISTS, "already_exists", 409},
        {HP_PERMISSION_DENIED, "permission_denied", 403},
        {HP_RESOURCE_EXHAUSTED, "resource_exhausted", 429},
        {HP_FAILED_PRECONDITION, "failed_precondition", 400},
        {HP_ABORTED, "aborted", 409},
        {HP_OUT_OF_RANGE, "out_of_range", 400},
        {HP_UNIMPLEMENTED, "unimplemented", 501},
        {HP_INTERNAL, "internal", 500},
        {HP_UNAVAILABLE, "unavailable", 503},
        {HP_DATA_LOSS, "data_loss", 500},
        {HP_UNAUTHENTICATED, "unauthenticated", 401},
    };
    struct hp_status status = {.message = "why"};
    (void)state;
    fake.fail = &status;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        status.code = table[i].code;
        assert_error(echo(JSON, "{}"), table[i].http, table[i].name, NULL);
    }
    hp_status_set(&status, HP_R_NOT_HELD, "\"gone\"");
    assert_error(echo(JSON, "{}"), 400, "failed_precondition", "NOT_HELD");
    assert_error(call(ECHO, PROTO, NULL, 0), 400, "failed_precondition", "NOT_HELD");
    assert_string_equal(net_connect_code((enum hp_code)77), "unknown");
}

static void details_are_those_of_grpc(void **state)
{
    struct hp_status status;
    struct hp_buf out = HP_BUF_INIT;
    (void)state;
    hp_status_bad_field(&status, HP_R_LIMIT, "ttl_ms", "1", 1, "100 to 86400000");
    status.retry_ms = 1500;
    net_connect_error(&out, &status);
    json_t *error = json_loads((char *)out.data, 0, NULL), *details = json_object_get(error, "details");
    assert_int_equal(json_array_size(details), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(details, 1), "type")), "google.rpc.RetryInfo");
    assert_non_null(strstr((char *)out.data, "\"retryDelay\":\"1.500s\""));
    assert_string_equal(json_string_value(json_object_get(json_array_get(details, 2), "type")), "google.rpc.BadRequest");
    assert_non_null(strstr((char *)out.data, "\"fieldViolations\":[{\"field\":\"ttl_ms\""));
    json_decref(error);
    hp_buf_release(&out);
}

static void headers_are_looked_at(void **state)
{
    (void)state;
    assert_error(echo(JSON "connect-protocol-version: 2\n", "{}"), 400, "invalid_argument", "MALFORMED");
    assert_error(echo(JSON "connect-timeout-ms: 1s\n", "{}"), 400, "invalid_argument", "MALFORMED");
    assert_error(echo(JSON "connect-timeout-ms: 12345678901\n", "{}"), 400, "invalid_argument", "MALFORMED");
    assert_error(echo(JSON "connect-timeout-ms: 0\n", "{}"), 504, "deadline_exceeded", NULL);
    assert_error(echo(JSON "content-encoding: br\n", "{}"), 501, "unimplemented", "MALFORMED");
    assert_error(call(STREAM, JSON, "{}", 2), 501, "unimplemented", "NO_SUCH_METHOD");
    assert_int_equal(call(ECHO, STREAM_JSON, NULL, 0)->status, 415);
    fake.hold = true;
    echo(JSON "connect-timeout-ms: 1500\n", "{}");
    echo(JSON "connect-timeout-ms: 9999999999\n", "{}");
    echo(JSON, "{}");
    assert_int_equal(fake.calls[0]->deadline_ms, fake.now + 1500);
    assert_int_equal(fake.calls[1]->deadline_ms, fake.now + 3600000);
    assert_int_equal(fake.calls[2]->deadline_ms, fake.now + 30000);
    assert_string_equal(fake.calls[0]->peer->transport, "connect");
}

static void an_unknown_method_is_unimplemented(void **state)
{
    struct hp_status status;
    (void)state;
    hp_status_set(&status, HP_R_NO_SUCH_METHOD, NULL);
    fake.fail = &status;
    assert_error(call("/test.Service/None", JSON, "{}", 2), 501, "unimplemented", "NO_SUCH_METHOD");
    assert_int_equal(fake_request(1, "GET", "/test.Service/None", "")->status, 404);
    assert_int_equal(fake_request(1, "GET", ECHO, "")->status, 405);
}

static void a_body_is_no_larger_than_its_limit(void **state)
{
    enum { LIMIT = 1000 };
    char body[2 * LIMIT + 1];
    (void)state;
    fake.cfg.request_max = LIMIT;
    fake_open();
    memset(body, ' ', sizeof(body));
    memcpy(body, "{}", 2);
    assert_string_equal(text_of(call(ECHO, JSON, body, 2 * LIMIT)), "{}");
    assert_error(call(ECHO, JSON, body, 2 * LIMIT + 1), 400, "invalid_argument", "LIMIT");
    assert_error(call(ECHO, PROTO, body, LIMIT + 1), 400, "invalid_argument", "LIMIT");
    snprintf(body, sizeof(body), "{\"value\":\"%0*d\"}", LIMIT * 4 / 3 / 4 * 4 + 8, 0); /* base64 of more than LIMIT bytes */
    assert_error(call(ECHO, JSON, body, strlen(body)), 400, "invalid_argument", "LIMIT");
}

static void gzip_is_understood(void **state)
{
    struct net_gzip *gzip = net_gzip_new();
    struct hp_buf zipped = HP_BUF_INIT, plain = HP_BUF_INIT;
    char body[2000];
    (void)state;
    snprintf(body, sizeof(body), "{\"value\":\"%01200d\"}", 0);
    assert_true(net_gzip_close(gzip, body, strlen(body), &zipped));
    struct fake_exchange *f =
        call(ECHO, JSON "content-encoding: gzip\naccept-encoding: br;q=1.0, gzip;q=0.8\n", zipped.data, zipped.len);
    assert_int_equal(f->status, 200);
    assert_string_equal(fake_header(f, "content-encoding"), "gzip");
    assert_int_equal(net_gzip_open(gzip, f->body.data, f->body.len, sizeof(body), &plain), NET_GUNZIP_OK);
    assert_string_equal((char *)plain.data, body);
    f = call(ECHO, JSON "content-encoding: gzip\n", zipped.data, zipped.len);
    assert_null(fake_header(f, "content-encoding"));
    assert_string_equal(text_of(f), body);
    assert_string_equal(text_of(call(ECHO, JSON "content-encoding: identity\n", "{}", 2)), "{}");
    assert_error(call(ECHO, JSON "content-encoding: gzip\n", "{}", 2), 400, "invalid_argument", "MALFORMED");
    hp_buf_release(&zipped);
    hp_buf_release(&plain);
    net_gzip_free(gzip);
}

/* ---- streams ---- */

static void add_frame(struct hp_buf *out, const char *text)
{
    uint8_t prefix[HP_GRPC_PREFIX];
    hp_grpc_prefix(prefix, false, strlen(text));
    hp_buf_add(out, prefix, sizeof(prefix));
    hp_buf_addstr(out, text);
}

/* The frames as text: flag and contents. */
static const char *frames_of(const struct fake_exchange *f)
{
    static char text[2000];
    size_t n = 0, len;
    for (const uint8_t *at = f->body.data; at && at < f->body.data + f->body.len; at += HP_GRPC_PREFIX + len) {
        len = (size_t)at[3] << 8 | at[4];
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d%.*s", at[0], (int)len, (const char *)at + HP_GRPC_PREFIX);
    }
    text[n] = '\0';
    return text;
}

static struct fake_exchange *stream(const char *headers)
{
    struct hp_buf body = HP_BUF_INIT;
    add_frame(&body, "{\"value\":\"eA==\"}");
    struct fake_exchange *f = call(STREAM, headers, body.data, body.len);
    hp_buf_release(&body);
    return f;
}

static void streams_are_framed(void **state)
{
    struct hp_status status;
    (void)state;
    struct fake_exchange *f = stream(STREAM_JSON);
    assert_int_equal(f->status, 200);
    assert_string_equal((char *)f->headers.data, "content-type: application/connect+json\n");
    assert_true(fake_send(fake.calls[0], "hello"));
    fake.calls[0]->answer(fake.calls[0], NULL, NULL);
    assert_string_equal(frames_of(f), "0{\"value\":\"aGVsbG8=\"}2{}");
    assert_true(f->ended);
    f = stream(STREAM_JSON);
    hp_status_set(&status, HP_R_DRAINING, "ends");
    status.reason = HP_R_UNSPECIFIED;
    status.retry_ms = 0;
    fake_send(fake.calls[1], "x");
    fake.calls[1]->answer(fake.calls[1], &status, NULL);
    assert_string_equal(frames_of(f), "0{\"value\":\"eA==\"}2{\"error\":{\"code\":\"unavailable\",\"message\":\"ends\"}}");
    fake.n_calls = 0;
    fake.fail = &status; /* errors too are 200, in the last frame */
    f = stream(STREAM_JSON);
    assert_int_equal(f->status, 200);
    assert_string_equal(frames_of(f), "2{\"error\":{\"code\":\"unavailable\",\"message\":\"ends\"}}");
    f = call(STREAM, STREAM_JSON, "\0\0\0\0\1{", 6);
    assert_int_equal(f->status, 200);
    assert_non_null(strstr(frames_of(f), "invalid_argument"));
    f = call(STREAM, STREAM_JSON, NULL, 0);
    assert_non_null(strstr(frames_of(f), "exactly one message"));
}

static void both_sides_may_stream_over_http_2(void **state)
{
    struct hp_buf body = HP_BUF_INIT;
    (void)state;
    struct fake_exchange *f = fake_request(2, "POST", BIDI, STREAM_JSON);
    add_frame(&body, "{\"value\":\"b25l\"}");
    add_frame(&body, "{\"value\":\"dHdv\"}");
    fake_body(f, body.data, body.len - 4, false);
    fake_body(f, body.data + body.len - 4, 4, true);
    assert_string_equal((char *)fake.messages.data, "one|two|");
    assert_int_equal(fake.n_ends, 1);
    fake.calls[0]->answer(fake.calls[0], NULL, NULL);
    fake.n_calls = 0;
    assert_string_equal(frames_of(f), "0{\"value\":\"b25l\"}0{\"value\":\"dHdv\"}2{}");
    hp_buf_release(&body);
}

/* ---- CORS ---- */

static void pages_may_not_call_unless_they_may(void **state)
{
    (void)state;
    struct fake_exchange *f = echo(JSON "origin: https://a.example\n", "{}");
    assert_null(fake_header(f, "access-control-allow-origin"));
    assert_int_equal(fake_request(1, "OPTIONS", ECHO, "origin: https://a.example\n")->status, 405);
    fake.cfg.cors_origin = "https://a.example";
    fake_open();
    f = fake_request(1, "OPTIONS", ECHO, "origin: https://a.example\naccess-control-request-method: POST\n");
    assert_int_equal(f->status, 204);
    assert_true(f->ended);
    assert_string_equal(fake_header(f, "access-control-allow-origin"), "https://a.example");
    assert_string_equal(fake_header(f, "access-control-allow-methods"), "POST");
    assert_non_null(strstr(fake_header(f, "access-control-allow-headers"), "authorization"));
    f = echo(JSON "origin: https://a.example\n", "{}");
    assert_string_equal(fake_header(f, "access-control-allow-origin"), "https://a.example");
    assert_string_equal(fake_header(f, "vary"), "origin");
    assert_string_equal(fake_header(echo(JSON "origin: https://a.example\n", "{"), "access-control-allow-origin"),
                        "https://a.example");
    assert_null(fake_header(echo(JSON "origin: https://b.example\n", "{}"), "access-control-allow-origin"));
    assert_null(fake_header(echo(JSON, "{}"), "access-control-allow-origin"));
    assert_int_equal(fake_request(1, "OPTIONS", ECHO, "origin: https://b.example\n")->status, 405);
    fake.cfg.cors_origin = "*";
    fake_open();
    assert_string_equal(fake_header(echo(JSON "origin: https://b.example\n", "{}"), "access-control-allow-origin"), "*");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(json_is_answered_by_json),
        TEST(protobuf_is_answered_by_protobuf),
        TEST(json_that_is_wrong_is_told_by_its_field),
        TEST(each_code_has_its_http_status),
        TEST(details_are_those_of_grpc),
        TEST(headers_are_looked_at),
        TEST(an_unknown_method_is_unimplemented),
        TEST(a_body_is_no_larger_than_its_limit),
        TEST(gzip_is_understood),
        TEST(streams_are_framed),
        TEST(both_sides_may_stream_over_http_2),
        TEST(pages_may_not_call_unless_they_may),
    };
    return cmocka_run_group_tests_name("net/rpc/connect", tests, NULL, NULL);
}
