"""Keys and values of a Schema Registry against Confluent's own deserialisers, and bytes that nobody should have sent."""

import hashlib
import io
import json
import math
import pickle
import random
import struct
import uuid

import pytest

from kafkalog_cli.format.values.decoder import DecodedContents, Undecoded, ValueDecoder
from kafkalog_cli.format.values.schema_set import Reference, SchemaSet, StoredSchema
from kafkalog_cli.format.values.value_format import VALUE_HEADER, ValueFormat

fastavro = pytest.importorskip("fastavro")
registry = pytest.importorskip("confluent_kafka.schema_registry")
pytest.importorskip("confluent_kafka.schema_registry.avro")

BLOCKS, CASES = 100, 100


def schemas(*known):
    found = SchemaSet()
    found.places.append("the test")
    for one in known:
        found.add(one)
    return found


def decoder(*known, value=ValueFormat.AUTO):
    return ValueDecoder(schemas(*known), None, value)


def avro(text, schema_id=7, references=(), subject="orders-value", version=1):
    text = text if isinstance(text, str) else json.dumps(text)
    return StoredSchema("AVRO", text, references, schema_id, None, subject, version)


def framed(schema_id, payload):
    return memoryview(b"\0" + struct.pack(">I", schema_id) + payload)


def value_of(known, payload, **how):
    found = decoder(*known, **how).value("orders", framed(known[-1].schema_id, payload), None)
    assert isinstance(found, (DecodedContents, Undecoded))
    return found.value if isinstance(found, DecodedContents) else found.reason


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Random:
    """Random schemas, and random values of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = []

    def named(self, kind):
        self.names.append((f"N{len(self.names)}", f"space{self.random.randrange(2)}"))
        name, space = self.names[-1]
        return {"type": kind, "name": name, "namespace": space}, f"{space}.{name}"

    def schema(self, depth, known):
        kind = self.random.choice(
            (*PRIMITIVES, "enum", "fixed", "known", *("record", "array", "map", "union") * (depth > 0))
        )
        if kind == "known":
            return self.random.choice(known) if known else "long"
        if kind in PRIMITIVES:
            return kind
        if kind == "array":
            return {"type": "array", "items": self.schema(depth - 1, known)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth - 1, known)}
        if kind == "union":
            kinds = self.random.sample(
                ("null", "boolean", "long", "double", "bytes", "string"), self.random.randint(1, 4)
            )
            return kinds + ([self.record(depth - 1, known)] if depth > 1 else [])
        if kind == "record":
            return self.record(depth, known)
        made, full = self.named(kind)
        known.append(full)
        return {**made, **({"symbols": ["A", "B", "C"]} if kind == "enum" else {"size": self.random.randrange(5)})}

    def record(self, depth, known):
        made, full = self.named("record")
        fields = [{"name": f"f{n}", "type": self.schema(depth - 1, known)} for n in range(self.random.randrange(5))]
        known.append(full)
        return {**made, "fields": fields}

    def value(self, schema, types):
        draw = self.random
        if isinstance(schema, str) and schema in types:
            schema = types[schema]
        if isinstance(schema, list):
            branch = draw.choice(schema)
            name = branch if isinstance(branch, str) else f"{branch['namespace']}.{branch['name']}"
            return (name, self.value(branch, types))
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            return {one["name"]: self.value(one["type"], types) for one in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"], types) for _ in range(draw.randrange(4))]
        if kind == "map":
            return {f"k{n}": self.value(schema["values"], types) for n in range(draw.randrange(4))}
        if kind == "enum":
            return draw.choice(schema["symbols"])
        if kind == "fixed":
            return draw.randbytes(schema["size"])
        return {
            "null": lambda: None,
            "boolean": lambda: draw.random() < 0.5,
            "int": lambda: draw.choice((0, -1, (1 << 31) - 1, -(1 << 31), draw.randrange(1000))),
            "long": lambda: draw.choice((0, -1, (1 << 63) - 1, -(1 << 63), draw.randrange(1 << 40))),
            "float": lambda: draw.choice(
                (0.5, -0.0, math.inf, struct.unpack("<f", struct.pack("<f", draw.gauss(0, 1e9)))[0])
            ),
            "double": lambda: draw.choice((0.1, -math.inf, draw.gauss(0, 1e300))),
            "bytes": lambda: draw.randbytes(draw.randrange(6)),
            "string": lambda: draw.choice(("", "a", "\u00e9\u4e2d\U0001f600", "\0\n")),
        }[kind]()


def types_of(schema, found):
    """All named types of a schema, by their names."""
    if isinstance(schema, list):
        for one in schema:
            types_of(one, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[f"{schema['namespace']}.{schema['name']}"] = schema
        for one in (*(field["type"] for field in schema.get("fields", ())), schema.get("items"), schema.get("values")):
            types_of(one, found)
    return found


def same(ours, theirs, schema, types, at_top=False):
    """Whether Avro's JSON encoding is the value that the deserialiser returned."""
    if isinstance(schema, str) and schema in types:
        schema = types[schema]
    if isinstance(schema, list):
        if ours is None or at_top:
            return ours == theirs if ours is None else any(same(ours, theirs, one, types) for one in schema)
        [(name, inner)] = ours.items()
        branch = [
            one for one in schema if name == (one if isinstance(one, str) else f"{one['namespace']}.{one['name']}")
        ]
        return len(branch) == 1 and same(inner, theirs, branch[0], types)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return list(ours) == list(theirs) and all(
            same(ours[one["name"]], theirs[one["name"]], one["type"], types) for one in schema["fields"]
        )
    if kind == "array":
        return len(ours) == len(theirs) and all(
            same(a, b, schema["items"], types) for a, b in zip(ours, theirs, strict=True)
        )
    if kind == "map":
        return set(ours) == set(theirs) and all(same(ours[key], theirs[key], schema["values"], types) for key in ours)
    if kind in ("bytes", "fixed"):
        return isinstance(theirs, bytes) and ours.encode("latin-1") == theirs
    if kind == "float":
        return struct.pack("<f", float(ours)) == struct.pack("<f", theirs)
    if kind == "double":
        return struct.pack("<d", float(ours)) == struct.pack("<d", theirs)
    return type(ours) is type(theirs) and ours == theirs


