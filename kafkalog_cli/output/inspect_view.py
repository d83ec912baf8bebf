"""The output of inspect: an object per partition, and tables with the partitions and segments on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypedDict

from kafkalog_cli.broker.cleaning.choosing import UpTo
from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.errors import KafkalogError, counted
from kafkalog_cli.ops.inspect import CleaningPart, InspectedPartition, InspectedSegment, common_span
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, time_span, write_table
from kafkalog_cli.output.ndjson import Count, From, ObjectKind, PathText, same_fields
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stats_view import bars_text
from kafkalog_cli.output.stream import ResultStream, paint_of, printable
from kafkalog_cli.output.views import View


class InspectedSegmentObject(TypedDict):
    """A segment."""

    base_offset: int
    next_offset: Annotated[int, "the base offset of the next segment, or the log end"]
    size_bytes: Count
    batches: Annotated[Count, "up to the first damage"]
    first_timestamp_ms: Annotated[int | None, "the smallest in the batch headers"]
    last_timestamp_ms: Annotated[int | None, "the largest in the batch headers"]
    part: Annotated[CleaningPart | None, "the part of a compacted log; null for other logs, or if it is not known"]
    removed_by: Annotated[RetentionPass | None, "the pass of retention that removes it now; null if it is kept"]


class HoleObject(TypedDict):
    """Offsets that no batch covers."""

    first_offset: int
    last_offset: int
    before_ms: Annotated[int | None, "timestamp of the batch before"]
    after_ms: Annotated[int | None, "timestamp of the batch after"]


class InspectedOpenTransactionObject(TypedDict):
    """A transaction without a marker."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: Annotated[int, "in ms, of the last batch; -1 without one"]


class RetentionOutlookObject(TypedDict):
    """The effect of retention, now and next."""

    retention_ms: Annotated[int | None, "null: no limit, or not known"]
    retention_bytes: Annotated[int | None, "null: no limit, or not known"]
    horizon_ms: Annotated[int | None, "segments with no timestamp from here on are removed"]
    removable_segments: Count
    removable_bytes: Count
    next_due_ms: Annotated[int | None, "when the time limit removes the first segment that is kept now"]


class CleaningOutlookObject(TypedDict):
    """The clean and the dirty part of a compacted log."""

    first_dirty: Annotated[int, From("dirt.first_dirty"), "an offset"]
    first_uncleanable: Annotated[int, From("dirt.first_uncleanable"), "an offset"]
    clean_bytes: Annotated[Count, From("dirt.clean_bytes")]
    cleanable_bytes: Annotated[Count, From("dirt.cleanable_bytes")]
    ratio: Annotated[float, From("dirt.ratio"), "cleanable bytes as a part of clean and cleanable bytes"]
    least_ratio: Annotated[float, "min.cleanable.dirty.ratio"]
    up_to: Annotated[UpTo, From("dirt.up_to"), "the limit that ends the cleanable part"]
    is_due: Annotated[bool, "whether a broker cleans the log now"]


class PeriodBytesObject(TypedDict):
    """The bytes of a period."""

    start_ms: int
    bytes: Count


class InspectedObject(TypedDict):
    """A partition on the time axis."""

    topic: Annotated[PathText, From("partition.topic")]
    partition: Annotated[int, From("partition.number")]
    path: Annotated[PathText, From("partition.path")]
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    size_bytes: Annotated[Count, "of all files"]
    segments: list[InspectedSegmentObject]
    holes: Annotated[list[HoleObject], "the largest 20, in the order of their offsets"]
    hole_count: Count
    hole_offsets: Annotated[Count, "the offsets in all holes"]
    open_transactions: Annotated[list[InspectedOpenTransactionObject] | None, "null: they were not searched for"]
    retention: Annotated[RetentionOutlookObject | None, "null: not known"]
    cleaning: Annotated[CleaningOutlookObject | None, "null: not compacted, or not known"]
    unknown_because: list[str]
    period_ms: Annotated[Count, From("bytes_over_time.period_ms"), "the length of a period"]
    over_time: Annotated[list[PeriodBytesObject], "bytes of batches by their largest timestamps"]


INSPECTED = ObjectKind("kafkalog.inspected/1", InspectedObject)


def inspected_object(found: InspectedPartition) -> InspectedObject:
    """Return the object of a partition."""
    period_ms = found.bytes_over_time.period_ms
    over_time = [
        {"start_ms": period * period_ms, "bytes": size} for period, size in sorted(found.bytes_over_time.counts.items())
    ]
    return same_fields(InspectedObject, found, over_time=over_time)


