"""A run that appends to the files of a partition, and can be undone.

Its contents are not known beforehand. So its manifest lists the growing file with its size, the replaced files (the
old file is kept under a second name) and the created files. The manifest on the disk has a name before the file is
touched. An interrupted run keeps the state GROWING: its records stay, with an incomplete batch at the end at worst.
Later runs do not undo it by themselves; `undo` does.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

from kafkalog_cli.change.changes import unshared_file
from kafkalog_cli.change.manifest import ChangeKind, Manifest, PlannedChange, RunInfo, RunState
from kafkalog_cli.change.run import Run
from kafkalog_cli.disk.durable import Content, keep_file, replace_file, sync, sync_directory
from kafkalog_cli.disk.fs import FileAttributes, WritableFile, WritableFilesystem
from kafkalog_cli.disk.lock import turn_of
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.log.log_dir import LineEdit


class GrowingRun:
    """A run on the partition `directory`, for which the caller has the lock.

    `grows` names the files that will grow, `edits` are the lines in `log_dir` that may change. The constructor raises
    Refused, NoSpace and NotChanged; nothing is changed then.
    """

    def __init__(  # noqa: PLR0913
        self,
        fs: WritableFilesystem,
        directory: str,
        *,
        run: RunInfo,
        grows: Iterable[str],
        log_dir: str | None = None,
        edits: tuple[LineEdit, ...] = (),
    ) -> None:
        self._fs = fs
        self._log_dir = log_dir
        self._announced: set[str] = set()
        self._run = Run(fs, directory, run, log_dir=log_dir, edits=edits)
        self._directory = self._run.directory
        self._run.begin(RunState.GROWING, lambda: tuple(map(self._planned_growth, grows)), {})
        self._growth = UnseenGrowth(fs, self._directory, self._run.attributes)

    def _planned_growth(self, name: str) -> PlannedChange:
        status, attributes = unshared_file(self._fs, f"{self._directory}/{name}")
        return PlannedChange(ChangeKind.GROW, name, from_bytes=status.size_bytes, mtime_ns=attributes.mtime_ns)

    # -- writing

    def announce(self, names: Iterable[str]) -> None:
        """Record that these files are about to be created, or replaced if they exist. Raises OSError, SyncFailed."""
        new = [name for name in names if name not in self._announced]
        if new:
            planned = tuple(map(self._planned, new))
            self._announced.update(new)
            self._run.add(planned)

    def _planned(self, name: str) -> PlannedChange:
        if self._fs.status(f"{self._directory}/{name}") is None:
            return PlannedChange(ChangeKind.MAKE, name)
        keep_file(self._fs, f"{self._directory}/{name}", f"{self._run.path}/{name}.old")
        return PlannedChange(ChangeKind.REPLACE, name, kept=f"{name}.old")

    def open_file(self, name: str) -> None:
        """See Growth. Raises OSError."""
        self._growth.open_file(name)

    def write(self, name: str, position: int, data: bytes | memoryview) -> None:
        """See Growth. Raises OSError."""
        self._growth.write(name, position, data)

    def sync(self, name: str) -> None:
        """Sync the written bytes of the file, and its name, to the disk. Raises SyncFailed."""
        self._growth.sync(name)
        sync_directory(self._fs, self._directory)

    def put(self, name: str, data: bytes | Content) -> None:
        """Create or replace a file with `data`. Raises OSError, SyncFailed."""
        self.announce([name])
        path = f"{self._directory}/{name}"
        attributes = None if self._fs.status(path) is not None else self._run.attributes
        replace_file(self._fs, path, data, attributes, temporary=f"{self._run.path}/new")

    def change_lines(self, edits: Sequence[LineEdit]) -> None:
        """Change the partition's lines in the checkpoints. Raises the errors of `checkpoint_lines.change_lines`."""
        if edits and self._log_dir is not None:
            with turn_of(self._log_dir):
                self._run.change_lines(tuple(edits))

    # -- the end

    def finish(self, facts: Mapping[str, object], edits: Sequence[LineEdit]) -> Manifest:
        """Change the checkpoint lines, then write the manifest with the state DONE; all files must be synced before."""
        self._growth.close()
        with nullcontext() if self._log_dir is None else turn_of(self._log_dir):
            self.change_lines(edits)
            return self._run.finish(facts)

    def take_back(self, error: BaseException) -> KafkalogError | None:
        """Restore all files after `error`; see `Run.take_back`."""
        self._growth.close()
        return self._run.take_back(error)


class UnseenGrowth:
    """A Growth in `directory`, whose new files get `attributes`. All files are on the disk after AppendedLog.close."""

    def __init__(self, fs: WritableFilesystem, directory: str, attributes: FileAttributes) -> None:
        self._fs = fs
        self._directory = directory
        self._attributes = attributes
        self._files: dict[str, WritableFile] = {}

    def open_file(self, name: str) -> None:
        """See Growth. Raises OSError."""
        path = f"{self._directory}/{name}"
        is_there = self._fs.status(path) is not None
        self._files[name] = self._fs.open_write(path) if is_there else self._fs.create(path, self._attributes)

    def write(self, name: str, position: int, data: bytes | memoryview) -> None:
        """See Growth. Raises OSError."""
        self._files[name].write(position, data)

    def announce(self, names: Iterable[str]) -> None:
        """See Growth; does nothing, because there is nothing to undo."""

    def put(self, name: str, data: bytes | Content) -> None:
        """See Growth. Raises OSError, SyncFailed."""
        replace_file(self._fs, f"{self._directory}/{name}", data, self._attributes)

    def sync(self, name: str) -> None:
        """See Growth. Raises SyncFailed."""
        sync(self._files[name])

    def close(self) -> None:
        """Close the file descriptors."""
        for file in self._files.values():
            file.close()
        self._files.clear()


class NoGrowth:
    """A Growth that writes nothing: a dry run appends to it, and finds what a broker would refuse."""

    def open_file(self, name: str) -> None:
        """Open nothing."""

    def write(self, name: str, position: int, data: bytes | memoryview) -> None:
        """Write nothing."""

    def announce(self, names: Iterable[str]) -> None:
        """Record nothing."""

    def put(self, name: str, data: bytes | Content) -> None:
        """Write nothing."""

    def sync(self, name: str) -> None:
        """Sync nothing."""

    def change_lines(self, edits: Sequence[LineEdit]) -> None:
        """Change no checkpoint."""
