"""The text output of export: a line per topic, and a total."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.ops.export.files import MadeFile


def export_lines(files: Iterable[MadeFile]) -> Iterator[str]:
    """Return the lines, with line ends."""
    whole: list[MadeFile] = []
    topics = 0
    for topic, group in groupby(sorted(files, key=lambda one: one.topic), key=lambda one: one.topic):
        of_topic = list(group)
        whole += of_topic
        topics += 1
        yield f"{printable(topic)}: {_counted(of_topic)}\n"
    if topics != 1:
        yield f"{topics} topics: {_counted(whole)}\n"


def _counted(files: list[MadeFile]) -> str:
    records, size_bytes = sum(one.records for one in files), sum(one.size_bytes for one in files)
    partitions = len({(one.topic, one.partition) for one in files})
    return (
        f"{records} {_word('record', records)} of {partitions} {_word('partition', partitions)}"
        f" in {len(files)} {_word('file', len(files))}, {sized(size_bytes)}"
    )


def _word(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
