"""Power cuts after every call of a command, and what the next commands must make of the disk then."""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from tests.crash.log_directories import (
    END,
    MARKER,
    OWN,
    PARTITION,
    RECOVERY_POINT,
    ROOT,
    contents,
    identity,
    records,
    records_of,
)
from tests.crash.writers import (
    KEPT,
    LIKE_BROKER,
    NEW,
    NEW_ID,
    NOW_MS,
    OUT,
    RECOVER,
    ROLL_AND_ERASE,
    RUN_ID,
    SETTINGS,
    UNDO,
    Kind,
    Left,
    Writer,
    kafkalog,
    runs_of,
    undo_all,
)
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem, Survival
from tests.support.watched_fs import Call, RecordingFilesystem

Wrap = Callable[[object], object]
Tree = dict[str, object]
UNFINISHED = f"{OUT}/t-0.partial"
FINISHED = {"done", "undone"}
BESIDE_THE_MARKER = f"{ROOT}/.kafkalog-clean-shutdown"
RECOVER_LATER = replace(RECOVER, now_ms=NOW_MS + 1000)
"""Runs of several commands are in order by their time."""


class Image(NamedTuple):
    """A disk after a power cut, or else a fault. `is_over`: the command had told of its success."""

    where: str
    disk: MemoryFilesystem
    is_over: bool
    is_power_cut: bool = True


class Expected(NamedTuple):
    """What lies on the disk before a command and after a run of it that nothing disturbed."""

    before: dict[str, bytes]
    after: dict[str, bytes]
    records_before: list[object]
    records_after: list[object]
    tree_before: Tree
    tree_after: Tree
    held: bytes | None  # beside the place of the marker, after the run


@cache
def expected(writer: Writer, fixture: str) -> Expected:
    """Of a command on one of the fixtures."""
    disk = writer.disk(fixture)
    before, records_before, tree = contents(disk), records(disk), own_tree(disk)
    outcome = writer.act(disk)
    assert outcome.code in writer.codes, outcome
    assert _states(disk) <= FINISHED
    assert own_tree(disk) != tree, "nothing to do"
    return Expected(before, contents(disk), records_before, records(disk), tree, own_tree(disk), _held(disk))


def own_tree(fs: MemoryFilesystem) -> Tree:
    """Content and attributes of all but what we keep, `.lock`, and the times of directories we make things in."""
    return {
        path: facts
        for path, facts in fs.tree().items()
        if "/.kafkalog" not in path and path not in ("/", OUT, ROOT, f"{ROOT}/.lock")
    }


@cache
def known_good(writer: Writer, fixture: str) -> set[object]:
    """The images of a command on a fixture that any test of this process has looked at: most faults leave one of a
    power cut."""
    return set()


def copy(disk: MemoryFilesystem) -> MemoryFilesystem:
    """The same disk, for a try."""
    return disk.image(KEPT)


