/* The check of the wire: good messages pass, bad ones are refused by the name of the field, and what passes unpacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"
#include "kinds.h"
#include "proto/c/wire.h"

static const ProtobufCMessageDescriptor *const acquire = &holdfast__v1__acquire_request__descriptor;
static const ProtobufCMessageDescriptor *const renew = &holdfast__v1__renew_request__descriptor;

/* What unpacking may use for something of this length: the bound that wire.h states. */
static size_t budget_for(size_t len)
{
    size_t elements = len < HP_WIRE_ELEMENTS ? len : HP_WIRE_ELEMENTS;

    return len + (elements + 1) * (200 + sizeof(struct kinds));
}

/* Checks and unpacks an exact copy, so that a sanitizer sees a byte read too far. True if it passed; then it was unpacked
 * within the budget, and packed again it passes again. */
static bool try_it(const ProtobufCMessageDescriptor *type, const void *data, size_t len, struct hp_status *status)
{
    uint8_t *copy = malloc(len ? len : 1);
    struct hp_arena *arena = hp_arena_new(budget_for(len));
    struct hp_buf again = HP_BUF_INIT;
    ProtobufCMessage *message;
    bool passed;

    assert_non_null(copy);
    assert_non_null(arena);
    memset(status, 0, sizeof *status);
    if (len)
        memcpy(copy, data, len);
    passed = hp_wire_check(type, copy, len, status);
    if (passed) {
        message = hp_unpack(arena, type, copy, len, status);
        if (!message)
            fail_msg("passed, but cannot be unpacked: %s", status->message);
        assert_true(protobuf_c_message_check(message));
        assert_true(hp_pack(&again, message));
        if (!hp_wire_check_within(&hp_wire_reply, type, again.data, again.len, status))
            fail_msg("passed, but not when packed again: %s", status->message);
    } else {
        assert_int_equal(status->code, HP_INVALID_ARGUMENT);
        assert_true(status->reason == HP_R_LIMIT || status->reason == HP_R_MALFORMED);
        assert_true(status->field[0] != '\0');
        assert_true(hp_utf8_valid(status->message, strlen(status->message)));
    }
    hp_buf_release(&again);
    hp_arena_free(arena);
    free(copy);
    return passed;
}

#define PASSES(type, buf)                                                                                                          \
    do {                                                                                                                           \
        struct hp_status passes_status;                                                                                            \
        if (!try_it(type, (buf)->data, (buf)->len, &passes_status))                                                                \
            fail_msg("refused: %s", passes_status.message);                                                                        \
        hp_buf_reset(buf);                                                                                                         \
    } while (0)