def avro_cases(block):
    """Iterate over random values: (seed, schemas, framed value, what Confluent's deserialiser returns, schema, types).

    There are two versions of each schema, and both refer to a shared schema.
    """
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": f"mock://values-{block}"})
    reads = AvroDeserializer(client)
    for seed in range(block * CASES, (block + 1) * CASES):
        source, known = Random(seed), []
        shared = source.record(2, known)
        shared_id = client.register_schema(f"shared-{seed}", Schema(json.dumps(shared), "AVRO"))
        name = f"{shared['namespace']}.{shared['name']}"
        # Only the type itself may be used by a schema that refers to it, in Confluent's deserialiser too.
        first = source.record(3, [name])
        later = {
            **first,
            "fields": [
                *first["fields"],
                {"name": "added", "type": ["null", "string", shared["namespace"] + "." + shared["name"]]},
            ],
        }
        reference = Reference(name, f"shared-{seed}", 1)
        held = [avro(shared, shared_id, subject=f"shared-{seed}")]
        for version, schema in enumerate((first, later), start=1):
            refers = [SchemaReference(name, f"shared-{seed}", 1)]
            schema_id = client.register_schema(f"t{seed}-value", Schema(json.dumps(schema), "AVRO", refers))
            types = types_of(schema, types_of(shared, {}))
            value = source.value(schema, types)
            parsed_types = {}
            fastavro.parse_schema(shared, named_schemas=parsed_types)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas=parsed_types), value)
            if not out.getvalue():  # Confluent's deserialiser refuses a value of no bytes
                continue
            data = framed(schema_id, out.getvalue())
            held.append(avro(schema, schema_id, (reference,), f"t{seed}-value", version))
            theirs = reads(bytes(data), SerializationContext(f"t{seed}", MessageField.VALUE))
            yield seed, tuple(held), data, theirs, schema, types


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(BLOCKS))
def test_avro_values_decode_as_by_confluents_deserialiser(block, evidence):
    evidence("R57", 2 * CASES, "schemas")
    for seed, held, data, theirs, schema, types in avro_cases(block):
        found = decoder(*held).value(f"t{seed}", data, None)
        assert isinstance(found, DecodedContents), (seed, found, schema)
        assert same(found.value, theirs, schema, types), (seed, found.value, theirs)
        json.dumps(found.value, allow_nan=False)


SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)


def proto_text(draw, imported):
    """The text of a random .proto file, and the names of its messages in their order."""
    lines = [
        'syntax = "proto3";',
        "package some.where;",
        *(['import "other/shared.proto";'] if imported else []),
        'import "google/protobuf/timestamp.proto";',
    ]
    for number in range(draw.randint(1, 3)):
        lines.append(f"message M{number} {{")
        kinds = [
            *SCALARS,
            "Color",
            "Inner",
            "google.protobuf.Timestamp",
            f"M{draw.randrange(number + 1)}",
            *([".other.Shared", "other.Shared"] if imported else []),
        ]
        for field in range(1, draw.randint(2, 9)):
            kind, form = draw.choice(kinds), draw.randrange(5)
            if form == 0:
                lines.append(
                    f"  map<{draw.choice(('string', 'int32', 'bool', 'fixed64'))}, {kind}> a_field_{field} = {field};"
                )
            elif form == 1:
                lines.append(
                    f"  oneof choice{field} {{ {kind} a_field_{field} = {field}; string other{field} = {field + 100}; }}"
                )
            else:
                lines.append(
                    f"  {('repeated ', 'optional ', '')[form - 2]}{kind} a_field_{field} = {field};  // a field"
                )
        lines += [
            "  enum Color { RED = 0; BLUE = 5; }",
            "  message Inner { int64 x = 1; repeated Inner more = 2; }",
            "  reserved 200 to 210;",
            "}",
        ]
    return "\n".join(lines)


def fill(draw, message, depth=0):
    """Set random fields."""
    for field in message.DESCRIPTOR.fields:
        if draw.random() < 0.3 or depth > 3:
            continue
        entry = field.message_type
        if entry is not None and entry.full_name == "google.protobuf.Timestamp":
            if not field.is_repeated:
                getattr(message, field.name).seconds = draw.randrange(1 << 31)
        elif entry is not None and entry.GetOptions().map_entry:
            key = {"string": "k", "bool": True}.get({9: "string", 8: "bool"}.get(entry.fields[0].type, ""), 3)
            if entry.fields[1].message_type is not None:
                getattr(message, field.name)[key].SetInParent()
            else:
                getattr(message, field.name)[key] = scalar(draw, entry.fields[1])
        elif entry is not None:
            for _ in range(draw.randrange(3) if field.is_repeated else 1):
                fill(
                    draw,
                    getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name),
                    depth + 1,
                )
        elif field.is_repeated:
            getattr(message, field.name).extend(scalar(draw, field) for _ in range(draw.randrange(4)))
        else:
            setattr(message, field.name, scalar(draw, field))


def scalar(draw, field):
    if field.type in (1, 2):
        return draw.choice((0.0, 0.1, -1e10, math.inf))
    if field.type == 8:
        return draw.random() < 0.5
    if field.type == 9:
        return draw.choice(("", "\u4e2d", "text"))
    if field.type == 12:
        return draw.randbytes(3)
    if field.type == 14:
        return draw.choice((0, 5))
    return draw.randrange(1 << 31)


