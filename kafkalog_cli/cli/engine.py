"""Where a command works on its partitions: in threads and processes of this machine, or in tasks of Spark."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import DEFAULT_MASTER, Spark
from kafkalog_cli.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog_cli.ops.map_each import MapEach


def engine_of(
    environment: Environment, spark: Spark, jobs: int = 0, *, as_json: bool
) -> "AbstractContextManager[MapEach]":
    """Return the context of the `map_each` of these options. Spark starts with its first item, and ends with it.

    With `as_json` nothing shows that Spark starts. Raises UsageError for options that exclude each other,
    KafkalogError.
    """
    if spark.engine == "local":
        if spark.conf or spark.master != DEFAULT_MASTER:
            raise UsageError(reason="--master and --conf need --engine spark")
        from kafkalog_cli.ops.map_each import map_each

        return nullcontext(map_each)
    start = partial(spark_session, environment, spark.master, spark_settings(spark.conf), as_json=as_json)
    from kafkalog_cli.spark.map_each import on_spark
    from kafkalog_cli.spark.starting import need_pyspark

    need_pyspark()
    return on_spark(start, jobs)


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """Return the settings of --conf. Raises UsageError."""
    settings = {}
    for setting in conf or ():
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise UsageError(reason=f"--conf {setting}: NAME=VALUE")
        settings[name] = value
    return settings


@contextmanager
def spark_session(
    environment: Environment, master: str, settings: Mapping[str, str], *, as_json: bool, is_small: bool = True
) -> "Iterator[SparkSession]":
    """Open a session of Spark, as `command_session` does; a terminal shows the start, but not for JSON output."""
    from kafkalog_cli.output.progress import Waiting
    from kafkalog_cli.spark.sessions import command_session

    with ExitStack() as stack:
        with Waiting(environment.stderr, "starting Spark", is_shown=not as_json):
            spark = stack.enter_context(command_session(master, settings=settings, is_small=is_small))
        yield spark
