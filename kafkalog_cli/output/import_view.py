"""The text of import: a line per partition, and a total."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.errors import counted
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.ops.move.importing.planning import ImportPlan, ImportResult


def import_lines(result: ImportResult, log_dir: str, seconds: float, *, dry_run: bool) -> Iterator[str]:
    """Return the lines, without line ends; the last has the duration of the run."""
    plan = result.plan
    if plan is None:
        return
    offsets = "offsets of the input" if plan.keep_offsets else "new offsets"
    if dry_run:
        yield from _planned(plan, offsets)
        return
    for one in result.done:
        built = one.built
        line = f"{printable(one.topic)}-{one.partition}: {counted(built.records, 'record')}"
        line += f", offsets {built.first_offset} to {built.end_offset - 1}" if built.records else ""
        line += f", {sized(built.size_bytes)} in {counted(built.segments, 'segment')}"
        line += f", {built.transactional} of transactions, without transactions now" if built.transactional else ""
        yield line + (f"; read back the same, sha256 {one.proof.digest}" if one.proof is not None else "")
    for topic, found in plan.ids.items():
        if found.topic_id is not None:
            yield f"{printable(topic)}: topic id {found.topic_id} ({found.said_by})"
    yield "to undo the import before a broker starts, remove the directories of these partitions"
    records, size = (sum(getattr(one.built, name) for one in result.done) for name in ("records", "size_bytes"))
    directories = f"{counted(len(result.done), 'partition')} of {printable(log_dir)}"
    yield f"{directories}: {counted(records, 'record')}, {offsets}, {sized(size)}, {spent(seconds)}"


def _planned(plan: ImportPlan, offsets: str) -> Iterator[str]:
    for job in plan.jobs or ():
        rows = "" if job.rows < 0 else f"{counted(job.rows, 'row')} of "
        found = plan.ids[job.topic]
        topic_id = "no topic id" if found.topic_id is None else f"topic id {found.topic_id} ({found.said_by})"
        files = f"{rows}{counted(len(job.files), 'file')}, {sized(job.size_bytes)}"
        yield f"{printable(job.name)}: would be made of {files}; {offsets}; {topic_id}"
    if plan.jobs is None:
        size = sized(sum(file.size_bytes for file in plan.files))
        files = counted(len(plan.files), "file")
        yield f"would import {files}, {size}; {offsets}; the partitions follow from the rows"
