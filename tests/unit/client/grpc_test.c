/*
 * grpc_test.c - the client's transport over gRPC, against a server that is this test, frame by frame: what goes out for an
 * envelope, how the answers come together, and what is told of calls that weren't answered: surely unseen, or perhaps seen.
 */
#include "harness/harness.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/transport.h"
#include "proto/c/envelope.h"
#include "proto/c/grpc.h"
#include "proto/c/sp.h"
#include "proto/c/status.h"
#include "unit/client/h2.h"

enum { LONG_MS = 600000, SOON_MS = 300, BIG = 15 << 20 };

static int listener = -1;
static const char *url;
static struct hfi_transport *transport;
static struct h2_request request;

static void listen_here(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 20};
    socklen_t len = sizeof(address);
    if (listener >= 0)
        close(listener);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    url = t_printf("grpc://127.0.0.1:%d", ntohs(address.sin_port));
}

static void open_client(const char *urls)
{
    char why[256];
    if (hfi_transport_open(urls, NULL, &transport, why, sizeof(why)) != HFI_OPEN_OK)
        fail_msg("%s", why);
}

static void close_client(void)
{
    transport->stop(transport);
    transport->free(transport);
    transport = NULL;
}

/* A client, and its connection. */
static void connect_with(struct h2 *h2, uint32_t max_streams)
{
    listen_here();
    open_client(url);
    h2_accept(h2, accept4(listener, NULL, NULL, SOCK_CLOEXEC), NULL, max_streams);
}

/* ------------------------------------------------------------------------------------------------ envelopes */

struct sent {
    struct hfi_exchange exchange;
    atomic_int times;
    enum hfi_fate fate;
    struct hp_arena *arena;
    Holdfast__V1__ReplyEnvelope *replies; /* if ANSWERED */
};

static void on_done(struct hfi_exchange *exchange, enum hfi_fate fate, const void *data, size_t len)
{
    struct sent *sent = (struct sent *)exchange;
    struct hp_status status;
    sent->fate = fate;
    if (fate == HFI_ANSWERED) {
        sent->arena = hp_arena_new(len * 4 + (1 << 20));
        sent->replies = hp_replies_decode(sent->arena, data, len, &status);
    }
    atomic_fetch_add(&sent->times, 1);
}

struct sending {
    unsigned endpoint;
    int64_t send_ms, reply_ms, timeout_ms;
    const void *payload; /* "a", "b", … if NULL */
    size_t len;
    const char *key;
};

static struct sent *send_as(size_t n, const struct sending *how)
{
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call *calls = calloc(n, sizeof(*calls)), **pointers = calloc(n, sizeof(Holdfast__V1__Call *));
    Holdfast__V1__Call__MetadataEntry entry = HOLDFAST__V1__CALL__METADATA_ENTRY__INIT, *metadata[] = {&entry};
    struct sent *sent = calloc(1, sizeof(*sent));
    char *letters = malloc(n);
    entry.key = (char *)(uintptr_t) "authorization";
    entry.value = (char *)(uintptr_t)how->key;
    for (size_t i = 0; i < n; i++) {
        letters[i] = (char)('a' + i);
        holdfast__v1__call__init(&calls[i]);
        calls[i].method = (char *)(uintptr_t) "/holdfast.v1.LeaseService/Acquire";
        calls[i].timeout_ms = how->timeout_ms;
        calls[i].payload.data = how->payload ? (uint8_t *)(uintptr_t)how->payload : (uint8_t *)&letters[i];
        calls[i].payload.len = how->payload ? how->len : 1;
        calls[i].n_metadata = how->key ? 1 : 0;
        calls[i].metadata = metadata;
        pointers[i] = &calls[i];
    }
    envelope.n_calls = n;
    envelope.calls = pointers;
    const size_t len = holdfast__v1__call_envelope__get_packed_size(&envelope);
    uint8_t *bytes = malloc(len);
    holdfast__v1__call_envelope__pack(&envelope, bytes);
    sent->exchange.done = on_done;
    transport->send(transport, how->endpoint, bytes, len, how->send_ms ? how->send_ms : LONG_MS,
                    how->reply_ms ? how->reply_ms : LONG_MS, &sent->exchange);
    free(bytes);
    free(calls);
    free(pointers);
    free(letters);
    return sent;
}

