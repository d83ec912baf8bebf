"""truncate and delete-records on random logs against twins that write the log down as if it had always been so.

Logs of all magics in several segments, with transactions, epochs, a log start within a segment and a high watermark;
offsets at each border of segments, batches, epochs, of what is replicated and of the log, and their neighbours.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.crash.log_directories import ROOT, records
from tests.crash.writers import kafkalog
from tests.support.logs import (
    BASE_TIME_MS,
    TRANSACTIONAL,
    R,
    aborted_txns,
    batch_v2,
    end_marker,
    indexes,
    message,
    message_set,
    producer_snapshot,
)
from tests.support.memory_fs import MemoryFilesystem

PARTITION = f"{ROOT}/t-0"
NOW_MS = BASE_TIME_MS + 3_600_000
INTERVAL_BYTES = 100
SETTINGS = ("--config", f"index.interval.bytes={INTERVAL_BYTES}", "--config", "segment.index.bytes=4096")
PRODUCER = (9, 0)


class Item(NamedTuple):
    """A batch: `epoch` None before v2; `mark` of a transaction's end 1 (committed) or 0, `sequence` of its records."""

    data: bytes
    base: int
    last: int
    timestamp: int
    epoch: int | None = None
    mark: int | None = None
    sequence: int | None = None


class Log(NamedTuple):
    """Segments by base offset, their batches, and what the checkpoints say."""

    segments: list[tuple[int, list[Item]]]
    start: int
    replicated: int
    cleaned: int
    is_clean: bool

    @property
    def items(self):
        return [item for _, items in self.segments for item in items]

    @property
    def end(self):
        base, items = self.segments[-1]
        return items[-1].last + 1 if items else base

    @property
    def first(self):
        return max(self.start, self.segments[0][0])


@st.composite
def items_of(draw, offset, state):
    """A batch from `offset` on; `state` has the magic, the epoch and the producer's sequence and transaction."""
    count = draw(st.integers(1, 3))
    times = [BASE_TIME_MS + draw(st.integers(0, 60)) for _ in range(count)]
    found = [R(offset + at, time, b"k%d" % at, b"v" * draw(st.integers(0, 30))) for at, time in enumerate(times)]
    if state["magic"] < 2:
        if draw(st.booleans()):
            return Item(
                message_set(found, state["magic"], 1), offset, found[-1].offset, max(times) if state["magic"] else -1
            )
        (one, *_) = found
        return Item(message(one, state["magic"]), offset, offset, one.timestamp if state["magic"] else -1)
    state["epoch"] += draw(st.sampled_from([0, 0, 1]))
    epoch, last = state["epoch"], found[-1].offset
    if state["open"] and draw(st.booleans()):
        mark, state["open"] = draw(st.integers(0, 1)), False
        # The marker is a batch of epoch 0 in its header; of the file only others count.
        return Item(end_marker(offset, times[0], PRODUCER, mark), offset, offset, times[0], None, mark)
    if draw(st.booleans()):
        sequence, state["open"] = state["sequence"], True
        state["sequence"] += count
        data = batch_v2(found, 0, producer=(*PRODUCER, sequence), epoch=epoch, bits=TRANSACTIONAL)
        return Item(data, offset, last, max(times), epoch, None, sequence)
    gap = draw(st.sampled_from([0, 0, 2]))  # what a cleaner leaves
    data = batch_v2(found, draw(st.integers(0, 1)), last=last + gap, epoch=epoch)
    return Item(data, offset, last + gap, max(times), epoch)


@st.composite
def logs(draw):
    state = {"magic": draw(st.integers(0, 2)), "epoch": 0, "sequence": 0, "open": False}
    count, offset = draw(st.integers(1, 4)), draw(st.sampled_from([0, 0, 5]))
    segments = []
    for number in range(count):
        base, items = offset, []
        for _ in range(draw(st.integers(0 if number == count - 1 else 1, 4))):
            items.append(draw(items_of(offset, state)))
            offset = items[-1].last + 1
        segments.append((base, items))
        state["magic"] = max(state["magic"], draw(st.integers(0, 2)))
    start = draw(st.just(0) | st.integers(segments[0][0], offset))
    first = max(start, segments[0][0])
    cleaned = draw(st.integers(0, segments[-1][0]))
    return Log(segments, start, draw(st.integers(first, offset)), cleaned, draw(st.booleans()))


# -- a log as files, written down from its batches


