"""`kafkalog lookup-time`: find the first record at or after a time, and answer other questions about time."""

from typing import Annotated

import typer
from typer.core import TyperCommand

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    TIME_HELP,
    Format,
    Now,
    OutputFormat,
    PartitionOption,
    TopicOption,
    now_of,
    time_of,
)
from kafkalog_cli.errors import UsageError

command = typer.Typer(add_completion=False)


@command.command("lookup-time", cls=TyperCommand, context_settings={"ignore_unknown_options": True})
def lookup_time(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A partition directory, or a log directory.")],
    time: Annotated[str | None, typer.Argument(metavar="[TIME]", help=f"The time: {TIME_HELP}.")] = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    earliest: Annotated[bool, typer.Option("--earliest", help="The first offset of the log.")] = False,
    latest: Annotated[bool, typer.Option("--latest", help="The offset that the next record gets.")] = False,
    max_timestamp: Annotated[
        bool, typer.Option("--max-timestamp", help="The first record with the largest timestamp.")
    ] = False,
    before: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="At most N segment starts before the time, by file times (until 0.10)."),
    ] = None,
    now: Now = None,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Find the first record at or after a time; say where a broker would answer otherwise, and how it was found.

    A broker believes its time index and looks into one segment only; the answer here is the record itself.
    """
    from kafkalog_cli.cli.lookup_run import TimeQuestion, answer_time, one_partition

    environment = environment_of(context)
    if sum((time is not None, earliest, latest, max_timestamp)) != 1 or (max_timestamp and before is not None):
        raise UsageError(reason="lookup-time wants one of TIME, --earliest, --latest, --max-timestamp")
    time_ms = None if time is None else time_of(environment, time, now)
    if time_ms is not None and time_ms < 0:
        # Kafka's own tools take -1 and -2 for the latest and the earliest offset.
        raise UsageError(reason="lookup-time wants a time since 1970, or --earliest, --latest, --max-timestamp")
    clock_ms = environment.now_ms() if now is None else now_of(environment, now)
    question = TimeQuestion(time_ms, earliest, latest, max_timestamp, before, clock_ms)
    chosen = one_partition(environment, path, topic, partition)
    return answer_time(environment, chosen, question, as_json=output.is_json)
