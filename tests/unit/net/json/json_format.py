"""Random messages of all that the services take and give, as google.protobuf.json_format has them.

json_format.py make DESCRIPTORS SEED COUNT FILE   writes lines of: type, tab, serialized in hexadecimal, tab, JSON
json_format.py check DESCRIPTORS FILE BACK         BACK has a line for each of FILE's: what the JSON was read to, in hexadecimal, tab,
                                                  and what that was written as; both must be the message that it was
"""
import random
import struct
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor as F

SERVICES = ("holdfast.", "grpc.")
MORE = ("google.rpc.ErrorInfo", "google.rpc.RetryInfo", "google.rpc.BadRequest")
DEPTH = 6

INTS = {
    32: [0, 1, -1, 127, 128, -128, 300, 2**31 - 1, -(2**31)],
    64: [0, 1, -1, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
}
UINTS = {32: [0, 1, 255, 2**32 - 1], 64: [0, 1, 2**53 + 1, 2**63, 2**64 - 1]}
TEXTS = ["", "a", "lease/1", "grüß", "🔒 \U0010ffff", '"\\/\b\f\n\r\t', "\x01\x1f\x7f\x80", "\u2028\u2029<&>", "null", "x" * 300]


def pool_of(path):
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(open(path, "rb").read())
    for file in files.file:
        pool.Add(file)
    return pool, files


def types_of(pool, files):
    names = set(MORE)
    for file in files.file:
        for service in file.service:
            if (file.package + ".").startswith(SERVICES):
                for method in service.method:
                    names.add(method.input_type[1:])
                    names.add(method.output_type[1:])
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName(name)) for name in sorted(names)]


def number(rng, bits, signed):
    if rng.random() < 0.6:
        return rng.choice((INTS if signed else UINTS)[bits])
    n = rng.getrandbits(rng.randint(1, bits))
    return n - 2**bits if signed and n >= 2 ** (bits - 1) else n


def real(rng, single):
    if rng.random() < 0.5:
        value = rng.choice([0.0, -0.0, 1.0, 0.1, -2.5, 1e-7, 1e21, 5e-324, 1.7976931348623157e308, float("nan"), float("inf"), float("-inf")])
    else:
        value = struct.unpack("<d", rng.getrandbits(64).to_bytes(8, "little"))[0]
        value = float("nan") if value != value else value  # one NaN: JSON has no other
    if not single or value != value or abs(value) == float("inf"):
        return value
    return struct.unpack("<f", struct.pack("<f", value if abs(value) < 3e38 else 1.5))[0]


def scalar(rng, field):
    kind = field.cpp_type
    if kind in (F.CPPTYPE_INT32, F.CPPTYPE_INT64):
        return number(rng, 32 if kind == F.CPPTYPE_INT32 else 64, True)
    if kind in (F.CPPTYPE_UINT32, F.CPPTYPE_UINT64):
        return number(rng, 32 if kind == F.CPPTYPE_UINT32 else 64, False)
    if kind in (F.CPPTYPE_FLOAT, F.CPPTYPE_DOUBLE):
        return real(rng, kind == F.CPPTYPE_FLOAT)
    if kind == F.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind == F.CPPTYPE_ENUM:
        return 77 if rng.random() < 0.1 else rng.choice(field.enum_type.values).number
    if field.type == F.TYPE_BYTES:
        return rng.getrandbits(400).to_bytes(50, "little")[: rng.randint(0, 50)]
    return rng.choice(TEXTS)


def fill_duration(rng, message):
    sign = rng.choice([1, -1])
    message.seconds = sign * rng.choice([0, 1, 59, 315576000000 - 1, rng.randrange(10**9)])
    message.nanos = sign * rng.choice([0, 1, 1000, 1000000, 500000000, 999999999])


def fill(rng, message, depth=0):
    if message.DESCRIPTOR.full_name == "google.protobuf.Duration":
        fill_duration(rng, message)
        return message
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.3 or (field.message_type and depth >= DEPTH):
            continue
        value = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            key, item = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for _ in range(rng.randint(0, 3)):
                if item.message_type:
                    fill(rng, value[scalar(rng, key)], depth + 2)
                else:
                    value[scalar(rng, key)] = scalar(rng, item)
        elif field.label == F.LABEL_REPEATED:
            for _ in range(rng.randint(0, 3)):
                if field.message_type:
                    fill(rng, value.add(), depth + 1)
                else:
                    value.append(scalar(rng, field))
        elif field.message_type:
            value.SetInParent()
            fill(rng, value, depth + 1)
        else:
            setattr(message, field.name, scalar(rng, field))
    return message


def bytes_of(message):
    return message.SerializeToString(deterministic=True)


def make(descriptors, seed, count, path):
    rng = random.Random(seed)
    types = types_of(*pool_of(descriptors))
    with open(path, "w", encoding="utf-8") as out:
        for i in range(int(count)):
            message = fill(rng, types[i % len(types)]())
            text = json_format.MessageToJson(
                message,
                indent=None,
                ensure_ascii=rng.random() < 0.5,
                preserving_proto_field_name=rng.random() < 0.3,
                including_default_value_fields=rng.random() < 0.3,
                use_integers_for_enums=rng.random() < 0.3,
            )
            assert bytes_of(json_format.Parse(text, type(message)())) == bytes_of(message), text
            out.write("%s\t%s\t%s\n" % (message.DESCRIPTOR.full_name, bytes_of(message).hex(), text))


def check(descriptors, path, back_path):
    types = {t.DESCRIPTOR.full_name: t for t in types_of(*pool_of(descriptors))}
    lines = open(path, encoding="utf-8").read().split("\n")
    backs = open(back_path, encoding="utf-8").read().split("\n")
    assert len(lines) == len(backs) and len(lines) > 1, (len(lines), len(backs))
    for line, back in zip(lines[:-1], backs[:-1]):
        name, wire, text = line.split("\t", 2)
        read, written = back.split("\t", 1)
        if bytes_of(types[name].FromString(bytes.fromhex(read))).hex() != wire:
            sys.exit("%s: %s\nwas read as %s\n     not as %s" % (name, text, read, wire))
        if bytes_of(json_format.Parse(written, types[name]())).hex() != wire:
            sys.exit("%s: %s\nwas written as %s" % (name, text, written))
    print(len(lines) - 1, "messages of", len(types), "types")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
