"""What a cleaning does exactly at a limit: the first dirty offset, a full table, a full file, a time that has just come."""

import struct
from contextlib import nullcontext

import pytest

from kafkalog_cli.broker.cleaning import marking, output
from kafkalog_cli.broker.cleaning.cleaner import Cleaner, CleaningRequest
from kafkalog_cli.broker.cleaning.explaining import Reason, explain_key
from kafkalog_cli.broker.cleaning.key_table import KeySlice, KeyTable
from kafkalog_cli.broker.cleaning.log import CleanableLog, Damaged, SegmentChunks
from kafkalog_cli.broker.cleaning.marking import MarkingRequest, mark
from kafkalog_cli.broker.cleaning.marks import Marks, causes_of
from kafkalog_cli.broker.cleaning.output import CleanedSegments, IndexLimits
from kafkalog_cli.disk.fs import FileAttributes
from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.records import RECORDS_AT_ONCE
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES, open_partition
from tests.support.logs import BASE_TIME_MS, R, aborted_txns, batch_v2, end_marker, message
from tests.support.memory_fs import MemoryFilesystem
from tests.unit.test_cleaning import DIRECTORY, NOW_MS, Files, written

ACTIVE = 10**6
MODIFIED_MS = 1000


def log_of(*segments, index=b""):
    """A log of (base offset, bytes of each batch), and an empty active segment."""
    fs = MemoryFilesystem()
    for base, batches in (*segments, (ACTIVE, [])):
        path = f"{DIRECTORY}/{base:020d}"
        fs.add(f"{path}.log", b"".join(batches), FileAttributes(0o644, 1000, 1000, MODIFIED_MS * 1_000_000))
        fs.add(f"{path}.index", index)
        fs.add(f"{path}.timeindex", b"")
    return CleanableLog(fs, open_partition(fs, DIRECTORY).segments)


def batch(*records, horizon=None, last=None):
    return batch_v2([R(at, BASE_TIME_MS, key, value) for at, key, value in records], horizon=horizon, last=last)


# -- large batches


def test_a_large_batch_keeps_the_last_record_of_each_key():
    count = RECORDS_AT_ONCE + 5
    keys = [b"a"] + [None] * (RECORDS_AT_ONCE - 1) + [b"b", b"c", b"d", b"e", b"f"]
    records = [R(at, BASE_TIME_MS, key, b"v") for at, key in enumerate(keys)]
    log = log_of((0, [batch_v2(records, codec=4)]))
    marks = mark(log, MarkingRequest(0, ACTIVE, NOW_MS))
    assert causes_of(marks.part(0, count)).keyless == RECORDS_AT_ONCE - 1
    files = Files()
    request = CleaningRequest(NOW_MS, 0, ACTIVE, ACTIVE, IndexLimits(4096, 4096), {}, ACTIVE)
    assert len(list(Cleaner(log, marks, request, files).groups())) == 1
    ((made, stays),) = written(files)
    assert [key for _, key, _ in stays] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert (made.base_offset, made.last_offset, made.records_count) == (0, count - 1, 6)


def test_a_large_batch_keeps_its_last_offset_without_its_last_records():
    """MemoryRecords.filterTo: a batch v2 keeps its offsets, whichever of its records stay."""
    keys = [b"a", *[b"b"] * RECORDS_AT_ONCE, b"c", b"c"]
    records = [R(at, BASE_TIME_MS, key, b"v") for at, key in enumerate(keys)]
    after = batch((len(keys), b"c", b"w"))
    log = log_of((0, [batch_v2(records, codec=4), after]))
    marks, files = mark(log, MarkingRequest(0, ACTIVE, NOW_MS)), Files()
    request = CleaningRequest(NOW_MS, 0, ACTIVE, ACTIVE, IndexLimits(4096, 4096), {}, ACTIVE)
    assert len(list(Cleaner(log, marks, request, files).groups())) == 1
    (large, stays), _ = written(files)
    assert [key for _, key, _ in stays] == [b"a", b"b"]
    assert (large.base_offset, large.last_offset) == (0, len(keys) - 1)


# -- tables and marks


