"""Sessions of Spark with the Java and Python that the source needs, and with times in UTC."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from kafkalog_cli.disk.temporary import temporary_file
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.spark.jobs import plain_error, plain_errors
from kafkalog_cli.spark.starting import (
    directory_for_spark,
    is_nameless,
    java_environment,
    locale_of_java,
    need_pyspark,
    options_of_directories,
    outside_working_directory,
    spark_home,
    start_variables,
    variables,
)

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

Sessions = Callable[[], "AbstractContextManager[SparkSession]"]
"""Starts a session; called only if there is work."""

DEFAULT_MASTER = "local[*]"
_NAME = "kafkalog"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""With a local master only this machine needs to reach Spark; by default, every host of its network can."""


def session(
    master: str = DEFAULT_MASTER, *, name: str = _NAME, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running session unchanged, else start one; the source `kafkalog` is registered in it.

    `settings` are Spark's own and override SETTINGS. Workers run this Python, unless PYSPARK_PYTHON names another.
    Raises KafkalogError if PySpark or a Java for it is missing, or a running session has other settings than these.
    """
    need_pyspark()
    spark = running_session()
    if spark is None:
        spark = _started(master, name, settings or {})
    else:
        _check_settings(spark, settings or {})
    register_sources(spark)
    return spark


def register_sources(spark: SparkSession) -> None:
    """Register the sources of this package in a session that does not have them: Spark warns of a second time."""
    from kafkalog_cli.spark.source import KafkalogDataSource
    from kafkalog_cli.spark.table_source import TableDataSource

    known = spark._jsparkSession.sessionState().dataSourceManager()
    ours = (KafkalogDataSource, TableDataSource)
    missing = [data_source for data_source in ours if not known.dataSourceExists(data_source.name())]
    if missing:
        with _active(spark):
            for source in missing:
                spark.dataSource.register(source)


def running_session() -> SparkSession | None:
    """Return the session of this process, whichever thread started it; None if there is none."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    known = getattr(SparkSession, "_instantiatedSession", None)
    return known if known is not None and getattr(known.sparkContext, "_jsc", None) is not None else None


def _started(master: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    directory_for_spark()
    os.environ.update(java_environment(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    is_local = master.startswith("local")
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    conf.setAll([*{**SETTINGS, **(LOOPBACK if is_local else {}), **settings}.items()])
    with variables(
        **spark_home(), **options_of_directories(), **locale_of_java(), **(_local_address() if is_local else {})
    ):
        if is_nameless():
            _log_in(conf)
        return SparkSession.builder.config(conf=conf).getOrCreate()


def _log_in(conf: SparkConf) -> None:
    """Start Java, and log a user without a passwd entry in, before Spark does so: Java's login has no name for them."""
    from pyspark import SparkContext

    ours: Any = SparkContext  # PySpark has no public way to start Java alone
    ours._ensure_initialized(conf=conf)
    users = ours._jvm.org.apache.hadoop.security.UserGroupInformation
    name = os.environ.get("HADOOP_USER_NAME") or os.environ.get("SPARK_USER") or f"uid-{os.getuid()}"
    users.setLoginUser(users.createRemoteUser(name))


def _local_address() -> dict[str, str]:
    """Return the variable with the address of processes that Java starts (`local-cluster`), unless the user set it."""
    return {} if "SPARK_LOCAL_IP" in os.environ else {"SPARK_LOCAL_IP": LOOPBACK["spark.driver.host"]}


def _check_settings(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Raise KafkalogError if the running session does not have these settings."""
    from pyspark.errors import PySparkException

    for key, required in settings.items():
        try:
            value = spark.conf.get(key)
        except PySparkException:  # neither set nor a setting of Spark
            value = None
        if value != required:
            has = "is not set there" if value is None else f"is {value} there"
            raise KafkalogError(
                reason=f"a Spark session is running, and its settings are not changed: {key} {has}, and {required} is"
                f" needed. Set it with spark.conf.set({key!r}, {required!r}), or end that session with spark.stop()"
            )


@contextmanager
def _beside(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a new session for a command in the same Spark as the running session, with its own settings.

    Raises KafkalogError if settings that are fixed when Spark starts have other values there.
    """
    own = spark.newSession()
    of_session = {key: value for key, value in settings.items() if own.conf.isModifiable(key)}
    _check_settings(own, {key: value for key, value in settings.items() if key not in of_session})
    for key, value in {"spark.sql.session.timeZone": SETTINGS["spark.sql.session.timeZone"], **of_session}.items():
        own.conf.set(key, value)
    with _active(own):
        yield own


@contextmanager
def cloned_session(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a copy of a session, with its settings, views and functions; what changes in the copy stays in it.

    `settings` are those of the copy that differ.
    """
    ours: Any = type(spark)
    own = ours(spark.sparkContext, spark._jsparkSession.cloneSession())
    for key, value in settings.items():
        own.conf.set(key, value)
    with _active(own):
        yield own


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make this the active session, in which Spark searches for data sources; restore the earlier one afterwards."""
    sessions: Any = spark._jvm.org.apache.spark.sql.SparkSession
    ours: Any = type(spark)
    active, of_java = ours._activeSession, sessions.getActiveSession()  # PySpark's field, which createDataFrame changes
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if of_java.isDefined():
            sessions.setActiveSession(of_java.get())
        else:
            sessions.clearActiveSession()
        ours._activeSession = active


@contextmanager
def command_session(
    master: str = DEFAULT_MASTER, *, settings: Mapping[str, str] | None = None, is_small: bool = True
) -> Iterator[SparkSession]:
    """Yield a session for one command: output of Java and Spark is suppressed, failures are raised as KafkalogErrors.

    It has no sources: to register them, Spark starts a Python that searches for others.

    `is_small`: Spark's Java has little to compute, because the rows are few or do not go through Java.
    A session that this function started is stopped afterwards. Raises KafkalogError if Spark does not start.
    """
    need_pyspark()
    with plain_errors(), _unlogged():
        running = running_session()
        if running is not None:
            with _beside(running, settings or {}) as spark:
                yield spark
            return
        interrupt = signal.getsignal(signal.SIGINT)
        # For a name that is not a view, Spark creates its warehouse in the working directory, which may be a log
        # directory.
        required = {"spark.sql.warehouse.dir": directory_for_spark(), **(settings or {})}
        with temporary_file() as talk, variables(**start_variables(required, is_small=is_small)):
            spark = _silently_started(master, required, talk)
        try:
            # PySpark's own handler would call Java in the middle of an answer from Java.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupt)
            yield spark
        finally:
            _stop(spark)


def _stop(spark: SparkSession) -> None:
    """Stop the session; ignore errors if Java has ended already, because its end is reported elsewhere."""
    from py4j.protocol import Py4JError

    with warnings.catch_warnings(), suppress(Py4JError, ConnectionError):
        warnings.simplefilter("ignore")
        spark.stop()


@contextmanager
def _unlogged() -> Iterator[None]:
    """Suppress logging: PySpark and Py4J also log the exceptions that they raise."""
    silenced = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(silenced)


def _silently_started(master: str, settings: Mapping[str, str], talk: IO[bytes]) -> SparkSession:
    """Start a session with Java's output redirected into `talk`: Java inherits the descriptors of this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in kept:
            os.dup2(talk.fileno(), number)
        with outside_working_directory():
            spark = _started(master, _NAME, settings)
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
    # If Java ends unexpectedly, the thread that receives its accumulators would print a traceback.
    hearing = getattr(spark.sparkContext, "_accumulatorServer", None)
    if hearing is not None:
        hearing.handle_error = lambda *_: None  # the thread that waits for the job raises the failure
    return spark


def _why(talk: IO[bytes], error: Exception) -> str:
    """Return why Spark did not start: the exception's message, else the last error that Spark logged.

    If Java ended, the last line of its output is returned.
    """
    talk.seek(0)
    lines = [line.strip() for line in talk.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if "JAVA_GATEWAY_EXITED" in str(error):
        return lines[-1] if lines else "Java ended without a message"
    failure = plain_error(error)
    if failure is not None:
        return str(failure).removeprefix("Spark: ")
    logged = [line.partition(" ERROR ")[2].partition(": ")[2] for line in lines if " ERROR " in line]
    return logged[-1] if logged else str(error)
