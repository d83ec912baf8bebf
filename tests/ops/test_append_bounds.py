"""What append takes exactly at a limit, record by record and by columns: Kafka's rules, over all small cases."""

from itertools import product
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from kafkalog_cli.broker.producer_state import ProducerState
from kafkalog_cli.errors import BadInput, Refused, UsageError
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.ops.append import append
from kafkalog_cli.ops.append.append import AppendPlan, _Append, _Flusher, next_sequence, rehearse
from kafkalog_cli.ops.append.batching import BLOCK_RECORDS, BatchMaker, BatchStyle, Writing, blocks
from kafkalog_cli.ops.append.checks import Checks
from kafkalog_cli.ops.append.columns import PlainRun, RecordRun
from kafkalog_cli.ops.append.inputs import SkippedRecords, without_first
from kafkalog_cli.ops.append.partitioning import Partitioner, number_of_partitions
from kafkalog_cli.ops.append.reading import NewRecord, RecordOrigin, _number, _timestamp
from kafkalog_cli.ops.timestamp_units import OTHER_UNITS

NOW_MS = 1_700_000_000_000
BEFORE_MS, AFTER_MS = 50, 30


class Config(dict):
    """Settings of a topic, and what is worked out of them."""

    def __init__(self, *, is_compacted=False, most_bytes=1000, segment_bytes=1 << 30, **settings):
        names = {"message.timestamp.before.max.ms": BEFORE_MS, "message.timestamp.after.max.ms": AFTER_MS}
        names |= {"max.message.bytes": most_bytes} | {name.replace("_", "."): value for name, value in settings.items()}
        super().__init__({name: SimpleNamespace(value=value) for name, value in names.items()})
        self.is_compacted, self.segment_bytes = is_compacted, segment_bytes


def run_of(records):
    """The records as columns."""
    matrix = np.zeros((13, len(records)), np.int64)
    for at, record in enumerate(records):
        matrix[0, at] = record.origin.offset or 0
        matrix[1, at] = record.timestamp
        matrix[4, at] = -1 if record.key is None else len(record.key)
    return RecordRun(b"", matrix, records[0].origin)


def refusals(records, config, *, end_offset=0, leader_epoch=0, keeps_offsets=False):
    """What each of the two ways says of the records, "" where they are taken; and the odd time that was noticed."""
    found = []
    for arriving in (records, [run_of(records)]):
        checks = Checks(config, BatchStyle(leader_epoch=leader_epoch, keeps_offsets=keeps_offsets), NOW_MS, end_offset)
        try:
            list(checks.records(arriving))
        except BadInput as error:
            found.append((str(error), checks.odd_time))
        else:
            found.append(("", checks.odd_time))
    assert found[0] == found[1]
    return found[0]


def begins(told, wanted):
    """Whether it is what is wanted: nothing, or words that begin so."""
    return told.startswith(wanted) if wanted else not told


def record(timestamp=-1, key=b"", **origin):
    return NewRecord(key, b"v", timestamp=timestamp, origin=RecordOrigin(**origin))


TIMES = (-1, NOW_MS - BEFORE_MS - 1, NOW_MS - BEFORE_MS, NOW_MS, NOW_MS + AFTER_MS, NOW_MS + AFTER_MS + 1)


def test_a_timestamp_may_be_as_far_away_as_the_limits_say():
    """LogValidator.recordHasInvalidTimestamp: now - timestamp > before, or timestamp - now > after; -1 is none."""
    for times in product(TIMES, repeat=2):
        bad = [at for at, time in enumerate(times) if time != -1 and not -BEFORE_MS <= time - NOW_MS <= AFTER_MS]
        told, _ = refusals([record(time) for time in times], Config())
        assert begins(told, f"record {bad[0] + 1}: timestamp {times[bad[0]]} " if bad else "")


def test_a_time_in_other_units_is_noticed_from_edge_to_edge():
    """The first odd one counts, also behind a time at the edge, which is none."""
    edges = sorted({edge + more for _, first, end in OTHER_UNITS for edge in (first, end) for more in (-1, 0, 1)})
    anything = Config(message_timestamp_before_max_ms=1 << 62, message_timestamp_after_max_ms=1 << 62)
    for times in product(edges, repeat=2):
        told, noticed = refusals([record(time) for time in times], anything)
        odd = [at for at, time in enumerate(times) if any(first <= time < end for _, first, end in OTHER_UNITS)]
        assert told == ""
        assert (noticed and (noticed.number, noticed.timestamp)) == ((odd[0] + 1, times[odd[0]]) if odd else None)