static struct sent *send_calls(size_t n)
{
    return send_as(n, &(struct sending){0});
}

static bool is_done(void *arg)
{
    return atomic_load(&((struct sent *)arg)->times) > 0;
}

static void expect_fate(struct sent *sent, enum hfi_fate fate)
{
    assert_true(t_wait_for(is_done, sent, T_PATIENCE_MS));
    assert_int_equal(sent->fate, fate);
    assert_int_equal(atomic_load(&sent->times), 1);
    hp_arena_free(sent->arena);
    free(sent);
}

static struct hp_status *status_of(struct sent *sent, size_t i)
{
    static _Thread_local struct hp_status status;
    assert_true(t_wait_for(is_done, sent, T_PATIENCE_MS));
    assert_int_equal(sent->fate, HFI_ANSWERED);
    assert_non_null(sent->replies);
    assert_true(i < sent->replies->n_replies);
    hp_reply_status(sent->replies->replies[i], &status);
    return &status;
}

static void expect_payload(struct sent *sent, size_t i, const char *text)
{
    assert_int_equal(status_of(sent, i)->code, HP_OK);
    assert_int_equal(sent->replies->replies[i]->payload.len, strlen(text));
    assert_memory_equal(sent->replies->replies[i]->payload.data, text, strlen(text));
}

/* ------------------------------------------------------------------------------------------------ answers */

static void a_call_is_a_grpc_request(void **state)
{
    struct h2 h2;
    (void)state;
    connect_with(&h2, 0);
    struct sent *sent = send_as(1, &(struct sending){.timeout_ms = 2500, .key = "Bearer hfk_x"});
    h2_request(&h2, &request);
    assert_string_equal(request.method, "POST");
    assert_string_equal(request.scheme, "http");
    assert_string_equal(request.path, "/holdfast.v1.LeaseService/Acquire");
    assert_string_equal(request.authority, url + strlen("grpc://"));
    assert_string_equal(request.te, "trailers");
    assert_string_equal(request.type, "application/grpc");
    assert_string_equal(request.timeout, "2500m");
    assert_string_equal(request.authorization, "Bearer hfk_x");
    assert_string_equal((char *)request.message, "a");
    h2_answer(&h2, request.stream, "fine", 4);
    expect_payload(sent, 0, "fine");
    assert_false(sent->exchange.partly);
    expect_fate(sent, HFI_ANSWERED);
    sent = send_calls(1); /* without a key, and on the same connection */
    h2_request(&h2, &request);
    assert_string_equal(request.authorization, "");
    assert_string_equal(request.timeout, "");
    h2_answer(&h2, request.stream, "", 0);
    expect_payload(sent, 0, "");
    expect_fate(sent, HFI_ANSWERED);
    h2_close(&h2);
    close_client();
}

static void replies_stand_in_the_order_of_the_calls(void **state)
{
    struct h2 h2;
    int32_t streams[3];
    (void)state;
    connect_with(&h2, 0);
    struct sent *sent = send_calls(3);
    for (int i = 0; i < 3; i++) {
        h2_request(&h2, &request);
        assert_int_equal(request.message[0], 'a' + i);
        streams[i] = request.stream;
    }
    h2_answer(&h2, streams[2], "third", 5);
    h2_answer(&h2, streams[0], "first", 5);
    assert_false(is_done(sent));
    h2_answer(&h2, streams[1], "second", 6);
    expect_payload(sent, 0, "first");
    expect_payload(sent, 1, "second");
    expect_payload(sent, 2, "third");
    expect_fate(sent, HFI_ANSWERED);
    h2_close(&h2);
    close_client();
}

