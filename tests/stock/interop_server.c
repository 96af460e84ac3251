/*
 * interop_server.c - serves grpc.testing.TestService by the transport code of holdfastd, for gRPC's own interop clients.
 *
 * `interop_server` listens on a free port of 127.0.0.1, prints "READY http=HOST:PORT", and ends with 0 at SIGTERM if nothing was
 * left over. A call that waits is a struct stream until it is answered: what it was asked to send, as sizes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/http.h"
#include "net/loop.h"
#include "net/rpc.h"
#include "proto/c/err.h"
#include "tests/stock/interop.pb-c.h"

#define SERVICE "/grpc.testing.TestService/"

typedef Grpc__Testing__SimpleRequest simple_request;
typedef Grpc__Testing__StreamingOutputCallRequest output_request;

enum { SIZE_MAX_BYTES = 4 << 20 };

struct stream {
    struct hp_call *call;
    size_t n, at; /* sizes[at … n) are still to be sent */
    int *sizes;
    int64_t received;         /* bytes of payloads, of an input stream */
    bool whole;               /* the caller has said all */
    struct hp_status *status; /* how it ends, if not well; in memory of its own */
};

static struct loop *loop;
static struct net_http *http;
static struct net_rpc *rpc;
static int n_streams;
static uint8_t zeros[SIZE_MAX_BYTES];

/* ------------------------------------------------------------------------------------------------ statuses */

static void refuse(struct hp_call *call, enum hp_code code, const char *message)
{
    struct hp_status status = {.code = code};
    snprintf(status.message, sizeof(status.message), "%s", message);
    call->answer(call, &status, NULL);
}

/* Whether the caller's messages are compressed, as far as the header says; it may compress some and not others. */
static bool compressed(const struct hp_call *call)
{
    for (size_t i = 0; i < call->n_metadata; i++)
        if (!strcmp(call->metadata[2 * i], "grpc-encoding"))
            return strcmp(call->metadata[2 * i + 1], "identity") != 0;
    return false;
}

static bool is_as_expected(const struct hp_call *call, const Grpc__Testing__BoolValue *expected)
{
    return !expected || !expected->value || compressed(call);
}

static void *unpack(struct hp_call *call, const ProtobufCMessageDescriptor *type, const void *data, size_t len)
{
    return protobuf_c_message_unpack(type, hp_arena_allocator(call->arena), len, data);
}

static Grpc__Testing__Payload payload_of(int size)
{
    Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
    payload.body.data = zeros;
    payload.body.len = size < 0 ? 0 : size > SIZE_MAX_BYTES ? SIZE_MAX_BYTES : (size_t)size;
    return payload;
}

/* ------------------------------------------------------------------------------------------------ unary calls */

static void empty_call(struct hp_call *call)
{
    const Grpc__Testing__Empty empty = GRPC__TESTING__EMPTY__INIT;
    call->answer(call, NULL, &empty.base);
}

static void unary_call(struct hp_call *call)
{
    const simple_request *request = unpack(call, &grpc__testing__simple_request__descriptor, call->payload, call->payload_len);
    if (!request) {
        refuse(call, HP_INVALID_ARGUMENT, "no request");
    } else if (!is_as_expected(call, request->expect_compressed)) {
        refuse(call, HP_INVALID_ARGUMENT, "the request is not compressed");
    } else if (request->response_status && request->response_status->code) {
        refuse(call, (enum hp_code)request->response_status->code, request->response_status->message);
    } else {
        Grpc__Testing__SimpleResponse response = GRPC__TESTING__SIMPLE_RESPONSE__INIT;
        Grpc__Testing__Payload payload = payload_of(request->response_size);
        response.payload = &payload;
        call->answer(call, NULL, &response.base);
    }
}

/* ------------------------------------------------------------------------------------------------ streams */

static void stream_end(struct stream *s, const struct hp_status *status, const ProtobufCMessage *response)
{
    s->call->answer(s->call, status, response);
    free(s->sizes);
    free(s->status);
    free(s);
    n_streams--;
}

/* Sends what is to be sent, as far as it is read, and ends the call after it if it is to end. */
static void stream_go_on(struct stream *s)
{
    for (; s->at < s->n; s->at++) {
        Grpc__Testing__StreamingOutputCallResponse response = GRPC__TESTING__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
        Grpc__Testing__Payload payload = payload_of(s->sizes[s->at]);
        response.payload = &payload;
        if (!s->call->send(s->call, &response.base))
            return;
    }
    if (s->status || s->whole)
        stream_end(s, s->status, NULL);
}

static void on_writable(struct hp_call *call)
{
    stream_go_on(call->service);
}

static void on_gone(struct hp_call *call)
{
    const struct hp_status cancelled = {.code = HP_CANCELLED};
    stream_end(call->service, &cancelled, NULL);
}

static struct stream *stream_new(struct hp_call *call)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->call = call;
    call->service = s;
    call->gone = on_gone;
    call->writable = on_writable;
    n_streams++;
    return s;
}

