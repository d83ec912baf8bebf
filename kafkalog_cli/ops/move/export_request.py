"""The request to export, and the progress of earlier exports into the same directory."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import OffsetOutOfRange, UnsupportedFormat, UsageError
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import Record
from kafkalog_cli.format.strict_json import MOST_NUMBER, fields, integer, list_of, nothing_or, text
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.choices import Isolation, OnDamage
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.look.read.log_read import LogRead
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.ops.ranges import Range


@unique
class FileFormat(Enum):
    """The format of the files. The value is the word on the command line."""

    PARQUET = "parquet"
    ARROW = "arrow"
    JSON = "json"

    @property
    def suffix(self) -> str:
        """The suffix of file names."""
        return "ndjson" if self is FileFormat.JSON else self.value

    @property
    def codecs(self) -> tuple[str, ...]:
        """The codecs for the format; the first is the default."""
        return {
            FileFormat.PARQUET: ("snappy", "none", "gzip", "lz4", "zstd"),
            FileFormat.ARROW: ("none", "lz4", "zstd"),
            FileFormat.JSON: ("none",),
        }[self]


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The options of an export; `range` applies to each log.

    `by_day`: one directory per day (UTC) of the records' timestamps. `is_incremental`: a log is exported up to its last
    whole batch. The rest is left to the next run. `decoding` adds decoded keys and values.
    """

    format: FileFormat = FileFormat.PARQUET
    codec: str = "snappy"
    by_day: bool = False
    range: Range = field(default_factory=Range)
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    mode: OnDamage = OnDamage.FAILFAST
    with_control: bool = False
    is_incremental: bool = False
    decoding: Decoding = Decoding()  # noqa: RUF009 an immutable tuple

    def check(self) -> None:
        """Raise UsageError if options contradict each other."""
        if self.codec not in self.format.codecs:
            raise UsageError(
                reason=f"--format {self.format.value} has the codecs {', '.join(self.format.codecs)}, not {self.codec}"
            )
        self.decoding.check()
        if self.is_incremental and self.range != Range():
            raise UsageError(reason="--state cannot be combined with --from-offset, --to-offset, --since, --until")

    @property
    def what(self) -> dict[str, Any]:
        """The options that all runs into one directory must have in common."""
        return {
            "format": self.format.value,
            "by_day": self.by_day,
            "isolation": self.isolation.value,
            "with_control": self.with_control,
            **({"decoding": self.decoding.words} if self.decoding else {}),
        }


_CHUNK_BYTES = 1 << 16


class LogProgress(NamedTuple):
    """The progress in one log, which is exported up to `next_offset` (exclusive).

    `topic_id` is None if the partition has none. `last_offset` and `last_record` are the offset and digest of the last
    exported record, None if there was none. They show whether a log was recreated, or truncated and filled again.
    """

    next_offset: int
    topic_id: str | None = None
    last_offset: int | None = None
    last_record: str | None = None


class BrokenProgress(NamedTuple):
    """Why a log cannot be continued.

    `is_gap`: the only problem is that records were deleted before they were exported.
    """

    reason: str
    is_gap: bool = False


def record_digest(fs: Filesystem, partition: Partition, offset: int) -> str | None:
    """Return a digest of the key, value, timestamp and headers of the record at an offset.

    Compaction does not change it. None if there is no such record, or if it cannot be read. Raises as `open_read` does.
    """
    try:
        log = LogRead(fs, partition, ReadRequest(offset, max_records=1, chunk_bytes=_CHUNK_BYTES))
    except OffsetOutOfRange:
        return None
    for segment in log.segments():
        for found in segment.blocks():
            if not isinstance(found, Fault):
                for record in found.rows():
                    return _digest(record) if record.offset == offset else None
    return None


def _digest(record: Record) -> str:
    fields = [record.timestamp, record.key, record.value, [tuple(header) for header in record.headers]]
    return hashlib.sha256(repr(fields).encode()).hexdigest()[:32]


def change_since(fs: Filesystem, partition: Partition, progress: LogProgress) -> BrokenProgress | None:
    """Return why a log cannot be continued from the saved state, None if it can. Raises as `open_read` does."""
    bounds, topic_id = partition.bounds, partition.topic_id
    if None not in (topic_id, progress.topic_id) and topic_id != progress.topic_id:
        return BrokenProgress(
            f"its topic was deleted and created again: the id is {topic_id}, the state knows {progress.topic_id}"
        )
    if bounds.end < progress.next_offset:
        return BrokenProgress(
            f"it ends at offset {bounds.end}, the state has it exported up to {progress.next_offset}:"
            " it was truncated, or created again"
        )
    if progress.last_offset is not None and progress.last_record is not None:
        found = record_digest(fs, partition, progress.last_offset)
        if found not in (None, progress.last_record):
            return BrokenProgress(
                f"another record is at offset {progress.last_offset} than was exported: it was truncated and"
                " written again,"
                " or created again"
            )
    if bounds.start > progress.next_offset:
        return BrokenProgress(
            f"it begins at offset {bounds.start} by now: records from {progress.next_offset} on went before they were"
            " exported",
            is_gap=True,
        )
    return None


def progress_of(path: str, state: Mapping[str, Any]) -> dict[tuple[str, int], LogProgress]:
    """Return the progress in a saved state, by topic and partition.

    Raises UnsupportedFormat, with `path` in the message.
    """
    try:
        _STATE(state)
    except ValueError as error:
        raise UnsupportedFormat(path=path, reason=f"it is not the state of an export: {error}") from error
    return {
        (one["topic"], one["partition"]): LogProgress(*(one[name] for name in LogProgress._fields))
        for one in state["logs"]
    }


_OFFSET = integer(-MOST_NUMBER)
_STATE = fields({
    "logs": list_of(fields({
        "topic": text, "partition": integer(-1, (1 << 31) - 1), "next_offset": _OFFSET,
        "topic_id": nothing_or(text), "last_offset": nothing_or(_OFFSET), "last_record": nothing_or(text),
    })),
})  # fmt: skip


def state_of(progress: Mapping[tuple[str, int], LogProgress]) -> dict[str, Any]:
    """Return the progress as a state to save, which `progress_of` reads."""
    logs = [{"topic": topic, "partition": number, **one._asdict()} for (topic, number), one in sorted(progress.items())]
    return {"logs": logs}
