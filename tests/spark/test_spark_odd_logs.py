"""What damage and open transactions do to plans: where logs are cut, what a range of times leaves, where limits end."""

import struct

import pytest

from tests.spark.spark_reading import offsets, rows, subset, tasks
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, write_segment
from tests.support.product import OffsetOutOfRange, UsageError
from tests.support.product_spark import small_tasks


def batch(first, count=2, at_ms=None, **more):
    at_ms = BASE_TIME_MS + first * 1000 if at_ms is None else at_ms
    records = [R(offset, at_ms, b"k", b"v" * 30) for offset in range(first, first + count)]
    return batch_v2(records, **more), first + count - 1, at_ms


def log(folder, *segments, name="orders-0"):
    """A partition of segments, each named after its first batch."""
    (folder / name).mkdir()
    for base, *batches in segments:
        write_segment(folder / name, base, batches, interval=1)
    return folder


def test_a_data_source_reads_a_log_whose_offsets_go_back_at_the_end(tmp_path, monkeypatch):
    """Where an old batch comes last, the log seems to end before its last segment begins: that is no place to cut."""
    small_tasks(monkeypatch, 100, 0)
    made = log(tmp_path, (0, batch(0), batch(2)), (10, batch(10), batch(2)))
    assert offsets(made, mode="dropmalformed") == [0, 1, 2, 3, 10, 11]
    assert offsets(made, mode="dropmalformed", maxRecordsPerPartition="2") == [0, 1, 2, 3, 10, 11]


def test_a_data_source_reads_a_log_whose_index_leads_back(tmp_path, monkeypatch):
    """Its last entry is of the segment's first batch: what lies between is in one task, and not in two."""
    small_tasks(monkeypatch, 200, 0)
    batches = [batch(first) for first in range(4, 24, 2)]
    made = log(tmp_path, (4, *batches))
    known = [(batches[at][1] - 4, sum(len(one[0]) for one in batches[:at])) for at in (4, 6)]
    entries = b"".join(struct.pack(">ii", *entry) for entry in (*known, (-1, 0)))
    (made / "orders-0" / f"{4:020d}.index").write_bytes(entries)
    assert rows(made, subset("offset", "value")).column("offset").to_pylist() == list(range(4, 24))


def test_the_fault_of_a_torn_tail_has_no_offset(tmp_path):
    made = log(tmp_path, (0, batch(0)))
    with (made / "orders-0" / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")
    (fault,) = (row for row in rows(made, mode="permissive").to_pylist() if row["_fault"])
    assert (fault["topic"], fault["partition"], fault["offset"]) == ("orders", 0, None)


def test_a_time_in_a_batch_that_is_not_read(tmp_path):
    """A batch with offsets of a later segment is left out: the first record that is so late comes in that segment."""
    late = BASE_TIME_MS + 60_000
    made = log(tmp_path, (0, batch(0), batch(60, at_ms=late)), (2, batch(2, at_ms=late), batch(4, at_ms=late)))
    found = rows(made, subset("offset"), mode="dropmalformed", since=str(late))
    assert found.column("offset").to_pylist() == [2, 3, 4, 5]


def test_a_transaction_is_open_before_the_batches_of_a_task(tmp_path):
    """Also where a damaged batch before it has an offset far behind."""
    hole = batch(1 << 30)
    open_one = batch(4, producer=(7, 0, 0), bits=TRANSACTIONAL)
    made = log(tmp_path, (0, hole), (2, batch(2), open_one, batch(6), batch(8)))
    for more in ({}, {"maxRecordsPerPartition": "2"}, {"minPartitions": "5"}):
        assert offsets(made, isolation="read_committed", mode="dropmalformed", **more) == [2, 3]


@pytest.fixture
def unfinished(tmp_path):
    """Offsets 0 to 9, of which 4 and 5 are of an open transaction: the last stable offset is 4."""
    return log(tmp_path, (0, batch(0, 4), batch(4, producer=(7, 0, 0), bits=TRANSACTIONAL), batch(6, 4)))


def test_read_committed_of_the_data_source_ends_limits_at_the_last_stable_offset(unfinished):
    """To who reads what is committed the log ends there, as in Spark's Kafka source."""
    committed = {"kafka.isolation.level": "read_committed", "subscribe": "orders"}
    for side in ("starting", "ending"):
        limit = {f"{side}Offsets": '{"orders":{"0":7}}'}
        said = rf"the {side} offset 7 of orders-0 \(with read_committed .*\) is outside the log, valid range is 0 to 4"
        with pytest.raises(OffsetOutOfRange, match=said):
            tasks(unfinished, **committed, **limit)
        assert offsets(unfinished, **committed, **limit, failOnDataLoss="false") == (
            [0, 1, 2, 3] if side == "ending" else []
        )
    assert offsets(unfinished, subscribe="orders", startingOffsets='{"orders":{"0":7}}') == [7, 8, 9]
    assert offsets(unfinished, **committed, endingOffsets='{"orders":{"0":4}}') == [0, 1, 2, 3]
    with pytest.raises(OffsetOutOfRange, match=r"the ending offset 17 of orders-0 is outside the log"):
        tasks(unfinished, subscribe="orders", endingOffsets='{"orders":{"0":17}}')


def test_read_committed_of_the_data_source_ends_times_at_the_last_stable_offset(unfinished):
    committed = {"isolation": "read_committed", "startingTimestamp": str(BASE_TIME_MS + 6000)}
    with pytest.raises(UsageError, match="No offset matched from request of topic-partition orders-0"):
        tasks(unfinished, **committed)
    assert offsets(unfinished, **committed, startingOffsetsByTimestampStrategy="latest") == []
    assert offsets(unfinished, isolation="read_committed", endingTimestamp=str(BASE_TIME_MS + 6000)) == [0, 1, 2, 3]
    assert offsets(unfinished, startingTimestamp=str(BASE_TIME_MS + 6000)) == [6, 7, 8, 9]


def test_a_data_source_reads_a_partition_given_by_several_paths_once(unfinished):
    """It is there once, as in a glob whose names lead to the same."""
    both = f'["{unfinished}", "{unfinished}/orders-0", "{unfinished}/"]'
    assert offsets("ignored", paths=both) == list(range(10))
