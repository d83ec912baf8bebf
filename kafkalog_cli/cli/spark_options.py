"""Options of Spark that several commands share, and the engine that they select."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated

from kafkalog_cli.cli.declared import Option
from kafkalog_cli.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog_cli.cli.environment import Environment
    from kafkalog_cli.ops.engine import Engine

SPARK_PANEL = "Spark"
Master = Annotated[
    str,
    Option(
        metavar="URL",
        help="Place where Spark runs: local[N] for N threads here, spark://... for a cluster.",
        rich_help_panel=SPARK_PANEL,
    ),
]
Conf = Annotated[
    list[str] | None,
    Option("--conf", metavar="NAME=VALUE", help="Setting of Spark; may be repeated.", rich_help_panel=SPARK_PANEL),
]
DEFAULT_MASTER = "local[*]"


class EngineName(Enum):
    """The engine that works on the partitions."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    EngineName,
    Option(
        "--engine",
        help="local: threads of this process. spark: a task of Spark per partition, --jobs at a time (0: one per"
        " core).",
        rich_help_panel=SPARK_PANEL,
    ),
]


def engine_of(  # noqa: PLR0913
    engine: EngineName,
    master: str,
    conf: list[str] | None,
    jobs: int,
    *,
    changes: bool = False,
    io_bytes_per_s: str | None = None,
    assume_offline: bool = False,
    environment: Environment | None = None,
    as_json: bool = False,
) -> Engine:
    """Return the engine of these options; a terminal of the environment shows that Spark starts.

    Raises UsageError for options that exclude each other, KafkalogError without PySpark.
    """
    from kafkalog_cli.ops.engine import THREADS

    if engine is EngineName.LOCAL:
        if conf or master != DEFAULT_MASTER:
            raise UsageError(reason="--master and --conf need --engine spark")
        return THREADS
    settings = spark_settings(conf)
    if changes and settings.get("spark.speculation", "false").strip().lower() != "false":
        raise UsageError(reason="spark.speculation must be off: only a single task may change a log")
    if assume_offline:
        raise UsageError(reason="--assume-offline needs --engine local: each task of Spark needs locks that work")
    from kafkalog_cli.spark.engine import SparkEngine
    from kafkalog_cli.spark.starting import need_pyspark

    need_pyspark()
    sessions = None
    if environment is not None:
        sessions = partial(shown_session, environment, master, settings, as_json=as_json)
    found = SparkEngine(master, settings, jobs, sessions)
    if io_bytes_per_s is not None and found.known_slots is None:
        raise UsageError(reason="--io-bytes-per-s on a cluster needs --jobs N: N tasks share it")
    return found


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
) -> Iterator[SparkSession]:
    """Hold a session of Spark, as `command_session` does; a terminal shows the start, but not for JSON output."""
    from kafkalog_cli.output.progress import Waiting
    from kafkalog_cli.spark.sessions import command_session

    with ExitStack() as held:
        with Waiting(environment.stderr, "starting Spark", is_shown=not as_json):
            spark = held.enter_context(command_session(master, settings=settings, is_small=is_small))
        yield spark
