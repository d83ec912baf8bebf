"""Tasks: each offset in one of them, whatever the sizes; cut where batches end; damage told once."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog_cli as kl
from kafkalog_cli.ops.scans import splits
from tests.spark.spark_reading import rows, rows_of, subset, tasks
from tests.support.logs import BASE_TIME_MS, R, batch_v2, message, message_set, write_segment
from tests.support.product import UsageError


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(splits, "SPLIT_BYTES", 4000)
    monkeypatch.setattr(splits, "PACK_BYTES", 2000)


def batch(base, count, at):
    made = [R(base + i, BASE_TIME_MS + base + i, b"key", b"v" * 60) for i in range(count)]
    end = base + count - 1
    if at % 3 == 0:
        return message_set(made, at % 2, 1), end, BASE_TIME_MS + end
    if at % 3 == 1 and count == 1:
        return message(made[0], 1), end, BASE_TIME_MS + end
    return batch_v2(made), end, BASE_TIME_MS + end


def write_log(folder, segments=3, batches=80, seed=7, name="orders-0", base=0, inside=False):
    """A log of all formats with indexes; returns the offset behind its last record.

    `inside`: segments but the first begin with a message set, and each is named after one of its offsets.
    """
    chance = random.Random(seed)
    (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(segments):
        parts, first = [], base
        if inside and number:
            first, at = base + chance.randint(1, 3), chance.choice([0, 3])
            parts.append(batch(base, 4, at))
            base += 4
        for at in range(batches):
            count = chance.choice([1, 1, 2, 5])
            parts.append(batch(base, count, at))
            base += count
        write_segment(folder / name, first, parts, interval=600)
    return base


def read(reader, parts):
    """Offsets by task."""
    return [rows_of(reader, [part]).column("offset").to_pylist() for part in parts]


def test_a_large_log_makes_several_tasks(small, tmp_path):
    end = write_log(tmp_path)
    reader, parts = tasks(tmp_path, subset("offset", "value"))
    found = read(reader, parts)
    assert [offset for some in found for offset in some] == list(range(end))
    total = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    assert total // 6000 <= len(parts) <= total // 2000
    assert sum(piece.size_bytes for part in parts for piece in part.value) == total
    assert max(piece.size_bytes for part in parts for piece in part.value) < 8000
    (log,) = kl.open(tmp_path)
    begins = {offset for batches in log.batches() for offset in batches.column("base_offset").to_pylist()}
    behind = {offset + 1 for batches in log.batches() for offset in batches.column("last_offset").to_pylist()}
    assert all(piece.end in begins | behind for part in parts for piece in part.value if piece.end is not None)


LOGS = {}


def a_log(tmp_path_factory, seed, *, inside):
    if (seed, inside) not in LOGS:
        folder = tmp_path_factory.mktemp("log")
        segments, batches = (5, 5) if inside else (2, 16)
        end = write_log(folder, segments=segments, batches=batches, seed=seed, inside=inside)
        LOGS[seed, inside] = folder, end
    return LOGS[seed, inside]


@given(data=st.data())
def test_tasks_of_any_range_read_each_offset_once(tmp_path_factory, data):
    folder, end = a_log(tmp_path_factory, data.draw(st.integers(0, 4)), inside=data.draw(st.booleans()))
    first = data.draw(st.integers(0, end))
    stop = data.draw(st.integers(first, end))
    options = {"startingOffsets": f'{{"orders":{{"0":{first}}}}}', "endingOffsets": f'{{"orders":{{"0":{stop}}}}}'}
    way = data.draw(st.sampled_from(["bytes", "minPartitions", "maxRecordsPerPartition"]))
    size = data.draw(st.integers(1, 20))
    before = splits.SPLIT_BYTES, splits.PACK_BYTES
    try:
        splits.SPLIT_BYTES, splits.PACK_BYTES = 300 * size, 150 * size
        reader, parts = tasks(folder, subset("offset"), **options, **({} if way == "bytes" else {way: str(size)}))
    finally:
        splits.SPLIT_BYTES, splits.PACK_BYTES = before
    found = read(reader, parts)
    assert [offset for some in found for offset in some] == list(range(first, stop))
    if way == "maxRecordsPerPartition":
        assert all(len(some) <= size for some in found)
    if way == "minPartitions" and stop > first:
        assert len(parts) >= min(size, stop - first)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("columns", "times"), [(("partition", "offset", "value"), 1), (("partition", "offset"), 4)])
def test_small_partitions_share_a_task(small, tmp_path, columns, times):
    for number in range(12):
        write_log(tmp_path, segments=1, batches=4, name=f"orders-{number}")
    total = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    reader, parts = tasks(tmp_path, subset(*columns))
    assert -(-total // (2000 * times)) <= len(parts) < 12 / times
    found = rows_of(reader, parts).to_pylist()
    assert found == sorted(found, key=lambda row: (row["partition"], row["offset"]))
    assert {row["partition"] for row in found} == set(range(12))
    assert len(tasks(tmp_path, minPartitions="12")[1]) == 12
    assert len(tasks(tmp_path, minPartitions="30")[1]) >= 30
    assert len(tasks(tmp_path, minPartitions="3")[1]) == 12  # as Spark's source: one each, at least


def test_damage_in_a_split_partition_is_reported_once(small, tmp_path):
    write_log(tmp_path)
    for path in sorted(tmp_path.rglob("*.log")):
        data = bytearray(path.read_bytes())
        for at in range(700, len(data), 1900):
            data[at] ^= 0x55
        path.write_bytes(data)
    split = rows(tmp_path, mode="permissive")
    reader, parts = tasks(tmp_path, mode="permissive")
    assert len(parts) > 5
    splits.SPLIT_BYTES = splits.PACK_BYTES = 1 << 30  # the fixture puts them back
    whole = rows(tmp_path, mode="permissive")
    assert len(tasks(tmp_path)[1]) == 1

    assert told(split) == told(whole)
    assert len(told(whole)) > 10
    assert len(set(told(whole))) == len(told(whole))

    def kept(table):
        return [row for row in table.to_pylist() if row["_fault"] is None]

    assert kept(split) == kept(whole)


def told(table):
    return sorted(row["_fault"] for row in table.to_pylist() if row["_fault"] is not None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("beside", [-1, 70])
def test_damage_beside_a_cut_is_reported_once(small, tmp_path, beside):
    """In the batch that ends at the cut, and in the one that begins there."""
    write_log(tmp_path, segments=1, batches=300)
    (log,) = tmp_path.rglob("*.log")
    _, parts = tasks(tmp_path)
    cuts = [piece.ends_at for part in parts for piece in part.value][:-1]
    assert len(cuts) > 3
    data = bytearray(log.read_bytes())
    for _, position in cuts:
        data[position + beside] ^= 0x55
    log.write_bytes(data)
    reader, parts = tasks(tmp_path, mode="permissive")
    assert [piece.ends_at for part in parts for piece in part.value][:-1] == cuts
    assert len(told(rows_of(reader, parts))) == len(cuts)


def test_damage_in_a_batch_that_is_cut(tmp_path):
    (tmp_path / "orders-0").mkdir()
    parts = [batch_v2([R(base + i, BASE_TIME_MS, b"k", b"v" * 40) for i in range(5)]) for base in range(0, 20, 5)]
    parts[2] = parts[2][:-2] + b"xy"
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(b"".join(parts))
    for most in (1, 2, 3, 7):
        reader, found = tasks(tmp_path, mode="permissive", maxRecordsPerPartition=str(most))
        table = rows_of(reader, found)
        assert len(told(table)) == 1
        kept = [row["offset"] for row in table.to_pylist() if row["_fault"] is None]
        assert kept == [*range(10), *range(15, 20)]


def test_indexes_that_lie_or_are_not_there(small, tmp_path):
    end = write_log(tmp_path, segments=1, batches=300)
    index = tmp_path / "orders-0" / f"{0:020d}.index"
    whole = index.read_bytes()
    assert len(tasks(tmp_path)[1]) > 3
    for data in (None, b"", whole[:80] + bytes(len(whole) - 80), whole[8:] + whole[:8], b"\x7f" * len(whole)):
        index.unlink(missing_ok=True)
        if data is not None:
            index.write_bytes(data)
        reader, parts = tasks(tmp_path, subset("offset"))
        assert [offset for some in read(reader, parts) for offset in some] == list(range(end))


def test_the_data_source_refuses_more_than_100000_tasks(tmp_path):
    (tmp_path / "orders-0").mkdir()
    data = batch_v2([R(0, 0)]) + batch_v2([R(1 << 40, 0)])
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(data)
    with pytest.raises(UsageError, match="that would make more than 100000 tasks"):
        tasks(tmp_path, maxRecordsPerPartition="10")


def test_a_log_of_0_7_is_cut_at_its_files(small, corpus):
    folder = corpus / "format-0.7" / "data" / "m1-0"
    assert len(list(folder.glob("*.kafka"))) > 1
    whole = rows(folder, subset("offset", "value")).to_pylist()
    assert len(whole) > 50
    for options in ({}, {"maxRecordsPerPartition": "1000"}, {"minPartitions": "5"}):
        reader, parts = tasks(folder, subset("offset", "value"), **options)
        assert rows_of(reader, parts).to_pylist() == whole
