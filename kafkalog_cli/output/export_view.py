"""The output of export: objects about its files, exported records as lines (which `append` accepts), and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kafkalog_cli.errors import counted
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.values import DecodedColumns
from kafkalog_cli.output.decoded_values import DecodedValues
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form, topic_decode
from kafkalog_cli.output.rendering import BlockLines
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.ops.move.export_files import MadeFile


def export_counts(files: Sequence[MadeFile]) -> dict[str, int]:
    """Return the counts of all files for the summary."""
    return {
        "files": len(files),
        "topics": len({one.topic for one in files}),
        "partitions": len({(one.topic, one.partition) for one in files}),
        "records": sum(one.records for one in files),
        "bytes": sum(one.size_bytes for one in files),
    }


class ExportLines:
    """Makes the lines of an export; Spark sends it to its workers, because `spark` does not import `output`."""

    def of_segment(
        self, partition: Partition, name: str, *, is_seven: bool, decoded: DecodedColumns | None
    ) -> Callable[[RecordBlock], bytes]:
        """Return the function that renders the blocks of a segment file, a line per record."""
        directory = partition.directory
        context = SegmentContext(directory.topic, directory.partition, name, is_seven)
        values = None if decoded is None else DecodedValues(decoded.decoder, partition.topic, decoded.undecoded)
        options = RecordJsonOptions(with_batches=False, decode=topic_decode(directory.topic), values=values)
        lines = BlockLines(record_form(context, options))
        return lambda block: b"".join(map(bytes, lines.pieces(block)))


# ---- text


def export_lines(files: Iterable[MadeFile], seconds: float) -> Iterator[str]:
    """Return the lines, with line ends; the last has the duration of the run."""
    whole: list[MadeFile] = []
    of_topics: list[str] = []
    for topic, group in groupby(sorted(files, key=lambda one: one.topic), key=lambda one: one.topic):
        of_topic = list(group)
        whole += of_topic
        of_topics.append(f"{printable(topic)}: {_counted(of_topic)}")
    if len(of_topics) != 1:
        of_topics.append(f"{len(of_topics)} topics: {_counted(whole)}")
    of_topics[-1] += f", {spent(seconds)}"
    yield from (f"{line}\n" for line in of_topics)


def _counted(files: list[MadeFile]) -> str:
    records, size_bytes = sum(one.records for one in files), sum(one.size_bytes for one in files)
    partitions = len({(one.topic, one.partition) for one in files})
    places = f"{counted(partitions, 'partition')} in {counted(len(files), 'file')}"
    return f"{counted(records, 'record')} of {places}, {sized(size_bytes)}"
