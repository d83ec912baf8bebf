"""Records as Arrow: a large key or value is copied once, from the buffer of its batch into Arrow's."""

import tracemalloc

import pytest

from kafkalog_cli.format.limits import MEBIBYTE
from kafkalog_cli.log.reading.record_arrow import record_batches, record_schema
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import R, batch_v2

pytest.importorskip("pyarrow")


def test_the_fields_are_the_same_and_not_copied_twice():
    large = bytes(range(256)) * (8 * MEBIBYTE // 256)
    pairs = [(b"k", large), (None, None), (b"", b""), (large[: MEBIBYTE + 1], b"small")]
    with FaultyFilesystem({"/t-0/0.log": batch_v2([R(at, 7, *pair) for at, pair in enumerate(pairs)])}).open_read(
        "/t-0/0.log"
    ) as file:
        found = []
        for chunk in Scan(file):
            for block in RecordReader().blocks(chunk):
                tracemalloc.start()
                found += record_batches(block, record_schema(["key", "value"]))
                peak_bytes = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
    rows = [(row["key"], row["value"]) for part in found for row in part.to_pylist()]
    assert rows == pairs
    assert peak_bytes < MEBIBYTE


def test_values_that_are_not_copied_stay_as_they_are():
    """Arrow has them in the memory of their batch, which no later batch is read into."""
    values = [bytes([at]) * (33 + at) * MEBIBYTE for at in range(3)]
    batches = []
    for at, value in enumerate(values):
        batches.append(batch_v2([R(3 * at, 7, b"k", value)], codec=at))
        batches.append(batch_v2([R(3 * at + one, 7, b"%d" % one, b"small") for one in (1, 2)], codec=at))
    mixed = [R(9, 7, None, b"first"), R(10, 7, b"k", values[0]), R(11, 7, b"l", None)]
    batches.append(batch_v2(mixed, codec=1))
    with FaultyFilesystem({"/t-0/0.log": b"".join(batches)}).open_read("/t-0/0.log") as file:
        reader = RecordReader()
        schema = record_schema(["offset", "key", "value"])
        parts = [
            part for chunk in Scan(file) for block in reader.blocks(chunk) for part in record_batches(block, schema)
        ]
    rows = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    assert [row[0] for row in rows] == list(range(12))
    for at, value in enumerate(values):
        assert rows[3 * at] == (3 * at, b"k", value)
        assert rows[3 * at + 1 : 3 * at + 3] == [(3 * at + one, b"%d" % one, b"small") for one in (1, 2)]
    assert rows[9:] == [tuple(one[:1]) + tuple(one[2:4]) for one in mixed]
