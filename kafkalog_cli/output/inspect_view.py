"""The output of inspect: an object per partition, and tables with the partitions and segments on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafkalog_cli.errors import counted
from kafkalog_cli.ops.inspect import InspectedPartition, InspectedSegment, common_span
from kafkalog_cli.output.human import Column, CountColumn, NumberColumn, iso_time, number_of, time_span, write_table
from kafkalog_cli.output.progress import size_or_0, sized
from kafkalog_cli.output.stats_view import bars_text
from kafkalog_cli.output.stream import ResultStream, paint_of, printable
from kafkalog_cli.output.views import View


def inspect_view() -> View[InspectedPartition]:
    """Return how the partitions are shown: objects one by one. The text has one time axis for all of them."""
    names = ("segments", "bytes", "holes", "open_transactions", "removable_bytes")
    return View(lambda _: (), (*names, "failures"), _counts)


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


def write_inspected(out: ResultStream, partitions: list[InspectedPartition]) -> None:
    """Write a row per partition, the segments of a single partition, and what is not as it should be."""
    span, paint = common_span(partitions), paint_of(out)
    write_table(out, _partition_columns(span), partitions)
    if span is not None:
        cell_ms = max(1, (span[1] - span[0]) // _CELLS)
        axis = f"over time: bytes from {iso_time(span[0])} to {iso_time(span[1])}, {_about(cell_ms)} per cell"
        out.write(f"\n{paint.wrapped(axis, indent='  ')}\n")
    if len(partitions) == 1 and partitions[0].segments:
        (found,) = partitions
        shown = found.segments[:_MOST_SEGMENTS]
        out.write("\n")
        write_table(out, _segment_columns(span), shown)
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


def _partition_columns(span: tuple[int, int] | None) -> tuple[Column, ...]:
    return (
        Column("PARTITION", lambda row: row.partition.name),
        NumberColumn("SIZE", lambda row: sized(row.size_bytes)),
        Column("OFFSETS", lambda row: _range(row.log_start_offset, row.log_end_offset), 5),
        NumberColumn("SEGMENTS", lambda row: f"{len(row.segments):,}", 6),
        CountColumn("HOLES", lambda row: f"{row.hole_count:,}", 3),
        CountColumn("OPEN", lambda row: number_of(row.open_transactions), 2),
        NumberColumn("DIRTY", lambda row: row.cleaning and f"{100 * row.cleaning.ratio:.0f} %", 1),
        Column(
            "REMOVABLE",
            lambda row: row.retention and size_or_0(row.retention.removable_bytes),
            4,
            is_number=True,
            is_count=True,
        ),
        Column("OVER TIME", lambda row: _over_time(row, span)),
    )


def _segment_columns(span: tuple[int, int] | None) -> tuple[Column, ...]:
    return (
        Column("OFFSETS", lambda row: _range(row.base_offset, row.next_offset)),
        NumberColumn("SIZE", lambda row: sized(row.size_bytes)),
        NumberColumn("BATCHES", lambda row: f"{row.batches:,}", 3),
        Column("FIRST", lambda row: iso_time(row.first_timestamp_ms), 4),
        Column("LAST", lambda row: iso_time(row.last_timestamp_ms), 5),
        Column("PART", lambda row: row.part and row.part.value, 2),
        Column("REMOVED BY", lambda row: row.removed_by and row.removed_by.value, 1),
        Column("TIME SPAN", lambda row: _time_line(row, span)),
    )


def _over_time(found: InspectedPartition, span: tuple[int, int] | None) -> str | None:
    times = found.bytes_over_time
    return None if span is None or not times.counts else bars_text(times.bars(*span, _CELLS))


def _time_line(segment: InspectedSegment, span: tuple[int, int] | None) -> str | None:
    """Return a line from the first to the last timestamp of a segment."""
    first, last = segment.first_timestamp_ms, segment.last_timestamp_ms
    if first is None or last is None or span is None:
        return None
    begin, end = ((ms - span[0]) * _CELLS // (span[1] - span[0] + 1) for ms in (first, last))
    return " " * begin + "━" * (end - begin + 1) + " " * (_CELLS - end - 1)


def _range(first: int | None, end: int | None) -> str | None:
    """Return the offsets from `first` to the last below `end`; where the log is empty, the offset that follows."""
    if first is None or end is None:
        return None
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
