"""The sidecar files of a directory: lists, sorts and reads them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkalog_cli.disk.fs import (
    MOST_REMEMBERED_BYTES,
    READ_ONCE_BYTES,
    FileStatus,
    Filesystem,
    ReadableFile,
    file_pieces,
)
from kafkalog_cli.disk.names import DirectoryName, FileKind, FileName, WorkState, classify_file
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_cli.log.partition import entries_of_log
from kafkalog_cli.log.reading.readable import read_readable
from kafkalog_cli.ops.checks.file_report import (
    Entries,
    Entry,
    FileNote,
    FileReport,
    Verdict,
    closed_note,
    fault_note,
    finding_kind,
    worst_code,
)
from kafkalog_cli.ops.checks.finding_kinds import FindingKind

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
"""The kinds of files that can be reported, in the order of output."""

STATES = tuple(WorkState)

MAX_INDEX_BYTES = 32 << 20
MAX_STATE_BYTES = 16 << 20
"""Largest sizes of files that are read: larger files would need too much memory."""


_MOST_SETTING = (1 << 31) - 1
"""The largest segment.index.bytes: the setting is an int."""
_ENTRY_BYTES = {FileKind.OFFSET_INDEX: OFFSET_INDEX_ENTRY.size, FileKind.TIME_INDEX: TIME_INDEX_ENTRY.size}


class SidecarFile(NamedTuple):
    """A file of a directory, with its parsed name."""

    name: FileName
    status: FileStatus

    @property
    def order(self) -> tuple[int, int]:
        """The sort key among files of the same offset: files in place first, then by kind."""
        return STATES.index(self.name.state), KINDS.index(self.name.kind)


class SidecarContent(NamedTuple):
    """The bytes of a file that could be read, and notes on why others could not.

    `zero_bytes`: so many bytes follow in a large index that is preallocated, all of them zero.
    """

    data: bytes
    notes: tuple[FileNote, ...] = ()
    is_whole: bool = True
    zero_bytes: int = 0


class DirectoryFiles:
    """The files of one partition or log directory. `wanted` has the names of the files to report (None: all).

    `listed` is the listing of the directory; it is listed now if that is empty.
    """

    def __init__(
        self,
        fs: Filesystem,
        path: str,
        directory: DirectoryName,
        wanted: frozenset[str] | None = None,
        listed: Iterable[FileStatus] = (),
    ) -> None:
        self.fs = fs
        self.path = path
        self.directory = directory
        self._wanted = wanted
        self._held: dict[str, SidecarContent] = {}
        self._small: dict[str, SidecarContent] = {}
        self._left_bytes = MOST_REMEMBERED_BYTES
        self.all = [
            SidecarFile(classify_file(entry.path.rpartition("/")[2]), entry)
            for entry in listed or entries_of_log(fs, path)
            if entry.is_file
        ]
        self._at: dict[int | None, list[SidecarFile]] = {}
        for file in self.all:
            self._at.setdefault(file.name.offset, []).append(file)

    def at(self, offset: int | None) -> Sequence[SidecarFile]:
        """Return the files with this offset in their names; a partition may have very many segments."""
        return self._at.get(offset, ())

    @property
    def is_everything_wanted(self) -> bool:
        """Whether the whole directory was selected, not single files."""
        return self._wanted is None

    def wanted(self, *kinds: FileKind) -> list[SidecarFile]:
        """Return the files of these kinds to report, in the order of output."""
        found = [
            file
            for file in self.all
            if file.name.kind in kinds and (self._wanted is None or file.name.name in self._wanted)
        ]
        return sorted(found, key=lambda file: (-1 if file.name.offset is None else file.name.offset, file.order))

    def log_of(self, file: SidecarFile) -> SidecarFile | None:
        """Return the log that an index belongs to: the log with the same suffix, for `.swap` also the log in place.

        A broker renames the log first and its indexes after it.
        """
        states = (file.name.state, WorkState.IN_PLACE) if file.name.state is WorkState.SWAP else (file.name.state,)
        for state in states:
            for other in self.at(file.name.offset):
                if other.name.kind is FileKind.LOG and other.name.state is state:
                    return other
        return None

    def read(self, file: SidecarFile, limit_bytes: int) -> SidecarContent:
        """Return the bytes of a file; never raises. The bytes of a held file are returned once and then released.

        Other small files are read once, and remembered.
        """
        path = file.status.path
        content = self._held.pop(path, None) or self._small.get(path)
        if content is None:
            content = self._read(file, limit_bytes)
            if content.is_whole and len(content.data) <= min(READ_ONCE_BYTES, self._left_bytes):
                self._left_bytes -= len(content.data)
                self._small[path] = content
        return content

    def hold(self, file: SidecarFile, limit_bytes: int) -> None:
        """Read a file now, and keep its bytes for the next `read`: they must not be newer than the log read next."""
        path = file.status.path
        if path not in self._held:
            self._held[path] = self._read(file, limit_bytes)

    def peek(self, file: SidecarFile, limit_bytes: int) -> SidecarContent:
        """Return the bytes of a file. A held file stays held."""
        held = self._held.get(file.status.path)
        return self._read(file, limit_bytes) if held is None else held

    def _read(self, file: SidecarFile, limit_bytes: int) -> SidecarContent:
        size, zero_bytes = file.status.size_bytes, 0
        try:
            with self.fs.open_read(file.status.path) as opened:
                if size > limit_bytes:
                    limit_bytes -= limit_bytes % _ENTRY_BYTES.get(file.name.kind, 1)
                    if not _ends_in_zeros(opened, file.name.kind, limit_bytes):
                        message = f"{size} bytes are too many to check, at most {limit_bytes}"
                        note = FileNote(message, ExitCode.WARNINGS, finding_kind(file.name.kind, ExitCode.WARNINGS))
                        return SidecarContent(b"", (note,), is_whole=False)
                    zero_bytes = opened.size_bytes - limit_bytes
                buffer = bytearray(min(opened.size_bytes, limit_bytes))
                got, fault = read_readable(opened, 0, memoryview(buffer))
        except KafkalogError as error:
            return SidecarContent(b"", (closed_note(error),), is_whole=False)
        if fault is not None:
            note = fault_note(file.name.kind, fault, ExitCode.FAILURE)
            return SidecarContent(bytes(buffer[:got]), (note,), is_whole=False)
        return SidecarContent(bytes(memoryview(buffer)[:got]), zero_bytes=zero_bytes)

    def pieces(self, file: SidecarFile) -> Iterator[bytes]:
        """Yield the bytes of a file in pieces. Raises what `open_read` raises, and OSError."""
        with self.fs.open_read(file.status.path) as opened:
            yield from file_pieces(opened)

    def report(
        self, file: SidecarFile, entries: Callable[[], Iterator[Entry]] | None = None, notes: Iterable[FileNote] = ()
    ) -> FileReport:
        """Return the report on a file whose entries are cheap to make twice."""
        counts: Counter[Verdict] = Counter()
        codes: set[ExitCode] = set()
        if entries is not None:
            for entry in entries():
                counts[entry.verdict] += 1
                codes.add(entry.exit_code)
        made = () if entries is None else Entries(entries)
        return replace(self.blank(file), entries=made, notes=tuple(notes), counts=counts, worst_entry=worst_code(codes))

    def blank(self, file: SidecarFile) -> FileReport:
        """Return a report that says nothing about the file yet."""
        return self._blank(file.name, file.status.path, file.status.size_bytes)

    def unread(self, file: SidecarFile, content: SidecarContent) -> FileReport:
        """Return the report on a file of which too little could be read."""
        return replace(self.blank(file), notes=content.notes, is_read=False)

    def missing(self, name: FileName, message: str, kind: FindingKind) -> FileReport:
        """Return the report on a file that should exist and does not."""
        report = self._blank(name, f"{self.path.rstrip('/')}/{name.name}", None)
        return replace(report, notes=(FileNote(message, ExitCode.WARNINGS, kind),))

    def _blank(self, name: FileName, path: str, size_bytes: int | None) -> FileReport:
        directory = self.directory
        return FileReport(path, directory.topic, directory.partition, name.kind, name.state, name.offset, size_bytes)


def _ends_in_zeros(file: ReadableFile, kind: FileKind, start: int) -> bool:
    """Whether a file is an index of whole entries of which all from byte `start` on are zero: a preallocated one.

    A larger file than segment.index.bytes can be, such as a hole of 16 TiB, is not read through.
    """
    if kind not in _ENTRY_BYTES or file.size_bytes % _ENTRY_BYTES[kind] or file.size_bytes > _MOST_SETTING:
        return False
    try:
        return not any(piece.strip(b"\0") for piece in file_pieces(file, start))
    except OSError:
        return False