def test_a_key_may_be_empty_where_one_is_needed():
    """LogValidator.validateKey: hasKey, on a compacted topic."""
    for keys in product((None, b"", b"k"), repeat=3):
        told, _ = refusals([record(key=key) for key in keys], Config(is_compacted=True))
        missing = [at + 1 for at, key in enumerate(keys) if key is None]
        assert begins(told, f"record {missing[0]}: it has no key" if missing else "")
    assert refusals([record(key=None)], Config()) == ("", None)
    told, _ = refusals(
        [record(timestamp=5)], Config(is_compacted=True)
    )  # with an empty key, which is none of the problem
    assert told.startswith("record 1: timestamp 5 is too old")


def test_kept_offsets_go_up_from_the_end_of_the_log():
    """UnifiedLog.append of a follower: OffsetsOutOfOrderException, and UnexpectedAppendOffsetException below the end."""
    for offsets in product(range(5), repeat=3):
        told, _ = refusals([record(offset=offset) for offset in offsets], Config(), end_offset=1, keeps_offsets=True)
        expected, wanted = 1, ""
        for number, offset in enumerate(offsets, 1):
            if offset < expected:
                wanted = f"record {number}: offset {offset} is too low: the log already ends at {expected}"
                break
            expected = offset + 1
        assert begins(told, wanted), offsets


@pytest.mark.parametrize("epochs", list(product((None, -1, 0, 1, 2), repeat=2)))
def test_kept_leader_epochs_do_not_go_down(epochs):
    """One run has one epoch, so that two of them come; None and -1 are none."""
    parts = [[record(offset=at, leader_epoch=epoch)] for at, epoch in enumerate(epochs)]
    known = [epoch for epoch in (1, *epochs) if epoch not in (None, -1)]
    wanted = any(after < before for before, after in zip(known, known[1:], strict=False))
    for as_run in (False, True):
        checks = Checks(Config(), BatchStyle(leader_epoch=1, keeps_offsets=True), NOW_MS, 0)
        arriving = map(run_of, parts) if as_run else [one for part in parts for one in part]
        if wanted:
            with pytest.raises(BadInput, match="comes after"):
                list(checks.records(arriving))
        else:
            list(checks.records(arriving))


@pytest.mark.parametrize("unit", [1, 10**6, 10**9])
def test_the_first_time_in_another_unit_is_noticed(unit):
    """Seconds, microseconds, nanoseconds of the years 2001 to 2103."""
    first, end = 10**9 * unit, 4_200_000_000 * unit
    config = Config()
    for name in ("before", "after"):
        config[f"message.timestamp.{name}.max.ms"].value = 2**63 - 1
    for times, number in (((first - 1, end), None), ((5, first), 2), ((end - 1, first), 1), ((5, -1), None)):
        told, odd = refusals([record(time) for time in times], config)
        assert told == ""
        assert (None if odd is None else odd[:2]) == (None if number is None else (number, times[number - 1]))


@pytest.mark.parametrize(("size_bytes", "is_taken"), [(999, True), (1000, True), (1001, False)])
@pytest.mark.parametrize("limits", [{"most_bytes": 1000}, {"most_bytes": 5000, "segment_bytes": 1000}])
def test_a_batch_may_be_as_large_as_the_limit(size_bytes, is_taken, limits):
    """UnifiedLog.analyzeAndValidateRecords: batchSize > maxMessageSize; and append: validRecords.sizeInBytes > segmentSize."""
    made = SimpleNamespace(
        batches=SimpleNamespace(rows=lambda: [SimpleNamespace(size_bytes=size_bytes, base_offset=4)])
    )
    checks = Checks(Config(**limits), BatchStyle(), NOW_MS, 0)
    if is_taken:
        checks.batches(made)
    else:
        with pytest.raises(BadInput, match=f"offset 4: a batch of {size_bytes} bytes is over 1000"):
            checks.batches(made)


