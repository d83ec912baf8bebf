"""Groups of options of commands that read: each is declared once, and a command takes a group as one parameter.

Groups are named tuples: dataclasses take several times as long to create, at every start of a command.
"""

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.cli.environment import Environment, time_of
from kafkalog_cli.cli.options import (
    FromOffset,
    FromTime,
    KeyFormatOption,
    MaxBatchBytes,
    MaxOutputBytes,
    MaxRatio,
    PartitionOption,
    SchemasOption,
    Since,
    StartOffset,
    ToOffset,
    TopicOption,
    TopicPatternOption,
    Until,
    ValueFormatOption,
)
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from kafkalog_cli.ops.decoding import Decoding
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.ops.look.read.request import Start
    from kafkalog_cli.ops.ranges import Range
    from kafkalog_cli.ops.selection import Selection


class Topics(NamedTuple):
    """The selected topics and partitions."""

    topic: TopicOption = None
    topic_pattern: TopicPatternOption = None
    partition: PartitionOption = None

    @property
    def selection(self) -> "Selection":
        """The selection. Raises UsageError."""
        from kafkalog_cli.ops.selection import selection_of

        return selection_of(self.topic, self.partition, self.topic_pattern)


class OneTopic(NamedTuple):
    """The selection for a command on one partition, or on the partitions of one topic."""

    topic: TopicOption = None
    partition: PartitionOption = None

    @property
    def selection(self) -> "Selection":
        """The selection."""
        from kafkalog_cli.ops.selection import selection_of

        return selection_of(self.topic, self.partition)


class WantedRange(NamedTuple):
    """The range of records: offsets or times."""

    from_offset: FromOffset = None
    to_offset: ToOffset = None
    since: Since = None
    until: Until = None

    def wanted(self, environment: Environment, now: str | None, key: "WantedKey | None" = None) -> "Range | None":
        """Return the range, also of a key; None without any of them. `now` is that of --now. Raises UsageError."""
        if key is None and not any(value is not None for value in self):
            return None
        from kafkalog_cli.ops.ranges import Range

        since_ms, until_ms = (None if text is None else time_of(environment, text, now) for text in self[2:])
        return Range(self.from_offset, self.to_offset, since_ms, until_ms, key)


class RangeOptions(NamedTuple):
    """The first record, and the end before which the last one is: offsets or times."""

    start: StartOffset = "earliest"
    from_time: FromTime = None
    to_offset: ToOffset = None
    until: Until = None

    def bounds(
        self, environment: Environment, now: str | None, command: str
    ) -> "tuple[int | Start, int | None, int | None, int | None]":
        """Return the values in the order of ReadRequest, times in ms; `now` is that of --now. Raises UsageError."""
        start = self._first_offset()
        if self.from_time is not None and self.start != "earliest":
            raise UsageError(reason=f"{command} takes one of --from and --from-time")
        from_ms, until_ms = (
            None if text is None else time_of(environment, text, now) for text in (self.from_time, self.until)
        )
        return start, from_ms, self.to_offset, until_ms

    def _first_offset(self) -> "int | Start":
        from kafkalog_cli.ops.look.read.request import Start

        if self.start in (Start.EARLIEST.value, Start.LATEST.value):
            return Start(self.start)
        try:
            return int(self.start)
        except ValueError as error:
            raise UsageError(reason=f"--from {self.start}: an offset, earliest or latest") from error


class DecodingLimits(NamedTuple):
    """The largest batches that are read, and how much larger they may become."""

    max_batch_bytes: MaxBatchBytes = DEFAULT_LIMITS.max_batch_bytes
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio

    @property
    def limits(self) -> Limits:
        """The limits as the readers take them."""
        return Limits(self.max_batch_bytes, self.max_output_bytes, self.max_ratio)


class OutputLimits(NamedTuple):
    """How much larger batches may become."""

    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio

    def limits(self, max_batch_bytes: int = DEFAULT_LIMITS.max_batch_bytes) -> Limits:
        """Return the limits as the readers take them."""
        return Limits(max_batch_bytes, *self)


class Contents(NamedTuple):
    """How keys and values are decoded."""

    key_format: KeyFormatOption = None
    value_format: ValueFormatOption = None
    schemas: SchemasOption = None

    @property
    def decoding(self) -> "Decoding":
        """The decoding as the readers take it."""
        from kafkalog_cli.ops.decoding import Decoding

        return Decoding(*self)
