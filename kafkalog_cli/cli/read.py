"""`kafkalog read`: print the records of a partition as a consumer would get them."""

from enum import Enum
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    LIMITS_PANEL,
    OUTPUT_PANEL,
    SELECTION_PANEL,
    TIME_HELP,
    Format,
    IsolationLevel,
    IsolationOption,
    MaxOutputBytes,
    MaxRatio,
    Now,
    OnePartition,
    OutputFormat,
    PartitionOption,
    ToOffset,
    TopicOption,
    Until,
)
from kafkalog_cli.format.limits import DEFAULT_LIMITS

DEFAULT_CHUNK_BYTES = 2 << 20
LARGEST_CHUNK_BYTES = (1 << 31) - 3
"""The most bytes that a fetch response can hold."""


class Framing(Enum):
    """The form of the output: lines, or fetch responses."""

    LINES = "lines"
    FETCH = "fetch"


command = typer.Typer(add_completion=False)


@command.command("read")
def read(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    path: OnePartition,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    start: Annotated[str, typer.Option("--from", metavar="OFFSET", rich_help_panel=SELECTION_PANEL,
        help="From this offset on: a number, earliest or latest.")] = "earliest",
    from_time: Annotated[str | None, typer.Option(metavar="TIME", rich_help_panel=SELECTION_PANEL,
        help=f"From the first record at or after this time on: {TIME_HELP}.")] = None,
    to_offset: ToOffset = None,
    until: Until = None,
    max_records: Annotated[int | None, typer.Option(metavar="N", min=1, rich_help_panel=SELECTION_PANEL,
        help="Stop after so many records.")] = None,
    isolation: IsolationOption = IsolationLevel.READ_UNCOMMITTED,
    now: Now = None,
    print_: Annotated[str, typer.Option("--print", metavar="FIELD,...", rich_help_panel=OUTPUT_PANEL,
        help="What a line of text has: timestamp, partition, offset, epoch, headers, key, value.")] = "value",
    output_format: Format = OutputFormat.TEXT,
    framing: Annotated[Framing, typer.Option(rich_help_panel=OUTPUT_PANEL,
        help="fetch: whole batches as they lie, in the fetch responses of 0.7 (MessageSetSend).")] = Framing.LINES,
    chunk_bytes: Annotated[int, typer.Option(metavar="BYTES", min=1, max=LARGEST_CHUNK_BYTES,
        rich_help_panel=LIMITS_PANEL,
        help="Read, and with --framing fetch answer, so much at a time; it doubles until one batch fits.",
        )] = DEFAULT_CHUNK_BYTES,
    max_chunk_bytes: Annotated[int, typer.Option(metavar="BYTES", min=1, max=LARGEST_CHUNK_BYTES,
        rich_help_panel=LIMITS_PANEL,
        help="But no further than this: at a larger batch the reading ends, with exit code 1.",
        )] = DEFAULT_LIMITS.max_batch_bytes,
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes,
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio,
) -> int:  # fmt: skip
    """Print the records of a partition as a consumer gets them: no control records, none before the log's start.

    What is damaged is left out and told on stderr, with exit code 3 (at the log's end) or 4.
    """
    from kafkalog_cli.cli.read_run import ReadOptions, ReadRun

    environment = environment_of(context)
    options = ReadOptions(
        start, from_time, to_offset, until, now, max_records, isolation.value, print_,
        output_format.is_json, framing is Framing.FETCH, chunk_bytes, max_chunk_bytes,
        max_output_bytes, max_ratio,
    )  # fmt: skip
    return ReadRun(environment, options).run(path, topic, partition)
