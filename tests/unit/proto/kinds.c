/*
 * kinds.c - the descriptors of kinds.h, as protoc-c would make them.
 */
#include "kinds.h"

#include <string.h>

#define FIELD(type_, member, number, label_, kind, quantifier, descriptor_, default_, flags_)                                      \
    {                                                                                                                              \
        .name = #member, .id = number, .label = PROTOBUF_C_LABEL_##label_, .type = PROTOBUF_C_TYPE_##kind,                         \
        .quantifier_offset = quantifier, .offset = offsetof(type_, member), .descriptor = descriptor_, .default_value = default_,  \
        .flags = flags_                                                                                                            \
    }
#define ONE(type_, member, number, kind, descriptor_) FIELD(type_, member, number, NONE, kind, 0, descriptor_, NULL, 0)
#define TEXT(type_, member, number)                   FIELD(type_, member, number, NONE, STRING, 0, NULL, &protobuf_c_empty_string, 0)
#define MANY(member, number, kind, descriptor_, flags_)                                                                            \
    FIELD(struct kinds, member, number, REPEATED, kind, offsetof(struct kinds, n_##member), descriptor_, NULL, flags_)
#define PACKED(member, number, kind, descriptor_) MANY(member, number, kind, descriptor_, PROTOBUF_C_FIELD_FLAG_PACKED)
#define ONEOF(member, number, kind, descriptor_, default_)                                                                         \
    FIELD(struct kinds, member, number, NONE, kind, offsetof(struct kinds, one_case), descriptor_, default_,                       \
          PROTOBUF_C_FIELD_FLAG_ONEOF)
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const ProtobufCEnumValue colours[] = {{"NONE", "COLOUR_NONE", 0}, {"RED", "COLOUR_RED", 1}, {"BLUE", "COLOUR_BLUE", 5}};
static const ProtobufCIntRange colour_ranges[] = {{0, 0}, {5, 2}, {0, 3}};
static const ProtobufCEnumDescriptor colour_type = {.magic = PROTOBUF_C__ENUM_DESCRIPTOR_MAGIC,
                                                    .name = "test.Colour",
                                                    .short_name = "Colour",
                                                    .n_values = COUNT(colours),
                                                    .values = colours,
                                                    .n_value_ranges = 2,
                                                    .value_ranges = colour_ranges};

static const ProtobufCFieldDescriptor kinds_fields[] = {
    ONE(struct kinds, i32, 1, INT32, NULL),
    ONE(struct kinds, s32, 2, SINT32, NULL),
    ONE(struct kinds, sf32, 3, SFIXED32, NULL),
    ONE(struct kinds, u32, 4, UINT32, NULL),
    ONE(struct kinds, f32, 5, FIXED32, NULL),
    ONE(struct kinds, i64, 6, INT64, NULL),
    ONE(struct kinds, s64, 7, SINT64, NULL),
    ONE(struct kinds, sf64, 8, SFIXED64, NULL),
    ONE(struct kinds, u64, 9, UINT64, NULL),
    ONE(struct kinds, f64, 10, FIXED64, NULL),
    ONE(struct kinds, real, 11, FLOAT, NULL),
    ONE(struct kinds, wide_real, 12, DOUBLE, NULL),
    ONE(struct kinds, yes, 13, BOOL, NULL),
    ONE(struct kinds, colour, 14, ENUM, &colour_type),
    TEXT(struct kinds, text, 15),
    ONE(struct kinds, data, 16, BYTES, NULL),
    ONE(struct kinds, child, 17, MESSAGE, &kinds_type),
    PACKED(many_i32, 18, INT32, NULL),
    PACKED(many_s64, 19, SINT64, NULL),
    PACKED(many_f32, 20, FIXED32, NULL),
    PACKED(many_real, 21, DOUBLE, NULL),
    PACKED(many_yes, 22, BOOL, NULL),
    PACKED(many_colour, 23, ENUM, &colour_type),
    MANY(many_text, 24, STRING, NULL, 0),
    MANY(many_data, 25, BYTES, NULL, 0),
    MANY(many_child, 26, MESSAGE, &kinds_type, 0),
    MANY(counts, 27, MESSAGE, &kinds_count_type, 0),
    MANY(by_flag, 28, MESSAGE, &kinds_flag_type, 0),
    MANY(by_number, 29, MESSAGE, &kinds_number_type, 0),
    ONEOF(one_i32, 30, INT32, NULL, NULL),
    ONEOF(one_text, 31, STRING, NULL, &protobuf_c_empty_string),
    ONEOF(one_child, 32, MESSAGE, &kinds_type, NULL),
    ONEOF(one_data, 33, BYTES, NULL, NULL),
};

static const ProtobufCFieldDescriptor count_fields[] = {
    TEXT(struct kinds_count, key, 1),
    ONE(struct kinds_count, value, 2, INT64, NULL),
};
static const ProtobufCFieldDescriptor flag_fields[] = {
    ONE(struct kinds_flag, key, 1, BOOL, NULL),
    ONE(struct kinds_flag, value, 2, ENUM, &colour_type),
};
static const ProtobufCFieldDescriptor number_fields[] = {
    ONE(struct kinds_number, key, 1, UINT64, NULL),
    ONE(struct kinds_number, value, 2, MESSAGE, &kinds_type),
};

/* protoc-c's initialisers, such as FOO__INIT, set the descriptor and the defaults. */
#define TYPE(variable, struct_, short_, fields_)                                                                                   \
    static const ProtobufCIntRange variable##_ranges[] = {{1, 0}, {0, COUNT(fields_)}};                                            \
    static void variable##_init(ProtobufCMessage *message)                                                                         \
    {                                                                                                                              \
        memset(message, 0, sizeof(struct_));                                                                                       \
        message->descriptor = &variable;                                                                                           \
        for (size_t i = 0; i < COUNT(fields_); i++)                                                                                \
            if ((fields_)[i].type == PROTOBUF_C_TYPE_STRING && (fields_)[i].label == PROTOBUF_C_LABEL_NONE &&                      \
                (fields_)[i].flags == 0)                                                                                           \
                *(char **)((char *)message + (fields_)[i].offset) = (char *)protobuf_c_empty_string;                               \
    }                                                                                                                              \
    const ProtobufCMessageDescriptor variable = {.magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,                                    \
                                                 .name = "test." short_,                                                           \
                                                 .short_name = short_,                                                             \
                                                 .sizeof_message = sizeof(struct_),                                                \
                                                 .n_fields = COUNT(fields_),                                                       \
                                                 .fields = fields_,                                                                \
                                                 .n_field_ranges = 1,                                                              \
                                                 .field_ranges = variable##_ranges,                                                \
                                                 .message_init = variable##_init}

TYPE(kinds_type, struct kinds, "Kinds", kinds_fields);
TYPE(kinds_count_type, struct kinds_count, "CountsEntry", count_fields);
TYPE(kinds_flag_type, struct kinds_flag, "ByFlagEntry", flag_fields);
TYPE(kinds_number_type, struct kinds_number, "ByNumberEntry", number_fields);

void kinds_init(struct kinds *message)
{
    kinds_type_init(&message->base);
}

static ProtobufCBinaryData binary(const char *text, size_t len)
{
    return (ProtobufCBinaryData){len, (uint8_t *)text};
}

static void fill_repeated(struct kinds *message)
{
    static int32_t i32[] = {1, -1, 300}, colour[] = {COLOUR_RED, COLOUR_BLUE, 99};
    static int64_t s64[] = {-1, INT64_MIN};
    static uint32_t f32[] = {0, UINT32_MAX};
    static double real[] = {0.1, -2.5};
    static protobuf_c_boolean yes[] = {1, 0, 1};
    static char *text[] = {(char *)"a", (char *)"", (char *)"\xC3\xA9"};
    static ProtobufCBinaryData data[2];

    data[0] = binary("\0\xFF", 2);
    data[1] = binary("", 0);
    message->n_many_i32 = COUNT(i32);
    message->many_i32 = i32;
    message->n_many_s64 = COUNT(s64);
    message->many_s64 = s64;
    message->n_many_f32 = COUNT(f32);
    message->many_f32 = f32;
    message->n_many_real = COUNT(real);
    message->many_real = real;
    message->n_many_yes = COUNT(yes);
    message->many_yes = yes;
    message->n_many_colour = COUNT(colour);
    message->many_colour = colour;
    message->n_many_text = COUNT(text);
    message->many_text = text;
    message->n_many_data = COUNT(data);
    message->many_data = data;
}

static void fill_messages(struct kinds *message)
{
    static struct kinds child, other;
    static struct kinds *children[] = {&child, &other};
    static struct kinds_count count[2], *counts[] = {&count[0], &count[1]};
    static struct kinds_flag flag, *flags[] = {&flag};
    static struct kinds_number number, *numbers[] = {&number};

    kinds_init(&child);
    child.i32 = 7;
    kinds_init(&other);
    kinds_count_type_init(&count[0].base);
    kinds_count_type_init(&count[1].base);
    count[0].key = (char *)"a";
    count[0].value = 1;
    count[1].key = (char *)"b\"";
    kinds_flag_type_init(&flag.base);
    flag.key = 1;
    flag.value = COLOUR_BLUE;
    kinds_number_type_init(&number.base);
    number.key = UINT64_MAX;
    number.value = &child;
    message->child = &child;
    message->n_many_child = COUNT(children);
    message->many_child = children;
    message->n_counts = COUNT(counts);
    message->counts = counts;
    message->n_by_flag = COUNT(flags);
    message->by_flag = flags;
    message->n_by_number = COUNT(numbers);
    message->by_number = numbers;
}

void kinds_fill(struct kinds *message)
{
    kinds_init(message);
    message->i32 = -1;
    message->s32 = INT32_MIN;
    message->sf32 = -3;
    message->u32 = UINT32_MAX;
    message->f32 = 5;
    message->i64 = INT64_MIN;
    message->s64 = -7;
    message->sf64 = INT64_MAX;
    message->u64 = UINT64_MAX;
    message->f64 = 10;
    message->real = 0.1f;
    message->wide_real = 0.1;
    message->yes = 1;
    message->colour = COLOUR_BLUE;
    message->text = (char *)"gr\xC3\xBC\xC3\x9F \xF0\x9F\x94\x92";
    message->data = binary("\0\x01\xFE", 3);
    fill_repeated(message);
    fill_messages(message);
    message->one_case = 31;
    message->one_text = (char *)"chosen";
}

void put_varint(struct hp_buf *out, uint64_t value)
{
    while (value >= 0x80) {
        hp_buf_addch(out, (char)(value | 0x80));
        value >>= 7;
    }
    hp_buf_addch(out, (char)value);
}

void put_tag(struct hp_buf *out, uint32_t number, unsigned wire_type)
{
    put_varint(out, (uint64_t)number << 3 | wire_type);
}

void put_bytes(struct hp_buf *out, uint32_t number, const void *data, size_t len)
{
    put_tag(out, number, 2);
    put_varint(out, len);
    hp_buf_add(out, data, len);
}

void put_text(struct hp_buf *out, uint32_t number, const char *text)
{
    put_bytes(out, number, text, strlen(text));
}

void put_number(struct hp_buf *out, uint32_t number, uint64_t value)
{
    put_tag(out, number, 0);
    put_varint(out, value);
}
