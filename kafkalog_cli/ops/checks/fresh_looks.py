"""Fresh looks at files that seem wrong while a broker changes them: only damage that every look sees is reported.

A reader takes no lock, so a broker appends, rolls, cleans and deletes between any two of its calls. The reader may
then hold an index that is newer than its log, or meet a segment in the middle of a rename. Such a state differs from
one look to the next, and damage does not.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.live_logs import is_broker_running
from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.ops.checks.file_report import Entry, FileNote, FileReport, Style, Verdict
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.checks.sidecar_files import Entries
from kafkalog_cli.ops.damage import is_last_segment
from kafkalog_cli.ops.selection import in_its_log_dir

PAUSES_SECONDS = (0.1, 0.4, 1.5)
"""Pauses before each fresh look if a broker runs.

A rename of a segment's files takes some milliseconds, and more on a busy host.
"""

MAY_BE_UNUSED = (
    "a running broker that truncated the log leaves unused entries at the end: it knows how many entries it uses,"
    " and cuts off the rest when it closes the index"
)
"""Why wrong entries in an index of the last segment do not count as corruption while a broker runs.

AbstractIndex.truncateToEntries moves a position in memory, and the preallocated file keeps its bytes.
"""

_ZERO_TAIL_BYTES = 12
"""Bytes of a time index entry, the longer of the two kinds of index entries."""

FileStamp = tuple[int, int, int]
"""Inode, size in bytes, and the time of the last change in ms."""


class FreshLooks:
    """The changes of one directory between looks.

    `is_live`: a broker holds the lock of the log directory. Call `begin` before each look.
    """

    def __init__(self, fs: Filesystem, path: str, *, is_live: bool, sleep: Callable[[float], None]) -> None:
        self.is_live = is_live
        self._fs = fs
        self._path = path
        self._sleep = sleep
        self._before: dict[str, FileStamp] = {}
        self._count = 0

    def begin(self, listed: Iterable[FileStatus] = ()) -> None:
        """Note the state of the files at the start of a look.

        `listed` is the listing that the look rests on. Every change since then counts, so it may be old. Empty: the
        directory is listed now.
        """
        self._before = _stamps(listed) or self.stamps()

    def stamps(self) -> dict[str, FileStamp]:
        """Return what identifies each file of the directory, by name; empty if the directory was removed."""
        try:
            entries = self._fs.list_directory(self._path)
        except KafkalogError:
            return {}
        return _stamps(entries)

    def wants_another(self, stamps: dict[str, FileStamp] | None = None) -> bool:
        """Whether a fresh look may show another state. Pauses first if a broker runs.

        `stamps`: the current stamps of the files, if the caller already has them.
        """
        now = stamps if stamps is not None or self.is_live else self.stamps()
        if self._count == len(PAUSES_SECONDS) or not (self.is_live or now != self._before):
            return False
        self._count += 1
        if self.is_live:
            self._sleep(PAUSES_SECONDS[self._count - 1])
        return True


def _stamps(entries: Iterable[FileStatus]) -> dict[str, FileStamp]:
    return {entry.path.rpartition("/")[2]: (entry.inode, entry.size_bytes, entry.mtime_ms) for entry in entries}


def may_have_unused_entries(fs: Filesystem, path: str) -> bool:
    """Whether a running broker may have the index open: it is of the last segment, and longer than its entries.

    A broker preallocates such an index, and cuts it to its entries when it rolls the segment or stops.
    """
    if not is_last_segment(fs, path):
        return False
    end = bytearray(_ZERO_TAIL_BYTES)
    try:
        with fs.open_read(path) as file:
            start = file.size_bytes - len(end)
            return start >= 0 and file.read_into(start, memoryview(end)) == len(end) and not any(end)
    except (KafkalogError, OSError):
        return False


def has_running_broker(fs: Filesystem, partition_path: str) -> bool:
    """Whether a broker holds the lock of the log directory that contains a partition; False if that is not known."""
    try:
        log_dir = log_dir_of(fs, in_its_log_dir(fs, partition_path))
    except KafkalogError:
        return False
    return log_dir is not None and is_broker_running(log_dir)


IN_PROGRESS = "a broker changes it while it is read"

_Wrong = frozenset[tuple[object, ...]]


def settled_reports(
    read_context: ReadContext, path: str, look: Callable[[], Iterable[FileReport]]
) -> Iterator[FileReport]:
    """Yield the reports that `look` makes on files of the directory `path`, without problems that pass.

    A file that seems wrong is checked several times. If the looks agree on no problem, its problems are reported as
    unverified. A file that was removed meanwhile has no report. Raises the exceptions of `look`.
    """
    looks = _Looks(read_context, path, look)
    for report in looks.first():
        settled = report if report.exit_code is ExitCode.OK else looks.settle(report)
        if settled is not None:
            yield settled


class _Looks:
    """The looks at a directory. Later looks are made when a report needs them, and kept."""

    def __init__(self, read_context: ReadContext, path: str, look: Callable[[], Iterable[FileReport]]) -> None:
        self._fs, self._look = read_context.fs, look
        self._fresh = FreshLooks(
            read_context.fs, path, is_live=has_running_broker(read_context.fs, path), sleep=read_context.sleep
        )
        self._later: list[dict[str, FileReport]] = []

    def first(self) -> Iterable[FileReport]:
        """Return the reports of the first look."""
        self._fresh.begin()
        return self._look()

    def settle(self, report: FileReport) -> FileReport | None:
        """Return the settled report on a file that seems wrong; None if the file was removed."""
        latest, wrong, number = report, _wrong(report), 0
        while latest.exit_code is not ExitCode.OK and (later := self._at(number)) is not None:
            if report.path not in later:
                return None
            latest, number = later[report.path], number + 1
            wrong &= _wrong(latest)
        if not wrong and latest.exit_code is not ExitCode.OK:
            return _in_progress(latest)
        return _maybe_unused(latest) if self._is_of_running_broker(latest) else latest

    def _is_of_running_broker(self, report: FileReport) -> bool:
        """Whether a running broker has an index open for writing."""
        is_index = report.kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        return self._fresh.is_live and is_index and may_have_unused_entries(self._fs, report.path)

    def _at(self, number: int) -> dict[str, FileReport] | None:
        """Return the reports of a later look by path; None if no further look is wanted."""
        if number < len(self._later):
            return self._later[number]
        if not self._fresh.wants_another():
            return None
        self._fresh.begin()
        try:
            self._later.append({report.path: report for report in self._look()})
        except KafkalogError:  # the directory was removed
            self._later.append({})
        return self._later[-1]


def _wrong(report: FileReport) -> _Wrong:
    """Return the problems of a file, in a form in which two looks can be compared."""
    entries = (
        (entry.verdict, *entry.fields.values()) for entry in report.entries if entry.exit_code is not ExitCode.OK
    )
    notes = ((note.kind, note.message) for note in report.notes if note.code is not ExitCode.OK)
    return frozenset([*entries, *notes])


def _maybe_unused(report: FileReport) -> FileReport:
    """Return the report with warnings instead of corruption: unused entries look like corruption."""
    if report.exit_code is not ExitCode.CORRUPTION:
        return report
    lowered = (
        note._replace(code=ExitCode.WARNINGS) if note.code is ExitCode.CORRUPTION else note for note in report.notes
    )
    notes = (*lowered, FileNote(MAY_BE_UNUSED, ExitCode.WARNINGS))
    return replace(report, notes=notes, worst_entry=ExitCode.WARNINGS)


def _in_progress(report: FileReport) -> FileReport:
    """Return the report with all wrong entries as unverified, because no problem was found by every look."""

    def entries() -> Iterator[Entry]:
        for entry in report.entries:
            if entry.exit_code is ExitCode.OK:
                yield entry
            else:
                yield entry._replace(verdict=Verdict.UNVERIFIED, detail=IN_PROGRESS, style=Style.NONE)

    counts = Counter(report.counts)
    for entry in report.entries:
        if entry.exit_code is not ExitCode.OK:
            counts[entry.verdict] -= 1
            counts[Verdict.UNVERIFIED] += 1
    notes = tuple(
        note if note.code is ExitCode.OK else FileNote(IN_PROGRESS, ExitCode.WARNINGS) for note in report.notes
    )
    return replace(report, entries=Entries(entries), counts=+counts, notes=notes, worst_entry=ExitCode.WARNINGS)
