"""The text of Kafka 0.7.2's own dump tool for `.kafka` files (DumpLogSegments at that tag)."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.java_string import java_string
from kafkalog_cli.format.records import RecordBlock, field_bytes
from kafkalog_cli.format.seven import MESSAGE_SEVEN_MAGIC0, MESSAGE_SEVEN_MAGIC1
from kafkalog_cli.output.large_fields import is_large, java_pieces

_CODEC_OBJECTS = {0: "NoCompressionCodec", 1: "GZIPCompressionCodec", 2: "SnappyCompressionCodec"}


class SevenText:
    """Renders lines of messages.

    A compressed message is followed by its inner messages, which the old tool did not show.
    """

    def __init__(self, *, deep: bool, contents: bool) -> None:
        self._deep = deep
        self._contents = contents

    def message(self, batch: Batch) -> str:
        """Return the line of one message."""
        layout = MESSAGE_SEVEN_MAGIC1 if batch.magic else MESSAGE_SEVEN_MAGIC0
        valid = "true" if batch.valid else "false"
        codec = _CODEC_OBJECTS.get(batch.codec, str(batch.codec))
        return (
            f"offset: {batch.base_offset} isvalid: {valid} payloadsize: {batch.size_bytes - layout.size}"
            f" magic: {batch.magic} compresscodec: {codec}\n"
        )

    def block(self, block: RecordBlock) -> Iterator[str]:
        """Iterate over the lines of messages with their contents."""
        rows = block.records.rows()
        begin = 0
        batches = block.batches.rows(block.first_row, block.end_row)
        for batch, end in zip(batches, block.record_ends, strict=True):
            if not block.begun:
                yield self.message(batch)
            for _ in range(end - begin):
                row = next(rows)
                if batch.codec and self._deep:
                    valid = "true" if row[10] else "false"
                    yield f"| offset: {row[0]} isvalid: {valid} payloadsize: {row[6]}\n"
                if self._contents and is_large(block.buffer, row):
                    yield "payload:\t"
                    yield from java_pieces(block.buffer[row[5] : row[5] + row[6]])
                    yield "\n"
                elif self._contents:
                    yield f"payload:\t{java_string(field_bytes(block.buffer, row[5], row[6]) or b'')}\n"
            begin = end

    @staticmethod
    def tail(offset: int) -> str:
        """Return the last line: the offset where the next message would start."""
        return f"tail of the log is at offset: {offset}\n"
