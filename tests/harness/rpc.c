/*
 * rpc.c - see rpc.h. A REQ socket with its resending switched off.
 */
#include "harness/rpc.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "harness/harness.h"
#include "proto/c/envelope.h"
#include "proto/c/wire.h"

enum { REPLY_MS = 60000 };

struct t_rpc {
    nng_socket sock;
    struct hp_arena *arena;
    const char *authorization; /* NULL = none */
};

static void must(const char *what, int rc)
{
    if (rc)
        fail_msg("%s: %s", what, nng_strerror(rc));
}

struct t_rpc *t_rpc_open(const char *url)
{
    struct t_rpc *rpc = calloc(1, sizeof(*rpc));
    assert_non_null(rpc);
    rpc->arena = hp_arena_new((size_t)1 << 30);
    assert_non_null(rpc->arena);
    must("open", nng_req0_open(&rpc->sock));
    must("resend time", nng_socket_set_ms(rpc->sock, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE));
    must("receive limit", nng_socket_set_size(rpc->sock, NNG_OPT_RECVMAXSZ, 0));
    must("send time", nng_socket_set_ms(rpc->sock, NNG_OPT_SENDTIMEO, 10000));
    must(url, nng_dial(rpc->sock, url, NULL, 0));
    return rpc;
}

static void *close_socket(void *arg)
{
    nng_socket *sock = arg;
    nng_close(*sock);
    free(sock);
    return NULL;
}

