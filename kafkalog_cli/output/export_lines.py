"""Exported records as lines of JSON, which `append` accepts."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.values import DecodedColumns
from kafkalog_cli.output.decoded_values import DecodedValues
from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form, topic_decode
from kafkalog_cli.output.rendering import BlockLines


class ExportLines:
    """Makes the lines of an export; Spark sends it to its workers, because `spark` does not import `output`."""

    def of_segment(
        self, partition: Partition, name: str, *, is_v07: bool, decoded: DecodedColumns | None
    ) -> Callable[[RecordBlock], bytes]:
        """Return the function that renders the blocks of a segment file, a line per record."""
        directory = partition.directory
        context = SegmentContext(directory.topic, directory.partition, name, is_v07)
        values = None if decoded is None else DecodedValues(decoded.decoder, partition.topic, decoded.undecoded)
        options = RecordJsonOptions(with_batches=False, decode=topic_decode(directory.topic), values=values)
        lines = BlockLines(record_form(context, options))
        return lambda block: b"".join(map(bytes, lines.pieces(block)))
