"""The stream: where it begins and ends, what it takes at a time, logs that are cut, that grow, that go; in Spark itself, restarts."""

import os
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.test_segments_inside_sets import write_log as write_log_inside_sets
from tests.spark.spark_reading import PICKLER, source, subset
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker

pytest.importorskip("pyspark.sql.streaming.datasource", reason="this PySpark has no limits for streams")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import kafkalog_cli as kl
from tests.support.product import KafkalogError, NothingSelected, OffsetOutOfRange, RealFilesystem, UsageError
from tests.support.product_journal import open_partition
from tests.support.product_spark import Isolation, TopicPartition, growing_end, limited

ALL = ReadAllAvailable()
PRODUCER = (7, 0, 0)


def records(first, count, key=b"k"):
    return [R(offset, BASE_TIME_MS + offset, key, b"%d" % offset) for offset in range(first, first + count)]


class Log:
    """A partition that somebody writes to."""

    def __init__(self, root, name="orders-0", base=0):
        self.directory = root / name
        self.directory.mkdir(exist_ok=True)
        self.next = base
        self.roll()

    def roll(self):
        self.file = self.directory / f"{self.next:020d}.log"
        self.file.touch()

    def write(self, data):
        with self.file.open("ab") as file:
            file.write(data)

    def add(self, count, each=5, **options):
        for first in range(0, count, each):
            part = min(each, count - first)
            self.write(batch_v2(records(self.next, part), **options))
            self.next += part


class Stream:
    """The reader as Spark's micro-batches use it, without a JVM."""

    def __init__(self, root, **options):
        made = source(root, **options)
        self.columns = subset("partition", "offset")
        self.reader = PICKLER.loads(PICKLER.dumps(made)).streamReader(self.columns)
        self.at = self.reader.initialOffset()

    def take(self, limit=None):
        """(partition, offset) of the records of the next micro-batch."""
        limit = limit or self.reader.getDefaultReadLimit()
        end = self.reader.latestOffset(self.at, limit)
        found = self.between(self.at, end)
        self.at = end
        return found

    def between(self, start, end):
        found = []
        for part in self.reader.partitions(start, end):
            moved = PICKLER.loads(PICKLER.dumps(self.reader))
            for batch in moved.read(pickle.loads(pickle.dumps(part))):
                found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return found


def of(partition, first, end):
    return [(partition, offset) for offset in range(first, end)]


def test_a_stream_reads_appended_records_once(tmp_path):
    log = Log(tmp_path)
    log.add(12)
    latest, earliest = Stream(tmp_path), Stream(tmp_path, startingOffsets="earliest")
    assert latest.at == {"orders": {"0": 12}}
    assert (latest.take(), earliest.take()) == ([], of(0, 0, 12))
    log.add(3)
    log.roll()
    log.add(4)
    assert (latest.take(), latest.take()) == (of(0, 12, 19), [])
    assert earliest.take() == of(0, 12, 19)
    assert latest.reader.reportLatestOffset() == latest.at == {"orders": {"0": 19}}


def test_a_stream_begins_at_the_given_offsets(tmp_path):
    Log(tmp_path).add(12)
    Log(tmp_path, "orders-1").add(3)
    starts = Stream(tmp_path, startingOffsets='{"orders":{"0":-1,"1":-2}}').at
    assert starts == {"orders": {"0": 12, "1": 0}}
    assert Stream(tmp_path, startingTimestamp=BASE_TIME_MS + 2).at == {"orders": {"0": 2, "1": 2}}
    late = {"startingTimestamp": BASE_TIME_MS + 5}
    with pytest.raises(UsageError, match="No offset matched"):
        Stream(tmp_path, **late)
    assert Stream(tmp_path, **late, startingOffsetsByTimestampStrategy="latest").at == {"orders": {"0": 5, "1": 3}}
    with pytest.raises(UsageError, match="don't match what are assigned"):
        Stream(tmp_path, startingOffsets='{"orders":{"0":-1}}')
    with pytest.raises(OffsetOutOfRange):
        Stream(tmp_path, startingOffsets='{"orders":{"0":99,"1":0}}')


