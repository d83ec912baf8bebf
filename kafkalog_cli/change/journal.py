"""Applying the changes of a plan so that the run can be undone, also after a crash at any system call.

The partition's `.kafkalog/<run id>/` contains the new files until they get their names, the removed files, the bytes
that were cut off, and the manifest. The log is changed only after all of these are on the disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial

from kafkalog_cli.change.changes import Change, Cut, Drop, Move, Put, Staged, check_changes
from kafkalog_cli.change.journal_undo import links_of_run
from kafkalog_cli.change.manifest import (
    ChangeKind,
    FileFacts,
    Manifest,
    PlannedChange,
    RunInfo,
    RunState,
    facts_of,
)
from kafkalog_cli.change.run import Run
from kafkalog_cli.disk.durable import (
    NOTHING_CHANGED,
    NameChanges,
    StagedFile,
    is_no_room,
    keep_file,
    read_pieces,
    sync,
    try_to_link,
    write_with_holes,
)
from kafkalog_cli.disk.fs import FileAttributes, WritableFilesystem
from kafkalog_cli.disk.lock import turn_of
from kafkalog_cli.errors import NoSpaceToKeep, SyncFailed
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES


def apply(  # noqa: PLR0913
    fs: WritableFilesystem,
    directory: str,
    changes: Sequence[Change] | Prepare,
    *,
    run: RunInfo,
    discard: bool | None = None,
    log_dir: str | None = None,
    edits: tuple[LineEdit, ...] = (),
    facts: Mapping[str, object] | None = None,
) -> Manifest | None:
    """Make `changes` in `directory` in order, then the edits of lines in `log_dir`. Return the manifest of the run.

    The caller has the partition's lock. The result is None if there is nothing to change. `changes` may be a function:
    it is called when the directory of the run exists, writes the new files there, and returns the changes.
    `discard`: removed data is not kept, and the run cannot be undone; None: the command has no option --discard.

    Raises Refused if the directory is not in the state that the plan was made for, and ValueError if the plan
    contradicts itself. Raises NoSpace or NotChanged if everything is as it was, and HalfChanged if `undo`
    must be called.
    """
    if not callable(changes):
        needed = [change for change in changes if not isinstance(change, Cut) or change.from_bytes != change.to_bytes]
        if not needed and (log_dir is None or not edits):
            return None
        changes = partial(_as_needed, needed)
    # The turn is held from here on: undo needs the manifest to record the lines exactly as the edits find them.
    turn = nullcontext() if log_dir is None or not edits else turn_of(log_dir)
    with turn:
        own = Run(fs, directory, run, log_dir=log_dir, edits=edits, discard=bool(discard))
        application = _Application(fs, own, discard)
        own.begin(RunState.STARTED, lambda: application.prepare(changes), facts or {})
        try:
            application.make()
            own.change_lines(edits)
            return own.finish(facts or {})
        except BaseException as error:
            failure = own.take_back(error)
            if failure is None:
                raise
            raise failure from error


class StagingArea:
    """The run's own directory, where it writes the files of its Put changes before there is a manifest.

    `sizes` has the sizes of the finished files in bytes, by name.
    """

    def __init__(self, fs: WritableFilesystem, path: str, attributes: FileAttributes) -> None:
        self.sizes: dict[str, int] = {}
        self._fs = fs
        self._path = path
        self._attributes = attributes
        self._files: dict[str, StagedFile] = {}

    def create(self, name: str) -> None:
        """Create an empty file. Raises OSError."""
        self._files[name] = StagedFile(self._fs, f"{self._path}/{name}", self._attributes)

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Append to a file. Raises OSError."""
        self._files[name].write(data)

    def finish(self, name: str, mtime_ms: int | None) -> None:
        """Sync a file, with this mtime (epoch milliseconds) unless it is None, and close it.

        Raises OSError, SyncFailed.
        """
        attributes = None if mtime_ms is None else self._attributes._replace(mtime_ns=mtime_ms * 1_000_000)
        with closing(self._files.pop(name)) as file:
            self.sizes[name] = file.finish(attributes)


Prepare = Callable[[StagingArea], "Sequence[Change]"]
"""A function that writes the new files into the area and returns the changes, with Staged content."""