SHARED = 'syntax = "proto3"; package other; message Shared { string name = 1; Deep deep = 2; message Deep { uint64 big = 1; } }'


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(BLOCKS))
def test_protobuf_values_decode_as_by_confluents_deserialiser(block, tmp_path, evidence):
    """The oracle's descriptors are those of protoc, from the package grpcio-tools."""
    evidence("R57", CASES, "schemas")
    protoc = pytest.importorskip("grpc_tools.protoc", reason="protoc of grpcio-tools is the oracle")
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    draw = random.Random(block)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "shared.proto").write_text(SHARED)
    texts = [proto_text(draw, imported=number % 2 == 0) for number in range(CASES)]
    for number, text in enumerate(texts):
        (tmp_path / f"c{number}.proto").write_text(text.replace("package some.where;", f"package some.where{number};"))
    include = str(__import__("pathlib").Path(protoc.__file__).parent / "_proto")
    files = [str(tmp_path / f"c{number}.proto") for number in range(CASES)]
    made = tmp_path / "set"
    assert (
        protoc.main(
            ["protoc", f"-I{tmp_path}", f"-I{include}", "--include_imports", f"--descriptor_set_out={made}", *files]
        )
        == 0
    )
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file:
        pool.Add(file)
    for number in range(CASES):
        text = (tmp_path / f"c{number}.proto").read_text()
        references = (Reference("other/shared.proto", "shared", 1),) if number % 2 == 0 else ()
        known = [
            StoredSchema("PROTOBUF", SHARED, (), 1, None, "shared", 1),
            StoredSchema("PROTOBUF", text, references, 7, None, "t-value", 1),
        ]
        kinds = list(pool.FindFileByName(f"c{number}.proto").message_types_by_name.values())
        index = draw.randrange(len(kinds))
        kind = message_factory.GetMessageClass(kinds[index])
        message = kind()
        fill(draw, message)
        prefix = b"\0" if index == 0 else bytes((2, 2 * index))
        reads = ProtobufDeserializer(kind, {"use.deprecated.format": False})
        data = framed(7, prefix + message.SerializeToString())
        theirs = reads(bytes(data), SerializationContext("t", MessageField.VALUE))
        assert theirs == message
        found = decoder(*known).value("t", data, None)
        assert isinstance(found, DecodedContents), (number, found, text)
        assert found.value == json_format.MessageToDict(
            theirs, always_print_fields_with_no_presence=True, descriptor_pool=pool
        ), text


def test_every_form_of_framing_is_recognised():
    text, schema = '"string"', avro('"string"', 1)
    payload = b"\x04hi"
    guid = "9a7b" + "0" * 28
    held = StoredSchema("AVRO", text, (), 1, "9a7b0000-0000-0000-0000-000000000000", "s", 1)
    long_form = b"\1" + bytes.fromhex(guid)
    assert decoder(held).value("t", memoryview(long_form + payload), None).value == "hi"
    for header in (long_form, b"\0\0\0\0\1"):
        headers = lambda header=header: [(VALUE_HEADER, b"x"), (VALUE_HEADER, header)]  # noqa: E731
        assert decoder(held).value("t", memoryview(payload), headers).value == "hi"
    assert decoder(schema).value("t", memoryview(b"plain text"), None) is None
    assert decoder(schema).value("t", None, None) is None
    found = decoder(schema).value("t", framed(2, payload), None)
    assert found == Undecoded("no schema id 2 in the test")
    assert "no framing" in decoder(schema, value=ValueFormat.AVRO).value("t", memoryview(b"text"), None).reason
    assert (
        "is of the type AVRO" in decoder(schema, value=ValueFormat.PROTOBUF).value("t", framed(1, payload), None).reason
    )


def test_the_guid_is_that_of_the_registry():
    """The MD5 sum of the schema's text, as Schema.getGuid computes it for a schema without references."""
    guid = str(uuid.UUID(bytes=hashlib.md5(b'"string"').digest()))
    assert schemas(avro('"string"', 1)).by_guid(guid).schema_id == 1


def test_logical_types_and_unions_as_the_console_consumer_prints_them():
    record = {
        "type": "record", "name": "R", "namespace": "n", "fields": [
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "maybe", "type": ["null", "string", "n.R"]},
        ],
    }  # fmt: skip
    payload = b"\x04\x01\xff\x02\x02\x02a"
    assert value_of([avro(record)], payload) == {"price": "\x01\xff", "at": 1, "maybe": {"string": "a"}}
    assert value_of([avro(["null", record])], b"\2" + payload) == value_of([avro(record)], payload)


LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        (LIST, b"\2" * 200_000 + b"\0", "nested more than 100 deep"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", "values"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, b"\xfe\xff\xff\x0f", "more than 400000 values"),
        ("string", b"\xfe\xff\xff\xff\x0f", "it ends after"),
        ("bytes", b"\1", "a length of -1"),
        ("string", b"\2\xff", "not UTF-8"),
        ("int", b"\x80\x80\x80\x80\x80\1", "an int with the value"),
        ("long", b"\xff" * 11, "no number at byte 0"),
        ("boolean", b"\2", "a boolean with the value 2"),
        (["null"], b"\2", "branch 1"),
        ("null", b"x", "1 bytes follow the value"),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": "Other"}]}, b"\0", "does not define the type Other"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", "symbol 1"),
        ("[" * 50_000, b"\0", "nested too deeply"),
        ('{"type":' * 300 + '"int"' + "}" * 300, b"\0", "nested too deeply"),
        (["int"] * 20_001, b"\0", "more than 20000 types"),
        ({"type": "fixed", "name": "F", "size": 1 << 40}, b"\0", "the size of F"),
        ("{}", b"\0", "has no name"),
    ],
)  # fmt: skip
def test_hostile_avro_is_not_decoded_and_has_a_reason(schema, payload, reason):
    found = value_of([avro(schema)], payload)
    assert isinstance(found, str)
    assert reason in found


def test_a_schema_that_doubles_in_every_line_is_bounded():
    fields = {"type": "record", "name": "R0", "fields": []}
    for number in range(1, 60):
        fields = {
            "type": "record",
            "name": f"R{number}",
            "fields": [{"name": "a", "type": fields}, {"name": "b", "type": f"R{number - 1}"}],
        }
    assert "more than 400000 values" in value_of([avro(fields)], b"")


