"""The verdicts on entries and sidecar files, how severe they are, and the findings that `verify` takes from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, IntFlag, unique
from typing import Annotated, Any, ClassVar, NamedTuple

from kafkalog_cli.disk.names import FileKind, WorkState
from kafkalog_cli.errors import ExitCode, KafkalogError, counted
from kafkalog_cli.format.fault import Fault, unreadable
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.results import (
    Count,
    Hidden,
    Named,
    PathName,
    Positive,
    as_text,
    exit_codes,
    keywords,
    of,
    result,
)


@unique
class Verdict(Enum):
    """The verdict on an entry, compared with the log. The value is the word in text and machine output."""

    RIGHT = "right"
    STALE = "stale"  # the log differs, or differs by now
    OUT_OF_ORDER = "out of order"
    BEYOND_END = "beyond the end"
    GONE = "no longer in the log"  # compacted or deleted since: not a fault
    NO_DIRECTORY = "no directory"  # a checkpoint's line for a partition that is not here
    UNVERIFIED = "unverified"  # there is no log, or it is damaged there


FAULTY_VERDICTS = (Verdict.STALE, Verdict.OUT_OF_ORDER, Verdict.BEYOND_END)
"""The verdicts that are a fault of the entry itself. Damage in the log leaves an entry unverified."""


@unique
class Style(IntFlag):
    """The rule by which a broker would have written an entry of an offset index; an entry may fit several.

    FIRST_OFFSET: before 2.0, the first offset of the appended batches. APPEND_CALL: 2.0 to 4.0, the largest offset of
    an append call with the position of its first batch. PER_BATCH: since 4.1, the last offset of each batch.
    """

    NONE = 0
    FIRST_OFFSET = 1
    APPEND_CALL = 2
    PER_BATCH = 4


ANY_STYLE = Style.FIRST_OFFSET | Style.APPEND_CALL | Style.PER_BATCH


class Entry(NamedTuple):
    """An entry of a sidecar file: its value, a NamedTuple with Kafka's names, and the verdict.

    `is_tolerable`: a broker's look-ups are right in spite of it. `detail` is a sentence, empty if the verdict says all.
    `style` is NONE except for offset indexes.
    """

    number: int
    value: Any
    verdict: Verdict
    detail: str = ""
    style: Style = Style.NONE
    is_tolerable: bool = True

    @property
    def exit_code(self) -> ExitCode:
        """The exit code for the entry."""
        return verdict_code(self.verdict, self.is_tolerable)


_WARNINGS = (Verdict.UNVERIFIED,)
_FINE = (Verdict.RIGHT, Verdict.GONE, Verdict.NO_DIRECTORY)


def verdict_code(verdict: Verdict, is_tolerable: bool) -> ExitCode:
    """Return OK, WARNINGS or CORRUPTION. A stale entry that misleads no look-up is a warning."""
    if verdict in _FINE:
        return ExitCode.OK
    if verdict in _WARNINGS or (verdict is Verdict.STALE and is_tolerable):
        return ExitCode.WARNINGS
    return ExitCode.CORRUPTION


_SEE = "see EXIT STATUS in the man pages"


class FileNote(NamedTuple):
    """A note about a whole file.

    `code` OK: for information. `kind` is the kind of finding that `verify` makes of the note. It is None if there is
    nothing to report, or if another check of `verify` reports it. `expected` and `got` are "" if the message says all.
    `offsets` are the first and last offset concerned. `is_closed`: the file could not be opened, so nothing else is
    known of it.
    """

    message: Annotated[str, "a sentence"]
    code: Annotated[ExitCode, Named("exit_code"), exit_codes(*ExitCode), _SEE] = ExitCode.OK
    kind: Hidden[FindingKind | None] = None
    expected: Hidden[str] = ""
    got: Hidden[str] = ""
    offsets: Hidden[tuple[int, int] | None] = None
    is_closed: Hidden[bool] = False


_WRONG_AND_INEXACT = {
    FileKind.OFFSET_INDEX: (FindingKind.INDEX_WRONG, FindingKind.INDEX_INEXACT),
    FileKind.TIME_INDEX: (FindingKind.TIME_INDEX_WRONG, FindingKind.TIME_INDEX_INEXACT),
    FileKind.TXN_INDEX: (FindingKind.TXN_INDEX_WRONG, FindingKind.TXN_INDEX_INEXACT),
    FileKind.PRODUCER_SNAPSHOT: (FindingKind.SNAPSHOT_WRONG, FindingKind.SNAPSHOT_INEXACT),
    FileKind.LEADER_EPOCH_CHECKPOINT: (FindingKind.EPOCHS_WRONG, FindingKind.EPOCHS_WRONG),
    FileKind.PARTITION_METADATA: (FindingKind.METADATA_FILE, FindingKind.METADATA_FILE),
    FileKind.QUORUM_STATE: (FindingKind.QUORUM_STATE, FindingKind.QUORUM_STATE),
    FileKind.METADATA_SNAPSHOT: (FindingKind.METADATA_SNAPSHOT, FindingKind.METADATA_SNAPSHOT),
    FileKind.BOOTSTRAP_SNAPSHOT: (FindingKind.METADATA_SNAPSHOT, FindingKind.METADATA_SNAPSHOT),
}


def finding_kind(kind: FileKind, code: ExitCode) -> FindingKind | None:
    """Return the kind of finding for contents of a file that are wrong (CORRUPTION), or inexact (WARNINGS).

    None for files whose contents `verify` checks otherwise.
    """
    wrong, inexact = _WRONG_AND_INEXACT.get(kind, (None, None))
    return wrong if code is ExitCode.CORRUPTION else inexact


def fault_note(kind: FileKind, fault: Fault, code: ExitCode = ExitCode.CORRUPTION) -> FileNote:
    """Return a note about a fault in a file of this kind. With the code FAILURE, the device failed."""
    where = f"at byte {fault.position}: " if fault.position else ""
    found = FindingKind.NOT_READ if code is ExitCode.FAILURE else finding_kind(kind, code)
    return FileNote(f"{where}{fault.message}", code, found, fault.expected, fault.got)


def closed_note(error: KafkalogError | OSError) -> FileNote:
    """Return the note about a file that could not be opened."""
    return FileNote(unreadable(error).message, ExitCode.FAILURE, FindingKind.NOT_READ, is_closed=True)


def note_of(found: Finding) -> FileNote:
    """Return the note about damage in a log, which is reported as a finding too."""
    where = "" if found.position is None else f"at byte {found.position}: "
    return FileNote(where + found.message, found.severity.exit_code)


NO_LOG_NOTE = FileNote("there is no log beside it", ExitCode.WARNINGS)


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries that are made again for each iteration: once to count, once to print."""

    make: Callable[[], Iterator[Entry]]

    def __iter__(self) -> Iterator[Entry]:
        return self.make()


