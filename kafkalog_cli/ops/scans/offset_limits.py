"""The range of records that a read takes, parsed from its options: offsets, times, earliest, latest.

Filters of a query are not pushed down. PySpark (4.3.0 at least) stores the filters that a reader accepted on the data
source, and all scans of one `load()` share it. So the filter of one scan would remove rows from another. Options belong
to one `load()`.
"""

import json
import re
from enum import Enum, unique
from typing import Any, NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.option_values import iso_time, parse_time_ms, unit_doubt
from kafkalog_cli.ops.ranges import Range

EARLIEST, LATEST = -2, -1
"""The special values in the maps of startingOffsets and endingOffsets."""

_MAX_INT64 = (1 << 63) - 1


class TopicPartition(NamedTuple):
    """A topic and a partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@unique
class LimitKind(Enum):
    """The kind of a limit."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMES = "times"
    TIME = "time"


class OffsetLimit(NamedTuple):
    """A start or an end. `of_partition` has offsets or epoch ms per partition, `time_ms` is a time for all partitions.

    `or_latest`: the log's end is used if no record is at or after the time (else that is an error).
    """

    kind: LimitKind
    of_partition: dict[TopicPartition, int] | None = None
    time_ms: int = 0
    or_latest: bool = False


def starting_limit(options: dict[str, str]) -> OffsetLimit:
    """Return the start: startingTimestamp, else startingOffsetsByTimestamp, else startingOffsets, else earliest.

    Raises UsageError.
    """
    limit = _limit(options, "starting", LimitKind.EARLIEST)
    if limit.kind is LimitKind.LATEST:
        raise UsageError(reason="starting offset can't be latest for batch queries on Kafka")
    for partition, offset in (limit.of_partition or {}).items():
        if limit.kind is LimitKind.OFFSETS and offset == LATEST:
            raise UsageError(reason=f"startingOffsets for {partition} can't be latest for batch queries on Kafka")
    return limit


def ending_limit(options: dict[str, str]) -> OffsetLimit:
    """Return the end, from the options with `ending` instead of `starting`, else latest. Raises UsageError."""
    limit = _limit(options, "ending", LimitKind.LATEST)
    if limit.kind is LimitKind.EARLIEST:
        raise UsageError(reason="ending offset can't be earliest for batch queries on Kafka")
    for partition, offset in (limit.of_partition or {}).items():
        if limit.kind is LimitKind.OFFSETS and offset == EARLIEST:
            raise UsageError(reason=f"ending offset for {partition} can't be earliest for batch queries on Kafka")
    return limit


def is_latest(limit: OffsetLimit, partition: TopicPartition) -> bool:
    """Whether a limit puts a partition's start at the end of its log."""
    if limit.kind is LimitKind.OFFSETS and limit.of_partition is not None:
        return limit.of_partition.get(partition) == LATEST
    return limit.kind is LimitKind.LATEST


def streams_start(options: dict[str, str]) -> OffsetLimit:
    """Return a stream's start, from the same options, else latest. Raises UsageError, also for an ending option."""
    for name, what in (
        ("endingoffsets", "offset"),
        ("endingoffsetsbytimestamp", "timestamp"),
        ("endingtimestamp", "timestamp"),
    ):
        if name in options:
            raise UsageError(reason=f"ending {what} not valid in streaming queries")
    return _limit(options, "starting", LimitKind.LATEST)