@pytest.mark.slow
@pytest.mark.parametrize("slots", [True, False])
def test_a_table_grows_up_to_its_memory(slots):
    for spare_bytes, grows in ((0, True), (-1, False)):
        table = KeyTable(Marks(), 1 << 30, KeySlice())
        inner = table._table
        now, arena = inner.size_bytes, inner.arena_bytes
        added = 8 * inner.slots + 2 * len(inner._entries) if slots else arena + arena // 2
        table._memory_bytes = now + added + spare_bytes
        assert table._grow(slots=slots, size_bytes=arena // 2) is grows
        assert inner.arena_bytes == (arena + arena // 2 if grows and not slots else arena)


def test_marks_stay_in_memory_up_to_their_limit():
    for end, kind in ((10, bytearray), (11, object)):
        marks = Marks(10)
        assert marks.reach(end)
        assert not marks.reach(end)
        assert isinstance(marks.flags, kind)
        assert isinstance(marks.flags, bytearray) == (end == 10)


# -- aborted transactions


def test_aborted_transactions_that_end_at_an_offset_or_above_it():
    """TransactionIndex.collectAbortedTxns."""
    fs = MemoryFilesystem()
    for base, ends in ((0, [9, 10, 30]), (10, [25]), (20, [28])):
        fs.add(f"{DIRECTORY}/{base:020d}.log", b"")
        fs.add(f"{DIRECTORY}/{base:020d}.txnindex", aborted_txns([(7, 1, end, end + 1) for end in ends]))
    log = CleanableLog(fs, open_partition(fs, DIRECTORY).segments)
    assert [txn.last_offset for txn in log.aborted_from(10)] == [10, 30, 25, 28]


# -- what a segment must be like


def row(base, last, *, magic=2, count=1, valid=1):
    return Batch(0, 61, base, last, 0, magic, 0, 0, 0, 0, -1, -1, -1, count, valid)


@pytest.mark.parametrize(
    ("rows", "is_sound"),
    [
        ([row(5, 5), row(6, 6)], True),
        ([row(4, 5)], True),  # it may begin below the name of the segment
        ([row(4, 4)], True),  # and end below it
        ([row(5, 7), row(7, 8)], False),
        ([row(5, 7), row(6, 8)], False),
        ([row(5, 7), row(8, 7)], False),
        ([row(5, 5), row(6, 6, count=0)], True),
        ([row(5, 5, count=-1)], False),
        ([row(5, 5, magic=1), row(6, 6, magic=1)], True),
        ([row(5, 5, magic=1), row(5, 5, magic=1)], False),
        ([row(-1, 5, magic=1, count=-1), row(-1, 6, magic=1, count=-1)], True),
        ([row(5, 5, magic=1, count=-2)], False),
        ([row(5, 5, valid=0)], False),
    ],
)
def test_batches_of_a_segment_that_do_not_ascend_are_damage(rows, is_sound):
    log = log_of((5, []))
    chunks = SegmentChunks(log, log.segments[0])
    columns = BatchColumns.from_rows(rows)
    if is_sound:
        chunks._check("/log", columns)
        assert chunks._last_offset == rows[-1].last_offset
    else:
        with pytest.raises(Damaged):
            chunks._check("/log", columns)


@pytest.mark.parametrize(("first", "is_sound"), [(6, True), (5, False)])
def test_the_offsets_of_a_chunk_ascend_from_those_of_the_chunk_before(first, is_sound):
    log = log_of((5, []))
    chunks = SegmentChunks(log, log.segments[0])
    chunks._check("/log", BatchColumns.from_rows([row(5, 5)]))
    with nullcontext() if is_sound else pytest.raises(Damaged):
        chunks._check("/log", BatchColumns.from_rows([row(first, 6)]))


def test_a_segment_begins_below_an_offset():
    log = log_of((5, [batch((5, b"a", b"v"))]))
    assert [SegmentChunks(log, log.segments[0]).begins_below(offset) for offset in (5, 6)] == [False, True]


def test_an_index_may_lead_to_the_end_of_the_log():
    data = batch((0, b"a", b"v"))
    for position in (len(data), len(data) + 1):
        log = log_of((0, [data]), index=struct.pack(">ii", 1, position))
        if position == len(data):
            assert marking._index_floor(log, log.segments[0], 1) == position
        else:
            with pytest.raises(Damaged, match=f"position {position} is not in the log"):
                marking._index_floor(log, log.segments[0], 1)


# -- the new segments


def test_a_segment_holds_as_many_bytes_as_an_int32():
    made = CleanedSegments(Files(), 0, IndexLimits(4096, 4096), 0)
    for size_bytes, fit in ((100, 2), (101, 1)):
        rows = [
            row(0, 0)._replace(position=0, size_bytes=MAX_SEGMENT_BYTES - 100),
            row(1, 1)._replace(position=MAX_SEGMENT_BYTES - 100, size_bytes=size_bytes),
            row(2, 2)._replace(position=MAX_SEGMENT_BYTES - 100 + size_bytes, size_bytes=61),
        ]
        assert made._rows_that_fit(BatchColumns.from_rows(rows)) == fit
        assert made._rows_that_fit(BatchColumns.from_rows(rows[:2])) == fit


def test_an_aborted_transaction_is_in_the_index_of_the_segment_with_its_marker(monkeypatch):
    """A reader of a segment does not look into the indexes of the segments before it."""
    aborted = batch_v2([R(0, BASE_TIME_MS, b"x", b"v")], producer=(7, 0, 0), bits=0x10)
    kept = [batch((1, b"a", b"v")), batch((2, b"b", b"v"))]
    marker = end_marker(3, BASE_TIME_MS, (7, 0), False)
    fs = log_of((0, [aborted, *kept, marker])).fs
    fs.add(f"{DIRECTORY}/{0:020d}.txnindex", aborted_txns([(7, 0, 3, 4)]))
    log, files = CleanableLog(fs, open_partition(fs, DIRECTORY).segments), Files()
    monkeypatch.setattr(output, "MAX_SEGMENT_BYTES", sum(map(len, kept)))  # the marker begins another segment
    request = CleaningRequest(NOW_MS, 0, ACTIVE, ACTIVE, IndexLimits(4096, 4096), {}, ACTIVE)
    (group,) = Cleaner(log, mark(log, MarkingRequest(0, ACTIVE, NOW_MS)), request, files).groups()
    assert [segment.base_offset for segment in group.segments] == [0, 3]
    assert {name: data for name, data in files.made.items() if ".txnindex" in name} == {
        f"{3:020d}.txnindex.cleaned": aborted_txns([(7, 0, 3, 4)])
    }


# -- why a record stays


def reasons(batches, key=b"k", first_dirty=0, first_uncleanable=ACTIVE, legacy_horizon_ms=0):
    log = log_of((0, batches))
    request = MarkingRequest(first_dirty, first_uncleanable, NOW_MS, legacy_horizon_ms)
    return [(found.offset, found.reason, found.value_bytes) for found in explain_key(log, request, key)]


def test_a_record_is_known_from_the_first_dirty_offset_to_the_first_uncleanable():
    log = [batch((0, b"k", b"")), batch((1, b"k", b"v")), batch((2, b"k", b"w"))]
    assert reasons(log, first_dirty=1, first_uncleanable=2) == [
        (0, Reason.SUPERSEDED, 0),
        (1, Reason.LAST, 1),
        (2, Reason.NOT_CLEANABLE, 1),
    ]
    assert reasons(log[:2], first_dirty=2) == [(0, Reason.LAST, 0), (1, Reason.LAST, 1)]


@pytest.mark.parametrize(
    ("horizon", "reason"),
    [(NOW_MS - 1, Reason.EXPIRED), (NOW_MS, Reason.EXPIRED), (NOW_MS + 1, Reason.TOMBSTONE), (None, Reason.TOMBSTONE)],
)
def test_a_tombstone_goes_from_its_horizon_on(horizon, reason):
    """Cleaner.shouldRetainRecord: currentTime < deleteHorizonMs; the mtime counts for v0 and v1 only."""
    tombstone = [batch((0, b"k", None), horizon=horizon)]
    for legacy_horizon_ms in (0, MODIFIED_MS):
        assert reasons(tombstone, legacy_horizon_ms=legacy_horizon_ms) == [(0, reason, None)]


def test_a_tombstone_of_an_old_format_goes_by_the_mtime():
    tombstone = [message(R(0, BASE_TIME_MS, b"k", None), 1)]
    for ago_ms, reason in ((1, Reason.TOMBSTONE), (0, Reason.EXPIRED), (-1, Reason.EXPIRED)):
        assert reasons(tombstone, legacy_horizon_ms=MODIFIED_MS - ago_ms) == [(0, reason, None)]
