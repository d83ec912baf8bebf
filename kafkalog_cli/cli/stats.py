"""`kafkalog stats`: the contents of logs in numbers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Annotated, NamedTuple

from typer import Argument, Context

from kafkalog_cli.cli.each_host import hosts_of
from kafkalog_cli.cli.engine import engine_of
from kafkalog_cli.cli.exit_codes import HOST_MISSING, READ, exit_codes
from kafkalog_cli.cli.options import (
    EachHost,
    Format,
    Jobs,
    KeyFormatOption,
    OutputLimits,
    SchemasOption,
    Spark,
    Topics,
    default_jobs,
    output_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode, HostMissing, KafkalogError, UsageError, error_on, of_the_system
from kafkalog_cli.format.values.decoder import DecodedContents, ValueDecoder
from kafkalog_cli.log.partition import log_bytes
from kafkalog_cli.ops.call.host_plan import HostsRequest
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.look.key_counts import KeyTotal
from kafkalog_cli.ops.look.log_contents import LogContents
from kafkalog_cli.ops.look.stats import MeasuredPartition, Stats, measure_partitions, measure_paths, sums_of
from kafkalog_cli.ops.values import json_of
from kafkalog_cli.output.human import Column, CountColumn, NumberColumn, bars_text, iso_time, write_table
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

EXAMPLES = {
    "See what lies in each topic, the largest first": "kafkalog stats /var/lib/kafka",
    "Compare the partitions of a topic": "kafkalog stats /var/lib/kafka --topic orders --partitions",
    "Find the 20 largest records and most frequent keys": ("kafkalog stats /var/lib/kafka --topic orders --top 20"),
}
EXIT_CODES = READ | exit_codes(ExitCode.REFUSED) | HOST_MISSING

_LARGEST_TOP = 1000


# fmt: off
class StatsOptions(NamedTuple):
    """The options of stats."""

    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Log directories, partition directories, segment files under any name (.gz and .zst too), or globs"
        " of them.")]
    topics: Topics = Topics()
    partitions: Annotated[bool, output_option("--partitions",
        help="Print a row per partition. JSON output always has both.")] = False
    top: Annotated[int, output_option("--top", metavar="N", min=1, max=_LARGEST_TOP, envvar="KAFKALOG_TOP",
        help="Print N of the largest records, of the most frequent keys, and of the producers.")] = 5
    key_format: KeyFormatOption = None
    schemas: SchemasOption = None
    output_format: Format = "text"
    jobs: Jobs = 0
    limits: OutputLimits = OutputLimits()
    spark: Spark = Spark()
    hosts: EachHost = EachHost()
# fmt: on


def stats(context: Context, options: StatsOptions) -> int:
    """Print sizes, codecs, keys, producers and times of logs.

    Each topic has a row, the largest first. All records are decoded. SIZE is the size of the log files. RAW is the
    size of keys and values after decompression. KEYS counts different keys per partition, exactly up to about
    260,000, and as an estimate above; the numbers of several partitions are added up. PRODUCERS counts different
    producer ids. DUPLICATES counts records whose key an earlier record of the partition has.
    TOMBSTONES counts records with a key and a null value. OVER TIME shows the records from the first to the last
    timestamp of all rows.

    With --key-format, the text output has the most frequent keys decoded.

    Batches with wrong CRCs are left out and reported. Directories of deleted, moved or stray partitions count only
    if their own path is given. Nothing is locked or changed.

    With --each-host, executors of Spark measure the disks of their own hosts. Each host has its rows, and no details
    are printed; JSON output has them.
    """
    run = Run(context, options.output_format)
    options.hosts.check(options.spark, *options.paths)
    if options.hosts.each_host:
        return _stats_of_hosts(run, options)
    decoding = Decoding(options.key_format, None, options.schemas)
    decoding.check()
    engine = engine_of(run.environment, options.spark, options.jobs, as_json=run.as_json)
    partitions = run.select_served(options.paths, options.topics.selection)
    run.progress.begin("stats", sum(map(log_bytes, partitions)))
    with engine as map_each:
        measured = list(measure_partitions(
            run.fs, partitions, top=options.top, limits=options.limits.limits(),
            jobs=options.jobs or default_jobs(), advance=run.progress.advance, engine=map_each,
        ))  # fmt: skip
    run.progress.erase()
    for result in measured:
        _report(run, result)
    measured.sort(key=_largest_first)
    sums = [*sums_of(measured, options.top)]
    counts = {}
    if run.lines is not None:
        run.lines.results(sums)
        topics = sum(row.scope == "topic" for row in sums)
        counts = {"partitions": len(measured), "topics": topics, "records": sums[-1].contents.records}
    else:
        decoder = run.decoder_of(decoding, [result.partition.path for result in measured])
        names = {result.partition.topic for result in measured}
        text_of = partial(key_text, decoder, names.pop() if len(names) == 1 else "")
        write_stats(run.out, sums, options.top, text_of, by_partition=options.partitions)
    return run.end(**counts)


def _stats_of_hosts(run: Run, options: StatsOptions) -> int:
    """Print a row for each topic or partition and host, and for each host; replicas are not added up."""
    if options.key_format is not None or options.schemas is not None:
        raise UsageError(reason="--key-format and --schemas cannot be combined with --each-host, which prints no keys")
    verb = partial(measure_paths, options.paths, options.topics.selection, options.top, options.limits.limits())
    request = HostsRequest(verb, tuple(options.paths), hosts=options.hosts.hosts, jobs=options.jobs)
    measured: dict[str, list[MeasuredPartition]] = {}
    with hosts_of(run.environment, options.spark, request, as_json=run.as_json) as hosts:
        for host, note in hosts.notes:
            run.messages.report(note._replace(host=host))
        run.progress.begin("stats", hosts.total_bytes)
        for results in hosts.results(run.progress.advance):
            for host, result in results:
                if not any(isinstance(error, HostMissing) for _, error in result.not_read):  # which is reported once
                    result.host = host
                    measured.setdefault(host, []).append(result)
        run.progress.erase()
        for error in hosts.missing:
            run.messages.exception(error)
    for result in chain(*measured.values()):
        _report(run, result)
    sums = [
        row for host, found in measured.items() for row in sums_of(sorted(found, key=_largest_first), options.top, host)
    ]
    if run.lines is not None:
        run.lines.results(sums)
    else:
        write_hosts(run.out, sums, by_partition=options.partitions)
    run.codes = [ExitCode.PARTIAL] if hosts.missing else run.codes
    return run.end(hosts=len(measured), partitions=sum(map(len, measured.values())))


def _largest_first(measured: MeasuredPartition) -> int:
    """Key of the order in which partitions are added up, which decides between equally large records and keys."""
    return -measured.contents.bytes


def _report(run: Run, measured: MeasuredPartition) -> None:
    host = measured.host
    for path, fault in measured.damage:
        run.damage(measured.partition, path, fault, host)
    if measured.damage_count > len(measured.damage):
        text = f"{measured.damage_count - len(measured.damage)} more places are damaged; `kafkalog verify` reports them"
        run.messages.error("damage", text, path=measured.partition.path, host=host)
    for path, error in measured.not_read:
        known = error if isinstance(error, KafkalogError) or host is None else of_the_system(path, error)
        run.not_read(path, error_on(host, known) if isinstance(known, KafkalogError) and host is not None else known)
    run.codes.append(measured.code)


_ROW_BARS, _ALL_BARS = 16, 60
_SHOWN_KEY_CHARACTERS = 40
_COLUMNS = (
    NumberColumn("SIZE", lambda row: sized(row.contents.bytes)),
    NumberColumn("RAW", lambda row: sized(row.contents.raw_bytes), 4),
    NumberColumn("RECORDS", lambda row: f"{row.contents.records:,}"),
    NumberColumn("KEYS", lambda row: _keys(row.contents), 1),
    NumberColumn("DUPLICATES", lambda row: f"{row.contents.duplicates:,}", 5),
    CountColumn("TOMBSTONES", lambda row: f"{row.contents.tombstones:,}", 3),
    NumberColumn("BATCHES", lambda row: f"{row.contents.batches:,}", 6),
    CountColumn("PRODUCERS", lambda row: _producers(row.contents), 7),
    CountColumn("OUT-OF-ORDER", lambda row: f"{row.contents.out_of_order:,}", 8),
    Column("FIRST", lambda row: iso_time(row.contents.first_timestamp_ms), 10),
    Column("LAST", lambda row: iso_time(row.contents.last_timestamp_ms), 9),
)


def key_text(decoder: ValueDecoder | None, topic: str, key: KeyTotal) -> str:
    """Return a key as `read --key-format` prints it; a longer key than is kept, as it is stored.

    `decoder` None: keys are text as they are stored. `topic` names the subject of schemas.
    """
    decoded = None
    if decoder is not None and len(key.key) == key.key_bytes:
        decoded = decoder.key(topic, memoryview(key.key), None)
    if isinstance(decoded, DecodedContents):
        return str(decoded.value) if decoded.is_text else json_of(decoded)
    return key.key.decode("utf-8", "replace")


def write_stats(
    out: ResultStream, results: Sequence[Stats], top: int, text_of: Callable[[KeyTotal], str], *, by_partition: bool
) -> None:
    """Write the table of topics or partitions, and the details of all together, which is the last of `results`."""
    total = results[-1]
    rows = [row for row in results if row.scope == ("partition" if by_partition else "topic")]
    span = total.contents.first_timestamp_ms, total.contents.last_timestamp_ms
    first = [
        Column("TOPIC", lambda row: row.topic or "total"),
        NumberColumn("PARTITIONS", lambda row: row.partitions, 2),
    ]
    if by_partition:
        first = [Column("PARTITION", lambda row: (row.path or "total").rpartition("/")[2])]
    bars = Column("OVER TIME", lambda row: sparkline(row.contents, span, _ROW_BARS) or None, 2)
    write_table(out, [*first, *_COLUMNS, bars], rows if len(rows) == 1 else [*rows, total])
    paint = paint_of(out)
    width = _ALL_BARS if paint.width is None else max(_ROW_BARS, min(_ALL_BARS, paint.width - len("  ||")))
    for line in _details(total.contents, top, width, total.partitions, text_of):
        out.write(f"{paint.wrapped(line, indent='  ')}\n")


def write_hosts(out: ResultStream, results: Sequence[Stats], *, by_partition: bool) -> None:
    """Write the table of topics or partitions by host, the largest topics first, and the sum of each host."""
    scope = "partition" if by_partition else "topic"
    sizes: Counter[str | None] = Counter()
    for row in results:
        sizes[row.topic] += row.contents.bytes if row.scope == "partition" else 0
    rows = sorted(
        (row for row in results if row.scope == scope),
        key=lambda row: (-sizes[row.topic], row.topic or "", row.partition or 0),
    )
    name = Column("PARTITION" if by_partition else "TOPIC", lambda row: _name(row, by_partition=by_partition))
    columns = [name, Column("HOST", lambda row: printable(row.host or "")), *_COLUMNS]
    write_table(out, columns, [*rows, *(row for row in results if row.scope == "total")])


def _name(row: Stats, *, by_partition: bool) -> str:
    if row.topic is None:
        return "total"
    return f"{row.topic}-{row.partition}" if by_partition else row.topic


def _keys(contents: LogContents) -> str:
    return f"{'~' if contents.keys_relative_error else ''}{contents.keys:,}"


def _producers(contents: LogContents) -> str:
    return f"{contents.producers:,}{'+' if contents.more_producers else ''}"


def sparkline(contents: LogContents, span: tuple[int | None, int | None], width: int) -> str:
    """Return bars for the records in equal parts of a time span; the highest is full, and no record is a blank."""
    first, last = span
    if first is None or last is None or not contents.times.counts:
        return ""
    return bars_text(contents.times.bars(first, last, width))


def _details(
    contents: LogContents, top: int, bars: int, partitions: int, text_of: Callable[[KeyTotal], str]
) -> Iterator[str]:
    """Yield the lines below the table; the records over time have so many `bars`."""
    yield ""
    for codec in contents.codecs:
        ratio = f", {codec.raw_bytes / codec.bytes:.1f}:1" if codec.bytes else ""
        batches = f"{codec.batches:,} {'batch' if codec.batches == 1 else 'batches'}"
        yield f"codec {codec.codec}: {batches}, {sized(codec.bytes)} for {sized(codec.raw_bytes)} of contents{ratio}"
    if contents.smallest_batch_bytes is not None and contents.largest_batch_bytes is not None:
        mean = contents.batch_bytes // max(1, contents.batches)
        most = "" if contents.most_batch_records is None else f", at most {contents.most_batch_records:,} records"
        sizes = f"{sized(contents.smallest_batch_bytes)} to {sized(contents.largest_batch_bytes)}"
        yield f"batches: {sizes}, {sized(mean)} on average{most}"
    yield from _about_keys(contents, partitions)
    yield from _over_time(contents, bars)
    if contents.largest_records:
        yield "largest records:"
        width = max(len(f"{record.topic}-{record.partition}:{record.offset}") for record in contents.largest_records)
        for record in contents.largest_records:
            name = printable(f"{record.topic}-{record.partition}:{record.offset}")
            yield f"  {name.ljust(width)}  {sized(record.bytes)}, {iso_time(record.timestamp_ms)}"
    if contents.frequent_keys:
        yield "most frequent keys:"
        for key in contents.frequent_keys[:top]:
            text = printable(text_of(key))
            text = text if len(text) <= _SHOWN_KEY_CHARACTERS else f"{text[: _SHOWN_KEY_CHARACTERS - 1]}…"
            yield f"  {text or '(empty)'}: {_count_records(key.records)}, {sized(key.bytes)}"
    if contents.top_producers:
        yield "producers with the most records:"
        for producer in contents.top_producers[:top]:
            epochs = f"{producer.epochs} {'epoch' if producer.epochs == 1 else 'epochs'}"
            batches = f"{producer.batches:,} {'batch' if producer.batches == 1 else 'batches'}"
            yield f"  {producer.producer_id}: {_count_records(producer.records)} in {batches}, {epochs}"


def _about_keys(contents: LogContents, partitions: int) -> Iterator[str]:
    if partitions > 1 and contents.keys:
        yield "keys: counted per partition and added up, so that a key of several partitions counts several times"
    if contents.keys_relative_error:
        yield f"keys: an estimate, with a standard error of {100 * contents.keys_relative_error:.1f} %"


def _over_time(contents: LogContents, bars: int) -> Iterator[str]:
    first, last = contents.first_timestamp_ms, contents.last_timestamp_ms
    if first is None or last is None:
        return
    seconds = (last - first) / 1000
    timed = sum(contents.times.counts.values())
    rate = f", {timed / seconds:,.3g} records per second on average" if timed > seconds / 1000 > 0 else ""
    yield f"records over time, {iso_time(first)} to {iso_time(last)}{rate}:"
    yield f"  |{sparkline(contents, (first, last), bars)}|"
    if contents.out_of_order:
        yield f"  {_count_records(contents.out_of_order)} with a timestamp below that of an earlier record"


def _count_records(records: int) -> str:
    return f"{records:,} {'record' if records == 1 else 'records'}"
