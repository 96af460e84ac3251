/*
 * wire_fuzz.c - the check of the wire, the unpacker and the packer: the first byte names a message type, the rest is a message.
 *
 * What the check refuses is refused with a field and a message that can be shown. What it lets through is clean by another reader
 * too, unpacks within the memory that wire.h promises, packs again, and then stays the same; and is written as JSON that is UTF-8.
 */
#include "fuzz.h"

#include <string.h>

#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"
#include "holdfast/v1/rpc.pb-c.h"
#include "proto/c/json.h"
#include "proto/c/utf8.h"
#include "proto/c/wire.h"
#include "unit/proto/kinds.h"

/* The first byte of the seeds is a place in this table: new types go to its end. */
static const ProtobufCMessageDescriptor *const types[] = {
    &kinds_type, /* every kind of field, and recursive */
    &holdfast__v1__call_envelope__descriptor,
    &holdfast__v1__reply_envelope__descriptor,
    &google__rpc__status__descriptor,
    &google__rpc__error_info__descriptor,
    &google__rpc__retry_info__descriptor,
    &google__rpc__bad_request__descriptor,
    &holdfast__v1__acquire_request__descriptor,
    &holdfast__v1__acquire_response__descriptor,
    &holdfast__v1__cancel_wait_request__descriptor,
    &holdfast__v1__cancel_wait_response__descriptor,
    &holdfast__v1__renew_request__descriptor,
    &holdfast__v1__renew_response__descriptor,
    &holdfast__v1__release_request__descriptor,
    &holdfast__v1__release_response__descriptor,
    &holdfast__v1__get_lease_request__descriptor,
    &holdfast__v1__get_lease_response__descriptor,
    &holdfast__v1__list_leases_request__descriptor,
    &holdfast__v1__list_leases_response__descriptor,
    &holdfast__v1__break_request__descriptor,
    &holdfast__v1__break_response__descriptor,
    &holdfast__v1__watch_leases_request__descriptor,
    &holdfast__v1__watch_leases_response__descriptor,
    &holdfast__v1__check_request__descriptor,
    &holdfast__v1__check_response__descriptor,
    &holdfast__v1__write_request__descriptor,
    &holdfast__v1__write_response__descriptor,
    &holdfast__v1__read_request__descriptor,
    &holdfast__v1__read_response__descriptor,
    &holdfast__v1__list_resources_request__descriptor,
    &holdfast__v1__list_resources_response__descriptor,
    &holdfast__v1__delete_request__descriptor,
    &holdfast__v1__delete_response__descriptor,
    &holdfast__v1__stats_request__descriptor,
    &holdfast__v1__stats_response__descriptor,
    &holdfast__v1__advance_fences_request__descriptor,
    &holdfast__v1__advance_fences_response__descriptor,
    &holdfast__v1__create_namespace_request__descriptor,
    &holdfast__v1__create_namespace_response__descriptor,
    &holdfast__v1__set_namespace_request__descriptor,
    &holdfast__v1__set_namespace_response__descriptor,
    &holdfast__v1__list_namespaces_request__descriptor,
    &holdfast__v1__list_namespaces_response__descriptor,
    &holdfast__v1__audit_request__descriptor,
    &holdfast__v1__audit_response__descriptor,
    &holdfast__v1__set_operation_policy_request__descriptor,
    &holdfast__v1__set_operation_policy_response__descriptor,
    &holdfast__v1__list_operation_policies_request__descriptor,
    &holdfast__v1__list_operation_policies_response__descriptor,
    &holdfast__v1__register_action_request__descriptor,
    &holdfast__v1__register_action_response__descriptor,
    &holdfast__v1__remove_action_request__descriptor,
    &holdfast__v1__remove_action_response__descriptor,
    &holdfast__v1__list_actions_request__descriptor,
    &holdfast__v1__list_actions_response__descriptor,
    &holdfast__v1__begin_request__descriptor,
    &holdfast__v1__begin_response__descriptor,
    &holdfast__v1__renew_operations_request__descriptor,
    &holdfast__v1__renew_operations_response__descriptor,
    &holdfast__v1__record_request__descriptor,
    &holdfast__v1__record_response__descriptor,
    &holdfast__v1__mark_sending_request__descriptor,
    &holdfast__v1__mark_sending_response__descriptor,
    &holdfast__v1__complete_request__descriptor,
    &holdfast__v1__finish_response__descriptor,
    &holdfast__v1__fail_request__descriptor,
    &holdfast__v1__mark_unknown_request__descriptor,
    &holdfast__v1__execute_request__descriptor,
    &holdfast__v1__execute_response__descriptor,
    &holdfast__v1__submit_request__descriptor,
    &holdfast__v1__submit_response__descriptor,
    &holdfast__v1__claim_request__descriptor,
    &holdfast__v1__claim_response__descriptor,
    &holdfast__v1__retry_request__descriptor,
    &holdfast__v1__cancel_request__descriptor,
    &holdfast__v1__reconcile_request__descriptor,
    &holdfast__v1__decide_response__descriptor,
    &holdfast__v1__compensate_request__descriptor,
    &holdfast__v1__compensate_response__descriptor,
    &holdfast__v1__get_operation_request__descriptor,
    &holdfast__v1__get_operation_response__descriptor,
    &holdfast__v1__wait_operation_request__descriptor,
    &holdfast__v1__wait_operation_response__descriptor,
    &holdfast__v1__list_operations_request__descriptor,
    &holdfast__v1__list_operations_response__descriptor,
    &holdfast__v1__list_attempts_request__descriptor,
    &holdfast__v1__list_attempts_response__descriptor,
    &holdfast__v1__create_key_request__descriptor,
    &holdfast__v1__create_key_response__descriptor,
    &holdfast__v1__list_keys_request__descriptor,
    &holdfast__v1__list_keys_response__descriptor,
    &holdfast__v1__revoke_key_request__descriptor,
    &holdfast__v1__revoke_key_response__descriptor,
    &holdfast__v1__set_key_request__descriptor,
    &holdfast__v1__set_key_response__descriptor,
    &holdfast__v1__list_denials_request__descriptor,
    &holdfast__v1__list_denials_response__descriptor,
    &holdfast__v1__map_sql_role_request__descriptor,
    &holdfast__v1__map_sql_role_response__descriptor,
    &holdfast__v1__unmap_sql_role_request__descriptor,
    &holdfast__v1__unmap_sql_role_response__descriptor,
    &holdfast__v1__list_sql_roles_request__descriptor,
    &holdfast__v1__list_sql_roles_response__descriptor,
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static size_t largest[TYPES]; /* message struct in each of them */

static void must_be_in_table(const ProtobufCMessageDescriptor *type)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i] == type)
            return;
    fprintf(stderr, "%s is missing in the table of tests/fuzz/wire_fuzz.c\n", type->name);
    abort();
}

