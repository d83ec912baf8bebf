"""Records as Arrow: a large key or value is copied once, from the buffer of its batch into Arrow's."""

import tracemalloc

import pytest
from faulty_fs import FaultyFilesystem
from logs import R, batch_v2

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.limits import MEBIBYTE
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.record_arrow import record_batches, record_schema
from kafkalog_cli.log.reading.scan import Scan

pytest.importorskip("pyarrow")


def test_the_fields_are_the_same_and_not_copied_twice():
    large = bytes(range(256)) * (8 * MEBIBYTE // 256)
    pairs = [(b"k", large), (None, None), (b"", b""), (large[: MEBIBYTE + 1], b"small")]
    with FaultyFilesystem({"/t-0/0.log": batch_v2([R(at, 7, *pair) for at, pair in enumerate(pairs)])}).open_read(
        "/t-0/0.log"
    ) as file:
        found = []
        for chunk in Scan(file, choice=KernelChoice(forced=False)):
            for block in RecordReader().blocks(chunk):
                tracemalloc.start()
                found += record_batches(block, record_schema(["key", "value"]))
                peak_bytes = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
    rows = [(row["key"], row["value"]) for part in found for row in part.to_pylist()]
    assert rows == pairs
    assert peak_bytes < MEBIBYTE
