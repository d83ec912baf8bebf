"""The text output of import: a line per partition, and a total."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.ops.importing.results import ImportPlan, ImportResult


def import_lines(result: ImportResult, log_dir: str, *, dry_run: bool) -> Iterator[str]:
    """Return the lines, without line ends."""
    plan = result.plan
    if plan is None:
        return
    offsets = "offsets of the input" if plan.keep_offsets else "new offsets"
    if dry_run:
        yield from _planned(plan, offsets)
        return
    for one in result.done:
        built = one.built
        line = f"{printable(one.topic)}-{one.partition}: {_counted(built.records, 'record')}"
        line += f", offsets {built.first_offset} to {built.end_offset - 1}" if built.records else ""
        line += f", {sized(built.size_bytes)} in {_counted(built.segments, 'segment')}"
        line += f", {built.transactional} of transactions, without transactions now" if built.transactional else ""
        yield line + (f"; read back the same, sha256 {one.proof.digest}" if one.proof is not None else "")
    for topic, found in plan.ids.items():
        if found.topic_id is not None:
            yield f"{printable(topic)}: topic id {found.topic_id} ({found.said_by})"
    records, directories = sum(one.built.records for one in result.done), _counted(len(result.done), "partition")
    yield f"{_counted(records, 'record')} in {directories} of {printable(log_dir)}, {offsets}"
    yield "to undo the import before a broker starts, remove the directories of these partitions"


def _planned(plan: ImportPlan, offsets: str) -> Iterator[str]:
    for job in plan.jobs or ():
        rows = "" if job.rows < 0 else f"{_counted(job.rows, 'row')} of "
        found = plan.ids[job.topic]
        topic_id = "no topic id" if found.topic_id is None else f"topic id {found.topic_id} ({found.said_by})"
        files = f"{rows}{_counted(len(job.files), 'file')}, {sized(job.size_bytes)}"
        yield f"{printable(job.name)}: would be made of {files}; {offsets}; {topic_id}"
    if plan.jobs is None:
        size = sized(sum(file.size_bytes for file in plan.files))
        files = _counted(len(plan.files), "file")
        yield f"would import {files}, {size}; {offsets}; the partitions follow from the rows"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
