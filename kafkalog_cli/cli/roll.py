"""`kafkalog roll`: start a new segment where a broker would."""

from typing import Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import CHANGE
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.options import Metrics, PartitionPaths
from kafkalog_cli.cli.session_groups import Pacing, Printing, Safety, WriterSettings, session_options

EXAMPLES = (
    ("Roll the segments that are due", "kafkalog roll /var/lib/kafka"),
    (
        "Close the active segment of a topic, for compaction",
        "kafkalog roll /var/lib/kafka --topic orders --force",
    ),
)
EXIT_CODES = CHANGE


def roll(  # noqa: PLR0913
    context: Context,
    *,
    paths: PartitionPaths = None,
    topics: Topics,
    force: Annotated[bool, Option("--force", help="Roll even if a broker would not roll yet.")] = False,
    settings: WriterSettings,
    safety: Safety,
    pacing: Pacing,
    metrics: Metrics = None,
    printing: Printing,
) -> int:
    """Start a new segment where a broker would.

    The decision is that of a broker before it appends a small record now. It rolls if the active segment has reached
    segment.bytes, if an index is full, or if the offsets reach 2^31. It also rolls if segment.ms have passed since the
    timestamps of the segment's first batch. An active segment without records is never rolled.
    """
    from kafkalog_cli.cli.verbs import run_verb
    from kafkalog_cli.ops.roll import ROLL, roll_partition
    from kafkalog_cli.output.log_change_views import roll_view

    environment: Environment = context.obj
    options = session_options(environment, topics, safety, settings=settings, pacing=pacing)
    return run_verb(
        *(context, ROLL, roll_view(), options, paths or [], roll_partition),
        printing=printing, metrics=metrics, force=force,
    )  # fmt: skip