class _Application:
    """Prepares the changes of a plan for a run, and makes them."""

    def __init__(self, fs: WritableFilesystem, run: Run, discard: bool | None) -> None:
        self._fs = fs
        self._run = run
        self._has_discard = discard is not None
        self._discard = bool(discard)
        self._directory = run.directory
        self._run_directory = run.path

    # -- before anything is changed

    def prepare(self, prepare: Prepare) -> tuple[PlannedChange, ...]:
        """Write everything that the changes need, and return them for the manifest."""
        changes = prepare(StagingArea(self._fs, self._run_directory, self._run.attributes))
        origins = check_changes(self._fs, self._directory, changes, self._run.manifest.before)
        return self._staged(changes, origins)

    def _staged(self, changes: Sequence[Change], origins: Sequence[str | None]) -> tuple[PlannedChange, ...]:
        """Write or copy the files that the changes need, and return the changes for the manifest.

        A Move of a file that an earlier Put wrote gets that file's size and mtime.
        """
        planned: list[PlannedChange] = []
        put: dict[str, PlannedChange] = {}
        for at, change in enumerate(changes):
            found = self._stage(at, change, origins[at])
            if found.kind is ChangeKind.PUT:
                put[change.name] = found
            elif found.kind is ChangeKind.MOVE and found.origin is None:
                new = put[str(found.new_name)] = put.pop(change.name)
                found = found._replace(to_bytes=new.to_bytes, mtime_ns=new.mtime_ns)
            planned.append(found)
        return tuple(planned)

    def _stage(self, at: int, change: Change, origin: str | None) -> PlannedChange:
        """Write or copy the files that one change needs. `origin` is the present name of the changed file."""
        if isinstance(change, Cut):
            return self._stage_cut(at, change, str(origin))
        if isinstance(change, Move):
            return PlannedChange(ChangeKind.MOVE, change.name, change.new_name, origin)
        if isinstance(change, Drop):
            return self._stage_drop(at, change, f"{self._directory}/{origin}")
        return self._stage_put(at, change, None if origin is None else f"{self._directory}/{origin}")

    def _stage_cut(self, at: int, change: Cut, origin: str) -> PlannedChange:
        path = f"{self._directory}/{origin}"
        planned = PlannedChange(
            ChangeKind.CUT,
            change.name,
            origin=origin,
            from_bytes=change.from_bytes,
            to_bytes=change.to_bytes,
            mtime_ns=self._fs.attributes(path).mtime_ns,
        )
        if self._discard:
            return planned
        size_bytes, free_bytes = change.from_bytes - change.to_bytes, self._fs.room(self._directory).free_bytes
        kept = f"{at:04d}.cut"
        try:
            if size_bytes > max(free_bytes, MAX_SEGMENT_BYTES):  # a hole: the copy needs no room, but days
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            with closing(read_pieces(self._fs, path, change.to_bytes, change.from_bytes)) as pieces:
                _, sha256 = self._write(kept, pieces, self._fs.attributes(path))
        except (OSError, SyncFailed) as error:
            if self._has_discard and is_no_room(error):
                raise NoSpaceToKeep(path=self._directory, reason=NOTHING_CHANGED) from error
            raise
        return planned._replace(kept=kept, sha256=sha256)

    def _stage_drop(self, at: int, change: Drop, path: str) -> PlannedChange:
        """Keep the file under a second name, which is on the disk before the first name is removed.

        After a power cut, either half of a rename between directories may be lost. Only where hard links are not
        supported is the file renamed later.
        """
        if self._discard:
            return PlannedChange(ChangeKind.DROP, change.name)
        kept = f"{at:04d}.dropped"
        return PlannedChange(
            ChangeKind.DROP, change.name, kept=kept, linked=try_to_link(self._fs, path, f"{self._run_directory}/{kept}")
        )

    def _stage_put(self, at: int, change: Put, old: str | None) -> PlannedChange:
        staged, kept = f"{at:04d}.new", None
        if isinstance(change.content, Staged):
            staged, sha256 = change.content.name, None
            written = self._facts(staged)
        else:
            attributes = self._fs.attributes(old) if old is not None else self._run.attributes
            written, sha256 = self._write(staged, change.content.pieces(), attributes)
        if written.size_bytes != change.content.size_bytes:
            raise ValueError(
                f"{change.name}: {written.size_bytes} bytes were written, {change.content.size_bytes} were expected"
            )
        if old is not None and not self._discard:
            kept = f"{at:04d}.old"
            keep_file(self._fs, old, f"{self._run_directory}/{kept}")
        return PlannedChange(
            ChangeKind.PUT,
            change.name,
            to_bytes=written.size_bytes,
            replaces=change.replaces,
            kept=kept,
            staged=staged,
            sha256=sha256,
            mtime_ns=written.mtime_ns,
        )

    def _write(
        self, name: str, pieces: Iterable[bytes], attributes: FileAttributes | None
    ) -> tuple[FileFacts, str | None]:
        """Write and sync a file in the run's directory. Return its facts and the SHA-256 of its bytes in hex."""
        path = f"{self._run_directory}/{name}"
        digest = hashlib.sha256()
        with self._fs.create(path, attributes) as file:
            write_with_holes(file, 0, _digested(pieces, digest))
            sync(file)
        return self._facts(name), digest.hexdigest()

    def _facts(self, name: str) -> FileFacts:
        """Return the facts of a file that was just written to the run's directory."""
        path = f"{self._run_directory}/{name}"
        found = facts_of(self._fs, path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "what was just written is gone", path)
        return found

    # -- the changes

    def make(self) -> None:
        """Make all changes in order. Sync names before each cut and at the end."""
        names = NameChanges(self._fs)
        for change in self._run.manifest.changes:
            if change.kind is ChangeKind.CUT:
                names.sync()
                self._cut(change)
            else:
                self._rename(change, names)
        names.sync()

    def _cut(self, change: PlannedChange) -> None:
        path = f"{self._directory}/{change.name}"
        links = links_of_run(self._fs, path, self._run_directory)
        with self._fs.open_write(path, most_links=links) as file:
            file.truncate(change.to_bytes)
            sync(file)

    def _rename(self, change: PlannedChange, names: NameChanges) -> None:
        path, kept = f"{self._directory}/{change.name}", f"{self._run_directory}/{change.kept}"
        if change.kind is ChangeKind.MOVE:
            new = f"{self._directory}/{change.new_name}"
            names.announce(filled=new, left=path)
            self._fs.rename(path, new)
        elif change.kind is ChangeKind.PUT:
            names.announce(filled=path)
            if change.replaces:
                names.leave(path)
            self._fs.rename(f"{self._run_directory}/{change.staged}", path)
        elif change.kept is None or change.linked:
            names.leave(path)
            self._fs.unlink(path)
        else:
            names.announce(filled=kept, left=path)
            self._fs.rename(path, kept)


def _as_needed(changes: Sequence[Change], _: StagingArea) -> Sequence[Change]:
    return changes


def _digested(pieces: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece
