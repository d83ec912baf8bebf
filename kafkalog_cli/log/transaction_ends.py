"""Finding how the transactions of a log end: by markers in the log, or by the transaction index if damage hides one."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, read_all
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import CONTROL_MASK, BatchColumns
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.control import ABORT
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.log.open_transactions import SegmentPart
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import control_type_at
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan

_MOST_INDEX_BYTES = 16 << 20
"""The largest transaction index that is read: its entries, half a million, are kept as objects."""

Tell = Callable[[str, str], None]
"""Called with the path of a file and a description of the problem."""


@unique
class Ending(Enum):
    """The outcome of a transaction. OPEN: nothing in the log ends it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


class _Marker(NamedTuple):
    """An end marker at `offset`. `is_indexed`: it is an ABORT marker with an entry in the transaction index."""

    offset: int
    ending: Ending
    is_indexed: bool


class _Markers:
    """The markers of one producer that were found but not passed yet, with a few bytes per marker."""

    __slots__ = ("_first", "_flags", "_offsets")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._flags = bytearray()
        self._first = 0

    def append(self, offset: int, *, aborts: bool, is_indexed: bool) -> None:
        self._offsets.append(offset)
        self._flags.append(aborts << 1 | is_indexed)

    def next_after(self, offset: int) -> _Marker | None:
        """Return the first marker after `offset` and forget the markers up to `offset`; None if none is known."""
        offsets, first = self._offsets, self._first
        while first < len(offsets) and offsets[first] <= offset:
            first += 1
        if first == len(offsets):
            del offsets[:], self._flags[:]
            self._first = 0
            return None
        self._first = first
        flags = self._flags[first]
        return _Marker(offsets[first], Ending.ABORTED if flags & 2 else Ending.COMMITTED, bool(flags & 1))


class TransactionEnds:
    """Finds the outcome of transactions by reading ahead in `parts` of a log, no further than necessary.

    The first part may begin in the middle of a segment. Markers below `first_offset` are never needed.

    The markers in the log decide. An entry of a transaction index counts only if the log has no readable batch at the
    marker's offset. `tell` is called for an entry that the log contradicts, and for an aborted transaction without an
    entry. The batches of a producer must be passed in the order of the log. Methods raise what `open_read` raises.
    """

    def __init__(
        self,
        fs: Filesystem,
        parts: Sequence[SegmentPart],
        first_offset: int,
        limits: Limits,
        tell: Tell,
    ) -> None:
        self._fs = fs
        self._first_offset = first_offset
        self._limits = limits
        self._tell = tell
        self._markers: dict[int, _Markers] = {}
        self._lost: dict[int, list[AbortedTxn]] = {}
        self._segments = [part.segment for part in parts]
        self._told: set[str] = set()
        self._steps = self._look_ahead(parts)

    def ending(self, producer_id: int, base_offset: int, last_offset: int, *, hides: bool = True) -> Ending:
        """Return the outcome of the transaction of the producer's batch with these offsets.

        `hides`: the caller hides an aborted batch. An abort without an entry in the index is then reported.
        """
        while True:
            known = self._markers.get(producer_id)
            marker = None if known is None else known.next_after(last_offset)
            lost = self._lost_marker(producer_id, base_offset, last_offset)
            if lost is not None and (marker is None or lost < marker.offset):
                return Ending.ABORTED
            if marker is not None:
                if hides and marker.ending is Ending.ABORTED and not marker.is_indexed:
                    self._tell_of_missing(producer_id, marker.offset)
                return marker.ending
            if next(self._steps, None) is None:
                return Ending.OPEN

    def close(self) -> None:
        """Close the file that is being read."""
        self._steps.close()

    def _lost_marker(self, producer_id: int, base_offset: int, last_offset: int) -> int | None:
        entries = self._lost.get(producer_id, ())
        of_it = (e.last_offset for e in entries if e.first_offset <= base_offset and e.last_offset > last_offset)
        return min(of_it, default=None)

    def _tell_of_missing(self, producer_id: int, offset: int) -> None:
        """Report an aborted transaction without an entry in the index: a broker's consumers see its records."""
        segment = [one for one in self._segments if one.base_offset <= offset][-1]
        index = segment.txn_index
        missing = (
            "there is no transaction index" if index is None else "the transaction index is wrong: it has no entry"
        )
        path = segment.log.path if index is None else index.path
        self._say(path, f"{missing} for the transaction of producer {producer_id} aborted at offset {offset}")

    def _say(self, path: str, message: str) -> None:
        if path not in self._told:  # once per file
            self._told.add(path)
            self._tell(path, f"{message}; the markers in the log decide")

    def _look_ahead(self, parts: Sequence[SegmentPart]) -> Generator[bool, None, None]:
        for number, (segment, position) in enumerate(parts):
            following = parts[number + 1].segment.base_offset if number + 1 < len(parts) else None
            with self._fs.open_read(segment.log.path) as log:
                entries = self._entries(segment)
                if position:  # markers before it are not read, so their entries must not be reported as wrong
                    entries = [entry for entry in entries if entry.last_offset >= self._first_offset]
                index = _IndexOfSegment(segment, entries, self._say)
                reader = Scan(log, DamagePolicy.RESYNC, start=position, limits=self._limits)
                for batches in reader.batches():
                    self._note(log, batches, index)
                    yield True
                self._take(index.rest(following))
                yield True

    def _entries(self, segment: Segment) -> Sequence[AbortedTxn]:
        """Return the readable entries of the segment's transaction index, and report its damage."""
        if segment.txn_index is None:
            return []
        path = segment.txn_index.path
        try:
            entries, faults = txnindex.decode(read_all(self._fs, path, _MOST_INDEX_BYTES), segment.base_offset)
        except (KafkalogError, OSError) as error:
            self._say(path, f"cannot be read: {error}")
            return []
        if faults:
            self._say(path, faults[0].message)
        return entries

    def _note(self, log: ReadableFile, batches: BatchColumns, index: "_IndexOfSegment") -> None:
        for row in _marker_rows(batches):
            offset, producer = int(batches.last_offset[row]), int(batches.producer_id[row])
            aborts = control_type_at(log, int(batches.position[row])) == ABORT
            is_indexed = aborts and index.has_marker(producer, offset)
            self._markers.setdefault(producer, _Markers()).append(offset, aborts=aborts, is_indexed=is_indexed)
        self._take(index.passed(batches))

    def _take(self, lost: list[AbortedTxn]) -> None:
        for entry in lost:
            self._lost.setdefault(entry.producer_id, []).append(entry)