# -- batches


def ends(records, style):
    """How many records each batch has."""
    found = []
    for block in blocks(records, style, NOW_MS):
        found += [end - begin for begin, end in zip([0, *block.ends[:-1]], block.ends, strict=True)]
    return found


@pytest.mark.parametrize(("gap", "batches"), [(2**31 - 2, [2]), (2**31 - 1, [2]), (2**31, [1, 1])])
def test_offsets_of_a_batch_are_as_far_apart_as_an_int32_says(gap, batches):
    records = [record(NOW_MS, offset=offset) for offset in (7, 7 + gap)]
    assert ends(records, BatchStyle(keeps_offsets=True)) == batches


def test_a_batch_is_filled_up_to_its_limit_and_never_over_it():
    """A record has a length, a byte of attributes, and so on: what counts is the bytes of the batch that was made."""
    records = [NewRecord(None, b"v" * 10, timestamp=NOW_MS) for _ in range(3)]
    counts = {}
    for limit in range(62, 200):
        style = BatchStyle(batch_bytes=limit)
        found = ends(records, style)
        assert sum(found) == 3
        counts.setdefault(tuple(found), limit)
        made = [
            one for block in blocks(records, style, NOW_MS) for one in BatchMaker(style).encode(block, 0).batches.rows()
        ]
        for count, batch in zip(found, made, strict=True):
            assert count == 1 or batch.size_bytes <= limit
    one, two, three = counts[1, 1, 1], counts[2, 1], counts[3,]
    assert one == 62
    assert two - 61 == 2 * (three - two), (
        "two records fit where twice, and three where three times, the room of a record is"
    )


def test_a_batch_has_no_more_records_than_a_block():
    records = [NewRecord(None, None, timestamp=NOW_MS)] * (BLOCK_RECORDS + 1)
    assert ends(records, BatchStyle(batch_bytes=1 << 30)) == [BLOCK_RECORDS, 1]


def test_full_batches_do_not_end_where_a_block_has_its_most_records():
    records = [NewRecord(None, None, timestamp=NOW_MS)] * (BLOCK_RECORDS + 100)
    style = BatchStyle(batch_bytes=7000)
    for most in (BLOCK_RECORDS, BLOCK_RECORDS + 1):
        found = []
        for block in blocks(records, style, NOW_MS, most_records=most):
            found += np.diff([0, *block.ends]).tolist()
        assert BLOCK_RECORDS % found[0]
        assert set(found[:-1]) == {found[0]}


def test_records_one_by_one_have_the_sizes_of_columns():
    """From any record on."""
    run = PlainRun()
    for size in (3, 0, 70, 5):
        run.add(NewRecord(b"k" * size, b"v", timestamp=NOW_MS), NOW_MS)
    for first, end in product(range(5), range(5)):
        if first <= end:
            assert list(run.sizes(first, end)) == list(run.arrays().sizes(first, end))
            rest = run.rest(first)
            assert list(rest.sizes(0, end - first)) == list(run.sizes(first, end))
            places = rest.records(0, len(rest))
            keys = [
                bytes(rest.buffer[at:][:size]) for at, size in zip(places.key_position, places.key_size, strict=True)
            ]
            assert keys == [b"k" * size for size in (3, 0, 70, 5)[first:]]


@pytest.mark.parametrize(("most", "wanted"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (5, [5]), (6, [5])])
def test_a_block_ends_with_the_record_that_makes_it_due(most, wanted):
    """flush.messages: so many records are synced together."""
    records = [NewRecord(None, b"v", timestamp=NOW_MS)] * 5
    found = [len(block.records) for block in blocks(records, BatchStyle(), NOW_MS, most_records=most)]
    assert found == wanted


def test_a_block_does_not_end_within_a_batch():
    """A batch that begins behind the first record of a block may have as many records as one that begins with it."""
    records = [record(NOW_MS, offset=at, leader_epoch=min(at, 1)) for at in range(BLOCK_RECORDS + 1)]
    assert ends(records, BatchStyle(batch_bytes=1 << 30, keeps_offsets=True)) == [1, BLOCK_RECORDS]


