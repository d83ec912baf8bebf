"""`kafkalog lookup-time`: find the first record at or after a time, and answer other questions about time."""

import re
from typing import Annotated, Any

from typer import Argument, Context, Option

from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.environment import Environment, now_of, time_of
from kafkalog_cli.cli.exit_codes import PATHS, exit_codes
from kafkalog_cli.cli.options import TIME_HELP, Format, Now, OutputFormat, PartitionOption, TopicOption, selection_of
from kafkalog_cli.cli.single_files import with_single_files
from kafkalog_cli.errors import ExitCode, UsageError

EXAMPLES = (
    ("Find the first record of a day", "kafkalog lookup-time /var/lib/kafka/orders-0 2023-11-14"),
    (
        "Find it in each partition of a topic",
        "kafkalog lookup-time /var/lib/kafka --topic orders 2023-11-14",
    ),
    (
        "Find the record with the largest timestamp",
        "kafkalog lookup-time /var/lib/kafka/orders-0 --max-timestamp",
    ),
)
EXIT_CODES = PATHS | exit_codes(ExitCode.PARTIAL)


def lookup_time(  # noqa: PLR0913, PLR0917 options
    context: Context,
    path: Annotated[str, Argument(metavar="PATH",
        help="A partition directory, a log directory with --topic, or a segment file.")],
    time: Annotated[str | None, Argument(metavar="[TIME]", help=f"The time: {TIME_HELP}.")] = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    earliest: Annotated[bool, Option("--earliest", help="Print the first offset of the log.")] = False,
    latest: Annotated[bool, Option("--latest", help="Print the offset that the next record will get.")] = False,
    max_timestamp: Annotated[bool, Option("--max-timestamp",
        help="Print the first record with the largest timestamp.")] = False,
    before: Annotated[int | None, Option(metavar="N", min=1,
        help="Print at most N segment starts before the time, by file times, as brokers did until 0.10.")] = None,
    now: Now = None,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Find the first record at or after a time.

    A broker trusts its time index and searches one segment only. The answer here is the record itself. If a broker
    would answer with another offset, that is reported too. A topic with several partitions has one line for each.
    """
    from kafkalog_cli.cli.lookup_run import TimeQuestion, TopicAnswers, answer_time
    from kafkalog_cli.ops.selection import select_of_topics

    environment: Environment = context.obj
    if sum((time is not None, earliest, latest, max_timestamp)) != 1 or (max_timestamp and before is not None):
        raise UsageError(reason="lookup-time needs one of TIME, --earliest, --latest, --max-timestamp")
    time_ms = None if time is None else time_of(environment, time, now)
    if time_ms is not None and time_ms < 0:
        # Kafka's own tools take -1 and -2 for the latest and the earliest offset.
        raise UsageError(reason="lookup-time needs a time since 1970, or --earliest, --latest, --max-timestamp")
    clock_ms = environment.now_ms() if now is None else now_of(environment, now)
    question = TimeQuestion(time_ms, earliest, latest, max_timestamp, before, clock_ms)
    selection = selection_of(topic, partition, None)
    environment, paths = with_single_files(environment, [path])
    chosen = select_of_topics(environment.fs, paths, selection)
    if len(chosen) == 1:
        return answer_time(environment, chosen[0], question, as_json=output.is_json)
    return TopicAnswers(environment, question, as_json=output.is_json).print_all(chosen)


class Parser(Command):
    """Takes a time such as -15m as an argument. A space before -2h keeps it from being read as -2 and -h."""

    ignore_unknown_options = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, [f" {word}" if re.fullmatch(r"-\d+h", word) else word for word in args])
