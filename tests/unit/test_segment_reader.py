"""The reactions to damage, and the depths of a reading, on logs whose damage is known to the byte."""

import struct
from itertools import accumulate

import pytest

from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.check.checks.segment_walk import SegmentWalk
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, R, batch_v2

BATCHES = [batch_v2([R(at, BASE_TIME_MS + at, b"k", bytes(50 + at))]) for at in range(9)]
STARTS = [0, *accumulate(map(len, BATCHES))]
END = STARTS[-1]
HURT = 4


def with_length(length):
    """The log, with another length in the header of one batch."""
    data = bytearray(b"".join(BATCHES))
    struct.pack_into(">i", data, STARTS[HURT] + 8, length)
    return BytesFile(bytes(data))


SHORT = with_length(3)
"""The chain breaks at the batch: no batch is that short."""
ASTRAY = with_length(STARTS[HURT + 2] + 30 - STARTS[HURT] - 12)
"""The length leads into the middle of a later batch, where the chain breaks."""


def reader(file, policy=DamagePolicy.STOP, **options):
    return Scan(file, policy, **options)


def found(batches):
    return [(STARTS.index(row.position), bool(row.valid)) for part in batches for row in part.rows()]


def good(*numbers):
    return [(number, True) for number in numbers]


@pytest.mark.parametrize("file", [SHORT, ASTRAY], ids=["short", "astray"])
def test_stop_ends_at_the_break(file):
    read = reader(file)
    assert found(read.batches()) == [*good(0, 1, 2, 3), *([(HURT, False)] if file is ASTRAY else [])]
    assert read.good_bytes == STARTS[HURT]
    assert read.damage == read.fault
    assert read.fault.position == read.end_position


@pytest.mark.parametrize("file", [SHORT, ASTRAY], ids=["short", "astray"])
def test_resync_continues_with_the_next_good_batch(file):
    read = reader(file, DamagePolicy.RESYNC)
    false = [(HURT, False)] if file is ASTRAY else []
    chunks = list(read.columns())
    assert found(chunk.batches for chunk in chunks) == [*good(0, 1, 2, 3), *false, *good(5, 6, 7, 8)]
    [skipped] = [chunk.damage.skipped for chunk in chunks if chunk.damage is not None]
    assert (skipped.position, skipped.size_bytes) == (STARTS[HURT], len(BATCHES[HURT]))
    assert (read.end_position, read.fault, read.damage) == (END, None, None)


@pytest.mark.parametrize("file", [SHORT, ASTRAY], ids=["short", "astray"])
def test_a_walk_never_yields_a_false_batch(file):
    records = []
    read = SegmentWalk(file, records=lambda block: records.extend(row.offset for row in block.rows()))
    assert found(batch_run.batches for batch_run in read) == good(0, 1, 2, 3, 5, 6, 7, 8)
    assert records == [0, 1, 2, 3, 5, 6, 7, 8]
    assert read.damaged == [(STARTS[HURT], STARTS[HURT + 1])]
    assert (read.damaged_count, read.end_position, read.fault) == (1, END, None)


def test_a_range_that_ends_inside_a_batch_is_not_damaged():
    read = reader(BytesFile(b"".join(BATCHES)), DamagePolicy.RESYNC, start=STARTS[2], end=STARTS[5] + 20)
    assert found(read.batches()) == good(2, 3, 4)
    assert read.fault.kind is FaultKind.TRAILING_BYTES
    assert read.damage is None
    assert reader(BytesFile(b"".join(BATCHES)[: STARTS[5] + 20])).run().damage is not None


def test_headers_stop_where_a_size_is_wrong():
    read = Headers(SHORT, STARTS[1])
    assert [STARTS.index(batch.position) for batch in read] == [1, 2, 3]
    assert (read.end_position, read.fault.kind) == (STARTS[HURT], FaultKind.SIZE_TOO_SMALL)


def test_many_small_batches_are_read_like_headers():
    batches = BATCHES * 40
    file = BytesFile(b"".join(batches))
    read = Headers(file)
    positions = [row.position for part in read.columns() for row in part.rows()]
    assert positions == [0, *accumulate(map(len, batches))][:-1]
    assert (read.end_position, read.fault) == (file.size_bytes, None)


def test_a_scan_of_a_single_batch_reads_its_records_only():
    file = BytesFile(b"".join(BATCHES))
    *_, header = Headers(file)
    read = Scan.of_batch(file, header)
    assert [(row.offset, len(row.value)) for block in read.blocks() for row in block.rows()] == [(8, 58)]
    assert read.fault is None