#define REFUSED(type, buf, why, path)                                                                                              \
    do {                                                                                                                           \
        struct hp_status refused_status;                                                                                           \
        assert_false(try_it(type, (buf)->data, (buf)->len, &refused_status));                                                      \
        assert_string_equal(hp_reason_name((int)refused_status.reason), #why);                                                     \
        assert_string_equal(refused_status.field, path);                                                                           \
        hp_buf_reset(buf);                                                                                                         \
    } while (0)

static void pack_full(struct hp_buf *out)
{
    struct kinds message;

    kinds_fill(&message);
    assert_true(hp_pack(out, &message.base));
}

static void every_kind_of_field_passes(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT, again = HP_BUF_INIT;
    struct hp_arena *arena = hp_arena_new(1 << 20);
    struct hp_status status;
    struct kinds *message;

    (void)state;
    pack_full(&bytes);
    message = (struct kinds *)hp_unpack(arena, &kinds_type, bytes.data, bytes.len, &status);
    assert_non_null(message);
    assert_string_equal(message->text, "gr\xC3\xBC\xC3\x9F \xF0\x9F\x94\x92");
    assert_int_equal(message->n_many_i32, 3);
    assert_int_equal(message->many_i32[2], 300);
    assert_int_equal(message->by_number[0]->value->i32, 7);
    assert_true(hp_pack(&again, &message->base));
    assert_int_equal(again.len, bytes.len);
    assert_memory_equal(again.data, bytes.data, bytes.len);
    hp_buf_release(&bytes);
    hp_buf_release(&again);
    hp_arena_free(arena);
}

static void nothing_is_a_message(void **state)
{
    struct hp_status status;
    struct hp_arena *arena = hp_arena_new(10000);

    (void)state;
    assert_true(try_it(acquire, NULL, 0, &status));
    assert_non_null(hp_unpack(arena, acquire, NULL, 0, &status));
    hp_arena_free(arena);
}

static void strings_are_utf8_without_nul(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        bool valid;
    } cases[] = {
        {"plain", 5, true},
        {"", 0, true},
        {"\xC2\x80", 2, true},
        {"\xDF\xBF", 2, true},
        {"\xE0\xA0\x80", 3, true},
        {"\xED\x9F\xBF", 3, true},
        {"\xEE\x80\x80", 3, true},
        {"\xEF\xBF\xBF", 3, true},
        {"\xF0\x90\x80\x80", 4, true},
        {"\xF4\x8F\xBF\xBF", 4, true},
        {"eight by\xC3\xA9te", 11, true},
        {"a\0b", 3, false},
        {"\0", 1, false},
        {"long text that is fine at first \0", 33, false},
        {"\x80", 1, false},             /* a tail by itself */
        {"\xBF", 1, false},             /* the same */
        {"\xC0\x80", 2, false},         /* overlong NUL */
        {"\xC1\xBF", 2, false},         /* overlong */
        {"\xE0\x80\x80", 3, false},     /* overlong */
        {"\xE0\x9F\xBF", 3, false},     /* overlong */
        {"\xF0\x80\x80\x80", 4, false}, /* overlong */
        {"\xF0\x8F\xBF\xBF", 4, false}, /* overlong */
        {"\xED\xA0\x80", 3, false},     /* a surrogate */
        {"\xED\xBF\xBF", 3, false},     /* a surrogate */
        {"\xF4\x90\x80\x80", 4, false}, /* above U+10FFFF */
        {"\xF5\x80\x80\x80", 4, false}, /* the same */
        {"\xF8\x88\x80\x80\x80", 5, false},
        {"\xFF", 1, false},
        {"\xC3", 1, false},          /* cut off */
        {"\xE2\x82", 2, false},      /* cut off */
        {"\xF0\x9F\x94", 3, false},  /* cut off */
        {"\xC3(", 2, false},         /* the tail is none */
        {"\xE2(\xA1", 3, false},     /* the same */
        {"\xF0\x9F(\x92", 4, false}, /* the same */
        {"ascii ascii ascii\xFF", 18, false},
    };
    struct hp_buf bytes = HP_BUF_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_bytes(&bytes, 2, cases[i].text, cases[i].len);
        if (cases[i].valid)
            PASSES(acquire, &bytes);
        else
            REFUSED(acquire, &bytes, MALFORMED, "task");
        put_bytes(&bytes, 5, cases[i].text, cases[i].len); /* bytes may be anything */
        PASSES(&holdfast__v1__write_request__descriptor, &bytes);
    }
    hp_buf_release(&bytes);
}