/* Of one call, to which the server says this. */
static void expect_status(struct h2 *h2, struct sent *sent, enum hp_code code, enum hp_reason reason, const char *says)
{
    const struct hp_status *status = status_of(sent, 0);
    (void)h2;
    assert_int_equal(status->code, code);
    assert_int_equal(status->reason, reason);
    t_contains(status->message, says);
    expect_fate(sent, HFI_ANSWERED);
}

#define GRPC ":status", "200", "content-type", "application/grpc+proto"

static void errors_keep_their_details(void **state)
{
    struct h2 h2;
    struct hp_status status;
    struct hp_buf details = HP_BUF_INIT, text = HP_BUF_INIT;
    (void)state;
    connect_with(&h2, 0);
    hp_status_set(&status, HP_R_STALE_TOKEN, "a newer token: 7 ä");
    hp_status_meta(&status, "fence", "7");
    assert_true(hp_status_encode(&status, &details));
    hp_base64_encode(&text, details.data, details.len);
    struct sent *sent = send_calls(1);
    h2_request(&h2, &request);
    h2_headers(&h2, request.stream, H2_END_STREAM, GRPC, "grpc-status", "9", "grpc-message", "a newer token: 7 %C3%A4",
               "grpc-status-details-bin", (char *)text.data, NULL); /* trailers only */
    assert_string_equal(hp_status_get_meta(status_of(sent, 0), "fence"), "7");
    expect_status(&h2, sent, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "a newer token: 7 ä");
    sent = send_calls(1);
    h2_request(&h2, &request);
    h2_headers(&h2, request.stream, 0, GRPC, NULL);
    h2_headers(&h2, request.stream, H2_END_STREAM, "grpc-status", "5", "grpc-message", "no%00%zz", NULL);
    expect_status(&h2, sent, HP_NOT_FOUND, HP_R_UNSPECIFIED, "no");
    sent = send_calls(1);
    h2_request(&h2, &request);
    h2_headers(&h2, request.stream, H2_END_STREAM, GRPC, "grpc-status", "99", NULL);
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_UNSPECIFIED, "UNKNOWN");
    hp_buf_release(&details);
    hp_buf_release(&text);
    h2_close(&h2);
    close_client();
}

/* An answer that came early, before all of the request was sent. */
static void an_answer_may_come_before_its_request_is_whole(void **state)
{
    static struct h2_frame frame;
    struct h2 h2;
    (void)state;
    connect_with(&h2, 0);
    char *bytes = calloc(1, 1 << 20);
    struct sent *sent = send_as(1, &(struct sending){.payload = bytes, .len = 1 << 20});
    assert_true(h2_next(&h2, &frame));
    h2_headers(&h2, frame.stream, H2_END_STREAM, GRPC, "grpc-status", "7", NULL);
    h2_reset(&h2, frame.stream, NGHTTP2_NO_ERROR);
    expect_status(&h2, sent, HP_PERMISSION_DENIED, HP_R_UNSPECIFIED, "");
    free(bytes);
    h2_close(&h2);
    close_client();
}