_STYLE_NAMES = {Style.FIRST_OFFSET: "first-offset", Style.APPEND_CALL: "append-call", Style.PER_BATCH: "per-batch"}
StyleNames = list[Annotated[str, keywords(enum=tuple(_STYLE_NAMES.values()))]]


def names_of(style: Style) -> StyleNames:
    """Return the words of JSON output for styles."""
    return [name for flag, name in _STYLE_NAMES.items() if flag in style]


def counts_of(counts: Counter[Verdict]) -> dict[str, int]:
    """Return the number of entries by verdict, as in JSON output."""
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


class StyleCount(NamedTuple):
    """The number of entries of a style."""

    styles: StyleNames
    entries: Positive


@result("kafkalog.index-file/1")
@dataclass(frozen=True, slots=True)
class FileReport:
    """A whole index, snapshot, checkpoint or metadata file, after its entries.

    `entries` are made again for each iteration. `style` has the styles that fit all of them (NONE: no style does).
    `is_read`: the whole file could be read. `lacks_largest`: a time index has no entry for the largest timestamp.
    """

    path: Annotated[PathName, "the path as it was given, or found below it"]
    topic: Annotated[PathName | None, "by the directory's name; null outside of a partition directory"]
    partition: Annotated[Count | None, "null outside of a partition directory"]
    kind: Annotated[FileKind, as_text(lambda kind: kind.value), "the suffix or the name of the file"]
    state: Annotated[WorkState, "the work suffix; empty for a file in place"]
    offset: Annotated[int | None, "the number in the name"]
    size_bytes: Annotated[Count | None, "null for a file that should exist and does not"]
    entries: Hidden[Iterable[Entry]] = ()
    entry_count: ClassVar[Annotated[Count, Named("entries")]] = of(lambda file: file.counts.total())
    verdicts: ClassVar[Annotated[dict[str, Positive], keywords(propertyNames=Verdict), "entries by verdict"]] = of(
        lambda file: counts_of(file.counts)
    )
    styles: ClassVar[Annotated[StyleNames, "styles that fit all right entries; empty: no single style does"]] = of(
        lambda file: names_of(file.style)
    )
    counts_by_style: ClassVar[
        Annotated[list[StyleCount], Named("style_counts"), "entries of an offset index by style"]
    ] = of(lambda file: [StyleCount(names_of(style), count) for style, count in sorted(file.style_counts.items())])
    zero_tail_bytes: Annotated[Count, "preallocated and unused"] = 0
    notes: tuple[FileNote, ...] = ()
    counts: Hidden[Counter[Verdict]] = field(default_factory=Counter)
    style_counts: Hidden[Counter[Style]] = field(default_factory=Counter)
    worst_entry: Hidden[ExitCode] = ExitCode.OK
    is_read: Hidden[bool] = True
    lacks_largest: Hidden[bool] = False

    @property
    def style(self) -> Style:
        """The styles by which every right entry could have been written."""
        common = ANY_STYLE
        for style in self.style_counts:
            common &= style
        return common if self.style_counts else Style.NONE

    @property
    def exit_code(self) -> Annotated[ExitCode, exit_codes(*ExitCode), _SEE]:
        """The worst code of entries and notes. A file that a broker removes at start-up gives a warning at most."""
        worst = max([self.worst_entry, *(note.code for note in self.notes)], key=_RANK.__getitem__)
        is_leftover = self.state not in (WorkState.IN_PLACE, WorkState.SWAP)
        return ExitCode.WARNINGS if is_leftover and worst is ExitCode.CORRUPTION else worst


