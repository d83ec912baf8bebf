"""The text and JSON output of stats: topics or partitions, the largest first, and the details of all together."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple, TypedDict

from kafkalog_cli.format.values.decoder import DecodedContents, ValueDecoder
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.key_counts import KeyTotal
from kafkalog_cli.ops.log_contents import LogContents
from kafkalog_cli.ops.values import json_of
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import CodecWord, Count, From, ObjectKind, PathText, RawBytes, same_fields
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

_BARS = " ▁▂▃▄▅▆▇█"
_ROW_BARS, _ALL_BARS = 16, 60
_SHOWN_KEY_CHARACTERS = 40
_COLUMNS = (
    TextColumn("SIZE", is_number=True),
    TextColumn("RAW", is_number=True, rank=4),
    TextColumn("RECORDS", is_number=True),
    TextColumn("KEYS", is_number=True, rank=1),
    TextColumn("DUPLICATES", is_number=True, rank=5),
    TextColumn("TOMBSTONES", is_number=True, rank=3, is_count=True),
    TextColumn("BATCHES", is_number=True, rank=6),
    TextColumn("PRODUCERS", is_number=True, rank=7, is_count=True),
    TextColumn("OUT-OF-ORDER", is_number=True, rank=8, is_count=True),
    TextColumn("FIRST", rank=10),
    TextColumn("LAST", rank=9),
    TextColumn("OVER TIME", rank=2),
)


class StatsRow(NamedTuple):
    """A topic or a partition with its contents; `partitions` None: a single partition."""

    name: str
    contents: LogContents
    partitions: int | None = None


class KeyWords(NamedTuple):
    """Turns keys into text; `decoder` None: keys are text as they are stored. `topic` names the subject of schemas."""

    decoder: ValueDecoder | None = None
    topic: str = ""

    def of(self, key: KeyTotal) -> str:
        """Return a key as `read --key-format` prints it; a longer key than is kept, as it is stored."""
        found = None
        if self.decoder is not None and len(key.key) == key.key_bytes:
            found = self.decoder.key(self.topic, memoryview(key.key), None)
        if isinstance(found, DecodedContents):
            return str(found.value) if found.is_text else json_of(found)
        return key.key.decode("utf-8", "replace")


def write_stats(  # noqa: PLR0913, PLR0917
    out: ResultStream, rows: Sequence[StatsRow], total: LogContents, partitions: int, top: int, words: KeyWords
) -> None:
    """Write the table, and the details."""
    span = total.first_timestamp_ms, total.last_timestamp_ms
    is_topics = any(row.partitions is not None for row in rows)
    first = (TextColumn("TOPIC"), TextColumn("PARTITIONS", is_number=True, rank=2)) if is_topics else (
        TextColumn("PARTITION"),
    )  # fmt: skip
    shown = [*rows] if len(rows) == 1 else [*rows, StatsRow("total", total, partitions if is_topics else None)]
    cells = []
    for row in shown:
        names = [printable(row.name)] + ([cell(row.partitions)] if is_topics else [])
        cells.append((*names, *_cells(row.contents, span)))
    write_table(out, TextTable((*first, *_COLUMNS), cells))
    paint = paint_of(out)
    bars = _ALL_BARS if paint.width is None else max(_ROW_BARS, min(_ALL_BARS, paint.width - len("  ||")))
    for line in _details(total, top, bars, partitions, words):
        out.write(f"{paint.wrapped(line, indent='  ')}\n")


def _cells(found: LogContents, span: tuple[int | None, int | None]) -> Iterator[str]:
    yield sized(found.bytes)
    yield sized(found.raw_bytes)
    yield f"{found.records:,}"
    yield _keys(found)
    yield f"{found.duplicates:,}"
    yield f"{found.tombstones:,}"
    yield f"{found.batches:,}"
    yield _producers(found)
    yield f"{found.out_of_order:,}"
    yield iso_time(found.first_timestamp_ms)
    yield iso_time(found.last_timestamp_ms)
    yield sparkline(found, span, _ROW_BARS) or NOTHING


def _keys(found: LogContents) -> str:
    return f"{'~' if found.keys_relative_error else ''}{found.keys:,}"


def _producers(found: LogContents) -> str:
    return f"{found.producers:,}{'+' if found.more_producers else ''}"


def sparkline(found: LogContents, span: tuple[int | None, int | None], width: int) -> str:
    """Return bars for the records in equal parts of a time span; the highest is full, and no record is a blank."""
    first, last = span
    if first is None or last is None or not found.times.counts:
        return ""
    return bars_text(found.times.bars(first, last, width))


def bars_text(counts: Sequence[int]) -> str:
    """Return a bar for each count; the highest is full, and 0 is a blank."""
    most = max(1, *counts)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in counts)


def _details(found: LogContents, top: int, bars: int, partitions: int, words: KeyWords) -> Iterator[str]:
    """Yield the lines below the table; the records over time have so many `bars`."""
    yield ""
    for codec in found.codecs:
        ratio = f", {codec.raw_bytes / codec.bytes:.1f}:1" if codec.bytes else ""
        batches = f"{codec.batches:,} {'batch' if codec.batches == 1 else 'batches'}"
        yield f"codec {codec.codec}: {batches}, {sized(codec.bytes)} for {sized(codec.raw_bytes)} of contents{ratio}"
    if found.smallest_batch is not None and found.largest_batch is not None:
        mean = found.batch_bytes // max(1, found.batches)
        most = "" if found.most_batch_records is None else f", at most {found.most_batch_records:,} records"
        yield (
            f"batches: {sized(found.smallest_batch)} to {sized(found.largest_batch)}, {sized(mean)} on average{most}"
        )
    yield from _about_keys(found, partitions)
    yield from _over_time(found, bars)
    if found.largest:
        yield "largest records:"
        width = max(len(f"{one.topic}-{one.partition}:{one.offset}") for one in found.largest)
        for record in found.largest:
            name = printable(f"{record.topic}-{record.partition}:{record.offset}")
            yield f"  {name.ljust(width)}  {sized(record.bytes)}, {iso_time(record.timestamp_ms)}"
    if found.frequent_keys:
        yield "most frequent keys:"
        for key in found.frequent_keys[:top]:
            text = printable(words.of(key))
            text = text if len(text) <= _SHOWN_KEY_CHARACTERS else f"{text[: _SHOWN_KEY_CHARACTERS - 1]}…"
            yield f"  {text or '(empty)'}: {_counted(key.records)}, {sized(key.bytes)}"
    if found.top_producers:
        yield "producers with the most records:"
        for one in found.top_producers[:top]:
            epochs = f"{one.epochs} {'epoch' if one.epochs == 1 else 'epochs'}"
            batches = f"{one.batches:,} {'batch' if one.batches == 1 else 'batches'}"
            yield f"  {one.producer_id}: {_counted(one.records)} in {batches}, {epochs}"


def _about_keys(found: LogContents, partitions: int) -> Iterator[str]:
    if partitions > 1 and found.keys:
        yield "keys: counted per partition and added up, so that a key of several partitions counts several times"
    if found.keys_relative_error:
        yield f"keys: an estimate, with a standard error of {100 * found.keys_relative_error:.1f} %"


def _over_time(found: LogContents, bars: int) -> Iterator[str]:
    first, last = found.first_timestamp_ms, found.last_timestamp_ms
    if first is None or last is None:
        return
    seconds = (last - first) / 1000
    timed = sum(found.times.counts.values())
    rate = f", {timed / seconds:,.3g} records per second on average" if timed > seconds / 1000 > 0 else ""
    yield f"records over time, {iso_time(first)} to {iso_time(last)}{rate}:"
    yield f"  |{sparkline(found, (first, last), bars)}|"
    if found.out_of_order:
        yield f"  {_counted(found.out_of_order)} with a timestamp below that of an earlier record"


def _counted(records: int) -> str:
    return f"{records:,} {'record' if records == 1 else 'records'}"


class CodecContentsObject(TypedDict):
    """The batches with one codec."""

    codec: CodecWord
    batches: Count
    bytes: Annotated[Count, "on disk"]
    raw_bytes: Annotated[Count, "keys and values after decompression"]


class LargeRecordObject(TypedDict):
    """One of the largest records."""

    topic: PathText
    partition: int
    offset: int
    bytes: Annotated[Count, "of the key and the value"]
    timestamp_ms: int | None


class FrequentKeyObject(TypedDict):
    """One of the most frequent keys."""

    key: Annotated[RawBytes, "the first 1024 bytes"]
    key_bytes: Count
    records: Count
    bytes: Annotated[Count, "of keys and values"]
    records_error: Annotated[Count, "the true number is at most so much higher"]


class ProducerCountsObject(TypedDict):
    """One of the producers with the most records."""

    producer_id: int
    epochs: Annotated[Count, "the number of different epochs; of several partitions the largest number"]
    batches: Count
    records: Count


class PeriodCountObject(TypedDict):
    """The records of a period."""

    start_ms: int
    records: Count


class StatsObject(TypedDict):
    """The contents of a partition, of a topic, or of all partitions together."""

    scope: Literal["partition", "topic", "total"]
    topic: Annotated[PathText | None, "null for the total"]
    partition: Annotated[int | None, "null for a topic and the total"]
    path: Annotated[PathText | None, "the partition's directory; null for a topic and the total"]
    partitions: Count
    bytes: Annotated[Count, "of the log files"]
    raw_bytes: Annotated[Count, "keys and values after decompression"]
    batches: Count
    records: Annotated[Count, "without control records"]
    control_records: Count
    codecs: Annotated[list[CodecContentsObject], "the codec with the most bytes first"]
    smallest_batch_bytes: Annotated[int | None, From("smallest_batch")]
    largest_batch_bytes: Annotated[int | None, From("largest_batch")]
    most_batch_records: int | None
    keys: Annotated[Count, "different keys per partition; those of several partitions are added up"]
    keys_relative_error: Annotated[float, "standard error of the estimate; 0: exact"]
    null_keys: Annotated[Count, "records without a key"]
    duplicates: Annotated[Count, "records with a key that an earlier record of the partition has"]
    tombstones: Annotated[Count, "records with a key and a null value"]
    frequent_keys: list[FrequentKeyObject]
    producers: Annotated[Count, "different producer ids"]
    more_producers: Annotated[bool, "whether a partition has more producers than were counted"]
    top_producers: list[ProducerCountsObject]
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    out_of_order: Annotated[Count, "records with a timestamp below that of an earlier record of the partition"]
    largest_records: Annotated[list[LargeRecordObject], From("largest")]
    period_ms: Annotated[Count, From("times.period_ms"), "the length of a period"]
    over_time: Annotated[list[PeriodCountObject], "periods with records"]


STATS = ObjectKind("kafkalog.stats/1", StatsObject)


def stats_object(
    contents: LogContents, partitions: int, top: int, topic: str | None = None, partition: Partition | None = None
) -> StatsObject:
    """Return the object of a partition, of a topic (without `partition`), or of all (without `topic`)."""
    period_ms = contents.times.period_ms
    return same_fields(
        StatsObject,
        contents,
        scope="total" if topic is None else "topic" if partition is None else "partition",
        topic=topic,
        partition=None if partition is None else partition.number,
        path=None if partition is None else partition.path,
        partitions=partitions,
        frequent_keys=contents.frequent_keys[:top],
        top_producers=contents.top_producers[:top],
        over_time=[
            {"start_ms": period * period_ms, "records": count}
            for period, count in sorted(contents.times.counts.items())
        ],
    )
