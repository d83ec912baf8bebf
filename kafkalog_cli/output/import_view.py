"""The output of import: an object or a line per partition, and a total."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypedDict

from kafkalog_cli.errors import counted
from kafkalog_cli.output.ndjson import From, ObjectKind, same_fields
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import printable
from kafkalog_cli.results import EMPTY_IS_NULL, PathText, keywords

if TYPE_CHECKING:
    from kafkalog_cli.ops.importing.planning import ImportPlan, ImportResult


class ImportedObject(TypedDict):
    """A partition that import made, or would make. In a dry run unknown numbers are null."""

    path: Annotated[PathText, "the partition directory"]
    topic: str
    partition: int
    topic_id: Annotated[str | None, "null: unknown, and a broker renames the partition to -stray"]
    topic_id_from: Annotated[
        Annotated[str, keywords(enum=("--topic-id", "the metadata log", "the empty partition", "the input"))] | None,
        EMPTY_IS_NULL,
        "the source of the topic id",
    ]
    keeps_offsets: Annotated[bool, "offsets are those of the input, else new offsets from 0 on"]
    dry_run: Annotated[bool, "nothing was made: the other fields show what would be made"]
    first_offset: Annotated[int | None, From("built.first_offset"), "of the first record"]
    end_offset: Annotated[int | None, From("built.end_offset"), "of the next record"]
    records: Annotated[
        int | None, From("built.records"), "in a dry run the rows of the input, with control records; null if unknown"
    ]
    batches: Annotated[int | None, From("built.batches")]
    size_bytes: Annotated[int | None, From("built.size_bytes"), "of the batches"]
    segments: Annotated[int | None, From("built.segments")]
    transactional_records: Annotated[
        int | None, From("built.transactional"), "records of transactions, which became plain records"
    ]
    proved_records: Annotated[
        int | None, From("proof.records"), "records that were read back and equal the input; null without --prove"
    ]
    digest: Annotated[str | None, From("proof.digest"), "SHA-256 over these records; equal records have equal digests"]


IMPORTED = ObjectKind("kafkalog.imported/1", ImportedObject)


def imported_objects(result: ImportResult, log_dir: str, *, dry_run: bool) -> Iterator[ImportedObject]:
    """Return an object for each new partition; in a dry run, with the facts that are known before the rows are read."""
    plan = result.plan
    if plan is None:
        return
    if dry_run:
        for job in plan.jobs or ():
            target = _target(job.topic, job.partition, log_dir, result)
            records = None if job.rows < 0 else job.rows
            yield same_fields(ImportedObject, None, **target, dry_run=True, records=records)
        return
    for one in result.done:
        target = _target(one.topic, one.partition, log_dir, result)
        yield same_fields(ImportedObject, one, **target, dry_run=False)


def _target(topic: str, partition: int, log_dir: str, result: ImportResult) -> dict[str, object]:
    assert result.plan is not None
    found = result.plan.ids.get(topic)
    return {
        "path": f"{log_dir.rstrip('/')}/{topic}-{partition}",
        "topic": topic,
        "partition": partition,
        "topic_id": None if found is None else found.topic_id,
        "topic_id_from": None if found is None else found.said_by,
        "keeps_offsets": result.plan.keep_offsets,
    }


# ---- text


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
