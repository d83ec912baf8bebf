"""Lengths and counts that lie, with CRCs that hold: a fault that says where, the entries before it, no large buffer."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from tests.damage.makers import (
    GZIP,
    LZ4,
    NONE,
    PACK,
    SNAPPY,
    ZSTD,
    batch,
    message,
    record,
    seven,
    unsigned_varint,
    varint,
    wrapper,
)
from tests.damage.reading import Fact, deadline, read

INT32 = (1 << 31) - 1
GOOD = batch(0, [record(0, b"k", b"v")])
BEHIND = batch(1, [record(0, b"k", b"w")])
LONGEST = varint(-(1 << 31))
"""Five bytes."""

BUFFERS_BYTES = 12 << 20
"""Of a command, whatever it reads."""

CASES = 358
"""Tests in here and in test_verify_lengths.py; row R10 of support/evidence.py counts them."""


@pytest.fixture(autouse=True)
def counted(evidence):
    evidence("R10", 1, CASES)


@pytest.fixture(scope="module", autouse=True)
def _what_reading_needs_is_imported():
    read(GOOD + b"x" * 100, goes_on=True)


def small(data, **options):
    """Read `data` with few bytes more than the buffers of a command."""
    allowed_bytes = BUFFERS_BYTES + 4 * len(data)
    tracemalloc.start()
    try:
        with deadline(10):
            outcome = read(data, **options)
        assert tracemalloc.get_traced_memory()[1] < allowed_bytes
        return outcome
    finally:
        tracemalloc.stop()


def small_behind(data):
    """The same, and what comes behind damage."""
    return small(data, goes_on=True)


def raw_record(*fields: bytes, length: int | None = None) -> bytes:
    """A record of attributes and the fields as they are given."""
    body = b"\0" + b"".join(fields)
    return varint(len(body) if length is None else length) + body


REST = 2 * len(BEHIND)
ENDING_SIZES = [
    *((size, Fact("size-too-small", len(GOOD))) for size in (-(1 << 31), -1, 0, 1, 13)),
    *((size, Fact("trailing-bytes", len(GOOD))) for size in (INT32, INT32 - 12, 1 << 30, REST - 11)),
]


@pytest.mark.parametrize(("size", "fault"), ENDING_SIZES)
def test_a_size_that_ends_the_chain(size, fault):
    lying = bytearray(BEHIND)
    lying[8:12] = struct.pack(">i", size)
    outcome = small(GOOD + bytes(lying) + BEHIND)
    assert len(outcome.batches) == len(outcome.records) == 1
    assert (outcome.chain_fault, outcome.valid_bytes) == (fault, len(GOOD))


@pytest.mark.parametrize("size", [14, 20, 48, 49])
def test_a_size_too_small_for_a_batch_is_a_batch_without_records(size):
    lying = bytearray(GOOD)
    lying[8:12] = struct.pack(">i", size)
    outcome = small_behind(bytes(lying) + BEHIND + BEHIND)
    assert (outcome.batches[0].size_bytes, outcome.batches[0].valid) == (size + 12, False)
    assert outcome.record_faults[0] == Fact("invalid-record", 0)
    assert [record for record in outcome.records if record.batch_position == 0] == []


@pytest.mark.parametrize(("size", "kind"), [(size, "trailing-bytes") for size in (-1, 0, 4, 100, INT32)])
def test_a_size_that_ends_the_chain_of_a_seven_file(size, kind):
    good = seven(b"payload")
    outcome = small(good + seven(b"lies", size=size) + good, seven=True)
    assert len(outcome.records) == 1
    assert outcome.chain_fault == Fact(kind, len(good))


# -- record counts


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    ("count", "kind", "given"),
    [
        (-1, "invalid-count", 0),
        (-(1 << 31), "invalid-count", 0),
        (1, "records-remaining", 0),
        (2, "records-remaining", 1),
        (4, "invalid-record", 3),
        (1_000_001, "invalid-record", 3),
        (INT32, "invalid-record", 3),
    ],
)
def test_a_wrong_record_count_is_a_fault_of_its_batch(codec, count, kind, given):
    records = [record(i, b"key", b"value") for i in range(3)]
    data = GOOD + batch(1, records, codec=codec, count=count) + BEHIND
    outcome = small_behind(data)
    assert all(entry.valid for entry in outcome.batches)
    assert outcome.record_faults == [Fact(kind, len(GOOD))]
    # Kafka's iterator of an uncompressed batch gives the records before the one that it fails at.
    assert len(outcome.records) == 2 + (given if codec == NONE else 0)


def test_a_count_of_0_hides_what_records_there_are_as_in_kafka():
    outcome = small_behind(batch(0, [record(0, b"k", b"v")], count=0))
    assert outcome.is_clean
    assert outcome.records == []


# -- inside a record

LIES = {
    "no record at all": b"",
    "length 0": b"\0",
    "length -1": varint(-1) + record(0, b"k", b"v"),
    "length of 2 GiB": varint(INT32) + record(0, b"k", b"v"),
    "length of -2 GiB": LONGEST + record(0, b"k", b"v"),
    "length one short": raw_record(b"\0\0", b"\2k", b"\2v", b"\0", length=7),
    "length one long": raw_record(b"\0\0", b"\2k", b"\2v", b"\0", length=9) + b"\0",
    "length of 10 bytes": b"\x80" * 9 + b"\1" + record(0, b"k", b"v"),
    "length of 6 bytes": b"\x82\x80\x80\x80\x80\0" + record(0, b"k", b"v"),
    "length without an end": b"\xff" * 40,
    "timestamp of 11 bytes": raw_record(b"\x80" * 10 + b"\1", b"\0", b"\1", b"\1", b"\0"),
    "timestamp without an end": raw_record(b"\xff" * 30),
    "offset of 6 bytes": raw_record(b"\0", b"\xff" * 5 + b"\1", b"\1", b"\1", b"\0"),
    "key length of 2 GiB": raw_record(b"\0\0", varint(INT32), b"k", b"\2v", b"\0"),
    "key length one beyond the record": raw_record(b"\0\0", varint(6), b"k", b"\2v", b"\0"),
    "key length of 6 bytes": raw_record(b"\0\0", b"\xff" * 6, b"\1", b"\0"),
    "value length of 2 GiB": raw_record(b"\0\0", b"\2k", varint(INT32), b"v", b"\0"),
    "value length up to the end": raw_record(b"\0\0", b"\2k", varint(2), b"v\0"),
    "header count of 2 GiB": raw_record(b"\0\0", b"\1", b"\1", varint(INT32)),
    "header count of -1": raw_record(b"\0\0", b"\1", b"\1", varint(-1)),
    "header count of -2 GiB": raw_record(b"\0\0", b"\1", b"\1", LONGEST),
    "header count one more than there are": raw_record(b"\0\0", b"\1", b"\1", varint(2), b"\2h\2v"),
    "header key length of -1": raw_record(b"\0\0", b"\1", b"\1", varint(1), b"\1\2v"),
    "header key length of 2 GiB": raw_record(b"\0\0", b"\1", b"\1", varint(1), varint(INT32), b"h\2v"),
    "header value length of 2 GiB": raw_record(b"\0\0", b"\1", b"\1", varint(1), b"\2h", varint(INT32), b"v"),
    "header value length of 6 bytes": raw_record(b"\0\0", b"\1", b"\1", varint(1), b"\2h", b"\xff" * 6),
    "a record that reaches into the next": varint(20) + b"\0\0\0" + varint(15) + b"k" * 15,
}


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("lie", LIES)
def test_a_record_that_lies_ends_its_batch_only(lie, codec):
    data = GOOD + batch(1, [record(0, b"a", b"b"), LIES[lie]], codec=codec) + BEHIND
    outcome = small_behind(data)
    assert [batch.valid for batch in outcome.batches] == [True, True, True]
    assert outcome.record_faults == [Fact("invalid-record", len(GOOD))]
    assert [record.value for record in outcome.records] == [b"v", *([b"b"] if codec == NONE else []), b"w"]


@pytest.mark.parametrize(
    ("name", "bytes_of_varint", "value"),
    [
        ("padded", b"\x82\x80\x80\x80\0", 1),
        ("the top bits of the fifth byte are dropped, as in Java's int", b"\x82\x80\x80\x80\x70", 1),
        ("ten bytes of a long", b"\xff" * 9 + b"\1", -(1 << 63)),
    ],
)
def test_varints_longer_than_needed_are_read_as_kafka_reads_them(name, bytes_of_varint, value):
    del name
    is_long = len(bytes_of_varint) == 10
    fields = (bytes_of_varint, b"\0") if is_long else (b"\0", bytes_of_varint)
    outcome = small_behind(batch(5, [raw_record(*fields, b"\1", b"\1", b"\0")], base_ms=0))
    assert outcome.record_faults == []
    assert (outcome.records[0].timestamp if is_long else outcome.records[0].offset - 5) == value


def test_negative_lengths_of_key_and_value_are_null():
    for length in (-1, -2, -(1 << 31)):
        outcome = small_behind(batch(0, [raw_record(b"\0\0", varint(length), varint(length), b"\0")]))
        assert outcome.is_clean
        assert (outcome.records[0].key, outcome.records[0].value) == (None, None)


def test_offsets_and_timestamps_wrap_as_in_java():
    largest = (1 << 63) - 1
    outcome = small_behind(batch(largest, [record(1, b"k", None, ms=1)], base_ms=largest, max_ms=largest, delta=1))
    assert outcome.batches[0].last_offset == outcome.records[0].offset == outcome.records[0].timestamp == -(1 << 63)


# -- messages v0 and v1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("sizes", "key", "value", "faults"),
    [
        ({"key_size": -2}, None, b"", []),  # what follows is a value of that many bytes
        ({"key_size": INT32}, None, None, ["invalid-record"]),
        ({"key_size": 9}, None, None, ["invalid-record"]),
        ({"value_size": -2}, b"key", None, []),
        ({"value_size": 4}, b"key", b"val", []),
        ({"value_size": 6}, b"key", b"", []),
        ({"value_size": INT32}, b"key", b"", []),
    ],
)
def test_a_message_with_wrong_lengths_is_a_fault(magic, sizes, key, value, faults):
    good = message(0, b"k", b"v", magic=magic)
    lying = message(1, b"key", b"value", magic=magic, **sizes)
    outcome = small_behind(good + lying + good)
    assert [fault.kind for fault in outcome.record_faults] == faults
    assert len(outcome.records) == 3 - len(faults)
    if not faults and key is not None:
        assert (outcome.records[1].key, (outcome.records[1].value or b"")[:3]) == (key, (value or b"")[:3])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [-1, 0, 13, INT32, 500])
def test_an_inner_message_with_a_wrong_size_is_a_fault(magic, size):
    inner = message(0, None, b"one", magic=magic) + message(1, None, b"two", magic=magic, size=size)
    lying = message(1, None, PACK[GZIP](inner), magic=magic, attributes=GZIP)
    good = wrapper(0, [(None, b"v")], magic=magic, codec=GZIP)
    outcome = small_behind(good + lying + good)
    too_small = size < 14
    assert [fault.kind for fault in outcome.record_faults] == (["invalid-inner-message"] if too_small else [])
    # What is cut off at the end of the set Kafka does not miss.
    assert [record.value for record in outcome.records] == [b"v", *([] if too_small else [b"one"]), b"v"]


@pytest.mark.parametrize("value", [None, b"", b"\x1f\x8b"])
def test_a_compressed_message_without_a_set_is_a_fault(value):
    for magic in (0, 1):
        outcome = small_behind(message(0, None, value, magic=magic, attributes=GZIP))
        assert [fault.kind for fault in outcome.record_faults] in (["invalid-inner-message"], ["decompression-failed"])
        assert outcome.records == []


def test_every_codec_id_that_is_none():
    for codec in (5, 6, 7):
        v2 = small_behind(batch(0, [record(0, b"k", b"v")], attributes=codec) + BEHIND)
        legacy = small_behind(message(0, None, b"v", magic=1, attributes=codec) + message(1, None, b"w", magic=1))
        for outcome in (v2, legacy):
            assert [fault.kind for fault in outcome.record_faults] == ["unknown-codec"]
            assert [record.value for record in outcome.records] == [b"w"]


def test_a_varint_is_what_kafka_writes():
    assert [varint(value) for value in (0, -1, 1, 300)] == [b"\0", b"\1", b"\2", b"\xd8\4"]
    assert unsigned_varint(300) == b"\xac\2"