class WriterMatrix:
    """One command on one fixture; `wrap` puts a mutant between the command and the disk."""

    def __init__(self, writer: Writer, fixture: str, known: set[object] | None = None) -> None:
        self.writer = writer
        self.fixture = fixture
        self.expected = expected(writer, fixture)
        self.counts: Counter[str] = Counter()
        self.known = set() if known is None else known
        """Images that were found good: a mutant leaves mostly the same."""
        self.drawn: list[int] = []
        """For each image of the last `images` that is not known its number among the distinct ones."""
        self._idle: set[object] = set()

    def images(
        self, wrap: Wrap = lambda fs: fs, survivals: tuple[Survival, ...] = SURVIVALS, within: Image | None = None
    ) -> list[Image]:
        """Every image of a run, those alike only once; both are counted. `within`: a run on that one's disk."""
        disk = self.writer.disk(self.fixture) if within is None else within.disk
        before = "" if within is None else f", {within.where}"
        found: list[Image] = []
        seen: dict[object, int] = {}
        keys: set[object] = set()
        self.drawn = []

        def keep(where: str, is_over: bool) -> None:
            for name, image in disk.images(survivals):
                self.counts["images"] += 1
                key = _key(image, is_over)
                keys.add(key)
                if key in self.known:
                    continue
                if key not in seen:
                    seen[key] = len(found)
                    found.append(Image(f"{name} {where}{before}", image, is_over))
                self.drawn.append(seen[key])

        def cut(call: Call) -> None:
            self.counts["points"] += 1
            keep(f"after {call[:3]} of {self.writer.name}", False)

        recorder = RecordingFilesystem(disk, cut)
        outcome = self.writer.act(wrap(recorder), token="0001" if within is None else "0002")
        assert outcome.code in self.writer.codes or (within is not None and self._may_refuse(outcome.code)), outcome
        keep(f"after all of {self.writer.name}", within is None)
        self.counts["distinct"] += len(keys)
        return found

    def _may_refuse(self, code: int) -> bool:
        """What is salvaged does not go where all of it is."""
        return self.writer.kind is Kind.COPIES and code == 14

    def look(self, image: Image) -> None:
        """What the next commands make of an image; the image is changed."""
        key = _key(image.disk, image.is_over)
        if key in self.known:
            return
        looks = {
            Kind.REPAIRS: self._look_repair,
            Kind.CHANGES: self._look_change,
            Kind.FREES: self._look_freeing,
            Kind.CLEANS: self._look_cleaning,
            Kind.UNDOES: self._look_undo,
            Kind.REMOVES: self._look_removal,
            Kind.COPIES: self._look_copy,
            Kind.APPENDS: self._look_append,
            Kind.MAKES: self._look_making,
        }
        try:
            if image.is_over:
                assert own_tree(image.disk) == self.expected.tree_after, "told of success, and it is not on the disk"
                assert _states(image.disk) <= FINISHED, "told of success, and what the run left says otherwise"
                assert _held(image.disk) == self.expected.held, "told of success, and another marker is kept"
            if self.writer.kind not in (Kind.REMOVES, Kind.COPIES):
                self._check_marker(image.disk)
            looks[self.writer.kind](image)
        except AssertionError as error:
            raise AssertionError(f"{self.fixture}, {image.where}: {error}") from error
        self.known.add(key)

    # -- repairs

    def _look_repair(self, image: Image) -> None:
        disk = image.disk
        has_begun = _has_begun(disk)
        self._ends_as_the_whole_run(disk)
        assert self._is_idle(disk), "a second run finds something to do"
        self._is_undone(disk, has_begun=has_begun)

    def _check_marker(self, disk: MemoryFilesystem) -> None:
        """It lies beside what it speaks of, or is kept; there is none where none was."""
        there, want = contents(disk), self.expected
        if self.writer.kind is Kind.MAKES and not made_records(disk):  # an empty partition says nothing yet
            there = {path: data for path, data in there.items() if not path.startswith((f"{NEW}/", f"{NEW}."))}
        if self.writer.keeps_marker:
            assert there.get(MARKER) == want.before.get(MARKER), "the marker is away, and no active segment is touched"
            return
        marker = want.before.get(MARKER, want.after.get(MARKER))
        if marker is None and want.held is None:
            assert MARKER not in there, "a marker where none was"
        elif MARKER in there:
            states = (_without(want.before, MARKER), _without(want.after, MARKER))
            if (
                self.writer is ROLL_AND_ERASE and f"{PARTITION}/{END:020d}.log" in there
            ):  # rolled; the erasure itself leaves the marker
                return
            assert _without(there, MARKER) in states, "a marker beside what is neither"
        else:
            kept = base64.b64decode(_document(_held(disk)).get("content", ""))
            assert marker in (None, kept), "the marker is gone"

    def _is_undone(self, disk: MemoryFilesystem, *, has_begun: bool) -> None:
        """The marker of a run that was cut off before it began stays away: nothing tells that it did nothing.

        What was due of earlier runs does not come back.
        """
        undo_all(disk)
        there = own_tree(disk)
        before = self.without_due(there)
        assert _but_marker(there) == _but_marker(before), "what went was not all kept"
        if has_begun or MARKER in contents(disk):
            assert own_tree(disk).get(MARKER) == before.get(MARKER), "the marker did not come back"

    def without_due(self, there: Tree) -> Tree:
        """What was there before, but for what was due of earlier runs and is gone now."""
        before, is_change = self.expected.tree_before, self.writer.kind in (Kind.CHANGES, Kind.CLEANS)
        gone = {path for path in before.keys() - there.keys() if is_change and path.endswith(".deleted")}
        return {path: facts for path, facts in before.items() if path not in gone}

    def _ends_as_the_whole_run(self, disk: MemoryFilesystem) -> None:
        outcome = self.writer.act(disk, token="0003")
        assert outcome.code in self.writer.codes | self.writer.codes_again, outcome
        found = records(disk)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets)), f"offsets twice or out of order: {offsets}"
        assert found == self.expected.records_after, "other records"
        if self.writer is not LIKE_BROKER:
            wanted, there = comparable(self.expected.after), comparable(contents(disk))
            differ = {path for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path)}
            older = _older_snapshots(wanted) | _older_snapshots(there)
            assert {path for path in differ if path not in older or path in wanted.keys() & there.keys()} == set(), (
                "other files"
            )

    def _is_idle(self, disk: MemoryFilesystem) -> bool:
        before = contents(disk)
        key = frozenset(before.items())
        if key in self._idle:  # what we keep is no concern of a run that has nothing to do
            return True
        recorder = RecordingFilesystem(disk)
        assert self.writer.act(recorder, token="0004").code in self.writer.codes | self.writer.codes_again
        if self.writer is LIKE_BROKER and recorder.changes:
            # The first obeyed a marker that is away now, or a snapshot that it then took away, as a broker does.
            before = contents(disk)
            recorder = RecordingFilesystem(disk)
            assert self.writer.act(recorder, token="0005").code in self.writer.codes
        elif not recorder.changes:
            self._idle.add(key)
        return not recorder.changes and contents(disk) == before

    # -- changes

    def _look_change(self, image: Image) -> None:
        disk = image.disk
        self._check_left(disk)
        has_begun, other = _has_begun(disk), copy(disk)
        outcome = RECOVER_LATER.act(other, token="0003")
        if outcome.code == 14 and "kafkalog undo" in outcome.err:  # it would cut what an earlier run keeps
            undo_all(other)
            outcome = RECOVER_LATER.act(other, token="0005")
        assert outcome.code == 0, outcome
        self._check_left(other)
        if self.writer.comes_back:
            self._is_undone(other, has_begun=has_begun)
        self._ends_as_the_whole_run(disk)
        assert self._is_idle(disk), "a second run finds something to do"
        if self.writer.comes_back:
            self._is_undone(disk, has_begun=has_begun)

    def _check_left(self, disk: MemoryFilesystem) -> None:
        """What goes is what was to go, and goes from one side."""
        want, found = self.expected, records(disk)
        count = len(found)
        assert count >= len(want.records_after), "more went than was to go"
        if self.writer.left is Left.ALL:
            assert found == want.records_before, "a record went"
        elif self.writer.left is Left.BEGINNING:
            assert found == want.records_before[:count], "not the beginning of what was"
        else:
            assert found == want.records_before[len(want.records_before) - count :], "not the end of what was"

    def _look_cleaning(self, image: Image) -> None:
        """A broker, and `recover`, complete what was being swapped in, or leave the old; undo gives back what was."""
        disk, want = image.disk, self.expected
        has_begun, other, broker = _has_begun(disk), copy(disk), copy(disk)
        _forget_runs(broker)  # a broker knows nothing of them
        for there in (broker, other):
            assert RECOVER_LATER.act(there, token="0003").code == 0
            found = records(there)
            offsets = [offset for offset, _, _ in found]
            assert offsets == sorted(set(offsets)), f"offsets twice or out of order: {offsets}"
            assert set(want.records_after) <= set(found) <= set(want.records_before), (
                "a record is lost, or is a new one"
            )
        if self.writer.comes_back:
            self._is_undone(other, has_begun=has_begun)
        self._ends_as_the_whole_run(disk)
        assert self._is_idle(disk), "a second run finds something to do"
        if self.writer.comes_back:
            self._is_undone(disk, has_begun=has_begun)

    def _look_freeing(self, image: Image) -> None:
        """What was unlinked before the cut was not written down; a broker makes the same of it when it starts."""
        disk, want = image.disk, self.expected
        self._check_left(disk)
        other = copy(disk)
        assert RECOVER_LATER.act(other, token="0003").code == 0
        self._check_left(other)
        outcome = self.writer.act(disk, token="0003")
        assert outcome.code in self.writer.codes, outcome
        there = contents(disk)
        assert _of_kind(there, ".log") == _of_kind(want.after, ".log"), "other logs"
        assert _of_kind(there, "index").keys() == _of_kind(want.after, "index").keys(), "an index without its log"
        assert self._is_idle(disk), "a second run finds something to do"

    # -- appends

    def _look_append(self, image: Image) -> None:
        """What is there is what was before and a part of what came; it can be recovered, gone on from and taken back."""
        disk = image.disk
        has_begun, other = _has_begun(disk), copy(disk)
        self._check_grown(disk)
        if image.is_power_cut:
            self._check_flushed(disk)
        outcome = RECOVER_LATER.act(other, token="0003")
        assert outcome.code == 0, outcome
        self._check_grown(other)
        found = len(records(other))
        again = copy(other)
        outcome = replace(self.writer, now_ms=NOW_MS + 2000).act(again, token="0004")
        assert outcome.code in self.writer.codes, outcome
        count = len(self.expected.records_after) - len(self.expected.records_before)
        assert len(records(again)) == found + count, "a second run appends something else"
        for taken_back in (disk, other, again):
            self._is_undone(taken_back, has_begun=has_begun)

    def _check_grown(self, disk: MemoryFilesystem) -> None:
        want, found = self.expected, records(disk)
        assert len(found) >= len(want.records_before), "a record went"
        assert found == want.records_after[: len(found)], "not the beginning of what was to be there"

    def _check_flushed(self, disk: MemoryFilesystem) -> None:
        """What lies below the recovery point is there: a broker does not look."""
        point, was = recovery_point(disk), recovery_point(self.writer.disk(self.fixture))
        behind = self.expected.records_after[len(records(disk)) :]
        missing = [offset for offset, _, _ in behind if point is not None and offset < point != was]
        assert not missing, f"{missing} are below the recovery point, and not there"

    # -- appends to a partition that is not there

    def _look_making(self, image: Image) -> None:
        """Nothing else is touched; it can be recovered, made again and taken back from wherever it was cut off."""
        disk = image.disk
        wanted = _others(self.expected.before)
        assert _others(contents(disk)) == wanted, "something else was touched"
        there = made_records(disk)
        assert there in ([], MADE), there
        assert not image.is_over or there, "told of success, and it is not on the disk"
        recovered = copy(disk)
        if recovered.status(NEW_LOG) is not None:
            outcome = kafkalog(recovered, "recover", NEW, *SETTINGS, now_ms=NOW_MS + 1000, token="0003")
            assert outcome.code == 0, outcome
            assert made_records(recovered) == there
        again, later = copy(disk), replace(self.writer, now_ms=NOW_MS + 2000)
        outcome = later.act(again, token="0004")
        if outcome.code == 14 and "it is damaged" in outcome.out:  # a torn batch
            again = copy(recovered)
            outcome = later.act(again, token="0004")
        assert outcome.code == 0, outcome
        assert made_records(again) == [*there, *MADE]
        metadata = contents(again)[f"{NEW}/partition.metadata"]
        assert metadata == f"version: 0\ntopic_id: {NEW_ID}".encode()
        for tried in (copy(disk), recovered, again):
            undo_new(tried)
            assert made_records(tried) == []
            assert _others(contents(tried)) == wanted

    # -- undo

    def _look_undo(self, image: Image) -> None:
        disk, want = image.disk, self.expected
        if image.is_over:
            kept = [entry.path for entry in disk.list_directory(f"{OWN}/{RUN_ID}")]
            assert kept == [f"{OWN}/{RUN_ID}/manifest.json"], "told of success, and what was kept is still there"
        other = copy(disk)
        assert RECOVER.act(other, token="0003").code == 0
        assert records(other) == want.records_before, "recover after an undo that was cut off"
        outcome = self.writer.act(disk)
        assert outcome.code == 0, outcome
        assert own_tree(disk) == want.tree_after, "the second undo did not give back what was"
        recorder = RecordingFilesystem(disk)
        outcome = self.writer.act(recorder)
        assert outcome.code == 0, outcome
        assert "undone before" in outcome.out
        assert not recorder.changes

    # -- purge

    def _look_removal(self, image: Image) -> None:
        disk, want = image.disk, self.expected
        if image.is_over:
            assert not runs_of(disk), "told of success, and the run is there"
        there = contents(disk)
        gone = want.before.keys() - there.keys()
        assert gone <= want.before.keys() - want.after.keys(), f"{gone} gone"
        assert all(want.before[path] == data for path, data in there.items()), "a file was changed"
        self._undoes_or_refuses(copy(disk))
        outcome = self.writer.act(disk)
        assert outcome.code == 0, outcome
        assert contents(disk) == want.after, "the second purge did not end where the first would have"
        assert not runs_of(disk)
        recorder = RecordingFilesystem(disk)
        assert self.writer.act(recorder).code == 0
        assert not recorder.changes

    def _undoes_or_refuses(self, disk: MemoryFilesystem) -> None:
        there = own_tree(disk)
        outcome = kafkalog(disk, "undo", PARTITION, RUN_ID)
        if outcome.code in (10, 14):
            assert own_tree(disk) == there, f"refused, and changed: {outcome.err}"
            return
        assert outcome.code == 0, outcome
        if "never began" in outcome.out or "undone" not in outcome.out:
            assert own_tree(disk) == there, outcome
            return
        kept = expected(UNDO, self.fixture).after
        assert _without(contents(disk), MARKER).items() >= _without(kept, MARKER).items(), "undone, and not as it was"

    # -- salvage

    def _look_copy(self, image: Image) -> None:
        disk, want = image.disk, self.expected
        source, target = _parted(own_tree(disk))
        wanted_source, wanted = _parted(want.tree_after)
        assert source == wanted_source, "the source was changed"
        assert target in ({}, wanted), "a part of it has the name of the whole"
        if disk.status(UNFINISHED) is not None:
            outcome = self.writer.act(disk)
            assert outcome.code == 14, outcome
            assert UNFINISHED in outcome.err
            for entry in disk.list_directory(UNFINISHED):
                disk.unlink(entry.path)
            disk.remove_directory(UNFINISHED)
        outcome = self.writer.act(disk)
        assert outcome.code == 14 if target else outcome.code in self.writer.codes, outcome
        assert _parted(own_tree(disk)) == (wanted_source, wanted), (
            "the second run did not copy what the first would have"
        )
        recorder = RecordingFilesystem(disk)
        assert self.writer.act(recorder).code == 14
        assert not recorder.changes


