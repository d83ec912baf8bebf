"""The limits of schemas and of values with a schema: what is just within a limit is decoded, and nothing beyond it."""

import json

import pytest

from kafkalog_cli.format.values import avro_value, decoder, proto_file, protobuf_value, schema_set, value_format
from kafkalog_cli.format.values.avro_value import AvroNames, decode_avro
from kafkalog_cli.format.values.proto_file import parse_proto
from kafkalog_cli.format.values.protobuf_value import ProtobufSchema
from kafkalog_cli.format.values.schema_set import Reference, SchemaSet, StoredSchema
from kafkalog_cli.format.values.value_format import ValueFormat, framing_of, message_indexes
from kafkalog_cli.format.varint import encode_unsigned, encode_zigzag


def parsed(schema):
    return AvroNames().parse(json.dumps(schema))


def decoded(schema, payload):
    return decode_avro(memoryview(payload), parsed(schema))


@pytest.mark.parametrize(
    ("data", "schema_id", "guid"),
    [
        (b"\0\0\0\1", None, None),
        (b"\0\0\0\0\1", 1, None),
        (b"\1" + bytes(15), None, None),
        (b"\1" + bytes(16), None, "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_a_framing_may_have_nothing_behind_it(data, schema_id, guid):
    """A magic byte and an id of 4 bytes, or a GUID of 16."""
    found = framing_of(memoryview(data), None, b"")
    assert (None, None) if found is None else (found.schema_id, found.guid) == (schema_id, guid)
    assert (found is None) == (schema_id is None and guid is None)


def test_message_indexes_are_zigzag_numbers(monkeypatch):
    monkeypatch.setattr(value_format, "_MOST_INDEXES", 2)
    assert message_indexes(memoryview(b"\4\x80\1\2rest")) == ((64, 1), b"rest")
    for wrong in (b"\6\0\0\0", b"\1\0"):
        with pytest.raises(ValueError, match="there can be 1 to 2"):
            message_indexes(memoryview(wrong))


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31)])
def test_an_int_of_avro_has_32_bits(value):
    assert decoded("int", encode_zigzag(value)) == value
    with pytest.raises(ValueError, match="an int with the value"):
        decoded("int", encode_zigzag(value + (1 if value > 0 else -1)))


NESTED = {
    "array": ({"type": "array", "items": "L"}, b"\2\0\0", {"next": [{"next": []}]}, 3),
    "map": ({"type": "map", "values": "L"}, b"\2\2k\0\0", {"next": {"k": {"next": {}}}}, 3),
    "union": (["null", "L"], b"\2\0", {"next": {"L": {"next": None}}}, 4),
}


@pytest.mark.parametrize("kind", NESTED)
def test_each_avro_record_array_map_and_union_is_one_level_of_a_value(monkeypatch, kind):
    """A record in a container in a record: the last container is at level 3, and the null of a union at level 4."""
    inner, payload, value, level = NESTED[kind]
    schema = {"type": "record", "name": "L", "fields": [{"name": "next", "type": inner}]}
    monkeypatch.setattr(avro_value, "MOST_DEPTH", level)
    assert decoded(schema, payload) == value
    monkeypatch.setattr(avro_value, "MOST_DEPTH", level - 1)
    with pytest.raises(ValueError, match=f"nested more than {level - 1} deep"):
        decoded(schema, payload)


def test_values_and_blocks_are_counted(monkeypatch):
    """The array, its block, the item and the block that ends it."""
    monkeypatch.setattr(avro_value, "MOST_VALUES", 1)
    assert decoded("int", b"\2") == 1
    monkeypatch.setattr(avro_value, "MOST_VALUES", 4)
    assert decoded({"type": "array", "items": "int"}, b"\2\2\0") == [1]
    monkeypatch.setattr(avro_value, "MOST_VALUES", 3)
    with pytest.raises(ValueError, match="more than 3 values"):
        decoded({"type": "array", "items": "int"}, b"\2\2\0")


SCHEMAS = {
    "union": (["int", "long"], 1, 3),
    "arrays": ({"type": "array", "items": {"type": "array", "items": "int"}}, 2, 3),
    "record": ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, 1, 2),
    "type of a type": ({"type": {"type": {"type": "int"}}}, 2, 3),
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_over_the_limit_of_types_or_levels_is_refused(monkeypatch, kind):
    schema, levels, types = SCHEMAS[kind]
    monkeypatch.setattr(avro_value, "MOST_NESTING", levels)
    monkeypatch.setattr(avro_value, "MOST_NODES", types)
    assert parsed(schema) is not None
    monkeypatch.setattr(avro_value, "MOST_NODES", types - 1)
    with pytest.raises(ValueError, match=f"more than {types - 1} types"):
        parsed(schema)
    monkeypatch.setattr(avro_value, "MOST_NODES", types)
    monkeypatch.setattr(avro_value, "MOST_NESTING", levels - 1)
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed(schema)


def test_the_size_of_a_fixed_type_and_the_names_in_messages(monkeypatch):
    monkeypatch.setattr(avro_value, "_MOST_FIXED_BYTES", 3)
    for size in (0, 3):
        assert decoded({"type": "fixed", "name": "F", "size": size}, b"abc"[:size]) == "abc"[:size]
    with pytest.raises(ValueError, match="not a number from 0 to 3"):
        parsed({"type": "fixed", "name": "F", "size": 4})
    for letters, told in ((200, "T" * 200 + "$"), (201, r"T{200}\.\.\.$")):
        with pytest.raises(ValueError, match=f"the type {told}"):
            parsed("T" * letters)


def test_commas_and_brackets_of_json_are_counted(monkeypatch):
    monkeypatch.setattr(decoder, "MOST_VALUES", 4)
    assert decoder._json(memoryview(b'[1,2,{"a": 3}]')) == [1, 2, {"a": 3}]
    with pytest.raises(ValueError, match="more than 4 values"):
        decoder._json(memoryview(b'[1,2,{"a": 3},4]'))


def test_payloads_and_references_have_limits(monkeypatch):
    known = SchemaSet()
    known.places.append("the test")
    for version in (1, 2):
        text = json.dumps({"type": "fixed", "name": f"F{version}", "size": 1})
        known.add(StoredSchema("AVRO", text, (), version, None, "f", version))
    monkeypatch.setattr(decoder, "_MOST_REFERENCES", 2)
    monkeypatch.setattr(decoder, "MOST_PAYLOAD_BYTES", 6)
    for names, told in ((("F1",), None), (("F1", "F2"), "it refers to more than 2 schemas")):
        references = tuple(Reference(name, "f", int(name[1])) for name in names)
        schema = StoredSchema("AVRO", '"F1"', references, 7, None, "t-value", 1)
        found = decoder.ValueDecoder(known, None, ValueFormat.AVRO).reader(schema)
        assert told is None or told in found.reason
        assert (told is None) == isinstance(found, avro_value.AvroNode)
    values = decoder.ValueDecoder(known, None, ValueFormat.AVRO)
    assert values.value("t", memoryview(b"\0\0\0\0\1x"), None).value == "x"
    assert "it has 7 bytes, and at most 6" in values.value("t", memoryview(b"\0\0\0\0\1xx"), None).reason


def test_a_set_of_schemas_is_full_at_its_limits(monkeypatch):
    for limit, value in (("MOST_SCHEMAS", 2), ("MOST_TEXT_BYTES", 10)):
        known = SchemaSet()
        monkeypatch.setattr(schema_set, limit, value)
        for version in (1, 2, 3):
            known.add(StoredSchema("AVRO", '"int"', (), version, None, "f", version))
            assert known.is_full == (version == 3), limit
        monkeypatch.undo()


def proto(text):
    return proto_file.parse_proto('syntax = "proto3"; ' + text, "a.proto")


def test_a_file_of_messages_has_limits(monkeypatch):
    text = "message A { message B { int32 a = 1; int32 b = 2; } }"
    size = len('syntax = "proto3"; ' + text)
    for limit, most in (("MOST_TEXT_CHARACTERS", size), ("_MOST_NESTING", 2), ("MOST_FIELDS", 2)):
        monkeypatch.setattr(proto_file, limit, most)
        assert len(proto(text).message_type[0].nested_type[0].field) == 2
        monkeypatch.setattr(proto_file, limit, most - 1)
        with pytest.raises(ValueError, match=r"limit is|nested too deeply|more than 1 fields"):
            proto(text)
        monkeypatch.undo()


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31)])
def test_numbers_of_an_enum_have_32_bits(number):
    text = "enum E { ZERO = 0; X = %d; }"
    assert proto(text % number).enum_type[0].value[1].number == number
    with pytest.raises(ValueError, match="is not a number of 32 bits"):
        proto(text % (number + (1 if number > 0 else -1)))


def test_the_last_message_of_a_file_has_the_last_index():
    schema = ProtobufSchema('syntax = "proto3"; message A {} message B {}', {}.get)
    assert schema.message((1,)).name == "B"
    for index in (2, -1):
        with pytest.raises(ValueError, match="the schema has no message"):
            schema.message((index,))


# -- protobuf


def test_ranges_of_a_proto_file_have_exclusive_ends():
    """DescriptorProto.ExtensionRange: the end is exclusive; max is 2^29 - 1."""
    file = parse_proto("message A { extensions 2, 5 to 7; extensions 9 to max; optional int32 a = 1; }", "x.proto")
    found = [(one.start, one.end) for one in file.message_type[0].extension_range]
    assert found == [(2, 3), (5, 8), (9, 1 << 29)]


CHAIN = 'syntax = "proto3"; import "{}.proto"; message M{} {{ int32 a = 1; }}'


def chain_of(imports):
    """A schema of so many files, each of which imports the next."""
    texts = {f"{at}.proto": CHAIN.format(at + 1, at) for at in range(1, imports)}
    texts[f"{imports}.proto"] = f'syntax = "proto3"; message M{imports} {{ int32 a = 1; }}'
    return ProtobufSchema(CHAIN.format(1, 0), texts.get)


def test_imports_as_deep_and_as_many_as_are_allowed(monkeypatch):
    monkeypatch.setattr(protobuf_value, "MOST_DEPTH", 3)
    chain_of(3)
    with pytest.raises(ValueError, match="too many imports"):
        chain_of(4)
    monkeypatch.setattr(protobuf_value, "MOST_DEPTH", 99)
    monkeypatch.setattr(protobuf_value, "_MOST_FILES", 4)
    chain_of(3)
    with pytest.raises(ValueError, match="too many imports"):
        chain_of(4)
    # What is known to protobuf is an import too.
    known = 'syntax = "proto3"; import "google/protobuf/{}.proto"; message M {{ int32 a = 1; }}'
    monkeypatch.setattr(protobuf_value, "MOST_DEPTH", 1)
    ProtobufSchema(known.format("timestamp"), {}.get)  # it has no imports
    with pytest.raises(ValueError, match="too many imports"):
        ProtobufSchema(known.format("type"), {}.get)  # it imports any and source_context


NESTED_MESSAGES = ProtobufSchema(
    'syntax = "proto3"; message M { M m = 1; repeated int32 n = 2; repeated fixed32 f = 3; }', {}.get
)
GROUPS = ProtobufSchema("message M { optional group G = 1 { optional int32 a = 2; } }", {}.get)
FIELDS = 3


def nested(depth):
    data = b""
    for _ in range(depth):
        data = b"\x0a" + encode_unsigned(len(data)) + data
    return data


def count(data, left, found=NESTED_MESSAGES):
    """Count with so many values left; return how many are left then. Raises ValueError."""
    counter = protobuf_value._Counter(FIELDS)
    counter._left = left
    counter.message(memoryview(data), found.message([0]), 0)
    return counter._left


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"", 1 + FIELDS),
        (b"\x10\x05", 2 + FIELDS),  # a field
        (b"\x10\x80\x01", 2 + FIELDS),
        (nested(1), 2 * (1 + FIELDS) + 1),
        (b"\x12\x03\x05\x80\x01", 2 + FIELDS + 2),  # packed varints of one and of two bytes
        (b"\x12\x01\x7f", 2 + FIELDS + 1),
        (b"\x1a\x08" + bytes(8), 2 + FIELDS + 2),  # packed numbers of four bytes
    ],
)
def test_values_are_counted_to_the_last(data, values):
    assert count(data, values) == 0
    with pytest.raises(ValueError, match="it has more than"):
        count(data, values - 1)


@pytest.mark.parametrize("found", [NESTED_MESSAGES, GROUPS], ids=["messages", "groups"])
def test_messages_as_deep_as_is_allowed(found, monkeypatch):
    monkeypatch.setattr(protobuf_value, "MOST_DEPTH", 4)
    made = nested if found is NESTED_MESSAGES else lambda depth: b"\x0b" * depth + b"\x0c" * depth
    count(made(4), 1000, found)
    with pytest.raises(ValueError, match="nested more than 4 deep"):
        count(made(5), 1000, found)


def test_as_many_references_as_are_allowed(monkeypatch):
    monkeypatch.setattr(schema_set, "_MOST_REFERENCES", 2)
    one = {"name": "a", "subject": "b", "version": 1}
    assert len(schema_set._references([one] * 2)) == 2
    assert schema_set._references([one] * 3) is None
