"""The sidecar files of a directory: which are there, in which order, and their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.actions.reports.index_verdict import (
    Entry,
    FileReport,
    Note,
    NoteKind,
    Style,
    Verdict,
    fault_note,
    worst_code,
)
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.storage.fs import FileStatus, Filesystem
from kafkalog_cli.storage.names import DirectoryName, FileKind, FileName, WorkState, classify_file
from kafkalog_cli.storage.reading.scan import read_readable
from kafkalog_cli.storage.reading.unreadable import unreadable

SEGMENT_SIDECARS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
ROOT_SIDECARS = (
    FileKind.META_PROPERTIES,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
    FileKind.BOOTSTRAP_SNAPSHOT,
)
KINDS = (
    FileKind.LOG,
    *SEGMENT_SIDECARS,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.METADATA_SNAPSHOT,
    FileKind.LEADER_EPOCH_CHECKPOINT,
    FileKind.PARTITION_METADATA,
    FileKind.QUORUM_STATE,
    *ROOT_SIDECARS,
)
"""What can be reported, in the order of output."""

STATES = tuple(WorkState)

MAX_INDEX_BYTES = 64 << 20
MAX_STATE_BYTES = 16 << 20
"""Larger files of this kind are not looked at: their entries would not fit into the memory that we allow ourselves."""


class SidecarFile(NamedTuple):
    """A file of a directory, with its name taken apart."""

    name: FileName
    status: FileStatus

    @property
    def order(self) -> tuple[int, int]:
        """The place among files of the same offset: files in place first, then by kind."""
        return STATES.index(self.name.state), KINDS.index(self.name.kind)


class Content(NamedTuple):
    """The bytes of a file as far as they can be had, and what kept us from more."""

    data: bytes
    notes: tuple[Note, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries made anew for each pass: one to count, one to print."""

    make: Callable[[], Iterator[Entry]]

    def __iter__(self) -> Iterator[Entry]:
        return self.make()


class DirectoryFiles:
    """The files of one partition or log directory; `wanted` names the ones to report (None: all)."""

    def __init__(
        self, fs: Filesystem, path: str, directory: DirectoryName, wanted: frozenset[str] | None = None
    ) -> None:
        self.fs = fs
        self.path = path
        self.directory = directory
        self._wanted = wanted
        self._held: dict[str, Content] = {}
        self.all = [
            SidecarFile(classify_file(entry.path.rpartition("/")[2]), entry)
            for entry in fs.list_directory(path)
            if entry.is_file
        ]

    @property
    def is_everything_wanted(self) -> bool:
        """Whether the directory was asked for, not single files."""
        return self._wanted is None

    def wanted(self, *kinds: FileKind) -> list[SidecarFile]:
        """The files of these kinds to report, in the order of output."""
        found = [
            file
            for file in self.all
            if file.name.kind in kinds and (self._wanted is None or file.name.name in self._wanted)
        ]
        return sorted(found, key=lambda file: (-1 if file.name.offset is None else file.name.offset, file.order))

    def log_of(self, file: SidecarFile) -> SidecarFile | None:
        """The log that an index belongs to: that with the same suffix; what is about to be in place, also that there.

        A broker renames the log first and its indexes after it.
        """
        states = (file.name.state, WorkState.IN_PLACE) if file.name.state is WorkState.SWAP else (file.name.state,)
        for state in states:
            for other in self.all:
                name = other.name
                if name.kind is FileKind.LOG and name.state is state and name.offset == file.name.offset:
                    return other
        return None

    def read(self, file: SidecarFile, limit_bytes: int) -> Content:
        """The bytes of a file; never raises. Those of a file that is held are given once, and let go."""
        held = self._held.pop(file.status.path, None)
        return self._read(file, limit_bytes) if held is None else held

    def hold(self, file: SidecarFile, limit_bytes: int) -> None:
        """Read a file now, for the next `read` of it: it must not be newer than the log that is looked at then."""
        path = file.status.path
        if path not in self._held:
            self._held[path] = self._read(file, limit_bytes)

    def peek(self, file: SidecarFile, limit_bytes: int) -> Content:
        """The bytes of a file, which stays held if it is."""
        held = self._held.get(file.status.path)
        return self._read(file, limit_bytes) if held is None else held

    def _read(self, file: SidecarFile, limit_bytes: int) -> Content:
        size = file.status.size_bytes
        if size > limit_bytes:
            message = f"{size} bytes are too many to look at, at most {limit_bytes}"
            return Content(b"", (Note(message, ExitCode.WARNINGS),), is_whole=False)
        try:
            with self.fs.open_read(file.status.path) as opened:
                buffer = bytearray(min(opened.size_bytes, limit_bytes))
                got, fault = read_readable(opened, 0, memoryview(buffer))
        except KafkalogError as error:
            return Content(
                b"", (Note(unreadable(error).message, ExitCode.FAILURE, NoteKind.NOT_OPENED),), is_whole=False
            )
        if fault is not None:
            return Content(bytes(buffer[:got]), (fault_note(fault, ExitCode.FAILURE),), is_whole=False)
        return Content(bytes(memoryview(buffer)[:got]))

    def report(
        self, file: SidecarFile, entries: Callable[[], Iterator[Entry]] | None = None, notes: Iterable[Note] = ()
    ) -> FileReport:
        """The report on a file whose entries are cheap enough to be made twice."""
        counts: Counter[Verdict] = Counter()
        codes: set[ExitCode] = set()
        if entries is not None:
            for entry in entries():
                counts[entry.verdict] += 1
                codes.add(entry.exit_code)
        return self.counted(
            file,
            () if entries is None else Entries(entries),
            tuple(notes),
            counts=counts,
            worst_entry=worst_code(codes),
        )

    def counted(  # noqa: PLR0913
        self,
        file: SidecarFile,
        entries: Iterable[Entry],
        notes: tuple[Note, ...],
        *,
        counts: Counter[Verdict],
        worst_entry: ExitCode,
        style_counts: Counter[Style] | None = None,
        zero_tail_bytes: int = 0,
        is_read: bool = True,
    ) -> FileReport:
        """The report on a file whose entries are counted already."""
        name = file.name
        return FileReport(
            file.status.path,
            name.kind,
            name.state,
            self.directory.topic,
            self.directory.partition,
            name.offset,
            file.status.size_bytes,
            entries,
            notes,
            counts,
            style_counts or Counter(),
            zero_tail_bytes,
            worst_entry,
            is_read,
        )

    def unread(self, file: SidecarFile, content: Content) -> FileReport:
        """The report on a file of which too little could be read to say more."""
        return self.counted(file, (), content.notes, counts=Counter(), worst_entry=ExitCode.OK, is_read=False)

    def missing(self, name: FileName, message: str) -> FileReport:
        """The report on a file that should be there."""
        path = f"{self.path.rstrip('/')}/{name.name}"
        note = Note(message, ExitCode.WARNINGS)
        directory = self.directory
        return FileReport(
            path, name.kind, name.state, directory.topic, directory.partition, name.offset, None, notes=(note,)
        )
