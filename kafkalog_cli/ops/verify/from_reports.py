"""Findings from the reports on sidecar files: what is wrong with an index, snapshot or checkpoint, and its severity."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.reports.index_verdict import ODD_VERDICTS, Entry, FileNote, FileReport, NoteKind, Verdict
from kafkalog_cli.ops.verify.diagnose import Finding, finding
from kafkalog_cli.ops.verify.finding_kinds import FindingKind

_MISSING = {
    FileKind.OFFSET_INDEX: FindingKind.INDEX_MISSING,
    FileKind.TIME_INDEX: FindingKind.TIME_INDEX_MISSING,
    FileKind.PRODUCER_SNAPSHOT: FindingKind.SNAPSHOTS_MISSING,
    FileKind.LEADER_EPOCH_CHECKPOINT: FindingKind.EPOCHS_MISSING,
}
_KINDS = {
    # (wrong, inexact)
    FileKind.OFFSET_INDEX: (FindingKind.INDEX_WRONG, FindingKind.INDEX_INEXACT),
    FileKind.TIME_INDEX: (FindingKind.TIME_INDEX_WRONG, FindingKind.TIME_INDEX_INEXACT),
    FileKind.TXN_INDEX: (FindingKind.TXN_INDEX_WRONG, FindingKind.TXN_INDEX_INEXACT),
    FileKind.PRODUCER_SNAPSHOT: (FindingKind.SNAPSHOT_WRONG, FindingKind.SNAPSHOT_INEXACT),
    FileKind.LEADER_EPOCH_CHECKPOINT: (FindingKind.EPOCHS_WRONG, FindingKind.EPOCHS_WRONG),
    FileKind.PARTITION_METADATA: (FindingKind.METADATA_FILE, FindingKind.METADATA_FILE),
    FileKind.META_PROPERTIES: (FindingKind.META_PROPERTIES, FindingKind.META_PROPERTIES),
    FileKind.CLEAN_SHUTDOWN: (FindingKind.SHUTDOWN_MARKER, FindingKind.SHUTDOWN_MARKER),
    FileKind.QUORUM_STATE: (FindingKind.QUORUM_STATE, FindingKind.QUORUM_STATE),
}
_NOTES = {
    NoteKind.ZERO_TAIL: FindingKind.INDEX_ZERO_TAIL,
    NoteKind.END_NOT_SEEN: FindingKind.END_NOT_SEEN,
    NoteKind.LARGEST_NOT_INDEXED: FindingKind.TIME_INDEX_INEXACT,
    NoteKind.BEYOND_END: FindingKind.SNAPSHOT_BEYOND_END,
    NoteKind.NO_NUMBER: FindingKind.BAD_NAME,
    NoteKind.NOT_OPENED: FindingKind.NOT_READ,
    NoteKind.NOT_CHECKED: FindingKind.ENTRIES_NOT_CHECKED,
}
_SILENT = (NoteKind.LOG_DAMAGE, NoteKind.NO_LOG, NoteKind.LEFT_OVER, NoteKind.BELOW_START)
"""Notes that give no finding here.

The walk of the log and the checks of file names report them, or a broker corrects the state at each start.
"""


def findings_of(report: FileReport, *, has_tail_damage: bool) -> Iterator[Finding]:
    """Yield the findings from the report on a file of a partition.

    `has_tail_damage`: the log has a damaged tail, which explains entries that point past the end of the log.
    """
    if report.state not in (WorkState.IN_PLACE,):
        return
    if report.size_bytes is None:
        message = report.notes[0].message if report.notes else "missing"
        yield finding(_MISSING.get(report.kind, FindingKind.NOT_READ), report.path, message)
        return
    closed = [note for note in report.notes if note.kind is NoteKind.NOT_OPENED]
    if closed:  # nothing else in the report can be known
        yield finding(FindingKind.NOT_READ, report.path, closed[0].message)
        return
    kinds = {note.kind for note in report.notes}
    # A broker deletes a snapshot beyond the end without reading it. While a log grows, such a snapshot belongs to
    # batches that the walk has not seen yet.
    is_unread = report.kind is FileKind.PRODUCER_SNAPSHOT and NoteKind.BEYOND_END in kinds
    if NoteKind.NO_LOG not in kinds and not is_unread:
        yield from _of_entries(report, has_tail_damage=has_tail_damage)
    for note in report.notes:
        yield from _of_note(report, note, has_tail_damage=has_tail_damage)


def _of_entries(report: FileReport, *, has_tail_damage: bool) -> Iterator[Finding]:
    if report.worst_entry is ExitCode.OK or report.kind not in _KINDS:
        return
    first: Entry | None = None
    count = 0
    worst = [entry for entry in report.entries if entry.exit_code is report.worst_entry]
    if has_tail_damage:
        mine = [entry for entry in worst if entry.verdict is not Verdict.BEYOND_END]
        if not mine and worst:
            message = f"{counted(len(worst), 'entry', 'entries')} after the end of the log"
            yield finding(FindingKind.ENTRIES_BEHIND_TAIL, report.path, message, offsets=_offsets(worst[0]))
            return
        worst = mine
    if report.worst_entry is not ExitCode.CORRUPTION:
        worst = [
            entry for entry in worst if entry.verdict in ODD_VERDICTS
        ]  # entries that could not be checked because of damage are not wrong
    if not worst:
        return
    first, count = worst[0], len(worst)
    kind = _KINDS[report.kind][0 if report.worst_entry is ExitCode.CORRUPTION else 1]
    detail = f": {first.detail}" if first.detail else ""
    message = f"entry {first.number}, {_fields(first)}: {first.verdict.value}{detail}"
    if count > 1:
        message += f"; {counted(count - 1, 'more entry', 'more entries')} like it"
    yield finding(kind, report.path, message, got=_fields(first), offsets=_offsets(first))


def _of_note(report: FileReport, note: FileNote, *, has_tail_damage: bool) -> Iterator[Finding]:
    if note.kind in _SILENT:
        return
    if note.kind is NoteKind.OFFSET_GAP:
        yield finding(FindingKind.OFFSET_GAP, report.path, note.message, offsets=note.offsets)
        return
    if note.kind is NoteKind.BEYOND_END and has_tail_damage:
        yield finding(FindingKind.ENTRIES_BEHIND_TAIL, report.path, note.message, expected=note.expected, got=note.got)
        return
    if note.kind in _NOTES:
        yield finding(_NOTES[note.kind], report.path, note.message, expected=note.expected, got=note.got)
        return
    if note.code is ExitCode.OK:
        return
    if note.code is ExitCode.FAILURE or report.kind not in _KINDS:
        yield finding(FindingKind.NOT_READ, report.path, note.message, expected=note.expected, got=note.got)
        return
    yield finding(
        _KINDS[report.kind][0 if note.code is ExitCode.CORRUPTION else 1],
        report.path,
        note.message,
        expected=note.expected,
        got=note.got,
    )


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
