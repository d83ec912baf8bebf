"""`kafkalog inspect`: partitions and segments on a time axis."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from typer import Argument, Context

from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import Format, Now, Safety, SettingSources, Topics, output_option
from kafkalog_cli.cli.reports import Reports
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.look.inspect import InspectedPartition, InspectedSegment, common_span
from kafkalog_cli.ops.look.inspect import inspect as inspect_partitions
from kafkalog_cli.output.human import (
    Column,
    CountColumn,
    NumberColumn,
    bars_text,
    iso_time,
    number_of,
    time_span,
    write_table,
)
from kafkalog_cli.output.progress import size_or_0, sized
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

EXAMPLES = {
    "See when the data of each partition was written, and what retention removes": ("kafkalog inspect /var/lib/kafka"),
    "Make a page of it for a browser": (
        "kafkalog inspect /var/lib/kafka --broker-config server.properties --html inspect.html"
    ),
    "See each segment of a partition": "kafkalog inspect /var/lib/kafka/orders-0",
}
EXIT_CODES = READ | exit_codes(ExitCode.REFUSED)


def inspect(  # noqa: PLR0913
    context: Context,
    *,
    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Log directories, partition directories, or globs of them.")],
    topics: Topics,
    settings: SettingSources,
    now: Now = None,
    html: Annotated[str | None, output_option("--html", metavar="FILE", show_default=False,
        help="Write also a page for browsers to FILE, replacing it. The page needs no other file and no"
        " network.")] = None,
    output: Format = "text",
) -> int:  # fmt: skip
    """Show partitions on a time axis: segments, holes, retention.

    A row per partition shows when its data was written, on an axis that all rows share. HOLES are ranges of offsets in
    no batch, which compaction leaves too. OPEN are transactions without a marker. DIRTY is the part of a compacted log
    that the cleaner has not cleaned. REMOVABLE is what retention removes now. A single partition has a row per segment
    too. The settings for DIRTY and REMOVABLE have the same sources as those of retain and compact.

    Batch headers are read, but no records, and no CRC is checked. Nothing is locked or changed.
    """
    run = Run(context, output, outlives_reader=True)
    if html is not None:
        check_named_file(run.fs, html)
    inspected: list[InspectedPartition] = []

    def show(partition: InspectedPartition) -> None:
        inspected.append(partition)
        if run.lines is not None:
            run.lines.result(partition)

    reports = Reports(run, show)
    outcome = inspect_partitions(paths, **reports.options(topics, Safety(now=now), settings=settings))
    if html is not None:
        from kafkalog_cli.output.inspect_page import inspect_page

        replace_named_file(run.fs, html, inspect_page(inspected, run.environment.clock_ms(now), _sentences), "page")
    if not run.as_json:
        write_inspected(run.out, inspected)
    return reports.end(
        outcome,
        partitions=outcome.partitions,
        segments=sum(len(partition.segments) for partition in inspected),
        bytes=sum(partition.size_bytes for partition in inspected),
        holes=sum(partition.hole_count for partition in inspected),
        open_transactions=sum(len(partition.open_transactions or ()) for partition in inspected),
        removable_bytes=sum(row.retention.removable_bytes for row in inspected if row.retention is not None),
        failures=reports.failures,
    )


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
        (partition,) = partitions
        segments = partition.segments[:_MOST_SEGMENTS]
        out.write("\n")
        write_table(out, _segment_columns(span), segments)
        if len(segments) < len(partition.segments):
            out.write(f"{counted(len(partition.segments) - len(segments), 'segment')} more in JSON output\n")
    lines = [*_details(partitions)]
    out.write("\n" if lines else "")
    for line in lines[:_MOST_DETAILS]:
        out.write(f"{paint.wrapped(line, indent='  ')}\n")
    if len(lines) > _MOST_DETAILS:
        out.write(f"{counted(len(lines) - _MOST_DETAILS, 'line')} more about partitions in JSON output\n")


def _details(partitions: Sequence[InspectedPartition]) -> Iterator[str]:
    """Yield lines about partitions, and each reason why something is not known once."""
    unknown: dict[str, list[str]] = {}
    for partition in partitions:
        name = printable(partition.partition.name)
        for line in _detail_lines(partition):
            yield f"{name}: {line}"
        for reason in partition.unknown_because:
            unknown.setdefault(reason, []).append(name)
    for reason, names in unknown.items():
        more = f" and {len(names) - 3} more" if len(names) > 4 else ""
        yield f"{', '.join(names[:3] if more else names)}{more}: {printable(reason)}"


def _sentences(partition: InspectedPartition) -> list[str]:
    """Return the details of one partition, for the page."""
    return [*_detail_lines(partition), *map(printable, partition.unknown_because)]


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


def _over_time(partition: InspectedPartition, span: tuple[int, int] | None) -> str | None:
    times = partition.bytes_over_time
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


def _detail_lines(partition: InspectedPartition) -> Iterator[str]:
    """Yield sentences about one partition beside its numbers."""
    if partition.hole_count:
        largest = max(partition.holes, key=lambda hole: hole.offsets)
        many = counted(partition.hole_offsets, "offset is", "offsets are")
        which = "the hole" if partition.hole_count == 1 else f"the largest of {partition.hole_count:,} holes"
        after = "" if largest.before_ms is None else f", after {iso_time(largest.before_ms)}"
        yield f"{many} in no batch; {which} is offsets {largest.first_offset} to {largest.last_offset}{after}"
    transactions = partition.open_transactions or ()
    for transaction in transactions[:_SHOWN_OPEN]:
        last = iso_time(None if transaction.last_timestamp < 0 else transaction.last_timestamp)
        yield (
            f"producer {transaction.producer_id} has an open transaction from offset {transaction.first_offset} on,"
            f" last batch {last}"
        )
    if len(transactions) > _SHOWN_OPEN:
        yield f"{counted(len(transactions) - _SHOWN_OPEN, 'more open transaction')}"
    cleaning, retention = partition.cleaning, partition.retention
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
