"""The output of metadump: the lines of text, and the object of a copy."""

from collections.abc import Iterator
from typing import Annotated, TypedDict

from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.ops.metadump.copying import Metadump
from kafkalog_cli.output.ndjson import Count, From, ObjectKind, PathText
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import Paint, printable


class MetadumpObject(TypedDict):
    """A copy of log directories without their data."""

    path: Annotated[PathText, "the copy"]
    log_dirs: Annotated[list[PathText], "the directories that were copied"]
    names_hashed: Annotated[
        bool, From("hashes_names"), "whether names of topics, groups and transactional ids were replaced"
    ]
    partitions: Annotated[Count, "their directories"]
    files: Annotated[Count, From("counts.files")]
    size_bytes: Annotated[Count, From("counts.size_bytes"), "of all files"]
    batches: Annotated[Count, From("counts.batches")]
    records: Annotated[Count, From("counts.records"), "whose contents were replaced"]
    opaque_batches: Annotated[
        Count, From("counts.opaque_batches"), "batches whose records cannot be read, in the log or in the copy only"
    ]
    opaque_records: Annotated[
        Count, From("counts.opaque_records"), "records of internal topics that have lost their structure"
    ]
    damaged_bytes: Annotated[Count, From("counts.damaged_bytes"), "bytes of logs outside of batches"]
    left_out: Annotated[list[PathText], "files and directories that were not copied"]


METADUMP = ObjectKind("kafkalog.metadump/1", MetadumpObject)


def metadump_text(made: Metadump, seconds: float, paint: Paint) -> str:
    """Return the text of a copy that took `seconds`."""
    lines = (paint.commands(paint.wrapped(line, indent="  ")) for line in _lines(made, seconds))
    return "".join(f"{line}\n" for line in lines)


def _lines(made: Metadump, seconds: float) -> Iterator[str]:
    """Yield what is not in the copy or not as it was, and the counts."""
    counts = made.counts
    for path in made.left_out:
        yield f"not copied: {printable(path)}"
    if counts.opaque_batches:
        batches = counted(counts.opaque_batches, "batch", "batches")
        yield f"{batches} without readable records: verify --level deep reports them in the copy"
    if counts.opaque_records:
        yield f"{counted(counts.opaque_records, 'record')} of internal topics without structure"
    if not made.hashes_names:
        yield "names of topics, groups and transactional ids are as they were (--hash-names replaces them)"
    parts = (
        counted(made.partitions, "partition"),
        f"{counted(counts.records, 'record')} without data",
        sized(counts.size_bytes),
        spent(seconds),
    )
    yield f"{printable(made.path)}: {', '.join(parts)}"
    yield f"next: `kafkalog verify {' '.join(map(shell_word, made.copies))}`"
