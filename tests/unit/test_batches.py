"""Batches and control records at the ends of their ranges, as Kafka's classes and kafka-dump-log have them."""

import json
import struct
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.format.batch import CRC_BAD, MOST_BYTES, Batch, BatchColumns, encode_start, increment_sequence
from kafkalog_cli.format.control import (
    CONTROL_TYPES,
    ControlRecord,
    control_object,
    control_type,
    decode_control,
    encode_marker,
)
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import Header, headers_end, read_headers
from kafkalog_cli.format.varint import encode_zigzag
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.resync import next_good_batch
from kafkalog_cli.output.dump_text import control_text
from tests.damage.makers import message, seven
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.memory_fs import MemoryFilesystem

# -- Sequences and flags at the boundaries of their ranges, as Kafka's classes have them


LARGEST = 2**31 - 1
TRANSACTIONAL, CONTROL, DELETE_HORIZON, APPEND_TIME = 0x10, 0x20, 0x40, 0x08


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [
        (0, 0, 0),
        (LARGEST, 0, LARGEST),
        (LARGEST, 1, 0),
        (LARGEST, 5, 4),
        (LARGEST - 1, 1, LARGEST),
        (LARGEST - 1, 2, 0),
        (10, -3, -2147483641),  # LARGEST + 3 overflows in Java
    ],
)
def test_sequences_wrap_to_zero(sequence, increment, expected):
    """DefaultRecordBatch.incrementSequence, in Java's int."""
    assert increment_sequence(sequence, increment) == expected


def batch(magic, attributes):
    return Batch(0, 61, 0, 0, 0, magic, 0, attributes, 1000, 1000, 7, 0, 0, 1, 1)


def test_flags_begin_with_the_format_that_has_them():
    """RecordBatch of magic 0 and 1 has no transactions; magic 0 has no timestamp type."""
    flags = TRANSACTIONAL | CONTROL | DELETE_HORIZON | APPEND_TIME
    found = [
        (one.is_transactional, one.is_control, one.delete_horizon_ms, one.is_log_append_time)
        for one in (batch(magic, flags) for magic in (0, 1, 2))
    ]
    assert found == [(False, False, None, False), (False, False, None, True), (True, True, 1000, True)]
    assert batch(2, 0).delete_horizon_ms is None


def opened(data):
    disk = MemoryFilesystem()
    disk.add("/x.log", data)
    return disk.open_read("/x.log")


def test_no_batch_begins_in_the_last_17_bytes():
    """FileLogInputStream.nextBatch reads no header there, whatever its bytes say."""
    with opened(bytes(17)) as log:
        assert header_at(log, 0) is None
    with opened(bytes(18)) as log:
        assert header_at(log, 0).kind is FaultKind.SIZE_TOO_SMALL


@pytest.mark.parametrize("batch", [
    batch_v2([], base=7, last=7),  # emptied by the cleaner: a header alone
    *(batch_v2([R(7, BASE_TIME_MS, b"k", b"v" * 99)], codec=codec) for codec in range(5)),
], ids=["emptied", "none", "gzip", "snappy", "lz4", "zstd"])  # fmt: skip
def test_reading_goes_on_with_each_kind_of_batch_after_damage(batch):
    with opened(b"\xff" * 100 + batch) as log:
        assert next_good_batch(log, 0, Limits()) == 100


@pytest.mark.parametrize("is_v07", [False, True])
def test_reading_goes_on_with_a_batch_of_the_largest_size(is_v07):
    batch = seven(b"v" * 50) if is_v07 else batch_v2([R(7, BASE_TIME_MS, b"k", b"v")])
    with opened(b"\xff" * 100 + batch) as log:
        for most, found in ((len(batch), 100), (len(batch) - 1, None)):
            assert next_good_batch(log, 0, Limits(max_batch_bytes=most), is_v07=is_v07) == found


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("value", [None, b"", b"v"])
@pytest.mark.parametrize("key", [None, b"", b"k"])
def test_reading_goes_on_with_the_smallest_messages(magic, key, value):
    """The length of a value that is null ends the message."""
    with opened(b"\xff" * 100 + message(7, key, value, magic=magic)) as log:
        assert next_good_batch(log, 0, Limits()) == 100


@pytest.mark.parametrize(("magic", "attributes", "found"), [(0, 7, 100), (0, 8, None), (1, 15, 100), (1, 16, None)])
def test_reading_goes_on_with_each_attribute_that_a_format_has(magic, attributes, found):
    with opened(b"\xff" * 100 + message(7, b"k", b"v", magic=magic, attributes=attributes)) as log:
        assert next_good_batch(log, 0, Limits()) == found


