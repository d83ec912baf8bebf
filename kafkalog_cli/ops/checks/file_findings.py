"""Findings about the files beside a log: the notes on a file, and one finding for its worst entries."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.disk.names import WorkState
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.checks.diagnose import Finding, finding
from kafkalog_cli.ops.checks.file_report import (
    NO_LOG_NOTE,
    ODD_VERDICTS,
    Entry,
    FileReport,
    Verdict,
    finding_kind,
)
from kafkalog_cli.ops.checks.finding_kinds import FindingKind


def findings_of(report: FileReport, *, has_tail_damage: bool) -> Iterator[Finding]:
    """Yield the findings about a file of a partition; a broker removes files with a work suffix, so they have none.

    `has_tail_damage`: the log has a damaged tail, which explains entries that point past the end of the log.
    """
    if report.state is not WorkState.IN_PLACE:
        return
    notes = [note for note in report.notes if note.is_closed] or report.notes
    kinds = {note.kind for note in notes}
    # A broker deletes a snapshot beyond the end without reading it. While a log grows, such a snapshot belongs to
    # batches that the walk has not seen yet.
    if notes is report.notes and NO_LOG_NOTE not in notes and FindingKind.SNAPSHOT_BEYOND_END not in kinds:
        yield from _of_entries(report, has_tail_damage=has_tail_damage)
    for note in notes:
        kind = note.kind
        if kind is FindingKind.SNAPSHOT_BEYOND_END and has_tail_damage:
            kind = FindingKind.ENTRIES_BEHIND_TAIL
        if kind is not None:
            yield finding(kind, report.path, note.message, expected=note.expected, got=note.got, offsets=note.offsets)


def _of_entries(report: FileReport, *, has_tail_damage: bool) -> Iterator[Finding]:
    kind = finding_kind(report.kind, report.worst_entry)
    if report.worst_entry is ExitCode.OK or kind is None:
        return
    worst = [entry for entry in report.entries if entry.exit_code is report.worst_entry]
    if has_tail_damage:
        mine = [entry for entry in worst if entry.verdict is not Verdict.BEYOND_END]
        if not mine and worst:
            message = f"{counted(len(worst), 'entry', 'entries')} after the end of the log"
            yield finding(FindingKind.ENTRIES_BEHIND_TAIL, report.path, message, offsets=_offsets(worst[0]))
            return
        worst = mine
    if report.worst_entry is not ExitCode.CORRUPTION:
        # Entries that could not be checked because of damage are not wrong.
        worst = [entry for entry in worst if entry.verdict in ODD_VERDICTS]
    if not worst:
        return
    first = worst[0]
    detail = f": {first.detail}" if first.detail else ""
    message = f"entry {first.number}, {_fields(first)}: {first.verdict.value}{detail}"
    if len(worst) > 1:
        message += f"; {counted(len(worst) - 1, 'more entry', 'more entries')} like it"
    yield finding(kind, report.path, message, got=_fields(first), offsets=_offsets(first))


def _fields(entry: Entry) -> str:
    return ", ".join(f"{name} {value}" for name, value in list(entry.fields.items())[:4] if value is not None)


def _offsets(entry: Entry) -> tuple[int, int] | None:
    """Return the offsets that an entry refers to, None if its fields have none."""
    fields = entry.fields
    for first, last in (("first_offset", "last_offset"), ("offset", "offset"), ("start_offset", "start_offset")):
        one, other = fields.get(first), fields.get(last)
        if isinstance(one, int) and isinstance(other, int):
            return (min(one, other), max(one, other))
    return None