static void a_refusal_names_the_path(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT, inner = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    put_text(&bytes, 1, "default");
    for (int i = 0; i < 57; i++)
        put_text(&bytes, 2, "");
    put_bytes(&inner, 1, "a\0b", 3);
    put_bytes(&bytes, 2, inner.data, inner.len);
    assert_false(hp_wire_check(renew, bytes.data, bytes.len, &status));
    assert_string_equal(status.field, "items[57].resource");
    assert_string_equal(hp_status_get_meta(&status, "value"), "a\\x00b");
    assert_string_equal(status.message, "items[57].resource: \"a\\x00b\" is not well-formed; wanted: valid UTF-8 without NUL");
    hp_buf_reset(&bytes);

    hp_buf_reset(&inner);
    put_text(&inner, 1, "key");
    for (int i = 0; i < 3; i++)
        put_bytes(&bytes, 8, inner.data, inner.len);
    put_bytes(&inner, 2, "\xFF", 1);
    put_bytes(&bytes, 8, inner.data, inner.len);
    REFUSED(acquire, &bytes, MALFORMED, "labels[3].value");

    put_text(&bytes, 3, "a"); /* resources among other fields */
    put_text(&bytes, 2, "task");
    put_text(&bytes, 3, "b");
    put_text(&bytes, 3, "\xFF");
    REFUSED(acquire, &bytes, MALFORMED, "resources[2]");

    hp_buf_addstr(&bytes, "\x92\x01\x04\x01\x02\x03\x80"); /* many_i32 = 18, packed: 1, 2, 3, and a varint that doesn't end */
    REFUSED(&kinds_type, &bytes, MALFORMED, "many_i32[3]");
    put_number(&bytes, 18, 5); /* and unpacked */
    hp_buf_addstr(&bytes, "\x92\x01\x02\x01\x80");
    REFUSED(&kinds_type, &bytes, MALFORMED, "many_i32[2]");
    hp_buf_release(&bytes);
    hp_buf_release(&inner);
}

static void broken_records_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *field;
    } cases[] = {
        {"\x80", 1, "Kinds"},                                            /* half a tag */
        {"\x88\x80\x80\x80\x80\x00\x01", 7, "Kinds"},                    /* a tag of six bytes */
        {"\x88\x80\x80\x80\x1F\x01", 6, "Kinds"},                        /* a tag above 32 bits */
        {"\x00\x01", 2, "Kinds"},                                        /* field 0 */
        {"\x80\x00\x01", 3, "Kinds"},                                    /* field 0, overlong */
        {"\x02\x00", 2, "Kinds"},                                        /* field 0, bytes */
        {"\x0B\x0C", 2, "i32"},                                          /* a group */
        {"\x0C", 1, "i32"},                                              /* the end of one */
        {"\x0E\x01", 2, "i32"},                                          /* wire type 6 */
        {"\x0F\x01", 2, "i32"},                                          /* wire type 7 */
        {"\xC3\x3E", 2, "1000"},                                         /* a group that is not known */
        {"\x08", 1, "i32"},                                              /* no varint */
        {"\x08\x80", 2, "i32"},                                          /* half a varint */
        {"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12, "i32"}, /* eleven bytes */
        {"\x1D\x01\x02\x03", 4, "sf32"},                                 /* three of four bytes */
        {"\x41\x01\x02\x03\x04\x05\x06\x07", 8, "sf64"},                 /* seven of eight */
        {"\x7A", 1, "text"},                                             /* no length */
        {"\x7A\x80", 2, "text"},                                         /* half a length */
        {"\x7A\x03\x61\x62", 4, "text"},                                 /* two of three bytes */
        {"\x7A\xFF\xFF\xFF\xFF\x0F\x61", 7, "text"},                     /* 2^32 - 1 */
        {"\x7A\xFF\xFF\xFF\xFF\x7F\x61", 7, "text"},                     /* beyond 32 bits */
        {"\x7A\x81\x80\x80\x80\x80\x00\x61", 8, "text"},                 /* a length of six bytes */
        {"\xC2\x3E\x05\x01", 4, "1000"},                                 /* unknown and cut off */
        {"\x08\x01\x8A\x01\x05\x08\x01", 7, "child"},                    /* a child longer than its parent */
        {"\x8A\x01\x02\x08\x80", 5, "child.i32"},                        /* cut off within the child */
        {"\x8A\x01\x01\x80", 4, "child"},                                /* half a tag within the child */
    };
    struct hp_buf bytes = HP_BUF_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hp_buf_add(&bytes, cases[i].bytes, cases[i].len);
        REFUSED(&kinds_type, &bytes, MALFORMED, cases[i].field);
    }
    hp_buf_release(&bytes);
}