@pytest.mark.parametrize("size", [0, 63, 64, 8191, 8192])
@pytest.mark.parametrize("value", [None, b"v"])
def test_headers_with_lengths_of_one_to_three_bytes_are_read(size, value):
    """A length is a zigzag number: 64 is the first that takes two bytes, 8,192 the first that takes three."""
    wanted = Header(b"k" * size, None if value is None else value * size)
    data = encode_zigzag(size) + wanted.key + (encode_zigzag(size) + wanted.value if value else encode_zigzag(-1))
    assert list(read_headers(memoryview(data * 2), 0, 2)) == [wanted, wanted]
    assert headers_end(memoryview(data * 2 + b"more"), 0, 2) == 2 * len(data)


def test_the_size_of_a_fetch_response_is_an_int32():
    """It counts the error code behind it, and the messages."""
    for messages_bytes in (0, MOST_BYTES):
        size, error_code = struct.unpack(">ih", encode_start(messages_bytes))
        assert (size, error_code) == (2 + messages_bytes, 0)
    assert 2 + MOST_BYTES == 2**31 - 1
    for messages_bytes in (-1, MOST_BYTES + 1):
        with pytest.raises(ValueError, match="do not fit into a fetch response"):
            encode_start(messages_bytes)


# -- Control records against what the real kafka-dump-log prints of them, or the exception that ends it


FIXTURES = Path(__file__).parents[1] / "fixtures" / "internal_topics"


def recorded():
    """(key, value, text, exception)"""
    for line in (FIXTURES / "control.jsonl").read_text().splitlines():
        key, value, text, exception = json.loads(line)
        yield (*(None if data is None else bytes.fromhex(data) for data in (key, value)), text, exception)


def tells(fault, exception):
    """Whether a fault says what the exception did; one without a message of its own is named."""
    kind, _, message = exception.partition(": ")
    if kind.endswith("NullPointerException") or not message:
        return fault.message.endswith(f"({kind.rpartition('.')[2]})")
    return fault.message == message or fault.message.endswith(f": {message}")


def test_control_records_print_as_the_real_tool_prints_them():
    for key, value, text, _ in recorded():
        if text is not None:
            assert control_text(key, value) == text


def test_where_the_real_tool_aborts_is_a_fault_with_the_same_message():
    for key, value, text, exception in recorded():
        if text is None:
            fault = decode_control(key, value)
            assert fault.kind is FaultKind.INVALID_CONTROL_RECORD
            assert tells(fault, exception), (fault.message, exception)


def test_every_type_of_control_record_was_recorded():
    types = {decode_control(key, value).name for key, value, text, _ in recorded() if text is not None}
    assert types == {*CONTROL_TYPES, "UNKNOWN"}


def test_an_encoded_marker_decodes_to_itself():
    key, value = encode_marker(1, 7)
    assert (key.hex(), value.hex()) == ("00000001", "000000000007")
    record = decode_control(key + b"longer", value + b"longer")
    assert record == ControlRecord(1, {"coordinatorEpoch": 7})
    assert record.is_marker
    assert control_object(key, value) == {"type": "COMMIT", "type_id": 1, "coordinatorEpoch": 7}


def test_a_marker_too_short_for_its_version_is_reported_as_by_kafka():
    key, _ = encode_marker(0, 0)
    assert (
        decode_control(key, b"\xff").message == "end transaction marker: 1 bytes are too few (BufferUnderflowException)"
    )
    assert decode_control(key, b"\xff\xff").message == (
        "Invalid version found for end transaction marker: -1. May indicate data corruption"
    )


def test_unknown_and_unreadable_control_records_have_an_object():
    assert control_object(b"\0\0\0\x63", b"new") == {"type": "UNKNOWN", "type_id": 99}
    assert control_object(b"\0", None) == {
        "type": "INVALID",
        "error": "Invalid value size found for end control record key. Must have at least 4 bytes, but found only 1",
    }


@given(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_control_record_or_a_fault(key, value):
    assert isinstance(decode_control(key, value), ControlRecord | Fault)


@given(st.integers(0, 6), st.binary(max_size=60))
def test_any_value_of_a_known_control_type_is_read_or_a_fault(type_id, value):
    found = decode_control(bytes([0, 0, 0, type_id]), value)
    assert isinstance(found, Fault) or found.type_id == type_id


def test_the_type_of_a_control_key_needs_four_bytes_and_a_version_of_at_least_0():
    """ControlRecordType.parseTypeId: fewer bytes, or a negative version, are refused; what comes after is not looked at."""
    for version, type_id in product((-2, -1, 0, 1), (-1, 0, 1, 7)):
        key = struct.pack(">hh", version, type_id)
        expected = type_id if version >= 0 else None
        assert [control_type(key[:size]) for size in range(4)] == [None] * 4
        assert [control_type(key), control_type(key + b"more")] == [expected] * 2
    assert control_type(None) is None


def test_only_magic_above_2_is_not_valid_for_clients():
    rows = [Batch(0, 61, at, at, 0, magic, 0, 0, 0, 0, -1, -1, -1, 1, 1) for at, magic in enumerate((0, 1, 2, 3, 2))]
    assert [row.valid for row in BatchColumns.from_rows(rows).for_clients().rows()] == [1, 1, 1, CRC_BAD, 1]
