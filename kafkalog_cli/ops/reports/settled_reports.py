"""Reports on sidecar files beside a running broker: a problem that a fresh look does not find again is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.ops.reports.fresh_looks import (
    MAY_BE_UNUSED,
    FreshLooks,
    is_broker_running,
    may_have_unused_entries,
)
from kafkalog_cli.ops.reports.index_verdict import Entry, FileNote, FileReport, Style, Verdict
from kafkalog_cli.ops.reports.segment_reports import ReadContext
from kafkalog_cli.ops.reports.sidecar_files import Entries

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
            read_context.fs, path, is_live=is_broker_running(read_context.fs, path), sleep=read_context.sleep
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
