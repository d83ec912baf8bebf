"""Power cuts after every call of a run and of its undo, and what must be found on the disk then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.crash.journal_cases import (
    CHECKPOINT,
    OWN,
    PARTITION,
    RECOVERY_POINT,
    ROOT,
    RUN,
    contents,
    partition,
    reachable,
    reachable_by_undo,
    run_plan,
    steps,
    without_cuts,
)
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.product_journal import MANIFEST, RunState, check_undo, read_manifest, undo
from tests.support.watched_fs import Call, RecordingFilesystem

Wrap = Callable[[object], object]


def the_tree(fs: MemoryFilesystem) -> dict[str, object]:
    """All of the log directory but what we keep, `.lock`, a checkpoint's temporary file, and the root's own mtime."""
    found = fs.tree(ROOT, without=(OWN, f"{ROOT}/.lock"))
    return {path: value for path, value in found.items() if path != ROOT and not path.endswith(".kafkalog.tmp")}


def without_the_directory(tree: dict[str, object]) -> dict[str, object]:
    """Making `.kafkalog` changes the directory's mtime for a moment."""
    return {path: value for path, value in tree.items() if path != PARTITION}


class Matrix:
    """Counts what it checked; `wrap` puts a mutant between the run and the disk."""

    def __init__(self, wrap: Wrap = lambda fs: fs) -> None:
        self.wrap = wrap
        self.counts: Counter[str] = Counter()

    def expect(self, changes: tuple[object, ...]) -> None:
        """What a run of this plan may leave."""
        self.before = the_tree(partition())
        self.changes = changes
        self.steps = steps(changes)
        self.reachable = reachable(changes)

    def run(self, changes: tuple[object, ...], **options: object) -> None:
        """Cuts during `apply`: each image is looked at, undone, and looked at again."""
        self.expect(changes)
        disk = partition()
        found: list[tuple[str, MemoryFilesystem]] = []  # looked at later: what fails in a call is the run's to handle

        def cut(call: Call) -> None:
            self.counts["points"] += 1
            found.extend((f"{name} after {call[:3]}", image) for name, image in disk.images())

        run_plan(self.wrap(RecordingFilesystem(disk, cut)), changes, **options)
        for name, image in found:
            self.image(image, name, is_over=False)
        for name, image in disk.images():
            self.image(image, name, is_over=True)
        self.after = disk.image(SURVIVALS[0])

    def image(self, image: MemoryFilesystem, where: str, *, is_over: bool) -> None:
        """`is_over`: the run has told of its success."""
        self.counts["images"] += 1
        manifest = read_manifest(image, PARTITION, RUN.run_id)
        possible = self.steps if where.startswith("kept") else self.reachable
        assert contents(image) in possible, f"{where}: no step of the plan"
        if image.tree(ROOT)[RECOVERY_POINT][0] != CHECKPOINT:
            assert contents(image) == self.steps[-1], f"{where}: the checkpoint comes last"
        if manifest is None:
            assert not is_over, f"{where}: a run that has ended left no manifest"
            assert without_the_directory(the_tree(image)) == without_the_directory(self.before), where
            return
        assert not is_over or manifest.state is RunState.DONE, where
        if manifest.state is RunState.DONE:
            assert contents(image) == self.steps[-1], f"{where}: done, and not as planned"
            assert b"t 0 500" in image.tree(ROOT)[RECOVERY_POINT][0] or not manifest.edits, where
        self.undo(image, where)

    def undo(self, image: MemoryFilesystem, where: str) -> None:
        manifest = read_manifest(image, PARTITION, RUN.run_id)
        check_undo(image, PARTITION, manifest, ROOT)
        undo(image, PARTITION, manifest, ROOT)
        self.is_undone(image, where)

    def is_undone(self, image: MemoryFilesystem, where: str) -> None:
        assert the_tree(image) == self.before, f"{where}: undo did not give back what was"
        assert image.tree(ROOT)[RECOVERY_POINT][0] == CHECKPOINT, where
        assert {inode.links for path, inode in image.walk(PARTITION) if not inode.is_directory} == {1}, where
        assert [entry.path for entry in image.list_directory(f"{OWN}/{RUN.run_id}")] == [
            f"{OWN}/{RUN.run_id}/{MANIFEST}"
        ]
        assert read_manifest(image, PARTITION, RUN.run_id).state is RunState.UNDONE

    def cut_undo(self, image: MemoryFilesystem) -> None:
        """Cuts during `undo` of what is on `image`, each completed by another `undo`."""

        found: list[tuple[str, MemoryFilesystem]] = []

        def cut(call: Call) -> None:
            self.counts["points of undo"] += 1
            found.extend((f"{name} after {call[:3]} of undo", nested) for name, nested in image.images())

        door = self.wrap(RecordingFilesystem(image, cut))
        manifest = read_manifest(door, PARTITION, RUN.run_id)
        undo(door, PARTITION, manifest, ROOT)
        by_undo = reachable_by_undo(self.changes)
        for where, nested in found:
            self.counts["images of undo"] += 1
            by_now = [without_cuts(step, self.changes) for step in self.steps]
            possible = by_now if where.startswith("kept") else by_undo
            assert without_cuts(contents(nested), self.changes) in possible, where
            self.undo(nested, where)
        for name, nested in image.images():
            self.is_undone(nested, f"{name} after undo")