static size_t largest_struct(const ProtobufCMessageDescriptor *type, unsigned depth)
{
    size_t size = type->sizeof_message;
    for (unsigned i = 0; i < type->n_fields && depth < HP_WIRE_DEPTH; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->descriptor == type)
            continue;
        size_t inner = largest_struct(field->descriptor, depth + 1);
        size = inner > size ? inner : size;
    }
    return size;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const ProtobufCServiceDescriptor *const services[] = {
        &holdfast__v1__lease_service__descriptor, &holdfast__v1__resource_service__descriptor,
        &holdfast__v1__operation_service__descriptor, &holdfast__v1__admin_service__descriptor};
    (void)argc;
    (void)argv;
    for (size_t s = 0; s < sizeof(services) / sizeof(services[0]); s++) {
        for (unsigned m = 0; m < services[s]->n_methods; m++) {
            must_be_in_table(services[s]->methods[m].input);
            must_be_in_table(services[s]->methods[m].output);
        }
    }
    for (size_t i = 0; i < TYPES; i++)
        largest[i] = largest_struct(types[i], 0);
    return 0;
}

static void check_refusal(const struct hp_status *status)
{
    MUST(status->code == HP_INVALID_ARGUMENT);
    MUST(status->reason == HP_R_MALFORMED || status->reason == HP_R_LIMIT);
    MUST(status->field[0] && hp_utf8_valid(status->field, strlen(status->field)));
    MUST(status->message[0] && hp_utf8_valid(status->message, strlen(status->message)));
    for (const char *p = status->message; *p; p++)
        MUST((unsigned char)*p >= ' ');
}

