"""Reading ahead in threads gives what reading in order gives."""

import random
import threading
import time
from itertools import islice

import pytest

from kafkalog_cli.log.reading import records, scan
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message_set

pytestmark = pytest.mark.slow


def a_log(seed, batches=300):
    """Batches of every codec, some larger than a chunk, some of before v2, some damaged."""
    chance = random.Random(seed)
    parts, offset = [], 0
    for _ in range(batches):
        size = chance.choice([5, 50, 500, 3000] if chance.random() < 0.97 else [20_000])
        made = [R(offset + i, BASE_TIME_MS + i, b"k", chance.randbytes(size)) for i in range(chance.randrange(1, 9))]
        codec = chance.choice([0, 0, 1, 2, 3, 4])
        data = bytearray(message_set(made, 1, 1) if chance.random() < 0.05 else batch_v2(made, codec))
        if chance.random() < 0.03:
            data[chance.randrange(61, len(data))] ^= 4
        parts.append(bytes(data))
        offset += 9
    return b"".join(parts) + b"\0" * chance.choice([0, 7, 40])


@pytest.fixture(autouse=True, params=[0, 1 << 30], ids=["threads", "one-thread"])
def small_chunks(request, monkeypatch):
    monkeypatch.setattr(records, "SMALL_BATCH_BYTES", request.param)
    monkeypatch.setattr(records, "LARGE_LOG_BYTES", 0)
    monkeypatch.setattr(scan, "CHUNK_BYTES", 8192)
    monkeypatch.setattr(records, "TASK_BYTES", 2048)
    monkeypatch.setattr(records, "LEAST_PACKED_BYTES", 1)


def everything(pairs):
    """All batches, records and faults of chunks and their blocks, whatever the borders of chunks are."""
    batches, found, faults = [], [], []
    for chunk, blocks in pairs:
        batches += chunk.batches.rows()
        for block in blocks:
            found += block.rows()
            faults += block.faults.values()
        yield len(batches)
    yield batches, found, faults


def in_order(data):
    chunks = Scan(BytesFile(data))
    reader = RecordReader()
    *_, found = everything((chunk, reader.blocks(chunk)) for chunk in chunks)
    return found, chunks.fault, chunks.end_position


@pytest.mark.exhaustive
@pytest.mark.parametrize("pause", [0, 0.002])
@pytest.mark.parametrize("seed", range(6))
def test_reading_ahead_gives_the_batches_and_records_of_plain_reading(seed, pause):
    data = a_log(seed)
    expected, fault, valid_bytes = in_order(data)
    chunks = Scan(BytesFile(data))
    ahead = records.records(chunks, lambda chunk: [(0, len(chunk.batches))])
    count = 0
    for found in everything(ahead):  # noqa: B007
        time.sleep(pause)  # what is read ahead must not overwrite what is in work
        count += 1
    assert found == expected  # the last
    assert count > 10
    assert (chunks.fault, chunks.end_position) == (fault, valid_bytes)


def test_several_logs_at_a_time_have_fewer_readers_each(monkeypatch):
    made = []
    monkeypatch.setattr(
        records, "RecordReader", lambda limits, **options: made.append(limits) or RecordReader(limits, **options)
    )
    logs = [a_log(seed, 80) for seed in range(6)]
    scans = [Scan(BytesFile(data)) for data in logs]
    rows = [everything(records.records(scan, lambda chunk: [(0, len(chunk.batches))])) for scan in scans]
    readers, found = [], [None] * len(logs)
    for at, parts in enumerate(rows):  # each begins while those before are in the middle
        known = len(made)
        found[at] = next(islice(parts, 3, None))
        readers.append(len(made) - known)
    assert readers == sorted(readers, reverse=True)
    assert readers[0] > records.SPARE_READERS
    assert readers[-1] == 1
    for at, parts in enumerate(rows):
        *_, found[at] = parts
    assert found == [in_order(data)[0] for data in logs]
    assert records._PIPELINES._count == 0


def test_threads_end_with_whoever_stops_early():
    before = threading.active_count()
    chunks = Scan(BytesFile(a_log(3)))
    ahead = records.records(chunks, lambda chunk: [(0, len(chunk.batches))])
    for _, blocks in islice(ahead, 3):
        next(blocks)
    assert threading.active_count() > before
    ahead.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_an_error_in_a_reading_thread_is_raised_after_the_batches_before_it():
    data = a_log(3)

    def rows(chunk):
        if chunk.position > len(data) // 2:
            raise ZeroDivisionError
        return [(0, len(chunk.batches))]

    def work(read):
        for number, block in enumerate(read()):
            if block.batches.position[0] > len(data) // 3:
                raise EOFError(number)
            yield block

    for kwargs, error, most in (((rows,), ZeroDivisionError, 2), ((rows, work), EOFError, 3)):
        before = threading.active_count()
        chunks = Scan(BytesFile(data))
        seen = 0
        with pytest.raises(error):  # noqa: PT012
            for chunk, blocks in records.records(chunks, *kwargs):
                for _ in blocks:
                    pass
                seen = chunk.position
        assert len(data) // (most + 1) < seen <= len(data) // most
        assert threading.active_count() == before


def test_rows_that_are_not_wanted_are_not_read():
    chunks = Scan(BytesFile(a_log(4)))
    for chunk, blocks in records.records(chunks, lambda chunk: [(1, 2)] if len(chunk.batches) > 1 else []):
        expected = (
            [row for block in RecordReader().blocks(chunk, 1, 2) for row in block.rows()]
            if len(chunk.batches) > 1
            else []
        )
        assert [row for block in blocks for row in block.rows()] == expected


def columns_of(data, *, columns_only, lost_bytes=0):
    """All batches of a log, which lost some bytes after its size was asked, and how its scan ended."""
    file = BytesFile(data)
    file.size_bytes += lost_bytes
    scanning = Scan(file)
    rows = [row for chunk in (scanning.columns() if columns_only else scanning) for row in chunk.batches.rows()]
    return rows, scanning.fault, scanning.end_position


def test_the_next_scan_has_the_buffer_of_the_last_and_none_of_its_bytes():
    chance = random.Random(7)
    for seed in range(60):
        data = a_log(seed, chance.randrange(1, 12))
        data = data[: chance.randrange(len(data))]
        lost_bytes = chance.choice([0, 3000])
        expected = columns_of(data, columns_only=False, lost_bytes=lost_bytes)
        columns_of(a_log(seed, 12), columns_only=True)
        assert columns_of(data, columns_only=True, lost_bytes=lost_bytes) == expected
    small = batch_v2([R(0, BASE_TIME_MS, b"k", b"v")])
    columns_of(small * 9, columns_only=True)
    kept = scan._kept.buffer
    assert len(columns_of(small * 3, columns_only=True)[0]) == 3
    assert scan._kept.buffer is kept
