"""The JSON output of export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_cli.output.ndjson import json_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_cli.ops.export.files import MadeFile

EXPORTED = "kafkalog.exported/1"


def exported_object(file: MadeFile, output: str, *, of_earlier_run: bool) -> dict[str, Any]:
    """Return the fields of a file that is in place in the output."""
    return {**json_path(f"{output.rstrip('/')}/{file.path}"), **file.facts, "of_earlier_run": of_earlier_run}


def export_counts(files: Sequence[MadeFile]) -> dict[str, int]:
    """Return the counts of all files for the summary."""
    return {
        "files": len(files),
        "topics": len({one.topic for one in files}),
        "partitions": len({(one.topic, one.partition) for one in files}),
        "records": sum(one.records for one in files),
        "bytes": sum(one.size_bytes for one in files),
    }