class _IndexOfSegment:
    """Compares the transaction index of a segment with its log, batch by batch."""

    def __init__(self, segment: Segment, entries: Iterable[AbortedTxn], say: Tell) -> None:
        self._segment = segment
        self._left = {entry.last_offset: entry for entry in entries}
        self._say = say

    def has_marker(self, producer_id: int, offset: int) -> bool:
        """Whether the index has an entry for the producer's ABORT marker at `offset`. The entry is then done with."""
        entry = self._left.get(offset)
        if entry is None or entry.producer_id != producer_id:
            return False
        del self._left[offset]
        return True

    def passed(self, batches: BatchColumns) -> list[AbortedTxn]:
        """Return the entries up to the end of `batches` whose markers are at offsets without a readable batch.

        An entry at an offset inside a batch is reported: the log has no such marker there.
        """
        if not self._left:
            return []
        good = [row for row in range(len(batches)) if batches.valid[row]]
        ends = [int(batches.last_offset[row]) for row in good]
        lost = []
        for offset in sorted(offset for offset in self._left if ends and offset <= ends[-1]):
            entry = self._left.pop(offset)
            at = bisect_right(ends, offset - 1)
            if int(batches.base_offset[good[at]]) <= offset:
                self._lies(entry)
            else:
                lost.append(entry)
        return lost

    def rest(self, next_base_offset: int | None) -> list[AbortedTxn]:
        """Return the remaining entries with markers below the base offset of the next segment, and report the others.

        `next_base_offset` None: there is no next segment.
        """
        lost = []
        for entry in self._left.values():
            if next_base_offset is None or entry.last_offset < next_base_offset:
                lost.append(entry)
            else:
                self._lies(entry)
        return lost

    def _lies(self, entry: AbortedTxn) -> None:
        assert self._segment.txn_index is not None
        message = f"the transaction index is wrong: no marker at offset {entry.last_offset} aborts a transaction"
        self._say(self._segment.txn_index.path, f"{message} of producer {entry.producer_id}")


def _marker_rows(batches: BatchColumns) -> list[int]:
    """Return the rows of control batches with a producer id, at least one record and a correct CRC."""
    return rows_where(
        lambda bits, magic, producer, count, valid: (
            (bits & CONTROL_MASK != 0) & (magic >= 2) & (producer >= 0) & (count > 0) & (valid != 0)
        ),
        batches.attributes, batches.magic, batches.producer_id, batches.records_count, batches.valid,
    )  # fmt: skip
