"""Refuse what a broker refuses to append (LogValidator, UnifiedLog.append), with a message about the record."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, cast

from kafkalog_cli.errors import BadInput
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.batch_encoder import EncodedBatches
from kafkalog_cli.format.columns import IntColumn, least_and_largest, rows_where
from kafkalog_cli.log.settings.topic_config import Settings
from kafkalog_cli.ops.change.append.batching import BatchStyle
from kafkalog_cli.ops.change.append.records import UNKNOWN, Arriving, NewRecordColumns, NewRecords
from kafkalog_cli.ops.timestamp_units import OTHER_UNITS, other_unit_of


class TimeInOtherUnit(NamedTuple):
    """A timestamp that seems to be in another unit than milliseconds.

    `number` is the number of its record, counted from 1, and `unit` the unit in words.
    """

    number: int
    timestamp: int
    unit: str

    @property
    def warning(self) -> str:
        """The message about the timestamp, and why it matters."""
        return (
            f"record {self.number} has the timestamp {self.timestamp}, which is taken as milliseconds since 1970. It"
            f" seems to be {self.unit}: retention and look-ups by time go by it, so give milliseconds"
        )


class Checks:
    """Checks records and batches against the settings of a topic, before they are appended."""

    def __init__(self, config: Settings, style: BatchStyle, now_ms: int, end_offset: int) -> None:
        self._keeps_offsets = style.keeps_offsets  # a follower trusts its leader, except for the checks of offsets
        self._keeps_epochs = style.keeps_epochs
        self._next_offset, self._leader_epoch, self._now_ms = end_offset, style.leader_epoch, now_ms
        self._needs_keys = config.is_compacted and not style.keeps_offsets
        self._most_bytes = config.segment_bytes
        if not style.keeps_offsets:
            self._most_bytes = min(cast(int, config["max.message.bytes"].value), config.segment_bytes)
        self._checks_times = style.append_time_ms is None and not style.keeps_offsets
        self._before_ms, self._after_ms = (
            cast(int, config[f"message.timestamp.{side}.max.ms"].value) for side in ("before", "after")
        )
        self.time_in_other_unit: TimeInOtherUnit | None = None

    def records(self, records: Arriving) -> Iterator[NewRecords | None]:
        """Yield the same records. Raises BadInput at the first record that a broker would refuse."""
        number = 1
        for found in records:
            if found is not None:
                self._check(number, found.columns)
                number += len(found)
            yield found

    def _check(self, number: int, columns: NewRecordColumns) -> None:
        """Check records, of which the first has this number."""
        if self._keeps_offsets:
            self._check_origins(number, columns)
        times = columns.timestamp
        oldest, newest = least_and_largest(times)  # most records need no look at each of them
        if self._needs_keys or self._is_refused(0, oldest) or self._is_refused(0, newest) or oldest == NO_TIMESTAMP:
            wrong = rows_where(self._is_refused, columns.key_size, times)
            if wrong:
                raise self._refusal(number + wrong[0], columns.key_size[wrong[0]], times[wrong[0]])
        if self.time_in_other_unit is None and any(first <= newest and oldest < end for _, first, end in OTHER_UNITS):
            for row in rows_where(_is_in_other_unit, times)[:1]:
                unit = other_unit_of(times[row])
                assert unit is not None
                self.time_in_other_unit = TimeInOtherUnit(number + row, times[row], unit.value)

    def _is_refused(self, key_size: Any, time: Any) -> Any:
        """Whether a broker would refuse a record, for rows_where."""
        is_refused = (key_size < 0) & self._needs_keys
        if self._checks_times:
            is_given = time != NO_TIMESTAMP
            is_refused |= is_given & (self._now_ms - time > self._before_ms)
            is_refused |= is_given & (time - self._now_ms > self._after_ms)
        return is_refused

    def _refusal(self, number: int, key_size: int, timestamp: int) -> BadInput:
        if self._needs_keys and key_size < 0:
            return BadInput(path=f"record {number}", reason="it has no key, and the topic is compacted")
        is_old = self._now_ms - timestamp > self._before_ms
        why = (
            "too old (message.timestamp.before.max.ms)" if is_old else "in the future (message.timestamp.after.max.ms)"
        )
        unit = other_unit_of(timestamp)
        hint = "" if unit is None else f"; timestamps are in milliseconds, and this one seems to be {unit.value}"
        return BadInput(path=f"record {number}", reason=f"timestamp {timestamp} is {why}{hint}")

    def _check_origins(self, number: int, columns: NewRecordColumns) -> None:
        """Check that offsets and leader epochs ascend. Raises BadInput."""
        offsets = columns.offset
        falling = [at + 1 for at in rows_where(lambda before, at: at <= before, offsets[:-1], offsets[1:])]
        row = 0 if offsets[0] < self._next_offset else next(iter(falling), len(offsets))
        if self._keeps_epochs:
            self._check_epochs(number, columns.leader_epoch, row)
        if row < len(offsets):
            next_offset, offset = offsets[row - 1] + 1 if row else self._next_offset, offsets[row]
            found = "it has no offset" if offset == UNKNOWN else f"offset {offset} is too low"
            reason = f"{found}: the log already ends at {next_offset}"
            raise BadInput(path=f"record {number + row}", reason=reason)
        self._next_offset = offsets[-1] + 1

    def _check_epochs(self, number: int, epochs: IntColumn, end: int) -> None:
        """Check the leader epochs before the row `end`. Raises BadInput."""
        changes = rows_where(lambda before, at: at != before, epochs[:-1], epochs[1:])
        for row in (0, *(at + 1 for at in changes)):
            epoch = epochs[row]
            if row < end and 0 <= epoch < self._leader_epoch:
                reason = f"leader epoch {epoch} comes after {self._leader_epoch}"
                raise BadInput(path=f"record {number + row}", reason=reason)
            self._leader_epoch = max(epoch, self._leader_epoch)

    def batches(self, made: EncodedBatches) -> None:
        """Check the sizes of batches. Raises BadInput for a batch that is too large."""
        for batch in made.batches.rows():
            if batch.size_bytes > self._most_bytes:
                names = "segment.bytes" if self._keeps_offsets else "max.message.bytes, segment.bytes"
                limit = f"{self._most_bytes} ({names})"
                reason = f"a batch of {batch.size_bytes} bytes is over {limit}"
                raise BadInput(path=f"offset {batch.base_offset}", reason=reason)


def _is_in_other_unit(time: Any) -> Any:
    """Whether a timestamp seems to be in another unit than milliseconds, for rows_where."""
    return reduce(or_, ((time >= first) & (time < end) for _, first, end in OTHER_UNITS))