def epochs_of(items):
    found, latest = [], -1
    for item in items:
        if item.epoch is not None and item.epoch > latest:
            latest = item.epoch
            found.append((latest, item.base))
    return found


def checkpoint_of(epochs):
    return b"0\n%d\n" % len(epochs) + b"".join(b"%d %d\n" % entry for entry in epochs)


def producers_of(items):
    """The snapshot behind these: no producer, or the one."""
    last, at, delta, time, first = -1, -1, 0, -1, -1
    coordinator_epoch, is_known = -1, False
    for item in items:
        if item.sequence is not None:
            delta = item.last - item.base
            last, at, time = item.sequence + delta, item.last, item.timestamp
            first = item.base if first < 0 else first
            is_known = True
        elif item.mark is not None:
            time, first, coordinator_epoch, is_known = item.timestamp, -1, 0, True
    return [(PRODUCER[0], PRODUCER[1], last, at, delta, time, coordinator_epoch, first)] if is_known else []


def aborted_in(log, items):
    found, first = [], None
    for item in log.items:
        if item.sequence is not None and first is None:
            first = item.base
        elif item.mark is not None:
            if item.mark == 0 and item in items:
                found.append((PRODUCER[0], first, item.last, item.last + 1))
            first = None
    return found


def files_of(log, *, is_rebuilt=False):
    """The partition's files as a broker that stopped leaves them.

    `is_rebuilt`: its producers are those of the last snapshot, or without one of the batches from the log start on.
    """
    found, bases = {}, {base for base, _ in log.segments[1:]}
    knows_all = not is_rebuilt or any(base > log.first for base in bases)
    for base, items in log.segments:
        index, times = indexes([(item.data, item.last, item.timestamp) for item in items], base, INTERVAL_BYTES)
        name = f"{base:020d}"
        found |= {f"{name}.log": b"".join(item.data for item in items), f"{name}.index": index}
        found[f"{name}.timeindex"] = times
        aborted = aborted_in(log, items)
        if aborted:
            found[f"{name}.txnindex"] = aborted_txns(aborted)
    for offset in bases | {log.end}:
        if offset > log.first:
            counted = [item for item in log.items if item.last < offset and (knows_all or item.last >= log.first)]
            entries = producers_of(counted)
            found[f"{offset:020d}.snapshot"] = producer_snapshot(entries)
    found["leader-epoch-checkpoint"] = checkpoint_of(epochs_of(log.items))
    return found


def disk_of(log):
    fs = MemoryFilesystem()
    fs.add(f"{ROOT}/meta.properties", b"version=1\nnode.id=1\n")
    lines = {"recovery-point": log.end, "replication": log.replicated, "cleaner": log.cleaned, "log-start": log.start}
    for kind, offset in lines.items():
        middle = "-offset-checkpoint"
        fs.add(f"{ROOT}/{kind}{middle}", b"0\n1\nt 0 %d\n" % offset if offset or kind != "log-start" else b"0\n0\n")
    if log.is_clean:
        fs.add(f"{ROOT}/.kafka_cleanshutdown", b"")
    for name, data in files_of(log).items():
        fs.add(f"{PARTITION}/{name}", data)
    fs.settle()
    return fs


def found_on(fs):
    """The partition's files, by name, snapshots with the producers that matter in them."""
    tree = fs.tree(PARTITION, without=(f"{PARTITION}/.kafkalog",))
    return {path.rpartition("/")[2]: facts[0] for path, facts in tree.items() if facts[0] is not None}


def line(fs, kind):
    """The partition's offset in a checkpoint, 0 without one."""
    path = f"{ROOT}/{kind}-offset-checkpoint"
    found = fs.tree(path)[path][0].split(b"\n")[2:-1]
    return int(found[0].split()[2]) if found else 0


def offsets_of(log, extra=()):
    """Each border and its neighbours, one of them drawn."""
    borders = {log.first, log.end, log.replicated, *extra}
    for base, items in log.segments:
        borders |= {base, *(item.base for item in items), *(item.last for item in items)}
    return sorted({border + by for border in borders for by in (-1, 0, 1)})


# -- the twins


def truncated(log, target):
    """The log as if nothing from the batch with `target` on had been written; None where it is outside."""
    if not log.first <= target <= log.end:
        return None
    if target == log.end:
        return log
    left = []
    for base, items in log.segments:
        if base > target:
            break
        left.append((base, [item for item in items if item.last < target]))
    found = log._replace(segments=left)
    if found.end < log.start:
        found = log._replace(segments=[(log.start, [])])
    active = found.segments[-1][0]
    return found._replace(replicated=min(log.replicated, found.end), cleaned=min(log.cleaned, active))