static void what_isnt_an_answer_is_no_answer(void **state)
{
    struct h2 h2;
    struct sent *sent;
    (void)state;
    connect_with(&h2, 0);
#define CALL(...)                                                                                                                  \
    sent = send_calls(1);                                                                                                          \
    h2_request(&h2, &request);                                                                                                     \
    __VA_ARGS__
    CALL(h2_headers(&h2, request.stream, H2_END_STREAM, ":status", "404", NULL));
    expect_status(&h2, sent, HP_UNIMPLEMENTED, HP_R_UNSPECIFIED, "HTTP's with status 404");
    CALL(h2_headers(&h2, request.stream, H2_END_STREAM, ":status", "401", "content-type", "text/html", NULL));
    expect_status(&h2, sent, HP_UNAUTHENTICATED, HP_R_UNSPECIFIED, "HTTP's with status 401");
    CALL(h2_headers(&h2, request.stream, H2_END_STREAM, ":status", "200", "content-type", "text/html", NULL));
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_UNSPECIFIED, "HTTP's with status 200");
    /* Whoever says so may have passed it on. */
    CALL(h2_headers(&h2, request.stream, H2_END_STREAM, ":status", "503", NULL));
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_OUTCOME_LOST, "HTTP's with status 503");
    CALL(h2_headers(&h2, request.stream, H2_END_STREAM, GRPC, "grpc-status", "14", "grpc-message", "upstream", NULL));
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_OUTCOME_LOST, "upstream");
    /* OK, and nothing to show for it. */
    CALL(h2_headers(&h2, request.stream, H2_END_STREAM, GRPC, "grpc-status", "0", NULL));
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_OUTCOME_LOST, "not whole");
    CALL(h2_headers(&h2, request.stream, 0, GRPC, NULL));
    h2_frame(&h2, NGHTTP2_DATA, 0, request.stream, "\0\0\0\0\4xy", 7);
    h2_headers(&h2, request.stream, H2_END_STREAM, "grpc-status", "0", NULL);
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_OUTCOME_LOST, "not whole");
    CALL(h2_headers(&h2, request.stream, 0, GRPC, NULL));
    h2_message(&h2, request.stream, "one", 3);
    h2_message(&h2, request.stream, "two", 3);
    h2_headers(&h2, request.stream, H2_END_STREAM, "grpc-status", "0", NULL);
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_OUTCOME_LOST, "more than one");
    CALL(h2_headers(&h2, request.stream, 0, GRPC, NULL));
    h2_frame(&h2, NGHTTP2_DATA, 0, request.stream, "\1\0\0\0\1x", 6);
    h2_headers(&h2, request.stream, H2_END_STREAM, "grpc-status", "0", NULL);
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_OUTCOME_LOST, "compressed");
    CALL(h2_headers(&h2, request.stream, 0, GRPC, NULL));
    h2_frame(&h2, NGHTTP2_DATA, 0, request.stream, "\0\x7f\0\0\1x", 6);
    h2_headers(&h2, request.stream, H2_END_STREAM, "grpc-status", "0", NULL);
    expect_status(&h2, sent, HP_UNKNOWN, HP_R_OUTCOME_LOST, "too large");
    /* No status at all. */
    CALL(h2_headers(&h2, request.stream, H2_END_STREAM, GRPC, NULL));
    expect_fate(sent, HFI_NO_ANSWER);
    CALL(h2_reset(&h2, request.stream, NGHTTP2_INTERNAL_ERROR));
    expect_fate(sent, HFI_NO_ANSWER);
    CALL(h2_reset(&h2, request.stream, NGHTTP2_ENHANCE_YOUR_CALM));
    expect_fate(sent, HFI_NO_ANSWER);
    CALL(h2_answer(&h2, request.stream, "still here", 10));
    expect_payload(sent, 0, "still here");
    expect_fate(sent, HFI_ANSWERED);
    h2_close(&h2);
    close_client();
}

static void *answer_big(void *arg)
{
    struct h2 *h2 = arg;
    char *bytes = malloc(BIG);
    h2_request(h2, &request);
    for (size_t i = 0; i < 4; i++)
        memcpy(bytes + i * request.len, request.message, request.len);
    h2_answer(h2, request.stream, bytes, BIG);
    free(bytes);
    return NULL;
}

/* About as large as requests and answers may be. */
static void big_ones_pass(void **state)
{
    struct h2 h2;
    pthread_t thread;
    (void)state;
    connect_with(&h2, 0);
    char *bytes = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    assert_int_equal(pthread_create(&thread, NULL, answer_big, &h2), 0);
    struct sent *sent = send_as(1, &(struct sending){.payload = bytes, .len = BIG / 4});
    assert_int_equal(status_of(sent, 0)->code, HP_OK);
    pthread_join(thread, NULL);
    assert_int_equal(sent->replies->replies[0]->payload.len, BIG);
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(sent->replies->replies[0]->payload.data + i * BIG / 4, bytes, BIG / 4);
    expect_fate(sent, HFI_ANSWERED);
    free(bytes);
    h2_close(&h2);
    close_client();
}

/* ------------------------------------------------------------------------------------------------ seen, or not */

