"""`kafkalog lookup-offset`: find the record at an offset."""

from typing import Annotated

from typer import Argument, Context, Option

from kafkalog_cli.cli.exit_codes import PATHS
from kafkalog_cli.cli.options import Format, PartitionOption, TopicOption

EXAMPLES = {
    "Print the record at offset 120": "kafkalog lookup-offset /var/lib/kafka/orders-0 120",
    "Print only the batch that holds it": "kafkalog lookup-offset /var/lib/kafka/orders-0 120 --batch",
}
EXIT_CODES = PATHS


def lookup_offset(  # noqa: PLR0913, PLR0917 options
    context: Context,
    path: Annotated[str, Argument(metavar="PATH", help="A partition directory, a log directory, or a segment file.")],
    offset: Annotated[int, Argument(metavar="OFFSET", help="The offset to find.")],
    topic: TopicOption = None,
    partition: PartitionOption = None,
    batch: Annotated[bool, Option("--batch", help="Print only the batch that holds the offset.")] = False,
    output: Format = "text",
) -> int:
    """Find the record at an offset.

    If no record has the offset, the next record is printed. The answer includes the way in which it was found. Without
    an index, or with a wrong one, the segment is read from its start, and the answer reports that.
    """
    from kafkalog_cli.cli.run import Run
    from kafkalog_cli.ops.look.lookup_offset import lookup_offset as find_offset
    from kafkalog_cli.ops.selection import select_one, selection_of
    from kafkalog_cli.output.found_record import found_lines, write_found

    run = Run(context, output)
    paths = run.directories_of([path])
    chosen = select_one(run.fs, paths[0] if len(paths) == 1 else path, selection_of(topic, partition))
    found = find_offset(run.fs, chosen, offset, batch_only=batch)
    run.lock_warnings.about_partitions(chosen.path)
    if run.lines is not None:
        write_found(run.lines, found, chosen)
    else:
        for line in found_lines(found):
            run.out.write(line)
    return run.end(answers=1)