class InspectListener:
    """Keeps all results: the time axis is known only when the last partition is inspected."""

    def __init__(self) -> None:
        self.partitions: list[InspectedPartition] = []

    def show(self, result: InspectedPartition) -> None:
        """See Listener."""
        self.partitions.append(result)

    def fail(self, path: str | None, error: KafkalogError) -> None:
        """See Listener: an error has been reported, and has no place on the axis."""


def inspect_view(listener: InspectListener, *, as_text: bool) -> View[InspectedPartition]:
    """Return how the partitions are shown: objects one by one, and text after the last partition."""

    def last(out: ResultStream) -> None:
        if as_text:
            write_inspected(out, listener.partitions)

    names = ("segments", "bytes", "holes", "open_transactions", "removable_bytes")
    return View(
        INSPECTED, inspected_object, lambda _: (), (*names, "failures"), _counts, listener=listener, last=last
    )  # fmt: skip


def _counts(found: InspectedPartition) -> Mapping[str, int]:
    return {
        "segments": len(found.segments),
        "bytes": found.size_bytes,
        "holes": found.hole_count,
        "open_transactions": len(found.open_transactions or ()),
        "removable_bytes": 0 if found.retention is None else found.retention.removable_bytes,
    }


# ---- text


_CELLS = 24
_MOST_SEGMENTS, _MOST_DETAILS, _SHOWN_OPEN = 200, 100, 3
_PARTITION_COLUMNS = (
    TextColumn("PARTITION"),
    TextColumn("SIZE", is_number=True),
    TextColumn("OFFSETS", rank=5),
    TextColumn("SEGMENTS", is_number=True, rank=6),
    TextColumn("HOLES", is_number=True, rank=3, is_count=True),
    TextColumn("OPEN", is_number=True, rank=2, is_count=True),
    TextColumn("DIRTY", is_number=True, rank=1),
    TextColumn("REMOVABLE", is_number=True, rank=4, is_count=True),
    TextColumn("OVER TIME"),
)
_SEGMENT_COLUMNS = (
    TextColumn("OFFSETS"),
    TextColumn("SIZE", is_number=True),
    TextColumn("BATCHES", is_number=True, rank=3),
    TextColumn("FIRST", rank=4),
    TextColumn("LAST", rank=5),
    TextColumn("PART", rank=2),
    TextColumn("REMOVED BY", rank=1),
    TextColumn("TIME SPAN"),
)