def test_references_that_go_in_circles_or_lead_nowhere():
    a = avro({"type": "record", "name": "A", "fields": []}, 1, (Reference("B", "b", 1),), "a")
    b = avro({"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}, 2, (Reference("A", "a", 1),), "b")
    assert "does not define" in value_of([b, a], b"\0")
    assert "which is not in the test" in value_of([a], b"\0")


@pytest.mark.parametrize(
    ("text", "payload", "reason"),
    [
        ("message {{{", b"\0", "line 1 of the schema"),
        ('syntax = "proto3"; message A { B b = 1; }', b"\0", "couldn't resolve name 'B'"),
        ('syntax = "proto3"; import "gone.proto"; message A { gone.B b = 1; }', b"\0", "imports gone.proto were not found"),
        ('syntax = "proto3"; message A { string a = 99999999999; }', b"\0", "not a number of 32 bits"),
        ("message A {" * 100 + "}" * 100, b"\0", "nested too deeply"),
        ('syntax = "proto3"; message A { A a = 1; }', b"\0" + b"\x0a\x7f" * 3, "not a message"),
        ('syntax = "proto3"; message A { A a = 1; }', b"\2\x10", "has no message 8"),
        ('syntax = "proto3"; message A { A a = 1; }', b"\xff" * 20, "message indexes end early"),
        ('syntax = "proto3"; message A { A a = 1; }', b"\xc0\x84\x3d", "message indexes"),
        ('syntax = "proto3"; message A { repeated bool b = 1; }', b"\0\x0a\x80\x89\x7a" + b"\0" * 2_000_000, "more than 400000 values"),
    ],
)  # fmt: skip
def test_hostile_protobuf_is_not_decoded_and_has_a_reason(text, payload, reason):
    found = value_of([StoredSchema("PROTOBUF", text, (), 7, None, "s", 1)], payload)
    assert isinstance(found, str)
    assert reason in found


def test_many_empty_messages_of_many_fields_are_not_made():
    fields = " ".join(f"int32 f{number} = {number};" for number in range(2, 1002))
    text = f'syntax = "proto3"; message A {{ repeated A a = 1; {fields} }}'
    assert "more than 400000 values" in value_of(
        [StoredSchema("PROTOBUF", text, (), 7, None, "s", 1)], b"\0" + b"\x0a\0" * 100_000
    )


def test_random_bytes_never_raise():
    draw = random.Random(1)
    known = [avro(LIST, 1), StoredSchema("PROTOBUF", 'syntax = "proto3"; message A { A a = 1; string s = 2; }', (), 2, None, "p", 1),
             StoredSchema("JSON", "{}", (), 3, None, "j", 1)]  # fmt: skip
    held = decoder(*known)
    for _ in range(3000):
        data = bytes((0, 0, 0, 0, draw.randrange(5))) + draw.randbytes(draw.randrange(30))
        assert isinstance(held.value("t", memoryview(data), None), (DecodedContents, Undecoded))


def test_plain_formats_are_decoded():
    cases = {
        ValueFormat.INT: (b"\xff\xff\xff\xff", -1), ValueFormat.LONG: (bytes(7) + b"\5", 5), ValueFormat.SHORT: (b"\0\1", 1),
        ValueFormat.FLOAT: (struct.pack(">f", 0.1), 0.1), ValueFormat.DOUBLE: (struct.pack(">d", 0.1), 0.1),
        ValueFormat.STRING: (b"a\xff", "a\ufffd"), ValueFormat.HEX: (b"\1\2", "0102"), ValueFormat.BASE64: (b"a", "YQ=="),
        ValueFormat.UUID: (bytes(15) + b"\1", "00000000-0000-0000-0000-000000000001"),
        ValueFormat.JSON: (b'\0\0\0\0\1{"a": 1.5}', {"a": 1.5}),
    }  # fmt: skip
    for wanted, (data, shown) in cases.items():
        assert decoder(value=wanted).value("t", memoryview(data), None).value == shown
    assert (
        decoder(value=ValueFormat.LONG).value("t", memoryview(b"1234"), None).reason
        == "it has 4 bytes, and a long has 8"
    )
    for text in (b"{", b"NaN", b"1e999", b"[" * 100_000, b"\xff"):
        assert isinstance(decoder(value=ValueFormat.JSON).value("t", memoryview(text), None), Undecoded)


def test_a_decoder_can_be_sent_to_another_process():
    sent = pickle.loads(pickle.dumps(decoder(avro('"string"', 1))))
    assert sent.value("t", framed(1, b"\x04hi"), None).value == "hi"


def record(subject, version, schema_id, **more):
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {
        "subject": subject,
        "version": version,
        "id": schema_id,
        "schema": f'"{more.pop("text", "string")}"',
        "deleted": False,
        **more,
    }
    return json.dumps(key).encode(), json.dumps(value).encode()


def test_a_deletion_in_the_topic_of_schemas_leaves_later_versions():
    found = SchemaSet()
    for version, schema_id in ((1, 1), (2, 2), (3, 3)):
        assert found.apply(*record("s", version, schema_id)) == ""
    delete = json.dumps({"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}).encode()
    assert found.apply(delete, json.dumps({"subject": "s", "version": 2}).encode()) == ""
    assert [found.by_id(number).is_deleted for number in (1, 2, 3)] == [True, True, False]
    assert found.latest("s").version == found.version("s", -1).version == 3
    assert found.apply(record("s", 3, 3)[0], None) == ""
    assert found.latest("s") is None
    assert found.by_id(3).text == '"string"'  # records that were written with it may still be there
    assert found.apply(*record("other", 1, 3, text="long")) == ""
    assert found.by_id(3).text == '"long"'  # the id is free again
    assert found.apply(*record("third", 1, 3, text="int")) == ""
    assert found.by_id(3).text == '"long"'  # an id keeps its first schema
    assert found.apply(b'{"keytype":"NOOP","magic":0}', None) == ""
    for key, value in ((None, b""), (b"x", b"{}"), (b'{"keytype":"SCHEMA"}', b"{}"), (record("s", 1, 1)[0], b"{"), (record("s", 1, 1)[0], b"{}"),
                       record("s", 1, 1, references=[{"name": 1}])):  # fmt: skip
        assert found.apply(key, value) != ""