static void a_refused_stream_was_not_seen(void **state)
{
    struct h2 h2;
    (void)state;
    connect_with(&h2, 0);
    struct sent *sent = send_calls(1);
    h2_request(&h2, &request);
    h2_reset(&h2, request.stream, NGHTTP2_REFUSED_STREAM);
    expect_fate(sent, HFI_NOT_SENT);

    sent = send_calls(3); /* one refused, one answered, one reset */
    h2_request(&h2, &request);
    h2_reset(&h2, request.stream, NGHTTP2_REFUSED_STREAM);
    h2_request(&h2, &request);
    h2_answer(&h2, request.stream, "done", 4);
    h2_request(&h2, &request);
    h2_reset(&h2, request.stream, NGHTTP2_CANCEL);
    assert_int_equal(status_of(sent, 0)->code, HP_UNAVAILABLE);
    assert_int_equal(status_of(sent, 0)->reason, HP_R_UNSPECIFIED);
    expect_payload(sent, 1, "done");
    assert_int_equal(status_of(sent, 2)->reason, HP_R_OUTCOME_LOST);
    assert_true(sent->exchange.partly);
    expect_fate(sent, HFI_ANSWERED);
    h2_close(&h2);
    close_client();
}

static void goaway_tells_what_was_seen(void **state)
{
    struct h2 h2;
    (void)state;
    connect_with(&h2, 0);
    struct tr_transport *t = (struct tr_transport *)transport;
    pthread_mutex_lock(&t->mutex);
    t->going_ms = LONG_MS; /* whatever the machine does meanwhile */
    pthread_mutex_unlock(&t->mutex);
    struct sent *one = send_calls(1);
    h2_request(&h2, &request);
    const int32_t first = request.stream;
    struct sent *two = send_calls(1);
    h2_request(&h2, &request);
    h2_goaway(&h2, first, NGHTTP2_NO_ERROR);
    expect_fate(two, HFI_NOT_SENT);
    struct sent *three = send_calls(1); /* waits for the next connection */
    assert_false(is_done(one));
    h2_answer(&h2, first, "yes", 3);
    expect_payload(one, 0, "yes");
    expect_fate(one, HFI_ANSWERED);
    struct h2 next;
    h2_accept(&next, accept4(listener, NULL, NULL, SOCK_CLOEXEC), NULL, 0);
    h2_request(&next, &request);
    h2_answer(&next, request.stream, "later", 5);
    expect_payload(three, 0, "later");
    expect_fate(three, HFI_ANSWERED);
    h2_close(&h2);
    h2_close(&next);
    close_client();
}

static void a_server_that_goes_has_not_for_ever(void **state)
{
    struct h2 h2;
    (void)state;
    connect_with(&h2, 0);
    struct sent *sent = send_calls(1);
    h2_request(&h2, &request);
    h2_goaway(&h2, INT32_MAX, NGHTTP2_NO_ERROR);
    expect_fate(sent, HFI_NO_ANSWER);
    h2_close(&h2);
    close_client();
}

static void a_lost_connection_is_told_and_replaced(void **state)
{
    struct h2 h2;
    (void)state;
    connect_with(&h2, 0);
    struct sent *sent = send_calls(2);
    h2_request(&h2, &request);
    h2_answer(&h2, request.stream, "done", 4);
    h2_request(&h2, &request);
    h2_close(&h2);
    expect_payload(sent, 0, "done");
    assert_int_equal(status_of(sent, 1)->reason, HP_R_OUTCOME_LOST);
    assert_true(sent->exchange.partly);
    expect_fate(sent, HFI_ANSWERED);
    sent = send_calls(1);
    h2_accept(&h2, accept4(listener, NULL, NULL, SOCK_CLOEXEC), NULL, 0);
    h2_request(&h2, &request);
    h2_close(&h2);
    expect_fate(sent, HFI_NO_ANSWER);
    sent = send_calls(1);
    h2_accept(&h2, accept4(listener, NULL, NULL, SOCK_CLOEXEC), NULL, 0);
    h2_request(&h2, &request);
    h2_answer(&h2, request.stream, "again", 5);
    expect_payload(sent, 0, "again");
    expect_fate(sent, HFI_ANSWERED);
    h2_close(&h2);
    close_client();
}

