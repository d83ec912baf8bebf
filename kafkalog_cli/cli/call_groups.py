"""Groups of options of commands that call a verb, or run on Spark; `groups.py` has those of all that read."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import (
    AssumeOffline,
    BrokerConfigOption,
    ConfigOption,
    DryRun,
    Format,
    IfOffline,
    IoBytesPerS,
    Jobs,
    MetadataOption,
    Now,
    OutputFormat,
    Quiet,
    TimeBudget,
    Verbose,
    Wait,
    WriterBrokerConfig,
    WriterMetadata,
)
from kafkalog_cli.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog_cli.ops.map_each import MapEach

spark_option = partial(Option, rich_help_panel="Spark")
Master = Annotated[str, spark_option(metavar="URL",
    help="Place where Spark runs: local[N] for N threads here, spark://... for a cluster.")]  # fmt: skip
Conf = Annotated[list[str] | None, spark_option("--conf", metavar="NAME=VALUE",
    help="Setting of Spark; may be repeated.")]  # fmt: skip
DEFAULT_MASTER = "local[*]"


class EngineName(Enum):
    """The engine that works on the partitions."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[EngineName, spark_option("--engine",
    help="local: threads and processes of this machine. spark: tasks of Spark.")]  # fmt: skip


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """Return the settings of --conf. Raises UsageError."""
    settings = {}
    for one in conf or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise UsageError(reason=f"--conf {one}: NAME=VALUE")
        settings[name] = value
    return settings


@contextmanager
def shown_session(
    environment: Environment, master: str, settings: Mapping[str, str], *, as_json: bool, is_small: bool = True
) -> "Iterator[SparkSession]":
    """Hold a session of Spark, as `command_session` does; a terminal shows the start, but not for JSON output."""
    from kafkalog_cli.output.progress import Waiting
    from kafkalog_cli.spark.sessions import command_session

    with ExitStack() as held:
        with Waiting(environment.stderr, "starting Spark", is_shown=not as_json):
            spark = held.enter_context(command_session(master, settings=settings, is_small=is_small))
        yield spark


class SettingSources(NamedTuple):
    """The sources of topic and broker settings."""

    config: ConfigOption = None
    broker_config: BrokerConfigOption = None
    metadata: MetadataOption = None


class WriterSettings(NamedTuple):
    """The sources of topic and broker settings of a command that changes logs."""

    config: ConfigOption = None
    broker_config: WriterBrokerConfig = None
    metadata: WriterMetadata = None


class Safety(NamedTuple):
    """The clock, dry runs and locks."""

    now: Now = None
    dry_run: DryRun = False
    wait: Wait = 0
    assume_offline: AssumeOffline = False


class Pacing(NamedTuple):
    """What a timer needs: limits of time and load, and silence beside a broker."""

    jobs: Jobs = 0
    time_budget: TimeBudget = None
    io_bytes_per_s: IoBytesPerS = None
    if_offline: IfOffline = False


class Spark(NamedTuple):
    """Whether tasks of Spark do the work."""

    engine: EngineOption = EngineName.LOCAL
    master: Master = DEFAULT_MASTER
    conf: Conf = None


class OnSpark(NamedTuple):
    """Spark, for the commands that only it carries out."""

    master: Master = DEFAULT_MASTER
    conf: Conf = None

    def sessions(
        self, environment: Environment, *, as_json: bool
    ) -> "Callable[[], AbstractContextManager[SparkSession]]":
        """Return the function that starts Spark, with a line on the terminal. Raises UsageError for a wrong --conf."""
        return partial(shown_session, environment, self.master, spark_settings(self.conf), as_json=as_json)


class Printing(NamedTuple):
    """How results are printed."""

    verbose: Verbose = False
    quiet: Quiet = False
    output: Format = OutputFormat.TEXT


def engine_of(
    environment: Environment, spark: Spark, jobs: int = 0, *, as_json: bool
) -> "AbstractContextManager[MapEach]":
    """Return the context of the `map_each` of these options. Spark starts with its first item, and ends with it.

    With `as_json` nothing shows that Spark starts. Raises UsageError for options that exclude each other,
    KafkalogError.
    """
    if spark.engine is EngineName.LOCAL:
        if spark.conf or spark.master != DEFAULT_MASTER:
            raise UsageError(reason="--master and --conf need --engine spark")
        from kafkalog_cli.ops.map_each import map_each

        return nullcontext(map_each)
    sessions = OnSpark(spark.master, spark.conf).sessions(environment, as_json=as_json)
    from kafkalog_cli.spark.map_each import on_spark
    from kafkalog_cli.spark.starting import need_pyspark

    need_pyspark()
    return on_spark(sessions, jobs)
