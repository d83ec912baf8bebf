"""Each entry that an index of a small log can have, and each two of them, against the rules worked out by hand."""

import random
import struct
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.ops.checks import index_files, sidecar_files
from kafkalog_cli.ops.checks.file_report import ANY_STYLE, Style, Verdict
from kafkalog_cli.ops.checks.index_check import OffsetIndexCheck, ascending, rises
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk, record_offsets
from kafkalog_cli.ops.checks.sidecar_files import DirectoryFiles
from kafkalog_cli.ops.checks.time_index_check import TimeIndexCheck
from tests.ops.index_model import LOG_APPEND_TIME, Spec, write
from tests.ops.test_index_check import offset_report
from tests.support.faulty_fs import BytesFile

BASE = 100
LOGS = {
    "v2": [
        Spec((5, 6, 7)), Spec((8, 9)), Spec((9, 8), gap=2, cut=2), Spec((9,)),
        Spec((10,), attributes=LOG_APPEND_TIME), Spec((10,), attributes=LOG_APPEND_TIME),
    ],
    "sets": [
        Spec((5, 6), magic=1, packed=True), Spec((8, 7, 7), magic=1, packed=True), Spec((8,), magic=1),
        Spec((9,), magic=1, packed=True), Spec((9, 8), gap=2, magic=1, packed=True),
    ],
    "v0": [Spec((5,), magic=0), Spec((5,), magic=0), Spec((5,), gap=1, magic=0)],
}  # fmt: skip
EVERY_LOG = pytest.mark.parametrize(
    ("name", "forced", "size"),
    [(name, forced, size) for name in LOGS for forced in (False, True) for size in (1, 2, 9)],
)


class Batch(NamedTuple):
    """A batch by hand: `first` is what its header says or, of a set, the offset after the batch before."""

    position: int
    first: int
    last: int
    records: tuple[int, int]
    timestamp: int
    spec: Spec


@cache
def made(name):
    """The bytes of a log, and its batches."""
    specs = LOGS[name]
    log, written = write(BASE, [[spec] for spec in specs])
    found, before = [], BASE - 1
    for (one,), spec in zip(written, specs, strict=True):
        first = before + 1 if spec.packed else one.first
        records = (one.first, one.first + len(spec.timestamps) - 1)
        timestamp = max(spec.timestamps) if spec.magic else -1
        found.append(Batch(one.position, first, one.last, records, timestamp, spec))
        before = one.last
    return log, found


@cache
def walked(name, forced, size):
    """A walk over a log at its end, and what it gave, in runs of `size` batches."""
    walk = SegmentWalk(BytesFile(made(name)[0]), choice=KernelChoice(forced=forced))
    runs, reached, largest = [], -1, -1
    for run in walk:
        for at in range(0, len(run.batches), size):
            batches = run.batches.part(at, min(at + size, len(run.batches)))
            runs.append(BatchRun(batches, reached, largest, is_after_damage=False))
            reached, largest = runs[-1].last_reached, runs[-1].largest_timestamp
    return walk, runs


def checked(check, name, forced, size):
    """The (verdict, is tolerable, style) of each entry, after the log came in runs of `size` batches."""
    walk, runs = walked(name, forced, size)
    for run in runs:
        check.see(run)
    check.finish(walk)
    check.judge_order()
    return [(entry.verdict, entry.is_tolerable, entry.style) for entry in check.entries()]


def some_pairs(entries, seed):
    pairs = [*product(entries, repeat=2)]
    return random.Random(seed).sample(pairs, min(700, len(pairs)))


def offset_check(name, *entries):
    data = b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)
    file = BytesFile(made(name)[0])
    return OffsetIndexCheck(OffsetIndex(data, BASE), lambda batch: record_offsets(file, batch))


def time_check(*entries):
    data = b"".join(struct.pack(">qi", timestamp, offset - BASE) for timestamp, offset in entries)
    return TimeIndexCheck(TimeIndex(data, BASE))


RIGHT, BATCH_END = (Verdict.RIGHT, True), Style.PER_BATCH | Style.APPEND_CALL
MISLEADS, ODD = (Verdict.STALE, False, Style.NONE), (Verdict.STALE, True, Style.NONE)
BEYOND, DISORDERED = (Verdict.BEYOND_END, False, Style.NONE), (Verdict.OUT_OF_ORDER, False, Style.NONE)


