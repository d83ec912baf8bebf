"""The JSON output of import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafkalog_cli.output.ndjson import json_path

if TYPE_CHECKING:
    from kafkalog_cli.ops.importing.planning import Job
    from kafkalog_cli.ops.importing.results import ImportResult

IMPORTED = "kafkalog.imported/1"


def imported_objects(result: ImportResult, log_dir: str, *, dry_run: bool) -> Iterator[dict[str, Any]]:
    """Return an object for each new partition; in a dry run, with the facts that are known before the rows are read."""
    plan = result.plan
    if plan is None:
        return
    if dry_run:
        for job in plan.jobs or ():
            yield {**_place(job.topic, job.partition, log_dir, result), **_planned(job)}
        return
    for one in result.done:
        built, proof = one.built, one.proof
        yield {
            **_place(one.topic, one.partition, log_dir, result),
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


def _place(topic: str, partition: int, log_dir: str, result: ImportResult) -> dict[str, Any]:
    assert result.plan is not None
    found = result.plan.ids.get(topic)
    return {
        **json_path(f"{log_dir.rstrip('/')}/{topic}-{partition}"),
        "topic": topic,
        "partition": partition,
        "topic_id": None if found is None else found.topic_id,
        "topic_id_from": (found.said_by or None) if found is not None else None,
        "keeps_offsets": result.plan.keep_offsets,
    }


def _planned(job: Job) -> dict[str, Any]:
    fields = ("first_offset", "end_offset", "batches", "size_bytes", "segments", "transactional_records")
    return {
        "dry_run": True,
        **dict.fromkeys(fields),
        "records": None if job.rows < 0 else job.rows,
        "proved_records": None,
        "digest": None,
    }