/* The server takes no more than a part: whatever becomes of the connection, it hasn't seen the request. */
static void a_request_that_isnt_whole_was_not_seen(void **state)
{
    static struct h2_frame frame;
    struct h2 h2;
    (void)state;
    char *bytes = calloc(1, 1 << 20);
    const struct sending big = {.payload = bytes, .len = 1 << 20, .reply_ms = SOON_MS};
    connect_with(&h2, 0);
    struct sent *sent = send_as(1, &(struct sending){.payload = bytes, .len = 1 << 20});
    for (size_t got = 0; got < 65535;) { /* its first window */
        assert_true(h2_next(&h2, &frame));
        got += frame.type == NGHTTP2_DATA ? frame.len : 0;
    }
    h2_close(&h2);
    expect_fate(sent, HFI_NOT_SENT);
    sent = send_as(1, &big);
    h2_accept(&h2, accept4(listener, NULL, NULL, SOCK_CLOEXEC), NULL, 0);
    expect_fate(sent, HFI_NOT_SENT);
    do
        assert_true(h2_next(&h2, &frame));
    while (frame.type != NGHTTP2_RST_STREAM);
    assert_int_equal(frame.bytes[3], NGHTTP2_CANCEL);
    free(bytes);
    h2_close(&h2);
    close_client();
}

static void patience_has_an_end(void **state)
{
    static struct h2_frame frame;
    struct h2 h2;
    (void)state;
    connect_with(&h2, 0);
    struct sent *sent = send_as(2, &(struct sending){.reply_ms = T_AT_ONCE_MS});
    h2_request(&h2, &request);
    const int32_t first = request.stream;
    h2_request(&h2, &request);
    h2_answer(&h2, first, "quick", 5);
    expect_payload(sent, 0, "quick");
    assert_int_equal(status_of(sent, 1)->reason, HP_R_OUTCOME_LOST);
    expect_fate(sent, HFI_ANSWERED);
    assert_true(h2_next(&h2, &frame)); /* the server is told to forget it */
    assert_int_equal(frame.type, NGHTTP2_RST_STREAM);
    assert_int_equal(frame.stream, request.stream);
    assert_int_equal(frame.bytes[3], NGHTTP2_CANCEL);
    sent = send_as(1, &(struct sending){.reply_ms = SOON_MS});
    h2_request(&h2, &request);
    expect_fate(sent, HFI_NO_ANSWER);
    h2_close(&h2);
    close_client();
    listen_here();
    close(listener); /* nobody listens */
    listener = -1;
    open_client(url);
    sent = send_as(1, &(struct sending){.send_ms = SOON_MS});
    expect_fate(sent, HFI_NOT_SENT);
    char why[256];
    transport->why(transport, 0, why, sizeof(why));
    assert_string_equal(why, "Connection refused");
    close_client();
}

static void stopping_ends_all(void **state)
{
    static struct h2_frame frame;
    struct h2 h2;
    (void)state;
    connect_with(&h2, 1);
    struct sent *seen = send_calls(1);
    h2_request(&h2, &request);
    struct sent *queued = send_calls(1); /* no stream is free */
    close_client();
    expect_fate(seen, HFI_NO_ANSWER);
    expect_fate(queued, HFI_NOT_SENT);
    assert_true(h2_next(&h2, &frame));
    assert_int_equal(frame.type, NGHTTP2_GOAWAY);
    assert_false(h2_next(&h2, &frame));
    h2_close(&h2);
}

/* ------------------------------------------------------------------------------------------------ how many */

