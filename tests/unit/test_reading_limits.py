"""Reading exactly at a limit: the end of a file, of a window, of a range, the first byte after a bad sector."""

import errno
import gzip
import random
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.control import decode_control
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.records import RECORDS_AT_ONCE
from kafkalog_cli.log.reading import resync
from kafkalog_cli.log.reading.header import _control_key, control_record_at, header_at
from kafkalog_cli.log.reading.readable import SECTOR_BYTES, read_readable, unreadable_ranges
from kafkalog_cli.log.reading.records import _V07_NESTING, RecordReader
from kafkalog_cli.log.reading.resync import is_overtaken, next_good_batch
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.check.checks import segment_walk
from kafkalog_cli.ops.check.checks.segment_walk import MAX_DAMAGED, SegmentWalk, first_astray
from tests.damage.makers import seven
from tests.support.faulty_fs import BytesFile, FaultyFilesystem
from tests.support.logs import CONTROL, R, batch_v2, message, message_set
from tests.support.naive_reader import first_right_batch

BLOCK = 4096


class BadSectors(BytesFile):
    """A file of which some sectors cannot be read; a read that touches one fails."""

    def __init__(self, data, bad):
        super().__init__(data)
        self.bad = frozenset(bad)

    def read_into(self, position, buffer):
        end = min(position + len(buffer), self.size_bytes)
        touched = range(position // SECTOR_BYTES, -(-end // SECTOR_BYTES) if position < end else 0)
        if not self.bad.isdisjoint(touched):
            raise OSError(errno.EIO, "Input/output error")
        return super().read_into(position, buffer)


# -- bad sectors


@given(
    size=st.integers(1, 12 * SECTOR_BYTES),
    position=st.integers(0, 12 * SECTOR_BYTES),
    length=st.integers(0, 12 * SECTOR_BYTES) | st.just(4),
    first=st.integers(0, 12),
    count=st.integers(0, 12),
)
@example(size=9 * SECTOR_BYTES, position=SECTOR_BYTES - 4, length=8, first=1, count=1)
@example(size=9 * SECTOR_BYTES, position=0, length=9 * SECTOR_BYTES, first=8, count=1)
@example(size=9 * SECTOR_BYTES, position=SECTOR_BYTES, length=SECTOR_BYTES, first=1, count=1)
@example(size=9 * SECTOR_BYTES, position=SECTOR_BYTES, length=2 * SECTOR_BYTES, first=2, count=1)
@example(size=9 * SECTOR_BYTES, position=10, length=4000, first=8, count=1)
@example(size=10 * SECTOR_BYTES, position=0, length=600, first=1, count=8)
def test_all_bytes_before_a_bad_sector_are_read(size, position, length, first, count):
    """Against a twin that tries sector after sector; the bad range is one, so that its end is exact."""
    data = bytes(at % 251 for at in range(size))
    file, buffer = BadSectors(data, range(first, first + count)), bytearray(length)
    got, fault = read_readable(file, position, memoryview(buffer))
    bad_begin, bad_end = first * SECTOR_BYTES, min((first + count) * SECTOR_BYTES, size)
    end = min(position + length, size)
    if position >= end or bad_begin >= min(end, bad_end) or position >= bad_end:
        assert (got, fault) == (max(0, end - position), None)
    else:
        begin = max(position, bad_begin)
        assert got == begin - position
        assert (fault.kind, fault.position, fault.size_bytes) == (FaultKind.UNREADABLE, begin, bad_end - begin)
    assert bytes(buffer[:got]) == data[position : position + got]
    faults = list(unreadable_ranges(file, position, size))
    wanted = [(max(position, bad_begin), bad_end)] if max(position, bad_begin) < bad_end else []
    assert [(one.position, one.position + one.size_bytes) for one in faults] == wanted


def test_no_byte_beyond_the_range_is_asked_for():
    file = BadSectors(bytes(3 * SECTOR_BYTES), [1])
    assert list(unreadable_ranges(file, 0, SECTOR_BYTES)) == []
    assert [one.position for one in unreadable_ranges(file, 0, SECTOR_BYTES + 1)] == [SECTOR_BYTES]


def test_a_sector_that_fails_once_is_read():
    class Flaky(BytesFile):
        failures = 1

        def read_into(self, position, buffer):
            if self.failures and len(buffer) > SECTOR_BYTES:
                self.failures -= 1
                raise OSError(errno.EIO, "Input/output error")
            return super().read_into(position, buffer)

    data = bytes(range(250)) * 10
    for position in (0, 1, SECTOR_BYTES):
        buffer = bytearray(3 * SECTOR_BYTES)
        assert read_readable(Flaky(data), position, memoryview(buffer)) == (len(buffer), None)
        assert buffer == data[position : position + len(buffer)]


def test_a_large_unreadable_range_is_crossed_in_leaps():
    """On a dying disk each failing read takes seconds."""

    class Counted(BadSectors):
        reads = 0

        def read_into(self, position, buffer):
            self.reads += 1
            return super().read_into(position, buffer)

    sectors = (16 << 20) // SECTOR_BYTES
    file = Counted(bytes((sectors + 2) * SECTOR_BYTES), range(1, sectors + 1))
    got, fault = read_readable(file, 0, memoryview(bytearray(600)))
    assert (got, fault.size_bytes) == (SECTOR_BYTES, sectors * SECTOR_BYTES)
    assert file.reads < 120


# -- headers


def test_a_header_of_which_only_the_start_can_be_read():
    data = bytearray(SECTOR_BYTES - 17) + batch_v2([R(0, 1000, None, b"v" * 600)])
    for magic, kind in ((2, FaultKind.UNREADABLE), (0xFF, FaultKind.INVALID_MAGIC)):
        data[SECTOR_BYTES - 1] = magic
        assert header_at(BadSectors(bytes(data), [1]), SECTOR_BYTES - 17).kind is kind
    data.insert(0, 0)
    assert header_at(BadSectors(bytes(data), [1]), SECTOR_BYTES - 16).kind is FaultKind.UNREADABLE


@pytest.mark.parametrize(("magic", "whole_bytes"), [(2, 61), (1, 26), (0, 18)])
def test_a_header_must_be_whole(magic, whole_bytes):
    """FileChannelRecordBatch.loadBatchHeader reads the header of the magic, however small the size in it is."""
    for size_bytes in range(26, whole_bytes + 1):
        data = struct.pack(">qiib", 5, size_bytes - 12, 0, magic) + bytes(size_bytes - 17)
        found = header_at(BytesFile(data), 0)
        if size_bytes < whole_bytes:
            assert (found.kind, found.size_bytes) == (FaultKind.HEADER_CUT_OFF, size_bytes)
        else:
            assert isinstance(found, Batch)


@pytest.mark.parametrize("key", [None, b"", struct.pack(">hh", 0, 1)])
@pytest.mark.parametrize("value", [None, b"", struct.pack(">hi", 0, 3)])
def test_an_empty_key_or_value_of_a_control_record_is_not_null(key, value):
    file = BytesFile(batch_v2([R(0, 1000, key, value)], bits=CONTROL))
    assert _control_key(file, 0)[0] == key
    assert control_record_at(file, 0) == decode_control(key, value)


# -- the next good batch


V2 = batch_v2([R(5, 1000, b"k", b"v")])


def patched(data, at, value):
    return data[:at] + bytes((value,)) + data[at + 1 :]


def with_crc(data):
    """The batch v2 with the CRC of its bytes."""
    import crc32c

    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:]