MADE = [b"one", b"two"]
NEW_LOG = f"{NEW}/{0:020d}.log"


def made_records(disk: MemoryFilesystem) -> list[object]:
    """The values in the partition that MAKE makes."""
    return [value for _, _, value in records_of(contents(disk).get(NEW_LOG, b""))]


def undo_new(disk: MemoryFilesystem) -> None:
    """Take all runs on that partition back, the newest first."""
    own = f"{NEW}/.kafkalog"
    names = [entry.path for entry in disk.list_directory(own) if entry.is_directory] if disk.status(own) else []
    for path in sorted(names, reverse=True):
        if disk.status(path) is not None:
            outcome = kafkalog(disk, "undo", NEW, path.rpartition("/")[2], now_ms=NOW_MS + 5000)
            assert outcome.code == 0, outcome


def _others(files: dict[str, bytes]) -> dict[str, bytes]:
    """All but that partition, its line in the checkpoint, and the marker."""
    apart = (MARKER, BESIDE_THE_MARKER, RECOVERY_POINT)
    kept = {path: data for path, data in files.items() if not path.startswith((f"{NEW}/", f"{NEW}."))}
    return {path: data for path, data in kept.items() if path not in apart and not path.endswith(".tmp")}


def recovery_point(disk: MemoryFilesystem) -> int | None:
    """What the checkpoint says of PARTITION."""
    lines = contents(disk)[RECOVERY_POINT].decode().splitlines()
    return next((int(line.split()[2]) for line in lines if line.startswith("t 0 ")), None)


