"""Java's numbers, lines, properties and hashes, as Kafka's files and tools have them."""

import json
import random
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as twin

from kafkalog_cli.format.java_text import (
    format_properties,
    java_double,
    java_string,
    lines,
    parse_int,
    parse_long,
    parse_properties,
    split_colon,
    split_white_space,
    string_hash,
)
from kafkalog_cli.format.varint import (
    BadVarint,
    decode_unsigned,
    decode_zigzag_32,
    decode_zigzag_64,
    encode_unsigned,
    encode_zigzag,
)
from kafkalog_cli.ops.change.append.arrow import ArrowReader
from kafkalog_cli.ops.change.append.partitioning import murmur2, partition_of_key, partitions_of_keys

# -- Java's numbers, lines and properties


INT = {"0": 0, "-0": 0, "+7": 7, "2147483647": 2**31 - 1, "-2147483648": -(2**31), "0" * 5000 + "1": 1, "\u0663": 3}
NOT_INT = [
    "",
    "+",
    "-",
    " 1",
    "1 ",
    "1_0",
    "0x1",
    "+-1",
    "1.0",
    "\xb2",
    "2147483648",
    "9" * 100_000,
    "\U0001d7d8",
    "1\n",
]


def test_integers_as_java_parses_them():
    assert {text: parse_int(text) for text in INT} == INT
    assert [text[:20] for text in NOT_INT if parse_int(text) is not None] == []
    assert (parse_long("9223372036854775807"), parse_long("-9223372036854775808")) == (2**63 - 1, -(2**63))
    assert (parse_long("9223372036854775808"), parse_long("2147483648")) == (None, 2**31)


@settings(deadline=None)
@given(st.integers(-(2**70), 2**70))
def test_integers_come_back_within_their_range(value):
    assert parse_long(str(value)) == (value if -(2**63) <= value < 2**63 else None)


@settings(deadline=None)
@given(st.text("a\n\r").map(str.encode))
def test_lines_are_where_they_say(data):
    found = list(lines(data))
    assert [line for _, line in found] == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[: len(found)]
    assert all(data[position : position + len(line)] == line for position, line in found)
    assert len(found) == len(data.splitlines())


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.text()))
def test_formatted_properties_parse_to_the_same_properties(properties):
    data = format_properties(properties.items(), ("", "made today"))
    assert data.startswith(b"#\n#made today\n")
    assert parse_properties(data) == properties


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a : b\nc\td", {"a": "b", "c": "d"}),
        (b"#x=1\n  ! y=2\n\n \x0c z=3", {"z": "3"}),
        (b"a=1\\\n   2\\\r\n\t3\nb=4", {"a": "123", "b": "4"}),
        (b"a=1\\\n# 2", {"a": "1# 2"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"a\\=\\:\\ b==c", {"a=: b": "=c"}),
        (b"a=\\u00e9\\t\\q\\ud83d\\ude00", {"a": "\u00e9\tq\U0001f600"}),
        (b"a=\xe9", {"a": "\u00e9"}),
        (b"a", {"a": ""}),
        (b"=b", {"": "b"}),
        (b"a=1\ra=2", {"a": "2"}),
        (b"a=1\\\n", {"a": "1"}),
    ],
)
def test_properties_as_java_loads_them(data, expected):
    assert parse_properties(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\\\n#c=1\nb=2", {"b": "2"}),
        (b"\\\n!x\nb=2", {"b": "2"}),
        (b"\\\n\nb=2", {"b": "2"}),
        (b"\\\n=x", {"": "x"}),
        (b"a=1\n\\", {"a": "1", "": ""}),
        (b"\\\n\\\n#b=2", {}),
    ],
)
def test_a_backslash_alone_on_its_line_continues_nothing(data, expected):
    """Properties.load of JDK 17, as all answers from here on."""
    assert parse_properties(data) == expected


def test_properties_escape_no_character_from_space_to_tilde():
    assert format_properties([("a", " b c~\x7f")]) == b"a=\\ b c~\\u007F\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("kafka", 101807910), ("orders-12", -390715895), ("\u00e9\U0001f600", 1996812), ("\uffff" * 3, 65076255), ("", 0)],
)
def test_string_hashes_are_those_of_java(text, expected):
    assert string_hash(text) == expected