/* A field with each wire type: only its own passes; packable repeated fields also take bytes. */
static void wire_types_fit_the_descriptor(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;

    (void)state;
    for (unsigned i = 0; i < kinds_type.n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &kinds_type.fields[i];

        for (unsigned wire = 0; wire < 6; wire++) {
            bool fits, packed;

            if (wire == 3 || wire == 4)
                continue;
            put_tag(&bytes, field->id, wire);
            hp_buf_add(&bytes, "\0\0\0\0\0\0\0\0", wire == 0 || wire == 2 ? 1 : wire == 1 ? 8 : 4);
            switch (field->type) {
            case PROTOBUF_C_TYPE_SFIXED32:
            case PROTOBUF_C_TYPE_FIXED32:
            case PROTOBUF_C_TYPE_FLOAT:
                fits = wire == 5;
                break;
            case PROTOBUF_C_TYPE_SFIXED64:
            case PROTOBUF_C_TYPE_FIXED64:
            case PROTOBUF_C_TYPE_DOUBLE:
                fits = wire == 1;
                break;
            case PROTOBUF_C_TYPE_STRING:
            case PROTOBUF_C_TYPE_BYTES:
            case PROTOBUF_C_TYPE_MESSAGE:
                fits = wire == 2;
                break;
            default:
                fits = wire == 0;
            }
            packed = wire == 2 && field->id >= 18 && field->id <= 23;
            assert_int_equal(try_it(&kinds_type, bytes.data, bytes.len, &status), fits || packed);
            if (!fits && !packed)
                assert_true(strncmp(status.field, field->name, strlen(field->name)) == 0);
            hp_buf_reset(&bytes);
        }
    }
    hp_buf_release(&bytes);
}