_RANK = {ExitCode.OK: 0, ExitCode.WARNINGS: 1, ExitCode.FAILURE: 2, ExitCode.CORRUPTION: 3}


def worst_code(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the worst of some codes of entries and notes, OK if there are none."""
    return max(codes, key=_RANK.__getitem__, default=ExitCode.OK)


def findings_of(report: FileReport, *, has_tail_damage: bool, is_named: bool = False) -> Iterator[Finding]:
    """Yield the findings about a file of a partition; a broker removes files with a work suffix, so they have none.

    `has_tail_damage`: the log has a damaged tail, which explains entries that point past the end of the log.
    `is_named`: its own path was given, so that its contents count with a work suffix and without a log beside it too.
    """
    if report.state is not WorkState.IN_PLACE and not is_named:
        return
    notes = [note for note in report.notes if note.is_closed] or report.notes
    kinds = {note.kind for note in notes}
    # A broker deletes a snapshot beyond the end without reading it. While a log grows, such a snapshot belongs to
    # batches that the walk has not seen yet.
    if (
        notes is report.notes
        and (NO_LOG_NOTE not in notes or is_named)
        and FindingKind.SNAPSHOT_BEYOND_END not in kinds
    ):
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
        worst = [entry for entry in worst if entry.verdict in FAULTY_VERDICTS]
    if not worst:
        return
    first = worst[0]
    detail = f": {first.detail}" if first.detail else ""
    message = f"entry {first.number}, {_fields(first)}: {first.verdict.value}{detail}"
    if len(worst) > 1:
        message += f"; {counted(len(worst) - 1, 'more entry', 'more entries')} like it"
    yield finding(kind, report.path, message, got=_fields(first), offsets=_offsets(first))


def _fields(entry: Entry) -> str:
    fields = [*entry.value._asdict().items()][:4]
    return ", ".join(f"{name} {value}" for name, value in fields if value is not None)


def _offsets(entry: Entry) -> tuple[int, int] | None:
    """Return the offsets that an entry refers to, None if its fields have none."""
    fields = entry.value._asdict()
    for first, last in (("first_offset", "last_offset"), ("offset", "offset"), ("start_offset", "start_offset")):
        one, other = fields.get(first), fields.get(last)
        if isinstance(one, int) and isinstance(other, int):
            return (min(one, other), max(one, other))
    return None
