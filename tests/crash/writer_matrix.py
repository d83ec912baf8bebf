"""Power cuts after every call of a command, and what the next commands must make of the disk then."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from log_directories import MARKER, PARTITION, ROOT, contents, identity, records
from memory_fs import SURVIVALS, MemoryFilesystem, Survival
from watched_fs import Call, RecordingFilesystem
from writers import LIKE_BROKER, RECOVER, RUN_ID, UNDO, Writer, kafkalog, runs_of, undo_all

KEPT = SURVIVALS[0]
Wrap = Callable[[object], object]


class Image(NamedTuple):
    """A disk after a power cut. `is_over`: the command had told of its success."""

    where: str
    disk: MemoryFilesystem
    is_over: bool


class Expected(NamedTuple):
    """What lies on the disk before a command and after a run of it that nothing disturbed."""

    before: dict[str, bytes]
    after: dict[str, bytes]
    records_before: list[object]
    records_after: list[object]
    tree_before: dict[str, object]
    tree_after: dict[str, object]
    marker: bool


@cache
def expected(writer: Writer, fixture: str) -> Expected:
    """Of a command on one of the fixtures."""
    disk = writer.disk(fixture)
    before, records_before, tree, marker = contents(disk), records(disk), own_tree(disk), MARKER in contents(disk)
    assert writer.act(disk).code == 0
    return Expected(before, contents(disk), records_before, records(disk), tree, own_tree(disk), marker)


def own_tree(fs: MemoryFilesystem) -> dict[str, object]:
    """Content and attributes of all but what we keep, `.lock`, and the root directory's own mtime."""
    tree = fs.tree(ROOT)
    return {
        path: facts
        for path, facts in tree.items()
        if "/.kafkalog" not in path and path not in (ROOT, f"{ROOT}/.lock", f"{ROOT}/.kafkalog-clean-shutdown")
    }


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

    def images(
        self, wrap: Wrap = lambda fs: fs, survivals: tuple[Survival, ...] = SURVIVALS, within: Image | None = None
    ) -> list[Image]:
        """Every image of a run, those alike only once; both are counted. `within`: a run on that one's disk."""
        disk = self.writer.disk(self.fixture) if within is None else within.disk
        before = "" if within is None else f", {within.where}"
        found: list[Image] = []
        seen: set[object] = set()

        def keep(where: str, is_over: bool) -> None:
            for name, image in disk.images(survivals):
                self.counts["images"] += 1
                key = (is_over, identity(image))
                if key not in seen and key not in self.known:
                    seen.add(key)
                    found.append(Image(f"{name} {where}", image, is_over))

        def cut(call: Call) -> None:
            self.counts["points"] += 1
            keep(f"after {call[:3]} of {self.writer.name}", False)

        recorder = RecordingFilesystem(disk, cut)
        outcome = self.writer.act(wrap(recorder), token="0001" if within is None else "0002")
        assert outcome.code == 0, outcome
        keep(f"after all of {self.writer.name}", within is None)
        self.counts["distinct"] += len(found)
        return [Image(image.where + before, image.disk, image.is_over) for image in found]

    def look(self, image: Image) -> None:
        """What the next commands make of an image; the image is changed."""
        key = (image.is_over, identity(image.disk))
        try:
            if self.writer.recovers:
                self._look_recover(image)
            elif self.writer is UNDO:
                self._look_undo(image)
            else:
                self._look_purge(image)
        except AssertionError as error:
            raise AssertionError(f"{self.fixture}, {image.where}: {error}") from error
        self.known.add(key)

    # -- recover

    def _look_recover(self, image: Image) -> None:
        disk, want = image.disk, self.expected
        if image.is_over:
            assert own_tree(disk) == want.tree_after, "told of success, and it is not on the disk"
        there = contents(disk)
        if MARKER in there:
            assert want.marker, "a marker where none was"
            assert _without(there, MARKER) in (_without(want.before, MARKER), _without(want.after, MARKER)), (
                "a marker beside what is neither"
            )
        self._recovers(disk)
        assert self._is_idle(disk), "a second run finds something to do"
        undo_all(disk)
        assert contents(disk) == want.before or _without(contents(disk), MARKER) == _without(want.before, MARKER), (
            "what went was not all kept"
        )

    def _recovers(self, disk: MemoryFilesystem) -> None:
        """A run of the same command ends where the first would have."""
        outcome = self.writer.act(disk, token="0003")
        assert outcome.code == 0, outcome
        found = records(disk)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets)), f"offsets twice or out of order: {offsets}"
        assert found == self.expected.records_after, "other records"
        if self.writer is not LIKE_BROKER:
            assert comparable(contents(disk)) == comparable(self.expected.after), "other files"

    def _is_idle(self, disk: MemoryFilesystem) -> bool:
        recorder = RecordingFilesystem(disk)
        before = contents(disk)
        assert self.writer.act(recorder, token="0004").code == 0
        if self.writer is LIKE_BROKER and recorder.changes:
            # The first obeyed a marker that is away now, or a snapshot that it then took away, as a broker does.
            before = contents(disk)
            recorder = RecordingFilesystem(disk)
            assert self.writer.act(recorder, token="0005").code == 0
        return not recorder.changes and contents(disk) == before

    # -- undo

    def _look_undo(self, image: Image) -> None:
        disk, want = image.disk, self.expected
        if image.is_over:
            assert own_tree(disk) == want.tree_after, "told of success, and it is not on the disk"
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

    def _look_purge(self, image: Image) -> None:
        disk, want = image.disk, self.expected
        if image.is_over:
            assert contents(disk) == want.after, "told of success, and files that were due are there"
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


def comparable(files: dict[str, bytes]) -> dict[str, object]:
    """Without the marker; of a producer snapshot what does not hang on which older snapshot it was made from.

    A broker forgets the coordinator's epoch when it reads a log from its start, and not when from a snapshot.
    """
    return {
        path: _producers(data) if path.endswith(".snapshot") else data for path, data in _without(files, MARKER).items()
    }


def _producers(snapshot: bytes) -> list[bytes]:
    entry_bytes = struct.calcsize(">qhiqiqiq")
    entries = [snapshot[at : at + entry_bytes] for at in range(10, len(snapshot), entry_bytes)]
    return sorted(entry[:-12] + entry[-8:] for entry in entries)


def _without(files: dict[str, bytes], path: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name not in (path, f"{ROOT}/.kafkalog-clean-shutdown")}
