"""The text of metadump."""

from collections.abc import Iterator

from kafkalog_cli.errors import counted, shell_word
from kafkalog_cli.ops.metadump.copying import Metadump
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import Paint, printable


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
    if not made.names_hashed:
        yield "names of topics, groups and transactional ids are as they were (--hash-names replaces them)"
    parts = (
        counted(made.partitions, "partition"),
        f"{counted(counts.records, 'record')} without data",
        sized(counts.size_bytes),
        spent(seconds),
    )
    yield f"{printable(made.path)}: {', '.join(parts)}"
    yield f"next: `kafkalog verify {' '.join(map(shell_word, made.copies))}`"