def check_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Raise UsageError if both limits name partitions, and these differ or a start is after its end."""
    if starting.kind is not ending.kind or starting.of_partition is None or ending.of_partition is None:
        return
    if starting.of_partition.keys() != ending.of_partition.keys():
        raise UsageError(
            reason="The specified start offset and end offset should have the same topic-partitions."
            f" Topic-partitions for start offset: {names_of(starting.of_partition)},"
            f" topic-partitions for end offset: {names_of(ending.of_partition)}"
        )
    what = "offset" if starting.kind is LimitKind.OFFSETS else "timestamp"
    for partition, start in starting.of_partition.items():
        end = ending.of_partition[partition]
        if start > end >= 0 and start >= 0:
            raise UsageError(
                reason=f"The specified start {what} {start} is greater than the end {what} {end}"
                f" for topic {partition.topic} partition {partition.partition}."
            )


def names_of(partitions: object) -> str:
    """Return partition names as a sorted list in brackets."""
    assert isinstance(partitions, (dict, set, frozenset))
    return "[" + ", ".join(str(partition) for partition in sorted(partitions)) + "]"


def _limit(options: dict[str, str], side: str, default: LimitKind) -> OffsetLimit:
    or_latest = side == "ending" or _strategy(options) == "latest"
    if f"{side}timestamp" in options:
        time = options[f"{side}timestamp"].strip()
        time_ms = _in_ms(f"{side}Timestamp", time) if _TIME.fullmatch(time) else -1
        if not 0 <= time_ms <= _MAX_INT64:
            raise UsageError(reason=f"Expected a single long value, got {time} (option '{side}Timestamp', epoch ms)")
        return OffsetLimit(LimitKind.TIME, None, time_ms, or_latest)
    if f"{side}offsetsbytimestamp" in options:
        text = options[f"{side}offsetsbytimestamp"].strip()
        times = _map(text, '{"topicA": {"0": 123456789, "1": 123456789}}', lowest=0)
        times = {partition: _in_ms(f"{side}OffsetsByTimestamp", str(time)) for partition, time in times.items()}
        return OffsetLimit(LimitKind.TIMES, times, 0, or_latest)
    text = options.get(f"{side}offsets", default.value).strip()
    if text.lower() in (LimitKind.EARLIEST.value, LimitKind.LATEST.value):
        return OffsetLimit(LimitKind(text.lower()))
    return OffsetLimit(LimitKind.OFFSETS, _map(text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}', lowest=EARLIEST))


def _strategy(options: dict[str, str]) -> str:
    word = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if word not in ("error", "latest"):
        raise UsageError(reason=f"startingOffsetsByTimestampStrategy is one of error, latest; not {word}")
    return word


def parsed_json(text: str) -> Any:
    """Return the value of a text in JSON; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _map(text: str, example: str, *, lowest: int) -> dict[TopicPartition, int]:
    wrong = UsageError(reason=f"Expected e.g. {example}, got {text}")
    parsed = parsed_json(text)
    if not isinstance(parsed, dict) or not all(isinstance(part, dict) for part in parsed.values()):
        raise wrong
    limits = {}
    for topic, part in parsed.items():
        for number, value in part.items():
            if not re.fullmatch(r"\d{1,9}", number) or type(value) is not int or not lowest <= value <= _MAX_INT64:
                raise wrong
            limits[TopicPartition(topic, int(number))] = value
    return limits


OF_RECORDS = ("fromOffset", "toOffset", "since", "until")

_OFFSET = re.compile(r"\d{1,19}")
_AGO = re.compile(r"-.*[a-z]")
_TIME = re.compile(r"\d{1,19}|\d{4}-.*|\d{8}T.*")


def range_of(options: dict[str, str]) -> Range:
    """Return the range that the options select, the same for every partition. Raises UsageError.

    The names of the options are in lower case.
    """
    return Range(
        _offset(options, "fromOffset"),
        _end(_offset(options, "toOffset")),
        _time_ms(options, "since"),
        _end(_time_ms(options, "until")),
    )


def _offset(options: dict[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not _OFFSET.fullmatch(text.strip()):
        raise UsageError(reason=f"{name} is an offset, a number from 0 on, not {text}")
    return int(text)


def _end(value: int | None) -> int | None:
    """Return None (open) for an exclusive end above every 64-bit number."""
    return None if value is not None and value > _MAX_INT64 else value


def _time_ms(options: dict[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    # A relative time would change each time that Spark plans the read.
    if _AGO.fullmatch(text.strip()):
        raise UsageError(reason=f"{name} is a time in epoch ms or ISO 8601, not {text}")
    return _in_ms(name, text)


def _in_ms(name: str, text: str) -> int:
    """Return the time of an option in epoch ms. Raises UsageError, also for a number in another unit."""
    doubt = unit_doubt(text)
    if doubt is not None:
        raise UsageError(reason=f"{name}: {doubt.message}: write {doubt.meant_ms}, or {iso_time(int(text))}")
    try:
        return parse_time_ms(text, now_ms=0)
    except UsageError as error:
        raise UsageError(reason=f"{name}: {error}") from error
