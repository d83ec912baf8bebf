"""What a reading can be asked besides a consumer's wishes: no earlier records, control records, headers where they do."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.record_arrow import (
    BATCH_FIELDS,
    headers_tell,
    record_batches,
    record_schema,
    rows_of_headers,
)
from kafkalog_cli.ops.read.log_read import LogRead
from kafkalog_cli.ops.read.request import Isolation, ReadRequest
from kafkalog_cli.ops.read.visible import VisibleChunk
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker
from tests.support.naive_consumer import consume
from tests.support.product import KernelChoice, RealFilesystem
from tests.support.strategies import logs as any_logs

pa = pytest.importorskip("pyarrow")
FORCED = pytest.mark.parametrize("forced", [False, pytest.param(True, marks=pytest.mark.slow)])
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def reading(folder, data, request, forced, base=0):
    path = folder / "orders-0"
    path.mkdir(exist_ok=True)
    (path / f"{base:020d}.log").write_bytes(data)
    return LogRead(RealFilesystem(), open_partition(RealFilesystem(), str(path)), request, KernelChoice(forced=forced))


def offsets(log):
    return [
        int(offset)
        for segment in log.segments()
        for block in segment.blocks()
        if not isinstance(block, Fault)
        for offset in block.records.offset
    ]


@FORCED
@SETTINGS
@given(log=any_logs(), since=st.sampled_from([-1, 0, BASE_TIME_MS, BASE_TIME_MS + 3000, 1 << 61]))
def test_no_earlier_records(tmp_path_factory, forced, log, since):
    request = ReadRequest(since_ms=since)
    wanted = [record[0] for record in consume([log.data]).records if record[1] >= since]
    assert offsets(reading(tmp_path_factory.mktemp("log"), log.data, request, forced, log.base_offset)) == wanted


@FORCED
@SETTINGS
@given(log=any_logs())
def test_headers_where_they_are_enough(tmp_path_factory, forced, log):
    read = reading(tmp_path_factory.mktemp("log"), log.data, ReadRequest(), forced, log.base_offset)
    names = ["offset", "timestamp_type", "transactional", *BATCH_FIELDS]
    got, whole = [], []
    for segment in read.segments():
        for found in segment.chunks_or_blocks(lambda chunk: headers_tell(chunk.batches)):
            block = rows_of_headers(found.batches) if isinstance(found, VisibleChunk) else found
            got += record_batches(block, record_schema(names))
    for segment in reading(tmp_path_factory.mktemp("log"), log.data, ReadRequest(), forced, log.base_offset).segments():
        for block in segment.blocks():
            whole += record_batches(block, record_schema(names))
    rows = [row for part in got for row in part.to_pylist()]
    assert rows == [row for part in whole for row in part.to_pylist()]
    assert [row["offset"] for row in rows] == [record[0] for record in consume([log.data]).records]


@FORCED
def test_control_records(tmp_path, forced):
    data = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")], producer=(7, 0, 0), bits=TRANSACTIONAL)
    data += end_marker(1, BASE_TIME_MS, (7, 0), 0) + batch_v2([R(2, BASE_TIME_MS, b"k", b"v")])
    for request, wanted in (
        (ReadRequest(), [0, 2]),
        (ReadRequest(with_control=True), [0, 1, 2]),
        (ReadRequest(with_control=True, isolation=Isolation.READ_COMMITTED), [1, 2]),
    ):
        assert offsets(reading(tmp_path, data, request, forced)) == wanted


def test_headers_that_claim_very_many(tmp_path):
    """A few bytes must not make rows without end."""
    data = bytearray(batch_v2([R(0, 1, b"k", b"v")]))
    read = reading(tmp_path, bytes(data), ReadRequest(), forced=False)
    (chunk,) = (found for segment in read.segments() for found in segment.chunks())
    batch = chunk.batches.row(0)
    batches = type(chunk.batches)
    assert headers_tell(batches.from_rows([batch]))
    many = batch._replace(last_offset=(1 << 31) - 2, records_count=(1 << 31) - 1)
    assert not headers_tell(batches.from_rows([many]))
    some = batch._replace(last_offset=(1 << 21) - 1, records_count=1 << 21)
    assert headers_tell(batches.from_rows([some] * 2))
    assert not headers_tell(batches.from_rows([some] * 3))
    assert not headers_tell(batches.from_rows([batch._replace(last_offset=-2, records_count=-1)]))
