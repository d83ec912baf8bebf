"""`kafkalog dump-index`: every index and sidecar file, its entries checked against the log."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    SELECTION_PANEL,
    Format,
    MaxBatchBytes,
    MaxOutputBytes,
    MaxRatio,
    OutputFormat,
    PathsArgument,
)
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits

command = typer.Typer(add_completion=False)


@command.command("dump-index")
def dump_index(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PathsArgument = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.", rich_help_panel=SELECTION_PANEL),
    ] = None,
    topic_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Only topics that match as a whole.", rich_help_panel=SELECTION_PANEL),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only this partition; may be repeated.", rich_help_panel=SELECTION_PANEL),
    ] = None,
    output: Format = OutputFormat.TEXT,
    max_batch_bytes: MaxBatchBytes = DEFAULT_LIMITS.max_batch_bytes,
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes,
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio,
) -> int:
    """Print indexes, snapshots, checkpoints and metadata files, each entry checked against the log.

    An entry is right, stale, out of order or beyond the end of the log; of an offset index it also says by which
    rule it was written: first offsets (before 2.0), append calls (2.0 to 4.0) or per batch (since 4.1).
    """
    from kafkalog_cli.actions.selection import Selection
    from kafkalog_cli.cli.dump_index_run import DumpIndexRun

    try:
        pattern = None if topic_pattern is None else re.compile(topic_pattern)
    except re.error as error:
        raise UsageError(reason=f"--topic-pattern {topic_pattern}: {error}") from error
    selection = Selection(frozenset(topic or ()), frozenset(partition or ()), pattern)
    limits = Limits(max_batch_bytes, max_output_bytes, max_ratio)
    return DumpIndexRun(environment_of(context), json=output is OutputFormat.JSON).run(paths or [], selection, limits)
