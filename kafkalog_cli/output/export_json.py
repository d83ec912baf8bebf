"""The JSON output of export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from kafkalog_cli.output.records import ObjectKind, PathText, Positive, same_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_cli.ops.export.files import MadeFile


class ExportedPathObject(TypedDict):
    """The path of an exported file."""

    path: Annotated[PathText, "below --output: topic=NAME/, and day=DATE/ with --by-day"]


class ExportedFactsObject(TypedDict):
    """The contents of an exported file."""

    topic: str
    partition: int
    first_offset: Annotated[int, "of its first record; in 0.7 a position in bytes"]
    last_offset: Annotated[int, "of its last record"]
    records: Positive
    size_bytes: Annotated[Positive, "of the file"]


class ExportedObject(ExportedPathObject, ExportedFactsObject):
    """A file that export made."""

    of_earlier_run: Annotated[bool, "an earlier run made it, which was interrupted after its commit"]


EXPORTED = ObjectKind("kafkalog.exported/1", ExportedObject)


def exported_object(file: MadeFile, output: str, *, of_earlier_run: bool) -> ExportedObject:
    """Return the fields of a file that is in place in the output."""
    path = PathText(f"{output.rstrip('/')}/{file.path}")
    return {"path": path, **same_fields(ExportedFactsObject, file), "of_earlier_run": of_earlier_run}


def export_counts(files: Sequence[MadeFile]) -> dict[str, int]:
    """Return the counts of all files for the summary."""
    return {
        "files": len(files),
        "topics": len({one.topic for one in files}),
        "partitions": len({(one.topic, one.partition) for one in files}),
        "records": sum(one.records for one in files),
        "bytes": sum(one.size_bytes for one in files),
    }