@pytest.mark.parametrize(
    ("data", "is_found"),
    [
        (V2, True),
        (patched(V2, 0, 0x7F), True),
        (patched(V2, 0, 0x80), False),  # a negative offset
        (with_crc(patched(V2, 22, 4)), True),
        (with_crc(patched(V2, 22, 5)), False),  # no codec
        (with_crc(patched(V2, 22, 0x78)), True),
        (with_crc(patched(V2, 22, 0x80)), False),  # an attribute that no version has
        (with_crc(patched(V2, 21, 1)), False),
        (message(R(0, 1000, None, None), 0), True),  # the smallest entry
        (message(R(0, 1000, None, b""), 1), True),
        (message_set([R(0, 1000, b"k", b"v")], 1, 1), True),
    ],
)
@pytest.mark.parametrize("before", [b"", b"\xff" * 7, b"\xff" * (16 << 10)])
def test_next_good_batch_takes_bytes_that_are_a_whole_valid_batch(data, is_found, before):
    for after in (b"", b"\xff"):
        assert next_good_batch(BytesFile(before + data + after), 0) == (len(before) if is_found else None)


@pytest.mark.parametrize(
    "data", [seven(b""), seven(b"v"), seven(gzip.compress(b"v", mtime=0), codec=1), seven(b"\x82SNAPPY\0", codec=2)]
)
def test_next_good_batch_takes_a_valid_message_of_0_7(data):
    for before in (b"", b"\xff" * 7):
        assert next_good_batch(BytesFile(before + data), 0, is_v07=True) == len(before)