@pytest.mark.parametrize(
    "option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "minOffsetsPerTrigger"]
)
def test_a_stream_refuses_options_of_batch_reads(tmp_path, option):
    Log(tmp_path)
    with pytest.raises(UsageError, match=r"streams|streaming"):
        Stream(tmp_path, **{option: "1"})


def test_columns_for_starts_that_only_a_stream_has(tmp_path):
    """Where no schema is given Spark asks for the columns, and says neither `read` nor `readStream`."""
    Log(tmp_path).add(5)
    for options in ({"startingOffsets": "latest"}, {"startingOffsets": '{"orders":{"0":-1}}'}):
        made = source(tmp_path, **options)
        assert made.schema().names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
        with pytest.raises(UsageError, match="can't be latest for batch queries"):
            made.reader(made.schema())
        assert made.streamReader(made.schema()).initialOffset() == {"orders": {"0": 5}}
    with pytest.raises(UsageError, match=r"Expected e\.g\. .* got soon"):
        source(tmp_path, startingOffsets="soon").schema()


def test_an_incomplete_batch_is_not_read_by_a_stream_until_it_is_whole(tmp_path):
    log = Log(tmp_path)
    log.add(10)
    stream = Stream(tmp_path)
    data = batch_v2(records(10, 5))
    for at in range(len(data)):
        assert stream.take() == []
        log.write(data[at : at + 1])
    assert stream.take() == of(0, 10, 15)


def test_a_batch_with_zeroed_pages_is_not_read_by_a_stream_until_it_is_whole(tmp_path):
    """A page that the system has not written yet is zero: the length is right, the CRC is not."""
    log = Log(tmp_path)
    log.add(10)
    stream = Stream(tmp_path)
    data = batch_v2(records(10, 5))
    log.write(data[:-4] + bytes(4))
    assert stream.take() == []
    with log.file.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(data[-4:])
    assert stream.take() == of(0, 10, 15)


def test_damage_that_stays_is_what_the_mode_makes_of_it(tmp_path):
    log = Log(tmp_path)
    log.add(10)
    strict, loose = Stream(tmp_path), Stream(tmp_path, mode="dropmalformed")
    data = batch_v2(records(10, 5))
    log.write(data[:-4] + bytes(4))
    log.next = 15
    log.add(5)
    assert loose.take() == of(0, 15, 20)
    with pytest.raises(KafkalogError, match="byte"):
        strict.take()


def test_max_offsets_per_trigger_divides_a_stream_over_partitions(tmp_path):
    for number, count in enumerate((100, 10, 1)):
        Log(tmp_path, f"orders-{number}").add(count)
    stream = Stream(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="11")
    assert stream.reader.getDefaultReadLimit() == ReadMaxRows(11)
    first = stream.take()
    assert first == of(0, 0, 9) + of(1, 0, 1) + of(2, 0, 1)
    rest = []
    while part := stream.take():
        assert len(part) <= 13
        rest += part
    assert sorted(first + rest) == of(0, 0, 100) + of(1, 0, 10) + of(2, 0, 1)
    assert Stream(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="5").take(ALL) == sorted(first + rest)


sizes = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 3)),
    st.tuples(st.integers(0, 50), st.integers(0, 50)),
)


@given(sizes, st.integers(1, 60))
def test_limits_go_on_and_come_to_the_end(sizes, most):
    begins = {name: begin for name, (begin, _) in sizes.items()}
    ends = {name: begin + size for name, (begin, size) in sizes.items()}
    for _ in range(200):
        found = limited(begins, ends, most)
        steps = {name: found[name] - begins[name] for name in ends}
        assert all(begins[name] <= found[name] <= ends[name] for name in ends)
        assert all(step > 0 for name, step in steps.items() if ends[name] > begins[name])
        assert sum(steps.values()) <= most + len(ends)
        if found == ends:
            return
        begins = found
    raise AssertionError


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "limit", [{"maxOffsetsPerTrigger": "1"}, {"maxOffsetsPerTrigger": "5", "maxRecordsPerPartition": "1"}]
)
def test_a_stream_of_one_offset_at_a_time_reads_segments_that_begin_inside_sets(tmp_path, seed, limit):
    start, end = write_log_inside_sets(tmp_path / "orders-0", seed)
    stream = Stream(tmp_path, startingOffsets="earliest", **limit)
    found = [part for _ in range(start, end) if (part := stream.take())]
    assert [row for part in found for row in part] == of(0, start, end)
    assert max(map(len, found)) == int(limit["maxOffsetsPerTrigger"])


