"""A run that appends to the files of a partition, and can be undone.

Its contents are not known beforehand. So its manifest lists the growing file with its size, the replaced files (the
old file is kept under a second name) and the created files. The manifest on the disk has a name before the file is
touched. An interrupted run keeps the state GROWING: its records stay, with an incomplete batch at the end at worst.
Later runs do not undo it by themselves; `undo` does.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from kafkalog_cli.change.changes import attributes_of_new, unshared_file
from kafkalog_cli.change.checkpoint_lines import change_lines
from kafkalog_cli.change.journal import CheckpointEdits, new_run
from kafkalog_cli.change.journal_undo import remove_run, restore, sweep
from kafkalog_cli.change.manifest import (
    ChangeKind,
    Manifest,
    PlannedChange,
    RunInfo,
    RunState,
    snapshot,
    write_manifest,
)
from kafkalog_cli.change.runs import run_directory
from kafkalog_cli.disk.durable import (
    Content,
    half_changed,
    keep_file,
    not_changed,
    replace_file,
    sync,
    sync_directory,
)
from kafkalog_cli.disk.fs import FileAttributes, WritableFile, WritableFilesystem
from kafkalog_cli.disk.lock import real_directory, turn_of
from kafkalog_cli.errors import KafkalogError, SyncFailed
from kafkalog_cli.log.log_dir import LineEdit


class GrowingRun:
    """A run on the partition `directory`, for which the caller has the lock.

    `grows` names the files that will grow, `checkpoints` the lines that may change. The constructor raises Refused,
    NoSpace and NotChanged; nothing is changed then.
    """

    def __init__(
        self,
        fs: WritableFilesystem,
        directory: str,
        *,
        run: RunInfo,
        grows: Iterable[str],
        checkpoints: CheckpointEdits | None = None,
    ) -> None:
        self._fs = fs
        self._directory = real_directory(fs, directory).rstrip("/") or "/"
        self._run_directory = run_directory(self._directory, run.run_id)
        self._checkpoints = checkpoints
        self._announced: set[str] = set()
        try:
            sweep(fs, self._directory)
            self._begin(run, list(grows))
        except (OSError, EOFError, SyncFailed) as error:
            raise not_changed(self._directory, error) from error

    def _begin(self, run: RunInfo, grows: list[str]) -> None:
        fs, edits = self._fs, () if self._checkpoints is None else self._checkpoints.edits
        before = snapshot(fs, self._directory, self._log_dir, edits)
        planned = [self._planned_growth(name) for name in grows]
        with new_run(fs, self._directory, run.run_id):
            self._attributes = attributes_of_new(fs, self._directory, before)
            self._growth = UnseenGrowth(fs, self._directory, self._attributes)
            self._manifest = Manifest(run, RunState.GROWING, self._directory, before, tuple(planned), edits)
            write_manifest(fs, self._directory, self._manifest, self._attributes)

    @property
    def _log_dir(self) -> str | None:
        return None if self._checkpoints is None else self._checkpoints.log_dir

    def _planned_growth(self, name: str) -> PlannedChange:
        status, attributes = unshared_file(self._fs, f"{self._directory}/{name}")
        return PlannedChange(ChangeKind.GROW, name, from_bytes=status.size_bytes, mtime_ns=attributes.mtime_ns)

    # -- writing

    def announce(self, names: Iterable[str]) -> None:
        """Record that these files are about to be created, or replaced if they exist. Raises OSError, SyncFailed."""
        new = [name for name in names if name not in self._announced]
        if not new:
            return
        planned = [self._planned(name) for name in new]
        self._announced.update(new)
        if any(change.kept for change in planned):
            sync_directory(self._fs, self._run_directory)  # kept files must exist before the manifest names them
        self._manifest = replace(self._manifest, changes=(*self._manifest.changes, *planned))
        write_manifest(self._fs, self._directory, self._manifest, self._attributes)

    def _planned(self, name: str) -> PlannedChange:
        if self._fs.status(f"{self._directory}/{name}") is None:
            return PlannedChange(ChangeKind.MAKE, name)
        keep_file(self._fs, f"{self._directory}/{name}", f"{self._run_directory}/{name}.old")
        return PlannedChange(ChangeKind.REPLACE, name, kept=f"{name}.old")

    def growing(self, name: str) -> WritableFile:
        """Open a file that grows; create the file if it was announced and does not exist."""
        return self._growth.growing(name)

    def sync(self, file: WritableFile) -> None:
        """Sync the written bytes of the file, and its name, to the disk. Raises SyncFailed."""
        self._growth.sync(file)
        sync_directory(self._fs, self._directory)

    def put(self, name: str, data: bytes | Content) -> None:
        """Create or replace a file with `data`. Raises OSError, SyncFailed."""
        self.announce([name])
        is_there = self._fs.status(f"{self._directory}/{name}") is not None
        replace_file(
            self._fs,
            f"{self._directory}/{name}",
            data,
            None if is_there else self._attributes,
            temporary=f"{self._run_directory}/new",
        )

    def change_lines(self, edits: Sequence[LineEdit]) -> None:
        """Change the partition's lines in the checkpoints. Raises the errors of `checkpoints.change_lines`."""
        if edits and self._log_dir is not None:
            with turn_of(self._log_dir):
                change_lines(self._fs, self._log_dir, edits)

    # -- the end

    def finish(self, facts: Mapping[str, object], edits: Sequence[LineEdit]) -> Manifest:
        """Change the checkpoint lines, then write the manifest with the state DONE; all files must be synced before."""
        self._growth.close()
        with nullcontext() if self._log_dir is None else turn_of(self._log_dir):
            self.change_lines(edits)
            after = snapshot(self._fs, self._directory, self._log_dir, self._manifest.edits)
            run = self._manifest.run
            done = replace(self._manifest, state=RunState.DONE, after=after, finished_ms=run.now_ms, facts=dict(facts))
            write_manifest(self._fs, self._directory, done, self._attributes)
        self._manifest = done
        return done

    def take_back(self, error: BaseException) -> KafkalogError | None:
        """Restore all files after `error`.

        Returns the exception to raise, None if `error` is neither an OSError nor a KafkalogError. Raises HalfChanged
        if the files are not or cannot be restored, or if a sync failed, because the state of the disk is then unknown.
        """
        run = self._manifest.run
        self._growth.close()
        if isinstance(error, SyncFailed):
            raise half_changed(self._directory, run.run_id, error, without_marker=run.holds_marker) from error
        try:
            restore(self._fs, self._directory, self._manifest, self._log_dir)
        except (OSError, EOFError, KafkalogError) as second:
            raise half_changed(self._directory, run.run_id, error, without_marker=run.holds_marker) from second
        remove_run(self._fs, self._run_directory)
        return not_changed(self._directory, error) if isinstance(error, (OSError, KafkalogError)) else None


class UnseenGrowth:
    """A Growth in `directory`, whose new files get `attributes`. All files are on the disk after AppendedLog.close."""

    def __init__(self, fs: WritableFilesystem, directory: str, attributes: FileAttributes) -> None:
        self._fs = fs
        self._directory = directory
        self._attributes = attributes
        self._files: list[WritableFile] = []

    def growing(self, name: str) -> WritableFile:
        """See Growth."""
        path = f"{self._directory}/{name}"
        is_there = self._fs.status(path) is not None
        file = self._fs.open_write(path) if is_there else self._fs.create(path, self._attributes)
        self._files.append(file)
        return file

    def announce(self, names: Iterable[str]) -> None:
        """See Growth; does nothing, because there is nothing to undo."""

    def put(self, name: str, data: bytes | Content) -> None:
        """See Growth. Raises OSError, SyncFailed."""
        replace_file(self._fs, f"{self._directory}/{name}", data, self._attributes)

    def sync(self, file: WritableFile) -> None:
        """See Growth. Raises SyncFailed."""
        sync(file)

    def close(self) -> None:
        """Close the file descriptors."""
        for file in self._files:
            file.close()
        self._files.clear()
