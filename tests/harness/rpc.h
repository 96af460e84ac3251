/*
 * rpc.h - a raw client of the nng transport for tests: messages in, messages out, nothing retried, nothing hidden.
 *
 * A transport that fails fails the test. What is handed out stays until t_rpc_close.
 */
#ifndef HOLDFAST_TESTS_RPC_H
#define HOLDFAST_TESTS_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "holdfast/v1/rpc.pb-c.h"
#include "proto/c/err.h"

struct t_rpc;

/* A REQ socket that is connected to `url`. */
struct t_rpc *t_rpc_open(const char *url);
void t_rpc_close(struct t_rpc *rpc);

/* Single calls carry this as metadata `authorization` from now on; NULL = none. It must stay. */
void t_rpc_authorize(struct t_rpc *rpc, const char *authorization);

/* One call in an envelope of its own. The response, or NULL with `status` (which may be NULL if an OK is expected: then an
 * error fails the test). */
void *t_rpc_call(struct t_rpc *rpc, const char *method, const void *request, const ProtobufCMessageDescriptor *response,
                 struct hp_status *status);
/* The same with a payload of any bytes and a timeout. */
void *t_rpc_call_bytes(struct t_rpc *rpc, const char *method, const void *payload, size_t len, int64_t timeout_ms,
                       const ProtobufCMessageDescriptor *response, struct hp_status *status);

/* An envelope of many calls. */
Holdfast__V1__ReplyEnvelope *t_rpc_envelope(struct t_rpc *rpc, const Holdfast__V1__CallEnvelope *envelope);

/* Any bytes as an envelope. The reply's bytes; NULL: no reply came within `ms`, or the connection was dropped. */
const uint8_t *t_rpc_bytes(struct t_rpc *rpc, const void *bytes, size_t len, int ms, size_t *reply_len);

/* For envelopes in flight: sent, without waiting for the reply. */
void t_rpc_send(struct t_rpc *rpc, const void *bytes, size_t len);
/* The reply to what was sent; NULL: none came within `ms`, or the connection was dropped; then it won't come any more. */
const uint8_t *t_rpc_receive(struct t_rpc *rpc, int ms, size_t *reply_len);

/* The message as bytes; they stay until t_rpc_close. */
const uint8_t *t_rpc_pack(struct t_rpc *rpc, const void *message, size_t *len);
/* The reply envelope that the bytes are. */
Holdfast__V1__ReplyEnvelope *t_rpc_replies(struct t_rpc *rpc, const uint8_t *bytes, size_t len);

/*
 * Below nng: a TCP connection to tcp://HOST:PORT that speaks nng's framing (RFC of SP over TCP: an 8-byte greeting each way,
 * then an 8-byte length before each message, which for a request begins with its id).
 */
/* Connected and greeted; the file descriptor. */
int t_raw_open(const char *url);
/* A message that says it has `announced` bytes, of which `len` are sent. */
void t_raw_send(int fd, uint64_t announced, const void *bytes, size_t len);
/* A request of this id (31 bits), whole: many may be on their way at once. */
void t_raw_request(int fd, uint32_t id, const void *bytes, size_t len);
/* The next reply, its id, and its bytes, to be freed; NULL: none came within `ms`, or the connection was closed. */
uint8_t *t_raw_reply(int fd, int ms, uint32_t *id, size_t *len);
/* The other side has closed the connection before `ms` have passed. What it sends is thrown away. */
bool t_raw_closed(int fd, int ms);

#endif
