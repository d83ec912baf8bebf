"""Jobs of one task each, and the failures of Spark's jobs as errors, without Java's traces."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from kafkalog_cli import errors
from kafkalog_cli.errors import NO_ROOM, KafkalogError, NoSpace, error_saying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(
    r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*?))?(?=\s*\Z|\n\s*\n|\n\s+at |\n SQLSTATE: )",
    re.MULTILINE | re.DOTALL,
)
_OF_JAVA = re.compile(r"\n: [\w.$]+: (.*)")
_OURS = "kafkalog_cli.errors."
_IN_ONE_LINE = re.compile(rf"(?:^|: )(?P<error>{re.escape(_OURS)}\w+: )", re.MULTILINE)
_ERRNO = re.compile(r"\[Errno (\d+)\] ")
_JAVA_ENDED = "Spark: its Java has ended in the middle: it was killed, or had no memory left"


class Jobs:
    """Jobs of one task each, which can be cancelled together."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._context = spark.sparkContext
        self._name, self._group = name, token_hex()

    def run(self, function: Callable[[Any], Any], value: Any, executors: Sequence[str] = ()) -> Any:
        """Return what the function returns for the value in a task, which runs on one of these executors if it can.

        Raises KafkalogError for failures of Spark, and for exceptions of the function.
        """
        with plain_errors():
            self._context.setJobGroup(self._group, self._name)
            rdd = self._preferring(executors, value) if executors else self._context.parallelize([value], 1)
            return rdd.map(function).collect()[0]

    def _preferring(self, executors: Sequence[str], value: Any) -> Any:
        """Return an RDD of one value with a preferred location, which PySpark's own functions do not take.

        The location's form is that of Spark's ExecutorCacheTaskLocation. Without a real host name Spark does not turn
        to another executor of the same host, which may see other disks.
        """
        from pyspark.core.rdd import RDD
        from pyspark.serializers import CPickleSerializer

        context: Any = self._context
        java, serializer = context._jvm, CPickleSerializer()
        locations = java.PythonUtils.toSeq([f"executor__{executor}" for executor in executors])
        rows = java.PythonUtils.toSeq([java.scala.Tuple2(bytearray(serializer.dumps(value)), locations)])
        rdd = context._jsc.sc().makeRDD(rows, context.emptyRDD()._jrdd.classTag())
        return RDD(rdd.toJavaRDD(), context, serializer)

    def cancel(self) -> None:
        """End the jobs that are running."""
        from py4j.protocol import Py4JError

        with suppress(Py4JError, ConnectionError):  # Java has ended, also by an interrupt
            self._context.cancelJobGroup(self._group)


@contextmanager
def without_traceback() -> Iterator[None]:
    """Let Spark's exception have only the class and the message of a KafkalogError that a worker raises.

    Other exceptions keep their tracebacks. A worker ends after it has sent an exception, so its variable is read once.
    """
    try:
        yield
    except KafkalogError:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


@contextmanager
def plain_errors() -> Iterator[None]:
    """Re-raise Spark's exceptions as KafkalogError, with the exit code of the error in the task.

    An interrupt becomes KeyboardInterrupt, a lost connection means that Spark's Java ended. Exceptions that are neither
    Spark's nor kafkalog's pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if _came_of_an_interrupt(error):
            raise KeyboardInterrupt from None
        if isinstance(error, ConnectionRefusedError | ConnectionResetError):
            raise KafkalogError(reason=_JAVA_ENDED) from None
        if isinstance(error, KafkalogError | OSError):
            raise
        plain = plain_error(error)
        if plain is None:
            raise
        raise plain from None


def _came_of_an_interrupt(error: BaseException) -> bool:
    """Whether the error came from the cleanup after Ctrl-C, which ends Java as well."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, KeyboardInterrupt):
            return True
        at = at.__context__
    return False


def plain_error(error: BaseException) -> KafkalogError | None:
    """Return the KafkalogError behind an exception of PySpark or Py4J; None for any other exception.

    An error from a worker has its class and message, but no other details.
    """
    if isinstance(error, KafkalogError):
        return error
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return None
    if type(error).__name__ == "Py4JNetworkError":
        return KafkalogError(reason=_JAVA_ENDED)
    text = str(error)
    ours = _IN_ONE_LINE.search(text.partition(_TRACEBACK)[0])
    if ours is not None:
        return _raised(text[ours.start("error") :])
    if _TRACEBACK in text:
        return _raised(text.rpartition(_TRACEBACK)[2])
    of_java = _OF_JAVA.search(text)
    message = without_state(_first_line(text if of_java is None else of_java[1]))
    return KafkalogError(reason=f"Spark: {message or type(error).__name__}")


def is_of_a_worker(text: str) -> bool:
    """Whether the text of an exception has what a worker raised."""
    return _TRACEBACK in text or _IN_ONE_LINE.search(text) is not None


def _raised(trace: str) -> KafkalogError:
    """Return the error at the end of a Python traceback: its lines that are not indented."""
    match = _RAISED.search(trace)
    if match is None:
        return KafkalogError(reason=f"Spark: {_first_line(trace)}")
    kind, message = match["kind"], (match["message"] or "").rstrip()
    known = getattr(errors, kind.removeprefix(_OURS), None) if kind.startswith(_OURS) else None
    if isinstance(known, type) and issubclass(known, KafkalogError):
        return error_saying(known, message)
    number = _ERRNO.match(message)
    if number is not None:
        reason = message[number.end() :]
        if int(number[1]) in NO_ROOM:
            _, _, path = reason.partition(": ")
            return NoSpace(path=path.strip("'") or "the output", reason="a task of Spark wrote to it")
        return KafkalogError(reason=reason)
    return KafkalogError(reason=f"a task of Spark failed: {kind}: {_first_line(message)}")


def without_state(text: str) -> str:
    """Return the sentences of Spark's message, without SQLSTATE and the text after it."""
    return re.split(r"\s*SQLSTATE:|\n", text, maxsplit=1)[0]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
