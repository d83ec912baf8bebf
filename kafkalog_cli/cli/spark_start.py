"""Starts Spark for a command, with a line on the terminal while that takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kafkalog_cli.output.progress import Waiting
from kafkalog_cli.spark.sessions import command_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog_cli.cli.environment import Environment


@contextmanager
def shown_session(
    environment: Environment, master: str, settings: Mapping[str, str], *, as_json: bool, is_small: bool = True
) -> Iterator[SparkSession]:
    """Hold a session of Spark, as `command_session` does; JSON output has no line about the start."""
    with ExitStack() as held:
        with Waiting(environment.stderr, "starting Spark", is_shown=not as_json):
            spark = held.enter_context(command_session(master, settings=settings, is_small=is_small))
        yield spark