/* The fewest elements that the check lets it through with. */
static size_t count_elements(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len)
{
    size_t low = 0, high = HP_WIRE_ELEMENTS;
    while (low < high) {
        struct hp_wire_limits limits = {HP_REQUEST_MAX, (low + high) / 2};
        struct hp_status status;
        if (hp_wire_check_within(&limits, type, data, len, &status))
            high = limits.elements;
        else
            low = limits.elements + 1;
    }
    return low;
}

static uint64_t read_varint(const uint8_t **at)
{
    uint64_t value = 0;
    unsigned shift = 0;
    do
        value |= (uint64_t)(**at & 0x7f) << shift;
    while (shift += 7, *(*at)++ & 0x80);
    return value;
}

static void look(const ProtobufCMessageDescriptor *type, const uint8_t *at, const uint8_t *end, unsigned depth);

static void look_into(const ProtobufCFieldDescriptor *field, const uint8_t *data, size_t len, unsigned depth)
{
    if (field->type == PROTOBUF_C_TYPE_STRING)
        MUST(hp_utf8_valid(data, len) && !memchr(data, '\0', len));
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        look(field->descriptor, data, data + len, depth + 1);
    for (size_t i = 0; i < len && field->type == PROTOBUF_C_TYPE_BOOL; i++)
        MUST(data[i] <= 1);
}

/* The same by another reader, which takes for granted that all is well-formed: protobuf-c would cut a string at NUL, so that what
 * was unpacked cannot tell. */
static void look(const ProtobufCMessageDescriptor *type, const uint8_t *at, const uint8_t *end, unsigned depth)
{
    MUST(depth <= HP_WIRE_DEPTH);
    while (at < end) {
        uint64_t tag = read_varint(&at), len = 0;
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
        switch (tag & 7) {
        case 0:
            read_varint(&at);
            break;
        case 1:
        case 5:
            len = (tag & 7) == 1 ? 8 : 4;
            break;
        default:
            MUST((tag & 7) == 2);
            len = read_varint(&at);
            MUST(len <= (size_t)(end - at));
            if (field)
                look_into(field, at, len, depth);
        }
        at += len;
    }
    MUST(at == end);
}

static void pack_again(const ProtobufCMessageDescriptor *type, size_t budget, const ProtobufCMessage *message)
{
    struct hp_buf first = HP_BUF_INIT, second = HP_BUF_INIT, json = HP_BUF_INIT;
    struct hp_status status;
    MUST(hp_pack(&first, message));
    struct hp_arena *arena = hp_arena_new(budget + 4 * first.len);
    MUST(arena);
    ProtobufCMessage *again = hp_unpack(arena, type, first.data, first.len, &status);
    MUST(again);
    MUST(hp_pack(&second, again));
    MUST(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    hp_json_write(&json, message, HP_JSON_DEFAULTS);
    MUST(!json.failed && hp_utf8_valid(json.data, json.len) && !memchr(json.data, '\n', json.len));
    hp_buf_release(&json);
    hp_buf_release(&second);
    hp_buf_release(&first);
    hp_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hp_status status;
    if (size == 0 || data[0] >= TYPES)
        return -1;
    const ProtobufCMessageDescriptor *type = types[data[0]];
    const uint8_t *bytes = data + 1;
    size_t len = size - 1;
    if (!hp_wire_check(type, bytes, len, &status)) {
        check_refusal(&status);
        return 0;
    }
    look(type, bytes, bytes + len, 1);
    /* What wire.h says of an element, and the message itself. */
    size_t budget = len + (count_elements(type, bytes, len) + 1) * (200 + largest[data[0]]);
    struct hp_arena *arena = hp_arena_new(budget);
    MUST(arena);
    const ProtobufCMessage *message = hp_unpack(arena, type, bytes, len, &status);
    if (!message)
        fprintf(stderr, "%s: %s\n", type->name, status.message);
    MUST(message);
    pack_again(type, budget, message);
    hp_arena_free(arena);
    return 0;
}