def test_a_message_in_a_damaged_set_is_none_of_the_log():
    """The messages of a set have offsets up to its own; the next message has a larger one."""
    for magic in (0, 1):
        for codec in (1, 2, 3):
            header = message(R(5, 1000, None, b""), magic, codec)
            inner = [message(R(at, 1000, b"k", b"v"), 1) for at in (4, 5, 6)]
            data = header + b"".join(inner)
            assert next_good_batch(BytesFile(data), 1, broken_at=0) == len(header) + len(inner[0]) + len(inner[1])
    for damaged in (message(R(5, 1000), 1), V2):  # no set
        data = damaged + message(R(4, 1000, b"k", b"v"), 1)
        assert next_good_batch(BytesFile(data), 1, broken_at=0) == len(damaged)


@pytest.mark.parametrize("candidates", [1, 3, 1 << 17])
@pytest.mark.parametrize("read_bytes", [100, 256 << 10])
def test_candidates_that_overlap_are_all_checked(monkeypatch, candidates, read_bytes):
    """Headers within the records of others state any ends; there may be more of them than fit in memory at a time."""
    monkeypatch.setattr(resync, "_MOST_CANDIDATES", candidates)
    monkeypatch.setattr(resync, "_FIRST_READ_BYTES", read_bytes)
    monkeypatch.setattr(resync, "_READ_BYTES", read_bytes)
    chance = random.Random(candidates + read_bytes)
    for _ in range(60):
        inner = b"".join(
            chance.choice([V2, patched(V2, len(V2) - 1, 0xEE), message(R(0, 1000, b"k", b"v"), 1), V2[:30], bytes(9)])
            for _ in range(chance.randrange(9))
        )
        outer = bytearray(batch_v2([R(0, 1000, b"k", inner)]) + inner)
        outer[-1 - chance.randrange(len(outer))] ^= 1 << chance.randrange(8)
        outer[chance.randrange(40)] ^= 1
        data = bytes(outer)
        start = chance.randrange(len(data))
        assert next_good_batch(BytesFile(data), start) == first_right_batch(data, start)


def test_a_log_that_has_its_size_again_was_not_overtaken():
    fs = FaultyFilesystem({"/log": V2, "/bad": b"\xff" * 99})
    assert is_overtaken(fs, "/log", len(V2) + 1, 0)
    assert is_overtaken(fs, "/log", len(V2) - 1, 0)  # it has grown, and is sound there now
    assert not is_overtaken(fs, "/log", len(V2), 0)
    assert not is_overtaken(fs, "/bad", 90, 0)
    assert not is_overtaken(fs, "/removed", 90, 0)


# -- chains


def resyncing(data, end=None):
    reader = Scan(BytesFile(data), DamagePolicy.RESYNC, end=end)
    return reader, [row.base_offset for part in reader.batches() for row in part.rows()]


def test_a_good_batch_at_the_end_of_the_range_is_not_of_it():
    broken = b"\xff" * 30
    for end, found in ((len(V2) + 30, [5]), (len(V2) * 2 + 30, [5, 5])):
        reader, offsets = resyncing(V2 + broken + V2, end)
        assert offsets == found
        assert (reader.fault is None) == (len(found) == 2)


def walked(data, records=None):
    file = BytesFile(data)
    file.path = "00000000000000000000.log"
    walk = SegmentWalk(file, records=records)
    rows = [row for batch_run in walk for row in batch_run.batches.rows()]
    return walk, [(row.base_offset, row.valid) for row in rows]


def test_the_reader_remembers_breaks_up_to_its_limit():
    for breaks in (MAX_DAMAGED - 1, MAX_DAMAGED, MAX_DAMAGED + 1):
        walk, found = walked((V2 + b"\xff" * 30) * breaks + V2)
        assert found == [(5, 1)] * (breaks + 1)
        assert (walk.damaged_count, len(walk.damaged)) == (breaks, min(breaks, MAX_DAMAGED))