def comparable(files: dict[str, bytes]) -> dict[str, object]:
    """Without the marker; of a producer snapshot what does not hang on which older snapshot it was made from.

    A broker forgets the coordinator's epoch when it reads a log from its start, and not when from a snapshot.
    """
    return {
        path: _producers(data) if path.endswith(".snapshot") else data for path, data in _without(files, MARKER).items()
    }


def _of_kind(files: dict[str, bytes], suffix: str) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if path.endswith(suffix)}


def _forget_runs(disk: MemoryFilesystem) -> None:
    """Take away what all runs keep beside the log."""
    if disk.status(OWN) is None:
        return
    for path in sorted((path for path, _ in disk.walk(OWN)), key=len, reverse=True):
        status = disk.status(path)
        assert status is not None
        if status.is_directory:
            disk.remove_directory(path)
        else:
            disk.unlink(path)
    disk.settle()


def _has_begun(disk: MemoryFilesystem) -> bool:
    """Whether each run for which the marker is away has told what it is about to do."""
    waited_for = _document(_held(disk)).get("reasons", {})
    return all(disk.status(f"{OWN}/{run_id}/manifest.json") is not None for run_id in waited_for)


def _states(disk: MemoryFilesystem) -> set[str]:
    """What the manifests say of their runs."""
    found = (inode.content for path, inode in disk.walk(ROOT) if path.endswith("/manifest.json"))
    return {_document(content).get("state", "unreadable") for content in found}


