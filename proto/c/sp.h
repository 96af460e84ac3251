/*
 * sp.h - the framing by which nng's REQ and REP sockets talk: bytes in, bytes out.
 *
 * A connection begins with a greeting of each side; then come messages, each behind its length (nanomsg's RFCs
 * sp-tcp-mapping-01 and, with one more byte, sp-ipc-mapping-01). A request's body begins with words of 4 bytes, the last of which,
 * the request's id, has the highest bit set; those before it were added by devices on the way. A reply begins with the same words
 * (RFC sp-request-reply-01).
 */
#ifndef HOLDFAST_PROTO_SP_H
#define HOLDFAST_PROTO_SP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HP_SP_REQ = 0x30,
    HP_SP_REP = 0x31,
    HP_SP_GREETING = 8,  /* bytes */
    HP_SP_HEAD_MAX = 9,  /* what is in front of a body */
    HP_SP_WORDS_MAX = 64 /* bytes: 15 devices and the id */
};

/* The greeting of a socket of this protocol. */
void hp_sp_greet(uint8_t greeting[HP_SP_GREETING], int protocol);
/* Whether the other side is a socket of this protocol. */
bool hp_sp_is_greeting(const uint8_t greeting[HP_SP_GREETING], int protocol);

/* How many bytes are in front of a body. */
size_t hp_sp_head_size(bool is_ipc);
/* The bytes in front of a body of `len`. */
void hp_sp_write_head(bool is_ipc, uint8_t *head, uint64_t len);
/* The length of the body behind these bytes. False: no message begins so. */
bool hp_sp_read_head(bool is_ipc, const uint8_t *head, uint64_t *len) __attribute__((warn_unused_result));

/* How many bytes of a request's body are its words. 0: it is too short, or came over too many devices. */
size_t hp_sp_words(const uint8_t *body, size_t len);

#endif
