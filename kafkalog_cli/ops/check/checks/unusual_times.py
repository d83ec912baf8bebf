"""Collects the unusual timestamps of a segment, of which `verify` makes one finding per unit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafkalog_cli.format.batch import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, BatchColumns
from kafkalog_cli.format.columns import IntColumn, column_of, least_and_largest, rows_where
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.timestamp_units import LAST_SECOND, TOLERATED_AHEAD_MS, TimestampOddity, unit_of

_KINDS = {
    TimestampOddity.FUTURE: FindingKind.FUTURE_TIMESTAMP,
    TimestampOddity.NEGATIVE: FindingKind.NEGATIVE_TIMESTAMP,
}


def batch_times(batches: BatchColumns, rows: slice = slice(None)) -> IntColumn:
    """Return the largest timestamps of batches; of a batch that begins with a time below zero, that time.

    A broker's MemoryRecordsBuilder begins with a maximum of -1, and keeps it if all times are below.
    """
    largest = batches.max_timestamp[rows]
    if not len(largest) or batches.survey.least.base_timestamp >= NO_TIMESTAMP:
        return largest
    first, attributes = batches.base_timestamp[rows], batches.attributes[rows]
    return column_of(
        largest[row] if first[row] >= NO_TIMESTAMP or attributes[row] & TIMESTAMP_TYPE_MASK else first[row]
        for row in range(len(first))
    )


@dataclass(slots=True)
class _Group:
    """The unusual timestamps of one unit in a segment: the first, its position, the range of offsets, and the count."""

    first_timestamp: int
    position: int | None
    first_offset: int
    last_offset: int
    count: int = 1


class UnusualTimes:
    """Collects the unusual timestamps of one segment. `what` says what has them: "batch" or "record"."""

    def __init__(self, now_ms: int, what: str) -> None:
        self._now_ms = now_ms
        self._what = what
        self._plural = "es" if what.endswith("ch") else "s"
        self._groups: dict[TimestampOddity, _Group] = {}

    def may_have(self, least: int, largest: int) -> bool:
        """Whether any of some timestamps may be unusual."""
        return least < LAST_SECOND or largest > self._now_ms + TOLERATED_AHEAD_MS

    def see(
        self,
        timestamps: IntColumn,
        offsets: IntColumn,
        positions: IntColumn | None,
        batch_timestamp: Callable[[int], int] | None = None,
    ) -> None:
        """Check columns of equal length: timestamps in ms, offsets, and positions in bytes (None: not known).

        `batch_timestamp` returns the largest timestamp of the batch of a row. If that timestamp is unusual in the same
        way, the row is skipped, since the batch is already reported.
        """
        if not len(timestamps):
            return
        for row in self._suspects(timestamps):
            timestamp = int(timestamps[row])
            unit = unit_of(timestamp, self._now_ms)
            if unit is None or (batch_timestamp is not None and unit_of(batch_timestamp(row), self._now_ms) is unit):
                continue
            offset = int(offsets[row])
            group = self._groups.get(unit)
            if group is None:
                position = None if positions is None else int(positions[row])
                self._groups[unit] = _Group(timestamp, position, offset, offset)
            else:
                group.count += 1
                group.last_offset = max(group.last_offset, offset)

    def findings(self, path: str) -> Iterator[Finding]:
        """Yield one finding per unit."""
        for unit, group in self._groups.items():
            kind = _KINDS.get(unit, FindingKind.TIMESTAMP_UNIT)
            many = f"{group.count} {self._what}{'' if group.count == 1 else self._plural} with a timestamp {unit.value}"
            message = f"{many}, the first is {group.first_timestamp}"
            span = (group.first_offset, group.last_offset)
            expected = f"at most {self._now_ms}" if unit is TimestampOddity.FUTURE else "milliseconds since 1970"
            got = str(group.first_timestamp)
            yield finding(kind, path, message, position=group.position, expected=expected, got=got, offsets=span)

    def _suspects(self, timestamps: IntColumn) -> list[int]:
        """Return the rows that may be unusual.

        For a normal log, the column's minimum and maximum show that there are none.
        """
        if not self.may_have(*least_and_largest(timestamps)):
            return []
        least, most = LAST_SECOND, self._now_ms + TOLERATED_AHEAD_MS
        return rows_where(lambda time: (time < least) & (time != NO_TIMESTAMP) | (time > most), timestamps)
