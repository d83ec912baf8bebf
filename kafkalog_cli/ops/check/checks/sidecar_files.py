"""The sidecar files of a directory: lists, sorts and reads them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

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
from kafkalog_cli.log.partition import PartitionFile, entries_of_log
from kafkalog_cli.log.reading.readable import read_readable
from kafkalog_cli.ops.check.checks.file_report import (
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
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind

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
        self._read_early: dict[str, SidecarContent] = {}
        self._small: dict[str, SidecarContent] = {}
        self._left_bytes = MOST_REMEMBERED_BYTES
        self.all = [
            PartitionFile(classify_file(entry.path.rpartition("/")[2]), entry)
            for entry in listed or entries_of_log(fs, path)
            if entry.is_file
        ]
        self._at: dict[int | None, list[PartitionFile]] = {}
        self._of_kind: dict[FileKind, list[PartitionFile]] = {}
        for file in self.all:
            self._at.setdefault(file.name.offset, []).append(file)
            self._of_kind.setdefault(file.name.kind, []).append(file)

    def at(self, offset: int | None) -> Sequence[PartitionFile]:
        """Return the files with this offset in their names; a partition may have very many segments."""
        return self._at.get(offset, ())

    @property
    def is_everything_wanted(self) -> bool:
        """Whether the whole directory was selected, not single files."""
        return self._wanted is None

    def wanted(self, *kinds: FileKind) -> list[PartitionFile]:
        """Return the files of these kinds to report, in the order of output."""
        files = [file for kind in kinds for file in self._of_kind.get(kind, ())]
        if self._wanted is not None:
            files = [file for file in files if file.name.name in self._wanted]
        return sorted(files, key=_order) if len(files) > 1 else files

    def log_of(self, file: PartitionFile) -> PartitionFile | None:
        """Return the log that an index belongs to: the log with the same suffix, for `.swap` also the log in place.

        A broker renames the log first and its indexes after it.
        """
        states = (file.name.state, WorkState.IN_PLACE) if file.name.state is WorkState.SWAP else (file.name.state,)
        for state in states:
            for other in self.at(file.name.offset):
                if other.name.kind is FileKind.LOG and other.name.state is state:
                    return other
        return None

    def read(self, file: PartitionFile) -> SidecarContent:
        """Return the bytes of a file; never raises. Bytes that were read early are returned once and then released.

        Other small files are read once, and remembered.
        """
        path = file.status.path
        content = self._read_early.pop(path, None) or self._small.get(path)
        if content is None:
            content = self._read(file)
            if content.is_whole and len(content.data) <= min(READ_ONCE_BYTES, self._left_bytes):
                self._left_bytes -= len(content.data)
                self._small[path] = content
        return content

    def read_early(self, file: PartitionFile) -> None:
        """Read a file now, and keep its bytes for the next `read`: they must not be newer than the log read next."""
        path = file.status.path
        if path not in self._read_early:
            self._read_early[path] = self._read(file)

    def peek(self, file: PartitionFile) -> SidecarContent:
        """Return the bytes of a file. Those of a file that was read early stay for `read`."""
        content = self._read_early.get(file.status.path)
        return self._read(file) if content is None else content

    def _read(self, file: PartitionFile) -> SidecarContent:
        size, zero_bytes = file.status.size_bytes, 0
        limit_bytes = MAX_INDEX_BYTES if file.name.kind in _ENTRY_BYTES else MAX_STATE_BYTES
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

    def pieces(self, file: PartitionFile) -> Iterator[bytes]:
        """Yield the bytes of a file in pieces. Raises what `open_read` raises, and OSError."""
        with self.fs.open_read(file.status.path) as opened:
            yield from file_pieces(opened)

    def report(
        self, file: PartitionFile, entries: Callable[[], Iterator[Entry]] | None = None, notes: Iterable[FileNote] = ()
    ) -> FileReport:
        """Return the report on a file whose entries are cheap to make twice."""
        counts: Counter[Verdict] = Counter()
        codes: set[ExitCode] = set()
        if entries is not None:
            for entry in entries():
                counts[entry.verdict] += 1
                codes.add(entry.exit_code)
        made = () if entries is None else Entries(entries)
        return self.blank(file, entries=made, notes=tuple(notes), counts=counts, worst_entry=worst_code(codes))

    def blank(self, file: PartitionFile, **facts: Any) -> FileReport:
        """Return a report with these facts."""
        return self._blank(file.name, file.status.path, file.status.size_bytes, **facts)

    def unread(self, file: PartitionFile, content: SidecarContent) -> FileReport:
        """Return the report on a file of which too little could be read."""
        return self.blank(file, notes=content.notes, is_read=False)

    def missing(self, name: FileName, message: str, kind: FindingKind) -> FileReport:
        """Return the report on a file that should exist and does not."""
        path, note = f"{self.path.rstrip('/')}/{name.name}", FileNote(message, ExitCode.WARNINGS, kind)
        return self._blank(name, path, None, notes=(note,))

    def _blank(self, name: FileName, path: str, size_bytes: int | None, **facts: Any) -> FileReport:
        topic, number = self.directory.topic, self.directory.partition
        return FileReport(path, topic, number, name.kind, name.state, name.offset, size_bytes, **facts)


def _order(file: PartitionFile) -> tuple[int, int, int]:
    """Return the sort key by offset; of files with the same offset, those in place come first, then by kind."""
    name = file.name
    return -1 if name.offset is None else name.offset, STATES.index(name.state), KINDS.index(name.kind)


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
