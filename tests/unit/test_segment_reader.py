"""Where a scan and the headers of a log end, and what of it is damage."""

import struct
from itertools import accumulate

from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, R, batch_v2

BATCHES = [batch_v2([R(at, BASE_TIME_MS + at, b"k", bytes(50 + at))]) for at in range(9)]
STARTS = [0, *accumulate(map(len, BATCHES))]
HURT = 4


def found(batches):
    return [(STARTS.index(row.position), bool(row.valid)) for part in batches for row in part.rows()]


def good(*numbers):
    return [(number, True) for number in numbers]


def test_a_range_that_ends_inside_a_batch_is_not_damaged():
    read = Scan(BytesFile(b"".join(BATCHES)), DamagePolicy.RESYNC, start=STARTS[2], end=STARTS[5] + 20)
    assert found(read.batches()) == good(2, 3, 4)
    assert read.fault.kind is FaultKind.TRAILING_BYTES
    assert read.damage is None
    assert Scan(BytesFile(b"".join(BATCHES)[: STARTS[5] + 20]), DamagePolicy.STOP).run().damage is not None


def test_headers_stop_where_a_size_is_wrong():
    data = bytearray(b"".join(BATCHES))
    struct.pack_into(">i", data, STARTS[HURT] + 8, 3)  # no batch is that short
    read = Headers(BytesFile(bytes(data)), STARTS[1])
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
