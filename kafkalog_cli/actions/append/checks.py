"""What a broker refuses to append (LogValidator, UnifiedLog.append), said of the record that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from kafkalog_cli.actions.append.batching import BatchStyle
from kafkalog_cli.actions.append.reading import Incoming, NewRecord
from kafkalog_cli.errors import BadInput
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.batch_encoder import EncodedBatches
from kafkalog_cli.storage.topic_config import TopicConfig


class Checks:
    """Looks at records and batches under the settings of a topic, at `now_ms`."""

    def __init__(self, config: TopicConfig, style: BatchStyle, now_ms: int) -> None:
        self._needs_keys = config.is_compacted
        self._most_bytes = min(cast(int, config["max.message.bytes"].value), config.segment_bytes)
        is_by_clock = style.append_time_ms is not None
        self._before_ms = None if is_by_clock else cast(int, config["message.timestamp.before.max.ms"].value)
        self._after_ms = None if is_by_clock else cast(int, config["message.timestamp.after.max.ms"].value)
        self._now_ms = now_ms

    def records(self, records: Incoming) -> Iterator[NewRecord | None]:
        """The same records. Raises BadInput at the first that is refused."""
        number = 0
        for record in records:
            if record is None:
                yield None
                continue
            number += 1
            if self._needs_keys and record.key is None:
                raise BadInput(path=f"record {number}", reason="it has no key, and the topic is compacted")
            timestamp = record.timestamp
            if timestamp is not None and timestamp != NO_TIMESTAMP and self._before_ms is not None:
                self._check_timestamp(number, timestamp)
            yield record

    def batches(self, made: EncodedBatches) -> None:
        """Raises BadInput for a batch that is too large."""
        for batch in made.batches.rows():
            if batch.size_bytes > self._most_bytes:
                limit = f"{self._most_bytes} (max.message.bytes, segment.bytes)"
                reason = f"a batch of {batch.size_bytes} bytes is over {limit}"
                raise BadInput(path=f"offset {batch.base_offset}", reason=reason)

    def _check_timestamp(self, number: int, timestamp: int) -> None:
        early, late = self._now_ms - timestamp, timestamp - self._now_ms
        if self._before_ms is not None and early > self._before_ms:
            raise _bad_time(number, timestamp, "too old (message.timestamp.before.max.ms)")
        if self._after_ms is not None and late > self._after_ms:
            raise _bad_time(number, timestamp, "in the future (message.timestamp.after.max.ms)")


def _bad_time(number: int, timestamp: int, why: str) -> BadInput:
    return BadInput(path=f"record {number}", reason=f"timestamp {timestamp} is {why}")
