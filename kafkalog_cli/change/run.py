"""A run on one partition, from its first file to its end: its directory, its record there, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from kafkalog_cli.change.changes import attributes_of_new
from kafkalog_cli.change.checkpoint_lines import change_lines
from kafkalog_cli.change.journal_undo import remove_run, restore, sweep
from kafkalog_cli.change.manifest import Manifest, PlannedChange, RunInfo, RunState, snapshot, write_manifest
from kafkalog_cli.change.runs import run_directory, runs_directory
from kafkalog_cli.disk.durable import half_changed, not_changed, sync_directory
from kafkalog_cli.disk.fs import FileAttributes, WritableFilesystem
from kafkalog_cli.disk.lock import real_directory
from kafkalog_cli.errors import KafkalogError, Refused, SyncFailed
from kafkalog_cli.log.log_dir import LineEdit

_orders = count(1)


class Run:
    """A run on the partition `directory`, for which the caller has the lock.

    `edits` are the partition's lines in the checkpoints of `log_dir` that may change; without a log directory none do.
    `path` is the run's directory. From `begin` on, `attributes` are those of new files, and `manifest` is the record.
    """

    attributes: FileAttributes
    manifest: Manifest

    def __init__(  # noqa: PLR0913
        self,
        fs: WritableFilesystem,
        directory: str,
        info: RunInfo,
        *,
        log_dir: str | None = None,
        edits: tuple[LineEdit, ...] = (),
        discard: bool = False,
    ) -> None:
        self.directory = real_directory(fs, directory).rstrip("/") or "/"
        self.path = run_directory(self.directory, info.run_id)
        self._fs, self._info, self._discard = fs, info, discard
        self._log_dir, self._edits = log_dir, () if log_dir is None else edits

    def begin(
        self, state: RunState, stage: Callable[[], tuple[PlannedChange, ...]], facts: Mapping[str, object]
    ) -> None:
        """Write everything that the manifest refers to (`stage` does), then the manifest, and sync both.

        Raises NoSpace, NotChanged and Refused; everything is as it was then.
        """
        fs, info = self._fs, self._info
        try:
            sweep(fs, self.directory)
            before = snapshot(fs, self.directory, self._log_dir, self._edits)
            # A growing run changes the checkpoints at its end, and other partitions in an order that is not known yet.
            order = next(_orders) if state is RunState.STARTED else 0
            self.manifest = Manifest(
                info, state, self.directory, before, (), self._edits, self._discard, facts=facts, order=order
            )
            with _new_directory(fs, self.directory, info.run_id):
                self.attributes = attributes_of_new(fs, self.directory, before)
                self.add(stage())
        except (OSError, EOFError, SyncFailed) as error:
            raise not_changed(self.directory, error) from error

    def add(self, changes: tuple[PlannedChange, ...]) -> None:
        """Write the manifest with these further changes. Raises OSError, SyncFailed, Refused."""
        if any(change.kept for change in changes):
            sync_directory(self._fs, self.path)  # a manifest never refers to a file that may be missing
        self.manifest = replace(self.manifest, changes=(*self.manifest.changes, *changes))
        write_manifest(self._fs, self.directory, self.manifest, self.attributes)

    def change_lines(self, edits: tuple[LineEdit, ...]) -> None:
        """Change the partition's lines in the checkpoints. Raises the errors of `checkpoint_lines.change_lines`."""
        if edits and self._log_dir is not None:
            change_lines(self._fs, self._log_dir, edits)

    def finish(self, facts: Mapping[str, object]) -> Manifest:
        """Write the manifest with the state DONE; all files and names must be on the disk before."""
        after = snapshot(self._fs, self.directory, self._log_dir, self._edits)
        now_ms = self._info.now_ms
        done = replace(self.manifest, state=RunState.DONE, after=after, finished_ms=now_ms, facts=facts)
        write_manifest(self._fs, self.directory, done, self.attributes)
        self.manifest = done
        return done

    def take_back(self, error: BaseException) -> KafkalogError | None:
        """Restore all files after `error`.

        Returns the exception to raise, None if `error` is neither an OSError nor a KafkalogError. Raises HalfChanged
        if the files are not or cannot be restored, or if a sync failed, because the state of the disk is then unknown.
        """
        info = self._info
        half = half_changed(self.directory, info.run_id, error, without_marker=info.holds_marker, discard=self._discard)
        if isinstance(error, SyncFailed):
            raise half from error
        try:
            restore(self._fs, self.directory, self.manifest, self._log_dir)
        except (OSError, EOFError, KafkalogError) as second:
            raise half from second
        remove_run(self._fs, self.path)
        return not_changed(self.directory, error) if isinstance(error, (OSError, KafkalogError)) else None


@contextmanager
def _new_directory(fs: WritableFilesystem, directory: str, run_id: str) -> Iterator[None]:
    """Create the directory of a run, and sync it after the block, which writes the manifest last.

    After an error the directory is removed. Raises Refused if there is a run of this name, OSError, SyncFailed.
    """
    path = run_directory(directory, run_id)
    try:
        fs.make_directory(path, fs.attributes(directory))
    except FileExistsError as error:
        raise Refused(path=path, reason="there is a run of this name") from error
    try:
        yield
        sync_directory(fs, runs_directory(directory))
        sync_directory(fs, directory)
    except BaseException:
        remove_run(fs, path)
        raise
