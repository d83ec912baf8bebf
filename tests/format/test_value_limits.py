"""The limits of schemas and of values with a schema: what is just within a limit is decoded, and nothing beyond it."""

import json

import pytest

from kafkalog_cli.format.values import avro_value, decoder, value_format
from kafkalog_cli.format.values.avro_value import AvroNames, decode_avro
from kafkalog_cli.format.values.value_format import framing_of, message_indexes
from kafkalog_cli.format.varint import encode_zigzag


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
    "array": ({"type": "array", "items": "L"}, b"\2\0\0", {"next": [{"next": []}]}),
    "map": ({"type": "map", "values": "L"}, b"\2\2k\0\0", {"next": {"k": {"next": {}}}}),
}


@pytest.mark.parametrize("kind", NESTED)
def test_each_record_array_and_map_is_one_level_of_a_value(monkeypatch, kind):
    """A record in a container in a record: the last container is at level 3, the first record at level 0."""
    inner, payload, value = NESTED[kind]
    schema = {"type": "record", "name": "L", "fields": [{"name": "next", "type": inner}]}
    monkeypatch.setattr(avro_value, "MOST_DEPTH", 3)
    assert decoded(schema, payload) == value
    monkeypatch.setattr(avro_value, "MOST_DEPTH", 2)
    with pytest.raises(ValueError, match="nested more than 2 deep"):
        decoded(schema, payload)


def test_values_and_blocks_are_counted(monkeypatch):
    """The array, its block, the item and the block that ends it."""
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
def test_types_and_levels_of_a_schema(monkeypatch, kind):
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
