"""The text output of look-ups: the record, its batch, and how they were found."""

from collections.abc import Iterator, Sequence

from kafkalog_cli.format.batch import NO_OFFSET, NO_TIMESTAMP
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.records import RecordBlock, header_views, view_of
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.lookup_offset import Found
from kafkalog_cli.ops.lookup_time import BrokerAnswer
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.large_fields import java_pieces
from kafkalog_cli.output.stream import printable


def found_lines(found: Found) -> Iterator[str]:
    """Return lines `name: value`, the record first, in pieces: a piece with a final line feed ends a line."""
    if found.block is not None:
        yield from _record_lines(found.block)
    batch = found.batch
    first = "?" if batch.base_offset == NO_OFFSET else batch.base_offset
    yield f"segment: {printable(found.segment.log.path)}\n"
    yield (
        f"batch: offsets {first} to {batch.last_offset}, position {batch.position},"
        f" {batch.size_bytes} bytes, magic {batch.magic}, {codec_name(batch.codec)}, CRC {_crc(batch.valid)}\n"
    )
    yield f"found: {how(found)}\n"
    for note in found.notes:
        yield f"note: {printable(note)}\n"


def partition_line(
    partition: Partition, offsets: Sequence[int | None], *, timestamp_ms: int | None = None, notes: Sequence[str] = ()
) -> str:
    """Return the answer for one of several partitions in one line; no offsets: there is no such record."""
    answer = f"offset{'s' * (len(offsets) > 1)} {', '.join(map(str, offsets))}" if offsets else "none"
    if timestamp_ms is not None:
        answer += f", timestamp {timestamp_ms} ({iso_time(timestamp_ms)})"
    return f"{'; '.join([f'{printable(partition.name)}: {answer}', *map(printable, notes)])}"


def topic_line(partitions: int, answered: int, without: int) -> str:
    """Return the closing line after the answers for several partitions."""
    failed = partitions - answered - without
    parts = [f"{answered} found"]
    parts += [f"{without} without such a record"] if without else []
    parts += [f"{failed} failed"] if failed else []
    return f"{partitions} partitions: {', '.join(parts)}\n"


def how(found: Found) -> str:
    """Return how the batch was found, in a sentence."""
    start, steps = found.start, []
    if found.time_entry is not None:
        steps.append(f"time index entry {found.time_entry.timestamp} at offset {found.time_entry.offset}")
    if start.entry is not None:
        steps.append(f"index entry offset {start.entry.offset} at position {start.entry.position}")
        return ", ".join([*steps, "then batch by batch"])
    steps.append("batch by batch from the start of the segment")
    return ", ".join(steps) + (f": {printable(start.doubt)}" if start.doubt else "")


def broker_note(answer: BrokerAnswer) -> str:
    """Return a broker's different answer, and its reason."""
    if answer.failure:
        return f"a broker would answer with an error: {answer.reason}: {answer.failure}"
    said = "that there is none" if answer.offset is None else f"offset {answer.offset}"
    return f"a broker would answer {said}: {answer.reason}"


def _record_lines(block: RecordBlock) -> Iterator[str]:
    """Return the lines of a block's only record; its key and value, which may be large, are not copied."""
    row, buffer = next(block.records.rows()), block.buffer
    offset, timestamp, _, key_at, key_size, value_at, value_size, headers_at, header_count = row[:9]
    yield f"offset: {offset}\n"
    if timestamp != NO_TIMESTAMP:
        kind = block.batches.row(block.first_row).timestamp_type
        yield f"timestamp: {timestamp} ({iso_time(timestamp)}), {kind}\n"
    yield "key: "
    yield from _shown(view_of(buffer, key_at, key_size))
    yield "value: "
    yield from _shown(view_of(buffer, value_at, value_size))
    for key, value in header_views(buffer, headers_at, header_count):
        yield "header: "
        yield from map(printable, java_pieces(key))
        yield " = "
        yield from _shown(value)


def _shown(data: memoryview | None) -> Iterator[str]:
    if data is None:
        yield "null\n"
        return
    yield from map(printable, java_pieces(data))
    yield f" ({len(data)} bytes)\n"


def _crc(valid: int) -> str:
    return {1: "good", 0: "BAD"}.get(valid, "not checked")
