"""Variable-length integers and the text of doubles, against Kafka's and Java's own classes."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.format.internal_topics.java_json import java_double
from kafkalog_cli.format.varint import (
    BadVarint,
    decode_unsigned,
    decode_zigzag_32,
    decode_zigzag_64,
    encode_unsigned,
    encode_zigzag,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "internal_topics"
DECODERS = {"u": (decode_unsigned, 5), "i": (decode_zigzag_32, 5), "l": (decode_zigzag_64, 10)}


def recorded(kinds):
    for line in (FIXTURES / "java_numbers.jsonl").read_text().splitlines():
        kind, data, answer = json.loads(line)
        if kind in kinds:
            yield kind, bytes.fromhex(data), answer


def test_doubles_as_jdk_17_writes_them():
    """The last ones lie beside a short decimal that is just between two doubles."""
    tried = 0
    for _, data, answer in recorded("d"):
        assert java_double(struct.unpack(">d", data)[0]) == answer
        tried += 1
    assert tried > 250


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_reads_back_as_it(value):
    text = java_double(value)
    read = float(text.replace("Infinity", "inf"))
    assert struct.pack(">d", read) == struct.pack(">d", value)


def test_varints_as_byte_utils_reads_them():
    for kind, data, answer in recorded("uil"):
        found = DECODERS[kind][0](data, 0)
        assert (f"! {found.message}" if isinstance(found, BadVarint) else f"{found[0]} {found[1]}") == answer


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_varints_of_32_bits_there_and_back(value, before, after):
    for encode, decode in ((encode_unsigned, decode_unsigned), (encode_zigzag, decode_zigzag_32)):
        data = encode(value)
        assert decode(memoryview(before + data + after), len(before)) == (value, len(before) + len(data))
        assert decode(data[:-1], 0) == BadVarint("null")


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_of_64_bits_there_and_back(value):
    data = encode_zigzag(value)
    assert len(data) <= 10
    assert decode_zigzag_64(data, 0) == (value, len(data))
    assert decode_zigzag_64(data[:-1], 0) == BadVarint("null")


@pytest.mark.parametrize(("value", "data"), [(127, "7f"), (128, "8001"), (2**14 - 1, "ff7f"), (2**14, "808001")])
def test_every_seventh_bit_takes_another_byte(value, data):
    """ByteUtils.writeUnsignedVarint; a zigzag number that is even is twice the value."""
    assert encode_unsigned(value) == bytes.fromhex(data)
    assert value % 2 or encode_zigzag(value // 2) == bytes.fromhex(data)


@pytest.mark.parametrize("kind", ["u", "i", "l"])
def test_a_varint_ends_in_time(kind):
    decode, most = DECODERS[kind]
    assert not isinstance(decode(b"\x80" * (most - 1) + b"\1", 0), BadVarint)
    assert "too long" in decode(b"\x80" * most + b"\1", 0).message
    assert decode(b"\x80" * (most - 1), 0) == BadVarint("null")
    assert decode(b"", 0) == decode(b"\1", 1) == BadVarint("null")
