"""The JSON output of import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypedDict

from kafkalog_cli.output.records import ObjectKind, PathText, keywords

if TYPE_CHECKING:
    from kafkalog_cli.ops.importing.results import ImportResult


class TargetPartitionObject(TypedDict):
    """The new partition of an import."""

    path: Annotated[PathText, "the partition directory"]
    topic: str
    partition: int
    topic_id: Annotated[str | None, "null: unknown, and a broker renames the partition to -stray"]
    topic_id_from: Annotated[
        Annotated[str, keywords(enum=("--topic-id", "the metadata log", "the empty partition", "the input"))] | None,
        "the source of the topic id",
    ]
    keeps_offsets: Annotated[bool, "offsets are those of the input, else new offsets from 0 on"]


class ImportedObject(TargetPartitionObject):
    """A partition that import made, or would make. In a dry run unknown numbers are null."""

    dry_run: Annotated[bool, "nothing was made: the other fields show what would be made"]
    first_offset: Annotated[int | None, "of the first record"]
    end_offset: Annotated[int | None, "of the next record"]
    records: Annotated[int | None, "in a dry run the rows of the input, with control records; null if unknown"]
    batches: int | None
    size_bytes: Annotated[int | None, "of the batches"]
    segments: int | None
    transactional_records: Annotated[int | None, "records of transactions, which became plain records"]
    proved_records: Annotated[int | None, "records that were read back and equal the input; null without --prove"]
    digest: Annotated[str | None, "SHA-256 over these records; equal records have equal digests"]


IMPORTED = ObjectKind("kafkalog.imported/1", ImportedObject)


def imported_objects(result: ImportResult, log_dir: str, *, dry_run: bool) -> Iterator[ImportedObject]:
    """Return an object for each new partition; in a dry run, with the facts that are known before the rows are read."""
    plan = result.plan
    if plan is None:
        return
    if dry_run:
        for job in plan.jobs or ():
            yield {
                **_target(job.topic, job.partition, log_dir, result),
                "dry_run": True,
                "first_offset": None,
                "end_offset": None,
                "batches": None,
                "size_bytes": None,
                "segments": None,
                "transactional_records": None,
                "records": None if job.rows < 0 else job.rows,
                "proved_records": None,
                "digest": None,
            }
        return
    for one in result.done:
        built, proof = one.built, one.proof
        yield {
            **_target(one.topic, one.partition, log_dir, result),
            "dry_run": False,
            "first_offset": built.first_offset,
            "end_offset": built.end_offset,
            "records": built.records,
            "batches": built.batches,
            "size_bytes": built.size_bytes,
            "segments": built.segments,
            "transactional_records": built.transactional,
            "proved_records": None if proof is None else proof.records,
            "digest": None if proof is None else proof.digest,
        }


def _target(topic: str, partition: int, log_dir: str, result: ImportResult) -> TargetPartitionObject:
    assert result.plan is not None
    found = result.plan.ids.get(topic)
    return {
        "path": PathText(f"{log_dir.rstrip('/')}/{topic}-{partition}"),
        "topic": topic,
        "partition": partition,
        "topic_id": None if found is None else found.topic_id,
        "topic_id_from": (found.said_by or None) if found is not None else None,
        "keeps_offsets": result.plan.keep_offsets,
    }