def of_offset(name, offset, position):  # noqa: C901 a line per rule
    """What is said of an entry alone, and where its append call ends."""
    log, batches = made(name)
    if position >= len(log):
        return BEYOND, -1
    if position < 0:
        return MISLEADS, -1
    at = max(at for at, batch in enumerate(batches) if batch.position <= position)
    batch, before = batches[at], batches[at - 1].last if at else -1
    if batch.position == position and at and offset > batches[-1].last:
        return BEYOND, -1
    if offset < BASE:
        return DISORDERED, -1
    if batch.position != position:
        return MISLEADS, -1
    if not at:
        return ODD, -1
    if offset == batch.last:
        return (*RIGHT, ANY_STYLE if batch.first == batch.last else BATCH_END), -1
    if offset <= before:
        return MISLEADS, -1
    target = next(one for one in batches if one.last >= offset)
    if target is not batch and offset == target.last:
        return (*RIGHT, Style.APPEND_CALL), target.position
    if offset == batch.first or (batch.spec.packed and offset == batch.records[0]):
        return (*RIGHT, Style.FIRST_OFFSET), -1
    if offset == target.records[1]:
        return (*RIGHT, Style.APPEND_CALL), target.position
    return ODD, -1


@cache
def offset_entries(name):
    log, batches = made(name)
    places = {batch.position + more for batch in batches for more in (-1, 0, 1)} | {
        len(log) - 1,
        len(log),
        len(log) + 1,
    }
    return [*product(range(BASE - 1, batches[-1].last + 3), sorted(places))]


@EVERY_LOG
def test_what_is_said_of_each_offset_entry(name, forced, size):
    for entry in offset_entries(name):
        assert checked(offset_check(name, entry), name, forced, size) == [of_offset(name, *entry)[0]], entry


@pytest.mark.exhaustive
@EVERY_LOG
def test_what_is_said_of_two_offset_entries(name, forced, size):
    """An entry does not go below one before it that can be right, and an append call ends before the next entry."""
    entries = [entry for entry in offset_entries(name) if entry[1] in {batch.position for batch in made(name)[1]}]
    for one, other in some_pairs(entries, size):
        (first, ends), (second, _) = of_offset(name, *one), of_offset(name, *other)
        if first[:2] == second[:2] == RIGHT and other[1] > one[1] and ends >= other[1]:
            first = ODD
        is_low = other[0] <= one[0] or other[1] <= one[1]
        if second[0] in (Verdict.RIGHT, Verdict.STALE) and first[:2] == RIGHT and is_low:
            second = DISORDERED
        assert checked(offset_check(name, one, other), name, forced, size) == [first, second], (one, other)


def of_time(name, timestamp, offset, *, is_last=True):
    """What is said of an entry alone."""
    _, batches = made(name)
    largest = max(batch.timestamp for batch in batches)
    at = next((at for at, batch in enumerate(batches) if batch.last >= offset), None)
    if at is None:
        return Verdict.BEYOND_END, not (is_last and timestamp > largest)
    batch = batches[at]
    before = max((one.timestamp for one in batches[:at]), default=-1)
    so_far = max(before, batch.timestamp)
    fits = batch.first <= offset and so_far == timestamp == batch.timestamp
    verdict = Verdict.RIGHT if fits and (before < timestamp or batch.spec.attributes) else Verdict.STALE
    if batch.first <= offset and so_far < timestamp and batch.spec.magic == 0:
        verdict = Verdict.GONE
    if offset < BASE:
        verdict = Verdict.OUT_OF_ORDER
    return verdict, before < timestamp and not (is_last and timestamp > largest)


@cache
def time_entries(name):
    return [*product((-1, 0, *range(5, 12)), range(BASE - 1, made(name)[1][-1].last + 3))]


@EVERY_LOG
def test_what_is_said_of_each_time_entry(name, forced, size):
    for entry in time_entries(name):
        wanted = of_time(name, *entry)
        if entry[0] < 0 and wanted[0] is not Verdict.BEYOND_END:
            wanted = Verdict.OUT_OF_ORDER, wanted[1]
        assert [found[:2] for found in checked(time_check(entry), name, forced, size)] == [wanted], entry


@pytest.mark.exhaustive
@EVERY_LOG
def test_what_is_said_of_two_time_entries(name, forced, size):
    """Timestamps go up and offsets do not go down, from one to the next that can be right."""
    entries = [entry for entry in time_entries(name) if entry[0] >= 0]
    for one, other in some_pairs(entries, size):
        first, second = of_time(name, *one, is_last=False), of_time(name, *other)
        is_reference = first[0] in (Verdict.RIGHT, Verdict.GONE)
        is_low = other[0] <= one[0] or other[1] < one[1]
        if second[0] is not Verdict.BEYOND_END and is_reference and is_low:
            second = Verdict.OUT_OF_ORDER, second[1]
        assert [found[:2] for found in checked(time_check(one, other), name, forced, size)] == [first, second], (
            one,
            other,
        )


