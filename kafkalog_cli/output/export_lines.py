"""Exported records as the NDJSON of `read --format json`, which `append` accepts."""

from __future__ import annotations

import io
from collections.abc import Callable

from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, topic_decode
from kafkalog_cli.output.record_json_printer import JsonPrinter
from kafkalog_cli.output.stream import ResultStream


class ExportLines:
    """Makes the lines of an export; Spark sends it to its workers, because `spark` does not import `output`."""

    def of_segment(self, partition: Partition, name: str, *, is_seven: bool) -> Callable[[RecordBlock], bytes]:
        """Return the function that renders the blocks of a segment file, a line per record."""
        directory = partition.directory
        context = SegmentContext(directory.topic, directory.partition, name, is_seven)
        sink = io.BytesIO()
        stream = ResultStream(sink)
        options = RecordJsonOptions(with_batches=False, decode=topic_decode(directory.topic))
        printer = JsonPrinter(stream, context, options)

        def render(block: RecordBlock) -> bytes:
            printer.block(block)
            stream.flush()
            lines = sink.getvalue()
            sink.seek(0)
            sink.truncate()
            return lines

        return render
