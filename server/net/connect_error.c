/*
 * connect_error.c - see connect.h. No state.
 */
#include <string.h>

#include "google/protobuf/any.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "net/connect.h"
#include "proto/c/arena.h"
#include "proto/c/grpc.h"
#include "proto/c/json.h"
#include "proto/c/status.h"
#include "proto/c/wire.h"

enum { BUDGET = 1 << 20 };

static const struct {
    enum hp_code code;
    const char *name;
    int http;
} codes[] = {
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
enum { N_CODES = sizeof(codes) / sizeof(codes[0]), AS_UNKNOWN = 1 };

static size_t row_of(enum hp_code code)
{
    for (size_t i = 0; i < N_CODES; i++)
        if (codes[i].code == code)
            return i;
    return AS_UNKNOWN;
}

const char *net_connect_code(enum hp_code code)
{
    return codes[row_of(code)].name;
}

int net_connect_http_status(enum hp_code code)
{
    return codes[row_of(code)].http;
}

static const ProtobufCMessageDescriptor *type_of(const char *name)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &google__rpc__error_info__descriptor,
        &google__rpc__retry_info__descriptor,
        &google__rpc__bad_request__descriptor,
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(types[i]->name, name))
            return types[i];
    return NULL;
}

static void write_detail(struct hp_buf *out, struct hp_arena *arena, const Google__Protobuf__Any *any)
{
    const char *slash = strrchr(any->type_url, '/'), *name = slash ? slash + 1 : any->type_url;
    const ProtobufCMessageDescriptor *type = type_of(name);
    struct hp_status ignored;
    hp_buf_addstr(out, "{\"type\":");
    hp_json_string(out, name, strlen(name));
    hp_buf_addstr(out, ",\"value\":\"");
    hp_base64_encode(out, any->value.data, any->value.len);
    hp_buf_addch(out, '"');
    const ProtobufCMessage *message = type ? hp_unpack(arena, type, any->value.data, any->value.len, &ignored) : NULL;
    if (message) {
        hp_buf_addstr(out, ",\"debug\":");
        hp_json_write(out, message, 0);
    }
    hp_buf_addch(out, '}');
}

static void write_details(struct hp_buf *out, const struct hp_status *status)
{
    struct hp_arena *arena = hp_arena_new(BUDGET);
    struct hp_buf packed = HP_BUF_INIT;
    struct hp_status ignored;
    const Google__Rpc__Status *message = NULL;
    if (arena && hp_status_encode(status, &packed))
        message =
            (const Google__Rpc__Status *)hp_unpack(arena, &google__rpc__status__descriptor, packed.data, packed.len, &ignored);
    for (size_t i = 0; message && i < message->n_details; i++) {
        hp_buf_addstr(out, i ? "," : ",\"details\":[");
        write_detail(out, arena, message->details[i]);
        if (i + 1 == message->n_details)
            hp_buf_addch(out, ']');
    }
    hp_buf_release(&packed);
    hp_arena_free(arena);
}

void net_connect_error(struct hp_buf *out, const struct hp_status *status)
{
    hp_buf_printf(out, "{\"code\":\"%s\"", net_connect_code(status->code));
    if (status->message[0]) {
        hp_buf_addstr(out, ",\"message\":");
        hp_json_string(out, status->message, strlen(status->message));
    }
    write_details(out, status);
    hp_buf_addch(out, '}');
}
