"""Refuse what a broker refuses to append (LogValidator, UnifiedLog.append), with a message about the record."""

from collections.abc import Iterator
from typing import NamedTuple, cast

from kafkalog_cli.errors import BadInput
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.batch_encoder import EncodedBatches
from kafkalog_cli.format.columns import Integers
from kafkalog_cli.log.settings.topic_config import Settings
from kafkalog_cli.ops.append.batching import BatchStyle
from kafkalog_cli.ops.append.columns import Arriving, RecordRun
from kafkalog_cli.ops.append.reading import NewRecord, RecordOrigin
from kafkalog_cli.ops.timestamp_units import OTHER_UNITS, other_unit_of


class OddTime(NamedTuple):
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
        self._next_offset = end_offset
        self._leader_epoch = style.leader_epoch
        self._needs_keys = config.is_compacted and not style.keeps_offsets
        self._most_bytes = min(cast(int, config["max.message.bytes"].value), config.segment_bytes)
        if style.keeps_offsets:
            self._most_bytes = config.segment_bytes
        is_by_clock = style.append_time_ms is not None or style.keeps_offsets
        self._before_ms = None if is_by_clock else cast(int, config["message.timestamp.before.max.ms"].value)
        self._after_ms = None if is_by_clock else cast(int, config["message.timestamp.after.max.ms"].value)
        self._now_ms = now_ms
        self.odd_time: OddTime | None = None

    def records(self, records: Arriving) -> Iterator[NewRecord | RecordRun | None]:
        """Yield the same records. Raises BadInput at the first record that a broker would refuse."""
        number = 0
        for record in records:
            if record is None:
                yield None
                continue
            if isinstance(record, RecordRun):
                self._check_run(number, record)
                number += len(record)
                yield record
                continue
            number += 1
            if self._needs_keys and record.key is None:
                raise _no_key(number)
            if self._keeps_offsets:
                self._check_place(number, record.origin)
            timestamp = record.timestamp
            if timestamp is not None and timestamp != NO_TIMESTAMP:
                self._notice_unit(number, timestamp)
                if self._before_ms is not None:
                    self._check_timestamp(number, timestamp)
            yield record

    def _check_run(self, number: int, run: RecordRun) -> None:
        """Check a run as `records` checks single records; `number` is the number of records before the run."""
        import numpy as np

        if self._keeps_offsets:
            self._check_places(number, run)
        timestamps, key_bytes = run.matrix[1], run.matrix[4]
        wrong = (key_bytes < 0) if self._needs_keys else np.zeros(len(run), dtype=bool)
        given = timestamps != NO_TIMESTAMP
        self._notice_units(number, timestamps)
        if self._before_ms is not None:
            wrong = wrong | (given & (self._now_ms - timestamps > self._before_ms))
        if self._after_ms is not None:
            wrong = wrong | (given & (timestamps - self._now_ms > self._after_ms))
        if not wrong.any():
            return
        first = int(wrong.argmax())
        if self._needs_keys and key_bytes[first] < 0:
            raise _no_key(number + first + 1)
        self._check_timestamp(number + first + 1, int(timestamps[first]))

    def batches(self, made: EncodedBatches) -> None:
        """Check the sizes of batches. Raises BadInput for a batch that is too large."""
        for batch in made.batches.rows():
            if batch.size_bytes > self._most_bytes:
                names = "segment.bytes" if self._keeps_offsets else "max.message.bytes, segment.bytes"
                limit = f"{self._most_bytes} ({names})"
                reason = f"a batch of {batch.size_bytes} bytes is over {limit}"
                raise BadInput(path=f"offset {batch.base_offset}", reason=reason)

    def _check_place(self, number: int, origin: RecordOrigin) -> None:
        offset, epoch = origin.offset, origin.leader_epoch
        if offset is None or offset < self._next_offset:
            found = "it has no offset" if offset is None else f"offset {offset} is too low"
            reason = f"{found}: the log already ends at {self._next_offset}"
            raise BadInput(path=f"record {number}", reason=reason)
        self._next_offset = offset + 1
        if epoch is not None and epoch >= 0:
            if epoch < self._leader_epoch:
                raise BadInput(path=f"record {number}", reason=f"leader epoch {epoch} comes after {self._leader_epoch}")
            self._leader_epoch = epoch

    def _check_places(self, number: int, run: RecordRun) -> None:
        """Check the offsets and the leader epoch of a run, as `_check_place` does for a record."""
        import numpy as np

        offsets = run.matrix[0]
        wrong = np.flatnonzero(np.diff(offsets, prepend=self._next_offset - 1) <= 0)
        first = int(wrong[0]) if len(wrong) else 0
        if first:
            self._next_offset = int(offsets[first - 1]) + 1
        self._check_place(number + first + 1, run.origin._replace(offset=int(offsets[first])))
        self._next_offset = int(offsets[-1]) + 1

    def _notice_units(self, number: int, timestamps: Integers) -> None:
        """Note the first odd timestamp, as `_notice_unit`; `number` is the number of records before these."""
        import numpy as np

        if self.odd_time is not None:
            return
        is_odd = np.zeros(len(timestamps), dtype=bool)
        for _, first, end in OTHER_UNITS:
            is_odd |= (timestamps >= first) & (timestamps < end)
        if is_odd.any():
            at = int(is_odd.argmax())
            self._notice_unit(number + at + 1, int(timestamps[at]))

    def _notice_unit(self, number: int, timestamp: int) -> None:
        unit = None if self.odd_time is not None else other_unit_of(timestamp)
        if unit is not None:
            self.odd_time = OddTime(number, timestamp, unit.value)

    def _check_timestamp(self, number: int, timestamp: int) -> None:
        early, late = self._now_ms - timestamp, timestamp - self._now_ms
        if self._before_ms is not None and early > self._before_ms:
            raise _bad_time(number, timestamp, "too old (message.timestamp.before.max.ms)")
        if self._after_ms is not None and late > self._after_ms:
            raise _bad_time(number, timestamp, "in the future (message.timestamp.after.max.ms)")


def _no_key(number: int) -> BadInput:
    return BadInput(path=f"record {number}", reason="it has no key, and the topic is compacted")


def _bad_time(number: int, timestamp: int, why: str) -> BadInput:
    unit = other_unit_of(timestamp)
    hint = "" if unit is None else f"; timestamps are in milliseconds, and this one seems to be {unit.value}"
    return BadInput(path=f"record {number}", reason=f"timestamp {timestamp} is {why}{hint}")