def test_keys_that_rise():
    for keys in product(range(3), repeat=3):
        for before in (-1, 0, 1):
            assert rises(keys, before) == (before < keys[0] < keys[1] < keys[2])
        assert [keys[at] for at in ascending(keys)] == sorted(keys)
        assert isinstance(ascending(keys), range) == (list(keys) == sorted(keys))
    assert rises((), 5)


@pytest.mark.parametrize(
    ("position", "verdict"), [(-1, Verdict.STALE), (0, Verdict.UNVERIFIED), (60, Verdict.UNVERIFIED)]
)
def test_an_entry_that_points_into_damage_before_all_batches_is_not_judged(position, verdict):
    log, _ = made("v2")
    walk = SegmentWalk(BytesFile(bytes(61) + log))
    check = offset_check("v2", (BASE + 1, position))
    for run in walk:
        assert run.batches.row(0).position == 61
        check.see(run)
    check.finish(walk)
    assert [entry.verdict for entry in check.entries()] == [verdict]


def test_the_batch_in_which_no_other_begins_is_named():
    for number, batch in enumerate(made("v2")[1][:3]):
        check = offset_check("v2", (batch.last, batch.position + 5))
        checked(check, "v2", False, 9)
        (entry,) = check.entries()
        assert f"it is inside the batch at {batch.position}, offsets {batch.first} to {batch.last}" in entry.detail, (
            number
        )


@pytest.mark.parametrize("count", [2, 3, 4])
def test_so_many_entries_are_checked(monkeypatch, count):
    monkeypatch.setattr(index_files, "MAX_ENTRIES", 3)
    log, batches = made("v2")
    entries = [(batch.last, batch.position) for batch in batches[1 : 1 + count]]
    report = offset_report(BASE, log, entries)
    assert len(list(report.entries)) == (count if count <= 3 else 0)
    assert any("too many to check" in note.message for note in report.notes) == (count > 3)


def test_so_many_bytes_of_a_file_are_read(tmp_path, monkeypatch):
    """Small files are read once, as long as all of them are not too many bytes."""
    files = object.__new__(DirectoryFiles)
    monkeypatch.setattr(sidecar_files, "READ_ONCE_BYTES", 10)
    for size, limit, is_kept in ((10, 10, True), (11, 20, False), (10, 9, False), (4, 10, True)):
        path = str(tmp_path / f"{size}-{limit}.snapshot")
        (tmp_path / f"{size}-{limit}.snapshot").write_bytes(b"x" * size)
        files.fs, files._held, files._small, files._left_bytes = RealFilesystem(), {}, {}, 100
        file = SimpleNamespace(
            status=SimpleNamespace(path=path, size_bytes=size), name=SimpleNamespace(kind=FileKind.PRODUCER_SNAPSHOT)
        )
        content = files.read(file, limit)
        assert content.is_whole == (size <= limit)
        assert (path in files._small) == is_kept
        assert files._left_bytes == (100 - size if is_kept else 100)
        files._small, files._left_bytes = {}, size
        files.read(file, limit)
        assert (path in files._small) == is_kept
        files._small, files._left_bytes = {}, size - 1
        files.read(file, limit)
        assert not files._small


@pytest.mark.parametrize(("more", "is_index"), [(0, True), (8, False)])
def test_a_preallocated_index_is_no_larger_than_a_setting_can_be(monkeypatch, more, is_index):
    """segment.index.bytes is an int32: the largest index has so many bytes that are whole entries."""
    pieces = []
    monkeypatch.setattr(sidecar_files, "file_pieces", lambda file, start: pieces.append(start) or [bytes(8)])
    largest = (2**31 - 1) // 8 * 8
    file = SimpleNamespace(size_bytes=largest + more)
    assert sidecar_files._ends_in_zeros(file, FileKind.OFFSET_INDEX, 800) == is_index
    assert pieces == ([800] if is_index else [])


def test_each_append_call_ends_before_the_next_entry():
    """Also where another one does not."""
    batches = made("v2")[1]
    entries = [
        (batches[2].last, batches[1].position),
        (batches[5].last, batches[3].position),
        (batches[4].last, batches[4].position),
    ]
    found = checked(offset_check("v2", *entries), "v2", False, 9)
    assert [one[:2] for one in found] == [RIGHT, ODD[:2], RIGHT]
