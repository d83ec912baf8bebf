"""Sessions of Spark as the source needs them: the right Java and Python, times in UTC."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.spark.failures import plain_error, told_plainly
from kafkalog_cli.spark.java import java_environment, need_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    master: str = DEFAULT_MASTER, *, name: str = "kafkalog", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with the source `kafkalog` registered, the running one if there is one.

    `settings` are Spark's own, stronger than SETTINGS. Workers run this Python, unless PYSPARK_PYTHON names another.
    Raises KafkalogError where PySpark or a Java for it is missing.
    """
    need_pyspark()
    from pyspark.sql import SparkSession

    from kafkalog_cli.spark.source import KafkalogDataSource

    if SparkSession.getActiveSession() is None:
        os.environ.update(java_environment(os.environ))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(KafkalogDataSource)
    return spark


@contextmanager
def command_session(
    master: str = DEFAULT_MASTER, *, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session for one command: what Java and Spark say by themselves is not heard, failures come as KafkalogErrors.

    It is stopped afterwards, if it was not there before. Raises KafkalogError where it does not start.
    """
    need_pyspark()
    from pyspark.sql import SparkSession

    with told_plainly(), _unlogged():
        if SparkSession.getActiveSession() is not None:
            yield session(master, settings=settings)
            return
        interrupt = signal.getsignal(signal.SIGINT)
        # Where a name is no view, Spark makes its warehouse: in the working directory, which may be a log directory.
        wanted = {"spark.sql.warehouse.dir": tempfile.gettempdir(), **(settings or {})}
        with tempfile.TemporaryFile() as talk:
            spark = _silently_started(master, wanted, talk)
        try:
            # PySpark's own handler talks to Java in the middle of an answer from it.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupt)
            yield spark
        finally:
            _stop(spark)


def _stop(spark: SparkSession) -> None:
    """Where Java has ended already, there is nothing to stop: what ended it, or why, is said elsewhere."""
    from py4j.protocol import Py4JError

    with warnings.catch_warnings(), suppress(Py4JError, ConnectionError):
        warnings.simplefilter("ignore")
        spark.stop()


@contextmanager
def _unlogged() -> Iterator[None]:
    """PySpark and Py4J log what they raise as well."""
    silenced = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(silenced)


def _silently_started(master: str, settings: Mapping[str, str] | None, talk: IO[bytes]) -> SparkSession:
    """A session whose Java, which has the descriptors that it was started with, writes into `talk`."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in kept:
            os.dup2(talk.fileno(), number)
        spark = session(master, settings=settings)
    except KafkalogError:
        raise
    except Exception as error:
        why = f"nothing answers at {master}" if "stopped SparkContext" in str(error) else _why(talk, error)
        raise KafkalogError(reason=f"Spark does not start: {why}") from None
    finally:
        for number, descriptor in kept.items():
            os.dup2(descriptor, number)
            os.close(descriptor)
    spark.sparkContext.setLogLevel("OFF")
    # Where Java ends in the middle, the thread that hears its accumulators would print a traceback.
    hearing = getattr(spark.sparkContext, "_accumulatorServer", None)
    if hearing is not None:
        hearing.handle_error = _say_nothing
    return spark


def _say_nothing(*_: object) -> None:
    """The failure itself comes as an exception where it is waited for."""


def _why(talk: IO[bytes], error: Exception) -> str:
    """What the exception says, else the last error that Spark logged; where Java ended, the last line that it said."""
    talk.seek(0)
    lines = [line.strip() for line in talk.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if "JAVA_GATEWAY_EXITED" in str(error):
        return lines[-1] if lines else "Java ended without a word"
    told = plain_error(error)
    if told is not None:
        return str(told).removeprefix("Spark: ")
    logged = [line.partition(" ERROR ")[2].partition(": ")[2] for line in lines if " ERROR " in line]
    return logged[-1] if logged else str(error)
