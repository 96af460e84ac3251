/*
 * unpack.c - from bytes to messages, after the check, and back.
 *
 * No state; any thread.
 */
#include "proto/c/wire.h"

#include <string.h>

ProtobufCMessage *hp_unpack_within(const struct hp_wire_limits *limits, struct hp_arena *arena,
                                   const ProtobufCMessageDescriptor *type, const void *data, size_t len, struct hp_status *status)
{
    ProtobufCMessage *message;

    if (!hp_wire_check_within(limits, type, data, len, status))
        return NULL;
    message = protobuf_c_message_unpack(type, hp_arena_allocator(arena), len, data);
    if (message)
        return message;
    switch (hp_arena_failure(arena)) {
    case HP_ARENA_BUDGET:
        hp_status_bad_field(status, HP_R_LIMIT, type->short_name, NULL, 0, "a message that fits into the memory of one call");
        break;
    case HP_ARENA_MEMORY: /* nothing was done: the caller may come again */
        hp_status_set(status, HP_R_QUEUE_FULL, "out of memory");
        break;
    default: /* the check let through what protobuf-c refuses */
        hp_status_bad_field(status, HP_R_MALFORMED, type->short_name, NULL, 0, "a message that can be unpacked");
    }
    return NULL;
}

ProtobufCMessage *hp_unpack(struct hp_arena *arena, const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                            struct hp_status *status)
{
    return hp_unpack_within(&hp_wire_request, arena, type, data, len, status);
}

bool hp_pack(struct hp_buf *out, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);

    if (!hp_buf_reserve(out, size))
        return false;
    protobuf_c_message_pack(message, out->data + out->len);
    out->len += size;
    out->data[out->len] = '\0';
    return true;
}
