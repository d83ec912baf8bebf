"""The index rule against a plain copy of LogSegment.recover, and segments whose offsets their indexes cannot express."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog_cli.broker import log_loader
from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, SegmentOverflow
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.log_loader import split_segment
from kafkalog_cli.broker.segment_writer import GrowingIndexes
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import R, batch_v2

# -- The index rule against a twin that goes batch by batch, as LogSegment.recover does


BASE = 1000
MAX_INT31 = (1 << 31) - 1


def columns(batches):
    """(size, last offset, max timestamp) of consecutive batches as columns."""
    rows, position = [], 0
    for size, last_offset, timestamp in batches:
        rows.append((position, size, last_offset, last_offset, 0, 2, 0, 0, -1, timestamp, -1, -1, -1, 1, 1))
        position += size
    return BatchColumns.from_rows(rows)


def twin(batches, interval, index_bytes):  # noqa: C901  (the rule, spelled out)
    """Entries, the number of batches that were taken, and what ended it."""
    offsets, times, so_far, at_offset, last_indexed, position = [], [], -1, BASE, 0, 0
    for done, (size, last_offset, timestamp) in enumerate(batches):
        if not 0 <= last_offset - BASE <= MAX_INT31:
            return offsets, times, done, SegmentOverflow
        if timestamp > so_far:
            so_far, at_offset = timestamp, last_offset
        if position - last_indexed > interval:
            if len(offsets) >= index_bytes // 8:
                return offsets, times, done, LoadFailed
            if offsets and last_offset <= offsets[-1][0]:
                return offsets, times, done, InvalidOffset
            offsets.append((last_offset, position))
            if len(times) >= index_bytes // 12 - 1:
                return offsets, times, done, LoadFailed
            if times and at_offset < times[-1][1]:
                return offsets, times, done, InvalidOffset
            if so_far > (times[-1][0] if times else -1):
                times.append((so_far, at_offset))
            last_indexed = position
        position += size
    if times and at_offset < times[-1][1]:
        return offsets, times, len(batches), InvalidOffset
    if so_far > (times[-1][0] if times else -1):
        times.append((so_far, at_offset))
    return offsets, times, len(batches), type(None)


offsets = st.integers(BASE - 2, BASE + 60) | st.sampled_from([BASE + MAX_INT31, BASE + MAX_INT31 + 1, 0])
rising = st.lists(st.integers(1, 5), max_size=40).map(lambda steps: [BASE + sum(steps[:i]) for i in range(len(steps))])
batches_of = (rising | st.lists(offsets, max_size=12)).flatmap(
    lambda last: st.tuples(*(st.tuples(st.integers(61, 400), st.just(o), st.integers(-1, 30)) for o in last))
)


@example(batches=[(100, BASE + 1, 1), (100, BASE + 2, 2), (100, BASE + 2, 3)], interval=0, slots=9, split=0)
@example(batches=[(100, BASE + MAX_INT31, 1)], interval=0, slots=9, split=0)
@example(batches=[(100, BASE + MAX_INT31 + 1, 1)], interval=0, slots=9, split=0)
# As many entries as fit; then one more of each kind.
@example(batches=[(100, BASE + row, 5) for row in range(7)], interval=0, slots=4, split=0)
@example(batches=[(100, BASE + row, 5) for row in range(8)], interval=0, slots=4, split=0)
@example(batches=[(100, BASE + row, row) for row in range(4)], interval=0, slots=4, split=0)
@example(batches=[(100, BASE + row, row) for row in range(5)], interval=0, slots=4, split=0)
@example(batches=[(100, BASE + row, row) for row in range(9)], interval=0, slots=9, split=1)
@example(batches=[(100, BASE + row, row) for row in range(10)], interval=0, slots=9, split=1)
# The same offset twice, at the edge of two appends and within one.
@example(batches=[(100, BASE + max(row, 2), row) for row in range(12)], interval=0, slots=60, split=2)
@example(batches=[(100, BASE + row - (row > 5), row) for row in range(12)], interval=0, slots=60, split=0)
# The largest timestamp is the first of its kind, and that of the batch that gets the entry counts.
@example(batches=[(100, BASE + row, 5) for row in range(12)], interval=150, slots=60, split=0)
@example(batches=[(100, BASE + row, 7 * (row % 3 == 2)) for row in range(12)], interval=199, slots=60, split=0)
@example(batches=[(100, BASE + row, row) for row in range(12)], interval=200, slots=60, split=0)
@example(batches=[(100, BASE + row, 9 - row) for row in range(10)], interval=60, slots=60, split=1)
@given(
    batches=batches_of, interval=st.integers(0, 900) | st.just(60), slots=st.integers(2, 60), split=st.integers(0, 40)
)
def test_index_entries_are_those_of_the_plain_copy_of_recover(batches, interval, slots, split):
    index_bytes = slots * 12
    indexes = GrowingIndexes(BASE, interval, index_bytes)
    whole = columns(batches)
    done, error = indexes.add(whole.part(0, min(split, len(batches))), min(split, len(batches)))
    if error is None and split < len(batches):
        more, error = indexes.add(whole.part(split, len(batches)), len(batches) - split)
        done += more
    if error is None:
        error = indexes.close()
    wanted_offsets, wanted_times, wanted_done, wanted_error = twin(batches, interval, index_bytes)
    assert (done, type(error)) == (wanted_done, wanted_error)
    assert indexes.offset_index == b"".join(struct.pack(">ii", o - BASE, p) for o, p in wanted_offsets)
    assert indexes.time_index == b"".join(struct.pack(">qi", t, o - BASE) for t, o in wanted_times)
    assert indexes.entries == (len(wanted_offsets), len(wanted_times))


@given(batches=batches_of, interval=st.integers(0, 900) | st.sampled_from([100, 200]), slots=st.integers(2, 9))
@example(batches=[(100, BASE + row, 5) for row in range(6)], interval=200, slots=9)
@example(batches=[(100, BASE + row, 5 - row // 2) for row in range(6)], interval=100, slots=3)
def test_batches_added_one_by_one_give_the_same_entries(batches, interval, slots):
    indexes, error, done, position = GrowingIndexes(BASE, interval, slots * 12), None, 0, 0
    for size, last_offset, timestamp in batches:
        error = indexes.add_one(position, last_offset, timestamp)
        if error is not None:
            break
        position += size
        done += 1
    error = indexes.close() if error is None else error
    wanted_offsets, wanted_times, wanted_done, wanted_error = twin(batches, interval, slots * 12)
    assert (done, type(error)) == (wanted_done, wanted_error)
    assert list(OffsetIndex(indexes.offset_index, BASE)) == wanted_offsets
    assert list(TimeIndex(indexes.time_index, BASE)) == wanted_times


def test_the_rule_begins_where_the_file_was_opened():
    opened_at = GrowingIndexes(BASE, 150, 1 << 20, position=100)
    assert opened_at.add(columns([(100, BASE + row, 5) for row in range(5)]), 5) == (5, None)
    assert list(OffsetIndex(opened_at.offset_index, BASE)) == [(BASE + 3, 300)]


# -- A segment whose offsets its indexes cannot express is split alike, however many batches are looked at at a time


BEYOND = 1 << 31
LOG = f"{0:020}.log"


def batch(offset, timestamp):
    return batch_v2([R(offset, timestamp)])


def split(log, settings=None):
    """The files after the split by name, or the reason why it failed."""
    draft = Draft(FaultyFilesystem({f"/t-0/{LOG}": log}), "/t-0")
    settings = settings or LoadSettings(now_ms=0, index_interval_bytes=100)
    try:
        split_segment(LoadedSegment(draft, 0, settings, is_new=True), draft, settings, keep_old=True)
    except LoadFailed as failure:
        return str(failure)
    return {name: b"".join(draft.content(name).pieces()) for name in draft.names()}


@pytest.mark.parametrize("group", [1, 2, 3, 7, 4096])
def test_a_segment_is_split_where_its_indexes_cannot_express_an_offset(group, monkeypatch):
    monkeypatch.setattr(log_loader, "_GROUP_BATCHES", group)
    offsets = [*range(12), *range(BEYOND, BEYOND + 5), *range(3 * BEYOND, 3 * BEYOND + 2)]
    log = b"".join(batch(offset, 1000 + row) for row, offset in enumerate(offsets))
    size = len(batch(0, 0))
    files = split(log)
    assert {name: len(data) for name, data in files.items() if name.endswith(".log")} == {
        f"{0:020}.log": 12 * size,
        f"{BEYOND:020}.log": 5 * size,
        f"{3 * BEYOND:020}.log": 2 * size,
    }
    assert files[f"{0:020}.log.deleted"] == log
    entries = [(row, row * size) for row in range(2, 12, 2)]
    assert files[f"{0:020}.index"] == b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert files[f"{3 * BEYOND:020}.index"] == b""
    assert files[f"{3 * BEYOND:020}.timeindex"] == struct.pack(">qi", 1018, 1)


@pytest.mark.parametrize("group", [1, 2, 4096])
def test_a_segment_that_a_broker_cannot_split_fails_the_load(group, monkeypatch):
    monkeypatch.setattr(log_loader, "_GROUP_BATCHES", group)
    assert "only permitted for segments with overflow" in split(batch(0, 1))
    odd = bytearray(batch(1, 1))
    odd[16] = 3  # the magic
    assert "Invalid magic found in record: 3" in split(batch(0, 1) + odd + batch(BEYOND, 2))
    assert "CorruptRecordException" in split(batch(0, 1) + batch(BEYOND, 2) + batch(BEYOND + 1, 3)[:-1])