@pytest.mark.parametrize(("producer_id", "next_one"), [(-1, 5), (0, 8), (1, 8)])
def test_sequences_go_on_with_each_record_of_a_producer(producer_id, next_one):
    style = BatchStyle(producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1)
    maker = BatchMaker(style, 5)
    for block in blocks([NewRecord(None, b"v", timestamp=NOW_MS)] * 3, style, NOW_MS):
        maker.encode(block, 0)
    assert maker.next_sequence == next_one


@pytest.mark.parametrize(
    ("epoch", "given", "told"), [(4, None, "is fenced"), (5, None, 8), (5, 8, 8), (6, None, 0), (6, 1, "order")]
)
def test_a_producer_is_fenced_by_a_later_epoch_only(epoch, given, told):
    """ProducerAppendInfo.checkProducerEpoch and checkSequence: an epoch below the known one; a new epoch begins with 0."""
    state = ProducerState()
    state.producers[1] = ProducerEntry(1, 5, 7, 20, 0, NOW_MS, -1, -1)
    writing = Writing(producer_id=1, producer_epoch=epoch, first_sequence=given)
    if isinstance(told, int):
        assert next_sequence(state, writing) == told
    else:
        with pytest.raises(BadInput, match=told):
            next_sequence(state, writing)


@pytest.mark.parametrize(("epoch", "is_taken"), [(4, False), (5, True), (6, True)])
def test_a_leader_epoch_is_not_below_the_logs(epoch, is_taken):
    config = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}
    config = {name: SimpleNamespace(value=value, text=value) for name, value in config.items()}
    target = SimpleNamespace(epochs=SimpleNamespace(latest_epoch=5))
    request = SimpleNamespace(writing=Writing(leader_epoch=epoch), now_ms=NOW_MS)
    if is_taken:
        assert append._style(config, target, request).leader_epoch == epoch
    else:
        with pytest.raises(BadInput, match="is that of an older leader"):
            append._style(config, target, request)


# -- what is synced, and said in recovery-point-offset-checkpoint


def test_a_log_is_synced_after_so_many_records_or_so_long():
    """UnifiedLog.append: unflushedMessages >= flush.messages; LogManager.flushDirtyLogs: timeSinceLastFlush >= flush.ms."""
    clock = [0]
    config = {"flush.messages": SimpleNamespace(value=3), "flush.ms": SimpleNamespace(value=10)}
    flusher = _Flusher(config, SimpleNamespace(flush_clock=lambda: clock[0]))
    assert [flusher.is_due(count) for count in (2, 1, 2, 2)] == [False, True, False, True]
    for now, late in ((9, False), (10, True), (11, True)):
        clock[0] = now
        assert flusher.is_late() == late


@pytest.mark.parametrize(
    ("line", "is_clean", "is_edited"), [(9, False, False), (10, False, True), (11, False, True), (9, True, True)]
)
def test_a_recovery_point_is_lifted_only_where_all_below_was_synced(line, is_clean, is_edited):
    plan = SimpleNamespace(
        root=SimpleNamespace(line=lambda kind: line, is_clean=is_clean), log_dir="/logs", topic="t", partition=0
    )
    appending = object.__new__(_Append)
    appending._plan, appending._target = plan, SimpleNamespace(end_offset=10)
    assert [edit.offset for edit in appending._recovery_point(15)] == ([15] if is_edited else [])


def test_a_transaction_without_a_record_has_no_marker():
    """TransactionManager.beginCompletingTransaction: nothing is sent for a transaction without partitions."""
    appending = object.__new__(_Append)
    appending._request = SimpleNamespace(writing=Writing(producer_id=1, transaction="commit"))
    appending._target = SimpleNamespace(producers=SimpleNamespace(state=ProducerState()))
    appending._plan, appending._counts = SimpleNamespace(style=BatchStyle()), SimpleNamespace(records=0, markers=0)
    appending._end_transaction(None, None)
    assert appending._counts.markers == 0