/* What the request asks for comes behind what was asked for before. */
static void stream_ask(struct stream *s, const output_request *request)
{
    int *sizes = realloc(s->sizes, (s->n + request->n_response_parameters + 1) * sizeof(*sizes));
    if (!sizes)
        abort();
    s->sizes = sizes;
    for (size_t i = 0; i < request->n_response_parameters; i++)
        s->sizes[s->n++] = request->response_parameters[i]->size;
    if (request->response_status && request->response_status->code && !s->status) {
        s->status = calloc(1, sizeof(*s->status));
        if (!s->status)
            abort();
        s->status->code = (enum hp_code)request->response_status->code;
        snprintf(s->status->message, sizeof(s->status->message), "%s", request->response_status->message);
    }
}

static void output_call(struct hp_call *call)
{
    const output_request *request =
        unpack(call, &grpc__testing__streaming_output_call_request__descriptor, call->payload, call->payload_len);
    if (!request) {
        refuse(call, HP_INVALID_ARGUMENT, "no request");
        return;
    }
    struct stream *s = stream_new(call);
    stream_ask(s, request);
    s->whole = true;
    stream_go_on(s);
}

static void on_duplex_message(struct hp_call *call, const void *data, size_t len)
{
    struct stream *s = call->service;
    output_request *request = data ? grpc__testing__streaming_output_call_request__unpack(NULL, len, data) : NULL;
    if (!data)
        s->whole = true;
    if (request)
        stream_ask(s, request);
    grpc__testing__streaming_output_call_request__free_unpacked(request, NULL);
    stream_go_on(s);
}

static void duplex_call(struct hp_call *call)
{
    stream_new(call);
    call->message = on_duplex_message;
}

static void on_input_message(struct hp_call *call, const void *data, size_t len)
{
    struct stream *s = call->service;
    if (!data) {
        Grpc__Testing__StreamingInputCallResponse response = GRPC__TESTING__STREAMING_INPUT_CALL_RESPONSE__INIT;
        response.aggregated_payload_size = (int32_t)s->received;
        stream_end(s, NULL, &response.base);
        return;
    }
    Grpc__Testing__StreamingInputCallRequest *request = grpc__testing__streaming_input_call_request__unpack(NULL, len, data);
    if (request && !is_as_expected(call, request->expect_compressed)) {
        const struct hp_status status = {.code = HP_INVALID_ARGUMENT, .message = "the request is not compressed"};
        stream_end(s, &status, NULL);
    } else if (request && request->payload) {
        s->received += (int64_t)request->payload->body.len;
    }
    grpc__testing__streaming_input_call_request__free_unpacked(request, NULL);
}

static void input_call(struct hp_call *call)
{
    stream_new(call);
    call->message = on_input_message;
}

/* ------------------------------------------------------------------------------------------------ the service */

struct served {
    struct hp_method method;
    void (*handle)(struct hp_call *call);
};

#define METHOD(name, request, response, server, client, handler)                                                                   \
    {                                                                                                                              \
        {SERVICE name, &grpc__testing__##request##__descriptor, &grpc__testing__##response##__descriptor, server, client}, handler \
    }

static const struct served methods[] = {
    METHOD("EmptyCall", empty, empty, false, false, empty_call),
    METHOD("UnaryCall", simple_request, simple_response, false, false, unary_call),
    METHOD("CacheableUnaryCall", simple_request, simple_response, false, false, unary_call),
    METHOD("StreamingOutputCall", streaming_output_call_request, streaming_output_call_response, true, false, output_call),
    METHOD("StreamingInputCall", streaming_input_call_request, streaming_input_call_response, false, true, input_call),
    METHOD("FullDuplexCall", streaming_output_call_request, streaming_output_call_response, true, true, duplex_call),
};

static const struct hp_method *find(void *arg, const char *path)
{
    (void)arg;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (!strcmp(methods[i].method.path, path))
            return &methods[i].method;
    return NULL;
}

static void on_call(void *arg, struct hp_call *call)
{
    const struct served *served = (const struct served *)find(arg, call->method); /* its method is its first member */
    if (served)
        served->handle(call);
    else
        refuse(call, HP_UNIMPLEMENTED, "no such method");
}

static void on_request(void *arg, struct net_exchange *x)
{
    (void)arg;
    net_rpc_request(rpc, x);
}

static void on_signal(void *arg, int signo)
{
    (void)arg;
    (void)signo;
    loop_stop(loop);
}

int main(void)
{
    static const int signals[] = {SIGTERM};
    const struct net_http_config http_config = {0};
    const struct net_rpc_config rpc_config = {.find = find, .on_call = on_call};
    char error[256] = "no memory";
    loop = loop_new();
    if (!loop || loop_signals(loop, signals, 1, on_signal, NULL) != 0)
        return 1;
    rpc = net_rpc_new(loop_io(loop), &rpc_config);
    if (rpc)
        http = net_http_listen(loop_io(loop), "127.0.0.1:0", &http_config, on_request, NULL, error, sizeof(error));
    if (!http) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    printf("READY http=%s\n", net_http_address(http));
    fflush(stdout);
    loop_run(loop);
    net_http_free(http);
    net_rpc_free(rpc);
    loop_free(loop);
    if (n_streams)
        fprintf(stderr, "%d streams were left over\n", n_streams);
    return n_streams != 0;
}
