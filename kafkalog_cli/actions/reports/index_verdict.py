"""What dump-index says of an entry, of a sidecar file, and how bad it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntFlag, unique
from typing import NamedTuple

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.storage.names import FileKind, WorkState


@unique
class Verdict(Enum):
    """What an entry is, against the log. The value is the word that text and machine output use."""

    RIGHT = "right"
    STALE = "stale"  # not, or no longer, what the log says
    OUT_OF_ORDER = "out of order"
    BEYOND_END = "beyond the end"
    GONE = "not in the log any more"  # compacted or deleted since: nothing is wrong
    NO_DIRECTORY = "no directory"  # a checkpoint's line about a partition that is not here
    UNVERIFIED = "unverified"  # no log, or damage, where it points


ODD_VERDICTS = (Verdict.STALE, Verdict.OUT_OF_ORDER, Verdict.BEYOND_END)
"""What is a fault of the entry itself: damage in the log keeps others from being checked."""


@unique
class Style(IntFlag):
    """By which rule a broker would have written an entry of an offset index; an entry may fit several.

    FIRST_OFFSET: before 2.0, the first offset of what was appended. APPEND_CALL:
    2.0 to 4.0, the largest offset of an append call with the position of its first batch. PER_BATCH: since 4.1.
    """

    NONE = 0
    FIRST_OFFSET = 1
    APPEND_CALL = 2
    PER_BATCH = 4


ANY_STYLE = Style.FIRST_OFFSET | Style.APPEND_CALL | Style.PER_BATCH


class Entry(NamedTuple):
    """An entry of a sidecar file: its fields under Kafka's names, and what was found.

    `is_tolerable`: a broker's look-ups are right with it all the same. `detail` is a sentence, empty where the
    verdict says all. `style` is NONE but for offset indexes.
    """

    number: int
    fields: dict[str, object]
    verdict: Verdict
    detail: str = ""
    style: Style = Style.NONE
    is_tolerable: bool = True

    @property
    def exit_code(self) -> ExitCode:
        """How bad the entry is."""
        return verdict_code(self.verdict, self.is_tolerable)


_WARNINGS = (Verdict.UNVERIFIED,)
_FINE = (Verdict.RIGHT, Verdict.GONE, Verdict.NO_DIRECTORY)


def verdict_code(verdict: Verdict, is_tolerable: bool) -> ExitCode:
    """OK, WARNINGS or CORRUPTION; a stale entry that misleads no look-up is a warning."""
    if verdict in _FINE:
        return ExitCode.OK
    if verdict in _WARNINGS or (verdict is Verdict.STALE and is_tolerable):
        return ExitCode.WARNINGS
    return ExitCode.CORRUPTION


@unique
class NoteKind(Enum):
    """What a note is about, where more hangs on it than its file and how bad it is."""

    OTHER = "other"
    LOG_DAMAGE = "log damage"  # told in full by the walk
    OFFSET_GAP = "offset gap"
    END_NOT_SEEN = "end not seen"
    NO_LOG = "no log"
    ZERO_TAIL = "zero tail"
    LARGEST_NOT_INDEXED = "largest timestamp not indexed"
    BEYOND_END = "beyond the end"
    BELOW_START = "below the start"
    NO_NUMBER = "no number"
    NOT_OPENED = "not opened"
    LEFT_OVER = "left over"


class Note(NamedTuple):
    """A sentence about a whole file; `code` OK: for information. `expected` and `got` are "" where it says all.

    `offsets` are the first and the last offset concerned.
    """

    message: str
    code: ExitCode = ExitCode.OK
    kind: NoteKind = NoteKind.OTHER
    expected: str = ""
    got: str = ""
    offsets: tuple[int, int] | None = None


def fault_note(fault: Fault, code: ExitCode = ExitCode.CORRUPTION) -> Note:
    """A note about a fault in a sidecar file."""
    where = f"at byte {fault.position}: " if fault.position else ""
    return Note(f"{where}{fault.message}", code, expected=fault.expected, got=fault.got)


@dataclass(frozen=True, slots=True)
class FileReport:
    """A sidecar file: its entries, made when they are asked for, and what holds for the whole.

    `offset` is the number in the name. `size_bytes` is None for a file that should be there and is not.
    `counts` are the entries by verdict, `style_counts` those of an offset index by style, and `style` what fits
    them all (NONE: no single one does). `zero_tail_bytes`: preallocated and unused. `is_read`: all of it could be.
    """

    path: str
    kind: FileKind
    state: WorkState
    topic: str | None
    partition: int | None
    offset: int | None
    size_bytes: int | None
    entries: Iterable[Entry] = ()
    notes: tuple[Note, ...] = ()
    counts: Counter[Verdict] = field(default_factory=Counter)
    style_counts: Counter[Style] = field(default_factory=Counter)
    zero_tail_bytes: int = 0
    worst_entry: ExitCode = ExitCode.OK
    is_read: bool = True

    @property
    def style(self) -> Style:
        """The styles by which every right entry could have been written."""
        common = ANY_STYLE
        for style in self.style_counts:
            common &= style
        return common if self.style_counts else Style.NONE

    @property
    def exit_code(self) -> ExitCode:
        """The worst of entries and notes; what a broker deletes when it starts is a warning at most."""
        worst = max([self.worst_entry, *(note.code for note in self.notes)], key=_RANK.__getitem__)
        is_leftover = self.state not in (WorkState.IN_PLACE, WorkState.SWAP)
        return ExitCode.WARNINGS if is_leftover and worst is ExitCode.CORRUPTION else worst


_RANK = {ExitCode.OK: 0, ExitCode.WARNINGS: 1, ExitCode.FAILURE: 2, ExitCode.CORRUPTION: 3}


def worst_code(codes: Iterable[ExitCode]) -> ExitCode:
    """The worst of some codes of entries and notes, OK if there are none."""
    return max(codes, key=_RANK.__getitem__, default=ExitCode.OK)


def counted(number: int, one: str, many: str) -> str:
    """`number` with its noun."""
    return f"{number} {one if number == 1 else many}"