@pytest.mark.parametrize(
    ("records", "is_told", "stays"), [(0, False, False), (1, False, False), (0, True, False), (1, True, True)]
)
def test_after_an_error_the_records_of_a_program_stay_if_there_are_any(monkeypatch, records, is_told, stays):
    """It was told of each record that did not go in, so it takes the others for appended."""
    run, appending = MagicMock(), object.__new__(_Append)
    run.take_back.return_value = None
    monkeypatch.setattr(append, "GrowingRun", lambda *_, **__: run)
    monkeypatch.setattr(append, "AppendedLog", MagicMock(side_effect=KeyboardInterrupt))
    appending._fs = appending._plan = appending._target = appending._config = MagicMock(log_dir=None)
    appending._request = SimpleNamespace(refused=print if is_told else None, now_ms=NOW_MS)
    appending._counts = SimpleNamespace(records=records)
    with pytest.raises(KeyboardInterrupt):
        appending._grow(None, None, iter(()), lambda: True)
    assert run.take_back.call_args.kwargs == {"keeps_records": stays}


@pytest.mark.parametrize(("records", "has_work"), [(0, False), (1, True)])
def test_a_dry_run_without_a_record_has_no_work(records, has_work):
    plan = SimpleNamespace(is_refused=False, appended=SimpleNamespace(records=records))
    assert vars(AppendPlan)["has_work"].fget(plan) == has_work


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_rehearsal_ends_behind_the_last_record(count):
    plan = SimpleNamespace(log_end_offset=5, log_dir=None, topic="t", style=BatchStyle())
    settings = SimpleNamespace(topic_config=lambda log_dir, topic: Config())
    request = SimpleNamespace(settings=settings, now_ms=NOW_MS, kernels=None)
    found = rehearse(plan, [NewRecord(b"k", b"v", timestamp=NOW_MS)] * count, request)
    assert (found.records, found.end_offset) == (count, 5 + count)


# -- partitions, fields, records that are skipped


def test_a_partition_gets_records_until_a_batch_is_full():
    """BuiltInPartitioner.updatePartitionInfo: producedBytes >= stickyBatchSize, then the next one."""
    partitioner = Partitioner([3, 1], 4, batch_bytes=10)
    found = [partitioner.partition_of(NewRecord(None, b"v" * size)) for size in (5, 4, 1, 10, 1, 9, 1)]
    assert found == [1, 1, 1, 3, 1, 1, 3]


def test_the_number_of_partitions_is_known_where_all_from_0_on_are_given():
    """`there`: other directories of the topic, and of another topic; the largest number tells how many there are at least."""
    for given, there in product([(0,), (0, 1), (0, 1, 2), (1,), (0, 2)], [(), (1,), (2,), (1, 3)]):
        partitions = [SimpleNamespace(topic="t", number=number) for number in given]
        places = [("t", number) for number in there] + [("u", 9)]
        missing = [number for number in range(max(*given, *there, 0) + 1) if number not in given]
        if missing:
            with pytest.raises(Refused, match=rf"missing: {', '.join(map(str, missing))}\)"):
                number_of_partitions(partitions, None, places)
        else:
            assert number_of_partitions(partitions, None, places) == len(given)


def test_numbers_of_fields_are_those_of_a_batch():
    for timestamp in (-1, 0, 2**63 - 1):
        assert _timestamp({"timestamp_ms": timestamp}) == timestamp
    for timestamp in (-2, 2**63):
        with pytest.raises(ValueError, match="is not possible in a record"):
            _timestamp({"timestamp_ms": timestamp})
    for number in (0, 1, 7):
        assert _number({"n": number}, "n", 0, 7) == number
    for number in (-1, 8, True, 1.0):
        with pytest.raises(ValueError, match="a number from 0 to 7"):
            _number({"n": number}, "n", 0, 7)


@pytest.mark.parametrize("count", range(6))
def test_so_many_records_are_skipped_wherever_runs_end(count):
    """Runs of two, one and two records, and one record between."""
    records = [record(number) for number in range(6)]
    arriving = [run_of(records[:2]), records[2], run_of(records[3:4]), run_of(records[4:])]
    left = []
    for found in without_first((one for one in arriving), count):
        left += [found.timestamp] if isinstance(found, NewRecord) else list(found.matrix[1])
        assert isinstance(found, NewRecord) or len(found)
    assert left == list(range(count, 6))


def test_a_number_without_a_partition_is_for_an_append_to_one():
    SkippedRecords(of_only=5).check([3])
    with pytest.raises(UsageError, match="PARTITION:N"):
        SkippedRecords(of_only=5).check([3, 4])