def _document(data: bytes | None) -> dict[str, Any]:
    """Empty for what cannot be read."""
    try:
        return json.loads(data or b"{}")
    except ValueError:
        return {}


def _held(disk: MemoryFilesystem) -> bytes | None:
    return None if disk.status(BESIDE_THE_MARKER) is None else disk.tree(BESIDE_THE_MARKER)[BESIDE_THE_MARKER][0]


def _key(disk: MemoryFilesystem, is_over: bool) -> object:
    return is_over, hash(identity(disk, exact=is_over))


def _older_snapshots(files: dict[str, object]) -> set[str]:
    """Of no use beside the newest: a wrong one is made anew with it, or taken away if that is good."""
    return set(sorted(path for path in files if path.endswith(".snapshot"))[:-1])


def _producers(snapshot: bytes) -> list[bytes]:
    entry_bytes = struct.calcsize(">qhiqiqiq")
    entries = [snapshot[at : at + entry_bytes] for at in range(10, len(snapshot), entry_bytes)]
    return sorted(entry[:-12] + entry[-8:] for entry in entries)


def _without(files: dict[str, bytes], path: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name not in (path, BESIDE_THE_MARKER)}


def _but_marker(tree: Tree) -> Tree:
    """Without the marker, a write of a checkpoint that was cut off, and the times of the partition's directory.

    Making `.kafkalog` changes these for a moment.
    """
    there = (path for path in tree if path not in (MARKER, BESIDE_THE_MARKER, PARTITION))
    return {path: tree[path] for path in there if not path.endswith("-checkpoint.tmp")}


def _parted(tree: Tree) -> tuple[Tree, Tree]:
    """What is there besides OUT, and what of OUT has no name of something unfinished; without its times."""
    source = {path: facts for path, facts in tree.items() if not path.startswith(f"{OUT}/")}
    target = {path: facts[:4] + facts[5:] for path, facts in tree.items() if path.startswith(f"{OUT}/")}
    return source, {path: facts for path, facts in target.items() if not path.startswith(UNFINISHED)}
