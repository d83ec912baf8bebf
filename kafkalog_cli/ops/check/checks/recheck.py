"""Checks that are repeated while a broker changes the files: only damage that every check finds is reported.

A reader takes no lock, so a broker appends, rolls, cleans and deletes between any two of its calls. The reader may
then hold an index that is newer than its log, or meet a segment in the middle of a rename. Such a state differs from
one check to the next, and damage does not.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.live_logs import is_broker_running
from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.file_report import Entries, Entry, FileNote, FileReport, Style, Verdict
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.check.checks.partition_check import ReadContext
from kafkalog_cli.ops.damage import is_last_segment
from kafkalog_cli.ops.selection import in_its_log_dir

PAUSES_SECONDS = (0.1, 0.4, 1.5)
"""Pauses before each repeated check if a broker runs.

A rename of a segment's files takes some milliseconds, and more on a busy host.
"""

MAY_BE_UNUSED = (
    "a running broker that truncated the log leaves unused entries at the end: it knows how many entries it uses,"
    " and cuts off the rest when it closes the index"
)
"""Why wrong entries in an index of the last segment do not count as corruption while a broker runs.

AbstractIndex.truncateToEntries moves a position in memory, and the preallocated file keeps its bytes.
"""

IN_PROGRESS = "a broker changes it while it is read"

_ZERO_TAIL_BYTES = 12
"""Bytes of a time index entry, the longer of the two kinds of index entries."""

Stamps = dict[str, tuple[int, int, int]]
"""Inode, size in bytes, and the time of the last change in ms, by the name of a file."""

FoundT = TypeVar("FoundT")
_Key = tuple[Any, ...]


class Recheck:
    """Repeats the check of one directory. `is_live`: a broker holds the lock of the log directory."""

    def __init__(self, fs: Filesystem, path: str, *, is_live: bool, sleep: Callable[[float], None]) -> None:
        self.is_live = is_live
        self._fs = fs
        self._path = path
        self._sleep = sleep
        self._listed: Iterable[FileStatus] = ()
        self._count = 0

    def begin(self, listed: Iterable[FileStatus] = ()) -> None:
        """Note the state of the files at the start of a check.

        `listed` is the listing that the check rests on. Every change since then counts, so it may be old. Empty: the
        directory is listed now.
        """
        self._listed = listed or self._list()

    def may_differ(self) -> bool:
        """Whether another check may find another state."""
        return self.is_live or self._now() != _stamps(self._listed)

    def confirm(
        self, found: FoundT, check: Callable[[], FoundT], doubts: Callable[[FoundT, Stamps], set[_Key]]
    ) -> tuple[FoundT, set[_Key], Stamps]:
        """Return what the last check found, its doubts that every check had, and the files after it.

        `found` is what the first check found, and `check` repeats it. Both begin with `begin`. `doubts` returns what is
        to be confirmed, as keys that are equal in different checks.
        """
        if not doubts(found, {}):
            return found, set(), {}
        confirmed: set[_Key] | None = None
        while True:
            stamps = self._now()
            doubted = doubts(found, stamps)
            confirmed = doubted if confirmed is None else doubted & confirmed
            may_differ = self.is_live or stamps != _stamps(self._listed)
            if not confirmed or self._count == len(PAUSES_SECONDS) or not may_differ:
                return found, confirmed, stamps
            if self.is_live:
                self._sleep(PAUSES_SECONDS[self._count])
            self._count += 1
            found = check()

    def _now(self) -> Stamps:
        """Return what identifies each file of the directory; empty if the directory was removed."""
        return _stamps(self._list())

    def _list(self) -> Iterable[FileStatus]:
        try:
            return self._fs.list_directory(self._path)
        except KafkalogError:
            return ()


def _stamps(entries: Iterable[FileStatus]) -> Stamps:
    return {entry.name: (entry.inode, entry.size_bytes, entry.mtime_ms) for entry in entries}


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


# ---- findings


def is_doubtful(one: Finding) -> bool:
    """Whether a finding may be work in progress."""
    return one.severity is not Severity.INFO or one.kind in {FindingKind.NOT_READ, FindingKind.LEFTOVER_TEMPORARY}


def identity(one: Finding, stamps: Stamps) -> _Key:
    """Return a key that is equal for the same finding in different checks; a replaced file counts as another file."""
    stamp = stamps.get(one.path.rpartition("/")[2])
    has_place = one.position is not None or one.first_offset is not None
    message = "" if has_place else one.message
    return one.kind, one.path, one.position, one.first_offset, message, None if stamp is None else stamp[0]


# ---- reports


def report_with_rechecks(
    context: ReadContext, path: str, check: Callable[[], Iterable[FileReport]]
) -> Iterator[FileReport]:
    """Yield the reports that `check` makes on files of the directory `path`, without problems that pass.

    The problems of a file of which no check confirms any are reported as unverified. A file that was removed meanwhile
    has no report. Raises the exceptions of `check`.
    """
    recheck = Recheck(context.fs, path, is_live=_has_running_broker(context.fs, path), sleep=context.sleep)
    recheck.begin()
    pending: dict[str, FileReport] = {}
    for report in check():
        if pending or (report.exit_code is not ExitCode.OK and recheck.may_differ()):
            pending[report.path] = report
        else:
            yield report
    if pending:
        yield from _recheck_reports(context, recheck, pending, check)


def _recheck_reports(
    context: ReadContext, recheck: Recheck, pending: dict[str, FileReport], check: Callable[[], Iterable[FileReport]]
) -> Iterator[FileReport]:
    def again() -> dict[str, FileReport]:
        """Check again, and take the new reports on files that seemed wrong."""
        nonlocal pending
        recheck.begin()
        now: dict[str, FileReport] = {}
        with suppress(KafkalogError):  # the directory was removed
            now = {report.path: report for report in check()}
        now |= {name: report for name, report in pending.items() if report.exit_code is ExitCode.OK}
        pending = {name: now[name] for name in pending if name in now}
        return pending

    found, confirmed, _ = recheck.confirm(pending, again, _problems)
    wrong = {path for path, *_ in confirmed}
    for path, report in found.items():
        if report.exit_code is ExitCode.OK:
            yield report
        elif path not in wrong:
            yield _in_progress(report)
        elif recheck.is_live and report.kind in _OPEN and may_have_unused_entries(context.fs, path):
            yield _maybe_unused(report)
        else:
            yield report


_OPEN = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


def _has_running_broker(fs: Filesystem, path: str) -> bool:
    """Whether a broker holds the lock of the log directory that contains a partition; False if that is not known."""
    try:
        log_dir = log_dir_of(fs, in_its_log_dir(fs, path))
    except KafkalogError:
        return False
    return log_dir is not None and is_broker_running(log_dir)


def _problems(reports: dict[str, FileReport], _: Stamps) -> set[_Key]:
    """Return the problems of files, each with the path first."""
    found: set[_Key] = set()
    for path, report in reports.items():
        wrong = (entry for entry in report.entries if entry.exit_code is not ExitCode.OK)
        found.update((path, entry.verdict, *entry.value) for entry in wrong)
        found.update((path, note.kind, note.message) for note in report.notes if note.code is not ExitCode.OK)
    return found


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
    """Return the report with all wrong entries as unverified, because no problem was found by every check."""

    def entries() -> Iterator[Entry]:
        for entry in report.entries:
            is_fine = entry.exit_code is ExitCode.OK
            yield (
                entry if is_fine else entry._replace(verdict=Verdict.UNVERIFIED, detail=IN_PROGRESS, style=Style.NONE)
            )

    notes = tuple(
        note if note.code is ExitCode.OK else FileNote(IN_PROGRESS, ExitCode.WARNINGS) for note in report.notes
    )
    counts = Counter(entry.verdict for entry in entries())
    return replace(report, entries=Entries(entries), counts=counts, notes=notes, worst_entry=ExitCode.WARNINGS)