@given(logs(), st.data())
def test_truncate_leaves_the_files_of_a_naive_truncation(log, data):
    """What must not be there is what a broker would take for its own: a snapshot may be left that it does not load."""
    target = data.draw(st.sampled_from(offsets_of(log)).filter(lambda offset: offset >= 0))
    fs = disk_of(log)
    before = found_on(fs)
    outcome = kafkalog(fs, "truncate", PARTITION, "--to", str(target), "--single-replica", *SETTINGS, now_ms=NOW_MS)
    wanted = truncated(log, target)
    if wanted is None:
        assert (outcome.code, found_on(fs)) == (1, before), outcome
        assert f"valid range is {log.first} to {log.end}" in outcome.err
        return
    assert outcome.code == 0, outcome
    if wanted is log:
        assert "nothing to do" in outcome.out
        assert found_on(fs) == before
        return
    assert f"offsets {wanted.first} to {wanted.end}" in outcome.out
    there, files = found_on(fs), files_of(wanted, is_rebuilt=True)
    assert {name: there.get(name) for name in files} == files
    more = there.keys() - files.keys()
    assert {name for name in more if not name.endswith(".snapshot")} <= empty_aborted(there)
    assert all(int(name[:20]) <= wanted.first for name in more if name.endswith(".snapshot"))
    assert line(fs, "recovery-point") == line(fs, "replication") + wanted.end - wanted.replicated == wanted.end
    assert line(fs, "cleaner") == wanted.cleaned
    assert max(line(fs, "log-start"), wanted.segments[0][0]) == wanted.first


def empty_aborted(there):
    """Of a transaction index that is cut to nothing the file stays."""
    return {name for name, data in there.items() if name.endswith(".txnindex") and not data}


def without_records(log, before):
    """(base offsets that go, the new start), None where it is outside."""
    wanted = log.replicated if before == -1 else before
    if not 0 <= wanted <= log.replicated:
        return None
    start = max(wanted, log.first)
    bases = [base for base, _ in log.segments]
    return [base for base, following in zip(bases, bases[1:], strict=False) if following <= start], start


def epochs_from(epochs, start):
    """Those that count from `start` on: the one that holds it begins there."""
    at = bisect_right([first for _, first in epochs], start) - 1
    return epochs if at < 0 else [(epochs[at][0], start), *epochs[at + 1 :]]


@given(logs(), st.data())
def test_delete_records_leaves_the_files_of_a_naive_deletion(log, data):
    extra = [first for _, first in epochs_of(log.items)]
    before = data.draw(st.sampled_from([-1, *(offset for offset in offsets_of(log, extra) if offset >= 0)]))
    fs = disk_of(log)
    found = found_on(fs)
    argv = ("delete-records", PARTITION, "--before", str(before), "--single-replica", *SETTINGS)
    outcome = kafkalog(fs, *argv, now_ms=NOW_MS)
    wanted = without_records(log, before)
    if wanted is None:
        assert (outcome.code, found_on(fs)) == (1, found), outcome
        assert f"valid range is {log.first} to {log.replicated}" in outcome.err
        return
    assert outcome.code == 0, outcome
    gone, start = wanted
    if start == log.first:
        assert "nothing to do" in outcome.out
        assert found_on(fs) == found
        return
    moved = {name for name in found for base in gone if name.startswith(f"{base:020d}.")}
    files = {name + ".deleted" * (name in moved): content for name, content in found.items()}
    files["leader-epoch-checkpoint"] = checkpoint_of(epochs_from(epochs_of(log.items), start))
    assert found_on(fs) == files
    first = log.segments[len(gone)][0]
    assert max(line(fs, "log-start"), first) == start
    assert line(fs, "log-start") == (start if start > first else 0)
    assert line(fs, "cleaner") == max(log.cleaned, start)
    assert [offset for offset, _, _ in records(fs) if offset >= start] == [
        offset for offset in offsets_in(log) if offset >= start
    ]


def offsets_in(log):
    """The offsets of all records."""
    counts = accumulate(len(items) for _, items in log.segments)
    assert list(counts)
    return [offset for item in log.items for offset in of_batch(item)]


def of_batch(item):
    """A gap lies at a batch's end."""
    magic = item.data[16]
    if magic < 2:
        return range(item.base, item.last + 1)
    (count,) = struct.unpack_from(">i", item.data, 57)
    return range(item.base, item.base + count)
