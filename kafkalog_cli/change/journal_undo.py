"""Undoing a run: restore the kept files and bytes, from any point at which the run or an earlier undo stopped."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace

from kafkalog_cli.change.checkpoint_lines import OldLines, restore_lines
from kafkalog_cli.change.manifest import (
    ChangeKind,
    FileFacts,
    Manifest,
    PlannedChange,
    RunState,
    difference_of_files,
    facts_of,
    first_difference,
    read_manifest,
    snapshot,
    way_out,
    write_manifest,
)
from kafkalog_cli.change.removal import try_to_remove_directory
from kafkalog_cli.change.runs import MANIFEST, is_run_id, run_directory, run_ids
from kafkalog_cli.disk.durable import (
    NameChanges,
    read_pieces,
    remove_if_there,
    sync,
    sync_directory,
    try_to_link,
    try_to_remove,
    write_with_holes,
)
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.lock import real_directory
from kafkalog_cli.errors import HalfChanged, KafkalogError, Refused, UnsupportedFormat, shell_word

_CHANGED_SINCE = "the partition has changed since the run: "


def check_undo(fs: WritableFilesystem, directory: str, manifest: Manifest, log_dir: str | None) -> None:
    """Raises Refused if the run cannot be undone: it kept nothing, or the partition has changed since the run."""
    directory = real_directory(fs, directory)
    if manifest.discard and manifest.state is RunState.DONE:
        raise Refused(path=directory, reason=f"run {manifest.run.run_id} kept nothing (--discard)")
    if manifest.edits and log_dir is None:
        raise Refused(path=directory, reason="it is not in a log directory, but the run changed checkpoints there")
    if manifest.after is not None and manifest.state is RunState.DONE:
        found = snapshot(fs, directory, log_dir, manifest.edits)
        difference = first_difference(manifest.after, found)
    else:
        difference = _difference_half_way(fs, directory, manifest)
    if difference is not None:
        raise Refused(path=directory, reason=f"{_CHANGED_SINCE}{difference}; {_way_out(fs, directory, manifest)}")
    for change in manifest.changes:
        _check_kept(fs, directory, manifest, change)


def check_partition(directory: str, manifest: Manifest, topic: str, partition: int) -> None:
    """Raises Refused if the run changed lines of checkpoints that are not of this partition.

    The owner of a partition's directory has a right to its manifests, but not to the lines of other partitions.
    """
    others = [edit for edit in manifest.edits if (edit.topic, edit.partition) != (topic, partition)]
    if others:
        path = f"{run_directory(directory, manifest.run.run_id)}/{MANIFEST}"
        reason = f"it changes the lines of {others[0].topic}-{others[0].partition} in the checkpoints"
        raise Refused(path=path, reason=f"{reason}, and lies in {topic}-{partition}; {way_out(path)}")


def _way_out(fs: WritableFilesystem, directory: str, manifest: Manifest) -> str:
    """Return the next step for the user if the partition has changed since the run."""
    run_id = manifest.run.run_id
    later = _later_runs(fs, directory, run_id)
    if later:
        runs = [*sorted(later, reverse=True), run_id]
        commands = ", ".join(f"`kafkalog undo {shell_word(directory)} {shell_word(run)}`" for run in runs)
        return f"undo the later runs before it, in this order: {commands}"
    return f"the files that the run kept are in {run_directory(directory, run_id)}, with a description in manifest.json"


def _is_done(fs: WritableFilesystem, directory: str, run_id: str) -> bool:
    try:
        manifest = read_manifest(fs, directory, run_id)
    except (KafkalogError, OSError):
        return True
    return manifest is not None and manifest.state is not RunState.UNDONE


def undo(fs: WritableFilesystem, directory: str, manifest: Manifest, log_dir: str | None) -> Manifest:
    """Undo the run durably and return its new manifest. After a crash at any point, a second call completes the undo.

    Call `check_undo` first. Raises OSError and SyncFailed as the disk reports them. Raises HalfChanged if the result
    differs from the state before the run, for example because another program changed the partition meanwhile.
    """
    directory = real_directory(fs, directory)
    attributes = fs.attributes(f"{run_directory(directory, manifest.run.run_id)}/{MANIFEST}")
    if manifest.state is not RunState.UNDONE:
        if manifest.state is RunState.DONE:
            manifest = replace(manifest, state=RunState.UNDOING)
            write_manifest(fs, directory, manifest, attributes)
        restore(fs, directory, manifest, log_dir)
        manifest = replace(manifest, state=RunState.UNDONE)
        write_manifest(fs, directory, manifest, attributes)
    _remove_kept(fs, run_directory(directory, manifest.run.run_id))
    return manifest


def restore(fs: WritableFilesystem, directory: str, manifest: Manifest, log_dir: str | None) -> None:
    """Undo every change that was made, the last first, then the checkpoint lines. The manifest is not changed.

    Raises HalfChanged if the files then differ from the state before the run, and what `undo` raises.
    """
    restorer = _Restorer(fs, directory, manifest)
    for change in reversed(manifest.changes):
        restorer.restore(change)
    restorer.end()
    if manifest.edits and log_dir is not None:
        run_id = manifest.run.run_id
        restore_lines(fs, log_dir, manifest.before.checkpoint_lines, lambda: _lines_before_run(fs, log_dir, run_id))
    found = snapshot(fs, directory).files
    before = {
        name: facts._replace(mtime_ns=found[name].mtime_ns)
        if name in restorer.without_mtime and name in found
        else facts
        for name, facts in manifest.before.files.items()
    }
    difference = difference_of_files(before, found)
    if difference is not None:
        raise HalfChanged(
            path=directory, run=manifest.run.run_id, reason=f"a part differs from the earlier state: {difference}"
        )


def _lines_before_run(fs: WritableFilesystem, log_dir: str, run_id: str) -> Iterator[OldLines]:
    """Yield the old lines that the manifests of a run record, of all partitions of the log directory that have it."""
    for entry in fs.list_directory(log_dir):
        with suppress(KafkalogError, OSError):  # the lines of this manifest are then unknown
            manifest = read_manifest(fs, entry.path, run_id) if entry.is_directory else None
            yield from () if manifest is None else manifest.before.checkpoint_lines


def remove_run(fs: WritableFilesystem, path: str) -> None:
    """Remove a run's directory while an error is being handled. Entries that cannot be removed stay for `purge`.

    The manifest is removed first: a run without a manifest has changed nothing.
    """
    try_to_remove(fs, f"{path}/{MANIFEST}")
    try_to_remove_directory(fs, path)


def is_ours(fs: WritableFilesystem, directory: str, run_id: str) -> bool:
    """Whether a run of kafkalog made a directory without a manifest, judged by the directory's name and owner.

    The owner must be the user of this process or the owner of the partition, to whom a run gives its directory.
    """
    if not is_run_id(run_id):
        return False
    owner = fs.attributes(run_directory(directory, run_id)).owner_id
    return owner in (os.geteuid(), fs.attributes(directory).owner_id)


def links_of_run(fs: WritableFilesystem, path: str, run: str) -> int:
    """Return the number of hard links that a file of a partition may have.

    These are its own name and the names under which the run with the directory `run` keeps it.
    """
    if fs.attributes(path).link_count == 1:
        return 1
    found = fs.status(path)
    return 1 + sum(found is not None and entry.inode == found.inode for entry in fs.list_directory(run))


def sweep(fs: WritableFilesystem, directory: str) -> None:
    """Remove the directories of runs that ended before they had a manifest, and the kept files of undone runs.

    A file that has a second name in such a directory could not be cut.
    """
    for run_id in run_ids(fs, directory):
        path = run_directory(directory, run_id)
        if fs.status(f"{path}/{MANIFEST}") is None:
            if is_ours(fs, directory, run_id):
                remove_run(fs, path)
        elif len(fs.list_directory(path)) > 1:
            with suppress(Refused, UnsupportedFormat):  # nothing is removed of a run whose manifest cannot be read
                manifest = read_manifest(fs, directory, run_id)
                if manifest is not None and manifest.state is RunState.UNDONE:
                    _remove_kept(fs, path)


def _remove_kept(fs: WritableFilesystem, path: str) -> None:
    """Remove all files of a run but its manifest. They are restored by now, or are second names of restored files."""
    others = [entry.path for entry in fs.list_directory(path) if not entry.path.endswith(f"/{MANIFEST}")]
    for other in others:
        remove_if_there(fs, other)
    if others:
        sync_directory(fs, path)


class _Restorer:
    """Undoes the changes of a run, the last first.

    In this order each change finds the names in one of two states: as it left them, or as they were before it.
    The files show which state it is: a rename keeps size and mtime, and its file is in the manifest.
    """

    def __init__(self, fs: WritableFilesystem, directory: str, manifest: Manifest) -> None:
        self._fs = fs
        self._directory = directory
        self._kept = run_directory(directory, manifest.run.run_id)
        self._before = manifest.before.files
        self._inodes = {facts.inode for facts in self._before.values()}
        self._names = NameChanges(fs)
        self._mtime_ns = manifest.before.mtime_ns
        self.without_mtime: set[str] = set()
        """The names of restored files whose mtime stays new, because only their owner may set it."""

    def restore(self, change: PlannedChange) -> None:
        """Undo one change if it was made. Raises Refused if the data for that was not kept."""
        path = f"{self._directory}/{change.name}"
        found = facts_of(self._fs, path)
        if change.kind is ChangeKind.MOVE:
            self._move_back(change, path, is_there=found is not None)
        elif change.kind is ChangeKind.CUT:
            self._lengthen(change, path, found)
        elif change.kind is ChangeKind.GROW:
            self._shorten(change, path, found)
        elif self._was_made(change, found):
            self._put_back(change, path, is_there=found is not None)

    def end(self) -> None:
        """Give the directory its old mtime and sync all names."""
        found = self._fs.attributes(self._directory)
        if found.mtime_ns != self._mtime_ns:
            self._names.note(f"{self._directory}/")
            self._fs.set_attributes(self._directory, found._replace(mtime_ns=self._mtime_ns))
        self._names.sync()

    def _move_back(self, change: PlannedChange, path: str, *, is_there: bool) -> None:
        moved = f"{self._directory}/{change.new_name}"
        found = facts_of(self._fs, moved)
        if found is not None and not is_there and self._is_origin(found, change):
            self._names.announce(filled=path, left=moved)
            self._fs.rename(moved, path)

    def _lengthen(self, change: PlannedChange, path: str, found: FileFacts | None) -> None:
        """Write the cut bytes again, whatever the file contains: an interrupted undo may have left zeros there."""
        if found is None or not self._is_origin(found, change):
            return  # the cut was not made: the file did not have this name yet
        if change.kept is None:
            if found.size_bytes != change.from_bytes:
                raise Refused(path=path, reason="the run did not keep the bytes that it cut")
            return
        kept = read_pieces(self._fs, f"{self._kept}/{change.kept}", 0, change.from_bytes - change.to_bytes)
        with closing(kept) as pieces:
            self._write(change, path, change.to_bytes, pieces)

    def _shorten(self, change: PlannedChange, path: str, found: FileFacts | None) -> None:
        """Cut a grown file to its old size, after the removal of the indexes with later entries is on the disk."""
        if found is not None and (found.size_bytes, found.mtime_ns) != (change.from_bytes, change.mtime_ns):
            self._names.sync()
            self._write(change, path, change.from_bytes)

    def _write(self, change: PlannedChange, path: str, size_bytes: int, pieces: Iterable[bytes] = ()) -> None:
        """Cut a file to `size_bytes`, write `pieces` behind them, and give the file its old mtime."""
        with self._fs.open_write(path, most_links=links_of_run(self._fs, path, self._kept)) as file:
            file.truncate(size_bytes)
            write_with_holes(file, size_bytes, pieces)
            self._fs.set_attributes(path, self._fs.attributes(path)._replace(mtime_ns=change.mtime_ns))
            if self._fs.attributes(path).mtime_ns != change.mtime_ns:
                self.without_mtime.add(change.origin or change.name)
            sync(file)

    def _was_made(self, change: PlannedChange, found: FileFacts | None) -> bool:
        """Whether the name is as a DROP, PUT, REPLACE or MAKE left it."""
        if change.kind is ChangeKind.PUT:
            return found is not None and (found.size_bytes, found.mtime_ns) == (change.to_bytes, change.mtime_ns)
        if change.kind is ChangeKind.REPLACE:
            return not self._before[change.name].looks_like(found)
        return (found is None) is (change.kind is ChangeKind.DROP)

    def _put_back(self, change: PlannedChange, path: str, *, is_there: bool) -> None:
        """Give a name its kept file, atomically; free the name if it had no file before the run."""
        had_file = change.kind is not ChangeKind.MAKE and (change.kind is not ChangeKind.PUT or change.replaces)
        if had_file and change.kept is None:
            what = "it" if change.kind is ChangeKind.DROP else "the replaced file"
            raise Refused(path=path, reason=f"the run did not keep {what}")
        if had_file:
            self._names.announce(filled=path)
        if is_there:
            self._names.leave(path)
        if not had_file:
            self._fs.unlink(path)
            return
        # A second link is renamed where hard links are supported: either half of a rename between directories may be
        # lost, and with it the only name of the file.
        kept = f"{self._kept}/{change.kept}"
        second = kept + ".back"
        remove_if_there(self._fs, second)
        self._fs.rename(second if try_to_link(self._fs, kept, second) else kept, path)

    def _is_origin(self, found: FileFacts, change: PlannedChange) -> bool:
        """Whether `found` is the file of a CUT or MOVE, and not another file that has the same name for some time."""
        if change.origin is None:  # the run itself has put this file
            is_alike = (found.size_bytes, found.mtime_ns) == (change.to_bytes, change.mtime_ns)
            return is_alike and found.inode not in self._inodes
        origin = self._before[str(change.origin)]
        alike = [facts for facts in self._before.values() if facts.looks_like(found)]
        if len(alike) == 1:
            return alike == [origin]
        # Several files look alike, or none does, as after a cut. The inode decides, unless the directory was copied.
        return found.inode == origin.inode or found.inode not in self._inodes


def _difference_half_way(fs: WritableFilesystem, directory: str, manifest: Manifest) -> str | None:
    """Return a difference that an unfinished run cannot have made; None if there is none.

    Files that the run names may be in any state between before and after.
    """
    found = snapshot(fs, directory).files
    if manifest.state is RunState.GROWING and (later := _later_runs(fs, directory, manifest.run.run_id)):
        return f"run {later[-1]} came after it"
    named: dict[str, list[PlannedChange]] = {}
    for change in manifest.changes:
        size_bytes = found[change.name].size_bytes if change.name in found else 0
        if change.kind is ChangeKind.GROW and size_bytes < change.from_bytes:
            return f"{change.name} has {size_bytes} bytes, fewer than the {change.from_bytes} before"
        for name in {change.name, change.new_name or change.name}:
            named.setdefault(name, []).append(change)
    untouched = [{n: facts for n, facts in files.items() if n not in named} for files in (manifest.before.files, found)]
    difference = difference_of_files(*untouched)
    if difference is not None:
        return difference
    for name in sorted(named.keys() & found.keys()):
        low, high = min(change.to_bytes for change in named[name]), max(change.from_bytes for change in named[name])
        only_cut = all(change.kind is ChangeKind.CUT for change in named[name])
        if only_cut and not low <= found[name].size_bytes <= high:
            return f"{name} has {found[name].size_bytes} bytes, not {low} to {high}"
    return None


def _later_runs(fs: WritableFilesystem, directory: str, run_id: str) -> list[str]:
    """Return the later runs that were not undone, or whose manifest cannot be read."""
    return [run for run in run_ids(fs, directory) if run > run_id and _is_done(fs, directory, run)]


def _check_kept(fs: WritableFilesystem, directory: str, manifest: Manifest, change: PlannedChange) -> None:
    """Raises Refused if the file that the run kept for a change is missing, or if its bytes have changed."""
    if change.kept is None or manifest.state is RunState.UNDONE:
        return
    path = f"{run_directory(directory, manifest.run.run_id)}/{change.kept}"
    may_be_missing = change.kind is ChangeKind.DROP and not change.linked and manifest.state is not RunState.DONE
    found = fs.status(path)
    if found is None:
        if may_be_missing:
            return
        raise Refused(path=path, reason="the file that the run kept is missing")
    if found.is_symlink or not found.is_file:
        raise Refused(path=path, reason="it is a symbolic link, or not a regular file: no run keeps such a file")
    if change.kind is ChangeKind.CUT:
        digest = hashlib.sha256()
        try:
            for piece in read_pieces(fs, path, 0, change.from_bytes - change.to_bytes):
                digest.update(piece)
        except EOFError as error:
            raise Refused(path=path, reason="the file that the run kept is too short") from error
        if digest.hexdigest() != change.sha256:
            raise Refused(path=path, reason="the file that the run kept was changed since then")