def test_now_is_when_the_query_began(tmp_path):
    log = Log(tmp_path)
    log.add(5)
    stream = Stream(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="2")
    stream.reader.prepareForTriggerAvailableNow()
    log.add(5)
    found = []
    while part := stream.take():
        found.append(part)
    assert found == [of(0, 0, 2), of(0, 2, 4), of(0, 4, 5)]


def test_a_partition_that_comes_is_read_from_its_start(tmp_path):
    Log(tmp_path).add(5)
    stream = Stream(tmp_path, subscribe="orders")
    Log(tmp_path, "orders-1", base=40).add(5)
    Log(tmp_path, "others-0").add(5)
    assert stream.take() == of(1, 40, 45)


def test_a_stream_behind_retention_fails_or_continues_by_fail_on_data_loss(tmp_path):
    log = Log(tmp_path)
    log.add(10)
    log.roll()
    log.add(10)
    strict = Stream(tmp_path, startingOffsets="earliest")
    loose = Stream(tmp_path, startingOffsets="earliest", failOnDataLoss="false")
    (log.directory / f"{0:020d}.log").unlink()
    with pytest.raises(OffsetOutOfRange, match="offset 0 of orders-0, where the stream is, is outside the log"):
        strict.take()
    assert loose.take() == of(0, 10, 20)


def test_retention_between_planning_and_reading_of_a_stream_is_reported(tmp_path):
    log = Log(tmp_path)
    log.add(10)
    log.roll()
    log.add(10)
    for loss, wanted in (("true", None), ("false", of(0, 10, 20))):
        stream = Stream(tmp_path, startingOffsets="earliest", failOnDataLoss=loss)
        (part,) = stream.reader.partitions(stream.at, {"orders": {"0": 20}})
        first = log.directory / f"{0:020d}.log"
        gone = first.rename(first.with_suffix(".log.deleted"))
        if wanted is None:
            with pytest.raises(OffsetOutOfRange):
                list(stream.reader.read(part))
        else:
            rows = [row for batch in stream.reader.read(part) for row in batch.column("offset").to_pylist()]
            assert rows == [offset for _, offset in wanted]
        gone.rename(first)


def test_a_stream_on_a_log_that_was_cut_fails_or_continues_by_fail_on_data_loss(tmp_path):
    """What is written there afterwards is new."""
    log = Log(tmp_path)
    log.add(5)
    size = log.file.stat().st_size
    log.add(5)
    strict, loose = Stream(tmp_path), Stream(tmp_path, failOnDataLoss="false")
    with log.file.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(OffsetOutOfRange, match="offset 10 of orders-0, where the stream is"):
        strict.take()
    assert loose.take() == []
    log.next = 5
    log.add(2)
    assert loose.take() == of(0, 5, 7)


def test_a_stream_whose_partition_is_removed_fails_or_continues_by_fail_on_data_loss(tmp_path):
    Log(tmp_path, "orders-1").add(5)
    log = Log(tmp_path)
    log.add(5)
    strict = Stream(tmp_path, startingOffsets="earliest")
    loose = Stream(tmp_path, startingOffsets="earliest", failOnDataLoss="false")
    log.file.unlink()
    log.directory.rmdir()
    with pytest.raises(NothingSelected, match="orders-0 was there when the stream began, and is missing now"):
        strict.take()
    assert loose.take() == of(1, 0, 5)


def test_read_committed_waits_for_the_end_of_a_transaction(tmp_path):
    log = Log(tmp_path)
    log.add(5)
    committed, all_of_it = Stream(tmp_path, isolation="read_committed"), Stream(tmp_path)
    log.add(5, producer=PRODUCER, bits=TRANSACTIONAL)
    log.add(2)
    assert (committed.take(), all_of_it.take()) == ([], of(0, 5, 12))
    log.write(end_marker(log.next, BASE_TIME_MS, PRODUCER[:2], commits=True))
    log.next += 1
    assert committed.take() == of(0, 5, 12)
    log.add(3, producer=(7, 0, 5), bits=TRANSACTIONAL)
    log.add(1)
    assert committed.take() == []
    log.write(end_marker(log.next, BASE_TIME_MS, PRODUCER[:2], commits=False))
    log.next += 1
    assert committed.take() == of(0, 16, 17)


