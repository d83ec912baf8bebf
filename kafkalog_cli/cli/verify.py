"""`kafkalog verify`: check files, partitions and whole log directories, and explain each finding."""

from enum import Enum
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    BrokerConfigOption,
    ConfigOption,
    Format,
    Jobs,
    MaxBatchBytes,
    MaxOutputBytes,
    MaxRatio,
    MetadataOption,
    Now,
    OutputFormat,
    PartitionOption,
    PathsArgument,
    TopicOption,
    TopicPatternOption,
    selection_of,
)
from kafkalog_cli.cli.spark_options import DEFAULT_MASTER, Conf, EngineName, EngineOption, Master, engine_of
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.limits import DEFAULT_LIMITS

command = typer.Typer(add_completion=False)


class LevelOption(Enum):
    """How thorough the checks are."""

    QUICK = "quick"
    NORMAL = "normal"
    DEEP = "deep"


LevelChoice = Annotated[
    LevelOption,
    typer.Option(
        "--level",
        help="quick: names, sizes, batch headers, checkpoints; normal: also CRCs, indexes, epochs, snapshots;"
        " deep: also decompression and every record.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="DIR",
        help="Compare each partition with its replica or backup in DIR: a log directory, or one partition's"
        " directory under any name.",
    ),
]


@command.command("verify")
def verify(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PathsArgument = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    level: LevelChoice = LevelOption.NORMAL,
    against: Against = None,
    config: ConfigOption = None,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    jobs: Jobs = 0,
    max_batch_bytes: MaxBatchBytes = DEFAULT_LIMITS.max_batch_bytes,
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes,
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio,
    engine: EngineOption = EngineName.LOCAL,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only warnings and worse.")] = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Check files, partitions and whole log directories; nothing is changed, and no lock is taken.

    Each finding says where it is, what a broker would do about it, and what to do next. Exit 3: only warnings, or a
    damaged tail that a broker cuts off; 4: corruption.
    """
    from kafkalog_cli.actions.selection import Selection
    from kafkalog_cli.actions.verify.partition import Level
    from kafkalog_cli.cli.verify_run import VerifyOptions, VerifyRun
    from kafkalog_cli.format.limits import Limits

    if against is not None and engine is EngineName.SPARK:
        raise UsageError(reason="--against goes with --engine local: it compares two partitions in one process")
    options = VerifyOptions(
        selection_of(topic, partition, topic_pattern) or Selection(),
        Level(level.value),
        against,
        metadata,
        now,
        jobs,
        Limits(max_batch_bytes, max_output_bytes, max_ratio),
        quiet,
        output.is_json,
        engine_of(engine, master, conf, jobs),
        config=config or (),
        broker_config=broker_config,
    )
    return VerifyRun(environment_of(context), options).run(paths or [])
