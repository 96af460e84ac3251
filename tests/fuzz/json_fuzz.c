/*
 * json_fuzz.c - JSON from strangers: the first byte says which message it is to be, the rest is the text.
 *
 * Whatever the text, it is refused with a status that names a field, or it is a message that passes the check of the wire (or is
 * beyond its limits), can be unpacked, and is written as JSON that is read as the same message again.
 */
#include "fuzz.h"

#include <string.h>

#include "google/rpc/error_details.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "net/json_read.h"
#include "proto/c/json.h"
#include "proto/c/wire.h"
#include "unit/proto/kinds.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &kinds_type,
    &holdfast__v1__acquire_request__descriptor,
    &holdfast__v1__renew_request__descriptor,
    &holdfast__v1__execute_request__descriptor,
    &holdfast__v1__get_operation_response__descriptor,
    &google__rpc__retry_info__descriptor,
    &google__rpc__error_info__descriptor,
};
enum { TYPES = sizeof(types) / sizeof(types[0]), BUDGET = 64 << 20 };

static void check_refusal(const struct hp_status *status)
{
    MUST(status->code == HP_INVALID_ARGUMENT);
    MUST(status->reason == HP_R_MALFORMED || status->reason == HP_R_LIMIT);
    MUST(status->field[0] && status->message[0]);
    MUST(hp_utf8_valid(status->message, strlen(status->message)) && hp_utf8_valid(status->field, strlen(status->field)));
}

/* The message as JSON; it must be read as what is written so again. */
static void write_and_read(struct hp_arena *arena, const ProtobufCMessage *message)
{
    struct hp_buf text = HP_BUF_INIT, wire = HP_BUF_INIT, again = HP_BUF_INIT;
    struct hp_status status;
    hp_json_write(&text, message, 0);
    MUST(!text.failed);
    MUST(net_json_read(message->descriptor, (const char *)text.data, text.len, &wire, &status));
    message = hp_unpack(arena, message->descriptor, wire.data, wire.len, &status);
    MUST(message);
    hp_json_write(&again, message, 0);
    MUST(again.len == text.len && !memcmp(again.data, text.data, text.len));
    hp_buf_release(&text);
    hp_buf_release(&wire);
    hp_buf_release(&again);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hp_buf wire = HP_BUF_INIT;
    struct hp_status status = {.code = HP_OK};
    if (size < 1)
        return -1;
    const ProtobufCMessageDescriptor *type = types[data[0] % TYPES];
    if (net_json_read(type, (const char *)data + 1, size - 1, &wire, &status)) {
        struct hp_arena *arena = hp_arena_new(BUDGET);
        MUST(arena);
        const ProtobufCMessage *message = hp_unpack(arena, type, wire.data, wire.len, &status);
        MUST(message || status.reason == HP_R_LIMIT);
        if (message)
            write_and_read(arena, message);
        hp_arena_free(arena);
    } else {
        check_refusal(&status);
    }
    hp_buf_release(&wire);
    return 0;
}