def test_a_stream_ends_where_the_logs_of_the_corpus_end(corpus):
    """Of a log that nobody writes to: where its records end, and with read_committed what a consumer would get."""
    fs, looked_at, opened = RealFilesystem(), 0, 0
    for case in ("format-0.7", "v0", "v1", "v2-none", "v2-lz4", "txn", "compact-tx"):
        for folder in sorted(path for path in (corpus / case).rglob("*-[0-9]*") if any(path.glob("*.log"))):
            partition = open_partition(fs, str(folder))
            damage = []
            log = kl.open_partition(folder)
            last = [
                part.column("offset")[-1].as_py() for part in log.records(columns=["offset"], on_damage=damage.append)
            ]
            if damage or not last:
                continue
            assert last[-1] < growing_end(fs, partition) == log.offsets().end
            committed = log.records(columns=["offset"], isolation="read_committed")
            stable = growing_end(fs, partition, Isolation.READ_COMMITTED)
            assert all(part.column("offset")[-1].as_py() < stable for part in committed)
            opened += stable < log.offsets().end
            looked_at += 1
    assert looked_at > 20
    assert opened


# -- in Spark


def run(spark, root, place, **options):
    """A query over what is there now, whose checkpoint and result stay; the rows of each of its micro-batches."""
    stream = spark.readStream.format("kafkalog").schema("partition int, offset long, value binary")
    query = (
        stream.options(startingOffsets="earliest", **options)
        .load(str(root))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "result"))
    )
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_restarted_streaming_query_continues_where_it_was(spark, tmp_path):
    """Stopped and started again, with as many offsets a time as it may take: each record once."""
    root = tmp_path / "logs"
    root.mkdir()
    logs = [Log(root, f"orders-{number}") for number in range(2)]
    chance = random.Random(5)
    wanted = []
    for turn in range(2):
        for number, log in enumerate(logs):
            begin = log.next
            log.add(chance.randrange(10, 40), codec=turn + 1)
            wanted += of(number, begin, log.next)
        logs[turn % 2].write(batch_v2(records(logs[turn % 2].next, 3))[:-1])  # torn
        taken = run(spark, root, tmp_path, maxOffsetsPerTrigger="25")
        assert max(taken) <= 27
        torn = logs[turn % 2]
        with torn.file.open("r+b") as file:  # as a broker does when it starts again
            file.truncate(torn.file.stat().st_size - len(batch_v2(records(torn.next, 3))) + 1)
    assert run(spark, root, tmp_path) == []
    found = [tuple(row) for row in spark.read.parquet(str(tmp_path / "result")).collect()]
    assert sorted(row[:2] for row in found) == sorted(wanted)
    assert all(bytes(value) == b"%d" % offset for _, offset, value in found)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.full
def test_a_query_over_segments_that_begin_inside_sets(spark, tmp_path):
    """Each micro-batch takes one offset of each partition: together they have the records of a plain read."""
    root = tmp_path / "logs"
    root.mkdir()
    wanted = []
    for number, seed in enumerate((3, 5)):
        wanted += of(number, *write_log_inside_sets(root / f"orders-{number}", seed))
    taken = run(spark, root, tmp_path, maxOffsetsPerTrigger="2", maxRecordsPerPartition="1")
    found = [tuple(row) for row in spark.read.parquet(str(tmp_path / "result")).select("partition", "offset").collect()]
    assert max(taken) == 2
    assert sorted(found) == sorted(wanted)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.full
def test_retention_ends_a_query_with_what_happened(spark, tmp_path):
    root = tmp_path / "logs"
    root.mkdir()
    log = Log(root)
    log.add(10)
    assert run(spark, root, tmp_path) == [10]
    log.add(5)
    log.roll()
    log.add(5)
    (log.directory / f"{0:020d}.log").unlink()
    with pytest.raises(Exception, match="offset 10 of orders-0, where the stream is, is outside the log") as caught:
        run(spark, root, tmp_path)
    assert type(caught.value).__module__.startswith("pyspark")
    assert run(spark, root, tmp_path, failOnDataLoss="false") == [5]
