"""The text of `ls --topics`, `--sort` and `--freeable`: what fills the disk, in units such as MiB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.listing.listing import PartitionListing
from kafkalog_cli.ops.listing.usage import Freeable, TopicUsage, Usage
from kafkalog_cli.output.human import TextColumn, TextTable, write_table
from kafkalog_cli.output.paint import paint_of
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import ResultStream, printable

UNKNOWN = "unknown"

_SIZES = (
    TextColumn("SEGMENTS", is_number=True, rank=4),
    TextColumn("LOG", is_number=True, rank=5),
    TextColumn("INDEXES", is_number=True, rank=6),
    TextColumn("OTHER", is_number=True, rank=8),
    TextColumn("LEFTOVER", is_number=True, rank=7, is_count=True),
    TextColumn("RUNS", is_number=True, rank=7, is_count=True),
    TextColumn("SIZE", is_number=True),
    TextColumn("ALLOCATED", is_number=True),
)
_FREEABLE = (
    TextColumn("RETENTION", is_number=True, rank=2),
    TextColumn("COMPACTION", is_number=True, rank=2),
    TextColumn("FREEABLE", is_number=True),
)


class UsageText:
    """Writes the tables of partitions or topics and of log directories, the reasons, and the closing line."""

    def __init__(self, out: ResultStream, *, shows_freeable: bool) -> None:
        self._out = out
        self._shows_freeable = shows_freeable
        self._reasons: dict[str, int] = {}

    def partitions(self, rows: Sequence[tuple[PartitionListing, Usage]], *, one_log_dir: bool) -> None:
        """Write a row per partition, with its path where there are several log directories."""
        cells = [
            [printable(found.partition.name if one_log_dir else found.partition.path), *self._cells(usage)]
            for found, usage in rows
        ]
        self._table([TextColumn("PARTITION"), *_SIZES], cells)

    def topics(self, rows: Sequence[TopicUsage]) -> None:
        """Write a row per topic."""
        cells = [[printable(row.topic), str(row.usage.partitions), *self._cells(row.usage)] for row in rows]
        self._table([TextColumn("TOPIC"), TextColumn("PARTITIONS", is_number=True, rank=1), *_SIZES], cells)

    def end(self, log_dirs: Mapping[str, Usage], topics: int) -> None:
        """Write a row per log directory, why something is unknown, and the sum of all."""
        cells = [[printable(path), str(usage.partitions), *self._cells(usage)] for path, usage in log_dirs.items()]
        self._out.write("\n")
        self._table([TextColumn("LOG DIRECTORY"), TextColumn("PARTITIONS", is_number=True, rank=1), *_SIZES], cells)
        self._out.write("\n")
        reasons = [f"[{number}] {printable(reason)}" for reason, number in self._reasons.items()]
        for line in (*reasons, _closing(sum(log_dirs.values(), Usage()), topics)):
            self._out.write(f"{paint_of(self._out).wrapped(line, indent='  ')}\n")

    def _table(self, columns: Sequence[TextColumn], rows: Sequence[Sequence[str]]) -> None:
        write_table(self._out, TextTable([*columns, *(_FREEABLE if self._shows_freeable else ())], rows))

    def _cells(self, usage: Usage) -> list[str]:
        sizes = usage.sizes
        indexes = sizes.index + sizes.timeindex + sizes.txnindex
        shown = (sizes.log, indexes, sizes.snapshot + sizes.other, sizes.leftover, usage.run_bytes)
        cells = [str(usage.segments), *map(_size, shown), _size(usage.size_bytes), _size(usage.disk_bytes)]
        if not self._shows_freeable:
            return cells
        found = usage.freeable or Freeable()
        parts = (found.retention_bytes, found.compaction_bytes)
        return [*cells, *(UNKNOWN if part is None else _size(part) for part in parts), self._freeable(found)]

    def _freeable(self, found: Freeable) -> str:
        """Return the sum, and the numbers of the reasons for which it is not known."""
        if not found.unknown_partitions:
            return _size(found.known_bytes)
        numbers = [self._reasons.setdefault(why, len(self._reasons) + 1) for why in found.unknown_because]
        shown = ",".join(map(str, numbers[:_MOST_NUMBERS])) + (",..." if len(numbers) > _MOST_NUMBERS else "")
        known = f"at least {sized(found.known_bytes)}" if found.known_bytes else UNKNOWN
        return f"{known} [{shown}]"


_MOST_NUMBERS = 3


def _size(size_bytes: int) -> str:
    return sized(size_bytes) if size_bytes else "0"


def _closing(total: Usage, topics: int) -> str:
    counts = ", ".join(
        (
            counted(topics, "topic", "topics"),
            counted(total.partitions, "partition", "partitions"),
            counted(total.segments, "segment", "segments"),
        )
    )
    line = f"{counts}: {sized(total.size_bytes)}, {sized(total.disk_bytes)} allocated"
    freeable = total.freeable
    if freeable is None:
        return line
    if not freeable.unknown_partitions:
        return f"{line}, {sized(freeable.known_bytes)} freeable"
    how_many = counted(freeable.unknown_partitions, "partition", "partitions")
    known = f", at least {sized(freeable.known_bytes)} freeable" if freeable.known_bytes else ""
    return f"{line}{known}, freeable bytes unknown for {how_many}"