def write_inspected(out: ResultStream, partitions: list[InspectedPartition]) -> None:
    """Write a row per partition, the segments of a single partition, and what is not as it should be."""
    span, paint = common_span(partitions), paint_of(out)
    write_table(out, TextTable(_PARTITION_COLUMNS, [_row(found, span) for found in partitions]))
    if span is not None:
        cell_ms = max(1, (span[1] - span[0]) // _CELLS)
        axis = f"over time: bytes from {iso_time(span[0])} to {iso_time(span[1])}, {_about(cell_ms)} per cell"
        out.write(f"\n{paint.wrapped(axis, indent='  ')}\n")
    if len(partitions) == 1 and partitions[0].segments:
        (found,) = partitions
        shown = found.segments[:_MOST_SEGMENTS]
        out.write("\n")
        write_table(out, TextTable(_SEGMENT_COLUMNS, [_segment_row(segment, span) for segment in shown]))
        if len(shown) < len(found.segments):
            out.write(f"{counted(len(found.segments) - len(shown), 'segment')} more in JSON output\n")
    lines = [*_details(partitions)]
    out.write("\n" if lines else "")
    for line in lines[:_MOST_DETAILS]:
        out.write(f"{paint.wrapped(line, indent='  ')}\n")
    if len(lines) > _MOST_DETAILS:
        out.write(f"{counted(len(lines) - _MOST_DETAILS, 'line')} more about partitions in JSON output\n")


def _details(partitions: Sequence[InspectedPartition]) -> Iterator[str]:
    """Yield lines about partitions, and each reason why something is not known once."""
    unknown: dict[str, list[str]] = {}
    for found in partitions:
        name = printable(found.partition.name)
        for line in _facts(found):
            yield f"{name}: {line}"
        for reason in found.unknown_because:
            unknown.setdefault(reason, []).append(name)
    for reason, names in unknown.items():
        more = f" and {len(names) - 3} more" if len(names) > 4 else ""
        yield f"{', '.join(names[:3] if more else names)}{more}: {printable(reason)}"


def details_of(found: InspectedPartition) -> list[str]:
    """Return sentences about one partition: holes, transactions, what is dirty or removable, what is not known."""
    return [*_facts(found), *map(printable, found.unknown_because)]


def _row(found: InspectedPartition, span: tuple[int, int] | None) -> tuple[str, ...]:
    over_time = NOTHING
    if span is not None and found.bytes_over_time.counts:
        over_time = bars_text(found.bytes_over_time.bars(*span, _CELLS))
    retention, cleaning = found.retention, found.cleaning
    return (
        printable(found.partition.name),
        sized(found.size_bytes),
        _range(found.log_start_offset, found.log_end_offset),
        f"{len(found.segments):,}",
        f"{found.hole_count:,}",
        cell(None if found.open_transactions is None else len(found.open_transactions)),
        NOTHING if cleaning is None else f"{100 * cleaning.dirt.ratio:.0f} %",
        NOTHING if retention is None else sized(retention.removable_bytes) if retention.removable_bytes else "0",
        over_time,
    )


def _segment_row(segment: InspectedSegment, span: tuple[int, int] | None) -> tuple[str, ...]:
    return (
        _range(segment.base_offset, segment.next_offset),
        sized(segment.size_bytes),
        f"{segment.batches:,}",
        iso_time(segment.first_timestamp_ms),
        iso_time(segment.last_timestamp_ms),
        NOTHING if segment.part is None else segment.part.value,
        NOTHING if segment.removed_by is None else segment.removed_by.value,
        _time_line(segment, span),
    )


def _time_line(segment: InspectedSegment, span: tuple[int, int] | None) -> str:
    """Return a line from the first to the last timestamp of a segment."""
    first, last = segment.first_timestamp_ms, segment.last_timestamp_ms
    if first is None or last is None or span is None:
        return NOTHING
    begin, end = ((ms - span[0]) * _CELLS // (span[1] - span[0] + 1) for ms in (first, last))
    return " " * begin + "━" * (end - begin + 1) + " " * (_CELLS - end - 1)


def _range(first: int | None, end: int | None) -> str:
    """Return the offsets from `first` to the last below `end`; where the log is empty, the offset that follows."""
    if first is None or end is None:
        return NOTHING
    return f"{first}-{end - 1}" if end > first else f"none, next {end}"


def _about(milliseconds: int) -> str:
    """Return a time span in whole units, rounded where it is more than two minutes."""
    for unit in (86_400_000, 3_600_000, 60_000, 1000):
        if milliseconds >= 2 * unit:
            return time_span(milliseconds // unit * unit)
    return time_span(milliseconds)


def _facts(found: InspectedPartition) -> Iterator[str]:
    """Yield what is known of one partition beside its numbers."""
    if found.hole_count:
        largest = max(found.holes, key=lambda hole: hole.offsets)
        many = counted(found.hole_offsets, "offset is", "offsets are")
        which = "the hole" if found.hole_count == 1 else f"the largest of {found.hole_count:,} holes"
        after = "" if largest.before_ms is None else f", after {iso_time(largest.before_ms)}"
        yield f"{many} in no batch; {which} is offsets {largest.first_offset} to {largest.last_offset}{after}"
    opened = found.open_transactions or ()
    for transaction in opened[:_SHOWN_OPEN]:
        last = iso_time(None if transaction.last_timestamp < 0 else transaction.last_timestamp)
        yield (
            f"producer {transaction.producer_id} has an open transaction from offset {transaction.first_offset} on,"
            f" last batch {last}"
        )
    if len(opened) > _SHOWN_OPEN:
        yield f"{counted(len(opened) - _SHOWN_OPEN, 'more open transaction')}"
    cleaning, retention = found.cleaning, found.retention
    if cleaning is not None and cleaning.dirt.cleanable_bytes:
        dirt = cleaning.dirt
        limit = f"a broker cleans it above {100 * cleaning.least_ratio:.0f} %"
        yield (
            f"clean below offset {dirt.first_dirty}, dirty below {dirt.first_uncleanable}"
            f" ({sized(dirt.cleanable_bytes)}, {100 * dirt.ratio:.0f} %):"
            f" {'a broker cleans it now' if cleaning.is_due else limit}"
        )
    if retention is not None and retention.removable_segments:
        many = counted(retention.removable_segments, "segment")
        yield f"retention removes {many} now ({sized(retention.removable_bytes)})"
    if retention is not None and retention.next_due_ms is not None:
        yield f"retention.ms removes the next segment at {iso_time(retention.next_due_ms)}"