/* nng_close of 1.5 may never return when a request is in flight (a known fault, mended in 1.8): then it is left behind. */
static void close_in_time(nng_socket sock)
{
    nng_socket *copy = malloc(sizeof(*copy));
    pthread_t thread;
    struct timespec until;
    assert_non_null(copy);
    *copy = sock;
    assert_int_equal(pthread_create(&thread, NULL, close_socket, copy), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (pthread_timedjoin_np(thread, NULL, &until))
        pthread_detach(thread);
}

void t_rpc_close(struct t_rpc *rpc)
{
    if (!rpc)
        return;
    close_in_time(rpc->sock);
    hp_arena_free(rpc->arena);
    free(rpc);
}

void t_rpc_send(struct t_rpc *rpc, const void *bytes, size_t len)
{
    nng_msg *msg;
    must("message", nng_msg_alloc(&msg, len));
    if (len)
        memcpy(nng_msg_body(msg), bytes, len);
    must("send", nng_sendmsg(rpc->sock, msg, 0));
}

const uint8_t *t_rpc_receive(struct t_rpc *rpc, int ms, size_t *reply_len)
{
    nng_msg *msg;
    must("receive time", nng_socket_set_ms(rpc->sock, NNG_OPT_RECVTIMEO, ms));
    int rc = nng_recvmsg(rpc->sock, &msg, 0);
    if (rc == NNG_ETIMEDOUT || rc == NNG_ECONNRESET)
        return NULL;
    must("receive", rc);
    *reply_len = nng_msg_len(msg);
    const char *copy = hp_strndup(rpc->arena, nng_msg_body(msg), *reply_len);
    assert_non_null(copy);
    nng_msg_free(msg);
    return (const uint8_t *)copy;
}

const uint8_t *t_rpc_bytes(struct t_rpc *rpc, const void *bytes, size_t len, int ms, size_t *reply_len)
{
    t_rpc_send(rpc, bytes, len);
    return t_rpc_receive(rpc, ms, reply_len);
}

const uint8_t *t_rpc_pack(struct t_rpc *rpc, const void *message, size_t *len)
{
    *len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = hp_alloc(rpc->arena, *len + 1);
    assert_non_null(bytes);
    assert_int_equal(protobuf_c_message_pack(message, bytes), *len);
    return bytes;
}

Holdfast__V1__ReplyEnvelope *t_rpc_replies(struct t_rpc *rpc, const uint8_t *bytes, size_t len)
{
    struct hp_status status;
    Holdfast__V1__ReplyEnvelope *replies = hp_replies_decode(rpc->arena, bytes, len, &status);
    if (!replies)
        fail_msg("the reply cannot be decoded: %s", status.message);
    return replies;
}

Holdfast__V1__ReplyEnvelope *t_rpc_envelope(struct t_rpc *rpc, const Holdfast__V1__CallEnvelope *envelope)
{
    size_t len, reply_len;
    const uint8_t *bytes = t_rpc_pack(rpc, envelope, &len);
    const uint8_t *reply = t_rpc_bytes(rpc, bytes, len, REPLY_MS, &reply_len);
    if (!reply)
        fail_msg("no reply within %d ms", REPLY_MS);
    return t_rpc_replies(rpc, reply, reply_len);
}

void t_rpc_authorize(struct t_rpc *rpc, const char *authorization)
{
    rpc->authorization = authorization;
}

void *t_rpc_call_bytes(struct t_rpc *rpc, const char *method, const void *payload, size_t len, int64_t timeout_ms,
                       const ProtobufCMessageDescriptor *response, struct hp_status *status)
{
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls = &call;
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call__MetadataEntry entry = HOLDFAST__V1__CALL__METADATA_ENTRY__INIT, *entries = &entry;
    struct hp_status got;
    entry.key = (char *)(uintptr_t) "authorization";
    entry.value = (char *)(uintptr_t)rpc->authorization;
    call.n_metadata = rpc->authorization ? 1 : 0;
    call.metadata = &entries;
    call.method = (char *)(uintptr_t)method;
    call.timeout_ms = timeout_ms;
    call.payload.data = (uint8_t *)(uintptr_t)payload;
    call.payload.len = len;
    envelope.n_calls = 1;
    envelope.calls = &calls;
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_envelope(rpc, &envelope);
    assert_int_equal(replies->n_replies, 1);
    hp_reply_status(replies->replies[0], &got);
    if (status)
        *status = got;
    else if (got.code != HP_OK)
        fail_msg("%s: %s/%s: %s", method, hp_code_name(got.code), hp_reason_name(got.reason), got.message);
    if (got.code != HP_OK)
        return NULL;
    void *message = hp_unpack_within(&hp_wire_reply, rpc->arena, response, replies->replies[0]->payload.data,
                                     replies->replies[0]->payload.len, &got);
    if (!message)
        fail_msg("%s: the response cannot be decoded: %s", method, got.message);
    return message;
}

void *t_rpc_call(struct t_rpc *rpc, const char *method, const void *request, const ProtobufCMessageDescriptor *response,
                 struct hp_status *status)
{
    size_t len;
    const uint8_t *bytes = t_rpc_pack(rpc, request, &len);
    return t_rpc_call_bytes(rpc, method, bytes, len, 0, response, status);
}

/* ---- below nng ---- */

static const char greeting[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* a REQ socket's */

static void send_all(int fd, const void *bytes, size_t len)
{
    for (const char *at = bytes; len;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* the other side may have seen enough */
        assert_true(n > 0);
        at += n;
        len -= (size_t)n;
    }
}

int t_raw_open(const char *url)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char host[64], theirs[8];
    unsigned port;
    assert_int_equal(sscanf(url, "tcp://%63[0-9.]:%u", host, &port), 2);
    address.sin_port = htons((uint16_t)port);
    assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    send_all(fd, greeting, sizeof(greeting));
    assert_int_equal(recv(fd, theirs, sizeof(theirs), MSG_WAITALL), sizeof(theirs));
    assert_memory_equal(theirs, "\0SP", 4);
    return fd;
}

void t_raw_send(int fd, uint64_t announced, const void *bytes, size_t len)
{
    uint64_t length = htobe64(announced + 4);
    uint32_t id = htobe32(0x80000001);
    send_all(fd, &length, sizeof(length));
    send_all(fd, &id, sizeof(id));
    send_all(fd, bytes, len);
}

void t_raw_request(int fd, uint32_t id, const void *bytes, size_t len)
{
    unsigned char *message = malloc(12 + len);
    uint64_t length = htobe64(len + 4);
    assert_non_null(message);
    id = htobe32(id | 0x80000000);
    memcpy(message, &length, 8);
    memcpy(message + 8, &id, 4);
    if (len)
        memcpy(message + 12, bytes, len);
    send_all(fd, message, 12 + len);
    free(message);
}

/* False: it is over before all of it came. */
static bool receive_all(int fd, int64_t until, void *bytes, size_t len)
{
    for (char *at = bytes; len;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int64_t left = until - t_now_ms();
        if (poll(&poll_fd, 1, left > 0 ? (int)left : 0) <= 0)
            return false;
        ssize_t n = recv(fd, at, len, 0);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

uint8_t *t_raw_reply(int fd, int ms, uint32_t *id, size_t *len)
{
    int64_t until = t_now_ms() + ms;
    uint64_t length;
    uint32_t header;
    if (!receive_all(fd, until, &length, sizeof(length)) || !receive_all(fd, until, &header, sizeof(header)))
        return NULL;
    *len = be64toh(length) - sizeof(header);
    *id = be32toh(header) & 0x7fffffff;
    uint8_t *bytes = malloc(*len + 1);
    assert_non_null(bytes);
    if (receive_all(fd, until, bytes, *len))
        return bytes;
    free(bytes);
    return NULL;
}

bool t_raw_closed(int fd, int ms)
{
    int64_t until = t_now_ms() + ms;
    char buffer[4096];
    for (int64_t left = ms; left >= 0; left = until - t_now_ms()) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        if (poll(&poll_fd, 1, (int)left) > 0 && recv(fd, buffer, sizeof(buffer), 0) <= 0)
            return true;
    }
    return false;
}