static void no_more_than_the_server_allows(void **state)
{
    struct h2 h2;
    int32_t streams[10];
    (void)state;
    connect_with(&h2, 4);
    struct sent *sent = send_calls(10);
    for (int i = 0; i < 4; i++) {
        h2_request(&h2, &request);
        streams[i] = request.stream;
    }
    for (int i = 4; i < 10; i++) { /* the next one comes when one is answered, and not before: a stream too many would come first */
        h2_answer(&h2, streams[i - 4], "ok", 2);
        h2_request(&h2, &request);
        assert_int_equal(request.message[0], 'a' + i);
        streams[i] = request.stream;
    }
    assert_false(is_done(sent));
    for (int i = 6; i < 10; i++)
        h2_answer(&h2, streams[i], "ok", 2);
    for (size_t i = 0; i < 10; i++)
        expect_payload(sent, i, "ok");
    expect_fate(sent, HFI_ANSWERED);
    h2_close(&h2);
    close_client();
}

static void those_that_wait_leave_room(void **state)
{
    const struct sending waits = {.timeout_ms = LONG_MS};
    struct sent *waiting[8];
    struct h2 h2;
    (void)state;
    connect_with(&h2, 8);
    for (int i = 0; i < 8; i++)
        waiting[i] = send_as(1, &waits);
    for (int i = 0; i < 6; i++) {
        h2_request(&h2, &request);
        assert_string_equal(request.timeout, "600000m");
    }
    for (int i = 0; i < 3; i++) {
        struct sent *sent = send_as(1, &(struct sending){.timeout_ms = 1000});
        h2_request(&h2, &request);
        assert_string_equal(request.timeout, "1000m");
        h2_answer(&h2, request.stream, "renewed", 7);
        expect_payload(sent, 0, "renewed");
        expect_fate(sent, HFI_ANSWERED);
    }
    close_client();
    for (int i = 0; i < 8; i++)
        expect_fate(waiting[i], i < 6 ? HFI_NO_ANSWER : HFI_NOT_SENT);
    h2_close(&h2);
}

/* ------------------------------------------------------------------------------------------------ silence */

static void silence_is_asked_and_then_believed(void **state)
{
    static struct h2_frame frame;
    struct h2 h2;
    (void)state;
    listen_here();
    open_client(url);
    struct tr_transport *t = (struct tr_transport *)transport;
    pthread_mutex_lock(&t->mutex);
    t->silence_ms = 100;
    t->ping_ms = 3000;
    pthread_mutex_unlock(&t->mutex);
    h2_accept(&h2, accept4(listener, NULL, NULL, SOCK_CLOEXEC), NULL, 0);
    struct sent *sent = send_calls(1);
    h2_request(&h2, &request);
    for (int i = 0; i < 2; i++) {
        assert_true(h2_next(&h2, &frame));
        assert_int_equal(frame.type, NGHTTP2_PING);
        assert_false(is_done(sent));
        h2_frame(&h2, NGHTTP2_PING, H2_ACK, 0, frame.bytes, 8);
    }
    expect_fate(sent, HFI_NO_ANSWER);
    h2_close(&h2);
    close_client();
}

/* ------------------------------------------------------------------------------------------------ others */