@pytest.mark.parametrize(("most", "false_batches"), [(2, []), (1, [(6, 0), (6, 0)])])
def test_the_reader_keeps_pending_batches_up_to_its_limit(most, false_batches, monkeypatch):
    """The bytes of two batches with wrong CRCs hold a good batch, and the chain breaks after them."""
    monkeypatch.setattr(segment_walk, "MAX_PENDING", most)
    bad = patched(batch_v2([R(6, 1000, b"k", V2)]), 17, 0)
    _, found = walked(V2 + bad + bad + b"\xff" * 30 + V2)
    assert [one for one in found if not one[1]] == false_batches


@pytest.mark.parametrize(
    ("offset", "is_astray"),
    [(99, True), (100, False), (100 + MAX_RELATIVE_OFFSET, False), (101 + MAX_RELATIVE_OFFSET, True)],
)
def test_a_batch_is_astray_where_its_segment_cannot_hold_it(offset, is_astray):
    row = Batch(0, 61, offset, offset, 0, 2, 0, 0, 0, 0, -1, -1, -1, 1, 0)
    columns = BatchColumns.from_rows([row])
    assert first_astray(columns, 100) == (0 if is_astray else None)
    assert first_astray(BatchColumns.from_rows([row._replace(valid=1)]), 100) is None


def test_records_before_a_batch_that_is_astray_are_read():
    astray = patched(batch_v2([R(1 << 40, 1000, b"k", b"v")]), 17, 0)
    seen = []
    walked(V2 + astray + V2, records=lambda block: seen.extend(int(at) for at in block.records.offset))
    assert seen == [5, 5]


# -- records


def records_of(data, rows=None, **scan):
    reader, chunks = RecordReader(), Scan(BytesFile(data), **scan)
    for chunk in chunks:
        yield from reader.blocks(chunk, *(rows or ()))


def test_bytes_of_a_compressed_batch_without_records_are_not_unpacked():
    """DefaultRecordBatch.iterator: count() == 0 is an empty iterator."""
    empty = bytearray(with_crc(V2[:57] + struct.pack(">i", 0) + b"odd"))
    data = with_crc(patched(bytes(empty), 22, 1))
    data = data[:8] + struct.pack(">i", len(data) - 12) + data[12:]
    (block,) = records_of(data + V2, (0, 1))
    assert (len(block.records), block.faults) == (0, {})
    assert [len(one.records) for one in records_of(data + V2)][-1] == 1


def test_no_rows_are_no_blocks():
    for row in (0, 1, 2):
        assert list(records_of(V2 + V2, (row, row))) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("count", [RECORDS_AT_ONCE, RECORDS_AT_ONCE + 1])
def test_a_large_batch_is_read_in_parts_of_the_most_records_at_once(count, codec):
    data = batch_v2([R(at, 1000) for at in range(count)], codec)
    parts = [(block.begun, len(block.records), block.goes_on, dict(block.faults)) for block in records_of(data)]
    whole = (
        [(0, count, False, {})] if count == RECORDS_AT_ONCE else [(0, count - 1, True, {}), (count - 1, 1, False, {})]
    )
    assert parts == whole


def test_a_large_batch_whose_bytes_unpack_to_nothing_is_an_invalid_record():
    header = batch_v2([R(0, 1000)], 4)[:57] + struct.pack(">i", RECORDS_AT_ONCE + 1)
    import zstandard

    data = header + zstandard.ZstdCompressor().compress(b"")
    data = with_crc(data[:8] + struct.pack(">i", len(data) - 12) + data[12:])
    (block,) = records_of(data)
    (fault,) = block.faults.values()
    assert fault.kind is FaultKind.INVALID_RECORD
    assert len(block.records) == 0


def test_sets_of_old_are_unpacked_as_deep_as_is_allowed():
    for depth, is_read in ((_V07_NESTING, True), (_V07_NESTING + 1, False)):
        data = seven(b"value")
        for _ in range(depth):
            data = seven(gzip.compress(data), codec=1)
        found = list(records_of(data, v07_base_offset=0, limits=DEFAULT_LIMITS))
        values = sum(len(block.records) for block in found)
        assert (values, [dict(block.faults) == {} for block in found][-1]) == (int(is_read), is_read)
