"""The output of look-ups, as text or NDJSON: the record, its batch, and how they were found."""

from collections.abc import Iterator

from kafkalog_cli.format.batch import NO_OFFSET, NO_TIMESTAMP
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.look.lookup_offset import Found, LookupRecord
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.line_program import (
    TIME_TYPE,
    Form,
    Is,
    Item,
    RecordField,
    headers,
    program,
    record,
    size,
    stored,
    unless,
    when,
)
from kafkalog_cli.output.ndjson import JsonLines, Rendered
from kafkalog_cli.output.rendering import BlockLines, LineForm
from kafkalog_cli.output.stream import printable


def found_lines(record: Found) -> Iterator[str]:
    """Return lines `name: value`, the record first, in pieces: a piece with a final line feed ends a line."""
    if record.block is not None:
        yield from _record_lines(record.block)
    batch = record.batch
    first = "?" if batch.base_offset == NO_OFFSET else batch.base_offset
    yield f"segment: {printable(record.segment.log.path)}\n"
    yield (
        f"batch: offsets {first} to {batch.last_offset}, position {batch.position},"
        f" {batch.size_bytes} bytes, magic {batch.magic}, {codec_name(batch.codec)}, CRC {_crc(batch.valid)}\n"
    )
    yield f"found: {how(record)}\n"
    for note in record.notes:
        yield f"note: {printable(note)}\n"


def how(record: Found) -> str:
    """Return how the batch was found, in a sentence."""
    start, steps = record.start, []
    if record.time_entry is not None:
        steps.append(f"time index entry {record.time_entry.timestamp} at offset {record.time_entry.offset}")
    if start.entry is not None:
        steps.append(f"index entry offset {start.entry.offset} at position {start.entry.position}")
        return ", ".join([*steps, "then batch by batch"])
    steps.append("batch by batch from the start of the segment")
    return ", ".join(steps) + (f": {printable(start.doubt)}" if start.doubt else "")


def _record_lines(block: RecordBlock) -> Iterator[str]:
    """Return the lines of a block's only record, in pieces."""
    timestamp = int(block.records.timestamp[0])
    timed: list[Item] = ["timestamp: ", record("timestamp"), f" ({iso_time(timestamp)}), ", TIME_TYPE, "\n"]
    items: list[Item] = [
        "offset: ", record("offset"), "\n", *(timed if timestamp != NO_TIMESTAMP else []),
        "key: ", *_content(RecordField.KEY), "value: ", *_content(RecordField.VALUE),
        headers(
            "header: ", stored(RecordField.HEADER_KEY, Form.JAVA_ESCAPED), " = ", *_content(RecordField.HEADER_VALUE)
        ),
    ]  # fmt: skip
    for piece in BlockLines(LineForm(program([], items), escape=True)).pieces(block):
        yield str(piece, "utf-8")


def _content(part: RecordField) -> list[Item]:
    whole = stored(part, Form.JAVA_ESCAPED), " (", size(part), " bytes)\n"
    return [when(Is.NULL, "null\n", of=part), unless(Is.NULL, *whole, of=part)]


def _crc(valid: int) -> str:
    return {1: "good", 0: "BAD"}.get(valid, "not checked")


def write_found(lines: JsonLines, record: Found, partition: Partition, /, **given: object) -> None:
    """Write the object of a look-up; `record` is null if only a batch was requested or could be read."""
    record_text = None
    if record.block is not None:
        from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form, topic_decode

        context = SegmentContext.of_segment(partition, record.segment)
        options = RecordJsonOptions(with_batches=False, decode=topic_decode(context.topic))
        pieces = BlockLines(record_form(context, options)).pieces(record.block)
        record_text = Rendered(
            str(piece, "utf-8").removesuffix("\n") for piece in pieces
        )  # no string has a raw line end
    lines.result(LookupRecord(record), record=record_text, how=how(record), **given)