static void packed_elements_are_whole(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;

    (void)state;
    put_bytes(&bytes, 20, "1234567", 7);
    REFUSED(&kinds_type, &bytes, MALFORMED, "many_f32[0]");
    put_bytes(&bytes, 21, "1234567812345678", 16);
    PASSES(&kinds_type, &bytes);
    put_bytes(&bytes, 22, "\x01\x02", 2); /* protobuf-c fails on a bool of 2 */
    REFUSED(&kinds_type, &bytes, MALFORMED, "many_yes[1]");
    put_bytes(&bytes, 22, "\x80\x01", 2); /* or of two bytes */
    REFUSED(&kinds_type, &bytes, MALFORMED, "many_yes[0]");
    put_bytes(&bytes, 18, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x05", 11);
    PASSES(&kinds_type, &bytes);
    put_bytes(&bytes, 18, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11);
    REFUSED(&kinds_type, &bytes, MALFORMED, "many_i32[0]");
    hp_buf_release(&bytes);
}

static void nest(struct hp_buf *out, uint32_t number, int levels)
{
    struct hp_buf inner = HP_BUF_INIT, outer = HP_BUF_INIT;

    put_number(&inner, 1, 1);
    for (int i = 1; i < levels; i++) {
        put_bytes(&outer, number, inner.data, inner.len);
        hp_buf_reset(&inner);
        hp_buf_add(&inner, outer.data, outer.len);
        hp_buf_reset(&outer);
    }
    hp_buf_add(out, inner.data, inner.len);
    hp_buf_release(&inner);
    hp_buf_release(&outer);
}

static void depth_is_bounded(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;

    (void)state;
    nest(&bytes, 17, HP_WIRE_DEPTH);
    PASSES(&kinds_type, &bytes);
    nest(&bytes, 17, HP_WIRE_DEPTH + 1);
    REFUSED(&kinds_type, &bytes, LIMIT, "child.child.child.child.child.child.child.child");
    nest(&bytes, 26, 1000);
    REFUSED(&kinds_type, &bytes, LIMIT,
            "many_child[0].many_child[0].many_child[0].many_child[0].many_child[0].many_child[0].many_chi\xE2\x80\xA6");
    hp_buf_release(&bytes);
}

static void elements_are_bounded(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    char *zeros = calloc(1, HP_WIRE_ELEMENTS);

    (void)state;
    for (int i = 0; i < (4 << 20) / 2; i++) /* 4 MiB of empty submessages */
        put_text(&bytes, 2, "");
    REFUSED(renew, &bytes, LIMIT, "items[20000]");
    for (int i = 0; i < HP_WIRE_ELEMENTS; i++)
        put_text(&bytes, 2, "");
    PASSES(renew, &bytes);
    for (int i = 0; i <= HP_WIRE_ELEMENTS; i++) /* unknown ones count too */
        put_number(&bytes, 15, 0);
    REFUSED(renew, &bytes, LIMIT, "15");
    put_bytes(&bytes, 18, zeros, HP_WIRE_ELEMENTS - 1); /* and packed ones, with their field */
    PASSES(&kinds_type, &bytes);
    put_bytes(&bytes, 18, zeros, HP_WIRE_ELEMENTS);
    REFUSED(&kinds_type, &bytes, LIMIT, "many_i32[0]");
    for (int i = 0; i < 150; i++) { /* and those of all levels together */
        struct hp_buf inner = HP_BUF_INIT;

        put_bytes(&inner, 18, zeros, 150);
        put_bytes(&bytes, 26, inner.data, inner.len);
        hp_buf_release(&inner);
    }
    REFUSED(&kinds_type, &bytes, LIMIT, "many_child[131].many_i32[0]");
    free(zeros);
    hp_buf_release(&bytes);
}

static void requests_are_bounded(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;
    uint8_t *value = calloc(1, HP_REQUEST_MAX);

    (void)state;
    put_bytes(&bytes, 5, value, HP_REQUEST_MAX - 5);
    assert_int_equal(bytes.len, HP_REQUEST_MAX);
    assert_true(hp_wire_check(&holdfast__v1__write_request__descriptor, bytes.data, bytes.len, &status));
    put_number(&bytes, 3, 1);
    assert_false(hp_wire_check(&holdfast__v1__write_request__descriptor, bytes.data, bytes.len, &status));
    assert_int_equal(status.reason, HP_R_LIMIT);
    assert_string_equal(status.message, "WriteRequest: \"4194306 bytes\" is outside its limit; wanted: at most 4194304 bytes");
    assert_true(hp_wire_check_within(&hp_wire_reply, &holdfast__v1__write_request__descriptor, bytes.data, bytes.len, &status));
    free(value);
    hp_buf_release(&bytes);
}

/* The most that some bytes can make the unpacker use; try_it has the bound for a budget. */
static void memory_is_bounded(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT, inner = HP_BUF_INIT;

    (void)state;
    for (int i = 0; i < 17; i++) /* 17 fields: the unpacker takes its first slab from the arena */
        put_number(&inner, 40, 0);
    for (int i = 0; i < HP_WIRE_ELEMENTS / 18; i++)
        put_bytes(&bytes, 26, inner.data, inner.len);
    PASSES(&kinds_type, &bytes);
    for (int i = 0; i < HP_WIRE_ELEMENTS; i++)
        put_text(&bytes, 24, "");
    PASSES(&kinds_type, &bytes);
    for (int i = 0; i < HP_WIRE_ELEMENTS; i++)
        put_text(&bytes, 15, "a singular string, given again and again");
    PASSES(&kinds_type, &bytes);
    for (int i = 0; i < HP_WIRE_ELEMENTS; i++)
        put_text(&bytes, i % 2 ? 31 : 33, "a oneof");
    PASSES(&kinds_type, &bytes);
    hp_buf_release(&bytes);
    hp_buf_release(&inner);
}

static void submessages_come_once(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;

    (void)state;
    put_text(&bytes, 17, "");
    PASSES(&kinds_type, &bytes);
    put_text(&bytes, 17, ""); /* protobuf-c would merge two messages whose oneof is not set, and read before its table */
    put_text(&bytes, 17, "");
    REFUSED(&kinds_type, &bytes, MALFORMED, "child");
    put_text(&bytes, 32, "");
    put_text(&bytes, 32, "");
    REFUSED(&kinds_type, &bytes, MALFORMED, "one_child");
    for (int i = 0; i < 3; i++)
        put_text(&bytes, 26, "");
    PASSES(&kinds_type, &bytes);
    hp_buf_release(&bytes);
}

static void the_last_of_a_oneof_counts(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT, inner = HP_BUF_INIT;
    struct hp_arena *arena = hp_arena_new(1 << 20);
    struct hp_status status;
    struct kinds *message;

    (void)state;
    put_text(&inner, 31, "text within");
    put_text(&inner, 15, "more");
    put_text(&bytes, 31, "text");
    put_bytes(&bytes, 32, inner.data, inner.len);
    put_text(&bytes, 33, "data");
    put_number(&bytes, 30, 3);
    put_text(&bytes, 33, "");
    put_text(&bytes, 31, "again");
    put_text(&bytes, 31, "last");
    message = (struct kinds *)hp_unpack(arena, &kinds_type, bytes.data, bytes.len, &status);
    assert_non_null(message);
    assert_int_equal(message->one_case, 31);
    assert_string_equal(message->one_text, "last");
    hp_buf_reset(&bytes);
    put_text(&bytes, 31, "text");
    put_bytes(&bytes, 32, inner.data, inner.len);
    message = (struct kinds *)hp_unpack(arena, &kinds_type, bytes.data, bytes.len, &status);
    assert_non_null(message);
    assert_int_equal(message->one_case, 32);
    assert_string_equal(message->one_child->one_text, "text within");
    hp_arena_free(arena);
    hp_buf_release(&bytes);
    hp_buf_release(&inner);
}

static void unknown_fields_pass(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;

    (void)state;
    put_number(&bytes, 1000, 5);
    put_bytes(&bytes, 1001, "\xFF\0", 2);
    put_tag(&bytes, 1002, 1);
    hp_buf_add(&bytes, "12345678", 8);
    put_tag(&bytes, 536870911, 5);
    hp_buf_add(&bytes, "1234", 4);
    put_text(&bytes, 1, "default");
    PASSES(acquire, &bytes);
    hp_buf_release(&bytes);
}

static void every_beginning_is_survived(void **state)
{
    struct hp_buf bytes = HP_BUF_INIT;
    struct hp_status status;
    size_t passed = 0;

    (void)state;
    pack_full(&bytes);
    for (size_t len = 0; len <= bytes.len; len++)
        passed += try_it(&kinds_type, bytes.data, len, &status);
    /* Only where a field ends can a message end. */
    assert_true(passed >= kinds_type.n_fields && passed < 60);
    hp_buf_release(&bytes);
}

static uint64_t seed = 0x9E3779B97F4A7C15;

static uint32_t random_below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % n;
}

