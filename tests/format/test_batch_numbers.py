"""Sequences, flags and messages of negative magic at the boundaries of their ranges, as Kafka's classes have them."""

import struct
import zlib

import pytest

from kafkalog_cli.format.batch import MOST_BYTES, Batch, encode_start, increment_sequence
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import Header, headers_end, read_headers
from kafkalog_cli.format.varint import encode_zigzag
from kafkalog_cli.log.reading.header import checked_negative_magic, header_at, negative_magics
from kafkalog_cli.log.reading.resync import next_good_batch
from tests.bad_input.makers import message, seven
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.memory_fs import MemoryFilesystem

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


def negative(offset, payload=b"\xff\xff\xff\xff\xff\xff\xff\xff", timestamp=5):
    body = struct.pack(">bbq", -1, 0, timestamp) + payload
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def opened(data):
    disk = MemoryFilesystem()
    disk.add("/x.log", data)
    return disk.open_read("/x.log")


def test_the_smallest_message_of_negative_magic():
    """LegacyRecord.ensureValid wants 14 bytes behind the size (RECORD_OVERHEAD_V0), and no less."""
    smallest = negative(3, b"")
    assert len(smallest) == 12 + 14
    with opened(smallest) as log:
        found = checked_negative_magic(log, 0)
        assert (found.last_offset, found.size_bytes, found.max_timestamp) == (3, 26, 5)
    with opened(smallest[:-1]) as log:
        assert checked_negative_magic(log, 0) is None


def test_messages_of_negative_magic_up_to_an_end():
    data = negative(0) + negative(1) + negative(2)
    size = len(data) // 3
    with opened(data) as log:
        for end, count in ((3 * size, 3), (3 * size - 1, 2), (2 * size, 2), (2 * size + 1, 2), (0, 0)):
            assert [one.base_offset for one in negative_magics(log, 0, end)] == list(range(count)), end


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


@pytest.mark.parametrize("is_seven", [False, True])
def test_reading_goes_on_with_a_batch_of_the_largest_size(is_seven):
    batch = seven(b"v" * 50) if is_seven else batch_v2([R(7, BASE_TIME_MS, b"k", b"v")])
    with opened(b"\xff" * 100 + batch) as log:
        for most, found in ((len(batch), 100), (len(batch) - 1, None)):
            assert next_good_batch(log, 0, Limits(max_batch_bytes=most), seven=is_seven) == found


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
def test_headers_with_lengths_of_one_to_three_bytes(size, value):
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
