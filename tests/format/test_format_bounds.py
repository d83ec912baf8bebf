"""Formats exactly at a limit: of versions, varints, tags, lanes of a CRC, and of what a schema may hold."""

import zlib
from typing import Any

import numpy as np
import pytest

from kafkalog_cli.format.batch import CRC_BAD, Batch, BatchColumns
from kafkalog_cli.format.crc import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, crc32c_function, crc_after_every_byte
from kafkalog_cli.format.internal_topics import schema
from kafkalog_cli.format.internal_topics.decode import _at_version
from kafkalog_cli.format.internal_topics.schema import SchemaField, Versions, fields_in
from kafkalog_cli.format.values import protobuf_value, schema_set
from kafkalog_cli.format.values.proto_file import parse_proto
from kafkalog_cli.format.values.protobuf_value import ProtobufSchema
from kafkalog_cli.format.varint import encode_unsigned, encode_zigzag


def seven_bits(value):
    """A varint by its definition: seven bits a byte, the lowest first, the high bit where another byte follows."""
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(value & 0x7F)
    return bytes([*(digit | 0x80 for digit in digits[:-1]), digits[-1]])


@pytest.mark.parametrize("bits", range(0, 64, 7))
def test_varints_at_the_edge_of_a_byte(bits):
    for value in range(max(0, (1 << bits) - 2), (1 << bits) + 2):
        if value < 1 << 32:
            assert encode_unsigned(value) == seven_bits(value)
        if value < 1 << 62:
            assert encode_zigzag(value) == seven_bits(2 * value)
            assert encode_zigzag(-value - 1) == seven_bits(2 * value + 1)


def test_only_magic_above_2_is_not_valid_for_clients():
    rows = [Batch(0, 61, at, at, 0, magic, 0, 0, 0, 0, -1, -1, -1, 1, 1) for at, magic in enumerate((0, 1, 2, 3, 2))]
    for columns in (BatchColumns.from_rows(rows), BatchColumns.from_rows(rows).arrays()):
        assert [row.valid for row in columns.for_clients().rows()] == [1, 1, 1, CRC_BAD, 1]


@pytest.mark.parametrize("size", [1, 255, 256, 257, 511, 512, 513, 1000])
def test_the_crc_after_every_byte(size):
    data = np.frombuffer(bytes(at * 7 % 251 for at in range(size)), dtype=np.uint8)
    kinds: Any = ((zlib.crc32, CRC32_POLYNOMIAL), (crc32c_function(), CRC32C_POLYNOMIAL))
    for checksum, polynomial in kinds:
        for before in (0, 12345):
            found = crc_after_every_byte(data, before, lambda part, start: checksum(bytes(part), start), polynomial)  # noqa: B023
            assert found.tolist() == [checksum(data[: end + 1].tobytes(), before) for end in range(size)]


# -- schemas of internal topics


def test_versions_without_an_end_go_up_to_a_short():
    assert schema._versions([3, None]) == Versions(3, 32767)
    assert schema._asked(Versions(0, 9), Versions(2, 5)) == range(-32768, 32768)
    assert schema._asked(Versions(3, 4), Versions(2, 5)) == range(3, 5)
    assert schema._asked(Versions(2, 5), Versions(2, 5)) == range(-32768, 32768)


def test_a_tagged_field_is_there_only_if_it_was_written():
    """The first tag is 0."""

    def field(name, tag):
        return SchemaField(name, "int32", "", range(10), range(0), tag, range(10), 7, "", range(0), ())

    fields = (field("plain", -1), field("first", 0), field("second", 1))
    assert _at_version(fields, 1, {}) == {"plain": 7}
    assert _at_version(fields, 1, {"first": 1, "second": 2}) == {"plain": 7, "first": 1, "second": 2}
    (numbers,) = fields_in(fields, 1)
    assert numbers.names == ("plain",)


# -- protobuf


def test_ranges_of_a_proto_file():
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


NESTED = ProtobufSchema(
    'syntax = "proto3"; message M { M m = 1; repeated int32 n = 2; repeated fixed32 f = 3; }', {}.get
)
GROUPS = ProtobufSchema("message M { optional group G = 1 { optional int32 a = 2; } }", {}.get)
FIELDS = 3


def nested(depth):
    data = b""
    for _ in range(depth):
        data = b"\x0a" + encode_unsigned(len(data)) + data
    return data


def count(data, left, found=NESTED):
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


@pytest.mark.parametrize("found", [NESTED, GROUPS], ids=["messages", "groups"])
def test_messages_as_deep_as_is_allowed(found, monkeypatch):
    monkeypatch.setattr(protobuf_value, "MOST_DEPTH", 4)
    made = nested if found is NESTED else lambda depth: b"\x0b" * depth + b"\x0c" * depth
    count(made(4), 1000, found)
    with pytest.raises(ValueError, match="nested more than 4 deep"):
        count(made(5), 1000, found)


def test_small_messages_are_not_counted(monkeypatch):
    """A message of so few bytes cannot exceed the limit."""
    data = b"\x10\x05" * 2
    monkeypatch.setattr(protobuf_value, "MOST_VALUES", len(data) * (1 + FIELDS))
    calls = []
    monkeypatch.setattr(protobuf_value._Counter, "message", lambda *arguments: calls.append(arguments[1]))
    NESTED.parse([0], memoryview(data))
    assert calls == []
    monkeypatch.setattr(protobuf_value, "MOST_VALUES", len(data) * (1 + FIELDS) - 1)
    NESTED.parse([0], memoryview(data))
    assert len(calls) == 1


def test_as_many_references_as_are_allowed(monkeypatch):
    monkeypatch.setattr(schema_set, "_MOST_REFERENCES", 2)
    one = {"name": "a", "subject": "b", "version": 1}
    assert len(schema_set._references([one] * 2)) == 2
    assert schema_set._references([one] * 3) is None