static void mutate(struct hp_buf *bytes)
{
    static const uint8_t special[] = {0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF, 0x0A, 0x8A, 0xED, 0xC0};
    size_t at = random_below((uint32_t)bytes->len);
    size_t n = random_below(8) + 1;

    if (n > bytes->len - at)
        n = bytes->len - at;
    switch (random_below(5)) {
    case 0:
        bytes->data[at] ^= (uint8_t)(1u << random_below(8));
        break;
    case 1:
        bytes->data[at] = special[random_below(sizeof special)];
        break;
    case 2: /* take some away */
        memmove(bytes->data + at, bytes->data + at + n, bytes->len - at - n);
        bytes->len -= n;
        break;
    case 3: /* some twice */
        if (hp_buf_reserve(bytes, n)) {
            memmove(bytes->data + at + n, bytes->data + at, bytes->len - at);
            bytes->len += n;
        }
        break;
    default:
        bytes->data[at] = (uint8_t)random_below(256);
    }
}

static void mutated_messages_are_survived(void **state)
{
    enum { ROUNDS = 200000 };
    struct hp_buf good = HP_BUF_INIT, bytes = HP_BUF_INIT;
    struct hp_status status;
    size_t passed = 0;

    (void)state;
    pack_full(&good);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t n = 1 + random_below(4);

        hp_buf_reset(&bytes);
        hp_buf_add(&bytes, good.data, good.len);
        while (n-- > 0 && bytes.len > 0)
            mutate(&bytes);
        passed += try_it(&kinds_type, bytes.data, bytes.len, &status);
    }
    print_message("%zu of %d mutated messages passed\n", passed, ROUNDS);
    assert_true(passed > ROUNDS / 20 && passed < ROUNDS);
    hp_buf_release(&good);
    hp_buf_release(&bytes);
}

