"""The request to export: records, format and output directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.read.request import Isolation
from kafkalog_cli.ops.values.decoded_columns import Decoding


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


@unique
class OnDamage(Enum):
    """How an export treats records that cannot be read; the values are Spark's words."""

    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"


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