@pytest.mark.parametrize(
    ("line", "fields"),
    [("", [""]), (" ", []), ("a ", ["a"]), (" a", ["", "a"]), ("  a  b  ", ["", "a", "b"]), (" \t", [])],
)
def test_fields_as_java_splits_them(line, fields):
    """A line without a match is the only field; else no empty field stays at the end, and none may be left."""
    assert split_white_space(line) == fields


@pytest.mark.parametrize(
    ("line", "fields"), [("", [""]), (": ", []), ("a: ", ["a"]), (": a", ["", "a"]), ("a: b: ", ["a", "b"])]
)
def test_fields_with_colons_as_java_splits_them(line, fields):
    assert split_colon(line) == fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f09041", "?A"),
        ("f0bf41", "?A"),
        ("f08f41", "??A"),
        ("f48041", "?A"),
        ("f48f41", "?A"),
        ("f49041", "??A"),
        ("f58041", "??A"),
        ("f0908041", "?A"),
        ("f0bfbf41", "?A"),
        ("f0c041", "??A"),
    ],
)
def test_utf_8_cut_off_before_another_character_decodes_as_in_java(text, expected):
    assert java_string(bytes.fromhex(text)) == expected.replace("?", "\ufffd")


def test_a_long_continued_line_is_read_in_linear_time():
    assert parse_properties(b"a=" + b"x\\\n" * 300_000) == {"a": "x" * 300_000}


# -- Variable-length integers and the text of doubles, against Kafka's and Java's own classes


FIXTURES = Path(__file__).parents[1] / "fixtures" / "internal_topics"
DECODERS = {"u": (decode_unsigned, 5), "i": (decode_zigzag_32, 5), "l": (decode_zigzag_64, 10)}


def recorded(kinds):
    for line in (FIXTURES / "java_numbers.jsonl").read_text().splitlines():
        kind, data, answer = json.loads(line)
        if kind in kinds:
            yield kind, bytes.fromhex(data), answer


def test_doubles_as_jdk_17_writes_them_but_for_long_digits():
    """JDK 17 does not always find the shortest digits. Doubles that it prints with at most 15 digits, without exponent, are the same."""
    same = 0
    for _, data, answer in recorded("d"):
        value = struct.unpack(">d", data)[0]
        digits = re.sub(r"E.*|\D", "", answer).strip("0")
        if len(digits) <= 15 and "E" not in answer:
            assert java_double(value) == answer
            same += 1
    assert same > 30


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
def test_varints_of_32_bits_decode_to_what_was_encoded(value, before, after):
    for encode, decode in ((encode_unsigned, decode_unsigned), (encode_zigzag, decode_zigzag_32)):
        data = encode(value)
        assert decode(memoryview(before + data + after), len(before)) == (value, len(before) + len(data))
        assert decode(data[:-1], 0) == BadVarint("null")


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_of_64_bits_decode_to_what_was_encoded(value):
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


# -- The hash of keys: Kafka's own examples (UtilsTest.testMurmur2), and kafka-python's for any bytes


KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("data", "signed"), KAFKAS.items())
def test_murmur2_gives_the_hashes_of_kafkas_examples(data, signed):
    assert murmur2(data) == signed % (1 << 32)


@given(st.binary(max_size=200), st.integers(1, 2**31 - 1))
def test_murmur2_of_any_key_is_that_of_kafka_python(data, partitions):
    assert murmur2(data) == twin(data) % (1 << 32)
    assert partition_of_key(data, partitions) == (twin(data) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize("kind", ["binary", "large_binary"])
def test_partitions_of_many_keys_at_once_are_those_of_each(kind):
    """Keys of all lengths, nulls, and a part of an array, as a scan by columns gives them."""
    pa = pytest.importorskip("pyarrow")
    rng = random.Random(kind)
    keys = [None if rng.random() < 0.1 else rng.randbytes(rng.choice((n % 40, n, 3 * n))) for n in range(300)]
    whole = pa.array(keys, getattr(pa, kind)())
    for part in (whole, whole.slice(7, 200), whole.slice(3, 1)):
        (records,) = ArrowReader(0).records([pa.RecordBatch.from_arrays([part], ["key"])])
        found = partitions_of_keys(records, 7).tolist()
        known = [(at, key) for at, key in enumerate(part.to_pylist()) if key is not None]
        assert [found[at] for at, _ in known] == [(twin(key) & 0x7FFFFFFF) % 7 for _, key in known]
