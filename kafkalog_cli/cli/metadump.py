"""`kafkalog metadump`: copy log directories without the data in them."""

from collections.abc import Iterator
from typing import Annotated

from typer import Argument, Context, Option

from kafkalog_cli.cli.exit_codes import PATHS, exit_codes
from kafkalog_cli.cli.options import Format
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode, UsageError, counted, shell_word
from kafkalog_cli.ops.move.metadump.copying import Metadump
from kafkalog_cli.ops.move.metadump.copying import metadump as copy_without_data
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import Paint, paint_of, printable

EXAMPLES = {
    "Make a copy without keys, values and secrets": "kafkalog metadump /var/lib/kafka /mnt/for-support",
    "Replace the names of topics and groups too": ("kafkalog metadump /var/lib/kafka /mnt/for-support --hash-names"),
}
EXIT_CODES = PATHS | exit_codes(ExitCode.UNSUPPORTED, ExitCode.REFUSED)


def metadump(
    context: Context,
    paths: Annotated[list[str], Argument(metavar="LOG_DIR... OUT",
        help="Log directories, and the directory to make. Several log directories become directories in it.",
        show_default=False)],
    hash_names: Annotated[bool, Option("--hash-names",
        help="Replace names of topics, groups and transactional ids, too.")] = False,
    output: Format = "text",
) -> int:  # fmt: skip
    """Copy log directories without keys, values and secrets.

    Keys, values and headers are replaced by other bytes of the same size. Equal keys stay equal. Headers of
    batches, offsets, timestamps, snapshots and checkpoints stay. Damage is copied too: verify reports the same
    findings for the copy. A broker starts on the copy. Snappy and lz4 batches change their size, and offset indexes
    follow.

    Internal topics keep their structure, but no users, hosts, client ids, secrets, principals or metadata of
    commits. Settings of topics and numbers stay; other settings may be passwords and are replaced. Names of topics,
    groups and transactional ids stay unless --hash-names is given. Stop the broker first. The source is only read.
    """
    if len(paths) < 2:
        raise UsageError(reason="metadump needs a LOG_DIR and OUT; see kafkalog metadump --help")
    run = Run(context, output)
    began = run.environment.clock()
    run.lock_warnings.about(*(path.rstrip("/") or "/" for path in paths[:-1]))
    made = copy_without_data(
        *(run.fs, paths[:-1], paths[-1]), hash_names=hash_names,
        begin=run.progress.expect, report=run.progress.advance,
    )  # fmt: skip
    seconds = run.environment.clock() - began
    run.progress.erase()
    run.show(made, lambda made: metadump_text(made, seconds, paint_of(run.out)))
    return run.end(partitions=made.partitions, records=made.counts.records, files=made.counts.files)


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