static void random_bytes_are_survived(void **state)
{
    struct hp_status status;
    uint8_t bytes[64];
    size_t passed = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        size_t len = random_below(sizeof bytes);

        for (size_t j = 0; j < len; j++)
            bytes[j] = (uint8_t)random_below(i % 2 ? 256 : 32);
        passed += try_it(i % 3 ? &kinds_type : acquire, bytes, len, &status);
    }
    print_message("%zu random messages passed\n", passed);
    assert_true(passed > 1000);
}

static void names_are_checked(void **state)
{
    struct hp_status status;
    char name[258];

    (void)state;
    memset(name, 'n', sizeof name);
    name[257] = '\0';
    assert_false(hp_check_name("resource", name, &status));
    assert_int_equal(status.reason, HP_R_LIMIT);
    assert_string_equal(status.field, "resource");
    assert_non_null(strstr(hp_status_get_meta(&status, "value"), "(257 bytes)"));
    name[256] = '\0';
    assert_true(hp_check_name("resource", name, &status));
    assert_true(hp_check_name("resource", "a", &status));
    assert_true(hp_check_name("resource", "orders/42 gr\xC3\xBC\xC3\x9F", &status));
    assert_true(hp_check_name("resource", "\xC2\xA0", &status)); /* U+00A0 is no control character */
    assert_false(hp_check_name("resource", "", &status));
    assert_int_equal(status.reason, HP_R_LIMIT);
    assert_string_equal(status.message,
                        "resource: \"\" is outside its limit; wanted: 1 to 256 bytes of UTF-8 without control characters");
    assert_false(hp_check_name("resource", NULL, &status));
    for (int c = 1; c < 0x20; c++) {
        char text[] = {'a', (char)c, '\0'};

        assert_false(hp_check_name("holder", text, &status));
        assert_int_equal(status.reason, HP_R_MALFORMED);
    }
    assert_false(hp_check_name("holder", "a\x7F", &status));
    assert_false(hp_check_name("holder", "\xC2\x80", &status));
    assert_false(hp_check_name("items[3].resource", "a\xC2\x9F", &status));
    assert_string_equal(status.message, "items[3].resource: \"a\\xc2\\x9f\" is not well-formed; wanted: 1 to 256 bytes of UTF-8 "
                                        "without control characters");
    assert_false(hp_check_name("holder", "a\xFF", &status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_field_passes),
        cmocka_unit_test(nothing_is_a_message),
        cmocka_unit_test(strings_are_utf8_without_nul),
        cmocka_unit_test(a_refusal_names_the_path),
        cmocka_unit_test(broken_records_are_refused),
        cmocka_unit_test(wire_types_fit_the_descriptor),
        cmocka_unit_test(packed_elements_are_whole),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(elements_are_bounded),
        cmocka_unit_test(requests_are_bounded),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(submessages_come_once),
        cmocka_unit_test(the_last_of_a_oneof_counts),
        cmocka_unit_test(unknown_fields_pass),
        cmocka_unit_test(every_beginning_is_survived),
        cmocka_unit_test(mutated_messages_are_survived),
        cmocka_unit_test(random_bytes_are_survived),
        cmocka_unit_test(names_are_checked),
    };

    return cmocka_run_group_tests_name("proto/wire", tests, NULL, NULL);
}
