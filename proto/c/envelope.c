/*
 * envelope.c - calls and replies of the nng transport.
 *
 * What one call has too much of (payload, metadata, timeout) does not spoil its envelope: it is refused when that call is run,
 * so that the calls packed beside it go on. No state; any thread.
 */
#include "proto/c/envelope.h"

#include <stdio.h>
#include <string.h>

#include "proto/c/status.h"
#include "proto/c/utf8.h"
#include "proto/c/wire.h"

static bool within(size_t n, size_t least, size_t most, const char *field, struct hp_status *status)
{
    char value[32], limit[48];
    int len;

    if (n >= least && n <= most)
        return true;
    len = snprintf(value, sizeof value, "%zu", n);
    snprintf(limit, sizeof limit, "%zu to %zu", least, most);
    hp_status_bad_field(status, HP_R_LIMIT, field, value, (size_t)len, limit);
    return false;
}

Holdfast__V1__CallEnvelope *hp_calls_decode(struct hp_arena *arena, const void *data, size_t len, struct hp_status *status)
{
    Holdfast__V1__CallEnvelope *envelope = (Holdfast__V1__CallEnvelope *)hp_unpack_within(
        &hp_wire_envelope, arena, &holdfast__v1__call_envelope__descriptor, data, len, status);

    if (!envelope || !within(envelope->n_calls, 1, HP_ENVELOPE_CALLS, "calls", status))
        return NULL;
    return envelope;
}

Holdfast__V1__ReplyEnvelope *hp_replies_decode(struct hp_arena *arena, const void *data, size_t len, struct hp_status *status)
{
    struct hp_status why;
    Holdfast__V1__ReplyEnvelope *envelope = (Holdfast__V1__ReplyEnvelope *)hp_unpack_within(
        &hp_wire_reply, arena, &holdfast__v1__reply_envelope__descriptor, data, len, &why);

    if (!envelope)
        hp_status_set(status, HP_R_INTERNAL, "the reply cannot be read: %s", why.message);
    return envelope;
}

bool hp_reply_fill(struct hp_arena *arena, Holdfast__V1__Reply *reply, const struct hp_status *status, const void *payload,
                   size_t len)
{
    struct hp_buf details = HP_BUF_INIT;
    bool done = false;

    holdfast__v1__reply__init(reply);
    if (!status || status->code == HP_OK) {
        reply->payload.data = (uint8_t *)payload;
        reply->payload.len = len;
        return true;
    }
    reply->code = (int32_t)status->code;
    reply->message = hp_strndup(arena, status->message, strlen(status->message));
    if (!reply->message || !hp_status_encode(status, &details))
        goto out;
    reply->details.data = hp_alloc(arena, details.len);
    if (!reply->details.data)
        goto out;
    memcpy(reply->details.data, details.data, details.len);
    reply->details.len = details.len;
    done = true;
out:
    if (!done)
        holdfast__v1__reply__init(reply);
    hp_buf_release(&details);
    return done;
}

void hp_reply_status(const Holdfast__V1__Reply *reply, struct hp_status *status)
{
    struct hp_status details;

    memset(status, 0, sizeof *status);
    if (reply->code == HP_OK)
        return;
    if (reply->details.len && hp_status_decode(reply->details.data, reply->details.len, &details))
        *status = details;
    /* Code and message of the reply decide, whatever its details say. */
    status->code = reply->code > HP_OK && reply->code <= HP_UNAUTHENTICATED ? (enum hp_code)reply->code : HP_UNKNOWN;
    if (reply->message && reply->message[0])
        hp_utf8_copy(status->message, sizeof status->message, reply->message, strlen(reply->message));
    else if (!status->message[0])
        hp_utf8_copy(status->message, sizeof status->message, hp_code_name(reply->code), strlen(hp_code_name(reply->code)));
}