/* An endpoint of nng's protocol and one of gRPC in one client. */
static void both_protocols_in_one_list(void **state)
{
    struct h2 h2;
    uint8_t greeting[HP_SP_GREETING], head[HP_SP_HEAD_MAX + 4];
    (void)state;
    listen_here();
    const int other = listener;
    const char *grpc = url;
    listener = -1;
    listen_here();
    open_client(t_printf("tcp%s,%s", strchr(url, ':'), grpc));
    h2_accept(&h2, accept4(other, NULL, NULL, SOCK_CLOEXEC), NULL, 0);
    struct h2 sp = {.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
    assert_true(h2_read(&sp, greeting, sizeof(greeting)));
    hp_sp_greet(greeting, HP_SP_REP);
    h2_write(&sp, greeting, sizeof(greeting));
    struct sent *by_nng = send_as(1, &(struct sending){.endpoint = 0}), *by_grpc = send_as(1, &(struct sending){.endpoint = 1});
    h2_request(&h2, &request);
    h2_answer(&h2, request.stream, "g", 1);
    expect_payload(by_grpc, 0, "g");
    expect_fate(by_grpc, HFI_ANSWERED);
    assert_true(h2_read(&sp, head, hp_sp_head_size(false) + 4));
    close(sp.fd);
    expect_fate(by_nng, HFI_NO_ANSWER);
    close(other);
    h2_close(&h2);
    close_client();
}

static bool says(void *arg)
{
    char why[256];
    transport->why(transport, 0, why, sizeof(why));
    return strstr(why, arg) != NULL;
}

/* What is at the other end speaks first, or says that when the preface has come. */
static void expect_why(const char *bytes, size_t len, const char *why)
{
    listen_here();
    open_client(url);
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
    if (!len)
        close(fd);
    if (!t_wait_for(says, (void *)(uintptr_t)why, T_PATIENCE_MS)) {
        char got[256];
        transport->why(transport, 0, got, sizeof(got));
        fail_msg("wanted \"%s\", got \"%s\"", why, got);
    }
    if (len)
        close(fd);
    close_client();
}

static void what_isnt_http2_is_told(void **state)
{
    static const char nng[] = {0, 'S', 'P', 0, 0, 0x31, 0, 0}, tls[] = {0x15, 3, 3, 0, 2, 2, 70};
    static const char ping[] = {0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    (void)state;
    expect_why("HTTP/1.1 400 Bad Request\r\n\r\n", 28, "HTTP/1 only");
    expect_why(nng, sizeof(nng), "nng's protocol: try tcp://");
    expect_why(tls, sizeof(tls), "speaks TLS: try grpcs://");
    expect_why(ping, sizeof(ping), "doesn't speak HTTP/2");
    expect_why("220 mail.example ESMTP\r\n", 24, "doesn't speak HTTP/2");
    expect_why("", 0, "closed the connection");
}

/* ------------------------------------------------------------------------------------------------ many at once */

enum { SENDERS = 4, ROUNDS = 200 };

static void *echo(void *arg)
{
    struct h2 *h2 = arg;
    for (int i = 0; i < SENDERS * ROUNDS * 2; i++) {
        h2_request(h2, &request);
        h2_answer(h2, request.stream, request.message, request.len);
    }
    return NULL;
}

static void *sender(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct sent *sent = send_calls(2);
        while (!is_done(sent))
            usleep(50);
        expect_payload(sent, 0, "a");
        expect_payload(sent, 1, "b");
        expect_fate(sent, HFI_ANSWERED);
    }
    return NULL;
}

static void threads_share_a_connection(void **state)
{
    pthread_t server, senders[SENDERS];
    struct h2 h2;
    (void)state;
    connect_with(&h2, 3);
    assert_int_equal(pthread_create(&server, NULL, echo, &h2), 0);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&senders[i], NULL, sender, NULL), 0);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
    pthread_join(server, NULL);
    h2_close(&h2);
    close_client();
}

static int tear_down(void **state)
{
    free(request.message);
    close(listener);
    return t_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_a_grpc_request),
        cmocka_unit_test(replies_stand_in_the_order_of_the_calls),
        cmocka_unit_test(errors_keep_their_details),
        cmocka_unit_test(an_answer_may_come_before_its_request_is_whole),
        cmocka_unit_test(what_isnt_an_answer_is_no_answer),
        cmocka_unit_test(big_ones_pass),
        cmocka_unit_test(a_refused_stream_was_not_seen),
        cmocka_unit_test(goaway_tells_what_was_seen),
        cmocka_unit_test(a_server_that_goes_has_not_for_ever),
        cmocka_unit_test(a_lost_connection_is_told_and_replaced),
        cmocka_unit_test(a_request_that_isnt_whole_was_not_seen),
        cmocka_unit_test(patience_has_an_end),
        cmocka_unit_test(stopping_ends_all),
        cmocka_unit_test(no_more_than_the_server_allows),
        cmocka_unit_test(those_that_wait_leave_room),
        cmocka_unit_test(silence_is_asked_and_then_believed),
        cmocka_unit_test(both_protocols_in_one_list),
        cmocka_unit_test(what_isnt_http2_is_told),
        cmocka_unit_test(threads_share_a_connection),
    };
    return cmocka_run_group_tests_name("unit/client/grpc", tests, NULL, tear_down);
}
